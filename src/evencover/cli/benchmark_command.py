"""The commands `datasets` and `benchmark`: the data sets of the paper, and the comparison of models on them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evencover.cli.terminal import duration_text, print_error, print_json, print_result, progress_bar, status

if TYPE_CHECKING:
    from evencover.datasets import Dataset, DatasetCard
    from evencover.reproduction.benchmark import Benchmark


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
    plan = _benchmark_plan(models, variants, n_splits, n_epochs, level, device)
    n_workers = cpu_count() if workers is None else workers
    check_count(n_workers, "workers")
    if dry_run:
        print_result(_dry_run_text(plan, _available_datasets(names, data_dir, target), output))
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
        print_result((output / "summary.json").read_text(encoding="utf-8"))
        return 0 if summary.holds else 3
    print_result(summary_text(summary))
    took = duration_text(time.monotonic() - began)
    print_result(f"\nWrote {len(paths)} files to {output}, including {paths[0].name} and {paths[1].name}, in {took}.")
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
        raise ValueError(f"target is only for files, and no file was given; got {target!r}")
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


def _dry_run_text(plan: "Benchmark", datasets: "Sequence[tuple[str, Dataset | None]]", output: Path) -> str:
    """Return the trials that a run would do, as text."""
    from evencover.datasets.dataset import card_of
    from evencover.reproduction.benchmark.runs import unfinished_trials

    available = [data for _, data in datasets if data is not None]
    remaining = unfinished_trials(plan, available, output) if available else {}
    lines = [
        f"Data sets: {len(datasets)}. Models: {', '.join(plan.models)}. Variants: {', '.join(plan.variants)}. "
        f"Splits: {len(plan.splits)}. Groups: 2 ways to form them. Level: {plan.level:g}.",
    ]
    for name, data in datasets:
        if data is None:
            lines.append(
                f"  {name}: to download from {card_of(name).urls[0]}, then {len(plan.trials(name))} trials to run"
            )
        else:
            todo, trials = remaining[data.name], len(plan.trials(data.name))
            lines.append(
                f"  {data.name}: {len(data.y)} rows, {data.X.shape[1]} features; {todo} of {trials} trials to run"
            )
    return "\n".join([*lines, f"The results would be written to {output}."])


def _listing_text(listed: "Sequence[tuple[DatasetCard, Path | None, Dataset | None]]") -> str:
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
    return "\n".join([text_table(_COLUMNS, lines), "", *notes])


def _card_data(known: "DatasetCard", path: Path | None, data: "Dataset | None") -> dict[str, Any]:
    """Return the card of a data set with its measured statistics, as JSON data."""
    measured = None
    if data is not None:
        shape = {"rows": len(data.y), "features": data.X.shape[1]}
        measured = {**shape, "skewness": data.skewness, "kurtosis": data.kurtosis}
    return {**asdict(known), "path": None if path is None else str(path), "measured": measured}
