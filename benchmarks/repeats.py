"""Seconds that 100 repeats of the synthetic experiment take: vectorised, one by one, and only the drawing; as JSON.

A repeat draws 1000 calibration and 1000 test rows of the paper's Type 3, calibrates the residual and the normalised
score, and counts the test rows covered in each third of the variance.
"""

import json
import sys
from statistics import median

import numpy as np

from benchmarks.timing import seconds
from evencover import Normalized, Residual, calibrate
from evencover.reproduction.simulation import Design, Tally, blocks_of, simulated, tally
from evencover.synthetic import Sample, low_dimensional

_REPEATS, _ROUNDS = 100, 7
_WORLD, _DESIGN, _SCORES = low_dimensional(), Design(), {"residual": Residual(), "normalised": Normalized()}


def main() -> None:
    """Print the median seconds of each way, after a first round that compares their counts."""
    if not np.array_equal(vectorised(), one_by_one()):
        sys.exit("the two ways count different rows")
    ways = (vectorised, one_by_one, drawing)
    rounds = [{way.__name__: seconds(way) for way in ways} for _ in range(_ROUNDS)]
    print(json.dumps({way.__name__: median(found[way.__name__] for found in rounds) for way in ways}))


def vectorised() -> np.ndarray:
    """Return the rows covered, by score, repeat and group."""

    def tallies(sample: Sample, _: np.random.Generator) -> dict[str, Tally]:
        return {name: tally(score, sample.y, sample.oracle(), design=_DESIGN) for name, score in _SCORES.items()}

    found = simulated(_WORLD, tallies, design=_DESIGN, repeats=_REPEATS, seed=0)
    return np.array([found[name].covered for name in _SCORES])


def one_by_one() -> np.ndarray:
    """Return the same by `calibrate`, repeat after repeat."""
    found = np.zeros((len(_SCORES), _REPEATS, 3), dtype=int)
    repeat = 0
    for size, rng in blocks_of(_REPEATS, 0):
        sample = _WORLD.sample(size * _DESIGN.n_rows, seed=rng)
        oracle, variance = sample.oracle(), sample.spread**2
        for start in range(0, len(sample), _DESIGN.n_rows):
            old = slice(start, start + _DESIGN.n_calibration)
            new = slice(start + _DESIGN.n_calibration, start + _DESIGN.n_rows)
            codes = np.searchsorted(np.quantile(variance[old], [1 / 3, 2 / 3]), variance[new])
            for i, score in enumerate(_SCORES.values()):
                made = calibrate(sample.y[old], oracle[old], nonconformity=score).interval(oracle[new], level=0.9)
                found[i, repeat] = np.bincount(codes[made.covers(sample.y[new])], minlength=3)
            repeat += 1
    return found


def drawing() -> None:
    """Draw the same rows, and do nothing with them."""
    for size, rng in blocks_of(_REPEATS, 0):
        _WORLD.sample(size * _DESIGN.n_rows, seed=rng)


if __name__ == "__main__":
    main()
