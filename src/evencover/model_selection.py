"""Split rows into training, calibration and test parts; score intervals in a grid search."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from evencover._internal.arrays import IntArray, warn_user
from evencover._internal.frames import n_rows, take
from evencover.groups import Groups
from evencover.intervals import Intervals
from evencover.metrics import interval_score
from evencover.models.predict import unwrap
from evencover.quantiles import Levels, level_fraction

_FEW_CLUSTERS = 10


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the rows: their features and targets, as they came, and their positions in the whole."""

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
    """Return training, calibration and test parts of the rows, at random.

    The guarantee of a conformal predictor needs calibration rows that its model has not seen, and a fair
    look at it needs test rows that neither has seen.

    Parameters
    ----------
    X : table of n rows
        Features.
    y : array-like of shape (n,)
        Targets.
    calibration_size, test_size : float
        Shares of all rows; the rest is for training. The defaults are the paper's: 0.4, 0.4 and 0.2.
    clusters : array-like of shape (n,), optional
        Clusters that must not be torn apart, such as patients; shares are then of clusters.
    stratify : array-like of shape (n,), optional
        Labels whose shares are kept in all three parts.
    random_state : int, optional
        Seed.

    Examples
    --------
    >>> training, calibration, test = three_way_split(np.zeros((10, 2)), np.arange(10.0), random_state=0)
    >>> len(training), len(calibration), len(test)
    (4, 4, 2)
    """
    if n_rows(y) != n_rows(X):
        raise ValueError(f"y must have {n_rows(X)} rows, as many as X; got {n_rows(y)}")
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
    first, second, third = rest[training], rest[calibration], test
    return tuple(Part(take(X, rows), take(y, rows), rows) for rows in (first, second, third))  # type: ignore[return-value]


def split_rows(
    n: int, size: float, *, clusters: Any = None, stratify: Any = None, random_state: Any = None
) -> tuple[IntArray, IntArray]:
    """Return the positions of two parts of n rows, the second with that share of them (or of the clusters)."""
    if clusters is not None and stratify is not None:
        raise ValueError("clusters and stratify cannot both be kept; give one of them")
    for name, values in (("clusters", clusters), ("stratify", stratify)):
        if values is not None and len(values) != n:
            raise ValueError(f"{name} must have {n} rows, as many as X; got {len(values)}")
    rows = np.arange(n)
    if clusters is None:
        first, second = train_test_split(rows, test_size=size, stratify=stratify, random_state=random_state)
        return first, second
    labelled = Groups.from_labels(clusters, name="clusters")
    if len(labelled.labels) < 2:
        raise ValueError(f"clusters must name at least 2 clusters to split; got {len(labelled.labels)}")
    split = GroupShuffleSplit(n_splits=1, test_size=size, random_state=random_state)
    first, second = next(split.split(rows, groups=labelled.codes))
    return first, second


def warn_of_few_clusters(clusters: Any) -> None:
    """Warn if there are so few clusters that groups to be covered may have been meant."""
    n = 0 if clusters is None else len(Groups.from_labels(clusters, name="clusters").labels)
    if 1 < n < _FEW_CLUSTERS:
        warn_user(
            f"clusters names only {n} clusters, each of which goes whole to one side of the split; if every one of "
            "them is to be covered, that is a taxonomy, such as ByFeature"
        )


def check_share(name: str, size: Any) -> None:
    """Raise unless this is a share of the rows."""
    if not isinstance(size, Real) or not 0 < float(size) < 1:
        raise ValueError(f"{name} must be a share of the rows, between 0 and 1; got {size!r}")


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
    inner, seen = unwrap(estimator, X)
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
