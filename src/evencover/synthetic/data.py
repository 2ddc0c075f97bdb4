"""Synthetic data: distributions of features and target, from which the exact coverage of any interval follows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr

from evencover.inputs.arrays import FloatArray, check_count, checked_nonnegative, checked_vector, generator
from evencover.intervals import Intervals, IntervalUnion
from evencover.predictions import Prediction
from evencover.quantile_functions import checked_probabilities
from evencover.quantiles import level_fraction
from evencover.synthetic.distributions import (
    AdditiveNoise,
    ConditionalDistribution,
    Features,
    Mixture,
    NormalFeatures,
    ParametricDistribution,
    SubgroupFeatures,
    TwoModeFeatures,
    UniformFeatures,
    check_conditional_distribution,
)
from evencover.theory.families import NORMAL, LocationScale

_TEN_NORMAL = NormalFeatures(10, variance=10.0)
_TEN_UNIFORM = UniformFeatures(10, 0.0, 10.0)
_MANY_PROBABILITIES = ndtr(np.linspace(-4.0, 4.0, 161))  # at equal steps of the normal score


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """A source of synthetic rows whose conditional distribution is known.

    Parameters
    ----------
    name : str
        Name for titles and tables.
    features : Features
        The distribution of X.
    distribution : ConditionalDistribution
        The distribution of the target given X: its ``mean``, ``spread``, ``density``, ``cdf`` and ``quantile``.

    Examples
    --------
    >>> data = low_dimensional()
    >>> sample = data.sample(1000, seed=0)
    >>> exact = data.coverage(data.oracle_interval(sample.X, level=0.9), sample.X)
    >>> exact.min().round(6), exact.max().round(6)
    (np.float64(0.9), np.float64(0.9))
    """

    name: str
    features: Features
    distribution: ConditionalDistribution

    def __post_init__(self) -> None:
        if isinstance(self.features, type) or not hasattr(self.features, "draw"):
            raise TypeError(f"features must be an object with a draw(n, rng) method; got {self.features!r}")
        check_conditional_distribution(self.distribution, "distribution")

    def sample(self, n: int, *, seed: Any = 0) -> "Sample":
        """Draw n rows.

        Parameters
        ----------
        n : int
            Number of rows.
        seed : int, numpy Generator or RandomState
            An int gives the same rows each time. A generator continues from its current state.
        """
        check_count(n, "n")
        rng = generator(seed)
        X = _checked_features(self.features.draw(n, rng))
        if len(X) != n:
            raise ValueError(f"features must draw {n} rows; got {len(X)}")
        y = checked_vector(
            self.distribution.sample(X, rng), "the distribution's sample", length=n, matched="the features"
        )
        return Sample(X, y, *self._moments(X), source=self)

    def oracle(self, X: FloatArray, *, level: float = 0.9) -> Prediction:
        """Return the prediction of a model that knows the conditional mean and standard deviation.

        The bounds are center ± z spread, with z the normal quantile of (1 + level) / 2.
        """
        return Prediction(*self._moments(_checked_features(X)), level=level)

    def oracle_distribution(self, X: FloatArray, *, probabilities: Any = None, level: float = 0.9) -> Prediction:
        """Return the prediction of a model that knows the conditional distribution: its mean, spread and quantiles.

        Between the quantiles, and beyond the outermost ones, `Prediction` says how it continues. Its cdf is the true
        one at the quantiles. Between two quantiles it differs by less than the step between their probabilities.

        Parameters
        ----------
        X : array-like of shape (n, features)
            The features.
        probabilities : array-like of shape (Q,), optional
            Probabilities of the quantiles, strictly increasing. By default 161, with normal scores from −4 to 4 in
            steps of 0.05.
        level : float
            Level of the prediction's bounds, which are quantiles, too.
        """
        X = _checked_features(X)
        mean, spread = self._moments(X)
        if probabilities is None:
            probabilities = _MANY_PROBABILITIES
        columns = [self.distribution.quantile(p, X) for p in checked_probabilities(probabilities, "probabilities")]
        quantiles = np.stack(columns, axis=-1)
        return Prediction(mean, spread, quantiles=quantiles, probabilities=probabilities, level=level)

    def oracle_interval(self, X: FloatArray, *, level: float = 0.9) -> Intervals:
        """Return the interval between the true quantiles (1 − level) / 2 and (1 + level) / 2."""
        X = _checked_features(X)
        tail = float(1 - level_fraction(level)) / 2
        return Intervals(self.distribution.quantile(tail, X), self.distribution.quantile(1 - tail, X), level=level)

    def coverage(self, intervals: Intervals | IntervalUnion, X: FloatArray) -> FloatArray:
        """Return the probability that each row's target lies in its interval, given its features.

        The shape is that of the bounds: (n,), or (n, L) for L levels. The coverage of a union is the sum over its
        pieces, which are disjoint.
        """
        if isinstance(intervals, IntervalUnion):
            return np.asarray(sum(self.coverage(piece, X) for piece in intervals.pieces))
        if not isinstance(intervals, Intervals):
            raise TypeError(
                f"intervals must be Intervals, such as Intervals(lower, upper); got {type(intervals).__name__}"
            )
        X = _checked_features(X)
        if len(intervals) != len(X):
            raise ValueError(f"X must have {len(intervals)} rows, as many as the intervals; got {len(X)}")
        below = np.nextafter(intervals.lower, -np.inf)  # intervals are closed
        columns = zip(below.reshape(len(X), -1).T, intervals.upper.reshape(len(X), -1).T, strict=True)  # one per level
        inside = [self.distribution.cdf(upper, X) - self.distribution.cdf(lower, X) for lower, upper in columns]
        return np.where(intervals.empty, 0.0, np.stack(inside, axis=-1).reshape(intervals.lower.shape))

    def _moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the conditional mean and spread. Raise ValueError unless each has one number per row."""
        mean = checked_vector(self.distribution.mean(X), "the distribution's mean", length=len(X), matched="X")
        spread = self.distribution.spread(X)
        spread = checked_nonnegative(spread, "the distribution's spread", length=len(X), matched="X")
        return mean, spread

    def __repr__(self) -> str:
        return f"SyntheticData({self.name})"


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn from synthetic data: features, targets, and the true mean and spread of each target.

    Parameters
    ----------
    X : ndarray of shape (n, features)
        Features.
    y : ndarray of shape (n,)
        Targets.
    mean, spread : ndarray of shape (n,)
        Conditional mean and standard deviation of each target.
    source : SyntheticData
        The synthetic data that the rows were drawn from.
    """

    X: FloatArray
    y: FloatArray
    mean: FloatArray
    spread: FloatArray
    source: SyntheticData = field(kw_only=True, repr=False)

    def oracle(self, *, level: float = 0.9) -> Prediction:
        """Return the prediction of a model that knows the conditional mean and standard deviation."""
        return Prediction(self.mean, self.spread, level=level)

    def oracle_distribution(self, *, probabilities: Any = None, level: float = 0.9) -> Prediction:
        """Return the prediction of a model that knows the conditional distribution: its mean, spread and quantiles."""
        return self.source.oracle_distribution(self.X, probabilities=probabilities, level=level)

    def coverage(self, intervals: Intervals | IntervalUnion) -> FloatArray:
        """Return the probability that each row's target lies in its interval, given its features."""
        return self.source.coverage(intervals, self.X)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Sample({len(self)} rows of {self.X.shape[1]} features from {self.source!r})"


