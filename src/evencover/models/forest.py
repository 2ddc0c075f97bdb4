"""Quantile regression forest."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from evencover.inputs.arrays import FloatArray
from evencover.inputs.optional import import_optional
from evencover.models._outputs import Center, QuantilePlan, Scaling, estimable_probabilities, relative_floor
from evencover.models.estimators import CenterMixin, checked_features, checked_rows, checked_target, remember_features
from evencover.predictions import Prediction

_ROWS_FOR_FLOOR = 1000
_ROWS_AT_A_TIME = 10_000  # a prediction takes a few kB of memory for each row


class QuantileForest(CenterMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Quantile regression forest: predicts quantiles of the training targets in its leaves (QRF in the paper).

    The quantiles of a row are weighted quantiles of the training targets. In each tree, a training row in the same
    leaf has the weight 1 / leaf size, any other row 0; the weights are averaged over the trees. The bounds are the
    α/2 and 1 − α/2 quantiles, where α = softening · (1 − level). The spread is (upper − lower) / 2z, where z is the
    normal quantile of 1 − α/2.

    The prediction also has 23 quantiles from 0.01 to 0.99. With n training rows, those below 1 / (n + 1) and above
    n / (n + 1) are in normal tails. Quantiles of one forest never cross.

    Parameters
    ----------
    level : float
        Nominal coverage of the forest's own bounds, before softening.
    softening : float
        Factor on the error rate 1 − level of the forest's own bounds. The paper uses 2 inside a `ConformalRegressor`,
        whose calibration corrects the level. Without calibration use 1.
    quantiles : sequence of float
        Additional quantile levels, for `predict_quantiles` and the prediction.
    center : {"median", "mean"}
        What `predict` returns.
    n_estimators : int
        Number of trees.
    min_samples_leaf : int
        Smallest number of rows in a leaf.
    max_features : float, int or str
        Number of features considered at each split, as in scikit-learn's `RandomForestRegressor`.
    n_jobs : int, optional
        Number of threads.
    random_state : int, RandomState or None
        Seed of the trees.

    Attributes
    ----------
    forest_ : RandomForestQuantileRegressor
        The fitted forest of the package quantile-forest, on standardised features and target.
    scaling_ : Scaling
        Means and standard deviations of features and target. Without standardisation, trees lose digits if means are
        large or numbers are small.
    plan_ : QuantilePlan
        The quantiles that are predicted; ``plan_.levels`` are the levels of `predict_quantiles`, in order.
    spread_floor_ : float
        The smallest spread that is predicted: 0.001 times the median spread on the training rows, or on 1000 of them
        if there are more.

    References
    ----------
    Meinshausen, "Quantile regression forests", Journal of Machine Learning Research, 2006.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> model = QuantileForest(n_estimators=20, random_state=0).fit(sample.X, sample.y)
    >>> model.predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper, 23 quantiles; level=0.9)
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
        """Fit the forest."""
        plan = QuantilePlan.of(self.level, self.softening, self.quantiles, self.center)
        package = import_optional("quantile_forest", extra="forest", purpose="QuantileForest")
        target = checked_target(self, X, y)
        plan = replace(plan, grid=estimable_probabilities(len(target)))
        rows = checked_features(self, X)
        scaling = Scaling.of(rows, target)
        forest = package.RandomForestQuantileRegressor(
            n_estimators=self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            max_samples_leaf=None,  # all rows of a leaf, not one
            max_features=self.max_features,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        forest.fit(scaling.features(rows), scaling.target(target))
        remember_features(self, X)
        self.forest_, self.scaling_, self.plan_, self.spread_floor_ = forest, scaling, plan, 0.0
        every = -(-len(rows) // _ROWS_FOR_FLOOR)
        self.spread_floor_ = relative_floor(self._prediction(rows[::every]).spread, target)
        return self

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread, bounds and quantiles."""
        return self._prediction(checked_rows(self, X))

    def predict_quantiles(self, X: Any) -> FloatArray:
        """Return the bounds, the median and the additional quantiles. Shape (n, q), for the levels ``plan_.levels``."""
        X = checked_rows(self, X)
        return self._forest_outputs(X, list(self.plan_.levels))

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Joblib passes large arrays to workers read-only, and quantile-forest cannot be restored from those.
        state = {name: value for name, value in vars(self).items() if name != "forest_"}
        return _restored, (type(self), pickle.dumps(getattr(self, "forest_", None)), state)

    def _prediction(self, X: FloatArray) -> Prediction:
        mean = self._forest_outputs(X, "mean")[:, 0] if self.plan_.center == "mean" else None
        quantiles = self._forest_outputs(X, list(self.plan_.probabilities))
        return self.plan_.prediction(quantiles, mean, self.spread_floor_)

    def _forest_outputs(self, X: FloatArray, quantiles: Any) -> FloatArray:
        """Return quantiles or means in units of the target; every leaf has the same total weight. Shape (n, q)."""
        blocks = (self.scaling_.features(X[i : i + _ROWS_AT_A_TIME]) for i in range(0, len(X), _ROWS_AT_A_TIME))
        values = [self.forest_.predict(block, quantiles=quantiles, weighted_leaves=True) for block in blocks]
        return self.scaling_.to_target(np.concatenate(values)).reshape(len(X), -1)


def _restored(kind: type[QuantileForest], pickled_forest: bytes, state: dict[str, Any]) -> QuantileForest:
    model = kind.__new__(kind)
    forest = pickle.loads(pickled_forest)  # noqa: S301
    model.__dict__.update(state if forest is None else {**state, "forest_": forest})
    return model
