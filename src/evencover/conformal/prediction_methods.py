"""The methods that conformal regressors share: prediction sets and p-values of new rows, and what is guaranteed."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from evencover.calibration.calibration import Calibration, Seed, Unseen
from evencover.calibration.protocols import (
    Calibrated,
    Calibrator,
    check_weights_are_used,
    prediction_sets,
    target_p_values,
)
from evencover.guarantees import Guarantee
from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals, IntervalUnion
from evencover.quantiles import Levels, level_fractions
from evencover.rows import Rows
from evencover.taxonomies import Taxonomy


class PredictionMethodsMixin:
    """The methods of calibrated models that use `calibrator_`, and the predictions that their method `rows` returns."""

    calibrator_: Calibrated
    _learned_by: Calibrator

    def rows(self, X: Any, y: Any = None, *, weights: Any = None) -> Rows:
        """Return the predictions for rows, with their features, targets and weights."""
        raise NotImplementedError

    def predict_interval(
        self, X: Any, level: Levels = 0.9, *, weights: Any = None, unseen: Unseen = "error"
    ) -> Intervals:
        """Return the prediction interval of each row.

        Parameters
        ----------
        X : table of n rows, or Rows
            Features, or the result of `rows`.
        level : float or sequence of L floats
            Nominal coverage; any level can be requested without a new calibration.
        weights : array-like of shape (n,), optional
            Likelihood ratios for covariate shift, if the model was calibrated with weights.
        unseen : {"error", "marginal", "inf"}
            How to treat a row whose group has no calibration rows; see `Calibration.interval`.

        Returns
        -------
        Intervals of n rows
            If the sets of `predict_union` have several pieces, the smallest intervals that contain them.
        """
        sets = self._prediction_sets(X, level, weights, unseen)
        return sets.hull() if isinstance(sets, IntervalUnion) else sets

    def predict_union(
        self, X: Any, level: Levels = 0.9, *, weights: Any = None, unseen: Unseen = "error"
    ) -> IntervalUnion:
        """Return the exact prediction set of each row; arguments as in `predict_interval`.

        The set is one interval with two exceptions. If the taxonomy depends on the target, it is a union with one piece
        for each group: the targets in this group whose score is at most its threshold. With the method
        "cross-conformal" of `CrossConformalRegressor`, it is the set of targets whose p-value is larger than 1 − level.
        """
        sets = self._prediction_sets(X, level, weights, unseen)
        return sets if isinstance(sets, IntervalUnion) else IntervalUnion([sets])

    def p_values(
        self, X: Any, y: Any = None, *, weights: Any = None, unseen: Unseen = "error", seed: Seed = None
    ) -> FloatArray:
        """Return the p-value of each row's target; see `Calibration.p_values`. Shape (n,).

        Parameters
        ----------
        X : table of n rows, or Rows
            Features, or the result of `rows` for features and targets.
        y : array-like of shape (n,), optional
            Targets.
        weights, unseen, seed
            As in `Calibration.p_values`.
        """
        rows = self.rows(X, y, weights=weights)
        return target_p_values(self.calibrator_, rows, unseen, seed)

    @property
    def guarantee_(self) -> Guarantee:
        """The coverage guarantee with its assumption."""
        check_is_fitted(self)
        return self.calibrator_.guarantee

    @property
    def calibration_(self) -> Calibration:
        """The calibration scores by group, if there are groups."""
        check_is_fitted(self)
        return self.calibrator_.calibration  # type: ignore[attr-defined, no-any-return]

    @property
    def taxonomy_(self) -> Taxonomy:
        """The taxonomy with the groups it learned, if there are groups."""
        check_is_fitted(self)
        return self.calibrator_.taxonomy  # type: ignore[attr-defined, no-any-return]

    def _checked_rows(self, rows: Rows, y: Any, weights: Any) -> Rows:
        """Return rows that were passed in place of features. Raise ValueError for targets or weights next to them."""
        check_is_fitted(self)
        if y is not None or weights is not None:
            raise ValueError("Rows contain their targets and weights; got y or weights in addition")
        self._check_weights(rows.weights)
        return rows

    def _check_weights(self, weights: Any) -> None:
        """Raise ValueError if there are weights for covariate shift that are not used."""
        check_weights_are_used(weights, self._learned_by)

    def _prediction_sets(self, X: Any, level: Levels, weights: Any, unseen: Unseen) -> Intervals | IntervalUnion:
        level_fractions(level)  # an invalid level is an error before anything is predicted
        rows = self.rows(X, weights=weights)
        return prediction_sets(self.calibrator_, rows, level, unseen)
