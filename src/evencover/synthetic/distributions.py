"""Distributions of features, and of the target given the features."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import stats

from evencover.inputs.arrays import FloatArray, check_count, check_positive, checked_vector, is_number
from evencover.theory.families import NORMAL, LocationScale


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
