"""Results in sentences: headlines, and the four answers: how often right, how wide, is it even, what to do."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.exact_tests import CONFIDENCE, SIGNIFICANT
from evencover.diagnostics.interval_quality import NEGLIGIBLE_R2, Quality
from evencover.diagnostics.sample_sizes import rows_needed
from evencover.diagnostics.verdicts import (
    GroupAudit,
    GroupCoverage,
    HasVerdict,
    Verdict,
    cannot_be_narrower,
    excludes_level,
    explained_by_bounds,
    shown_range,
    tolerance_range,
)
from evencover.display.text import count_text, join_first, number_text, percent_text, range_text
from evencover.taxonomies import are_about_equal

HOW_OFTEN, HOW_WIDE, IS_EVEN, WHAT_TO_DO = "How often right", "How wide", "Is it even", "What to do"
HOW_FAR = "How far"  # from the predictions are one-sided bounds
ON_A_BOUND = (
    "Many of their targets lie exactly on a bound. Equal targets, such as whole numbers, are covered or missed all "
    "together, so they cannot always be covered less often."
)
_ROUNDING_MARGIN = 1e-9
_TENTHS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def audit_headline(audit: Audit) -> str:
    """Return the result of an audit in two sentences."""
    off = [(row.coverage, audited_group_text(audit, row)) for row in audit.off]
    return f"{share_text(audit)} {_groups_sentence(audit, off)}"


def diagnosis_headline(diagnosis: Diagnosis) -> str:
    """Return the result of a diagnosis in one sentence."""
    return _groups_sentence(diagnosis, [(row.coverage, coverage_text(row)) for row in diagnosis.off])


def _share_words(level: float) -> str:
    """Return a level in words: half, nine in ten, 19 in 20, 97 in 100, 99.9 %."""
    percent = round(100 * level, 6)
    if percent == 50:
        return "half"
    if percent % 10 == 0 and 10 <= percent <= 90:
        return f"{_TENTHS[int(percent // 10) - 1]} in ten"
    if percent % 5 == 0 and 0 < percent < 100:
        return f"{percent // 5:g} in 20"
    return f"{percent:g} in 100" if percent % 1 == 0 and 0 < percent < 100 else f"{100 * level:.12g} %"


def share_text(audit: Audit) -> str:
    """Return how often all rows are covered, compared with the level."""
    overall, level, covered = audit.overall, audit.level, covered_text(audit.quality)
    what = f"test targets {covered}" if covered else "test rows"
    share = f"{percent_text(overall.coverage)} of {count_text(overall.rows)} {what}"
    are_covered = "" if covered else " are covered"
    if audit.n_untested:
        return f"About {_share_words(level)} were asked. {_untested_text(audit)}{_new_rows_text(audit)}"
    if math.isinf(overall.within) and overall.coverage == 1:
        return f"{share}{are_covered}, because infinite intervals are right for every target."
    differs = overall.adjusted < SIGNIFICANT and excludes_level(overall, level)
    if differs and overall.within > _largest_close_distance(audit) + _ROUNDING_MARGIN:
        more_or_fewer = "Fewer" if overall.coverage < level else "More"
        return f"{more_or_fewer} than asked: {share}, not about {_share_words(level)}."
    if is_close(audit):
        less_or_more = "A little less than" if overall.coverage < level else "A little more than"
        noticeable = differs and abs(overall.coverage - level) > audit.tolerance / 3
        asked = f"{less_or_more} asked" if noticeable else "As asked"
        return f"{asked}, about {_share_words(level)}: {share}.{_new_rows_text(audit)}"
    if audit.in_turn:
        return f"About {_share_words(level)} were asked: {share}{are_covered}.{_new_rows_text(audit)}"
    cause = "targets that lie exactly on a bound" if explained_by_bounds(overall, level) else "chance"
    return f"About {_share_words(level)} were asked; {share}{are_covered}, and {cause} can explain the difference."


def _new_rows_text(audit: Audit) -> str:
    """Return what follows for new rows, if rows took turns: their own share is near the level by construction."""
    if not audit.overall_by_law:
        return ""
    between = range_text(audit.overall.low, audit.overall.high)
    return f" For new rows like these, very likely between {between} of the {audit.quality.noun} will be right."


def _untested_text(audit: Audit) -> str:
    """Return how many rows were not tested, because the calibration rows of the test are too few."""
    kind, behind = ("held-out", "half of them") if audit.in_turn else ("test", "the calibration rows before them")
    which, others = f"The {kind} rows", ""
    if audit.n_tested:
        which = f"{count_text(audit.n_untested)} of {count_text(audit.overall.rows)} {kind} rows"
        behind = f"{'half of the rows' if audit.in_turn else 'the calibration rows'} of their group"
        others = f" Of the others, {percent_text(audit.overall.coverage)} are covered."
    return f"{which} cannot be tested: {behind} are too few for finite {audit.quality.noun}.{others}"


def is_close(audit: Audit) -> bool:
    """Return whether the coverage of all rows is near the level, or as near as the number of rows allows."""
    distance = abs(audit.overall.coverage - audit.level)
    as_near_as_possible = distance * audit.overall.rows < 1 - _ROUNDING_MARGIN
    return bool(distance <= _largest_close_distance(audit) + _ROUNDING_MARGIN or as_near_as_possible)


def _largest_close_distance(audit: Audit) -> float:
    """Return the tolerance; at high levels, no more than the share that may be missed."""
    return min(audit.tolerance, 1 - audit.level)


def _groups_sentence(result: HasVerdict, off: Sequence[tuple[float, str]]) -> str:
    """Return which groups are off (coverage and text of each), or where the coverage of every group lies."""
    if off:
        return _off_sentences(off, result.level, "Covered too rarely", "Covered too often")
    if result.verdict == "uneven":
        return "No single group is shown to be off, but all rows together are."
    several = sum(row.rows > 0 for row in result.table) > 1
    between = f"between {range_text(*shown_range(result))}"
    if not several:
        return f"The true share lies {between}."
    within = f"Every group is within {result.tolerance:.2g} of the level"
    state = within if result.verdict == "even" else "No group is shown to be off"
    return f"{state}; each lies {between}."


def _off_sentences(off: Sequence[tuple[float, str]], level: float, too_rarely: str, too_often: str) -> str:
    """Return the groups that are off, below and above the level, each list after its words."""
    rare = join_first(text for share, text in off if share < level)
    often = join_first(text for share, text in off if share >= level)
    return " ".join([f"{too_rarely}: {rare}."] * bool(rare) + [f"{too_often}: {often}."] * bool(often))


def answers(audit: Audit, advice: str) -> dict[str, str]:
    """Return the four answers, in the order of reading; the last is the advice."""
    return {
        HOW_OFTEN: share_text(audit),
        HOW_WIDE if audit.quality.side is None else HOW_FAR: how_wide(audit),
        IS_EVEN: is_even(audit),
        WHAT_TO_DO: advice,
    }


def answer_lines(verdict: Verdict, found: Mapping[str, str]) -> list[str]:
    """Return how the text of a result begins: the verdict, then the answers, and an empty line."""
    return [f"Verdict: {verdict}.", *(f"{question}: {answer}" for question, answer in found.items()), ""]


def how_wide(audit: Audit) -> str:
    """Return the widths: typical, without any model, of the narrowest and the widest third; what the model explains.

    Of one-sided bounds, return the distance from the predictions instead of the widths.
    """
    quality = audit.quality
    thirds = thirds_text(audit.by_width, number_text) if quality.side is None else ""
    return " ".join(filter(None, [width_text(quality), thirds, model_text(quality)]))


def thirds_text(by_width: Sequence[GroupAudit], number: Callable[[float], str]) -> str:
    """Return the mean widths of the narrowest and the widest intervals; `number` writes a number as text."""
    rows = [row for row in by_width if row.rows]
    if len(rows) < 2:
        return "All intervals are equally wide."
    thirds = len(rows) == 3 and are_about_equal([row.rows for row in rows])
    which = ("third of the intervals", "third") if thirds else ("intervals", "ones")
    narrow, wide = (number(rows[end].width) for end in (0, -1))
    return f"On average {narrow} for the narrowest {which[0]}, {wide} for the widest {which[1]}."


def is_even(audit: Audit) -> str:
    """Return whether all groups are right as often as asked, with numbers."""
    if audit.verdict == "uneven":
        return f"No. {_what_is_off(audit)}"
    several = sum(row.rows > 0 for row in audit.table) > 1
    shown = range_text(*shown_range(audit))
    where = f"the true share of right {audit.quality.noun}" + " in every group" * several
    if audit.verdict == "even":
        return f"Yes. {where.capitalize()} lies between {shown}."
    if audit.n_infinite:
        return f"Not known yet. {_infinite_text(audit)}"
    if audit.is_as_even_as_possible:
        named = join_first(map(coverage_text, cannot_be_narrower(audit)))
        return f"As even as possible. No group is right too rarely. Right more often than asked: {named}. {ON_A_BOUND}"
    asked = range_text(*tolerance_range(audit))
    if audit.own_thresholds and audit.evidence == "calibration rows":
        return (
            f"As even as the rows allow. Each group has a threshold from its own rows: {where} lies between {shown}. "
            f"{_rows_for_even(audit)}"
        )
    groups = "No group is shown to be off" if several else "It is not shown to be off"
    return (
        f"Not known yet. {groups}: {where} lies between {shown}. The rows are too few to be sure that it lies between "
        f"{asked}, which would count as even."
    )


def _rows_for_even(audit: Audit) -> str:
    """Return how many held-out rows groups with thresholds of their own need at least, to be even by their law."""
    groups, n = [row for row in audit.table if row.rows], audit.overall.rows
    smallest = min(groups, key=lambda row: row.rows)
    needed = rows_needed(audit.level, audit.tolerance, CONFIDENCE ** (1 / len(groups))) * n / smallest.rows
    asked = range_text(*tolerance_range(audit))
    if audit.raised or needed <= n:  # with ties, the number of rows that this takes is not known
        return f"It is not sure that it lies between {asked}, which would count as even."
    rows = count_text(10 * math.ceil(needed / 10))
    because = f", because {smallest.group} has only {count_text(smallest.rows)} of {count_text(n)}"
    few = because * (smallest.rows < n / len(groups) / 2)
    return (
        f"To be sure that it lies between {asked}, which counts as even, takes at least about {rows} held-out "
        f"rows{few}."
    )


def _infinite_text(audit: Audit) -> str:
    """Return how many intervals are infinite, and why."""
    n, rows = audit.n_infinite, audit.overall.rows
    count = f"All {audit.quality.noun}" if n == rows else f"{n} of {rows} {audit.quality.noun}"
    needed = f" A finite threshold at level {audit.level:g} needs at least {audit.rows_needed} calibration rows."
    return f"{count} are infinite, so they are right for every target.{needed * (audit.rows_needed is not None)}"


def _what_is_off(audit: Audit) -> str:
    if not audit.off:
        return "All rows together are off; no single group is shown to be."
    off = [(row.coverage, audited_group_text(audit, row)) for row in audit.off]
    too_far = {None: "wide", "upper": "high", "lower": "low"}[audit.quality.side]
    return _off_sentences(off, audit.level, "Right too rarely", f"Right too often, so too {too_far}")


def coverage_text(row: GroupCoverage) -> str:
    """Return a group with its coverage for a sentence: low (94.4 % of 1999 rows)."""
    also = f"; {text}" if (text := also_text(row)) else ""
    return f"{row.group} ({percent_text(row.coverage)} of {count_text(row.rows)} rows{also})"


def also_text(row: GroupCoverage) -> str:
    """Return the groups by other features that hold the same rows, after "also"; empty if there are none."""
    others = join_first(map(str, getattr(row, "also", ())))
    return f"also {others}" if others else ""


def audited_group_text(audit: Audit, row: GroupAudit) -> str:
    """Return a group of an audit with its coverage for a sentence; the worst region by its rule."""
    is_region = row is audit.worst_region
    return coverage_text(replace(row, group=f"rows with {audit.region_rule}") if is_region else row)


def quality_text(found: Quality) -> str:
    """Return the quality in sentences, for readers who know no statistics."""
    return " ".join(filter(None, [model_text(found), width_text(found)]))


def covered_text(found: Quality) -> str:
    """Return what covered targets of one-sided bounds have in common; empty for two-sided intervals."""
    if found.side is None:
        return ""
    return f"are at or {'below' if found.side == 'upper' else 'above'} their {found.side} bound"


def model_text(found: Quality) -> str:
    """Return what the predictions explain, and how far they are off; empty without predictions."""
    if math.isnan(found.mean_absolute_error):
        return ""
    error = f"is off by {number_text(found.mean_absolute_error)} on average (mean absolute error)."
    if math.isnan(found.r2):
        return f"The target is the same for all these rows, so there is nothing to explain. The model {error}"
    chance = f" With only {found.rows} rows, this may be chance." if found.may_be_chance else ""
    if found.r2 < NEGLIGIBLE_R2:
        who = "This model explains" if found.explains_nothing else "The predictions explain"
        return f"{who} nothing: {_why_nothing(found)}{chance} The prediction {error}"
    r2 = _r2_text(found.r2)
    return f"The model explains {_whole_percent(found.r2)} of the variation of the target (R2 {r2}); it {error}{chance}"


def width_text(found: Quality) -> str:
    """Return how wide the intervals are, next to the alternatives; how far one-sided bounds are from predictions."""
    if found.side is not None:
        return _distance_text(found)
    widths = f"{_own_width_text(found)}, {_alternatives_text(found)}."
    return " ".join(filter(None, [widths, _comparison_text(found)]))


def _why_nothing(found: Quality) -> str:
    """Return why the prediction explains nothing."""
    if found.constant_prediction:
        who = "it" if found.explains_nothing else "the model"
        return f"{who} predicts the same number, {number_text(found.mean_prediction)}, for every row."
    better = "better" if found.r2 <= -NEGLIGIBLE_R2 else "as good"
    return f"R2 is {_r2_text(found.r2)}, so always predicting the mean would be {better}."


def _r2_text(r2: float) -> str:
    """Return R2 with two decimals, with more if it is close to 0 or 1: 0.91, 0.996, -0.004, 0."""
    if abs(r2) < 0.0005:
        return "0"
    if 0.99 <= r2 < 1:
        return "above 0.999" if r2 >= 0.9995 else f"{r2:.3f}"
    return f"{r2:.3f}" if abs(r2) < NEGLIGIBLE_R2 else f"{r2:.2f}" if abs(r2) < 100 else number_text(r2)


def _whole_percent(share: float) -> str:
    """Return a share as a whole percentage; only a perfect prediction gets 100 %."""
    return "more than 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def _distance_text(found: Quality) -> str:
    """Return how far one-sided bounds are from the predictions on average; how many are infinite, if some are."""
    if found.n_infinite:
        return f"{found.n_infinite} of {found.rows} {found.noun} are infinite."
    if math.isnan(found.mean_distance):
        return f"The {found.noun} are {number_text(found.mean_bound)} on average."
    where = "above" if found.mean_distance >= 0 else "below"
    return f"The {found.noun} are {number_text(abs(found.mean_distance))} {where} the prediction on average."


def _own_width_text(found: Quality) -> str:
    """Return the mean and median width; with infinite intervals, their number."""
    median = number_text(found.median_width)
    if found.n_infinite == found.rows:
        return "All intervals are infinite"
    if found.n_infinite:
        return f"{found.n_infinite} of {found.rows} intervals are infinite (median width: {median})"
    mean = number_text(found.mean_width)
    return f"Intervals are {mean} wide on average" + (f" (median {median})" if median != mean else "")


def _alternatives_text(found: Quality) -> str:
    """Return the widths without a model and with one threshold for all rows."""
    few = " (too few rows)" if math.isinf(found.no_model_width) else ""
    without = f"against {number_text(found.no_model_width)} without any model{few}"
    if math.isnan(found.one_threshold_width) or found.one_threshold_width == found.mean_width:
        return without
    return f"{without} and {number_text(found.one_threshold_width)} with one threshold for all rows"


def _comparison_text(found: Quality) -> str:
    """Return a remark if the widths and the prediction point in different directions, or the intervals are no use."""
    if found.r2 < NEGLIGIBLE_R2 and found.has_better_intervals:
        scores = [number_text(score) for score in (found.interval_score, found.no_model_interval_score)]
        what = "show which rows are noisy" if found.widths_differ else "are better than without any model"
        return (
            f"But the intervals {what}: their interval score, which counts width and misses, is {scores[0]}, against "
            f"{scores[1]}{' without any model' * found.widths_differ}."
        )
    if found.wider_than_without_model:
        return "So the intervals are not narrower than without any model."
    return ""
