"""Processes that others have started, whether they end, and signals to them."""

import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress

LIMIT = 120  # seconds to wait for what must happen; far more than it needs on a busy machine


def parents():
    """Return the parent's id of every process that has not ended, by its own id."""
    return {pid: parent for pid, parent, _ in _processes()}


def processes_of_group(group):
    """Return the processes of a process group that have not ended after a while; they are then killed."""
    return still_there({pid for pid, _, own_group in _processes() if own_group == group})


def _processes():
    """Return the ids of all processes that have not ended, of their parents and of their groups."""
    columns = ["-o", "pid=", "-o", "ppid=", "-o", "pgid=", "-o", "stat="]
    listed = subprocess.check_output(["ps", "-A", *columns], text=True)  # noqa: S607
    processes = [line.split() for line in listed.splitlines()]
    return [tuple(map(int, ids)) for *ids, state in processes if not state.startswith("Z")]


def descendants(pid, parent_of):
    """Return the ids of a process's children, of their children, and so on."""
    children = {child for child, parent in parent_of.items() if parent == pid}
    return children.union(*(descendants(child, parent_of) for child in children))


def still_there(processes):
    """Return the processes, by their ids, that have not ended after a while; they are then killed."""
    left = processes
    with suppress(TimeoutError):
        wait_until(lambda: not processes & set(parents()))
        left = set()
    for pid in left:
        with suppress(ProcessLookupError):  # a tracker ends by itself after the workers
            os.kill(pid, signal.SIGKILL)
    return left


def wait_until(condition):
    """Wait until a condition holds; raise TimeoutError if it does not come true."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


@contextmanager
def heard_signals():
    """Let the processes that are started here hear SIGINT, also if this process runs in the background of a shell."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
