"""The diagnostics against their laws: exact tests are exact, intervals hold the truth, verdicts are seldom wrong."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, kstest, norm

from evencover import BySpread, Prediction, Rows, audit, calibrate
from evencover.diagnostics import _marginal_threshold
from evencover.diagnostics._exact_tests import covered_law, tails
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.diagnostics._quantile_differences import quantile_differences
from evencover.diagnostics._verdict import verdict
from evencover.groups import Groups
from tests.synthetic import ONE_IN_A_MILLION

REPEATS = 2000


def most(rate, repeats=REPEATS):
    """Return the largest count that a true rate exceeds once in a million."""
    return binom.isf(ONE_IN_A_MILLION, repeats, rate)


def noisy(spread):
    return Prediction(np.zeros(len(spread)), spread)


def groups_of(*sizes):
    return Groups(np.repeat(np.arange(len(sizes)), sizes), tuple("abcdefgh"[: len(sizes)]))


def divides(rng, sizes, factors, *, level=0.9, decimals=None, repeats=REPEATS):
    """Yield calibration scores of some groups, half-normal times a factor each, divided by their threshold."""
    groups = groups_of(*sizes)
    scale = np.asarray(factors, dtype=float)[groups.codes]
    for _ in range(repeats):
        scores = np.abs(rng.normal(size=len(groups))) * scale
        yield MarginalThreshold(
            scores if decimals is None else np.ceil(scores * 10**decimals) / 10**decimals, groups, level
        )


@pytest.mark.parametrize("decimals", [None, 1])
def test_a_groups_exact_test_is_exact(decimals):
    """Randomised over the ties of its count, the p-value is uniform; as it is, it rejects no more than it says."""
    rng = np.random.default_rng(1)
    randomised, rejected = [], 0
    for divide in divides(rng, (40, 25, 70), (1, 1, 1), decimals=decimals):
        count, law = divide.covered[1], hypergeom(135, divide.covered.sum(), 25)
        lower = law.cdf(count - 1) + rng.random() * law.pmf(count)
        randomised.append(2 * min(lower, 1 - lower))
        rejected += divide.p_values[1] <= 0.05
        assert divide.p_values[1] >= randomised[-1] - 1e-9
    assert kstest(randomised, "uniform").pvalue > ONE_IN_A_MILLION
    assert rejected <= most(0.05)


@pytest.mark.parametrize("sizes", [(30, 55), (40, 25, 70), (10, 0, 60, 33, 5)])
def test_the_joint_test_is_exact(sizes, monkeypatch):
    rng = np.random.default_rng(2)
    rounding, unit = _marginal_threshold._ROUNDING, 0.0 if len(sizes) == 2 else 1 / (_marginal_threshold.DRAWS + 1)
    randomised, rejected = [], 0
    for seed, divide in enumerate(divides(rng, sizes, np.ones(len(sizes)))):
        p_value = divide.joint_p_value(seed)
        monkeypatch.setattr(_marginal_threshold, "_ROUNDING", -rounding)  # the same, of those that are more uneven
        more = replace(divide).joint_p_value(seed) - unit
        monkeypatch.setattr(_marginal_threshold, "_ROUNDING", rounding)
        randomised.append(more + rng.random() * (p_value - more))
        rejected += p_value <= 0.05
    assert kstest(randomised, "uniform").pvalue > ONE_IN_A_MILLION
    assert rejected <= most(0.05)


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("factors", [(1, 1, 1), (1, 1.3, 2)])
@pytest.mark.parametrize("decimals", [None, 1])
def test_intervals_hold_the_coverage_to_come(level, factors, decimals):
    """Each end is wrong in 2.5 % of the repeats at most: for the threshold as computed, in every group, with ties."""
    below, above, sizes = np.zeros(3), np.zeros(3), (80, 120, 100)
    for divide in divides(np.random.default_rng(3), sizes, factors, level=level, decimals=decimals):
        truth = 2 * norm.cdf(divide.threshold / np.asarray(factors)) - 1
        low, high = divide.intervals
        below += truth < low
        above += truth > high
    assert (below <= most(0.025)).all()
    assert (above <= most(0.025)).all()
    if decimals is None and (factors == (1, 1, 1) or level == 0.5):  # few misses or ties make them wider
        assert (below + above >= binom.ppf(ONE_IN_A_MILLION, REPEATS, 0.02)).all()


def test_the_row_that_is_an_edge_is_not_counted_as_drawn():
    """Scores that fall along the spread: the last row of each bin has its smallest score."""
    below, rng = np.zeros(3), np.random.default_rng(8)
    for _ in range(REPEATS):
        spread = rng.random(30)
        divide = MarginalThreshold(-spread, BySpread(3).learn(Rows(noisy(spread))), 0.8)
        low, high = np.sort(spread)[[9, 19]]
        edges = np.array([[0, low], [low, high], [high, 1]])
        truth = np.clip((edges[:, 1] + divide.threshold) / (edges[:, 1] - edges[:, 0]), 0, 1)
        below += truth < divide.intervals[0] - 1e-12
    assert (below <= most(0.025)).all()


def test_false_alarms_are_rare():
    """Where scores do not depend on groups, the verdict is `uneven` in 5 % of the repeats at most."""
    rng = np.random.default_rng(4)
    for sizes in ((30, 30, 30), (300, 300, 300)):
        found = [
            verdict(divide.forecasts, divide.joint_p_value(seed), 0.9, 0.03)
            for seed, divide in enumerate(divides(rng, sizes, np.ones(3)))
        ]
        assert found.count("uneven") <= most(0.05)
    assert found.count("uneven") >= 10  # the rule can fire


def test_the_bootstrap_keeps_its_size_from_100_rows_a_group_on():
    rng = np.random.default_rng(5)
    rejected = 0
    for divide in divides(rng, (100, 100, 100), np.ones(3)):
        found = quantile_differences(divide.scores, divide.groups, 0.9, rng)
        rejected += min(each.adjusted for each in found) < 0.05
    assert rejected <= most(0.07)
    assert rejected >= binom.ppf(ONE_IN_A_MILLION, REPEATS, 0.02)


def test_audits_of_a_valid_predictor():
    """By the BetaBinomial law few are called uneven; by the binomial, given the calibration, about a third."""
    rng = np.random.default_rng(6)
    flagged = {"known": 0, "not known": 0}
    for _ in range(500):
        old, new, groups = rng.normal(size=100), rng.normal(size=900), np.arange(900) % 3
        made = calibrate(old, np.zeros(100)).interval(np.zeros(900))
        flagged["known"] += audit(new, made, groups=groups).verdict == "uneven"
        flagged["not known"] += audit(new, np.asarray(made), groups=groups).verdict == "uneven"
    assert flagged["known"] <= most(0.05, 500)
    assert flagged["not known"] >= 100


def test_counts_over_several_pools_follow_their_law():
    """A region's rows, with thresholds per noise level: a sum of independent BetaBinomials."""
    rng = np.random.default_rng(7)
    region = np.arange(60) % 4 == 0
    p_values = []
    for _ in range(REPEATS):
        spread, new_spread = rng.random(90), rng.random(60)
        taxonomy = BySpread(edges=[0.3])
        groups = taxonomy.learn(Rows(noisy(spread)))
        calibration = calibrate(rng.normal(size=90) * spread, noisy(spread), groups=groups)
        assigned = taxonomy.assign(Rows(noisy(new_spread)))
        covered = calibration.interval(noisy(new_spread), groups=assigned).covers(rng.normal(size=60) * new_spread)
        rows = np.bincount(assigned.codes[region], minlength=2).tolist()
        law = covered_law(zip(rows, calibration.sizes.values(), strict=True), 0.9)
        lower, _ = tails(law, int(covered[region].sum()))
        p_values.append(lower - rng.random() * law[covered[region].sum()])
    assert kstest(p_values, "uniform").pvalue > ONE_IN_A_MILLION
