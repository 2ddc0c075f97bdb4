"""Calibration: scores of each group, which give thresholds, intervals and p-values at any level."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from math import floor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from evencover.calibration import calibration_files
from evencover.calibration.device_scores import DeviceAssignment, DeviceScores
from evencover.calibration.sql import ThresholdSQL, UnseenSQL, threshold_sql
from evencover.calibration.stored_scores import CountedScores, PoolAssignment, RowScores, from_state
from evencover.calibration.stored_scores import Unseen as Unseen
from evencover.calibration.table_columns import TableColumns
from evencover.display.lines import Lines, joined_lines
from evencover.display.text import number_text, text_table
from evencover.groups import MARGINAL_LABELS, Groups, Label, checked_groups, cluster_codes, first_few
from evencover.guarantees import CLUSTERED, EXCHANGEABLE, LEARNED_FROM_CLUSTERS, SHIFTED, Guarantee, Kind
from evencover.inputs.arrays import FloatArray, IntArray, checked_nonnegative, is_on_device, on_host
from evencover.inputs.device_arrays import common_namespace, namespace
from evencover.inputs.frames import check_same_index, frame_kind
from evencover.intervals import Intervals, for_requested_level, stack_levels
from evencover.quantiles import Level, Levels, is_level_sequence, level_fraction, level_fractions
from evencover.rows import Rows
from evencover.scores.evaluation import (
    check_formulas,
    checked_nonconformity,
    checked_scores,
    intervals_by_group,
    scores_by_group,
)
from evencover.scores.one_sided import side_of
from evencover.scores.score import Nonconformity
from evencover.scores.support import support_of, warn_of_targets_outside

Seed: TypeAlias = int | np.random.Generator | None
StoredScores: TypeAlias = RowScores | CountedScores | DeviceScores  # with the same attributes and methods

_MAX_PRINTED_GROUPS = 50


def calibrate(
    y: Any,
    prediction: Any,
    *,
    nonconformity: Nonconformity | None = None,
    groups: Any = None,
    weights: Any = None,
    clusters: Any = None,
    bits: int | None = None,
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
    bits : int, optional
        Keep only a histogram of each group's scores, rounded up to so many binary digits after the leading one; see
        `Calibration`.

    Examples
    --------
    >>> calibration = calibrate([1.0, 2.0, 4.0, 8.0], [0.0, 0.0, 0.0, 0.0])
    >>> calibration.threshold(0.5)
    array([4.])
    """
    check_same_index({"prediction": prediction, "y": y, "groups": groups, "weights": weights, "clusters": clusters})
    rows = Rows(prediction, y=y, weights=weights)
    if clusters is not None:
        rows = replace(rows, clusters=cluster_codes(clusters, len(rows), matched="the prediction", min_clusters=1))
    return calibrate_rows(rows, nonconformity, groups_or_marginal(groups, rows), bits=bits)


def calibrate_rows(
    rows: Rows, nonconformity: Nonconformity | None, groups: Groups, *, bits: int | None = None
) -> "Calibration":
    """Calibrate on `Rows` with targets, whose groups are given; with bits, on a histogram of their scores."""
    if rows.prediction.scale is not None:
        rows.prediction.scale.warn_of_targets_outside(rows.required_target(by="a score"))
    nonconformity = checked_nonconformity(nonconformity, groups.labels)
    calibration = scored_rows(rows, nonconformity, groups, bits=bits)
    warn_of_targets_outside(nonconformity, rows.required_target(by="a score"), groups)
    return calibration


