"""What commands print: results to the standard output; errors, warnings and progress to the standard error."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from threading import Event, Thread
from typing import Any

from evencover.cli.stop_signals import STOP_SIGNALS
from evencover.display.lines import Step, json_text, shown
from evencover.inputs import AmountProgress, StageProgress
from evencover.inputs.optional import import_optional

_SECONDS_BETWEEN_LINES = 5.0  # a command that takes less time prints no progress
_INTERVALS_BETWEEN_REPEATS = 6  # of that many seconds each: a step that takes longer is printed again
_SECONDS_TO_SAY, _SHARE_TO_SAY = 8.0, 0.03  # a step that has just begun says nothing about its end
_NEW_WEIGHT = 0.3  # of the newest estimate of the time left: the steps of a computation take different times
_SECONDS_TO_ADVISE = 60.0
_FITTING_TIMES = {"fast": 1.0, "normal": 6.0, "best": 33.0}  # relative; see `docs/benchmarks.md`
_COSTS_OF_FAST = {  # the same, on average
    "normal": "intervals were 10 % wider, and their interval score was 8 % higher",
    "best": "the interval score, which adds misses to the width, was 12 % higher",
}


class TimeLeft:
    """The time left in the current step of a command, estimated from the work that is done.

    Parameters
    ----------
    clock : callable
        Returns the time in seconds; a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._step: Step | None = None
        self._step_began = self._first_share = 0.0
        self._end: float | None = None  # when the step will have ended
        self._has_advised = False

    def show(self, step: str) -> None:
        """Take the current step, which begins or goes on."""
        if not isinstance(step, Step):
            self._step, self._end = None, None
            return
        now = self._clock()
        if self._step is None or step.name != self._step.name:
            self._step_began, self._first_share, self._end = now, step.share, None
        elif step.share > self._step.share:
            self._estimate(step.share, now)
        self._step = step

    def _estimate(self, share: float, now: float) -> None:
        """Estimate the end of the step: a mean of the newest estimate and the earlier ones, so that it is steady."""
        elapsed, done = now - self._step_began, share - self._first_share
        if elapsed < _SECONDS_TO_SAY or done < _SHARE_TO_SAY:
            return
        end = now + elapsed * (1 - share) / done
        self._end = end if self._end is None else self._end + _NEW_WEIGHT * (end - self._end)

    @property
    def elapsed(self) -> float:
        """The time since the command began."""
        return self._clock() - self._began

    @property
    def seconds(self) -> float | None:
        """The time left in the step; None if it is not known yet, or if the step takes longer than was estimated."""
        end = self._end  # another thread may set it
        left = None if end is None else end - self._clock()
        return None if left is None or left <= 0 else left

    def text(self) -> str:
        """Return the time left, in words; empty if it is not known."""
        seconds = self.seconds
        return "" if seconds is None else f"{rounded_duration(seconds)} left in this step"

    def advice(self) -> str:
        """Return, once, what less effort costs: after a minute, during a fit that it would end sooner; else nothing."""
        step, left = self._step, self.seconds
        if self._has_advised or step is None or left is None or step.effort not in _COSTS_OF_FAST:
            return ""
        relative = _FITTING_TIMES["fast"] / _FITTING_TIMES[step.effort]
        fast = relative * (self._clock() - self._step_began + left)
        if fast >= left or self.elapsed < _SECONDS_TO_ADVISE:
            return ""
        self._has_advised = True
        share = f"{relative:.0%}".replace("%", " %")
        return (
            f"with --effort fast, this step takes about {share} of its time, here {rounded_duration(fast)}; on 11 data "
            f"sets, {_COSTS_OF_FAST[step.effort]}"
        )


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
        self._print_line = print_line
        self._left = TimeLeft(clock)
        self._step, self._detail = "", ""
        self._printed_step, self._intervals_since = ("", False), 0

    def show(self, step: str, detail: str = "") -> None:
        """Set the current step, and a detail that changes during the step, such as a percentage."""
        self._left.show(step)
        self._step, self._detail = step, detail

    def print_if_due(self) -> None:
        """Print the current step if it, or its end, is new, or after a long time; call this after each interval."""
        step, self._intervals_since = self._step, self._intervals_since + 1
        left = self._left.text()
        shown_step = step.name if isinstance(step, Step) else step, bool(left)
        if step and (shown_step != self._printed_step or self._intervals_since >= _INTERVALS_BETWEEN_REPEATS):
            self._printed_step, self._intervals_since = shown_step, 0
            texts = step, self._detail, left, duration_text(self._left.elapsed)
            self._print(", ".join(filter(None, texts)))
        if advice := self._left.advice():
            self._print(advice)

    def _print(self, line: str) -> None:
        with suppress(OSError, ValueError):  # the reader of the lines is gone
            self._print_line(line)


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


