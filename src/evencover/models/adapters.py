"""Adapters: regressors of other libraries, with their spreads and quantiles as full predictions."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import MetadataRouter

from evencover._internal.arrays import FloatArray, checked_nonnegative, warn_user
from evencover.models._validation import (
    CloneMixin,
    check_ready,
    check_regressor,
    checked_target,
    first_rows,
    fit_router,
    fitted_copy,
    remember_features,
    routed_params,
    with_inputs_of,
)
from evencover.models.predict import CenterMixin
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction

_QUANTILES = {2: ("lower", "upper"), 3: ("lower", "center", "upper")}  # by number of columns
_OUTPUTS = ("lower", "center", "upper", "spread", "variance")


class _AdapterMixin(CloneMixin, MetaEstimatorMixin, RegressorMixin):  # type: ignore[misc]
    """What the adapters share: fitting the wrapped regressors, metadata routing, fitted state and tags.

    An adapter has `_regressors()`, which returns the wrapped regressors by parameter name.
    """

    @property
    def wrapped_estimators(self) -> list[Any]:
        """The wrapped regressors, for `is_frozen`."""
        return list(self._regressors().values())

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing: everything goes to the `fit` of the wrapped regressors."""
        return fit_router(self, **self._regressors())

    def _fit_regressors(self, X: Any, y: Any, fit_params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the wrapped regressors, fitted, by parameter name."""
        regressors = self._regressors()
        for name, regressor in regressors.items():
            check_regressor(regressor, name)
        level_fraction(self.level)
        y = checked_target(self, X, y)
        params = {name: routed_params(self, fit_params, name) for name in regressors}
        return {name: fitted_copy(regressor, X, y, params[name]) for name, regressor in regressors.items()}

    def _set_fitted(self, fitted: Mapping[str, Any], X: Any) -> Self:
        """Set the learned attributes, such as `estimator_`."""
        for name, regressor in fitted.items():
            setattr(self, f"{name}_", regressor)
        remember_features(self, X)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return all(hasattr(self, f"{name}_") for name in self._regressors())

    def __sklearn_tags__(self) -> Tags:
        return with_inputs_of(self.wrapped_estimators[0], super().__sklearn_tags__())


class FromStd(_AdapterMixin, BaseEstimator):  # type: ignore[misc]
    """Adapter for a regressor with ``predict(X, return_std=True)``, such as a Gaussian process or Bayesian ridge.

    The standard deviation becomes the spread. The bounds are center ± z · spread, where z is the normal quantile of
    the level.

    Parameters
    ----------
    estimator : regressor
        Its `predict` takes ``return_std=True``. A pipeline that ends in such a regressor works too.
    level : float
        Nominal coverage of the model's own bounds.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model.

    Examples
    --------
    >>> from sklearn.linear_model import BayesianRidge
    >>> model = FromStd(BayesianRidge()).fit([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9])
    >>> model.predict_full([[1.5]])
    Prediction(1 rows of center, spread, lower, upper; level=0.9)
    """

    def __init__(self, estimator: Any, *, level: float = 0.9) -> None:
        self.estimator = estimator
        self.level = level

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor; further arguments are passed to its `fit`."""
        return self._set_fitted(self._fit_regressors(X, y, fit_params), X)

    def predict(self, X: Any) -> FloatArray:
        """Return the regressor's own prediction. Shape (n,)."""
        check_ready(self, X)
        return np.asarray(self.estimator_.predict(X))

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread and bounds."""
        check_ready(self, X)
        try:
            center, spread = self.estimator_.predict(X, return_std=True)
        except TypeError as error:
            if "return_std" not in str(error):
                raise
            name = type(self.estimator_).__name__
            raise TypeError(
                f"FromStd needs an estimator whose predict takes return_std=True; {name}: {error}"
            ) from error
        return Prediction(center, spread, level=self.level)

    def _regressors(self) -> dict[str, Any]:
        return {"estimator": self.estimator}


class FromQuantiles(CenterMixin, _AdapterMixin, BaseEstimator):  # type: ignore[misc]
    """Adapter that makes one model of two or three quantile regressors.

    Parameters
    ----------
    lower, upper : regressors
        For the (1 − level) / 2 and (1 + level) / 2 quantiles.
    center : regressor, optional
        For the median or mean. By default the center is the middle of the bounds.
    level : float
        Nominal coverage between the two quantiles.

    Attributes
    ----------
    lower_, upper_, center_ : fitted regressors
        The models; `center_` is None without a regressor for the center.

    Examples
    --------
    >>> from sklearn.linear_model import QuantileRegressor
    >>> model = FromQuantiles(QuantileRegressor(quantile=0.05), QuantileRegressor(quantile=0.95), level=0.9)
    >>> model.fit([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9]).predict_full([[1.5]])
    Prediction(1 rows of center, spread, lower, upper; level=0.9)
    """

    def __init__(self, lower: Any, upper: Any, center: Any = None, *, level: float = 0.9) -> None:
        self.lower = lower
        self.upper = upper
        self.center = center
        self.level = level

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressors; further arguments are passed to the `fit` of each of them."""
        self._set_fitted({"center": None, **self._fit_regressors(X, y, fit_params)}, X)
        _warn_if_swapped(self.predict_full(first_rows(X)))
        return self

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread and bounds. Bounds that cross are put in order."""
        check_ready(self, X)
        center = None if self.center_ is None else self.center_.predict(X)
        return Prediction.from_quantiles(self.lower_.predict(X), self.upper_.predict(X), center, level=self.level)

    def _regressors(self) -> dict[str, Any]:
        center = {} if self.center is None else {"center": self.center}
        return {"lower": self.lower, "upper": self.upper, **center}


class FromOutputs(CenterMixin, _AdapterMixin, BaseEstimator):  # type: ignore[misc]
    """Adapter for a regressor whose `predict` returns several columns, such as the quantiles of XGBoost and CatBoost.

    Parameters
    ----------
    estimator : regressor
        Its `predict` returns an array of shape (n, columns).
    outputs : sequence of str, optional
        The meaning of each column: "lower" and "upper", "spread" or "variance", "center", or "" for a column to
        ignore. Without "center" the center is the middle of the bounds. By default two columns are lower and upper,
        and three columns are lower, center and upper.
    level : float
        Nominal coverage of the model's own bounds.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LinearRegression
    >>> two = LinearRegression().fit([[0.0], [1.0]], [[-1.0, 1.0], [-2.0, 2.0]])
    >>> model = FromOutputs(FrozenEstimator(two)).fit([[0.0], [1.0]], [0.1, -0.2])
    >>> model.predict_full([[0.5]])
    Prediction(1 rows of center, spread, lower, upper; level=0.9)
    """

    def __init__(self, estimator: Any, outputs: Sequence[str] | None = None, *, level: float = 0.9) -> None:
        self.estimator = estimator
        self.outputs = outputs
        self.level = level

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor; further arguments are passed to its `fit`."""
        if self.outputs is not None:
            _check_outputs(self.outputs)
        fitted = self._fit_regressors(X, y, fit_params)
        # Predict a few rows now, so that a wrong number of columns is an error of `fit`.
        _warn_if_swapped(self._prediction(fitted["estimator"], first_rows(X)))
        return self._set_fitted(fitted, X)

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread and bounds. Bounds that cross are put in order."""
        check_ready(self, X)
        return self._prediction(self.estimator_, X)

    def _prediction(self, fitted: Any, X: Any) -> Prediction:
        values = np.asarray(fitted.predict(X), dtype=np.float64)
        n_columns = int(np.prod(values.shape[1:]))
        outputs = _QUANTILES.get(n_columns, ()) if self.outputs is None else self.outputs
        if values.shape[1:] != (len(outputs),):
            names = "no names" if self.outputs is None else f"{len(outputs)} names {outputs!r}"
            raise ValueError(
                f"outputs must have one name for each column that {type(fitted).__name__} predicts; got {names} for "
                f"{n_columns} column{'s' if n_columns != 1 else ''}"
            )
        column = dict(zip(outputs, values.T, strict=True))
        variance = column.get("variance")
        spread = column.get("spread") if variance is None else np.sqrt(checked_nonnegative(variance, "variance"))
        center = column["center"] if "center" in column else (column["lower"] + column["upper"]) / 2
        return Prediction(center, spread, column.get("lower"), column.get("upper"), level=self.level)

    def _regressors(self) -> dict[str, Any]:
        return {"estimator": self.estimator}


class FromDistribution(CenterMixin, _AdapterMixin, BaseEstimator):  # type: ignore[misc]
    """Adapter for a regressor that predicts distributions, such as NGBoost with ``pred_dist(X)``.

    The mean, the standard deviation and the (1 ± level) / 2 quantiles of each distribution become center, spread and
    bounds.

    Parameters
    ----------
    estimator : regressor
        It has a method that returns distributions with `mean`, `std` and `ppf`, like those of SciPy.
    method : str
        The name of that method.
    level : float
        Nominal coverage of the model's own bounds.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model.
    """

    def __init__(self, estimator: Any, *, method: str = "pred_dist", level: float = 0.9) -> None:
        self.estimator = estimator
        self.method = method
        self.level = level

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor; further arguments are passed to its `fit`."""
        if not callable(getattr(self.estimator, str(self.method), None)):
            raise TypeError(f"estimator must have a method {self.method}(X); got {self.estimator!r}")
        return self._set_fitted(self._fit_regressors(X, y, fit_params), X)

    def predict_full(self, X: Any) -> Prediction:
        """Return mean, standard deviation and quantiles of the distributions."""
        check_ready(self, X)
        distribution = getattr(self.estimator_, self.method)(X)
        level = float(level_fraction(self.level))
        lower, upper = (distribution.ppf((1 + sign * level) / 2) for sign in (-1, 1))
        return Prediction(distribution.mean(), distribution.std(), lower, upper, level=self.level)

    def _regressors(self) -> dict[str, Any]:
        return {"estimator": self.estimator}


def _warn_if_swapped(prediction: Prediction) -> None:
    """Warn if the bounds cross in most rows: quantile regressors cross in a few rows only."""
    if prediction.crossings > len(prediction) / 2:
        share = f"{prediction.crossings} of {len(prediction)} rows"
        warn_user(f"lower is above upper in {share}; are the two swapped? They are put in order")


def _check_outputs(outputs: Sequence[str]) -> None:
    """Raise unless the names of the columns are known, distinct, and sufficient for a full prediction."""
    names = [name for name in outputs if name] if isinstance(outputs, Sequence) else []
    if isinstance(outputs, str) or not names or set(names) - set(_OUTPUTS) or len(set(names)) < len(names):
        raise ValueError(
            f"outputs must be a sequence with one name per column: {', '.join(_OUTPUTS)} (each at most once), or '' "
            f"for a column to ignore; got {outputs!r}"
        )
    bounds = {"lower", "upper"} & set(names)
    spreads = {"spread", "variance"} & set(names)
    if len(bounds) == 1 or len(spreads) == 2 or not (bounds or (spreads and "center" in names)):
        raise ValueError(f"outputs must have lower and upper, or center and spread or variance; got {outputs!r}")
