"""Features as numbers, and groups of rows (strata) by each feature."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover._internal.bins import Bins
from evencover._internal.frames import as_numbers, column, column_names, frame_kind, is_missing
from evencover.groups import Groups, first_few

_N_STRATA = 3
_MAX_DISTINCT = 10  # a numeric feature with at most so many distinct values is split by value
_MIN_ROWS_PER_VALUE = 5
_MAX_CATEGORIES = 20  # the most frequent ones; the others are pooled


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
        missing = np.isnan(self.values)
        known = np.unique(self.values[~missing])
        few_values = len(known) <= min(_MAX_DISTINCT, max(_N_STRATA, len(self.values) // _MIN_ROWS_PER_VALUE))
        if self.categories is not None or few_values:
            labels = [f"{self.name} = {text}" for text in self._texts(known)]
            codes = np.searchsorted(known, self.values)
        else:
            edges = np.unique(Bins.equal_frequency(self.values[~missing], _N_STRATA, self.name).edges)
            edges = edges[edges < known[-1]] if edges[0] < known[-1] else known[-2:-1]  # so that the last bin has rows
            texts = self._texts(edges)
            between = [f"{low} < {self.name} <= {high}" for low, high in pairwise(texts)]
            labels = [f"{self.name} <= {texts[0]}", *between, f"{self.name} > {texts[-1]}"]
            codes = np.searchsorted(edges, self.values)
        codes = np.where(missing, len(labels), codes)
        return Groups(codes, (*labels, f"{self.name} missing") if missing.any() else tuple(labels))

    def center_and_unit(self) -> tuple[float, float]:
        """Return the median and the standard deviation, 1 if that is 0; without overflow for huge numbers."""
        known = self.values[~np.isnan(self.values)]
        center = float(np.median(known)) if len(known) else 0.0
        largest = float(np.abs(known - center).max(initial=0.0)) or 1.0
        return center, largest * (float(((known - center) / largest).std()) if len(known) else 0.0) or 1.0

    def _texts(self, values: FloatArray) -> list[str]:
        """Return values as text; numbers with four digits, or in full if four cannot distinguish them."""
        short = [self.value_text(value) for value in values]
        return short if len(set(short)) == len(short) else [repr(float(value)) for value in values]

    def value_text(self, value: float) -> str:
        """Return one value as text: the nearest category, a date, or a number with four digits."""
        if self.categories is not None:
            return self.categories[int(np.clip(np.round(value), 0, len(self.categories) - 1))]
        if self.dates and np.isfinite(value):
            return str(np.datetime64(int(value), "us").item())
        return f"{value:.4g}"


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
