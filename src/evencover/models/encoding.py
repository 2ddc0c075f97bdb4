"""Encoding of tables with text and missing values, for models that need numbers."""

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
from evencover._internal.frames import (
    as_numbers,
    check_no_infinite,
    column,
    column_names,
    is_missing,
    n_rows,
    numeric_column,
)
from evencover.groups import first_few
from evencover.models._validation import check_ready, remember_features


@dataclass(frozen=True)
class EncodedColumn:
    """How one column is encoded as numbers.

    Parameters
    ----------
    name : str
        The name of the column.
    missing : int
        Number of missing values in `fit`. If there are any, an indicator column marks missing values.
    fill : float
        Replacement for a missing number: the median in `fit`.
    categories : tuple of str or None
        Values with their own indicator column, the most frequent first; None for a column of numbers.
    rare : tuple of str
        The other values in `fit`. If there are any, one indicator column marks them and all unseen values.
    text : bool
        Whether the column held text, as opposed to numbers that are treated as categories.
    """

    name: str
    missing: int
    fill: float = 0.0
    categories: tuple[str, ...] | None = None
    rare: tuple[str, ...] = ()
    text: bool = False

    @property
    def outputs(self) -> list[str]:
        """Names of the encoded columns."""
        indicator = [f"{self.name} missing"] * (self.missing > 0)
        if self.categories is None:
            return [self.name, *indicator]
        return [
            *(f"{self.name}={text}" for text in self.categories),
            *[f"{self.name} other"] * bool(self.rare),
            *indicator,
        ]

    def encoded(self, values: NDArray[Any]) -> FloatArray:
        """Return the values as numbers. Shape (n, outputs)."""
        return self._numbers(values) if self.categories is None else self._indicators(values)

    def _numbers(self, values: NDArray[Any]) -> FloatArray:
        numbers = _as_numbers(values, self.name)
        missing = np.isnan(numbers)
        filled = np.where(missing, self.fill, numbers)
        return np.column_stack([filled, missing] if self.missing else [filled])

    def _indicators(self, values: NDArray[Any]) -> FloatArray:
        position = {text: number for number, text in enumerate(self.categories or ())}
        n_outputs = len(self.outputs)  # also the position of an extra column, which is removed below
        other = len(position) if self.rare else n_outputs
        missing = n_outputs - 1 if self.missing else n_outputs
        texts = _as_texts(values, self.name)
        codes = [missing if text is None else position.get(text, other) for text in texts]
        return np.eye(n_outputs + 1)[codes, :n_outputs]


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table as numbers: impute and mark missing values, one-hot encode text.

    In a column of numbers, missing values are replaced by the median, and an indicator column (0 or 1) marks them. In a
    column of text, each of the most frequent values gets an indicator column, all rarer values share one, and missing
    values get one. A value that did not occur in `fit` counts as rare; if `fit` had no rare values, it is 0 in all
    columns.

    Parameters
    ----------
    categorical : sequence of str or int
        Columns of numbers to treat as categories, such as codes; by name, or by position in an array.
    ignored : sequence of str or int
        Columns that are not features, for example because only a taxonomy uses them.
    max_categories : int
        Maximum number of values of a column that get their own indicator column.

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
        """Learn the type, median and categories of each column."""
        check_count(self.max_categories, "max_categories")
        X = _checked_table(self, X, reset=True)
        names = column_names(X) or range(X.shape[1])
        for argument in ("categorical", "ignored"):
            _check_column_names(argument, getattr(self, argument), names)
        columns = (self._learn_column(name, values) for name, values in self._columns(X))
        self.columns_: tuple[EncodedColumn, ...] = tuple(columns)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the table as numbers. Shape (n, outputs)."""
        check_is_fitted(self)
        X = _checked_table(self, X, reset=False)
        blocks = [known.encoded(values) for known, (_, values) in zip(self.columns_, self._columns(X), strict=True)]
        return np.concatenate(blocks, axis=1) if blocks else np.empty((n_rows(X), 0))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the names of the encoded columns. Shape (outputs,)."""
        check_is_fitted(self)
        return np.array([name for known in self.columns_ for name in known.outputs], dtype=object)

    def unseen_values(self, X: Any) -> list[str]:
        """Return a message for each column with missing values or categories that did not occur in `fit`."""
        check_is_fitted(self)
        messages = []
        for known, (_, values) in zip(self.columns_, self._columns(X), strict=True):
            missing = int(is_missing(values).sum())
            if missing and not known.missing:
                messages.append(f"{known.name!r} is missing in {missing} rows; it was never missing in fit")
            texts = Counter([] if known.categories is None else _as_texts(values, known.name))
            new = [text for text in texts if text not in {None, *(known.categories or ()), *known.rare}]
            if new:
                rows = sum(texts[text] for text in new)
                messages.append(
                    f"{known.name!r} has {len(new)} values never seen before, in {rows} rows: {new[0]!r}, ..."
                )
        return messages

    def _columns(self, X: Any) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield the name and the values of each column that is a feature."""
        for name in column_names(X) or range(X.shape[1]):
            if name not in self.ignored:
                yield name, column(X, name, "TableEncoder")

    def _learn_column(self, name: str | int, values: NDArray[Any]) -> EncodedColumn:
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
    """Return a frame unchanged, anything else as an array; its columns are stored, or compared with the stored ones."""
    if column_names(X) is None:
        return validate_data(encoder, X, reset=reset, dtype=None, ensure_all_finite=False)
    if reset:
        remember_features(encoder, X)
    else:
        check_ready(encoder, X)
    return X


def _check_column_names(argument: str, given: Any, names: Sequence[Any]) -> None:
    """Raise unless every given name is a column of X."""
    if isinstance(given, str):
        raise TypeError(f"{argument} must be a sequence of names of columns; got the text {given!r}")
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"{argument} must name columns of X, which has {first_few(list(names))}; got {unknown}")


def _as_numbers(values: NDArray[Any], name: str) -> FloatArray:
    """Return a column as numbers, with NaN for missing values; raise ValueError for text and infinite values."""
    numbers = numeric_column(values, f"column {name!r}", rule="must hold numbers, as it did in fit")
    check_no_infinite(numbers, f"column {name!r}")
    return numbers


def _as_texts(values: NDArray[Any], name: str) -> list[str | None]:
    """Return a column as text, with None for missing values; whole numbers are written without a decimal point."""
    if values.dtype.kind in "mM":
        raise ValueError(f"column {name!r} must hold numbers or text; got dates or times, of type {values.dtype}")
    missing = is_missing(values).tolist()
    return [None if absent else _text(value, name) for value, absent in zip(values.tolist(), missing, strict=True)]


def _text(value: Any, name: str) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, str | bool | int | float):
        kind = type(value).__name__
        raise ValueError(
            f"column {name!r} must hold numbers or text; got {value!r} of type {kind}. Convert the column to one of "
            "these, or leave it out"
        )
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
