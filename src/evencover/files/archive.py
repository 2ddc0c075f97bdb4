"""Files that evencover writes: atomic writes, and the archive that calibrations, predictors and networks share.

The archive is a zip file, without pickle. It holds a header in JSON, arrays in numpy's own format and, if needed,
objects written by skops (see `evencover.files.objects`)::

    header.json          format, version, evencover, and what the kind of file needs
    arrays/<name>.npy    any number of arrays
    objects.skops        optional

The comment of the archive is a checksum of all bytes before it (see `evencover.files.checksums`).
"""

import json
import math
import os
import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedRandom, BytesIO
from lzma import LZMAError
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo
from zlib import error as ZlibError  # noqa: N812

import numpy as np
from numpy.typing import NDArray

from evencover._version import __version__
from evencover.display.lines import one_line
from evencover.files.checksums import add_checksum, check_checksum
from evencover.files.sizes import BINARY, ContentTooLargeError, SettingError, check_content
from evencover.files.unfinished import OutputFile, errors_of, temporary_folder


def plain_value(value: Any, other: Callable[[Any], Any] = repr) -> Any:
    """Return a value as JSON data: NaN becomes null, an infinite number the text inf or -inf.

    Parameters
    ----------
    value : object
        A number, a text, an array, or a mapping or sequence of such values.
    other : callable
        Turns an object of another kind into JSON data.
    """
    if isinstance(value, Mapping):
        return {str(key): plain_value(each, other) for key, each in value.items()}
    if isinstance(value, tuple | list | np.ndarray):
        return [plain_value(each, other) for each in value]
    if isinstance(value, np.generic):
        return plain_value(value.item(), other)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | bool | int | float) else other(value)


VERSION = 6  # of the format, the same for every kind of file; tests/files holds examples of each version
_OLDEST_VERSION = 3  # the first one that every later evencover reads; 1 and 2 were never released
_FIRST_WITH_CHECKSUM = 6
_HEADER, _ARRAYS, _OBJECTS = "header.json", "arrays/", "objects.skops"
ERRORS_OF_CORRUPT_FILES = (
    *(ArithmeticError, AttributeError, BadZipFile, EOFError, LookupError, LZMAError, MemoryError),
    *(NotImplementedError, OSError, RuntimeError, TypeError, ValueError, ZlibError),
)

Kind: TypeAlias = Literal["calibration", "table calibration", "predictor", "network", "results"]


@dataclass(frozen=True, eq=False)
class Archive:
    """The contents of a saved file."""

    header: Mapping[str, Any]  # values that JSON can represent
    arrays: Mapping[str, NDArray[Any]]
    objects: bytes = b""  # written by skops


