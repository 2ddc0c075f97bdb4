"""Faults around the commands: `python -m tests.faults` kills them, fills their disk, changes their input, and counts.

After a fault, an output is the earlier one, the new one or absent, never a mixture or a part of it. The same command
then succeeds, with the same output as ever, and removes what the killed one has left. Whatever is no such outcome
is printed, and the exit status is 1. The table that is printed at the end is the one in `docs/faults.md`.

Signals that a command can handle are in `tests/signals.py`.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pandas as pd

from tests.processes import LIMIT, processes_of_group, wait_until
from tests.signals import Job, contents, copied, measured, prepared_jobs, started

WITH_OUTPUT = ("run", "predict", "predict-files", "calibrate", "audit")
KILLED = ("run", "predict", "calibrate", "benchmark")
NOBODY = 65534  # an ordinary user without files of his own


@dataclass(frozen=True)
class FaultJob:
    """A command; the output of an earlier run with another level, in a folder; and what the user calls its output."""

    job: Job
    earlier: Path | None
    earlier_outputs: frozenset
    named: str


@dataclass(frozen=True)
class Outcome:
    """What was tried, with which command, what came out, and what is wrong with it, if anything."""

    fault: str
    command: str
    result: str
    problems: tuple[str, ...] = ()


def prepared_faults(folder):
    """Return the commands by name, each with the output of an earlier run."""
    jobs = prepared_jobs(folder)
    benchmark = ("benchmark", "table.csv", "--target", "y", "--models", "MV", "--epochs", "1", "--splits", "2")
    jobs["benchmark"] = measured(folder, (*benchmark, "--output", "bench"), folder / "table.csv")
    named = {"run": "new/out", "predict": "new.csv", "predict-files": "new/folder", "calibrate": "cal.evencover"}
    found = {}
    for name, job in jobs.items():
        earlier = None
        if name not in ("benchmark", "predict-files"):  # which continues; which takes a new folder only
            earlier = folder / f"earlier-{name}"
            old = measured(folder, (*job.words, "--level", "0.8"), *job.inputs)
            _copy_outputs(folder / "natural", earlier, old.outputs)
        outputs = frozenset() if earlier is None else contents(earlier)
        found[name] = FaultJob(job, earlier, outputs, named.get(name, {"benchmark": "bench"}.get(name, name)))
    return found


def _copy_outputs(work, target, outputs):
    """Copy files that a command has written, by their paths."""
    for path, digest in outputs:
        if digest:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(work / path, target / path)


def _files(found):
    """Return the files among the contents of a folder, except temporary ones."""
    return {(path, digest) for path, digest in found if digest and ".evencover-" not in path}


class Place:
    """A new folder with the inputs of a command, and sometimes with the output of an earlier run."""

    def __init__(self, fault, name, prepared, folder, numbers):
        self.fault, self.name, self.prepared, self.work = fault, name, prepared[name], folder / "work"
        self.before = copied(self.prepared.job.inputs, self.work)
        self.has_earlier = self.prepared.earlier is not None and numbers.random() < 0.5
        if self.has_earlier:
            shutil.copytree(self.prepared.earlier, self.work, dirs_exist_ok=True)

    @property
    def job(self):
        return self.prepared.job

    @property
    def output(self):
        return self.work / self.prepared.named

    def start(self, **settings):
        return started(self.job.words, self.work, **settings)

    def state(self):
        """Return what the output is now, and what is wrong with it."""
        files = _files(contents(self.work) - self.before)
        known = {"new output": _files(self.job.outputs), "no output": set()}
        if self.has_earlier:
            known["earlier output"] = _files(self.prepared.earlier_outputs)
        for state, expected in known.items():
            if files == expected:
                return state, []
        if self.name == "benchmark":
            return "unfinished results", []
        return "bad output", [f"files: {sorted(path for path, _ in files)}"]

    def problems_of_left(self):
        """Return what is wrong if temporary files are left."""
        left = [path for path, _ in contents(self.work) - self.before if ".evencover-" in path]
        return [f"left behind: {left}"] if left else []

    def problems_of_next(self):
        """Run the command once more, and return what is wrong then."""
        process = self.start()
        _, errors = process.communicate(timeout=LIMIT)
        problems = [] if process.returncode == self.job.status else [f"next run: {process.returncode}: {errors}"]
        files = _files(contents(self.work) - self.before)
        if files != _files(self.job.outputs):
            problems.append(f"next output: {sorted(path for path, _ in files ^ _files(self.job.outputs))}")
        return [*problems, *self.problems_of_left()]

    def problems_of_error(self, process, errors, name):
        """Return what is wrong with how a command has failed: the status, or the one line that names what failed."""
        lines = errors.splitlines()
        if process.returncode != 1:
            yield f"status {process.returncode}: {errors}"
        elif "Traceback" in errors or not lines or not lines[-1].startswith("evencover: ") or name not in lines[-1]:
            yield f"error: {errors}"


def killed(name, prepared, folder, numbers):
    """Kill a command at a random moment, often while it writes, and run it again."""
    place = Place("killed", name, prepared, folder, numbers)
    process = place.start()
    if numbers.random() < 0.5:
        moment = numbers.uniform(0, 1.05) * place.job.seconds
    else:
        moment = numbers.uniform(0, 0.1)
        wait_until(lambda: process.poll() is not None or any(place.work.rglob(".evencover-*")))
    with suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    process.kill()
    process.wait()
    workers = processes_of_group(process.pid)  # which hold its pipes
    process.communicate(timeout=LIMIT)
    had_left = bool(place.problems_of_left())
    state, problems = place.state()
    problems += place.problems_of_next()
    if workers:
        problems.append(f"worker processes did not end: {workers}")
    return Outcome(place.fault, name, f"{state}{', with leftovers' * had_left}", tuple(problems))


def limited(name, prepared, folder, numbers):
    """Limit the size of files, so that writing fails after as many bytes."""
    import resource

    place = Place("file too large", name, prepared, folder, numbers)
    largest = max((path.stat().st_size for path in _outputs_of(prepared, name)), default=1)
    limit = numbers.randrange(largest)
    process = place.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    return _failed(place, process)


def _outputs_of(prepared, name):
    """Return the files of an earlier output, which are about as large as those of the new one."""
    return [path for path in (prepared[name].earlier or Path(os.devnull)).rglob("*") if path.is_file()]


def _failed(place, process, *, name=None, states=("earlier output", "no output", "unfinished results")):
    """Return the outcome of a command that cannot write; the same command then succeeds."""
    _, errors = process.communicate(timeout=LIMIT)
    state, problems = place.state()
    problems += place.problems_of_error(process, errors or "", name or place.prepared.named)
    if state not in states:
        problems.append(state)
    problems += place.problems_of_left()
    return Outcome(place.fault, place.name, f"error, {state}", tuple(problems))


def full_disk(name, prepared, folder, numbers):
    """Let the command write to a small file system in memory, which gets full at a random moment."""
    small = folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)], check=True)  # noqa: S607
    try:
        place = Place("disk full", name, prepared, small, numbers)
        sizes = [path.stat().st_size for path in _outputs_of(prepared, name)]
        free = numbers.randrange(max(1, sum(sizes)))
        with (small / "ballast").open("wb") as ballast, suppress(OSError):
            ballast.write(bytes(shutil.disk_usage(small).free - free))
        return _failed(place, place.start())
    finally:
        subprocess.run(["umount", str(small)], check=True)  # noqa: S607


def full_output(name, prepared, folder, numbers):
    """Let the standard output be full."""
    place = Place("standard output full", name, prepared, folder, numbers)
    with Path("/dev/full").open("w") as full:
        process = place.start(stdout=full)
        return _failed(place, process, name="standard output", states=("new output",))


def closed_output(name, prepared, folder, numbers):
    """Let the standard output be closed."""
    place = Place("standard output closed", name, prepared, folder, numbers)
    return _failed(place, place.start(stdout=None, preexec_fn=partial(os.close, 1)), name="standard output is closed")


def read_only(name, prepared, folder, numbers):
    """Run the command as an ordinary user, who may not write to the folder."""
    place = Place("read-only folder", name, prepared, folder, numbers)
    folders = [path for path in (place.work, *place.work.rglob("*")) if path.is_dir()]
    for path in folders:
        path.chmod(0o555)
    (place.work / "temporary").chmod(0o777)
    is_root = os.geteuid() == 0
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups") if is_root else ()
    try:
        process = place.start(python=(*user, sys.executable, "-m", "evencover"))
        return _failed(place, process, name="be written to" if name == "calibrate" else None)  # it names the folder
    finally:
        for path in folders:
            path.chmod(0o755)


def removed(name, prepared, folder, numbers):
    """Remove the folder of the output while the command writes to it; before that, the command creates it again."""
    place = Place("output folder removed", name, prepared, folder, numbers)
    place.output.mkdir(parents=True, exist_ok=True)
    process = place.start()
    wait_until(lambda: process.poll() is not None or any(place.output.glob(".evencover-*")))
    if process.poll() is None:
        shutil.rmtree(place.output, ignore_errors=True)
    state, _ = place.state() if process.wait(LIMIT) == place.job.status else ("", [])
    if state == "new output":
        return Outcome(place.fault, name, "success, new output", tuple(place.problems_of_left()))
    return _failed(place, process, states=("no output",))


def two_runs(name, prepared, folder, numbers):
    """Run two commands with different levels into one folder at once; the second to end replaces the first one's."""
    place = Place("two commands at once", name, prepared, folder, numbers)
    processes = [started((*place.job.words, *more), place.work) for more in ((), ("--level", "0.8"))]
    problems = []
    for process in processes:
        _, errors = process.communicate(timeout=LIMIT)
        if process.returncode not in (0, 3):
            problems.append(f"status {process.returncode}: {errors}")
    files = _files(contents(place.work) - place.before)
    known = {"output of one": _files(place.job.outputs), "output of the other": _files(place.prepared.earlier_outputs)}
    result = next((state for state, expected in known.items() if files == expected), "bad output")
    problems += [result] * (result == "bad output")
    return Outcome(place.fault, name, "both succeed, output of one", (*problems, *place.problems_of_left()))


