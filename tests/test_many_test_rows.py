"""p-values of a number of covered rows: by hand, and of more than a million rows against exact ones."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import betainc, betaincc, ndtr
from scipy.stats import beta, betabinom, binom

from evencover import conformal_rank
from evencover.diagnostics import exact_tests
from tests.coverage_laws import covered_count_pmf

coverage_p_values = exact_tests.coverage_p_values

LEVELS = [Fraction(each) for each in ("0.5", "0.9", "0.99", "0.9999", "0.999999")]
STEPS = (-4, -1.5, -0.5, 0, 0.2, 1, 3)  # from the mean, in standard deviations


def exact_p_values(m, n, level, covered):
    """Return P(X <= covered) and P(X >= covered) for one pool: binomial tails, integrated over Beta(n + 1 − k, k)."""
    missed, a = m - covered, n + 1 - conformal_rank(n, level)
    b, deviation = n + 1 - a, math.sqrt(a * (n + 1 - a) / (n + 2)) / (n + 1)
    low, high = max(0.0, a / (n + 1) - 45 * deviation), min(1.0, a / (n + 1) + 45 * deviation)
    near = (missed + np.sqrt(missed + 1) * np.linspace(-12, 12, 13)) / m  # where the binomial tail changes
    ends = np.unique(np.clip([*np.linspace(low, high, 60), *near], low, high))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    middle, half = (ends[1:] + ends[:-1])[:, None] / 2, np.diff(ends)[:, None] / 2
    rate = middle + half * nodes
    density = half * weights * np.exp(beta.logpdf(rate, a, b))
    under = betainc(missed, covered + 1, rate) if missed else np.ones(rate.shape)
    over = betaincc(missed + 1, covered, rate) if covered else np.ones(rate.shape)
    return float((density * under).sum() / density.sum()), float((density * over).sum() / density.sum())


def tails(pmf, covered):
    """Return P(X <= covered) and P(X >= covered)."""
    return float(pmf[: covered + 1].sum()), float(pmf[covered:].sum())


def test_p_values_by_hand():
    assert coverage_p_values([(2, 3)], 0.9, 2) == (1, 1)  # an infinite threshold covers all
    assert coverage_p_values([(2, 3)], 0.9, 1) == (0, 1)
    for covered, expected in enumerate([(0.01, 1.0), (0.19, 0.99), (1.0, 0.81)]):
        assert coverage_p_values([(2, None)], 0.9, covered) == pytest.approx(expected)
    law = np.convolve([0.1, 0.9], [0.01, 0.18, 0.81])  # 9 calibration rows cover 9 of 10 new ones
    for covered in range(4):
        assert coverage_p_values([(1, 9), (2, None)], 0.9, covered) == pytest.approx(tails(law, covered))
    assert law[3] == pytest.approx(0.729)


@pytest.mark.parametrize(
    "stratum", [(1, 2, 1), (30, 50, 45), (4000, 13_000, 11_700), (200, 13_000, 12_990), (900, 13_000, 7)]
)
def test_the_law_of_many_rows_of_a_stratum_is_computed_quickly(stratum):
    low, exact = exact_tests._hypergeometric_pmf(*stratum)
    also_low, quick = exact_tests._hypergeometric_pmf(*stratum, quickly=True)
    assert low == also_low
    np.testing.assert_allclose(quick, exact, rtol=1e-10, atol=1e-200)


def test_p_values_of_many_rows_in_strata_are_those_of_few():
    """The laws are computed in another way if there are more than 12 000 rows."""
    strata = [(500, 4000, 3600), (700, 5000, 4400)]
    many = exact_tests.stratified_p_values([*strata, (0, 4000, 3600)], 1050)
    assert many == pytest.approx(exact_tests.stratified_p_values(strata, 1050), rel=1e-10)


def numbers_of_rows(m, mean, deviation):
    """Return numbers of covered rows around the mean, and all rows."""
    return [*{min(m, max(0, round(mean + step * deviation))) for step in STEPS}, m]


ONE_POOL = [(m, level, n) for m in (10**6 + 1, 10**8) for level in LEVELS for n in (1, 9, 50, 10**5, 10**7)]


@pytest.mark.parametrize(("m", "level", "n"), [*ONE_POOL, (10**8, LEVELS[-1], 10**9)])
def test_one_pool(m, level, n):
    rank = conformal_rank(n, level)
    if rank > n:
        assert coverage_p_values([(m, n)], level, m) == (1, 1)
        assert coverage_p_values([(m, n)], level, m - 1) == (0, 1)
        return
    share = rank / (n + 1)
    variance = m * share * (1 - share) * (1 + (m - 1) / (n + 2))
    for covered in numbers_of_rows(m, m * share, math.sqrt(variance)):
        found, expected = coverage_p_values([(m, n)], level, covered), exact_p_values(m, n, level, covered)
        assert found == pytest.approx(expected, abs=1e-6 if n > 1 else 5e-5)


@pytest.mark.parametrize("m", [10**6 + 1, 10**8, 10**10])
@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_a_fixed_threshold(m, level):
    missed, share = binom(m, float(1 - level)), float(level)
    for covered in numbers_of_rows(m, m * share, math.sqrt(m * share * (1 - share))):
        expected = missed.sf(m - covered - 1), missed.cdf(m - covered)
        assert coverage_p_values([(m, None)], level, covered) == pytest.approx(expected, abs=1e-6)


SEVERAL = {
    "few calibration rows": [(30_000, 20)] * 4,
    "very few": [(60_000, 3), (40_000, 9), (10_000, 1)],
    "different": [(100_000, 10**6), (50_000, 1000), (900, 50), (3000, None), (10_000, 5)],
    "many": [(500 + 10 * i, 30 + i) for i in range(40)],
    "one large": [*[(20, 200 + i) for i in range(20)], (60_000, 9)],
}


@pytest.mark.parametrize("level", LEVELS[:4], ids=str)
@pytest.mark.parametrize("pools", SEVERAL.values(), ids=SEVERAL)
def test_several_pools(pools, level, monkeypatch):
    pmf = covered_count_pmf(pools, level)
    counts = np.arange(len(pmf))
    mean = float(pmf @ counts)
    deviation = math.sqrt(float(pmf @ (counts - mean) ** 2))
    assert coverage_p_values(pools, level, round(mean)) == pytest.approx(tails(pmf, round(mean)), abs=1e-9)
    monkeypatch.setattr(exact_tests, "_MAX_COUNTS", 1)
    for covered in numbers_of_rows(len(pmf) - 1, mean, deviation):
        expected = tails(pmf, covered)
        assert coverage_p_values(pools, level, covered) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("level", LEVELS[-2:], ids=str)
def test_several_large_pools_of_which_few_rows_are_missed(level):
    """Of a hundred million rows, ten thousand or a hundred are missed."""
    pools = [(5 * 10**7, 3 * 10**6), (4 * 10**7, 10**7), (10**7, None), (10**4, 100)]
    counts = np.arange(20_000)
    pmf = np.ones(1)
    for m, n in pools[:2]:
        missed = n + 1 - conformal_rank(n, level)
        pmf = np.convolve(pmf, betabinom.pmf(counts, m, missed, n + 1 - missed))
    pmf = np.convolve(pmf, binom.pmf(counts, 10**7, float(1 - level)))
    mean = float(pmf @ np.arange(len(pmf)))
    for missed in {round(mean * share) for share in (0, 0.9, 0.98, 1, 1.01, 1.05)}:
        expected = 1 - float(pmf[:missed].sum()), float(pmf[: missed + 1].sum())
        found = coverage_p_values(pools, level, sum(m for m, _ in pools) - missed)
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("pools", "covered"),
    [
        ([(200_000, 50)], 170_000),
        ([(200_000, 10**6)], 180_200),
        ([(200_000, None)], 179_800),
        ([(200_000, 5)], 200_000),
        ([(200_000, 5)], 199_999),
        ([(200_000, 2000)], 0),
        ([(100_000, 20)] * 2, 150_000),
        ([(100_000, 20)] * 2, 198_000),
        ([(100_000, 1000), (90_000, None), (10_000, 5)], 180_300),
    ],
)
def test_p_values_of_very_many_rows_agree_with_the_exact_ones(pools, covered, monkeypatch):
    """Also for pools of few calibration rows, whose coverage is skewed."""
    expected = tails(covered_count_pmf(pools, 0.9), covered)
    monkeypatch.setattr(exact_tests, "_MAX_COUNTS", 1)
    found = coverage_p_values(pools, 0.9, covered)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-12)
    assert found == pytest.approx(expected, abs=1e-6)


def test_p_values_of_a_billion_rows_are_finite_and_add_up():
    for pools in ([(10**9, 10**6)], [(10**9, None)], [(10**8, 10**6)] * 10, [(10**8, 5)] * 3, [(10**7, 1000)] * 300):
        total = sum(m for m, _ in pools)
        covered = total if pools[0][1] == 5 else round(0.9 * total)
        under, over = coverage_p_values(pools, 0.9, covered)
        assert 1 <= under + over <= 2
        assert not math.isnan(under)


@pytest.mark.parametrize("n", [10**7, 10**9, 10**11])
@pytest.mark.parametrize("tails", [None, (Fraction(1, 2), Fraction(1, 2))])
def test_p_values_of_very_many_calibration_rows(n, tails):
    """The number of covered rows is nearly normal, with the variance of test rows and calibration rows."""
    m, level = n // 2, Fraction(9, 10)
    mean, deviation = m * 0.9, math.sqrt(m * 0.09 * (1 + m / n))
    for steps in (-2, 0, 1.5):
        under, over = coverage_p_values([(m, n)], level, round(mean + steps * deviation), tails)
        assert under == pytest.approx(float(ndtr(steps)), abs=0.002)
        assert over == pytest.approx(float(ndtr(-steps)), abs=0.002)
