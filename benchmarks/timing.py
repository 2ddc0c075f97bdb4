"""How long something takes."""

from collections.abc import Callable
from time import perf_counter


def seconds(way: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = perf_counter()
    way()
    return perf_counter() - start
