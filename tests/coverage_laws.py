"""What the tests of coverage expect, from SciPy and by definition: laws of counts, intervals, Holm's adjustment."""

from math import nan

import numpy as np
from scipy.signal import fftconvolve
from scipy.stats import betabinom, binom, binomtest

from evencover import conformal_rank


def covered_count_pmf(pools, level):
    """Return the probabilities that 0, 1, ... rows are covered, for independent pools of (rows, calibration rows).

    It is a sum of BetaBinomial counts; binomial if the calibration rows are not known (None).
    """
    total = np.ones(1)
    for m, n in pools:
        counts, rank = np.arange(m + 1), None if n is None else conformal_rank(n, level)
        if n is None:
            own = binom.pmf(counts, m, float(level))
        else:
            own = betabinom.pmf(counts, m, rank, n + 1 - rank) if rank <= n else counts == m
        total = np.maximum(fftconvolve(total, own.astype(float)), 0.0)
    return total


def clopper_pearson_lower(covered, n, groups=1):
    """Return the lower end of the interval for a share; the intervals of so many groups hold jointly at 95 %."""
    return binomtest(covered, n).proportion_ci(1 - 0.05 / groups, "exact").low


def holm(p_values):
    """Return Holm-adjusted p-values, step by step; NaN is no test."""
    tested = sorted((p, position) for position, p in enumerate(p_values) if not np.isnan(p))
    adjusted, largest = [nan] * len(p_values), 0.0
    for step, (p, position) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - step) * p))
        adjusted[position] = largest
    return adjusted
