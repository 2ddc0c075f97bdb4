"""The main estimator: any regressor with calibrated prediction intervals."""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from evencover.calibration.calibration import Seed, Unseen
from evencover.calibration.group_thresholds import ByGroup
from evencover.calibration.predictive import PredictiveDistribution, predict_distribution
from evencover.calibration.protocols import (
    Calibrator,
    check_clusters_are_used,
    check_weights_are_used,
    checked_calibrator,
    checked_learned,
)
from evencover.conformal import predictor_files
from evencover.conformal.calibrated_regressor import CalibratedRegressor
from evencover.display.html import RecommendationHtmlMixin
from evencover.files.archive import file_errors
from evencover.groups import Groups, Label, cluster_codes, first_few
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.frames import take
from evencover.model_selection import check_share, split_rows, warn_of_few_clusters
from evencover.models.estimators import (
    check_ready,
    check_regressor,
    checked_target,
    fitted_clone,
    is_frozen,
    median_spread,
    parts_of_arguments,
    predictions_of,
    routed_params,
)
from evencover.models.folds import RowStructure
from evencover.models.target_transforms import check_target_transform, with_target_transform
from evencover.rows import Rows
from evencover.scores.score import Nonconformity, check_nonconformity, needs_scale, with_scale
from evencover.taxonomies import Taxonomy, fresh_taxonomy


