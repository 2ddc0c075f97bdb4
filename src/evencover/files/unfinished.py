"""How results get into their place, as a whole or not at all, and what becomes of them if the process ends before.

What is not complete yet is in a temporary folder, next to its place and so in the same file system. A list of these
folders allows a process that is ended to remove them all. A process that is killed cannot; the next one that writes to
the same place does. It knows a leftover by a lock: the system keeps it as long as the process lives, and no longer,
whereas the number of a process is used again. The name says on which computer the lock is, because not every network
folder shows the locks of another one. What cannot be locked, belongs to another user or is a link is left alone.

The files of a folder are moved one by one, first the earlier ones out of it, then the new ones into it, so old and new
files are never in it together. An error undoes the moves. After a kill, the next command that writes to the folder
undoes them, or completes them if all earlier files were out. To exchange the whole folder would be simpler. But a user
may keep files in it, stand in it, share it or mount it, and Windows does not rename a folder with an open file.
"""

import errno
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import sha256
from io import FileIO
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from threading import Lock
from typing import Any

_LONGEST_MOVE = 60.0  # seconds that the end of a process, or another move, waits until a result is in its place
_TRIES = 100  # to remove a folder in which another thread may still create files
_PREFIX = ".evencover-"
_LOCK = "lock"  # the locked file in a temporary folder
_MOVING = f"{_PREFIX}moving"  # the locked file in a folder while files are moved into it
_NEW, _EARLIER, _REPLACED = "new", "earlier", "replaced"  # in a temporary folder; `_exchange` explains them

_unfinished: dict[Path, int | None] = {}  # temporary folders of this process, with their open locks
_lock = Lock()  # held while something is created or moved into its place
_is_moving = False


class OutputFile(FileIO):
    """A new file, or an open one, whose errors of writing name the output.

    Parameters
    ----------
    file : Path or int
        The file, or its descriptor, which stays open.
    shown : str
        The name of the output.
    """

    def __init__(self, file: Path | int, shown: str) -> None:
        is_open = isinstance(file, int)
        super().__init__(file, "w" if is_open else "w+", closefd=not is_open)
        self._shown = shown

    def write(self, data: Any, /) -> int:
        """Write bytes; return how many were written."""
        with errors_of(self._shown):
            return super().write(data)


@contextmanager
def errors_of(shown: str | Path) -> Iterator[None]:
    """Let errors of the operating system name an output."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(shown)) from None


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder, which is removed at the end; leftovers of processes that are gone are removed before.

    Parameters
    ----------
    parent : Path, optional
        The folder in which it is created; by default that of the system for temporary files.
    """
    parent = (Path(gettempdir()) if parent is None else parent).absolute()
    remove_leftovers(parent)
    with ExitStack() as stack:
        folders = (stack.enter_context(_new_folder(parent)) for _ in range(_TRIES))
        yield next(folder for folder in folders if folder)


@contextmanager
def _new_folder(parent: Path) -> Iterator[Path | None]:
    """Yield a new folder with a lock, or None if another process was faster to lock it, as a leftover."""
    folder = parent / f"{_own_prefix()}{os.urandom(8).hex()}"
    _unfinished[folder] = None  # before anything is there
    is_own = True
    try:
        with _lock:
            folder.mkdir(mode=0o700)
            try:
                _unfinished[folder] = _locked(folder / _LOCK, os.O_CREAT | os.O_EXCL)
            except (BlockingIOError, FileNotFoundError):  # or even removed it
                is_own = False
            except OSError:  # no locks in this file system: with another name, nobody takes it for a leftover
                locked, folder = folder, parent / f"{_PREFIX}{os.urandom(8).hex()}"
                _unfinished[folder] = None
                locked.rename(folder)
                _unfinished.pop(locked)
        yield folder if is_own else None
    finally:
        if is_own:
            _remove(folder)
        _unfinished.pop(folder, None)


def lock_file(file: int) -> None:
    """Lock an open file until it is closed or this process ends, in whatever way.

    Raise BlockingIOError if another process has locked it, and OSError if the file system has no locks.
    """
    if sys.platform == "win32":  # pragma: no cover
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            raise BlockingIOError from None
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _locked(path: Path, flags: int = 0) -> int:
    """Open and lock a file; raise OSError if it is not there, or cannot be locked."""
    lock = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | flags, 0o600)
    try:
        lock_file(lock)
        if not os.fstat(lock).st_nlink:
            raise BlockingIOError  # removed by the process that had locked it
    except OSError:
        os.close(lock)
        raise
    return lock


