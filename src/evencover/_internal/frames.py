"""Tables of features: numpy, SciPy sparse, pandas, polars and pyarrow, read by position."""

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
    """What a result needs to become a frame like the one that came in: its library and its index."""

    library: Literal["pandas", "polars", "pyarrow"]
    index: Any = None

    def __getitem__(self, rows: Any) -> "FrameKind":
        return self if self.index is None else FrameKind(self.library, self.index[rows])


def frame_kind(table: Any) -> FrameKind | None:
    """Return the kind of frame `table` is, None if it is none."""
    match _library(table):
        case "pandas":
            return FrameKind("pandas", table.index)
        case "polars" | "pyarrow" as library:
            return FrameKind(library)
        case _:
            return None


def new_frame(columns: Mapping[str, NDArray[Any]], kind: FrameKind) -> Any:
    """Return a frame of these columns in the kind's library, with its index."""
    narwhals = import_optional("narwhals", extra="frames", purpose="a result as a frame")
    frame = narwhals.from_dict(dict(columns), backend=kind.library).to_native()
    if kind.index is not None:
        frame.index = kind.index
    return frame


def take(table: Any, rows: NDArray[Any]) -> Any:
    """Return the rows at these positions, in the table's own type."""
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


def column(table: Any, key: str | int, name: str) -> NDArray[Any]:
    """Return one column as an array of shape (n,), by name or by position; `name` is who asks."""
    if table is None:
        raise ValueError(f"{name} needs X, the features; none were given")
    names = column_names(table)
    if names is not None:
        found = table[_named(key, names, name)]
        kind = str(getattr(found, "type", ""))  # pyarrow's
        if kind.startswith("dictionary"):  # which as an array would lose what is missing
            found = found.cast(found.type.value_type)
        elif kind.startswith("decimal"):
            found = found.cast("float64")
        return np.asarray(found)
    values = table if hasattr(table, "tocsr") else np.asarray(table)
    if isinstance(key, str):
        raise TypeError(f"{name} names a column, but X is an array without names; give its position")
    if values.ndim != 2 or not -values.shape[1] <= key < values.shape[1]:
        raise ValueError(f"{name} needs X with a column {key}; got X of shape {values.shape}")
    if hasattr(values, "tocsr"):
        return np.asarray(values.tocsr()[:, [key]].toarray()).ravel()
    return np.asarray(values[:, key])


def columns_of(table: Any, names: Sequence[str]) -> Any:
    """Return some of a frame's columns, in the frame's own type."""
    return table.select(names) if _library(table) == "pyarrow" else table[list(names)]


def is_missing(values: NDArray[Any]) -> BoolArray:
    """Return which values of a column are None, NaN, NaT or pandas' NA."""
    if values.dtype.kind == "O":
        return np.array([value is None or _differs_from_itself(value) for value in values.tolist()], dtype=bool)
    return np.asarray(values != values)


def _differs_from_itself(value: Any) -> bool:
    same = value == value
    if isinstance(same, bool | np.bool_):
        return not same
    return not hasattr(same, "__len__")  # pandas' NA says NA; arrays, which are no missing values, answer one by one


def as_numbers(values: NDArray[Any]) -> FloatArray | None:
    """Return a column of numbers as floats, missing ones as NaN; None for a column of anything else."""
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


def first_non_numeric(values: NDArray[Any]) -> tuple[int, Any]:
    """Return the row and the value of the first in a column that is neither a number nor missing.

    In a column of text that is the first one that does not read as a number, if there is one: a word among numbers
    makes all cells of a CSV file's column text.
    """
    if values.dtype.str.endswith("[ns]"):  # such times would become whole numbers
        values = values.astype(f"{values.dtype.kind}8[us]")
    held = values.tolist()
    words = (row for row, value in enumerate(held) if not reads_as_number(value) and _is_non_numeric(value))
    row = next(chain(words, (row for row, value in enumerate(held) if _is_non_numeric(value))))
    return row, held[row]


def reads_as_number(value: Any) -> bool:
    """Return whether a value is a number, or a text that looks like one."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return "_" not in str(value)  # 1_000 is a number to Python only


def _is_non_numeric(value: Any) -> bool:
    """Return whether a value is neither a number nor missing."""
    alone = np.empty(1, dtype=object)
    alone[0] = value  # np.array([value]) would take a list for a row of values
    return as_numbers(alone) is None


def column_names(table: Any) -> list[Any] | None:
    """Return the names of a frame's columns, None for an array."""
    if frame_kind(table) is None:
        return None
    return list(table.column_names if hasattr(table, "column_names") else table.columns)


def _library(table: Any) -> str:
    """Return the frame library whose class the table's is or derives from, else nothing."""
    origins = (base.__module__.partition(".")[0] for base in type(table).__mro__)
    return next((origin for origin in origins if origin in ("pandas", "polars", "pyarrow")), "")


def _named(key: str | int, names: list[Any], asker: str) -> Any:
    """Return the column's name: the key itself, or the name at that position."""
    if key in names:
        return key
    if isinstance(key, int | np.integer) and -len(names) <= key < len(names):
        return names[key]
    raise ValueError(f"{asker} needs a column that X does not have; X has {names}")
