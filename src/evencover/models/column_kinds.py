"""What a column of a table is: numbers, dates, categories, or row numbers and ids, which are no features."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import BoolArray, FloatArray, reads_as_number
from evencover.inputs.dates import DateArray, DateFormat, as_dates, date_format, has_date_type
from evencover.inputs.frames import as_numbers, is_missing, numbers_in_text

MAX_CATEGORIES = 30  # different texts of a column that are categories without question
_MIN_ROWS = 10  # in a shorter table, different values mean nothing
_MIN_EXPECTED_PAIRS = 3  # of equal numbers, if numbers were random
_KEY_SHARE = 0.9  # share of different values in a column of ids
_INDEX_NAMES = re.compile(r"(column|unnamed:) \d+|__index_level_\d+__|rownames?|row|index", re.IGNORECASE)
_ID_NAMES = re.compile(
    r"(.*[\W_])?(ids?([\W_](str|no|nr|number))?|uuid|guid|key|idx|rowid|obs|serial)|[pusceg]id", re.IGNORECASE
)
_CAMEL_CASE_ID = re.compile(r".*[a-z]I[dD]")
_TIME_NAMES = re.compile(
    r"(.*[\W_])?(t|time|timestamp|date|year|yr|quarter|month|week|day|days|hour|minute|period|season)", re.IGNORECASE
)


@dataclass(frozen=True)
class ColumnKind:
    """What a column is, from some of its values.

    Parameters
    ----------
    left_out : str
        Why it is no feature; empty if it is one.
    pattern : str or None
        The format of dates that are written as text or numbers, in the notation of `datetime.strptime`.
    numbers : bool
        Whether it holds numbers that are written as text.
    """

    left_out: str = ""
    pattern: str | None = None
    numbers: bool = False

    def unreadable(self, values: NDArray[Any]) -> BoolArray:
        """Return which values are not dates in this format, or not numbers, if the column holds such. Shape (n,)."""
        known = ~is_missing(values)
        if self.pattern is not None:
            dates = as_dates(values, self.pattern)
            return known if dates is None else np.isnat(dates) & known
        if self.numbers and as_numbers(values) is None:
            return known & [not reads_as_number(value) for value in values.tolist()]
        return np.zeros(len(values), dtype=bool)

    @property
    def use(self) -> str:
        """How a model uses the column, in words."""
        if self.left_out:
            return "left out"
        if self.pattern is not None:
            return f"read as dates in the format {self.pattern}"
        return "read as numbers" if self.numbers else "used as it is"


@dataclass(frozen=True, eq=False)
class ReadColumn:
    """A column as it was recognised.

    Parameters
    ----------
    kind : ColumnKind
        What it is.
    dates : ndarray of dates or None
        The values of a column of dates or times.
    numbers : ndarray of shape (n,) or None
        The values of a column of numbers, also of numbers that are written as text.
    spelled : DateFormat or None
        The format of dates that values have, maybe only some of them: then it is no column of dates.
    """

    kind: ColumnKind = ColumnKind()
    dates: DateArray | None = None
    numbers: FloatArray | None = None
    spelled: DateFormat | None = None

    @property
    def converted(self) -> NDArray[Any] | None:
        """The dates or numbers that text was read as; None if the values are used as they are."""
        return self.numbers if self.kind.numbers else self.dates


@dataclass(frozen=True)
class Recognition:
    """How `TableEncoder` recognises what each column is, from the rows that it is fitted on.

    Row numbers, ids by name, and text that differs in most rows are left out. Text that is dates or numbers is read as
    such. This depends on the values of these rows alone, so other rows can be calibration rows.

    Parameters
    ----------
    keep : sequence of str
        Columns that are features although they look like row numbers or ids.
    unchanged : sequence of str
        Columns that are features as they are.
    day_first : bool
        Whether 03/04/2020 is in April, if no other date of the column shows it.
    table_rows : int, optional
        Number of rows of the whole table, if the encoder is fitted on some of them: whole numbers from 0 or 1 to this
        number, all different, are row numbers. By default the encoder is fitted on all rows.

    Examples
    --------
    >>> Recognition().kind("sold", np.array(["31.12.2020", "24.12.2021"]))
    ColumnKind(left_out='', pattern='%d.%m.%Y', numbers=False)
    >>> Recognition(table_rows=40).kind("number", np.arange(1, 40, 2)).left_out
    'row numbers'
    """

    keep: Sequence[str] = ()
    unchanged: Sequence[str] = ()
    day_first: bool = False
    table_rows: int | None = None

    def kind(self, name: Any, values: NDArray[Any]) -> ColumnKind:
        """Return what a column with these values is.

        Parameters
        ----------
        name : str
            The name of the column.
        values : ndarray of shape (n,)
            Its values in the rows that decide.
        """
        return self.read(name, values).kind

    def read(self, name: Any, values: NDArray[Any]) -> ReadColumn:
        """Return what a column with these values is, and its dates or numbers; the parameters are those of `kind`."""
        if name in self.unchanged:
            return ReadColumn()
        if has_date_type(values):
            return ReadColumn(dates=as_dates(values))
        found = self._read(str(name), values)
        return replace(found, kind=replace(found.kind, left_out="")) if name in self.keep else found

    def _read(self, name: str, values: NDArray[Any]) -> ReadColumn:
        spelled = date_format(values, day_first=self.day_first)
        kind = ColumnKind(pattern=None if spelled is None else spelled.pattern)
        if spelled is not None and not kind.unreadable(values).any():
            return ReadColumn(kind, as_dates(values, spelled.pattern), spelled=spelled)
        numbers = as_numbers(values)
        is_text = numbers is None
        if is_text:
            numbers = numbers_in_text(values)
        left_out = (
            _why_text_is_id(name, values) if numbers is None else _why_number_is_id(name, numbers, self.table_rows)
        )
        return ReadColumn(ColumnKind(left_out, numbers=is_text and numbers is not None), None, numbers, spelled)


def is_time_name(name: str) -> bool:
    """Return whether a name is that of a time, such as year or order_date."""
    return _TIME_NAMES.fullmatch(str(name)) is not None


def is_id_name(name: str) -> bool:
    """Return whether a name is that of an index or an id, such as patient_id."""
    return any(pattern.fullmatch(str(name)) for pattern in (_INDEX_NAMES, _ID_NAMES, _CAMEL_CASE_ID))


def _why_number_is_id(name: str, numbers: FloatArray, table_rows: int | None) -> str:
    """Return why a column of numbers is an id; empty if it is not."""
    known = numbers[np.isfinite(numbers)]
    if len(numbers) < _MIN_ROWS or not len(known) or np.any(known % 1):
        return ""
    distinct = np.unique(known)
    if len(distinct) == len(numbers) and not is_time_name(name) and _are_row_numbers(distinct, table_rows):
        complete = table_rows in (None, len(numbers))
        return "row numbers" + f" from {distinct[0]:.0f} to {distinct[-1]:.0f}" * complete
    if is_id_name(name) and len(distinct) >= _KEY_SHARE * len(known):
        return f"an id: {len(distinct)} different numbers in {len(known)} rows"
    return ""


def _are_row_numbers(distinct: FloatArray, table_rows: int | None) -> bool:
    """Return whether different whole numbers, in order, are row numbers of a table, counted from 0 or 1.

    Of so many random whole numbers below the number of rows, three pairs or more would be equal on average.
    """
    m, n = len(distinct), len(distinct) if table_rows is None else table_rows
    if m * (m - 1) / (2 * n) < _MIN_EXPECTED_PAIRS:
        return False
    return any(start <= distinct[0] and distinct[-1] < start + n for start in (0, 1))


def _why_text_is_id(name: str, values: NDArray[Any]) -> str:
    """Return why a column of text is an id; empty if it is not."""
    counts = Counter(str(value) for value in values[~is_missing(values)].tolist())
    n, distinct = counts.total(), len(counts)
    if all(map(reads_as_number, counts)):  # some are numbers, and some are text
        return ""
    many = distinct > max(MAX_CATEGORIES, n / 2)
    if many or (n >= _MIN_ROWS and distinct >= (_KEY_SHARE if is_id_name(name) else 1) * n):
        return f"text with {distinct} different values in {n} rows"
    return ""
