"""CrossConformalRegressor: folds, clusters, tables, searches, parameters of fit, and wrong input."""

import contextlib
import pickle
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from scipy.stats import binom, chisquare
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from evencover import (
    ByFeature,
    ByTarget,
    ConformalRegressor,
    CrossConformalRegressor,
    Normalized,
    OneSided,
    ProbabilityDistance,
    Product,
    Residual,
    audit,
)
from evencover.model_selection import CoverageScorer, IntervalScorer, intervals_of
from evencover.models import FromStd, NeighborSpread, TableEncoder, WithSpread, predictions_of
from evencover.models.estimators import fitted_clone
from evencover.models.folds import bootstrap_splits
from evencover.models.target_transforms import with_target_transform
from evencover.scores.evaluation import interval_by, scores_by
from evencover.synthetic import heteroskedastic
from tests.processes import descendants, parents, still_there
from tests.synthetic import ONE_IN_A_MILLION

DATA, NEW = heteroskedastic(60, seed=0), heteroskedastic(20, seed=1)
X, Y = DATA.X, DATA.y
BOOTSTRAP = "jackknife+-after-bootstrap"
METHODS = ["cv+", "jackknife+", BOOTSTRAP, "cross-conformal"]
HALVES = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
each_method = pytest.mark.parametrize("method", METHODS)


def cross(estimator=None, **settings):
    return CrossConformalRegressor(LinearRegression() if estimator is None else estimator, **settings)


def bounds(model, new=NEW.X):
    return np.asarray(model.predict_interval(new, level=[0.5, 0.8]))


def cube(y):
    return y**3


class LogOfSomeRows(RegressorMixin, BaseEstimator):
    """A linear model with a spread, fitted to the log of the target if its rows have large features."""

    def fit(self, X, y):
        spread = WithSpread(LinearRegression(), NeighborSpread(), random_state=0)
        chosen = with_target_transform(spread, "log" if X[:, 0].mean() > DATA.X[:, 0].mean() else None)
        self.best_estimator_ = fitted_clone(chosen, X, y)
        return self

    def predict(self, X):
        return self.best_estimator_.predict(X)


class Counter(RegressorMixin, BaseEstimator):
    """A linear model that counts the rows that it is fitted on and predicts."""

    rows_predicted = 0
    rows_fitted = 0

    def fit(self, X, y):
        Counter.rows_fitted += len(X)
        self.model_ = LinearRegression().fit(X, y)
        return self

    def predict(self, X):
        Counter.rows_predicted += len(X)
        return self.model_.predict(X)


class TrainingRows(RegressorMixin, BaseEstimator):
    """A mean that remembers the targets and weights that it was fitted on."""

    def fit(self, X, y, sample_weight=None, note=None):
        self.y_, self.weights_, self.note_ = np.asarray(y), sample_weight, note
        return self

    def predict(self, X):
        return np.full(len(X), self.y_.mean())


