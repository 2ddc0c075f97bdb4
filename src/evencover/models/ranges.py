"""Limits of what a column of numbers or dates held in training, and new rows that are outside of it."""

from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import Any, TypeAlias

import numpy as np

from evencover.inputs.arrays import BoolArray, FloatArray
from evencover.inputs.dates import DateArray

Limits: TypeAlias = tuple[float, float]

_RARER = 100  # a value beyond a limit is so much rarer than one beyond the range
_MIN_TAIL = 20  # values at an end of the range that show how the values thin out
_LEAST_SHARE = 0.05  # of the range, by which a limit lies beyond it at least
_BY_CHANCE = 0.001  # probability below which a column without any value is no chance


def limits_of(numbers: FloatArray) -> Limits | None:
    """Return the limits beyond which a new number is outside of what these numbers show; None without numbers.

    Of n numbers from one source, a new one lies beyond the largest with probability 1/(n + 1), which is often if there
    are many columns. So a limit lies beyond the range, by as much as the values thin out there: if they thin out
    exponentially, the k-th largest and the largest differ by about s log k, and a value that is 100 times rarer than
    one beyond the largest lies s log 100 above it. Here k is √n, at least 20. The differences are taken on the scale
    asinh((x − median) / deviation), which is linear near the median and logarithmic far from it, so that large values
    of a skewed column, such as incomes, are not outside. The deviation is the median distance from the median, of
    the numbers that differ from it. A limit lies beyond the range by 5 % of it at least, if the values are capped or
    have few steps. If all numbers are equal, any other is outside.

    Parameters
    ----------
    numbers : ndarray of shape (n,)
        Numbers without missing values.

    Examples
    --------
    >>> low, high = limits_of(np.linspace(32, 42, 500))  # latitudes
    >>> round(low, 1), round(high, 1)
    (31.3, 42.7)
    """
    if not len(numbers):
        return None
    ordered = np.sort(numbers)
    with np.errstate(all="ignore"):  # huge numbers: a limit is then infinite, or the other one counts
        lower, upper = _thinned_out(-ordered[::-1]), _thinned_out(ordered)
        margin = _LEAST_SHARE * (ordered[-1] - ordered[0])
        return float(np.fmin(-lower, ordered[0] - margin)), float(np.fmax(upper, ordered[-1] + margin))


def _thinned_out(ordered: FloatArray) -> np.float64:
    """Return the number, above numbers in order, that is 100 times rarer than one above the largest."""
    n, median = len(ordered), np.median(ordered)
    distances = np.abs(ordered - median)
    k = min(max(ceil(sqrt(n)), _MIN_TAIL), n)
    if k < 2 or not distances.any():
        return np.float64(ordered[-1])
    deviation = np.median(distances[distances > 0])
    first, last = np.arcsinh((ordered[[-k, -1]] - median) / deviation)
    return np.float64(median + deviation * np.sinh(last + (last - first) * log(_RARER) / log(k)))


def are_beyond(numbers: FloatArray, limits: Limits | None) -> BoolArray:
    """Return which numbers are beyond the limits; missing ones are not. Shape (n,)."""
    if limits is None:
        return np.zeros(len(numbers), dtype=bool)
    return (numbers < limits[0]) | (numbers > limits[1])


def joined_limits(limits: list[Limits | None]) -> Limits | None:
    """Return limits such that a number beyond them is beyond each of several; None if some are not known."""
    known = [each for each in limits if each is not None]
    if not known or len(known) < len(limits):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def days_of(dates: DateArray) -> FloatArray:
    """Return the days since 1970 of dates, with NaN for missing ones. Shape (n,)."""
    days: FloatArray = (dates - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    return days


def is_emptied(missing: int, training_rows: int | None, rows: int) -> bool:
    """Return whether a column without any value in so many rows is no chance, given how many it lacked in training.

    If the number of training rows is not known, only a column that lacked none of its values tells.
    """
    share = float(missing > 0) if training_rows is None else missing / training_rows
    return rows > 0 and share**rows < _BY_CHANCE


@dataclass(frozen=True, eq=False)
class OutsideColumn:
    """The rows with a value of one column that the training rows did not show.

    Parameters
    ----------
    name : str
        The name of the column.
    rows : ndarray of bool, shape (n,)
        Whether the value of each row is outside: beyond the limits of the column (see `limits_of`), a category that
        did not occur in training, or a missing value although there was none in training.
    example : object
        The first such value; None if it is missing.
    """

    name: str
    rows: BoolArray
    example: Any

    @property
    def count(self) -> int:
        """Number of these rows."""
        return int(self.rows.sum())


@dataclass(frozen=True, eq=False, repr=False)
class Outside:
    """Which new rows are outside of what the model has seen in training. Returned by `TableEncoder.outside`.

    `print` shows the numbers of rows and the columns in one line. As a condition, it is true if anything is outside.

    Parameters
    ----------
    n_rows : int
        Number of new rows, n.
    columns : tuple of OutsideColumn
        The columns with values that are outside.
    without_values : tuple of str
        Columns that are missing in all new rows, although most training rows, or some, had a value. This does not make
        the single rows outside, unless the column was never missing in training.
    """

    n_rows: int
    columns: tuple[OutsideColumn, ...] = ()
    without_values: tuple[str, ...] = ()

    @property
    def rows(self) -> BoolArray:
        """Whether each row is outside in any column. Shape (n,)."""
        rows = np.zeros(self.n_rows, dtype=bool)
        for each in self.columns:
            rows |= each.rows
        return rows

    @property
    def column_names(self) -> list[str]:
        """The columns in which each row is outside, separated by semicolons; empty if it is not. Length n."""
        found: dict[int, list[str]] = {}
        for each in self.columns:
            for row in np.flatnonzero(each.rows).tolist():
                found.setdefault(row, []).append(each.name)
        names = [""] * self.n_rows
        for row, columns in found.items():
            names[row] = "; ".join(columns)
        return names

    def __bool__(self) -> bool:
        return bool(self.columns or self.without_values)

    def __repr__(self) -> str:
        return f"Outside({int(self.rows.sum())} of {self.n_rows} rows; columns: {[each.name for each in self.columns]})"

    def __str__(self) -> str:
        from evencover.words.new_rows import outside_text

        return outside_text(self)
