"""Groups as text: with their coverage in a sentence, and in tables."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

import numpy as np

from evencover.diagnostics.audit_result import Audit, GroupAudit
from evencover.diagnostics.verdicts import GroupCoverage
from evencover.display.html import Markup, html_table, tag
from evencover.display.text import count_text, number_text, p_value_text, percent_text, text_table

COVERAGE_COLUMNS = ("group", "rows", "coverage", "95 % interval")
AUDIT_COLUMNS = (*COVERAGE_COLUMNS[:3], "estimate", *COVERAGE_COLUMNS[3:], "p (Holm)", "mean width", "Winkler score")
WITHOUT_SCORE, WITHOUT_WIDTH = -1, -2  # where the columns end; one-sided bounds have neither score nor width
_MAX_TABLE_ROWS = 30

RowType = TypeVar("RowType", bound=GroupCoverage)
AuditColumns: TypeAlias = tuple[Callable[[GroupAudit], tuple[str, ...]], tuple[str, ...]]


def coverage_text(row: GroupCoverage) -> str:
    """Return a group with its coverage for a sentence: low (94.4 % of 1999 rows)."""
    return f"{row.group} ({percent_text(row.coverage)} of {count_text(row.rows)} rows)"


def audited_group_text(audit: Audit, row: GroupAudit) -> str:
    """Return a group of an audit with its coverage for a sentence; the worst region by its rule."""
    is_region = row is audit.worst_region
    return coverage_text(replace(row, group=f"rows with {audit.region_rule}") if is_region else row)


def coverage_cells(row: GroupCoverage) -> tuple[str, ...]:
    """Return the text of a group's `COVERAGE_COLUMNS`."""
    if not row.rows:
        return str(row.group), "0", "not known", "not known"
    return str(row.group), str(row.rows), f"{row.coverage:.3f}", f"{row.low:.3f} to {row.high:.3f}"


def audit_cells(row: GroupAudit) -> tuple[str, ...]:
    """Return the text of a group's `AUDIT_COLUMNS`."""
    *counts, interval = coverage_cells(row)
    estimate = f"{row.estimate:.3f}" if row.rows else "not known"
    return *counts, estimate, interval, p_value_text(row.adjusted), number_text(row.width), number_text(row.score)


def audit_columns(audit: Audit, *, score: bool = False) -> AuditColumns:
    """Return the cells of a group as a function, and the header; one-sided bounds have neither width nor score."""
    end = WITHOUT_WIDTH if audit.quality.side else None if score else WITHOUT_SCORE
    return lambda row: audit_cells(row)[:end], AUDIT_COLUMNS[:end]


def group_table(rows: Sequence[RowType], cells: Callable[[RowType], Sequence[str]], header: Sequence[str]) -> str:
    """Return a table of groups as text; with more than 30 groups, only those with the smallest p-values."""
    more = [f"  and {len(rows) - _MAX_TABLE_ROWS} more groups"] if len(rows) > _MAX_TABLE_ROWS else []
    return "\n".join([text_table(header, map(cells, _rows_with_smallest_p_values(rows))), *more])


def html_group_table(
    rows: Sequence[RowType], cells: Callable[[RowType], Sequence[str]], header: Sequence[str]
) -> list[Markup]:
    """Return the same table as HTML, for notebooks."""
    more = [tag("p", f"And {len(rows) - _MAX_TABLE_ROWS} more groups.")] if len(rows) > _MAX_TABLE_ROWS else []
    return [html_table(header, map(cells, _rows_with_smallest_p_values(rows))), *more]


def _rows_with_smallest_p_values(rows: Sequence[RowType]) -> list[RowType]:
    if len(rows) <= _MAX_TABLE_ROWS:
        return list(rows)
    return sorted(rows, key=lambda row: (np.isnan(row.adjusted), row.adjusted))[:_MAX_TABLE_ROWS]
