"""Taxonomies: rules that put every row into a group.

A taxonomy learns its groups from the calibration rows and assigns new rows to them. Coverage is then calibrated, and
guaranteed, within each group. This holds also for bins at quantiles of the calibration rows
(`evencover.bins` explains why).
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from evencover.bins import Bins
from evencover.display.text import count_text, join_first
from evencover.groups import Groups, Label, first_few
from evencover.inputs.arrays import FloatArray, checked_vector, got_text
from evencover.inputs.frames import column
from evencover.rows import Rows

LabelsOf: TypeAlias = Callable[[str], tuple[Label, ...]]  # from the name of a column to its different values
ColumnOf: TypeAlias = Callable[[str], tuple[str, tuple[Label, ...]]]  # from what a user typed to a name and its values


class Taxonomy(Protocol):
    """A rule that assigns each row to a group.

    `learn` sees all calibration rows. `assign` must not let the group of a row depend on the other rows. A taxonomy
    whose groups depend on the target `y` sets `needs_target = True`; its `learn` sets `target_edges_`, the targets at
    which a row's group may change.

    What else a taxonomy can tell about itself is optional. The functions of this module that ask for it have the
    defaults. Before `learn`:

    - ``uses_prediction``: False if groups do not depend on the prediction. True by default.
    - ``has_one_group``: True if all rows are always in one group.
    - ``has_known_sizes``: True if random numbers in place of predictions give groups of the same sizes.
    - ``table_columns``: the names of the columns that the groups depend on. None by default.
    - ``with_categories(labels_of)``: the same taxonomy, with the categories of all rows of a table.
    - ``with_n_groups(n_groups)``: the same taxonomy with another number of groups.
    - ``option_value``: the value of the option ``--groups`` that stands for it.

    After `learn`:

    - ``fixed()``: a taxonomy with the learned groups, whatever rows it learns from.
    - ``text_columns``: those of its columns that hold text.
    - ``meaning(labels, counts)``, ``group_names(counts)`` and ``rows_compared``: what the groups are, in words.

    A class in `BUILTIN_TAXONOMIES` with an ``option`` can be used on the command line. ``from_option(text, column_of)``
    makes it from the text after the colon.
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

    needs_target = uses_prediction = False
    has_one_group = has_known_sizes = True
    option = option_value = "none"
    option_examples = ("none",)

    @classmethod
    def from_option(cls, text: str, _column_of: ColumnOf) -> Self | None:
        """Return the taxonomy; None if there is a text after the colon."""
        return None if text else cls()

    def learn(self, rows: Rows) -> Groups:
        """Return the only group."""
        self.labels_: tuple[Label, ...] = ("all",)
        return self.assign(rows)

    def assign(self, rows: Rows) -> Groups:
        """Return the only group."""
        return Groups.one(rows.prediction.center)


