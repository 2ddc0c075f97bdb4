"""Estimators of any library: what they predict, and checks and copies of them."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_array, column_or_1d, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from evencover.inputs.arrays import (
    FloatArray,
    IntArray,
    as_floats,
    check_not_masked,
    checked_summable,
    got_text,
    plain_array,
)
from evencover.inputs.frames import check_same_index, date_columns, n_rows, take, text_columns
from evencover.predictions import Prediction
from evencover.scores.target_scales import on_target_scale

_ROWS_FOR_CHECK = 100
# Parts of the errors that numpy and the boosting libraries raise for a frame with dates.
_ERRORS_OF_DATES = ("promoted", "float() argument", "real number", "DataFrame.dtypes", "pandas dtypes")
_ERRORS_OF_TEXT = ("could not convert string", "Cannot convert", "DataFrame.dtypes", "pandas dtypes")
# Packages whose regressors cannot read dates: they fail, count nanoseconds, or crash with tables other than pandas.
_NUMBERS_ONLY = ("sklearn", "lightgbm", "xgboost", "catboost", "ngboost")


def _columns_problem(model: Any, found: str, columns: list[Any]) -> str:
    """Return the error message for columns that a model cannot read."""
    where = "column" if len(columns) == 1 else "columns"
    return (
        f"X must hold numbers for {type(model).__name__}; got {found} in {where} {', '.join(map(repr, columns))}. "
        "Encode them by a pipeline, such as make_pipeline(TableEncoder(), model) with TableEncoder of "
        "evencover.models, or leave these columns out"
    )


class DateColumnsError(TypeError):
    """A model that needs numbers got columns of dates or times."""

    def __init__(self, columns: list[Any], model: Any) -> None:
        super().__init__(_columns_problem(model, "dates or times", columns))


def check_regressor(estimator: Any, name: str) -> None:
    """Raise unless this is an instance of a regressor, with `fit` and `predict`."""
    if isinstance(estimator, type) or not all(_has_method(estimator, method) for method in ("fit", "predict")):
        raise TypeError(
            f"{name} must be a regressor with scikit-learn's methods fit and predict, such as Ridge(); got "
            f"{got_text(estimator)}"
        )
    if is_classifier(estimator):
        raise TypeError(f"{name} must be a regressor; got the classifier {type(estimator).__name__}")


def _has_method(estimator: Any, method: str) -> bool:
    """Return whether an estimator has a method, or will have it once it is fitted, as a `StackingRegressor`."""
    return hasattr(estimator, method) or (hasattr(type(estimator), method) and is_regressor(estimator))


def remember_features(estimator: BaseEstimator, X: Any) -> None:
    """Set `n_features_in_` and `feature_names_in_`; the values of the features are left to the wrapped model."""
    check_not_masked(X, "X")
    validate_data(estimator, X, skip_check_array=True)


def check_ready(estimator: BaseEstimator, X: Any) -> None:
    """Raise unless the estimator is fitted, and X has the number and names of features that it was fitted on."""
    check_is_fitted(estimator)
    check_not_masked(X, "X")
    if hasattr(estimator, "n_features_in_") and getattr(X, "ndim", 2) != 2:
        raise ValueError(
            f"X must be two-dimensional, of shape (n, features); got shape {np.shape(X)}. Reshape your data with "
            "X.reshape(-1, 1) if it is one feature, with X.reshape(1, -1) if it is one row"
        )
    validate_data(estimator, X, reset=False, skip_check_array=True)


def checked_rows(estimator: BaseEstimator, X: Any) -> FloatArray:
    """Return new rows as numbers, shape (n, features), for an estimator fitted on such features."""
    check_is_fitted(estimator)
    check_not_masked(X, "X")
    check_no_dates(estimator, X)
    with columns_explained(estimator, X):
        rows: FloatArray = validate_data(estimator, X, reset=False, dtype=np.float64)
    return rows


def checked_features(estimator: BaseEstimator, X: Any) -> FloatArray:
    """Return the features of training rows as numbers, shape (n, features)."""
    check_not_masked(X, "X")
    check_no_dates(estimator, X)
    with columns_explained(estimator, X):
        rows: FloatArray = check_array(X, dtype=np.float64, estimator=estimator, input_name="X")
    return rows


def check_no_dates(estimator: Any, X: Any) -> None:
    """Raise if X has columns of dates or times: numpy would fail, or silently use a count of nanoseconds."""
    columns = date_columns(X)
    if columns:
        raise DateColumnsError(columns, estimator)


@contextmanager
def columns_explained(estimator: Any, X: Any) -> Iterator[None]:
    """Replace an error about dates or text, raised while the estimator reads X, by one that says what to do.

    Only the error itself shows that a model cannot read such columns: a pipeline may encode them.
    """
    try:
        yield
    except DateColumnsError:
        raise
    except (TypeError, ValueError) as error:
        if any(part in str(error) for part in _ERRORS_OF_DATES) and (columns := date_columns(X)):
            raise DateColumnsError(columns, estimator) from error
        if any(part in str(error) for part in _ERRORS_OF_TEXT):
            columns = text_columns(X, categories="dtypes" not in str(error))  # such a model may take categories
            if columns:
                raise ValueError(_columns_problem(estimator, "text", columns)) from error
        raise


def checked_target(estimator: BaseEstimator, X: Any, y: Any, /, **others: Any) -> FloatArray:
    """Return the targets as an array, one for each row of X.

    `others` are further arguments with an entry for each row, such as clusters: if they have an index, it must be the
    same as that of X and y.
    """
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    target = plain_array(y, "y")
    if target.ndim == 2 and target.shape[1] != 1:
        raise ValueError(
            f"y must be one target, of shape (n,); got shape {target.shape}. Fit one {name} for each target"
        )
    if target.dtype.kind == "c":
        raise ValueError(f"y must hold real numbers; Complex data not supported, got an array of dtype {target.dtype}")
    if target.ndim not in (1, 2):
        raise ValueError(f"y must be one-dimensional, of shape (n,); got shape {as_floats(y, 'y').shape}")
    check_not_masked(X, "X")
    check_consistent_length(X, target)
    check_same_index({"X": X, "y": y, **others})
    return checked_summable(column_or_1d(target, warn=True), "y")


def first_rows(X: Any) -> Any:
    """Return the first 100 rows, to check what a model predicts for them."""
    return take(X, np.arange(min(_ROWS_FOR_CHECK, n_rows(X))))


def fitted_copy(estimator: Any, X: Any, y: FloatArray, fit_params: Mapping[str, Any]) -> Any:
    """Return a fitted clone, or a frozen estimator unchanged.

    The `fit` of `FrozenEstimator` is not called: it checks for attributes of fitted scikit-learn models, which models
    of some libraries lack.
    """
    return estimator if isinstance(estimator, FrozenEstimator) else fitted_clone(estimator, X, y, fit_params)


def fitted_clone(estimator: Any, X: Any, y: FloatArray, fit_params: Mapping[str, Any] | None = None) -> Any:
    """Return a clone, fitted to these rows; raise if it cannot use a fit argument or a column of dates."""
    params = fit_params or {}
    unknown = [name for name in params if not _takes(estimator.fit, name)]
    if unknown:
        raise TypeError(
            f"fit arguments must be those of {type(estimator).__name__}.fit; got {', '.join(unknown)}, which it does "
            "not take. Leave this out, or use a model whose fit takes it"
        )
    if type(estimator).__module__.partition(".")[0] in _NUMBERS_ONLY and not _has_parts(estimator):
        check_no_dates(estimator, X)
    with columns_explained(estimator, X):
        fitted = cloned(estimator).fit(X, y, **params)
    _remember_target(fitted, y)
    return fitted


def _remember_target(fitted: Any, y: FloatArray) -> None:
    """Let a model of transformed targets know one of its targets, which tells 1 / y of positive from negative ones."""
    model = fitted[-1] if isinstance(fitted, Pipeline) else fitted
    if isinstance(model, TransformedTargetRegressor):
        model.training_target_ = float(y[0])


def cloned(value: Any) -> Any:
    """Return an unfitted copy of an estimator, also of one whose constructor copies its arguments.

    scikit-learn's `clone` raises an error if a parameter is not the very object that was passed. CatBoost copies lists,
    such as `cat_features`, so it is constructed again from equal parameters.
    """
    try:
        return clone(value, safe=False)
    except RuntimeError as error:
        return _constructed_again(value, error)


class CloneMixin:
    """For estimators that hold others: scikit-learn's `clone` copies the others as `cloned` does."""

    def __sklearn_clone__(self) -> Any:
        try:
            return super().__sklearn_clone__()  # type: ignore[misc]
        except RuntimeError as error:
            return _constructed_again(self, error)


