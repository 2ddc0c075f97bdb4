"""What a column of a table is: numbers, categories, dates, row numbers, an id, or none of these."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover._internal.arrays import FloatArray, reads_as_number
from evencover._internal.dates import DateArray, DateFormat, as_dates, date_format, has_date_type, is_day_first
from evencover._internal.frames import (
    FROM_ZERO,
    RowNumbers,
    as_numbers,
    first_non_numeric,
    infinite_values,
    is_missing,
    numbers_in_text,
)
from evencover.studies._messages import Message

_MIN_ROWS = 10  # in a shorter table, different values mean nothing
_MAX_CATEGORIES = 30  # different texts of a column that are categories without question
MAX_WORDS = 3  # different words among numbers that may all mean a missing value
_KEY_SHARE = 0.9  # share of different values in a column of ids
_INDEX_NAMES = re.compile(r"(column|unnamed:) \d+|__index_level_\d+__|rownames?|row|index", re.IGNORECASE)
_ID_NAMES = re.compile(
    r"(.*[\W_])?(ids?([\W_](str|no|nr|number))?|uuid|guid|key|idx|rowid|obs|serial)|[pusceg]id", re.IGNORECASE
)
_CAMEL_CASE_ID = re.compile(r".*[a-z]I[dD]")
_TIME_NAMES = re.compile(
    r"(.*[\W_])?(t|time|timestamp|date|year|yr|quarter|month|week|day|days|hour|minute|period|season)", re.IGNORECASE
)


@dataclass(frozen=True, eq=False)
class Recognized:
    """What a column was recognised as.

    Parameters
    ----------
    left_out : str
        Why it is no feature; empty if it is one.
    dates : ndarray of dates or None
        The values of a column of dates or times.
    pattern : str or None
        Their format, if the column holds text or numbers.
    numbers : ndarray of shape (n,) or None
        The values of a column of numbers as text.
    problem, warning : Message or None
        Why it cannot be used as it is; what may be wrong.
    """

    left_out: str = ""
    dates: DateArray | None = None
    pattern: str | None = None
    numbers: FloatArray | None = None
    problem: Message | None = None
    warning: Message | None = None

    @property
    def converted(self) -> NDArray[Any] | None:
        """The dates or numbers that text was read as; None if the values are used as they are."""
        return self.numbers if self.dates is None else self.dates


def recognize(name: str, values: NDArray[Any], *, rows: RowNumbers = FROM_ZERO, day_first: bool = False) -> Recognized:
    """Return what a column is whose role the user did not name.

    Parameters
    ----------
    name : str
        Its name.
    values : ndarray of shape (n,)
        Its values.
    rows : RowNumbers
        How messages number the rows.
    day_first : bool
        Whether 03/04/2020 is in April, if no other date of the column shows it.
    """
    if has_date_type(values):
        return Recognized(dates=as_dates(values))
    spelled = date_format(values, day_first=day_first)
    if spelled is not None:
        return _recognize_dates(name, values, spelled, rows)
    numbers = as_numbers(values)
    if numbers is not None:
        return replace(_recognize_numbers(name, numbers, rows), numbers=None)
    unusable = type_problem(name, values, rows)
    return _recognize_text(name, values, rows) if unusable is None else Recognized(problem=unusable)


def is_time_name(name: str) -> bool:
    """Return whether a name is that of a time, such as year or order_date."""
    return _TIME_NAMES.fullmatch(str(name)) is not None


def is_id_name(name: str) -> bool:
    """Return whether a name is that of an index or an id, such as patient_id."""
    return any(pattern.fullmatch(str(name)) for pattern in (_INDEX_NAMES, _ID_NAMES, _CAMEL_CASE_ID))


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


def _recognize_dates(name: str, values: NDArray[Any], spelled: DateFormat, rows: RowNumbers) -> Recognized:
    """Return a column of dates in text or numbers; some of its values may be no dates."""
    dates, missing = as_dates(values, spelled.pattern), is_missing(values)
    unreadable = ~missing if dates is None else np.isnat(dates) & ~missing
    example = values[~missing & ~unreadable][0]
    if unreadable.any():
        words = Counter(str(word) for word in values[unreadable].tolist())
        first = rows.text(unreadable.argmax())
        text = (
            f"column {name!r} holds dates such as {example!r}, and {values[unreadable][0]!r:.80} in {first}; not "
            f"dates: {unreadable.sum()} of {(~missing).sum()} values"
        )
        remedies = ({"missing_values": list(words)}, {"drop": [name]}, {"categorical": [name]})
        return Recognized(problem=Message(text, remedies if are_words(words) else remedies[1:]))
    if spelled.other is None or is_day_first(spelled.pattern):  # as the user asked
        return Recognized(dates=dates, pattern=spelled.pattern)
    text = f"column {name!r} has dates such as {example!r}, which can be read in two ways; read with the month first"
    return Recognized(dates=dates, pattern=spelled.pattern, warning=Message(text, ({"day_first": True},)))


def are_words(texts: Collection[str]) -> bool:
    """Return whether these are a few words, which may all mean a missing value."""
    return len(texts) <= MAX_WORDS and not any(character.isdigit() for text in texts for character in text)


def _recognize_numbers(name: str, numbers: FloatArray | None, rows: RowNumbers) -> Recognized:
    """Return a column of numbers: measurements, an id, or with infinite values."""
    if numbers is None:  # no value at all
        return Recognized()
    infinite = infinite_values(numbers, f"column {name!r}", rows)
    problem = Message(infinite, ({"drop": [name]},)) if infinite else None
    return Recognized(_why_number_is_id(name, numbers), numbers=numbers, problem=problem)


def _why_number_is_id(name: str, numbers: FloatArray) -> str:
    """Return why a column of numbers is an id; empty if it is not."""
    known = numbers[np.isfinite(numbers)]
    if len(numbers) < _MIN_ROWS or not len(known) or np.any(known % 1):
        return ""
    distinct = np.unique(known)
    complete = len(distinct) == len(numbers) and distinct[-1] - distinct[0] == len(numbers) - 1
    if complete and distinct[0] in (0, 1) and not is_time_name(name):
        return f"row numbers from {distinct[0]:.0f} to {distinct[-1]:.0f}"
    if is_id_name(name) and len(distinct) >= _KEY_SHARE * len(known):
        return f"an id: {len(distinct)} different numbers in {len(known)} rows"
    return ""


def _recognize_text(name: str, values: NDArray[Any], rows: RowNumbers) -> Recognized:
    """Return a column of text: categories, an id, or numbers with some words."""
    counts = Counter(str(value) for value in values[~is_missing(values)].tolist())
    words = {text: count for text, count in counts.items() if not reads_as_number(text)}
    n, distinct = counts.total(), len(counts)
    if not words:
        return _recognize_numbers(name, numbers_in_text(values), rows)
    if sum(words.values()) < n / 2:
        return Recognized(problem=_mixed_problem(name, values, counts, words, rows))
    many = distinct > max(_MAX_CATEGORIES, n / 2)
    if many or (n >= _MIN_ROWS and distinct >= (_KEY_SHARE if is_id_name(name) else 1) * n):
        return Recognized(f"text with {distinct} different values in {n} rows")
    return Recognized()


def _mixed_problem(
    name: str, values: NDArray[Any], counts: Mapping[str, int], words: Mapping[str, int], rows: RowNumbers
) -> Message:
    """Return the problem of a column of numbers with other text in some rows."""
    remedies = [{"categorical": [name]}, {"drop": [name]}]
    row, value = first_non_numeric(values)
    if are_words(words):
        remedies.insert(len(counts) <= _MAX_CATEGORIES, {"missing_values": list(words)})
    text = (
        f"column {name!r} holds numbers, and {value!r:.80} in {rows.text(row)}; not numbers: {sum(words.values())} of "
        f"{sum(counts.values())} values"
    )
    return Message(text, tuple(remedies))
