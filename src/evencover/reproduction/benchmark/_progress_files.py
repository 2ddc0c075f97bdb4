"""Progress of tasks that run in other processes, passed on through small files."""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from evencover._internal.unfinished_files import temporary_folder

_SECONDS_BETWEEN_REPORTS = 0.5


@dataclass(frozen=True)
class ProgressFile:
    """A file with the completed share of one task, which may run in another process of this machine.

    It is also the task's progress callback: a call with the numbers of finished and of all steps writes the share.
    """

    path: Path

    def __call__(self, done: int, total: int) -> None:
        """Write the completed share. A task on another machine cannot reach the file, which is no error."""
        with suppress(OSError):
            self.path.write_bytes(struct.pack("d", done / total))

    @property
    def share(self) -> float:
        """The completed share, 0 before the first write."""
        try:
            return float(struct.unpack("d", self.path.read_bytes())[0])
        except (OSError, struct.error):  # not written yet, or being written
            return 0.0


@contextmanager
def progress_files(n: int) -> Iterator[list[ProgressFile]]:
    """Yield a progress file for each of n tasks, in a temporary folder."""
    with temporary_folder() as folder:
        yield [ProgressFile(folder / str(number)) for number in range(n)]


@contextmanager
def report_progress(costs: Mapping[ProgressFile, float], progress: Callable[[float], None]) -> Iterator[None]:
    """Call `progress` twice a second, from a thread, with the completed work: the sum of each task's cost × share."""
    stop, shares = Event(), dict.fromkeys(costs, 0.0)

    def report() -> None:
        shares.update({file: max(share, file.share) for file, share in shares.items()})
        progress(sum(costs[file] * share for file, share in shares.items()))

    def report_until_stopped() -> None:
        while not stop.wait(_SECONDS_BETWEEN_REPORTS):
            report()

    reporter = Thread(target=report_until_stopped, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        stop.set()
        reporter.join()
        report()
