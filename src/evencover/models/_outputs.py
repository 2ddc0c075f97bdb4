"""From the numbers that a model learns to its prediction: standardised values, quantile levels, the smallest spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from evencover.inputs.arrays import FloatArray, checked_vector, is_number
from evencover.predictions import Prediction
from evencover.quantile_functions import interpolated
from evencover.quantiles import level_fraction

_SMALLEST_SQUARED, _LARGEST_SQUARED = 1e-140, 1e140


@dataclass(frozen=True, eq=False)
class Scaling:
    """Means and standard deviations on the training rows; a constant column has scale 1."""

    X_mean: FloatArray  # (features,)
    X_scale: FloatArray  # (features,)
    y_mean: float
    y_scale: float

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray) -> "Scaling":
        """Return the scaling that gives these rows mean 0 and standard deviation 1."""
        (X_mean, X_scale), (y_mean, y_scale) = mean_and_scale(X), mean_and_scale(y[:, None])
        return cls(X_mean, X_scale, float(y_mean[0]), float(y_scale[0]))

    def features(self, X: FloatArray) -> FloatArray:
        """Return standardised features."""
        return (X - self.X_mean) / self.X_scale

    def target(self, y: FloatArray) -> FloatArray:
        """Return standardised targets."""
        return (y - self.y_mean) / self.y_scale

    def to_target(self, values: Any) -> FloatArray:
        """Return standardised values in units of the target."""
        return np.asarray(values * self.y_scale + self.y_mean)


def mean_and_scale(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of each column; 1 for a column that is constant up to rounding."""
    unit = _units(columns)
    columns = columns if np.all(unit == 1) else columns / unit
    mean = columns.mean(axis=0)
    scale = (columns - mean).std(axis=0)  # of centered values: no cancellation if the mean is large
    constant = scale <= 4 * np.finfo(np.float64).eps * np.abs(mean)
    mean = np.where(constant & (unit != 1), columns[0], mean)
    return mean * unit, np.where(constant, 1.0, scale * unit)


def _units(columns: FloatArray) -> FloatArray:
    """Return 1 for each column or, if squares of its entries could overflow or vanish, a power of 2 of their size."""
    largest = np.abs(columns).max(axis=0, initial=0)
    ordinary = (largest == 0) | ((largest > _SMALLEST_SQUARED) & (largest < _LARGEST_SQUARED))
    return np.asarray(np.where(ordinary, 1.0, np.exp2(np.floor(np.log2(np.where(ordinary, 1.0, largest))))))


def relative_floor(spread: Any, y: FloatArray, fraction: float = 1e-3) -> float:
    """Return a fraction of the median spread on the training rows; if that is zero, of the size of the target.

    The floor is relative, so it scales with the unit of the target.
    """
    if (median := float(np.median(spread))) > 0:
        return fraction * median
    unit = float(_units(y[:, None])[0])
    sizes = (unit * float(np.std(y / unit)), float(np.mean(np.abs(y))), 1.0)
    return fraction * next(size for size in sizes if size > 0)


Center = Literal["median", "mean"]

# The probabilities at which models predict the quantiles of a distribution.
DEFAULT_PROBABILITIES = (0.01, 0.025, *(k / 20 for k in range(1, 20)), 0.975, 0.99)

_ROUNDING_MARGIN = 1e-9  # np.linspace(0.05, 0.95, 19) has 0.49999999999999994, which means the median


@dataclass(frozen=True)
class QuantilePlan:
    """The quantile levels of a model: its bounds, the median unless the center is the mean, and additional ones.

    The last two fields have defaults, because plans in files of version 3 have none of them.
    """

    own_level: float
    bounds: tuple[float, float]
    levels: tuple[float, ...]  # bounds and all others, sorted and distinct
    center: Center
    grid: tuple[float, ...] = ()  # default probabilities that the training rows can show
    non_crossing: bool = False  # whether the quantiles are in order by construction

    @classmethod
    def of(cls, level: float, softening: float, quantiles: Sequence[float], center: Center) -> "QuantilePlan":
        """Return the plan for the arguments of a constructor; raise ValueError if one is invalid."""
        if center not in ("median", "mean"):
            raise ValueError(f'center must be "median" or "mean"; got {center!r}')
        own = _softened_level(level, softening)
        bounds = float((1 - own) / 2), float((1 + own) / 2)
        others = checked_vector(quantiles, "quantiles").tolist()
        if not all(0 < quantile < 1 for quantile in others):
            raise ValueError(f"quantiles must lie strictly between 0 and 1; got {quantiles!r}")
        median = [0.5] if center == "median" else []
        return cls(float(own), bounds, _merged([*bounds, *median], others), center)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The levels of all quantiles that the model computes, sorted and distinct."""
        return _merged(self.levels, self.grid)

    def prediction(self, quantiles: FloatArray, mean: FloatArray | None, floor: float) -> Prediction:
        """Return the prediction for quantiles of shape (n, probabilities), with no spread below the floor.

        The quantiles are sorted in each row. Quantiles that crossed are passed on crossed, so that `Prediction` counts
        them.
        """
        at = self.probabilities
        columns = [at.index(bound) for bound in self.bounds]
        crossed = np.greater(*quantiles[:, columns].T)
        ordered = np.sort(quantiles, axis=1)
        lower, upper = np.where(crossed, ordered[:, columns[::-1]].T, ordered[:, columns].T)
        center = ordered[:, at.index(0.5)] if mean is None else mean
        from_bounds = Prediction.from_quantiles(lower, upper, center, level=self.own_level)
        spread = np.maximum(from_bounds.required("spread", by="a quantile model"), floor)
        if self.grid:
            at, quantiles = _merged(self.levels, DEFAULT_PROBABILITIES), on_default_grid(quantiles, at, self.levels)
        return Prediction(center, spread, lower, upper, quantiles=quantiles, probabilities=at, level=self.own_level)


def estimable_probabilities(n: int) -> tuple[float, ...]:
    """Return the default probabilities from 1 / (n + 1) to n / (n + 1), which n values can show; it may be empty."""
    return tuple(p for p in DEFAULT_PROBABILITIES if round((n + 1) * min(p, 1 - p), 9) >= 1)


def on_default_grid(quantiles: FloatArray, at: Sequence[float], levels: Sequence[float] = ()) -> FloatArray:
    """Return quantiles at the default probabilities and further levels. Shape (n, probabilities).

    Quantiles that are not among the given ones, at the probabilities `at`, are those of `Prediction.ppf`: beyond the
    outermost ones they are in normal tails. So models of few rows predict quantiles at the same probabilities.
    """
    function = interpolated(quantiles, np.array(at), None)
    known = dict(zip(at, quantiles.T, strict=True))
    probabilities = _merged(levels, DEFAULT_PROBABILITIES)
    return np.column_stack([known[p] if p in known else function.values(float(ndtri(p))) for p in probabilities])


def _merged(levels: Sequence[float], others: Sequence[float]) -> tuple[float, ...]:
    """Return all levels, sorted; one that differs only by rounding from another is left out."""
    merged = sorted({*levels})
    for level in others:
        if all(abs(level - each) > _ROUNDING_MARGIN for each in merged):
            merged.append(level)
    return tuple(sorted(merged))


def _softened_level(level: float, softening: float) -> Any:
    """Return the level 1 − softening · (1 − level), at which the bounds are trained."""
    alpha = 1 - level_fraction(level)
    if not (is_number(softening) and 0 < softening * alpha < 1):
        raise ValueError(f"softening must satisfy 0 < softening * (1 - level) < 1; got {softening!r} at level {level}")
    return 1 - level_fraction(float(softening * alpha))