def heteroskedastic(n: int, *, seed: int = 0) -> Sample:
    """Draw n rows whose noise grows tenfold along one feature: a simple example to start with.

    Three features, uniform on (0, 1); the target is normal with mean 3 sin(π x₀) + x₁ and standard deviation
    0.2 + 1.8 x₂².

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
        Seed of the draws. The same seed gives the same rows.

    Examples
    --------
    >>> sample = heteroskedastic(1000, seed=0)
    >>> sample.X.shape, bool(np.all(sample.spread >= 0.2))
    ((1000, 3), True)
    """
    distribution = AdditiveNoise(lambda X: 3 * np.sin(np.pi * X[:, 0]) + X[:, 1], lambda X: 0.2 + 1.8 * X[:, 2] ** 2)
    return SyntheticData("noise that grows tenfold", UniformFeatures(3), distribution).sample(n, seed=seed)


def homoskedastic(noise: LocationScale = NORMAL, *, features: Features | None = None) -> SyntheticData:
    """Return the control: mean(x), constant variance 0.1.

    By default the `noise` is normal, and ten `features` have two modes on [0, 10].
    """
    distribution = AdditiveNoise(_average, lambda X: np.full(len(X), np.sqrt(0.1)), noise)
    return SyntheticData("homoskedastic control", features or TwoModeFeatures(10, 0.0, 10.0), distribution)


def constant_mean(noise: LocationScale = NORMAL, *, features: Features | None = None) -> SyntheticData:
    """Return the paper's Type 1: mean 1, variance ``0.1 |mean(x)|``.

    By default the `noise` is normal, and ten `features` are normal with variance 10.
    """
    distribution = AdditiveNoise(lambda X: np.ones(len(X)), lambda X: np.sqrt(0.1 * np.abs(_average(X))), noise)
    return SyntheticData("Type 1, constant mean", features or _TEN_NORMAL, distribution)


def functional_dependence(noise: LocationScale = NORMAL, *, features: Features | None = None) -> SyntheticData:
    """Return the paper's Type 2: mean(x), variance ``0.1 √|mean(x)|``.

    By default the `noise` is normal, and ten `features` are normal with variance 10.
    """
    distribution = AdditiveNoise(_average, lambda X: np.sqrt(0.1 * np.sqrt(np.abs(_average(X)))), noise)
    return SyntheticData("Type 2, functional dependence", features or _TEN_NORMAL, distribution)


