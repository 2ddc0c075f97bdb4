"""The four answers of a result: how often right, how wide, is it even, what to do."""

from collections.abc import Callable, Sequence
from typing import Any

from evencover.diagnostics._formatting import number_text, range_text
from evencover.diagnostics._headlines import off_sentences, share_sentence
from evencover.diagnostics._verdict import coverage_range, tolerance_range
from evencover.diagnostics.audit_result import Audit, GroupAudit
from evencover.taxonomies import ByFeature, ByPrediction, BySpread, Product

HOW_OFTEN, HOW_WIDE, IS_EVEN, WHAT_TO_DO = "How often right", "How wide", "Is it even", "What to do"


def answers(audit: Audit) -> dict[str, str]:
    """Return the four answers, in the order of reading."""
    return {
        HOW_OFTEN: share_sentence(audit.overall, audit.level, audit.tolerance),
        HOW_WIDE: how_wide(audit),
        IS_EVEN: is_even(audit),
        WHAT_TO_DO: audit.advice,
    }


def how_wide(audit: Audit) -> str:
    """Return the widths: typical, of the easiest and the hardest third, without any model; and what the model explains.

    Easy rows are those with narrow intervals: there the model expects small errors.
    """
    quality = audit.quality
    return " ".join(filter(None, [quality.width_text, thirds_text(audit.by_width, number_text), quality.model_text]))


def thirds_text(by_width: Sequence[GroupAudit], number: Callable[[float], str]) -> str:
    """Return the mean widths of the narrowest and the widest intervals; `number` writes a number as text."""
    rows = [row for row in by_width if row.rows]
    if len(rows) < 2:
        return "All intervals are equally wide."
    shares = [row.rows / sum(each.rows for each in rows) for row in rows]
    thirds = len(rows) == 3 and all(0.25 < share < 0.42 for share in shares)
    third = " third of the rows" if thirds else " rows"
    narrow, wide = (number(rows[end].width) for end in (0, -1))
    return f"On average {narrow} for the easiest{third}, {wide} for the hardest{third}."


def is_even(audit: Audit) -> str:
    """Return whether all groups are right as often as asked, with numbers."""
    if audit.verdict == "uneven":
        return f"No. {_what_is_off(audit)}"
    several = sum(row.rows > 0 for row in audit.table) > 1
    shown = range_text(*coverage_range(audit.table))
    where = "the true share of right intervals in every group" if several else "the true share of right intervals"
    if audit.verdict == "even":
        return f"Yes. {where.capitalize()} lies between {shown}."
    asked = range_text(*tolerance_range(audit))
    groups = "No group is shown to be off" if several else "It is not shown to be off"
    return (
        f"Not known yet. {groups}: {where} lies between {shown}. The rows are too few to be sure that it lies between "
        f"{asked}, which would count as even."
    )


def _what_is_off(audit: Audit) -> str:
    if not audit.off:
        return "All rows together are off; no single group is shown to be."
    off = [(row.coverage, audit.name_of(row)) for row in audit.off]
    return off_sentences(off, audit.level, "Right too rarely", "Right too often, so too wide")


def group_meaning(taxonomy: Any, labels: Sequence[Any]) -> str:
    """Return what the groups of a taxonomy are, in a sentence; empty if their names say it."""
    names = [str(label) for label in labels]
    if isinstance(taxonomy, BySpread) and len(names) == 3:
        return (
            f"{names[0].capitalize()}, {names[1]} and {names[2]} are about a third of the rows each, by how large an "
            f"error the model expects: {names[0]} is the third that it finds easiest, {names[2]} the third that it "
            "finds hardest."
        )
    if isinstance(taxonomy, BySpread) and len(names) > 1:
        return (
            f"The rows are in {len(names)} groups by how large an error the model expects, from {names[0]}, the rows "
            f"that it finds easiest, to {names[-1]}, those that it finds hardest."
        )
    if isinstance(taxonomy, ByPrediction) and len(names) > 1:
        return f"The rows are in {len(names)} groups by the predicted value, from {names[0]} to {names[-1]}."
    if isinstance(taxonomy, ByFeature):
        return f"The rows are in groups by {taxonomy.column}."
    if isinstance(taxonomy, Product):
        return " ".join(group_meaning(part, part.labels_) for part in getattr(taxonomy, "taxonomies_", ()))
    return ""
