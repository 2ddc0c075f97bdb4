"""The estimator: any regressor, with intervals that keep their promise."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from evencover.calibration import Calibration, Unseen, calibrate
from evencover.guarantees import Guarantee
from evencover.inputs import FloatArray, IntArray
from evencover.intervals import Intervals, IntervalUnion
from evencover.models.speech import is_frozen, predictions_of
from evencover.models.validation import checked_target, refuse_unless_ready, remember_features
from evencover.quantiles import Levels
from evencover.rows import Rows
from evencover.scores import Nonconformity, Residual, needs_scale, with_scale
from evencover.splits import split_rows
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
    nonconformity_, taxonomy_
        The score as used, and the taxonomy with what it learned.
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
            Clusters, such as patients: none has rows on both sides of the split.
        **fit_params
            Passed on to the model's `fit`; those with n rows, such as ``sample_weight``, by their training rows.
        """
        target = checked_target(self, X, y)
        remember_features(self, X)
        if is_frozen(self.estimator):
            useless = ["groups"] * (groups is not None) + list(fit_params)
            if useless:
                raise ValueError(f"a frozen estimator is neither split nor fitted, so it takes no {', '.join(useless)}")
            return self._calibrate(self._frozen(X, target), self._nonconformity(), X, target)
        training, held_out = self._split(n_rows(X), groups)
        params = {name: _training_rows(value, n_rows(X), training) for name, value in fit_params.items()}
        X_training = take(X, training)
        fitted = clone(self.estimator).fit(X_training, target[training], **params)
        nonconformity = self._nonconformity()
        if needs_scale(nonconformity):
            spread = predictions_of(fitted, X_training).required("spread", by="the scale of a score")
            nonconformity = with_scale(nonconformity, float(np.median(spread)))
        return self._calibrate(fitted, nonconformity, take(X, held_out), target[held_out])

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
        if not hasattr(self, "calibration_") and is_frozen(self.estimator):
            remember_features(self, X)
            return self._calibrate(self._frozen(X, target), self._nonconformity(), X, target, weights)
        refuse_unless_ready(self, X)
        return self._calibrate(self.estimator_, self.nonconformity_, X, target, weights)

    def predict(self, X: Any) -> FloatArray:
        """Return the model's own prediction. Shape (n,)."""
        refuse_unless_ready(self, X)
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
        refuse_unless_ready(self, X)
        rows = Rows(predictions_of(self.estimator_, X), X)
        pieces = [self._piece(rows, cell, level, weights, unseen) for cell in self._target_cells()]
        return IntervalUnion(pieces)

    def p_values(
        self, X: Any, y: Any, *, weights: Any = None, unseen: Unseen = "error", seed: Any = None
    ) -> FloatArray:
        """Return the p-value of each row's target; see `Calibration.p_values`. Shape (n,)."""
        refuse_unless_ready(self, X)
        rows = Rows(predictions_of(self.estimator_, X), X, checked_target(self, X, y))
        return self.calibration_.p_values(
            rows.y,
            rows.prediction,
            groups=self.taxonomy_.assign(rows),
            weights=weights,
            unseen=unseen,
            seed=seed,
        )

    @property
    def guarantee_(self) -> Guarantee:
        """What is promised, in words."""
        check_is_fitted(self)
        return self.calibration_.guarantee

    def _frozen(self, X: Any, y: FloatArray) -> Any:
        """Return the model ready for use: fitting its frozen parts changes nothing."""
        return clone(self.estimator).fit(X, y)

    def _nonconformity(self) -> Nonconformity:
        return Residual() if self.nonconformity is None else self.nonconformity

    def _split(self, n: int, groups: Any) -> tuple[IntArray, IntArray]:
        """Return the positions of training and calibration rows."""
        if not 0 < self.calibration_size < 1:
            raise ValueError(
                f"calibration_size must be a share of the rows, between 0 and 1; got {self.calibration_size}"
            )
        return split_rows(n, self.calibration_size, groups=groups, random_state=self.random_state)

    def _calibrate(
        self, estimator: Any, nonconformity: Nonconformity, X: Any, y: FloatArray, weights: Any = None
    ) -> Self:
        """Calibrate the model on these rows, and only then take everything over: a failure changes nothing."""
        rows = Rows(predictions_of(estimator, X), X, y)
        taxonomy = self._taxonomy()
        groups = taxonomy.learn(rows)
        self.calibration_: Calibration = calibrate(
            y, rows.prediction, nonconformity=nonconformity, groups=groups, weights=weights
        )
        self.estimator_, self.nonconformity_, self.taxonomy_ = estimator, nonconformity, taxonomy
        self.calibration_rows_ = rows
        return self

    def _taxonomy(self) -> Taxonomy:
        """Return a fresh copy of the taxonomy."""
        if self.taxonomy is None:
            return Marginal()
        if not all(callable(getattr(self.taxonomy, method, None)) for method in ("learn", "assign")):
            raise TypeError(f"taxonomy must have methods learn(rows) and assign(rows); got {self.taxonomy!r}")
        copy: Taxonomy = clone(self.taxonomy, safe=False)
        return copy

    def _piece(self, rows: Rows, cell: tuple[float, float], level: Levels, weights: Any, unseen: Unseen) -> Intervals:
        """Return the part of each row's prediction set that lies in a cell of the target."""
        low, high = cell
        if self.taxonomy_.needs_target:
            rows = replace(rows, y=np.full(len(rows), high if np.isfinite(high) else max(low, 0.0)))
        made = self.calibration_.interval(
            rows.prediction, groups=self.taxonomy_.assign(rows), level=level, weights=weights, unseen=unseen
        )
        lower, upper = np.maximum(made.lower, low), np.minimum(made.upper, high)
        return replace(made, lower=lower, upper=upper, frame=frame_kind(rows.X))

    def _target_cells(self) -> list[tuple[float, float]]:
        """Return the closed cells of the target between which no group changes; one unless groups depend on it."""
        edges = self.taxonomy_.target_edges_.tolist() if self.taxonomy_.needs_target else []
        lows = [-np.inf, *(float(np.nextafter(edge, np.inf)) for edge in edges)]
        return list(zip(lows, [*edges, np.inf], strict=True))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibration_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _training_rows(value: Any, n: int, training: IntArray) -> Any:
    """Return the training rows of a fit argument that has a row for each of the n, others as they are."""
    by_row = hasattr(value, "__len__") and not isinstance(value, str | dict) and np.ndim(value) and n_rows(value) == n
    return take(value, training) if by_row else value
