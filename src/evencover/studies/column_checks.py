"""What columns are, and what may be wrong with them: ids, dates, dependence between rows, leaks, the target."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, reads_as_number, too_large
from evencover.inputs.dates import (
    MIN_NUMBERS,
    DateFormat,
    has_date_type,
    is_day_first,
    numbers_that_are_dates,
)
from evencover.inputs.frames import (
    FROM_ZERO,
    RowNumbers,
    as_numbers,
    column,
    first_non_numeric,
    infinite_values,
    is_missing,
    numbers_in_text,
    rounded_values,
)
from evencover.inputs.number_texts import are_missing_cells, numbers_with_unit, shared_unit
from evencover.models.encoding import (
    MAX_CATEGORIES,
    ColumnKind,
    Encoded,
    EncodedCategories,
    ReadColumn,
    Recognition,
    is_id_name,
    is_time_name,
)
from evencover.studies.doubtful_values import MAX_TEXTS, OddCells
from evencover.studies.messages import Message
from evencover.target_support import Support

MAX_WORDS = 3  # different words among numbers that may all mean a missing value


@dataclass(frozen=True, eq=False)
class CheckedColumn:
    """A column, and what may be wrong with it.

    Parameters
    ----------
    read : ReadColumn
        What it was recognised as; if it cannot be used as it is, this may be a column that is used unchanged.
    problem, warning : Message or None
        Why it cannot be used as it is; what may be wrong.
    odd : OddCells or None
        The cells of a column of numbers that are no numbers.
    """

    read: ReadColumn = field(default_factory=ReadColumn)
    problem: Message | None = None
    warning: Message | None = None
    odd: OddCells | None = None

    @property
    def left_out(self) -> str:
        """Why the column is no feature; empty if it is one."""
        return self.read.kind.left_out


def checked_column(
    name: str, values: NDArray[Any], recognition: Recognition, rows: RowNumbers = FROM_ZERO
) -> CheckedColumn:
    """Return what a column is whose role the user did not name, and what may be wrong with it.

    Parameters
    ----------
    name : str
        Its name.
    values : ndarray of shape (n,)
        Its values.
    recognition : Recognition
        How to recognise what it is.
    rows : RowNumbers
        How messages number the rows.
    """
    read = recognition.read(name, values)
    if read.dates is not None:
        return CheckedColumn(read, warning=_ambiguous_dates(name, values, read.spelled))
    if read.spelled is not None:
        unreadable = ColumnKind(pattern=read.spelled.pattern).unreadable(values)
        return CheckedColumn(problem=_mixed_dates_problem(name, values, unreadable, rows))
    if read.numbers is not None:
        unreadable = read.kind.unreadable(values)
        odd = OddCells.of(values, unreadable, rows) if unreadable.any() else None
        if odd is not None and not odd.are_few:
            return CheckedColumn(problem=mixed_problem(name, values, read.kind, rows))
        return CheckedColumn(read, _number_problem(name, values, read.numbers, rows), odd=odd)
    problem = type_problem(name, values, rows) or _mixed_text_problem(name, values, rows)
    return CheckedColumn(read) if problem is None else CheckedColumn(problem=problem)


def type_problem(name: str, values: NDArray[Any], rows: RowNumbers) -> Message | None:
    """Return the problem of a column that holds neither numbers nor text; None if it holds them."""
    if values.dtype.kind == "m":
        text = f"column {name!r} must hold numbers, text or dates; got durations, of type {values.dtype}"
        return Message(text, ({"drop": [name]},))
    cells = values[known := np.flatnonzero(~is_missing(values))].tolist()
    others = {kind for kind in set(map(type, cells)) if not issubclass(kind, str | bool | int | float | np.generic)}
    for row, value in zip(known, cells, strict=True) if others else ():
        if type(value) in others:
            found = f"{value!r:.80} of type {type(value).__name__} in {rows.text(row)}"
            return Message(f"column {name!r} must hold numbers, text or dates; got {found}", ({"drop": [name]},))
    return None


def _ambiguous_dates(name: str, values: NDArray[Any], spelled: DateFormat | None) -> Message | None:
    """Return the warning that dates can be read in two ways, unless the user has asked for one of them."""
    if spelled is None or spelled.other is None or is_day_first(spelled.pattern):
        return None
    example = values[~is_missing(values)][0]
    text = f"column {name!r} has dates such as {example!r}, which can be read in two ways; read with the month first"
    return Message(text, ({"day_first": True},))


def _mixed_dates_problem(name: str, values: NDArray[Any], unreadable: BoolArray, rows: RowNumbers) -> Message:
    """Return the problem of a column of dates with other values in some rows."""
    known = ~is_missing(values)
    example, *_ = values[known & ~unreadable].tolist()
    others = values[unreadable].tolist()
    text = (
        f"column {name!r} holds dates such as {example!r}, and {others[0]!r:.80} in {rows.text(unreadable.argmax())}; "
        f"not dates: {len(others)} of {known.sum()} values"
    )
    texts = list(dict.fromkeys(map(str, others)))
    may_be_missing = are_words(texts) or (as_numbers(values) is not None and len(texts) <= MAX_WORDS)
    remedies = ({"missing_values": texts}, {"drop": [name]}, {"categorical": [name]})
    return Message(text, remedies if may_be_missing else remedies[1:])


def _mixed_numbers_problem(name: str, values: NDArray[Any], numbers: FloatArray, rows: RowNumbers) -> Message | None:
    """Return the problem of a column of dates like 20201231 with other numbers in fewer than half of the rows."""
    known, dates = ~np.isnan(numbers), numbers_that_are_dates(numbers)
    if not known.sum() / 2 < dates.sum() < known.sum() or len(np.unique(numbers[dates])) < MIN_NUMBERS:
        return None
    return _mixed_dates_problem(name, values, known & ~dates, rows)


def are_words(texts: Collection[str]) -> bool:
    """Return whether these are a few words, which may all mean a missing value."""
    return len(texts) <= MAX_WORDS and not any(character.isdigit() for text in texts for character in text)


def may_be_missing(texts: Collection[str], odd: BoolArray, values: NDArray[Any]) -> bool:
    """Return whether these texts, in the odd cells of a column of numbers, can be declared as missing values.

    They are a few words; or different texts that an option can list, in at most one in ten cells.
    """
    return are_words(texts) or (len(texts) <= MAX_TEXTS and are_missing_cells(odd, values))


def _number_problem(name: str, values: NDArray[Any], numbers: FloatArray, rows: RowNumbers) -> Message | None:
    """Return the problem of a column of numbers with infinite values, or with dates among them."""
    infinite = infinite_values(numbers, f"column {name!r}", rows)
    if infinite:
        return Message(infinite, ({"drop": [name]},))
    return _mixed_numbers_problem(name, values, numbers, rows)


def _mixed_text_problem(name: str, values: NDArray[Any], rows: RowNumbers) -> Message | None:
    """Return the problem of a column of text, if fewer than half of its values are other text than numbers."""
    kind = ColumnKind(numbers=True)
    n_words = np.count_nonzero(kind.unreadable(values))
    return mixed_problem(name, values, kind, rows) if 0 < n_words < (~is_missing(values)).sum() / 2 else None


def mixed_problem(name: str, values: NDArray[Any], kind: ColumnKind, rows: RowNumbers) -> Message:
    """Return the problem of a column of numbers of this kind with other text in some rows."""
    known, odd = ~is_missing(values), kind.unreadable(values)
    words = list(dict.fromkeys(str(value) for value in values[odd].tolist()))
    remedies = [{"categorical": [name]}, {"drop": [name]}]
    if may_be_missing(words, odd, values):
        n_texts = len({str(value) for value in values[known].tolist()})
        remedies.insert(n_texts <= MAX_CATEGORIES, {"missing_values": words})
    held = f"numbers with the unit {kind.unit!r}" if kind.unit else "numbers"
    text = (
        f"column {name!r} holds {held}, and {values[odd].tolist()[0]!r:.80} in {rows.text(odd.argmax())}; not "
        f"{'such ' * bool(kind.unit)}numbers: {odd.sum()} of {known.sum()} values"
    )
    return Message(text, tuple(remedies))


_MIN_VALUES = 25  # different ids, for a split by cluster
_MAX_SHARE_OF_NEW = 0.9  # different ids per row; with more, hardly any has several rows
_MAX_IMBALANCE = 10  # rows of the most frequent id, in mean rows of an id; a category may have more
_MIN_TIMES = 5  # different ones: the last of five are later than those that fit and calibrate
_IN_ORDER = 0.99  # rank correlation of time and position
_DENSE = 0.5  # share of the pairs of an id and a time that a panel has
_UNITS = re.compile(
    r"(.*[\W_])?(subject|patient|person|individual|participant|respondent|child|student|pupil|animal|country|firm|"
    r"company|business|customer|client|user|player|household|family|school|hospital|store|site|station|plot|ticker)",
    re.IGNORECASE,
)
# Numbers that begin again with each year, week or day, or whose name is short for something else.
_PART_OF_TIME = re.compile(r"(.*[\W_])?(t|quarter|month|week|day|days|hour|minute|season)", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class TimeOrder:
    """The column in whose order a reader may ask for later rows.

    Parameters
    ----------
    name : str or None
        Its name; None for the order of the rows in the table.
    times : ndarray of shape (n,)
        Numbers that grow with time.
    of_dates : bool
        Whether the column holds dates.
    """

    name: str | None
    times: FloatArray
    of_dates: bool = False

    @property
    def sorts_rows(self) -> bool:
        """Whether the rows of the table are in this order, or in the opposite one."""
        return _rank_correlation(self.times) >= _IN_ORDER


@dataclass(frozen=True, eq=False)
class RepeatedUnits:
    """A column that looks like the id of persons, countries or the like that have several rows each.

    Parameters
    ----------
    name : str
        Its name.
    codes : ndarray of int, shape (n,)
        The unit of each row, from 0.
    """

    name: str
    codes: IntArray


def time_order(columns: Mapping[str, NDArray[Any]]) -> TimeOrder | None:
    """Return the column of times; if there are several, one that sorts the rows, or one of dates; None without any.

    Parameters
    ----------
    columns : mapping from str to ndarray of shape (n,)
        The columns of the table, without the target; dates are of a date type.
    """
    found = [
        each
        for name, numbers in _time_columns(columns)
        if len(np.unique((each := TimeOrder(name, numbers, columns[name].dtype.kind == "M")).times)) >= _MIN_TIMES
        and (each.of_dates or each.sorts_rows or not _PART_OF_TIME.fullmatch(str(name)))
    ]
    return min(found, key=lambda each: (not each.sorts_rows, not each.of_dates), default=None)


def time_numbers(values: NDArray[Any]) -> FloatArray | None:
    """Return a column of dates or numbers as numbers that grow with time, with NaN for missing ones; else None."""
    if values.dtype.kind != "M":
        return as_numbers(values)
    return np.where(np.isnat(values), np.nan, values.astype(np.int64).astype(np.float64))


def _time_columns(columns: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, FloatArray]]:
    """Yield the columns of dates, and of numbers that are called a time, without missing values."""
    for name, values in columns.items():
        numbers = time_numbers(values) if values.dtype.kind == "M" or is_time_name(name) else None
        if numbers is not None and len(numbers) and np.isfinite(numbers).all():
            yield name, numbers


def _rank_correlation(numbers: FloatArray) -> float:
    """Return the rank correlation of a column and the position of its rows, without its sign; 0 if it is constant."""
    if np.ptp(numbers) == 0:
        return 0.0
    return abs(float(np.corrcoef(rankdata(numbers), np.arange(len(numbers)))[0, 1]))


def repeated_units(columns: Mapping[str, NDArray[Any]]) -> RepeatedUnits | None:
    """Return the first column that looks like the id of a person, a country or the like, with several rows.

    It has such a name, or it occurs at most once at each time (a panel).

    Parameters
    ----------
    columns : mapping from str to ndarray of shape (n,)
        The columns of the table, without the target; dates are of a date type.
    """
    times = dict(_time_columns(columns))
    time_codes = [np.unique(numbers, return_inverse=True)[1] for numbers in times.values()]
    for name, values in columns.items():
        codes = None if name in times else _codes(values)
        counts = np.bincount([] if codes is None else codes)
        if codes is None or not _MIN_VALUES <= len(counts) < _MAX_SHARE_OF_NEW * len(codes):
            continue
        is_category = counts.max() > _MAX_IMBALANCE * counts.mean()
        panel = any(_is_panel(codes, time, is_text=as_numbers(values) is None) for time in time_codes)
        if is_id_name(name) or (not is_category and (panel or _UNITS.fullmatch(str(name)))):
            return RepeatedUnits(name, codes)
    return None


def order_note(order: TimeOrder | None) -> list[Message]:
    """Return a note on rows in the order of time, for a table in which later rows could not be tested."""
    if order is None or order.name is None or not order.sorts_rows:
        return []
    text = (
        f"the rows are in the order of {order.name!r}. A random split tests on rows between those that the model was "
        "fitted on. If you will predict later rows"
    )
    return [Message(text, ({"time": order.name},), lead=", add")]


def units_note(units: RepeatedUnits | None) -> list[Message]:
    """Return a note on units with several rows, for a table in which rows of new units could not be tested."""
    if units is None:
        return []
    counts = np.bincount(units.codes)
    text = (
        f"{units.name!r} has {len(counts)} different values, with {counts.mean():.1f} rows each on average. A random "
        "split tests on values that the model has seen. If you will predict for new ones"
    )
    return [Message(text, ({"clusters": units.name},), lead=", add")]


def panel_unit(columns: Mapping[str, NDArray[Any]], times: FloatArray) -> str | None:
    """Return the column of text that names the units of a panel, at most once at each time; None if there is no such.

    Parameters
    ----------
    columns : mapping from str to ndarray of shape (n,)
        The features.
    times : ndarray of shape (n,)
        The times of the rows, as numbers.
    """
    time_codes = np.unique(times, return_inverse=True)[1]
    for name, values in columns.items():
        codes = _codes(values) if as_numbers(values) is None else None
        if codes is not None and 0 < codes.max() < len(codes) - 1 and _is_panel(codes, time_codes, is_text=True):
            return name
    return None


def _codes(values: NDArray[Any]) -> IntArray | None:
    """Return codes from 0 for a column of text or of whole numbers; None for other columns, and missing values."""
    if not len(values) or is_missing(values).any():
        return None
    numbers = as_numbers(values)
    if numbers is not None and np.any(numbers % 1):
        return None
    comparable = [str(value) for value in values.tolist()] if numbers is None else numbers
    return np.unique(comparable, return_inverse=True)[1]


def _is_panel(codes: IntArray, time: IntArray, *, is_text: bool) -> bool:
    """Return whether each id occurs at most once at each time, and at half of the times or more.

    Numbers may be measurements, so each must occur at every time.
    """
    n_times = int(time.max()) + 1
    n_pairs = (int(codes.max()) + 1) * n_times
    if n_times == 1 or not n_pairs * (_DENSE if is_text else 1) <= len(codes) <= n_pairs:
        return False
    return len(np.unique(codes * n_times + time)) == len(codes)


_UNEXPLAINED = 1e-4  # share of the target's variance that rounding may leave: two to three digits
_SAME_ORDER = 1e-6  # the same for ranks
_TOO_GOOD = 0.999  # share of the target's variance that a model rarely explains
_MIN_ROWS = 10
_MAX_ROWS = 20_000  # evenly spaced; more would only cost time
_RANK_MARGIN = 1e-12  # of the normal equations
_MIN_CONTRIBUTION = 0.01  # of a column to a sum, in standard deviations of the target


def leak_warnings(columns: Mapping[str, FloatArray], target: str, y: FloatArray) -> list[Message]:
    """Return a warning about columns that determine the target: each of them alone or, if none does, in a sum.

    A column determines the target if one is a linear function of the other, on the scale of the numbers or of their
    logarithms, with at most 0.01 % of the variance unexplained; or if both have the same order, such as ranks.

    Parameters
    ----------
    columns : mapping from str to ndarray of shape (n,)
        The features that are numbers, with NaN for missing values.
    target : str
        The name of the target.
    y : ndarray of shape (n,)
        Its values.
    """
    rows = slice(None, None, -(-len(y) // _MAX_ROWS) or 1)
    sampled, y = {name: values[rows] for name, values in columns.items()}, y[rows]
    copies = [name for name, values in sampled.items() if _is_copy(values, y, is_time=is_time_name(name))]
    names = copies or _parts_of_sum(sampled, y)
    if not names:
        return []
    listed = ", ".join(map(repr, names))
    one = len(names) == 1
    subject = f"{listed} determines" if one else f"{listed} {'each' if copies else 'together'} determine"
    text = (
        f"leak? {subject} the target {target!r} almost exactly. If {'it is' if one else 'they are'} not known when you "
        "predict, the results are too good to be true"
    )
    return [Message(text, ({"drop": names},), kind="leak")]


def too_good(r2: float) -> list[Message]:
    """Return a warning if a model explains nearly all of the target's variation."""
    text = (
        f"the model explains {100 * r2:.2f} % of the variation of the target. This is rare: look for columns that are "
        "known only together with the target"
    )
    return [Message(text)] if r2 >= _TOO_GOOD else []


