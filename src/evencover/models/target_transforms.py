"""Another scale of the target: the logarithm as a transformer, and regressors fitted to transformed targets."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from evencover.inputs.arrays import FloatArray, as_floats, check_not_masked, got_text, is_number
from evencover.models.estimators import cloned, is_frozen
from evencover.scores.target_scales import check_transformable, transformed

_ROUNDING = 1e-9  # change of transformed targets, relative to their range, that counts as rounding
_INVERSE_MARGIN = 1e-3  # of the range of transformed targets; an inverse that is further off is wrong


class LogTransform(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The natural logarithm of y + shift, as a transformer for scikit-learn's `TransformedTargetRegressor`.

    ``ConformalRegressor(model, target_transform="log")`` uses it. In contrast to functions of numpy, files of this
    package know it.

    Parameters
    ----------
    shift : float
        A number to add before the logarithm. All numbers must be larger than −shift. 1 is for counts, which can be 0.

    Examples
    --------
    >>> transform = LogTransform(shift=1).fit([[0.0], [9.0]])
    >>> transform.transform([[0.0], [9.0]]).round(2)
    array([[0. ],
           [2.3]])
    """

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Check that all numbers have a logarithm; nothing is learned from them."""
        if not (is_number(self.shift) and np.isfinite(self.shift)):
            raise ValueError(f"shift must be a finite number; got {self.shift!r}")
        check_not_masked(X, "X")
        values = validate_data(self, X, dtype=np.float64)
        outside = values <= -self.shift
        if outside.any():
            raise ValueError(
                f"all numbers must be larger than {0.0 - self.shift:g} for {self!r}; got {np.count_nonzero(outside)} "
                f"of {values.size} that are not. The smallest is {values.min():g}"
            )
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return log(y + shift) of an array of shape (n, k): -inf or NaN if there is no logarithm."""
        check_is_fitted(self)
        check_not_masked(X, "X")
        values = validate_data(self, X, reset=False, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log1p(values) if self.shift == 1 else np.log(values + self.shift))

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return exp(z) − shift of an array of shape (n, k)."""
        check_is_fitted(self)
        values = as_floats(X, "X", exact=False)
        with np.errstate(over="ignore"):
            return np.asarray(np.expm1(values) if self.shift == 1 else np.exp(values) - self.shift)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.shift <= 0
        return tags


_TRANSFORMS = {"log": LogTransform(), "log1p": LogTransform(shift=1.0)}


def with_target_transform(estimator: Any, transform: Any) -> Any:
    """Return a regressor that is fitted to transformed targets; the estimator itself if there is no transform."""
    if transform is None:
        return estimator
    if is_frozen(estimator):
        raise ValueError(
            "target_transform must be None for a frozen estimator, which is not fitted again; got "
            f"{transform!r}. Fit TransformedTargetRegressor(model, transformer=...) and freeze that"
        )
    transformer = cloned(_TRANSFORMS.get(transform)) if isinstance(transform, str) else transform
    methods = ("fit", "transform", "inverse_transform")
    if transformer is None or isinstance(transformer, type) or not all(hasattr(transformer, each) for each in methods):
        raise ValueError(
            "target_transform must be 'log', 'log1p', or a transformer with scikit-learn's methods fit, transform and "
            f"inverse_transform; got {got_text(transform)}"
        )
    return TransformedTargetRegressor(estimator, transformer=transformer, check_inverse=False)


def check_target_transform(estimator: Any, y: FloatArray, given: Any = None) -> None:
    """Raise ValueError if an estimator's transform of the target fails, is not monotone, or has a wrong inverse.

    The check is for a `TransformedTargetRegressor`, also as the last step of a pipeline. It fits a copy of the
    transformer to the targets.

    Parameters
    ----------
    estimator : regressor
        Any regressor.
    y : ndarray of shape (n,)
        Targets.
    given : str or transformer, optional
        The argument `target_transform` that the transformer comes from, for the error.
    """
    if isinstance(given, str):
        _check_logarithm(given, y)
    if isinstance(estimator, Pipeline):
        return check_target_transform(estimator[-1], y)
    if not isinstance(estimator, TransformedTargetRegressor):
        return None
    transformer = cloned(estimator.transformer)
    if transformer is None:
        transformer = FunctionTransformer(estimator.func, estimator.inverse_func, validate=True, check_inverse=False)
    try:
        transformer.fit(y.reshape(-1, 1))
    except ValueError as error:
        raise ValueError(f"y must hold targets that {transformer!r} can transform; it failed: {error}") from error
    check_transformable(transformer, y)
    _check_monotone(transformer, np.unique(y))
    return _check_inverse(transformer, y)


def _check_logarithm(name: str, y: FloatArray) -> None:
    """Raise ValueError if a target is too small for "log" or "log1p", with the remedy."""
    limit = 0.0 - _TRANSFORMS[name].shift
    too_small = np.count_nonzero(y <= limit)
    if too_small:
        remedy = ". Use target_transform='log1p', which allows 0" if name == "log" and y.min() >= 0 else ""
        raise ValueError(
            f"y must be larger than {limit:g} for target_transform={name!r}; got {too_small} of {len(y)} targets that "
            f"are not. The smallest is {y.min():g}{remedy}"
        )


def _check_monotone(transformer: Any, y: FloatArray) -> None:
    """Raise ValueError unless sorted targets are all increasing, or all decreasing, after the transform."""
    changes = np.diff(transformed(transformer.transform, y))
    rounding = _ROUNDING * np.abs(changes).max(initial=0.0)
    rises, falls = np.count_nonzero(changes > rounding), np.count_nonzero(changes < -rounding)
    if (rises and falls) or (len(y) > 1 and not rises and not falls):
        raise ValueError(
            f"the target's transformer must be monotone: larger targets all get larger values, or all smaller ones; "
            f"{transformer!r} rises {rises} times and falls {falls} times between neighbours of the {len(y)} distinct "
            "targets"
        )


def _check_inverse(transformer: Any, y: FloatArray) -> None:
    """Raise ValueError unless transformed targets stay the same if they are mapped back and transformed again.

    The targets themselves can differ: a transform may map several targets to the same number.
    """
    values = transformed(transformer.transform, y)
    mapped_back = transformed(transformer.inverse_transform, values)
    differences = np.abs(transformed(transformer.transform, mapped_back) - values)
    wrong = np.flatnonzero(~(differences <= _INVERSE_MARGIN * np.ptp(values)))
    if len(wrong):
        first = wrong[0]
        raise ValueError(
            "the target's transformer must have the right inverse, which maps predictions back; "
            f"{transformer!r} turns the target {y[first]:g} into {values[first]:g}, and this back into "
            f"{mapped_back[first]:g}. A FunctionTransformer needs inverse_func, such as "
            "FunctionTransformer(np.log, np.exp)"
        )
