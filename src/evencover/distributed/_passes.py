"""Passes over the rows of a table, and the tables in parts that they are made over.

    one_pass(batches) -> state            where the batches are: in a thread, a process, on another machine
    one_pass.merge([state, ...]) -> state in any order, and in any number of steps

So the result does not depend on the parts of a table, nor on the engine that reads them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from evencover.distributed._batches import Batch
from evencover.table_columns import TableColumns

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
