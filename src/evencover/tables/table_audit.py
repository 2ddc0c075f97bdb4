"""Audits of tables of any size: every row is counted, and a sample is searched for regions of low coverage."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from evencover.calibration.table_columns import TableColumns
from evencover.display.text import count_text
from evencover.groups import Label
from evencover.guarantees import TailShares
from evencover.inputs.arrays import FloatArray, IntArray, is_count
from evencover.inputs.progress import AmountProgress
from evencover.intervals import Intervals, Side, bound_side, limits_reached
from evencover.metrics import interval_scores
from evencover.quantiles import Level, level_fraction
from evencover.tables.batches import Batch, TableData, codes_of, import_arrow, label_codes, named_errors, numbers
from evencover.tables.engines import table_data

if TYPE_CHECKING:
    from evencover.diagnostics.audit_result import Audit, GroupAudit
    from evencover.diagnostics.coverage_tests import GroupCounts
    from evencover.diagnostics.interval_quality import Quality
    from evencover.diagnostics.regions import Feature


Cell: TypeAlias = tuple[Label, int]  # group, and stratum of widths
Codes: TypeAlias = Callable[[Intervals], IntArray]

_SMALLEST = 1074  # every floating-point number is a whole multiple of 2**-1074
_UNIT = 2.0**-64  # of sums in a batch, so that they do not overflow


@dataclass(frozen=True)
class RowTotals:
    """The totals of some rows. The sums of batches are added exactly, so their order does not matter.

    Parameters
    ----------
    rows, covered, n_empty, n_infinite : int
        Number of rows, of covered targets, of empty intervals and of infinite ones.
    inside, inside_whole : int
        Number of targets strictly inside their intervals, and inside intervals that end at the whole numbers in them.
    n_fractional : int
        Number of targets that are not whole numbers. If all rows together have none, `inside_whole` counts.
    below, above : int
        Number of targets below the lower bound, and above the upper one.
    widths, scores : int
        Sums of the finite widths and interval scores, in units of 2**-1074.
    n_infinite_widths, n_infinite_scores : int
        Number of the others.
    """

    rows: int = 0
    covered: int = 0
    inside: int = 0
    inside_whole: int = 0
    n_fractional: int = 0
    n_empty: int = 0
    n_infinite: int = 0
    below: int = 0
    above: int = 0
    widths: int = 0
    scores: int = 0
    n_infinite_widths: int = 0
    n_infinite_scores: int = 0

    def __add__(self, other: "RowTotals") -> "RowTotals":
        return RowTotals(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def width(self) -> float:
        """The mean width; infinite if one is, NaN without rows."""
        return _mean(self.widths, self.rows, self.n_infinite_widths)

    @property
    def score(self) -> float:
        """The mean interval score; infinite if one is, NaN without rows."""
        return _mean(self.scores, self.rows, self.n_infinite_scores)


def _mean(total: int, rows: int, n_infinite: int) -> float:
    if n_infinite or not rows:
        return np.inf if n_infinite else np.nan
    return float(Fraction(total, rows << _SMALLEST))


@dataclass(frozen=True, eq=False)
class CoverageCounts:
    """A pass over batches that counts the covered rows of each cell: a group, and a stratum of widths.

    Parameters
    ----------
    columns : TableColumns
        The columns of targets, bounds and groups.
    level : Fraction
        Nominal coverage, for interval scores.
    strata : callable
        Returns the stratum of each interval's width.
    default_groups : callable
        Returns the group of each interval if there is no column of groups.
    side : {"lower", "upper"}, optional
        The side of one-sided bounds.
    limits : tuple of two float
        The smallest and the largest possible target, where intervals end that are not bounds.
    """

    columns: TableColumns
    level: Fraction
    strata: Codes
    default_groups: Codes
    side: Side | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self.columns.names

    @property
    def searched(self) -> dict[str, str]:
        """The columns that must have a value in every row."""
        return _with_values(self.columns)

    def __call__(self, batches: Iterable[Batch]) -> dict[Cell, RowTotals]:
        """Return the totals of each cell; without a column of groups, the label of a group is its code."""
        codes = label_codes(self.columns)
        totals: dict[Cell, RowTotals] = {}
        for batch in batches:
            with named_errors(batch.part):
                y, intervals = targets_and_intervals(batch.table, self.columns)
                groups = codes_of(batch, self.columns, codes)
            if self.columns.group is None:
                self.add(totals, y, intervals, self.default_groups(intervals))
            else:
                self.add(totals, y, intervals, groups, codes.labels)
        return totals

    def add(
        self,
        totals: dict[Cell, RowTotals],
        y: FloatArray,
        intervals: Intervals,
        groups: IntArray,
        labels: Sequence[Label] | None = None,
    ) -> None:
        """Add the totals of some rows; without labels, the label of a group is its code."""
        strata = self.strata(intervals)
        n_strata = int(strata.max(initial=0)) + 1
        for code, added in self._totals(y, intervals, groups * n_strata + strata):
            group, stratum = divmod(code, n_strata)
            cell = group if labels is None else labels[group], stratum
            totals[cell] = totals.get(cell, RowTotals()) + added

    def merge(self, states: Iterable[Mapping[Cell, RowTotals]]) -> dict[Cell, RowTotals]:
        """Return the sums of totals by cell."""
        return added_totals(states)

    def _totals(self, y: FloatArray, intervals: Intervals, codes: IntArray) -> Iterator[tuple[int, RowTotals]]:
        """Yield each code of a batch with the totals of its rows."""
        width, score = intervals.width, interval_scores(y, intervals, self.level)
        is_wide, scores_high = np.isinf(width), np.isinf(score)
        infinite = is_wide if self.side is None else np.isinf(getattr(intervals, self.side))
        misses = y < intervals.lower, y > intervals.upper
        inside = (intervals.covers_inside(y, whole=whole, limits=self.limits) & ~infinite for whole in (False, True))
        covered = intervals.covers(y), *inside, y % 1 != 0
        counts = np.ones(len(y)), *covered, intervals.empty, infinite, *misses, is_wide, scores_high
        sums = np.where(is_wide, 0.0, width) * _UNIT, np.where(scores_high, 0.0, score) * _UNIT
        by_code = np.stack([np.bincount(codes, weights=column) for column in (*counts, *sums)], axis=1)
        for code in np.flatnonzero(by_code[:, 0]).tolist():
            *numbers_of_rows, width_sum, score_sum = by_code[code].tolist()
            sums_of_rows = map(_in_smallest_units, (width_sum, score_sum))
            *first, wide, high = map(int, numbers_of_rows)
            yield code, RowTotals(*[*first, *sums_of_rows, wide, high])


def _in_smallest_units(value: float) -> int:
    """Return 2**64 times a number as a whole multiple of 2**-1074, exactly."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_SMALLEST - denominator.bit_length() + 1 + 64)


