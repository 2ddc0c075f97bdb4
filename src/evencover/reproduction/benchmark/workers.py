"""Map a function over tasks, and report their progress: in this process, in several, or on a Dask cluster."""

import asyncio
import os
import struct
from asyncio import CancelledError
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar

from joblib import Parallel, delayed
from joblib.parallel import LokyBackend
from threadpoolctl import threadpool_limits

from evencover.files.unfinished import temporary_folder
from evencover.inputs.optional import import_optional
from evencover.models.folds import end_with_parent

_SECONDS_TO_CONNECT = 10

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_unordered(
    function: Callable[[Item], Result], tasks: Sequence[Item], *, workers: int = 1, cluster: str | None = None
) -> Generator[Result, None, None]:
    """Yield the function's result for each task, in the order in which the tasks finish.

    Every task runs on one thread, so that no number depends on how many tasks run at once.

    Parameters
    ----------
    function : callable
        A function of one task; other processes must be able to import it.
    tasks : sequence
        The arguments, one for each call; put the longest tasks first.
    workers : int
        Number of processes of this machine; with 1, the tasks run in this process.
    cluster : str, optional
        Address of the scheduler of a Dask cluster, which runs the tasks instead; `check_cluster_reachable` tests the
        address. The cluster's workers must have this package installed. If a worker dies, another one repeats its task.
    """
    if cluster is not None:
        yield from _map_on_cluster(function, tasks, cluster)
    elif workers == 1 or len(tasks) < 2:
        for task in tasks:
            with threadpool_limits(1):
                result = function(task)
            yield result
    else:
        yield from _map_in_processes(function, tasks, workers)


def _map_in_processes(
    function: Callable[[Item], Result], tasks: Sequence[Item], workers: int
) -> Generator[Result, None, None]:
    """Yield results from processes of this machine, which end when this process ends, even if it is killed."""
    backend = LokyBackend()
    # Parallel itself takes an initializer only from joblib 1.5 on.
    backend.configure = partial(backend.configure, initializer=end_with_parent, initargs=(os.getpid(),))
    pool = Parallel(min(workers, len(tasks)), backend=backend, return_as="generator_unordered", batch_size=1)
    try:
        yield from pool(delayed(call_on_one_thread)(function, task) for task in tasks)
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process died, perhaps because memory ran out; finished results are saved. Repeat the command to "
            "continue, with fewer --workers if memory was short"
        ) from error


def _map_on_cluster(
    function: Callable[[Item], Result], tasks: Sequence[Item], address: str
) -> Generator[Result, None, None]:
    """Yield results from a Dask cluster."""
    distributed = import_optional("distributed", extra="cluster", purpose="a Dask cluster")
    with distributed.Client(address, set_as_default=False) as client:
        futures = [client.submit(call_on_one_thread, function, task, pure=False) for task in tasks]
        for future in distributed.as_completed(futures, loop=client.loop):
            try:
                yield future.result()
            except (distributed.KilledWorker, CancelledError) as error:
                raise RuntimeError(
                    f"workers of the cluster died repeatedly; finished results are saved: {error}"
                ) from error
            except ImportError as error:
                raise ImportError(
                    f"the cluster's workers must have the same packages as this process: {error}"
                ) from error
            future.release()


def check_cluster_reachable(address: str) -> None:
    """Raise ConnectionError unless a server answers at the address.

    A Dask client would try for a long time, and would print errors of its own.
    """
    comm = import_optional("distributed.comm", extra="cluster", purpose="a Dask cluster")

    async def connect() -> None:
        async with asyncio.timeout(_SECONDS_TO_CONNECT):
            await (await comm.connect(address, timeout=_SECONDS_TO_CONNECT)).close()

    try:
        asyncio.run(connect())
    except Exception as error:  # the server at the address may use any protocol
        raise ConnectionError(
            f"found no Dask scheduler at {address!r}: {str(error) or f'no answer within {_SECONDS_TO_CONNECT} s'}"
        ) from None


def call_on_one_thread(function: Callable[[Item], Result], task: Item) -> Result:
    """Return the function's result for the task, computed with one thread for linear algebra.

    The limit stays in force in this process: other tasks may be running in its other threads.
    """
    threadpool_limits(1)
    return function(task)


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
