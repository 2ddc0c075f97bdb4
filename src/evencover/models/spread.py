"""A spread for models that have none: learned from residuals, neighbours, or an ensemble's members."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, KFold, check_cv, cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline
from sklearn.utils import InputTags, Tags, check_array, get_tags
from sklearn.utils.metadata_routing import MetadataRouter

from evencover._internal.arrays import FloatArray, IntArray, check_count, is_count, is_number
from evencover._internal.frames import n_rows, take
from evencover.models._scaling import mean_and_scale, relative_floor
from evencover.models._validation import (
    check_ready,
    check_regressor,
    checked_target,
    fit_router,
    fitted_copy,
    remember_features,
)
from evencover.models.predict import is_frozen, through_steps
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction

_NORMAL = float(np.sqrt(np.pi / 2))  # a normal target's standard deviation by its mean absolute deviation
_NEAR = 1e-3  # of a standard deviation: within this a training row may be the row itself
_ROWS_FOR_CHECK = 100
_BOOSTED_TREES = HistGradientBoostingRegressor(loss="poisson", max_leaf_nodes=8, learning_rate=0.05, random_state=0)


class SpreadSource(Protocol):
    """What `WithSpread` asks for the spread: your own class with these members will do."""

    needs_residuals: bool

    def learn(self, estimator: Any, X: Any, y: FloatArray, residuals: FloatArray | None) -> FloatArray:
        """Learn from the fitted model and its training rows; return the spread on them. Shape (n,)."""

    def spread(self, estimator: Any, X: Any) -> FloatArray:
        """Return the spread of new rows, zero or more. Shape (n,)."""


class ResidualSpread(BaseEstimator):  # type: ignore[misc]
    """Spread from a second regressor, of the model's absolute residuals on rows it was not fitted on.

    The spread is √(π/2) times the predicted absolute residual: the standard deviation, if the target is normal.

    Parameters
    ----------
    regressor : regressor, optional
        By default small boosted trees with a Poisson loss, which are never negative.

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
        """What features the regressor takes."""
        return get_tags(_BOOSTED_TREES if self.regressor is None else self.regressor).input_tags

    def learn(self, estimator: Any, X: Any, y: FloatArray, residuals: FloatArray) -> FloatArray:  # noqa: ARG002
        """Fit the regressor; return the spread on the training rows. Shape (n,)."""
        regressor = _BOOSTED_TREES if self.regressor is None else self.regressor
        check_regressor(regressor, "regressor")
        sizes = np.abs(residuals)
        self.unit_ = float(sizes.mean())  # regressors have absolute tolerances, so they get sizes around 1
        self.regressor_ = clone(regressor).fit(X, sizes / self.unit_) if self.unit_ else DummyRegressor().fit(X, sizes)
        return self.spread(estimator, X)

    def spread(self, estimator: Any, X: Any) -> FloatArray:  # noqa: ARG002
        """Return the spread of new rows. Shape (n,)."""
        return np.maximum(_NORMAL * self.unit_ * np.asarray(self.regressor_.predict(X)), 0)


