"""The targets that lie in at least a given number of intervals, as a union of intervals."""

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray, IntArray
from evencover._internal.fold_selection import FoldScores, Values, blocks
from evencover.intervals import Intervals, empty_intervals, infinite_intervals

_MAX_ENDS = 1 << 19  # ends of intervals that are sorted at once


def depth_pieces(n_rows: int, own: FoldScores, ends: tuple[Values, Values], needed: int) -> list[Intervals]:
    """Return for each row the targets that lie in at least `needed` of its intervals, as pieces.

    Parameters
    ----------
    n_rows : int
        Number of rows, m.
    own : FoldScores
        The scores, each of which gives an interval for each row.
    ends : two callables
        The negative lower ends, and the upper ends; see `FoldScores.smallest`.
    needed : int
        The number of intervals.

    Returns
    -------
    list of Intervals of m rows
        The first pieces of all rows, then the second ones, and so on; rows with fewer pieces have empty ones.
    """
    if needed <= 0:
        return [infinite_intervals(n_rows)]
    if needed > len(own):
        return [empty_intervals(n_rows)]
    negated_lower, upper = (own.smallest(len(own) - needed + 1, n_rows, values) for values in ends)
    found = [Intervals(-negated_lower, upper)]
    swept = np.flatnonzero(~_is_one_interval(n_rows, own, ends, needed))
    pieces = _swept_pieces(swept, n_rows, own, ends, needed)
    found += [empty_intervals(n_rows) for _ in pieces[1:]]
    for whole, part in zip(found, pieces, strict=False):
        whole.lower[swept], whole.upper[swept] = part.lower, part.upper
    return found


def _is_one_interval(n_rows: int, own: FoldScores, ends: tuple[Values, Values], needed: int) -> BoolArray:
    """Return whether the set of each row is certainly one interval.

    It then reaches from the (n − needed + 1)-th largest L_i to the (n − needed + 1)-th smallest U_i of the n intervals
    [L_i, U_i]. Intervals with L_i > U_i are empty. In each fold, those with the smallest scores are. Of the others, let

    - below(y) = #{U_i < y} and above(y) = #{L_i > y}, so that y is in the set exactly if below(y) + above(y) is at most
      t = #{intervals that are not empty} − needed,
    - y0 and y1 be the smallest L_i and the largest U_i, over the folds, of the smallest score of each fold.

    The intervals of a fold are nested. Let each fold have at most its share of t intervals, t × (its share of the
    scores), that do not reach to both y0 and y1. The set is then one interval, if no fold has only empty ones:

    - Between y0 and y1, y is in all other intervals that are not empty: in `needed` or more. So it is in the set.
    - If y < y0, below(y) is 0, because no U_i is smaller than that of the smallest score. So y is in the set exactly if
      above(y) <= t. All empty intervals have L_i > y, too. So this is the case if at most n − needed of all intervals
      have L_i > y: if y is at least the (n − needed + 1)-th largest L_i, which is at most y0 because above(y0) <= t.
    - If y > y1, the same holds for the other end.
    """
    result = np.empty(n_rows, dtype=bool)

    def width(cells: IntArray, scores: FloatArray) -> FloatArray:
        return ends[0](cells, scores) + ends[1](cells, scores)

    for rows in blocks(n_rows, len(own.sizes)):
        cells = own.cells(np.arange(n_rows)[rows], n_rows)
        n_empty = own.count(cells, np.zeros(len(cells)), width, np.less)
        allowed = len(own) - n_empty.sum(axis=1) - needed
        share = np.maximum(allowed, 0)[:, None] * own.sizes // len(own)
        result[rows] = (allowed >= 0) & (n_empty < own.sizes).all(axis=1)
        for values in ends:
            first = own.at(cells, n_empty, values).max(axis=1, keepdims=True)
            result[rows] &= (own.at(cells, n_empty + share, values) >= first).all(axis=1)
    return result


def _swept_pieces(
    rows: IntArray, n_rows: int, own: FoldScores, ends: tuple[Values, Values], needed: int
) -> list[Intervals]:
    """Return the pieces of some rows from all ends of their intervals, in order."""
    size = max(1, _MAX_ENDS // (2 * len(own)))
    parts = []
    for start in range(0, len(rows), size):
        cells = own.cells(rows[start : start + size], n_rows)
        negated_lower, upper = (own.table(cells, values) for values in ends)
        parts.append(_pieces(-negated_lower, upper, needed))
    return _joined_pieces(parts, len(rows))


def _pieces(lower: FloatArray, upper: FloatArray, needed: int) -> FloatArray:
    """Return the pieces of b rows with n intervals each, as lower and upper ends. Shape (2, pieces, b)."""
    n = lower.shape[1]
    ends = np.concatenate([lower, upper], axis=1)
    order = np.argsort(ends, axis=1, kind="stable")  # at ties, intervals begin before others end: they are closed
    steps = np.where(order < n, 1, -1)
    empty = np.tile(~(lower <= upper), 2)
    steps[np.take_along_axis(empty, order, axis=1)] = 0
    depth = np.cumsum(steps, axis=1)
    begins, stops = (steps > 0) & (depth == needed), (steps < 0) & (depth == needed - 1)
    number = np.cumsum(begins, axis=1) - 1  # of the piece that began last
    n_pieces = int(number.max(initial=0)) + 1
    result = np.empty((2, n_pieces, len(lower)))
    result[0], result[1] = np.inf, -np.inf
    ordered = np.take_along_axis(ends, order, axis=1)
    for side, marked in enumerate((begins, stops)):
        rows, positions = np.nonzero(marked)
        result[side, number[rows, positions], rows] = ordered[rows, positions]
    return result


def _joined_pieces(parts: list[FloatArray], n_rows: int) -> list[Intervals]:
    """Return the pieces of all rows from those of blocks of rows."""
    n_pieces = max((part.shape[1] for part in parts), default=1)
    pieces = [empty_intervals(n_rows) for _ in range(n_pieces)]
    start = 0
    for part in parts:
        for piece, (lower, upper) in zip(pieces, part.swapaxes(0, 1), strict=False):
            piece.lower[start : start + len(lower)], piece.upper[start : start + len(lower)] = lower, upper
        start += part.shape[2]
    return pieces
