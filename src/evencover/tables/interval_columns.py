"""What predicts the intervals of batches, and the intervals as new columns of a table."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from evencover.guarantees import Guarantee
from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals
from evencover.tables.batches import Batch, LabelCodes, TableData, import_arrow


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
