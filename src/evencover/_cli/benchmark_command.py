"""The verbs of the real-data benchmark: what it is run on, and the run."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evencover._cli.terminal import print_error, print_json, print_result, progress_bar, status

if TYPE_CHECKING:
    from evencover.datasets import Dataset, DatasetCard
    from evencover.reproduction.benchmark import Benchmark

_QUICK_SPLITS, _QUICK_EPOCHS = 2, 15
_TABLE = ("data set", "where", "rows", "paper", "features", "paper", "skewness", "paper", "kurtosis", "paper")


def datasets(*names: str, data_dir: Path | None = None, download: bool = False, json: bool = False) -> None:
    """List the data sets of the benchmark: where each is, and the paper's table beside what is measured.

    Parameters
    ----------
    names
        Which; all by default.
    data_dir
        A folder of CSV files called after the data sets, looked into before the cache.
    download
        Fetch what is not there from its public source into the cache.
    json
        Print data: the cards, with what is measured.
    """
    from evencover.datasets import cards
    from evencover.datasets.loading import local_path
    from evencover.datasets.registry import card_of

    listed: list[tuple[DatasetCard, Path | None, Dataset | None]] = []
    for known in [card_of(name) for name in names] or cards().values():
        is_there = download or local_path(known, data_dir=data_dir) is not None
        data = _loaded([known.name], data_dir)[0] if is_there else None
        listed.append((known, local_path(known, data_dir=data_dir), data))
    if json:
        print_json([_as_data(*each) for each in listed])
        return
    print_result(_listing_text(listed))
    if any(path is None for _, path, _ in listed):
        print_result("`evencover datasets --download` fetches what is not here, and so does a benchmark that needs it.")


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
    """Compare models and variants on real data, as the paper does. What was interrupted goes on where it was.

    Writes results.parquet (a row for each trial and group), summary.md, summary.json and figures. The exit status is 0
    if variants with a threshold for each group miss no more groups than chance allows, else 3.

    Parameters
    ----------
    names
        Data sets by name (see `evencover datasets`), or paths of CSV or Parquet files; the paper's six by default.
    output
        The folder for results, which are of the data sets named here; what it has of them already is not run again.
    data_dir
        A folder of CSV files called after the data sets, looked into before the cache and before downloading.
    target
        The column of files to predict; the last one by default.
    models
        Some of QR, QRF, MV, MVE, with commas between.
    variants
        Some of baseline, mPointCP, mIntCP, mNCP, PointCP, IntCP, NCP, with commas between.
    splits
        How many of the paper's ten splits.
    epochs
        Of the networks' training; the paper has 300.
    level
        Nominal coverage.
    device
        Where networks are trained: cpu, cuda, or auto for a GPU if there is one.
    workers
        Number of processes, by default one for each core; it changes no number.
    cluster
        Address of the scheduler of a Dask cluster that does the work instead.
    quick
        A small run: 2 splits and 15 epochs, unless others are given.
    dry_run
        Say what would be done, and do nothing.
    json
        Print data: what summary.json holds.
    """
    from joblib import cpu_count

    from evencover._internal.arrays import check_count
    from evencover.reproduction.benchmark import run_benchmark
    from evencover.reproduction.benchmark.result_files import check_packages, write_results
    from evencover.reproduction.benchmark.summary import summarize, summary_text

    began = time.monotonic()
    n_splits = (_QUICK_SPLITS if quick else 10) if splits is None else splits
    n_epochs = (_QUICK_EPOCHS if quick else 300) if epochs is None else epochs
    plan = _plan(models, variants, n_splits, n_epochs, level, device)
    n_workers = cpu_count() if workers is None else workers
    check_count(n_workers, "workers")
    if dry_run:
        print_result(_dry_run_text(plan, _present(names, data_dir, target), output))
        return 0
    check_packages()
    loaded = _loaded(names or _every_name(), data_dir, target)
    with _resumable(output), progress_bar("training") as show:
        rows = run_benchmark(plan, loaded, output, workers=n_workers, cluster=cluster, progress=show)
    summary = summarize(rows, plan.variants)
    with status() as tell:
        tell("drawing")
        paths = list(write_results(rows, summary, output, workers=n_workers))
    if json:
        print_result((output / "summary.json").read_text(encoding="utf-8"))
        return 0 if summary.holds else 3
    print_result(summary_text(summary))
    print_result(
        f"\n{len(paths)} files in {output}, among them {paths[0].name} and {paths[1].name}; {_duration(began)}."
    )
    return 0 if summary.holds else 3


def _plan(models: str | None, variants: str | None, splits: int, epochs: int, level: float, device: str) -> "Benchmark":
    """Return the benchmark that was asked for, or say which part of it there is not."""
    from evencover._internal.arrays import lookup
    from evencover.reproduction.benchmark import PAPER_SPLITS, VARIANTS, Benchmark, paper_models

    if not 1 <= splits <= len(PAPER_SPLITS):
        raise ValueError(f"splits must be 1 to {len(PAPER_SPLITS)}, the paper's; got {splits}")
    known = paper_models(level=level, epochs=epochs, device=device)
    return Benchmark(
        {name: lookup(name, known, "model") for name in _names(models, known)},
        {name: lookup(name, VARIANTS, "variant") for name in _names(variants, VARIANTS)},
        PAPER_SPLITS[:splits],
        level,
    )


def _names(text: str | None, default: Any) -> list[str]:
    """Return the names in a list with commas, each once; all by default."""
    return list(default) if text is None else list(dict.fromkeys(name.strip() for name in text.split(",")))


def _every_name() -> list[str]:
    from evencover.datasets import cards

    return list(cards())


def _loaded(names: Sequence[str], data_dir: Path | None, target: str | None = None) -> "list[Dataset]":
    """Return data sets, with a bar while one is downloaded."""
    from evencover.datasets import load_dataset
    from evencover.datasets.dataset import is_path

    if target is not None and not any(map(is_path, names)):
        raise ValueError(f"target names a column of a file, and no file was given; got {target!r}")
    found = []
    for name in names:
        own = target if is_path(name) else None
        with _downloading(name) as downloading:
            found.append(load_dataset(name, target=own, data_dir=data_dir, downloading=downloading))
    return found


@contextmanager
def _downloading(name: str) -> Iterator[Callable[[str], Any]]:
    """Yield what `load_dataset` calls when it downloads: the bar appears only then."""
    with progress_bar(f"downloading {name}", unit="bytes", visible=False) as show:
        yield lambda _: show


@contextmanager
def _resumable(output: Path) -> Iterator[None]:
    """Say, when interrupted, that nothing finished is lost."""
    try:
        yield
    except KeyboardInterrupt:
        print_error(f"interrupted; what has finished is kept in {output}: the same command goes on from there")
        raise


def _present(names: Sequence[str], data_dir: Path | None, target: str | None) -> "list[tuple[str, Dataset | None]]":
    """Return the data sets that are at hand, and None for those to be downloaded."""
    from evencover.datasets.dataset import is_path
    from evencover.datasets.loading import local_path
    from evencover.datasets.registry import card_of

    def is_at_hand(name: str) -> bool:
        return is_path(name) or local_path(card_of(name), data_dir=data_dir) is not None

    every = names or _every_name()
    return [(name, _loaded([name], data_dir, target)[0] if is_at_hand(name) else None) for name in every]


def _dry_run_text(plan: "Benchmark", datasets: "Sequence[tuple[str, Dataset | None]]", output: Path) -> str:
    """Say what a run would do."""
    from evencover.datasets.registry import card_of
    from evencover.reproduction.benchmark.runs import unfinished_trials

    present = [data for _, data in datasets if data is not None]
    left = unfinished_trials(plan, present, output) if present else {}
    lines = [
        f"Data sets: {len(datasets)}. Models: {', '.join(plan.models)}. Variants: {', '.join(plan.variants)}. "
        f"Splits: {len(plan.splits)}. Groups cut in 2 ways. Level: {plan.level:g}.",
    ]
    for name, data in datasets:
        if data is None:
            lines.append(
                f"  {name}: would be downloaded from {card_of(name).urls[0]}, then {len(plan.trials(name))} trials"
            )
        else:
            todo, trials = left[data.name], len(plan.trials(data.name))
            lines.append(
                f"  {data.name}: {len(data.y)} rows, {data.X.shape[1]} features; {todo} of {trials} trials to run"
            )
    return "\n".join([*lines, f"Results would go to {output}."])


def _listing_text(listed: "Sequence[tuple[DatasetCard, Path | None, Dataset | None]]") -> str:
    """Return the table of data sets as text."""
    from evencover.diagnostics._formatting import text_table

    lines = []
    for known, path, data in listed:
        measured = ["-"] * 4
        if data is not None:
            measured = [str(len(data.y)), str(data.X.shape[1]), f"{data.skewness:.2f}", f"{data.kurtosis:.2f}"]
        papers = [known.paper.rows, known.paper.features, f"{known.paper.skewness:.2f}", f"{known.paper.kurtosis:.2f}"]
        pairs = (str(cell) for pair in zip(measured, papers, strict=True) for cell in pair)
        lines.append([known.name, str(path or "not here"), *pairs])
    notes = [
        f"{known.name}: {known.title}. Left out: {known.dropped} Licence: {known.licence}." for known, *_ in listed
    ]
    return "\n".join([text_table(_TABLE, lines), "", *notes])


def _as_data(known: "DatasetCard", path: Path | None, data: "Dataset | None") -> dict[str, Any]:
    """Return a card with what was measured."""
    measured = None
    if data is not None:
        shape = {"rows": len(data.y), "features": data.X.shape[1]}
        measured = {**shape, "skewness": data.skewness, "kurtosis": data.kurtosis}
    return {**asdict(known), "path": None if path is None else str(path), "measured": measured}


def _duration(began: float) -> str:
    """Return the time since then in words."""
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
