"""Worlds: a distribution of features, a law of the target, and with them the truth about any interval."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray, check_count, checked_nonnegative, checked_vector, generator
from evencover.intervals import Intervals, IntervalUnion
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction
from evencover.synthetic.feature_distributions import (
    Features,
    NormalFeatures,
    SubgroupFeatures,
    TwoModeFeatures,
    UniformFeatures,
)
from evencover.synthetic.target_distributions import (
    AdditiveNoise,
    ConditionalDistribution,
    Mixture,
    check_conditional_distribution,
)
from evencover.theory.families import NORMAL, LocationScale

_TEN_NORMAL = NormalFeatures(10, variance=10.0)
_TEN_UNIFORM = UniformFeatures(10, 0.0, 10.0)


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """Where rows come from, and what is true of them.

    Parameters
    ----------
    name : str
        What to call it.
    features : Features
        The distribution of X.
    law : Law
        The distribution of the target given X: its ``mean``, ``spread``, ``density``, ``cdf`` and ``quantile``.

    Examples
    --------
    >>> world = low_dimensional()
    >>> rows = world.sample(1000, seed=0)
    >>> truth = world.coverage(world.oracle_interval(rows.X, level=0.9), rows.X)
    >>> truth.min().round(6), truth.max().round(6)
    (np.float64(0.9), np.float64(0.9))
    """

    name: str
    features: Features
    law: ConditionalDistribution

    def __post_init__(self) -> None:
        if isinstance(self.features, type) or not hasattr(self.features, "draw"):
            raise TypeError(f"features must be an object with the method of Features, draw; got {self.features!r}")
        check_conditional_distribution(self.law)

    def sample(self, n: int, *, seed: Any = 0) -> "Sample":
        """Return n rows.

        Parameters
        ----------
        n : int
            Number of rows.
        seed : int, numpy Generator or RandomState
            An int gives the same rows each time; a generator goes on from where it is.
        """
        check_count(n, "n")
        rng = generator(seed)
        X = _checked_features(self.features.draw(n, rng))
        if len(X) != n:
            raise ValueError(f"features must draw {n} rows; got {len(X)}")
        y = checked_vector(self.law.sample(X, rng), "the law's sample", length=n)
        return Sample(X, y, *self._moments(X), world=self)

    def oracle(self, X: FloatArray, *, level: float = 0.9) -> Prediction:
        """Return the prediction of a model that knows the conditional mean and standard deviation.

        Its bounds are center ± z spread, the normal ones at `level`.
        """
        return Prediction(*self._moments(_checked_features(X)), level=level)

    def oracle_interval(self, X: FloatArray, *, level: float = 0.9) -> Intervals:
        """Return the interval between the true quantiles (1 − level) / 2 and (1 + level) / 2."""
        X = _checked_features(X)
        tail = float(1 - level_fraction(level)) / 2
        return Intervals(self.law.quantile(tail, X), self.law.quantile(1 - tail, X), level=level)

    def coverage(self, intervals: Intervals | IntervalUnion, X: FloatArray) -> FloatArray:
        """Return the probability that each row's target lies in its interval, given its features.

        Shaped as the intervals' bounds: (n,), or (n, L) for L levels. The pieces of a union are disjoint, and add up.
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
        columns = zip(below.reshape(len(X), -1).T, intervals.upper.reshape(len(X), -1).T, strict=True)  # one a level
        inside = [self.law.cdf(upper, X) - self.law.cdf(lower, X) for lower, upper in columns]
        return np.where(intervals.empty, 0.0, np.stack(inside, axis=-1).reshape(intervals.lower.shape))

    def _moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the law's mean and spread, sure to be one number a row."""
        mean = checked_vector(self.law.mean(X), "the law's mean", length=len(X))
        return mean, checked_nonnegative(self.law.spread(X), "the law's spread", length=len(X))

    def __repr__(self) -> str:
        return f"SyntheticData({self.name})"


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn from a world: features, targets, and the truth behind them.

    Parameters
    ----------
    X : ndarray of shape (n, features)
        Features.
    y : ndarray of shape (n,)
        Targets.
    mean, spread : ndarray of shape (n,)
        Conditional mean and standard deviation of each target.
    world : World
        Where they come from.
    """

    X: FloatArray
    y: FloatArray
    mean: FloatArray
    spread: FloatArray
    world: SyntheticData = field(kw_only=True, repr=False)

    def oracle(self, *, level: float = 0.9) -> Prediction:
        """Return the prediction of a model that knows the truth."""
        return Prediction(self.mean, self.spread, level=level)

    def coverage(self, intervals: Intervals | IntervalUnion) -> FloatArray:
        """Return the probability that each row's target lies in its interval, given its features."""
        return self.world.coverage(intervals, self.X)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Sample({len(self)} rows of {self.X.shape[1]} features from {self.world!r})"


def heteroskedastic(n: int, *, seed: int = 0) -> Sample:
    """Return n rows whose noise grows tenfold along one feature: the friendly default.

    Three features, uniform on (0, 1); the target is normal with mean 3 sin(π x₀) + x₁ and standard deviation
    0.2 + 1.8 x₂².

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
        Seed; the same one gives the same rows.

    Examples
    --------
    >>> sample = heteroskedastic(1000, seed=0)
    >>> sample.X.shape, bool(np.all(sample.spread >= 0.2))
    ((1000, 3), True)
    """
    law = AdditiveNoise(lambda X: 3 * np.sin(np.pi * X[:, 0]) + X[:, 1], lambda X: 0.2 + 1.8 * X[:, 2] ** 2)
    return SyntheticData("noise that grows tenfold", UniformFeatures(3), law).sample(n, seed=seed)


