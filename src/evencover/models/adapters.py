"""Adapters: regressors of other libraries, with their spreads and quantiles as full predictions."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import MetadataRouter

from evencover.inputs.arrays import FloatArray, as_floats, checked_nonnegative, is_number, warn_user
from evencover.models._outputs import DEFAULT_PROBABILITIES
from evencover.models.estimators import (
    CenterMixin,
    CloneMixin,
    check_ready,
    check_regressor,
    checked_target,
    first_rows,
    fit_router,
    fitted_copy,
    remember_features,
    routed_params,
    unwrap,
    with_inputs_of,
)
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction

Outputs: TypeAlias = Sequence[str | float]
Columns: TypeAlias = Mapping[str | float, FloatArray]

_NAMES = ("lower", "center", "upper", "spread", "variance")
_BY_NUMBER: Mapping[int, Outputs] = {2: ("lower", "upper"), 3: ("lower", "center", "upper")}  # of columns
_MULTI_QUANTILE = re.compile(r"MultiQuantile:(?:.*;)?\s*alpha=([^;]*)")
_ROUNDING_MARGIN = 1e-9  # between a level's probabilities and those of the columns


def check_outputs(outputs: Any) -> None:
    """Raise unless the columns are known, distinct, and sufficient for a full prediction."""
    given = [each for each in outputs if each != ""] if isinstance(outputs, Sequence | np.ndarray) else []
    probabilities = [each for each in given if is_number(each)]
    names = [each for each in given if not is_number(each)]
    valid = set(names) <= set(_NAMES) and all(0 < p < 1 for p in probabilities)
    if isinstance(outputs, str) or not given or not valid or len(set(given)) < len(given):
        raise ValueError(
            f"outputs must be a sequence with one name per column: {', '.join(_NAMES)} (each at most once), or '' "
            f"for a column to ignore, or a probability between 0 and 1 for a quantile; got {outputs!r}"
        )
    bounds = {"lower", "upper"} & set(names)
    spreads = {"spread", "variance"} & set(names)
    sufficient = len(bounds) == 2 or len(probabilities) > 1 or (spreads and "center" in names)
    if len(bounds) == 1 or len(spreads) == 2 or len(probabilities) == 1 or not sufficient:
        raise ValueError(
            "outputs must have lower and upper, or center and spread or variance, or two or more probabilities; got "
            f"{outputs!r}"
        )


def quantile_probabilities(estimator: Any) -> tuple[float, ...] | None:
    """Return the probabilities of the columns that a fitted model of XGBoost or CatBoost predicts; else None.

    They are the parameter `quantile_alpha` of XGBoost, and those in the loss "MultiQuantile:alpha=..." of CatBoost.
    """
    model, _ = unwrap(estimator)
    params = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    loss = re.search(_MULTI_QUANTILE, f"{params.get('loss_function')};{params.get('objective')}")
    given = loss[1].split(",") if loss else params.get("quantile_alpha")
    probabilities = () if given is None else tuple(float(p) for p in np.ravel(given))
    return probabilities if len(probabilities) > 1 else None


def predicted_columns(model: Any, outputs: Outputs | None, X: Any) -> Columns:
    """Return the columns that a model predicts, by name or probability. Raise ValueError unless each has one.

    Without `outputs`, two columns are lower and upper, and three are lower, center and upper.
    """
    values = as_floats(model.predict(X), "the prediction")
    n_columns = int(np.prod(values.shape[1:]))
    known = _BY_NUMBER.get(n_columns, ()) if outputs is None else outputs
    if values.shape[1:] != (len(known),):
        if outputs is None and n_columns == 1:
            raise ValueError(
                f"estimator must predict two or more columns, such as two or more quantiles; {type(model).__name__} "
                "predicts one column. For a model that predicts one number, use WithSpread(model)"
            )
        names = "no names" if outputs is None else f"{len(known)} names {outputs!r}"
        raise ValueError(
            f"outputs must have one name for each column that {type(model).__name__} predicts; got {names} for "
            f"{n_columns} column{'s' if n_columns != 1 else ''}"
        )
    return dict(zip(known, values.T, strict=True))


def full_prediction(columns: Columns, level: float) -> Prediction:
    """Return the prediction of columns by name or probability.

    Bounds and center without names are the quantiles at (1 ± level) / 2 and 1/2, exactly if these are among the
    columns. Without quantiles, the default center is the middle of the bounds.
    """
    center, lower, upper = (columns.get(name) for name in ("center", "lower", "upper"))
    variance = columns.get("variance")
    spread = columns.get("spread") if variance is None else np.sqrt(checked_nonnegative(variance, "variance"))
    quantiles = _quantiles(columns, level)
    if not quantiles:
        center = (lower + upper) / 2 if center is None else center  # type: ignore[operator]
        return Prediction(center, spread, lower, upper, level=level)
    lower, upper = (_at(quantiles, p) for p in _ends(level))
    bounds = (None, None) if lower is None or upper is None else (lower, upper)
    probabilities = sorted(quantiles)
    table = np.column_stack([quantiles[p] for p in probabilities])
    center = _at(quantiles, 0.5) if center is None else center
    return Prediction(center, spread, *bounds, quantiles=table, probabilities=probabilities, level=level)


def warn_if_swapped(columns: Columns) -> None:
    """Warn if lower is above upper in most rows, or the first quantile above the last: models cross in a few rows."""
    order = sorted(key for key in columns if not isinstance(key, str))
    pair = (order[0], order[-1]) if order else ("lower", "upper")
    if not all(name in columns for name in pair):
        return
    lower, upper = (columns[name] for name in pair)
    crossings = int(np.count_nonzero(np.asarray(lower) > np.asarray(upper)))
    if crossings > len(lower) / 2:
        names = "lower is above upper" if not order else f"the {order[0]} quantile is above the {order[-1]} quantile"
        warn_user(f"{names} in {crossings} of {len(lower)} rows; are the two swapped? They are put in order")


def _quantiles(columns: Columns, level: float) -> dict[float, FloatArray]:
    """Return the columns that are quantiles, by probability; with these, named bounds are quantiles as well."""
    quantiles = {float(key): values for key, values in columns.items() if not isinstance(key, str)}
    if quantiles and "lower" in columns:
        for name, p in zip(("lower", "upper"), _ends(level), strict=True):
            if _at(quantiles, p) is None:
                quantiles[p] = columns[name]
    return quantiles


def _ends(level: float) -> tuple[float, float]:
    """Return the probabilities of the bounds, (1 ± level) / 2."""
    exact = level_fraction(level)
    return float((1 - exact) / 2), float((1 + exact) / 2)


def _at(quantiles: Mapping[float, FloatArray], probability: float) -> FloatArray | None:
    """Return the quantile at a probability, if it is among the given ones up to rounding."""
    return next((values for p, values in quantiles.items() if abs(p - probability) < _ROUNDING_MARGIN), None)


class _AdapterMixin(CloneMixin, MetaEstimatorMixin, RegressorMixin):  # type: ignore[misc]
    """What the adapters share: fitting the wrapped regressors, metadata routing, fitted state and tags."""

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor; further arguments are passed to its `fit`."""
        return self._set_fitted(self._fit_regressors(X, y, fit_params), X)

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
        y = checked_target(self, X, y, sample_weight=fit_params.get("sample_weight"))
        params = {name: routed_params(self, fit_params, name) for name in regressors}
        return {name: fitted_copy(regressor, X, y, params[name]) for name, regressor in regressors.items()}

    def _regressors(self) -> dict[str, Any]:
        """Return the wrapped regressors by parameter name."""
        return {"estimator": self.estimator}

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


