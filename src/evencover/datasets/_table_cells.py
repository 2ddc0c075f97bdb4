"""Cells of tables from files: which are missing values, and which texts are numbers."""

from collections.abc import Collection
from typing import Any

from evencover._internal.arrays import reads_as_number, warn_user
from evencover._internal.optional import import_optional
from evencover.datasets._number_texts import Comma, numbers_in_texts

_MAX_EXAMPLES = 3  # columns that a warning names
ERRORS = ("#N/A", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")  # spreadsheet cells without a value
MISSING = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", *ERRORS)


def import_pyarrow(module: str = "pyarrow") -> Any:
    """Return a module of pyarrow."""
    return import_optional(module, extra="datasets", purpose="a table file")


def is_text(column: Any) -> bool:
    """Return whether a column of a pyarrow table holds text."""
    return str(column.type) in ("string", "large_string")


def without_missing(table: Any, missing: Collection[str]) -> Any:
    """Return a pyarrow table in which the cells with these texts, or with the numbers in them, are missing values."""
    if not missing:
        return table
    numbers = [float(text) for text in missing if reads_as_number(text)]
    for position, column in enumerate(table.columns):
        if is_text(column):
            table = _without(table, position, list(missing))
        elif str(column.type).startswith(("int", "uint")):
            table = _without(table, position, [int(number) for number in numbers if number.is_integer()])
        elif str(column.type) in ("float", "double"):
            table = _without(table, position, numbers)
    return table


def with_numbers(table: Any, file: str, *, text: Collection[str] = (), comma: Comma = "thousands") -> Any:
    """Return a pyarrow table in which columns of numbers that are written as text hold numbers; warn about them.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    file : str
        The name of the file, for the warning.
    text : collection of str
        Columns that stay text.
    comma : {"thousands", "decimal", "either"}
        What a comma between digits means.
    """
    examples = []
    for position, name in enumerate(table.column_names):
        if name in text or not is_text(table.column(position)):
            continue
        encoded = table.column(position).combine_chunks().dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        numbers = numbers_in_texts(texts, comma=comma)
        if numbers is None:
            _warn_of_ambiguous_commas(texts, name, file, comma)
            continue
        values = import_pyarrow().array(list(numbers.values()), type="float64")
        table = table.set_column(position, name, values.take(encoded.indices))
        marked = next((each for each in texts if numbers[each] is not None and not reads_as_number(each)), None)
        examples += [] if marked is None else [f"{name} ({marked!r} is {_short(numbers[marked])})"]
    if examples:
        more = len(examples) - _MAX_EXAMPLES
        rest = f" and {more} more" if more > 0 else ""
        plural = "s" * (len(examples) > 1)
        warn_user(f"{file} holds numbers as text in the column{plural} {', '.join(examples[:_MAX_EXAMPLES])}{rest}")
    return table


def _warn_of_ambiguous_commas(texts: list[str], name: str, file: str, comma: Comma) -> None:
    """Warn if a column would be numbers, were it known what a comma means."""
    with_point, with_comma = numbers_in_texts(texts, comma="thousands"), numbers_in_texts(texts, comma="decimal")
    if comma == "thousands" and with_comma:
        example = next(each for each in texts if with_comma[each] is not None and not reads_as_number(each))
        number = _short(with_comma[example])
        warn_user(
            f"{file}: column {name!r} is read as text; if {example!r} means {number}, write {number} into the file"
        )
    elif comma == "either" and with_point and with_comma:
        example = next(each for each in texts if with_point[each] != with_comma[each])
        warn_user(
            f"{file}: column {name!r} is read as text, because {example!r} can mean {_short(with_point[example])} or "
            f"{_short(with_comma[example])}; write one of these into the file"
        )


def _short(number: float | None) -> str:
    return repr(number).removesuffix(".0")


def _without(table: Any, position: int, values: Collection[Any]) -> Any:
    """Return a table with some values of a column replaced by missing values."""
    compute, arrow = import_pyarrow("pyarrow.compute"), import_pyarrow()
    column = table.column(position)
    found = compute.is_in(column, value_set=arrow.array(values, type=column.type))
    if not compute.any(found).as_py():
        return table
    kept = compute.if_else(found, arrow.scalar(None, type=column.type), column)
    return table.set_column(position, table.column_names[position], kept)
