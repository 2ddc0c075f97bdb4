"""`diagnose`: expected coverage of one threshold in each group, tests, verdict and advice."""

from dataclasses import dataclass, replace
from math import ceil, sqrt

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover import (
    Bounded,
    ByFeature,
    ByPrediction,
    BySpread,
    ByTarget,
    ConformalRegressor,
    IntervalDistance,
    Marginal,
    Normalized,
    Prediction,
    Residual,
    Rows,
    Standardized,
    audit,
    conformal_quantile,
    diagnose,
    diagnose_scores,
)
from evencover.diagnostics.diagnosis import at_level
from evencover.diagnostics.verdicts import explained_by_bounds, verdict
from evencover.groups import Groups
from evencover.model_selection import IntervalScorer
from evencover.models import WithSpread
from evencover.synthetic import QuadraticVariance, heteroskedastic, misspecified, toy
from tests.coverage_laws import clopper_pearson_lower, holm
from tests.synthetic import ONE_IN_A_MILLION, Oracle, draw


@dataclass(frozen=True)
class Group:
    group: str
    rows: int
    coverage: float
    low: float
    high: float
    adjusted: float = 1.0
    within: float = 0.02
    inside_low: float = None
    inside: float = None

    def __post_init__(self):
        for name, other in (("inside_low", self.low), ("inside", self.coverage)):
            object.__setattr__(self, name, other if getattr(self, name) is None else getattr(self, name))


row = Group
ORACLE = Oracle().fit(np.zeros((1, 3)), None)


def toy_scores(score, n, *changes, seed=0):
    """Return the scores of the toy model, their groups and the spread."""
    sample = toy().sample(n, seed=seed)
    prediction = misspecified(sample.oracle(), *changes, seed=seed) if changes else sample.oracle()
    return score(sample.y, prediction), BySpread(3).learn(Rows(prediction)), prediction.spread


class ByCodes(ByFeature):
    """Two groups by a column with their numbers; rows with -1 have no group."""

    def learn(self, rows):
        return Groups(rows.X[:, self.column].astype(int), ("a", "b"))


def calibrated(nonconformity=None, taxonomy=None, n=3000, seed=0):
    """Return a calibrated oracle for data of `draw`, with noise in proportion to the spread."""
    rng = np.random.default_rng(seed)
    rows = draw(rng, n, feature=np.zeros(n, dtype=int))
    model = ConformalRegressor(FrozenEstimator(ORACLE), nonconformity=nonconformity, taxonomy=taxonomy)
    return model.fit(rows.X, rows.y)


@pytest.mark.parametrize(
    ("score", "changes", "expected"),
    [
        (Residual(), (), "uneven"),
        (Normalized(), (), "even"),
        (Residual(), (QuadraticVariance(),), "even"),
        (Normalized(), (QuadraticVariance(),), "uneven"),
    ],
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_papers_toy_model(score, changes, expected, seed):
    """The residual score is uneven and the normalised score even; with the wrong variance it is reversed."""
    scores, groups, spread = toy_scores(score, 12_000, *changes, seed=seed)
    found = diagnose_scores(scores, groups, spread=spread, tolerance=0.02)
    assert found.verdict == expected
    assert f"Verdict: {expected}." in str(found)
    assert expected in repr(found)


def test_the_table_counts_scores_up_to_the_threshold():
    scores = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0])
    labels = np.array(["b", "a", "b", "a", "b", "a", "a", "b", "a", "b", "a"])
    found = diagnose_scores(scores, labels, level=0.5)
    assert found.threshold == conformal_quantile(scores, 0.5) == 4.0
    assert [(row.group, row.rows, row.coverage) for row in found.table] == [("a", 6, 0.5), ("b", 5, 0.6)]
    assert [row.threshold for row in found.table] == [5.0, 4.0]
    assert {label: each.tolist() for label, each in found.scores.items()} == {
        "a": [1.0, 1.0, 9.0, 2.0, 5.0, 5.0],
        "b": [3.0, 4.0, 5.0, 6.0, 3.0],
    }
    assert found.null_hypothesis == "scores do not depend on the group"


def test_with_ties_the_lower_bound_counts_rows_of_other_groups_first():
    """46 scores of `a` lie below the threshold, none on it; of the 50 of `b`, all on it, only 10 are needed."""
    scores = np.append(np.arange(50.0), np.full(50, 45.5))
    found = diagnose_scores(scores, np.repeat(["a", "b"], 50), level=0.55)
    assert found.threshold == 45.5
    assert [row.coverage for row in found.table] == [0.92, 1.0]
    np.testing.assert_allclose(
        [row.low for row in found.table], [clopper_pearson_lower(46, 50, 2), clopper_pearson_lower(10, 50, 2)]
    )