class FromQuantiles(CenterMixin, _AdapterMixin, BaseEstimator):  # type: ignore[misc]
    """Adapter that makes one model of several quantile regressors.

    Pass two regressors for the bounds, or any number of regressors by probability, or both.

    Parameters
    ----------
    lower, upper : regressors, optional
        For the (1 − level) / 2 and (1 + level) / 2 quantiles. Optional if there are `quantiles`.
    center : regressor, optional
        For the median or mean. By default the center is the median of the `quantiles`, or without them the middle of
        the bounds.
    quantiles : mapping from probability to regressor, optional
        Regressors for further quantiles, such as ``{0.25: ..., 0.5: ..., 0.75: ...}``; two or more without `lower`
        and `upper`.
    level : float
        Nominal coverage of the model's own bounds. Without `lower` and `upper`, the bounds are the quantiles at
        (1 ± level) / 2.

    Attributes
    ----------
    lower_, upper_, center_ : fitted regressors
        The models; None for those that were not given.
    quantiles_ : dict from probability to fitted regressor
        The models of further quantiles.

    Examples
    --------
    >>> from sklearn.linear_model import QuantileRegressor
    >>> X, y = [[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9]
    >>> model = FromQuantiles(QuantileRegressor(quantile=0.05), QuantileRegressor(quantile=0.95), level=0.9)
    >>> model.fit(X, y).predict_full([[1.5]])
    Prediction(1 rows of center, spread, lower, upper; level=0.9)
    >>> model = FromQuantiles(quantiles={p: QuantileRegressor(quantile=p) for p in (0.05, 0.25, 0.5, 0.75, 0.95)})
    >>> model.fit(X, y).predict_full([[1.5]])
    Prediction(1 rows of center, spread, lower, upper, 5 quantiles; level=0.9)
    """

    def __init__(
        self,
        lower: Any = None,
        upper: Any = None,
        center: Any = None,
        *,
        quantiles: Mapping[float, Any] | None = None,
        level: float = 0.9,
    ) -> None:
        self.lower = lower
        self.upper = upper
        self.center = center
        self.quantiles = quantiles
        self.level = level

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressors; further arguments are passed to the `fit` of each of them."""
        self._check_quantiles()
        fitted = self._fit_regressors(X, y, fit_params)
        quantiles = {p: fitted.pop(_quantile_name(p)) for p in self.quantiles or ()}
        self._set_fitted({"lower": None, "upper": None, "center": None, "quantiles": quantiles, **fitted}, X)
        warn_if_swapped(self._columns(first_rows(X)))
        return self

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread, bounds and quantiles. Bounds and quantiles that cross are put in order."""
        check_ready(self, X)
        return full_prediction(self._columns(X), self.level)

    def _columns(self, X: Any) -> Columns:
        """Return the predictions of the regressors by name or probability."""
        named = {"lower": self.lower_, "upper": self.upper_, "center": self.center_}
        models = {name: model for name, model in {**named, **self.quantiles_}.items() if model is not None}
        return {name: as_floats(model.predict(X), "the prediction") for name, model in models.items()}

    def _check_quantiles(self) -> None:
        """Raise unless the quantiles are regressors by probability, enough for a distribution."""
        if self.quantiles is None:
            return
        is_mapping = isinstance(self.quantiles, Mapping)
        if not is_mapping or not all(is_number(p) and 0 < p < 1 for p in self.quantiles):
            raise ValueError(f"quantiles must map probabilities between 0 and 1 to regressors; got {self.quantiles!r}")
        if len(self.quantiles) < 2 and self.lower is None:
            raise ValueError(
                f"quantiles must have two or more regressors if lower and upper are not given; got {self.quantiles!r}"
            )

    def _regressors(self) -> dict[str, Any]:
        quantiles = {_quantile_name(p): regressor for p, regressor in (self.quantiles or {}).items()}
        bounds = {"lower": self.lower, "upper": self.upper}
        without_bounds = quantiles and self.lower is None and self.upper is None
        center = {} if self.center is None else {"center": self.center}
        return {**({} if without_bounds else bounds), **center, **quantiles}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "center_")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"quantiles": None, "quantiles_": {}, **state})  # files of version 3 have none of them


