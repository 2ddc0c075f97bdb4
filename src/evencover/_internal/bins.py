"""Bins of a number: at given edges, or of equal frequency and still exactly valid.

**Equal-frequency bins, exactly.** Edge j of K bins is the floor(jn/K)-th smallest of the n calibration values, and
bins are closed above. Seen among all n + 1 rows, the edges of the new row's bin do not depend on which row of
the bin is the new one, except for the row that *is* the upper edge. So that row stands apart: it does not count
for new rows below it. If calibration rows tied with the edge also lie below its rank, all of them are ordinary
members; otherwise all of them stand apart, counting only for new rows on the edge themselves. `Groups.edge`
marks the rows that stand apart, and with them the guarantee is exact for any values: distinct, tied or constant.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray, checked_vector
from evencover.groups import Groups, Label


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of a number, closed above, with the edges whose rows stand apart."""

    edges: FloatArray  # (K - 1,), increasing
    apart: BoolArray  # (K - 1,)
    name: str

    @classmethod
    def from_settings(cls, values: FloatArray, name: str, *, n_groups: Any, edges: Any, min_rows: Any) -> Self:
        """Bins at given edges, else of equal frequency: `n_groups` (3 by default), or fewer for `min_rows` in each."""
        if edges is None:
            return cls.equal_frequency(values, _number_of_bins(len(values), n_groups, min_rows), name)
        if n_groups is not None or min_rows is not None:
            raise ValueError(f"bins of the {name} take n_groups and min_rows, or edges, not both")
        return cls.fixed(edges, name)

    @classmethod
    def fixed(cls, edges: Any, name: str) -> Self:
        """Bins at given edges: nothing is learned, so no row stands apart."""
        edges = checked_vector(edges, "edges")
        if (np.diff(edges) <= 0).any():
            raise ValueError(f"edges must increase; got {edges.tolist()}")
        return cls(edges, np.zeros(len(edges), dtype=bool), name)

    @classmethod
    def equal_frequency(cls, values: FloatArray, n_groups: int, name: str) -> Self:
        """Bins whose j-th edge is the floor(j n / K)-th smallest value, minus infinity for the 0-th."""
        ranks = np.arange(1, n_groups) * len(values) // n_groups
        ladder = np.append(-np.inf, np.sort(values))
        edges = ladder[ranks]
        return cls(edges, np.searchsorted(ladder, edges, side="left") == ranks, name)

    @property
    def rules(self) -> tuple[str, ...]:
        """Each bin in words, its edges in full."""
        if not len(self.edges):
            return (f"any {self.name}",)
        inner = zip(self.edges.tolist()[:-1], self.edges.tolist()[1:], strict=True)
        return (
            f"{self.name} <= {self.edges[0]}",
            *(f"{low} < {self.name} <= {high}" for low, high in inner),
            f"{self.edges[-1]} < {self.name}",
        )

    def groups(self, values: FloatArray, labels: tuple[Label, ...] | None = None) -> Groups:
        """Return each value's bin, named from low to high unless labels are given; rows that stand apart marked."""
        codes = np.searchsorted(self.edges, values, side="left")
        rules = () if labels == self.rules else self.rules
        labels = labels or _ordinal_labels(len(self.edges) + 1)
        if not self.apart.any():
            return Groups(codes, labels, rules)
        edge = np.append(self.edges, np.nan)[codes] == values
        edge &= np.append(self.apart, False)[codes]
        return Groups(codes, labels, rules, edge.astype(np.intp), 1)


def _number_of_bins(n: int, n_groups: Any, min_rows: Any) -> int:
    """Return how many bins n calibration rows get: a function of n and the settings alone, so still exact."""
    wanted = 3 if n_groups is None else n_groups
    for name, value in (("n_groups", wanted), ("min_rows", min_rows)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < 1):
            raise ValueError(f"{name} must be a whole number, 1 or more; got {value!r}")
    # Each bin but the last gives one row to its edge.
    return int(wanted if min_rows is None else max(1, min(wanted, n // (min_rows + 1))))


def _ordinal_labels(n_groups: int) -> tuple[Label, ...]:
    """Return names for bins from low to high."""
    few: dict[int, tuple[Label, ...]] = {1: ("all",), 2: ("low", "high"), 3: ("low", "medium", "high")}
    many = ("1 (lowest)", *map(str, range(2, n_groups)), f"{n_groups} (highest)")
    return few.get(n_groups, many)
