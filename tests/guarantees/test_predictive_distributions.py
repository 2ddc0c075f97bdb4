"""The exact distributions of predictive systems: the PIT is uniform in every group, and central intervals cover."""

import numpy as np
import pytest
from scipy.stats import betabinom, chisquare, kstest, rankdata

from evencover import (
    BySpread,
    IntervalDistance,
    Prediction,
    PredictiveDistribution,
    ProbabilityDistance,
    Residual,
    Rows,
    calibrate,
)
from tests.synthetic import ALL_SCORES, ONE_IN_A_MILLION

REPEATS = 3000
QUANTILES = np.array([0.1, 0.5, 0.9])


def skewed_data(rng, n):
    """Return rows whose noise is exponential, in units of a spread that the model predicts too small."""
    spread = np.exp(rng.uniform(-1.0, 1.0, n))
    center = rng.normal(size=n)
    y = center + spread * rng.exponential(size=n)
    return Rows(Prediction(center, 0.5 * spread), y=y)


def tied_data(rng, n):
    """Return whole targets, and predicted quantiles that are often one of them."""
    quantiles = np.sort(rng.integers(0, 5, (n, 3)) + np.array([0.0, 0.0, 0.5]), axis=1)
    y = np.round(rng.exponential(size=n) * 2)
    return Rows(Prediction(quantiles=quantiles, probabilities=QUANTILES), y=y)


def distribution_of(old, new, score, old_groups, new_groups, seed=None):
    calibration = calibrate(old.y, old.prediction, nonconformity=score, groups=old_groups)
    return PredictiveDistribution.from_calibration(
        calibration, new.prediction, groups=new_groups, calibration_rows=old, seed=seed
    )


def repeated(data, score, *, n, m=1, seed, smoothed=False):
    """Return the distributions and targets of m new rows in each of many repeats: each repeat is a group of n rows."""
    rng = np.random.default_rng(seed)
    old, new = data(rng, n * REPEATS), data(rng, m * REPEATS)
    old_groups, new_groups = (np.repeat(np.arange(REPEATS), size) for size in (n, m))
    return distribution_of(old, new, score, old_groups, new_groups, rng if smoothed else None), new.y


def with_each_row_as_new(data, score, *, n, seed, smoothed=False):
    """Return the distribution of each of n + 1 rows by the n others, and their targets.

    Given the rows, each is equally likely to be the new one, so a share of these rows is a probability.
    """
    rng = np.random.default_rng(seed)
    rows, groups = data(rng, n + 1), np.arange(n + 1)
    others = np.concatenate([np.delete(groups, row) for row in groups])
    return distribution_of(rows[others], rows, score, np.repeat(groups, n), groups, rng if smoothed else None), rows.y


@pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
def test_pit_is_uniform_on_skewed_data(score):
    """Of n + 1 rows as the new one, each has another of the ranks 0 to n. Smoothed, they are spread over (0, 1)."""
    n = 19
    distribution, y = with_each_row_as_new(skewed_data, score, n=n, seed=0)
    np.testing.assert_allclose(np.sort(distribution.pit(y)), (np.arange(n + 1) + 0.5) / (n + 1))
    smoothed, y = with_each_row_as_new(skewed_data, score, n=n, seed=0, smoothed=True)
    np.testing.assert_array_equal(np.floor((n + 1) * smoothed.pit(y)), np.floor((n + 1) * distribution.pit(y)))
    assert not np.allclose(smoothed.pit(y), distribution.pit(y))


@pytest.mark.slow
@pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
def test_simulated_pit_is_uniform_on_skewed_data(score):
    """Smoothed on (0, 1); without a seed, the rank is uniform on the numbers 0 to n."""
    distribution, y = repeated(skewed_data, score, n=9, seed=0, smoothed=True)
    assert kstest(distribution.pit(y), "uniform").pvalue > ONE_IN_A_MILLION
    distribution, y = repeated(skewed_data, score, n=9, seed=1)
    ranks = np.round(distribution.pit(y) * 10 - 0.5).astype(int)
    assert chisquare(np.bincount(ranks, minlength=10)).pvalue > ONE_IN_A_MILLION


