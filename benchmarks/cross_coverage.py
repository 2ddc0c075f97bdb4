"""Print the coverage of cross-conformal regression in simulations: ``python -m benchmarks.cross_coverage``.

Three tables, all at level 0.9 with the residual score:

1. Four models with 100 rows of normal features and normal noise, by method, and what is guaranteed.
2. `BySpread(3)` with ten folds: the coverage of each group, for a linear model of center and spread.
3. A group with 20 % of 100 rows: how often its intervals are infinite, and its coverage where they are finite.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from benchmarks.markdown import print_row
from evencover import ByFeature, BySpread, ConformalRegressor, CrossConformalRegressor, Prediction
from evencover.inputs.arrays import FloatArray
from evencover.synthetic import functional_dependence

_LEVEL, _ROWS, _DATA_SETS, _NEW_ROWS = 0.9, 100, 60, 100
_MODELS: Mapping[str, tuple[Any, int]] = {
    "linear, 5 features": (LinearRegression(), 5),
    "linear, 50 features": (LinearRegression(), 50),
    "nearest neighbour, 5 features": (KNeighborsRegressor(1), 5),
    "tree, 5 features": (DecisionTreeRegressor(random_state=0), 5),
}
_METHODS: Mapping[str, dict[str, Any]] = {
    **{f"{cv} folds": {"cv": cv} for cv in (2, 5, 10)},
    "jackknife+": {"method": "jackknife+"},
    "after bootstrap": {"method": "jackknife+-after-bootstrap"},
}
_SPREAD_ROWS, _SPREAD_DATA_SETS = (60, 200), 300
_GROUP_SHARE, _GROUP_DATA_SETS = 0.2, 150


class CenterAndSpread(RegressorMixin, BaseEstimator):
    """Linear models of the target, and of the absolute residuals as a spread."""

    def fit(self, X: FloatArray, y: FloatArray) -> "CenterAndSpread":
        """Fit both models; the residuals are those of the training rows."""
        self.center_ = LinearRegression().fit(X, y)
        self.spread_ = LinearRegression().fit(X, np.abs(y - self.center_.predict(X)))
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the centers."""
        return np.asarray(self.center_.predict(X))

    def predict_full(self, X: FloatArray) -> Prediction:
        """Return centers and spreads."""
        return Prediction(self.predict(X), spread=np.maximum(self.spread_.predict(X), 0.01))


def main() -> None:
    """Print the three tables."""
    by_model()
    print()
    by_spread()
    print()
    of_a_small_group()


def by_model() -> None:
    """Print the coverage of each model by each method, and the guaranteed one."""
    print_row("model", *_METHODS)
    print_row(*["---"] * (1 + len(_METHODS)))
    guaranteed: list[str] = []
    for name, (model, n_features) in _MODELS.items():
        found = [_coverage_and_bound(model, n_features, settings) for settings in _METHODS.values()]
        print_row(name, *(f"{coverage:.3f}" for coverage, _ in found))
        guaranteed = [f"{bound:.3f}" for _, bound in found]
    print_row("guaranteed", *guaranteed)


def _coverage_and_bound(model: Any, n_features: int, settings: dict[str, Any]) -> tuple[float, float]:
    shares = []
    for seed in range(_DATA_SETS):
        rng = np.random.default_rng([seed, n_features])
        X = rng.normal(size=(_ROWS + _NEW_ROWS, n_features))
        y = X.sum(axis=1) + rng.normal(size=len(X))
        regressor = CrossConformalRegressor(model, random_state=seed, **settings).fit(X[:_ROWS], y[:_ROWS])
        shares.append(regressor.predict_interval(X[_ROWS:], _LEVEL).covers(y[_ROWS:]).mean())
    return float(np.mean(shares)), float(regressor.guarantee_.lower_bound(_LEVEL))


def by_spread() -> None:
    """Print the coverage of three groups of the spread, with few and with more rows."""
    print_row("rows", "low", "medium", "high")
    print_row(*["---"] * 4)
    for n in _SPREAD_ROWS:
        covered, rows = np.zeros(3), np.zeros(3)
        for seed in range(_SPREAD_DATA_SETS):
            rng = np.random.default_rng([seed, n])
            X = rng.uniform(size=(n + _NEW_ROWS, 1))
            y = X[:, 0] + (0.2 + X[:, 0]) * rng.normal(size=len(X))
            regressor = CrossConformalRegressor(CenterAndSpread(), taxonomy=BySpread(3), random_state=seed)
            intervals = regressor.fit(X[:n], y[:n]).predict_interval(X[n:], _LEVEL)
            codes = intervals.groups.codes  # type: ignore[union-attr]
            rows += np.bincount(codes, minlength=3)
            covered += np.bincount(codes, intervals.covers(y[n:]), minlength=3)
        print_row(str(n), *(f"{share:.3f}" for share in covered / rows))


def of_a_small_group() -> None:
    """Print how often a small group gets infinite intervals, and its coverage otherwise, by a split and by CV+."""
    methods: Mapping[str, Callable[..., Any]] = {"split": ConformalRegressor, "CV+": CrossConformalRegressor}
    print_row("method", "data sets with infinite intervals", "coverage of the group")
    print_row(*["---"] * 3)
    for name, method in methods.items():
        infinite, shares = 0, []
        for seed in range(_GROUP_DATA_SETS):
            rng = np.random.default_rng([seed, _ROWS])
            old, new = (functional_dependence().sample(n, seed=rng) for n in (_ROWS, _NEW_ROWS))
            group = (rng.random(_ROWS) < _GROUP_SHARE).astype(float)
            regressor = method(LinearRegression(), taxonomy=ByFeature(0), random_state=seed)
            regressor.fit(np.column_stack([group, old.X]), old.y)
            few = regressor.calibration_.sizes.get(1.0, 0) < 9  # rows that a finite interval needs
            infinite += few
            if not few:
                intervals = regressor.predict_interval(np.column_stack([np.ones(_NEW_ROWS), new.X]), _LEVEL)
                shares.append(new.coverage(intervals).mean())
        print_row(name, f"{infinite / _GROUP_DATA_SETS:.0%}", f"{np.mean(shares):.3f}")


if __name__ == "__main__":
    main()
