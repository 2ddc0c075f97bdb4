"""What to do about it, in a sentence, with how that was found and at what cost."""

import numpy as np

from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._formatting import listed, short_repr
from evencover.diagnostics._options import Option
from evencover.diagnostics._verdict import excludes
from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.sample_sizes import rows_needed
from evencover.quantiles import rows_for_finite_threshold

_TRIED = "Tried on these calibration rows; having been chosen by them, it is exact only with fresh ones."


def advice(diagnosis: Diagnosis) -> str:
    """Return what to do about a diagnosis."""
    if diagnosis.verdict == "even":
        return _keep(diagnosis)
    if diagnosis.verdict == "undecided":
        return _collect(diagnosis)
    even = [option for option in diagnosis.options if option.verdict == "even" and not option.per_group]
    if even and not diagnosis.in_use:
        return _other_score(diagnosis, min(even, key=lambda option: option.width))
    if any(group.rows and group.threshold == np.inf for group in diagnosis.table):
        return _fewer_groups(diagnosis)
    priced = [option for option in diagnosis.options if option.per_group and option.width < np.inf]
    return _per_group(diagnosis, priced[0]) if priced else _per_group_by_thresholds(diagnosis)


def advice_on_audit(audit: Audit) -> str:
    """Return what to do about an audit."""
    if audit.verdict == "even":
        return " ".join([_nothing_to_do(audit), *_by_feature(audit)])
    if audit.verdict == "undecided":
        more = [_more_rows("test", audit)] * bool(audit.rows_to_decide)
        return " ".join([*_infinite(audit), *more, *_calibrate_on_more(audit), *_by_feature(audit)])
    rows = [*audit.table, *([audit.slab] if audit.slab else [])]
    off = [row for row in rows if row.adjusted < SIGNIFICANT and excludes(row, audit.level)]
    named = listed(f"{row.group} ({row.coverage:.3f})" for row in off)
    share = f"these intervals cover {audit.overall.coverage:.3f} of all rows instead of {audit.level:g}"
    if not off:
        return f"Calibrate on fresh rows: {share}, and no group by itself is shown to be off the level."
    if audit.overall.coverage < audit.level - audit.tolerance:
        return f"Calibrate on rows that the model has not seen: {share}. Off the level are {named}."
    if audit.overall.coverage > audit.level + audit.tolerance:
        return (
            f"Narrower intervals would do, unless ties between scores forbid them: {share}. Off the level are {named}."
        )
    return f"Calibrate per group, or by a score that is even, on fresh rows: off the level are {named}."


def _keep(found: Diagnosis) -> str:
    keep = "Keep the marginal predictor"
    if found.in_use:
        keep = f"One threshold for all would do, without {found.taxonomy}"
    judged = [group for group in found.table if group.rows]
    low, high = min(group.low for group in judged), max(group.high for group in judged)
    return (
        f"{keep}: in every group its coverage lies within {found.tolerance:g} of the level, between {low:.3f} and "
        f"{high:.3f} by the groups' intervals. Found on its own calibration rows, with the threshold as it is."
    )


def _collect(found: Diagnosis) -> str:
    needed = rows_for_finite_threshold(found.level)
    every = np.concatenate(list(found.scores.values())) if found.scores else np.empty(0)
    if found.threshold == np.inf and len(every) < needed:
        return f"Collect calibration rows: a finite threshold at level {found.level:g} takes {needed}."
    if found.threshold == np.inf:
        return (
            f"Use another score: so many of these are infinite that every target is covered at level {found.level:g}."
        )
    tied = np.mean(every == found.threshold) if len(every) else 0.0
    if len(every) * tied > 1 and tied > found.tolerance:
        return (
            f"Use a score with fewer ties: {tied:.0%} of these equal the threshold, so that what it covers is not "
            f"known to within {found.tolerance:g}, whatever the number of rows."
        )
    return _more_rows("calibration", found)


