"""The contract of `Bounded` around every score: the inner interval, restricted to the possible targets."""

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evencover import Bounded, Calibration, Prediction, Residual, calibrate
from tests.synthetic import BOUNDED_SCORES

N = 5
each_score = pytest.mark.parametrize("score", BOUNDED_SCORES, ids=repr)
numbers = arrays(float, N, elements=st.floats(-30, 30))
targets = arrays(float, N, elements=st.one_of(st.floats(-30, 30), st.integers(-30, 30).map(float)))
spreads = arrays(float, N, elements=st.floats(0.01, 100))
thresholds = st.floats(-20, 20)


def from_quarters(quarters, spread):
    """Return a prediction with skewed quantiles, some of them equal, and a positive spread."""
    quantiles = np.sort(quarters, axis=1) / 4
    bounds = quantiles[:, 0] - 0.1, quantiles[:, -1] + 0.1
    return Prediction(None, spread, *bounds, quantiles=quantiles, probabilities=[0.02, 0.3, 0.5, 0.6, 0.9])


quarters = arrays(int, (N, 5), elements=st.integers(-60, 100))


@each_score
@given(y=targets, center=numbers, spread=spreads, threshold=thresholds)
def test_scores_are_those_of_the_inner_score_and_infinite_outside_the_support(score, y, center, spread, threshold):
    prediction = Prediction(center, spread)
    possible = score.support.contains(y)
    np.testing.assert_array_equal(score(y, prediction), np.where(possible, score.score(y, prediction), np.inf))
    low, high = -np.inf if score.y_min is None else score.y_min, np.inf if score.y_max is None else score.y_max
    np.testing.assert_array_equal(possible, (y >= low) & (y <= high) & ((y % 1 == 0) | (not score.whole)))


@each_score
@given(y=targets, quarters=quarters, spread=spreads, threshold=thresholds)
def test_intervals_hold_the_possible_targets_of_the_inner_interval(score, y, quarters, spread, threshold):
    """Exactly those; except for intervals without any, which become a possible point."""
    prediction = from_quarters(quarters, spread)
    intervals, inner = score.interval(threshold, prediction), score.score.interval(threshold, prediction)
    replaced = intervals.replaced
    possible = score.support.contains(y)
    np.testing.assert_array_equal((intervals.covers(y) & possible)[~replaced], (inner.covers(y) & possible)[~replaced])
    assert not intervals.empty.any()
    for ends in (intervals.lower, intervals.upper):
        assert (score.support.contains(ends) | np.isinf(ends)).all()
    grid = np.arange(-400, 401) / (1 if score.whole else 8)
    held = (inner.lower[:, None] <= grid) & (grid <= inner.upper[:, None]) & score.support.contains(grid)
    assert not held[replaced].any()
    assert (intervals.lower == intervals.upper)[replaced].all()


@each_score
@given(quarters=quarters, spread=spreads, pair=st.tuples(thresholds, st.one_of(thresholds, st.just(np.inf))))
def test_intervals_of_larger_thresholds_contain_those_of_smaller(score, quarters, spread, pair):
    """Also if the smaller ones were replaced by a point, which is the possible target with the smallest score."""
    small, large = (score.interval(t, from_quarters(quarters, spread)) for t in sorted(pair))
    margin = 1e-9 * (1 + np.abs(small.lower))
    margin = np.where(np.isfinite(margin), margin, 0.0)
    assert (large.lower <= small.lower + margin).all()
    assert (small.upper <= large.upper + margin).all()


@each_score
@given(y=targets, quarters=quarters, spread=spreads)
def test_a_possible_target_whose_score_is_the_threshold_is_covered(score, y, quarters, spread):
    prediction = from_quarters(quarters, spread)
    y = np.clip(np.rint(y), -3, 10) if score.y_min != 0 else np.clip(np.rint(y), 0, 10)
    assert np.isfinite(score(y, prediction)).all()
    assert score.interval(score(y, prediction), prediction).covers(y).all()


@each_score
def test_values_files_and_the_inner_interval(score, tmp_path):
    """A bounded score can be pickled, hashed, compared and saved; its repr is Python code."""
    assert pickle.loads(pickle.dumps(score)) == score  # noqa: S301
    assert hash(score) == hash(dataclasses.replace(score))
    assert score != Bounded(score.score, y_min=-5)
    prediction = Prediction(np.arange(30.0) / 4, np.ones(30))
    calibration = calibrate(np.rint(prediction.center), prediction, nonconformity=score)
    calibration.save(tmp_path / "saved.zip")
    loaded = Calibration.load(tmp_path / "saved.zip")
    assert loaded.nonconformity == score
    assert repr(loaded.nonconformity) == repr(score)
    np.testing.assert_array_equal(loaded.interval(prediction).upper, calibration.interval(prediction).upper)
    assert score.interval(np.inf, prediction).lower.tolist() == [-np.inf if score.y_min is None else score.y_min] * 30


def test_a_broken_replacement_would_be_noticed():
    """The point nearest to the middle, without regard to the score, is not nested for a skewed score."""
    score = next(each for each in BOUNDED_SCORES if each.whole and type(each.score).__name__ == "ProbabilityDistance")
    prediction = Prediction(
        quantiles=[[0.38, 0.4, 0.9, 9.0]], probabilities=[0.1, 0.5, 0.6, 0.9], lower=[0.38], upper=[9.0], spread=[1.0]
    )
    small, large = (score.interval(t, prediction) for t in (0.1, 0.5))
    assert small.n_replaced == 1
    assert small.lower[0] == 1.0  # 0 is nearer to the interval, but far in the short tail
    assert large.covers(small.lower).all()


def test_the_inner_score_is_a_residual_by_default():
    assert Bounded(y_min=0) == Bounded(Residual(), y_min=0)
    assert repr(Bounded(y_min=0, y_max=1.5)) == "Bounded(Residual(), y_min=0, y_max=1.5)"
