"""What the columns of a table are by all of its rows, and what is wrong with them: for messages to the user."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover._internal.arrays import BoolArray, FloatArray, reads_as_number
from evencover._internal.dates import (
    MIN_NUMBERS,
    DateArray,
    DateFormat,
    as_dates,
    date_format,
    has_date_type,
    is_day_first,
    numbers_that_are_dates,
)
from evencover._internal.frames import (
    FROM_ZERO,
    RowNumbers,
    as_numbers,
    first_non_numeric,
    infinite_values,
    is_missing,
    numbers_in_text,
)
from evencover.models.column_kinds import MAX_CATEGORIES, ColumnKind, Recognition
from evencover.studies._messages import Message

MAX_WORDS = 3  # different words among numbers that may all mean a missing value


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
    def kind(self) -> ColumnKind:
        """What the column is by these values."""
        return ColumnKind(self.left_out, self.pattern, self.numbers is not None)

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
    if (numbers := as_numbers(values)) is not None:
        return replace(_recognize_numbers(name, values, numbers, rows), numbers=None)
    if (numbers := numbers_in_text(values)) is not None:
        return _recognize_numbers(name, values, numbers, rows)
    problem = type_problem(name, values, rows) or _mixed_text_problem(name, values, rows)
    return Recognized("" if problem else Recognition().kind(name, values).left_out, problem=problem)


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
    unreadable = ColumnKind(pattern=spelled.pattern).unreadable(values)
    if unreadable.any():
        return Recognized(problem=_mixed_dates_problem(name, values, unreadable, rows))
    dates = as_dates(values, spelled.pattern)
    if spelled.other is None or is_day_first(spelled.pattern):  # as the user asked
        return Recognized(dates=dates, pattern=spelled.pattern)
    example = values[~is_missing(values)][0]
    text = f"column {name!r} has dates such as {example!r}, which can be read in two ways; read with the month first"
    return Recognized(dates=dates, pattern=spelled.pattern, warning=Message(text, ({"day_first": True},)))


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


def _recognize_numbers(name: str, values: NDArray[Any], numbers: FloatArray, rows: RowNumbers) -> Recognized:
    """Return a column of numbers: measurements, an id, with infinite values, or with dates among them."""
    infinite = infinite_values(numbers, f"column {name!r}", rows)
    problem = Message(infinite, ({"drop": [name]},)) if infinite else None
    problem = problem or _mixed_numbers_problem(name, values, numbers, rows)
    return Recognized(Recognition().kind(name, values).left_out, numbers=numbers, problem=problem)


def _mixed_text_problem(name: str, values: NDArray[Any], rows: RowNumbers) -> Message | None:
    """Return the problem of a column of text, if fewer than half of its values are other text than numbers."""
    counts = Counter(str(value) for value in values[~is_missing(values)].tolist())
    words = {text: count for text, count in counts.items() if not reads_as_number(text)}
    if not words or sum(words.values()) >= counts.total() / 2:
        return None
    return _mixed_problem(name, values, counts, words, rows)


def _mixed_problem(
    name: str, values: NDArray[Any], counts: Mapping[str, int], words: Mapping[str, int], rows: RowNumbers
) -> Message:
    """Return the problem of a column of numbers with other text in some rows."""
    remedies = [{"categorical": [name]}, {"drop": [name]}]
    row, value = first_non_numeric(values)
    if are_words(words):
        remedies.insert(len(counts) <= MAX_CATEGORIES, {"missing_values": list(words)})
    text = (
        f"column {name!r} holds numbers, and {value!r:.80} in {rows.text(row)}; not numbers: {sum(words.values())} of "
        f"{sum(counts.values())} values"
    )
    return Message(text, tuple(remedies))
