"""A pass over the partitions of a DataFrame on a cluster: what the task of a partition returns, and how it merges.

A wrong value is not an exception in a task, because the engine would try the task again, and report whichever task
fails first. So a task returns the error, and the error of the first partition that has one is raised at the end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

from evencover.calibration.table_columns import TableColumns
from evencover.intervals import Intervals
from evencover.tables.batches import Batch, InvalidPartError, Pass, State, column_problems, kind_of, problems_of
from evencover.tables.interval_columns import BatchIntervals


@dataclass(frozen=True, eq=False)
class Outcome(Generic[State]):
    """What tasks have found.

    Parameters
    ----------
    state : state of a pass, or None
        The state of the partitions without errors.
    position : int or None
        The first partition with an error.
    message : str
        Its error.
    n_errors : int
        The number of partitions with an error.
    kinds : frozenset of str
        What the column of groups holds, in words; in columns of Python objects it can differ.
    """

    state: State | None = None
    position: int | None = None
    message: str = ""
    n_errors: int = 0
    kinds: frozenset[str] = frozenset()

    def result(self, columns: TableColumns) -> State:
        """Return the state. Raise ValueError if a partition has an error, or if groups differ in their type."""
        if self.position is not None:
            others = f"; {self.n_errors} partitions have such errors" if self.n_errors > 1 else ""
            raise InvalidPartError(partition_name(self.position), f"{self.message}{others}")
        if len(self.kinds) > 1:
            kinds = " and ".join(sorted(self.kinds))
            raise ValueError(f"column {columns.group!r} (group) must hold the same in all partitions; it holds {kinds}")
        return self.state  # type: ignore[return-value]


def partition_name(position: int) -> str:
    """Return the name of a partition, for messages."""
    return f"partition {position}"


def partition_outcome(one_pass: Pass[State], tables: Iterable[Any], position: int) -> Outcome[State]:
    """Return the outcome of a partition, which is an iterable of record batches."""
    batches = _Batches(tables, position, one_pass.columns)
    try:
        return Outcome(one_pass(batches), kinds=frozenset(batches.kinds))
    except InvalidPartError as error:
        problems = problems_of(batches.from_current(), one_pass.searched)
        return Outcome(position=position, message="; ".join(problems) or error.message, n_errors=1)


def merged_outcomes(one_pass: Pass[State], outcomes: Iterable[Outcome[State]]) -> Outcome[State]:
    """Return the outcome of the partitions of several outcomes."""
    position, message, n_errors = None, "", 0
    kinds: set[str] = set()

    def states() -> Iterator[State]:
        nonlocal position, message, n_errors
        for outcome in outcomes:
            kinds.update(outcome.kinds)
            if outcome.position is None:
                yield outcome.state  # type: ignore[misc]
                continue
            n_errors += outcome.n_errors
            if position is None or outcome.position < position:
                position, message = outcome.position, outcome.message

    state = one_pass.merge(states())
    return Outcome(None if n_errors else state, position, message, n_errors, frozenset(kinds))


def partition_intervals(
    intervals: BatchIntervals, tables: Iterable[Any], position: int
) -> Iterator[tuple[Any, Intervals]]:
    """Yield each record batch of a partition with its intervals. Raise InvalidPartError, with all wrong values."""
    part, codes, first_row = partition_name(position), intervals.codes(), 0
    for table in tables:
        batch = Batch(table.select(intervals.needed(table.schema.names)), part, first_row)
        try:
            yield table, intervals(batch, codes)
        except InvalidPartError as error:
            problems = problems_of([batch], intervals.searched)
            raise InvalidPartError(part, "; ".join(problems) or error.message) from None
        first_row += table.num_rows


class _Batches:
    """The batches of a partition, which can be read once; the current one is known, to search it again.

    Parameters
    ----------
    tables : iterable of pyarrow.RecordBatch
        The rows.
    position : int
        The position of the partition.
    columns : TableColumns
        The columns with a role, whose types are checked.
    """

    def __init__(self, tables: Iterable[Any], position: int, columns: TableColumns) -> None:
        self._tables, self._part, self._columns = iter(tables), partition_name(position), columns
        self._current: Batch | None = None
        self.kinds: set[str] = set()  # what the column of groups holds

    def __iter__(self) -> Iterator[Batch]:
        first_row = 0
        for table in self._tables:
            problems = column_problems(table.schema, self._columns)
            if problems:
                raise InvalidPartError(self._part, "; ".join(problems))
            if self._columns.group is not None and table.num_rows:
                self.kinds.add(kind_of(table.schema.field(self._columns.group).type))
            self._current = Batch(table, self._part, first_row)
            yield self._current
            first_row += table.num_rows

    def from_current(self) -> Iterator[Batch]:
        """Yield the current batch again, and the rest; nothing if columns have wrong types."""
        if self._current is not None:
            yield self._current
            first_row = self._current.first_row + len(self._current)
            for table in self._tables:
                yield Batch(table, self._part, first_row)
                first_row += table.num_rows
