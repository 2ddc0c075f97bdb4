"""`audit`: coverage of intervals on test rows, by group and by feature, with exact tests."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import beta, betabinom, binom, kstest, norm

from evencover import (
    Bounded,
    ByFeature,
    BySpread,
    ByTarget,
    ConformalRegressor,
    Intervals,
    Normalized,
    Prediction,
    RelativeIntervalDistance,
    Residual,
    Rows,
    TwoTails,
    audit,
    calibrate,
    conformal_rank,
    interval_score,
)
from evencover.diagnostics import regions, rows_needed
from evencover.synthetic import heteroskedastic, toy
from evencover.words.answers import audited_group_text, coverage_text
from evencover.words.results import p_value_scope
from tests.coverage_laws import holm
from tests.report_pages import report_text, result_data
from tests.synthetic import ONE_IN_A_MILLION, Oracle, draw

OLD, NEW = toy().sample(3000, seed=0), toy().sample(9000, seed=1)
THIRDS = BySpread(3).learn(Rows(NEW.oracle()))
NEVER_CALIBRATED = (
    "Calibrate the intervals on rows that the model was not trained on, with calibrate: {}. Probably "
    "the intervals were never calibrated"
)


def intervals_by(score, *, level=0.9):
    return calibrate(OLD.y, OLD.oracle(), nonconformity=score).interval(NEW.oracle(), level=level)


def targets_and_intervals(covered, n):
    """Return n targets and intervals, the given number of them covered."""
    return np.where(np.arange(n) < covered, 0.5, 2.0), Intervals(np.zeros(n), np.ones(n))


def test_verdicts_on_uneven_and_even_intervals():
    groups = BySpread(3).learn(Rows(NEW.oracle()))
    uneven = audit(NEW.y, intervals_by(Residual()), groups=groups)
    assert uneven.verdict == "uneven"
    assert uneven.joint_p_value < 0.001
    assert uneven.headline.startswith("As asked, about nine in ten: ")
    assert "Covered too often: low (9" in uneven.headline
    assert uneven.advice.startswith("Calibrate per group")
    even = audit(NEW.y, intervals_by(Normalized()), groups=groups)
    assert even.verdict == "even"
    assert even.advice.startswith("Nothing to do")
    first, second, *lines = str(even).splitlines()
    assert (first, second) == ("Verdict: even.", f"How often right: {even.headline.split(' Every group')[0]}")
    assert lines[2:4] == [f"What to do: {even.advice}", ""]
    assert "even" in repr(even)


def test_a_row_of_the_table_by_hand():
    y, made = targets_and_intervals(83, 100)
    (row,) = audit(y, made).table
    assert (row.rows, row.coverage, row.width) == (100, 0.83, 1.0)
    np.testing.assert_allclose([row.p_under, row.p_over], [binom.cdf(83, 100, 0.9), binom.sf(82, 100, 0.9)])
    np.testing.assert_allclose([row.low, row.high], [0.7418246, 0.8977351], atol=1e-7)  # R: binom.test(83, 100)
    np.testing.assert_allclose(row.adjusted, 2 * row.p_under)
    np.testing.assert_allclose(row.score, interval_score(y, made, level=0.9))
    assert audit(y, made).overall.coverage == 0.83


def test_the_same_wrong_coverage_in_every_group_is_uneven():
    """No single group is significant, but all rows together are."""
    covered = np.arange(1200) % 100 < 86
    found = audit(np.where(covered, 0.5, 2.0), (np.zeros(1200), np.ones(1200)), groups=np.arange(1200) // 100)
    assert min(row.adjusted for row in found.table) > 0.05 > found.overall.adjusted
    assert found.joint_p_value == found.overall.adjusted
    assert found.verdict == "uneven"
    assert "86.0 % instead of 90.0 % of all rows are covered" in found.advice
    assert found.headline.startswith("Fewer than asked: 86.0 % of 1200 test rows, not about nine in ten. No single")
    alone = audit(np.where(covered, 0.5, 2.0), (np.zeros(1200), np.ones(1200)), groups=np.zeros(1200))
    assert alone.joint_p_value == alone.overall.adjusted == alone.table[0].adjusted  # not counted twice


class TestLargeSamplePValue:
    """Whether the randomness of the calibration rows alone can explain a coverage: `p_limit`."""

    @staticmethod
    def p_limit(n_rows, share, sizes):
        """Return the p-value of a group of so many rows, with a threshold from so many calibration rows."""
        y, made = targets_and_intervals(round(n_rows * share), n_rows)
        return audit(y, made, groups=np.zeros(n_rows), calibration_sizes=sizes).table[0].p_limit

    @staticmethod
    def by_beta(share, n=80):
        """Return the p-value by the distribution of the coverage, given n calibration rows."""
        k = conformal_rank(n, 0.9)
        return 2 * min(beta.cdf(share, k, n + 1 - k), beta.sf(share, k, n + 1 - k))

    def test_one_pool_has_a_beta_distribution(self):
        for share in (0.8, 0.93):
            assert self.p_limit(200, share, 80) == pytest.approx(self.by_beta(share))

    def test_it_is_the_limit_for_many_test_rows(self):
        k = conformal_rank(80, 0.9)
        many = betabinom(10**6, k, 81 - k)
        expected = 2 * min(many.cdf(850_000), many.sf(849_999))
        assert self.p_limit(20, 0.85, 80) == pytest.approx(expected, rel=1e-3)

    def test_several_pools_approximate_the_distribution_of_their_mixture(self):
        rng = np.random.default_rng(0)
        ranks = conformal_rank(300, 0.9), conformal_rank(500, 0.9)
        mixed = 0.25 * rng.beta(ranks[0], 301 - ranks[0], 10**5) + 0.75 * rng.beta(ranks[1], 501 - ranks[1], 10**5)
        old, new = np.repeat(["a", "b"], [300, 500]), np.repeat(["a", "b"], [100, 300])
        made = calibrate(np.arange(800.0), np.zeros(800), groups=old).interval(np.zeros(400), groups=new)
        for share in (0.87, 0.89, 0.92):
            y = np.where(np.arange(400) < round(400 * share), 0.0, 1e9)
            found = audit(y, made, groups=np.zeros(400)).table[0]
            assert found.coverage == share
            expected = 2 * min((mixed <= share).mean(), (mixed >= share).mean())
            assert found.p_limit == pytest.approx(expected, abs=0.02)

    def test_infinite_thresholds_and_unknown_sizes(self):
        assert self.p_limit(100, 1.0, 5) == 1
        assert self.p_limit(100, 0.9, 5) == 0
        assert self.p_limit(100, 0.8, None) == 0

    def test_it_is_holm_adjusted_like_the_test(self):
        """A group that is significant alone is not among three groups: its calibration can explain it."""
        covered, n = np.array([850, 873, 900]), np.repeat(np.arange(3), 1000)
        y = np.where(np.arange(3000) % 1000 < covered[n], 0.5, 2.0)
        found = audit(y, (np.zeros(3000), np.ones(3000)), groups=n, calibration_sizes=dict.fromkeys(range(3), 200))
        raw = [self.by_beta(share, 200) for share in covered / 1000]
        k = conformal_rank(200, 0.9)
        mixture = norm(beta.mean(k, 201 - k), beta.std(k, 201 - k) / np.sqrt(3))
        raw.append(2 * mixture.cdf(covered.sum() / 3000))
        np.testing.assert_allclose([row.p_limit for row in (*found.table, found.overall)], holm(raw))
        assert raw[0] < 0.05 < found.table[0].p_limit
        assert [row.group for row in found.explained_by_calibration] == [0, 1]
        assert found.advice.startswith("Calibrate on more of the rows")

    def test_infinite_intervals_need_calibration_rows_not_test_rows(self):
        y = np.zeros(2000)
        bounds = np.full(2000, -np.inf), np.full(2000, np.inf)
        found = audit(y, bounds, groups=np.zeros(2000), calibration_sizes=5)
        assert found.verdict == "undecided"
        assert found.advice.startswith("Use more calibration rows or a lower level: 2000 of 2000 ")
        assert "at level 0.9 needs at least 9 calibration rows." in found.advice
        assert "Collect more test rows" not in found.advice


def test_known_calibration_sizes_give_beta_binomial_p_values():
    y, made = targets_and_intervals(83, 100)
    k = conformal_rank(49, 0.9)
    for sizes in (49, {"all": 49}):
        found = audit(y, made, groups=np.full(100, "all"), calibration_sizes=sizes)
        np.testing.assert_allclose(found.table[0].p_under, betabinom.cdf(83, 100, k, 50 - k))
        assert p_value_scope(found).startswith("include the random variation of the calibration rows")
    assert p_value_scope(audit(y, made)).startswith("do not include the random variation")
    assert "The p-values do not include the random variation of the calibration rows (Binomial)." in str(audit(y, made))


def test_intervals_of_this_package_store_their_calibration_sizes():
    made = intervals_by(Residual())
    known, given = audit(NEW.y, made), audit(NEW.y, np.asarray(made), calibration_sizes=3000)
    assert known.table == given.table
    assert p_value_scope(known) == p_value_scope(given)
    taxonomy = BySpread(3)
    groups = taxonomy.learn(Rows(OLD.oracle()))
    assigned = taxonomy.assign(Rows(NEW.oracle()))
    mondrian = calibrate(OLD.y, OLD.oracle(), groups=groups).interval(NEW.oracle(), groups=assigned)
    known = audit(NEW.y, mondrian)
    given = audit(NEW.y, np.asarray(mondrian), groups=assigned, calibration_sizes=mondrian.guarantee.sizes)
    assert known.table == given.table
    assert [row.group for row in known.table] == ["low", "medium", "high"]


def test_p_values_of_a_weighted_calibration_do_not_allow_for_chance_in_it():
    made = calibrate(OLD.y, OLD.mean, weights=np.ones(3000)).interval(NEW.mean, weights=np.ones(9000))
    assert p_value_scope(audit(NEW.y, made)).startswith("do not include the random variation")


def test_unseen_groups_are_not_tested():
    """They have no guarantee."""
    calibration = calibrate(OLD.y[:200], OLD.mean[:200], groups=np.repeat(["a", "b"], 100))
    made = calibration.interval(NEW.mean[:90], groups=np.repeat(["a", "b", "new"], 30), unseen="marginal")
    found = audit(NEW.y[:90], made)
    assert [row.group for row in found.table] == ["a", "b", "new"]
    assert [np.isnan(row.adjusted) for row in found.table] == [False, False, True]
    assert p_value_scope(found).startswith("include the random variation of the calibration rows")


def test_groups_explained_by_few_calibration_rows_need_no_more_test_rows():
    y, made = targets_and_intervals(8480, 10_000)
    found = audit(y, made, calibration_sizes=100)
    assert found.verdict == "undecided"
    assert found.explained_by_calibration == found.table
    assert found.advice.startswith("Calibrate on more of the rows")
    assert str(rows_needed(0.9, 0.03)) in found.advice
    given = audit(y, made)
    assert given.verdict == "uneven"
    assert given.explained_by_calibration == ()
    far = audit(*targets_and_intervals(5000, 10_000), calibration_sizes=100)
    assert far.verdict == "uneven"
    assert far.explained_by_calibration == ()  # calibration cannot explain it
    few, codes = np.repeat([81, 90, 90, 90, 90], 100), np.repeat(np.arange(5), 100)
    open_one = audit(np.where(np.arange(500) % 100 < few, 0.5, 2.0), made[:500], groups=codes)
    assert open_one.table[0].high < 0.9
    assert open_one.table[0].adjusted > 0.05
    assert open_one.explained_by_calibration == ()  # for this calibration, more test rows can decide
    labels = np.where(np.arange(10_000) % 2, "far", "near")
    covered = np.arange(10_000) < np.where(labels == "far", 5000, 8480)
    both = audit(np.where(covered, 0.5, 2.0), made, groups=labels, calibration_sizes=100)
    assert both.verdict == "uneven"
    assert [row.group for row in both.off] == ["far"]


def test_infinite_intervals_are_never_even():
    """Not even if all of them cover, and 1 is within the tolerance of the level."""
    found = audit(np.zeros(200), (np.full(200, -np.inf), np.full(200, np.inf)), level=0.99, tolerance=0.03)
    assert (found.verdict, found.shown_within) == ("undecided", np.inf)
    assert "200 of 200 intervals are infinite" in found.advice
    assert "because infinite intervals are right for every target" in found.headline


def test_infinite_intervals_of_others_are_not_uneven():
    found = audit(np.zeros(600), (np.full(600, -np.inf), np.full(600, np.inf)), level=0.99)
    assert (found.verdict, found.off) == ("undecided", ())


@pytest.mark.filterwarnings("ignore:too few calibration rows")
def test_one_group_with_an_infinite_threshold_is_not_even():
    rng = np.random.default_rng(0)
    groups = np.repeat(["many", "few"], [20_000, 20])
    calibration = calibrate(rng.normal(size=20_020), np.zeros(20_020), groups=groups)
    intervals = calibration.interval(np.zeros(20_020), groups=groups, level=0.99)
    found = audit(rng.normal(size=20_020), intervals, split_at_random=True)
    assert (found.verdict, found.off) == ("undecided", ())
    assert [row.within < 0.01 for row in found.table] == [False, True]
    answer = report_text(found).partition("equally often in all groups? ")[2]
    assert answer.startswith("Not known yet. 20 of 20020 intervals are infinite")
    assert "at level 0.99 needs at least 99 calibration rows." in answer


def test_the_text_shows_at_most_30_groups():
    rng = np.random.default_rng(0)
    found = audit(rng.random(3000), (np.zeros(3000), np.full(3000, 0.9)), groups=np.arange(3000) % 200)
    assert len(found.table) == 200
    assert "more groups" in str(found)
    assert len(str(found).splitlines()) < 40
    assert "and 171 more groups" in str(found)


def test_advice_on_over_and_under_coverage():
    y, made = targets_and_intervals(990, 1000)
    share = "99.0 % instead of 90.0 % of all rows are covered"
    assert audit(y, made).advice.startswith(NEVER_CALIBRATED.format(share))
    assert "those of a higher level" in audit(y, made).advice
    assert audit(y, made, calibration_sizes=500).advice.startswith(f"Use narrower intervals: {share}.")
    y, made = targets_and_intervals(700, 1000)
    share = "70.0 % instead of 90.0 % of all rows are covered"
    assert audit(y, made).advice.startswith(NEVER_CALIBRATED.format(share))
    assert "calibrated on rows that the model had seen" in audit(y, made).advice
    assert "never" not in audit(y, made, calibration_sizes=500).advice


def test_raw_quantiles_were_never_calibrated():
    """Quantiles of a model that is too sure everywhere; after calibration, the advice is another."""
    raw = Prediction.from_quantiles(NEW.mean - 0.9 * NEW.spread, NEW.mean + 0.9 * NEW.spread)
    found = audit(NEW.y, (raw.lower, raw.upper), groups=THIRDS)
    assert (found.verdict, found.is_off_everywhere, found.guaranteed) == ("uneven", True, False)
    assert "never calibrated" in found.advice
    old = Prediction.from_quantiles(OLD.mean - 0.9 * OLD.spread, OLD.mean + 0.9 * OLD.spread)
    score = RelativeIntervalDistance()
    calibrated = audit(NEW.y, calibrate(OLD.y, old, nonconformity=score).interval(raw), groups=THIRDS)
    assert (calibrated.is_off_everywhere, calibrated.guaranteed) == (False, True)
    assert "never calibrated" not in calibrated.advice


def test_some_groups_off_are_no_sign_of_missing_calibration():
    """One width for all rows: noisy rows are missed, others are not, and all rows together are off."""
    found = audit(NEW.y, (NEW.mean - 1.0, NEW.mean + 1.0), groups=THIRDS)
    assert (found.verdict, found.is_off_everywhere) == ("uneven", False)
    assert found.advice.startswith("Recalibrate on recent rows that the model was not trained on")


def test_known_guarantees_rule_it_out():
    """A calibrated model whose rows have changed is off everywhere, too."""
    made = intervals_by(Normalized())
    drifted = NEW.mean + 2 * (NEW.y - NEW.mean)
    assert audit(drifted, made, groups=THIRDS).is_off_everywhere
    assert "never calibrated" not in audit(drifted, made, groups=THIRDS).advice
    assert "never calibrated" in audit(drifted, np.asarray(made), groups=THIRDS).advice


def test_bounds_of_other_libraries():
    made = intervals_by(Residual())
    plain = audit(NEW.y, np.asarray(made))
    assert audit(NEW.y, (made.lower, made.upper)).table == plain.table
    assert audit(NEW.y, np.asarray(made)[:, :, None]).table == plain.table
    assert audit(list(NEW.y), np.asarray(made).tolist()).table == plain.table


def test_frames_of_bounds():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    made = intervals_by(Residual())
    frame = pd.DataFrame(np.asarray(made), columns=["low", "high"], index=np.arange(9000)[::-1])
    assert audit(pd.Series(NEW.y, index=frame.index), frame).table == audit(NEW.y, np.asarray(made)).table


def test_the_default_level_is_that_of_the_intervals():
    made = intervals_by(Normalized(), level=0.5)
    assert audit(NEW.y, made).level == 0.5
    assert audit(NEW.y, made).verdict == "even"
    assert audit(NEW.y, made, level=0.9).verdict == "uneven"
    assert "49.8 % instead of 90.0 % of all rows are covered" in audit(NEW.y, made, level=0.9).advice


def calibrate_groups(y, groups):
    """Return the intervals of 1000 rows with thresholds from as many rows."""
    return calibrate(y, np.zeros(1000), groups=groups).interval(np.zeros(1000), groups=groups)


def two_tails_of_groups(y, groups):
    """The same with a threshold for each tail."""
    rows = Rows(Prediction(np.zeros(1000)), groups.reshape(-1, 1), y)
    learned = TwoTails(ByFeature(0)).learn(rows, Residual())
    return replace(learned.intervals(rows, (Fraction(9, 10),)), level=0.9)


class TestGroups:
    """The groups that are audited."""

    def test_thirds_by_width_are_the_default(self):
        found = audit(NEW.y, np.asarray(intervals_by(Normalized())))
        assert [row.rows for row in found.table] == [3000] * 3
        assert "width" in found.table[0].group
        assert [row.coverage for row in found.table] == [row.coverage for row in found.by_width]
        assert found.table[0].width < found.table[1].width < found.table[2].width

    def test_equal_widths_are_split_by_center_despite_rounding(self):
        made = intervals_by(Residual())
        found = audit(NEW.y, made)
        center = (made.lower + made.upper) / 2
        assert [row.group[:9] for row in found.table] == ["center <=", "4.41 < ce", "center > "]
        assert [row.rows for row in found.table] == [3000] * 3
        assert found.table[2].coverage == pytest.approx(made.covers(NEW.y)[center > np.quantile(center, 2 / 3)].mean())
        assert len(found.by_width) == 1
        assert found.notes[0].startswith("All intervals have the same width (")
        rounded = audit(NEW.y, (made.lower.round(3), made.upper.round(3)))
        assert [row.rows for row in rounded.table] == pytest.approx([3000] * 3, abs=20)

    def test_equal_widths_and_centers_are_one_group(self):
        found = audit(*targets_and_intervals(90, 100))
        assert [row.group for row in found.table] == ["width = 1"]
        assert found.worst_region is None
        assert found.notes[0] == "All intervals have the same width (1), so the rows are one group."
        assert found.notes[1].startswith("Coverage by expected noise cannot be assessed")

    @pytest.mark.parametrize("vary", [0.0, 0.02], ids=["equal widths", "random widths"])
    def test_noise_that_grows_with_the_prediction_is_found(self, vary):
        """The textbook failure: one width for all rows, so coverage is 0.999, 0.932 and 0.768 by thirds of x."""
        rng = np.random.default_rng(0)
        x, width = rng.uniform(0, 10, 6000), 2.36 * rng.uniform(1 - vary, 1 + vary, 6000)
        y = 2 * x + (0.3 + 0.2 * x) * rng.normal(size=6000)
        found = audit(y, (2 * x - width, 2 * x + width))
        assert found.overall.adjusted > 0.05
        assert found.verdict == "uneven"
        assert found.worst_region.high < 0.87
        assert found.region_rule.startswith("center > 1")
        assert [row.coverage for row in found.by_feature] == pytest.approx([0.999, 0.932, 0.768], abs=0.02)
        assert f"Worst region (lowest coverage by the features): {found.region_rule}." in str(found)
        if vary:
            assert all(row.group.count("width") for row in found.table)
            assert [row.coverage for row in found.table] == pytest.approx([0.9] * 3, abs=0.03)  # widths do not show it
        else:
            assert [row.coverage for row in found.table] == [row.coverage for row in found.by_feature]

    def test_the_center_is_searched_only_without_groups_and_features(self):
        made = np.asarray(intervals_by(Normalized()))
        assert len(audit(NEW.y, made).by_feature) == 3
        assert audit(NEW.y, made).excess_risk is None
        assert audit(NEW.y, made, groups=np.arange(9000) % 2).by_feature == ()
        by_feature = audit(NEW.y, made, X=NEW.X).by_feature
        assert {row.group.partition("column")[1] for row in by_feature} == {"column"}

    def test_infinite_and_empty_intervals_have_no_center(self):
        lower = np.arange(300.0)
        upper = lower + 5
        lower[:90], upper[90:100], lower[100:120] = -np.inf, np.nan, 1e9
        rows = {row.group: row.rows for row in audit(np.zeros(300), (lower, upper)).by_feature}
        assert list(rows.values()) == [60, 60, 60, 120]
        assert rows["center missing"] == 120

    def test_notes_are_printed_after_the_table(self):
        found = audit(NEW.y, intervals_by(Residual()))
        lines = str(found).splitlines()
        position = lines.index(found.notes[0])
        assert lines[position - 1].startswith("  all rows")
        assert lines[position : position + 3] == list(found.notes)
        assert "expected noise cannot be assessed" in found.notes[1]
        assert "used only the interval's center" in found.notes[2]
        assert result_data(found)["notes"] == list(found.notes)

    def test_infinite_widths_are_a_separate_group(self):
        width = np.where(np.arange(90) < 60, np.inf, np.arange(90.0))
        found = audit(np.zeros(90), (-width, width))
        assert sum(row.rows for row in found.table) == 90
        assert all(row.rows for row in found.table)
        assert found.table[-1].width == found.table[-1].score == np.inf
        assert found.n_infinite == 60

    def test_coverage_by_width_is_reported_in_addition_to_groups(self):
        found = audit(NEW.y, intervals_by(Normalized()), groups=np.arange(9000) % 2)
        assert len(found.table) == 2
        assert len(found.by_width) == 3

    def test_few_rows_are_split_in_thirds(self):
        width = np.arange(1.0, 11.0)
        assert len(audit(np.zeros(10), (-width, width)).table) == 3

    def test_a_group_without_rows(self):
        from evencover import Groups

        y, made = targets_and_intervals(90, 100)
        found = audit(y, made, groups=Groups(np.zeros(100, dtype=int), ("a", "none")))
        assert found.table[1].rows == 0
        assert np.isnan([found.table[1].coverage, found.table[1].adjusted, found.table[1].width]).all()
        assert found.verdict == "undecided"
        assert "If anything between 83 % and 97 % in every group is good enough for you" in found.advice
        assert "tolerance=0.07" in found.advice

    def test_groups_of_the_target(self):
        rows = draw(np.random.default_rng(0), 800)
        model = ConformalRegressor(Oracle(), taxonomy=ByTarget([0.0]), random_state=0).fit(rows.X, rows.y)
        found = audit(rows.y, model.predict_union(rows.X), groups=rows.y > 0)
        assert np.isnan(found.overall.score)
        assert found.overall.coverage == model.predict_union(rows.X).covers(rows.y).mean()
        assert p_value_scope(found).startswith("do not include the random variation")


def test_empty_intervals_cover_nothing():
    y = np.zeros(40)
    lower = np.where(np.arange(40) < 10, 1.0, -1.0)
    found = audit(y, (lower, -lower))
    assert found.n_empty == 10
    assert found.overall.coverage == 0.75
    nan = np.where(np.arange(40) < 10, np.nan, 1.0)
    assert audit(y, (-nan, nan)).n_empty == 10
    assert "Empty intervals: 10" in str(found)


def test_all_and_none_covered():
    for covered in (0, 50):
        y, made = targets_and_intervals(covered, 50)
        found = audit(y, made, X=np.arange(50.0)[:, None])
        assert found.overall.coverage == covered / 50
        assert found.excess_risk.p_value == 1.0
    assert audit(*targets_and_intervals(0, 50)).verdict == "uneven"


class TestFeatures:
    """Coverage by the features; a region of low coverage is found on one half of the rows and tested on the other."""

    CALIBRATION, DATA = heteroskedastic(3000, seed=2), heteroskedastic(6000, seed=3)
    MADE = calibrate(CALIBRATION.y, CALIBRATION.mean).interval(DATA.mean)

    def test_uneven_coverage_is_found_without_groups(self):
        found = audit(self.DATA.y, self.MADE, X=self.DATA.X)
        assert found.verdict == "uneven"
        assert found.worst_region.adjusted < 0.001
        assert found.worst_region.rows < 1500
        assert "column 2 > " in found.region_rule
        assert found.worst_region.high < 0.9
        assert found.excess_risk.p_value <= 0.001
        assert found.excess_risk.value > 0
        assert found.region_rule in found.advice
        assert "rows are covered: yes (p = 0.001 for these intervals; ERT 0.0" in str(found)
        assert "Rows by feature whose coverage differs from the level: column 2" in str(found)

    def test_an_oracle_has_no_significant_result(self):
        source = self.DATA.source
        found = audit(self.DATA.y, source.oracle_interval(self.DATA.X), X=self.DATA.X)
        assert found.worst_region.adjusted > 0.05
        assert found.excess_risk.p_value > 0.05
        assert all(row.adjusted > 0.05 for row in found.by_feature)
        assert "not significantly (p = " in str(found)

    def test_the_same_seed_gives_the_same_audit(self):
        first, again, other = (audit(self.DATA.y, self.MADE, X=self.DATA.X, seed=seed) for seed in (1, 1, 2))
        assert str(first) == str(again) != str(other)

    def test_strata_by_feature(self):
        pd = pytest.importorskip("pandas", reason="pandas is not installed")
        X = pd.DataFrame(
            {
                "age": np.arange(90.0),
                "region": np.repeat(["north", "south", None], 30),
                "rooms": np.arange(90) % 2,
                "lost": np.where(np.arange(90) < 30, np.nan, np.arange(90.0)),
            }
        )
        y, made = targets_and_intervals(60, 90)
        found = audit(y, made, X=X).by_feature
        rows = {label: (row.rows, row.coverage) for row in found for label in (row.group, *row.also)}
        assert rows == {
            "age <= 29": (30, 1.0),
            "29 < age <= 59": (30, 1.0),
            "age > 59": (30, 0.0),
            "region = north": (30, 1.0),
            "region = south": (30, 1.0),
            "region missing": (30, 0.0),
            "rooms = 0": (45, 2 / 3),
            "rooms = 1": (45, 2 / 3),
            "lost <= 49": (20, 1.0),
            "49 < lost <= 69": (20, 0.5),
            "lost > 69": (20, 0.0),
            "lost missing": (30, 1.0),
        }

    def test_strata_of_unusual_features(self):
        """Capped at the maximum, equal to 12 digits, dates, many categories, objects."""
        pd = pytest.importorskip("pandas", reason="pandas is not installed")
        rng = np.random.default_rng(0)
        X = pd.DataFrame(
            {
                "capped": np.minimum(rng.normal(size=300), -1.0),
                "id": np.arange(300) % 3 + 2**50,
                "day": pd.date_range("2020-01-01", periods=300).where(np.arange(300) > 9),
                "name": [f"n{i}" for i in range(300)],
                "flag": np.arange(300) % 2 == 0,
                7: np.arange(300.0) % 10,
            }
        )
        y, made = targets_and_intervals(250, 300)
        rows = {row.group: row.rows for row in audit(y, made, X=X).by_feature}
        labels = {name: [each for each in rows if name in each] for name in ("capped", "id", "day", "name", "flag")}
        assert [rows[each] for each in labels["capped"]] == [(X["capped"] < -1).sum(), (X["capped"] == -1).sum()]
        assert [rows[each] for each in labels["id"]] == [100] * 3
        assert labels["day"][0] == "day <= 2020-04-15"
        assert labels["day"][-1] == "day missing"
        assert len(labels["name"]) == 21
        assert labels["name"][-1] == "name = any other"
        assert labels["flag"] == ["flag = False", "flag = True"]
        assert len([each for each in rows if "column 7" in each]) == 10
        big = np.array([[10**400 + i % 2] for i in range(300)], dtype=object)
        assert [row.rows for row in audit(y, made, X=big).by_feature] == [150, 150]

    def test_mostly_infinite_intervals(self):
        width = np.where(np.arange(300) < 60, np.linspace(0.5, 1.0, 300), np.inf)
        assert len(audit(np.zeros(300), (-width, width)).table) == 2

    @pytest.mark.parametrize("kind", ["sparse", "list", "objects", "polars", "pyarrow"])
    def test_tables_of_any_kind(self, kind):
        X, y, made = self.DATA.X[:300], self.DATA.y[:300], self.MADE[:300]
        columns = {f"column {i}": X[:, i] for i in range(X.shape[1])}
        table = {
            "sparse": lambda: sparse.csr_array(X),
            "list": lambda: X.tolist(),
            "objects": lambda: X.astype(object),
            "polars": lambda: pytest.importorskip("polars").DataFrame(columns),
            "pyarrow": lambda: pytest.importorskip("pyarrow").table(columns),
        }[kind]()
        assert str(audit(y, made, X=table)) == str(audit(y, made, X=X))

    def test_features_are_standardized(self):
        """Constant features, missing values and huge numbers are allowed."""
        X = np.column_stack([self.DATA.X[:, 2] * 1e12 + 1e15, np.ones(6000), self.DATA.X[:, 1]])
        X[::7, 2] = np.nan
        found = audit(self.DATA.y, self.MADE, X=X)
        assert found.worst_region.adjusted < 0.001
        huge = audit(self.DATA.y, self.MADE, X=X * np.array([1e290, 1.0, 1.0]))
        assert huge.worst_region == found.worst_region
        assert huge.excess_risk == found.excess_risk

    def test_over_coverage_in_the_region_is_not_significant(self):
        """The region was selected for its low coverage, so only under-coverage counts."""
        x, covered = np.arange(4000.0), np.arange(4000) % 50 > 0
        found = audit(np.where(covered, 0.0, 2.0), (np.full(4000, -1.0), np.ones(4000)), X=x[:, None], level=0.9)
        assert found.worst_region.coverage > 0.95
        assert found.worst_region.adjusted > 0.99
        assert found.worst_region.p_over < 0.05

    def test_only_a_region_below_the_level_is_off(self):
        x, bounds = np.arange(4000.0)[:, None], (np.full(4000, -1.0), np.ones(4000))
        good, bad = (audit(np.where(np.arange(4000) % each, 0.0, 2.0), bounds, X=x) for each in (50, 3))
        assert good.worst_region.low > 0.9
        assert good.worst_region not in good.off
        assert bad.worst_region in bad.off

    def test_rows_that_cannot_be_split_have_no_region(self):
        """All of them are covered, or there are few, or the features are constant."""
        bounds, x = (np.full(400, -1.0), np.ones(400)), np.arange(400.0)[:, None]
        mixed = np.where(np.arange(400) % 3, 0.0, 2.0)
        made = [(np.zeros(400), x, 400), (mixed, x, 2), (mixed, np.ones((400, 2)), 400), (mixed, x, 400)]
        found = [audit(y[:n], (bounds[0][:n], bounds[1][:n]), X=X[:n]) for y, X, n in made]
        assert [each.worst_region is None for each in found] == [True, True, True, False]
        assert [each.region_rule == "" for each in found] == [True, True, True, False]
        assert "worst region" not in str(found[0]).lower()

    def test_the_region_p_value_is_multiplied_by_the_number_of_thresholds(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(2000, 2)), rng.random(2000)
        bounds, labels = (np.zeros(2000), 0.95 - 0.2 * (X[:, 0] > 0.5)), np.arange(2000) % 4
        for sizes, n_thresholds in ((200, 1), (dict.fromkeys(range(4), 200), 4)):
            found = audit(y, bounds, X=X, groups=labels, calibration_sizes=sizes)
            tested = [*found.table, found.overall]
            raw = [min(1.0, 2 * min(row.p_under, row.p_over)) for row in tested]
            region = found.worst_region
            assert region.adjusted == holm([*raw, n_thresholds * region.p_under])[-1] < 0.5

    def test_the_excess_risk_compares_with_the_level(self):
        """If all predictions are 0.5 and all rows are covered, the squared errors are 0.01 and 0.25."""
        rng = np.random.default_rng(0)
        X = np.zeros((400, 1))
        covered = np.append(np.arange(200) % 2 == 0, np.ones(200, dtype=bool))
        found = regions.excess_risk(X, covered, (np.arange(200), np.arange(200, 400)), 0.9, rng)
        np.testing.assert_allclose(found.value, 0.01 - 0.25, atol=1e-6)

    def test_features_are_holm_adjusted_jointly(self):
        rng = np.random.default_rng(0)
        found = audit(rng.random(600), (np.zeros(600), np.full(600, 0.9)), X=rng.normal(size=(600, 4)))
        raw = [min(1.0, 2 * min(row.p_under, row.p_over)) for row in found.by_feature]
        np.testing.assert_allclose([row.adjusted for row in found.by_feature], holm(raw))
        assert min(raw) < min(row.adjusted for row in found.by_feature)

    def test_the_same_rows_by_several_features_are_reported_once(self):
        """Country, code and number: the first column is named, the others are added. The tests stay as they are."""
        rng = np.random.default_rng(0)
        country = rng.choice(["Cuba", "Greece", "Peru"], 3000)
        y = rng.normal(scale=np.where(country == "Greece", 3.0, 1.0))
        codes = np.array(["CU", "GR", "PE"])[np.unique(country, return_inverse=True)[1]]
        pd = pytest.importorskip("pandas", reason="pandas is not installed")
        table = pd.DataFrame({"country": country, "code": codes, "north": np.where(codes == "GR", 1, 0)})
        made = (np.full(3000, -1.645), np.full(3000, 1.645))
        found, alone = audit(y, made, X=table), audit(y, made, X=table[["country"]])
        once = {row.group: row.also for row in found.by_feature}
        assert once == {
            "country = Cuba": ("code = CU",),
            "country = Greece": ("code = GR", "north = 1"),
            "country = Peru": ("code = PE",),
            "north = 0": (),
        }
        greece = found.features_off[0]
        assert coverage_text(greece).endswith(f" % of {greece.rows} rows; also code = GR, north = 1)")
        assert found.region_rule == "country = Greece"
        assert str(found).count("code = GR") == 1
        assert "country = Greece (also code = GR, north = 1)" in report_text(found)
        cuba, greece, peru, north = (min(1.0, 2 * min(row.p_under, row.p_over)) for row in found.by_feature)
        adjusted = holm([cuba, greece, peru, cuba, greece, peru, north, greece])
        assert [row.adjusted for row in found.by_feature] == pytest.approx([*adjusted[:3], adjusted[6]])
        assert [row.also for row in alone.by_feature] == [(), (), ()]

    def test_the_advice_names_features_in_addition_to_groups(self):
        settings = {"X": self.DATA.X, "groups": np.arange(6000) % 2}
        found = audit(self.DATA.y, self.MADE, **settings)
        assert f"rows with {found.region_rule} (" in found.headline
        assert str(found.features_off[0].group).startswith("column 2")
        own = {"calibration_sizes": {0: 1500, 1: 1500}}  # then the verdict is on the groups only
        for verdict, tolerance in (("even", 0.03), ("undecided", 0.01)):
            found = audit(self.DATA.y, self.MADE, **settings, **own, tolerance=tolerance)
            assert found.verdict == verdict
            features = ", ".join(
                [audited_group_text(found, found.worst_region), *map(coverage_text, found.features_off)]
            )
            assert f"covered too rarely or too often: {features}." in found.advice

    @pytest.mark.parametrize("repeats", [50, pytest.param(1000, marks=pytest.mark.slow)])
    def test_region_and_excess_risk_tests_keep_their_size(self, repeats):
        """The worst region of a perfect predictor is not significant on rows that were not used to select it.

        On the rows that were used, 58 % of the p-values are below 0.05, which is found with probability 0.99999
        (binomial), and all of those of the excess risk.
        """
        rng = np.random.default_rng(1)
        region_p, risk_p, coverages = [], [], []
        for seed in range(repeats):
            X, y = rng.normal(size=(240, 3)), rng.random(240)
            found = audit(y, (np.zeros(240), np.full(240, 0.9)), X=X, seed=seed)
            region_p.append(found.worst_region.p_under)
            coverages.append(found.worst_region.coverage)
            risk_p.append(found.excess_risk.p_value)
        assert abs(np.mean(coverages) - 0.9) < 0.02
        assert np.mean(np.array(region_p) <= 0.05) <= binom.isf(ONE_IN_A_MILLION, repeats, 0.05) / repeats
        assert kstest(risk_p, "uniform").pvalue > ONE_IN_A_MILLION

    def test_the_excess_risk_of_many_rows_uses_the_normal_limit(self, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 2))
        covered = rng.random(3000) < 0.9 - 0.03 * X[:, 0]
        halves = np.arange(1500), np.arange(1500, 3000)
        drawn = regions.excess_risk(X, covered, halves, 0.9, rng)
        monkeypatch.setattr(regions, "_MAX_PERMUTED_ROWS", 10)
        normal = regions.excess_risk(X, covered, halves, 0.9, rng)
        assert drawn.value == normal.value
        assert abs(drawn.p_value - normal.p_value) < 0.05
        nothing = regions.excess_risk(np.zeros((3000, 2)), covered, halves, 0.9, rng)
        assert nothing.p_value == 1.0


class TestRaisedCoverage:
    """Tied scores, and points that replace empty intervals, raise coverage above the law; `audit` knows it unasked."""

    @staticmethod
    def targets(rng, n):
        """Return targets whose absolute values are 0 (86 %), 1 (8 %) or larger, so that the threshold at 0.9 is 1."""
        u = rng.random(n)
        return np.where(u < 0.86, 0.0, np.where(u < 0.94, 1.0, 1.0 + u))

    @pytest.mark.parametrize("make", [calibrate_groups, two_tails_of_groups])
    def test_intervals_know_that_scores_are_tied(self, make):
        rng, groups = np.random.default_rng(0), np.repeat(["a", "b"], 500)
        tied = make(np.where(groups == "a", self.targets(rng, 1000), rng.normal(size=1000)), groups)
        assert tied.guarantee.tied == ("a",)
        assert "Tied scores raise the coverage of these groups: a." in str(tied.guarantee)
        assert make(rng.normal(size=1000), groups).guarantee.tied == ()

    def test_a_group_that_ties_raise_beyond_the_tolerance_is_not_even(self):
        """The true coverage of one of three groups is 0.94 at level 0.9.

        If ties were ignored, nearly all verdicts would be `even`, and more than 8 of 20 are too many.
        """
        rng, groups, repeats = np.random.default_rng(1), np.arange(6000) % 3, 20
        known, untold = [], []
        for _ in range(repeats):
            y = np.where(groups, rng.normal(size=6000), self.targets(rng, 6000))
            calibration = calibrate(y[:4000], np.zeros(4000), groups=groups[:4000])
            intervals = calibration.interval(np.zeros(2000), groups=groups[4000:])
            known.append(audit(y[4000:], intervals, split_at_random=True).verdict)
            untold.append(audit(y[4000:], intervals, split_at_random=True, tied_scores=False).verdict)
        assert known.count("even") <= binom.isf(ONE_IN_A_MILLION, repeats, 0.05)
        assert untold.count("even") > binom.isf(ONE_IN_A_MILLION, repeats, 0.05)
        assert "uneven" not in known

    def test_points_that_replace_empty_intervals_are_not_too_wide(self):
        """A tenth of the predictions is far below 0, and the targets there are 0: the points cover all of them."""
        rng = np.random.default_rng(2)
        center = np.where(np.arange(3000) % 10 == 0, -9.0, 5.0)
        y = np.where(center < 0, 0.0, 5 + rng.uniform(-1, 1, 3000))
        calibration = calibrate(y[:2000], center[:2000], nonconformity=Bounded(Residual(), y_min=0))
        intervals = calibration.interval(center[2000:], level=0.85)
        assert intervals.n_replaced == 100
        assert intervals.guarantee.replaces_empty
        found = audit(y[2000:], intervals, groups=np.zeros(1000), split_at_random=True)
        assert found.overall.coverage > 0.93 > found.overall.inside
        assert (found.verdict, found.off) == ("undecided", ())
        assert found.shown_within > 0.08