def targets_and_intervals(table: Any, columns: TableColumns) -> tuple[FloatArray, Intervals]:
    """Return the targets and intervals of a batch; a missing bound means an empty interval."""
    y, lower, upper = (numbers(table.column(name)) for name in (columns.target, columns.lower, columns.upper))
    n_wrong = int(np.count_nonzero(~np.isfinite(y)))
    if n_wrong:
        raise ValueError(f"column {columns.target!r} (target) must hold a finite number in every row; wrong: {n_wrong}")
    return y, Intervals(lower, upper)


def added_totals(parts: Iterable[Mapping[Any, RowTotals]]) -> dict[Any, RowTotals]:
    """Return the sums of totals by key."""
    total: dict[Any, RowTotals] = {}
    for part in parts:
        for key, totals in part.items():
            total[key] = total.get(key, RowTotals()) + totals
    return total


@dataclass(frozen=True, eq=False)
class RandomSample:
    """A pass over batches that checks all rows, and keeps some of them.

    Parameters
    ----------
    positions : ndarray of int, in increasing order
        The positions of the kept rows in the whole data.
    columns : TableColumns
        The columns of targets, bounds and groups.
    others : sequence of str
        Further columns to keep.
    first_rows : mapping from str to int
        The position of the first row of each part in the whole data.
    """

    positions: IntArray
    columns: TableColumns
    others: Sequence[str]
    first_rows: Mapping[str, int]

    @property
    def names(self) -> list[str]:
        """The names of all columns that are kept."""
        return list(dict.fromkeys([*self.columns.names, *self.others]))

    @property
    def searched(self) -> dict[str, str]:
        """The columns that must have a value in every row."""
        return _with_values(self.columns)

    def merge(self, states: Iterable[list[tuple[int, Any]]]) -> list[tuple[int, Any]]:
        """Return the kept rows of all batches."""
        return [kept for state in states for kept in state]

    def __call__(self, batches: Iterable[Batch]) -> list[tuple[int, Any]]:
        """Return the kept rows of each batch, with the position of the batch."""
        kept, codes = [], label_codes(self.columns)
        for batch in batches:
            with named_errors(batch.part):
                targets_and_intervals(batch.table, self.columns)
                codes_of(batch, self.columns, codes)
            first = self.first_rows[batch.part] + batch.first_row
            start, end = np.searchsorted(self.positions, [first, first + len(batch)])
            if start < end:
                rows = import_arrow().array(self.positions[start:end] - first)
                kept.append((first, batch.table.select(self.names).take(rows)))
        return kept


