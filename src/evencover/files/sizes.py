"""How large the content of a file may be: checked before memory is taken for it.

A few kilobytes can claim to hold terabytes, or unpack to gigabytes. Real tables and models shrink to a tenth when they
are compressed, seldom to a hundredth.
"""

import os
from typing import Protocol

MAX_GB = "EVENCOVER_MAX_GB"  # an environment variable, which replaces both limits
_DEFAULT_GB = 16.0
_MAX_RATIO = 100
_SMALL = 2**26  # bytes that any file may unpack to, whatever its own size
_GB = 10**9
_CHUNK = 2**20


class ContentTooLargeError(ValueError):
    """The content of a file would take more memory than is allowed."""


class ByteStream(Protocol):
    """What bytes are read from: a file, or what unpacks one."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""


def max_content(packed: int | None = None, *, ratio: int = _MAX_RATIO) -> int:
    """Return how many bytes a file may unpack to.

    Parameters
    ----------
    packed : int, optional
        The size of the file. Without it, only the absolute limit counts.
    ratio : int
        How many times its size a file may unpack to.
    """
    if (setting := os.environ.get(MAX_GB)) is not None:
        return int(_checked_gigabytes(setting) * _GB)
    limit = int(_DEFAULT_GB * _GB)
    return limit if packed is None else min(limit, max(_SMALL, ratio * packed))


def check_content(size: int, packed: int | None = None, *, ratio: int = _MAX_RATIO) -> None:
    """Raise ContentTooLargeError if a content of so many bytes is too large for a file of the size `packed`."""
    if size > max_content(packed, ratio=ratio):
        raise too_large(size, packed, ratio=ratio)


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
    size: int, packed: int | None = None, *, ratio: int = _MAX_RATIO, at_least: bool = False
) -> ContentTooLargeError:
    """Return the error for a content of so many bytes, or, if not all of it was read, of at least so many."""
    amount = f"{'at least ' * at_least}{size / _GB:.3g} GB"
    from_size = "" if packed is None else f" from {packed / 1e6:.3g} MB in the file"
    limit = max_content(packed, ratio=ratio) / _GB
    return ContentTooLargeError(
        f"its content takes {amount} of memory{from_size}; the limit is {limit:.3g} GB. If you trust "
        f"the file, set the environment variable {MAX_GB} to a larger limit"
    )


def _checked_gigabytes(setting: str) -> float:
    """Return a limit in gigabytes; raise ValueError unless it is a positive number."""
    try:
        number = float(setting)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise ValueError(f"the environment variable {MAX_GB} must be a positive number; got {setting!r}")
    return number
