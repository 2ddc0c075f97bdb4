"""What to do about a diagnosis, an audit or a study, in sentences."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.interval_quality import Quality
from evencover.diagnostics.one_threshold import MARGIN, Option
from evencover.diagnostics.sample_sizes import groups_judged, rows_needed
from evencover.diagnostics.verdicts import (
    HasVerdict,
    cannot_be_narrower,
    explained_by_bounds,
    is_as_even_as_possible,
    is_off,
    sufficient_tolerance,
)
from evencover.display.text import count_text, join_first, number_text, percent_text, range_text
from evencover.quantiles import rows_for_finite_threshold, rows_for_precise_thresholds
from evencover.taxonomies import with_n_groups
from evencover.words.answers import ON_A_BOUND, audited_group_text, coverage_text, is_close
from evencover.words.other_rows import advice_on_other_rows
from evencover.words.settings import PYTHON, SettingStyle

if TYPE_CHECKING:
    from evencover.studies import Study

_MUCH_LOWER_R2 = 0.2  # on later rows than on those of the fit: then the model is what fails
_LARGEST_TOLERANCE = 0.2
_RECALIBRATE = (
    "This advice used the calibration rows. For an exact guarantee, calibrate on new rows: rows that were used neither "
    "to fit nor to calibrate the model."
)

_LIKE_THOSE_OF_THE_TABLE = "For rows like those of the table, the advice is this."


def advice_on_diagnosis(diagnosis: Diagnosis, style: SettingStyle = PYTHON) -> str:
    """Return what to do about a diagnosis."""
    if diagnosis.verdict == "even":
        return _advice_if_even(diagnosis, style)
    if diagnosis.verdict == "undecided":
        return _advice_if_undecided(diagnosis, style)
    even = [option for option in diagnosis.options if option.verdict == "even" and not option.per_group]
    if even and not diagnosis.in_use:
        return _use_other_score(diagnosis, _simplest_narrow(even), style)
    if few := _groups_with_few_rows(diagnosis):
        return f"Use fewer groups: with one threshold for all rows, coverage is uneven, and {few}."
    with_widths = [option for option in diagnosis.options if option.per_group and option.width < np.inf]
    if with_widths:
        return _calibrate_per_group(diagnosis, with_widths[0], style)
    return _use_group_thresholds(diagnosis, style)


def _simplest_narrow(options: list[Option]) -> Option:
    """Return the first option that is at most 1 % wider than the narrowest; the simplest scores come first."""
    limit = min(option.width for option in options) * (1 + MARGIN)
    return next(option for option in options if option.width <= limit)


def _advice_if_even(diagnosis: Diagnosis, style: SettingStyle) -> str:
    keep = "Keep one threshold for all rows"
    if diagnosis.in_use:
        groups = style.groups(diagnosis.inputs.taxonomy)
        verb = "guarantees" if diagnosis.inputs.groups_are_guaranteed else "aims at"
        keep = f"One threshold for all rows would be even in these groups, too; {groups} {verb} it"
    return (
        f"{keep}. All groups are shown to lie within {diagnosis.tolerance:.2g} of the level. This was estimated from "
        "the calibration rows, for the current threshold."
    )


def _advice_if_undecided(diagnosis: Diagnosis, style: SettingStyle) -> str:
    needed = rows_for_finite_threshold(diagnosis.level)
    scores = np.concatenate(list(diagnosis.scores.values())) if diagnosis.scores else np.empty(0)
    if diagnosis.threshold == np.inf and len(scores) < needed:
        return (
            f"A finite threshold at level {diagnosis.level:g} needs at least {needed} calibration rows; there are "
            f"{len(scores)}. Use a lower level, or calibrate on more of the rows."
        )
    if diagnosis.threshold == np.inf:
        return (
            f"Use another score: so many scores are infinite that the threshold at level {diagnosis.level:g} is "
            "infinite, too, and the intervals hold all possible targets."
        )
    if is_as_even_as_possible(diagnosis):
        kept = "one threshold per group" if diagnosis.in_use else "one threshold for all rows"
        named = join_first(map(coverage_text, cannot_be_narrower(diagnosis)))
        return f"Keep {kept}: no group is covered too rarely. Covered more often than asked: {named}. {ON_A_BOUND}"
    tied = np.mean(scores == diagnosis.threshold) if len(scores) else 0.0
    if len(scores) * tied > 1 and tied > diagnosis.tolerance:
        return (
            f"Use a score with fewer ties: {100 * tied:.0f} % of the scores equal the threshold, so its coverage is "
            f"not known to within {diagnosis.tolerance:.2g}, however many rows there are."
        )
    return _if_not_shown(diagnosis, style)


def _if_not_shown(diagnosis: Diagnosis, style: SettingStyle) -> str:
    """Return what to do if the calibration rows cannot show whether one threshold is even."""
    groups = f" with {style.groups(diagnosis.inputs.taxonomy)}" if diagnosis.taxonomy else ""
    guaranteed = diagnosis.inputs.groups_are_guaranteed
    shown = _good_enough_text(diagnosis, style)
    few = _groups_with_few_rows(diagnosis)
    if diagnosis.in_use and few:
        return f"Use fewer groups: {few}. {shown}"
    if diagnosis.in_use:
        more = "guarantees the coverage of every group" if guaranteed else "makes them more even"
        return f"Keep one threshold per group{groups}, which {more}. {shown}"
    n_groups = sum(group.rows > 0 for group in diagnosis.table)
    imprecise = sum(map(len, diagnosis.scores.values())) < rows_for_precise_thresholds(n_groups, diagnosis.level)
    if diagnosis.inputs.several_models or imprecise:  # groups would have wide intervals
        return f"Keep one threshold for all rows. {shown}"
    if few or len(diagnosis.scores) < 2:
        return f"Keep one threshold for all rows, or compare fewer groups. {shown}"
    if not guaranteed:
        return f"One threshold per group{groups} makes coverage more even. {shown}"
    return f"To be sure, use one threshold per group{groups}: it guarantees the coverage of every group. {shown}"


def _good_enough_text(result: HasVerdict, style: SettingStyle) -> str:
    """Return with which tolerance the groups would count as even, if it is small enough to tell something.

    What the rows show stands in the headline. A tolerance extends to both sides of the level, so its range is another.
    """
    tolerance = sufficient_tolerance(result.shown_within)
    if tolerance > _LARGEST_TOLERANCE:
        return "The rows are too few to show more."
    counted = range_text(max(result.level - tolerance, 0.0), min(result.level + tolerance, 1.0))
    return (
        f"If anything between {counted} in every group is good enough for you, nothing more is needed: with "
        f"{style.setting('tolerance', tolerance)}, the groups count as even."
    )


def _use_other_score(diagnosis: Diagnosis, option: Option, style: SettingStyle) -> str:
    widths = join_first(f"{label} {number_text(width)}" for label, width in option.widths.items())
    current = number_text(diagnosis.options[0].width)
    return (
        f"Use {style.score(option.nonconformity)}. With this score, one threshold for all rows gives even "
        f"coverage in these groups. The mean width is then {number_text(option.width)} ({widths}) instead of "
        f"{current}. {_RECALIBRATE}"
    )


def _groups_with_few_rows(diagnosis: Diagnosis) -> str:
    """Return how many rows a group needs for a finite threshold, and which groups have fewer; empty if none has."""
    small = [group for group in diagnosis.table if group.rows and group.threshold == np.inf]
    named = join_first(f"{group.group} has {group.rows}" for group in small)
    needed = rows_for_finite_threshold(diagnosis.level)
    return f"a group needs at least {needed} rows for its own threshold ({named})" if small else ""


def _calibrate_per_group(diagnosis: Diagnosis, option: Option, style: SettingStyle) -> str:
    current = diagnosis.options[0]
    widths = join_first(
        f"{label} {number_text(width)} instead of {number_text(current.widths[label])}"
        for label, width in option.widths.items()
    )
    cost = f"mean width {number_text(option.width)} instead of {number_text(current.width)} ({widths})"
    groups = style.groups(diagnosis.inputs.taxonomy)
    if diagnosis.in_use:
        keep = f"Keep {groups}: with one threshold for all rows, coverage would be uneven."
        return f"{keep} On these rows, thresholds per group give {cost}."
    return f"Calibrate per group with {groups}: {cost}. {_RECALIBRATE}"


def _use_group_thresholds(diagnosis: Diagnosis, style: SettingStyle) -> str:
    """Return the advice if widths are not known or infinite."""
    thresholds = join_first(f"{row.group} {number_text(row.threshold)}" for row in diagnosis.table if row.rows)
    taxonomy = f", {style.groups(diagnosis.inputs.taxonomy)}" if diagnosis.taxonomy else ""
    use = "Keep one threshold per group" if diagnosis.in_use else "Use one threshold per group"
    remedy = None if diagnosis.dependence is None or diagnosis.options else diagnosis.dependence.sufficient_remedy
    change = f" Or change the score: {remedy} would remove its dependence on the spread." if remedy else ""
    return (
        f"{use}{taxonomy}: {thresholds} instead of {number_text(diagnosis.threshold)} for all.{change} {_RECALIBRATE}"
    )


_CALIBRATE_PER_GROUP = (
    "Calibrate per group: give each group its own threshold, or use a score that gives even coverage.",
    "Use new rows: rows that were not used to fit the model, to calibrate it, or in this audit.",
)
_LARGER_SHARES = (0.2, 0.3, 0.4, 0.5, 0.6)
_PROBABLY = 0.8


@dataclass(frozen=True)
class Advice:
    """What to do about a result.

    Parameters
    ----------
    sentences : sequence of str
        The action, then its reasons.
    option : tuple of str
        The option of the command line that the action adds to the command, such as ``("--groups", "spread:3")``. Empty
        if it adds none, or if settings are Python arguments.
    """

    sentences: Sequence[str]
    option: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(self.sentences)


def advice_on_study(study: "Study", style: SettingStyle = PYTHON) -> Advice:
    """Return what to do about a study: the advice on its audit, which can refer to the settings of the study.

    If later rows or new units are not covered, the advice on these comes first.
    """
    own, others = advice_on_audit(study.audit, style, study), advice_on_other_rows(study.other_rows, style)
    if not others.sentences:
        return own
    return Advice([*others.sentences, _LIKE_THOSE_OF_THE_TABLE, *own.sentences], others.option)


def advice_on_audit(audit: Audit, style: SettingStyle = PYTHON, study: "Study | None" = None) -> Advice:
    """Return what to do about an audit.

    Parameters
    ----------
    audit : Audit
        The audit.
    style : SettingStyle
        How settings are named.
    study : Study or None
        The study, if the audit belongs to one: its settings can be changed.
    """
    if audit.verdict == "uneven":
        return _if_uneven(audit, style, study)
    useless = _do_not_use(style, study)
    if useless is not None:
        return useless
    change = _use_groups(style, study)
    sentences = [
        *([] if change is None else change.sentences),
        *_avoid_infinite_intervals(audit, style, study),
        *_calibrate_on_more_rows(audit),
    ]
    sentences = sentences or _use_the_intervals(audit)
    is_plain = not audit.n_infinite and not _by_bounds(audit) and _is_near(audit)
    if audit.verdict == "undecided" and is_plain:
        sentences += _show_more(audit, style, study)
    elif not audit.n_tested and not audit.in_turn and study is not None:
        sentences.append(_with_more_rows(style, study))
    return Advice([*sentences, *_check_features(audit)], () if change is None else change.option)


def _use_the_intervals(audit: Audit) -> list[str]:
    """Return how far the intervals can be relied on, if nothing else is to be done."""
    if audit.verdict == "even":
        return [f"Nothing to do: use the {audit.quality.noun}."]
    if _by_bounds(audit):
        many = "because many targets lie exactly on a bound"
        return [f"Use the {audit.quality.noun}: they are right more often than asked, {many}."]
    if audit.n_infinite or _is_near(audit):
        return [f"Use the {audit.quality.noun}."]
    if not audit.n_tested:
        return ["Do not rely on the level yet: no row could test it."]
    return [
        f"Do not rely on the level yet: {percent_text(audit.overall.coverage)} of {count_text(audit.n_tested)} "
        f"test rows are covered, not {percent_text(audit.level)}. This can be chance. Test more rows first."
    ]


def _is_near(audit: Audit) -> bool:
    """Return whether the coverage of all rows is near the level, as that of rows tested in turn is by construction."""
    return audit.in_turn or is_close(audit)


def _by_bounds(audit: Audit) -> bool:
    """Return whether targets on bounds are the reason that coverage is above the level."""
    return audit.is_as_even_as_possible or explained_by_bounds(audit.overall, audit.level)


def _if_uneven(audit: Audit, style: SettingStyle, study: "Study | None") -> Advice:
    """Return the advice on coverage that is shown to be off."""
    groups_off = [row for row in audit.table if row in audit.off]
    per_group = audit.own_thresholds or (study is not None and study.per_group)
    both_ways = len({row.coverage > audit.level for row in groups_off}) > 1
    infinite = _avoid_infinite_intervals(audit, style, study)
    if study is not None and audit.overall.coverage < audit.level:
        outside = study.share_outside_support
        if audit.level <= audit.overall.coverage + outside:
            return _change_support(style, outside)
    if is_off(audit.overall, audit.level, audit.tolerance) and (per_group or not both_ways):
        if study is not None and study.time is not None:
            return Advice([*infinite, *_if_changed_with_time(audit, study)])
        return Advice([*infinite, *_if_all_rows_off(audit, style, study)])
    if not groups_off:
        return Advice([*infinite, *_if_region_off(audit)])
    if per_group:
        return Advice([*infinite, *_if_still_off(len(groups_off), style, study)])
    if study is None:
        return Advice([*infinite, *_CALIBRATE_PER_GROUP])
    width = ", and so a width," * (audit.quality.side is None)
    reason = f"then each group gets a threshold{width} of its own"
    again = _run_again(style, style.groups(study.diagnosis.inputs.taxonomy), reason)
    return Advice([*infinite, *again.sentences], () if infinite else again.option)


def _run_again(style: SettingStyle, setting: str, reason: str) -> Advice:
    """Return the advice to repeat a study with a setting."""
    if not style.command_line:
        return Advice([f"Use {setting}: {reason}."])
    return Advice([f"Run again with {setting}: {reason}."], tuple(shlex.split(setting)))


def _change_support(style: SettingStyle, outside: float) -> Advice:
    reason = f"{percent_text(outside)} of the test targets are outside the support, and never covered"
    again = _run_again(style, style.setting("support", "none"), reason)
    return Advice([*again.sentences, "Or correct the limits of the support."], again.option)


def _if_all_rows_off(audit: Audit, style: SettingStyle, study: "Study | None") -> list[str]:
    share = f"{percent_text(audit.overall.coverage)} instead of {percent_text(audit.level)} of all rows are covered"
    if study is not None and study.evidence.kind == "cross":
        return _if_cross_off(audit, share, style, study)
    if audit.is_off_everywhere and not (audit.guaranteed or audit.sizes_known):
        return _if_never_calibrated(audit, share, style)
    if audit.overall.coverage > audit.level:
        tighter = "narrower" if audit.quality.side is None else "tighter"
        return [f"Use {tighter} {audit.quality.noun}: {share}."]
    if audit.sizes_known:
        return [
            f"Recalibrate on the most recent rows: {share}, although the calibration rows were held out.",
            "Two things can cause this. The rows have changed since the calibration (drift): then coverage falls over "
            "time. Or rows belong together, such as rows of one patient or of neighbouring days: then split by them"
            f"{_option(style, study, 'clusters', 'COLUMN')}.",
        ]
    return [
        f"Recalibrate on recent rows that the model was not trained on: {share}.",
        "Either the intervals were calibrated on rows that the model had seen, or the rows have changed since (drift).",
    ]


def _if_never_calibrated(audit: Audit, share: str, style: SettingStyle) -> list[str]:
    """Return the advice on intervals that are not known to be calibrated, if all groups are off about equally."""
    with_what = "evencover calibrate" if style.command_line else "calibrate"
    other = (
        "they were calibrated on rows that the model had seen, or the rows have changed since (drift)"
        if audit.overall.coverage < audit.level
        else "they are those of a higher level"
    )
    equally = ", and all groups are off about equally" * (sum(row.rows > 0 for row in audit.table) > 1)
    return [
        f"Calibrate the {audit.quality.noun} on rows that the model was not trained on, with {with_what}: {share}"
        f"{equally}.",
        f"Probably the {audit.quality.noun} were never calibrated: the raw quantiles of a model cover too few rows, or "
        f"too many, until they are. Or {other}.",
    ]


def _if_cross_off(audit: Audit, share: str, style: SettingStyle, study: "Study") -> list[str]:
    """Return the advice on all rows if every row was used to train, to calibrate and to test."""
    if audit.overall.coverage > audit.level:
        return [
            f"Use the {audit.quality.noun}, or ask for a lower level: {share}.",
            "With few rows, models that were fitted without some of them are worse, so the "
            f"{audit.quality.noun} can be too wide.",
        ]
    return [
        f"Split the rows{_option(style, study, 'calibration', 'split')} or ask for a higher level: {share}.",
        "Models that change much from fold to fold cause this; a split has a stronger guarantee. Or rows belong "
        f"together, such as rows of one patient: then split by them{_option(style, study, 'clusters', 'COLUMN')}.",
    ]


def _if_changed_with_time(audit: Audit, study: "Study") -> list[str]:
    before, later = study.evidence.training_r2, audit.quality.r2
    if before is not None and before - later >= _MUCH_LOWER_R2 and _is_systematically_off(study):
        return [
            "Do not use this model for later rows.",
            f"It does not carry over to them: R2 is {before:.2f} on the rows that it was fitted on, and {later:.2f} on "
            f"the test rows, which are later. {percent_text(audit.overall.coverage)} of these are covered instead of "
            f"{percent_text(audit.level)}, and new calibration rows would only make the intervals wider. The change "
            "since the time before is often easier to predict than the value itself.",
        ]
    return [
        "Calibrate again as new rows come.",
        "The test rows are later than the calibration rows, and they are not like them: "
        f"{percent_text(audit.overall.coverage)} instead of {percent_text(audit.level)} of all test rows are covered. "
        "So the rows have changed with time, and may change again. The predictor is now calibrated on all of them.",
    ]


def _is_systematically_off(study: "Study") -> bool:
    """Return whether most of the error on the test rows has one sign; noise alone has none."""
    errors = study.test.y - study.prediction.center
    return bool(abs(errors.mean()) >= np.sqrt(np.mean(errors**2)) / 2)


def _if_still_off(n_off: int, style: SettingStyle, study: "Study | None") -> list[str]:
    """Return what can be wrong if groups with thresholds of their own are off, and how to tell."""
    seed, time, clusters, drop = (
        _option(style, study, name, value)
        for name, value in (("seed", 1), ("time", "COLUMN"), ("clusters", "COLUMN"), ("drop", "COLUMN"))
    )
    are = "group is" if n_off == 1 else "groups are"
    return [
        f"Find the reason: {n_off} {are} off although each group has its own threshold.",
        f"It can be chance, which happens in 1 of 20 cases: use another split{seed} and compare.",
        "It can be drift: the test rows are later than the calibration rows."
        if study is not None and study.time is not None
        else f"It can be drift: split in the order of time{time} and compare.",
        f"It can be rows that belong together, such as rows of one patient: split by them{clusters}.",
        f"It can be a column that numbers the rows, or names them: leave it out{drop}.",
    ]


def _option(style: SettingStyle, study: "Study | None", name: str, value: Any) -> str:
    """Return the setting of a study in brackets; nothing for an audit alone, which has no such setting."""
    return "" if study is None else f" ({style.setting(name, value)})"


def _if_region_off(audit: Audit) -> list[str]:
    return [
        f"Give the rows with {audit.region_rule} their own threshold: use groups by these columns, in addition to the "
        "current groups.",
        "No group is shown to be off, but these rows are.",
    ]


def _do_not_use(style: SettingStyle, study: "Study | None") -> Advice | None:
    """Return the advice on a model that is no better than none, and what may help; None for any other."""
    if study is None or not _is_useless(study.quality):
        return None
    if study.extremes and not study.quality.wider_than_without_model:
        return Advice(_check_extremes(study))
    sentences = [f"Do not use this model: {_why_not(study.quality)}."]
    if study.extremes:
        return Advice([*sentences, *_check_extremes(study)])
    if study.model_name in ("best-of-three", "stack"):
        nothing = "Add columns that explain the target: with the current ones, several kinds of models do not."
        more = "More rows, or columns that explain more of the target, can help."
        return Advice([*sentences, nothing if study.quality.explains_nothing else more])
    other = style.setting("model", "boosting" if study.model_name == "linear" else "linear")
    again = _run_again(style, other, "another kind of model, or better features, may explain more")
    return Advice([*sentences, *again.sentences], again.option)


def _why_not(quality: Quality) -> str:
    """Return why a model is of no use, and what is as good without it."""
    lower, upper = map(number_text, quality.no_model_interval)
    if quality.wider_than_without_model:
        own, other = number_text(quality.mean_width), number_text(quality.no_model_width)
        return (
            f"its intervals are not narrower ({own} on average) than one interval for all rows, which needs no model "
            f"({other}, from {lower} to {upper})"
        )
    if quality.side is not None or not np.isfinite(quality.no_model_width):
        return "it explains nothing"
    return (
        f"it explains nothing. One interval for all rows, from {lower} to {upper}, needs no model, and its interval "
        "score, which counts width and misses, is about as low"
    )


def _is_useless(quality: Quality) -> bool:
    """Return whether intervals without any model are as good, and not by the chance of few rows alone."""
    return quality.wider_than_without_model or (quality.explains_nothing and not quality.may_be_chance)


def _check_extremes(study: "Study") -> list[str]:
    """Return which extreme values to check, those of the target first: they can hide what a model explains."""
    named = join_first(
        f"{study.row_numbers.text(each.row)} has {each.column} {number_text(each.value)} (others: "
        f"{number_text(each.lowest)} to {number_text(each.highest)})"
        for each in study.extremes
    )
    reason = "One such value can hide what a model explains of all others, or mislead it."
    return [f"Check the extreme values: {named}. Correct those that are mistakes. {reason}"]


def _use_groups(style: SettingStyle, study: "Study | None") -> Advice | None:
    """Return the advice if one threshold is in use and the calibration rows show that it is uneven."""
    if study is None or study.per_group or study.diagnosis.verdict != "uneven":
        return None
    reason = "each group then gets its own threshold. The calibration rows show that one for all is uneven"
    return _run_again(style, style.groups(study.diagnosis.inputs.taxonomy), reason)


def _show_more(audit: Audit, style: SettingStyle, study: "Study | None") -> list[str]:
    """Return how far coverage is known, and what would tell more."""
    known = _good_enough_text(audit, style)
    if sufficient_tolerance(audit.shown_within) > _LARGEST_TOLERANCE:
        return [known if study is None else _with_more_rows(style, study)]
    ways = [] if study is None else _ways_to_decide(audit, style, study)
    if study is None and not audit.in_turn and sum(row.rows > 0 for row in audit.table) > 2:
        ways = ["compare fewer groups"]
    if study is not None and not ways:
        return [known, _with_more_rows(style, study)]
    return [known, *([f"To know more, {' or '.join(ways)}."] if ways else [])]


def _ways_to_decide(audit: Audit, style: SettingStyle, study: "Study") -> list[str]:
    """Return the settings of a study that would probably give a decision with the same rows."""
    if study.evidence.kind == "cross":  # every row tests already, and groups do not come from the rows
        return []
    n_groups, taxonomy = len(audit.table), study.diagnosis.inputs.taxonomy
    n_held_out = study.n_rows - study.sizes["training"]

    sizes = [row.rows for row in audit.table if row.rows]
    balance = n_groups * min(sizes) / sum(sizes) if audit.own_thresholds else 1.0

    def enough(groups: int, held_out: int) -> bool:
        if groups == n_groups:
            held_out = int(held_out * balance)  # the smallest group decides
        calibration = test = held_out // 2
        if audit.in_turn:  # one row of each cluster counts
            calibration, test = round(held_out * audit.overall.rows / n_held_out), 0
        shared = not audit.own_thresholds or audit.evidence == "test rows"
        judged = groups_judged(calibration, test, audit.level, audit.tolerance, confidence=_PROBABLY, shared=shared)
        return judged >= groups

    ways = []
    if audit.own_thresholds:
        fewer = [groups for groups in (5, 3, 2) if groups < n_groups and enough(groups, n_held_out)]
        coarser = [with_n_groups(taxonomy, groups) for groups in fewer[:1]]
        ways += [f"use fewer groups ({style.groups(each)})" for each in coarser if each is not None]
    larger = [
        f"hold out more of the rows, at the expense of the model ({style.setting('held_out', share)})"
        for share in _LARGER_SHARES
        if share * study.n_rows > n_held_out and enough(n_groups, int(share * study.n_rows))
    ]
    return ways + larger[:1]


def _with_more_rows(style: SettingStyle, study: "Study") -> str:
    """Return what shows more if no setting would give a decision with the same rows."""
    shares = (share for share in _LARGER_SHARES if share * study.n_rows >= 2 * (study.n_rows - study.sizes["training"]))
    share = None if study.evidence.kind == "cross" else next(shares, None)
    if share is None:
        return "Only a larger table can show more."
    setting = style.setting("held_out", share)
    more = f"hold out more of the rows, at the expense of the model ({setting})"
    return f"To know a little more, {more}, or use a larger table."


def _avoid_infinite_intervals(audit: Audit, style: SettingStyle, study: "Study | None") -> list[str]:
    """Return how many calibration rows finite intervals need, if some are infinite because there are fewer."""
    if audit.rows_needed is None:
        return []
    setting = None if study is None else _enough_held_out(audit, audit.rows_needed, style, study)
    if setting is None:
        ways = f"Use {'fewer groups, ' * audit.own_thresholds}more calibration rows or a lower level"
    else:
        fewer_groups = "use fewer groups, " * audit.own_thresholds
        ways = f"Hold out more of the rows, at the expense of the model ({setting}), {fewer_groups}or use a lower level"
    return [
        f"{ways}: {audit.n_infinite} of {audit.overall.rows} {audit.quality.noun} are infinite, because a finite "
        f"threshold at level {audit.level:g} needs at least {audit.rows_needed} calibration rows."
    ]


def _enough_held_out(audit: Audit, needed: int, style: SettingStyle, study: "Study") -> str | None:
    """Return the setting that holds out so many rows for each threshold, if there is one."""
    if study.evidence.kind == "cross":
        return None
    fewest = min(row.rows for row in audit.table if row.rows) if audit.own_thresholds else audit.overall.rows
    wanted = (1 - study.sizes["training"] / study.n_rows) * needed / fewest
    share = next((share for share in _LARGER_SHARES if share >= wanted), None)
    return None if share is None else style.setting("held_out", share)


def _calibrate_on_more_rows(audit: Audit) -> list[str]:
    """Return what to do about groups whose few calibration rows can explain their coverage, if there are any."""
    if not audit.explained_by_calibration or audit.n_infinite:
        return []
    named = join_first(map(coverage_text, audit.explained_by_calibration))
    needed = rows_needed(audit.level, audit.tolerance)
    return [
        "Calibrate on more of the rows, or with fewer groups. In these groups, coverage differs from the level, but "
        f"their few calibration rows can explain it: {named}. With {needed} calibration rows per threshold, coverage "
        f"is within {audit.tolerance:.2g} of the level in 19 of 20 calibrations."
    ]


def _check_features(audit: Audit) -> list[str]:
    """Return the rows by feature whose coverage differs from the level, if there are any.

    If each group has its own threshold, a region does not make the verdict `uneven`, so it is named here.
    """
    region = audit.worst_region if audit.own_thresholds else None
    off = region is not None and is_off(region, audit.level, audit.tolerance)
    regions = [audited_group_text(audit, region)] if off and region else []
    named = join_first([*regions, *map(coverage_text, audit.features_off)])
    text = f"Also look at these rows inside the groups, which are covered too rarely or too often: {named}."
    return [text] if named else []
