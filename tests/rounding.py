"""Numbers rounded up to a grid, by their exponents: an independent way to what histograms of scores do with bits."""

import numpy as np


def rounded_up(numbers, bits):
    """Return the smallest numbers with this many binary digits after the leading one that are at least these."""
    numbers = np.asarray(numbers, dtype=float)
    finite = np.where(np.isfinite(numbers), numbers, 0.0)
    exponents = np.maximum(np.frexp(finite)[1], -1021) - 1 - bits  # of the last digit
    with np.errstate(over="ignore"):
        rounded = np.ldexp(np.ceil(np.ldexp(finite, -exponents)), exponents)
    return np.where(np.isfinite(numbers), rounded, numbers)
