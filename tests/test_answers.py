"""The answers of a result: headlines, advice that fits the case, settings as text."""

import math
import re
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from evencover import (
    Audit,
    Bounded,
    ByFeature,
    ByPrediction,
    BySpread,
    Diagnosis,
    IntervalDistance,
    Intervals,
    IntervalUnion,
    Marginal,
    Normalized,
    Prediction,
    Product,
    RelativeIntervalDistance,
    Residual,
    Rows,
    audit,
    calibrate,
    diagnose_scores,
)
from evencover.diagnostics import rows_needed
from evencover.report.writing import data_of
from evencover.studies import Plan, Study, study
from evencover.taxonomies import group_meaning
from evencover.words import advice
from evencover.words.advice import advice_on_audit, advice_on_study
from evencover.words.answers import is_even
from evencover.words.settings import COMMAND_LINE, PYTHON
from tests.report_pages import report_page, report_text

pytestmark = pytest.mark.usefixtures("few_trees")


def advice_text(audited, style, of_study):
    """Return the advice on an audit of a study as text."""
    return str(advice_on_audit(audited, style, of_study))


def counted_audit(counts, *, sizes=None, tolerance=0.03, **settings):
    """Return the audit of groups a, b, ... with the given pairs of covered rows and rows."""
    covered = np.concatenate([np.arange(n) < x for x, n in counts])
    groups = np.repeat(list("abcdefgh"[: len(counts)]), [n for _, n in counts])
    known = None if sizes is None else dict(zip("abcdefgh", sizes, strict=False))
    bounds = np.zeros(len(groups)), np.ones(len(groups))
    y = np.where(covered, 0.5, 2.0)
    return audit(y, bounds, groups=groups, calibration_sizes=known, tolerance=tolerance, **settings)


