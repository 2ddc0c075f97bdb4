"""Linear regressors: ridge regression, also with categories, and the lasso; and the columns that a lasso chooses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self
from warnings import catch_warnings, simplefilter

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV, lasso_path
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover.inputs.arrays import FloatArray, IntArray
from evencover.models._outputs import mean_and_scale
from evencover.models.estimators import checked_features, checked_rows, checked_target, remember_features
from evencover.models.folds import fixed_folds

PENALTIES = np.logspace(-3, 5, 9)  # of ridge regression
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


def linear_regressor() -> Pipeline:
    """Return ridge regression of standardised features; its penalty is chosen by leave-one-out errors."""
    return make_pipeline(StandardScaler(), RidgeCV(PENALTIES))


_CATEGORY_PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1)  # in rows of mean zero, for each category
_HELD_OUT_FOLDS = 5  # one of them is held out
_TOLERANCE = 1e-5
_MAX_STEPS = 200


class RidgeWithCategories(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ridge regression of numbers and of one indicator column for each category, which are never made.

    The penalty is the one of five with the smallest squared error on a random fifth of the rows. A category that did
    not occur in `fit` has the coefficient 0. Time and memory are O(n (d + k)) for n rows, d numbers and k columns of
    categories, whatever the number of categories: the equations are solved by conjugate gradients.

    Parameters
    ----------
    n_codes : int
        The last so many columns hold codes of categories: 0, 1, …, or −1 for one that is not known.

    Attributes
    ----------
    penalty_ : float
        The chosen penalty.
    coef_ : ndarray of shape (d,)
        The coefficients of the standardised numbers.
    effects_ : list of k ndarrays
        The coefficients of the categories of each column; the last is 0, for those that are not known.
    """

    def __init__(self, n_codes: int = 1) -> None:
        self.n_codes = n_codes

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the penalty, and fit."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        numbers, codes = self._parts(rows)
        self.mean_, self.scale_ = mean_and_scale(numbers)
        self.intercept_ = float(target.mean())
        self.sizes_ = [int(each.max(initial=-1)) + 1 for each in codes.T]
        deviations = target - self.intercept_
        numbers = (numbers - self.mean_) / self.scale_
        held_out = fixed_folds(len(target), _HELD_OUT_FOLDS) == 0
        errors, solution = [], None
        for penalty in _CATEGORY_PENALTIES if len(target) > _HELD_OUT_FOLDS else ():
            solution = self._solved(numbers[~held_out], codes[~held_out], deviations[~held_out], penalty, solution)
            fitted = self._linear(solution, numbers[held_out], codes[held_out])
            errors.append(float(np.mean((deviations[held_out] - fitted) ** 2)))
        self.penalty_ = _CATEGORY_PENALTIES[int(np.argmin(errors))] if errors else 1.0
        solution = self._solved(numbers, codes, deviations, self.penalty_, solution)
        self.coef_, *effects = np.split(solution, np.cumsum([numbers.shape[1], *self.sizes_])[:-1])
        self.effects_ = [np.append(each, 0.0) for each in effects]
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions. Shape (n,)."""
        numbers, codes = self._parts(checked_rows(self, X))
        codes = np.where(codes < self.sizes_, codes, -1)
        pairs = zip(codes.T, self.effects_, strict=True)
        total = (numbers - self.mean_) / self.scale_ @ self.coef_ + self.intercept_
        return np.asarray(total + sum(effects[own] for own, effects in pairs))

    def _parts(self, rows: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the numbers and the codes."""
        d = rows.shape[1] - self.n_codes
        return rows[:, :d], rows[:, d:].astype(np.intp)

    def _linear(self, solution: FloatArray, numbers: FloatArray, codes: IntArray) -> FloatArray:
        """Return the linear function of rows whose categories are all known, or -1."""
        coef, *effects = np.split(solution, np.cumsum([numbers.shape[1], *self.sizes_])[:-1])
        pairs = zip(codes.T, effects, strict=True)
        return np.asarray(numbers @ coef + sum(np.append(each, 0.0)[own] for own, each in pairs))

    def _adjoint(self, values: FloatArray, numbers: FloatArray, codes: IntArray) -> FloatArray:
        """Return the inner products of values with the numbers and with the indicators of the categories."""
        pairs = zip(codes.T, self.sizes_, strict=True)
        sums = [np.bincount(own + 1, values, size + 1)[1:] for own, size in pairs]
        return np.concatenate([numbers.T @ values, *sums])

    def _solved(
        self, numbers: FloatArray, codes: IntArray, y: FloatArray, penalty: float, start: FloatArray | None
    ) -> FloatArray:
        """Return the coefficients of the numbers and of all categories."""
        squares = np.concatenate([(numbers**2).sum(axis=0), self._adjoint(np.ones(len(y)), numbers[:, :0], codes)])

        def product(coefficients: FloatArray) -> FloatArray:
            return self._adjoint(self._linear(coefficients, numbers, codes), numbers, codes) + penalty * coefficients

        return conjugate_gradients(product, self._adjoint(y, numbers, codes), squares + penalty, start)


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray], right: FloatArray, diagonal: FloatArray, start: FloatArray | None
) -> FloatArray:
    """Return the solution x of A x = b, by at most 200 steps; A is symmetric and positive definite.

    Parameters
    ----------
    product : callable
        From x to A x.
    right : ndarray of shape (n,)
        The right-hand side b.
    diagonal : ndarray of shape (n,)
        The diagonal of A.
    start : ndarray of shape (n,), optional
        Where to start.
    """
    x = np.zeros(len(right)) if start is None else start.copy()
    left = right - product(x)
    direction = scaled = left / diagonal
    size = float(left @ scaled)
    for _ in range(_MAX_STEPS):
        if np.linalg.norm(left) <= _TOLERANCE * np.linalg.norm(right):
            break
        change = product(direction)
        step = size / float(direction @ change)
        x, left = x + step * direction, left - step * change
        scaled = left / diagonal
        size, before = float(left @ scaled), size
        direction = scaled + size / before * direction
    return x


