"""The roles of a table's columns in `evencover audit`: groups, features, and columns that give the answer away."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover._internal.arrays import BoolArray, FloatArray, IntArray
from evencover._internal.frames import as_numbers, check_no_infinite, column, columns_of, is_missing
from evencover.diagnostics._feature_strata import features_of
from evencover.diagnostics._formatting import join_first
from evencover.groups import Groups
from evencover.studies._columns import column_groups

_MAX_GROUPS = 10  # a column of numbers with more different values is split into thirds
_MAX_TEXTS = 30  # a text column with more different values, in most rows, holds names or free text
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
        if codes.max() == 1 and len(np.unique(codes[self.covered])) == len(np.unique(codes[~self.covered])) == 1:
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
) -> tuple[list[str], list[str]]:
    """Return the columns to search for low coverage, and notes on them and on the columns that were left out.

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
    reasons = {name: _why_not_searched(column(table, name, "features"), outcomes) for name in names}
    kept = [name for name, reason in reasons.items() if reason is None]
    left_out = [f"{name} ({reason})" for name, reason in reasons.items() if reason]
    notes = [f"Features searched for low coverage ({len(kept)}): {join_first(kept)}."] if kept else []
    return kept, [*notes, *([f"Columns left out: {join_first(left_out)}."] if left_out else [])]


def _why_not_searched(values: NDArray[Any], outcomes: Outcomes) -> str | None:
    """Return why a column is no feature; an empty text if it is constant, None if it is a feature."""
    numbers = as_numbers(values)
    distinct = _codes(values).max() + 1
    if distinct == 1:
        return ""
    if numbers is not None and np.isinf(numbers).any():
        return f"infinite values: {np.isinf(numbers).sum()}"
    if numbers is None and values.dtype.kind != "M" and distinct > max(_MAX_TEXTS, len(values) / 2):
        return "text that differs in most rows"
    return outcomes.repeated_by(values)


def grouped_rows(table: Any, name: str) -> tuple[Groups, list[str]]:
    """Return the groups by a column, and a note if its numbers or dates were split into thirds."""
    groups = column_groups(table, name, "group")
    numbers = as_numbers(column(table, name, "group"))
    if len(groups.labels) <= _MAX_GROUPS:
        return groups, []
    if numbers is not None:
        check_no_infinite(numbers, f"group: column {name!r}")
    (feature,) = features_of(columns_of(table, [name]))
    if feature.categories is not None:
        return groups, []
    thirds = ", ".join(map(str, feature.strata.labels))
    return feature.strata, [f"Column {name} has {len(groups.labels)} different values, so the groups are: {thirds}."]


def _codes(values: NDArray[Any]) -> IntArray:
    """Return a code from 0 for each different value; missing values have a code, too."""
    comparable = as_numbers(values)
    if comparable is None:
        texts = np.array([str(value) for value in values.tolist()], dtype=object)
        comparable = np.where(is_missing(values), "", texts)
    return np.asarray(np.unique(comparable, return_inverse=True)[1])


def _equal(values: FloatArray, others: FloatArray) -> bool:
    """Return whether two columns are equal up to rounding."""
    return bool(np.isfinite(others).all() and (np.abs(values - others) <= _ROUNDING * np.abs(others).max()).all())
