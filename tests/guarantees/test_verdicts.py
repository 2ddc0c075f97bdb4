"""The verdict of `audit`: false alarms, false reassurance and missed coverages are rare, drift is found."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, kstest, norm

from evencover import BySpread, Rows, audit, calibrate, diagnose_scores
from evencover.diagnostics import _coverage_intervals
from evencover.diagnostics._coverage_intervals import CalibrationCounts, combined_intervals, posterior_intervals
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.quantiles import conformal_rank
from evencover.reproduction import audit_rates as rates_module
from evencover.reproduction.audit_rates import (
    DRIFTED_COVERAGES,
    DRIFTS,
    NO_DRIFT,
    AuditCounts,
    GuaranteedCounts,
    Outcomes,
    audit_rates,
    group_threshold_rates,
)
from evencover.reproduction.simulation import LEVEL, seed_of
from evencover.reproduction.verdict_rates import SCENARIOS
from tests.guarantees.test_diagnostics import groups_of, max_count
from tests.synthetic import ONE_IN_A_MILLION

REPEATS = 2000
SIZES, TESTED = (80, 120, 100), (40, 60, 50)  # calibration and test rows of groups that share one threshold
OWN_SIZES, OWN_TESTED = (19, 30, 25), (10, 15, 12)  # of groups with their own thresholds
COUNTS = ("rows", "certain", "covered")
more_repeats = pytest.mark.parametrize("repeats", [400, pytest.param(4000, marks=pytest.mark.slow)])
cached_group_threshold_rates, cached_audit_rates = cache(group_threshold_rates), cache(audit_rates)


def bounded(share, rate, repeats):
    """Return whether a share of repeats is compatible with an event of at most this rate."""
    return share * repeats <= max_count(rate, repeats)


@more_repeats
@pytest.mark.parametrize("rows", [300, 2000, 4000])
class TestThresholdsPerGroup:
    """Without drift, coverage is as guaranteed."""

    def test_false_alarms_are_rare(self, rows, repeats):
        found = cached_group_threshold_rates(rows, repeats=repeats)[NO_DRIFT]
        assert bounded(found.uneven, 0.05, repeats)
        assert found.uneven > 0

    def test_even_is_rarely_wrong(self, rows, repeats):
        found = cached_group_threshold_rates(rows, repeats=repeats)[NO_DRIFT]
        assert bounded(found.false_even, 0.05, repeats)
        assert found.even > 0.3 if rows >= 2000 else found.even == 0

    def test_intervals_from_all_rows_rarely_miss(self, rows, repeats):
        found = cached_group_threshold_rates(rows, repeats=repeats)[NO_DRIFT]
        assert bounded(found.missed_if_combined, 0.05, repeats)
        assert found.missed_if_combined > 0.01


@more_repeats
@pytest.mark.parametrize("rows", [300, pytest.param(4000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_with_one_threshold_the_verdicts_are_rarely_wrong(scenario, rows, repeats):
    """For pivotal scores, and for scores whose coverage is uneven."""
    repeats //= 2
    found = cached_audit_rates(scenario, rows, repeats=repeats)
    assert bounded(found.false_even, 0.05, repeats)
    assert bounded(found.missed_if_combined, 0.05, repeats)
    if scenario in ("normalised, oracle", "residual, misspecified"):
        assert bounded(found.uneven, 0.05, repeats)
        assert (found.even > 0.5) == (rows == 4000)


def test_power_grows_with_drift_and_with_rows():
    few, many = (cached_group_threshold_rates(rows, repeats=400) for rows in (2000, 4000))
    for groups in DRIFTS:
        names = [f"{groups}, {coverage:g}" for coverage in DRIFTED_COVERAGES]
        uneven = [many[name].uneven for name in names]
        assert uneven == sorted(uneven)
        assert uneven[0] < 0.2 < 0.99 < uneven[-1]
        assert few[names[-3]].uneven < many[names[-3]].uneven - 0.05


def test_the_first_repeats_do_not_depend_on_their_number(monkeypatch):
    expected = group_threshold_rates(300, repeats=60), audit_rates("residual, oracle", 300, repeats=60)
    monkeypatch.setattr(rates_module, "_BLOCK", 7)
    assert (group_threshold_rates(300, repeats=60), audit_rates("residual, oracle", 300, repeats=60)) == expected


def rates_by_full_audits(audits):
    """Return the shares of the verdicts of audits."""
    found = [each.verdict for each in audits]
    return [found.count(verdict) / len(found) for verdict in ("uneven", "even", "undecided")]


def verdict_shares(rates):
    return [rates.uneven, rates.even, rates.undecided]


@pytest.mark.parametrize(("drift", "groups", "coverage"), [(NO_DRIFT, [], 1), ("one group, 0.85", [2], 0.85)])
@pytest.mark.parametrize("rows", [300, 2000])
def test_rates_of_thresholds_per_group_are_those_of_audit(rows, drift, groups, coverage):
    rng = np.random.default_rng(seed_of(0, "thresholds per group", str(rows)))
    scenario, audits = SCENARIOS["normalised, oracle"], []
    for _ in range(25):
        sample, prediction = scenario.draw(rows + rows // 2, rng)
        taxonomy = BySpread(3)
        learned = taxonomy.learn(Rows(prediction[:rows]))
        calibration = calibrate(sample.y[:rows], prediction[:rows], nonconformity=scenario.score, groups=learned)
        assigned = taxonomy.assign(Rows(prediction[rows:]))
        factors = np.ones(3)
        factors[groups] = calibration.threshold(LEVEL)[groups] / norm.ppf((1 + coverage) / 2)
        y = sample.mean[rows:] + (sample.y - sample.mean)[rows:] * factors[assigned.codes]
        audits.append(audit(y, calibration.interval(prediction[rows:], groups=assigned, level=LEVEL)))
    found = group_threshold_rates(rows, repeats=25)[drift]
    assert verdict_shares(found) == rates_by_full_audits(audits)


@pytest.mark.parametrize(("scenario", "rows"), [("normalised, oracle", 4000), ("residual, oracle", 1200)])
def test_rates_of_one_threshold_are_those_of_audit(scenario, rows):
    rng = np.random.default_rng(seed_of(0, "audit", scenario, str(rows)))
    audits, score = [], SCENARIOS[scenario].score
    for _ in range(25):
        sample, prediction = SCENARIOS[scenario].draw(rows + rows // 2, rng)
        taxonomy = BySpread(3)
        learned = taxonomy.learn(Rows(prediction[:rows]))
        diagnosis = diagnose_scores(score(sample.y[:rows], prediction[:rows]), learned, level=LEVEL)
        intervals = calibrate(sample.y[:rows], prediction[:rows], nonconformity=score).interval(prediction[rows:])
        groups = taxonomy.assign(Rows(prediction[rows:]))
        audits.append(audit(sample.y[rows:], intervals, groups=groups, diagnosis=diagnosis))
    assert verdict_shares(audit_rates(scenario, rows, repeats=25)) == rates_by_full_audits(audits)


def own_thresholds(rng, level=LEVEL, decimals=None):
    """Return covered test rows and true coverages for groups of uniform scores with their own thresholds. (R, 3)."""
    columns = []
    for n, m in zip(OWN_SIZES, OWN_TESTED, strict=True):
        scores = rng.random((REPEATS, n))
        scores = scores if decimals is None else np.ceil(scores * 10**decimals) / 10**decimals
        truth = np.sort(scores, axis=1)[:, conformal_rank(n, level) - 1]
        columns.append((rng.binomial(m, truth), truth))
    covered, truth = (np.stack(each, axis=1) for each in zip(*columns, strict=True))
    return covered, truth


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_posterior_is_the_exact_distribution_of_the_coverage(level, monkeypatch):
    """The rank of the true coverage among 49 quantiles is uniform."""
    rng = np.random.default_rng(1)
    covered, truth = own_thresholds(rng, level)
    ranks = np.zeros_like(truth)
    for error in np.arange(1, 50) / 50:
        monkeypatch.setattr(_coverage_intervals, "tail_error", lambda groups, error=error: np.asarray(error))
        ranks += posterior_intervals(covered, np.array(OWN_TESTED), np.array(OWN_SIZES), level)[0] < truth
    for group in range(3):
        assert kstest((ranks[:, group] + rng.random(REPEATS)) / 50, "uniform").pvalue > ONE_IN_A_MILLION


def test_posterior_intervals_miss_jointly_in_5_percent():
    covered, truth = own_thresholds(np.random.default_rng(2))
    low, high, _ = posterior_intervals(covered, np.array(OWN_TESTED), np.array(OWN_SIZES), LEVEL)
    missed = int(((truth < low) | (truth > high)).any(axis=1).sum())
    assert binom.ppf(ONE_IN_A_MILLION, REPEATS, 0.045) <= missed <= max_count(0.05, REPEATS)


def test_with_ties_the_lower_ends_of_the_posterior_are_valid():
    """The upper ends are not: ties push coverage up."""
    covered, truth = own_thresholds(np.random.default_rng(3), decimals=1)
    low, high, _ = posterior_intervals(covered, np.array(OWN_TESTED), np.array(OWN_SIZES), LEVEL)
    assert (truth < low).any(axis=1).sum() <= max_count(0.025, REPEATS)
    assert (truth > high).any(axis=1).sum() > max_count(0.025, REPEATS)


@cache
def one_threshold(factors, decimals):
    """Return covered test rows, true coverages and calibration counts of groups that share one threshold. (R, 3)."""
    rng, groups, factors = np.random.default_rng(4), groups_of(*SIZES), np.array(factors, dtype=float)
    counts, truth = [], []
    for _ in range(REPEATS):
        scores = np.abs(rng.normal(size=len(groups))) * factors[groups.codes]
        scores = scores if decimals is None else np.ceil(scores * 10**decimals) / 10**decimals
        marginal = MarginalThreshold(scores, groups, LEVEL)
        counts.append(marginal.counts)
        truth.append(2 * norm.cdf(marginal.threshold / factors) - 1)
    calibration = CalibrationCounts(*(np.stack([getattr(each, name) for each in counts]) for name in COUNTS))
    return rng.binomial(TESTED, truth), np.stack(truth), calibration


@pytest.mark.parametrize("factors", [(1, 1, 1), (1, 1.3, 2)])
@pytest.mark.parametrize("decimals", [None, 1])
def test_combined_intervals_are_jointly_valid(factors, decimals):
    covered, truth, calibration = one_threshold(factors, decimals)
    low, high, _ = combined_intervals(covered, np.array(TESTED), calibration)
    below, above = (truth < low).any(axis=1).sum(), (truth > high).any(axis=1).sum()
    assert below <= max_count(0.025, REPEATS)
    assert above <= max_count(0.025, REPEATS)
    if decimals is None:
        assert below + above >= 0.015 * REPEATS  # not much wider than necessary


def lower_ends(n, covered):
    """Return the lower ends for one group from n calibration rows without test rows. Shape (R,)."""
    values, position = np.unique(covered, return_inverse=True)  # few, so this is fast
    none, counts = np.zeros((len(values), 1), dtype=int), values[:, None]
    return combined_intervals(none, none, CalibrationCounts(np.full_like(none, n), counts, counts))[0][position, 0]


def test_rows_that_tie_with_the_threshold_do_not_raise_the_lower_ends():
    """Scores are 0, 1 or 2. The threshold is 0 only if unusually many scores are 0."""
    n, repeats = 999, 4 * REPEATS
    shares, rng = np.array([binom_share(n, 900, 0.024), 0.92, 1.0]), np.random.default_rng(5)
    marginals = [
        MarginalThreshold(np.searchsorted(shares, rng.random(n)).astype(float), groups_of(n), LEVEL)
        for _ in range(repeats)
    ]
    truth = shares[[int(marginal.threshold) for marginal in marginals]]
    certain, covered = np.array([(each.certain[0], each.covered[0]) for each in (made.counts for made in marginals)]).T
    assert np.sum(truth < lower_ends(n, certain)) <= max_count(0.025, repeats)
    assert np.sum(truth < lower_ends(n, covered)) > max_count(0.025, repeats)


def binom_share(n, k, probability):
    """Return the share for which at least k of n rows are covered with this probability."""
    return brentq(lambda share: binom.sf(k - 1, n, share) - probability, 0.01, 0.99)


def test_combined_intervals_of_several_repeats_are_those_of_each_repeat():
    covered, _, every = one_threshold((1, 1, 1), None)
    columns = [each[:8] for each in (every.rows, every.certain, every.covered)]
    all_ends = combined_intervals(covered[:8], np.array(TESTED), CalibrationCounts(*columns))
    for repeat in (0, 7):
        own = CalibrationCounts(*(column[repeat] for column in columns))
        for ends, expected in zip(combined_intervals(covered[repeat], np.array(TESTED), own), all_ends, strict=True):
            np.testing.assert_array_equal(ends, expected[repeat])


def test_the_posterior_is_wrong_for_groups_that_share_one_threshold():
    """So the tests above notice if it is used there: the guarantee is not one for these groups."""
    covered, truth, calibration = one_threshold((1, 1.3, 2), None)
    low, high, _ = posterior_intervals(covered, np.array(TESTED), calibration.rows[0], LEVEL)
    assert ((truth < low) | (truth > high)).any(axis=1).mean() > 0.2


def drifted(coverage, repeats=1000):
    """Return counts of thresholds per group, 1333 calibration and 667 test rows each; the last group has drifted."""
    rng, rows = np.random.default_rng(7), np.full((repeats, 3), 667)
    sizes = np.full(3, 1333)
    rank = conformal_rank(1333, LEVEL)
    truth = rng.beta(rank, 1334 - rank, size=(repeats, 3))
    truth[:, 2] = coverage
    return AuditCounts(rows, rng.binomial(rows, truth), truth, sizes)


def test_calibration_rows_count_only_if_no_test_rejects():
    """Without this check, nearly all intervals would miss the coverage after a drift."""
    counts = drifted(0.85)
    guaranteed = GuaranteedCounts.of(counts.rows, counts.sizes, one_threshold=False)
    checked = Outcomes.rates([Outcomes.of(counts, guaranteed)])
    low, high = counts.intervals(np.ones(len(counts.rows), dtype=bool))
    unchecked_misses = ((counts.truth < low) | (counts.truth > high)).any(axis=1).mean()
    assert checked.uneven > 0.8
    assert checked.missed < 0.3 < 0.9 < unchecked_misses


def test_false_alarms_are_noticed_if_the_tests_ignore_the_calibration():
    """Almost exact thresholds would have a count that is nearly binomial."""
    counts = drifted(0.9)
    rank = conformal_rank(1333, LEVEL)
    counts = replace(counts, truth=np.random.default_rng(8).beta(rank, 1334 - rank, size=counts.truth.shape))
    counts = replace(counts, covered=np.random.default_rng(9).binomial(counts.rows, counts.truth))
    repeats = len(counts.rows)
    for known, valid in ((counts.sizes, True), (np.full(3, 10**6 - 1), False)):
        adjusted = GuaranteedCounts.of(counts.rows, known, one_threshold=False).p_values(counts.covered)
        assert bounded((adjusted < 0.05).any(axis=1).mean(), 0.05, repeats) == valid
