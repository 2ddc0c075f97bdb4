"""Parts of data: Parquet files, and parts of pyarrow datasets, which are read in batches."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from evencover.distributed._batches import Batch, InvalidPartError, import_arrow

_SUFFIXES = (".parquet", ".pq")
_MISSING_IN_PATH = "__HIVE_DEFAULT_PARTITION__"
_BATCH_ROWS = 2**15  # few enough for little memory, enough so that threads seldom wait for each other
_BUFFER_BYTES = 2**16  # of a file that is read at once


class Piece(Protocol):
    """Some rows of a part that one thread reads."""

    def batches(self, columns: Sequence[str] | None, /, *, dictionary: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield the rows of these columns, or of all columns, in batches; some columns as codes of a dictionary."""


class Part(Protocol):
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
    """

    name: str
    path: Path
    row_groups: tuple[int, ...]
    stored: Any
    keys: Mapping[str, str | int | None]

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
        with reading_errors(part.name), parquet_file(part.path, codes) as file:
            tables = file.iter_batches(_BATCH_ROWS, row_groups=[self.position], columns=stored, use_threads=False)
            for table in tables:
                yield Batch(_with_keys(table, keys), part.name, row)
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
            metadata, schema = opened.metadata, opened.schema_arrow
            row_groups = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
        values = {key: value for key, value in values.items() if key not in schema.names}
        yield ParquetPart(name, file, row_groups, schema, values)


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
            yield DatasetPart(name, fragment, fragment.count_rows(), data.schema)


@contextmanager
def reading_errors(part: str) -> Iterator[None]:
    """Turn the errors of files that cannot be read into one that names the file."""
    try:
        yield
    except (OSError, import_arrow().ArrowException) as error:
        raise InvalidPartError(part, f"cannot be read: {' '.join(str(error).split())}") from None


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
