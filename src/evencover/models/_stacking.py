"""A weighted stack of regressors, and a weighted mixture of distributions of its residuals, both chosen out of fold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import nnls

from evencover._internal.arrays import FloatArray, IntArray
from evencover.intervals import Intervals
from evencover.metrics import interval_scores
from evencover.models._residual_distributions import Done, ResidualDistribution
from evencover.models._validation import fitted_clone
from evencover.quantiles import conformal_quantile

_SMALLEST_WEIGHT = 0.02  # regressors with less weight are left out
_MAX_STEPS = 1000  # of the least squares; the default is three for each regressor
N_PARTS = 3  # of the rows, for cross-fitted distributions: each part costs one more fit
_LARGEST_SCORE = 1.2  # interval score of a distribution with weight, relative to the best one
_SMALLEST_WIDTH = 1e-3  # of bounds, as a fraction of the median width


@dataclass(frozen=True, eq=False)
class Stack:
    """Fitted regressors with weights of sum 1."""

    members: Mapping[str, Any]
    weights: FloatArray

    def described(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the center of rows, and their features with center and disagreement as further columns."""
        return described(rows, np.column_stack([each.predict(rows) for each in self.members.values()]), self.weights)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Fitted distributions of residuals with weights of sum 1; their quantiles are averaged."""

    distributions: tuple[ResidualDistribution, ...]
    weights: FloatArray

    def quantiles(self, features: FloatArray) -> FloatArray:
        """Return the quantiles of the residuals of new rows. Shape (n, Q)."""
        return weighted_sum(self.weights, [each.quantiles(features) for each in self.distributions])


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What regressors predict for n rows that they were not fitted on.

    Parameters
    ----------
    predictions : ndarray of shape (n, members)
        The predictions of each regressor.
    folds : ndarray of shape (n,)
        The fold of each row.
    errors : ndarray of shape (members,)
        Root mean squared errors.
    weights : ndarray of shape (members,)
        Weights of sum 1; zero for regressors that are left out.
    """

    predictions: FloatArray
    folds: IntArray
    errors: FloatArray
    weights: FloatArray

    def described(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the center of the rows, and their features with center and disagreement as further columns."""
        return described(rows, self.predictions, self.weights)


def described(rows: FloatArray, predictions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean of predictions of shape (n, members), and the features with two more columns.

    These are the mean, and the disagreement: the weighted standard deviation of the predictions.
    """
    center = predictions @ weights
    disagreement = np.sqrt((predictions - center[:, None]) ** 2 @ weights)
    return center, np.column_stack([rows, center, disagreement])


def out_of_fold(
    members: Mapping[str, Any], rows: FloatArray, y: FloatArray, splitter: Any, clusters: Any, done: Done
) -> OutOfFold:
    """Return the out-of-fold predictions of regressors, and the weights of their combination."""
    predictions, folds = np.empty((len(y), len(members))), np.zeros(len(y), dtype=np.intp)
    for fold, (training, held_out) in enumerate(splitter.split(rows, y, clusters)):
        folds[held_out] = fold
        for column, member in enumerate(members.values()):
            predictions[held_out, column] = fitted_clone(member, rows[training], y[training]).predict(rows[held_out])
            done()
    errors = np.sqrt(np.mean((predictions - y[:, None]) ** 2, axis=0))
    return OutOfFold(predictions, folds, errors, stacking_weights(predictions, y))


def stacking_weights(predictions: FloatArray, y: FloatArray) -> FloatArray:
    """Return weights of sum 1, none negative, that minimise the squared error of the weighted mean prediction.

    With errors E of shape (n, members), they minimise ‖E w‖ among all w of sum 1. Non-negative least squares minimises
    ‖E w‖² + c² (1 − sum(w))², without the condition. For each value of the sum, the best direction of w is the same, so
    its minimum divided by its sum is the answer for any c > 0. Regressors with a small weight are left out.
    """
    errors = predictions - y[:, None]
    c = float(np.linalg.norm(errors)) or 1.0
    rows = np.vstack([errors, np.full(errors.shape[1], c)])
    weights, _ = nnls(rows, np.append(np.zeros(len(y)), c), maxiter=_MAX_STEPS)
    weights = np.where(weights < _SMALLEST_WEIGHT * weights.sum(), 0.0, weights)
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class ChosenMixture:
    """A fitted mixture, and the out-of-fold results that it was chosen by.

    Parameters
    ----------
    mixture : Mixture
        The distributions, fitted to all rows, with their weights.
    quantiles : ndarray of shape (n, Q)
        The quantiles of the mixture, out of fold.
    interval_scores : ndarray of shape (distributions,)
        The interval score of each distribution alone, out of fold after calibration.
    weights : ndarray of shape (distributions,)
        The weights of all distributions.
    interval_score : float
        The interval score of the mixture.
    """

    mixture: Mixture
    quantiles: FloatArray
    interval_scores: FloatArray
    weights: FloatArray
    interval_score: float


def choose_mixture(
    distributions: Mapping[str, ResidualDistribution],
    features: FloatArray,
    residuals: FloatArray,
    folds: IntArray,
    bounds: Sequence[int],
    level: float,
    done: Done,
) -> ChosenMixture:
    """Fit the distributions, and weight them by their interval scores out of fold after calibration.

    Parameters
    ----------
    distributions : mapping from str to ResidualDistribution
        The distributions, not yet fitted.
    features, residuals : ndarrays of n rows
        Features with center and disagreement, and residuals, both out of fold.
    folds : ndarray of shape (n,)
        The fold of each row.
    bounds : two ints
        The columns of the quantiles that are bounds of the level.
    level : float
        Nominal coverage of the comparison.
    done : callable
        Called after each fit.
    """
    found = [each.fit_cross_fitted(features, residuals, folds % N_PARTS, done) for each in distributions.values()]

    def score_of(weights: FloatArray) -> float:
        lower, upper = weighted_sum(weights, [each[:, list(bounds)] for each in found]).T
        return conformal_interval_score(lower, upper, residuals, level)

    scores = np.array([score_of(each) for each in np.eye(len(found))])
    weights = cautious_weights(scores, score_of)
    used = [each for each, weight in zip(distributions.values(), weights, strict=True) if weight]
    mixture = Mixture(tuple(used), weights[weights > 0])
    return ChosenMixture(mixture, weighted_sum(weights, found), scores, weights, score_of(weights))


def cautious_weights(scores: FloatArray, score_of: Callable[[FloatArray], float]) -> FloatArray:
    """Return weights of distributions, halfway between equal weights of the best subset and equal weights of all.

    The subset that is the best on the training rows may be so by chance. With half of the weight for all of them, a bad
    choice costs half as much. Distributions that are much worse than the best one are left out of both.

    Parameters
    ----------
    scores : ndarray of shape (distributions,)
        The interval score of each distribution alone.
    score_of : callable
        From weights to the interval score of the mixture.
    """
    good = scores <= _LARGEST_SCORE * scores.min()
    subsets = (np.array(each) for each in product((1.0, 0.0), repeat=len(scores)))
    candidates = [each / each.sum() for each in subsets if each.any() and good[each > 0].all()]
    return np.asarray((min(candidates, key=score_of) + good / good.sum()) / 2)


def conformal_interval_score(lower: FloatArray, upper: FloatArray, y: FloatArray, level: float) -> float:
    """Return the mean interval score after calibration, which moves all bounds by the same share of their width."""
    width = upper - lower
    width = np.maximum(width, max(_SMALLEST_WIDTH * float(np.median(width)), np.finfo(float).tiny))
    scores = np.maximum(lower - y, y - upper) / width
    threshold = float(conformal_quantile(scores, level))
    moved = width * (threshold if np.isfinite(threshold) else scores.max())
    return float(interval_scores(y, Intervals(lower - moved, upper + moved), level).mean())


def weighted_sum(weights: FloatArray, arrays: list[FloatArray]) -> FloatArray:
    """Return the sum of arrays of the same shape, each times its weight."""
    total = np.zeros_like(arrays[0])
    for weight, array in zip(weights, arrays, strict=True):
        total += weight * array
    return total
