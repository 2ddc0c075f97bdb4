"""A process that runs cases, so that a crash, a hang or too much memory is the outcome of one case and no more."""

import faulthandler
import os
import re
import resource
import shutil
import signal
import sys
from contextlib import suppress
from ctypes import CDLL
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.kinds import KINDS
from tests.fuzz.outcomes import Outcome, judged

MEMORY = 2 * 2**30  # bytes that a case may take, beyond what the imported libraries do
CPU_SECONDS, SECONDS = 10, 120  # that a case may take
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG in sys/prctl.h
_FRAME = re.compile(r'File "(.*)", line \d+ in (\S+)')


class Worker:
    """A process that is forked from this one, and again after a case that ends it, or after so many cases.

    Parameters
    ----------
    folder : Path
        An empty folder for temporary files and for what the process prints.
    """

    def __init__(self, folder):
        self._folder, self._process, self._cases_left = folder, None, 0
        self._printed = folder / "printed"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()

    def outcome(self, kind, case):
        """Return what comes of a case; a process that ends by it is tried again without the cases before."""
        outcome = self._tried(kind, case)
        if outcome.name in ("crash", "memory") and self._cases_before:
            self._end()
            alone = self._tried(kind, case)
            return alone if alone.is_bad else Outcome(outcome.name, f"only after other cases: {outcome.text}", "others")
        return outcome

    def _tried(self, kind, case):
        if self._process is None or not self._cases_left:
            self._end()
            self._start(KINDS[kind].cases_of_a_process)
        self._cases_left -= 1
        self._cases_before += 1
        try:
            self._connection.send((kind, case))
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            status, self._process = self._process.exitcode, None
            return self._death(status)

    def _start(self, cases):
        shutil.rmtree(self._folder / "work", ignore_errors=True)
        (self._folder / "work").mkdir()
        context = get_context("fork")
        self._connection, other = context.Pipe()
        arguments = (other, self._connection, self._folder / "work", self._printed)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        other.close()
        self._cases_left, self._cases_before = cases, -1

    def _end(self):
        if self._process is not None:
            self._connection.close()  # it then ends by itself
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.join()
            self._process = None

    def _death(self, status):
        """Return the outcome of a case that has ended its process."""
        printed = self._printed.read_text(errors="replace")
        if status in (-signal.SIGPROF, -signal.SIGALRM):
            return Outcome("hang", f"more than {CPU_SECONDS} s of processor time, or {SECONDS} s", _place(printed))
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        return Outcome("crash", f"{name}: {printed[:1500]}", f"{name} in {_place(printed)}")


def _place(printed):
    """Return the function at which faulthandler says that the process was: the package's own, or the innermost."""
    frames = _FRAME.findall(printed)
    own = [frame for frame in frames if "/evencover/" in frame[0]]
    return next((f"{Path(file).name}:{name}" for file, name in (own or frames)), "unknown")


def _serve(connection, other, folder, printed):
    """Run the cases that come, until nobody is there to send them."""
    other.close()
    _limit(printed)
    os.environ["TMPDIR"] = str(folder)
    while True:
        try:
            kind, case = connection.recv()
        except EOFError:
            return
        work = folder / "case"
        work.mkdir()
        os.chdir(work)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        outcome = judged(KINDS[kind].run, case)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        connection.send(outcome)
        os.chdir(folder)
        shutil.rmtree(work, ignore_errors=True)


def _limit(printed):
    """Make this process one that ends with its parent, by itself if a case hangs, and that cannot take all memory."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    faulthandler.enable(file)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
        faulthandler.register(number, file, chain=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        limit = _virtual_memory() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _virtual_memory():
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()
