"""Print the peak memory, in bytes, of calibration on n rows and prediction for n more, beyond the input arrays."""

import resource
import sys

from benchmarks.workloads import evencover_intervals, sample


def main() -> None:
    """Print the rise of the peak above that of the imports and the input arrays."""
    n = int(sys.argv[1])
    evencover_intervals(sample(1000, seed=2), sample(1000, seed=3))  # imports the modules that are loaded on first use
    calibration, test = sample(n, seed=0), sample(n, seed=1)
    before = peak()
    intervals = evencover_intervals(calibration, test)  # kept, so that it counts
    print(peak() - before)
    del intervals


def peak() -> int:
    """Return the largest resident size so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
