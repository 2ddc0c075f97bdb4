"""How a source of spread learns: on all rows, and cross-fitted for the quantiles of standardised residuals."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

from evencover._internal.arrays import FloatArray, IntArray
from evencover._internal.frames import take
from evencover.models._quantile_plan import DEFAULT_PROBABILITIES, estimable_probabilities, on_default_grid

_MAX_PARTS = 3  # of the rows, for the cross-fitted spread: each part costs one more fit
_MIN_RESIDUALS = 20  # fewer residuals show no 5 % and 95 % quantile
_ENOUGH_RESIDUALS = 5000  # the share of residuals below their 1 % quantile is then known to 0.14 %
_REMEDIES = {
    "could not convert": "make WithSpread the last step of the Pipeline that encodes the features, or use "
    "ResidualSpread(regressor) with a regressor that reads these columns, such as a copy of the model",
    "Sparse data was passed": "use ResidualSpread(regressor) with a regressor that accepts sparse features",
}

ResidualQuantiles = tuple[FloatArray, FloatArray]  # probabilities and quantiles, each of shape (Q,)


def learn_spread(source: Any, fitted: Any, X: Any, y: FloatArray, residuals: FloatArray | None) -> FloatArray:
    """Return the spread on the training rows; add a remedy to the message of errors about the features."""
    try:
        spread: FloatArray = source.learn(fitted, X, y, residuals)
    except (TypeError, ValueError) as error:
        remedy = next((remedy for cause, remedy in _REMEDIES.items() if cause in str(error)), None)
        if remedy is None:
            raise
        raise type(error)(
            f"{source!r} cannot learn the spread from these features: {error} Remedy: {remedy}"
        ) from error
    return spread


def fixed_folds(n: int, clusters: Any) -> IntArray:
    """Return the fold of each row, for models that are not cross-fitted; clusters stay together. Shape (n,)."""
    codes = np.arange(n) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1].ravel()
    order = np.random.default_rng(0).permutation(codes.max(initial=0) + 1)
    return np.asarray(order[codes] % _MAX_PARTS)


def residual_quantiles(
    new_source: Callable[[], Any],
    fitted: Any,
    X: Any,
    y: FloatArray,
    residuals: FloatArray,
    folds: IntArray,
    floor: float,
) -> ResidualQuantiles:
    """Return quantiles of the residuals divided by their spreads, both out of fold; normal ones if rows are too few.

    The spread of a row is learned from the residuals of other folds, merged to at most three parts. With many rows, the
    residuals of the first parts are enough. The k-th smallest of n standardised residuals estimates the quantile at
    k / (n + 1). Beyond k = 1 and k = n there are normal tails.

    Parameters
    ----------
    new_source : callable
        Returns a source of spread that has not learned yet.
    fitted : fitted regressor
        The model of the center, which sources may use.
    X, y, residuals : table and arrays of n rows
        Training rows, with out-of-fold residuals.
    folds : ndarray of shape (n,)
        The fold of each row.
    floor : float
        The smallest spread.
    """
    parts = folds % _MAX_PARTS
    if len(y) < _MIN_RESIDUALS or len(np.unique(parts)) < 2:
        return np.array(DEFAULT_PROBABILITIES), np.asarray(ndtri(DEFAULT_PROBABILITIES))
    standardized = np.empty(0)
    for part in np.unique(parts):
        own, others = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        source = new_source()
        learn_spread(source, fitted, take(X, others), y[others], residuals[others])
        spread = np.maximum(source.spread(fitted, take(X, own)), floor)
        standardized = np.concatenate([standardized, residuals[own] / spread])
        if len(standardized) >= _ENOUGH_RESIDUALS:
            break
    at = estimable_probabilities(len(standardized))
    quantiles = np.quantile(standardized, at, method="weibull")
    return np.array(DEFAULT_PROBABILITIES), on_default_grid(quantiles[None], at)[0]
