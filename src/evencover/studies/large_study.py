"""Studies of tables that do not fit into memory.

    a random sample    chooses score and groups, fits the model, fixes the edges of the groups, searches the features
    the other rows     half of them calibrate the model, the others test it: batch by batch, each row predicted once

Then the test rows calibrate the model, too. They do not take turns, because each row would have to be predicted twice,
and thresholds of so many rows hardly differ. All choices are made on the sample, so the guarantee of all other rows
holds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from sklearn.base import clone

from evencover.conformal.split import ConformalRegressor
from evencover.diagnostics.audit_counts import CellCounter
from evencover.diagnostics.audits import is_raised
from evencover.display.text import count_text
from evencover.files.archive import atomic_write
from evencover.groups import Groups
from evencover.guarantees import TooFewRowsWarning
from evencover.inputs import StageProgress
from evencover.inputs.arrays import FloatArray, IntArray, warn_user
from evencover.inputs.frames import RowNumbers, join_columns
from evencover.intervals import Intervals
from evencover.model_selection import Part
from evencover.models.encoding import encoder_of
from evencover.quantiles import level_fraction
from evencover.rows import Rows
from evencover.scores.support import OutsideSupportWarning
from evencover.studies.column_checks import outside_warnings
from evencover.studies.evidence import BatchCounts, Evidence, audit_taxonomy, warn_of_groups_with_few_rows
from evencover.studies.large_table import LargeTable, UsedRows, column_labels
from evencover.studies.messages import Message, TableError, TableWarning
from evencover.studies.plan import Plan
from evencover.studies.row_checks import copies_in_sample, extremes_messages
from evencover.studies.study_result import RowsWithoutTarget, Study, columns_of_intervals, without_target_path
from evencover.studies.table_preparation import ColumnRoles, missing_target_notes
from evencover.studies.table_study import study_in_memory
from evencover.tables.arrow_data import arrow_data, check_output
from evencover.tables.batches import import_arrow
from evencover.tables.spreadsheets import without_formulas
from evencover.taxonomies import Taxonomy, fixed_taxonomy, with_categories

_LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)  # of the report, besides the plan's own


@dataclass(frozen=True, eq=False)
class BatchWarnings:
    """The warnings of batches, of which the first of each kind is given at the end.

    Those of targets outside the support, and of groups with too few rows, are about all rows together, and not kept.
    """

    texts: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the warnings of a batch."""
        with catch_warnings(record=True) as caught:
            simplefilter("always")
            yield
        for each in caught:
            if not _is_about_all_rows(each.message):
                text = str(each.message)
                self.texts.setdefault(text.partition(":")[0], text)

    def give(self) -> None:
        """Give the warnings."""
        for text in self.texts.values():
            warn_user(f"{text} (in the first batch of the table that has such rows)")


_ABOUT_ALL_ROWS = ("outside support", "copies", "extreme values")  # kinds of messages


def _is_about_all_rows(warning: Warning | str) -> bool:
    """Return whether a warning is about the rows of a table together, so that it says nothing about some of them."""
    if isinstance(warning, TableWarning):
        return warning.message.kind in _ABOUT_ALL_ROWS
    return isinstance(warning, TooFewRowsWarning | OutsideSupportWarning)


@dataclass(frozen=True, eq=False)
class RowUses:
    """Counts of rows by their use, and of targets outside the support, if there is one."""

    support: Any
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, use: str, y: FloatArray) -> None:
        """Count some targets."""
        n, total = self.counts.get(use, (0, 0))
        outside = 0 if self.support is None else int(np.count_nonzero(~self.support.contains(y)))
        self.counts[use] = n + outside, total + len(y)

    def warnings(self) -> list[Message]:
        """Return a warning if targets were outside; it is also given."""
        found = [] if self.support is None else outside_warnings(self.support, self.counts)
        for each in found:
            warn_user(TableWarning(each))
        return found


