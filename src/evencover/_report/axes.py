"""Where numbers go on a picture."""

from dataclasses import dataclass
from math import isfinite, isnan

import numpy as np


@dataclass(frozen=True)
class Axis:
    """A straight line from numbers to pixels.

    Parameters
    ----------
    low, high : float
        The numbers at its ends.
    start, stop : float
        The pixels there.
    """

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """Return the pixel of a number; one beyond the ends is put a little beyond them."""
        share = (value - self.low) / (self.high - self.low)
        return float(self.start + min(max(share, -0.05), 1.05) * (self.stop - self.start))

    def ticks(self, about: int = 5) -> list[float]:
        """Return about so many round numbers along it."""
        step = _round_step((self.high - self.low) / about)
        first = int(np.ceil(self.low / step - 1e-9))
        last = int(np.floor(self.high / step + 1e-9))
        return [place * step for place in range(first, last + 1)]


def _round_step(width: float) -> float:
    """Return 1, 2 or 5 times a power of ten, about as large."""
    power = 10.0 ** np.floor(np.log10(width))
    return float(next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= width * (1 - 1e-9)))


def short(value: float) -> str:
    """Return a number as a reader wants it: four digits, and no more."""
    if isfinite(value):
        return f"{value:.4g}"
    return "not known" if isnan(value) else "infinite" if value > 0 else "minus infinite"
