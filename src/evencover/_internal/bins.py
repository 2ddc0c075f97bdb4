"""Bins of a number, at given edges or of equal frequency; the guarantee is exact for both.

**Why equal-frequency bins are exact.** Edge j of K bins is the floor(jn/K)-th smallest of the n calibration values,
and bins are closed above. Consider the n calibration rows and the new row together. The edges of the new row's bin
are the same whichever row of the bin is the new one, with one exception: the row on the upper edge. So this *edge row*
is calibrated separately: it is not used for new rows below the edge. Several calibration rows can be tied with the
edge. If one of them has a rank below the edge's rank, all of them are ordinary members of the bin. Otherwise all of
them are edge rows, used only for new rows that lie on the edge too. `Groups.edge` marks the edge rows. With this rule
the guarantee is exact for any values: distinct, tied or constant.

Rows of clusters are not exchangeable one by one, so this does not hold for them: their edges must be given.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray, check_count, checked_vector
from evencover.groups import Groups, Label


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of a number, closed above, and which edges have edge rows."""

    edges: FloatArray  # (K - 1,), increasing
    has_edge_rows: BoolArray  # (K - 1,), whether rows on this edge are calibrated separately
    name: str
    learned: bool = False  # whether the edges are values of calibration rows

    @classmethod
    def from_settings(cls, values: FloatArray, name: str, *, n_groups: Any, edges: Any, min_rows: Any) -> Self:
        """Return bins at given edges, or `n_groups` equal-frequency bins (by default 3; `min_rows` can reduce it)."""
        if edges is None:
            return cls.equal_frequency(values, _number_of_bins(len(values), n_groups, min_rows), name)
        if n_groups is not None or min_rows is not None:
            raise ValueError(
                f"bins of the {name} take either edges, or n_groups and min_rows; got edges together with n_groups or "
                "min_rows"
            )
        return cls.fixed(edges, name)

    @classmethod
    def fixed(cls, edges: Any, name: str) -> Self:
        """Return bins at given edges. Nothing is learned from the rows, so there are no edge rows."""
        edges = checked_vector(edges, "edges")
        if (np.diff(edges) <= 0).any():
            raise ValueError(f"edges must be strictly increasing; got {edges.tolist()}")
        return cls(edges, np.zeros(len(edges), dtype=bool), name)

    @classmethod
    def equal_frequency(cls, values: FloatArray, n_groups: int, name: str) -> Self:
        """Return bins whose j-th edge is the floor(j n / K)-th smallest value; the 0-th smallest is minus infinity."""
        ranks = np.arange(1, n_groups) * len(values) // n_groups
        sorted_values = np.append(-np.inf, np.sort(values))
        edges = sorted_values[ranks]
        has_edge_rows = np.searchsorted(sorted_values, edges, side="left") == ranks
        return cls(edges, has_edge_rows, name, learned=len(edges) > 0)

    @property
    def rules(self) -> tuple[str, ...]:
        """Each bin as an inequality, with all digits of its edges."""
        if not len(self.edges):
            return (f"any {self.name}",)
        inner = zip(self.edges.tolist()[:-1], self.edges.tolist()[1:], strict=True)
        return (
            f"{self.name} <= {self.edges[0]}",
            *(f"{low} < {self.name} <= {high}" for low, high in inner),
            f"{self.edges[-1]} < {self.name}",
        )

    def groups(self, values: FloatArray, labels: tuple[Label, ...] | None = None) -> Groups:
        """Return the bin of each value, with edge rows marked; default labels go from low to high."""
        codes = np.searchsorted(self.edges, values, side="left")
        rules = () if labels == self.rules else self.rules
        labels = labels or _ordinal_labels(len(self.edges) + 1)
        if not self.has_edge_rows.any():
            return Groups(codes, labels, rules, n_edge_bits=int(self.learned))
        is_edge_row = np.append(self.edges, np.nan)[codes] == values
        is_edge_row &= np.append(self.has_edge_rows, False)[codes]
        return Groups(codes, labels, rules, is_edge_row.astype(np.intp), 1)


def _number_of_bins(n: int, n_groups: Any, min_rows: Any) -> int:
    """Return the number of bins for n calibration rows. It depends only on n and the settings, so bins stay exact."""
    requested = 3 if n_groups is None else n_groups
    for name, value in (("n_groups", requested), ("min_rows", min_rows)):
        if value is not None:
            check_count(value, name)
    # Each bin but the last loses one row, its edge row.
    return int(requested if min_rows is None else max(1, min(requested, n // (min_rows + 1))))


def _ordinal_labels(n_groups: int) -> tuple[Label, ...]:
    """Return labels for bins, from low to high."""
    few: dict[int, tuple[Label, ...]] = {1: ("all",), 2: ("low", "high"), 3: ("low", "medium", "high")}
    many = ("1 (lowest)", *map(str, range(2, n_groups)), f"{n_groups} (highest)")
    return few.get(n_groups, many)