@dataclass(frozen=True, eq=False)
class ModelTest:
    """The test of a calibrated model: counts of all test rows at several levels.

    Parameters
    ----------
    sampled : Study
        The study of the sample.
    regressor : ConformalRegressor
        The model, calibrated on the calibration rows, without the test rows.
    taxonomy : taxonomy
        The groups of the audit.
    intervals : mapping from float to Intervals
        The intervals of the sample's test rows at each level, the plan's own included.
    by_level : mapping from float to CellCounter
        The counts at each of these levels.
    outside : RowUses
        The counts of rows, and of targets outside the support.
    warnings : BatchWarnings
        The warnings of batches.
    """

    sampled: Study
    regressor: ConformalRegressor
    taxonomy: Taxonomy
    intervals: Mapping[float, Intervals]
    by_level: Mapping[float, CellCounter]
    outside: RowUses
    warnings: BatchWarnings

    @classmethod
    def of(
        cls, sampled: Study, regressor: ConformalRegressor, outside: RowUses, warnings: BatchWarnings
    ) -> "ModelTest":
        """Return the test, with the intervals of the sample's test rows at all levels."""
        levels = sorted({*_LEVELS, sampled.plan.level})
        warn_of_groups_with_few_rows(regressor, sampled.plan.level)
        with catch_warnings():
            simplefilter("ignore", TooFewRowsWarning)  # of other levels
            intervals = {level: regressor.predict_interval(sampled.test_rows, level=level) for level in levels}
        several = len(regressor.calibration_.labels) > 1
        taxonomy = regressor.taxonomy_ if several else fixed_taxonomy(audit_taxonomy(sampled.regressor))
        y = sampled.test_rows.required_target(by="a test")
        by_level = {level: CellCounter.like(y, each, level_fraction(level)) for level, each in intervals.items()}
        return cls(sampled, regressor, taxonomy, intervals, by_level, outside, warnings)

    @property
    def features(self) -> list[str]:
        """The columns that the model needs."""
        return [str(name) for name in self.regressor.feature_names_in_]

    def counted(self, batch: UsedRows) -> tuple[Rows, Intervals, Groups]:
        """Count rows at all levels. Return their predictions, intervals at the plan's own level, and groups."""
        self.outside.add("test", batch.y)
        with self.warnings.collected(), batch.named_errors():
            rows = _predicted(self.regressor, batch, self.features)
            at_all_levels = self.regressor.predict_interval(rows, level=list(self.by_level))
            groups = self.taxonomy.assign(rows)
        intervals = {level: _at(at_all_levels, position) for position, level in enumerate(self.by_level)}
        for level, counts in self.by_level.items():
            counts.add(batch.y, intervals[level], groups.codes, groups.labels)
        return rows, intervals[self.sampled.plan.level], groups

    def study(self, regressor: ConformalRegressor, positions: IntArray, numbers: RowNumbers) -> Study:
        """Return the study of the whole table, and give the warnings.

        Parameters
        ----------
        regressor : ConformalRegressor
            The model, calibrated on calibration and test rows.
        positions : ndarray of int
            The positions of the sample's rows in the table.
        numbers : RowNumbers
            How messages number the rows of the table.
        """
        self.warnings.give()
        sampled, plan = self.sampled, self.sampled.plan
        extremes = tuple(replace(each, row=int(positions[each.row])) for each in sampled.extremes)
        found = sampled.evidence
        evidence = Evidence(
            "batches",
            self.regressor,
            positions[found.training],
            positions[found.calibration],
            Part(found.test.X, found.test.y, positions[found.test.positions]),
            found.rows,
            self.taxonomy.assign(found.rows),
            counts=BatchCounts(
                self.by_level,
                {use: total for use, (_, total) in self.outside.counts.items()},
                frozenset(level for level, each in self.intervals.items() if is_raised(each, 0)),
            ),
        )
        return replace(
            sampled,
            regressor=regressor,
            evidence=evidence,
            intervals=self.intervals[plan.level],
            audit=evidence.audit(self.intervals[plan.level], sampled.diagnosis, plan),
            table_warnings=(
                *_without(sampled.table_warnings, *_ABOUT_ALL_ROWS),
                *_given([*self._copies(), *extremes_messages(extremes, numbers)]),
                *self.outside.warnings(),
            ),
            extremes=extremes,
            row_numbers=numbers,
            table_notes=(_uses_note(evidence), *_without(sampled.table_notes, "missing target")),
        )

    def calibrated_on(self, tested: Iterator[tuple[Rows, None]]) -> ConformalRegressor:
        """Return the model, calibrated on its calibration rows and on test rows, which come in parts."""
        regressor = copy(self.regressor)
        earlier: Any = regressor.calibrator_
        with self.warnings.collected():
            regressor.calibrate_batches(tested)
        regressor.calibrator_ = earlier.merge(regressor.calibrator_)
        return regressor

    def _copies(self) -> list[Message]:
        """Return a warning if rows of the sample are copies of others."""
        n_copies, sizes = self.sampled.n_copies, self.sampled.sizes
        return [copies_in_sample(n_copies, sum(sizes.values()) + n_copies)] if n_copies else []


