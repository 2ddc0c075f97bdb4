"""The totals of all test rows of a large table, and the audit that follows from them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray, is_count
from evencover.distributed._coverage_counts import Cell, CoverageCounts, RowTotals, added_totals
from evencover.distributed._passes import TableData
from evencover.groups import Label
from evencover.guarantees import TailShares
from evencover.intervals import Intervals, bound_side, limits_reached
from evencover.quantiles import level_fraction
from evencover.table_columns import TableColumns

if TYPE_CHECKING:
    from evencover.diagnostics._coverage_tests import GroupCounts
    from evencover.diagnostics._feature_strata import Feature
    from evencover.diagnostics.audit_result import Audit, GroupAudit
    from evencover.diagnostics.quality import Quality


@dataclass(frozen=True, eq=False)
class AuditTotals:
    """The totals of all rows.

    Parameters
    ----------
    cells : mapping from pairs of group and stratum to RowTotals
        The totals of each group and stratum of widths.
    labels : tuple of labels
        The groups.
    strata : tuple of str
        The names of the strata.
    tails : pair of Fraction, optional
        If there is a threshold for each tail, the share of 1 − level of each.
    tied : bool
        Whether several calibration scores equal a threshold.
    """

    cells: Mapping[Cell, RowTotals]
    labels: tuple[Label, ...]
    strata: tuple[str, ...]
    tails: TailShares = None
    tied: bool = False

    @classmethod
    def counted(
        cls, source: TableData, columns: TableColumns, y: FloatArray, sampled: Intervals, level: Fraction
    ) -> "AuditTotals":
        """Count all rows; limits of the target, and edges of strata and default groups, are those of the sample."""
        from evencover.diagnostics._scope import default_feature, width_feature

        widths = Strata.of(width_feature(sampled.width), "width")
        default = Strata.of(*default_feature(sampled))
        one_pass = CoverageCounts(columns, level, widths, default, bound_side(sampled), limits_reached(y, sampled))
        cells: Mapping[Any, RowTotals] = source.reduce(one_pass)
        strata = widths.labels_among({stratum for _, stratum in cells})
        if columns.group is not None:
            return cls(cells, tuple(sorted({label for label, _ in cells})), strata)
        named = {(default.labels[code], stratum): totals for (code, stratum), totals in cells.items()}
        return cls(named, default.labels_among({code for code, _ in cells}), strata)

    @cached_property
    def by_group(self) -> dict[Label, RowTotals]:
        """The totals of each group."""
        found = added_totals({label: totals} for (label, _), totals in self.cells.items())
        return {label: found.get(label, RowTotals()) for label in self.labels}

    @cached_property
    def everything(self) -> RowTotals:
        """The totals of all rows."""
        return sum(self.cells.values(), RowTotals())

    def stratum(self, code: int) -> dict[Label, RowTotals]:
        """Return the totals of each group in a stratum."""
        return {label: self.cells.get((label, code), RowTotals()) for label in self.labels}

    def audit(self, sampled: "Audit", sizes: tuple[int | None, ...]) -> "Audit":
        """Return the audit of a sample with the counts of all rows, and the tests, verdict and advice from them.

        Parameters
        ----------
        sampled : Audit
            The audit of the sample.
        sizes : tuple of int
            Number of calibration rows behind the threshold of each group, or of the one threshold (None: not known).
        """
        from evencover.diagnostics._audit_advice import advice_on_audit
        from evencover.diagnostics._coverage_tests import JointTests, holm_adjusted, judged_groups

        level = level_fraction(sampled.level)
        own_sizes = sizes if len(sizes) == len(self.labels) else sizes * len(self.labels)
        groups = [
            self._audited(label, {label: totals}, level, (size,))
            for (label, totals), size in zip(self.by_group.items(), own_sizes, strict=True)
        ]
        overall, region = self._audited(sampled.overall.group, self.by_group, level, sizes), sampled.worst_region
        if region is not None:  # its own p-value; that in the sample is adjusted already
            region = replace(region, adjusted=min(1.0, region.p_under * len(sizes)))
        family = JointTests.of(groups, overall, region)
        counts = self._counts(sizes, sampled)
        strata = [self._audited(name, self.stratum(code), level, sizes) for code, name in enumerate(self.strata)]
        everything = self.everything
        audited = replace(
            sampled,
            **judged_groups(family, counts, sampled.tolerance),
            by_width=holm_adjusted(strata),
            quality=_quality(sampled.quality, everything),
            n_empty=everything.n_empty,
            n_infinite=everything.n_infinite,
        )
        return replace(audited, advice=str(advice_on_audit(audited)))

    def calibration_sizes(self, given: int | Mapping[Any, int] | None) -> tuple[int | None, ...]:
        """Return the calibration rows of each group, or of the one threshold, as a user gave them (None: not known)."""
        if not isinstance(given, Mapping):
            return (given,)
        without = [label for label in self.labels if not is_count(given.get(label))]
        if without:
            raise ValueError(
                f"calibration_sizes must have a positive whole number for each group; it has none for: {without}"
            )
        return tuple(int(given[label]) for label in self.labels)

    def _counts(self, sizes: tuple[int | None, ...], sampled: "Audit") -> "GroupCounts":
        """Return the counts of the groups, with the sizes of their thresholds if each has its own."""
        from evencover.diagnostics._coverage_tests import GroupCounts

        totals = list(self.by_group.values())
        known = len(sizes) == len(self.labels) and None not in sizes
        return GroupCounts(
            rows=np.array([each.rows for each in totals]),
            covered=np.array([each.covered for each in totals]),
            level=sampled.level,
            sizes=np.array(sizes) if known else None,
            raised=self.tied,
            tail_shares=self.tails,
            split_at_random=sampled.split_at_random,
        )

    def _audited(
        self, name: Label, totals: Mapping[Label, RowTotals], level: Fraction, sizes: tuple[int | None, ...]
    ) -> "GroupAudit":
        """Return the audit of the rows of some groups together; the sizes are those of each group, or of one pool."""
        from evencover.diagnostics._coverage_tests import CoverageCount

        every = sum(totals.values(), RowTotals())
        by_group = tuple(each.rows for each in totals.values())
        by_pool = by_group if len(sizes) == len(by_group) else (every.rows,)
        inside = every.inside if self.everything.n_fractional else every.inside_whole
        count = CoverageCount(every.rows, every.covered, inside, every.n_infinite, every.width, every.score, by_pool)
        return count.audit(name, sizes, level, self.tails)


@dataclass(frozen=True, eq=False)
class Strata:
    """Strata of intervals by a feature of a sample: the last one is for intervals without that feature."""

    labels: tuple[str, ...]
    edges: FloatArray
    kind: str

    @classmethod
    def of(cls, feature: "Feature", kind: str) -> "Strata":
        """Return the strata of a feature of the sample."""
        labels, edges = feature.labels_and_edges
        return cls((*labels, f"{feature.name} missing"), edges, kind)

    def labels_among(self, codes: Collection[Any]) -> tuple[str, ...]:
        """Return the labels; the last one only if its code is among these codes."""
        return self.labels if len(self.labels) - 1 in codes else self.labels[:-1]

    def __call__(self, intervals: Intervals) -> IntArray:
        """Return the code of each interval's stratum. Shape (n,)."""
        from evencover.diagnostics._scope import stratified_values

        values = stratified_values(intervals, self.kind)
        return np.where(np.isnan(values), len(self.labels) - 1, np.searchsorted(self.edges, values))


def _quality(sampled: "Quality", everything: RowTotals) -> "Quality":
    """Return the quality in a sample with the measures of all rows that are known."""
    return replace(
        sampled,
        rows=everything.rows,
        coverage=everything.covered / everything.rows,
        mean_width=everything.width,
        n_infinite=everything.n_infinite,
        interval_score=everything.score,
    )
