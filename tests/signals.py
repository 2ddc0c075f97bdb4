"""Signals at random moments of the commands: `python -m tests.signals --signals 1000` sends them and counts.

Every process notes when the first line of evencover runs, when it has its handlers of signals, and when it exits, by a
clock that all processes share. A signal counts if it was sent between the last two: then the exit status must be 130 or
143, and nothing may be left behind. Before, Python itself ends by the signal, and after the exit there is nobody to
receive it. Such signals are counted apart: before the first line, early (half a millisecond, in which the package and
its `__main__` are loaded), and after the exit. They leave nothing behind, either. If it cannot be known on which
side of a border a signal was, both answers are right.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd

from tests.processes import LIMIT, heard_signals, processes_of_group, wait_until

DRIVER = """
import _signal, os, sys, time
handle, exit, marks = _signal.signal, os._exit, os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def mark(name):
    os.write(marks, f"{name} {time.monotonic_ns()}\\n".encode())

def note_the_first_line(event, arguments, noted=[]):
    if event == "exec" and not noted and "evencover" in getattr(arguments[0], "co_filename", ""):
        noted.append(event)
        mark("first")

def marked_handle(number, handler):
    handle(number, handler)
    if number == _signal.SIGTERM:
        mark("handled")

def marked_exit(status):
    mark("last")
    exit(status)

sys.addaudithook(note_the_first_line)
_signal.signal, os._exit = marked_handle, marked_exit
from evencover.__main__ import main
main()
"""
ANY_MOMENT = ("run", "predict", "predict-files", "calibrate", "audit")


@dataclass(frozen=True)
class Job:
    """A command, the files that it needs, how long it takes, its exit status, and the files that it writes."""

    words: tuple[str, ...]
    inputs: tuple[Path, ...]
    seconds: float = 0.0
    status: int = 0
    outputs: frozenset = frozenset()


@dataclass(frozen=True)
class Outcome:
    """What followed from a signal: when it was sent, the status of the process, and what is wrong, if anything."""

    job: str
    number: int
    moment: str
    status: int
    problems: tuple[str, ...]


def prepared_jobs(folder):
    """Return the commands by name, after one run of each without a signal."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 300))
    table = pd.DataFrame({"a": a, "b": b, "y": a + np.exp(b / 2) * rng.normal(size=300)})
    table.to_csv(folder / "table.csv", index=False)
    scored = pd.DataFrame({"y": table.y, "center": a, "spread": np.exp(b / 2), "lower": a - 2, "upper": a + 2})
    scored.to_csv(folder / "scored.csv", index=False)
    (folder / "parts").mkdir()
    for part in range(4):
        scored.to_parquet(folder / "parts" / f"{part}.parquet")
    table_file, parts, scored_file = (folder / name for name in ("table.csv", "parts", "scored.csv"))
    columns = ("--target", "y", "--center", "center", "--spread", "spread")
    run = measured(
        folder, ("run", "table.csv", "--target", "y", "--model", "linear", "--output", "new/out"), table_file
    )
    shutil.copytree(folder / "natural" / "new" / "out", folder / "study")
    calibrate = measured(folder, ("calibrate", "parts", *columns, "--output", "cal.evencover"), parts)
    shutil.copy(folder / "natural" / "cal.evencover", folder / "cal.evencover")
    predict = ("predict", "study", "table.csv", "--output", "new.csv")
    files = ("predict", "parts", "--calibration", "cal.evencover", "--output", "new/folder")
    audit = ("audit", "scored.csv", "--target", "y", "--lower", "lower", "--upper", "upper", "--output", "audit")
    return {
        "run": run,
        "predict": measured(folder, predict, folder / "study", table_file),
        "predict-files": measured(folder, files, parts, folder / "cal.evencover"),
        "calibrate": calibrate,
        "audit": measured(folder, audit, scored_file),
    }


def measured(folder, words, *inputs):
    """Return a job with the time that it takes, its status and its outputs; they stay in the folder `natural`."""
    work = folder / "natural"
    shutil.rmtree(work, ignore_errors=True)
    before = copied(inputs, work)
    start = time.monotonic()
    done = started(words, work)
    done.communicate(timeout=LIMIT)
    return Job(words, inputs, time.monotonic() - start, done.returncode, contents(work) - before)


def copied(inputs, work):
    """Copy the inputs to a new folder, and return what it then holds."""
    work.mkdir()
    (work / "temporary").mkdir()
    for path in inputs:
        (shutil.copytree if path.is_dir() else shutil.copy)(path, work / path.name)
    return contents(work)


