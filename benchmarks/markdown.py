"""Markdown tables, printed row by row."""


def print_row(*cells: str) -> None:
    """Print one row of a table at once: the next one may take a while."""
    print(f"| {' | '.join(cells)} |", flush=True)
