"""The command line: thin verbs around the library."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evencover._version import __version__
from evencover.experiments import claims as papers_claims
from evencover.experiments import figures as papers_figures
from evencover.experiments import tables as papers_tables
from evencover.extras import imported

_HELP = """Conformal regression whose coverage is even across noise levels.

The verbs so far repeat, on this machine, the evidence of the paper behind the package: Dewolf, De Baets and
Waegeman, *Conditional validity of heteroskedastic conformal regression* (2023)."""
_REPRODUCE = "Compute the paper's tables, draw its synthetic figures, check its claims."


def tables(*, repeats: int = 0, seed: int = 0, json: bool = False) -> None:
    """Print both tables of coverages: as run, which is the paper's digit for digit, and as written.

    Parameters
    ----------
    repeats
        Also average over this many calibration sets; the paper has one.
    seed
        Seed of those.
    json
        Print data, unrounded, with the mean widths.
    """
    found = {"as run": papers_tables.as_run(), "as written": papers_tables.as_written()}
    if repeats:
        with _status() as tell:
            for name, as_written in (("as run", False), ("as written", True)):
                tell(f"drawing {repeats} calibration sets, {name}")
                rows = papers_tables.repeated(repeats, seed=seed, as_written=as_written)
                found[f"{name}, {repeats} calibration sets"] = rows
    if json:
        _print_json({name: [row.as_data() for row in rows] for name, rows in found.items()})
    else:
        _print(_tables_in_words(found))


def figures(*, output: Path, repeats: int = papers_figures.REPEATS) -> None:
    """Draw every synthetic figure of the paper, as PNG and SVG.

    Parameters
    ----------
    output
        The folder they go to; made if it is not there.
    repeats
        Repeats of the coverage figures; the paper has 10.
    """
    with _status() as tell:
        tell("drawing")
        for path in papers_figures.write_figures(output, repeats=repeats):
            _print(str(path))
            tell(f"drawing, after {path.name}")


def claims(*, repeats: int = papers_claims.REPEATS, seed: int = 0, json: bool = False) -> int:
    """Check the paper's eight claims on synthetic data, one line each.

    The exit status is 0 if all of them hold, 3 if one fails, 4 if one is merely not shown with so few repeats.

    Parameters
    ----------
    repeats
        Draws of 1000 calibration and 1000 test rows for each check. More make it sharper.
    seed
        Seed of the draws.
    json
        Print data: what was covered in each class.
    """
    checked = []
    with _status() as tell:
        for claim in papers_claims.claims(repeats=repeats, seed=seed, progress=tell):
            checked.append(claim)
            if not json:
                _print(str(claim))
    if json:
        _print_json({"repeats": repeats, "seed": seed, "claims": [asdict(claim) for claim in checked]})
    verdicts = {claim.verdict for claim in checked}
    return 3 if "fails" in verdicts else 4 if "not shown" in verdicts else 0


def app() -> Any:
    """Return the command line with its verbs."""
    cyclopts = imported("cyclopts", extra="cli", purpose="the command line")

    def strict(kind: Any, tokens: Sequence[Any]) -> Any:
        """Convert what was typed; a number of repeats is not rounded, and a folder has a name."""
        (typed,) = (token.value for token in tokens)
        if kind is Path and not typed:
            raise ValueError("a folder must have a name")
        if kind is int and not typed.lstrip("+-").isdecimal():
            raise ValueError(f"must be a whole number; got {typed!r}")
        return cyclopts.convert(kind, tokens)

    plain = cyclopts.Parameter(negative=(), converter=strict)  # no --no-json beside --json
    top = cyclopts.App(name="evencover", help=_HELP, version=__version__, default_parameter=plain)
    reproduce = cyclopts.App(name="reproduce", help=_REPRODUCE)
    for verb in (tables, figures, claims):
        reproduce.command(verb)
    top.command(reproduce)
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
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"evencover: {error}")


def _print(text: str) -> None:
    print(text, flush=True)


def _print_json(data: Any) -> None:
    _print(json.dumps(data, indent=2, ensure_ascii=False))


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows on a terminal, and only there, what is being done."""
    console = imported("rich.console", extra="cli", purpose="the command line").Console(stderr=True)
    with console.status("") as status:
        yield status.update


def _tables_in_words(found: dict[str, list[papers_tables.Row]]) -> str:
    """Return the tables as text."""
    lines = ["Coverage at level 0.9, by thirds of the estimated variance: mean ± standard deviation over 20 test sets"]
    lines[0] += ", or over the calibration sets where there are many." if len(found) > 2 else "."
    for name, rows in found.items():
        lines += ["", name, " " * 24 + "".join(f"{column:16}" for column in papers_tables.COLUMNS).rstrip()]
        for row in rows:
            cells = zip(row.coverage, row.deviation, strict=True)
            text = "".join(f"{mean:.3f} ± {deviation:.3f}   " for mean, deviation in cells)
            lines.append(f"{row.model:13}{row.score:11}{text}".rstrip())
    return "\n".join([*lines, "", papers_tables.WHY_THEY_DIFFER])