def started(words, work, *, python=(sys.executable, "-m", "evencover"), **settings):
    """Start a command in a folder, in a process group of its own."""
    environment = {**os.environ, "TMPDIR": str(work / "temporary"), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    return subprocess.Popen(
        [*python, *map(str, words)], cwd=work, env=environment, start_new_session=True, **{**pipes, **settings}
    )


def contents(folder):
    """Return the files and folders in a folder with their contents, except those that differ from run to run."""
    return frozenset(
        (str(path.relative_to(folder)), "" if path.is_dir() else _digest(path)) for path in folder.rglob("*")
    )


def _digest(path):
    """Return a checksum; of an archive, those of its members, except objects, which hold addresses in memory."""
    if path.suffix != ".evencover":
        return sha256(path.read_bytes()).hexdigest()
    with ZipFile(path) as members:
        return str([(each.filename, each.CRC * (each.filename != "objects.skops")) for each in members.infolist()])


def outcome(name, job, folder, random_numbers):
    """Send a signal, sometimes two, to a new process at a random moment, and return what follows from it."""
    number = random_numbers.choice([signal.SIGINT, signal.SIGTERM])
    work, marks = folder / "work", folder / "marks"
    before = copied(job.inputs, work)
    process = started(job.words, work, python=(sys.executable, "-c", DRIVER, str(marks)))
    _wait(process, job, work, random_numbers)
    sent = _sent(process, number)
    if random_numbers.random() < 0.2:
        with suppress(subprocess.TimeoutExpired):
            process.wait(random_numbers.uniform(0, 0.1))
        _sent(process, number)
    _, errors = process.communicate(timeout=LIMIT)
    moment = _moment(sent, marks)
    problems = [*_status_problems(process.returncode, number, moment, job.status), *_error_problems(errors, moment)]
    new = contents(work) - before
    if new and new != job.outputs:
        problems.append(f"left behind: {sorted(path for path, _ in new)}")
    if moment == "after" and new != job.outputs:
        problems.append("no output")
    if left := processes_of_group(process.pid):
        problems.append(f"processes: {left}")
    return Outcome(name, number, moment, process.returncode, tuple(problems))


def _wait(process, job, work, random_numbers):
    """Wait until a random moment: any, or soon after the start, or soon after the first output."""
    kind, seconds = random_numbers.random(), random_numbers.uniform(0, 0.15)
    if kind < 0.7:
        seconds = random_numbers.uniform(0, 1.1) * job.seconds
    elif kind < 0.85:
        wait_until(lambda: process.poll() is not None or any((work / path).exists() for path, _ in job.outputs))
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _sent(process, number):
    """Send a signal, and return the times before and after."""
    before = time.monotonic_ns()
    process.send_signal(number)
    return before, time.monotonic_ns()


def _moment(sent, marks):
    """Return when a signal was sent: "before" the first line, "early", "during" the command, "after" it, or "edge"."""
    lines = marks.read_text().splitlines() if marks.exists() else []
    times = dict(line.split() for line in reversed(lines))  # of several marks with a name, the first
    borders = [0, *(int(times.get(name, sys.maxsize)) for name in ("first", "handled", "last")), sys.maxsize]
    before, after = sent
    periods = zip(("before", "early", "during", "after"), pairwise(borders), strict=True)
    return next((name for name, (start, end) in periods if start < before and after < end), "edge")


def _status_problems(status, number, moment, natural):
    allowed = {
        "before": (-number, 1),  # 1: if Python cannot import its own modules
        "early": (-number, 128 + number),
        "during": (128 + number,),
        "after": (natural,),
        "edge": (-number, 128 + number, 1, natural),
    }
    if status not in allowed[moment]:
        yield f"status {status}"


def _error_problems(errors, moment):
    """Python may print a traceback before our first line."""
    lines = [line for line in errors.splitlines() if line.strip()]
    if moment == "during" and (len(lines) > 1 or "Traceback" in errors):
        yield f"printed: {errors}"


def send_signals(n, *, seed=0, workers=2, report=print):
    """Send n signals during the commands, and others before and after; return all outcomes."""
    outcomes = []
    with tempfile.TemporaryDirectory() as temporary, heard_signals(), ThreadPoolExecutor(workers) as pool:
        jobs = prepared_jobs(Path(temporary))
        assert all(job.outputs for job in jobs.values())
        report({name: (round(job.seconds, 1), job.status, len(job.outputs)) for name, job in jobs.items()})

        def one(position):
            folder = Path(temporary) / str(position)
            folder.mkdir()
            name = ANY_MOMENT[position % len(ANY_MOMENT)]
            found = outcome(name, jobs[name], folder, random.Random(f"{seed} {position}"))  # noqa: S311
            shutil.rmtree(folder)
            return found

        position = 0
        while (missing := n - sum(each.moment == "during" for each in outcomes)) > 0:
            for found in pool.map(one, range(position, position + missing)):
                outcomes.append(found)
                if found.problems:
                    report(found)
                if len(outcomes) % 100 == 0:
                    report(f"{len(outcomes)} signals")
            position += missing
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    def report(text):
        print(text, flush=True)  # noqa: T201

    outcomes = send_signals(options.signals, seed=options.seed, workers=options.workers, report=report)
    counts = Counter((each.moment, each.job, signal.Signals(each.number).name, each.status) for each in outcomes)
    for (moment, job, name, status), count in sorted(counts.items()):
        report(f"{moment:7} {job:14} {name:8} status {status:4} {count:5}")
    failures = [each for each in outcomes if each.problems]
    report(f"{len(outcomes)} signals, {len(failures)} with problems")
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
