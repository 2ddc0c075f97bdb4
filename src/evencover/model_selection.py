"""Splits into training, calibration and test rows, and scorers of intervals for searches and cross-validation."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from evencover.groups import Groups, cluster_codes
from evencover.inputs.arrays import IntArray, check_not_masked, warn_user
from evencover.inputs.frames import check_same_index, column, n_rows, take
from evencover.intervals import Intervals, bound_side
from evencover.metrics import coverage, coverage_by_group, interval_score
from evencover.models.estimators import unwrap
from evencover.quantiles import Levels, level_fraction

__all__ = ["CoverageScorer", "IntervalScorer", "intervals_of", "three_way_split"]

_MIN_CLUSTERS = 10  # fewer give a warning: the user may have meant groups


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a split: the features and targets of its rows, and their positions among all rows."""

    X: Any
    y: Any
    positions: IntArray

    def __len__(self) -> int:
        return len(self.positions)


def three_way_split(
    X: Any,
    y: Any,
    *,
    calibration_size: float = 0.4,
    test_size: float = 0.2,
    clusters: Any = None,
    stratify: Any = None,
    random_state: Any = None,
) -> tuple[Part, Part, Part]:
    """Split rows at random into training, calibration and test parts.

    The guarantee of a conformal predictor needs calibration rows that were not used for training. A fair test of it
    needs rows that were used for neither.

    Parameters
    ----------
    X : table of n rows
        Features.
    y : array-like of shape (n,)
        Targets.
    calibration_size, test_size : float
        Shares of all rows; the other rows are for training. The defaults are the paper's: 40 % of the rows for
        training, 40 % for calibration and 20 % for testing.
    clusters : array-like of shape (n,), optional
        The cluster of each row, such as a patient. All rows of a cluster go to the same part, and the sizes are shares
        of the clusters.
    stratify : array-like of shape (n,), optional
        Labels that have the same shares in all three parts.
    random_state : int, optional
        Seed of the random split.

    Examples
    --------
    >>> training, calibration, test = three_way_split(np.zeros((10, 2)), np.arange(10.0), random_state=0)
    >>> len(training), len(calibration), len(test)
    (4, 4, 2)
    """
    if n_rows(y) != n_rows(X):
        raise ValueError(f"y must have {n_rows(X)} rows, as many as X; got {n_rows(y)}")
    check_same_index({"X": X, "y": y, "clusters": clusters, "stratify": stratify})
    for name, size in (("calibration_size", calibration_size), ("test_size", test_size)):
        check_share(name, size)
    if calibration_size + test_size >= 1:
        raise ValueError(
            f"calibration_size and test_size must leave rows for training; got {calibration_size} and {test_size}"
        )
    rest, test = split_rows(n_rows(X), test_size, clusters=clusters, stratify=stratify, random_state=random_state)
    warn_of_few_clusters(clusters)
    training, calibration = split_rows(
        len(rest),
        calibration_size / (1 - test_size),
        clusters=None if clusters is None else np.asarray(clusters)[rest],
        stratify=None if stratify is None else np.asarray(stratify)[rest],
        random_state=random_state,
    )
    positions = (rest[training], rest[calibration], test)
    return tuple(Part(take(X, rows), take(y, rows), rows) for rows in positions)  # type: ignore[return-value]


def split_rows(
    n: int, size: float, *, clusters: Any = None, stratify: Any = None, random_state: Any = None
) -> tuple[IntArray, IntArray]:
    """Return the positions of two parts of n rows; `size` is the share of rows (or clusters) in the second part."""
    if clusters is not None and stratify is not None:
        raise ValueError("clusters and stratify cannot be combined; got both")
    check_not_masked(stratify, "stratify")
    if stratify is not None and len(stratify) != n:
        raise ValueError(f"stratify must have {n} rows, as many as X; got {len(stratify)}")
    if n < 2:
        raise ValueError(f"X and y must have at least 2 rows, so that they can be split; got n_samples={n}")
    rows = np.arange(n)
    if clusters is None:
        first, second = train_test_split(rows, test_size=size, stratify=stratify, random_state=random_state)
        return first, second
    codes = cluster_codes(clusters, n)
    split = GroupShuffleSplit(n_splits=1, test_size=size, random_state=random_state)
    first, second = next(split.split(rows, groups=codes))
    return first, second


