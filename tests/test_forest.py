"""The quantile forest: Meinshausen's weights, with all rows of a leaf."""

import sys

import joblib
import numpy as np
import pytest
from scipy.stats import norm

from evencover.models import QuantileForest
from evencover.synthetic import heteroskedastic

DATA = heteroskedastic(200, seed=0)
NEW = heteroskedastic(50, seed=1)


def weights_by_hand(model, X):
    """Return the weight of each training row for each row: 1 / leaf size in a common leaf, averaged over trees."""
    forest, units = model.forest_, model.scaling_
    new, old = (units.features(rows).astype(np.float32) for rows in (X, DATA.X))
    total = np.zeros((len(X), len(DATA.y)))
    for tree, bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        shares = (tree.apply(new)[:, None] == tree.apply(old[bag])).astype(float)
        shares /= shares.sum(axis=1, keepdims=True)
        for position, row in enumerate(bag):
            total[:, row] += shares[:, position]
    return total / len(forest.estimators_)


def test_the_mean_is_the_weighted_mean_of_the_targets():
    model = QuantileForest(n_estimators=20, center="mean", random_state=0).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(model.predict(NEW.X), weights_by_hand(model, NEW.X) @ DATA.y)


def test_quantiles_are_weighted_quantiles_of_the_targets():
    """The cumulative weight passes the level between the two targets around a quantile."""
    model = QuantileForest(n_estimators=20, quantiles=[0.25, 0.75], random_state=0).fit(DATA.X, DATA.y)
    quantiles = model.predict_quantiles(NEW.X)
    order = np.argsort(DATA.y)
    for weights, row in zip(weights_by_hand(model, NEW.X)[:, order], quantiles, strict=True):
        counted = weights > 0
        targets, total = DATA.y[order][counted], np.cumsum(weights[counted])
        for level, value in zip(model.plan_.levels, row, strict=True):
            above = np.searchsorted(targets, value - 1e-12)
            assert (total[above - 2] if above > 1 else 0) <= level + 1e-9
            assert level - 1e-9 <= total[min(above, len(total) - 1)]


def test_the_distribution_has_the_quantiles_of_the_forest():
    """All in one pass; bounds and median are among them, with the digits of `predict_quantiles`."""
    model = QuantileForest(n_estimators=20, softening=2, quantiles=[0.3, 0.123], random_state=0).fit(DATA.X, DATA.y)
    prediction, own = model.predict_full(NEW.X), model.predict_quantiles(NEW.X)
    assert prediction.quantiles.shape == (50, 24)
    columns = [list(prediction.probabilities).index(level) for level in model.plan_.levels]
    np.testing.assert_array_equal(prediction.quantiles[:, columns], own)
    every = model._forest_outputs(NEW.X, prediction.probabilities.tolist())
    np.testing.assert_array_equal(prediction.quantiles, every)
    assert prediction.crossings == 0


def test_few_rows_show_no_extreme_quantiles():
    """Of 50 targets, the 1 % quantile is not the smallest one, but continues the normal tail."""
    prediction = QuantileForest(n_estimators=20, random_state=0).fit(DATA.X[:50], DATA.y[:50]).predict_full(NEW.X)
    columns = [list(prediction.probabilities).index(level) for level in (0.01, 0.025, 0.5)]
    extreme, shown, median = prediction.quantiles[:, columns].T
    np.testing.assert_allclose((extreme - median) / norm.ppf(0.01), (shown - median) / norm.ppf(0.025))


@pytest.mark.parametrize(("unit", "offset"), [(1.0, 1e9), (1e-9, 0.0), (1e9, 0.0)])
def test_the_unit_and_offset_of_the_target_have_no_effect(unit, offset):
    """Without standardisation, trees lose digits if the mean is large, and do not split if the variance is tiny."""
    plain, other = (
        QuantileForest(n_estimators=20, random_state=0).fit(DATA.X + offset, y).predict_full(NEW.X + offset)
        for y in (DATA.y, unit * DATA.y + offset)
    )
    np.testing.assert_allclose(other.spread, unit * plain.spread, rtol=1e-4)


def test_quantiles_are_in_order_and_softened():
    model = QuantileForest(n_estimators=10, softening=2, quantiles=[0.25], random_state=0).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(model.plan_.levels, [0.1, 0.25, 0.5, 0.9])
    quantiles, prediction = model.predict_quantiles(NEW.X), model.predict_full(NEW.X)
    np.testing.assert_array_equal(prediction.center, quantiles[:, 2])
    np.testing.assert_array_equal(prediction.lower, quantiles[:, 0])
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    assert prediction.level == pytest.approx(0.8)


def test_the_default_settings_are_those_of_the_paper():
    forest = QuantileForest().fit(DATA.X, DATA.y).forest_
    assert (forest.n_estimators, forest.min_samples_leaf, forest.max_samples_leaf) == (100, 10, None)


def test_a_forest_in_read_only_memory_predicts_the_same(tmp_path):
    """Joblib passes large arrays to workers as such files."""
    model = QuantileForest(n_estimators=10, random_state=0).fit(DATA.X, DATA.y)
    joblib.dump(model, tmp_path / "model")
    found = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(found.predict(NEW.X), model.predict(NEW.X))


@pytest.mark.slow
def test_workers_can_predict_with_a_fitted_forest():
    model = QuantileForest(n_estimators=10, random_state=0).fit(DATA.X, DATA.y)
    found = joblib.Parallel(n_jobs=2, max_nbytes=1)(joblib.delayed(model.predict)(part) for part in np.split(NEW.X, 2))
    np.testing.assert_array_equal(np.concatenate(found), model.predict(NEW.X))


def test_without_quantile_forest_the_error_tells_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "quantile_forest", None)
    with pytest.raises(ImportError, match=r"QuantileForest needs quantile_forest: pip install 'evencover\[forest\]'"):
        QuantileForest().fit(DATA.X, DATA.y)
