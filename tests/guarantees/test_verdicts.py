"""The verdict of `audit`: false alarms, false reassurance and missed coverages are rare, drift is found."""

from dataclasses import replace
from functools import cache
from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import beta, binom, kstest, norm

from evencover import BySpread, Rows, audit, calibrate, conformal_rank, diagnose_scores
from evencover.diagnostics import coverage_intervals
from evencover.diagnostics.coverage_tests import CalibrationPools, GroupCounts
from evencover.quantiles import level_fraction
from evencover.reproduction import verdict_rates as rates_module
from evencover.reproduction.simulation import LEVEL, seed_of
from evencover.reproduction.verdict_rates import (
    SCENARIOS,
    SITUATIONS,
    AuditOutcomes,
    audit_rates,
    guaranteed_p_values,
    situation_rates,
)
from tests.guarantees.test_diagnostics import MarginalThreshold, groups_of, max_count
from tests.synthetic import ONE_IN_A_MILLION

CalibrationCounts = coverage_intervals.CalibrationCounts
new_row_coverage = coverage_intervals.new_row_coverage
own_threshold_coverage = coverage_intervals.own_threshold_coverage
shared_threshold_coverage = coverage_intervals.shared_threshold_coverage

REPEATS = 2000
SIZES, TESTED = (80, 120, 100), (40, 60, 50)  # calibration and test rows of groups that share one threshold
OWN_SIZES, OWN_TESTED = (19, 30, 25), (10, 15, 12)  # of groups with their own thresholds
COUNTS = ("rows", "certain", "covered")
more_repeats = pytest.mark.parametrize("repeats", [400, pytest.param(4000, marks=pytest.mark.slow)])
cached_situation_rates, cached_audit_rates = cache(situation_rates), cache(audit_rates)


def bounded(share, rate, repeats):
    """Return whether a share of repeats is compatible with an event of at most this rate."""
    return share * repeats <= max_count(rate, repeats)


def rates(name, rows, *, level=0.9, groups=3, shift=0.0, repeats=400):
    return cached_situation_rates(SITUATIONS[name], level, rows, groups, shift=shift, repeats=repeats)


STUDY, LATER = "study, thresholds per group", "later rows, thresholds per group"
levels_and_groups = pytest.mark.parametrize(
    ("level", "groups"),
    [(0.9, 3), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((0.5, 3), (0.99, 3), (0.9, 10), (0.99, 10)))],
)
many_rows = pytest.mark.parametrize(
    "rows", [2000, 4000, *(pytest.param(n, marks=pytest.mark.slow) for n in (1200, 20_000))]
)


@more_repeats
@levels_and_groups
@many_rows
class TestVerdicts:
    """False alarms are rare in every situation, and so are wrong even verdicts of studies."""

    def test_of_the_even_verdicts_of_studies_at_most_5_percent_are_wrong(self, rows, level, groups, repeats):
        found = rates(STUDY, rows, level=level, groups=groups, repeats=repeats)
        n_even, n_wrong = round(found.even * repeats), round(found.false_even * repeats)
        assert n_wrong <= max_count(0.05, n_even) if n_even else n_wrong == 0

    @pytest.mark.parametrize("name", SITUATIONS)
    def test_false_alarms_are_rare(self, name, rows, level, groups, repeats):
        assert bounded(rates(name, rows, level=level, groups=groups, repeats=repeats).uneven, 0.05, repeats)


@more_repeats
@levels_and_groups
@pytest.mark.parametrize("name", list(SITUATIONS)[1:])
@pytest.mark.parametrize(
    ("rows", "direction"),
    [
        (2000, -1),
        (4000, 1),
        *(
            pytest.param(rows, direction, marks=pytest.mark.slow)
            for rows, direction in ((2000, 1), (4000, -1), *product((1200, 20_000), (-1, 1)))
        ),
    ],
)
def test_a_group_outside_the_tolerance_is_rarely_even(name, direction, rows, level, groups, repeats):
    shift = direction * (min(0.03, 0.1 * sqrt(level * (1 - level))) + 0.01)  # the default tolerance, and more
    if level + shift < 1:
        found = rates(name, rows, level=level, groups=groups, shift=shift, repeats=repeats)
        assert bounded(found.false_even, 0.05, repeats)


