"""What the columns of a table are, and their encoding for models that need numbers: text, dates, missing values."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from evencover.groups import first_few
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, check_count, check_not_masked, reads_as_number
from evencover.inputs.dates import DateArray, DateFormat, as_dates, date_format, has_date_type
from evencover.inputs.frames import (
    FROM_ZERO,
    RowNumbers,
    as_numbers,
    check_no_infinite,
    column,
    column_names,
    is_missing,
    is_plain_text,
    n_rows,
    numbers_in_text,
    numeric_column,
    row_numbers,
)
from evencover.inputs.number_texts import number_unit, numbers_with_unit, odd_cells
from evencover.models.categories import MEAN_FOLDS, UNSEEN, EncodedTable, category_means, cross_fitted_means
from evencover.models.estimators import check_ready, checked_target, fitted_models, remember_features
from evencover.models.folds import fixed_folds
from evencover.models.ranges import (
    Limits,
    Outside,
    OutsideColumn,
    are_beyond,
    days_of,
    is_emptied,
    joined_limits,
    limits_of,
)

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
        Whether it holds numbers that are written as text. Cells that are no numbers are missing values then.
    unit : str
        The unit of numbers that are written as text, such as m2; empty if they have none.
    """

    left_out: str = ""
    pattern: str | None = None
    numbers: bool = False
    unit: str = ""

    def unreadable(self, values: NDArray[Any]) -> BoolArray:
        """Return which values are not dates in this format, or not numbers, if the column holds such. Shape (n,)."""
        if self.pattern is not None:
            known = ~is_missing(values)
            dates = as_dates(values, self.pattern)
            return known if dates is None else np.isnat(dates) & known
        return odd_cells(values, self.unit) if self.numbers else np.zeros(len(values), dtype=bool)

    @property
    def use(self) -> str:
        """How a model uses the column, in words."""
        if self.left_out:
            return "left out"
        if self.pattern is not None:
            return f"read as dates in the format {self.pattern}"
        if not self.numbers:
            return "used as it is"
        return f"read as numbers with the unit {self.unit}" if self.unit else "read as numbers"


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
    such: numbers may all have the same unit, and a few cells may be something else. This depends on the values of these
    rows alone, so other rows can be calibration rows.

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
    ColumnKind(left_out='', pattern='%d.%m.%Y', numbers=False, unit='')
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
        unit = number_unit(values) if numbers is None else None
        if unit is not None:
            numbers = numbers_with_unit(values, unit)
        left_out = (
            _why_text_is_id(name, values) if numbers is None else _why_number_is_id(name, numbers, self.table_rows)
        )
        return ReadColumn(ColumnKind(left_out, None, unit is not None, unit or ""), None, numbers, spelled)


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


