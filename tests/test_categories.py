"""Columns of many categories, and wide tables: mean targets, linear models, the columns that a stack gets."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LassoCV, LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evencover import ConformalRegressor, Plan, study
from evencover.models import AutoRegressor, TableEncoder
from evencover.models.categories import (
    UNSEEN,
    EncodedTable,
    FeatureLayout,
    category_means,
    codes_of,
    cross_fitted_means,
)
from evencover.models.encoding import joined_encoder
from evencover.models.linear import RidgeWithCategories, ScreenedColumns, SparseRegressor, conjugate_gradients
from evencover.models.members import EFFORTS, small_table_regressor, stack_members


def states(n=1500, n_states=60, *, noise=0.3, seed=0):
    """Return a table of states with effects of standard deviation 2, a number, and the targets."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(1).normal(scale=2, size=n_states)
    codes, x = rng.integers(n_states, size=n), rng.normal(size=n)
    table = pd.DataFrame({"x": x, "state": [f"s{code:02d}" for code in codes]})
    return table, effects[codes] + x + rng.normal(scale=noise, size=n)


class TestMeans:
    def test_means_are_the_best_linear_predictors_of_random_effects(self):
        """With so many categories, the variances are known: the mean squared error is that of the exact shrinkage."""
        rng = np.random.default_rng(0)
        n_categories, sizes = 20_000, np.tile([1, 2, 5, 12], 5000)
        effects = rng.normal(scale=0.7, size=n_categories)
        codes = np.repeat(np.arange(n_categories), sizes)
        y = 3 + effects[codes] + rng.normal(size=len(codes))
        found = category_means(codes, y, n_categories)
        assert_allclose(found[UNSEEN], y.mean())
        for size in np.unique(sizes):
            own = sizes == size
            exact = 0.49 / (1 + 0.49 * size)  # the variance of an effect, given its rows
            error = np.mean((found[:-1][own] - 3 - effects[own]) ** 2)
            assert abs(error - exact) < norm.isf(1e-4) * exact * np.sqrt(2 / own.sum())

    def test_the_formula(self):
        codes, y = np.array([0, 0, 0, 1, 1, 2]), np.array([1.0, 2.0, 6.0, 7.0, 9.0, 4.0])
        means, sizes = np.array([3.0, 8.0, 4.0]), np.array([3, 2, 1])
        within = ((y - means[codes]) ** 2).sum() / (6 - 3)
        between = ((sizes * (means - y.mean()) ** 2).sum() - 2 * within) / (6 - (sizes**2).sum() / 6)
        expected = y.mean() + sizes / (sizes + within / between) * (means - y.mean())
        assert_allclose(category_means(codes, y, 3), [*expected, y.mean()])

    def test_categories_that_say_nothing_have_the_mean_of_all(self):
        rng = np.random.default_rng(3)
        codes, y = np.arange(400) % 100, rng.normal(size=400)
        y -= (y.reshape(4, 100).mean(axis=0) - y.mean())[codes]  # all categories have the same mean
        assert_allclose(category_means(codes, y, 100), y.mean())
        assert_allclose(category_means(np.arange(5), np.arange(5.0), 5), 2.0)  # one row each
        assert_allclose(category_means(np.zeros(5, dtype=int), np.arange(5.0), 1), 2.0)

    def test_targets_without_noise(self):
        """Each category has one target, and one category has no rows, as in the folds of a rare one."""
        found = category_means(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 2.0, 2.0]), 3)
        assert_allclose(found, [1, 2, 1.5, 1.5])

    def test_rows_without_a_known_category_do_not_count(self):
        codes, y = np.array([0, 0, 1, 1, UNSEEN]), np.array([1.0, 2.0, 5.0, 6.0, 1e6])
        assert_array_equal(category_means(codes, y, 2), category_means(codes[:4], y[:4], 2))

    @pytest.mark.parametrize("unit", [1e-200, 1e300])
    def test_the_unit_does_not_matter(self, unit):
        codes, y = np.array([0, 0, 1, 1, 2, 2]), np.array([1.0, 1.1, 2.0, 2.3, 3.0, 3.1])
        assert_allclose(category_means(codes, unit * y, 3) / unit, category_means(codes, y, 3))

    def test_a_row_does_not_see_its_own_target(self):
        rng = np.random.default_rng(0)
        codes, y, folds = rng.integers(5, size=60), rng.normal(size=60), np.arange(60) % 5
        found = cross_fitted_means(codes, y, 5, folds)
        changed = y.copy()
        changed[folds == 2] += 100
        assert_array_equal(cross_fitted_means(codes, changed, 5, folds)[folds == 2], found[folds == 2])
        assert_allclose(found[folds == 2], category_means(codes[folds != 2], y[folds != 2], 5)[codes[folds == 2]])
        assert_allclose(cross_fitted_means(codes, y, 5, np.zeros(60)), y.mean())


