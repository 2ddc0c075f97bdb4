"""The commands `reproduce ...`: the paper's tables, figures and claims, and the error rates of the diagnostics."""

from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from evencover.cli.terminal import print_json, print_result, status

if TYPE_CHECKING:
    from collections.abc import Callable

    from evencover.inputs import StageProgress
    from evencover.reproduction.coverage_tables import Row
    from evencover.reproduction.verdict_rates import AuditRates

    RatesByRows = dict[str, dict[int, AuditRates]]


def tables(*, repeats: int = 0, seed: int = 0, json: bool = False) -> None:
    """Print the paper's table of coverages twice: as its code ran (identical digits), and as its text describes.

    Parameters
    ----------
    repeats
        Also average over this many calibration sets, 2 or more; the paper uses one.
    seed
        Seed of these calibration sets; unused without --repeats.
    json
        Print the tables as JSON, unrounded, with the mean widths.
    """
    from evencover.inputs.arrays import check_seed
    from evencover.reproduction.coverage_tables import as_run, as_written, repeated

    check_seed(seed)
    all_tables = {"as run": as_run(), "as written": as_written()}
    if repeats:
        with status() as report_progress:
            for name in list(all_tables):
                report_progress(f"computing {repeats} calibration sets, {name}")
                rows = repeated(repeats, seed=seed, as_written=name == "as written")
                all_tables[f"{name}, {repeats} calibration sets"] = rows
    if json:
        print_json({name: [row.as_data() for row in rows] for name, rows in all_tables.items()})
    else:
        print_result(_tables_text(all_tables))


def figures(*, output: Path, repeats: int = 100, json: bool = False) -> None:
    """Draw every synthetic figure of the paper, as PNG and SVG.

    Parameters
    ----------
    output
        Folder for the figures; created if missing.
    repeats
        Repeats for the coverage figures, 2 or more; the paper uses 10.
    json
        Print the paths of the files as JSON.
    """
    from evencover.reproduction.paper_figures import write_figures

    paths = []
    with status() as report_progress:
        report_progress("drawing figures")
        for path in write_figures(output, repeats=repeats):
            paths.append(str(path))
            if not json:
                print_result(paths[-1])
            report_progress(f"drawing figures; last: {path.name}")
    if json:
        print_json(paths)


def claims(*, repeats: int = 400, seed: int = 0, json: bool = False) -> int:
    """Check the paper's eight claims on synthetic data, one line each.

    The exit status is 0 if all claims hold, 3 if one fails, and 4 if none fails but one needs more repeats to be shown.

    Parameters
    ----------
    repeats
        Number of random data sets for each check, 2 or more; each has 1000 calibration and 1000 test rows. More
        repeats make the checks more precise.
    seed
        Seed of the random data sets.
    json
        Print the claims and the coverage of each group as JSON.
    """
    from evencover.reproduction.claims import claims as papers_claims

    checked = []
    with status() as report_progress:
        for claim in papers_claims(repeats=repeats, seed=seed, progress=report_progress):
            checked.append(claim)
            if not json:
                print_result(str(claim))
    if json:
        print_json({"repeats": repeats, "seed": seed, "claims": [asdict(claim) for claim in checked]})
    verdicts = {claim.verdict for claim in checked}
    return 3 if "fails" in verdicts else 4 if "not shown" in verdicts else 0


def verdicts(*, repeats: int = 200, seed: int = 0, json: bool = False) -> None:
    """Count how often diagnostics and audits are right: rejections, verdicts and intervals.

    The first tables are for the paper's toy model. The last ones are for groups of uniform scores at several levels:
    studies and rows that come later, without a change and with one group that is off.

    Parameters
    ----------
    repeats
        Number of random calibration sets for each number.
    seed
        Seed of the random calibration sets.
    json
        Print the results as JSON, with the shares of all verdicts.
    """
    from evencover.reproduction.verdict_rates import (
        ROWS,
        ROWS_PER_GROUP,
        SCENARIOS,
        rejections,
        true_coverage,
        verdict_shares,
    )

    sizes, shares, truths = {}, {}, {}
    with status() as report_progress:
        for rows in ROWS_PER_GROUP:
            report_progress(f"counting false rejections, {rows} rows per group")
            sizes[rows] = rejections(rows, repeats=repeats, seed=seed)
        for name in SCENARIOS:
            report_progress(f"counting verdicts: {name}")
            truths[name] = true_coverage(name, seed=seed)
            shares[name] = {rows: verdict_shares(name, rows, repeats=repeats, seed=seed) for rows in ROWS}
        audits = _audit_rates(repeats, seed, report_progress)
        situations = _situation_rates(repeats, seed, report_progress)
    if json:
        scenarios = {name: {"coverage": truths[name], "verdicts": shares[name]} for name in shares}
        by_level = [
            {"level": level, "groups": groups, "rates": _plain(rates)} for (level, groups), rates in situations.items()
        ]
        found = {"rejections": sizes, "scenarios": scenarios, "audits": _plain(audits), "situations": by_level}
        print_json({"repeats": repeats, "seed": seed, **found})
    else:
        print_result(_verdicts_text(sizes, shares, truths))
        print_result(_audits_text(audits))
        print_result(_situations_text(situations))