@pytest.mark.parametrize(("rows", "least"), [(1200, 0.05), (2000, 0.8), (4000, 0.99)])
def test_studies_of_this_size_are_found_even(rows, least):
    """At level 0.9 with three groups of the same size and half as many test rows."""
    found = rates(STUDY, rows, repeats=2000)
    assert bounded(1 - found.even, 1 - least, 2000)
    assert found.even > least


def test_calibration_rows_do_not_outvote_later_rows():
    """A group that has fallen to 0.86 would be even in most repeats if the calibration rows counted as in a study."""
    situation = SITUATIONS[LATER]
    found = rates(LATER, 4000, shift=-0.04, repeats=2000)
    trusted = situation_rates(replace(situation, later=False), 0.9, 4000, 3, repeats=200)
    assert found.even < 0.05 < found.uneven
    assert trusted.even > 0.95


def test_intervals_from_all_rows_rarely_miss():
    found = rates(STUDY, 2000, repeats=2000)
    assert bounded(found.missed_if_combined, 0.05, 2000)
    assert found.missed_if_combined > 0.01


@more_repeats
@pytest.mark.parametrize("rows", [300, pytest.param(4000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_with_one_threshold_the_verdicts_are_rarely_wrong(scenario, rows, repeats, monkeypatch):
    """For pivotal scores, and for scores whose coverage is uneven.

    True coverages from 20 000 rows have a standard error of at most 0.002. With 300 rows, the intervals are 0.1 wide.
    """
    if rows == 300:
        monkeypatch.setattr(rates_module, "_REFERENCE_ROWS", 20_000)
    repeats //= 2
    found = cached_audit_rates(scenario, rows, repeats=repeats)
    assert bounded(found.false_even, 0.05, repeats)
    assert bounded(found.missed_if_combined, 0.05, repeats)
    if scenario in ("normalised, oracle", "residual, misspecified"):
        assert bounded(found.uneven, 0.05, repeats)
        assert (found.even > 0.5) == (rows == 4000)


def test_power_grows_with_the_shift_and_with_rows():
    for sign in (-1, 1):
        uneven = [rates(LATER, 4000, shift=sign * each).uneven for each in (0.01, 0.03, 0.05)]
        assert uneven == sorted(uneven)
        assert uneven[0] < 0.2 < 0.8 < uneven[-1]
        assert rates(LATER, 2000, shift=sign * 0.05).uneven < uneven[-1] - 0.05


def test_the_first_repeats_of_the_toy_model_do_not_depend_on_their_number(monkeypatch):
    expected = audit_rates("residual, oracle", 300, repeats=60)
    monkeypatch.setattr(rates_module, "_BLOCK", 7)
    assert audit_rates("residual, oracle", 300, repeats=60) == expected


@pytest.mark.parametrize("shift", [0.0, -0.04])
@pytest.mark.parametrize("name", [STUDY, LATER, "later rows, calibration not known"])
def test_rates_are_those_of_audit(name, shift, monkeypatch):
    """The same counts, as targets and intervals."""
    seen = []
    plain = AuditOutcomes.of
    monkeypatch.setattr(AuditOutcomes, "of", lambda counts, *others: seen.append(counts) or plain(counts, *others))
    found = situation_rates(SITUATIONS[name], 0.9, 2000, 3, shift=shift, repeats=20)
    (counts,) = seen
    labels = np.repeat(np.arange(3), counts.rows[0])
    sizes = None if counts.sizes is None else dict(enumerate(counts.sizes.tolist()))
    settings = {"calibration_sizes": sizes, "split_at_random": counts.split_at_random, "level": 0.9}
    audits = []
    for covered in counts.covered:
        y = np.concatenate([np.where(np.arange(n) < x, 0.5, 2.0) for x, n in zip(covered, counts.rows[0], strict=True)])
        audits.append(audit(y, (np.zeros(len(y)), np.ones(len(y))), groups=labels, **settings))
    assert verdict_shares(found) == rates_by_full_audits(audits)


def rates_by_full_audits(audits):
    """Return the shares of the verdicts of audits."""
    found = [each.verdict for each in audits]
    return [found.count(verdict) / len(found) for verdict in ("uneven", "even", "undecided")]


def verdict_shares(rates):
    return [rates.uneven, rates.even, rates.undecided]


@pytest.mark.parametrize(("scenario", "rows"), [("normalised, oracle", 4000), ("residual, oracle", 1200)])
def test_rates_of_one_threshold_are_those_of_audit(scenario, rows, monkeypatch):
    monkeypatch.setattr(rates_module, "_REFERENCE_ROWS", 1000)  # the verdicts do not depend on the true coverage
    rng = np.random.default_rng(seed_of(0, "audit", scenario, str(rows)))
    audits, score = [], SCENARIOS[scenario].score
    for _ in range(25):
        sample, prediction = SCENARIOS[scenario].draw(rows + rows // 2, rng)
        taxonomy = BySpread(3)
        learned = taxonomy.learn(Rows(prediction[:rows]))
        diagnosis = diagnose_scores(score(sample.y[:rows], prediction[:rows]), learned, level=LEVEL)
        intervals = calibrate(sample.y[:rows], prediction[:rows], nonconformity=score).interval(prediction[rows:])
        groups = taxonomy.assign(Rows(prediction[rows:]))
        audits.append(audit(sample.y[rows:], intervals, groups=groups, diagnosis=diagnosis, split_at_random=True))
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
    errors = np.arange(1, 50) / 50
    monkeypatch.setattr(coverage_intervals, "tail_error", lambda groups: errors[:, None, None])
    every_count = np.minimum(np.arange(max(OWN_TESTED) + 1)[:, None], OWN_TESTED)
    quantiles = own_threshold_coverage(every_count, np.array(OWN_TESTED), np.array(OWN_SIZES), level).low
    ranks = np.count_nonzero(quantiles[:, covered, np.arange(3)] < truth, axis=0)
    for group in range(3):
        assert kstest((ranks[:, group] + rng.random(REPEATS)) / 50, "uniform").pvalue > ONE_IN_A_MILLION


def test_posterior_intervals_miss_jointly_in_5_percent():
    covered, truth = own_thresholds(np.random.default_rng(2))
    known = own_threshold_coverage(covered, np.array(OWN_TESTED), np.array(OWN_SIZES), LEVEL)
    low, high = known.low, known.high
    missed = int(((truth < low) | (truth > high)).any(axis=1).sum())
    assert binom.ppf(ONE_IN_A_MILLION, REPEATS, 0.045) <= missed <= max_count(0.05, REPEATS)


def test_thresholds_tested_in_turn_have_the_law_of_their_calibration_rows():
    """Whatever the test found: its rows are the calibration rows, which would count twice."""
    _, truth = own_thresholds(np.random.default_rng(10))
    sizes, ranks = np.array(OWN_SIZES), np.array([conformal_rank(n, LEVEL) for n in OWN_SIZES])
    known = own_threshold_coverage(sizes // 2, sizes, sizes, LEVEL, in_turn=True)
    np.testing.assert_allclose(known.estimate, ranks / (sizes + 1))
    missed = int(((truth < known.low) | (truth > known.high)).any(axis=1).sum())
    outside = int((np.abs(truth - LEVEL).max(axis=1) > known.all_within).sum())
    lowest, highest = binom.ppf([ONE_IN_A_MILLION, 1 - ONE_IN_A_MILLION], REPEATS, 0.05)
    assert binom.ppf(ONE_IN_A_MILLION, REPEATS, 0.045) <= missed <= max_count(0.05, REPEATS)
    assert lowest <= outside <= highest


@pytest.mark.parametrize("sizes", [(30,), (19, 30, 25), (400, 30)])
def test_the_law_of_all_new_rows_is_that_of_the_mean_of_their_thresholds(sizes):
    """Exact for one threshold; for several, ends from 10^5 draws differ by less than 0.003."""
    rng, rows = np.random.default_rng(11), np.array(sizes[::-1])
    ranks = np.array([conformal_rank(n, LEVEL) for n in sizes])
    truth = rng.beta(ranks, np.array(sizes) + 1 - ranks, size=(100_000, len(sizes))) @ (rows / rows.sum())
    low_and_high, one_sided, mean = new_row_coverage(list(zip(rows.tolist(), sizes, strict=True)), LEVEL)
    np.testing.assert_allclose(low_and_high, np.quantile(truth, [0.025, 0.975]), atol=0.003)
    np.testing.assert_allclose(one_sided, np.quantile(truth, [0.05, 0.95]), atol=0.003)
    assert mean == pytest.approx(truth.mean(), abs=0.001)
    if len(sizes) == 1:
        np.testing.assert_allclose(low_and_high, beta.ppf([0.025, 0.975], ranks, sizes[0] + 1 - ranks))
    assert new_row_coverage([(5, 8), (3, 7)], LEVEL)[2] == 1  # infinite thresholds


def test_with_ties_the_lower_ends_of_the_posterior_are_valid():
    """The upper ends are not: ties push coverage up."""
    covered, truth = own_thresholds(np.random.default_rng(3), decimals=1)
    known = own_threshold_coverage(covered, np.array(OWN_TESTED), np.array(OWN_SIZES), LEVEL)
    low, high = known.low, known.high
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


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("factors", [(1, 1, 1), (1, 1.3, 2)])
@pytest.mark.parametrize("decimals", [None, 1])
def test_combined_intervals_are_jointly_valid(factors, decimals, in_turn):
    """Of calibration and test rows; if the calibration rows were tested in turn, of the calibration rows alone."""
    covered, truth, calibration = one_threshold(factors, decimals)
    known = shared_threshold_coverage(covered, np.array(TESTED), calibration, LEVEL, in_turn=in_turn)
    low, high = known.low, known.high
    if in_turn:
        others = shared_threshold_coverage(TESTED - covered, np.array(TESTED), calibration, LEVEL, in_turn=True)
        np.testing.assert_array_equal([low, high], [others.low, others.high])
    below, above = (truth < low).any(axis=1).sum(), (truth > high).any(axis=1).sum()
    assert below <= max_count(0.025, REPEATS)
    assert above <= max_count(0.025, REPEATS)
    if decimals is None:
        assert below + above >= 0.015 * REPEATS  # not much wider than necessary


def lower_ends(n, covered):
    """Return the lower ends for one group from n calibration rows without test rows. Shape (R,)."""
    values, position = np.unique(covered, return_inverse=True)  # few, so this is fast
    none, counts = np.zeros((len(values), 1), dtype=int), values[:, None]
    calibration = CalibrationCounts(np.full_like(none, n), counts, counts)
    return shared_threshold_coverage(none, none, calibration, LEVEL).low[position, 0]


def test_rows_that_tie_with_the_threshold_do_not_raise_the_lower_ends():
    """Scores are 0, 1 or 2. The threshold is 0 only if unusually many scores are 0."""
    n, repeats = 999, 4 * REPEATS
    shares, rng = np.array([binom_share(n, 900, 0.024), 0.92, 1.0]), np.random.default_rng(5)
    drawn = rng.multinomial(n, np.diff(shares, prepend=0), size=repeats)
    distinct, position = np.unique(drawn, axis=0, return_inverse=True)
    marginals = [MarginalThreshold(np.repeat([0.0, 1.0, 2.0], each), groups_of(n), LEVEL) for each in distinct]
    truth = shares[[int(marginal.threshold) for marginal in marginals]][position]
    counts = [marginal.counts for marginal in marginals]
    certain, covered = np.array([(each.certain[0], each.covered[0]) for each in counts])[position].T
    assert np.sum(truth < lower_ends(n, certain)) <= max_count(0.025, repeats)
    assert np.sum(truth < lower_ends(n, covered)) > max_count(0.025, repeats)


def binom_share(n, k, probability):
    """Return the share for which at least k of n rows are covered with this probability."""
    return brentq(lambda share: binom.sf(k - 1, n, share) - probability, 0.01, 0.99)


def test_estimates_of_several_repeats_are_those_of_each_repeat():
    covered, _, every = one_threshold((1, 1, 1), None)
    columns, tested = [each[:8] for each in (every.rows, every.certain, every.covered)], np.array(TESTED)
    shared = shared_threshold_coverage(covered[:8], tested, CalibrationCounts(*columns), LEVEL)
    own = own_threshold_coverage(covered[:8], tested, np.array(SIZES), LEVEL)
    for repeat in (0, 7):
        alone = CalibrationCounts(*(column[repeat] for column in columns))
        pairs = (
            (shared, shared_threshold_coverage(covered[repeat], tested, alone, LEVEL)),
            (own, own_threshold_coverage(covered[repeat], tested, np.array(SIZES), LEVEL)),
        )
        for together, single in pairs:
            for name in ("low", "high", "estimate", "within", "all_within"):
                np.testing.assert_array_equal(getattr(together, name)[repeat], getattr(single, name))


def test_the_law_of_all_groups_puts_95_percent_on_the_shown_distance():
    """The true coverages of all groups lie within the distance in exactly 95 % of the repeats, by Bayes' rule."""
    covered, truth = own_thresholds(np.random.default_rng(6))
    known = own_threshold_coverage(covered, np.array(OWN_TESTED), np.array(OWN_SIZES), LEVEL)
    outside = int((np.abs(truth - LEVEL).max(axis=1) > known.all_within).sum())
    lowest, highest = binom.ppf([ONE_IN_A_MILLION, 1 - ONE_IN_A_MILLION], REPEATS, 0.05)
    assert lowest <= outside <= highest
    for group in range(3):
        outside = int((np.abs(truth[:, group] - LEVEL) > known.within[:, group]).sum())
        assert lowest <= outside <= highest


def test_the_posterior_is_wrong_for_groups_that_share_one_threshold():
    """So the tests above notice if it is used there: the guarantee is not one for these groups."""
    covered, truth, calibration = one_threshold((1, 1.3, 2), None)
    known = own_threshold_coverage(covered, np.array(TESTED), calibration.rows[0], LEVEL)
    assert ((truth < known.low) | (truth > known.high)).any(axis=1).mean() > 0.2


def drifted(coverage, repeats=1000):
    """Return covered rows and true coverages of 667 test rows a group, with 1333 calibration rows; one has drifted."""
    rng, rank = np.random.default_rng(7), conformal_rank(1333, LEVEL)
    truth = rng.beta(rank, 1334 - rank, size=(repeats, 3))
    truth[:, 2] = coverage
    return rng.binomial(667, truth), truth


def test_calibration_rows_count_only_if_no_test_rejects():
    """Without this check, nearly all intervals would miss the coverage after a drift."""
    checked = rates(LATER, 4000, shift=0.85 - LEVEL, repeats=1000)
    covered, truth = drifted(0.85)
    known = own_threshold_coverage(covered, np.full(3, 667), np.full(3, 1333), LEVEL)
    unchecked_misses = ((truth < known.low) | (truth > known.high)).any(axis=1).mean()
    assert checked.uneven > 0.8
    assert checked.missed < 0.3 < 0.9 < unchecked_misses


def test_false_alarms_are_noticed_if_the_tests_ignore_the_calibration():
    """Almost exact thresholds would have a count that is nearly binomial."""
    rank, repeats = conformal_rank(1333, LEVEL), 1000
    truth = np.random.default_rng(8).beta(rank, 1334 - rank, size=(repeats, 3))
    rows = np.full((repeats, 3), 667)
    covered = np.random.default_rng(9).binomial(rows, truth)
    for known, valid in ((1333, True), (10**6 - 1, False)):
        pools = CalibrationPools(level_fraction(LEVEL), (None,))
        adjusted = guaranteed_p_values(GroupCounts(rows, covered, pools, sizes=np.full(3, known)), known)
        assert bounded((adjusted < 0.05).any(axis=1).mean(), 0.05, repeats) == valid
