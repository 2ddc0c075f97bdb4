"""Checksums of files, so that damage is an error. They do not protect from forgery: whoever forges a file adds its sum.

A zip archive ends with the SHA-256 of all bytes before, as its comment. JSON data has it as one of its values, computed
from all others.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from os import SEEK_END
from typing import Any, BinaryIO

_KEY = "checksum"  # in JSON data
_LENGTH = 64  # of a SHA-256 in hexadecimal digits
_BLOCK = 2**20
_DIFFERS = "its content is not what was written: its checksum differs"


def add_checksum(archive: BinaryIO) -> None:
    """Add its checksum to a complete zip archive without a comment, which is open for reading and writing."""
    archive.seek(-2, SEEK_END)  # the last two bytes are the length of the comment
    archive.write(_LENGTH.to_bytes(2, "little"))
    archive.write(_digest(archive, archive.tell()))


def check_checksum(archive: BinaryIO) -> None:
    """Raise ValueError unless a zip archive has the content that it was written with."""
    end = archive.seek(0, SEEK_END) - _LENGTH
    expected = _digest(archive, max(end, 0))
    if archive.read() != expected:
        raise ValueError(_DIFFERS)


def with_checksum(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON data with its checksum as the last value."""
    return {**data, _KEY: _digest_of_json(data)}


def checked_json(data: Any) -> dict[str, Any]:
    """Return JSON data without its checksum, if it has one: older data has none.

    Raise ValueError unless it is an object with the values that it was written with.
    """
    if not isinstance(data, dict):
        raise ValueError(f"it must hold a JSON object; got {data!s:.40}")
    values = {name: value for name, value in data.items() if name != _KEY}
    if data.get(_KEY, expected := _digest_of_json(values)) != expected:
        raise ValueError(_DIFFERS)
    return values


def _digest_of_json(data: Mapping[str, Any]) -> str:
    return sha256(json.dumps(_with_whole_numbers(data), sort_keys=True).encode()).hexdigest()


def _with_whole_numbers(value: Any) -> Any:
    """Return JSON data with 1 for 1.0: other programs write it so when they save the data again."""
    if isinstance(value, dict):
        return {name: _with_whole_numbers(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_whole_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(file: BinaryIO, end: int) -> bytes:
    """Return the SHA-256 of a file up to a position, or up to its end, and leave the file there."""
    digest = sha256()
    file.seek(0)
    while chunk := file.read(min(_BLOCK, end - file.tell())):
        digest.update(chunk)
    return digest.hexdigest().encode()
