"""Data in parts, read by a few threads: Parquet files, and datasets of pyarrow."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any, Protocol
from urllib.parse import unquote

from evencover.calibration.table_columns import TableColumns
from evencover.display.lines import one_line
from evencover.inputs import AmountProgress
from evencover.inputs.arrays import check_count
from evencover.tables.batches import (
    Batch,
    InvalidPartError,
    Pass,
    State,
    check_names,
    column_problems,
    import_arrow,
    kind_of,
    named_errors,
    problems_of,
)
from evencover.tables.typed_files import valid
from evencover.tables.unchanged import Version, unchanged, version_of

_SUFFIXES = (".parquet", ".pq")
_ARROW_FORMATS = ("arrow", "feather", "ipc")
_MISSING_IN_PATH = "__HIVE_DEFAULT_PARTITION__"
_BATCH_ROWS = 2**15  # few enough for little memory, enough so that threads seldom wait for each other
_BUFFER_BYTES = 2**16  # of a file that is read at once


class Piece(Protocol):
    """Some rows of a part that one thread reads."""

    def batches(self, columns: Sequence[str] | None, /, *, dictionary: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield the rows of these columns, or of all columns, in batches; some columns as codes of a dictionary."""


class TablePart(Protocol):
    """A file of the data, or another part of a dataset."""

    @property
    def name(self) -> str:
        """The name in messages: the path within the folder of the data, or that of a pyarrow dataset."""

    @property
    def n_rows(self) -> int:
        """The number of its rows."""

    @property
    def path(self) -> Path | None:
        """The file, if it is one on this machine."""

    @property
    def stored(self) -> Any:
        """The names and types of the columns in the file."""

    @property
    def schema(self) -> Any:
        """The names and types of all columns, also of those that are part of the path."""

    def pieces(self) -> Iterable[Piece]:
        """Return the pieces of the part, in the order of their rows."""


@dataclass(frozen=True, eq=False)
class ParquetPart:
    """A Parquet file; its pieces are its row groups.

    Parameters
    ----------
    name : str
        The path within the folder of the data.
    path : Path
        The file.
    row_groups : tuple of int
        The number of rows in each row group.
    stored : pyarrow.Schema
        The columns in the file.
    keys : mapping from str
        Columns that are part of the path, such as ``year=2024``, with their value.
    version : tuple of int
        The version of the file: all passes over it must find the same.
    """

    name: str
    path: Path
    row_groups: tuple[int, ...]
    stored: Any
    keys: Mapping[str, str | int | None]
    version: Version

    @property
    def n_rows(self) -> int:
        """The number of its rows."""
        return sum(self.row_groups)

    @property
    def schema(self) -> Any:
        """The names and types of the columns, also of those that are part of the path."""
        arrow, schema = import_arrow(), self.stored
        for name, value in self.keys.items():
            schema = schema.append(arrow.field(name, arrow.scalar(value).type))
        return schema

    def pieces(self) -> Iterator["RowGroup"]:
        """Yield the row groups."""
        first_row = 0
        for position, n in enumerate(self.row_groups):
            yield RowGroup(self, position, first_row)
            first_row += n


