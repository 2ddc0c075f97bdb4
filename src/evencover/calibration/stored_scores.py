"""The calibration scores of all groups, as a calibration keeps them: of each row, or counted in histograms.

Both are divided into cells, pairs of a group and of edge bits (see `Groups.edge`), and have a pool for each cell: a new
row is compared with the scores of one pool. They have the same attributes and methods, and so has `DeviceScores`:
`Calibration` need not know which it has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from math import ceil, floor, lcm
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evencover.calibration.histograms import DEFAULT_BITS, ScoreHistogram, checked_bits
from evencover.groups import Groups, Label, checked_labels, cluster_codes, first_few, json_label, rows_by_code
from evencover.guarantees import TooFewRowsWarning
from evencover.inputs.arrays import FloatArray, IntArray, checked_nonnegative, warn_user
from evencover.quantiles import cluster_weight, clustered_thresholds, thresholds, weighted_thresholds
from evencover.scores.evaluation import checked_scores

ALL_ROWS: Label = "all rows together"  # the name of what unseen groups can be compared with
_MAX_NAMED_GROUPS = 5  # a warning names so many groups and counts the others
MAX_CACHED_LEVELS = 100  # a pool keeps its thresholds for so many requests of different levels
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
            if len(self._threshold_cache) >= MAX_CACHED_LEVELS:
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


Cell: TypeAlias = tuple[int, int]  # group code and edge bits
Unseen: TypeAlias = Literal["error", "marginal", "inf"]


class _PooledScores:
    """What follows from a pool for each cell; subclasses have `labels`, `pools` and `empty`, a pool without scores."""

    if TYPE_CHECKING:

        @property
        def labels(self) -> tuple[Label, ...]: ...
        @property
        def pools(self) -> Mapping[Cell, Any]: ...
        @property
        def empty(self) -> Any: ...

    @property
    def has_edge_rows(self) -> bool:
        """Whether some rows are on an edge that was learned from them, and count separately."""
        return any(edge_bits for _, edge_bits in self.pools)

    @property
    def sizes(self) -> list[int]:
        """The number of rows behind the threshold of each group."""
        return [len(pool) for pool in self.group_pools()]

    def excess(self, levels: tuple[Fraction, ...]) -> FloatArray:
        """Return the share of each group's scores that are rounded to a threshold. Shape (n_groups, L)."""
        pools = self.group_pools()
        return np.array([pool.excess(level) for pool in pools for level in levels]).reshape(len(pools), len(levels))

    def marginal_thresholds(self, levels: tuple[Fraction, ...]) -> FloatArray:
        """Return the thresholds of all rows together. Shape (1, L)."""
        return self._pool(None).thresholds(levels)

    def one_row_per_group(self) -> Groups:
        """Return one row of each group."""
        return Groups(np.arange(len(self.labels)), self.labels)

    def group_pools(self) -> list[ScorePool]:
        """Return the scores that new rows of each group are compared with, if they are on no edge."""
        return [self._pool((group, 0)) for group in range(len(self.labels))]

    def assignment(self, groups: Groups, unseen: Unseen, tail_share: Fraction) -> PoolAssignment:
        """Return the pool of each row: that of its group, of its edge, or the one for unseen groups."""
        pools = self.group_pools()
        names: list[Label | None] = list(self.labels)
        codes = pool_codes = groups.codes_among(self.labels)
        if groups.edge is not None:
            pool_codes = codes.copy()
            for (group, edge_bits), rows in Groups(codes, self.labels, (), groups.edge, groups.n_edge_bits).cells():
                if edge_bits:
                    pool_codes[rows] = len(pools)
                    pools.append(self._pool((group, edge_bits)))
                    names.append(self.labels[group])
        if len(codes) and codes.min() < 0:
            pool_codes = np.where(codes < 0, len(pools), pool_codes)
            pools.append(self._pool(None) if unseen == "marginal" else self.empty)
            names.append(ALL_ROWS if unseen == "marginal" else None)
        return PoolAssignment(pools, names, pool_codes, tail_share)

    def _pool(self, cell: Cell | None) -> ScorePool:
        """Return the scores that new rows of a cell are compared with; those of all rows for None. Cached.

        They are the scores of calibration rows in the same group whose edge bits are all set in the cell's edge bits.
        """
        if cell not in self._cache:
            if cell is None:
                parts = [self.pools[key] for key in sorted(self.pools)]
            else:
                group, bits = cell
                subsets = (each for each in self._edge_bits_by_group.get(group, ()) if not each & ~bits)
                parts = [self.pools[group, subset] for subset in subsets]
            self._cache[cell] = parts[0].concatenate(parts) if parts else self.empty
        return self._cache[cell]

    @cached_property
    def _cache(self) -> dict[Cell | None, ScorePool]:
        return {}

    @cached_property
    def _edge_bits_by_group(self) -> dict[int, list[int]]:
        """The edge bits that occur in each group, in increasing order."""
        bits_by_group: dict[int, list[int]] = {}
        for group, bits in sorted(self.pools):
            bits_by_group.setdefault(group, []).append(bits)
        return bits_by_group

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]  # no caches


