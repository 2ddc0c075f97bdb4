"""What is said about new rows: which of them are outside of what the model has seen."""

from datetime import datetime
from typing import Any

from evencover.display.text import count_text, join_first, number_text
from evencover.models.ranges import Outside, OutsideColumn


def outside_text(found: Outside) -> str:
    """Return how many rows are outside of what the model has seen, and in which columns, in one line."""
    n, outside = found.n_rows, int(found.rows.sum())
    columns = sorted(found.columns, key=lambda each: -each.count)
    are = "row is" if n == 1 else "rows are"
    text = f"{count_text(outside)} of {count_text(n)} {are} outside what the model has seen"
    if columns:
        text += f": {join_first(map(_column_text, columns))}"
    without = join_first(found.without_values)
    return text + f". Columns without any value, which had values in training: {without}" * bool(without)


def _column_text(column: OutsideColumn) -> str:
    if column.example is None:
        return f"{column.name} ({count_text(column.count)}, missing)"
    return f"{column.name} ({count_text(column.count)}, such as {_value_text(column.example)})"


def _value_text(value: Any) -> str:
    if isinstance(value, datetime):
        return str(value.date() if value.time() == datetime.min.time() else value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return number_text(value) if is_number else repr(value)
