"""Seconds that each way takes, the ways in turn, once they are seen to agree; printed as JSON."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle, islice, permutations
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.workloads import (
    Sample,
    Way,
    crepes_intervals,
    crepes_p_values,
    evencover_intervals,
    evencover_p_values,
    fastest_numpy_intervals,
    numpy_intervals,
    sample,
)

_INTERVALS: dict[str, Way] = {
    "evencover": evencover_intervals,
    "numpy": numpy_intervals,
    "fastest_numpy": fastest_numpy_intervals,
    "crepes": crepes_intervals,
}
_P_VALUES: dict[str, Way] = {"evencover": evencover_p_values, "crepes": crepes_p_values}


def main() -> None:
    """Print the median seconds of every way for each piece of work."""
    large = sample(1_000_000, seed=0), sample(1_000_000, seed=1)
    small = sample(20_000, seed=2), sample(20_000, seed=3)
    found = {
        "intervals": seconds(_INTERVALS, *large, repeats=24),
        "p_values": seconds(_P_VALUES, *map(_in_one_group, small), repeats=6),
        "p_values_by_group": seconds(_P_VALUES, *small, repeats=6),
    }
    print(json.dumps(found))


def seconds(ways: Mapping[str, Way], calibration: Sample, test: Sample, *, repeats: int) -> dict[str, float]:
    """Return the median seconds of each way, after a first round that compares their answers."""
    _refuse_disagreement({name: way(calibration, test) for name, way in ways.items()})
    # Every order in turn: what runs before decides how much memory the allocator has at hand.
    orders = islice(cycle(permutations(ways)), repeats)
    rounds = [{name: _seconds(ways[name], calibration, test) for name in order} for order in orders]
    return {name: median(each[name] for each in rounds) for name in ways}


def _seconds(way: Way, calibration: Sample, test: Sample) -> float:
    """Return how long one call took, its answer still held."""
    start = perf_counter()
    answer = way(calibration, test)
    elapsed = perf_counter() - start
    del answer
    return elapsed


def _refuse_disagreement(answers: Mapping[str, Any]) -> None:
    """Exit with a message unless all answers are equal up to rounding.

    crepes takes the same rank as this package except where (n + 1)(1 − level) is whole: there its floats make
    the rank one too high. No group here has such a size.
    """
    first, *others = answers
    for other in others:
        gap = float(np.max(np.abs(np.subtract(answers[first], answers[other]))))
        if not gap < 1e-12:
            sys.exit(f"{first} and {other} disagree, by up to {gap}")


def _in_one_group(rows: Sample) -> Sample:
    """Return the same rows without groups."""
    return replace(rows, groups=None)


if __name__ == "__main__":
    main()
