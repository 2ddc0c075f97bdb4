"""What estimators share before they fit or predict: checks of features and target, and metadata routing."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, column_or_1d, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from evencover._internal.arrays import FloatArray, IntArray, checked_vector
from evencover._internal.frames import n_rows, take

_ROWS_FOR_CHECK = 100


def check_regressor(estimator: Any, name: str) -> None:
    """Raise unless this is an instance of a regressor, with `fit` and `predict`."""
    if isinstance(estimator, type) or not all(hasattr(estimator, method) for method in ("fit", "predict")):
        raise TypeError(
            f"{name} must be a regressor with scikit-learn's methods fit and predict, such as Ridge(); got "
            f"{estimator!r}"
        )
    if is_classifier(estimator):
        raise TypeError(f"{name} must be a regressor; got the classifier {type(estimator).__name__}")


def remember_features(estimator: BaseEstimator, X: Any) -> None:
    """Set `n_features_in_` and `feature_names_in_`; the values of the features are left to the wrapped model."""
    validate_data(estimator, X, skip_check_array=True)


def check_ready(estimator: BaseEstimator, X: Any) -> None:
    """Raise unless the estimator is fitted, and X has the number and names of features that it was fitted on."""
    check_is_fitted(estimator)
    if hasattr(estimator, "n_features_in_") and getattr(X, "ndim", 2) != 2:
        raise ValueError(
            f"X must be two-dimensional, of shape (n, features); got shape {np.shape(X)}. Reshape your data with "
            "X.reshape(-1, 1) if it is one feature, with X.reshape(1, -1) if it is one row"
        )
    validate_data(estimator, X, reset=False, skip_check_array=True)


def checked_rows(estimator: BaseEstimator, X: Any) -> FloatArray:
    """Return new rows as numbers, shape (n, features), for an estimator fitted on such features."""
    check_is_fitted(estimator)
    rows: FloatArray = validate_data(estimator, X, reset=False, dtype=np.float64)
    return rows


def checked_target(estimator: BaseEstimator, X: Any, y: Any) -> FloatArray:
    """Return the targets as an array, one for each row of X."""
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    target = np.asarray(y)
    if target.ndim == 2 and target.shape[1] != 1:
        raise ValueError(
            f"y must be one target, of shape (n,); got shape {target.shape}. Fit one {name} for each target"
        )
    check_consistent_length(X, target)
    return checked_vector(column_or_1d(target, warn=True), "y")


def first_rows(X: Any) -> Any:
    """Return the first 100 rows, to check what a model predicts for them."""
    return take(X, np.arange(min(_ROWS_FOR_CHECK, n_rows(X))))


def fitted_copy(estimator: Any, X: Any, y: FloatArray, fit_params: Mapping[str, Any]) -> Any:
    """Return a fitted clone, or a frozen estimator unchanged.

    The `fit` of `FrozenEstimator` is not called: it checks for attributes of fitted scikit-learn models, which models
    of some libraries lack.
    """
    return estimator if isinstance(estimator, FrozenEstimator) else clone(estimator).fit(X, y, **fit_params)


def fit_router(owner: BaseEstimator, **estimators: Any) -> MetadataRouter:
    """Return the metadata routing of an estimator that passes the arguments of its `fit` to the `fit` of others."""
    fit_only = MethodMapping().add(caller="fit", callee="fit")
    return MetadataRouter(owner=owner).add_self_request(owner).add(**estimators, method_mapping=fit_only)


def with_inputs_of(estimator: Any, tags: Tags) -> Tags:
    """Return the tags, with those of the features that the wrapped estimator accepts."""
    tags.input_tags = get_tags(estimator).input_tags
    return tags


def part_of_argument(name: str, value: Any, n: int, rows: IntArray) -> Any:
    """Return the entries of a fit argument at these rows if it has an entry for each of the n rows, else all of it."""
    sized = hasattr(value, "__len__") and not isinstance(value, str | dict)
    shape = value.shape if hasattr(value, "shape") else (len(value),) if sized else ()
    if name == "sample_weight" and shape and shape[0] != n:
        raise ValueError(f"sample_weight must have {n} rows, as many as X; got {shape[0]}")
    return take(value, rows) if shape and shape[0] == n else value
