"""SIGINT and SIGTERM end a command with status 130 or 143 at any moment, and leave nothing behind.

The moments are fixed: a process sends the signal to itself where it hurts, or says that it waits for it. Signals at
random moments are in `tests/signals.py`.
"""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from tests.processes import LIMIT, processes_of_group, wait_until
from tests.signals import send_signals

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows does not send these signals to a process"),
]
SIGNALS = (signal.SIGINT, signal.SIGTERM)
both_signals = pytest.mark.parametrize("number", SIGNALS)

# A command that writes a file, and a folder with a file, and does something at which the signal comes.
COMMAND = """
import atexit, os, signal, sys, threading, time, warnings, weakref
from contextlib import suppress
from pathlib import Path

from evencover import cli
from evencover.cli import stop_signals
from evencover.files.archive import atomic_write
from evencover.files.unfinished import moves_into_place, temporary_folder

number, stop_signals._GRACE = int(sys.argv[1]), float(sys.argv[2])

def send_signal(*_):
    os.kill(os.getpid(), number)
    for _ in range(100):
        pass  # the handler of the signal runs by now

def wait():
    while True:
        time.sleep(1)

def moment():
{moment}

def command(_):
    with atomic_write("result.txt") as file, temporary_folder(Path()) as folder:
        file.write(b"half")
        (folder / "half.txt").write_text("half")
        moment()

cli._run = command
cli.main()
"""
NEVER, AT_ONCE = "600", "0"  # when a thread ends the process that has not ended by itself


@contextmanager
def started(folder, *words, **settings):
    """Yield a process of Python in a folder, which does not outlive a failure of the test."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *words], cwd=folder, **pipes, **settings) as process:
        try:
            yield process
        finally:
            process.kill()


def errors_after(number, process):
    """Send a signal to a process when it is ready, and return what it prints to the standard error."""
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    return process.communicate(timeout=LIMIT)[1]


def ended(folder, moment, number, grace):
    """Return status, output and errors of a process that sends itself a signal at a moment, given as code."""
    code = COMMAND.format(moment="\n".join(f"    {line}" for line in moment.splitlines()))
    with started(folder, "-c", code, str(int(number)), grace) as process:
        output, errors = process.communicate(timeout=LIMIT)
    return process.returncode, output, errors


@both_signals
def test_a_signal_ends_the_command(tmp_path, number):
    assert ended(tmp_path, "send_signal()\nwait()", number, NEVER) == (128 + number, "", "")
    assert list(tmp_path.iterdir()) == []


IGNORED = {
    "a callback of a weak reference": "freed = set()\nreference = weakref.ref(freed, send_signal)\ndel freed\nwait()",
    "a destructor": "class Freed:\n    __del__ = send_signal\nFreed()\nwait()",
    "another thread": "threading.Thread(target=send_signal).start()\nwith suppress(BaseException):\n    wait()\nwait()",
    "code that catches everything": "with suppress(BaseException):\n    send_signal()\nwait()",
    "compiled code": "os.system(f'exec >&- 2>&-; kill -{number} $PPID; while kill -0 $PPID; do sleep 1; done')",
}


@pytest.mark.parametrize("moment", IGNORED.values(), ids=IGNORED)
def test_a_process_that_ignores_the_interrupt_is_ended(tmp_path, moment):
    assert ended(tmp_path, moment, signal.SIGTERM, AT_ONCE) == (143, "", "")
    assert list(tmp_path.iterdir()) == []


TRANSLATED = {
    "another error": "try:\n    send_signal()\nexcept BaseException:\n    raise ValueError('wrong')",
    "an unexpected error": "try:\n    send_signal()\nfinally:\n    raise KeyError",
    "another exit": "try:\n    send_signal()\nexcept BaseException:\n    sys.exit('wrong')",
    "a warning": "with suppress(BaseException):\n    send_signal()\nwarnings.warn('wrong')\nsys.exit()",
}


@pytest.mark.parametrize("moment", TRANSLATED.values(), ids=TRANSLATED)
def test_the_status_is_that_of_the_signal_whatever_the_interrupt_becomes(tmp_path, moment):
    assert ended(tmp_path, moment, signal.SIGINT, NEVER) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


@both_signals
def test_a_second_signal_does_not_disturb_the_clean_up(tmp_path, number):
    """The first one decides the status."""
    other = next(each for each in SIGNALS if each != number)
    moment = f"try:\n    send_signal()\nfinally:\n    os.kill(os.getpid(), {int(other)})\n    print('cleaned up')"
    assert ended(tmp_path, moment, number, NEVER) == (128 + number, "cleaned up\n", "")
    assert list(tmp_path.iterdir()) == []


def test_a_result_is_moved_into_its_place_as_a_whole(tmp_path):
    """Neither the exception nor the end of the process comes in between."""
    moment = """
