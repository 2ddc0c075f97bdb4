"""The regressors that `AutoRegressor` combines, and the best of a few for small tables."""

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

from evencover.inputs.arrays import FloatArray
from evencover.models._outputs import mean_and_scale
from evencover.models.categories import FeatureLayout, OwnMeans, SomeColumns
from evencover.models.estimators import (
    CloneMixin,
    checked_features,
    checked_rows,
    checked_target,
    fitted_clone,
    layers,
    remember_features,
    structure_params,
)
from evencover.models.folds import RowStructure, out_of_fold_predictions
from evencover.models.linear import (
    PENALTIES,
    OrthogonalFunctions,
    RidgeRegressor,
    RidgeWithCategories,
    ScreenedColumns,
    SparseRegressor,
    linear_regressor,
)
from evencover.models.trends import BoostedTrend, LastValues

MAX_FEATURES_FOR_PRODUCTS = 30  # their products are then at most 495 columns; with more columns, the lasso is tried
WIDE = 300  # tables with more features are wide
_N_TREES = 15  # 25 had 1 % smaller errors and took 60 % longer
_INVERSE_WIDTH = 0.1  # of the kernel: 1 and 0.3 were worse, 0.2 and 0.05 about equal
_N_KERNELS = 100  # 50 had 1 % larger errors


class KernelFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features exp(−0.1 ‖x − x'‖² / d) of d standardised features, by `Nystroem`: with as many x' as there are rows.

    A linear model of at most `n_components` such features is a smooth function of x. `Nystroem` itself has a width and
    a number of components that do not depend on the table.

    Parameters
    ----------
    n_components : int
        The largest number of features.
    random_state : int
        Seed of the choice of the rows x'.
    """

    def __init__(self, n_components: int = _N_KERNELS, *, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Choose the rows x'."""
        rows = checked_features(self, X)
        n, d = rows.shape
        size, seed = min(self.n_components, n), self.random_state
        self.kernels_ = Nystroem(gamma=_INVERSE_WIDTH / d, n_components=size, random_state=seed).fit(rows)
        remember_features(self, X)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the features of rows. Shape (n, components)."""
        rows = checked_rows(self, X)
        return np.asarray(self.kernels_.transform(rows))


class BestRegressor(CloneMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The one of several regressors that has the smallest mean squared error in cross-validation, fitted on all rows.

    The comparison is a part of `fit`. So a conformal predictor of this model keeps its guarantee: the model does not
    use the rows that calibrate it, and in cross-conformal regression each fold makes its own choice.

    Parameters
    ----------
    candidates : sequence of pairs of a name and a regressor
        The regressors to compare; the first of equally good ones is taken.
    wide_candidates : sequence of pairs of a name and a regressor
        Regressors that are compared, too, if there are more than 30 features.
    forecast_candidates : sequence of pairs of a name and a regressor
        Regressors that are compared, too, if times are given; they get rows in the order of time.
    cv : int or splitter
        Folds, the same for all of them.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    best_ : str
        The name of the best one.
    errors_ : dict from str to float
        The root mean squared errors, out of fold.
    estimator_ : fitted regressor
        The best one.
    out_of_fold_ : tuple of two ndarrays of shape (n,)
        Its out-of-fold predictions, and the fold of each row: NaN and −1 for rows that are only trained on.
        `WithSpread` uses them instead of fitting again.
    """

    wide_candidates: Sequence[tuple[str, Any]] = ()  # of files that were saved without them
    forecast_candidates: Sequence[tuple[str, Any]] = ()

    def __init__(
        self,
        candidates: Sequence[tuple[str, Any]],
        *,
        wide_candidates: Sequence[tuple[str, Any]] = (),
        forecast_candidates: Sequence[tuple[str, Any]] = (),
        cv: Any = 5,
        random_state: int = 0,
    ) -> None:
        self.candidates = candidates
        self.wide_candidates = wide_candidates
        self.forecast_candidates = forecast_candidates
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, clusters: Any = None, times: Any = None) -> Self:
        """Compare the regressors and fit the best one on all rows.

        Rows with the same entry in `clusters` are in the same fold. With `times`, the regressors are compared on the
        second half of the rows, predicted from the first half.
        """
        rows, target = checked_features(self, X), checked_target(self, X, y)
        order = np.arange(len(target)) if times is None else np.argsort(times, kind="stable")
        structure, rows, ordered = RowStructure(clusters, times).part(order), rows[order], target[order]
        splitter, groups = structure.folds(self.cv, len(target), self.random_state)
        wide = self.wide_candidates if rows.shape[1] > MAX_FEATURES_FOR_PRODUCTS else ()
        models = dict([*self.candidates, *wide, *(() if times is None else self.forecast_candidates)])
        found = {
            name: out_of_fold_predictions(each, rows, ordered, splitter, groups, {}) for name, each in models.items()
        }
        errors = {name: float(np.sqrt(np.nanmean((ordered - each[0]) ** 2))) for name, each in found.items()}
        best = min(errors, key=lambda name: errors[name])
        self.estimator_ = fitted_clone(models[best], rows, ordered)
        places = np.argsort(order)
        self.best_, self.errors_ = best, errors
        self.out_of_fold_ = found[best][0][places], found[best][1][places]
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions of the best regressor. Shape (n,)."""
        rows = checked_rows(self, X)
        return np.asarray(self.estimator_.predict(rows))


def small_table_regressor(seed: int) -> BestRegressor:
    """Return the best of a linear model, a kernel model and extra trees, of wide tables also the lasso; not fitted."""
    kernels = make_pipeline(
        ScreenedColumns(wide=WIDE), StandardScaler(), KernelFeatures(random_state=seed), RidgeCV(PENALTIES)
    )
    candidates = (
        ("linear", linear_regressor()),
        ("kernel", kernels),
        ("trees", make_pipeline(ScreenedColumns(wide=WIDE), ExtraTreesRegressor(_N_TREES, random_state=seed))),
    )
    return BestRegressor(
        candidates,
        wide_candidates=(("sparse linear", SparseRegressor()),),
        forecast_candidates=(("last value", LastValues(changes=False)), ("change since last value", LastValues())),
        random_state=seed,
    )


def choices_text(models: Iterable[Any]) -> str:
    """Return which regressors were the best in the models of all folds, or in one model; empty if none was compared.

    For a stack of regressors, these are the regressors with their weights.

    Parameters
    ----------
    models : iterable of fitted regressors
        With or without a spread, a transform of the target or the encoder of a table.
    """
    names = [name for model in models if (name := _best_name(model)) is not None]
    counts = Counter(names).most_common()
    if len(names) < 2:
        return "".join(names)
    (first, n), *others = counts
    return ", ".join([f"{first} in {n} of {len(names)} folds", *(f"{name} in {n}" for name, n in others)])


def _best_name(model: Any) -> str | None:
    """Return the name of the best regressor in a fitted model, or the weights of a stack; None if it has neither."""
    for layer in layers(model):
        if isinstance(layer, BestRegressor):
            return layer.best_
        if hasattr(layer, "report_"):
            return str(layer.report_.summary)
    return None


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


EffortName: TypeAlias = Literal["fast", "normal", "best"]
_ROWS_AT_A_TIME = 10_000  # splines and products of features take a few kB of memory for each row
_BEYOND_RANGE = 0.5  # how far predictions may lie outside the range of the targets, as a share of it
_BEYOND_TREND = 5.0  # the same for linear models of rows in the order of time
_MAX_BOOSTED_CATEGORIES = 255  # of a column, for scikit-learn's boosting
_ROWS_PER_LEAF = 4000  # trees of larger tables have leaves of more rows, so that their size is bounded
_FORECASTS = ("trend and boosting", "last value", "change since last value")  # for rows in the order of time
_ROBUST = "robust boosting"  # for heavy tails
_FITTED_ON_ALL_ROWS = ("boosting", "slow boosting", "linear", *_FORECASTS)
_USE_ALL_COLUMNS = ("linear", "sparse linear")  # of a wide table
_LINEAR = (*_USE_ALL_COLUMNS, *_FORECASTS)
_LARGE_TABLE_SHARE = 20
_NETWORK_STEPS = 2000
_NETWORK_EPOCHS = (20, 200)
_NETWORK_BATCH = 64


@dataclass(frozen=True)
class Effort:
    """How much work `AutoRegressor` does: folds, regressors, and their sizes.

    Parameters
    ----------
    n_folds : int
        Folds of the out-of-fold predictions.
    members, distributions : tuple of str
        Names of the regressors, and of the distributions of their residuals.
    n_trees, n_distribution_trees : int
        Trees of the regressor, and of each forest of residuals.
    n_kernels : int
        Kernels of the smooth regressor.
    n_networks : int
        Networks; each is a regressor of its own.
    n_robust_trees : int
        Trees of the boosting of absolute errors; fewer ones learn faster.
    max_rows : int
        Rows that regressors other than boosting and the linear one are fitted on, and forests of residuals: this many
        random ones if there are more, or a twentieth of all rows, whichever is larger.
    """

    n_folds: int
    members: tuple[str, ...]
    distributions: tuple[str, ...]
    n_trees: int
    n_distribution_trees: int
    n_kernels: int = 500
    n_networks: int = 0
    n_robust_trees: int = 100
    max_rows: int = 6000

    def row_limit(self, n: int) -> int:
        """Return the largest number of rows, of n, for slow regressors and for forests of residuals."""
        return max(self.max_rows, n // _LARGE_TABLE_SHARE)


_QUICK = ("boosting", "trees", "linear", "splines", "products", "sparse linear", _ROBUST)
_ALL = (*_QUICK, "slow boosting", "kernels")
_DISTRIBUTIONS = ("spread times shape", "extra trees", "random forest")
EFFORTS: dict[str, Effort] = {
    "fast": Effort(
        3, _QUICK, _DISTRIBUTIONS[:2], n_trees=15, n_distribution_trees=20, n_robust_trees=50, max_rows=4000
    ),
    "normal": Effort(5, _ALL, _DISTRIBUTIONS, n_trees=50, n_distribution_trees=50, n_networks=1),
    "best": Effort(
        10,
        _ALL,
        _DISTRIBUTIONS,
        n_trees=300,
        n_distribution_trees=300,
        n_kernels=1500,
        n_networks=4,
        max_rows=50_000,
    ),
}


_FIT_COSTS = {"linear": 0.1, "splines": 0.05, "products": 0.05, "sparse linear": 0.3, "boosting": 1.0, "trees": 1.0}
_FIT_COSTS |= {"robust boosting": 1.0, "slow boosting": 2.2, "kernels": 2.0, "network": 2.0}
_FIT_COSTS |= {"spread times shape": 0.6, "extra trees": 1.2, "random forest": 1.2}


def fit_cost(name: str, effort: Effort) -> float:
    """Return about how long a fit takes, in units of one of boosting on the same rows; only for estimates of time.

    It was measured with 7 features and 2000 to 100 000 rows, and depends on them by a factor of two.

    Parameters
    ----------
    name : str
        The name of a regressor or of a distribution of residuals.
    effort : Effort
        Their sizes.
    """
    normal, sizes = EFFORTS["normal"], {"trees": "n_trees", "kernels": "n_kernels", "robust boosting": "n_robust_trees"}
    size = sizes.get(name, "n_distribution_trees" if name in ("extra trees", "random forest") else None)
    relative = getattr(effort, size) / getattr(normal, size) if size else 1.0
    return _FIT_COSTS.get(name.rstrip(" 0123456789"), 0.5) * float(relative)


def least_effort(used: Collection[str]) -> Effort:
    """Return less than the effort "fast": those of its regressors that another stack uses, and the linear one."""
    fast = EFFORTS["fast"]
    members = tuple(name for name in fast.members if name in {*used, "linear"} - {_ROBUST})
    return replace(fast, n_folds=2, members=members, distributions=fast.distributions[:1])


class StackMember(CloneMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that is safe to combine: fitted on a limited number of rows, with predictions of limited size.

    Predictions lie at most half the range of the training targets outside of it, or another share. A polynomial or a
    network can predict any number for a row unlike all training rows.

    Parameters
    ----------
    regressor : regressor
        Any regressor.
    max_rows : int, optional
        If there are more rows, it is fitted on this many random ones.
    beyond : float
        How far predictions may lie outside the range of the training targets, as a share of this range.
    random_state : int
        Seed of the choice of rows.
    """

    beyond: float = _BEYOND_RANGE  # of files that were saved without it

    def __init__(
        self, regressor: Any, *, max_rows: int | None = None, beyond: float = _BEYOND_RANGE, random_state: int = 0
    ) -> None:
        self.regressor = regressor
        self.max_rows = max_rows
        self.beyond = beyond
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, clusters: Any = None) -> Self:
        """Fit the regressor; its parts may have to know which rows belong together."""
        rows, target = checked_features(self, X), checked_target(self, X, y)
        chosen = random_rows(len(target), self.max_rows, self.random_state)
        params = (
            {} if clusters is None else structure_params(self.regressor, {"clusters": np.asarray(clusters)[chosen]})
        )
        with _interruptible(), config_context(enable_metadata_routing=False):
            self.regressor_ = fitted_clone(self.regressor, rows[chosen], target[chosen], params)
        margin = self.beyond * float(np.ptp(target))
        self.limits_ = float(target.min()) - margin, float(target.max()) + margin
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions, between the limits. Shape (n,)."""
        rows = checked_rows(self, X)
        blocks = (rows[i : i + _ROWS_AT_A_TIME] for i in range(0, len(rows), _ROWS_AT_A_TIME))
        predicted = np.concatenate([np.ravel(self.regressor_.predict(block)) for block in blocks])
        return np.asarray(np.clip(predicted, *self.limits_))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the training of a network: scikit-learn ends it early, and only warns.

    That a network has not converged is no warning here, because its number of steps is a setting.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("error", message="Training interrupted by user")
        try:
            yield
        except UserWarning as warning:
            raise KeyboardInterrupt from warning


def random_rows(n: int, limit: int | None, seed: int) -> Any:
    """Return positions of at most `limit` random rows, in their order; all rows if there are no more."""
    if limit is None or n <= limit:
        return slice(None)
    return np.sort(np.random.default_rng(seed).permutation(n)[:limit])


def stack_members(effort: Effort, n: int, layout: FeatureLayout, seed: int) -> dict[str, StackMember]:
    """Return the regressors of an effort by name, for a table of n rows with standardised features and target.

    Parameters
    ----------
    effort : Effort
        Which regressors, and their sizes.
    n : int
        Number of rows.
    layout : FeatureLayout
        The columns: numbers, and the means and codes of categories.
    seed : int
        Seed of all regressors.
    """
    unused = {_ROBUST, *unused_members(layout.n_features)}
    names = [name for name in effort.members if name not in unused]
    names += _FORECASTS if layout.ordered else ()
    members = {name: _regressor(name, effort, n, layout, seed) for name in names}
    for i in range(effort.n_networks):
        name = "network" if effort.n_networks == 1 else f"network {i + 1}"
        members[name] = _network(min(n, effort.row_limit(n)), seed + i)
    return _as_members(members, effort, n, layout, seed)


def robust_members(effort: Effort, n: int, layout: FeatureLayout, seed: int) -> dict[str, StackMember]:
    """Return those regressors of an effort by name that a stack gets only if its residuals have heavy tails."""
    members = {name: _regressor(name, effort, n, layout, seed) for name in effort.members if name == _ROBUST}
    return _as_members(members, effort, n, layout, seed)


def _as_members(
    regressors: Mapping[str, Any], effort: Effort, n: int, layout: FeatureLayout, seed: int
) -> dict[str, StackMember]:
    """Return regressors that get their columns and rows, and whose predictions are limited."""
    members = {name: _with_columns(name, each, layout) for name, each in regressors.items()}
    rows = {name: None if name in _FITTED_ON_ALL_ROWS else effort.row_limit(n) for name in members}
    beyond = {name: _BEYOND_TREND if layout.ordered and name in _LINEAR else _BEYOND_RANGE for name in members}
    return {
        name: StackMember(each, max_rows=rows[name], beyond=beyond[name], random_state=seed)
        for name, each in members.items()
    }


def unused_members(n_features: int) -> set[str]:
    """Return the regressors that are not fitted to a table with so many features."""
    if n_features <= MAX_FEATURES_FOR_PRODUCTS:
        return {"sparse linear"}
    return {"products"}


def _with_columns(name: str, regressor: Any, layout: FeatureLayout) -> Any:
    """Return a regressor that gets its columns: those that it can use and, of a wide table, those that matter."""
    if name in _FORECASTS:
        return regressor
    steps: list[Any] = []
    n_codes = 0
    if layout.n_codes and name == "linear":
        steps.append(SomeColumns(layout.numbers_and_codes))
    elif layout.n_codes:
        positions = layout.features_and_codes(_MAX_BOOSTED_CATEGORIES if "boosting" in name else 0)
        steps += [OwnMeans(layout.n_means, layout.n_codes), SomeColumns(positions)]
        n_codes = len(positions) - layout.n_features
    if layout.n_features > WIDE and name not in _USE_ALL_COLUMNS:
        steps.append(ScreenedColumns(wide=WIDE, kept=n_codes))
    return make_pipeline(*steps, regressor) if steps else regressor


def _boosted_codes(layout: FeatureLayout) -> list[int] | None:
    """Return the positions of codes among the columns that boosting gets; None if there are none."""
    first = layout.n_features if layout.n_features <= WIDE else ScreenedColumns().n_columns
    n_codes = len(layout.features_and_codes(_MAX_BOOSTED_CATEGORIES)) - layout.n_features
    return list(range(first, first + n_codes)) or None


def _regressor(name: str, effort: Effort, n: int, layout: FeatureLayout, seed: int) -> Any:
    match name:
        case "boosting":
            return HistGradientBoostingRegressor(categorical_features=_boosted_codes(layout), random_state=seed)
        case "robust boosting":
            return HistGradientBoostingRegressor(
                loss="absolute_error",
                learning_rate=10 / effort.n_robust_trees,
                max_iter=effort.n_robust_trees,
                max_leaf_nodes=15,
                categorical_features=_boosted_codes(layout),
                random_state=seed,
            )
        case "slow boosting":
            return HistGradientBoostingRegressor(
                learning_rate=0.05,
                max_iter=400,
                max_leaf_nodes=15,
                min_samples_leaf=5,
                max_features=0.7,
                early_stopping=False,
                categorical_features=_boosted_codes(layout),
                random_state=seed,
            )
        case "trees":
            leaf = 1 + min(n, effort.row_limit(n)) // _ROWS_PER_LEAF
            return ExtraTreesRegressor(effort.n_trees, min_samples_leaf=leaf, random_state=seed)
        case "linear":
            return RidgeWithCategories(layout.n_means) if layout.n_means else linear_regressor()
        case "sparse linear":
            return SparseRegressor()
        case "trend and boosting":
            parts = (_regressor(each, effort, n, layout, seed) for each in ("linear", "boosting"))
            return BoostedTrend(*(map(_with_columns, ("linear", "boosting"), parts, (layout, layout))))
        case "last value" | "change since last value":
            return LastValues(layout.n_numbers, layout.unit, changes=name != "last value")
        case "splines":
            extrapolation = "linear" if layout.ordered else "constant"  # the slope at the last row is noise, or a trend
            splines = SplineTransformer(6, knots="quantile", extrapolation=extrapolation)
            return make_pipeline(splines, RidgeRegressor(tuple(PENALTIES)))
        case "products":
            return make_pipeline(
                PolynomialFeatures(2, include_bias=False), StandardScaler(), RidgeRegressor(tuple(PENALTIES))
            )
        case _:
            return KernelRegressor(effort.n_kernels, random_state=seed)


def _network(n: int, seed: int) -> MLPRegressor:
    """Return a network that is trained for a number of steps that depends little on the number of rows."""
    batch = min(_NETWORK_BATCH, max(1, n // 2))
    epochs = int(np.clip(-(-_NETWORK_STEPS * batch // n), *_NETWORK_EPOCHS))
    return MLPRegressor(
        hidden_layer_sizes=(64, 64),
        alpha=0.01,
        learning_rate_init=3e-3,
        batch_size=batch,
        max_iter=epochs,
        random_state=seed,
    )
