"""The tests of an audit: results by row, tests of groups with a joint adjustment, intervals of their coverages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray, IntArray, check_count, is_count
from evencover.diagnostics._cluster_tests import clustered_large_sample_p_value, clustered_p_values
from evencover.diagnostics._coverage_intervals import (
    CalibrationCounts,
    Estimates,
    clopper_pearson_intervals,
    combined_intervals,
    posterior_intervals,
)
from evencover.diagnostics._exact_tests import (
    SIGNIFICANT,
    clopper_pearson_lower,
    clopper_pearson_upper,
    coverage_p_values,
    holm,
    large_sample_p_value,
    two_sided_p_value,
)
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.diagnostics.audit_result import Evidence, GroupAudit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.groups import Groups, Label, rows_by_code
from evencover.guarantees import TailShares
from evencover.interval_unions import IntervalUnion
from evencover.intervals import Intervals
from evencover.metrics import interval_scores
from evencover.quantiles import Level, rows_for_finite_threshold


@dataclass(frozen=True, eq=False)
class CalibrationPools:
    """The pool of calibration scores behind the threshold of each row, and the size of each pool (None: not known).

    With `tail_shares`, there is a threshold for each tail, at its share of 1 − level.
    """

    codes: IntArray
    sizes: tuple[int | None, ...]
    tail_shares: TailShares = None
    clustered: bool = False  # whether sizes are numbers of clusters

    @property
    def known(self) -> bool:
        """Whether any size is known; if so, rows of other pools have no guarantee and are not tested."""
        return any(size is not None for size in self.sizes)

    def sizes_of(self, groups: Groups) -> IntArray | None:
        """Return the calibration rows of each group, if each group has exactly one pool of its own and all are known.

        Groups without rows have size 0.
        """
        pairs = np.unique(np.stack([groups.codes, self.codes]), axis=1)
        sizes = [self.sizes[pool] for pool in pairs[1]]
        one_to_one = all(len(np.unique(codes)) == pairs.shape[1] for codes in pairs)
        if not one_to_one or None in sizes:
            return None
        by_group = np.zeros(len(groups.labels), dtype=np.intp)
        by_group[pairs[0]] = sizes
        return by_group


@dataclass(frozen=True, eq=False)
class RowResults:
    """The result of each row: whether it is covered, the width and score of its interval, its pool."""

    covered: BoolArray
    widths: FloatArray
    scores: FloatArray
    pools: CalibrationPools
    level: Fraction

    @classmethod
    def of(
        cls, y: FloatArray, intervals: Intervals | IntervalUnion, pools: CalibrationPools, level: Fraction
    ) -> "RowResults":
        """Return the results of the intervals for the targets."""
        scores = interval_scores(y, intervals, level) if isinstance(intervals, Intervals) else np.full(len(y), np.nan)
        return cls(intervals.covers(y), intervals.width, scores, pools, level)

    @property
    def rows_needed(self) -> int | None:
        """The calibration rows that finite intervals need, if some are infinite and their pool has fewer; else None.

        One-sided bounds are infinite whatever the number of rows.
        """
        if not np.isinf(self.widths).any():
            return None
        shares = self.pools.tail_shares or (Fraction(1),)
        needed = max(rows_for_finite_threshold(1 - share * (1 - self.level)) for share in shares)
        sizes = [self.pools.sizes[code] for code in np.unique(self.pools.codes)]
        return needed if any(size is None or size < needed for size in sizes) else None

    def audit_groups(self, groups: Groups) -> list[GroupAudit]:
        """Return the audit of each group."""
        rows = dict(rows_by_code(groups.codes, len(groups.labels)))
        no_rows = np.empty(0, dtype=np.intp)
        return [self.audit_rows(label, rows.get(code, no_rows)) for code, label in enumerate(groups.labels)]

    def audit_rows(self, name: Label, rows: IntArray) -> GroupAudit:
        """Return the audit of some rows as one group, not yet adjusted for other tests."""
        n, covered = len(rows), int(np.count_nonzero(self.covered[rows]))
        width, score = (float(each[rows].mean()) if n else np.nan for each in (self.widths, self.scores))
        counts = np.bincount(self.pools.codes[rows], minlength=len(self.pools.sizes))
        return CoverageCount(n, covered, width, score, tuple(counts.tolist())).audit(
            name, self.pools.sizes, self.level, self.pools.tail_shares, clustered=self.pools.clustered
        )


@dataclass(frozen=True)
class CoverageCount:
    """The totals of some rows.

    Parameters
    ----------
    rows, covered : int
        Number of rows, and of rows that are covered.
    width, score : float
        Mean width and mean interval score; NaN without rows.
    by_pool : tuple of int
        Number of rows of each pool of calibration scores.
    """

    rows: int
    covered: int
    width: float
    score: float
    by_pool: tuple[int, ...]

    def audit(
        self,
        name: Label,
        sizes: Sequence[int | None],
        level: Fraction,
        tails: TailShares = None,
        *,
        clustered: bool = False,
    ) -> GroupAudit:
        """Return the audit of these rows as one group, not yet adjusted for other tests.

        The sizes are the numbers of calibration rows, or of clusters, of the pools; None where they are not known.
        """
        p_values, limit_p_value = coverage_p_values, large_sample_p_value
        if clustered:
            p_values, limit_p_value = clustered_p_values, clustered_large_sample_p_value
        n, covered = self.rows, self.covered
        pools = [(m, size) for m, size in zip(self.by_pool, sizes, strict=True) if m]
        known = any(size is not None for size in sizes)
        testable = n and (not known or all(size is not None for _, size in pools))
        under, over = np.nan, np.nan
        if testable:
            under, over = p_values(pools, level, covered, tails)
        share = covered / n if n else np.nan
        low, high = float(clopper_pearson_lower(covered, n)), float(clopper_pearson_upper(covered, n))
        both = float(two_sided_p_value(under, over))
        limit = limit_p_value(pools, level, share, tails) if testable else np.nan
        return GroupAudit(name, n, share, low, high, share, under, over, both, limit, self.width, self.score)


@dataclass(frozen=True)
class JointTests:
    """Tests with a joint Holm adjustment: the groups, the worst region if any, all rows if there are several groups."""

    groups: tuple[GroupAudit, ...]
    overall: GroupAudit
    region: GroupAudit | None

    @classmethod
    def of(cls, groups: Sequence[GroupAudit], overall: GroupAudit, region: GroupAudit | None) -> "JointTests":
        """Return the family with Holm-adjusted p-values."""
        one_group = sum(row.rows > 0 for row in groups) < 2
        tested = holm_adjusted([*groups, *([] if region is None else [region]), *([] if one_group else [overall])])
        n = len(groups)
        alone = next((replace(row, group=overall.group) for row in tested[:n] if row.rows), overall)
        return cls(tested[:n], alone if one_group else tested[-1], None if region is None else tested[n])

    @property
    def joint_p_value(self) -> float:
        """The smallest adjusted p-value of the family."""
        every = [*self.groups, self.overall, *([] if self.region is None else [self.region])]
        return float(np.nanmin([1.0, *(row.adjusted for row in every)]))

    @property
    def agrees(self) -> bool:
        """Whether the tests of the groups and of all rows reject nothing: test rows agree with the guarantee."""
        return not any(row.adjusted < SIGNIFICANT for row in (*self.groups, self.overall))

    def other_rows(self, level: Level, *, own_thresholds: bool) -> list[GroupAudit]:
        """Return the tests that, in addition to the groups, can show uneven coverage.

        The region was selected for its low coverage, so it counts only if it lies below the level. If each group has
        its own threshold, it does not count: coverage is guaranteed in each group, and in no part of it.
        """
        counts = not own_thresholds and self.region is not None and self.region.high < level
        return [self.overall, *([self.region] if counts and self.region else [])]


@dataclass(frozen=True, eq=False)
class CoverageEstimate:
    """The intervals of the groups' coverages, the rows behind them, and whether each group has its own threshold."""

    estimates: Estimates
    evidence: Evidence
    own_thresholds: bool

    @classmethod
    def of(
        cls,
        results: RowResults,
        groups: Groups,
        family: JointTests,
        diagnosis: Diagnosis | None,
        *,
        tied: bool,
        test_rows_only: bool,
    ) -> "CoverageEstimate":
        """Return the intervals from calibration and test rows or, if these disagree, from test rows alone."""
        rows = np.bincount(groups.codes, minlength=len(groups.labels))
        covered = np.bincount(groups.codes[results.covered], minlength=len(groups.labels))
        sizes = results.pools.sizes_of(groups)
        own_thresholds = sizes is not None and len(groups.labels) > 1
        counts = None if diagnosis is None else _calibration_counts(diagnosis, groups, results)
        if test_rows_only or not family.agrees:
            return cls(clopper_pearson_intervals(covered, rows), "test rows", own_thresholds)
        if sizes is not None:
            tails = results.pools.tail_shares
            estimates = posterior_intervals(covered, rows, sizes, results.level, tied=tied, tail_shares=tails)
            return cls(estimates, "calibration and test rows", own_thresholds)
        if counts is not None:
            return cls(combined_intervals(covered, rows, counts), "calibration and test rows", own_thresholds)
        return cls(clopper_pearson_intervals(covered, rows), "test rows", own_thresholds)

    def with_intervals(self, table: Sequence[GroupAudit]) -> tuple[GroupAudit, ...]:
        """Return the groups with these intervals; groups without rows keep theirs."""
        columns = zip(table, *(column.tolist() for column in self.estimates), strict=True)
        return tuple(
            replace(row, low=low, high=high, estimate=estimate) if row.rows else row
            for row, low, high, estimate in columns
        )