def scored_rows(rows: Rows, nonconformity: Nonconformity, groups: Groups, *, bits: int | None = None) -> "Calibration":
    """Return the calibration with the scores of rows, without warnings of their targets."""
    if is_on_device(rows.prediction.center):
        check_formulas(nonconformity)
        common_namespace({"the prediction": rows.prediction.center, "the groups": groups.codes})
    scores = checked_scores(scores_by_group(nonconformity, rows, groups.codes, groups.labels), len(rows))
    if is_on_device(scores):
        given = {"weights": rows.weights, "clusters": rows.clusters, "bits": bits}
        if names := [name for name, value in given.items() if value is not None]:
            raise ValueError(f"{', '.join(names)}: not possible for arrays on a device; use arrays of numpy")
        return Calibration(nonconformity, DeviceScores(scores, groups))
    transformed = rows.prediction.scale is not None
    if bits is None:
        stored = RowScores(scores, groups, rows.weights, rows.clusters)
        return Calibration(nonconformity, stored, transformed=transformed)
    if rows.weights is not None or rows.clusters is not None:
        raise ValueError("bits must be None for rows with weights or clusters: histograms have neither")
    return Calibration(nonconformity, CountedScores.of(scores, groups, bits), transformed=transformed)


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

    Scores can be counted in histograms instead (`bits`), for data of any size and in parts that add up: thresholds and
    p-values are then those of the scores rounded up, so the guarantee holds. `excess` is the share of scores that are
    rounded to a threshold. No more of the calibration rows lie between the exact threshold and the rounded one.

    Parameters
    ----------
    nonconformity : score or mapping from label to score
        The score, or one for each group.
    stored : RowScores, CountedScores or DeviceScores
        The scores of the calibration rows and their groups; edge rows are calibrated separately (see `Groups.edge`).
    tail_share : Fraction
        The share of 1 − level of this tail, if the scores are those of one tail of `TwoTails`; for warnings only.
    columns : TableColumns, optional
        The columns of a table that hold targets, predictions and groups, if the rows came from a table.
    levels : tuple of float
        The levels whose thresholds were found exactly, if scores were counted; the first is the default of `to_sql`.
    transformed : bool
        Whether scores are those of transformed targets, such as their log. New predictions must then be of the model,
        which knows the transform.

    References
    ----------
    Lee, Barber, Willett (2023), Distribution-free inference with hierarchical data.
    """

    nonconformity: Nonconformity
    stored: StoredScores
    tail_share: Fraction = Fraction(1)
    columns: TableColumns | None = None
    levels: tuple[float, ...] = ()
    transformed: bool = False

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the groups."""
        return self.stored.labels

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule of each group."""
        return self.stored.rules

    @property
    def bits(self) -> int | None:
        """The binary digits that scores are rounded up to; None if they are not rounded."""
        return self.stored.bits

    @property
    def scores(self) -> FloatArray:
        """The scores of the calibration rows, in the order of the rows; histograms have none. Shape (n,)."""
        return self._rows.scores  # type: ignore[no-any-return]

    @property
    def groups(self) -> Groups:
        """The groups of the calibration rows; histograms do not know them."""
        return self._rows.groups  # type: ignore[no-any-return]

    @property
    def _rows(self) -> Any:
        if self.bits is not None:
            raise AttributeError("a calibration of histograms does not keep the scores of its rows")
        return self.stored

    @property
    def on_device(self) -> bool:
        """Whether the scores are arrays of another library than numpy; new rows must then be, too."""
        return isinstance(self.stored, DeviceScores)

    @property
    def weighted(self) -> bool:
        """Whether the calibration rows have weights for covariate shift."""
        return self.stored.weights is not None

    @property
    def clusters(self) -> IntArray | None:
        """The cluster of each calibration row, as a number; None without clusters. Shape (n,)."""
        return self.stored.clusters

    @property
    def clustered(self) -> bool:
        """Whether there are clusters of several rows, so that rows weigh less than a new row."""
        return self.clusters is not None and self._rows.cluster_sizes is not None

    @cached_property
    def sizes(self) -> dict[Label, int]:
        """Number of calibration rows behind each group's threshold."""
        return dict(zip(self.labels, self.stored.sizes, strict=True))

    @cached_property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee: marginal for one group, per group for several.

        With clusters it is approximate for groups whose edges were learned from the calibration rows. Of histograms, it
        is that at `levels`.
        """
        return self.guarantee_at(level_fractions(self.levels) if self.levels else ())

    def guarantee_at(self, levels: tuple[Fraction, ...]) -> Guarantee:
        """Return the guarantee at these levels, which says whether their thresholds are exact."""
        kind: Kind = "per group" if len(self.labels) > 1 else "marginal" if self.labels else "none"
        if self.clustered:
            pools = zip(self.labels, self._rows.group_pools(), strict=True)
            n_units = {label: floor(pool.n_units) for label, pool in pools}
            guarantee = Guarantee(kind, self.sizes, assumption=CLUSTERED, clusters=n_units)
            if self.groups.n_edge_bits:
                guarantee = replace(guarantee, kind="approximate").assuming(LEARNED_FROM_CLUSTERS)
        else:
            assumption = SHIFTED if self.weighted else EXCHANGEABLE
            guarantee = Guarantee(kind, self.sizes, assumption=assumption, exact=self._is_exact(levels))
        support = support_of(self.nonconformity)
        if support is None:
            return guarantee
        return replace(guarantee, replaces_empty=True).assuming(f"all targets are {support}")

    def _is_exact(self, levels: tuple[Fraction, ...]) -> bool:
        """Return whether the number of covered rows has the BetaBinomial distribution at these levels."""
        if self.bits is None:
            return not self.weighted
        return bool(levels) and not self.stored.excess(levels).any()

    def threshold(self, level: Levels, *, test_weight: float | None = None) -> FloatArray:
        """Return the threshold of each group. Shape (n_groups,), or (n_groups, L) for L levels.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.
        test_weight : float, optional
            Weight of the new row, if the calibration is weighted.
        """
        levels, n_groups = level_fractions(level), len(self.labels)
        weights = None if test_weight is None else checked_nonnegative(np.full(n_groups, test_weight), "weights")
        self._check_weights(weights)
        table = self._threshold_table(levels, weights)
        return table if is_level_sequence(level) else table[:, 0]

    def _threshold_table(self, levels: tuple[Fraction, ...], weights: FloatArray | None = None) -> FloatArray:
        """Return the threshold of each group at each of L levels. Shape (n_groups, L)."""
        by_level = self.assignment(self.stored.one_row_per_group(), "error").thresholds(levels, weights)
        if not self.on_device:
            by_level = [np.broadcast_to(column, len(self.labels)) for column in by_level]
        return namespace(by_level[0]).stack(by_level, axis=-1)  # type: ignore[no-any-return]

    def thresholds_with_unseen(self, levels: tuple[Fraction, ...], unseen: Unseen) -> FloatArray:
        """Return the threshold of each group, and in the last row that of unseen groups. Shape (n_groups + 1, L)."""
        _check_unseen(unseen)
        others = np.full((1, len(levels)), np.inf)
        if unseen == "marginal":
            self._check_one_score()
            others = self.stored.marginal_thresholds(levels)
        return np.concatenate([self._threshold_table(levels), others])

    def excess(self, level: Levels) -> FloatArray:
        """Return the share of each group's scores that are rounded to its threshold; 0 if the threshold is exact.

        It bounds how much the coverage exceeds that of the exact threshold, among the calibration rows. Shape
        (n_groups,), or (n_groups, L) for L levels.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.
        """
        table = self.stored.excess(level_fractions(level))
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
        check_same_index({"prediction": prediction, "groups": groups, "weights": weights})
        rows = Rows(prediction, weights=weights)
        intervals = self.intervals_at(levels, rows, groups_or_marginal(groups, rows, self.labels), unseen)
        center, frame = rows.prediction.center, frame_kind(prediction)
        return for_requested_level(intervals, level, center, frame, self.guarantee)

    def intervals_at(self, levels: tuple[Fraction, ...], rows: Rows, groups: Groups, unseen: Unseen) -> Intervals:
        """Return the intervals of m rows with given groups at each of L levels. Bounds of shape (m, L)."""
        self._check_scale_and_library(rows)
        self._check_weights(rows.weights)
        self.check_same_groups(groups, unseen)
        codes, assignment = groups.codes_among(self.labels), self.assignment(groups, unseen)
        by_level = [
            intervals_by_group(self.nonconformity, self.labels, threshold, rows.prediction, codes)
            for threshold in assignment.thresholds(levels, rows.weights)
        ]
        guarantee = self.guarantee if self.bits is None else self.guarantee_at(levels)
        without, tied = groups.labels_not_in(self.labels), assignment.tied_groups(levels)
        guarantee = replace(guarantee, without=without, tied=tied) if without or tied else guarantee
        return stack_levels(by_level, groups=groups, guarantee=guarantee, side=side_of(self.nonconformity))

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
        if p > 1 − level. With weights or clusters, the weights of rows are summed in place of their numbers. Among
        rounded scores, it is at least the exact p-value, and exceeds it by at most the share of scores that are rounded
        to the same number.

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
        check_same_index({"prediction": prediction, "y": y, "groups": groups, "weights": weights})
        rows = Rows(prediction, y=y, weights=weights)
        return self.p_values_of(rows, groups_or_marginal(groups, rows, self.labels), unseen, seed)

    def p_values_of(self, rows: Rows, groups: Groups, unseen: Unseen, seed: Seed) -> FloatArray:
        """Return the p-values of m rows with targets and given groups. Shape (m,)."""
        self._check_scale_and_library(rows)
        self._check_weights(rows.weights)
        self.check_same_groups(groups, unseen)
        scores = scores_by_group(self.nonconformity, rows, groups.codes_among(self.labels), self.labels)
        tie_shares = None if seed is None else np.random.default_rng(seed).random(len(rows))
        return self.assignment(groups, unseen).p_values(scores, tie_shares, rows.weights)

    def to_sql(
        self,
        level: Level | None = None,
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
        level : float, optional
            Nominal coverage; by default the first level of the calibration, or 0.9.
        dialect : {"bigquery", "duckdb", "postgres", "snowflake", "spark", "sqlite"}
            The dialect of the SQL.
        center, spread, lower, upper, group : str, optional
            Names of the columns of new rows with the predictions and the groups; by default those of the calibration.
        unseen : {"null", "inf", "marginal"}
            The threshold of other groups: NULL, infinity, or that of all calibration rows (without a guarantee).
        """
        if self.weighted:
            raise ValueError("SQL has no weights for covariate shift; this calibration is weighted")
        if self.transformed:
            raise ValueError("SQL has no transform of the target; the scores are those of transformed targets")
        if self.stored.has_edge_rows:
            raise ValueError(
                "SQL needs groups that are values of a column; these have edges that were learned from the calibration "
                "rows, where some rows count separately. Give the edges, such as BySpread(edges=[...])"
            )
        given = (center, spread, lower, upper, group)
        known = self.columns is not None and given == (None,) * len(given)
        level = (*self.levels, 0.9)[0] if level is None else level
        levels = (level_fraction(level),)
        return threshold_sql(
            self.nonconformity,
            self.labels,
            tuple(self.sizes.values()),
            on_host(self._threshold_table(levels)[:, 0]),
            level=level,
            columns=self.columns if known else TableColumns(None, *given),  # type: ignore[arg-type]
            dialect=dialect,
            unseen=unseen,
            marginal=float(self.stored.marginal_thresholds(levels)[0, 0]) if unseen == "marginal" else None,
        )

    def merge(self, *others: "Calibration") -> "Calibration":
        """Return one calibration of the rows of several, ``a.merge(b, c)``, as if all rows were calibrated at once.

        All calibrations must have the same score, labels and rules, edges included. So learn the groups once, then
        calibrate each part of the rows with them. All rows of a cluster must be in the same part: clusters of different
        parts count as different clusters. Only groups that are values of a table's column may differ. Thresholds of
        histograms are rounded up, until the data is calibrated again as a whole.
        """
        parts = (self, *others)
        check_mergeable(parts, ("columns", "levels", "bits"))
        if self.columns is not None:
            parts = _with_all_labels(parts)
        check_mergeable(parts, ("nonconformity", "labels", "rules", "weighted", "on_device"))
        with_rows = tuple(part for part in parts if any(part.stored.sizes))
        check_mergeable(with_rows or parts, ("transformed",))
        first, *rest = (part.stored for part in parts)
        transformed = any(part.transformed for part in parts)
        return replace(self, stored=first.joined(rest), transformed=transformed)  # type: ignore[arg-type]

    def with_scores(self, scores: FloatArray) -> "Calibration":
        """Return the same rows and groups with other scores. Shape (n,)."""
        return replace(self, stored=replace(self._rows, scores=scores))

    def state(self) -> dict[str, Any]:
        """Return all but the score as arrays and JSON values, for a file."""
        table = {} if self.columns is None else {"columns": asdict(self.columns), "levels": list(self.levels)}
        return {**self.stored.state(), **table, **({"transformed": True} if self.transformed else {})}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], nonconformity: Nonconformity) -> "Calibration":
        """Return the calibration from what `state` returned, and the score."""
        stored = from_state(state)
        nonconformity = checked_nonconformity(nonconformity, stored.labels)
        if "columns" not in state:
            return cls(nonconformity, stored, transformed=bool(state.get("transformed", False)))
        levels = tuple(float(each) for each in level_fractions(state["levels"]))
        return cls(nonconformity, stored, columns=TableColumns(**state["columns"]), levels=levels)

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

    def _check_scale_and_library(self, rows: Rows) -> None:
        """Raise an error unless calibration rows and new rows are of one library, device and scale of the target."""
        center = rows.prediction.center
        if self.transformed and rows.prediction.scale is None and len(rows):
            raise ValueError(
                "prediction must be that of the model, such as model.rows(X).prediction: the scores are those of "
                "transformed targets; got a prediction without the transform"
            )
        if self.on_device or is_on_device(center):
            scores = self._rows.scores if self.bits is None else np.empty(0)
            common_namespace({"the scores of the calibration": scores, "the prediction": center})

    def _check_weights(self, weights: FloatArray | None) -> None:
        """Raise ValueError unless calibration rows and new rows both have weights, or neither."""
        if self.clusters is not None and weights is not None:
            raise ValueError("weights for covariate shift cannot be combined with clusters; leave weights out")
        if self.bits is not None and weights is not None:
            raise ValueError("histograms have no weights for covariate shift; leave weights out")
        if (weights is not None) != self.weighted:
            weighted, unweighted = ("calibration", "new") if self.weighted else ("new", "calibration")
            raise ValueError(
                "weights must be given for both calibration and new rows, or for neither; "
                f"only the {weighted} rows have them, not the {unweighted} rows"
            )

    def check_same_groups(self, groups: Groups, unseen: Unseen) -> None:
        """Raise ValueError if a new row has no group, a rule differs, or a group is unseen and `unseen` is "error"."""
        _check_unseen(unseen)
        if not self.on_device and len(groups) and groups.codes.min() < 0:
            raise ValueError(f"every new row must have a group; rows without one: {np.count_nonzero(groups.codes < 0)}")
        groups.check_rules_among(self.labels, self.rules)
        if unseen == "error":
            self.check_seen(groups.labels_not_in(self.labels))

    def assignment(self, groups: Groups, unseen: Unseen) -> PoolAssignment | DeviceAssignment:
        """Return what new rows are compared with: the scores of their group, of their edge, or of all rows."""
        if unseen == "marginal" and groups.labels_not_in(self.labels):
            self._check_one_score()
        return self.stored.assignment(groups, unseen, self.tail_share)

    def _check_one_score(self) -> None:
        if isinstance(self.nonconformity, Mapping):
            raise ValueError("unseen='marginal' needs one score for all groups; this calibration has one for each")

    def check_seen(self, unseen_labels: tuple[Label, ...]) -> None:
        """Raise ValueError if there are labels of new rows that are not among those of the calibration."""
        if not unseen_labels:
            return
        if self.labels == MARGINAL_LABELS:
            raise ValueError("groups were given, but the calibration has none; use calibrate(..., groups=...)")
        raise ValueError(
            f"groups must be among those of the calibration, {first_few(self.labels)}; got {first_few(unseen_labels)}. "
            "To predict for unseen groups, use unseen='marginal' or unseen='inf'"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # without the caches

    def __repr__(self) -> str:
        facts = [
            "" if self.bits is None else f"{self.bits} bits",
            f"rows: {', '.join(f'{label} {n}' for label, n in self.sizes.items())}",
            "weighted" * self.weighted,
            "" if self.clusters is None else f"clusters: {len(np.unique(self.clusters))}",
            f"levels: {', '.join(f'{level:g}' for level in self.levels)}" if self.levels else "",
        ]
        return f"Calibration({'; '.join([str(self.nonconformity), *filter(None, facts)])})"

    def __str__(self) -> str:
        return self._table_text(self.levels[0]) if self.levels else repr(self)

    def _table_text(self, level: float) -> Lines:
        """Return the thresholds at a level as a table."""
        columns = zip(self.sizes.items(), self.threshold(level).tolist(), self.excess(level).tolist(), strict=True)
        rows = [
            (
                str(label),
                f"{n}",
                number_text(threshold),
                "exact" if not share else f"rounded up, covers at most {100 * share:.2g} % more",
            )
            for (label, n), threshold, share in islice(columns, _MAX_PRINTED_GROUPS)
        ]
        table = text_table(("group", "rows", "threshold", "kind of threshold"), rows)
        n_more = len(self.labels) - len(rows)
        more = [f"  and {n_more} more groups"] if n_more else []
        return joined_lines([f"Thresholds at level {level:g}", table, *more, str(self.guarantee)])


def groups_or_marginal(groups: Any, rows: Rows, labels: tuple[Label, ...] = MARGINAL_LABELS) -> Groups:
    """Return the user's groups as `Groups`; for None, put all rows into one group if the labels allow it."""
    center = rows.prediction.center
    if groups is None:
        if labels != MARGINAL_LABELS:
            raise ValueError(f"groups must be given: the calibration has the groups {first_few(labels)}")
        return Groups.one(center)
    if is_on_device(center):
        groups = groups if isinstance(groups, Groups) else Groups.of_codes(groups)
        common_namespace({"the prediction": center, "groups": groups.codes})
    return checked_groups(groups, len(rows), "the prediction")


def check_mergeable(parts: tuple[Any, ...], names: tuple[str, ...]) -> None:
    """Raise ValueError unless calibrations have the same score, groups and so on, by the names of their attributes."""
    first, *others = parts
    for other in others:
        for name in names:
            expected, found = getattr(first, name), getattr(other, name)
            if expected != found:
                raise ValueError(f"merge needs calibrations with the same {name}; got {expected} and {found}")


def _with_all_labels(parts: tuple[Calibration, ...]) -> tuple[Calibration, ...]:
    """Return calibrations of tables with the groups of all of them. Raise ValueError if labels are of several types."""
    found = {label for part in parts for label in part.labels}
    kinds = sorted({type(label).__name__ for label in found})
    if len(kinds) > 1:
        raise ValueError(f"merge needs calibrations with groups of one type; got {' and '.join(kinds)}")
    labels: tuple[Label, ...] = tuple(sorted(found))  # type: ignore[type-var]
    return tuple(replace(part, stored=part.stored.with_labels(labels)) for part in parts)  # type: ignore[union-attr]


def _check_unseen(unseen: Any) -> None:
    if unseen not in ("error", "marginal", "inf"):
        raise ValueError(f"unseen must be 'error', 'marginal' or 'inf'; got {unseen!r}")
