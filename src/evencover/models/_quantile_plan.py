"""The quantiles that a model learns, and the prediction they give."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evencover._internal.arrays import FloatArray, checked_vector, is_number
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction

Center = Literal["median", "mean"]


@dataclass(frozen=True)
class QuantilePlan:
    """The quantile levels of a model: its bounds, the median unless the center is the mean, and additional ones."""

    own_level: float
    bounds: tuple[float, float]
    levels: tuple[float, ...]  # bounds and all others, sorted and distinct
    center: Center

    @classmethod
    def of(cls, level: float, softening: float, quantiles: Sequence[float], center: Center) -> "QuantilePlan":
        """Return the plan for the arguments of a constructor; raise ValueError if one is invalid."""
        if center not in ("median", "mean"):
            raise ValueError(f'center must be "median" or "mean"; got {center!r}')
        own = _softened_level(level, softening)
        bounds = float((1 - own) / 2), float((1 + own) / 2)
        others = checked_vector(quantiles, "quantiles").tolist()
        if not all(0 < quantile < 1 for quantile in others):
            raise ValueError(f"quantiles must lie strictly between 0 and 1; got {quantiles!r}")
        median = [0.5] if center == "median" else []
        return cls(float(own), bounds, tuple(sorted({*bounds, *others, *median})), center)

    def prediction(self, quantiles: FloatArray, mean: FloatArray | None, floor: float) -> Prediction:
        """Return the prediction for quantiles of shape (n, levels), with no spread below the floor.

        The quantiles are sorted in each row. Bounds that crossed are passed on crossed, so that `Prediction` counts
        them.
        """
        columns = [self.levels.index(bound) for bound in self.bounds]
        crossed = np.greater(*quantiles[:, columns].T)
        ordered = np.sort(quantiles, axis=1)
        lower, upper = np.where(crossed, ordered[:, columns[::-1]].T, ordered[:, columns].T)
        center = ordered[:, self.levels.index(0.5)] if mean is None else mean
        from_bounds = Prediction.from_quantiles(lower, upper, center, level=self.own_level)
        spread = np.maximum(from_bounds.required("spread", by="a quantile model"), floor)
        return Prediction(center, spread, lower, upper, level=self.own_level)


def _softened_level(level: float, softening: float) -> Any:
    """Return the level 1 − softening · (1 − level), at which the bounds are trained."""
    alpha = 1 - level_fraction(level)
    if not (is_number(softening) and 0 < softening * alpha < 1):
        raise ValueError(f"softening must satisfy 0 < softening * (1 - level) < 1; got {softening!r} at level {level}")
    return 1 - level_fraction(float(softening * alpha))
