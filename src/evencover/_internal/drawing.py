"""Colours, axes, and the picture of intervals; matplotlib is loaded when something is drawn."""

from typing import Any

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray
from evencover._internal.optional import import_optional

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