@dataclass(frozen=True)
class EncodedColumn:
    """How one column is encoded as numbers.

    Parameters
    ----------
    name : str
        The name of the column.
    missing : int
        Number of missing values in `fit`. If there are any, an indicator column marks missing values.
    fill : float
        Replacement for a missing number: the median in `fit`.
    categories : tuple of str or None
        Values with their own indicator column, the most frequent first; None for a column of numbers.
    rare : tuple of str
        The other values in `fit`. If there are any, one indicator column marks them and all unseen values.
    text : bool
        Whether the column held text, as opposed to numbers that are treated as categories.
    unit : str or None
        For numbers that were written as text in `fit`, their unit, which may be empty. Other text is a missing value.
        None for a column that held numbers: text in new rows is an error.
    limits : tuple of two floats or None
        The limits of a column of numbers, beyond which a new one is outside of what `fit` has seen (see `limits_of`);
        None for categories, and in files that were saved without limits.
    """

    name: str
    missing: int
    fill: float = 0.0
    categories: tuple[str, ...] | None = None
    rare: tuple[str, ...] = ()
    text: bool = False
    unit: str | None = None
    limits: Limits | None = None

    @property
    def values(self) -> tuple[str, ...] | None:
        """The different values in `fit`; None for a column of numbers."""
        return None if self.categories is None else (*self.categories, *self.rare)

    @property
    def outputs(self) -> list[str]:
        """Names of the encoded columns."""
        indicator = [f"{self.name} missing"] * (self.missing > 0)
        if self.categories is None:
            return [self.name, *indicator]
        return [
            *(f"{self.name}={text}" for text in self.categories),
            *[f"{self.name} other"] * bool(self.rare),
            *indicator,
        ]

    def encoded(self, values: NDArray[Any], rows: RowNumbers = FROM_ZERO) -> FloatArray:
        """Return the values as numbers, shape (n, outputs); errors number the rows by `rows`."""
        return self._numbers(values, rows) if self.categories is None else self._indicators(values)

    def unseen(self, values: NDArray[Any], rows: RowNumbers = FROM_ZERO) -> BoolArray:
        """Return which values are beyond the limits, no numbers, or unseen categories. Shape (n,)."""
        if self.values is not None:
            return _are_unseen(values, self.values, self.name)
        numbers = _as_numbers(values, self.name, self.unit, rows)
        return are_beyond(numbers, self.limits) | (np.isnan(numbers) & ~is_missing(values))

    def _numbers(self, values: NDArray[Any], rows: RowNumbers) -> FloatArray:
        numbers = _as_numbers(values, self.name, self.unit, rows)
        missing = np.isnan(numbers)
        filled = np.where(missing, self.fill, numbers)
        return np.column_stack([filled, missing] if self.missing else [filled])

    def _indicators(self, values: NDArray[Any]) -> FloatArray:
        position = {text: number for number, text in enumerate(self.categories or ())}
        n_outputs = len(self.outputs)  # also the position of an extra column, which is removed below
        other = len(position) if self.rare else n_outputs
        missing = n_outputs - 1 if self.missing else n_outputs
        texts = _as_texts(values, self.name)
        codes = [missing if text is None else position.get(text, other) for text in texts]
        return np.eye(n_outputs + 1)[codes, :n_outputs]


@dataclass(frozen=True, eq=False)
class EncodedCategories:
    """How one column of many categories is encoded: by the mean target of each category (see `category_means`).

    Missing values are a category, if there were any in `fit`.

    Parameters
    ----------
    name : str
        The name of the column.
    missing : int
        Number of missing values in `fit`.
    categories : ndarray of str, shape (c,)
        The different values in `fit`, the most frequent first.
    counts : ndarray of int, shape (c,)
        Their numbers of rows.
    means : ndarray of shape (c + 1,), or (c + 2,) with missing values
        The mean target of each category, of missing values if there were any, and of unseen values.
    text : bool
        Whether the column held text, as opposed to numbers that are treated as categories.
    """

    name: str
    missing: int
    categories: NDArray[Any]
    counts: IntArray
    means: FloatArray
    text: bool

    @property
    def values(self) -> tuple[str, ...]:
        """The different values in `fit`."""
        return tuple(self.categories.tolist())

    @property
    def outputs(self) -> list[str]:
        """Names of the encoded columns."""
        return [f"{self.name} mean"]

    def codes(self, values: NDArray[Any]) -> IntArray:
        """Return the position of the category of each value, or that of an unseen one. Shape (n,)."""
        return _codes((*self.values, *[None] * (self.missing > 0)), values, self.name)

    def unseen(self, values: NDArray[Any], rows: RowNumbers = FROM_ZERO) -> BoolArray:  # noqa: ARG002
        """Return which values are categories that did not occur in `fit`. Shape (n,)."""
        return _are_unseen(values, self.values, self.name)


