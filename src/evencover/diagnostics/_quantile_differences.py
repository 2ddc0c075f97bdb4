"""The paper's bootstrap: whether the groups' score quantiles differ.

**No resample is sorted, or even drawn.** The Harrell-Davis estimate of a resample is Σ s_j (W(C_j) − W(C_{j−1})), where
s_j is the j-th smallest of the n scores, C_j the number of resampled scores up to it, and W(i) the weight of the i
smallest ranks. W is 0 or 1 outside a window of about √n ranks, so only the counts inside it are drawn: those below it
are one binomial number.
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

ROWS_BEYOND = 10  # of a group, expected above the quantile, from which on the bootstrap can be trusted
_RESAMPLES = 2000
_RESAMPLES_PER_PAIR = 100
_MOST_RESAMPLES = 20_000
_MOST_GROUPS = 30
_NEGLIGIBLE = 1e-11  # weight, or probability, that a window leaves out at either end
_CELLS = 2_000_000  # counts held at once


@dataclass(frozen=True)
class QuantileDifference:
    """The difference between two groups' score quantiles, by bootstrap.

    Parameters
    ----------
    groups : pair of labels
        The first group and the one that is subtracted.
    difference : float
        Of the Harrell-Davis estimates; NaN where one is not finite.
    low, high : float
        Percentile interval; all pairs' hold together with probability about 95 % (Bonferroni).
    p_value, adjusted : float
        Bootstrap p-value: by itself, and adjusted for the number of pairs (Holm).
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
    """Return the difference of each pair of groups' quantiles, all at the probability level × (1 + 1/n).

    That is the quantile which the marginal threshold of all n rows estimates. Approximate: trust it from about
    10 / (1 − level) rows a group on. With more than 30 groups there are too many pairs, and none is compared.

    References
    ----------
    Wilcox, Erceg-Hurn, Clark, Carlson (2014), Comparing two independent groups via the lower and upper quantiles.
    """
    members = groups.split(scores)
    probability = float(level_fraction(level)) * (1 + 1 / max(len(scores), 1))
    pairs = list(combinations(members, 2))
    if not pairs or probability >= 1 or len(members) > _MOST_GROUPS:
        return ()
    n_resamples = min(max(_RESAMPLES, _RESAMPLES_PER_PAIR * len(pairs)), _MOST_RESAMPLES)
    estimates = {label: harrell_davis(each, probability) for label, each in members.items()}
    resampled = {label: resampled_quantiles(each, probability, n_resamples, rng) for label, each in members.items()}
    found = [_compared(estimates[a] - estimates[b], resampled[a] - resampled[b], len(pairs)) for a, b in pairs]
    adjusted = holm(np.array([p_value for *_, p_value in found])).tolist()
    return tuple(QuantileDifference(*each) for each in zip(pairs, *zip(*found, strict=True), adjusted, strict=True))


def harrell_davis(values: Any, probability: float) -> float:
    """Return the Harrell-Davis estimate of a quantile: the mean of all order statistics, by Beta weights.

    The weights are those of the order statistic of rank (n + 1) p among n, Beta((n + 1) p, (n + 1)(1 − p)).

    Parameters
    ----------
    values : array-like of shape (n,)
        The sample.
    probability : float
        The quantile's, in (0, 1).

    References
    ----------
    Harrell, Davis (1982), A new distribution-free quantile estimator.

    Examples
    --------
    >>> round(harrell_davis([1.0, 2.0, 3.0, 4.0], 0.5), 6)
    2.5
    """
    ladder = np.sort(checked_vector(values, "values", finite=False))
    weights = np.diff(_weights_up_to(len(ladder), probability))
    used = np.isfinite(ladder) | (weights > _NEGLIGIBLE)
    return float(weights[used] @ ladder[used])


def resampled_quantiles(
    values: FloatArray, probability: float, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return the Harrell-Davis estimate of each of many bootstrap resamples; NaN where scores there are infinite."""
    n = len(values)
    reached = _weights_up_to(n, probability)
    low, high = _window(reached, n)
    ladder = np.partition(values, [low, high - 1])[low:high]
    ladder.sort()
    with np.errstate(invalid="ignore"):
        steps = np.diff(ladder)
    parts = [reached[counts] @ steps for counts in _counts(n, low, high, n_resamples, rng)]
    return np.asarray(ladder[-1] - np.concatenate(parts))


def _weights_up_to(n: int, probability: float) -> FloatArray:
    """Return the weight of the i smallest of n, for i from 0 to n. Shape (n + 1,)."""
    return np.asarray(betainc((n + 1) * probability, (n + 1) * (1 - probability), np.arange(n + 1) / n))


def _window(reached: FloatArray, n: int) -> tuple[int, int]:
    """Return the positions, first and one past the last, of scores that can get weight in a resample."""
    first = int(np.searchsorted(reached, _NEGLIGIBLE))  # smallest rank that has weight
    last = int(np.searchsorted(reached, 1 - _NEGLIGIBLE))  # largest
    low = int(n * beta.ppf(_NEGLIGIBLE, first, n - first + 1)) if first > 0 else 0
    high = int(np.ceil(n * beta.isf(_NEGLIGIBLE, last, n - last + 1))) if last < n else n
    return min(low, n - 1), max(high, low + 1)


def _counts(n: int, low: int, high: int, n_resamples: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield, for blocks of resamples, how many of n draws fall on positions up to each of the window but the last."""
    width = high - low
    block = max(1, _CELLS // width)
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        below = rng.binomial(n, low / n, size)
        inside = rng.binomial(n - below, width / (n - low))
        cells = np.repeat(np.arange(0, size * width, width), inside)
        cells += rng.integers(0, width, len(cells))
        counts = np.bincount(cells, minlength=size * width).reshape(size, width)
        counts[:, 0] += below
        yield np.cumsum(counts, axis=1)[:, :-1]


def _compared(difference: float, resampled: FloatArray, n_pairs: int) -> tuple[float, float, float, float]:
    """Return the difference, its percentile interval and its p-value."""
    if not np.isfinite(difference) or np.isnan(resampled).any():
        return (np.nan,) * 4
    tail = SIGNIFICANT / n_pairs / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    more, less = np.count_nonzero(resampled >= 0), np.count_nonzero(resampled <= 0)
    p_value = min(1.0, 2 * (1 + min(more, less)) / (1 + len(resampled)))
    return float(difference), float(low), float(high), p_value
