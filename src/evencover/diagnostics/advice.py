"""What to do about it, in a sentence, with how that was found and at what cost."""

import numpy as np

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.counts import SIGNIFICANT
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.options import Option
from evencover.diagnostics.planning import rows_needed
from evencover.diagnostics.verdicts import excludes
from evencover.diagnostics.words import in_code, listed
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
    return _per_group(diagnosis) if diagnosis.options else _per_group_by_scores(diagnosis)


def advice_on_audit(found: Audit) -> str:
    """Return what to do about an audit."""
    if found.verdict == "even":
        return f"Nothing to do: in every group coverage lies within {found.tolerance:g} of the level."
    if found.verdict == "undecided":
        return " ".join([_more_rows("test", found)] * bool(found.rows_to_decide) + _calibrate_on_more(found))
    rows = [*found.table, *([found.slab] if found.slab else [])]
    off = [row for row in rows if row.adjusted < SIGNIFICANT and excludes(row, found.level)]
    named = listed(f"{row.group} ({row.coverage:.3f})" for row in off)
    if found.overall.adjusted < SIGNIFICANT and excludes(found.overall, found.level):
        share = f"{found.overall.coverage:.3f} of all rows instead of {found.level:g}"
        do = "Calibrate on rows that the model has not seen"
        if found.overall.coverage > found.level:
            do = "Narrower intervals would do, unless ties between scores forbid them"
        return f"{do}: these cover {share}; off the level are {named}."
    return f"Calibrate per group, or by a score that is even, on fresh rows: off the level are {named}."


def _calibrate_on_more(found: Audit) -> list[str]:
    """Return what to do about groups whose coverage their calibration rows leave to chance, if there are any."""
    if not found.left_to_chance:
        return []
    named = listed(f"{row.group} ({row.coverage:.3f})" for row in found.left_to_chance)
    needed = rows_needed(found.level, found.tolerance)
    return [
        f"Calibrate on more rows: {named} is off the level, but not beyond what its calibration rows leave to chance; "
        f"{needed} a threshold keep coverage within {found.tolerance:g} of the level 19 times in 20."
    ]


def _keep(found: Diagnosis) -> str:
    keep = (
        f"One threshold for all would do, without {found.taxonomy}" if found.in_use else "Keep the marginal predictor"
    )
    judged = [group for group in found.table if group.rows]
    low, high = min(group.low for group in judged), max(group.high for group in judged)
    return (
        f"{keep}: in every group its coverage lies within {found.tolerance:g} of the level, between {low:.3f} and "
        f"{high:.3f} by the groups' intervals. Found on its own calibration rows, with the threshold as it is."
    )


def _collect(found: Diagnosis) -> str:
    needed = rows_for_finite_threshold(found.level)
    if found.threshold == np.inf and sum(group.rows for group in found.table) < needed:
        return f"Collect calibration rows: a finite threshold at level {found.level:g} takes {needed}."
    if found.threshold == np.inf:
        return (
            f"Use another score: so many of these are infinite that every target is covered at level {found.level:g}."
        )
    return _more_rows("calibration", found)


def _more_rows(kind: str, found: Diagnosis | Audit) -> str:
    more = listed(f"{label} about {n}" for label, n in found.rows_to_decide.items())
    return (
        f"Collect more {kind} rows ({more}): these show neither evenness within {found.tolerance:g} of the level nor "
        "the lack of it. The numbers assume that coverage stays as seen."
    )


def _other_score(found: Diagnosis, option: Option) -> str:
    widths = listed(f"{label} {width:.4g}" for label, width in option.widths.items())
    cost = f"mean width {option.width:.4g} instead of {found.options[0].width:.4g} ({widths})"
    use = f"Use nonconformity={in_code(option.nonconformity)}"
    return f"{use}: one threshold is then even over these groups, {cost}. {_TRIED}"


def _fewer_groups(found: Diagnosis) -> str:
    short = listed(
        f"{group.group} has {group.rows}" for group in found.table if group.rows and group.threshold == np.inf
    )
    needed = rows_for_finite_threshold(found.level)
    return (
        f"Use fewer groups, or collect calibration rows: one threshold for all is uneven, and a group needs {needed} "
        f"rows for its own ({short})."
    )


def _per_group(found: Diagnosis) -> str:
    now, then = found.options[:2]
    widths = listed(f"{label} {width:.4g} instead of {now.widths[label]:.4g}" for label, width in then.widths.items())
    cost = f"mean width {then.width:.4g} instead of {now.width:.4g} ({widths})"
    if found.in_use:
        return f"Keep taxonomy={found.taxonomy}: one threshold for all would be uneven. Its cost here: {cost}."
    return f"Calibrate per group, taxonomy={found.taxonomy}: {cost}. {_TRIED}"


def _per_group_by_scores(found: Diagnosis) -> str:
    own = listed(f"{group.group} {group.threshold:.4g}" for group in found.table if group.rows)
    cure = None if found.dependence is None else found.dependence.cure
    instead = f", or change the score to {cure}, which shows no dependence on the spread" if cure else ""
    return f"Calibrate per group, with thresholds {own} instead of {found.threshold:.4g} for all{instead}. {_TRIED}"
