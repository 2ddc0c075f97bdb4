"""Models that predict later rows, and rows of new clusters: their folds ask what predictions ask."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline

from evencover import ConformalRegressor, CrossConformalRegressor, Plan, recommend, study
from evencover.models import AutoRegressor, TableEncoder, WithSpread
from evencover.models.categories import OwnMeans, category_means
from evencover.models.folds import INDEPENDENT, ForwardSplit, RowStructure, out_of_fold_predictions
from evencover.models.members import BestRegressor, small_table_regressor
from evencover.models.trends import BoostedTrend, LastValues


class Recorder(RegressorMixin, BaseEstimator):
    """Remember the clusters and times of every fit, and predict the mean."""

    seen: ClassVar = []  # of all copies

    def fit(self, X, y, *, clusters=None, times=None):
        self.mean_ = float(np.mean(y))
        Recorder.seen.append((np.array(X)[:, 0], clusters, times))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.fixture(autouse=True)
def nothing_recorded():
    Recorder.seen = []


def panel(n_units=40, n_times=20, *, seed=0):
    """Return a panel of units with levels and a common trend, whose rows are in random order, and its target."""
    rng = np.random.default_rng(seed)
    unit, time = np.divmod(np.arange(n_units * n_times), n_times)
    x = rng.normal(size=len(unit))
    y = 5 * np.random.default_rng(1).normal(size=n_units)[unit] + 0.5 * time + x + 0.1 * rng.normal(size=len(unit))
    order = rng.permutation(len(unit))
    table = pd.DataFrame({"unit": [f"u{code:02d}" for code in unit], "year": 2000 + time, "x": x, "y": y})
    return table.iloc[order].reset_index(drop=True)


class TestFolds:
    def test_the_second_half_is_predicted_from_the_first(self):
        times = np.array([5, 1, 4, 2, 3, 0])
        ((earlier, later),) = ForwardSplit().split(times, groups=times)
        assert_array_equal(earlier, [1, 3, 5])
        assert_array_equal(later, [0, 2, 4])

    @pytest.mark.parametrize("times", [[0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2]])
    def test_rows_of_the_same_time_stay_together(self, times):
        ((earlier, later),) = ForwardSplit().split(times, groups=times)
        assert max(np.array(times)[earlier]) < min(np.array(times)[later])
        assert len(earlier) + len(later) == 6

    def test_one_time_is_an_error(self):
        with pytest.raises(ValueError, match="times must have at least 2 different values; got 1"):
            list(ForwardSplit().split([1, 1], groups=[1, 1]))

    def test_wrong_times_and_units(self):
        X, y = np.zeros((40, 1)), np.arange(40.0)
        for fit in (recommend, lambda model, *rows, **times: AutoRegressor().fit(*rows, **times)):
            with pytest.raises(ValueError, match="times must have 40 rows, as many as X; got 39"):
                fit(Ridge(), X, y, times=np.arange(39))
        with pytest.raises(ValueError, match=r"panel_units must name columns of X, which has \['x'\]; got \['q'\]"):
            TableEncoder(panel_units=["q"]).fit(pd.DataFrame({"x": [1.0, 2.0]}))

    def test_rows_that_are_only_trained_on_have_no_prediction(self):
        X, y = np.arange(10.0)[:, None], np.arange(10.0)
        splitter, groups = RowStructure(times=np.arange(10)).folds(5, 10, 0)
        predicted, folds = out_of_fold_predictions(LinearRegression(), X, y, splitter, groups, {})
        assert_array_equal(folds, [-1] * 5 + [0] * 5)
        assert np.isnan(predicted[:5]).all()
        assert_allclose(predicted[5:], y[5:])

    def test_a_given_splitter_stays_as_it_is(self):
        splitter, _ = RowStructure(times=np.arange(10)).folds([(np.arange(5), np.arange(5, 10))], 10, 0)
        assert not isinstance(splitter, ForwardSplit)
        assert INDEPENDENT.folds(3, 10, 0)[0].get_n_splits() == 3


class TestTrends:
    def test_trees_that_continue_a_trend(self):
        X = np.arange(60.0)[:, None]
        y = 2 * X[:, 0] + 5 * (X[:, 0] % 3 == 0)
        rows = np.column_stack([X, X % 3])
        model = BoostedTrend(LinearRegression(), ExtraTreesRegressor(20, random_state=0)).fit(rows[:40], y[:40])
        assert np.abs(model.predict(rows[40:]) - y[40:]).max() < 3
        assert (
            np.abs(ExtraTreesRegressor(20, random_state=0).fit(rows[:40], y[:40]).predict(rows[40:]) - y[40:]).max()
            > 20
        )

    def test_the_last_value_of_each_unit(self):
        units, y = np.array([0, 1, 0, 1, 2, 0]), np.arange(6.0)
        model = LastValues(0, 0, changes=False).fit(units[:, None], y)
        assert_array_equal(model.predict([[0], [1], [2]]), [5, 3, 4])
        assert_array_equal(model.predict([[-1], [7]]), [4, 4])  # the mean of all last values
        assert_array_equal(LastValues(0, changes=False).fit(units[:, None], y).predict([[0], [9]]), [5, 5])

    def test_changes_since_the_last_value(self):
        """Levels of units are arbitrary, and the trend and the feature are the same for all of them."""
        rng = np.random.default_rng(0)
        time, unit = np.divmod(np.arange(200), 10)
        x = rng.normal(size=200)
        y = 100 * rng.normal(size=10)[unit] + 3 * time + x
        rows = np.column_stack([time, x, unit])
        model = LastValues(2, 2).fit(rows[:150], y[:150])
        assert_allclose(model.coef_, [3, 1], rtol=1e-3)
        assert_allclose(model.predict(rows[150:]), y[150:], atol=0.1)

    def test_changes_that_do_not_matter_leave_the_last_value(self):
        rng = np.random.default_rng(0)
        rows, y = rng.normal(size=(12, 8)), np.arange(12.0) % 2
        naive, model = (LastValues(changes=changes).fit(rows[:4], y[:4]) for changes in (False, True))
        assert_array_equal(naive.predict(rows), np.full(12, 1.0))
        assert np.isfinite(model.predict(rows)).all()
        assert_array_equal(LastValues().fit(rows[:1], y[:1]).predict(rows), np.full(12, y[0]))


class TestStructure:
    def test_parts_of_a_pipeline_get_clusters_and_times(self):
        X, y = np.arange(40.0)[:, None], np.arange(40.0)
        clusters, times = np.arange(40) % 8, np.arange(40)[::-1]
        for wrapped in (WithSpread(Recorder(), random_state=0), make_pipeline(TableEncoder(), WithSpread(Recorder()))):
            Recorder.seen = []
            recommend(wrapped, X, y, clusters=clusters)
            assert len(Recorder.seen) > 5
            for rows, own, none in Recorder.seen:
                assert none is None
                assert_array_equal(own, clusters[rows.astype(int)])
        Recorder.seen = []
        recommend(WithSpread(Recorder(), random_state=0), X, y, times=times)
        for rows, none, own in Recorder.seen:
            assert none is None
            assert_array_equal(own, times[rows.astype(int)])
            assert len(rows) in {40, 20, 10}  # all rows, the earlier half, and its earlier half

    def test_a_conformal_regressor_passes_clusters_on(self):
        X, y, clusters = np.arange(60.0)[:, None], np.arange(60.0), np.arange(60) % 12
        for regressor in (ConformalRegressor(Recorder(), random_state=0), CrossConformalRegressor(Recorder(), cv=3)):
            Recorder.seen = []
            regressor.fit(X, y, clusters=clusters)
            for rows, own, _ in Recorder.seen:
                assert len(set(clusters[rows.astype(int)])) == len(set(own)) < 12

    def test_two_clusters(self):
        """The rows of a fold are those of one cluster, and the folds inside of it are random."""
        X, y = np.arange(40.0)[:, None], np.arange(40.0)
        model = recommend(WithSpread(Ridge(), random_state=0), X, y, clusters=np.arange(40) % 2)
        assert model.recommendation_.candidates

    def test_metadata_routing_passes_only_what_is_requested(self):
        X, y = np.arange(40.0)[:, None], np.arange(40.0)
        with config_context(enable_metadata_routing=True):
            recommend(WithSpread(Ridge(), random_state=0), X, y, clusters=np.arange(40) % 8)

    def test_the_best_of_three_is_chosen_by_cluster(self):
        """All rows of a cluster have nearly the same features and the same noise: trees memorise it."""
        rng = np.random.default_rng(0)
        clusters = np.repeat(np.arange(30), 8)
        X = rng.normal(size=(30, 3))[clusters] + 0.01 * rng.normal(size=(240, 3))
        y = X[:, 0] + 2 * rng.normal(size=30)[clusters]
        by_row, by_cluster = (small_table_regressor(0).fit(X, y, clusters=each) for each in (None, clusters))
        assert by_row.best_ != "linear"
        assert by_cluster.errors_["trees"] > 5 * by_row.errors_["trees"]
        spread = WithSpread(small_table_regressor(0), random_state=0).fit(X, y, clusters=clusters)
        assert_array_equal(spread.estimator_.out_of_fold_[1], by_cluster.out_of_fold_[1])

    def test_the_best_of_three_is_chosen_on_later_rows(self):
        time = np.arange(120.0)
        order = np.random.default_rng(0).permutation(120)
        X, y = time[order][:, None], 3 * time[order] + np.sin(time[order])
        model = small_table_regressor(0).fit(X, y, times=time[order])
        assert model.best_ in {"linear", "change since last value"}
        assert {"last value", "change since last value"} <= set(model.errors_)
        assert "last value" not in small_table_regressor(0).fit(X, y).errors_
        assert_array_equal(model.out_of_fold_[1] >= 0, time[order] >= 60)
        assert_allclose(model.predict([[200.0]]), [600.0], rtol=0.01)
        assert isinstance(model, BestRegressor)

    def test_means_of_categories_are_learned_on_the_rows_of_a_fold(self):
        rng = np.random.default_rng(0)
        codes, y = rng.integers(4, size=50), rng.normal(size=50)
        rows = np.column_stack([np.zeros(50), np.full(50, 99.0), codes])  # a number, a mean, and a code
        fitted = OwnMeans(1, 1).fit(rows, y)
        assert_allclose(fitted.transform(rows)[:, 1], category_means(codes, y, 4)[codes])
        assert_allclose(fitted.transform([[0, 0, 77], [0, 0, -1]])[:, 1], y.mean())
        clusters = np.arange(50) // 5
        before, changed = (
            OwnMeans(1, 1).fit_transform(rows, np.where(clusters == 3, y + shift, y), clusters=clusters)[:, 1]
            for shift in (0, 100)
        )
        assert_array_equal(before[clusters == 3], changed[clusters == 3])
        assert np.any(before != changed)


class TestStudies:
    def test_a_stack_continues_a_trend(self):
        table = panel()
        later = table["year"] >= 2014
        train, test = table[~later], table[later]
        model = make_pipeline(TableEncoder(), AutoRegressor(effort="fast", random_state=0))
        params = {"autoregressor__times": train["year"]}
        fitted = model.fit(train.drop(columns="y"), train["y"], **params)
        assert fitted.score(test.drop(columns="y"), test["y"]) > 0.99
        stack = fitted[-1]
        assert {"last value", "change since last value", "trend and boosting"} <= {
            e.name for e in stack.report_.members
        }
        assert set(train["year"].iloc[stack.choice_rows_]) == set(range(2007, 2014))
        assert len(stack.out_of_fold_prediction_) == len(stack.choice_rows_)

    def test_the_order_of_the_rows_does_not_matter(self):
        """Times are different, so there is one order of the rows."""
        rng = np.random.default_rng(0)
        X, times = rng.normal(size=(120, 2)), np.arange(120.0)
        y, order = X[:, 0] + 0.1 * times, rng.permutation(120)
        model, shuffled = (
            AutoRegressor(effort="fast", random_state=0).fit(X[rows], y[rows], times=times[rows])
            for rows in (np.arange(120), order)
        )
        assert_allclose(shuffled.predict(X), model.predict(X), rtol=1e-9)
        assert_array_equal(np.sort(times[order][shuffled.choice_rows_]), times[model.choice_rows_])

    @pytest.mark.parametrize("n_units", [5, 40])
    def test_a_study_in_the_order_of_time_knows_the_units(self, n_units):
        """The level of a unit is learned from its last value, also if units are few enough for indicator columns."""
        table = panel(n_units, 200 // n_units * 5)
        found = study(table, "y", time="year", plan=Plan(model=AutoRegressor(effort="fast", random_state=0)))
        y = found.test.y
        assert 1 - np.mean((y - found.prediction.center) ** 2) / y.var() > 0.9
        encoder = found.regressor.estimator_.estimator[0]
        assert tuple(encoder.panel_units) == ("unit",)
        encoded = encoder.transform(table.drop(columns="y"))
        assert len(np.unique(encoded.codes[:, -1])) == n_units

    def test_numbers_are_units_if_they_are_said_to_be_categories(self):
        table = panel(40, 25)
        table["unit"] = np.unique(table["unit"], return_inverse=True)[1]
        plan = Plan(model="linear")
        found = [study(table, "y", time="year", plan=plan, categorical=names).regressor for names in ([], ["unit"])]
        assert [tuple(each.estimator_.estimator[0].panel_units) for each in found] == [(), ("unit",)]

    @pytest.mark.parametrize("model", ["linear", "best-of-three", AutoRegressor(effort="fast", random_state=0)])
    def test_few_times(self, model):
        """The training rows are of two times or of one, in which each unit has one row, so that it looks like an id."""
        for held_out, left_out in ((0.6, ()), (0.8, ("unit",))):
            plan = Plan(model=model, held_out=held_out)
            found = study(panel(60, 5), "y", time="year", plan=plan)
            assert found.left_out == left_out
            assert np.isfinite(np.asarray(found.intervals)).all()

    @pytest.mark.parametrize(("model", "carries_over"), [("boosting", False), ("linear", True)])
    def test_the_advice_says_whether_the_model_carries_over_to_later_rows(self, model, carries_over):
        """Trees do not continue a trend. A line does, but the noise grows."""
        rng = np.random.default_rng(0)
        day = np.arange(600.0)
        noise = np.where(day < 480, 20, 80 if carries_over else 20)
        table = pd.DataFrame({"day": day, "y": day + noise * rng.normal(size=600)})
        found = study(table, "y", time="day", plan=Plan(model=model, held_out=0.4))
        assert found.audit.overall.coverage < 0.7
        advice = str(found.advice)
        assert ("Do not use this model for later rows" in advice) != carries_over
        assert ("Calibrate again as new rows come" in advice) == carries_over
        assert found.evidence.training_r2 > 0.9
