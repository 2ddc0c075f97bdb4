"""Diagnostics against exact distributions: tests keep their size, intervals cover, verdicts are rarely wrong."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, kstest, norm

from evencover import Bounded, BySpread, Groups, Prediction, Rows, audit, calibrate
from evencover.diagnostics import one_threshold
from evencover.reproduction.verdict_rates import rejections
from tests.synthetic import ONE_IN_A_MILLION

REPEATS = 2000
MarginalThreshold = one_threshold.MarginalThreshold  # a diagnosis has more tests, which take longer


def max_count(rate, repeats=REPEATS):
    """Return the count that events of this rate exceed once in a million."""
    return binom.isf(ONE_IN_A_MILLION, repeats, rate)


def centered_prediction(spread):
    """Return predictions with center 0."""
    return Prediction(np.zeros(len(spread)), spread)


def groups_of(*sizes):
    return Groups(np.repeat(np.arange(len(sizes)), sizes), tuple("abcdefgh"[: len(sizes)]))


def marginal_thresholds(rng, sizes, factors, *, level=0.9, decimals=None, repeats=REPEATS):
    """Yield marginal thresholds of random scores: half-normal, multiplied by a factor for each group."""
    groups = groups_of(*sizes)
    scale = np.asarray(factors, dtype=float)[groups.codes]
    for _ in range(repeats):
        scores = np.abs(rng.normal(size=len(groups))) * scale
        yield MarginalThreshold(
            scores if decimals is None else np.ceil(scores * 10**decimals) / 10**decimals, groups, level
        )


@cache
def group_null(covered):
    """Return the probabilities that 0, 1, ..., 25 rows of a group of 25 are among the covered of 135 rows."""
    return hypergeom.pmf(np.arange(26), 135, covered, 25)


@pytest.mark.parametrize("decimals", [None, 1])
def test_the_test_of_a_group_is_exact(decimals):
    """Randomised p-values, of one side and of both, are uniform; the p-value itself keeps its size.

    If counts were off by one, the one-sided ones would differ from uniform by about 0.3; the test rejects from 0.11 on.
    """
    rng, repeats = np.random.default_rng(1), 600
    one_sided, randomised, rejected = [], [], 0
    for marginal in marginal_thresholds(rng, (40, 25, 70), (1, 1, 1), decimals=decimals, repeats=repeats):
        count, null = int(marginal.covered[1]), group_null(int(marginal.covered.sum()))
        lower = null[:count].sum() + rng.random() * null[count]
        one_sided.append(lower)
        randomised.append(2 * min(lower, 1 - lower))
        rejected += marginal.p_values[1] <= 0.05
        assert marginal.p_values[1] >= randomised[-1] - 1e-9
    assert kstest(one_sided, "uniform").pvalue > ONE_IN_A_MILLION
    assert kstest(randomised, "uniform").pvalue > ONE_IN_A_MILLION
    assert rejected <= max_count(0.05, repeats)


@pytest.mark.parametrize("sizes", [(30, 55), (40, 25, 70), (10, 0, 60, 33, 5)])
def test_the_joint_test_is_exact(sizes, monkeypatch):
    """With any number of draws. With 19, twice as many tests reject if the observed table is not counted as one."""
    monkeypatch.setattr(one_threshold, "N_DRAWS", 19)
    rng = np.random.default_rng(2)
    margin, unit = (
        one_threshold._ROUNDING_MARGIN,
        0.0 if len(sizes) == 2 else 1 / (one_threshold.N_DRAWS + 1),
    )
    randomised, rejected = [], 0
    for seed, marginal in enumerate(marginal_thresholds(rng, sizes, np.ones(len(sizes)))):
        p_value = marginal.joint_p_value(seed)
        monkeypatch.setattr(
            one_threshold, "_ROUNDING_MARGIN", -margin
        )  # counts only tables that are strictly more uneven
        more = replace(marginal).joint_p_value(seed) - unit
        monkeypatch.setattr(one_threshold, "_ROUNDING_MARGIN", margin)
        randomised.append(more + rng.random() * (p_value - more))
        rejected += p_value <= 0.05
    assert kstest(randomised, "uniform").pvalue > ONE_IN_A_MILLION
    assert rejected <= max_count(0.05)


def test_the_joint_test_rejects_too_often_if_scores_differ_but_coverage_does_not():
    """One of two groups has 100 of 900 rows, and scores three times as dense around its quantile of 0.9.

    So a verdict needs an interval as well.
    """
    rng, groups, rejected = np.random.default_rng(9), groups_of(100, 800), 0
    for _ in range(1000):
        scores = rng.random(900)
        scores = np.where(groups.codes == 0, 0.9 + (scores - 0.9) / 3, scores)
        rejected += MarginalThreshold(scores, groups, 0.9).joint_p_value(0) < 0.05
    assert 0.07 < rejected / 1000 < 0.09


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("factors", [(1, 1, 1), (1, 1.3, 2)])
@pytest.mark.parametrize("decimals", [None, 1])
def test_intervals_contain_the_true_coverage(level, factors, decimals):
    """Some interval is wrong in at most 5 % of the repeats, and each bound in a sixth of that, also with ties."""
    below, above, wrong, sizes = np.zeros(3), np.zeros(3), 0, (80, 120, 100)
    for marginal in marginal_thresholds(np.random.default_rng(3), sizes, factors, level=level, decimals=decimals):
        truth = 2 * norm.cdf(marginal.threshold / np.asarray(factors)) - 1
        low, high = marginal.coverage_intervals
        below += truth < low
        above += truth > high
        wrong += ((truth < low) | (truth > high)).any()
    assert (below <= max_count(0.05 / 6)).all()
    assert (above <= max_count(0.05 / 6)).all()
    assert wrong <= max_count(0.05)
    if decimals is None and (factors == (1, 1, 1) or level == 0.5):  # with few uncovered rows or ties they are wider
        assert wrong >= binom.ppf(ONE_IN_A_MILLION, REPEATS, 0.02)


def test_points_that_replace_empty_intervals_count_as_covered():
    """Half of the rows have the impossible center -3, so the point 0 is their interval, which is often right.

    Without these points, the upper bounds of both groups are below the true coverage in every repeat.
    """
    rng, level, groups, repeats = np.random.default_rng(10), 0.4, groups_of(120, 90), 500
    at_zero, below, above, scores_only = np.array([0.6, 0.8]), np.zeros(2), np.zeros(2), 0
    impossible, n = np.arange(len(groups)) % 2 == 0, len(groups)
    prediction, score = Prediction(np.where(impossible, -3.0, 5.0)), Bounded(y_min=0)
    for _ in range(repeats):
        positive = np.where(impossible, np.abs(rng.normal(size=n)), np.maximum(5 + rng.normal(size=n), 0))
        zero = impossible & (rng.random(n) < at_zero[groups.codes])
        marginal = MarginalThreshold.of_rows(Rows(prediction, y=np.where(zero, 0, positive)), groups, score, level)
        spread = 2 * norm.cdf(marginal.threshold) - 1
        beyond = 2 * norm.cdf(max(marginal.threshold - 3, 0)) - 1
        truth = (at_zero + (1 - at_zero) * beyond) / 2 + spread / 2
        low, high = marginal.coverage_intervals
        below += truth < low
        above += truth > high
        scores_only += (truth > replace(marginal, rows=None).coverage_intervals[1]).all()
    assert (below <= max_count(0.05 / 4, repeats)).all()
    assert (above <= max_count(0.05 / 4, repeats)).all()
    assert scores_only == repeats


def test_a_single_edge_row_is_not_counted():
    """If scores decrease with the spread, the last row of each bin has its smallest score."""
    below, rng = np.zeros(3), np.random.default_rng(8)
    for _ in range(REPEATS):
        spread = rng.random(30)
        marginal = MarginalThreshold(-spread, BySpread(3).learn(Rows(centered_prediction(spread))), 0.8)
        low, high = np.sort(spread)[[9, 19]]
        edges = np.array([[0, low], [low, high], [high, 1]])
        truth = np.clip((edges[:, 1] + marginal.threshold) / (edges[:, 1] - edges[:, 0]), 0, 1)
        below += truth < marginal.coverage_intervals[0] - 1e-12
    assert (below <= max_count(0.05 / 6)).all()


def test_false_alarms_are_rare():
    """If scores do not depend on groups, the verdict is `uneven` in at most 5 % of the repeats.

    By tests without intervals and without adjustment it would be `uneven` in 10 % of the repeats with 300 rows a group,
    which is found with probability 0.9999 (binomial).
    """
    rng = np.random.default_rng(4)
    for size, repeats in ((30, 400), (300, REPEATS)):
        made = marginal_thresholds(rng, (size, size, size), np.ones(3), repeats=repeats)
        found = [marginal.verdict(0.03) for marginal in made]
        assert found.count("uneven") <= max_count(0.05, repeats)
    assert found.count("uneven") >= 10  # the test has power


@pytest.mark.slow
def test_the_bootstrap_keeps_its_size_with_100_rows_per_group():
    repeats = 2000
    rejected = round(repeats * rejections(100, repeats=repeats)["bootstrap (Holm)"])
    assert rejected <= max_count(0.07, repeats)
    assert rejected >= binom.ppf(ONE_IN_A_MILLION, repeats, 0.02)


def test_audits_rarely_reject_a_valid_predictor():
    """BetaBinomial tests call few of them uneven; binomial tests, which ignore the calibration, about a third.

    So if known calibration rows were ignored, it would be found with probability 0.999999 (binomial).
    """
    rng, repeats = np.random.default_rng(6), 150
    flagged = {"known": 0, "not known": 0}
    for _ in range(repeats):
        old, new, groups = rng.normal(size=100), rng.normal(size=900), np.arange(900) % 3
        made = calibrate(old, np.zeros(100)).interval(np.zeros(900))
        flagged["known"] += audit(new, made, groups=groups).verdict == "uneven"
        flagged["not known"] += audit(new, np.asarray(made), groups=groups).verdict == "uneven"
    assert flagged["known"] <= max_count(0.05, repeats)
    assert flagged["not known"] >= 0.2 * repeats


def test_counts_over_several_pools_have_their_exact_distribution():
    """Rows with several thresholds: a sum of independent BetaBinomial counts. Each repeat is a group of the audit.

    If counts were off by one, p-values would differ from uniform by about 0.3; the test rejects from 0.11 on.
    """
    rng, repeats = np.random.default_rng(7), 600
    spread, new_spread = rng.random((repeats, 90)), rng.random((repeats, 15))
    groups, assigned = (2 * np.arange(repeats)[:, None] + (each > 0.3) for each in (spread, new_spread))
    y, new_y = (rng.normal(size=each.size) * each.ravel() for each in (spread, new_spread))
    calibration = calibrate(y, centered_prediction(spread.ravel()), groups=groups.ravel())
    made = calibration.interval(centered_prediction(new_spread.ravel()), groups=assigned.ravel())
    table = audit(new_y, made, groups=np.repeat(np.arange(repeats), 15)).table
    under, over = np.transpose([(row.p_under, row.p_over) for row in table])
    randomised = under - rng.random(repeats) * (under + over - 1)  # both count the observed number
    assert kstest(randomised, "uniform").pvalue > ONE_IN_A_MILLION
