"""Studies of small tables: every row trains, calibrates and is tested once, by models that have not seen it."""

import io
import json
import re
import shutil
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from evencover import (
    ByFeature,
    ByFunction,
    ByPrediction,
    BySpread,
    ByTarget,
    CrossConformalRegressor,
    Guarantee,
    Marginal,
    Normalized,
    OneSided,
    Prediction,
    ProbabilityDistance,
    Product,
    Residual,
    Support,
    TooFewRowsWarning,
    audit,
    conformal_rank,
    diagnose,
    interval_score,
)
from evencover.guarantees import FoldBound, LowerBound
from evencover.models import NeighborSpread, WithSpread
from evencover.studies import MODELS, Plan, study
from evencover.studies.cross_fitting import CrossSettings, OnBetterScale
from evencover.words.answers import share_text
from evencover.words.studies import guarantee_text, law_text
from tests.canonical_studies import StopStudyError, checked_table, cross_regressor
from tests.command_line import main, run_command_line
from tests.report_pages import cells_of, few_levels, levels_of, page_at, report_page, result_data, rows_of
from tests.synthetic import TwoLines

SIMPLE = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=Marginal(), calibration="cross")


class Zero(RegressorMixin, BaseEstimator):
    """A model that predicts 0 with a spread of 1, whatever it was fitted to."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(X.shape[0])

    def predict_full(self, X):
        return Prediction(self.predict(X), spread=np.ones(X.shape[0]))


def small(n=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": x + rng.normal(size=n)})


def with_kinds(n):
    """Return a table in which every other row is of kind a."""
    return small(n).assign(kind=np.where(np.arange(n) % 2, "a", "b"))


def patients():
    """Return a table with four rows of each of 23 patients, of which 22 calibrate in eleven folds of two."""
    return small(92).assign(patient=np.arange(92) // 4)


def bounds(found):
    return np.asarray(found.intervals)


def number_of_test_folds(n, level=0.9):
    """Return how many folds test the rows of a table, from the first step of the tests."""
    steps = []

    def begin(step):
        steps.append(step)
        if step.startswith("testing"):
            raise StopStudyError

    with pytest.raises(StopStudyError):
        study(small(n), "y", plan=replace(SIMPLE, model=Zero(), level=level), progress=begin)
    return int(re.search(r"(\d+) folds", steps[-1])[1])


@pytest.fixture(scope="module")
def steps():
    """The steps that the study `found` reports as its progress."""
    return []


@pytest.fixture(scope="module")
def found(steps):
    return study(small(), "y", plan=SIMPLE, name="small", progress=steps.append)


@pytest.fixture(scope="module")
def clustered():
    return study(patients(), "y", plan=SIMPLE, clusters="patient")


@pytest.fixture(autouse=True, scope="module")
def reports_with_few_levels():
    with few_levels():
        yield


class TestFolds:
    @pytest.mark.parametrize("n", [13, 19, 20, 29, 32, 99, 143])
    def test_calibration_folds_have_the_same_size(self, n):
        folds = [held_out for _, held_out in cross_regressor(small(n), SIMPLE).cv]
        rows = np.concatenate(folds)
        assert len({len(fold) for fold in folds}) == 1
        assert 10 <= len(folds) <= 19
        assert len(np.unique(rows)) == len(rows) > 0.9 * n

    def test_rows_can_be_left_out_one_by_one(self):
        """Each group of features has a guarantee of its own, which folds of several rows would weaken."""
        plan = replace(SIMPLE, taxonomy=ByFeature("kind"))
        assert [len(cross_regressor(with_kinds(n), plan).cv) for n in (100, 101)] == [100, 10]

    @pytest.mark.parametrize("n", [13, 45])
    def test_ten_folds_test_the_rows(self, n):
        assert number_of_test_folds(n) == 10

    def test_enough_units_for_a_finite_interval_are_left(self):
        """At level 0.95 an interval needs 19 rows: of 20, one at a time is held out, and none is left over."""
        assert [number_of_test_folds(n, level=0.95) for n in (19, 20, 21, 22)] == [10, 20, 11, 10]
        folds = [cross_regressor(small(21), replace(SIMPLE, level=level)).cv for level in (0.9, 0.952, 0.954)]
        assert [sum(len(held_out) for _, held_out in pairs) for pairs in folds] == [20, 20, 21]

    def test_clusters_stay_together_and_one_row_of_each_counts(self, clustered):
        patient, y = patients()["patient"].to_numpy(), patients()["y"].to_numpy()
        folds = [(np.arange(92), clustered.regressor.cv)]
        for regressor, rows in zip(clustered.evidence.turns.regressors, clustered.evidence.turns.rows, strict=True):
            others = np.flatnonzero(~np.isin(patient, patient[np.isin(y, rows.y)]))
            folds.append((others, regressor.cv))
        for positions, pairs in folds:
            for training, tested in pairs:
                own, held_out = patient[positions[training]], patient[positions[tested]]
                assert not set(own) & set(held_out)
                assert set(own) | set(held_out) == set(patient[positions])
                assert len(set(held_out)) == len(held_out) == 2
                assert np.isin(y[positions[tested]], clustered.test.y).all()

    def test_the_row_of_a_cluster_is_random(self, clustered):
        assert set(clustered.test.positions % 4) == {0, 1, 2, 3}


class TestOutOfSample:
    def test_every_row_is_tested_once(self, found):
        np.testing.assert_array_equal(found.test.positions, np.arange(40))
        np.testing.assert_array_equal(found.test.y, small()["y"])
        assert found.sizes == {"training": 40, "calibration": 40, "test": 40}
        assert found.n_rows == 40

    def test_its_own_target_does_not_change_its_interval(self, found):
        """Nor do the targets of the rows that are tested with it."""
        changed = small()
        tested = np.isin(changed["y"], found.evidence.turns.rows[3].y)
        changed.loc[tested, "y"] += 50
        again = study(changed, "y", plan=SIMPLE)
        np.testing.assert_array_equal(bounds(again)[tested], bounds(found)[tested])
        assert tested.sum() == 4
        assert (bounds(again) != bounds(found))[~tested].any(axis=1).all()

    def test_targets_of_its_cluster_do_not_change_its_interval(self, clustered):
        before, table = clustered, patients()
        assert "random rows of new clusters" in before.regressor.guarantee_.assumption
        assert (len(before.test), len(before.calibration)) == (23, 22)
        assert sorted(before.test.positions // 4) == list(range(23))
        table.loc[8:11, "y"] += 50
        after = study(table, "y", plan=SIMPLE, clusters="patient")
        np.testing.assert_array_equal(bounds(after)[2], bounds(before)[2])
        assert not np.array_equal(bounds(after), bounds(before))
        assert before.regressor.guarantee_.lower_bound(0.9) == 1 - Fraction(2 * 2, 22 + 2)  # folds of two clusters
        for text in ("92 rows to train", "23 of them, one of each patient", "22 to calibrate"):
            assert text in str(before), text
        assert "For rows of new clusters, at least 83 % is guaranteed" in before.answers()["How often right"]
        assert "without any row of its cluster" in law_text(before)
        assert "fewer clusters than the model for new rows" in law_text(before)
        assert not any("as independent" in note for note in before.audit.notes)

    def test_an_interval_has_the_rank_of_the_other_rows(self):
        """For a model that predicts 0, the half width is an order statistic of the other folds' absolute targets."""
        plan = replace(SIMPLE, model=Zero(), level=0.8, support="none")
        found = study(small(19), "y", plan=plan)  # folds of one row, so no calibration row only trains
        y = np.abs(small(19)["y"].to_numpy())
        for regressor, rows in zip(found.evidence.turns.regressors, found.evidence.turns.rows, strict=True):
            tested = np.isin(y, np.abs(rows.y))
            others = np.sort(y[~tested])
            half = others[conformal_rank(len(others), 0.8) - 1]
            assert len(regressor.calibration_rows_) == len(others)
            np.testing.assert_allclose(found.intervals.upper[tested], half, rtol=1e-14)
            np.testing.assert_allclose(found.intervals.lower[tested], -half, rtol=1e-14)

    def test_the_groups_are_those_of_the_models_that_test_a_row(self):
        found = study(small(60), "y", plan=replace(SIMPLE, model=TwoLines(), taxonomy=BySpread(2)))
        labels = np.empty(60, dtype=object)
        for regressor, rows in zip(found.evidence.turns.regressors, found.evidence.turns.rows, strict=True):
            positions = [int(np.flatnonzero(found.test.y == y)[0]) for y in rows.y]
            labels[positions] = regressor.taxonomy_.assign(rows).label_of_rows()
        np.testing.assert_array_equal(found.groups.label_of_rows(), labels)
        assert [row.group for row in found.audit.table] == ["low", "high"]

    def test_one_threshold_is_audited_by_thirds(self, found):
        assert [row.rows for row in found.audit.table] == [13, 13, 14]

    def test_a_group_that_a_fold_lacks_gets_an_interval_from_all_rows(self):
        table = small(23).assign(kind=["rare"] + ["usual"] * 22)
        found = study(table, "y", plan=replace(SIMPLE, taxonomy=ByFeature("kind")))
        assert np.isfinite(bounds(found)).all()
        with pytest.warns(TooFewRowsWarning, match="group 'rare' has 1"):
            final = found.regressor.predict_interval(table[["x", "kind"]])
        assert np.isinf(final.width[0])

    def test_a_warning_is_given_once(self):
        with pytest.warns(TooFewRowsWarning) as caught:
            study(small(23), "y", plan=replace(SIMPLE, level=0.98))
        assert [str(each.filename) for each in caught] == [__file__]


