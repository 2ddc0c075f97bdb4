"""Tables of features in numpy, SciPy sparse, pandas, polars and pyarrow; rows are selected by position."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from itertools import chain
from types import NoneType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    beyond_exact,
    reads_as_number,
    rounded_positions,
    rounding_text,
)
from evencover.inputs.optional import import_optional

_TEXT_TYPES = ("object", "str", "large_string", "dictionary")  # "str" of pandas, and "string" of all libraries
_CATEGORY_TYPES = ("category", "categorical", "enum")
_DATE_TYPES = ("date", "time", "duration", "period")  # how the names of such types start in all libraries


@dataclass(frozen=True, eq=False)
class FrameKind:
    """The library and the index of an input frame, so that a result can be returned as a frame of the same kind."""

    library: Literal["pandas", "polars", "pyarrow"]
    index: Any = None

    def __getitem__(self, rows: Any) -> "FrameKind":
        return self if self.index is None else FrameKind(self.library, self.index[rows])


_ROWS_OF_FILE = b"evencover.rows_of_file"  # in the metadata of a pyarrow table that was read from a text or Excel file


@dataclass(frozen=True)
class RowNumbers:
    """How messages and results number the rows of a table: as its text or Excel file does, or from 0.

    In a file with a header, the first line is row 1, as in a spreadsheet. Rows of any other table have no numbers of
    their own, so the first is row 0, as in pandas.

    Parameters
    ----------
    blank : tuple of int or None
        For a text or Excel file: its rows that are neither the header nor rows of the table, such as blank rows and
        titles, counted from 1, in ascending order. None for any other table.
    has_header : bool
        Whether a row of the file holds the names of the columns.
    """

    blank: tuple[int, ...] | None = None
    has_header: bool = True

    def __getitem__(self, position: int | np.integer[Any]) -> int:
        """Return the number of the row at a position of the table."""
        return int(self.at(np.asarray(position)))

    def at(self, positions: IntArray) -> IntArray:
        """Return the numbers of the rows at these positions of the table."""
        if self.blank is None:
            return positions
        numbers = positions + 1 + self.has_header  # without blank rows
        blank_above = np.asarray(self.blank, dtype=np.intp) - np.arange(len(self.blank))  # numbered likewise
        return numbers + np.searchsorted(blank_above, numbers, side="right")

    def text(self, position: int | np.integer[Any]) -> str:
        """Return the row at a position as text."""
        return f"row {self[position]} (counted from 0)" if self.blank is None else f"row {self[position]} of the file"

    def first(self, bad: BoolArray) -> str:
        """Return a note in parentheses on the first of some bad rows."""
        number = self[bad.argmax()]
        return f"(the first in row {number}{', counted from 0' if self.blank is None else ' of the file'})"


FROM_ZERO = RowNumbers()


def row_numbers(table: Any) -> RowNumbers:
    """Return how messages number the rows of a table."""
    text = _metadata(table).get(_ROWS_OF_FILE)
    if text is None:
        return FROM_ZERO
    has_header, *blank = json.loads(text)
    return RowNumbers(tuple(blank), has_header)


def with_row_numbers(table: Any, blank: Sequence[int], *, has_header: bool = True) -> Any:
    """Return a pyarrow table whose rows are numbered as in a file with these blank rows, and with a header or none."""
    return table.replace_schema_metadata({**_metadata(table), _ROWS_OF_FILE: json.dumps([has_header, *blank])})


def _without_row_numbers(table: Any) -> Any:
    """Return a pyarrow table of selected rows: their numbers in the file are no longer known."""
    metadata = _metadata(table)
    return table if metadata.pop(_ROWS_OF_FILE, None) is None else table.replace_schema_metadata(metadata)


def _metadata(table: Any) -> dict[bytes, Any]:
    """Return the metadata of a pyarrow table; it is empty for any other table."""
    schema = getattr(table, "schema", None) if _library(table) == "pyarrow" else None
    return dict(getattr(schema, "metadata", None) or {})


def frame_kind(table: Any) -> FrameKind | None:
    """Return the frame kind of `table`, or None if it is not a frame."""
    match _library(table):
        case "pandas" if hasattr(table, "iloc"):  # and not an index or an array
            return FrameKind("pandas", table.index)
        case "polars" | "pyarrow" as library:
            return FrameKind(library)
        case _:
            return None


def check_same_index(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError if pandas tables or columns do not have the same index, in the same order.

    Rows are matched by position, so a column in another order, or of other rows, would belong to the wrong rows.

    Parameters
    ----------
    arguments : mapping from str to value
        Arguments of a function, by name, with an entry for each row. Those without an index, and those of another
        length, which are another error, are not compared. A `FrameKind` stands for rows whose index it holds.
    """
    given = [(name, index) for name, value in arguments.items() if (index := _index_of(value)) is not None]
    for name, index in given[1:]:
        first, expected = given[0]
        if index is expected or len(index) != len(expected) or index.equals(expected):
            continue
        row = _first_difference(expected, index)
        if row is not None:
            source = f"{first}.frame.index" if isinstance(arguments[first], FrameKind) else f"{first}.index"
            without_index = f"{name}.to_numpy()" if arguments[name].ndim == 1 else f"{name}.set_axis({source})"
            raise ValueError(f"{_index_problem(given[0], (name, index), row, source)} pass {without_index}")