def _more_rows(kind: str, found: Diagnosis | Audit) -> str:
    more = listed(f"{label} about {n}" for label, n in found.rows_to_decide.items())
    if isinstance(found, Diagnosis) and found.in_use:
        return (
            f"Keep taxonomy={found.taxonomy}, which covers every group by its guarantee; whether one threshold would "
            f"do takes more calibration rows to tell ({more})."
        )
    return (
        f"Collect more {kind} rows ({more}): no group is shown to be off the level, nor all of them to be within "
        f"{found.tolerance:g} of it. The numbers assume that coverage stays near what was seen."
    )


def _other_score(found: Diagnosis, option: Option) -> str:
    widths = listed(f"{label} {width:.4g}" for label, width in option.widths.items())
    cost = f"mean width {option.width:.4g} instead of {found.options[0].width:.4g} ({widths})"
    use = f"Use nonconformity={short_repr(option.nonconformity)}"
    return f"{use}: one threshold is then even over these groups, {cost}. {_TRIED}"


def _fewer_groups(found: Diagnosis) -> str:
    short = [group for group in found.table if group.rows and group.threshold == np.inf]
    named = listed(f"{group.group} has {group.rows}" for group in short)
    needed = rows_for_finite_threshold(found.level)
    return (
        f"Use fewer groups, or collect calibration rows: one threshold for all is uneven, and a group needs {needed} "
        f"rows for its own ({named})."
    )


def _per_group(found: Diagnosis, option: Option) -> str:
    before = found.options[0]
    widths = listed(
        f"{label} {width:.4g} instead of {before.widths[label]:.4g}" for label, width in option.widths.items()
    )
    cost = f"mean width {option.width:.4g} instead of {before.width:.4g} ({widths})"
    if found.in_use:
        return f"Keep taxonomy={found.taxonomy}: one threshold for all would be uneven. On these rows, {cost}."
    return f"Calibrate per group, taxonomy={found.taxonomy}: {cost}. {_TRIED}"


def _per_group_by_thresholds(found: Diagnosis) -> str:
    """Return the advice where widths are not known, or are infinite."""
    own = listed(f"{group.group} {group.threshold:.4g}" for group in found.table if group.rows)
    by = f", taxonomy={found.taxonomy}" if found.taxonomy else ""
    cure = None if found.dependence is None or found.options else found.dependence.cure
    instead = f"; or change the score to {cure}, which shows no dependence on the spread" if cure else ""
    do = "Keep to thresholds" if found.in_use else "Use thresholds"
    return f"{do} per group{by}: {own} instead of {found.threshold:.4g} for all{instead}. {_TRIED}"


def _nothing_to_do(audit: Audit) -> str:
    if audit.n_infinite:
        return (
            f"Calibrate on more rows: coverage lies within {audit.tolerance:g} of the level in every group, but "
            f"{audit.n_infinite} of {audit.overall.rows} intervals are infinite."
        )
    return f"Nothing to do: in every group coverage lies within {audit.tolerance:g} of the level."


def _infinite(audit: Audit) -> list[str]:
    """Return what infinite intervals take, if there are some."""
    if not audit.n_infinite:
        return []
    needed = rows_for_finite_threshold(audit.level)
    return [
        f"Calibrate on more rows: {audit.n_infinite} of {audit.overall.rows} intervals are infinite, and a finite "
        f"threshold at level {audit.level:g} takes {needed} calibration rows."
    ]


def _calibrate_on_more(audit: Audit) -> list[str]:
    """Return what to do about groups whose coverage their calibration rows leave to chance, if there are any."""
    if not audit.left_to_chance:
        return []
    named = listed(f"{row.group} ({row.coverage:.3f})" for row in audit.left_to_chance)
    needed = rows_needed(audit.level, audit.tolerance)
    return [
        f"Calibrate on more rows: off the level, but not beyond what their calibration rows leave to chance, are "
        f"{named}; {needed} rows a threshold keep coverage within {audit.tolerance:g} of the level 19 times in 20."
    ]


def _by_feature(audit: Audit) -> list[str]:
    """Return what the features show beside the groups, if they do."""
    named = audit.features_off_the_level
    return [f"Look beyond these groups, too: off the level are {named}."] if named else []
