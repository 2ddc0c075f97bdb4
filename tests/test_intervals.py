"""Intervals: empty, infinite, for several levels, and as arrays."""

import numpy as np
import pytest

from evencover import Intervals, IntervalUnion


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
    assert [len(row) for row in Intervals(np.zeros(3), np.ones(3))] == [1, 1, 1]


def test_nan_bounds_are_an_empty_interval():
    """Frames and files write empty intervals as NaN."""
    intervals = Intervals([np.nan, 0.0], [np.nan, 1.0])
    assert intervals.empty.tolist() == [True, False]
    assert intervals.width.tolist() == [0.0, 1.0]
