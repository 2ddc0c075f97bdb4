"""The search in the space of features: slabs where rows are covered least."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover._internal.arrays import BoolArray, FloatArray, IntArray
from evencover.diagnostics._feature_strata import Feature, Features

_SEARCHED = 20_000  # rows that are enough to look for slabs in
_DIRECTIONS = 200
_CUTS = 40  # ends that a slab may have
_SHARE = 0.2


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

    def rule(self, features: Sequence[Feature]) -> str:
        """Return it in words: the feature's own bounds, or the features that its direction has most of."""
        main = np.argsort(-np.abs(self.direction), kind="stable")[:3]
        if np.count_nonzero(self.direction) == 1:  # which is then 1 or -1
            feature = features[main[0]]
            center, unit = feature.center_and_unit()
            low, high = sorted(end * self.direction[main[0]] * unit + center for end in (self.low, self.high))
            return f"{feature.written(low)} <= {feature.name} <= {feature.written(high)}"
        parts = " ".join(f"{self.direction[i]:+.2f} {features[i].name}" for i in main)
        rest = " ..." if len(features) > len(main) else ""
        return f"{self.low:.3g} <= {parts}{rest} <= {self.high:.3g}, features in standard deviations from their medians"


@dataclass(frozen=True, eq=False)
class SlabSearch:
    """Slabs of rows whose features are known, ready to be searched for the least coverage of any intervals.

    Parameters
    ----------
    directions : ndarray of shape (D, features)
        Normal to the slabs' planes.
    edges : sequence of D ndarrays
        Where slabs along each direction may begin and end: at quantiles of the rows' places along it.
    cells : ndarray of int, shape (D, n)
        Between which edges along each direction a row lies.
    sizes : ndarray of int, shape (D, ends, ends)
        Rows of the slab from each end to each other one.

    References
    ----------
    Cauchois, Gupta, Duchi (2021), Knowing what you know: valid and validated confidence sets in multiclass and
    multilabel prediction.
    """

    directions: FloatArray
    edges: Sequence[FloatArray]
    cells: NDArray[np.int8]
    sizes: IntArray

    @classmethod
    def of(cls, X: FloatArray, rng: np.random.Generator) -> "SlabSearch":
        """Return the slabs along the directions of the features, the first 200 of them, and along 200 at random."""
        drawn = rng.normal(size=(_DIRECTIONS, X.shape[1]))
        directions = np.concatenate(
            [np.eye(X.shape[1])[:_DIRECTIONS], drawn / np.linalg.norm(drawn, axis=1, keepdims=True)]
        )
        edges, cells = [], np.empty((len(directions), len(X)), dtype=np.int8)
        for row, direction in enumerate(directions):
            places = X @ direction
            ends = np.unique(np.quantile(places, np.linspace(0, 1, _CUTS + 1)))
            found = np.searchsorted(ends, places, side="left") - 1
            cells[row] = np.clip(found, 0, max(len(ends) - 2, 0))  # the first cell is closed
            edges.append(ends)
        return cls(directions, edges, cells, _between_ends(cells))

    def worst(self, covered: BoolArray) -> Slab:
        """Return the slab of least coverage among those with a fifth of the rows or more."""
        hits = _between_ends(self.cells[:, covered])
        large = self.sizes >= _SHARE * len(covered)
        share = np.where(large, hits / np.maximum(self.sizes, 1), np.inf)
        row, first, last = map(int, np.unravel_index(np.argmin(share), share.shape))
        edges = self.edges[row]
        low = -np.inf if first == 0 else float(np.nextafter(edges[first], np.inf))
        high = np.inf if last >= max(len(edges) - 1, 1) else float(edges[last])
        return Slab(self.directions[row], low, high)


@dataclass(frozen=True, eq=False)
class FeatureSearch:
    """The features of some rows, ready to look for rows that any intervals miss more often.

    What is found on one half of the rows is judged on the other. Made once for many audits of the same rows.

    Parameters
    ----------
    features : Features of n rows
        The features.
    halves : pair of ndarrays of int
        Rows to search, and rows to judge by.
    slabs : SlabSearch or None
        Slabs of the first half; None without rows or features.
    state : mapping
        Of the random generator, for the draws that follow.
    """

    features: Features
    halves: tuple[IntArray, IntArray]
    slabs: SlabSearch | None
    state: Mapping[str, Any]

    @classmethod
    def of(cls, X: Any, n: int, seed: int) -> "FeatureSearch":
        """Return the search in a table of n rows, or what is that already."""
        if isinstance(X, FeatureSearch):
            return X
        features = Features.of(X)
        if features.columns and len(features) != n:
            raise ValueError(f"X must have {n} rows, as many as the intervals; got {len(features)}")
        rng = np.random.default_rng(seed)
        order = rng.permutation(n)
        first, second = order[: n // 2], order[n // 2 :]
        some = len(first) and features.columns
        slabs = SlabSearch.of(features.matrix[first[:_SEARCHED]], rng) if some else None
        return cls(features, (first, second), slabs, rng.bit_generator.state)

    def worst_slab(self, covered: BoolArray) -> Slab | None:
        """Return the slab of the first half that is covered least."""
        return None if self.slabs is None else self.slabs.worst(covered[self.halves[0][:_SEARCHED]])

    def generator(self) -> np.random.Generator:
        """Return the random generator for the draws that follow, the same at every call."""
        rng = np.random.default_rng(0)
        rng.bit_generator.state = self.state
        return rng


def _between_ends(cells: NDArray[np.int8]) -> IntArray:
    """Return how many rows lie from each end to each other one, along each direction. Shape (D, ends, ends)."""
    counts = np.stack([np.bincount(along, minlength=_CUTS) for along in cells])
    below = np.concatenate([np.zeros((len(cells), 1), dtype=np.intp), np.cumsum(counts, axis=1)], axis=1)
    return np.asarray(below[:, None, :] - below[:, :, None])