class TestEncoder:
    def test_a_column_of_many_values_is_its_mean_target(self):
        table, y = states()
        encoder = TableEncoder().fit(table, y)
        encoded = encoder.transform(table)
        assert isinstance(encoded, EncodedTable)
        assert encoded.shape == (1500, 2)
        assert encoder.get_feature_names_out().tolist() == ["x", "state mean"]
        ranked = table["state"].value_counts()
        known = encoder.columns_[1]
        assert known.counts.tolist() == ranked.tolist()
        codes = encoded.codes[:, 0]
        assert_array_equal(known.categories[codes], table["state"])
        assert_array_equal(np.asarray(encoded), np.column_stack([table["x"], category_means(codes, y, 60)[codes]]))

    def test_training_rows_have_means_of_other_rows_and_clusters(self):
        table, y = states()
        clusters = np.arange(1500) // 3
        encoder = TableEncoder()
        for given in (None, clusters):
            before = encoder.fit_transform(table, y, clusters=given).means[:, 0]
            together = np.arange(1500) == 7 if given is None else clusters == clusters[7]
            changed = encoder.fit_transform(table, np.where(together, y + 1e3, y), clusters=given).means[:, 0]
            assert_array_equal(changed[together], before[together])
            assert np.any(changed != before)

    def test_new_and_missing_values(self):
        table, y = states()
        table.loc[::10, "state"] = None
        encoder = TableEncoder().fit(table, y)
        new = pd.DataFrame({"x": 0.0, "state": ["s00", "nowhere", None]})
        encoded = encoder.transform(new)
        means = encoder.columns_[1].means
        assert_array_equal(encoded.codes[1:, 0], [UNSEEN, 60])
        assert_allclose(encoded.means[1:, 0], [y.mean(), means[60]])
        assert encoder.outside(new).column_names == ["", "state", ""]
        never = TableEncoder().fit(*states()).transform(new)
        assert_array_equal(never.codes[1:, 0], [UNSEEN, UNSEEN])

    def test_without_targets_the_most_frequent_values_have_indicators(self):
        table, _ = states()
        assert TableEncoder().fit_transform(table).shape == (1500, 32)

    def test_encoders_of_folds_are_joined(self):
        table, y = states()
        few = table[table["state"] < "s20"]
        encoders = [TableEncoder().fit(table, y), TableEncoder().fit(few, y[few.index])]
        joined = joined_encoder(encoders[::-1])
        assert not joined.outside(table)
        assert joined.outside(pd.DataFrame({"x": [0.0], "state": ["z"]})).column_names == ["state"]

    def test_any_regressor_can_use_it(self):
        table, y = states()
        for model in (LinearRegression(), HistGradientBoostingRegressor(random_state=0)):
            fitted = make_pipeline(TableEncoder(), model).fit(table[:1000], y[:1000])
            assert fitted.score(table[1000:], y[1000:]) > 0.95

    def test_rows_of_an_encoded_table(self):
        table, y = states(50, 40)
        encoded = TableEncoder(max_categories=5).fit_transform(table, y)
        rows = np.array([3, 1, 4])
        assert_array_equal(np.asarray(encoded[rows]), np.asarray(encoded)[rows])
        assert_array_equal(encoded[rows].codes, encoded.codes[rows])
        assert len(encoded[rows]) == 3
        assert codes_of(np.zeros((4, 2)), 4).shape == (4, 0)


