"""Scores from the residual: plain, and in units of the spread."""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals, Side
from evencover.predictions import Prediction
from evencover.quantile_functions import QuantileFunction
from evencover.scores.score import (
    FloorSettings,
    Symbols,
    check_settings,
    checked_target,
    smallest_spread,
)


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

    option: ClassVar[str] = "residual"
    prediction_parts: ClassVar[tuple[str, ...]] = ("center",)

    @classmethod
    def for_prediction(cls, _prediction: Prediction) -> Self:
        """Return the score: it can always be computed."""
        return cls()

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``|y − center|``. Shape (n,)."""
        return self.formula(checked_target(y, prediction), prediction)  # type: ignore[no-any-return]

    def formula(self, y: Any, prediction: Any) -> Any:
        """Return ``|y − center|``."""
        return abs(y - prediction.center)

    def tails(self, y: Any, prediction: Any) -> tuple[Any, Any]:
        """Return ``center − y`` and ``y − center``. Shape (n,) each."""
        above = y - prediction.center
        return -above, above

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[center − threshold, center + threshold]``."""
        return Intervals(*self.ends(threshold, prediction))

    def ends(self, threshold: Any, prediction: Any) -> tuple[Any, Any]:
        """Return ``center − threshold`` and ``center + threshold``."""
        return _around(prediction.center, prediction.arithmetic.widened(threshold, prediction.center))

    def value_map(self, prediction: Prediction) -> QuantileFunction:
        """Return ``center + threshold``."""
        return QuantileFunction.straight_lines(prediction.center)

    def symbolic_reach(self, symbols: Symbols) -> Any:
        """Return the threshold."""
        return symbols.threshold


@dataclass(frozen=True)
class _SpreadScaled(FloorSettings):
    """The settings of scores that divide by the spread, and the spread that they divide by."""

    epsilon: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        check_settings(self, "epsilon", "floor", "scale")

    @property
    def needs_scale(self) -> bool:
        """Whether there is an epsilon or floor, but no scale yet."""
        return self.scale is None and bool(self.epsilon or self.floor)

    def _divisor(self, prediction: Any) -> Any:
        """Return the spread with floor and epsilon applied. Raise ValueError unless it is positive."""
        return self.divisor(prediction.required("spread", by=type(self).__name__), prediction, "spread", self.epsilon)


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

    option: ClassVar[str] = "normalized"
    prediction_parts: ClassVar[tuple[str, ...]] = ("center", "spread")
    unitless: ClassVar[bool] = True
    tries_separate_tails: ClassVar[bool] = True

    @classmethod
    def for_prediction(cls, prediction: Prediction) -> Self | None:
        """Return the score if all spreads are positive."""
        return cls() if smallest_spread(prediction) > 0 else None

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``|y − center| / spread``. Shape (n,)."""
        return self.formula(checked_target(y, prediction), prediction)  # type: ignore[no-any-return]

    def formula(self, y: Any, prediction: Any) -> Any:
        """Return ``|y − center| / spread``."""
        return abs(y - prediction.center) / self._divisor(prediction)

    def tails(self, y: Any, prediction: Any) -> tuple[Any, Any]:
        """Return ``(center − y) / spread`` and ``(y − center) / spread``. Shape (n,) each."""
        above = (y - prediction.center) / self._divisor(prediction)
        return -above, above

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[center − threshold × spread, center + threshold × spread]``."""
        return Intervals(*self.ends(threshold, prediction))

    def ends(self, threshold: Any, prediction: Any) -> tuple[Any, Any]:
        """Return ``center − threshold × spread`` and ``center + threshold × spread``."""
        widened = prediction.arithmetic.widened(threshold * self._divisor(prediction), prediction.center)
        return _around(prediction.center, widened)

    def value_map(self, prediction: Prediction) -> QuantileFunction:
        """Return ``center + threshold × spread``."""
        return QuantileFunction.straight_lines(prediction.center, self._divisor(prediction))

    def symbolic_reach(self, symbols: Symbols) -> Any:
        """Return ``threshold × spread``."""
        return symbols.threshold * symbols.spread


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

    prediction_parts: ClassVar[tuple[str, ...]] = ("center", "spread")
    side: ClassVar[Side] = "upper"

    def two_sided(self) -> Normalized:
        """Return `Normalized` with the same settings."""
        return Normalized(**{each.name: getattr(self, each.name) for each in fields(self)})

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``(y − center) / spread``. Shape (n,)."""
        return self.formula(checked_target(y, prediction), prediction)  # type: ignore[no-any-return]

    def formula(self, y: Any, prediction: Any) -> Any:
        """Return ``(y − center) / spread``."""
        return (y - prediction.center) / self._divisor(prediction)

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``(−inf, center + threshold × spread]``."""
        return Intervals(*self.ends(threshold, prediction))

    def ends(self, threshold: Any, prediction: Any) -> tuple[Any, Any]:
        """Return −inf and ``center + threshold × spread``."""
        distance = threshold * self._divisor(prediction)
        upper = prediction.center + prediction.arithmetic.widened(distance, prediction.center)
        return prediction.arithmetic.infinite(-1, upper), upper

    def value_map(self, prediction: Prediction) -> QuantileFunction:
        """Return ``center + threshold × spread``."""
        return QuantileFunction.straight_lines(prediction.center, self._divisor(prediction))

    def symbolic_reach(self, symbols: Symbols) -> Any:
        """Return ``threshold × spread``."""
        return symbols.threshold * symbols.spread


def _around(center: Any, distance: Any) -> tuple[Any, Any]:
    """Return the ends of the interval at a distance from the center on both sides."""
    lower = center - distance
    distance += center  # in place, to save one large array
    return lower, distance
