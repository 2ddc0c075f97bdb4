"""Taxonomies: rules that put every row into a group.

A taxonomy learns its groups from the calibration rows and assigns new rows to them. Coverage is then calibrated,
and guaranteed, within each group, also where bins are cut at the calibration rows' own quantiles (see `Bins`).
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from evencover._internal.arrays import FloatArray, checked_vector
from evencover._internal.bins import Bins
from evencover._internal.frames import column
from evencover.groups import Groups, Label
from evencover.predictions import Rows


class Taxonomy(Protocol):
    """A rule that groups rows.

    `learn` may look at the calibration rows once; `assign` must then treat each row by itself. A taxonomy that
    looks at `y` sets `needs_target`, and `target_edges_` to the targets between which its answer is constant.
    """

    needs_target: bool
    labels_: tuple[Label, ...]
    target_edges_: FloatArray

    def learn(self, rows: Rows) -> Groups:
        """Learn the groups from the calibration rows and return theirs."""

    def assign(self, rows: Rows) -> Groups:
        """Return the groups of new rows."""


class Marginal(BaseEstimator):  # type: ignore[misc]
    """One group for all rows: plain split conformal prediction.

    Examples
    --------
    >>> from evencover import Prediction
    >>> Marginal().learn(Rows(Prediction([1.0, 2.0])))
    Groups(2 rows: all 2)
    """

    needs_target = False

    def learn(self, rows: Rows) -> Groups:
        """Return the one group."""
        self.labels_: tuple[Label, ...] = ("all",)
        return self.assign(rows)

    def assign(self, rows: Rows) -> Groups:
        """Return the one group."""
        return Groups(np.zeros(len(rows), dtype=np.intp), ("all",))


class BySpread(BaseEstimator):  # type: ignore[misc]
    """Bins of the predicted spread: the paper's taxonomy of noise levels.

    Parameters
    ----------
    n_groups : int, optional
        Number of equal-frequency bins, learned from the calibration rows; 3 unless `edges` are given. With fewer
        rows than bins the lowest bins stay empty, and with a constant spread all but the first.
    edges : sequence of float, optional
        Fixed inner edges instead, increasing; bins are closed above.
    min_rows : int, optional
        Use fewer bins where n rows would leave a bin with fewer than this many. Decided from n and
        `n_groups` alone, so the guarantee stays exact.

    Attributes
    ----------
    labels_ : tuple of str
        ``("low", "medium", "high")`` for three bins, and so on.
    edges_ : ndarray of shape (n_groups - 1,)
        Upper edges of all bins but the last.

    Notes
    -----
    With distinct spreads, the number covered among m new rows of a group of n_c calibration rows is
    BetaBinomial(m, k, n_c + 1 − k), k the conformal rank. `evencover._internal.bins` says how edge rows are treated.

    Examples
    --------
    >>> from evencover import Prediction
    >>> rows = Rows(Prediction(np.zeros(6), spread=[1.0, 6.0, 2.0, 5.0, 3.0, 4.0]))
    >>> BySpread(3).learn(rows)
    Groups(6 rows: low (spread <= 2.0) 2, medium (2.0 < spread <= 4.0) 2, high (4.0 < spread) 2)
    """

    needs_target = False

    def __init__(
        self, n_groups: int | None = None, *, edges: Sequence[float] | None = None, min_rows: int | None = None
    ) -> None:
        self.n_groups = n_groups
        self.edges = edges
        self.min_rows = min_rows

    def learn(self, rows: Rows) -> Groups:
        """Learn the bins from the calibration rows' spread and return their groups."""
        return _learned(self, self._values(rows), "spread")

    def assign(self, rows: Rows) -> Groups:
        """Return the bin of each row's spread."""
        return _ready_bins(self, "spread").groups(self._values(rows))

    def _values(self, rows: Rows) -> FloatArray:
        return rows.prediction.required("spread", by=type(self).__name__)


class ByPrediction(BaseEstimator):  # type: ignore[misc]
    """Bins of the predicted center, as `BySpread` bins the spread.

    Parameters and attributes are those of `BySpread`: `n_groups`, `edges`, `min_rows`; `labels_`, `edges_`.

    Examples
    --------
    >>> from evencover import Prediction
    >>> ByPrediction(2).learn(Rows(Prediction([1.0, 4.0, 2.0, 3.0])))
    Groups(4 rows: low (prediction <= 2.0) 2, high (2.0 < prediction) 2)
    """

    needs_target = False

    def __init__(
        self, n_groups: int | None = None, *, edges: Sequence[float] | None = None, min_rows: int | None = None
    ) -> None:
        self.n_groups = n_groups
        self.edges = edges
        self.min_rows = min_rows

    def learn(self, rows: Rows) -> Groups:
        """Learn the bins from the calibration rows' centers and return their groups."""
        return _learned(self, rows.prediction.center, "prediction")

    def assign(self, rows: Rows) -> Groups:
        """Return the bin of each row's center."""
        return _ready_bins(self, "prediction").groups(rows.prediction.center)