def rounded_duration(seconds: float) -> str:
    """Return an estimated duration as text, such as about 40 s or about 5 min: with one or two digits."""
    if seconds < 10:
        return "less than 10 s"
    if seconds < 55:
        return f"about {10 * ceil(seconds / 10)} s" if seconds > 20 else f"about {5 * ceil(seconds / 5)} s"
    minutes = ceil(seconds / 60)
    return f"about {minutes if minutes < 10 else 5 * ceil(minutes / 5)} min"


def duration_text(seconds: float) -> str:
    """Return a duration as text, such as 1 min 20 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


_PURPOSE = "the command line"


def print_result(text: str) -> None:
    """Print a result to the standard output, at once: one line, unless it is `Lines`."""
    print(shown(text), flush=True)


def print_error(text: str) -> None:
    """Print an error or a warning to the standard error."""
    print(error_text(text), file=sys.stderr, flush=True)


def error_text(message: Exception | str) -> str:
    """Return what is printed of an error or a warning."""
    return f"evencover: {shown(message_text(message))}"


def print_json(data: Any) -> None:
    """Print a result as JSON."""
    print_result(json_text(data, indent=2))


def message_text(message: Exception | str) -> str:
    """Return the text of an error or a warning; settings are named as options of the command line."""
    return message.for_command_line() if hasattr(message, "for_command_line") else str(message)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print each different warning once, in one line, without its position in the code."""
    with warnings.catch_warnings():
        printed: set[str] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            text = message_text(message)
            if text not in printed and not STOP_SIGNALS.received:  # otherwise it may be a consequence of the signal
                print_error(text)
            printed.add(text)

        warnings.showwarning = show
        yield


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Yield a list that gets the text of each warning, which is shown as usual."""
    texts: list[str] = []
    with warnings.catch_warnings():
        show = warnings.showwarning
        warnings.simplefilter("always")

        def record(message: Warning | str, *details: Any, **options: Any) -> None:
            texts.append(message_text(message))
            show(message, *details, **options)

        warnings.showwarning = record
        yield texts


@contextmanager
def status(clock: Callable[[], float] = time.monotonic) -> Iterator[StageProgress]:
    """Yield a function that shows the current step: next to a spinner, or as lines if there is no terminal."""
    console = _console()
    if console.is_terminal:
        as_it_is = import_optional("rich.text", extra="cli", purpose=_PURPOSE).Text  # brackets are no markup
        left = TimeLeft(clock)
        with console.status("") as spinner:

            def show(step: str) -> None:
                left.show(step)
                spinner.update(as_it_is(shown(", ".join(filter(None, (step, left.text()))))))
                if advice := left.advice():
                    console.print(as_it_is(error_text(advice)))

            yield show
    else:
        with progress_lines(print_error) as lines:
            yield lines.show


@contextmanager
def progress_bar(text: str, *, unit: str = "work", visible: bool = True) -> Iterator[AmountProgress]:
    """Yield a function of the work done and the total work (None if unknown) that updates a progress bar.

    Without a terminal, a line now and then shows the work done.

    Parameters
    ----------
    text : str
        The text next to the bar.
    unit : {"work", "bytes"}
        The unit of the work.
    visible : bool
        Whether the bar is visible before the first update.
    """
    console = _console()
    if not console.is_terminal:
        with progress_lines(print_error) as lines:
            lines.show(text if visible else "")
            yield lambda done, total: lines.show(text, _work_text(done, total, unit))
        return
    rich = import_optional("rich.progress", extra="cli", purpose=_PURPOSE)
    counter = rich.DownloadColumn() if unit == "bytes" else rich.TaskProgressColumn()
    label = rich.TextColumn("{task.description}", markup=False)
    columns = (label, rich.BarColumn(), counter, rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(shown(text), total=None, visible=visible)

        def update(done: float, total: float | None) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        yield update


def _work_text(done: float, total: float | None, unit: str) -> str:
    """Return the work done as text: a percentage if the total is known, else megabytes, else nothing."""
    if total:
        return f"{done / total:.0%}".replace("%", " %")
    return f"{done / 1e6:.1f} MB" if unit == "bytes" else ""


def _console() -> Any:
    return import_optional("rich.console", extra="cli", purpose=_PURPOSE).Console(stderr=True)
