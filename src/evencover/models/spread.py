"""A spread for models without one: learned from residuals, from neighbours, or from the members of an ensemble."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Protocol, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.utils import InputTags, Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRouter

from evencover.inputs.arrays import FloatArray, IntArray, check_count, got_text, is_number
from evencover.inputs.frames import date_columns, take, text_columns
from evencover.models._outputs import (
    DEFAULT_PROBABILITIES,
    estimable_probabilities,
    mean_and_scale,
    on_default_grid,
    relative_floor,
)
from evencover.models.encoding import Recognition, TableEncoder
from evencover.models.estimators import (
    CloneMixin,
    check_ready,
    check_regressor,
    checked_features,
    checked_target,
    cloned,
    first_rows,
    fit_router,
    fitted_clone,
    fitted_copy,
    is_frozen,
    remember_features,
    routed_params,
    unwrap,
    with_inputs_of,
)
from evencover.models.folds import RowStructure, fixed_folds, out_of_fold_predictions
from evencover.models.members import BestRegressor
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction

_MAX_PARTS = 3  # of the rows, for the cross-fitted spread: each part costs one more fit
_MIN_RESIDUALS = 20  # fewer residuals show no 5 % and 95 % quantile
_ENOUGH_RESIDUALS = 5000  # the share of residuals below their 1 % quantile is then known to 0.14 %
_REMEDIES = {
    "must hold numbers for": "",  # the message has the remedy
    "could not convert": " Remedy: make WithSpread the last step of the Pipeline that encodes the features",
    "Sparse data was passed": " Remedy: use ResidualSpread(regressor) with a regressor that accepts sparse features",
}


def learn_spread(source: Any, fitted: Any, X: Any, y: FloatArray, residuals: FloatArray | None) -> FloatArray:
    """Return the spread on the training rows; add a remedy to the message of errors about the features."""
    try:
        spread: FloatArray = source.learn(fitted, X, y, residuals)
    except (TypeError, ValueError) as error:
        remedy = next((remedy for cause, remedy in _REMEDIES.items() if cause in str(error)), None)
        if remedy is None:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{source!r} cannot learn the spread from these features: {error}{remedy}") from error
    return spread


def out_of_fold_spreads(
    new_source: Callable[[], Any],
    fitted: Any,
    X: Any,
    y: FloatArray,
    residuals: FloatArray,
    folds: IntArray,
    floor: float,
) -> tuple[IntArray, FloatArray]:
    """Return the positions of training rows, and their spreads, which are learned from the residuals of other folds.

    The folds are merged to at most three parts. With many rows, the first parts are enough. There are no rows if they
    are too few.

    Parameters
    ----------
    new_source : callable
        Returns a source of spread that has not learned yet.
    fitted : fitted regressor
        The model of the center, which sources may use.
    X, y, residuals : table and arrays of n rows
        Training rows, with out-of-fold residuals.
    folds : ndarray of shape (n,)
        The fold of each row.
    floor : float
        The smallest spread.
    """
    parts = folds % _MAX_PARTS
    rows, spreads = np.empty(0, dtype=np.intp), np.empty(0)
    if len(y) < _MIN_RESIDUALS or len(np.unique(parts)) < 2:
        return rows, spreads
    for part in np.unique(parts):
        own, others = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        source = new_source()
        learn_spread(source, fitted, take(X, others), y[others], residuals[others])
        rows = np.concatenate([rows, own])
        spreads = np.concatenate([spreads, np.maximum(source.spread(fitted, take(X, own)), floor)])
        if len(rows) >= _ENOUGH_RESIDUALS:
            break
    return rows, spreads


def residual_quantiles(standardized: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return quantiles of residuals that were divided by their spreads, both out of fold; normal ones without any.

    The k-th smallest of n standardised residuals estimates the quantile at k / (n + 1). Beyond k = 1 and k = n there
    are normal tails.
    """
    if not len(standardized):
        return np.array(DEFAULT_PROBABILITIES), np.asarray(ndtri(DEFAULT_PROBABILITIES))
    at = estimable_probabilities(len(standardized))
    quantiles = np.quantile(standardized, at, method="weibull")
    return np.array(DEFAULT_PROBABILITIES), on_default_grid(quantiles[None], at)[0]