class TestFolds:
    def test_calibration_rows_have_out_of_fold_predictions(self):
        folds = KFold(4, shuffle=True, random_state=1)
        model = cross(cv=folds).fit(X, Y)
        np.testing.assert_allclose(
            model.calibration_rows_.prediction.center, cross_val_predict(LinearRegression(), X, Y, cv=folds)
        )
        np.testing.assert_allclose(model.calibration_.scores, np.abs(Y - model.calibration_rows_.prediction.center))

    def test_a_number_of_folds_is_shuffled_by_the_seed(self):
        expected = cross(cv=KFold(4, shuffle=True, random_state=1)).fit(X, Y)
        np.testing.assert_allclose(bounds(cross(cv=4, random_state=1).fit(X, Y)), bounds(expected))
        assert not np.array_equal(bounds(cross(cv=4, random_state=2).fit(X, Y)), bounds(expected))

    def test_pairs_are_those_of_a_splitter(self):
        folds = KFold(4, shuffle=True, random_state=1)
        expected = bounds(cross(cv=folds).fit(X, Y))
        np.testing.assert_allclose(bounds(cross(cv=list(folds.split(X))).fit(X, Y)), expected)
        np.testing.assert_allclose(bounds(cross(cv=iter(list(folds.split(X)))).fit(X, Y)), expected)

    def test_there_are_at_most_as_many_folds_as_rows(self):
        many, one_row = cross(cv=100).fit(X[:12], Y[:12]), cross(method="jackknife+").fit(X[:12], Y[:12])
        np.testing.assert_allclose(bounds(many), bounds(one_row), rtol=1e-9)
        assert len(many.estimators_) == len(one_row.estimators_) == 12

    def test_predict_returns_the_mean_of_the_models(self):
        model = cross(cv=3).fit(X, Y)
        expected = np.mean([each.predict(NEW.X) for each in model.estimators_], axis=0)
        np.testing.assert_allclose(model.predict(NEW.X), expected)
        np.testing.assert_allclose(model.rows(NEW.X).prediction.center, expected)

    def test_rows_without_a_fold_are_only_for_training(self):
        fold = np.where(np.arange(60) < 20, -1, np.arange(60) % 2)
        model = cross(TrainingRows(), cv=PredefinedSplit(fold)).fit(X, Y)
        assert len(model.calibration_.scores) == len(model.calibration_rows_) == 40
        np.testing.assert_allclose(model.calibration_rows_.y, Y[20:])
        for each, estimator in enumerate(model.estimators_):
            np.testing.assert_array_equal(np.sort(estimator.y_), np.sort(Y[fold != each]))

    def test_repeated_folds_use_every_repetition(self):
        model = cross(cv=RepeatedKFold(n_splits=3, n_repeats=4, random_state=0)).fit(X, Y)
        assert len(model.estimators_) == 12
        assert model.calibrator_.fold_scores.shape == (4, 60)
        assert len(model.calibration_.scores) == 60
        same = cross(cv=[*HALVES, *HALVES]).fit(X, Y)
        np.testing.assert_allclose(bounds(same), bounds(cross(cv=HALVES).fit(X, Y)))
        np.testing.assert_allclose(same.p_values(NEW.X, NEW.y), cross(cv=HALVES).fit(X, Y).p_values(NEW.X, NEW.y))

    def test_a_bootstrap_sample_is_drawn_with_replacement(self):
        model = cross(TrainingRows(), method=BOOTSTRAP, random_state=0).fit(X, Y)
        left_out = model.calibrator_.folds.left_out
        assert left_out.shape == (60, len(model.estimators_))
        for estimator, absent in zip(model.estimators_, left_out.T, strict=True):
            assert len(estimator.y_) == 60
            np.testing.assert_allclose(np.isin(Y, estimator.y_), ~absent)

    def test_the_number_of_bootstrap_samples_is_binomial(self):
        """With the probability that a sample of n + 1 rows leaves out the new one: about 55 of 150, and never none."""
        rng, n, n_bootstraps = np.random.default_rng(0), 4, 12
        counts = []
        for _ in range(2000):
            with contextlib.suppress(ValueError):  # no sample, or none that leaves out a row
                counts.append(len(bootstrap_splits(n_bootstraps, n, None, rng)))
        exact = binom(n_bootstraps, (1 - 1 / (n + 1)) ** n)
        expected = exact.pmf(np.arange(3, 8)) / exact.pmf(np.arange(3, 8)).sum()  # of errors there are then very few
        observed = np.bincount(counts, minlength=8)[3:8]
        assert chisquare(observed, expected * observed.sum()).pvalue > ONE_IN_A_MILLION
        default = CrossConformalRegressor(LinearRegression()).n_bootstraps
        shares = np.array([(1 - 1 / (n + 1)) ** n for n in range(2, 10_000)])
        assert binom.pmf(0, default, shares).max() < 1e-29
        assert round(default * shares[100]) == 55

    @each_method
    def test_each_row_is_predicted_once_by_each_model(self, method):
        Counter.rows_fitted = Counter.rows_predicted = 0
        model = cross(Counter(), method=method, random_state=0).fit(X, Y)
        n_models = len(model.estimators_)
        expected = {"cv+": (540, 60), "cross-conformal": (540, 60), "jackknife+": (60 * 59, 60)}
        assert (Counter.rows_fitted, Counter.rows_predicted) == expected.get(method, (60 * n_models, 60 * n_models))
        Counter.rows_predicted = 0
        model.predict_interval(NEW.X, level=[0.5, 0.8])
        assert Counter.rows_predicted == 20 * n_models
        rows = model.rows(NEW.X, NEW.y)
        Counter.rows_predicted = 0
        model.predict_interval(rows)
        model.predict_union(rows)
        model.p_values(rows)
        assert Counter.rows_predicted == 0

    @each_method
    def test_several_processes_give_the_same_numbers(self, method):
        one, two = (cross(method=method, n_jobs=n_jobs, random_state=0).fit(X, Y) for n_jobs in (None, 2))
        np.testing.assert_array_equal(bounds(two), bounds(one))
        np.testing.assert_array_equal(two.p_values(NEW.X, NEW.y), one.p_values(NEW.X, NEW.y))