class FromOutputs(CenterMixin, _AdapterMixin, BaseEstimator):  # type: ignore[misc]
    """Adapter for a regressor whose `predict` returns several columns, such as the quantiles of XGBoost and CatBoost.

    Parameters
    ----------
    estimator : regressor
        Its `predict` returns an array of shape (n, columns).
    outputs : sequence of str or float, optional
        The meaning of each column: a probability such as 0.25 for a quantile, or one of the names "lower" and "upper",
        "spread" or "variance", "center", or "" for a column to ignore. Without "center" the center is the median of
        the quantiles, or without quantiles the middle of the bounds. By default the probabilities are read from the
        parameters of the regressor: `quantile_alpha` of XGBoost, or the loss "MultiQuantile:alpha=..." of CatBoost.
        If it has none, two columns are lower and upper, and three columns are lower, center and upper.
    level : float
        Nominal coverage of the model's own bounds. Without names for them, they are the quantiles at (1 ± level) / 2.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model.
    outputs_ : tuple of str or float, or None
        The meaning of each column: as given, or the probabilities that were read from the regressor; None if it
        depends on the number of columns.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LinearRegression
    >>> two = LinearRegression().fit([[0.0], [1.0]], [[-1.0, 1.0], [-2.0, 2.0]])
    >>> model = FromOutputs(FrozenEstimator(two)).fit([[0.0], [1.0]], [0.1, -0.2])
    >>> model.predict_full([[0.5]])
    Prediction(1 rows of center, spread, lower, upper; level=0.9)
    """

    def __init__(self, estimator: Any, outputs: Sequence[str | float] | None = None, *, level: float = 0.9) -> None:
        self.estimator = estimator
        self.outputs = outputs
        self.level = level

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor; further arguments are passed to its `fit`."""
        if self.outputs is not None:
            check_outputs(self.outputs)
        fitted = self._fit_regressors(X, y, fit_params)
        model = fitted["estimator"]
        outputs = quantile_probabilities(model) if self.outputs is None else tuple(self.outputs)
        # Predict a few rows now, so that a wrong number of columns is an error of `fit`.
        columns = predicted_columns(model, outputs, first_rows(X))
        full_prediction(columns, self.level)
        warn_if_swapped(columns)
        return self._set_fitted({**fitted, "outputs": outputs}, X)

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread, bounds and quantiles. Bounds and quantiles that cross are put in order."""
        check_ready(self, X)
        outputs = getattr(self, "outputs_", self.outputs)  # files of version 3 have no outputs_
        return full_prediction(predicted_columns(self.estimator_, outputs, X), self.level)


