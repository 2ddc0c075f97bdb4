"""Numbers that a column writes as text: with a unit, with commas between thousands, with a few other cells."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import BoolArray, FloatArray, evenly_spaced_positions, is_number, reads_as_number
from evencover.inputs.frames import as_numbers, is_missing, is_plain_text

CURRENCIES = "$€£¥₹₽₩₺₴₪₫₱₦฿¢"
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|BRL|MXN|Rs"
_DIGITS = r"(?P<digits>((?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?)"
# Letters before a number make it a code, such as A12; only those of a currency do not.
_BEFORE = re.compile(rf"(?P<sign>[+-]?)(?P<unit>[A-Z]{{0,2}}[{CURRENCIES}]|(?:{_CODES})\.?)\s?{_DIGITS}", re.IGNORECASE)
_AFTER = re.compile(
    rf"(?P<sign>[+-]?){_DIGITS}\s?(?P<unit>[^\W\d_].{{0,19}}|[%‰°′″'\"{CURRENCIES}].{{0,19}})?", re.IGNORECASE
)
_MAX_SAMPLE = 1000  # cells that show whether at least half of them are numbers
_MAX_ODD_SHARE = 0.1  # of the cells that are not missing
_FEW_CELLS, _FEW_SHARE = 2, 0.01  # cells among numbers that are probably missing values or typing errors
_NUMBERS_PER_CELL = 20  # numbers that a column needs for each of them


def number_unit(values: NDArray[Any]) -> str | None:
    """Return the unit of a column of numbers as text, empty if they have none; None if the column holds other text.

    At least nine in ten cells are numbers without a unit; or all but a few cells (see `are_few`) have the same unit,
    and numbers differ. The unit stands after the number, as in 117 m2, or, for currencies, before it.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column.
    """
    cells = values[~is_missing(values)].tolist() if values.dtype.kind in "OUT" else []
    if not is_plain_text(cells) and not all(isinstance(cell, str) or is_number(cell) for cell in cells):
        return None
    sample = [cells[place] for place in evenly_spaced_positions(len(cells), _MAX_SAMPLE)] if cells else []
    if 2 * sum(_reading(cell) is not None for cell in sample) < len(sample):
        return None  # most text is far from numbers, and is read only here
    counts = Counter(cells)
    units = {cell: None if (reading := _reading(cell)) is None else reading[1] for cell in counts}
    by_unit: Counter[str] = Counter()
    for cell, unit in units.items():
        by_unit.update({} if unit is None else {unit: counts[cell]})
    if not by_unit:
        return None
    ((most_common, n),) = by_unit.most_common(1)
    if not most_common:
        return "" if len(cells) - n <= _MAX_ODD_SHARE * len(cells) else None
    others = {cell: count for cell, count in counts.items() if units[cell] != most_common}
    return most_common if len(counts) - len(others) > 1 and (not others or are_few(others, len(cells))) else None


def are_few(odd: Mapping[Any, int], total: int) -> bool:
    """Return whether cells are so few that the other cells show that a column holds numbers.

    At most two cells; or at most 1 %, if there is no digit in them: codes such as 136A are no typing errors. For each
    of them, there are at least 20 numbers.

    Parameters
    ----------
    odd : mapping from cell to int
        The different cells that are no numbers, and how often they occur.
    total : int
        Number of cells that are not missing.
    """
    count = sum(odd.values())
    has_digit = any(character.isdigit() for cell in odd for character in str(cell))
    few = count <= _FEW_CELLS or (not has_digit and count <= _FEW_SHARE * total)
    return few and total - count >= _NUMBERS_PER_CELL * count


def are_missing_cells(odd: BoolArray, values: NDArray[Any]) -> bool:
    """Return whether cells of a column of numbers that are no numbers may count as missing: at most one in ten."""
    return bool(np.count_nonzero(odd) <= _MAX_ODD_SHARE * np.count_nonzero(~is_missing(values)))


def numbers_with_unit(values: NDArray[Any], unit: str) -> FloatArray:
    """Return a column as numbers, with NaN for missing values and for text that is no number with this unit.

    Numbers without a unit are used as they are.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column.
    unit : str
        The unit; empty if the numbers have none.
    """
    numbers = as_numbers(values)
    if numbers is not None:
        return numbers
    known = ~is_missing(values)
    cells = values[known].tolist()
    read = {cell: _number(cell, unit) for cell in set(filter(_is_readable, cells))}
    result = np.full(len(values), np.nan)
    result[known] = [read[cell] if _is_readable(cell) else np.nan for cell in cells]
    return result


def odd_cells(values: NDArray[Any], unit: str) -> BoolArray:
    """Return which values are neither missing nor numbers with this unit. Shape (n,)."""
    unread = np.isnan(numbers_with_unit(values, unit)) & ~is_missing(values)
    cells = values[unread].tolist()
    numbers = set(filter(reads_as_number, set(filter(_is_readable, cells))))  # the text "nan" is a number
    unread[unread] = [not _is_readable(cell) or cell not in numbers for cell in cells]
    return unread


def _is_readable(cell: Any) -> bool:
    return isinstance(cell, str) or is_number(cell)


def _number(cell: Any, unit: str) -> float:
    """Return a cell as a number; NaN if it is none, or has another unit."""
    reading = _reading(cell)
    return reading[0] if reading is not None and reading[1] in ("", unit) else np.nan


def _reading(cell: Any) -> tuple[float, str] | None:
    """Return the number in a cell and its unit; None if it is no number."""
    if reads_as_number(cell):
        return float(cell), ""
    text = cell.strip().replace("\N{MINUS SIGN}", "-")
    match = _BEFORE.fullmatch(text) or _AFTER.fullmatch(text)
    return None if match is None else (float(match["sign"] + match["digits"].replace(",", "")), match["unit"] or "")


def shared_unit(values: NDArray[Any]) -> str | None:
    """Return the unit that every number of a column has; None if they have none, or if some cell is something else.

    Commas, which may separate thousands or decimals, are something else.
    """
    cells = {cell for cell in values[~is_missing(values)].tolist() if _is_readable(cell)}
    readings = [_reading(cell) for cell in cells]
    units = {None if reading is None else reading[1] for reading in readings}
    unit = units.pop() if len(units) == 1 else None
    has_comma = any("," in str(cell) for cell in cells)
    return unit if unit and not has_comma and not odd_cells(values, unit).any() else None
