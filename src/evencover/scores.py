"""Nonconformity scores, each with its inverse.

A prediction interval is the set of targets whose score is at most a calibrated threshold. So a score is one frozen
object with a function and its inverse:

    score(y, prediction)                   how unusual each target is, shape (n,)
    score.interval(threshold, prediction)  all targets whose score is at most the threshold

Any object with these two methods can be used as a score.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Protocol, TypeAlias

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray, checked_vector
from evencover.groups import Label, first_few, rows_by_code
from evencover.intervals import Intervals, stack_levels
from evencover.predictions import Prediction, Rows


class Score(Protocol):
    """A nonconformity measure and its inverse.

    The contract, tested for every score of this package: ``score.interval(t, p).covers(y)`` equals
    ``score(y, p) <= t``, and the interval of a larger threshold contains that of a smaller one.
    """

    def __call__(self, y: Any, prediction: Prediction, /) -> FloatArray:
        """Return the score of each target `y`. Shape (n,)."""

    def interval(self, threshold: float | FloatArray, prediction: Prediction, /) -> Intervals:
        """Return the targets whose score is at most `threshold`: one number, or one for each row."""


Nonconformity: TypeAlias = Score | Mapping[Label, Score]

_ROUNDING_MARGIN = 4 * float(np.finfo(float).eps)  # relative to the size of a bound


@dataclass(frozen=True)
class Residual:
    """Absolute residual, ``|y − center|``: all rows of a group get intervals of the same width.

    The paper's residual measure. Its coverage is the same for all rows only if their noise is the same
    (homoskedastic data).

    Examples
    --------
    >>> Residual()([1.0, 5.0], Prediction([2.0, 2.0]))
    array([1., 3.])
    """

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``|y − center|``. Shape (n,)."""
        return self._formula(_checked_target(y, prediction), prediction)

    def _formula(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        return np.abs(y - prediction.center)

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[center − threshold, center + threshold]``."""
        half_width = _with_rounding_margin(threshold, prediction.center)
        return Intervals(prediction.center - half_width, prediction.center + half_width)


@dataclass(frozen=True)
class IntervalDistance:
    """Distance to the model's own bounds, ``max(lower − y, y − upper)``, negative inside them.

    The paper's interval measure; with quantile bounds it is conformalized quantile regression (CQR). Calibration
    widens or narrows every interval of a group by the same amount on both sides. A negative threshold can make a
    narrow interval empty.

    References
    ----------
    Romano, Patterson, Candès (2019), Conformalized quantile regression.

    Examples
    --------
    >>> IntervalDistance()([1.0, 5.0], Prediction([2.0, 2.0], lower=[0.0, 0.0], upper=[4.0, 4.0]))
    array([-1.,  1.])
    """

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``max(lower − y, y − upper)``. Shape (n,)."""
        return self._formula(_checked_target(y, prediction), prediction)

    def _formula(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        lower, upper = self._bounds(prediction)
        return np.maximum(lower - y, y - upper)

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[lower − threshold, upper + threshold]``."""
        lower, upper = self._bounds(prediction)
        return Intervals(
            lower - _with_rounding_margin(threshold, lower), upper + _with_rounding_margin(threshold, upper)
        )

    def _bounds(self, prediction: Prediction) -> tuple[FloatArray, FloatArray]:
        name = type(self).__name__
        return prediction.required("lower", by=name), prediction.required("upper", by=name)


@dataclass(frozen=True)
class _SpreadScaled:
    """The settings of scores that divide by the spread, and the spread that they divide by."""

    epsilon: float = field(default=0.0, kw_only=True)
    floor: float = field(default=0.0, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("epsilon", "floor", "scale"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and 0 <= float(value) < np.inf):
                raise ValueError(f"{type(self).__name__}: {name} must be a finite number, 0 or more; got {value!r}")

    @property
    def _needs_scale(self) -> bool:
        return self.scale is None and bool(self.epsilon or self.floor)

    def _divisor(self, prediction: Prediction) -> FloatArray:
        """Return the spread with floor and epsilon applied. Raise ValueError unless it is positive."""
        name = type(self).__name__
        spread = prediction.required("spread", by=name)
        if self.epsilon or self.floor:
            if self.scale is None:
                raise ValueError(
                    f"{name}: epsilon and floor are fractions of a scale, and the scale is missing; pass scale=, for "
                    "example the median spread of the training rows (ConformalRegressor.fit sets the scale, except "
                    "for a frozen model)"
                )
            spread = np.maximum(spread, self.floor * self.scale) if self.floor else spread
            spread = spread + self.epsilon * self.scale
        if spread.size and spread.min() <= 0:
            raise ValueError(
                f"{name} divides by the spread, which must be positive; zero or negative values: "
                f"{np.count_nonzero(spread <= 0)} of {spread.size}. {name}(floor=0.01, scale=...) replaces them by "
                "0.01 × scale; ConformalRegressor sets the scale from its training rows"
            )
        return spread


@dataclass(frozen=True)
class Normalized(_SpreadScaled):
    """Absolute residual in units of the spread, ``|y − center| / spread``.

    The paper's normalised measure. If the target is center + spread × noise, and the noise has the same distribution
    for all rows, the score is a pivotal quantity. Then one threshold gives the same coverage at every noise level.

    Parameters
    ----------
    epsilon : float
        The paper's stabiliser: the spread becomes spread + epsilon × scale. 0 by default, because it biases the
        coverage of rows with little noise.
    floor : float
        Lower limit of the spread, as a fraction of the scale. Without it, a spread of zero or less is an error.
    scale : float, optional
        Unit of `epsilon` and `floor`, fixed before calibration. `ConformalRegressor` uses the median spread of its
        training rows. For frozen models and plain arrays, give it yourself.

    Examples
    --------
    >>> Normalized()([1.0, 5.0], Prediction([2.0, 2.0], spread=[0.5, 3.0]))
    array([2., 1.])
    """

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``|y − center| / spread``. Shape (n,)."""
        return self._formula(_checked_target(y, prediction), prediction)

    def _formula(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        score = np.subtract(y, prediction.center)
        np.abs(score, out=score)
        score /= self._divisor(prediction)
        return score

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[center − threshold × spread, center + threshold × spread]``."""
        upper = _with_rounding_margin(threshold * self._divisor(prediction), prediction.center)
        lower = prediction.center - upper
        upper += prediction.center  # in place, to save one large array
        return Intervals(lower, upper)


@dataclass(frozen=True)
class Standardized(_SpreadScaled):
    """Signed residual in units of the spread, ``(y − center) / spread``: a one-sided score.

    The interval of threshold t is (−inf, center + t × spread], an upper prediction bound.

    Parameters
    ----------
    epsilon, floor, scale : float
        As in `Normalized`.

    Examples
    --------
    >>> Standardized()([1.0, 5.0], Prediction([2.0, 2.0], spread=[0.5, 3.0]))
    array([-2.,  1.])
    """

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``(y − center) / spread``. Shape (n,)."""
        return self._formula(_checked_target(y, prediction), prediction)

    def _formula(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        return (y - prediction.center) / self._divisor(prediction)

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``(−inf, center + threshold × spread]``."""
        distance = _with_rounding_margin(threshold * self._divisor(prediction), prediction.center)
        return Intervals(np.full(len(prediction), -np.inf), prediction.center + distance)


BUILTIN_SCORES: tuple[type[Any], ...] = (Residual, IntervalDistance, Normalized, Standardized)


def scores_of(nonconformity: Nonconformity, rows: Rows) -> FloatArray:
    """Return the score of each row's target, with the same score function for all rows. Shape (n,).

    Parameters
    ----------
    nonconformity : score
        The score.
    rows : Rows of n rows
        Predictions and targets.

    Examples
    --------
    >>> scores_of(Residual(), Rows(Prediction([2.0, 2.0]), y=[1.0, 5.0]))
    array([1., 3.])
    """
    if isinstance(nonconformity, Mapping):
        raise ValueError(
            "nonconformity must be one score for this calibrator; got a score for each group, which needs a taxonomy, "
            "such as taxonomy=BySpread(3)"
        )
    target = rows.required_target(by="a score")
    return checked_scores(_scores_of_checked(checked_score(nonconformity), target, rows.prediction), len(rows))


def checked_scores(scores: Any, length: int, matched: str = "the prediction") -> FloatArray:
    """Return scores as an array of shape (length,). Raise ValueError for NaN; infinite scores are allowed."""
    return checked_vector(scores, "scores", length=length, matched=matched, finite=False)


def scores_by_group(nonconformity: Nonconformity, rows: Rows, codes: IntArray, labels: tuple[Label, ...]) -> FloatArray:
    """Return the score of each row with the score function of its group; 0 where the code is -1. Shape (n,)."""
    target = rows.required_target(by="a score")
    if not isinstance(nonconformity, Mapping):
        return _scores_of_checked(nonconformity, target, rows.prediction)
    scores = np.zeros(len(rows))
    for code, members in rows_by_code(codes, len(labels)):
        score = nonconformity[labels[code]]
        scores[members] = _scores_of_checked(score, target[members], rows.prediction[members])
    return scores


def _scores_of_checked(score: Score, y: FloatArray, prediction: Prediction) -> FloatArray:
    """Return the scores of targets that were already checked; the package's own scores do not check them again."""
    if type(score) in BUILTIN_SCORES:  # a subclass may have another __call__
        score = score._formula  # type: ignore[attr-defined]
    return score(y, prediction)


def threshold_intervals(nonconformity: Score, thresholds: FloatArray, prediction: Prediction) -> Intervals:
    """Return the targets whose score is at most the threshold, for each row and level. Bounds of shape (m, L).

    Parameters
    ----------
    nonconformity : score
        The score.
    thresholds : ndarray of shape (m, L), or (1, L) for the same thresholds in all rows
        The largest score inside the interval, for each row and level.
    prediction : Prediction of m rows
        The model's predictions.

    Examples
    --------
    >>> threshold_intervals(Residual(), np.array([[1.0, 2.0]]), Prediction([0.0, 5.0])).upper.round(3)
    array([[1., 2.],
           [6., 7.]])
    """
    table = np.asarray(thresholds, dtype=float)
    if table.ndim != 2 or len(table) not in (1, len(prediction)) or not table.shape[1]:
        raise ValueError(
            f"thresholds must have shape ({len(prediction)}, L) or (1, L), rows by levels; got shape {table.shape}"
        )
    by_level = [float(column[0]) if len(table) == 1 else column for column in table.T]
    return stack_levels([interval_by(checked_score(nonconformity), threshold, prediction) for threshold in by_level])


def intervals_by_group(
    nonconformity: Nonconformity,
    labels: tuple[Label, ...],
    threshold: float | FloatArray,
    prediction: Prediction,
    codes: IntArray,
) -> Intervals:
    """Return the interval of each row with the score function of its group; infinite where the code is -1."""
    if not isinstance(nonconformity, Mapping):
        return interval_by(nonconformity, threshold, prediction)
    lower, upper = np.full(len(codes), -np.inf), np.full(len(codes), np.inf)
    threshold_of_row = np.broadcast_to(threshold, len(codes))
    for code, rows in rows_by_code(codes, len(labels)):
        intervals = interval_by(nonconformity[labels[code]], threshold_of_row[rows], prediction[rows])
        lower[rows], upper[rows] = intervals.lower, intervals.upper
    return Intervals(lower, upper)


def interval_by(score: Score, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
    """Return the intervals of a score. Raise TypeError if it returns anything else."""
    intervals = score.interval(threshold, prediction)
    if not isinstance(intervals, Intervals):
        raise TypeError(f"{type(score).__name__}.interval must return Intervals; got {type(intervals).__name__}")
    return intervals


def checked_nonconformity(nonconformity: Any, labels: tuple[Label, ...]) -> Nonconformity:
    """Return a score, or a mapping with exactly one score for each group; None stands for `Residual()`."""
    if nonconformity is None:
        return Residual()
    if isinstance(nonconformity, Mapping):
        if set(nonconformity) != set(labels):
            raise ValueError(
                f"nonconformity must have one score for each of the groups {first_few(labels)}; got scores for "
                f"{first_few(list(nonconformity))}"
            )
        return {label: checked_score(nonconformity[label]) for label in labels}
    return checked_score(nonconformity)


def checked_score(score: Any) -> Score:
    """Return the score. Raise TypeError unless it can be called and has a method `interval`."""
    if isinstance(score, type) or not (callable(score) and callable(getattr(score, "interval", None))):
        raise TypeError(
            "nonconformity must be a score such as Residual(): callable as score(y, prediction), with a method "
            f"interval(threshold, prediction); got {score!r}"
        )
    return score  # type: ignore[no-any-return]


def needs_scale(nonconformity: Nonconformity) -> bool:
    """Return whether a score has an epsilon or floor, but no scale yet."""
    if isinstance(nonconformity, Mapping):
        return any(needs_scale(score) for score in nonconformity.values())
    return isinstance(nonconformity, _SpreadScaled) and nonconformity._needs_scale


def with_scale(nonconformity: Nonconformity, scale: float) -> Nonconformity:
    """Return the same score, or mapping of scores, with the scale set where it is missing."""
    if isinstance(nonconformity, Mapping):
        return {label: _score_with_scale(score, scale) for label, score in nonconformity.items()}
    return _score_with_scale(nonconformity, scale)


def _score_with_scale(score: Score, scale: float) -> Score:
    if isinstance(score, Normalized | Standardized) and score._needs_scale:
        return replace(score, scale=scale)
    return score


def _checked_target(y: Any, prediction: Prediction) -> FloatArray:
    """Return the targets as an array. Raise ValueError unless there is one for each row of the prediction."""
    return checked_vector(y, "y", length=len(prediction), matched="the prediction")


def _with_rounding_margin(distance: float | FloatArray, bound: FloatArray) -> FloatArray:
    """Return the distance plus a rounding margin: a few units in the last place of the bound it is added to.

    Scores and bounds are rounded differently, so a target whose score *equals* the threshold could fall just outside.
    With tied targets (prices, counts) all of them would then be missed at once.
    """
    widened = np.abs(bound)
    widened += np.abs(distance) if np.min(distance, initial=0.0) < 0 else distance
    widened *= _ROUNDING_MARGIN
    if np.isinf(widened.max(initial=0.0)):
        widened[np.isinf(widened)] = 0.0  # an infinite distance needs no margin
    widened += distance
    return widened
