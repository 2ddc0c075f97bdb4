"""Empirical distribution functions (ECDFs) of scores, as steps to draw."""

import numpy as np

from evencover._internal.arrays import FloatArray, evenly_spaced_positions

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
