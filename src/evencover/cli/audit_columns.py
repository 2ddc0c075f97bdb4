"""The roles of a table's columns in `evencover audit`: groups, features, and columns that give the answer away."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover.diagnostics.regions import features_of
from evencover.display.text import join_first
from evencover.groups import Groups
from evencover.inputs.arrays import BoolArray, FloatArray
from evencover.inputs.frames import (
    as_numbers,
    check_no_infinite,
    column,
    columns_of,
    is_missing,
    row_numbers,
    with_columns,
)
from evencover.models.encoding import Recognition
from evencover.studies.column_checks import CheckedColumn, checked_column
from evencover.studies.table_preparation import column_groups
from evencover.words.settings import COMMAND_LINE, message_sentence

_MAX_GROUPS = 10  # a column of numbers with more different values is split into thirds
_ROUNDING = 1e-6  # relative to the largest value


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
    table: Any, requested: Sequence[str] | None, roles: Iterable[str | None], outcomes: Outcomes
) -> tuple[Any | None, list[str]]:
    """Return the columns to search for low coverage, and notes on them and on the columns that were left out.

    Dates that the table holds as text are returned as dates. Without any column to search, None is returned.

    Parameters
    ----------
    table : pyarrow table
        The table.
    requested : sequence of str or None
        Names of columns; `all` or None: every column without another role; `none`: no column.
    roles : iterable of str or None
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
    notes = [f"Features searched for low coverage ({len(kept)}): {join_first(kept)}."] if kept else []
    notes += [f"Columns left out: {join_first(left_out)}."] if left_out else []
    notes += [sentence for name in kept for sentence in _doubts(found[name])]
    dates = {
        name: each for name in kept if (each := found[name].read.dates) is not None and columns[name].dtype.kind != "M"
    }
    return with_columns(columns_of(table, kept), dates) if kept else None, notes


def _doubts(found: CheckedColumn) -> Iterator[str]:
    """Yield what may be wrong with a column that is searched; `audit` has only the setting for missing values."""
    for message in (found.problem, found.warning):
        if message is not None:
            usable = tuple(remedy for remedy in message.remedies if set(remedy) == {"missing_values"})
            yield message_sentence(replace(message, remedies=usable), COMMAND_LINE)


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


def grouped_rows(table: Any, name: str) -> tuple[Groups, list[str]]:
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
    thirds = ", ".join(map(str, feature.strata.labels))
    return feature.strata, [f"Column {name} has {len(groups.labels)} different values, so the groups are: {thirds}."]


def _codes(values: NDArray[Any]) -> FloatArray:
    """Return the numbers of a column, or a code for each category; NaN for missing values."""
    return features_of(values[:, None])[0].values


def _equal(values: FloatArray, others: FloatArray) -> bool:
    """Return whether two columns are equal up to rounding."""
    return bool(np.isfinite(others).all() and (np.abs(values - others) <= _ROUNDING * np.abs(others).max()).all())
