"""Coverage by features: strata of each, the worst region, and what a classifier can find."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeRegressor

from evencover.bins import equal_frequency_ranks
from evencover.diagnostics.exact_tests import SIGNIFICANT
from evencover.display.text import number_text, p_value_phrase
from evencover.groups import Groups, first_few
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, plain_array
from evencover.inputs.dates import NO_DAY
from evencover.inputs.frames import as_numbers, column, column_names, frame_kind, is_missing

_N_STRATA = 3
_MAX_DISTINCT = 10  # a numeric feature with at most so many distinct values is split by value
_MIN_ROWS_PER_VALUE = 5
_MAX_CATEGORIES = 20  # the most frequent ones; the others are pooled
_DAY = 86_400_000_000  # microseconds
_TIME_UNITS = (_DAY, _DAY // 24, 60_000_000, 1_000_000, 1)  # a day, an hour, a minute, a second


@dataclass(frozen=True, eq=False)
class Feature:
    """One feature as numbers: its values, or the codes of its categories; NaN where it is missing.

    Parameters
    ----------
    name : str
        Name of the column.
    values : ndarray of shape (n,)
        The numbers.
    categories : tuple of str or None
        The category of each code; None for a numeric feature.
    dates : bool
        Whether the numbers are microseconds since 1970.
    """

    name: str
    values: FloatArray
    categories: tuple[str, ...] | None = None
    dates: bool = False

    @cached_property
    def strata(self) -> Groups:
        """Groups of the rows by this feature: its categories or its thirds, and a group for missing values."""
        labels, edges = self.labels_and_edges
        missing = np.isnan(self.values)
        codes = np.where(missing, len(labels), np.searchsorted(edges, self.values))
        return Groups(codes, (*labels, f"{self.name} missing") if missing.any() else labels)

    @cached_property
    def labels_and_edges(self) -> tuple[tuple[str, ...], FloatArray]:
        """The labels of the strata of known values, and the upper edges of all but the last; few values are strata."""
        known = np.unique(self.values[~np.isnan(self.values)])
        few_values = len(known) <= min(_MAX_DISTINCT, max(_N_STRATA, len(self.values) // _MIN_ROWS_PER_VALUE))
        if self.categories is not None or few_values:
            return tuple(f"{self.name} = {text}" for text in self._texts(known)), known[:-1] / 2 + known[1:] / 2
        ordered = np.sort(self.values[~np.isnan(self.values)])  # more than a value for each stratum, so no rank is 0
        edges = np.unique(ordered[equal_frequency_ranks(len(ordered), _N_STRATA) - 1])
        edges = edges[edges < known[-1]] if edges[0] < known[-1] else known[-2:-1]  # so that the last bin has rows
        texts = self._texts(edges)
        between = [f"{low} < {self.name} <= {high}" for low, high in pairwise(texts)]
        return (f"{self.name} <= {texts[0]}", *between, f"{self.name} > {texts[-1]}"), edges

    def center_and_unit(self) -> tuple[float, float]:
        """Return the median and the standard deviation, 1 if that is 0; without overflow for huge numbers."""
        known = self.values[~np.isnan(self.values)]
        center = float(np.median(known)) if len(known) else 0.0
        largest = float(np.abs(known - center).max(initial=0.0)) or 1.0
        return center, largest * (float(((known - center) / largest).std()) if len(known) else 0.0) or 1.0

    @cached_property
    def category_codes(self) -> IntArray:
        """The code of each row's category; the code after the last one if it is missing."""
        return np.where(np.isnan(self.values), len(self.categories or ()), self.values).astype(np.intp)

    def _texts(self, values: FloatArray) -> list[str]:
        """Return values as text; numbers with four digits, or in full if four cannot distinguish them."""
        short = [self.value_text(value) for value in values]
        return short if len(set(short)) == len(short) else [self.edge_text(value) for value in values]

    def value_text(self, value: float) -> str:
        """Return one value as text: a category, a date, or a number with four digits."""
        if self.categories is not None:
            return self.categories[int(value)]
        return self.edge_text(value) if self.dates else number_text(value)

    def edge_text(self, value: float) -> str:
        """Return a number with all its digits, or a date; the time of day only if the feature has times."""
        if not self.dates or not np.isfinite(value):
            return full_number_text(value)
        text = str(np.datetime64(int(value), "us").item()).removeprefix(f"{NO_DAY} ")
        return text.removesuffix(" 00:00:00") if self._whole_days else text

    @cached_property
    def _whole_days(self) -> bool:
        return not np.any(self.values[~np.isnan(self.values)] % _DAY)

    def edge_between(self, low: float, high: float) -> float:
        """Return a round edge with low <= edge < high: a number with few digits, or the start of a day, hour, ..."""
        if not self.dates:
            return round_between(low, high)
        starts = (float(int(high - 1) // unit * unit) for unit in _TIME_UNITS)
        return next((start for start in starts if low <= start), low)


def round_between(low: float, high: float) -> float:
    """Return a number with few digits and low <= number < high."""
    middle, largest = low / 2 + high / 2, max(abs(low), abs(high))
    for power in range(ceil(log10(largest)), ceil(log10(largest)) - 20, -1):
        steps = floor(Decimal(middle).scaleb(-power))
        candidates = [float(f"{steps + more}e{power}") for more in (0, 1)]
        inside = [number for number in candidates if low <= number < high]
        if inside:
            return min(inside, key=lambda number: abs(number - middle)) + 0.0  # no negative zero
    return low


def full_number_text(value: float) -> str:
    """Return a number with all its digits, a large one in groups of three, as in 36 830.5."""
    if not 1e4 <= abs(value) < 1e15:
        return repr(float(value)).removesuffix(".0")
    return f"{float(value):,}".removesuffix(".0").replace(",", " ")


def features_of(X: Any) -> list[Feature]:
    """Return the columns of a table as features."""
    table = X.toarray() if hasattr(X, "toarray") else X if frame_kind(X) is not None else plain_array(X, "X")
    if len(np.shape(table)) != 2:
        raise ValueError(f"X must be two-dimensional, of shape (n, features); got shape {np.shape(table)}")
    names = column_names(table)
    repeated = [name for name, count in Counter(names or ()).items() if count > 1]
    if repeated:
        raise ValueError(f"X must have unique column names; duplicate column names: {first_few(repeated)}")
    keys = range(table.shape[1]) if names is None else names
    return [_feature(key if isinstance(key, str) else f"column {key}", column(table, key, "audit")) for key in keys]


def standardized(features: Sequence[Feature]) -> FloatArray:
    """Return features with median 0 and standard deviation 1; 0 if missing or constant. Shape (n, features)."""
    matrix = np.empty((len(features[0].values), len(features)))
    for position, feature in enumerate(features):
        center, unit = feature.center_and_unit()
        matrix[:, position] = np.nan_to_num((feature.values - center) / unit)
    return matrix


def _feature(name: str, values: Any) -> Feature:
    """Return a column as a feature: numbers and dates as numbers, anything else as category codes."""
    if values.dtype.kind == "M":
        times = values.astype("datetime64[us]")
        return Feature(name, np.where(np.isnat(times), np.nan, times.astype(np.int64)), dates=True)
    if values.dtype.kind == "b":
        return Feature(name, values.astype(float), ("False", "True"))
    numbers = as_numbers(values)
    if numbers is not None:
        if np.isinf(numbers).any():
            raise ValueError(
                f"X must have finite or missing values; infinite values in {name}: {np.isinf(numbers).sum()}"
            )
        return Feature(name, numbers)
    missing = is_missing(values.astype(object))
    texts = [str(value) for value in values[~missing]]
    kept = sorted(text for text, _ in Counter(texts).most_common(_MAX_CATEGORIES))
    code_of = {text: code for code, text in enumerate(kept)}
    codes = np.full(len(values), np.nan)
    codes[~missing] = [code_of.get(text, len(kept)) for text in texts]
    return Feature(name, codes, (*kept, "any other"))


_MAX_TRAINING_ROWS = 100_000
_MAX_PERMUTED_ROWS = 10_000  # with more rows, the normal approximation replaces the permutations
_PERMUTATIONS = 999


@dataclass(frozen=True)
class ExcessRisk:
    """Whether the features predict which rows are covered: the excess risk of the target coverage (ERT).

    Parameters
    ----------
    value : float
        Mean squared error of predicting "covered" by the level, minus that of a classifier that sees the features. It
        estimates a lower bound of the mean squared distance between conditional coverage and level. It is below 0
        if the classifier found nothing.
    p_value : float
        Permutation p-value, or its normal limit with more than 10 000 rows. The null hypothesis is that coverage does
        not depend on the features, for this calibration. A valid predictor with one threshold per group can violate
        it, because each threshold has its own random error.

    References
    ----------
    Braun, Holzmüller, Jordan, Bach (2025), Conditional coverage diagnostics for conformal prediction.
    """

    value: float
    p_value: float

    def __str__(self) -> str:
        answer = "yes" if self.p_value < SIGNIFICANT else "not significantly"
        risk = f"ERT {self.value:.4f}" if self.value > 0 else "ERT not above 0"
        return f"{answer} ({p_value_phrase(self.p_value)} for these intervals; {risk})"


def excess_risk(
    X: FloatArray, covered: BoolArray, halves: tuple[IntArray, IntArray], level: float, rng: np.random.Generator
) -> ExcessRisk:
    """Return the excess risk on the second half of the rows, with a classifier trained on the first half.

    The classifier is trained on the first 100 000 rows of its half at most; the rows are in random order.
    """
    training, evaluation = halves[0][:_MAX_TRAINING_ROWS], halves[1]
    if len(np.unique(covered[training])) < 2 or not len(evaluation):
        return ExcessRisk(0.0, 1.0)
    classifier = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, early_stopping=False, random_state=0)
    probabilities = classifier.fit(X[training], covered[training]).predict_proba(X[evaluation])[:, 1]
    outcomes = covered[evaluation]
    value = float(np.mean((outcomes - level) ** 2 - (outcomes - probabilities) ** 2))
    return ExcessRisk(value, _permutation_p_value(probabilities, outcomes, rng))


def _permutation_p_value(probabilities: FloatArray, outcomes: BoolArray, rng: np.random.Generator) -> float:
    """Return how often randomly chosen covered rows get predictions at least as good.

    Only the sum of the predicted probabilities over the covered rows depends on the permutation.
    """
    observed, n, k = probabilities[outcomes].sum(), len(outcomes), np.count_nonzero(outcomes)
    if n > _MAX_PERMUTED_ROWS:
        deviation = np.sqrt(k * (n - k) / (n - 1)) * probabilities.std()
        return float(ndtr(-(observed - k * probabilities.mean()) / deviation)) if deviation > 0 else 1.0
    sums = (float(rng.permutation(probabilities)[:k].sum()) for _ in range(_PERMUTATIONS))
    return float(1 + sum(total >= observed * (1 - 1e-12) for total in sums)) / (_PERMUTATIONS + 1)


_MAX_SEARCHED_ROWS = 20_000
_MIN_SHARE, _MAX_MIN_SHARE = 0.1, 0.2  # of the searched rows in a region
_MIN_ROWS = 50  # searched rows in a region, if that is less than a fifth; in fewer, low coverage is mostly chance
_MAX_CONDITIONS = 3  # depth of the tree
_MISSING = -1  # code of a missing number, below those of all values


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
    conditions : mapping from Feature to Range or Categories
        The condition on each of some features.
    """

    conditions: Mapping[Feature, Range | Categories]

    def contains(self) -> BoolArray:
        """Return which rows lie in the region."""
        return np.asarray(np.all([each.contains(feature) for feature, each in self.conditions.items()], axis=0))

    def rule(self) -> str:
        """Return the region in columns and values: carat > 1.02 and cut = Fair."""
        return " and ".join(each.text(feature) for feature, each in self.conditions.items())


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

    columns: Sequence[_NumberColumn | _CategoryColumn]
    matrix: NDArray[np.float32]

    @classmethod
    def of(cls, features: Sequence[Feature], rows: IntArray) -> "RegionSearch":
        """Return the search in some rows; features that are constant in these rows are left out."""
        pairs = [pair for feature in features for pair in _split_columns(feature, rows)]
        matrix = np.empty((len(rows), len(pairs)), dtype=np.float32)
        for position, (_, values) in enumerate(pairs):
            matrix[:, position] = values
        return cls(_named_by_first([column for column, _ in pairs]), matrix)

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
        conditions: dict[Feature, Any] = {}  # a column narrows a condition of its own kind
        for position, threshold, below in path:
            column = self.columns[position]
            current = conditions.get(column.feature)
            conditions[column.feature] = column.narrowed(current, threshold, below=below)
        return Region(conditions)


@dataclass(frozen=True, eq=False)
class FeatureSearch:
    """The features of some rows, split in two halves: one to search for low coverage, one to test the result.

    Computed once for many audits of the same rows.

    Parameters
    ----------
    features : sequence of Feature
        The features.
    halves : pair of ndarrays of int
        Rows to search, and rows to test on; both in random order.
    regions : RegionSearch
        The features of the first half, encoded for the search.
    seed : int
        Seed of the halves, and of the draws that follow.
    """

    features: Sequence[Feature]
    halves: tuple[IntArray, IntArray]
    regions: RegionSearch
    seed: int

    @classmethod
    def of(cls, features: Sequence[Feature], n: int, seed: int) -> "FeatureSearch":
        """Return the search in the features of n rows."""
        if features and len(features[0].values) != n:
            raise ValueError(f"X must have {n} rows, as many as the intervals; got {len(features[0].values)}")
        order = np.random.default_rng(seed).permutation(n)
        first, second = order[: n // 2], order[n // 2 :]
        return cls(features, (first, second), RegionSearch.of(features, _searched_rows(first)), seed)

    @cached_property
    def matrix(self) -> FloatArray:
        """The standardized features, see `standardized`. Shape (n, features)."""
        return standardized(self.features)

    def worst_region(self, covered: BoolArray) -> Region | None:
        """Return the region with the lowest coverage in the first half; None if the rows cannot be split."""
        return self.regions.worst(covered[_searched_rows(self.halves[0])])

    def generator(self) -> np.random.Generator:
        """Return the random generator for the draws that follow, the same at every call."""
        return np.random.default_rng([self.seed, 1])


def _searched_rows(half: IntArray) -> IntArray:
    """Return the first 20 000 rows of a half in random order, which are enough to find a region."""
    return half[:_MAX_SEARCHED_ROWS]


def _named_by_first(columns: "Sequence[_NumberColumn | _CategoryColumn]") -> "list[_NumberColumn | _CategoryColumn]":
    """Return the columns, where one stands for later ones that hold the same rows: a country for its code.

    So rules name the first of them. The tree sees all of them, and finds the same rows.
    """
    first: dict[Any, _NumberColumn | _CategoryColumn] = {}
    keys = [
        blake2b((each.feature.category_codes == each.code).tobytes()).digest()
        if isinstance(each, _CategoryColumn)
        else position
        for position, each in enumerate(columns)
    ]
    return [first.setdefault(key, each) for key, each in zip(keys, columns, strict=True)]


def _split_columns(feature: Feature, rows: IntArray) -> list[tuple[_NumberColumn | _CategoryColumn, NDArray[Any]]]:
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
    children = zip(tree.children_left, tree.children_right, strict=True)
    parents = {int(child): parent for parent, pair in enumerate(children) for child in pair if child >= 0}
    path: list[_Split] = []
    while node in parents:
        parent = parents[node]
        path.append((int(tree.feature[parent]), float(tree.threshold[parent]), tree.children_left[parent] == node))
        node = parent
    return path[::-1]
