"""Misspecifications, alone and combined; misspecification and contamination as separate effects."""

import numpy as np
import pytest
from scipy import stats

from evencover import Normalized, Prediction, Residual
from evencover.reproduction.simulation import misspecification_and_contamination
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
from tests.synthetic import ONE_IN_A_MILLION

N = 20_000
ORACLE = Prediction(np.linspace(-1, 1, N), np.linspace(0.5, 2.0, N), level=0.8)


def test_deterministic_misspecifications():
    center, spread = ORACLE.center, ORACLE.spread
    for misspecification, expected in {
        ScaledSpread(3.0): (center, 3 * spread),
        ShiftedCenter(-2.0): (center - 2, spread),
        ShiftedBySpread(0.5): (center + spread / 2, spread),
        QuadraticVariance(): (center, np.sqrt(5 * (spread**2 - 0.5) ** 2 + 0.5)),
    }.items():
        wrong = misspecified(ORACLE, misspecification)
        np.testing.assert_allclose(wrong.center, expected[0])
        np.testing.assert_allclose(wrong.spread, expected[1])


def test_bounds_follow_at_the_predictions_own_level():
    wrong = misspecified(ORACLE, ScaledSpread(2.0))
    assert wrong.level == 0.8
    np.testing.assert_allclose(wrong.upper - wrong.lower, 2 * (ORACLE.upper - ORACLE.lower))


def test_misspecifications_act_one_after_another():
    shifted_last = misspecified(ORACLE, ScaledSpread(2.0), ShiftedBySpread(1.0))
    shifted_first = misspecified(ORACLE, ShiftedBySpread(1.0), ScaledSpread(2.0))
    np.testing.assert_allclose(shifted_last.center, ORACLE.center + 2 * ORACLE.spread)
    np.testing.assert_allclose(shifted_first.center, ORACLE.center + ORACLE.spread)
    assert misspecified(ORACLE) is ORACLE


@pytest.mark.parametrize(
    ("misspecification", "noise"),
    [
        (NoisySpread(0.05), lambda wrong: (wrong.spread - ORACLE.spread) / 0.05),
        (NoisyVariance(0.05), lambda wrong: (wrong.spread**2 - ORACLE.spread**2) / 0.05),
        (NoisyCenter(0.3), lambda wrong: (wrong.center - ORACLE.center) / 0.3),
        (NoisyCenter(0.3, in_spreads=True), lambda wrong: (wrong.center - ORACLE.center) / (0.3 * ORACLE.spread)),
    ],
)
def test_noise_is_normal_with_the_given_standard_deviation(misspecification, noise):
    assert stats.kstest(noise(misspecified(ORACLE, misspecification, seed=0)), "norm").pvalue > ONE_IN_A_MILLION
    np.testing.assert_array_equal(*(misspecified(ORACLE, misspecification, seed=1).spread for _ in range(2)))
    one, other = (misspecified(ORACLE, misspecification, seed=seed) for seed in (1, 2))
    assert not np.array_equal([one.center, one.spread], [other.center, other.spread])


def test_a_noisy_spread_stays_positive():
    wrong = misspecified(ORACLE, NoisySpread(5.0), seed=0)
    assert wrong.spread.min() == pytest.approx(1e-3 * np.median(ORACLE.spread))


def test_noise_is_subtracted_from_the_variance_where_the_sum_would_be_negative():
    """The estimate is v - e where v + e < 0, not |v + e|."""
    rng = np.random.default_rng(7)
    noise = rng.normal(0.0, 5.0, N)
    variance = ORACLE.spread**2
    subtracted = variance + noise < 0
    assert subtracted.any()
    wrong = misspecified(ORACLE, NoisyVariance(5.0), seed=7)
    np.testing.assert_allclose(wrong.spread[subtracted] ** 2, (variance - noise)[subtracted])
    np.testing.assert_allclose(wrong.spread[~subtracted] ** 2, (variance + noise)[~subtracted])


def test_a_function_is_a_misspecification():
    wrong = misspecified(ORACLE, lambda center, spread, rng: (center**2, spread + 1))
    np.testing.assert_allclose(wrong.center, ORACLE.center**2)


def test_a_misspecification_in_place_does_not_change_the_oracle():
    before = ORACLE.spread.copy()
    wrong = misspecified(ORACLE, lambda center, spread, rng: (center, spread.__imul__(2)))
    np.testing.assert_array_equal(ORACLE.spread, before)
    np.testing.assert_array_equal(wrong.spread, 2 * before)


def largest_z(counts):
    return np.abs(counts.z).max()


def test_contamination_and_misspecification_are_separated():
    """A pivotal score is even in any groups. A wrong score is uneven in the correct groups. Wrong groups hide that."""
    settings = {"repeats": 150, "seed": 0}
    normalised = misspecification_and_contamination(toy(), QuadraticVariance(), score=Normalized(), **settings)
    residual = misspecification_and_contamination(toy(), QuadraticVariance(), score=Residual(), **settings)
    assert largest_z(normalised["correct", "correct"]) < 5
    assert largest_z(normalised["correct", "wrong"]) < 5
    assert largest_z(normalised["wrong", "correct"]) > 10
    assert largest_z(normalised["wrong", "wrong"]) > 10
    assert largest_z(residual["correct", "correct"]) > 10
    assert largest_z(residual["correct", "wrong"]) < 5
    np.testing.assert_array_equal(residual["correct", "wrong"].covered, residual["wrong", "wrong"].covered)
