"""Synthetic data with a known conditional distribution, and misspecifications of a prediction.

The exact coverage of any interval follows from the distribution of the target given the features. Misspecifications
turn the oracle's prediction into a wrong one; they can be combined. *Misspecification* means that the scores come from
a wrong center or spread. *Contamination* means that rows are in the wrong groups. A wrong spread causes both, because
scores and groups use it. To separate the two effects, compute the scores from one prediction and the groups from
another:

    wrong = misspecified(right, QuadraticVariance())
    groups = BySpread(3).learn(Rows(wrong))        # contamination alone
    calibrate(y, right, groups=groups)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import stats
from scipy.special import ndtr

from evencover.inputs.arrays import (
    FloatArray,
    check_count,
    check_positive,
    checked_nonnegative,
    checked_vector,
    generator,
    got_text,
    is_number,
)
from evencover.intervals import Intervals, IntervalUnion
from evencover.predictions import Prediction
from evencover.quantile_functions import checked_probabilities
from evencover.quantiles import level_fraction
from evencover.theory import NORMAL, LocationScale

__all__ = [
    "AdditiveNoise",
    "ConditionalDistribution",
    "Features",
    "Misspecification",
    "Mixture",
    "NoisyCenter",
    "NoisySpread",
    "NoisyVariance",
    "NormalFeatures",
    "ParametricDistribution",
    "QuadraticVariance",
    "Sample",
    "ScaledSpread",
    "ShiftedBySpread",
    "ShiftedCenter",
    "SubgroupFeatures",
    "SyntheticData",
    "TwoModeFeatures",
    "UniformFeatures",
    "bimodal",
    "constant_mean",
    "counts",
    "functional_dependence",
    "heteroskedastic",
    "homoskedastic",
    "low_dimensional",
    "misspecified",
    "skewed",
    "toy",
    "two_modes",
    "two_subgroups",
    "unit_square",
]


class Features(Protocol):
    """Protocol of a distribution of feature rows."""

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Draw n rows. Shape (n, features)."""


@dataclass(frozen=True)
class UniformFeatures:
    """Independent features, uniform on [low, high].

    Parameters
    ----------
    n_features : int
        Number of features.
    low, high : float
        Ends of the range.
    """

    n_features: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_range(self)

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Draw n rows. Shape (n, features)."""
        drawn: FloatArray = rng.uniform(self.low, self.high, (n, self.n_features))
        return drawn


@dataclass(frozen=True)
class NormalFeatures:
    """Independent normal features with mean 0.

    Parameters
    ----------
    n_features : int
        Number of features.
    variance : float
        Variance of each feature.
    """

    n_features: int
    variance: float = 1.0

    def __post_init__(self) -> None:
        check_count(self.n_features, "n_features")
        check_positive(self.variance, "variance")

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Draw n rows. Shape (n, features)."""
        drawn: FloatArray = rng.normal(0.0, np.sqrt(self.variance), (n, self.n_features))
        return drawn


@dataclass(frozen=True)
class TwoModeFeatures:
    """Rows of two equally likely kinds: all features in the lowest third of a range, or all in the highest third.

    Parameters
    ----------
    n_features : int
        Number of features.
    low, high : float
        Ends of the range.
    """

    n_features: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_range(self)

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Draw n rows. Shape (n, features)."""
        third = (self.high - self.low) / 3
        upper = rng.uniform(size=(n, 1)) < 0.5
        drawn: FloatArray = self.low + third * (rng.uniform(size=(n, self.n_features)) + 2 * upper)
        return drawn


@dataclass(frozen=True)
class SubgroupFeatures:
    """A feature uniform on (0, 10), and a subgroup that alternates between 0 and 1: 20 rows have 10 of each."""

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Draw n rows. Shape (n, 2)."""
        return np.column_stack([rng.uniform(0.0, 10.0, n), np.arange(n) % 2])


def _check_range(features: UniformFeatures | TwoModeFeatures) -> None:
    """Raise ValueError unless there is a positive number of features and low is below high."""
    check_count(features.n_features, "n_features")
    low, high = features.low, features.high
    if not (is_number(low) and is_number(high) and -np.inf < low < high < np.inf):
        raise ValueError(f"low and high must be finite numbers, low below high; got {low!r} and {high!r}")