@cache
def _own_prefix() -> str:
    """Return how the names of the locked folders of this computer begin."""
    return f"{_PREFIX}{sha256(platform.node().encode()).hexdigest()[:8]}-"


def is_temporary(path: Path) -> bool:
    """Return whether the name of a path is that of a temporary folder, or of a lock."""
    return re.fullmatch(rf"{re.escape(_PREFIX)}(([0-9a-f]{{8}}-)?[0-9a-f]{{16}}|moving)", path.name) is not None


def remove_leftovers(parent: Path) -> None:
    """Remove the temporary folders of processes that are gone from a folder, after completing or undoing their moves.

    An error of a move is raised; whatever else prevents the removal is left to the next command.
    """
    own = list(_unfinished)
    if any(each == parent or each in parent.parents for each in own):
        return
    names = {each.name for each in own}
    for folder in _temporary_folders(parent):
        if folder.name.startswith(_own_prefix()) and folder.name not in names and _is_mine(folder):
            _remove_leftover(folder)


def _temporary_folders(parent: Path) -> list[Path]:
    """Return the temporary folders in a folder; never links to others."""
    try:
        with os.scandir(parent) as entries:
            return [
                path
                for each in entries
                if is_temporary(path := parent / each.name) and each.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def _is_mine(path: Path) -> bool:
    """Return whether a path belongs to the user of this process; on Windows, every user's files may."""
    try:
        return sys.platform == "win32" or path.lstat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def _remove_leftover(folder: Path) -> None:
    """Remove a temporary folder if its process is gone."""
    try:
        _unfinished[folder] = _locked(folder / _LOCK)
    except FileNotFoundError:
        with suppress(OSError):  # empty, because its process was killed before or after there was a lock
            folder.rmdir()
        return
    except OSError:
        return
    try:
        if _is_half_moved(folder):
            with _only_one_moves(folder.parent):
                _complete_or_undo(folder)
    finally:
        _remove(folder)


@contextmanager
def output_folder(folder: Path, check: Callable[[], None], *, order: Sequence[str] = ()) -> Iterator[Path]:
    """Yield a temporary folder whose files are moved to a folder at the end: all of them, or none after an error.

    Parameters
    ----------
    folder : Path
        The folder, which is created if it does not exist. Its other files stay as they are.
    check : callable
        Raises an error if the folder must not be written to; called at the start, and again before files are moved,
        because another command may have written to it.
    order : sequence of str
        Names of files in the order in which they come into the folder. Those in it leave it before, in reverse order,
        also if no file replaces them. So the last one is there only if all others of its kind are.
    """
    with ExitStack() as stack:
        _check(folder, check)
        try:
            new = stack.enter_context(temporary_folder(_existing(folder))) / _NEW
            new.mkdir()
        except OSError as error:
            raise OSError(f"output must be a folder that can be written to; {folder}: {error.strerror}") from None
        with _errors_in_place(new, folder):
            yield new
            _move_into_place(new, folder, check, order)


def _check(folder: Path, check: Callable[[], None]) -> None:
    """Call a check when no files are moved into the folder."""
    if folder.is_dir():
        remove_leftovers(folder.absolute())
        with _only_one_moves(folder):
            check()
    else:
        check()


def _existing(folder: Path) -> Path:
    """Return a folder or, if it does not exist, the closest one above it that does; raise OSError for a broken link."""
    above = folder.absolute()
    with suppress(FileNotFoundError, NotADirectoryError):
        above.lstat()  # raises an error for a name that is too long
    for each in (above, *above.parents):
        if each.exists():
            return each
        if each.is_symlink():
            raise OSError(errno.ENOENT, f"broken link to {each.readlink()}", str(each))
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))  # pragma: no cover


