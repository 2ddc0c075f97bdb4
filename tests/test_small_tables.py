"""Small tables: a model that can learn from few rows, its score and groups, and the levels that are possible."""

import re
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover import (
    BySpread,
    ConformalRegressor,
    CrossConformalRegressor,
    Marginal,
    Normalized,
    ProbabilityDistance,
    TooFewRowsWarning,
)
from evencover.models import NeighborSpread, WithSpread
from evencover.models.members import choices_text
from evencover.models.target_transforms import with_target_transform
from evencover.quantiles import rows_for_finite_threshold
from evencover.studies import Plan, study
from tests.canonical_studies import cross_regressor
from tests.synthetic import TwoLines


def targets(X):
    """Return for each candidate targets that it learns best from few rows."""
    return {"linear": X @ [1.0, 2.0, 3.0], "kernel": X[:, 0] * X[:, 1] + X[:, 2] ** 2, "trees": np.sign(X[:, 0] - 0.3)}


FEATURES = np.random.default_rng(0).uniform(-1, 1, (60, 3))
TARGETS = targets(FEATURES)
MEAN_AND_LINE = (("mean", DummyRegressor()), ("line", LinearRegression()))


def small_table_model(seed=0):
    """Return the model of small tables: the best of three regressors, with a spread of neighbours."""
    return Plan(model="best-of-three", seed=seed).estimator()


def best_of(*candidates, seed=0):
    """Return the best of these regressors by cross-validation, not yet fitted; by default of the usual three."""
    model = small_table_model(seed).estimator
    return model.set_params(candidates=candidates) if candidates else model


@cache
def best_of_three(kind):
    """Return the best of the three regressors for these targets, for tests that do not change it."""
    return best_of().fit(FEATURES, TARGETS[kind])


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 3, n)
    return pd.DataFrame({"x": x, "kind": rng.choice(["a", "b"], n), "y": 10 + x + rng.normal(0, 0.2 * x)})


class TestBestRegressor:
    @pytest.mark.parametrize("kind", TARGETS)
    def test_each_candidate_is_the_best_somewhere(self, kind):
        assert best_of_three(kind).best_ == kind

    @pytest.mark.parametrize("kind", TARGETS)
    def test_boosting_learns_less_from_38_rows(self, kind):
        new = np.random.default_rng(1).uniform(-1, 1, (500, 3))
        models = (best_of(), HistGradientBoostingRegressor(random_state=0))
        predicted = [model.fit(FEATURES[:38], TARGETS[kind][:38]).predict(new) for model in models]
        best, boosting = (np.mean((each - targets(new)[kind]) ** 2) for each in predicted)
        assert best < 0.5 * boosting

    def test_it_is_the_one_with_the_smallest_error_fitted_on_all_rows(self):
        y = TARGETS["linear"]
        model = best_of(*MEAN_AND_LINE, seed=3).fit(FEATURES, y)
        folds = KFold(5, shuffle=True, random_state=3)
        predicted = {name: cross_val_predict(each, FEATURES, y, cv=folds) for name, each in MEAN_AND_LINE}
        for name, values in predicted.items():
            assert model.errors_[name] == np.sqrt(np.mean((y - values) ** 2))
        assert model.best_ == "line"
        values, fold_of_rows = model.out_of_fold_
        np.testing.assert_array_equal(values, predicted["line"])
        for fold, (_, held_out) in enumerate(folds.split(FEATURES)):
            np.testing.assert_array_equal(np.flatnonzero(fold_of_rows == fold), held_out)
        np.testing.assert_array_equal(model.predict(FEATURES), LinearRegression().fit(FEATURES, y).predict(FEATURES))

    def test_the_first_of_equally_good_ones(self):
        twice = (("first", DummyRegressor()), ("second", DummyRegressor()))
        assert best_of(*twice).fit(FEATURES, TARGETS["linear"]).best_ == "first"

    def test_a_spread_uses_its_out_of_fold_predictions(self):
        y = TARGETS["kernel"]
        best = best_of_three("kernel")
        model = WithSpread(best_of(), NeighborSpread(), random_state=7).fit(FEATURES, y)
        expected = np.sqrt(np.pi / 2) * np.abs(y - best.out_of_fold_[0])
        np.testing.assert_array_equal(model.spread_.values_, expected)

    def test_clusters_stay_together_in_the_residuals_of_a_spread(self):
        y, clusters = TARGETS["linear"], np.arange(60) // 6
        best = best_of(("line", LinearRegression()))
        model, other = (
            WithSpread(each, NeighborSpread()).fit(FEATURES, y, clusters=clusters)
            for each in (best, LinearRegression())
        )
        np.testing.assert_array_equal(model.spread_.values_, other.spread_.values_)

    def test_each_fold_chooses_without_its_rows(self):
        """The choice is a part of the fit: what a fold's model predicts does not depend on the held-out targets."""
        y = TARGETS["trees"]
        folds = list(KFold(2).split(FEATURES))
        model = CrossConformalRegressor(small_table_model(), cv=folds, random_state=0)
        first = model.fit(FEATURES, y).estimators_[0].predict_full(FEATURES)
        changed = np.where(np.isin(np.arange(60), folds[0][1]), 100 * TARGETS["linear"], y)
        second = model.fit(FEATURES, changed).estimators_[0].predict_full(FEATURES)
        np.testing.assert_array_equal(second.ppf([0.1, 0.5, 0.9]), first.ppf([0.1, 0.5, 0.9]))
        assert {each.estimator_.best_ for each in model.estimators_[1:]} != {"trees"}  # the change matters to others

    @pytest.mark.parametrize("n", [3, 5, 8])
    def test_very_few_rows(self, n):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = small_table_model().fit(FEATURES[:n], TARGETS["linear"][:n])
        assert np.isfinite(model.predict_full(FEATURES).spread).all()

    def test_it_is_cloned(self):
        model = best_of(seed=4)
        assert repr(clone(model)) == repr(model)


