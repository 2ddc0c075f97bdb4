"""How the target is distributed, given the features."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from evencover._internal.arrays import FloatArray, checked_vector
from evencover.theory.families import NORMAL, LocationScale

RowFunction: TypeAlias = Callable[[FloatArray], FloatArray]

_HALVINGS = 100  # of the bracket around a quantile: more than a float has digits


class ConditionalDistribution(Protocol):
    """The conditional distribution of the target. X has shape (n, features); everything else (n,)."""

    def mean(self, X: FloatArray, /) -> FloatArray:
        """Return the conditional mean."""

    def spread(self, X: FloatArray, /) -> FloatArray:
        """Return the conditional standard deviation."""

    def density(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional density at y."""

    def cdf(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional probability of at most y."""

    def quantile(self, p: float, X: FloatArray) -> FloatArray:
        """Return the target that is not exceeded with probability p."""

    def sample(self, X: FloatArray, rng: Any) -> FloatArray:
        """Return a target for each row."""


@dataclass(frozen=True, eq=False)
class AdditiveNoise:
    """Mean plus spread times noise: a location-scale family.

    Parameters
    ----------
    mean, spread : callable
        Of X, shape (n, features), to shape (n,) or one number for all rows: the conditional mean and standard
        deviation.
    noise : LocationScale
        The family; normal by default.
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
            object.__setattr__(self, part, _by_row(getattr(self, part), part))

    def density(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional density at y."""
        return np.asarray(self.noise.density(y, self.mean(X), self.spread(X)))

    def cdf(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional probability of at most y."""
        return np.asarray(self.noise.cdf(y, self.mean(X), self.spread(X)))

    def quantile(self, p: float, X: FloatArray) -> FloatArray:
        """Return the target that is not exceeded with probability p."""
        return np.asarray(self.noise.quantile(p, self.mean(X), self.spread(X)))

    def sample(self, X: FloatArray, rng: Any) -> FloatArray:
        """Return a target for each row."""
        return self.noise.sample(self.mean(X), self.spread(X), rng)


@dataclass(frozen=True, eq=False)
class Mixture:
    """One of several laws, drawn for each row anew.

    Parameters
    ----------
    laws : sequence of Law
        The components.
    weights : sequence of float, optional
        Their probabilities, positive and with sum 1; equal by default.
    """

    laws: Sequence[ConditionalDistribution]
    weights: Any = field(default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.laws, Sequence) or not self.laws:
            raise ValueError(f"laws must be a sequence of one law or more; got {self.laws!r}")
        for law in self.laws:
            check_conditional_distribution(law)
        n = len(self.laws)
        weights = np.full(n, 1 / n) if self.weights is None else checked_vector(self.weights, "weights", length=n)
        if weights.min() <= 0 or not np.isclose(weights.sum(), 1):
            raise ValueError(f"weights must be positive, with sum 1; got {weights.tolist()}")
        object.__setattr__(self, "weights", weights)

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the conditional mean."""
        return self._average([law.mean(X) for law in self.laws])

    def spread(self, X: FloatArray) -> FloatArray:
        """Return the conditional standard deviation: that within the components, and between them."""
        mean = self.mean(X)
        return np.sqrt(self._average([law.spread(X) ** 2 + (law.mean(X) - mean) ** 2 for law in self.laws]))

    def density(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional density at y."""
        return self._average([law.density(y, X) for law in self.laws])

    def cdf(self, y: FloatArray, X: FloatArray) -> FloatArray:
        """Return the conditional probability of at most y."""
        return self._average([law.cdf(y, X) for law in self.laws])

    def quantile(self, p: float, X: FloatArray) -> FloatArray:
        """Return the target that is not exceeded with probability p, by bisection between the components' own."""
        each = [law.quantile(p, X) for law in self.laws]
        lower, upper = np.min(each, axis=0), np.max(each, axis=0)
        for _ in range(_HALVINGS):
            middle = (lower + upper) / 2
            below = self.cdf(middle, X) < p
            lower, upper = np.where(below, middle, lower), np.where(below, upper, middle)
        return np.asarray(upper)

    def sample(self, X: FloatArray, rng: Any) -> FloatArray:
        """Return a target for each row."""
        which = np.searchsorted(np.cumsum(self.weights)[:-1], rng.uniform(size=len(X)), side="right")
        drawn = np.array([law.sample(X, rng) for law in self.laws])  # (laws, n)
        return np.asarray(np.take_along_axis(drawn, which[None, :], axis=0)[0])

    def _average(self, values: list[FloatArray]) -> FloatArray:
        """Return the components' values weighted by their probabilities. Shape (n,)."""
        return np.asarray(np.tensordot(self.weights, np.array(values), axes=1))


def check_conditional_distribution(law: Any) -> None:
    """Raise unless an object has the methods of a law."""
    lacking = [name for name in ("mean", "spread", "density", "cdf", "quantile", "sample") if not hasattr(law, name)]
    if isinstance(law, type) or lacking:
        raise TypeError(
            f"a law must be an object with the methods of Law; got {law!r}"
            + (f", which has no {', '.join(lacking)}" if lacking else ", the class itself")
        )


def _by_row(function: RowFunction, name: str) -> RowFunction:
    """Return the same function, its values sure to be one finite number a row, and positive if a spread."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of X, shape (n, features); got {function!r}")

    def values(X: FloatArray) -> FloatArray:
        found = np.asarray(function(X), dtype=float)
        if found.shape not in ((), (len(X),)):
            raise ValueError(f"{name} must give a number for each row, shape ({len(X)},); got shape {found.shape}")
        found = checked_vector(np.broadcast_to(found, len(X)), name)
        if name == "spread" and (found <= 0).any():
            raise ValueError(f"spread must be positive; {np.count_nonzero(found <= 0)} of {len(X)} rows are not")
        return found

    return values