_N_PENALTIES = 25
_SMALLEST_PENALTY = 0.01  # relative to the smallest one with which all coefficients are zero
_LASSO_FOLDS = 5
_LASSO_TOLERANCE = 1e-3  # 1e-4 took six times as long for the same errors


class SparseRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression with few columns: the lasso of standardised features, its penalty chosen on five folds.

    It is the one of scikit-learn's `LassoCV` up to rounding, with fewer penalties and less accuracy.

    Attributes
    ----------
    penalty_ : float
        The chosen penalty.
    coef_, intercept_ : ndarray of shape (p,), float
        The linear function.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the penalty, and fit."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        mean, scale = mean_and_scale(rows)
        features, (y_mean,), (y_scale,) = (rows - mean) / scale, *mean_and_scale(target[:, None])
        scaled = (target - y_mean) / y_scale
        penalties = _penalties(features, scaled)
        folds = fixed_folds(len(target), _LASSO_FOLDS)
        errors = np.zeros(len(penalties))
        for fold in np.unique(folds) if len(target) >= _LASSO_FOLDS else ():
            own, others = folds == fold, folds != fold
            center, y_center = features[others].mean(axis=0), scaled[others].mean()
            path = _path(features[others] - center, scaled[others] - y_center, penalties)
            errors += np.sum((scaled[own, None] - y_center - (features[own] - center) @ path) ** 2, axis=0)
        best = int(np.argmin(errors))
        self.penalty_ = float(penalties[best])
        self.coef_ = y_scale / scale * _path(features, scaled, penalties[: best + 1])[:, -1]
        self.intercept_ = float(y_mean - mean @ self.coef_)
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions. Shape (n,)."""
        return np.asarray(checked_rows(self, X) @ self.coef_ + self.intercept_)


class ScreenedColumns(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Some columns of a wide table: those that a lasso takes first, then those with the largest correlations.

    Columns that predict the target only together have small correlations; a lasso finds them. Tables that are not wide
    keep all columns.

    Parameters
    ----------
    n_columns : int
        The number of columns to keep.
    wide : int
        Tables with more columns than this are wide.
    kept : int
        The last so many columns are kept in any case, after the chosen ones; they count neither as wide nor as chosen.

    Attributes
    ----------
    columns_ : ndarray of int
        The positions of the columns.
    """

    def __init__(self, n_columns: int = 100, *, wide: int = 300, kept: int = 0) -> None:
        self.n_columns = n_columns
        self.wide = wide
        self.kept = kept

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the columns."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        self.columns_ = np.arange(rows.shape[1])
        d = rows.shape[1] - self.kept
        if d > self.wide:
            rows = rows[:, :d]
            (mean, scale), (y_mean, y_scale) = mean_and_scale(rows), mean_and_scale(target[:, None])
            features, scaled = (rows - mean) / scale, (target - y_mean) / y_scale
            strengths = np.abs(features.T @ scaled) / len(target)  # below 1
            entered = (_path(features, scaled, _penalties(features, scaled)) != 0).sum(axis=1)
            chosen = np.argsort(-(entered + strengths), kind="stable")[: self.n_columns]
            self.columns_ = np.append(np.sort(chosen), self.columns_[d:])
        remember_features(self, X)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the chosen columns. Shape (n, columns)."""
        return checked_rows(self, X)[:, self.columns_]


def _penalties(features: FloatArray, y: FloatArray) -> FloatArray:
    """Return penalties in descending order; with the first one, all coefficients are zero."""
    largest = float(np.abs(features.T @ y).max(initial=0)) / len(y)
    return (largest or 1.0) * np.geomspace(1, _SMALLEST_PENALTY, _N_PENALTIES)


def _path(features: FloatArray, y: FloatArray, penalties: Sequence[float] | FloatArray) -> FloatArray:
    """Return the coefficients of the lasso with each penalty. Shape (p, penalties)."""
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)  # it is accurate enough, or another penalty is chosen
        return np.asarray(lasso_path(np.asfortranarray(features), y, alphas=penalties, tol=_LASSO_TOLERANCE)[1])
