"""Which group each row belongs to."""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evencover._internal.arrays import IntArray, row_selection
from evencover._internal.frames import is_missing

Label: TypeAlias = Hashable

_FEW = 8


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each row, with the groups' names and rules.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Position of each row's group in `labels`; -1 for a calibration row that is left out.
    labels : tuple
        Name of each group, all different: anything that can be a key. Files hold text, numbers and booleans.
    rules : tuple of str, optional
        What puts a row into each group, with its edges in full: two sets of groups are the same if their labels
        and rules are.
    edge : ndarray of int, shape (n,), optional
        Non-zero where a row lies on an edge learned from the calibration rows, one bit for each such edge
        (products of taxonomies have several). A calibration row counts for a new row of its group only if all
        its bits are set in the new row's too. `evencover._internal.bins` says why.
    n_edge_bits : int
        How many bits `edge` may use.

    Examples
    --------
    >>> Groups.from_labels(["b", "a", "b"])
    Groups(3 rows: a 1, b 2)
    """

    codes: IntArray
    labels: tuple[Label, ...]
    rules: tuple[str, ...] = ()
    edge: IntArray | None = None
    n_edge_bits: int = 0

    def __post_init__(self) -> None:
        if len(set(self.labels)) < len(self.labels) or len(self.rules) not in (0, len(self.labels)):
            raise ValueError(f"labels must be distinct, with a rule each or none; got {first_few(self.labels)}")
        object.__setattr__(self, "codes", _checked_codes(self.codes, "codes", -1, len(self.labels)))
        if self.edge is not None:
            edge = _checked_codes(self.edge, "edge", 0, 1 << self.n_edge_bits)
            if len(edge) != len(self.codes):
                raise ValueError(f"edge must have {len(self.codes)} rows, as many as codes; got {len(edge)}")
            object.__setattr__(self, "edge", edge)

    @classmethod
    def from_labels(cls, values: Any, labels: Sequence[Label] | None = None, *, name: str = "groups") -> "Groups":
        """Return the groups of plain values, one for each distinct one.

        Parameters
        ----------
        values : array-like of shape (n,)
            The label of each row, by position.
        labels : sequence, optional
            The groups there are, in this order, also those without rows. Values beyond them get groups at the end.
        name : str
            What the caller calls the values, for the error.
        """
        if np.ma.is_masked(values):
            raise ValueError(f"{name} must name a group for every row; {np.ma.getmaskarray(values).sum()} are masked")
        array = np.asarray(values)
        if array.dtype.kind in "US" and isinstance(values, Sequence):
            array = np.asarray(values, dtype=object)  # a list of text and numbers keeps its numbers
        if array.ndim != 1:
            hint = "; a taxonomy's groups are what its learn and assign return" if hasattr(values, "learn") else ""
            raise ValueError(f"{name} must be one-dimensional, of shape (n,); got shape {array.shape}{hint}")
        codes, found = _encoded(array, name)
        if labels is None:
            return cls(codes, found)
        declared = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
        if declared == found:
            return cls(codes, found)
        if len(set(declared)) < len(declared):
            raise ValueError(f"the groups of {name} must be declared once each; got {first_few(declared)}")
        every = tuple(dict.fromkeys(declared + found))
        place = {label: code for code, label in enumerate(every)}
        table = np.array([place[label] for label in found], dtype=np.intp)
        return cls(table[codes] if len(table) else codes, every)

    @property
    def counts(self) -> IntArray:
        """Number of rows in each group, those on an edge included. Shape (n_groups,)."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.labels))

    def cells(self) -> Iterator[tuple[tuple[int, int], IntArray]]:
        """Yield each pair of group and edge bits that has rows, with these rows' positions in order."""
        n_groups = len(self.labels)
        flat = self.codes if self.edge is None else np.where(self.codes < 0, -1, self.codes + self.edge * n_groups)
        for code, rows in rows_by_code(flat, n_groups << self.n_edge_bits):
            bits, group = divmod(code, n_groups)
            yield (group, bits), rows

    def split(self, values: NDArray[Any]) -> dict[Label, NDArray[Any]]:
        """Return the values of each group that has rows, of one value for each row."""
        return {self.labels[code]: values[rows] for code, rows in rows_by_code(self.codes, len(self.labels))}

    def label_of_rows(self) -> NDArray[Any]:
        """Return the label of each row. Shape (n,)."""
        kinds = {type(label) for label in self.labels}
        if len(kinds) == 1 and kinds <= {str, int, float, bool} and (self.codes >= 0).all():
            return np.array(self.labels)[self.codes]
        names = np.empty(len(self.labels) + 1, dtype=object)  # None last, for the code -1
        names[:-1] = self.labels
        return names[self.codes]

    def codes_among(self, labels: tuple[Label, ...]) -> IntArray:
        """Return each row's position among other labels, -1 where its own is not there. Shape (n,)."""
        if self.labels == labels:
            return self.codes
        place = {label: code for code, label in enumerate(labels)}
        table = np.array([*(place.get(label, -1) for label in self.labels), -1], dtype=np.intp)
        return table[self.codes]

    def times(self, other: "Groups") -> "Groups":
        """Return the combinations of these groups with others of the same rows, edge bits side by side."""
        labels = tuple(f"{a} & {b}" for a in self.labels for b in other.labels)
        if len(set(labels)) < len(labels):
            raise ValueError(f"labels must stay distinct when joined; got {labels}")
        rules = tuple(f"{a} and {b}" for a in self._rules() for b in other._rules())
        codes = self.codes * len(other.labels) + other.codes
        codes[(self.codes < 0) | (other.codes < 0)] = -1
        n_edge_bits = self.n_edge_bits + other.n_edge_bits
        edge = self._bits() | (other._bits() << self.n_edge_bits) if n_edge_bits else None
        return Groups(codes, labels, rules, edge, n_edge_bits)

    @classmethod
    def joined(cls, parts: Sequence["Groups"]) -> "Groups":
        """Return the groups of all parts' rows, one part after the other; they must have the same labels and rules."""
        n_edge_bits = max(part.n_edge_bits for part in parts)
        edge = np.concatenate([part._bits() for part in parts]) if n_edge_bits else None
        codes = np.concatenate([part.codes for part in parts])
        return cls(codes, parts[0].labels, parts[0].rules, edge, n_edge_bits)

    def state(self) -> dict[str, Any]:
        """Return what a file holds of it: arrays, and values that JSON knows."""
        edge = {} if self.edge is None else {"edge": _small(self.edge, 1 << self.n_edge_bits)}
        return {
            "codes": _small(self.codes, len(self.labels)),
            **edge,
            "labels": [_plain_label(label) for label in self.labels],
            "rules": list(self.rules),
            "n_edge_bits": self.n_edge_bits,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> "Groups":
        """Return the groups that had this state."""
        labels, rules = tuple(state["labels"]), tuple(state["rules"])
        return cls(state["codes"], labels, rules, state.get("edge"), state["n_edge_bits"])

    def _rules(self) -> tuple[str, ...]:
        return self.rules or tuple(map(str, self.labels))

    def _bits(self) -> IntArray:
        return np.zeros(len(self), dtype=np.intp) if self.edge is None else self.edge

    def labels_beyond(self, labels: tuple[Label, ...]) -> tuple[Label, ...]:
        """Return the labels in use by some row that are not among the given ones."""
        strange = set(self.labels) - set(labels)
        counts = self.counts if strange else ()
        return tuple(label for label, n in zip(self.labels, counts, strict=False) if n and label in strange)

    def check_same_rules(self, new: "Groups") -> None:
        """Raise if a label means something else to new rows than it does here, to the calibration rows."""
        mine = dict(zip(self.labels, self.rules, strict=False))
        theirs = dict(zip(new.labels, new.rules, strict=False))
        for label in mine.keys() & theirs.keys():
            if mine[label] != theirs[label]:
                raise ValueError(
                    f"groups must follow the calibration's rules: {label!r} was {mine[label]}, and is {theirs[label]} "
                    "here"
                )

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "Groups":
        rows = row_selection(rows)
        edge = None if self.edge is None else self.edge[rows]
        return Groups(self.codes[rows], self.labels, self.rules, edge, self.n_edge_bits)

    def __repr__(self) -> str:
        rules = [f" ({rule})" for rule in self.rules] or [""] * len(self.labels)
        parts = [f"{label}{rule} {n}" for label, rule, n in zip(self.labels, rules, self.counts, strict=True)]
        return f"Groups({len(self)} rows: {_with_short_numbers(', '.join(parts))})"


def checked_groups(groups: Any, length: int, beside: str) -> Groups:
    """Return labels, or `Groups`, as `Groups` of as many rows as what they stand beside."""
    checked = groups if isinstance(groups, Groups) else Groups.from_labels(groups)
    if len(checked) != length:
        raise ValueError(f"groups must have {length} rows, as many as {beside}; got {len(checked)}")
    return checked


def _checked_codes(codes: Any, name: str, lowest: int, beyond: int) -> IntArray:
    """Return whole numbers of shape (n,), none below the lowest, all below the bound."""
    array = np.asarray(codes)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise ValueError(f"{name} must be whole numbers of shape (n,); got {array.dtype} of shape {array.shape}")
    if len(array) and not lowest <= array.min() <= array.max() < beyond:
        raise ValueError(f"{name} must lie from {lowest} to {beyond - 1}; got {array.min()} to {array.max()}")
    return array.astype(np.intp, copy=False)


def _small(codes: IntArray, beyond: int) -> NDArray[Any]:
    """Return whole numbers below a bound, and perhaps -1, in as few bytes as they need."""
    return codes.astype(np.min_scalar_type(-max(beyond, 1)))


def _plain_label(label: Label) -> Label:
    """Return a label that JSON gives back as it was."""
    if not isinstance(label, str | bool | int | float):
        raise TypeError(f"labels must be text, numbers or booleans to be saved; got {label!r}")
    return label


def first_few(values: Sequence[Any], most: int = 8) -> str:
    """Return a list of values as text, cut where it grows long."""
    more = f", and {len(values) - most} more" if len(values) > most else ""
    return f"{list(values[:most])}{more}"


def rows_by_code(codes: IntArray, n_codes: int) -> Iterator[tuple[int, IntArray]]:
    """Yield each of the codes 0, 1, ... that has rows, with these rows' positions in order."""
    if n_codes <= _FEW:  # a pass for each is faster than sorting
        yield from ((code, rows) for code in range(n_codes) if len(rows := np.flatnonzero(codes == code)))
        return
    order = np.argsort(codes.astype(np.int16 if n_codes < 2**15 else np.intp), kind="stable")  # int16: a radix sort
    starts = np.append(np.searchsorted(codes, np.arange(n_codes), sorter=order), len(codes))
    for code, (start, stop) in enumerate(pairwise(starts.tolist())):
        if start < stop:
            yield code, order[start:stop]


def _with_short_numbers(text: str) -> str:
    """Return the text with long decimals cut to four digits."""
    return re.sub(r"\d+\.\d{4,}(e[+-]?\d+)?", lambda number: f"{float(number[0]):.4g}", text)


def _encoded(values: NDArray[Any], name: str) -> tuple[IntArray, tuple[Label, ...]]:
    """Return each value's code and the sorted distinct values as plain Python ones."""
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < max(len(values), 1000) and high < 2**62:
            return _encoded_small_integers(values, low, high)
    if values.dtype.kind in "mM":  # in microseconds, for nanoseconds would become whole numbers
        values = values.astype(f"{values.dtype.kind}8[us]").astype(object)
    if values.dtype.kind == "O":
        values = _plain(values)
    missing = is_missing(values)
    if missing.any():
        raise ValueError(
            f"{name} must name a group for every row; {missing.sum()} of {len(values)} are missing (the first in row "
            f"{missing.argmax()})"
        )
    try:
        labels, codes = np.unique(values, return_inverse=True)
        return codes, tuple(labels.tolist())
    except TypeError:  # labels of several types, which have no order
        known: dict[Label, int] = {}
        codes = np.array([known.setdefault(value, len(known)) for value in values.tolist()], dtype=np.intp)
        return codes, tuple(known)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects with numpy's scalars as Python's own."""
    found = np.empty(len(values), dtype=object)
    found[:] = [value.item() if isinstance(value, np.generic) else value for value in values]
    return found


def _encoded_small_integers(values: NDArray[Any], low: int, high: int) -> tuple[IntArray, tuple[Label, ...]]:
    """Encode whole numbers of a small range by a table, without sorting the rows."""
    places = values.astype(np.intp, copy=False) - low if low else values.astype(np.intp, copy=False)
    present = np.zeros(high - low + 1, dtype=bool)
    present[places[:10_000]] = True  # enough to see them all, unless one is rare
    if not present.all():
        present[places] = True
    labels = tuple((np.flatnonzero(present) + low).tolist())
    if present.all():
        return places, labels
    return (np.cumsum(present) - 1)[places], labels
