"""Numbers in text columns: with currency signs, percent signs, thousands separators or decimal commas."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evencover._internal.arrays import reads_as_number

Comma: TypeAlias = Literal["thousands", "decimal", "either"]  # what a comma between digits means

_MISSING = ("", ".")  # in a column of numbers
_CURRENCIES = "$€£¥₹₽₩₺₴₪₫₱₦฿¢"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<before>[{_CURRENCIES}]?)\s?(?P<digits>[+-]?[\d.,]+(e[+-]?\d+)?)\s?(?P<after>[%{_CURRENCIES}]?)",
    re.IGNORECASE,
)
_THOUSANDS_SPACE = re.compile("(?<=\\d)[\u00a0\u202f'\u2019](?=\\d{3}(?!\\d))")  # as in 1'234
_EITHER = re.compile(r"\d{1,3},\d{3}")
_COMMA_GROUPS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # 1,234.5
_POINT_GROUPS = re.compile(r"\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}")  # 1.234,5
_DECIMAL_COMMA = re.compile(r"\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class _Reading:
    """A text as a number, the signs around it, and its decimal mark: empty if the text shows none."""

    number: float
    signs: str = ""
    mark: Literal["", "point", "comma", "either"] = ""


def numbers_in_texts(texts: Iterable[str], *, comma: Comma) -> dict[str, float | None] | None:
    """Return the number in each text, None for a missing one; return None if some text is not a number.

    All texts must have the same signs (such as $ or %) and the same decimal mark. Each text has only one reading, so a
    column is read alike in a file with other rows. A percentage is read as its number: 45% as 45. If no text is a
    number, all of them are missing.

    Parameters
    ----------
    texts : iterable of str
        The different texts of a column.
    comma : {"thousands", "decimal", "either"}
        What a comma between digits means, as in 1,234. If it is "either", another text of the column must decide. If
        it is "thousands", 1,5 is still a decimal comma, provided that every text of the column has one.
    """
    readings: dict[str, _Reading | None] = {}
    for text in texts:
        missing = text.strip() in _MISSING
        readings[text] = None if missing else _reading(text, comma)
        if readings[text] is None and not missing:
            return None
    known = [reading for reading in readings.values() if reading is not None]
    marks = {reading.mark for reading in known} - {""}
    if len({reading.signs for reading in known}) > 1 or {"point", "comma"} <= marks or marks == {"either"}:
        return None
    if comma == "thousands" and "comma" in marks and any(not reading.mark for reading in known):
        return None  # 1,5 and 2 may be lists of codes
    if marks == {"either", "comma"}:
        return numbers_in_texts(readings, comma="decimal")
    return {text: None if reading is None else reading.number for text, reading in readings.items()}


def _reading(text: str, comma: Comma) -> _Reading | None:
    """Return the number in a text; None if it is no number."""
    if reads_as_number(text):
        return _Reading(float(text), mark="point" if "." in text else "")
    match = _NUMBER.fullmatch(_THOUSANDS_SPACE.sub("", text.strip().replace("\u2212", "-")))
    if match is None:
        return None
    sign, digits = match["sign"], match["digits"]
    if digits[0] in "+-":
        if sign:
            return None
        sign, digits = digits[0], digits[1:]
    found = _decimal(digits, comma)
    if found is None or not reads_as_number(found[0]):
        return None
    return _Reading(float(sign + found[0]), match["before"] + match["after"], found[1])


def _decimal(digits: str, comma: Comma) -> tuple[str, Literal["", "point", "comma", "either"]] | None:
    """Return a number without sign as Python writes it, and its decimal mark; None if it has another form."""
    if "," not in digits and digits.count(".") < 2:
        return digits, "point" if "." in digits else ""
    if comma != "decimal" and _COMMA_GROUPS.fullmatch(digits):
        return digits.replace(",", ""), "either" if comma == "either" and _EITHER.fullmatch(digits) else "point"
    may_have_points = comma != "thousands" or "," in digits
    if _DECIMAL_COMMA.fullmatch(digits) or (may_have_points and _POINT_GROUPS.fullmatch(digits)):
        return digits.replace(".", "").replace(",", "."), "comma"
    if comma == "decimal" and _COMMA_GROUPS.fullmatch(digits):  # 1,234.5 or 1,234,567
        return digits.replace(",", ""), "point"
    return None
