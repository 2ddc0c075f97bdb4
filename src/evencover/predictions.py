"""What a model predicts for each row: center, spread, bounds and quantiles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evencover.arithmetic import Arithmetic, arithmetic_of
from evencover.inputs.arrays import (
    BoolArray,
    FloatArray,
    checked_for_each_row,
    is_on_device,
    on_host,
    row_selection,
    selected_rows,
)
from evencover.inputs.device_arrays import check_not_negative, checked_column, joined_rows, namespace
from evencover.inputs.frames import check_same_index
from evencover.intervals import Intervals
from evencover.quantile_functions import (
    QuantileFunction,
    checked_probabilities,
    checked_quantiles,
    interpolated,
    medians,
    normal_cdf,
    normal_quantile,
)
from evencover.quantiles import level_fraction


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Prediction:
    """A model's prediction for each row: a center, and if available a spread, two bounds and quantiles.

    What is not given follows from the rest, if possible:

    - From quantiles: the center is the median, the bounds are the quantiles at (1 ± level) / 2.
    - From a spread alone: the bounds are center ± z × spread, where z is the normal quantile of (1 + level) / 2.
    - From bounds: the spread is (upper − lower) / 2z.

    Otherwise it is None, and a score or taxonomy that needs it raises an error. Bounds and quantiles in the wrong order
    are put in order, and counted in `crossings`. Arrays are not copied: do not change them afterwards. Arrays of torch,
    CuPy or JAX stay what and where they are, such as on a GPU; quantiles are arrays of numpy.

    The prediction of a model that was fitted to transformed targets is in the unit of the target, and has the
    transform as its `scale`. Scores are then computed on that scale, and their intervals are mapped back.

    `cdf` and `ppf` are those of a distribution through the quantiles. Its quantile function is linear in the normal
    score z = Φ⁻¹(p) between them. Beyond the outermost ones it continues as a straight line, so each tail is that of a
    normal distribution. The slope of a tail is the mean slope between the median and the outermost quantile, and at
    least 1 % of the spread. Without quantiles, two bounds are two quantiles, and a spread alone is the standard
    deviation of a normal distribution.

    Parameters
    ----------
    center : array-like of shape (n,)
        Predicted target, such as a mean or a median. Optional if there are quantiles.
    spread : array-like of shape (n,), optional
        A measure of noise in the unit of the target, such as a standard deviation. Scores that divide by it raise an
        error for zero and negative values.
    lower, upper : array-like of shape (n,), optional
        The model's own bounds, before calibration. Give both or neither.
    quantiles : array-like of shape (n, Q), optional
        Predicted quantiles, two or more for each row.
    probabilities : array-like of shape (Q,), optional
        The probabilities of the quantiles, strictly increasing, between 0 and 1.
    level : float
        Nominal coverage of the model's own bounds.

    Examples
    --------
    >>> prediction = Prediction([1.0, 2.0], spread=[0.5, 1.0], level=0.9)
    >>> prediction.lower.round(3), prediction.upper.round(3)
    (array([0.178, 0.355]), array([1.822, 3.645]))
    >>> skewed = Prediction(quantiles=[[0.0, 1.0, 4.0]], probabilities=[0.1, 0.5, 0.9])
    >>> skewed.center, skewed.ppf([0.25, 0.75]).round(2), skewed.cdf([2.0]).round(2)
    (array([1.]), array([[0.47, 2.58]]), array([0.67]))
    """

    center: FloatArray
    level: float
    probabilities: FloatArray | None
    _quantiles: FloatArray | None
    _standardized: FloatArray | None  # shape (1, Q): the quantiles are center + spread × these; computed when needed
    _spread: FloatArray | None
    _bounds: tuple[FloatArray, FloatArray] | None
    _crossed: BoolArray | None  # None without bounds and quantiles
    scale: Any  # TargetScale: the scale that the model was fitted on, if it is not that of the target; else None

    def __init__(
        self,
        center: Any = None,
        spread: Any = None,
        lower: Any = None,
        upper: Any = None,
        *,
        quantiles: Any = None,
        probabilities: Any = None,
        level: float = 0.9,
    ) -> None:
        given = {"center": center, "spread": spread, "lower": lower, "upper": upper, "quantiles": quantiles}
        check_same_index(given)
        if (lower is None) != (upper is None):
            raise ValueError("lower and upper must be given together; got only one of them")
        ordered, at, crossed = checked_quantiles(quantiles, probabilities)
        if center is None:
            if ordered is None or at is None:
                raise ValueError("center must be given if there are no quantiles; got neither")
            center = medians(ordered, at)
        center = checked_column(center, "center")
        if ordered is not None and is_on_device(center):
            kind = type(center).__name__
            raise TypeError(f"quantiles need a center that is an array of numpy; got one on a device, of type {kind}")
        if ordered is not None and len(ordered) != len(center):
            raise ValueError(f"quantiles must have {len(center)} rows, as many as center; got {len(ordered)}")
        bounds = None if lower is None else (_like_center(lower, "lower", center), _like_center(upper, "upper", center))
        if bounds is not None:
            crossed = bounds[0] > bounds[1] if crossed is None else crossed | (bounds[0] > bounds[1])
        vars(self).update(
            center=center,
            level=float(level_fraction(level)),
            probabilities=at,
            _quantiles=ordered,
            _standardized=None,
            _spread=None if spread is None else _like_center(spread, "spread", center),
            _bounds=None
            if bounds is None
            else (namespace(center).minimum(*bounds), namespace(center).maximum(*bounds)),
            _crossed=crossed,
            scale=None,
        )

    @classmethod
    def from_quantiles(cls, lower: Any, upper: Any, center: Any = None, *, level: float = 0.9) -> "Prediction":
        """Return the prediction of a model of two quantiles; by default the center is the midpoint of the two bounds.

        For more quantiles, use ``Prediction(quantiles=..., probabilities=...)``.

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
        check_same_index({"lower": lower, "upper": upper, "center": center})
        if center is None:
            lower = checked_column(lower, "lower")
            center = (lower + checked_column(upper, "upper", like=lower, length=lower.shape[0], matched="lower")) / 2
        return cls(center, lower=lower, upper=upper, level=level)

    @classmethod
    def from_standardized(
        cls, center: FloatArray, spread: FloatArray, quantiles: FloatArray, probabilities: FloatArray, level: float
    ) -> "Prediction":
        """Return the prediction whose quantiles are center + spread × standardised quantiles of shape (Q,).

        They are computed when they are used, because n rows of Q quantiles take Q / 2 times the memory of the rest.
        """
        result = cls(center, spread, level=level)
        check_not_negative(result.required("spread", by="a distribution"))
        standardized, at, _ = checked_quantiles(quantiles[None], probabilities)
        vars(result).update(_standardized=standardized, probabilities=at, _crossed=np.zeros(len(result), dtype=bool))
        return result

    @classmethod
    def concatenate(cls, parts: Sequence["Prediction"]) -> "Prediction":
        """Return several predictions as one, in their order. All must have the same level, parts and probabilities."""
        first, *others = parts
        for other in others:
            for name in ("level", "known_parts", "probabilities"):
                expected, found = getattr(first, name), getattr(other, name)
                if not np.array_equal(expected, found):
                    raise ValueError(f"predictions must have the same {name}; got {expected} and {found}")
        attribute = {"_quantiles": "quantiles"}  # computed where they are standardised
        joined = first._with_arrays(lambda name: joined_rows([getattr(p, attribute.get(name, name)) for p in parts]))
        vars(joined).update(_standardized=None)
        return joined

    @property
    def crossings(self) -> int:
        """Number of rows whose bounds or quantiles were given in the wrong order."""
        return 0 if self._crossed is None else int(namespace(self._crossed).count_nonzero(self._crossed))

    @property
    def known_parts(self) -> tuple[str, ...]:
        """The parts that were given: center, and spread, bounds, quantiles if there are any."""
        given = {"spread": self._spread, "bounds": self._bounds, "quantiles": self.probabilities}
        return ("center", *(name for name, values in given.items() if values is not None))

    @property
    def scored(self) -> "Prediction":
        """The prediction that scores are computed from: on the scale that the model was fitted on."""
        return self if self.scale is None else self.scale.prediction

    @property
    def arithmetic(self) -> Arithmetic:
        """The functions of formulas for these arrays."""
        return arithmetic_of(self.center)

    def on_host(self) -> "Prediction":
        """Return the prediction with arrays of numpy."""
        if not is_on_device(self.center):
            return self
        return Prediction(
            *(on_host(each) for each in (self.center, self._spread, *(self._bounds or (None, None)))), level=self.level
        )

    @cached_property
    def quantiles(self) -> FloatArray | None:
        """The predicted quantiles of each row, shape (n, Q), or None."""
        if self._standardized is None or self._spread is None:
            return self._quantiles
        return self.center[:, None] + self._spread[:, None] * self._standardized

    @cached_property
    def spread(self) -> FloatArray | None:
        """The predicted spread of each row, shape (n,), or None."""
        if self._spread is not None or len(self.known_parts) == 1:
            return self._spread
        lower, upper = self._bound(0, -1), self._bound(1, +1)
        return (upper - lower) / (2 * self._z)  # type: ignore[operator]

    @cached_property
    def lower(self) -> FloatArray | None:
        """The model's own lower bound, shape (n,), or None."""
        return self._bound(0, -1)

    @cached_property
    def upper(self) -> FloatArray | None:
        """The model's own upper bound, shape (n,), or None."""
        return self._bound(1, +1)

    def interval(self, level: float | None = None) -> Intervals:
        """Return the model's own interval, before calibration: the baseline.

        Parameters
        ----------
        level : float, optional
            Nominal coverage; by default that of the prediction's bounds. At another level the bounds are the quantiles
            at (1 ± level) / 2.
        """
        if level is not None and (own := float(level_fraction(level))) != self.level:
            lower, upper = (self._quantile(sign * normal_quantile((1 + own) / 2)) for sign in (-1, 1))
            return Intervals(lower, upper, level=own, prediction=self.center)
        return Intervals(
            self.required("lower", by="the model's own interval"),
            self.required("upper", by="the model's own interval"),
            level=self.level,
            prediction=self.center,
        )

    def cdf(self, y: Any) -> FloatArray:
        """Return the predicted probability of a target of at most `y`: a number, or one for each row. Shape (n,)."""
        target = checked_for_each_row(y, "y", length=len(self), matched="the prediction")
        if self.scale is not None:
            return self.scale.cdf(target)  # type: ignore[no-any-return]
        return np.asarray(normal_cdf(self.quantile_function().normal_scores(target)[1]))

    def ppf(self, p: Any) -> FloatArray:
        """Return the predicted quantile at a probability, shape (n,), or at each of P probabilities, shape (n, P)."""
        probabilities = checked_probabilities(np.atleast_1d(p), "p")
        table = np.stack([self._quantile(z) for z in normal_quantile(probabilities)], axis=-1)
        return table if np.ndim(p) else table[:, 0]

    def _quantile(self, z: float) -> FloatArray:
        """Return the quantile of each row at a normal score, in the unit of the target. Shape (n,)."""
        values = self.scored.quantile_function().values(z)
        return values if self.scale is None else self.scale.inverse(values)

    def quantile_function(self, smallest_spread: float = 0.0) -> QuantileFunction:
        """Return the quantile function of each row, on the scale of normal scores.

        `smallest_spread` is a lower limit of the spread, for rows whose quantiles are all equal.
        """
        if is_on_device(self.center):
            raise ValueError("a predicted distribution needs arrays of numpy; use prediction.on_host()")
        spread = np.maximum(self.required("spread", by="a distribution"), smallest_spread)
        if self.known_parts == ("center", "spread"):
            check_not_negative(spread)
            return QuantileFunction.straight_lines(self.center, spread)
        if self.quantiles is not None and self.probabilities is not None:
            return interpolated(self.quantiles, self.probabilities, spread)
        bounds = np.stack(
            [self.required("lower", by="a distribution"), self.required("upper", by="a distribution")], -1
        )
        return interpolated(bounds, np.array([(1 - self.level) / 2, (1 + self.level) / 2]), spread)

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
        """Return the given bound, else a quantile, else the bound of a normal distribution, else None."""
        if self._bounds is not None:
            return self._bounds[side]
        if self._standardized is not None and self._spread is not None and self.probabilities is not None:
            function = interpolated(self._standardized, self.probabilities, np.ones(1))
            return self.center + self._spread * function.values(sign * self._z)
        if self.quantiles is not None and self.probabilities is not None:
            return interpolated(self.quantiles, self.probabilities, self._spread).values(sign * self._z)
        if self._spread is None:
            return None
        check_not_negative(self._spread)
        return self.center + sign * self._z * self._spread

    @property
    def _z(self) -> float:
        return float(normal_quantile((1 + self.level) / 2))

    def __len__(self) -> int:
        return int(self.center.shape[0])

    def __getitem__(self, rows: Any) -> "Prediction":
        """Return the prediction for some rows, selected by a slice, a mask, positions or one position."""
        selection = row_selection(rows)
        return self._with_arrays(lambda name: selected_rows(vars(self)[name], selection))

    def reduced(self, names: Sequence[str], scale: Any = None) -> "Prediction":
        """Return the prediction with its center and only those of spread, lower and upper that are named."""
        parts = {name: getattr(self, name) for name in names}
        bounds = None if parts.get("lower") is None else (parts["lower"], parts["upper"])
        arrays = {"center": self.center, "_spread": parts.get("spread"), "_bounds": bounds, "scale": scale}
        other = self._with_arrays(arrays.get)
        vars(other).update(probabilities=None, _standardized=None)
        return other

    def _with_arrays(self, arrays: Callable[[str], Any]) -> "Prediction":
        """Return a prediction with other arrays of rows, given by name; they were checked before."""
        other = object.__new__(Prediction)
        vars(other).update({name: arrays(name) for name in _ROW_ARRAYS})
        vars(other).update(level=self.level, probabilities=self.probabilities, _standardized=self._standardized)
        return other

    def __repr__(self) -> str:
        parts = "center, spread, lower, upper" if len(self.known_parts) > 1 else "center"
        quantiles = "" if self.probabilities is None else f", {len(self.probabilities)} quantiles"
        crossings = f", {self.crossings} crossing rows put in order" if self.crossings else ""
        return f"Prediction({len(self)} rows of {parts}{quantiles}; level={self.level}{crossings})"