class TestSettings:
    def test_they_depend_on_the_number_of_rows_alone(self):
        found = study(small(30), "y", plan=Plan(model=TwoLines(), calibration="cross"))
        assert found.regressor.calibration_.nonconformity == ProbabilityDistance()
        assert found.recommendation is None
        assert {str(each.taxonomy) for each in (found.regressor, *found.evidence.turns.regressors)} == {"Marginal()"}
        many = cross_regressor(small(400), Plan(model=TwoLines(), calibration="cross"))
        assert many.nonconformity == ProbabilityDistance()
        assert str(many.taxonomy) == "BySpread(n_groups=3)"

    def test_a_model_without_a_spread_gets_one_if_the_score_is_not_given(self):
        plans = SIMPLE, replace(SIMPLE, nonconformity=None)
        plans = [replace(plan, target_transform="none") for plan in plans]
        models = [cross_regressor(small(), plan).estimator[-1] for plan in plans]
        assert [type(model) for model in models] == [LinearRegression, WithSpread]

    def test_the_support_is_that_of_the_rows_that_train(self):
        table = small(23).assign(y=lambda each: each.y.abs())
        table.loc[5, "y"] = -0.5
        found = study(table, "y", plan=SIMPLE)
        assert found.intervals.lower[table.y > 0].min() < 0
        assert found.intervals.lower[5] >= 0  # the models that test this row have seen no negative target
        given = replace(SIMPLE, support=Support(y_min=0))
        with pytest.warns(UserWarning, match="outside the support"):
            found = study(table, "y", plan=given)
        assert found.warnings[0].startswith("1 of 23 test targets are outside the support (at least 0)")

    def test_a_support_that_all_rows_decide_is_a_condition_of_the_guarantee(self):
        """If all targets have it, the intervals lose no target: each holds all possible ones that it held without."""
        table = small(23).assign(y=lambda each: np.rint(4 * each.y.abs()))
        with_support, without = (study(table, "y", plan=replace(SIMPLE, support=each)) for each in ("auto", "none"))
        condition = "all targets are whole numbers of at least 0"
        assert condition in with_support.regressor.guarantee_.assumption
        assert condition not in without.regressor.guarantee_.assumption
        new = table.sample(200, replace=True, random_state=0)[["x"]]
        intervals = [found.regressor.predict_interval(new) for found in (with_support, without)]
        for target in np.arange(12.0):
            inside, before = (each.covers(np.full(200, target)) for each in intervals)
            assert (inside | ~before).all()

    def test_one_sided_bounds(self):
        found = study(small(23), "y", plan=replace(SIMPLE, nonconformity=OneSided(Residual(), side="upper")))
        assert np.isneginf(found.intervals.lower).all()
        assert found.quality.side == "upper"
        assert report_page(found)

    def test_the_same_seed_gives_the_same(self, found):
        """Also with several processes."""
        with parallel_config(n_jobs=2):
            again = study(small(), "y", plan=SIMPLE)
        np.testing.assert_array_equal(bounds(again), bounds(found))
        other = study(small(), "y", plan=replace(SIMPLE, seed=1))
        assert not np.array_equal(bounds(other), bounds(found))

    @pytest.mark.usefixtures("found")
    def test_progress_is_reported(self, steps):
        assert steps[:2] == ["checking the columns", "fitting and calibrating the model on all rows"]
        assert steps[2:12] == [f"testing the rows out of sample: {fold} of 10 folds" for fold in range(10)]
        assert steps[12:] == ["diagnosing the calibration rows", "auditing the test rows"]


