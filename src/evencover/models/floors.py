"""The smallest spread a model gives."""

from typing import Any

import numpy as np

from evencover.inputs import FloatArray


def relative_floor(spread: Any, y: FloatArray, fraction: float = 1e-3) -> float:
    """Return a fraction of the median spread on training rows; of the target's own size where that is zero.

    Being relative it makes no difference to a target in other units.
    """
    sizes = (float(np.median(spread)), float(np.std(y)), float(np.mean(np.abs(y))), 1.0)
    return fraction * next(size for size in sizes if size > 0)
