"""Calibration scores on a device, such as a GPU: thresholds and p-values are found there, without copying arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evencover.calibration.stored_scores import ALL_ROWS, MAX_CACHED_LEVELS, RowScores, Unseen, warn_if_too_few
from evencover.groups import Groups, Label
from evencover.inputs.arrays import FloatArray, on_host
from evencover.inputs.device_arrays import (
    MAX_GROUPS_TO_SCAN,
    as_positions,
    concatenated,
    count,
    device_of,
    group_sizes,
    namespace,
    on_cpu,
    sizes_of_sorted,
    small_list,
    smallest,
    values_where,
)
from evencover.quantiles import conformal_rank, thresholds


class Thresholds(NamedTuple):
    """The threshold of each group at each of L levels, and which groups have several scores equal to one of theirs."""

    table: Any  # (n_groups, L)
    tied: list[bool]


@dataclass(frozen=True, eq=False)
class DeviceScores:
    """The scores of n calibration rows and their groups, as arrays of torch, CuPy, JAX or another library.

    Parameters
    ----------
    scores : array of shape (n,)
        The scores.
    groups : Groups of n rows
        Their groups, whose codes are on the same device.
    """

    scores: Any
    groups: Groups
    bits: ClassVar[None] = None
    weights: ClassVar[None] = None
    clusters: ClassVar[None] = None
    has_edge_rows: ClassVar[bool] = False

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the groups."""
        return self.groups.labels

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule of each group."""
        return self.groups.rules

    @cached_property
    def sizes(self) -> list[int]:
        """Number of rows of each group."""
        return group_sizes(self.groups.codes, len(self.labels))

    def excess(self, levels: tuple[Fraction, ...]) -> FloatArray:
        """Return 0 for each group and level: thresholds are exact. Shape (n_groups, L)."""
        return np.zeros((len(self.labels), len(levels)))

    def marginal_thresholds(self, levels: tuple[Fraction, ...]) -> Any:
        """Return the thresholds of all rows together. Shape (1, L)."""
        return thresholds(self.scores, levels)[None, :]

    def one_row_per_group(self) -> Groups:
        """Return one row of each group."""
        xp = namespace(self.scores)
        return Groups(xp.arange(len(self.labels), device=device_of(self.scores)), self.labels)

    def thresholds(self, levels: tuple[Fraction, ...]) -> Thresholds:
        """Return the thresholds of all groups, computed once for the same levels."""
        found = self._cache.get(levels)
        if found is None:
            if len(self._cache) >= MAX_CACHED_LEVELS:
                self._cache.clear()
            many = len(self.labels) > MAX_GROUPS_TO_SCAN or not on_cpu(self.scores)
            sorts = many and len(self.labels) > 1 and self.scores.shape[0]
            found = self._cache[levels] = self._by_sorting(levels) if sorts else self._by_scanning(levels)
        return found

    def _by_scanning(self, levels: tuple[Fraction, ...]) -> Thresholds:
        """Return the thresholds from the scores of one group at a time, to save memory."""
        xp, rows, tied = namespace(self.scores), [], []
        for code, n in enumerate(self.sizes):
            own = self.scores
            if len(self.labels) > 1:
                own = values_where(xp, self.scores, self.groups.codes == code, n)
            rows.append(smallest(xp, own, [conformal_rank(n, level) for level in levels], n))
            padding = own.shape[0] - n  # infinite values at the end
            tied.append(any(count(xp, own == each) - padding * bool(xp.isinf(each)) > 1 for each in rows[-1]))
        table = xp.stack([xp.stack(row) for row in rows]) if rows else self._on_device(np.empty((0, len(levels))))
        return Thresholds(table, tied)

    def _by_sorting(self, levels: tuple[Fraction, ...]) -> Thresholds:
        """Return the thresholds from scores that are sorted by group: a GPU sorts as fast as it collects each group."""
        by_score, by_group, sizes = self._order()
        ranks = np.array([[conformal_rank(n, level) for level in levels] for n in sizes])  # (n_groups, L)
        starts, ends = np.cumsum([0, *sizes])[:-1, None], np.cumsum(sizes)[:, None]
        at = np.stack([starts + ranks - 1 + step for step in (0, -1, 1)])  # the threshold, and the scores beside it
        exists = (ranks <= ends - starts) & (starts <= at) & (at < ends)
        xp = namespace(self.scores)
        positions = xp.take(by_group, self._on_device(np.where(exists, at, 0).ravel()), axis=0)
        found = xp.reshape(xp.take(self.scores, xp.take(by_score, positions, axis=0), axis=0), at.shape)
        found = xp.where(self._on_device(exists), found, xp.full_like(found, np.nan))
        tied = xp.any((found[1, :, :] == found[0, :, :]) | (found[2, :, :] == found[0, :, :]), axis=1)
        table = xp.where(self._on_device(exists[0]), found[0, :, :], xp.full_like(found[0, :, :], inf))
        return Thresholds(table, [bool(each) for each in small_list(xp.astype(tied, xp.uint8))])

    def _order(self) -> tuple[Any, Any, list[int]]:
        """Return the positions of the scores in order, the positions in these that order groups, and the sizes."""
        xp, codes, n_groups = namespace(self.scores), self.groups.codes, len(self.labels)
        short = n_groups <= 256  # and sorted faster
        codes = xp.astype(codes, xp.uint8, copy=False) if short else as_positions(xp, codes)
        by_score = xp.argsort(self.scores, stable=False)
        codes_by_score = xp.take(codes, by_score, axis=0)
        by_group = xp.argsort(codes_by_score, stable=True)
        return by_score, by_group, sizes_of_sorted(xp, xp.take(codes_by_score, by_group, axis=0), n_groups)

    @cached_property
    def _ordered(self) -> Any:
        """The scores, sorted by group and within each group. Shape (n,)."""
        xp = namespace(self.scores)
        if len(self.labels) == 1:
            return xp.sort(self.scores, stable=False)
        by_score, by_group, _ = self._order()
        return xp.take(self.scores, xp.take(by_score, by_group, axis=0), axis=0)

    def _on_device(self, values: Any) -> Any:
        return namespace(self.scores).asarray(values, device=device_of(self.scores))

    def p_values(self, scores: Any, codes: Any, tie_shares: Any = None) -> Any:
        """Return the p-value of each score among those of its group; at least in single precision. Shape (m,)."""
        xp, edges = namespace(scores), np.cumsum([0, *self.sizes])
        dtype = scores.dtype if xp.finfo(scores.dtype).bits >= 32 else xp.float32
        starts, ends = (xp.take(self._on_device(each), codes, axis=0) for each in (edges[:-1], edges[1:]))
        total = xp.astype(ends - starts, dtype) + 1.0
        counted = xp.astype(ends - self._position(scores, starts, ends, right=False), dtype) + 1.0
        if tie_shares is not None:
            larger = xp.astype(ends - self._position(scores, starts, ends, right=True), dtype)
            counted = larger + xp.astype(self._on_device(tie_shares), dtype) * (counted - larger)
        return counted / total

    def _position(self, values: Any, low: Any, high: Any, *, right: bool) -> Any:
        """Return where each value belongs among the ordered scores from `low` to `high`, by bisection."""
        xp, last = namespace(values), max(self.scores.shape[0] - 1, 0)
        for _ in range(max(self.sizes, default=0).bit_length()):
            middle = (low + high) // 2
            score = xp.take(self._ordered, xp.clip(middle, None, last), axis=0)
            goes_up = (low < high) & ((score <= values) if right else (score < values))
            low, high = xp.where(goes_up, middle + 1, low), xp.where(goes_up, high, middle)
        return low

    def assignment(self, groups: Groups, unseen: Unseen, tail_share: Fraction) -> "DeviceAssignment":
        """Return what new rows are compared with."""
        return DeviceAssignment(self, groups, unseen, tail_share)

    def joined(self, others: Sequence["DeviceScores"]) -> "DeviceScores":
        """Return the scores of the rows of all parts."""
        parts = (self, *others)
        groups = Groups.concatenate([part.groups for part in parts])
        return DeviceScores(concatenated([part.scores for part in parts]), groups)

    def state(self) -> dict[str, Any]:
        """Return the scores and groups as arrays of numpy, for a file: what is loaded from it is not on a device."""
        return RowScores(on_host(self.scores).astype(float), self.groups.on_host()).state()

    @cached_property
    def _cache(self) -> dict[tuple[Fraction, ...], Thresholds]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # without the caches


@dataclass(frozen=True, eq=False)
class DeviceAssignment:
    """The scores that each of m new rows on a device is compared with; it has the methods of `PoolAssignment`.

    Parameters
    ----------
    stored : DeviceScores
        The scores of the calibration rows.
    groups : Groups of m rows
        The groups of the new rows.
    unseen : {"error", "marginal", "inf"}
        What rows of other groups are compared with.
    tail_share : Fraction
        As in `PoolAssignment`.
    """

    stored: DeviceScores
    groups: Groups
    unseen: Unseen
    tail_share: Fraction

    def thresholds(self, levels: tuple[Fraction, ...], _weights: FloatArray | None) -> list[Any]:
        """Return for each level the rows' thresholds, shape (m,). Warn if some are infinite."""
        self._warn_if_too_few(max(levels))
        table, xp = self.stored.thresholds(levels).table, namespace(self.stored.scores)
        if self._unseen_labels:
            marginal = self._marginal.thresholds(levels).table
            table = concatenated([table, marginal if self.unseen == "marginal" else xp.full_like(marginal, inf)])
        if table.shape[0] == 1:
            return [xp.broadcast_to(table[0, each], (len(self.groups),)) for each in range(len(levels))]
        return [xp.take(table[:, each], self._codes, axis=0) for each in range(len(levels))]

    def tied_groups(self, levels: tuple[Fraction, ...]) -> tuple[Label, ...]:
        """Return the groups of new rows whose threshold equals several calibration scores at one of these levels."""
        tied = dict(zip(self.stored.labels, self.stored.thresholds(levels).tied, strict=True))
        used = self.groups.counts if any(tied.values()) else ()
        labels = [label for label, n in zip(self.groups.labels, used, strict=False) if n and tied.get(label)]
        together = self._uses_all_rows and self._marginal.thresholds(levels).tied[0]
        return (*labels, *[ALL_ROWS] * together)

    def p_values(self, scores: Any, tie_shares: Any, _weights: FloatArray | None) -> Any:
        """Return each row's p-value in its group; 1 for rows of unseen groups if their intervals are infinite."""
        if not self._unseen_labels:
            return self.stored.p_values(scores, self._codes, tie_shares)
        xp, n_groups = namespace(scores), len(self.stored.labels)
        seen = self._codes < n_groups
        found = self.stored.p_values(scores, xp.where(seen, self._codes, 0), tie_shares)
        others = xp.ones_like(found)
        if self.unseen == "marginal":
            others = self._marginal.p_values(scores, xp.zeros_like(self._codes), tie_shares)
        return xp.where(seen, found, others)

    @cached_property
    def _marginal(self) -> DeviceScores:
        """All scores as one group."""
        return replace(self.stored, groups=Groups.one(self.stored.scores))

    @property
    def _uses_all_rows(self) -> bool:
        """Whether some new rows are compared with the scores of all groups."""
        return self.unseen == "marginal" and bool(self._unseen_labels)

    @cached_property
    def _unseen_labels(self) -> tuple[Label, ...]:
        return self.groups.labels_not_in(self.stored.labels)

    @cached_property
    def _codes(self) -> Any:
        """The position of each row's group, as an index; after the last one for unseen groups. Shape (m,)."""
        xp = namespace(self.stored.scores)
        codes = as_positions(xp, self.groups.codes_among(self.stored.labels))
        return codes if not self._unseen_labels else xp.where(codes < 0, len(self.stored.labels), codes)

    def _warn_if_too_few(self, level: Fraction) -> None:
        names: list[Label | None] = [*self.stored.labels, *[ALL_ROWS] * self._uses_all_rows]
        sizes = [*self.stored.sizes, *self._marginal.sizes][: len(names)]
        if min(sizes, default=inf) >= level / (1 - level):
            return
        counts = {**dict(zip(self.groups.labels, self.groups.counts.tolist(), strict=True)), ALL_ROWS: 1}
        used = np.array([code for code, name in enumerate(names) if counts.get(name)], dtype=np.intp)
        warn_if_too_few(used, names, sizes, level, self.tail_share)
