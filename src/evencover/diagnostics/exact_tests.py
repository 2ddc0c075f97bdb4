"""Exact distributions of the number of covered rows: Clopper-Pearson bounds, p-values, Holm's adjustment.

**Thresholds from clusters** cover a random row of a new cluster with at least the level. How
much the coverage varies depends on how similar the rows of a cluster are. If they are identical, n clusters are n rows,
and the coverage is Beta(k, n + 1 − k) with level (n + 1) <= k < level (n + 1) + 1. If they are independent, there are
many more rows, and the coverage is close to level (n + 1) / n, which is at most level + 1 / (n + 1) if the threshold is
finite. So the tests use two laws, whose means are the ends of this range and whose variance is that of n rows. For
under-coverage it is Beta(level (n + 1), (1 − level) (n + 1)). For over-coverage, 1 is added to the first parameter and
subtracted from the second (2 with two tails); if nothing is left of the second, over-coverage is not tested. Here n is
the weight of the group's rows in clusters, rounded down. Simulations in the tests show that a valid predictor is
rejected in at most 5 % of the cases.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, sqrt
from typing import TypeAlias

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import betaincinv, betaln, ndtr
from scipy.stats import beta, binom, hypergeom

from evencover.guarantees import TailShares, covered_rank
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.quantiles import Level, level_fraction

CONFIDENCE = 0.95
SIGNIFICANT = 0.05
CONTRADICTION = 0.001  # a p-value below it says that test rows do not fit the calibration rows
_MAX_COUNTS = 10**6  # with more rows, only likely numbers of missed rows are counted
_CELLS = 2000  # in a standard deviation of the number of missed rows
_NEGLIGIBLE = 1e-18  # probability


def clopper_pearson(
    covered: int | IntArray, n: int | IntArray, groups: int | IntArray = 1
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the 95 % Clopper-Pearson interval, exact for binomial counts; 0 and 1 without rows.

    The intervals of so many groups hold at the same time with 95 % confidence (Bonferroni).
    """
    return confidence_bounds(covered, n, tail_error(groups))


