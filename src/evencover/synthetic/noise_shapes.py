"""Synthetic data whose noise has another shape from row to row: skewed, with two modes, or discrete.

For these data no score of center and spread is pivotal. The conditional distribution function F(y | x) still is,
because F(Y | X) is uniform for every row (for counts, up to the size of its jumps).
"""

import numpy as np
from scipy import stats

from evencover._internal.arrays import FloatArray
from evencover.synthetic.data import SyntheticData
from evencover.synthetic.feature_distributions import Features, UniformFeatures
from evencover.synthetic.target_distributions import AdditiveNoise, Mixture, ParametricDistribution
from evencover.theory.families import NORMAL, LocationScale

_THREE_UNIFORM = UniformFeatures(3)


def skewed(*, features: Features | None = None) -> SyntheticData:
    """Return data whose noise is skewed, and more so along one feature.

    The target is Y = 3 sin(π x₀) + (0.5 + x₁) ε. The noise is a standardised gamma variable, ε = (G − k) / √k with
    G ~ Gamma(k), so it has mean 0 and standard deviation 1. Its skewness is 2 / √k = 0.2 + 1.8 x₂: nearly normal at
    x₂ = 0, exponential at x₂ = 1.

    Parameters
    ----------
    features : Features, optional
        Distribution of the features; by default three, uniform on (0, 1).

    Examples
    --------
    >>> sample = skewed().sample(500, seed=0)
    >>> exact = sample.coverage(sample.oracle(level=0.7).interval())  # of center ± z spread
    >>> exact.min().round(2), exact.max().round(2)
    (np.float64(0.7), np.float64(0.87))
    """
    return SyntheticData("skewed noise", features or _THREE_UNIFORM, ParametricDistribution(stats.gamma, _gamma))


def bimodal(noise: LocationScale = NORMAL, *, features: Features | None = None) -> SyntheticData:
    """Return data whose target has two equally likely modes, with a distance that depends on the features.

    The modes are at 3 sin(π x₀) ± 2 x₂. Within a mode the noise has standard deviation 0.3 + 0.4 x₁. So the modes are
    one at x₂ = 0, and far apart at x₂ = 1.

    Parameters
    ----------
    noise : LocationScale
        Distribution of the noise within a mode.
    features : Features, optional
        Distribution of the features; by default three, uniform on (0, 1).
    """
    lower, upper = (
        AdditiveNoise(lambda X: _wave(X) - 2 * X[:, 2], _within_modes, noise),
        AdditiveNoise(lambda X: _wave(X) + 2 * X[:, 2], _within_modes, noise),
    )
    return SyntheticData("two modes, near and far", features or _THREE_UNIFORM, Mixture((lower, upper)))


def counts(*, features: Features | None = None) -> SyntheticData:
    """Return data whose target is a count: Poisson with rate exp(3 x₀ + x₁ − 1), from 0.37 to 20.

    The mean and the variance are the rate. The target is discrete, so its density is the probability of each count, and
    an interval at the level covers with at least the level, not exactly.

    Parameters
    ----------
    features : Features, optional
        Distribution of the features; by default two, uniform on (0, 1).

    Examples
    --------
    >>> counts().sample(5, seed=0).y
    array([ 1.,  1., 13.,  4.,  8.])
    """
    distribution = ParametricDistribution(stats.poisson, lambda X: {"mu": np.exp(3 * X[:, 0] + X[:, 1] - 1)})
    return SyntheticData("counts", features or UniformFeatures(2), distribution)


def _gamma(X: FloatArray) -> dict[str, FloatArray]:
    """Return the parameters of a gamma distribution with the mean, spread and skewness of `skewed`."""
    spread, root = 0.5 + X[:, 1], 2 / (0.2 + 1.8 * X[:, 2])  # root: √k
    return {"a": root**2, "loc": _wave(X) - spread * root, "scale": spread / root}


def _wave(X: FloatArray) -> FloatArray:
    """Return 3 sin(π x₀)."""
    return np.asarray(3 * np.sin(np.pi * X[:, 0]))


def _within_modes(X: FloatArray) -> FloatArray:
    """Return the standard deviation within each mode of `bimodal`."""
    return np.asarray(0.3 + 0.4 * X[:, 1])
