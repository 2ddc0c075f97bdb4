"""Predictions: center, spread, bounds and quantiles of each row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from evencover import Prediction


def test_bounds_from_a_spread_are_normal_quantiles_at_the_level():
    prediction = Prediction([0.0, 10.0], spread=[1.0, 2.0], level=0.8)
    z = norm.ppf(0.9)
    np.testing.assert_allclose(prediction.lower, [-z, 10 - 2 * z])
    np.testing.assert_allclose(prediction.interval().width, [2 * z, 4 * z])
    assert prediction.interval().level == 0.8


def test_a_spread_is_recovered_from_its_bounds():
    prediction = Prediction([0.0, 10.0], spread=[1.0, 2.0], level=0.8)
    quantiles = Prediction.from_quantiles(prediction.lower, prediction.upper, level=0.8)
    np.testing.assert_allclose(quantiles.spread, prediction.spread)
    np.testing.assert_allclose(quantiles.center, prediction.center)


def test_given_values_are_not_changed():
    prediction = Prediction([1.0], [5.0], [0.0], [3.0])
    assert (prediction.spread[0], prediction.lower[0], prediction.upper[0]) == (5.0, 0.0, 3.0)
    assert Prediction.from_quantiles([0.0], [3.0], [2.5]).center[0] == 2.5


def test_crossing_bounds_are_swapped_and_counted():
    prediction = Prediction.from_quantiles([0.0, 5.0, 1.0], [1.0, 2.0, 1.0])
    assert prediction.crossings == 1
    assert prediction.lower.tolist() == [0.0, 2.0, 1.0]
    assert (prediction.spread >= 0).all()
    assert "1 crossing rows put in order" in repr(prediction)


def test_spread_and_bounds_are_none_if_not_given():
    prediction = Prediction([1.0, 2.0])
    assert (prediction.spread, prediction.lower, prediction.upper) == (None, None, None)
    assert repr(prediction) == "Prediction(2 rows of center; level=0.9)"


@pytest.mark.parametrize("rows", [slice(1, 3), [2, 0], np.array([True, False, True, False])])
def test_selecting_rows_selects_all_parts(rows):
    prediction = Prediction(np.arange(4.0), np.arange(4.0) + 1, np.arange(4.0) - 9, np.arange(4.0) + 9, level=0.5)
    selected = prediction[rows]
    for part in ("center", "spread", "lower", "upper"):
        np.testing.assert_array_equal(getattr(selected, part), getattr(prediction, part)[rows])
    assert selected.level == 0.5
    assert len(selected) == 2


def test_a_prediction_is_frozen_and_counts_crossings_of_selected_rows():
    prediction = Prediction.from_quantiles([0.0, 5.0], [1.0, 2.0])
    with pytest.raises(AttributeError):
        prediction.center = np.zeros(2)
    assert (prediction[1:].crossings, prediction[:1].crossings) == (1, 0)
    assert len(prediction[0]) == 1


SKEWED = Prediction(quantiles=[[0.0, 1.0, 4.0], [-1.0, 0.0, 1.0]], probabilities=[0.1, 0.5, 0.9], level=0.8)


def test_quantiles_give_center_bounds_and_spread():
    np.testing.assert_allclose(SKEWED.center, [1.0, 0.0])
    np.testing.assert_allclose(SKEWED.lower, [0.0, -1.0])
    np.testing.assert_allclose(SKEWED.upper, [4.0, 1.0])
    np.testing.assert_allclose(SKEWED.spread, np.array([4.0, 2.0]) / (2 * norm.ppf(0.9)))
    assert "lower, upper, 3 quantiles" in repr(SKEWED)


def test_given_parts_take_precedence_over_quantiles():
    given = Prediction([7.0], [2.0], [5.0], [9.0], quantiles=[[0.0, 1.0]], probabilities=[0.3, 0.6])
    assert (given.center, given.spread, given.lower, given.upper) == (7.0, 2.0, 5.0, 9.0)
    assert given.ppf(0.3) == 0.0


def test_the_quantile_function_is_linear_in_the_normal_score():
    """Between the quantiles, and beyond them with the mean slope on that side of the median."""
    z = norm.ppf(0.9)
    np.testing.assert_allclose(SKEWED.ppf(norm.cdf(z / 2)), [2.5, 0.5])
    np.testing.assert_allclose(SKEWED.ppf(norm.cdf(2 * z)), [7.0, 2.0])
    np.testing.assert_allclose(SKEWED.ppf(norm.cdf(-2 * z)), [-1.0, -2.0])
    np.testing.assert_allclose(SKEWED.ppf([0.1, 0.9]), [[0.0, 4.0], [-1.0, 1.0]])


@given(
    quantiles=arrays(float, (4, 5), elements=st.floats(-100, 100)),
    p=arrays(float, 4, elements=st.floats(0.001, 0.999)),
)
def test_cdf_and_ppf_are_inverse(quantiles, p):
    """ppf(p) is the smallest target with F >= p, up to rounding, also where F jumps."""
    prediction = Prediction(quantiles=quantiles, probabilities=[0.05, 0.2, 0.5, 0.7, 0.99])
    y = np.diagonal(prediction.ppf(p))
    rounding = 1e-9 * (1 + np.abs(y))
    assert (prediction.cdf(y + rounding) >= p - 1e-9).all()
    assert (prediction.cdf(y - rounding) <= p + 1e-9).all() or (prediction.spread < 1e-6).any()
    steps = prediction.ppf(np.linspace(0.01, 0.99, 50))
    assert (np.diff(steps, axis=1) >= -1e-9).all()


def test_cdf_of_one_number_is_that_of_each_row():
    np.testing.assert_array_equal(SKEWED.cdf(2), SKEWED.cdf(np.full(len(SKEWED), 2.0)))
    with pytest.raises(ValueError, match="y must be finite"):
        SKEWED.cdf(np.nan)


def test_equal_quantiles_are_a_jump_of_the_cdf():
    """The mass of an atom is the difference of the probabilities at its ends."""
    atom = Prediction(quantiles=[[0.0, 2.0, 2.0, 3.0]], probabilities=[0.1, 0.3, 0.8, 0.9])
    assert atom.cdf([2.0]) == pytest.approx(0.8)
    assert atom.cdf([2.0 - 1e-9]) == pytest.approx(0.3)
    assert atom.ppf(0.5) == 2.0


def test_equal_quantiles_have_tails_if_the_spread_is_positive():
    """At least 1 % of the spread; without any spread the distribution is a point."""
    quantiles = {"quantiles": [[5.0, 5.0]], "probabilities": [0.1, 0.9]}
    with_spread, point = Prediction(spread=[2.0], **quantiles), Prediction(**quantiles)
    np.testing.assert_allclose(with_spread.ppf(norm.cdf(norm.ppf(0.9) + 1)), 5 + 0.02)
    assert point.ppf([0.01, 0.99]).tolist() == [[5.0, 5.0]]
    assert [point.cdf([y]).item() for y in (4.0, 5.0, 6.0)] == pytest.approx([0.0, 1.0, 1.0])


def test_a_spread_alone_is_a_normal_distribution_and_two_bounds_are_two_quantiles():
    y, center = np.array([0.3, -2.0]), np.array([1.0, 2.0])
    normal = Prediction(center, spread=[0.5, 3.0])
    np.testing.assert_allclose(normal.cdf(y), norm.cdf(y, center, [0.5, 3.0]))
    np.testing.assert_allclose(Prediction(center, lower=normal.lower, upper=normal.upper).cdf(y), normal.cdf(y))
    np.testing.assert_allclose(normal.interval(0.5).lower, norm.ppf(0.25, center, [0.5, 3.0]))
    np.testing.assert_array_equal(normal.interval().lower, normal.lower)
    with pytest.raises(ValueError, match="a distribution needs a prediction with a spread"):
        Prediction(center).cdf(y)


def test_crossing_quantiles_are_put_in_order_and_counted():
    prediction = Prediction(quantiles=[[0.0, 2.0, 1.0], [0.0, 1.0, 2.0]], probabilities=[0.1, 0.5, 0.9])
    assert prediction.quantiles.tolist() == [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]
    assert prediction.crossings == 1
    assert prediction[1:].crossings == 0


def test_predictions_are_selected_and_joined_with_their_quantiles():
    joined = Prediction.concatenate([SKEWED[1:], SKEWED[:1]])
    np.testing.assert_array_equal(joined.quantiles, SKEWED.quantiles[::-1])
    np.testing.assert_array_equal(joined.lower, SKEWED.lower[::-1])
    assert joined.level == 0.8
    bounds = Prediction([1.0], lower=[0.0], upper=[2.0])
    assert Prediction.concatenate([bounds, bounds]).upper.tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="the same known_parts"):
        Prediction.concatenate([SKEWED, Prediction([1.0], level=0.8)])
    with pytest.raises(ValueError, match="the same level"):
        Prediction.concatenate([SKEWED, Prediction([1.0])])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "center must be given if there are no quantiles; got neither"),
        ({"quantiles": [[1.0, 2.0]]}, "quantiles and probabilities must be given together"),
        ({"quantiles": [[1.0, 2.0]], "probabilities": [0.9, 0.1]}, "two or more numbers in increasing order"),
        ({"quantiles": [[1.0]], "probabilities": [0.5]}, "two or more numbers"),
        ({"quantiles": [[1.0, 2.0]], "probabilities": [0.0, 0.5]}, "strictly between 0 and 1"),
        ({"quantiles": [[1.0, 2.0, 3.0]], "probabilities": [0.1, 0.5]}, r"shape \(n, 2\), as many columns as prob"),
        ({"quantiles": [[1.0, np.nan]], "probabilities": [0.1, 0.5]}, "quantiles must be finite; NaN or infinite"),
        ({"center": [1.0, 2.0], "quantiles": [[1.0, 2.0]], "probabilities": [0.1, 0.5]}, "quantiles must have 2 rows"),
    ],
)
def test_wrong_quantiles_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        Prediction(**arguments)


@pytest.mark.parametrize("p", [0.0, 1.0, [0.5, np.nan], -1])
def test_probabilities_outside_0_and_1_are_errors(p):
    with pytest.raises(ValueError, match="p must"):
        SKEWED.ppf(p)
