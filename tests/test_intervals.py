"""Intervals: empty, infinite, for several levels, and as arrays."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from evencover import ByFeature, ByTarget, ConformalRegressor, Intervals, IntervalUnion
from evencover.models import WithSpread
from evencover.synthetic import heteroskedastic


def test_empty_intervals_cover_nothing_and_have_no_width():
    intervals = Intervals(np.array([2.0, 0.0]), np.array([1.0, 1.0]))
    assert intervals.empty.tolist() == [True, False]
    assert intervals.width.tolist() == [0.0, 1.0]
    assert not intervals.covers([1.5, 2.0]).any()
    assert "1 empty" in repr(intervals)


def test_infinite_intervals_cover_everything_and_are_infinitely_wide():
    intervals = Intervals(np.array([-np.inf, -np.inf]), np.array([np.inf, 3.0]))
    assert np.isinf(intervals.width).all()
    assert intervals.covers([1e300, 3.0]).tolist() == [True, True]


def test_an_interval_of_one_point_covers_it():
    assert Intervals([1.0], [1.0]).covers([1.0]).all()
    assert Intervals([1.0], [1.0]).width[0] == 0.0


def test_the_last_axis_of_an_array_holds_the_bounds():
    one = Intervals(np.zeros(3), np.ones(3))
    several = Intervals(np.zeros((3, 2)), np.ones((3, 2)))
    assert np.asarray(one).shape == (3, 2)
    assert np.asarray(several).shape == (3, 2, 2)
    assert np.asarray(one, dtype=np.float32).dtype == np.float32
    assert several.covers(np.full(3, 0.5)).shape == (3, 2)
    assert several[1:].lower.shape == (2, 2)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_bounds_unpack_and_intervals_do_not(n):
    """Two intervals would unpack as two rows, which look like a lower and an upper bound."""
    one, several = Intervals(np.zeros(n), np.ones(n)), Intervals(np.zeros((n, 2)), np.ones((n, 2)))
    for intervals in (one, several):
        lower, upper = intervals.bounds
        np.testing.assert_array_equal(lower, intervals.lower)
        np.testing.assert_array_equal(upper, intervals.upper)
        with pytest.raises(TypeError, match=r"use lower, upper = intervals\.bounds"):
            lower, upper = intervals
    assert pd.DataFrame(one).shape == (n, 2)


def test_bounds_of_different_shapes_raise():
    with pytest.raises(ValueError, match=r"lower and upper must have the same shape.*got \(2,\) and \(3,\)"):
        Intervals(np.zeros(2), np.zeros(3))


def test_width_coverage_and_hull_of_a_union():
    union = IntervalUnion(
        [Intervals(np.array([0.0, 5.0]), np.array([1.0, 4.0])), Intervals(np.array([3.0, 9.0]), np.array([4.0, 8.0]))]
    )
    assert union.width.tolist() == [2.0, 0.0]
    assert union.covers([2.0, 4.5]).tolist() == [False, False]
    hull = union.hull()
    assert (hull.lower[0], hull.upper[0]) == (0.0, 4.0)
    assert hull.empty.tolist() == [False, True]
    assert len(union) == 2


def test_selecting_one_row_keeps_the_axis_of_rows():
    several = Intervals(np.zeros((3, 2)), np.ones((3, 2)), level=(0.5, 0.9))
    assert several[0].lower.shape == (1, 2)
    assert [len(several[row]) for row in range(3)] == [1, 1, 1]


def test_nan_bounds_are_an_empty_interval():
    """Frames and files write empty intervals as NaN."""
    intervals = Intervals([np.nan, 0.0], [np.nan, 1.0])
    assert intervals.empty.tolist() == [True, False]
    assert intervals.width.tolist() == [0.0, 1.0]


class TestPredictions:
    """Intervals know the predictions they were made from."""

    data = heteroskedastic(200, seed=0)

    def test_every_way_to_intervals_keeps_the_prediction(self):
        model = ConformalRegressor(LinearRegression(), random_state=0).fit(self.data.X, self.data.y)
        expected = model.predict(self.data.X)
        calibration = model.calibration_
        by_target = clone(model).set_params(taxonomy=ByTarget([1.0])).fit(self.data.X, self.data.y)
        own = WithSpread(LinearRegression(), random_state=0).fit(self.data.X, self.data.y).predict_full(self.data.X)
        for intervals in (
            model.predict_interval(self.data.X),
            model.predict_interval(self.data.X, level=[0.5, 0.9]),
            calibration.interval(expected),
            by_target.predict_interval(self.data.X),
            by_target.predict_union(self.data.X).pieces[0],
        ):
            np.testing.assert_array_equal(intervals.prediction, expected)
            np.testing.assert_array_equal(intervals[5:9].prediction, expected[5:9])
            assert next(iter(intervals.columns())) == "prediction"
        np.testing.assert_array_equal(own.interval().prediction, own.center)

    def test_a_frame_starts_with_the_prediction(self):
        table = pd.DataFrame(self.data.X, columns=["a", "b", "c"], index=np.arange(200)[::-1])
        model = ConformalRegressor(LinearRegression(), random_state=0).fit(table, self.data.y)
        frame = model.predict_interval(table, level=[0.5, 0.9]).to_frame()
        assert list(frame.columns) == ["prediction", "lower_0.5", "upper_0.5", "lower_0.9", "upper_0.9"]
        np.testing.assert_array_equal(frame["prediction"], model.predict(table))
        assert frame.index.equals(table.index)
        assert "prediction" in model.predict_interval(table)._repr_html_()

    def test_without_predictions_there_is_no_column(self):
        assert list(Intervals([0.0], [1.0]).columns()) == ["lower", "upper"]

    def test_predictions_of_another_length_raise(self):
        with pytest.raises(ValueError, match=r"prediction must have shape \(2,\); got \(3,\)"):
            Intervals([0.0, 0.0], [1.0, 1.0], prediction=np.zeros(3))


class TestClip:
    def test_each_bound_is_optional_and_nothing_left_is_empty(self):
        intervals = Intervals([-3.0, -2.0, 1.0, np.nan, -np.inf], [-1.0, 2.0, 5.0, np.nan, np.inf])
        from_zero = intervals.clip(low=0)
        assert from_zero.empty.tolist() == [True, False, False, True, False]
        assert from_zero.lower[1:3].tolist() == [0.0, 1.0]
        assert from_zero.upper[1:3].tolist() == [2.0, 5.0]
        both = intervals.clip(0, 4)
        assert (both.lower[4], both.upper[4]) == (0.0, 4.0)
        assert intervals.clip(high=0.0).empty.tolist() == [False, False, True, True, False]
        assert intervals.clip(high=0.0).upper[1] == 0.0

    def test_targets_within_the_limits_are_covered_as_before(self):
        rng = np.random.default_rng(0)
        intervals = Intervals(rng.normal(size=(500, 2)) - 1, rng.normal(size=(500, 2)) + 1, level=(0.5, 0.9))
        y = rng.uniform(size=500)
        np.testing.assert_array_equal(intervals.clip(0, 1).covers(y), intervals.covers(y))

    def test_the_rest_is_kept_and_the_guarantee_states_the_assumption(self):
        data = heteroskedastic(200, seed=0)
        table = pd.DataFrame(data.X, columns=["a", "b", "c"])
        model = ConformalRegressor(LinearRegression(), taxonomy=ByFeature("a", edges=[0.5]), random_state=0)
        intervals = model.fit(table, data.y).predict_interval(table)
        clipped = intervals.clip(low=0)
        assert list(clipped.to_frame().columns) == ["prediction", "lower", "upper", "group"]
        assert clipped.level == 0.9
        assert "and all targets are at least 0. Calibration rows" in str(clipped.guarantee)
        assert clipped.guarantee.sizes == intervals.guarantee.sizes
        assert "at least 0 and at most 9" in str(intervals.clip(0, 9).guarantee)
        assert "all targets are" not in str(intervals.guarantee)

    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            ((), "low and high must be numbers, at least one of them; got None and None"),
            (("0",), "low and high must be numbers, at least one of them; got '0' and None"),
            ((np.nan, 1), "low and high must be numbers"),
            ((2, 1), "low must be at most high; got 2 and 1"),
        ],
    )
    def test_wrong_limits_raise(self, limits, message):
        with pytest.raises(ValueError, match=message):
            Intervals([0.0], [1.0]).clip(*limits)
