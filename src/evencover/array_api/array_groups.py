"""Groups of rows as codes, made on the device."""

from typing import Any

import numpy as np

from evencover.array_api._array_checks import checked_numbers, common_namespace, device_of
from evencover.bins import Bins
from evencover.inputs.arrays import FloatArray


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
