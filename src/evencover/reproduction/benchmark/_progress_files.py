"""How far long tasks are, told by other processes through small files."""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

_SECONDS = 0.5


@dataclass(frozen=True)
class ProgressFile:
    """Where a task says which share of it is done, by calling it; it may be in another process of this machine."""

    path: Path

    def __call__(self, done: int, total: int) -> None:
        """Say how much of how much is done, if whoever asks is on this machine."""
        with suppress(OSError):
            self.path.write_bytes(struct.pack("d", done / total))

    @property
    def share(self) -> float:
        """The share done, 0 before anything was said."""
        try:
            return float(struct.unpack("d", self.path.read_bytes())[0])
        except (OSError, struct.error):  # not there yet, or just being written
            return 0.0


@contextmanager
def progress_files(n: int) -> Iterator[list[ProgressFile]]:
    """Yield places for n tasks to say how far they are."""
    with TemporaryDirectory(prefix="evencover") as folder:
        yield [ProgressFile(Path(folder) / str(place)) for place in range(n)]


@contextmanager
def watched(costs: Mapping[ProgressFile, float], tell: Callable[[float], None]) -> Iterator[None]:
    """Tell, again and again, how much of the work is done: each task's cost times its share."""
    over, shares = Event(), dict.fromkeys(costs, 0.0)

    def look() -> None:
        shares.update({progress_file: max(share, progress_file.share) for progress_file, share in shares.items()})
        tell(sum(costs[progress_file] * share for progress_file, share in shares.items()))

    def watch() -> None:
        while not over.wait(_SECONDS):
            look()

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        look()
