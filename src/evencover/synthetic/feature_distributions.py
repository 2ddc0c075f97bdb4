"""Distributions of the features. Each one accepts a numpy ``Generator`` or the legacy ``RandomState``."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evencover._internal.arrays import FloatArray, check_count, check_positive, is_number


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
