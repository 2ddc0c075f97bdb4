"""Rows that take turns: the thresholds of each half test the other half, and all of them calibrate the model."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, hypergeom
from sklearn.frozen import FrozenEstimator

from evencover import (
    Bounded,
    ByFeature,
    BySpread,
    ConformalRegressor,
    Marginal,
    Normalized,
    Residual,
    TooFewRowsWarning,
    conformal_rank,
    diagnose,
)
from evencover.diagnostics.audit_counts import RowTotals
from evencover.diagnostics.coverage_intervals import binomial_coverage, own_threshold_coverage
from evencover.diagnostics.coverage_tests import CalibrationPools
from evencover.diagnostics.exact_tests import stratified_p_values
from evencover.diagnostics.sample_sizes import rows_needed
from evencover.display.text import percent_text
from evencover.model_selection import Part
from evencover.studies import Plan
from evencover.studies.evidence import Evidence, Turns, audit_taxonomy
from tests.guarantees.test_diagnostics import max_count
from tests.synthetic import Oracle

more_repeats = pytest.mark.parametrize("repeats", [60, pytest.param(2000, marks=pytest.mark.slow)])


def rows_of(rng, n, uneven=0.0):
    """Return features and targets; the noise of a binary feature is larger than the spread says, if it is uneven."""
    X = np.column_stack([rng.integers(0, 2, n), np.exp(rng.uniform(-1, 1, n)), rng.normal(size=n)])
    return X, X[:, 2] + X[:, 1] * (1 + uneven * X[:, 0]) * rng.normal(size=n)


def evidence_of(X, y, taxonomy, rng, score=None):
    """Return the evidence of a model that predicts the true center and spread, as a study has it."""
    score = Normalized() if score is None else score
    regressor = ConformalRegressor(FrozenEstimator(Oracle().fit(X, y)), nonconformity=score, taxonomy=taxonomy)
    return evidence_in_halves(regressor.fit(X, y), X, y, rng.permutation(len(y)) % 2)


def evidence_in_halves(regressor, X, y, halves):
    """Return the evidence of a calibrated model, whose rows are tested in these halves."""
    positions = np.arange(len(y))
    turns, rows = Turns.of_halves(regressor, halves, positions), regressor.calibration_rows_
    groups = audit_taxonomy(regressor).assign(rows)
    return Evidence("turns", regressor, positions[:0], positions, Part(X, y, positions), rows, groups, turns=turns)


def audit_of(evidence, level=0.9):
    diagnosis = diagnose(evidence.regressor, taxonomy=audit_taxonomy(evidence.regressor), level=level)
    return evidence.audit(evidence.intervals(level), diagnosis, Plan(level=level))


@pytest.mark.parametrize("taxonomy", [Marginal(), BySpread(2)])
def test_each_row_is_tested_by_the_thresholds_of_the_other_half(taxonomy):
    rng = np.random.default_rng(0)
    X, y = rows_of(rng, 80)
    halves = rng.permutation(80) % 2
    regressor = ConformalRegressor(FrozenEstimator(Oracle().fit(X, y)), nonconformity=Normalized(), taxonomy=taxonomy)
    regressor.fit(X, y)
    turns = Turns.of_halves(regressor, halves, np.arange(80))
    intervals = turns.intervals(0.9)
    for half in (0, 1):
        own, other = halves == half, halves != half
        alone = ConformalRegressor(regressor.estimator, nonconformity=Normalized(), taxonomy=taxonomy)
        alone.fit(X[other], y[other])
        expected = alone.predict_interval(X[own], level=0.9)
        np.testing.assert_array_equal(np.asarray(intervals[own]), np.asarray(expected))
    assert regressor.guarantee_.sizes == turns.guarantee.sizes  # the model itself keeps all of its rows
    assert len(np.unique(turns.strata)) == 2 * len(regressor.calibration_.labels)


def test_half_of_the_rows_may_be_too_few_for_a_finite_threshold():
    """The warning is about the model if its intervals are infinite, too."""
    rng = np.random.default_rng(6)
    evidence = evidence_of(*rows_of(rng, 16), Marginal(), rng)
    with pytest.warns(TooFewRowsWarning, match="those of the model are finite"):
        assert np.isinf(evidence.intervals(0.9).width).all()
    assert np.isfinite(evidence.regressor.predict_interval(evidence.rows, level=0.9).width).all()
    with pytest.warns(TooFewRowsWarning, match="level 0.95 needs 19 rows in each group; group 'all' has 16"):
        evidence.intervals(0.95)


def test_the_warning_names_all_groups_with_few_rows():
    """Also those of which one half has no rows to test."""
    rng = np.random.default_rng(8)
    X, y = rows_of(rng, 120)
    X[:, 0] = np.maximum(np.arange(120) - 110, 0)  # nine groups of one row each
    evidence = evidence_of(X, y, ByFeature(0), rng)
    with pytest.warns(TooFewRowsWarning) as caught:
        evidence.intervals(0.9)
    (message,) = (str(each.message) for each in caught)
    assert "group 1.0 has 1" in message
    assert "and 4 more groups have too few" in message


def test_rows_without_finite_intervals_in_turn_are_counted_and_are_not_too_wide():
    """Widths are those of the model, which has finite intervals; that infinite ones cover every target says nothing."""
    rng = np.random.default_rng(6)
    X, y = rows_of(rng, 36)
    evidence = evidence_of(X, y, ByFeature(0), rng)
    with pytest.warns(TooFewRowsWarning, match="those of the model are finite"):
        intervals, found = evidence.intervals(0.9), audit_of(evidence)
    untested = np.isinf(intervals.width)
    assert 0 < found.n_untested == np.count_nonzero(untested) < 36
    own = evidence.regressor.predict_interval(evidence.rows, level=0.9)
    assert (found.n_infinite, found.quality.n_infinite) == (0, 0)
    assert found.overall.width == found.quality.mean_width == pytest.approx(own.width.mean())
    assert found.overall.coverage == found.quality.coverage == np.mean(intervals.covers(y)[~untested])
    assert np.isfinite(found.overall.score)
    assert found.overall.score == found.quality.interval_score
    assert found.headline.startswith(
        f"About nine in ten were asked. {found.n_untested} of 36 held-out rows cannot be tested: half of the rows of "
        f"their group are too few for finite intervals. Of the others, {percent_text(found.overall.coverage)} are "
        "covered. For new rows like these, very likely between "
    )


def test_rows_that_cannot_be_tested_show_nothing():
    """Infinite intervals cover them. If test rows alone count, lower ends count them as missed."""
    rng = np.random.default_rng(7)
    evidence = evidence_of(*rows_of(rng, 330), ByFeature(0), rng)
    with pytest.warns(TooFewRowsWarning, match="those of the model are finite"):
        found = audit_of(evidence, 0.99)
    assert found.n_untested == found.overall.rows == 330
    assert np.isnan([found.overall.coverage, found.quality.coverage, *(row.coverage for row in found.table)]).all()
    assert "not tested" in str(found)
    alone = binomial_coverage(np.array([165]), np.array([165]), 0.99, untested=np.array([165]))
    assert (alone.low[0], alone.high[0], alone.within[0]) == (0, 1, 0.99)
    assert np.isnan(alone.estimate[0])


def test_infinite_thresholds_of_bounded_targets_are_not_tested():
    """Limits make their intervals finite, which still hold every target."""
    rng = np.random.default_rng(9)
    X, y = rows_of(rng, 16)
    score = Bounded(Normalized(), y_min=-100.0, y_max=100.0)
    with pytest.warns(TooFewRowsWarning, match="those of the model are finite"):
        found = audit_of(evidence_of(X, y, Marginal(), rng, score))
    assert (found.n_untested, found.n_infinite) == (16, 0)
    assert np.isnan(found.overall.coverage)
    assert found.overall.width < 100


def test_a_group_in_one_half_only_is_not_tested():
    """The model has a threshold for it. One from the rows of other groups would not test this threshold."""
    rng = np.random.default_rng(10)
    X, y = rows_of(rng, 120)
    X[:, 0] = np.arange(120) < 12
    X = X[rng.permutation(120)]
    regressor = ConformalRegressor(
        FrozenEstimator(Oracle().fit(X, y)), nonconformity=Normalized(), taxonomy=ByFeature(0)
    )
    halves = np.where(X[:, 0] == 1, 0, np.arange(120) % 2)
    evidence = evidence_in_halves(regressor.fit(X, y), X, y, halves)
    intervals, found = evidence.intervals(0.9), audit_of(evidence)
    np.testing.assert_array_equal(np.isinf(intervals.width), X[:, 0] == 1)
    assert found.n_untested == 12


def test_upper_ends_with_ties_hold_for_the_threshold_of_all_rows():
    """Ties raise its coverage. Thresholds of halves can be smaller and cover fewer of the rows, so these do not count.

    Of the scores, 88 % are 0 and the others 1: the threshold is 1 in most samples, and then covers all.
    """
    rng, repeats, n = np.random.default_rng(11), 20_000, 60
    for share in (0.8, 0.88, 0.93):
        zeros = rng.binomial(n, share, repeats)
        is_one = zeros < conformal_rank(n, 0.9)
        covered, coverage = np.where(is_one, n, zeros), np.where(is_one, 1.0, share)
        known = own_threshold_coverage(
            covered[:, None], np.full((repeats, 1), n), np.array([n]), 0.9, raised=True, in_turn=True
        )
        assert (coverage > known.high[:, 0]).sum() <= max_count(0.025, repeats)
        assert (coverage < known.low[:, 0]).sum() <= max_count(0.025, repeats)


def test_ends_and_estimates_with_ties_are_those_of_the_threshold_of_all_rows():
    rng = np.random.default_rng(12)
    X = np.column_stack([np.zeros(60), np.ones(60), np.zeros(60)])
    y = np.where(rng.permutation(60) < 53, 0.0, 1.0)  # the rank is 55, in halves of 30 rows 28
    halves = (np.arange(60) + (y == 1) * np.arange(60)) % 2
    regressor = ConformalRegressor(FrozenEstimator(Oracle().fit(X, y)), nonconformity=Residual()).fit(X, y)
    evidence = evidence_in_halves(regressor, X, y, halves)
    in_turn, own = evidence.intervals(0.9), evidence.regressor.predict_interval(evidence.rows, level=0.9)
    assert in_turn.covers(y).sum() < own.covers(y).sum() == 60
    audited = audit_of(evidence)
    for row in (*audited.table, audited.overall):
        assert (row.high, row.estimate, row.coverage) == (1.0, 60 / 61, in_turn.covers(y).mean())
    assert audited.raised


def test_more_targets_strictly_inside_are_no_over_coverage():
    """Whole numbers are often on the bounds of narrow intervals. Both counts must be larger than those of others."""
    strata = {0: RowTotals(rows=200, covered=180, inside=80)}
    pools = CalibrationPools(Fraction(9, 10), (None,), strata=strata)

    def p_over(covered, inside):
        return pools.audit(
            "group", RowTotals(rows=50, covered=covered, inside=inside, by_stratum=Counter([0] * 50))
        ).p_over

    law_of_covered, law_inside = hypergeom(200, 180, 50), hypergeom(200, 80, 50)
    assert p_over(45, 40) == pytest.approx(law_of_covered.sf(44))
    assert p_over(50, 22) == pytest.approx(law_inside.sf(21))
    assert p_over(50, 22) > 0.1 > law_of_covered.sf(49)


def test_the_p_values_are_those_of_the_sum_of_hypergeometric_counts():
    strata = [(3, 10, 8), (2, 7, 7), (5, 12, 9)]
    laws = [hypergeom(n, x, m) for m, n, x in strata]
    every = list(product(*(range(m + 1) for m, _, _ in strata)))
    probabilities = np.array([np.prod([law.pmf(k) for law, k in zip(laws, each, strict=True)]) for each in every])
    totals = np.array([sum(each) for each in every])
    for covered in range(6, 11):
        under, over = stratified_p_values(strata, covered)
        np.testing.assert_allclose(under, probabilities[totals <= covered].sum())
        np.testing.assert_allclose(over, probabilities[totals >= covered].sum())
    assert np.isnan(stratified_p_values([(10, 10, 8), (0, 7, 6)], 8)).all()


def test_p_values_of_rows_that_take_turns_are_valid():
    """With the law of separate test rows, the total would never reject, although groups do as often as they should."""
    rng, repeats, n = np.random.default_rng(1), 4000, 30
    scores = rng.random((repeats, 2, n))
    thresholds = np.sort(scores, axis=2)[:, ::-1, 24, None]  # of the other half
    covered = scores <= thresholds
    inside = covered[:, :, :12]
    strata = [[(12, n, int(x)) for x in each] for each in covered.sum(axis=2)]
    p_values = np.array([stratified_p_values(*each) for each in zip(strata, inside.sum(axis=(1, 2)), strict=True)])
    for share in (0.01, 0.05, 0.2):
        assert ((p_values <= share).sum(axis=0) <= max_count(share, repeats)).all()
    assert (p_values[:, 0] <= 0.2).mean() > 0.08  # not much larger than necessary
    halves = covered.sum(axis=2)
    assert np.corrcoef(halves.T)[0, 1] < -0.5


@more_repeats
def test_false_alarms_about_groups_and_regions_are_rare(repeats):
    rng = np.random.default_rng(2)
    found = [audit_of(evidence_of(*rows_of(rng, 150), Marginal(), rng)) for _ in range(repeats)]
    assert sum(each.verdict == "uneven" for each in found) <= max_count(0.05, repeats)
    assert sum(each.worst_region.p_under <= 0.1 for each in found) <= max_count(0.1, repeats)
    assert all(np.isnan(each.overall.adjusted) for each in found)


def test_uneven_coverage_of_one_threshold_is_found():
    """In groups that the audit looks at, and in a region that it finds."""
    rng = np.random.default_rng(3)
    audits = [audit_of(evidence_of(*rows_of(rng, 600, uneven=1.5), Marginal(), rng)) for _ in range(5)]
    assert [each.verdict for each in audits] == ["uneven"] * 5
    assert all(each.region_rule for each in audits)


def test_rows_that_were_searched_do_not_test_the_region():
    """The region is compared with the other rows of the second half: in the first, it was chosen for its misses."""
    rng = np.random.default_rng(4)
    evidence = evidence_of(*rows_of(rng, 200), Marginal(), rng)
    found = audit_of(evidence)
    covered, strata, x = evidence.intervals(0.9).covers(evidence.test.y), evidence.turns.strata, evidence.test.X
    second = np.random.default_rng(Plan().seed).permutation(200)[100:]
    assert found.region_rule == "column 2 <= -0.64"
    inside = second[x[second, 2] <= -0.64]
    pairs = [(np.count_nonzero(strata[inside] == each), second[strata[second] == each]) for each in (0, 1)]
    expected = stratified_p_values([(m, len(rows), covered[rows].sum()) for m, rows in pairs], covered[inside].sum())
    assert found.worst_region.rows == len(inside)
    assert (found.worst_region.p_under, found.worst_region.p_over) == expected


def test_groups_with_thresholds_of_their_own_have_their_law_and_no_test():
    """Beta(k, n + 1 − k) for all of them; 570 rows in each of three groups put all within 0.03, as the docs say."""
    rng = np.random.default_rng(5)
    X, y = rows_of(rng, 3 * 571)
    audit = audit_of(evidence_of(X, y, BySpread(3), rng))
    assert audit.evidence == "calibration rows"
    assert all(np.isnan([row.p_under, row.p_over, row.adjusted]).all() for row in audit.table)
    n = round(np.mean([row.rows for row in audit.table])) - 1  # the upper edge does not calibrate its bin
    k = np.ceil((n + 1) * 0.9)
    np.testing.assert_allclose([row.low for row in audit.table], beta.ppf(0.025 / 3, k, n + 1 - k), atol=2e-3)
    assert audit.verdict == "even"
    assert audit.shown_within == pytest.approx(0.03, abs=5e-4)
    assert abs(rows_needed(0.9, 0.03, 0.95 ** (1 / 3)) - n) < 20
