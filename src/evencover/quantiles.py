"""The conformal rank and quantile, in exact arithmetic."""

import math
import operator
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from evencover.inputs.arrays import FloatArray, IntArray, checked_nonnegative, is_on_device
from evencover.inputs.device_arrays import checked_column, namespace, smallest
from evencover.inputs.frames import check_same_index

Level: TypeAlias = float | Fraction
Levels: TypeAlias = Level | Sequence[Level]

_LEVEL_DECIMALS = 12  # a float level is rounded to these: 0.30000000000000004 means 0.3


def level_fraction(level: Any) -> Fraction:
    """Return the level as the fraction of its decimal digits: 0.9 is 9/10.

    Parameters
    ----------
    level : float or Fraction
        Strictly between 0 and 1. A float is rounded to 12 decimals first, unless that would make it 0 or 1.

    Examples
    --------
    >>> level_fraction(0.1 + 0.2)
    Fraction(3, 10)
    """
    if isinstance(level, bool) or not isinstance(level, int | float | np.floating | np.integer | Fraction):
        raise TypeError(f"level must be a number between 0 and 1, such as 0.9; got {level!r}")
    if not 0 < level < 1:
        hint = f"; did you mean {float(level) / 100:g}?" if 1 < level < 100 else ""
        raise ValueError(f"level must lie strictly between 0 and 1; got {level}{hint}")
    return level if isinstance(level, Fraction) else _decimal_fraction(str(level))


@lru_cache
def _decimal_fraction(level: str) -> Fraction:
    """Return a decimal as a rounded fraction; from text, because numpy's float32 0.9 is printed as 0.9 too."""
    exact = Fraction(level)
    rounded = round(exact, _LEVEL_DECIMALS)
    return rounded if 0 < rounded < 1 else exact


def is_level_sequence(level: Levels) -> bool:
    """Return whether this is a sequence of levels (also of only one), not a number."""
    return np.ndim(level) > 0  # type: ignore[arg-type]


def level_fractions(level: Any) -> tuple[Fraction, ...]:
    """Return the level, or each of several levels, as a fraction."""
    if not is_level_sequence(level):
        return (level_fraction(level[()] if isinstance(level, np.ndarray) else level),)
    if len(level) == 0:
        raise ValueError("level must be one level or several; got an empty sequence")
    return tuple(level_fraction(each) for each in level)


