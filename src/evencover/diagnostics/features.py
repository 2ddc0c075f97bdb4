"""Coverage against the features: rows told apart by what their features are, found on rows other than those judged."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.ensemble import HistGradientBoostingClassifier

from evencover.bins import Bins
from evencover.diagnostics.counts import SIGNIFICANT
from evencover.diagnostics.words import probability
from evencover.groups import Groups, first_few, is_missing
from evencover.inputs import BoolArray, FloatArray, IntArray
from evencover.tables import column, column_names, frame_kind

_STRATA = 3
_CATEGORIES = 10  # distinct values up to which a number counts as a category
_ROWS_A_CATEGORY = 5
_MOST_CATEGORIES = 20  # the most frequent ones; the others are pooled
_DIRECTIONS = 200
_CUTS = 40  # ends that a slab may have
_SLAB_SHARE = 0.2
SEARCHED = 20_000  # rows that slabs are looked for in
_TRAINED = 100_000  # rows that the classifier learns from
_PERMUTED = 10_000  # rows up to which permutations are drawn
_PERMUTATIONS = 999


@dataclass(frozen=True, eq=False)
class Feature:
    """One feature as numbers: itself, or the codes of its categories; NaN where it is missing.

    Parameters
    ----------
    name : str
        Of the column.
    values : ndarray of shape (n,)
        The numbers.
    categories : tuple of str or None
        What the codes stand for.
    dates : bool
        Whether the numbers are microseconds since 1970.
    """

    name: str
    values: FloatArray
    categories: tuple[str, ...] | None = None
    dates: bool = False

    def strata(self) -> Groups:
        """Return groups of the rows by this feature: categories, or thirds, and one of rows where it is missing."""
        missing = np.isnan(self.values)
        known = np.unique(self.values[~missing])
        few = len(known) <= min(_CATEGORIES, max(_STRATA, len(self.values) // _ROWS_A_CATEGORY))
        if self.categories is not None or few:
            labels = [f"{self.name} = {text}" for text in self._texts(known)]
            codes = np.searchsorted(known, self.values)
        else:
            edges = np.unique(Bins.equal_frequency(self.values[~missing], _STRATA, self.name).edges)
            edges = edges[edges < known[-1]] if edges[0] < known[-1] else known[-2:-1]  # the last bin has rows
            texts = self._texts(edges)
            between = [f"{low} < {self.name} <= {high}" for low, high in pairwise(texts)]
            labels = [f"{self.name} <= {texts[0]}", *between, f"{self.name} > {texts[-1]}"]
            codes = np.searchsorted(edges, self.values)
        codes = np.where(missing, len(labels), codes)
        return Groups(codes, (*labels, f"{self.name} missing") if missing.any() else tuple(labels))

    def center_and_unit(self) -> tuple[float, float]:
        """Return the median and the standard deviation, 1 where that is 0; of huge numbers, too."""
        known = self.values[~np.isnan(self.values)]
        center = float(np.median(known)) if len(known) else 0.0
        largest = float(np.abs(known - center).max(initial=0.0)) or 1.0
        return center, largest * (float(((known - center) / largest).std()) if len(known) else 0.0) or 1.0

    def _texts(self, values: FloatArray) -> list[str]:
        """Return values as text, numbers as short as they can be told apart."""
        if self.categories is not None:
            return [self.categories[int(value)] for value in values]
        if self.dates:
            return [str(np.datetime64(int(value), "us").item()) for value in values]
        short = [f"{value:.4g}" for value in values]
        return short if len(set(short)) == len(short) else [repr(float(value)) for value in values]


def features_of(X: Any) -> list[Feature]:
    """Return the columns of a table as features."""
    table = X.toarray() if hasattr(X, "toarray") else X if frame_kind(X) is not None else np.asarray(X)
    if len(np.shape(table)) != 2:
        raise ValueError(f"X must be two-dimensional, of shape (n, features); got shape {np.shape(table)}")
    names = column_names(table)
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"X must have a name of its own for each column; got {first_few(names)}")
    keys = range(table.shape[1]) if names is None else names
    return [_feature(key if isinstance(key, str) else f"column {key}", column(table, key, "audit")) for key in keys]


@dataclass(frozen=True, eq=False)
class Slab:
    """Rows between two parallel planes in the space of the standardised features.

    Parameters
    ----------
    direction : ndarray of shape (features,)
        Normal to the planes.
    low, high : float
        Where they lie along it.
    """

    direction: FloatArray
    low: float
    high: float

    def holds(self, X: FloatArray) -> BoolArray:
        """Return which rows of standardised features lie in it."""
        places = X @ self.direction
        return np.asarray((self.low <= places) & (places <= self.high))

    def rule(self, features: list[Feature]) -> str:
        """Return it in words: the feature's own bounds, or the features that its direction has most of."""
        main = np.argsort(-np.abs(self.direction), kind="stable")[:3]
        if np.count_nonzero(self.direction) == 1:
            center, unit = features[main[0]].center_and_unit()
            low, high = self.low * unit + center, self.high * unit + center
            return f"{low:.4g} <= {features[main[0]].name} <= {high:.4g}"
        parts = " ".join(f"{self.direction[i]:+.2f} {features[i].name}" for i in main)
        rest = " ..." if len(features) > len(main) else ""
        return f"{self.low:.3g} <= {parts}{rest} <= {self.high:.3g}, features in standard deviations from their medians"


