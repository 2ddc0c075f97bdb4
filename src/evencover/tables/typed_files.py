"""Parquet and Feather files: their sizes are checked before memory is taken, their values before they are used."""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from evencover.files.sizes import BINARY, check_content, max_content, too_large
from evencover.tables.text_files import import_pyarrow

_WIDTH = 8  # bytes of a value, once it is a number
_BATCH_ROWS = 2**16
_TEXTS = ("string", "large_string", "binary", "large_binary")


def parquet_table(path: Path) -> Any:
    """Return a Parquet file as a pyarrow table; raise ContentTooLargeError if it is too large."""
    packed, parquet = path.stat().st_size, import_pyarrow("pyarrow.parquet")
    with parquet.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        groups = [metadata.row_group(position) for position in range(metadata.num_row_groups)]
        cells = sum(group.num_rows for group in groups) * len(schema.names)
        unpacked = sum(group.total_byte_size for group in groups)
        check_content(max(cells * _WIDTH, unpacked), packed, BINARY)
    texts = [field.name for field in schema if str(field.type) in _TEXTS]
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        batches = list(_counted(file.iter_batches(_BATCH_ROWS), packed, schema))
        return import_pyarrow().Table.from_batches(batches, schema)


def _counted(batches: Iterable[Any], packed: int, schema: Any) -> Iterator[Any]:
    """Yield record batches with the types of a schema, until they are too large.

    One text may be that of many rows. So texts come as codes of a dictionary, and are counted before they are written
    out.
    """
    size = 0
    for batch in batches:
        size += _plain_size(valid(batch))
        _check_size(size, packed)
        yield batch if batch.schema.equals(schema) else batch.cast(schema)


def _check_size(size: int, packed: int) -> None:
    """Raise ContentTooLargeError if what was read so far is too large."""
    if size > max_content(packed, BINARY):
        raise too_large(size, packed, BINARY, at_least=True)


def _plain_size(table: Any) -> int:
    """Return the bytes that a table or record batch takes, with the texts of its categories written out."""
    return sum(_text_size(column) for column in table.columns)


def _text_size(column: Any) -> int:
    """Return the bytes that a column takes, with the texts of its categories written out."""
    compute, arrow = import_pyarrow("pyarrow.compute"), import_pyarrow()
    if not arrow.types.is_dictionary(column.type) or str(column.type.value_type) not in _TEXTS:
        return int(column.nbytes)
    chunks = column.chunks if isinstance(column, arrow.ChunkedArray) else [column]
    lengths = (compute.binary_length(chunk.dictionary).take(chunk.indices) for chunk in chunks)
    return sum(compute.sum(each, min_count=0).as_py() for each in lengths)


def feather_table(path: Path) -> Any:
    """Return a Feather file as a pyarrow table; raise ContentTooLargeError if it is too large."""
    packed = path.stat().st_size
    with path.open("rb") as file:
        _check_claims(file, packed)
    table = valid(import_pyarrow("pyarrow.feather").read_table(path))
    _check_size(_plain_size(table), packed)
    return table


def valid(table: Any) -> Any:
    """Return a pyarrow table or record batch; raise ArrowInvalid if reading its values could leave their memory.

    In a damaged Arrow file, an offset of a text or a code of a category may point anywhere. Numbers have neither, so
    their check costs nothing; that of a text costs 3 ns.
    """
    table.validate(full=True)
    return table


# The layout of an Arrow IPC file, as far as its sizes need it: https://arrow.apache.org/docs/format/Columnar.html.
# pyarrow takes the memory that a compressed buffer claims before it unpacks the buffer.
_MAGIC = b"ARROW1"
_TRAILER = struct.Struct("<i6s")
_BLOCKS = 2, 3  # fields of the footer: dictionaries, record batches
_BLOCK = np.dtype([("offset", "<i8"), ("header", "<i4"), ("", "<i4"), ("body", "<i8")])
_HEADER_TYPE, _HEADER, _DICTIONARY_BATCH, _DATA = 1, 2, 2, 1  # fields of a message, and of a batch of a dictionary
_NODES, _BUFFERS, _COMPRESSION = 1, 2, 3  # fields of a record batch
_PAIR = np.dtype([("first", "<i8"), ("second", "<i8")])  # of a node: length, nulls; of a buffer: offset, size