ALL_PARTS = ("center", "spread", "lower", "upper", "quantiles")
_ROW_ARRAYS = ("center", "_quantiles", "_spread", "_bounds", "_crossed", "scale")


def as_prediction(prediction: Any) -> Prediction:
    """Return a prediction unchanged, and an array as the center of a prediction."""
    return prediction if isinstance(prediction, Prediction) else Prediction(prediction)


def _like_center(values: Any, name: str, center: FloatArray) -> FloatArray:
    """Return an array. Raise ValueError unless it has as many rows as the center."""
    return checked_column(values, name, like=center, length=center.shape[0], matched="center")  # type: ignore[no-any-return]


def averaged(
    parts: Sequence[Prediction], average: Callable[[FloatArray], FloatArray], names: Sequence[str] = ALL_PARTS
) -> Prediction:
    """Return averages of the predictions of several models for the same rows, in the unit of the target.

    Parameters
    ----------
    parts : sequence of B Predictions of n rows
        The predictions of the models, which all have the same parts.
    average : callable
        Returns averages over the models, from an array of shape (B, n) or (B, n, Q).
    names : sequence of str
        The parts that are averaged; all by default.
    """
    first = parts[0]

    def of(name: str) -> FloatArray | None:
        if name not in names or getattr(first, name) is None:
            return None
        return average(np.stack([getattr(part, name) for part in parts]))

    quantiles = of("quantiles")
    return Prediction(
        of("center"),
        of("spread"),
        of("lower"),
        of("upper"),
        quantiles=quantiles,
        probabilities=None if quantiles is None else first.probabilities,
        level=first.level,
    )
