"""The estimator: any regressor, with intervals that keep their promise."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.validation import check_is_fitted

from evencover import predictor_files
from evencover.calibration import Calibration, Unseen, calibrate
from evencover.guarantees import Guarantee
from evencover.inputs import FloatArray, IntArray
from evencover.intervals import Intervals, IntervalUnion
from evencover.models.speech import is_frozen, predictions_of
from evencover.models.validation import (
    checked_target,
    fit_router,
    refuse_unless_ready,
    refuse_unless_regressor,
    remember_features,
)
from evencover.quantiles import Levels, level_fraction
from evencover.rows import Rows
from evencover.scores import Nonconformity, Residual, needs_scale, with_scale
from evencover.splits import refuse_bad_share, split_rows, warn_of_few_clusters
from evencover.tables import frame_kind, n_rows, take
from evencover.taxonomies import Marginal, Taxonomy


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
        `Marginal()` by default: one group, coverage on average only.
    calibration_size : float
        Share of the rows (of the clusters, with ``groups``) that is kept from the model for calibration.
    random_state : int, RandomState or None
        Seed of the split.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model.
    taxonomy_ : taxonomy
        With what it learned.
    scale_ : float or None
        Median spread on the training rows, where a floor or stabiliser needs it.
    calibration_ : Calibration
        The scores by group.
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
        calibration_size: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.nonconformity = nonconformity
        self.taxonomy = taxonomy
        self.calibration_size = calibration_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None, **fit_params: Any) -> Self:
        """Split the rows, fit the model on one part, calibrate on the other.

        Parameters
        ----------
        X : table of n rows
            Features: an array, a sparse matrix, or a pandas, polars or pyarrow table.
        y : array-like of shape (n,)
            Targets, by position.
        groups : array-like of shape (n,), optional
            Clusters, such as patients, for the split: none has rows on both sides of it. The groups to be covered
            are the taxonomy's.
        **fit_params
            Passed on to the model's `fit`; those with n rows, such as ``sample_weight``, by their training rows.
        """
        refuse_unless_regressor(self.estimator, "estimator")
        target = checked_target(self, X, y)
        if is_frozen(self.estimator):
            useless = ["groups"] * (groups is not None) + list(fit_params)
            if useless:
                raise ValueError(f"a frozen estimator is neither split nor fitted, so it takes no {', '.join(useless)}")
            return self._calibrate(self._frozen(X, target), None, X, target)
        refuse_bad_share("calibration_size", self.calibration_size)
        n = n_rows(X)
        training, held_out = split_rows(n, self.calibration_size, groups=groups, random_state=self.random_state)
        warn_of_few_clusters(groups)
        X_training = take(X, training)
        params = {name: _training_rows(name, value, n, training) for name, value in fit_params.items()}
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
        if not hasattr(self, "calibration_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit'; or, to calibrate a fitted model "
                "as it is, give it as FrozenEstimator(model)"
            )
        refuse_unless_ready(self, X)
        return self._calibrate(self.estimator_, self.scale_, X, target, weights)

    def predict(self, X: Any) -> FloatArray:
        """Return the model's own prediction. Shape (n,)."""
        self._refuse_unless_calibrated(X)
        return np.asarray(self.estimator_.predict(X))

    def predict_interval(
        self, X: Any, level: Levels = 0.9, *, weights: Any = None, unseen: Unseen = "error"
    ) -> Intervals:
        """Return an interval for each row.

        Parameters
        ----------
        X : table of n rows
            Features.
        level : float or sequence of L floats
            Nominal coverage, chosen anew at every call.
        weights : array-like of shape (n,), optional
            Weights for covariate shift, if `calibrate` was given some.
        unseen : {"error", "marginal", "inf"}
            What a row gets whose group has no calibration; see `Calibration.interval`.

        Returns
        -------
        Intervals of n rows
            With a taxonomy that depends on the target, the smallest ones around `predict_union`.
        """
        union = self.predict_union(X, level, weights=weights, unseen=unseen)
        return union.pieces[0] if len(union.pieces) == 1 else union.hull()

    def predict_union(
        self, X: Any, level: Levels = 0.9, *, weights: Any = None, unseen: Unseen = "error"
    ) -> IntervalUnion:
        """Return the exact prediction set of each row; arguments as in `predict_interval`.

        It is one interval, unless the taxonomy depends on the target: then it is the union over the target's
        groups of the targets that fall in the group and pass its threshold.
        """
        self._refuse_unless_calibrated(X)
        rows = Rows(predictions_of(self.estimator_, X), X)
        pieces = [self._piece(rows, cell, level, weights, unseen) for cell in self._target_cells()]
        return IntervalUnion(pieces)

    def p_values(
        self, X: Any, y: Any, *, weights: Any = None, unseen: Unseen = "error", seed: Any = None
    ) -> FloatArray:
        """Return the p-value of each row's target; see `Calibration.p_values`. Shape (n,)."""
        self._refuse_unless_calibrated(X)
        rows = Rows(predictions_of(self.estimator_, X), X, checked_target(self, X, y))
        return self.calibration_.p_values(
            rows.y,
            rows.prediction,
            groups=self.taxonomy_.assign(rows),
            weights=weights,
            unseen=unseen,
            seed=seed,
        )

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
        learned = {"estimator": self.estimator_, "taxonomy": self.taxonomy_}
        names = getattr(self, "feature_names_in_", None)
        notes = {
            "level": float(level_fraction(level)),
            "scale": self.scale_,
            "n_features": getattr(self, "n_features_in_", None),
            "features": None if names is None else names.tolist(),
        }
        predictor_files.write(path, learned, self.calibration_.parts, notes)

    @classmethod
    def load(
        cls, path: str | Path, *, nonconformity: Nonconformity | None = None, trusted: Sequence[str] = ()
    ) -> "ConformalRegressor":
        """Read a calibrated model that `save` wrote. Its estimator is frozen: `calibrate` works, `fit` calibrates too.

        Parameters
        ----------
        path : str or Path
            The file.
        nonconformity : score or mapping, optional
            The score, where it is of a class of your own: a file holds this package's scores only.
        trusted : sequence of str
            Classes that may be loaded besides this package's and scikit-learn's usual ones, such as ``"mine.Model"``;
            `save` says which a file needs. A file brings no code along, but a class runs its own, and a forged model
            can crash the process: load only files of those you trust.
        """
        learned, parts, notes = predictor_files.read(path, nonconformity, trusted)
        calibration = Calibration(**parts)
        fitted = learned["estimator"]
        model = cls(
            fitted if is_frozen(fitted) else FrozenEstimator(fitted),
            nonconformity=calibration.nonconformity,
            taxonomy=fresh_taxonomy(learned["taxonomy"]),
        )
        model.estimator_, model.taxonomy_, model.scale_ = fitted, learned["taxonomy"], notes["scale"]
        model.calibration_ = calibration
        if notes["n_features"] is not None:
            model.n_features_in_ = notes["n_features"]
        if notes["features"] is not None:
            model.feature_names_in_ = np.array(notes["features"], dtype=object)
        return model

    @property
    def guarantee_(self) -> Guarantee:
        """What is promised, in words."""
        check_is_fitted(self)
        return self.calibration_.guarantee

    def _refuse_unless_calibrated(self, X: Any) -> None:
        """Raise unless there are thresholds, and features as they were."""
        if is_frozen(self.estimator) and not hasattr(self, "calibration_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not calibrated yet. Call 'calibrate' with rows that the "
                "frozen estimator has not seen"
            )
        refuse_unless_ready(self, X)

    def _frozen(self, X: Any, y: FloatArray) -> Any:
        """Return the model ready for use: fitting its frozen parts changes nothing."""
        return clone(self.estimator).fit(X, y)

    def _nonconformity(self) -> Nonconformity:
        return Residual() if self.nonconformity is None else self.nonconformity

    def _calibrate(self, estimator: Any, scale: float | None, X: Any, y: FloatArray, weights: Any = None) -> Self:
        """Calibrate the model on these rows, and only then take everything over: a failure changes nothing."""
        rows = Rows(predictions_of(estimator, X), X, y)
        nonconformity = self._nonconformity()
        nonconformity = nonconformity if scale is None else with_scale(nonconformity, scale)
        taxonomy = Marginal() if self.taxonomy is None else fresh_taxonomy(self.taxonomy)
        calibration = calibrate(
            y, rows.prediction, nonconformity=nonconformity, groups=taxonomy.learn(rows), weights=weights
        )
        remember_features(self, X)
        self.estimator_, self.scale_, self.taxonomy_ = estimator, scale, taxonomy
        self.calibration_: Calibration = calibration
        self.calibration_rows_ = rows
        return self

    def _piece(self, rows: Rows, cell: tuple[float, float], level: Levels, weights: Any, unseen: Unseen) -> Intervals:
        """Return the part of each row's prediction set that lies in a cell of the target."""
        low, high = cell
        if self._needs_target:
            rows = replace(rows, y=np.full(len(rows), high if np.isfinite(high) else max(low, 0.0)))
        made = self.calibration_.interval(
            rows.prediction, groups=self.taxonomy_.assign(rows), level=level, weights=weights, unseen=unseen
        )
        lower, upper = np.maximum(made.lower, low), np.minimum(made.upper, high)
        return replace(made, lower=lower, upper=upper, frame=frame_kind(rows.X))

    @property
    def _needs_target(self) -> bool:
        return bool(getattr(self.taxonomy_, "needs_target", False))

    def _target_cells(self) -> list[tuple[float, float]]:
        """Return the closed cells of the target between which no group changes; one unless groups depend on it."""
        edges = self.taxonomy_.target_edges_.tolist() if self._needs_target else []
        lows = [-np.inf, *(float(np.nextafter(edge, np.inf)) for edge in edges)]
        return list(zip(lows, [*edges, np.inf], strict=True))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what scikit-learn's metadata routing may pass: the clusters to us, the rest to the model."""
        return fit_router(self, estimator=self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibration_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def fresh_taxonomy(taxonomy: Taxonomy) -> Taxonomy:
    """Return a copy of a taxonomy that has learned nothing, or say that this is none."""
    methods = (getattr(taxonomy, name, None) for name in ("learn", "assign"))
    if isinstance(taxonomy, type) or not all(map(callable, methods)):
        raise TypeError(
            "taxonomy must be a taxonomy such as BySpread(3), with methods learn(rows) and assign(rows); got "
            f"{taxonomy!r}"
        )
    copy: Taxonomy = clone(taxonomy, safe=False)
    return copy


def _median_spread(estimator: Any, X: Any) -> float:
    """Return the scale of floors and stabilisers: the median spread on these rows."""
    return float(np.median(predictions_of(estimator, X).required("spread", by="the scale of a score")))


def _training_rows(name: str, value: Any, n: int, training: IntArray) -> Any:
    """Return the training rows of a fit argument that has a row for each of the n, others as they are."""
    sized = hasattr(value, "__len__") and not isinstance(value, str | dict)
    shape = value.shape if hasattr(value, "shape") else (len(value),) if sized else ()
    if name == "sample_weight" and shape and shape[0] != n:
        raise ValueError(f"sample_weight must have {n} rows, as many as X; got {shape[0]}")
    return take(value, training) if shape and shape[0] == n else value
