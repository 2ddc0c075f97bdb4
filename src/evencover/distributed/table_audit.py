"""Audits of tables of any size: every row is counted, and a sample is searched for regions of low coverage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from evencover._internal.text_output import count_text
from evencover.distributed._arrow_data import Progress
from evencover.distributed._audit_totals import AuditTotals
from evencover.distributed._batches import import_arrow, numbers
from evencover.distributed._coverage_counts import RandomSample, joined_sample, targets_and_intervals
from evencover.distributed._engines import table_data
from evencover.distributed._passes import TableData
from evencover.quantiles import Level, level_fraction
from evencover.table_columns import TableColumns

if TYPE_CHECKING:
    from evencover.diagnostics.audit_result import Audit

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
    progress: Progress | None = None,
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
    from evencover.diagnostics._verdict import checked_settings
    from evencover.diagnostics.audits import audit as audit_rows

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