RowFunction: TypeAlias = Callable[[FloatArray], FloatArray]

_METHODS = ("mean", "spread", "density", "cdf", "quantile", "sample")
_HALVINGS = 100  # bisection steps for a quantile: more than a float has binary digits


class ConditionalDistribution(Protocol):
    """Protocol of a conditional distribution of the target. X has shape (n, features), all other arrays (n,)."""

    def mean(self, X: FloatArray, /) -> FloatArray:
        """Return the conditional mean."""

    def spread(self, X: FloatArray, /) -> FloatArray:
        """Return the conditional standard deviation."""

    def density(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional density at y, or the probability of y if the target is discrete."""

    def cdf(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional probability that the target is at most y."""

    def quantile(self, p: float, X: FloatArray) -> FloatArray:
        """Return the conditional quantile of probability p: the smallest target whose cdf is at least p."""

    def sample(self, X: FloatArray, rng: Any) -> FloatArray:
        """Draw a target for each row."""


@dataclass(frozen=True, eq=False)
class AdditiveNoise:
    """Target = mean + spread × noise: a location-scale family.

    Parameters
    ----------
    mean, spread : callable
        Functions of X, shape (n, features), that return the conditional mean and standard deviation: shape (n,), or
        one number for all rows.
    noise : LocationScale
        Distribution of the noise; normal by default.
    """

    mean: RowFunction
    spread: RowFunction
    noise: LocationScale = NORMAL

    def __post_init__(self) -> None:
        if not isinstance(self.noise, LocationScale):
            raise TypeError(
                "noise must be a LocationScale, such as evencover.theory.LAPLACE or LocationScale(scipy.stats.t(5)); "
                f"got {self.noise!r}"
            )
        for part in ("mean", "spread"):
            object.__setattr__(self, part, _with_checked_values(getattr(self, part), part))

    def density(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional density at y."""
        return np.asarray(self.noise.density(y, self.mean(X), self.spread(X)))

    def cdf(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional probability that the target is at most y."""
        return np.asarray(self.noise.cdf(y, self.mean(X), self.spread(X)))

    def quantile(self, p: float, X: FloatArray) -> FloatArray:
        """Return the conditional quantile of probability p."""
        return np.asarray(self.noise.quantile(p, self.mean(X), self.spread(X)))

    def sample(self, X: FloatArray, rng: Any) -> FloatArray:
        """Draw a target for each row."""
        return self.noise.sample(self.mean(X), self.spread(X), rng)


@dataclass(frozen=True, eq=False)
class ParametricDistribution:
    """A SciPy distribution whose parameters are functions of the features; its shape may differ from row to row.

    The distribution may be discrete. Then its density is the probability mass: P(Y = y | X), and 0 between the mass
    points.

    Parameters
    ----------
    family : SciPy distribution
        One of SciPy's classic distributions without parameters, such as ``scipy.stats.gamma`` or
        ``scipy.stats.poisson``.
    parameters : callable
        Takes X, shape (n, features), and returns a dict with the values of the parameters by name: shape (n,), or one
        number for all rows. ``loc`` and ``scale`` are parameters, too.

    Examples
    --------
    >>> from scipy import stats
    >>> poisson = ParametricDistribution(stats.poisson, lambda X: {"mu": 1 + X[:, 0]})
    >>> poisson.density(np.array([0.0, 0.5]), np.zeros((2, 1))).round(4)
    array([0.3679, 0.    ])
    """

    family: Any
    parameters: Callable[[FloatArray], Mapping[str, Any]]

    def __post_init__(self) -> None:
        if not isinstance(self.family, stats.rv_continuous | stats.rv_discrete):
            raise TypeError(
                "family must be one of SciPy's classic distributions without parameters, such as scipy.stats.gamma; "
                f"got {self.family!r}"
            )
        if not callable(self.parameters):
            raise TypeError(f"parameters must be a function of X, shape (n, features); got {self.parameters!r}")

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the conditional mean."""
        return np.asarray(self._frozen(X).mean())

    def spread(self, X: FloatArray) -> FloatArray:
        """Return the conditional standard deviation."""
        return np.asarray(self._frozen(X).std())

    def density(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional density at y, or the probability of y if the distribution is discrete."""
        frozen = self._frozen(X)
        return np.asarray(frozen.pmf(y) if isinstance(self.family, stats.rv_discrete) else frozen.pdf(y))

    def cdf(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional probability that the target is at most y."""
        return np.asarray(self._frozen(X).cdf(y))

    def quantile(self, p: float, X: FloatArray) -> FloatArray:
        """Return the smallest target whose cdf is at least p."""
        return np.asarray(self._frozen(X).ppf(p))

    def sample(self, X: FloatArray, rng: Any) -> FloatArray:
        """Draw a target for each row."""
        return np.asarray(self._frozen(X).rvs(size=len(X), random_state=rng), dtype=float)

    def _frozen(self, X: FloatArray) -> Any:
        """Return SciPy's distribution with one value of each parameter per row. Raise an error if one is wrong."""
        values = self.parameters(X)
        if not isinstance(values, Mapping):
            raise TypeError(f"parameters must return a dict from names to values; got {values!r}")
        by_row = {name: _value_per_row(each, f"the parameter {name}", len(X)) for name, each in values.items()}
        try:
            frozen = self.family(**by_row)
        except TypeError as error:
            raise TypeError(
                f"parameters must return the parameters of scipy.stats.{self.family.name}; got the names "
                f"{', '.join(values)} ({error})"
            ) from None
        undefined = np.isnan(frozen.support()[0]) | np.zeros(len(X), dtype=bool)
        if undefined.any():
            raise ValueError(
                f"parameters must be in the range of scipy.stats.{self.family.name}; they are outside in "
                f"{np.count_nonzero(undefined)} of {len(X)} rows"
            )
        return frozen


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture: each row's target comes from one of several distributions, chosen at random.

    Parameters
    ----------
    components : sequence of ConditionalDistribution
        The distributions.
    weights : sequence of float, optional
        Their probabilities, positive with sum 1; equal by default.
    """

    components: Sequence[ConditionalDistribution]
    weights: Any = field(default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.components, Sequence) or not self.components:
            raise ValueError(
                f"components must be a sequence of one distribution or more; got {type(self.components).__name__}"
            )
        for component in self.components:
            check_conditional_distribution(component, "each component")
        n = len(self.components)
        weights = (
            np.full(n, 1 / n)
            if self.weights is None
            else checked_vector(self.weights, "weights", length=n, matched="components")
        )
        if weights.min() <= 0 or not np.isclose(weights.sum(), 1):
            raise ValueError(f"weights must be positive with sum 1; got {weights.tolist()}")
        object.__setattr__(self, "weights", weights)

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the conditional mean."""
        return self._average([component.mean(X) for component in self.components])

    def spread(self, X: FloatArray) -> FloatArray:
        """Return the conditional standard deviation, from the variance within and between the components."""
        mean = self.mean(X)
        squares = [part.spread(X) ** 2 + (part.mean(X) - mean) ** 2 for part in self.components]
        return np.sqrt(self._average(squares))

    def density(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional density at y."""
        return self._average([component.density(y, X) for component in self.components])

    def cdf(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional probability that the target is at most y."""
        return self._average([component.cdf(y, X) for component in self.components])

    def quantile(self, p: float, X: FloatArray) -> FloatArray:
        """Return the conditional quantile of probability p, by bisection between the components' quantiles."""
        quantiles = [component.quantile(p, X) for component in self.components]
        lowest, upper = np.min(quantiles, axis=0), np.max(quantiles, axis=0)
        lower = lowest
        for _ in range(_HALVINGS):
            middle = (lower + upper) / 2
            if ((middle == lower) | (middle == upper)).all():  # neighbouring floats
                break
            below = self.cdf(middle, X) < p
            lower, upper = np.where(below, middle, lower), np.where(below, upper, middle)
        at_lowest = self.cdf(lowest, X) >= p  # only with discrete or equal components
        return np.asarray(np.where(at_lowest, lowest, upper))

    def sample(self, X: FloatArray, rng: Any) -> FloatArray:
        """Draw a target for each row."""
        chosen = np.searchsorted(np.cumsum(self.weights)[:-1], rng.uniform(size=len(X)), side="right")
        drawn = np.array([component.sample(X, rng) for component in self.components])  # (components, n)
        return np.asarray(np.take_along_axis(drawn, chosen[None, :], axis=0)[0])

    def _average(self, values: list[FloatArray]) -> FloatArray:
        """Return the average of the components' values, weighted by their probabilities. Shape (n,)."""
        return np.asarray(np.tensordot(self.weights, np.array(values), axes=1))


def check_conditional_distribution(value: Any, name: str) -> None:
    """Raise TypeError unless an object has the methods of `ConditionalDistribution`."""
    missing = [method for method in _METHODS if not hasattr(value, method)]
    if isinstance(value, type) or missing:
        raise TypeError(
            f"{name} must be an object with the methods of ConditionalDistribution; got {value!r}"
            + (f", which has no {', '.join(missing)}" if missing else ", the class itself")
        )


def _with_checked_values(function: RowFunction, name: str) -> RowFunction:
    """Return the function with a check of its values: one finite number per row, positive if it is the spread."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of X, shape (n, features); got {function!r}")

    def checked_function(X: FloatArray) -> FloatArray:
        values = _value_per_row(function(X), name, len(X))
        if name == "spread" and (values <= 0).any():
            rows = np.count_nonzero(values <= 0)
            raise ValueError(f"spread must be positive; got 0 or less in {rows} of {len(X)} rows")
        return values

    return checked_function


def _value_per_row(value: Any, name: str, n: int) -> FloatArray:
    """Return the values of a function of X: one finite number per row, shape (n,)."""
    values = np.asarray(value, dtype=float)
    if values.shape not in ((), (n,)):
        raise ValueError(f"{name} must return one number per row, shape ({n},); got shape {values.shape}")
    return checked_vector(np.broadcast_to(values, n), name)


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


_MIN_SPREAD = 1e-3  # times the median spread: noise cannot make a spread smaller


class Misspecification(Protocol):
    """Protocol of a misspecification: a function of center, spread and random generator."""

    def __call__(self, center: FloatArray, spread: FloatArray, rng: Any, /) -> tuple[FloatArray, FloatArray]:
        """Return a new center and a new spread for each row."""


def misspecified(prediction: Prediction, *misspecifications: Misspecification, seed: Any = 0) -> Prediction:
    """Apply misspecifications to a prediction, one after another, and return the result.

    The bounds of the result are center ± z spread at the prediction's own level.

    Parameters
    ----------
    prediction : Prediction
        A prediction with center and spread, such as ``sample.oracle()``.
    *misspecifications : Misspecification
        Each one acts on the result of the one before it.
    seed : int or numpy Generator
        Seed of the random misspecifications.

    Examples
    --------
    >>> oracle = Prediction([1.0, 2.0], [0.5, 1.0])
    >>> wrong = misspecified(oracle, ScaledSpread(2.0), ShiftedBySpread(1.0))
    >>> wrong.center, wrong.spread
    (array([2., 4.]), array([1., 2.]))
    """
    if not isinstance(prediction, Prediction):
        raise TypeError(f"prediction must be a Prediction, such as sample.oracle(); got {type(prediction).__name__}")
    rng = generator(seed)
    center, spread = prediction.center, prediction.required("spread", by="misspecified()")
    for misspecification in misspecifications:
        center, spread = _apply(misspecification, center, spread, rng)
    return Prediction(center, spread, level=prediction.level) if misspecifications else prediction


@dataclass(frozen=True)
class NoisySpread:
    """Add normal noise to the spread. The result is at least 1/1000 of the median spread.

    Parameters
    ----------
    size : float
        Standard deviation of the noise.
    """

    size: float

    def __post_init__(self) -> None:
        check_positive(self.size, "size")

    def __call__(self, center: FloatArray, spread: FloatArray, rng: Any) -> tuple[FloatArray, FloatArray]:
        """Return the same center and the changed spread."""
        noisy = spread + rng.normal(0.0, self.size, len(spread))
        return center, np.maximum(noisy, _MIN_SPREAD * np.median(spread))


@dataclass(frozen=True)
class NoisyVariance:
    """Add normal noise to the variance. Where the sum would be negative, the noise is subtracted instead.

    Parameters
    ----------
    size : float
        Standard deviation of the noise.
    """

    size: float

    def __post_init__(self) -> None:
        check_positive(self.size, "size")

    def __call__(self, center: FloatArray, spread: FloatArray, rng: Any) -> tuple[FloatArray, FloatArray]:
        """Return the same center and the changed spread."""
        variance, noise = spread**2, rng.normal(0.0, self.size, len(spread))
        return center, np.sqrt(np.where(variance + noise < 0, variance - noise, variance + noise))


@dataclass(frozen=True)
class ScaledSpread:
    """Multiply the spread by a constant. The ranking of the scores of ``Normalized()`` stays the same.

    Parameters
    ----------
    factor : float
        The constant factor.
    """

    factor: float

    def __post_init__(self) -> None:
        check_positive(self.factor, "factor")

    def __call__(self, center: FloatArray, spread: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
        """Return the same center and the changed spread."""
        return center, self.factor * spread


@dataclass(frozen=True)
class QuadraticVariance:
    """The paper's misspecified model: the variance becomes 5 (σ² − 0.5)² + 0.5, too high where σ² is low."""

    def __call__(self, center: FloatArray, spread: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
        """Return the same center and the changed spread."""
        return center, np.sqrt(5 * (spread**2 - 0.5) ** 2 + 0.5)


@dataclass(frozen=True)
class ShiftedCenter:
    """Add a constant to the center.

    Parameters
    ----------
    by : float
        The constant to add.
    """

    by: float

    def __post_init__(self) -> None:
        _check_finite(self.by, "'by' (the number to add)")

    def __call__(self, center: FloatArray, spread: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
        """Return the changed center and the same spread."""
        return center + self.by, spread


@dataclass(frozen=True)
class ShiftedBySpread:
    """Add a multiple of the spread to the center. A pivotal score stays pivotal.

    Parameters
    ----------
    by : float
        Number of spreads to add.
    """

    by: float

    def __post_init__(self) -> None:
        _check_finite(self.by, "'by' (the number of spreads to add)")

    def __call__(self, center: FloatArray, spread: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
        """Return the changed center and the same spread."""
        return center + self.by * spread, spread


@dataclass(frozen=True)
class NoisyCenter:
    """Add normal noise to the center.

    Parameters
    ----------
    size : float
        Standard deviation of the noise.
    in_spreads : bool
        True: `size` counts in units of each row's spread. False: in units of the target.
    """

    size: float
    in_spreads: bool = False

    def __post_init__(self) -> None:
        check_positive(self.size, "size")

    def __call__(self, center: FloatArray, spread: FloatArray, rng: Any) -> tuple[FloatArray, FloatArray]:
        """Return the changed center and the same spread."""
        unit = spread if self.in_spreads else 1.0
        return center + unit * rng.normal(0.0, self.size, len(center)), spread


def _apply(
    misspecification: Misspecification, center: FloatArray, spread: FloatArray, rng: Any
) -> tuple[FloatArray, FloatArray]:
    """Return the changed center and spread. The function gets copies, so it cannot change the originals."""
    if isinstance(misspecification, type) or not callable(misspecification):
        raise TypeError(
            "misspecifications must be functions of (center, spread, generator) or objects such as ScaledSpread(2.0); "
            f"got {got_text(misspecification)}"
        )
    pair = misspecification(center.copy(), spread.copy(), rng)
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(
            f"a misspecification must return a pair (center, spread); {misspecification!r} returned "
            f"{type(pair).__name__}"
        )
    after = f"after {misspecification!r}"
    center = checked_vector(pair[0], f"the center {after}", length=len(center), matched="before")
    spread = checked_nonnegative(pair[1], f"the spread {after}", length=len(center), matched="before")
    return center, spread


def _check_finite(value: Any, name: str) -> None:
    """Raise ValueError unless a setting is a finite number."""
    if not is_number(value) or not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number; got {value!r}")
