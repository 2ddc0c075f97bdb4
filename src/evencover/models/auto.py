"""`AutoRegressor`: a stack of regressors of different kinds, with a distribution of their residuals."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Self, TypeAlias

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtr
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.utils import check_random_state

from evencover.display.html import html_table, tag
from evencover.display.lines import joined_lines
from evencover.display.text import number_text, text_table
from evencover.groups import cluster_codes
from evencover.inputs import Finished, Progress
from evencover.inputs.arrays import FloatArray, IntArray, checked_vector, lookup
from evencover.intervals import Intervals
from evencover.metrics import interval_scores
from evencover.models._outputs import QuantilePlan, Scaling, estimable_probabilities, relative_floor
from evencover.models.categories import EncodedTable, FeatureLayout, category_means, codes_of, cross_fitted_means
from evencover.models.estimators import checked_features, checked_rows, checked_target, fitted_clone, remember_features
from evencover.models.folds import RowStructure, fixed_folds, out_of_fold_predictions
from evencover.models.linear import ScreenedColumns
from evencover.models.members import (
    EFFORTS,
    MAX_FEATURES_FOR_PRODUCTS,
    WIDE,
    Effort,
    EffortName,
    fit_cost,
    random_rows,
    robust_members,
    stack_members,
)
from evencover.predictions import Prediction
from evencover.quantiles import conformal_quantile

_SMALLEST_SIZE = 1e-3  # added to absolute residuals in units of their mean, because the gamma loss needs positive ones
_KNOTS = ndtr(np.linspace(-3, 3, 80))  # probabilities of the residuals at which forests know the cdf
_SPREAD_ROWS = 10  # the boosted spread gets so many times the rows of a forest, because boosting is faster
_LEAVES = 1000  # leaves of a tree in a forest of residuals, at most
_SMALLEST_LEAF = 5
_ROWS_AT_A_TIME = 10_000

Done = Callable[[], None]  # called after each fit
Fitted = Callable[[str], None]  # called after each fit with the name of what was fitted


def residual_distributions(
    effort: Effort, n: int, probabilities: tuple[float, ...], seed: int
) -> dict[str, "ResidualDistribution"]:
    """Return the distributions of an effort by name, for a table of n rows, not yet fitted."""
    trees = {"n_trees": effort.n_distribution_trees, "max_rows": effort.row_limit(n), "random_state": seed}
    every: dict[str, ResidualDistribution] = {
        "spread times shape": ScaledShape(
            probabilities, max_rows=_SPREAD_ROWS * effort.row_limit(n), random_state=seed
        ),
        "random forest": LeafDistribution(probabilities, splits="best", **trees),
        "extra trees": LeafDistribution(probabilities, splits="random", **trees),
    }
    return {name: every[name] for name in effort.distributions}


class ScaledShape(BaseEstimator):  # type: ignore[misc]
    """A spread for each row, times quantiles that all rows share: those of the residuals divided by their spreads.

    Boosted trees with a gamma loss predict the size of a residual.

    Parameters
    ----------
    probabilities : tuple of Q floats
        The probabilities of the quantiles.
    max_rows : int, optional
        If there are more rows, the trees are fitted on this many random ones.
    random_state : int
        Seed of the trees.
    """

    def __init__(self, probabilities: tuple[float, ...], *, max_rows: int | None = None, random_state: int = 0) -> None:
        self.probabilities = probabilities
        self.max_rows = max_rows
        self.random_state = random_state

    def fit_cross_fitted(self, features: FloatArray, residuals: FloatArray, parts: IntArray, done: Done) -> FloatArray:
        """Fit to all rows. Return the quantiles of each row that models fitted without its part predict; (n, Q)."""
        self.unit_ = float(np.abs(residuals).mean())
        spread = np.empty(len(residuals))
        for part in np.unique(parts):
            own = parts == part
            spread[own] = self._spread(self._fitted(features[~own], residuals[~own]), features[own])
            done()
        self.shape_ = np.quantile(residuals / spread, self.probabilities, method="weibull")
        self.regressor_ = self._fitted(features, residuals)
        done()
        return np.asarray(spread[:, None] * self.shape_)

    def quantiles(self, features: FloatArray) -> FloatArray:
        """Return the quantiles of new rows. Shape (n, Q)."""
        return np.asarray(self._spread(self.regressor_, features)[:, None] * self.shape_)

    def _fitted(self, features: FloatArray, residuals: FloatArray) -> HistGradientBoostingRegressor:
        chosen = random_rows(len(residuals), self.max_rows, self.random_state)
        sizes = np.abs(residuals[chosen]) / self._positive_unit + _SMALLEST_SIZE
        return HistGradientBoostingRegressor(
            loss="gamma",
            learning_rate=0.05,
            max_iter=100,
            max_leaf_nodes=15,
            min_samples_leaf=30,
            random_state=self.random_state,
        ).fit(features[chosen], sizes)

    def _spread(self, regressor: Any, features: FloatArray) -> FloatArray:
        """Return the spread of rows; trees with a gamma loss may predict less than the smallest size."""
        return np.asarray(self._positive_unit * np.maximum(regressor.predict(features), _SMALLEST_SIZE))

    @property
    def _positive_unit(self) -> float:
        return self.unit_ if self.unit_ > 0 else 1.0


class LeafDistribution(BaseEstimator):  # type: ignore[misc]
    """The residuals in the leaves of a forest whose trees split by the residual and by its size.

    The cdf of a row is the mean over the trees of the empirical cdf in its leaf, as in a quantile regression forest.
    Trees that split by the residual alone would look for differences of its mean, which is near zero everywhere; with
    the absolute residual as a second target they find differences of its spread. The cdf is known at 80 quantiles of
    all residuals, and linear in between.

    Parameters
    ----------
    probabilities : tuple of Q floats
        The probabilities of the quantiles.
    splits : {"best", "random"}
        Trees of a random forest, or extremely randomised trees.
    n_trees : int
        Number of trees.
    max_rows : int, optional
        If there are more rows, the trees are fitted on this many random ones.
    random_state : int
        Seed of the trees.
    """

    def __init__(
        self,
        probabilities: tuple[float, ...],
        *,
        splits: str = "best",
        n_trees: int = 100,
        max_rows: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.probabilities = probabilities
        self.splits = splits
        self.n_trees = n_trees
        self.max_rows = max_rows
        self.random_state = random_state

    def fit_cross_fitted(self, features: FloatArray, residuals: FloatArray, parts: IntArray, done: Done) -> FloatArray:
        """Fit to all rows. Return the quantiles of each row that models fitted without its part predict; (n, Q)."""
        result = np.empty((len(residuals), len(self.probabilities)))
        for part in np.unique(parts):
            own = parts == part
            result[own] = self._fit(features[~own], residuals[~own]).quantiles(features[own])
            done()
        self._fit(features, residuals)
        done()
        return result

    def _fit(self, features: FloatArray, residuals: FloatArray) -> "LeafDistribution":
        """Grow the trees, and remember the leaf of each row in each tree."""
        chosen = random_rows(len(residuals), self.max_rows, self.random_state)
        features, residuals = features[chosen], residuals[chosen]
        leaf = max(_SMALLEST_LEAF, len(residuals) // _LEAVES)
        settings = {"n_estimators": self.n_trees, "min_samples_leaf": leaf, "random_state": self.random_state}
        if self.splits == "best":
            self.forest_ = RandomForestRegressor(max_features=0.6, max_samples=-(-len(residuals) // 2), **settings)
        else:
            self.forest_ = ExtraTreesRegressor(**settings)
        sizes = np.abs(residuals)
        scales = [float(each.std()) or 1.0 for each in (residuals, sizes)]
        self.forest_.fit(features, np.column_stack([residuals, sizes]) / scales)
        self.knots_ = np.unique(np.quantile(residuals, _KNOTS))
        self.bins_ = np.searchsorted(self.knots_, residuals)  # the residual is at most the knot of its bin
        self.leaves_ = self._leaves(features).astype(np.int32)
        self.__dict__.pop("_tables", None)
        return self

    def quantiles(self, features: FloatArray) -> FloatArray:
        """Return the quantiles of new rows. Shape (n, Q)."""
        blocks = (features[i : i + _ROWS_AT_A_TIME] for i in range(0, len(features), _ROWS_AT_A_TIME))
        return np.concatenate([self._inverse(self._cdf(block)) for block in blocks])

    def _cdf(self, features: FloatArray) -> FloatArray:
        """Return the cdf of rows at the knots. Shape (n, knots)."""
        if not hasattr(self, "_tables"):
            self._tables = [self._leaf_cdf(leaves) for leaves in self.leaves_.T]
        leaves = self._leaves(features)
        total = np.zeros((len(features), len(self.knots_)), dtype=np.float32)
        for own, table in zip(leaves.T, self._tables, strict=True):
            total += table[own]
        return np.asarray(total / len(self._tables))

    def _leaves(self, features: FloatArray) -> IntArray:
        """Return the leaf of each row in each tree. Shape (n, trees).

        The forest's own `apply` starts a task for each tree, which takes most of the time if there are few rows.
        """
        rows = np.ascontiguousarray(features, dtype=np.float32)
        return np.column_stack([tree.tree_.apply(rows) for tree in self.forest_.estimators_])

    def _leaf_cdf(self, leaves: IntArray) -> FloatArray:
        """Return the cdf in each leaf of a tree at the knots; rows of nodes that are no leaves are zero."""
        shape = int(leaves.max()) + 1, len(self.knots_) + 1
        counts = np.bincount(leaves * shape[1] + self.bins_, minlength=shape[0] * shape[1]).reshape(shape)
        sizes = np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return np.asarray(counts[:, :-1].cumsum(axis=1) / sizes, dtype=np.float32)

    def _inverse(self, cdf: FloatArray) -> FloatArray:
        """Return the quantiles of rows from their cdf at the knots. Shape (n, Q)."""
        if len(self.knots_) == 1:
            return np.full((len(cdf), len(self.probabilities)), self.knots_[0])
        columns = []
        for p in self.probabilities:
            after = np.clip(np.count_nonzero(cdf < p, axis=1), 1, len(self.knots_) - 1)[:, None]
            low, high = (np.take_along_axis(cdf, each, axis=1)[:, 0] for each in (after - 1, after))
            share = np.clip((p - low) / np.maximum(high - low, 1e-9), 0, 1)
            start, end = self.knots_[after[:, 0] - 1], self.knots_[after[:, 0]]
            columns.append(start + share * (end - start))
        return np.column_stack(columns)

    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "_tables"}


ResidualDistribution: TypeAlias = ScaledShape | LeafDistribution


@dataclass(frozen=True)
class MemberResult:
    """A regressor of the stack: its root mean squared error out of fold, in the unit of the target, and its weight."""

    name: str
    error: float
    weight: float


@dataclass(frozen=True)
class DistributionResult:
    """A distribution of the residuals: its interval score out of fold after calibration, and its weight."""

    name: str
    interval_score: float
    weight: float


@dataclass(frozen=True)
class StackReport:
    """The regressors and distributions that `AutoRegressor` compared, and their weights. `print` shows two tables.

    Parameters
    ----------
    members : tuple of MemberResult
        The regressors, in the order in which they were fitted.
    error : float
        The root mean squared error of their combination, out of fold.
    distributions : tuple of DistributionResult
        The distributions of the residuals.
    interval_score : float
        The interval score of their combination, out of fold after calibration.
    level : float
        The level of the interval scores.
    notes : tuple of str
        Sentences on what differs from the usual procedure, such as a choice on some of the rows.
    """

    members: tuple[MemberResult, ...]
    error: float
    distributions: tuple[DistributionResult, ...]
    interval_score: float
    level: float
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The regressors with weight, the largest first: slow boosting 0.61, network 0.25, trees 0.14."""
        used = sorted((each for each in self.members if each.weight), key=lambda each: -each.weight)
        return ", ".join(f"{each.name} {each.weight:.2f}" for each in used) if len(used) > 1 else used[0].name

    def __str__(self) -> str:
        parts = [*(text_table(header, rows) for header, rows in self.tables()), *self.notes]
        return joined_lines([line for part in parts for line in (part, "")][:-1])

    def _repr_html_(self) -> str:
        tables = (html_table(header, rows) for header, rows in self.tables())
        return tag("div", *tables, *(tag("p", note) for note in self.notes))

    def tables(self) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        """Return the header and the rows of both tables."""
        members = [_cells(each.name, each.error, each.weight) for each in self.members]
        distributions = [_cells(each.name, each.interval_score, each.weight) for each in self.distributions]
        score = f"interval score at level {self.level:g}"
        return [
            (("regressor", "error", "weight"), [*members, _cells("combined", self.error)]),
            (("distribution", score, "weight"), [*distributions, _cells("combined", self.interval_score)]),
        ]


