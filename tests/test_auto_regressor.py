"""`AutoRegressor`: a stack of regressors, distributions of its residuals, and how both are chosen."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover import (
    ConformalRegressor,
    Intervals,
    Marginal,
    Residual,
    conformal_quantile,
    interval_score,
    recommend,
    write_report,
)
from evencover.models import AutoRegressor, TableEncoder, auto
from evencover.models.auto import (
    LeafDistribution,
    ScaledShape,
    cautious_weights,
    choose_mixture,
    has_heavy_tails,
    stacking_weights,
)
from evencover.models.categories import FeatureLayout
from evencover.models.linear import RidgeRegressor
from evencover.models.members import EFFORTS, KernelRegressor, StackMember, least_effort, stack_members
from evencover.studies import Plan, study
from evencover.synthetic import heteroskedastic
from tests.canonical_studies import use_effort, use_light_stack
from tests.report_pages import result_data

DATA = heteroskedastic(400, seed=0)
NEW = heteroskedastic(300, seed=1)
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
PENALTIES = np.logspace(-3, 5, 9)


def ignored():
    """A callback after each fit that does nothing."""


@pytest.fixture(scope="module")
def fitted():
    return AutoRegressor(effort="fast", random_state=0).fit(DATA.X, DATA.y)


@pytest.fixture
def linear_stack(monkeypatch):
    use_light_stack(monkeypatch)


class FixedQuantiles:
    """The same quantiles for every row."""

    def __init__(self, quantiles):
        self.values = np.array(quantiles)

    def fit_cross_fitted(self, features, residuals, parts, done):
        return self.quantiles(features)

    def quantiles(self, features):
        return np.tile(self.values, (len(features), 1))


class RecordingMean(RegressorMixin, BaseEstimator):
    """Predicts the mean of its targets, and checks that it predicts no row it was fitted on."""

    def fit(self, X, y):
        self.seen_, self.mean_ = set(X[:, 0].tolist()), float(np.mean(y))
        return self

    def predict(self, X):
        assert not self.seen_ & set(X[:, 0].tolist())
        return np.full(len(X), self.mean_)


class TestStack:
    def test_weights_minimise_the_squared_error_among_weights_of_sum_one(self):
        rng = np.random.default_rng(0)
        y = rng.normal(size=500)
        predictions = y[:, None] + rng.normal(size=(500, 2)) * [1.0, 2.0]
        weights = stacking_weights(predictions, y)
        assert weights.sum() == pytest.approx(1)
        assert weights[0] > weights[1] > 0
        shares = np.linspace(0, 1, 1001)
        errors = [np.mean((predictions @ [share, 1 - share] - y) ** 2) for share in shares]
        assert weights[0] == pytest.approx(shares[np.argmin(errors)], abs=1e-3)

    def test_without_a_signal_no_regressor_is_better_than_the_combination(self):
        """Least squares without a sum of 1 shrinks all predictions, and then compares their directions only."""
        rng = np.random.default_rng(0)
        y = rng.normal(size=500)
        predictions = rng.normal(size=(500, 3)) * [0.01, 0.3, 1.0] + y[:, None] * [0, 0.001, 0.02]
        weights = stacking_weights(predictions, y)
        errors = np.mean((predictions - y[:, None]) ** 2, axis=0)
        assert np.mean((predictions @ weights - y) ** 2) <= errors.min()
        assert weights[0] > 0.9

    def test_regressors_with_a_negative_or_a_small_weight_are_left_out(self):
        rng = np.random.default_rng(0)
        y = rng.normal(size=500)
        small = rng.normal(size=500)
        predictions = np.column_stack([y, -y, small])
        np.testing.assert_allclose(stacking_weights(predictions, 0.99 * y + 0.01 * small), [1, 0, 0])
        assert (stacking_weights(predictions, 0.9 * y + 0.1 * small) > 0).tolist() == [True, False, True]

    def test_if_none_is_better_than_the_mean_target_the_smallest_error_wins(self):
        y = np.array([1.0, 2.0, 3.0])
        assert stacking_weights(np.column_stack([-5 * y, -y]), y).tolist() == [0, 1]

    @pytest.mark.parametrize(("n", "clusters"), [(20, None), (400, np.arange(400) % 5)])
    def test_predictions_are_out_of_fold(self, monkeypatch, n, clusters):
        """With as many folds as rows, or clusters, each of them is a fold."""
        use_light_stack(monkeypatch)
        use_effort(monkeypatch, members=("linear",), n_folds=n if clusters is None else 5)
        X, y = DATA.X[:n], DATA.y[:n]
        model = AutoRegressor(effort="fast", random_state=0).fit(X, y, clusters=clusters)
        linear, groups = make_pipeline(StandardScaler(), RidgeCV(PENALTIES)), np.arange(n)
        expected = cross_val_predict(
            linear, X, y, groups=groups if clusters is None else clusters, cv=LeaveOneGroupOut()
        )
        np.testing.assert_allclose(model.out_of_fold_prediction_.center, expected, rtol=1e-9)
        (member,) = model.report_.members
        assert member.error == pytest.approx(np.sqrt(np.mean((expected - y) ** 2)))

    def test_disagreement_is_the_weighted_standard_deviation(self, fitted):
        """The distributions of the residuals get it as their last feature, after the weighted mean."""
        rows = np.random.default_rng(0).normal(size=(5, DATA.X.shape[1]))
        predictions = np.column_stack([each.predict(rows) for each in fitted.stack_.members.values()])
        mean = np.average(predictions, axis=1, weights=fitted.stack_.weights)
        variance = np.average((predictions - mean[:, None]) ** 2, axis=1, weights=fitted.stack_.weights)
        center, features = fitted.stack_.described(rows)
        assert predictions.shape[1] > 1
        np.testing.assert_allclose(center, mean)
        np.testing.assert_allclose(features, np.column_stack([rows, mean, np.sqrt(variance)]))


class TestMembers:
    def test_predictions_stay_near_the_range_of_the_targets(self):
        X = np.linspace(0, 1, 50)[:, None]
        member = StackMember(LinearRegression()).fit(X, 2 * X[:, 0])
        np.testing.assert_allclose(member.predict([[0.5], [1.2], [100.0], [-100.0]]), [1.0, 2.4, 3.0, -1.0])

    def test_a_member_is_fitted_on_at_most_so_many_rows(self):
        X, y = np.arange(100.0)[:, None], np.arange(100.0)
        seen = StackMember(RecordingMean(), max_rows=30, random_state=0).fit(X, y).regressor_.seen_
        assert len(seen) == 30
        assert StackMember(RecordingMean(), max_rows=30, random_state=0).fit(X, y).regressor_.seen_ == seen
        assert StackMember(RecordingMean(), max_rows=30, random_state=1).fit(X, y).regressor_.seen_ != seen
        assert len(StackMember(RecordingMean(), max_rows=100).fit(X, y).regressor_.seen_) == 100

    @pytest.mark.parametrize(
        ("n_features", "expected"),
        [(30, {"linear", "products"}), (31, {"linear", "sparse linear"}), (301, {"linear", "sparse linear"})],
    )
    def test_wide_tables_get_the_lasso_instead_of_products(self, monkeypatch, n_features, expected):
        use_light_stack(monkeypatch)
        use_effort(monkeypatch, members=("linear", "products", "sparse linear"))
        rng = np.random.default_rng(0)
        model = AutoRegressor(effort="fast", random_state=0).fit(rng.normal(size=(6, n_features)), rng.normal(size=6))
        assert {each.name for each in model.report_.members} == expected
        assert any("products" in note for note in model.report_.notes) == ("products" not in expected)
        assert any("100 of the 301 columns" in note for note in model.report_.notes) == (n_features == 301)

    @pytest.mark.parametrize(("ordered", "slope"), [(False, 0), (True, 1)])
    def test_splines_continue_a_trend_only_if_rows_are_in_the_order_of_time(self, ordered, slope):
        x = np.linspace(-1, 1, 200)[:, None]
        members = stack_members(EFFORTS["fast"], 200, FeatureLayout(1, ordered=ordered), 0)
        at_the_end, beyond = members["splines"].fit(x, x[:, 0]).predict([[1.0], [1.5]])
        np.testing.assert_allclose([at_the_end, beyond], [1, 1 + 0.5 * slope], atol=0.03)

    def test_quick_regressors_use_all_rows_and_the_others_a_limited_number(self):
        members = stack_members(EFFORTS["normal"], 10**6, FeatureLayout(5), 0)
        unlimited = {name for name, member in members.items() if member.max_rows is None}
        assert unlimited == {"boosting", "slow boosting", "linear"}
        assert {member.max_rows for name, member in members.items() if name not in unlimited} == {50_000}
        fewer = stack_members(EFFORTS["normal"], 10_000, FeatureLayout(5), 0)
        assert {member.max_rows for member in fewer.values()} == {None, 6000}

    def test_the_kernel_model_learns_a_smooth_function_and_leaves_out_rows_to_choose(self):
        rng = np.random.default_rng(0)
        X, new = rng.uniform(-3, 3, size=(400, 2)), rng.uniform(-3, 3, size=(400, 2))

        def wave(rows):
            return np.sin(2 * rows[:, 0]) + rows[:, 1] ** 2 / 3

        model = KernelRegressor().fit(X, wave(X))
        assert np.std(model.predict(new) - wave(new)) < 0.05 * np.std(wave(new))
        noise = KernelRegressor().fit(X, rng.normal(size=400))
        assert np.std(noise.predict(new)) < 0.3

    @pytest.mark.parametrize("shape", [(300, 4), (60, 50), (50, 60), (30, 200)])
    @pytest.mark.parametrize("noise", [0.01, 1.0, 30.0])
    def test_ridge_regression_is_that_of_scikit_learn(self, shape, noise):
        """Also with equal and constant columns, and with columns of different size."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=shape) * rng.uniform(0.1, 10, size=shape[1]) + 5
        X[:, 1], X[:, 2] = X[:, 0], 3
        y = X[:, 0] + np.sin(X[:, 3]) + noise * rng.normal(size=len(X))
        own, other = RidgeRegressor(tuple(PENALTIES)).fit(X, y), RidgeCV(PENALTIES).fit(X, y)
        assert own.penalty_ == other.alpha_
        np.testing.assert_allclose(own.predict(X), other.predict(X), atol=1e-6 * np.std(y))

    def test_an_interrupt_ends_the_training_of_a_network(self, monkeypatch):
        """scikit-learn itself only warns, and keeps the weights that it has."""

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(MLPRegressor, "_backprop", interrupted)
        with warnings.catch_warnings(action="default"), pytest.raises(KeyboardInterrupt):
            AutoRegressor(random_state=0).fit(DATA.X[:60], DATA.y[:60])


