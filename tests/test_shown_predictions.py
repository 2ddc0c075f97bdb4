"""The prediction in frames, files and reports is a point of its interval; `predict` stays the model's own."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from evencover import (
    Bounded,
    ConformalRegressor,
    CrossConformalRegressor,
    IntervalDistance,
    Intervals,
    Marginal,
    OneSided,
)
from evencover.intervals import moved_note, prediction_text
from evencover.models import QuantileForest
from evencover.studies import Plan, study
from evencover.tables import predict as predict_table
from tests.command_line import run_command_line
from tests.report_pages import result_data, short_report_page


def skewed(n, seed):
    """A target whose mean lies far above its median, and a model of its mean and quantiles."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.uniform(size=(n, 2)), columns=["a", "b"])
    return table, np.exp(table["a"] + 2.5 * rng.normal(size=n))


def mean_forest():
    return QuantileForest(n_estimators=30, center="mean", level=0.5, random_state=0)


@pytest.fixture(scope="module")
def model():
    return ConformalRegressor(mean_forest(), nonconformity=IntervalDistance(), random_state=0).fit(*skewed(1000, 0))


NEW = skewed(300, 1)[0]


def outside(columns, suffix=""):
    """Return which predictions are outside their intervals."""
    shown = np.asarray(columns["prediction"])
    return ~((columns[f"lower{suffix}"] <= shown) & (shown <= columns[f"upper{suffix}"]))


class TestNearest:
    def test_a_number_in_its_interval_stays_and_another_is_moved_to_the_nearest_bound(self):
        intervals = Intervals([0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0])
        assert intervals.nearest([-2.0, 0.25, 3.0, 0.0]).tolist() == [0.0, 0.25, 1.0, 1.0]

    def test_empty_intervals_keep_the_number(self):
        assert Intervals([2.0, np.nan], [1.0, np.nan]).nearest([5.0, 6.0]).tolist() == [5.0, 6.0]

    def test_infinite_bounds_move_nothing_and_one_sided_bounds_one_side(self):
        intervals = Intervals([-np.inf, -np.inf, 3.0], [np.inf, 1.0, np.inf])
        assert intervals.nearest([5.0, 5.0, 5.0]).tolist() == [5.0, 1.0, 5.0]
        assert intervals.nearest([-5.0, -5.0, -5.0]).tolist() == [-5.0, -5.0, 3.0]

    def test_with_several_levels_it_lies_in_the_smallest_interval_whatever_their_order(self):
        lower, upper = np.array([[0.0, 2.0], [0.0, 5.0]]), np.array([[9.0, 3.0], [9.0, 4.0]])
        assert Intervals(lower, upper, level=(0.9, 0.5)).nearest([8.0, 11.0]).tolist() == [3.0, 9.0]
        reversed_levels = Intervals(lower[:, ::-1], upper[:, ::-1], level=(0.5, 0.9))
        assert reversed_levels.nearest([8.0, 11.0]).tolist() == [3.0, 9.0]

    def test_intervals_that_are_not_nested_share_the_number_if_they_can(self):
        rng = np.random.default_rng(0)
        lower = rng.normal(size=(500, 3))
        intervals = Intervals(lower, lower + rng.exponential(2, size=(500, 3)), level=(0.9, 0.5, 0.8))
        moved = intervals.nearest(rng.normal(scale=3, size=500))
        covered = intervals.covers(moved)
        assert covered[:, 1].all()  # the smallest level
        common = intervals.lower.max(axis=1) <= intervals.upper.min(axis=1)
        assert 50 < common.sum() < 450
        np.testing.assert_array_equal(covered.all(axis=1), common)

    def test_other_numbers_of_rows_raise(self):
        with pytest.raises(ValueError, match=r"values must have shape \(1,\), as many.*; got \(2,\)"):
            Intervals([0.0], [1.0]).nearest([1.0, 2.0])