def _calibration_counts(diagnosis: Diagnosis, groups: Groups, results: RowResults) -> CalibrationCounts | None:
    """Return the calibration rows of the audited groups; None if the threshold is infinite.

    Raise TypeError if it is no diagnosis, and ValueError if it cannot be that of the intervals: other groups, another
    level, other thresholds.
    """
    if not isinstance(diagnosis, Diagnosis):
        raise TypeError(f"diagnosis must be a Diagnosis, the result of diagnose; got {type(diagnosis).__name__}")
    if results.pools.clustered:
        raise ValueError("diagnosis must be left out: these thresholds come from clusters, which it does not know")
    level, sizes, n = results.level, results.pools.sizes, len(diagnosis.inputs.scores)
    if len(sizes) > 1 or sizes[0] not in (None, n):
        raise ValueError(
            "diagnosis must be that of the one threshold of these intervals; it has "
            f"{n} calibration rows, the thresholds have {', '.join(map(str, sizes))}"
        )
    own, other = tuple(groups.labels), tuple(diagnosis.inputs.groups.labels)
    if own != other:
        raise ValueError(f"diagnosis must have the groups of the audit: {list(own)}; got {list(other)}")
    if diagnosis.level != float(level):
        raise ValueError(f"diagnosis must have the level of the audit, {float(level):g}; got {diagnosis.level:g}")
    marginal = MarginalThreshold(diagnosis.inputs.scores, diagnosis.inputs.groups, level)
    return marginal.counts if np.isfinite(marginal.threshold) else None