def test_the_joint_test_of_two_groups_is_fishers_exact_test():
    """For a 2 × 2 table with equal margins, the squared deviations order the tables as Fisher's exact test does."""
    from scipy.stats import fisher_exact

    scores = np.arange(40.0)
    labels = np.where((scores < 20) == (np.arange(40) % 4 > 0), "a", "b")
    found = diagnose_scores(scores, labels, level=0.5)
    a, b = (round(row.coverage * row.rows) for row in found.table)
    expected = fisher_exact([[a, 20 - a], [b, 20 - b]]).pvalue
    np.testing.assert_allclose(found.joint_p_value, expected)


def test_the_same_seed_gives_the_same_diagnosis():
    scores, groups, spread = toy_scores(Residual(), 400)
    first, again, other = (diagnose_scores(scores, groups, spread=spread, seed=seed) for seed in (1, 1, 2))
    assert str(first) == str(again)
    assert first.quantile_differences == again.quantile_differences != other.quantile_differences
    assert first.joint_p_value == again.joint_p_value


def test_if_undecided_the_result_tells_what_is_shown():
    """A tolerance of `shown_within` makes the same rows even; a smaller one does not."""
    scores, groups, _ = toy_scores(Normalized(), 300)
    found = diagnose_scores(scores, groups)
    assert found.verdict == "undecided"
    assert diagnose_scores(scores, groups, tolerance=found.shown_within).verdict == "even"
    assert diagnose_scores(scores, groups, tolerance=found.shown_within - 1e-6).verdict == "undecided"
    assert found.shown_within == max(row.within for row in found.table)
    assert found.shown_within < max(max(0.9 - row.low, row.high - 0.9) for row in found.table)  # these hold jointly
    tolerance = ceil(100 * found.shown_within) / 100
    assert f"with tolerance={tolerance:g}, the groups count as even" in found.advice
    assert "more rows" not in found.advice
    assert found.headline.startswith("No group is shown to be off; each lies between ")


def test_groups_are_suggested_only_if_their_thresholds_would_be_precise():
    """With fewer than 100 rows in each of three groups, they would make intervals wider, and coverage not more even."""
    for n, advice in ((299, "Keep one threshold for all rows."), (300, "To be sure, use one threshold per group")):
        scores, groups, _ = toy_scores(Normalized(), n)
        found = diagnose_scores(scores, groups)
        assert (found.verdict, found.advice[: len(advice)]) == ("undecided", advice)


def test_the_text_warns_of_too_few_rows_for_the_bootstrap():
    scores = np.random.default_rng(0).random(300)
    assert "(bootstrap, not reliable with so few rows)" not in str(diagnose_scores(scores, np.arange(300) % 3))
    assert "(bootstrap, not reliable with so few rows)" in str(diagnose_scores(scores[:297], np.arange(297) % 3))


def test_more_than_30_groups_are_not_compared_in_pairs():
    found = diagnose_scores(np.random.default_rng(0).random(800), np.arange(800) % 40)
    assert found.quantile_differences == found.distribution_differences == ()
    assert "Score distributions of the groups" in str(found)
    assert "and 10 more groups" in str(found)


def test_a_wider_tolerance_is_easier_to_meet():
    scores, groups, _ = toy_scores(Normalized(), 1000)
    assert diagnose_scores(scores, groups, tolerance=0.03).verdict == "undecided"
    assert diagnose_scores(scores, groups, tolerance=0.1).verdict == "even"


def is_off(group):
    """Return whether a group makes the verdict uneven, although all groups together are even without it."""
    return verdict([], 0.9, 0.03, shown_within=0.02, region=group) == "uneven"


