"""Taxonomies: rules that put every row into a group.

A taxonomy learns its groups from the calibration rows and assigns new rows to them. Coverage is then calibrated, and
guaranteed, within each group. This holds also for bins at quantiles of the calibration rows
(`evencover.bins` explains why).
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from evencover.bins import Bins
from evencover.groups import Groups, Label, first_few
from evencover.inputs.arrays import FloatArray, checked_vector, got_text
from evencover.inputs.frames import column
from evencover.rows import Rows


class Taxonomy(Protocol):
    """A rule that assigns each row to a group.

    `learn` sees all calibration rows. `assign` must not let the group of a row depend on the other rows. A taxonomy
    whose groups depend on the target `y` sets `needs_target = True`; its `learn` sets `target_edges_`, the targets at
    which a row's group may change.
    """

    needs_target: bool
    labels_: tuple[Label, ...]
    target_edges_: FloatArray

    def learn(self, rows: Rows) -> Groups:
        """Learn the groups from the calibration rows and return the groups of these rows."""

    def assign(self, rows: Rows) -> Groups:
        """Return the groups of new rows."""


class Marginal(BaseEstimator):  # type: ignore[misc]
    """One group for all rows: split conformal prediction with marginal coverage.

    Examples
    --------
    >>> from evencover import Prediction
    >>> Marginal().learn(Rows(Prediction([1.0, 2.0])))
    Groups(2 rows: all 2)
    """

    needs_target = False

    def learn(self, rows: Rows) -> Groups:
        """Return the only group."""
        self.labels_: tuple[Label, ...] = ("all",)
        return self.assign(rows)

    def assign(self, rows: Rows) -> Groups:
        """Return the only group."""
        return Groups(np.zeros(len(rows), dtype=np.intp), ("all",))


class _PredictionBins:
    """Shared code of taxonomies that bin a number of the prediction: subclasses give its name and its values."""

    needs_target = False
    _quantity: ClassVar[str]

    def __init__(
        self, n_groups: int | None = None, *, edges: Sequence[float] | None = None, min_rows: int | None = None
    ) -> None:
        self.n_groups = n_groups
        self.edges = edges
        self.min_rows = min_rows

    def learn(self, rows: Rows) -> Groups:
        """Learn the bins from the calibration rows and return the groups of these rows."""
        values = self._values(rows)
        self.bins_ = Bins.from_settings(
            values, self._quantity, n_groups=self.n_groups, edges=self.edges, min_rows=self.min_rows
        )
        groups = self.bins_.calibration_groups(values)
        self.edges_, self.labels_ = self.bins_.edges, groups.labels
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the bin of each row; bins with given `edges` need no `learn`."""
        if self.edges is not None:
            return Bins.fixed(self.edges, self._quantity).groups(self._values(rows))
        _check_has_learned(self)
        return self.bins_.groups(self._values(rows))

    @property
    def merged(self) -> bool:
        """Whether it has learned fewer groups than requested, because many rows have the same value."""
        return hasattr(self, "bins_") and self.bins_.merged

    @property
    def merged_text(self) -> str:
        """Why there are fewer groups than requested, in a sentence; empty if there are not."""
        if not self.merged:
            return ""
        bins = self.bins_
        share = "All" if bins.largest_tie == 1 else f"{100 * bins.largest_tie:.0f} % of the"
        n_groups = f"{len(self.labels_)} groups" if len(self.labels_) > 1 else "one group"
        same = f"{share} calibration rows have the same {self._quantity}"
        return f"{same}, so it gives {n_groups} instead of {bins.n_requested}."

    def _values(self, rows: Rows) -> FloatArray:
        raise NotImplementedError


