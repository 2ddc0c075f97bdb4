"""Studies of a table: the split, the selection, the calibration, the audit."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import betabinom, chi2, norm
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

from evencover import (
    Bounded,
    ByFeature,
    ByFunction,
    ByPrediction,
    BySpread,
    ByTarget,
    ConformalRegressor,
    IntervalDistance,
    Marginal,
    Normalized,
    Prediction,
    Product,
    Residual,
    Support,
    TooFewRowsWarning,
    TwoTails,
    conformal_rank,
    diagnose,
)
from evencover.diagnostics.recommendations import Candidate, Recommendation
from evencover.metrics import misses_by_group
from evencover.models import QuantileForest, TableEncoder, WithSpread
from evencover.studies import MODELS, Plan, study, table_study
from evencover.studies.evidence import Evidence
from evencover.studies.plan import held_out_rows
from evencover.words.settings import COMMAND_LINE
from evencover.words.studies import misses_text, study_group_meaning, study_notes
from tests.canonical_studies import prices
from tests.report_pages import result_data, short_report_page
from tests.synthetic import ONE_IN_A_MILLION, TwoLines

LINEAR = Plan(model="linear")
FIXED = replace(LINEAR, nonconformity=Normalized(), taxonomy=BySpread(3))
REGRESSION = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=Marginal())
LINES = Plan(model=TwoLines())  # fitted at once, in contrast to a linear model with its spread


def houses(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    area = rng.uniform(size=n)
    region = rng.choice(["north", "south", None], n)
    return pd.DataFrame(
        {
            "number": np.arange(n),
            "area": np.where(rng.random(n) < 0.1, np.nan, area),
            "region": region,
            "price": 3 * area + (region == "north") + rng.normal(size=n) * (0.1 + area),
        }
    )


@pytest.fixture
def only_intervals(monkeypatch):
    """Studies without diagnosis and audit, which take most of the time and do not change the intervals."""
    monkeypatch.setattr(table_study, "diagnose", lambda *_, **__: None)
    monkeypatch.setattr(Evidence, "audit", lambda *_, **__: None)


@pytest.fixture(scope="module")
def found():
    return study(houses(), "price", plan=FIXED, drop=["number"], name="houses")


@pytest.fixture(scope="module")
def regressed():
    """A study with a model of all features that is fitted at once."""
    return study(houses(), "price", plan=REGRESSION, drop=["number"])


def test_the_parts_share_no_rows(found):
    """The held-out rows calibrate the model, and all of them are tested."""
    assert found.sizes == {"training": 1200, "held_out": 300}
    assert sorted(np.concatenate([found.training, found.calibration])) == list(range(1500))
    np.testing.assert_array_equal(found.test.positions, found.calibration)


def test_each_part_has_its_use(found):
    """The model was fitted on the training rows and calibrated on all others; each of these is tested by one half."""
    table = houses()[["area", "region"]]
    fitted = TableEncoder().fit(table.iloc[found.training])
    assert found.columns == fitted.columns_
    np.testing.assert_array_equal(found.regressor.calibration_rows_.y, houses()["price"].iloc[found.calibration])
    np.testing.assert_array_equal(found.test.y, houses()["price"].iloc[found.test.positions])
    mean = found.model.estimator_.predict(fitted.transform(found.test.X))
    np.testing.assert_array_equal(found.prediction.center, mean)
    halves = [rows.y for rows in found.evidence.turns.rows]
    assert [len(each) for each in halves] == [150, 150]
    for regressor, tested in zip(found.evidence.turns.regressors, halves, strict=True):
        assert set(regressor.calibration_rows_.y) == set(found.test.y) - set(tested)


def test_the_result_as_text(found):
    assert found.verdict == found.audit.verdict
    assert found.audit.overall.rows == 300
    assert sum(row.rows for row in found.audit.table) == 300
    assert found.diagnosis.inputs.rows is found.regressor.calibration_rows_
    assert found.evidence.regressor is found.regressor
    text = str(found)
    rows = "1200 rows to train, 300 held out to calibrate and to test in turn"
    assert f"Data: houses, target price; {rows}." in text
    assert "The model for new rows has the thresholds of all 300; widths are those of its intervals. How often" in text
    assert f"\nIs it even: {found.answers()['Is it even']}\nWhat to do: {found.advice}\n" in text
    assert f"\n\nVerdict: {found.verdict}.\nHow often right: " in text
    assert "\n\nCoverage of the test rows at level 0.9; estimates and intervals use " in text
    assert text.endswith(f", from the calibration rows: {found.diagnosis.verdict}. {found.diagnosis.headline}")
    assert "low is the third that it finds easiest" in text
    assert repr(found).startswith(f"Study(houses, target price: {found.verdict}; rows: training 1200, held_out 300; ")
    assert "<table>" in found._repr_html_()


def test_the_intervals_as_columns(found):
    columns = found.columns_of_intervals()
    assert list(columns) == ["row", "prediction", "lower", "upper", "group", "covered", "price"]
    inside = (columns["lower"] <= columns["price"]) & (columns["price"] <= columns["upper"])
    np.testing.assert_array_equal(columns["covered"], inside)
    assert inside.mean() == found.audit.overall.coverage


@pytest.mark.parametrize("library", [pa.Table.from_pandas, pl.from_pandas], ids=["pyarrow", "polars"])
def test_every_library_gives_the_same(library, regressed):
    again = study(library(houses()), "price", plan=REGRESSION, drop=["number"])
    assert again.columns == regressed.columns
    np.testing.assert_array_equal(np.asarray(again.intervals), np.asarray(regressed.intervals))


def test_the_same_seed_gives_the_same(found):
    again = study(houses(), "price", plan=FIXED, drop=["number"])
    np.testing.assert_array_equal(np.asarray(again.intervals), np.asarray(found.intervals))
    first, second, other = (
        study(houses(), "price", plan=replace(LINES, seed=seed), drop=["number"]) for seed in (0, 0, 1)
    )
    assert str(first.recommendation) == str(second.recommendation)
    np.testing.assert_array_equal(np.asarray(first.intervals), np.asarray(second.intervals))
    assert set(other.training) != set(first.training)


def test_the_target_of_other_rows_changes_no_interval():
    """Held-out targets do not select score and groups; those of one half are not used for its own intervals."""
    before = study(houses(), "price", plan=LINES, drop=["number"])
    own = np.isin(before.test.y, before.evidence.turns.rows[0].y)
    for changed_rows in (own, own | ~own):
        changed = houses()
        changed.loc[before.test.positions[changed_rows], "price"] += 100
        again = study(changed, "price", plan=LINES, drop=["number"])
        assert str(again.recommendation) == str(before.recommendation)
        same = (np.asarray(again.intervals) == np.asarray(before.intervals)).all(axis=1)
        assert not same[~own].any()
        assert same[own].all() == (not changed_rows.all())


class TestChoice:
    def test_the_requested_score_and_groups_are_used(self):
        plan = Plan(model="linear", nonconformity=IntervalDistance(), taxonomy=ByFeature("kind"))
        table = houses().drop(columns="region").assign(kind=lambda table: table["number"] % 2)
        found = study(table, "price", plan=plan, drop=["number"])
        assert found.recommendation is None
        assert found.regressor.calibration_.labels == (0, 1)
        assert found.regressor.calibration_.nonconformity == IntervalDistance()
        assert [row.group for row in found.audit.table] == [0, 1]

    def test_the_rest_is_selected(self):
        found = study(houses(), "price", plan=Plan(model=TwoLines(), nonconformity=Residual()), drop=["number"])
        assert {each.nonconformity for each in found.recommendation.candidates} == {Residual()}
        assert found.regressor.calibration_.nonconformity == Residual()
        found = study(houses(), "price", plan=Plan(model=TwoLines(), taxonomy=BySpread(4)), drop=["number"])
        assert {repr(each.taxonomy) for each in found.recommendation.candidates} == {"BySpread(n_groups=4)"}
        assert len(found.regressor.calibration_.labels) == 4

    def test_one_threshold_is_audited_by_three_levels_of_the_spread(self):
        plan = Plan(model="linear", nonconformity=Normalized(), taxonomy=Marginal())
        found = study(houses(), "price", plan=plan, drop=["number"])
        assert [row.group for row in found.audit.table] == ["low", "medium", "high"]
        edges = np.sort(found.regressor.calibration_rows_.prediction.spread)[[49, 99]]
        expected = np.searchsorted(edges, found.prediction.spread, side="left")
        np.testing.assert_array_equal(found.groups.codes, expected)

    def test_any_regressor(self):
        found = study(houses(200), "price", plan=Plan(model=LinearRegression(), calibration="split"), drop=["number"])
        assert isinstance(found.model, WithSpread)
        assert found.method.startswith("LinearRegression; score: ")

    @pytest.mark.parametrize("model", [name for name in MODELS if "network" not in name and "ensemble" not in name])
    def test_models_by_name(self, model):
        effort = "fast" if model == "stack" else None
        plan = Plan(model=model, effort=effort, nonconformity=Normalized(), taxonomy=Marginal(), calibration="split")
        found = study(houses(200), "price", plan=plan, drop=["number"])
        assert len(found.intervals) == 66  # a third of the rows

    @pytest.mark.parametrize("model", ["quantile-network", "mean-variance-network", "dropout-ensemble"])
    def test_networks_by_name(self, model):
        estimator = Plan(model=model, level=0.8, seed=3).estimator()
        network = getattr(estimator, "network", None) or estimator
        assert network.level == 0.8
        assert network.random_state == 3

    def test_a_forest_has_the_level_and_the_seed(self):
        estimator = Plan(model="forest", level=0.8, seed=3).estimator()
        assert isinstance(estimator, QuantileForest)
        assert (estimator.level, estimator.random_state) == (0.8, 3)


class TestClusters:
    def test_they_stay_together_and_each_counts_as_one_row(self):
        table = houses().assign(patient=lambda table: table["number"] // 5)
        found = study(table, "price", plan=LINES, drop=["number"], clusters="patient")
        training, held_out = ({*(rows // 5).tolist()} for rows in (found.training, found.calibration))
        assert not training & held_out
        assert sorted(training | held_out) == list(range(300))
        assert found.sizes == {"training": 1000, "held_out": 500}
        assert sorted(found.test.positions // 5) == sorted(held_out)
        assert len(held_out) == 100
        patient_of = dict(zip(table["price"], table["patient"], strict=True))
        for regressor, rows in zip(found.evidence.turns.regressors, found.evidence.turns.rows, strict=True):
            calibrating, tested = ({patient_of[y] for y in each.y} for each in (regressor.calibration_rows_, rows))
            assert (len(calibrating), len(tested)) == (50, 50)
            assert not calibrating & tested
        assert found.regressor.guarantee_.clusters.keys() == found.regressor.guarantee_.sizes.keys()
        assert found.diagnosis.inputs.clustered_rows == 500
        assert len(found.diagnosis.inputs.scores) == 100
        assert [each.name for each in found.columns] == ["area", "region"]
        sizes = (
            "500 held out to calibrate and to test in turn (calibration: each patient counts as one row; test: one row "
            "of each patient)"
        )
        assert sizes in str(found)
        assert "One held-out row of each patient was tested once" in str(found)
        assert any("thresholds come from clusters" in note for note in found.audit.notes)
        assert not any("as independent" in note for note in found.audit.notes)

    def test_rows_without_a_target_do_not_shift_the_clusters(self):
        """Clusters are those of the rows that are left, not of the rows at the same positions of the table."""
        table = houses().assign(patient=lambda table: table["number"] // 5, price=lambda table: table["price"] * 1.0)
        table.loc[table["number"] % 7 == 0, "price"] = np.nan
        settings = {"drop": ["number"], "clusters": "patient"}
        plan = Plan(model=TwoLines(), nonconformity=Residual(), taxonomy=Marginal())
        found = study(table, "price", plan=plan, missing_target="drop", **settings)
        alone = study(table.dropna(subset=["price"]).reset_index(drop=True), "price", plan=plan, **settings)
        patients = table["patient"].to_numpy()[found.calibration]
        codes = found.regressor.calibration_rows_.clusters
        assert np.array_equal(codes, np.unique(patients, return_inverse=True)[1])
        assert np.array_equal(np.asarray(found.intervals), np.asarray(alone.intervals))
        assert found.audit.joint_p_value == alone.audit.joint_p_value

    def test_the_number_covered_has_its_exact_distribution(self, only_intervals):
        """Among rows of new clusters, by the model for new rows; among one row of each cluster of a half, by the other.

        The rows of a cluster have the same target here, and the model is constant. Of 60 tables: if single rows were
        counted instead of the 33 held-out clusters, the mean square for new rows would be 6.4 instead of 1. That is
        found with probability above 0.999 (simulated).
        """
        rng = np.random.default_rng(0)
        cluster = np.repeat(np.arange(100), 8)
        constant = DummyRegressor(strategy="constant", constant=0.0)
        plan = replace(REGRESSION, model=constant, level=0.8, calibration="split")
        squares = {"new": [], "half": []}
        for seed in range(60):
            table = pd.DataFrame({"x": rng.normal(size=800), "y": rng.normal(size=100)[cluster], "cluster": cluster})
            found = study(table, "y", plan=replace(plan, seed=seed), clusters="cluster")
            new = rng.normal(size=1000)
            regressor, half, n = found.regressor, found.evidence.turns.regressors[0], len(found.test)
            own = np.isin(found.test.y, found.evidence.turns.rows[0].y)
            intervals = regressor.predict_interval(pd.DataFrame({"x": new}), level=0.8)
            for name, calibrated, n_calibration, covers in (
                ("new", regressor, n, intervals.covers(new)),
                ("half", half, n - own.sum(), found.intervals.covers(found.test.y)[own]),
            ):
                assert calibrated.guarantee_.clusters["all"] == n_calibration
                k = conformal_rank(n_calibration, 0.8)
                exact = betabinom(len(covers), k, n_calibration + 1 - k)
                squares[name].append((covers.sum() - exact.mean()) ** 2 / exact.var())
        for each in squares.values():
            assert np.sum(each) < chi2.isf(ONE_IN_A_MILLION, len(each))  # as of normal squares


def visits(n=900, seed=0):
    """A table of counts, many of them 0."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=n)
    return pd.DataFrame({"x": x, "visits": rng.poisson(3 * x**2)})


