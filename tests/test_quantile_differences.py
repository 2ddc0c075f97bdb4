"""Harrell-Davis quantiles, their fast bootstrap, and tests of equal score distributions."""

from itertools import permutations

import numpy as np
import pytest
import scipy
import scipy.stats
from scipy.stats import beta, binom, ks_2samp

from evencover import Groups, diagnose_scores
from evencover.diagnostics import score_tests
from tests.synthetic import ONE_IN_A_MILLION

SCIPY_HAS_IT = tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 16)
resampled_quantiles = score_tests.resampled_quantiles


def harrell_davis(samples, probability):
    """Return the Harrell-Davis estimate of a sample, or of each of several, by its definition."""
    n = np.shape(samples)[-1]
    weights = np.diff(beta.cdf(np.arange(n + 1) / n, (n + 1) * probability, (n + 1) * (1 - probability)))
    return np.sort(samples) @ weights


def estimated_difference(first, second, probability):
    """Return the difference of two groups at a probability, which is level × (1 + 1/n)."""
    n = len(first) + len(second)
    labels, level = np.repeat(["a", "b"], [len(first), len(second)]), probability * n / (n + 1)
    (found,) = diagnose_scores(np.append(first, second), labels, level=level).quantile_differences
    return found.difference


@pytest.mark.parametrize("n", [1, 2, 9, 100, 1500])
@pytest.mark.parametrize("probability", [0.01, 0.5, 0.9, 0.995])
def test_the_estimate_is_scipys(n, probability):
    samples = np.random.default_rng(n).lognormal(size=(2, n))
    first, second = harrell_davis(samples, probability)
    np.testing.assert_allclose(estimated_difference(*samples, probability), first - second, rtol=1e-9, atol=1e-12)
    if SCIPY_HAS_IT:
        expected = scipy.stats.quantile(samples, probability, axis=1, method="harrell-davis")
        np.testing.assert_allclose([first, second], expected, rtol=1e-12)


def test_a_score_without_weight_can_be_infinite():
    values, large = (np.append(np.arange(2000.0), last) for last in (np.inf, 1e9))
    low = estimated_difference(values, np.zeros(10), 0.1)
    np.testing.assert_allclose(low, estimated_difference(large, np.zeros(10), 0.1))
    np.testing.assert_allclose(low, harrell_davis(large, 0.1))
    assert np.isnan(estimated_difference(values, np.zeros(10), 0.999))


@pytest.mark.parametrize("n", [1, 2, 5, 30, 400])
@pytest.mark.parametrize("probability", [0.05, 0.9, 0.98])
def test_the_bootstrap_is_that_of_sorted_resamples(n, probability):
    rng = np.random.default_rng(n)
    values = np.round(rng.exponential(size=n), 2)
    fast = resampled_quantiles(values, probability, 3000, rng).round(9)
    plain = harrell_davis(values[rng.integers(0, n, (1000, n))], probability).round(9)
    if n == 1:
        np.testing.assert_allclose(fast, plain[0])
    else:
        assert ks_2samp(fast, plain).pvalue > ONE_IN_A_MILLION
        np.testing.assert_allclose(np.std(fast), np.std(plain), rtol=0.15)


def test_the_block_size_does_not_change_the_distribution(monkeypatch):
    values = np.random.default_rng(0).random(500)
    monkeypatch.setattr(score_tests, "_MAX_COUNTS", 1000)
    small = resampled_quantiles(values, 0.9, 2000, np.random.default_rng(1))
    assert len(small) == 2000
    monkeypatch.undo()
    assert ks_2samp(small, resampled_quantiles(values, 0.9, 2000, np.random.default_rng(2))).pvalue > ONE_IN_A_MILLION


