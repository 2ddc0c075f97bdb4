"""The conformal rank and quantile."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evencover import conformal_quantile, conformal_rank
from evencover.quantiles import level_fraction, rows_for_finite_threshold


@pytest.mark.parametrize("decimals", [2, 3])
def test_rank_is_exact_for_every_n_and_level(decimals):
    """The float 0.9 means 9/10, for every n up to 2000 near a whole (n + 1) level, where rounding errors matter."""
    for numerator in range(1, 10**decimals):
        exact = Fraction(numerator, 10**decimals)
        whole = range(exact.denominator - 1, 2001, exact.denominator)
        sizes = {n + step for n in whole for step in (-1, 0, 1)} | {0, 1}
        assert all(conformal_rank(n, numerator / 10**decimals) == ceil((n + 1) * exact) for n in sizes)


@pytest.mark.parametrize(
    ("level", "exact"),
    [
        (0.1 + 0.2, Fraction(3, 10)),
        (1 - 0.1, Fraction(9, 10)),
        (np.float32(0.9), Fraction(9, 10)),
        (np.float64(0.95), Fraction(19, 20)),
        (Fraction(1, 3), Fraction(1, 3)),
        (1e-13, Fraction(1, 10**13)),
        (1 - 1e-13, 1 - Fraction(1, 10**13)),
    ],
)
def test_a_float_level_stands_for_its_decimal_digits(level, exact):
    """Also after float arithmetic, in single precision, and close to 0 and 1."""
    assert level_fraction(level) == exact


@given(st.integers(0, 500), st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(999, 1000)))
def test_rank_agrees_with_the_definition(n, level):
    """For any fraction as level."""
    assert conformal_rank(n, level) == ceil((n + 1) * level)


@given(st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(999, 1000)))
def test_rows_for_a_finite_threshold(level):
    """It is the smallest n whose rank is at most n."""
    n = rows_for_finite_threshold(level)
    assert conformal_rank(n, level) <= n
    assert conformal_rank(n - 1, level) > n - 1


@given(st.lists(st.integers(-5, 5), max_size=40), st.floats(0.001, 0.999))
def test_quantile_is_the_kth_smallest(scores, level):
    """Also with ties, and inf if the rank exceeds n."""
    rank = conformal_rank(len(scores), level)
    expected = sorted(scores)[rank - 1] if rank <= len(scores) else np.inf
    assert conformal_quantile(np.array(scores, dtype=float), level) == expected


@pytest.mark.parametrize("weight", [1.0, 0.1, 1 / 3, 1e-300, 7e12])
def test_equal_weights_change_nothing(weight):
    """For any weight and every rank; rounded sums of 0.1 would give some wrong ranks."""
    levels = [percent / 100 for percent in range(1, 100)]
    for n in range(1, 60):
        scores, weights = np.arange(float(n)), np.full(n, weight)
        weighted = conformal_quantile(scores, levels, weights=weights, test_weight=weight)
        np.testing.assert_array_equal(weighted, conformal_quantile(scores, levels))


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), min_size=1, max_size=30),
    st.integers(0, 4),
    st.integers(1, 15),
)
def test_weighted_quantile_agrees_with_the_definition(rows, test_weight, sixteenths):
    """It is the smallest score with enough weight at or below it; levels in sixteenths keep the sums exact."""
    scores, weights = (np.array(each, dtype=float) for each in zip(*rows, strict=True))
    level = sixteenths / 16
    needed = level * (weights.sum() + test_weight)
    enough = [t for t in scores if weights[scores <= t].sum() >= needed > 0]
    found = conformal_quantile(scores, level, weights=weights, test_weight=test_weight)
    assert found == min(enough, default=np.inf)


def test_shape_depends_on_levels_and_test_weights():
    """A number for one of each; else one column for each level, one row for each test weight."""
    scores, weights = np.arange(20.0), np.ones(20)
    assert isinstance(conformal_quantile(scores, 0.5), float)
    assert conformal_quantile(scores, [0.5, 0.8]).tolist() == [10.0, 16.0]
    assert conformal_quantile(scores, np.array(0.5)) == 10.0
    assert conformal_quantile(scores, 0.5, weights=weights, test_weight=[1.0, 3.0]).shape == (2,)
    assert conformal_quantile(scores, [0.5, 0.8], weights=weights, test_weight=[1.0, 3.0]).shape == (2, 2)


def test_scores_are_not_reordered():
    """The caller's array keeps its order."""
    scores = np.array([3.0, 1.0, 2.0])
    conformal_quantile(scores, 0.5)
    assert scores.tolist() == [3.0, 1.0, 2.0]
