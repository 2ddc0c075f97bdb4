"""The command line: thin verbs around the library, each of which loads what it needs."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_origin

from evencover._cli.audit_command import audit
from evencover._cli.benchmark_command import benchmark, datasets
from evencover._cli.predict_command import predict
from evencover._cli.reproduce_commands import claims, figures, tables, verdicts
from evencover._cli.run_command import run
from evencover._cli.terminal import plain_warnings
from evencover._internal.optional import import_optional
from evencover._version import __version__

_HELP = """Prediction intervals that keep their promise for quiet and noisy rows alike, and a word on whether they do.

A conformal predictor covers 90 % of the targets on average. Where the noise differs from row to row, it covers nearly
all the quiet rows, misses many of the noisy ones, and nobody is told. This one tells.

**You have a table**, and want intervals for one of its columns:

    evencover run houses.csv --target price
    evencover predict evencover-houses new.csv --output intervals.csv

**You have intervals**, from whatever model, and what came out:

    evencover audit predictions.csv --target price --lower low --upper high --group region

**You have neither yet**: `evencover run` works on a table that comes with it.

`run` and `audit` leave with the status 0 if coverage is even, 3 if it is uneven or off the level, 4 if there are too
few rows to tell, and 1 if something went wrong; so they can guard a pipeline. Every verb has --json and --help."""
_REPRODUCE = "Compute the paper's tables, draw its synthetic figures, check its claims and the diagnostics."


def app() -> Any:
    """Return the command line with its verbs."""
    cyclopts = import_optional("cyclopts", extra="cli", purpose="the command line")

    def strict(kind: Any, tokens: Sequence[Any]) -> Any:
        """Convert what was typed; a whole number is not rounded, and a folder has a name."""
        if get_origin(kind) is tuple:
            return tuple(token.value for token in tokens)
        (typed,) = (token.value for token in tokens)
        if kind is Path and not typed:
            raise ValueError("a folder must have a name")
        if kind is int and not typed.lstrip("+-").isdecimal():
            raise ValueError(f"must be a whole number; got {typed!r}")
        return cyclopts.convert(kind, tokens)

    plain = cyclopts.Parameter(  # no --no-json beside --json, nor that it is off by default
        negative=(), converter=strict, show_default=lambda value: None if value in (None, False) else str(value)
    )
    main_job, evidence, besides = (
        cyclopts.Group(name, sort_key=place) for place, name in enumerate(("The main job", "The evidence", "Besides"))
    )
    top = cyclopts.App(
        name="evencover",
        help=_HELP,
        help_format="markdown",
        version=__version__,
        default_parameter=plain,
        group_commands=besides,
    )
    reproduce = cyclopts.App(name="reproduce", help=_REPRODUCE, group=evidence)
    top.command(reproduce)
    verbs: list[tuple[Any, Any, Any]] = [  # of whom, in which group of the help
        *((top, main_job, verb) for verb in (run, predict, audit)),
        *((top, evidence, verb) for verb in (benchmark, datasets)),
        *((reproduce, evidence, verb) for verb in (tables, figures, claims, verdicts)),
    ]
    for place, (owner, group, verb) in enumerate(verbs):
        owner.command(verb, group=group, sort_key=place)
    top.register_install_completion_command(help="Let the shell complete verbs and options on Tab.")
    return top


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status; an error is one line, not a traceback.

    Parameters
    ----------
    arguments : sequence of str, optional
        What was typed after ``evencover``; taken from the process by default.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a letter that the terminal lacks is no reason to stop
    # Threads that wait for a busy core can take a hundred times as long. Scikit-learn reads this when it is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))
    try:
        with plain_warnings():
            _run(arguments)
    except BrokenPipeError:  # whoever read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        sys.exit(f"evencover: {error}")


def _run(arguments: Sequence[str] | None) -> None:
    """Run the command line; what was typed wrong is an error like any other."""
    made = app()
    errors = import_optional("cyclopts", extra="cli", purpose="the command line").CycloptsError
    try:
        made(arguments, exit_on_error=False, print_error=False)
    except errors as error:
        sys.exit(f"evencover: {' '.join(str(error).split())}")
