"""Processes that others have started, and whether they end."""

import os
import signal
import subprocess
import time
from contextlib import suppress


def parents():
    """Return the parent's id of every process that has not ended, by its own id."""
    columns = ["-o", "pid=", "-o", "ppid=", "-o", "stat="]
    listed = subprocess.check_output(["ps", "-A", *columns], text=True)  # noqa: S607
    processes = [line.split() for line in listed.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in processes if not state.startswith("Z")}


def descendants(pid, parent_of):
    """Return the ids of a process's children, of their children, and so on."""
    children = {child for child, parent in parent_of.items() if parent == pid}
    return children.union(*(descendants(child, parent_of) for child in children))


def still_there(processes):
    """Return the processes, by their ids, that have not ended after 15 seconds; they are then killed."""
    deadline = time.monotonic() + 15
    while (left := processes & set(parents())) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with suppress(ProcessLookupError):  # a tracker ends by itself after the workers
            os.kill(pid, signal.SIGKILL)
    return left
