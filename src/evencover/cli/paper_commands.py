"""The experiments of the paper: the commands `datasets`, `benchmark` and `reproduce ...`."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evencover.cli.invocation import UsageError, usage_errors
from evencover.cli.terminal import duration_text, print_error, print_json, print_result, progress_bar, status
from evencover.display.lines import Lines, joined_lines

if TYPE_CHECKING:
    from evencover.datasets import Dataset, DatasetCard
    from evencover.inputs import StageProgress
    from evencover.reproduction.benchmark import Benchmark
    from evencover.reproduction.coverage_tables import Row
    from evencover.reproduction.verdict_rates import AuditRates

    RatesByRows = dict[str, dict[int, AuditRates]]

_QUICK_SPLITS, _QUICK_EPOCHS = 2, 15
_COLUMNS = ("data set", "file", "rows", "paper", "features", "paper", "skewness", "paper", "kurtosis", "paper")


def datasets(*names: str, data_dir: Path | None = None, download: bool = False, json: bool = False) -> None:
    """List the data sets of the benchmark: their files, and their statistics next to those in the paper.

    Parameters
    ----------
    names
        Names of data sets; by default all.
    data_dir
        A folder of CSV files, named after the data sets. It is searched before the cache.
    download
        Download missing data sets from their public sources into the cache.
    json
        Print the description and the statistics of each data set as JSON.
    """
    from evencover.datasets import cards
    from evencover.datasets.dataset import card_of
    from evencover.datasets.loading import local_path

    listed: list[tuple[DatasetCard, Path | None, Dataset | None]] = []
    for known in [card_of(name) for name in names] or cards().values():
        is_available = download or local_path(known, data_dir=data_dir) is not None
        data = _load_datasets([known.name], data_dir)[0] if is_available else None
        listed.append((known, local_path(known, data_dir=data_dir), data))
    if json:
        print_json([_card_data(*each) for each in listed])
        return
    print_result(_listing_text(listed))
    if any(path is None for _, path, _ in listed):
        print_result("`evencover datasets --download` downloads the missing data sets. So does `evencover benchmark`.")


def benchmark(
    *names: str,
    output: Path,
    data_dir: Path | None = None,
    target: str | None = None,
    models: str | None = None,
    variants: str | None = None,
    splits: int | None = None,
    epochs: int | None = None,
    level: float = 0.9,
    device: str = "auto",
    workers: int | None = None,
    cluster: str | None = None,
    quick: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Compare models and variants on real data, as in the paper. An interrupted run can be continued.

    Writes results.parquet (one row for each trial and group), summary.md, summary.json and figures. The exit status is
    0 if the variants with a threshold for each group under-cover no more groups than chance allows, otherwise 3.

    Parameters
    ----------
    names
        Names of data sets (see `evencover datasets`), or paths of table files; by default the paper's six.
    output
        Folder for the results. Trials that it already contains are not run again.
    data_dir
        A folder of CSV files, named after the data sets. It is searched before the cache and before downloading.
    target
        The column to predict in files; by default the last one.
    models
        Models, separated by commas: QR, QRF, MV, MVE.
    variants
        Variants, separated by commas: baseline, mPointCP, mIntCP, mNCP, PointCP, IntCP, NCP.
    splits
        Number of splits, at most the paper's ten.
    epochs
        Training epochs of the networks; the paper uses 300.
    level
        Nominal coverage.
    device
        Device for training networks: cpu, cuda, or auto for a GPU if there is one.
    workers
        Number of processes; by default one per core. The results do not depend on it.
    cluster
        Address of the scheduler of a Dask cluster; by default the work is done on this machine.
    quick
        A small run: 2 splits and 15 epochs, unless --splits or --epochs is given.
    dry_run
        Print the planned trials without running them.
    json
        Print the summary as JSON, as in summary.json.
    """
    from joblib import cpu_count

    from evencover.inputs.arrays import check_count
    from evencover.reproduction.benchmark import run_benchmark
    from evencover.reproduction.benchmark.results import check_packages, summarize, summary_text, write_results

    began = time.monotonic()
    n_splits = (_QUICK_SPLITS if quick else 10) if splits is None else splits
    n_epochs = (_QUICK_EPOCHS if quick else 300) if epochs is None else epochs
    n_workers = cpu_count() if workers is None else workers
    with usage_errors():
        plan = _benchmark_plan(models, variants, n_splits, n_epochs, level, device)
        check_count(n_workers, "workers")
    if dry_run:
        planned = _dry_run_data(plan, _available_datasets(names, data_dir, target), output)
        print_json(planned) if json else print_result(_dry_run_text(planned))
        return 0
    check_packages()
    loaded = _load_datasets(names or _all_names(), data_dir, target)
    with _resume_message(output), progress_bar("training") as show:
        rows = run_benchmark(plan, loaded, output, workers=n_workers, cluster=cluster, progress=show)
    summary = summarize(rows, plan.variants)
    with status() as report_progress:
        report_progress("drawing figures")
        paths = list(write_results(rows, summary, output, workers=n_workers))
    if json:
        print_json(summary.as_data())
        return 0 if summary.holds else 3
    print_result(joined_lines([summary_text(summary), ""]))
    took = duration_text(time.monotonic() - began)
    print_result(f"Wrote {len(paths)} files to {output}, including {paths[0].name} and {paths[1].name}, in {took}.")
    return 0 if summary.holds else 3


