"""Models of folds and of bootstrap samples, and what they predict for the rows that they were not fitted on."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.parallel import Parallel, delayed

from evencover._internal.arrays import FloatArray, IntArray
from evencover._internal.frames import take
from evencover._internal.worker_processes import end_with_parent
from evencover.models._row_splits import Splits
from evencover.models._validation import fitted_clone, parts_of_arguments
from evencover.models.predict import predictions_of
from evencover.predictions import ALL_PARTS, Prediction, averaged


class FoldEnsemble(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fitted models of the same kind as one: it predicts the mean of their predictions.

    Parameters
    ----------
    estimators : list of fitted regressors
        The models.
    """

    def __init__(self, estimators: list[Any]) -> None:
        self.estimators = estimators

    def predict(self, X: Any) -> FloatArray:
        """Return the mean prediction. Shape (n,)."""
        return np.asarray(np.mean([np.ravel(each.predict(X)) for each in self.estimators], axis=0))

    def predict_full(self, X: Any) -> Prediction:
        """Return the mean of each part of the predictions."""
        return mean_prediction(self.fold_predictions(X))

    def fold_predictions(self, X: Any) -> tuple[Prediction, ...]:
        """Return the prediction of each model."""
        return tuple(predictions_of(each, X) for each in self.estimators)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def mean_prediction(predictions: Sequence[Prediction]) -> Prediction:
    """Return the mean center, spread and bounds, without quantiles, of the predictions of several models."""
    return averaged(predictions, lambda values: values.mean(axis=0), ALL_PARTS[:-1])


def fit_folds(
    estimator: Any, X: Any, y: FloatArray, splits: Splits, fit_params: Mapping[str, Any], n_jobs: int | None
) -> tuple[list[Any], list[Prediction]]:
    """Return a model for each split, and what it predicts for its test rows; fitted in parallel with `n_jobs`."""
    tasks = (
        delayed(_fit_fold)(estimator, X, y, training, test, fit_params, os.getpid())
        for training, test in zip(splits.training, splits.test, strict=True)
    )
    n_jobs = min(effective_n_jobs(n_jobs), len(splits))  # a process without a task would not watch its parent
    models, predictions = zip(*Parallel(n_jobs=n_jobs)(tasks), strict=True)
    return list(models), list(predictions)


def _fit_fold(
    estimator: Any,
    X: Any,
    y: FloatArray,
    training: IntArray,
    test: IntArray,
    fit_params: Mapping[str, Any],
    caller: int,
) -> tuple[Any, Prediction]:
    """Return the model of one split, and its prediction for the test rows; `caller` is the process that asked."""
    end_with_parent(caller)
    fitted = fitted_clone(estimator, take(X, training), y[training], parts_of_arguments(fit_params, len(y), training))
    return fitted, predictions_of(fitted, take(X, test))


def out_of_fold_predictions(
    estimator: Any, X: Any, y: FloatArray, splitter: Any, clusters: Any, fit_params: Mapping[str, Any]
) -> tuple[FloatArray, IntArray]:
    """Return what clones predict for the rows that they were not fitted on, and the fold of each row. Shape (n,)."""
    n = len(y)
    predicted, folds, times_predicted = np.empty(n), np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    for fold, (training, held_out) in enumerate(splitter.split(X, y, clusters)):
        params = parts_of_arguments(fit_params, n, training)
        fitted = fitted_clone(estimator, take(X, training), y[training], params)
        predicted[held_out] = np.ravel(fitted.predict(take(X, held_out)))
        folds[held_out] = fold
        times_predicted[held_out] += 1
    if not np.all(times_predicted == 1):
        raise ValueError(f"cv must have each row in the test part of exactly one fold; got {splitter!r}")
    return predicted, folds
