"""Regressors for later rows: they continue trends, or start from the last value of a unit. Rows are in time order."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from evencover.inputs.arrays import FloatArray, IntArray
from evencover.models.estimators import (
    CloneMixin,
    checked_features,
    checked_rows,
    checked_target,
    fitted_clone,
    remember_features,
)
from evencover.models.linear import PENALTIES, OrthogonalFunctions


class BoostedTrend(CloneMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A linear model, plus trees that are fitted to what it leaves: trees alone cannot continue a trend.

    Parameters
    ----------
    trend, boosting : regressor
        The linear model, and the regressor of its residuals.
    """

    def __init__(self, trend: Any, boosting: Any) -> None:
        self.trend = trend
        self.boosting = boosting

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the linear model, and the trees to its residuals."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        self.trend_ = fitted_clone(self.trend, rows, target)
        self.boosting_ = fitted_clone(self.boosting, rows, target - np.ravel(self.trend_.predict(rows)))
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the sum of both. Shape (n,)."""
        rows = checked_rows(self, X)
        return np.asarray(np.ravel(self.trend_.predict(rows)) + np.ravel(self.boosting_.predict(rows)))


class LastValues(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The last target of a unit, plus a linear function of what has changed since then; `fit` gets rows in time order.

    If x' and y' are the features and the target in the last training row of the unit, the prediction is
    y' + (x − x')·b. The coefficients b come from the second half of the rows, compared with the last rows of the first
    half, by ridge regression; its penalty is chosen by leave-one-out errors. Without `changes`, b is zero: the naive
    forecast. A unit that is not known has the mean of all last rows.

    Parameters
    ----------
    n_numbers : int, optional
        The first so many columns are features x; by default all are.
    unit : int, optional
        The column that holds the codes of units; by default all rows are one unit.
    changes : bool
        Whether changes of the features count.

    Attributes
    ----------
    last_ : tuple of two ndarrays, of shape (units + 1, n_numbers) and (units + 1,)
        The features and the target in the last row of each unit; at the end, their means.
    coef_ : ndarray of shape (n_numbers,)
        The coefficients b.
    """

    def __init__(self, n_numbers: int | None = None, unit: int | None = None, *, changes: bool = True) -> None:
        self.n_numbers = n_numbers
        self.unit = unit
        self.changes = changes

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the last values, and the coefficients."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        units = self._units(rows)
        self.n_units_ = int(units.max(initial=0)) + 1
        self.coef_ = np.zeros(rows.shape[1] if self.n_numbers is None else self.n_numbers)
        half = len(target) // 2
        if self.changes and half:
            self._learn_changes(rows, target, units, half)
        self.last_ = self._last(rows, target, units)
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions. Shape (n,)."""
        rows = checked_rows(self, X)
        units = self._units(rows)
        features, target = self.last_
        known = np.where((units >= 0) & (units < self.n_units_), units, -1)
        return np.asarray(target[known] + (self._features(rows) - features[known]) @ self.coef_)

    def _units(self, rows: FloatArray) -> IntArray:
        """Return the unit of each row; 0 if there is only one."""
        return np.zeros(len(rows), dtype=np.intp) if self.unit is None else rows[:, self.unit].astype(np.intp)

    def _features(self, rows: FloatArray) -> FloatArray:
        return rows[:, : len(self.coef_)]

    def _last(self, rows: FloatArray, target: FloatArray, units: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return features and target in the last row of each unit: the means for one without rows, and at the end."""
        last = np.full(self.n_units_ + 1, -1)
        np.maximum.at(last, np.where(units >= 0, units, self.n_units_), np.arange(len(target)))
        last[-1] = -1
        seen = last[last >= 0]
        if not len(seen):
            seen = np.array([len(target) - 1])
        means = self._features(rows[seen]).mean(axis=0), target[seen].mean()
        features = np.where(last[:, None] >= 0, self._features(rows[last]), means[0])
        return features, np.where(last >= 0, target[last], means[1])

    def _learn_changes(self, rows: FloatArray, target: FloatArray, units: IntArray, half: int) -> None:
        """Set the coefficients from the rows of the second half whose unit is in the first half."""
        features, last = self._last(rows[:half], target[:half], units[:half])
        later = np.flatnonzero(np.isin(units[half:], units[:half])) + half
        if not len(later):
            return
        changes = self._features(rows[later]) - features[units[later]]
        differences = target[later] - last[units[later]]
        scale = np.sqrt(np.mean(changes**2, axis=0))
        scale[scale == 0] = 1.0
        functions = OrthogonalFunctions.of(changes / scale)
        errors = functions.leave_one_out_errors(differences, PENALTIES)
        if errors.min() < np.mean(differences**2):
            self.coef_ = functions.coefficients(differences, PENALTIES[int(np.argmin(errors))]) / scale
