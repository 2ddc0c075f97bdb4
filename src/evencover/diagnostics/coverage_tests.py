"""The tests of an audit: from counts by group to tests with a joint adjustment, intervals of coverages, verdict."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from evencover.diagnostics.audit_counts import AuditCounts, RowTotals
from evencover.diagnostics.coverage_intervals import (
    CalibrationCounts,
    CoverageEstimates,
    binomial_coverage,
    new_row_coverage,
    own_threshold_coverage,
    shared_threshold_coverage,
)
from evencover.diagnostics.exact_tests import (
    CONTRADICTION,
    SIGNIFICANT,
    clopper_pearson,
    clustered_large_sample_p_value,
    clustered_p_values,
    coverage_p_values,
    holm,
    large_sample_p_value,
    stratified_p_values,
    two_sided_p_value,
)
from evencover.diagnostics.verdicts import GroupAudit, verdict
from evencover.groups import Groups, Label
from evencover.guarantees import TailShares
from evencover.inputs.arrays import IntArray, check_count, is_count
from evencover.intervals import Intervals, IntervalUnion
from evencover.quantiles import Level, rows_for_finite_threshold

RowsOfEvidence: TypeAlias = Literal["calibration and test rows", "calibration rows", "test rows"]


@dataclass(frozen=True, eq=False)
class CalibrationPools:
    """What is known of the pools of calibration scores behind the thresholds of test rows.

    Parameters
    ----------
    level : Fraction
        Nominal coverage.
    sizes : tuple of int or None
        Number of calibration scores of each pool, or of clusters; None where it is not known.
    tail_shares : tuple of two Fraction, optional
        Shares of 1 − level, if each tail has its own threshold.
    clustered : bool
        Whether sizes are numbers of clusters.
    raised : bool
        Whether tied scores, or points that replace empty intervals, raise the coverage.
    calibration : CalibrationCounts, optional
        The calibration rows of each audited group, if one threshold serves all groups.
    strata : mapping from int to RowTotals, optional
        If rows are tested in turn, the totals of each stratum: rows that were tested by the same threshold.

    Notes
    -----
    Rows can be tested in turn. Thresholds of one half of them test the other half, and the reverse, and all of them are
    the calibration rows. Then the number of all covered rows is near the level by construction: if one half has
    smaller scores by chance, it is covered more often, and the other half less often. So the tests condition on the
    number of covered rows in each stratum. If coverage does not depend on what selects some rows of a stratum, such as
    a feature, the number of covered rows among them is hypergeometric. The law of the final thresholds needs no test.
    """

    level: Fraction
    sizes: tuple[int | None, ...]
    tail_shares: TailShares = None
    clustered: bool = False
    raised: bool = False
    calibration: CalibrationCounts | None = None
    strata: Mapping[int, RowTotals] | None = None

    @property
    def known(self) -> bool:
        """Whether any size is known; if so, rows of other pools have no guarantee and are not tested."""
        return any(size is not None for size in self.sizes)

    def sizes_of(self, groups: Collection[RowTotals]) -> IntArray | None:
        """Return the calibration rows of each group, if each group has exactly one pool of its own and all are known.

        Groups without rows have size 0.
        """
        used = [pool for group in groups for pool in group.by_pool]
        one_to_one = len(used) == len(set(used)) and all(len(group.by_pool) < 2 for group in groups)
        if not one_to_one or any(self.sizes[pool] is None for pool in used):
            return None
        return np.array([sum(self.sizes[pool] or 0 for pool in group.by_pool) for group in groups])

    def rows_needed(self, totals: RowTotals) -> int | None:
        """Return the calibration rows that finite intervals need, if some are infinite and their pool has fewer.

        One-sided bounds are infinite whatever the number of rows.
        """
        if not (totals.n_infinite and totals.n_infinite_widths):
            return None
        shares = self.tail_shares or (Fraction(1),)
        needed = max(rows_for_finite_threshold(1 - share * (1 - self.level)) for share in shares)
        sizes = [self.sizes[pool] for pool in totals.by_pool]
        return needed if any(size is None or size < needed for size in sizes) else None

    def audits(self, totals: Mapping[Label, RowTotals]) -> list[GroupAudit]:
        """Return the audit of each group, not yet adjusted for other tests."""
        return [self.audit(label, each) for label, each in totals.items()]

    def audit(self, name: Label, totals: RowTotals) -> GroupAudit:
        """Return the audit of some rows as one group, not yet adjusted for other tests.

        Targets on a bound count as covered in the test for under-coverage, and as not covered in the test for
        over-coverage.
        """
        under, over, limit = self._p_values(totals)
        known_alone = GroupCounts.of([totals], self).test_rows_alone
        return GroupAudit(
            group=name,
            rows=totals.rows,
            coverage=totals.coverage,
            low=float(known_alone.low[0]),
            high=float(known_alone.high[0]),
            estimate=totals.coverage,
            p_under=under,
            p_over=over,
            adjusted=float(two_sided_p_value(under, over)),
            p_limit=limit,
            width=totals.width,
            score=totals.score,
            within=np.inf if totals.n_infinite else float(known_alone.all_within),
            inside=totals.share_inside,
            inside_low=float(clopper_pearson(totals.inside - totals.n_untested, totals.rows)[0]),
        )

    def law_is_known(self, totals: RowTotals) -> bool:
        """Return whether rows were tested in turn, and the law of their coverage by the model itself is known."""
        in_turn = self.strata is not None and not self.clustered
        return in_turn and totals.rows > 0 and all(self.sizes[pool] is not None for pool in totals.by_pool)

    def of_new_rows(self, overall: GroupAudit, totals: RowTotals) -> GroupAudit:
        """Return the audit of all rows with what the law of the thresholds says of new rows; ties push coverage up."""
        thresholds = [(m, n) for pool, m in totals.by_pool.items() if (n := self.sizes[pool]) is not None]
        (low, high), one_sided_ends, estimate = new_row_coverage(thresholds, self.level, self.tail_shares)
        within = np.inf if totals.n_infinite else float(np.abs(one_sided_ends - float(self.level)).max())
        if self.raised:
            high, within = max(high, overall.high), max(within, overall.within)
            estimate = max(estimate, totals.covered_by_model / (totals.rows + 1))
        return replace(overall, low=float(low), high=float(high), estimate=estimate, within=within)

    def _p_values(self, totals: RowTotals) -> tuple[float, float, float]:
        """Return the p-values for under- and over-coverage, and the limit of the two-sided one for many test rows."""
        if self.strata is not None:
            return (*self._p_values_in_turn(self.strata, totals), 0.0) if totals.rows else (np.nan, np.nan, np.nan)
        p_values, limit_p_value = coverage_p_values, large_sample_p_value
        if self.clustered:
            p_values, limit_p_value = clustered_p_values, clustered_large_sample_p_value
        pools = [(m, self.sizes[pool]) for pool, m in sorted(totals.by_pool.items())]
        if totals.rows == totals.n_untested or (self.known and any(size is None for _, size in pools)):
            return np.nan, np.nan, np.nan
        level, tails, covered, inside = self.level, self.tail_shares, totals.covered, totals.inside
        under, over = p_values(pools, level, covered, tails)
        over = over if inside == covered else p_values(pools, level, inside, tails)[1]
        return under, over, limit_p_value(pools, level, covered / totals.rows, tails)

    def _p_values_in_turn(self, strata: Mapping[int, RowTotals], totals: RowTotals) -> tuple[float, float]:
        """Return the p-values of some rows, given how many of their strata are covered.

        How many targets lie strictly inside depends on the widths, too, so more of them than in other rows is no
        over-coverage by itself. It must be shown of the covered rows and of those inside.
        """
        chosen = [(m, strata[code]) for code, m in sorted(totals.by_stratum.items())]
        under, over = stratified_p_values([(m, each.rows, each.covered) for m, each in chosen], totals.covered)
        if totals.inside < totals.covered:
            inside = stratified_p_values([(m, each.rows, each.inside) for m, each in chosen], totals.inside)
            over = float(np.maximum(over, 1.0 if np.isnan(inside[1]) else inside[1]))
        return under, over


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
    pools : CalibrationPools
        What is known of the calibration. If thresholds come from clusters, calibration rows do not count: the law is
        not that of rows.
    sizes : ndarray of shape (G,), optional
        Number of calibration scores behind each threshold, if each group has its own.
    split_at_random : bool
        Whether the test rows were split off at random, so that they cannot differ from the calibration rows.
    untested : ndarray of shape (..., G) or 0
        Number of covered rows whose intervals are infinite only in the test, so that they show nothing.
    most_covered : ndarray of shape (..., G), optional
        Number of covered rows for upper ends, if not `covered`: if rows are tested in turn, of those that the model
        itself covers, if these are more. With tied scores, the thresholds of halves can cover fewer rows than its own.
    """

    rows: IntArray
    covered: IntArray
    pools: CalibrationPools
    sizes: IntArray | None = None
    split_at_random: bool = False
    untested: IntArray | int = 0
    most_covered: IntArray | None = None

    @classmethod
    def of(
        cls, groups: Collection[RowTotals], pools: CalibrationPools, *, split_at_random: bool = False
    ) -> "GroupCounts":
        """Return the counts of some groups of test rows."""
        return cls(
            rows=np.array([each.rows for each in groups]),
            covered=np.array([each.covered for each in groups]),
            most_covered=np.array([each.most_covered for each in groups]),
            untested=np.array([each.n_untested for each in groups]),
            pools=pools,
            sizes=pools.sizes_of(groups),
            split_at_random=split_at_random,
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
        return not self.pools.clustered and (self.sizes is not None or self.pools.calibration is not None)

    def evidence(self, smallest_p_value: float) -> RowsOfEvidence:
        """Return the rows that count, given the smallest p-value of the groups and all rows."""
        if self.pools.strata is not None:
            return "calibration rows" if self.calibration_known else "test rows"
        both = self.calibration_known and smallest_p_value >= self.contradiction and not np.any(self.untested)
        return "calibration and test rows" if both else "test rows"

    @property
    def test_rows_alone(self) -> CoverageEstimates:
        """What the test rows show by themselves."""
        return binomial_coverage(
            self.covered, self.rows, self.pools.level, most_covered=self.most_covered, untested=self.untested
        )

    def estimates(self, evidence: RowsOfEvidence) -> CoverageEstimates:
        """Return what these rows show; test rows that may have changed must show it by themselves, too."""
        pools, level, in_turn = self.pools, self.pools.level, self.pools.strata is not None
        if evidence == "test rows":
            return self.test_rows_alone
        if self.sizes is not None:
            known = own_threshold_coverage(
                self.covered if self.most_covered is None else self.most_covered,
                self.rows,
                self.sizes,
                level,
                raised=pools.raised,
                tail_shares=pools.tail_shares,
                in_turn=in_turn,
            )
        elif pools.calibration is not None:
            known = shared_threshold_coverage(self.covered, self.rows, pools.calibration, level, in_turn=in_turn)
        else:
            raise ValueError("the calibration rows are not known")
        return known if self.split_at_random else known.confirmed_by(self.covered, self.rows, level)


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


def judged(
    counts: AuditCounts,
    pools: CalibrationPools,
    region: GroupAudit | None,
    *,
    tolerance: float,
    split_at_random: bool,
) -> dict[str, Any]:
    """Return the parts of an audit that follow from its counts, by name.

    If all groups lie within a distance of the level, so do all rows together.

    Parameters
    ----------
    counts : AuditCounts
        The counts of groups, strata and all rows.
    pools : CalibrationPools
        What is known of the calibration behind the thresholds.
    region : GroupAudit, optional
        The worst region, not yet adjusted for other tests.
    tolerance : float
        Largest distance from the level that counts as even.
    split_at_random : bool
        Whether the test rows were split off at random, so that they cannot differ from the calibration rows.
    """
    if region is not None and pools.strata is not None:
        region = replace(region, adjusted=region.p_under)
    elif region is not None:
        # Both halves share the calibration. With several thresholds, the search can select the one that is too low by
        # chance, so the p-value is multiplied by their number. Simulations in the tests show that this suffices.
        region = replace(region, adjusted=min(1.0, region.p_under * len(pools.sizes)))
    groups = GroupCounts.of(counts.groups.values(), pools, split_at_random=split_at_random)
    audits = pools.audits(counts.groups)
    if pools.strata is not None and groups.own_thresholds:  # their law needs no test
        audits = [replace(each, p_under=np.nan, p_over=np.nan, adjusted=np.nan) for each in audits]
    family = JointTests.of(audits, pools.audit("all rows", counts.all_rows), region)
    evidence = groups.evidence(family.smallest_p_value)
    known = groups.estimates(evidence)
    table = with_estimates(family.groups, known)
    infinite = any(row.rows and np.isinf(row.within) for row in table)
    shown_within = np.inf if infinite else float(known.all_within)
    overall, by_law = family.overall, pools.law_is_known(counts.all_rows)
    if by_law:
        overall = pools.of_new_rows(overall, counts.all_rows)
    overall = replace(overall, within=min(overall.within, shown_within))
    counted = family.counted_region(pools.level, own_thresholds=groups.own_thresholds)
    return {
        "verdict": verdict(table, pools.level, tolerance, shown_within=shown_within, overall=overall, region=counted),
        "table": table,
        "joint_p_value": family.joint_p_value,
        "overall": overall,
        "by_width": holm_adjusted(pools.audits(counts.strata)),
        "worst_region": family.region,
        "own_thresholds": groups.own_thresholds,
        "evidence": evidence,
        "shown_within": shown_within,
        "split_at_random": split_at_random,
        "in_turn": pools.strata is not None,
        "raised": pools.raised,
        "overall_by_law": by_law,
        "n_empty": counts.all_rows.n_empty,
        "n_infinite": counts.all_rows.n_infinite,
        "n_untested": counts.all_rows.n_untested,
    }


def holm_adjusted(rows: Sequence[GroupAudit]) -> tuple[GroupAudit, ...]:
    """Return audits with Holm-adjusted p-values."""
    adjusted, limits = (holm(np.array([getattr(row, name) for row in rows])) for name in ("adjusted", "p_limit"))
    columns = zip(rows, adjusted.tolist(), limits.tolist(), strict=True)
    return tuple(replace(row, adjusted=p, p_limit=limit) for row, p, limit in columns)


def calibration_pool_of_rows(
    intervals: Intervals | IntervalUnion, groups: Groups, sizes: Any, level: Fraction
) -> tuple[IntArray, CalibrationPools]:
    """Return the pool behind each row's threshold: from the argument, from the intervals, or one of unknown size."""
    guarantee, stored = intervals.guarantee, getattr(intervals, "groups", None)
    tails = None if guarantee is None else guarantee.tail_shares
    one_pool = np.zeros(len(intervals), dtype=np.intp)
    if sizes is not None:
        codes = groups.codes if isinstance(sizes, Mapping) else one_pool
        return codes, CalibrationPools(level, checked_sizes(sizes, groups.labels), tails)
    if guarantee is not None and guarantee.clusters is not None and isinstance(intervals, Intervals):
        labels = guarantee.clusters if stored is None else stored.labels
        if stored is not None or guarantee.kind == "marginal":
            known = tuple(guarantee.clusters.get(label) for label in labels)
            return one_pool if stored is None else stored.codes, CalibrationPools(level, known, tails, clustered=True)
    if guarantee is not None and guarantee.exact and stored is not None:
        known = tuple(guarantee.sizes.get(label) for label in stored.labels)
        return stored.codes, CalibrationPools(level, known, tails)
    if guarantee is not None and guarantee.exact and guarantee.kind == "marginal" and isinstance(intervals, Intervals):
        return one_pool, CalibrationPools(level, tuple(guarantee.sizes.values()), tails)
    return one_pool, CalibrationPools(level, (None,))


def checked_sizes(sizes: Any, labels: Sequence[Label]) -> tuple[int | None, ...]:
    """Return the calibration rows of each group, or of the one threshold, as a user gave them (None: not known)."""
    if sizes is None:
        return (None,)
    if not isinstance(sizes, Mapping):
        check_count(sizes, "calibration_sizes")
        return (int(sizes),)
    invalid = [label for label in labels if not is_count(sizes.get(label))]
    if invalid:
        raise ValueError(
            f"calibration_sizes must have a positive whole number for each group; it has none for: {invalid}"
        )
    return tuple(int(sizes[label]) for label in labels)
