"""Pictures of results. Each function takes data and, if given, axes to draw on, and returns the axes.

Colours can be told apart by colour-blind readers (Okabe and Ito's palette), and differ in marker or line as well.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray, check_count, checked_vector
from evencover._internal.ecdf import score_ends, score_steps
from evencover._internal.optional import import_optional
from evencover.diagnostics._verdict import GroupCoverage, excludes
from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.intervals import Intervals

BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, GREY = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#0072B2", "#D55E00", "#CC79A7", "#666666"),
)
PALETTE = (VERMILION, PURPLE, BLUE, GREEN, ORANGE, SKY, BLACK)
BY_NOISE = (BLUE, ORANGE, VERMILION)  # low, medium, high
LINES = ("-", "--", "-.")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_MOST_BANDS = 7  # beyond which bands hide each other
STYLE: Mapping[str, Any] = {
    "axes.grid": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "evencover",  # the same picture is the same file
}


def axes_or_new(ax: Any) -> Any:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    return import_optional("matplotlib.pyplot", extra="plots", purpose="a picture").subplots(layout="constrained")[1]


def new_figure(rows: int, columns: int, *, size: tuple[float, float], **shared: Any) -> tuple[Any, Any]:
    """Return a figure outside any window, and its axes as an array of shape (rows, columns)."""
    figure = import_optional("matplotlib.figure", extra="plots", purpose="a picture").Figure(size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def picture_files(figure: Any) -> dict[str, bytes]:
    """Return a figure as the contents of files, by ending: png and svg. The same picture has the same bytes."""
    files = {}
    for ending, metadata in (("png", {}), ("svg", {"Date": None})):
        figure.savefig(content := BytesIO(), format=ending, metadata=metadata)
        files[ending] = content.getvalue()
    return files


def plot_score_cdfs(
    scores: Mapping[Any, FloatArray], *, level: float = 0.9, threshold: float | None = None, ax: Any = None
) -> Any:
    """Draw the empirical distribution of the scores: of all rows together, and of each group.

    Where the groups' lines meet the level at the threshold, one threshold for all is even at that level; where they
    coincide, it is at every level. The shaded bands hold all groups' true distributions, all along, with probability
    95 % (Dvoretzky, Kiefer, Wolfowitz; Massart's constant; Bonferroni over the groups). Infinite scores count, off the
    picture; with more than seven groups the bands are left out.

    Parameters
    ----------
    scores : mapping from label to ndarray
        Each group's scores.
    level : float
        Nominal coverage, a horizontal line.
    threshold : float, optional
        The threshold of all rows together, a vertical line.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    ax = axes_or_new(ax)
    together = np.concatenate(list(scores.values()))
    finite = together[np.isfinite(together)]
    left, right = score_ends(finite)
    ax.step(*score_steps(together, left, right), where="post", color=BLACK, lw=1.4, label="all rows")
    colors = BY_NOISE if len(scores) == len(BY_NOISE) else PALETTE
    for i, (name, values) in enumerate(scores.items()):
        color, line = colors[i % len(colors)], LINES[i % len(LINES)]
        ladder, share = score_steps(values, left, right)
        ax.step(ladder, share, where="post", color=color, lw=1.4, ls=line, label=str(name))
        if len(scores) > _MOST_BANDS:
            continue
        reach = np.sqrt(np.log(2 * len(scores) / 0.05) / (2 * len(values)))
        band = np.clip(share - reach, 0, 1), np.clip(share + reach, 0, 1)
        ax.fill_between(ladder, *band, step="post", color=color, alpha=0.13, lw=0, rasterized=True)
    ax.axhline(level, color=GREY, lw=0.8, ls=":")
    if threshold is not None and np.isfinite(threshold):
        ax.axvline(threshold, color=GREY, lw=0.8, ls=":")
    ax.set(xlim=(left, right), ylim=(0, 1.01), xlabel="score", ylabel="share of rows")
    return ax


def plot_diagnosis(diagnosis: Diagnosis, *, ax: Any = None) -> Any:
    """Draw the scores that a diagnosis rests on: the paper's CDF plot.

    Parameters
    ----------
    diagnosis : Diagnosis
        From `diagnose` or `diagnose_scores`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    if not isinstance(diagnosis, Diagnosis):
        raise TypeError(f"plot_diagnosis takes a Diagnosis, from diagnose; got {type(diagnosis).__name__}")
    ax = plot_score_cdfs(diagnosis.scores, level=diagnosis.level, threshold=diagnosis.threshold, ax=ax)
    ax.set_title(
        f"One threshold for all rows: {diagnosis.verdict}\n(dotted: level {diagnosis.level:g}, and the threshold)"
    )
    ax.legend(loc="lower right", ncols=1 + len(diagnosis.scores) // 10)
    return ax


def plot_group_coverages(result: Diagnosis | Audit, *, ax: Any = None) -> Any:
    """Draw each group's coverage with its 95 % interval, the level, and the band that counts as even.

    Groups whose interval excludes the level have a colour and a marker of their own; groups without rows are left out.

    Parameters
    ----------
    result : Diagnosis or Audit
        What to draw the table of.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    if not isinstance(result, Diagnosis | Audit):
        raise TypeError(f"plot_group_coverages takes a Diagnosis or an Audit; got {type(result).__name__}")
    ax = axes_or_new(ax)
    ax.axvspan(result.level - result.tolerance, result.level + result.tolerance, color=GREY, alpha=0.15, lw=0)
    ax.axvline(result.level, color=GREY, lw=0.9, ls="--")
    table: list[GroupCoverage] = [group for group in result.table if group.rows]
    for y, group in enumerate(table):
        color, marker = (VERMILION, "D") if excludes(group, result.level) else (BLUE, "o")
        ax.hlines(y, group.low, group.high, color=color, lw=2.4)
        ax.plot(group.coverage, y, marker, color=color)
    ax.set_yticks(range(len(table)), [f"{group.group} ({group.rows} rows)" for group in table])
    ax.invert_yaxis()
    ax.margins(y=0.5 / max(len(table), 1))
    ax.set(
        xlabel="coverage, with 95 % intervals",
        title=f"Coverage by group: {result.verdict}\n(grey: {result.level:g} ± {result.tolerance:g})",
    )
    return ax


def plot_intervals(y: Any, intervals: Intervals, by: Any, *, most: int = 200, ax: Any = None) -> Any:
    """Draw rows' intervals as vertical lines and their targets as dots, from the smallest of a number to the largest.

    Targets that were missed have a colour and a marker of their own. Of many rows, some are drawn, evenly spaced.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    intervals : Intervals of n rows
        Theirs, for one level.
    by : array-like of shape (n,)
        What to sort by, such as the spread.
    most : int
        How many rows to draw.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    if not isinstance(intervals, Intervals) or intervals.lower.ndim > 1:
        raise TypeError(f"plot_intervals takes Intervals for one level; got {intervals!r}")
    y, by = (checked_vector(each, name, length=len(intervals)) for each, name in ((y, "y"), (by, "by")))
    check_count(most, "most")
    order = np.argsort(by, kind="stable")
    rows = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), most)).astype(int))]
    ax = axes_or_new(ax)
    places, some = np.arange(len(rows)), intervals[rows]
    covered = some.covers(y[rows])
    ax.vlines(places[~some.empty], some.lower[~some.empty], some.upper[~some.empty], color=SKY, lw=1.2)
    for which, color, marker, name in ((covered, BLACK, "o", "covered"), (~covered, VERMILION, "D", "missed")):
        ax.plot(places[which], y[rows][which], marker, color=color, ms=2.6, label=f"{name} ({which.sum()})")
    ax.set(xlabel="rows, from the smallest to the largest", ylabel="target, with its interval")
    ax.legend(loc="upper left")
    return ax


def plot_coverages(coverages: Sequence[tuple[str, FloatArray, float]], *, level: float = 0.9, ax: Any = None) -> Any:
    """Draw coverage over repeats: mean, two standard errors as a bar, the middle 90 % of single repeats as a thin line.

    Parameters
    ----------
    coverages : sequence of (name, ndarray of shape (repeats,), position)
        Coverage in each repeat, and where on the horizontal axis; equal names look the same.
    level : float
        Nominal coverage, a horizontal line.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
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
