"""Numbers, lists, settings and tables as text."""

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from math import ceil, floor
from typing import Any

import numpy as np

from evencover.display.lines import Lines, joined_lines, shown
from evencover.display.lines import count_text as count_text  # with the other texts; it is there to need no numpy

_MAX_LISTED = 6


def number_text(value: float, *, separator: str = " ", limit: float = 1e15) -> str:
    """Return a number with four significant digits; a large one, below the limit, without exponent, as in 36 830.

    The separator stands between thousands. NaN is "not known", an infinite number "infinite".
    """
    if np.isnan(value):
        return "not known"
    if np.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    if not 9999.5 <= abs(value) < limit:
        return f"{value:.4g}"
    return f"{float(f'{value:.4g}'):,.0f}".replace(",", separator)


def join_first(texts: Iterable[str]) -> str:
    """Return the first six texts, separated by commas, and the number of the others."""
    every = list(texts)
    return ", ".join(every[:_MAX_LISTED] + [f"and {len(every) - _MAX_LISTED} more"] * (len(every) > _MAX_LISTED))


def text_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Lines:
    """Return a table as text: the first column aligned left, the others right."""
    lines = [[shown(str(cell)) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        for line in lines
    ]
    return joined_lines("  " + "  ".join(line).rstrip() for line in aligned)


def p_value_text(p: float) -> str:
    """Return a p-value for a table, never 0: 0.312, < 0.001 or not tested."""
    return "not tested" if np.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_value_phrase(p: float) -> str:
    """Return a p-value for a sentence: p = 0.312, p < 0.001 or p not known."""
    text = p_value_text(p)
    return f"p = {text}" if text[0].isdigit() else f"p {text}"


def percent_text(share: float) -> str:
    """Return a share as a percentage for a sentence: 88.9 % or, without rows that show it, not tested."""
    return "not tested" if np.isnan(share) else f"{100 * round(share, 3):.1f} %"


def share_number(share: float) -> str:
    """Return a share for a table: 0.889 or, without rows that show it, not tested."""
    return "not tested" if np.isnan(share) else f"{share:.3f}"


def range_text(low: float, high: float) -> str:
    """Return two shares for a sentence with "between", rounded outwards: 87 % and 93.4 %."""
    down, up = floor(round(1000 * low, 6)) / 10, ceil(round(1000 * high, 6)) / 10
    return f"{down:g} % and {up:g} %"


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
