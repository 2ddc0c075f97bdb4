"""Synthetic worlds, which know their own truth."""

from dataclasses import dataclass

import numpy as np

from evencover.inputs import FloatArray
from evencover.predictions import Prediction


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn from a world: features, targets, and the truth behind them.

    Parameters
    ----------
    X : ndarray of shape (n, features)
        Features.
    y : ndarray of shape (n,)
        Targets.
    mean, spread : ndarray of shape (n,)
        Conditional mean and standard deviation of each target.
    """

    X: FloatArray
    y: FloatArray
    mean: FloatArray
    spread: FloatArray

    def oracle(self) -> Prediction:
        """Return the prediction of a model that knows the truth."""
        return Prediction(self.mean, self.spread)


def heteroskedastic(n: int, *, seed: int = 0) -> Sample:
    """Return n rows whose noise grows tenfold along one feature.

    Three features, uniform on (0, 1); the target is normal with mean 3 sin(π x₀) + x₁ and standard deviation
    0.2 + 1.8 x₂².

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
        Seed; the same one gives the same rows.

    Examples
    --------
    >>> sample = heteroskedastic(1000, seed=0)
    >>> sample.X.shape, bool(np.all(sample.spread >= 0.2))
    ((1000, 3), True)
    """
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    mean = 3 * np.sin(np.pi * X[:, 0]) + X[:, 1]
    spread = 0.2 + 1.8 * X[:, 2] ** 2
    return Sample(X, mean + spread * rng.standard_normal(n), mean, spread)