def standardized(features: list[Feature]) -> FloatArray:
    """Return the features with median 0 and deviation 1; 0 where one is missing or constant. Shape (n, features)."""
    found = np.empty((len(features[0].values), len(features)))
    for place, feature in enumerate(features):
        center, unit = feature.center_and_unit()
        found[:, place] = np.nan_to_num((feature.values - center) / unit)
    return found


def worst_slab(X: FloatArray, covered: BoolArray, rng: np.random.Generator) -> Slab:
    """Return the slab of least coverage among those with a fifth of the rows or more.

    Directions are those of the features, the first 200 of them, and 200 at random.

    References
    ----------
    Cauchois, Gupta, Duchi (2021), Knowing what you know: valid and validated confidence sets in multiclass and
    multilabel prediction.
    """
    drawn = rng.normal(size=(_DIRECTIONS, X.shape[1]))
    directions = np.concatenate(
        [np.eye(X.shape[1])[:_DIRECTIONS], drawn / np.linalg.norm(drawn, axis=1, keepdims=True)]
    )
    found = [_worst_along(direction, X @ direction, covered) for direction in directions]
    return min(found, key=lambda each: each[0])[1]


def _worst_along(direction: FloatArray, places: FloatArray, covered: BoolArray) -> tuple[float, Slab]:
    """Return the least coverage, and its slab, along one direction, with ends at quantiles."""
    edges = np.unique(np.quantile(places, np.linspace(0, 1, _CUTS + 1)))
    cells = np.clip(np.searchsorted(edges, places, side="left") - 1, 0, max(len(edges) - 2, 0))  # the first is closed
    n_cells = max(len(edges) - 1, 1)
    rows = np.append(0, np.cumsum(np.bincount(cells, minlength=n_cells)))
    hits = np.append(0, np.cumsum(np.bincount(cells, covered, minlength=n_cells)))
    sizes = rows[None, :] - rows[:, None]  # (first end, last end)
    share = np.where(sizes >= _SLAB_SHARE * len(places), (hits[None, :] - hits[:, None]) / np.maximum(sizes, 1), np.inf)
    first, last = np.unravel_index(np.argmin(share), share.shape)
    low = -np.inf if first == 0 else float(np.nextafter(edges[first], np.inf))
    high = np.inf if last == n_cells else float(edges[last])
    return float(share[first, last]), Slab(direction, low, high)


