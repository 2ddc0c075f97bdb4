"""Prediction intervals for tables of any size: bounds as new columns next to those of the table."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import fsum, inf, nan
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np

from evencover.calibration.calibration import Calibration, Unseen
from evencover.calibration.table_columns import TableColumns
from evencover.files.archive import atomic_write
from evencover.files.unfinished import is_temporary, output_folder
from evencover.groups import Label
from evencover.guarantees import Guarantee
from evencover.inputs import AmountProgress
from evencover.inputs.arrays import FloatArray
from evencover.inputs.optional import import_optional
from evencover.intervals import Intervals, stack_levels
from evencover.quantiles import Levels, is_level_sequence, level_fractions
from evencover.scores.evaluation import interval_by
from evencover.tables.arrow_data import ArrowData, RowCounter, TablePart, check_output
from evencover.tables.batches import (
    Batch,
    BatchIntervals,
    InvalidPartError,
    LabelCodes,
    TableData,
    codes_of,
    import_arrow,
    named_errors,
    output_columns,
    output_schema,
    rows_of,
)
from evencover.tables.engines import table_data

_ROWS_OF_A_ROW_GROUP = 2**18  # of the files that are written
_MAX_BYTES = 2**25  # of a row group, before it is written


@dataclass(frozen=True)
class TablePrediction:
    """What `predict` has written.

    Parameters
    ----------
    rows : int
        Number of rows.
    n_empty, n_infinite : int
        Number of intervals without any value, whose bounds are missing, and of infinite ones; at the largest level.
    mean_width : float
        Mean width of the finite intervals at the largest level; NaN if there are none.
    guarantee : Guarantee
        The coverage guarantee.
    n_moved : int
        Number of predictions of a model that lie outside their interval: the nearest bound was written instead.
    """

    rows: int
    n_empty: int
    n_infinite: int
    mean_width: float
    guarantee: Guarantee
    n_moved: int = 0


def predict_files(data: ArrowData, intervals: BatchIntervals, output: Path) -> TablePrediction:
    """Write the files of the data with their intervals, all or none."""
    with _output_paths(output, data) as paths:
        totals = _write_all(data, intervals, paths)
    return TablePrediction(
        rows=sum(each.rows for each in totals),
        n_empty=sum(each.n_empty for each in totals),
        n_infinite=sum(each.n_infinite for each in totals),
        mean_width=_mean_width(totals),
        guarantee=replace(intervals.guarantee, without=_unseen_labels(totals)),
        n_moved=sum(each.n_moved for each in totals),
    )


def _unseen_labels(totals: "Sequence[_FileTotals]") -> tuple[Label, ...]:
    """Return the groups in all files that were not in the calibration, in order."""
    return tuple(sorted({label for each in totals for label in each.unseen}, key=str))


@dataclass(frozen=True)
class _FileTotals:
    """What was written to a file: rows, intervals and predictions by kind, the sum of finite widths, unseen groups."""

    rows: int = 0
    n_empty: int = 0
    n_infinite: int = 0
    widths: float = 0.0
    n_moved: int = 0
    unseen: tuple[Label, ...] = ()

    def with_rows(self, intervals: Intervals) -> "_FileTotals":
        """Return the totals with those of more rows, at the largest level."""
        largest = int(np.argmax(np.atleast_1d(np.asarray(intervals.level))))
        both = (intervals.width, intervals.empty)
        width, empty = (each if each.ndim == 1 else each[:, largest] for each in both)
        infinite = np.isinf(width)
        return _FileTotals(
            self.rows + len(width),
            self.n_empty + int(empty.sum()),
            self.n_infinite + int(infinite.sum()),
            self.widths + float(width[~infinite].sum()),
            self.n_moved + intervals.n_moved,
        )


def _mean_width(totals: Sequence[_FileTotals]) -> float:
    """Return the mean of the finite widths; the same for any number of threads, because files are added in order."""
    n_finite = sum(each.rows - each.n_infinite for each in totals)
    return fsum(each.widths for each in totals) / n_finite if n_finite else nan


def _write_all(data: ArrowData, intervals: BatchIntervals, paths: Sequence[Path]) -> list[_FileTotals]:
    """Write all files, several at once; after an error, all stop, and the first file with an error is reported."""
    errors, rows = _FirstError(), RowCounter(data)

    def write(position: int, part: TablePart, path: Path) -> _FileTotals:
        def count(n: int) -> None:
            if errors.is_before(position):
                raise _StoppedError
            rows.counted(n)

        if errors.is_before(position):
            raise _StoppedError
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                return _write(part, intervals, file, count)
        except BaseException as error:
            error.position = position  # type: ignore[attr-defined]
            errors.add(position)
            raise

    with ThreadPoolExecutor(data.workers) as pool:
        try:
            futures = [
                pool.submit(write, position, *each) for position, each in enumerate(zip(data.parts, paths, strict=True))
            ]
            wait(futures)
        finally:
            errors.add(-1)
    try:
        in_order = sorted(futures, key=_FirstError.position_of)
        totals = [future.result() for future in in_order if not isinstance(future.exception(), _StoppedError)]
    except InvalidPartError as error:
        raise data.with_all_problems(error, intervals.searched) from None
    return totals


class _FirstError:
    """The first position at which a thread had an error. Threads finish what comes before it, and nothing after it.

    So the error of the smallest position is found in every run, whichever thread is faster.
    """

    def __init__(self) -> None:
        self._first, self._lock = inf, Lock()

    def add(self, position: int) -> None:
        """Report an error; the position -1 stops everything."""
        with self._lock:
            self._first = min(self._first, position)

    def is_before(self, position: int) -> bool:
        """Return whether there is an error before a position."""
        return self._first < position

    @staticmethod
    def position_of(future: "Future[Any]") -> float:
        """Return the position of the error of a finished thread; a thread without an error comes first."""
        error = future.exception()
        return -1.0 if error is None else getattr(error, "position", inf)


class _StoppedError(Exception):
    """Another thread has found an error."""


def _write(part: TablePart, intervals: BatchIntervals, file: BinaryIO, count: Callable[[int], None]) -> _FileTotals:
    """Write a file with its bounds, in row groups of moderate size; `count` is called with the rows of each batch."""
    arrow, totals, codes = import_arrow(), _FileTotals(), intervals.codes()
    n_known = len(codes.labels)
    schema = output_schema(part.stored, intervals.outputs)
    with import_arrow("pyarrow.parquet").ParquetWriter(file, schema) as writer:
        waiting: list[Any] = []
        for batch in (batch for piece in part.pieces() for batch in piece.batches(None)):
            found = intervals(batch, codes)
            totals = totals.with_rows(found)
            stored = batch.table.columns[: len(part.stored.names)]
            new = output_columns(found, intervals.outputs)
            waiting.append(arrow.RecordBatch.from_arrays([*stored, *new], schema=schema))
            if _is_enough(waiting):
                writer.write_table(arrow.Table.from_batches(waiting))
                waiting = []
            count(len(batch))
        writer.write_table(arrow.Table.from_batches(waiting, schema))
    return replace(totals, unseen=tuple(codes.labels[n_known:]))


def _is_enough(tables: Sequence[Any]) -> bool:
    """Return whether record batches are enough for a row group, by their rows or their memory."""
    return sum(map(len, tables)) >= _ROWS_OF_A_ROW_GROUP or sum(table.nbytes for table in tables) >= _MAX_BYTES


@contextmanager
def _output_paths(output: Path, data: ArrowData) -> Iterator[list[Path]]:
    """Yield the path of each file to write; the output appears at the end, complete, and not after an error."""
    check_output(output, data)
    if not data.is_folder:
        if output.suffix.lower() != ".parquet":
            raise ValueError(f"output must be a .parquet file, because the data is one; got {output.name!r}")
        if not output.parent.is_dir():
            raise FileNotFoundError(f"output must be in a folder that exists; there is no {output.parent}")
        yield [output]
        return
    with output_folder(output, partial(_check_is_new, output)) as folder:
        names = (f"part-{position:05}.parquet" for position in range(len(data.parts)))
        yield [folder / (part.name if part.path else name) for part, name in zip(data.parts, names, strict=True)]


def _check_is_new(output: Path) -> None:
    """Raise unless a folder does not exist, or is empty."""
    if output.exists() and (not output.is_dir() or not all(map(is_temporary, output.iterdir()))):
        raise FileExistsError(f"output must be a new folder, because the data is a folder; {output} exists")


def batch_intervals(predictor: Any, level: Levels | None, unseen: Unseen) -> BatchIntervals:
    """Return what predicts batches. Raise TypeError unless the predictor is a calibration of a table or a model."""
    if unseen not in ("error", "marginal", "inf"):
        raise ValueError(f"unseen must be 'error', 'marginal' or 'inf'; got {unseen!r}")
    if isinstance(predictor, Calibration):
        if predictor.columns is None:
            raise ValueError("predictor must know the columns of a table; got a calibration of arrays")
        found = CalibrationIntervals(predictor, (*predictor.levels, 0.9)[0] if level is None else level, unseen)
        _ = found.thresholds  # a wrong level is an error now; groups with too few rows are warned of
        return found
    if not hasattr(predictor, "predict_interval"):
        raise TypeError(
            "predictor must be what calibrate returned, or a calibrated model such as ConformalRegressor; got "
            f"{type(predictor).__name__}"
        )
    level = 0.9 if level is None else level
    level_fractions(level)
    model = ModelIntervals(predictor, level, unseen)
    _ = model.guarantee  # a model that is not calibrated is an error now
    return model


@dataclass(frozen=True, eq=False)
class CalibrationIntervals:
    """The intervals of columns of predictions.

    Parameters
    ----------
    calibration : Calibration
        The calibration, which knows the columns of a table.
    level : float or sequence of L floats
        Nominal coverage.
    unseen : {"error", "marginal", "inf"}
        For a row whose group was not in the calibration.
    """

    calibration: Calibration
    level: Levels
    unseen: Unseen = "error"

    @property
    def columns(self) -> TableColumns:
        """The columns of predictions and groups; targets are not needed."""
        columns: TableColumns = self.calibration.columns  # type: ignore[assignment]
        return replace(columns, target=None)

    @property
    def outputs(self) -> list[str]:
        """The names of the bounds."""
        return _bound_names(self.level)

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee."""
        return self.calibration.guarantee_at(level_fractions(self.level))

    @property
    def searched(self) -> dict[str, str]:
        """All columns: each must have a value in every row."""
        return self.columns.by_role

    @cached_property
    def thresholds(self) -> FloatArray:
        """The threshold of each group and level; the last row is for unseen groups. Shape (n_groups + 1, L)."""
        return self.calibration.thresholds_with_unseen(level_fractions(self.level), self.unseen)

    def check(self, data: TableData) -> None:
        """Raise ValueError unless the data has the columns of predictions and groups."""
        data.check_columns(self.columns)

    def needed(self, names: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Return the columns of predictions and groups."""
        return self.columns.names

    def codes(self) -> LabelCodes:
        """Return codes of labels, of which the groups of the calibration are the first."""
        return LabelCodes(self.calibration.labels)

    def __call__(self, batch: Batch, codes: LabelCodes) -> Intervals:
        """Return the intervals of the rows, with bounds of shape (m,), or (m, L) for L levels."""
        labels = self.calibration.labels
        with named_errors(batch.part):
            rows = rows_of(batch, self.columns)
            group = codes_of(batch, self.columns, codes)
            if self.unseen == "error":
                self.calibration.check_seen(tuple(codes.labels[len(labels) :]))
            by_row = self.thresholds.take(np.minimum(group, len(labels)), axis=0)
            score: Any = self.calibration.nonconformity
            intervals = stack_levels([interval_by(score, column, rows.prediction) for column in by_row.T])
        levels = tuple(float(each) for each in level_fractions(self.level))
        if is_level_sequence(self.level):
            return replace(intervals, level=levels)
        return Intervals(intervals.lower[:, 0], intervals.upper[:, 0], level=levels[0])


@dataclass(frozen=True, eq=False)
class ModelIntervals:
    """The intervals of a calibrated model, whose features are columns.

    Parameters
    ----------
    model : ConformalRegressor, CrossConformalRegressor or another model with `predict_interval`
        The model. Its features are the columns that it was fitted on; all columns, if these had no names.
    level : float or sequence of L floats
        Nominal coverage.
    unseen : {"error", "marginal", "inf"}
        For a row whose group was not in the calibration.
    """

    model: Any
    level: Levels
    unseen: Unseen = "error"

    @property
    def outputs(self) -> list[str]:
        """The names of the model's prediction, and of the bounds."""
        return ["prediction", *_bound_names(self.level)]

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee."""
        guarantee: Guarantee = self.model.guarantee_
        return guarantee

    @property
    def searched(self) -> dict[str, str]:
        """No columns: the model says what is wrong with its features."""
        return {}

    def check(self, data: TableData) -> None:
        """Raise ValueError unless the data has the features of the model."""
        data.check_names(self.needed([]))

    def needed(self, names: Sequence[str]) -> list[str]:
        """Return the columns that the model was fitted on; all columns, if these had no names."""
        return [str(name) for name in getattr(self.model, "feature_names_in_", names)]

    def codes(self) -> LabelCodes:
        """Return no codes."""
        return LabelCodes()

    def __call__(self, batch: Batch, codes: LabelCodes) -> Intervals:
        """Return the intervals of the rows, with bounds of shape (m,), or (m, L) for L levels."""
        with named_errors(batch.part):
            features = self._features(batch)
            intervals: Intervals = self.model.predict_interval(features, level=self.level, unseen=self.unseen)
        for label in () if intervals.guarantee is None else intervals.guarantee.without:
            codes.code(label)
        return intervals

    def _features(self, batch: Batch) -> Any:
        """Return the features as the model takes them: a table, or an array if the columns had no names in training."""
        from evencover.models.encoding import encoder_of

        table = import_arrow().Table.from_batches([batch.table.select(self.needed(batch.table.schema.names))])
        if not hasattr(self.model, "feature_names_in_"):
            return np.column_stack([column.to_numpy() for column in table.columns])
        if encoder_of(self.model) is not None:
            return table
        import_optional("pandas", extra="frames", purpose="a model that was fitted on a DataFrame")
        return table.to_pandas()


def _bound_names(level: Levels) -> list[str]:
    """Return the names of the columns of bounds, as `Intervals.columns` has them."""
    levels = [float(each) for each in level_fractions(level)]
    suffixes = [f"_{each}" for each in levels] if is_level_sequence(level) else [""]
    return [f"{side}{suffix}" for suffix in suffixes for side in ("lower", "upper")]


__all__ = ["TablePrediction", "predict"]


def predict(
    data: Any,
    predictor: Any,
    *,
    output: str | Path | None = None,
    level: Levels | None = None,
    unseen: Unseen = "error",
    workers: int | None = None,
    progress: AmountProgress | None = None,
) -> Any:
    """Add the bounds of prediction intervals to a table of any size, as new columns.

    The new columns are ``lower`` and ``upper``; with several levels ``lower_0.9`` and so on; and the ``prediction``, if
    the predictor is a model: its center, or the nearest bound if the center lies outside the interval. A column of the
    table with such a name gets the prefix ``table_``. Bounds of empty intervals are missing values. The memory does not
    grow with the number of rows.

    Parameters
    ----------
    data : str, Path, pyarrow dataset, Dask DataFrame or Spark DataFrame
        A Parquet file, a folder of Parquet files, or a DataFrame. With a calibration, it has the columns of the
        calibration except the targets; with a model, the features that the model was fitted on.
    predictor : Calibration, or model
        What `calibrate` returned, or a calibrated model such as `ConformalRegressor`. It is sent to each worker once.
    output : str or Path, optional
        For files: a Parquet file; if the data is a folder, a new folder, in which each file has the name of the file it
        is from. The output is complete, or absent after an error.
    level : float or sequence of floats, optional
        Nominal coverage; by default the first level of the calibration, for a model 0.9.
    unseen : {"error", "marginal", "inf"}
        For a row whose group was not in the calibration: raise an error, use the threshold of all calibration rows
        (without a guarantee), or return an infinite interval.
    workers : int, optional
        For files: number of threads that write files; by default the number of cores.
    progress : callable, optional
        For files: called with the number of rows that were written, and the number of all rows.

    Returns
    -------
    TablePrediction or DataFrame
        For files, what was written. For a DataFrame, a new one of the same kind with the intervals, which the engine
        computes when it is needed: an error in the data is raised then.
    """
    intervals = batch_intervals(predictor, level, unseen)
    source = table_data(data, workers=workers, progress=progress)
    intervals.check(source)
    if isinstance(source, ArrowData):
        if output is None:
            raise ValueError("output must be given for files: a .parquet file, or a new folder if the data is one")
        return predict_files(source, intervals, Path(output))
    if output is not None:
        raise ValueError("output is for files; for a DataFrame, write what predict returns")
    return source.with_intervals(intervals)
