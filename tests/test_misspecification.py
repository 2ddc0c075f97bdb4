"""Ways of being wrong, alone and combined; misspecification and contamination told apart."""

import numpy as np
import pytest
from scipy import stats

from evencover import Normalized, Prediction, Residual
from evencover.reproduction.scenarios import right_and_wrong_parts
from evencover.synthetic import (
    NoisyCenter,
    NoisySpread,
    NoisyVariance,
    QuadraticVariance,
    ScaledSpread,
    ShiftedBySpread,
    ShiftedCenter,
    misspecified,
    toy,
)
from tests.worlds import ONE_IN_A_MILLION

N = 20_000
ORACLE = Prediction(np.linspace(-1, 1, N), np.linspace(0.5, 2.0, N), level=0.8)


def test_changes_without_chance():
    center, spread = ORACLE.center, ORACLE.spread
    for change, expected in {
        ScaledSpread(3.0): (center, 3 * spread),
        ShiftedCenter(-2.0): (center - 2, spread),
        ShiftedBySpread(0.5): (center + spread / 2, spread),
        QuadraticVariance(): (center, np.sqrt(5 * (spread**2 - 0.5) ** 2 + 0.5)),
    }.items():
        wrong = misspecified(ORACLE, change)
        np.testing.assert_allclose(wrong.center, expected[0])
        np.testing.assert_allclose(wrong.spread, expected[1])


def test_bounds_follow_at_the_predictions_own_level():
    wrong = misspecified(ORACLE, ScaledSpread(2.0))
    assert wrong.level == 0.8
    np.testing.assert_allclose(wrong.upper - wrong.lower, 2 * (ORACLE.upper - ORACLE.lower))


def test_changes_act_one_after_another():
    shifted_last = misspecified(ORACLE, ScaledSpread(2.0), ShiftedBySpread(1.0))
    shifted_first = misspecified(ORACLE, ShiftedBySpread(1.0), ScaledSpread(2.0))
    np.testing.assert_allclose(shifted_last.center, ORACLE.center + 2 * ORACLE.spread)
    np.testing.assert_allclose(shifted_first.center, ORACLE.center + ORACLE.spread)
    assert misspecified(ORACLE) is ORACLE


@pytest.mark.parametrize(
    ("change", "noise"),
    [
        (NoisySpread(0.05), lambda wrong: (wrong.spread - ORACLE.spread) / 0.05),
        (NoisyVariance(0.05), lambda wrong: (wrong.spread**2 - ORACLE.spread**2) / 0.05),
        (NoisyCenter(0.3), lambda wrong: (wrong.center - ORACLE.center) / 0.3),
        (NoisyCenter(0.3, in_spreads=True), lambda wrong: (wrong.center - ORACLE.center) / (0.3 * ORACLE.spread)),
    ],
)
def test_noise_is_normal_of_the_size_it_says(change, noise):
    assert stats.kstest(noise(misspecified(ORACLE, change, seed=0)), "norm").pvalue > ONE_IN_A_MILLION
    np.testing.assert_array_equal(*(misspecified(ORACLE, change, seed=1).spread for _ in range(2)))
    one, other = (misspecified(ORACLE, change, seed=seed) for seed in (1, 2))
    assert not np.array_equal([one.center, one.spread], [other.center, other.spread])


def test_a_noisy_spread_stays_positive():
    wrong = misspecified(ORACLE, NoisySpread(5.0), seed=0)
    assert wrong.spread.min() == pytest.approx(1e-3 * np.median(ORACLE.spread))


def test_a_noisy_variance_is_turned_round_where_it_would_be_negative():
    """|v + e| would be wrong: where v + e < 0 the estimate is v - e."""
    rng = np.random.default_rng(7)
    noise = rng.normal(0.0, 5.0, N)
    variance = ORACLE.spread**2
    turned = variance + noise < 0
    assert turned.any()
    wrong = misspecified(ORACLE, NoisyVariance(5.0), seed=7)
    np.testing.assert_allclose(wrong.spread[turned] ** 2, (variance - noise)[turned])
    np.testing.assert_allclose(wrong.spread[~turned] ** 2, (variance + noise)[~turned])


def test_a_function_is_a_change_too():
    wrong = misspecified(ORACLE, lambda center, spread, rng: (center**2, spread + 1))
    np.testing.assert_allclose(wrong.center, ORACLE.center**2)


def test_a_change_in_place_leaves_the_truth_alone():
    before = ORACLE.spread.copy()
    wrong = misspecified(ORACLE, lambda center, spread, rng: (center, spread.__imul__(2)))
    np.testing.assert_array_equal(ORACLE.spread, before)
    np.testing.assert_array_equal(wrong.spread, 2 * before)


def worst(tally):
    return np.abs(tally.z).max()


def test_contamination_and_misspecification_are_told_apart():
    """A pivotal score is even in any groups, a wrong one uneven in the right ones; wrong groups hide unevenness."""
    settings = {"repeats": 150, "seed": 0}
    normalised = right_and_wrong_parts(toy(), QuadraticVariance(), score=Normalized(), **settings)
    residual = right_and_wrong_parts(toy(), QuadraticVariance(), score=Residual(), **settings)
    assert worst(normalised["right", "right"]) < 5
    assert worst(normalised["right", "wrong"]) < 5
    assert worst(normalised["wrong", "right"]) > 10
    assert worst(normalised["wrong", "wrong"]) > 10
    assert worst(residual["right", "right"]) > 10
    assert worst(residual["right", "wrong"]) < 5
    np.testing.assert_array_equal(residual["right", "wrong"].covered, residual["wrong", "wrong"].covered)
