"""The meaning of a model's output columns: names, or probabilities of quantiles."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from evencover._internal.arrays import FloatArray, checked_nonnegative, is_number, warn_user
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
    if hasattr(estimator, "best_estimator_"):
        return quantile_probabilities(estimator.best_estimator_)
    if isinstance(estimator, FrozenEstimator):
        return quantile_probabilities(estimator.estimator)
    if isinstance(estimator, Pipeline):
        return quantile_probabilities(estimator[-1])
    params = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    loss = re.search(_MULTI_QUANTILE, f"{params.get('loss_function')};{params.get('objective')}")
    given = loss[1].split(",") if loss else params.get("quantile_alpha")
    probabilities = () if given is None else tuple(float(p) for p in np.ravel(given))
    return probabilities if len(probabilities) > 1 else None


def named_columns(values: FloatArray, outputs: Outputs | None, model: Any) -> Columns:
    """Return the columns that a model predicts, by name or probability. Raise ValueError unless each has one.

    Parameters
    ----------
    values : ndarray of shape (n, columns)
        What the model predicts.
    outputs : sequence of str or float, optional
        Names and probabilities. By default two columns are lower and upper, and three are lower, center and upper.
    model : regressor
        The model, for the error.
    """
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