def _constructed_again(value: Any, error: RuntimeError) -> Any:
    """Return a copy made from equal parameters. Raise the error of `clone` if a constructor changes one of them."""
    if isinstance(value, list | tuple):
        return type(value)(map(cloned, value))
    given = {name: cloned(each) for name, each in value.get_params(deep=False).items()}
    copy = type(value)(**given)
    kept = copy.get_params(deep=False)
    if any(kept[name] is not each and not np.array_equal(kept[name], each) for name, each in given.items()):
        raise error
    for name in ("_metadata_request", "_sklearn_output_config"):
        if name in vars(value):
            setattr(copy, name, deepcopy(vars(value)[name]))
    return copy


def structure_params(estimator: Any, structure: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fit arguments that tell an estimator, or steps of a pipeline, which rows belong together.

    Parameters
    ----------
    estimator : regressor
        Any. Only parts whose `fit` names an argument get it; the regressor of a transformed target counts as the part.
    structure : mapping from str to value
        Arguments such as the clusters or times of the rows; None is left out.
    """
    given = {name: value for name, value in structure.items() if value is not None}
    steps = estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
    return {
        f"{step}__{name}" if step else name: value
        for step, part in steps
        for name, value in given.items()
        if name in _fit_arguments(part)
    }


def _fit_arguments(estimator: Any) -> Collection[str]:
    """Return the names of the arguments of `fit`; of a transformed target's regressor, those of the regressor."""
    if isinstance(estimator, TransformedTargetRegressor):
        return _fit_arguments(estimator.regressor)
    return signature(estimator.fit).parameters if hasattr(estimator, "fit") else ()


def _takes(fit: Any, name: str) -> bool:
    """Return whether a `fit` has a parameter of this name, or takes any."""
    parameters = signature(fit).parameters
    return name in parameters or any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values())


