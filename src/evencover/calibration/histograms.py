"""Histograms of scores: scores are rounded up to a grid of floating-point numbers, counted, and added.

The grid has the numbers with at most `bits` binary digits after the leading one, with both signs, zero and infinity. It
is the same for all data, so histograms of parts of the data add up to that of all data. The 64 bits of a positive
number, read as an integer, increase with the number, so rounding up is adding and shifting integers.

Rounding up does not change the order of scores. So the k-th smallest of the rounded scores is the rounded k-th smallest
score: an upper bound of the exact threshold, at most a factor of 1 + 2**-bits larger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from operator import index as whole_number
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import BoolArray, FloatArray, IntArray
from evencover.quantiles import conformal_rank

Int64Array: TypeAlias = NDArray[np.int64]

MAX_BITS = 52  # with so many, every number is on the grid
DEFAULT_BITS = 10  # thresholds are at most 0.1 % too large
_SIGN_BIT = np.int64(-(2**63))
_WINDOW = 2**14  # grid numbers that are counted in an array: 16 powers of two with the default bits
_MAX_CODES_IN_ARRAY = 64
_MAX_TOTAL = 2**62  # scores in a histogram; sums of counts stay below the largest int64
_MAX_PARTS = 2**18  # scores outside the array are added up when there are so many, and as many as before


def checked_bits(bits: Any) -> int:
    """Return the number of bits. Raise ValueError unless it is a whole number from 0 to 52."""
    try:
        number = whole_number(bits)
    except TypeError:
        number = -1
    if isinstance(bits, bool) or not 0 <= number <= MAX_BITS:
        raise ValueError(f"bits must be a whole number from 0 to {MAX_BITS}; got {bits!r}")
    return number


def grid_index(scores: FloatArray, bits: int) -> Int64Array:
    """Return the position on the grid of each score, rounded up; 0 is the position of 0. Shape (n,)."""
    image = np.ascontiguousarray(scores, dtype=np.float64).view(np.int64)
    if image.size and image.min() < 0:  # the bits of a negative number are those of its absolute value, and a sign
        image = np.where(image < 0, _SIGN_BIT - image, image)
    return coarser(image, MAX_BITS - bits)


def coarser(index: Int64Array, by: int) -> Int64Array:
    """Return positions on a grid with fewer bits, rounded up. Shape (n,)."""
    rounded = index + np.int64(2**by - 1)
    rounded >>= np.int64(by)
    return rounded


def grid_value(index: Int64Array, bits: int) -> FloatArray:
    """Return the numbers at positions on the grid. Shape (n,)."""
    magnitude = (np.abs(index) << np.int64(MAX_BITS - bits)).view(np.float64)
    return np.copysign(magnitude, np.where(index < 0, -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """How many scores of a pool are rounded up to each number of the grid.

    Parameters
    ----------
    bits : int
        The binary digits of the grid after the leading one.
    indices : ndarray of int64, shape (K,)
        The positions on the grid that have scores, in increasing order.
    counts : ndarray of int64, shape (K,)
        The number of scores at each of these positions.
    exact : mapping from int to float
        Order statistics that are known exactly: the k-th smallest score, by k.
    """

    bits: int
    indices: Int64Array
    counts: Int64Array
    exact: Mapping[int, float] = field(default_factory=dict)
    unit: ClassVar[Literal["row"]] = "row"

    @property
    def n_units(self) -> int:
        """The number of scores."""
        return len(self)

    @classmethod
    def empty(cls, bits: int) -> "ScoreHistogram":
        """Return a histogram without scores."""
        return cls(bits, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, scores: FloatArray, bits: int) -> "ScoreHistogram":
        """Return the histogram of scores of shape (n,)."""
        indices, counts = np.unique(grid_index(scores, bits), return_counts=True)
        return cls(bits, indices, counts.astype(np.int64, copy=False))

    def check(self, name: str) -> None:
        """Raise ValueError, with the name of the scores, unless a histogram of scores can be this one."""
        largest = int(grid_index(np.array([np.inf]), self.bits)[0])
        in_order = (np.diff(self.indices) > 0).all() and (np.abs(self.indices) <= largest).all()
        if not in_order or not (self.counts > 0).all() or self.counts.sum(dtype=float) > _MAX_TOTAL:
            raise ValueError(f"the counts of {name} are not those of scores")
        ranks = sorted(self.exact)
        if not ranks:
            return
        scores = np.array([self.exact[rank] for rank in ranks])
        if not 1 <= ranks[0] <= ranks[-1] <= len(self) or np.isnan(scores).any() or (np.diff(scores) < 0).any():
            raise ValueError(f"the exact scores of {name} are not in the order of their ranks")
        if (grid_index(scores, self.bits) != self.indices[[self.bin_of(rank) for rank in ranks]]).any():
            raise ValueError(f"the exact scores of {name} are not where its histogram counts them")

    def thresholds(self, levels: tuple[Fraction, ...], test_weights: FloatArray | None = None) -> FloatArray:
        """Return an upper bound of the threshold at each of L levels, or the threshold if it is known. Shape (1, L)."""
        if test_weights is not None:
            raise ValueError("histograms have no weights for covariate shift; leave weights out")
        return np.array([[self.threshold(conformal_rank(len(self), level)) for level in levels]])

    def threshold(self, rank: int) -> float:
        """Return the rounded score with this rank, or the exact one if it is known; infinity if there are fewer."""
        if rank > len(self):
            return np.inf
        known = self.exact.get(rank)
        return float(grid_value(self.indices[[self.bin_of(rank)]], self.bits)[0]) if known is None else known

    def bin_of(self, rank: int) -> int:
        """Return which of the K counts includes the score with this rank."""
        return int(np.searchsorted(self._cumulative, rank, side="left"))

    def excess(self, level: Fraction) -> float:
        """Return the share of scores that can lie between the threshold and its upper bound; 0 if it is exact."""
        rank = conformal_rank(len(self), level)
        if rank > len(self) or rank in self.exact:
            return 0.0
        return int(self.counts[self.bin_of(rank)]) / len(self)

    def has_ties(self, levels: tuple[Fraction, ...]) -> bool:
        """Return whether a hundredth of the scores, or more, may equal a threshold: they are in the same bin."""
        ranks = [conformal_rank(len(self), level) for level in levels]
        return any(self.counts[self.bin_of(rank)] >= max(len(self) / 100, 10) for rank in ranks if rank <= len(self))

    def p_values(
        self, scores: FloatArray, tie_shares: FloatArray | None = None, test_weights: FloatArray | None = None
    ) -> FloatArray:
        """Return the p-value of each score among the rounded scores, which is at least the exact one. Shape (m,).

        With `tie_shares` (smoothed p-values), scores that are rounded to the same number are ties.
        """
        if test_weights is not None:
            raise ValueError("histograms have no weights for covariate shift; leave weights out")
        position = grid_index(scores, self.bits)
        below = np.concatenate([[0], self._cumulative])
        counted = len(self) - below[np.searchsorted(self.indices, position, side="left")] + 1.0
        if tie_shares is not None:
            larger = len(self) - below[np.searchsorted(self.indices, position, side="right")]
            counted = larger + tie_shares * (counted - larger)
        p_values: FloatArray = counted / (len(self) + 1)
        return p_values

    @classmethod
    def concatenate(cls, pools: Sequence["ScoreHistogram"]) -> "ScoreHistogram":
        """Return one histogram of the scores of all these, which have the same bits. Exact ones are forgotten."""
        if len(pools) == 1:
            return pools[0]
        indices = np.concatenate([pool.indices for pool in pools])
        counts = np.concatenate([pool.counts for pool in pools])
        _, indices, counts = _added(np.zeros(len(indices), dtype=np.intp), indices, counts)
        return cls(pools[0].bits, indices, counts)

    @cached_property
    def _cumulative(self) -> Int64Array:
        return np.cumsum(self.counts)

    @cached_property
    def _total(self) -> int:
        return int(self.counts.sum())

    def __len__(self) -> int:
        return self._total


class ScoreCounter:
    """Counts scores by group and position on the grid, batch by batch; the memory does not grow with the rows.

    Most scores of most data lie within a factor of a few thousand of each other. They are counted in an array, and the
    others, or all of them if there are many groups, as a sorted list.

    Parameters
    ----------
    bits : int
        The binary digits of the grid after the leading one.
    """

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._start = 0  # the position of the array's first entry on the grid
        self._array = np.zeros((0, _WINDOW + 1), dtype=np.int64)  # the last column: scores elsewhere
        nothing = np.empty(0, dtype=np.int64)
        self._parts: list[tuple[IntArray, Int64Array, Int64Array]] = [(nothing, nothing, nothing)]
        self._n_new = 0  # rows in all parts but the first, which is sorted

    def add(self, scores: FloatArray, codes: IntArray, n_codes: int) -> None:
        """Count the scores of a batch, shape (n,), without NaN; the codes of their groups are 0 to n_codes − 1."""
        if not len(scores):
            return
        index = grid_index(scores, self._bits)
        if n_codes > _MAX_CODES_IN_ARRAY:
            self._add_part(codes, index)
            return
        if not self._array.size:
            self._start = int(np.partition(index, len(index) // 2)[len(index) // 2]) - 3 * _WINDOW // 4
        if len(self._array) < n_codes:
            self._array = np.concatenate([self._array, np.zeros_like(self._array, shape=(n_codes, _WINDOW + 1))])
        index -= self._start
        column = np.minimum(index.view(np.uint64), np.uint64(_WINDOW)).view(np.int64)  # negative ones become large
        elsewhere = np.flatnonzero(column == _WINDOW)
        if len(elsewhere):
            self._add_part(codes[elsewhere], index[elsewhere] + self._start)
        if n_codes > 1:
            column += codes * (_WINDOW + 1)
        np.add.at(self._array.reshape(-1), column, 1)

    def histograms(self, n_codes: int) -> list[ScoreHistogram]:
        """Return the histogram of each group, 0 to n_codes − 1."""
        self._compact()
        codes, indices, counts = self._parts[0]
        bounds = np.searchsorted(codes, np.arange(n_codes + 1))
        return [self._histogram(code, indices[i:j], counts[i:j]) for code, (i, j) in enumerate(pairwise(bounds))]

    def _histogram(self, code: int, indices: Int64Array, counts: Int64Array) -> ScoreHistogram:
        """Return the histogram of a group, of which these are the counts outside the array."""
        outside = ScoreHistogram(self._bits, indices, counts)
        if code >= len(self._array):
            return outside
        columns = np.flatnonzero(self._array[code, :_WINDOW])
        inside = ScoreHistogram(self._bits, columns + self._start, self._array[code, columns])
        return ScoreHistogram.concatenate([inside, outside]) if len(indices) else inside

    def _add_part(self, codes: IntArray, index: Int64Array) -> None:
        self._parts.append((codes, index, np.ones(len(index), dtype=np.int64)))
        self._n_new += len(index)
        if self._n_new > max(_MAX_PARTS, len(self._parts[0][0])):
            self._compact()

    def _compact(self) -> None:
        """Add up the counts of all parts."""
        codes, indices, counts = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._parts, self._n_new = [_added(codes, indices, counts)], 0


def _added(codes: IntArray, indices: Int64Array, counts: Int64Array) -> tuple[IntArray, Int64Array, Int64Array]:
    """Return each pair of code and index once, in order, with the sum of its counts."""
    if not len(codes):
        return codes, indices, counts
    low, width = int(indices.min()), int(indices.max()) - int(indices.min()) + 1
    if (int(codes.max()) + 1) * width < 2**63:  # one number for each pair is sorted faster
        pairs = codes * np.int64(width) + (indices - np.int64(low))
        order = np.argsort(pairs, kind="stable")
        starts = _starts(np.diff(pairs[order]) != 0)
    else:
        order = np.lexsort((indices, codes))
        starts = _starts((np.diff(codes[order]) != 0) | (np.diff(indices[order]) != 0))
    first = order[starts]
    return codes[first], indices[first], np.add.reduceat(counts[order], starts)


def _starts(changed: BoolArray) -> IntArray:
    """Return where each run of equal values starts, from whether each value differs from the one before it."""
    return np.concatenate([[0], np.flatnonzero(changed) + 1])
