"""Metrics of intervals and predicted quantiles."""

from typing import Any

import numpy as np

from evencover.groups import Label, checked_groups, rows_by_code
from evencover.inputs.arrays import FloatArray, as_floats, checked_summable, checked_vector
from evencover.inputs.frames import check_same_index
from evencover.intervals import Intervals, IntervalUnion
from evencover.quantiles import Level, level_fraction

__all__ = [
    "coverage",
    "coverage_by_group",
    "crps",
    "interval_score",
    "mean_width",
    "mean_width_by_group",
    "misses_by_group",
    "pinball_loss",
]


def coverage(y: Any, intervals: Intervals | IntervalUnion) -> float | FloatArray:
    """Return the share of targets inside their intervals: a number, or one for each of L levels, shape (L,).

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    intervals : Intervals of n rows
        Empty intervals cover nothing; infinite ones cover everything.

    Examples
    --------
    >>> coverage([1.0, 5.0], Intervals(np.zeros(2), np.full(2, 2.0)))
    0.5
    """
    return _mean(_checked_intervals(intervals).covers(y))


def mean_width(intervals: Intervals | IntervalUnion) -> float | FloatArray:
    """Return the mean width: a number, or one for each of L levels, shape (L,); inf if any interval is infinite.

    Parameters
    ----------
    intervals : Intervals of n rows
        Empty intervals have width 0.

    Examples
    --------
    >>> mean_width(Intervals(np.zeros(2), np.array([1.0, 2.0])))
    1.5
    """
    return _mean(_checked_intervals(intervals).width)


def coverage_by_group(
    y: Any, intervals: Intervals | IntervalUnion, groups: Any = None
) -> dict[Label, float | FloatArray]:
    """Return the coverage of each group.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    intervals : Intervals of n rows
        From this package, or ``Intervals(lower, upper)`` of any bounds.
    groups : array-like of shape (n,) or Groups, optional
        The group of each row; by default those of the intervals.

    Returns
    -------
    dict from label to float, or to ndarray of shape (L,)
        NaN for a group without rows.
    """
    checked = _checked_intervals(intervals, y=y, groups=groups)
    return _by_group(checked.covers(y), checked, groups)


def misses_by_group(
    y: Any, intervals: Intervals, groups: Any = None
) -> dict[Label, tuple[float | FloatArray, float | FloatArray]]:
    """Return the shares of the targets below the lower bound and above the upper bound, in each group.

    The two shares and the coverage add up to 1, unless an interval is empty: then a target can be on both sides.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    intervals : Intervals of n rows
        From this package, or ``Intervals(lower, upper)`` of any bounds.
    groups : array-like of shape (n,) or Groups, optional
        The group of each row; by default those of the intervals.

    Returns
    -------
    dict from label to a tuple of two floats, or of two ndarrays of shape (L,)
        Below and above; NaN for a group without rows.

    Examples
    --------
    >>> misses_by_group([-1.0, 0.0, 5.0, 1.0], Intervals(np.zeros(4), np.full(4, 2.0)), ["a", "a", "b", "b"])
    {'a': (0.5, 0.0), 'b': (0.0, 0.5)}
    """
    if not isinstance(intervals, Intervals):
        raise TypeError(f"intervals must be Intervals, one for each row; got {type(intervals).__name__}")
    intervals, target = (
        _checked_intervals(intervals, y=y, groups=groups),
        checked_summable(y, "y", length=len(intervals), matched="the intervals"),
    )
    target = target if intervals.lower.ndim == 1 else target[:, None]
    below = _by_group(target < intervals.lower, intervals, groups)
    above = _by_group(target > intervals.upper, intervals, groups)
    return {label: (share, above[label]) for label, share in below.items()}


def mean_width_by_group(intervals: Intervals | IntervalUnion, groups: Any = None) -> dict[Label, float | FloatArray]:
    """Return the mean width of each group; `intervals`, `groups` and the result are as in `coverage_by_group`."""
    checked = _checked_intervals(intervals, groups=groups)
    return _by_group(checked.width, checked, groups)


def interval_score(y: Any, intervals: Intervals, *, level: Level | None = None) -> float:
    """Return the mean interval (Winkler) score: the width, plus 2/α times the distance to a missed target.

    Its expectation is smallest for the true α/2 and 1 − α/2 quantiles, α = 1 − level. For an empty interval the same
    formula is used with its two bounds, and is never negative. The score of an infinite interval is inf.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    intervals : Intervals of n rows
        For one level.
    level : float, optional
        Nominal coverage; by default that of the intervals.

    References
    ----------
    Gneiting, Raftery (2007), Strictly proper scoring rules, prediction, and estimation.

    Examples
    --------
    >>> interval_score([1.0, 2.5], Intervals(np.zeros(2), np.full(2, 2.0)), level=0.9)
    7.0
    """
    if not isinstance(intervals, Intervals):
        raise TypeError(f"interval_score takes Intervals(lower, upper); got {type(intervals).__name__}")
    level = intervals.level if level is None else level  # type: ignore[assignment]
    if level is None or intervals.lower.ndim != 1:
        raise ValueError("interval_score takes intervals for one level: give level=, and bounds of shape (n,)")
    intervals.check_index(y=y)
    y = checked_summable(y, "y", length=len(intervals), matched="the intervals")
    return float(np.mean(interval_scores(y, intervals.on_host(), level)))


