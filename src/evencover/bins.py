"""Bins of a number, at given edges or of equal frequency; the guarantee is exact for both.

**Why equal-frequency bins are exact.** Edge j of K bins is the floor(jn/K)-th smallest of the n calibration values,
and bins are closed above. Consider the n calibration rows and the new row together. The edges of the new row's bin
are the same whichever row of the bin is the new one, with one exception: the row on the upper edge. So this *edge row*
is calibrated separately: it is not used for new rows below the edge. Several calibration rows can be tied with the
edge. If one of them has a rank below the edge's rank, all of them are ordinary members of the bin. Otherwise all of
them are edge rows, used only for new rows that lie on the edge too. `Groups.edge` marks the edge rows. With this rule
the guarantee is exact for any values: distinct, tied or constant.

The same in one sentence: with v the sorted values of all n + 1 rows, the bins are those between the v[floor(jn/K)].
They do not depend on which row is the new one, and the new row is compared with the other rows of its bin.

**Why bins that cannot be told apart are merged.** Two equal edges have no value between them, so one of them is left
out; no row changes its bin. If the last edge is tied with all larger values but at most one of the n + 1 rows,
v[floor((K-1)n/K)] = v[n], then the last two bins are one. This, too, does not depend on which row is the new one. So:

- no calibration row is above the last edge: it is left out, and new rows above it belong to the bin below it;
- one calibration row is above it: new rows on or below the edge are compared also with this row, which therefore
  counts as a row on the edge; new rows above it are in a bin without calibration rows, so their intervals are infinite;
- more rows are above it: nothing is merged.

With n <= K every bin has at most one row, and the last two bins are not merged.

**Rounding.** Learned bins compare values rounded to 30 bits, a relative precision of 1e-9. So values that differ by
rounding errors are tied. Each row is rounded by itself, so the guarantee stays exact.

Rows of clusters are not exchangeable one by one, so this does not hold for them: their edges must be given.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from evencover.groups import Groups, Label
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, check_count, checked_vector, is_on_device
from evencover.inputs.device_arrays import device_of, namespace

_LAST_BIT = np.uint64(2 ** (53 - 30))  # of the 53 significant bits of a number, learned bins compare the first 30


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of a number, closed above, and which edges have edge rows. The defaults are those of older files."""

    edges: FloatArray  # (G - 1,), increasing
    has_edge_rows: BoolArray  # (G - 1,), whether rows on this edge are calibrated separately
    name: str
    top: float = np.nan  # rows of the last bin from this value on are its edge rows
    n_requested: int = 0  # number of equal-frequency bins before merging; 0 for given edges
    largest_tie: float = 0.0  # largest share of calibration rows that are tied with an edge
    rounded: bool = False  # whether values are compared without rounding errors
    learned: bool = False  # whether the calibration rows decide which bins there are

    @classmethod
    def from_settings(cls, values: FloatArray, name: str, *, n_groups: Any, edges: Any, min_rows: Any) -> Self:
        """Return bins at given edges, or `n_groups` equal-frequency bins (by default 3; `min_rows` can reduce it)."""
        if edges is None:
            return cls.equal_frequency(values, _number_of_bins(values.shape[0], n_groups, min_rows), name)
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
        """Return bins whose j-th edge is the floor(j n / K)-th smallest value, without those that cannot have rows."""
        if is_on_device(values):
            raise ValueError(
                f"bins of the {name} need edges for arrays on a device, such as edges=[1.0, 2.0]; got none"
            )
        sorted_values = np.append(-np.inf, np.sort(values))
        compared = without_rounding_errors(sorted_values)
        ranks = equal_frequency_ranks(len(values), n_groups)
        ranks = ranks[np.unique(compared[ranks], return_index=True)[1]]  # the first of equal edges
        ranks = ranks[ranks > 0]
        first, last = (np.searchsorted(compared, compared[ranks], side=side) for side in ("left", "right"))
        edges, has_edge_rows, top = sorted_values[ranks], first == ranks, np.nan
        if n_groups < len(values) and len(ranks) and last[-1] > len(values):  # no row above the last edge
            top = edges[-1] if has_edge_rows[-1] else np.nan
            edges, has_edge_rows = edges[:-1], has_edge_rows[:-1]
        n_requested = max(1, min(n_groups, len(values)))
        largest_tie = float(np.max((last - first) / max(len(values), 1), initial=0.0))
        learned = n_requested > 1  # also if the bins were merged to one
        return cls(edges, has_edge_rows, name, float(top), n_requested, largest_tie, rounded=True, learned=learned)

    @property
    def merged(self) -> bool:
        """Whether there are fewer bins than requested, because many rows have the same value."""
        return len(self.edges) + 1 < self.n_requested

    @property
    def rules(self) -> tuple[str, ...]:
        """Each bin as an inequality, with all digits of its edges."""
        edge = "" if np.isnan(self.top) else f" (edge rows from {self.top} on)"
        if not len(self.edges):
            return (f"any {self.name}{edge}",)
        inner = zip(self.edges.tolist()[:-1], self.edges.tolist()[1:], strict=True)
        return (
            f"{self.name} <= {self.edges[0]}",
            *(f"{low} < {self.name} <= {high}" for low, high in inner),
            f"{self.edges[-1]} < {self.name}{edge}",
        )

    def calibration_groups(self, values: FloatArray) -> Groups:
        """Return the bin of each calibration row; a single row above the last of several edges counts as on it."""
        if not self.n_requested:
            return self.groups(values)
        compared, edges = self._compared(values), self._compared(self.edges)
        if 0 < self.n_requested < len(values) and len(edges) and np.count_nonzero(compared > edges[-1]) == 1:
            values = np.minimum(values, self.edges[-1])
        return self.groups(values)

    def groups(self, values: FloatArray, labels: tuple[Label, ...] | None = None) -> Groups:
        """Return the bin of each value, with edge rows marked; default labels go from low to high."""
        if is_on_device(values):
            return Groups(bin_codes(values, self.edges), labels or _ordinal_labels(len(self.edges) + 1), self.rules)
        values, upper_ends = self._compared(values), self._compared(np.append(self.edges, self.top))
        codes = np.searchsorted(upper_ends[:-1], values, side="left")
        rules = () if labels == self.rules else self.rules
        labels = labels or _ordinal_labels(len(self.edges) + 1)
        has_edge_rows = np.append(self.has_edge_rows, not np.isnan(self.top))
        if not has_edge_rows.any():
            return Groups(codes, labels, rules, n_edge_bits=int(self.learned))
        is_edge_row = (upper_ends[codes] <= values) & has_edge_rows[codes]
        return Groups(codes, labels, rules, is_edge_row.astype(np.intp), 1)

    def _compared(self, values: FloatArray) -> FloatArray:
        return without_rounding_errors(values) if self.rounded else values


