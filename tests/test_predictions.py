"""What a model says about each row."""

import numpy as np
import pytest
from scipy.stats import norm

from evencover import Prediction


def test_a_spread_gives_normal_bounds_at_the_predictions_own_level():
    prediction = Prediction([0.0, 10.0], spread=[1.0, 2.0], level=0.8)
    z = norm.ppf(0.9)
    np.testing.assert_allclose(prediction.lower, [-z, 10 - 2 * z])
    np.testing.assert_allclose(prediction.interval().width, [2 * z, 4 * z])
    assert prediction.interval().level == 0.8


def test_bounds_give_a_spread_and_back():
    prediction = Prediction([0.0, 10.0], spread=[1.0, 2.0], level=0.8)
    quantiles = Prediction.from_quantiles(prediction.lower, prediction.upper, level=0.8)
    np.testing.assert_allclose(quantiles.spread, prediction.spread)
    np.testing.assert_allclose(quantiles.center, prediction.center)


def test_what_is_given_is_kept_as_it_is():
    prediction = Prediction([1.0], [5.0], [0.0], [3.0])
    assert (prediction.spread[0], prediction.lower[0], prediction.upper[0]) == (5.0, 0.0, 3.0)
    assert Prediction.from_quantiles([0.0], [3.0], [2.5]).center[0] == 2.5


def test_crossing_bounds_are_put_in_order_and_counted():
    prediction = Prediction.from_quantiles([0.0, 5.0, 1.0], [1.0, 2.0, 1.0])
    assert prediction.crossings == 1
    assert prediction.lower.tolist() == [0.0, 2.0, 1.0]
    assert (prediction.spread >= 0).all()
    assert "1 crossings put in order" in repr(prediction)


def test_what_is_not_known_is_absent():
    prediction = Prediction([1.0, 2.0])
    assert (prediction.spread, prediction.lower, prediction.upper) == (None, None, None)
    assert repr(prediction) == "Prediction(2 rows of center; level=0.9)"


@pytest.mark.parametrize("rows", [slice(1, 3), [2, 0], np.array([True, False, True, False])])
def test_rows_are_taken_together(rows):
    prediction = Prediction(np.arange(4.0), np.arange(4.0) + 1, np.arange(4.0) - 9, np.arange(4.0) + 9, level=0.5)
    some = prediction[rows]
    for part in ("center", "spread", "lower", "upper"):
        np.testing.assert_array_equal(getattr(some, part), getattr(prediction, part)[rows])
    assert some.level == 0.5
    assert len(some) == 2


def test_a_prediction_is_frozen_and_keeps_count_of_crossings():
    prediction = Prediction.from_quantiles([0.0, 5.0], [1.0, 2.0])
    with pytest.raises(AttributeError):
        prediction.center = np.zeros(2)
    assert (prediction[1:].crossings, prediction[:1].crossings) == (1, 0)
    assert len(prediction[0]) == 1