class TestSupportOfTheTarget:
    def test_it_is_decided_on_the_training_targets(self):
        """Intervals of counts hold counts only, and the results say so."""
        found = study(visits(), "visits", plan=LINES)
        support = Support(y_min=0, whole=True)
        assert found.regressor.calibration_.nonconformity.support == support
        assert (found.intervals.lower >= 0).all()
        assert support.contains(np.asarray(found.intervals)).all()
        note = (
            "All training targets are whole numbers of at least 0, so intervals hold only such numbers. To switch this "
            "off, use support='none'."
        )
        assert note in found.notes
        assert f"Note: {note}" in str(found)
        results = result_data(found)
        assert results["support"] == {"y_min": 0, "y_max": None, "whole": True}
        assert note in results["notes"]
        assert results["audit"]["n_replaced"] == found.intervals.n_replaced

    def test_it_can_be_switched_off_or_given(self):
        plain = study(visits(), "visits", plan=replace(LINES, support="none"))
        assert plain.intervals.lower.min() < 0
        assert not any("intervals hold" in note for note in plain.notes)
        assert result_data(plain)["support"] is None
        given = study(visits(), "visits", plan=replace(LINES, support=Support(y_min=-0.5, y_max=99)))
        assert given.intervals.lower.min() == -0.5 > plain.intervals.lower.min()
        assert "Intervals hold only targets that are at least -0.5 and at most 99, as the settings say." in given.notes
        bounded = Bounded(Residual(), y_min=-1)
        own = study(visits(), "visits", plan=replace(LINES, nonconformity=bounded, taxonomy=Marginal()))
        assert own.regressor.calibration_.nonconformity == bounded

    def test_targets_that_are_never_negative_have_a_lower_limit(self):
        table = visits().assign(visits=lambda each: each.visits + 0.25)
        found = study(table, "visits", plan=REGRESSION)
        assert found.regressor.calibration_.nonconformity == Bounded(Residual(), y_min=0)
        assert any(
            text.startswith("All training targets are at least 0, so intervals hold only") for text in found.notes
        )

    def test_other_targets_have_none(self, found):
        assert not isinstance(found.regressor.calibration_.nonconformity, Bounded)

    @pytest.mark.parametrize("roles", [{}, {"time": "day"}], ids=["at random", "in the order of time"])
    @pytest.mark.parametrize("rows", [[0, 1], [-2, -1], [0, -1]])
    def test_rows_that_contradict_it_are_counted(self, roles, rows):
        """With training targets of at least 0, a negative held-out target is never covered, in either half."""
        table = visits().assign(day=np.arange(900) + 0.5)
        held_out = np.sort(np.setdiff1d(np.arange(900), study(table, "visits", plan=REGRESSION, **roles).training))
        table.loc[held_out[rows], "visits"] = -1
        n = len(held_out)
        with pytest.warns(UserWarning, match=f"calibration targets outside .*: 2 of {n}") as caught:
            after = study(table, "visits", plan=REGRESSION, **roles)
        text = (
            f"2 of {n} calibration targets are outside the support (whole numbers of at least 0), and no interval "
            "covers them. To allow all numbers, use support='none'."
        )
        assert after.warnings == [text]
        assert len(caught) == 1

    def test_wrong_settings(self):
        with pytest.raises(ValueError, match="support must be 'auto', 'none' or a support such as"):
            Plan(support="yes")


