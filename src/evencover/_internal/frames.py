"""Tables of features in numpy, SciPy sparse, pandas, polars and pyarrow; rows are selected by position."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evencover._internal.arrays import BoolArray, FloatArray
from evencover._internal.optional import import_optional


@dataclass(frozen=True, eq=False)
class FrameKind:
    """The library and the index of an input frame, so that a result can be returned as a frame of the same kind."""

    library: Literal["pandas", "polars", "pyarrow"]
    index: Any = None

    def __getitem__(self, rows: Any) -> "FrameKind":
        return self if self.index is None else FrameKind(self.library, self.index[rows])


def frame_kind(table: Any) -> FrameKind | None:
    """Return the frame kind of `table`, or None if it is not a frame."""
    match _library(table):
        case "pandas":
            return FrameKind("pandas", table.index)
        case "polars" | "pyarrow" as library:
            return FrameKind(library)
        case _:
            return None


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
        return table.take(rows)
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
    names = column_names(table)
    if names is not None:
        values = table[_column_name(key, names, caller)]
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


def is_missing(values: NDArray[Any]) -> BoolArray:
    """Return which values of a column are None, NaN, NaT or pandas' NA."""
    if values.dtype.kind == "O":
        return np.array([value is None or _differs_from_itself(value) for value in values.tolist()], dtype=bool)
    return np.asarray(values != values)


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
    if any(isinstance(value, str | bytes) for value in values[~missing].tolist()):
        return None
    try:
        return np.where(missing, np.nan, values).astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def numeric_column(values: NDArray[Any], name: str, *, rule: str = "must hold numbers") -> FloatArray:
    """Return a column as by `as_numbers`; raise ValueError, naming the first other value, if it holds anything else.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column.
    name : str
        What the error calls the column.
    rule : str
        What the error says that the column must do.
    """
    numbers = as_numbers(values)
    if numbers is None:
        row, value = first_non_numeric(values)
        raise ValueError(f"{name} {rule}; got {value!r:.80} in row {row} (counted from 0)")
    return numbers


def check_no_infinite(numbers: FloatArray, name: str) -> None:
    """Raise ValueError if a column holds infinite values; missing ones, which are NaN, are allowed."""
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise ValueError(
            f"{name} must have finite or missing values; infinite values: {len(infinite)} (the first in row "
            f"{infinite[0]}, counted from 0)"
        )


def first_non_numeric(values: NDArray[Any]) -> tuple[int, Any]:
    """Return the row and the value of a column's first value that is neither a number nor missing.

    One word makes a whole column of a CSV file text. So values that cannot be read as a number come first, before
    numbers written as text.
    """
    if values.dtype.str.endswith("[ns]"):  # tolist would turn nanoseconds into integers
        values = values.astype(f"{values.dtype.kind}8[us]")
    cells = values.tolist()
    words = (row for row, value in enumerate(cells) if not reads_as_number(value) and _is_non_numeric(value))
    row = next(chain(words, (row for row, value in enumerate(cells) if _is_non_numeric(value))))
    return row, cells[row]


def reads_as_number(value: Any) -> bool:
    """Return whether a value is a number, or text that can be read as one."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return "_" not in str(value)  # only Python reads 1_000 as a number


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


def _library(table: Any) -> str:
    """Return the frame library of the table's class or of one of its base classes, or an empty string."""
    packages = (base.__module__.partition(".")[0] for base in type(table).__mro__)
    return next((package for package in packages if package in ("pandas", "polars", "pyarrow")), "")


def _column_name(key: str | int, names: list[Any], caller: str) -> Any:
    """Return the column's name: the key itself, or the name at that position."""
    if key in names:
        return key
    if isinstance(key, int | np.integer) and -len(names) <= key < len(names):
        return names[key]
    raise ValueError(f"{caller}: X has no column {key!r}; the columns are: {', '.join(map(str, names))}")