class _PredictionBins:
    """Shared code of taxonomies that bin a number of the prediction: subclasses give its name and its values."""

    needs_target, uses_prediction = False, True
    option: ClassVar[str]  # the number, which is also its name on the command line

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
            values, self.option, n_groups=self.n_groups, edges=self.edges, min_rows=self.min_rows
        )
        groups = self.bins_.calibration_groups(values)
        self.edges_, self.labels_ = self.bins_.edges, groups.labels
        return groups

    def assign(self, rows: Rows) -> Groups:
        """Return the bin of each row; bins with given `edges` need no `learn`."""
        if self.edges is not None:
            return Bins.fixed(self.edges, self.option).groups(self._values(rows))
        _check_has_learned(self)
        return self.bins_.groups(self._values(rows))

    @property
    def merged_text(self) -> str:
        """Why there are fewer groups than requested, in a sentence; empty if there are not."""
        bins = getattr(self, "bins_", None)
        if bins is None or not bins.merged:
            return ""
        share = "All" if bins.largest_tie == 1 else f"{100 * bins.largest_tie:.0f} % of the"
        n_groups = f"{len(self.labels_)} groups" if len(self.labels_) > 1 else "one group"
        same = f"{share} calibration rows have the same {self.option}"
        return f"{same}, so it gives {n_groups} instead of {bins.n_requested}."

    @classmethod
    def from_option(cls, text: str, _column_of: ColumnOf) -> Self | None:
        """Return the taxonomy with a number of groups, 3 by default; None if the text is no such number."""
        n_groups = int(text) if text.isdecimal() else 0 if text else 3
        return cls(n_groups) if n_groups else None

    @property
    def option_value(self) -> str | None:
        """The option with the number of groups; None with given edges."""
        return None if self.edges is not None else f"{self.option}:{self.n_groups or 3}"

    @property
    def has_known_sizes(self) -> bool:
        """Whether the bins have equal frequencies, so that their sizes do not depend on the values."""
        return self.edges is None

    def with_n_groups(self, n_groups: int) -> Self:
        """Return the same taxonomy with another number of groups."""
        return type(self)(n_groups)

    def fixed(self) -> Any:
        """Return bins with the learned edges; one group if there are none."""
        edges = np.unique(self.edges_[np.isfinite(self.edges_)]).tolist()
        return type(self)(edges=edges) if edges else Marginal()

    def meaning(self, labels: Sequence[Label], counts: Sequence[int] | None) -> str:
        """Return what the bins are and, if their sizes differ much, their sizes, in sentences."""
        names, equal = [str(label) for label in labels], counts is None or are_about_equal(counts)
        one, sizes = len(names) == 1, "" if equal or counts is None else _sizes_text(names, counts)
        return " ".join(filter(None, ["" if one else self._meaning(names, equal), sizes, self.merged_text]))

    def _meaning(self, names: Sequence[str], equal: bool) -> str:
        """Return what two or more bins are, in a sentence; `equal` bins have about the same number of rows."""
        raise NotImplementedError

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

    option = "spread"
    option_examples = ("spread", "spread:5")
    rows_compared = "for easy and hard rows"

    def group_names(self, counts: Sequence[int]) -> dict[Label, str]:
        """Return what low and high mean, for three groups of about the same size."""
        thirds: dict[Label, str] = {"low": "low (easiest third)", "medium": "medium", "high": "high (hardest third)"}
        are_thirds = getattr(self, "labels_", ()) == tuple(thirds) and are_about_equal(counts)
        return thirds if are_thirds else {}

    def _meaning(self, names: Sequence[str], equal: bool) -> str:
        low, *middle, high = names
        if len(middle) == 1 and equal:
            return (
                f"{low.capitalize()}, {middle[0]} and {high} are about a third of the rows each, by how large an error "
                f"the model expects: {low} is the third that it finds easiest, {high} the third that it finds hardest."
            )
        return (
            f"The rows are in {len(names)} groups by how large an error the model expects, from {low}, the rows that "
            f"it finds easiest, to {high}, those that it finds hardest."
        )

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

    option = "prediction"
    option_examples = ("prediction:4",)

    def _meaning(self, names: Sequence[str], _equal: bool) -> str:
        return f"The rows are in {len(names)} groups by the predicted value, from {names[0]} to {names[-1]}."

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

    needs_target = uses_prediction = False
    has_known_sizes = True
    option = "column"
    option_examples = ("column:NAME",)

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
            return _groups_by_fixed_bins(
                checked_vector(self._values(rows), self._name, exact=False), self.edges, self._name
            )
        _check_has_learned(self)
        return _groups_by_value(self._values(rows), self.labels_, self._name)

    @classmethod
    def from_option(cls, text: str, column_of: ColumnOf) -> Self | None:
        """Return one group for each value that a column of the table has; None without the name of the column."""
        if not text:
            return None
        name, labels = column_of(text)
        return cls(name, categories=labels)

    @property
    def option_value(self) -> str | None:
        """The option with the name of the column; None for bins, and for a column without a name."""
        return f"column:{self.column}" if self.edges is None and self.table_columns else None

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The name of the column, if it is given by its name."""
        return (self.column,) if isinstance(self.column, str) else ()

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The name of the column, if its categories are text."""
        is_text = self.edges is None and any(isinstance(label, str) for label in self.labels_)
        return self.table_columns if is_text else ()

    def with_categories(self, labels_of: LabelsOf) -> "ByFeature":
        """Return the same taxonomy with the categories that the column has in all rows, unless they are given."""
        if self.edges is not None or self.categories is not None:
            return self
        return ByFeature(self.column, categories=labels_of(str(self.column)))

    def fixed(self) -> "ByFeature":
        """Return a taxonomy with the learned categories."""
        return self if self.edges is not None else ByFeature(self.column, categories=self.labels_)

    def meaning(self, _labels: Sequence[Label], _counts: Sequence[int] | None) -> str:
        """Return which column the groups come from."""
        return f"The rows are in groups by {self.column}."

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

    needs_target = uses_prediction = False
    has_known_sizes = True

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

    needs_target, uses_prediction = True, False

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
    def uses_prediction(self) -> bool:
        """Whether one of the taxonomies depends on the prediction."""
        return any(getattr(taxonomy, "uses_prediction", True) for taxonomy in self.taxonomies)

    @property
    def has_known_sizes(self) -> bool:
        """Whether the sizes of all groups are known before anything is predicted."""
        return all(map(has_known_sizes, self.taxonomies))

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The columns that its taxonomies need."""
        return tuple(name for taxonomy in self.taxonomies for name in table_columns(taxonomy))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The text columns that its taxonomies need."""
        return tuple(name for taxonomy in self.taxonomies_ for name in text_columns(taxonomy))

    def with_categories(self, labels_of: LabelsOf) -> "Product":
        """Return the product of its taxonomies with all categories."""
        return Product([with_categories(taxonomy, labels_of) for taxonomy in self.taxonomies])

    def fixed(self) -> "Product":
        """Return the product of the learned groups."""
        return Product([fixed_taxonomy(taxonomy) for taxonomy in self.taxonomies_])

    def meaning(self, _labels: Sequence[Label], counts: Sequence[int] | None) -> str:
        """Return what the groups of each taxonomy are; of one that has not learned them, nothing."""
        parts = getattr(self, "taxonomies_", ())
        sizes = _counts_by_part([len(part.labels_) for part in parts], counts)
        return " ".join(group_meaning(part, part.labels_, own) for part, own in zip(parts, sizes, strict=True))

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


