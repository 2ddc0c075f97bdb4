"""Advice in sentences: what to do about a verdict, how that was found, and at what cost."""

import numpy as np

from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._formatting import coverage_text, join_first, number_text, percent_text, short_repr
from evencover.diagnostics._options import Option
from evencover.diagnostics._verdict import excludes_level
from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.sample_sizes import rows_needed
from evencover.quantiles import rows_for_finite_threshold

_RECALIBRATE = (
    "This advice used the calibration rows. For an exact guarantee, calibrate on new rows: rows that were used neither "
    "to fit nor to calibrate the model."
)


def advice(diagnosis: Diagnosis) -> str:
    """Return what to do about a diagnosis."""
    if diagnosis.verdict == "even":
        return _advice_if_even(diagnosis)
    if diagnosis.verdict == "undecided":
        return _advice_if_undecided(diagnosis)
    even = [option for option in diagnosis.options if option.verdict == "even" and not option.per_group]
    if even and not diagnosis.in_use:
        return _use_other_score(diagnosis, min(even, key=lambda option: option.width))
    if any(group.rows and group.threshold == np.inf for group in diagnosis.table):
        return _use_fewer_groups(diagnosis)
    with_widths = [option for option in diagnosis.options if option.per_group and option.width < np.inf]
    return _calibrate_per_group(diagnosis, with_widths[0]) if with_widths else _use_group_thresholds(diagnosis)


def advice_on_audit(audit: Audit) -> str:
    """Return what to do about an audit."""
    if audit.verdict == "even":
        return " ".join([_audit_advice_if_even(audit), *_check_features(audit)])
    if audit.verdict == "undecided":
        more_rows = [_collect_rows("test", audit)] * bool(audit.rows_to_decide)
        return " ".join(
            [*_avoid_infinite_intervals(audit), *more_rows, *_calibrate_on_more_rows(audit), *_check_features(audit)]
        )
    return _audit_advice_if_uneven(audit)


def _audit_advice_if_uneven(audit: Audit) -> str:
    rows = [*audit.table, *([audit.slab] if audit.slab else [])]
    different = [row for row in rows if row.adjusted < SIGNIFICANT and excludes_level(row, audit.level)]
    named = f"Coverage differs significantly from the level in: {join_first(map(coverage_text, different))}."
    overall = audit.overall.coverage
    share = f"these intervals cover {percent_text(overall)} of all rows instead of {100 * audit.level:g} %"
    if not different:
        return f"Recalibrate on new rows: {share}. No single group differs significantly from the level."
    if overall < audit.level - audit.tolerance:
        return f"Recalibrate on rows that the model was not trained on: {share}. {named}"
    if overall > audit.level + audit.tolerance:
        return f"Narrower intervals are enough, unless tied scores prevent them: {share}. {named}"
    return (
        "Use one threshold per group, or a score that gives even coverage. Calibrate on new rows: rows that were not "
        f"used to fit the model, to calibrate it, or in this audit. {named}"
    )


def _advice_if_even(diagnosis: Diagnosis) -> str:
    keep = "Keep one threshold for all rows"
    if diagnosis.in_use:
        keep = f"One threshold for all rows gives even coverage, so {diagnosis.taxonomy} is not needed"
    tested = [group for group in diagnosis.table if group.rows]
    low, high = min(group.low for group in tested), max(group.high for group in tested)
    return (
        f"{keep}. In every group, the 95 % interval of the coverage lies within {diagnosis.tolerance:g} of the level "
        f"(all of them lie between {percent_text(low)} and {percent_text(high)}). This was estimated from the "
        "calibration rows, for the current threshold."
    )


def _advice_if_undecided(diagnosis: Diagnosis) -> str:
    needed = rows_for_finite_threshold(diagnosis.level)
    scores = np.concatenate(list(diagnosis.scores.values())) if diagnosis.scores else np.empty(0)
    if diagnosis.threshold == np.inf and len(scores) < needed:
        return (
            f"Collect calibration rows: a finite threshold at level {diagnosis.level:g} needs at least {needed} rows."
        )
    if diagnosis.threshold == np.inf:
        return (
            f"Use another score: so many scores are infinite that the threshold at level {diagnosis.level:g} is "
            "infinite, too, and every target is covered."
        )
    tied = np.mean(scores == diagnosis.threshold) if len(scores) else 0.0
    if len(scores) * tied > 1 and tied > diagnosis.tolerance:
        return (
            f"Use a score with fewer ties: {100 * tied:.0f} % of the scores equal the threshold, so its coverage is "
            f"not known to within {diagnosis.tolerance:g}, however many rows there are."
        )
    return _collect_rows("calibration", diagnosis)


