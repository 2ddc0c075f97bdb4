"""Columns that determine the target: copies of it in another unit or scale, and parts that add up to it."""

from collections.abc import Iterator, Mapping

import numpy as np
from scipy.stats import rankdata

from evencover._internal.arrays import FloatArray
from evencover.models.column_kinds import is_time_name
from evencover.studies._messages import Message

_UNEXPLAINED = 1e-4  # share of the target's variance that rounding may leave: two to three digits
_SAME_ORDER = 1e-6  # the same for ranks
_TOO_GOOD = 0.999  # share of the target's variance that a model rarely explains
_MIN_ROWS = 10
_MAX_ROWS = 20_000  # evenly spaced; more would only cost time
_RANK_MARGIN = 1e-12  # of the normal equations
_MIN_CONTRIBUTION = 0.01  # of a column to a sum, in standard deviations of the target


def leak_warnings(columns: Mapping[str, FloatArray], target: str, y: FloatArray) -> list[Message]:
    """Return a warning about columns that determine the target: each of them alone or, if none does, in a sum.

    A column determines the target if one is a linear function of the other, on the scale of the numbers or of their
    logarithms, with at most 0.01 % of the variance unexplained; or if both have the same order, such as ranks.

    Parameters
    ----------
    columns : mapping from str to ndarray of shape (n,)
        The features that are numbers, with NaN for missing values.
    target : str
        The name of the target.
    y : ndarray of shape (n,)
        Its values.
    """
    rows = slice(None, None, -(-len(y) // _MAX_ROWS) or 1)
    sampled, y = {name: values[rows] for name, values in columns.items()}, y[rows]
    copies = [name for name, values in sampled.items() if _is_copy(values, y, is_time=is_time_name(name))]
    names = copies or _parts_of_sum(sampled, y)
    if not names:
        return []
    listed = ", ".join(map(repr, names))
    one = len(names) == 1
    subject = f"{listed} determines" if one else f"{listed} {'each' if copies else 'together'} determine"
    text = (
        f"leak? {subject} the target {target!r} almost exactly. If {'it is' if one else 'they are'} not known when you "
        "predict, the results are too good to be true"
    )
    return [Message(text, ({"drop": names},))]


def too_good(r2: float) -> list[Message]:
    """Return a warning if a model explains nearly all of the target's variation."""
    text = (
        f"the model explains {100 * r2:.2f} % of the variation of the target. This is rare: look for columns that are "
        "known only together with the target"
    )
    return [Message(text)] if r2 >= _TOO_GOOD else []


def _is_copy(x: FloatArray, y: FloatArray, *, is_time: bool) -> bool:
    """Return whether a column and the target determine each other up to rounding; a target may grow with time."""
    known = np.isfinite(x)
    if known.sum() < max(_MIN_ROWS, len(x) / 2):
        return False
    pairs = [] if is_time else [(rankdata(x[known]), rankdata(y[known]), _SAME_ORDER)]
    pairs += [(left, right, _UNEXPLAINED) for left, right in _scales(x[known], y[known])]
    return any(_unexplained(left, right) <= limit for left, right, limit in pairs)


def _scales(x: FloatArray, y: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield both columns as they are and, where they are positive, as logarithms."""
    for left in (x, *([np.log(x)] if x.min() > 0 else [])):
        for right in (y, *([np.log(y)] if y.min() > 0 else [])):
            yield left, right


def _unexplained(x: FloatArray, y: FloatArray) -> float:
    """Return the share of variance that a linear relation leaves, 1 − r²; 1 if a column is constant."""
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = x.std(), y.std()
    if not all(np.isfinite(spreads)) or min(spreads) <= 0:
        return 1.0
    return 1.0 - float(np.mean((x - x.mean()) / spreads[0] * (y - y.mean()) / spreads[1])) ** 2


def _parts_of_sum(columns: Mapping[str, FloatArray], y: FloatArray) -> list[str]:
    """Return the columns whose weighted sum is the target up to rounding; none if there is no such sum.

    The share of the variance that is left is corrected for the number of columns.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        usable = {name: values for name, values in columns.items() if 0 < values.std() < np.inf}
    if len(y) <= max(_MIN_ROWS, 2 * len(usable)) or len(usable) < 2 or y.std() <= 0:
        return []
    X = np.column_stack([(values - values.mean()) / values.std() for values in usable.values()])
    scaled = (y - y.mean()) / y.std()
    weights = np.linalg.lstsq(X.T @ X, X.T @ scaled, rcond=_RANK_MARGIN)[0]
    left = np.mean((scaled - X @ weights) ** 2) * (len(y) - 1) / (len(y) - 1 - len(usable))
    if left > _UNEXPLAINED:
        return []
    return [name for name, weight in zip(usable, weights, strict=True) if abs(weight) >= _MIN_CONTRIBUTION]
