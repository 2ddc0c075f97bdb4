"""Plots of results. Each function draws on the given matplotlib axes, or on those of a new figure, and returns them.

Colour-blind readers can distinguish the colours (Okabe and Ito's palette); markers or line styles differ as well.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.verdicts import GroupCoverage, is_off
from evencover.display.drawing import BLACK as BLACK
from evencover.display.drawing import BLUE as BLUE
from evencover.display.drawing import GREEN as GREEN
from evencover.display.drawing import GREY as GREY
from evencover.display.drawing import ORANGE as ORANGE
from evencover.display.drawing import PURPLE as PURPLE
from evencover.display.drawing import SKY as SKY
from evencover.display.drawing import VERMILION as VERMILION
from evencover.display.drawing import axes_or_new, ecdf_steps, score_axis_limits
from evencover.inputs.arrays import FloatArray
from evencover.inputs.optional import import_optional
from evencover.intervals import Intervals

PALETTE = (VERMILION, PURPLE, BLUE, GREEN, ORANGE, SKY, BLACK)
NOISE_COLORS = (BLUE, ORANGE, VERMILION)  # low, medium, high
LINE_STYLES = ("-", "--", "-.")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_MAX_BANDS = 7  # more bands would hide each other
STYLE: Mapping[str, Any] = {
    "axes.grid": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "evencover",  # the same figure gives the same file
}


def new_figure(rows: int, columns: int, *, size: tuple[float, float], **shared: Any) -> tuple[Any, Any]:
    """Return a figure without a window, and its axes as an array of shape (rows, columns)."""
    figure = import_optional("matplotlib.figure", extra="plots", purpose="a picture").Figure(size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def picture_files(figure: Any) -> dict[str, bytes]:
    """Return the bytes of a figure as png and as svg file, by file extension. Equal figures give equal bytes."""
    files = {}
    for extension, metadata in (("png", {}), ("svg", {"Date": None})):
        figure.savefig(content := BytesIO(), format=extension, metadata=metadata)
        files[extension] = content.getvalue()
    return files


def plot_score_cdfs(
    scores: Mapping[Any, FloatArray], *, level: float = 0.9, threshold: float | None = None, ax: Any = None
) -> Any:
    """Draw the empirical distribution functions (ECDFs) of the scores of all rows and of each group.

    If the lines of all groups cross the level at the threshold, one threshold gives all groups the same coverage at
    that level. If the lines coincide, it does so at every level. The shaded bands are simultaneous: with probability
    95 % they contain the true distribution functions of all groups everywhere (Dvoretzky–Kiefer–Wolfowitz inequality
    with Massart's constant, Bonferroni over the groups). With more than seven groups the bands are left out. Infinite
    scores are counted, but not shown.

    Parameters
    ----------
    scores : mapping from label to ndarray
        The scores of each group.
    level : float
        Nominal coverage, drawn as a horizontal line.
    threshold : float, optional
        The threshold of all rows, drawn as a vertical line.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    """
    ax = axes_or_new(ax)
    all_scores = np.concatenate(list(scores.values()))
    left, right = score_axis_limits(all_scores[np.isfinite(all_scores)])
    ax.step(*ecdf_steps(all_scores, left, right), where="post", color=BLACK, lw=1.4, label="all rows")
    colors = NOISE_COLORS if len(scores) == len(NOISE_COLORS) else PALETTE
    for i, (name, values) in enumerate(scores.items()):
        color, style = colors[i % len(colors)], LINE_STYLES[i % len(LINE_STYLES)]
        positions, heights = ecdf_steps(values, left, right)
        ax.step(positions, heights, where="post", color=color, lw=1.4, ls=style, label=str(name))
        if len(scores) > _MAX_BANDS:
            continue
        half_width = np.sqrt(np.log(2 * len(scores) / 0.05) / (2 * len(values)))
        band = np.clip(heights - half_width, 0, 1), np.clip(heights + half_width, 0, 1)
        ax.fill_between(positions, *band, step="post", color=color, alpha=0.13, lw=0, rasterized=True)
    ax.axhline(level, color=GREY, lw=0.8, ls=":")
    if threshold is not None and np.isfinite(threshold):
        ax.axvline(threshold, color=GREY, lw=0.8, ls=":")
    ax.set(xlim=(left, right), ylim=(0, 1.01), xlabel="score", ylabel="share of rows")
    return ax


def plot_diagnosis(diagnosis: Diagnosis, *, ax: Any = None) -> Any:
    """Draw the score distributions of a diagnosis: the paper's CDF plot.

    Parameters
    ----------
    diagnosis : Diagnosis
        Result of `diagnose` or `diagnose_scores`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    """
    if not isinstance(diagnosis, Diagnosis):
        raise TypeError(f"diagnosis must be a Diagnosis, the result of diagnose; got {type(diagnosis).__name__}")
    ax = plot_score_cdfs(diagnosis.scores, level=diagnosis.level, threshold=diagnosis.threshold, ax=ax)
    ax.set_title(
        f"One threshold for all rows: {diagnosis.verdict}\n(dotted: level {diagnosis.level:g}, and the threshold)"
    )
    ax.legend(loc="lower right", ncols=1 + len(diagnosis.scores) // 10)
    return ax


def plot_group_coverages(result: Diagnosis | Audit, *, ax: Any = None) -> Any:
    """Draw each group's coverage with its interval, the level, and the tolerance around the level.

    Groups that are off, by the rule of the verdict, have a different colour and marker. Groups without rows are left
    out.

    Parameters
    ----------
    result : Diagnosis or Audit
        The result whose table of groups is drawn.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    """
    if not isinstance(result, Diagnosis | Audit):
        raise TypeError(f"result must be a Diagnosis or an Audit; got {type(result).__name__}")
    ax = axes_or_new(ax)
    ax.axvspan(result.level - result.tolerance, result.level + result.tolerance, color=GREY, alpha=0.15, lw=0)
    ax.axvline(result.level, color=GREY, lw=0.9, ls="--")
    table: list[GroupCoverage] = [group for group in result.table if group.rows]
    for y, group in enumerate(table):
        color, marker = (VERMILION, "D") if is_off(group, result.level, result.tolerance) else (BLUE, "o")
        ax.hlines(y, group.low, group.high, color=color, lw=2.4)
        ax.plot(group.estimate, y, marker, color=color)
    ax.set_yticks(range(len(table)), [f"{group.group} ({group.rows} rows)" for group in table])
    ax.invert_yaxis()
    ax.margins(y=0.5 / max(len(table), 1))
    ax.set(
        xlabel="coverage, with 95 % intervals",
        title=f"Coverage by group: {result.verdict}\n(grey: {result.level:g} ± {result.tolerance:.2g})",
    )
    return ax


def plot_intervals(y: Any, intervals: Intervals, by: Any = None, *, most: int = 200, ax: Any = None) -> Any:
    """Draw the intervals of rows as vertical lines and their targets as dots, sorted by a number.

    Missed targets have a different colour and marker. If the predictions are known, ticks show them. If there are many
    rows, evenly spaced ones are drawn. ``intervals.plot(y)`` is the same.

    Parameters
    ----------
    y : array-like of shape (n,) or None
        Targets; None draws the intervals only.
    intervals : Intervals of n rows
        Their intervals, for one level.
    by : array-like of shape (n,), optional
        The number to sort by, such as the spread. By default the rows are sorted by their prediction.
    most : int
        Maximum number of rows to draw.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    """
    if not isinstance(intervals, Intervals):
        raise TypeError(f"intervals must be Intervals for one level; got {intervals!r}")
    return intervals.plot(y, by=by, most=most, ax=ax)


def plot_coverages(coverages: Sequence[tuple[str, FloatArray, float]], *, level: float = 0.9, ax: Any = None) -> Any:
    """Draw coverage over repeats: the mean, a bar of ± 2 standard errors, a thin line for the middle 90 % of repeats.

    Parameters
    ----------
    coverages : sequence of (name, ndarray of shape (repeats,), position)
        Name, coverage in each repeat, and position on the horizontal axis; equal names get the same colour and marker.
    level : float
        Nominal coverage, drawn as a horizontal line.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    """
    ax = axes_or_new(ax)
    ax.axhline(level, color=GREY, lw=0.9, ls="--", zorder=0)
    names: list[str] = []
    for name, values, x in coverages:
        label = None if name in names else name
        names += [name] if label else []
        color, marker = (each[names.index(name) % len(each)] for each in (PALETTE, MARKERS))
        ax.vlines(x, *np.quantile(values, [0.05, 0.95]), lw=0.8, alpha=0.6, color=color)
        error = 2 * values.std(ddof=1) / np.sqrt(len(values))
        ax.errorbar(x, values.mean(), error, fmt=marker, ms=3.4, elinewidth=2.4, color=color, label=label)
    return ax
