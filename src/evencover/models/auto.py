"""`AutoRegressor`: a stack of regressors of different kinds, with a distribution of their residuals."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from evencover._internal.arrays import FloatArray, IntArray, lookup
from evencover.groups import cluster_codes
from evencover.models._quantile_plan import QuantilePlan, estimable_probabilities
from evencover.models._residual_distributions import residual_distributions
from evencover.models._row_splits import checked_splitter
from evencover.models._scaling import Scaling, relative_floor
from evencover.models._stack_members import EFFORTS, Effort, EffortName, random_rows, stack_members
from evencover.models._stack_report import DistributionResult, MemberResult, StackReport
from evencover.models._stacking import N_PARTS, Mixture, Stack, choose_mixture, out_of_fold
from evencover.models._validation import checked_features, checked_rows, checked_target, fitted_clone, remember_features
from evencover.predictions import Prediction

_MIN_ROWS = 6  # so that each of three folds leaves four rows to fit
_MAX_CHOICE_ROWS = 1_000_000
_OUTERMOST = 1e30  # standard deviations
_SEEDS = 2**31 - 1000  # those of scikit-learn are below 2**32; some numbers are added

Progress = Callable[[int, int], None]


class AutoRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regressors of different kinds combined, and the distribution of what they miss.

    1. **Center.** Boosted trees, extra trees, linear models of the features, of splines and of products, a kernel model
       and a network are fitted on folds. Their weights minimise the squared error of the combined out-of-fold
       predictions; none is negative, and their sum is 1 (stacking).
    2. **Distribution.** Three models predict quantiles of the residuals from the features, the center and the
       disagreement of the regressors, which is large where training rows are few. One is a spread times a common shape,
       two are forests (one with "fast"). Each subset of them is evaluated by its mean quantiles: by the interval score
       of the intervals that split conformal prediction makes of them, out of fold. The weights are halfway between
       equal weights for the best subset and equal weights for all, because the best one on the training rows may be so
       by chance. A distribution whose interval score is more than a fifth above the smallest has no weight.

    All of this uses training rows only, so a conformal predictor of this model keeps its exact guarantee. Features are
    numbers; for text, dates and missing values use a pipeline with `TableEncoder`.

    Parameters
    ----------
    effort : {"fast", "normal", "best"}
        How much is fitted. In units of one fit of scikit-learn's `HistGradientBoostingRegressor` on the same rows,
        "fast" takes about 10 and at most 15, "normal" 50 to 100 and at most 120, and "best" has no limit.
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

    def __init__(self, *, effort: EffortName = "normal", level: float = 0.9, random_state: Any = None) -> None:
        self.effort = effort
        self.level = level
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, clusters: Any = None, progress: Progress | None = None) -> Self:
        """Fit the regressors and the distributions.

        Parameters
        ----------
        X : array-like of shape (n, features)
            Features.
        y : array-like of shape (n,)
            Targets.
        clusters : array-like of shape (n,), optional
            Rows with the same entry are in the same fold.
        progress : callable, optional
            Called with the number of finished fits and the number of all fits.
        """
        effort = lookup(self.effort, EFFORTS, "effort")
        plan = QuantilePlan.of(self.level, 1.0, (), "mean")
        target, rows = checked_target(self, X, y), checked_features(self, X)
        if len(target) < _MIN_ROWS:
            samples = "1 sample" if len(target) == 1 else f"{len(target)} samples"
            raise ValueError(f"AutoRegressor needs at least {_MIN_ROWS} rows; got {samples}")
        plan = replace(plan, grid=estimable_probabilities(len(target)))
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        scaling = Scaling.of(rows, target)
        features, scaled = _standardized(scaling, rows), scaling.target(target)
        chosen = random_rows(len(target), _MAX_CHOICE_ROWS, seed)
        if clusters is not None:
            clusters = np.unique(cluster_codes(clusters, len(target))[chosen], return_inverse=True)[1]
        found = _fitted(_Task(effort, plan, seed, features, scaled, chosen, clusters), progress or (lambda *_: None))

        self.stack_, self.mixture_, self.scaling_, self.plan_ = found.stack, found.mixture, scaling, plan
        self.report_, self.spread_floor_ = found.report(scaling.y_scale, self.plan_.own_level, effort, len(target)), 0.0
        self.choice_rows_ = chosen
        own = self._prediction(found.center, found.quantiles)
        self.spread_floor_ = relative_floor(own.spread, target)
        self.out_of_fold_prediction_ = self._prediction(found.center, found.quantiles)
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the weighted mean of the regressors. Shape (n,)."""
        rows = checked_rows(self, X)
        center, _ = self.stack_.described(_standardized(self.scaling_, rows))
        return self.scaling_.to_target(center)

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread, bounds and quantiles."""
        rows = checked_rows(self, X)
        center, features = self.stack_.described(_standardized(self.scaling_, rows))
        return self._prediction(center, self.mixture_.quantiles(features))

    def _prediction(self, center: FloatArray, quantiles: FloatArray) -> Prediction:
        """Return the prediction from standardised centers and quantiles of the residuals."""
        to_target = self.scaling_.to_target
        return self.plan_.prediction(to_target(center[:, None] + quantiles), to_target(center), self.spread_floor_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stack_")

    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "out_of_fold_prediction_"}


def _standardized(scaling: Scaling, rows: FloatArray) -> FloatArray:
    """Return standardised features, of limited size: trees store single-precision numbers."""
    with np.errstate(over="ignore"):
        features = scaling.features(rows)
    return np.clip(features, -_OUTERMOST, _OUTERMOST, out=features)


@dataclass(frozen=True, eq=False)
class _Task:
    """What is to be fitted: the effort, the quantiles, the seed, standardised rows, and the rows for the choice."""

    effort: Effort
    plan: QuantilePlan
    seed: int
    rows: FloatArray
    y: FloatArray
    chosen: Any
    clusters: IntArray | None


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The fitted parts, and the out-of-fold results that they were chosen by, in standardised units."""

    stack: Stack
    mixture: Mixture
    center: FloatArray  # (n,)
    quantiles: FloatArray  # (n, Q), of the residuals
    members: tuple[MemberResult, ...]
    error: float
    distributions: tuple[DistributionResult, ...]
    interval_score: float

    def report(self, unit: float, level: float, effort: Effort, n: int) -> StackReport:
        """Return the report, in the unit of the target."""
        return StackReport(
            tuple(replace(each, error=unit * each.error) for each in self.members),
            unit * self.error,
            tuple(replace(each, interval_score=unit * each.interval_score) for each in self.distributions),
            unit * self.interval_score,
            level,
            tuple(_notes(effort, n, {each.name for each in self.members})),
        )


