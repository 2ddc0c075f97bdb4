"""Audits of tables of any size: every row is counted, and a sample is searched for regions of low coverage."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray, is_count
from evencover._internal.text_output import count_text
from evencover.distributed._arrow_data import ArrowData, Progress, arrow_data
from evencover.distributed._batches import import_arrow, numbers
from evencover.distributed._coverage_counts import (
    Cell,
    CoverageCounts,
    RandomSample,
    RowTotals,
    added_totals,
    joined_sample,
    targets_and_intervals,
)
from evencover.groups import Label
from evencover.intervals import Intervals, bound_side
from evencover.quantiles import Level, level_fraction
from evencover.table_columns import TableColumns

if TYPE_CHECKING:
    from evencover.diagnostics._coverage_tests import CoverageEstimate, JointTests
    from evencover.diagnostics._feature_strata import Feature
    from evencover.diagnostics.audit_result import Audit, GroupAudit
    from evencover.diagnostics.quality import Quality

_SAMPLE_ROWS = 100_000  # rows that are kept, for the search in features and for measures of the model


def audit(
    data: Any,
    *,
    target: str,
    lower: str,
    upper: str,
    group: str | None = None,
    prediction: str | None = None,
    features: Sequence[str] = (),
    level: Level = 0.9,
    tolerance: float = 0.03,
    calibration_sizes: int | Mapping[Any, int] | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
) -> "Audit":
    """Test whether intervals in a table of any size cover their targets as often as they should, in each group.

    Every row is counted, and the tests are those of `evencover.audit`. Features, and how much the predictions explain,
    are examined in 100 000 random rows. The memory does not grow with the number of rows, and the
    result does not depend on the number of workers.

    Parameters
    ----------
    data : str, Path or pyarrow dataset
        A Parquet file, a folder of Parquet files, or a dataset, with rows that were used neither to train nor to
        calibrate.
    target, lower, upper : str
        The columns of targets and bounds. Bounds may be infinite; a missing bound means an empty interval.
    group : str, optional
        The column of groups; by default three groups by interval width.
    prediction : str, optional
        The column of point predictions, to measure how much they explain.
    features : sequence of str
        Columns to search for rows with low coverage.
    level : float
        Nominal coverage.
    tolerance : float
        Largest distance from the level that counts as even.
    calibration_sizes : int or mapping from label to int, optional
        Number of calibration rows behind the threshold of all rows, or of each group: ``calibration.sizes``.
    seed : int
        Seed of the random halves and permutations of the search in features.
    workers : int, optional
        Number of threads; by default the number of cores.
    progress : callable, optional
        Called with the number of rows that this pass has read, and the number of all rows.
    """
    from evencover.diagnostics._verdict import checked_settings
    from evencover.diagnostics.audits import audit as audit_rows

    settings = checked_settings(level, tolerance, seed)
    columns = TableColumns(target=target, lower=lower, upper=upper, group=group)
    source = arrow_data(data, workers=workers, progress=progress)
    others = [*([] if prediction is None else [prediction]), *features]

    def audit_sample(sample: Any) -> "Audit":
        y, intervals = targets_and_intervals(sample, columns)
        return audit_rows(
            y,
            intervals,
            X=import_arrow().Table.from_batches([sample.select(list(features))]) if features else None,
            groups=None if group is None else sample.column(group).to_pylist(),
            prediction=None if prediction is None else numbers(sample.column(prediction)),
            level=settings.level,
            tolerance=tolerance,
            calibration_sizes=calibration_sizes,
            seed=seed,
        )

    return audit_all_rows(source, columns, others, audit_sample, calibration_sizes)


def audit_all_rows(
    source: ArrowData,
    columns: TableColumns,
    others: Sequence[str],
    audit_sample: Callable[[Any], "Audit"],
    calibration_sizes: int | Mapping[Any, int] | None,
) -> "Audit":
    """Return the audit of a sample, with the counts of all rows and the verdict from them.

    Parameters
    ----------
    source : ArrowData
        The data.
    columns : TableColumns
        The columns of targets, bounds and groups.
    others : sequence of str
        Further columns of the sample.
    audit_sample : callable
        Returns the audit of a record batch: of all rows, if there are few, or of random rows.
    calibration_sizes : int or mapping from label to int, optional
        Number of calibration rows behind the threshold of all rows, or of each group.
    """
    source.check_columns(columns)
    source.check_names(others)
    sample = _sample(source, columns, others)
    sampled = audit_sample(sample)
    if source.n_rows <= _SAMPLE_ROWS:
        return sampled
    _, intervals = targets_and_intervals(sample, columns)
    counted = _AllRows.counted(source, columns, intervals, level_fraction(sampled.level))
    return counted.audit(sampled, calibration_sizes)


def _sample(source: ArrowData, columns: TableColumns, others: Sequence[str]) -> Any:
    """Return a random sample of rows, or all rows if there are few; the same for the same data."""
    n, names = source.n_rows, [part.name for part in source.parts]
    first_rows = dict(zip(names, accumulate((part.n_rows for part in source.parts), initial=0), strict=False))
    chosen = np.random.default_rng(0).choice(n, min(n, _SAMPLE_ROWS), replace=False, shuffle=False)
    one_pass = RandomSample(np.sort(chosen), columns, others, first_rows)
    return joined_sample(source.reduce(one_pass, columns, others=others, searched=_with_values(columns)))


def _with_values(columns: TableColumns) -> dict[str, str]:
    """Return the columns that must have a value in every row: bounds may be missing, and infinite."""
    return {role: name for role, name in columns.by_role.items() if role in ("target", "group")}


@dataclass(frozen=True, eq=False)
class _AllRows:
    """The totals of all rows.

    Parameters
    ----------
    cells : mapping from pairs of group and stratum to RowTotals
        The totals of each group and stratum of widths.
    labels : tuple of labels
        The groups.
    strata : tuple of str
        The names of the strata.
    """

    cells: Mapping[Cell, RowTotals]
    labels: tuple[Label, ...]
    strata: tuple[str, ...]

    @classmethod
    def counted(cls, source: ArrowData, columns: TableColumns, sampled: Intervals, level: Fraction) -> "_AllRows":
        """Count all rows; the edges of strata and of default groups are those of the sample."""
        from evencover.diagnostics._scope import default_feature, width_feature

        widths = _Strata.of(width_feature(sampled.width), "width")
        default = _Strata.of(*default_feature(sampled))
        one_pass = CoverageCounts(columns, level, widths, default, bound_side(sampled))
        cells = added_totals(source.reduce(one_pass, columns, searched=_with_values(columns)))
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

    def audit(self, sampled: "Audit", calibration_sizes: int | Mapping[Any, int] | None) -> "Audit":
        """Return the audit of a sample with the counts of all rows, and the tests, verdict and advice from them."""
        from evencover.diagnostics._audit_advice import advice_on_audit
        from evencover.diagnostics._coverage_tests import JointTests, holm_adjusted
        from evencover.diagnostics._verdict import verdict

        level, sizes = level_fraction(sampled.level), self._sizes(calibration_sizes)
        own_sizes = sizes if len(sizes) == len(self.labels) else sizes * len(self.labels)
        groups = [
            _audited(label, {label: totals}, level, (size,))
            for (label, totals), size in zip(self.by_group.items(), own_sizes, strict=True)
        ]
        overall, region = _audited(sampled.overall.group, self.by_group, level, sizes), sampled.worst_region
        if region is not None:  # its own p-value; that in the sample is adjusted already
            region = replace(region, adjusted=min(1.0, region.p_under * len(sizes)))
        family = JointTests.of(groups, overall, region)
        estimate = self._estimate(family, sizes, level)
        table = estimate.with_intervals(family.groups)
        other_rows = family.other_rows(level, own_thresholds=estimate.own_thresholds)
        strata = [_audited(name, self.stratum(code), level, sizes) for code, name in enumerate(self.strata)]
        everything = self.everything
        audited = replace(
            sampled,
            verdict=verdict(table, level, sampled.tolerance, other_rows=other_rows),
            table=table,
            joint_p_value=family.joint_p_value,
            overall=family.overall,
            by_width=holm_adjusted(strata),
            worst_region=family.region,
            quality=_quality(sampled.quality, everything),
            own_thresholds=estimate.own_thresholds,
            evidence=estimate.evidence,
            n_empty=everything.n_empty,
            n_infinite=everything.n_infinite,
            notes=(*sampled.notes, _note(sampled, everything.rows)),
        )
        return replace(audited, advice=str(advice_on_audit(audited)))

    def _sizes(self, given: int | Mapping[Any, int] | None) -> tuple[int | None, ...]:
        """Return the calibration rows of each group, or of the one threshold (None: not known)."""
        if not isinstance(given, Mapping):
            return (given,)
        without = [label for label in self.labels if not is_count(given.get(label))]
        if without:
            raise ValueError(
                f"calibration_sizes must have a positive whole number for each group; it has none for: {without}"
            )
        return tuple(int(given[label]) for label in self.labels)

    def _estimate(self, family: "JointTests", sizes: tuple[int | None, ...], level: Fraction) -> "CoverageEstimate":
        """Return the intervals of the groups, from calibration and test rows or, if these disagree, from test rows."""
        from evencover.diagnostics._coverage_intervals import clopper_pearson_intervals, posterior_intervals
        from evencover.diagnostics._coverage_tests import CoverageEstimate

        totals = list(self.by_group.values())
        rows, covered = np.array([each.rows for each in totals]), np.array([each.covered for each in totals])
        known = len(sizes) == len(self.labels) and None not in sizes
        own_thresholds = known and len(self.labels) > 1
        if not known or not family.agrees:
            return CoverageEstimate(clopper_pearson_intervals(covered, rows), "test rows", own_thresholds)
        estimates = posterior_intervals(covered, rows, np.array(sizes), level)
        return CoverageEstimate(estimates, "calibration and test rows", own_thresholds)


def _audited(
    name: Label, totals: Mapping[Label, RowTotals], level: Fraction, sizes: tuple[int | None, ...]
) -> "GroupAudit":
    """Return the audit of the rows of some groups together; the sizes are those of each group, or of one threshold."""
    from evencover.diagnostics._coverage_tests import CoverageCount

    every = sum(totals.values(), RowTotals())
    by_group = tuple(each.rows for each in totals.values())
    by_pool = by_group if len(sizes) == len(by_group) else (every.rows,)
    return CoverageCount(every.rows, every.covered, every.width, every.score, by_pool).audit(name, sizes, level)


@dataclass(frozen=True, eq=False)
class _Strata:
    """Strata of intervals by a feature of a sample: the last one is for intervals without that feature."""

    labels: tuple[str, ...]
    edges: FloatArray
    kind: str

    @classmethod
    def of(cls, feature: "Feature", kind: str) -> "_Strata":
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


def _note(sampled: "Audit", n_rows: int) -> str:
    return (
        f"All {count_text(n_rows)} rows were counted. Features, the median width and what the predictions explain are "
        f"those of {count_text(sampled.overall.rows)} random rows."
    )
