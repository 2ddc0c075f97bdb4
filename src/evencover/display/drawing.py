"""Figures: colours, axes, the picture of intervals, and empirical CDFs as steps."""

from typing import Any

import numpy as np

from evencover.inputs.arrays import BoolArray, FloatArray, evenly_spaced_positions
from evencover.inputs.optional import import_optional

BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, GREY = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#0072B2", "#D55E00", "#CC79A7", "#666666"),
)
_LEGEND_SPACE = 0.16  # free space above the highest interval, as a share of the height


def axes_or_new(ax: Any) -> Any:
    """Return the given axes, or the axes of a new figure."""
    if ax is not None:
        return ax
    return import_optional("matplotlib.pyplot", extra="plots", purpose="a picture").subplots(layout="constrained")[1]


def draw_intervals(
    lower: FloatArray,
    upper: FloatArray,
    prediction: FloatArray | None,
    y: FloatArray | None,
    covered: BoolArray | None,
    ax: Any,
) -> Any:
    """Draw rows in their order: intervals as vertical lines, predictions as ticks, covered targets as dots.

    Infinite bounds are drawn to the edge of the picture, empty intervals not at all. All arrays have shape (n,).
    """
    ax = axes_or_new(ax)
    positions, visible = np.arange(len(lower)), lower <= upper
    limits = _limits(lower, upper, prediction, y)
    outside = limits[0] - np.ptp(limits), limits[1] + np.ptp(limits)  # where an infinite line is cut
    ends = (np.clip(bound[visible], *outside) for bound in (lower, upper))
    ax.vlines(positions[visible], *ends, color=SKY, alpha=0.7, lw=1.4, label="interval")
    if prediction is not None:
        size = float(np.clip(400 / max(len(lower), 1), 2.5, 9))  # about the distance between two rows
        ax.plot(positions, prediction, "_", color=BLUE, ms=size, mew=1.2, label="prediction")
    if y is not None and covered is not None:
        kinds = ((covered, BLACK, "o", 2.6, "covered"), (~covered, VERMILION, "D", 3.4, "missed"))
        for which, color, marker, size, name in kinds:
            ax.plot(positions[which], y[which], marker, color=color, ms=size, label=f"{name} ({which.sum()})")
    ax.set_xticks([])  # the order of the rows has a meaning, their positions have none
    bottom, top = ax.get_ylim() if np.isfinite([lower[visible], upper[visible]]).all() else limits
    ax.set_ylim(bottom, top + _LEGEND_SPACE * (top - bottom))
    ax.legend(loc="upper left", ncols=2, frameon=False, handlelength=1.2, columnspacing=1.2, labelspacing=0.3)
    return ax


def _limits(*values: FloatArray | None) -> tuple[float, float]:
    """Return the range of all finite numbers, with a margin of 5 %."""
    numbers = np.concatenate([each[np.isfinite(each)] for each in values if each is not None])
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 0.0)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


_MAX_STEPS = 5000


def score_axis_limits(finite: FloatArray) -> tuple[float, float]:
    """Return axis limits for finite scores: from 0 or the smallest score to a high quantile, which cuts long tails."""
    if not len(finite):
        return 0.0, 1.0
    left = min(0.0, float(finite.min()))
    quantile_95, quantile_999 = (float(np.quantile(finite, share)) for share in (0.95, 0.999))
    right = min(quantile_999, 3 * quantile_95) if quantile_95 > 0 else quantile_999
    return left, right + 0.05 * (right - left) if right > left else left + 1.0


def ecdf_steps(
    values: FloatArray, left: float, right: float, *, max_steps: int = _MAX_STEPS
) -> tuple[FloatArray, FloatArray]:
    """Return the positions and heights of the ECDF's steps between two limits; at most about `max_steps` of them."""
    sorted_values = np.sort(values)
    drawn = evenly_spaced_positions(len(sorted_values), max_steps)
    drawn = drawn[(sorted_values[drawn] >= left) & (sorted_values[drawn] <= right)]
    start = np.searchsorted(sorted_values, left, side="left")
    stop = np.searchsorted(sorted_values, right, side="right")
    heights = np.concatenate([[start], drawn + 1, [stop]]) / len(sorted_values)
    return np.concatenate([[left], sorted_values[drawn], [right]]), heights
