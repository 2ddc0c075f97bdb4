"""Markdown tables, printed row by row."""

from collections.abc import Sequence


def print_row(*cells: str) -> None:
    """Print one row of a table at once: the next one may take a while."""
    print(row(cells), flush=True)


def row(cells: Sequence[str]) -> str:
    """Return one row of a table."""
    return f"| {' | '.join(cells)} |"


def spaced(number: int) -> str:
    """Return an integer with spaces between the thousands."""
    return f"{number:,}".replace(",", " ")
