"""A smooth function of all features: ridge regression of kernels, with a width and a penalty chosen by their errors."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics.pairwise import euclidean_distances

from evencover._internal.arrays import FloatArray
from evencover.models._ridge import OrthogonalFunctions
from evencover.models._scaling import mean_and_scale
from evencover.models._validation import checked_features, checked_rows, checked_target, remember_features

_INVERSE_WIDTHS = (1.0, 0.3, 0.1)  # 3 was chosen only where it was no better
_PENALTIES = np.logspace(-6, 3, 10)
_OUTERMOST = 6.0  # standard deviations: a feature further out counts as this far, so that outliers have neighbours
_SMALLEST_EIGENVALUE = 1e-9  # relative to the largest one
_ROWS_FOR_CHOICE = 1500  # of the width
_LARGEST_KERNEL_LEVERAGE = 1 - 1e-3


class KernelRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ridge regression of the kernels exp(−w ‖x − x'‖² / d), where the x' are some of the training rows.

    There are d standardised features. The width w is one of three, the penalty one of ten: those with the smallest
    leave-one-out error, which has a closed form. The width is chosen on at most 1500 rows. Time is O(n m²) for n rows
    and m kernels.

    Parameters
    ----------
    n_kernels : int
        The largest number of kernels. At most every second row has one: with a kernel for each row, leave-one-out
        errors are too small.
    random_state : int
        Seed of the choice of the rows x'.

    Attributes
    ----------
    inverse_width_, penalty_ : float
        The chosen width w and penalty.
    """

    def __init__(self, n_kernels: int = 500, *, random_state: int = 0) -> None:
        self.n_kernels = n_kernels
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose width and penalty, and fit."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        self.mean_, self.scale_ = mean_and_scale(rows)
        features = self._standardized(rows)
        order = np.random.default_rng(self.random_state).permutation(len(rows))
        self.centers_ = features[order[: max(1, min(self.n_kernels, len(rows) // 2))]]
        self.intercept_ = float(target.mean())
        some, deviations = order[:_ROWS_FOR_CHOICE], target - self.intercept_
        errors = [
            _errors(self._functions(features[some], width)[1], deviations[some]).min() for width in _INVERSE_WIDTHS
        ]
        self.inverse_width_ = _INVERSE_WIDTHS[int(np.argmin(errors))]
        basis, functions = self._functions(features, self.inverse_width_)
        self.penalty_ = float(_PENALTIES[np.argmin(_errors(functions, deviations))])
        self.coef_ = basis @ functions.coefficients(deviations, self.penalty_)
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions. Shape (n,)."""
        features = self._standardized(checked_rows(self, X))
        return np.asarray(self._kernels(features, self.inverse_width_) @ self.coef_ + self.intercept_)

    def _functions(self, features: FloatArray, inverse_width: float) -> tuple[FloatArray, OrthogonalFunctions]:
        """Return an orthonormal basis of the functions (Nyström), of shape (m, r), and its values at the rows.

        The norm of a function is then the norm of its coefficients, which the penalty is about.
        """
        eigenvalues, vectors = np.linalg.eigh(self._kernels(self.centers_, inverse_width))
        kept = eigenvalues > _SMALLEST_EIGENVALUE * eigenvalues[-1]
        basis = vectors[:, kept] / np.sqrt(eigenvalues[kept])
        return basis, OrthogonalFunctions.of(self._kernels(features, inverse_width) @ basis)

    def _standardized(self, rows: FloatArray) -> FloatArray:
        return np.clip((rows - self.mean_) / self.scale_, -_OUTERMOST, _OUTERMOST)

    def _kernels(self, features: FloatArray, inverse_width: float) -> FloatArray:
        """Return the kernels of rows. Shape (n, m)."""
        distances = euclidean_distances(features, self.centers_, squared=True)
        return np.asarray(np.exp(-inverse_width / features.shape[1] * distances))


def _errors(functions: OrthogonalFunctions, y: FloatArray) -> FloatArray:
    """Return the mean squared leave-one-out error with each penalty."""
    return functions.leave_one_out_errors(y, _PENALTIES, largest=_LARGEST_KERNEL_LEVERAGE)
