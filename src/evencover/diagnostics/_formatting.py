"""Numbers, groups and tables as text."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from evencover._internal.html import Markup, html_table, tag
from evencover.diagnostics._verdict import GroupCoverage, Verdict

COLUMNS = ("group", "rows", "coverage", "95 % interval")
_NAMED = 6  # before the rest is counted
_LINES = 30


class HasPValue(GroupCoverage, Protocol):
    """A group's coverage, with a p-value."""

    @property
    def adjusted(self) -> float:
        """The p-value, adjusted for the number of groups."""


class HasVerdict(Protocol):
    """Something with a verdict."""

    @property
    def verdict(self) -> Verdict:
        """The verdict."""

    @property
    def advice(self) -> str:
        """What to do."""


RowType = TypeVar("RowType", bound=HasPValue)


def probability(p: float) -> str:
    """Return a p-value as text, never 0."""
    return "not known" if np.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def cells(row: GroupCoverage) -> tuple[str, ...]:
    """Return the text of `COLUMNS` for a group."""
    return str(row.group), str(row.rows), f"{row.coverage:.3f}", f"{row.low:.3f} to {row.high:.3f}"


def table_of(rows: Sequence[RowType], written: Callable[[RowType], Sequence[str]], header: Sequence[str]) -> str:
    """Return a table of groups as text; of very many, those with the smallest p-values."""
    more = [f"  and {len(rows) - _LINES} more groups"] if len(rows) > _LINES else []
    return "\n".join([text_table(header, map(written, _few(rows))), *more])


def verdict_html(
    judged: HasVerdict, rows: Sequence[RowType], written: Callable[[RowType], Sequence[str]], header: Sequence[str]
) -> Markup:
    """Return a verdict with its table as HTML, for notebooks."""
    said = tag("p", tag("b", f"Verdict: {judged.verdict}. "), judged.advice)
    more = [tag("p", f"And {len(rows) - _LINES} more groups.")] if len(rows) > _LINES else []
    return tag("div", said, html_table(header, map(written, _few(rows))), *more)


def _few(rows: Sequence[RowType]) -> list[RowType]:
    """Return all rows or, of very many, those with the smallest p-values."""
    if len(rows) <= _LINES:
        return list(rows)
    return sorted(rows, key=lambda row: (np.isnan(row.adjusted), row.adjusted))[:_LINES]


def short_repr(score: object) -> str:
    """Return how a score or a taxonomy is written in code, in one line, without what it is by default."""
    if not is_dataclass(score):
        return " ".join(repr(score).split())
    values = [(part.name, getattr(score, part.name), part.default) for part in fields(score)]
    given = (f"{name}={value!r}" for name, value, default in values if value != default)
    return f"{type(score).__name__}({', '.join(given)})"


def listed(texts: Iterable[str]) -> str:
    """Return texts as a list, cut where it grows long."""
    every = list(texts)
    return ", ".join(every[:_NAMED] + [f"{len(every) - _NAMED} more"] * (len(every) > _NAMED))


def text_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as text, the first column to the left and the others to the right."""
    lines = [list(header), *(list(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ready = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        for line in lines
    ]
    return "\n".join("  " + "  ".join(line).rstrip() for line in ready)
