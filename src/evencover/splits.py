"""Splitting rows into training, calibration and test parts."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from evencover.groups import Groups
from evencover.inputs import IntArray, warn_user
from evencover.tables import n_rows, take

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
    groups: Any = None,
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
    groups : array-like of shape (n,), optional
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
        refuse_bad_share(name, size)
    if calibration_size + test_size >= 1:
        raise ValueError(
            f"calibration_size and test_size must leave rows for training; got {calibration_size} and {test_size}"
        )
    rest, test = split_rows(n_rows(X), test_size, groups=groups, stratify=stratify, random_state=random_state)
    warn_of_few_clusters(groups)
    training, calibration = split_rows(
        len(rest),
        calibration_size / (1 - test_size),
        groups=None if groups is None else np.asarray(groups)[rest],
        stratify=None if stratify is None else np.asarray(stratify)[rest],
        random_state=random_state,
    )
    first, second, third = rest[training], rest[calibration], test
    return tuple(Part(take(X, rows), take(y, rows), rows) for rows in (first, second, third))  # type: ignore[return-value]


def split_rows(
    n: int, size: float, *, groups: Any = None, stratify: Any = None, random_state: Any = None
) -> tuple[IntArray, IntArray]:
    """Return the positions of two parts of n rows, the second with that share of them (or of the clusters)."""
    if groups is not None and stratify is not None:
        raise ValueError("groups and stratify cannot both be kept; give one of them")
    for name, values in (("groups", groups), ("stratify", stratify)):
        if values is not None and len(values) != n:
            raise ValueError(f"{name} must have {n} rows, as many as X; got {len(values)}")
    rows = np.arange(n)
    if groups is None:
        first, second = train_test_split(rows, test_size=size, stratify=stratify, random_state=random_state)
        return first, second
    clusters = Groups.from_labels(groups)
    if len(clusters.labels) < 2:
        raise ValueError(f"groups must name at least 2 clusters to split; got {len(clusters.labels)}")
    split = GroupShuffleSplit(n_splits=1, test_size=size, random_state=random_state)
    first, second = next(split.split(rows, groups=clusters.codes))
    return first, second


def warn_of_few_clusters(groups: Any) -> None:
    """Warn if there are so few clusters that groups to be covered may have been meant."""
    n = 0 if groups is None else len(Groups.from_labels(groups).labels)
    if 1 < n < _FEW_CLUSTERS:
        warn_user(
            f"groups names only {n} clusters, each of which goes whole to one side of the split; if every one of them "
            "is to be covered, that is a taxonomy, such as ByFeature"
        )


def refuse_bad_share(name: str, size: Any) -> None:
    """Raise unless this is a share of the rows."""
    if not isinstance(size, Real) or not 0 < float(size) < 1:
        raise ValueError(f"{name} must be a share of the rows, between 0 and 1; got {size!r}")