def interval_scores(y: FloatArray, intervals: Intervals, level: Level) -> FloatArray:
    """Return the interval score of each row; inf if its width is not defined. Shape (n,)."""
    alpha = float(1 - level_fraction(level))
    # The width is not defined for NaN bounds, and for two infinite ones of the same sign.
    with np.errstate(invalid="ignore", over="ignore"):
        missed = np.maximum(intervals.lower - y, 0) + np.maximum(y - intervals.upper, 0)
        scores = intervals.upper - intervals.lower + 2 / alpha * missed
    return np.where(np.isnan(scores), np.inf, scores)


def pinball_loss(y: Any, quantile: Any, *, probability: float) -> float:
    """Return the mean pinball loss of a predicted quantile, (τ − 1{y < q}) (y − q).

    Parameters
    ----------
    y, quantile : array-like of shape (n,)
        Targets and predicted quantiles.
    probability : float
        Probability τ of the quantile, in (0, 1).

    Examples
    --------
    >>> pinball_loss([1.0, 4.0], [2.0, 2.0], probability=0.75)
    0.875
    """
    check_same_index({"y": y, "quantile": quantile})
    y = checked_summable(y, "y")
    quantile = checked_summable(quantile, "quantile", length=len(y), matched="y")
    tau = float(_checked_probabilities([probability])[0])
    return float(np.mean(_pinball(y, quantile, tau)))


def crps(y: Any, quantiles: Any, *, probabilities: Any) -> float:
    """Return the mean continuous ranked probability score of predicted quantiles.

    CRPS = 2 ∫ pinball loss dτ. The integral is a sum in which each quantile represents the probabilities nearest to its
    own. With probabilities (i − 1/2)/Q, the result is exactly the CRPS of Q equally likely values.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    quantiles : array-like of shape (n, Q)
        Predicted quantiles.
    probabilities : array-like of shape (Q,)
        Probabilities of the quantiles, increasing, in (0, 1).

    References
    ----------
    Gneiting, Raftery (2007), Strictly proper scoring rules, prediction, and estimation.

    Examples
    --------
    >>> crps([0.0], [[-1.0, 1.0]], probabilities=[0.25, 0.75])
    0.5
    """
    check_same_index({"y": y, "quantiles": quantiles})
    y = checked_summable(y, "y")
    probabilities = _checked_probabilities(probabilities)
    quantiles = as_floats(quantiles, "quantiles")
    if quantiles.shape != (len(y), len(probabilities)):
        raise ValueError(
            f"quantiles must have shape ({len(y)}, {len(probabilities)}), targets by probabilities; got shape "
            f"{quantiles.shape}"
        )
    columns = [checked_summable(column, "quantiles") for column in quantiles.T]
    boundaries = np.concatenate([[0.0], (probabilities[1:] + probabilities[:-1]) / 2, [1.0]])
    losses = [np.mean(_pinball(y, column, tau)) for column, tau in zip(columns, probabilities, strict=True)]
    return float(2 * np.dot(np.diff(boundaries), losses))


def _mean(values: Any) -> float | FloatArray:
    """Return the mean over rows; NaN without rows, inf if a value is."""
    means = np.mean(values, axis=0, dtype=float) if len(values) else np.full(np.shape(values)[1:], np.nan)
    return means if np.ndim(means) else float(means)


def _checked_intervals(intervals: Any, **columns: Any) -> Any:
    """Return intervals, or a union. Raise TypeError for anything else, ValueError for columns with another index."""
    if not isinstance(intervals, Intervals | IntervalUnion):
        raise TypeError(
            f"intervals must be Intervals, made from any bounds by Intervals(lower, upper); got "
            f"{type(intervals).__name__}"
        )
    intervals.check_index(**columns)
    return intervals.on_host()


def _by_group(values: Any, intervals: Intervals | IntervalUnion, groups: Any) -> dict[Label, float | FloatArray]:
    """Return the mean of the values in each group."""
    groups = getattr(intervals, "groups", None) if groups is None else groups
    if groups is None:
        raise ValueError("groups must be given: these intervals have none")
    groups = checked_groups(groups, len(intervals), "the intervals").on_host()
    rows = dict(rows_by_code(groups.codes, len(groups.labels)))
    return {label: _mean(values[rows.get(code, [])]) for code, label in enumerate(groups.labels)}


def _pinball(y: FloatArray, quantile: FloatArray, tau: float) -> FloatArray:
    return np.maximum(tau * (y - quantile), (tau - 1) * (y - quantile))


def _checked_probabilities(values: Any) -> FloatArray:
    probabilities = checked_vector(values, "probabilities")
    inside = (probabilities > 0) & (probabilities < 1)
    if not inside.all() or (np.diff(probabilities) <= 0).any() or not len(probabilities):
        raise ValueError(f"probabilities must be strictly increasing, between 0 and 1; got {probabilities.tolist()}")
    return probabilities