@contextmanager
def _errors_in_place(temporary: Path, folder: Path) -> Iterator[None]:
    """Let errors that name a file in a temporary folder name the file that it is to become."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not isinstance(error.filename, str):
            raise
        path = Path(error.filename)
        if path != temporary and temporary not in path.parents:
            raise
        raise OSError(error.errno, error.strerror, str(folder / path.relative_to(temporary))) from None


def _move_into_place(new: Path, folder: Path, check: Callable[[], None], order: Sequence[str]) -> None:
    """Move the complete files to a folder that may have been created since the start."""
    if not folder.exists():
        with moves_into_place(), suppress(FileExistsError):  # created by another process in this moment
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                new.rename(folder)
                return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
    with temporary_folder(folder) as staging:
        new.rename(staging / _NEW)
        with moves_into_place(), _only_one_moves(folder):
            check()
            _exchange(staging, order)


@contextmanager
def _only_one_moves(folder: Path) -> Iterator[None]:
    """Wait until no other process moves files into a folder; do not, if the file system has no locks."""
    path, lock, deadline = folder / _MOVING, None, time.monotonic() + _LONGEST_MOVE
    while lock is None:
        try:
            lock = _locked(path, os.O_CREAT)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another command moves files into the folder", str(path)) from None
            time.sleep(0.01)
        except PermissionError:  # the folder cannot be written to, of which the caller learns
            break
        except OSError:
            with suppress(OSError):
                path.unlink()
            break
    try:
        yield
    finally:
        if lock is not None:
            with suppress(OSError):
                if sys.platform != "win32":
                    path.unlink()  # while it is locked, so that nobody has just locked it
            os.close(lock)
            if sys.platform == "win32":  # pragma: no cover
                with suppress(OSError):  # which fails if another process has it open
                    path.unlink()


def _exchange(staging: Path, order: Sequence[str]) -> None:
    """Move the earlier files out of a folder and the new ones into it, or leave it as it was and raise OSError.

    While `earlier` exists, the moves can be undone from it. It is renamed to `replaced` when all earlier files are in
    it; then the moves can be completed from `new`.
    """
    folder, new, earlier, replaced = staging.parent, *(staging / name for name in (_NEW, _EARLIER, _REPLACED))
    for other in _temporary_folders(folder):
        if other != staging and _is_half_moved(other):
            raise FileExistsError(errno.EEXIST, "another command is moving files into the folder", str(other))
    arriving = [each.name for each in new.iterdir()]
    arriving.sort(key=lambda name: order.index(name) if name in order else -1)
    leaving = [name for name in reversed([*(set(arriving) - set(order)), *order]) if os.path.lexists(folder / name)]
    for name in leaving:
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(folder / name))
    arrived: list[str] = []
    earlier.mkdir()
    try:
        for name in leaving:
            with errors_of(folder / name):
                (folder / name).rename(earlier / name)
        earlier.rename(replaced)
        for name in arriving:
            with errors_of(folder / name):
                (new / name).rename(folder / name)
            arrived.append(name)
    except BaseException:  # also an interrupt, outside of the command line
        _undo(staging, arrived)
        raise


def _undo(staging: Path, arrived: Sequence[str]) -> None:
    """Move new files out of a folder again, and the earlier ones back; if that fails, say where these are."""
    try:
        for name in arrived:
            (staging.parent / name).rename(staging / _NEW / name)
        if (staging / _REPLACED).exists():
            (staging / _REPLACED).rename(staging / _EARLIER)
        _complete_or_undo(staging)
    except OSError as error:
        reason = f"{error.strerror}; the folder is incomplete, and its other files are in {staging}"
        raise OSError(error.errno, reason, str(staging.parent)) from None


def _is_half_moved(staging: Path) -> bool:
    """Return whether the moves from a temporary folder have begun, but were not completed or undone."""
    try:
        return (staging / _EARLIER).is_dir() or ((staging / _REPLACED).is_dir() and any((staging / _NEW).iterdir()))
    except OSError:  # it has just been removed, or belongs to another user
        return False


def _complete_or_undo(staging: Path) -> None:
    """Move all files that are in a temporary folder, and in no other place, to the folder in which it is."""
    source = staging / (_EARLIER if (staging / _EARLIER).is_dir() else _NEW)
    for path in source.iterdir():
        path.replace(staging.parent / path.name)
    source.rmdir()


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


def _remove(folder: Path) -> None:
    """Remove a temporary folder of this process, if it is there; not the earlier files of a folder that are only here.

    Its lock comes last, so that the next process can remove what this one cannot. The folder stays in the list if an
    interrupt prevents its removal.
    """
    is_needed = _is_half_moved(folder)
    for _ in range(0 if is_needed else _TRIES):
        if not (left := _content(folder)):
            break
        for path in left:
            _remove_path(path)
    if (lock := _unfinished.pop(folder, None)) is not None:
        os.close(lock)  # before the file is removed: Windows does not remove a file that is open
    for _ in range(0 if is_needed else _TRIES):
        if not folder.is_dir():
            break
        rmtree(folder, ignore_errors=True)


def _content(folder: Path) -> list[Path]:
    """Return what is in a temporary folder besides its lock."""
    try:
        return [path for path in folder.iterdir() if path.name != _LOCK]
    except OSError:
        return []


def _remove_path(path: Path) -> None:
    """Remove a file, a link or a folder."""
    if path.is_dir() and not path.is_symlink():
        rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # Windows does not remove a file that is open
            path.unlink()