@pytest.mark.parametrize(
    ("low", "high", "p_value", "within", "expected"),
    [
        (0.86, 0.89, 0.01, 0.04, "uneven"),
        (0.86, 0.89, 0.06, 0.04, "undecided"),  # not significant
        (0.86, 0.89, np.nan, 0.04, "undecided"),  # not tested
        (0.86, 0.91, 0.01, 0.04, "undecided"),  # the interval contains the level
        (0.86, 0.89, 0.01, 0.029, "even"),  # shown to differ from the level, and shown to be negligible
        (0.9069, 0.9071, 1e-9, 0.0071, "even"),
        (0.86, 0.94, 0.5, 0.03, "even"),  # the tolerance is included
        (0.86, 0.94, 0.5, 0.0301, "undecided"),
        (0.89, 0.91, 0.5, np.inf, "undecided"),  # infinite intervals
    ],
)
def test_the_rule(low, high, p_value, within, expected):
    other = row("b", 100, 0.9, low, high, p_value, within)
    table = [row("a", 100, 0.9, 0.88, 0.92), other, row("none", 0, np.nan, 0.0, 1.0)]
    assert verdict(table, 0.9, 0.03, shown_within=max(0.02, within)) == expected
    assert is_off(other) == (expected == "uneven")
    assert verdict([], 0.9, 0.03, shown_within=np.inf) == "undecided"


def test_targets_on_a_bound_do_not_make_a_group_too_wide():
    """95 % are covered. Narrower intervals would do if 91 % or more lie strictly inside, but not if 80 % do."""
    wide, tight = (row("a", 1000, 0.95, 0.93, 0.97, 0.001, 0.07, inside_low=each) for each in (0.905, 0.8))
    assert [is_off(each) for each in (wide, tight)] == [True, False]
    # the p-value is that of the targets inside
    inside = row("a", 1000, 0.95, 0.93, 0.97, 1.0, 0.07, inside_low=0.8, inside=0.82)
    assert [explained_by_bounds(each, 0.9) for each in (wide, inside)] == [False, True]
    none_on_bounds = replace(inside, inside=0.95)  # the lower end counts rows that could not be tested as missed
    assert not explained_by_bounds(none_on_bounds, 0.9)
    low = row("a", 1000, 0.85, 0.83, 0.87, 0.001, 0.07, inside_low=0.7)
    assert is_off(low)


def test_a_negligible_difference_does_not_make_an_open_group_uneven():
    """The significant group lies within the tolerance; the other group is not significant."""
    table = [row("a", 10**6, 0.907, 0.906, 0.908, 1e-9, 0.008), row("b", 100, 0.9, 0.82, 0.95, 0.9, 0.08)]
    assert verdict(table, 0.9, 0.03, shown_within=0.08) == "undecided"


def test_a_region_can_show_uneven_but_not_even_coverage():
    table, off, wide = (row("a", 100, 0.9, *ends, 0.01, 0.1) for ends in ((0.88, 0.92), (0.8, 0.85), (0.8, 0.95)))
    assert verdict([table], 0.9, 0.03, shown_within=0.02, region=off) == "uneven"
    assert verdict([table], 0.9, 0.03, shown_within=0.02, region=wide) == "even"
    assert verdict([table], 0.9, 0.03, shown_within=0.04, region=wide) == "undecided"


def test_all_rows_are_within_the_tolerance_if_all_groups_are():
    table, off = (row("a", 100, 0.9, *ends, 0.01, 0.1) for ends in ((0.88, 0.92), (0.8, 0.85)))
    assert verdict([table], 0.9, 0.03, shown_within=0.02, overall=off) == "even"
    assert verdict([table], 0.9, 0.03, shown_within=0.04, overall=off) == "uneven"


@pytest.mark.parametrize(("level", "expected"), [(0.5, 0.03), (0.9, 0.03), (0.95, 0.0218), (0.99, 0.00995)])
def test_the_default_tolerance_follows_the_level(level, expected):
    """At level 0.99, coverage of 97.4 % to 100 % is not even."""
    scores, groups, _ = toy_scores(Normalized(), 300)
    found = diagnose_scores(scores, groups, level=level)
    assert found.tolerance == min(0.03, 0.1 * sqrt(level * (1 - level))) == pytest.approx(expected, rel=1e-2)
    assert at_level(found, 0.9).tolerance == 0.03
    assert at_level(diagnose_scores(scores, groups, level=level, tolerance=0.05), 0.9).tolerance == 0.05


def test_holm_adjusted_p_values():
    """A group without rows is not tested, and does not count as a test."""
    scores = np.arange(400)
    codes = np.where(scores * 3 % 17 < 3, 0, 1 + np.where(scores < 140, scores % 2, scores % 3))
    table = diagnose_scores(scores, Groups(codes, ("a", "b", "c", "d", "none")), level=0.5).table
    np.testing.assert_allclose([row.adjusted for row in table], holm([row.p_value for row in table]))
    assert [row.adjusted for row in table] == pytest.approx([1, 0.1895, 0.1895, 0, np.nan], abs=1e-4, nan_ok=True)
    assert [row.p_value for row in table[1:3]] == pytest.approx([0.1895 / 3, 0.0793], abs=1e-4)
    even = diagnose_scores(scores, np.where(scores < 8, 0, scores % 2), level=0.5).table
    assert all(0.5 < row.p_value < 0.95 and row.adjusted == 1 for row in even)