class BySpread(_PredictionBins, BaseEstimator):  # type: ignore[misc]
    """Bins of the predicted spread: the paper's taxonomy of noise levels.

    Parameters
    ----------
    n_groups : int, optional
        Number of equal-frequency bins, learned from the calibration rows; 3 by default. Bins that cannot have rows are
        left out: there are fewer if many rows have the same spread, up to rounding errors, or if there are fewer rows
        than bins. A constant spread gives one group. If no calibration row is above the last edge, larger spreads of
        new rows belong to the bin below it. The guarantee stays exact for the first, second, ...
        group from below, whatever it is called; `evencover.bins` explains why.
    edges : sequence of float, optional
        Fixed inner edges instead of learned ones, increasing; bins are closed above.
    min_rows : int, optional
        Use fewer bins if a bin would otherwise have fewer calibration rows than this. The number of bins depends only
        on the number of rows and on `n_groups`, so the guarantee stays exact.

    Attributes
    ----------
    labels_ : tuple of str
        ``("low", "medium", "high")`` for three bins; for other numbers of bins likewise, ``("all",)`` for one.
    edges_ : ndarray of shape (number of labels - 1,)
        Upper edges of all bins but the last.

    Notes
    -----
    With distinct spreads, the number covered among m new rows of a group of n_c calibration rows is
    BetaBinomial(m, k, n_c + 1 − k), where k is the conformal rank. `evencover.bins` explains how rows on a
    learned edge are treated.

    Examples
    --------
    >>> from evencover import Prediction
    >>> rows = Rows(Prediction(np.zeros(6), spread=[1.0, 6.0, 2.0, 5.0, 3.0, 4.0]))
    >>> BySpread(3).learn(rows)
    Groups(6 rows: low (spread <= 2.0) 2, medium (2.0 < spread <= 4.0) 2, high (4.0 < spread) 2)
    >>> BySpread(3).learn(Rows(Prediction(np.zeros(6), spread=np.ones(6))))
    Groups(6 rows: all (any spread) 6)
    """

    _quantity = "spread"

    def _values(self, rows: Rows) -> FloatArray:
        return rows.prediction.required("spread", by=type(self).__name__)


class ByPrediction(_PredictionBins, BaseEstimator):  # type: ignore[misc]
    """Bins of the predicted center.

    It has the parameters `n_groups`, `edges` and `min_rows` and the attributes `labels_` and `edges_` of `BySpread`.

    Examples
    --------
    >>> from evencover import Prediction
    >>> ByPrediction(2).learn(Rows(Prediction([1.0, 4.0, 2.0, 3.0])))
    Groups(4 rows: low (prediction <= 2.0) 2, high (2.0 < prediction) 2)
    """

    _quantity = "prediction"

    def _values(self, rows: Rows) -> FloatArray:
        return rows.prediction.center


class ByFeature(BaseEstimator):  # type: ignore[misc]
    """Groups by one feature: its categories, or bins of a numeric feature.

    Parameters
    ----------
    column : str or int
        Name or position of the column.
    edges : sequence of float, optional
        Inner edges of bins of a numeric feature, increasing; bins are closed above.
    categories : sequence, optional
        All categories; by default those of the calibration rows. A new row of another category belongs to an unseen
        group, which is an error unless you predict with ``unseen="marginal"`` or ``unseen="inf"``.

    Attributes
    ----------
    labels_ : tuple
        The categories, or the bins as inequalities.

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
        """Learn the groups from the calibration rows and return the groups of these rows."""
        if self.edges is not None and self.categories is not None:
            raise ValueError("ByFeature takes either edges or categories; got both")
        if self.edges is not None:
            groups = self.assign(rows)
            self.labels_: tuple[Label, ...] = groups.labels
            return groups
        groups = _groups_by_value(self._values(rows), self.categories, self._name)
        if self.categories is not None and len(groups.labels) > len(self.categories):
            others = groups.labels[len(self.categories) :]
            raise ValueError(f"ByFeature: {self._name} has values that are not in categories: {first_few(others)}")
        self.labels_ = groups.labels
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the group of each row; values without a group are added as labels at the end."""
        if self.edges is not None:
            return _groups_by_fixed_bins(checked_vector(self._values(rows), self._name), self.edges, self._name)
        _check_has_learned(self)
        return _groups_by_value(self._values(rows), self.labels_, self._name)

    @property
    def _name(self) -> str:
        return self.column if isinstance(self.column, str) else f"column {self.column}"

    def _values(self, rows: Rows) -> Any:
        return column(rows.X, self.column, f"ByFeature({self.column!r})")


class ByFunction(BaseEstimator):  # type: ignore[misc]
    """Groups by a function of the features.

    Parameters
    ----------
    function : callable
        ``function(X)`` returns a label for each row, shape (n,). The label of a row must not depend on other rows, and
        the function must be chosen without looking at the calibration rows.

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
        """Learn the labels of the calibration rows and return the groups of these rows."""
        groups = self._groups(rows, None)
        self.labels_: tuple[Label, ...] = groups.labels
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the group of each row; new labels are added at the end."""
        _check_has_learned(self)
        return self._groups(rows, self.labels_)

    def _groups(self, rows: Rows, labels: Sequence[Label] | None) -> Groups:
        if rows.X is None:
            raise ValueError("ByFunction needs X, the features; got None")
        name = getattr(self.function, "__name__", type(self.function).__name__)
        values = self.function(rows.X)
        if np.shape(values) != (len(rows),):
            raise ValueError(
                f"ByFunction: the function {name!r} must return one label for each row, shape ({len(rows)},); "
                f"got shape {np.shape(values)}"
            )
        return _groups_by_value(values, labels, name)


