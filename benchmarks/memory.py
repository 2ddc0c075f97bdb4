"""Peak memory of calibrating on n rows and predicting on n more, beyond the rows themselves; printed in bytes."""

import resource
import sys

from benchmarks.workloads import evencover_intervals, sample


def main() -> None:
    """Print by how much the peak rises above that of the imports and the rows."""
    n = int(sys.argv[1])
    evencover_intervals(sample(1000, seed=2), sample(1000, seed=3))  # loads what is loaded on first use
    calibration, test = sample(n, seed=0), sample(n, seed=1)
    before = _peak()
    made = evencover_intervals(calibration, test)  # held, so that it counts
    print(_peak() - before)
    del made


def _peak() -> int:
    """Return the largest resident size so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
