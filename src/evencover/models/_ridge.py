"""Ridge regression with the penalty that has the smallest leave-one-out error."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from evencover._internal.arrays import FloatArray
from evencover.models._validation import checked_features, checked_rows, checked_target, remember_features

_LARGEST_LEVERAGE = 1 - 1e-9  # nearer to 1, rounding would decide
_SMALLEST_STRENGTH = 1e-12  # relative to the largest one


class RidgeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression with an intercept and a squared penalty, chosen by leave-one-out errors.

    It gives the results of scikit-learn's `RidgeCV` up to rounding. `RidgeCV` decomposes the table, this class its
    smaller matrix of inner products: of n rows and p columns, that is five times as fast for n much larger than p. The
    penalties must be large enough for this: far above 1e-16 times the squared norm of the table.

    Parameters
    ----------
    penalties : tuple of floats
        The penalties to choose from.

    Attributes
    ----------
    penalty_ : float
        The chosen penalty.
    coef_, intercept_ : ndarray of shape (p,), float
        The linear function.
    """

    def __init__(self, penalties: tuple[float, ...] = (1.0,)) -> None:
        self.penalties = penalties

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the penalty, and fit."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        center, mean = rows.mean(axis=0), float(target.mean())
        functions = OrthogonalFunctions.of(rows - center)
        errors = functions.leave_one_out_errors(target - mean, self.penalties, constant=1 / len(target))
        self.penalty_ = float(self.penalties[int(np.argmin(errors))])
        self.coef_ = functions.coefficients(target - mean, self.penalty_)
        self.intercept_ = mean - float(center @ self.coef_)
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions. Shape (n,)."""
        return np.asarray(checked_rows(self, X) @ self.coef_ + self.intercept_)


@dataclass(frozen=True, eq=False)
class OrthogonalFunctions:
    """The columns of a table, rotated so that they are orthogonal on its rows.

    Parameters
    ----------
    rotation : ndarray of shape (p, r)
        From coefficients of the rotated columns to those of the columns.
    values : ndarray of shape (n, r)
        The rotated columns.
    strengths : ndarray of shape (r,)
        Their squared norms.
    """

    rotation: FloatArray
    values: FloatArray
    strengths: FloatArray

    @classmethod
    def of(cls, columns: FloatArray) -> "OrthogonalFunctions":
        """Return the rotated columns of a table of shape (n, p)."""
        n, p = columns.shape
        if p <= n:
            strengths, rotation = np.linalg.eigh(columns.T @ columns)
            return cls(rotation, columns @ rotation, np.maximum(strengths, 0))
        strengths, directions = np.linalg.eigh(columns @ columns.T)
        kept = strengths > _SMALLEST_STRENGTH * strengths[-1]
        norms, directions = np.sqrt(strengths[kept]), directions[:, kept]
        return cls(columns.T @ (directions / norms), directions * norms, strengths[kept])

    def leave_one_out_errors(
        self,
        y: FloatArray,
        penalties: Sequence[float] | FloatArray,
        *,
        constant: float = 0.0,
        largest: float = _LARGEST_LEVERAGE,
    ) -> FloatArray:
        """Return the mean squared leave-one-out error with each penalty.

        The leverage of a row is at most `largest`; `constant` is that of an intercept.
        """
        squares, result = self.values**2, []
        for penalty in penalties:
            fitted = self.values @ self._rotated_coefficients(y, penalty)
            leverages = np.minimum(constant + squares @ (1 / (self.strengths + penalty)), largest)
            result.append(np.mean(((y - fitted) / (1 - leverages)) ** 2))
        return np.array(result)

    def coefficients(self, y: FloatArray, penalty: float) -> FloatArray:
        """Return the coefficients of the columns. Shape (p,)."""
        return np.asarray(self.rotation @ self._rotated_coefficients(y, penalty))

    def _rotated_coefficients(self, y: FloatArray, penalty: float) -> FloatArray:
        return np.asarray(self.values.T @ y / (self.strengths + penalty))
