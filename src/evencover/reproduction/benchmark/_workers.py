"""One function over many tasks, results as they finish: here, in processes of this machine, or on a Dask cluster."""

import asyncio
import os
import time
from asyncio import CancelledError
from collections.abc import Callable, Generator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from threading import Thread
from typing import TypeVar

from joblib import Parallel, delayed
from joblib.parallel import LokyBackend
from threadpoolctl import threadpool_limits

from evencover._internal.optional import import_optional

_SECONDS = 10
_SECONDS_BETWEEN_CHECKS = 0.5

Item = TypeVar("Item")
Result = TypeVar("Result")


def results_of(
    function: Callable[[Item], Result], tasks: Sequence[Item], *, workers: int = 1, cluster: str | None = None
) -> Generator[Result, None, None]:
    """Yield the results of a function for each task, in the order in which they finish.

    Every task runs on one thread, so that no number depends on how many run at once.

    Parameters
    ----------
    function : callable
        Of one task; other processes must be able to load it.
    tasks : sequence
        What to do, the longest first.
    workers : int
        Number of processes of this machine; with 1, tasks run in this one.
    cluster : str, optional
        Address of the scheduler of a Dask cluster, which then does the work (`check_cluster_reachable` tries it). Its
        processes must have this package.
        What a worker was doing when it died is done again by another.
    """
    if cluster is not None:
        yield from _on_cluster(function, tasks, cluster)
    elif workers == 1 or len(tasks) < 2:
        for task in tasks:
            with threadpool_limits(1):
                result = function(task)
            yield result
    else:
        yield from _in_processes(function, tasks, workers)


def _in_processes(
    function: Callable[[Item], Result], tasks: Sequence[Item], workers: int
) -> Generator[Result, None, None]:
    """Yield results from processes of this machine; they end when this process does, even if it is killed."""
    backend = LokyBackend()
    # Parallel itself takes an initializer only from joblib 1.5 on.
    backend.configure = partial(backend.configure, initializer=_end_with_parent, initargs=(os.getpid(),))
    pool = Parallel(min(workers, len(tasks)), backend=backend, return_as="generator_unordered", batch_size=1)
    try:
        yield from pool(delayed(on_one_thread)(function, task) for task in tasks)
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process died, perhaps for want of memory; what had finished is kept: the same command goes on "
            "from there, with fewer --workers if memory was short"
        ) from error


def _end_with_parent(parent: int) -> None:
    """Let a thread of this worker process end it when its parent, given by its process id, is gone.

    A parent that is killed cannot stop its workers. This has no effect on Windows, where a process keeps the id of its
    dead parent.
    """
    Thread(target=_exit_without_parent, args=(parent,), daemon=True).start()


def _exit_without_parent(parent: int) -> None:
    """Wait until the parent is gone, and leave at once: the main thread may be busy or blocked."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_CHECKS)
    os._exit(1)


def _on_cluster(
    function: Callable[[Item], Result], tasks: Sequence[Item], address: str
) -> Generator[Result, None, None]:
    """Yield results from a Dask cluster."""
    distributed = import_optional("distributed", extra="cluster", purpose="a Dask cluster")
    with distributed.Client(address, set_as_default=False) as client:
        futures = [client.submit(on_one_thread, function, task, pure=False) for task in tasks]
        for future in distributed.as_completed(futures, loop=client.loop):
            try:
                yield future.result()
            except (distributed.KilledWorker, CancelledError) as error:
                raise RuntimeError(
                    f"workers of the cluster died over and over; what had finished is kept: {error}"
                ) from error
            except ImportError as error:
                raise ImportError(f"the cluster's workers must have what this process has: {error}") from error
            future.release()


def check_cluster_reachable(address: str) -> None:
    """Raise unless something answers at the address; a client would try for long, and leave in disorder."""
    comm = import_optional("distributed.comm", extra="cluster", purpose="a Dask cluster")

    async def reach() -> None:
        async with asyncio.timeout(_SECONDS):
            await (await comm.connect(address, timeout=_SECONDS)).close()

    try:
        asyncio.run(reach())
    except Exception as error:  # whatever answers there need not speak Dask's language
        raise ConnectionError(
            f"found no Dask scheduler at {address!r}: {str(error) or f'no answer within {_SECONDS} s'}"
        ) from None


def on_one_thread(function: Callable[[Item], Result], task: Item) -> Result:
    """Return the function of the task, with one thread for linear algebra from now on in this process.

    For good: other tasks may be running in other threads of it.
    """
    threadpool_limits(1)
    return function(task)
