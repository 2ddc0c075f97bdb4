"""Standardisation of features and target, and the smallest spread that a model predicts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.inputs.arrays import FloatArray

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
