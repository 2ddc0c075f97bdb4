"""The command line: thin verbs around the library, each of which loads what it needs."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_origin

from evencover._version import __version__
from evencover.cli.benchmarking import benchmark, datasets
from evencover.cli.reproducing import claims, figures, tables, verdicts
from evencover.extras import imported

_HELP = """Conformal regression whose coverage is even across noise levels.

The verbs so far repeat, on this machine, the evidence of the paper behind the package, and compare models on
real data as it does: Dewolf et al., *Conditional validity of heteroskedastic conformal regression* (2023)."""
_REPRODUCE = "Compute the paper's tables, draw its synthetic figures, check its claims and the diagnostics."


def app() -> Any:
    """Return the command line with its verbs."""
    cyclopts = imported("cyclopts", extra="cli", purpose="the command line")

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

    plain = cyclopts.Parameter(negative=(), converter=strict)  # no --no-json beside --json
    top = cyclopts.App(name="evencover", help=_HELP, version=__version__, default_parameter=plain)
    reproduce = cyclopts.App(name="reproduce", help=_REPRODUCE)
    for evidence in (tables, figures, claims, verdicts):
        reproduce.command(evidence)
    for verb in (reproduce, benchmark, datasets):
        top.command(verb)
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
    try:
        app()(arguments)
    except BrokenPipeError:  # whoever read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        sys.exit(f"evencover: {error}")
