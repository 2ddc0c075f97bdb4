"""The pools of calibration scores of all groups: which pool serves which new row, and the results of new rows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import Any, Literal, TypeAlias

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover._internal.pools import PoolAssignment, ScorePool
from evencover.groups import Groups, Label, checked_groups, first_few
from evencover.guarantees import Guarantee
from evencover.intervals import Intervals, stack_levels
from evencover.quantiles import Level, level_fraction
from evencover.rows import Rows
from evencover.scores.evaluation import intervals_by_group, scores_by_group
from evencover.scores.one_sided import side_of
from evencover.scores.score import Nonconformity
from evencover.sql import ThresholdSQL, UnseenSQL, threshold_sql
from evencover.table_columns import TableColumns

Unseen: TypeAlias = Literal["error", "marginal", "inf"]
Seed: TypeAlias = int | np.random.Generator | None
Cell: TypeAlias = tuple[int, int]  # group code and edge bits

MARGINAL_LABELS: tuple[Label, ...] = ("all",)


@dataclass(frozen=True, eq=False)
class GroupedPools:
    """The calibration scores of each cell, a pair of group and edge bits, as pools.

    Parameters
    ----------
    nonconformity : score or mapping from label to score
        The score, or one for each group.
    labels, rules : tuples
        The groups, and the rule of each.
    by_cell : mapping from cell to pool
        The scores of the calibration rows in each cell that has rows.
    empty : pool
        A pool without scores, for groups without rows and for unseen groups.
    tail_share : Fraction
        The share of 1 − level of this tail, if the scores are those of one tail; for warnings only.
    """

    nonconformity: Nonconformity
    labels: tuple[Label, ...]
    rules: tuple[str, ...]
    by_cell: Mapping[Cell, ScorePool]
    empty: ScorePool
    tail_share: Fraction = Fraction(1)

    @property
    def sizes(self) -> dict[Label, int]:
        """Number of calibration rows behind each group's threshold."""
        return {label: len(self.pool((group, 0))) for group, label in enumerate(self.labels)}

    @property
    def n_units(self) -> dict[Label, int]:
        """The weight of each group's calibration rows, in rows or clusters, rounded down."""
        return {label: floor(self.pool((group, 0)).n_units) for group, label in enumerate(self.labels)}

    def threshold_table(self, levels: tuple[Fraction, ...], weights: FloatArray | None = None) -> FloatArray:
        """Return the threshold of each group at each of L levels. Shape (n_groups, L)."""
        n_groups = len(self.labels)
        one_row_per_group = Groups(np.arange(n_groups), self.labels)
        by_level = self.assignment(one_row_per_group, "error").thresholds(levels, weights)
        return np.stack([np.broadcast_to(column, n_groups) for column in by_level], axis=-1)

    def intervals(
        self, levels: tuple[Fraction, ...], rows: Rows, groups: Groups, unseen: Unseen, guarantee: Guarantee
    ) -> Intervals:
        """Return the intervals of m rows with given groups at each of L levels. Bounds of shape (m, L)."""
        self.check_same_groups(groups, unseen)
        codes, assignment = groups.codes_among(self.labels), self.assignment(groups, unseen)
        intervals = stack_levels(
            [
                intervals_by_group(self.nonconformity, self.labels, threshold, rows.prediction, codes)
                for threshold in assignment.thresholds(levels, rows.weights)
            ]
        )
        without, tied = groups.labels_not_in(self.labels), assignment.tied_groups(levels)
        guarantee = replace(guarantee, without=without, tied=tied) if without or tied else guarantee
        return replace(intervals, groups=groups, guarantee=guarantee, side=side_of(self.nonconformity))

    def p_values(self, rows: Rows, groups: Groups, unseen: Unseen, seed: Seed) -> FloatArray:
        """Return the p-values of m rows with targets and given groups. Shape (m,)."""
        self.check_same_groups(groups, unseen)
        scores = scores_by_group(self.nonconformity, rows, groups.codes_among(self.labels), self.labels)
        tie_shares = None if seed is None else np.random.default_rng(seed).random(len(rows))
        return self.assignment(groups, unseen).p_values(scores, tie_shares, rows.weights)

    def to_sql(self, level: Level, columns: TableColumns, dialect: str, unseen: UnseenSQL) -> ThresholdSQL:
        """Return the thresholds, and the intervals of new rows, as SQL."""
        if any(bits for _, bits in self.by_cell):
            raise ValueError(
                "SQL needs groups that are values of a column; these have edges that were learned from the calibration "
                "rows, where some rows count separately. Give the edges, such as BySpread(edges=[...])"
            )
        levels = (level_fraction(level),)
        marginal = float(self.pool(None).thresholds(levels)[0, 0]) if unseen == "marginal" else None
        return threshold_sql(
            self.nonconformity,
            self.labels,
            tuple(self.sizes.values()),
            self.threshold_table(levels)[:, 0],
            level=level,
            columns=columns,
            dialect=dialect,
            unseen=unseen,
            marginal=marginal,
        )

    def check_same_groups(self, groups: Groups, unseen: Unseen) -> None:
        """Raise ValueError if a new row has no group, a rule differs, or a group is unseen and `unseen` is "error"."""
        if unseen not in ("error", "marginal", "inf"):
            raise ValueError(f"unseen must be 'error', 'marginal' or 'inf'; got {unseen!r}")
        if len(groups) and groups.codes.min() < 0:
            raise ValueError(f"every new row must have a group; rows without one: {np.count_nonzero(groups.codes < 0)}")
        groups.check_rules_among(self.labels, self.rules)
        unseen_labels = groups.labels_not_in(self.labels)
        if not unseen_labels or unseen != "error":
            return
        if self.labels == MARGINAL_LABELS:
            raise ValueError("groups were given, but the calibration has none; use calibrate(..., groups=...)")
        raise ValueError(
            f"groups must be among those of the calibration, {first_few(self.labels)}; got {first_few(unseen_labels)}. "
            "To predict for unseen groups, use unseen='marginal' or unseen='inf'"
        )

    def assignment(self, groups: Groups, unseen: Unseen) -> PoolAssignment:
        """Return the pool of each row: that of its group, of its edge, or the one for unseen groups."""
        pools = [self.pool((group, 0)) for group in range(len(self.labels))]
        names: list[Label | None] = list(self.labels)
        codes = pool_codes = groups.codes_among(self.labels)
        if groups.edge is not None:
            pool_codes = codes.copy()
            for (group, edge_bits), rows in Groups(codes, self.labels, (), groups.edge, groups.n_edge_bits).cells():
                if edge_bits:
                    pool_codes[rows] = len(pools)
                    pools.append(self.pool((group, edge_bits)))
                    names.append(self.labels[group])
        if len(codes) and codes.min() < 0:
            pool_codes = np.where(codes < 0, len(pools), pool_codes)
            pools.append(self.pool(None) if unseen == "marginal" else self.empty)
            names.append("all rows together" if unseen == "marginal" else None)
        return PoolAssignment(pools, names, pool_codes, self.tail_share)

    def pool(self, cell: Cell | None) -> ScorePool:
        """Return the scores that new rows of a cell are compared with; those of all rows for None. Cached.

        They are the scores of calibration rows in the same group whose edge bits are all set in the cell's edge bits.
        """
        if cell not in self._cache:
            if cell is None and isinstance(self.nonconformity, Mapping):
                raise ValueError("unseen='marginal' needs one score for all groups; this calibration has one for each")
            if cell is None:
                parts = [self.by_cell[key] for key in sorted(self.by_cell)]
            else:
                group, bits = cell
                subsets = (each for each in self._edge_bits_by_group.get(group, ()) if not each & ~bits)
                parts = [self.by_cell[group, subset] for subset in subsets]
            self._cache[cell] = parts[0].concatenate(parts) if parts else self.empty
        return self._cache[cell]

    @cached_property
    def _cache(self) -> dict[Cell | None, ScorePool]:
        return {}

    @cached_property
    def _edge_bits_by_group(self) -> dict[int, list[int]]:
        """The edge bits that occur in each group, in increasing order."""
        bits_by_group: dict[int, list[int]] = {}
        for group, bits in sorted(self.by_cell):
            bits_by_group.setdefault(group, []).append(bits)
        return bits_by_group


def groups_or_marginal(groups: Any, length: int, labels: tuple[Label, ...] = MARGINAL_LABELS) -> Groups:
    """Return the user's groups as `Groups`; for None, put all rows into one group if the labels allow it."""
    if groups is None:
        if labels != MARGINAL_LABELS:
            raise ValueError(f"groups must be given: the calibration has the groups {first_few(labels)}")
        return Groups(np.zeros(length, dtype=np.intp), MARGINAL_LABELS)
    return checked_groups(groups, length, "the prediction")


def check_mergeable(parts: tuple[Any, ...], names: tuple[str, ...]) -> None:
    """Raise ValueError unless calibrations have the same score, groups and so on, by the names of their attributes."""
    first, *others = parts
    for other in others:
        for name in names:
            expected, found = getattr(first, name), getattr(other, name)
            if expected != found:
                raise ValueError(f"merge needs calibrations with the same {name}; got {expected} and {found}")
