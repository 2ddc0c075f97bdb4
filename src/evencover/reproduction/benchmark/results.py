"""Results of a benchmark: a summary, a tidy table, and figures.

The summary counts how many groups lie outside their coverage band, and how many are expected to.

A cell is one group of the test rows of a split, for one model. If a group has its own threshold, calibrated on n rows,
the number of covered rows among its m test rows has the distribution BetaBinomial(m, k, n + 1 − k), where k is the
conformal rank. The random split alone ensures this, for any data and any model, if no scores are tied; ties raise the
coverage. A cell lies outside its 99 % band if the probability of so few, or of so many, covered rows is at most 0.5 %.
All variants are compared with these bands.

The cells of one model are independent over groups, splits and data sets of different sizes. So the number of cells with
too few covered rows has an exact distribution, computed by convolution. The number with too many has none if scores are
tied.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from evencover.diagnostics.exact_tests import covered_count_pmf
from evencover.display.lines import Lines, joined_lines, shown
from evencover.display.text import p_value_text
from evencover.files.archive import atomic_write
from evencover.inputs.arrays import BoolArray
from evencover.inputs.optional import import_optional
from evencover.plots import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PALETTE, PURPLE, STYLE, new_figure, picture_files
from evencover.reproduction.benchmark.trials import ALL_ROWS, BINNING_METHODS, GROUP_NAMES, VARIANTS, Row, Variant
from evencover.reproduction.benchmark.workers import map_unordered

_TAIL = 0.005
_SIGNIFICANT = 0.01
_BINNING_TEXT = {"exact": "edge rows calibrated separately (exact)", "as run": "as in the paper's code (as run)"}
_HEADER = (
    *("variant", "cells", "expected outside", "outside", "too few", "too many", "p-value"),
    *("lowest coverage", "highest coverage"),
)


@dataclass(frozen=True)
class MeanCoverage:
    """The mean coverage of a group over the splits."""

    coverage: float
    data: str
    model: str
    group: str


@dataclass(frozen=True)
class CellCount:
    """The number of cells of a variant that lie outside their bands.

    Parameters
    ----------
    variant, binning : str
        Names of the variant, and of the method that forms the groups.
    by_group : bool
        Whether the variant has a threshold, and so a guarantee, for each group.
    cells, below, above : int
        Number of cells, of those with too few covered rows, and of those with too many.
    expected : float
        Expected number of cells outside, if every group has its own threshold.
    p_value : float
        One-sided exact p-value for too many cells with too few covered rows: the smallest over the models, times the
        number of models (Bonferroni).
    lowest, highest : MeanCoverage
        The groups with the lowest and the highest mean coverage over the splits.
    """

    variant: str
    binning: str
    by_group: bool
    cells: int
    below: int
    above: int
    expected: float
    p_value: float
    lowest: MeanCoverage
    highest: MeanCoverage

    @property
    def outside(self) -> int:
        """The number of cells outside their bands."""
        return self.below + self.above


@dataclass(frozen=True)
class Summary:
    """Summary of a benchmark.

    Parameters
    ----------
    level : float
        Nominal coverage.
    counts : tuple of CellCount
        One for each method that forms the groups, and each variant.
    averages : mapping from measure to mapping from variant to mapping from data set to float
        Mean width and mean interval (Winkler) score, over models and splits.
    n_infinite : int
        Number of cells with too few calibration rows for a finite threshold, so with infinite intervals.
    """

    level: float
    counts: tuple[CellCount, ...]
    averages: Mapping[str, Mapping[str, Mapping[str, float]]]
    n_infinite: int

    @property
    def holds(self) -> bool:
        """Whether the guarantee of the variants with a threshold for each group holds (exact groups).

        It is rejected at a family-wise error of 1 % (Bonferroni over the variants).
        """
        guaranteed = [count for count in self.counts if count.by_group and count.binning == "exact"]
        return all(count.p_value * len(guaranteed) >= _SIGNIFICANT for count in guaranteed)

    def as_data(self) -> dict[str, Any]:
        """Return the summary as values for JSON."""
        return {"holds": self.holds, **_json_values(asdict(self))}


def summarize(rows: Sequence[Row], variants: Mapping[str, Variant] = VARIANTS) -> Summary:
    """Return the summary of a benchmark's rows.

    Parameters
    ----------
    rows : sequence of dict
        From `run_benchmark`.
    variants : mapping from name to Variant
        The variants of the rows.
    """
    by_variant: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_variant.setdefault((row["binning"], row["variant"]), []).append(row)
    counts = (_count_cells(variants[variant], some) for (_, variant), some in by_variant.items())
    averages = {measure: _averages(rows, measure) for measure in ("width", "winkler")}
    n_infinite = sum(row["threshold"] == np.inf and row["group"] != ALL_ROWS for row in rows)
    return Summary(rows[0]["level"], tuple(counts), averages, n_infinite)


def summary_text(summary: Summary) -> Lines:
    """Return a summary as text, in Markdown."""
    lines = [
        f"Cells (data set, model, group, split) outside their 99 % coverage band at level {summary.level:g}. The "
        "bands, and the expected number of cells outside, are those of groups with their own threshold. The p-value "
        "tests whether too many cells have too few covered rows.",
    ]
    for binning in dict.fromkeys(count.binning for count in summary.counts):
        counts = _with_binning(summary.counts, binning)
        title = f"Groups: thirds of the estimated variance, {_BINNING_TEXT[binning]}."
        lines += ["", title, "", *_markdown_table(_HEADER, map(_table_row, counts))]
    for measure, title in (("width", "Mean width"), ("winkler", "Mean interval (Winkler) score")):
        averages = summary.averages[measure]
        header = ("variant", *next(iter(averages.values())))
        body = ([variant, *(f"{value:.3f}" for value in by_data.values())] for variant, by_data in averages.items())
        lines += [
            "",
            f"{title} over models and splits, in standard deviations of the training targets; smaller is better.",
            "",
            *_markdown_table(header, body),
        ]
    if summary.n_infinite:
        lines += [
            "",
            f"{summary.n_infinite} cells have too few calibration rows for a finite threshold: their intervals are "
            "infinite.",
        ]
    return joined_lines([*lines, "", _claim_text(summary)])


def _claim_text(summary: Summary) -> str:
    """Return a sentence on whether the paper's claim holds: a threshold for each group covers each group."""
    counts = _with_binning(summary.counts, "exact")
    guaranteed = [count for count in counts if count.by_group]
    others = [count for count in counts if not count.by_group]
    if not guaranteed:
        return "No variant with a threshold for each group was run, so there is no claim to check."
    outside, cells, expected, too_few = (
        sum(getattr(count, part) for count in guaranteed) for part in ("outside", "cells", "expected", "below")
    )
    numbers = (
        f"{outside} of {cells} cells are outside, {expected:.1f} are expected; {too_few} have too few covered rows"
    )
    shares = ", ".join(f"{count.variant} {100 * count.outside / count.cells:.0f} %" for count in others)
    rest = f" Cells outside for the other variants: {shares}." if shares else ""
    return (
        "Claim: variants with a threshold for each group keep the level in every group, up to chance: "
        f"{'holds' if summary.holds else 'FAILS'} ({numbers}).{rest}"
    )


