"""Result files of a benchmark: a tidy table, a summary and figures."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evencover._internal.optional import import_optional
from evencover._internal.saved_files import atomic_write
from evencover.plots import STYLE, picture_files
from evencover.reproduction.benchmark._benchmark_figures import benchmark_figure
from evencover.reproduction.benchmark._workers import map_unordered
from evencover.reproduction.benchmark.summary import Summary, summary_text
from evencover.reproduction.benchmark.trials import Row
from evencover.reproduction.benchmark.variants import BINNING_METHODS


def write_results(rows: Sequence[Row], summary: Summary, folder: str | Path, *, workers: int = 1) -> Iterator[Path]:
    """Write ``results.parquet``, ``summary.md``, ``summary.json`` and the figures; yield each path once it is written.

    The same rows give the same bytes.

    Parameters
    ----------
    rows : sequence of dict
        From `run_benchmark`.
    summary : Summary
        The summary of these rows, from `summarize`.
    folder : str or Path
        An existing folder.
    workers : int
        Number of processes that draw figures.
    """
    folder = Path(folder)
    yield _write_table(rows, folder / "results.parquet")
    yield from _write_summary(summary, folder)
    yield from _write_figures(rows, folder / "figures", workers)


def check_packages() -> None:
    """Raise ImportError unless the packages that `write_results` needs are installed."""
    import_optional("pyarrow.parquet", extra="datasets", purpose="a table of results")
    import_optional("matplotlib", extra="plots", purpose="a figure")


def _write_table(rows: Sequence[Row], path: Path) -> Path:
    """Write the rows, with a column for each of their values."""
    arrow = import_optional("pyarrow", extra="datasets", purpose="a table of results")
    parquet = import_optional("pyarrow.parquet", extra="datasets", purpose="a table of results")
    with atomic_write(path) as file:
        parquet.write_table(arrow.table({name: [row[name] for row in rows] for name in rows[0]}), file)
    return path


def _write_summary(summary: Summary, folder: Path) -> Iterator[Path]:
    data: dict[str, Any] = summary.as_data()
    for name, text in (("summary.md", summary_text(summary)), ("summary.json", json.dumps(data, indent=2))):
        with atomic_write(folder / name) as file:
            file.write(f"{text}\n".encode())
        yield folder / name


def _write_figures(rows: Sequence[Row], folder: Path, workers: int) -> Iterator[Path]:
    """Write a figure for each data set and each method that forms the groups, as PNG and SVG."""
    folder.mkdir(exist_ok=True)
    names = dict.fromkeys(row["data"] for row in rows)
    tasks = [
        ([row for row in rows if row["data"] == data], data, binning) for data in names for binning in BINNING_METHODS
    ]
    for name, files in map_unordered(_draw_figure, tasks, workers=workers):
        for suffix, content in files.items():
            path = folder / f"{name}.{suffix}"
            with atomic_write(path) as file:
                file.write(content)
            yield path


def _draw_figure(task: tuple[Sequence[Row], str, str]) -> tuple[str, dict[str, bytes]]:
    """Return the file name of a figure without suffix, and the contents of its files by suffix."""
    rows, data, binning = task
    matplotlib = import_optional("matplotlib", extra="plots", purpose="a figure")
    with matplotlib.rc_context({**STYLE, "savefig.dpi": 110}):
        files = picture_files(benchmark_figure(rows, data, binning))
    return f"{quote(data, safe='')}_{binning.replace(' ', '_')}", files