class NeighborSpread(BaseEstimator):  # type: ignore[misc]
    """Spread from the nearest training rows, in standardised features.

    A row is never its own neighbour: a training row at no distance at all is taken for the row itself, once.

    Parameters
    ----------
    n_neighbors : int
        How many; all the others where there are fewer.
    of : {"residuals", "targets", "distance"}
        What to look at. "residuals": √(π/2) times the mean absolute residual of the neighbours, on rows the model was
        not fitted on. "targets": the standard deviation of their targets. "distance": their mean distance, in units
        that make the mean spread on the training rows √(π/2) times the mean absolute residual.
    n_jobs : int, optional
        Number of threads of the search.

    Attributes
    ----------
    index_ : NearestNeighbors
        Finds the neighbours.
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

    @property
    def needs_residuals(self) -> bool:
        """Whether the model must be cross-fitted."""
        return self.of != "targets"

    def learn(self, estimator: Any, X: Any, y: FloatArray, residuals: FloatArray | None) -> FloatArray:  # noqa: ARG002
        """Index the rows; return the spread on them. Shape (n,)."""
        if self.of not in ("residuals", "targets", "distance"):
            raise ValueError(f'of must be "residuals", "targets" or "distance"; got {self.of!r}')
        check_count(self.n_neighbors, "n_neighbors")
        if len(y) < 2:
            raise ValueError(f"Neighbors needs at least 2 rows; got {len(y)} sample")
        rows = _numbers(X)
        self.mean_, self.scale_ = mean_and_scale(rows)
        self.rows_ = (rows - self.mean_) / self.scale_
        k = min(self.n_neighbors, len(y) - 1)
        self.index_ = NearestNeighbors(n_neighbors=k, n_jobs=self.n_jobs).fit(self.rows_)
        self.values_ = y if residuals is None else _NORMAL * np.abs(residuals)
        distances, places = self.index_.kneighbors()  # without rows: of the training rows, none its own neighbour
        self.mean_distance_ = float(distances.mean())
        return self._spread(distances, places)

    def spread(self, estimator: Any, X: Any) -> FloatArray:  # noqa: ARG002
        """Return the spread of new rows. Shape (n,)."""
        k, rows = self.index_.n_neighbors, (_numbers(X) - self.mean_) / self.scale_
        distances, places = self.index_.kneighbors(rows, n_neighbors=k + 1)
        itself = self._itself(rows, distances, places)
        chosen = np.arange(k) + (np.arange(k) >= itself[:, None])
        return self._spread(np.take_along_axis(distances, chosen, 1), np.take_along_axis(places, chosen, 1))

    def _itself(self, rows: FloatArray, distances: FloatArray, places: Any) -> IntArray:
        """Return which of its k + 1 neighbours is each row itself; the farthest, which is one too many, if none is."""
        itself = np.full(len(rows), distances.shape[1] - 1)
        for column in reversed(range(distances.shape[1])):
            # Equal rows need not be at distance zero exactly: among many features distances are rounded.
            near = np.flatnonzero(distances[:, column] < _NEAR)
            equal = (self.rows_[places[near, column]] == rows[near]).all(axis=1)
            itself[near[equal]] = column
        return itself

    def _spread(self, distances: FloatArray, places: Any) -> FloatArray:
        """Return the spread for neighbours at these distances and places, both of shape (n, k)."""
        match self.of:
            case "distance":
                unit = self.mean_distance_
                return np.asarray(
                    self.values_.mean() * (distances.mean(axis=1) / unit if unit else np.ones(len(places)))
                )
            case "targets":
                return np.asarray(self.values_[places].std(axis=1))
            case _:
                return np.asarray(self.values_[places].mean(axis=1))


class EnsembleSpread(BaseEstimator):  # type: ignore[misc]
    """Spread from the disagreement of an ensemble's members: the standard deviation of their predictions.

    For ensembles whose prediction is the mean of their members' (`estimators_`): random forests, extra trees, bagging,
    voting. Members disagree where they know little, which is not the same as noise; `ResidualSpread` measures noise.
    """

    needs_residuals = False

    def learn(self, estimator: Any, X: Any, y: FloatArray, residuals: None) -> FloatArray:  # noqa: ARG002
        """Check that the members' mean is the prediction; return the spread on the training rows. Shape (n,)."""
        some = take(X, np.arange(min(_ROWS_FOR_CHECK, n_rows(X))))
        predicted = np.asarray(estimator.predict(some))
        of_members = list(_member_predictions(estimator, some))
        room = 1e-6 * np.ptp(of_members) + 1e-14 * np.abs(predicted).max() if of_members else 0.0
        if not of_members or np.abs(np.mean(of_members, axis=0) - predicted).max() > room:
            raise TypeError(
                "Members needs an ensemble whose prediction is the mean of its estimators_, such as a random forest; "
                f"{type(estimator).__name__}'s is not"
            )
        return self.spread(estimator, X)

    def spread(self, estimator: Any, X: Any) -> FloatArray:
        """Return the spread of new rows. Shape (n,)."""
        mean = np.asarray(estimator.predict(X))
        total, count = np.zeros(len(mean)), 0
        for predicted in _member_predictions(estimator, X):  # one at a time: memory for one
            total += (predicted - mean) ** 2
            count += 1
        return np.sqrt(total / count)


