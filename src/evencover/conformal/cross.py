"""Cross-conformal regression: every row is used to fit models and to calibrate them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from evencover.calibration.calibration import Unseen
from evencover.calibration.cross import CrossFolds, Folds, Method
from evencover.calibration.cross_sets import joined_sets, numbers_per_row
from evencover.calibration.protocols import check_weights_are_used, requested_sets, sets_at
from evencover.conformal import predictor_files
from evencover.conformal.calibrated_regressor import CalibratedRegressor
from evencover.files.archive import file_errors
from evencover.groups import cluster_codes
from evencover.inputs.arrays import FloatArray, IntArray, warn_user
from evencover.inputs.frames import frame_kind, n_rows, take
from evencover.intervals import Intervals, IntervalUnion
from evencover.model_selection import warn_of_few_clusters
from evencover.models.estimators import (
    check_regressor,
    checked_target,
    cloned,
    is_frozen,
    routed_params,
)
from evencover.models.folds import (
    FoldEnsemble,
    RowStructure,
    Splits,
    bootstrap_splits,
    cross_validation_splits,
    fit_folds,
    leave_one_out,
    mean_prediction,
)
from evencover.models.target_transforms import check_target_transform, with_target_transform
from evencover.predictions import Prediction, averaged
from evencover.quantiles import Levels, level_fractions
from evencover.rows import Rows
from evencover.scores.score import Nonconformity, check_nonconformity, needs_scale, with_scale
from evencover.taxonomies import Taxonomy, fresh_taxonomy

_DEFAULT_FOLDS = 10
_FIRST_CELLS = 1 << 17  # pairs of a new row and a model that are predicted first
_MAX_NUMBERS = 1 << 20  # numbers in the predictions of one block of rows by all models


class CrossConformalRegressor(CalibratedRegressor):
    """Cross-conformal regression: prediction intervals that use every row for the model and for calibration.

    `fit` fits one model for each fold, to the rows of the other folds, and computes the nonconformity score of each row
    by the model that was fitted without it. For a new row, each calibration row i gives a set of targets [L_i, U_i]:
    those whose score, by the model without row i, is at most the score of row i. With n calibration rows and
    α = 1 − level, the interval is

        from the ⌊α(n + 1)⌋-th smallest L_i to the ⌈(1 − α)(n + 1)⌉-th smallest U_i.

    Coverage is usually close to the level. What is proven, if rows are exchangeable, is a probability of at least
    1 − (2r + K − 2) / (n + K) for K folds, where r = ⌊α(n + 1)⌋, and of at least 1 − (2r − 1) / (n + 1) for the two
    jackknife methods; both are about 1 − 2α if there are many rows. With groups that depend on features alone, this
    holds in every group, with its own n. With groups of the spread or of the prediction, it is an approximation.
    `ConformalRegressor` guarantees 1 − α, and uses only a part of the rows for each purpose.

    Parameters
    ----------
    estimator : regressor
        Any regressor with scikit-learn's interface, as for `ConformalRegressor`; it must not be frozen.
    cv : int, splitter, or sequence of pairs of training and test positions
        The folds: a number, for random folds; or one of scikit-learn's splitters, also with repeated folds. Each row
        must be in the test part of the same number of folds, or of none: then it is used for training only. Folds must
        depend neither on the targets nor on the features, also not by the order of the rows. A number, a shuffled
        `KFold` and `RepeatedKFold` ensure this; with other folds, `guarantee_` states it as a condition. The two
        jackknife methods do not use it.
    method : {"cv+", "jackknife+", "jackknife+-after-bootstrap", "cross-conformal"}
        - "cv+": the interval above.
        - "jackknife+": the same, with a model for each row that leaves out only this row.
        - "jackknife+-after-bootstrap": the same, where the model without a row is the mean of the models that were
          fitted on bootstrap samples without it. The number of samples is random, as its theorem needs:
          Binomial(n_bootstraps, (1 − 1 / (n + 1)) ** n).
        - "cross-conformal": the targets whose p-value (1 + #{i : L_i <= y <= U_i}) / (n + 1) is larger than α. They lie
          in the interval of "cv+", and can have gaps: `predict_union` returns them, and `predict_interval` the smallest
          interval that contains them.
    nonconformity : score, or mapping from group label to score, optional
        The nonconformity measure; `Residual()` by default.
    taxonomy : taxonomy, optional
        How rows are divided into groups; `Marginal()`, one group, by default. It must not depend on the target.
    target_transform : {"log", "log1p"} or transformer, optional
        Another scale of the target, as for `ConformalRegressor`. jackknife+-after-bootstrap averages predictions in the
        unit of the target, and computes scores in this unit.
    n_bootstraps : int
        Upper limit of the random number of bootstrap samples, which is about 37 % of it.
    n_jobs : int, optional
        Number of processes that fit the models; -1 for all cores.
    random_state : int, RandomState or None
        Seed of the folds, of the bootstrap samples, and of the random order in which models get their rows.

    Attributes
    ----------
    estimators_ : list of fitted regressors
        The models of the folds or of the bootstrap samples.
    estimator_ : fitted regressor
        The models as one, which predicts their mean.
    calibrator_ : FoldThresholds
        The scores and the models they belong to; it computes the intervals and p-values of new rows.
    calibration_ : Calibration
        The scores by group.
    taxonomy_ : taxonomy
        The taxonomy with the groups it learned.
    scale_ : float or None
        Median spread of the calibration rows, if the score has a floor or epsilon relative to it.
    calibration_rows_ : Rows
        The calibration rows and their predictions by models that were fitted without them, for `diagnose`.
    guarantee_ : Guarantee
        The coverage guarantee with its assumption; print it to read it.

    References
    ----------
    Barber, Candès, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+.
    Kim, Xu, Barber (2020), Predictive inference is free with the jackknife+-after-bootstrap.
    Vovk (2015), Cross-conformal predictors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CrossConformalRegressor(Ridge(), random_state=0).fit(X, y)
    >>> model.predict_interval(X[:3], level=0.9).width.round(1)
    array([182.5, 182.6, 182.9])
    """

    _saved_parameters = ("cv", "n_bootstraps", "random_state")

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = _DEFAULT_FOLDS,
        method: Method = "cv+",
        nonconformity: Nonconformity | None = None,
        taxonomy: Taxonomy | None = None,
        target_transform: Any = None,
        n_bootstraps: int = 150,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.method = method
        self.nonconformity = nonconformity
        self.taxonomy = taxonomy
        self.target_transform = target_transform
        self.n_bootstraps = n_bootstraps
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, clusters: Any = None, **fit_params: Any) -> Self:
        """Fit a model for each fold, and compute the score of each row by a model that was fitted without it.

        Parameters
        ----------
        X : table of n rows
            Features: an array, a sparse matrix, or a pandas, polars or pyarrow table.
        y : array-like of shape (n,)
            Targets, in the order of the rows of X.
        clusters : array-like of shape (n,), optional
            Rows that belong together, for example rows of one patient: they are left out together, also inside of
            models whose `fit` has an argument `clusters`. The guarantee is
            then for random rows of new clusters, and has a lower bound if all clusters have the same number of rows.
            Nothing is guaranteed for rows of clusters that were passed here. Clusters are not groups: the taxonomy sets
            the groups.
        **fit_params
            Passed to the `fit` of the models. Of an argument with n rows, such as ``sample_weight``, only the training
            rows are passed.
        """
        self._check_settings()
        estimator = with_target_transform(self.estimator, self.target_transform)
        target = checked_target(self, X, y, clusters=clusters, sample_weight=fit_params.get("sample_weight"))
        check_target_transform(estimator, target, self.target_transform)
        units = None if clusters is None else cluster_codes(clusters, len(target))
        splits = self._splits(X, target, units)
        warn_of_few_clusters(clusters)
        folds, scored, places = _folds_of(splits, units, len(target))
        params = {**RowStructure(units).arguments_of(estimator), **routed_params(self, fit_params, "estimator")}
        models, predictions = fit_folds(estimator, X, target, splits, params, self.n_jobs)
        repeats = _predictions_without(folds, predictions, places)
        return self._learn(models, folds, repeats, take(X, scored), target[scored])

    def _check_settings(self) -> None:
        """Raise if a parameter is not valid, before anything is fitted."""
        check_regressor(self.estimator, "estimator")
        if is_frozen(self.estimator):
            raise ValueError(
                "estimator must not be frozen, because it is fitted again without the rows of each fold; got "
                f"{self.estimator!r}. For a frozen estimator, use ConformalRegressor"
            )
        if self.method not in get_args(Method):
            raise ValueError(f"method must be one of {', '.join(map(repr, get_args(Method)))}; got {self.method!r}")
        check_nonconformity(self._nonconformity())
        CrossFolds(self.taxonomy).checked_taxonomy()

    def _splits(self, X: Any, y: FloatArray, clusters: IntArray | None) -> Splits:
        """Return the rows that each model is fitted on and predicts."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if self.method == "jackknife+-after-bootstrap":
            return bootstrap_splits(self.n_bootstraps, len(y), clusters, rng).shuffled(rng)
        cv = leave_one_out(clusters) if self.method == "jackknife+" else self.cv
        return cross_validation_splits(cv, X, y, clusters, self.random_state).shuffled(rng)

    def _learn(self, models: list[Any], folds: Folds, repeats: list[Prediction], X: Any, y: FloatArray) -> Self:
        """Compute the scores, then set all learned attributes; after an error none of them is changed."""
        score = self._nonconformity()
        scale = None
        if needs_scale(score):
            scale = float(np.median(repeats[0].scored.required("spread", by="the scale of a score")))
            score = with_scale(score, scale)
        calibrator = CrossFolds(self.taxonomy, self.method)
        rows = [Rows.with_checked_target(prediction, X, y) for prediction in repeats]
        learned = calibrator.learn(rows, score, folds, scale_from_rows=scale is not None)
        return self._set_learned(FoldEnsemble(models), scale, calibrator, learned, rows[0])

    @property
    def estimators_(self) -> list[Any]:
        """The models of the folds or of the bootstrap samples."""
        check_is_fitted(self)
        models: list[Any] = self.estimator_.estimators
        return models

    def _predicted_rows(self, X: Any, y: FloatArray | None, weights: Any) -> Rows:  # noqa: ARG002
        predictions = self.estimator_.fold_predictions(X)
        return Rows.with_checked_target(mean_prediction(predictions), X, y).with_folds(predictions)

    def _check_weights(self, weights: Any) -> None:
        check_weights_are_used(weights, self)

    def _prediction_sets(self, X: Any, level: Levels, weights: Any, unseen: Unseen) -> Intervals | IntervalUnion:
        """Return the prediction sets; rows of a table are predicted in blocks."""
        levels = level_fractions(level)
        check_is_fitted(self)
        with predictor_files.model_errors(self._loaded_from):
            blocks = [
                (rows.prediction.center, sets_at(self.calibrator_, rows, levels, unseen))
                for rows in self._blocks(X, weights)
            ]
        center = np.concatenate([center for center, _ in blocks])
        kind = frame_kind(X.X if isinstance(X, Rows) else X)
        return requested_sets(self.calibrator_, joined_sets([sets for _, sets in blocks]), level, center, kind)

    def _blocks(self, X: Any, weights: Any) -> Iterator[Rows]:
        """Yield the rows with their predictions, in blocks that limit the memory.

        The first block shows whether the models predict quantiles, of which later blocks hold fewer rows.
        """
        size = max(1, _FIRST_CELLS // len(self.estimators_))
        if isinstance(X, Rows) or n_rows(X) <= size:
            yield self.rows(X, weights=weights)
            return
        start = 0
        while start < n_rows(X):
            rows = self.rows(take(X, np.arange(start, min(start + size, n_rows(X)))), weights=weights)
            yield rows
            start += size
            size = max(1, _MAX_NUMBERS // (len(rows.fold_predictions) * numbers_per_row(rows.fold_predictions)))

    @classmethod
    def load(cls, path: str | Path, *, nonconformity: Nonconformity | None = None, trusted: Sequence[str] = ()) -> Self:
        """Return the calibrated model in a file that `save` wrote.

        Its parameters are those of the saved model, so that `fit` works again: `estimator` is an unfitted copy of a
        fold model, with its `target_transform`. Only a `cv` that is a number, and a `random_state` that is one, are in
        the file; `n_jobs` is not.

        Parameters
        ----------
        path : str or Path
            The file.
        nonconformity : score or mapping, optional
            The score, if its class is your own: a file can hold only scores of this package.
        trusted : sequence of str
            Names of further classes that may be loaded; see `ConformalRegressor.load`.
        """
        saved = predictor_files.read(path, "CrossConformalRegressor", nonconformity, trusted)
        with file_errors(path, "predictor"):
            if (n_models := len(saved.estimator.estimators)) != saved.learned.folds.n_models:
                raise ValueError(f"it must have {saved.learned.folds.n_models} models; got {n_models}")
            model = cls(
                cloned(saved.estimator.estimators[0]),
                method=saved.learned.method,
                nonconformity=predictor_files.without_scale(saved.learned.nonconformity, saved.notes["scale"]),
                taxonomy=fresh_taxonomy(saved.learned.taxonomy),
                **saved.notes["parameters"],
            )
            model._set_loaded(saved)
            return model


def _folds_of(splits: Splits, clusters: IntArray | None, n: int) -> tuple[Folds, IntArray, IntArray]:
    """Return which model leaves out which row, the positions of the left-out rows, and the places of their predictions.

    Places have shape (R, n) for R repetitions; they are not used for bootstrap samples.
    """
    if splits.left_out is not None:
        folds = Folds(np.arange(n)[None], len(splits), splits.left_out, clusters, random=splits.random)
        _warn_of_rows_in_all_samples(folds)
        return folds, np.arange(n), np.arange(n)[None]
    codes, places = splits.by_repetition(n)
    scored = np.flatnonzero(codes[0] >= 0)
    complementary = splits.are_complementary(np.arange(n) if clusters is None else clusters)
    own_clusters = None if clusters is None else clusters[scored]
    folds = Folds(codes[:, scored], len(splits), None, own_clusters, complementary, splits.random)
    return folds, scored, places[:, scored]


def _predictions_without(folds: Folds, predictions: list[Prediction], places: IntArray) -> list[Prediction]:
    """Return for each repetition the predictions of rows by models that were fitted without them."""
    if folds.left_out is None:
        every = Prediction.concatenate(predictions)
        return [every[place] for place in places]
    weights = folds.weights
    return [averaged(predictions, lambda values: np.einsum("ib,bi...->i...", weights, values))]


def _warn_of_rows_in_all_samples(folds: Folds) -> None:
    """Warn of rows that no bootstrap sample leaves out, whose scores are infinite."""
    n = int(folds.in_all_samples.sum())
    if n:
        warn_user(
            f"rows that are in all {folds.n_models} bootstrap samples: {n} of {len(folds.in_all_samples)}. No model "
            "was fitted without them, so their scores count as infinite, which makes intervals wider; use more "
            "n_bootstraps"
        )
