"""Intervals of whatever holds a conformal regressor, and a scorer for searches over them."""

from dataclasses import dataclass
from typing import Any

from evencover.intervals import Intervals
from evencover.metrics import interval_score
from evencover.models.speech import innermost
from evencover.quantiles import Levels, level_fraction


def intervals_of(estimator: Any, X: Any, level: Levels = 0.9) -> Intervals:
    """Return the intervals of a fitted `ConformalRegressor`, also one inside a pipeline or a search.

    Parameters
    ----------
    estimator : fitted regressor
        With `predict_interval`, or a pipeline that ends in one, or a search whose best one is one.
    X : table of n rows
        Features, as the outermost estimator takes them.
    level : float or sequence of L floats
        Nominal coverage.
    """
    inner, seen = innermost(estimator, X)
    if not hasattr(inner, "predict_interval"):
        raise TypeError(f"intervals come from a ConformalRegressor, or a pipeline or search of one; got {estimator!r}")
    intervals: Intervals = inner.predict_interval(seen, level=level)
    return intervals


@dataclass(frozen=True)
class IntervalScorer:
    """A scikit-learn scorer: minus the mean interval (Winkler) score of an estimator's intervals.

    Pass it as ``scoring=`` to a grid search over `ConformalRegressor`, in a pipeline or not; larger is better.

    Parameters
    ----------
    level : float
        Nominal coverage.
    """

    level: float = 0.9

    def __post_init__(self) -> None:
        level_fraction(self.level)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return minus the mean interval score on the rows (X, y)."""
        return -interval_score(y, intervals_of(estimator, X, self.level), level=self.level)
