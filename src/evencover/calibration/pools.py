"""Pools of calibration scores: a new row is compared with the scores of one pool, that of its group."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from math import ceil, floor, lcm
from typing import Literal, Protocol, Self, TypeAlias

import numpy as np

from evencover.groups import Label, first_few, rows_by_code
from evencover.guarantees import TooFewRowsWarning
from evencover.inputs.arrays import FloatArray, IntArray, warn_user
from evencover.quantiles import (
    cluster_weight,
    clustered_thresholds,
    thresholds,
    weighted_thresholds,
)

_MAX_NAMED_GROUPS = 5  # a warning names so many groups and counts the others
_MAX_CACHED_LEVELS = 100  # a pool keeps its thresholds for so many requests of different levels
_MAX_EXACT_SUM = 2**53  # whole numbers up to this are exact as floating-point numbers

Unit: TypeAlias = Literal["row", "cluster"]


class ScorePool(Protocol):
    """The calibration scores that new rows are compared with."""

    def thresholds(self, levels: tuple[Fraction, ...], test_weights: FloatArray | None = None, /) -> FloatArray:
        """Return the threshold at each of L levels: shape (1, L) for all new rows, or (m, L) for m test weights."""

    def p_values(
        self, scores: FloatArray, tie_shares: FloatArray | None = None, test_weights: FloatArray | None = None, /
    ) -> FloatArray:
        """Return the p-value of each score; with `tie_shares`, smoothed. Shape (m,)."""

    def has_ties(self, levels: tuple[Fraction, ...], /) -> bool:
        """Return whether several scores equal the threshold at one of these levels, which raises coverage."""

    def excess(self, level: Fraction, /) -> float:
        """Return the share of scores that can lie between the exact threshold and this one; 0 if it is exact."""

    @classmethod
    def concatenate(cls, pools: Sequence[Self], /) -> Self:
        """Return one pool with the rows of all these pools."""

    @property
    def unit(self) -> Unit:
        """What weighs as much as a new row."""

    @property
    def n_units(self) -> int | Fraction:
        """The weight of all scores, if a new row weighs 1."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Pool:
    """Calibration scores of shape (n,), with weights of the same shape for covariate shift or for clusters.

    A row of a cluster of m rows weighs 1 / m, and every new row weighs 1: `cluster_sizes` are these m. They count the
    rows of the cluster in all pools.
    """

    scores: FloatArray
    weights: FloatArray | None = None
    cluster_sizes: IntArray | None = None

    @property
    def unit(self) -> Unit:
        """What weighs as much as a new row."""
        return "row" if self.cluster_sizes is None else "cluster"

    @cached_property
    def n_units(self) -> int | Fraction:
        """The number of scores, or their weight in clusters."""
        return len(self) if self.cluster_sizes is None else cluster_weight(self.cluster_sizes)

    def thresholds(self, levels: tuple[Fraction, ...], test_weights: FloatArray | None = None) -> FloatArray:
        """Return the threshold at each of L levels: shape (1, L) for all new rows, or (m, L) for m test weights."""
        if self.weights is None or test_weights is None:
            return self._cached_thresholds(levels)[None, :]
        return weighted_thresholds(self.scores, levels, self.weights, test_weights)

    def has_ties(self, levels: tuple[Fraction, ...]) -> bool:
        """Return whether several scores equal the threshold at one of these levels; not looked at with weights."""
        if self.weights is not None:
            return False
        limits = self._cached_thresholds(levels)
        if levels not in self._tie_cache:
            self._tie_cache[levels] = any(np.count_nonzero(self.scores == limit) > 1 for limit in limits.tolist())
        return self._tie_cache[levels]

    def excess(self, level: Fraction) -> float:  # noqa: ARG002
        """Return 0: the threshold is exact."""
        return 0.0

    def _cached_thresholds(self, levels: tuple[Fraction, ...]) -> FloatArray:
        """Return the thresholds, computed once for the same levels: users often predict one row at a time."""
        found = self._threshold_cache.get(levels)
        if found is None:
            if len(self._threshold_cache) >= _MAX_CACHED_LEVELS:
                self._threshold_cache.clear()
                self._tie_cache.clear()
            found = self._threshold_cache[levels] = self._new_thresholds(levels)
        return found

    def _new_thresholds(self, levels: tuple[Fraction, ...]) -> FloatArray:
        if self.cluster_sizes is None:
            return thresholds(self.scores, levels)
        return clustered_thresholds(self.scores, levels, self.cluster_sizes)

    def p_values(
        self, scores: FloatArray, tie_shares: FloatArray | None = None, test_weights: FloatArray | None = None
    ) -> FloatArray:
        """Return each row's p-value: the weight of scores at least as large, its own included, over the total weight.

        It is 1 if the total weight is 0. With `tie_shares` (smoothed p-values), only this share of the weight of ties
        and of the row itself counts.
        """
        own = self._cluster_unit if test_weights is None else test_weights / self._common_weight
        counted = self._tail_weights[np.searchsorted(self._sorted_scores, scores, side="left")] + own
        if tie_shares is not None:
            larger = self._tail_weights[np.searchsorted(self._sorted_scores, scores, side="right")]
            counted = larger + tie_shares * (counted - larger)
        total = np.broadcast_to(self._tail_weights[0] + own, scores.shape)
        p_values = np.ones(scores.shape)
        np.divide(counted, total, out=p_values, where=total > 0)
        return p_values

    @cached_property
    def _threshold_cache(self) -> dict[tuple[Fraction, ...], FloatArray]:
        return {}

    @cached_property
    def _tie_cache(self) -> dict[tuple[Fraction, ...], bool]:
        return {}

    @cached_property
    def _sort_order(self) -> IntArray:
        return np.argsort(self.scores, kind="stable")

    @cached_property
    def _sorted_scores(self) -> FloatArray:
        unweighted = self.weights is None and self.cluster_sizes is None
        return np.sort(self.scores) if unweighted else self.scores[self._sort_order]

    @cached_property
    def _common_weight(self) -> float:
        """The weight of all rows if it is the same and positive, else 1; in this unit, sums of weights are exact."""
        if self.weights is None or not len(self) or not 0 < self.weights.min() == self.weights.max():
            return 1.0
        return float(self.weights[0])

    @cached_property
    def _cluster_unit(self) -> float:
        """The weight of a new row: 1, or with clusters a multiple of all sizes, in which sums of weights are exact."""
        sizes = [] if self.cluster_sizes is None else np.unique(self.cluster_sizes).tolist()
        unit = lcm(*sizes)
        return float(unit) if unit * (len(self) + 1) <= _MAX_EXACT_SUM else 1.0

    @cached_property
    def _tail_weights(self) -> FloatArray:
        """Total weight of the i-th smallest score and all larger ones, over the common weight. Shape (n + 1,)."""
        if self.cluster_sizes is not None:
            sorted_weights = self._cluster_unit / self.cluster_sizes[self._sort_order]
        elif self.weights is None:
            return np.arange(len(self), -1.0, -1.0)
        else:
            sorted_weights = self.weights[self._sort_order] / self._common_weight
        return np.append(np.cumsum(sorted_weights[::-1])[::-1], 0.0)

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def concatenate(cls, pools: Sequence["Pool"]) -> "Pool":
        """Return one pool with the rows of all these pools."""
        if len(pools) == 1:
            return pools[0]
        weights = [pool.weights for pool in pools if pool.weights is not None]
        sizes = [pool.cluster_sizes for pool in pools if pool.cluster_sizes is not None]
        return cls(
            np.concatenate([pool.scores for pool in pools]),
            np.concatenate(weights) if weights else None,
            np.concatenate(sizes) if sizes else None,
        )


