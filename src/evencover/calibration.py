"""Calibration: scores by group, from which thresholds, intervals and p-values follow at any level."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from evencover._internal import calibration_files
from evencover._internal.arrays import FloatArray, IntArray, checked_nonnegative
from evencover._internal.frames import frame_kind
from evencover._internal.pools import Pool, PoolAssignment
from evencover.groups import Groups, Label, checked_groups, first_few
from evencover.guarantees import EXCHANGEABLE, SHIFTED, Guarantee, Kind
from evencover.intervals import Intervals, for_requested_level, stacked
from evencover.predictions import Rows
from evencover.quantiles import Levels, is_several, level_fractions
from evencover.scores import (
    Nonconformity,
    checked_nonconformity,
    checked_scores,
    intervals_by_group,
    scores_by_group,
)

Unseen: TypeAlias = Literal["error", "marginal", "inf"]
Seed: TypeAlias = int | np.random.Generator | None
Cell: TypeAlias = tuple[int, int]  # group, edge bits
Array = TypeVar("Array", FloatArray, FloatArray | None)

_MARGINAL: tuple[Label, ...] = ("all",)


def calibrate(
    y: Any,
    prediction: Any,
    *,
    nonconformity: Nonconformity | None = None,
    groups: Any = None,
    weights: Any = None,
) -> "Calibration":
    """Return the calibration of a prediction on rows whose targets are known.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets. The model must not have been fitted on these rows.
    prediction : Prediction of n rows, or array-like of shape (n,)
        What the model says about them; a plain array is a center.
    nonconformity : score, or mapping from group label to score, optional
        `Residual()` by default. A mapping gives every group its own measure.
    groups : array-like of shape (n,) or Groups, optional
        The group of each row: labels of any kind, or what a taxonomy's `learn` returned. One group by default.
    weights : array-like of shape (n,), optional
        Weights for covariate shift; `Calibration.interval` then needs the new rows' weights.

    Examples
    --------
    >>> calibration = calibrate([1.0, 2.0, 4.0, 8.0], [0.0, 0.0, 0.0, 0.0])
    >>> calibration.threshold(0.5)
    array([4.])
    """
    rows = Rows(prediction, y=y, weights=weights)
    return calibrated(rows, nonconformity, _checked_groups(groups, len(rows)))


def calibrated(rows: Rows, nonconformity: Nonconformity | None, groups: Groups) -> "Calibration":
    """Return the calibration on rows that were checked, with targets, by their groups."""
    nonconformity = checked_nonconformity(nonconformity, groups.labels)
    scores = scores_by_group(nonconformity, rows, groups.codes, groups.labels)
    return Calibration(nonconformity, checked_scores(scores, len(rows)), groups, rows.weights)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """The calibration scores of every group. Made by `calibrate`; needs no model.

    The threshold of a group of n rows is its k-th smallest score, k = ceil((n + 1) level), inf where k > n.
    If calibration rows and new rows are exchangeable, an interval covers a new row of the group with
    probability at least the level; without ties the number covered among m of them is
    BetaBinomial(m, k, n + 1 − k).

    Parameters
    ----------
    nonconformity : score or mapping from label to score
        The measure, or each group's own.
    scores : ndarray of shape (n,)
        The scores, in the order of the calibration rows.
    groups : Groups of n rows
        Their groups; rows on learned edges stand apart (see `Groups.edge`).
    weights : ndarray of shape (n,), optional
        Weights for covariate shift.
    """

    nonconformity: Nonconformity
    scores: FloatArray
    groups: Groups
    weights: FloatArray | None = None

    @property
    def labels(self) -> tuple[Label, ...]:
        """The groups."""
        return self.groups.labels

    @property
    def rules(self) -> tuple[str, ...]:
        """What puts a row into each group."""
        return self.groups.rules

    @property
    def weighted(self) -> bool:
        """Whether rows have weights for covariate shift."""
        return self.weights is not None

    @property
    def sizes(self) -> dict[Label, int]:
        """Number of calibration rows behind each group's threshold."""
        return {label: len(self._pool((group, 0))) for group, label in enumerate(self.labels)}

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised: over all rows where there is one group, else in every group."""
        kind: Kind = "per group" if len(self.labels) > 1 else "marginal" if self.labels else "none"
        assumption = SHIFTED if self.weighted else EXCHANGEABLE
        return Guarantee(kind, self.sizes, assumption=assumption, exact=not self.weighted)

    def threshold(self, level: Levels, *, test_weight: float | None = None) -> FloatArray:
        """Return each group's critical score. Shape (n_groups,), or (n_groups, L) for L levels.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.
        test_weight : float, optional
            Weight of the new row, if the calibration is weighted.
        """
        levels = level_fractions(level)
        every = np.arange(len(self.labels))
        same_weight = None if test_weight is None else np.full(len(every), test_weight)
        weights = None if same_weight is None else checked_nonnegative(same_weight, "weights")
        self._check_weights(weights)
        found = self._pool_assignment(Groups(every, self.labels), "error").thresholds(levels, weights)
        table = np.stack([np.broadcast_to(each, len(every)) for each in found], axis=-1)  # (n_groups, L)
        return table if is_several(level) else table[:, 0]

    def interval(
        self,
        prediction: Any,
        *,
        groups: Any = None,
        level: Levels = 0.9,
        weights: Any = None,
        unseen: Unseen = "error",
    ) -> Intervals:
        """Return the targets whose score is at most the threshold of their row's group.

        Parameters
        ----------
        prediction : Prediction of m rows, or array-like of shape (m,)
            What the model says about the new rows.
        groups : array-like of shape (m,) or Groups, optional
            Their groups; needed unless there is only one.
        level : float or sequence of L floats
            Nominal coverage.
        weights : array-like of shape (m,), optional
            Weights of the new rows, if the calibration is weighted.
        unseen : {"error", "marginal", "inf"}
            What a row gets whose group has no calibration: an error, the threshold of all rows together (for
            which nothing is promised), or an infinite interval.

        Returns
        -------
        Intervals of m rows
            Bounds of shape (m,), or (m, L) for L levels.
        """
        levels = level_fractions(level)
        rows = Rows(prediction, weights=weights)
        made = self.intervals_at(levels, rows, _checked_groups(groups, len(rows), self.labels), unseen)
        return for_requested_level(made, level, frame_kind(prediction), self.guarantee)

    def intervals_at(self, levels: tuple[Fraction, ...], rows: Rows, groups: Groups, unseen: Unseen) -> Intervals:
        """Return the intervals of rows by their groups, at each of L levels. Bounds of shape (m, L)."""
        self._check_weights(rows.weights)
        self._check_same_groups(groups, unseen)
        codes = groups.codes_among(self.labels)
        made = stacked(
            [
                intervals_by_group(self.nonconformity, self.labels, critical, rows.prediction, codes)
                for critical in self._pool_assignment(groups, unseen).thresholds(levels, rows.weights)
            ]
        )
        without = groups.labels_beyond(self.labels)
        guarantee = replace(self.guarantee, without=without) if without else self.guarantee
        return replace(made, groups=groups, guarantee=guarantee)

    def p_values(
        self,
        y: Any,
        prediction: Any,
        *,
        groups: Any = None,
        weights: Any = None,
        unseen: Unseen = "error",
        seed: Seed = None,
    ) -> FloatArray:
        """Return the share of scores, the row's own included, that are at least as large. Shape (m,).

        p = (1 + #{i : s_i >= s}) / (n + 1) within the row's group. If calibration and new rows are exchangeable,
        P(p <= u) <= u for every u. In exact arithmetic, an interval covers the target just where p > 1 − level.

        Parameters
        ----------
        y : array-like of shape (m,)
            Targets of the new rows, observed or hypothetical.
        prediction, groups, weights, unseen
            As in `interval`; a row of an unseen group answered with ``"inf"`` has the p-value 1.
        seed : int or Generator, optional
            Asks for smoothed p-values, ties broken by its draws: (#{s_i > s} + u (1 + #{s_i = s})) / (n + 1) with
            u uniform on (0, 1), which are exactly uniform.
        """
        rows = Rows(prediction, y=y, weights=weights)
        return self.p_values_of(rows, _checked_groups(groups, len(rows), self.labels), unseen, seed)

    def p_values_of(self, rows: Rows, groups: Groups, unseen: Unseen, seed: Seed) -> FloatArray:
        """Return the p-values of rows with targets, by their groups. Shape (m,)."""
        self._check_weights(rows.weights)
        self._check_same_groups(groups, unseen)
        scores = scores_by_group(self.nonconformity, rows, groups.codes_among(self.labels), self.labels)
        tie_shares = None if seed is None else np.random.default_rng(seed).random(len(rows))
        return self._pool_assignment(groups, unseen).p_values(scores, tie_shares, rows.weights)

    def merge(self, *others: "Calibration") -> "Calibration":
        """Return the calibration of all parts' rows together, equal to that of the whole: ``a.merge(b, c)``.

        The parts must have the same score, labels and rules (edges included): learn the groups once, and
        calibrate the parts with them.
        """
        for other in others:
            for part in ("nonconformity", "labels", "rules", "weighted"):
                mine, theirs = getattr(self, part), getattr(other, part)
                if mine != theirs:
                    raise ValueError(f"merge needs calibrations with the same {part}; got {mine} and {theirs}")
        parts = (self, *others)
        weights = [part.weights for part in parts if part.weights is not None]
        return Calibration(
            self.nonconformity,
            np.concatenate([part.scores for part in parts]),
            Groups.joined([part.groups for part in parts]),
            np.concatenate(weights) if weights else None,
        )

    def state(self) -> dict[str, Any]:
        """Return what its file holds besides the score: arrays, and values that JSON knows."""
        weights = {} if self.weights is None else {"weights": self.weights}
        return {"scores": self.scores, **weights, **self.groups.state()}

    @classmethod
    def restored(cls, state: Mapping[str, Any], nonconformity: Nonconformity) -> "Calibration":
        """Return the calibration that had this state."""
        groups = Groups.restored(state)
        scores, weights = checked_scores(state["scores"], len(groups)), state.get("weights")
        weights = None if weights is None else checked_nonnegative(weights, "weights", length=len(groups))
        return cls(nonconformity, scores, groups, weights)

    def save(self, path: str | Path) -> None:
        """Write the calibration to one file, without pickle: JSON and arrays in an npz archive."""
        calibration_files.write(path, self.nonconformity, self.state())

    @classmethod
    def load(cls, path: str | Path, *, nonconformity: Nonconformity | None = None) -> "Calibration":
        """Read a calibration that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.
        nonconformity : score or mapping, optional
            The score, where it is of a class of your own: a file holds this package's scores only.
        """
        return calibration_files.read(path, nonconformity, cls.restored)

    def _check_same_groups(self, groups: Groups, unseen: Unseen) -> None:
        """Raise unless every new row has a group, by the same rules, and one that was calibrated or may be unseen."""
        if unseen not in ("error", "marginal", "inf"):
            raise ValueError(f"unseen must be 'error', 'marginal' or 'inf'; got {unseen!r}")
        if len(groups) and groups.codes.min() < 0:
            raise ValueError(f"groups must hold every new row; {np.count_nonzero(groups.codes < 0)} are left out")
        self.groups.check_same_rules(groups)
        strange = groups.labels_beyond(self.labels)
        if strange and unseen == "error" and self.labels == _MARGINAL:
            raise ValueError("groups were given, but the calibration was made without: calibrate(..., groups=...)")
        if strange and unseen == "error":
            raise ValueError(
                f"groups holds {first_few(strange)}, never seen in calibration, which has {first_few(self.labels)}; "
                "unseen='marginal' or unseen='inf' would answer for them"
            )

    def _check_weights(self, weights: FloatArray | None) -> None:
        """Raise unless the new rows have weights just where the calibration rows have them."""
        if (weights is not None) != self.weighted:
            having, lacking = ("calibration", "new") if self.weighted else ("new", "calibration")
            raise ValueError(f"weights go together: the {having} rows have them and the {lacking} rows do not")

    def _pool_assignment(self, groups: Groups, unseen: Unseen) -> PoolAssignment:
        """Return which pool answers for each row: its group's, its edge's, or the one for unseen groups."""
        pools = [self._pool((group, 0)) for group in range(len(self.labels))]
        names: list[Label | None] = list(self.labels)
        codes = numbers = groups.codes_among(self.labels)
        if groups.edge is not None:
            numbers = codes.copy()
            for cell, rows in Groups(codes, self.labels, (), groups.edge, groups.n_edge_bits).cells():
                if cell[1]:
                    numbers[rows] = len(pools)
                    pools.append(self._pool(cell))
                    names.append(self.labels[cell[0]])
        if len(codes) and codes.min() < 0:
            numbers = np.where(codes < 0, len(pools), numbers)
            pools.append(self._pool(None) if unseen == "marginal" else self._nothing)
            names.append("all rows together" if unseen == "marginal" else None)
        return PoolAssignment(pools, names, numbers)

    def _pool(self, cell: Cell | None) -> Pool:
        """Return the scores that count for new rows of a cell, or those of all rows for None; joined once.

        A calibration row counts if it is of the same group and all its edge bits are the cell's too.
        """
        if cell not in self._pools:
            if cell is None and isinstance(self.nonconformity, Mapping):
                raise ValueError("unseen='marginal' needs one score for all groups; this calibration has one for each")
            if cell is None:
                members = [self._cells[each] for each in sorted(self._cells)]
            else:
                group, bits = cell
                members = [self._cells[group, each] for each in self._bits_of.get(group, ()) if not each & ~bits]
            self._pools[cell] = Pool.joined(members) if members else self._nothing
        return self._pools[cell]

    @cached_property
    def _pools(self) -> dict[Cell | None, Pool]:
        """The pools that were asked for so far."""
        return {}

    @cached_property
    def _cells(self) -> dict[Cell, Pool]:
        """The scores of each group and edge bits, with their weights."""
        return {cell: Pool(_some(self.scores, rows), _some(self.weights, rows)) for cell, rows in self.groups.cells()}

    @cached_property
    def _bits_of(self) -> dict[int, list[int]]:
        """The edge bits of each group's cells, in order."""
        found: dict[int, list[int]] = {}
        for group, bits in sorted(self._cells):
            found.setdefault(group, []).append(bits)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # without what can be found again

    def __repr__(self) -> str:
        sizes = ", ".join(f"{label} {n}" for label, n in self.sizes.items())
        return f"Calibration({self.nonconformity}; rows: {sizes}{'; weighted' * self.weighted})"

    @property
    def _nothing(self) -> Pool:
        return Pool(np.empty(0), np.empty(0) if self.weighted else None)


def _checked_groups(groups: Any, length: int, labels: tuple[Label, ...] = _MARGINAL) -> Groups:
    """Return what the caller calls groups as `Groups` of that many rows; for None, the one group there is."""
    if groups is None:
        if labels != _MARGINAL:
            raise ValueError(f"groups must be given: the calibration has the groups {first_few(labels)}")
        return Groups(np.zeros(length, dtype=np.intp), _MARGINAL)
    return checked_groups(groups, length, "the prediction")


def _some(values: Array, rows: IntArray) -> Array:
    """Return the values of some rows, in order; all of them without a copy."""
    return values if values is None or len(rows) == len(values) else values.take(rows)