class IncompatibleFileError(ValueError):
    """The file is not corrupt, but this reader cannot use it."""


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a file to write to; ``path`` has the complete content afterwards, or is unchanged after an error.

    Parameters
    ----------
    path : str or Path
        The destination. A file that exists there is replaced once the new content is complete.
    """
    path = Path(path).resolve()  # through a symbolic link
    if path.exists() and not path.is_file():
        raise OSError(f"a file can be written only in place of a file; {path} is none")
    with ExitStack() as stack:
        with errors_of(path):
            unfinished = stack.enter_context(temporary_folder(path.parent)) / "file"
        with BufferedRandom(OutputFile(unfinished, str(path))) as file:
            yield file
            with errors_of(path):
                file.flush()
                os.fsync(file.fileno())
        with errors_of(path):  # after the file is closed: Windows does not rename a file that is open
            unfinished.replace(path)


def write_archive(path: str | Path, kind: Kind, archive: Archive) -> None:
    """Write an archive atomically; its header gets the format, its version and the version of evencover."""
    header = {**file_header(kind), **archive.header}
    with atomic_write(path) as file, ZipFile(file, "w", ZIP_DEFLATED) as members:
        members.writestr(_HEADER, json.dumps(header))
        for name, array in archive.arrays.items():
            # ZipInfo means uncompressed: floating-point numbers hardly compress, and trying takes most of the time.
            with members.open(ZipInfo(f"{_ARRAYS}{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        if archive.objects:
            members.writestr(_OBJECTS, archive.objects)
        members.close()
        add_checksum(file)


def read_archive(path: str | Path, kind: Kind) -> Archive:
    """Return the contents of a file that `write_archive` wrote.

    Raise ValueError if it is damaged, of another kind, or too large.
    """
    with _opened(path, kind) as members:
        header = _header(members, kind)
        if header["version"] >= _FIRST_WITH_CHECKSUM:
            check_checksum(members.fp)  # type: ignore[arg-type]
        names = members.namelist()
        arrays = {
            name.removeprefix(_ARRAYS).removesuffix(".npy"): read_array(members, name)
            for name in names
            if name.startswith(_ARRAYS)
        }
        return Archive(header, arrays, member_content(members, _OBJECTS) if _OBJECTS in names else b"")


def read_header(path: str | Path, kind: Kind) -> Mapping[str, Any]:
    """Return only the header of a file that `write_archive` wrote; raise ValueError as `read_archive` does."""
    with _opened(path, kind) as members:
        return _header(members, kind)


@contextmanager
def _opened(path: str | Path, kind: Kind) -> Iterator[ZipFile]:
    """Yield the archive in a file; its errors name the file."""
    with Path(path).open("rb") as file, file_errors(path, kind), opened_zip(file) as members:
        yield members


@contextmanager
def opened_zip(file: BinaryIO) -> Iterator[ZipFile]:
    """Yield the zip archive in a file; raise ContentTooLargeError if it unpacks to more than is allowed."""
    with ZipFile(file) as members:
        check_content(unpacked_size(members), file.seek(0, SEEK_END), BINARY)
        yield members


def unpacked_size(members: ZipFile) -> int:
    """Return how many bytes the members of an archive have, as it declares them."""
    return sum(each.file_size for each in members.infolist())


def member_content(members: ZipFile, name: str) -> bytes:
    """Return the content of a member; unlike ``members.read``, never unpack more than the archive declares."""
    with members.open(name) as member:
        return member.read(members.getinfo(name).file_size)


@contextmanager
def file_errors(path: str | Path, kind: Kind) -> Iterator[None]:
    """Turn every error that a corrupt or incompatible file can cause into one ValueError that names the file."""
    try:
        yield
    except SettingError:
        raise
    except (IncompatibleFileError, ContentTooLargeError) as error:
        raise ValueError(f"{path}: {one_line(error)}") from None
    except ERRORS_OF_CORRUPT_FILES as error:
        reason = one_line(error) or type(error).__name__
        raise ValueError(f"{path} is not a {kind} file written by evencover, or it is corrupt: {reason}") from error


def file_header(kind: Kind) -> dict[str, Any]:
    """Return what every header begins with: the format, its version, and that of evencover."""
    return {"format": _format(kind), "version": VERSION, "evencover": __version__}


def _format(kind: Kind) -> str:
    return f"evencover.{kind.replace(' ', '_')}"


def _header(members: ZipFile, kind: Kind) -> dict[str, Any]:
    """Return the header of an archive after checking it."""
    header: dict[str, Any] = json.loads(member_content(members, _HEADER))
    check_header(header, kind)
    return header


def check_header(header: Mapping[str, Any], kind: Kind) -> None:
    """Raise unless the file is of this kind, in a version of the format that this evencover reads."""
    if header["format"] != _format(kind):
        raise IncompatibleFileError(f"its format is {header['format']!r}; expected {_format(kind)!r}")
    written = f"evencover {header['evencover']} in version {header['version']} of the format"
    if header["version"] > VERSION:
        raise IncompatibleFileError(
            f"written by a newer {written}; this is evencover {__version__}, which reads up to version {VERSION}: "
            "upgrade evencover"
        )
    if header["version"] < _OLDEST_VERSION:
        raise IncompatibleFileError(f"written by {written}, before its first release; fit the model and save it again")


def read_array(members: ZipFile, name: str) -> NDArray[Any]:
    """Return the array in a member; raise ValueError unless its size is that of the member."""
    content = member_content(members, name)
    checked_shape(content, len(content), name)
    array: NDArray[Any] = np.lib.format.read_array(BytesIO(content), allow_pickle=False)
    return array


ARRAY_MAGIC = b"\x93NUMPY"
_ARRAY = re.compile(rb"\{'descr': (.*), 'fortran_order': (?:True|False), 'shape': \(([\d, ]*)\), \} *\n")


def checked_shape(content: bytes, size: int, name: str) -> tuple[int, ...]:
    """Return the shape of an array; raise ValueError unless its header declares as many bytes as there are.

    The header is read as numpy writes it. numpy's own function takes ten times as long, a fifth of the time of loading
    a model of many small arrays.

    Parameters
    ----------
    content : bytes
        The beginning of an array in numpy's format, with its header.
    size : int
        The number of all bytes, header included.
    name : str
        The name of the array, for messages.
    """
    begin = 10 if content[6:7] == b"\x01" else 12  # the length of the header has 2 bytes, or 4 in later versions
    end = begin + int.from_bytes(content[8:begin], "little")
    header = _ARRAY.fullmatch(content, begin, end) if content.startswith(ARRAY_MAGIC) else None
    if header is None:
        raise ValueError(f"{name} is no array in numpy's format")
    shape = tuple(map(int, filter(None, header[2].replace(b" ", b"").split(b","))))
    item = _item_size(header[1])
    if item is not None and math.prod(shape) * item != size - end:
        raise ValueError(f"{name} declares an array of {math.prod(shape) * item} bytes, and holds {size - end}")
    return shape


@lru_cache(maxsize=100)
def _item_size(described: bytes) -> int | None:
    """Return the bytes of an item of a type as numpy writes it; None for Python objects."""
    kind = np.lib.format.descr_to_dtype(literal_eval(described.decode()))
    return None if kind.hasobject else kind.itemsize