@dataclass(frozen=True)
class EncodedDate:
    """How one column of dates or times is encoded as numbers.

    Parameters
    ----------
    name : str
        The name of the column.
    missing : int
        Number of missing values in `fit`. If there are any, an indicator column marks missing values.
    fill : str
        Replacement for a missing date: the median in `fit`.
    start : str
        The first date in `fit`, from which the elapsed days are counted.
    parts : tuple of str
        The parts that vary in `fit`, of year, month, weekday (Monday is 0), hour and elapsed (days); without the month,
        if all dates are in one year.
    pattern : str or None
        The format of dates as text, in the notation of `datetime.strptime`; None for values of a date type.
    limits : tuple of two floats or None
        As those of `EncodedColumn`, in days since 1970.
    """

    name: str
    missing: int
    fill: str
    start: str
    parts: tuple[str, ...]
    pattern: str | None = None
    limits: Limits | None = None
    values = None  # no categories

    @property
    def text(self) -> bool:
        """Whether the column held text."""
        return self.pattern is not None

    @property
    def outputs(self) -> list[str]:
        """Names of the encoded columns."""
        return [*(f"{self.name} {part}" for part in self.parts), *[f"{self.name} missing"] * (self.missing > 0)]

    def encoded(self, values: NDArray[Any], rows: RowNumbers = FROM_ZERO) -> FloatArray:
        """Return the values as numbers, shape (n, outputs); errors number the rows by `rows`."""
        dates = dates_of(values, self.name, self.pattern, rows)
        missing = np.isnat(dates)
        parts = date_parts(np.where(missing, np.datetime64(self.fill), dates), np.datetime64(self.start))
        columns = [*(parts[part] for part in self.parts), *[missing] * (self.missing > 0)]
        return np.column_stack(columns).astype(np.float64) if columns else np.empty((len(values), 0))

    def unseen(self, values: NDArray[Any], rows: RowNumbers = FROM_ZERO) -> BoolArray:
        """Return which dates are beyond the limits. Shape (n,)."""
        return are_beyond(days_of(dates_of(values, self.name, self.pattern, rows)), self.limits)


Encoded: TypeAlias = EncodedColumn | EncodedCategories | EncodedDate


def date_parts(dates: DateArray, start: np.datetime64) -> dict[str, FloatArray]:
    """Return year, month, weekday (Monday is 0), hour and the days elapsed since the start. None may be missing."""
    days, months = dates.astype("datetime64[D]"), dates.astype("datetime64[M]")
    return {
        "year": 1970.0 + dates.astype("datetime64[Y]").astype(np.int64),
        "month": 1.0 + months.astype(np.int64) % 12,
        "weekday": (days.astype(np.int64) + 3.0) % 7,  # day 0, 1 January 1970, was a Thursday
        "hour": (dates - days) / np.timedelta64(1, "h"),
        "elapsed": (days - start.astype("datetime64[D]")) / np.timedelta64(1, "D"),
    }


