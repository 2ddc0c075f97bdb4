"""The work of `evencover audit`: a table's columns by role, its groups and features, in memory or in parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover.calibration.table_columns import TableColumns
from evencover.cli.calibrate_command import use_little_memory
from evencover.cli.run_inputs import Reading
from evencover.cli.terminal import print_error, progress_bar, status
from evencover.diagnostics.audits import Audit, Note
from evencover.diagnostics.audits import audit as audit_intervals
from evencover.diagnostics.regions import features_of
from evencover.groups import Groups
from evencover.inputs.arrays import BoolArray, FloatArray
from evencover.inputs.frames import (
    RowNumbers,
    as_numbers,
    check_no_infinite,
    column,
    columns_of,
    is_missing,
    row_numbers,
    with_columns,
)
from evencover.models.encoding import ColumnKind, Recognition
from evencover.studies.column_checks import CheckedColumn, checked_column, may_be_missing
from evencover.studies.doubtful_values import odd_cells_note
from evencover.studies.messages import Message, TableError
from evencover.studies.table_preparation import column_groups
from evencover.tables.arrow_data import arrow_data, n_rows_of
from evencover.tables.batches import import_arrow
from evencover.tables.files import check_column, column_named, file_name, number_column, read_table
from evencover.tables.table_audit import audit_all_rows, targets_and_intervals

_MAX_ROWS_IN_MEMORY = 1_000_000  # a larger Parquet file is read in parts
_MAX_GROUPS = 10  # a column of numbers with more different values is split into thirds
_ROUNDING = 1e-6  # relative to the largest value


def audit_file(
    file: Path,
    roles: Mapping[str, str],
    features: Sequence[str] | None,
    reading: Reading,
    settings: Mapping[str, Any],
) -> Audit:
    """Return the audit of a file, with facts on the columns that were used.

    Parameters
    ----------
    file : Path
        A file, which is read as a whole; or a folder or a large Parquet file, which is read in parts.
    roles : mapping from str to str
        The column of each role, as the user names it: target, lower, upper; optionally group, prediction, clusters.
    features : sequence of str or None
        The columns to search, see `searched_columns`.
    reading : Reading
        How the file is read.
    settings : mapping from str to value
        Arguments of `evencover.audit`.
    """
    if _is_read_in_parts(file):
        reading.file_format.check_applies("folder" if file.is_dir() else "Parquet", file_name(file))
        if reading.missing_values:
            raise ValueError("missing_values is for text in a table that is read at once; leave it out for large data")
        return _audit_in_parts(file, roles, features, settings)
    return _audit_in_memory(file, roles, features, reading, settings)


def _is_read_in_parts(file: Path) -> bool:
    """Return whether a file is too large for memory: a folder, or a Parquet file with more than a million rows."""
    if file.is_dir() or file.suffix.lower() != ".parquet" or not file.is_file():
        return file.is_dir()
    use_little_memory()
    return n_rows_of(file) > _MAX_ROWS_IN_MEMORY


def _audit_in_memory(
    file: Path,
    given: Mapping[str, str],
    features: Sequence[str] | None,
    reading: Reading,
    settings: Mapping[str, Any],
) -> Audit:
    """Return the audit of a file that is read as a whole."""
    table = read_table(file, missing=reading.missing_values, file_format=reading.file_format)
    name_of_file = file_name(file)
    roles = {role: column_named(table, name) for role, name in given.items()}
    features = features and tuple(column_named(table, name) for name in features)
    y = number_column(table, roles["target"], f"target of {name_of_file}")
    lower, upper = (_bounds(table, roles[role], f"{role} of {name_of_file}") for role in ("lower", "upper"))
    if "prediction" in roles:
        number_column(table, roles["prediction"], f"prediction of {name_of_file}")
    roles = _with_prediction(roles, table.column_names)
    _check_clusters(roles)
    named: list[tuple[str, str]] = [(role, roles[role]) for role in ("group", "clusters") if role in roles]
    named += [("features", name) for name in features or () if name not in ("all", "none")]
    for role, name in named:
        check_column(table, name, f"{role} of {name_of_file}")
    _warn_of_swapped_bounds(lower, upper, row_numbers(table))
    with status() as show:
        show("testing the coverage")
        groups, notes = grouped_rows(table, roles["group"]) if "group" in roles else (None, [])
        clusters = column(table, roles["clusters"], "clusters") if "clusters" in roles else None
        by_row = {"groups": groups, "clusters": clusters}
        result = _audit_table(table, y, (lower, upper), roles, features, {**settings, **by_row})
        return replace(result, facts=(*notes, *result.facts))


def _audit_in_parts(
    file: Path, given: Mapping[str, str], features: Sequence[str] | None, settings: Mapping[str, Any]
) -> Audit:
    """Return the audit of a Parquet file, or a folder of such files, that is read in parts."""
    if "clusters" in given:
        raise ValueError("clusters is for a table that is read at once; keep one row of each cluster of large data")
    columns = TableColumns(**{role: name for role, name in given.items() if role != "prediction"})
    with progress_bar(f"Auditing {file.name}") as progress:
        source = arrow_data(file, progress=progress)
        names = [
            name for name in source.parts[0].schema.names if all(name in part.schema.names for part in source.parts)
        ]
        roles = _with_prediction(given, names)
        searched = [name for name in features or names if name not in ("all", "none") or name in names]
        others = [roles["prediction"], *searched] if "prediction" in roles else searched

        def audit_sample(sample: Any) -> Audit:
            y, intervals = targets_and_intervals(sample, columns)
            groups = None if columns.group is None else sample.column(columns.group).to_pylist()
            table = import_arrow().Table.from_batches([sample])
            bounds = intervals.lower, intervals.upper
            return _audit_table(table, y, bounds, roles, features, {**settings, "groups": groups})

        return audit_all_rows(source, columns, others, audit_sample, settings["calibration_sizes"])


def _bounds(table: Any, name: str, context: str) -> FloatArray:
    """Return a column of bounds; raise TableError if a few cells are no numbers, which may mean an empty interval."""
    check_column(table, name, context)
    values, numbers = column(table, name, context), ColumnKind(numbers=True)
    odd = np.zeros(len(values), dtype=bool) if as_numbers(values) is not None else numbers.unreadable(values)
    texts = list(dict.fromkeys(str(each) for each in values[odd].tolist()))
    if texts and may_be_missing(texts, odd, values):
        found = f"{texts[0]!r:.80} {row_numbers(table).first(odd)}; not numbers: {odd.sum()} of {len(values)} values"
        text = f"{context}: column {name!r} must hold numbers; got {found}. If these intervals are empty"
        raise TableError([Message(text, ({"missing_values": texts},), lead=", use")])
    return number_column(table, name, context, finite=False)


def _check_clusters(roles: Mapping[str, str]) -> None:
    """Raise ValueError if the column of clusters has another role, whose numbers say nothing about clusters."""
    others = {"target": "target", "lower": "lower bounds", "upper": "upper bounds", "prediction": "predictions"}
    for role, text in others.items():
        if role in roles and roles.get("clusters") == roles[role]:
            raise ValueError(f"clusters must not name the {text}; got {roles[role]!r}")


def _with_prediction(roles: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the roles; without a column of predictions, it is the one with that name, if it has no other role."""
    is_found = "prediction" in names and "prediction" not in roles.values()
    return {"prediction": "prediction", **roles} if is_found else dict(roles)


