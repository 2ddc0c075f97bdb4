"""Exact laws of how many rows are covered: intervals for a share, p-values, and their adjustment for many tests."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import betaincinv, betaln
from scipy.stats import beta, binom, norm

from evencover._internal.arrays import FloatArray, IntArray
from evencover.quantiles import Level, conformal_rank, level_fraction

CONFIDENCE = 0.95
SIGNIFICANT = 0.05


def lower_share(covered: int | IntArray, n: int | IntArray) -> FloatArray:
    """Return the lower end of the 95 % Clopper-Pearson interval, exact for binomial counts; 0 without rows."""
    found = betaincinv(np.maximum(covered, 1), n - covered + 1, (1 - CONFIDENCE) / 2)
    return np.where(np.asarray(covered) > 0, found, 0.0)


def upper_share(covered: int | IntArray, n: int | IntArray) -> FloatArray:
    """Return the upper end of the 95 % Clopper-Pearson interval, exact for binomial counts; 1 without rows."""
    found = betaincinv(covered + 1, np.maximum(n - covered, 1), (1 + CONFIDENCE) / 2)
    return np.where(np.asarray(covered < n), found, 1.0)


def two_sided(lower_tail: float | FloatArray, upper_tail: float | FloatArray) -> FloatArray:
    """Return twice the smaller of P(X <= x) and P(X >= x), at most 1."""
    return np.asarray(np.minimum(1.0, 2 * np.minimum(lower_tail, upper_tail)))


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values adjusted for their number: rejecting those at most β, none is rejected wrongly but with chance β.

    Holm's steps. NaN, the p-value of what could not be tested, stays and does not count.
    """
    adjusted = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    steps = p_values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def covered_law(pools: Iterable[tuple[int, int | None]], level: Level) -> FloatArray:
    """Return the probabilities that 0, 1, ..., m rows are covered, if coverage is what was promised. Shape (m + 1,).

    Rows whose threshold comes from one pool of n calibration scores are covered together, BetaBinomial(m, k, n + 1 − k)
    with k the conformal rank; different pools are independent. Without known n, the calibration is taken as given, and
    the law is Binomial(m, level).

    Parameters
    ----------
    pools : iterable of (m, n)
        Rows to be covered, and calibration scores behind their threshold or None.
    level : float
        Nominal coverage.
    """
    law = np.ones(1)
    for m, n in pools:
        each = _pool_law(m, n, level)
        law = np.maximum(fftconvolve(law, each), 0.0) if min(len(law), len(each)) > 1 else np.convolve(law, each)
    return law


def limiting_p_value(pools: Sequence[tuple[int, int | None]], level: Level, share: float) -> float:
    """Return the two-sided p-value of a share covered among ever more rows: what calibration leaves to chance.

    Given its calibration, a pool covers a share of rows that is Beta(k, n + 1 − k); over several pools, the normal law
    with the same mean and variance is taken. Without known n it is 0.

    Parameters
    ----------
    pools : sequence of (m, n)
        Rows, and calibration scores behind their threshold or None.
    level : float
        Nominal coverage.
    share : float
        Share of the rows that is covered.
    """
    ranks = [(m, n, conformal_rank(n, level)) for m, n in pools if n is not None]
    finite = [(m, rank, n + 1 - rank) for m, n, rank in ranks if rank <= n]  # rows, and Beta's parameters
    if len(ranks) < len(pools):
        return 0.0
    if not finite:  # every row is covered, for certain
        return float(share == 1)
    if len(pools) == 1:
        _, a, b = finite[0]
        return float(two_sided(beta.cdf(share, a, b), beta.sf(share, a, b)))
    weights = np.array([m for m, *_ in finite]) / sum(m for m, _ in pools)
    certain = 1 - weights.sum()  # of rows with an infinite threshold
    moments = [_beta_moments(a, b) for _, a, b in finite]
    mean = certain + sum(w * each for w, (each, _) in zip(weights, moments, strict=True))
    scatter = np.sqrt(sum(w**2 * variance for w, (_, variance) in zip(weights, moments, strict=True)))
    return float(two_sided(norm.cdf(share, mean, scatter), norm.sf(share, mean, scatter)))


@lru_cache
def _beta_moments(a: int, b: int) -> tuple[float, float]:
    """Return mean and variance of a Beta distribution."""
    return beta.mean(a, b), beta.var(a, b)


def tails(law: FloatArray, covered: int) -> tuple[float, float]:
    """Return P(X <= covered) and P(X >= covered)."""
    return min(1.0, float(law[: covered + 1].sum())), min(1.0, float(law[covered:].sum()))


def _pool_law(m: int, n: int | None, level: Level) -> FloatArray:
    counts = np.arange(m + 1)
    if n is None:
        return np.asarray(binom.pmf(counts, m, float(level_fraction(level))))
    rank = conformal_rank(n, level)
    if rank > n:  # an infinite threshold covers every row
        return np.asarray(counts == m, dtype=float)
    # The law as scipy.stats.betabinom has it, whose checks take longer than the law.
    a, b = rank, n + 1 - rank
    ways = -np.log(m + 1) - betaln(m - counts + 1, counts + 1)
    return np.asarray(np.exp(ways + betaln(counts + a, m - counts + b) - betaln(a, b)))
