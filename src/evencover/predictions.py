"""A model's predictions, and rows: predictions with features, targets and weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from evencover._internal.arrays import BoolArray, FloatArray, checked_nonnegative, checked_vector, row_selection
from evencover._internal.frames import n_rows, take
from evencover.intervals import Intervals
from evencover.quantiles import level_fraction


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Prediction:
    """A model's prediction for each row: a center, and if available a spread and two bounds.

    If only a spread is given, the bounds are center ± z × spread, where z is the normal quantile of the prediction's
    level. If only bounds are given, the spread is (upper − lower) / 2z. Without both, they are None, and a score or
    taxonomy that needs them raises an error. Bounds in the wrong order are swapped, and counted in `crossings`. Arrays
    are not copied: do not change them afterwards.

    Parameters
    ----------
    center : array-like of shape (n,)
        Predicted target, such as a mean or a median.
    spread : array-like of shape (n,), optional
        A measure of noise in the unit of the target, such as a standard deviation. Scores that divide by it raise an
        error for zero and negative values.
    lower, upper : array-like of shape (n,), optional
        The model's own bounds, before calibration. Give both or neither.
    level : float
        Nominal coverage of the model's own bounds.

    Examples
    --------
    >>> prediction = Prediction([1.0, 2.0], spread=[0.5, 1.0], level=0.9)
    >>> prediction.lower.round(3), prediction.upper.round(3)
    (array([0.178, 0.355]), array([1.822, 3.645]))
    """

    center: FloatArray
    level: float
    _spread: FloatArray | None
    _bounds: tuple[FloatArray, FloatArray] | None
    _crossed: BoolArray | None  # None without bounds

    def __init__(
        self, center: Any, spread: Any = None, lower: Any = None, upper: Any = None, *, level: float = 0.9
    ) -> None:
        if (lower is None) != (upper is None):
            raise ValueError("lower and upper must be given together; got only one of them")
        center = checked_vector(center, "center")
        bounds = None if lower is None else _checked_bounds(lower, upper, len(center))
        vars(self).update(
            center=center,
            level=float(level_fraction(level)),
            _spread=None if spread is None else _like_center(spread, "spread", len(center)),
            _bounds=None if bounds is None else (np.minimum(*bounds), np.maximum(*bounds)),
            _crossed=None if bounds is None else bounds[0] > bounds[1],
        )

    @classmethod
    def from_quantiles(cls, lower: Any, upper: Any, center: Any = None, *, level: float = 0.9) -> "Prediction":
        """Return the prediction of a quantile model; by default the center is the midpoint of the two bounds.

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
            center = (lower + checked_vector(upper, "upper", length=len(lower), matched="lower")) / 2
        return cls(center, lower=lower, upper=upper, level=level)

    @property
    def crossings(self) -> int:
        """Number of rows whose bounds were given in the wrong order."""
        return 0 if self._crossed is None else int(np.count_nonzero(self._crossed))

    @cached_property
    def spread(self) -> FloatArray | None:
        """The predicted spread of each row, shape (n,), or None."""
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
        """Return the model's own interval, before calibration: the baseline."""
        return Intervals(
            self.required("lower", by="the model's own interval"),
            self.required("upper", by="the model's own interval"),
            level=self.level,
            prediction=self.center,
        )

    def required(self, part: str, *, by: str) -> FloatArray:
        """Return a part of the prediction. Raise ValueError, with who needs it and how to get it, if it is missing."""
        values: FloatArray | None = getattr(self, part)
        if values is None:
            raise ValueError(
                f"{by} needs a prediction with {'a spread' if part == 'spread' else 'bounds (lower, upper)'}; this "
                "prediction has only a center. With arrays, use Prediction(center, spread) or "
                "Prediction.from_quantiles(lower, upper). With a model, use one that has the method predict_full, such "
                "as evencover.models.WithSpread(your_model)"
            )
        return values

    def _bound(self, side: int, sign: int) -> FloatArray | None:
        """Return the given bound, else the bound of a normal distribution, else None without a spread."""
        if self._bounds is not None:
            return self._bounds[side]
        if self._spread is None:
            return None
        if self._spread.size and self._spread.min() < 0:
            raise ValueError(
                f"spread must not be negative if bounds are derived from it; negative values: "
                f"{np.count_nonzero(self._spread < 0)} of {self._spread.size}"
            )
        return self.center + sign * self._z * self._spread

    @property
    def _z(self) -> float:
        return float(ndtri((1 + self.level) / 2))

    def __len__(self) -> int:
        return len(self.center)

    def __getitem__(self, rows: Any) -> "Prediction":
        """Return the prediction for some rows, selected by a slice, a mask, positions or one position."""
        rows = row_selection(rows)
        spread = None if self._spread is None else self._spread[rows]
        lower, upper = (None, None) if self._bounds is None else (bound[rows] for bound in self._bounds)
        selected = Prediction(self.center[rows], spread, lower, upper, level=self.level)
        vars(selected).update(_crossed=None if self._crossed is None else self._crossed[rows])
        return selected

    def __repr__(self) -> str:
        has_spread = self._spread is not None or self._bounds is not None
        parts = "center, spread, lower, upper" if has_spread else "center"
        crossings = f", {self.crossings} crossing bounds swapped" if self.crossings else ""
        return f"Prediction({len(self)} rows of {parts}; level={self.level}{crossings})"


