"""How large the content of a file may be: checked before memory is taken for it.

A few kilobytes can claim to hold terabytes, or unpack to gigabytes. Real tables shrink to a tenth when they are
compressed, seldom to a hundredth. Columns of codes and the leaves of a forest can shrink to a thousandth.
"""

import os
from typing import NamedTuple, Protocol

MAX_GB = "EVENCOVER_MAX_GB"  # an environment variable, which replaces both limits
_DEFAULT_GB = 16.0
_GB = 10**9
_CHUNK = 2**20


class ContentTooLargeError(ValueError):
    """The content of a file would take more memory than is allowed."""


class SettingError(ValueError):
    """An environment variable has no value that it can have."""


class Limit(NamedTuple):
    """How many times its size a file may unpack to, and how many bytes, whatever its size."""

    ratio: int
    small: int


TEXT, BINARY = Limit(100, 2**28), Limit(1000, 2**28)
WORKBOOK = Limit(100, 2**26)  # reading XML takes fifteen times its size


class ByteStream(Protocol):
    """What bytes are read from: a file, or what unpacks one."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""


def max_content(packed: int | None = None, limit: Limit = TEXT) -> int:
    """Return how many bytes a file may unpack to.

    Parameters
    ----------
    packed : int, optional
        The size of the file. Without it, only the absolute limit counts.
    limit : Limit
        What is allowed of this kind of file.
    """
    if setting := os.environ.get(MAX_GB):
        return int(_checked_gigabytes(setting) * _GB)
    largest = int(_DEFAULT_GB * _GB)
    return largest if packed is None else min(largest, max(limit.small, limit.ratio * packed))


def check_content(size: int, packed: int | None = None, limit: Limit = TEXT) -> None:
    """Raise ContentTooLargeError if a content of so many bytes is too large for a file of the size `packed`."""
    if size > max_content(packed, limit):
        raise too_large(size, packed, limit)


def read_content(stream: ByteStream, packed: int | None = None) -> bytes:
    """Return what a stream holds; raise ContentTooLargeError, without reading on, once it is too large."""
    limit, chunks, size = max_content(packed), list[bytes](), 0
    while chunk := stream.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise too_large(size, packed, at_least=True)
    return b"".join(chunks)


def too_large(
    size: int, packed: int | None = None, limit: Limit = TEXT, *, at_least: bool = False
) -> ContentTooLargeError:
    """Return the error for a content of so many bytes, or, if not all of it was read, of at least so many."""
    source = "" if packed is None else f" from {_size_text(packed)} in the file"
    return ContentTooLargeError(
        f"its content takes {'at least ' * at_least}{_size_text(size)} of memory{source}; the limit is "
        f"{_size_text(max_content(packed, limit))}{_reason(packed, limit)}. If you trust the file, set the environment "
        f"variable {MAX_GB} to a larger limit"
    )


def _reason(packed: int | None, limit: Limit) -> str:
    """Return why the limit is what it is, in parentheses, if the size of the file decides."""
    if packed is None or os.environ.get(MAX_GB) or max_content(packed, limit) == max_content():
        return ""
    return f" ({limit.ratio} times the file, or {_size_text(limit.small)})"


def _size_text(size: int) -> str:
    """Return a number of bytes as text."""
    return f"{size / _GB:.3g} GB" if size >= _GB else f"{size / 1e6:.3g} MB"


def _checked_gigabytes(setting: str) -> float:
    """Return a limit in gigabytes; raise SettingError unless it is a positive number."""
    try:
        number = float(setting)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise SettingError(f"the environment variable {MAX_GB} must be a positive number; got {setting!r}")
    return number
