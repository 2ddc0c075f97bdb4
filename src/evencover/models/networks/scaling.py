"""The units networks learn in."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from evencover.inputs import FloatArray


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
        features, target = StandardScaler().fit(X), StandardScaler().fit(y[:, None])
        return cls(features.mean_, features.scale_, float(target.mean_[0]), float(target.scale_[0]))

    def features(self, X: FloatArray) -> FloatArray:
        """Return features in these units."""
        return (X - self.X_mean) / self.X_scale

    def target(self, y: FloatArray) -> FloatArray:
        """Return targets in these units."""
        return (y - self.y_mean) / self.y_scale

    def to_target(self, values: Any) -> FloatArray:
        """Return values in the target's own unit."""
        return np.asarray(values * self.y_scale + self.y_mean)
