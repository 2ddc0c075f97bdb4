"""The methods that the benchmark of intervals compares: from training, calibration and test rows to bounds.

Packages that not everyone has are imported when a method needs them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from evencover import BySpread, ConformalRegressor, IntervalDistance, Intervals, Marginal, Support, recommend
from evencover.calibration.group_thresholds import TwoTails
from evencover.models import QuantileForest, WithSpread
from evencover.models.target_transforms import with_target_transform
from evencover.scores.support import without_support
from evencover.studies import Plan, study

EFFORTS = ("fast", "normal", "best")
FORMER, MAPIE_CQR = "former default", "MAPIE CQR"
_VERDICTS = ("even", "undecided", "uneven")  # the best first
_WIDTH_MARGIN = 0.01  # of the smallest mean width
_FORMER_SCORES = ("Residual", "IntervalDistance", "Normalized", "RelativeIntervalDistance", "ProbabilityDistance")
_DIFFICULTY_BINS = 3


@dataclass(frozen=True, eq=False)
class Task:
    """What a method gets: training rows, calibration rows, the features of the test rows, the level and a seed.

    Without calibration rows (arrays of length 0), the method divides the training rows itself, as it likes.
    """

    X_train: Any
    y_train: Any
    X_cal: Any
    y_cal: Any
    X_test: Any
    level: float
    seed: int

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return len(self.X_train) + len(self.X_cal) + len(self.X_test)


@dataclass(frozen=True, eq=False)
class Bounds:
    """The bounds of the test rows, of shape (m,) each; if known, what determines the law of the coverage.

    Parameters
    ----------
    lower, upper : ndarray of shape (m,)
        The bounds.
    pools : sequence of (test rows, calibration rows), optional
        For the rows that share a threshold, their number, and the number of scores that the threshold is one of.
    """

    lower: Any
    upper: Any
    pools: Sequence[tuple[int, int]] | None = None


@dataclass(frozen=True)
class Method:
    """A function from a task to bounds, and the modules to import before its time is measured."""

    bounds: Callable[[Task], Bounds]
    modules: Sequence[str] = ()


def default_bounds(task: Task, *, effort: str) -> Bounds:
    """Return the bounds of evencover's default at an effort."""
    model = Plan(level=task.level, seed=task.seed, effort=effort).estimator(task.n_rows)
    return _calibrated(_recommended(model, task), task)


def study_bounds(task: Task, *, effort: str) -> Bounds:
    """Return the bounds of evencover's default at an effort, where a study divides the training rows itself."""
    import pandas as pd

    names = [f"x{i}" for i in range(task.X_train.shape[1])]
    table = pd.DataFrame(task.X_train, columns=names).assign(y=task.y_train)
    regressor = study(table, "y", plan=Plan(level=task.level, seed=task.seed, effort=effort)).regressor
    intervals = regressor.predict_interval(pd.DataFrame(task.X_test, columns=names), level=task.level)
    return Bounds(intervals.lower, intervals.upper)


def former_bounds(task: Task) -> Bounds:
    """Return the bounds of the former default: boosting with a spread, and the narrowest even candidate."""
    model = WithSpread(HistGradientBoostingRegressor(random_state=task.seed), random_state=task.seed)
    regressor = _recommended(model, task)
    chosen = narrowest_even(regressor.recommendation_.candidates)
    fitted = regressor.estimator
    if chosen.transform != regressor.recommendation_.chosen.transform:
        fitted = FrozenEstimator(with_target_transform(model, chosen.transform).fit(task.X_train, task.y_train))
    groups = {"calibrator": TwoTails(chosen.taxonomy)} if chosen.tails == "separate" else {"taxonomy": chosen.taxonomy}
    return _calibrated(ConformalRegressor(fitted, nonconformity=chosen.nonconformity, **groups), task)


def narrowest_even(candidates: Sequence[Any]) -> Any:
    """Return the candidate that `recommend` chose formerly.

    It is one with the best verdict: the simplest of those that are at most 1 % wider than the narrowest. Candidates
    that `recommend` did not evaluate then are left out.
    """
    known = [each for each in candidates if _was_evaluated(each)]
    best = min((each.verdict for each in known), key=_VERDICTS.index)
    even = [each for each in known if each.verdict == best]
    limit = min(each.width for each in even) * (1 + _WIDTH_MARGIN)
    narrow = sorted((each for each in even if each.width <= limit), key=lambda each: each.width)
    return min(narrow, key=_complexity)


def _was_evaluated(candidate: Any) -> bool:
    """Return whether `recommend` evaluated such a candidate formerly."""
    score = type(without_support(candidate.nonconformity)).__name__
    return score in _FORMER_SCORES and isinstance(candidate.taxonomy, Marginal | BySpread)


def _complexity(candidate: Any) -> tuple[int, bool, bool]:
    """Return the number of groups, whether the target is transformed, and whether each end has its own threshold."""
    return getattr(candidate.taxonomy, "n_groups", 1), candidate.transform is not None, candidate.tails == "separate"


def quantile_forest_bounds(task: Task) -> Bounds:
    """Return the bounds of a quantile forest with one threshold on the distance to its interval."""
    forest = QuantileForest(level=task.level, random_state=task.seed).fit(task.X_train, task.y_train)
    return _calibrated(ConformalRegressor(FrozenEstimator(forest), nonconformity=IntervalDistance()), task)