def facts(
    taxonomy=None,
    *,
    rows=10_000,
    held_out=None,
    one_threshold="even",
    model="boosting",
    explains_nothing=False,
    wider=False,
    per_group=True,
):
    """Return what advice needs to know of a study: by default, of three groups of the spread."""
    return SimpleNamespace(
        diagnosis=SimpleNamespace(verdict=one_threshold, inputs=SimpleNamespace(taxonomy=taxonomy or BySpread(3))),
        n_rows=rows,
        sizes={"training": rows - (held_out or rows // 10), "held_out": held_out or rows // 10},
        plan=Plan(),
        model_name=model,
        quality=SimpleNamespace(
            explains_nothing=explains_nothing,
            may_be_chance=False,
            wider_than_without_model=wider,
            side=None,
            mean_width=115.2,
            no_model_width=109.0,
            no_model_interval=(138.0, 247.0),
        ),
        per_group=per_group,
        time=None,
        share_outside_support=0.0,
        extremes=(),
        evidence=SimpleNamespace(kind="turns"),
    )


class TestHeadline:
    """What is known, in numbers and plain words."""

    @pytest.mark.parametrize(
        ("level", "expected"),
        [(0.5, "half"), (0.9, "nine in ten"), (0.95, "19 in 20"), (0.97, "97 in 100"), (0.999, "99.9 %")],
    )
    def test_levels_in_words(self, level, expected):
        found = counted_audit([(round(1000 * level), 1000)], level=level)
        assert found.headline.startswith(f"As asked, about {expected}: ")

    @pytest.mark.parametrize("covered", [870, 930])
    def test_shares_at_the_tolerance_are_as_asked(self, covered):
        """0.93 - 0.9 is a little more than 0.03, and 0.9 - 0.87 as well."""
        assert abs(covered / 1000 - 0.9) > 0.03
        found = replace(counted_audit([(covered, 1000)]), in_turn=True)
        found = replace(found, overall=replace(found.overall, adjusted=np.nan))
        assert found.headline.startswith("As asked, about nine in ten: ")

    def test_undecided(self):
        found = counted_audit([(174, 195), (174, 195), (173, 196)])
        assert found.verdict == "undecided"
        assert found.headline == (
            "As asked, about nine in ten: 88.9 % of 586 test rows. No group is shown to be off; each lies between "
            "81.6 % and 94 %."
        )
        assert found.shown_within == max(row.within for row in found.table) == pytest.approx(0.0621, abs=1e-4)

    def test_even(self):
        found = counted_audit([(9000, 10_000), (8980, 10_000)])
        assert found.headline.startswith(
            "As asked, about nine in ten: 89.9 % of 20 000 test rows. Every group is within"
        )

    def test_off_groups_are_named_with_their_rows(self):
        found = counted_audit([(500, 1000), (990, 1000), (0, 14)])
        assert [row.group for row in found.off] == ["a", "b", "c"]
        assert found.headline.endswith(
            "Covered too rarely: a (50.0 % of 1000 rows), c (0.0 % of 14 rows). "
            "Covered too often: b (99.0 % of 1000 rows)."
        )

    def test_a_group_whose_interval_contains_the_level_is_not_named(self):
        found = counted_audit([(500, 1000), (10, 14)])
        assert "b (" not in found.headline

    def test_more_and_fewer_than_asked_and_few_rows(self):
        assert counted_audit([(841, 1000)]).headline.startswith("Fewer than asked: 84.1 % of 1000 test rows, not about")
        assert counted_audit([(980, 1000)]).headline.startswith("More than asked: 98.0 % of 1000 test rows")
        assert counted_audit([(1770, 2000)]).headline.startswith("A little less than asked, about nine in ten: 88.5 %")
        few = counted_audit([(8, 10)])
        assert few.headline.startswith(
            "About nine in ten were asked; 80.0 % of 10 test rows are covered, and chance can"
        )

    def test_many_rows_at_0907_are_even(self):
        """Significant, but within the tolerance."""
        found = counted_audit([(90_700, 100_000)])
        assert found.table[0].adjusted < 1e-6
        assert (found.verdict, found.off) == ("even", ())


def test_pictures_follow_the_rule():
    """A group inside the tolerance is not orange, however small its p-value; one that is off is."""
    found = counted_audit([(45_900, 50_000), (420, 500), (9000, 10_000)])
    assert [row.adjusted < 0.05 for row in found.table] == [True, True, False]
    assert re.findall('class="(span [^"]*)"', report_page(found)) == ["span on", "span off", "span on"]
    assert [row.group for row in found.off] == ["b"]


class TestEvidence:
    """Which rows the intervals use."""

    def test_calibration_and_test_rows_count_together(self):
        """400 + 200 rows show more than 200 rows."""
        counts = [(180, 200)] * 3
        both, tested = counted_audit(counts, sizes=[400] * 3, split_at_random=True), counted_audit(counts)
        assert (both.evidence, tested.evidence) == ("calibration and test rows", "test rows")
        assert both.own_thresholds
        assert not tested.own_thresholds
        assert both.shown_within == pytest.approx(0.0292, abs=1e-4)
        assert tested.shown_within == pytest.approx(0.0420, abs=1e-4)

    def test_rows_that_may_have_changed_must_show_it_by_themselves(self):
        """Calibration rows alone would put a group with 172 of 200 near the level."""
        counts = [(172, 200), (180, 200), (180, 200)]
        split, later = (counted_audit(counts, sizes=[4000] * 3, split_at_random=each) for each in (True, False))
        assert (split.verdict, later.verdict) == ("even", "undecided")
        assert (split.evidence, later.evidence) == ("calibration and test rows",) * 2
        assert later.table[0].low < 0.87 < split.table[0].low

    def test_calibration_rows_do_not_count_against_the_test_rows(self):
        """If the tests reject, a long calibration cannot hide it."""
        counts = [(160, 200), (180, 200), (180, 200)]
        found, tested = counted_audit(counts, sizes=[100_000] * 3), counted_audit(counts)
        assert found.evidence == "test rows"
        assert found.verdict == "uneven"
        assert [(row.low, row.high) for row in found.table] == [(row.low, row.high) for row in tested.table]

    def test_groups_that_share_a_threshold_have_no_calibration_rows_of_their_own(self):
        found = counted_audit([(180, 200)] * 3, sizes=None)
        shared = audit(
            np.where(np.arange(600) % 10, 0.5, 2.0),
            (np.zeros(600), np.ones(600)),
            groups=np.repeat(list("abc"), 200),
            calibration_sizes=1200,
        )
        assert shared.evidence == found.evidence == "test rows"

    def test_one_threshold_with_its_diagnosis(self):
        rng = np.random.default_rng(0)
        old, new, groups = rng.exponential(size=1200), rng.exponential(size=600), np.arange(600) % 3
        diagnosis = diagnose_scores(old, np.arange(1200) % 3)
        bounds = np.zeros(600), np.full(600, diagnosis.threshold)
        alone, both = (
            audit(new, bounds, groups=groups, calibration_sizes=1200, diagnosis=d) for d in (None, diagnosis)
        )
        assert (alone.evidence, both.evidence) == ("test rows", "calibration and test rows")
        assert both.shown_within < alone.shown_within
        for narrow, wide in zip(both.table, alone.table, strict=True):
            assert narrow.high - narrow.low < wide.high - wide.low
            assert narrow.low < narrow.estimate < narrow.high
        with pytest.raises(ValueError, match=r"diagnosis .* groups .* \[0, 1\]; got \[0, 1, 2\]"):
            audit(new, bounds, groups=groups % 2, diagnosis=diagnosis)
        with pytest.raises(TypeError, match=r"diagnosis must be a Diagnosis.* got str"):
            audit(new, bounds, groups=groups, diagnosis="uneven")
        with pytest.raises(ValueError, match=r"diagnosis .* level .*0\.8; got 0\.9"):
            audit(new, bounds, groups=groups, diagnosis=diagnosis, level=0.8)


class TestAdvice:
    """It fits the case, names what can be done, and asks for no rows that nobody can collect."""

    def test_undecided(self):
        found = counted_audit([(174, 195)] * 3)
        assert found.advice == (
            "Use the intervals. If anything between 84 % and 96 % in every group is good enough for you, nothing more "
            "is needed: with tolerance=0.06, the groups count as even. To know more, compare fewer groups."
        )
        assert counted_audit([(174, 195)] * 3, tolerance=0.06).verdict == "even"

    def test_groups_of_rows_that_take_turns_say_how_many_rows_they_need(self):
        """Of the smallest group; with ties, rows can suffice, and it is not sure all the same."""
        found = counted_audit([(90, 100), (180, 200)], sizes=[100, 200], tolerance=0.03)
        known = {"in_turn": True, "own_thresholds": True, "evidence": "calibration rows", "verdict": "undecided"}
        each = rows_needed(0.9, 0.03, 0.95**0.5)
        needed = f"takes at least about {10 * math.ceil(each * 300 / 100 / 10)} held-out rows."
        assert is_even(replace(found, **known)).endswith(
            f"To be sure that it lies between 87 % and 93 %, which counts as even, {needed}"
        )
        rare = counted_audit([(90, 100), (810, 900)], sizes=[100, 900], tolerance=0.03)
        assert is_even(replace(rare, **known)).endswith(" held-out rows, because a has only 100 of 1000.")
        many = counted_audit([(900, 1000), (900, 1000)], sizes=[1000, 1000], tolerance=0.03)
        not_sure = "It is not sure that it lies between 87 % and 93 %, which would count as even."
        assert is_even(replace(many, **known)).endswith(not_sure)
        assert is_even(replace(found, **known, raised=True)).endswith(not_sure)

    def test_a_study_names_settings_that_would_decide(self):
        """With these settings, most verdicts are decided. If half of the rows test, more of them are needed."""
        found = counted_audit([(540, 600)] * 5, sizes=[1200] * 5)
        assert found.verdict == "even"
        in_order = replace(found, verdict="undecided", shown_within=0.04)
        in_turn = replace(in_order, in_turn=True)
        for style, groups, share in (
            (COMMAND_LINE, "--groups spread:3", "--held-out 0.2"),
            (PYTHON, "taxonomy=BySpread(n_groups=3)", "held_out=0.2"),
        ):
            text = advice_text(in_turn, style, facts(BySpread(5), rows=30_000))
            ways = f"use fewer groups ({groups}) or hold out more of the rows, at the expense of the model ({share})."
            assert text.endswith(f" To know more, {ways}")
        assert "(--held-out 0.3)" in advice_text(in_order, COMMAND_LINE, facts(BySpread(5), rows=30_000))
        sizes = (200, 600, 600, 600, 1000)
        uneven = tuple(replace(row, rows=n) for row, n in zip(in_turn.table, sizes, strict=True))
        rare = replace(in_turn, table=uneven)
        assert "(held_out=0.4)" in advice_text(rare, PYTHON, facts(BySpread(5), rows=30_000))
        shared = replace(in_turn, own_thresholds=False)
        assert "(--held-out 0.3)" in advice_text(shared, COMMAND_LINE, facts(BySpread(5), rows=30_000))
        few = replace(in_turn, overall=replace(in_turn.overall, rows=30))
        assert advice_text(few, COMMAND_LINE, facts(BySpread(5), rows=300)).endswith(
            "To know a little more, hold out more of the rows, at the expense of the model (--held-out 0.2), or use a "
            "larger table."
        )
        unknown = replace(in_turn, shown_within=0.4)  # no tolerance that says anything
        assert advice_text(unknown, COMMAND_LINE, facts(BySpread(5), rows=300)) == (
            "Use the intervals. To know a little more, hold out more of the rows, at the expense of the model "
            "(--held-out 0.2), or use a larger table."
        )
        few = replace(in_turn, overall=replace(in_turn.overall, rows=100))
        text = advice_text(few, COMMAND_LINE, facts(BySpread(5), rows=300, held_out=100))
        assert text.endswith("Only a larger table can show more.")

    def test_groups_with_their_own_threshold_that_are_still_off(self):
        found = counted_audit([(1800, 2000), (1800, 2000), (1800, 2000), (840, 1000)], sizes=[4000] * 4)
        assert found.advice.startswith("Find the reason: 1 group is off although each group has its own threshold.")
        assert all(reason in found.advice for reason in ("chance", "drift", "belong together", "numbers the rows"))
        assert "COLUMN" not in found.advice
        python = advice_text(found, PYTHON, facts())
        assert all(setting in python for setting in ("clusters=COLUMN", "drop=COLUMN", "seed=1"))
        text = advice_text(found, COMMAND_LINE, facts())
        assert all(option in text for option in ("--clusters COLUMN", "--drop COLUMN", "--seed 1"))

    def test_low_everywhere_although_the_calibration_rows_were_held_out(self):
        known, unknown = counted_audit([(841, 1000)], sizes=[4000]), counted_audit([(841, 1000)])
        assert "drift" in known.advice
        assert "belong together" in known.advice
        assert "not trained on" not in known.advice
        assert "not trained on" in unknown.advice

    def test_one_threshold(self):
        found = counted_audit([(990, 1000), (800, 1000), (910, 1000)])
        one = facts(per_group=False)
        assert advice_text(found, COMMAND_LINE, one).startswith("Run again with --groups spread:3: then each")
        text = advice_text(found, PYTHON, facts(ByFeature("region"), per_group=False))
        assert text.startswith("Use taxonomy=ByFeature(column='region'): then")
        assert found.advice.startswith("Calibrate per group")
        even = counted_audit([(9000, 10_000)] * 3)
        text = advice_text(even, COMMAND_LINE, facts(one_threshold="uneven", per_group=False))
        assert text.startswith("Run again with --groups spread:3")

    def test_the_option_of_an_action_is_data(self):
        found = counted_audit([(990, 1000), (800, 1000), (910, 1000)])
        taxonomy = ByFeature("my region")
        options = [
            advice_on_audit(found, each, facts(taxonomy, per_group=False)).option for each in (COMMAND_LINE, PYTHON)
        ]
        assert options == [("--groups", "column:my region"), ()]
        assert advice_on_audit(found, COMMAND_LINE, facts()).option == ()

    def test_coverage_far_from_the_level_is_not_relied_on(self):
        """77 % of 64 rows is not shown to be wrong with so few calibration rows, but nobody should trust 90 %."""
        found = counted_audit([(49, 64)], sizes=[40])
        assert found.overall.adjusted > 0.05
        assert found.headline.startswith("About nine in ten were asked; 76.6 % of 64 test rows are covered, and chance")
        assert found.advice.startswith("Do not rely on the level yet: 76.6 % of 64 test rows are covered, not 90.0 %.")

    def test_coverage_of_rows_that_were_tested_in_turn_is_relied_on(self):
        """Their coverage is near the level by construction, so a distance from it says nothing about new rows."""
        found = replace(counted_audit([(42, 50), (43, 50)], sizes=[50, 50]), in_turn=True, verdict="undecided")
        assert found.advice.startswith("Use the intervals. If anything between ")

    def test_one_row_from_the_level_is_as_asked(self):
        """15 of 16 is as near to 90 % as 14 of 16."""
        assert counted_audit([(15, 16)]).headline.startswith("As asked, about nine in ten")

    def test_all_rows_can_be_off_although_no_group_is(self):
        found = counted_audit([(82, 96), (82, 96), (82, 96), (82, 96)])
        assert (found.verdict, [row for row in found.table if row in found.off]) == ("uneven", [])
        assert found.headline.endswith("No single group is shown to be off, but all rows together are.")

    def test_more_than_asked_is_said_only_if_it_is_shown(self):
        """Clopper-Pearson alone would say so, but few calibration rows can explain it."""
        found = counted_audit([(98, 100)], sizes=[25])
        assert found.overall.low > 0.9
        assert found.overall.adjusted > 0.05
        assert "More than asked" not in found.headline

    def test_a_model_that_explains_nothing(self):
        even = counted_audit([(9000, 10_000)] * 3)
        text = advice_text(even, COMMAND_LINE, facts(explains_nothing=True))
        assert text == (
            "Do not use this model: it explains nothing. One interval for all rows, from 138 to 247, needs no "
            "model, and its interval score, which counts width and misses, is about as low. Run again with --model "
            "linear: another kind of model, or better features, may explain more."
        )
        text = advice_text(even, PYTHON, facts(explains_nothing=True, model="linear"))
        assert "Use model='boosting'" in text

    @pytest.mark.parametrize("counts", [[(9000, 10_000)] * 3, [(19, 20)]])
    def test_intervals_that_are_wider_than_without_a_model(self, counts):
        """Whatever is known of the coverage, nobody should use them."""
        for model, remedy in (("stack", "More rows, or columns that explain more"), ("forest", "Use model='linear'")):
            text = advice_text(counted_audit(counts), PYTHON, facts(wider=True, model=model))
            assert text.startswith(
                "Do not use this model: its intervals are not narrower (115.2 on average) than one interval for all "
                "rows, which needs no model (109, from 138 to 247). "
            )
            assert remedy in text
            assert "good enough" not in text

    @pytest.mark.parametrize("model", ["best-of-three", "stack"])
    def test_several_kinds_of_models_that_explain_nothing(self, model):
        found = advice_on_audit(
            counted_audit([(9000, 10_000)] * 3), COMMAND_LINE, facts(explains_nothing=True, model=model)
        )
        assert "Add columns that explain the target: with the current ones, several kinds of models" in str(found)
        assert found.option == ()

    def test_a_region_inside_a_group_with_its_own_threshold(self):
        """It is named, but the verdict is about the groups."""
        x = np.arange(8000) % 100 / 100
        covered = np.random.default_rng(0).random(8000) < np.where(x < 0.2, 0.7, 0.95)
        y, bounds = np.where(covered, 0.5, 2.0), (np.zeros(8000), np.ones(8000))
        groups = np.where(np.arange(8000) < 4000, "a", "b")
        found = audit(y, bounds, X=x[:, None], groups=groups, calibration_sizes={"a": 8000, "b": 8000})
        assert (found.verdict, found.off) == ("even", ())
        assert f"rows with {found.region_rule} (" in found.advice
        shared = audit(y, bounds, X=x[:, None], groups=groups, calibration_sizes=16_000)
        assert shared.verdict == "uneven"
        assert shared.advice.startswith(f"Give the rows with {shared.region_rule} their own threshold")

    def test_one_group_is_not_said_to_be_off_like_all(self):
        """Without groups, only the share of all rows is known."""
        bounds = (np.zeros(2000), np.ones(2000))
        y = np.where(np.arange(2000) % 10 < 7, 0.5, 2.0)
        assert "all groups are off about equally" in audit(y, bounds, groups=np.arange(2000) % 20 < 10).advice
        alone = audit(y, bounds, groups=np.zeros(2000)).advice
        assert alone.startswith("Calibrate the intervals on rows that the model was not trained on")
        assert "groups" not in alone.partition(".")[0]


class TestWholeNumbers:
    """Many targets lie exactly on a bound, so narrower intervals would miss them."""

    @staticmethod
    def counts(share, seed=0):
        """Return 3000 targets, of which this share is 2 and the others are larger, in two groups."""
        rng = np.random.default_rng(seed)
        return np.where(rng.random(3000) < share, 2.0, 3.0 + rng.poisson(1, 3000)), np.arange(3000) % 2

    def test_points_that_cover_more_than_the_level_are_as_even_as_possible(self):
        y, groups = self.counts(0.97)
        found = audit(y, (np.full(3000, 2.0), np.full(3000, 2.0)), groups=groups)
        assert (found.verdict, found.off) == ("undecided", ())
        assert found.is_as_even_as_possible
        assert found.advice.startswith(
            "Use the intervals: they are right more often than asked, because many targets lie"
        )
        text = report_text(found)
        right = ", ".join(f"{row.group} ({100 * row.coverage:.1f} % of 1500 rows)" for row in found.table)
        assert f"As even as possible. No group is right too rarely. Right more often than asked: {right}." in text
        assert "are covered or missed all together" in text
        assert "and targets that lie exactly on a bound can explain the difference" in found.headline

    def test_intervals_that_could_be_narrower_are_too_wide(self):
        """The same targets strictly inside: from 1 to 3."""
        y, groups = self.counts(0.97)
        found = audit(y, (np.full(3000, 1.0), np.full(3000, 3.0)), groups=groups)
        assert found.verdict == "uneven"
        assert found.headline.startswith("More than asked")
        assert found.advice.startswith("Calibrate the intervals")

    @pytest.mark.parametrize(("low", "high"), [(-0.4, 0.4), (-1.0, 0.0), (0.0, 0.9)])
    def test_intervals_that_hold_the_same_whole_numbers_get_the_same_verdict(self, low, high):
        y, groups = self.counts(0.97)
        point, wider = (
            audit(y, (np.full(3000, 2 + a), np.full(3000, 2 + b)), groups=groups) for a, b in ((0, 0), (low, high))
        )
        assert (wider.verdict, wider.headline) == (point.verdict, point.headline)

    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize(("end", "expected"), [(3.5, "uneven"), (0.0, "undecided")])
    def test_a_limit_of_the_target_is_no_bound(self, sign, end, expected):
        """Zeros stay covered if [0, 3.5] ends earlier, so it is too wide; the point 0 cannot be narrower."""
        rng = np.random.default_rng(0)
        y = np.where(rng.random(3000) < 0.95, 0.0, rng.exponential(size=3000))
        found = audit(sign * y, np.sort(np.column_stack([np.zeros(3000), np.full(3000, sign * end)]), axis=1))
        assert found.overall.coverage > 0.93
        assert found.verdict == expected

    def test_the_bound_of_many_zeros_is_no_limit(self):
        """Nearly all scores are 0.4, and so is the threshold: with a smaller one, the zeros in [0, 0.8] are missed."""
        rng = np.random.default_rng(0)
        y, center = np.where(rng.random(6000) < 0.95, 0.0, rng.exponential(size=6000)), np.full(3000, 0.4)
        made = calibrate(y[:3000], center, nonconformity=Bounded(y_min=0)).interval(center)
        assert made.guarantee.tied
        assert (made.lower == 0).all()
        assert audit(y[3000:], made).verdict == "undecided"

    def test_too_rarely_covered_points_are_uneven(self):
        y, groups = self.counts(0.8)
        found = audit(y, (np.full(3000, 2.0), np.full(3000, 2.0)), groups=groups)
        assert found.verdict == "uneven"

    def test_pieces_that_touch_have_no_bound_between_them(self):
        lower = Intervals(np.zeros(1), np.ones(1))
        union = IntervalUnion([lower, Intervals(np.nextafter(lower.upper, np.inf), np.full(1, 2.0))])
        assert [bool(union.covers_inside([y])[0]) for y in (0.0, 0.5, 1.0, 2.0, 3.0)] == [
            False,
            True,
            True,
            False,
            False,
        ]


class TestReviewedCases:
    """Cases that were wrong once."""

    def test_with_one_group_all_rows_are_not_tested_twice(self):
        """The group is adjusted for the worst region; all rows have the same p-value."""
        x = np.arange(400) % 40 / 40
        covered = np.random.default_rng(3).random(400) < 0.87
        bounds = np.zeros(400), np.ones(400)
        found = audit(np.where(covered, 0.5, 2.0), bounds, X=x[:, None], groups=np.zeros(400))
        assert found.worst_region is not None
        assert found.overall.adjusted == found.table[0].adjusted

    def test_tied_scores_widen_the_upper_end(self):
        counts = [(290, 300)] * 3
        plain = counted_audit(counts, sizes=[100_000] * 3, tolerance=0.05)
        assert plain.evidence == "test rows"  # so many covered rows contradict the guarantee without ties
        counts = [(275, 300)] * 3
        plain, tied = (
            counted_audit(counts, sizes=[1000] * 3, tied_scores=tied, split_at_random=True) for tied in (False, True)
        )
        alone = counted_audit(counts)
        assert (plain.verdict, tied.verdict) == ("even", "undecided")
        for row, test_row, own in zip(tied.table, alone.table, plain.table, strict=True):
            assert (row.low, row.high) == (own.low, test_row.high)

    def test_the_diagnosis_must_belong_to_the_intervals(self):
        diagnosis = diagnose_scores(np.arange(1200.0), np.repeat(["a", "b", "c"], 400))
        for sizes in ({"a": 400, "b": 400, "c": 400}, 900):
            with pytest.raises(ValueError, match=r"diagnosis must .* one threshold .* 1200 calibration rows"):
                audit(
                    np.zeros(300),
                    (np.zeros(300), np.ones(300)),
                    groups=np.repeat(["a", "b", "c"], 100),
                    calibration_sizes=sizes,
                    diagnosis=diagnosis,
                )

    def test_groups_off_in_both_directions_are_named_before_drift(self):
        found = counted_audit([(690, 1000), (1000, 1000)])
        assert found.headline.startswith("Fewer than asked")
        assert found.advice.startswith("Calibrate per group")

    def test_infinite_intervals_that_are_uneven(self):
        lower, upper = np.where(np.arange(600) < 300, -np.inf, 0.0), np.where(np.arange(600) < 300, np.inf, 1.0)
        y = np.where(np.arange(600) < 400, 0.5, 2.0)
        found = audit(y, (lower, upper), groups=np.arange(600) < 300)
        assert found.verdict == "uneven"
        assert found.advice.startswith("Use more calibration rows or a lower level: 300 of 600")

    def test_levels_close_to_0_and_1(self):
        for level, covered, words in ((0.999999999, 10, "99.9999999 %"), (1e-9, 0, "1e-07 %")):
            assert counted_audit([(covered, 10)], level=level).headline.startswith(f"As asked, about {words}: ")
        found = counted_audit([(96_700, 100_000)], level=0.99)
        assert found.headline.startswith("Fewer than asked: 96.7 % of 100 000 test rows, not about 99 in 100.")

    def test_ranges_are_rounded_outwards(self):
        found = counted_audit([(166, 195), (178, 195)])
        assert (found.table[0].low, found.table[1].high) == pytest.approx((0.78492, 0.95237), abs=1e-5)
        assert found.headline.endswith("each lies between 78.4 % and 95.3 %.")
        assert "in the shaded box, between 87 % and 93 %." in report_text(found)

    @pytest.mark.parametrize(("level", "ends"), [(0.95, "91 % and 99 %"), (0.9, "86 % and 94 %")])
    def test_rounding_errors_do_not_move_the_ends_of_a_range(self, level, ends):
        """0.95 - 0.04 is a little less than 0.91, and 0.9 + 0.04 a little more than 0.94."""
        found = counted_audit([(166, 195)], level=level, tolerance=0.04)
        assert f"in the shaded box, between {ends}." in report_text(found)

    def test_very_few_rows_get_no_tolerance(self):
        found = counted_audit([(1, 1), (1, 2), (3, 3)])
        assert "tolerance" not in found.advice
        assert "The rows are too few to show more" in found.advice

    def test_three_widths_are_not_always_thirds(self):
        width = np.repeat([1.0, 2.0, 3.0], [240, 45, 15])
        found = audit(np.zeros(300), Intervals(-width / 2, width / 2))
        assert "On average 1 for the narrowest intervals, 3 for the widest ones." in report_text(found)


def test_settings_are_named_for_python_or_the_command_line():
    taxonomies = [Marginal(), BySpread(5), ByPrediction(4), ByFeature("region")]
    options = ["none", "spread:5", "prediction:4", "column:region"]
    assert [COMMAND_LINE.groups(each) for each in taxonomies] == [f"--groups {option}" for option in options]
    assert PYTHON.groups(BySpread(5)) == "taxonomy=BySpread(n_groups=5)"
    assert COMMAND_LINE.groups(Product([BySpread(2), ByPrediction(2)])).startswith("taxonomy=Product(")
    scores = {Residual(): "residual", IntervalDistance(): "interval", Normalized(): "normalized"}
    assert [COMMAND_LINE.score(score) for score in scores] == [f"--score {option}" for option in scores.values()]
    assert COMMAND_LINE.groups(ByFeature("my region")) == "--groups 'column:my region'"
    assert COMMAND_LINE.score(RelativeIntervalDistance(floor=0.01, scale=2.0)) == "--score relative-interval"
    assert COMMAND_LINE.score(Normalized(floor=0.1)) == "nonconformity=Normalized(floor=0.1)"
    assert (PYTHON.setting("held_out", 0.4), COMMAND_LINE.setting("held_out", 0.4)) == (
        "held_out=0.4",
        "--held-out 0.4",
    )


def test_the_meaning_of_groups():
    assert "low is the third that it finds easiest, high the third" in group_meaning(
        BySpread(3), ("low", "medium", "high")
    )
    assert group_meaning(BySpread(5), range(5)).startswith("The rows are in 5 groups by how large an error")
    assert group_meaning(ByPrediction(2), ("low", "high")) == (
        "The rows are in 2 groups by the predicted value, from low to high."
    )
    assert group_meaning(ByFeature("region"), ("a", "b")) == "The rows are in groups by region."
    assert group_meaning(Marginal(), ("all",)) == ""


def test_groups_of_other_sizes_are_not_called_thirds():
    """Many rows can have the same spread, and new rows can differ from the calibration rows."""
    labels = ("low", "medium", "high")
    assert "third" in group_meaning(BySpread(3), labels, [30, 40, 32])
    text = group_meaning(BySpread(3), labels, [29, 0, 0])
    assert "third" not in text
    assert text.endswith("Rows: low 29, medium 0, high 0.")
    taxonomy = BySpread(3)
    taxonomy.learn(Rows(Prediction(np.zeros(30), spread=np.repeat([1.0, 2.0], [21, 9]))))
    text = group_meaning(taxonomy, taxonomy.labels_, [21, 9])
    facts = [
        "2 groups by how large an error",
        "from low, ",
        "to high, ",
        "Rows: low 21, high 9.",
        "70 % ",
        "instead of 3",
    ]
    assert [fact for fact in facts if fact not in text] == []
    taxonomy.learn(Rows(Prediction(np.zeros(30), spread=np.ones(30))))
    assert re.fullmatch(r"All .* the same spread, .* one group instead of 3\.", group_meaning(taxonomy, ("all",), [30]))
    product = Product([BySpread(2), ByFeature("region", categories=["a", "b"])])
    X = pd.DataFrame({"region": ["a", "b"] * 10})
    product.learn(Rows(Prediction(np.zeros(20), spread=np.arange(1.0, 21.0)), X))
    assert "Rows: low 3, high 11." in group_meaning(product, product.labels_, [1, 2, 5, 6])
    assert "Rows:" not in group_meaning(product, product.labels_, [3, 4, 3, 4])


def test_widths_of_the_narrowest_and_the_widest_third():
    width = np.repeat([1.0, 2.0, 30_000.0], 100)
    found = audit(np.zeros(300), Intervals(-width / 2, width / 2))
    expected = "On average 1 for the narrowest third of the intervals, 30 000 for the widest third."
    assert expected in report_text(found)
    same = audit(np.zeros(300), Intervals(np.full(300, -1.0), np.ones(300)))
    assert "All intervals are equally wide." in report_text(same)


@pytest.mark.parametrize(("n", "text"), [(586, "586"), (9999, "9999"), (10_788, "10 788")])
def test_numbers_of_rows_have_spaces_from_ten_thousand_on(n, text):
    assert f" % of {text} test rows" in counted_audit([(n, n)]).headline


class Constant(RegressorMixin, BaseEstimator):
    """A model that predicts the mean, and a spread that does not vary."""

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def study_of_noise():
    """Return the study of a target that no feature explains, with a model that predicts a constant."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    return study(table, "y", plan=Plan(model=Constant(), nonconformity=Residual(), taxonomy=Marginal()))


class TestStudy:
    def test_a_model_that_predicts_a_constant(self):
        noise = study_of_noise()
        assert noise.quality.explains_nothing
        assert "This model explains nothing: it predicts the same number" in str(noise)
        assert noise.advice.startswith("Do not use this model: it explains nothing. One interval for all rows, from ")
        assert "Use model='linear': another kind of model" in noise.advice
        assert "Run again with --model linear" in str(advice_on_study(noise, COMMAND_LINE))

    def test_the_audit_of_a_study_has_advice_of_its_own(self):
        """It knows the rows, but not the settings of the study."""
        noise = study_of_noise()
        assert noise.advice.startswith("Do not use this model")
        assert "model" not in noise.audit.advice
        assert str(advice_on_audit(noise.audit, PYTHON, noise)) == noise.advice

    def test_advice_is_made_only_where_it_is_shown(self, monkeypatch):
        """Once for each text; results hold none."""
        made = []

        def counted(*arguments):
            made.append(arguments)
            return advice_on_audit(*arguments)

        monkeypatch.setattr(advice, "advice_on_audit", counted)
        found = study_of_noise()
        assert not made
        for show in (str, Study._repr_html_, Study.answers, data_of):
            show(found)
            assert len(made) == 1
            made.clear()
        for result in (Audit, Diagnosis, Study):
            assert not {"advice", "headline"} & {field.name for field in fields(result)}

    def test_a_constant_target_is_an_error(self):
        table = pd.DataFrame({"x": np.arange(100.0), "y": np.full(100, 3.5)})
        with pytest.raises(ValueError, match=r"target: column 'y' must vary; it is 3\.5 in every row"):
            study(table, "y")

    def test_the_answers_come_first_in_their_order(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(size=600)
        found = study(pd.DataFrame({"x": x, "y": x + rng.normal(size=600) * x}), "y", plan=Plan(model="linear"))
        lines = str(found).splitlines()
        verdict, *lines = lines[lines.index("") + 1 :][:5]
        assert verdict == f"Verdict: {found.verdict}."
        questions = [line.partition(":")[0] for line in lines]
        assert questions == list(found.answers()) == ["How often right", "How wide", "Is it even", "What to do"]

    def test_intervals_that_cannot_be_narrower_are_not_uneven(self):
        """The target has two values, and the model knows which, up to noise in a few rows: intervals are points."""
        rng = np.random.default_rng(0)
        x = rng.integers(0, 2, 3000)
        table = pd.DataFrame({"x": x.astype(float), "y": x + (rng.random(3000) < 0.04)})
        found = study(table, "y", plan=Plan(model="boosting", nonconformity=Residual(), taxonomy=Marginal()))
        assert found.audit.overall.coverage > 0.93
        assert (found.verdict, found.audit.off) == ("undecided", ())
        assert found.headline.startswith(
            "About nine in ten were asked: 95.7 % of 300 test rows are covered. For new rows like these, very "
            "likely between "
        )
        assert "are right more often than asked, because many targets lie exactly on a bound" in found.advice