class TestChoice:
    """`auto` takes "cross" where a split would leave a group with too few calibration rows."""

    @staticmethod
    def way(n, plan=None, table=None, **roles):
        return checked_table(with_kinds(n) if table is None else table, plan=plan, **roles)[1]

    def test_three_groups_need_twice_the_rows_of_a_finite_threshold(self):
        assert [self.way(n) for n in (24, 170, 171)] == ["cross", "cross", "split"]

    def test_given_groups_need_rows_for_two_finite_thresholds_on_average(self):
        """One for each half of the held-out rows, which are at most a third of the table."""
        both = Product([ByFeature("kind"), BySpread(2)])
        needed = [
            (53, Marginal(), "cross"),
            (54, Marginal(), "split"),
            (60, ByFeature("kind"), "cross"),
            (150, ByFeature("kind"), "split"),
            (90, BySpread(3), "cross"),
            (180, ByPrediction(3), "split"),
            (150, both, "cross"),
            (600, both, "split"),
            (90, ByFunction(lambda X: np.asarray(X["x"]) > 0), "cross"),
        ]
        for n, taxonomy, way in needed:
            assert self.way(n, Plan(taxonomy=taxonomy)) == way, (n, taxonomy)

    def test_a_group_that_is_too_small_anyway_does_not_count(self):
        for rare, way in ((8, "split"), (9, "cross"), (26, "cross"), (40, "split")):
            table = small(200).assign(kind=["rare"] * rare + ["usual"] * (200 - rare))
            assert self.way(200, Plan(taxonomy=ByFeature("kind")), table) == way

    def test_groups_of_unknown_sizes_are_split(self):
        assert self.way(40, Plan(taxonomy=BySpread(edges=[8.0]))) == "split"
        assert self.way(40, Plan(taxonomy=ByTarget([0.0]), nonconformity=Residual())) == "split"

    @pytest.mark.parametrize("settings", [{"held_out": 0.3}, {"tails": "separate"}], ids=lambda each: str(*each))
    def test_settings_of_a_split_ask_for_a_split(self, settings):
        assert self.way(100, Plan(**settings)) == "split"

    def test_times_ask_for_a_split(self):
        assert self.way(100, None, small(100).assign(day=np.arange(100)), time="day") == "split"

    def test_large_tables_are_split(self):
        table = small(1001).assign(kind=["rare"] * 20 + ["usual"] * 981)
        assert self.way(1000, Plan(taxonomy=ByFeature("kind")), table[:1000]) == "cross"
        assert self.way(1001, Plan(taxonomy=ByFeature("kind")), table) == "split"

    def test_clusters_are_counted(self):
        table = small(400).assign(patient=np.arange(400) // 4)
        assert self.way(400, None, table, clusters="patient") == "cross"
        assert self.way(400, None, small(400)) == "split"

    def test_a_note_tells_why(self):
        found = study(small(80), "y", plan=Plan(model=TwoLines()))
        assert isinstance(found.regressor, CrossConformalRegressor)
        assert "because a split would leave only 26 rows for calibration." in found.notes[0]
        assert found.notes[0].endswith("use calibration='split'.")
        split = study(small(80), "y", plan=replace(SIMPLE, calibration="split"))
        assert split.evidence.kind == "turns"
        assert not any("in turn" in note for note in split.notes)


class TestErrors:
    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            ({"calibration": "loo"}, "calibration must be 'auto', 'split' or 'cross'; got 'loo'"),
            ({"held_out": 0.5}, "calibration must be 'split' or 'auto' for held_out=0.5; got 'cross'"),
            ({"tails": "separate"}, "calibration must be 'split' or 'auto' for tails='separate'; got 'cross'"),
            ({"taxonomy": ByTarget([0.0])}, "calibration must be 'split' or 'auto' for groups of the target"),
        ],
        ids=str,
    )
    def test_settings_that_only_a_split_can_have(self, settings, text):
        with pytest.raises(ValueError, match=text):
            Plan(**{"calibration": "cross", **settings})

    def test_times(self):
        table = small().assign(day=np.arange(40))
        text = "calibration must be 'split' or 'auto' for rows in the order of time; got 'cross'"
        with pytest.raises(ValueError, match=text):
            study(table, "y", plan=SIMPLE, time="day")

    def test_too_few_rows(self):
        with pytest.raises(
            ValueError, match=r"table must have at least 13 rows with a target: .* 10 remain to train; got 12"
        ):
            study(small(12), "y", plan=replace(SIMPLE, calibration="auto"))
        found = study(small(13), "y", plan=replace(SIMPLE, calibration="auto"))
        assert found.notes[0].endswith("because they are too few to hold some of them out.")
        assert len(found.intervals) == 13
        smallest = min(len(training) for each in found.evidence.turns.regressors for training, _ in each.cv)
        assert smallest == 10

    def test_too_few_clusters(self):
        table = small(48).assign(patient=np.arange(48) // 4)
        with pytest.raises(ValueError, match="table must have at least 13 clusters: some are left out"):
            study(table, "y", plan=SIMPLE, clusters="patient")


class TestTexts:
    def test_the_guarantee_is_stated_in_words(self, found):
        bound = found.regressor.guarantee_.lower_bound(0.9)
        assert bound == 1 - Fraction(2 * 4 + 4 - 2, 40 + 4)  # ten folds of four rows; r = 4 of 41 ranks
        text = "For new rows, at least 77 % is guaranteed; usually it is close to 90 %."
        assert found.headline == f"{found.audit.headline} {text}"
        assert "folds" not in found.regressor.guarantee_.assumption  # those of a study are random
        assert f"How often right: {share_text(found.audit)} {text}" in str(found)

    @staticmethod
    def sentence(found, guarantee):
        """Return what a study says of its guarantee, if it were this one."""
        return guarantee_text(replace(found, regressor=SimpleNamespace(guarantee_=guarantee)), 0.9)

    def test_guarantees_of_all_kinds(self, found):
        sizes = {"a": 10, "b": 12}
        cases = {
            "no share is guaranteed, because the groups depend on predictions": Guarantee("approximate", sizes),
            "nothing is guaranteed at so low a level": Guarantee("approximate", {"all": 9}, bound=LowerBound(10)),
            "at least 80 % is guaranteed in every group": Guarantee("approximate", sizes, bound=LowerBound(2)),
        }
        for text, guarantee in cases.items():
            assert self.sentence(found, guarantee) == f"For new rows, {text}; usually it is close to 90 %."
            of_clusters = self.sentence(found, replace(guarantee, for_new_clusters=True))
            known = " For rows of known clusters, nothing is guaranteed." * text.startswith("at least")
            assert of_clusters == f"For rows of new clusters, {text}; usually it is close to 90 %.{known}"

    @pytest.mark.parametrize(
        ("n", "text"),
        [
            (8, "the intervals are infinite, so that no target is missed."),
            (18, "at least 94 % is guaranteed."),  # the coverage that is usual is not close to 90 %
            (40, "at least 82 % is guaranteed; usually it is close to 90 %."),
        ],
    )
    def test_guarantees_of_few_rows(self, found, n, text):
        guarantee = Guarantee("approximate", {"all": n}, bound=FoldBound(n, Fraction(1)))
        assert self.sentence(found, guarantee) == f"For new rows, {text}"

    def test_the_law_is_stated(self, found):
        assert "The tests use the binomial law" in str(found)
        assert found.audit.evidence == "test rows"
        assert not found.audit.sizes_known
        split = study(small(200), "y", plan=replace(SIMPLE, calibration="split"))
        assert split.audit.sizes_known
        known = "The model for new rows has the thresholds of all 66; widths are those of its intervals."
        assert law_text(split).endswith(known)
        assert "binomial" not in str(split)
        assert guarantee_text(split, 0.9) == ""
        assert split.headline == split.audit.headline

    def test_the_result_as_text(self, found):
        text = str(found)
        assert "Data: small, target y; 40 rows, each used to train, to calibrate and to test in turn." in text
        assert "With one threshold for all rows, from the out-of-fold scores of several models: " in text
        assert repr(found) == f"Study(small, target y: {found.verdict}; rows: 40, cross-fitted; level 0.9)"
        assert "cross-fitted" in found._repr_html_()

    def test_results_as_data(self, found):
        data = result_data(found)
        assert data["calibration"] == "cross"
        assert data["headline"] == found.headline
        assert data["rows"] == {"training": 40, "calibration": 40, "test": 40}
        assert data["guaranteed_coverage"] == pytest.approx(1 - 10 / 44)
        assert data["thresholds"] is None

    def test_the_intervals_as_columns(self, found):
        columns = found.columns_of_intervals()
        np.testing.assert_array_equal(columns["row"], np.arange(40))
        np.testing.assert_array_equal(columns["y"], small()["y"])
        np.testing.assert_array_equal(columns["prediction"], found.prediction.center)

    @staticmethod
    def advice(found, audited):
        """Return the advice of a study, if its audit were this one."""
        return replace(found, audit=audited).advice

    def test_advice_if_coverage_is_off(self, found):
        """A split is named if coverage is too low; nothing of it if it is too high."""
        y = np.zeros(400)
        wide = np.stack([np.where(np.arange(400) < 280, -1.0, 1.0), np.full(400, 2.0)], axis=1)
        low, high = (
            self.advice(found, audit(y, intervals, groups=np.arange(400) % 2))
            for intervals in (wide, np.stack([np.full(400, -1.0), np.full(400, 1.0)], axis=1))
        )
        assert low.startswith("Split the rows (calibration='split') or ask for a higher level: 70.0 % instead of")
        assert "(clusters=COLUMN)" in low
        assert high.startswith("Use the intervals, or ask for a lower level: 100.0 % instead of 90.0 %")

    def test_only_a_larger_table_can_show_more(self, found):
        y = np.arange(100.0)  # one interval for all rows is much wider than these
        audited = audit(y, (y + np.where(np.arange(100) % 10, -1, 1), y + 2), groups=np.arange(100) % 3 == 0)
        assert "Only a larger table can show more." in self.advice(found, audited)


SHIFT = 1.3
LIGHT = WithSpread(LinearRegression(), NeighborSpread(), random_state=0)


def positive(n=60, *, skewed):
    """Return a table of positive targets: prices, whose log is linear, or the same without an exponential."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    line = x + rng.normal(scale=0.5, size=n)
    return pd.DataFrame({"x": x, "y": np.exp(line) if skewed else line + 10})


def of_log(regressor):
    """Return whether each model of a regressor is fitted to the log of the target."""
    return [isinstance(model[-1], TransformedTargetRegressor) for model in regressor.estimators_]


def model_is_of_log(table):
    """Return whether the model of a fold with these training rows is fitted to the log of the target."""
    settings = CrossSettings(LOG_PLAN, Pipeline([("model", LIGHT)]), ProbabilityDistance(), Marginal())
    fitted = OnBetterScale(settings).fit(table[["x"]].to_numpy(), table["y"].to_numpy())
    return isinstance(fitted.best_estimator_[-1], TransformedTargetRegressor)


LOG_PLAN = Plan(model=LIGHT, calibration="cross", level=0.8)


@pytest.fixture(scope="module")
def logs():
    return study(positive(skewed=True), "y", plan=LOG_PLAN)


@pytest.fixture(scope="module")
def plain():
    return study(positive(skewed=True), "y", plan=replace(LOG_PLAN, target_transform="none"))


@pytest.fixture(scope="module")
def mixed():
    """A study with models of both kinds: the targets are a little more than lognormal ones."""
    return study(positive(skewed=True).assign(y=lambda each: each.y + SHIFT), "y", plan=LOG_PLAN)


class TestLog:
    """Each model decides on its own training rows whether it is fitted to the log of the target."""

    def test_it_is_found_and_better_if_the_target_is_lognormal(self, logs, plain):
        assert all(of_log(logs.regressor))
        assert all(all(of_log(each)) for each in logs.evidence.turns.regressors)
        scores = [interval_score(found.test.y, found.intervals) for found in (logs, plain)]
        assert scores[0] < 0.9 * scores[1]
        assert logs.intervals.lower.min() > 0

    def test_nothing_changes_if_the_target_is_normal(self):
        plans = (LOG_PLAN, replace(LOG_PLAN, target_transform="none"))
        found, without = (study(positive(40, skewed=False), "y", plan=plan) for plan in plans)
        assert not any(of_log(found.regressor))
        np.testing.assert_array_equal(bounds(found), bounds(without))
        assert found.notes == without.notes
        assert found.method == without.method

    def test_rows_of_its_own_decide(self):
        """Positive and skewed targets of at least 20 rows, whose logs are less skewed."""
        table = positive(skewed=True)
        assert model_is_of_log(table)
        assert model_is_of_log(table[:20])
        assert not model_is_of_log(table[:19])
        assert not model_is_of_log(table.assign(y=table.y - table.y.min()))
        assert not model_is_of_log(positive(skewed=False))

    def test_the_better_model_is_kept(self):
        """Targets that are skewed only because a feature is: the model of their log is tried, and worse."""
        rng = np.random.default_rng(0)
        x = rng.exponential(size=60)
        assert not model_is_of_log(pd.DataFrame({"x": x, "y": 1 + 3 * x + rng.uniform(0, 0.2, size=60)}))

    def test_calibration_and_test_rows_have_no_influence(self, mixed):
        """Targets with which no model would be fitted to the log: the models without them stay the same, bit by bit."""
        table = positive(skewed=True).assign(y=lambda each: each.y + SHIFT)
        for fold in (0, 5):
            _, held_out = mixed.regressor.cv[fold]
            changed = table.copy()
            changed.loc[held_out, "y"] = [-3.0, 1e6, 2e6, -7.0, 0.0, 1.0][: len(held_out)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                again = study(changed, "y", plan=LOG_PLAN)
            before, after = (found.regressor.estimators_[fold] for found in (mixed, again))
            assert type(before[-1]) is type(after[-1])
            np.testing.assert_array_equal(before.predict(table[["x"]]), after.predict(table[["x"]]))
            assert sum(of_log(again.regressor)) < sum(of_log(mixed.regressor))

    def test_the_study_says_how_many_models_are_of_the_log(self, logs, plain, mixed):
        own = sum(of_log(mixed.regressor))
        tests = sum(sum(of_log(each)) for each in mixed.evidence.turns.regressors)
        assert 0 < own < 10
        assert f"fitted to the log of the target in {own} of 10 folds; score" in mixed.method
        (note,) = (note for note in mixed.notes if "log of the target" in note)
        assert note.startswith(f"{own} of the 10 models of the predictor, and {tests} of the 100 models that tested")
        assert note.endswith("To switch this off, use target_transform='none'.")
        assert "fitted to the log of the target; score" in logs.method
        assert "log of the target" not in str(plain)
        page = report_page(mixed)
        assert note.partition(":")[0] in page
        assert f"fitted to the log of the target in {own} of 10 folds" in page

    @pytest.mark.parametrize("kind", ["logs", "mixed"])
    def test_the_predictor_is_saved(self, kind, request, tmp_path):
        """The file needs no class that compares models."""
        found, new = request.getfixturevalue(kind), positive(20, skewed=True)[["x"]]
        found.regressor.save(tmp_path / "predictor.evencover")
        loaded = CrossConformalRegressor.load(tmp_path / "predictor.evencover")
        expected = found.regressor.predict_interval(new, level=[0.5, 0.8])
        np.testing.assert_array_equal(np.asarray(loaded.predict_interval(new, level=[0.5, 0.8])), np.asarray(expected))
        np.testing.assert_array_equal(loaded.predict(new), found.regressor.predict(new))
        code = (
            "import sys; from evencover import CrossConformalRegressor as C; C.load(sys.argv[1]); print(*sys.modules)"
        )
        command = [sys.executable, "-c", code, tmp_path / "predictor.evencover"]
        modules = subprocess.check_output(command, text=True).split()
        assert "evencover.models" in modules
        assert not {"evencover.studies", "evencover.diagnostics"} & set(modules)

    def test_other_plans_are_not_changed(self):
        """Scores with a unit are not comparable on different scales; other models would be fitted eleven times."""
        plans = {
            "residual": replace(LOG_PLAN, nonconformity=Residual()),
            "one side": replace(LOG_PLAN, side="upper"),
            "floor": replace(LOG_PLAN, nonconformity=Normalized(floor=0.1)),
            "all given": replace(LOG_PLAN, nonconformity=Normalized(), taxonomy=Marginal()),
            "model with its own spread": replace(LOG_PLAN, model=TwoLines()),
            "option": replace(LOG_PLAN, target_transform="none"),
        }
        models = {name: cross_regressor(positive(skewed=True), plan).estimator for name, plan in plans.items()}
        assert {name for name, model in models.items() if isinstance(model, Pipeline)} == set(plans)
        given = replace(LOG_PLAN, nonconformity=Normalized())
        assert not isinstance(cross_regressor(positive(skewed=True), given).estimator, Pipeline)


class TestReport:
    def test_it_has_the_intervals_of_all_levels(self, found):
        page = report_page(found)
        assert levels_of(page) == [0.5, 0.9, 0.95]
        for index, level in enumerate(levels_of(page)):
            own, text = found.intervals_at(level), page_at(page, index)
            covered = own.covers(found.test.y)
            expected = {
                f"row {row}": f"{low:.4g} to {high:.4g}; target {y:.4g}, {'covered' if inside else 'missed'}"
                for row, (low, high, y, inside) in enumerate(
                    zip(own.lower, own.upper, found.test.y, covered, strict=True)
                )
            }
            assert {row.partition(",")[0]: row.partition(": ")[2] for row in rows_of(text)} == expected
            assert cells_of(text, "coverage")[-1][2] == f"{covered.mean():.3f}"
        several = found.intervals_at([0.5, 0.9])
        np.testing.assert_array_equal(several.lower[:, 1], found.intervals.lower)
        assert several.level == (0.5, 0.9)

    def test_it_speaks_of_clusters(self, clustered):
        """Only one row of each cluster is tested, by models without any row of the cluster."""
        page = report_page(clustered)
        for text in (
            "For rows of known clusters, nothing is guaranteed.",
            "One row of each patient was tested, by models that have not seen any row of it.",
            "A row is calibrated, and tested, by models that were fitted without any row of its patient.",
        ):
            assert text in page, text
        assert "Every row was tested" not in page

    def test_it_states_the_guarantee_and_the_folds(self, found):
        page = report_page(found)
        for text in (
            "For new rows, at least 77\u00a0% is guaranteed; usually it is close to 90\u00a0%.",
            "Every row was tested, by models that have not seen it.",
            "The predictor consists of 10 models.",
            "The tests use the binomial law",
            "The scores are out of fold: they come from several models",
            "The price is a weaker guarantee",
            '<th scope="row">calibration</th><td>cross</td>',
        ):
            assert text in page, text
        for text in (
            "were kept aside: the model",
            "Neither the model nor the calibration",
            "k / (n + 1)",
            "held_out",
            "even (guaranteed)",
        ):
            assert text not in page, text
        assert "at least 86\u00a0% is guaranteed; usually it is close to 95\u00a0%" in page  # at another level


class TestDiagnosis:
    def test_out_of_fold_scores(self):
        table = small(60)
        model = CrossConformalRegressor(TwoLines(), random_state=0)
        model.fit(table[["x"]], table["y"])
        found = diagnose(model)
        np.testing.assert_array_equal(found.inputs.scores, model.calibrator_.scores)
        assert found.taxonomy == "BySpread(n_groups=3)"
        assert "The scores are out of fold: they come from several models" in str(found)
        assert "guarantees" not in found.advice

    def test_new_rows(self):
        table, new = small(60), small(50, seed=1)
        model = CrossConformalRegressor(LinearRegression(), random_state=0).fit(table[["x"]], table["y"])
        found = diagnose(model, new[["x"]], new["y"])
        assert len(found.inputs.scores) == 50
        assert "out of fold" not in str(found)


def point_model(level, seed):
    """Return a model without a spread, which would take long to learn."""
    return LinearRegression()


RUN = ("run", "small.csv", "--target", "y", "--drop", "name", "--model", "linear", "--score", "residual")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a small table and the output of one run at level 0.8, and what that run printed."""
    folder, output = tmp_path_factory.mktemp("finished"), io.StringIO()
    table = small(30).assign(name=[f"row {i}" for i in range(30)], kind=["a", "b", "c"] * 10)
    table.to_csv(folder / "small.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setitem(MODELS, "linear", point_model)
        with redirect_stdout(output), pytest.raises(SystemExit) as left:
            main([*RUN, "--groups", "none", "--calibration", "cross", "--level", "0.8"])
    assert not left.value.code
    return folder, output.getvalue()


class TestCommandLine:
    @pytest.fixture
    def work(self, finished, tmp_path, monkeypatch):
        """The table of a copy of this folder, which is the current folder."""
        shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(MODELS, "linear", point_model)
        return pd.read_csv("small.csv")

    def test_run_and_predict(self, capsys, finished, work):
        text = finished[1]
        assert "30 rows, each used to train, to calibrate and to test in turn." in text
        assert "For new rows, at least 60 % is guaranteed; usually it is close to 80 %." in text
        intervals = pd.read_csv("evencover-small/intervals.csv")
        assert list(intervals["row"]) == list(range(2, 32))
        assert list(intervals["name"]) == list(work["name"])
        np.testing.assert_allclose(intervals["y"], work["y"], rtol=1e-12)
        results = json.loads(Path("evencover-small/results.json").read_text(encoding="utf-8"))
        assert results["calibration"] == "cross"
        assert "--calibration cross" in Path("evencover-small/report.html").read_text(encoding="utf-8")
        work.drop(columns="y").to_csv("new.csv", index=False)
        widths = []
        for options in ((), ("--level", "0.5")):
            status, text, error = run_command_line(capsys, "predict", "evencover-small", "new.csv", *options)
            assert (status, error) == (0, "")
            new = pd.read_csv(io.StringIO(text))
            widths.append((new["upper"] - new["lower"]).mean())
        loaded = CrossConformalRegressor.load("evencover-small/predictor.evencover")
        expected = loaded.predict_interval(work[["x", "kind"]], level=0.5)
        np.testing.assert_allclose(new["lower"], expected.lower)
        assert widths[0] > widths[1]

    def test_a_value_that_a_fold_has_seen_is_no_surprise(self, capsys, work):
        new = work.drop(columns="y")
        new.loc[0, "kind"] = "z"
        new.to_csv("new.csv", index=False)
        _, _, error = run_command_line(capsys, "predict", "evencover-small", "new.csv")
        expected = "1 of 30 rows are outside what the model has seen: kind (1, such as 'z')"
        assert error == f"evencover: {expected}\n"

    def test_auto(self, capsys, work):
        work.assign(number=range(30)).to_csv("small.csv", index=False)
        _, text, _ = run_command_line(capsys, *RUN, "--groups", "column:kind", "--level", "0.8")
        assert "because a split would hold out 1 row of the group b, and a finite interval needs 4." in text
        assert "To hold some of them out instead, use --calibration split." in text
        assert "number (row numbers from 0 to 29). To use one, add --keep NAME." in text

    def test_errors(self, capsys, work):
        options = (*RUN, "--groups", "none")
        status, _, error = run_command_line(capsys, *options, "--calibration", "cross", "--held-out", "0.3")
        assert (status, "calibration must be 'split' or 'auto' for held_out=0.3; got 'cross'" in error) == (2, True)
        work[:12].to_csv("small.csv", index=False)
        status, _, error = run_command_line(capsys, *options)
        assert (
            status,
            error.startswith("evencover: table must have at least 13 rows with a target: some are left out"),
        ) == (1, True)
