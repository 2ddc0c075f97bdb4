"""Synthetic data that the tests share, and a model that predicts the true center and spread."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from evencover import IntervalDistance, Normalized, Prediction, Residual, Standardized

ALL_SCORES = [
    Residual(),
    IntervalDistance(),
    Normalized(),
    Normalized(epsilon=0.3, floor=0.5, scale=1.0),
    Standardized(),
]
ONE_IN_A_MILLION = 1e-6


@dataclass(frozen=True, eq=False)
class Draw:
    """Synthetic rows: the model's predictions, the features and the targets."""

    prediction: Prediction
    X: np.ndarray
    y: np.ndarray


def draw(rng, n, spread=None, feature=None):
    """Return n rows whose noise depends on the spread and on a binary feature, so every score depends on its group."""
    spread = np.exp(rng.uniform(-2.0, 2.0, n)) if spread is None else spread
    center = rng.normal(size=n)
    feature = rng.integers(0, 2, n) if feature is None else feature
    X = np.column_stack([feature, spread, center])
    noise = rng.normal(size=n) * (1 + X[:, 0])
    return Draw(Prediction(center, spread), X, center + spread * noise)


class Oracle(RegressorMixin, BaseEstimator):
    """A model for the data of `draw`: it reads the true center and spread from the features."""

    def fit(self, X, y):
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        return np.asarray(X)[:, 2]

    def predict_full(self, X):
        X = np.asarray(X)
        return Prediction(X[:, 2], X[:, 1])
