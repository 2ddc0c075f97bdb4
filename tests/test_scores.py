"""The formulas of the scores, by hand."""

import numpy as np
import pytest

from evencover import IntervalDistance, Normalized, Prediction, Residual, Standardized

PREDICTION = Prediction([0.0, 10.0], spread=[1.0, 4.0], lower=[-2.0, 5.0], upper=[2.0, 11.0])
Y = [3.0, 4.0]


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (Residual(), [3.0, 6.0]),
        (IntervalDistance(), [1.0, 1.0]),
        (Normalized(), [3.0, 1.5]),
        (Normalized(epsilon=0.5, scale=2.0), [1.5, 1.2]),
        (Normalized(floor=0.75, scale=4.0), [1.0, 1.5]),
        (Normalized(floor=0.5, epsilon=0.25, scale=4.0), [1.0, 1.2]),
        (Standardized(), [3.0, -1.5]),
        (Standardized(epsilon=0.5, scale=2.0), [1.5, -1.2]),
    ],
    ids=repr,
)
def test_scores_are_their_formula(score, expected):
    np.testing.assert_allclose(score(Y, PREDICTION), expected)


@pytest.mark.parametrize(
    ("score", "lower", "upper"),
    [
        (Residual(), [-2.0, 8.0], [2.0, 12.0]),
        (IntervalDistance(), [-4.0, 3.0], [4.0, 13.0]),
        (Normalized(), [-2.0, 2.0], [2.0, 18.0]),
        (Normalized(epsilon=0.5, scale=2.0), [-4.0, 0.0], [4.0, 20.0]),
        (Standardized(), [-np.inf, -np.inf], [2.0, 18.0]),
    ],
    ids=repr,
)
def test_intervals_are_their_formula(score, lower, upper):
    intervals = score.interval(2.0, PREDICTION)
    np.testing.assert_allclose(intervals.lower, lower, atol=1e-12)
    np.testing.assert_allclose(intervals.upper, upper, atol=1e-12)


def test_a_negative_threshold_narrows_to_nothing():
    """CQR may find the model's own bounds too wide; a narrow one is then left empty."""
    narrowed = IntervalDistance().interval(-2.5, PREDICTION)
    assert narrowed.empty.tolist() == [True, False]
    assert narrowed.width.tolist() == [0.0, pytest.approx(1.0)]


def test_a_stabiliser_also_serves_a_spread_of_zero():
    assert Normalized(epsilon=0.5, scale=2.0)([3.0], Prediction([0.0], spread=[0.0]))[0] == 3.0


@pytest.mark.parametrize("score", [Residual(), IntervalDistance(), Normalized(), Standardized()], ids=repr)
def test_infinite_thresholds_hold_everything_or_nothing(score):
    assert not np.isfinite(score.interval(np.inf, PREDICTION).upper).any()
    assert score.interval(np.inf, PREDICTION).covers(Y).all()
    assert not score.interval(-np.inf, PREDICTION).covers(Y).any()