def holm_adjusted(rows: Sequence[GroupAudit]) -> tuple[GroupAudit, ...]:
    """Return audits with Holm-adjusted p-values."""
    adjusted, limits = (holm(np.array([getattr(row, name) for row in rows])) for name in ("adjusted", "p_limit"))
    columns = zip(rows, adjusted.tolist(), limits.tolist(), strict=True)
    return tuple(replace(row, adjusted=p, p_limit=limit) for row, p, limit in columns)


def calibration_pool_of_rows(intervals: Intervals | IntervalUnion, groups: Groups, sizes: Any) -> CalibrationPools:
    """Return the pool behind each row's threshold: from the argument, from the intervals, or one of unknown size."""
    guarantee, stored = intervals.guarantee, getattr(intervals, "groups", None)
    tails = None if guarantee is None else guarantee.tail_shares
    if isinstance(sizes, Mapping):
        invalid = [label for label in groups.labels if not is_count(sizes.get(label))]
        if invalid:
            raise ValueError(
                f"calibration_sizes must have a positive whole number for each group; it has none for: {invalid}"
            )
        return CalibrationPools(groups.codes, tuple(int(sizes[label]) for label in groups.labels), tails)
    if sizes is not None:
        check_count(sizes, "calibration_sizes")
        return CalibrationPools(np.zeros(len(intervals), dtype=np.intp), (int(sizes),), tails)
    if guarantee is not None and guarantee.clusters is not None and isinstance(intervals, Intervals):
        labels = guarantee.clusters if stored is None else stored.labels
        if stored is not None or guarantee.kind == "marginal":
            codes = np.zeros(len(intervals), dtype=np.intp) if stored is None else stored.codes
            known = tuple(guarantee.clusters.get(label) for label in labels)
            return CalibrationPools(codes, known, tails, clustered=True)
    if guarantee is not None and guarantee.exact and stored is not None:
        return CalibrationPools(stored.codes, tuple(guarantee.sizes.get(label) for label in stored.labels), tails)
    if guarantee is not None and guarantee.exact and guarantee.kind == "marginal" and isinstance(intervals, Intervals):
        return CalibrationPools(np.zeros(len(intervals), dtype=np.intp), tuple(guarantee.sizes.values()), tails)
    return CalibrationPools(np.zeros(len(intervals), dtype=np.intp), (None,))
