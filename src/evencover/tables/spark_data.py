"""Spark DataFrames: each partition gives a row with its result, in Arrow batches, and these rows are merged.

Only DataFrames are used, no RDDs, so this also works with Spark Connect.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from evencover.calibration.table_columns import TableColumns
from evencover.inputs.optional import import_optional
from evencover.tables.batches import Pass, State, check_names, import_arrow, name_problems, type_problems
from evencover.tables.interval_columns import BatchIntervals, output_columns, output_schema, renamed
from evencover.tables.partitions import Outcome, merged_outcomes, partition_intervals, partition_name, partition_outcome

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
