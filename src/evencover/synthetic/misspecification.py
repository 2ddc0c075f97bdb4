"""Misspecifications: functions that turn the oracle's prediction into a wrong one. They can be combined.

*Misspecification* means that the scores come from a wrong center or spread. *Contamination* means that rows are in the
wrong groups. A wrong spread causes both, because scores and groups use it. To separate the two effects, compute the
scores from one prediction and the groups from another:

    wrong = misspecified(right, QuadraticVariance())
    groups = BySpread(3).learn(Rows(wrong))        # contamination alone
    calibrate(y, right, groups=groups)
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evencover.inputs.arrays import (
    FloatArray,
    check_positive,
    checked_nonnegative,
    checked_vector,
    generator,
    got_text,
    is_number,
)
from evencover.predictions import Prediction

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