def _is_copy(x: FloatArray, y: FloatArray, *, is_time: bool) -> bool:
    """Return whether a column and the target determine each other up to rounding; a target may grow with time."""
    known = np.isfinite(x)
    if known.sum() < max(_MIN_ROWS, len(x) / 2):
        return False
    pairs = [] if is_time else [(rankdata(x[known]), rankdata(y[known]), _SAME_ORDER)]
    pairs += [(left, right, _UNEXPLAINED) for left, right in _scales(x[known], y[known])]
    return any(_unexplained(left, right) <= limit for left, right, limit in pairs)


def _scales(x: FloatArray, y: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield both columns as they are and, where they are positive, as logarithms."""
    for left in (x, *([np.log(x)] if x.min() > 0 else [])):
        for right in (y, *([np.log(y)] if y.min() > 0 else [])):
            yield left, right


def _unexplained(x: FloatArray, y: FloatArray) -> float:
    """Return the share of variance that a linear relation leaves, 1 − r²; 1 if a column is constant."""
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = x.std(), y.std()
    if not all(np.isfinite(spreads)) or min(spreads) <= 0:
        return 1.0
    return 1.0 - float(np.mean((x - x.mean()) / spreads[0] * (y - y.mean()) / spreads[1])) ** 2


def _parts_of_sum(columns: Mapping[str, FloatArray], y: FloatArray) -> list[str]:
    """Return the columns whose weighted sum is the target up to rounding; none if there is no such sum.

    The share of the variance that is left is corrected for the number of columns.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        usable = {name: values for name, values in columns.items() if 0 < values.std() < np.inf}
        varies = 0 < y.std() < np.inf
    if len(y) <= max(_MIN_ROWS, 2 * len(usable)) or len(usable) < 2 or not varies:
        return []
    X = np.column_stack([(values - values.mean()) / values.std() for values in usable.values()])
    scaled = (y - y.mean()) / y.std()
    weights = np.linalg.lstsq(X.T @ X, X.T @ scaled, rcond=_RANK_MARGIN)[0]
    left = np.mean((scaled - X @ weights) ** 2) * (len(y) - 1) / (len(y) - 1 - len(usable))
    if left > _UNEXPLAINED:
        return []
    return [name for name, weight in zip(usable, weights, strict=True) if abs(weight) >= _MIN_CONTRIBUTION]


_FEW_ROWS = 5


def category_notes(columns: Sequence[Encoded], unseen: BoolArray | None) -> list[Message]:
    """Return a note on columns of many categories: how models use them, and how far they can.

    Parameters
    ----------
    columns : sequence of EncodedColumn, EncodedCategories and EncodedDate
        How a model encodes the table.
    unseen : ndarray of bool, shape (n,), or None
        Which held-out rows have a category that the model has not seen.
    """
    many = [each for each in columns if isinstance(each, EncodedCategories)]
    if not many:
        return []
    described = ", ".join(map(_categories_text, many))
    text = (
        f"columns with many values: {described}. The model knows a value by the mean target of its training rows, "
        "drawn towards the mean of all rows if they are few. A new value has the mean of all rows"
    )
    if unseen is not None and unseen.any():
        text += f"; {np.count_nonzero(unseen)} of {len(unseen)} held-out rows have a value that no training row has"
    return [Message(text)]


def _categories_text(column: EncodedCategories) -> str:
    few = np.count_nonzero(column.counts < _FEW_ROWS)
    rare = f", {few} of them in fewer than {_FEW_ROWS} rows" * bool(few)
    return f"{column.name} ({len(column.categories)} different values{rare})"


_ROUNDING_MARGIN = 1e-12  # numbers that agree to this share of their size are equal
_MAX_CLASSES = 20  # a text target with more different values is no class


def read_target(
    target: str, table: Any, rows: RowNumbers, *, needs_all: bool, of_batch: bool = False
) -> tuple[FloatArray, list[Message]]:
    """Return the targets, with NaN for missing ones, and the problems of the column.

    Text is read if every cell is a number, or if every cell is a number with the same unit. The second is not possible
    for a batch, because other batches may have another unit.

    Parameters
    ----------
    target : str
        The name of the column.
    table : table of n rows
        The table.
    rows : RowNumbers
        How messages number the rows.
    needs_all : bool
        Whether rows without a target are a problem.
    of_batch : bool
        Whether there are other rows, so that these may all have the same target, or none.
    """
    name, values = f"target: column {target!r}", column(table, target, "target")
    numbers = as_numbers(values)
    if numbers is None:
        numbers = numbers_in_text(values)
    if numbers is None and not of_batch and (unit := shared_unit(values)) is not None:
        numbers = numbers_with_unit(values, unit)
    if numbers is None:
        return np.empty(0), [_problem_of_other_values(name, values, rows)]
    problems = []
    if (infinite := np.isinf(numbers)).any():
        found = f"infinite values: {infinite.sum()} of {len(numbers)} {rows.first(infinite)}"
        texts = sorted({f"{value:g}" for value in numbers[infinite]})
        problems.append(Message(f"{name} must be finite; {found}", ({"missing_values": texts},)))
    others = (rounded_values(table, target, numbers, name, rows=rows), too_large(numbers, name))
    problems.extend(Message(text) for text in others if text)
    missing = np.isnan(numbers)
    if missing.all() and not of_batch:
        return numbers, [Message(f"{name} must hold numbers; it has no value in any row")]
    if missing.any() and needs_all:
        text = f"{name} has no value in {missing.sum()} of {len(numbers)} rows {rows.first(missing)}"
        problems.append(Message(text, ({"missing_target": "predict"}, {"missing_target": "drop"})))
    known = numbers[np.isfinite(numbers)]
    if not of_batch and not any(others) and len(known) > 1 and np.ptp(known) <= _ROUNDING_MARGIN * np.abs(known).max():
        problems.append(Message(f"{name} must vary; it is {known[0]:g} in every row, so there is nothing to predict"))
    return numbers, problems


def unit_notes(target: str, values: NDArray[Any]) -> tuple[Message, ...]:
    """Return a note if the targets are written with a unit."""
    unit = shared_unit(values) if as_numbers(values) is None else None
    if unit is None:
        return ()
    first = values[~is_missing(values)][:1]
    (cell,), (number,) = first.tolist(), numbers_with_unit(first, unit)
    return (Message(f"the target {target!r} is read as numbers with the unit {unit!r}: {cell!r} is {number:g}"),)


def support_notes(support: Support | None, *, decided: bool) -> list[Message]:
    """Return a note on the values that the target can have; `decided` says whether the training targets showed them."""
    if support is None:
        return []
    if not decided:
        return [Message(f"intervals hold only targets that are {support}, as the settings say")]
    such = "such numbers" if support.whole else "such values"
    text = f"all training targets are {support}, so intervals hold only {such}"
    return [Message(text, ({"support": "none"},), ". To switch this off, use")]


def support_warnings(support: Support | None, **targets: FloatArray) -> list[Message]:
    """Return a warning if targets outside the support came, with their number in each part of the rows."""
    if support is None:
        return []
    counts = {part: (int(np.count_nonzero(~support.contains(y))), len(y)) for part, y in targets.items()}
    return outside_warnings(support, counts)


def outside_warnings(support: Support, counts: Mapping[str, tuple[int, int]]) -> list[Message]:
    """Return a warning if there are targets outside the support: `counts` has their number, and that of all rows."""
    found = [f"{n} of {rows} {part} targets" for part, (n, rows) in counts.items() if n]
    if not found:
        return []
    text = f"{' and '.join(found)} are outside the support ({support}), and no interval covers them"
    return [Message(text, ({"support": "none"},), ". To allow all numbers, use", kind="outside support")]


def _problem_of_other_values(name: str, values: NDArray[Any], rows: RowNumbers) -> Message:
    """Return the problem of a target that holds other values than numbers."""
    known = values[~is_missing(values)].tolist()
    texts = Counter(str(each) for each in known if not reads_as_number(each))
    if has_date_type(values) or not all(isinstance(each, str) for each in known) or not texts:
        row, value = first_non_numeric(values)
        return Message(f"{name} must hold numbers; got {value!r:.80} in {rows.text(row)}")
    if len(texts) <= _MAX_CLASSES and texts.total() >= len(known) / 2:
        counts = [f"{text!r:.40} ({count} rows)" for text, count in texts.most_common(MAX_WORDS)]
        more = f" and {len(texts) - len(counts)} other texts" * (len(texts) > len(counts))
        return Message(
            f"{name} must hold numbers; got {', '.join(counts)}{more}. To predict a class, use a classifier; evencover "
            "predicts numbers"
        )
    blamed = _blamed_texts(values, list(texts))
    odd = np.array([each in blamed for each in values.tolist()], dtype=bool)
    row = int(odd.argmax())
    found = f"{values[row]!r:.80} in {rows.text(row)}; not numbers: {texts.total()} of {len(known)} values"
    remedy = {"missing_values": blamed}
    if are_words(blamed):
        return Message(f"{name} must hold numbers; got {found}", (remedy,))
    text = f"{name} must hold numbers; got {found}. Correct these values, or leave their rows out"
    if not may_be_missing(blamed, odd, values):
        return Message(text)
    return Message(text, (remedy,))


def _blamed_texts(values: NDArray[Any], texts: list[str]) -> list[str]:
    """Return which texts of a target are the problem: words, if the others have one unit, such as 5 kg; else all."""
    words = [text for text in texts if not any(map(str.isdigit, text))]
    others = np.array([each for each in values[~is_missing(values)].tolist() if each not in words], dtype=object)
    has_numbers_without_words = bool(words) and (len(words) == len(texts) or shared_unit(others) is not None)
    return words if has_numbers_without_words else texts