@contextmanager
def repeated(change):
    """Change something again and again, at random moments, in a thread."""
    stop, numbers = Event(), random.Random(0)  # noqa: S311

    def run():
        while not stop.wait(numbers.uniform(0, 0.3)):
            change()

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def changing_table(kind, folder, numbers):
    """Audit a table that is changed again and again; the answer must be that for one of its versions, or an error."""
    words = ("audit", "table.csv", "--target", "y", "--lower", "a", "--upper", "b", "--group", "g", "--json")
    folder.joinpath("temporary").mkdir(parents=True)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"y": rng.normal(size=400_000)})
    table["a"], table["b"], table["g"] = -1.6, 1.6, np.where(table.y.abs() < 1, "x", "z")
    half = len(table) // 2
    versions = {"first": table[:half].to_csv(index=False), "second": table.to_csv(index=False)}
    path = folder / "table.csv"
    answers = set()
    for text in versions.values():
        path.write_text(text)
        answers.add(_answer(started(words, folder))[1])
    rest = versions["second"][len(versions["first"]) :]
    path.write_text(versions["first"])
    turn = iter(range(10**9))
    with repeated(lambda: _change(kind, path, next(turn) % 2, versions, rest)):
        time.sleep(numbers.uniform(0, 0.3))
        status, answer = _answer(started(words, folder))
    fault = f"table {kind} while it is read"
    if status == 1 and answer.count("\n") <= 1 and "table.csv" in answer and "Traceback" not in answer:
        return Outcome(fault, "audit", "error")
    return Outcome(fault, "audit", "answer for one version", () if answer in answers else (answer[:2000],))


