"""Dates and times in a table's columns: of date types, as text in the usual spellings, as numbers like 20201231.

Formats are in the notation of `datetime.strptime`, with two additions: ``%q`` is a quarter, from 1 to 4, and a week
without a day, such as ``%G-W%V``, is its Monday. Months and quarters are their first day.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import BoolArray, FloatArray
from evencover.inputs.frames import as_numbers, is_missing

DateArray: TypeAlias = NDArray[np.datetime64]

_DAYS = (  # where two fit, the first is used
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y", "%d.%m.%y"),
    *("%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y", "%m/%d/%y", "%d/%m/%y", "%m-%d-%y", "%d-%m-%y"),
    *("%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%d. %B %Y", "%a %b %d %Y"),
    *("%b %d %Y", "%b %d, %Y", "%B %d %Y", "%B %d, %Y"),
    *("%Y-%m", "%Y/%m", "%m/%Y", "%b-%Y", "%b %Y", "%B %Y", "%b-%y", "%Y %b", "%Y %B", "%Y-%b", "%YM%m"),
    *("%G-W%V", "%G W%V", "%GW%V", "%Y Q%q", "%YQ%q", "%Y-Q%q", "%Y/Q%q", "Q%q %Y", "Q%q-%Y", "%qQ%Y"),
)
_WITHOUT_COLONS = "%Y%m%dT%H%M%S"
_CLOCK = re.compile(r"(\d{1,2}:\d\d)(:\d\d)?(\.\d{1,6})?( ?[AaPp][Mm])?( ?(?:Z|[+-]\d\d:?\d\d))?$")
_DIGIT_OR_SEPARATOR = re.compile(r"\A\d|[\s-]")  # a day begins with a digit, or has a separator after a name
_NUMBERS = "%Y%m%d"
_NUMBER_RANGE = (18_000_101, 21_001_231)  # numbers that may be dates
MIN_NUMBERS = 5  # numbers are dates only if there are so many different ones
_MAX_SAMPLE = 1000  # texts that show whether a spelling fits at least half of them
_SAMPLE = 5  # different texts from which the spelling is guessed; all are then read
_UNIT = "datetime64[us]"
_FIRST_PAST_YEAR = 2030  # years 30 to 99 with two digits are 1930 to 1999, as in spreadsheets
NO_DAY = date(1900, 1, 1)  # the day of a time without date, as in strptime


@dataclass(frozen=True)
class DateFormat:
    """How a column spells its dates.

    Parameters
    ----------
    pattern : str
        The format.
    other : str or None
        Another format that fits all values and gives other dates: day and month exchanged.
    """

    pattern: str
    other: str | None = None


def date_format(values: NDArray[Any], *, day_first: bool = False) -> DateFormat | None:
    """Return how a column of text or numbers spells dates; None if fewer than half of its values are dates.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column.
    day_first : bool
        Whether 03/04/2020 is in April, where both readings fit all values.
    """
    texts = _date_texts(values)
    patterns = dict.fromkeys(pattern for text in texts[:_SAMPLE] for pattern in _patterns_of(text))
    if len(patterns) == 1:  # all values are read only once, by `as_dates`
        texts = texts[:: -(-len(texts) // _MAX_SAMPLE)]
    read = {pattern: [_moment(text, pattern) for text in texts] for pattern in patterns}
    counts = {pattern: sum(moment is not None for moment in moments) for pattern, moments in read.items()}
    most = max(counts.values(), default=0)
    if 2 * most < len(texts) or not texts:
        return None
    fits = [pattern for pattern in patterns if counts[pattern] == most]
    first = next((pattern for pattern in fits if day_first and is_day_first(pattern)), fits[0])
    return DateFormat(first, next((pattern for pattern in fits if read[pattern] != read[first]), None))


def as_dates(values: NDArray[Any], pattern: str | None = None) -> DateArray | None:
    """Return a column as dates, with NaT for missing values and unreadable text; None for a column of other values.

    Values of date types are dates whatever the pattern, and so is text in the ISO format (2020-12-31). A time of day is
    a time on 1 January 1900. A time with a time zone is converted to UTC.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column.
    pattern : str, optional
        The format of text and numbers. Without it, only values of date types are dates.
    """
    if values.dtype.kind == "M":
        return values.astype(_UNIT)
    if pattern is None and not has_date_type(values):
        return None
    known = ~is_missing(values)
    cells = values[known].tolist()
    moments = {cell: _moment(cell, pattern) or _iso_moment(cell) for cell in set(filter(_is_readable, cells))}
    read, position = np.array([*moments.values(), None], dtype=_UNIT), {cell: code for code, cell in enumerate(moments)}
    dates = np.full(len(values), np.datetime64("NaT"), dtype=_UNIT)
    dates[known] = read[[position[cell] if _is_readable(cell) else -1 for cell in cells]]
    return dates


def numbers_that_are_dates(numbers: FloatArray) -> BoolArray:
    """Return which numbers are dates like 20201231. Shape of `numbers`."""
    low, high = _NUMBER_RANGE
    distinct, codes = np.unique(numbers, return_inverse=True)
    possible = (distinct >= low) & (distinct <= high) & (distinct % 1 == 0)
    possible[possible] = [_moment(number, _NUMBERS) is not None for number in distinct[possible].tolist()]
    return np.asarray(possible[codes])


def has_date_type(values: NDArray[Any]) -> bool:
    """Return whether the values of a column are of a date or time type; missing ones are allowed."""
    if values.dtype.kind != "O":
        return values.dtype.kind == "M"
    known = values[~is_missing(values)].tolist()
    return bool(known) and all(isinstance(value, date | time) for value in known)


def _date_texts(values: NDArray[Any]) -> list[str]:
    """Return the different values of a column as text; none if it cannot hold dates."""
    numbers = as_numbers(values)
    if numbers is None:
        known = values[~is_missing(values)].tolist() if values.dtype.kind in "OUT" else []
        texts = list(dict.fromkeys(cell.strip() if isinstance(cell, str) else "" for cell in known))
        return texts if re.search(r"\d", "".join(texts[:_SAMPLE])) else []
    low, high = _NUMBER_RANGE
    known = numbers[~np.isnan(numbers)]
    if not len(known) or known.min() < low or known.max() > high or np.any(known % 1):
        return []
    distinct = np.unique(known).tolist()
    texts = [f"{number:.0f}" for number in distinct] if len(distinct) >= MIN_NUMBERS else []
    return texts if all(_moment(text, _NUMBERS) for text in texts) else []


def _patterns_of(text: str) -> Iterator[str]:
    """Yield the formats that a text fits."""
    clock = _CLOCK.search(text)
    day = text if clock is None else text[: clock.start()].rstrip("T, ")
    rest = "" if clock is None else text[len(day) : clock.start()] + _clock_pattern(clock)
    if day and not _DIGIT_OR_SEPARATOR.search(text):
        return
    for pattern in ("",) if not day else _DAYS if clock else (*_DAYS, _WITHOUT_COLONS):
        if _moment(text, pattern + rest) is not None:
            yield pattern + rest


def _clock_pattern(match: re.Match[str]) -> str:
    """Return the format of a time of day."""
    _, second, fraction, noon, zone = match.groups(default="")
    clock = ("%I:%M" if noon else "%H:%M") + ":%S" * bool(second) + ".%f" * bool(fraction)
    return clock + noon.replace(noon.strip(), "%p") * bool(noon) + zone.replace(zone.strip(), "%z") * bool(zone)


def is_day_first(pattern: str) -> bool:
    """Return whether a format begins with the day."""
    return pattern.startswith("%d")


def _is_readable(value: Any) -> bool:
    return isinstance(value, str | float | int | date | time)


def _iso_moment(value: Any) -> datetime | None:
    """Return text in the ISO format as a moment; None for anything else."""
    try:
        return _moment(datetime.fromisoformat(value), None) if isinstance(value, str) and "-" in value else None
    except ValueError:
        return None


def _moment(value: Any, pattern: str | None) -> datetime | None:
    """Return a date, a time, or a text in this format as a moment; None if it is none of these."""
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, date):
        return datetime.combine(value, time())
    if isinstance(value, time):
        return datetime.combine(NO_DAY, value.replace(tzinfo=None))
    text = value.strip() if isinstance(value, str) else f"{value:.0f}"
    try:
        moment = None if pattern is None else _moment(_parsed(text, pattern), None)
    except (ValueError, re.error):
        return None
    is_past = moment is not None and "%y" in (pattern or "") and moment.year >= _FIRST_PAST_YEAR
    return moment.replace(year=moment.year - 100) if moment is not None and is_past else moment


def _parsed(text: str, pattern: str) -> datetime:
    """Return a text in a format as a moment, as `datetime.strptime` does, also for quarters and weeks without a day."""
    if "%V" in pattern and "%u" not in pattern:
        text, pattern = f"{text} 1", f"{pattern} %u"
    moment = datetime.strptime(text, pattern.replace("%q", "%m"))  # noqa: DTZ007
    return moment.replace(month=3 * moment.month - 2) if "%q" in pattern else moment  # after Q4, this month is no month