class ByFeature(BaseEstimator):  # type: ignore[misc]
    """Groups given by one feature: its categories, or bins of it.

    Parameters
    ----------
    column : str or int
        Name of the column, or its position.
    edges : sequence of float, optional
        Inner edges of bins of a numeric feature, increasing; bins are closed above.
    categories : sequence, optional
        The values there are. Left out, they are those of the calibration rows. A new row with another value is
        an unseen group: an error, unless the prediction says ``unseen="marginal"`` or ``"inf"``.

    Attributes
    ----------
    labels_ : tuple
        The categories, or the bins in words.

    Examples
    --------
    >>> from evencover import Prediction
    >>> rows = Rows(Prediction(np.zeros(3)), X=np.array([[20.0], [35.0], [70.0]]))
    >>> ByFeature(0, edges=[30.0, 60.0]).learn(rows).labels
    ('column 0 <= 30.0', '30.0 < column 0 <= 60.0', '60.0 < column 0')
    """

    needs_target = False

    def __init__(
        self,
        column: str | int,
        *,
        edges: Sequence[float] | None = None,
        categories: Sequence[Label] | None = None,
    ) -> None:
        self.column = column
        self.edges = edges
        self.categories = categories

    def learn(self, rows: Rows) -> Groups:
        """Learn the groups from the calibration rows and return theirs."""
        if self.edges is not None and self.categories is not None:
            raise ValueError("ByFeature takes edges or categories, not both")
        if self.edges is not None:
            groups = self.assign(rows)
            self.labels_: tuple[Label, ...] = groups.labels
            return groups
        groups = _named_groups(self._values(rows), self.categories, self._name)
        if self.categories is not None and len(groups.labels) > len(self.categories):
            extra = list(groups.labels[len(self.categories) :])
            raise ValueError(f"ByFeature: {self._name} has values that are not among the categories: {extra}")
        self.labels_ = groups.labels
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the group of each row; values without a group get new labels at the end."""
        if self.edges is not None:
            return _named_bins(checked_vector(self._values(rows), self._name), self.edges, self._name)
        _check_has_learned(self)
        return _named_groups(self._values(rows), self.labels_, self._name)

    @property
    def _name(self) -> str:
        return self.column if isinstance(self.column, str) else f"column {self.column}"

    def _values(self, rows: Rows) -> Any:
        return column(rows.X, self.column, f"ByFeature({self.column!r})")


class ByFunction(BaseEstimator):  # type: ignore[misc]
    """Groups given by a function of the features.

    Parameters
    ----------
    function : callable
        ``function(X)`` returns a label for each row, shape (n,). It must look at each row by itself, and be
        fixed before the calibration rows are seen.

    Attributes
    ----------
    labels_ : tuple
        The labels of the calibration rows.

    Examples
    --------
    >>> from evencover import Prediction
    >>> rows = Rows(Prediction(np.zeros(3)), X=np.array([[-1.0], [2.0], [3.0]]))
    >>> ByFunction(lambda X: np.where(X[:, 0] > 0, "gain", "loss")).learn(rows).labels
    ('gain', 'loss')
    """

    needs_target = False

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def learn(self, rows: Rows) -> Groups:
        """Learn the labels of the calibration rows and return their groups."""
        groups = self._groups(rows, None)
        self.labels_: tuple[Label, ...] = groups.labels
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the group of each row; labels not seen before come at the end."""
        _check_has_learned(self)
        return self._groups(rows, self.labels_)

    def _groups(self, rows: Rows, labels: Sequence[Label] | None) -> Groups:
        if rows.X is None:
            raise ValueError("ByFunction needs X, the features; none were given")
        name = getattr(self.function, "__name__", type(self.function).__name__)
        values = self.function(rows.X)
        if np.shape(values) != (len(rows),):
            raise ValueError(
                f"ByFunction: {name} must return one label a row, shape ({len(rows)},); got shape {np.shape(values)}"
            )
        return _named_groups(values, labels, name)