def _change(kind, path, is_second, versions, rest):
    """Change a table: append rows and cut them off again, write it anew, or replace it by another file."""
    text = versions["second" if is_second else "first"]
    if kind == "appended to and cut":
        if is_second:
            with path.open("a") as file:
                file.write(rest)
        else:
            os.truncate(path, len(versions["first"]))
    elif kind == "written anew":
        path.write_text(text)
    else:
        path.with_name("other").write_text(text)
        path.with_name("other").replace(path)


def _answer(process):
    """Return the status of a command, and what it prints: the result, or the error."""
    output, errors = process.communicate(timeout=LIMIT)
    return process.returncode, output or errors


def changing_parts(folder, numbers):
    """Calibrate Parquet files of which one is replaced again and again, between or within the two passes."""
    words = ("calibrate", "parts", "--target", "y", "--center", "c", "--output", "cal.evencover", "--json")
    (folder / "temporary").mkdir(parents=True)
    (folder / "parts").mkdir()
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame({"y": rng.normal(size=100_000) * size, "c": 0.0}) for size in (1.0, 2.0)]
    for part in range(3):
        tables[0].to_parquet(folder / "parts" / f"{part}.parquet")
    for version, table in enumerate(tables):
        table.to_parquet(folder / f"version-{version}")
    path, answers = folder / "parts" / "1.parquet", set()

    def change(version):
        shutil.copy(folder / f"version-{version}", folder / "other")
        (folder / "other").replace(path)

    for version in (1, 0):
        change(version)
        answers.add(_answer(started(words, folder))[1])
    turn = iter(range(10**9))
    with repeated(lambda: change(next(turn) % 2)):
        time.sleep(numbers.uniform(0, 0.3))
        status, answer = _answer(started(words, folder))
    fault = "Parquet file replaced while it is read"
    if status == 1 and "1.parquet" in answer and "Traceback" not in answer:
        return Outcome(fault, "calibrate", "error")
    return Outcome(fault, "calibrate", "answer for one version", () if answer in answers else (answer[:2000],))


