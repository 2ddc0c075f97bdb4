"""Studies of tables that do not fit into memory.

    a random sample    chooses score and groups, fits the model, fixes the edges of the groups, searches the features
    the other rows     some calibrate the model, the others test it: batch by batch, each row predicted once

All choices are made on the sample, so the guarantee of the calibration rows holds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any
from warnings import catch_warnings, filterwarnings, simplefilter

from sklearn.base import clone

from evencover._internal.arrays import check_count
from evencover._internal.frames import join_columns
from evencover._internal.saved_files import atomic_write
from evencover._internal.text_output import count_text
from evencover.distributed._arrow_data import arrow_data, check_output
from evencover.distributed._batches import import_arrow
from evencover.distributed._large_table import LargeTable, Progress, column_labels
from evencover.distributed._model_test import OUTSIDE_SUPPORT, BatchWarnings, ModelTest, RowUses, fixed_taxonomy
from evencover.guarantees import TooFewRowsWarning
from evencover.rows import Rows
from evencover.studies import Plan, Study, TableError
from evencover.studies import study as study_in_memory
from evencover.studies._columns import MissingTarget, missing_target_note
from evencover.studies.study_result import columns_of_intervals
from evencover.taxonomies import ByFeature, Product

_MIN_ROWS = 100


def study(
    data: Any,
    target: str,
    *,
    output: str | Path,
    plan: Plan | None = None,
    training_rows: int = 100_000,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing_values: Sequence[str] = (),
    missing_target: MissingTarget = "error",
    day_first: bool = False,
    name: str = "table",
    progress: Progress | None = None,
) -> Study:
    """Study a table of any size: fit a model on a random sample, calibrate and test it on all other rows.

    The sample is studied as by `evencover.studies.study`: it is split, the model is fitted on one part, and score and
    groups are selected. Then every other row is used once: it calibrates the model or tests it, at random and in the
    ratio of the plan's sizes. These rows are read in batches. Of a calibration row, only its scores and its group stay
    in memory; nothing else grows with the table.

    All choices, also the edges of the groups, are made on the sample; which columns are ids or dates, on its training
    rows. So if calibration rows and new rows are
    exchangeable, an interval covers a new row of a group with probability at least the level.

    Parameters
    ----------
    data : str, Path, pyarrow dataset or table
        A Parquet file, a folder of Parquet files, a dataset or a table, with the target and the features.
    target : str
        The column to predict.
    output : str or Path
        A .parquet or .csv file for the intervals of the test rows. It is complete, or absent after an error.
    plan : Plan, optional
        Model, score, groups, level, split, seed.
    training_rows : int
        Number of rows that fit the model; at most half of the table is sampled.
    drop, keep, categorical, missing_target, day_first, name
        As in `evencover.studies.study`. Columns that are not features are written next to the intervals.
    missing_values : sequence of str
        Texts that mean a missing value.
    progress : callable, optional
        Called with the name of each step when it begins, and with the number of rows that were read.

    Returns
    -------
    Study
        The study of the sample, with the thresholds of all calibration rows and the counts of all test rows.
    """
    plan, report = plan or Plan(), progress or (lambda _: None)
    check_count(training_rows, "training_rows")
    if plan.calibration == "cross" or getattr(plan.taxonomy, "needs_target", False):
        raise ValueError("plan must not have calibration='cross', nor groups of the target, for a table in batches")
    if Path(output).suffix.lower() not in (".parquet", ".csv"):
        raise ValueError(f"output must be a .parquet or .csv file; got {Path(output).name!r}")
    if not Path(output).parent.is_dir():
        raise FileNotFoundError(f"output must be in a folder that exists; there is no {Path(output).parent}")
    source = arrow_data(data, workers=2)
    check_output(Path(output), source)
    if source.n_rows < _MIN_ROWS:
        raise ValueError(f"data must have at least {_MIN_ROWS} rows to be studied in batches; got {source.n_rows}")
    table = LargeTable(source, target, plan, training_rows, missing_values, missing_target == "drop", report)
    table.check()
    if Path(output).suffix.lower() == ".csv":
        _check_csv(table.types([name for name in drop if name in source.parts[0].schema.names]))
    sampled = _study_of_sample(
        table.sample(),
        target,
        plan=replace(plan, calibration="split", taxonomy=_with_all_categories(plan.taxonomy, table)),
        drop=drop,
        keep=keep,
        categorical=categorical,
        missing_target=missing_target,
        day_first=day_first,
        name=name,
        progress=report,
    )
    test = _calibrated(sampled, table)
    names = [*drop, *sampled.left_out]
    types = table.types(names)
    with _interval_file(Path(output)) as write:
        for rows in table.rows("test", [*test.features, *names]):
            intervals, groups = test.counted(rows)
            kept = {name: rows.table.column(name).cast(types[name]) for name in names}
            write(join_columns(kept, columns_of_intervals(target, rows.y, rows.positions, intervals, groups)))
    n_missing = sum(table.missing_targets)
    return test.study(table.sampled, [missing_target_note(n_missing, source.n_rows)] if n_missing else [])


def _check_csv(types: Mapping[str, Any]) -> None:
    """Raise ValueError if columns that are written next to the intervals cannot be written as text."""
    nested = [name for name, each in types.items() if str(each).startswith(("list", "large_list", "struct", "map"))]
    if nested:
        raise ValueError(f"output must be a .parquet file, because .csv files cannot hold the lists in {nested}")


def _study_of_sample(sample: Any, target: str, **settings: Any) -> Study:
    """Return the study of the sample. Its row numbers say nothing about the table, and an error says so."""
    try:
        with catch_warnings():
            simplefilter("ignore", TooFewRowsWarning)  # other rows calibrate
            filterwarnings("ignore", f".*{OUTSIDE_SUPPORT}")
            return study_in_memory(sample, target, **settings)
    except TableError as error:
        where = f" (in a random sample of {count_text(sample.num_rows)} rows)"
        problems = [replace(each, text=each.text + where * (" row" in each.text)) for each in error.problems]
        raise TableError(problems) from None


def _with_all_categories(taxonomy: Any, table: LargeTable) -> Any:
    """Return a taxonomy whose categories are those of all rows, where they were to be learned."""
    if isinstance(taxonomy, Product):
        return Product([_with_all_categories(each, table) for each in taxonomy.taxonomies])
    if not isinstance(taxonomy, ByFeature) or taxonomy.edges is not None or taxonomy.categories is not None:
        return taxonomy
    labels = column_labels(table.source, str(taxonomy.column), table.missing_values)
    return ByFeature(taxonomy.column, categories=labels)


def _calibrated(sampled: Study, table: LargeTable) -> "ModelTest":
    """Return the test of the sample's model, which is calibrated again on the calibration rows of the whole table."""
    regressor = copy(sampled.regressor)
    calibrator = clone(regressor._learned_by).set_params(taxonomy=fixed_taxonomy(regressor.taxonomy_))
    regressor.set_params(calibrator=calibrator, taxonomy=None)
    features, warnings = [str(name) for name in regressor.feature_names_in_], BatchWarnings()
    outside = RowUses(getattr(regressor.calibrator_.nonconformity, "support", None))

    def parts() -> Iterator[tuple[Rows, None]]:
        for rows in table.rows("calibration", features):
            outside.add("calibration", rows.y)
            with warnings.collected(), rows.named_errors():
                predicted = regressor.rows(rows.table.select(features), rows.y)
            yield predicted, None

    with warnings.collected():
        regressor.calibrate_parts(parts())
    return ModelTest.of(sampled, regressor, outside, warnings)


@contextmanager
def _interval_file(path: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that adds rows, as columns, to a file; the file appears at the end, and not after an error."""
    arrow, writer = import_arrow(), None

    def write(columns: Mapping[str, Any]) -> None:
        nonlocal writer
        arrays = {
            name: values if isinstance(values, arrow.ChunkedArray) else arrow.array(values, from_pandas=True)
            for name, values in columns.items()
        }
        table = arrow.table(arrays)
        if writer is None:
            writer = _writer(file, table.schema, path.suffix.lower())
        writer.write_table(table)

    with atomic_write(path) as file:
        try:
            yield write
        finally:
            if writer is not None:
                writer.close()


def _writer(file: Any, schema: Any, suffix: str) -> Any:
    """Return what writes tables to an open file, one after another."""
    if suffix == ".parquet":
        return import_arrow("pyarrow.parquet").ParquetWriter(file, schema)
    return import_arrow("pyarrow.csv").CSVWriter(file, schema)
