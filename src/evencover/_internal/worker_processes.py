"""Worker processes that end when the process that started them ends, even if it is killed."""

import os
import sys
import time
from multiprocessing import parent_process
from threading import Lock, Thread

_SECONDS_BETWEEN_CHECKS = 0.5
_lock = Lock()
_watched: set[int] = set()


def end_with_parent(parent: int) -> None:
    """End this worker process when its parent, given by its process id, is gone; call it in the worker.

    A killed parent cannot stop its workers. It may be gone before this is called: a worker needs seconds to import
    what it works with. This has no effect in the parent itself, and on Windows.
    """
    started_by = parent_process()
    if started_by is None or started_by.pid != parent or sys.platform == "win32":
        return
    with _lock:
        if parent in _watched:
            return
        _watched.add(parent)
    Thread(target=_exit_without_parent, args=(parent,), daemon=True).start()


def _exit_without_parent(parent: int) -> None:
    """Wait until the parent is gone, then exit at once: the main thread may be busy or blocked."""
    is_child = os.getppid() == parent  # not if a fork server started this process, or if the parent is already gone
    while os.getppid() == parent if is_child else _exists(parent):
        time.sleep(_SECONDS_BETWEEN_CHECKS)
    os._exit(1)


def _exists(process: int) -> bool:
    """Return whether there is a process with this id."""
    try:
        os.kill(process, 0)  # no signal is sent
    except (ProcessLookupError, PermissionError):  # no such process, or one of another user that has its number now
        return False
    return True
