"""Coverage for skewed, bimodal and discrete noise: marginal by its exact distribution, conditional by the true cdf."""

from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import betabinom

from evencover import Normalized, ProbabilityDistance, Rows, calibrate, conformal_rank
from evencover.synthetic import bimodal, counts, skewed
from tests.guarantees.test_exact_distributions import LEVELS, M, N, counts_by_size, repeats_of, smallest_p_value
from tests.synthetic import ALL_SCORES, ONE_IN_A_MILLION

DATA = {"skewed": skewed(), "bimodal": bimodal(), "counts": counts()}
CONTINUOUS = {"skewed": 0.7, "bimodal": 0.5}  # with a level at which center ± t spread covers unevenly
REPEATS = 600
PROBABILITIES = np.linspace(0.05, 0.95, 9)
SOME_SHAPES = [  # one of them in the default run
    pytest.param(name, marks=[pytest.mark.slow] if position else []) for position, name in enumerate(CONTINUOUS)
]


@cache
def rows_of(name):
    """Return the calibration rows and the new rows of all repeats, with predictions from the true distribution."""
    sample = DATA[name].sample(REPEATS * (N + M), seed=0)
    rows = Rows(sample.oracle_distribution(probabilities=PROBABILITIES), y=sample.y)
    return rows[: REPEATS * N], rows[REPEATS * N :]


def covered_counts(name, score):
    """Return the number covered among M new rows in each repeat, by (label, calibration size, level)."""
    old, new = rows_of(name)
    calibration = calibrate(old.y, old.prediction, nonconformity=score, groups=repeats_of(REPEATS, N))
    groups = repeats_of(REPEATS, M)
    covered = calibration.interval(new.prediction, groups=groups, level=LEVELS).covers(new.y)
    return counts_by_size(covered, groups, calibration.sizes, LEVELS)


@pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
@pytest.mark.parametrize("name", SOME_SHAPES)
def test_coverage_has_its_exact_distribution_whatever_the_shape_of_the_noise(name, score):
    """A rank off by one is found with probability 0.9995 (noncentral chi-square, at level 0.05)."""
    assert smallest_p_value(covered_counts(name, score)) > ONE_IN_A_MILLION


@pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
def test_counts_are_covered_at_least_as_often_as_targets_without_ties(score):
    """Ties can only add covered rows, so the total is stochastically larger than a sum of BetaBinomial variables."""
    for (_, size, level), hits in covered_counts("counts", score).items():
        k = conformal_rank(size, level)
        if k <= size:
            assert len(hits) == REPEATS
            assert chance_of_so_few(sum(hits), k, size) > ONE_IN_A_MILLION


def chance_of_so_few(total, k, size):
    """Return the probability that all repeats together cover at most so many rows, if there are no ties."""
    one_repeat = np.fft.rfft(betabinom(M, k, size + 1 - k).pmf(np.arange(M + 1)), REPEATS * M + 1)
    return np.fft.irfft(one_repeat**REPEATS, REPEATS * M + 1)[: total + 1].sum()


def test_the_test_of_counts_can_fail():
    """Intervals from the rank below the right one would cover too few rows."""
    k = conformal_rank(N, 0.9)
    expected = REPEATS * M * k / (N + 1)
    assert 0.4 < chance_of_so_few(round(expected), k, N) < 0.6
    assert chance_of_so_few(round(REPEATS * M * (k - 1) / (N + 1)), k, N) < ONE_IN_A_MILLION


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_distance_in_probability_covers_every_row_alike_if_the_distribution_is_true(name):
    """At a threshold t that is the normal score of a known quantile, every row is covered with 2 Φ(t) − 1."""
    thresholds = np.array([0.25, 1.0, 2.0, 3.0])
    sample = DATA[name].sample(200, seed=1)
    prediction = sample.oracle_distribution(probabilities=ndtr([*-thresholds[::-1], 0.0, *thresholds]))
    for t in thresholds:
        exact = sample.coverage(ProbabilityDistance().interval(t, prediction))
        np.testing.assert_allclose(exact, 2 * ndtr(t) - 1, atol=1e-9)


@pytest.mark.parametrize("name", SOME_SHAPES)
def test_one_calibrated_threshold_is_even_for_the_distribution_and_not_for_center_and_spread(name):
    """Between known quantiles, coverage differs by the error of interpolation only."""
    level = CONTINUOUS[name]
    old, new = (DATA[name].sample(n, seed=seed) for n, seed in ((200, 2), (200, 3)))
    known, predicted = old.oracle_distribution(), new.oracle_distribution()

    def unevenness(score):
        intervals = calibrate(old.y, known, nonconformity=score).interval(predicted, level=level)
        return np.ptp(new.coverage(intervals))

    assert unevenness(ProbabilityDistance()) < 5e-4
    assert unevenness(Normalized()) > 0.1


def test_the_distance_in_probability_covers_counts_evenly_up_to_the_probability_of_the_ends():
    """Coverage is at least 2 Φ(t) − 1, and more by at most the probability of the two counts at the ends.

    Both up to the step between two known probabilities at each end.
    """
    sample = counts().sample(1000, seed=4)
    prediction = sample.oracle_distribution()
    step = 2 * np.diff(prediction.probabilities).max()
    for t in (0.3, 1.0, ndtri(0.95)):
        interval = ProbabilityDistance().interval(t, prediction)
        ends = (np.ceil(interval.lower), np.floor(interval.upper))
        at_ends = sum(sample.source.distribution.density(end, sample.X) for end in ends)
        excess = sample.coverage(interval) - (2 * ndtr(t) - 1)
        assert (excess > -step).all(), t
        assert (excess < at_ends + step).all(), t