class ByTarget(BaseEstimator):  # type: ignore[misc]
    """Bins of the target itself.

    The target of a new row is unknown. So each bin contributes the targets in this bin whose score is at most the bin's
    threshold, and the prediction set is their union. The union has exact coverage in every bin; `predict_union`
    returns it. `predict_interval` returns the smallest interval that contains it, which covers more.

    Parameters
    ----------
    edges : sequence of float
        Inner edges, increasing; bins are closed above. Choose them without looking at the calibration rows.

    Attributes
    ----------
    labels_ : tuple of str
        The bins as inequalities.

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
        """Set the bins and return the groups of the calibration rows."""
        groups = self.assign(rows)
        self.labels_: tuple[Label, ...] = groups.labels
        self.target_edges_ = checked_vector(self.edges, "edges")
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the bin of each row's target."""
        return _groups_by_fixed_bins(rows.required_target(by="ByTarget"), self.edges, "y")


class Product(BaseEstimator):  # type: ignore[misc]
    """All combinations of the groups of several taxonomies.

    A combination without calibration rows is a group too; its intervals are infinite.

    Parameters
    ----------
    taxonomies : sequence of taxonomies
        The taxonomies to combine.

    Attributes
    ----------
    labels_ : tuple of str
        Combined labels such as ``"low & north"``; the labels of the last taxonomy change fastest.

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
        """Whether one of the taxonomies depends on the target."""
        return any(getattr(taxonomy, "needs_target", False) for taxonomy in self.taxonomies)

    @property
    def merged(self) -> bool:
        """Whether one of its taxonomies has learned fewer groups than requested."""
        return any(getattr(each, "merged", False) for each in getattr(self, "taxonomies_", ()))

    @property
    def merged_text(self) -> str:
        """Why its taxonomies have fewer groups than requested, in sentences; empty if they have not."""
        return " ".join(filter(None, (getattr(each, "merged_text", "") for each in getattr(self, "taxonomies_", ()))))

    def learn(self, rows: Rows) -> Groups:
        """Learn the groups of every taxonomy from the calibration rows and return their combinations."""
        if not self.taxonomies:
            raise ValueError("taxonomies of Product must hold at least one taxonomy; got none")
        self.taxonomies_: list[Taxonomy] = [clone(taxonomy, safe=False) for taxonomy in self.taxonomies]
        groups = reduce(Groups.product, (taxonomy.learn(rows) for taxonomy in self.taxonomies_))
        edges = [part.target_edges_ for part in self.taxonomies_ if getattr(part, "needs_target", False)]
        if edges:
            self.target_edges_ = np.unique(np.concatenate(edges))
        self.labels_: tuple[Label, ...] = groups.labels
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the combined group of each row."""
        _check_has_learned(self)
        return reduce(Groups.product, (taxonomy.assign(rows) for taxonomy in self.taxonomies_))


def default_taxonomy(rows: Rows) -> Taxonomy:
    """Return three groups of the spread; of the prediction, if the spread is not known or gives only one group.

    The groups are learned from the rows.
    """
    if rows.prediction.spread is not None and len((by_spread := BySpread(3)).learn(rows).labels) > 1:
        return by_spread
    (by_prediction := ByPrediction(3)).learn(rows)
    return by_prediction


def fresh_taxonomy(taxonomy: Any) -> Taxonomy:
    """Return an unfitted copy of a taxonomy. Raise TypeError if it is not a taxonomy."""
    if isinstance(taxonomy, type) or not all(callable(getattr(taxonomy, name, None)) for name in ("learn", "assign")):
        expected = "a taxonomy such as BySpread(3), with methods learn(rows) and assign(rows)"
        raise TypeError(f"taxonomy must be {expected}; got {got_text(taxonomy)}")
    return clone(taxonomy, safe=False)  # type: ignore[no-any-return]


def _check_has_learned(taxonomy: Any) -> None:
    """Raise NotFittedError if the taxonomy has not learned its groups."""
    if not hasattr(taxonomy, "labels_"):
        raise NotFittedError(f"{type(taxonomy).__name__} has no groups yet; call learn with the calibration rows first")


def _groups_by_fixed_bins(values: FloatArray, edges: Sequence[float], name: str) -> Groups:
    """Return the groups of bins at fixed edges; the rule of each bin is its label."""
    bins = Bins.fixed(edges, name)
    return bins.groups(values, labels=bins.rules)


def _groups_by_value(values: Any, labels: Sequence[Label] | None, name: str) -> Groups:
    """Return one group for each distinct value, with a rule such as ``region = 'north'``."""
    groups = Groups.from_labels(values, labels, name=name)
    return Groups(groups.codes, groups.labels, tuple(f"{name} = {label!r}" for label in groups.labels))