@dataclass(frozen=True, eq=False)
class PoolAssignment:
    """The pool that each of m new rows is compared with.

    Parameters
    ----------
    pools : list of pools
        The pools.
    names : list of labels
        The group of each pool, for warnings. None for the empty pool of ``unseen="inf"``, where the user requested
        infinite intervals.
    pool_codes : ndarray of int, shape (m,)
        Position of each row's pool in `pools`.
    tail_share : Fraction
        The share of 1 − level that a bound may miss, if the scores are those of one tail, for warnings.
    """

    pools: Sequence[ScorePool]
    names: list[Label | None]
    pool_codes: IntArray
    tail_share: Fraction = Fraction(1)

    def thresholds(self, levels: tuple[Fraction, ...], weights: FloatArray | None) -> list[float | FloatArray]:
        """Return for each level the rows' thresholds, shape (m,), or one number for all. Warn if some are infinite."""
        if weights is not None:
            return self._weighted_thresholds(levels, weights)
        sizes = [pool.n_units for pool in self.pools]
        unit = self.pools[0].unit if self.pools else "row"
        warn_if_too_few(self.pool_codes, self.names, sizes, max(levels), self.tail_share, unit)
        by_pool = [pool.thresholds(levels) for pool in self.pools]
        table = np.concatenate([np.empty((0, len(levels))), *by_pool])  # (pools, L)
        if len(table) == 1:
            return list(table[0])
        return [column.take(self.pool_codes) for column in table.T]

    def tied_groups(self, levels: tuple[Fraction, ...]) -> tuple[Label, ...]:
        """Return the groups of new rows whose threshold equals several calibration scores at one of these levels."""
        used = np.flatnonzero(np.bincount(self.pool_codes, minlength=len(self.pools)))
        tied = [self.names[code] for code in used.tolist() if self.pools[code].has_ties(levels)]
        return tuple(dict.fromkeys(name for name in tied if name is not None))

    def p_values(self, scores: FloatArray, tie_shares: FloatArray | None, weights: FloatArray | None) -> FloatArray:
        """Return each row's p-value in its pool. Shape (m,)."""
        p_values = np.empty(len(scores))
        for code, rows in rows_by_code(self.pool_codes, len(self.pools)):
            shares, own = (None if each is None else each[rows] for each in (tie_shares, weights))
            p_values[rows] = self.pools[code].p_values(scores[rows], shares, own)
        return p_values

    def _weighted_thresholds(self, levels: tuple[Fraction, ...], weights: FloatArray) -> list[float | FloatArray]:
        """Return the thresholds for each row's own weight."""
        table = np.empty((len(self.pool_codes), len(levels)))  # (m, L)
        outweighed = []
        for code, rows in rows_by_code(self.pool_codes, len(self.pools)):
            table[rows] = self.pools[code].thresholds(levels, weights[rows])
            if self.names[code] is not None and np.isinf(table[rows]).any():
                outweighed.append(self.names[code])
        if outweighed:
            warn_user(
                f"at level {float(max(levels))}, some new rows have too much weight compared with the calibration rows "
                f"of their group, so their intervals are infinite; groups: {first_few(outweighed)}",
                TooFewRowsWarning,
            )
        return list(table.T)