def test_kernel_features_do_not_depend_on_the_unit():
    model, other = (dict(best_of().candidates)["kernel"][:-1] for _ in range(2))
    rows = [each.fit_transform(unit * FEATURES, FEATURES[:, 0]) for each, unit in ((model, 1), (other, 1024))]
    np.testing.assert_allclose(*rows, rtol=0, atol=1e-12)


class TestChoicesText:
    def test_one_model(self):
        assert choices_text([best_of_three("linear")]) == "linear"
        assert choices_text([LinearRegression().fit(FEATURES, TARGETS["linear"])]) == ""

    def test_folds(self):
        models = [best_of_three("kernel"), *[best_of_three("linear")] * 3]
        assert choices_text(models) == "linear in 3 of 4 folds, kernel in 1"
        assert choices_text(models[1:]) == "linear in 3 of 3 folds"

    def test_inside_other_models(self):
        positive = np.exp(TARGETS["linear"])
        inner = small_table_model()
        model = with_target_transform(make_pipeline(StandardScaler(), inner), "log").fit(FEATURES, positive)
        assert choices_text([model]) == "linear"
        assert choices_text([ConformalRegressor(inner, random_state=0).fit(FEATURES, positive).estimator_])


class TestPlan:
    @pytest.mark.parametrize(("n", "name"), [(20, "best-of-three"), (99, "best-of-three"), (100, "stack")])
    def test_auto_depends_on_the_number_of_rows(self, n, name):
        assert Plan().for_table(n).model == name
        assert repr(Plan().estimator(n)) == repr(Plan(model=name).estimator())

    def test_other_models_do_not(self):
        for model in ("linear", LinearRegression()):
            assert Plan(model=model).for_table(20).model is model

    def test_without_a_number_of_rows_it_is_the_stack(self):
        assert repr(Plan().estimator()) == repr(Plan(model="stack").estimator())

    def test_cross_fitting_takes_a_model_that_is_quick_to_fit(self):
        assert Plan().for_table(300, cross=True).model == "boosting"
        assert Plan().for_table(299, cross=True).model == "best-of-three"
        assert Plan(model="stack").for_table(300, cross=True).model == "stack"

    @pytest.mark.parametrize("effort", ["fast", "normal", "best"])
    def test_the_effort_is_that_of_the_stack(self, effort):
        assert Plan(effort=effort, level=0.8, seed=7).estimator().get_params() == {
            "effort": effort,
            "level": 0.8,
            "random_state": 7,
        }
        for n_rows, cross in ((99, False), (400, True)):
            assert Plan(effort=effort).for_table(n_rows, cross=cross) == Plan().for_table(n_rows, cross=cross)
        message = f"effort is for the models 'stack' and 'auto'; got '{effort}' with the model "
        with pytest.raises(ValueError, match=f"{message}'linear'$"):
            Plan(model="linear", effort=effort)
        with pytest.raises(ValueError, match=f"{message}LinearRegression$"):
            Plan(model=LinearRegression(), effort=effort)
        with pytest.raises(ValueError, match="unknown effort 'quick'; choose one of: fast, normal, best"):
            Plan(effort="quick")

    @pytest.mark.parametrize("n", [60, 320])
    def test_a_study_names_the_model(self, n):
        plan = Plan(nonconformity=Normalized(), taxonomy=Marginal(), effort="fast")
        found = study(table(n), "y", plan=plan)
        expected = r"stack \([a-z]+.*?\); score"
        expected = expected if n == 320 else r"best-of-three \((linear|kernel|trees)[^)]*\); score"
        assert re.match(expected, found.method)
        assert found.plan.model == expected.partition(" ")[0].strip(";")

    def test_rows_without_a_target_do_not_count(self):
        rows = table(110)
        rows.loc[:20, "y"] = np.nan
        plan = Plan(nonconformity=Normalized(), taxonomy=Marginal(), calibration="split")
        found = study(rows, "y", plan=plan, missing_target="drop")
        assert found.plan.model == "best-of-three"

    def test_score_and_groups_are_selected_as_usual(self):
        found = study(table(180), "y")
        assert found.recommendation is not None
        assert np.isfinite(found.intervals.width).all()


