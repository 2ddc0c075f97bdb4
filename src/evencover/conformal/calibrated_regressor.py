"""What both conformal regressors do: predictions, prediction sets and p-values of new rows, guarantee, saving."""

from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.validation import check_is_fitted

from evencover.calibration.calibration import Calibration, Seed, Unseen
from evencover.calibration.protocols import (
    Calibrated,
    Calibrator,
    check_weights_are_used,
    requested_sets,
    sets_at,
    target_p_values,
)
from evencover.conformal.predictor_files import SavedPredictor, is_plain, model_errors, write
from evencover.guarantees import Guarantee
from evencover.inputs.arrays import FloatArray
from evencover.inputs.frames import frame_kind
from evencover.intervals import Intervals, IntervalUnion
from evencover.models.encoding import encoder_of
from evencover.models.estimators import (
    CloneMixin,
    check_ready,
    checked_target,
    columns_explained,
    fit_router,
    fitted_models,
    remember_features,
    with_inputs_of,
)
from evencover.models.ranges import Outside
from evencover.models.target_transforms import with_target_transform
from evencover.quantiles import Levels, level_fraction, level_fractions
from evencover.rows import Rows
from evencover.scores import Residual
from evencover.scores.score import Nonconformity
from evencover.taxonomies import Taxonomy


