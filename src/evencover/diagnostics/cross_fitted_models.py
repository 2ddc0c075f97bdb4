"""Out-of-fold predictions of a model, on which `recommend` compares scores and groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from evencover.inputs import Progress
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.frames import take
from evencover.models.auto import AutoRegressor
from evencover.models.encoding import TableEncoder
from evencover.models.estimators import cloned, fitted_clone, is_frozen, out_of_fold_prediction, predictions_of
from evencover.models.folds import checked_splitter
from evencover.models.spread import WithSpread
from evencover.predictions import Prediction
from evencover.rows import Rows

FOLDS = 5


@dataclass(frozen=True, eq=False)
class CrossFittedModel:
    """A model and its out-of-fold predictions.

    Parameters
    ----------
    estimator : regressor
        The model, with a spread, not fitted.
    rows : Rows
        Training rows with the predictions of models that were fitted without them.
    on_all_rows : fitted regressor, optional
        The model fitted on all rows, if that was done on the way.
    """

    estimator: Any
    rows: Rows
    on_all_rows: Any = None

    def fitted(self, X: Any, y: FloatArray) -> Any:
        """Return the model fitted on all rows."""
        return fitted_clone(self.estimator, X, y) if self.on_all_rows is None else self.on_all_rows


def cross_fitted_model(
    estimator: Any, X: Any, y: FloatArray, clusters: IntArray | None, seed: int, progress: Progress
) -> CrossFittedModel:
    """Return a model with its out-of-fold predictions, and with `WithSpread` if it predicts no spread.

    An `AutoRegressor` has out-of-fold predictions when it is fitted; other models are fitted on five folds.

    Parameters
    ----------
    estimator : regressor
        The model.
    X, y : table and ndarray of n rows
        Training rows.
    clusters : ndarray of shape (n,), optional
        Rows with the same number are in the same fold.
    seed : int
        Seed of the folds.
    progress : callable
        Called with the number of finished fits and the number of all fits.
    """
    if is_auto_regressor(estimator):
        fitted = fitted_with_progress(estimator, X, y, clusters, progress)
        prediction, chosen = out_of_fold_prediction(fitted)
        whole = isinstance(chosen, slice)
        rows = Rows(prediction, X if whole else take(X, chosen), y[chosen])
        return CrossFittedModel(estimator, rows, fitted)
    n_units = len(y) if clusters is None else len(np.unique(clusters))
    splitter = checked_splitter(FOLDS, n_units, seed, clustered=clusters is not None)
    folds = list(splitter.split(np.arange(len(y)), groups=clusters))
    estimator, prediction = _out_of_fold(estimator, X, y, folds, seed, lambda done: progress(done, len(folds)))
    return CrossFittedModel(estimator, Rows(prediction, X, y))


def is_auto_regressor(estimator: Any) -> bool:
    """Return whether an estimator is an `AutoRegressor`, also in a pipeline or fitted to a transformed target."""
    return isinstance(_innermost(estimator), AutoRegressor)


def _innermost(estimator: Any) -> Any:
    """Return the regressor at the end of a pipeline, or that is fitted to a transformed target."""
    if isinstance(estimator, Pipeline):
        return _innermost(estimator[-1])
    if isinstance(estimator, TransformedTargetRegressor):
        return _innermost(estimator.regressor)
    return estimator


def fitted_with_progress(estimator: Any, X: Any, y: FloatArray, clusters: IntArray | None, progress: Progress) -> Any:
    """Return a fitted clone; an `AutoRegressor` has each cluster in one fold, and reports its progress.

    The encoder of its table, if it has one, also keeps the rows of a cluster together.
    """
    if not is_auto_regressor(estimator):
        return fitted_clone(estimator, X, y)
    steps = estimator.steps if isinstance(estimator, Pipeline) else []
    encoders = {name: step for name, step in steps if isinstance(step, TableEncoder)}
    if get_config()["enable_metadata_routing"]:
        estimator = cloned(estimator)
        _innermost(estimator).set_fit_request(clusters=True, progress=True)
        for name in encoders:
            estimator.named_steps[name].set_fit_request(clusters=True)
        return fitted_clone(estimator, X, y, {"clusters": clusters, "progress": progress})
    last = f"{steps[-1][0]}__" if steps else ""
    of_encoders = {f"{name}__clusters": clusters for name in encoders}
    return fitted_clone(estimator, X, y, {f"{last}clusters": clusters, f"{last}progress": progress, **of_encoders})


def _out_of_fold(
    estimator: Any,
    X: Any,
    y: FloatArray,
    folds: Sequence[tuple[IntArray, IntArray]],
    seed: int,
    report_progress: Callable[[int], None],
) -> tuple[Any, Prediction]:
    """Return the estimator, with a spread model if it had none, and its out-of-fold predictions."""
    parts, positions = [], []
    for done, (training, held_out) in enumerate(folds):
        report_progress(done)
        part = _fold_prediction(estimator, X, y, training, held_out)
        if part.spread is None:
            estimator = with_spread_model(estimator, seed)
            part = _fold_prediction(estimator, X, y, training, held_out)
        parts.append(part)
        positions.append(held_out)
    report_progress(len(folds))
    return estimator, Prediction.concatenate(parts)[np.argsort(np.concatenate(positions))]


def with_spread_model(estimator: Any, seed: int) -> Any:
    """Return the estimator with `WithSpread` around its regressor."""
    if isinstance(estimator, TransformedTargetRegressor):
        return cloned(estimator).set_params(
            regressor=with_spread_model(estimator.regressor or LinearRegression(), seed)
        )
    if isinstance(estimator, Pipeline) and isinstance(estimator[-1], TransformedTargetRegressor):
        return wrapped(estimator, lambda regressor: with_spread_model(regressor, seed))
    return wrapped(estimator, lambda regressor: WithSpread(regressor, random_state=seed))


def wrapped(estimator: Any, wrapper: Callable[[Any], Any]) -> Any:
    """Return a wrapper around the estimator, or around the last step of a pipeline, unless it is frozen."""
    if not isinstance(estimator, Pipeline) or is_frozen(estimator):
        return wrapper(estimator)
    name, last = estimator.steps[-1]
    return cloned(estimator).set_params(**{name: wrapper(last)})


def _fold_prediction(estimator: Any, X: Any, y: FloatArray, training: Any, held_out: Any) -> Prediction:
    return predictions_of(fitted_clone(estimator, take(X, training), y[training]), take(X, held_out))
