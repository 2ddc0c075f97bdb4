"""Command lines: options of every command with fitting and other values, on small files that are whole or broken."""

import csv
import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args, get_origin

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from evencover.cli import audit, benchmark, calibrate, datasets, main, predict, run, tables
from tests.fuzz.outcomes import BadOutcomeError, ClearRefusalError, WrongAnswerError, check_message

COMMANDS: dict[str, Callable] = {
    "run": run,
    "predict": predict,
    "audit": audit,
    "calibrate": calibrate,
    "datasets": datasets,
    "benchmark": benchmark,
    "reproduce tables": tables,
}
_WEIGHTS = {"predict": 4, "audit": 4, "calibrate": 3}
_FILES = (
    *("table.csv", "table.parquet", "scored.csv", "scored.parquet", "folder", "study", "calibration.evencover", "-"),
    *(
        "empty.csv",
        "header.csv",
        "latin.csv",
        "one.csv",
        "missing.csv",
        "missing",
        "broken.parquet",
        "broken.evencover",
    ),
    *(
        "formula.csv",
        "listed",
        "study/predictor.evencover",
        "study/results.json",
        ".",
        "",
        "\x1b[31m.csv",
        "wine",
        "table.txt",
        "a\nb.csv",
    ),
)
_COLUMNS = ("y", "a", "center", "spread", "lower", "upper", "g", "1", "0", "none", "", "no", "\x1b[31m", "a\nb")
_TEXTS = ("residual", "normalized", "none", "spread", "spread:2", "spread:0", "column:g", "column:no", "NA", "x", "")
_OUTPUTS = ("out", "out.csv", "out.parquet", "out.evencover", "missing/out", "table.csv", "study", ".", "", "out.xyz")
_WHOLE = ("0", "1", "2", "5", "10", "52", "53", "-1", "1.5", "x", "", "9" * 30, "nan")
_SHARES = ("0.9", "0.5", "0.99", "0", "1", "-0.1", "1.1", "nan", "inf", "1e-9", "0.9999999", "x", "", "90%")
_FITTING = {
    "run": ["run", "table.csv", "--target", "y", "--model", "linear"],
    "predict": ["predict", "study", "table.csv"],
    "audit": ["audit", "scored.csv", "--target", "y", "--lower", "lower", "--upper", "upper"],
    "calibrate": ["calibrate", "scored.parquet", "--target", "y", "--center", "center", "--output", "out.evencover"],
    "datasets": ["datasets"],
    "benchmark": ["benchmark", "--output", "out", "--dry-run"],
    "reproduce tables": ["reproduce", "tables"],
}
_NEVER = {"download", "workers", "cluster", "device", "repeats"}  # options that take long, or start other processes
_STATUSES = {"run": (0, 1, 3, 4), "audit": (0, 1, 3, 4), "benchmark": (0, 1, 3)}
_ERRORS = (1, 2)  # 2: the words of the command line are wrong
_NETWORKS = ("forest", "quantile-network", "mean-variance-network", "dropout-ensemble", "stack", "boosting")  # slow


def cases(names=("predict", "audit", "calibrate", "datasets", "benchmark", "reproduce tables")):
    """Return the strategy: a command that fits the files, with further options or with other words."""
    return st.one_of([_command(name) for name in names for _ in range(_WEIGHTS.get(name, 1))])


@st.composite
def _command(draw, name):
    words = list(_FITTING[name])
    for _ in range(draw(st.integers(0, 4))):
        option, kind = draw(st.sampled_from(_options(name)))
        values = [] if kind is bool else [draw(_value(option, kind))]
        if kind is not bool and draw(st.integers(0, 9)) == 0:
            values = draw(st.sampled_from([[], values * 2]))
        words += [option, *values]
    if draw(st.integers(0, 2)) == 0:
        words = _changed(draw, words, name)
    return {"words": words}


def _changed(draw, words, name):
    """Return the words with one of them, after the command, replaced, removed or repeated."""
    first = len(name.split())
    if len(words) == first:
        return words
    place = draw(st.integers(first, len(words) - 1))
    other = st.sampled_from((*_FILES, *_COLUMNS, "--no-such-option", "--", "-x", "--help"))
    new = draw(st.one_of(other.map(lambda word: [word]), st.just([]), st.just([words[place]] * 2)))
    return [*words[:place], *new, *words[place + 1 :]]


def _options(name):
    """Return the options of a command, and the type of the value of each."""
    parameters = signature(COMMANDS[name]).parameters.values()
    return [
        (f"--{each.name.replace('_', '-')}", each.annotation)
        for each in parameters
        if each.kind is Parameter.KEYWORD_ONLY and each.name not in _NEVER
    ]


def _value(option, kind):
    """Return the strategy of the values of an option, most of which fit its type."""
    kinds = {kind, *get_args(kind)}
    choices = [value for each in kinds if get_origin(each) is Literal for value in get_args(each)]
    if choices:
        return st.sampled_from([value for value in (*choices, "x", "") if value not in _NETWORKS])
    if Path in kinds:
        return st.sampled_from(_OUTPUTS if option == "--output" else _FILES)
    if float in kinds:
        return st.sampled_from(_SHARES)
    if int in kinds:
        return st.sampled_from(_WHOLE)
    return st.sampled_from(_COLUMNS) | st.sampled_from(_TEXTS)


