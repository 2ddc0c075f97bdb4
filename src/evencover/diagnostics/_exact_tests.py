"""Exact distributions of the number of covered rows: Clopper-Pearson bounds, p-values, Holm's adjustment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import betainc, betaincinv, betaln, ndtr
from scipy.stats import beta, binom

from evencover._internal.arrays import FloatArray, IntArray
from evencover.guarantees import TailShares, covered_rank
from evencover.quantiles import Level, level_fraction

CONFIDENCE = 0.95
SIGNIFICANT = 0.05
CONTRADICTION = 0.001  # a p-value below it says that test rows do not fit the calibration rows
_MAX_COUNTS = 10**6  # with more rows, p-values are computed on a grid
_DEVIATIONS = 12  # how many standard deviations from the mean coverages are likely
_CELLS = 2**15  # of a grid of coverages
_MAX_POOLS = 200  # the sum of more is normal


def clopper_pearson_lower(covered: int | IntArray, n: int | IntArray, groups: int | IntArray = 1) -> FloatArray:
    """Return the lower end of the 95 % Clopper-Pearson interval, exact for binomial counts; 0 without rows.

    The intervals of so many groups hold at the same time with 95 % confidence (Bonferroni).
    """
    return lower_confidence_bound(covered, n, tail_error(groups))


def clopper_pearson_upper(covered: int | IntArray, n: int | IntArray, groups: int | IntArray = 1) -> FloatArray:
    """Return the upper end of the 95 % Clopper-Pearson interval, exact for binomial counts; 1 without rows.

    The intervals of so many groups hold at the same time with 95 % confidence (Bonferroni).
    """
    return upper_confidence_bound(covered, n, tail_error(groups))


def lower_confidence_bound(covered: int | IntArray, n: int | IntArray, error: float | FloatArray) -> FloatArray:
    """Return the largest p0 such that the hypothesis p <= p0 is rejected at this error; 0 if none is.

    The test is one-sided and exact for binomial counts: P(X >= covered) <= error at p0.
    """
    bound = betaincinv(np.maximum(covered, 1), n - covered + 1, error)
    return np.where(np.asarray(covered) > 0, bound, 0.0)


def upper_confidence_bound(covered: int | IntArray, n: int | IntArray, error: float | FloatArray) -> FloatArray:
    """Return the smallest p0 such that the hypothesis p >= p0 is rejected at this error; 1 if none is."""
    bound = betaincinv(covered + 1, np.maximum(n - covered, 1), 1 - np.asarray(error))
    return np.where(np.asarray(covered < n), bound, 1.0)


def tail_error(groups: int | IntArray) -> FloatArray:
    """Return the error of each end of an interval if the intervals of so many groups hold jointly at 95 %."""
    return np.asarray((1 - CONFIDENCE) / (2 * np.maximum(groups, 1)))


def two_sided_p_value(lower_tail: float | FloatArray, upper_tail: float | FloatArray) -> FloatArray:
    """Return twice the smaller of P(X <= x) and P(X >= x), at most 1."""
    return np.asarray(np.minimum(1.0, 2 * np.minimum(lower_tail, upper_tail)))


def holm(p_values: FloatArray) -> FloatArray:
    """Return Holm-adjusted p-values: rejecting those that are at most β keeps the family-wise error at β.

    NaN is the p-value of a test that was not possible. It stays NaN and does not count as a test.
    """
    adjusted = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    steps = p_values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def covered_count_pmf(
    pools: Iterable[tuple[int, int | None]], level: Level, tail_shares: TailShares = None
) -> FloatArray:
    """Return the probabilities that 0, 1, ..., m rows are covered by a valid predictor. Shape (m + 1,).

    The rows of one pool share a threshold from n calibration scores. The number of covered rows among m of them is
    BetaBinomial(m, k, n + 1 − k), where k is the conformal rank (`covered_rank`). Different pools are independent. If
    n is not known, the calibration is taken as fixed, and the number is Binomial(m, level).

    Parameters
    ----------
    pools : iterable of (m, n)
        Number of rows, and number of calibration scores behind their threshold (None if not known).
    level : float
        Nominal coverage.
    tail_shares : tuple of two Fraction, optional
        Shares of 1 − level, if each tail has its own threshold.
    """
    total = np.ones(1)
    for m, n in pools:
        pmf = _pool_pmf(m, n, level, tail_shares)
        total = np.maximum(fftconvolve(total, pmf), 0.0) if min(len(total), len(pmf)) > 1 else np.convolve(total, pmf)
    return total


def coverage_p_values(
    pools: Sequence[tuple[int, int | None]], level: Level, covered: int, tail_shares: TailShares = None
) -> tuple[float, float]:
    """Return the one-sided p-values for under- and over-coverage; see `covered_count_pmf` for the parameters.

    They are exact for up to a million rows. For more rows, they are computed on a grid of coverages, and the number of
    covered rows of a pool, given its threshold, is approximated by a normal distribution; the error is below 0.001.
    """
    n_rows = sum(m for m, _ in pools)
    if n_rows <= _MAX_COUNTS:
        return one_sided_p_values(covered_count_pmf(pools, level, tail_shares), covered)
    shares = [_CoveredShare.of(m, m / n_rows, n, level, tail_shares) for m, n in pools]
    noise = float(np.sqrt(sum(each.noise for each in shares)))
    coverages, probabilities = _mixture(shares, noise)
    below, above = ((covered + half) / n_rows - coverages for half in (0.5, -0.5))
    if not noise:  # all thresholds are infinite
        return float(probabilities[below >= 0].sum()), float(probabilities[above <= 0].sum())
    both = probabilities @ ndtr(below / noise), probabilities @ ndtr(-above / noise)
    return min(1.0, float(both[0])), min(1.0, float(both[1]))


@dataclass(frozen=True)
class _CoveredShare:
    """The coverage of a pool's threshold, Beta(a, b) or a fixed mean, times the share of the pool's rows in all rows.

    Parameters
    ----------
    weight : float
        The share of the pool's rows.
    mean, deviation : float
        Mean and standard deviation of its coverage.
    noise : float
        Variance of the share of covered rows among all rows, given the coverage.
    a, b : int
        The parameters of the Beta distribution; 0 if the coverage is fixed.
    """

    weight: float
    mean: float
    deviation: float
    noise: float
    a: int = 0
    b: int = 0

    @classmethod
    def of(cls, m: int, weight: float, n: int | None, level: Level, tail_shares: TailShares) -> "_CoveredShare":
        """Return the distribution for a threshold from n calibration scores; an infinite one covers every row."""
        if n is None:
            share = float(level_fraction(level))
            return cls(weight, share, 0.0, weight**2 * share * (1 - share) / m)
        rank = covered_rank(n, level, tail_shares)
        if rank > n:
            return cls(weight, 1.0, 0.0, 0.0)
        mean, variance = _beta_moments(rank, n + 1 - rank)
        noise = weight**2 * (mean * (1 - mean) - variance) / m
        return cls(weight, mean, float(np.sqrt(variance)), noise, rank, n + 1 - rank)

    def cells(self, step: float) -> tuple[float, FloatArray]:
        """Return the center of the first cell of a grid, and the probability of each cell."""
        reach = _DEVIATIONS * self.deviation
        low, high = (max(0.0, self.mean - reach) * self.weight, min(1.0, self.mean + reach) * self.weight)
        edges = np.arange(floor(low / step), ceil(high / step) + 1)
        cdf = betainc(self.a, self.b, np.clip(edges * step / self.weight, 0.0, 1.0))
        return (edges[0] + 0.5) * step, np.diff(cdf)


def _mixture(shares: Sequence[_CoveredShare], noise: float) -> tuple[FloatArray, FloatArray]:
    """Return coverages of all rows together on a grid, and their probabilities."""
    start = sum(each.weight * each.mean for each in shares if not each.a)
    random = [each for each in shares if each.a and each.weight]
    spread = np.sqrt(sum((each.weight * each.deviation) ** 2 for each in random))
    step = 2 * _DEVIATIONS * max(spread, noise) / _CELLS
    if len(random) > _MAX_POOLS:  # their sum is normal
        mean, steps = sum(each.weight * each.mean for each in random), np.arange(-_CELLS // 2, _CELLS // 2 + 1)
        return start + mean + (steps[:-1] + 0.5) * step, np.diff(ndtr(steps * step / spread))
    total = np.ones(1)
    for each in random:
        first, cells = each.cells(step)
        start += first
        total = np.maximum(fftconvolve(total, cells), 0.0)
    return start + np.arange(len(total)) * step, total


def large_sample_p_value(
    pools: Sequence[tuple[int, int | None]], level: Level, share: float, tail_shares: TailShares = None
) -> float:
    """Return the two-sided p-value of a coverage that is known exactly, as from infinitely many test rows.

    It tells whether the randomness of the calibration rows alone can explain the coverage. Given its n calibration
    rows, a pool covers a Beta(k, n + 1 − k) share of rows. For several pools, the mixture is approximated by a normal
    distribution with the same mean and variance. If n is not known, the p-value is 0.

    Parameters
    ----------
    pools : sequence of (m, n)
        Number of rows, and number of calibration scores behind their threshold (None if not known).
    level : float
        Nominal coverage.
    share : float
        Share of the rows that is covered.
    tail_shares : tuple of two Fraction, optional
        Shares of 1 − level, if each tail has its own threshold.
    """
    ranks = [(m, n, covered_rank(n, level, tail_shares)) for m, n in pools if n is not None]
    finite = [(m, rank, n + 1 - rank) for m, n, rank in ranks if rank <= n]  # rows, and Beta's parameters
    if len(ranks) < len(pools):
        return 0.0
    if not finite:  # infinite thresholds cover every row
        return float(share == 1)
    if len(pools) == 1:
        _, a, b = finite[0]
        return float(two_sided_p_value(beta.cdf(share, a, b), beta.sf(share, a, b)))
    weights = np.array([m for m, *_ in finite]) / sum(m for m, _ in pools)
    always_covered = 1 - weights.sum()  # share of rows with an infinite threshold
    moments = [_beta_moments(a, b) for _, a, b in finite]
    mean = always_covered + sum(w * pool_mean for w, (pool_mean, _) in zip(weights, moments, strict=True))
    deviation = np.sqrt(sum(w**2 * variance for w, (_, variance) in zip(weights, moments, strict=True)))
    distance = (share - mean) / deviation
    return float(two_sided_p_value(ndtr(distance), ndtr(-distance)))  # scipy.stats.norm, without its input checks


@lru_cache
def _beta_moments(a: int, b: int) -> tuple[float, float]:
    """Return mean and variance of a Beta distribution; those of SciPy overflow for millions of rows."""
    mean = a / (a + b)
    return mean, mean * (1 - mean) / (a + b + 1)


def one_sided_p_values(pmf: FloatArray, covered: int) -> tuple[float, float]:
    """Return P(X <= covered) and P(X >= covered): the p-values for under-coverage and for over-coverage."""
    return min(1.0, float(pmf[: covered + 1].sum())), min(1.0, float(pmf[covered:].sum()))


def _pool_pmf(m: int, n: int | None, level: Level, tail_shares: TailShares) -> FloatArray:
    """Return the probabilities that 0, 1, ..., m rows of one pool are covered. Shape (m + 1,)."""
    counts = np.arange(m + 1)
    if n is None:
        return np.asarray(binom.pmf(counts, m, float(level_fraction(level))))
    rank = covered_rank(n, level, tail_shares)
    if rank > n:  # an infinite threshold covers every row
        return np.asarray(counts == m, dtype=float)
    # The formula of scipy.stats.betabinom, without its input checks, which take longer than the formula itself.
    a, b = rank, n + 1 - rank
    log_choices = -np.log(m + 1) - betaln(m - counts + 1, counts + 1)
    return np.asarray(np.exp(log_choices + betaln(counts + a, m - counts + b) - betaln(a, b)))
