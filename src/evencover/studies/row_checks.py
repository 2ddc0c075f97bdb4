"""What may be wrong with rows: exact copies of other rows, and values that lie extremely far from all others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evencover.display.text import count_text, number_text
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray
from evencover.inputs.frames import RowNumbers, as_numbers, is_missing
from evencover.models.extremes import OrdinaryRange
from evencover.studies.messages import Message

Copies: TypeAlias = Literal["auto", "drop", "keep"]
HashArray: TypeAlias = NDArray[np.uint64]

_MIN_SETS = 5  # of equal rows; fewer can be chance, and hardly change a result
_MIN_SHARE = 0.01  # of rows that repeat another one: fewer change the coverage by less than this
_MIN_REPEATED_TABLE = 20  # sets whose sizes have a common divisor by chance once in a million tables
_IDENTIFIES = 0.8  # share of the repeated values of a column that occur in equal rows only
_MOST_COMMON = 0.5  # of equal rows: if more have the same values in the other columns, these agree by chance


@dataclass(frozen=True, eq=False)
class EqualRows:
    """The sets of rows that are equal in all columns, the target included.

    A set with a single row is one, too. Whether two rows are equal depends on no other row. So if rows are exchangeable
    except that some are copies of others, the sets are exchangeable, and so is one row of each: splitting these rows
    keeps the guarantee, for a new row that is no copy. That copies are recognised as such (`are_copies`) depends on all
    sets in the same way; it is assumed that one more row would not change it.

    Parameters
    ----------
    first_rows : ndarray of int, shape (n,)
        The first row of the set of each row.
    sizes : ndarray of int, shape (sets,)
        The number of rows of each set.
    columns : tuple of ndarrays of shape (sets,)
        The values of each column in the first rows as hashes, those of the target last.
    """

    first_rows: IntArray
    sizes: IntArray
    columns: tuple[HashArray, ...]

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], y: FloatArray) -> "EqualRows":
        """Return the sets of equal rows of a table with these features and targets, each of shape (n,).

        Rows are compared by the sum of 64-bit hashes of their values, in O(n log n) for each column. Missing values are
        equal to each other.
        """
        hashes = [_hashes(values, number) for number, values in enumerate((*columns.values(), y))]
        _, first, sets, sizes = np.unique(_sum(hashes), return_index=True, return_inverse=True, return_counts=True)
        return cls(first[sets], sizes, tuple(each[first] for each in hashes))

    def kept(self, clusters: IntArray | None = None) -> BoolArray:
        """Return which rows remain if one row of each set is used. Shape (n,).

        Copies in the same cluster are in the same part anyway. So with the cluster of each row, shape (n,), only copies
        of rows of other clusters are left out.
        """
        labels = np.arange(len(self.first_rows)) if clusters is None else clusters
        return np.asarray(labels[self.first_rows] == labels)

    def are_copies(self, *, target_is_known: bool = False) -> bool:
        """Return whether equal rows are copies, and not independent rows that agree by chance.

        In a table of few categories and whole numbers, many rows are equal by chance. But then even more rows agree in
        one column, or in all features, and differ elsewhere. So equal rows are copies if there is a column, or all
        features together, of whose repeated values at least 80 % occur in equal rows only. The other columns must vary
        among these rows. There must be five sets of several rows, and 1 % of the rows must repeat another one. If each
        row of a table occurs twice, or three times, and so on, this is a proof by itself.

        Parameters
        ----------
        target_is_known : bool
            Whether features determine the target, so that rows with equal features have equal targets anyway.
        """
        if np.count_nonzero(self.sizes > 1) < _MIN_SETS or (n := self.sizes.sum()) - len(self.sizes) < _MIN_SHARE * n:
            return False
        if len(self.sizes) >= _MIN_REPEATED_TABLE and np.gcd.reduce(self.sizes) > 1:
            return True
        if target_is_known and len(self.columns) == 2:
            return False  # one feature determines the target: rows with the same value are equal anyway
        whole, y = _sum(self.columns), self.columns[-1]
        if any(self._identifies(key) and self._vary(whole - key) for key in self.columns):
            return True
        if target_is_known or not self._vary(y) or not self._identifies(whole - y):
            return False
        return not any(_determines(key, y) for key in self.columns[:-1])

    def _identifies(self, key: HashArray) -> bool:
        """Return whether most of the repeated values of a key occur in the rows of one set only."""
        _, codes, n_sets = np.unique(key, return_inverse=True, return_counts=True)
        alone = np.count_nonzero(self.sizes[n_sets[codes] == 1] > 1)
        return bool(alone >= max(_MIN_SETS, _IDENTIFIES * (alone + np.count_nonzero(n_sets > 1))))

    def _vary(self, values: HashArray) -> bool:
        """Return whether at most half of the sets of several rows have the same value."""
        counts = np.unique(values[self.sizes > 1], return_counts=True)[1]
        return bool(counts.max() <= _MOST_COMMON * counts.sum())


def _determines(key: HashArray, y: HashArray) -> bool:
    """Return whether rows with the same value of a key mostly have the same target, as an attribute of the value has.

    The rows differ in other columns.
    """
    _, codes, n_sets = np.unique(key, return_inverse=True, return_counts=True)
    n_targets = np.bincount(np.unique(np.column_stack([codes, np.unique(y, return_inverse=True)[1]]), axis=0)[:, 0])
    repeated = n_targets[n_sets > 1]
    return bool(len(repeated) >= _MIN_SETS and np.mean(repeated == 1) >= _IDENTIFIES)


def _sum(hashes: Sequence[HashArray]) -> HashArray:
    """Return the sum of hashes modulo 2^64: a hash of rows, from which that of a column can be subtracted."""
    total = np.zeros_like(hashes[0])
    for each in hashes:
        total += each
    return total


def _hashes(values: NDArray[Any], number: int) -> HashArray:
    """Return values as 64-bit hashes, which differ by the number of the column (the finalizer of SplitMix64)."""
    codes = _integers(values) + np.uint64((0x9E3779B97F4A7C15 * (number + 1)) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        codes = (codes ^ (codes >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(codes ^ (codes >> np.uint64(31)))


def _integers(values: NDArray[Any]) -> HashArray:
    """Return values as integers that are equal where the values are, also where both are missing."""
    if values.dtype.kind in "mM":
        return values.view(np.uint64)
    numbers = as_numbers(values)
    if numbers is not None:
        return np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.uint64)  # 0.0 for −0.0, one kind of NaN
    known, code_of = np.flatnonzero(~is_missing(values)), dict[Any, int]()
    codes = np.zeros(len(values), dtype=np.uint64)
    codes[known] = [code_of.setdefault(each, len(code_of) + 1) for each in map(_comparable, values[known].tolist())]
    return codes


def _comparable(value: Any) -> Any:
    """Return a value that can be looked up: itself, or the text of a list and the like, in columns that are dropped."""
    return value if isinstance(value, str) or getattr(value, "__hash__", None) is not None else repr(value)


def copies_message(n_copies: int, n_rows: int, not_compared: Sequence[str]) -> Message:
    """Return that rows are copies of other rows, and that one of each set of copies is used.

    Parameters
    ----------
    n_copies, n_rows : int
        Number of rows that repeat another one; number of all rows.
    not_compared : sequence of str
        Columns of row numbers and ids, in which copies may differ.
    """
    except_for = f" except {', '.join(not_compared)}" * bool(not_compared)
    text = (
        f"{count_text(n_copies)} of {count_text(n_rows)} rows are exact copies of other rows, in all columns"
        f"{except_for}. One row of each set of copies was used: otherwise a model would be calibrated and tested on "
        "rows that it was fitted on. The guarantee is for new rows that are no copies of these. To use all rows"
    )
    return Message(text, ({"copies": "keep"},), lead=", add", kind="copies")


def copies_in_sample(n_copies: int, n_sampled: int) -> Message:
    """Return that a large table seems to have copies of rows, which are used."""
    text = (
        f"in a random sample of {count_text(n_sampled)} rows, {count_text(n_copies)} are exact copies of other rows. "
        "In a table that is studied in batches, all rows are used. So the model was calibrated and tested on rows that "
        "it was fitted on, and its intervals can be too narrow. Remove the copies first"
    )
    return Message(text, kind="copies")


@dataclass(frozen=True)
class ExtremeValue:
    """A number that lies extremely far from all others of its column (`OrdinaryRange`).

    Parameters
    ----------
    column : str
        The name of the column.
    row : int
        The position of the row in the table.
    value : float
        The number.
    lowest, highest : float
        The range of the other numbers.
    is_target : bool
        Whether the column is the target.
    """

    column: str
    row: int
    value: float
    lowest: float
    highest: float
    is_target: bool = False


def extreme_values(name: str, values: FloatArray, *, is_target: bool = False) -> list[ExtremeValue]:
    """Return the extreme values of a column of numbers, with NaN for missing ones; there are at most three."""
    ordinary = OrdinaryRange.of(values[np.isfinite(values)])
    rows = np.flatnonzero(ordinary.is_extreme(values))
    return [
        ExtremeValue(name, int(row), float(values[row]), ordinary.lowest, ordinary.highest, is_target) for row in rows
    ]


def extremes_messages(extremes: Sequence[ExtremeValue], rows: RowNumbers) -> list[Message]:
    """Return which values of each column are extreme, in which rows, and what to do about them.

    Parameters
    ----------
    extremes : sequence of ExtremeValue
        The values, column by column.
    rows : RowNumbers
        How the messages number the rows.
    """
    return [_extremes_message(list(each), rows) for _, each in groupby(extremes, key=lambda each: each.column)]


def _extremes_message(extremes: Sequence[ExtremeValue], rows: RowNumbers) -> Message:
    """Return which values of one column are extreme, in which rows, and what to do about them."""
    first = extremes[0]
    found = " and ".join(f"{number_text(each.value)} in {rows.text(each.row)}" for each in extremes)
    others = f"all other values lie between {number_text(first.lowest)} and {number_text(first.highest)}"
    column = "the target" if first.is_target else "column"
    limited = "The models of evencover use the nearest of these values instead"
    text = f"{column} {first.column!r} has {found}; {others}. {limited}. If it is a mistake, correct it"
    missing = {"missing_values": [f"{each.value:.15g}" for each in extremes]}
    remedies = (missing,) if first.is_target else (missing, {"drop": [first.column]})
    return Message(text, remedies, lead=", or use", kind="extreme values")