def _benchmark_plan(
    models: str | None, variants: str | None, splits: int, epochs: int, level: float, device: str
) -> "Benchmark":
    """Return the requested benchmark; raise ValueError if a model or a variant is unknown."""
    from evencover.inputs.arrays import lookup
    from evencover.reproduction.benchmark import PAPER_SPLITS, VARIANTS, Benchmark, paper_models

    if not 1 <= splits <= len(PAPER_SPLITS):
        raise ValueError(f"splits must be between 1 and {len(PAPER_SPLITS)}, the number in the paper; got {splits}")
    known = paper_models(level=level, epochs=epochs, device=device)
    return Benchmark(
        {name: lookup(name, known, "model") for name in _names(models, known)},
        {name: lookup(name, VARIANTS, "variant") for name in _names(variants, VARIANTS)},
        PAPER_SPLITS[:splits],
        level,
    )


def _names(text: str | None, default: Any) -> list[str]:
    """Return the distinct names in a text with commas; all names by default."""
    return list(default) if text is None else list(dict.fromkeys(name.strip() for name in text.split(",")))


def _all_names() -> list[str]:
    from evencover.datasets import cards

    return list(cards())


def _load_datasets(names: Sequence[str], data_dir: Path | None, target: str | None = None) -> "list[Dataset]":
    """Return data sets, with a progress bar while one is downloaded."""
    from evencover.datasets import load_dataset
    from evencover.datasets.dataset import is_path

    if target is not None and not any(map(is_path, names)):
        raise UsageError(f"target is only for files, and no file was given; got {target!r}")
    loaded = []
    for name in names:
        own_target = target if is_path(name) else None
        with _download_bar(name) as downloading:
            loaded.append(load_dataset(name, target=own_target, data_dir=data_dir, downloading=downloading))
    return loaded


@contextmanager
def _download_bar(name: str) -> Iterator[Callable[[str], Any]]:
    """Yield the argument `downloading` of `load_dataset`: a progress bar that appears when a download begins."""
    with progress_bar(f"downloading {name}", unit="bytes", visible=False) as show:
        yield lambda _: show


