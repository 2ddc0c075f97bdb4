"""Search the values of the features for the region with the lowest coverage, with a decision tree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from evencover._internal.arrays import BoolArray, FloatArray, IntArray
from evencover.diagnostics._feature_strata import Feature, Features

_MAX_SEARCHED_ROWS = 20_000
_MIN_SHARE, _MAX_MIN_SHARE = 0.1, 0.2  # of the searched rows in a region
_MIN_ROWS = 50  # searched rows in a region, if that is less than a fifth; in fewer, low coverage is mostly chance
_MAX_CONDITIONS = 3  # depth of the tree
_MISSING = -1  # code of a missing number, below those of all values


class Condition(Protocol):
    """A condition on one feature."""

    def contains(self, feature: Feature) -> BoolArray:
        """Return which rows fulfil the condition."""

    def text(self, feature: Feature) -> str:
        """Return the condition in words."""


@dataclass(frozen=True)
class Range:
    """Numbers with low < x <= high, and missing ones if `missing`; with high = -inf, only missing ones."""

    missing: bool
    low: float = -np.inf
    high: float = np.inf

    def contains(self, feature: Feature) -> BoolArray:
        """Return which rows fulfil the condition."""
        inside = (self.low < feature.values) & (feature.values <= self.high)
        return np.asarray(inside | (np.isnan(feature.values) & self.missing))

    def text(self, feature: Feature) -> str:
        """Return the condition in words: 0.3 < x <= 0.7, x > 0.3, x missing."""
        name, low, high = feature.name, feature.edge_text(self.low), feature.edge_text(self.high)
        if self.high == -np.inf:
            return f"{name} missing"
        if self.low > -np.inf:
            return f"{name} > {low}" if self.high == np.inf else f"{low} < {name} <= {high}"
        if self.high == np.inf:
            return f"{name} not missing"
        return f"({name} <= {high} or missing)" if self.missing else f"{name} <= {high}"


@dataclass(frozen=True)
class Categories:
    """Some of the categories of a feature, by their codes."""

    codes: frozenset[int]

    def contains(self, feature: Feature) -> BoolArray:
        """Return which rows fulfil the condition."""
        return np.isin(feature.category_codes, sorted(self.codes))

    def text(self, feature: Feature) -> str:
        """Return the condition in words: cut = Fair, cut is not Ideal, cut missing."""
        labels = (*(feature.categories or ()), "missing")
        others = sorted({*feature.category_codes.tolist()} - self.codes)
        negated = len(self.codes) > 1
        texts = [labels[code] for code in (others if negated else self.codes)]
        if texts == ["missing"]:
            return f"{feature.name} {'not ' * negated}missing"
        if not negated:
            return f"{feature.name} = {texts[0]}"
        return f"{feature.name} is {'not' if len(texts) == 1 else 'none of'} {', '.join(texts)}"


@dataclass(frozen=True, eq=False)
class Region:
    """Rows whose features fulfil all of some conditions.

    Parameters
    ----------
    features : sequence of Feature
        The features that have a condition.
    conditions : sequence of Condition
        The condition on each of them.
    """

    features: Sequence[Feature]
    conditions: Sequence[Condition]

    def contains(self) -> BoolArray:
        """Return which rows lie in the region."""
        pairs = zip(self.conditions, self.features, strict=True)
        return np.asarray(np.all([condition.contains(feature) for condition, feature in pairs], axis=0))

    def rule(self) -> str:
        """Return the region in columns and values: carat > 1.02 and cut = Fair."""
        pairs = zip(self.conditions, self.features, strict=True)
        return " and ".join(condition.text(feature) for condition, feature in pairs)


class _SplitColumn(Protocol):
    """A column that the tree may split, computed from a feature."""

    @property
    def feature(self) -> Feature:
        """The feature."""

    def narrowed(self, condition: Any, threshold: float, *, below: bool) -> Condition:
        """Return a condition on the feature (None: no condition) and a side of the split at a threshold."""


@dataclass(frozen=True, eq=False)
class _NumberColumn:
    """The rank of a number among the different values of the searched rows; −1 if it is missing.

    The tree computes with 32 bits, which hold every rank exactly, but not every number or date.
    """

    feature: Feature
    values: FloatArray  # different values of the searched rows, increasing
    missing: bool  # whether some searched row has none

    def narrowed(self, condition: Range | None, threshold: float, *, below: bool) -> Range:
        """Return the numbers of a range on one side of a split, which lies within the range."""
        current = condition or Range(self.missing)
        rank = floor(threshold)
        edge = -np.inf if rank == _MISSING else self.feature.edge_between(*self.values[rank : rank + 2].tolist())
        if below:
            return replace(current, high=edge)
        return replace(current, low=edge, missing=False)


@dataclass(frozen=True, eq=False)
class _CategoryColumn:
    """1 for the rows of a category, 0 for others."""

    feature: Feature
    code: int

    def narrowed(self, condition: Categories | None, threshold: float, *, below: bool) -> Categories:  # noqa: ARG002
        """Return the categories on one side of a split: without this one, or only this one."""
        codes = frozenset(self.feature.category_codes.tolist()) if condition is None else condition.codes
        return Categories(codes - {self.code} if below else frozenset({self.code}))


@dataclass(frozen=True, eq=False)
class RegionSearch:
    """The features of the searched rows as numbers for a decision tree, computed once for many audits.

    Parameters
    ----------
    columns : sequence of C split columns
        What the columns of the matrix mean.
    matrix : ndarray of shape (n, C)
        Their values in the searched rows.
    """

    columns: Sequence[_SplitColumn]
    matrix: NDArray[np.float32]

    @classmethod
    def of(cls, features: Sequence[Feature], rows: IntArray) -> "RegionSearch":
        """Return the search in some rows; features that are constant in these rows are left out."""
        pairs = [pair for feature in features for pair in _split_columns(feature, rows)]
        matrix = np.empty((len(rows), len(pairs)), dtype=np.float32)
        for position, (_, values) in enumerate(pairs):
            matrix[:, position] = values
        return cls([column for column, _ in pairs], matrix)

    def worst(self, covered: BoolArray) -> Region | None:
        """Return the node of a decision tree with the most significant lack of coverage.

        That is the largest (coverage of all rows − coverage of the node) · √rows. A node has at least a tenth of the
        rows, and at least 50 of them or a fifth. It need not be a leaf: the last splits often follow chance only, and
        would make the rule longer. None if the rows cannot be split: no feature varies, or all of them are covered, or
        none is.
        """
        if not self.columns or not len(covered):
            return None
        node_rows = max(ceil(_MIN_SHARE * len(covered)), min(_MIN_ROWS, ceil(_MAX_MIN_SHARE * len(covered))))
        model = DecisionTreeRegressor(max_depth=_MAX_CONDITIONS, min_samples_leaf=node_rows, random_state=0)
        tree = model.fit(self.matrix, covered).tree_
        coverage = tree.value[:, 0, 0]  # of each node; the root, which holds all rows, comes first
        lack = (coverage[0] - coverage) * np.sqrt(tree.n_node_samples)
        return self._region(_path(tree, 1 + int(np.argmax(lack[1:])))) if tree.node_count > 1 else None

    def _region(self, path: "Sequence[_Split]") -> Region:
        """Return the region of a path in the tree, with one condition for each feature."""
        conditions: dict[Feature, Condition] = {}
        for position, threshold, below in path:
            column = self.columns[position]
            current = conditions.get(column.feature)
            conditions[column.feature] = column.narrowed(current, threshold, below=below)
        return Region(list(conditions), list(conditions.values()))


@dataclass(frozen=True, eq=False)
class FeatureSearch:
    """The features of some rows, split in two halves: one to search for low coverage, one to test the result.

    Computed once for many audits of the same rows.

    Parameters
    ----------
    features : Features of n rows
        The features.
    halves : pair of ndarrays of int
        Rows to search, and rows to test on; both in random order.
    regions : RegionSearch
        The features of the first half, encoded for the search.
    seed : int
        Seed of the halves, and of the draws that follow.
    """

    features: Features
    halves: tuple[IntArray, IntArray]
    regions: RegionSearch
    seed: int

    @classmethod
    def of(cls, X: Any, n: int, seed: int) -> "FeatureSearch":
        """Return the search in a table of n rows; a `FeatureSearch` is returned unchanged."""
        if isinstance(X, FeatureSearch):
            return X
        features = Features.of(X)
        if features.columns and len(features) != n:
            raise ValueError(f"X must have {n} rows, as many as the intervals; got {len(features)}")
        order = np.random.default_rng(seed).permutation(n)
        first, second = order[: n // 2], order[n // 2 :]
        return cls(features, (first, second), RegionSearch.of(features.columns, _searched_rows(first)), seed)

    def worst_region(self, covered: BoolArray) -> Region | None:
        """Return the region with the lowest coverage in the first half; None if the rows cannot be split."""
        return self.regions.worst(covered[_searched_rows(self.halves[0])])

    def generator(self) -> np.random.Generator:
        """Return the random generator for the draws that follow, the same at every call."""
        return np.random.default_rng([self.seed, 1])


def _searched_rows(half: IntArray) -> IntArray:
    """Return the first 20 000 rows of a half in random order, which are enough to find a region."""
    return half[:_MAX_SEARCHED_ROWS]


def _split_columns(feature: Feature, rows: IntArray) -> list[tuple[_SplitColumn, NDArray[Any]]]:
    """Return the split columns of a feature with their values in some rows: ranks, or one column for each category."""
    if feature.categories is not None:
        codes = feature.category_codes[rows]
        present = np.unique(codes).tolist()
        split = present if len(present) > 2 else present[1:]  # one column splits two categories
        return [(_CategoryColumn(feature, code), codes == code) for code in split]
    values = feature.values[rows]
    missing = np.isnan(values)
    known, ranks = np.unique(values[~missing], return_inverse=True)
    if len(known) + missing.any() < 2:
        return []
    encoded = np.full(len(rows), _MISSING)
    encoded[~missing] = ranks
    return [(_NumberColumn(feature, known, bool(missing.any())), encoded)]


_Split = tuple[int, float, bool]  # column, threshold, and whether the path goes below it


def _path(tree: Any, node: int) -> list[_Split]:
    """Return the splits from the root of a fitted tree to a node."""
    parents = {int(child): parent for parent in range(tree.node_count) for child in _children(tree, parent)}
    path: list[_Split] = []
    while node in parents:
        parent = parents[node]
        path.append((int(tree.feature[parent]), float(tree.threshold[parent]), tree.children_left[parent] == node))
        node = parent
    return path[::-1]


def _children(tree: Any, node: int) -> list[Any]:
    return [child for child in (tree.children_left[node], tree.children_right[node]) if child >= 0]