_NORMAL = float(np.sqrt(np.pi / 2))  # standard deviation / mean absolute deviation of a normal distribution
_NEAR = 1e-3  # in standard deviations: a training row within this distance may be the row itself
_BOOSTED_TREES = HistGradientBoostingRegressor(loss="poisson", max_leaf_nodes=8, learning_rate=0.05, random_state=0)


class SpreadSource(Protocol):
    """Protocol of the `spread` argument of `WithSpread`; your own class needs these members.

    `needs_residuals` is whether `learn` needs out-of-fold residuals.
    """

    needs_residuals: bool

    def learn(self, estimator: Any, X: Any, y: FloatArray, residuals: FloatArray | None) -> FloatArray:
        """Learn from the fitted model and its training rows; return the spread on them. Shape (n,)."""

    def spread(self, estimator: Any, X: Any) -> FloatArray:
        """Return the spread of new rows, zero or more. Shape (n,)."""


class ResidualSpread(CloneMixin, BaseEstimator):  # type: ignore[misc]
    """Spread from a second regressor, which is fitted to the absolute out-of-fold residuals of the model.

    The spread is √(π/2) times the predicted absolute residual: the standard deviation if the target is normal.

    Parameters
    ----------
    regressor : regressor, optional
        By default small boosted trees with a Poisson loss, whose predictions are never negative. If the table holds
        text or dates, they are behind a `TableEncoder`; a regressor of your own gets the table as it is.

    Attributes
    ----------
    regressor_ : fitted regressor
        The model of the absolute residuals, in units of their mean, `unit_`.
    """

    needs_residuals = True

    def __init__(self, regressor: Any = None) -> None:
        self.regressor = regressor

    @property
    def takes(self) -> InputTags:
        """scikit-learn's tags of the features that the regressor accepts."""
        return get_tags(_BOOSTED_TREES if self.regressor is None else self.regressor).input_tags

    def learn(self, estimator: Any, X: Any, y: FloatArray, residuals: FloatArray) -> FloatArray:  # noqa: ARG002
        """Fit the regressor; return the spread on the training rows. Shape (n,)."""
        regressor = _default_regressor(X) if self.regressor is None else self.regressor
        check_regressor(regressor, "regressor")
        sizes = np.abs(residuals)
        self.unit_ = float(sizes.mean())  # tolerances of regressors are absolute, so their targets are about 1
        constant = self.unit_ == 0
        self.regressor_ = DummyRegressor().fit(X, sizes) if constant else fitted_clone(regressor, X, sizes / self.unit_)
        return self.spread(estimator, X)

    def spread(self, estimator: Any, X: Any) -> FloatArray:  # noqa: ARG002
        """Return the spread of new rows. Shape (n,)."""
        return np.maximum(_NORMAL * self.unit_ * np.asarray(self.regressor_.predict(X)), 0)


def _default_regressor(X: Any) -> Any:
    """Return boosted trees, behind an encoder if the table holds text or dates, which they do not read."""
    if text_columns(X, categories=False) or date_columns(X):
        return make_pipeline(TableEncoder(recognition=Recognition()), _BOOSTED_TREES)
    return _BOOSTED_TREES