class ConformalRegressor(RecommendationHtmlMixin, CalibratedRegressor):
    """Split conformal regression: prediction intervals with guaranteed coverage for any regressor.

    `fit` splits the rows, fits the model on one part and calibrates it on the other part. The calibration computes the
    nonconformity score of each of these rows. For each group of the taxonomy, the threshold is the
    ⌈(n + 1) · level⌉-th smallest of its n scores. The interval of a new row is the set of targets whose score is at
    most the threshold of its group.

    If calibration rows and new rows are exchangeable, the interval covers the target of a new row with probability at
    least the level in every group, for any model. By default all rows are one group: the guarantee is marginal, and
    rows with much noise can be covered less often than the level. ``taxonomy=BySpread(3)`` guarantees the level also
    for the rows with low, medium and high spread (Mondrian conformal prediction). With few rows,
    `CrossConformalRegressor` uses all of them for both purposes, with a weaker guarantee.

    Parameters
    ----------
    estimator : regressor
        Any regressor with scikit-learn's interface. A model with ``predict_full``, such as those in
        `evencover.models`, also predicts a spread and bounds. A fitted model in `FrozenEstimator` is not fitted again:
        `fit` calibrates it on all rows.
    nonconformity : score, or mapping from group label to score, optional
        The nonconformity measure; `Residual()`, the absolute residual, by default.
    taxonomy : taxonomy, optional
        How rows are divided into groups; `Marginal()`, one group, by default. ``taxonomy=T`` is short for
        ``calibrator=ByGroup(T)``.
    calibrator : calibrator, optional
        Another way to learn from the calibration rows than a threshold for each group.
    target_transform : {"log", "log1p"} or transformer, optional
        Another scale of the target, short for scikit-learn's `TransformedTargetRegressor` around the estimator: the
        model is fitted to the transformed targets, and scores are computed on their scale. Predictions and intervals
        are mapped back to the unit of the target. So a predicted mean becomes, with "log", an estimate of the median if
        the noise is symmetric on the log scale. A transformer must be monotone.
    calibration_size : float
        Share of the rows for calibration; with ``clusters``, share of the clusters.
    random_state : int, RandomState or None
        Seed of the split.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model.
    calibrator_ : Calibrated
        What the calibrator learned; it computes the intervals and p-values of new rows.
    calibration_ : Calibration
        The calibration scores by group: ``calibrator_.calibration``. Only if there are groups.
    taxonomy_ : taxonomy
        The taxonomy with the groups it learned: ``calibrator_.taxonomy``. Only if there are groups.
    scale_ : float or None
        Median spread on the training rows, if the score has a floor or epsilon relative to it. With a
        `target_transform`, it is the spread on the scale of the transformed target.
    calibration_rows_ : Rows
        The calibration rows and their predictions, for `diagnose`.
    guarantee_ : Guarantee
        The coverage guarantee with its assumption; print it to read it.

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
        target_transform: Any = None,
        calibration_size: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.nonconformity = nonconformity
        self.taxonomy = taxonomy
        self.calibrator = calibrator
        self.target_transform = target_transform
        self.calibration_size = calibration_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, clusters: Any = None, **fit_params: Any) -> Self:
        """Split the rows, fit the model on one part, and calibrate it on the other part.

        Parameters
        ----------
        X : table of n rows
            Features: an array, a sparse matrix, or a pandas, polars or pyarrow table.
        y : array-like of shape (n,)
            Targets, in the order of the rows of X, between -1e300 and 1e300. Whole numbers that float64 would round
            raise an error; in X they are rounded. Masked values raise an error in all arguments.
        clusters : array-like of shape (n,), optional
            Rows that belong together, for example rows of one patient: all rows of a cluster go to the same part of
            the split. In the calibration, each cluster counts as much as one new row, so the guarantee is that for a
            random row of a new cluster (see `Calibration`). It is approximate for groups whose edges are learned from
            the calibration rows, such as ``BySpread(3)``. Nothing is guaranteed for rows of clusters that were passed
            to `fit`. Clusters are not groups: the taxonomy sets the groups, which get their own thresholds.
        **fit_params
            Passed to the `fit` of the model. Of an argument with n rows, such as ``sample_weight``, only the training
            rows are passed.
        """
        check_regressor(self.estimator, "estimator")
        self._checked_calibrator()  # an invalid calibrator or score is an error before anything is fitted
        check_nonconformity(self._nonconformity())
        estimator = with_target_transform(self.estimator, self.target_transform)
        if is_frozen(self.estimator):
            if fit_params:
                unused = ", ".join(fit_params)
                raise ValueError(f"a frozen estimator is neither split nor fitted, so it takes no {unused}")
            return self.calibrate(X, y, clusters=clusters)
        target = checked_target(self, X, y, clusters=clusters, sample_weight=fit_params.get("sample_weight"))
        check_clusters_are_used(clusters, self._checked_calibrator())
        check_share("calibration_size", self.calibration_size)
        check_target_transform(estimator, target, self.target_transform)
        n = len(target)
        codes = None if clusters is None else cluster_codes(clusters, n)
        training, held_out = split_rows(n, self.calibration_size, clusters=codes, random_state=self.random_state)
        warn_of_few_clusters(clusters)
        X_training = take(X, training)
        params = {**RowStructure(codes).arguments_of(estimator), **routed_params(self, fit_params, "estimator")}
        params = parts_of_arguments(params, n, training)
        fitted = fitted_clone(estimator, X_training, target[training], params)
        scale = median_spread(fitted, X_training) if needs_scale(self._nonconformity()) else None
        held_out_clusters = None if codes is None else codes[held_out]
        return self._calibrate(fitted, scale, take(X, held_out), target[held_out], clusters=held_out_clusters)

    def calibrate(self, X: Any, y: Any, *, weights: Any = None, clusters: Any = None) -> Self:
        """Calibrate again, on rows that the model was not fitted on; the model is not changed.

        Parameters
        ----------
        X : table of n rows
            Features.
        y : array-like of shape (n,)
            Targets.
        weights : array-like of shape (n,), optional
            Likelihood ratios for covariate shift; predictions then need the weights of the new rows.
        clusters : array-like of shape (n,), optional
            Rows that belong together, as in `fit`. The model must not have been fitted on rows of these clusters.
        """
        target = checked_target(self, X, y, weights=weights, clusters=clusters)
        codes = None if clusters is None else cluster_codes(clusters, len(target), min_clusters=1)
        if is_frozen(self.estimator):  # its `fit` sets attributes of adapters, and changes no frozen part
            frozen = with_target_transform(self.estimator, self.target_transform)
            return self._calibrate(fitted_clone(frozen, X, target), None, X, target, weights, codes)
        if not hasattr(self, "calibrator_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit'; or, to calibrate a model that is "
                "fitted already, pass FrozenEstimator(model)"
            )
        check_ready(self, X)
        return self._calibrate(self.estimator_, self.scale_, X, target, weights, codes)

    def recalibrated(self, rows: Rows) -> Self:
        """Return a copy of the model that is calibrated on other rows, whose predictions are known already.

        Parameters
        ----------
        rows : Rows
            Rows with targets that the model was not fitted on, such as a part of `calibration_rows_`.
        """
        check_is_fitted(self)
        if not isinstance(rows, Rows):
            raise TypeError(f"rows must be Rows, with predictions and targets; got {type(rows).__name__}")
        return copy(self)._calibrate_on(rows, self.estimator_, self.scale_)

    def calibrate_batches(self, parts: Iterable[tuple[Any, ...]]) -> Self:
        """Calibrate again, as `calibrate` does, on rows that come in parts, such as the batches of a large file.

        Only the scores are kept in memory. All parts must have the same groups, so these must not depend on the
        calibration rows: use ``BySpread(edges=[...])`` and not ``BySpread(3)``, ``ByFeature("region",
        categories=[...])`` and not ``ByFeature("region")``. `diagnose` then needs X and y.

        Parameters
        ----------
        parts : iterable of (X, y) or (X, y, clusters)
            Features and targets of each part, which the model was not fitted on. With `clusters`, as in `calibrate`,
            all rows of a cluster must be in the same part, and all parts must have clusters.
        """
        if not hasattr(self, "calibrator_"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' or 'calibrate'")
        calibrator, score = self._checked_calibrator(), self._nonconformity()
        score = score if self.scale_ is None else with_scale(score, self.scale_)
        all_rows = self._rows_of_parts(parts, calibrator)
        learned = [checked_learned(calibrator.learn(rows, score)) for rows in all_rows if len(rows)]
        if not learned:
            raise ValueError("parts must be (X, y) or (X, y, clusters), at least one of which has rows; got none")
        if not hasattr(learned[0], "merge"):
            raise TypeError(f"calibrator must return an object with merge; {type(learned[0]).__name__} has none")
        try:
            self.calibrator_ = learned[0].merge(*learned[1:])
        except ValueError as error:
            raise ValueError(
                "all parts must have the same groups; give them, as in BySpread(edges=[...]) or ByFeature(..., "
                f"categories=[...]): {error!s:.200}"
            ) from None
        self._learned_by = calibrator
        if hasattr(self, "calibration_rows_"):
            del self.calibration_rows_
        return self

    def _rows_of_parts(self, parts: Iterable[tuple[Any, ...]], calibrator: Calibrator) -> Iterator[Rows]:
        """Yield the rows of each part. Raise ValueError if a cluster is in several, or if only some have clusters."""
        known: set[Label] = set()
        first = None  # the first part with rows, and whether it has clusters
        for position, (X, y, *given) in enumerate(parts):
            rows = self.rows(X, y)
            has_clusters = bool(given) and given[0] is not None
            if len(rows):
                first = first or (position, has_clusters)
                _check_same_kind(*first, position, has_clusters)
            if has_clusters:
                check_clusters_are_used(given[0], calibrator)
                labels = Groups.from_labels(given[0], name="clusters").labels
                if repeated := [label for label in labels if label in known]:
                    raise ValueError(
                        f"all rows of a cluster must be in the same part; in several parts: {first_few(repeated)}"
                    )
                known.update(labels)
                rows = replace(rows, clusters=given[0])
            yield rows

    def predict_distribution(self, X: Any, *, seed: Seed = None, unseen: Unseen = "error") -> PredictiveDistribution:
        """Return the calibrated distribution of each row's target: cdf, quantiles, mean, draws, CRPS, PIT.

        Parameters
        ----------
        X : table of n rows, or Rows
            Features, or the result of `rows`.
        seed : int or Generator, optional
            If given, the distributions are smoothed: each row gets a random τ, which makes `pit` exactly uniform.
        unseen : {"error", "marginal", "inf"}
            How to treat a row whose group has no calibration rows: raise an error, use the scores of all rows, or
            return a distribution without finite values.
        """
        rows = self.rows(X)
        return predict_distribution(self.calibrator_, rows, getattr(self, "calibration_rows_", None), seed, unseen)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        nonconformity: Nonconformity | None = None,
        calibrator: Calibrator | None = None,
        trusted: Sequence[str] = (),
    ) -> Self:
        """Return the calibrated model in a file that `save` wrote. Its estimator is frozen: `fit` only calibrates it.

        Parameters
        ----------
        path : str or Path
            The file.
        nonconformity : score or mapping, optional
            The score, if its class is your own: a file can hold only scores of this package.
        calibrator : calibrator, optional
            The calibrator, if its class is your own.
        trusted : sequence of str
            Names of further classes that may be loaded, such as ``"mine.Model"``; a warning of `save` and the error of
            `load` list those that a file needs. A file contains no code, but loading runs the code of these classes:
            load such files only from authors you trust.
        """
        saved = predictor_files.read(path, "ConformalRegressor", nonconformity, trusted, calibrator)
        with file_errors(path, "predictor"):
            frozen = saved.estimator if is_frozen(saved.estimator) else FrozenEstimator(saved.estimator)
            model = cls(frozen, nonconformity=saved.learned.nonconformity, calibrator=saved.calibrator)
            model._set_loaded(saved)
            if calibrator is None and isinstance(saved.calibrator, ByGroup) and saved.calibrator.bits is None:
                model.set_params(calibrator=None, taxonomy=fresh_taxonomy(model.taxonomy_))
            return model

    def _check_is_calibrated(self, X: Any) -> None:
        if not hasattr(self, "calibrator_") and is_frozen(self.estimator):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not calibrated yet. Call 'calibrate' with rows that the "
                "frozen estimator was not fitted on"
            )
        super()._check_is_calibrated(X)

    def _checked_calibrator(self) -> Calibrator:
        """Return the requested calibrator: the given one, or that of the taxonomy."""
        if self.calibrator is None:
            return ByGroup(self.taxonomy)
        if self.taxonomy is not None:
            raise ValueError("taxonomy=T is short for calibrator=ByGroup(T); give one of them, not both")
        return checked_calibrator(self.calibrator)

    def _calibrate(
        self,
        estimator: Any,
        scale: float | None,
        X: Any,
        y: FloatArray,
        weights: Any = None,
        clusters: IntArray | None = None,
    ) -> Self:
        """Calibrate a fitted model, then set all learned attributes; after an error none of them is changed."""
        calibrator = self._checked_calibrator()
        check_weights_are_used(weights, calibrator)
        check_clusters_are_used(clusters, calibrator)
        rows = Rows.with_checked_target(predictions_of(estimator, X), X, y, weights, clusters)
        return self._calibrate_on(rows, estimator, scale)

    def _calibrate_on(self, rows: Rows, estimator: Any, scale: float | None) -> Self:
        """Calibrate a fitted model on rows that it has predicted, then set all learned attributes."""
        calibrator, score = self._checked_calibrator(), self._nonconformity()
        learned = checked_learned(calibrator.learn(rows, score if scale is None else with_scale(score, scale)))
        return self._set_learned(estimator, scale, calibrator, learned, rows)

    def _predicted_rows(self, X: Any, y: FloatArray | None, weights: Any) -> Rows:
        return Rows.with_checked_target(predictions_of(self.estimator_, X), X, y, weights)


def _check_same_kind(first: int, first_has_clusters: bool, position: int, has_clusters: bool) -> None:
    """Raise ValueError if one of two parts has clusters, and the other has none."""
    if has_clusters == first_has_clusters:
        return
    found = f"part {first} has clusters, part {position} has none"
    if has_clusters:
        found = f"part {first} has no clusters, part {position} has some"
    raise ValueError(
        f"clusters must be given for all parts, or for none; {found} (counted from 0). Pass (X, y, clusters) for every "
        "part, or (X, y) for every part if all rows are independent"
    )
