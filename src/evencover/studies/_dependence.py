"""Rows that depend on each other: several rows of one patient or country, and rows in the order of time."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from evencover._internal.arrays import FloatArray, IntArray
from evencover._internal.frames import as_numbers, is_missing
from evencover.models.column_kinds import is_id_name, is_time_name
from evencover.studies._messages import Message

_MIN_VALUES = 25  # different ids, for a split by cluster
_MAX_SHARE_OF_NEW = 0.9  # different ids per row; with more, hardly any has several rows
_MAX_IMBALANCE = 10  # rows of the most frequent id, in mean rows of an id; a category may have more
_MIN_TIMES = 20
_IN_ORDER = 0.99  # rank correlation of time and position
_DENSE = 0.5  # share of the pairs of an id and a time that a panel has
_UNITS = re.compile(
    r"(.*[\W_])?(subject|patient|person|individual|participant|respondent|child|student|pupil|animal|country|firm|"
    r"company|business|customer|client|user|player|household|family|school|hospital|store|site|station|plot)",
    re.IGNORECASE,
)


def dependence_notes(columns: Mapping[str, NDArray[Any]]) -> list[Message]:
    """Return notes on rows that depend on each other: after a random split, a model can look better than it is.

    Parameters
    ----------
    columns : mapping from str to ndarray of shape (n,)
        The columns of the table, without the target; dates are of a date type.
    """
    times = dict(_time_columns(columns))
    others = {name: values for name, values in columns.items() if name not in times}
    return [*_repeated_ids(others, times), *_rows_in_order(times)]


def time_numbers(values: NDArray[Any]) -> FloatArray | None:
    """Return a column of dates or numbers as numbers that grow with time, with NaN for missing ones; else None."""
    if values.dtype.kind != "M":
        return as_numbers(values)
    return np.where(np.isnat(values), np.nan, values.astype(np.int64).astype(np.float64))


def _time_columns(columns: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, FloatArray]]:
    """Yield the columns of dates, and of numbers that are called a time, without missing values."""
    for name, values in columns.items():
        numbers = time_numbers(values) if values.dtype.kind == "M" or is_time_name(name) else None
        if numbers is not None and np.isfinite(numbers).all():
            yield name, numbers


def _rows_in_order(times: Mapping[str, FloatArray]) -> list[Message]:
    """Return a note on the first column of times in whose order the rows are."""
    for name, numbers in times.items():
        if len(np.unique(numbers)) >= _MIN_TIMES and _rank_correlation(numbers) >= _IN_ORDER:
            text = (
                f"the rows are in the order of {name!r}. A random split tests on rows between those that the model was "
                "fitted on. If you will predict later rows"
            )
            return [Message(text, ({"time": name},), lead=", add")]
    return []


def _rank_correlation(numbers: FloatArray) -> float:
    """Return the rank correlation of a column and the position of its rows, without its sign."""
    return abs(float(np.corrcoef(rankdata(numbers), np.arange(len(numbers)))[0, 1]))


def _repeated_ids(columns: Mapping[str, NDArray[Any]], times: Mapping[str, FloatArray]) -> list[Message]:
    """Return a note on the first column that looks like the id of a person, a country or the like, with several rows.

    It has such a name, or it occurs at most once at each time (a panel).
    """
    time_codes = [np.unique(numbers, return_inverse=True)[1] for numbers in times.values()]
    for name, values in columns.items():
        codes = _codes(values)
        counts = np.bincount([] if codes is None else codes)
        if codes is None or not _MIN_VALUES <= len(counts) < _MAX_SHARE_OF_NEW * len(codes):
            continue
        is_category = counts.max() > _MAX_IMBALANCE * counts.mean()
        panel = any(_is_panel(codes, time, is_text=as_numbers(values) is None) for time in time_codes)
        if is_id_name(name) or (not is_category and (panel or _UNITS.fullmatch(str(name)))):
            text = (
                f"{name!r} has {len(counts)} different values, with {counts.mean():.1f} rows each on average. A random "
                "split tests on values that the model has seen. If you will predict for new ones"
            )
            return [Message(text, ({"clusters": name},), lead=", add")]
    return []


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
