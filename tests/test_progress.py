"""Progress of commands whose standard error is a pipe: lines now and then, and none for quick commands."""

import itertools
import json
import subprocess
import sys
import threading

import pytest

from evencover.cli import terminal
from tests.processes import LIMIT

QUICK_AND_SLOW_RUN = """
import sys, threading
from contextlib import suppress
from evencover.cli import main, run_inputs, terminal
from evencover.report import snapshots
from evencover.studies import table_study

run_inputs._EXAMPLE_ROWS, snapshots._MANY_LEVELS = 500, (50, 95)
diagnose, print_error, printed = table_study.diagnose, terminal.print_error, threading.Event()

def run(folder, interval):
    terminal._SECONDS_BETWEEN_LINES = interval
    options = ["--model", "linear", "--score", "residual", "--groups", "none"]
    with suppress(SystemExit):
        main(["run", *options, "--output", f"{{sys.argv[1]}}/{{folder}}", "--json"])
    assert threading.active_count() == 1, threading.enumerate()

def slow_diagnose(*given, **settings):
    printed.wait({limit})
    return diagnose(*given, **settings)

def noted_print(text):
    print_error(text)
    if "diagnosing" in text:
        printed.set()

run("quick", 600.0)
for stream in (sys.stdout, sys.stderr):
    print("{between}", file=stream, flush=True)
table_study.diagnose, terminal.print_error = slow_diagnose, noted_print
run("slow", 0.1)
"""


@pytest.mark.system
def test_a_slow_step_is_printed_to_the_standard_error_and_a_quick_command_prints_no_progress(tmp_path):
    """The standard output is still JSON, and no thread is left."""
    code = QUICK_AND_SLOW_RUN.format(limit=LIMIT, between="-- slow --")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    quick, slow = zip(*(text.split("-- slow --\n") for text in (done.stdout, done.stderr)), strict=True)
    assert [json.loads(each[0])["kind"] for each in (quick, slow)] == ["study", "study"]
    assert quick[1] == ""
    assert "evencover: diagnosing the calibration rows, " in slow[1]
    assert "Error" not in slow[1]


def lines_with_clock(print_line, seconds=10.0):
    """Return lines whose clock starts at 100 s, and moves by some seconds each time a line is printed."""
    clock = itertools.count(100.0, seconds)
    return terminal.ProgressLines(print_line, lambda: next(clock))


def test_each_new_step_is_printed_once_and_a_long_one_again():
    printed = []
    lines = lines_with_clock(printed.append)
    intervals = 6  # of 5 s each
    for _ in range(intervals + 1):
        lines.print_if_due()
    assert printed == []  # there is no step yet
    for step in ("fitting", "auditing"):
        lines.show(step)
        for _ in range(intervals):
            lines.print_if_due()
    lines.print_if_due()
    assert printed == ["fitting, 10 s", "auditing, 20 s", "auditing, 30 s"]


def test_a_detail_that_changes_is_no_new_step():
    printed = []
    lines = lines_with_clock(printed.append)
    for percent in (1, 2):
        lines.show("training", f"{percent} %")
        lines.print_if_due()
    assert printed == ["training, 1 %, 10 s"]


def test_a_step_that_ends_within_an_interval_is_not_printed():
    printed = []
    lines = lines_with_clock(printed.append)
    for step in ("fitting", "calibrating"):
        lines.show(step)
    lines.print_if_due()
    assert printed == ["calibrating, 10 s"]


def test_a_closed_standard_error_is_no_error():
    def closed(_):
        raise BrokenPipeError

    lines = terminal.ProgressLines(closed)
    lines.show("fitting")
    lines.print_if_due()


def test_the_thread_ends_with_the_context():
    """Also after an error, and at once: the interval between lines is an hour here."""
    before = threading.active_count()

    def fail():
        with terminal.progress_lines(print):
            assert threading.active_count() == before + 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("unit", "done", "total", "text"),
    [
        ("work", 1.0, 4.0, "copying, 25 %, "),
        ("bytes", 2.5e6, None, "copying, 2.5 MB, "),
        ("work", 3.0, None, "copying, "),
    ],
)
def test_a_progress_bar_without_a_terminal_is_lines(monkeypatch, unit, done, total, text):
    printed, is_printed = [], threading.Event()

    def print_line(line):
        printed.append(line)
        is_printed.set()

    monkeypatch.setattr(terminal, "_SECONDS_BETWEEN_LINES", 0.02)
    monkeypatch.setattr(terminal, "print_error", print_line)
    with terminal.progress_bar("copying", unit=unit, visible=False) as show:
        show(done, total)
        assert is_printed.wait(60)
    assert printed[0].startswith(text)


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (80, "1 min 20 s")])
def test_durations(seconds, text):
    printed = []
    lines = lines_with_clock(printed.append, seconds)
    lines.show("fitting")
    lines.print_if_due()
    assert printed == [f"fitting, {text}"]