@dataclass(frozen=True)
class ExcessRisk:
    """Whether the features tell covered rows from missed ones: the excess risk of the target coverage (ERT).

    Parameters
    ----------
    value : float
        How much better a classifier of the features predicts whether a row is covered than the level does: the mean
        difference of squared errors. It estimates a lower bound of the mean squared distance of the conditional
        coverage from the level; below 0 where the classifier found nothing.
    p_value : float
        By permutation, or with more than 10 000 rows by its normal limit: for the null that coverage, given this
        calibration, does not depend on the features. Of a valid predictor calibrated per group it does, by chance.

    References
    ----------
    Braun, Holzmüller, Jordan, Bach (2025), Conditional coverage diagnostics for conformal prediction.
    """

    value: float
    p_value: float

    def __str__(self) -> str:
        told = "yes" if self.p_value < SIGNIFICANT else "not beyond chance"
        by = f"ERT {self.value:.4f}" if self.value > 0 else "ERT not above 0"
        return f"{told} (p {probability(self.p_value)} given this calibration; {by})"


def excess_risk(
    X: FloatArray, covered: BoolArray, halves: tuple[IntArray, IntArray], level: float, rng: np.random.Generator
) -> ExcessRisk:
    """Return the excess risk on the second half of the rows, by a classifier that learned from the first."""
    learned, judged = halves[0][:_TRAINED], halves[1]
    if len(np.unique(covered[learned])) < 2 or not len(judged):
        return ExcessRisk(0.0, 1.0)
    classifier = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, early_stopping=False, random_state=0)
    guesses = classifier.fit(X[learned], covered[learned]).predict_proba(X[judged])[:, 1]
    hits = covered[judged]
    value = float(np.mean((hits - level) ** 2 - (hits - guesses) ** 2))
    return ExcessRisk(value, _permutation_p_value(guesses, hits, rng))


def _permutation_p_value(guesses: FloatArray, hits: BoolArray, rng: np.random.Generator) -> float:
    """Return how often covered rows drawn at random would be guessed as well: only the sum over them matters."""
    observed, n, k = guesses[hits].sum(), len(hits), np.count_nonzero(hits)
    if n > _PERMUTED:
        scatter = np.sqrt(k * (n - k) / (n - 1)) * guesses.std()
        return float(ndtr(-(observed - k * guesses.mean()) / scatter)) if scatter > 0 else 1.0
    sums = _sums_of_random_rows(guesses, int(k), rng)
    return float(1 + sum(total >= observed * (1 - 1e-12) for total in sums)) / (_PERMUTATIONS + 1)


def _sums_of_random_rows(values: FloatArray, k: int, rng: np.random.Generator) -> Iterator[float]:
    for _ in range(_PERMUTATIONS):
        yield float(rng.permutation(values)[:k].sum())


def _feature(name: str, values: Any) -> Feature:
    """Return a column as a feature: numbers and dates as they are, anything else by its categories."""
    if values.dtype.kind == "M":
        times = values.astype("datetime64[us]")
        return Feature(name, np.where(np.isnat(times), np.nan, times.astype(np.int64)), dates=True)
    if values.dtype.kind == "b":
        return Feature(name, values.astype(float), ("False", "True"))
    numbers = _as_numbers(values)
    if numbers is not None:
        if np.isinf(numbers).any():
            raise ValueError(f"X must be finite or missing; {name} has {np.isinf(numbers).sum()} infinite values")
        return Feature(name, numbers)
    missing = is_missing(values.astype(object))
    texts = [str(value) for value in values[~missing]]
    kept = sorted(text for text, _ in Counter(texts).most_common(_MOST_CATEGORIES))
    place = {text: code for code, text in enumerate(kept)}
    codes = np.full(len(values), np.nan)
    codes[~missing] = [place.get(text, len(kept)) for text in texts]
    return Feature(name, codes, (*kept, "any other"))


def _as_numbers(values: Any) -> FloatArray | None:
    """Return a column of numbers, some perhaps missing, as floats; None for any other."""
    if values.dtype.kind == "O" and not any(isinstance(value, str | bytes) for value in values):
        try:
            return np.asarray(values.astype(float))
        except (TypeError, ValueError, OverflowError):
            return None
    return np.asarray(values.astype(float)) if values.dtype.kind in "biuf" else None