def mapie_cqr_bounds(task: Task) -> Bounds:
    """Return the bounds of MAPIE's conformalized quantile regression with boosting."""
    from mapie.regression import ConformalizedQuantileRegressor

    tail = (1 - task.level) / 2
    models = [
        HistGradientBoostingRegressor(loss="quantile", quantile=quantile, random_state=task.seed)
        for quantile in (tail, 1 - tail, 0.5)  # the order that MAPIE expects
    ]
    fitted = [model.fit(task.X_train, task.y_train) for model in models]
    return _mapie_bounds(ConformalizedQuantileRegressor(fitted, confidence_level=task.level, prefit=True), task)


def mapie_split_bounds(task: Task) -> Bounds:
    """Return the bounds of MAPIE's split conformal regression with boosting: all intervals have the same width."""
    from mapie.regression import SplitConformalRegressor

    model = HistGradientBoostingRegressor(random_state=task.seed).fit(task.X_train, task.y_train)
    return _mapie_bounds(SplitConformalRegressor(model, confidence_level=task.level, prefit=True), task)


def crepes_bounds(task: Task) -> Bounds:
    """Return the bounds of crepes: a forest, difficulties from nearest neighbours, and three Mondrian bins of them."""
    from crepes import ConformalRegressor as CrepesRegressor
    from crepes.extras import DifficultyEstimator, binning

    forest = RandomForestRegressor(200, min_samples_leaf=5, oob_score=True, random_state=task.seed)
    forest.fit(task.X_train, task.y_train)
    residuals = task.y_train - forest.oob_prediction_
    difficulty = DifficultyEstimator().fit(task.X_train, residuals=residuals, scaler=True)
    sigmas_cal, sigmas_test = difficulty.apply(task.X_cal), difficulty.apply(task.X_test)
    bins_cal, edges = binning(sigmas_cal, bins=_DIFFICULTY_BINS, seed=task.seed)
    bins_test = binning(sigmas_test, bins=edges, seed=task.seed)
    regressor = CrepesRegressor().fit(task.y_cal - forest.predict(task.X_cal), sigmas=sigmas_cal, bins=bins_cal)
    predicted = forest.predict(task.X_test)
    bounds = regressor.predict_int(predicted, sigmas=sigmas_test, bins=bins_test, confidence=task.level)
    return Bounds(bounds[:, 0], bounds[:, 1])


def default_name(effort: str) -> str:
    """Return the name of evencover's default at an effort."""
    return f"evencover {effort}"


def default_methods(efforts: Sequence[str]) -> dict[str, Method]:
    """Return evencover's default at each of these efforts, by name."""
    return {default_name(effort): Method(partial(default_bounds, effort=effort)) for effort in efforts}


def study_methods(efforts: Sequence[str]) -> dict[str, Method]:
    """Return evencover's default at each of these efforts, by name, for tasks without calibration rows."""
    return {default_name(effort): Method(partial(study_bounds, effort=effort), ("pandas",)) for effort in efforts}


OTHER_METHODS: Mapping[str, Method] = {
    FORMER: Method(former_bounds),
    MAPIE_CQR: Method(mapie_cqr_bounds, ("mapie.regression",)),
    "MAPIE split": Method(mapie_split_bounds, ("mapie.regression",)),
    "crepes": Method(crepes_bounds, ("crepes", "crepes.extras")),
    "quantile forest": Method(quantile_forest_bounds),
}


def _recommended(model: Any, task: Task) -> ConformalRegressor:
    """Return the fitted model with the score and groups that `recommend` chooses."""
    return recommend(
        model,
        task.X_train,
        task.y_train,
        level=task.level,
        seed=task.seed,
        calibration_rows=len(task.y_cal),
        test_rows=len(task.X_test),
        support=Support.of_targets(task.y_train),
    )


def _calibrated(regressor: ConformalRegressor, task: Task) -> Bounds:
    """Return the bounds of a regressor that is fitted but not yet calibrated."""
    intervals = regressor.calibrate(task.X_cal, task.y_cal).predict_interval(task.X_test, level=task.level)
    return Bounds(intervals.lower, intervals.upper, _pools(regressor, intervals))


def _pools(regressor: ConformalRegressor, intervals: Intervals) -> Sequence[tuple[int, int]] | None:
    """Return the numbers of test and calibration rows of each threshold; None if the law of coverage is not exact.

    Test rows on the edge of a group have a threshold of their own. It shares calibration rows with the group's, but
    the two count as independent: edge rows are few.
    """
    guarantee, calibration = intervals.guarantee, getattr(regressor, "calibration_", None)
    exact = guarantee is not None and guarantee.exact and guarantee.tail_shares is None and not guarantee.without
    if not exact or calibration is None or intervals.groups is None:
        return None
    assignment = calibration.assignment(intervals.groups, "error")
    counts = np.bincount(assignment.pool_codes, minlength=len(assignment.pools)).tolist()
    return [(m, len(pool)) for m, pool in zip(counts, assignment.pools, strict=True) if m]


def _mapie_bounds(regressor: Any, task: Task) -> Bounds:
    """Return the bounds of a regressor of MAPIE with fitted models."""
    _, bounds = regressor.conformalize(task.X_cal, task.y_cal).predict_interval(task.X_test)
    return Bounds(bounds[:, 0, 0], bounds[:, 1, 0])
