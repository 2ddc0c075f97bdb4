"""Batches of rows, what is wrong with them, passes over all of them, and their intervals as new columns."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from evencover.calibration.table_columns import TableColumns
from evencover.groups import MARGINAL_LABELS, Label, first_few
from evencover.guarantees import Guarantee
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.frames import check_column_not_rounded
from evencover.inputs.optional import import_optional
from evencover.intervals import Intervals
from evencover.predictions import Prediction
from evencover.rows import Rows

_FLOATS = ("halffloat", "float", "double")


@dataclass(frozen=True, eq=False)
class Batch:
    """Some consecutive rows of a part of the data, such as a file.

    Parameters
    ----------
    table : pyarrow.RecordBatch
        The rows.
    part : str
        The name of the part, for messages; empty if it has none.
    first_row : int
        The position of the first of these rows in the part.
    """

    table: Any
    part: str = ""
    first_row: int = 0

    def __len__(self) -> int:
        return int(self.table.num_rows)


class InvalidPartError(ValueError):
    """A part of the data that cannot be used; the message names the part."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(f"{part}: {message}" if part else message)
        self.part, self.message = part, message

    def __reduce__(self) -> tuple[type["InvalidPartError"], tuple[str, str]]:
        return type(self), (self.part, self.message)  # errors of other processes are pickled


@contextmanager
def named_errors(part: str) -> Iterator[None]:
    """Let the message of a ValueError begin with the name of the part."""
    try:
        yield
    except InvalidPartError:
        raise
    except ValueError as error:
        raise InvalidPartError(part, str(error)) from None


def import_arrow(module: str = "pyarrow") -> Any:
    """Return a module of pyarrow."""
    return import_optional(module, extra="datasets", purpose="data in parts")


class LabelCodes:
    """Codes of labels: 0, 1, ... in the order in which the labels occur.

    Parameters
    ----------
    labels : sequence of labels
        Labels that have codes already.
    """

    def __init__(self, labels: Sequence[Label] = ()) -> None:
        self._code_of = {label: code for code, label in enumerate(labels)}
        self.labels: list[Label] = list(labels)
        self._dictionary: Any = None
        self._codes_of_dictionary = np.empty(0, dtype=np.intp)

    def encode(self, column: Any) -> IntArray:
        """Return the code of each value of a pyarrow array without missing values. Shape (n,)."""
        encoded = column if is_dictionary(column) else column.dictionary_encode()
        if self._dictionary is None or not encoded.dictionary.equals(self._dictionary):
            self._dictionary = encoded.dictionary
            self._codes_of_dictionary = np.full(len(self._dictionary), -1, dtype=np.intp)
        indices = _as_numpy(encoded.indices)
        codes: IntArray = self._codes_of_dictionary.take(indices)
        if codes.min(initial=0) < 0:  # values of the dictionary that occur for the first time
            for position in np.unique(indices[codes < 0]).tolist():
                self._codes_of_dictionary[position] = self.code(self._dictionary[position].as_py())
            codes = self._codes_of_dictionary.take(indices)
        return codes

    def code(self, label: Label) -> int:
        """Return the code of a label, which is added if it is new."""
        code = self._code_of.setdefault(label, len(self.labels))
        if code == len(self.labels):
            self.labels.append(label)
        return code


def rows_of(batch: Batch, columns: TableColumns) -> Rows:
    """Return the predictions of a batch, and its targets if they have a column, without checking groups."""
    values: dict[str, Any] = {role: exact_numbers(batch.table, name, role) for role, name in columns.numeric.items()}
    target = values.pop("target", None)
    if columns.lower is not None:
        return Rows(Prediction.from_quantiles(**values), y=target)
    return Rows(Prediction(**values), y=target)


def codes_of(batch: Batch, columns: TableColumns, codes: LabelCodes) -> IntArray:
    """Return the code of each row's group; 0 if there is no column of groups. Shape (n,)."""
    if columns.group is None:
        return np.zeros(len(batch), dtype=np.intp)
    column = batch.table.column(columns.group)
    n_missing = int(is_missing(column).sum()) if may_be_missing(column) else 0
    if n_missing:
        raise ValueError(f"column {columns.group!r} (group) must have a label in every row; missing: {n_missing}")
    return codes.encode(column)


def label_codes(columns: TableColumns) -> LabelCodes:
    """Return codes of labels; if there is no column of groups, all rows are in one group."""
    return LabelCodes(MARGINAL_LABELS if columns.group is None else ())