def warn_if_too_few(
    pool_codes: IntArray,
    names: Sequence[Label | None],
    sizes: Sequence[int | Fraction],
    level: Fraction,
    tail_share: Fraction = Fraction(1),
    unit: Unit = "row",
) -> None:
    """Warn once of all groups of new rows whose threshold is infinite, with the number of rows they need.

    Parameters
    ----------
    pool_codes : ndarray of int, shape (m,)
        The pool of each new row.
    names, sizes : sequence of labels, sequence of int or Fraction
        The group of each pool, and its number of scores, or their weight in clusters. Of several pools of a group, the
        smallest counts.
    level : Fraction
        The level of the threshold.
    tail_share : Fraction
        The share of 1 − level of the intervals that each threshold may miss; the warning names their level.
    unit : {"row", "cluster"}
        What the sizes count.
    """
    needed = level / (1 - level)
    if min(sizes, default=needed) >= needed:
        return
    too_small: dict[Label, int | Fraction] = {}
    for code in np.unique(pool_codes):
        name, n = names[code], sizes[code]
        if n < needed and name is not None:
            too_small[name] = min(n, too_small.get(name, n))
    if too_small:
        named = islice(too_small.items(), _MAX_NAMED_GROUPS)
        groups = ", ".join(f"group {name!r} has {floor(100 * n) / 100:g}" for name, n in named)
        n_more = len(too_small) - _MAX_NAMED_GROUPS
        more = f", and {n_more} more groups have too few" if n_more > 0 else ""
        rows = f"{ceil(needed)} {unit}{'s' * (needed > 1)}"
        warn_user(
            f"too few calibration {unit}s, so intervals are infinite: {_level_text(level, tail_share)} needs {rows} in "
            f"each group; {groups}{more}{_finite_level_text(min(too_small.values()), tail_share)}",
            TooFewRowsWarning,
        )


def _finite_level_text(n: int | Fraction, tail_share: Fraction) -> str:
    """Return the largest level, rounded down, at which n rows are enough for a finite interval; empty if there is none.

    n rows are enough for a threshold of level n / (n + 1).
    """
    largest = floor(1000 * (1 - Fraction(1, n + 1) / tail_share)) / 1000
    return f". Up to level {largest:g}, intervals are finite" if largest > 0 else ""


def _level_text(level: Fraction, tail_share: Fraction) -> str:
    """Return the level of the intervals as text; level is that of an end if the share is not 1."""
    requested = f"level {float(1 - (1 - level) / tail_share)}"
    if tail_share == 1:
        return requested
    return f"{'each' if tail_share == Fraction(1, 2) else 'one'} end of an interval of {requested}"
