"""Prediction intervals of files: each file is written again, with the bounds as new columns."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import fsum, inf, nan
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np

from evencover._internal.saved_files import atomic_write
from evencover._internal.unfinished_files import moves_into_place, temporary_folder
from evencover.distributed._arrow_data import ArrowData, RowCounter, check_output
from evencover.distributed._batches import InvalidPartError, import_arrow
from evencover.distributed._data_parts import Part
from evencover.distributed._interval_columns import BatchIntervals, output_columns, output_schema
from evencover.groups import Label
from evencover.guarantees import Guarantee
from evencover.intervals import Intervals

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

    def write(position: int, part: Part, path: Path) -> _FileTotals:
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


def _write(part: Part, intervals: BatchIntervals, file: BinaryIO, count: Callable[[int], None]) -> _FileTotals:
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
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise FileExistsError(f"output must be a new folder, because the data is a folder; {output} exists")
    with temporary_folder(output.parent) as unfinished:
        folder = unfinished / "output"
        names = (f"part-{position:05}.parquet" for position in range(len(data.parts)))
        yield [folder / (part.name if part.path else name) for part, name in zip(data.parts, names, strict=True)]
        with moves_into_place():
            output.parent.mkdir(parents=True, exist_ok=True)
            if output.exists():
                output.rmdir()
            folder.replace(output)