def _collect_rows(kind: str, result: Diagnosis | Audit) -> str:
    more = join_first(f"about {n} more in {label}" for label, n in result.rows_to_decide.items())
    if isinstance(result, Diagnosis) and result.in_use:
        return (
            f"Keep taxonomy={result.taxonomy}, which guarantees the coverage of every group. More calibration rows are "
            f"needed to find out whether one threshold for all rows gives even coverage ({more})."
        )
    return (
        f"Collect more {kind} rows ({more}). So far, the rows show neither that the coverage of a group differs from "
        f"the level nor that every group is within {result.tolerance:g} of it. The numbers assume that coverage stays "
        "near its current value."
    )


def _use_other_score(diagnosis: Diagnosis, option: Option) -> str:
    widths = join_first(f"{label} {number_text(width)}" for label, width in option.widths.items())
    current = number_text(diagnosis.options[0].width)
    return (
        f"Use nonconformity={short_repr(option.nonconformity)}. With this score, one threshold for all rows gives even "
        f"coverage in these groups. The mean width is then {number_text(option.width)} ({widths}) instead of "
        f"{current}. {_RECALIBRATE}"
    )


def _use_fewer_groups(diagnosis: Diagnosis) -> str:
    small = [group for group in diagnosis.table if group.rows and group.threshold == np.inf]
    named = join_first(f"{group.group} has {group.rows}" for group in small)
    needed = rows_for_finite_threshold(diagnosis.level)
    return (
        "Use fewer groups, or collect calibration rows: with one threshold for all rows, coverage is uneven, and a "
        f"group needs at least {needed} rows for its own threshold ({named})."
    )


def _calibrate_per_group(diagnosis: Diagnosis, option: Option) -> str:
    current = diagnosis.options[0]
    widths = join_first(
        f"{label} {number_text(width)} instead of {number_text(current.widths[label])}"
        for label, width in option.widths.items()
    )
    cost = f"mean width {number_text(option.width)} instead of {number_text(current.width)} ({widths})"
    if diagnosis.in_use:
        keep = f"Keep taxonomy={diagnosis.taxonomy}: with one threshold for all rows, coverage would be uneven."
        return f"{keep} On these rows, thresholds per group give {cost}."
    return f"Calibrate per group with taxonomy={diagnosis.taxonomy}: {cost}. {_RECALIBRATE}"


def _use_group_thresholds(diagnosis: Diagnosis) -> str:
    """Return the advice if widths are not known or infinite."""
    thresholds = join_first(f"{row.group} {number_text(row.threshold)}" for row in diagnosis.table if row.rows)
    taxonomy = f", taxonomy={diagnosis.taxonomy}" if diagnosis.taxonomy else ""
    use = "Keep one threshold per group" if diagnosis.in_use else "Use one threshold per group"
    remedy = None if diagnosis.dependence is None or diagnosis.options else diagnosis.dependence.sufficient_remedy
    change = f" Or change the score: {remedy} would remove its dependence on the spread." if remedy else ""
    return (
        f"{use}{taxonomy}: {thresholds} instead of {number_text(diagnosis.threshold)} for all.{change} {_RECALIBRATE}"
    )


def _audit_advice_if_even(audit: Audit) -> str:
    within = f"in every group, the 95 % interval of the coverage lies within {audit.tolerance:g} of the level"
    if audit.n_infinite:
        infinite = f"Infinite intervals: {audit.n_infinite} of {audit.overall.rows}"
        return f"Calibrate on more rows, although {within}. {infinite}."
    return f"Nothing to do: {within}."


def _avoid_infinite_intervals(audit: Audit) -> list[str]:
    """Return how many calibration rows finite intervals need, if some are infinite."""
    if not audit.n_infinite:
        return []
    needed = rows_for_finite_threshold(audit.level)
    return [
        f"Calibrate on more rows. Infinite intervals: {audit.n_infinite} of {audit.overall.rows}. A finite "
        f"threshold at level {audit.level:g} needs at least {needed} calibration rows."
    ]


def _calibrate_on_more_rows(audit: Audit) -> list[str]:
    """Return what to do about groups whose few calibration rows can explain their coverage, if there are any."""
    if not audit.explained_by_calibration:
        return []
    named = join_first(map(coverage_text, audit.explained_by_calibration))
    needed = rows_needed(audit.level, audit.tolerance)
    return [
        "Calibrate on more rows. In these groups, coverage differs from the level, but the few calibration rows can "
        f"explain the difference: {named}. With {needed} calibration rows per threshold, coverage is within "
        f"{audit.tolerance:g} of the level in 19 of 20 calibrations."
    ]


def _check_features(audit: Audit) -> list[str]:
    """Return the rows by feature whose coverage differs from the level, if there are any."""
    named = audit.features_off_the_level
    return [f"Also check the features: coverage differs significantly from the level for {named}."] if named else []
