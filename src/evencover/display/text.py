"""Numbers and tables as text."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_MAX_LISTED = 6


def count_text(count: int) -> str:
    """Return a number of rows for a sentence: 586, 10 788."""
    return str(count) if count < 10_000 else f"{count:,}".replace(",", " ")


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


def text_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as text: the first column aligned left, the others right."""
    lines = [list(header), *(list(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        for line in lines
    ]
    return "\n".join("  " + "  ".join(line).rstrip() for line in aligned)
