"""A table that is read in batches: a random sample of its rows, and the other rows, which calibrate or test."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from evencover.display.lines import Step
from evencover.groups import Groups, Label
from evencover.inputs import StageProgress
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray
from evencover.inputs.frames import FROM_ZERO, RowNumbers, column, is_missing, row_numbers
from evencover.studies.column_checks import read_target
from evencover.studies.messages import TableError
from evencover.studies.plan import Plan
from evencover.studies.table_preparation import MissingTarget
from evencover.tables.arrow_data import ArrowData, arrow_data
from evencover.tables.batches import Batch, InvalidPartError, check_names, import_arrow, kind_of, named_errors
from evencover.tables.files import plain_table
from evencover.taxonomies import table_columns

Use: TypeAlias = Literal["calibration", "test"]

_STEPS = {"calibration": "calibrating", "test": "testing", "without target": "predicting rows without a target"}


@dataclass(frozen=True, eq=False)
class UsedRows:
    """Some rows of a batch that have the same use.

    Parameters
    ----------
    table : pyarrow.Table
        Their columns.
    y : ndarray of shape (n,)
        Their targets.
    positions : ndarray of int, shape (n,)
        Their positions in the whole table.
    batch : Batch
        The batch.
    numbers : RowNumbers
        How messages number the rows of its file.
    """

    table: Any
    y: FloatArray
    positions: IntArray
    batch: Batch
    numbers: RowNumbers

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Let the message of a ValueError say in which file and batch the rows are, and how many it is about."""
        first = self.batch.first_row
        try:
            yield
        except ValueError as error:
            ends = " and ".join(map(self.numbers.text, (first, first + len(self.batch) - 1)))
            rows = f"{len(self.y)} rows between {ends}"
            raise InvalidPartError(f"{self.batch.part or 'data'}, {rows}", str(error)) from None


