"""The column of the target: its numbers, or what is wrong with it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import FloatArray, reads_as_number
from evencover.inputs.dates import has_date_type
from evencover.inputs.frames import RowNumbers, as_numbers, first_non_numeric, is_missing, numbers_in_text
from evencover.studies.column_checks import MAX_WORDS, are_words
from evencover.studies.messages import Message
from evencover.target_support import Support

_ROUNDING_MARGIN = 1e-12  # numbers that agree to this share of their size are equal
_MAX_CLASSES = 20  # a text target with more different values is no class


def read_target(
    target: str, values: NDArray[Any], rows: RowNumbers, *, drop_missing: bool, of_batch: bool = False
) -> tuple[FloatArray, list[Message]]:
    """Return the targets, with NaN for missing ones, and the problems of the column.

    Parameters
    ----------
    target : str
        The name of the column.
    values : ndarray of shape (n,)
        Its values.
    rows : RowNumbers
        How messages number the rows.
    drop_missing : bool
        Whether rows without a target are left out; otherwise they are a problem.
    of_batch : bool
        Whether there are other rows, so that these may all have the same target, or none.
    """
    name = f"target: column {target!r}"
    numbers = as_numbers(values)
    if numbers is None:
        numbers = numbers_in_text(values)
    if numbers is None:
        return np.empty(0), [_problem_of_other_values(name, values, rows)]
    problems = []
    if (infinite := np.isinf(numbers)).any():
        found = f"infinite values: {infinite.sum()} of {len(numbers)} {rows.first(infinite)}"
        texts = sorted({f"{value:g}" for value in numbers[infinite]})
        problems.append(
            Message(f"{name} must be finite; {found}", ({"missing_values": texts, "missing_target": "drop"},))
        )
    missing = np.isnan(numbers)
    if missing.all() and not of_batch:
        return numbers, [Message(f"{name} must hold numbers; it has no value in any row")]
    if missing.any() and not drop_missing:
        text = f"{name} has no value in {missing.sum()} of {len(numbers)} rows {rows.first(missing)}"
        problems.append(Message(text, ({"missing_target": "drop"},)))
    known = numbers[np.isfinite(numbers)]
    if not of_batch and len(known) > 1 and np.ptp(known) <= _ROUNDING_MARGIN * np.abs(known).max():
        problems.append(Message(f"{name} must vary; it is {known[0]:g} in every row, so there is nothing to predict"))
    return numbers, problems


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
    words = [text for text in texts if not any(map(str.isdigit, text))]  # among numbers, or among text such as 5 kg
    blamed = words if words and are_words(words) else list(texts)
    row = next(row for row, each in enumerate(values.tolist()) if each in blamed)
    found = f"{values[row]!r:.80} in {rows.text(row)}; not numbers: {texts.total()} of {len(known)} values"
    if blamed is words:
        remedy = {"missing_values": words, "missing_target": "drop"}
        return Message(f"{name} must hold numbers; got {found}", (remedy,))
    return Message(f"{name} must hold numbers; got {found}. Correct these values, or delete them")
