"""Features as numbers, and groups of rows (strata) by each feature."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray
from evencover._internal.bins import equal_frequency_ranks
from evencover._internal.dates import NO_DAY
from evencover._internal.frames import as_numbers, column, column_names, frame_kind, is_missing
from evencover._internal.text_output import number_text
from evencover.groups import Groups, first_few

_N_STRATA = 3
_MAX_DISTINCT = 10  # a numeric feature with at most so many distinct values is split by value
_MIN_ROWS_PER_VALUE = 5
_MAX_CATEGORIES = 20  # the most frequent ones; the others are pooled
_DAY = 86_400_000_000  # microseconds
_TIME_UNITS = (_DAY, _DAY // 24, 60_000_000, 1_000_000, 1)  # a day, an hour, a minute, a second


@dataclass(frozen=True, eq=False)
class Feature:
    """One feature as numbers: its values, or the codes of its categories; NaN where it is missing.

    Parameters
    ----------
    name : str
        Name of the column.
    values : ndarray of shape (n,)
        The numbers.
    categories : tuple of str or None
        The category of each code; None for a numeric feature.
    dates : bool
        Whether the numbers are microseconds since 1970.
    """

    name: str
    values: FloatArray
    categories: tuple[str, ...] | None = None
    dates: bool = False

    @cached_property
    def strata(self) -> Groups:
        """Groups of the rows by this feature: its categories or its thirds, and a group for missing values."""
        labels, edges = self.labels_and_edges
        missing = np.isnan(self.values)
        codes = np.where(missing, len(labels), np.searchsorted(edges, self.values))
        return Groups(codes, (*labels, f"{self.name} missing") if missing.any() else labels)

    @cached_property
    def labels_and_edges(self) -> tuple[tuple[str, ...], FloatArray]:
        """The labels of the strata of known values, and the upper edges of all but the last; few values are strata."""
        known = np.unique(self.values[~np.isnan(self.values)])
        few_values = len(known) <= min(_MAX_DISTINCT, max(_N_STRATA, len(self.values) // _MIN_ROWS_PER_VALUE))
        if self.categories is not None or few_values:
            return tuple(f"{self.name} = {text}" for text in self._texts(known)), known[:-1] / 2 + known[1:] / 2
        ordered = np.sort(self.values[~np.isnan(self.values)])  # more than a value for each stratum, so no rank is 0
        edges = np.unique(ordered[equal_frequency_ranks(len(ordered), _N_STRATA) - 1])
        edges = edges[edges < known[-1]] if edges[0] < known[-1] else known[-2:-1]  # so that the last bin has rows
        texts = self._texts(edges)
        between = [f"{low} < {self.name} <= {high}" for low, high in pairwise(texts)]
        return (f"{self.name} <= {texts[0]}", *between, f"{self.name} > {texts[-1]}"), edges

    def center_and_unit(self) -> tuple[float, float]:
        """Return the median and the standard deviation, 1 if that is 0; without overflow for huge numbers."""
        known = self.values[~np.isnan(self.values)]
        center = float(np.median(known)) if len(known) else 0.0
        largest = float(np.abs(known - center).max(initial=0.0)) or 1.0
        return center, largest * (float(((known - center) / largest).std()) if len(known) else 0.0) or 1.0

    @cached_property
    def category_codes(self) -> IntArray:
        """The code of each row's category; the code after the last one if it is missing."""
        return np.where(np.isnan(self.values), len(self.categories or ()), self.values).astype(np.intp)

    def _texts(self, values: FloatArray) -> list[str]:
        """Return values as text; numbers with four digits, or in full if four cannot distinguish them."""
        short = [self.value_text(value) for value in values]
        return short if len(set(short)) == len(short) else [self.edge_text(value) for value in values]

    def value_text(self, value: float) -> str:
        """Return one value as text: a category, a date, or a number with four digits."""
        if self.categories is not None:
            return self.categories[int(value)]
        return self.edge_text(value) if self.dates else number_text(value)

    def edge_text(self, value: float) -> str:
        """Return a number with all its digits, or a date; the time of day only if the feature has times."""
        if not self.dates or not np.isfinite(value):
            return full_number_text(value)
        text = str(np.datetime64(int(value), "us").item()).removeprefix(f"{NO_DAY} ")
        return text.removesuffix(" 00:00:00") if self._whole_days else text

    @cached_property
    def _whole_days(self) -> bool:
        return not np.any(self.values[~np.isnan(self.values)] % _DAY)

    def edge_between(self, low: float, high: float) -> float:
        """Return a round edge with low <= edge < high: a number with few digits, or the start of a day, hour, ..."""
        if not self.dates:
            return round_between(low, high)
        starts = (float(int(high - 1) // unit * unit) for unit in _TIME_UNITS)
        return next((start for start in starts if low <= start), low)


def round_between(low: float, high: float) -> float:
    """Return a number with few digits and low <= number < high."""
    middle, largest = low / 2 + high / 2, max(abs(low), abs(high))
    for power in range(ceil(log10(largest)), ceil(log10(largest)) - 20, -1):
        steps = floor(Decimal(middle).scaleb(-power))
        candidates = [float(f"{steps + more}e{power}") for more in (0, 1)]
        inside = [number for number in candidates if low <= number < high]
        if inside:
            return min(inside, key=lambda number: abs(number - middle)) + 0.0  # no negative zero
    return low


def full_number_text(value: float) -> str:
    """Return a number with all its digits, a large one in groups of three, as in 36 830.5."""
    if not 1e4 <= abs(value) < 1e15:
        return repr(float(value)).removesuffix(".0")
    return f"{float(value):,}".removesuffix(".0").replace(",", " ")


@dataclass(frozen=True, eq=False)
class Features:
    """The columns of a table as features, computed once for many audits of the same rows."""

    columns: Sequence[Feature]

    @classmethod
    def of(cls, X: Any) -> "Features":
        """Return the features of a table; `Features` are returned unchanged."""
        return X if isinstance(X, Features) else cls(features_of(X))

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    @cached_property
    def matrix(self) -> FloatArray:
        """The standardized features, see `standardized`. Shape (n, features)."""
        return standardized(self.columns)


def features_of(X: Any) -> list[Feature]:
    """Return the columns of a table as features."""
    table = X.toarray() if hasattr(X, "toarray") else X if frame_kind(X) is not None else np.asarray(X)
    if len(np.shape(table)) != 2:
        raise ValueError(f"X must be two-dimensional, of shape (n, features); got shape {np.shape(table)}")
    names = column_names(table)
    repeated = [name for name, count in Counter(names or ()).items() if count > 1]
    if repeated:
        raise ValueError(f"X must have unique column names; duplicate column names: {first_few(repeated)}")
    keys = range(table.shape[1]) if names is None else names
    return [_feature(key if isinstance(key, str) else f"column {key}", column(table, key, "audit")) for key in keys]


def standardized(features: Sequence[Feature]) -> FloatArray:
    """Return features with median 0 and standard deviation 1; 0 if missing or constant. Shape (n, features)."""
    matrix = np.empty((len(features[0].values), len(features)))
    for position, feature in enumerate(features):
        center, unit = feature.center_and_unit()
        matrix[:, position] = np.nan_to_num((feature.values - center) / unit)
    return matrix


def _feature(name: str, values: Any) -> Feature:
    """Return a column as a feature: numbers and dates as numbers, anything else as category codes."""
    if values.dtype.kind == "M":
        times = values.astype("datetime64[us]")
        return Feature(name, np.where(np.isnat(times), np.nan, times.astype(np.int64)), dates=True)
    if values.dtype.kind == "b":
        return Feature(name, values.astype(float), ("False", "True"))
    numbers = as_numbers(values)
    if numbers is not None:
        if np.isinf(numbers).any():
            raise ValueError(
                f"X must have finite or missing values; infinite values in {name}: {np.isinf(numbers).sum()}"
            )
        return Feature(name, numbers)
    missing = is_missing(values.astype(object))
    texts = [str(value) for value in values[~missing]]
    kept = sorted(text for text, _ in Counter(texts).most_common(_MAX_CATEGORIES))
    code_of = {text: code for code, text in enumerate(kept)}
    codes = np.full(len(values), np.nan)
    codes[~missing] = [code_of.get(text, len(kept)) for text in texts]
    return Feature(name, codes, (*kept, "any other"))