def homoskedastic(noise: LocationScale = NORMAL, *, features: Features | None = None) -> SyntheticData:
    """The control: mean(x), variance 0.1; by default normal `noise` and ten `features` of two modes on [0, 10]."""
    law = AdditiveNoise(_average, lambda X: np.full(len(X), np.sqrt(0.1)), noise)
    return SyntheticData("homoskedastic control", features or TwoModeFeatures(10, 0.0, 10.0), law)


def constant_mean(noise: LocationScale = NORMAL, *, features: Features | None = None) -> SyntheticData:
    """Type 1: mean 1, variance ``0.1 |mean(x)|``; by default normal `noise`, ten normal `features` of variance 10."""
    law = AdditiveNoise(lambda X: np.ones(len(X)), lambda X: np.sqrt(0.1 * np.abs(_average(X))), noise)
    return SyntheticData("Type 1, constant mean", features or _TEN_NORMAL, law)


def functional_dependence(noise: LocationScale = NORMAL, *, features: Features | None = None) -> SyntheticData:
    """Type 2: mean(x), variance ``0.1 √|mean(x)|``; by default normal `noise`, ten normal `features` of variance 10."""
    law = AdditiveNoise(_average, lambda X: np.sqrt(0.1 * np.sqrt(np.abs(_average(X)))), noise)
    return SyntheticData("Type 2, functional dependence", features or _TEN_NORMAL, law)


def low_dimensional(noise: LocationScale = NORMAL, *, features: Features | None = None) -> SyntheticData:
    """Type 3: mean(x), variance ``0.1 |x₂ + 0.1|``; by default normal `noise` and ten `features` uniform on [0, 10]."""
    law = AdditiveNoise(_average, lambda X: np.sqrt(0.1 * np.abs(X[:, 1] + 0.1)), noise)
    return SyntheticData("Type 3, low-dimensional noise", features or _TEN_UNIFORM, law)


def two_modes(
    noise: LocationScale = NORMAL, *, features: Features | None = None, coin: bool = False, as_written: bool = False
) -> SyntheticData:
    """Type 4: one mode at mean(x) − 1, one at mean(x) + 1.

    Parameters
    ----------
    noise : LocationScale
        Distribution within a mode.
    features : Features, optional
        Ten normal ones of variance 10 by default.
    coin : bool
        Whether a fair coin draws the mode. By default, as in the paper, mean(x) decides it: the lower up to 2, the
        higher above. Then the target given x is no mixture at all.
    as_written : bool
        Whether the variance within a mode is 0.01 mean(x)², as the paper's text has it, instead of
        ``0.1 mean(|x|)``, as it was run.
    """
    spread = _tenth_of_mean if as_written else _root_of_mean_size
    lower, upper = (
        AdditiveNoise(lambda X: _average(X) - 1, spread, noise),
        AdditiveNoise(lambda X: _average(X) + 1, spread, noise),
    )
    if coin:
        return SyntheticData("Type 4, mode by a coin", features or _TEN_NORMAL, Mixture((lower, upper)))
    law = AdditiveNoise(lambda X: np.where(_average(X) <= 2, lower.mean(X), upper.mean(X)), spread, noise)
    return SyntheticData("Type 4, mode by the mean", features or _TEN_NORMAL, law)


def toy(noise: LocationScale = NORMAL, *, as_written: bool = False) -> SyntheticData:
    """The toy model of the paper's tables: mean(x) of five features.

    Parameters
    ----------
    noise : LocationScale
        Distribution of the noise.
    as_written : bool
        Whether, as the paper's equation has it, the variance is 0.01 mean(x)² and features are uniform on
        [0, 100]; by default 0.1 mean(x) and [0, 10], as it was run.
    """
    if as_written:
        return SyntheticData(
            "toy model as written", UniformFeatures(5, 0.0, 100.0), AdditiveNoise(_average, _tenth_of_mean, noise)
        )
    law = AdditiveNoise(_average, lambda X: np.sqrt(0.1 * _average(X)), noise)
    return SyntheticData("toy model as run", UniformFeatures(5, 0.0, 10.0), law)


def two_subgroups(noise: LocationScale = NORMAL) -> SyntheticData:
    """The introduction's example: 0.1 x + 2 s, `noise` (normal by default) of deviation 0.1 (s = 0) or 0.5 (s = 1)."""
    law = AdditiveNoise(lambda X: 0.1 * X[:, 0] + 2 * X[:, 1], lambda X: np.where(X[:, 1] == 1, 0.5, 0.1), noise)
    return SyntheticData("two subgroups", SubgroupFeatures(), law)


def unit_square(noise: LocationScale = NORMAL) -> SyntheticData:
    """The running example: the unit square, mean x₁ + x₂, `noise` of variance ``1 + |x₂ − 0.5|``; normal by default."""
    law = AdditiveNoise(lambda X: X[:, 0] + X[:, 1], lambda X: np.sqrt(1 + np.abs(X[:, 1] - 0.5)), noise)
    return SyntheticData("unit square", UniformFeatures(2), law)


def _checked_features(X: Any) -> FloatArray:
    """Return features as an array of shape (n, features), or say what is wrong with them."""
    array = np.asarray(X, dtype=float)
    if array.ndim != 2:
        raise ValueError(f"X must have shape (n, features); got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"X must be finite; {np.count_nonzero(~np.isfinite(array))} of {array.size} values are not")
    return array


def _average(X: FloatArray) -> FloatArray:
    """The mean of each row's features."""
    return np.asarray(X.mean(axis=1))


def _tenth_of_mean(X: FloatArray) -> FloatArray:
    return 0.1 * np.abs(_average(X))


def _root_of_mean_size(X: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(0.1 * np.abs(X).mean(axis=1)))
