"""ConformalRegressor: splitting, fitting, calibrating, and use with scikit-learn's tools."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import betabinom, binom
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from evencover import (
    ByFeature,
    ByFunction,
    BySpread,
    ByTarget,
    ConformalRegressor,
    Marginal,
    Normalized,
    Prediction,
    Product,
    Residual,
    Rows,
    calibrate,
    coverage_by_group,
)
from evencover.model_selection import IntervalScorer, intervals_of
from evencover.models import FromQuantiles, FromStd
from evencover.quantiles import conformal_rank
from evencover.synthetic import heteroskedastic
from tests.synthetic import ONE_IN_A_MILLION, Oracle, draw

X, Y = load_diabetes(return_X_y=True)


@pytest.fixture
def old():
    return draw(np.random.default_rng(0), 300)


@pytest.fixture
def new():
    return draw(np.random.default_rng(1), 50)


class Recorder(RegressorMixin, BaseEstimator):
    """Stores the arguments of its fit."""

    def fit(self, X, y, sample_weight=None, note=None):
        self.seen_ = X, y, sample_weight, note
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_fit_is_a_split_a_fit_and_a_calibration():
    """The parts do not overlap, and the intervals equal those of `calibrate` on plain arrays."""
    model = ConformalRegressor(Recorder(), calibration_size=0.25, random_state=3).fit(X, Y)
    X_training, y_training, *_ = model.estimator_.seen_
    rows = model.calibration_rows_
    assert (len(X_training), len(rows)) == (331, 111)
    assert sorted([*y_training, *rows.y]) == sorted(Y)
    by_hand = calibrate(rows.y, rows.prediction).interval(Prediction(np.zeros(442)), level=0.8)
    np.testing.assert_array_equal(model.predict_interval(X, level=0.8).lower, by_hand.lower)


def test_the_same_seed_gives_the_same_intervals():
    first, second, other = (
        ConformalRegressor(Ridge(), random_state=seed).fit(X, Y).predict_interval(X).lower for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_a_frozen_estimator_is_calibrated_on_every_row():
    fitted = Ridge().fit(X[:200], Y[:200])
    model = ConformalRegressor(FrozenEstimator(fitted)).fit(X[200:], Y[200:])
    assert model.calibration_.sizes == {"all": 242}
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X))
    again = ConformalRegressor(FrozenEstimator(fitted)).calibrate(X[200:], Y[200:])
    np.testing.assert_array_equal(again.predict_interval(X).lower, model.predict_interval(X).lower)
    with pytest.raises(
        ValueError, match="a frozen estimator is neither split nor fitted, so it takes no sample_weight"
    ):
        ConformalRegressor(FrozenEstimator(fitted)).fit(X, Y, sample_weight=np.ones(442))


@pytest.mark.parametrize(
    "frozen",
    [
        lambda: FromStd(FrozenEstimator(BayesianRidge().fit(X, Y))),
        lambda: make_pipeline(FrozenEstimator(StandardScaler().fit(X)), FrozenEstimator(Ridge().fit(X, Y))),
    ],
)
def test_adapters_and_pipelines_of_frozen_parts_are_frozen(frozen):
    model = ConformalRegressor(frozen()).fit(X, Y)
    assert model.calibration_.sizes == {"all": 442}


def test_calibrating_again_keeps_the_model():
    model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y)
    fitted = model.estimator_
    assert model.calibrate(X[:100], Y[:100]) is model
    assert model.estimator_ is fitted
    assert model.calibration_.sizes == {"all": 100}


def test_fit_arguments_are_passed_to_the_model_for_training_rows_only():
    weights = np.arange(442.0)
    model = ConformalRegressor(Recorder(), random_state=0).fit(X, Y, sample_weight=weights, note="unchanged")
    X_training, _, seen, note = model.estimator_.seen_
    np.testing.assert_array_equal(X[seen.astype(int)], X_training)
    assert note == "unchanged"
    unweighted = ConformalRegressor(Ridge(), random_state=0).fit(X, Y).predict(X)
    weighted = ConformalRegressor(Ridge(), random_state=0).fit(X, Y, sample_weight=weights).predict(X)
    assert not np.allclose(unweighted, weighted)


def test_no_cluster_is_in_both_parts_of_the_split():
    clusters = np.arange(442) // 5
    model = ConformalRegressor(Recorder(), random_state=0).fit(X, Y, clusters=clusters)
    cluster_of = {tuple(row): cluster for row, cluster in zip(X, clusters, strict=True)}
    training = {cluster_of[tuple(row)] for row in model.estimator_.seen_[0]}
    calibration = {cluster_of[tuple(row)] for row in model.calibration_rows_.X}
    assert training.isdisjoint(calibration)
    assert training | calibration == set(clusters)


def test_conformal_regressor_inside_and_around_a_pipeline():
    inside = make_pipeline(StandardScaler(), ConformalRegressor(Ridge(), random_state=0)).fit(X, Y)
    around = ConformalRegressor(make_pipeline(StandardScaler(), Ridge()), random_state=0).fit(X, Y)
    assert inside.predict(X).shape == (442,)
    assert inside[-1].predict_interval(inside[:-1].transform(X)).covers(Y).mean() > 0.8
    assert around.predict_interval(X).covers(Y).mean() > 0.8


class TestPipelines:
    """Steps learn from training rows only if they are inside the conformal regressor."""

    N, M, LEVEL, REPEATS = 60, 20, 0.8, 80

    def z_score(self, fit_and_predict):
        """Return how far the number of covered rows is from its exact distribution; all targets are noise."""
        rng, covered = np.random.default_rng(0), []
        for seed in range(self.REPEATS):
            features, y = rng.normal(size=(self.N + self.M, 100)), rng.normal(size=self.N + self.M)
            intervals = fit_and_predict(features[: self.N], y[: self.N], features[self.N :], seed)
            covered.append(intervals.covers(y[self.N :]).sum())
        rank = conformal_rank(self.N // 2, self.LEVEL)
        exact = betabinom(self.M, rank, self.N // 2 + 1 - rank)
        return (np.mean(covered) - exact.mean()) / (exact.std() / np.sqrt(self.REPEATS))

    def test_steps_around_the_model_learn_from_training_rows_only(self):
        model = ConformalRegressor(make_pipeline(StandardScaler(), Recorder()), random_state=0).fit(X, Y)
        scaler, recorder = (step for _, step in model.estimator_.steps)
        training = ~np.isin(Y, model.calibration_rows_.y)
        assert scaler.n_samples_seen_ == len(recorder.seen_[1]) == 442 - len(model.calibration_rows_)
        np.testing.assert_allclose(scaler.mean_, scaler.inverse_transform(recorder.seen_[0]).mean(axis=0), atol=1e-12)
        assert set(Y[training]) <= set(recorder.seen_[1])

    def test_a_step_that_learns_from_the_target_belongs_inside(self):
        """Of 100 columns of noise, ten are selected. Outside, the selection has seen the calibration targets."""
        best = SelectKBest(f_regression, k=10)

        def inside(old, y, new, seed):
            model = ConformalRegressor(make_pipeline(best, LinearRegression()), random_state=seed)
            return model.fit(old, y).predict_interval(new, self.LEVEL)

        def outside(old, y, new, seed):
            model = make_pipeline(best, ConformalRegressor(LinearRegression(), random_state=seed))
            return intervals_of(model.fit(old, y), new, self.LEVEL)

        assert abs(self.z_score(inside)) < 4.9
        assert self.z_score(outside) < -4.9

    def test_a_step_that_learns_nothing_can_be_anywhere(self):
        def outside(old, y, new, seed):
            model = ConformalRegressor(LinearRegression(), random_state=seed)
            model = make_pipeline(FunctionTransformer(lambda table: table[:, :3]), model)
            return intervals_of(model.fit(old, y), new, self.LEVEL)

        assert abs(self.z_score(outside)) < 4.9

    def test_choosing_a_score_on_the_calibration_rows_costs_coverage(self):
        """Of 40 spreads without any relation to the target, the one with the narrowest intervals covers too little."""
        rng, n, covered, first = np.random.default_rng(1), 19, 0, 0
        for _ in range(400):
            y, spreads = rng.normal(size=n + 1), np.exp(rng.normal(size=(40, n + 1)))
            scores = np.abs(y) / spreads
            thresholds = np.sort(scores[:, :n], axis=1)[:, conformal_rank(n, 0.9) - 1]
            narrowest = np.argmin(thresholds * spreads[:, :n].mean(axis=1))
            covered += scores[narrowest, n] <= thresholds[narrowest]
            first += scores[0, n] <= thresholds[0]
        assert binom.cdf(covered, 400, 0.9) < ONE_IN_A_MILLION < binom.cdf(first, 400, 0.9)


def test_a_full_prediction_is_found_through_pipelines_and_searches():
    full = FromStd(BayesianRidge())
    piped = make_pipeline(StandardScaler(), full)
    searched = GridSearchCV(piped, {"fromstd__level": [0.8, 0.9]}, cv=2)
    for estimator in (full, piped, searched):
        model = ConformalRegressor(estimator, nonconformity=Normalized(), taxonomy=BySpread(2), random_state=0)
        assert model.fit(X, Y).predict_interval(X).width.std() > 0


def test_grid_search_over_scores_and_taxonomies():
    data = heteroskedastic(600, seed=0)
    model = ConformalRegressor(FrozenEstimator(_ExactModel().fit(data.X, data.y)), taxonomy=BySpread(2))
    grid = {"nonconformity": [Residual(), Normalized()], "taxonomy__n_groups": [1, 3]}
    search = GridSearchCV(model, grid, scoring=IntervalScorer(level=0.8), cv=3, n_jobs=2).fit(data.X, data.y)
    assert search.best_params_["nonconformity"] == Normalized()
    assert search.best_estimator_.predict_interval(data.X, level=0.8).covers(data.y).mean() > 0.75
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


class _ExactModel(Oracle):
    """The exact center and spread of the heteroskedastic data."""

    def predict_full(self, X):
        return Prediction(3 * np.sin(np.pi * X[:, 0]) + X[:, 1], 0.2 + 1.8 * X[:, 2] ** 2)

    def predict(self, X):
        return self.predict_full(X).center


def test_clone_score_and_pickle():
    model = ConformalRegressor(Ridge(), nonconformity=Residual(), taxonomy=BySpread(4), calibration_size=0.3)
    assert clone(model).get_params().keys() == model.get_params().keys()
    assert clone(model).taxonomy.n_groups == 4
    assert cross_val_score(ConformalRegressor(Ridge(), random_state=0), X, Y, cv=3).mean() > 0.2
    fitted = ConformalRegressor(Ridge(), random_state=0).fit(X, Y)
    restored = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(restored.predict_interval(X).lower, fitted.predict_interval(X).lower)


def test_missing_features_are_passed_to_the_model():
    """A model that accepts NaN in its features gets it."""
    holes = X.copy()
    holes[::7, 2] = np.nan
    model = ConformalRegressor(HistGradientBoostingRegressor(random_state=0), random_state=0).fit(holes, Y)
    assert np.isfinite(np.asarray(model.predict_interval(holes))).all()
    model = ConformalRegressor(Recorder(), random_state=0).fit(holes, Y)
    rows = {y: row for y, row in zip(Y, holes, strict=True) if np.sum(y == Y) == 1}
    X_training, y_training, *_ = model.estimator_.seen_
    unique = [position for position, y in enumerate(y_training) if y in rows]
    np.testing.assert_array_equal(X_training[unique], [rows[y] for y in y_training[unique]])
    assert np.isnan(X_training[unique]).any()


def test_marginal_coverage_is_uneven_and_mondrian_coverage_is_even():
    """On synthetic data with a known distribution."""
    data, test = heteroskedastic(20_000, seed=0), heteroskedastic(20_000, seed=1)
    noise = np.digitize(test.spread, np.quantile(test.spread, [1 / 3, 2 / 3]))
    models = {
        "marginal": ConformalRegressor(FrozenEstimator(_ExactModel().fit(data.X, data.y))),
        "mondrian": ConformalRegressor(FrozenEstimator(_ExactModel().fit(data.X, data.y)), taxonomy=BySpread(3)),
    }
    found = {
        name: list(coverage_by_group(test.y, model.fit(data.X, data.y).predict_interval(test.X), noise).values())
        for name, model in models.items()
    }
    assert found["marginal"][0] > 0.99
    assert found["marginal"][2] < 0.78
    assert np.abs(np.array(found["mondrian"]) - 0.9).max() < 0.02


def test_p_values_use_the_groups(old, new):
    model = ConformalRegressor(FrozenEstimator(Oracle().fit(old.X, old.y)), taxonomy=ByFeature(0)).fit(old.X, old.y)
    direct = model.calibration_.p_values(new.y, new.prediction, groups=new.X[:, 0])
    np.testing.assert_array_equal(model.p_values(new.X, new.y), direct)
    assert not np.array_equal(model.p_values(new.X, new.y, seed=0), direct)


def test_weights_for_covariate_shift(old, new):
    model = ConformalRegressor(FrozenEstimator(Oracle().fit(old.X, old.y)))
    shifted = model.calibrate(old.X, old.y, weights=old.X[:, 1]).predict_interval(new.X, weights=new.X[:, 1])
    plain = clone(model).calibrate(old.X, old.y).predict_interval(new.X)
    assert (shifted.width > plain.width).all()  # the new rows are noisier
    with pytest.raises(ValueError, match="only the calibration rows have them, not the new rows"):
        model.predict_interval(new.X)


class _Scaled(Oracle):
    """A spread in units of the target."""

    def fit(self, X, y):
        self.unit_ = y.std()
        return super().fit(X, y)

    def predict_full(self, X):
        return Prediction(self.unit_ * X[:, 0], self.unit_ * (X[:, 2] - 0.1))


def test_the_scale_of_floors_is_learned_on_the_training_rows():
    """Intervals scale with the target, and the interval of a row does not depend on other rows."""
    data = heteroskedastic(400, seed=0)
    here, there = (
        ConformalRegressor(_Scaled(), nonconformity=Normalized(epsilon=0.5, floor=0.1), random_state=0).fit(
            data.X, unit * data.y
        )
        for unit in (1.0, 1000.0)
    )
    assert here.scale_ > 0
    np.testing.assert_allclose(there.scale_, 1000 * here.scale_)
    assert here.calibration_.nonconformity.scale == here.scale_
    training = ~np.isin(data.X[:, 0], here.calibration_rows_.X[:, 0])
    assert here.scale_ == np.median(here.estimator_.predict_full(data.X[training]).spread)
    np.testing.assert_allclose(
        there.predict_interval(data.X).lower, 1000 * here.predict_interval(data.X).lower, rtol=1e-6
    )
    np.testing.assert_array_equal(here.predict_interval(data.X).lower[:1], here.predict_interval(data.X[:1]).lower)
    assert here.nonconformity.scale is None  # the constructor's argument is not changed
    frozen = ConformalRegressor(FrozenEstimator(here.estimator_), nonconformity=Normalized(epsilon=0.5))
    with pytest.raises(ValueError, match="its settings are fractions of a scale, and the scale is missing"):
        frozen.fit(data.X, data.y)


def test_target_groups_give_a_union_and_its_hull(old, new):
    """By brute force: a target is in the set if and only if its score is at most the threshold of its own group."""
    taxonomy = Product([ByTarget([-1.0, 1.0]), ByFeature(0)])
    model = ConformalRegressor(FrozenEstimator(Oracle().fit(old.X, old.y)), taxonomy=taxonomy).fit(old.X, old.y)
    union, hull = model.predict_union(new.X, level=0.6), model.predict_interval(new.X, level=0.6)
    assert len(union.pieces) == 3
    inside = np.zeros(50, dtype=bool)
    for target in [-1.0, 1.0, np.nextafter(-1.0, 0.0), *np.linspace(-20, 20, 400)]:
        y = np.full(50, target)
        groups = model.taxonomy_.assign(Rows(new.prediction, new.X, y))
        passes = Residual()(y, new.prediction) <= model.calibration_.threshold(0.6)[groups.codes]
        np.testing.assert_array_equal(union.covers(y), passes)
        assert (hull.covers(y) | ~passes).all()
        inside |= passes
    assert inside.any()
    assert (union.width <= hull.width).all()
    assert (union.width < hull.width).any()
    several = model.predict_interval(new.X, level=[0.6, 0.9])
    np.testing.assert_array_equal(several.lower[:, 0], hull.lower)


def test_the_guarantee_of_a_union_names_groups_without_guarantee(old, new):
    taxonomy = Product([ByTarget([0.0]), ByFeature(0)])
    model = ConformalRegressor(FrozenEstimator(Oracle().fit(old.X, old.y)), taxonomy=taxonomy).fit(old.X, old.y)
    unseen = new.X.copy()
    unseen[0, 0] = 7.0
    union = model.predict_union(unseen, unseen="marginal")
    assert union.guarantee.without == ("y <= 0.0 & 7.0", "0.0 < y & 7.0")


def test_without_target_groups_the_union_is_the_interval():
    model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict_union(X).hull().lower, model.predict_interval(X).lower)
    np.testing.assert_array_equal(model.predict_union(X).width, model.predict_interval(X).width)


def test_unseen_categories_at_prediction(old, new):
    model = ConformalRegressor(FrozenEstimator(Oracle().fit(old.X, old.y)), taxonomy=ByFeature(0)).fit(old.X, old.y)
    unseen = new.X.copy()
    unseen[3, 0] = 7.0
    with pytest.raises(ValueError, match=r"groups must be among those of the calibration, .*; got \[7\.0\]"):
        model.predict_interval(unseen)
    assert np.isinf(model.predict_interval(unseen, unseen="inf").width[3])
    assert np.isfinite(model.predict_interval(unseen, unseen="marginal").width[3])


def test_groups_by_a_user_function():
    def young(features):
        return np.where(features[:, 0] < 0, "young", "old")

    model = ConformalRegressor(LinearRegression(), taxonomy=ByFunction(young), random_state=0).fit(X, Y)
    assert set(model.calibration_.sizes) == {"young", "old"}
    assert model.guarantee_.kind == "per group"


def test_a_user_defined_taxonomy_works(old, new):
    """A class with only the methods of the protocol: learn and assign."""

    class Halves:
        def learn(self, rows):
            self.labels_ = ("small", "large")
            return self.assign(rows)

        def assign(self, rows):
            groups = Marginal().learn(rows)
            return type(groups)((rows.X[:, 1] > 1).astype(int), self.labels_)

    model = ConformalRegressor(FrozenEstimator(Oracle().fit(old.X, old.y)), taxonomy=Halves()).fit(old.X, old.y)
    assert model.predict_interval(new.X).groups.labels == ("small", "large")


def test_a_failed_fit_does_not_change_the_fitted_model():
    """A new model is never combined with an old calibration."""
    model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y)
    before = model.predict_interval(X).lower
    model.set_params(taxonomy=BySpread(3), estimator=Recorder())
    with pytest.raises(ValueError, match="BySpread needs a prediction with a spread"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="BySpread needs a prediction with a spread"):
        model.calibrate(X, Y)
    np.testing.assert_array_equal(model.predict_interval(X).lower, before)


def test_a_failed_fit_does_not_change_the_features():
    model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((442, 2), np.nan), Y)
    assert model.predict(X).shape == (442,)


def test_a_copy_is_calibrated_on_rows_that_are_predicted_already():
    """It is the model calibrated on these rows, and the model itself stays as it is."""
    data = heteroskedastic(200, seed=3)
    model = ConformalRegressor(FrozenEstimator(LinearRegression().fit(data.X, data.y))).fit(data.X, data.y)
    before, few = np.asarray(model.predict_interval(data.X)), model.recalibrated(model.calibration_rows_[:50])
    np.testing.assert_array_equal(np.asarray(model.predict_interval(data.X)), before)
    again = clone(model).fit(data.X[:50], data.y[:50])
    np.testing.assert_array_equal(np.asarray(few.predict_interval(data.X)), np.asarray(again.predict_interval(data.X)))
    with pytest.raises(TypeError, match="rows must be Rows, with predictions and targets; got ndarray"):
        model.recalibrated(data.X)


def test_calibrating_again_uses_changed_settings():
    """Another score and taxonomy without fitting again; also another frozen model."""
    model = ConformalRegressor(FromStd(BayesianRidge()), random_state=0).fit(X, Y)
    model.set_params(nonconformity=Normalized(), taxonomy=BySpread(2)).calibrate(X[:200], Y[:200])
    assert model.calibration_.nonconformity == Normalized()
    assert model.calibration_.labels == ("low", "high")
    other = Ridge().fit(X, Y + 1000)
    model.set_params(estimator=FrozenEstimator(other), nonconformity=None, taxonomy=None).calibrate(X, Y)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))


def test_intervals_through_pipelines_and_searches():
    """IntervalScorer and intervals_of find the regressor inside."""
    piped = make_pipeline(StandardScaler(), ConformalRegressor(Ridge(), random_state=0)).fit(X, Y)
    direct = piped[-1].predict_interval(piped[:-1].transform(X), level=0.8)
    np.testing.assert_array_equal(intervals_of(piped, X, 0.8).lower, direct.lower)
    grid = {"conformalregressor__estimator__alpha": [0.1, 100.0]}
    search = GridSearchCV(piped, grid, scoring=IntervalScorer(0.8), cv=3).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(intervals_of(search, X)) == 442


def test_other_fit_arguments_are_passed_unchanged():
    """Validation sets of boosting libraries, scalars, ragged lists."""
    ragged = [(X[:5], Y[:5])]
    model = ConformalRegressor(Recorder(), random_state=0).fit(X, Y, sample_weight=np.array(1.0), note=ragged)
    assert model.estimator_.seen_[3] is ragged


def test_few_clusters_cause_a_warning():
    with pytest.warns(UserWarning, match="clusters has only 2 different clusters.*use a taxonomy, such as ByFeature"):
        ConformalRegressor(Ridge(), random_state=0).fit(X, Y, clusters=X[:, 1] > 0)


def test_warnings_point_at_the_users_line():
    model = ConformalRegressor(Ridge(), random_state=0).fit(X[:20], Y[:20])
    with pytest.warns(UserWarning, match="too few calibration rows") as caught:
        model.predict_interval(X, level=0.99)
    assert caught[0].filename == __file__


def test_numpy_numbers_are_valid_settings():
    search = GridSearchCV(
        ConformalRegressor(FromStd(BayesianRidge()), taxonomy=BySpread(), random_state=0),
        {"taxonomy__n_groups": np.arange(1, 3)},
        scoring=IntervalScorer(0.8),
        cv=2,
    ).fit(X, Y)
    assert search.best_params_["taxonomy__n_groups"] in (1, 2)


def test_metadata_routing_reaches_the_model():
    """A search passes weights to the model, for its training rows."""
    weights = np.linspace(0.1, 5.0, 442)
    with config_context(enable_metadata_routing=True):
        model = ConformalRegressor(Ridge().set_fit_request(sample_weight=True), random_state=0)
        model.set_score_request(sample_weight=False)
        search = GridSearchCV(model, {"estimator__alpha": [0.1]}, cv=2).fit(X, Y, sample_weight=weights)
    plain = ConformalRegressor(Ridge(alpha=0.1), random_state=0).fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(search.predict(X), plain.predict(X))


def test_metadata_routing_goes_through_adapters():
    weights = np.linspace(0.1, 5.0, 442)
    with config_context(enable_metadata_routing=True):
        ridge = BayesianRidge().set_fit_request(sample_weight=True)
        for adapter in (FromStd(ridge), FromQuantiles(ridge, ridge)):
            model = ConformalRegressor(adapter, random_state=0)
            search = GridSearchCV(model, {"calibration_size": [0.5]}, scoring=IntervalScorer(0.5), cv=2)
            routed = search.fit(X, Y, sample_weight=weights).predict(X)
            plain = ConformalRegressor(ridge, random_state=0).fit(X, Y, sample_weight=weights)
            np.testing.assert_allclose(routed, plain.predict(X))


@pytest.mark.parametrize("form", [list, tuple, pd.Series, pa.array])
def test_weights_of_any_type_are_matched_to_rows(form):
    weights = np.linspace(0.1, 5.0, 442)
    expected = ConformalRegressor(Ridge(), random_state=0).fit(X, Y, sample_weight=weights).predict(X)
    found = ConformalRegressor(Ridge(), random_state=0).fit(X, Y, sample_weight=form(weights)).predict(X)
    np.testing.assert_array_equal(found, expected)


def test_an_invalid_calibrator_is_an_error_before_anything_is_fitted():
    class Slow(Ridge):
        def fit(self, X, y):
            raise AssertionError("fitted")

    with pytest.raises(TypeError, match="calibrator must be a calibrator"):
        ConformalRegressor(Slow(), calibrator="window").fit(X, Y)
