"""Nonconformity scores, each with its inverse.

A prediction interval is the set of targets whose score is at most a calibrated threshold. So a score is a
function and the way back, in one frozen object:

    score(y, prediction)                   how strange each target is, shape (n,)
    score.interval(threshold, prediction)  all targets that are at most that strange

Any object with these two methods works wherever a score does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Protocol, TypeAlias

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray, checked_vector
from evencover.groups import Label, first_few, rows_by_code
from evencover.intervals import Intervals, stacked
from evencover.predictions import Prediction, Rows


class Score(Protocol):
    """A nonconformity measure and its inverse.

    The contract, tested for every score here: ``score.interval(t, p).covers(y)`` is ``score(y, p) <= t``; a
    larger threshold gives an interval that contains the smaller one's.
    """

    def __call__(self, y: Any, prediction: Prediction, /) -> FloatArray:
        """Return the score of each target `y`. Shape (n,)."""

    def interval(self, threshold: float | FloatArray, prediction: Prediction, /) -> Intervals:
        """Return the targets that score at most `threshold`, one number or one for each row."""


Nonconformity: TypeAlias = Score | Mapping[Label, Score]

_ROOM = 4 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Residual:
    """Distance from the center, ``|y − center|``: intervals of one width for all rows of a group.

    The paper's residual measure. Its coverage is even across noise levels only if the noise is.

    Examples
    --------
    >>> Residual()([1.0, 5.0], Prediction([2.0, 2.0]))
    array([1., 3.])
    """

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``|y − center|``. Shape (n,)."""
        return self._scored(_checked_target(y, prediction), prediction)

    def _scored(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        return np.abs(y - prediction.center)

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[center − threshold, center + threshold]``."""
        reach = _rounded_outward(threshold, prediction.center)
        return Intervals(prediction.center - reach, prediction.center + reach)


@dataclass(frozen=True)
class IntervalDistance:
    """Distance outside the model's own bounds, ``max(lower − y, y − upper)``, negative inside them.

    The paper's interval measure; with quantile bounds it is conformalised quantile regression. Calibration
    widens or narrows every interval of a group by the same amount on both sides; a negative threshold can
    leave a narrow one empty.

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
        return self._scored(_checked_target(y, prediction), prediction)

    def _scored(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        lower, upper = self._bounds(prediction)
        return np.maximum(lower - y, y - upper)

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[lower − threshold, upper + threshold]``."""
        lower, upper = self._bounds(prediction)
        return Intervals(lower - _rounded_outward(threshold, lower), upper + _rounded_outward(threshold, upper))

    def _bounds(self, prediction: Prediction) -> tuple[FloatArray, FloatArray]:
        name = type(self).__name__
        return prediction.required("lower", by=name), prediction.required("upper", by=name)


@dataclass(frozen=True)
class Normalized:
    """Distance from the center in units of the spread, ``|y − center| / spread``.

    The paper's normalised measure. If the target is center + spread × noise with noise of one distribution, the
    score is a pivotal quantity, and one threshold covers evenly at every noise level.

    Parameters
    ----------
    epsilon : float
        The paper's stabiliser: the spread becomes spread + epsilon × scale. Off by default; it biases the
        quiet rows.
    floor : float
        The smallest spread that is used, as a fraction of the scale. Without it a spread of zero or less is
        an error.
    scale : float, optional
        Unit of `epsilon` and `floor`, fixed before calibration. `ConformalRegressor` takes the median spread
        on its training rows; for frozen models and plain arrays it must be given.

    Examples
    --------
    >>> Normalized()([1.0, 5.0], Prediction([2.0, 2.0], spread=[0.5, 3.0]))
    array([2., 1.])
    """

    epsilon: float = field(default=0.0, kw_only=True)
    floor: float = field(default=0.0, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_settings(self)

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``|y − center| / spread``. Shape (n,)."""
        return self._scored(_checked_target(y, prediction), prediction)

    def _scored(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        score = np.subtract(y, prediction.center)
        np.abs(score, out=score)
        score /= _usable_spread(self, prediction)
        return score

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[center − threshold × spread, center + threshold × spread]``."""
        upper = _rounded_outward(threshold * _usable_spread(self, prediction), prediction.center)
        lower = prediction.center - upper
        upper += prediction.center  # in place: one large array less
        return Intervals(lower, upper)


@dataclass(frozen=True)
class Standardized:
    """Signed distance in units of the spread, ``(y − center) / spread``: one tail.

    Its interval at t is (−inf, center + t spread], an upper prediction bound.

    Parameters
    ----------
    epsilon, floor, scale : float
        As in `Normalized`.

    Examples
    --------
    >>> Standardized()([1.0, 5.0], Prediction([2.0, 2.0], spread=[0.5, 3.0]))
    array([-2.,  1.])
    """

    epsilon: float = field(default=0.0, kw_only=True)
    floor: float = field(default=0.0, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_settings(self)

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``(y − center) / spread``. Shape (n,)."""
        return self._scored(_checked_target(y, prediction), prediction)

    def _scored(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        return (y - prediction.center) / _usable_spread(self, prediction)

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``(−inf, center + threshold × spread]``."""
        reach = _rounded_outward(threshold * _usable_spread(self, prediction), prediction.center)
        return Intervals(np.full(len(prediction), -np.inf), prediction.center + reach)


OWN_SCORES: tuple[type[Any], ...] = (Residual, IntervalDistance, Normalized, Standardized)


def scores_of(nonconformity: Nonconformity, rows: Rows) -> FloatArray:
    """Return the score of each row's target, by one score for all rows, as most calibrators need it. Shape (n,).

    Parameters
    ----------
    nonconformity : score
        The score.
    rows : Rows of n rows
        With targets.

    Examples
    --------
    >>> scores_of(Residual(), Rows(Prediction([2.0, 2.0]), y=[1.0, 5.0]))
    array([1., 3.])
    """
    if isinstance(nonconformity, Mapping):
        raise ValueError(
            "nonconformity: a score for each group needs the groups of a taxonomy, as in taxonomy=BySpread(3); this "
            "calibrator takes one score"
        )
    target = rows.required_target(by="a score")
    return checked_scores(_scored(checked_score(nonconformity), target, rows.prediction), len(rows))


def checked_scores(scores: Any, length: int) -> FloatArray:
    """Return what a score returned as numbers, infinite ones among them, one for each row."""
    return checked_vector(scores, "scores", length=length, finite=False)


def scores_by_group(nonconformity: Nonconformity, rows: Rows, codes: IntArray, labels: tuple[Label, ...]) -> FloatArray:
    """Return each row's score by its own group's measure; 0 where the code is -1. Shape (n,)."""
    target = rows.required_target(by="a score")
    if not isinstance(nonconformity, Mapping):
        return _scored(nonconformity, target, rows.prediction)
    found = np.zeros(len(rows))
    for code, some in rows_by_code(codes, len(labels)):
        found[some] = _scored(nonconformity[labels[code]], target[some], rows.prediction[some])
    return found


def _scored(score: Score, y: FloatArray, prediction: Prediction) -> FloatArray:
    """Return the scores of targets that were checked before: our own scores need not look them through again."""
    if type(score) in OWN_SCORES:  # not a class derived from one, which may score otherwise
        score = score._scored  # type: ignore[attr-defined]
    return score(y, prediction)


def threshold_intervals(nonconformity: Score, thresholds: FloatArray, prediction: Prediction) -> Intervals:
    """Return the targets of each row that score at most its threshold, at each level. Bounds of shape (m, L).

    Parameters
    ----------
    nonconformity : score
        The score.
    thresholds : ndarray of shape (m, L), or (1, L) for all rows alike
        The critical scores.
    prediction : Prediction of m rows
        What the model says.

    Examples
    --------
    >>> threshold_intervals(Residual(), np.array([[1.0, 2.0]]), Prediction([0.0, 5.0])).upper.round(3)
    array([[1., 2.],
           [6., 7.]])
    """
    table = np.asarray(thresholds, dtype=float)
    if table.ndim != 2 or len(table) not in (1, len(prediction)) or not table.shape[1]:
        raise ValueError(
            f"thresholds must have shape ({len(prediction)}, L) or (1, L), for rows and levels; got shape {table.shape}"
        )
    by_level = [float(column[0]) if len(table) == 1 else column for column in table.T]
    return stacked([interval_by(checked_score(nonconformity), critical, prediction) for critical in by_level])


def intervals_by_group(
    nonconformity: Nonconformity,
    labels: tuple[Label, ...],
    threshold: float | FloatArray,
    prediction: Prediction,
    codes: IntArray,
) -> Intervals:
    """Return each row's interval by its own group's measure; infinite where the code is -1."""
    if not isinstance(nonconformity, Mapping):
        return interval_by(nonconformity, threshold, prediction)
    lower, upper = np.full(len(codes), -np.inf), np.full(len(codes), np.inf)
    each = np.broadcast_to(threshold, len(codes))
    for code, rows in rows_by_code(codes, len(labels)):
        made = interval_by(nonconformity[labels[code]], each[rows], prediction[rows])
        lower[rows], upper[rows] = made.lower, made.upper
    return Intervals(lower, upper)


def interval_by(score: Score, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
    """Return a score's intervals, or say that it returned something else."""
    made = score.interval(threshold, prediction)
    if not isinstance(made, Intervals):
        raise TypeError(f"{type(score).__name__}.interval must return Intervals; got {type(made).__name__}")
    return made


def checked_nonconformity(nonconformity: Any, labels: tuple[Label, ...]) -> Nonconformity:
    """Return the score, or the mapping with exactly one score for each group; `Residual()` for None."""
    if nonconformity is None:
        return Residual()
    if isinstance(nonconformity, Mapping):
        if set(nonconformity) != set(labels):
            raise ValueError(
                f"nonconformity must have one score for each group, {first_few(labels)}; got "
                f"{first_few(list(nonconformity))}"
            )
        return {label: checked_score(nonconformity[label]) for label in labels}
    return checked_score(nonconformity)


def checked_score(score: Any) -> Score:
    """Return the score if it is one: called on targets, with its inverse beside it."""
    if isinstance(score, type) or not (callable(score) and callable(getattr(score, "interval", None))):
        raise TypeError(
            "nonconformity must be a score such as Residual(), called as score(y, prediction) and with a method "
            f"interval(threshold, prediction); got {score!r}"
        )
    return score  # type: ignore[no-any-return]


def needs_scale(nonconformity: Nonconformity) -> bool:
    """Return whether a stabiliser or floor still lacks the scale it is a fraction of."""
    if isinstance(nonconformity, Mapping):
        return any(needs_scale(score) for score in nonconformity.values())
    return (
        isinstance(nonconformity, Normalized | Standardized)
        and nonconformity.scale is None
        and bool(nonconformity.epsilon or nonconformity.floor)
    )


def with_scale(nonconformity: Nonconformity, scale: float) -> Nonconformity:
    """Return the same score, or mapping of scores, with the scale filled in where it is lacking."""
    if isinstance(nonconformity, Mapping):
        return {label: _scaled(score, scale) for label, score in nonconformity.items()}
    return _scaled(nonconformity, scale)


def _scaled(score: Score, scale: float) -> Score:
    if isinstance(score, Normalized | Standardized) and needs_scale(score):
        return replace(score, scale=scale)
    return score


def _checked_target(y: Any, prediction: Prediction) -> FloatArray:
    """Return the targets as an array, as many as the prediction has rows."""
    return checked_vector(y, "y", length=len(prediction))


def _rounded_outward(reach: float | FloatArray, center: FloatArray) -> FloatArray:
    """Return the reach from the center, with room for rounding: a few units in the last place of the bound.

    Scores and bounds are rounded apart, so a target whose score *is* the threshold could fall just outside. With
    tied targets (prices, counts) that would lose all of them at once.
    """
    room = np.abs(center)
    room += np.abs(reach) if np.min(reach, initial=0.0) < 0 else reach
    room *= _ROOM
    if np.isinf(room.max(initial=0.0)):
        room[np.isinf(room)] = 0.0  # an infinite reach needs none
    room += reach
    return room


def _usable_spread(score: Normalized | Standardized, prediction: Prediction) -> FloatArray:
    """Return the spread to divide by: floored and stabilised if asked for, positive in any case."""
    name = type(score).__name__
    spread = prediction.required("spread", by=name)
    if score.epsilon or score.floor:
        if score.scale is None:
            raise ValueError(
                f"{name}: epsilon and floor are fractions of a scale fixed before calibration; give scale=, such as "
                "the median spread on training rows (ConformalRegressor finds it in fit, unless the model is frozen)"
            )
        spread = np.maximum(spread, score.floor * score.scale) if score.floor else spread
        spread = spread + score.epsilon * score.scale
    if spread.size and spread.min() <= 0:
        raise ValueError(
            f"{name} divides by the spread, which must be positive; {np.count_nonzero(spread <= 0)} of "
            f"{spread.size} are zero or negative. {name}(floor=0.01, scale=...) would use a hundredth of the scale "
            "there; ConformalRegressor finds the scale on its training rows"
        )
    return spread


def _check_settings(score: Normalized | Standardized) -> None:
    """Raise unless epsilon, floor and scale are what they must be."""
    for part in ("epsilon", "floor", "scale"):
        value = getattr(score, part)
        if value is not None and not (isinstance(value, Real) and 0 <= float(value) < np.inf):
            raise ValueError(f"{type(score).__name__}: {part} must be a finite number, not negative; got {value!r}")