def confidence_bounds(
    covered: int | IntArray, n: int | IntArray, error: float | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return both bounds, each with this error."""
    return lower_confidence_bound(covered, n, error), upper_confidence_bound(covered, n, error)


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
    return _sum_pmf(_pool_pmf(m, n, level, tail_shares) for m, n in pools)


def coverage_p_values(
    pools: Sequence[tuple[int, int | None]], level: Level, covered: int, tail_shares: TailShares = None
) -> tuple[float, float]:
    """Return the one-sided p-values for under- and over-coverage; see `covered_count_pmf` for the parameters.

    They are exact if there are at most a million rows, or if the number of missed rows has a standard deviation of at
    most 2000. Otherwise numbers of missed rows are counted in cells of up to 0.0005 standard deviations. The largest
    error that was measured is 0.00004, for a pool with a single calibration row, and 0.000001 for larger ones.
    """
    n_rows = sum(m for m, _ in pools)
    if n_rows <= _MAX_COUNTS:
        return one_sided_p_values(covered_count_pmf(pools, level, tail_shares), covered)
    missed = [_MissedRows.of(m, n, level, tail_shares) for m, n in pools]
    step = max(1, ceil(sqrt(sum(each.variance for each in missed)) / _CELLS))
    limit = step**2 / 4 if step > 1 else 0.0
    narrow = [each for each in missed if each.variance <= limit]
    wide = [each.cells(step) for each in missed if each.variance > limit]
    at_most, at_least = _convolved([_normal_cells(narrow, step), *wide]).tails(n_rows - covered)
    return min(1.0, at_least), min(1.0, at_most)


def stratified_p_values(strata: Iterable[tuple[int, int, int]], covered: int) -> tuple[float, float]:
    """Return the one-sided p-values for under- and over-coverage of some rows, given how many of each stratum are.

    The rows of a stratum have the same threshold. If coverage does not depend on what selects some of them, the number
    of covered rows among m of its n rows is hypergeometric, given that x of the n are covered. So the test compares
    rows with the others of their strata. Whole strata cannot be tested: their p-values are NaN.

    Parameters
    ----------
    strata : iterable of (m, n, x)
        Number of the selected rows, of all rows, and of covered rows of each stratum.
    covered : int
        Number of covered rows among those selected.
    """
    strata = list(strata)
    quickly = sum(n for _, n, _ in strata) > _MAX_SLOW_ROWS
    laws = [_hypergeometric_pmf(*stratum, quickly=quickly) for stratum in strata]
    if all(len(pmf) == 1 for _, pmf in laws):
        return np.nan, np.nan
    lowest = sum(low for low, _ in laws)
    return one_sided_p_values(_sum_pmf(pmf for _, pmf in laws), covered - lowest)


_MAX_SLOW_ROWS = 12_000  # scipy's time grows with the square of the rows: it was half of a study of 130 000 rows


def _hypergeometric_pmf(m: int, n: int, x: int, *, quickly: bool = False) -> tuple[int, FloatArray]:
    """Return the smallest possible number, and the probabilities of it and of all larger ones.

    Quickly, they are products of the ratios of neighbours; those that are not negligible differ from scipy's by less
    than 1e-10 of their values.
    """
    low, high = max(0, m + x - n), min(m, x)
    if high == low:
        return low, np.ones(1)
    if not quickly:
        return low, np.asarray(hypergeom.pmf(np.arange(low, high + 1), n, x, m))
    k = np.arange(low, high, dtype=float)
    logs = np.cumsum(np.log((m - k) * (x - k) / ((k + 1) * (n - m - x + k + 1))))
    pmf = np.exp(np.concatenate([[0.0], logs]) - max(0.0, logs.max()))
    return low, pmf / pmf.sum()


@dataclass(frozen=True, eq=False)
class _Cells:
    """The distribution of a number of rows in cells of several numbers: the middle of the first one, probabilities."""

    step: int
    middle: float
    probabilities: FloatArray

    @classmethod
    def of(cls, step: int, mean: float, probabilities: FloatArray) -> "_Cells":
        """Return cells with this mean, without those at the ends that are negligible."""
        kept = np.flatnonzero(probabilities > _NEGLIGIBLE)
        own = np.maximum(probabilities[kept[0] : kept[-1] + 1], 0.0)
        own /= own.sum()
        return cls(step, mean - step * float(own @ np.arange(len(own))), own)

    @property
    def mean(self) -> float:
        return self.middle + self.step * float(self.probabilities @ np.arange(len(self.probabilities)))

    def __add__(self, other: "_Cells") -> "_Cells":
        """Return the distribution of the sum of two independent numbers."""
        return _Cells.of(self.step, self.mean + other.mean, fftconvolve(self.probabilities, other.probabilities))

    def tails(self, number: int) -> tuple[float, float]:
        """Return the probabilities of at most, and of at least, this number."""
        edges = self.middle + self.step * (np.arange(len(self.probabilities) + 1) - 0.5)
        at_most = np.concatenate([[0.0], np.cumsum(self.probabilities)])
        at_least = np.concatenate([np.cumsum(self.probabilities[::-1])[::-1], [0.0]])
        return float(np.interp(number + 0.5, edges, at_most)), float(np.interp(number - 0.5, edges, at_least))


@dataclass(frozen=True)
class _MissedRows:
    """The number of missed rows of a pool: Binomial(rows, p), where p has the distribution Beta(a, b) or is fixed.

    Parameters
    ----------
    rows : int
        Number of rows.
    rate : float
        Mean of p.
    a, b : int
        The parameters of the Beta distribution; 0 if p is fixed.
    """

    rows: int
    rate: float
    a: int = 0
    b: int = 0

    @classmethod
    def of(cls, m: int, n: int | None, level: Level, tail_shares: TailShares) -> "_MissedRows":
        """Return the distribution for a threshold from n calibration scores; an infinite one misses no row."""
        if n is None:
            return cls(m, float(1 - level_fraction(level)))
        a, b = _beta_parameters(n, level, tail_shares)
        return cls(m, b / (n + 1), b, a) if b else cls(m, 0.0)

    @property
    def variance(self) -> float:
        """Variance of the number of missed rows."""
        own = _beta_moments(self.a, self.b)[1] if self.a else 0.0
        return self.rows * (self.rate * (1 - self.rate) + (self.rows - 1) * own)

    @property
    def _range(self) -> tuple[int, int]:
        """Numbers of missed rows that are exceeded at either end with a probability of less than 1e-17.

        These are Bernstein's bounds for the Beta distribution (Skorski 2023), and Chernoff's for the binomial one.
        """
        reach = 9.1 * sqrt(_beta_moments(self.a, self.b)[1]) + 55 / (self.a + self.b) if self.a else 0.0
        low, high = (self.rows * min(max(self.rate + each, 0.0), 1.0) for each in (-reach, reach))
        return max(0, floor(low - 9 * sqrt(low))), min(self.rows, ceil(high + 9 * sqrt(high) + 30))

    def cells(self, step: int) -> _Cells:
        """Return the probabilities of cells of so many numbers: those of their middles, which is exact for one number.

        The quotient of the probabilities of c + 1 and c missed rows is (m − c)(c + a) / ((c + 1)(m − c − 1 + b)); for a
        fixed p it is (m − c) p / ((c + 1)(1 − p)). Sums of logarithms of the quotients, minus 1, lose no digits.
        """
        first, last = self._range
        c = np.arange(first + step - 1, last, step, dtype=float)  # the middles between the middles of cells
        if self.a:
            excess = (self.rows - c) * (self.a - 1) - (c + 1) * (self.b - 1)
            excess /= (c + 1) * (self.rows - 1 - c + self.b)
        else:
            excess = ((self.rows + 1) * self.rate - (c + 1)) / ((c + 1) * (1 - self.rate))
        logs = np.concatenate([[0.0], np.cumsum(step * np.log1p(excess))])
        probabilities = np.exp(logs - logs.max())
        probabilities[-1] *= (last + 1 - first - step * len(c)) / step  # the last cell can be smaller
        return _Cells.of(step, self.rows * self.rate, probabilities / probabilities.sum())


def _normal_cells(narrow: Sequence[_MissedRows], step: int) -> _Cells:
    """Return the sum of distributions that are narrower than a cell as a normal distribution."""
    deviation = sqrt(sum(each.variance for each in narrow)) / step
    reach = ceil(9 * deviation)
    distances = np.arange(-reach, reach + 1) / max(deviation, 0.1)
    return _Cells.of(step, sum(each.rows * each.rate for each in narrow), np.exp(-(distances**2) / 2))


def _convolved(parts: list[_Cells]) -> _Cells:
    """Return the distribution of a sum; those with few cells are added first."""
    while len(parts) > 1:
        parts = sorted(parts, key=lambda part: len(part.probabilities))
        rest = parts[len(parts) - len(parts) % 2 :]
        parts = [first + second for first, second in zip(parts[::2], parts[1::2], strict=False)] + rest
    return parts[0]


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
    known = [(m, *_beta_parameters(n, level, tail_shares)) for m, n in pools if n is not None]
    finite = [(m, a, b) for m, a, b in known if b]
    if len(known) < len(pools):
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


def clustered_p_values(
    pools: Sequence[tuple[int, int | None]], level: Level, covered: int, tail_shares: TailShares = None
) -> tuple[float, float]:
    """Return the one-sided p-values for under- and over-coverage, if the thresholds come from clusters.

    Parameters
    ----------
    pools : sequence of (m, n)
        Number of rows, and number of clusters behind their threshold.
    level : float
        Nominal coverage.
    covered : int
        Number of covered rows.
    tail_shares : tuple of two Fraction, optional
        Shares of 1 − level, if each tail has its own threshold.
    """
    sizes = [m for m, _ in pools]
    (under, _), (_, over) = (
        one_sided_p_values(_sum_pmf(_beta_binomial_pmf(m, *law) for m, law in zip(sizes, laws, strict=True)), covered)
        for laws in _laws(pools, level, tail_shares)
    )
    return under, over


def clustered_large_sample_p_value(
    pools: Sequence[tuple[int, int | None]], level: Level, share: float, tail_shares: TailShares = None
) -> float:
    """Return the two-sided p-value of a coverage that is known exactly; parameters as in `clustered_p_values`."""
    below, above = _laws(pools, level, tail_shares)
    if len(pools) == 1:
        upper_tail = beta.sf(share, *above[0]) if above[0][1] else 1.0
        return float(two_sided_p_value(beta.cdf(share, *below[0]), upper_tail))
    (mean, deviation), (highest, its_deviation) = (_mean_and_deviation(pools, laws) for laws in (below, above))
    upper_tail = ndtr((highest - share) / its_deviation) if its_deviation else 1.0
    return float(two_sided_p_value(ndtr((share - mean) / deviation), upper_tail))


_Law: TypeAlias = tuple[float, float]  # the parameters of a Beta distribution; the second is 0 if all rows are covered


def _laws(
    pools: Sequence[tuple[int, int | None]], level: Level, tail_shares: TailShares
) -> tuple[list[_Law], list[_Law]]:
    """Return the distribution of each pool's coverage for the tests of under- and of over-coverage."""
    covered, more = level_fraction(level), 1 if tail_shares is None else 2
    units = [1 + (n or 0) for _, n in pools]
    below = [(float(covered * n), float((1 - covered) * n)) for n in units]
    return below, [(a + more, max(b - more, 0.0)) for a, b in below]


def _mean_and_deviation(pools: Sequence[tuple[int, int | None]], laws: Sequence[_Law]) -> tuple[float, float]:
    """Return the mean and the standard deviation of the coverage of all rows together."""
    n_rows = sum(m for m, _ in pools)
    means = [a / (a + b) for a, b in laws]
    variances = [mean * (1 - mean) / (a + b + 1) for mean, (a, b) in zip(means, laws, strict=True)]
    shares = [m / n_rows for m, _ in pools]
    mean = sum(share * each for share, each in zip(shares, means, strict=True))
    return mean, sum(share**2 * each for share, each in zip(shares, variances, strict=True)) ** 0.5


def one_sided_p_values(pmf: FloatArray, covered: int) -> tuple[float, float]:
    """Return P(X <= covered) and P(X >= covered): the p-values for under-coverage and for over-coverage."""
    return min(1.0, float(pmf[: covered + 1].sum())), min(1.0, float(pmf[covered:].sum()))


def _pool_pmf(m: int, n: int | None, level: Level, tail_shares: TailShares) -> FloatArray:
    """Return the probabilities that 0, 1, ..., m rows of one pool are covered. Shape (m + 1,)."""
    if n is None:
        return np.asarray(binom.pmf(np.arange(m + 1), m, float(level_fraction(level))))
    return _beta_binomial_pmf(m, *_beta_parameters(n, level, tail_shares))


def _beta_parameters(n: int, level: Level, tail_shares: TailShares) -> tuple[int, int]:
    """Return those of the coverage of a threshold from n calibration scores; the second is 0 if it is infinite."""
    rank = covered_rank(n, level, tail_shares)
    return rank, n + 1 - rank


def _beta_binomial_pmf(m: int, a: float, b: float) -> FloatArray:
    """Return the probabilities of 0, 1, ..., m for BetaBinomial(m, a, b); of m alone if b is 0. Shape (m + 1,)."""
    counts = np.arange(m + 1)
    if not b:
        return np.asarray(counts == m, dtype=float)
    # The formula of scipy.stats.betabinom, without its input checks, which take longer than the formula itself.
    log_choices = -np.log(m + 1) - betaln(m - counts + 1, counts + 1)
    return np.asarray(np.exp(log_choices + betaln(counts + a, m - counts + b) - betaln(a, b)))


def _sum_pmf(parts: Iterable[FloatArray]) -> FloatArray:
    """Return the probabilities of the sum of independent numbers."""
    total = np.ones(1)
    for pmf in parts:
        total = np.maximum(fftconvolve(total, pmf), 0.0) if min(len(total), len(pmf)) > 1 else np.convolve(total, pmf)
    return total