def _cells(name: str, value: float, weight: float | None = None) -> tuple[str, ...]:
    return name, number_text(value), "" if weight is None else f"{weight:.2f}"


_SMALLEST_WEIGHT = 0.02  # regressors with less weight are left out
_MAX_STEPS = 1000  # of the least squares; the default is three for each regressor
N_PARTS = 3  # of the rows, for cross-fitted distributions: each part costs one more fit
_LARGEST_KURTOSIS = 10.0  # of residuals without heavy tails
_LARGEST_SCORE = 1.2  # interval score of a distribution with weight, relative to the best one
_SMALLEST_WIDTH = 1e-3  # of bounds, as a fraction of the median width


@dataclass(frozen=True, eq=False)
class Stack:
    """Fitted regressors with weights of sum 1, and what the distributions of residuals get to know of a row.

    Parameters
    ----------
    members : mapping from str to fitted regressor
        The regressors.
    weights : ndarray of shape (members,)
        Their weights.
    shown : ndarray of int, optional
        The columns that the distributions get: not codes, and only some of a wide table. All by default, as in files
        that were saved without it.
    sizes : tuple of ndarrays
        For each column of codes, the mean absolute residual of each category, and of an unseen one.
    """

    members: Mapping[str, Any]
    weights: FloatArray
    shown: IntArray | None = None
    sizes: tuple[FloatArray, ...] = ()

    def described(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the center of rows, and their features with further columns: center, disagreement, mean residuals."""
        predictions = np.column_stack([each.predict(rows) for each in self.members.values()])
        center, features = described(rows if self.shown is None else rows[:, self.shown], predictions, self.weights)
        if not self.sizes:
            return center, features
        codes = rows[:, rows.shape[1] - len(self.sizes) :].astype(np.intp)
        return center, np.column_stack([features, *(each[own] for own, each in zip(codes.T, self.sizes, strict=True))])


@dataclass(frozen=True, eq=False)
class Mixture:
    """Fitted distributions of residuals with weights of sum 1; their quantiles are averaged."""

    distributions: tuple[ResidualDistribution, ...]
    weights: FloatArray

    def quantiles(self, features: FloatArray) -> FloatArray:
        """Return the quantiles of the residuals of new rows. Shape (n, Q)."""
        return weighted_sum(self.weights, [each.quantiles(features) for each in self.distributions])


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What regressors predict for n rows that they were not fitted on.

    Parameters
    ----------
    members : mapping from str to regressor
        The regressors by name, not fitted.
    predictions : ndarray of shape (n, members)
        The predictions of each regressor.
    folds : ndarray of shape (n,)
        The fold of each row.
    errors : ndarray of shape (members,)
        Root mean squared errors.
    weights : ndarray of shape (members,)
        Weights of sum 1; zero for regressors that are left out.
    """

    members: Mapping[str, Any]
    predictions: FloatArray
    folds: IntArray
    errors: FloatArray
    weights: FloatArray

    def results(self, unit: float) -> tuple[MemberResult, ...]:
        """Return the result of each regressor, with errors in the unit of the target."""
        return tuple(map(MemberResult, self.members, (unit * self.errors).tolist(), self.weights.tolist()))


def described(rows: FloatArray, predictions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean of predictions of shape (n, members), and the features with two more columns.

    These are the mean, and the disagreement: the weighted standard deviation of the predictions.
    """
    center = predictions @ weights
    disagreement = np.sqrt((predictions - center[:, None]) ** 2 @ weights)
    return center, np.column_stack([rows, center, disagreement])


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows that a stack is fitted on, standardised, and in the order of time if they have times.

    Parameters
    ----------
    features : ndarray of shape (n, columns)
        Numbers, means of categories, and codes.
    target : ndarray of shape (n,)
        Standardised targets.
    positions : ndarray of int, shape (n,)
        Where the rows were in the given table.
    structure : RowStructure
        Which rows belong together, or their times.
    layout : FeatureLayout
        What the columns are.
    scaling : Scaling
        From given to standardised values.
    """

    features: FloatArray
    target: FloatArray
    positions: IntArray
    structure: RowStructure
    layout: FeatureLayout
    scaling: Scaling

    @classmethod
    def of(cls, X: Any, rows: FloatArray, target: FloatArray, clusters: Any, times: Any) -> "TrainingRows":
        """Return the rows of a table X, which `rows` are as numbers."""
        n, codes = len(target), codes_of(X, len(rows))
        clusters = None if clusters is None else cluster_codes(clusters, n)
        times = None if times is None else checked_vector(times, "times", length=n, matched="X", exact=False)
        scaling = Scaling.of(rows, target)
        layout = FeatureLayout(
            rows.shape[1],
            tuple(int(each.max(initial=0)) + 1 for each in codes.T),
            X.means.shape[1] if isinstance(X, EncodedTable) else 0,
            ordered=times is not None,
        )
        features, structure = _standardized(scaling, rows, codes), RowStructure(clusters, times)
        whole = cls(features, scaling.target(target), np.arange(n), structure, layout, scaling)
        return whole if times is None else whole.part(np.argsort(times, kind="stable"))

    def part(self, rows: IntArray) -> "TrainingRows":
        """Return some of the rows."""
        return TrainingRows(
            self.features[rows],
            self.target[rows],
            self.positions[rows],
            self.structure.part(rows),
            self.layout,
            self.scaling,
        )

    @property
    def numbers(self) -> FloatArray:
        """The features without codes."""
        return self.features[:, : self.layout.n_features]

    @property
    def fit_params(self) -> dict[str, Any]:
        """The arguments of the `fit` of members: the clusters, if there are any."""
        return {} if self.structure.clusters is None else {"clusters": self.structure.clusters}

    def category_sizes(self, residuals: FloatArray, folds: IntArray) -> tuple[tuple[FloatArray, ...], list[FloatArray]]:
        """Return the mean absolute residuals of the categories of each column, and those of each row out of fold."""
        codes = self.features[:, self.layout.n_features :].astype(np.intp)
        sizes, pairs = np.abs(residuals), list(zip(codes.T, self.layout.n_categories, strict=True))
        means = tuple(category_means(own, sizes, n) for own, n in pairs)
        return means, [cross_fitted_means(own, sizes, n, folds) for own, n in pairs]


def out_of_fold(
    members: Mapping[str, Any], robust: Mapping[str, Any], data: TrainingRows, splitter: Any, groups: Any, done: Fitted
) -> tuple[OutOfFold, TrainingRows]:
    """Return the out-of-fold predictions of regressors with the weights of their combination, and the predicted rows.

    These are all rows or, in the order of time, the second half, which are put into three parts at random. The robust
    regressors take part if the combination of the others leaves residuals with heavy tails.
    """

    def predicted(name: str, member: Any) -> tuple[FloatArray, IntArray]:
        given = data.features, data.target, splitter, groups, data.fit_params
        return out_of_fold_predictions(member, *given, partial(done, name))

    found = {name: predicted(name, each) for name, each in members.items()}
    folds = next(iter(found.values()))[1]
    known = np.flatnonzero(folds >= 0)
    target = data.target[known]

    def combined() -> tuple[FloatArray, FloatArray]:
        predictions = np.column_stack([each[known] for each, _ in found.values()])
        return predictions, stacking_weights(predictions, target)

    predictions, weights = combined()
    if has_heavy_tails(target - predictions @ weights):
        found.update((name, predicted(name, each)) for name, each in robust.items())
        predictions, weights = combined()
    if len(known) < len(folds):
        data, folds = data.part(known), fixed_folds(len(known), N_PARTS)
    errors = np.sqrt(np.mean((predictions - target[:, None]) ** 2, axis=0))
    every = {**members, **robust}
    return OutOfFold({name: every[name] for name in found}, predictions, folds, errors, weights), data


def has_heavy_tails(residuals: FloatArray) -> bool:
    """Return whether the kurtosis of residuals, E r⁴ / (E r²)², is above 10; it is 3 for normal ones."""
    squares = residuals**2
    return bool(np.mean(squares**2) > _LARGEST_KURTOSIS * np.mean(squares) ** 2)


def stacking_weights(predictions: FloatArray, y: FloatArray) -> FloatArray:
    """Return weights of sum 1, none negative, that minimise the squared error of the weighted mean prediction.

    With errors E of shape (n, members), they minimise ‖E w‖ among all w of sum 1. Non-negative least squares minimises
    ‖E w‖² + c² (1 − sum(w))², without the condition. For each value of the sum, the best direction of w is the same, so
    its minimum divided by its sum is the answer for any c > 0. Regressors with a small weight are left out.
    """
    errors = predictions - y[:, None]
    c = float(np.linalg.norm(errors)) or 1.0
    rows = np.vstack([errors, np.full(errors.shape[1], c)])
    weights, _ = nnls(rows, np.append(np.zeros(len(y)), c), maxiter=_MAX_STEPS)
    weights = np.where(weights < _SMALLEST_WEIGHT * weights.sum(), 0.0, weights)
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class ChosenMixture:
    """A fitted mixture, and the out-of-fold results that it was chosen by.

    Parameters
    ----------
    mixture : Mixture
        The distributions, fitted to all rows, with their weights.
    quantiles : ndarray of shape (n, Q)
        The quantiles of the mixture, out of fold.
    interval_scores : ndarray of shape (distributions,)
        The interval score of each distribution alone, out of fold after calibration.
    weights : ndarray of shape (distributions,)
        The weights of all distributions.
    interval_score : float
        The interval score of the mixture.
    """

    mixture: Mixture
    quantiles: FloatArray
    interval_scores: FloatArray
    weights: FloatArray
    interval_score: float

    def results(self, names: Iterable[str], unit: float) -> tuple[DistributionResult, ...]:
        """Return the result of each distribution, with interval scores in the unit of the target."""
        return tuple(map(DistributionResult, names, (unit * self.interval_scores).tolist(), self.weights.tolist()))


def choose_mixture(
    distributions: Mapping[str, ResidualDistribution],
    features: FloatArray,
    residuals: FloatArray,
    folds: IntArray,
    bounds: Sequence[int],
    level: float,
    done: Fitted,
) -> ChosenMixture:
    """Fit the distributions, and weight them by their interval scores out of fold after calibration.

    Parameters
    ----------
    distributions : mapping from str to ResidualDistribution
        The distributions, not yet fitted.
    features, residuals : ndarrays of n rows
        Features with center and disagreement, and residuals, both out of fold.
    folds : ndarray of shape (n,)
        The fold of each row.
    bounds : two ints
        The columns of the quantiles that are bounds of the level.
    level : float
        Nominal coverage of the comparison.
    done : callable
        Called after each fit with the name of the distribution.
    """
    parts = folds % N_PARTS
    found = [
        each.fit_cross_fitted(features, residuals, parts, partial(done, name)) for name, each in distributions.items()
    ]

    def score_of(weights: FloatArray) -> float:
        lower, upper = weighted_sum(weights, [each[:, list(bounds)] for each in found]).T
        return conformal_interval_score(lower, upper, residuals, level)

    scores = np.array([score_of(each) for each in np.eye(len(found))])
    weights = cautious_weights(scores, score_of)
    used = [each for each, weight in zip(distributions.values(), weights, strict=True) if weight]
    mixture = Mixture(tuple(used), weights[weights > 0])
    return ChosenMixture(mixture, weighted_sum(weights, found), scores, weights, score_of(weights))


def cautious_weights(scores: FloatArray, score_of: Callable[[FloatArray], float]) -> FloatArray:
    """Return weights of distributions, halfway between equal weights of the best subset and equal weights of all.

    The subset that is the best on the training rows may be so by chance. With half of the weight for all of them, a bad
    choice costs half as much. Distributions that are much worse than the best one are left out of both.

    Parameters
    ----------
    scores : ndarray of shape (distributions,)
        The interval score of each distribution alone.
    score_of : callable
        From weights to the interval score of the mixture.
    """
    good = scores <= _LARGEST_SCORE * scores.min()
    subsets = (np.array(each) for each in product((1.0, 0.0), repeat=len(scores)))
    candidates = [each / each.sum() for each in subsets if each.any() and good[each > 0].all()]
    return np.asarray((min(candidates, key=score_of) + good / good.sum()) / 2)


def conformal_interval_score(lower: FloatArray, upper: FloatArray, y: FloatArray, level: float) -> float:
    """Return the mean interval score after calibration, which moves all bounds by the same share of their width."""
    width = upper - lower
    width = np.maximum(width, max(_SMALLEST_WIDTH * float(np.median(width)), np.finfo(float).tiny))
    scores = np.maximum(lower - y, y - upper) / width
    threshold = float(conformal_quantile(scores, level))
    moved = width * (threshold if np.isfinite(threshold) else scores.max())
    return float(interval_scores(y, Intervals(lower - moved, upper + moved), level).mean())


def weighted_sum(weights: FloatArray, arrays: list[FloatArray]) -> FloatArray:
    """Return the sum of arrays of the same shape, each times its weight."""
    total = np.zeros_like(arrays[0])
    for weight, array in zip(weights, arrays, strict=True):
        total += weight * array
    return total


_MIN_ROWS = 6  # so that each of three folds leaves four rows to fit
_MAX_CHOICE_ROWS = 1_000_000
_OUTERMOST = 1e30  # standard deviations
_SEEDS = 2**31 - 1000  # those of scikit-learn are below 2**32; some numbers are added


class AutoRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regressors of different kinds combined, and the distribution of what they miss.

    1. **Center.** Boosted trees, extra trees, linear models of the features, of splines and of products, a kernel model
       and a network are fitted on folds. Their weights minimise the squared error of the combined out-of-fold
       predictions; none is negative, and their sum is 1 (stacking). If the residuals have heavy tails (a kurtosis
       above 10), boosted trees that minimise absolute errors take part, too: a few extreme targets move them little.
    2. **Distribution.** Three models predict quantiles of the residuals from the features, the center and the
       disagreement of the regressors, which is large where training rows are few. One is a spread times a common shape,
       two are forests (one with "fast"). Each subset of them is evaluated by its mean quantiles: by the interval score
       of the intervals that split conformal prediction makes of them, out of fold. The weights are halfway between
       equal weights for the best subset and equal weights for all, because the best one on the training rows may be so
       by chance. A distribution whose interval score is more than a fifth above the smallest has no weight.

    All of this uses training rows only, so a conformal predictor of this model keeps its exact guarantee. Features are
    numbers; for text, dates and missing values use a pipeline with `TableEncoder`. Of its columns of many categories,
    all regressors get the mean target of each category. Boosted trees also split sets of categories if there are at
    most 255, and the linear model has a coefficient for each category instead of the mean. The distributions of
    residuals get the mean absolute residual of each category.

    With more than 30 features, the lasso takes the place of products. With more than 300, all regressors but the
    linear ones, and the distributions, get 100 of them, which are chosen on their own training rows.

    Parameters
    ----------
    effort : {"fast", "normal", "best"} or Effort
        How much is fitted. In units of one fit of scikit-learn's `HistGradientBoostingRegressor` on the same rows,
        "fast" takes about 10 and at most 15, "normal" 50 to 100 and at most 130, and "best" has no limit.
    level : float
        Nominal coverage of the model's own bounds; the distributions are compared at this level.
    random_state : int, RandomState or None
        Seed of the folds and of all regressors.

    Attributes
    ----------
    report_ : StackReport
        The regressors and distributions with their out-of-fold errors and weights; ``print(model.report_)``.
    out_of_fold_prediction_ : Prediction of n rows
        What models that were fitted without a row predict for it: for all training rows, in their order, or for those
        in `choice_rows_`. `recommend` uses it instead of fitting again. It is not part of saved files, pickles and
        copies.
    choice_rows_ : slice or ndarray
        The rows that were used for the choice: all of them, or positions of a million if there are more.
    stack_ : Stack
        The regressors with weight (`members`), fitted on all rows, and their `weights`.
    mixture_ : Mixture
        The distributions of the residuals, and their weights.

    References
    ----------
    Breiman, "Stacked regressions", Machine Learning, 1996. Meinshausen, "Quantile regression forests", Journal of
    Machine Learning Research, 2006.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(300, seed=0)
    >>> model = AutoRegressor(effort="fast", random_state=0).fit(sample.X, sample.y)
    >>> model.predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper, 23 quantiles; level=0.9)
    """

    def __init__(self, *, effort: EffortName | Effort = "normal", level: float = 0.9, random_state: Any = None) -> None:
        self.effort = effort
        self.level = level
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, clusters: Any = None, times: Any = None, progress: Progress | None = None) -> Self:
        """Fit the regressors and the distributions.

        Parameters
        ----------
        X : array-like of shape (n, features)
            Features.
        y : array-like of shape (n,)
            Targets.
        clusters : array-like of shape (n,), optional
            Rows with the same entry are in the same fold.
        times : array-like of shape (n,), optional
            The times of the rows, as numbers, if the model will predict later rows. The regressors are then compared
            on the second half of the rows, predicted from the first half; and there are three more:
            boosted trees of what a linear model leaves, the last value (of a unit, if there are categories), and the
            last value with a linear function of what has changed since then.
        progress : callable, optional
            Called with the number of finished fits and the number of all fits.
        """
        effort = self.effort if isinstance(self.effort, Effort) else lookup(self.effort, EFFORTS, "effort")
        plan = QuantilePlan.of(self.level, 1.0, (), "mean")
        target, rows = checked_target(self, X, y), checked_features(self, X)
        if len(target) < _MIN_ROWS:
            samples = "1 sample" if len(target) == 1 else f"{len(target)} samples"
            raise ValueError(f"AutoRegressor needs at least {_MIN_ROWS} rows; got {samples}")
        plan = replace(plan, grid=estimable_probabilities(len(target)))
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        data = TrainingRows.of(X, rows, target, clusters, times)
        chosen = random_rows(len(target), _MAX_CHOICE_ROWS, seed)
        some = data if isinstance(chosen, slice) else data.part(chosen)
        splitter, groups = some.structure.folds(effort.n_folds, len(some.target), seed)
        recipe = effort, len(target), data.layout, seed
        members, robust = stack_members(*recipe), robust_members(*recipe)
        distributions = residual_distributions(effort, len(target), plan.probabilities, seed)
        n_fits = len({**members, **robust}) * (splitter.get_n_splits() + 1) + len(distributions) * (N_PARTS + 1)
        report_progress = progress or (lambda *_: None)
        tested = [*members, *robust]
        planned = [*np.repeat(tested, splitter.get_n_splits()), *np.repeat([*distributions], N_PARTS + 1), *tested]
        done = _CountedFits(report_progress, n_fits, effort, planned)

        tried, some = out_of_fold(members, robust, some, splitter, groups, done)
        shown = ScreenedColumns(wide=WIDE).fit(some.numbers, some.target).columns_
        center, known = described(some.features[:, shown], tried.predictions, tried.weights)
        residuals = some.target - center
        sizes, out_of_fold_sizes = some.category_sizes(residuals, tried.folds)
        known = np.column_stack([known, *out_of_fold_sizes])
        bounds = [plan.probabilities.index(bound) for bound in plan.bounds]
        mixture = choose_mixture(distributions, known, residuals, tried.folds, bounds, plan.own_level, done)
        stack = Stack(*_fitted_stack(tried, data, done), shown, sizes)
        report_progress(n_fits, n_fits)  # regressors without weight were not fitted on all rows

        self.stack_, self.mixture_, self.scaling_, self.plan_ = stack, mixture.mixture, data.scaling, plan
        unit = data.scaling.y_scale
        self.report_ = StackReport(
            tried.results(unit),
            unit * float(np.sqrt(np.mean(residuals**2))),
            mixture.results(distributions, unit),
            unit * mixture.interval_score,
            plan.own_level,
            tuple(_notes(effort, len(target), data.layout.n_features)),
        )
        self.choice_rows_, self.spread_floor_ = slice(None) if some is data else some.positions, 0.0
        own = self._prediction(center, mixture.quantiles)
        self.spread_floor_ = relative_floor(own.spread, target)
        self.out_of_fold_prediction_ = self._prediction(center, mixture.quantiles)
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the weighted mean of the regressors. Shape (n,)."""
        rows = checked_rows(self, X)
        center, _ = self.stack_.described(_standardized(self.scaling_, rows, codes_of(X, len(rows))))
        return self.scaling_.to_target(center)

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread, bounds and quantiles."""
        rows = checked_rows(self, X)
        center, features = self.stack_.described(_standardized(self.scaling_, rows, codes_of(X, len(rows))))
        return self._prediction(center, self.mixture_.quantiles(features))

    def _prediction(self, center: FloatArray, quantiles: FloatArray) -> Prediction:
        """Return the prediction from standardised centers and quantiles of the residuals."""
        to_target = self.scaling_.to_target
        return self.plan_.prediction(to_target(center[:, None] + quantiles), to_target(center), self.spread_floor_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stack_")

    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "out_of_fold_prediction_"}


def _standardized(scaling: Scaling, rows: FloatArray, codes: IntArray) -> FloatArray:
    """Return standardised features, of limited size because trees store single-precision numbers, and the codes."""
    with np.errstate(over="ignore"):
        features = scaling.features(rows)
    np.clip(features, -_OUTERMOST, _OUTERMOST, out=features)
    return np.concatenate([features, codes], axis=1) if codes.shape[1] else features


@dataclass
class _CountedFits:
    """Reports how many fits are finished, and their share of the expected time of all planned ones."""

    progress: Progress
    n_fits: int
    effort: Effort
    planned: list[str]  # in order; those that turn out not to be needed are skipped
    n_finished: int = 0
    time: float = 0.0

    def __call__(self, name: str) -> None:
        self.n_finished += 1
        self.time += fit_cost(name, self.effort)
        self.planned = self.planned[self.planned.index(name) + 1 :]
        left = sum(fit_cost(each, self.effort) for each in self.planned)
        self.progress(Finished(self.n_finished, self.time / (self.time + left)), self.n_fits)


def _fitted_stack(tried: OutOfFold, data: TrainingRows, done: Fitted) -> tuple[dict[str, Any], FloatArray]:
    """Return the regressors with weight, fitted on all rows, and their weights."""
    fitted = {}
    for (name, member), weight in zip(tried.members.items(), tried.weights, strict=True):
        if weight:
            fitted[name] = fitted_clone(member, data.features, data.target, data.fit_params)
            done(name)
    return fitted, tried.weights[tried.weights > 0]


def _notes(effort: Effort, n: int, n_features: int) -> Iterator[str]:
    """Yield what differs in large tables: in those of many rows, or of many columns."""
    if n_features > MAX_FEATURES_FOR_PRODUCTS:
        yield "There are too many columns for products."
    if n_features > WIDE:
        kept = ScreenedColumns().n_columns
        yield f"All but the linear models use {kept} of the {n_features} columns, chosen on their training rows."
    if n > (limit := effort.row_limit(n)):
        yield f"Boosting and the linear model were fitted on all {n} rows, each other model on {limit} random ones."
    if n > _MAX_CHOICE_ROWS:
        yield f"The choice used {_MAX_CHOICE_ROWS} random rows."
