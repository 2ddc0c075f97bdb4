"""Dask and Spark DataFrames on a cluster: what the task of a partition returns, and how the results are merged.

A wrong value is not an exception in a task, because the engine would try the task again, and report whichever task
fails first. So a task returns the error, and the error of the first partition that has one is raised at the end.

Dask has a task for each partition, whose results are merged in a tree. In Spark, each partition gives a row with its
result, in Arrow batches, and these rows are merged. Only DataFrames are used, no RDDs, so this also works with Spark
Connect.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

import numpy as np

from evencover.calibration.table_columns import TableColumns
from evencover.groups import first_few
from evencover.inputs.optional import import_optional
from evencover.intervals import Intervals
from evencover.tables.batches import (
    Batch,
    BatchIntervals,
    InvalidPartError,
    Pass,
    State,
    check_names,
    column_problems,
    import_arrow,
    kind_of,
    name_problems,
    output_columns,
    output_schema,
    problems_of,
    renamed,
    type_problems,
)


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


Task: TypeAlias = Callable[[Iterable[Any]], Iterator[Any]]  # from record batches to record batches

_MERGERS = 8  # tasks that merge the results of all partitions, before the driver merges theirs


@dataclass(frozen=True, eq=False)
class SparkData:
    """A Spark DataFrame.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The table.
    """

    frame: Any

    def part_sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Return the number of rows of each partition, by its name."""
        rows = self._mapped(_partition_size, names, "position int, n long").collect()
        return {partition_name(row["position"]): row["n"] for row in sorted(rows, key=lambda row: row["position"])}

    def check_columns(self, columns: TableColumns) -> None:
        """Raise ValueError unless the table has these columns, with types that fit."""
        problems = name_problems(self.frame.columns, columns) or type_problems(self._arrow_schema(columns), columns)
        if problems:
            raise ValueError("; ".join(problems))

    def check_names(self, names: Sequence[str]) -> None:
        """Raise ValueError unless the table has these columns."""
        check_names(self.frame.columns, names)

    def reduce(self, one_pass: Pass[State]) -> State:
        """Return the state of all rows."""
        shared = _shared(self.frame, one_pass)
        outcomes = self._mapped(_outcome_of_partition(shared), one_pass.names, "outcome binary")
        merged = outcomes.repartition(_MERGERS).mapInArrow(_merged_outcome(shared), "outcome binary")
        rows = merged.collect()
        found: Outcome[State] = merged_outcomes(one_pass, (pickle.loads(row["outcome"]) for row in rows))  # noqa: S301
        return found.result(one_pass.columns)

    def with_intervals(self, intervals: BatchIntervals) -> Any:
        """Return the table with new columns, which are computed when they are needed."""
        types = import_optional("pyspark.sql.types", extra="spark", purpose="a Spark DataFrame")
        stored = self.frame.schema
        names = renamed(stored.names, intervals.outputs, ignore_case=True)
        fields = [types.StructField(name, field.dataType) for name, field in zip(names, stored, strict=True)]
        new = [types.StructField(name, types.DoubleType()) for name in intervals.outputs]
        task = _predicted_partition(_shared(self.frame, intervals))
        return self._mapped(task, stored.names, types.StructType([*fields, *new]))

    def _mapped(self, task: Task, names: Sequence[str], schema: Any) -> Any:
        """Return what a task makes of the record batches of each partition, with some columns.

        Spark maps columns by their names, but takes a name with a dot or a backtick for something else. So the columns
        have other names on the way.
        """
        positions = [self.frame.columns.index(name) for name in names]
        plain = self.frame.toDF(*(f"c{position}" for position in range(len(self.frame.columns))))

        def renamed_task(tables: Iterable[Any]) -> Iterator[Any]:
            return task(table.rename_columns(list(names)) for table in tables)

        return plain.select(*(f"c{position}" for position in positions)).mapInArrow(renamed_task, schema)

    def _arrow_schema(self, columns: TableColumns) -> Any:
        """Return the pyarrow schema of the columns with a role."""
        types = import_optional("pyspark.sql.types", extra="spark", purpose="a Spark DataFrame")
        conversion = import_optional("pyspark.sql.pandas.types", extra="spark", purpose="a Spark DataFrame")
        fields = [self.frame.schema.fields[self.frame.columns.index(name)] for name in columns.names]
        return conversion.to_arrow_schema(types.StructType(fields))


def spark_data(data: Any) -> SparkData:
    """Return a Spark DataFrame as a table in parts. Raise TypeError for other objects of Spark."""
    if type(data).__name__ != "DataFrame" or not hasattr(data, "mapInArrow"):  # a Column has every attribute
        raise TypeError(f"data must be a Spark DataFrame; got {type(data).__module__}.{type(data).__name__}")
    return SparkData(data)


def _shared(frame: Any, value: Any) -> Callable[[], Any]:
    """Return a function that returns the value on a worker; the value is sent to each worker once, where Spark can."""
    context = getattr(frame.sparkSession, "_sc", None)
    if context is None:  # Spark Connect has no broadcasts: the value is sent with each task
        return lambda: value
    broadcast = context.broadcast(value)
    return lambda: broadcast.value


def _position() -> int:
    """Return the position of the partition of this task."""
    context = import_optional("pyspark", extra="spark", purpose="a Spark DataFrame").TaskContext.get()
    return int(context.partitionId())


def _partition_size(tables: Iterable[Any]) -> Iterator[Any]:
    """Yield a row with the position of a partition and the number of its rows."""
    n = sum(table.num_rows for table in tables)
    yield import_arrow().RecordBatch.from_pydict(
        {"position": import_arrow().array([_position()], "int32"), "n": import_arrow().array([n], "int64")}
    )


def _outcome_of_partition(shared: Callable[[], Pass[State]]) -> Task:

    def task(tables: Iterable[Any]) -> Iterator[Any]:
        yield _row(partition_outcome(shared(), tables, _position()))

    return task


def _merged_outcome(shared: Callable[[], Pass[State]]) -> Task:
    """Return the task that merges the outcomes of several partitions."""

    def task(tables: Iterable[Any]) -> Iterator[Any]:
        values = (value for table in tables for value in table.column(0))
        yield _row(merged_outcomes(shared(), (pickle.loads(value.as_py()) for value in values)))  # noqa: S301

    return task


def _row(outcome: Outcome[Any]) -> Any:
    """Return an outcome as a record batch of one row."""
    return import_arrow().RecordBatch.from_pydict({"outcome": [pickle.dumps(outcome)]})


def _predicted_partition(shared: Callable[[], BatchIntervals]) -> Task:

    def task(tables: Iterable[Any]) -> Iterator[Any]:
        intervals = shared()
        for table, found in partition_intervals(intervals, tables, _position()):
            schema = output_schema(table.schema, intervals.outputs, ignore_case=True)
            columns = [*table.columns, *output_columns(found, intervals.outputs)]
            yield import_arrow().RecordBatch.from_arrays(columns, schema=schema)

    return task
