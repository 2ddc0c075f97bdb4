"""Advice on a diagnosis: what to do, how that was found, and at what cost."""

import numpy as np

from evencover._internal.text_output import number_text
from evencover.diagnostics._formatting import coverage_text, join_first
from evencover.diagnostics._options import MARGIN, Option
from evencover.diagnostics._spelling import PYTHON, Spelling, good_enough_text
from evencover.diagnostics._verdict import ON_A_BOUND, cannot_be_narrower, is_as_even_as_possible
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.quantiles import rows_for_finite_threshold

_RECALIBRATE = (
    "This advice used the calibration rows. For an exact guarantee, calibrate on new rows: rows that were used neither "
    "to fit nor to calibrate the model."
)


def advice(diagnosis: Diagnosis, spelling: Spelling = PYTHON) -> str:
    """Return what to do about a diagnosis."""
    if diagnosis.verdict == "even":
        return _advice_if_even(diagnosis, spelling)
    if diagnosis.verdict == "undecided":
        return _advice_if_undecided(diagnosis, spelling)
    even = [option for option in diagnosis.options if option.verdict == "even" and not option.per_group]
    if even and not diagnosis.in_use:
        return _use_other_score(diagnosis, _simplest_narrow(even), spelling)
    if any(group.rows and group.threshold == np.inf for group in diagnosis.table):
        return _use_fewer_groups(diagnosis)
    with_widths = [option for option in diagnosis.options if option.per_group and option.width < np.inf]
    if with_widths:
        return _calibrate_per_group(diagnosis, with_widths[0], spelling)
    return _use_group_thresholds(diagnosis, spelling)


def _simplest_narrow(options: list[Option]) -> Option:
    """Return the first option that is at most 1 % wider than the narrowest; the simplest scores come first."""
    limit = min(option.width for option in options) * (1 + MARGIN)
    return next(option for option in options if option.width <= limit)


def _groups_setting(diagnosis: Diagnosis, spelling: Spelling) -> str:
    taxonomy = diagnosis.inputs.taxonomy
    return spelling.groups(taxonomy) if taxonomy is not None else f"taxonomy={diagnosis.taxonomy}"


def _advice_if_even(diagnosis: Diagnosis, spelling: Spelling) -> str:
    keep = "Keep one threshold for all rows"
    if diagnosis.in_use:
        groups = _groups_setting(diagnosis, spelling)
        verb = "guarantees" if diagnosis.inputs.groups_are_guaranteed else "aims at"
        keep = f"One threshold for all rows would be even in these groups, too; {groups} {verb} it"
    return (
        f"{keep}. All groups are shown to lie within {diagnosis.tolerance:.2g} of the level. This was estimated from "
        "the calibration rows, for the current threshold."
    )


def _advice_if_undecided(diagnosis: Diagnosis, spelling: Spelling) -> str:
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
    return _if_not_shown(diagnosis, spelling)


def _if_not_shown(diagnosis: Diagnosis, spelling: Spelling) -> str:
    """Return what to do if the calibration rows cannot show whether one threshold is even."""
    groups = f" with {_groups_setting(diagnosis, spelling)}" if diagnosis.taxonomy else ""
    guaranteed = diagnosis.inputs.groups_are_guaranteed
    shown = good_enough_text(diagnosis, diagnosis.shown_within, spelling)
    small = any(group.rows and group.threshold == np.inf for group in diagnosis.table)
    if diagnosis.in_use and small:
        return f"Use fewer groups: {_rows_for_own_threshold(diagnosis)}. {shown}"
    if diagnosis.in_use:
        more = "guarantees the coverage of every group" if guaranteed else "makes them more even"
        return f"Keep one threshold per group{groups}, which {more}. {shown}"
    if diagnosis.inputs.several_models:  # rows are few, so groups would have wide intervals
        return f"Keep one threshold for all rows. {shown}"
    if small or len(diagnosis.scores) < 2:
        return f"Keep one threshold for all rows, or compare fewer groups. {shown}"
    if not guaranteed:
        return f"One threshold per group{groups} makes coverage more even. {shown}"
    return f"To be sure, use one threshold per group{groups}: it guarantees the coverage of every group. {shown}"


def _use_other_score(diagnosis: Diagnosis, option: Option, spelling: Spelling) -> str:
    widths = join_first(f"{label} {number_text(width)}" for label, width in option.widths.items())
    current = number_text(diagnosis.options[0].width)
    return (
        f"Use {spelling.score(option.nonconformity)}. With this score, one threshold for all rows gives even "
        f"coverage in these groups. The mean width is then {number_text(option.width)} ({widths}) instead of "
        f"{current}. {_RECALIBRATE}"
    )


def _use_fewer_groups(diagnosis: Diagnosis) -> str:
    return (
        "Use fewer groups: with one threshold for all rows, coverage is uneven, and "
        f"{_rows_for_own_threshold(diagnosis)}."
    )


def _rows_for_own_threshold(diagnosis: Diagnosis) -> str:
    """Return how many rows a group needs for a finite threshold, and which groups have fewer."""
    small = [group for group in diagnosis.table if group.rows and group.threshold == np.inf]
    named = join_first(f"{group.group} has {group.rows}" for group in small)
    return f"a group needs at least {rows_for_finite_threshold(diagnosis.level)} rows for its own threshold ({named})"


def _calibrate_per_group(diagnosis: Diagnosis, option: Option, spelling: Spelling) -> str:
    current = diagnosis.options[0]
    widths = join_first(
        f"{label} {number_text(width)} instead of {number_text(current.widths[label])}"
        for label, width in option.widths.items()
    )
    cost = f"mean width {number_text(option.width)} instead of {number_text(current.width)} ({widths})"
    if diagnosis.in_use:
        keep = (
            f"Keep {_groups_setting(diagnosis, spelling)}: with one threshold for all rows, coverage would be uneven."
        )
        return f"{keep} On these rows, thresholds per group give {cost}."
    return f"Calibrate per group with {_groups_setting(diagnosis, spelling)}: {cost}. {_RECALIBRATE}"


def _use_group_thresholds(diagnosis: Diagnosis, spelling: Spelling) -> str:
    """Return the advice if widths are not known or infinite."""
    thresholds = join_first(f"{row.group} {number_text(row.threshold)}" for row in diagnosis.table if row.rows)
    taxonomy = f", {_groups_setting(diagnosis, spelling)}" if diagnosis.taxonomy else ""
    use = "Keep one threshold per group" if diagnosis.in_use else "Use one threshold per group"
    remedy = None if diagnosis.dependence is None or diagnosis.options else diagnosis.dependence.sufficient_remedy
    change = f" Or change the score: {remedy} would remove its dependence on the spread." if remedy else ""
    return (
        f"{use}{taxonomy}: {thresholds} instead of {number_text(diagnosis.threshold)} for all.{change} {_RECALIBRATE}"
    )
