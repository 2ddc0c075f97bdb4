"""Intervals as users pass them: `Intervals`, unions, or plain bounds of any library."""

from typing import Any

import numpy as np

from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals, IntervalUnion
from evencover.quantiles import Level


def checked_intervals(intervals: Any) -> Intervals | IntervalUnion:
    """Return intervals of any kind as `Intervals` or `IntervalUnion`. Raise if they are not for one level."""
    if not isinstance(intervals, Intervals | IntervalUnion):
        intervals = _from_bounds(intervals)
    checked: Intervals | IntervalUnion = intervals.on_host()
    if checked.width.ndim > 1:
        n_levels = checked.width.shape[1]
        raise ValueError(
            f"intervals must be for one level, such as Intervals(lower[:, 0], upper[:, 0]); got {n_levels} levels"
        )
    if not len(checked):
        raise ValueError("intervals must have at least one row; got 0")
    return checked


def _from_bounds(bounds: Any) -> Intervals:
    """Return intervals from a pair (lower, upper), or from an array of shape (n, 2)."""
    pair = isinstance(bounds, tuple) and len(bounds) == 2
    try:
        arrays = [np.asarray(each, dtype=float) for each in (bounds if pair else [bounds])]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"intervals must be numbers, in an array of shape (n, 2) or a pair (lower, upper): {error}"
        ) from None
    if not pair:
        (array,) = arrays
        array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
        if array.ndim != 2 or array.shape[1] != 2:
            raise ValueError(
                "intervals must be Intervals, an array of shape (n, 2) or a pair (lower, upper), for one level; got an "
                f"array of shape {array.shape}"
            )
        arrays = [array[:, 0], array[:, 1]]
    intervals = Intervals(*arrays)
    if len(intervals) and np.all(intervals.lower > intervals.upper):
        raise ValueError("intervals must have lower <= upper; in every row, lower is above upper: are the two swapped?")
    return intervals


def are_whole(y: FloatArray) -> bool:
    """Return whether all targets are whole numbers."""
    return not np.any(y % 1)


def level_of(intervals: Intervals | IntervalUnion) -> Level:
    """Return the level stored in the intervals, otherwise 0.9."""
    return 0.9 if intervals.level is None else intervals.level  # type: ignore[return-value]