def as_prediction(prediction: Any) -> Prediction:
    """Return a prediction unchanged, and an array as the center of a prediction."""
    return prediction if isinstance(prediction, Prediction) else Prediction(prediction)


def _checked_bounds(lower: Any, upper: Any, length: int) -> tuple[FloatArray, FloatArray]:
    """Return both bounds as arrays, in the given order, which may be wrong."""
    return _like_center(lower, "lower", length), _like_center(upper, "upper", length)


def _like_center(values: Any, name: str, length: int) -> FloatArray:
    """Return an array. Raise ValueError unless it has as many rows as the center."""
    return checked_vector(values, name, length=length, matched="center")


@dataclass(frozen=True, eq=False)
class Rows:
    """The input of calibrators and taxonomies: each row's prediction and, if available, features, target and weight.

    `ConformalRegressor.rows` makes them from features and predicts each row once. Intervals, p-values and groups are
    then computed from the rows without predicting again.

    Parameters
    ----------
    prediction : Prediction of n rows
        The model's predictions.
    X : table of n rows, optional
        The features, in the type that the user passed.
    y : ndarray of shape (n,), optional
        The targets.
    weights : ndarray of shape (n,), optional
        Weights for covariate shift, 0 or more.
    """

    prediction: Prediction
    X: Any = None
    y: FloatArray | None = None
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prediction", as_prediction(self.prediction))
        if self.X is not None and n_rows(self.X) != len(self):
            raise ValueError(f"X must have {len(self)} rows, as many as the prediction; got {n_rows(self.X)}")
        if self.y is not None:
            object.__setattr__(self, "y", checked_vector(self.y, "y", length=len(self), matched="the prediction"))
        if self.weights is not None:
            weights = checked_nonnegative(self.weights, "weights", length=len(self), matched="the prediction")
            object.__setattr__(self, "weights", weights)

    @classmethod
    def with_checked_target(cls, prediction: Prediction, X: Any, y: FloatArray | None, weights: Any = None) -> "Rows":
        """Return rows with targets that were already checked, without checking them again."""
        rows = cls(prediction, X, weights=weights)
        if y is not None and len(y) != len(rows):
            raise ValueError(f"y must have {len(rows)} rows, as many as the prediction; got {len(y)}")
        vars(rows).update(y=y)
        return rows

    def required_target(self, *, by: str) -> FloatArray:
        """Return the targets. Raise ValueError, with who needs them, if there are none."""
        if self.y is None:
            raise ValueError(f"{by} needs y, the targets; these rows have none")
        return self.y

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> "Rows":
        positions = np.arange(len(self))[row_selection(rows)]
        y, weights = (None if each is None else each[positions] for each in (self.y, self.weights))
        return Rows.with_checked_target(self.prediction[positions], take(self.X, positions), y, weights)

    def __repr__(self) -> str:
        parts = [part for part in ("prediction", "X", "y", "weights") if getattr(self, part) is not None]
        return f"Rows({len(self)} rows of {', '.join(parts)})"
