"""Numbers, groups and tables as text."""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from math import ceil, floor
from typing import TypeVar

import numpy as np

from evencover.diagnostics.verdicts import GroupCoverage, HasVerdict
from evencover.display.html import Markup, html_table, tag
from evencover.display.text import count_text, text_table
from evencover.display.text import join_first as join_first
from evencover.scores import Score
from evencover.scores.support import without_support

COVERAGE_COLUMNS = ("group", "rows", "coverage", "95 % interval")
_MAX_TABLE_ROWS = 30


RowType = TypeVar("RowType", bound=GroupCoverage)


def p_value_text(p: float) -> str:
    """Return a p-value for a table, never 0: 0.312, < 0.001 or not known."""
    return "not known" if np.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_value_phrase(p: float) -> str:
    """Return a p-value for a sentence: p = 0.312, p < 0.001 or p not known."""
    text = p_value_text(p)
    return f"p = {text}" if text[0].isdigit() else f"p {text}"


def percent_text(share: float) -> str:
    """Return a share as a percentage for a sentence: 88.9 %."""
    return f"{100 * round(share, 3):.1f} %"


def range_text(low: float, high: float) -> str:
    """Return two shares for a sentence with "between", rounded outwards: 87 % and 93.4 %."""
    down, up = floor(round(1000 * low, 6)) / 10, ceil(round(1000 * high, 6)) / 10
    return f"{down:g} % and {up:g} %"


def coverage_text(row: GroupCoverage) -> str:
    """Return a group with its coverage for a sentence: low (94.4 % of 1999 rows)."""
    return f"{row.group} ({percent_text(row.coverage)} of {count_text(row.rows)} rows)"


def coverage_cells(row: GroupCoverage) -> tuple[str, ...]:
    """Return the text of a group's `COVERAGE_COLUMNS`."""
    if not row.rows:
        return str(row.group), "0", "not known", "not known"
    return str(row.group), str(row.rows), f"{row.coverage:.3f}", f"{row.low:.3f} to {row.high:.3f}"


def group_table(rows: Sequence[RowType], cells: Callable[[RowType], Sequence[str]], header: Sequence[str]) -> str:
    """Return a table of groups as text; with more than 30 groups, only those with the smallest p-values."""
    more = [f"  and {len(rows) - _MAX_TABLE_ROWS} more groups"] if len(rows) > _MAX_TABLE_ROWS else []
    return "\n".join([text_table(header, map(cells, _rows_with_smallest_p_values(rows))), *more])


def verdict_html(
    result: HasVerdict, rows: Sequence[RowType], cells: Callable[[RowType], Sequence[str]], header: Sequence[str]
) -> Markup:
    """Return a verdict with its table as HTML, for notebooks."""
    sentence = tag("p", tag("b", f"Verdict: {result.verdict}. "), f"{result.headline} {result.advice}")
    more = [tag("p", f"And {len(rows) - _MAX_TABLE_ROWS} more groups.")] if len(rows) > _MAX_TABLE_ROWS else []
    return tag("div", sentence, html_table(header, map(cells, _rows_with_smallest_p_values(rows))), *more)


def _rows_with_smallest_p_values(rows: Sequence[RowType]) -> list[RowType]:
    """Return all rows or, if there are more than 30, those with the smallest p-values."""
    if len(rows) <= _MAX_TABLE_ROWS:
        return list(rows)
    return sorted(rows, key=lambda row: (np.isnan(row.adjusted), row.adjusted))[:_MAX_TABLE_ROWS]


def short_repr(value: object) -> str:
    """Return a score or a taxonomy as Python code, on one line, without parameters that have their default.

    The score inside another one is always shown, as its first argument.
    """
    if not is_dataclass(value):
        return " ".join(repr(value).split())
    parameters = [(part.name, getattr(value, part.name), part.default) for part in fields(value)]
    given = (
        short_repr(setting) if is_dataclass(setting) else f"{name}=" * (default is not MISSING) + repr(setting)
        for name, setting, default in parameters
        if setting != default or is_dataclass(setting)
    )
    return f"{type(value).__name__}({', '.join(given)})"


def score_text(score: Score) -> str:
    """Return a score as Python code, without its support: candidates share one, so their table need not repeat it."""
    return short_repr(without_support(score))
