"""Out-of-fold predictions of a model, on which `recommend` compares scores and groups."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from evencover.inputs import Progress
from evencover.inputs.arrays import FloatArray
from evencover.inputs.frames import take
from evencover.models.auto import AutoRegressor
from evencover.models.estimators import (
    cloned,
    fitted_clone,
    is_frozen,
    out_of_fold_prediction,
    predictions_of,
    structure_params,
)
from evencover.models.folds import INDEPENDENT, RowStructure
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
    structure : RowStructure
        Which training rows belong together, or their times.
    on_all_rows : fitted regressor, optional
        The model fitted on all rows, if that was done on the way.
    """

    estimator: Any
    rows: Rows
    structure: RowStructure = INDEPENDENT
    on_all_rows: Any = None

    def fitted(self, X: Any, y: FloatArray) -> Any:
        """Return the model fitted on all rows."""
        return structured_fit(self.estimator, X, y, self.structure) if self.on_all_rows is None else self.on_all_rows


def cross_fitted_model(
    estimator: Any, X: Any, y: FloatArray, structure: RowStructure, seed: int, progress: Progress
) -> CrossFittedModel:
    """Return a model with its out-of-fold predictions, and with `WithSpread` if it predicts no spread.

    An `AutoRegressor` has out-of-fold predictions when it is fitted; other models are fitted on five folds.

    Parameters
    ----------
    estimator : regressor
        The model.
    X, y : table and ndarray of n rows
        Training rows.
    structure : RowStructure
        Which rows are in the same fold; or their times, if they are predicted from earlier rows.
    seed : int
        Seed of the folds.
    progress : callable
        Called with the number of finished fits and the number of all fits.
    """
    if is_auto_regressor(estimator):
        fitted = structured_fit(estimator, X, y, structure, progress)
        prediction, chosen = out_of_fold_prediction(fitted)
        whole = isinstance(chosen, slice)
        rows = Rows(prediction, X if whole else take(X, chosen), y[chosen])
        return CrossFittedModel(estimator, rows, structure, fitted)
    splitter, groups = structure.folds(FOLDS, len(y), seed)
    folds = list(splitter.split(np.arange(len(y)), groups=groups))
    parts, positions = [], []
    for done, (training, held_out) in enumerate(folds):
        progress(done, len(folds))
        own = take(X, training), y[training], structure.part(training)
        part = predictions_of(structured_fit(estimator, *own), take(X, held_out))
        if part.spread is None:
            estimator = with_spread_model(estimator, seed)
            part = predictions_of(structured_fit(estimator, *own), take(X, held_out))
        parts.append(part)
        positions.append(held_out)
    progress(len(folds), len(folds))
    order = np.argsort(np.concatenate(positions))
    chosen = np.concatenate(positions)[order]
    features, target = (X, y) if len(chosen) == len(y) else (take(X, chosen), y[chosen])
    return CrossFittedModel(estimator, Rows(Prediction.concatenate(parts)[order], features, target), structure)


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


def structured_fit(
    estimator: Any, X: Any, y: FloatArray, structure: RowStructure = INDEPENDENT, progress: Progress | None = None
) -> Any:
    """Return a fitted clone whose parts know which rows belong together, or their times; it may report its progress."""
    given = {"clusters": structure.clusters, "times": structure.times, "progress": progress}
    if not get_config()["enable_metadata_routing"]:
        return fitted_clone(estimator, X, y, structure_params(estimator, given))
    estimator, used = cloned(estimator), set()
    for step in [part for _, part in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]:
        inner = _innermost(step)
        if names := list(structure_params(inner, given)):
            inner.set_fit_request(**dict.fromkeys(names, True))
        used.update(names)
    return fitted_clone(estimator, X, y, {name: given[name] for name in used})


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
