"""`Support`: the values that a target can have."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.inputs.arrays import BoolArray, FloatArray, is_number

_MAX_WHOLE = 2.0**53  # beyond it, every floating-point number is whole


@dataclass(frozen=True)
class Support:
    """The values that a target can have: limits, whole numbers only, or both.

    Parameters
    ----------
    y_min, y_max : float, optional
        The smallest and the largest possible target; None is no limit.
    whole : bool
        Whether all targets are whole numbers, such as counts.

    Examples
    --------
    >>> Support(y_min=0, whole=True)
    Support(y_min=0, y_max=None, whole=True)
    >>> Support(y_min=0, whole=True).contains([-1.0, 0.5, 2.0])
    array([False, False,  True])
    >>> print(Support(y_min=0, whole=True))
    whole numbers of at least 0
    """

    y_min: float | None = None
    y_max: float | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.whole, bool | np.bool_):
            raise ValueError(f"whole must be True or False; got {self.whole!r}")
        object.__setattr__(self, "whole", bool(self.whole))
        for name in ("y_min", "y_max"):
            object.__setattr__(self, name, self._checked_limit(name))
        if self.y_min is None and self.y_max is None and not self.whole:
            raise ValueError("y_min, y_max or whole must be given; got none of them")
        if self.y_min is not None and self.y_max is not None and self.y_min > self.y_max:
            raise ValueError(f"y_min must be at most y_max; got {self.y_min!r} and {self.y_max!r}")

    def _checked_limit(self, name: str) -> float | None:
        """Return a limit as an int if it is whole, so that it prints short. Raise ValueError if it cannot be used."""
        limit = getattr(self, name)
        if limit is None:
            return None
        if not is_number(limit) or not _is_float(limit):
            raise ValueError(f"{name} must be a finite number or None; got {limit!r:.40}")
        if float(limit).is_integer() and abs(limit) < _MAX_WHOLE:
            return int(limit)
        if self.whole and not float(limit).is_integer():
            raise ValueError(f"{name} must be a whole number, because whole=True; got {limit!r}")
        return float(limit)

    @classmethod
    def of_targets(cls, y: FloatArray, name: str = "") -> "Support | None":
        """Return the support that targets suggest; None if there is nothing to say.

        If no target is negative, the limit is 0. If, besides, none is above 1 or 100, this is the upper limit of a
        share: if the name says so, or if at least three targets lie on the limit, more than on any other value of the
        upper half. If all targets are whole numbers below 2**53, of at least two different values, the support is
        whole.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets.
        name : str
            What the target is called, such as percent_paid.

        Examples
        --------
        >>> Support.of_targets(np.array([0.2, 0.5, 0.9]), "share of votes")
        Support(y_min=0, y_max=1, whole=False)
        """
        if not len(y):
            return None
        y_min = 0 if y.min() >= 0 else None
        y_max = None if y_min is None else _limit_of_share(y, name)
        whole = bool((y == np.rint(y)).all() and np.abs(y).max() < _MAX_WHOLE and np.ptp(y) > 0)
        return None if y_min is None and not whole else cls(y_min, y_max, whole)

    def contains(self, y: Any) -> BoolArray:
        """Return whether each target is one of the possible values. Shape of `y`."""
        y = np.asarray(y, dtype=float)
        low, high = self._limits
        inside: BoolArray = (low <= y) & (y <= high)
        return inside & (y == np.rint(y)) if self.whole else inside

    def neighbors(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the possible targets next to each value, below and above; equal if there is only one nearest."""
        below, above = (np.floor(values), np.ceil(values)) if self.whole else (values, values)
        return tuple(np.clip(each, *self._limits) + 0.0 for each in (below, above))  # type: ignore[return-value]

    def restrict(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smallest bounds that hold the same possible targets; lower > upper if there is none."""
        if self.whole:
            lower, upper = np.ceil(lower) + 0.0, np.floor(upper) + 0.0  # 0.0 in place of -0.0
        low, high = self._limits
        return np.maximum(lower, low), np.minimum(upper, high)

    @property
    def _limits(self) -> tuple[float, float]:
        return -np.inf if self.y_min is None else self.y_min, np.inf if self.y_max is None else self.y_max

    def __str__(self) -> str:
        limits = limits_text(self.y_min, self.y_max)
        return " of ".join(["whole numbers"] * self.whole + [limits] * bool(limits))


_PERCENT_NAMES = re.compile(r"percent|pct|%|(?<![a-z])perc(?![a-z])|share(?![a-z])|proportion", re.IGNORECASE)
_FRACTION_NAMES = re.compile(
    r"share(?![a-z])|proportion|probability|fraction|(?<![a-z])(prob|prop|frac)(?![a-z])", re.IGNORECASE
)
_OTHER_NAMES = re.compile(
    r"chang|chg|growth|incr|decr|raise|hike|return|gain|diff|inflation|price|value|volume|cost|odds|ratio|logit",
    re.IGNORECASE,
)  # percentages that may be above 100, and shares of a company
_MIN_PERCENTAGE = 10  # smaller ones may have another unit, and are far from the limit
_MIN_ROWS_AT_LIMIT = 3
_MIN_PERCENTAGES = 10  # different values; fewer may be amounts such as 10, 20, 50 and 100


def _limit_of_share(y: FloatArray, name: str) -> int | None:
    """Return 1 or 100 if it is the largest value that targets, none of which is negative, can have; otherwise None."""
    limit = 1 if y.max() <= 1 else 100
    if y.max() > limit:
        return None
    if _is_reached(y, limit):
        return limit
    names = _FRACTION_NAMES if limit == 1 else _PERCENT_NAMES
    is_named = names.search(name) and not _OTHER_NAMES.search(name)
    return limit if is_named and (limit == 1 or y.max() > _MIN_PERCENTAGE) else None


def _is_reached(y: FloatArray, limit: int) -> bool:
    """Return whether enough targets lie on the limit to show that there is one.

    Whole numbers up to 1 may be counts. A measurement may be exactly 100, but its frequency falls towards the largest
    values.
    """
    values, counts = np.unique(y, return_counts=True)
    if counts[-1] < _MIN_ROWS_AT_LIMIT or values[-1] != limit or counts[-1] < counts[values > limit / 2].max():
        return False
    return bool(np.any(values % 1)) if limit == 1 else len(values) >= _MIN_PERCENTAGES


def _is_float(number: Any) -> bool:
    """Return whether a number is finite as a floating-point number."""
    try:
        return bool(np.isfinite(float(number)))
    except OverflowError:
        return False


def limits_text(low: float | None, high: float | None) -> str:
    """Return limits as text, such as ``at least 0 and at most 9``; empty if there is none."""
    limits = (("at least", low), ("at most", high))
    return " and ".join(f"{words} {float(limit):.15g}" for words, limit in limits if limit is not None)
