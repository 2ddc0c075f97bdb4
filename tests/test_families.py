"""Families of distributions: the paper's forms, and any SciPy distribution."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from evencover.theory import EXPONENTIAL, LAPLACE, NORMAL, TRIANGULAR, UNIFORM, Family, LocationScale
from tests.synthetic import ONE_IN_A_MILLION

ROOT_2, ROOT_3 = np.sqrt(2), np.sqrt(3)
PAPER = {  # the family, the paper's g, and its support
    "normal": (NORMAL, lambda x: np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), (-np.inf, np.inf)),
    "Laplace": (LAPLACE, lambda x: np.exp(-ROOT_2 * np.abs(x)) / ROOT_2, (-np.inf, np.inf)),
    "uniform": (UNIFORM, lambda x: 1 / (2 * ROOT_3) * (np.abs(x) <= ROOT_3), (-ROOT_3, ROOT_3)),
    "triangular": (
        TRIANGULAR,
        lambda x: (x / 9 + 2 * ROOT_2 / 9) * ((x >= -2 * ROOT_2) & (x <= ROOT_2)),
        (-2 * ROOT_2, ROOT_2),
    ),
    "exponential": (EXPONENTIAL, lambda x: np.exp(-x - 1) * (x >= -1), (-1, np.inf)),
}
OTHERS = {
    "t": LocationScale(stats.t(5)),
    "gamma": LocationScale(stats.gamma(2.0, scale=3.0), "gamma"),
    "skewed": LocationScale(stats.skewnorm(4.0, loc=7.0)),
    "unfrozen": LocationScale(stats.logistic),
    "Cauchy": LocationScale(stats.cauchy(), location=0, scale=1),
}
ALL = {name: family for name, (family, _, _) in PAPER.items()} | OTHERS


@pytest.mark.parametrize("name", PAPER)
def test_the_standardised_density_is_the_papers(name):
    family, g, _ = PAPER[name]
    assert family.name == name
    x = np.linspace(-4, 4, 4001) + 1e-7  # not at the jumps
    np.testing.assert_allclose(family.standard_density(x), g(x), atol=1e-12)


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_forms_are_densities_of_mean_0_and_variance_1(name):
    _, g, support = PAPER[name]
    pieces = (support[0], 0.0, support[1])  # Laplace has a corner at 0
    moments = [
        sum(quad(lambda x, p=power: x**p * g(x), *ends, epsabs=1e-12)[0] for ends in pairwise(pieces))
        for power in (0, 1, 2)
    ]
    np.testing.assert_allclose(moments, [1, 0, 1], atol=1e-9)


@pytest.mark.parametrize("width", [0.5, 5.0])
def test_the_triangular_density_can_be_rewritten(width):
    """2y/λ² on [0, λ] is the location-scale density at mean 2λ/3 and spread λ/(3√2)."""
    y = np.linspace(-1, 6, 701) + 1e-7
    plain = np.where((y >= 0) & (y <= width), 2 * y / width**2, 0)
    np.testing.assert_allclose(TRIANGULAR.density(y, 2 * width / 3, width / (3 * ROOT_2)), plain, atol=1e-12)


def test_the_exponential_distribution_has_equal_mean_and_spread():
    y = np.linspace(-1, 9, 501)
    np.testing.assert_allclose(EXPONENTIAL.density(y, 2.5, 2.5), stats.expon(scale=2.5).pdf(y), atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_density_cdf_and_quantile_are_consistent(name):
    family, mean, spread = ALL[name], 3.0, 0.5
    p = np.linspace(0.05, 0.95, 19)
    y = family.quantile(p, mean, spread)
    np.testing.assert_allclose(family.cdf(y, mean, spread), p, atol=1e-9)
    for low, high, share in zip(y, y[1:], np.diff(p), strict=False):
        assert quad(lambda each: family.density(each, mean, spread), low, high)[0] == pytest.approx(share, abs=1e-7)


@pytest.mark.parametrize("name", ALL)
def test_samples_follow_the_family_with_each_rows_mean_and_spread(name):
    rng = np.random.default_rng(0)
    mean, spread = rng.normal(size=20_000), np.exp(rng.normal(size=20_000))
    y = ALL[name].sample(mean, spread, rng)
    assert stats.kstest(ALL[name].cdf(y, mean, spread), "uniform").pvalue > ONE_IN_A_MILLION


@pytest.mark.parametrize("name", [name for name in ALL if name != "Cauchy"])
def test_mean_and_spread_are_those_of_the_target(name):
    y = ALL[name].sample(np.full(200_000, 3.0), np.full(200_000, 0.5), np.random.default_rng(1))
    assert abs(y.mean() - 3) < 5 * 0.5 / np.sqrt(len(y))
    assert y.std() == pytest.approx(0.5, rel=0.05)


def test_a_family_has_a_member_for_every_combination_of_values():
    family = Family(
        lambda shape, scale: stats.gamma(shape, scale=scale), {"shape": (1, 2), "scale": (1, 3, 5)}, "gamma"
    )
    members = list(family.members())
    assert [tuple(theta.values()) for theta, _ in members] == [(1, 1), (1, 3), (1, 5), (2, 1), (2, 3), (2, 5)]
    assert members[-1][1].mean() == 10
    assert repr(family) == "Family(gamma, shape, scale)"


def test_a_subfamily_has_the_given_moments():
    family = EXPONENTIAL.along(lambda rate: (1 / rate, 1 / rate), rate=(0.5, 2.0))
    for theta, member in family.members():
        assert member.mean() == member.std() == 1 / theta["rate"]
        assert member.cdf(member.ppf(0.3)) == pytest.approx(0.3)
