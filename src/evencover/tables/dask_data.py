"""Dask DataFrames: a task for each partition, whose results are merged in a tree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.calibration.table_columns import TableColumns
from evencover.groups import first_few
from evencover.inputs.optional import import_optional
from evencover.tables.batches import (
    InvalidPartError,
    Pass,
    State,
    check_names,
    import_arrow,
    name_problems,
    type_problems,
)
from evencover.tables.interval_columns import BatchIntervals, renamed
from evencover.tables.partitions import Outcome, merged_outcomes, partition_intervals, partition_name, partition_outcome

_MERGED_AT_ONCE = 8  # results of tasks


@dataclass(frozen=True, eq=False)
class DaskData:
    """A Dask DataFrame.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The table.
    """

    frame: Any

    def part_sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Return the number of rows of each partition, by its name."""
        sizes = self.frame[list(names)].map_partitions(len).compute()
        return {partition_name(position): int(n) for position, n in enumerate(sizes)}

    def check_columns(self, columns: TableColumns) -> None:
        """Raise ValueError unless the table has these columns; what a column of objects holds is found in a pass."""
        self.check_names([])
        problems = name_problems(list(self.frame.columns), columns)
        schema = None if problems else import_arrow().Schema.from_pandas(self.frame._meta[columns.names])
        problems = problems or type_problems(schema, columns)
        if problems:
            raise ValueError("; ".join(problems))

    def check_names(self, names: Sequence[str]) -> None:
        """Raise ValueError unless the table has these columns, and names that are text."""
        known = list(self.frame.columns)
        others = [name for name in known if not isinstance(name, str)]
        if others:
            raise ValueError(f"data must have columns whose names are text; got {first_few(others)}")
        check_names(known, names)

    def reduce(self, one_pass: Pass[State]) -> State:
        """Return the state of all rows."""
        delayed = import_optional("dask", extra="cluster", purpose="a Dask DataFrame").delayed
        shared = delayed(one_pass, traverse=False)  # sent to each worker once
        outcome_of, merge = delayed(_outcome_of_frame), delayed(merged_outcomes)
        partitions = self.frame[one_pass.names].to_delayed()
        outcomes = [outcome_of(shared, partition, position) for position, partition in enumerate(partitions)]
        while len(outcomes) > 1:
            starts = range(0, len(outcomes), _MERGED_AT_ONCE)
            outcomes = [merge(shared, outcomes[start : start + _MERGED_AT_ONCE]) for start in starts]
        found: Outcome[State] = outcomes[0].compute()
        return found.result(one_pass.columns)

    def with_intervals(self, intervals: BatchIntervals) -> Any:
        """Return the table with new columns, which are computed when they are needed."""
        delayed = import_optional("dask", extra="cluster", purpose="a Dask DataFrame").delayed
        meta = _with_columns(self.frame._meta, {name: [] for name in intervals.outputs})
        shared = delayed(intervals, traverse=False)
        return self.frame.map_partitions(_predicted_frame, shared, meta=meta, enforce_metadata=False)


def dask_data(data: Any) -> DaskData:
    """Return a Dask DataFrame as a table in parts. Raise TypeError for other collections of Dask."""
    if getattr(data, "ndim", 0) != 2 or not hasattr(data, "to_delayed"):
        raise TypeError(f"data must be a Dask DataFrame; got {type(data).__module__}.{type(data).__name__}")
    return DaskData(data)


def _outcome_of_frame(one_pass: Pass[State], frame: Any, position: int) -> Outcome[State]:
    """Return the outcome of a partition, a pandas DataFrame; a task on a worker."""
    try:
        tables = list(_record_batches(frame))
    except InvalidPartError as error:
        return Outcome(position=position, message=error.message, n_errors=1)
    return partition_outcome(one_pass, tables, position)


def _predicted_frame(frame: Any, intervals: BatchIntervals, partition_info: Any = None) -> Any:
    """Return a partition with its intervals; a task on a worker."""
    position = partition_info["number"] if partition_info else 0
    tables = _record_batches(frame[intervals.needed(list(frame.columns))], partition_name(position))
    columns: dict[str, list[Any]] = {name: [] for name in intervals.outputs}
    for _, found in partition_intervals(intervals, tables, position):
        new = found.columns()
        for name in intervals.outputs:
            columns[name].append(new[name])
    return _with_columns(frame, columns)


def _with_columns(frame: Any, columns: dict[str, list[Any]]) -> Any:
    """Return a pandas DataFrame with new columns, each in pieces; its own columns get other names where needed."""
    renamed_frame = frame.set_axis(renamed(list(frame.columns), list(columns)), axis=1)
    return renamed_frame.assign(**{name: np.concatenate([*pieces, np.empty(0)]) for name, pieces in columns.items()})


def _record_batches(frame: Any, part: str = "") -> Iterator[Any]:
    """Yield the rows of a pandas DataFrame as record batches. Raise InvalidPartError if a column has several types."""
    arrow = import_arrow()
    try:
        table = arrow.Table.from_pandas(frame, preserve_index=False)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
        raise InvalidPartError(
            part, f"a column must hold values of one type; {' '.join(map(str, error.args))}"
        ) from None
    yield from table.combine_chunks().to_batches()