class TestHeavyTails:
    def test_residuals_have_heavy_tails_if_their_kurtosis_is_above_ten(self):
        assert not has_heavy_tails(np.repeat([-1.0, 0.0, 1.0], [5, 90, 5]))  # kurtosis 10
        assert has_heavy_tails(np.repeat([-1.0, 0.0, 1.0], [5, 91, 5]))
        assert not has_heavy_tails(np.zeros(3))

    def test_robust_boosting_takes_part_if_a_few_targets_are_far_off(self, fitted, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.random((400, 4))
        signal = 5 * X[:, 0] + np.sin(6 * X[:, 1])
        y = signal + 50 * rng.normal(size=400) * (rng.random(400) < 0.03)
        robust = AutoRegressor(effort="fast", random_state=0).fit(X, y)
        assert max(robust.report_.members, key=lambda each: each.weight).name == "robust boosting"
        monkeypatch.setattr(auto, "has_heavy_tails", lambda residuals: False)
        usual = AutoRegressor(effort="fast", random_state=0).fit(X, y)
        names = [[each.name for each in model.report_.members] for model in (fitted, usual, robust)]
        assert [*names[0], "robust boosting"] == [*names[1], "robust boosting"] == names[2]
        errors = [np.abs(model.predict(X) - signal).mean() for model in (robust, usual)]
        assert errors[0] < 2 / 3 * errors[1]

    def test_less_effort_has_the_used_regressors_that_are_fast(self):
        effort = least_effort(["trees", "robust boosting", "network", "kernels"])
        assert effort.members == ("trees", "linear")
        model = AutoRegressor(effort=effort, random_state=0).fit(DATA.X, DATA.y)
        assert [each.name for each in model.report_.members] == ["trees", "linear"]
        assert [each.name for each in model.report_.distributions] == ["spread times shape"]


class TestDistributions:
    def test_a_leaf_distribution_is_the_mean_cdf_of_the_leaves(self):
        rng = np.random.default_rng(0)
        features, residuals = rng.normal(size=(200, 3)), rng.normal(size=200)
        model = LeafDistribution(PROBABILITIES, n_trees=10)
        model.fit_cross_fitted(features, residuals, np.arange(200) % 3, ignored)
        leaves, new = model.forest_.apply(features), model.forest_.apply(features[:5])
        assert (np.diff(model.quantiles(features), axis=1) >= 0).all()
        for row in range(5):
            own = [residuals[leaves[:, tree] == new[row, tree]] for tree in range(10)]
            cdf = np.array([np.mean([np.mean(each <= knot) for each in own]) for knot in model.knots_])
            middle = (cdf[1:] + cdf[:-1]) / 2  # the cdf is linear between the knots
            rises = np.diff(cdf) > 1e-3
            model.set_params(probabilities=tuple(middle[rises]))
            expected = (model.knots_[1:] + model.knots_[:-1])[rises] / 2
            np.testing.assert_allclose(model.quantiles(features[[row]])[0], expected, atol=1e-3)

    @pytest.mark.parametrize(
        "model",
        [
            ScaledShape(PROBABILITIES),
            LeafDistribution(PROBABILITIES, splits="best", n_trees=30),
            LeafDistribution(PROBABILITIES, splits="random", n_trees=30),
        ],
    )
    def test_the_spread_and_the_skewness_of_residuals_are_learned(self, model):
        """The noise is exponential, twice as large where the feature is positive."""
        rng = np.random.default_rng(0)
        features = rng.uniform(-1, 1, size=(3000, 2))
        scale = np.where(features[:, 0] > 0, 2.0, 1.0)
        residuals = scale * rng.exponential(size=3000) - scale
        found = model.fit_cross_fitted(features, residuals, np.arange(3000) % 3, ignored)
        np.testing.assert_allclose(np.mean(residuals[:, None] <= found, axis=0), PROBABILITIES, atol=0.02)
        spread = model.quantiles(np.array([[-0.5, 0.0], [0.5, 0.0]])) @ [-1, 0, 0, 0, 1]
        assert 1.5 < spread[1] / spread[0] < 2.6
        low, _, median, _, high = model.quantiles(features).mean(axis=0)
        assert high - median > 2 * (median - low)

    def test_many_rows_are_limited(self, monkeypatch):
        sizes = []
        original = HistGradientBoostingRegressor.fit

        def fit(self, X, y):
            sizes.append(len(y))
            return original(self, X, y)

        monkeypatch.setattr(HistGradientBoostingRegressor, "fit", fit)
        features, residuals = np.arange(300.0)[:, None], np.sin(np.arange(300.0))
        ScaledShape(PROBABILITIES, max_rows=150).fit_cross_fitted(features, residuals, np.arange(300) % 3, ignored)
        assert sizes == [150] * 4

    def test_constant_residuals(self):
        features = np.arange(30.0)[:, None]
        for model in (ScaledShape(PROBABILITIES), LeafDistribution(PROBABILITIES, n_trees=5)):
            assert (model.fit_cross_fitted(features, np.zeros(30), np.arange(30) % 3, ignored) == 0).all()
            assert (model.quantiles(features) == 0).all()

    def test_weights_are_halfway_between_the_best_subset_and_all(self):
        scores = {(1.0, 0.0, 0.0): 3.0, (0.0, 0.5, 0.5): 1.0}
        weights = cautious_weights(np.full(3, 2.0), lambda weights: scores.get(tuple(weights.tolist()), 2.0))
        np.testing.assert_allclose(weights, [1 / 6, 1 / 4 + 1 / 6, 1 / 4 + 1 / 6])

    def test_a_much_worse_distribution_has_no_weight(self):
        rng = np.random.default_rng(0)
        features, residuals = rng.normal(size=(300, 2)), rng.normal(size=300)
        wide = FixedQuantiles([-3.0, 3.0]), FixedQuantiles([-1.7, 1.6]), FixedQuantiles([-1.6, 1.9])
        names = {f"d{i}": each for i, each in enumerate((*wide, FixedQuantiles([-0.1, 8.0])))}
        chosen = choose_mixture(names, features, residuals, np.arange(300) % 3, [0, 1], 0.9, ignored)
        assert (chosen.weights > 0).tolist() == (chosen.interval_scores <= 1.2 * chosen.interval_scores.min()).tolist()
        assert chosen.weights.tolist()[-1] == 0
        assert chosen.mixture.distributions == tuple(
            each for each, w in zip(names.values(), chosen.weights, strict=True) if w
        )
        np.testing.assert_allclose(chosen.mixture.quantiles(features), chosen.quantiles)

    def test_a_spread_is_not_smaller_than_the_smallest_size(self):
        """Trees with a gamma loss predict far less next to a few large residuals."""
        rng = np.random.default_rng(0)
        features, residuals = rng.normal(size=(200, 3)), np.where(np.arange(200) < 2, 1.0, 1e-18)
        model = ScaledShape(PROBABILITIES)
        quantiles = model.fit_cross_fitted(features, residuals, np.arange(200) % 3, ignored)
        assert np.abs(quantiles).max() < 10

    def test_the_interval_score_is_that_after_calibration(self, fitted):
        own = fitted.out_of_fold_prediction_
        width = own.upper - own.lower
        threshold = conformal_quantile(np.maximum(own.lower - DATA.y, DATA.y - own.upper) / width, 0.9)
        expected = Intervals(own.lower - threshold * width, own.upper + threshold * width)
        assert fitted.report_.interval_score == pytest.approx(interval_score(DATA.y, expected, level=0.9))


class TestAutoRegressor:
    def test_it_reports_what_it_compared(self, fitted):
        report = fitted.report_
        assert {each.name for each in report.members} == {"boosting", "trees", "linear", "splines", "products"}
        assert sum(each.weight for each in report.members) == pytest.approx(1)
        assert sum(each.weight for each in report.distributions) == pytest.approx(1)
        assert report.error <= 1.01 * min(each.error for each in report.members)
        best = max(report.members, key=lambda each: each.weight)
        assert report.summary.startswith(f"{best.name} {best.weight:.2f}")
        lines = str(report).splitlines()
        assert lines[0].split() == ["regressor", "error", "weight"]
        assert sum("combined" in line for line in lines) == 2
        assert "<table" in report._repr_html_()

    def test_out_of_fold_predictions_are_out_of_fold(self):
        """Of targets without any relation to the features, a model fitted on the same rows would explain some."""
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(300, 4)), rng.normal(size=300)
        model = AutoRegressor(effort="fast", random_state=0).fit(X, y)
        assert np.corrcoef(model.out_of_fold_prediction_.center, y)[0, 1] < 0.15
        assert np.corrcoef(model.predict(X), y)[0, 1] > 0.3
        covered = model.out_of_fold_prediction_.interval().covers(y).mean()
        assert 0.85 < covered < 0.95

    def test_the_same_seed_gives_the_same_numbers(self, fitted):
        again = AutoRegressor(effort="fast", random_state=0).fit(DATA.X, DATA.y)
        other = AutoRegressor(effort="fast", random_state=1).fit(DATA.X, DATA.y)
        assert again.report_ == fitted.report_
        np.testing.assert_array_equal(again.predict_full(NEW.X).quantiles, fitted.predict_full(NEW.X).quantiles)
        assert other.report_ != fitted.report_

    def test_progress_counts_every_fit(self, linear_stack):
        seen = []
        AutoRegressor(effort="fast", random_state=0).fit(DATA.X, DATA.y, progress=lambda *each: seen.append(each))
        total = 2 * 3 + 4  # two regressors on two folds and on all rows, one distribution on three parts and on all
        assert {each[1] for each in seen} == {total}
        assert [each[0] for each in seen][-1] == total
        assert [each[0] for each in seen] == sorted(each[0] for each in seen)

    @pytest.mark.parametrize("way", ["fit", "recommend", "routing", "study", "study of a given score"])
    def test_clusters_stay_together(self, monkeypatch, linear_stack, way):
        folds = []
        original = auto.out_of_fold

        def recorded(members, robust, data, splitter, groups, done):
            found = original(members, robust, data, splitter, groups, done)
            folds.append((found[0].folds, data.structure.clusters))
            return found

        monkeypatch.setattr(auto, "out_of_fold", recorded)
        names = np.array([f"c{i % 40}" for i in range(400)])
        model = AutoRegressor(effort="fast", random_state=0)
        if way == "fit":
            model.fit(DATA.X, DATA.y, clusters=names)
        elif way.startswith("study"):
            table = pd.concat([pd.DataFrame(DATA.X).rename(columns=str).assign(y=DATA.y, name=np.arange(400))] * 2)
            given = {"nonconformity": Residual(), "taxonomy": Marginal()} if way != "study" else {}
            study(table, "y", plan=Plan(model=model, **given), clusters="name")
        else:
            with config_context(enable_metadata_routing=way == "routing"):
                recommend(make_pipeline(StandardScaler(), model), DATA.X, DATA.y, clusters=names)
        found, clusters = folds[0]
        assert len(set(clusters)) == (300 if way.startswith("study") else 40)
        for cluster in set(clusters):
            assert len(set(found[clusters == cluster])) == 1

    @pytest.mark.parametrize(
        "unit", [2.0**-980, 2.0**990, *(pytest.param(unit, marks=pytest.mark.slow) for unit in (2.0**-500, 2.0**500))]
    )
    def test_the_units_of_features_and_target_do_not_matter(self, fitted, unit):
        """Squares of these numbers overflow or vanish. A power of 2 changes no digit; both have a unit of their own."""
        of_target = 4 * unit
        model = AutoRegressor(effort="fast", random_state=0).fit(DATA.X * unit, DATA.y * of_target)
        np.testing.assert_allclose(model.predict(NEW.X * unit) / of_target, fitted.predict(NEW.X), rtol=1e-12)
        full, expected = model.predict_full(NEW.X * unit), fitted.predict_full(NEW.X)
        np.testing.assert_allclose(full.upper / of_target, expected.upper)
        np.testing.assert_allclose(full.quantiles / of_target, expected.quantiles, rtol=1e-6)

    def test_predictions_of_enormous_features_are_limited(self, fitted):
        predicted = fitted.predict(np.full((2, DATA.X.shape[1]), 1.7e308))
        assert np.all(np.abs(predicted - DATA.y.mean()) < 2 * np.ptp(DATA.y))

    @pytest.mark.parametrize("value", [1e300, 1e-300, 0.0])
    def test_constant_targets(self, value):
        model = AutoRegressor(effort="fast", random_state=0).fit(DATA.X[:60], np.full(60, value))
        np.testing.assert_allclose(model.predict_full(NEW.X).center, value)

    def test_many_rows_are_chosen_from_some_of_them_and_this_is_said(self, monkeypatch, linear_stack):
        monkeypatch.setattr(auto, "_MAX_CHOICE_ROWS", 250)
        use_effort(monkeypatch, max_rows=200)
        model = AutoRegressor(effort="fast", random_state=0).fit(DATA.X, DATA.y)
        assert len(model.choice_rows_) == len(set(model.choice_rows_)) == 250
        assert len(model.out_of_fold_prediction_) == 250
        fits, choice = model.report_.notes
        assert re.findall(r"\d+", fits) == ["400", "200"]
        assert re.findall(r"\d+", choice) == ["250"]
        assert str(model.report_).endswith(choice)
        found = recommend(AutoRegressor(effort="fast", random_state=0), DATA.X, DATA.y, calibration_rows=300)
        assert len(found.calibrate(NEW.X, NEW.y).predict_interval(DATA.X)) == 400

    @pytest.mark.parametrize("n", [6, 40, pytest.param(15, marks=pytest.mark.slow)])
    def test_few_rows(self, monkeypatch, n):
        """With all regressors, although with few trees and short training."""
        use_effort(monkeypatch, "normal", n_folds=3, n_trees=5, n_distribution_trees=5)
        fit = MLPRegressor.fit
        monkeypatch.setattr(MLPRegressor, "fit", lambda self, X, y: fit(self.set_params(max_iter=10), X, y))
        full = AutoRegressor(random_state=0).fit(DATA.X[:n], DATA.y[:n]).predict_full(NEW.X)
        assert np.isfinite(full.quantiles).all()
        assert (full.spread > 0).all()

    def test_constant_targets_and_features(self):
        model = AutoRegressor(effort="fast").fit(np.ones((30, 2)), np.full(30, 5.0))
        full = model.predict_full([[1.0, 1.0]])
        np.testing.assert_allclose(full.quantiles, 5.0)
        assert full.spread > 0

    def test_errors_say_what_is_expected(self):
        with pytest.raises(ValueError, match="unknown effort 'quick'; choose one of: fast, normal, best"):
            AutoRegressor(effort="quick").fit(DATA.X, DATA.y)
        with pytest.raises(ValueError, match="AutoRegressor needs at least 6 rows; got 5 sample"):
            AutoRegressor().fit(DATA.X[:5], DATA.y[:5])
        with pytest.raises(ValueError, match="clusters must have 400 rows, as many as X; got 3"):
            AutoRegressor().fit(DATA.X, DATA.y, clusters=[1, 2, 3])
        with pytest.raises(ValueError, match="level"):
            AutoRegressor(level=90).fit(DATA.X, DATA.y)

    def test_pickles_and_files_leave_out_the_training_rows(self, fitted, tmp_path):
        copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301
        assert not hasattr(copy, "out_of_fold_prediction_")
        np.testing.assert_array_equal(copy.predict_full(NEW.X).quantiles, fitted.predict_full(NEW.X).quantiles)
        model = ConformalRegressor(FrozenEstimator(fitted)).fit(NEW.X, NEW.y)
        model.save(tmp_path / "model.evencover")
        loaded = ConformalRegressor.load(tmp_path / "model.evencover")
        np.testing.assert_array_equal(loaded.predict_interval(NEW.X), model.predict_interval(NEW.X))
        assert loaded.estimator_.report_ == fitted.report_


