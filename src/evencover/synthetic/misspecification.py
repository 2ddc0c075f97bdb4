"""Ways of being wrong: changes of an oracle's prediction, to be combined.

*Misspecification* is a score computed from wrong parameters. *Contamination* is rows put into the wrong groups. A
model that errs does both, since its spread goes into both; to tell them apart, compute the scores from one
prediction and the groups from another:

    wrong = misspecified(right, QuadraticVariance())
    groups = BySpread(3).learn(Rows(wrong))        # contamination alone
    calibrate(y, right, groups=groups)
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evencover._internal.arrays import (
    FloatArray,
    check_positive,
    checked_nonnegative,
    checked_vector,
    generator,
    is_number,
)
from evencover.predictions import Prediction

_SMALLEST = 1e-3  # of the median spread: where noise would make it smaller


class Misspecification(Protocol):
    """A way of being wrong."""

    def __call__(self, center: FloatArray, spread: FloatArray, rng: Any, /) -> tuple[FloatArray, FloatArray]:
        """Return another center and spread for each row."""


def misspecified(prediction: Prediction, *changes: Misspecification, seed: Any = 0) -> Prediction:
    """Return the prediction after some changes, one after another.

    The bounds follow: center ± z spread at the prediction's own level.

    Parameters
    ----------
    prediction : Prediction
        With center and spread, such as an oracle's.
    *changes : Change
        The first acts on the prediction, the next on what that made of it.
    seed : int or numpy Generator
        For the changes that are random.

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
    center, spread = prediction.center, prediction.required("spread", by="misspecified")
    for change in changes:
        center, spread = _after(change, center, spread, rng)
    return Prediction(center, spread, level=prediction.level) if changes else prediction


@dataclass(frozen=True)
class NoisySpread:
    """Normal noise on the spread, which is kept above a thousandth of the rows' median.

    Parameters
    ----------
    size : float
        Standard deviation of that noise.
    """

    size: float

    def __post_init__(self) -> None:
        check_positive(self.size, "size")

    def __call__(self, center: FloatArray, spread: FloatArray, rng: Any) -> tuple[FloatArray, FloatArray]:
        """Return the same center, another spread."""
        noisy = spread + rng.normal(0.0, self.size, len(spread))
        return center, np.maximum(noisy, _SMALLEST * np.median(spread))


@dataclass(frozen=True)
class NoisyVariance:
    """Normal noise on the variance; where the sum would be negative, the noise is subtracted instead of added.

    Parameters
    ----------
    size : float
        Standard deviation of that noise.
    """

    size: float

    def __post_init__(self) -> None:
        check_positive(self.size, "size")

    def __call__(self, center: FloatArray, spread: FloatArray, rng: Any) -> tuple[FloatArray, FloatArray]:
        """Return the same center, another spread."""
        variance, noise = spread**2, rng.normal(0.0, self.size, len(spread))
        return center, np.sqrt(np.where(variance + noise < 0, variance - noise, variance + noise))


@dataclass(frozen=True)
class ScaledSpread:
    """The spread times a constant. ``Normalized()`` ranks targets as before.

    Parameters
    ----------
    factor : float
        The constant.
    """

    factor: float

    def __post_init__(self) -> None:
        check_positive(self.factor, "factor")

    def __call__(self, center: FloatArray, spread: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
        """Return the same center, another spread."""
        return center, self.factor * spread


@dataclass(frozen=True)
class QuadraticVariance:
    """The paper's misspecified model: variance 5 (σ² − 0.5)² + 0.5, too high where the noise is low."""

    def __call__(self, center: FloatArray, spread: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
        """Return the same center, another spread."""
        return center, np.sqrt(5 * (spread**2 - 0.5) ** 2 + 0.5)


@dataclass(frozen=True)
class ShiftedCenter:
    """The center plus a constant.

    Parameters
    ----------
    by : float
        The constant.
    """

    by: float

    def __post_init__(self) -> None:
        _check_finite(self.by, "by")

    def __call__(self, center: FloatArray, spread: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
        """Return another center, the same spread."""
        return center + self.by, spread


@dataclass(frozen=True)
class ShiftedBySpread:
    """The center plus a multiple of the spread, which leaves a pivotal score pivotal.

    Parameters
    ----------
    by : float
        The multiple.
    """

    by: float

    def __post_init__(self) -> None:
        _check_finite(self.by, "by")

    def __call__(self, center: FloatArray, spread: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
        """Return another center, the same spread."""
        return center + self.by * spread, spread


@dataclass(frozen=True)
class NoisyCenter:
    """Normal noise on the center.

    Parameters
    ----------
    size : float
        Standard deviation of that noise.
    in_spreads : bool
        Whether `size` is a multiple of each row's spread.
    """

    size: float
    in_spreads: bool = False

    def __post_init__(self) -> None:
        check_positive(self.size, "size")

    def __call__(self, center: FloatArray, spread: FloatArray, rng: Any) -> tuple[FloatArray, FloatArray]:
        """Return another center, the same spread."""
        unit = spread if self.in_spreads else 1.0
        return center + unit * rng.normal(0.0, self.size, len(center)), spread


def _after(change: Misspecification, center: FloatArray, spread: FloatArray, rng: Any) -> tuple[FloatArray, FloatArray]:
    """Return what a change makes of center and spread, which it may not alter in place."""
    if isinstance(change, type) or not callable(change):
        raise TypeError(
            "changes must be functions of (center, spread, generator) or objects such as ScaledSpread(2.0); "
            f"got {change!r}"
        )
    made = change(center.copy(), spread.copy(), rng)
    if not isinstance(made, tuple) or len(made) != 2:
        raise TypeError(f"a change must return a center and a spread; {change!r} returned {type(made).__name__}")
    after = f"after {change!r}"
    center = checked_vector(made[0], f"the center {after}", length=len(center))
    return center, checked_nonnegative(made[1], f"the spread {after}", length=len(center))


def _check_finite(value: Any, name: str) -> None:
    """Raise unless a setting is a finite number."""
    if not is_number(value) or not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number; got {value!r}")
