"""The units models learn in, and the smallest spread they predict."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Scaling:
    """Means and standard deviations on the training rows; what does not vary is only centered."""

    X_mean: FloatArray  # (features,)
    X_scale: FloatArray  # (features,)
    y_mean: float
    y_scale: float

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray) -> "Scaling":
        """Return the units in which these rows have mean 0 and standard deviation 1."""
        (X_mean, X_scale), (y_mean, y_scale) = mean_and_scale(X), mean_and_scale(y[:, None])
        return cls(X_mean, X_scale, float(y_mean[0]), float(y_scale[0]))

    def features(self, X: FloatArray) -> FloatArray:
        """Return features in these units."""
        return (X - self.X_mean) / self.X_scale

    def target(self, y: FloatArray) -> FloatArray:
        """Return targets in these units."""
        return (y - self.y_mean) / self.y_scale

    def to_target(self, values: Any) -> FloatArray:
        """Return values in the target's own unit."""
        return np.asarray(values * self.y_scale + self.y_mean)


def mean_and_scale(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of each column; 1 for one whose values differ by rounding only."""
    mean = columns.mean(axis=0)
    scale = (columns - mean).std(axis=0)  # of centered values: nothing cancels where the mean is large
    return mean, np.where(scale > 4 * np.finfo(np.float64).eps * np.abs(mean), scale, 1.0)


def relative_floor(spread: Any, y: FloatArray, fraction: float = 1e-3) -> float:
    """Return a fraction of the median spread on training rows; of the target's own size where that is zero.

    Being relative it makes no difference to a target in other units.
    """
    sizes = (float(np.median(spread)), float(np.std(y)), float(np.mean(np.abs(y))), 1.0)
    return fraction * next(size for size in sizes if size > 0)
