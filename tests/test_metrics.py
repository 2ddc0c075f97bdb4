"""Metrics of intervals and quantiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_pinball_loss

from evencover import (
    Groups,
    Intervals,
    IntervalUnion,
    calibrate,
    coverage,
    coverage_by_group,
    crps,
    interval_score,
    mean_width,
)
from evencover.metrics import mean_width_by_group, misses_by_group, pinball_loss

WIDE = Intervals(np.array([0.0, -np.inf, 3.0]), np.array([2.0, np.inf, 1.0]), level=0.8)
Y = np.array([1.0, 5.0, 2.0])


def test_coverage_and_width():
    assert coverage(Y, WIDE) == 2 / 3
    assert mean_width(WIDE) == np.inf
    assert mean_width(WIDE[[0, 2]]) == 1.0


def test_coverage_and_width_by_group():
    groups = ["a", "b", "a"]
    assert coverage_by_group(Y, WIDE, groups) == {"a": 0.5, "b": 1.0}
    assert mean_width_by_group(WIDE, groups) == {"a": 1.0, "b": np.inf}
    own = calibrate(np.arange(20.0), np.zeros(20), groups=[0, 1] * 10).interval(np.zeros(3), groups=[0, 1, 1])
    assert set(coverage_by_group(Y, own)) == {0, 1}


def test_misses_below_and_above_by_group():
    """At one or several levels; a target can be on both sides of an empty interval."""
    intervals = Intervals([0.0, 0.0, 0.0, 3.0], [2.0, 2.0, 2.0, 1.0])
    assert misses_by_group([-1.0, 2.5, 3.0, 2.0], intervals, ["a", "b", "b", "c"]) == {
        "a": (1.0, 0.0),
        "b": (0.0, 1.0),
        "c": (1.0, 1.0),
    }
    several = Intervals(np.array([[0.0, -1.0], [0.0, -1.0]]), np.array([[1.0, 2.0], [1.0, 2.0]]))
    below, above = misses_by_group([-0.5, 1.5], several, ["a", "a"])["a"]
    assert (below.tolist(), above.tolist()) == ([0.5, 0.0], [0.5, 0.0])
    with pytest.raises(TypeError, match="intervals must be Intervals, one for each row; got IntervalUnion"):
        misses_by_group(Y, IntervalUnion([WIDE]), ["a"] * 3)
    with pytest.raises(ValueError, match="groups must be given"):
        misses_by_group(Y, WIDE)


def test_the_coverage_of_a_group_without_rows_is_nan():
    groups = Groups.from_labels(["a", "a", "a"], labels=["a", "b"])
    assert np.isnan(coverage_by_group(Y, WIDE, groups)["b"])


def test_metrics_of_several_levels():
    intervals = Intervals(np.array([[0.0, -1.0], [0.0, -1.0]]), np.array([[1.0, 2.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(coverage([0.5, 1.5], intervals), [0.5, 1.0])
    np.testing.assert_array_equal(mean_width(intervals), [1.0, 3.0])
    assert coverage_by_group([0.5, 1.5], intervals, ["a", "b"])["b"].tolist() == [0.0, 1.0]


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(-10, 10), st.sampled_from([0.5, 0.8, 0.9, 0.99]))
def test_interval_score_equals_the_pinball_losses_of_both_bounds(y, lower, upper, level):
    """It is 2/alpha times their sum, also for empty intervals."""
    alpha = 1 - level
    bounds = [mean_pinball_loss([y], [lower], alpha=alpha / 2), mean_pinball_loss([y], [upper], alpha=1 - alpha / 2)]
    found = interval_score([y], Intervals([lower], [upper]), level=level)
    np.testing.assert_allclose(found, 2 / alpha * sum(bounds), atol=1e-9)


def test_interval_score_of_infinite_intervals_is_infinite():
    assert interval_score(Y, WIDE) == np.inf
    assert interval_score([0.0], Intervals([-np.inf], [1.0]), level=0.9) == np.inf
    assert interval_score([0.0], Intervals([np.inf], [-np.inf]), level=0.9) == np.inf


def test_interval_score_needs_one_level():
    with pytest.raises(ValueError, match="interval_score takes intervals for one level"):
        interval_score([0.0], Intervals([0.0], [1.0]))


def test_pinball_loss_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    y, q = rng.normal(size=(2, 50))
    np.testing.assert_allclose(pinball_loss(y, q, probability=0.3), mean_pinball_loss(y, q, alpha=0.3))


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.floats(-5, 5))
def test_crps_of_equally_likely_values_is_exact(values, y):
    """Compared with the energy form E|X - y| - E|X - X'| / 2."""
    values = np.sort(values)
    energy = np.abs(values - y).mean() - np.abs(values[:, None] - values).mean() / 2
    probabilities = (np.arange(len(values)) + 0.5) / len(values)
    np.testing.assert_allclose(crps([y], values[None, :], probabilities=probabilities), energy, atol=1e-9)


def test_crps_scales_with_the_unit_of_the_target():
    rng = np.random.default_rng(0)
    y, quantiles = rng.normal(size=5), np.sort(rng.normal(size=(5, 3)), axis=1)
    probabilities = [0.1, 0.5, 0.9]
    np.testing.assert_allclose(
        crps(10 * y, 10 * quantiles, probabilities=probabilities), 10 * crps(y, quantiles, probabilities=probabilities)
    )


def test_bad_quantiles_and_probabilities_raise():
    with pytest.raises(ValueError, match=r"quantiles must have shape \(2, 1\)"):
        crps([1.0, 2.0], [[1.0, 2.0]], probabilities=[0.5])
    with pytest.raises(ValueError, match="probabilities must be strictly increasing, between 0 and 1"):
        crps([1.0], [[1.0, 2.0]], probabilities=[0.5, 0.5])
    with pytest.raises(ValueError, match="probabilities must be strictly increasing, between 0 and 1"):
        pinball_loss([1.0], [1.0], probability=1.0)
