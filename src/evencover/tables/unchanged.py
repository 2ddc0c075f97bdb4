"""Input that another process changes while it is read is an error: what was read may be no version of the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

Version: TypeAlias = tuple[int, ...]


class ChangedError(OSError):
    """A file has changed while it was read."""


def version_of(path: Path) -> Version:
    """Return what differs between two versions of a file: which file it is, its size, the time of the last change."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def unchanged(path: Path, version: Version | None = None) -> Iterator[None]:
    """Raise an error if a file is not the same at the end, or not a version that was seen before."""
    version = version_of(path) if version is None else version
    yield
    if version_of(path) != version:
        raise ChangedError("it changed while it was read; run the command again when nothing writes to it")