def test_every_pair_is_comparison_at_the_same_probability():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], [200, 300, 500])
    scores = rng.exponential(size=1000) * np.where(labels == "c", 3.0, 1.0)
    found = diagnose_scores(scores, labels).quantile_differences
    assert [each.groups for each in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    probability = 0.9 * (1 + 1 / 1000)
    expected = harrell_davis(scores[labels == "a"], probability) - harrell_davis(scores[labels == "c"], probability)
    np.testing.assert_allclose(found[1].difference, expected)
    assert found[0].low < 0 < found[0].high
    assert found[1].high < 0
    assert [each.adjusted < 0.05 for each in found] == [False, True, True]
    assert all(each.low < each.difference < each.high for each in found)
    assert all(each.p_value <= each.adjusted for each in found)


def test_intervals_and_p_values_by_hand(monkeypatch):
    """2 of 400 resampled differences are above 0. The intervals of 3 pairs exclude a third of 10 at either end."""
    resampled = np.append(-np.arange(1.0, 399.0), [1.0, 2.0])
    drawn = iter([resampled, np.zeros(400), np.zeros(400)])
    monkeypatch.setattr(score_tests, "resampled_quantiles", lambda *_: next(drawn))
    scores, labels = np.append(np.full(50, -5.0), np.zeros(100)), np.repeat(["a", "b", "c"], 50)
    first, _, equal = diagnose_scores(scores, labels).quantile_differences
    assert (first.difference, first.p_value) == (pytest.approx(-5), 2 * 3 / 401)
    assert first.adjusted == 3 * first.p_value
    np.testing.assert_allclose([first.low, first.high], np.quantile(resampled, [0.05 / 6, 1 - 0.05 / 6]))
    assert (equal.difference, equal.low, equal.high, equal.p_value) == (0, 0, 0, 1)


def test_a_difference_from_an_infinite_quantile_is_not_known():
    scores = np.where(np.arange(80) % 4, np.arange(80.0), np.inf)
    found, *_ = diagnose_scores(scores, np.arange(80) % 2, level=0.8).quantile_differences
    assert np.isnan([found.difference, found.low, found.high, found.p_value, found.adjusted]).all()


def test_many_pairs_get_enough_resamples_to_reject():
    labels = np.arange(12 * 60) % 12
    scores = np.random.default_rng(0).random(720) + 5 * (labels == 11)
    found = diagnose_scores(scores, labels, level=0.8).quantile_differences
    assert len(found) == 66
    assert {each.groups for each in found if each.adjusted < 0.05} == {(label, 11) for label in range(11)}


class TestDistributions:
    """Differences at any level."""

    def test_kolmogorov_smirnov_tests_of_pairs(self):
        rng = np.random.default_rng(0)
        labels = np.arange(900) % 3
        scores = rng.random(900) + (labels == 2)
        found = diagnose_scores(scores, labels).distribution_differences
        assert [each.groups for each in found] == [(0, 1), (0, 2), (1, 2)]
        np.testing.assert_allclose(found[0].p_value, ks_2samp(scores[labels == 0], scores[labels == 1]).pvalue)
        assert [each.adjusted < 0.05 for each in found] == [False, True, True]
        assert found[1].distance == 1.0

    def test_the_anderson_darling_statistic_is_that_of_the_paper(self):
        rng = np.random.default_rng(0)
        labels = np.repeat([0, 1, 2], [20, 35, 60])
        for scores in (rng.random(115), np.round(rng.random(115), 1)):
            table = score_tests._contingency_table(labels, np.unique(scores, return_inverse=True)[1])
            (statistic,) = score_tests._statistics(table[None])
            brute = sum(_sample_term(scores, labels == label) for label in range(3)) * 114 / 115
            np.testing.assert_allclose(statistic, brute)

    def test_with_ties_the_p_value_is_that_of_all_permutations(self):
        """The number of permuted tables that are at least as extreme is binomial.

        If those that are as extreme were not counted, it would be lower by up to 21 standard errors.
        """
        scores = np.repeat([0.0, 1.0, 2.0], [2, 3, 2])
        samples = [np.array(each) for each in sorted(set(permutations([0, 0, 0, 1, 1, 2, 2])))]
        statistics = np.round(
            [sum(_sample_term(scores, labels == label) for label in range(3)) for labels in samples], 9
        )
        for statistic, first in zip(*np.unique(statistics, return_index=True), strict=True):
            found = diagnose_scores(scores, samples[first], level=0.5).anderson_darling
            extreme, probability = round(1000 * found) - 1, np.mean(statistics >= statistic)
            assert binom.cdf(extreme, 999, probability) > ONE_IN_A_MILLION
            assert binom.sf(extreme - 1, 999, probability) > ONE_IN_A_MILLION

    def test_the_observed_table_is_one_of_the_tables(self):
        """No permuted table is as extreme as this one."""
        assert diagnose_scores(np.repeat([0.0, 1.0], 100), np.repeat([0, 1], 100)).anderson_darling == 1 / 1000

    @pytest.mark.parametrize(
        ("distribution", "repeats"),
        [
            ("continuous", 400),
            *(
                pytest.param(distribution, 4000, marks=pytest.mark.slow)
                for distribution in ("continuous", "counts", "mostly zero", "one decimal")
            ),
        ],
    )
    def test_the_anderson_darling_test_keeps_its_size(self, distribution, repeats, monkeypatch):
        """With any number of permutations, so that few are enough here.

        A test that rejects 15 % is found with probability 0.96 in 400 repeats, one that rejects 8 % in 4000.
        """
        monkeypatch.setattr(score_tests, "_PERMUTATIONS", 99)
        rng = np.random.default_rng(0)
        groups = Groups.from_labels(np.arange(300) % 3)
        draws = {
            "continuous": lambda: rng.random(300),
            "counts": lambda: rng.poisson(1.0, 300).astype(float),
            "mostly zero": lambda: np.where(rng.random(300) < 0.6, 0.0, rng.random(300)),
            "one decimal": lambda: rng.exponential(size=300).round(1),
        }
        p_value = score_tests.anderson_darling_p_value
        p_values = np.array([p_value(draws[distribution](), groups, rng) for _ in range(repeats)])
        rejected = np.sum(p_values <= 0.05)
        assert binom.ppf(ONE_IN_A_MILLION, repeats, 0.045) <= rejected <= binom.isf(ONE_IN_A_MILLION, repeats, 0.055)
        assert ks_2samp(p_values, rng.random(2000)).pvalue > ONE_IN_A_MILLION

    def test_the_limit_distribution_has_its_mean_and_variance(self):
        for n_groups in (2, 5):
            draws, expected = score_tests._limit_draws(n_groups), 2 * (n_groups - 1) * (np.pi**2 / 3 - 3)
            assert abs(draws.mean() - (n_groups - 1)) < 5 * np.sqrt(expected / len(draws))
            np.testing.assert_allclose(draws.var(), expected, rtol=0.1)

    def test_the_anderson_darling_test_finds_differences_with_ties(self):
        rng = np.random.default_rng(0)
        labels = np.arange(3000) % 3
        scores = np.where(rng.random(3000) < 0.5 + 0.07 * labels, 0.0, rng.random(3000))
        assert diagnose_scores(scores, labels).anderson_darling <= 0.002

    def test_more_than_30_groups_are_not_compared_in_pairs(self):
        found = diagnose_scores(np.random.default_rng(0).random(310), np.arange(310) % 31)
        assert found.distribution_differences == found.quantile_differences == ()


def _sample_term(scores, own_rows):
    """Return one sample's part of the statistic, row by row as in equation 7 of Scholz and Stephens."""
    n, total = len(scores), 0.0
    for value in np.unique(scores):
        ties = np.sum(scores == value)
        below = np.sum(scores < value) + ties / 2
        own = np.sum(scores[own_rows] < value) + np.sum(scores[own_rows] == value) / 2
        total += ties / n * (n * own - own_rows.sum() * below) ** 2 / (below * (n - below) - n * ties / 4)
    return total / own_rows.sum()
