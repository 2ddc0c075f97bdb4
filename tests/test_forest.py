"""The quantile forest: Meinshausen's weights, every row of a leaf."""

import sys

import joblib
import numpy as np
import pytest

from evencover.models import QuantileForest
from evencover.synthetic import heteroskedastic

DATA = heteroskedastic(200, seed=0)
NEW = heteroskedastic(50, seed=1)


def weights_by_hand(model, X):
    """Return how much each training row counts for each row: 1 / leaf size where they share a leaf, over the trees."""
    forest = model.forest_
    total = np.zeros((len(X), len(DATA.y)))
    for tree, bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        of_rows, of_bag = tree.apply(X.astype(np.float32)), tree.apply(DATA.X[bag].astype(np.float32))
        shares = (of_rows[:, None] == of_bag).astype(float)
        shares /= shares.sum(axis=1, keepdims=True)
        for place, row in enumerate(bag):
            total[:, row] += shares[:, place]
    return total / len(forest.estimators_)


def test_the_mean_and_the_quantiles_are_of_the_weighted_targets():
    """Half the weight lies at or below the median, and 95 % at or below the upper bound, up to one row's weight."""
    model = QuantileForest(n_estimators=20, center="mean", quantiles=[0.5], random_state=0).fit(DATA.X, DATA.y)
    weights = weights_by_hand(model, NEW.X)
    np.testing.assert_allclose(model.predict(NEW.X), weights @ DATA.y)
    quantiles = model.predict_quantiles(NEW.X)
    for level, values in zip(model.plan_.levels, quantiles.T, strict=True):
        below = (weights * (DATA.y < values[:, None] - 1e-12)).sum(axis=1)
        up_to = (weights * (DATA.y <= values[:, None] + 1e-12)).sum(axis=1)
        room = weights.max(axis=1)
        assert np.all(below <= level + room)
        assert np.all(level - room <= up_to)


def test_quantiles_are_in_order_and_softened():
    model = QuantileForest(n_estimators=10, softening=2, quantiles=[0.25], random_state=0).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(model.plan_.levels, [0.1, 0.25, 0.5, 0.9])
    quantiles, prediction = model.predict_quantiles(NEW.X), model.predict_full(NEW.X)
    np.testing.assert_array_equal(prediction.center, quantiles[:, 2])
    np.testing.assert_array_equal(prediction.lower, quantiles[:, 0])
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    assert prediction.level == pytest.approx(0.8)


def test_its_settings_are_the_papers():
    forest = QuantileForest().fit(DATA.X, DATA.y).forest_
    assert (forest.n_estimators, forest.min_samples_leaf, forest.max_samples_leaf) == (100, 10, None)


def test_workers_get_it_whole():
    """Joblib hands large arrays to workers read-only."""
    model = QuantileForest(n_estimators=10, random_state=0).fit(DATA.X, DATA.y)
    found = joblib.Parallel(n_jobs=2, max_nbytes=1)(joblib.delayed(model.predict)(part) for part in np.split(NEW.X, 2))
    np.testing.assert_array_equal(np.concatenate(found), model.predict(NEW.X))


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "quantile_forest", None)
    with pytest.raises(ImportError, match=r"QuantileForest needs quantile_forest: pip install 'evencover\[forest\]'"):
        QuantileForest().fit(DATA.X, DATA.y)