SAVE = """
import sys
from pathlib import Path
from evencover.conformal import load_predictor
models = [load_predictor(name) for name in ("one.evencover", "two.evencover")]
while not Path("done").exists():
    for model in models:
        model.save("model.evencover", level=0.9)
"""
LOAD = """
import sys
import numpy as np
from evencover.conformal import load_predictor
X = np.array([[0.0], [1.0]])
for _ in range(int(sys.argv[1])):
    print(load_predictor("model.evencover").predict_interval(X).upper.tolist())
"""
FIT = """
import numpy as np
from sklearn.linear_model import LinearRegression
from evencover import ConformalRegressor
from evencover.models import WithSpread
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 1))
for name, size in (("one", 1), ("two", 2)):
    model = ConformalRegressor(WithSpread(LinearRegression())).fit(X, size * rng.normal(size=200))
    model.save(f"{name}.evencover", level=0.9)
    print(model.predict_interval(np.array([[0.0], [1.0]])).upper.tolist())
"""


def loaded_while_saved(n, folder):
    """Load a predictor n times in each of two processes while a third one saves it again and again."""
    (folder / "temporary").mkdir(parents=True)
    python = partial(started, work=folder)
    expected = set(python((), python=(sys.executable, "-c", FIT)).communicate(timeout=LIMIT)[0].splitlines())
    shutil.copy(folder / "one.evencover", folder / "model.evencover")
    saver = python((), python=(sys.executable, "-c", SAVE))
    loaders = [python((n,), python=(sys.executable, "-c", LOAD)) for _ in range(2)]
    outcomes = []
    for loader in loaders:
        output, errors = loader.communicate(timeout=LIMIT)
        lines = output.splitlines()
        problems = [] if len(lines) == n and set(lines) <= expected and not loader.returncode else [errors, *lines]
        outcomes += [Outcome("loaded while it is saved", "load_predictor", "one of the versions", tuple(problems))]
        outcomes += [replace(outcomes[-1], problems=())] * (n - 1)
    (folder / "done").touch()
    _, errors = saver.communicate(timeout=LIMIT)
    left = [path.name for path in folder.glob(".evencover-*")]
    if saver.returncode or left:
        outcomes.append(Outcome("loaded while it is saved", "save", "failed", (errors, *left)))
    return outcomes