@dataclass(frozen=True, eq=False)
class RowScores(_PooledScores):
    """The scores of n calibration rows, in the order of the rows.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        The scores.
    groups : Groups of n rows
        Their groups.
    weights : ndarray of shape (n,), optional
        Weights for covariate shift.
    clusters : ndarray of int, shape (n,), optional
        The cluster of each row, as a number.
    """

    scores: FloatArray
    groups: Groups
    weights: FloatArray | None = None
    clusters: IntArray | None = None
    bits: ClassVar[None] = None

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the groups."""
        return self.groups.labels

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule of each group."""
        return self.groups.rules

    @cached_property
    def cluster_sizes(self) -> IntArray | None:
        """The number of calibration rows in the cluster of each row; None if each row is a cluster. Shape (n,)."""
        if self.clusters is None:
            return None
        sizes = np.bincount(self.clusters)[self.clusters]
        return sizes if (sizes > 1).any() else None

    @cached_property
    def pools(self) -> Mapping[Cell, Pool]:
        """The scores of each cell that has rows, in the order of the rows."""
        return {
            cell: Pool(*(None if each is None else _select(each, rows) for each in self._columns))  # type: ignore[arg-type]
            for cell, rows in self.groups.cells()
        }

    @cached_property
    def empty(self) -> Pool:
        """A pool without scores."""
        return Pool(*(None if each is None else each[:0] for each in self._columns))  # type: ignore[arg-type]

    @property
    def _columns(self) -> tuple[NDArray[Any] | None, ...]:
        return self.scores, self.weights, self.cluster_sizes

    def joined(self, others: Sequence["RowScores"]) -> "RowScores":
        """Return the scores of the rows of all parts; clusters of different parts are different clusters."""
        parts = (self, *others)
        clusters = [part.clusters for part in parts if part.clusters is not None]
        if len(clusters) not in (0, len(parts)):
            raise ValueError(f"merge needs clusters in all calibrations, or in none; got {len(clusters)} with clusters")
        weights = [part.weights for part in parts if part.weights is not None]
        return RowScores(
            np.concatenate([part.scores for part in parts]),
            Groups.concatenate([part.groups for part in parts]),
            np.concatenate(weights) if weights else None,
            _distinct_clusters(clusters) if clusters else None,
        )

    def state(self) -> dict[str, Any]:
        """Return the scores and groups as arrays and JSON values, for a file."""
        optional = {"weights": self.weights, "calibration_clusters": self.clusters}
        known = {name: values for name, values in optional.items() if values is not None}
        return {"scores": self.scores, **known, **self.groups.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "RowScores":
        """Return the scores from what `state` returned."""
        groups = Groups.from_state(state)
        scores, weights = checked_scores(state["scores"], len(groups), "groups"), state.get("weights")
        if weights is not None:
            weights = checked_nonnegative(weights, "weights", length=len(groups), matched="groups")
        clusters = state.get("calibration_clusters")  # "clusters" are those of folds
        if clusters is not None:
            clusters = cluster_codes(clusters, len(groups), matched="groups", min_clusters=0)
        return cls(scores, groups, weights, clusters)


@dataclass(frozen=True, eq=False)
class CountedScores(_PooledScores):
    """A histogram of the scores of each cell, in place of the scores: for data of any size, in parts that add up.

    Scores are rounded up to numbers with `bits` binary digits after the leading one, and counted. The threshold of a
    group of n rows is its k-th smallest rounded score, k = ceil((n + 1) level). This is the exact threshold, rounded
    up: at most a factor of 1 + 2**-bits larger, and never smaller. So the guarantee of `Calibration` holds. Numbers
    below 2**-1022 in absolute value are rounded by at most 2**-1022 × 2**-bits, and numbers above (2 − 2**-bits) ×
    2**1023 to infinity.

    Parameters
    ----------
    labels : tuple of labels
        The groups.
    pools : mapping from cell to ScoreHistogram
        The histogram of each cell that has rows.
    rules : tuple of str
        The rule of each group, if there are rules.
    bits : int
        The binary digits after the leading one, 0 to 52.
    """

    labels: tuple[Label, ...]
    pools: Mapping[Cell, ScoreHistogram]
    rules: tuple[str, ...] = ()
    bits: int = DEFAULT_BITS
    weights: ClassVar[None] = None
    clusters: ClassVar[None] = None

    @classmethod
    def of(cls, scores: FloatArray, groups: Groups, bits: int) -> "CountedScores":
        """Return the histograms of the scores of rows."""
        bits = checked_bits(bits)
        pools = {cell: ScoreHistogram.of(scores[members], bits) for cell, members in groups.cells()}
        return cls(groups.labels, pools, groups.rules, bits)

    @property
    def empty(self) -> ScoreHistogram:
        """A histogram without scores."""
        return ScoreHistogram.empty(self.bits)

    def joined(self, others: Sequence["CountedScores"]) -> "CountedScores":
        """Return the sums of the counts of all parts. Thresholds that are known exactly are forgotten."""
        parts = (self, *others)
        cells = sorted({cell for part in parts for cell in part.pools})
        found = {cell: [part.pools[cell] for part in parts if cell in part.pools] for cell in cells}
        pools = {cell: replace(ScoreHistogram.concatenate(each), exact={}) for cell, each in found.items()}
        return self if not others else replace(self, pools=pools)

    def with_labels(self, labels: tuple[Label, ...]) -> "CountedScores":
        """Return the same histograms among all of these groups, which include their own."""
        codes = {label: code for code, label in enumerate(labels)}
        pools = {(codes[self.labels[group]], edge): pool for (group, edge), pool in self.pools.items()}
        return replace(self, labels=labels, pools=pools)

    def with_exact(self, scores: Mapping[Label, Mapping[int, float]]) -> "CountedScores":
        """Return the same histograms with exact order statistics: scores by group and rank."""
        pools = dict(self.pools)
        for group, label in enumerate(self.labels):
            if (group, 0) in pools:
                known = {**pools[group, 0].exact, **scores.get(label, {})}
                pools[group, 0] = replace(pools[group, 0], exact=known)
        return replace(self, pools=pools)

    def state(self) -> dict[str, Any]:
        """Return the histograms as arrays and JSON values, for a file."""
        cells = sorted(self.pools)
        parts = [self.pools[cell] for cell in cells]
        known = [(row, rank, score) for row, part in enumerate(parts) for rank, score in part.exact.items()]
        return {
            "cells": np.array(cells, dtype=np.int64).reshape(-1, 2),
            "lengths": np.array([len(part.indices) for part in parts], dtype=np.int64),
            "indices": np.concatenate([np.empty(0, dtype=np.int64), *(part.indices for part in parts)]),
            "counts": np.concatenate([np.empty(0, dtype=np.int64), *(part.counts for part in parts)]),
            "exact_ranks": np.array([pair[:2] for pair in known], dtype=np.int64).reshape(-1, 2),
            "exact_scores": np.array([score for *_, score in known], dtype=float),
            "labels": [json_label(label) for label in self.labels],
            "rules": list(self.rules),
            "bits": self.bits,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "CountedScores":
        """Return the histograms from what `state` returned. Raise ValueError unless its parts belong together."""
        bits, labels = checked_bits(state["bits"]), checked_labels(state["labels"])
        cells, lengths, ranks, counts, indices = (
            _whole_numbers(state, name) for name in ("cells", "lengths", "exact_ranks", "counts", "indices")
        )
        exact: dict[int, dict[int, float]] = {}
        for (row, rank), score in zip(ranks.tolist(), state["exact_scores"].tolist(), strict=True):
            exact.setdefault(row, {})[rank] = score
        if (
            (lengths < 0).any()
            or not lengths.sum() == len(indices) == len(counts)
            or not exact.keys() <= {*range(len(lengths))}
        ):
            raise ValueError("the lengths of the histograms are not those of their counts")
        ends = np.cumsum(lengths)[:-1]
        parts = [
            ScoreHistogram(bits, *column, exact.get(row, {}))
            for row, column in enumerate(zip(np.split(indices, ends), np.split(counts, ends), strict=True))
        ][: len(lengths)]
        found = [(group, edge) for group, edge in cells.tolist()]
        pools = dict(zip(found, parts, strict=True))
        if len(pools) < len(found) or not all(0 <= group < len(labels) and edge >= 0 for group, edge in pools):
            raise ValueError(f"its histograms are of other groups than {first_few(labels)}")
        for (group, _), pool in pools.items():
            pool.check(f"group {labels[group]!r}")
        return cls(labels, pools, tuple(state["rules"]), bits)


def _whole_numbers(state: Mapping[str, Any], name: str) -> IntArray:
    """Return an array of a state. Raise ValueError unless it holds whole numbers."""
    array: IntArray = state[name]
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{name} must be whole numbers; got {array.dtype}")
    return array.astype(np.int64)


def from_state(state: Mapping[str, Any]) -> RowScores | CountedScores:
    """Return the scores from what `state` returned."""
    return CountedScores.from_state(state) if "cells" in state else RowScores.from_state(state)


def _select(values: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    """Return the values of some rows, in order; no copy if these are all rows."""
    return values if len(rows) == len(values) else values.take(rows)


def _distinct_clusters(parts: Sequence[IntArray]) -> IntArray:
    """Return the clusters of the rows of all parts; those of different parts are different clusters."""
    starts = np.cumsum([0, *(part.max(initial=-1) + 1 for part in parts)])
    return np.concatenate([part + start for part, start in zip(parts, starts[:-1], strict=True)])
