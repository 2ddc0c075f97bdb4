"""Intervals for the coverage of groups, from test rows and calibration rows, jointly valid at 95 %.

Counts have the shape (G,) for G groups, or (repeats, G) for repeats that are evaluated separately.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import betainc, betaincinv, chdtrc, chdtri

from evencover._internal.arrays import FloatArray, IntArray
from evencover.diagnostics._exact_tests import clopper_pearson_lower, clopper_pearson_upper, tail_error
from evencover.guarantees import TailShares, covered_rank
from evencover.quantiles import Level

_BISECTIONS = 50

Estimates: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]  # lower end, upper end, estimate


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


def clopper_pearson_intervals(covered: IntArray, rows: IntArray) -> Estimates:
    """Return Clopper-Pearson intervals and estimates from test rows alone. Shapes (..., G)."""
    groups = _groups_with_rows(rows)
    low, high = clopper_pearson_lower(covered, rows, groups), clopper_pearson_upper(covered, rows, groups)
    return low, high, _share(covered, rows)


def posterior_intervals(
    covered: IntArray,
    rows: IntArray,
    sizes: IntArray,
    level: Level,
    *,
    tied: bool = False,
    tail_shares: TailShares = None,
) -> Estimates:
    """Return intervals and estimates for groups with a threshold of their own, from all rows. Shapes (..., G).

    With n independent calibration scores without ties, the coverage p of a group's threshold has the distribution
    Beta(k, n + 1 − k), where k is the conformal rank. Given p, the number of covered rows among m test rows is
    Binomial(m, p). So if x of them are covered, p has the distribution Beta(k + x, n + 1 − k + m − x), and its
    quantiles contain p with the stated probability. Tied scores push coverage up, so with ties only the lower end is
    valid, and the upper end is that of the test rows alone. An infinite threshold covers every row.

    Parameters
    ----------
    covered, rows : ndarray of shape (..., G)
        Number of covered test rows, and of test rows.
    sizes : ndarray of shape (G,)
        Number of calibration scores behind each threshold.
    level : float
        Nominal coverage.
    tied : bool
        Whether several calibration scores equal a threshold.
    tail_shares : tuple of two Fraction, optional
        Shares of 1 − level, if each tail has its own threshold.
    """
    ranks = np.array([covered_rank(int(n), level, tail_shares) for n in sizes])
    finite = ranks <= sizes
    a, b = ranks + covered, np.where(finite, sizes + 1 - ranks, 1) + rows - covered
    error = tail_error(_groups_with_rows(rows))
    low, high = (np.where(finite, betaincinv(a, b, share), 1.0) for share in (error, 1 - error))
    if tied:
        high = np.maximum(high, clopper_pearson_upper(covered, rows, _groups_with_rows(rows)))
    return low, high, np.where(finite, a / (a + b), 1.0)


def combined_intervals(covered: IntArray, rows: IntArray, calibration: CalibrationCounts) -> Estimates:
    """Return intervals and estimates for groups that share one threshold, from all rows. Shapes (..., G).

    A candidate p for a group's coverage has two p-values: that of the calibration rows, which is valid at the threshold
    as computed, and that of the test rows, which is valid whatever the calibration rows are. So their combination by
    Lancaster's method is valid, too: each p-value becomes a χ² quantile with as many degrees of freedom as it has rows,
    and the sum is compared with the χ² distribution of all rows. The interval holds the candidates that are not
    rejected.
    """
    error = tail_error(_groups_with_rows(rows))
    known = calibration.rows
    low = 1 - _upper_ends(((known - calibration.certain, known), (rows - covered, rows)), error)
    high = _upper_ends(((calibration.covered, known), (covered, rows)), error)
    return low, high, _share(calibration.covered + covered, known + rows)


def _share(covered: IntArray, rows: IntArray) -> FloatArray:
    """Return covered / rows; NaN without rows."""
    return np.where(rows > 0, covered / np.maximum(rows, 1), np.nan)


def _groups_with_rows(rows: IntArray) -> IntArray:
    """Return the number of groups that have rows. Shape (..., 1)."""
    return np.asarray(np.count_nonzero(rows, axis=-1, keepdims=True))


def _upper_ends(parts: Sequence[tuple[IntArray, IntArray]], error: FloatArray) -> FloatArray:
    """Return the largest candidates that the combined p-value of several parts (covered, rows) does not reject."""
    low, high = np.zeros(np.shape(parts[0][0])), np.ones(np.shape(parts[0][0]))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        rejected = _combined_p_value(parts, middle) <= error
        low, high = np.where(rejected, low, middle), np.where(rejected, middle, high)
    return high


def _combined_p_value(parts: Sequence[tuple[IntArray, IntArray]], p: FloatArray) -> FloatArray:
    """Return the p-value of the hypothesis that coverage is at least p, by Lancaster's method."""
    statistic, degrees = np.zeros_like(p), np.zeros_like(p)
    for covered, n in parts:
        at_most = np.where(covered < n, betainc(np.maximum(n - covered, 1), covered + 1, 1 - p), 1.0)
        statistic += np.where(n > 0, chdtri(np.maximum(n, 1), at_most), 0.0)
        degrees += n
    return np.where(degrees > 0, chdtrc(np.maximum(degrees, 1), statistic), 1.0)
