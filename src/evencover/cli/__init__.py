"""The command line: thin commands around the library, each of which imports only the modules it needs."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from inspect import signature
from io import BufferedWriter, TextIOWrapper
from pathlib import Path
from threading import current_thread, main_thread
from typing import Annotated, Any, get_origin

from evencover._version import __version__
from evencover.cli.audit_command import audit
from evencover.cli.calibrate_command import calibrate
from evencover.cli.invocation import HYPHEN, HYPHEN_AS_PATH, USAGE_STATUS, UsageError, with_repeated_flags
from evencover.cli.paper_commands import benchmark, claims, datasets, figures, tables, verdicts
from evencover.cli.predict_command import predict
from evencover.cli.run_command import run
from evencover.cli.stop_signals import STOP_SIGNALS
from evencover.cli.terminal import error_text, plain_warnings, print_error
from evencover.files.unfinished import OutputFile
from evencover.inputs.optional import import_optional

_HELP = """Prediction intervals with the same coverage for rows with low and with high noise, and tests that check it.

A conformal predictor covers 90 % of the targets on average. If the noise differs between rows, it covers nearly all
rows with low noise and misses many rows with high noise, and the average does not show it. evencover finds such groups
and corrects the intervals.

**You have a table**, and want intervals for one of its columns:

    evencover run houses.csv --target price
    evencover predict evencover-houses new.csv --output intervals.csv

**You have intervals** from any model, and the observed targets:

    evencover audit predictions.csv --target price --lower low --upper high --group region

**You have predictions** of any model, in Parquet files of any size:

    evencover calibrate scored.parquet --target price --center predicted --spread sd --output cal.evencover
    evencover predict new.parquet --calibration cal.evencover --output intervals.parquet

**You have no data yet**: `evencover run` without a file uses an example table.