def _given(messages: Sequence[Message]) -> Sequence[Message]:
    """Return these messages, after they were given as warnings."""
    for each in messages:
        warn_user(TableWarning(each))
    return messages


def _without(messages: Sequence[Message], *kinds: str) -> tuple[Message, ...]:
    """Return the messages about the sample, except those of kinds that are about all rows of a table."""
    return tuple(each for each in messages if each.kind not in kinds)


def _uses_note(evidence: Evidence) -> Message:
    """Return how the rows were used, in a sentence."""
    sizes = {use: count_text(n) for use, n in evidence.sizes.items()}
    sample = count_text(evidence.sizes["training"] + evidence.sizes["diagnosis"])
    return Message(
        f"the table is large, so a random sample of {sample} rows was used to choose the method and to fit the "
        f"model ({sizes['training']} rows) and to diagnose it ({sizes['diagnosis']} rows). Of all other rows, "
        f"{sizes['calibration']} calibrate the intervals and {sizes['test']} test them. After the test, the test rows "
        "calibrate the intervals, too"
    )


def _at(intervals: Intervals, position: int) -> Intervals:
    """Return the intervals at one of several levels."""
    arrays = {name: getattr(intervals, name)[:, position] for name in ("lower", "upper", "replaced")}
    return replace(intervals, **arrays, level=intervals.level[position])  # type: ignore[index]


_MIN_ROWS = 100


@dataclass(frozen=True)
class BatchSettings:
    """How a table is read in batches.

    Parameters
    ----------
    output : Path
        The file for the intervals of the test rows.
    training_rows : int
        Number of rows that fit the model; at most half of the table is sampled.
    missing_values : sequence of str
        Texts that mean a missing value.
    exact_text : bool
        Whether a .csv file holds text as it is; otherwise formulas get a quote.
    """

    output: Path
    training_rows: int
    missing_values: Sequence[str]
    exact_text: bool

    def check(self) -> None:
        """Raise ValueError or FileNotFoundError unless intervals can be written to the output."""
        if self.output.suffix.lower() not in (".parquet", ".csv"):
            raise ValueError(f"output must be a .parquet or .csv file; got {self.output.name!r}")
        if not self.output.parent.is_dir():
            raise FileNotFoundError(f"output must be in a folder that exists; there is no {self.output.parent}")


def study_in_batches(
    data: Any, roles: ColumnRoles, plan: Plan, name: str, progress: StageProgress, batches: BatchSettings
) -> Study:
    """Return the study of a table of any size: of a sample, with the counts of all test rows."""
    batches.check()
    if plan.calibration == "cross" or getattr(plan.taxonomy, "needs_target", False):
        raise ValueError("plan must not have calibration='cross', nor groups of the target, for a table in batches")
    given = [each for each in ("clusters", "time") if getattr(roles, each) is not None]
    if roles.copies == "drop":
        given.append("copies='drop'")
    if given:
        raise ValueError(f"{' and '.join(given)}: for tables in memory only; leave output out")
    output, missing_values = batches.output, batches.missing_values
    source = arrow_data(data, workers=2)
    for path in (output, without_target_path(output)):
        check_output(path, source)
    if source.n_rows < _MIN_ROWS:
        raise ValueError(f"data must have at least {_MIN_ROWS} rows to be studied in batches; got {source.n_rows}")
    table = LargeTable(
        source, roles.target, plan, batches.training_rows, missing_values, roles.missing_target, progress
    )
    table.check()
    if output.suffix.lower() == ".csv":
        _check_csv(table.types([each for each in roles.drop if each in source.parts[0].schema.names]))
    labels_of = partial(column_labels, source, missing_values=missing_values)
    plan = replace(plan, calibration="split", taxonomy=with_categories(plan.taxonomy, labels_of))
    sampled = _study_of_sample(table.sample(), roles.of_sample(), plan, name, progress)
    test = _calibrated(sampled, table)
    names = [*roles.drop, *sampled.left_out]
    types = table.types(names)
    with _interval_file(output, exact_text=batches.exact_text) as write:

        def tested() -> Iterator[tuple[Rows, None]]:
            for rows in table.rows("test", [*test.features, *names]):
                predicted, intervals, groups = test.counted(rows)
                kept = {name: rows.table.column(name).cast(types[name]) for name in names}
                numbers = table.numbers.at(rows.positions)
                write(join_columns(kept, columns_of_intervals(roles.target, rows.y, numbers, intervals, groups)))
                yield predicted, None

        regressor = test.calibrated_on(tested())
    n_missing = sum(table.missing_targets)
    if n_missing and roles.missing_target == "predict":
        _write_without_target(table, regressor, plan.level, types, batches)
    else:
        without_target_path(output).unlink(missing_ok=True)  # of an earlier study
    found = test.study(regressor, table.sampled, table.numbers)
    missing = missing_target_notes(n_missing, source.n_rows, roles.missing_target)
    uses, *others = found.table_notes
    return replace(found, n_without_target=n_missing, table_notes=(uses, *missing, *others))


