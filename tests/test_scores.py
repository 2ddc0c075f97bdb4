"""Scores and intervals against values computed by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

from evencover import IntervalDistance, Normalized, Prediction, Residual, Standardized, calibrate
from evencover.protocols import threshold_intervals

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
def test_scores_match_their_formula(score, expected):
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
def test_intervals_match_their_formula(score, lower, upper):
    intervals = score.interval(2.0, PREDICTION)
    np.testing.assert_allclose(intervals.lower, lower, atol=1e-12)
    np.testing.assert_allclose(intervals.upper, upper, atol=1e-12)


def test_a_negative_threshold_can_make_an_interval_empty():
    """If the model's bounds are too wide, CQR narrows them all; a narrow interval becomes empty."""
    narrowed = IntervalDistance().interval(-2.5, PREDICTION)
    assert narrowed.empty.tolist() == [True, False]
    assert narrowed.width.tolist() == [0.0, pytest.approx(1.0)]


def test_epsilon_allows_a_spread_of_zero():
    assert Normalized(epsilon=0.5, scale=2.0)([3.0], Prediction([0.0], spread=[0.0]))[0] == 3.0


@pytest.mark.parametrize("score", [Residual(), IntervalDistance(), Normalized(), Standardized()], ids=repr)
def test_infinite_thresholds_cover_everything_or_nothing(score):
    assert not np.isfinite(score.interval(np.inf, PREDICTION).upper).any()
    assert score.interval(np.inf, PREDICTION).covers(Y).all()
    assert not score.interval(-np.inf, PREDICTION).covers(Y).any()


@dataclass(frozen=True)
class Squared(Residual):
    """A subclass of one of the package's scores, with another formula."""

    def __call__(self, y, prediction):
        return super().__call__(y, prediction) ** 2

    def interval(self, threshold, prediction):
        return super().interval(np.sqrt(threshold), prediction)


class Wrapped:
    """A score that delegates unknown attributes to Residual."""

    def __getattr__(self, name):
        return getattr(Residual(), name)

    def __call__(self, y, prediction):
        return Squared()(y, prediction)

    def interval(self, threshold, prediction):
        return Squared().interval(threshold, prediction)


@pytest.mark.parametrize("score", [Squared(), Wrapped()], ids=["derived", "wrapped"])
def test_subclasses_and_wrappers_of_scores_use_their_own_call(score):
    """The package's scores skip a second check of the target; this must not skip a user's own __call__."""
    rng = np.random.default_rng(0)
    y, center = 3 * rng.normal(size=2000), np.zeros(2000)
    residual, squared = (calibrate(y[:1000], center[:1000], nonconformity=each) for each in (Residual(), score))
    np.testing.assert_allclose(squared.scores, residual.scores**2)
    np.testing.assert_allclose(
        np.asarray(squared.interval(center[1000:])), np.asarray(residual.interval(center[1000:])), rtol=1e-12
    )
    np.testing.assert_array_equal(squared.p_values(y[1000:], center[1000:]), residual.p_values(y[1000:], center[1000:]))


def test_thresholds_of_a_wrong_shape_raise():
    prediction = Prediction(np.zeros(3))
    for shape in ((3,), (2, 1), (3, 0), (1, 3, 1)):
        with pytest.raises(ValueError, match=r"thresholds must have shape \(3, L\) or \(1, L\), rows by levels; got"):
            threshold_intervals(Residual(), np.ones(shape), prediction)
    with pytest.raises(TypeError, match="nonconformity must be a score"):
        threshold_intervals({"all": Residual()}, np.ones((1, 1)), prediction)
    assert threshold_intervals(Residual(), np.ones((0, 2)), prediction[:0]).lower.shape == (0, 2)