The exit status of `run` and `audit` is 3 if coverage is uneven or differs from the level, and 0 if not. With --strict,
it is 4 if there are too few rows to decide. Of every command, it is 2 if a command or an option is wrong, and 1 after
any other error. A pipeline can use it as a check. Every command has --json and --help."""
_REPRODUCE = "Reproduce the paper's tables and synthetic figures, and check its claims and the diagnostics."
_OPTION_GROUPS = {  # where --help shows the options of run, predict, audit and calibrate; all others are advanced
    "Data": (
        *("target", "lower", "upper", "center", "spread", "prediction", "features", "missing_target", "missing_values"),
        *("time", "clusters", "drop", "keep", "categorical", "day_first", "sheet", "separator", "encoding", "header"),
    ),
    "Model": ("model", "effort", "target_transform", "score", "side", "tails", "support"),
    "Groups": ("group", "groups", "unseen", "level", "tolerance"),
    "Output": ("output", "intervals", "exact_text", "json", "strict"),
}
_OTHERS = "Advanced"
_STDERR = 2  # the number of the standard error, the last standard stream
_EXAMPLES = {"--tolerance": 0.03, "--held-out": 0.2}  # of shares; otherwise a level


def app() -> Any:
    """Return the command line with its commands."""
    cyclopts = import_optional("cyclopts", extra="cli", purpose="the command line")

    def convert(kind: Any, tokens: Sequence[Any]) -> Any:
        """Convert a typed value; raise ValueError for an empty path and for a text that is not such a number."""
        values = tuple(HYPHEN if token.value == HYPHEN_AS_PATH else token.value for token in tokens)
        if get_origin(kind) is tuple:
            return values
        (typed,) = values
        if kind is Path and not typed:
            raise ValueError("must be a path; got an empty text")
        if kind is int and not typed.lstrip("+-").isdecimal():
            raise ValueError(f"must be a whole number; got {typed!r}")
        if kind is float and not _is_number(typed):
            example = _EXAMPLES.get(tokens[0].keyword, 0.9)
            raise ValueError(f"must be a number between 0 and 1, such as {example}; got {typed!r}")
        return typed if kind is str else cyclopts.convert(kind, tokens)

    defaults = cyclopts.Parameter(  # no --no-json next to --json, and no "default: False" in the help
        negative=(), converter=convert, show_default=lambda value: None if value in (None, False) else str(value)
    )
    main_commands, paper_commands, other_options = (
        cyclopts.Group(title, sort_key=order)
        for order, title in enumerate(("Intervals for your data", "Experiments of the paper", "Other options"))
    )
    top = cyclopts.App(
        name="evencover",
        help=_HELP,
        help_format="markdown",
        version=f"evencover {__version__}",
        default_parameter=defaults,
        group_commands=other_options,
    )
    reproduce = cyclopts.App(name="reproduce", help=_REPRODUCE, group=paper_commands)
    top.command(reproduce)
    groups = {
        title: cyclopts.Parameter(group=cyclopts.Group(title, sort_key=order))
        for order, title in enumerate((*_OPTION_GROUPS, _OTHERS))
    }
    commands: list[tuple[Any, Any, Any]] = [  # the parent, the group in the help, the function
        *((top, main_commands, _with_groups(each, groups)) for each in (run, predict, audit, calibrate)),
        *((top, paper_commands, command) for command in (benchmark, datasets)),
        *((reproduce, paper_commands, command) for command in (tables, figures, claims, verdicts)),
    ]
    for order, (parent, group, command) in enumerate(commands):
        parent.command(command, group=group, sort_key=order)
    top.register_install_completion_command(help="Install completion of commands and options on Tab in your shell.")
    return top


def _with_groups(command: Callable[..., Any], groups: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a command whose options have groups in the help, in the order of `_OPTION_GROUPS`."""
    titles = {name: title for title, names in _OPTION_GROUPS.items() for name in names}
    places = {name: place for place, name in enumerate(titles)}
    own = signature(command)
    files = [each for each in own.parameters.values() if each.kind is each.POSITIONAL_ONLY]
    options = [each for each in own.parameters.values() if each.kind is each.KEYWORD_ONLY]
    options.sort(key=lambda each: places.get(each.name, len(places)))
    kinds = {each.name: Annotated[each.annotation, groups[titles.get(each.name, _OTHERS)]] for each in options}
    grouped: Any = wraps(command)(lambda *arguments, **options: command(*arguments, **options))
    grouped.__annotations__ = {**command.__annotations__, **kinds}
    grouped.__signature__ = own.replace(parameters=[*files, *options])
    return grouped  # type: ignore[no-any-return]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status; an error is printed as one line, without a traceback.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``evencover``. By default those of the process, which then handles signals, too, and ends.
    """
    if arguments is None and current_thread() is main_thread():
        _prepare_streams()
        STOP_SIGNALS.run(partial(main, sys.argv[1:]))
    if sys.stdout is None:
        sys.exit("evencover: the standard output is closed; to discard it, use > /dev/null")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a character that the terminal lacks is not an error
    # More threads than free cores can be a hundred times slower. Scikit-learn reads this when it is imported.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))
    _keep_freed_memory()
    try:
        with plain_warnings():
            _run(arguments)
            sys.stdout.flush()  # here, an error has a status
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except UsageError as error:
        with suppress(OSError):  # nobody reads the errors
            print_error(str(error))
        sys.exit(USAGE_STATUS)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        sys.exit(error_text(error))


def _prepare_streams() -> None:
    """Let no output be lost or go astray if a standard stream is closed or full.

    The number of a closed one would be that of the next file, to which libraries would then write their messages, and
    Python prints errors to the standard output if there is no stream for errors.
    """
    while (free := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(free)
    sys.stdin = sys.stdin or Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is not None and not sys.stdout.isatty():
        output = BufferedWriter(OutputFile(sys.stdout.fileno(), "standard output"))
        sys.stdout = TextIOWrapper(output, encoding=sys.stdout.encoding)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _keep_freed_memory() -> None:
    """Let glibc, the C library of most Linux systems, keep up to 256 MB of freed memory for the next arrays.

    Gradient boosting allocates an array of a few megabytes at each split if there are hundreds of columns. By default
    glibc returns it to the system at once, which takes up to a third of the time of `evencover run`.
    """
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    from ctypes import CDLL

    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD in malloc.h
    with suppress(AttributeError, OSError):  # another C library
        set_option = CDLL(None).mallopt
        set_option(trim_threshold, 256 * 2**20)
        set_option(mmap_threshold, 32 * 2**20)


def _run(arguments: Sequence[str] | None) -> None:
    """Run the command line; raise `UsageError` for a wrong command or option."""
    command_line = app()
    words = with_repeated_flags(sys.argv[1:] if arguments is None else arguments, (run, predict, audit, calibrate))
    errors = import_optional("cyclopts", extra="cli", purpose="the command line").CycloptsError
    try:
        command_line(words, exit_on_error=False, print_error=False)
    except errors as error:
        raise UsageError(" ".join(str(error).split())) from error