class NeighborSpread(BaseEstimator):  # type: ignore[misc]
    """Spread from the nearest training rows, in standardised features; text and dates are encoded as numbers.

    A row is never its own neighbour: one training row with exactly the same features is taken for the row itself.

    Parameters
    ----------
    n_neighbors : int
        Number of neighbours; all other rows if there are fewer.
    of : {"residuals", "targets", "distance"}
        What the spread is computed from. "residuals": √(π/2) times the mean absolute out-of-fold residual of the
        neighbours. "targets": the standard deviation of their targets. "distance": their mean distance, scaled so that
        the mean spread on the training rows is √(π/2) times the mean absolute out-of-fold residual.
    n_jobs : int, optional
        Number of threads of the search.

    Attributes
    ----------
    index_ : NearestNeighbors
        The fitted search for neighbours.
    """

    def __init__(
        self,
        n_neighbors: int = 25,
        *,
        of: Literal["residuals", "targets", "distance"] = "residuals",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.of = of
        self.n_jobs = n_jobs

    takes = InputTags()
    encoder_: TableEncoder | None = None  # also in files that were saved without it

    @property
    def needs_residuals(self) -> bool:
        """Whether out-of-fold residuals are needed."""
        return self.of != "targets"

    def learn(self, estimator: Any, X: Any, y: FloatArray, residuals: FloatArray | None) -> FloatArray:  # noqa: ARG002
        """Index the rows; return the spread on them. Shape (n,)."""
        if self.of not in ("residuals", "targets", "distance"):
            raise ValueError(f'the option "of" must be "residuals", "targets" or "distance"; got {self.of!r}')
        check_count(self.n_neighbors, "n_neighbors")
        if len(y) < 2:
            raise ValueError(f"NeighborSpread needs at least 2 rows; got {len(y)} sample")
        has_others = text_columns(X) or date_columns(X)
        self.encoder_ = TableEncoder(recognition=Recognition()).fit(X) if has_others else None
        rows = self._numbers(X)
        self.mean_, self.scale_ = mean_and_scale(rows)
        self.rows_ = (rows - self.mean_) / self.scale_
        k = min(self.n_neighbors, len(y) - 1)
        self.index_ = NearestNeighbors(n_neighbors=k, n_jobs=self.n_jobs).fit(self.rows_)
        self.values_ = y if residuals is None else _NORMAL * np.abs(residuals)
        distances, neighbors = self.index_.kneighbors()  # without X: no training row is its own neighbour
        self.mean_distance_ = float(distances.mean())
        return self._spread(distances, neighbors)

    def spread(self, estimator: Any, X: Any) -> FloatArray:  # noqa: ARG002
        """Return the spread of new rows. Shape (n,)."""
        k, rows = self.index_.n_neighbors, (self._numbers(X) - self.mean_) / self.scale_
        distances, neighbors = self.index_.kneighbors(rows, n_neighbors=k + 1)
        excluded = self._excluded_neighbor(rows, distances, neighbors)
        kept = np.arange(k) + (np.arange(k) >= excluded[:, None])
        return self._spread(np.take_along_axis(distances, kept, 1), np.take_along_axis(neighbors, kept, 1))

    def _numbers(self, X: Any) -> FloatArray:
        """Return the features as numbers. Shape (n, features)."""
        return checked_features(self, X if self.encoder_ is None else self.encoder_.transform(X))

    def _excluded_neighbor(self, rows: FloatArray, distances: FloatArray, neighbors: IntArray) -> IntArray:
        """Return which of the k + 1 neighbours of each row is the row itself; the farthest one if none is."""
        excluded = np.full(len(rows), distances.shape[1] - 1)
        for column in reversed(range(distances.shape[1])):
            # The distance of equal rows can be above zero: with many features, distances are rounded.
            near = np.flatnonzero(distances[:, column] < _NEAR)
            equal = (self.rows_[neighbors[near, column]] == rows[near]).all(axis=1)
            excluded[near[equal]] = column
        return excluded

    def _spread(self, distances: FloatArray, neighbors: IntArray) -> FloatArray:
        """Return the spread from the distances and positions of the neighbours, both of shape (n, k)."""
        match self.of:
            case "distance":
                unit = self.mean_distance_
                relative = distances.mean(axis=1) / unit if unit else np.ones(len(neighbors))
                return np.asarray(self.values_.mean() * relative)
            case "targets":
                return np.asarray(self.values_[neighbors].std(axis=1))
            case _:
                return np.asarray(self.values_[neighbors].mean(axis=1))


class EnsembleSpread(BaseEstimator):  # type: ignore[misc]
    """Spread from the members of an ensemble: the standard deviation of their predictions.

    For ensembles whose prediction is the mean over their members, `estimators_`: random forests, extra trees, bagging,
    voting. The members disagree where training rows are few, which is not the same as noise; `ResidualSpread`
    estimates the noise.
    """

    needs_residuals = False

    def learn(self, estimator: Any, X: Any, y: FloatArray, residuals: None) -> FloatArray:  # noqa: ARG002
        """Check that the prediction is the mean over members; return the spread on the training rows. Shape (n,)."""
        rows = first_rows(X)
        prediction = np.asarray(estimator.predict(rows))
        members = list(_member_predictions(estimator, rows))
        rounding_margin = 1e-6 * np.ptp(members) + 1e-14 * np.abs(prediction).max() if members else 0.0
        if not members or np.abs(np.mean(members, axis=0) - prediction).max() > rounding_margin:
            raise TypeError(
                "EnsembleSpread needs an ensemble whose prediction is the mean of its estimators_, such as a random "
                f"forest; that of {type(estimator).__name__} is not"
            )
        return self.spread(estimator, X)

    def spread(self, estimator: Any, X: Any) -> FloatArray:
        """Return the spread of new rows. Shape (n,)."""
        mean = np.asarray(estimator.predict(X))
        total, count = np.zeros(len(mean)), 0
        for prediction in _member_predictions(estimator, X):  # one at a time, to save memory
            total += (prediction - mean) ** 2
            count += 1
        return np.sqrt(total / count)


class WithSpread(CloneMixin, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Any point regressor, with a spread and a distribution that are learned in addition.

    The center is the prediction of the regressor, fitted on all rows. A spread that is learned from residuals uses
    out-of-fold residuals, by cross-validation: residuals on the training rows themselves are too small, above all for
    flexible models. A frozen regressor is not fitted again, so pass rows to `fit` that it was not fitted on.

    The regressor and the source of the spread both get the table as it is. So the regressor can be a pipeline that
    encodes text; `ResidualSpread()` and `NeighborSpread` encode text and dates themselves.

    The predicted quantiles are center + spread · q, where q is a quantile of the residuals divided by their spreads.
    So the noise may be skewed; its shape is assumed to be the same in all rows. These residuals and spreads are both
    out of fold. The spread of a row is learned from the residuals of the other folds, merged to at most three parts. n
    residuals give quantiles from 1 / (n + 1) to n / (n + 1), and the tails beyond are normal. With fewer than 20 rows,
    and with sources of spread that need no residuals, the distribution is normal, with bounds center ± z · spread.

    Parameters
    ----------
    estimator : regressor
        The model of the center.
    spread : ResidualSpread, NeighborSpread or EnsembleSpread, optional
        How the spread is learned; `ResidualSpread()` by default. Your own class with the members of `SpreadSource`
        works too.
    cv : int or splitter
        Folds for the residuals: a number of shuffled folds, or a splitter of scikit-learn.
    floor : float
        The smallest spread, as a fraction of the median spread on the training rows.
    level : float
        Nominal coverage of the model's own bounds.
    random_state : int, RandomState or None
        Seed of the folds.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model of the center.
    spread_ : fitted SpreadSource
        The model of the spread.
    spread_floor_ : float
        The smallest spread, in units of the target.
    residual_quantiles_ : tuple of two ndarrays of shape (Q,), or None
        Probabilities, and the quantiles of the standardised residuals; None if the source needs no residuals.
    out_of_fold_prediction_ : Prediction of n rows, or None
        The predictions of the training rows: center and spread are out of fold. None if the source needs no residuals,
        with fewer than 20 rows, and with many rows. It is not part of saved files, pickles and deep copies.

    References
    ----------
    Papadopoulos, Vovk and Gammerman, "Regression conformal prediction with nearest neighbours", JAIR, 2011. Boström,
    Linusson, Löfström and Johansson, "Accelerating difficulty estimation for conformal regression forests", AMAI,
    2017.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> WithSpread(Ridge(), random_state=0).fit(sample.X, sample.y).predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper, 23 quantiles; level=0.9)
    """

    def __init__(
        self,
        estimator: Any,
        spread: Any = None,
        *,
        cv: Any = 5,
        floor: float = 1e-3,
        level: float = 0.9,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.spread = spread
        self.cv = cv
        self.floor = floor
        self.level = level
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, clusters: Any = None, times: Any = None, **fit_params: Any) -> Self:
        """Fit the regressor and its spread.

        Rows with the same entry in `clusters` are in the same fold. With `times`, residuals are those of the second
        half of the rows, predicted from the first half. A regressor whose `fit` has these arguments
        gets them, too. Further arguments are passed to the `fit` of the regressor.
        """
        check_regressor(self.estimator, "estimator")
        level_fraction(self.level)
        source = self._source()
        if not (is_number(self.floor) and 0 < self.floor < 1):
            raise ValueError(f"floor must lie strictly between 0 and 1; got {self.floor!r}")
        weights = fit_params.get("sample_weight")
        target = checked_target(self, X, y, clusters=clusters, times=times, sample_weight=weights)
        structure = RowStructure(clusters, times)
        params = {**structure.arguments_of(self.estimator), **routed_params(self, fit_params, "estimator")}
        fitted = fitted_copy(self.estimator, X, target, params)
        known = self._residuals(fitted, X, target, structure, params) if source.needs_residuals else None
        rows: Any = slice(None)
        if known is not None and (known[1] < 0).any():
            rows = np.flatnonzero(known[1] >= 0)
            X_known, y_known, known = take(X, rows), target[rows], (known[0][rows], known[1][rows])
        else:
            X_known, y_known = X, target
        spread = learn_spread(source, fitted, X_known, y_known, None if known is None else known[0])
        floor = relative_floor(spread, target, self.floor)
        quantiles, out_of_fold = None, None
        if known is not None:
            residuals, folds = known
            positions, spreads = out_of_fold_spreads(self._source, fitted, X_known, y_known, residuals, folds, floor)
            quantiles = residual_quantiles(residuals[positions] / spreads)
            if len(positions) == len(y_known):
                out_of_fold = self._prediction(y_known - residuals, spreads[np.argsort(positions)], quantiles)
        self.estimator_, self.spread_, self.spread_floor_, self.residual_quantiles_ = fitted, source, floor, quantiles
        self.out_of_fold_prediction_, self.choice_rows_ = out_of_fold, rows
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the regressor's own prediction. Shape (n,)."""
        check_ready(self, X)
        return np.asarray(self.estimator_.predict(X))

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread, bounds and, if they were learned, quantiles."""
        center = np.ravel(self.predict(X))
        spread = np.maximum(self.spread_.spread(self.estimator_, X), self.spread_floor_)
        learned = getattr(self, "residual_quantiles_", None)  # files of version 3 have none
        return self._prediction(center, spread, learned)

    def _prediction(
        self, center: FloatArray, spread: FloatArray, learned: tuple[FloatArray, FloatArray] | None
    ) -> Prediction:
        if learned is None:
            return Prediction(center, spread, level=self.level)
        probabilities, standardized = learned
        return Prediction.from_standardized(center, spread, standardized, probabilities, level=self.level)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing: everything goes to the `fit` of the regressor."""
        return fit_router(self, estimator=self.estimator)

    def _source(self) -> Any:
        """Return an unfitted copy of the source of the spread."""
        if self.spread is None:
            return ResidualSpread()
        if isinstance(self.spread, type) or not all(hasattr(self.spread, name) for name in ("learn", "spread")):
            raise TypeError(
                "spread must be an object such as ResidualSpread(...), NeighborSpread(...) or EnsembleSpread(); got "
                f"{got_text(self.spread)}"
            )
        return cloned(self.spread)

    def _residuals(
        self, fitted: Any, X: Any, y: FloatArray, structure: RowStructure, fit_params: Mapping[str, Any]
    ) -> tuple[FloatArray, IntArray]:
        """Return out-of-fold residuals and folds; the residuals of a frozen model are out of sample. Shape (n,)."""
        if is_frozen(self.estimator):
            return y - np.ravel(fitted.predict(X)), fixed_folds(len(y), _MAX_PARTS, structure.clusters)
        if isinstance(fitted, BestRegressor):  # it has out-of-fold predictions already
            predicted, folds = fitted.out_of_fold_
            return y - predicted, folds
        splitter, groups = structure.folds(self.cv, len(y), self.random_state)
        predicted, folds = out_of_fold_predictions(self.estimator, X, y, splitter, groups, fit_params)
        return y - predicted, folds

    def __getstate__(self) -> Any:
        not_kept = ("out_of_fold_prediction_", "choice_rows_")
        return {name: value for name, value in super().__getstate__().items() if name not in not_kept}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        tags = with_inputs_of(self.estimator, super().__sklearn_tags__())
        takes = getattr(ResidualSpread() if self.spread is None else self.spread, "takes", tags.input_tags)
        tags.input_tags.sparse &= takes.sparse
        tags.input_tags.allow_nan &= takes.allow_nan
        return tags


def _member_predictions(estimator: Any, X: Any) -> Iterator[FloatArray]:
    """Yield the predictions of each member of an ensemble, which may be the last step of a pipeline."""
    estimator, X = unwrap(estimator, X)
    members = getattr(estimator, "estimators_", ())
    features = getattr(estimator, "estimators_features_", [slice(None)] * len(members))
    for member, own in zip(members, features, strict=True):
        if not hasattr(member, "predict"):  # in boosting these are arrays of trees, which are added up
            return
        # A member has feature names only if the ensemble passed a frame to it.
        yield np.asarray(member.predict(X if hasattr(member, "feature_names_in_") else _without_names(X)[:, own]))


def _without_names(X: Any) -> Any:
    """Return features as an array or sparse matrix, without column names."""
    return X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