def bin_codes(values: Any, edges: FloatArray) -> Any:
    """Return the bin of each value on a device, 0 to len(edges); an edge belongs to the bin below it. Shape (n,)."""
    xp = namespace(values)
    if xp.finfo(values.dtype).bits < 32:
        values = xp.astype(values, xp.float32)  # every value stays the same
    if xp.finfo(values.dtype).bits == 32:
        edges = _as_float32_below(edges)
    on_device = xp.asarray(edges.tolist(), dtype=values.dtype, device=device_of(values))
    return xp.searchsorted(on_device, values, side="left")


def _as_float32_below(edges: FloatArray) -> FloatArray:
    """Return the largest float32 up to each edge: the same values of float32 are at most as large."""
    with np.errstate(over="ignore"):
        nearest = edges.astype(np.float32)
    lowered = np.where(nearest > edges, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return lowered.astype(np.float64)


def equal_frequency_ranks(n: int, n_groups: int) -> IntArray:
    """Return the ranks of the values at the inner edges of equal-frequency bins; the 0-th smallest is −inf."""
    return np.arange(1, n_groups) * n // n_groups


def without_rounding_errors(values: FloatArray) -> FloatArray:
    """Return numbers rounded to 30 significant bits, each by itself; in increasing order if they were."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    return ((bits + _LAST_BIT // 2) & ~(_LAST_BIT - 1)).view(np.float64)  # also carries into the exponent


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
