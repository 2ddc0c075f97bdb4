"""Values that may not be what they seem: cells that are no numbers, numbers for missing values, codes of classes."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import BoolArray, FloatArray, IntArray
from evencover.inputs.frames import RowNumbers, is_missing
from evencover.inputs.number_texts import are_few
from evencover.studies.messages import Message

_MAX_EXAMPLES = 3
MAX_TEXTS = 10  # different texts that an option can list


@dataclass(frozen=True)
class OddCells:
    """Cells of a column of numbers that are no numbers, and count as missing values.

    Parameters
    ----------
    counts : mapping from str to int
        The different texts in these cells, and how often each occurs.
    total : int
        Number of all cells of the column that are not missing.
    examples : tuple of (object, str)
        The first of them, with their rows as text.
    """

    counts: Mapping[str, int]
    total: int
    examples: tuple[tuple[Any, str], ...]

    @classmethod
    def of(
        cls, values: NDArray[Any], odd: BoolArray, rows: RowNumbers, positions: IntArray | None = None
    ) -> "OddCells":
        """Return the cells of a column that `odd` marks; `positions` are those of its rows, if these are not all."""
        places = np.flatnonzero(odd)
        first = places[:_MAX_EXAMPLES]
        numbered = first if positions is None else positions[first]
        cells = values[places].tolist()
        examples = tuple((cell, rows.text(row)) for cell, row in zip(cells, numbered, strict=False))
        counts = Counter(map(str, cells))
        return cls(counts, int(np.count_nonzero(~is_missing(values))), examples)

    @property
    def are_few(self) -> bool:
        """Whether the other cells show that the column holds numbers."""
        return are_few(self.counts, self.total)

    @property
    def description(self) -> str:
        """How many they are, with examples and their rows."""
        count = sum(self.counts.values())
        examples = ", ".join(f"{value!r:.40} in {row}" for value, row in self.examples)
        return f"{count} of {self.total} cells: {examples}{', ...' * (count > len(self.examples))}"


def odd_cells_note(columns: Mapping[str, OddCells]) -> Iterator[Message]:
    """Yield a note on columns that are read as numbers although a few cells are none."""
    if not columns:
        return
    described = ", ".join(f"{name} ({odd.description})" for name, odd in columns.items())
    text = f"read as numbers, with a missing value where a cell is no number: {described}"
    texts = list(dict.fromkeys(text for odd in columns.values() for text in odd.counts))
    listed = [{"missing_values": texts}] if len(texts) <= MAX_TEXTS else []
    yield Message(text, (*listed, {"categorical": "NAME"}, {"drop": "NAME"}), lead=". To decide it yourself, add")


_NEGATIVE_CODES = (-99, -999, -9999, -99999)
_LARGE_CODES = (999, 9999, 99999)
_MIN_REPEATS = 3
_FAR = 3  # a code is larger than this multiple of all other values


def missing_value_codes(columns: Mapping[str, FloatArray], target: str, y: FloatArray) -> Iterator[Message]:
    """Yield a warning about numbers such as −999 that may mean a missing value.

    Such a number occurs three times or more. It is the only negative number of its column, or more than three times as
    large as all others, none of which is negative.

    Parameters
    ----------
    columns : mapping from str to ndarray of shape (n,)
        The features that are numbers, with NaN for missing values.
    target : str
        The name of the target.
    y : ndarray of shape (n,)
        Its values.
    """
    for name, numbers in {**columns, target: y}.items():
        known = numbers[np.isfinite(numbers)]
        code = _missing_value_code(known)
        if code is None:
            continue
        others = known[known != code]
        text = (
            f"{'the target' if name == target else 'column'} {name!r} is {code} in {len(known) - len(others)} of "
            f"{len(known)} rows, and between {others.min():g} and {others.max():g} in all others, so {code} may mean a "
            "missing value"
        )
        yield Message(text, ({"missing_values": [str(code)]},))


def _missing_value_code(known: FloatArray) -> int | None:
    """Return the number that may mean a missing value; None if there is none."""
    if len(known) <= _MIN_REPEATS:
        return None
    smallest, largest = known.min(), known.max()
    code = int(smallest) if smallest in _NEGATIVE_CODES else int(largest) if largest in _LARGE_CODES else None
    others = known[known != code]
    if code is None or len(known) - len(others) < _MIN_REPEATS or not len(others) or others.min() < 0:
        return None
    return code if code < 0 or code > _FAR * others.max() else None


_MAX_CLASSES = 20
_MIN_ROWS_OF_CLASS = 3  # on average
_CLASS_NAMES = re.compile(
    r"(.*[\W_\d])?(class|classes|target|label|labels|type|species|category|cat|digit|cluster|code|cultivar)([\W_\d].*)?",
    re.IGNORECASE,
)


def class_code_warning(target: str, y: FloatArray) -> Iterator[Message]:
    """Yield a warning if a target may be a class: it has two values, or a few small whole numbers and such a name."""
    distinct = np.unique(y)
    if len(distinct) == 2:
        yield Message(
            f"the target {target!r} has two values only, {distinct[0]:g} and {distinct[1]:g}. Intervals for such "
            "a target say little: predict the probability of a class with a classifier instead"
        )
    elif _may_be_codes(distinct, len(y)) and _CLASS_NAMES.fullmatch(target):
        yield Message(
            f"the target {target!r} has {len(distinct)} different values, whole numbers from {distinct[0]:g} to "
            f"{distinct[-1]:g}. If these are codes of classes, intervals say little: predict the class with a "
            "classifier instead. If they are counts or ratings, nothing is wrong"
        )


def _may_be_codes(distinct: FloatArray, n: int) -> bool:
    """Return whether different values, in order, are a few whole numbers from 0 or 1, with few gaps."""
    if not 2 < len(distinct) <= min(_MAX_CLASSES, n / _MIN_ROWS_OF_CLASS) or np.any(distinct % 1):
        return False
    return distinct[0] in (0, 1) and bool(distinct[-1] < 2 * len(distinct))