def test_dropped_columns_may_define_groups():
    table = houses().assign(ward=lambda table: np.where(table["number"] % 3, "a", "b"))
    plan = Plan(model="linear", nonconformity=Residual(), taxonomy=ByFeature("ward"))
    found = study(table, "price", plan=plan, drop=["number", "ward"])
    assert [row.group for row in found.audit.table] == ["a", "b"]
    assert [each.name for each in found.columns] == ["area", "region"]


def test_the_calibration_rows_limit_the_number_of_groups():
    for held_out, expected in ((0.1, {1, 3}), (0.9, {1, 3, 5})):
        plan = Plan(model=TwoLines(), nonconformity=Residual(), held_out=held_out)
        found = study(houses(4000), "price", plan=plan, drop=["number"])
        assert {getattr(each.taxonomy, "n_groups", 1) for each in found.recommendation.candidates} == expected


def test_a_model_without_a_spread_is_audited_by_its_predictions(regressed):
    assert regressed.diagnosis.taxonomy == "ByPrediction(n_groups=3)"
    assert len(regressed.audit.table) == 3


def test_a_target_with_the_name_of_a_result_column():
    table = houses().rename(columns={"price": "lower"})
    columns = study(table, "lower", plan=LINES, drop=["number"]).columns_of_intervals()
    assert list(columns) == ["row", "prediction", "lower", "upper", "group", "covered", "table_lower"]
    inside = (columns["lower"] <= columns["table_lower"]) & (columns["table_lower"] <= columns["upper"])
    np.testing.assert_array_equal(columns["covered"], inside)