def test_equal_coverage_at_one_level_is_even_despite_other_levels():
    rng = np.random.default_rng(0)
    labels, scores = np.repeat(["a", "b"], 300_000), rng.exponential(size=600_000)
    same = np.where(labels == "a", scores, rng.gamma(2.0, size=600_000))
    same *= np.where(
        labels == "a", 1 / np.quantile(same[labels == "a"], 0.9), 1 / np.quantile(same[labels == "b"], 0.9)
    )
    found = diagnose_scores(same, labels)  # equal at this level only
    assert found.verdict == "even"
    assert found.anderson_darling < 0.001
    assert found.distribution_differences[0].adjusted < 0.001


class TestUnusualScores:
    """Ties, tiny groups, one group and infinite scores have defined results."""

    def test_too_few_rows_for_a_threshold(self):
        found = diagnose_scores([1.0, 2.0, 3.0], ["a", "b", "a"])
        assert found.threshold == np.inf
        assert [(row.coverage, row.low, row.high) for row in found.table] == [(1, 1, 1)] * 2
        assert found.verdict == "undecided"
        assert "needs at least 9 calibration rows; there are 3" in found.advice
        assert diagnose_scores(np.arange(60.0), np.arange(60) % 3, level=0.99).verdict == "undecided"  # not 1 ± 0.03
        assert found.quantile_differences == ()

    def test_one_group(self):
        found = diagnose_scores(np.arange(2000.0), np.zeros(2000, dtype=int))
        assert found.joint_p_value == found.anderson_darling == 1.0
        assert found.quantile_differences == found.distribution_differences == ()
        assert found.verdict == "even"

    def test_all_scores_tied(self):
        found = diagnose_scores(np.ones(300), np.arange(300) % 3)
        assert [row.coverage for row in found.table] == [1.0] * 3
        assert found.joint_p_value == found.anderson_darling == 1.0
        certain = 270.9 - 200  # of 271 tied rows, so many belong to a group if the others are counted first
        np.testing.assert_allclose([row.low for row in found.table], clopper_pearson_lower(int(certain) + 1, 100, 3))
        assert all(row.high == 1 for row in found.table)
        assert found.verdict == "undecided"
        assert found.advice.startswith("Use a score with fewer ties: 100 % of the scores")

    def test_infinite_scores(self):
        scores = np.where(np.arange(300) % 30 == 0, np.inf, np.arange(300.0))
        found = diagnose_scores(scores, np.arange(300) % 3, spread=np.arange(1.0, 301.0))
        assert np.isfinite(found.threshold)
        assert np.isnan(found.quantile_differences[0].difference)
        everywhere = diagnose_scores(np.full(50, np.inf), np.arange(50) % 2)
        assert everywhere.threshold == np.inf
        assert everywhere.advice.startswith("Use another score")

    def test_a_group_without_rows(self):
        codes = np.arange(3000) % 2
        found = diagnose_scores(np.random.default_rng(0).random(3000), Groups(codes, ("a", "b", "none")))
        assert (found.table[2].rows, found.table[2].low, found.table[2].high) == (0, 0.0, 1.0)
        assert np.isnan([found.table[2].coverage, found.table[2].p_value, found.table[2].adjusted]).all()
        assert found.verdict == "even"  # for the groups that have rows
        empty = diagnose_scores(np.arange(20.0), Groups(np.full(20, -1), ("a", "b")))
        assert empty.verdict == "undecided"

    def test_a_constant_spread_is_one_group(self):
        scores = np.random.default_rng(0).random(3000)
        groups = BySpread(3).learn(Rows(Prediction(np.zeros(3000), np.ones(3000))))
        found = diagnose_scores(scores, groups, spread=np.ones(3000))
        assert found.verdict == "even"
        assert [row.rows for row in found.table] == [3000]

    def test_rows_without_a_group_count_for_the_threshold_only(self):
        codes = np.where(np.arange(400) < 100, -1, np.arange(400) % 2)
        scores = np.random.default_rng(0).random(400)
        found = diagnose_scores(scores, Groups(codes, ("a", "b")))
        assert found.threshold == conformal_quantile(scores, 0.9)
        assert sum(row.rows for row in found.table) == 300

    def test_groups_with_infinite_thresholds_are_not_kept(self):
        model = ConformalRegressor(FrozenEstimator(ORACLE), taxonomy=BySpread(10))
        rows = draw(np.random.default_rng(0), 60)
        found = diagnose(model.fit(rows.X, rows.y), taxonomy=BySpread(10))
        assert found.in_use
        assert found.verdict == "undecided"
        assert found.advice.startswith("Use fewer groups: a group needs at least 9 rows for its own threshold (")

    def test_the_advice_on_tiny_groups(self):
        labels = np.repeat(["many", "few"], [500, 5])
        scores = np.where(labels == "many", np.linspace(0, 1, 505), 10.0)
        found = diagnose_scores(scores, labels)
        assert found.verdict == "uneven"
        assert "few has 5" in found.advice
        assert "fewer groups" in found.advice