with moves_into_place():
    Path("one.txt").write_text("complete")
    send_signal()
    time.sleep(0.2)  # in which the process would be ended
    Path("two.txt").write_text("complete")
wait()
"""
    assert ended(tmp_path, moment, signal.SIGINT, AT_ONCE) == (130, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.txt", "two.txt"]


def test_a_signal_while_python_ends_is_not_lost(tmp_path):
    """While the exit functions run; the work is done then, so its result may stay."""
    moment = "atexit.register(send_signal)\nPath('done.txt').write_text('done')\nsys.exit(3)"
    assert ended(tmp_path, moment, signal.SIGINT, NEVER) == (130, "", "")
    assert {path.name for path in tmp_path.iterdir()} == {"done.txt"}


def test_files_of_other_threads_are_removed(tmp_path):
    """Also if they write one file after another when the process is ended."""
    moment = """
def write():
    while True:
        with suppress(OSError), atomic_write("other.txt") as file:
            file.write(b"complete")
for _ in range(2):
    threading.Thread(target=write, daemon=True).start()
send_signal()
"""
    assert ended(tmp_path, moment, signal.SIGTERM, AT_ONCE) == (143, "", "")
    assert {path.name for path in tmp_path.iterdir()} <= {"other.txt"}


def test_a_worker_process_is_ended(tmp_path):
    """Its standard output stays open as long as it runs."""
    moment = """
from multiprocessing import get_context
warnings.simplefilter("ignore")  # of threads in a process that is forked
child = get_context("fork").Process(target=time.sleep, args=(600,), daemon=False)
child.start()
send_signal()
"""
    assert ended(tmp_path, moment, signal.SIGTERM, AT_ONCE) == (143, "", "")


def test_a_forked_process_handles_signals_as_python_does(tmp_path):
    """Its signals are not those of this process."""
    moment = """
warnings.simplefilter("ignore")  # of threads in a process that is forked
child = os.fork()
if not child:
    send_signal()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert ended(tmp_path, moment, signal.SIGTERM, AT_ONCE) == (0, "-15\n", "")


@pytest.mark.parametrize(
    ("moment", "status", "errors"),
    [("sys.exit(3)", 3, ""), ("raise ValueError('wrong')", 1, "evencover: wrong\n"), ("print('end')", 0, "")],
)
def test_without_a_signal_the_status_is_that_of_the_command(tmp_path, moment, status, errors):
    assert ended(tmp_path, moment, signal.SIGINT, NEVER) == (status, "end\n" if "end" in moment else "", errors)


def test_a_signal_that_the_parent_ignores_is_ignored(tmp_path):
    """As in the background of a shell, or under nohup."""
    code = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{COMMAND}"
    with started(tmp_path, "-c", code.format(moment="    send_signal()"), str(int(signal.SIGINT)), AT_ONCE) as process:
        assert process.communicate(timeout=LIMIT) == ("", "")
    assert (process.returncode, (tmp_path / "result.txt").read_text()) == (0, "half")


AT_IMPORT = """
import os, sys
number, module = sys.argv[1:]
sys.argv[1:] = ["--version"]

def send_signal(event, arguments):
    if event == "import" and arguments[0] == module:
        os.kill(os.getpid(), int(number))

sys.addaudithook(send_signal)
from evencover.__main__ import main
main()
"""