def test_progress_is_reported():
    steps = []
    study(houses(400), "price", plan=LINES, drop=["number"], progress=steps.append)
    assert steps[:2] == ["checking the columns", "fitting the model, selecting score and groups: 0 of 6 fits"]
    assert steps[-1] == "auditing the test rows"


class TestTrainingRows:
    """At most so many rows fit the model; other tests of studies have fewer rows than the default."""

    def parts(self, n, *, training_rows=1000, **settings):
        table = houses(n).assign(patient=lambda table: table["number"] // 7, month=lambda table: table["number"] // 90)
        drop = {"number", "patient", "month"} - set(settings.values())
        return study(table, "price", plan=REGRESSION, drop=sorted(drop), training_rows=training_rows, **settings)

    def test_they_grow_with_the_table_up_to_the_limit_and_all_others_are_held_out(self, only_intervals):
        found = {n: self.parts(n).sizes for n in (900, 1100, 1112, 1113, 2000, 4000)}
        expected = {900: 800, 1100: 990, 1112: 1000, 1113: 1000, 2000: 1000, 4000: 1000}
        assert found == {n: {"training": rows, "held_out": n - rows} for n, rows in expected.items()}

    def test_the_others_are_halved_and_a_note_says_what_they_are_used_for(self):
        found = self.parts(2001)
        assert sorted(np.concatenate([found.training, found.calibration])) == list(range(2001))
        assert sorted(np.bincount(found.evidence.turns.order < len(found.evidence.turns.rows[0]))) == [500, 501]
        assert sum(found.regressor.guarantee_.sizes.values()) == 1001
        (note,) = (each for each in found.table_notes if each.remedies == ({"training_rows": 1801},))
        assert note.text == (
            "to limit the time, 1000 random rows fit the model, and all 1001 others are held out. To fit it to more "
            "rows, use"
        )
        assert not any("limit the time" in each.text for each in self.parts(2001, training_rows=1801).table_notes)

    def test_a_limit_that_is_not_reached_changes_nothing(self, regressed):
        again = study(houses(), "price", plan=REGRESSION, drop=["number"], training_rows=len(regressed.training))
        np.testing.assert_array_equal(again.training, regressed.training)
        np.testing.assert_array_equal(again.intervals, regressed.intervals)

    def test_a_share_to_hold_out_is_the_smallest_one(self, only_intervals):
        sizes = {
            share: study(
                houses(2000), "price", plan=replace(REGRESSION, held_out=share), drop=["number"], training_rows=1000
            ).sizes["held_out"]
            for share in (0.1, 0.7)
        }
        assert sizes == {0.1: 1000, 0.7: 1400}

    def test_of_clusters_all_rows_fit_the_model_or_none(self, only_intervals):
        found = self.parts(4000, clusters="patient")
        training, held_out = ({*(rows // 7).tolist()} for rows in (found.training, found.calibration))
        assert not training & held_out
        assert len(training | held_out) == 572
        assert 1000 <= len(found.training) < 1007  # a cluster has seven rows
        text = f"{len(found.training)} rows of random clusters fit the model, and all {len(found.calibration)} others"
        assert any(text in each.text for each in found.table_notes)

    def test_ten_clusters_fit_the_model_whatever_their_sizes(self, only_intervals):
        assert self.parts(3600, clusters="month", training_rows=100).sizes == {"training": 900, "held_out": 2700}

    def test_in_the_order_of_time_they_are_the_latest(self, only_intervals):
        """Of the earliest month that fits the model, random rows do; the rows of earlier months are not used."""
        found, every = (self.parts(4000, time="month", training_rows=n) for n in (1000, 4000))
        first = len(every.training)
        assert found.sizes == {**every.sizes, "training": 1000}
        np.testing.assert_array_equal(found.calibration, every.calibration)
        earliest = (first - 1000) // 90
        assert set(found.training) >= set(range(90 * (earliest + 1), first))
        assert set(found.training) <= set(range(90 * earliest, first))
        assert np.diff(np.sort(found.training)).max() > 1
        (note,) = (each for each in found.table_notes if each.remedies == ({"training_rows": first},))
        assert note.text == (
            "to limit the time, the latest 1000 rows before those that are held out fit the model, and the "
            f"{first - 1000} rows before these are not used. To fit it to more rows, use"
        )


class TestTextColumns:
    def test_names_are_no_features_unless_they_are_categorical(self):
        table = houses(400).assign(name=lambda table: "house " + table["number"].astype(str))
        found = study(table, "price", plan=LINES)
        assert found.left_out == ("number", "name")
        found = study(table, "price", plan=LINES, categorical=["name"])
        assert len(found.columns[-1].categories) == found.sizes["training"] == 300

    def test_few_texts_are_categories(self):
        assert set(study(houses(400), "price", plan=LINES).columns[1].categories) == {"north", "south"}


@pytest.mark.filterwarnings("ignore:some groups have so few held-out rows")
def test_the_number_covered_has_its_exact_distribution(only_intervals):
    """Among new rows of every group it is BetaBinomial, although model, score and groups were chosen on training rows.

    The model for new rows is calibrated on all held-out rows. Of 60 tables with 9 or 10 of them in each group: a rank
    off by one is found with probability above 0.999 (simulated).
    """
    rng = np.random.default_rng(0)

    def rows(n):
        x = rng.uniform(size=n)
        return pd.DataFrame({"x": x, "y": x + rng.normal(size=n) * (0.1 + x)})

    tails = []
    for seed in range(60):
        plan = Plan(model=TwoLines(), taxonomy=BySpread(2), level=0.8, seed=seed, held_out=0.1)
        found, new = study(rows(200), "y", plan=plan), rows(500)
        assert len(found.recommendation.candidates) > 1
        intervals = found.regressor.predict_interval(new[["x"]], level=0.8)
        inside, sizes = intervals.covers(new["y"]), found.regressor.guarantee_.sizes
        assert (found.sizes["held_out"], sum(sizes.values())) == (20, 19)  # one row is the edge
        for code, label in enumerate(intervals.groups.labels):
            of_group, n = intervals.groups.codes == code, sizes[label]
            k = conformal_rank(n, 0.8)
            exact, covered = betabinom(of_group.sum(), k, n + 1 - k), inside[of_group].sum()
            tails.append((exact.cdf(covered) + exact.cdf(covered - 1)) / 2)  # mean 1/2, variance at most 1/12
    assert len(tails) == 120
    z = (np.mean(tails) - 0.5) * np.sqrt(12 * len(tails))
    assert abs(z) < 4.9


class TestHeldOutRows:
    """How many rows the model does not see."""

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({}, {3: 1, 200: 66, 299: 99, 300: 100, 1009: 100, 1010: 101, 200_000: 20_000, 10**7: 20_000}),
            ({"level": 0.7}, {101: 33, 102: 34, 340: 34, 350: 35}),  # at least 33.3 rows
            ({"level": 0.99}, {2999: 999, 3000: 1000, 10_010: 1001}),
            ({"n_thresholds": 4}, {1199: 399, 1200: 400, 4010: 401}),
            ({"n_thresholds": 300}, {30_000: 10_000, 90_000: 30_000, 10**7: 30_000}),
        ],
        ids=str,
    )
    def test_a_tenth_but_enough_for_each_threshold_and_a_third_at_most(self, settings, expected):
        assert {n: held_out_rows(n, **settings) for n in expected} == expected

    def test_groups_and_tails_multiply_the_number_of_thresholds(self):
        plans = {"joint": Plan(), "separate": Plan(tails="separate"), "level": Plan(level=0.8, tails="separate")}
        found = {name: [plan.n_held_out(2000, n_groups=n) for n in (1, 3, 5)] for name, plan in plans.items()}
        assert found == {"joint": [200, 300, 500], "separate": [200, 600, 666], "level": [200, 300, 500]}

    def test_a_given_share_holds_for_all_groups_tails_and_levels(self):
        plans = Plan(held_out=0.25), Plan(held_out=0.25, tails="separate"), Plan(held_out=0.25, level=0.99)
        assert {plan.n_held_out(1000, n_groups=n) for plan in plans for n in (1, 9)} == {250}
        assert Plan(held_out=0.8).n_held_out(1000) == 800  # more than a third

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({}, 150),
            ({"level": 0.95}, 200),
            ({"tails": "separate"}, 200),
            ({"taxonomy": ByFeature("kind")}, 400),
            ({"taxonomy": Product([ByFeature("kind"), ByPrediction(2)])}, 500),
            ({"taxonomy": ByPrediction(2), "tails": "separate"}, 400),
            ({"taxonomy": ByFunction(lambda X: np.asarray(X["area"]) > 0.5)}, 200),
            ({"taxonomy": ByTarget([1.5])}, 150),
            ({"held_out": 0.3, "taxonomy": ByFeature("kind")}, 450),
        ],
        ids=lambda each: str(each).partition(" at 0x")[0],
    )
    def test_a_study_counts_the_given_groups(self, only_intervals, settings, expected):
        """All groups that are known before the model is fitted, so not those of the target."""
        table = houses().assign(kind=lambda each: np.array(list("abcd"))[each["number"] % 4])
        found = study(table, "price", plan=replace(REGRESSION, **settings), drop=["number"])
        assert found.sizes == {"training": 1500 - expected, "held_out": expected}

    def test_clusters_are_counted(self, only_intervals):
        table = houses().assign(patient=lambda each: each["number"] // 3)
        found = study(table, "price", plan=REGRESSION, drop=["number"], clusters="patient")
        assert (found.sizes["held_out"], len(found.test)) == (300, 100)

    def test_the_last_rows_in_time_are_halved(self, only_intervals):
        """The model for new rows is calibrated on both halves; the later half tests thresholds of the earlier one.

        A half has as many rows as all that are held out at random.
        """
        found = study(houses(), "price", plan=REGRESSION, time="number")
        assert found.sizes == {"training": 1200, "calibration": 150, "test": 150}
        parts = (found.training, found.calibration, found.test.positions)
        np.testing.assert_array_equal(np.concatenate(parts), np.arange(1500))
        calibrating = [each.calibration_rows_.y for each in (found.evidence.regressor, found.regressor)]
        prices_of_houses = houses()["price"].to_numpy()
        np.testing.assert_array_equal(calibrating[0], prices_of_houses[1200:1350])
        np.testing.assert_array_equal(calibrating[1], prices_of_houses[1200:])

    @pytest.mark.parametrize("sizes", [(900, 50, 50), (500, 450, 50), (50, 450, 500)])
    def test_three_times_are_three_parts(self, only_intervals, sizes):
        """However many rows they have: each part has at least one time."""
        table = houses(1000).assign(number=np.repeat([1, 2, 3], sizes))
        found = study(table, "price", plan=REGRESSION, time="number", drop=["number"])
        assert tuple(found.sizes.values()) == sizes

    def test_a_group_that_comes_late_is_tested_by_the_threshold_of_all_rows(self):
        """Earlier rows of it have calibrated nothing. The model for new rows has a threshold for it."""
        table = houses().assign(kind=lambda each: np.where(each["number"] < 1425, "old", "new"))
        plan = replace(REGRESSION, taxonomy=ByFeature("kind"), held_out=0.2)
        found = study(table, "price", plan=plan, time="number", drop=["kind"])
        assert found.sizes == {"training": 1200, "calibration": 150, "test": 150}
        assert found.evidence.regressor.guarantee_.sizes == {"old": 150}
        assert found.regressor.guarantee_.sizes == {"new": 75, "old": 225}
        assert len(np.unique(found.intervals.width.round(9))) == 1
        assert found.audit.evidence == "test rows"

    def test_earlier_rows_may_be_too_few_to_test_later_ones(self):
        """Infinite intervals cover the test rows, which says nothing; those of the model for new rows are finite."""
        with pytest.warns(TooFewRowsWarning, match="those of the model are finite"):
            found = study(houses(60), "price", plan=replace(REGRESSION, held_out=0.25), time="number")
        assert found.sizes == {"training": 45, "calibration": 7, "test": 8}
        own = found.regressor.predict_interval(found.test.X, level=0.9)
        assert (found.audit.n_untested, found.audit.n_infinite) == (8, 0)
        assert found.quality.mean_width == pytest.approx(own.width.mean())
        assert np.isnan([found.quality.coverage, found.audit.overall.coverage]).all()
        assert found.audit.overall.low == 0
        assert "The test rows cannot be tested: the calibration rows before them are too few" in found.headline
        assert found.advice == (
            "Do not rely on the level yet: no row could test it. To know a little more, hold out more of the rows, at "
            "the expense of the model (held_out=0.5), or use a larger table."
        )

    def test_a_group_without_test_is_not_tested_jointly_with_others(self):
        """Infinite thresholds cover all of its rows, so that its p-value would be 1."""
        table = houses().assign(kind=lambda each: np.where(each["number"] % 40 == 0, "rare", "frequent"))
        plan = replace(REGRESSION, taxonomy=ByFeature("kind"), held_out=0.4)
        with pytest.warns(TooFewRowsWarning, match="those of the model are finite"):
            found = study(table, "price", plan=plan, time="number", drop=["kind"])
        frequent, rare = found.audit.table
        assert (rare.rows, found.audit.n_untested) == (8, 8)
        assert np.isnan([rare.p_under, rare.p_over, rare.adjusted]).all()
        assert not np.isnan(frequent.adjusted)

    def test_infinite_intervals_say_how_many_rows_to_hold_out(self):
        plan = replace(REGRESSION, held_out=0.3, level=0.95)
        with pytest.warns(TooFewRowsWarning, match="level 0.95 needs 19 rows"):
            found = study(houses(60), "price", plan=plan, drop=["number"])
        assert found.advice == (
            "Hold out more of the rows, at the expense of the model (held_out=0.4), or use a lower level: 18 of 18 "
            "intervals are infinite, because a finite threshold at level 0.95 needs at least 19 calibration rows."
        )


@pytest.fixture(scope="module")
def separate():
    """A study with a threshold for each end; the noise is skewed, so one threshold would miss above only."""
    rng = np.random.default_rng(5)
    x = rng.uniform(size=2000)
    table = pd.DataFrame({"x": x, "y": 3 * x + (0.2 + x) * (rng.exponential(size=2000) - 1)})
    plan = Plan(model=TwoLines(), nonconformity=Normalized(), taxonomy=BySpread(2), tails="separate")
    return table, study(table, "y", plan=plan)


def test_a_study_with_separate_tails_has_the_intervals_of_two_tails(separate):
    """Of the same model, score and groups, calibrated on all held-out rows or on the other half; both ends miss."""
    table, made = separate
    model = ConformalRegressor(made.regressor.estimator_, nonconformity=Normalized(), calibrator=TwoTails(BySpread(2)))
    held_out, own = table.iloc[made.calibration], np.isin(made.test.y, made.evidence.turns.rows[0].y)
    every = np.full(len(own), True)
    of_all = made.regressor.predict_interval(held_out[["x"]], level=0.9)
    cases = ((of_all, every, every), (made.intervals, ~own, own), (made.intervals, own, ~own))
    for intervals, calibrating, tested in cases:
        model.fit(held_out.loc[calibrating, ["x"]], held_out.loc[calibrating, "y"])
        expected = model.predict_interval(held_out.loc[tested, ["x"]], level=0.9)
        np.testing.assert_array_equal(np.asarray(intervals[tested]), np.asarray(expected))
    for below, above in misses_by_group(made.test.y, made.intervals, np.zeros(len(made.test))).values():
        assert (0.02 < below < 0.08, 0.02 < above < 0.08) == (True, True)
    assert made.audit.own_thresholds


def test_a_study_with_separate_tails_says_so(separate):
    """In its method, its text, its JSON data, and on the report's page at every level."""
    _, made = separate
    assert made.method == "TwoLines; score: Normalized(); groups: BySpread(n_groups=2); one threshold for each end"
    assert re.search(
        r"\nTest rows below and above their intervals: low \d\.\d % and .*, all rows \d\.\d % and", str(made)
    )
    data = result_data(made)
    assert (data["tails"], data["taxonomy"]) == ("separate", "BySpread(n_groups=2)")
    lower, upper = made.regressor.calibrator_.thresholds(0.9)
    assert data["thresholds"] == {
        "low": {"lower": lower[0], "upper": upper[0]},
        "high": {"lower": lower[1], "upper": upper[1]},
    }
    page = short_report_page(made)
    assert "Test rows below and above their intervals: low" in page
    assert "above its upper bound with at most 0.5 (1 − level)" in page


def test_one_threshold_for_all_rows_is_not_that_of_separate_tails(separate):
    """Without groups: the calibration rows are no evidence on the coverage of groups, and widths are compared."""
    table, _ = separate
    plan = Plan(model=TwoLines(), nonconformity=Normalized(), taxonomy=Marginal(), tails="separate")
    made = study(table, "y", plan=plan)
    assert made.audit.evidence == "test rows"
    assert made.quality.one_threshold_width != made.audit.overall.width
    assert "tails" not in study_without_tails(table).method


def study_without_tails(table):
    made = study(table, "y", plan=Plan(model=TwoLines(), nonconformity=Normalized(), taxonomy=Marginal()))
    assert misses_text(made, made.intervals) == ""
    assert made.quality.one_threshold_width == made.audit.overall.width
    return made


def test_ties_in_a_tail_are_found():
    """Of the calibration targets, 40 % are equal and at the threshold of the lower tail."""
    rng = np.random.default_rng(6)
    y = np.where(rng.random(400) < 0.4, -1.0, rng.exponential(size=400))
    table = pd.DataFrame({"x": rng.uniform(size=400), "y": y})
    constant = DummyRegressor(strategy="constant", constant=0.0)
    plan = Plan(model=constant, nonconformity=Residual(), taxonomy=Marginal(), tails="separate")
    found = study(table, "y", plan=plan)
    assert found.intervals.guarantee.tied == ("all",)
    covered = found.regressor.predict_interval(found.test.X).covers(found.test.y)
    assert found.audit.overall.estimate == covered.sum() / (len(covered) + 1) > 0.94  # the law would say 0.9


def test_score_and_groups_are_selected_for_separate_tails():
    """The widths that are compared are those with a threshold for each end."""
    table = houses(600)
    made = {tails: study(table, "price", plan=replace(LINES, tails=tails)) for tails in ("joint", "separate")}
    assert {tails: found.tails for tails, found in made.items()} == {"joint": "joint", "separate": "separate"}
    assert isinstance(made["separate"].regressor.calibrator, TwoTails)
    for tails, found in made.items():
        assert {each.tails for each in found.recommendation.candidates} == {tails}


def test_a_model_of_the_log_is_explained():
    """Why it was chosen, what it predicts, and how to switch it off."""
    found = study(prices(), "price", plan=replace(LINES, taxonomy=BySpread(3)))
    (note,) = (note for note in found.notes if "log of the target" in note)
    assert " % lower on the training rows. So it predicts about the median" in note
    assert note.endswith("use target_transform='none'.")
    assert "TwoLines, fitted to the log of the target; " in found.method
    plain = study(prices(), "price", plan=replace(LINES, target_transform="none"))
    assert "log" not in " ".join([*plain.notes, plain.method])
    with pytest.raises(ValueError, match="target_transform must be 'auto' or 'none'; got 'log'"):
        Plan(target_transform="log")


@pytest.mark.parametrize(
    ("score", "other", "reason"),
    [
        (
            0.9,
            Candidate(Normalized(), Marginal(), "even", 1.0, 1.0),
            "the interval score, which adds misses to the width, was 10 % lower",
        ),
        (
            1.0,
            Candidate(Normalized(), BySpread(3), "even", 0.995, 1.0),
            "it needed fewer groups for about the same interval score",
        ),
        (1.0, Candidate(Normalized(), Marginal(), "uneven", 0.9, 1.0), "its intervals were more even"),
    ],
)
def test_why_the_log_was_chosen(score, other, reason):
    chosen = Candidate(Normalized(), Marginal(), "even", score, 1.0, transform="log")
    regressor = SimpleNamespace(recommendation_=Recommendation((other, chosen), chosen, 0.9))
    (note,) = table_study._log_notes(regressor)
    assert f"because {reason} on the training rows" in note.text


def test_targets_outside_a_wrong_support_are_the_reason_for_low_coverage():
    table = houses()
    plan = replace(LINEAR, nonconformity=Residual(), taxonomy=Marginal(), support=Support(y_max=3))
    with pytest.warns(UserWarning, match="targets outside the support"):
        found = study(table, "price", plan=plan)
    share = np.mean(found.test_rows.y > 3)
    assert share > 0.12
    text = f"Use support='none': {100 * share:.1f} % of the test targets are outside the support, and never covered."
    assert found.advice.startswith(text)
    assert "the intervals hold all possible targets" in found.diagnosis.advice


@pytest.mark.filterwarnings("ignore:too few calibration rows")
def test_separate_tails_in_words():
    """Groups without test rows have no shares, and what is said about one threshold is about both ends."""
    table = houses(150)
    taxonomy = BySpread(edges=[1e-9])  # nobody is below
    found = study(
        table,
        "price",
        plan=replace(LINEAR, nonconformity=Normalized(), taxonomy=taxonomy, tails="separate", support="none"),
    )
    text = str(found)
    assert not (found.groups.codes == 0).any()
    assert "nan" not in text
    assert "With one threshold for all rows and both ends of their intervals, from the calibration rows: " in text
    page = short_report_page(found)
    assert "One threshold for all rows and both ends of their intervals, " in page
    assert ", with the same threshold for both ends of an interval" in page


class _TwoSpreads(LinearRegression):
    """The spread is 0.7, and 1.4 above a value of the first feature."""

    def __init__(self, above=np.inf):
        super().__init__()
        self.above = above

    def predict_full(self, X):
        return Prediction(self.predict(X), spread=np.where(np.asarray(X)[:, 0] > self.above, 1.4, 0.7))


class TestEqualSpreads:
    """Groups that cannot be told apart are one group, and the texts say so."""

    @staticmethod
    def found(above):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 2))
        table = pd.DataFrame(X, columns=["a", "b"]).assign(y=X[:, 0] + rng.normal(size=300))
        plan = Plan(model=_TwoSpreads(above), nonconformity=Normalized(), taxonomy=BySpread(3), level=0.8)
        return study(table, "y", plan=plan)

    def test_a_constant_spread(self):
        """The rows are tested in groups of the prediction, and all intervals are finite."""
        found = self.found(np.inf)
        data = result_data(found)
        assert list(data["thresholds"]) == ["all"]
        assert np.isfinite(data["thresholds"]["all"])
        assert "third of the rows" not in str(found)
        assert all(row.rows for row in found.audit.table)
        assert study_group_meaning(found).startswith(
            "All calibration rows have the same spread, so it gives one group instead of 3. The rows are in 3 groups "
            "by the predicted value"
        )
        diagnosed = diagnose(found.regressor)
        assert isinstance(diagnosed.inputs.taxonomy, ByPrediction)

    def test_two_spreads(self):
        found = self.found(0.8)
        low, high = found.audit.table
        assert (low.group, high.group, low.rows + high.rows) == ("low", "high", len(found.test))
        assert f"Rows: low {low.rows}, high {high.rows}." in study_group_meaning(found)
        assert "have the same spread, so it gives 2 groups instead of 3." in str(found)
        page = short_report_page(found)
        assert study_group_meaning(found) in page
        assert "third of the rows" not in page
        assert "easiest third" not in page


