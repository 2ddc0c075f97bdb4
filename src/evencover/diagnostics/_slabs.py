"""Search the space of the features for the slab with the lowest coverage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover._internal.arrays import BoolArray, FloatArray, IntArray
from evencover.diagnostics._feature_strata import Feature, Features

_MAX_SEARCHED_ROWS = 20_000
_N_DIRECTIONS = 200
_N_BINS = 40  # along each direction; a slab is a run of neighbouring bins
_MIN_SHARE = 0.2  # of the rows in a slab


@dataclass(frozen=True, eq=False)
class Slab:
    """Rows between two parallel planes in the space of the standardised features.

    Parameters
    ----------
    direction : ndarray of shape (features,)
        Normal vector of the planes.
    low, high : float
        Positions of the planes along the direction.
    """

    direction: FloatArray
    low: float
    high: float

    def contains(self, X: FloatArray) -> BoolArray:
        """Return which rows of standardised features lie in the slab."""
        projections = X @ self.direction
        return np.asarray((self.low <= projections) & (projections <= self.high))

    def rule(self, features: Sequence[Feature]) -> str:
        """Return the slab as an inequality: of one feature in its unit, or of the three with the largest weights."""
        main = np.argsort(-np.abs(self.direction), kind="stable")[:3]
        if np.count_nonzero(self.direction) == 1:  # the one weight is 1 or -1
            feature = features[main[0]]
            center, unit = feature.center_and_unit()
            low, high = sorted(end * self.direction[main[0]] * unit + center for end in (self.low, self.high))
            return f"{feature.value_text(low)} <= {feature.name} <= {feature.value_text(high)}"
        parts = " ".join(f"{self.direction[i]:+.2f} {features[i].name}" for i in main)
        rest = " ..." if len(features) > len(main) else ""
        return (
            f"{self.low:.3g} <= {parts}{rest} <= {self.high:.3g}, each feature in standard deviations from its median"
        )


@dataclass(frozen=True, eq=False)
class SlabSearch:
    """All candidate slabs of some rows, to be searched for the lowest coverage of any intervals.

    Parameters
    ----------
    directions : ndarray of shape (D, features)
        Normal vectors of the slabs.
    edges : sequence of D ndarrays
        Where slabs along each direction may begin and end: quantiles of the rows' projections on it.
    bins : ndarray of int, shape (D, n)
        The bin of each row along each direction, between neighbouring edges.
    sizes : ndarray of int, shape (D, edges, edges)
        Number of rows of the slab from each edge to each other edge.

    References
    ----------
    Cauchois, Gupta, Duchi (2021), Knowing what you know: valid and validated confidence sets in multiclass and
    multilabel prediction.
    """

    directions: FloatArray
    edges: Sequence[FloatArray]
    bins: NDArray[np.int8]
    sizes: IntArray

    @classmethod
    def of(cls, X: FloatArray, rng: np.random.Generator) -> "SlabSearch":
        """Return the slabs along the first 200 features and along 200 random directions."""
        random = rng.normal(size=(_N_DIRECTIONS, X.shape[1]))
        directions = np.concatenate(
            [np.eye(X.shape[1])[:_N_DIRECTIONS], random / np.linalg.norm(random, axis=1, keepdims=True)]
        )
        edges, bins = [], np.empty((len(directions), len(X)), dtype=np.int8)
        for row, direction in enumerate(directions):
            projections = X @ direction
            own_edges = np.unique(np.quantile(projections, np.linspace(0, 1, _N_BINS + 1)))
            positions = np.searchsorted(own_edges, projections, side="left") - 1
            bins[row] = np.clip(positions, 0, max(len(own_edges) - 2, 0))  # the first bin includes its lower edge
            edges.append(own_edges)
        return cls(directions, edges, bins, _slab_counts(bins))

    def worst(self, covered: BoolArray) -> Slab:
        """Return the slab with the lowest coverage among those with at least a fifth of the rows."""
        covered_counts = _slab_counts(self.bins[:, covered])
        large = self.sizes >= _MIN_SHARE * len(covered)
        share = np.where(large, covered_counts / np.maximum(self.sizes, 1), np.inf)
        row, first, last = map(int, np.unravel_index(np.argmin(share), share.shape))
        edges = self.edges[row]
        low = -np.inf if first == 0 else float(np.nextafter(edges[first], np.inf))
        high = np.inf if last >= max(len(edges) - 1, 1) else float(edges[last])
        return Slab(self.directions[row], low, high)


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
    slabs : SlabSearch or None
        Slabs of the first half; None without rows or features.
    state : mapping
        State of the random generator, for the draws that follow.
    """

    features: Features
    halves: tuple[IntArray, IntArray]
    slabs: SlabSearch | None
    state: Mapping[str, Any]

    @classmethod
    def of(cls, X: Any, n: int, seed: int) -> "FeatureSearch":
        """Return the search in a table of n rows; a `FeatureSearch` is returned unchanged."""
        if isinstance(X, FeatureSearch):
            return X
        features = Features.of(X)
        if features.columns and len(features) != n:
            raise ValueError(f"X must have {n} rows, as many as the intervals; got {len(features)}")
        rng = np.random.default_rng(seed)
        order = rng.permutation(n)
        first, second = order[: n // 2], order[n // 2 :]
        searchable = len(first) and features.columns
        slabs = SlabSearch.of(features.matrix[_searched_rows(first)], rng) if searchable else None
        return cls(features, (first, second), slabs, rng.bit_generator.state)

    def worst_slab(self, covered: BoolArray) -> Slab | None:
        """Return the slab with the lowest coverage in the first half."""
        return None if self.slabs is None else self.slabs.worst(covered[_searched_rows(self.halves[0])])

    def generator(self) -> np.random.Generator:
        """Return the random generator for the draws that follow, the same at every call."""
        rng = np.random.default_rng(0)
        rng.bit_generator.state = self.state
        return rng


def _searched_rows(half: IntArray) -> IntArray:
    """Return the first 20 000 rows of a half in random order, which are enough to find a slab."""
    return half[:_MAX_SEARCHED_ROWS]


def _slab_counts(bins: NDArray[np.int8]) -> IntArray:
    """Return the number of rows from each edge to each other edge, along each direction. Shape (D, edges, edges)."""
    counts = np.stack([np.bincount(along, minlength=_N_BINS) for along in bins])
    below = np.concatenate([np.zeros((len(bins), 1), dtype=np.intp), np.cumsum(counts, axis=1)], axis=1)
    return np.asarray(below[:, None, :] - below[:, :, None])
