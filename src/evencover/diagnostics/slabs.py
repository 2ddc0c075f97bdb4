"""Slabs of the feature space: where rows are covered least."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evencover.diagnostics.features import Feature
from evencover.inputs import BoolArray, FloatArray

SEARCHED = 20_000  # rows that are enough to look for slabs in
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
    share = np.where(sizes >= _SHARE * len(places), (hits[None, :] - hits[:, None]) / np.maximum(sizes, 1), np.inf)
    first, last = np.unravel_index(np.argmin(share), share.shape)
    low = -np.inf if first == 0 else float(np.nextafter(edges[first], np.inf))
    high = np.inf if last == n_cells else float(edges[last])
    return float(share[first, last]), Slab(direction, low, high)
