"""What calibration and test rows show of the coverage of groups: intervals, and how near the level they are.

Counts have the shape (G,) for G groups, or (repeats, G) for repeats that are evaluated separately.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betainc, betaincinv, chdtrc, chdtri

from evencover.diagnostics.exact_tests import (
    CONFIDENCE,
    SIGNIFICANT,
    clopper_pearson,
    confidence_bounds,
    lower_confidence_bound,
    tail_error,
    upper_confidence_bound,
)
from evencover.guarantees import TailShares, covered_rank
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray
from evencover.quantiles import Level

NEW_ROWS_ERROR = 0.2  # at which rows that may have changed must reject, alone, that a group is off
_BISECTIONS = 50
_DISTANCE_BISECTIONS = 30  # distances from the level are shown with three digits


@dataclass(frozen=True, eq=False)
class CalibrationCounts:
    """The calibration rows of G groups, and how many of them one threshold for all rows covers.

    Parameters
    ----------
    rows : ndarray of shape (..., G)
        Number of calibration rows.
    certain : ndarray of shape (..., G)
        Number of rows that are covered, without those that tie with the threshold and may count for other groups.
    covered : ndarray of shape (..., G)
        Number of rows that are covered.
    """

    rows: IntArray
    certain: IntArray
    covered: IntArray


@dataclass(frozen=True, eq=False)
class CoverageEstimates:
    """What is known of the coverage of G groups.

    Parameters
    ----------
    low, high : ndarray of shape (..., G)
        An interval for the coverage of each group; all of them hold at the same time with 95 % confidence.
    estimate : ndarray of shape (..., G)
        The estimated coverage; NaN without rows.
    within : ndarray of shape (..., G)
        The smallest distance from the level within which a group, by itself, is shown to lie. Infinite if no distance
        is: for groups without rows, and for infinite thresholds.
    all_within : ndarray of shape (...)
        The smallest distance within which all groups that have rows are shown to lie.
    """

    low: FloatArray
    high: FloatArray
    estimate: FloatArray
    within: FloatArray
    all_within: FloatArray

    def confirmed_by(self, covered: IntArray, rows: IntArray, level: Level) -> "CoverageEstimates":
        """Return what is known if the test rows may have changed since the calibration.

        The calibration rows must not outvote them. So a group lies within a distance only if the test rows alone, too,
        reject that it lies outside, on each side at the error 0.2; the intervals are widened accordingly.
        """
        low, high = confidence_bounds(covered, rows, NEW_ROWS_ERROR)
        within = np.where(rows > 0, farthest_distance(low, high, level), np.inf)
        return replace(
            self,
            low=np.minimum(self.low, low),
            high=np.maximum(self.high, high),
            within=np.maximum(self.within, within),
            all_within=np.maximum(self.all_within, largest_distance(within, rows)),
        )


def binomial_coverage(
    covered: IntArray,
    rows: IntArray,
    level: Level,
    *,
    most_covered: IntArray | None = None,
    untested: IntArray | int = 0,
) -> CoverageEstimates:
    """Return what test rows alone show: Clopper-Pearson intervals, and two one-sided tests of each group at 5 %.

    The coverage of a group is a fixed number. All groups are shown to lie within a distance if the tests of each group
    reject at 5 % that it lies outside; the number of groups needs no correction (intersection-union test). Of the
    covered rows, some may be `untested`: lower ends count them as missed, upper ends as covered. Upper ends can have
    their own number of covered rows (`most_covered`).
    """
    fewest, most = covered - untested, covered if most_covered is None else most_covered

    def ends(error: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        return lower_confidence_bound(fewest, rows, error), upper_confidence_bound(most, rows, error)

    low, high = ends(tail_error(_groups_with_rows(rows)))
    within = np.where(rows > 0, farthest_distance(*ends(SIGNIFICANT), level), np.inf)
    return CoverageEstimates(low, high, _share(fewest, rows - untested), within, largest_distance(within, rows))


def own_threshold_coverage(
    covered: IntArray,
    rows: IntArray,
    sizes: IntArray,
    level: Level,
    *,
    raised: bool = False,
    tail_shares: TailShares = None,
    in_turn: bool = False,
) -> CoverageEstimates:
    """Return what calibration and test rows show of groups with a threshold of their own.

    With n independent calibration scores without ties, the coverage p of a group's threshold has the distribution
    Beta(k, n + 1 − k), where k is the conformal rank. Given p, the number of covered rows among m test rows is
    Binomial(m, p). So if x of them are covered, p has the distribution Beta(k + x, n + 1 − k + m − x), and its
    quantiles contain p with the stated probability. Groups are independent: all of them lie within a distance of the
    level if the product of their probabilities is at least 95 %. Tied scores, and points that replace empty intervals,
    raise coverage. Then only the lower ends follow from this law, and the upper ends and the estimates from the test
    rows alone, unless these are smaller; if rows are tested in turn, from the calibration rows that the threshold
    covers (Clopper-Pearson). This end is valid, although at least k of them are covered by choice: let s be the
    smallest score with a coverage above u(k), the end for k covered rows. If the end of the threshold is too small,
    so is that of s: either s is the threshold, or fewer than k rows are at most s. And s does not depend on the rows.
    An infinite threshold covers every row, and is not near any level.

    Parameters
    ----------
    covered, rows : ndarray of shape (..., G)
        Number of covered test rows, and of test rows; in turn, of rows that the threshold itself covers.
    sizes : ndarray of shape (G,)
        Number of calibration scores behind each threshold.
    level : float
        Nominal coverage.
    raised : bool
        Whether ties or replaced intervals raise the coverage.
    tail_shares : tuple of two Fraction, optional
        Shares of 1 − level, if each tail has its own threshold.
    in_turn : bool
        Whether the test rows are the calibration rows, tested in turn by thresholds of some of them: they do not count
        twice, so p has the distribution Beta(k, n + 1 − k).
    """
    ranks = np.array([covered_rank(int(n), level, tail_shares) for n in sizes])
    finite = ranks <= sizes
    a, b = np.broadcast_arrays(ranks, np.where(finite, sizes + 1 - ranks, 1), covered)[:2]
    if not in_turn:
        a, b = a + covered, b + rows - covered
    error = tail_error(_groups_with_rows(rows))
    low, high = (np.where(finite, betaincinv(a, b, share), 1.0) for share in (error, 1 - error))
    estimate = np.where(finite, a / (a + b), 1.0)
    if raised:
        high = np.maximum(high, clopper_pearson(covered, rows, _groups_with_rows(rows))[1])
        # In turn, the threshold is one of the rows: without ties, k of n are covered, and the estimate is k / (n + 1).
        estimate = np.maximum(estimate, _share(covered, rows + 1 if in_turn else rows))

    def probability(distance: FloatArray) -> FloatArray:
        """Return the probability that each group lies within a distance; with ties, that it is not below."""
        above = 0.0 if raised else 1 - betainc(a, b, np.minimum(float(level) + distance, 1.0))
        return np.where(rows > 0, 1 - above - betainc(a, b, np.maximum(float(level) - distance, 0.0)), 1.0)

    own = _smallest_distance(lambda each: probability(each) >= CONFIDENCE, np.shape(a))
    together = _smallest_distance(
        lambda each: np.prod(probability(each[..., None]), axis=-1) >= CONFIDENCE, np.shape(a)[:-1]
    )
    if raised:
        above = upper_confidence_bound(covered, rows, SIGNIFICANT) - float(level)
        own, together = np.maximum(own, above), np.maximum(together, largest_distance(above, rows))
    own = np.where(finite & (rows > 0), own, np.inf)
    together = np.maximum(together, largest_distance(np.where(finite, 0.0, np.inf), rows))
    return CoverageEstimates(low, high, estimate, own, together)


def new_row_coverage(
    thresholds: Sequence[tuple[int, int]], level: Level, tail_shares: TailShares = None
) -> tuple[FloatArray, FloatArray, float]:
    """Return what the calibration rows say of the coverage of all new rows: a 95 % interval, a 90 % one, and its mean.

    The coverage of a threshold from n calibration rows has the distribution Beta(k, n + 1 − k). With several, that of
    all new rows is their mean, weighted by rows. Its distribution is approximated by the Beta distribution with the
    same mean and variance.

    Parameters
    ----------
    thresholds : sequence of (m, n)
        For each threshold, the number of rows that have it, and of the calibration rows behind it.
    level : float
        Nominal coverage.
    tail_shares : tuple of two Fraction, optional
        Shares of 1 − level, if each tail has its own threshold.
    """
    rows, sizes = np.array(thresholds, dtype=float).T
    ranks = np.array([covered_rank(n, level, tail_shares) for _, n in thresholds])
    share = np.minimum(ranks / (sizes + 1), 1.0)  # 1 if the threshold is infinite
    weights = rows / rows.sum()
    mean, variance = float(weights @ share), float(weights**2 @ (share * (1 - share) / (sizes + 2)))
    if not variance:
        return np.ones(2), np.ones(2), mean
    total = mean * (1 - mean) / variance - 1
    ends = betaincinv(mean * total, (1 - mean) * total, np.array([0.025, 0.975, 0.05, 0.95]))
    return ends[:2], ends[2:], mean


def shared_threshold_coverage(
    covered: IntArray, rows: IntArray, calibration: CalibrationCounts, level: Level, *, in_turn: bool = False
) -> CoverageEstimates:
    """Return what calibration and test rows show of groups that share one threshold.

    A candidate p for a group's coverage has two p-values: that of the calibration rows, which is valid at the threshold
    as computed, and that of the test rows, which is valid whatever the calibration rows are. So their combination by
    Lancaster's method is valid, too: each p-value becomes a χ² quantile with as many degrees of freedom as it has rows,
    and the sum is compared with the χ² distribution of all rows. The interval holds the candidates that are not
    rejected. As in `binomial_coverage`, the tests of each group are one-sided, at 5 %. If the test rows are the
    calibration rows, tested `in_turn`, the calibration rows count alone.
    """
    known = calibration.rows
    tested, right = (np.zeros_like(rows), np.zeros_like(covered)) if in_turn else (rows, covered)

    def ends(error: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        low = 1 - _upper_ends(((known - calibration.certain, known), (tested - right, tested)), error)
        return low, _upper_ends(((calibration.covered, known), (right, tested)), error)

    low, high = ends(tail_error(_groups_with_rows(rows)))
    within = np.where(rows > 0, farthest_distance(*ends(SIGNIFICANT), level), np.inf)
    estimate = _share(calibration.covered + right, known + tested)
    return CoverageEstimates(low, high, estimate, within, largest_distance(within, rows))


def farthest_distance(low: FloatArray, high: FloatArray, level: Level) -> FloatArray:
    """Return how far from the level the farther end of an interval is."""
    return np.maximum(np.maximum(float(level) - low, high - float(level)), 0.0)


def largest_distance(distances: FloatArray, rows: IntArray) -> FloatArray:
    """Return the largest distance of the groups that have rows; infinite if none has. Shape (...)."""
    largest = np.where(rows > 0, distances, -np.inf).max(axis=-1, initial=-np.inf)
    return np.asarray(np.where(np.any(rows > 0, axis=-1), largest, np.inf))


def _smallest_distance(shown: Callable[[FloatArray], BoolArray], shape: tuple[int, ...]) -> FloatArray:
    """Return the smallest distances from the level that are shown, by bisection; a larger one is shown as well."""
    low, high = np.zeros(shape), np.ones(shape)
    for _ in range(_DISTANCE_BISECTIONS):
        middle = (low + high) / 2
        is_shown = shown(middle)
        low, high = np.where(is_shown, low, middle), np.where(is_shown, middle, high)
    return high


def _share(covered: IntArray, rows: IntArray) -> FloatArray:
    """Return covered / rows; NaN without rows."""
    return np.where(rows > 0, covered / np.maximum(rows, 1), np.nan)


def _groups_with_rows(rows: IntArray) -> IntArray:
    """Return the number of groups that have rows. Shape (..., 1)."""
    return np.asarray(np.count_nonzero(rows, axis=-1, keepdims=True))


def _upper_ends(parts: Sequence[tuple[IntArray, IntArray]], error: float | FloatArray) -> FloatArray:
    """Return the largest candidates that the combined p-value of several parts (covered, rows) does not reject.

    Many of the repeats of a simulation have the same counts. Each distinct one is evaluated once.
    """
    counts = np.broadcast_arrays(*(count for part in parts for count in part), error)
    columns, position = np.unique(np.reshape(counts, (len(counts), -1)), axis=1, return_inverse=True)
    distinct, errors = [(columns[i], columns[i + 1]) for i in range(0, len(counts) - 1, 2)], columns[-1]
    low, high = np.zeros(len(errors)), np.ones(len(errors))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        rejected = _combined_p_value(distinct, middle) <= errors
        low, high = np.where(rejected, low, middle), np.where(rejected, middle, high)
    return high[position].reshape(counts[0].shape)


def _combined_p_value(parts: Sequence[tuple[IntArray, IntArray]], p: FloatArray) -> FloatArray:
    """Return the p-value of the hypothesis that coverage is at least p, by Lancaster's method."""
    statistic, degrees = np.zeros_like(p), np.zeros_like(p)
    for covered, n in parts:
        at_most = np.where(covered < n, betainc(np.maximum(n - covered, 1), covered + 1, 1 - p), 1.0)
        statistic += np.where(n > 0, chdtri(np.maximum(n, 1), at_most), 0.0)
        degrees += n
    return np.where(degrees > 0, chdtrc(np.maximum(degrees, 1), statistic), 1.0)
