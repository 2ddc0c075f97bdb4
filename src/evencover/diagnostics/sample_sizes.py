"""How many calibration rows it takes, and how many groups they can bear."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import betainc

from evencover._internal.arrays import FloatArray, is_number
from evencover.quantiles import Level, conformal_rank, level_fraction, rows_for_finite_threshold

_FAR = 10**12  # rows, more than anyone has


def rows_needed(level: Level = 0.9, tolerance: float = 0.03, confidence: float = 0.95) -> int:
    """Return how many calibration rows a group needs to be covered within the tolerance of the level.

    With n exchangeable scores without ties, the coverage of their threshold is Beta(k, n + 1 − k), k = ⌈(n + 1) level⌉.
    The answer is the number from which on, for it and every larger one, ``P(|coverage − level| <= tolerance)`` is
    at least the confidence.

    Parameters
    ----------
    level : float
        Nominal coverage.
    tolerance : float
        Distance from the level that is tolerated.
    confidence : float
        Probability that it is kept.

    Examples
    --------
    >>> rows_needed(0.9, tolerance=0.03, confidence=0.95)
    374
    """
    fraction = level_fraction(level)
    for name, value in (("tolerance", tolerance), ("confidence", confidence)):
        if not is_number(value) or not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1; got {value!r}")
    fewest = rows_for_finite_threshold(fraction)

    last = _smallest(lambda n: _kept_by_any_rank(n, fraction, tolerance) >= confidence, fewest)
    if last >= _FAR:
        raise ValueError(f"tolerance must be larger: {tolerance!r} takes more than {_FAR} rows")
    step = int(1 / tolerance) + 1  # an excess of 1 over the rank takes about 2 of these to make up for
    while last > fewest:
        before = range(max(fewest, last - step), last)
        ranks = np.array([conformal_rank(n, fraction) for n in before])
        fails = np.flatnonzero(_kept(np.array(before), ranks, fraction, tolerance) < confidence)
        if len(fails):
            return before[int(fails[-1])] + 1
        last = before[0]
    return last


def groups_affordable(n: int, level: Level = 0.9, tolerance: float = 0.03, confidence: float = 0.95) -> int:
    """Return how many equal-frequency groups n calibration rows can bear, each with the rows it needs.

    `BySpread` and `ByPrediction` lose a row a group to its edge, which is counted here. 0 if the rows do not suffice
    even for all together.

    Parameters
    ----------
    n : int
        Calibration rows.
    level, tolerance, confidence : float
        As in `rows_needed`; the confidence is each group's own.

    Examples
    --------
    >>> groups_affordable(2000, 0.9, tolerance=0.03, confidence=0.95)
    5
    """
    needed = rows_needed(level, tolerance, confidence)
    conformal_rank(n, level)  # says what is wrong with an n that is no number of rows
    return max(n // (needed + 1), int(n >= needed))


def _kept_by_any_rank(n: int, level: Fraction, tolerance: float) -> float:
    """Return the least probability over (n + 1) level and 1 more, between which the rank lies: it grows with n."""
    ends = (n + 1) * float(level) + np.array([0.0, 1.0])
    return float(_kept(n, ends, level, tolerance).min())


def _kept(n: Any, rank: Any, level: Fraction, tolerance: float) -> FloatArray:
    """Return the probability that coverage lies within the tolerance of the level."""
    above = np.maximum(n + 1 - rank, np.finfo(float).tiny)
    low, high = max(float(level) - tolerance, 0.0), min(float(level) + tolerance, 1.0)
    return np.asarray(betainc(rank, above, high) - betainc(rank, above, low))


def _smallest(holds: Callable[[int], bool], start: int) -> int:
    """Return the smallest number from the start on at which something holds that then goes on to hold."""
    low, high = start - 1, start
    while not holds(high) and high < _FAR:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
