"""Scores from the model's own bounds: the distance to them, plain and in units of their width."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals
from evencover.predictions import Prediction
from evencover.scores.score import FloorSettings, checked_target, with_rounding_margin


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
        return self._formula(checked_target(y, prediction), prediction)

    def _formula(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        return np.maximum(*self.tails(y, prediction))

    def tails(self, y: FloatArray, prediction: Prediction) -> tuple[FloatArray, FloatArray]:
        """Return ``lower − y`` and ``y − upper``. Shape (n,) each."""
        lower, upper = _bounds(self, prediction)
        return lower - y, y - upper

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[lower − threshold, upper + threshold]``."""
        lower, upper = _bounds(self, prediction)
        return Intervals(lower - with_rounding_margin(threshold, lower), upper + with_rounding_margin(threshold, upper))


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

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``max(lower − y, y − upper) / (upper − lower)``. Shape (n,)."""
        return self._formula(checked_target(y, prediction), prediction)

    def _formula(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        return np.maximum(*self.tails(y, prediction))

    def tails(self, y: FloatArray, prediction: Prediction) -> tuple[FloatArray, FloatArray]:
        """Return ``lower − y`` and ``y − upper`` in units of the width. Shape (n,) each."""
        lower, upper = _bounds(self, prediction)
        width = self._width(lower, upper)
        return (lower - y) / width, (y - upper) / width

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``[lower − threshold × width, upper + threshold × width]``."""
        lower, upper = _bounds(self, prediction)
        distance = threshold * self._width(lower, upper)
        return Intervals(lower - with_rounding_margin(distance, lower), upper + with_rounding_margin(distance, upper))

    def _width(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        width = upper - lower
        return np.maximum(width, self.checked_floor(width, type(self).__name__, "width of the bounds"))


def _bounds(score: Any, prediction: Prediction) -> tuple[FloatArray, FloatArray]:
    """Return the model's own bounds; raise ValueError if there are none."""
    name = type(score).__name__
    return prediction.required("lower", by=name), prediction.required("upper", by=name)
