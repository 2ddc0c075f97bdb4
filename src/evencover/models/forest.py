"""The quantile forest."""

import pickle
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array

from evencover._internal.arrays import FloatArray
from evencover._internal.optional import import_optional
from evencover.models._quantile_plan import Center, QuantilePlan
from evencover.models._scaling import Scaling, relative_floor
from evencover.models._validation import checked_rows, checked_target, remember_features
from evencover.predictions import Prediction

_ROWS_FOR_FLOOR = 1000
_ROWS_AT_A_TIME = 10_000  # memory for a prediction is a few kB a row


class QuantileForest(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A random forest that keeps the targets in its leaves and predicts quantiles of them (the paper's QRF).

    A row's quantiles are those of the training targets, each weighted by how often it shares a leaf with the row
    (1 / leaf size, averaged over the trees). Its bounds are the α/2 and 1 − α/2 quantiles with
    α = softening · (1 − level), and its spread is (upper − lower) / 2z, z being the normal quantile of 1 − α/2.

    Parameters
    ----------
    level : float
        Nominal coverage of its own bounds, before softening.
    softening : float
        How many times as often its own bounds may miss. Inside a `ConformalRegressor`, which puts the level right, 2 is
        the paper's choice. A baseline needs 1.
    quantiles : sequence of float
        Further quantiles, for `predict_quantiles`.
    center : {"median", "mean"}
        What to predict.
    n_estimators : int
        Number of trees.
    min_samples_leaf : int
        Smallest number of rows in a leaf.
    max_features : float, int or str
        Features tried at each split, as in scikit-learn's `RandomForestRegressor`.
    n_jobs : int, optional
        Number of threads.
    random_state : int, RandomState or None
        Seed of the trees.

    Attributes
    ----------
    forest_ : RandomForestQuantileRegressor
        The fitted forest, of the package quantile-forest, in units of `scaling_`.
    scaling_ : Scaling
        Means and deviations of features and target; with large means or small numbers trees lose digits otherwise.
    plan_ : QuantilePlan
        What it predicts; ``plan_.levels`` has all the quantile levels, in order.
    spread_floor_ : float
        A thousandth of the median spread on the training rows (on 1000 of them if there are more); no spread is
        smaller.

    References
    ----------
    Meinshausen, "Quantile regression forests", Journal of Machine Learning Research, 2006.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> model = QuantileForest(n_estimators=20, random_state=0).fit(sample.X, sample.y)
    >>> model.predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper; level=0.9)
    """

    def __init__(
        self,
        *,
        level: float = 0.9,
        softening: float = 1.0,
        quantiles: Sequence[float] = (),
        center: Center = "median",
        n_estimators: int = 100,
        min_samples_leaf: int = 10,
        max_features: Any = 1.0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.level = level
        self.softening = softening
        self.quantiles = quantiles
        self.center = center
        self.n_estimators = n_estimators
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the forest."""
        plan = QuantilePlan.of(self.level, self.softening, self.quantiles, self.center)
        package = import_optional("quantile_forest", extra="forest", purpose="QuantileForest")
        target = checked_target(self, X, y)
        rows = check_array(X, dtype=np.float64, estimator=self, input_name="X")
        scaling = Scaling.of(rows, target)
        forest = package.RandomForestQuantileRegressor(
            n_estimators=self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            max_samples_leaf=None,  # keep every row of a leaf, not one
            max_features=self.max_features,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        forest.fit(scaling.features(rows), scaling.target(target))
        remember_features(self, X)
        self.forest_, self.scaling_, self.plan_, self.spread_floor_ = forest, scaling, plan, 0.0
        some = rows[:: -(-len(rows) // _ROWS_FOR_FLOOR)]
        self.spread_floor_ = relative_floor(self._prediction(some).spread, target)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the center. Shape (n,)."""
        return self.predict_full(X).center

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread and bounds."""
        return self._prediction(checked_rows(self, X))

    def predict_quantiles(self, X: Any) -> FloatArray:
        """Return all the quantiles, each row in order. Shape (n, q), for the levels ``plan_.levels``."""
        X = checked_rows(self, X)
        return self._quantiles(X)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Joblib hands large arrays to workers read-only, and quantile-forest cannot be rebuilt from those.
        state = {name: value for name, value in vars(self).items() if name != "forest_"}
        return _unpickled, (type(self), pickle.dumps(getattr(self, "forest_", None)), state)

    def _prediction(self, X: FloatArray) -> Prediction:
        mean = self._asked(X, "mean")[:, 0] if self.plan_.center == "mean" else None
        return self.plan_.prediction(self._quantiles(X), mean, self.spread_floor_)

    def _quantiles(self, X: FloatArray) -> FloatArray:
        return self._asked(X, list(self.plan_.levels))

    def _asked(self, X: FloatArray, quantiles: Any) -> FloatArray:
        """Return what the forest says, in blocks; leaves count alike, whatever their size. Shape (n, asked)."""
        blocks = (self.scaling_.features(X[i : i + _ROWS_AT_A_TIME]) for i in range(0, len(X), _ROWS_AT_A_TIME))
        values = [self.forest_.predict(block, quantiles=quantiles, weighted_leaves=True) for block in blocks]
        return self.scaling_.to_target(np.concatenate(values)).reshape(len(X), -1)


def _unpickled(kind: type[QuantileForest], forest: bytes, state: dict[str, Any]) -> QuantileForest:
    """Return a model as it was pickled."""
    model = kind.__new__(kind)
    grown = pickle.loads(forest)  # noqa: S301
    model.__dict__.update(state if grown is None else {**state, "forest_": grown})
    return model
