"""Result files of a benchmark: a tidy table, a summary and figures."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from evencover.files.archive import atomic_write
from evencover.inputs.optional import import_optional
from evencover.plots import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PALETTE, PURPLE, STYLE, new_figure, picture_files
from evencover.reproduction.benchmark.summary import Summary, summary_text
from evencover.reproduction.benchmark.trials import ALL_ROWS, Row
from evencover.reproduction.benchmark.variants import BINNING_METHODS, GROUP_NAMES
from evencover.reproduction.benchmark.workers import map_unordered

_BANDS = (BLUE, GREEN, ORANGE, PURPLE)
_TITLES = {ALL_ROWS: "all rows", **{name: f"{name} estimated variance" for name in GROUP_NAMES}}


def benchmark_figure(rows: Sequence[Row], data: str, binning: str) -> Any:
    """Return a figure of coverage and width on one data set: for all rows, then for each group.

    Each model is a band in the background. In it the variants are next to each other, with a point for each split and a
    horizontal line at their mean.

    Parameters
    ----------
    rows : sequence of dict
        From `run_benchmark`.
    data, binning : str
        Names of the data set, and of the method that forms the groups.
    """
    shown = [row for row in rows if (row["data"], row["binning"]) == (data, binning)]
    models, variants = (list(dict.fromkeys(row[part] for row in shown)) for part in ("model", "variant"))
    figure, axes = new_figure(len(_TITLES), 2, size=(15.0, 11.0), sharex=True)
    for axes_row, (group, title) in zip(axes, _TITLES.items(), strict=True):
        in_group = [row for row in shown if row["group"] == group]
        for ax, measure in zip(axes_row, ("coverage", "width"), strict=True):
            _draw_bands(ax, models, len(variants))
            _draw_points(ax, in_group, measure, models, variants)
            ax.set_title(f"{measure}, {title}")
        axes_row[0].axhline(shown[0]["level"], color=BLACK, lw=0.9, ls="--", zorder=1)
        axes_row[0].set_ylim(min(0.6, np.nanmin([row["coverage"] for row in shown])) - 0.02, 1.02)
        axes_row[1].margins(y=0.1)
        axes_row[1].set_ylim(bottom=0)
    for ax in axes[-1]:
        middles = [len(variants) * (index + 0.5) - 0.5 for index in range(len(models))]
        ax.set_xticks(middles, models, fontsize=11)
        ax.tick_params("x", length=0)
        ax.set_xlim(-0.5, len(models) * len(variants) - 0.5)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(variants), fontsize=10)
    figure.suptitle(_heading(shown, data, binning), fontsize=11)
    return figure


def _heading(shown: Sequence[Row], data: str, binning: str) -> str:
    splits = len({row["split"] for row in shown})
    edges = "edge rows calibrated separately" if binning == "exact" else "as in the paper's code"
    return (
        f"{data}: {splits} splits, level {shown[0]['level']:g} (dashed); groups: thirds of the estimated variance, "
        f"{edges}. Widths in standard deviations of the training targets"
    )


def _draw_bands(ax: Any, models: Sequence[str], width: int) -> None:
    for index, _ in enumerate(models):
        color = _BANDS[index % len(_BANDS)]
        ax.axvspan(width * index - 0.5, width * (index + 1) - 0.5, color=color, alpha=0.08, lw=0, zorder=0)


def _draw_points(ax: Any, rows: Sequence[Row], measure: str, models: Sequence[str], variants: Sequence[str]) -> None:
    """Draw a point for each split and a line at their mean; with infinite values, their number instead of the line."""
    values: dict[tuple[str, str], list[float]] = {(variant, model): [] for variant in variants for model in models}
    for row in rows:
        values[row["variant"], row["model"]].append(row[measure])
    top = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "top", "fontsize": 6}
    for number, variant in enumerate(variants):
        points, means = [], []
        for index, model in enumerate(models):
            x = len(variants) * index + number
            of_splits = np.array(values[variant, model])
            finite = of_splits[np.isfinite(of_splits)]
            points += [(x, value) for value in finite]
            if n_infinite := np.isinf(of_splits).sum():
                ax.text(x, 0.97, f"{n_infinite}×∞", **top)
            elif len(finite):
                means.append((x, finite.mean()))
        color = PALETTE[(number - 1) % len(PALETTE)] if number else GREY
        look = {"s": 11, "marker": MARKERS[number % len(MARKERS)], "color": color, "alpha": 0.75, "lw": 0}
        ax.scatter(*np.reshape(points, (-1, 2)).T, **look, label=variant)
        x_means, y_means = np.reshape(means, (-1, 2)).T
        ax.hlines(y_means, x_means - 0.36, x_means + 0.36, color=color, lw=1.6)


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