class TestModels:
    """Diagnosis of a fitted model."""

    def test_the_default_is_its_calibration_rows_by_spread(self):
        model = calibrated()
        found = diagnose(model)
        rows = model.calibration_rows_
        by_hand = diagnose_scores(
            Residual()(rows.y, rows.prediction), BySpread(3).learn(rows), spread=rows.prediction.spread
        )
        assert found.table == by_hand.table
        assert found.joint_p_value == by_hand.joint_p_value
        assert found.dependence == by_hand.dependence

    def test_the_advice_names_the_simplest_even_score_that_is_narrow(self):
        """It is at most 1 % wider than the narrowest one, and simpler scores are not."""
        found = diagnose(calibrated(n=20_000))
        assert found.verdict == "uneven"
        assert found.advice.startswith("Use nonconformity=")
        assert "calibrate on new rows" in found.advice
        even = [each for each in found.options if each.verdict == "even" and not each.per_group]
        best = next(each for each in even if each.width <= 1.01 * min(each.width for each in even))
        assert f"The mean width is then {best.width:.4g} (" in found.advice
        assert f") instead of {found.options[0].width:.4g}." in found.advice
        assert isinstance(best.nonconformity, Normalized | IntervalDistance)

    def test_the_advice_is_thresholds_per_group_if_no_score_is_even(self):
        rng = np.random.default_rng(0)
        spread = rng.uniform(1, 2, 6000)
        y = rng.normal(size=6000) * np.where(spread < 1.5, 1.0, 5.0)
        X = np.column_stack([np.zeros(6000), spread, np.zeros(6000)])
        model = ConformalRegressor(FrozenEstimator(ORACLE), nonconformity=Normalized()).fit(X, y)
        found = diagnose(model, taxonomy=BySpread(4))
        assert found.verdict == "uneven"
        assert found.advice.startswith("Calibrate per group with taxonomy=BySpread(n_groups=4): mean width")
        refit = model.set_params(taxonomy=BySpread(4)).calibrate(X, y)
        width = refit.predict_interval(X).width.mean()
        np.testing.assert_allclose(found.options[1].width, width, rtol=0.01)
        kept = diagnose(refit, taxonomy=BySpread(4))
        assert kept.advice.startswith("Keep taxonomy=BySpread(n_groups=4)")
        assert diagnose(refit, X, y, taxonomy=BySpread(4)).in_use
        other = diagnose(refit.set_params(taxonomy=ByPrediction(4)).calibrate(X, y), taxonomy=BySpread(4))
        assert not other.in_use  # low, medium and high of another quantity
        assert diagnose(refit.set_params(taxonomy=BySpread()).calibrate(X, y)).in_use
        few = diagnose(calibrated(Normalized(), BySpread(3), n=300))
        assert few.verdict == "undecided"
        keep = "Keep one threshold per group with taxonomy=BySpread(n_groups=3), which guarantees the coverage"
        assert few.advice.startswith(keep)
        assert "already calibrated per group" in str(few)

    def test_the_advice_says_that_one_threshold_would_do(self):
        found = diagnose(calibrated(Normalized(), BySpread(3), n=20_000))
        assert found.verdict == "even"
        assert "One threshold for all rows would be even" in found.advice
        assert "taxonomy=BySpread(n_groups=3)" in found.advice
        assert "Keep one threshold for all rows" in diagnose(calibrated(Normalized(), n=20_000)).advice
        assert not diagnose(calibrated(n=300), taxonomy=Marginal()).in_use  # one group means one threshold

    def test_groups_in_use_that_are_needed_are_kept(self):
        """Also if another score would be even without them."""
        found = diagnose(calibrated(Residual(), BySpread(3), n=20_000))
        assert any(option.verdict == "even" and not option.per_group for option in found.options)
        assert found.advice.startswith("Keep taxonomy=BySpread(n_groups=3): ")
        assert "one threshold for all rows, coverage would be uneven" in found.advice

    def test_new_rows_instead_of_the_calibration_rows(self):
        model, rows = calibrated(), draw(np.random.default_rng(9), 500)
        found = diagnose(model, rows.X, rows.y)
        assert sum(row.rows for row in found.table) == 498  # two rows are edges
        assert found.threshold == conformal_quantile(Residual()(rows.y, rows.prediction), 0.9)
        uncalibrated = ConformalRegressor(FrozenEstimator(ORACLE))
        assert diagnose(uncalibrated, rows.X, rows.y).table == found.table

    @pytest.mark.parametrize("taxonomy", [ByPrediction(2), ByFeature(0), ByTarget([0.0]), BySpread(edges=[1.0])])
    def test_any_taxonomy(self, taxonomy):
        rows = draw(np.random.default_rng(1), 600)
        model = ConformalRegressor(FrozenEstimator(ORACLE)).fit(rows.X, rows.y)
        found = diagnose(model, taxonomy=taxonomy)
        assert len(found.table) == 2
        assert not hasattr(taxonomy, "labels_")  # a copy is fitted

    def test_a_one_sided_score_has_no_alternative(self):
        found = diagnose(calibrated(Standardized(), n=300))
        assert {type(option.nonconformity) for option in found.options} == {Standardized}

    def test_infinite_widths_are_not_in_the_advice(self):
        rows = draw(np.random.default_rng(1), 6000)
        model = ConformalRegressor(FrozenEstimator(ORACLE), nonconformity=Standardized()).fit(rows.X, rows.y)
        found = diagnose(model, taxonomy=ByFeature(0))
        assert found.verdict == "uneven"
        assert found.advice.startswith("Use one threshold per group, taxonomy=ByFeature(column=0): 0.0 ")
        assert "inf" not in found.advice

    def test_groups_of_the_target_have_no_widths(self):
        rows = draw(np.random.default_rng(1), 3000, spread=np.ones(3000))
        model = ConformalRegressor(FrozenEstimator(ORACLE)).fit(rows.X, rows.y)
        found = diagnose(model, taxonomy=ByTarget([1.5]))
        assert not any(option.per_group for option in found.options)
        assert "threshold per group, taxonomy=ByTarget" in found.advice

    def test_without_a_spread_rows_are_grouped_by_prediction(self):
        data = heteroskedastic(800, seed=0)
        found = diagnose(ConformalRegressor(LinearRegression(), random_state=0).fit(data.X, data.y))
        assert found.taxonomy == "ByPrediction(n_groups=3)"
        assert "groups by ByPrediction(n_groups=3)" in str(found)
        assert found.dependence is None

    def test_rows_without_a_group_have_the_marginal_threshold(self):
        codes, y = np.arange(60) % 3 - 1, np.arange(60.0)
        model = ConformalRegressor(FrozenEstimator(LinearRegression().fit([[0, 0, 0]], [0])))
        model.fit(np.column_stack([np.zeros(60), np.zeros(60), codes]), y)
        (_, by_group) = diagnose(model, taxonomy=ByCodes(2), level=0.5).options
        parts = [y, y[codes == 0], y[codes == 1]]
        np.testing.assert_allclose(by_group.width, np.mean([2 * conformal_quantile(part, 0.5) for part in parts]))

    def test_models_inside_pipelines_and_searches(self):
        data = heteroskedastic(600, seed=0)
        model = ConformalRegressor(WithSpread(LinearRegression()), random_state=0)
        pipeline = make_pipeline(StandardScaler(), model).fit(data.X, data.y)
        assert diagnose(pipeline).table == diagnose(pipeline[-1]).table
        moved = pipeline[:-1].transform(data.X)
        assert diagnose(pipeline, data.X, data.y).table == diagnose(pipeline[-1], moved, data.y).table
        search = GridSearchCV(model, {"nonconformity": [Residual()]}, scoring=IntervalScorer(), cv=2).fit(
            data.X, data.y
        )
        assert diagnose(search).table == diagnose(search.best_estimator_).table
        assert diagnose(FrozenEstimator(pipeline)).table == diagnose(pipeline[-1]).table

    def test_the_scale_of_a_score_is_that_of_the_model(self):
        data = heteroskedastic(800, seed=0)
        model = ConformalRegressor(
            WithSpread(LinearRegression()), nonconformity=Normalized(epsilon=0.5), random_state=0
        )
        found = diagnose(model.fit(data.X, data.y))
        assert found.threshold == model.calibration_.threshold(0.9)[0]

    def test_options_are_the_scores_that_the_prediction_supports(self):
        y, group = np.arange(12.0), np.arange(12) % 2
        kinds = {
            None: [Residual],
            0.0: [Residual, IntervalDistance],
            1.0: [Residual, IntervalDistance, Normalized],
        }
        for smallest, expected in kinds.items():
            X = np.column_stack([group, np.append(smallest or 0.0, np.ones(11)), np.zeros(12)])
            model = ORACLE if smallest is not None else LinearRegression().fit(np.zeros((1, 3)), [0])
            fitted = ConformalRegressor(FrozenEstimator(model)).fit(X, y)
            found = diagnose(fitted, taxonomy=ByFeature(0), level=0.5).options
            assert [type(option.nonconformity) for option in found[::2]] == expected
            assert [option.per_group for option in found] == [False, True] * len(expected)
            assert [found[0].width, found[0].widths[0]] == pytest.approx([12, 12])  # twice the 7th smallest