def joined_sample(batches: list[tuple[int, Any]]) -> Any:
    """Return the rows of a sample as one record batch, in the order of the data."""
    in_order = sorted(batches, key=lambda pair: pair[0])
    tables = [import_arrow().Table.from_batches([batch]) for _, batch in in_order]
    return import_arrow().concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()[0]


def _with_values(columns: TableColumns) -> dict[str, str]:
    """Return the columns that must have a value in every row: bounds may be missing, and infinite."""
    return {role: name for role, name in columns.by_role.items() if role in ("target", "group")}


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
        from evencover.diagnostics.audit_scope import default_feature, width_feature

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
        """Return the audit of a sample with the counts of all rows, and the tests and the verdict from them.

        Parameters
        ----------
        sampled : Audit
            The audit of the sample.
        sizes : tuple of int
            Number of calibration rows behind the threshold of each group, or of the one threshold (None: not known).
        """
        from evencover.diagnostics.coverage_tests import JointTests, holm_adjusted, judged_groups

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
        return replace(
            sampled,
            **judged_groups(family, counts, sampled.tolerance),
            by_width=holm_adjusted(strata),
            quality=_quality(sampled.quality, everything),
            n_empty=everything.n_empty,
            n_infinite=everything.n_infinite,
        )

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
        from evencover.diagnostics.coverage_tests import GroupCounts

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
        from evencover.diagnostics.coverage_tests import CoverageCount

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
        from evencover.diagnostics.audit_scope import stratified_values

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
    tolerance: float | None = None,
    calibration_sizes: int | Mapping[Any, int] | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: AmountProgress | None = None,
) -> "Audit":
    """Test whether intervals in a table of any size cover their targets as often as they should, in each group.

    Every row is counted, and the tests are those of `evencover.audit`. Features, and how much the predictions explain,
    are examined in 100 000 random rows. The memory does not grow with the number of rows, and the
    result does not depend on the number of workers.

    Parameters
    ----------
    data : str, Path, pyarrow dataset, Dask DataFrame or Spark DataFrame
        A Parquet file, a folder of Parquet files, a dataset or a DataFrame, with rows that were used neither to train
        nor to calibrate.
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
    tolerance : float, optional
        Largest distance from the level that counts as even; min(0.03, 0.1 √(level (1 − level))) by default.
    calibration_sizes : int or mapping from label to int, optional
        Number of calibration rows behind the threshold of all rows, or of each group: ``calibration.sizes``.
    seed : int
        Seed of the random halves and permutations of the search in features.
    workers : int, optional
        For files: number of threads; by default the number of cores.
    progress : callable, optional
        For files: called with the number of rows that this pass has read, and the number of all rows.
    """
    from evencover.diagnostics.audits import audit as audit_rows
    from evencover.diagnostics.verdicts import checked_settings

    settings = checked_settings(level, tolerance, seed)
    columns = TableColumns(target=target, lower=lower, upper=upper, group=group)
    source = table_data(data, workers=workers, progress=progress)
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
    source: TableData,
    columns: TableColumns,
    others: Sequence[str],
    audit_sample: Callable[[Any], "Audit"],
    calibration_sizes: int | Mapping[Any, int] | None,
) -> "Audit":
    """Return the audit of a sample, with the counts of all rows and the verdict from them.

    Parameters
    ----------
    source : TableData
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
    sizes = source.part_sizes(list(dict.fromkeys([*columns.names, *others])))
    if not sum(sizes.values()):
        raise ValueError("data must have rows; got none")
    sample = _sample(source, columns, others, sizes)
    sampled = audit_sample(sample)
    if sum(sizes.values()) <= _SAMPLE_ROWS:
        return sampled
    y, intervals = targets_and_intervals(sample, columns)
    counted = AuditTotals.counted(source, columns, y, intervals, level_fraction(sampled.level))
    audited = counted.audit(sampled, counted.calibration_sizes(calibration_sizes))
    return replace(audited, notes=(*audited.notes, _note(sampled, audited.overall.rows)))


def _sample(source: TableData, columns: TableColumns, others: Sequence[str], sizes: Mapping[str, int]) -> Any:
    """Return a random sample of rows, or all rows if there are few; the same for the same data."""
    n = sum(sizes.values())
    first_rows = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
    chosen = np.random.default_rng(0).choice(n, min(n, _SAMPLE_ROWS), replace=False, shuffle=False)
    found = joined_sample(source.reduce(RandomSample(np.sort(chosen), columns, others, first_rows)))
    if found.num_rows != len(chosen):
        raise RuntimeError("the data changed while it was read; audit again")
    return found


def _note(sampled: "Audit", n_rows: int) -> str:
    return (
        f"All {count_text(n_rows)} rows were counted. Features, the median width and what the predictions explain are "
        f"those of {count_text(sampled.overall.rows)} random rows."
    )