KILLED_WHILE_FITTING = """
import time
import numpy as np
from sklearn.dummy import DummyRegressor
from evencover import CrossConformalRegressor

class Slow(DummyRegressor):
    def fit(self, X, y):
        time.sleep(0.2)
        return super().fit(X, y)

if __name__ == "__main__":
    X, y = np.zeros((40, 1)), np.arange(40.0)
    CrossConformalRegressor(Slow(), cv=4, n_jobs=2).fit(X, y)
    print("fitted", flush=True)
    CrossConformalRegressor(Slow(), method="jackknife+", n_jobs=2).fit(X, y)
    time.sleep(600)
"""


KILLED_WITH_FEW_FOLDS = """
import os
import time
import numpy as np
from sklearn.dummy import DummyRegressor
from evencover import CrossConformalRegressor

class Slow(DummyRegressor):
    def fit(self, X, y):
        os.write(1, b"f")
        time.sleep(600)

if __name__ == "__main__":
    CrossConformalRegressor(Slow(), cv=2, n_jobs=6).fit(np.zeros((40, 1)), np.arange(40.0))
"""


@pytest.mark.system
def test_no_process_is_left_over_if_there_are_fewer_folds_than_jobs(tmp_path):
    driver = tmp_path / "driver.py"
    driver.write_text(KILLED_WITH_FEW_FOLDS)
    with subprocess.Popen([sys.executable, driver], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.read(2) == "ff"
        workers = descendants(process.pid, parents())
        process.kill()
    assert len(workers) >= 3
    assert not still_there(workers)


@pytest.mark.system
def test_processes_end_when_their_parent_is_killed(tmp_path):
    """Also in the middle of a fit; the resource tracker that joblib starts must end as well."""
    driver = tmp_path / "driver.py"
    driver.write_text(KILLED_WHILE_FITTING)
    with subprocess.Popen([sys.executable, driver], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "fitted\n"
        workers = descendants(process.pid, parents())
        process.kill()
    assert len(workers) >= 3
    assert not still_there(workers)


class TestClusters:
    CLUSTERS = np.repeat([f"patient {i}" for i in range(20)], 3)

    @each_method
    def test_rows_of_a_cluster_are_left_out_together(self, method):
        order = np.random.default_rng(0).permutation(60)
        clusters, y = self.CLUSTERS[order], Y[order]
        model = cross(TrainingRows(), method=method, random_state=0).fit(X[order], y, clusters=clusters)
        n_models = {"jackknife+": 20, BOOTSTRAP: len(model.estimators_)}.get(method, 10)
        assert len(model.estimators_) == n_models
        for each in model.estimators_:
            in_training = pd.Series(np.isin(y, each.y_)).groupby(clusters).mean()
            assert set(in_training) == {0.0, 1.0}

    def test_fewer_clusters_than_folds(self):
        clusters = np.arange(60) % 12
        assert len(cross(cv=50).fit(X, Y, clusters=clusters).estimators_) == 12

    def test_few_clusters_are_a_warning(self):
        with pytest.warns(UserWarning, match="clusters has only 4 different clusters"):
            cross().fit(X, Y, clusters=np.arange(60) % 4)

    def test_a_splitter_gets_the_clusters(self):
        clusters = self.CLUSTERS
        expected = bounds(cross(cv=list(GroupKFold(5).split(X, Y, clusters))).fit(X, Y))
        np.testing.assert_allclose(bounds(cross(cv=GroupKFold(5)).fit(X, Y, clusters=clusters)), expected)
        assert len(cross(cv=LeaveOneGroupOut()).fit(X, Y, clusters=clusters).estimators_) == 20

    @each_method
    def test_nothing_is_guaranteed_for_rows_of_known_clusters(self, method, tmp_path):
        """The text says so, also after the model was saved, and only with clusters."""
        model = cross(method=method, random_state=0).fit(X, Y, clusters=self.CLUSTERS)
        model.save(tmp_path / "model.evencover")
        text = "Nothing is guaranteed for rows of clusters that the model was fitted or calibrated on."
        for each in (model, CrossConformalRegressor.load(tmp_path / "model.evencover")):
            assert str(each.guarantee_).endswith(
                f"Calibration rows: 60. It is an average over new clusters: rows of one "
                f"of them can be covered less often. {text}"
            )
        assert "clusters" not in str(cross(method=method, random_state=0).fit(X, Y).guarantee_)

    def test_an_audit_without_clusters_has_a_note(self):
        model = cross(random_state=0).fit(X, Y, clusters=self.CLUSTERS)
        note = "The calibration had clusters, but the test rows were treated as independent"
        assert note in str(audit(NEW.y, model.predict_interval(NEW.X)))
        assert note not in str(audit(NEW.y, model.predict_interval(NEW.X), clusters=np.arange(len(NEW.y))))


class TestFitParameters:
    @each_method
    def test_weights_of_training_rows_reach_the_models(self, method):
        weights = np.arange(60.0) + 1
        model = cross(TrainingRows(), method=method, random_state=0).fit(X, Y, sample_weight=weights, note="text")
        weight_of = dict(zip(Y.tolist(), weights.tolist(), strict=True))
        for each in model.estimators_:
            assert each.note_ == "text"
            assert each.weights_.tolist() == [weight_of[y] for y in each.y_.tolist()]

    def test_weights_change_the_models(self):
        weights = np.where(np.arange(60) < 30, 1.0, 1e-9)
        weighted = cross(cv=KFold(6, shuffle=True, random_state=0)).fit(X, Y, sample_weight=weights)
        expected = LinearRegression().fit(X[:30], Y[:30]).predict(NEW.X)
        assert np.corrcoef(weighted.predict(NEW.X), expected)[0, 1] > 0.99


class TestTables:
    @pytest.mark.parametrize("convert", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
    def test_frames_give_the_numbers_of_arrays(self, convert):
        old, new = ({name: values[:, i] for i, name in enumerate("abc")} for values in (X, NEW.X))
        taxonomy = ByFeature("a", edges=[0.5])
        pipeline = make_pipeline(TableEncoder(), LinearRegression())
        model = cross(pipeline, cv=4, taxonomy=taxonomy, random_state=0).fit(convert(old), Y)
        arrays = cross(cv=4, taxonomy=ByFeature(0, edges=[0.5]), random_state=0).fit(X, Y)
        np.testing.assert_allclose(bounds(model, convert(new)), bounds(arrays))
        np.testing.assert_allclose(model.p_values(convert(new), NEW.y), arrays.p_values(NEW.X, NEW.y))
        frame = model.predict_interval(convert(new)).to_frame()
        assert type(frame) is type(convert(new))
        assert list(model.feature_names_in_) == ["a", "b", "c"]

    def test_the_index_of_a_frame_is_kept(self):
        index = [f"row {i}" for i in range(20)]
        model = cross(cv=3).fit(pd.DataFrame(X), Y)
        assert list(model.predict_interval(pd.DataFrame(NEW.X, index=index)).to_frame().index) == index

    def test_sparse_matrices(self):
        model = cross(Ridge(solver="sparse_cg", tol=1e-12), cv=3, random_state=0).fit(csr_array(X), Y)
        dense = cross(Ridge(), cv=3, random_state=0).fit(X, Y)
        np.testing.assert_allclose(bounds(model, csr_array(NEW.X)), bounds(dense), rtol=1e-6)

    def test_text_columns(self):
        table = pd.DataFrame({"x": X[:, 0], "size": np.where(X[:, 1] > 0.5, "big", "small")})
        model = cross(make_pipeline(TableEncoder(), LinearRegression()), taxonomy=ByFeature("size"), random_state=0)
        intervals = model.fit(table, Y).predict_interval(table, level=0.8)
        assert set(intervals.groups.labels) == {"big", "small"}
        assert np.isfinite(intervals.width).all()

    def test_intervals_around_sets_know_their_groups_and_their_side(self, monkeypatch):
        for name in ("_FIRST_CELLS", "_MAX_NUMBERS"):
            monkeypatch.setattr(f"evencover.conformal.cross.{name}", 21)
        settings = {"taxonomy": ByFeature(0, edges=[0.5]), "nonconformity": OneSided(Residual(), side="upper")}
        found, expected = (
            cross(cv=3, method=method, random_state=0, **settings).fit(X, Y).predict_interval(NEW.X, level=0.8)
            for method in ("cross-conformal", "cv+")
        )
        assert found.side == expected.side == "upper"
        np.testing.assert_array_equal(found.groups.label_of_rows(), expected.groups.label_of_rows())

    def test_a_transform_by_lambda_functions(self):
        """Their contents cannot be compared, so the ends are selected in the unit of the target."""
        by_function = FunctionTransformer(lambda y: np.cbrt(y), lambda y: y**3)
        model = cross(cv=3, target_transform=by_function, random_state=0).fit(X, Y)
        same = cross(cv=3, target_transform=FunctionTransformer(np.cbrt, cube), random_state=0).fit(X, Y)
        np.testing.assert_allclose(bounds(model), bounds(same))

    @pytest.mark.parametrize("score", [Residual(), Normalized(), ProbabilityDistance()], ids=repr)
    def test_models_of_some_folds_on_another_scale(self, score):
        """The ends of the intervals are those of the models by themselves, selected by their ranks."""
        y = np.exp(Y)
        model = cross(LogOfSomeRows(), cv=3, nonconformity=score, random_state=0).fit(X, y)
        kinds = [isinstance(each.best_estimator_, TransformedTargetRegressor) for each in model.estimators_]
        assert sorted(set(kinds)) == [False, True]
        codes, ends = model.calibrator_.folds.codes[0], []
        for fold, each in enumerate(model.estimators_):
            own = np.flatnonzero(codes == fold)
            scores = scores_by(score, y[own], predictions_of(each, X[own]))
            np.testing.assert_array_equal(model.calibrator_.scores[own], scores)
            prediction = predictions_of(each, NEW.X)
            ends += [np.asarray(interval_by(score, threshold, prediction)) for threshold in scores]
        lower, upper = np.sort(np.stack(ends), axis=0).transpose(2, 0, 1)
        found = model.predict_interval(NEW.X, level=0.8)
        np.testing.assert_array_equal(found.lower, lower[12 - 1])  # floor(0.2 × 61)
        np.testing.assert_array_equal(found.upper, upper[49 - 1])  # ceil(0.8 × 61)
        np.testing.assert_allclose(found.prediction, model.predict(NEW.X))

    def test_a_large_table_is_predicted_in_blocks(self, monkeypatch):
        model = cross(cv=3, random_state=0).fit(X, Y)
        expected = bounds(model)
        for name in ("_FIRST_CELLS", "_MAX_NUMBERS"):
            monkeypatch.setattr(f"evencover.conformal.cross.{name}", 21)
        np.testing.assert_allclose(bounds(model), expected)
        np.testing.assert_allclose(bounds(model, pd.DataFrame(NEW.X)), expected)


class TestScikitLearn:
    @each_method
    def test_clones_and_copies(self, method):
        model = cross(Ridge(2.0), method=method, random_state=3)
        copy = clone(model).set_params(estimator__alpha=1.0)
        assert (copy.estimator.alpha, model.estimator.alpha, copy.method) == (1.0, 2.0, method)
        assert not hasattr(clone(model.fit(X, Y)), "calibrator_")
        loaded = pickle.loads(pickle.dumps(model))  # noqa: S301
        np.testing.assert_array_equal(bounds(loaded), bounds(model))

    def test_all_parameters_are_kept(self):
        settings = {
            "cv": 4,
            "method": "cross-conformal",
            "nonconformity": Normalized(),
            "taxonomy": ByFeature(0, edges=[0.5]),
            "target_transform": "log",
            "n_bootstraps": 7,
            "n_jobs": 2,
            "random_state": 5,
        }
        found = cross(**settings).get_params(deep=False)
        assert {name: found[name] for name in settings} == settings

    def test_a_search_over_its_parameters(self):
        grid = {"estimator__alpha": [0.1, 100.0], "method": ["cv+", "cross-conformal"], "cv": [3, 5]}
        scoring = {"score": IntervalScorer(0.8), "coverage": CoverageScorer(0.8)}
        search = GridSearchCV(cross(Ridge(), random_state=0), grid, cv=2, scoring=scoring, refit="score")
        search.fit(X, 20 * X[:, 0] + Y)
        assert search.best_params_["estimator__alpha"] == 0.1
        assert ((search.cv_results_["mean_test_coverage"] > 0) & (search.cv_results_["mean_test_coverage"] <= 1)).all()
        np.testing.assert_array_equal(
            intervals_of(search, NEW.X, 0.8).lower, search.best_estimator_.predict_interval(NEW.X, 0.8).lower
        )

    def test_cross_validation_of_a_pipeline(self):
        piped = make_pipeline(StandardScaler(), cross(cv=4, random_state=0))
        coverages = cross_val_score(piped, X, Y, cv=3, scoring=CoverageScorer(0.8))
        assert ((coverages > 0.5) & (coverages <= 1)).all()
        fitted = piped.fit(X, Y)
        expected = fitted[-1].predict_interval(fitted[0].transform(NEW.X), 0.8)
        np.testing.assert_array_equal(intervals_of(piped, NEW.X, 0.8).upper, expected.upper)

    def test_set_params_has_no_effect_until_the_next_fit(self):
        model = cross(cv=3, random_state=0).fit(X, Y)
        expected = bounds(model)
        model.set_params(method="cross-conformal", taxonomy=ByFeature(0, edges=[0.5]), nonconformity=Normalized())
        np.testing.assert_array_equal(bounds(model), expected)

    def test_an_error_in_fit_changes_nothing(self):
        model = cross(cv=3, random_state=0).fit(X, Y)
        expected = bounds(model)
        with pytest.raises(ValueError, match="Normalized needs a prediction with a spread"):
            model.set_params(nonconformity=Normalized()).fit(X[:30], Y[:30])
        np.testing.assert_array_equal(bounds(model), expected)


RULE = "cv must be at least 2 folds, a splitter, or pairs of training and test positions; got "
OTHER = ConformalRegressor(LinearRegression()).fit(X, Y)
FITTED = cross(cv=3, random_state=0).fit(X, Y)
WRONG_SETTINGS = {
    "method": ({"method": "cv"}, "method must be one of 'cv+', 'jackknife+', "),
    "method of another type": ({"method": ["cv+"]}, "method must be one of 'cv+', 'jackknife+', "),
    "one fold": ({"cv": 1}, f"{RULE}1"),
    "half a fold": ({"cv": 2.5}, f"{RULE}2.5"),
    "a text": ({"cv": "x"}, f"{RULE}'x'"),
    "a boolean": ({"cv": True}, f"{RULE}True"),
    "a class": ({"cv": KFold}, f"{RULE}the class KFold, not an object KFold(...)"),
    "no pairs": ({"cv": []}, f"{RULE}[]"),
    "numbers": ({"cv": [1, 2]}, f"{RULE}1 in place of a pair"),
    "random splits": ({"cv": ShuffleSplit(3)}, "cv must have each row in the same number of folds, such as KFold; got"),
    "overlap": (
        {"cv": [(np.arange(40), np.arange(30, 60)), HALVES[1]]},
        "cv must have no row in the training and the test part of the same fold; got a list",
    ),
    "uneven": ({"cv": [*HALVES, HALVES[0]]}, "or of none; got rows in the test parts of 1, 2 folds"),
    "no test rows": ({"cv": [(np.arange(60), [])]}, "cv must have training and test rows in each fold; got 60 and 0"),
    "positions": ({"cv": [(np.arange(30), [60])]}, "cv must have positions of rows from 0 to 59 in each fold; got"),
    "twice": (
        {"cv": [(HALVES[0][0], np.repeat(HALVES[0][1], 2)), (HALVES[1][0], np.repeat(HALVES[1][1], 2))]},
        "cv must have each row at most once in the test part of a fold; got array(",
    ),
    "negative": ({"cv": [(np.arange(30), [-1])]}, "cv must have positions of rows from 0 to 59 in each fold; got"),
    "masks": ({"cv": [(X[:, 0] > 0.5, X[:, 0] <= 0.5)]}, "cv must have positions of rows from 0 to 59 in each fold"),
    "no clusters": ({"cv": LeaveOneGroupOut()}, "cv=LeaveOneGroupOut() needs clusters; pass them to fit"),
    "folds of targets": ({"cv": StratifiedKFold(3)}, "cv must not depend on the targets"),
    "no samples": ({"method": BOOTSTRAP, "n_bootstraps": 0}, "n_bootstraps must be a positive whole number; got 0"),
    "few samples": ({"method": BOOTSTRAP, "n_bootstraps": 1, "random_state": 0}, "n_bootstraps must be larger, so "),
    "frozen": ({"estimator": FrozenEstimator(LinearRegression().fit(X, Y))}, "estimator must not be frozen, because"),
    "frozen part": ({"estimator": FromStd(FrozenEstimator(BayesianRidge().fit(X, Y)))}, "must not be frozen, because"),
    "classifier": ({"estimator": LogisticRegression()}, "estimator must be a regressor; got the classifier Logistic"),
    "class of estimator": ({"estimator": Ridge}, "estimator must be a regressor with scikit-learn's methods fit and"),
    "by target": ({"taxonomy": ByTarget([0.0])}, "taxonomy must not depend on the target in cross-conformal predic"),
    "product": ({"taxonomy": Product([ByTarget([0.0]), ByFeature(0)])}, "taxonomy must not depend on the target in"),
    "taxonomy": ({"taxonomy": "spread"}, "taxonomy must be a taxonomy such as BySpread(3), with methods learn(rows)"),
    "score": ({"nonconformity": "residual"}, "nonconformity must be a score such as Residual(): callable as"),
    "transform": ({"target_transform": "sqrt"}, "target_transform must be 'log', 'log1p', or a transformer"),
}
WRONG_ROWS = {
    "missing target": ({"y": np.where(np.arange(60) == 3, np.nan, Y)}, "y must be finite; NaN or infinite values: 1 "),
    "no target": ({"y": None}, "CrossConformalRegressor requires y to be passed"),
    "short target": ({"y": Y[:50]}, "inconsistent numbers of samples: [60, 50]"),
    "one row": ({"X": X[:1], "y": Y[:1]}, "cross-fitting needs at least 2 rows, to leave one out; got 1 sample"),
    "short clusters": ({"clusters": np.arange(50)}, "clusters must have 60 rows, as many as X; got 50"),
    "one number": ({"clusters": 3}, "clusters must have 60 rows, as many as X; got 3"),
    "one cluster": ({"clusters": np.zeros(60)}, "clusters must hold at least 2 different clusters; got 1"),
    "missing clusters": ({"clusters": [None, *range(59)]}, "clusters must have a label for every row; missing labels"),
    "short weights": ({"sample_weight": np.ones(50)}, "sample_weight must have 60 rows, as many as X; got 50"),
    "unknown argument": ({"weight": np.ones(60)}, "fit arguments must be those of LinearRegression.fit; got weight"),
}
WRONG_REQUESTS = {
    "level": (lambda: FITTED.predict_interval(X, 1.5), "level must lie strictly between 0 and 1; got 1.5"),
    "weights": (
        lambda: FITTED.predict_interval(X, weights=np.ones(60)),
        "CrossConformalRegressor takes no weights for covariate shift; leave weights out",
    ),
    "weights in rows": (
        lambda: FITTED.predict_interval(replace(FITTED.rows(X), weights=np.ones(60))),
        "CrossConformalRegressor takes no weights for covariate shift; leave weights out",
    ),
    "targets twice": (lambda: FITTED.p_values(FITTED.rows(X, Y), Y), "Rows contain their targets and weights; got y"),
    "no targets": (lambda: FITTED.p_values(X), "a p-value needs y, the targets; these rows have none"),
    "rows of another model": (
        lambda: FITTED.predict_interval(OTHER.rows(X)),
        "rows must have the predictions of 3 models, from the method `rows` of this CrossConformalRegressor; got 0",
    ),
    "p-values of another model": (lambda: FITTED.p_values(cross(cv=4).fit(X, Y).rows(X, Y)), "of 3 models"),
    "features": (lambda: FITTED.predict_interval(X[:, :2]), "X has 2 features, but CrossConformalRegressor is expect"),
    "unseen": (lambda: FITTED.predict_interval(X, unseen="none"), "unseen must be 'error', 'marginal' or 'inf'; got"),
}


@pytest.mark.parametrize(("settings", "message"), WRONG_SETTINGS.values(), ids=WRONG_SETTINGS)
def test_wrong_settings_are_an_error_before_a_model_is_fitted(settings, message):
    Counter.rows_fitted = 0
    model = CrossConformalRegressor(**{"estimator": Counter(), **settings})
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        model.fit(X, Y)
    assert Counter.rows_fitted == 0


@pytest.mark.parametrize(("rows", "message"), WRONG_ROWS.values(), ids=WRONG_ROWS)
def test_wrong_rows_are_an_error(rows, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        cross().fit(**{"X": X, "y": Y, **rows})


@pytest.mark.parametrize(("request_", "message"), WRONG_REQUESTS.values(), ids=WRONG_REQUESTS)
def test_wrong_requests_are_an_error(request_, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        request_()


@each_method
@pytest.mark.parametrize("clusters", [np.zeros(60), np.arange(50)], ids=["one", "short"])
def test_wrong_clusters_are_the_same_error_for_each_method(method, clusters):
    with pytest.raises(ValueError, match=r"clusters must (hold at least 2 different clusters; got 1|have 60 rows)"):
        cross(method=method).fit(X, Y, clusters=clusters)


def test_clusters_must_not_be_split_by_the_folds():
    clusters = np.arange(60) // 4
    with pytest.raises(ValueError, match="cv must leave out all rows of a cluster together, such as GroupKFold; got a"):
        cross(cv=HALVES).fit(X, Y, clusters=clusters)


@pytest.mark.parametrize("name", ["guarantee_", "estimators_", "calibration_", "taxonomy_"])
def test_an_unfitted_model_has_no_learned_attributes(name):
    assert not hasattr(cross(), name)
    with pytest.raises(NotFittedError, match="This CrossConformalRegressor instance is not fitted yet"):
        getattr(cross(), name)


def test_too_few_rows_are_a_warning_and_infinite_intervals():
    model = cross().fit(X[:5], Y[:5])
    with pytest.warns(UserWarning, match=r"intervals are infinite: level 0\.9 needs 9 rows in each group"):
        assert np.isinf(model.predict_interval(NEW.X).width).all()


def test_rows_in_all_bootstrap_samples_are_a_warning():
    with pytest.warns(UserWarning, match=r"rows that are in all \d bootstrap samples: .* use more n_bootstraps"):
        model = cross(method=BOOTSTRAP, n_bootstraps=6, random_state=0).fit(X, Y)
    assert np.isinf(model.calibration_.scores).any()