def low_dimensional(noise: LocationScale = NORMAL, *, features: Features | None = None) -> SyntheticData:
    """Return the paper's Type 3: mean(x), variance ``0.1 |x₂ + 0.1|``.

    By default the `noise` is normal, and ten `features` are uniform on [0, 10].
    """
    distribution = AdditiveNoise(_average, lambda X: np.sqrt(0.1 * np.abs(X[:, 1] + 0.1)), noise)
    return SyntheticData("Type 3, low-dimensional noise", features or _TEN_UNIFORM, distribution)


def two_modes(
    noise: LocationScale = NORMAL, *, features: Features | None = None, mixture: bool = False, as_written: bool = False
) -> SyntheticData:
    """Return the paper's Type 4: one mode at mean(x) − 1, one at mean(x) + 1.

    Parameters
    ----------
    noise : LocationScale
        Distribution of the noise within a mode.
    features : Features, optional
        Distribution of the features; by default ten normal features with variance 10.
    mixture : bool
        True: the mode of each row is random, each with probability 1/2, so the target given x is a mixture. False,
        as in the paper: the lower mode if mean(x) ≤ 2, otherwise the upper mode. Then the target given x has one mode.
    as_written : bool
        True: the variance within a mode is 0.01 mean(x)², the formula printed in the paper. False: it is
        ``0.1 mean(|x|)``, the formula in the paper's code.
    """
    spread = _spread_as_written if as_written else _two_modes_spread
    lower, upper = (
        AdditiveNoise(lambda X: _average(X) - 1, spread, noise),
        AdditiveNoise(lambda X: _average(X) + 1, spread, noise),
    )
    if mixture:
        return SyntheticData("Type 4, mixture", features or _TEN_NORMAL, Mixture((lower, upper)))
    distribution = AdditiveNoise(lambda X: np.where(_average(X) <= 2, lower.mean(X), upper.mean(X)), spread, noise)
    return SyntheticData("Type 4, mode set by the mean", features or _TEN_NORMAL, distribution)


def toy(noise: LocationScale = NORMAL, *, as_written: bool = False) -> SyntheticData:
    """Return the toy model of the paper's tables: the target's mean is mean(x) of five features.

    Parameters
    ----------
    noise : LocationScale
        Distribution of the noise.
    as_written : bool
        True: the equation printed in the paper, with variance 0.01 mean(x)² and features uniform on [0, 100].
        False: the settings of the paper's code, with variance 0.1 mean(x) and features uniform on [0, 10].
    """
    if as_written:
        return SyntheticData(
            "toy model as written",
            UniformFeatures(5, 0.0, 100.0),
            AdditiveNoise(_average, _spread_as_written, noise),
        )
    distribution = AdditiveNoise(_average, lambda X: np.sqrt(0.1 * _average(X)), noise)
    return SyntheticData("toy model as run", UniformFeatures(5, 0.0, 10.0), distribution)


def two_subgroups(noise: LocationScale = NORMAL) -> SyntheticData:
    """Return the example of the paper's introduction: mean 0.1 x + 2 s, with s = 0 or 1 for the two subgroups.

    The standard deviation of the `noise` (normal by default) is 0.1 for s = 0 and 0.5 for s = 1.
    """
    distribution = AdditiveNoise(
        lambda X: 0.1 * X[:, 0] + 2 * X[:, 1], lambda X: np.where(X[:, 1] == 1, 0.5, 0.1), noise
    )
    return SyntheticData("two subgroups", SubgroupFeatures(), distribution)


def unit_square(noise: LocationScale = NORMAL) -> SyntheticData:
    """Return the paper's running example: features on the unit square, mean x₁ + x₂, variance ``1 + |x₂ − 0.5|``.

    The `noise` is normal by default.
    """
    distribution = AdditiveNoise(lambda X: X[:, 0] + X[:, 1], lambda X: np.sqrt(1 + np.abs(X[:, 1] - 0.5)), noise)
    return SyntheticData("unit square", UniformFeatures(2), distribution)


def _checked_features(X: Any) -> FloatArray:
    """Return features as an array. Raise ValueError unless they are finite, of shape (n, features)."""
    array = np.asarray(X, dtype=float)
    if array.ndim != 2:
        raise ValueError(f"X must have shape (n, features); got shape {array.shape}")
    if not np.isfinite(array).all():
        bad = np.count_nonzero(~np.isfinite(array))
        raise ValueError(f"X must be finite; NaN or infinite values: {bad} of {array.size}")
    return array


def _average(X: FloatArray) -> FloatArray:
    return np.asarray(X.mean(axis=1))


def _spread_as_written(X: FloatArray) -> FloatArray:
    """Return the root of the printed variance, 0.01 mean(x)²."""
    return 0.1 * np.abs(_average(X))


def _two_modes_spread(X: FloatArray) -> FloatArray:
    """Return the root of the variance in the paper's code, 0.1 mean(|x|)."""
    return np.asarray(np.sqrt(0.1 * np.abs(X).mean(axis=1)))


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
    return np.asarray(3 * np.sin(np.pi * X[:, 0]))


def _within_modes(X: FloatArray) -> FloatArray:
    """Return the standard deviation within each mode of `bimodal`."""
    return np.asarray(0.3 + 0.4 * X[:, 1])
