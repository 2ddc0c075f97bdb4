"""The paper's bootstrap test of whether the score quantiles of the groups differ.

**Resamples are neither sorted nor drawn in full.** The Harrell-Davis estimate of a resample is
Σ s_j (W(C_j) − W(C_{j−1})). Here s_j is the j-th smallest of the n scores, C_j the number of resampled scores up to it,
and W(i) the total weight of the i smallest ranks. W is 0 or 1 outside a window of about √n ranks. So only the counts
inside the window are drawn, and the count below it is one binomial draw.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import betainc
from scipy.stats import beta

from evencover._internal.arrays import FloatArray, IntArray, checked_vector
from evencover.diagnostics._exact_tests import SIGNIFICANT, holm
from evencover.groups import Groups, Label
from evencover.quantiles import Level, level_fraction

MIN_ROWS_ABOVE = 10  # expected rows of a group above the quantile; with fewer, the bootstrap is not reliable
_MIN_RESAMPLES = 2000
_RESAMPLES_PER_PAIR = 100
_MAX_RESAMPLES = 20_000
_MAX_GROUPS = 30  # with more, there are too many pairs to look at
_NEGLIGIBLE = 1e-11  # weight, or probability, outside the window at either end
_MAX_COUNTS = 2_000_000  # in memory at a time


@dataclass(frozen=True)
class QuantileDifference:
    """The difference between the score quantiles of two groups, with a bootstrap interval.

    Parameters
    ----------
    groups : pair of labels
        The first group, and the second one, which is subtracted.
    difference : float
        Difference of the Harrell-Davis estimates; NaN if one of them is not finite.
    low, high : float
        Percentile interval; the intervals of all pairs hold jointly with probability about 95 % (Bonferroni).
    p_value, adjusted : float
        Bootstrap p-value: unadjusted, and Holm-adjusted for the number of pairs.
    """

    groups: tuple[Label, Label]
    difference: float
    low: float
    high: float
    p_value: float
    adjusted: float


def quantile_differences(
    scores: FloatArray, groups: Groups, level: Level, rng: np.random.Generator
) -> tuple[QuantileDifference, ...]:
    """Return the difference of score quantiles for each pair of groups, at the probability level × (1 + 1/n).

    The marginal threshold of all n rows estimates the quantile at this probability. The bootstrap is approximate: it
    needs about 10 / (1 − level) rows per group. With more than 30 groups there are too many pairs, and the result is
    empty.

    References
    ----------
    Wilcox, Erceg-Hurn, Clark, Carlson (2014), Comparing two independent groups via the lower and upper quantiles.
    """
    members = groups.split(scores)
    probability = float(level_fraction(level)) * (1 + 1 / max(len(scores), 1))
    pairs = list(combinations(members, 2))
    if not pairs or probability >= 1 or len(members) > _MAX_GROUPS:
        return ()
    n_resamples = min(max(_MIN_RESAMPLES, _RESAMPLES_PER_PAIR * len(pairs)), _MAX_RESAMPLES)
    estimates = {label: harrell_davis(own, probability) for label, own in members.items()}
    resampled = {label: resampled_quantiles(own, probability, n_resamples, rng) for label, own in members.items()}
    compared = [_bootstrap_test(estimates[a] - estimates[b], resampled[a] - resampled[b], len(pairs)) for a, b in pairs]
    adjusted = holm(np.array([p_value for *_, p_value in compared])).tolist()
    return tuple(QuantileDifference(*each) for each in zip(pairs, *zip(*compared, strict=True), adjusted, strict=True))


def harrell_davis(values: Any, probability: float) -> float:
    """Return the Harrell-Davis estimate of a quantile: the mean of all order statistics with Beta weights.

    The weights come from the distribution Beta((n + 1) p, (n + 1)(1 − p)) of the order statistic of rank (n + 1) p.

    Parameters
    ----------
    values : array-like of shape (n,)
        The sample.
    probability : float
        Probability of the quantile, in (0, 1).

    References
    ----------
    Harrell, Davis (1982), A new distribution-free quantile estimator.

    Examples
    --------
    >>> round(harrell_davis([1.0, 2.0, 3.0, 4.0], 0.5), 6)
    2.5
    """
    ordered = np.sort(checked_vector(values, "values", finite=False))
    weights = np.diff(_cumulative_weights(len(ordered), probability))
    used = np.isfinite(ordered) | (weights > _NEGLIGIBLE)
    return float(weights[used] @ ordered[used])


def resampled_quantiles(
    values: FloatArray, probability: float, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return the Harrell-Davis estimates of bootstrap resamples; NaN if scores near the quantile are infinite."""
    n = len(values)
    weights = _cumulative_weights(n, probability)
    low, high = _window(weights, n)
    ordered = np.partition(values, [low, high - 1])[low:high]
    ordered.sort()
    with np.errstate(invalid="ignore"):  # from infinite scores
        steps = np.diff(ordered)
        parts = [weights[counts] @ steps for counts in _cumulative_counts(n, low, high, n_resamples, rng)]
        return np.asarray(ordered[-1] - np.concatenate(parts))


def _cumulative_weights(n: int, probability: float) -> FloatArray:
    """Return the total weight of the i smallest of n values, for i from 0 to n. Shape (n + 1,)."""
    return np.asarray(betainc((n + 1) * probability, (n + 1) * (1 - probability), np.arange(n + 1) / n))


def _window(weights: FloatArray, n: int) -> tuple[int, int]:
    """Return the range of positions (the end excluded) of the scores that can have weight in a resample."""
    first = int(np.searchsorted(weights, _NEGLIGIBLE))  # smallest rank that has weight
    last = int(np.searchsorted(weights, 1 - _NEGLIGIBLE))  # largest rank that has weight
    low = int(n * beta.ppf(_NEGLIGIBLE, first, n - first + 1)) if first > 0 else 0
    high = int(np.ceil(n * beta.isf(_NEGLIGIBLE, last, n - last + 1))) if last < n else n
    return min(low, n - 1), max(high, low + 1)


def _cumulative_counts(n: int, low: int, high: int, n_resamples: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield, for blocks of resamples, how many of n draws fall up to each position of the window but the last."""
    width = high - low
    block = max(1, _MAX_COUNTS // width)
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        below = rng.binomial(n, low / n, size)
        inside = rng.binomial(n - below, width / (n - low)).astype(np.intp)  # np.repeat takes no int64 on 32 bits
        positions = np.repeat(np.arange(0, size * width, width), inside)
        positions += rng.integers(0, width, len(positions))
        counts = np.bincount(positions, minlength=size * width).reshape(size, width)
        counts[:, 0] += below
        yield np.cumsum(counts, axis=1)[:, :-1]


def _bootstrap_test(difference: float, resampled: FloatArray, n_pairs: int) -> tuple[float, float, float, float]:
    """Return a difference with the bounds of its percentile interval and its p-value."""
    if not np.isfinite(difference) or np.isnan(resampled).any():
        return (np.nan,) * 4
    tail = SIGNIFICANT / n_pairs / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    above, below = np.count_nonzero(resampled >= 0), np.count_nonzero(resampled <= 0)
    p_value = min(1.0, 2 * (1 + min(above, below)) / (1 + len(resampled)))
    return float(difference), float(low), float(high), p_value