class TestRecommend:
    """`recommend` uses the out-of-fold predictions of the model instead of fitting it on folds again."""

    @pytest.fixture
    def fits(self, monkeypatch):
        seen, original = [], AutoRegressor.fit

        def fit(self, X, y, **settings):
            seen.append(len(y))
            return original(self, X, y, **settings)

        monkeypatch.setattr(AutoRegressor, "fit", fit)
        return seen

    @pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
    def test_the_model_is_fitted_once(self, fits, linear_stack, wrap):
        progress = []
        model = recommend(
            wrap(AutoRegressor(effort="fast", random_state=0)),
            DATA.X,
            np.exp(DATA.y),  # skewed and positive: other models would be fitted to the log, too
            progress=lambda *each: progress.append(each),
        )
        assert fits == [400]
        assert progress[-1][0] == progress[-1][1]
        assert {each.transform for each in model.recommendation_.candidates} == {None}
        assert len(model.calibrate(NEW.X, np.exp(NEW.y)).predict_interval(DATA.X)) == 400

    def test_candidates_are_evaluated_out_of_fold(self, fits):
        model = recommend(AutoRegressor(effort="fast", random_state=0), DATA.X, DATA.y, calibration_rows=300)
        own = model.estimator.estimator.out_of_fold_prediction_
        calibrated = model.calibrate(NEW.X, NEW.y).predict_interval(NEW.X)
        assert len(own) == 400
        assert model.recommendation_.chosen.width == pytest.approx(calibrated.width.mean(), rel=0.2)

    def test_tables_with_text(self, linear_stack):
        pd = pytest.importorskip("pandas", reason="pandas is not installed")
        X = pd.DataFrame({"x": DATA.X[:, 0], "kind": np.where(DATA.X[:, 1] > 0.5, "a", "b")})
        model = make_pipeline(TableEncoder(), AutoRegressor(effort="fast", random_state=0)).fit(X, DATA.y)
        assert len(model.predict(X)) == 400


