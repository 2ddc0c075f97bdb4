"""Print the seconds of evencover, numpy and crepes as JSON, after a check that their answers agree."""

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
    Implementation,
    Sample,
    crepes_crps,
    crepes_intervals,
    crepes_p_values,
    evencover_crps,
    evencover_intervals,
    evencover_p_values,
    fastest_numpy_intervals,
    numpy_intervals,
    sample,
    sorted_scores,
)

_INTERVALS: dict[str, Implementation] = {
    "evencover": evencover_intervals,
    "numpy": numpy_intervals,
    "fastest_numpy": fastest_numpy_intervals,
    "crepes": crepes_intervals,
}
_P_VALUES: dict[str, Implementation] = {"evencover": evencover_p_values, "crepes": crepes_p_values}


def main() -> None:
    """Print the median seconds of each implementation."""
    large = sample(1_000_000, seed=0), sample(1_000_000, seed=1)
    small = sample(20_000, seed=2), sample(20_000, seed=3)
    found = {
        "intervals": seconds(_INTERVALS, *large, repeats=24),
        "p_values": seconds(_P_VALUES, *map(_in_one_group, small), repeats=6),
        "p_values_by_group": seconds(_P_VALUES, *small, repeats=6),
        "crps": crps_seconds(*small),
    }
    print(json.dumps(found))


def seconds(
    implementations: Mapping[str, Implementation], calibration: Sample, test: Sample, *, repeats: int
) -> dict[str, float]:
    """Return the median seconds of each implementation, after a first round that compares the answers."""
    _check_agreement({name: run(calibration, test) for name, run in implementations.items()})
    # All orders alternate: the memory that the allocator has available depends on what ran before.
    orders = islice(cycle(permutations(implementations)), repeats)
    rounds = [{name: _seconds(implementations[name], calibration, test) for name in order} for order in orders]
    return {name: median(times[name] for times in rounds) for name in implementations}


def crps_seconds(calibration: Sample, test: Sample) -> dict[str, float]:
    """Return the median seconds of the mean CRPS and of sorting the scores, and those of one call of crepes.

    crepes runs once, because it makes a table of all rows by all scores, of 3.2 GB, which takes long.
    """
    start = perf_counter()
    peer = crepes_crps(calibration, test)
    once = perf_counter() - start
    _check_agreement({"evencover": evencover_crps(calibration, test), "crepes": peer})
    names: dict[str, Implementation] = {"evencover": evencover_crps, "sorting": sorted_scores}
    rounds = [{name: _seconds(run, calibration, test) for name, run in names.items()} for _ in range(100)]
    return {name: median(times[name] for times in rounds) for name in names} | {"crepes": once}


def _seconds(run: Implementation, calibration: Sample, test: Sample) -> float:
    """Return the seconds of one call, without the deletion of its answer."""
    start = perf_counter()
    answer = run(calibration, test)
    elapsed = perf_counter() - start
    del answer
    return elapsed


def _check_agreement(answers: Mapping[str, Any]) -> None:
    """Exit with a message unless all answers are equal up to rounding.

    crepes uses the same rank as this package unless (n + 1)(1 − level) is an integer: then rounding makes its rank one
    too high. No group here has such a size.
    """
    first, *others = answers
    for other in others:
        gap = float(np.max(np.abs(np.subtract(answers[first], answers[other]))))
        if not gap < 1e-12:
            sys.exit(f"the answers of {first} and {other} differ by up to {gap}")


def _in_one_group(rows: Sample) -> Sample:
    """Return the same rows without groups."""
    return replace(rows, groups=None)


if __name__ == "__main__":
    main()
