"""`rows_needed` for a tolerance, and `max_groups` with the rows."""

import numpy as np
import pytest
from scipy.stats import beta

from evencover import BySpread, Prediction, Rows, conformal_rank
from evencover.diagnostics import max_groups, rows_needed
from evencover.quantiles import rows_for_finite_threshold


def probabilities(n, level, tolerance):
    """Return the probability of a coverage within the tolerance for each number of rows, computed by SciPy."""
    ranks = np.array([conformal_rank(each, level) for each in n.tolist()])
    coverage = beta(ranks, n + 1 - ranks)
    return coverage.cdf(level + tolerance) - coverage.cdf(level - tolerance)


@pytest.mark.parametrize("level", [0.05, 0.3, 0.5, 0.8, 0.9, 0.95, 0.955, 0.99])
@pytest.mark.parametrize("tolerance", [0.02, 0.05, 0.3])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
def test_the_tolerance_holds_from_that_number_of_rows_on(level, tolerance, confidence):
    needed, smallest = rows_needed(level, tolerance, confidence), rows_for_finite_threshold(level)
    n = np.arange(smallest, 3 * needed + 200)
    holds = probabilities(n, level, tolerance) >= confidence
    assert holds[n >= needed].all()
    assert needed == smallest or not holds[needed - 1 - smallest]


def test_small_tolerances_are_fast():
    assert 3.4e9 < rows_needed(0.9, 1e-5, 0.95) < 3.5e9


def test_groups_have_the_rows_they_need():
    needed = rows_needed(0.9, 0.05, 0.9)
    for n in (needed - 1, needed, 2 * needed + 1, 2 * needed + 2, 1000, 5000):
        n_groups = max_groups(n, 0.9, 0.05, 0.9)
        if n_groups:
            prediction = Prediction(np.zeros(n), np.random.default_rng(n).random(n))
            groups = BySpread(n_groups).learn(Rows(prediction))
            ordinary = np.bincount(groups.codes[groups.edge == 0] if groups.edge is not None else groups.codes)
            assert ordinary.min() >= needed
        assert n // (n_groups + 1) - 1 < needed
    assert max_groups(needed - 1, 0.9, 0.05, 0.9) == 0
    assert max_groups(needed, 0.9, 0.05, 0.9) == 1
