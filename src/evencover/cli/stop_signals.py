"""SIGINT (Ctrl-C) and SIGTERM (`kill`, `timeout`) end a command with status 130 or 143, and nothing is left behind.

The exception of a signal handler need not arrive where it is expected. Python ignores it in destructors and in
callbacks of weak references, libraries catch it or turn it into another error, and compiled code delays it. So it is
only the first attempt, which lets commands and libraries clean up. The signal itself is recorded: the exit status
follows from it, however the command ends. If the process still exists after a grace period, a thread removes the
unfinished files and ends it.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from evencover.files.unfinished import is_moving_into_place, remove_unfinished

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE = 3.0  # seconds in which a command may end by itself after a signal
_SHOW_CURSOR = b"\x1b[?25h"  # a spinner hides it


class StopSignals:
    """What happens to a process that runs one command, when it receives signals.

    Attributes
    ----------
    received : int
        The number of the first signal that is to end the process; 0 before.
    """

    def __init__(self) -> None:
        self.received = 0
        self._status = 1
        self._may_raise = False

    def run(self, command: Callable[[], object]) -> NoReturn:
        """Run the command of this process, whose main thread calls this, and exit with its status.

        Signals are handled until the process ends. Exit functions that were registered before this call are not called,
        because `_exit` is the last one.
        """
        self._prepare()
        try:
            try:
                self._raise_on_signals()
                command()
                self._status = 0
            finally:  # an interrupt in here, which would be the only one, is caught below
                self._may_raise = False
        except BaseException as error:
            self._status = _exit_status(error)
            if not self.received:
                raise
        sys.exit(self._status)  # a number; if there was a signal, the number that counts is that of `_exit`

    def _prepare(self) -> None:
        """Start the thread that waits for signals; a signal reaches it even if the main thread runs compiled code."""
        read_end, self._write_end = os.pipe()
        if sys.platform != "win32":
            os.set_blocking(self._write_end, False)
            os.register_at_fork(after_in_child=_default_signals)
        atexit.register(self._exit)
        threading.Thread(target=self._watch, args=(read_end,), name="evencover signals", daemon=True).start()
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        sys.unraisablehook = self._unless_received(sys.unraisablehook)
        threading.excepthook = self._unless_received(threading.excepthook)

    def _raise_on_signals(self) -> None:
        """Raise KeyboardInterrupt at the first signal from now on; a signal that the parent has ignored stays so."""
        self._may_raise = True
        for number in _STOP_SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)

    def _handle(self, number: int, _: Any) -> None:
        """Record a signal, and raise KeyboardInterrupt at most once; later signals do not disturb the clean-up."""
        self.received = self.received or number
        with suppress(OSError):
            os.write(self._write_end, bytes([number]))  # again, because a library may have taken the wakeup away
        if self._may_raise and not is_moving_into_place():
            self._may_raise = False
            raise KeyboardInterrupt

    def _watch(self, read_end: int) -> None:
        """Wait for a signal, give the command time to end, and end the process if it has not."""
        number = 0
        while number not in _STOP_SIGNALS:
            number = os.read(read_end, 1)[0]
        self.received = self.received or number
        time.sleep(_GRACE)
        try:
            _end_children()
            if sys.stderr is not None and sys.stderr.isatty():
                os.write(sys.stderr.fileno(), _SHOW_CURSOR)
        finally:
            self._exit()

    def _exit(self) -> None:
        """Exit with the status. As an exit function it was registered first, so it is called last.

        The rest of Python's own end would only free memory, and a signal could end it without a status.
        """
        if threading.current_thread() is threading.main_thread():
            for stream in (sys.stdout, sys.stderr):
                with suppress(AttributeError, OSError, ValueError):  # no stream, no reader, or closed
                    stream.flush()
        if self.received:
            remove_unfinished()
        os._exit(128 + self.received if self.received else self._status)

    def _unless_received(self, hook: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return a hook that prints no errors after a signal, because they are its consequences."""
        return lambda error: None if self.received else hook(error)


STOP_SIGNALS = StopSignals()


def _exit_status(error: BaseException) -> int:
    """Return the status with which Python exits because of an error."""
    code = error.code if isinstance(error, SystemExit) else 1
    return code if isinstance(code, int) else int(code is not None)


def _default_signals() -> None:
    """Handle signals as Python does by default, in a process that was forked from this one; ignored ones stay so."""
    signal.set_wakeup_fd(-1)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) != signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_children() -> None:
    """End the worker processes that this process has started."""
    if "multiprocessing" in sys.modules:
        from multiprocessing import active_children

        for child in active_children():
            child.kill()