class TestModels:
    """The mean of this target is above most of the intervals."""

    def test_frames_show_a_point_of_the_interval_and_the_model_keeps_its_own(self, model):
        intervals = model.predict_interval(NEW, level=0.5)
        center = model.predict(NEW)
        np.testing.assert_array_equal(intervals.prediction, center)
        n_outside = np.count_nonzero(~intervals.covers(center))
        assert n_outside > 60
        assert intervals.n_moved == n_outside
        frame = intervals.to_frame()
        assert not outside(frame).any()
        np.testing.assert_array_equal(frame["prediction"], np.clip(center, intervals.lower, intervals.upper))
        assert f"{frame['prediction'][0]:.6g}" in intervals._repr_html_()

    def test_with_several_levels_the_prediction_lies_in_all_intervals(self, model):
        frame = model.predict_interval(NEW, level=[0.9, 0.45]).to_frame()
        assert not outside(frame, "_0.9").any()
        assert not outside(frame, "_0.45").any()

    @pytest.mark.parametrize(
        "score", [OneSided(IntervalDistance(), "upper"), Bounded(IntervalDistance(), y_min=0, whole=True)]
    )
    def test_one_sided_and_bounded_intervals(self, score):
        X, y = skewed(400, 2)
        found = ConformalRegressor(mean_forest(), nonconformity=score, random_state=0).fit(X, np.floor(y))
        intervals = found.predict_interval(NEW, level=0.2)
        assert intervals.n_moved > 30
        assert not outside(intervals.to_frame()).any()

    def test_cross_conformal_intervals(self):
        X, y = skewed(60, 3)
        found = CrossConformalRegressor(mean_forest(), cv=3, nonconformity=IntervalDistance(), random_state=0).fit(X, y)
        intervals = found.predict_interval(NEW, level=0.5)
        assert intervals.n_moved > 30
        assert not outside(intervals.to_frame()).any()

    def test_pictures_show_what_frames_show(self, model):
        intervals = model.predict_interval(NEW, level=0.5)
        drawn = intervals.plot().get_lines()[0].get_ydata()
        np.testing.assert_array_equal(drawn, np.sort(intervals.columns()["prediction"])[_drawn(len(NEW))])

    def test_files_of_any_size(self, model, tmp_path):
        NEW.to_parquet(tmp_path / "new.parquet")
        written = predict_table(tmp_path / "new.parquet", model, output=tmp_path / "out.parquet", level=0.5)
        assert written.n_moved == model.predict_interval(NEW, level=0.5).n_moved > 0
        assert not outside(pd.read_parquet(tmp_path / "out.parquet")).any()


def _drawn(n, most=200):
    return np.unique(np.linspace(0, n - 1, most).astype(int))


class TestCommandLine:
    def test_predict_says_how_many_are_moved(self, model, tmp_path, capsys):
        model.save(tmp_path / "model.evencover", level=0.5)
        NEW.to_csv(tmp_path / "new.csv", index=False)
        words = ("predict", str(tmp_path / "model.evencover"), str(tmp_path / "new.csv"))
        _, text, errors = run_command_line(capsys, *words)
        intervals = model.predict_interval(NEW, level=0.5)
        assert not outside(pd.read_csv(io.StringIO(text))).any()
        assert moved_note(intervals) in " ".join(errors.split())
        _, text, _ = run_command_line(capsys, *words, "--json")
        assert json.loads(text)["prediction"] == prediction_text(intervals)

    def test_few_moved_predictions_are_not_worth_a_note(self):
        intervals = Intervals(np.zeros(20), np.ones(20), prediction=np.append(np.full(18, 0.5), [3.0, -3.0]))
        assert moved_note(intervals) == ""
        assert prediction_text(intervals).endswith("outside the interval (2 of 20 rows)")
        assert "for 11 % of the rows; the nearest bound is shown instead." in moved_note(intervals[2:])
        assert moved_note(intervals[:0]) == ""


def test_a_study_writes_points_of_intervals_and_keeps_r2():
    X, y = skewed(600, 4)
    plan = Plan(model=mean_forest(), nonconformity=IntervalDistance(), taxonomy=Marginal(), level=0.5)
    found = study(X.assign(y=y), "y", plan=plan)
    assert not outside(found.columns_of_intervals()).any()
    center = found.prediction.center
    assert found.intervals.n_moved > 0.1 * len(center)
    expected = 1 - np.sum((found.test.y - center) ** 2) / np.sum((found.test.y - found.test.y.mean()) ** 2)
    assert found.quality.r2 == pytest.approx(expected)
    (note,) = [each for each in found.notes if "lies outside the interval" in each]
    assert note in str(found)
    assert note in short_report_page(found)
    data = result_data(found)
    assert note in data["notes"]
    assert data["prediction"] == prediction_text(found.intervals)
