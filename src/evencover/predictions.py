"""What a model says about each row."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from evencover.inputs import FloatArray, checked_vector, row_selection
from evencover.intervals import Intervals
from evencover.quantiles import level_fraction


class Prediction:
    """A model's word on each row: a center and, where the model knows them, a spread and two bounds.

    Given a spread alone, the bounds are center ± z spread with z the normal quantile of the prediction's own
    level; given bounds alone, the spread is (upper − lower) / 2z. What cannot be known stays None, and a score or
    taxonomy that needs it says so. Bounds that cross are put in order here, and counted in `crossings`.

    Parameters
    ----------
    center : array-like of shape (n,)
        Predicted target: a mean, a median, whatever the model aims at.
    spread : array-like of shape (n,), optional
        Any measure of difficulty in the target's unit, such as a standard deviation. Scores that divide by it
        refuse zero and negative values.
    lower, upper : array-like of shape (n,), optional
        The model's own bounds, before any calibration. They go together.
    level : float
        Nominal coverage of the model's own bounds.

    Attributes
    ----------
    crossings : int
        Number of rows whose bounds came in the wrong order.

    Examples
    --------
    >>> prediction = Prediction([1.0, 2.0], spread=[0.5, 1.0], level=0.9)
    >>> prediction.lower.round(3), prediction.upper.round(3)
    (array([0.178, 0.355]), array([1.822, 3.645]))
    """

    center: FloatArray
    level: float
    crossings: int

    def __init__(
        self, center: Any, spread: Any = None, lower: Any = None, upper: Any = None, *, level: float = 0.9
    ) -> None:
        if (lower is None) != (upper is None):
            raise ValueError("lower and upper go together; got only one of them")
        self.center = checked_vector(center, "center")
        self.level = float(level_fraction(level))
        self._spread = None if spread is None else checked_vector(spread, "spread", length=len(self.center))
        self._bounds, self.crossings = None, 0
        if lower is not None:
            self._bounds, self.crossings = _in_order(lower, upper, len(self.center))

    @classmethod
    def from_quantiles(cls, lower: Any, upper: Any, center: Any = None, *, level: float = 0.9) -> "Prediction":
        """Return the prediction of a quantile model; its center is the middle of the bounds unless given.

        Parameters
        ----------
        lower, upper : array-like of shape (n,)
            Predicted (1 − level) / 2 and (1 + level) / 2 quantiles.
        center : array-like of shape (n,), optional
            Predicted median or mean.
        level : float
            Nominal coverage between the two quantiles.

        Examples
        --------
        >>> Prediction.from_quantiles([0.0], [3.29], level=0.9).spread.round(3)
        array([1.])
        """
        if center is None:
            lower = checked_vector(lower, "lower")
            center = (lower + checked_vector(upper, "upper", length=len(lower))) / 2
        return cls(center, lower=lower, upper=upper, level=level)

    @cached_property
    def spread(self) -> FloatArray | None:
        """The difficulty of each row, shape (n,), or None."""
        if self._spread is not None or self._bounds is None:
            return self._spread
        lower, upper = self._bounds
        return (upper - lower) / (2 * self._z)

    @cached_property
    def lower(self) -> FloatArray | None:
        """The model's own lower bound, shape (n,), or None."""
        return self._bound(0, -1)

    @cached_property
    def upper(self) -> FloatArray | None:
        """The model's own upper bound, shape (n,), or None."""
        return self._bound(1, +1)

    def interval(self) -> Intervals:
        """Return the model's own interval, before any calibration: the baseline."""
        return Intervals(
            self.required("lower", by="a baseline interval"),
            self.required("upper", by="a baseline interval"),
            level=self.level,
        )

    def required(self, part: str, *, by: str) -> FloatArray:
        """Return a part of the prediction, or say who needs it and how to come by it."""
        values: FloatArray | None = getattr(self, part)
        if values is None:
            raise ValueError(
                f"{by} needs a prediction with {part}, and this one has a center only. From arrays: "
                "Prediction(center, spread) or Prediction.from_quantiles(lower, upper). From models: one with "
                "predict_full, or evencover.models.FromStd or FromQuantiles around yours"
            )
        return values

    def _bound(self, side: int, sign: int) -> FloatArray | None:
        """Return the given bound, else the normal one, else None."""
        if self._bounds is not None:
            return self._bounds[side]
        return None if self._spread is None else self.center + sign * self._z * self._spread

    @property
    def _z(self) -> float:
        return float(ndtri((1 + self.level) / 2))

    def __len__(self) -> int:
        return len(self.center)

    def __getitem__(self, rows: Any) -> "Prediction":
        """Return the prediction for some rows, given by a slice, a mask, positions or one position."""
        rows = row_selection(rows)
        spread = None if self._spread is None else self._spread[rows]
        lower, upper = (None, None) if self._bounds is None else (bound[rows] for bound in self._bounds)
        return Prediction(self.center[rows], spread, lower, upper, level=self.level)

    def __repr__(self) -> str:
        known = [part for part in ("center", "spread", "lower", "upper") if getattr(self, part) is not None]
        crossings = f", {self.crossings} crossings put in order" if self.crossings else ""
        return f"Prediction({len(self)} rows of {', '.join(known)}; level={self.level}{crossings})"


def as_prediction(prediction: Any) -> Prediction:
    """Return a prediction as it is, an array as the center of one."""
    return prediction if isinstance(prediction, Prediction) else Prediction(prediction)


def _in_order(lower: Any, upper: Any, length: int) -> tuple[tuple[FloatArray, FloatArray], int]:
    """Return the bounds with the smaller first, and how many rows had them crossed."""
    lower = checked_vector(lower, "lower", length=length)
    upper = checked_vector(upper, "upper", length=length)
    crossings = int(np.count_nonzero(lower > upper))
    if crossings:
        lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)
    return (lower, upper), crossings
