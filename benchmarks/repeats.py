"""Print as JSON the seconds for 100 repeats of the synthetic experiment: vectorised, one by one, drawing alone.

A repeat draws 1000 calibration and 1000 test rows of the paper's Type 3, calibrates the residual and the normalised
score, and counts the covered test rows in each third of the variance.
"""

import json
import sys
from statistics import median

import numpy as np

from benchmarks.timing import seconds
from evencover import Normalized, Residual, calibrate
from evencover.reproduction.simulation import CoverageCounts, Design, blocks_of, count_coverage, simulate
from evencover.synthetic import Sample, low_dimensional

_REPEATS, _ROUNDS = 100, 7
_DATA, _DESIGN, _SCORES = low_dimensional(), Design(), {"residual": Residual(), "normalised": Normalized()}


def main() -> None:
    """Print the median seconds of each function, after a check that both ways give the same counts."""
    if not np.array_equal(vectorised(), one_by_one()):
        sys.exit("the vectorised counts differ from the counts one by one")
    functions = (vectorised, one_by_one, drawing)
    rounds = [{each.__name__: seconds(each) for each in functions} for _ in range(_ROUNDS)]
    print(json.dumps({each.__name__: median(times[each.__name__] for times in rounds) for each in functions}))


def vectorised() -> np.ndarray:
    """Return the number of covered rows, by score, repeat and group."""

    def count(sample: Sample, _: np.random.Generator) -> dict[str, CoverageCounts]:
        oracle = sample.oracle()
        return {name: count_coverage(score, sample.y, oracle, design=_DESIGN) for name, score in _SCORES.items()}

    found = simulate(_DATA, count, design=_DESIGN, repeats=_REPEATS, seed=0)
    return np.array([found[name].covered for name in _SCORES])


def one_by_one() -> np.ndarray:
    """Return the same counts by `calibrate`, one repeat after another."""
    found = np.zeros((len(_SCORES), _REPEATS, 3), dtype=int)
    repeat = 0
    for size, rng in blocks_of(_REPEATS, 0):
        sample = _DATA.sample(size * _DESIGN.n_rows, seed=rng)
        oracle, variance = sample.oracle(), sample.spread**2
        for start in range(0, len(sample), _DESIGN.n_rows):
            old = slice(start, start + _DESIGN.n_calibration)
            new = slice(start + _DESIGN.n_calibration, start + _DESIGN.n_rows)
            codes = np.searchsorted(np.quantile(variance[old], [1 / 3, 2 / 3]), variance[new])
            for i, score in enumerate(_SCORES.values()):
                intervals = calibrate(sample.y[old], oracle[old], nonconformity=score).interval(oracle[new], level=0.9)
                found[i, repeat] = np.bincount(codes[intervals.covers(sample.y[new])], minlength=3)
            repeat += 1
    return found


def drawing() -> None:
    """Draw the same rows only."""
    for size, rng in blocks_of(_REPEATS, 0):
        _DATA.sample(size * _DESIGN.n_rows, seed=rng)


if __name__ == "__main__":
    main()