def _audit_rates(repeats: int, seed: int, report_progress: "StageProgress") -> "RatesByRows":
    """Return the rates of audits of one threshold, by score and by number of calibration rows."""
    from evencover.reproduction.verdict_rates import CALIBRATION_ROWS, SCENARIOS, audit_rates

    audits = {}
    for name in SCENARIOS:
        report_progress(f"auditing one threshold: {name}")
        audits[name] = {rows: audit_rates(name, rows, repeats=repeats, seed=seed) for rows in CALIBRATION_ROWS}
    return audits


def _situation_rates(
    repeats: int, seed: int, report_progress: "StageProgress"
) -> "dict[tuple[float, int], RatesByRows]":
    """Return the rates by level and number of groups, then by situation and shift, then by calibration rows."""
    from evencover.reproduction.verdict_rates import (
        CALIBRATION_ROWS,
        LEVELS,
        NUMBERS_OF_GROUPS,
        SITUATIONS,
        situation_rates,
    )

    found = {}
    for level, groups in product(LEVELS, NUMBERS_OF_GROUPS):
        rates: RatesByRows = {}
        for name, situation in SITUATIONS.items():
            report_progress(f"auditing {groups} groups at level {level:g}: {name}")
            for shift in situation.shifts:
                if level + shift <= 1:
                    rates[f"{name}{f', one group {shift:+g}' * bool(shift)}"] = {
                        rows: situation_rates(situation, level, rows, groups, shift=shift, repeats=repeats, seed=seed)
                        for rows in CALIBRATION_ROWS
                    }
        found[level, groups] = rates
    return found


def _plain(rates: "RatesByRows") -> "dict[str, dict[int, dict[str, float]]]":
    """Return the rates as dictionaries."""
    return {name: {rows: asdict(each) for rows, each in by_rows.items()} for name, by_rows in rates.items()}


def _tables_text(all_tables: "dict[str, list[Row]]") -> str:
    from evencover.reproduction.coverage_tables import COLUMNS, WHY_THEY_DIFFER

    lines = ["Coverage at level 0.9, by thirds of the estimated variance: mean ± standard deviation over 20 test sets"]
    lines[0] += "; in the last two tables, over the calibration sets." if len(all_tables) > 2 else "."
    for name, rows in all_tables.items():
        lines += ["", name, " " * 24 + "".join(f"{column:16}" for column in COLUMNS).rstrip()]
        for row in rows:
            cells = zip(row.coverage, row.deviation, strict=True)
            text = "".join(f"{mean:.3f} ± {deviation:.3f}   " for mean, deviation in cells)
            lines.append(f"{row.model:13}{row.score:11}{text}".rstrip())
    return "\n".join([*lines, "", WHY_THEY_DIFFER])


def _verdicts_text(
    sizes: dict[int, dict[str, float]],
    shares: dict[str, dict[int, dict[str, float]]],
    truths: dict[str, list[float]],
) -> str:
    from evencover.display.text import text_table

    test_rows = [[test, *(f"{rates[test]:.3f}" for rates in sizes.values())] for test in next(iter(sizes.values()))]
    verdict_rows = [
        [
            name,
            " / ".join(f"{share:.3f}" for share in truths[name]),
            *(f"{each['uneven']:.0%} / {each['even']:.0%}" for each in by_rows.values()),
        ]
        for name, by_rows in shares.items()
    ]
    return "\n".join(
        [
            "False rejections at 5 % (scores do not depend on the 3 groups): share of repeats, by rows per group:",
            text_table(("test", *map(str, sizes)), test_rows),
            "",
            "Verdicts of diagnose: share of repeats, uneven / even (the rest is undecided), by calibration rows. "
            "Column coverage: true coverage of the groups low / medium / high.",
            text_table(("score, model", "coverage", *map(str, next(iter(shares.values())))), verdict_rows),
        ]
    )


def _audits_text(audits: "RatesByRows") -> str:
    """Return the tables of audits of the toy model as text."""
    return "\n".join(
        [
            "",
            "Verdicts of audit on the toy model, one threshold for all rows: share of repeats, uneven / even (the rest "
            "is undecided), by calibration + test rows.",
            _rates_table("score, model", audits, lambda each: f"{each.uneven:.0%} / {each.even:.0%}"),
            "",
            "Errors of audit: share of repeats with the verdict even although a group is off by more than the "
            "tolerance / share with a group's interval that misses the true coverage.",
            _rates_table("score, model", audits, lambda each: f"{each.false_even:.1%} / {each.missed:.1%}"),
        ]
    )


def _situations_text(situations: "dict[tuple[float, int], RatesByRows]") -> str:
    from evencover.diagnostics.verdicts import default_tolerance

    parts = []
    for (level, groups), rates in situations.items():
        title = f"level {level:g}, {groups} groups"
        parts += [
            "",
            f"Verdicts of audit at {title}, tolerance {default_tolerance(level):.2g}: share of repeats, uneven / even "
            "/ even although a group is outside the tolerance.",
            _rates_table(title, rates, lambda each: f"{each.uneven:.1%} / {each.even:.1%} / {each.false_even:.1%}"),
        ]
    return "\n".join(parts)


def _rates_table(title: str, rates: "RatesByRows", cell: "Callable[[AuditRates], str]") -> str:
    """Return a table with one line for each name, and one column for each number of rows."""
    from evencover.display.text import text_table

    header = (title, *(f"{rows} + {rows // 2}" for rows in next(iter(rates.values()))))
    return text_table(header, [[name, *map(cell, by_rows.values())] for name, by_rows in rates.items()])
