"""Columns of many categories: the mean target of each category, and codes for models that have a use for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from evencover.inputs.arrays import FloatArray, IntArray
from evencover.models._outputs import mean_and_scale
from evencover.models.estimators import checked_features, checked_rows, checked_target, remember_features
from evencover.models.folds import fixed_folds

UNSEEN = -1  # the code of a category that did not occur in `fit`; the last mean is its mean


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table as numbers, in which each column of many categories is the mean target of the categories.

    It is an array-like of shape (n, features): any regressor can use it. A model that has a use for the categories
    themselves finds their codes.

    Parameters
    ----------
    numbers : ndarray of shape (n, d)
        All other columns as numbers.
    means : ndarray of shape (n, k)
        The mean target of the category of each row, in each of k columns.
    codes : ndarray of int, shape (n, k) or more columns
        The category of each row: 0 is the most frequent one, −1 one that did not occur in `fit`. After the k columns
        with means there may be the units of a panel.
    """

    numbers: FloatArray
    means: FloatArray
    codes: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and features."""
        return len(self.numbers), self.numbers.shape[1] + self.means.shape[1]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> "EncodedTable":
        return EncodedTable(self.numbers[rows], self.means[rows], self.codes[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return np.concatenate([self.numbers, self.means], axis=1).astype(dtype or np.float64, copy=False)


def codes_of(X: Any, n: int) -> IntArray:
    """Return the codes of the categories in an encoded table of n rows; any other table has none, shape (n, 0)."""
    return X.codes if isinstance(X, EncodedTable) else np.empty((n, 0), dtype=np.intp)


@dataclass(frozen=True)
class FeatureLayout:
    """Where the features of a stack of regressors are: numbers, the means of categories, and their codes.

    Parameters
    ----------
    n_features : int
        Number of columns that every regressor can use: the numbers and the means.
    n_categories : tuple of int
        The number of categories of each column of codes.
    n_means : int
        Number of columns of means; those of the first so many columns of codes.
    ordered : bool
        Whether the rows are in the order of time, and later rows will be predicted.
    """

    n_features: int
    n_categories: tuple[int, ...] = ()
    n_means: int = 0
    ordered: bool = False

    @property
    def n_codes(self) -> int:
        """Number of columns of codes."""
        return len(self.n_categories)

    @property
    def n_numbers(self) -> int:
        """Number of columns that are neither means nor codes."""
        return self.n_features - self.n_means

    @property
    def numbers_and_codes(self) -> tuple[int, ...]:
        """The positions of the numbers, and of the codes that have means."""
        return (*range(self.n_numbers), *range(self.n_features, self.n_features + self.n_means))

    @property
    def unit(self) -> int | None:
        """The position of the codes of units, or of those with the most categories; None if there are no codes."""
        if not self.n_categories:
            return None
        has_units = self.n_codes > self.n_means
        return self.n_features + (self.n_codes - 1 if has_units else int(np.argmax(self.n_categories)))

    def features_and_codes(self, largest: int) -> tuple[int, ...]:
        """Return the positions of the numbers, the means, and the codes with means of at most so many categories."""
        few = (self.n_features + i for i, n in enumerate(self.n_categories[: self.n_means]) if n <= largest)
        return (*range(self.n_features), *few)


class SomeColumns(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Some columns of an array.

    Parameters
    ----------
    positions : sequence of int
        Their positions.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        self.positions = positions

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Remember the number of columns."""
        remember_features(self, X)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the columns. Shape (n, positions)."""
        return checked_rows(self, X)[:, list(self.positions)]


MEAN_FOLDS = 5  # of the means of training rows


class OwnMeans(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The columns of a stack, with means of categories that are learned from the rows of `fit` alone.

    `fit_transform` gives each row the means over rows of other folds.

    Parameters
    ----------
    n_means, n_codes : int
        The last `n_codes` columns are codes, and the `n_means` columns before them are the means of the first of these.
    """

    def __init__(self, n_means: int, n_codes: int) -> None:
        self.n_means = n_means
        self.n_codes = n_codes

    def fit(self, X: Any, y: Any, *, clusters: Any = None) -> Self:  # noqa: ARG002
        """Learn the means; only `fit_transform` uses the clusters, of which each is in one fold."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        self.means_ = [category_means(codes, target, int(codes.max(initial=0)) + 1) for codes in self._codes(rows)]
        remember_features(self, X)
        return self

    def fit_transform(self, X: Any, y: Any, *, clusters: Any = None) -> FloatArray:
        """Learn the means, and return the rows with means over rows of other folds."""
        self.fit(X, y)
        rows, target = checked_features(self, X), checked_target(self, X, y)
        folds, pairs = fixed_folds(len(target), MEAN_FOLDS, clusters), zip(self._codes(rows), self.means_, strict=True)
        return self._with(rows, [cross_fitted_means(codes, target, len(each) - 1, folds) for codes, each in pairs])

    def transform(self, X: Any) -> FloatArray:
        """Return the rows with the means. Shape (n, columns)."""
        rows = checked_rows(self, X)
        pairs = zip(self._codes(rows), self.means_, strict=True)
        return self._with(rows, [each[np.where(codes < len(each) - 1, codes, UNSEEN)] for codes, each in pairs])

    def _codes(self, rows: FloatArray) -> IntArray:
        """Return the codes that have means, shape (n_means, n)."""
        first = rows.shape[1] - self.n_codes
        return rows[:, first : first + self.n_means].astype(np.intp).T

    def _with(self, rows: FloatArray, means: list[FloatArray]) -> FloatArray:
        """Return a copy of rows with other means."""
        end = rows.shape[1] - self.n_codes
        return np.column_stack([rows[:, : end - self.n_means], *means, rows[:, end:]])


def category_means(codes: IntArray, y: FloatArray, n_categories: int) -> FloatArray:
    """Return the mean of y in each category, drawn towards the mean of all rows; the last is that of unseen categories.

    If categories are random with means of variance t² around the mean of all, and rows have variance s² around the mean
    of their category, then the best linear predictor of the mean of a category with n rows is

        m + n / (n + s² / t²) · (mean of its rows − m),

    where m is the mean of all rows. Both variances are estimated by the analysis of variance. Without any difference
    between categories beyond chance, all means are m.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        The category of each row; rows without a known one do not count.
    y : ndarray of shape (n,)
        Targets.
    n_categories : int
        Number of categories.

    Examples
    --------
    >>> category_means(np.array([0, 0, 0, 1, 1, 1]), np.array([1.0, 2.0, 3.0, 7.0, 8.0, 9.0]), 3).round(2)
    array([2.06, 7.94, 5.  , 5.  ])
    """
    if not (known := codes != UNSEEN).all():
        codes, y = codes[known], y[known]
    if not len(y):
        return np.zeros(n_categories + 1)
    counts = np.bincount(codes, minlength=n_categories).astype(np.float64)
    (mean,), (unit,) = mean_and_scale(y[:, None])
    deviations = (y - mean) / unit
    means = np.bincount(codes, deviations, minlength=n_categories) / np.maximum(counts, 1)
    n, n_used = len(y), int(np.count_nonzero(counts))
    if n_used < 2 or n_used == n:
        return np.full(n_categories + 1, mean)
    within = float(np.mean((deviations - means[codes]) ** 2)) * n / (n - n_used)
    between = float(counts @ means**2) - (n_used - 1) * within
    variance = between / (n - float(counts @ counts) / n)
    if variance <= 0:
        return np.full(n_categories + 1, mean)
    weights = counts / np.maximum(counts + within / variance, np.finfo(float).tiny)  # 0 for a category without rows
    return np.append(mean + unit * weights * means, mean)


def cross_fitted_means(codes: IntArray, y: FloatArray, n_categories: int, folds: IntArray) -> FloatArray:
    """Return for each row the mean of its category in the other folds. Shape (n,).

    With its own target in the mean, a row of a rare category would look as if its category said a lot.
    """
    result = np.full(len(y), y.mean())
    for fold in np.unique(folds):
        own, others = folds == fold, folds != fold
        if others.any():
            result[own] = category_means(codes[others], y[others], n_categories)[codes[own]]
    return result
