"""Rows as arrays on any device: their scores, the bounds of their intervals, and their groups."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.array_api._array_checks import (
    check_positive_spread,
    checked_codes,
    checked_numbers,
    common_namespace,
    device_of,
)
from evencover.bins import Bins
from evencover.calibration.table_columns import TableColumns
from evencover.inputs.arrays import FloatArray
from evencover.scores.score import Score

_MARGIN_IN_EPSILONS = 4  # as in `with_rounding_margin`


def scores(y: Any, center: Any = None, *, spread: Any = None, lower: Any = None, upper: Any = None) -> Any:
    """Return the score of each target, on the device of the arrays. Shape (n,).

    It is ``|y − center|``; with a spread ``|y − center| / spread``; with bounds ``max(lower − y, y − upper)``.

    Parameters
    ----------
    y : array of shape (n,)
        Targets.
    center, spread, lower, upper : arrays of shape (n,), optional
        The model's predictions: a center, a center and a spread, or the model's own bounds.

    Examples
    --------
    >>> import numpy as np
    >>> scores(np.array([1.0, 5.0]), np.array([2.0, 2.0]), spread=np.array([0.5, 3.0]))
    array([2., 1.])
    """
    return checked_rows({"y": y, "center": center, "spread": spread, "lower": lower, "upper": upper}).scores()


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """The predictions of n rows and, if available, their targets and groups: arrays of one library, on one device.

    Parameters
    ----------
    xp : module
        The array API of the arrays.
    columns : mapping from str to array of shape (n,)
        Targets ``y``, and predictions ``center``, ``spread``, ``lower``, ``upper``; some are absent.
    nonconformity : score
        The score that belongs to these predictions.
    groups : array of int, shape (n,), optional
        Group codes. One group by default.
    n_groups : int
        Number of groups.
    """

    xp: Any
    columns: Mapping[str, Any]
    nonconformity: Score
    groups: Any = None
    n_groups: int = 1

    def __len__(self) -> int:
        return int(next(iter(self.columns.values())).shape[0])

    def scores(self) -> Any:
        """Return the score of each target. Shape (n,)."""
        y = self.columns["y"]
        if "lower" in self.columns:
            lower, upper = self._bounds()
            return self.xp.maximum(lower - y, y - upper)
        residuals = self.xp.abs(y - self.columns["center"])
        return residuals / self.columns["spread"] if "spread" in self.columns else residuals

    def interval(self, threshold: Any) -> tuple[Any, Any]:
        """Return the lower and upper bounds for the threshold of each row. Shape (n,) each."""
        if "lower" in self.columns:
            lower, upper = self._bounds()
            return lower - self._with_margin(threshold, lower), upper + self._with_margin(threshold, upper)
        center = self.columns["center"]
        distance = threshold * self.columns["spread"] if "spread" in self.columns else threshold
        half_width = self._with_margin(distance, center)
        return center - half_width, center + half_width

    def _bounds(self) -> tuple[Any, Any]:
        """Return the model's own bounds; those in the wrong order are put in order, as in `Prediction`."""
        bounds = self.columns["lower"], self.columns["upper"]
        return self.xp.minimum(*bounds), self.xp.maximum(*bounds)

    def _with_margin(self, distance: Any, bound: Any) -> Any:
        """Return the distance plus the margin of `with_rounding_margin`, by the same operations in the same order."""
        xp = self.xp
        size = xp.abs(bound) + xp.abs(distance)
        margin = size * (_MARGIN_IN_EPSILONS * float(xp.finfo(size.dtype).eps))
        return xp.where(xp.isinf(margin), xp.zeros_like(margin), margin) + distance


def checked_rows(
    columns: Mapping[str, Any], *, groups: Any = None, n_groups: int | None = None, scores: Any = None
) -> ArrayRows:
    """Return rows from the arrays that users pass. Raise ValueError or TypeError unless they fit together.

    Parameters
    ----------
    columns : mapping from str to array of shape (n,), or None
        Targets and predictions, by the names of the arguments. The first that is given sets the number of rows.
    groups : array of int, shape (n,), optional
        Group codes.
    n_groups : int, optional
        Number of groups, by default the largest code plus 1.
    scores : array, optional
        The scores of the calibration, which must be of the same library, on the same device.
    """
    given = {name: array for name, array in columns.items() if array is not None}
    nonconformity = TableColumns(None, **{name: name for name in given if name != "y"}).nonconformity
    others = {"groups": groups, "the scores of the calibration": scores}
    xp = common_namespace(given | {name: array for name, array in others.items() if array is not None})
    first = next(iter(given))
    numbers: dict[str, Any] = {}
    for name, array in given.items():
        length = numbers[first].shape[0] if numbers else None
        numbers[name] = checked_numbers(xp, array, name, length=length, matched=first)
    if "spread" in numbers:
        check_positive_spread(xp, numbers["spread"])
    groups, n_groups = checked_codes(xp, groups, n_groups, length=numbers[first].shape[0], matched=first)
    return ArrayRows(xp, numbers, nonconformity, groups, n_groups)


def groups_by_edges(values: Any, edges: Any) -> Any:
    """Return the group of each value, 0 to len(edges), on the device of the values. Shape (n,).

    Group 0 has the values up to the first edge, the last group those above the last edge: the groups of
    ``BySpread(edges=...)``, where an edge belongs to the group below it.

    Parameters
    ----------
    values : array of shape (n,)
        Predicted spreads, or other numbers that are known before the target.
    edges : sequence of float
        Increasing edges, fixed before calibration.

    Examples
    --------
    >>> import numpy as np
    >>> groups_by_edges(np.array([0.5, 1.0, 2.0, 9.0]), [1.0, 3.0])
    array([0, 0, 1, 2])
    """
    xp = common_namespace({"values": values})
    values = checked_numbers(xp, values, "values")
    exact = Bins.fixed(edges, "values").edges
    if xp.finfo(values.dtype).bits < 32:
        values = xp.astype(values, xp.float32)  # every value stays the same
    lowered = exact if xp.finfo(values.dtype).bits > 32 else _as_float32_below(exact)
    on_device = xp.asarray(lowered.tolist(), dtype=values.dtype, device=device_of(values))
    return xp.searchsorted(on_device, values, side="left")


def _as_float32_below(edges: FloatArray) -> FloatArray:
    """Return the largest float32 up to each edge: the same values of float32 are at most as large."""
    with np.errstate(over="ignore"):
        nearest = edges.astype(np.float32)
    lowered = np.where(nearest > edges, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return lowered.astype(np.float64)
