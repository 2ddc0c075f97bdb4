"""The verbs that repeat the paper's evidence, and that of the diagnostics."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from evencover._cli.terminal import print_json, print_result, status

if TYPE_CHECKING:
    from evencover.reproduction.coverage_tables import Row


def tables(*, repeats: int = 0, seed: int = 0, json: bool = False) -> None:
    """Print both tables of coverages: as run, which is the paper's digit for digit, and as written.

    Parameters
    ----------
    repeats
        Also average over this many calibration sets, 2 or more; the paper has one.
    seed
        Seed of those; without --repeats it changes nothing.
    json
        Print data, unrounded, with the mean widths.
    """
    from evencover._internal.arrays import check_seed
    from evencover.reproduction.coverage_tables import as_run, as_written, repeated

    check_seed(seed)
    found = {"as run": as_run(), "as written": as_written()}
    if repeats:
        with status() as tell:
            for name in list(found):
                tell(f"drawing {repeats} calibration sets, {name}")
                rows = repeated(repeats, seed=seed, as_written=name == "as written")
                found[f"{name}, {repeats} calibration sets"] = rows
    if json:
        print_json({name: [row.as_data() for row in rows] for name, rows in found.items()})
    else:
        print_result(_tables_text(found))


def figures(*, output: Path, repeats: int = 100, json: bool = False) -> None:
    """Draw every synthetic figure of the paper, as PNG and SVG.

    Parameters
    ----------
    output
        The folder they go to; made if it is not there.
    repeats
        Repeats of the coverage figures, 2 or more; the paper has 10.
    json
        Print data: the files.
    """
    from evencover.reproduction.paper_figures import write_figures

    paths = []
    with status() as tell:
        tell("drawing")
        for path in write_figures(output, repeats=repeats):
            paths.append(str(path))
            if not json:
                print_result(paths[-1])
            tell(f"drawing, after {path.name}")
    if json:
        print_json(paths)


def claims(*, repeats: int = 400, seed: int = 0, json: bool = False) -> int:
    """Check the paper's eight claims on synthetic data, one line each.

    The exit status is 0 if all of them hold, 3 if one fails, 4 if one is merely not shown with so few repeats.

    Parameters
    ----------
    repeats
        Draws of 1000 calibration and 1000 test rows for each check, 2 or more. The more, the sharper the checks.
    seed
        Seed of the draws.
    json
        Print data: what was covered in each group.
    """
    from evencover.reproduction.claims import claims as papers_claims

    checked = []
    with status() as tell:
        for claim in papers_claims(repeats=repeats, seed=seed, progress=tell):
            checked.append(claim)
            if not json:
                print_result(str(claim))
    if json:
        print_json({"repeats": repeats, "seed": seed, "claims": [asdict(claim) for claim in checked]})
    verdicts = {claim.verdict for claim in checked}
    return 3 if "fails" in verdicts else 4 if "not shown" in verdicts else 0


def verdicts(*, repeats: int = 200, seed: int = 0, json: bool = False) -> None:
    """Count how often the diagnostics are right, on the paper's toy model: the size of every test, and the verdicts.

    Parameters
    ----------
    repeats
        Calibration sets for each number.
    seed
        Seed of the draws.
    json
        Print data.
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
    with status() as tell:
        for rows in ROWS_PER_GROUP:
            tell(f"testing what is true, {rows} rows a group")
            sizes[rows] = rejections(rows, repeats=repeats, seed=seed)
        for name in SCENARIOS:
            tell(f"judging: {name}")
            truths[name] = true_coverage(name, seed=seed)
            shares[name] = {rows: verdict_shares(name, rows, repeats=repeats, seed=seed) for rows in ROWS}
    if json:
        found = {name: {"coverage": truths[name], "verdicts": shares[name]} for name in shares}
        print_json({"repeats": repeats, "seed": seed, "rejections": sizes, "scenarios": found})
    else:
        print_result(_verdicts_text(sizes, shares, truths))


def _tables_text(found: "dict[str, list[Row]]") -> str:
    """Return the tables as text."""
    from evencover.reproduction.coverage_tables import COLUMNS, WHY_THEY_DIFFER

    lines = ["Coverage at level 0.9, by thirds of the estimated variance: mean ± standard deviation over 20 test sets"]
    lines[0] += ", or over the calibration sets where there are many." if len(found) > 2 else "."
    for name, rows in found.items():
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
    """Return the tables of rejections and verdicts as text."""
    from evencover.diagnostics._formatting import text_table

    tests = [[test, *(f"{rates[test]:.3f}" for rates in sizes.values())] for test in next(iter(sizes.values()))]
    judged = [
        [
            name,
            " / ".join(f"{share:.3f}" for share in truths[name]),
            *(f"{each['uneven']:.0%} / {each['even']:.0%}" for each in by_rows.values()),
        ]
        for name, by_rows in shares.items()
    ]
    return "\n".join(
        [
            "Share of repeats that reject at 5 % where scores do not depend on groups, by rows in each of 3 groups:",
            text_table(("test", *map(str, sizes)), tests),
            "",
            "Verdicts, uneven / even (the rest is undecided), by calibration rows; true coverage low / medium / high:",
            text_table(("score, model", "coverage", *map(str, next(iter(shares.values())))), judged),
        ]
    )