def conformal_rank(n: int, level: Level) -> int:
    """Return k = ceil((n + 1) level), in exact arithmetic.

    Among n + 1 exchangeable scores without ties, the last one is at most the k-th smallest of the others with
    probability k / (n + 1). The rank k is the smallest for which this probability is at least the level. If k > n, no
    finite threshold reaches the level.

    Parameters
    ----------
    n : int
        Number of calibration scores, 0 or more.
    level : float or Fraction
        Nominal coverage; a float stands for its decimal digits, 0.9 for 9/10.

    Examples
    --------
    >>> conformal_rank(99, 0.9), conformal_rank(9, 0.9), conformal_rank(8, 0.9)
    (90, 9, 9)
    """
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"n must be a whole number; got {n!r}") from None
    if n < 0:
        raise ValueError(f"n must be 0 or more; got {n}")
    fraction = level_fraction(level)
    return -(-(n + 1) * fraction.numerator // fraction.denominator)


_PRECISE_MISSES = 10  # with fewer, groups make intervals wider, and coverage not more even


def rows_for_finite_threshold(level: Level) -> int:
    """Return the smallest number of rows n with a finite threshold, that is with a conformal rank of at most n.

    Examples
    --------
    >>> rows_for_finite_threshold(0.9), rows_for_finite_threshold(0.95)
    (9, 19)
    """
    fraction = level_fraction(level)
    return math.ceil(fraction / (1 - fraction))


def rows_for_precise_thresholds(n_thresholds: int, level: Level) -> int:
    """Return how many rows some thresholds need, so that each misses ten of its calibration rows on average.

    Examples
    --------
    >>> rows_for_precise_thresholds(1, 0.9), rows_for_precise_thresholds(3, 0.95)
    (100, 600)
    """
    return math.ceil(n_thresholds * _PRECISE_MISSES / (1 - level_fraction(level)))


def conformal_quantile(
    scores: Any, level: Levels, *, weights: Any = None, test_weight: Any = None
) -> float | FloatArray:
    """Return a threshold: a new score is at most this large with probability at least `level`.

    Without weights it is the k-th smallest of the n scores, k = `conformal_rank(n, level)`, and inf if k > n. The
    guarantee holds if the new score and these scores are exchangeable.

    With weights it is the smallest score t with ``sum(weights[scores <= t]) >= level * (sum(weights) +
    test_weight)``, and inf if there is none. The guarantee holds under covariate shift if the weights are proportional
    to the likelihood ratio of features, new rows to calibration rows. Equal weights give exactly the unweighted result;
    sums of unequal weights have floating-point rounding.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Calibration scores; infinite ones are allowed, NaN is not. Those of torch, CuPy or JAX stay on their device, and
        so does the result; they take no weights.
    level : float, or sequence of L floats
        Nominal coverage.
    weights : array-like of shape (n,), optional
        Weight of each calibration row, not negative.
    test_weight : float or array-like of shape (m,), optional
        Weight of the new row, or of each of m new rows; required with `weights`.

    Returns
    -------
    float or ndarray
        A number; with several levels or several new rows an array of shape (L,), (m,) or (m, L).

    References
    ----------
    Tibshirani, Foygel Barber, Candès, Ramdas (2019), Conformal prediction under covariate shift.

    Examples
    --------
    >>> conformal_quantile([3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 9.0, 8.0, 7.0], 0.8)
    8.0
    >>> conformal_quantile([3.0, 1.0, 2.0], 0.9)
    inf
    """
    check_same_index({"scores": scores, "weights": weights})
    scores = checked_column(scores, "scores", finite=False)
    levels = level_fractions(level)
    if (weights is None) != (test_weight is None):
        raise ValueError("weights and test_weight must be given together; got only one of them")
    if weights is None:
        quantiles = thresholds(scores, levels)
    elif is_on_device(scores):
        raise ValueError("weights must be None for scores on a device; use arrays of numpy")
    else:
        weights = checked_nonnegative(weights, "weights", length=len(scores), matched="scores")
        test_weights = checked_nonnegative(np.atleast_1d(test_weight), "test_weight")
        quantiles = weighted_thresholds(scores, levels, weights, test_weights)
        quantiles = quantiles[0] if np.ndim(test_weight) == 0 else quantiles
    quantiles = quantiles if is_level_sequence(level) else quantiles[..., 0]
    return float(quantiles) if quantiles.ndim == 0 and not is_on_device(scores) else quantiles


def thresholds(scores: FloatArray, levels: tuple[Fraction, ...]) -> FloatArray:
    """Return the conformal quantile of checked scores at each level. Shape (L,)."""
    if is_on_device(scores):
        xp, n = namespace(scores), scores.shape[0]
        return xp.stack(smallest(xp, scores, [conformal_rank(n, level) for level in levels], n))  # type: ignore[no-any-return]
    ranks = np.array([conformal_rank(len(scores), level) for level in levels])
    quantiles = np.full(len(levels), np.inf)
    finite = ranks <= len(scores)
    if finite.any():
        positions = ranks[finite] - 1
        quantiles[finite] = np.partition(scores, np.unique(positions))[positions]
    return quantiles


def weighted_thresholds(
    scores: FloatArray, levels: tuple[Fraction, ...], weights: FloatArray, test_weights: FloatArray
) -> FloatArray:
    """Return the weighted conformal quantile for each of m test weights at each level. Shape (m, L)."""
    order = np.argsort(scores, kind="stable")
    sorted_scores = np.append(scores[order], np.inf)
    cumulative = np.cumsum(weights[order])  # (n,)
    total = cumulative[-1] if len(cumulative) else 0.0
    needed = (total + test_weights)[:, None] * np.array([float(level) for level in levels])  # (m, L)
    quantiles: FloatArray = sorted_scores[np.searchsorted(cumulative, needed, side="left")]
    if len(weights) and weights.min() == weights.max():
        quantiles[test_weights == weights[0]] = thresholds(scores, levels)
    quantiles[needed == 0] = np.inf  # all weights are 0, so the data give no threshold
    return quantiles


def cluster_weight(sizes: IntArray) -> Fraction:
    """Return the total weight of rows that weigh 1 / size each, size being the number of rows of their cluster."""
    distinct, counts = np.unique(sizes, return_counts=True)
    return sum((Fraction(int(n), int(size)) for size, n in zip(distinct, counts, strict=True)), Fraction(0))


def clustered_thresholds(scores: FloatArray, levels: tuple[Fraction, ...], sizes: IntArray) -> FloatArray:
    """Return the conformal quantile at each level for a random row of a new cluster. Shape (L,).

    A row of a cluster of m rows weighs 1 / m, and the new row weighs 1. The quantile is the smallest score t for which
    the scores up to t have at least the level of the total weight, the new row's included; inf if there is none. Sums
    of weights are whole numbers here, in units of one over the least common multiple of the sizes, so they are exact.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Calibration scores.
    levels : tuple of L fractions
        Nominal coverages.
    sizes : ndarray of int, shape (n,)
        Number of all calibration rows in the cluster of each row, also those of other groups.

    References
    ----------
    Lee, Barber, Willett (2023), Distribution-free inference with hierarchical data.
    """
    order = np.argsort(scores, kind="stable")
    distinct, codes = np.unique(sizes[order], return_inverse=True)
    unit = math.lcm(*distinct.tolist())
    row_weights = [unit // size for size in distinct.tolist()]

    def weight(n: int) -> int:
        """Return the weight of the n smallest scores."""
        counts = np.bincount(codes[:n], minlength=len(distinct)).tolist()
        return sum(map(operator.mul, counts, row_weights))

    total = weight(len(scores)) + unit
    needed = (-(-total * level.numerator // level.denominator) for level in levels)
    positions = [bisect_left(range(1, len(scores) + 1), each, key=weight) for each in needed]
    return np.append(scores[order], np.inf)[positions]
