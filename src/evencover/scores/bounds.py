"""Scores from the model's own bounds: the distance to them, plain and in units of their width."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals
from evencover.predictions import Prediction
from evencover.quantile_functions import QuantileFunction
from evencover.scores.score import FloorSettings, Symbols, checked_target, smallest_spread

_FLOOR = 0.01  # smallest width of the bounds that a score divides by, as a fraction of the median spread


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

    option: ClassVar[str] = "interval"
    prediction_parts: ClassVar[tuple[str, ...]] = ("center", "lower", "upper")
    tries_separate_tails: ClassVar[bool] = True

    @classmethod
    def for_prediction(cls, prediction: Prediction) -> Self | None:
        """Return the score if there are bounds, and no spread is negative."""
        return cls() if smallest_spread(prediction) >= 0 else None

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``max(lower − y, y − upper)``. Shape (n,)."""
        return self.formula(checked_target(y, prediction), prediction)  # type: ignore[no-any-return]

    def formula(self, y: Any, prediction: Any) -> Any:
        """Return ``max(lower − y, y − upper)``."""
        return prediction.arithmetic.maximum(*self.tails(y, prediction))

    def tails(self, y: Any, prediction: Any) -> tuple[Any, Any]:
        """Return ``lower − y`` and ``y − upper``. Shape (n,) each."""
        lower, upper = _bounds(self, prediction)
        return lower - y, y - upper

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[lower − threshold, upper + threshold]``."""
        return Intervals(*self.ends(threshold, prediction))

    def ends(self, threshold: Any, prediction: Any) -> tuple[Any, Any]:
        """Return ``lower − threshold`` and ``upper + threshold``."""
        return _beyond(*_bounds(self, prediction), threshold, prediction)

    def value_map(self, prediction: Prediction) -> QuantileFunction:
        """Return ``upper + threshold``."""
        return QuantileFunction.straight_lines(_bounds(self, prediction)[1])

    def symbolic_reach(self, symbols: Symbols) -> Any:
        """Return ``z × spread + threshold``."""
        return symbols.z * symbols.spread + symbols.threshold


@dataclass(frozen=True)
class RelativeIntervalDistance(FloorSettings):
    """Distance to the model's own bounds in units of their width, ``max(lower − y, y − upper) / (upper − lower)``.

    With quantile bounds it is the variant CQR-r of conformalized quantile regression. Calibration widens or narrows
    each interval by the same share of its own width, so the correction is large where the model predicts much noise. If
    the bounds are center ± c × spread, and the target is center + spread × noise with the same distribution of the
    noise in all rows, the score is a pivotal quantity. Thresholds below −1/2 give empty intervals.

    Parameters
    ----------
    floor : float
        Lower limit of the width, as a fraction of the scale. Without it, a width of zero is an error.
    scale : float, optional
        Unit of `floor`, fixed before calibration. `ConformalRegressor` uses the median spread of its training rows. For
        frozen models and plain arrays, give it yourself.

    References
    ----------
    Sesia and Candès (2020), A comparison of some conformal quantile regression methods.

    Examples
    --------
    >>> RelativeIntervalDistance()([1.0, 5.0], Prediction([2.0, 2.0], lower=[0.0, 0.0], upper=[4.0, 4.0]))
    array([-0.25,  0.25])
    """

    option: ClassVar[str] = "relative-interval"
    prediction_parts: ClassVar[tuple[str, ...]] = ("center", "lower", "upper")
    unitless: ClassVar[bool] = True
    description: ClassVar[str] = (
        "A score: the distance of the target from the model's own bounds, divided by the distance between these bounds."
    )

    @classmethod
    def from_option(cls) -> Self:
        """Return the score with a floor, because bounds of zero width are an error without it."""
        return cls(floor=_FLOOR)

    @classmethod
    def for_prediction(cls, prediction: Prediction) -> Self | None:
        """Return the score if the median spread is positive; with a spread alone, intervals are those of others."""
        if prediction.spread is None or not len(prediction) or prediction.known_parts == ("center", "spread"):
            return None
        scale = float(np.median(prediction.spread))
        return cls(floor=_FLOOR, scale=float(f"{scale:.3g}")) if scale > 0 else None

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``max(lower − y, y − upper) / (upper − lower)``. Shape (n,)."""
        return self.formula(checked_target(y, prediction), prediction)  # type: ignore[no-any-return]

    def formula(self, y: Any, prediction: Any) -> Any:
        """Return ``max(lower − y, y − upper) / (upper − lower)``."""
        return prediction.arithmetic.maximum(*self.tails(y, prediction))

    def tails(self, y: Any, prediction: Any) -> tuple[Any, Any]:
        """Return ``lower − y`` and ``y − upper`` in units of the width. Shape (n,) each."""
        lower, upper = _bounds(self, prediction)
        width = self._width(lower, upper, prediction)
        return (lower - y) / width, (y - upper) / width

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[lower − threshold × width, upper + threshold × width]``."""
        return Intervals(*self.ends(threshold, prediction))

    def ends(self, threshold: Any, prediction: Any) -> tuple[Any, Any]:
        """Return ``lower − threshold × width`` and ``upper + threshold × width``."""
        lower, upper = _bounds(self, prediction)
        return _beyond(lower, upper, threshold * self._width(lower, upper, prediction), prediction)

    def value_map(self, prediction: Prediction) -> QuantileFunction:
        """Return ``upper + threshold × width``."""
        lower, upper = _bounds(self, prediction)
        return QuantileFunction.straight_lines(upper, self._width(lower, upper, prediction))

    def symbolic_reach(self, symbols: Symbols) -> Any:
        """Return ``(z + 2z × threshold) × spread``."""
        return (symbols.z + 2 * symbols.z * symbols.threshold) * symbols.spread

    def _width(self, lower: Any, upper: Any, prediction: Any) -> Any:
        return self.divisor(upper - lower, prediction, "width of the bounds")


def _beyond(lower: Any, upper: Any, distance: Any, prediction: Any) -> tuple[Any, Any]:
    """Return the ends of the interval that reaches this far beyond two bounds, with a rounding margin."""
    widened = prediction.arithmetic.widened
    return lower - widened(distance, lower), upper + widened(distance, upper)


def _bounds(score: Any, prediction: Any) -> tuple[Any, Any]:
    """Return the model's own bounds; raise ValueError if there are none."""
    name = type(score).__name__
    return prediction.required("lower", by=name), prediction.required("upper", by=name)