def _index_of(values: Any) -> Any:
    """Return the index of a pandas table or column; None if there is none."""
    if isinstance(values, FrameKind):
        return values.index
    return values.index if hasattr(values, "iloc") and _library(values) == "pandas" else None


def _first_difference(expected: Any, index: Any) -> int | None:
    """Return the first row whose labels differ; missing labels are equal."""
    pairs = enumerate(zip(expected.tolist(), index.tolist(), strict=True))
    return next((row for row, pair in pairs if not _are_same_label(*pair)), None)


def _are_same_label(label: Any, other: Any) -> bool:
    missing = [value is None or _differs_from_itself(value) for value in (label, other)]
    return all(missing) if any(missing) else bool(label == other)


def _index_problem(first: tuple[str, Any], other: tuple[str, Any], row: int, source: str) -> str:
    """Return the error message, but for its end, for two indexes by argument that differ first in this row."""
    (name, expected), (other_name, index) = first, other
    same_labels = Counter(index) == Counter(expected)
    by_label = f"To match rows by label, pass {other_name}.loc[{source}]. " * (same_labels and index.is_unique)
    return (
        f"{other_name} must have the index of {name}, in the same order, because rows are matched by position; got "
        f"{'the same labels in another order' if same_labels else 'other labels'}: row {row} (counted from 0) is "
        f"{expected.tolist()[row]!r:.60} in {name}, and {index.tolist()[row]!r:.60} in {other_name}. {by_label}If the "
        "rows are in the same order,"
    )


def new_frame(columns: Mapping[str, NDArray[Any]], kind: FrameKind) -> Any:
    """Return a frame with these columns, of the given library and index."""
    narwhals = import_optional("narwhals", extra="frames", purpose="a result as a frame")
    frame = narwhals.from_dict(dict(columns), backend=kind.library).to_native()
    if kind.index is not None:
        frame.index = kind.index
    return frame


def take(table: Any, rows: NDArray[Any]) -> Any:
    """Return the rows at these positions, in the type of the table."""
    if table is None:
        return None
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if _library(table) == "pyarrow":
        return _without_row_numbers(table.take(rows))
    if hasattr(table, "tocsr"):
        return table.tocsr()[rows]
    by_position = hasattr(table, "__getitem__") and not isinstance(table, Sequence)
    return (table if by_position else np.asarray(table))[rows]


def n_rows(table: Any) -> int:
    """Return the number of rows."""
    shape = table.shape if hasattr(table, "shape") else np.asarray(table).shape
    return int(shape[0])


