"""What the formulas of scores are made of, besides + − × / and abs: with numpy, with arrays on a device, and in SQL.

A score writes its formulas once, with the operators of Python and the functions of `prediction.arithmetic`. SQL has an
arithmetic of its own, in `evencover.calibration.sql`.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evencover.inputs.arrays import FloatArray, is_on_device
from evencover.inputs.device_arrays import count, device_of, namespace

_MARGIN_IN_EPSILONS = 4  # of the rounding margin, relative to the size of a bound
ROUNDING_MARGIN = _MARGIN_IN_EPSILONS * float(np.finfo(float).eps)


class Arithmetic(Protocol):
    """The functions of formulas. Their arguments are arrays of shape (n,), or expressions of SQL."""

    def maximum(self, a: Any, b: Any, /) -> Any:
        """Return the larger of two numbers, of which the second can be one number for all rows."""

    def widened(self, distance: Any, bound: Any, /) -> Any:
        """Return the distance plus a rounding margin: a few units in the last place of the bound it is added to.

        Scores and bounds are rounded differently, so a target whose score *equals* the threshold could fall just
        outside. With tied targets (prices, counts) all of them would then be missed at once.
        """

    def check_divisor(self, divisor: Any, name: str, what: str, /) -> None:
        """Raise ValueError unless a spread or width that a score divides by is positive; in SQL, rows become NULL."""

    def infinite(self, sign: int, bound: Any, /) -> Any:
        """Return inf or −inf for each row, as the other end of an interval with this bound."""


class NumpyArithmetic:
    """The functions of formulas for arrays of numpy; large arrays are computed in place."""

    def maximum(self, a: FloatArray, b: Any) -> FloatArray:
        """Return the larger of two numbers."""
        larger: FloatArray = np.maximum(a, b)
        return larger

    def widened(self, distance: float | FloatArray, bound: FloatArray) -> FloatArray:
        """Return the distance plus a rounding margin, which is 0 if the distance is infinite."""
        widened = np.abs(bound)
        widened += np.abs(distance) if np.min(distance, initial=0.0) < 0 else distance
        widened *= ROUNDING_MARGIN
        if np.isinf(widened.max(initial=0.0)):
            widened[np.isinf(widened)] = 0.0
        widened += distance
        return widened

    def check_divisor(self, divisor: FloatArray, name: str, what: str) -> None:
        """Raise ValueError unless all divisors are positive."""
        if divisor.size and divisor.min() <= 0:
            raise not_positive(int(np.count_nonzero(divisor <= 0)), divisor.size, name, what)

    def infinite(self, sign: int, bound: FloatArray) -> FloatArray:
        """Return inf or −inf for each row."""
        return np.full(len(bound), sign * np.inf)


@dataclass(frozen=True)
class DeviceArithmetic:
    """The functions of formulas for arrays of another library: the same operations in the same order, for any type."""

    xp: Any

    def maximum(self, a: Any, b: Any) -> Any:
        """Return the larger of two numbers."""
        return self.xp.maximum(a, self._like(a, b))

    def widened(self, distance: Any, bound: Any) -> Any:
        """Return the distance plus a rounding margin of their type, which is 0 if the distance is infinite."""
        xp, distance = self.xp, self._like(bound, distance)
        size = xp.abs(bound) + xp.abs(distance)
        margin = size * (_MARGIN_IN_EPSILONS * float(xp.finfo(size.dtype).eps))
        return xp.where(xp.isinf(margin), xp.zeros_like(margin), margin) + distance

    def _like(self, array: Any, value: Any) -> Any:
        """Return a number as an array of the same type and device; arrays stay as they are."""
        return value if is_on_device(value) else self.xp.asarray(value, dtype=array.dtype, device=device_of(array))

    def check_divisor(self, divisor: Any, name: str, what: str) -> None:
        """Raise ValueError unless all divisors are positive."""
        if n := count(self.xp, divisor <= 0):
            raise not_positive(n, divisor.shape[0], name, what)

    def infinite(self, sign: int, bound: Any) -> Any:
        """Return inf or −inf for each row."""
        return self.xp.full_like(bound, sign * np.inf)


_NUMPY = NumpyArithmetic()


def arithmetic_of(values: Any) -> Arithmetic:
    """Return the functions of formulas for an array."""
    return DeviceArithmetic(namespace(values)) if is_on_device(values) else _NUMPY


def not_positive(n: int, n_rows: int, name: str, what: str) -> ValueError:
    """Return the error, with the remedy, for widths or spreads that a score divides by and that are not positive."""
    return ValueError(
        f"{name} divides by the {what}, which must be positive; zero or negative values: {n} of {n_rows}. "
        f"{name}(floor=0.01, scale=...) replaces them by 0.01 × scale; ConformalRegressor sets the scale from its "
        "training rows"
    )
