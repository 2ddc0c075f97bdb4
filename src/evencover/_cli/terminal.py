"""What commands print: results on the standard output, progress and errors on the standard error."""

import json
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from evencover._internal.optional import import_optional

_PURPOSE = "the command line"


def print_result(text: str) -> None:
    """Print a result at once."""
    print(text, flush=True)


def print_error(text: str) -> None:
    """Print what went wrong, beside the results."""
    print(f"evencover: {text}", file=sys.stderr, flush=True)


def print_json(data: Any) -> None:
    """Print a result as JSON."""
    print_result(json.dumps(data, indent=2, ensure_ascii=False))


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Say each warning once, in a line, without the place in the code that it comes from."""
    with warnings.catch_warnings():
        said: set[str] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            if str(message) not in said:
                print_error(str(message))
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
    rich = import_optional("rich.progress", extra="cli", purpose=_PURPOSE)
    counted = rich.DownloadColumn() if unit == "bytes" else rich.TaskProgressColumn()
    columns = (rich.TextColumn(text), rich.BarColumn(), counted, rich.TimeRemainingColumn())
    console = _console()
    with rich.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, visible=visible)

        def show(done: float, total: float | None) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        yield show


def _console() -> Any:
    return import_optional("rich.console", extra="cli", purpose=_PURPOSE).Console(stderr=True)


if TYPE_CHECKING:
    from evencover.diagnostics._verdict import Verdict
    from evencover.groups import Groups

STATUS: "dict[Verdict, int]" = {"even": 0, "uneven": 3, "undecided": 4}


def command_text(verb: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Return the command that calls a verb with these arguments, without what is so by default."""
    words = ["evencover", verb.__name__]
    for name, parameter in signature(verb).parameters.items():
        value = given[name]
        if value == parameter.default:
            continue
        flag = f"--{name.replace('_', '-')}"
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            words.append(str(value))
        elif value is True:
            words.append(flag)
        else:
            words += [word for each in (value if isinstance(value, tuple) else [value]) for word in (flag, str(each))]
    return shlex.join(words)


def labels_in(table: Any, name: str, role: str) -> "Groups":
    """Return the groups of a column's values, each row in one."""
    from evencover._internal.frames import column
    from evencover.groups import Groups

    return Groups.from_labels(column(table, name, role), name=f"{role}: column {name!r}")
