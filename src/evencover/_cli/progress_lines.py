"""Progress as lines of text, for a standard error that is a pipe or a file and not a terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

_SECONDS_BETWEEN_LINES = 5.0  # a command that takes less time prints no progress
_INTERVALS_BETWEEN_REPEATS = 6  # of that many seconds each: a step that takes longer is printed again


class ProgressLines:
    """The current step of a command, printed now and then: each new step, and a long step again about every 30 s.

    Parameters
    ----------
    print_line : callable
        Prints one line.
    clock : callable
        Returns the time in seconds; a monotonic clock.
    """

    def __init__(self, print_line: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._print_line, self._clock = print_line, clock
        self._began = clock()
        self._step, self._detail = "", ""
        self._printed_step, self._intervals_since = "", 0

    def show(self, step: str, detail: str = "") -> None:
        """Set the current step, and a detail that changes during the step, such as a percentage."""
        self._step, self._detail = step, detail

    def print_if_due(self) -> None:
        """Print the current step if it is new, or if it was printed long ago; call this after each interval."""
        step, self._intervals_since = self._step, self._intervals_since + 1
        if step and (step != self._printed_step or self._intervals_since >= _INTERVALS_BETWEEN_REPEATS):
            self._printed_step, self._intervals_since = step, 0
            texts = (step, self._detail, duration_text(self._clock() - self._began))
            with suppress(OSError, ValueError):  # the reader of the lines is gone
                self._print_line(", ".join(filter(None, texts)))


@contextmanager
def progress_lines(print_line: Callable[[str], None]) -> Iterator[ProgressLines]:
    """Yield a `ProgressLines` that a thread prints every few seconds; the thread ends with the context."""
    lines, stop = ProgressLines(print_line), Event()

    def print_until_stopped() -> None:
        while not stop.wait(_SECONDS_BETWEEN_LINES):
            lines.print_if_due()

    thread = Thread(target=print_until_stopped, name="evencover progress", daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        stop.set()
        thread.join()


def duration_text(seconds: float) -> str:
    """Return a duration as text, such as 1 min 20 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