def _table_row(count: CellCount) -> tuple[str, ...]:
    extremes = (
        f"{mean.coverage:.3f} ({mean.data} {mean.model} {mean.group})" for mean in (count.lowest, count.highest)
    )
    numbers = (count.cells, f"{count.expected:.1f}", count.outside, count.below, count.above)
    p_value = p_value_text(count.p_value) if count.by_group else "no guarantee"
    return count.variant, *map(str, numbers), p_value, *extremes


def _json_values(values: Any) -> Any:
    """Return nested plain values, with None for the numbers that JSON lacks."""
    if isinstance(values, Mapping):
        return {name: _json_values(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [_json_values(value) for value in values]
    return None if isinstance(values, float) and not np.isfinite(values) else values


def _markdown_table(header: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    rows = [header, ["---"] * len(header), *body]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |" for cells in rows]


def _with_binning(counts: Sequence[CellCount], binning: str) -> list[CellCount]:
    return [count for count in counts if count.binning == binning]


def _count_cells(variant: Variant, rows: Sequence[Row]) -> CellCount:
    cell_rows = [row for row in rows if row["group"] != ALL_ROWS]
    by_model: dict[str, list[_Cell]] = {}
    for row in cell_rows:
        by_model.setdefault(row["model"], []).append(_Cell.of(row))
    cells = [cell for of_model in by_model.values() for cell in of_model]
    p_values = [
        _probability_of_at_least(sum(cell.few for cell in of_model), [cell.p_few for cell in of_model])
        for of_model in by_model.values()
    ]
    means = _mean_coverages(cell_rows)
    return CellCount(
        rows[0]["variant"],
        rows[0]["binning"],
        variant.by_group,
        len(cells),
        sum(cell.few for cell in cells),
        sum(cell.many for cell in cells),
        float(sum(cell.p_few + cell.p_many for cell in cells)),
        min(1.0, len(p_values) * min(p_values)),
        min(means, key=lambda mean: mean.coverage),
        max(means, key=lambda mean: mean.coverage),
    )


class _Cell(NamedTuple):
    """Whether a cell has too few, or too many, covered rows, and the probabilities of both."""

    few: bool
    many: bool
    p_few: float
    p_many: float

    @classmethod
    def of(cls, row: Row) -> "_Cell":
        few, many, *probabilities = _tail_regions(row["n_test"], row["n_calibration"], row["level"])
        return cls(bool(few[row["covered"]]), bool(many[row["covered"]]), *probabilities)


@lru_cache(maxsize=10_000)
def _tail_regions(n_test: int, n_calibration: int, level: float) -> tuple[BoolArray, BoolArray, float, float]:
    """Return, for 0, 1, ..., m covered rows, whether that is too few, and too many; and the probabilities of both."""
    pmf = covered_count_pmf([(n_test, n_calibration)], level)
    few, many = np.cumsum(pmf) <= _TAIL, np.cumsum(pmf[::-1])[::-1] <= _TAIL
    return few, many, float(pmf[few].sum()), float(pmf[many].sum())


def _probability_of_at_least(observed: int, probabilities: Sequence[float]) -> float:
    """Return the probability that at least so many of independent events, with these probabilities, happen."""
    distribution = np.ones(1)
    for p in probabilities:
        distribution = np.convolve(distribution, [1 - p, p])
    return float(min(1.0, distribution[observed:].sum()))


def _mean_coverages(cell_rows: Sequence[Row]) -> list[MeanCoverage]:
    """Return the mean coverage of each group over the splits in which it has test rows."""
    means = _group_means(cell_rows, lambda row: (row["data"], row["model"], row["group"]), "coverage")
    return [MeanCoverage(value, *names) for names, value in means]


def _averages(rows: Sequence[Row], measure: str) -> dict[str, dict[str, float]]:
    """Return a measure's mean over models and splits, by variant and data set, for all test rows."""
    all_rows = [row for row in rows if row["group"] == ALL_ROWS and row["binning"] == "exact"]
    averages: dict[str, dict[str, float]] = {}
    for (variant, data), value in _group_means(all_rows, lambda row: (row["variant"], row["data"]), measure):
        averages.setdefault(variant, {})[data] = value
    return averages


def _group_means(rows: Sequence[Row], key: Callable[[Row], Any], measure: str) -> Iterator[tuple[Any, float]]:
    """Yield each key with the mean of a measure, NaN left out."""
    values: dict[Any, list[float]] = {}
    for row in rows:
        if not np.isnan(row[measure]):
            values.setdefault(key(row), []).append(row[measure])
    yield from ((name, float(np.mean(some))) for name, some in values.items())


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
    drawn = [row for row in rows if (row["data"], row["binning"]) == (data, binning)]
    models, variants = (list(dict.fromkeys(row[part] for row in drawn)) for part in ("model", "variant"))
    figure, axes = new_figure(len(_TITLES), 2, size=(15.0, 11.0), sharex=True)
    for axes_row, (group, title) in zip(axes, _TITLES.items(), strict=True):
        in_group = [row for row in drawn if row["group"] == group]
        for ax, measure in zip(axes_row, ("coverage", "width"), strict=True):
            _draw_bands(ax, models, len(variants))
            _draw_points(ax, in_group, measure, models, variants)
            ax.set_title(f"{measure}, {title}")
        axes_row[0].axhline(drawn[0]["level"], color=BLACK, lw=0.9, ls="--", zorder=1)
        axes_row[0].set_ylim(min(0.6, np.nanmin([row["coverage"] for row in drawn])) - 0.02, 1.02)
        axes_row[1].margins(y=0.1)
        axes_row[1].set_ylim(bottom=0)
    for ax in axes[-1]:
        middles = [len(variants) * (index + 0.5) - 0.5 for index in range(len(models))]
        ax.set_xticks(middles, models, fontsize=11)
        ax.tick_params("x", length=0)
        ax.set_xlim(-0.5, len(models) * len(variants) - 0.5)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(variants), fontsize=10)
    figure.suptitle(shown(_heading(drawn, data, binning)), fontsize=11, parse_math=False)  # "$" is no formula
    return figure


def _heading(drawn: Sequence[Row], data: str, binning: str) -> str:
    splits = len({row["split"] for row in drawn})
    edges = "edge rows calibrated separately" if binning == "exact" else "as in the paper's code"
    return (
        f"{data}: {splits} splits, level {drawn[0]['level']:g} (dashed); groups: thirds of the estimated variance, "
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