@both_signals
@pytest.mark.parametrize("module", ["evencover.cli", "evencover.cli.terminal", "cyclopts.core"])
def test_a_signal_while_modules_are_imported(tmp_path, number, module):
    with started(tmp_path, "-c", AT_IMPORT, str(int(number)), module) as process:
        assert process.communicate(timeout=LIMIT) == ("", "")
    assert process.returncode == 128 + number


WAITING = """
import sys, time
from evencover import cli
from evencover.{module} import {function}

def wait(*_, **__):
    print("ready", flush=True)
    while True:
        time.sleep(1)

sys.modules["evencover.{module}"].{function} = wait
cli.main()
"""


def stopped(folder, module, function, number, *words):
    """Return status and errors of a command that receives a signal while it calls a function."""
    with started(folder, "-c", WAITING.format(module=module, function=function), *words) as process:
        errors = errors_after(number, process)
    return process.returncode, errors


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    scored = pd.DataFrame({"a": X[:, 0], "y": X.sum(axis=1), "lower": X[:, 0] - 2, "upper": X[:, 0] + 2})
    scored.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def test_a_stopped_run_leaves_no_files(table):
    """Neither its unfinished folder, nor the folder above that it would create."""
    words = ("run", "table.csv", "--target", "y", "--model", "linear", "--output", "new/out")
    assert stopped(table, "studies", "study", signal.SIGTERM, *words) == (143, "")
    assert [path.name for path in table.iterdir()] == ["table.csv"]


STUCK_PREDICTION = """
import os, sys, time
from pathlib import Path
from evencover import cli

def wait(_):  # when a file is written, but not yet on the disk
    assert list(Path().glob(".evencover-*/new/.evencover-*/file"))
    os.write(1, b"ready\\n")
    time.sleep(600)

os.fsync = wait
cli.main()
"""


def test_a_stopped_prediction_leaves_no_files_although_its_threads_go_on(table):
    """A disk that does not answer, for example."""
    (table / "data").mkdir()
    scored = pd.read_csv(table / "table.csv")
    for part in range(3):
        scored.to_parquet(table / "data" / f"{part}.parquet")
    calibrate = ("calibrate", "data", "--target", "y", "--center", "a", "--output", "cal.evencover")
    subprocess.run([sys.executable, "-m", "evencover", *calibrate], cwd=table, check=True, capture_output=True)
    words = ("predict", "data", "--calibration", "cal.evencover", "--output", "new/out", "--workers", "2")
    with started(table, "-c", STUCK_PREDICTION, *words) as process:
        assert errors_after(signal.SIGINT, process) == ""
    assert process.returncode == 130
    assert sorted(path.name for path in table.iterdir()) == ["cal.evencover", "data", "table.csv"]


PATIENT = """
from evencover.cli import main, stop_signals
stop_signals._GRACE = 600
main()
"""


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_interrupted_benchmark_prints_how_to_continue(table, workers):
    """In a terminal Ctrl-C reaches all processes of the group, also the workers."""
    shutil.copy(table / "table.csv", table / "other.csv")
    options = ("--target", "y", "--models", "MV", "--epochs", "1000000", "--splits", "1", "--workers", str(workers))
    words = ("-c", PATIENT, "benchmark", "table.csv", "other.csv", *options, "--output", "out")
    temporary = table / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with started(table, *words, env=environment, start_new_session=True) as process:
        wait_until(lambda: len(progress_files(temporary)) == workers)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    (line,) = [line for line in errors.splitlines() if "training" not in line]  # progress, if it is slow
    assert "run the same command again to continue" in line
    assert list(temporary.iterdir()) == []
    assert not processes_of_group(process.pid)


def progress_files(temporary):
    """Return the files of the tasks that are running."""
    return list(temporary.glob(".evencover-*/[0-9]*"))


@pytest.mark.slow
def test_signals_at_random_moments():
    outcomes = send_signals(60, seed=1, report=lambda _: None)
    assert [each for each in outcomes if each.problems] == []
    assert {each.job for each in outcomes} == {"run", "predict", "predict-files", "calibrate", "audit"}