class CalibratedRegressor(CloneMixin, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The base of the two conformal regressors, which differ in how they are fitted and which rows calibrate them.

    Each has `fit`, `load`, and `_predicted_rows`, which predicts new rows.
    """

    estimator: Any
    nonconformity: Nonconformity | None
    target_transform: Any
    calibrator_: Calibrated
    _learned_by: Calibrator  # parameters can be changed later
    _loaded_from: str | None = None  # a file
    _saved_parameters: tuple[str, ...] = ()  # the parameters that a file holds if they are numbers or text

    def predict(self, X: Any) -> FloatArray:
        """Return the prediction of the model, or the mean of those of all folds, in the unit of the target. Shape (n,).

        If the target was transformed, predictions are mapped back.
        """
        with model_errors(self._loaded_from):
            self._check_is_calibrated(X)
            with columns_explained(fitted_models(self)[0], X):
                return np.asarray(self.estimator_.predict(X))

    def rows(self, X: Any, y: Any = None, *, weights: Any = None) -> Rows:
        """Return the predictions for rows, to compute intervals, p-values and groups without predicting again.

        Those of `CrossConformalRegressor` take memory for every row and model. Its `predict_interval` of a table needs
        less: it predicts rows in blocks.

        Parameters
        ----------
        X : table of n rows, or Rows
            Features; Rows are returned unchanged.
        y : array-like of shape (n,), optional
            Targets, for p-values and for groups that depend on the target.
        weights : array-like of shape (n,), optional
            Likelihood ratios for covariate shift, if `calibrate` got weights; `CrossConformalRegressor` takes none.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.linear_model import Ridge
        >>> from evencover import ConformalRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = ConformalRegressor(Ridge(), random_state=0).fit(X, y)
        >>> rows = model.rows(X[:3], y[:3])
        >>> model.predict_interval(rows, level=[0.5, 0.9]).covers(rows.y)[:, 1], model.p_values(rows).round(2)
        (array([ True,  True,  True]), array([0.74, 0.73, 0.77]))
        """
        if isinstance(X, Rows):
            return self._checked_rows(X, y, weights)
        with model_errors(self._loaded_from):
            self._check_is_calibrated(X)
            self._check_weights(weights)
            return self._predicted_rows(X, None if y is None else checked_target(self, X, y), weights)

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

    def outside(self, X: Any) -> Outside:
        """Return which rows are outside of what the model has seen; see `TableEncoder.outside`.

        The guarantee is for rows like the calibration rows, so it says little about such rows. The model must be a
        pipeline that begins with a `TableEncoder`, as that of `study` does. With several models, a row is outside if it
        is so for all of them together.

        Parameters
        ----------
        X : table of n rows
            New rows.
        """
        self._check_is_calibrated(X)
        encoder = encoder_of(self)
        if encoder is None:
            raise ValueError(
                "the model must be a pipeline that begins with a TableEncoder, which knows what the training rows "
                f"held; got {type(fitted_models(self)[0]).__name__}"
            )
        with model_errors(self._loaded_from):
            return encoder.outside(X)

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

    def save(self, path: str | Path, *, level: float = 0.9) -> None:
        """Write the calibrated model to one file, without pickle; the calibration rows are not saved.

        A warning lists classes that `load` does not know: others than those of scikit-learn, boosters and this package.

        Parameters
        ----------
        path : str or Path
            The file. It is written atomically: complete, or not at all.
        level : float
            The default level of ``evencover predict`` for this file.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        notes: dict[str, Any] = {
            "level": float(level_fraction(level)),
            "scale": self.scale_,
            "n_features": getattr(self, "n_features_in_", None),
            "features": None if names is None else names.tolist(),
        }
        if self._saved_parameters:
            given = {name: getattr(self, name) for name in self._saved_parameters}
            notes["parameters"] = {name: value for name, value in given.items() if is_plain(value, inside=True)}
        write(path, SavedPredictor(self.estimator_, self._learned_by, self.calibrator_, notes))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing: clusters are used here, everything else goes to the `fit` of the model."""
        return fit_router(self, estimator=with_target_transform(self.estimator, self.target_transform))

    def _nonconformity(self) -> Nonconformity:
        return Residual() if self.nonconformity is None else self.nonconformity

    def _predicted_rows(self, X: Any, y: FloatArray | None, weights: Any) -> Rows:
        raise NotImplementedError

    def _checked_rows(self, rows: Rows, y: Any, weights: Any) -> Rows:
        """Return rows that were passed in place of features. Raise ValueError for targets or weights next to them."""
        check_is_fitted(self)
        if y is not None or weights is not None:
            raise ValueError("Rows contain their targets and weights; got y or weights in addition")
        self._check_weights(rows.weights)
        return rows

    def _check_is_calibrated(self, X: Any) -> None:
        """Raise unless the model is calibrated, and X has the features it was fitted on."""
        check_ready(self, X)

    def _check_weights(self, weights: Any) -> None:
        """Raise ValueError if there are weights for covariate shift that are not used."""
        check_weights_are_used(weights, self._learned_by)

    def _prediction_sets(self, X: Any, level: Levels, weights: Any, unseen: Unseen) -> Intervals | IntervalUnion:
        levels = level_fractions(level)  # an invalid level is an error before anything is predicted
        rows = self.rows(X, weights=weights)
        with model_errors(self._loaded_from):
            sets = sets_at(self.calibrator_, rows, levels, unseen)
        return requested_sets(self.calibrator_, sets, level, rows.prediction.center, frame_kind(rows.X))

    def _set_learned(
        self, estimator: Any, scale: float | None, calibrator: Calibrator, learned: Calibrated, rows: Rows
    ) -> Self:
        """Set all learned attributes, once nothing can fail any more."""
        remember_features(self, rows.X)
        self.estimator_, self.scale_ = estimator, scale
        self.calibrator_, self._learned_by = learned, calibrator
        self.calibration_rows_ = rows
        return self

    def _set_loaded(self, saved: SavedPredictor) -> None:
        """Set the attributes that `fit` sets, but for the calibration rows."""
        self.estimator_, self.scale_, self._loaded_from = saved.estimator, saved.notes["scale"], saved.path
        self.calibrator_, self._learned_by = saved.learned, saved.calibrator
        if saved.notes["n_features"] is not None:
            self.n_features_in_ = saved.notes["n_features"]
        if saved.notes["features"] is not None:
            self.feature_names_in_ = np.array(saved.notes["features"], dtype=object)
        get_tags(self)  # raises an error for a forged pipeline or ensemble
        for model in fitted_models(self):
            if not callable(getattr(model, "predict", None)):
                raise TypeError(f"it holds a {type(model).__name__}, which cannot predict")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibrator_")

    def __sklearn_tags__(self) -> Tags:
        return with_inputs_of(self.estimator, super().__sklearn_tags__())
