"""Selection over the sorted scores of several folds, whose values are computed only where they are needed.

For a new row and a fold, a *value* is the end of an interval. It does not decrease with the score, so the scores of a
fold are sorted once, and the values of each row are sorted arrays, one for each fold. The value with a given rank over
all folds is found in three steps, of which each takes the rows that the one before did not finish:

1. Values are nearly linear functions of the score close by. So a few steps of Newton's method find about how many
   values of each fold lie below the result.
2. Only the values near these positions are computed and sorted. They show whether the result is right.
3. Bisection, which needs no assumption: for K folds and n scores it computes O(K log² n) values of a row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray, IntArray

# values(cells, scores): the value of each pair of a cell (a row and a fold) and a score
Values: TypeAlias = Callable[[IntArray, FloatArray], FloatArray]

_REACHES = (2, 4, 12)  # values of a fold on each side of the expected position, in successive attempts
_MAX_BINS = 1 << 14  # of scores near the expected one, in all folds
_MAX_STEPS = 4  # of Newton's method
_TOLERANCE = 0.3  # values per fold that the expected positions may miss
_ALL_VALUES = 8  # scores per fold, up to which all values are computed
_MAX_VALUES = 3 << 14  # values that are computed at once; larger arrays do not stay in the processor's cache


@dataclass(frozen=True, eq=False)
class FoldScores:
    """The scores of K folds: sorted within each fold, one fold after the other.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        The scores.
    starts, sizes : ndarray of int, shape (K,)
        The position of each fold's first score, and the number of its scores, which is positive.
    folds : ndarray of int, shape (K,)
        The number of each fold, since folds without scores are left out.
    """

    scores: FloatArray
    starts: IntArray
    sizes: IntArray
    folds: IntArray

    @classmethod
    def of(cls, scores: FloatArray, folds: IntArray, n_folds: int) -> "FoldScores":
        """Return the scores of the folds that have any."""
        order = np.lexsort((scores, folds))
        counts = np.bincount(folds, minlength=n_folds)
        present = np.flatnonzero(counts)
        sizes = counts[present]
        return cls(scores[order], np.cumsum(sizes) - sizes, sizes, present)

    def __len__(self) -> int:
        return len(self.scores)

    @cached_property
    def fold_of_score(self) -> IntArray:
        """The position of the fold of each score. Shape (n,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def _sorted_scores(self) -> FloatArray:
        return np.sort(self.scores)

    def of_fold(self, fold: int) -> FloatArray:
        """Return the sorted scores of the fold at a position."""
        return self.scores[self.starts[fold] : self.starts[fold] + self.sizes[fold]]

    def counts_at_least(self, fold: int, values: FloatArray) -> tuple[IntArray, IntArray]:
        """Return how many scores of the fold at a position are at least each value, and how many are larger."""
        own = self.of_fold(fold)
        at_least, larger = (len(own) - np.searchsorted(own, values, side=side) for side in ("left", "right"))
        return at_least, larger

    def smallest(self, rank: int, n_rows: int, values: Values) -> FloatArray:
        """Return the value with this rank (1: the smallest) of each row over all folds; inf if there are fewer.

        Parameters
        ----------
        rank : int
            The rank.
        n_rows : int
            Number of rows, m. The cell of row j and the k-th fold is k × m + j.
        values : callable
            ``values(cells, scores)``: the value of each pair of a cell and a score. It does not decrease with the
            score.

        Returns
        -------
        ndarray of shape (m,)
        """
        result = np.full(n_rows, np.inf)
        if rank > len(self):
            return result
        all_values = len(self) <= _ALL_VALUES * len(self.sizes)
        per_row = len(self) if all_values else 2 * _REACHES[0] * len(self.sizes)
        done = np.ones(n_rows, dtype=bool)
        for rows in blocks(n_rows, per_row):
            cells = self.cells(np.arange(n_rows)[rows], n_rows)
            if all_values:
                result[rows] = np.partition(self.table(cells, values), rank - 1, axis=1)[:, rank - 1]
            else:
                result[rows], done[rows] = self._smallest_near_expected(rank, cells, values)
        todo = np.flatnonzero(~done)
        for part in blocks(len(todo), len(self.sizes)):
            result[todo[part]] = self._smallest_by_bisection(rank, self.cells(todo[part], n_rows), values)
        return result

    def cells(self, rows: IntArray, n_rows: int) -> IntArray:
        """Return the cells of rows. Shape (b, K)."""
        return np.arange(len(self.sizes)) * n_rows + rows[:, None]

    def table(self, cells: IntArray, values: Values) -> FloatArray:
        """Return all values of b rows, from their cells of shape (b, K). Shape (b, n)."""
        return _at(values, cells[:, self.fold_of_score], self.scores)

    def at(self, cells: IntArray, positions: IntArray, values: Values) -> FloatArray:
        """Return the values at positions in the folds, inf beyond the last one. Shape (b, K), as all arguments."""
        table = _at(values, cells, self.scores[self.starts + np.minimum(positions, self.sizes - 1)])
        table[positions >= self.sizes] = np.inf
        return table

    def count(
        self,
        cells: IntArray,
        bounds: FloatArray,
        values: Values,
        less: np.ufunc,
        between: tuple[IntArray, IntArray] | None = None,
    ) -> IntArray:
        """Return the number of values of each fold that are less than the bound of the row, by bisection. Shape (b, K).

        `less` is np.less or np.less_equal. The number is known to lie between two others, if they are given.
        """
        low, high = between or (np.zeros_like(cells), np.broadcast_to(self.sizes, cells.shape))
        if not less(self.at(cells, low, values), bounds[:, None]).any():
            return low
        while (unknown := low < high).any():
            middle = (low + high) // 2
            is_less = less(self.at(cells, middle, values), bounds[:, None])
            low, high = np.where(unknown & is_less, middle + 1, low), np.where(unknown & ~is_less, middle, high)
        return low

    def _smallest_near_expected(self, rank: int, cells: IntArray, values: Values) -> tuple[FloatArray, BoolArray]:
        """Return the value with this rank of each row, and whether it is right, from values near expected positions."""
        result, done = np.empty(len(cells)), np.zeros(len(cells), dtype=bool)
        expected = self._expected_positions(rank, cells, values)
        for reach in _REACHES:
            todo = np.flatnonzero(~done)
            for part in blocks(len(todo), 2 * reach * len(self.sizes)):
                rows = todo[part]
                low = np.clip(expected[rows] - reach, 0, np.maximum(self.sizes - 2 * reach, 0))
                result[rows], done[rows] = self._smallest_in_windows(rank, cells[rows], low, 2 * reach, values)
        return result, done

    def _expected_positions(self, rank: int, cells: IntArray, values: Values) -> IntArray:
        """Return about how many values of each fold lie below the value with this rank. Shape (b, K).

        The values at two scores, whose ranks among all scores are somewhat lower and higher, give a straight line for
        each cell.
        """
        (low_rank, low), (high_rank, high) = self._nearby(rank)
        same_share = np.broadcast_to(rank * self.sizes // len(self), cells.shape)
        if not np.isfinite([low, high]).all() or low == high:
            return same_share
        at_low, at_high = (_at(values, cells, np.full(1, score)) for score in (low, high))
        shares = self.sizes / len(self)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            slope = (at_high - at_low) / (high - low)
            per_rank = (at_high - at_low) @ shares / (high_rank - low_rank)
            result = at_low @ shares + per_rank * (rank - low_rank)
            if not np.isfinite(result).all() or not (slope > 0).all():
                return same_share
            return self._newton(rank, result, per_rank, low - at_low / slope, slope)

    def _newton(
        self, rank: int, result: FloatArray, per_rank: FloatArray, score_at_zero: FloatArray, slope: FloatArray
    ) -> IntArray:
        """Return the positions of results that Newton's method improves, if values are linear. Shape (b, K)."""
        start, bins_per_unit, counts = self._counts_in_bins(rank)
        positions, todo = np.empty(slope.shape, dtype=np.intp), np.arange(len(slope))
        first_bin, bins_per_value = (score_at_zero - start) * bins_per_unit, bins_per_unit / slope
        if not (np.isfinite(first_bin).all() and np.isfinite(bins_per_value).all()):
            return np.broadcast_to(rank * self.sizes // len(self), slope.shape)
        first_of_fold = np.arange(len(self.sizes)) * self._n_bins
        for _ in range(_MAX_STEPS):
            bins = first_bin[todo] + result[todo, None] * bins_per_value[todo]
            positions[todo] = counts[np.clip(bins, 0, self._n_bins - 1).astype(np.intp) + first_of_fold]
            missing = rank - positions[todo].sum(axis=1)
            result[todo] += missing * per_rank[todo]
            todo = todo[np.abs(missing) > _TOLERANCE * len(self.sizes)]
            if not len(todo):
                break
        return positions

    def _nearby(self, rank: int) -> tuple[tuple[int, float], tuple[int, float]]:
        """Return a somewhat lower and a somewhat higher rank among all scores, and the scores of these ranks."""
        distance = max(1, len(self) // 50)
        low, high = max(rank - distance, 1), min(rank + distance, len(self))
        return (low, float(self._sorted_scores[low - 1])), (high, float(self._sorted_scores[high - 1]))

    def _counts_in_bins(self, rank: int) -> tuple[float, float, IntArray]:
        """Return narrow bins of scores near a rank, and how many scores of each fold lie below the middle of each.

        A table instead of a search for each row. The bins are given by their start and their number per unit of the
        score; the counts of one fold follow those of the other.
        """
        found = self._latest_bins.get(rank)
        if found is None:
            (_, low), (_, high) = self._nearby(rank)
            start, width = low - 2 * (high - low), 5 * (high - low) / self._n_bins
            middles = start + (np.arange(self._n_bins) + 0.5) * width
            counts = [np.searchsorted(self.of_fold(fold), middles, side="right") for fold in range(len(self.sizes))]
            found = start, 1 / width, np.concatenate(counts)
            self._latest_bins.clear()
            self._latest_bins[rank] = found
        return found

    @cached_property
    def _latest_bins(self) -> dict[int, tuple[float, float, IntArray]]:
        """The bins of the latest rank, which serve all blocks of rows and both ends."""
        return {}

    @property
    def _n_bins(self) -> int:
        return max(1, _MAX_BINS // len(self.sizes))

    def _smallest_in_windows(
        self, rank: int, cells: IntArray, low: IntArray, width: int, values: Values
    ) -> tuple[FloatArray, BoolArray]:
        """Return the value with this rank of each row, and whether it is right, from windows of the arrays.

        It is right if no value below a window can be larger, and no value above a window can be smaller.
        """
        positions = low[:, :, None] + np.arange(width)  # (b, K, width)
        missing = positions >= self.sizes[:, None] if width > self.sizes.min() else None
        if missing is not None:
            positions = np.minimum(positions, self.sizes[:, None] - 1)
        positions += self.starts[:, None]
        table = values(np.repeat(cells.ravel(), width), self.scores[positions.ravel()]).reshape(positions.shape)
        if missing is not None:
            table[missing] = np.inf
        place = rank - 1 - low.sum(axis=1)
        ordered = np.sort(table.reshape(len(cells), -1), axis=1)
        found = ordered[np.arange(len(cells)), np.clip(place, 0, ordered.shape[1] - 1)]
        right = (place >= 0) & (place < ordered.shape[1])
        right &= ((low == 0) | (table[:, :, 0] <= found[:, None])).all(axis=1)
        right &= ((low + width >= self.sizes) | (table[:, :, -1] >= found[:, None])).all(axis=1)
        return found, right

    def _smallest_by_bisection(self, rank: int, cells: IntArray, values: Values) -> FloatArray:
        """Return the value with this rank of each row, from counts of the values below others of its values."""
        result, todo = np.empty(len(cells)), np.arange(len(cells))
        low, high = np.zeros_like(cells), np.broadcast_to(self.sizes, cells.shape)
        while len(todo):
            pivots = self._weighted_medians(cells[todo], low, high, values)
            below, up_to = (
                self.count(cells[todo], pivots, values, less, (low, high)) for less in (np.less, np.less_equal)
            )
            result[todo] = pivots
            too_high, too_low = below.sum(axis=1) >= rank, up_to.sum(axis=1) < rank
            more = too_high | too_low
            low, high = np.where(too_low[:, None], up_to, low)[more], np.where(too_high[:, None], below, high)[more]
            todo = todo[more]
        return result

    def _weighted_medians(self, cells: IntArray, low: IntArray, high: IntArray, values: Values) -> FloatArray:
        """Return the median of the middle values of the ranges, weighted by their sizes. Shape (b,).

        At least a quarter of all values in the ranges are not larger, and at least a quarter are not smaller.
        """
        middle = np.minimum((low + high) // 2, self.sizes - 1)
        table = _at(values, cells, self.scores[self.starts + middle])
        order = np.argsort(table, axis=1)
        reached = np.cumsum(np.take_along_axis(high - low, order, axis=1), axis=1)
        place = np.argmax(2 * reached >= reached[:, -1:], axis=1)
        return np.take_along_axis(table, np.take_along_axis(order, place[:, None], axis=1), axis=1)[:, 0]


def _at(values: Values, cells: IntArray, scores: FloatArray) -> FloatArray:
    """Return the values of cells, at scores that are broadcast to their shape."""
    return values(cells.ravel(), np.broadcast_to(scores, cells.shape).ravel()).reshape(cells.shape)


def blocks(n_rows: int, values_per_row: int) -> Iterator[slice]:
    """Yield slices of rows that together have a limited number of values."""
    size = max(1, _MAX_VALUES // values_per_row)
    yield from (slice(start, start + size) for start in range(0, n_rows, size))