class TestLinear:
    @pytest.mark.parametrize("penalty", [0.1, 10.0])
    def test_coefficients_are_those_of_ridge_regression_of_indicators(self, monkeypatch, penalty):
        monkeypatch.setattr("evencover.models.linear._CATEGORY_PENALTIES", (penalty,))
        monkeypatch.setattr("evencover.models.linear._TOLERANCE", 1e-12)
        rng = np.random.default_rng(0)
        numbers, codes = rng.normal(size=(500, 2)), np.column_stack([rng.integers(size, size=500) for size in (7, 40)])
        y = numbers[:, 0] + codes[:, 0] + rng.normal(size=500)
        rows = np.column_stack([numbers, codes])
        found = RidgeWithCategories(2).fit(rows, y)
        standardized = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
        indicators = OneHotEncoder(sparse_output=False).fit_transform(codes)
        design = np.column_stack([standardized, indicators])
        expected = Ridge(penalty, fit_intercept=False).fit(design, y - y.mean())
        assert_allclose(found.predict(rows), expected.predict(design) + y.mean(), rtol=1e-8)

    def test_the_penalty_is_chosen_by_its_error(self):
        rng = np.random.default_rng(0)
        codes = rng.integers(300, size=(1500, 1))
        large, small = (RidgeWithCategories(1).fit(codes, y) for y in self.noisy_and_clear(codes[:, 0], rng))
        assert large.penalty_ > 10 * small.penalty_

    @staticmethod
    def noisy_and_clear(codes, rng):
        effects = rng.normal(size=300)[codes]
        return effects * 0.2 + rng.normal(size=len(codes)), effects + 0.01 * rng.normal(size=len(codes))

    def test_unknown_categories_have_no_effect(self):
        codes, y = np.arange(30)[:, None] % 3, np.arange(30) % 3 + 5.0
        model = RidgeWithCategories(1).fit(codes, y)
        assert_allclose(model.predict([[UNSEEN], [3], [77]]), y.mean())

    def test_conjugate_gradients_solve_equations(self):
        rng = np.random.default_rng(0)
        root = rng.normal(size=(40, 20))
        matrix, b = root.T @ root, rng.normal(size=20)
        found = conjugate_gradients(matrix.__matmul__, b, matrix.diagonal(), None)
        assert_allclose(matrix @ found, b, atol=1e-4 * np.linalg.norm(b))
        assert_array_equal(conjugate_gradients(matrix.__matmul__, 0 * b, matrix.diagonal(), None), np.zeros(20))

    def test_the_lasso_predicts_as_that_of_scikit_learn(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 400)) * rng.uniform(0.1, 10, size=400)
        y = 5 + X[:, :8] @ (1 / X[:, :8].std(axis=0)) + rng.normal(size=300)
        own, other = (
            SparseRegressor().fit(X[:200], y[:200]),
            make_pipeline(LassoCV()).fit(X[:200] / X.std(axis=0), y[:200]),
        )
        scores = r2_score(y[200:], own.predict(X[200:])), other.score(X[200:] / X.std(axis=0), y[200:])
        assert scores[0] > scores[1] - 0.01 > 0.7
        assert np.count_nonzero(own.coef_) < 100

    def test_the_lasso_of_noise_is_the_mean(self):
        rng = np.random.default_rng(2)
        X, y = rng.normal(size=(60, 200)), rng.normal(size=60)
        assert np.count_nonzero(SparseRegressor().fit(X, y).coef_) < 20
        constant = SparseRegressor().fit(X[:3], np.ones(3))
        assert_allclose(constant.predict(X[:3]), 1.0)

    def test_screening_keeps_columns_that_matter_together(self):
        """Two columns are nearly equal, and only their difference matters: neither is correlated with the target."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 500))
        X[:, 7] = X[:, 3] + 0.3 * rng.normal(size=300)
        y = 5 * (X[:, 7] - X[:, 3]) + X[:, 100] + 0.1 * rng.normal(size=300)
        chosen = ScreenedColumns(20, wide=100, kept=2).fit(X, y)
        assert {3, 7, 100} <= set(chosen.columns_)
        assert chosen.columns_[-2:].tolist() == [498, 499]
        assert chosen.transform(X).shape == (300, 22)
        assert_array_equal(ScreenedColumns(20, wide=500).fit(X, y).transform(X), X)


class TestStack:
    def test_the_columns_of_each_regressor(self):
        layout = FeatureLayout(5, (255, 256), 2)
        rows = np.arange(14.0).reshape(2, 7)
        members = stack_members(EFFORTS["normal"], 100, layout, 0)
        columns = {}
        for name, each in members.items():
            picked = each.regressor[0 if name == "linear" else 1]
            columns[name] = picked.fit(rows).transform(rows)[0]
        assert_array_equal(columns["linear"], [0, 1, 2, 5, 6])
        assert_array_equal(columns["boosting"], [0, 1, 2, 3, 4, 5])
        assert_array_equal(columns["slow boosting"], [0, 1, 2, 3, 4, 5])
        assert members["boosting"].regressor[-1].categorical_features == [5]
        for name in ("trees", "splines", "kernels", "network"):
            assert_array_equal(columns[name], np.arange(5))

    def test_wide_tables_with_categories(self):
        rng = np.random.default_rng(0)
        table, y = states(200, 40)
        wide = pd.concat([table, pd.DataFrame(rng.normal(size=(200, 320))).add_prefix("n")], axis=1)
        model = make_pipeline(TableEncoder(), AutoRegressor(effort="fast", random_state=0)).fit(wide[:150], y[:150])
        assert model.score(wide[150:], y[150:]) > 0.8
        (note,) = (note for note in model[-1].report_.notes if "100 of the" in note)
        assert "100 of the 322 columns" in note
        boosting = model[-1].stack_.members.get("boosting")
        assert boosting is None or boosting.regressor_[-1].n_features_in_ == 101

    def test_the_model_sees_all_states(self):
        table, y = states()
        model = make_pipeline(TableEncoder(), AutoRegressor(effort="fast", random_state=0)).fit(table[:1000], y[:1000])
        assert r2_score(y[1000:], model.predict(table[1000:])) > 0.96

    def test_categories_of_different_noise_have_intervals_of_different_width(self):
        rng = np.random.default_rng(0)
        codes = rng.integers(50, size=4000)
        noise = np.where(np.arange(50) % 2, 0.2, 2.0)
        table = pd.DataFrame({"state": [f"s{code}" for code in codes], "x": rng.normal(size=4000)})
        y = table["x"] + noise[codes] * rng.normal(size=4000)
        model = make_pipeline(TableEncoder(), AutoRegressor(effort="fast", random_state=0)).fit(table, y)
        encoded = model[0].transform(table[:500])
        spread = model[-1].predict_full(encoded).spread
        quiet = noise[codes[:500]] < 1
        assert np.median(spread[~quiet]) > 4 * np.median(spread[quiet])

    def test_unseen_categories_and_saved_predictors(self, tmp_path):
        """The effect of x depends on the state in no order, so boosted trees of categories have weight."""
        table, y = states()
        y = y + np.where(table["state"].str[-1].astype(int) % 2, 4, -4) * (table["x"] > 0)
        model = make_pipeline(TableEncoder(), AutoRegressor(effort="fast", random_state=0))
        fitted = ConformalRegressor(model, random_state=0).fit(table, y)
        new = pd.DataFrame({"x": [0.0, 1.0], "state": ["s00", "nowhere"]})
        expected = fitted.predict_interval(new)
        assert np.isfinite(np.asarray(expected)).all()
        assert "boosting" in fitted.estimator_[-1].stack_.members
        fitted.save(tmp_path / "predictor.evencover")
        assert_array_equal(
            np.asarray(ConformalRegressor.load(tmp_path / "predictor.evencover").predict_interval(new)), expected
        )

    def test_small_tables_try_the_lasso_if_they_are_wide(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 40))
        y = X[:, 0] - 2 * X[:, 1] + 0.1 * rng.normal(size=80)
        wide = small_table_regressor(0).fit(X, y)
        assert wide.best_ == "sparse linear"
        assert "sparse linear" not in small_table_regressor(0).fit(X[:, :30], y).errors_


def test_a_study_says_how_it_uses_columns_of_many_values():
    table, y = states(400, 75)
    found = study(table.assign(y=y), "y", plan=Plan(model="linear"))
    (text,) = (note.text for note in found.table_notes if "mean target" in note.text)
    counts = table["state"].iloc[found.evidence.training].value_counts()
    assert f"state ({len(counts)} different values, {(counts < 5).sum()} of them in fewer than 5 rows)" in text
    new = ~table["state"].iloc[found.test.positions].isin(counts.index)
    assert new.any()
    assert f"{new.sum()} of 100 held-out rows have a value that no training row has" in text
