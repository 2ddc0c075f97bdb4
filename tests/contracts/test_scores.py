"""The contract of every score: a function and its inverse."""

import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evencover import Intervals, Prediction, scores
from tests.synthetic import ALL_SCORES

N = 5
each_score = pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
numbers = arrays(float, N, elements=st.floats(-100, 100))
spreads = arrays(float, N, elements=st.floats(0.01, 100))
thresholds = st.one_of(st.floats(-50, 50), st.just(np.inf))


def test_every_score_of_the_module_is_tested():
    """A new score must be added to ALL_SCORES."""
    public = {
        value
        for name, value in vars(scores).items()
        if inspect.isclass(value)
        and dataclasses.is_dataclass(value)
        and value.__module__ == scores.__name__
        and not name.startswith("_")
    }
    assert public == {type(score) for score in ALL_SCORES}
    assert len(public) >= 4


@each_score
@given(y=numbers, center=numbers, spread=spreads, threshold=thresholds)
def test_an_interval_is_the_set_of_targets_that_score_at_most_the_threshold(score, y, center, spread, threshold):
    """Except for scores very close to the threshold, where rounding decides."""
    prediction = Prediction(center, spread)
    scored = score(y, prediction)
    not_tied = np.abs(scored - threshold) > 1e-9 * (1 + np.abs(scored) + abs(threshold)) * (1 + 100 / spread)
    covered = score.interval(threshold, prediction).covers(y)
    np.testing.assert_array_equal(covered[not_tied], (scored <= threshold)[not_tied])


@each_score
@given(
    cents=arrays(int, N, elements=st.integers(-(10**9), 10**9)),
    center=arrays(float, N, elements=st.floats(-1e7, 1e7).map(lambda value: round(value, 6))),
    spread=arrays(float, N, elements=st.floats(1e-6, 1e6)),
)
def test_a_target_whose_score_is_the_threshold_is_covered(score, cents, center, spread):
    """Despite rounding: otherwise tied targets, such as prices, would all be missed at once."""
    prediction = Prediction(center, spread)
    y = cents / 100
    assert score.interval(score(y, prediction), prediction).covers(y).all()


@each_score
@given(center=numbers, spread=spreads, pair=st.tuples(thresholds, thresholds))
def test_intervals_of_larger_thresholds_contain_those_of_smaller(score, center, spread, pair):
    """Empty intervals are contained in any."""
    small, large = (score.interval(t, Prediction(center, spread)) for t in sorted(pair))
    inside = (large.lower <= small.lower) & (small.upper <= large.upper)
    assert (inside | small.empty).all()


@each_score
@given(y=numbers, center=numbers, spread=spreads, scale=st.floats(0.01, 100), shift=st.floats(-100, 100))
def test_the_unit_of_the_target_does_not_matter(score, y, center, spread, scale, shift):
    """Calibrating in another unit, y -> scale y + shift, transforms the interval in the same way."""
    if getattr(score, "scale", None) is not None:
        other = dataclasses.replace(score, scale=score.scale * scale)
    else:
        other = score
    here, there = Prediction(center, spread), Prediction(scale * center + shift, scale * spread)
    interval = score.interval(np.median(score(y, here)), here)
    moved = other.interval(np.median(other(scale * y + shift, there)), there)
    tolerance = {"rtol": 1e-6, "atol": 1e-6 * (scale * 200 + abs(shift) + 1)}
    np.testing.assert_allclose(moved.lower, scale * interval.lower + shift, **tolerance)
    np.testing.assert_allclose(moved.upper, scale * interval.upper + shift, **tolerance)


@each_score
def test_shapes_types_and_pickling(score):
    """One score and one interval for each row, for one threshold or one for each row; a pickled score is equal."""
    prediction = Prediction(np.zeros(N), np.ones(N))
    assert score(np.ones(N), prediction).shape == (N,)
    for threshold in (1.0, np.arange(N) * 1.0):
        intervals = score.interval(threshold, prediction)
        assert isinstance(intervals, Intervals)
        assert np.asarray(intervals).shape == (N, 2)
    assert pickle.loads(pickle.dumps(score)) == score  # noqa: S301
    assert hash(score) == hash(pickle.loads(pickle.dumps(score)))  # noqa: S301


@each_score
def test_scores_do_not_change_their_input(score):
    """Neither targets nor predictions."""
    y, center, spread = np.arange(5.0), np.ones(5), np.full(5, 2.0)
    score.interval(1.0, Prediction(center, spread))
    score(y, Prediction(center, spread))
    assert (y.tolist(), center.tolist(), spread.tolist()) == ([0, 1, 2, 3, 4], [1] * 5, [2] * 5)
