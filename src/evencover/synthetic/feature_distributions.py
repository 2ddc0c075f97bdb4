"""Distributions of the features. Each draws from a numpy ``Generator`` or the legacy ``RandomState``."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evencover._internal.arrays import FloatArray, check_count, check_positive, is_number


class Features(Protocol):
    """A distribution of feature rows."""

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Return n rows. Shape (n, features)."""


@dataclass(frozen=True)
class UniformFeatures:
    """Independent features, uniform between two numbers.

    Parameters
    ----------
    n_features : int
        How many.
    low, high : float
        The two numbers.
    """

    n_features: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_range(self)

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Return n rows. Shape (n, features)."""
        drawn: FloatArray = rng.uniform(self.low, self.high, (n, self.n_features))
        return drawn


@dataclass(frozen=True)
class NormalFeatures:
    """Independent normal features with mean 0.

    Parameters
    ----------
    n_features : int
        How many.
    variance : float
        Of each.
    """

    n_features: int
    variance: float = 1.0

    def __post_init__(self) -> None:
        check_count(self.n_features, "n_features")
        check_positive(self.variance, "variance")

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Return n rows. Shape (n, features)."""
        drawn: FloatArray = rng.normal(0.0, np.sqrt(self.variance), (n, self.n_features))
        return drawn


@dataclass(frozen=True)
class TwoModeFeatures:
    """Rows of two kinds, equally likely: all features in the lowest third of a range, or all in the highest.

    Parameters
    ----------
    n_features : int
        How many.
    low, high : float
        The range.
    """

    n_features: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_range(self)

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Return n rows. Shape (n, features)."""
        third = (self.high - self.low) / 3
        upper = rng.uniform(size=(n, 1)) < 0.5
        drawn: FloatArray = self.low + third * (rng.uniform(size=(n, self.n_features)) + 2 * upper)
        return drawn


@dataclass(frozen=True)
class SubgroupFeatures:
    """A feature uniform on (0, 10), and a subgroup: 0 and 1 in turn, so that of 20 rows each has 10."""

    def draw(self, n: int, rng: Any) -> FloatArray:
        """Return n rows. Shape (n, 2)."""
        return np.column_stack([rng.uniform(0.0, 10.0, n), np.arange(n) % 2])


def _check_range(features: UniformFeatures | TwoModeFeatures) -> None:
    """Raise unless there are some features, on a range."""
    check_count(features.n_features, "n_features")
    low, high = features.low, features.high
    if not (is_number(low) and is_number(high) and -np.inf < low < high < np.inf):
        raise ValueError(f"low and high must be finite numbers, low below high; got {low!r} and {high!r}")