def _tasks(kills, others, prepared):
    """Yield functions of a folder and random numbers, each of which tries something once."""
    for name in KILLED:
        yield from [partial(killed, name, prepared)] * kills
    faults = [(limited, WITH_OUTPUT), (closed_output, (*WITH_OUTPUT, "benchmark")), (removed, ("run", "audit"))]
    faults += [(two_runs, ("run", "predict", "calibrate", "audit"))]
    if Path("/dev/full").exists():
        faults.append((full_output, WITH_OUTPUT))
    if os.geteuid() == 0 and shutil.which("mount") and shutil.which("umount"):
        faults.append((full_disk, ("run", "predict", "calibrate", "audit")))
    if os.geteuid() != 0 or shutil.which("setpriv"):
        faults.append((read_only, WITH_OUTPUT))
    for fault, names in faults:
        for name in names:
            yield from [partial(fault, name, prepared)] * others
    for kind in ("appended to and cut", "written anew", "replaced"):
        yield from [partial(changing_table, kind)] * others
    yield from [changing_parts] * others


def try_faults(kills, others, *, loads=100, seed=0, workers=2, only="", report=print):
    """Kill each command as often as asked, and try each other fault as often as asked; return all outcomes."""
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(workers) as pool:
        Path(temporary).chmod(0o755)  # for another user
        prepared = prepared_faults(Path(temporary))

        def one(position, task):
            folder = Path(temporary) / str(position)
            folder.mkdir()
            found = task(folder=folder, numbers=random.Random(f"{seed} {position}"))  # noqa: S311
            shutil.rmtree(folder)
            if found.problems:
                report(found)
            return found

        tasks = [task for task in _tasks(kills, others, prepared) if only in getattr(task, "func", task).__name__]
        outcomes = list(pool.map(one, range(len(tasks)), tasks))
        if loads:
            loaded = loaded_while_saved(loads, Path(temporary) / "loads")
            for found in filter(lambda each: each.problems, loaded):
                report(found)
            outcomes += loaded
    return outcomes


def table_of(outcomes):
    """Return the outcomes as a table in Markdown."""
    counts = Counter((each.fault, each.command) for each in outcomes)
    lines = ["| what was tried | command | times | what came out | wrong |", "|---|---|---|---|---|"]
    for (fault, command), n in counts.items():
        those = [each for each in outcomes if (each.fault, each.command) == (fault, command)]
        results = Counter(each.result for each in those).most_common()
        came_out = "; ".join(f"{result}: {count}" for result, count in results)
        wrong = sum(bool(each.problems) for each in those)
        lines.append(f"| {fault} | `{command}` | {n} | {came_out} | {wrong} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="of each of the four commands")
    parser.add_argument("--others", type=int, default=5, help="how often each other fault is tried with each command")
    parser.add_argument("--loads", type=int, default=100, help="in each of two processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="part of the name of a function of this script")
    options = parser.parse_args()

    def report(text):
        print(text, flush=True)  # noqa: T201

    outcomes = try_faults(
        options.kills,
        options.others,
        loads=options.loads,
        seed=options.seed,
        workers=options.workers,
        only=options.only,
        report=report,
    )
    report(table_of(outcomes))
    wrong = sum(bool(each.problems) for each in outcomes)
    report(f"\n{len(outcomes)} tries, {wrong} with problems")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
