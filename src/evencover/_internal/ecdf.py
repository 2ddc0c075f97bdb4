"""Empirical distributions as ladders of steps, for pictures."""

import numpy as np

from evencover._internal.arrays import FloatArray

_MOST_STEPS = 5000


def score_ends(finite: FloatArray) -> tuple[float, float]:
    """Return the ends of the axis of scores: from 0 or less, to where nearly all lie, long tails cut."""
    if not len(finite):
        return 0.0, 1.0
    left = min(0.0, float(finite.min()))
    bulk, most = (float(np.quantile(finite, share)) for share in (0.95, 0.999))
    right = min(most, 3 * bulk) if bulk > 0 else most
    return left, right + 0.05 * (right - left) if right > left else left + 1.0


def score_steps(
    values: FloatArray, left: float, right: float, *, most: int = _MOST_STEPS
) -> tuple[FloatArray, FloatArray]:
    """Return where the empirical distribution steps up, and to what, between two ends; thinned where there are many."""
    ladder = np.sort(values)
    places = np.unique(np.linspace(0, len(ladder) - 1, min(len(ladder), most)).astype(int))
    places = places[(ladder[places] >= left) & (ladder[places] <= right)]
    start = np.searchsorted(ladder, left, side="left")
    stop = np.searchsorted(ladder, right, side="right")
    shares = np.concatenate([[start], places + 1, [stop]]) / len(ladder)
    return np.concatenate([[left], ladder[places], [right]]), shares
