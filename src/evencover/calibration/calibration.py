"""Calibration: scores of each group, which give thresholds, intervals and p-values at any level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover.calibration import calibration_files
from evencover.calibration.pools import (
    GroupedPools,
    Pool,
    PoolAssignment,
    Seed,
    Unseen,
    check_mergeable,
    groups_or_marginal,
)
from evencover.calibration.sql import ThresholdSQL, UnseenSQL
from evencover.calibration.table_columns import TableColumns
from evencover.groups import Groups, Label, cluster_codes
from evencover.guarantees import CLUSTERED, EXCHANGEABLE, LEARNED_FROM_CLUSTERS, SHIFTED, Guarantee, Kind
from evencover.inputs.arrays import FloatArray, IntArray, checked_nonnegative
from evencover.inputs.frames import frame_kind
from evencover.intervals import Intervals, for_requested_level
from evencover.quantiles import Level, Levels, is_level_sequence, level_fractions
from evencover.rows import Rows
from evencover.scores.evaluation import checked_nonconformity, checked_scores, scores_by_group
from evencover.scores.score import Nonconformity
from evencover.scores.support import support_of, warn_of_targets_outside


def calibrate(
    y: Any,
    prediction: Any,
    *,
    nonconformity: Nonconformity | None = None,
    groups: Any = None,
    weights: Any = None,
    clusters: Any = None,
) -> "Calibration":
    """Calibrate predictions on rows whose targets are known.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets. The model must not have been fitted on these rows.
    prediction : Prediction of n rows, or array-like of shape (n,)
        The model's predictions; a plain array is the center.
    nonconformity : score, or mapping from group label to score, optional
        `Residual()` by default. A mapping gives every group its own score.
    groups : array-like of shape (n,) or Groups, optional
        The group of each row: labels, or the `Groups` that a taxonomy's `learn` returned. One group by default.
    weights : array-like of shape (n,), optional
        Weights for covariate shift. `Calibration.interval` then also needs weights of the new rows.
    clusters : array-like of shape (n,), optional
        Rows that belong together, for example rows of one patient. Each cluster then counts as much as one new row, and
        the guarantee is that for a random row of a new cluster; see `Calibration`. The model must not have been fitted
        on rows of these clusters.

    Examples
    --------
    >>> calibration = calibrate([1.0, 2.0, 4.0, 8.0], [0.0, 0.0, 0.0, 0.0])
    >>> calibration.threshold(0.5)
    array([4.])
    """
    rows = Rows(prediction, y=y, weights=weights)
    if clusters is not None:
        rows = replace(rows, clusters=cluster_codes(clusters, len(rows), matched="the prediction", min_clusters=1))
    return calibrate_rows(rows, nonconformity, groups_or_marginal(groups, len(rows)))


def calibrate_rows(rows: Rows, nonconformity: Nonconformity | None, groups: Groups) -> "Calibration":
    """Calibrate on `Rows` with targets, whose groups are given."""
    if rows.prediction.scale is not None:
        rows.prediction.scale.warn_of_targets_outside(rows.required_target(by="a score"))
    nonconformity = checked_nonconformity(nonconformity, groups.labels)
    scores = scores_by_group(nonconformity, rows, groups.codes, groups.labels)
    warn_of_targets_outside(nonconformity, rows.required_target(by="a score"), groups)
    return Calibration(nonconformity, checked_scores(scores, len(rows)), groups, rows.weights, clusters=rows.clusters)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """The calibration scores of every group. `calibrate` makes it; it does not hold the model.

    The threshold of a group of n rows is its k-th smallest score, k = ceil((n + 1) level), and inf if k > n. If
    calibration rows and new rows are exchangeable, an interval covers a new row of the group with probability at least
    the level. If also no scores are tied, the number covered among m new rows is BetaBinomial(m, k, n + 1 − k).

    With clusters, rows of a cluster of m rows weigh 1 / m each, and a new row weighs 1. All calibration rows of the
    cluster count for m, also those of other groups. The threshold of a group is the smallest score t for which the
    group's scores up to t weigh at least level (W + 1), where W is the weight of all its scores; inf if there is none.
    If the new row is a random row of a new cluster, the clusters are exchangeable, and the groups were fixed before,
    an interval covers a new row of the group with probability at least the level.

    *Proof.* Take K calibration clusters and the new one together. Each has weight 1, at most 1 of it in the group; let
    w_k be that of cluster k, and T their sum. Let q be the smallest score for which the group's scores up to q weigh at
    least level T. The threshold without cluster k needs the weight level (T − w_k + 1) >= level T from fewer rows, so
    it is at least q. So a row that is missed if its cluster is the new one has a score above q, and such rows weigh at
    most (1 − level) T. Each cluster is equally likely to be the new one, so the probability of a row in the group that
    is missed is at most 1 − level times the probability of a row in the group. ∎

    Parameters
    ----------
    nonconformity : score or mapping from label to score
        The score, or one for each group.
    scores : ndarray of shape (n,)
        The scores of the calibration rows, in the order of the rows.
    groups : Groups of n rows
        The groups of the calibration rows; edge rows are calibrated separately (see `Groups.edge`).
    weights : ndarray of shape (n,), optional
        Weights for covariate shift.
    tail_share : Fraction
        The share of 1 − level of this tail, if the scores are those of one tail of `TwoTails`; for warnings only.
    clusters : ndarray of int, shape (n,), optional
        The cluster of each row, as a number.

    References
    ----------
    Lee, Barber, Willett (2023), Distribution-free inference with hierarchical data.
    """

    nonconformity: Nonconformity
    scores: FloatArray
    groups: Groups
    weights: FloatArray | None = None
    tail_share: Fraction = Fraction(1)
    clusters: IntArray | None = None

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the groups."""
        return self.groups.labels

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule of each group."""
        return self.groups.rules

    @property
    def weighted(self) -> bool:
        """Whether the calibration rows have weights for covariate shift."""
        return self.weights is not None

    @property
    def sizes(self) -> dict[Label, int]:
        """Number of calibration rows behind each group's threshold."""
        return self._pools.sizes

    @property
    def clustered(self) -> bool:
        """Whether there are clusters of several rows, so that rows weigh less than a new row."""
        return self.cluster_sizes is not None

    @cached_property
    def cluster_sizes(self) -> IntArray | None:
        """The number of calibration rows in the cluster of each row; None if each row is a cluster. Shape (n,)."""
        if self.clusters is None:
            return None
        sizes = np.bincount(self.clusters)[self.clusters]
        return sizes if (sizes > 1).any() else None

    @cached_property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee: marginal for one group, per group for several.

        With clusters it is approximate for groups whose edges were learned from the calibration rows.
        """
        kind: Kind = "per group" if len(self.labels) > 1 else "marginal" if self.labels else "none"
        if self.clustered:
            guarantee = Guarantee(kind, self.sizes, assumption=CLUSTERED, clusters=self._pools.n_units)
            if self.groups.n_edge_bits:
                guarantee = replace(guarantee, kind="approximate").assuming(LEARNED_FROM_CLUSTERS)
        else:
            assumption = SHIFTED if self.weighted else EXCHANGEABLE
            guarantee = Guarantee(kind, self.sizes, assumption=assumption, exact=not self.weighted)
        support = support_of(self.nonconformity)
        if support is None:
            return guarantee
        return replace(guarantee, replaces_empty=True).assuming(f"all targets are {support}")

    def threshold(self, level: Levels, *, test_weight: float | None = None) -> FloatArray:
        """Return the threshold of each group. Shape (n_groups,), or (n_groups, L) for L levels.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.
        test_weight : float, optional
            Weight of the new row, if the calibration is weighted.
        """
        levels = level_fractions(level)
        n_groups = len(self.labels)
        weights = None if test_weight is None else checked_nonnegative(np.full(n_groups, test_weight), "weights")
        self._check_weights(weights)
        table = self._pools.threshold_table(levels, weights)
        return table if is_level_sequence(level) else table[:, 0]

    def interval(
        self,
        prediction: Any,
        *,
        groups: Any = None,
        level: Levels = 0.9,
        weights: Any = None,
        unseen: Unseen = "error",
    ) -> Intervals:
        """Return the prediction intervals of new rows: the targets whose score is at most the threshold of the group.

        Parameters
        ----------
        prediction : Prediction of m rows, or array-like of shape (m,)
            The model's predictions for the new rows.
        groups : array-like of shape (m,) or Groups, optional
            The group of each new row; required if the calibration has groups.
        level : float or sequence of L floats
            Nominal coverage.
        weights : array-like of shape (m,), optional
            Weights of the new rows, if the calibration is weighted.
        unseen : {"error", "marginal", "inf"}
            For a row whose group was not in the calibration: raise an error, use the threshold of all calibration
            rows (without a guarantee), or return an infinite interval.

        Returns
        -------
        Intervals of m rows
            Bounds of shape (m,), or (m, L) for L levels.
        """
        levels = level_fractions(level)
        rows = Rows(prediction, weights=weights)
        intervals = self.intervals_at(levels, rows, groups_or_marginal(groups, len(rows), self.labels), unseen)
        center, frame = rows.prediction.center, frame_kind(prediction)
        return for_requested_level(intervals, level, center, frame, self.guarantee)

    def intervals_at(self, levels: tuple[Fraction, ...], rows: Rows, groups: Groups, unseen: Unseen) -> Intervals:
        """Return the intervals of m rows with given groups at each of L levels. Bounds of shape (m, L)."""
        self._check_weights(rows.weights)
        return self._pools.intervals(levels, rows, groups, unseen, self.guarantee)

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
        """Return the p-value of each target: the share of scores that are at least as large as its own. Shape (m,).

        p = (1 + #{i : s_i >= s}) / (n + 1) for a score s in a group of n calibration scores s_i. If calibration and new
        rows are exchangeable, P(p <= u) <= u for every u. In exact arithmetic, an interval covers a target if and only
        if p > 1 − level. With weights or clusters, the weights of rows are summed in place of their numbers.

        Parameters
        ----------
        y : array-like of shape (m,)
            Targets of the new rows, observed or hypothetical.
        prediction, groups, weights, unseen
            As in `interval`. With ``unseen="inf"``, rows of unseen groups have the p-value 1.
        seed : int or Generator, optional
            If given, p-values are smoothed, which makes them exactly uniform: ties are broken at random,
            p = (#{s_i > s} + u (1 + #{s_i = s})) / (n + 1) with u uniform on (0, 1).
        """
        rows = Rows(prediction, y=y, weights=weights)
        return self.p_values_of(rows, groups_or_marginal(groups, len(rows), self.labels), unseen, seed)

    def p_values_of(self, rows: Rows, groups: Groups, unseen: Unseen, seed: Seed) -> FloatArray:
        """Return the p-values of m rows with targets and given groups. Shape (m,)."""
        self._check_weights(rows.weights)
        return self._pools.p_values(rows, groups, unseen, seed)

    def to_sql(
        self,
        level: Level = 0.9,
        *,
        dialect: str,
        center: str | None = None,
        spread: str | None = None,
        lower: str | None = None,
        upper: str | None = None,
        group: str | None = None,
        unseen: UnseenSQL = "null",
    ) -> ThresholdSQL:
        """Return the thresholds as SQL: a table to join with, a CASE expression, and expressions of the bounds.

        Parameters
        ----------
        level : float
            Nominal coverage.
        dialect : {"bigquery", "duckdb", "postgres", "snowflake", "spark", "sqlite"}
            The dialect of the SQL.
        center, spread, lower, upper, group : str, optional
            Names of the columns of new rows with the predictions and the groups.
        unseen : {"null", "inf", "marginal"}
            The threshold of other groups: NULL, infinity, or that of all calibration rows (without a guarantee).
        """
        if self.weighted:
            raise ValueError("SQL has no weights for covariate shift; this calibration is weighted")
        columns = TableColumns(None, center, spread, lower, upper, group)
        return self._pools.to_sql(level, columns, dialect, unseen)

    def merge(self, *others: "Calibration") -> "Calibration":
        """Return one calibration of the rows of several, ``a.merge(b, c)``, as if all rows were calibrated at once.

        All calibrations must have the same score, labels and rules, edges included. So learn the groups once, then
        calibrate each part of the rows with them. All rows of a cluster must be in the same part: clusters of different
        parts count as different clusters.
        """
        parts = (self, *others)
        check_mergeable(parts, ("nonconformity", "labels", "rules", "weighted"))
        clusters = [part.clusters for part in parts if part.clusters is not None]
        if len(clusters) not in (0, len(parts)):
            raise ValueError(f"merge needs clusters in all calibrations, or in none; got {len(clusters)} with clusters")
        weights = [part.weights for part in parts if part.weights is not None]
        return Calibration(
            self.nonconformity,
            np.concatenate([part.scores for part in parts]),
            Groups.concatenate([part.groups for part in parts]),
            np.concatenate(weights) if weights else None,
            self.tail_share,
            _distinct_clusters(clusters) if clusters else None,
        )

    def state(self) -> dict[str, Any]:
        """Return all but the score as arrays and JSON values, for a file."""
        optional = {"weights": self.weights, "calibration_clusters": self.clusters}
        known = {name: values for name, values in optional.items() if values is not None}
        return {"scores": self.scores, **known, **self.groups.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], nonconformity: Nonconformity) -> "Calibration":
        """Return the calibration from what `state` returned, and the score."""
        groups = Groups.from_state(state)
        scores, weights = checked_scores(state["scores"], len(groups), "groups"), state.get("weights")
        weights = (
            None if weights is None else checked_nonnegative(weights, "weights", length=len(groups), matched="groups")
        )
        clusters = state.get("calibration_clusters")  # "clusters" are those of folds
        if clusters is not None:
            clusters = cluster_codes(clusters, len(groups), matched="groups", min_clusters=0)
        return cls(nonconformity, scores, groups, weights, clusters=clusters)

    def save(self, path: str | Path) -> None:
        """Save the calibration to one file: JSON and arrays in a zip archive, no pickle."""
        calibration_files.write(path, self.nonconformity, self.state())

    @classmethod
    def load(cls, path: str | Path, *, nonconformity: Nonconformity | None = None) -> "Calibration":
        """Load a calibration from a file that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.
        nonconformity : score or mapping, optional
            The score, if its class is your own: a file can store only scores of this package.
        """
        return calibration_files.read(path, nonconformity, cls.from_state)

    def _check_weights(self, weights: FloatArray | None) -> None:
        """Raise ValueError unless calibration rows and new rows both have weights, or neither."""
        if self.clusters is not None and weights is not None:
            raise ValueError("weights for covariate shift cannot be combined with clusters; leave weights out")
        if (weights is not None) != self.weighted:
            weighted, unweighted = ("calibration", "new") if self.weighted else ("new", "calibration")
            raise ValueError(
                "weights must be given for both calibration and new rows, or for neither; "
                f"only the {weighted} rows have them, not the {unweighted} rows"
            )

    def check_same_groups(self, groups: Groups, unseen: Unseen) -> None:
        """Raise ValueError if a new row has no group, a rule differs, or a group is unseen and `unseen` is "error"."""
        self._pools.check_same_groups(groups, unseen)

    def pool_assignment(self, groups: Groups, unseen: Unseen) -> PoolAssignment:
        """Return the pool of each row: that of its group, of its edge, or the one for unseen groups."""
        return self._pools.assignment(groups, unseen)

    @cached_property
    def _pools(self) -> GroupedPools:
        columns = (self.scores, self.weights, self.cluster_sizes)
        by_cell = {
            cell: Pool(*(None if each is None else _select(each, rows) for each in columns))  # type: ignore[arg-type]
            for cell, rows in self.groups.cells()
        }
        empty = Pool(*(None if each is None else each[:0] for each in columns))  # type: ignore[arg-type]
        return GroupedPools(self.nonconformity, self.labels, self.rules, by_cell, empty, self.tail_share)

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # without the caches

    def __repr__(self) -> str:
        sizes = ", ".join(f"{label} {n}" for label, n in self.sizes.items())
        clusters = "" if self.clusters is None else f"; clusters: {len(np.unique(self.clusters))}"
        return f"Calibration({self.nonconformity}; rows: {sizes}{'; weighted' * self.weighted}{clusters})"


def _select(values: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    """Return the values of some rows, in order; no copy if these are all rows."""
    return values if len(rows) == len(values) else values.take(rows)


def _distinct_clusters(parts: Sequence[IntArray]) -> IntArray:
    """Return the clusters of the rows of all parts; those of different parts are different clusters."""
    starts = np.cumsum([0, *(part.max(initial=-1) + 1 for part in parts)])
    return np.concatenate([part + start for part, start in zip(parts, starts[:-1], strict=True)])
