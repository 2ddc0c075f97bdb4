"""The estimator: any regressor, with intervals that keep their promise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.validation import check_is_fitted

from evencover._internal import predictor_files
from evencover._internal.arrays import FloatArray
from evencover._internal.frames import n_rows, take
from evencover.calibration import Calibration, Seed, Unseen
from evencover.calibrators._prediction_sets import prediction_sets, target_p_values
from evencover.calibrators.by_group import ByGroup
from evencover.calibrators.protocols import Calibrated, Calibrator, checked_calibrator, checked_learned
from evencover.guarantees import Guarantee
from evencover.intervals import Intervals, IntervalUnion
from evencover.model_selection import check_share, split_rows, warn_of_few_clusters
from evencover.models._validation import (
    check_ready,
    check_regressor,
    checked_target,
    fit_router,
    part_of_argument,
    remember_features,
)
from evencover.models.predict import is_frozen, predictions_of
from evencover.predictions import Rows
from evencover.quantiles import Levels, level_fraction, level_fractions
from evencover.scores import Nonconformity, Residual, needs_scale, with_scale
from evencover.taxonomies import Taxonomy, fresh_taxonomy


class ConformalRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose intervals cover new targets at the level asked for, in every group of its taxonomy.

    `fit` splits the rows, fits the model on one part and calibrates it on the other. An interval is the set of
    targets whose score is at most the threshold of the row's group. If calibration rows and new rows are
    exchangeable, it covers with probability at least the level in every group, whatever the model.

    Parameters
    ----------
    estimator : regressor
        Any of scikit-learn's kind. One with ``predict_full`` gives spread and bounds too; one in `FrozenEstimator` is
        left as it is, and `fit` calibrates it on every row.
    nonconformity : score, or mapping from group label to score, optional
        `Residual()` by default.
    taxonomy : taxonomy, optional
        `Marginal()` by default: one group, coverage on average only. ``taxonomy=BySpread(3)`` is short for
        ``calibrator=ByGroup(BySpread(3))``.
    calibrator : calibrator, optional
        What learns from the scores of the calibration rows, in place of a threshold for each group of the taxonomy.
    calibration_size : float
        Share of the rows (of the clusters, with ``clusters``) that is kept from the model for calibration.
    random_state : int, RandomState or None
        Seed of the split.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model.
    calibrator_ : Calibrated
        What the calibrator learned; it answers for new rows.
    calibration_ : Calibration
        The scores by group, if there are groups: ``calibrator_.calibration``.
    taxonomy_ : taxonomy
        With what it learned, if there are groups: ``calibrator_.taxonomy``.
    scale_ : float or None
        Median spread on the training rows, where a floor or stabiliser needs it.
    calibration_rows_ : Rows
        The rows it was calibrated on, for diagnosis.
    guarantee_ : Guarantee
        What is promised, in words.

    References
    ----------
    Dewolf, De Baets, Waegeman (2023), Conditional validity of heteroskedastic conformal regression.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ConformalRegressor(Ridge(), random_state=0).fit(X, y)
    >>> model.predict_interval(X[:3], level=0.9).width.round(1)
    array([190., 190., 190.])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        nonconformity: Nonconformity | None = None,
        taxonomy: Taxonomy | None = None,
        calibrator: Calibrator | None = None,
        calibration_size: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.nonconformity = nonconformity
        self.taxonomy = taxonomy
        self.calibrator = calibrator
        self.calibration_size = calibration_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, clusters: Any = None, **fit_params: Any) -> Self:
        """Split the rows, fit the model on one part, calibrate on the other.

        Parameters
        ----------
        X : table of n rows
            Features: an array, a sparse matrix, or a pandas, polars or pyarrow table.
        y : array-like of shape (n,)
            Targets, by position.
        clusters : array-like of shape (n,), optional
            Clusters, such as patients, for the split: none has rows on both sides of it. The groups to be covered
            are the taxonomy's.
        **fit_params
            Passed on to the model's `fit`; those with n rows, such as ``sample_weight``, by their training rows.
        """
        check_regressor(self.estimator, "estimator")
        self._calibrator()  # says what is wrong with it before anything is fitted
        target = checked_target(self, X, y)
        if is_frozen(self.estimator):
            useless = ["clusters"] * (clusters is not None) + list(fit_params)
            if useless:
                raise ValueError(f"a frozen estimator is neither split nor fitted, so it takes no {', '.join(useless)}")
            return self._calibrate(self._frozen(X, target), None, X, target)
        check_share("calibration_size", self.calibration_size)
        n = n_rows(X)
        training, held_out = split_rows(n, self.calibration_size, clusters=clusters, random_state=self.random_state)
        warn_of_few_clusters(clusters)
        X_training = take(X, training)
        params = {name: part_of_argument(name, value, n, training) for name, value in fit_params.items()}
        fitted = clone(self.estimator).fit(X_training, target[training], **params)
        scale = _median_spread(fitted, X_training) if needs_scale(self._nonconformity()) else None
        return self._calibrate(fitted, scale, take(X, held_out), target[held_out])

    def calibrate(self, X: Any, y: Any, *, weights: Any = None) -> Self:
        """Calibrate anew on rows that the model was not fitted on; the model stays as it is.

        Parameters
        ----------
        X : table of n rows
            Features.
        y : array-like of shape (n,)
            Targets.
        weights : array-like of shape (n,), optional
            Weights for covariate shift; predictions then need the new rows' weights.
        """
        target = checked_target(self, X, y)
        if is_frozen(self.estimator):
            return self._calibrate(self._frozen(X, target), None, X, target, weights)
        if not hasattr(self, "calibrator_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit'; or, to calibrate a fitted model "
                "as it is, give it as FrozenEstimator(model)"
            )
        check_ready(self, X)
        return self._calibrate(self.estimator_, self.scale_, X, target, weights)

    def predict(self, X: Any) -> FloatArray:
        """Return the model's own prediction. Shape (n,)."""
        self._check_is_calibrated(X)
        return np.asarray(self.estimator_.predict(X))

    def rows(self, X: Any, y: Any = None, *, weights: Any = None) -> Rows:
        """Predict each row once; intervals, p-values and groups then follow from the rows without predicting again.

        Parameters
        ----------
        X : table of n rows, or Rows
            Features; Rows come back as they are.
        y : array-like of shape (n,), optional
            Targets, for p-values and for groups that depend on them.
        weights : array-like of shape (n,), optional
            Weights for covariate shift, if `calibrate` was given some.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.linear_model import Ridge
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = ConformalRegressor(Ridge(), random_state=0).fit(X, y)
        >>> rows = model.rows(X[:3], y[:3])
        >>> model.predict_interval(rows, level=[0.5, 0.9]).covers(rows.y)[:, 1], model.p_values(rows).round(2)
        (array([ True,  True,  True]), array([0.74, 0.73, 0.77]))
        """
        if isinstance(X, Rows):
            check_is_fitted(self)
            if y is not None or weights is not None:
                raise ValueError("Rows hold their targets and weights already; got y or weights besides")
            _check_weights_are_used(X.weights, self._learned_by)
            return X
        self._check_is_calibrated(X)
        _check_weights_are_used(weights, self._learned_by)
        target = None if y is None else checked_target(self, X, y)
        return Rows.with_checked_target(predictions_of(self.estimator_, X), X, target, weights)

    def predict_interval(
        self, X: Any, level: Levels = 0.9, *, weights: Any = None, unseen: Unseen = "error"
    ) -> Intervals:
        """Return an interval for each row.

        Parameters
        ----------
        X : table of n rows, or Rows
            Features, or what `rows` returned.
        level : float or sequence of L floats
            Nominal coverage, chosen anew at every call.
        weights : array-like of shape (n,), optional
            Weights for covariate shift, if `calibrate` was given some.
        unseen : {"error", "marginal", "inf"}
            What a row gets whose group has no calibration; see `Calibration.interval`.

        Returns
        -------
        Intervals of n rows
            The smallest ones around `predict_union`, where that has several pieces: with a taxonomy that depends on
            the target.
        """
        made = self._prediction_sets(X, level, weights, unseen)
        return made.hull() if isinstance(made, IntervalUnion) else made

    def predict_union(
        self, X: Any, level: Levels = 0.9, *, weights: Any = None, unseen: Unseen = "error"
    ) -> IntervalUnion:
        """Return the exact prediction set of each row; arguments as in `predict_interval`.

        It is one interval, unless the taxonomy depends on the target: then it is the union over the target's
        groups of the targets that fall in the group and pass its threshold.
        """
        made = self._prediction_sets(X, level, weights, unseen)
        return made if isinstance(made, IntervalUnion) else IntervalUnion([made])

    def p_values(
        self, X: Any, y: Any = None, *, weights: Any = None, unseen: Unseen = "error", seed: Seed = None
    ) -> FloatArray:
        """Return the p-value of each row's target; see `Calibration.p_values`. Shape (n,).

        Parameters
        ----------
        X : table of n rows, or Rows
            Features, or what `rows` returned for features and targets `y`.
        y : array-like of shape (n,), optional
            Targets.
        weights, unseen, seed
            As in `Calibration.p_values`.
        """
        rows = self.rows(X, y, weights=weights)
        return target_p_values(self.calibrator_, rows, unseen, seed)

    def save(self, path: str | Path, *, level: float = 0.9) -> None:
        """Write the calibrated model to one file, without pickle; the calibration rows are left out.

        Takes any model that skops can write: scikit-learn's, this package's, most others of their kind.

        Parameters
        ----------
        path : str or Path
            The file, replaced as a whole.
        level : float
            The level at which ``evencover predict`` uses the file, unless it is told another.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        notes = {
            "level": float(level_fraction(level)),
            "scale": self.scale_,
            "n_features": getattr(self, "n_features_in_", None),
            "features": None if names is None else names.tolist(),
        }
        predictor_files.write(path, self.estimator_, self._learned_by, self.calibrator_, notes)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        nonconformity: Nonconformity | None = None,
        calibrator: Calibrator | None = None,
        trusted: Sequence[str] = (),
    ) -> "ConformalRegressor":
        """Read a calibrated model that `save` wrote. Its estimator is frozen: `calibrate` works, `fit` calibrates too.

        Parameters
        ----------
        path : str or Path
            The file.
        nonconformity : score or mapping, optional
            The score, where it is of a class of your own: a file holds this package's scores only.
        calibrator : calibrator, optional
            The calibrator, where it is of a class of your own.
        trusted : sequence of str
            Classes that may be loaded besides this package's and scikit-learn's usual ones, such as ``"mine.Model"``;
            `save` says which a file needs. A file brings no code along, but a class runs its own, and a forged model
            can crash the process: load only files of those you trust.
        """
        fitted, learner, learned, notes = predictor_files.read(path, nonconformity, calibrator, trusted)
        frozen = fitted if is_frozen(fitted) else FrozenEstimator(fitted)
        model = cls(frozen, nonconformity=learned.nonconformity, calibrator=learner)
        model.estimator_, model.scale_ = fitted, notes["scale"]
        model.calibrator_, model._learned_by = learned, learner
        if calibrator is None and isinstance(learner, ByGroup):
            model.set_params(calibrator=None, taxonomy=fresh_taxonomy(model.taxonomy_))
        if notes["n_features"] is not None:
            model.n_features_in_ = notes["n_features"]
        if notes["features"] is not None:
            model.feature_names_in_ = np.array(notes["features"], dtype=object)
        return model

    @property
    def guarantee_(self) -> Guarantee:
        """What is promised, in words."""
        check_is_fitted(self)
        return self.calibrator_.guarantee

    @property
    def calibration_(self) -> Calibration:
        """The scores by group, if there are groups."""
        return self.calibrator_.calibration  # type: ignore[attr-defined, no-any-return]

    @property
    def taxonomy_(self) -> Taxonomy:
        """The taxonomy, with what it learned, if there are groups."""
        return self.calibrator_.taxonomy  # type: ignore[attr-defined, no-any-return]

    def _check_is_calibrated(self, X: Any) -> None:
        """Raise unless there are thresholds, and features as they were."""
        if is_frozen(self.estimator) and not hasattr(self, "calibrator_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not calibrated yet. Call 'calibrate' with rows that the "
                "frozen estimator has not seen"
            )
        check_ready(self, X)

    def _frozen(self, X: Any, y: FloatArray) -> Any:
        """Return the model ready for use: fitting its frozen parts changes nothing."""
        return clone(self.estimator).fit(X, y)

    def _nonconformity(self) -> Nonconformity:
        return Residual() if self.nonconformity is None else self.nonconformity

    def _calibrator(self) -> Calibrator:
        """Return the calibrator asked for: by itself, or by its taxonomy."""
        if self.calibrator is None:
            return ByGroup(self.taxonomy)
        if self.taxonomy is not None:
            raise ValueError("taxonomy=T is short for calibrator=ByGroup(T); give one of them, not both")
        return checked_calibrator(self.calibrator)

    def _calibrate(self, estimator: Any, scale: float | None, X: Any, y: FloatArray, weights: Any = None) -> Self:
        """Calibrate the model on these rows, and only then take everything over: a failure changes nothing."""
        calibrator = self._calibrator()
        _check_weights_are_used(weights, calibrator)
        rows = Rows.with_checked_target(predictions_of(estimator, X), X, y, weights)
        score = self._nonconformity()
        learned = checked_learned(calibrator.learn(rows, score if scale is None else with_scale(score, scale)))
        remember_features(self, X)
        self.estimator_, self.scale_ = estimator, scale
        self.calibrator_: Calibrated = learned
        self._learned_by: Calibrator = calibrator  # whatever the parameters become afterwards
        self.calibration_rows_ = rows
        return self

    def _prediction_sets(self, X: Any, level: Levels, weights: Any, unseen: Unseen) -> Intervals | IntervalUnion:
        level_fractions(level)  # says what is wrong with it before anything is predicted
        rows = self.rows(X, weights=weights)
        return prediction_sets(self.calibrator_, rows, level, unseen)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what scikit-learn's metadata routing may pass: the clusters to us, the rest to the model."""
        return fit_router(self, estimator=self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibrator_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _check_weights_are_used(weights: Any, calibrator: Calibrator) -> None:
    """Raise if there are weights, and the calibrator knows none."""
    if weights is not None and not getattr(calibrator, "takes_weights", False):
        raise ValueError(f"{type(calibrator).__name__} takes no weights for covariate shift; leave weights out")


def _median_spread(estimator: Any, X: Any) -> float:
    """Return the scale of floors and stabilisers: the median spread on these rows."""
    return float(np.median(predictions_of(estimator, X).required("spread", by="the scale of a score")))