def column(table: Any, key: str | int, caller: str) -> NDArray[Any]:
    """Return one column, by name or by position, as an array of shape (n,); error messages name the caller."""
    if table is None:
        raise ValueError(f"{caller} needs X, the features; got None")
    if _library(table):
        values = table[_column_name(table, key, caller)]
        arrow_type = str(getattr(values, "type", ""))
        if arrow_type.startswith("dictionary"):  # np.asarray would lose the missing values
            values = values.cast(values.type.value_type)
        elif arrow_type.startswith("decimal"):
            values = values.cast("float64")
        return np.asarray(values)
    values = table if hasattr(table, "tocsr") else np.asarray(table)
    if isinstance(key, str):
        raise TypeError(f"{caller} names a column, but X is an array without column names; give the column's position")
    if values.ndim != 2 or not -values.shape[1] <= key < values.shape[1]:
        raise ValueError(f"{caller} needs X with a column {key}; got X of shape {values.shape}")
    if hasattr(values, "tocsr"):
        return np.asarray(values.tocsr()[:, [key]].toarray()).ravel()
    return np.asarray(values[:, key])


def columns_of(table: Any, names: Sequence[str]) -> Any:
    """Return these columns of a frame, in the type of the frame."""
    return table.select(names) if _library(table) == "pyarrow" else table[list(names)]


def with_columns(table: Any, columns: Mapping[str, NDArray[Any]]) -> Any:
    """Return a frame with other values in some of its columns."""
    if not columns:
        return table
    match _library(table):
        case "pandas":
            table = table.copy(deep=False)
            for name, values in columns.items():
                table[name] = values
            return table
        case "polars":
            return table.with_columns(**columns)
    arrow = import_optional("pyarrow", extra="frames", purpose="a pyarrow table")
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, arrow.array(values))
    return table


def is_missing(values: NDArray[Any]) -> BoolArray:
    """Return which values of a column are None, NaN, NaT or pandas' NA."""
    if values.dtype.kind != "O":
        return np.asarray(values != values)
    cells = values.tolist()
    if is_plain_text(cells):
        return np.array([cell is None for cell in cells], dtype=bool)
    return np.array(
        [type(cell) is not str and (cell is None or _differs_from_itself(cell)) for cell in cells], dtype=bool
    )


def is_plain_text(cells: Sequence[Any]) -> bool:
    """Return whether all cells are text or None, which is found faster than what each cell is."""
    return set(map(type, cells)) <= {str, NoneType}


def _differs_from_itself(value: Any) -> bool:
    equal = value == value
    if isinstance(equal, bool | np.bool_):
        return not equal
    return not hasattr(equal, "__len__")  # pandas' NA == NA is NA; arrays, which are not missing, compare elementwise