BUILTIN_TAXONOMIES: tuple[type[Any], ...] = (
    Marginal,
    BySpread,
    ByPrediction,
    ByFeature,
    ByFunction,
    ByTarget,
    Product,
)


def is_by_features(taxonomy: Any) -> bool:
    """Return whether groups depend on the features alone, so that they are the same for all models."""
    return not (getattr(taxonomy, "uses_prediction", True) or getattr(taxonomy, "needs_target", False))


def has_one_group(taxonomy: Any) -> bool:
    """Return whether all rows are always in one group."""
    return bool(getattr(taxonomy, "has_one_group", False))


def has_known_sizes(taxonomy: Any) -> bool:
    """Return whether the sizes of the groups can be known before anything is predicted."""
    return bool(getattr(taxonomy, "has_known_sizes", False))


def table_columns(taxonomy: Any) -> tuple[str, ...]:
    """Return the names of the columns that define the groups of a taxonomy."""
    return tuple(getattr(taxonomy, "table_columns", ()))


def text_columns(taxonomy: Any) -> tuple[str, ...]:
    """Return the text columns that define the groups of a taxonomy, which has learned them."""
    return tuple(getattr(taxonomy, "text_columns", ()))


def with_categories(taxonomy: Any, labels_of: LabelsOf) -> Any:
    """Return a taxonomy whose categories are those of all rows of a table, where they were to be learned."""
    return taxonomy.with_categories(labels_of) if hasattr(taxonomy, "with_categories") else taxonomy


def with_n_groups(taxonomy: Any, n_groups: int) -> Taxonomy | None:
    """Return the same taxonomy with another number of groups; None if it has no such setting."""
    return taxonomy.with_n_groups(n_groups) if hasattr(taxonomy, "with_n_groups") else None


def fixed_taxonomy(taxonomy: Taxonomy) -> Taxonomy:
    """Return a taxonomy with the groups that another one has learned, whatever rows it is used for."""
    return taxonomy.fixed() if hasattr(taxonomy, "fixed") else taxonomy


def group_option(taxonomy: Any) -> str | None:
    """Return the value of the option --groups for a taxonomy; None if there is none."""
    return getattr(taxonomy, "option_value", None)


def taxonomy_from_option(text: str, column_of: ColumnOf) -> Taxonomy:
    """Return the taxonomy of a value of the option --groups, such as spread:5. Raise ValueError for any other text."""
    option, _, rest = text.partition(":")
    with_option = [each for each in BUILTIN_TAXONOMIES if hasattr(each, "option")]
    found = [each.from_option(rest, column_of) for each in with_option if each.option == option]
    if not found or found[0] is None:
        *examples, last = [example for each in with_option for example in each.option_examples]
        raise ValueError(f"groups must be {', '.join(examples)} or {last}; got {text!r}")
    return found[0]  # type: ignore[no-any-return]


def group_meaning(taxonomy: Any, labels: Sequence[Label], counts: Sequence[int] | None = None) -> str:
    """Return what the groups of a taxonomy are, in sentences; empty if their names say it.

    Parameters
    ----------
    taxonomy : taxonomy
        The taxonomy, which may have learned its groups.
    labels : sequence
        The groups.
    counts : sequence of int, optional
        The number of rows in each group; without it, those of a taxonomy of the spread are taken for equal.
    """
    return str(taxonomy.meaning(labels, counts)) if hasattr(taxonomy, "meaning") else ""


def group_names(taxonomy: Any, counts: Sequence[int]) -> dict[Label, str]:
    """Return longer names of the groups of a taxonomy, which have these numbers of rows; empty if there are none."""
    return taxonomy.group_names(counts) if hasattr(taxonomy, "group_names") else {}


def rows_compared(taxonomy: Any) -> str:
    """Return where coverage is compared, in words."""
    return getattr(taxonomy, "rows_compared", "in all groups")


def are_about_equal(counts: Sequence[int]) -> bool:
    """Return whether groups have about the same number of rows: three groups, from 25 to 42 % each."""
    mean = sum(counts) / max(len(counts), 1)
    return all(0.75 * mean < count < 1.26 * mean for count in counts)


def _sizes_text(names: Sequence[str], counts: Sequence[int]) -> str:
    """Return the number of rows in each of several groups, in a sentence."""
    if len(names) == 1:
        return ""
    sizes = join_first(f"{name} {count_text(count)}" for name, count in zip(names, counts, strict=True))
    return f"Rows: {sizes}."


def _counts_by_part(shape: Sequence[int], counts: Sequence[int] | None) -> list[list[int] | None]:
    """Return the numbers of rows by the groups of each part of a product; None if there are groups of no part."""
    if counts is None or len(counts) != np.prod(shape):
        return [None] * len(shape)
    table, axes = np.reshape(counts, shape), range(len(shape))
    return [table.sum(axis=tuple(axis for axis in axes if axis != own)).tolist() for own in axes]


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