@dataclass(frozen=True, eq=False)
class LargeTable:
    """A table that is read in batches. The use of a row depends on the seed and its position, not on the batches.

    Parameters
    ----------
    source : ArrowData
        The data.
    target : str
        The column to predict.
    plan : Plan
        The share of the sample that its model does not see, and the seed.
    training_rows : int
        Number of rows of the sample that fit the model; fewer if several given groups need more held-out rows, or if
        the sample is half of the table.
    missing_values : sequence of str
        Texts that mean a missing value.
    missing_target : {"predict", "drop", "error"}
        What to do with rows without a target.
    report : callable
        Called with the step, and the number of rows that were read.
    missing_targets : list of int
        After `sample`, the number of rows without a target in each batch.
    """

    source: ArrowData
    target: str
    plan: Plan
    training_rows: int
    missing_values: Sequence[str]
    missing_target: MissingTarget
    report: StageProgress
    missing_targets: list[int] = field(default_factory=list)

    @property
    def numbers(self) -> RowNumbers:
        """How messages and results number the rows: as the text file that was read, or from 0."""
        return _numbers(self.source)

    def check(self) -> None:
        """Raise ValueError unless all files have the target and the same columns, with types that agree."""
        self.source.check_names([self.target])
        check_same_columns(self.source, table_columns(self.plan.taxonomy))

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the type of columns in all files, as `plain_table` has them."""
        schemas = [self._plain_schema(part.schema, names) for part in self.source.parts]
        unified = import_arrow().unify_schemas(schemas, promote_options="permissive")
        return {field.name: field.type for field in unified}

    def _plain_schema(self, schema: Any, names: Sequence[str]) -> Any:
        empty = import_arrow().schema([schema.field(name) for name in names]).empty_table()
        return plain_table(empty, list(names), ()).schema

    @cached_property
    def sampled(self) -> IntArray:
        """The positions of the rows in the sample, in increasing order."""
        n = self.source.n_rows
        size = bisect_left(range(n // 2), self.training_rows, key=lambda each: each - self.plan.n_held_out(each))
        rng = np.random.default_rng([self.plan.seed, 4])
        return np.sort(rng.choice(n, size, replace=False, shuffle=False))

    def sample(self) -> Any:
        """Return the rows of the sample as a table. Raise TableError if the target of any row cannot be used."""
        kept = []
        self.missing_targets.clear()
        for batch, first in self._batches(None, "sampling"):
            self.missing_targets.append(int(np.isnan(self._targets(batch)).sum()))
            kept.append(self._plain(batch.table).take(self._sampled_in(batch, first)))
        return import_arrow().concat_tables(kept, promote_options="permissive").combine_chunks()

    def rows(self, use: Use, names: Sequence[str]) -> Iterator[UsedRows]:
        """Yield the rows with this use, batch by batch, with some of their columns."""
        rng = np.random.default_rng([self.plan.seed, 5])
        for batch, first in self._batches(list(dict.fromkeys([*names, self.target])), _STEPS[use]):
            calibrates: BoolArray = rng.random(len(batch)) < 1 / 2
            used = calibrates if use == "calibration" else ~calibrates
            used[self._sampled_in(batch, first)] = False
            y = self._targets(batch)
            chosen = np.flatnonzero(used & ~np.isnan(y))
            if len(chosen):
                yield UsedRows(self._plain(batch.table).take(chosen), y[chosen], chosen + first, batch, self.numbers)

    def without_target(self, names: Sequence[str]) -> Iterator[UsedRows]:
        """Yield the rows without a target, batch by batch, with some of their columns."""
        for batch, first in self._batches(list(dict.fromkeys([*names, self.target])), _STEPS["without target"]):
            y = self._targets(batch)
            if len(chosen := np.flatnonzero(np.isnan(y))):
                yield UsedRows(self._plain(batch.table).take(chosen), y[chosen], chosen + first, batch, self.numbers)

    def _sampled_in(self, batch: Batch, first: int) -> IntArray:
        """Return the positions, in a batch, of its rows in the sample."""
        start, end = np.searchsorted(self.sampled, [first, first + len(batch)])
        return self.sampled[start:end] - first

    def _batches(self, names: Sequence[str] | None, step: str) -> Iterator[tuple[Batch, int]]:
        """Yield all batches in order, with the position of their first row in the whole table."""
        total, done = self.source.n_rows, 0
        starts = accumulate((part.n_rows for part in self.source.parts), initial=0)
        first_rows = dict(zip((part.name for part in self.source.parts), starts, strict=False))
        for batch in self.source.batches(names):
            yield batch, first_rows[batch.part] + batch.first_row
            done += len(batch)
            self.report(Step(step, done, total, "rows"))

    def _plain(self, batch: Any) -> Any:
        return _plain(batch, self.missing_values)

    def _targets(self, batch: Batch) -> FloatArray:
        """Return the targets of a batch, NaN where one is missing. Raise TableError for the file if some are wrong."""
        y, problems = self._read_target(self._plain(batch.table.select([self.target])), FROM_ZERO)
        if problems:
            part = next(part for part in self.source.parts if part.name == batch.part)
            pieces = (each for piece in part.pieces() for each in piece.batches([self.target]))
            whole = import_arrow().concat_tables([self._plain(each.table) for each in pieces])
            _, problems = self._read_target(whole, self.numbers)
            named = f"{batch.part}: " if batch.part else ""
            raise TableError([replace(each, text=f"{named}{each.text}") for each in problems])
        return y

    def _read_target(self, table: Any, rows: RowNumbers) -> tuple[FloatArray, list[Any]]:
        return read_target(self.target, table, rows, needs_all=self.missing_target == "error", of_batch=True)


def check_same_columns(source: ArrowData, grouping: Sequence[str] = ()) -> None:
    """Raise ValueError unless all files have the same columns, with types that agree.

    The columns in `grouping`, whose values are labels, must not be whole numbers in one file and others elsewhere.
    """
    first = source.parts[0]
    known: dict[str, tuple[str, str]] = {}  # by column: what it holds, and the first file that tells
    for part in source.parts:
        with named_errors(part.name):
            check_names(part.schema.names, first.schema.names)
            check_names(first.schema.names, part.schema.names)
            for each in part.schema:
                kind = kind_of(each.type) if each.name in grouping else _kind(each.type)
                expected, where = known.setdefault(each.name, (kind, part.name)) if kind != "null" else (kind, "")
                if kind != expected:
                    raise ValueError(f"column {each.name!r} holds {kind}, but in {where} it holds {expected}")


def table_in_folder(folder: Path, missing_values: Sequence[str] = ()) -> Any:
    """Return the table in all Parquet files of a folder, which must have the same columns."""
    source = arrow_data(folder)
    check_same_columns(source)
    batches = [import_arrow().Table.from_batches([batch.table]) for batch in source.batches()]
    whole = import_arrow().concat_tables(batches, promote_options="permissive").combine_chunks()
    return plain_table(whole, whole.column_names, missing_values)


def column_labels(source: ArrowData, name: str, missing_values: Sequence[str] = ()) -> tuple[Label, ...]:
    """Return the different values of a column of all rows, in order. Raise ValueError if one is missing."""
    source.check_names([name])
    found: set[Label] = set()
    for batch in source.batches([name]):
        values = column(_plain(batch.table, missing_values), name, "groups")
        missing = is_missing(values)
        if missing.any():
            row = _numbers(source).text(batch.first_row + int(missing.argmax()))
            text = f"groups: column {name!r} must have a label in every row; {row} has none"
            raise InvalidPartError(batch.part, text)
        found.update(Groups.from_labels(values, name=f"groups: column {name!r}").labels)
    return tuple(sorted(found))  # type: ignore[type-var]


def _numbers(source: ArrowData) -> RowNumbers:
    """Return how messages number the rows of each file, or of the table that was read from a text file."""
    return row_numbers(source.parts[0].schema.empty_table())


def _plain(batch: Any, missing_values: Sequence[str]) -> Any:
    """Return a record batch as a table, as `read_table` returns it."""
    table = import_arrow().Table.from_batches([batch])
    return plain_table(table, table.column_names, missing_values)


def _kind(arrow_type: Any) -> str:
    """Return what a column holds, in words; whole numbers are numbers, and times with any precision are times."""
    kind = kind_of(arrow_type)
    return "numbers" if kind == "whole numbers" else "times" if kind.startswith("timestamp") else kind
