"""What commands print: results to the standard output; errors, warnings and progress to the standard error."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from evencover._internal.optional import import_optional

_PURPOSE = "the command line"


def print_result(text: str) -> None:
    """Print a result to the standard output, at once."""
    print(text, flush=True)


def print_error(text: str) -> None:
    """Print an error or a warning to the standard error."""
    print(f"evencover: {text}", file=sys.stderr, flush=True)


def print_json(data: Any) -> None:
    """Print a result as JSON."""
    print_result(json.dumps(data, indent=2, ensure_ascii=False))


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print each different warning once, in one line, without its position in the code."""
    with warnings.catch_warnings():
        printed: set[str] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            if str(message) not in printed:
                print_error(str(message))
            printed.add(str(message))

        warnings.showwarning = show
        yield


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step."""
    with _console().status("") as shown:
        yield shown.update


@contextmanager
def progress_bar(
    text: str, *, unit: str = "work", visible: bool = True
) -> Iterator[Callable[[float, float | None], None]]:
    """Yield a function of the work done and the total work (None if unknown) that updates a progress bar.

    Parameters
    ----------
    text : str
        The text next to the bar.
    unit : {"work", "bytes"}
        The unit of the work.
    visible : bool
        Whether the bar is visible before the first update.
    """
    rich = import_optional("rich.progress", extra="cli", purpose=_PURPOSE)
    counter = rich.DownloadColumn() if unit == "bytes" else rich.TaskProgressColumn()
    columns = (rich.TextColumn(text), rich.BarColumn(), counter, rich.TimeRemainingColumn())
    console = _console()
    with rich.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, visible=visible)

        def show(done: float, total: float | None) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        yield show


def _console() -> Any:
    return import_optional("rich.console", extra="cli", purpose=_PURPOSE).Console(stderr=True)