def numbers(column: Any) -> FloatArray:
    """Return a pyarrow array of numbers as numpy array; missing values are NaN. Shape (n,)."""
    values: FloatArray = _as_numpy(column if str(column.type) == "double" else column.cast("double", safe=False))
    return values


def exact_numbers(table: Any, name: str, role: str) -> FloatArray:
    """Return a column of numbers as `numbers` does. Raise ValueError if whole numbers are too large for that."""
    values = numbers(table.column(name))
    check_column_not_rounded(table, name, values, f"column {name!r} ({role})")
    return values


def _as_numpy(column: Any) -> Any:
    """Return a pyarrow array as numpy array; one without missing values without loading pandas, as pyarrow does."""
    return column.to_numpy(zero_copy_only=False) if column.null_count else np.from_dlpack(column)


def is_missing(column: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which values of a pyarrow array are missing. Shape (n,)."""
    values = column.dictionary_decode() if is_dictionary(column) else column
    return values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def may_be_missing(column: Any) -> bool:
    """Return whether a pyarrow array can have missing values, without looking at each."""
    in_dictionary = is_dictionary(column) and column.dictionary.null_count > 0
    return bool(column.null_count) or in_dictionary or str(column.type) in _FLOATS


def is_dictionary(column: Any) -> bool:
    """Return whether a pyarrow array holds codes of a dictionary."""
    return str(column.type).startswith("dictionary")


def column_problems(schema: Any, columns: TableColumns) -> list[str]:
    """Return a sentence for each column that a table with this schema lacks, or that has another type than needed."""
    return name_problems(schema.names, columns) or type_problems(schema, columns)


def name_problems(names: Sequence[str], columns: TableColumns) -> list[str]:
    """Return a sentence for each column that a table with these names lacks; one, if names occur twice."""
    return _repeated_names(names) or columns.missing_from(names)


def check_names(names: Sequence[str], needed: Sequence[str]) -> None:
    """Raise ValueError unless a table with these column names has the needed ones, and each name once."""
    missing = [f"no column named {name!r}" for name in needed if name not in names]
    if missing:
        raise ValueError(f"{'; '.join(missing)}; the columns are {first_few(list(names))}")
    if repeated := _repeated_names(names):
        raise ValueError(*repeated)


def _repeated_names(names: Sequence[str]) -> list[str]:
    repeated = sorted(name for name, n in Counter(names).items() if n > 1)
    return [f"duplicate column names: {repeated}"] if repeated else []


def type_problems(schema: Any, columns: TableColumns) -> list[str]:
    """Return a sentence for each column of a schema that has another type than its role needs."""
    problems = []
    for role, name in columns.by_role.items():
        kind = kind_of(schema.field(name).type)
        expected = ("text", "whole numbers", "booleans") if role == "group" else ("numbers", "whole numbers")
        if kind not in (*expected, "null"):  # null: no row has a value, which is found when the rows are read
            found = f"{kind} ({schema.field(name).type})" if kind != str(schema.field(name).type) else kind
            problems.append(f"column {name!r} ({role}) must hold {' or '.join(expected)}; it holds {found}")
    return problems


def kind_of(arrow_type: Any) -> str:
    """Return what a column of this type holds, in words; the type itself if there is no word for it."""
    text = str(arrow_type)
    text = text.removeprefix("dictionary<values=").partition(",")[0] if text.startswith("dictionary") else text
    if text in ("string", "large_string", "string_view"):
        return "text"
    if text.startswith(("int", "uint")):
        return "whole numbers"
    if text in _FLOATS or text.startswith("decimal"):
        return "numbers"
    return "booleans" if text == "bool" else text


def problems_of(batches: Iterable[Batch], columns: Mapping[str, str]) -> list[str]:
    """Return a sentence for each column, by role, with values that cannot be used, with the first such row."""
    found: dict[str, tuple[str, int, int]] = {}  # by column: what it must be, the number of rows, the first row
    n = 0
    for batch in batches:
        n = batch.first_row + len(batch)
        for role, name in columns.items():
            must, wrong = _wrong_values(batch, role, name)
            if wrong.any():
                _, count, first = found.get(f"{role} {name}", (must, 0, batch.first_row + int(wrong.argmax())))
                found[f"{role} {name}"] = must, count + int(wrong.sum()), first
    return [
        f"{must}; wrong: {count} of {n} rows (the first in row {first}, counted from 0)"
        for must, count, first in found.values()
    ]


def _wrong_values(batch: Batch, role: str, name: str) -> tuple[str, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return what a column must be, and which of its values are not."""
    column = batch.table.column(name)
    if role == "group":
        return f"column {name!r} (group) must have a label in every row", is_missing(column)
    values = numbers(column)
    if role == "spread":
        must = f"column {name!r} (spread) must be positive and finite in every row"
        return must, ~(np.isfinite(values) & (values > 0))
    return f"column {name!r} ({role}) must hold a finite number in every row", ~np.isfinite(values)


State = TypeVar("State")


class Pass(Protocol[State]):
    """What is computed from all rows of a table. It can be pickled, as its states can."""

    @property
    def columns(self) -> TableColumns:
        """The columns with a role."""

    @property
    def names(self) -> list[str]:
        """The names of all columns that are read."""

    @property
    def searched(self) -> Mapping[str, str]:
        """The columns, by role, that are searched for all wrong values if there is one."""

    def __call__(self, batches: Iterable[Batch], /) -> State:
        """Return the state of some batches. Raise InvalidPartError for a wrong value."""

    def merge(self, states: Iterable[State], /) -> State:
        """Return the state of the batches of several states."""


class TableData(Protocol):
    """A table in parts."""

    def part_sizes(self, names: Sequence[str], /) -> Mapping[str, int]:
        """Return the number of rows of each part, by its name and in order, when these columns are read."""

    def check_columns(self, columns: TableColumns, /) -> None:
        """Raise ValueError, with all problems, unless the table has these columns, with types that fit."""

    def check_names(self, names: Sequence[str], /) -> None:
        """Raise ValueError unless the table has these columns."""

    def reduce(self, one_pass: Pass[State], /) -> State:
        """Return the state of all rows. Raise ValueError, with the first part that has any, for wrong values."""


class FrameData(TableData, Protocol):
    """A DataFrame of an engine, which computes new columns when they are needed."""

    def with_intervals(self, intervals: "BatchIntervals", /) -> Any:
        """Return a DataFrame of the same kind with the columns of intervals."""


class BatchIntervals(Protocol):
    """What predicts the intervals of batches, on any machine: it can be pickled."""

    @property
    def outputs(self) -> list[str]:
        """The names of the new columns, as `Intervals.columns` has them."""

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee."""

    @property
    def searched(self) -> dict[str, str]:
        """The columns, by role, that are searched for all wrong values if there is one."""

    def check(self, data: TableData) -> None:
        """Raise ValueError unless the data has the columns that are needed."""

    def needed(self, names: Sequence[str]) -> list[str]:
        """Return which columns of a table with these names are needed."""

    def codes(self) -> LabelCodes:
        """Return codes of the known labels; those of groups that were not in the calibration are added to them."""

    def __call__(self, batch: Batch, codes: LabelCodes) -> Intervals:
        """Return the intervals of the rows, with bounds of shape (m,), or (m, L) for L levels."""


def renamed(names: Sequence[str], outputs: Sequence[str], *, ignore_case: bool = False) -> list[str]:
    """Return the names of a table's columns next to new ones: ``table_lower`` if a new one is ``lower``.

    With `ignore_case`, also for ``Lower``: engines such as Spark take both for the same.
    """
    key = str.lower if ignore_case else str
    new_names, found = {key(name) for name in outputs}, list[str]()
    for name in names:
        while key(name) in new_names or name in found:
            name = f"table_{name}"
        found.append(name)
    return found


def output_schema(stored: Any, outputs: Sequence[str], *, ignore_case: bool = False) -> Any:
    """Return the pyarrow schema of a table with the new columns, which come last."""
    arrow = import_arrow()
    names = renamed(stored.names, outputs, ignore_case=ignore_case)
    fields = [field.with_name(name) for field, name in zip(stored, names, strict=True)]
    return arrow.schema([*fields, *(arrow.field(name, arrow.float64()) for name in outputs)], stored.metadata)


def output_columns(intervals: Intervals, outputs: Sequence[str]) -> list[Any]:
    """Return the new columns as pyarrow arrays."""
    columns = intervals.columns()
    return [_float_array(columns[name]) for name in outputs]


def _float_array(values: FloatArray) -> Any:
    """Return numbers as a pyarrow array; NaN, which stands for the bounds of empty intervals, as missing values."""
    arrow = import_arrow()
    if np.isnan(values.sum()) and np.isnan(values).any():
        return arrow.array(values, from_pandas=True)
    buffer = arrow.py_buffer(np.ascontiguousarray(values))
    return arrow.Array.from_buffers(arrow.float64(), len(values), [None, buffer])
