"""Counts of covered rows in parts of the data, and a random sample of its rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray
from evencover.distributed._batches import Batch, codes_of, import_arrow, label_codes, named_errors, numbers
from evencover.groups import Label
from evencover.intervals import Intervals, Side
from evencover.metrics import interval_scores
from evencover.table_columns import TableColumns

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
