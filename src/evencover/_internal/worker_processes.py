"""Worker processes that end when the process that started them ends, even if it is killed."""

import os
import time
from threading import Lock, Thread

_SECONDS_BETWEEN_CHECKS = 0.5
_lock = Lock()
_watched: set[int] = set()


def end_with_parent(parent: int) -> None:
    """End this worker process when its parent, given by its process id, is gone; call it in the worker.

    A killed parent cannot stop its workers. This has no effect in the parent itself, and on Windows, where a process
    keeps the id of its dead parent.
    """
    with _lock:
        if os.getppid() != parent or parent in _watched:
            return
        _watched.add(parent)
    Thread(target=_exit_without_parent, args=(parent,), daemon=True).start()


def _exit_without_parent(parent: int) -> None:
    """Wait until the parent is gone, then exit at once: the main thread may be busy or blocked."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_CHECKS)
    os._exit(1)
