"""Values as JSON data."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def plain_value(value: Any, other: Callable[[Any], Any] = repr) -> Any:
    """Return a value as JSON data: NaN becomes null, an infinite number the text inf or -inf.

    Parameters
    ----------
    value : object
        A number, a text, an array, or a mapping or sequence of such values.
    other : callable
        Turns an object of another kind into JSON data.
    """
    if isinstance(value, Mapping):
        return {str(key): plain_value(each, other) for key, each in value.items()}
    if isinstance(value, tuple | list | np.ndarray):
        return [plain_value(each, other) for each in value]
    if isinstance(value, np.generic):
        return plain_value(value.item(), other)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | bool | int | float) else other(value)
