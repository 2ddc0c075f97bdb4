"""Audits of tables of any size: every row is counted, and a sample is searched for regions of low coverage."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from evencover.calibration.table_columns import TableColumns
from evencover.diagnostics.audit_counts import CellCounter, Cells, RowTotals, Strata, default_feature
from evencover.diagnostics.audits import Audit, Note, audit_of_counts
from evencover.diagnostics.audits import audit as audit_rows
from evencover.diagnostics.coverage_tests import CalibrationPools, checked_sizes
from evencover.diagnostics.verdicts import checked_settings
from evencover.inputs import AmountProgress
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.intervals import Intervals
from evencover.quantiles import Level, level_fraction
from evencover.tables.batches import (
    Batch,
    TableData,
    codes_of,
    exact_numbers,
    import_arrow,
    label_codes,
    named_errors,
    numbers,
)
from evencover.tables.engines import table_data


@dataclass(frozen=True, eq=False)
class CountRows:
    """A pass over batches that counts the covered rows of each cell: a group, and a stratum of widths.

    Parameters
    ----------
    columns : TableColumns
        The columns of targets, bounds and groups.
    counter : CellCounter
        Counts without rows.
    default_groups : Strata
        The groups if there is no column of groups.
    """

    columns: TableColumns
    counter: CellCounter
    default_groups: Strata

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self.columns.names

    @property
    def searched(self) -> dict[str, str]:
        """The columns that must have a value in every row."""
        return _with_values(self.columns)

    def __call__(self, batches: Iterable[Batch]) -> Cells:
        """Return the totals of each cell."""
        codes = label_codes(self.columns)
        counter = replace(self.counter, cells={})
        for batch in batches:
            with named_errors(batch.part):
                y, intervals = targets_and_intervals(batch.table, self.columns)
                groups = codes_of(batch, self.columns, codes)
            if self.columns.group is None:
                counter.add(y, intervals, self.default_groups(intervals), self.default_groups.labels)
            else:
                counter.add(y, intervals, groups, codes.labels)
        return counter.cells

    def merge(self, states: Iterable[Cells]) -> Cells:
        """Return the sums of totals by cell."""
        total: Cells = {}
        for state in states:
            for cell, totals in state.items():
                total[cell] = total.get(cell, RowTotals()) + totals
        return total


def targets_and_intervals(table: Any, columns: TableColumns) -> tuple[FloatArray, Intervals]:
    """Return the targets and intervals of a batch; a missing bound means an empty interval."""
    roles = columns.by_role
    y, lower, upper = (exact_numbers(table, roles[role], role) for role in ("target", "lower", "upper"))
    n_wrong = int(np.count_nonzero(~np.isfinite(y)))
    if n_wrong:
        raise ValueError(f"column {columns.target!r} (target) must hold a finite number in every row; wrong: {n_wrong}")
    return y, Intervals(lower, upper)


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
) -> Audit:
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
    settings = checked_settings(level, tolerance, seed)
    columns = TableColumns(target=target, lower=lower, upper=upper, group=group)
    source = table_data(data, workers=workers, progress=progress)
    others = [*([] if prediction is None else [prediction]), *features]

    def audit_sample(sample: Any) -> Audit:
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
    audit_sample: Callable[[Any], Audit],
    calibration_sizes: int | Mapping[Any, int] | None,
) -> Audit:
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
    counter = CellCounter.like(y, intervals, level_fraction(sampled.level))
    default = Strata.of(*default_feature(intervals))
    counter = replace(counter, cells=source.reduce(CountRows(columns, counter, default)))
    found = {label for label, _ in counter.cells}
    labels = default.labels_among(found) if columns.group is None else tuple(sorted(found))
    pools = CalibrationPools(counter.level, checked_sizes(calibration_sizes, labels))
    audited = audit_of_counts(sampled, counter.counts(labels, len(pools.sizes)), pools)
    counted = Note("table sampled", {"rows": audited.overall.rows, "sampled": sampled.overall.rows})
    return replace(audited, facts=(*audited.facts, counted))


def _sample(source: TableData, columns: TableColumns, others: Sequence[str], sizes: Mapping[str, int]) -> Any:
    """Return a random sample of rows, or all rows if there are few; the same for the same data."""
    n = sum(sizes.values())
    first_rows = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
    chosen = np.random.default_rng(0).choice(n, min(n, _SAMPLE_ROWS), replace=False, shuffle=False)
    found = joined_sample(source.reduce(RandomSample(np.sort(chosen), columns, others, first_rows)))
    if found.num_rows != len(chosen):
        raise RuntimeError("the data changed while it was read; audit again")
    return found
