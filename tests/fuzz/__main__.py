"""Search for input that the package answers neither rightly nor by one clear error.

    python -m tests.fuzz --seconds 600            search, with a new seed that is printed
    python -m tests.fuzz --only text --seed 7     only one kind of cases, from a known seed
    python -m tests.fuzz --continue               go on where the last search ended
    python -m tests.fuzz --replay FILE ...        run the cases in files: what was found, or tests/fuzz/corpus
    python -m tests.fuzz.guided text              guided by coverage; needs atheris

The exit status is 1 if an outcome was bad. The smallest case of each finding is in build/fuzz.
"""

import argparse
import gc
import json
import pkgutil
import secrets
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from math import inf
from pathlib import Path

import evencover
from tests.fuzz import commands, table_files
from tests.fuzz.corpus import FOLDER, read_case, write_case
from tests.fuzz.kinds import KINDS
from tests.fuzz.outcomes import ERROR, RIGHT, Outcome
from tests.fuzz.samples import NAMES, sample
from tests.fuzz.search import Finding, Limits, Progress, searched
from tests.fuzz.workers import Worker

_SECONDS_BETWEEN_LINES = 10.0
_LIBRARIES = (
    "pyarrow.compute pyarrow.csv pyarrow.feather pyarrow.parquet openpyxl skops.io sklearn.ensemble quantile_forest"
)
_PROGRESS = "progress.json"


def main():
    """Run the command line."""
    arguments = _parser().parse_args()
    _import_everything()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, Worker(Path(folder)) as worker:
        if arguments.replay is not None:
            sys.exit(_replayed(worker, arguments.replay or [FOLDER]))
        progress = _progress(arguments)
        kinds = arguments.only or [name for name, kind in KINDS.items() if kind.share]
        _print(f"seed {progress.seed}; {', '.join(kinds)}; {arguments.seconds:g} s")
        try:
            lines = _Lines(arguments.output, arguments.seconds)
            searched(worker, progress, kinds, Limits(arguments.seconds, arguments.rounds), lines.show)
        finally:
            _write_progress(arguments.output, progress)
    _print(_table(progress))
    sys.exit(1 if progress.findings else 0)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to search (600)")
    parser.add_argument("--rounds", type=int, default=inf, help="of each kind, at most; by default as many as fit")
    parser.add_argument("--seed", type=int, help="of the generated cases; by default a new one")
    parser.add_argument("--only", nargs="+", choices=KINDS, metavar="KIND", help=f"kinds of cases: {', '.join(KINDS)}")
    parser.add_argument("--continue", action="store_true", dest="goes_on", help="go on where the last search ended")
    parser.add_argument("--output", type=Path, default=Path("build/fuzz"), help="folder for what is found (build/fuzz)")
    parser.add_argument("--replay", type=Path, nargs="*", metavar="FILE", help="run cases again; by default the corpus")
    return parser


def _import_everything():
    """Load what cases use before the first worker is forked, so that none of them needs to."""
    for module in pkgutil.walk_packages(evencover.__path__, "evencover."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in _LIBRARIES.split():
        import_module(name)
    for name in NAMES:
        sample(name)
    for name in table_files.SAMPLES:
        table_files.sample(name)
    commands.files()
    gc.freeze()


def _progress(arguments):
    """Return where to begin: with a seed, or where the last search ended."""
    path = arguments.output / _PROGRESS
    if arguments.goes_on and path.is_file():
        return _stored_progress(json.loads(path.read_text(encoding="utf-8")), arguments.output)
    for earlier in arguments.output.glob("*.json"):
        earlier.unlink()
    return Progress(secrets.randbelow(10**6) if arguments.seed is None else arguments.seed)


def _stored_progress(stored, folder):
    findings = []
    for path in sorted(folder.glob("*-*.json")):
        found = read_case(path)
        findings.append(Finding(found["kind"], found["case"], Outcome(**found["about"])))
    counts = Counter({(kind, name): number for kind, name, number in stored["counts"]})
    return Progress(stored["seed"], Counter(stored["rounds"]), Counter(stored["seconds"]), counts, findings)


def _write_progress(folder, progress):
    folder.mkdir(parents=True, exist_ok=True)
    counts = [[*key, number] for key, number in progress.counts.items()]
    stored = {"seed": progress.seed, "rounds": progress.rounds, "seconds": progress.seconds, "counts": counts}
    (folder / _PROGRESS).write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


class _Lines:
    """Lines about the search: now and then how far it is, and each finding at once, which is also written to a file."""

    def __init__(self, folder, seconds):
        self._folder, self._seconds = folder, seconds
        self._began = self._printed = time.monotonic()

    def show(self, progress, finding):
        if finding is not None:
            path = self._folder / f"{finding.kind}-{len(progress.findings):03}.json"
            write_case(path, finding.kind, finding.case, vars(finding.outcome))
            outcome = finding.outcome
            _print(f"{path}: {outcome.name} ({outcome.place}): {' '.join(outcome.text.split())[:300]}")
        if time.monotonic() - self._printed > _SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            cases = Counter()
            for (kind, _), number in progress.counts.items():
                cases[kind] += number
            counted = ", ".join(f"{kind} {number}" for kind, number in cases.items())
            seconds = self._printed - self._began
            _print(f"{seconds:.0f} of {self._seconds:g} s; cases: {counted}; findings: {len(progress.findings)}")


def _table(progress):
    """Return the outcomes of each kind as text."""
    header = ("kind", "cases", RIGHT + "s", ERROR + "s", "bad outcomes", "findings")
    rows = []
    for kind in filter(progress.rounds.__contains__, KINDS):
        counts = {name: number for (its, name), number in progress.counts.items() if its == kind}
        good = counts.pop(RIGHT, 0), counts.pop(ERROR, 0)
        findings = sum(each.kind == kind for each in progress.findings)
        rows.append((kind, sum(good) + sum(counts.values()), *good, sum(counts.values()), findings))
    widths = [max(len(str(row[place])) for row in (header, *rows)) for place in range(len(header))]
    lines = (
        "  ".join(str(cell).rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *rows)
    )
    return "\n".join(lines)


def _replayed(worker, paths):
    """Run the cases in files and folders, print a line of JSON for each, and return the exit status."""
    files = [file for path in paths for file in (sorted(path.rglob("*.json")) if path.is_dir() else [path])]
    bad = 0
    for file in files:
        if file.name != _PROGRESS:
            found = read_case(file)
            outcome = worker.outcome(found["kind"], found["case"])
            bad += outcome.is_bad
            _print(json.dumps({"file": str(file), "bad": outcome.is_bad, **vars(outcome)}))
    return 1 if bad else 0


def _print(text):
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
