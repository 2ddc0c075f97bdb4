"""Adapters: other regressors' spreads and quantiles as full predictions."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRouter

from evencover._internal.arrays import FloatArray, checked_nonnegative, warn_user
from evencover._internal.frames import n_rows, take
from evencover.models._validation import (
    check_ready,
    check_regressor,
    checked_target,
    fit_router,
    fitted_copy,
    remember_features,
)
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction

_QUANTILES = ("lower", "center", "upper")
_OUTPUTS = ("lower", "center", "upper", "spread", "variance")


class FromStd(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor with ``predict(X, return_std=True)``, such as a Gaussian process or Bayesian ridge.

    Its standard deviation becomes the spread, and center ± z spread the bounds.

    Parameters
    ----------
    estimator : regressor
        Any whose `predict` takes ``return_std=True``; also a pipeline that ends in one.
    level : float
        Nominal coverage of its own bounds.

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

    @property
    def wrapped_estimators(self) -> list[Any]:
        """The regressor inside, for `is_frozen`."""
        return [self.estimator]

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor; further arguments are passed on to it."""
        self.estimator_ = _fitted_inside(self, X, y, fit_params)
        remember_features(self, X)
        return self

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

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what scikit-learn's metadata routing may pass: everything to the regressor's fit."""
        return fit_router(self, estimator=self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        return _with_inputs_of(self.estimator, super().__sklearn_tags__())


class FromQuantiles(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Two or three quantile regressors as one model.

    Parameters
    ----------
    lower, upper : regressors
        For the (1 − level) / 2 and (1 + level) / 2 quantiles.
    center : regressor, optional
        For the median or mean; the middle of the bounds by default.
    level : float
        Nominal coverage between the two quantiles.

    Attributes
    ----------
    lower_, upper_, center_ : fitted regressors
        The models; `center_` is None where there is none.

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

    @property
    def wrapped_estimators(self) -> list[Any]:
        """The regressors inside, for `is_frozen`."""
        return [part for part in (self.lower, self.upper, self.center) if part is not None]

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressors; further arguments are passed on to each."""
        for name in ("lower", "upper", *["center"] * (self.center is not None)):
            check_regressor(getattr(self, name), name)
        level_fraction(self.level)
        y = checked_target(self, X, y)
        lower, upper = (fitted_copy(part, X, y, fit_params) for part in (self.lower, self.upper))
        center = None if self.center is None else fitted_copy(self.center, X, y, fit_params)
        self.lower_, self.upper_, self.center_ = lower, upper, center
        remember_features(self, X)
        _warn_if_swapped(self.predict_full(_first_rows(X)))
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the center. Shape (n,)."""
        return self.predict_full(X).center

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread and bounds; bounds that cross are put in order."""
        check_ready(self, X)
        center = None if self.center_ is None else self.center_.predict(X)
        return Prediction.from_quantiles(self.lower_.predict(X), self.upper_.predict(X), center, level=self.level)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what scikit-learn's metadata routing may pass: everything to the regressors' fits."""
        parts = {"lower": self.lower, "upper": self.upper, "center": self.center}
        return fit_router(self, **{name: part for name, part in parts.items() if part is not None})

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "lower_")

    def __sklearn_tags__(self) -> Tags:
        return _with_inputs_of(self.lower, super().__sklearn_tags__())


class FromOutputs(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose `predict` gives several columns, such as XGBoost's and CatBoost's quantiles.

    Parameters
    ----------
    estimator : regressor
        Any whose `predict` has shape (n, columns).
    outputs : sequence of str
        What each column is: "lower" and "upper", "spread" or "variance", "center", or "" for one to leave alone. The
        center is the middle of the bounds where there is none.
    level : float
        Nominal coverage of its own bounds.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LinearRegression
    >>> two = LinearRegression().fit([[0.0], [1.0]], [[-1.0, 1.0], [-2.0, 2.0]])
    >>> model = FromOutputs(FrozenEstimator(two), ["lower", "upper"]).fit([[0.0], [1.0]], [0.1, -0.2])
    >>> model.predict_full([[0.5]])
    Prediction(1 rows of center, spread, lower, upper; level=0.9)
    """

    def __init__(self, estimator: Any, outputs: Sequence[str] = _QUANTILES, *, level: float = 0.9) -> None:
        self.estimator = estimator
        self.outputs = outputs
        self.level = level

    @property
    def wrapped_estimators(self) -> list[Any]:
        """The regressor inside, for `is_frozen`."""
        return [self.estimator]

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor; further arguments are passed on to it."""
        _check_outputs(self.outputs)
        fitted = _fitted_inside(self, X, y, fit_params)
        _warn_if_swapped(self._prediction(fitted, _first_rows(X)))  # a wrong number of columns shows now, too
        self.estimator_ = fitted
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the center. Shape (n,)."""
        return self.predict_full(X).center

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread and bounds; bounds that cross are put in order."""
        check_ready(self, X)
        return self._prediction(self.estimator_, X)

    def _prediction(self, fitted: Any, X: Any) -> Prediction:
        values = np.asarray(fitted.predict(X), dtype=np.float64)
        if values.shape[1:] != (len(self.outputs),):
            name, columns = type(fitted).__name__, int(np.prod(values.shape[1:]))
            raise ValueError(
                f"outputs must name every column that {name} predicts; got {self.outputs!r}, and it predicts {columns}"
            )
        column = dict(zip(self.outputs, values.T, strict=True))
        variance = column.get("variance")
        spread = column.get("spread") if variance is None else np.sqrt(checked_nonnegative(variance, "variance"))
        center = column["center"] if "center" in column else (column["lower"] + column["upper"]) / 2
        return Prediction(center, spread, column.get("lower"), column.get("upper"), level=self.level)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what scikit-learn's metadata routing may pass: everything to the regressor's fit."""
        return fit_router(self, estimator=self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        return _with_inputs_of(self.estimator, super().__sklearn_tags__())


class FromDistribution(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that predicts distributions, such as NGBoost's ``pred_dist(X)``.

    Mean, standard deviation and the (1 ± level) / 2 quantiles of the distributions become center, spread and bounds.

    Parameters
    ----------
    estimator : regressor
        With a method that returns distributions with `mean`, `std` and `ppf`, as SciPy's have.
    method : str
        The name of that method.
    level : float
        Nominal coverage of its own bounds.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model.
    """

    def __init__(self, estimator: Any, *, method: str = "pred_dist", level: float = 0.9) -> None:
        self.estimator = estimator
        self.method = method
        self.level = level

    @property
    def wrapped_estimators(self) -> list[Any]:
        """The regressor inside, for `is_frozen`."""
        return [self.estimator]

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor; further arguments are passed on to it."""
        if not callable(getattr(self.estimator, str(self.method), None)):
            raise TypeError(f"estimator must have a method {self.method}(X); got {self.estimator!r}")
        self.estimator_ = _fitted_inside(self, X, y, fit_params)
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the distributions' means. Shape (n,)."""
        return self.predict_full(X).center

    def predict_full(self, X: Any) -> Prediction:
        """Return mean, standard deviation and quantiles of the distributions."""
        check_ready(self, X)
        distribution = getattr(self.estimator_, self.method)(X)
        level = float(level_fraction(self.level))
        lower, upper = (distribution.ppf((1 + sign * level) / 2) for sign in (-1, 1))
        return Prediction(distribution.mean(), distribution.std(), lower, upper, level=self.level)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what scikit-learn's metadata routing may pass: everything to the regressor's fit."""
        return fit_router(self, estimator=self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        return _with_inputs_of(self.estimator, super().__sklearn_tags__())


def _fitted_inside(adapter: Any, X: Any, y: Any, fit_params: Mapping[str, Any]) -> Any:
    """Return an adapter's one regressor, fitted."""
    check_regressor(adapter.estimator, "estimator")
    level_fraction(adapter.level)
    return fitted_copy(adapter.estimator, X, checked_target(adapter, X, y), fit_params)


def _first_rows(X: Any) -> Any:
    """Return a few of the rows, to try a model on."""
    return take(X, np.arange(min(100, n_rows(X))))


def _warn_if_swapped(prediction: Prediction) -> None:
    """Warn if most bounds come in the wrong order: now and then quantiles cross, but not as a rule."""
    if prediction.crossings > len(prediction) / 2:
        found = f"{prediction.crossings} of {len(prediction)} rows"
        warn_user(f"lower is above upper in {found}; are the two swapped? They are put in order")


def _check_outputs(outputs: Sequence[str]) -> None:
    """Raise unless the columns' names are known, each there once, and enough for a full prediction."""
    names = [name for name in outputs if name] if isinstance(outputs, Sequence) else []
    if isinstance(outputs, str) or not names or set(names) - set(_OUTPUTS) or len(set(names)) < len(names):
        raise ValueError(f"outputs must be distinct names out of {_OUTPUTS} or empty text; got {outputs!r}")
    bounds = {"lower", "upper"} & set(names)
    spreads = {"spread", "variance"} & set(names)
    if len(bounds) == 1 or len(spreads) == 2 or not (bounds or (spreads and "center" in names)):
        raise ValueError(f"outputs must have lower and upper, or center and spread or variance; got {outputs!r}")


def _with_inputs_of(estimator: Any, tags: Tags) -> Tags:
    """Return the tags, with the inputs that the wrapped estimator takes."""
    tags.input_tags = get_tags(estimator).input_tags
    return tags
