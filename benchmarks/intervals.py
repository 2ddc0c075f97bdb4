"""Measure the quality of prediction intervals: ``python -m benchmarks.intervals --data-dir DIR [NAME ...]``.

DIR has CSV files with a header row and only numbers below it; the last column is the target. Files in the folder
DIR/clear are used as well. Of files with the same rows, only the last one is used.

The protocol ``even`` compares methods at level 0.9: 40 % of the rows for training, 40 % for calibration, 20 % for the
test, five times. The protocol ``published`` compares evencover's default with scores that others published in the file
DIR/clear/published.csv, at level 0.95, on the same splits. The protocol ``pcs`` compares evencover's default with
results that others published in the folder DIR/pcs, at level 0.9, on the same splits: widths, and coverage in bins of
the features. Of 80 % of the rows, it gets the first 5000 and divides them itself into training and calibration rows, as
``evencover run`` does; 20 % are for the test. The data sets are those with a file DIR/pcs/NAME_bins.csv. Their tables
are DIR/pcs/NAME.csv or DIR/clear/NAME.csv; the other protocols do not use the folder DIR/pcs.

The output folder has one JSON file for each data set, protocol, method and seed. What has such a file is not measured
again, so an interrupted benchmark continues where it stopped. Delete the folder after a change of the code or the data.
With ``--check``, the exit status is 1 if the default misses one of the bars below.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

from benchmarks.interval_data import (
    EVEN,
    PCS,
    PROTOCOLS,
    PUBLISHED,
    DataSet,
    published_results,
    published_scores,
    read_binned,
    read_folder,
    with_published,
)
from benchmarks.interval_figure import write_figure
from benchmarks.interval_measures import Measured, Results, measure_split
from benchmarks.interval_methods import EFFORTS, OTHER_METHODS, Method, default_methods, study_methods
from benchmarks.interval_tables import EvenTables, PcsTables, PublishedTables, Tables
from benchmarks.machine import machine
from benchmarks.tables import with_table
from evencover.models.folds import end_with_parent

PAGE_MARKS = {
    EVEN.name: ("<!-- intervals: start -->", "<!-- intervals: end -->"),
    PUBLISHED.name: ("<!-- published intervals: start -->", "<!-- published intervals: end -->"),
    PCS.name: ("<!-- pcs intervals: start -->", "<!-- pcs intervals: end -->"),
}
_PACKAGES = ("numpy", "scikit-learn", "quantile-forest", "mapie", "crepes", "evencover")


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What to measure: data sets, methods, and the tables that show the results."""

    found: Sequence[DataSet]
    methods: Mapping[str, Method]
    tables: Tables


def main(arguments: Sequence[str] | None = None, *, methods: Mapping[str, Method] | None = None) -> int:
    """Measure what has no file yet, print all of it as Markdown, and return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words of the command line.
    methods : mapping from name to Method, optional
        Methods to compare instead of those of the protocol.
    """
    options, benchmark = _parsed(arguments, methods)
    options.output.mkdir(parents=True, exist_ok=True)
    splits = "One split" if options.seeds == 1 else f"{options.seeds} splits of each data set"
    intro = f"{splits}, one thread. {machine(_PACKAGES)}."
    print(f"{intro}\n\n" + "\n".join(benchmark.tables.header()), flush=True)
    results: dict[str, dict[str, Sequence[Measured]]] = {name: {} for name in benchmark.methods}
    rows = []
    for data, by_method in measured_sets(benchmark, options):
        for name, by_seed in by_method.items():
            results[name][data.name] = by_seed
        rows += (lines := benchmark.tables.rows(data, by_method))
        print("\n".join(lines), flush=True)
    summary = benchmark.tables.summary(results)
    print("\n" + "\n".join(summary), flush=True)
    _write(options, [intro, "", *summary, "", *benchmark.tables.header(), *rows], results)
    return _checked(benchmark.tables.missed(results)) if options.check else 0


def measured_sets(benchmark: Benchmark, options: Namespace) -> Iterator[tuple[DataSet, dict[str, list[Measured]]]]:
    """Yield each data set once it is measured, with the results of each method, one for each seed."""
    jobs = [(data, seed) for data in benchmark.found for seed in range(options.seeds)]
    done = _mapped(
        measure_split,
        [(data, benchmark.tables.protocol, seed, benchmark.methods, options.output, _report) for data, seed in jobs],
        options.workers,
    )
    for data in benchmark.found:
        by_seed = [next(done) for _ in range(options.seeds)]
        yield data, {name: [each[name] for each in by_seed] for name in benchmark.methods}