class TestStudy:
    @staticmethod
    def table():
        pd = pytest.importorskip("pandas", reason="pandas is not installed")
        return pd.DataFrame(NEW.X, columns=["a", "b", "c"]).assign(y=NEW.y)

    def test_it_is_the_default_and_reports_its_choice(self, tmp_path):
        found = study(self.table(), "y", plan=Plan(effort="fast"))
        report = found.stack_report
        assert found.model_text == f"stack ({report.summary})"
        write_report(found, tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "How the model was chosen" in page
        assert all(f">{each.name}<" in page for each in (*report.members, *report.distributions))
        assert result_data(found)["stack"]["members"][0]["weight"] == report.members[0].weight

    def test_other_models_have_no_such_report(self, tmp_path):
        found = study(self.table(), "y", plan=Plan(model="linear", nonconformity=Residual(), taxonomy=Marginal()))
        assert found.stack_report is None
        assert result_data(found)["stack"] is None
        write_report(found, tmp_path / "report.html")
        assert "How the model was chosen" not in (tmp_path / "report.html").read_text(encoding="utf-8")

    def test_progress_is_reported_also_with_a_given_score_and_groups(self):
        steps = []
        plan = Plan(effort="fast", nonconformity=Residual(), taxonomy=Marginal())
        study(self.table(), "y", plan=plan, progress=steps.append)
        assert "fitting the model: 1 of 32 fits" in steps
        assert "fitting the model: 32 of 32 fits" in steps