class ByTarget(BaseEstimator):  # type: ignore[misc]
    """Bins of the target itself.

    A new row's target is unknown, so its prediction set is the union over bins of the targets that fall in
    the bin and pass the bin's threshold. That union has the exact coverage in every bin; `predict_union` returns
    it. `predict_interval` returns the smallest interval around it, which covers more.

    Parameters
    ----------
    edges : sequence of float
        Inner edges, increasing; bins are closed above. Fixed before the calibration rows are seen.

    Attributes
    ----------
    labels_ : tuple of str
        The bins in words.

    Examples
    --------
    >>> from evencover import Prediction
    >>> rows = Rows(Prediction(np.zeros(3)), y=np.array([1.0, 2.0, 3.0]))
    >>> ByTarget([2.0]).learn(rows)
    Groups(3 rows: y <= 2.0 2, 2.0 < y 1)
    """

    needs_target = True

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = edges

    def learn(self, rows: Rows) -> Groups:
        """Set up the bins and return the calibration rows' groups."""
        groups = self.assign(rows)
        self.labels_: tuple[Label, ...] = groups.labels
        self.target_edges_ = checked_vector(self.edges, "edges")
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the bin of each row's target."""
        if rows.y is None:
            raise ValueError("ByTarget needs y, the targets; none were given")
        return _named_bins(rows.y, self.edges, "y")


class Product(BaseEstimator):  # type: ignore[misc]
    """Groups that are combinations of several taxonomies' groups.

    A combination without calibration rows is a group of its own, with infinite intervals.

    Parameters
    ----------
    taxonomies : sequence of taxonomies
        The factors.

    Attributes
    ----------
    labels_ : tuple of str
        ``"low & north"`` and so on, the last factor's labels changing fastest.

    Examples
    --------
    >>> from evencover import Prediction
    >>> rows = Rows(Prediction([1.0, 4.0, 2.0, 3.0], spread=[1.0, 1.0, 2.0, 2.0]))
    >>> Product([ByPrediction(2), BySpread(edges=[1.5])]).learn(rows).labels
    ('low & low', 'low & high', 'high & low', 'high & high')
    """

    def __init__(self, taxonomies: Sequence[Any]) -> None:
        self.taxonomies = taxonomies

    @property
    def needs_target(self) -> bool:
        """Whether a factor looks at the target."""
        return any(getattr(taxonomy, "needs_target", False) for taxonomy in self.taxonomies)

    def learn(self, rows: Rows) -> Groups:
        """Learn every factor's groups from the calibration rows and return their combinations."""
        if not self.taxonomies:
            raise ValueError("Product needs at least one taxonomy; got none")
        self.taxonomies_: list[Taxonomy] = [clone(taxonomy, safe=False) for taxonomy in self.taxonomies]
        groups = reduce(Groups.times, (taxonomy.learn(rows) for taxonomy in self.taxonomies_))
        edges = [each.target_edges_ for each in self.taxonomies_ if getattr(each, "needs_target", False)]
        if edges:
            self.target_edges_ = np.unique(np.concatenate(edges))
        self.labels_: tuple[Label, ...] = groups.labels
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the combination of each row's groups."""
        _check_has_learned(self)
        return reduce(Groups.times, (taxonomy.assign(rows) for taxonomy in self.taxonomies_))


def fresh_taxonomy(taxonomy: Any) -> Taxonomy:
    """Return a copy of a taxonomy that has learned nothing, or say that this is none."""
    if isinstance(taxonomy, type) or not all(callable(getattr(taxonomy, name, None)) for name in ("learn", "assign")):
        expected = "a taxonomy such as BySpread(3), with methods learn(rows) and assign(rows)"
        raise TypeError(f"taxonomy must be {expected}; got {taxonomy!r}")
    return clone(taxonomy, safe=False)  # type: ignore[no-any-return]


def _learned(taxonomy: BySpread | ByPrediction, values: FloatArray, name: str) -> Groups:
    """Set a binning taxonomy's bins from the calibration values and return their groups."""
    settings = {key: getattr(taxonomy, key) for key in ("n_groups", "edges", "min_rows")}
    bins = Bins.from_settings(values, name, **settings)
    groups = bins.groups(values)
    taxonomy.bins_, taxonomy.edges_, taxonomy.labels_ = bins, bins.edges, groups.labels
    return groups


def _ready_bins(taxonomy: BySpread | ByPrediction, name: str) -> Bins:
    """Return the learned bins, or the fixed ones, which need no learning."""
    if taxonomy.edges is not None:
        return Bins.fixed(taxonomy.edges, name)
    _check_has_learned(taxonomy)
    bins: Bins = taxonomy.bins_
    return bins


def _check_has_learned(taxonomy: Taxonomy) -> None:
    if not hasattr(taxonomy, "labels_"):
        raise NotFittedError(f"{type(taxonomy).__name__} has no groups yet: learn them from the calibration rows first")


def _named_bins(values: FloatArray, edges: Sequence[float], name: str) -> Groups:
    """Return the groups of bins at fixed edges, each named by its rule."""
    bins = Bins.fixed(edges, name)
    return bins.groups(values, labels=bins.rules)


def _named_groups(values: Any, labels: Sequence[Label] | None, name: str) -> Groups:
    """Return the groups of labels found by name, with their rule."""
    groups = Groups.from_labels(values, labels, name=name)
    return Groups(groups.codes, groups.labels, tuple(f"{name} = {label!r}" for label in groups.labels))