class WithSpread(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Any point regressor, with a spread learned beside it.

    The center is the regressor's own prediction, fitted on all rows, and the bounds are center ± z spread. Where the
    spread rests on residuals, they are cross-fitted: each is of a row that the regressor it comes from has not seen.
    Residuals of the fitted rows themselves would be too small, most of all for flexible models. A frozen regressor is
    not fitted again, so give `fit` rows that are new to it.

    Parameters
    ----------
    estimator : regressor
        The model of the center.
    spread : ResidualSpread, Neighbors or Members, optional
        Where the spread comes from; `ResidualSpread()` by default. Your own class with the methods of `SpreadSource`
        will do.
    cv : int or splitter
        Folds for the residuals: a number of shuffled ones, or a splitter of scikit-learn's.
    floor : float
        Smallest spread, as a fraction of the median spread on the training rows.
    level : float
        Nominal coverage of its own bounds.
    random_state : int, RandomState or None
        Seed of the folds.

    Attributes
    ----------
    estimator_ : fitted regressor
        The model of the center.
    spread_ : fitted source
        The model of the spread.
    spread_floor_ : float
        The smallest spread, in the target's unit.

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
    Prediction(3 rows of center, spread, lower, upper; level=0.9)
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

    def fit(self, X: Any, y: Any, *, clusters: Any = None, **fit_params: Any) -> Self:
        """Fit the regressor and its spread.

        Rows with the same entry in `clusters` share a fold; further arguments go to the regressor.
        """
        check_regressor(self.estimator, "estimator")
        level_fraction(self.level)
        source = self._source()
        if not (is_number(self.floor) and 0 < self.floor < 1):
            raise ValueError(f"floor must lie strictly between 0 and 1; got {self.floor!r}")
        target = checked_target(self, X, y)
        fitted = fitted_copy(self.estimator, X, target, fit_params)
        residuals = self._residuals(fitted, X, target, clusters, fit_params) if source.needs_residuals else None
        spread = _learned(source, fitted, X, target, residuals)
        self.estimator_, self.spread_ = fitted, source
        self.spread_floor_ = relative_floor(spread, target, self.floor)
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the regressor's own prediction. Shape (n,)."""
        check_ready(self, X)
        return np.asarray(self.estimator_.predict(X))

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread and bounds."""
        center = np.ravel(self.predict(X))
        spread = np.maximum(self.spread_.spread(self.estimator_, X), self.spread_floor_)
        return Prediction(center, spread, level=self.level)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what scikit-learn's metadata routing may pass: everything to the regressor's fit."""
        return fit_router(self, estimator=self.estimator)

    def _source(self) -> Any:
        """Return a fresh copy of the source of the spread."""
        if self.spread is None:
            return ResidualSpread()
        if isinstance(self.spread, type) or not all(hasattr(self.spread, name) for name in ("learn", "spread")):
            raise TypeError(
                f"spread must be ResidualSpread(...), NeighborSpread(...) or EnsembleSpread(); got {self.spread!r}"
            )
        return clone(self.spread, safe=False)

    def _residuals(
        self, fitted: Any, X: Any, y: FloatArray, clusters: Any, fit_params: Mapping[str, Any]
    ) -> FloatArray:
        """Return the residuals on rows that the model they come from has not seen. Shape (n,)."""
        if is_frozen(self.estimator):
            return y - np.ravel(fitted.predict(X))
        folds = list(self._splitter(len(y), clusters).split(X, y, clusters))
        return y - np.ravel(cross_val_predict(self.estimator, X, y, cv=folds, params=dict(fit_params)))

    def _splitter(self, n: int, clusters: Any) -> Any:
        """Return what splits the rows for the residuals."""
        if not is_number(self.cv):
            return check_cv(self.cv)
        if not is_count(self.cv) or self.cv < 2:
            raise ValueError(f"cv must be at least 2 folds, or a splitter; got {self.cv!r}")
        if n < 2:
            raise ValueError(f"WithSpread needs at least 2 rows to cross-fit; got {n} sample")
        if clusters is not None:
            return GroupKFold(int(self.cv))
        return KFold(min(int(self.cv), n), shuffle=True, random_state=self.random_state)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        takes = getattr(ResidualSpread() if self.spread is None else self.spread, "takes", tags.input_tags)
        tags.input_tags.sparse &= takes.sparse
        tags.input_tags.allow_nan &= takes.allow_nan
        return tags


def _member_predictions(estimator: Any, X: Any) -> Iterator[FloatArray]:
    """Yield what each member of an ensemble predicts; a pipeline's members are those of its last step."""
    if isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    if isinstance(estimator, Pipeline):
        estimator, X = estimator[-1], through_steps(estimator, X)
    members = getattr(estimator, "estimators_", ())
    features = getattr(estimator, "estimators_features_", [slice(None)] * len(members))
    for member, own in zip(members, features, strict=True):
        if not hasattr(member, "predict"):  # boosting's are arrays of trees that add up
            return
        # Members know names only if the ensemble passed its frame on to them.
        yield np.asarray(member.predict(X if hasattr(member, "feature_names_in_") else _nameless(X)[:, own]))


def _learned(source: Any, fitted: Any, X: Any, y: FloatArray, residuals: FloatArray | None) -> FloatArray:
    """Return the spread on the training rows; add to errors about features what can be done."""
    remedies = {
        "could not convert": "in a Pipeline that prepares the features put WithSpread last",
        "Sparse data was passed": "ResidualSpread(regressor) with a regressor that takes sparse features will do",
    }
    try:
        spread: FloatArray = source.learn(fitted, X, y, residuals)
    except (TypeError, ValueError) as error:
        remedy = next((remedy for sign, remedy in remedies.items() if sign in str(error)), None)
        if remedy is None:
            raise
        raise type(error)(
            f"{source!r} cannot learn the spread from these features: {error} Remedy: {remedy}"
        ) from error
    return spread


def _numbers(X: Any) -> FloatArray:
    rows: FloatArray = check_array(X, dtype=np.float64, input_name="X")
    return rows


def _nameless(X: Any) -> Any:
    """Return features as an array, or as the sparse one they are."""
    return X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
