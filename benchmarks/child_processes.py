"""Child processes that end with the benchmark that started them."""

import ctypes
import signal
import sys


def end_with_parent() -> None:
    """On Linux, let the system end this process when its parent ends, also if that is killed; for ``preexec_fn``."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