def _has_parts(estimator: Any) -> bool:
    """Return whether an estimator is made of others, such as a pipeline, the first of which may encode dates."""
    return any(name in estimator.get_params(deep=False) for name in ("steps", "estimator", "regressor", "estimators"))


def fit_router(owner: BaseEstimator, **estimators: Any) -> MetadataRouter:
    """Return the metadata routing of an estimator that passes the arguments of its `fit` to the `fit` of others."""
    fit_only = MethodMapping().add(caller="fit", callee="fit")
    return MetadataRouter(owner=owner).add_self_request(owner).add(**estimators, method_mapping=fit_only)


def routed_params(owner: Any, fit_params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the fit arguments of a wrapped estimator: all or, with metadata routing, those that it requests."""
    if not fit_params or not get_config()["enable_metadata_routing"]:
        return fit_params
    params: Mapping[str, Any] = process_routing(owner, "fit", **fit_params)[name]["fit"]
    return params


def with_inputs_of(estimator: Any, tags: Tags) -> Tags:
    """Return the tags, with those of the features that the wrapped estimator accepts."""
    tags.input_tags = get_tags(estimator).input_tags
    return tags


def parts_of_arguments(fit_params: Mapping[str, Any], n: int, rows: IntArray) -> dict[str, Any]:
    """Return fit arguments for some of n rows: of those with an entry for each row, such as weights, these entries."""
    return {name: _part_of_argument(name, value, n, rows) for name, value in fit_params.items()}


def _part_of_argument(name: str, value: Any, n: int, rows: IntArray) -> Any:
    """Return the entries of a fit argument at these rows if it has an entry for each of the n rows, else all of it."""
    sized = hasattr(value, "__len__") and not isinstance(value, str | dict)
    shape = value.shape if hasattr(value, "shape") else (len(value),) if sized else ()
    if name == "sample_weight" and shape and shape[0] != n:
        raise ValueError(f"sample_weight must have {n} rows, as many as X; got {shape[0]}")
    check_not_masked(value, name)
    return take(value, rows) if shape and shape[0] == n else value


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
    check_not_masked(X, "X")
    if callable(getattr(estimator, "predict_full", None)):
        with columns_explained(estimator, X):
            prediction = estimator.predict_full(X)
        if not isinstance(prediction, Prediction):
            raise TypeError(
                f"{type(estimator).__name__}.predict_full must return a Prediction; got {type(prediction).__name__}"
            )
        return prediction.on_host()
    if isinstance(estimator, TransformedTargetRegressor):
        training_target = getattr(estimator, "training_target_", None)
        return on_target_scale(predictions_of(estimator.regressor_, X), estimator.transformer_, training_target)
    inner, features = unwrap(estimator, X)
    if inner is not estimator:
        return predictions_of(inner, features)
    with columns_explained(estimator, X):
        center = plain_array(estimator.predict(X), "the prediction")
    return Prediction(center.ravel() if center.ndim == 2 and center.shape[1] == 1 else center)


def out_of_fold_prediction(estimator: Any) -> tuple[Prediction, Any]:
    """Return what a fitted `AutoRegressor` predicts for training rows out of fold, and which rows these are.

    It may be the last step of a pipeline, or the regressor of a `TransformedTargetRegressor`. The rows are positions,
    or a slice of all rows.
    """
    model, _ = unwrap(estimator)
    if isinstance(model, TransformedTargetRegressor):
        prediction, rows = out_of_fold_prediction(model.regressor_)
        return on_target_scale(prediction, model.transformer_, model.training_target_), rows
    return model.out_of_fold_prediction_, model.choice_rows_


def median_spread(estimator: Any, X: Any) -> float:
    """Return the median predicted spread on these rows: the scale of the floor and epsilon of a score."""
    return float(np.median(predictions_of(estimator, X).scored.required("spread", by="the scale of a score")))


def unwrap(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the estimator that predicts in a search, a pipeline or a frozen estimator, and the features that it gets.

    Without features, these are None. An estimator that is none of these is returned itself.
    """
    if isinstance(estimator, FrozenEstimator):
        return unwrap(estimator.estimator, X)
    if hasattr(estimator, "best_estimator_"):
        return unwrap(estimator.best_estimator_, X)
    if isinstance(estimator, Pipeline):
        return unwrap(estimator[-1], X if X is None or len(estimator) == 1 else estimator[:-1].transform(X))
    return estimator, X


def layers(estimator: Any) -> Iterator[Any]:
    """Yield the models inside a fitted estimator that learn from each other, from the outside to the inside.

    These are what `unwrap` finds, and in it the regressor of a transformed target, or the model that a wrapper such as
    `WithSpread` has fitted as its `estimator_`.
    """
    while estimator is not None:
        model, _ = unwrap(estimator)
        yield model
        inside = "regressor_" if isinstance(model, TransformedTargetRegressor) else "estimator_"
        estimator = getattr(model, inside, None)


def fitted_models(regressor: Any) -> list[Any]:
    """Return the models of a fitted conformal regressor, that of each fold or the one, without `FrozenEstimator`."""
    models = getattr(regressor, "estimators_", None) or [regressor.estimator_]
    return [model.estimator if isinstance(model, FrozenEstimator) else model for model in models]


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