@pytest.mark.parametrize("score", [Residual(), IntervalDistance(), ProbabilityDistance()], ids=repr)
def test_smoothed_pit_is_uniform_with_ties(score):
    """Of n + 1 rows, c tied ones share a range of c / (n + 1): without a seed its middle, smoothed any of it."""
    n = 99
    distribution, y = with_each_row_as_new(tied_data, score, n=n, seed=1)
    middle = (n + 1) * distribution.pit(y)
    np.testing.assert_allclose(middle, rankdata(middle) - 0.5)
    _, tied, n_tied = np.unique(middle, return_inverse=True, return_counts=True)
    assert n_tied.max() > 3
    smoothed, y = with_each_row_as_new(tied_data, score, n=n, seed=1, smoothed=True)
    share_of_range = 0.5 + ((n + 1) * smoothed.pit(y) - middle) / n_tied[tied]
    assert kstest(share_of_range, "uniform").pvalue > ONE_IN_A_MILLION


@pytest.mark.slow
@pytest.mark.parametrize("score", [Residual(), IntervalDistance(), ProbabilityDistance()], ids=repr)
def test_simulated_smoothed_pit_is_uniform_with_ties(score):
    """Without a seed it is not: the test can tell."""
    distribution, y = repeated(tied_data, score, n=9, seed=1, smoothed=True)
    assert kstest(distribution.pit(y), "uniform").pvalue > ONE_IN_A_MILLION
    distribution, y = repeated(tied_data, score, n=9, seed=1)
    assert kstest(distribution.pit(y), "uniform").pvalue < ONE_IN_A_MILLION


def test_pit_is_uniform_in_every_group():
    """Also of learned groups, whose edge rows have their own scores. With one distribution for all it is not."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(1000):
        old, new, taxonomy = skewed_data(rng, 20), skewed_data(rng, 1), BySpread(2)
        groups, assigned = taxonomy.learn(old), taxonomy.assign(new)
        by_group = distribution_of(old, new, Residual(), groups, assigned, rng)
        marginal = distribution_of(old, new, Residual(), None, None, rng)
        found.append((by_group.pit(new.y)[0], marginal.pit(new.y)[0], assigned.codes[0]))
    by_group, marginal, codes = np.array(found).T
    for code in (0, 1):
        assert kstest(by_group[codes == code], "uniform").pvalue > ONE_IN_A_MILLION
        assert kstest(marginal[codes == code], "uniform").pvalue < ONE_IN_A_MILLION


@pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
def test_number_covered_by_central_intervals(score):
    """Without ties, n + 1 − 2k of n + 1 rows are covered, if each is the new one in turn; k = 2 of n = 39 at 0.9."""
    distribution, y = with_each_row_as_new(skewed_data, score, n=39, seed=3)
    assert distribution.interval(0.9).covers(y).sum() == 36


@pytest.mark.slow
@pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
def test_simulated_number_covered_by_central_intervals(score):
    """Without ties it is BetaBinomial(m, n + 1 − 2k, 2k) among m new rows; k = 2 of n = 39 at level 0.9."""
    n, m, k = 39, 12, 2
    distribution, y = repeated(skewed_data, score, n=n, m=m, seed=3)
    hits = distribution.interval(0.9).covers(y).reshape(REPEATS, m).sum(axis=1)
    expected = REPEATS * betabinom(m, n + 1 - 2 * k, 2 * k).pmf(np.arange(m + 1))
    first = int(np.searchsorted(np.cumsum(expected), 20))  # join the rare small counts
    observed = np.bincount(hits, minlength=m + 1)
    joined = [np.append(counts[: first + 1].sum(), counts[first + 1 :]) for counts in (observed, expected)]
    assert chisquare(*joined).pvalue > ONE_IN_A_MILLION
