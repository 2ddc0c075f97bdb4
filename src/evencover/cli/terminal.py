"""What verbs say: results on the standard output, progress beside it and on terminals only."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from evencover.extras import imported

_PURPOSE = "the command line"


def say(text: str) -> None:
    """Print a result at once."""
    print(text, flush=True)


def complain(text: str) -> None:
    """Print what went wrong, beside the results."""
    print(f"evencover: {text}", file=sys.stderr, flush=True)


def say_data(data: Any) -> None:
    """Print a result as JSON."""
    say(json.dumps(data, indent=2, ensure_ascii=False))


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Say each warning once, in a line, without the place in the code that it comes from."""
    with warnings.catch_warnings():
        said: set[str] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            if str(message) not in said:
                complain(str(message))
            said.add(str(message))

        warnings.showwarning = show
        yield


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows what is being done."""
    with _console().status("") as shown:
        yield shown.update


@contextmanager
def progress_bar(
    text: str, *, unit: str = "work", visible: bool = True
) -> Iterator[Callable[[float, float | None], None]]:
    """Yield a function of the work done, and all the work if that is known, that shows a bar with the time left.

    Parameters
    ----------
    text : str
        What is being done.
    unit : {"work", "bytes"}
        What is counted.
    visible : bool
        Whether the bar is there before the function is called.
    """
    rich = imported("rich.progress", extra="cli", purpose=_PURPOSE)
    counted = rich.DownloadColumn() if unit == "bytes" else rich.TaskProgressColumn()
    columns = (rich.TextColumn(text), rich.BarColumn(), counted, rich.TimeRemainingColumn())
    console = _console()
    with rich.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, visible=visible)

        def show(done: float, total: float | None) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        yield show


def _console() -> Any:
    return imported("rich.console", extra="cli", purpose=_PURPOSE).Console(stderr=True)