class _Flat:
    """A table in the format FlatBuffers: fields by number, each of which may be absent."""

    def __init__(self, content: bytes, position: int) -> None:
        self._content, self._position = content, position
        self._fields = position - self._number("<i", position)

    @classmethod
    def root(cls, content: bytes) -> "_Flat":
        """Return the table that a content begins with."""
        return cls(content, struct.unpack_from("<I", content)[0])

    def field(self, number: int) -> int:
        """Return the position of a field; 0 if it is absent."""
        place = 4 + 2 * number
        if place >= self._number("<H", self._fields):
            return 0
        offset = self._number("<H", self._fields + place)
        return self._position + offset if offset else 0

    def byte(self, number: int) -> int:
        """Return a field of one byte; 0 if it is absent."""
        position = self.field(number)
        return self._content[position] if position else 0

    def table(self, number: int) -> "_Flat":
        """Return a field that is a table."""
        return _Flat(self._content, self._target(number))

    def vector(self, number: int, kind: np.dtype[Any]) -> Any:
        """Return a field that is an array of structures; empty if it is absent."""
        if not self.field(number):
            return np.empty(0, kind)
        start = self._target(number)
        size = self._number("<I", start) * kind.itemsize
        if size > len(self._content) - start - 4:
            raise struct.error("an array beyond its end")
        return np.frombuffer(self._content[start + 4 : start + 4 + size], kind)

    def _target(self, number: int) -> int:
        position = self.field(number)
        return position + self._number("<I", position)

    def _number(self, kind: str, position: int) -> int:
        return int(struct.unpack_from(kind, self._content, position)[0])


def _check_claims(file: BinaryIO, packed: int) -> None:
    """Raise ContentTooLargeError if an Arrow file claims to be too large, ValueError if its claims cannot be read."""
    if file.read(len(_MAGIC)) != _MAGIC:
        return  # pyarrow reads version 1 of Feather as it is in the file, and refuses what is no Arrow file
    try:
        size = 0
        for block in _blocks(file, packed):
            size += _claimed_size(file, block)
            check_content(size, packed, BINARY)
    except (IndexError, struct.error) as error:
        raise OSError(f"it is damaged ({error})") from None


def _blocks(file: BinaryIO, packed: int) -> Iterator[Any]:
    """Yield where the batches of an Arrow file are."""
    size, _ = _TRAILER.unpack(_part(file, packed - _TRAILER.size, _TRAILER.size))
    footer = _Flat.root(_part(file, packed - _TRAILER.size - size, size))
    for field in _BLOCKS:
        yield from footer.vector(field, _BLOCK)


def _part(file: BinaryIO, start: int, size: int) -> bytes:
    """Return some bytes of a file; no memory is taken for a wrong size."""
    end = file.seek(0, 2)
    if not (0 <= start <= end and 0 <= size <= end - start):
        raise struct.error("a position beyond its end")
    file.seek(start)
    return file.read(size)


def _claimed_size(file: BinaryIO, block: Any) -> int:
    """Return how many bytes a batch unpacks to, as it claims."""
    start, header = int(block["offset"]), int(block["header"])
    content = _part(file, start, header)
    message = _Flat.root(content[8:] if content.startswith(b"\xff\xff\xff\xff") else content[4:])
    batch = message.table(_HEADER)
    if message.byte(_HEADER_TYPE) == _DICTIONARY_BATCH:
        batch = batch.table(_DATA)
    cells = sum(abs(int(length)) for length in batch.vector(_NODES, _PAIR)["first"])
    is_packed = batch.field(_COMPRESSION) > 0
    sizes = (
        _unpacked_size(file, start + header + int(offset), int(size)) if is_packed else abs(int(size))
        for offset, size in batch.vector(_BUFFERS, _PAIR)
    )
    return max(cells * _WIDTH, sum(sizes))


def _unpacked_size(file: BinaryIO, start: int, size: int) -> int:
    """Return how many bytes a compressed buffer claims to hold; -1 means that it is stored as it is."""
    if not size:
        return 0
    (claimed,) = struct.unpack("<q", _part(file, start, 8))
    return size if claimed == -1 else abs(int(claimed))