class FromDistribution(CenterMixin, _AdapterMixin, BaseEstimator):  # type: ignore[misc]
    """Adapter for a regressor that predicts distributions, such as NGBoost with ``pred_dist(X)``.

    The mean, the standard deviation and the (1 ± level) / 2 quantiles of each distribution become center, spread and
    bounds. The prediction also has 23 quantiles from 0.01 to 0.99.

    Parameters
    ----------
    estimator : regressor
        It has a method that returns distributions with `mean`, `std` and `ppf`, like those of `scipy.stats`, or with
        `mean`, `standard_deviation` and `icdf`, like SciPy's newer `Normal`. A pipeline that ends in such a regressor
        works too.
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
        if not callable(getattr(unwrap(self.estimator)[0], str(self.method), None)):
            raise TypeError(f"estimator must have a method {self.method}(X); got {self.estimator!r}")
        return super().fit(X, y, **fit_params)

    def predict_full(self, X: Any) -> Prediction:
        """Return mean, standard deviation and quantiles of the distributions."""
        check_ready(self, X)
        model, features = unwrap(self.estimator_, X)
        distribution = getattr(model, self.method)(features)
        ppf, std = (
            getattr(distribution, name, None) or getattr(distribution, newer)
            for name, newer in (("ppf", "icdf"), ("std", "standard_deviation"))
        )
        columns: dict[str | float, Any] = {"center": distribution.mean(), "spread": std()}
        columns |= {p: np.asarray(ppf(p)) for p in {*DEFAULT_PROBABILITIES, *_ends(self.level)}}
        return full_prediction(columns, self.level)


def _quantile_name(probability: float) -> str:
    """Return the name of a quantile regressor, for errors and metadata routing."""
    return f"quantiles[{probability}]"
