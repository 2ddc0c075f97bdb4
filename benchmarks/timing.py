"""Time a call."""

from collections.abc import Callable
from time import perf_counter


def seconds(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start
