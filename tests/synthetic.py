"""Synthetic data that the tests share, and models that are right or fitted at once."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor

from evencover import (
    Bounded,
    IntervalDistance,
    Normalized,
    OneSided,
    Prediction,
    ProbabilityDistance,
    RelativeIntervalDistance,
    Residual,
    Standardized,
)
from evencover.models import predictions_of

ALL_SCORES = [
    Residual(),
    IntervalDistance(),
    Normalized(),
    Normalized(epsilon=0.3, floor=0.5, scale=1.0),
    Standardized(),
    RelativeIntervalDistance(),
    RelativeIntervalDistance(floor=0.5, scale=1.0),
    ProbabilityDistance(),
    OneSided(IntervalDistance()),
    OneSided(Normalized(floor=0.5, scale=1.0), side="lower"),
]
SUPPORTS = [{"y_min": 0}, {"y_max": 10.5}, {"whole": True}, {"y_min": -3, "y_max": 20, "whole": True}]
BOUNDED_SCORES = [
    *(Bounded(score, **SUPPORTS[i % 4]) for i, score in enumerate(ALL_SCORES)),
    *(Bounded(score, **support) for score in (IntervalDistance(), ProbabilityDistance()) for support in SUPPORTS),
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


def mirrored(prediction):
    """Return the prediction of −y: center, bounds and quantiles are negated, bounds and quantiles also reversed."""
    known, parts = prediction.known_parts, {"center": -prediction.center}
    if "spread" in known:
        parts |= {"spread": prediction.spread}
    if "bounds" in known:
        parts |= {"lower": -prediction.upper, "upper": -prediction.lower}
    if "quantiles" in known:
        parts |= {"quantiles": -prediction.quantiles[:, ::-1], "probabilities": 1 - prediction.probabilities[::-1]}
    return Prediction(**parts)


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


class TwoLines(RegressorMixin, BaseEstimator):
    """A center and a spread that are linear in the first feature: a model that is fitted at once."""

    def fit(self, X, y):
        x = np.asarray(X)[:, 0]
        self.center_ = np.polyfit(x, y, 1)
        self.spread_ = np.polyfit(x, np.abs(y - np.polyval(self.center_, x)), 1)
        return self

    def predict(self, X):
        return np.polyval(self.center_, np.asarray(X)[:, 0])

    def predict_full(self, X):
        spread = np.maximum(np.polyval(self.spread_, np.asarray(X)[:, 0]), 0.01)
        return Prediction(self.predict(X), spread=spread)


def on_target_scale(prediction, transformer):
    """Return what a model of transformed targets predicts, if its regressor predicts this on their scale."""
    model = TransformedTargetRegressor()
    model.regressor_, model.transformer_ = SimpleNamespace(predict_full=lambda _: prediction), transformer
    return predictions_of(model, np.zeros((len(prediction), 1)))