class TestFiles:
    """A study takes the path of a table in place of the table."""

    def test_a_file_is_studied_as_the_table_in_it(self, tmp_path):
        table = houses()
        table.to_csv(tmp_path / "houses.csv", index=False)
        by_path = study(tmp_path / "houses.csv", "price", plan=FIXED, drop=["number"])
        in_memory = study(table, "price", plan=FIXED, drop=["number"])
        assert by_path.name == "houses.csv"
        np.testing.assert_array_equal(np.asarray(by_path.intervals), np.asarray(in_memory.intervals))

    def test_a_folder_is_the_table_in_all_of_its_files(self, tmp_path):
        table = houses()
        for start in (0, 100):
            rows = table[start:] if start else table[:100]
            rows.to_parquet(tmp_path / f"{start:03}.parquet", index=False)
        by_path = study(str(tmp_path), "price", plan=FIXED, drop=["number"])
        in_memory = study(table, "price", plan=FIXED, drop=["number"])
        np.testing.assert_array_equal(np.asarray(by_path.intervals), np.asarray(in_memory.intervals))

    def test_missing_values_are_texts_in_files(self, tmp_path):
        table = houses()
        table["area"] = table["area"].astype(object)
        table.loc[::20, "area"] = "unknown"
        table.to_csv(tmp_path / "houses.csv", index=False)
        found = study(tmp_path / "houses.csv", "price", plan=FIXED, drop=["number"], missing_values=["unknown"])
        assert {each.name: each.missing for each in found.columns}["area"] > 0
        with pytest.raises(ValueError, match="missing_values is for files"):
            study(table, "price", missing_values=["unknown"])

    def test_a_table_in_batches_takes_no_clusters_and_no_time(self, tmp_path):
        with pytest.raises(ValueError, match="clusters and time: for tables in memory only; leave output out"):
            study(houses(), "price", clusters="region", time="area", output=tmp_path / "intervals.csv")


