"""The figure of the benchmark of intervals; matplotlib is loaded when it is drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.interval_measures import Counts, Results, mean_score
from benchmarks.interval_methods import FORMER, default_name
from evencover.display.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from evencover.inputs.optional import import_optional

_COLORS = (VERMILION, ORANGE, GREEN, PURPLE, GREY, BLACK)
_MARKERS = ("s", "D", "^", "v", "P", "X")
_OWN = {  # larger than the others, and above them
    default_name("normal"): {"color": BLUE, "marker": "o", "ms": 8, "zorder": 4},
    default_name("fast"): {"color": SKY, "marker": "o", "ms": 5, "zorder": 3},
}


def write_figure(path: Path, results: Mapping[str, Results], level: float) -> None:
    """Draw interval scores relative to the former default, and coverage over the classes of the spread.

    Parameters
    ----------
    path : Path
        The file to write, such as a png.
    results : mapping from method to results
        If the former default is missing, the first method takes its place.
    level : float
        Nominal coverage.
    """
    mpl = import_optional("matplotlib", extra="plots", purpose="the figure")
    figures = import_optional("matplotlib.figure", extra="plots", purpose="the figure")
    reference = FORMER if FORMER in results else next(iter(results))
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        sets = list(results[reference])
        figure = figures.Figure((9.6, max(4.0, 2.2 + 0.24 * len(sets))), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_scores(left, results, reference)
        _draw_coverage(right, results, level)
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=200)


def _draw_scores(axes: Any, results: Mapping[str, Results], reference: str) -> None:
    """Draw the interval score of each method on each data set, relative to a reference, as dots."""
    sets = list(results[reference])
    positions = np.arange(len(sets))[::-1]
    axes.hlines(positions, 0, 1, transform=axes.get_yaxis_transform(), color="#e8e8e8", lw=0.8, zorder=0)
    axes.axvline(1, color=GREY, lw=1, ls="--", zorder=1)
    for (name, found), style in zip(results.items(), _styles(results), strict=True):
        if name != reference:
            ratios = [mean_score(found[each]) / mean_score(results[reference][each]) for each in sets]
            axes.plot(ratios, positions, ls="", **style)
    axes.set_xscale("log")
    _label_ratios(axes)
    axes.set_yticks(positions, sets)
    axes.tick_params(axis="y", length=0)
    axes.set(title="Interval score (lower is better)", xlabel=f"relative to the {reference}")


def _label_ratios(axes: Any) -> None:
    """Label the ratios on the logarithmic axis as plain numbers."""
    ticks = [
        each for each in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 6, 10) if _is_within(axes, each)
    ]
    axes.set_xticks(ticks, [f"{each:g}" for each in ticks])
    axes.minorticks_off()


def _is_within(axes: Any, value: float) -> bool:
    low, high = axes.get_xlim()
    return bool(low <= value <= high)


def _draw_coverage(axes: Any, results: Mapping[str, Results], level: float) -> None:
    """Draw the coverage of each method in each class of the spread, pooled over data sets and splits, as lines."""
    axes.axhline(level, color=BLACK, lw=1, ls="--", label=f"level {level:g}")
    for (name, found), style in zip(results.items(), _styles(results), strict=True):
        pooled = Counts.pooled([each.spread_classes for by_seed in found.values() for each in by_seed])
        axes.plot(np.arange(1, len(pooled.sizes) + 1), pooled.coverage, lw=1.4, label=name, **style)
    axes.set_xticks(range(1, 11))
    axes.set(title="Coverage", xlabel="class of the judge's spread (1: smallest)", ylabel="share of targets covered")


def _styles(results: Mapping[str, Results]) -> Sequence[dict[str, Any]]:
    """Return the colour and the marker of each method."""
    others = [name for name in results if name not in _OWN]
    styles = {
        name: {"color": _COLORS[i % len(_COLORS)], "marker": _MARKERS[i % len(_MARKERS)], "ms": 5}
        for i, name in enumerate(others)
    }
    return [{**styles, **_OWN}[name] for name in results]
