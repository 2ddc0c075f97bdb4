"""Conditional distributions of the target, given the features."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from evencover._internal.arrays import FloatArray, checked_vector
from evencover.theory.families import NORMAL, LocationScale

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
        """Return the conditional density at y."""

    def cdf(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional probability that the target is at most y."""

    def quantile(self, p: float, X: FloatArray) -> FloatArray:
        """Return the conditional quantile of probability p."""

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
        lower, upper = np.min(quantiles, axis=0), np.max(quantiles, axis=0)
        for _ in range(_HALVINGS):
            middle = (lower + upper) / 2
            below = self.cdf(middle, X) < p
            lower, upper = np.where(below, middle, lower), np.where(below, upper, middle)
        return np.asarray(upper)

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
        values = np.asarray(function(X), dtype=float)
        if values.shape not in ((), (len(X),)):
            raise ValueError(f"{name} must return one number per row, shape ({len(X)},); got shape {values.shape}")
        values = checked_vector(np.broadcast_to(values, len(X)), name)
        if name == "spread" and (values <= 0).any():
            rows = np.count_nonzero(values <= 0)
            raise ValueError(f"spread must be positive; got 0 or less in {rows} of {len(X)} rows")
        return values

    return checked_function
