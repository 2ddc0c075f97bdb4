"""The contract of calibrated folds: as of every calibrator, for each method of cross-conformal prediction."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import RepeatedKFold

import evencover.calibration.cross
import evencover.conformal.cross
from evencover import (
    Bounded,
    ByFeature,
    BySpread,
    CrossConformalRegressor,
    IntervalDistance,
    IntervalUnion,
    Normalized,
    ProbabilityDistance,
    Residual,
    Standardized,
)
from evencover.models import FromStd, WithSpread
from evencover.protocols import scores_of
from evencover.synthetic import heteroskedastic

LEVELS = (Fraction(1, 2), Fraction(4, 5), Fraction(9, 10))
OLD, NEW = heteroskedastic(60, seed=0), heteroskedastic(50, seed=1)
STD = FromStd(BayesianRidge())
REPEATED = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)
SPREAD = WithSpread(LinearRegression(), random_state=0)
EDGES = ByFeature(0, edges=[0.5])
BY_GROUP = {"column 0 <= 0.5": Residual(), "0.5 < column 0": Normalized(floor=0.1)}
BOOTSTRAP = {"method": "jackknife+-after-bootstrap", "n_bootstraps": 60}
CASES = {
    "cv+": CrossConformalRegressor(LinearRegression(), cv=5),
    "cv+ by groups": CrossConformalRegressor(STD, cv=4, nonconformity=Normalized(), taxonomy=EDGES),
    "cv+ by spread": CrossConformalRegressor(STD, cv=4, nonconformity=Normalized(), taxonomy=BySpread(2)),
    "cv+ of a score for each group": CrossConformalRegressor(STD, cv=4, nonconformity=BY_GROUP, taxonomy=EDGES),
    "cv+ repeated": CrossConformalRegressor(STD, cv=REPEATED, nonconformity=IntervalDistance()),
    "cv+ of probabilities": CrossConformalRegressor(SPREAD, cv=3, nonconformity=ProbabilityDistance()),
    "cv+ of one side": CrossConformalRegressor(STD, cv=5, nonconformity=Standardized()),
    "cv+ on the log scale": CrossConformalRegressor(LinearRegression(), cv=5, target_transform="log1p"),
    "jackknife+": CrossConformalRegressor(LinearRegression(), method="jackknife+"),
    "bootstrap": CrossConformalRegressor(STD, **BOOTSTRAP, nonconformity=Normalized()),
    "bootstrap by groups": CrossConformalRegressor(STD, **BOOTSTRAP, nonconformity=IntervalDistance(), taxonomy=EDGES),
    "sets": CrossConformalRegressor(LinearRegression(), cv=5, method="cross-conformal"),
    "sets by groups": CrossConformalRegressor(
        STD, cv=4, method="cross-conformal", nonconformity=Normalized(), taxonomy=EDGES
    ),
    "sets repeated": CrossConformalRegressor(LinearRegression(), cv=REPEATED, method="cross-conformal"),
}
SETS = [name for name in CASES if name.startswith("sets")]


@pytest.fixture(scope="module")
def fitted():
    """Return a function from the name of a case to its fitted model, which is fitted once."""
    models = {}

    def model_of(name):
        if name not in models:
            models[name] = CASES[name].set_params(random_state=0).fit(OLD.X, positive(OLD.y))
        return models[name]

    return model_of


def positive(y):
    return y - min(OLD.y.min(), NEW.y.min())


def results(learned, rows, levels=LEVELS):
    """Return the bounds of the sets in order, shape (m, L, 2 × pieces), with empty pieces as NaN."""
    sets = learned.intervals(rows, levels)
    pieces = sets.pieces if isinstance(sets, IntervalUnion) else [sets]
    bounds = np.stack([np.asarray(piece) for piece in pieces], axis=-2)
    bounds[bounds[..., 0] > bounds[..., 1]] = np.nan
    return bounds.reshape(*bounds.shape[:2], -1)


def assert_same(first, second, rtol=0.0):
    """Compare two results; one may have more pieces, which are empty."""
    n = min(first.shape[-1], second.shape[-1])
    np.testing.assert_allclose(first[..., :n], second[..., :n], rtol=rtol)
    assert np.isnan(first[..., n:]).all()
    assert np.isnan(second[..., n:]).all()


each_case = pytest.mark.parametrize("name", CASES)


@each_case
def test_results_of_a_row_do_not_depend_on_other_rows(name, fitted):
    """Exactly; means over bootstrap samples are products of matrices, which are rounded differently."""
    rtol = 1e-12 if name.startswith("bootstrap") else 0.0
    learned, rows = fitted(name).calibrator_, fitted(name).rows(NEW.X, positive(NEW.y))
    expected, p_values = results(learned, rows), learned.p_values(rows)
    order = np.random.default_rng(2).permutation(len(rows))
    assert_same(results(learned, rows[order]), expected[order], rtol)
    np.testing.assert_array_equal(learned.p_values(rows[order]), p_values[order])
    for row in (0, 7):
        assert_same(results(learned, rows[[row]]), expected[[row]], rtol)
        np.testing.assert_array_equal(learned.p_values(rows[[row]]), p_values[[row]])


@each_case
def test_results_do_not_depend_on_the_size_of_blocks(name, fitted, monkeypatch):
    """Blocks of one row, and of a few rows with fewer in the last one."""
    model, X, y = fitted(name), NEW.X[:7], positive(NEW.y)[:7]
    expected = [np.asarray(piece) for piece in model.predict_union(X, level=[0.5, 0.9]).pieces]
    p_values = model.p_values(X, y)
    for max_numbers in (1, 4 * len(model.estimators_)):
        monkeypatch.setattr(evencover.conformal.cross, "_FIRST_CELLS", max_numbers)
        for module in (evencover.calibration.cross, evencover.conformal.cross):
            monkeypatch.setattr(module, "_MAX_NUMBERS", max_numbers)
        found = model.predict_union(X, level=[0.5, 0.9])
        for piece, bounds in zip(found.pieces, expected, strict=True):
            np.testing.assert_allclose(np.asarray(piece), bounds, rtol=1e-12)  # other blocks may be rounded differently
        np.testing.assert_allclose(model.p_values(X, y), p_values)
        assert found.hull().level == (0.5, 0.9)


@each_case
def test_results_of_a_level_do_not_depend_on_other_levels(name, fitted):
    learned, rows = fitted(name).calibrator_, fitted(name).rows(NEW.X)
    several = results(learned, rows)
    assert several.shape[:2] == (len(rows), len(LEVELS))
    assert_same(results(learned, rows, LEVELS[::-1]), several[:, ::-1])
    assert_same(results(learned, rows, LEVELS[1:2]), several[:, 1:2])


@each_case
def test_sets_are_nested(name, fitted):
    """A larger level gives a larger set: intervals by their ends, and unions by the targets that they contain."""
    model = fitted(name)
    union = model.predict_union(NEW.X, level=[0.5, 0.8, 0.9])
    assert model.calibrator_.nested
    for y in np.quantile(positive(OLD.y), np.linspace(0, 1, 30)):
        covered = union.covers(np.full(len(NEW.y), y))
        assert (covered[:, :-1] <= covered[:, 1:]).all()
    hull = np.asarray(union.hull())
    assert (hull[:, 1:, 0] <= hull[:, :-1, 0]).all()
    assert (hull[:, 1:, 1] >= hull[:, :-1, 1]).all()


def test_sets_of_possible_targets_are_not_nested():
    """They are replaced by the nearest possible target if they have none."""
    model = CrossConformalRegressor(LinearRegression(), nonconformity=Bounded(Residual(), whole=True), cv=3)
    assert not model.fit(OLD.X, np.round(OLD.y)).calibrator_.nested


@pytest.mark.parametrize("name", SETS)
def test_a_set_covers_if_and_only_if_the_p_value_exceeds_1_minus_level(name, fitted):
    model = fitted(name)
    rows = model.rows(NEW.X, positive(NEW.y))
    covered = model.predict_union(rows, level=[0.5, 0.8, 0.9]).covers(rows.y)
    limits = 1 + 1e-9 - np.array([0.5, 0.8, 0.9])
    np.testing.assert_array_equal(covered, model.p_values(rows)[:, None] > limits)
    assert 0 < covered.mean() < 1


@pytest.mark.parametrize("name", [name for name in CASES if name not in SETS])
def test_an_interval_covers_if_the_p_value_exceeds_1_minus_level(name, fitted):
    """CV+ contains the cross-conformal set."""
    model = fitted(name)
    rows = model.rows(NEW.X, positive(NEW.y))
    covered = model.predict_interval(rows, level=[0.5, 0.8, 0.9]).covers(rows.y)
    exceeds = model.p_values(rows)[:, None] > 1 + 1e-9 - np.array([0.5, 0.8, 0.9])
    assert (exceeds <= covered).all()
    assert 0 < exceeds.mean() < 1


@each_case
def test_smoothed_p_values_are_at_most_the_others(name, fitted):
    model = fitted(name)
    plain, smoothed = (model.p_values(NEW.X, positive(NEW.y), seed=seed) for seed in (None, 0))
    assert (smoothed < plain).all()
    assert (smoothed > 0).all()
    np.testing.assert_array_equal(smoothed, model.p_values(NEW.X, positive(NEW.y), seed=0))


@each_case
def test_results_are_the_same_after_pickling_and_restoring(name, fitted):
    model = fitted(name)
    learned, rows = model.calibrator_, model.rows(NEW.X, positive(NEW.y))
    expected = results(learned, rows)  # fills the caches
    restored = model._learned_by.restore(learned.state(), learned.nonconformity)
    copies = [pickle.loads(pickle.dumps(learned)), restored, pickle.loads(pickle.dumps(model)).calibrator_]  # noqa: S301
    for copy in copies:
        assert_same(results(copy, rows), expected)
        np.testing.assert_array_equal(copy.p_values(rows), learned.p_values(rows))
        assert str(copy.guarantee) == str(learned.guarantee)


@each_case
def test_scores_are_in_the_order_of_the_rows(name, fitted):
    """They are those of the first repetition, by the out-of-fold predictions that are kept."""
    model = fitted(name)
    rows, score = model.calibration_rows_, model.calibrator_.nonconformity
    np.testing.assert_array_equal(np.asarray(rows.y), positive(OLD.y))
    if not isinstance(score, dict):
        np.testing.assert_allclose(model.calibrator_.scores, scores_of(score, rows))


@each_case
def test_a_model_that_is_fitted_again_gives_the_same(name, fitted):
    """Nothing that the fit used was changed by it."""
    model = fitted(name)
    expected = np.asarray(model.predict_interval(NEW.X, level=[0.5, 0.9]))
    again = CrossConformalRegressor(**model.get_params(deep=False)).fit(OLD.X, positive(OLD.y))
    np.testing.assert_array_equal(np.asarray(again.predict_interval(NEW.X, level=[0.5, 0.9])), expected)
