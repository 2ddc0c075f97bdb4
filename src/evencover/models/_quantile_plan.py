"""Which quantiles a model learns, and the prediction they make."""

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
    """The quantiles of a model's bounds at its own level, its median unless the center is a mean, and any others."""

    own_level: float
    bounds: tuple[float, float]
    levels: tuple[float, ...]  # bounds and all others in order, each once
    center: Center

    @classmethod
    def of(cls, level: float, softening: float, quantiles: Sequence[float], center: Center) -> "QuantilePlan":
        """Return the plan for a constructor's arguments, or say what is wrong with them."""
        if center not in ("median", "mean"):
            raise ValueError(f'center must be "median" or "mean"; got {center!r}')
        own = _softened(level, softening)
        bounds = float((1 - own) / 2), float((1 + own) / 2)
        others = checked_vector(quantiles, "quantiles").tolist()
        if not all(0 < quantile < 1 for quantile in others):
            raise ValueError(f"quantiles must lie strictly between 0 and 1; got {quantiles!r}")
        median = [0.5] if center == "median" else []
        return cls(float(own), bounds, tuple(sorted({*bounds, *others, *median})), center)

    def prediction(self, quantiles: FloatArray, mean: FloatArray | None, floor: float) -> Prediction:
        """Return the prediction of learned quantiles, shape (n, levels), with no spread below the floor.

        Each row's quantiles are put in order. Where the bounds themselves crossed they are handed on crossed, to be
        counted.
        """
        places = [self.levels.index(bound) for bound in self.bounds]
        crossed = np.greater(*quantiles[:, places].T)
        ordered = np.sort(quantiles, axis=1)
        lower, upper = np.where(crossed, ordered[:, places[::-1]].T, ordered[:, places].T)
        center = ordered[:, self.levels.index(0.5)] if mean is None else mean
        from_bounds = Prediction.from_quantiles(lower, upper, center, level=self.own_level)
        spread = np.maximum(from_bounds.required("spread", by="a quantile model"), floor)
        return Prediction(center, spread, lower, upper, level=self.own_level)


def _softened(level: float, softening: float) -> Any:
    """Return the level to train at: it misses `softening` times as often as the one asked for."""
    alpha = 1 - level_fraction(level)
    if not (is_number(softening) and 0 < softening * alpha < 1):
        raise ValueError(
            f"softening must be positive and leave a level: 0 < softening * (1 - level) < 1; got {softening!r} at "
            f"level {level}"
        )
    return 1 - level_fraction(float(softening * alpha))
