"""Progress of commands whose standard error is a pipe: lines now and then, and none for quick commands."""

import itertools
import json
import subprocess
import sys
import threading

import pytest

from evencover._cli import progress_lines as module
from evencover._cli import terminal
from evencover._cli.progress_lines import ProgressLines, duration_text, progress_lines
from tests.processes import LIMIT

SLOW_RUN = """
import sys, threading
from evencover._cli import loaded_table, main, progress_lines, terminal
from evencover._report import contents
from evencover.studies import table_study

loaded_table._EXAMPLE_ROWS, contents._MANY_LEVELS = 500, (50, 95)
progress_lines._SECONDS_BETWEEN_LINES = {interval}
diagnose, print_error, printed = table_study.diagnose, terminal.print_error, threading.Event()

def slow_diagnose(*given, **settings):
    printed.wait({pause})
    return diagnose(*given, **settings)

def noted_print(text):
    print_error(text)
    if "diagnosing" in text:
        printed.set()

table_study.diagnose, terminal.print_error = slow_diagnose, noted_print
try:
    options = ["--model", "linear", "--score", "residual", "--groups", "none"]
    main(["run", *options, "--output", sys.argv[1], "--json"])
finally:
    assert threading.active_count() == 1, threading.enumerate()
"""


def run_with_slow_step(folder, *, interval, pause):
    code = SLOW_RUN.format(interval=interval, pause=pause)
    return subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)


@pytest.mark.system
def test_a_slow_step_is_printed_to_the_standard_error(tmp_path):
    """The standard output is still JSON, and no thread is left."""
    done = run_with_slow_step(tmp_path / "out", interval=0.1, pause=LIMIT)
    assert "evencover: diagnosing the calibration rows, " in done.stderr
    assert json.loads(done.stdout)["kind"] == "study"
    assert "Error" not in done.stderr


@pytest.mark.system
def test_a_quick_command_prints_no_progress(tmp_path):
    done = run_with_slow_step(tmp_path / "out", interval=600, pause=0)
    assert (done.stderr, json.loads(done.stdout)["kind"]) == ("", "study")


def lines_with_clock(print_line):
    """Return lines whose clock starts at 100 s, and moves by 10 s each time a line is printed."""
    clock = itertools.count(100.0, 10.0)
    return ProgressLines(print_line, lambda: next(clock))


def test_each_new_step_is_printed_once_and_a_long_one_again():
    printed = []
    lines = lines_with_clock(printed.append)
    for _ in range(module._INTERVALS_BETWEEN_REPEATS + 1):
        lines.print_if_due()
    assert printed == []  # there is no step yet
    for step in ("fitting", "auditing"):
        lines.show(step)
        for _ in range(module._INTERVALS_BETWEEN_REPEATS):
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

    lines = ProgressLines(closed)
    lines.show("fitting")
    lines.print_if_due()


def test_the_thread_ends_with_the_context():
    """Also after an error, and at once: the interval between lines is an hour here."""
    before = threading.active_count()

    def fail():
        with progress_lines(print):
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

    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LINES", 0.02)
    monkeypatch.setattr(terminal, "print_error", print_line)
    with terminal.progress_bar("copying", unit=unit, visible=False) as show:
        show(done, total)
        assert is_printed.wait(60)
    assert printed[0].startswith(text)


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (80, "1 min 20 s")])
def test_durations(seconds, text):
    assert duration_text(seconds) == text