@dataclass(frozen=True, eq=False)
class RowGroup:
    """A row group of a Parquet file."""

    part: ParquetPart
    position: int
    first_row: int

    def batches(self, columns: Sequence[str] | None, /, *, dictionary: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield the rows of these columns, or of all columns, in batches; some columns as codes of a dictionary."""
        part, row = self.part, self.first_row
        stored = None if columns is None else [name for name in columns if name in part.stored.names]
        keys = {name: value for name, value in part.keys.items() if columns is None or name in columns}
        codes = [name for name in dictionary if name in part.stored.names]
        with (
            reading_errors(part.name),
            unchanged(part.path, part.version),
            parquet_file(part.path, codes) as file,
        ):
            tables = file.iter_batches(_BATCH_ROWS, row_groups=[self.position], columns=stored, use_threads=False)
            for table in tables:
                yield Batch(_with_keys(valid(table), keys), part.name, row)
                row += table.num_rows


@dataclass(frozen=True, eq=False)
class DatasetPart:
    """A part of a pyarrow dataset, which is read as a whole."""

    name: str
    fragment: Any
    n_rows: int
    stored: Any
    path: Path | None = None

    @property
    def schema(self) -> Any:
        """The names and types of the columns."""
        return self.stored

    def pieces(self) -> tuple["DatasetPart"]:
        """Return the part itself."""
        return (self,)

    def batches(self, columns: Sequence[str] | None, /, *, dictionary: Sequence[str] = ()) -> Iterator[Batch]:  # noqa: ARG002
        """Yield the rows of these columns, or of all columns, in batches."""
        row = 0
        with reading_errors(self.name):
            tables = self.fragment.to_batches(
                self.stored, columns=columns, batch_size=_BATCH_ROWS, batch_readahead=1, use_threads=False
            )
            for table in tables:
                yield Batch(table, self.name, row)
                row += table.num_rows


def parts_in_files(path: Path) -> Iterator[ParquetPart]:
    """Yield a Parquet file, or the Parquet files in a folder and its subfolders, in the order of their names."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    if path.is_file() and path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"data must be a .parquet file or a folder of such files; got {path.name!r}")
    files = [path] if path.is_file() else sorted(_data_files(path))
    if not files:
        raise ValueError(f"{path} must hold Parquet files; it holds none")
    root = path.parent if path.is_file() else path
    keys = [_keys_in_path(each.relative_to(root)) for each in files]
    texts = {name for each in keys for name, value in each.items() if value is not None and not _is_whole(value)}
    for file, own_keys in zip(files, keys, strict=True):
        name = file.relative_to(root).as_posix()
        values = {key: text if key in texts or text is None else int(text) for key, text in own_keys.items()}
        with reading_errors(name), parquet_file(file) as opened:
            version, metadata, schema = version_of(file), opened.metadata, opened.schema_arrow
            row_groups = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
        values = {key: value for key, value in values.items() if key not in schema.names}
        yield ParquetPart(name, file, row_groups, schema, values, version)


def n_rows_of(file: Path) -> int:
    """Return the number of rows of a Parquet file."""
    with reading_errors(file.name), parquet_file(file) as opened:
        return int(opened.metadata.num_rows)


def _data_files(folder: Path) -> Iterator[Path]:
    """Yield the Parquet files in a folder and its subfolders, except names that begin with a dot or an underscore.

    Raise ValueError if symbolic links lead to the same folder twice: its rows would count twice.
    """
    seen: dict[str, str] = {}
    for root, subfolders, names in os.walk(folder, followlinks=True):
        first = seen.setdefault(os.path.realpath(root), root)
        if first != root:
            raise ValueError(f"{folder} must hold each folder once; {root} and {first} are the same")
        subfolders[:] = [name for name in subfolders if not name.startswith((".", "_"))]
        for name in names:
            if not name.startswith((".", "_")) and name.lower().endswith(_SUFFIXES):
                yield Path(root) / name


def _keys_in_path(path: Path) -> dict[str, str | None]:
    """Return the columns that are part of a path, such as year=2024/month=1, with their values as text.

    Hive, Spark and others have a name for the folder of missing values.
    """
    pairs = (part.partition("=") for part in path.parts[:-1])
    return {
        unquote(name): None if value == _MISSING_IN_PATH else unquote(value)
        for name, sign, value in pairs
        if name and sign
    }


def _is_whole(text: str) -> bool:
    """Return whether a text is a whole number as it is usually written: 1, but not 01."""
    return re.fullmatch(r"0|-?[1-9]\d{0,17}", text) is not None


def parts_of_dataset(data: Any) -> Iterator[DatasetPart]:
    """Yield the parts of a pyarrow dataset or table."""
    arrow, datasets = import_arrow(), import_arrow("pyarrow.dataset")
    if isinstance(data, arrow.Table | arrow.RecordBatch):
        data = datasets.InMemoryDataset(data)
    if not isinstance(data, datasets.Dataset):
        raise TypeError(
            "data must be a Parquet file, a folder of Parquet files, or a pyarrow dataset or table (or, for calibrate, "
            f"predict and audit, a Dask or Spark DataFrame); got {type(data).__module__}.{type(data).__name__}"
        )
    for position, fragment in enumerate(data.get_fragments()):
        name = getattr(fragment, "path", f"part {position}")
        with reading_errors(name):
            _check_values(fragment)
            yield DatasetPart(name, fragment, fragment.count_rows(), data.schema)


def _check_values(fragment: Any) -> None:
    """Raise ArrowInvalid for an Arrow file with offsets or codes that point anywhere: pyarrow's own scan may crash."""
    if getattr(getattr(fragment, "format", None), "default_extname", "") not in _ARROW_FORMATS:
        return
    with fragment.open() as file, import_arrow("pyarrow.ipc").open_file(file) as batches:
        for position in range(batches.num_record_batches):
            valid(batches.get_batch(position))


@contextmanager
def reading_errors(part: str) -> Iterator[None]:
    """Turn the errors of files that cannot be read into one that names the file."""
    try:
        yield
    except (OSError, MemoryError, UnicodeDecodeError, import_arrow().ArrowException) as error:
        reason = one_line(error) or "there is not enough memory"
        raise InvalidPartError(part, f"cannot be read: {reason}") from None


def parquet_file(path: Path, dictionary: Sequence[str] = ()) -> Any:
    """Return an open Parquet file that is read in small steps; some columns as codes of a dictionary."""
    parquet = import_arrow("pyarrow.parquet")
    return parquet.ParquetFile(path, read_dictionary=list(dictionary), buffer_size=_BUFFER_BYTES, pre_buffer=False)


def _with_keys(table: Any, keys: Mapping[str, str | int | None]) -> Any:
    """Return a record batch with the columns that are part of its path."""
    arrow = import_arrow()
    for name, value in keys.items():
        table = table.append_column(name, arrow.repeat(arrow.scalar(value), table.num_rows))
    return table


_WAITING_BATCHES = 4  # that were read, and wait for this thread


@dataclass(frozen=True, eq=False)
class ArrowData:
    """The files of the data, all checked before any is read.

    Parameters
    ----------
    parts : tuple of TablePart
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

    parts: tuple[TablePart, ...]
    is_folder: bool
    folder: Path | None
    workers: int
    progress: AmountProgress | None = None

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


def arrow_data(data: Any, *, workers: int | None = None, progress: AmountProgress | None = None) -> ArrowData:
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
    found: Iterator[TablePart] = parts_in_files(Path(data)) if isinstance(data, str | Path) else parts_of_dataset(data)
    parts = tuple(found)
    if not sum(part.n_rows for part in parts):
        name = str(data) if isinstance(data, str | Path) else "data"
        raise ValueError(f"{name} must have rows; got none")
    folder = Path(data) if isinstance(data, str | Path) and Path(data).is_dir() else None
    return ArrowData(parts, folder is not None or len(parts) > 1, folder, n_workers, progress)
