"""Predictions: center, spread and bounds of each row."""

import numpy as np
import pytest
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
    assert "1 crossing bounds swapped" in repr(prediction)


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
