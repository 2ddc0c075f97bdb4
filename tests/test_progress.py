"""Progress of commands whose standard error is a pipe: lines now and then, and none for quick commands."""

import copy
import io
import itertools
import json
import pickle
import subprocess
import sys
import threading

import pytest
from rich.console import Console

from evencover.cli import terminal
from evencover.display.lines import Step
from evencover.inputs import Finished
from evencover.models import AutoRegressor
from evencover.synthetic import heteroskedastic
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


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self):
        return self.now


class TestTimeLeft:
    """How long a step still takes, by the work that is done; no test waits."""

    def steps(self, *moments, total=40, effort=None):
        """Return the texts after pairs of a time and the number of finished fits."""
        clock = Clock()
        left, texts = terminal.TimeLeft(clock), []
        for seconds, done in moments:
            clock.now = 100.0 + seconds
            left.show(Step("fitting", done, total, "fits", effort=effort))
            texts.append(left.text())
        return texts, left, clock

    def test_it_is_said_once_enough_is_done(self):
        texts, left, clock = self.steps((0, 0), (4, 8), (10, 20), (15, 30), (19.5, 39))
        assert texts == [
            "",
            "",
            *(f"{each} left in this step" for each in ("about 10 s", "less than 10 s", "less than 10 s")),
        ]
        clock.now += 600  # a fit that takes longer than all others
        assert left.text() == ""

    def test_between_fits_it_counts_down(self):
        _, left, clock = self.steps((0, 0), (60, 10))
        assert left.text() == "about 3 min left in this step"
        clock.now += 150
        assert left.text() == "about 30 s left in this step"

    def test_one_slow_fit_moves_it_little(self):
        """Two fits after 10 s and the third after 30 s: the newest estimate is more than three times the one before."""
        _, left, _ = self.steps((0, 0), (10, 10), (40, 11))
        assert 0 < left.seconds < 0.3 * (40 * 29 / 11) + 1

    def test_each_step_begins_anew_and_other_steps_say_nothing(self):
        clock = Clock()
        left = terminal.TimeLeft(clock)
        left.show(Step("fitting", 0, 10, "fits"))
        clock.now += 50
        left.show(Step("fitting", 5, 10, "fits"))
        assert left.text() == "about 50 s left in this step"
        for step in ("calibrating", Step("testing", 5, 10, "rows")):
            left.show(step)
            assert left.text() == ""

    def test_a_share_of_the_work_counts_more_than_the_number_of_fits(self):
        clock = Clock()
        left = terminal.TimeLeft(clock)
        left.show(Step("fitting", Finished(0, 0.0), 40, "fits"))
        clock.now += 60
        step = Step("fitting", Finished(30, 0.2), 40, "fits")
        left.show(step)
        assert (step, left.text()) == ("fitting: 30 of 40 fits", "about 4 min left in this step")

    def test_after_a_minute_of_a_fit_a_faster_effort_is_named_once(self):
        _, left, clock = self.steps((0, 0), (59, 10), effort="normal")
        assert left.advice() == ""
        clock.now += 2
        assert left.advice() == (
            "with --effort fast, this step takes about 17 % of its time, here about 40 s; on 11 data sets, intervals "
            "were 10 % wider, and their interval score was 8 % higher"
        )
        assert left.advice() == ""

    @pytest.mark.parametrize(("effort", "done"), [(None, 10), ("fast", 10), ("normal", 36)], ids=str)
    def test_it_is_not_named_where_it_does_not_help(self, effort, done):
        """Other models have no effort, and a fit that ends soon ends before another would."""
        _, left, _ = self.steps((0, 0), (100, done), effort=effort)
        assert left.advice() == ""

    def test_lines_have_it(self):
        clock, printed = Clock(), []
        lines = terminal.ProgressLines(printed.append, clock)
        for done in (0, 10, 20):
            lines.show(Step("fitting", done, 40, "fits", effort="best"))
            clock.now += 45
            for _ in range(6):
                lines.print_if_due()
        assert printed[0] == "fitting: 0 of 40 fits, 45 s"
        assert printed[1] == "fitting: 10 of 40 fits, about 2 min left in this step, 1 min 30 s"
        assert printed[2].startswith("with --effort fast, this step takes about 3 % of its time, here less than 10 s; ")
        assert len(printed) == 4

    def test_lines_have_it_as_soon_as_it_is_known(self):
        clock, printed = Clock(), []
        lines = terminal.ProgressLines(printed.append, clock)
        for done in range(0, 16, 4):
            lines.show(Step("fitting", done, 40, "fits"))
            clock.now += 5
            lines.print_if_due()
        assert printed == ["fitting: 0 of 40 fits, 5 s", "fitting: 8 of 40 fits, about 40 s left in this step, 15 s"]

    def test_a_terminal_has_it(self, monkeypatch):
        """Next to the spinner, and the advice above it."""
        clock, shown = Clock(), io.StringIO()
        monkeypatch.setattr(terminal, "_console", lambda: Console(file=shown, force_terminal=True, width=250))
        with terminal.status(clock) as report_progress:
            report_progress("checking the columns")
            for done in (0, 10):
                report_progress(Step("fitting", done, 40, "fits", effort="normal"))
                clock.now += 45
            clock.now -= 20
            report_progress(Step("fitting", 11, 40, "fits", effort="normal"))
        assert "evencover: with --effort fast, this step takes about 17 %" in shown.getvalue()

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(3, "less than 10 s"), (12, "about 15 s"), (31, "about 40 s"), (61, "about 2 min"), (1900, "about 35 min")],
    )
    def test_it_is_rounded_up(self, seconds, text):
        assert terminal.rounded_duration(seconds) == text


def test_the_shares_of_a_stack_grow_to_one():
    """The fits of regressors that turn out not to be needed are left out."""
    sample, steps = heteroskedastic(60, seed=0), []
    AutoRegressor(effort="fast", random_state=0).fit(sample.X, sample.y, progress=lambda done, _: steps.append(done))
    shares = [each.share for each in steps[:-1]]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.2
    assert shares[-1] > 0.9


def test_steps_pass_to_other_processes():
    """A function that shows progress may put them into a queue."""
    step, finished = Step("fitting", 1, 2, "fits"), Finished(3, 0.5)
    assert pickle.loads(pickle.dumps(step)) == copy.copy(step) == "fitting: 1 of 2 fits"  # noqa: S301
    again = pickle.loads(pickle.dumps(finished))  # noqa: S301
    assert (again, again.share) == (3, 0.5)
