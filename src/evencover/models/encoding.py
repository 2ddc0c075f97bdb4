"""Tables as numbers: what a CSV file holds, for models that take numbers only."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from evencover._internal.arrays import FloatArray, check_count
from evencover._internal.frames import as_numbers, column, column_names, first_non_numeric, is_missing, n_rows
from evencover.groups import first_few
from evencover.models._validation import check_ready, remember_features


@dataclass(frozen=True)
class EncodedColumn:
    """How a column becomes numbers.

    Parameters
    ----------
    name : str
        Of the column.
    missing : int
        Rows of `fit` without a value; with some, a column of its own marks them.
    fill : float
        The number in the place of a missing one: the median of `fit`.
    categories : tuple of str or None
        The values that get a column each, the most frequent first; None for numbers.
    rare : tuple of str
        The other values of `fit`; if there are any, a column marks these, and values never seen.
    text : bool
        Whether it held text, and not numbers that stand for categories.
    """

    name: str
    missing: int
    fill: float = 0.0
    categories: tuple[str, ...] | None = None
    rare: tuple[str, ...] = ()
    text: bool = False

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that come out."""
        marks = [f"{self.name} missing"] * (self.missing > 0)
        if self.categories is None:
            return [self.name, *marks]
        return [
            *(f"{self.name}={text}" for text in self.categories),
            *[f"{self.name} other"] * bool(self.rare),
            *marks,
        ]

    def encoded(self, values: NDArray[Any]) -> FloatArray:
        """Return the column's numbers. Shape (n, outputs)."""
        return self._numbers(values) if self.categories is None else self._indicators(values)

    def _numbers(self, values: NDArray[Any]) -> FloatArray:
        numbers = _as_numbers(values, self.name)
        missing = np.isnan(numbers)
        filled = np.where(missing, self.fill, numbers)
        return np.column_stack([filled, missing] if self.missing else [filled])

    def _indicators(self, values: NDArray[Any]) -> FloatArray:
        places = {text: place for place, text in enumerate(self.categories or ())}
        nowhere = len(self.outputs)  # a column that is cut off
        other = len(places) if self.rare else nowhere
        texts = _as_texts(values, self.name)
        absent = nowhere - 1 if self.missing else nowhere
        codes = [absent if text is None else places.get(text, other) for text in texts]
        return np.eye(nowhere + 1)[codes, :nowhere]


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A table's columns as numbers: numbers stay, text becomes indicators, missing values are filled and marked.

    A number column's missing values become its median, and a column of 0 and 1 beside it marks them. Of a text
    column each of the most frequent values gets a column of 0 and 1; so do the rarer ones together, and the missing
    ones. A value never seen in `fit` counts as a rare one, and is 0 in all columns where there were none.

    Parameters
    ----------
    categorical : sequence of str or int
        Columns of numbers to take as categories, such as codes; by name, or by position in an array.
    ignored : sequence of str or int
        Columns that are no features, though a taxonomy may need them.
    max_categories : int
        How many values of a column get one of their own.

    Attributes
    ----------
    columns_ : tuple of EncodedColumn
        How each column is encoded.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"area": [50.0, None, 80.0], "region": ["north", "south", "north"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.transform(table)
    array([[50.,  0.,  1.,  0.],
           [65.,  1.,  0.,  1.],
           [80.,  0.,  1.,  0.]])
    >>> encoder.get_feature_names_out().tolist()
    ['area', 'area missing', 'region=north', 'region=south']
    """

    def __init__(
        self, *, categorical: Sequence[str | int] = (), ignored: Sequence[str | int] = (), max_categories: int = 30
    ) -> None:
        self.categorical = categorical
        self.ignored = ignored
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn each column's kind, median and categories."""
        check_count(self.max_categories, "max_categories")
        X = _checked_table(self, X, reset=True)
        names = column_names(X) or range(X.shape[1])
        for argument in ("categorical", "ignored"):
            _check_names_columns(argument, getattr(self, argument), names)
        columns = (self._learned(name, values) for name, values in self._columns(X))
        self.columns_: tuple[EncodedColumn, ...] = tuple(columns)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the table as numbers. Shape (n, outputs)."""
        check_is_fitted(self)
        X = _checked_table(self, X, reset=False)
        blocks = [known.encoded(values) for known, (_, values) in zip(self.columns_, self._columns(X), strict=True)]
        return np.concatenate(blocks, axis=1) if blocks else np.empty((n_rows(X), 0))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the names of the columns that come out. Shape (outputs,)."""
        check_is_fitted(self)
        return np.array([name for known in self.columns_ for name in known.outputs], dtype=object)

    def unseen_values(self, X: Any) -> list[str]:
        """Return in words what new rows have that no row of `fit` had: missing values, unknown categories."""
        check_is_fitted(self)
        found = []
        for known, (_, values) in zip(self.columns_, self._columns(X), strict=True):
            missing = int(is_missing(values).sum())
            if missing and not known.missing:
                found.append(f"{known.name!r} is missing in {missing} rows, and was in none before")
            texts = Counter([] if known.categories is None else _as_texts(values, known.name))
            new = [text for text in texts if text not in {None, *(known.categories or ()), *known.rare}]
            if new:
                rows = sum(texts[text] for text in new)
                found.append(f"{known.name!r} has {len(new)} values never seen before, in {rows} rows: {new[0]!r}, ...")
        return found

    def _columns(self, X: Any) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield the name and the values of each column that is a feature."""
        for name in column_names(X) or range(X.shape[1]):
            if name not in self.ignored:
                yield name, column(X, name, "TableEncoder")

    def _learned(self, name: str | int, values: NDArray[Any]) -> EncodedColumn:
        """Return how to encode a column with these values."""
        if name not in self.categorical and as_numbers(values) is not None:
            numbers = _as_numbers(values, str(name))
            known = numbers[~np.isnan(numbers)]
            return EncodedColumn(str(name), len(numbers) - len(known), float(np.median(known)) if len(known) else 0.0)
        counts = Counter(_as_texts(values, str(name)))
        missing_rows = counts.pop(None, 0)
        ranked = sorted(counts, key=lambda text: (-counts[text], text))
        kept = tuple(ranked[: self.max_categories])
        rare = tuple(ranked[self.max_categories :])
        return EncodedColumn(str(name), missing_rows, 0.0, kept, rare, as_numbers(values) is None)  # type: ignore[arg-type]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def _checked_table(encoder: TableEncoder, X: Any, *, reset: bool) -> Any:
    """Return the table: a frame as it is, anything else as an array, its columns noted or compared."""
    if column_names(X) is None:
        return validate_data(encoder, X, reset=reset, dtype=None, ensure_all_finite=False)
    if reset:
        remember_features(encoder, X)
    else:
        check_ready(encoder, X)
    return X


def _check_names_columns(argument: str, given: Any, names: Sequence[Any]) -> None:
    """Raise unless what was given names columns of X."""
    if isinstance(given, str):
        raise TypeError(f"{argument} must be a sequence of names of columns; got the text {given!r}")
    strange = [name for name in given if name not in names]
    if strange:
        raise ValueError(f"{argument} must name columns of X, which has {first_few(list(names))}; got {strange}")


def _as_numbers(values: NDArray[Any], name: str) -> FloatArray:
    """Return a column as numbers, missing ones as NaN; text and infinite ones are refused."""
    numbers = as_numbers(values)
    if numbers is None:
        row, strange = first_non_numeric(values)
        raise ValueError(f"column {name!r} must hold numbers, as it did in fit; got {strange!r} in row {row}")
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise ValueError(
            f"column {name!r} must be finite or missing; {len(infinite)} values are infinite (the first in row "
            f"{infinite[0]})"
        )
    return numbers


def _as_texts(values: NDArray[Any], name: str) -> list[str | None]:
    """Return a column as text, None where it is missing; a whole number is written without its point."""
    if values.dtype.kind in "mM":
        raise ValueError(f"column {name!r} must hold numbers or text; got dates or times, of type {values.dtype}")
    gone = is_missing(values).tolist()
    return [None if missing else _text(value, name) for value, missing in zip(values.tolist(), gone, strict=True)]


def _text(value: Any, name: str) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, str | bool | int | float):
        kind = type(value).__name__
        raise ValueError(
            f"column {name!r} must hold numbers or text; got {value!r} of type {kind}. Make one of these of it, or "
            "leave it out"
        )
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
