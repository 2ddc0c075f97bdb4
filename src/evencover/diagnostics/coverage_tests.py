"""The tests of an audit: results by row, tests of groups with a joint adjustment, intervals of their coverages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from evencover.diagnostics.audit_result import Evidence, GroupAudit
from evencover.diagnostics.cluster_tests import clustered_large_sample_p_value, clustered_p_values
from evencover.diagnostics.coverage_intervals import (
    CalibrationCounts,
    CoverageEstimates,
    binomial_coverage,
    own_threshold_coverage,
    shared_threshold_coverage,
)
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.exact_tests import (
    CONTRADICTION,
    SIGNIFICANT,
    clopper_pearson_lower,
    clopper_pearson_upper,
    coverage_p_values,
    holm,
    large_sample_p_value,
    two_sided_p_value,
)
from evencover.diagnostics.interval_input import strictly_inside
from evencover.diagnostics.interval_quality import infinite_intervals
from evencover.diagnostics.verdicts import verdict
from evencover.groups import Groups, Label, rows_by_code
from evencover.guarantees import TailShares
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, check_count, is_count
from evencover.intervals import Intervals, IntervalUnion
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
    """The result of each row: whether it is covered, or strictly inside; width and score of its interval; its pool."""

    covered: BoolArray
    inside: BoolArray
    infinite: BoolArray
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
        infinite = infinite_intervals(intervals)
        inside = strictly_inside(y, intervals) & ~infinite  # an infinite interval cannot be too wide by choice
        return cls(intervals.covers(y), inside, infinite, intervals.width, scores, pools, level)

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
        n = len(rows)
        covered, inside, infinite = (
            int(np.count_nonzero(each[rows])) for each in (self.covered, self.inside, self.infinite)
        )
        width, score = (float(each[rows].mean()) if n else np.nan for each in (self.widths, self.scores))
        counts = np.bincount(self.pools.codes[rows], minlength=len(self.pools.sizes))
        return CoverageCount(n, covered, inside, infinite, width, score, tuple(counts.tolist())).audit(
            name, self.pools.sizes, self.level, self.pools.tail_shares, clustered=self.pools.clustered
        )


@dataclass(frozen=True)
class CoverageCount:
    """The totals of some rows.

    Parameters
    ----------
    rows, covered, inside, infinite : int
        Number of rows, of covered rows, of targets strictly inside their intervals, and of infinite intervals.
    width, score : float
        Mean width and mean interval score; NaN without rows.
    by_pool : tuple of int
        Number of rows of each pool of calibration scores.
    """

    rows: int
    covered: int
    inside: int
    infinite: int
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
        Targets on a bound count as covered in the test for under-coverage, and as not covered in the test for
        over-coverage.
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
            over = over if self.inside == covered else p_values(pools, level, self.inside, tails)[1]
        share = covered / n if n else np.nan
        known_alone = binomial_coverage(np.array([covered]), np.array([n]), level)
        return GroupAudit(
            group=name,
            rows=n,
            coverage=share,
            low=float(clopper_pearson_lower(covered, n)),
            high=float(clopper_pearson_upper(covered, n)),
            estimate=share,
            p_under=under,
            p_over=over,
            adjusted=float(two_sided_p_value(under, over)),
            p_limit=limit_p_value(pools, level, share, tails) if testable else np.nan,
            width=self.width,
            score=self.score,
            within=np.inf if self.infinite else float(known_alone.all_within),
            inside=self.inside / n if n else np.nan,
            inside_low=float(clopper_pearson_lower(self.inside, n)),
        )


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
    def smallest_p_value(self) -> float:
        """The smallest adjusted p-value of the groups and of all rows: small if test rows contradict the guarantee."""
        return float(np.nanmin([1.0, *(row.adjusted for row in (*self.groups, self.overall))]))

    def counted_region(self, level: Level, *, own_thresholds: bool) -> GroupAudit | None:
        """Return the region if it can show, in addition to the groups, that coverage is uneven.

        The region was selected for its low coverage, so it counts only if it lies below the level. If each group has
        its own threshold, it does not count: coverage is guaranteed in each group, and in no part of it.
        """
        counts = not own_thresholds and self.region is not None and self.region.high < level
        return self.region if counts else None


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """The test rows of G groups, and what is known of the calibration rows behind their thresholds.

    Parameters
    ----------
    rows, covered : ndarray of shape (..., G)
        Number of test rows, and of covered ones.
    level : Fraction
        Nominal coverage.
    sizes : ndarray of shape (G,), optional
        Number of calibration scores behind each threshold, if each group has its own.
    calibration : CalibrationCounts, optional
        The calibration rows of each group, if one threshold serves all groups.
    raised : bool
        Whether tied scores, or points that replace empty intervals, raise the coverage.
    tail_shares : tuple of two Fraction, optional
        Shares of 1 − level, if each tail has its own threshold.
    clustered : bool
        Whether the thresholds come from clusters. Then calibration rows do not count: the law is not that of rows.
    split_at_random : bool
        Whether the test rows were split off at random, so that they cannot differ from the calibration rows.
    """

    rows: IntArray
    covered: IntArray
    level: Level
    sizes: IntArray | None = None
    calibration: CalibrationCounts | None = None
    raised: bool = False
    tail_shares: TailShares = None
    clustered: bool = False
    split_at_random: bool = False

    @classmethod
    def of(cls, results: RowResults, groups: Groups, diagnosis: Diagnosis | None, **settings: bool) -> "GroupCounts":
        """Return the counts of some groups of test rows."""
        n_groups = len(groups.labels)
        return cls(
            rows=np.bincount(groups.codes, minlength=n_groups),
            covered=np.bincount(groups.codes[results.covered], minlength=n_groups),
            level=results.level,
            sizes=results.pools.sizes_of(groups),
            calibration=None if diagnosis is None else _calibration_counts(diagnosis, groups, results),
            tail_shares=results.pools.tail_shares,
            clustered=results.pools.clustered,
            **settings,
        )

    @property
    def own_thresholds(self) -> bool:
        """Whether each of several groups has a threshold from known calibration rows of its own."""
        return self.sizes is not None and self.rows.shape[-1] > 1

    @property
    def contradiction(self) -> float:
        """The p-value below which test rows contradict the calibration rows, so that only the test rows count.

        Test rows that were split off at random cannot have changed. So if each group has its own threshold, even a
        p-value of 0.01 is chance, and the calibration rows are still right.
        """
        return CONTRADICTION if self.split_at_random and self.sizes is not None else SIGNIFICANT

    @property
    def calibration_known(self) -> bool:
        """Whether the calibration rows of each group are known, and can count."""
        return not self.clustered and (self.sizes is not None or self.calibration is not None)

    def evidence(self, smallest_p_value: float) -> Evidence:
        """Return the rows that count, given the smallest p-value of the groups and all rows."""
        both = self.calibration_known and smallest_p_value >= self.contradiction
        return "calibration and test rows" if both else "test rows"

    def estimates(self, evidence: Evidence) -> CoverageEstimates:
        """Return what these rows show; test rows that may have changed must show it by themselves, too."""
        if evidence == "test rows":
            return binomial_coverage(self.covered, self.rows, self.level)
        known = self._from_all_rows()
        return known if self.split_at_random else known.confirmed_by(self.covered, self.rows, self.level)

    def _from_all_rows(self) -> CoverageEstimates:
        if self.sizes is not None:
            return own_threshold_coverage(
                self.covered, self.rows, self.sizes, self.level, raised=self.raised, tail_shares=self.tail_shares
            )
        if self.calibration is None:
            raise ValueError("the calibration rows are not known")
        return shared_threshold_coverage(self.covered, self.rows, self.calibration, self.level)


def with_estimates(table: Sequence[GroupAudit], known: CoverageEstimates) -> tuple[GroupAudit, ...]:
    """Return the groups with what is known of them; groups without rows keep theirs.

    The share strictly inside has the interval of the coverage if no target lies on a bound. Otherwise its interval
    comes from the test rows alone, because calibration rows do not tell how many lie on a bound.
    """
    columns = (known.low, known.high, known.estimate, known.within)
    return tuple(
        replace(
            row,
            low=low,
            high=high,
            estimate=estimate,
            within=np.inf if np.isinf(row.within) else within,
            inside_low=low if row.inside == row.coverage else row.inside_low,
        )
        if row.rows
        else row
        for row, low, high, estimate, within in zip(table, *(each.tolist() for each in columns), strict=True)
    )


def judged_groups(family: JointTests, counts: GroupCounts, tolerance: float) -> dict[str, Any]:
    """Return the parts of an audit that follow from its tests and from the counts of its groups, by name.

    If all groups lie within a distance of the level, so do all rows together.
    """
    evidence = counts.evidence(family.smallest_p_value)
    known = counts.estimates(evidence)
    table = with_estimates(family.groups, known)
    infinite = any(row.rows and np.isinf(row.within) for row in table)
    shown_within = np.inf if infinite else float(known.all_within)
    overall = replace(family.overall, within=min(family.overall.within, shown_within))
    region = family.counted_region(counts.level, own_thresholds=counts.own_thresholds)
    return {
        "verdict": verdict(table, counts.level, tolerance, shown_within=shown_within, overall=overall, region=region),
        "table": table,
        "joint_p_value": family.joint_p_value,
        "overall": overall,
        "worst_region": family.region,
        "own_thresholds": counts.own_thresholds,
        "evidence": evidence,
        "shown_within": shown_within,
        "split_at_random": counts.split_at_random,
    }


def _calibration_counts(diagnosis: Diagnosis, groups: Groups, results: RowResults) -> CalibrationCounts | None:
    """Return the calibration rows of the audited groups; None if they do not tell the coverage.

    That is so if the threshold is infinite, or if points replace empty intervals, which raises the coverage.

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
    marginal = diagnosis.inputs.marginal_threshold(level)
    return marginal.counts if np.isfinite(marginal.threshold) and not marginal.replaces_empty else None


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
