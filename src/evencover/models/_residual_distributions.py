"""Distributions of residuals given the features: a spread times a common shape, and forests."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor

from evencover.inputs.arrays import FloatArray, IntArray
from evencover.models.members import Effort, random_rows

_SMALLEST_SIZE = 1e-3  # added to absolute residuals in units of their mean, because the gamma loss needs positive ones
_KNOTS = ndtr(np.linspace(-3, 3, 80))  # probabilities of the residuals at which forests know the cdf
_SPREAD_ROWS = 10  # the boosted spread gets so many times the rows of a forest, because boosting is faster
_LEAVES = 1000  # leaves of a tree in a forest of residuals, at most
_SMALLEST_LEAF = 5
_ROWS_AT_A_TIME = 10_000

Done = Callable[[], None]  # called after each fit


class ResidualDistribution(Protocol):
    """The distribution of residuals given features, as quantiles at fixed probabilities."""

    def fit_cross_fitted(self, features: FloatArray, residuals: FloatArray, parts: IntArray, done: Done) -> FloatArray:
        """Fit to all rows. Return the quantiles of each row that models fitted without its part predict; (n, Q)."""

    def quantiles(self, features: FloatArray) -> FloatArray:
        """Return the quantiles of new rows. Shape (n, Q)."""


def residual_distributions(
    effort: Effort, n: int, probabilities: tuple[float, ...], seed: int
) -> dict[str, ResidualDistribution]:
    """Return the distributions of an effort by name, for a table of n rows, not yet fitted."""
    trees = {"n_trees": effort.n_distribution_trees, "max_rows": effort.row_limit(n), "random_state": seed}
    every: dict[str, ResidualDistribution] = {
        "spread times shape": ScaledShape(
            probabilities, max_rows=_SPREAD_ROWS * effort.row_limit(n), random_state=seed
        ),
        "random forest": LeafDistribution(probabilities, splits="best", **trees),
        "extra trees": LeafDistribution(probabilities, splits="random", **trees),
    }
    return {name: every[name] for name in effort.distributions}


class ScaledShape(BaseEstimator):  # type: ignore[misc]
    """A spread for each row, times quantiles that all rows share: those of the residuals divided by their spreads.

    Boosted trees with a gamma loss predict the size of a residual.

    Parameters
    ----------
    probabilities : tuple of Q floats
        The probabilities of the quantiles.
    max_rows : int, optional
        If there are more rows, the trees are fitted on this many random ones.
    random_state : int
        Seed of the trees.
    """

    def __init__(self, probabilities: tuple[float, ...], *, max_rows: int | None = None, random_state: int = 0) -> None:
        self.probabilities = probabilities
        self.max_rows = max_rows
        self.random_state = random_state

    def fit_cross_fitted(self, features: FloatArray, residuals: FloatArray, parts: IntArray, done: Done) -> FloatArray:
        """Fit to all rows. Return the quantiles of each row that models fitted without its part predict; (n, Q)."""
        self.unit_ = float(np.abs(residuals).mean())
        spread = np.empty(len(residuals))
        for part in np.unique(parts):
            own = parts == part
            spread[own] = self._spread(self._fitted(features[~own], residuals[~own]), features[own])
            done()
        self.shape_ = np.quantile(residuals / spread, self.probabilities, method="weibull")
        self.regressor_ = self._fitted(features, residuals)
        done()
        return np.asarray(spread[:, None] * self.shape_)

    def quantiles(self, features: FloatArray) -> FloatArray:
        """Return the quantiles of new rows. Shape (n, Q)."""
        return np.asarray(self._spread(self.regressor_, features)[:, None] * self.shape_)

    def _fitted(self, features: FloatArray, residuals: FloatArray) -> HistGradientBoostingRegressor:
        chosen = random_rows(len(residuals), self.max_rows, self.random_state)
        sizes = np.abs(residuals[chosen]) / self._positive_unit + _SMALLEST_SIZE
        return HistGradientBoostingRegressor(
            loss="gamma",
            learning_rate=0.05,
            max_iter=100,
            max_leaf_nodes=15,
            min_samples_leaf=30,
            random_state=self.random_state,
        ).fit(features[chosen], sizes)

    def _spread(self, regressor: Any, features: FloatArray) -> FloatArray:
        """Return the spread of rows; trees with a gamma loss may predict less than the smallest size."""
        return np.asarray(self._positive_unit * np.maximum(regressor.predict(features), _SMALLEST_SIZE))

    @property
    def _positive_unit(self) -> float:
        return self.unit_ if self.unit_ > 0 else 1.0


class LeafDistribution(BaseEstimator):  # type: ignore[misc]
    """The residuals in the leaves of a forest whose trees split by the residual and by its size.

    The cdf of a row is the mean over the trees of the empirical cdf in its leaf, as in a quantile regression forest.
    Trees that split by the residual alone would look for differences of its mean, which is near zero everywhere; with
    the absolute residual as a second target they find differences of its spread. The cdf is known at 80 quantiles of
    all residuals, and linear in between.

    Parameters
    ----------
    probabilities : tuple of Q floats
        The probabilities of the quantiles.
    splits : {"best", "random"}
        Trees of a random forest, or extremely randomised trees.
    n_trees : int
        Number of trees.
    max_rows : int, optional
        If there are more rows, the trees are fitted on this many random ones.
    random_state : int
        Seed of the trees.
    """

    def __init__(
        self,
        probabilities: tuple[float, ...],
        *,
        splits: str = "best",
        n_trees: int = 100,
        max_rows: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.probabilities = probabilities
        self.splits = splits
        self.n_trees = n_trees
        self.max_rows = max_rows
        self.random_state = random_state

    def fit_cross_fitted(self, features: FloatArray, residuals: FloatArray, parts: IntArray, done: Done) -> FloatArray:
        """Fit to all rows. Return the quantiles of each row that models fitted without its part predict; (n, Q)."""
        result = np.empty((len(residuals), len(self.probabilities)))
        for part in np.unique(parts):
            own = parts == part
            result[own] = self._fit(features[~own], residuals[~own]).quantiles(features[own])
            done()
        self._fit(features, residuals)
        done()
        return result

    def _fit(self, features: FloatArray, residuals: FloatArray) -> "LeafDistribution":
        """Grow the trees, and remember the leaf of each row in each tree."""
        chosen = random_rows(len(residuals), self.max_rows, self.random_state)
        features, residuals = features[chosen], residuals[chosen]
        leaf = max(_SMALLEST_LEAF, len(residuals) // _LEAVES)
        settings = {"n_estimators": self.n_trees, "min_samples_leaf": leaf, "random_state": self.random_state}
        if self.splits == "best":
            self.forest_ = RandomForestRegressor(max_features=0.6, max_samples=-(-len(residuals) // 2), **settings)
        else:
            self.forest_ = ExtraTreesRegressor(**settings)
        sizes = np.abs(residuals)
        scales = [float(each.std()) or 1.0 for each in (residuals, sizes)]
        self.forest_.fit(features, np.column_stack([residuals, sizes]) / scales)
        self.knots_ = np.unique(np.quantile(residuals, _KNOTS))
        self.bins_ = np.searchsorted(self.knots_, residuals)  # the residual is at most the knot of its bin
        self.leaves_ = self._leaves(features).astype(np.int32)
        self.__dict__.pop("_tables", None)
        return self

    def quantiles(self, features: FloatArray) -> FloatArray:
        """Return the quantiles of new rows. Shape (n, Q)."""
        blocks = (features[i : i + _ROWS_AT_A_TIME] for i in range(0, len(features), _ROWS_AT_A_TIME))
        return np.concatenate([self._inverse(self._cdf(block)) for block in blocks])

    def _cdf(self, features: FloatArray) -> FloatArray:
        """Return the cdf of rows at the knots. Shape (n, knots)."""
        if not hasattr(self, "_tables"):
            self._tables = [self._leaf_cdf(leaves) for leaves in self.leaves_.T]
        leaves = self._leaves(features)
        total = np.zeros((len(features), len(self.knots_)), dtype=np.float32)
        for own, table in zip(leaves.T, self._tables, strict=True):
            total += table[own]
        return np.asarray(total / len(self._tables))

    def _leaves(self, features: FloatArray) -> IntArray:
        """Return the leaf of each row in each tree. Shape (n, trees).

        The forest's own `apply` starts a task for each tree, which takes most of the time if there are few rows.
        """
        rows = np.ascontiguousarray(features, dtype=np.float32)
        return np.column_stack([tree.tree_.apply(rows) for tree in self.forest_.estimators_])

    def _leaf_cdf(self, leaves: IntArray) -> FloatArray:
        """Return the cdf in each leaf of a tree at the knots; rows of nodes that are no leaves are zero."""
        shape = int(leaves.max()) + 1, len(self.knots_) + 1
        counts = np.bincount(leaves * shape[1] + self.bins_, minlength=shape[0] * shape[1]).reshape(shape)
        sizes = np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return np.asarray(counts[:, :-1].cumsum(axis=1) / sizes, dtype=np.float32)

    def _inverse(self, cdf: FloatArray) -> FloatArray:
        """Return the quantiles of rows from their cdf at the knots. Shape (n, Q)."""
        if len(self.knots_) == 1:
            return np.full((len(cdf), len(self.probabilities)), self.knots_[0])
        columns = []
        for p in self.probabilities:
            after = np.clip(np.count_nonzero(cdf < p, axis=1), 1, len(self.knots_) - 1)[:, None]
            low, high = (np.take_along_axis(cdf, each, axis=1)[:, 0] for each in (after - 1, after))
            share = np.clip((p - low) / np.maximum(high - low, 1e-9), 0, 1)
            start, end = self.knots_[after[:, 0] - 1], self.knots_[after[:, 0]]
            columns.append(start + share * (end - start))
        return np.column_stack(columns)

    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "_tables"}
