"""What a benchmark leaves behind: a tidy table, a summary and figures."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evencover.experiments.benchmark.contenders import BINNINGS
from evencover.experiments.benchmark.pictures import benchmark_figure
from evencover.experiments.benchmark.summary import Summary, in_words
from evencover.experiments.benchmark.trials import Row
from evencover.experiments.benchmark.workers import results_of
from evencover.extras import imported
from evencover.files import whole_file
from evencover.plots import STYLE, picture_files


def write_results(rows: Sequence[Row], summary: Summary, folder: str | Path, *, workers: int = 1) -> Iterator[Path]:
    """Write ``results.parquet``, ``summary.md``, ``summary.json`` and the figures; yield the paths as they are written.

    The same rows give the same bytes.

    Parameters
    ----------
    rows : sequence of dict
        From `run_benchmark`.
    summary : Summary
        Theirs, from `summary_of`.
    folder : str or Path
        Where to.
    workers : int
        Number of processes that draw.
    """
    folder = Path(folder)
    yield _write_table(rows, folder / "results.parquet")
    yield from _write_summary(summary, folder)
    yield from _write_figures(rows, folder / "figures", workers)


def refuse_without_packages() -> None:
    """Raise unless what `write_results` needs is installed."""
    imported("pyarrow.parquet", extra="datasets", purpose="a table of results")
    imported("matplotlib", extra="plots", purpose="a figure")


def _write_table(rows: Sequence[Row], path: Path) -> Path:
    """Write the rows, one column a value."""
    arrow = imported("pyarrow", extra="datasets", purpose="a table of results")
    parquet = imported("pyarrow.parquet", extra="datasets", purpose="a table of results")
    with whole_file(path) as file:
        parquet.write_table(arrow.table({name: [row[name] for row in rows] for name in rows[0]}), file)
    return path


def _write_summary(summary: Summary, folder: Path) -> Iterator[Path]:
    data: dict[str, Any] = summary.as_data()
    for name, text in (("summary.md", in_words(summary)), ("summary.json", json.dumps(data, indent=2))):
        with whole_file(folder / name) as file:
            file.write(f"{text}\n".encode())
        yield folder / name


def _write_figures(rows: Sequence[Row], folder: Path, workers: int) -> Iterator[Path]:
    """Write a figure for each data set and each way of cutting groups, as PNG and SVG."""
    folder.mkdir(exist_ok=True)
    names = dict.fromkeys(row["data"] for row in rows)
    tasks = [([row for row in rows if row["data"] == data], data, binning) for data in names for binning in BINNINGS]
    for name, files in results_of(_drawn, tasks, workers=workers):
        for ending, content in files.items():
            path = folder / f"{name}.{ending}"
            with whole_file(path) as file:
                file.write(content)
            yield path


def _drawn(task: tuple[Sequence[Row], str, str]) -> tuple[str, dict[str, bytes]]:
    """Return a figure's name, and its files' contents by ending."""
    rows, data, binning = task
    matplotlib = imported("matplotlib", extra="plots", purpose="a figure")
    with matplotlib.rc_context({**STYLE, "savefig.dpi": 110}):
        files = picture_files(benchmark_figure(rows, data, binning))
    return f"{quote(data, safe='')}_{binning.replace(' ', '_')}", files