def counts_model(rates, score, taxonomy=None):
    """Return a model of whole numbers: two groups of 3000 calibration rows have about these means."""
    rng, group = np.random.default_rng(0), np.repeat([0.0, 1.0], 3000)
    X = np.column_stack([group, 0.01 * rng.random(6000)])  # without ties
    center = LinearRegression().fit([[0, 0], [1, 0], [0, 1]], [*rates, rates[0] + 1])
    y = rng.poisson(center.predict(X)).astype(float)
    return ConformalRegressor(FrozenEstimator(center), nonconformity=score, taxonomy=taxonomy).fit(X, y)


class TestCounts:
    """Rows count as the intervals treat them."""

    def test_rows_covered_by_a_point_are_not_covered_too_rarely(self):
        """At level 0.3, the threshold is so small that no whole number is within it of the centers of one group."""
        model = counts_model((0.01, 0.4), Bounded(y_min=0, whole=True))
        found = diagnose(model, taxonomy=ByFeature(0), level=0.3)
        rows = model.calibration_rows_
        given = model.predict_interval(rows.X, level=0.3)
        assert given.n_replaced > 3000
        covered = given.covers(rows.y)
        assert [group.coverage for group in found.table] == [covered[rows.X[:, 0] == g].mean() for g in (0, 1)]
        assert all(group.low < group.coverage < group.high for group in found.table)
        assert found.off == ()
        assert found.verdict == "undecided"
        assert found.advice.startswith("Keep one threshold for all rows: no group is covered too rarely.")
        assert "more often than asked: 0.0 (98." in found.advice
        assert "cannot always be covered less often" in found.advice
        checked = audit(rows.y, given, groups=ByFeature(0).learn(rows), diagnosis=found, level=0.3)
        assert checked.evidence == "test rows"  # the law of calibration scores does not know the points

    @pytest.mark.parametrize("score", [Bounded(y_min=0, whole=True), Residual()])
    def test_whole_numbers_on_a_bound_are_not_covered_too_often(self, score):
        """Intervals that hold one whole number cannot be narrower, whatever score their middle has."""
        found = diagnose(counts_model((0.05, 0.1), score), taxonomy=ByFeature(0))
        quiet, _ = found.table
        assert quiet.low > 0.9
        assert quiet.inside == 0
        assert quiet.adjusted < 0.05
        assert quiet not in found.off

    def test_intervals_that_could_be_narrower_are_still_too_wide(self):
        """Zeros are at an end of [0, 13], but the other end is the first that a narrower interval misses."""
        found = diagnose(counts_model((2.0, 60.0), Bounded(y_min=0, whole=True)), taxonomy=ByFeature(0))
        assert found.headline.startswith("Covered too rarely: 1.0 (")
        assert "Covered too often: 0.0 (" in found.headline