@pytest.mark.parametrize(("n", "settings"), [(900, {}), (900, {"taxonomy": BySpread(3)}), (3000, {})])
def test_the_text_says_why_there_is_one_threshold(n, settings):
    """Only where the rows are too few, and no groups were asked for."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=n)
    found = study(pd.DataFrame({"x": x, "y": x + rng.normal(size=n)}), "y", plan=Plan(model="linear", **settings))
    few = [note for note in found.notes if note.startswith("One threshold for all rows: groups")]
    assert len(few) == (n == 900 and not settings) == (not found.per_group)
    for note in few:
        assert "take 300 held-out rows or more. With 100, these thresholds would vary too much by chance." in note
        assert note.endswith("To get them anyway, use taxonomy=BySpread(n_groups=3).")
        assert any(note[:40] in text and "use --groups spread:3" in text for text in study_notes(found, COMMAND_LINE))


def test_large_clusters_are_held_out_as_often_as_small_ones():
    """Exchangeable with new clusters: on average, the share of large ones among them is that of all clusters.

    Of 60 clusters, 6 are large. Clusters fit the model until a number of rows is reached. If the one that reaches it
    was held out, the share would be 0.118, and z between 18 and 21 (in 20 repeats).
    """
    sizes, shares = np.repeat([1000, 10], [6, 54]), []
    for seed in range(2000):
        halves, rng = np.full(60, -1), np.random.default_rng(seed)
        table_study._hold_out_more(halves, sizes, 1500, rng)
        shares.append(np.mean(sizes[halves >= 0] == 1000))
        assert np.sum(sizes[halves < 0]) >= 1500
        assert abs(np.sum(halves == 0) - np.sum(halves == 1)) <= 1
    z = (np.mean(shares) - 0.1) / (np.std(shares) / np.sqrt(len(shares)))
    assert abs(z) < norm.isf(ONE_IN_A_MILLION / 2)
