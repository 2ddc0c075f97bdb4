"""The regressors that `AutoRegressor` combines, and how much work each effort allows."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

from evencover._internal.arrays import FloatArray
from evencover.models._best_regressor import PENALTIES, linear_regressor
from evencover.models._kernel_regressor import KernelRegressor
from evencover.models._ridge import RidgeRegressor
from evencover.models._validation import (
    CloneMixin,
    checked_features,
    checked_rows,
    checked_target,
    fitted_clone,
    remember_features,
)

EffortName: TypeAlias = Literal["fast", "normal", "best"]
_ROWS_AT_A_TIME = 10_000  # splines and products of features take a few kB of memory for each row
_BEYOND_RANGE = 0.5  # how far predictions may lie outside the range of the targets, as a share of it
_MAX_FEATURES_FOR_PRODUCTS = 30  # their products are then at most 495 columns
_MAX_FEATURES_FOR_SPLINES = 300
_ROWS_PER_LEAF = 4000  # trees of larger tables have leaves of more rows, so that their size is bounded
_FITTED_ON_ALL_ROWS = ("boosting", "slow boosting", "linear")
_LARGE_TABLE_SHARE = 20
_NETWORK_STEPS = 2000
_NETWORK_EPOCHS = (20, 200)
_NETWORK_BATCH = 64


@dataclass(frozen=True)
class Effort:
    """How much work `AutoRegressor` does: folds, regressors, and their sizes.

    Parameters
    ----------
    n_folds : int
        Folds of the out-of-fold predictions.
    members, distributions : tuple of str
        Names of the regressors, and of the distributions of their residuals.
    n_trees, n_distribution_trees : int
        Trees of the regressor, and of each forest of residuals.
    n_kernels : int
        Kernels of the smooth regressor.
    n_networks : int
        Networks; each is a regressor of its own.
    max_rows : int
        Rows that regressors other than boosting and the linear one are fitted on, and forests of residuals: this many
        random ones if there are more, or a twentieth of all rows, whichever is larger.
    """

    n_folds: int
    members: tuple[str, ...]
    distributions: tuple[str, ...]
    n_trees: int
    n_distribution_trees: int
    n_kernels: int = 500
    n_networks: int = 0
    max_rows: int = 6000

    def row_limit(self, n: int) -> int:
        """Return the largest number of rows, of n, for slow regressors and for forests of residuals."""
        return max(self.max_rows, n // _LARGE_TABLE_SHARE)


_QUICK = ("boosting", "trees", "linear", "splines", "products")
_ALL = (*_QUICK, "slow boosting", "kernels")
_DISTRIBUTIONS = ("spread times shape", "extra trees", "random forest")
EFFORTS: dict[str, Effort] = {
    "fast": Effort(3, _QUICK, _DISTRIBUTIONS[:2], n_trees=15, n_distribution_trees=20, max_rows=4000),
    "normal": Effort(5, _ALL, _DISTRIBUTIONS, n_trees=50, n_distribution_trees=50, n_networks=1),
    "best": Effort(
        10,
        _ALL,
        _DISTRIBUTIONS,
        n_trees=300,
        n_distribution_trees=300,
        n_kernels=1500,
        n_networks=4,
        max_rows=50_000,
    ),
}


class StackMember(CloneMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that is safe to combine: fitted on a limited number of rows, with predictions of limited size.

    Predictions lie at most half the range of the training targets outside of it. A polynomial or a network can predict
    any number for a row unlike all training rows.

    Parameters
    ----------
    regressor : regressor
        Any regressor.
    max_rows : int, optional
        If there are more rows, it is fitted on this many random ones.
    random_state : int
        Seed of the choice of rows.
    """

    def __init__(self, regressor: Any, *, max_rows: int | None = None, random_state: int = 0) -> None:
        self.regressor = regressor
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the regressor."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        chosen = random_rows(len(target), self.max_rows, self.random_state)
        with _interruptible():
            self.regressor_ = fitted_clone(self.regressor, rows[chosen], target[chosen])
        margin = _BEYOND_RANGE * float(np.ptp(target))
        self.limits_ = float(target.min()) - margin, float(target.max()) + margin
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions, between the limits. Shape (n,)."""
        rows = checked_rows(self, X)
        blocks = (rows[i : i + _ROWS_AT_A_TIME] for i in range(0, len(rows), _ROWS_AT_A_TIME))
        predicted = np.concatenate([np.ravel(self.regressor_.predict(block)) for block in blocks])
        return np.asarray(np.clip(predicted, *self.limits_))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the training of a network: scikit-learn ends it early, and only warns.

    That a network has not converged is no warning here, because its number of steps is a setting.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("error", message="Training interrupted by user")
        try:
            yield
        except UserWarning as warning:
            raise KeyboardInterrupt from warning


def random_rows(n: int, limit: int | None, seed: int) -> Any:
    """Return positions of at most `limit` random rows, in their order; all rows if there are no more."""
    if limit is None or n <= limit:
        return slice(None)
    return np.sort(np.random.default_rng(seed).permutation(n)[:limit])


def stack_members(effort: Effort, n: int, n_features: int, seed: int) -> dict[str, StackMember]:
    """Return the regressors of an effort by name, for a table of n rows with standardised features and target.

    Parameters
    ----------
    effort : Effort
        Which regressors, and their sizes.
    n, n_features : int
        Numbers of rows and features.
    seed : int
        Seed of all regressors.
    """
    unused = set()
    if n_features > _MAX_FEATURES_FOR_PRODUCTS:
        unused.add("products")
    if n_features > _MAX_FEATURES_FOR_SPLINES:
        unused.add("splines")
    members = {name: _regressor(name, effort, n, seed) for name in effort.members if name not in unused}
    for i in range(effort.n_networks):
        name = "network" if effort.n_networks == 1 else f"network {i + 1}"
        members[name] = _network(min(n, effort.row_limit(n)), seed + i)
    rows = {name: None if name in _FITTED_ON_ALL_ROWS else effort.row_limit(n) for name in members}
    return {name: StackMember(each, max_rows=rows[name], random_state=seed) for name, each in members.items()}


def _regressor(name: str, effort: Effort, n: int, seed: int) -> Any:
    """Return the regressor with this name."""
    match name:
        case "boosting":
            return HistGradientBoostingRegressor(random_state=seed)
        case "slow boosting":
            return HistGradientBoostingRegressor(
                learning_rate=0.05,
                max_iter=400,
                max_leaf_nodes=15,
                min_samples_leaf=5,
                max_features=0.7,
                early_stopping=False,
                random_state=seed,
            )
        case "trees":
            leaf = 1 + min(n, effort.row_limit(n)) // _ROWS_PER_LEAF
            return ExtraTreesRegressor(effort.n_trees, min_samples_leaf=leaf, random_state=seed)
        case "linear":
            return linear_regressor()
        case "splines":
            splines = SplineTransformer(6, knots="quantile", extrapolation="linear")
            return make_pipeline(splines, RidgeRegressor(tuple(PENALTIES)))
        case "products":
            return make_pipeline(
                PolynomialFeatures(2, include_bias=False), StandardScaler(), RidgeRegressor(tuple(PENALTIES))
            )
        case _:
            return KernelRegressor(effort.n_kernels, random_state=seed)


def _network(n: int, seed: int) -> MLPRegressor:
    """Return a network that is trained for a number of steps that depends little on the number of rows."""
    batch = min(_NETWORK_BATCH, max(1, n // 2))
    epochs = int(np.clip(-(-_NETWORK_STEPS * batch // n), *_NETWORK_EPOCHS))
    return MLPRegressor(
        hidden_layer_sizes=(64, 64),
        alpha=0.01,
        learning_rate_init=3e-3,
        batch_size=batch,
        max_iter=epochs,
        random_state=seed,
    )
