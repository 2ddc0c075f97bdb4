"""The protocol of nonconformity scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from evencover.groups import Label
from evencover.inputs.arrays import FloatArray, got_text
from evencover.inputs.device_arrays import checked_column
from evencover.intervals import Intervals
from evencover.predictions import Prediction


class Score(Protocol):
    """A nonconformity measure and its inverse.

    The contract, tested for every score of this package: ``score.interval(t, p).covers(y)`` equals
    ``score(y, p) <= t``, and the interval of a larger threshold contains that of a smaller one.

    Optional members:

    - ``tails(y, prediction)``: two arrays of shape (n,), how far each target is below and above what was predicted.
      The score is the larger of the two. The lower bound of the interval at t is the smallest target whose first value
      is at most t, and the upper bound is the largest target whose second value is at most t, also if the interval is
      empty. One-sided bounds, separate tails and predictive distributions use them. A subclass that changes the score
      or the interval, but not `tails`, counts as a score without tails; the same holds for the other members.
    - ``needs_scale`` and ``with_scale(scale)``: whether the score needs the median spread of the training rows, and the
      same score with it.
    - ``prediction_parts``: which of center, spread, lower, upper and quantiles the score uses. All by default.
    - ``side``: "upper" or "lower" if intervals are bounded on this side only; and ``two_sided()``, the same score with
      both tails.
    - ``value_map(prediction)``: the upper end of the interval as a function of the threshold, if it is piecewise linear
      with knots at the same thresholds in all rows.
    - ``formula(y, prediction)`` and ``ends(threshold, prediction)``: the score of checked targets, and the two ends of
      the interval, written with operators and the functions of ``prediction.arithmetic`` (`Arithmetic`). Then
      predictions can be arrays on a device, and calibrations can be written as SQL.
    - ``unitless``: True if scores are the same in any unit of the target. So those of models on different scales can be
      compared.
    - ``symbolic_reach(symbols)``: the distance of the ends of the interval from the center, as a formula.
    - ``innermost``: the score inside, if it wraps one.

    The classes in `BUILTIN_SCORES` are also known by name, in files and reports. Optional class members:

    - ``option``: the name on the command line, and ``from_option()``, the score that it stands for. By default that
      without arguments.
    - ``for_prediction(prediction)``: the score to compare with others, or None if the prediction does not allow it.
      Without this method, it is not compared.
    - ``tries_separate_tails``: whether it is compared with a threshold for each end, too.
    - ``description``: a text for the glossary of reports.
    """

    def __call__(self, y: Any, prediction: Prediction, /) -> FloatArray:
        """Return the score of each target `y`. Shape (n,)."""

    def interval(self, threshold: float | FloatArray, prediction: Prediction, /) -> Intervals:
        """Return the targets whose score is at most `threshold`: one number, or one for each row."""


Nonconformity: TypeAlias = Score | Mapping[Label, Score]


class Symbols(NamedTuple):
    """The threshold, and a prediction whose bounds are center ± z × spread, as symbols of formulas."""

    threshold: Any
    z: Any
    center: Any
    spread: Any


@dataclass(frozen=True)
class FloorSettings:
    """The settings of scores that divide by a width or spread: a lower limit of it."""

    floor: float = field(default=0.0, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_settings(self, "floor", "scale")

    @property
    def needs_scale(self) -> bool:
        """Whether there is a floor, but no scale yet."""
        return self.scale is None and self.floor > 0

    def with_scale(self, scale: float) -> Self:
        """Return the same score with this scale."""
        return replace(self, scale=scale)

    @property
    def smallest(self) -> float:
        """The lower limit of a divisor; 0 without a floor."""
        if self.needs_scale:
            raise ValueError(
                f"{type(self).__name__}: its settings are fractions of a scale, and the scale is missing; pass scale=, "
                "for example the median spread of the training rows (ConformalRegressor.fit sets the scale, except for "
                "a frozen model)"
            )
        return self.floor * (self.scale or 0.0)

    def divisor(self, unit: Any, prediction: Any, what: str, epsilon: float = 0.0) -> Any:
        """Return the widths or spreads with the floor, and epsilon added. Raise ValueError unless they are positive."""
        smallest = self.smallest
        divisor = prediction.arithmetic.maximum(unit, smallest) if smallest else unit
        divisor = divisor + epsilon * self.scale if epsilon else divisor  # type: ignore[operator]
        prediction.arithmetic.check_divisor(divisor, type(self).__name__, what)
        return divisor


def check_settings(score: Any, *names: str) -> None:
    """Raise ValueError unless settings of a score are finite numbers, 0 or more."""
    for name in names:
        value = getattr(score, name)
        if value is not None and not (isinstance(value, Real) and 0 <= float(value) < np.inf):
            raise ValueError(f"{type(score).__name__}: {name} must be a finite number, 0 or more; got {value!r}")


def checked_score(score: Any, name: str = "nonconformity") -> Score:
    """Return the score. Raise TypeError, with the name of the argument, unless it is callable and has `interval`."""
    if isinstance(score, type) or not (callable(score) and callable(getattr(score, "interval", None))):
        raise TypeError(
            f"{name} must be a score such as Residual(): callable as score(y, prediction), with a method "
            f"interval(threshold, prediction); got {got_text(score)}"
        )
    return score  # type: ignore[no-any-return]


def check_nonconformity(nonconformity: Nonconformity) -> None:
    """Raise TypeError unless all scores of a mapping, or the one that is not a mapping, are scores."""
    for score in nonconformity.values() if isinstance(nonconformity, Mapping) else [nonconformity]:
        checked_score(score)


def states(score: Score, member: str) -> bool:
    """Return whether a score has an optional member that belongs to its own score and interval.

    A subclass that changes one of these may not be what the member of its parent says.
    """
    classes = type(score).__mro__
    depths = [
        next((depth for depth, each in enumerate(classes) if name in vars(each)), len(classes))
        for name in (member, "__call__", "interval", "formula", "ends")
    ]
    return depths[0] < len(classes) and depths[0] <= min(depths[1:])


def has_tails(score: Score) -> bool:
    """Return whether a score has the optional `tails`, and they belong to its own `__call__` and `interval`."""
    return states(score, "tails")


def has_formulas(score: Score) -> bool:
    """Return whether a score has formulas for arrays on a device and for SQL; one tail needs those of both."""
    inner = innermost(score)
    members = ("formula", "ends") if inner is score else ("formula", "ends", "tails")
    return states(score, "ends") and all(states(inner, member) for member in members)


def innermost(score: Score) -> Score:
    """Return the score around which there may be limits of the target, or of which only one side is used."""
    return getattr(score, "innermost", score)


def used_parts(score: Score) -> tuple[str, ...] | None:
    """Return the parts of a prediction that a score, or the score inside it, uses; None if it may use all."""
    inner: Any = innermost(score)
    return inner.prediction_parts if states(inner, "prediction_parts") else None


def is_unitless(score: Score) -> bool:
    """Return whether a score is the same in any unit of the target."""
    return states(score, "unitless") and score.unitless  # type: ignore[attr-defined]


def symbolic_reach(score: Any, symbols: Symbols) -> Any:
    """Return the distance of the ends of the score's interval from the center as a formula; None if it is not known."""
    if getattr(score, "floor", 0) or getattr(score, "epsilon", 0) or not states(score, "symbolic_reach"):
        return None
    return score.symbolic_reach(symbols)