def warn_of_few_clusters(clusters: Any) -> None:
    """Warn if there are so few clusters that the user may have meant groups of a taxonomy."""
    n = 0 if clusters is None else len(Groups.from_labels(clusters, name="clusters").labels)
    if 1 < n < _MIN_CLUSTERS:
        warn_user(
            f"clusters has only {n} different clusters, and all rows of a cluster go to the same side of the split. If "
            "you want coverage in each of them, use a taxonomy, such as ByFeature"
        )


def check_share(name: str, size: Any) -> None:
    """Raise ValueError unless a size is a share of the rows, between 0 and 1."""
    if not isinstance(size, Real) or not 0 < float(size) < 1:
        raise ValueError(f"{name} must be a share of the rows, between 0 and 1; got {size!r}")


def intervals_of(estimator: Any, X: Any, level: Levels = 0.9) -> Intervals:
    """Return the intervals of a fitted conformal regressor, also inside a pipeline or a parameter search.

    Parameters
    ----------
    estimator : fitted regressor
        A regressor with `predict_interval`, such as `ConformalRegressor` or `CrossConformalRegressor`, a pipeline that
        ends in one, or a parameter search over one.
    X : table of n rows
        Features, in the form that `estimator` takes.
    level : float or sequence of L floats
        Nominal coverage.
    """
    regressor, inner_X = unwrap(estimator, X)
    if not hasattr(regressor, "predict_interval"):
        raise TypeError(
            "estimator must be a ConformalRegressor or CrossConformalRegressor, or a pipeline or parameter search that "
            f"contains one; got {estimator!r}"
        )
    intervals: Intervals = regressor.predict_interval(inner_X, level=level)
    return intervals


@dataclass(frozen=True)
class IntervalScorer:
    """A scikit-learn scorer: the negative mean interval (Winkler) score, so that larger is better.

    It is −inf if an interval is infinite, because there are too few calibration rows. One-sided bounds have no interval
    score, and are an error: use `CoverageScorer`, or `pinball_loss` of the bound.

    Pass it as ``scoring=`` to a grid search over a `ConformalRegressor` or `CrossConformalRegressor`, or over a
    pipeline that ends in one.

    Parameters
    ----------
    level : float
        Nominal coverage.
    """

    level: float = 0.9

    def __post_init__(self) -> None:
        level_fraction(self.level)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the negative mean interval score on the rows (X, y)."""
        intervals = intervals_of(estimator, X, self.level)
        side = bound_side(intervals)
        if side is not None:
            raise ValueError(
                f"IntervalScorer needs intervals with two finite ends; got {side} bounds, which have one. Use "
                f"CoverageScorer, or a scorer of your own with pinball_loss(y, intervals.{side}, probability=...)"
            )
        return -interval_score(y, intervals, level=self.level)


@dataclass(frozen=True)
class CoverageScorer:
    """A scikit-learn scorer: the coverage, which is the share of targets that lie in their intervals.

    Pass it as ``scoring=`` to `cross_val_score`. In a search, pass it next to `IntervalScorer`, and select by the
    latter: ``scoring={"coverage": CoverageScorer(), "score": IntervalScorer()}, refit="score"``. Do not select a model
    by coverage: the widest intervals have the largest one.

    Parameters
    ----------
    level : float
        Nominal coverage, which the result should be close to.
    by : str or int, optional
        A column of X, by name or position, such as a region. Its values are groups, and the result is the coverage of
        the group that is covered least often.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import cross_val_score
    >>> from evencover import ConformalRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> cross_val_score(ConformalRegressor(Ridge(), random_state=0), X, y, cv=3, scoring=CoverageScorer(0.9)).round(2)
    array([0.89, 0.88, 0.97])
    """

    level: float = 0.9
    by: str | int | None = None

    def __post_init__(self) -> None:
        level_fraction(self.level)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the coverage of the rows (X, y), or the smallest coverage of a group."""
        intervals = intervals_of(estimator, X, self.level)
        if self.by is None:
            return float(coverage(y, intervals))
        groups = column(X, self.by, f"CoverageScorer(by={self.by!r})")
        return float(min(coverage_by_group(y, intervals, groups).values()))
