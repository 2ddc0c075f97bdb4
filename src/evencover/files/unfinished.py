"""Files and folders that are not complete yet, in one list, so that a process that is ended can remove them all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from threading import Lock
from typing import BinaryIO

_LONGEST_MOVE = 60.0  # seconds that the end of a process waits until a result is in its place
_TRIES = 100  # to remove a folder in which another thread may still create files

_unfinished: dict[Path, None] = {}
_lock = Lock()  # held while something is created or moved into its place
_is_moving = False


@contextmanager
def unfinished_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file to write to; if it was not moved to another name, it is removed at the end."""
    with _removed_at_the_end(path):
        with _lock:
            file = path.open("w+b")
        with file:
            yield file


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder, which is removed at the end.

    Parameters
    ----------
    parent : Path, optional
        Where the folder is created: in this folder or, if it does not exist, in the closest one above it that does. By
        default in the folder of the system for temporary files.
    """
    above = Path(gettempdir()) if parent is None else parent.absolute()
    closest = next(each for each in (above, *above.parents) if each.exists())
    folder = closest / f".evencover-{os.urandom(8).hex()}"
    with _removed_at_the_end(folder):
        with _lock:
            folder.mkdir(mode=0o700)
        yield folder


@contextmanager
def _removed_at_the_end(path: Path) -> Iterator[None]:
    """List a path before anything is there; it stays in the list if an interrupt prevents its removal."""
    _unfinished[path] = None
    try:
        yield
    finally:
        _remove(path)
        _unfinished.pop(path, None)


@contextmanager
def moves_into_place() -> Iterator[None]:
    """Move the files of a complete result to their place: all of them, also if the process is told to end."""
    global _is_moving
    _is_moving = True
    try:
        with _lock:
            yield
    finally:
        _is_moving = False


def is_moving_into_place() -> bool:
    """Return whether an exception would leave a result half in its place, half not."""
    return _is_moving


def remove_unfinished() -> None:
    """Remove whatever is unfinished, at the end of this process; other threads cannot create anything afterwards."""
    if _lock.acquire(timeout=_LONGEST_MOVE):  # and it is never released
        for path in list(_unfinished):
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    for _ in range(_TRIES):
        if not path.is_dir():
            with suppress(OSError):  # Windows does not remove a file that is open
                path.unlink(missing_ok=True)
            return
        rmtree(path, ignore_errors=True)
