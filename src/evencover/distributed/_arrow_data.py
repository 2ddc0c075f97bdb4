"""Data in parts, read by a few threads: Parquet files, and datasets of pyarrow."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any, TypeAlias

from evencover._internal.arrays import check_count
from evencover.distributed._batches import (
    Batch,
    InvalidPartError,
    check_names,
    column_problems,
    kind_of,
    named_errors,
    problems_of,
)
from evencover.distributed._data_parts import Part, Piece, parts_in_files, parts_of_dataset
from evencover.distributed._passes import Pass, State
from evencover.table_columns import TableColumns

Progress: TypeAlias = Callable[[float, float | None], None]

_WAITING_BATCHES = 4  # that were read, and wait for this thread


@dataclass(frozen=True, eq=False)
class ArrowData:
    """The files of the data, all checked before any is read.

    Parameters
    ----------
    parts : tuple of Part
        The files, in the order of their names.
    is_folder : bool
        Whether the data are several files, and not one.
    folder : Path, optional
        The folder of the files, if the data is a folder.
    workers : int
        Number of threads, with this one.
    progress : callable, optional
        Called with the number of rows that this pass has read, and the number of all rows.
    """

    parts: tuple[Part, ...]
    is_folder: bool
    folder: Path | None
    workers: int
    progress: Progress | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows in all files."""
        return sum(part.n_rows for part in self.parts)

    def part_sizes(self, names: Sequence[str]) -> dict[str, int]:  # noqa: ARG002
        """Return the number of rows of each file, by its name; it is known without reading any column."""
        return {part.name: part.n_rows for part in self.parts}

    def check_columns(self, columns: TableColumns) -> None:
        """Raise ValueError, with all problems of the first file that has any, unless all files have these columns."""
        first: tuple[str, str] | None = None
        for part in self.parts:
            problems = column_problems(part.schema, columns)
            if columns.group is not None and not problems:
                kind = kind_of(part.schema.field(columns.group).type)
                first = (kind, part.name) if first is None and kind != "null" else first
                if first is not None and kind not in ("null", first[0]):
                    problems = [f"column {columns.group!r} (group) holds {kind}, but in {first[1]} it holds {first[0]}"]
            if problems:
                raise InvalidPartError(part.name, "; ".join(problems))

    def check_names(self, names: Sequence[str]) -> None:
        """Raise ValueError unless all files have these columns."""
        for part in self.parts:
            with named_errors(part.name):
                check_names(part.schema.names, names)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield all batches with these columns, or with all columns, in order; one thread reads ahead."""
        with BatchReader(replace(self, workers=min(self.workers, 2)), names, []) as reader:
            yield from reader.batches()

    def reduce(self, one_pass: Pass[State]) -> State:
        """Return the summary of all batches.

        With several workers, this thread makes the summary, and the others read. If there are wrong values, the first
        file that has any is searched for all of them.
        """
        group, error = one_pass.columns.group, None
        with BatchReader(self, one_pass.names, [] if group is None else [group]) as reader:
            while True:
                try:
                    summary = one_pass(reader.batches())
                    break
                except InvalidPartError as found:  # what comes before it is read, because it may have errors, too
                    error = found
                    reader.stop_at_current()
        if error is not None:
            raise self.with_all_problems(error, one_pass.searched)
        return summary

    def with_all_problems(self, error: InvalidPartError, columns: Mapping[str, str]) -> InvalidPartError:
        """Return an error with all values of the file that are wrong; the same error if there are none."""
        part = next(part for part in self.parts if part.name == error.part)
        batches = (batch for piece in part.pieces() for batch in piece.batches(list(columns.values())))
        problems = problems_of(batches, columns)
        return InvalidPartError(part.name, "; ".join(problems)) if problems else error


def check_output(output: Path, data: ArrowData) -> None:
    """Raise ValueError if an output would replace a file of the data, or add one to its folder."""
    path = output.resolve()
    for part in data.parts:
        if part.path is not None and path == part.path.resolve():
            raise ValueError(f"output must not be a file of the data; got {output}")
    if data.folder is not None and path.is_relative_to(data.folder.resolve()):
        raise ValueError(f"output must not be in the folder of the data, {data.folder}; got {output}")


class RowCounter:
    """Counts the rows that all threads have read, and reports them."""

    def __init__(self, data: ArrowData) -> None:
        self._data, self._lock, self._n = data, Lock(), 0

    def counted(self, n: int) -> None:
        """Report n more rows."""
        with self._lock:
            self._n += n
            if self._data.progress is not None:
                self._data.progress(self._n, self._data.n_rows)


class BatchReader:
    """The batches of all files: one after another, or read by other threads, in any order.

    Parameters
    ----------
    data : ArrowData
        The files.
    columns : sequence of str or None
        The columns to read; all columns for None.
    dictionary : sequence of str
        Those that are read as codes of a dictionary.
    """

    def __init__(self, data: ArrowData, columns: Sequence[str] | None, dictionary: Sequence[str]) -> None:
        self._columns, self._dictionary = columns, dictionary
        self._pieces = enumerate(piece for part in data.parts for piece in part.pieces())
        self._lock, self._rows = Lock(), RowCounter(data)
        self._limit, self._current = inf, -1.0  # pieces before the limit are read; the piece of the last batch
        self._queue: Queue[tuple[float, Batch | Exception | None]] = Queue(_WAITING_BATCHES)
        self._n_ended = 0
        self._threads = [Thread(target=self._read, daemon=True) for _ in range(data.workers - 1)]

    def __enter__(self) -> "BatchReader":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._limit = -1
        while any(thread.is_alive() for thread in self._threads):  # they may wait for a place in the queue
            with suppress(Empty):
                self._queue.get(timeout=0.01)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches before the limit that were not yielded yet."""
        for position, batch in self._read_by_threads() if self._threads else self._read_here():
            if position >= self._limit:
                continue
            self._current = position
            if isinstance(batch, Exception):
                raise batch
            yield batch
            self._rows.counted(len(batch))

    def stop_at_current(self) -> None:
        """Read nothing of the piece of the last batch, and nothing after it."""
        self._limit = self._current

    def _read_here(self) -> Iterator[tuple[float, Batch]]:
        while (numbered := self._next_piece()) is not None:
            position, piece = numbered
            self._current = position
            for batch in piece.batches(self._columns, dictionary=self._dictionary):
                yield position, batch

    def _read_by_threads(self) -> Iterator[tuple[float, Batch | Exception]]:
        """Yield what the threads have read, until each has reported its end."""
        while self._n_ended < len(self._threads):
            position, batch = self._queue.get()
            if batch is None:
                self._n_ended += 1
            else:
                yield position, batch

    def _read(self) -> None:
        """Read pieces, in a thread of its own; an error is raised where the batches are used."""
        while (numbered := self._next_piece()) is not None:
            position, piece = numbered
            try:
                for batch in piece.batches(self._columns, dictionary=self._dictionary):
                    if position >= self._limit:
                        break
                    self._queue.put((position, batch))
            except Exception as error:
                self._queue.put((position, error))
        self._queue.put((inf, None))

    def _next_piece(self) -> tuple[int, Piece] | None:
        """Return the next piece before the limit, with its position."""
        with self._lock:
            numbered = next(self._pieces, None)
        return None if numbered is None or numbered[0] >= self._limit else numbered


def arrow_data(data: Any, *, workers: int | None = None, progress: Progress | None = None) -> ArrowData:
    """Return the files of the data.

    Parameters
    ----------
    data : str, Path or pyarrow dataset
        A Parquet file, a folder of Parquet files (also with subfolders such as ``year=2024``), or a dataset.
    workers : int, optional
        Number of threads; by default the number of cores.
    progress : callable, optional
        Called with the rows that were read, and all rows.
    """
    n_workers = (os.cpu_count() or 1) if workers is None else workers
    check_count(n_workers, "workers")
    found: Iterator[Part] = parts_in_files(Path(data)) if isinstance(data, str | Path) else parts_of_dataset(data)
    parts = tuple(found)
    if not sum(part.n_rows for part in parts):
        name = str(data) if isinstance(data, str | Path) else "data"
        raise ValueError(f"{name} must have rows; got none")
    folder = Path(data) if isinstance(data, str | Path) and Path(data).is_dir() else None
    return ArrowData(parts, folder is not None or len(parts) > 1, folder, n_workers, progress)