def _fitted(task: _Task, progress: Progress) -> _Fitted:
    """Return the stack and the mixture, chosen out of fold and fitted on all rows."""
    effort, rows, y = task.effort, task.rows[task.chosen], task.y[task.chosen]
    members = stack_members(effort, len(task.y), rows.shape[1], task.seed)
    distributions = residual_distributions(effort, len(task.y), task.plan.probabilities, task.seed)
    n_units = len(y) if task.clusters is None else int(task.clusters.max()) + 1
    splitter = checked_splitter(effort.n_folds, n_units, task.seed, clustered=task.clusters is not None)
    counter = _Counter(len(members) * (splitter.get_n_splits() + 1) + len(distributions) * (N_PARTS + 1), progress)

    tried = out_of_fold(members, rows, y, splitter, task.clusters, counter)
    center, features = tried.described(rows)
    columns = [task.plan.probabilities.index(bound) for bound in task.plan.bounds]
    chosen = choose_mixture(distributions, features, y - center, tried.folds, columns, task.plan.own_level, counter)
    used = {name: weight for name, weight in zip(members, tried.weights, strict=True) if weight}
    fitted = {}
    for name in used:
        fitted[name] = fitted_clone(members[name], task.rows, task.y)
        counter()
    counter.finish()
    return _Fitted(
        Stack(fitted, np.array(list(used.values()))),
        chosen.mixture,
        center,
        chosen.quantiles,
        tuple(map(MemberResult, members, tried.errors.tolist(), tried.weights.tolist())),
        float(np.sqrt(np.mean((y - center) ** 2))),
        tuple(map(DistributionResult, distributions, chosen.interval_scores.tolist(), chosen.weights.tolist())),
        chosen.interval_score,
    )


@dataclass
class _Counter:
    """Counts the fits; called after each of them."""

    total: int
    progress: Progress
    finished: int = 0

    def __call__(self) -> None:
        self.finished += 1
        self.progress(self.finished, self.total)

    def finish(self) -> None:
        """Report the end, also if regressors without weight were not fitted on all rows."""
        self.progress(self.total, self.total)


def _notes(effort: Effort, n: int, members: set[str]) -> Iterator[str]:
    """Yield what differs in large tables: in those of many rows, or of many columns."""
    if left_out := [name for name in effort.members if name not in members]:
        yield f"There are too many columns for {' and '.join(left_out)}."
    if n > (limit := effort.row_limit(n)):
        yield f"Boosting and the linear model were fitted on all {n} rows, each other model on {limit} random ones."
    if n > _MAX_CHOICE_ROWS:
        yield f"The choice used {_MAX_CHOICE_ROWS} random rows."