@contextmanager
def _resume_message(output: Path) -> Iterator[None]:
    """Print how to continue if the run is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        print_error(f"interrupted. Finished trials are kept in {output}; run the same command again to continue")
        raise


def _available_datasets(
    names: Sequence[str], data_dir: Path | None, target: str | None
) -> "list[tuple[str, Dataset | None]]":
    """Return the names with the available data sets, and None for those that must be downloaded."""
    from evencover.datasets.dataset import card_of, is_path
    from evencover.datasets.loading import local_path

    def is_available(name: str) -> bool:
        return is_path(name) or local_path(card_of(name), data_dir=data_dir) is not None

    return [
        (name, _load_datasets([name], data_dir, target)[0] if is_available(name) else None)
        for name in names or _all_names()
    ]


def _dry_run_data(plan: "Benchmark", datasets: "Sequence[tuple[str, Dataset | None]]", output: Path) -> dict[str, Any]:
    """Return the trials that a run would do."""
    from evencover.datasets.dataset import card_of
    from evencover.reproduction.benchmark.runs import unfinished_trials

    available = [data for _, data in datasets if data is not None]
    remaining = unfinished_trials(plan, available, output) if available else {}
    planned = []
    for name, data in datasets:
        n_trials = len(plan.trials(name if data is None else data.name))
        if data is None:
            planned.append({"name": name, "download": card_of(name).urls[0], "trials": n_trials, "to_run": n_trials})
        else:
            size = {"rows": len(data.y), "features": data.X.shape[1]}
            planned.append({"name": data.name, **size, "trials": n_trials, "to_run": remaining[data.name]})
    return {
        "data_sets": planned,
        "models": list(plan.models),
        "variants": list(plan.variants),
        "splits": len(plan.splits),
        "level": plan.level,
        "output": str(output),
    }


def _dry_run_text(planned: dict[str, Any]) -> Lines:
    """Return the trials that a run would do as text."""
    lines = [
        f"Data sets: {len(planned['data_sets'])}. Models: {', '.join(planned['models'])}. "
        f"Variants: {', '.join(planned['variants'])}. Splits: {planned['splits']}. Groups: 2 ways to form them. "
        f"Level: {planned['level']:g}.",
    ]
    for data in planned["data_sets"]:
        if "download" in data:
            lines.append(f"  {data['name']}: to download from {data['download']}, then {data['trials']} trials to run")
        else:
            size = f"{data['rows']} rows, {data['features']} features"
            lines.append(f"  {data['name']}: {size}; {data['to_run']} of {data['trials']} trials to run")
    return joined_lines([*lines, f"The results would be written to {planned['output']}."])


def _listing_text(listed: "Sequence[tuple[DatasetCard, Path | None, Dataset | None]]") -> Lines:
    from evencover.display.text import text_table

    lines = []
    for known, path, data in listed:
        measured = ["-"] * 4
        if data is not None:
            measured = [str(len(data.y)), str(data.X.shape[1]), f"{data.skewness:.2f}", f"{data.kurtosis:.2f}"]
        papers = [known.paper.rows, known.paper.features, f"{known.paper.skewness:.2f}", f"{known.paper.kurtosis:.2f}"]
        pairs = (str(cell) for pair in zip(measured, papers, strict=True) for cell in pair)
        lines.append([known.name, str(path or "missing"), *pairs])
    notes = [f"{known.name}: {known.title}. Removed: {known.dropped} Licence: {known.licence}." for known, *_ in listed]
    return joined_lines([text_table(_COLUMNS, lines), "", *notes])


def _card_data(known: "DatasetCard", path: Path | None, data: "Dataset | None") -> dict[str, Any]:
    """Return the card of a data set with its measured statistics, as JSON data."""
    measured = None
    if data is not None:
        shape = {"rows": len(data.y), "features": data.X.shape[1]}
        measured = {**shape, "skewness": data.skewness, "kurtosis": data.kurtosis}
    return {**asdict(known), "path": None if path is None else str(path), "measured": measured}


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
    from evencover.reproduction.simulation import check_repeats

    with usage_errors():
        check_seed(seed)
        if repeats:
            check_repeats(repeats)
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
    from evencover.reproduction.simulation import check_repeats

    with usage_errors():
        check_repeats(repeats)
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
    from evencover.inputs.arrays import check_seed
    from evencover.reproduction.claims import claims as papers_claims
    from evencover.reproduction.simulation import check_repeats

    with usage_errors():
        check_repeats(repeats)
        check_seed(seed)
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
    from evencover.inputs.arrays import check_count, check_seed
    from evencover.reproduction.verdict_rates import (
        ROWS,
        ROWS_PER_GROUP,
        SCENARIOS,
        rejections,
        true_coverage,
        verdict_shares,
    )

    with usage_errors():
        check_count(repeats, "repeats")
        check_seed(seed)
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


def _tables_text(all_tables: "dict[str, list[Row]]") -> Lines:
    from evencover.reproduction.coverage_tables import COLUMNS, WHY_THEY_DIFFER

    lines = ["Coverage at level 0.9, by thirds of the estimated variance: mean ± standard deviation over 20 test sets"]
    lines[0] += "; in the last two tables, over the calibration sets." if len(all_tables) > 2 else "."
    for name, rows in all_tables.items():
        lines += ["", name, " " * 24 + "".join(f"{column:16}" for column in COLUMNS).rstrip()]
        for row in rows:
            cells = zip(row.coverage, row.deviation, strict=True)
            text = "".join(f"{mean:.3f} ± {deviation:.3f}   " for mean, deviation in cells)
            lines.append(f"{row.model:13}{row.score:11}{text}".rstrip())
    return joined_lines([*lines, "", WHY_THEY_DIFFER])


def _verdicts_text(
    sizes: dict[int, dict[str, float]],
    shares: dict[str, dict[int, dict[str, float]]],
    truths: dict[str, list[float]],
) -> Lines:
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
    return joined_lines(
        [
            "False rejections at 5 % (scores do not depend on the 3 groups): share of repeats, by rows per group:",
            text_table(("test", *map(str, sizes)), test_rows),
            "",
            "Verdicts of diagnose: share of repeats, uneven / even (the rest is undecided), by calibration rows. "
            "Column coverage: true coverage of the groups low / medium / high.",
            text_table(("score, model", "coverage", *map(str, next(iter(shares.values())))), verdict_rows),
        ]
    )


def _audits_text(audits: "RatesByRows") -> Lines:
    """Return the tables of audits of the toy model as text."""
    return joined_lines(
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


def _situations_text(situations: "dict[tuple[float, int], RatesByRows]") -> Lines:
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
    return joined_lines(parts)


def _rates_table(title: str, rates: "RatesByRows", cell: "Callable[[AuditRates], str]") -> Lines:
    """Return a table with one line for each name, and one column for each number of rows."""
    from evencover.display.text import text_table

    header = (title, *(f"{rows} + {rows // 2}" for rows in next(iter(rates.values()))))
    return text_table(header, [[name, *map(cell, by_rows.values())] for name, by_rows in rates.items()])
