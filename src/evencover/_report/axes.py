"""Axes of the report's pictures, and numbers as text."""

from dataclasses import dataclass

import numpy as np

from evencover._internal.text_output import number_text


@dataclass(frozen=True)
class Axis:
    """A linear map from numbers to pixels.

    Parameters
    ----------
    low, high : float
        The numbers at the two ends.
    start, stop : float
        The pixels at the two ends.
    """

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """Return the pixel of a number; a number outside the axis is placed just beyond its end."""
        share = (value - self.low) / (self.high - self.low)
        return float(self.start + min(max(share, -0.05), 1.05) * (self.stop - self.start))

    def ticks(self, about: int = 5) -> list[float]:
        """Return about this many round numbers along the axis."""
        step = _round_step((self.high - self.low) / about)
        first = int(np.ceil(self.low / step - 1e-9))
        last = int(np.floor(self.high / step + 1e-9))
        return [multiple * step for multiple in range(first, last + 1)]


def _round_step(width: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is at least the width."""
    power = 10.0 ** np.floor(np.log10(width))
    return float(next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= width * (1 - 1e-9)))


def format_number(value: float) -> str:
    """Return a number as text that a browser does not break, short enough for an axis: 36 830, but 3e+12."""
    return number_text(value, separator="\u00a0", limit=1e9)