class TestChoice:
    @pytest.mark.parametrize("n", [13, 50, 100, 299])
    def test_one_group_below_300_rows(self, n):
        made = cross_regressor(table(n)[["x", "y"]], Plan(model=TwoLines(), calibration="cross", support="none"))
        assert made.nonconformity == ProbabilityDistance()
        assert isinstance(made.taxonomy, Marginal)

    @pytest.mark.parametrize(("n", "level", "several"), [(300, 0.9, True), (593, 0.99, False), (594, 0.99, True)])
    def test_three_groups_need_rows(self, n, level, several):
        """At level 0.99, a finite interval needs 99 rows."""
        made = cross_regressor(table(n)[["x", "y"]], Plan(model=TwoLines(), calibration="cross", level=level))
        assert (repr(made.taxonomy) == repr(BySpread(3))) == several


class TestPossibleLevel:
    @pytest.mark.parametrize("n", [1, 9, 12, 32, 98])
    @pytest.mark.parametrize("cross", [False, True])
    def test_the_warning_names_the_largest_level(self, n, cross):
        X, y = np.arange(float(max(n, 2)))[:, None], np.arange(float(max(n, 2))) ** 2
        if cross:
            model = CrossConformalRegressor(DummyRegressor(), cv=min(10, len(y)), random_state=0).fit(X, y)
            n = len(y)
        else:
            frozen = ConformalRegressor(DummyRegressor(), random_state=0).fit(X, y)
            model = frozen.calibrate(X[:n], y[:n])
        with pytest.warns(TooFewRowsWarning, match=f"has {n}. Up to level 0.*, intervals are finite") as caught:
            assert np.isinf(model.predict_interval(X, level=0.995).width).all()
        level = float(re.search(r"Up to level (0[.]\d+)", str(caught[0].message))[1])
        assert np.isfinite(model.predict_interval(X, level=level).width).all()
        assert rows_for_finite_threshold(round(level + 0.001, 3)) > n

    def test_not_if_no_level_is_possible(self):
        model = ConformalRegressor(DummyRegressor(), taxonomy=Marginal(), random_state=0)
        with pytest.warns(TooFewRowsWarning) as caught:
            model.fit([[0.0], [1.0]], [0.0, 1.0]).predict_interval([[0.0]], level=0.9)
        assert "Up to level 0.5" in str(caught[0].message)