def dates_of(values: NDArray[Any], name: str, pattern: str | None, rows: RowNumbers = FROM_ZERO) -> DateArray:
    """Return a column as dates, with NaT for missing values; raise ValueError for any other value."""
    missing = is_missing(values)
    dates = as_dates(values, pattern)
    if dates is None and missing.all():
        return np.full(len(values), np.datetime64("NaT"))
    bad = ~missing if dates is None else np.isnat(dates) & ~missing
    if dates is None or bad.any():
        rule = ", as it did in fit" if pattern is None else f" in the format {pattern}"
        raise ValueError(f"column {name!r} must hold dates{rule}; got {values[bad][0]!r} in {rows.text(bad.argmax())}")
    return dates


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table as numbers: impute and mark missing values, encode text, take dates apart.

    In a column of numbers, missing values are replaced by the median, and an indicator column (0 or 1) marks them. In a
    column of text with few values, each value gets an indicator column, and missing values get one. A value that did
    not occur in `fit` is 0 in all columns.

    A column of text with more values becomes one column: the mean target of each value, drawn towards the mean of all
    rows if the value is rare (`category_means`). A value that did not occur in `fit` has the mean of all rows.
    `fit_transform` gives each training row the mean over other rows, so that a model does not take its own target for
    knowledge; a pipeline uses it. The result is then an `EncodedTable`: an array-like that also has the codes of the
    values, which `AutoRegressor` uses. Without targets in `fit`, only the most frequent values get an indicator column,
    and all others share one.

    A column of dates or times becomes year, month, weekday, hour and elapsed days, as far as these vary.
    Missing dates are replaced by the median date and marked.

    Parameters
    ----------
    categorical : sequence of str or int
        Columns of numbers to treat as categories, such as codes; by name, or by position in an array.
    dates : mapping from str or int to str, optional
        Columns of text, or of numbers like 20201231, that are dates, with their format in the notation of
        `datetime.strptime`, such as ``{"sold": "%d.%m.%Y"}``; also ``%q`` for a quarter, as in ``"%Y Q%q"``, and weeks
        without a day, as in ``"%G-W%V"``. Columns of date types need not be named.
    numbers : mapping from str or int to str, optional
        Columns of text that are numbers, with their unit, such as ``{"area": "m2"}``, or with an empty text. Cells that
        are no such numbers are missing values.
    ignored : sequence of str or int
        Columns that are not features, for example because only a taxonomy uses them.
    max_categories : int
        Maximum number of values of a column that get their own indicator column each.
    panel_units : sequence of str or int
        Columns of categories whose codes are kept, too, however few values they have: the units of a panel, such as
        firms. `AutoRegressor` uses their last values, if it predicts later rows.
    recognition : Recognition, optional
        How `fit` recognises row numbers and ids, which are left out, and text that is dates or numbers. By default no
        column is left out, and text is categories unless `dates` names it.

    Attributes
    ----------
    columns_ : tuple of EncodedColumn, EncodedCategories and EncodedDate
        How each column is encoded that is not left out. If there is none, the result is one column of zeros.
    n_rows_ : int or None
        Number of rows of `fit`; None in files that were saved without it.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"area": [50.0, None, 80.0], "region": ["north", "south", "north"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.transform(table)
    array([[50.,  0.,  1.,  0.],
           [65.,  1.,  0.,  1.],
           [80.,  0.,  1.,  0.]])
    >>> encoder.get_feature_names_out().tolist()
    ['area', 'area missing', 'region=north', 'region=south']
    """

    recognition: Recognition | None = None  # of encoders in files that were saved without them
    panel_units: Sequence[str | int] = ()
    numbers: Mapping[Any, str] | None = None
    n_rows_: int | None = None

    def __init__(
        self,
        *,
        categorical: Sequence[str | int] = (),
        dates: Mapping[Any, str] | None = None,
        numbers: Mapping[Any, str] | None = None,
        ignored: Sequence[str | int] = (),
        max_categories: int = 30,
        panel_units: Sequence[str | int] = (),
        recognition: Recognition | None = None,
    ) -> None:
        self.categorical = categorical
        self.dates = dates
        self.numbers = numbers
        self.ignored = ignored
        self.max_categories = max_categories
        self.panel_units = panel_units
        self.recognition = recognition

    def fit(self, X: Any, y: Any = None, *, clusters: Any = None) -> Self:  # noqa: ARG002
        """Learn the type, median and categories of each column, and the mean target of categories if there are many.

        Parameters
        ----------
        X : table of n rows
            The table.
        y : array-like of shape (n,), optional
            Targets.
        clusters : array-like of shape (n,), optional
            Only `fit_transform` uses them: the means of a training row are those over rows of other clusters.
        """
        check_count(self.max_categories, "max_categories")
        target = None if y is None else checked_target(self, X, y)
        X = _checked_table(self, X, reset=True)
        names = column_names(X) or range(X.shape[1])
        for argument, given in (
            ("categorical", self.categorical),
            ("dates", self._patterns),
            ("numbers", self._number_units),
            ("ignored", self.ignored),
            ("panel_units", self.panel_units),
        ):
            _check_column_names(argument, given, names)
        columns = ((name, values, self.kind(name, values)) for name, values in self._columns(X))
        self.columns_: tuple[Encoded, ...] = tuple(
            self._learn_column(name, values, kind, target) for name, values, kind in columns if not kind.left_out
        )
        self.n_rows_ = n_rows(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, clusters: Any = None) -> Any:
        """Learn from a table, and return it as numbers: its rows have mean targets over rows of other folds."""
        self.fit(X, y)
        encoded = self.transform(X)
        if not isinstance(encoded, EncodedTable):
            return encoded
        target, folds = checked_target(self, X, y), fixed_folds(len(encoded), MEAN_FOLDS, clusters)
        many = (known for known in self.columns_ if isinstance(known, EncodedCategories))
        pairs = zip(encoded.codes.T, many, strict=False)  # codes of units come last, and have no means
        means = [cross_fitted_means(codes, target, len(known.means) - 1, folds) for codes, known in pairs]
        return replace(encoded, means=np.column_stack(means)) if means else encoded

    def kind(self, name: str | int, values: NDArray[Any]) -> ColumnKind:
        """Return what a column with these values is: by the arguments, or as `fit` recognises it."""
        if name in self._patterns:
            return ColumnKind(pattern=self._patterns[name])
        if name in self._number_units:
            return ColumnKind(numbers=True, unit=self._number_units[name])
        if self.recognition is None or name in self.categorical or name in self.ignored:
            return ColumnKind()
        return self.recognition.kind(name, values)

    def transform(self, X: Any) -> Any:
        """Return the table as numbers, shape (n, outputs): an `EncodedTable` if columns have many categories."""
        check_is_fitted(self)
        X = _checked_table(self, X, reset=False)
        rows = row_numbers(X)
        blocks, many, units = [], [], []
        for known, values in self._known_columns(X):
            if isinstance(known, EncodedCategories):
                many.append((known, known.codes(values)))
                continue
            blocks.append(known.encoded(values, rows))
            if known.values is not None and known.name in map(str, self.panel_units):
                units.append(_codes(known.values, values, known.name))
        if self._is_constant:
            return np.zeros((n_rows(X), 1))
        numbers = np.concatenate(blocks, axis=1) if blocks else np.empty((n_rows(X), 0))
        if not many and not units:
            return numbers
        means = [known.means[codes] for known, codes in many]
        codes = np.column_stack([*(codes for _, codes in many), *units])
        return EncodedTable(numbers, np.column_stack(means) if means else np.empty((n_rows(X), 0)), codes)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the names of the encoded columns, those of means last. Shape (outputs,)."""
        check_is_fitted(self)
        columns = sorted(self.columns_, key=lambda known: isinstance(known, EncodedCategories))
        names = ["constant"] if self._is_constant else [name for known in columns for name in known.outputs]
        return np.array(names, dtype=object)

    def outside(self, X: Any) -> Outside:
        """Return which rows are outside of what `fit` has seen, and in which columns.

        A row is outside if it has a number or a date far beyond the range in `fit` (see `evencover.models.ranges`), a
        category that did not occur in `fit`, or a missing value in a column that was never missing in `fit`. Whether a
        row is outside does not depend on the other rows.

        Parameters
        ----------
        X : table of n rows
            New rows, with the columns of `fit`.

        Examples
        --------
        >>> import pandas as pd
        >>> rooms = pd.DataFrame({"area": np.linspace(20, 90, 50), "region": ["north", "south"] * 25})
        >>> print(TableEncoder().fit(rooms).outside(pd.DataFrame({"area": [50, 5000], "region": ["north", "west"]})))
        1 of 2 rows are outside what the model has seen: area (1, such as 5000), region (1, such as 'west')
        """
        check_is_fitted(self)
        X = _checked_table(self, X, reset=False)
        rows, n = row_numbers(X), n_rows(X)
        columns, without_values = [], []
        for known, values in self._known_columns(X):
            missing, unseen = is_missing(values), known.unseen(values, rows)
            if missing.all() and is_emptied(known.missing, self.n_rows_, n):
                without_values.append(known.name)
            example = values[unseen.argmax()] if unseen.any() else None
            if not known.missing:
                unseen = unseen | missing
            if unseen.any():
                columns.append(OutsideColumn(known.name, unseen, _plain(example)))
        return Outside(n, tuple(columns), tuple(without_values))

    def has_unseen(self, X: Any) -> BoolArray:
        """Return which rows have a category, of columns with many, that did not occur in `fit`. Shape (n,)."""
        many = [(known, values) for known, values in self._known_columns(X) if isinstance(known, EncodedCategories)]
        rows = np.zeros(n_rows(X), dtype=bool)
        for known, values in many:
            rows |= known.unseen(values)
        return rows

    def odd_values(self, X: Any) -> list[str]:
        """Return a message for each column that was read as numbers and has other text, which counts as missing."""
        columns = ((known, values) for known, values in self._known_columns(X) if isinstance(known, EncodedColumn))
        return [message for known, values in columns for message in _odd_message(known, values)]

    def _columns(self, X: Any) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield the name and the values of each column that is a feature."""
        for name in column_names(X) or range(X.shape[1]):
            if name not in self.ignored:
                yield name, column(X, name, "TableEncoder")

    def _known_columns(self, X: Any) -> Iterator[tuple[Encoded, NDArray[Any]]]:
        """Yield how each column is encoded that is not left out, and its values."""
        known = {each.name: each for each in self.columns_}
        for name, values in self._columns(X):
            if str(name) in known:
                yield known[str(name)], values

    @property
    def _is_constant(self) -> bool:
        """Whether no column that was recognised gives a number, so that a model gets one column of zeros."""
        return self.recognition is not None and not any(known.outputs for known in self.columns_)

    @property
    def _patterns(self) -> Mapping[Any, str]:
        return self.dates or {}

    @property
    def _number_units(self) -> Mapping[Any, str]:
        return self.numbers or {}

    def _learn_column(
        self, name: str | int, values: NDArray[Any], kind: ColumnKind, target: FloatArray | None
    ) -> Encoded:
        """Return how to encode a column with these values, in rows with these targets."""
        if kind.pattern is not None or (name not in self.categorical and has_date_type(values)):
            return _learn_dates(str(name), values, kind.pattern)
        if kind.numbers or (name not in self.categorical and as_numbers(values) is not None):
            unit = kind.unit if kind.numbers else None
            numbers = _as_numbers(values, str(name), unit)
            known = numbers[~np.isnan(numbers)]
            if len(known):
                missing, fill = len(numbers) - len(known), float(np.median(known))
                limits = limits_of(known)
                return EncodedColumn(str(name), missing, fill, text=kind.numbers, unit=unit, limits=limits)
            return EncodedColumn(str(name), len(numbers), categories=())  # new rows may have numbers or text
        texts = _as_texts(values, str(name))
        counts = Counter(texts)
        missing_rows = counts.pop(None, 0)
        ranked = sorted(counts, key=lambda text: (-counts[text], str(text)))
        is_text = as_numbers(values) is None
        if target is not None and len(ranked) > self.max_categories:
            many = EncodedCategories(
                str(name),
                missing_rows,
                np.array(ranked, dtype=str),
                np.array([counts[text] for text in ranked]),
                np.empty(0),
                is_text,
            )
            return replace(many, means=category_means(many.codes(values), target, len(ranked) + (missing_rows > 0)))
        kept, rare = tuple(ranked[: self.max_categories]), tuple(ranked[self.max_categories :])
        return EncodedColumn(str(name), missing_rows, 0.0, kept, rare, is_text)  # type: ignore[arg-type]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def encoder_of(regressor: Any) -> TableEncoder | None:
    """Return the encoder of a regressor's table, that of all folds together; None if it has none."""
    pipelines = (model for model in fitted_models(regressor) if isinstance(model, Pipeline))
    encoders = [pipeline[0] for pipeline in pipelines if isinstance(pipeline[0], TableEncoder)]
    return joined_encoder(encoders) if encoders else None


def joined_encoder(encoders: Sequence[TableEncoder]) -> TableEncoder:
    """Return an encoder whose `outside` knows what occurred in the `fit` of any of several, such as of folds."""
    result = copy(encoders[0])
    by_name: dict[str, list[Encoded]] = {}
    for known in (known for encoder in encoders for known in encoder.columns_):
        by_name.setdefault(known.name, []).append(known)
    result.columns_ = tuple(map(_joined_column, by_name.values()))
    numbers = [encoder.n_rows_ for encoder in encoders]
    result.n_rows_ = None if None in numbers else sum(filter(None, numbers))
    return result


def _joined_column(columns: Sequence[Encoded]) -> Encoded:
    """Return a column that has the missing values, categories and limits of several encodings of it."""
    missing = sum(each.missing for each in columns)
    known = [each for each in columns if each.values is not None]
    if not known:
        same = len({type(each) for each in columns}) == 1
        limits = joined_limits([each.limits for each in columns]) if same else None  # type: ignore[union-attr]
        return replace(columns[0], missing=missing, limits=limits)  # type: ignore[arg-type]
    texts = tuple(dict.fromkeys(text for each in known for text in each.values or ()))
    return EncodedColumn(known[0].name, missing, categories=texts, text=any(each.text for each in known))


def _learn_dates(name: str, values: NDArray[Any], pattern: str | None) -> EncodedDate:
    """Return how to encode a column with these dates: the parts that vary."""
    dates = dates_of(values, name, pattern)
    known = np.sort(dates[~np.isnat(dates)])
    if not len(known):
        return EncodedDate(name, len(dates), "1970-01-01", "1970-01-01", (), pattern)
    parts = tuple(part for part, numbers in date_parts(known, known[0]).items() if np.ptp(numbers) > 0)
    if "year" not in parts:  # in one year, the month only repeats the elapsed days, until it falls back in January
        parts = tuple(part for part in parts if part != "month")
    missing, median, limits = len(dates) - len(known), str(known[len(known) // 2]), limits_of(days_of(known))
    return EncodedDate(name, missing, median, str(known[0]), parts, pattern, limits)


def _checked_table(encoder: TableEncoder, X: Any, *, reset: bool) -> Any:
    """Return a frame unchanged, anything else as an array; its columns are stored, or compared with the stored ones."""
    check_not_masked(X, "X")
    if column_names(X) is None:
        return validate_data(encoder, X, reset=reset, dtype=None, ensure_all_finite=False)
    if reset:
        remember_features(encoder, X)
    else:
        check_ready(encoder, X)
    return X


def _check_column_names(argument: str, given: Any, names: Sequence[Any]) -> None:
    """Raise unless every given name is a column of X."""
    if isinstance(given, str):
        raise TypeError(f"{argument} must be a sequence of names of columns; got the text {given!r}")
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"{argument} must name columns of X, which has {first_few(list(names))}; got {unknown}")


def _odd_message(known: EncodedColumn, values: NDArray[Any]) -> list[str]:
    """Return a message if a column that was read as numbers has text that is no number."""
    if known.unit is None or not (odd := odd_cells(values, known.unit)).any():
        return []
    such = f"numbers with the unit {known.unit!r}" if known.unit else "numbers"
    cells = values[odd].tolist()
    return [f"{known.name!r}: values that are not {such} count as missing, such as {cells[0]!r}; rows: {len(cells)}"]


def _as_numbers(values: NDArray[Any], name: str, unit: str | None, rows: RowNumbers = FROM_ZERO) -> FloatArray:
    """Return a column as numbers, with NaN for missing values; raise ValueError for infinite values.

    Text that is no number with the unit is missing. Without a unit, it raises ValueError.
    """
    numbers = as_numbers(values) if unit is None else numbers_with_unit(values, unit)
    if numbers is None:
        numbers = numbers_in_text(values)
    if numbers is None:
        numbers = numeric_column(values, f"column {name!r}", rule="must hold numbers, as it did in fit", rows=rows)
    check_no_infinite(numbers, f"column {name!r}", rows=rows)
    return numbers


def _codes(categories: Sequence[str | None], values: NDArray[Any], name: str) -> IntArray:
    """Return the position of each value among the categories, of which None is a missing value. Shape (n,)."""
    position = {text: code for code, text in enumerate(categories)}
    return np.array([position.get(text, UNSEEN) for text in _as_texts(values, name)], dtype=np.intp)


def _as_texts(values: NDArray[Any], name: str) -> list[str | None]:
    """Return a column as text, with None for missing values; whole numbers are written without a decimal point."""
    if values.dtype.kind in "mM":
        raise ValueError(f"column {name!r} must hold numbers or text; got values of type {values.dtype}")
    cells: list[Any] = values.tolist()
    if is_plain_text(cells):
        return cells
    missing = is_missing(values).tolist()
    return [None if absent else _text(value, name) for value, absent in zip(cells, missing, strict=True)]


def _are_unseen(values: NDArray[Any], seen: tuple[str, ...], name: str) -> BoolArray:
    """Return which values, as text, are none of those that were seen; missing ones are not. Shape (n,)."""
    texts = _as_texts(values, name)
    new = set(texts).difference(seen, [None])
    return np.array([text in new for text in texts]) if new else np.zeros(len(texts), dtype=bool)


def _plain(value: Any) -> Any:
    """Return a value of a column as a Python object, a date as `datetime`."""
    value = value.astype("datetime64[us]") if isinstance(value, np.datetime64) else value
    return value.item() if isinstance(value, np.generic) else value


def _text(value: Any, name: str) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, str | bool | int | float):
        kind = type(value).__name__
        raise ValueError(
            f"column {name!r} must hold numbers or text; got {value!r} of type {kind}. Convert the column to one of "
            "these, or leave it out"
        )
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