def as_numbers(values: NDArray[Any]) -> FloatArray | None:
    """Return a column of numbers as floats, missing ones as NaN; return None for any other column."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind != "O":
        return None
    missing = is_missing(values)
    known = values[~missing].tolist()
    if known and (is_plain_text(known) or any(isinstance(value, str | bytes) for value in known)):
        return None
    try:
        return np.where(missing, np.nan, values).astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def numbers_in_text(values: NDArray[Any]) -> FloatArray | None:
    """Return a column of numbers as text as floats, missing ones as NaN; None if a value is anything else."""
    known = ~is_missing(values)
    cells = values[known].tolist()
    if not cells or not all(isinstance(cell, str) and reads_as_number(cell) for cell in cells):
        return None
    numbers = np.full(len(values), np.nan)
    numbers[known] = [float(cell) for cell in cells]
    return numbers


def numeric_column(
    values: NDArray[Any], name: str, *, rule: str = "must hold numbers", rows: RowNumbers = FROM_ZERO
) -> FloatArray:
    """Return a column as by `as_numbers`; raise ValueError, naming the first other value, if it holds anything else.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column.
    name : str
        What the error calls the column.
    rule : str
        What the error says that the column must do.
    rows : RowNumbers
        How the error numbers the rows.
    """
    numbers = as_numbers(values)
    if numbers is None:
        row, value = first_non_numeric(values)
        raise ValueError(f"{name} {rule}; got {value!r:.80} in {rows.text(row)}")
    return numbers


def check_no_infinite(numbers: FloatArray, name: str, *, rows: RowNumbers = FROM_ZERO) -> None:
    """Raise ValueError if a column holds infinite values; missing ones, which are NaN, are allowed."""
    problem = infinite_values(numbers, name, rows)
    if problem:
        raise ValueError(problem)


def check_column_not_rounded(
    table: Any, key: str, numbers: FloatArray, name: str, *, rows: RowNumbers | None = None
) -> None:
    """Raise ValueError if whole numbers in a column are too large for floating point; see `rounded_values`."""
    problem = rounded_values(table, key, numbers, name, rows=rows)
    if problem:
        raise ValueError(problem)


def rounded_values(table: Any, key: str, numbers: FloatArray, name: str, *, rows: RowNumbers | None = None) -> str:
    """Return which whole numbers of a column floating point rounds, as an error message; empty if there are none.

    Parameters
    ----------
    table : frame of n rows
        The table.
    key : str
        The column.
    numbers : ndarray of shape (n,)
        The column as floating-point numbers, missing ones as NaN.
    name : str
        What the error calls the column.
    rows : RowNumbers, optional
        How the error numbers the rows; by default it names none.
    """
    large = beyond_exact(numbers)
    if not len(large):
        return ""
    given = np.empty(len(large), dtype=object)
    given[:] = _as_list(take(table[_column_name(table, key, "table")], large))
    positions = rounded_positions(given, numbers[large])
    if not len(positions):
        return ""
    where = "" if rows is None else f" in {rows.text(large[positions[0]])}"
    return rounding_text(name, f"{len(positions)} (the first is {given[positions[0]]}{where})")


def _as_list(values: Any) -> list[Any]:
    """Return the values of a column as Python objects."""
    return list(values.to_pylist() if hasattr(values, "to_pylist") else values.to_list())


def infinite_values(numbers: FloatArray, name: str, rows: RowNumbers) -> str:
    """Return how many values of a column are infinite, as an error message; empty if none is."""
    infinite = np.isinf(numbers)
    if not infinite.any():
        return ""
    return f"{name} must have finite or missing values; infinite values: {infinite.sum()} {rows.first(infinite)}"


def first_non_numeric(values: NDArray[Any]) -> tuple[int, Any]:
    """Return the row and the value of a column's first value that is neither a number nor missing.

    One word makes a whole column of a CSV file text. So values that cannot be read as a number come first, before
    numbers written as text.
    """
    if values.dtype.str.endswith("[ns]"):  # tolist would turn nanoseconds into integers
        values = values.astype(f"{values.dtype.kind}8[us]")
    cells = values.tolist()
    if values.dtype.kind in "mM":  # times that Python cannot represent became numbers
        cells = [str(value) if isinstance(cell, int) else cell for value, cell in zip(values, cells, strict=True)]
    words = (row for row, value in enumerate(cells) if not reads_as_number(value) and _is_non_numeric(value))
    row = next(chain(words, (row for row, value in enumerate(cells) if _is_non_numeric(value))))
    return row, cells[row]


def _is_non_numeric(value: Any) -> bool:
    """Return whether a value is neither a number nor missing."""
    single = np.empty(1, dtype=object)
    single[0] = value  # np.array([value]) would turn a list into a row of values
    return as_numbers(single) is None


def column_names(table: Any) -> list[Any] | None:
    """Return the column names of a frame, or None for an array."""
    if frame_kind(table) is None:
        return None
    return list(table.column_names if hasattr(table, "column_names") else table.columns)


def date_columns(table: Any) -> list[Any]:
    """Return the columns of a table that hold dates, times or durations: by name, or by position in an array."""
    if len(getattr(table, "shape", ())) != 2 or hasattr(table, "tocsr"):
        return []
    names = column_names(table)
    if names is None:
        array = np.asarray(table)
        columns = enumerate(array.T) if array.dtype.kind in "OmM" else ()
        return [position for position, values in columns if _holds_dates(str(array.dtype), values)]
    in_order = enumerate(zip(names, _type_names(table), strict=True))
    return [name for position, (name, kind) in in_order if _holds_dates(kind, _objects(table, position, kind))]


def _type_names(table: Any) -> list[str]:
    """Return the type of each column of a frame as text, in small letters."""
    types = list(table.schema.types if _library(table) == "pyarrow" else table.dtypes)
    texts = {kind: str(kind).lower() for kind in set(types)}  # few types, even in a wide table
    return [texts[kind] for kind in types]


def text_columns(table: Any, *, categories: bool = True) -> list[Any]:
    """Return the columns of a table that hold text: by name, or by position in an array.

    Numbers written as text do not count; nor do types for categories, which some models read, without `categories`.
    """
    if len(getattr(table, "shape", ())) != 2 or hasattr(table, "tocsr"):
        return []
    names = column_names(table)
    if names is None:
        array = np.asarray(table)
        return [key for key, values in enumerate(array.T) if array.dtype.kind in "OUST" and _holds_text(values)]
    kinds = (*_TEXT_TYPES, *(_CATEGORY_TYPES if categories else ()))
    possible = [name for name, kind in zip(names, _type_names(table), strict=True) if kind.startswith(kinds)]
    return [name for name in possible if _holds_text(column(table, name, "text_columns"))]


def _holds_text(values: NDArray[Any]) -> bool:
    return (
        as_numbers(values) is None
        and numbers_in_text(values) is None
        and any(isinstance(value, str | bytes) for value in values.tolist())
    )


def _holds_dates(kind: str, objects: NDArray[Any]) -> bool:
    """Return whether a type is one of dates or times or, for a column of Python objects, whether its first value is."""
    if kind != "object":
        return kind.startswith(_DATE_TYPES)
    first = next((value for value in objects if value is not None and not _differs_from_itself(value)), None)
    return isinstance(first, date | time | timedelta | np.datetime64 | np.timedelta64)


def _objects(table: Any, position: int, kind: str) -> NDArray[Any]:
    """Return the values of a pandas column if it holds Python objects, else nothing."""
    has_objects = kind == "object" and hasattr(table, "iloc")
    return table.iloc[:, position].to_numpy() if has_objects else np.empty(0)


def _library(table: Any) -> str:
    """Return the frame library of the table's class or of one of its base classes, or an empty string."""
    packages = (base.__module__.partition(".")[0] for base in type(table).__mro__)
    return next((package for package in packages if package in ("pandas", "polars", "pyarrow")), "")


def _column_name(table: Any, key: str | int, caller: str) -> Any:
    """Return the name of a frame's column: the key itself, or the name at that position."""
    known = table.schema.get_all_field_indices(key) if _library(table) == "pyarrow" and isinstance(key, str) else ()
    if known or (hasattr(table, "iloc") and key in table.columns):  # the list of all names takes long in wide tables
        return key
    names = column_names(table) or []
    if key in names:
        return key
    if isinstance(key, int | np.integer) and -len(names) <= key < len(names):
        return names[key]
    raise ValueError(f"{caller}: X has no column {key!r}; the columns are: {', '.join(map(str, names))}")


_RESULTS = {"row", "prediction", "lower", "upper", "group", "covered", "outside"}


def join_columns(table_columns: Mapping[str, Any], result_columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; a column of the table with the name of a result gets the prefix ``table_``.

    This holds for all names that results have in some file, so that a name means the same in each of them.
    """
    columns = dict(result_columns)
    for name, values in table_columns.items():
        while name in columns or name in _RESULTS:
            name = f"table_{name}"
        columns[name] = values
    return columns
