"""How models predict: the fullest prediction that an estimator can give."""

from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from evencover._internal.arrays import FloatArray
from evencover._internal.target_scales import on_target_scale
from evencover.models._validation import dates_explained
from evencover.predictions import Prediction


class CenterMixin:
    """The method `predict` of models that have `predict_full`."""

    def predict(self, X: Any) -> FloatArray:
        """Return the center of the predictions: their mean or median. Shape (n,)."""
        center: FloatArray = self.predict_full(X).center  # type: ignore[attr-defined]
        return center


def predictions_of(estimator: Any, X: Any) -> Prediction:
    """Return the predictions of a fitted estimator, with spread and bounds if it has them.

    An estimator with ``predict_full(X)`` gives a full `Prediction`. An estimator with only ``predict(X)`` gives a
    center. The last step of a pipeline counts as the estimator, and so does the best one of a search such as
    `GridSearchCV`. The prediction of the regressor in a `TransformedTargetRegressor` is mapped back to the unit of the
    target: its center, its bounds and its quantiles.

    Parameters
    ----------
    estimator : fitted regressor
        Any with scikit-learn's interface.
    X : table of n rows
        Features.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> predictions_of(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]), [[2.0]])
    Prediction(1 rows of center; level=0.9)
    """
    if callable(getattr(estimator, "predict_full", None)):
        with dates_explained(estimator, X):
            prediction = estimator.predict_full(X)
        if not isinstance(prediction, Prediction):
            raise TypeError(
                f"{type(estimator).__name__}.predict_full must return a Prediction; got {type(prediction).__name__}"
            )
        return prediction
    if hasattr(estimator, "best_estimator_"):
        return predictions_of(estimator.best_estimator_, X)
    if isinstance(estimator, FrozenEstimator):
        return predictions_of(estimator.estimator, X)
    if isinstance(estimator, Pipeline):
        return predictions_of(estimator[-1], through_steps(estimator, X))
    if isinstance(estimator, TransformedTargetRegressor):
        training_target = getattr(estimator, "training_target_", None)
        return on_target_scale(predictions_of(estimator.regressor_, X), estimator.transformer_, training_target)
    with dates_explained(estimator, X):
        center = np.asarray(estimator.predict(X))
    return Prediction(center.ravel() if center.ndim == 2 and center.shape[1] == 1 else center)


def out_of_fold_prediction(estimator: Any) -> tuple[Prediction, Any]:
    """Return what a fitted `AutoRegressor` predicts for training rows out of fold, and which rows these are.

    It may be the last step of a pipeline, or the regressor of a `TransformedTargetRegressor`. The rows are positions,
    or a slice of all rows.
    """
    if isinstance(estimator, Pipeline):
        return out_of_fold_prediction(estimator[-1])
    if isinstance(estimator, TransformedTargetRegressor):
        prediction, rows = out_of_fold_prediction(estimator.regressor_)
        return on_target_scale(prediction, estimator.transformer_, estimator.training_target_), rows
    return estimator.out_of_fold_prediction_, estimator.choice_rows_


def median_spread(estimator: Any, X: Any) -> float:
    """Return the median predicted spread on these rows: the scale of the floor and epsilon of a score."""
    return float(np.median(predictions_of(estimator, X).scored.required("spread", by="the scale of a score")))


def through_steps(pipeline: Pipeline, X: Any) -> Any:
    """Return the features that the last step of a pipeline gets."""
    return pipeline[:-1].transform(X) if len(pipeline) > 1 else X


def unwrap(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the final estimator inside a pipeline or search, and the features that it gets; None stays None."""
    if hasattr(estimator, "best_estimator_"):
        return unwrap(estimator.best_estimator_, X)
    if isinstance(estimator, Pipeline):
        return unwrap(estimator[-1], None if X is None else through_steps(estimator, X))
    return estimator, X


def is_frozen(estimator: Any) -> bool:
    """Return whether `fit` leaves the estimator unchanged, so that it needs no training rows.

    True for scikit-learn's `FrozenEstimator`, and for a pipeline or an adapter whose parts are all frozen.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> is_frozen(FrozenEstimator(LinearRegression())), is_frozen(LinearRegression())
    (True, False)
    """
    if isinstance(estimator, FrozenEstimator):
        return True
    if isinstance(estimator, Pipeline):
        return all(step in (None, "passthrough") or is_frozen(step) for _, step in estimator.steps)
    parts = getattr(estimator, "wrapped_estimators", None)
    return parts is not None and all(is_frozen(part) for part in parts)
