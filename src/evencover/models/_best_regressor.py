"""The best of a few regressors by cross-validation, for small tables."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover._internal.arrays import FloatArray
from evencover.models._fold_models import out_of_fold_predictions
from evencover.models._row_splits import checked_splitter
from evencover.models._validation import (
    CloneMixin,
    checked_features,
    checked_rows,
    checked_target,
    fitted_clone,
    remember_features,
)

PENALTIES = np.logspace(-3, 5, 9)  # of ridge regression
_N_TREES = 15  # 25 had 1 % smaller errors and took 60 % longer
_INVERSE_WIDTH = 0.1  # of the kernel: 1 and 0.3 were worse, 0.2 and 0.05 about equal
_N_KERNELS = 100  # 50 had 1 % larger errors


class KernelFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features exp(−0.1 ‖x − x'‖² / d) of d standardised features, by `Nystroem`: with as many x' as there are rows.

    A linear model of at most `n_components` such features is a smooth function of x. `Nystroem` itself has a width and
    a number of components that do not depend on the table.

    Parameters
    ----------
    n_components : int
        The largest number of features.
    random_state : int
        Seed of the choice of the rows x'.
    """

    def __init__(self, n_components: int = _N_KERNELS, *, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Choose the rows x'."""
        rows = checked_features(self, X)
        n, d = rows.shape
        size, seed = min(self.n_components, n), self.random_state
        self.kernels_ = Nystroem(gamma=_INVERSE_WIDTH / d, n_components=size, random_state=seed).fit(rows)
        remember_features(self, X)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the features of rows. Shape (n, components)."""
        rows = checked_rows(self, X)
        return np.asarray(self.kernels_.transform(rows))


class BestRegressor(CloneMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The one of several regressors that has the smallest mean squared error in cross-validation, fitted on all rows.

    The comparison is a part of `fit`. So a conformal predictor of this model keeps its guarantee: the model does not
    use the rows that calibrate it, and in cross-conformal regression each fold makes its own choice.

    Parameters
    ----------
    candidates : sequence of pairs of a name and a regressor
        The regressors to compare; the first of equally good ones is taken.
    cv : int or splitter
        Folds, the same for all of them.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    best_ : str
        The name of the best one.
    errors_ : dict from str to float
        The root mean squared errors, out of fold.
    estimator_ : fitted regressor
        The best one.
    out_of_fold_ : tuple of two ndarrays of shape (n,)
        Its out-of-fold predictions, and the fold of each row. `WithSpread` uses them instead of fitting again.
    """

    def __init__(self, candidates: Sequence[tuple[str, Any]], *, cv: Any = 5, random_state: int = 0) -> None:
        self.candidates = candidates
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Compare the regressors and fit the best one on all rows."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        splitter = checked_splitter(self.cv, len(target), self.random_state, clustered=False)
        models = dict(self.candidates)
        found = {name: out_of_fold_predictions(each, rows, target, splitter, None, {}) for name, each in models.items()}
        errors = {name: float(np.sqrt(np.mean((target - each[0]) ** 2))) for name, each in found.items()}
        best = min(errors, key=lambda name: errors[name])
        self.estimator_ = fitted_clone(models[best], rows, target)
        self.best_, self.errors_, self.out_of_fold_ = best, errors, found[best]
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions of the best regressor. Shape (n,)."""
        rows = checked_rows(self, X)
        return np.asarray(self.estimator_.predict(rows))


def linear_regressor() -> Pipeline:
    """Return ridge regression of standardised features; its penalty is chosen by leave-one-out errors."""
    return make_pipeline(StandardScaler(), RidgeCV(PENALTIES))


def small_table_regressor(seed: int) -> BestRegressor:
    """Return the best of a linear model, a kernel model and extra trees, not yet fitted."""
    candidates = (
        ("linear", linear_regressor()),
        ("kernel", make_pipeline(StandardScaler(), KernelFeatures(random_state=seed), RidgeCV(PENALTIES))),
        ("trees", ExtraTreesRegressor(_N_TREES, random_state=seed)),
    )
    return BestRegressor(candidates, random_state=seed)


def choices_text(models: Iterable[Any]) -> str:
    """Return which regressors were the best in the models of all folds, or in one model; empty if none was compared.

    For a stack of regressors, these are the regressors with their weights.

    Parameters
    ----------
    models : iterable of fitted regressors
        With or without a spread, a transform of the target or the encoder of a table.
    """
    names = [name for model in models if (name := _best_name(model)) is not None]
    counts = Counter(names).most_common()
    if len(names) < 2:
        return "".join(names)
    (first, n), *others = counts
    return ", ".join([f"{first} in {n} of {len(names)} folds", *(f"{name} in {n}" for name, n in others)])


def _best_name(model: Any) -> str | None:
    """Return the name of the best regressor in a fitted model, or the weights of a stack; None if it has neither."""
    inner = innermost(model)
    if isinstance(inner, BestRegressor):
        return inner.best_
    return str(inner.report_.summary) if hasattr(inner, "report_") else None


def innermost(model: Any) -> Any:
    """Return the regressor inside a fitted pipeline, a frozen estimator, a transform of the target or a wrapper."""
    while not isinstance(model, BestRegressor):
        if isinstance(model, Pipeline):
            model = model[-1]
        elif isinstance(model, TransformedTargetRegressor):
            model = model.regressor_
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "estimator_"):
            model = model.estimator_
        else:
            break
    return model