class TestDependence:
    """Whether the score depends on the spread, and which change of the score would remove the dependence."""

    SPREAD = np.exp(np.random.default_rng(0).normal(size=4000) / 2)
    NOISE = np.abs(np.random.default_rng(1).normal(size=4000))

    def found(self, scores, spread=None):
        """Return the dependence of a diagnosis with one group."""
        spread = self.SPREAD if spread is None else spread
        return diagnose_scores(scores, np.zeros(len(scores), dtype=int), spread=spread).dependence

    def test_a_pivotal_score_shows_no_dependence(self):
        found = self.found(self.NOISE)
        assert found.p_value > 0.05
        assert found.remedies == ()
        assert found.sufficient_remedy is None
        assert "no significant dependence" in str(found)

    @pytest.mark.parametrize("power", [-0.5, 0.5, 1.0, 2.0])
    def test_the_power_of_the_spread_is_found(self, power):
        found = self.found(self.NOISE * self.SPREAD**power)
        assert found.p_value < 0.001
        assert np.sign(found.correlation) == np.sign(power)
        assert found.sufficient_remedy.kind == "power"
        assert abs(found.sufficient_remedy.value - power) < 0.1
        assert f"dividing the score by spread**{found.sufficient_remedy.value:.2f} would remove" in str(found)

    @pytest.mark.parametrize(("kind", "divisor"), [("term", 1.0), ("term in the divisor", SPREAD)])
    def test_the_additive_term_is_found(self, kind, divisor):
        truth = self.SPREAD + 2 * np.median(self.SPREAD)
        remedy = next(each for each in self.found(self.NOISE * truth / divisor).remedies if each.kind == kind)
        assert remedy.removes_dependence
        assert abs(remedy.value - 2) < 0.5

    @pytest.mark.slow
    def test_the_remaining_dependence_is_tested_with_one_degree_of_freedom_less(self):
        """Then the p-value is uniform if dividing by a power is the right remedy."""
        rng, p_values = np.random.default_rng(4), []
        for _ in range(700):
            spread, noise = np.exp(rng.normal(size=300) / 2), np.abs(rng.normal(size=300))
            power, *_ = self.found(noise * spread**2, spread).remedies
            assert power.kind == "power"
            p_values.append(power.p_value)
        assert kstest(p_values, "uniform").pvalue > ONE_IN_A_MILLION

    def test_no_remedy_if_none_helps(self):
        found = self.found(self.NOISE * np.abs(np.log(self.SPREAD)))  # noisy at both ends
        assert found.p_value < 0.001
        assert found.sufficient_remedy is None
        assert "would not remove the dependence" in str(found)

    def test_constant_spread_or_few_rows_are_not_tested(self):
        assert np.isnan(self.found(self.NOISE, np.ones(4000)).p_value)
        assert np.isnan(self.found(np.arange(19.0), np.arange(19.0)).p_value)
        assert "not tested" in str(self.found(self.NOISE, np.ones(4000)))

    def test_a_spread_of_zero_can_be_tested_but_has_no_remedies(self):
        spread = np.append(0.0, self.SPREAD[1:])
        found = self.found(self.NOISE * spread, spread)
        assert found.p_value < 0.001
        assert found.remedies == ()

    def test_the_test_keeps_its_size(self):
        """Also with few rows, ties, or a spread of two values.

        A test of twice its size is found with probability 0.999 in one of the three (binomial).
        """
        rng = np.random.default_rng(3)
        for spread in (np.arange(25.0), np.arange(60.0) % 2, np.ceil(np.arange(200.0) / 50)):
            p_values = [self.found(np.round(rng.exponential(size=len(spread)), 1), spread).p_value for _ in range(400)]
            assert np.mean(np.array(p_values) < 0.05) <= 0.08
            assert np.mean(p_values) > 0.4


class TestAnotherLevel:
    """`at_level` gives the same result as a new diagnosis at that level."""

    def test_of_scores(self):
        rng = np.random.default_rng(0)
        scores, groups = np.abs(rng.normal(size=600)) * np.repeat([1.0, 2.0], 300), np.repeat(["a", "b"], 300)
        found = at_level(diagnose_scores(scores, groups, spread=np.repeat([1.0, 2.0], 300), seed=3), 0.7)
        expected = diagnose_scores(scores, groups, spread=np.repeat([1.0, 2.0], 300), level=0.7, seed=3)
        assert str(found) == str(expected)
        assert found.table == expected.table
        assert found.quantile_differences == expected.quantile_differences

    def test_of_a_model(self):
        sample = heteroskedastic(600, seed=0)
        model = ConformalRegressor(WithSpread(LinearRegression(), random_state=0), random_state=0)
        model.fit(sample.X, sample.y)
        found = at_level(diagnose(model, tolerance=0.05), 0.8)
        expected = diagnose(model, level=0.8, tolerance=0.05)
        assert str(found) == str(expected)
        assert [option.width for option in found.options] == [option.width for option in expected.options]