def from_option(score: type[Any]) -> Score:
    """Return the score that an option of the command line stands for, by its class."""
    return getattr(score, "from_option", score)()  # type: ignore[no-any-return]


def score_option(score: Any) -> str | None:
    """Return the name of a score on the command line; None if it has none, or not with these settings."""
    if not states(score, "option"):
        return None
    usual: Any = from_option(type(score))
    scale = getattr(score, "scale", None)
    return score.option if score == (usual if scale is None else usual.with_scale(scale)) else None


def smallest_spread(prediction: Prediction) -> float:
    """Return the smallest spread of all rows; -inf if the prediction has none, inf if it has no rows."""
    return -np.inf if prediction.spread is None else float(prediction.spread.min(initial=np.inf))


def needs_scale(nonconformity: Nonconformity) -> bool:
    """Return whether a score has an epsilon or floor, but no scale yet."""
    if isinstance(nonconformity, Mapping):
        return any(needs_scale(score) for score in nonconformity.values())
    return bool(getattr(nonconformity, "needs_scale", False))


def with_scale(nonconformity: Nonconformity, scale: float) -> Nonconformity:
    """Return the same score, or mapping of scores, with the scale set where it is missing."""
    if isinstance(nonconformity, Mapping):
        return {label: score_with_scale(score, scale) for label, score in nonconformity.items()}
    return score_with_scale(nonconformity, scale)


def score_with_scale(score: Score, scale: float) -> Score:
    """Return the same score, with the scale set if it is missing."""
    return score.with_scale(scale) if needs_scale(score) else score  # type: ignore[attr-defined]


def checked_target(y: Any, prediction: Prediction) -> FloatArray:
    """Return the targets as an array. Raise ValueError unless there is one for each row of the prediction."""
    return checked_column(y, "y", like=prediction.center, length=len(prediction), matched="the prediction")  # type: ignore[no-any-return]