def _audit_table(
    table: Any,
    y: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    roles: Mapping[str, str],
    features: Sequence[str] | None,
    settings: Mapping[str, Any],
) -> Audit:
    """Return the audit of a table's columns, with notes on the columns that were used."""
    lower, upper = bounds
    prediction = as_numbers(column(table, roles["prediction"], "prediction")) if "prediction" in roles else None
    outcomes = Outcomes(y, (lower <= y) & (y <= upper), (lower + upper) / 2 if prediction is None else prediction)
    X, notes = searched_columns(table, features, roles.values(), outcomes)
    known = prediction if prediction is not None and np.isfinite(prediction).all() else None
    result = audit_intervals(y, bounds, X=X, prediction=known, **settings)
    return replace(result, facts=(*result.facts, *notes))


def _warn_of_swapped_bounds(lower: FloatArray, upper: FloatArray, rows: RowNumbers) -> None:
    """Print a warning if the lower bound is above the upper one in some rows, but not in all."""
    swapped = lower > upper
    if swapped.any() and not swapped.all():
        print_error(
            f"rows with lower above upper: {swapped.sum()} {rows.first(swapped)}; their intervals count as empty"
        )


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The results of the rows, which a feature must not repeat.

    Parameters
    ----------
    target : ndarray of shape (n,)
        The observed targets.
    covered : ndarray of bool, shape (n,)
        Whether the interval of each row contains its target.
    prediction : ndarray of shape (n,) or None
        The point predictions, if there are any.
    """

    target: FloatArray
    covered: BoolArray
    prediction: FloatArray | None = None

    def repeated_by(self, values: NDArray[Any]) -> str | None:
        """Return which result a column repeats; None if it repeats none."""
        codes = _codes(values)
        by_result = [np.unique(codes[self.covered]), np.unique(codes[~self.covered])]
        if [len(each) for each in by_result] == [1, 1] and len(np.unique(codes)) == 2:
            return "tells whether the row is covered"
        numbers = as_numbers(values)
        if numbers is None:
            return None
        if _equal(numbers, self.target):
            return "equals the target"
        error = None if self.prediction is None else self.target - self.prediction
        if error is not None and (_equal(numbers, error) or _equal(np.abs(numbers), np.abs(error))):
            return "equals the error of the prediction"
        return None


def searched_columns(
    table: Any, requested: Sequence[str] | None, roles: Iterable[str], outcomes: Outcomes
) -> tuple[Any | None, list[Note]]:
    """Return the columns to search for low coverage, and notes on them and on the columns that were left out.

    Dates and numbers that the table holds as text are returned as such. Without any column to search, None is returned.

    Parameters
    ----------
    table : pyarrow table
        The table.
    requested : sequence of str or None
        Names of columns; `all` or None: every column without another role; `none`: no column.
    roles : iterable of str
        Names of the columns that have another role.
    outcomes : Outcomes
        The results of the rows.
    """
    if requested is None or "all" in requested:
        taken = set(roles)
        names = [name for name in table.column_names if name not in taken]
    else:
        names = [] if list(requested) == ["none"] else list(requested)
    columns = {name: column(table, name, "features") for name in names}
    found = {name: checked_column(name, values, Recognition(), row_numbers(table)) for name, values in columns.items()}
    reasons = {
        name: _why_not_searched(values, found[name], outcomes, is_named=name in (requested or ()))
        for name, values in columns.items()
    }
    kept = [name for name, reason in reasons.items() if reason is None]
    left_out = [f"{name} ({reason})" for name, reason in reasons.items() if reason]
    notes = [Note("features searched", {"number": len(kept), "features": kept})] if kept else []
    notes += [Note("columns left out", {"columns": left_out})] if left_out else []
    notes += [note for name in kept for note in _doubts(name, found[name])]
    read = {
        name: each
        for name in kept
        if (each := found[name].read.converted) is not None and columns[name].dtype.kind != "M"
    }
    return with_columns(columns_of(table, kept), read) if kept else None, notes


def _doubts(name: str, found: CheckedColumn) -> Iterator[Note]:
    """Yield what may be wrong with a column that is searched; `audit` has only the setting for missing values."""
    odd = odd_cells_note({} if found.odd is None else {name: found.odd})
    for message in (found.problem, found.warning, *odd):
        if message is not None:
            usable = tuple(remedy for remedy in message.remedies if set(remedy) == {"missing_values"})
            yield Note("message", {"message": replace(message, remedies=usable)})


def _why_not_searched(values: NDArray[Any], found: CheckedColumn, outcomes: Outcomes, *, is_named: bool) -> str | None:
    """Return why a column is no feature; an empty text if it is constant, None if it is a feature.

    Numbers that look like an id are searched if the user names the column. Text that differs in most rows is not: it
    has no groups of rows.
    """
    numbers = as_numbers(values)
    if numbers is not None and np.isinf(numbers).any():
        return f"infinite values: {np.isinf(numbers).sum()}"
    if len(np.unique(_codes(values))) == 1:
        return ""
    if found.problem is not None and all("drop" in remedy for remedy in found.problem.remedies):
        return "neither numbers nor text nor dates"
    if found.left_out and not (is_named and numbers is not None):
        return found.left_out
    return outcomes.repeated_by(values)


def grouped_rows(table: Any, name: str) -> tuple[Groups, list[Note]]:
    """Return the groups by a column, and a note if its numbers or dates were split into thirds."""
    missing = is_missing(column(table, name, "group"))
    if missing.any():
        raise ValueError(
            f"group: column {name!r} must have a label for every row; missing labels: {missing.sum()} of "
            f"{len(missing)} {row_numbers(table).first(missing)}"
        )
    groups = column_groups(table, name, "group")
    numbers = as_numbers(column(table, name, "group"))
    if len(groups.labels) <= _MAX_GROUPS:
        return groups, []
    if numbers is not None:
        check_no_infinite(numbers, f"group: column {name!r}", rows=row_numbers(table))
    (feature,) = features_of(columns_of(table, [name]))
    if feature.categories is not None:
        return groups, []
    values = {"column": name, "values": len(groups.labels), "groups": feature.strata.labels}
    return feature.strata, [Note("groups by thirds", values)]


def _codes(values: NDArray[Any]) -> FloatArray:
    """Return the numbers of a column, or a code for each category; NaN for missing values."""
    return features_of(values[:, None])[0].values


def _equal(values: FloatArray, others: FloatArray) -> bool:
    """Return whether two columns are equal up to rounding."""
    return bool(np.isfinite(others).all() and (np.abs(values - others) <= _ROUNDING * np.abs(others).max()).all())
