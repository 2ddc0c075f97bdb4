"""The four answers of a result: how often right, how wide, is it even, what to do."""

from collections.abc import Callable, Sequence

from evencover.diagnostics.audit_result import Audit, GroupAudit
from evencover.diagnostics.formatting import coverage_text, join_first, range_text
from evencover.diagnostics.headlines import off_sentences
from evencover.diagnostics.verdicts import ON_A_BOUND, cannot_be_narrower, shown_range, tolerance_range
from evencover.display.text import number_text
from evencover.taxonomies import are_about_equal

HOW_OFTEN, HOW_WIDE, IS_EVEN, WHAT_TO_DO = "How often right", "How wide", "Is it even", "What to do"
HOW_FAR = "How far"  # from the predictions are one-sided bounds


def answers(audit: Audit) -> dict[str, str]:
    """Return the four answers, in the order of reading."""
    return {
        HOW_OFTEN: audit.share_text,
        HOW_WIDE if audit.quality.side is None else HOW_FAR: how_wide(audit),
        IS_EVEN: is_even(audit),
        WHAT_TO_DO: audit.advice,
    }


def how_wide(audit: Audit) -> str:
    """Return the widths: typical, without any model, of the narrowest and the widest third; what the model explains.

    Of one-sided bounds, return the distance from the predictions instead of the widths.
    """
    quality = audit.quality
    thirds = thirds_text(audit.by_width, number_text) if quality.side is None else ""
    return " ".join(filter(None, [quality.width_text, thirds, quality.model_text]))


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
    groups = "No group is shown to be off" if several else "It is not shown to be off"
    return (
        f"Not known yet. {groups}: {where} lies between {shown}. The rows are too few to be sure that it lies between "
        f"{asked}, which would count as even."
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
    off = [(row.coverage, audit.name_of(row)) for row in audit.off]
    too_far = {None: "wide", "upper": "high", "lower": "low"}[audit.quality.side]
    return off_sentences(off, audit.level, "Right too rarely", f"Right too often, so too {too_far}")
