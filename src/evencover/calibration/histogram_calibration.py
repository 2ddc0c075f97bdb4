"""Calibration with histograms of scores instead of the scores: for data of any size, in parts that add up."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from operator import index as whole_number
from typing import Any, ClassVar

import numpy as np

from evencover.calibration.histograms import DEFAULT_BITS, MAX_BITS, ScoreHistogram
from evencover.calibration.pools import Cell, GroupedPools, Seed, Unseen, check_mergeable, groups_or_marginal
from evencover.calibration.sql import ThresholdSQL, UnseenSQL
from evencover.calibration.table_columns import TableColumns
from evencover.groups import Groups, Label, json_label
from evencover.guarantees import Guarantee, Kind
from evencover.inputs.arrays import FloatArray
from evencover.inputs.frames import frame_kind
from evencover.intervals import Intervals, for_requested_level
from evencover.quantiles import Level, Levels, conformal_rank, is_level_sequence, level_fractions
from evencover.rows import Rows
from evencover.scores.evaluation import checked_nonconformity, checked_scores, scores_by_group
from evencover.scores.score import Nonconformity
from evencover.scores.support import support_of


@dataclass(frozen=True, eq=False, repr=False)
class HistogramCalibration:
    """A histogram of the calibration scores of every group, in place of the scores: `Calibration` for data of any size.

    Scores are rounded up to numbers with `bits` binary digits after the leading one, and counted. The threshold of a
    group of n rows is its k-th smallest rounded score, k = ceil((n + 1) level). This is the exact threshold, rounded
    up: at most a factor of 1 + 2**-bits larger, and never smaller. So the guarantee of `Calibration` holds: if
    calibration rows and new rows are exchangeable, an interval covers a new row of the group with probability at least
    the level. `excess` is the share of scores that are rounded to the threshold: no more of the calibration rows lie
    between the exact threshold and the rounded one.

    `merge` adds the counts, so the parts of the data can be calibrated on several machines, in any order, with the same
    result. Numbers below 2**-1022 in absolute value are rounded by at most 2**-1022 × 2**-bits, and numbers above
    (2 − 2**-bits) × 2**1023 to infinity.

    Parameters
    ----------
    nonconformity : score or mapping from label to score
        The score, or one for each group.
    labels, rules : tuples
        The groups, and the rule of each, if there are rules.
    histograms : mapping from pairs of group and edge bits to ScoreHistogram
        The histogram of each group; edge rows have their own (see `Groups.edge`).
    bits : int
        The binary digits after the leading one, 0 to 52.
    """

    nonconformity: Nonconformity
    labels: tuple[Label, ...]
    histograms: Mapping[Cell, ScoreHistogram]
    rules: tuple[str, ...] = field(default=(), kw_only=True)
    bits: int = field(default=DEFAULT_BITS, kw_only=True)
    weighted: ClassVar[bool] = False  # there are no weights for covariate shift

    @property
    def sizes(self) -> dict[Label, int]:
        """Number of calibration rows behind each group's threshold."""
        return self._pools.sizes

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee: marginal for one group, per group for several."""
        return self.guarantee_at(())

    def guarantee_at(self, levels: tuple[Fraction, ...]) -> Guarantee:
        """Return the guarantee at these levels, which says whether their thresholds are exact."""
        kind: Kind = "per group" if len(self.labels) > 1 else "marginal" if self.labels else "none"
        exact = bool(levels) and not any(self._histogram(group).excess(level) for group, level in self._pairs(levels))
        guarantee = Guarantee(kind, self.sizes, exact=exact)
        support = support_of(self.nonconformity)
        return guarantee if support is None else guarantee.assuming(f"all targets are {support}")

    def threshold(self, level: Levels) -> FloatArray:
        """Return the threshold of each group, rounded up or exact. Shape (n_groups,), or (n_groups, L) for L levels.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.
        """
        table = self._pools.threshold_table(level_fractions(level))
        return table if is_level_sequence(level) else table[:, 0]

    def threshold_table(self, levels: tuple[Fraction, ...], unseen: Unseen) -> FloatArray:
        """Return the threshold of each group, and in the last row that of unseen groups. Shape (n_groups + 1, L)."""
        if unseen not in ("error", "marginal", "inf"):
            raise ValueError(f"unseen must be 'error', 'marginal' or 'inf'; got {unseen!r}")
        others = np.full((1, len(levels)), np.inf)
        if unseen == "marginal":
            others = self._pools.pool(None).thresholds(levels)
        return np.concatenate([self._pools.threshold_table(levels), others])

    def excess(self, level: Levels) -> FloatArray:
        """Return the share of each group's scores that are rounded to its threshold; 0 if the threshold is exact.

        It bounds how much the coverage exceeds that of the exact threshold, among the calibration rows. Shape
        (n_groups,), or (n_groups, L) for L levels.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.
        """
        levels = level_fractions(level)
        shares = [self._histogram(group).excess(each) for group, each in self._pairs(levels)]
        table = np.array(shares).reshape(len(self.labels), len(levels))
        return table if is_level_sequence(level) else table[:, 0]

    def interval(
        self, prediction: Any, *, groups: Any = None, level: Levels = 0.9, unseen: Unseen = "error"
    ) -> Intervals:
        """Return the prediction intervals of new rows; see `Calibration.interval`.

        Parameters
        ----------
        prediction : Prediction of m rows, or array-like of shape (m,)
            The model's predictions for the new rows.
        groups : array-like of shape (m,) or Groups, optional
            The group of each new row; required if the calibration has groups.
        level : float or sequence of L floats
            Nominal coverage.
        unseen : {"error", "marginal", "inf"}
            For a row whose group was not in the calibration.
        """
        levels, rows = level_fractions(level), Rows(prediction)
        intervals = self.intervals_at(levels, rows, groups_or_marginal(groups, len(rows), self.labels), unseen)
        return for_requested_level(intervals, level, rows.prediction.center, frame_kind(prediction), self.guarantee)

    def intervals_at(self, levels: tuple[Fraction, ...], rows: Rows, groups: Groups, unseen: Unseen) -> Intervals:
        """Return the intervals of m rows with given groups at each of L levels. Bounds of shape (m, L)."""
        return self._pools.intervals(levels, rows, groups, unseen, self.guarantee_at(levels))

    def p_values(
        self, y: Any, prediction: Any, *, groups: Any = None, unseen: Unseen = "error", seed: Seed = None
    ) -> FloatArray:
        """Return the p-value of each target among the rounded scores; see `Calibration.p_values`. Shape (m,).

        It is at least the exact p-value, and exceeds it by at most the share of scores that are rounded to the same
        number. With a seed, it is smoothed: the rounded scores are tied more often than the scores.

        Parameters
        ----------
        y : array-like of shape (m,)
            Targets of the new rows, observed or hypothetical.
        prediction, groups, unseen, seed
            As in `Calibration.p_values`.
        """
        rows = Rows(prediction, y=y)
        return self.p_values_of(rows, groups_or_marginal(groups, len(rows), self.labels), unseen, seed)

    def p_values_of(self, rows: Rows, groups: Groups, unseen: Unseen, seed: Seed) -> FloatArray:
        """Return the p-values of m rows with targets and given groups. Shape (m,)."""
        return self._pools.p_values(rows, groups, unseen, seed)

    def to_sql(
        self, level: Level = 0.9, *, columns: TableColumns, dialect: str, unseen: UnseenSQL = "null"
    ) -> ThresholdSQL:
        """Return the thresholds as SQL; see `Calibration.to_sql`.

        Parameters
        ----------
        level : float
            Nominal coverage.
        columns : TableColumns
            The columns of new rows.
        dialect, unseen
            As in `Calibration.to_sql`.
        """
        return self._pools.to_sql(level, columns, dialect, unseen)

    def merge(self, *others: "HistogramCalibration") -> "HistogramCalibration":
        """Return one calibration of the rows of several, ``a.merge(b, c)``: the sums of their counts.

        All must have the same score, labels, rules and bits. Thresholds that are known exactly are forgotten.
        """
        parts = (self, *others)
        check_mergeable(parts, ("nonconformity", "labels", "rules", "bits"))
        cells = sorted({cell for part in parts for cell in part.histograms})
        found = {cell: [part.histograms[cell] for part in parts if cell in part.histograms] for cell in cells}
        histograms = {cell: replace(ScoreHistogram.concatenate(each), exact={}) for cell, each in found.items()}
        return self if not others else replace(self, histograms=histograms)

    def with_exact(self, scores: Mapping[Label, Mapping[int, float]]) -> "HistogramCalibration":
        """Return the same calibration with exact order statistics: scores by group and rank."""
        histograms = dict(self.histograms)
        for group, label in enumerate(self.labels):
            if (group, 0) in histograms:
                known = {**histograms[group, 0].exact, **scores.get(label, {})}
                histograms[group, 0] = replace(histograms[group, 0], exact=known)
        return replace(self, histograms=histograms)

    def ranks(self, level: Fraction) -> dict[Label, int]:
        """Return the conformal rank of each group."""
        return {label: conformal_rank(n, level) for label, n in self.sizes.items()}

    def state(self) -> dict[str, Any]:
        """Return all but the score as arrays and JSON values, for a file."""
        cells = sorted(self.histograms)
        parts = [self.histograms[cell] for cell in cells]
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
    def from_state(cls, state: Mapping[str, Any], nonconformity: Nonconformity) -> "HistogramCalibration":
        """Return the calibration from what `state` returned, and the score."""
        bits, ends = checked_bits(state["bits"]), np.cumsum(state["lengths"])[:-1]
        exact: dict[int, dict[int, float]] = {}
        for (row, rank), score in zip(state["exact_ranks"].tolist(), state["exact_scores"].tolist(), strict=True):
            exact.setdefault(row, {})[rank] = score
        columns = zip(np.split(state["indices"], ends), np.split(state["counts"], ends), strict=True)
        parts = [ScoreHistogram(bits, *column, exact.get(row, {})) for row, column in enumerate(columns)]
        cells = [(group, edge) for group, edge in state["cells"].tolist()]
        histograms = dict(zip(cells, parts, strict=True)) if cells else {}
        return cls(nonconformity, tuple(state["labels"]), histograms, rules=tuple(state["rules"]), bits=bits)

    def check_same_groups(self, groups: Groups, unseen: Unseen) -> None:
        """Raise ValueError if a new row has no group, a rule differs, or a group is unseen and `unseen` is "error"."""
        self._pools.check_same_groups(groups, unseen)

    def _pairs(self, levels: tuple[Fraction, ...]) -> list[tuple[int, Fraction]]:
        return [(group, level) for group in range(len(self.labels)) for level in levels]

    def _histogram(self, group: int) -> ScoreHistogram:
        """Return the histogram behind a group's threshold."""
        return self._pools.pool((group, 0))  # type: ignore[return-value]

    @cached_property
    def _pools(self) -> GroupedPools:
        empty = ScoreHistogram.empty(self.bits)
        return GroupedPools(self.nonconformity, self.labels, self.rules, self.histograms, empty)

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # without the caches

    def __repr__(self) -> str:
        sizes = ", ".join(f"{label} {n}" for label, n in self.sizes.items())
        return f"HistogramCalibration({self.nonconformity}; {self.bits} bits; rows: {sizes})"


def calibrate_histograms(
    rows: Rows, nonconformity: Nonconformity | None, groups: Groups, *, bits: int = DEFAULT_BITS
) -> HistogramCalibration:
    """Calibrate on `Rows` with targets, whose groups are given, and keep only histograms of their scores."""
    nonconformity, bits = checked_nonconformity(nonconformity, groups.labels), checked_bits(bits)
    scores = checked_scores(scores_by_group(nonconformity, rows, groups.codes, groups.labels), len(rows))
    histograms = {cell: ScoreHistogram.of(scores[members], bits) for cell, members in groups.cells()}
    return HistogramCalibration(nonconformity, groups.labels, histograms, rules=groups.rules, bits=bits)


def checked_bits(bits: Any) -> int:
    """Return the number of bits. Raise ValueError unless it is a whole number from 0 to 52."""
    try:
        number = whole_number(bits)
    except TypeError:
        number = -1
    if isinstance(bits, bool) or not 0 <= number <= MAX_BITS:
        raise ValueError(f"bits must be a whole number from 0 to {MAX_BITS}; got {bits!r}")
    return number
