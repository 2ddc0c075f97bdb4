"""Audits and diagnoses of rows in clusters: one random row of each is tested, and thresholds can come from clusters.

**The law of the tests.** A threshold from clusters covers a random row of a new cluster with at least the level. How
much its coverage varies depends on how similar the rows of a cluster are. If they are identical, n clusters are n rows,
and the coverage is Beta(k, n + 1 − k) with level (n + 1) <= k < level (n + 1) + 1. If they are independent, there are
many more rows, and the coverage is close to level (n + 1) / n, which is at most level + 1 / (n + 1) if the threshold is
finite. So the tests use two laws, whose means are the ends of this range and whose variance is that of n rows. For
under-coverage it is Beta(level (n + 1), (1 − level) (n + 1)). For over-coverage, 1 is added to the first parameter and
subtracted from the second (2 with two tails); if nothing is left of the second, over-coverage is not tested. Here n is
the weight of the group's rows in clusters, rounded down. Simulations in the tests show that a valid predictor is
rejected in at most 5 % of the cases.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.signal import fftconvolve
from scipy.stats import beta, betabinom, norm

from evencover.diagnostics.exact_tests import one_sided_p_values, two_sided_p_value
from evencover.groups import checked_groups, cluster_codes, one_row_of_each
from evencover.guarantees import TailShares
from evencover.inputs.arrays import FloatArray, IntArray, checked_vector
from evencover.inputs.frames import take
from evencover.intervals import Intervals, IntervalUnion
from evencover.quantiles import Level, level_fraction
from evencover.rows import Rows

THRESHOLDS_FROM_CLUSTERS = (
    "The thresholds come from clusters of calibration rows, so numbers of calibration rows are numbers of clusters. "
    "With few of them, coverage can be above the level, which the tests allow for."
)
_TREATED_AS_INDEPENDENT = (
    "The calibration had clusters, but the test rows were treated as independent: pass their clusters (clusters=, on "
    "the command line --clusters), unless each row is of another cluster."
)


def one_row_note(n_rows: int, n_clusters: int) -> str:
    """Return which rows were tested."""
    return (
        f"One random row of each of {n_clusters} clusters was tested, of {n_rows} rows: rows of a cluster depend on "
        "each other."
    )


class AuditInput(NamedTuple):
    """What an audit is about: the intervals of n rows, the users' arrays of n rows, and notes on the rows."""

    intervals: Intervals | IntervalUnion
    y: Any
    X: Any = None
    groups: Any = None
    prediction: Any = None
    notes: tuple[str, ...] = ()

    def one_row_of_each(self, clusters: Any, seed: int) -> "AuditInput":
        """Return one random row of each cluster. Without clusters, or if each has one row, return all rows."""
        if clusters is None:
            guarantee = self.intervals.guarantee
            are_of_clusters = guarantee is not None and guarantee.for_new_clusters
            return self._replace(notes=(_TREATED_AS_INDEPENDENT,)) if are_of_clusters else self
        n = len(self.intervals)
        rows = _one_row_of_each(cluster_codes(clusters, n, matched="the intervals"), seed)
        if len(rows) == n:
            return self
        target = checked_vector(self.y, "y", length=n, matched="the intervals")
        groups = None if self.groups is None else checked_groups(self.groups, n, "the intervals")[rows]
        return AuditInput(
            _take_intervals(self.intervals, rows),
            target[rows],
            take(self.X, rows),
            groups,
            take(self.prediction, rows),
            (one_row_note(n, len(rows)),),
        )


def one_row_of_each_cluster(rows: Rows, scores: FloatArray | None, seed: int) -> tuple[Rows, FloatArray | None]:
    """Return one random row of each cluster of calibration rows, and its scores if they are known."""
    if rows.clusters is None:
        return rows, scores
    chosen = _one_row_of_each(rows.clusters, seed)
    if len(chosen) == len(rows):
        return rows, scores
    return replace(rows[chosen], clusters=None), None if scores is None else scores[chosen]


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
    under, over = (
        one_sided_p_values(_covered_count_pmf(pools, laws), covered)[side]
        for side, laws in enumerate(_laws(pools, level, tail_shares))
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
    under, over = (_mean_and_deviation(pools, laws) for laws in (below, above))
    return float(two_sided_p_value(norm.cdf(share, *under), norm.sf(share, *over) if over[1] else 1.0))


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


def _covered_count_pmf(pools: Sequence[tuple[int, int | None]], laws: Sequence[_Law]) -> FloatArray:
    """Return the probabilities that 0, 1, ... rows of all pools are covered; pools are independent."""
    parts = [_pool_pmf(m, law) for (m, _), law in zip(pools, laws, strict=True)]
    return reduce(lambda total, part: np.maximum(fftconvolve(total, part), 0.0), parts)


def _pool_pmf(m: int, law: _Law) -> FloatArray:
    counts = np.arange(m + 1)
    return np.asarray(betabinom.pmf(counts, m, *law) if law[1] else counts == m, dtype=float)


def _one_row_of_each(clusters: IntArray, seed: int) -> IntArray:
    return one_row_of_each(clusters, np.random.default_rng([seed, 3]))


def _take_intervals(intervals: Intervals | IntervalUnion, rows: IntArray) -> Intervals | IntervalUnion:
    if isinstance(intervals, IntervalUnion):
        return IntervalUnion([piece[rows] for piece in intervals.pieces])
    return intervals[rows]
