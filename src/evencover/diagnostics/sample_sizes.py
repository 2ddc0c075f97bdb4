"""How many calibration rows a group needs, and how many groups the calibration rows allow."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import betainc, ndtr, ndtri

from evencover.diagnostics.exact_tests import CONFIDENCE, SIGNIFICANT
from evencover.diagnostics.verdicts import default_tolerance
from evencover.inputs.arrays import FloatArray, is_number
from evencover.quantiles import Level, conformal_rank, level_fraction, rows_for_finite_threshold

_MAX_GROUPS = 1000
_MAX_ROWS = 10**12  # more than anyone has
_NORMAL_POINTS = ndtri((np.arange(200) + 0.5) / 200)  # equally likely values of a normal distribution


def rows_needed(level: Level = 0.9, tolerance: float | None = None, confidence: float = 0.95) -> int:
    """Return how many calibration rows a group needs for a coverage within the tolerance of the level.

    With n exchangeable scores without ties, the coverage of their threshold is Beta(k, n + 1 − k), k = ⌈(n + 1) level⌉.
    The answer is the smallest n such that ``P(|coverage − level| <= tolerance)`` is at least the confidence, for it and
    for every larger number.

    Parameters
    ----------
    level : float
        Nominal coverage.
    tolerance : float, optional
        Largest accepted distance between coverage and level; min(0.03, 0.1 √(level (1 − level))) by default.
    confidence : float
        Probability that the coverage lies within the tolerance.

    Examples
    --------
    >>> rows_needed(0.9, tolerance=0.03, confidence=0.95)
    374
    """
    fraction = level_fraction(level)
    tolerance = default_tolerance(level) if tolerance is None else tolerance
    for name, value in (("tolerance", tolerance), ("confidence", confidence)):
        if not is_number(value) or not 0 < value < 1:
            raise ValueError(f"{name} must be between 0 and 1; got {value!r}")
    smallest = rows_for_finite_threshold(fraction)

    last = _first_true(lambda n: _lowest_probability(n, fraction, tolerance) >= confidence, smallest)
    if last >= _MAX_ROWS:
        raise ValueError(f"tolerance must be larger: {tolerance!r} needs more than {_MAX_ROWS} rows")
    step = int(1 / tolerance) + 1  # rounding the rank up by 1 is compensated by about 2 such steps
    while last > smallest:
        before = range(max(smallest, last - step), last)
        ranks = np.array([conformal_rank(n, fraction) for n in before])
        fails = np.flatnonzero(_probability_within(np.array(before), ranks, fraction, tolerance) < confidence)
        if len(fails):
            return before[int(fails[-1])] + 1
        last = before[0]
    return last


def max_groups(n: int, level: Level = 0.9, tolerance: float | None = None, confidence: float = 0.95) -> int:
    """Return how many equal-frequency groups n calibration rows allow, if each group has the rows it needs.

    `BySpread` and `ByPrediction` use one row of each group as its edge; this row is taken into account. The answer is 0
    if the rows are too few even for a single group.

    Parameters
    ----------
    n : int
        Number of calibration rows.
    level, tolerance, confidence : float
        See `rows_needed`; the confidence holds for each group separately.

    Examples
    --------
    >>> max_groups(2000, 0.9, tolerance=0.03, confidence=0.95)
    5
    """
    needed = rows_needed(level, tolerance, confidence)
    conformal_rank(n, level)  # raises if n is not a number of rows
    return max(n // (needed + 1), int(n >= needed))


def groups_judged(
    n: int, test_rows: int, level: Level, tolerance: float, *, confidence: float = 0.95, shared: bool = False
) -> int:
    """Return for how many equal groups calibration and test rows will probably show even coverage.

    With n calibration rows and m test rows in a group, its coverage is known up to the variance v / (n + m), where v =
    level (1 − level). Its middle varies around the level: with variance v (1 / n − 1 / (n + m)) if each group has
    its own threshold, and v / (n + m) if one threshold is shared. The answer is the largest number of groups that are
    shown to lie within the tolerance with about the given confidence, by normal approximation; 0 if there is none.
    """
    share = float(level_fraction(level))
    variance = share * (1 - share)
    groups = np.arange(1, min(max(n // rows_for_finite_threshold(level), 1), _MAX_GROUPS) + 1)
    known, tested = max(n, 1) / groups, test_rows / groups
    deviation = np.sqrt(variance / (known + tested))
    middle = deviation if shared else np.sqrt(np.maximum(variance / known - deviation**2, 0.0))
    farthest = -ndtri((1 - confidence) / (2 * groups)) * middle  # of the middles of all groups, from the level
    if shared:
        return int(np.count_nonzero(farthest - ndtri(SIGNIFICANT) * deviation <= tolerance))
    # The probabilities of all groups are multiplied: that of the farthest group, and those of the others on average.
    usual = _log_probability(_NORMAL_POINTS * middle[:, None], deviation[:, None], tolerance).mean(axis=1)
    total = (groups - 1) * usual + _log_probability(farthest, deviation, tolerance)
    return int(np.count_nonzero(total >= np.log(CONFIDENCE)))


def _log_probability(middle: FloatArray, deviation: FloatArray, tolerance: float) -> FloatArray:
    """Return the logarithm of the normal probability of at most the tolerance, which is positive."""
    low, high = (ndtr((end - middle) / deviation) for end in (-tolerance, tolerance))
    return np.log(np.maximum(high - low, np.finfo(float).tiny))


def _lowest_probability(n: int, level: Fraction, tolerance: float) -> float:
    """Return the lower of the probabilities for the ranks (n + 1) level and (n + 1) level + 1.

    The conformal rank lies between the two. Unlike its own probability, this one increases with n.
    """
    ranks = (n + 1) * float(level) + np.array([0.0, 1.0])
    return float(_probability_within(n, ranks, level, tolerance).min())


def _probability_within(n: Any, rank: Any, level: Fraction, tolerance: float) -> FloatArray:
    """Return the probability that coverage lies within the tolerance of the level."""
    above = np.maximum(n + 1 - rank, np.finfo(float).tiny)
    low, high = max(float(level) - tolerance, 0.0), min(float(level) + tolerance, 1.0)
    return np.asarray(betainc(rank, above, high) - betainc(rank, above, low))


def _first_true(condition: Callable[[int], bool], start: int) -> int:
    """Return the smallest number, from the start on, that meets a condition which all larger numbers meet, too."""
    low, high = start - 1, start
    while not condition(high) and high < _MAX_ROWS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high