def _write_without_target(
    table: LargeTable, regressor: ConformalRegressor, level: float, types: Mapping[str, Any], batches: BatchSettings
) -> None:
    """Write the intervals of the rows without a target, and of each the columns whose types are given, to a file."""
    features, names = [str(name) for name in regressor.feature_names_in_], list(types)
    with _interval_file(without_target_path(batches.output), exact_text=batches.exact_text) as write:
        for rows in table.without_target([*features, *names]):
            part = Part(rows.table.select(features), rows.y, rows.positions)
            with rows.named_errors():
                found = RowsWithoutTarget.of(regressor, part, level, table.numbers.at(rows.positions))
            write(join_columns({name: rows.table.column(name).cast(types[name]) for name in names}, found.columns()))


def _check_csv(types: Mapping[str, Any]) -> None:
    """Raise ValueError if columns that are written next to the intervals cannot be written as text."""
    nested = [name for name, each in types.items() if str(each).startswith(("list", "large_list", "struct", "map"))]
    if nested:
        raise ValueError(f"output must be a .parquet file, because .csv files cannot hold the lists in {nested}")


def _study_of_sample(sample: Any, roles: ColumnRoles, plan: Plan, name: str, progress: StageProgress) -> Study:
    """Return the study of the sample. Its row numbers say nothing about the table, and an error says so."""
    try:
        with catch_warnings(record=True) as caught:
            simplefilter("always")
            found = study_in_memory(sample, roles, plan, name, progress, training_rows=sample.num_rows)  # all
    except TableError as error:
        where = f" (in a random sample of {count_text(sample.num_rows)} rows)"
        raise TableError([replace(each, text=each.text + where) for each in error.problems]) from None
    for each in caught:
        if not _is_about_all_rows(each.message):
            warn_user(each.message, each.category)
    return found


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
                predicted = _predicted(regressor, rows, features)
            yield predicted, None

    with warnings.collected():
        regressor.calibrate_batches(parts())
    return ModelTest.of(sampled, regressor, outside, warnings)


def _predicted(regressor: ConformalRegressor, used: UsedRows, features: Sequence[str]) -> Rows:
    """Return rows of a batch with their predictions; warn of text among numbers, which counts as missing."""
    table, encoder = used.table.select(features), encoder_of(regressor)
    for text in [] if encoder is None else encoder.odd_values(table):
        warn_user(text)
    return regressor.rows(table, used.y)


@contextmanager
def _interval_file(path: Path, *, exact_text: bool) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that adds rows, as columns, to a file; the file appears at the end, and not after an error."""
    arrow, writer = import_arrow(), None

    def write(columns: Mapping[str, Any]) -> None:
        nonlocal writer
        arrays = {
            name: values if isinstance(values, arrow.ChunkedArray) else arrow.array(values, from_pandas=True)
            for name, values in columns.items()
        }
        table = arrow.table(arrays)
        if path.suffix.lower() == ".csv" and not exact_text:
            table = without_formulas(table)
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