def _mapped(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], workers: int) -> Iterator[Any]:
    """Yield the results of a function for several arguments, in their order, from so many processes."""
    if workers == 1:
        yield from (function(*each) for each in arguments)
        return
    with parallel_config(backend="loky", n_jobs=min(workers, len(arguments)), inner_max_num_threads=1):
        yield from Parallel(return_as="generator")(
            delayed(_in_worker)(os.getpid(), function, each) for each in arguments
        )


def _in_worker(parent: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return the result of a function in a process that ends when its parent is killed."""
    end_with_parent(parent)
    return function(*arguments)


def _report(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def _write(options: Namespace, lines: Sequence[str], results: Mapping[str, Results]) -> None:
    """Write the tables into the page, and the figure, if the options name them."""
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_table(page, lines, marks=PAGE_MARKS[options.protocol]), encoding="utf-8")
    if options.figure is not None:
        write_figure(options.figure, results, EVEN.level)


def _checked(missed: Sequence[str]) -> int:
    """Print which bars are missed, and return the exit status."""
    print("\n" + ("\n".join(missed) if missed else "No bar is missed."), flush=True)
    return int(bool(missed))


def _parsed(arguments: Sequence[str] | None, methods: Mapping[str, Method] | None) -> tuple[Namespace, Benchmark]:
    """Return the options and what to measure; exit with an error if something is wrong with them or the files."""
    parser = _parser()
    options = parser.parse_args(arguments)
    protocol = PROTOCOLS[options.protocol]
    options.seeds = protocol.seeds if options.seeds is None else options.seeds
    for name in ("seeds", "workers"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more; got {getattr(options, name)}")
    if options.figure is not None and protocol is not EVEN:
        parser.error("--figure is only for --protocol even")
    if methods is None:
        methods = _protocol_methods(options.protocol, options.efforts)
    if missing := [name for name, method in methods.items() if not _is_installed(method)]:
        parser.error(f"packages are missing for {', '.join(missing)}: install those in requirements-bench.txt")
    try:
        return options, _benchmark(options, methods)
    except (ValueError, OSError) as error:
        parser.error(str(error))


def _protocol_methods(protocol: str, efforts: Sequence[str]) -> dict[str, Method]:
    """Return the methods that a protocol compares."""
    if protocol == PCS.name:
        return study_methods(efforts)
    return default_methods(efforts) | (dict(OTHER_METHODS) if protocol == EVEN.name else {})


def _benchmark(options: Namespace, methods: Mapping[str, Method]) -> Benchmark:
    """Return what to measure; raise ValueError if a file is missing or unfit."""
    found = (read_binned if options.protocol == PCS.name else read_folder)(options.data_dir, options.names)
    if options.page is not None:
        with_table(options.page.read_text(encoding="utf-8"), (), marks=PAGE_MARKS[options.protocol])
    if options.protocol == EVEN.name:
        return Benchmark(found, methods, EvenTables())
    if options.protocol == PCS.name:
        return Benchmark(found, methods, PcsTables(published_results(options.data_dir, found)))
    scores = published_scores(options.data_dir, options.seeds)
    return Benchmark(with_published(found, scores), methods, PublishedTables(scores))


def _is_installed(method: Method) -> bool:
    """Return whether the packages of a method are installed."""
    return all(find_spec(module.partition(".")[0]) is not None for module in method.modules)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m benchmarks.intervals", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets, without .csv; by default all")
    parser.add_argument("--data-dir", type=Path, required=True, metavar="DIR", help="folder of the CSV files")
    parser.add_argument("--protocol", choices=list(PROTOCOLS), default=EVEN.name, help="default: even")
    seeds = ", ".join(f"{protocol.seeds} for {name}" for name, protocol in PROTOCOLS.items())
    parser.add_argument("--seeds", type=int, help=f"number of splits (default: {seeds})")
    parser.add_argument(
        "--efforts", nargs="+", choices=EFFORTS, default=["normal"], help="efforts of our default (default: normal)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/intervals"), help="folder for results (default: build/intervals)"
    )
    parser.add_argument("--page", type=Path, help="a page that gets the tables too, such as docs/benchmarks.md")
    parser.add_argument("--figure", type=Path, help="a picture to draw, such as docs/pictures/intervals.png")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a bar is missed")
    parser.add_argument("--workers", type=int, default=1, help="number of processes (default: 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