def run_cases():
    """Return the strategy of the command `run`, which takes much longer than the others."""
    return cases(["run"])


def run_command(case):
    """Run a command in this process, among small files, and look at its status, its output and what it leaves."""
    for name, content in files().items():
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    before = _contents()
    status, output, errors = _called(case["words"])
    name = " ".join(case["words"][: 1 + (case["words"][:1] == ["reproduce"])])
    if status not in (*_STATUSES.get(name, (0, 1)), 2):
        raise BadOutcomeError("status", f"{status!r}: {errors}", name)
    _check_texts(output, errors, status, name)
    _check_files(before, status, name)
    if status in _ERRORS:
        raise ClearRefusalError(errors)
    if "--exact-text" not in case["words"]:
        _check_cells(before, output, name)
    if "--json" in case["words"] and not {"--help", "--version", "-h"} & set(case["words"]):
        _check_json(output, name)


def _called(words):
    """Return the status, the output and the errors of a command in this process."""
    output, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    status, stdin = 0, sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(files()["table.csv"]))
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            main(words)
        except SystemExit as left:
            status = left.code or 0
        finally:
            sys.stdin = stdin
    output.flush()
    if isinstance(status, str):  # what the interpreter does with it
        errors.write(status)
        status = 1
    return status, output.buffer.getvalue().decode(), errors.getvalue()


def _check_texts(output, errors, status, name):
    """Raise unless the errors are lines of this package without control characters, after an error exactly one."""
    if "Traceback" in errors:
        raise BadOutcomeError("traceback", errors, name)
    lines = errors.splitlines()
    if status in _ERRORS and (not lines or not lines[-1].startswith("evencover: ")):
        raise BadOutcomeError("error that is no line of its own", errors, name)
    for line in lines:
        check_message(line, name)
        if not line.startswith("evencover: "):
            raise BadOutcomeError("message of several lines", errors, name)
    if control := {each for each in output if (each < " " or "\x7f" <= each < "\xa0") and each not in "\n\t"}:
        raise BadOutcomeError("control characters", f"{control} in the output", name)


def _check_files(before, status, name):
    """Raise if a file was changed or half written: after an error nothing is new, and nothing unfinished ever is."""
    after = _contents()
    new = {path for path in after if path not in before}
    unfinished = sorted(path for path in new if path.endswith(".part") or ".evencover-" in path)
    if unfinished:
        raise BadOutcomeError("leftovers", f"{unfinished}", name)
    if status in _ERRORS and after != before:
        changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        raise BadOutcomeError("files after an error", f"{changed}", name)


def _check_cells(before, output, name):
    """Raise if a new CSV file, or a printed one, has a text that a spreadsheet would run."""
    new = [
        path.read_text(encoding="utf-8") for path in Path().rglob("*.csv") if path.is_file() and str(path) not in before
    ]
    for text in (*new, output if name == "predict" and output.startswith('"') else ""):
        cells = {cell for row in csv.reader(io.StringIO(text)) for cell in row}
        if found := [
            cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not _is_number(cell)
        ]:
            raise BadOutcomeError("formula", f"cells that a spreadsheet runs: {found[:3]}", name)


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _contents():
    return {str(path): path.read_bytes() if path.is_file() else None for path in Path().rglob("*")}


def _check_json(output, name):
    try:
        json.loads(output)
    except ValueError as error:
        raise WrongAnswerError(f"no JSON: {error}: {output[:300]!r}", name) from None


@cache
def files():
    """Return the content of each file among which commands run."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 60))
    y = a + rng.normal(size=60)
    table = pd.DataFrame({"a": a, "b": b, "y": y, "g": ["u", "v"] * 30})
    scored = table.assign(center=a, spread=1 + b**2, lower=a - 1.5, upper=a + 1.5)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "folder").mkdir()
        table.to_csv(folder / "table.csv", index=False)
        table.to_parquet(folder / "table.parquet")
        scored.to_csv(folder / "scored.csv", index=False)
        for name in ("scored.parquet", "folder/0.parquet", "folder/1.parquet"):
            scored.to_parquet(folder / name)
        _called_in(folder, ["run", "table.csv", "--target", "y", "--model", "linear", "--output", "study"])
        _called_in(
            folder,
            ["calibrate", "scored.parquet", "--target", "y", "--center", "center", "--output", "calibration.evencover"],
        )
        made = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    header, first, *_ = made["scored.csv"].splitlines(keepends=True)
    return {
        **made,
        "empty.csv": b"",
        "formula.csv": made["table.csv"].replace(b"u", b"=1+1"),
        "listed/predictor.evencover": made["study/predictor.evencover"],
        "listed/results.json": b"[]",
        "header.csv": header,
        "one.csv": header + first,
        "latin.csv": made["table.csv"].replace(b"u", b"\xfc"),
        "\x1b[31m.csv": b"\x1b[31m,y\n1,2\n",
        "broken.parquet": made["scored.parquet"][:-50],
        "broken.evencover": made["calibration.evencover"][:-50],
    }


def _called_in(folder, words):
    """Run a command in a process of its own, before there are files for it here."""
    import subprocess

    subprocess.run([sys.executable, "-m", "evencover", *words], cwd=folder, check=False, capture_output=True)
