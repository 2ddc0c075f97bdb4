"""The group of each row."""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import IntArray, is_on_device, on_host, plain_array, row_selection
from evencover.inputs.device_arrays import (
    checked_codes,
    concatenated,
    device_of,
    group_sizes,
    namespace,
    products,
    taken,
)
from evencover.inputs.frames import is_missing

Label: TypeAlias = Hashable

MARGINAL_LABELS: tuple[Label, ...] = ("all",)
_MAX_CODES_TO_SCAN = 8
_MAX_EDGE_BITS = 32  # of a product of so many learned taxonomies; codes of cells are 64-bit integers
_MAX_CODES_OF_FEW_ROWS = 1000  # on a device; more groups than rows are probably ids


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each row, with the labels and rules of the groups.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Position of each row's group in `labels`; -1 for a calibration row that belongs to no group. Codes of arrays on
        a device are there, too, of any type of integers, and all rows belong to a group.
    labels : tuple
        Name of each group: distinct, hashable values. Only text, numbers and booleans can be saved to a file.
    rules : tuple of str, optional
        The condition for each group, with all digits of its edges. Groups are the same if their labels and rules
        are equal.
    edge : ndarray of int, shape (n,), optional
        Non-zero for edge rows: rows on a bin edge that was learned from the calibration rows. Each factor of a product
        of taxonomies has its own bit. A calibration row is used for a new row of its group only if all its bits are
        also set for the new row; `evencover.bins` explains why.
    n_edge_bits : int
        Number of bits in `edge`: one for each set of edges that was learned from the calibration rows.

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
            raise ValueError(
                f"labels must be distinct, with one rule for each or no rules; got {first_few(self.labels)} and "
                f"{len(self.rules)} rules"
            )
        if is_on_device(self.codes):
            object.__setattr__(self, "codes", checked_codes(self.codes, len(self.labels))[0])
            return
        object.__setattr__(self, "codes", _checked_codes(self.codes, "codes", -1, len(self.labels)))
        if self.edge is not None:
            edge = _checked_codes(self.edge, "edge", 0, 1 << self.n_edge_bits)
            if len(edge) != len(self.codes):
                raise ValueError(f"edge must have {len(self.codes)} rows, as many as codes; got {len(edge)}")
            object.__setattr__(self, "edge", edge)

    @classmethod
    def from_labels(cls, values: Any, labels: Sequence[Label] | None = None, *, name: str = "groups") -> "Groups":
        """Return one group for each distinct value.

        Parameters
        ----------
        values : array-like of shape (n,)
            The label of each row, by position.
        labels : sequence, optional
            The groups in their order, also those without rows. Other values are added as groups at the end.
        name : str
            Name of the argument, for the error message.
        """
        array = plain_array(values, name)
        if array.dtype.kind in "US" and isinstance(values, Sequence):
            array = np.asarray(values, dtype=object)  # numbers in a list of text and numbers stay numbers
        if array.ndim != 1:
            got = f"the taxonomy {values!r}; pass what its learn(rows) returns" if hasattr(values, "learn") else ""
            raise ValueError(f"{name} must have one label per row, shape (n,); got {got or f'shape {array.shape}'}")
        codes, present = _encode(array, name)
        if labels is None:
            return cls(codes, present)
        declared = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
        if declared == present:
            return cls(codes, present)
        if len(set(declared)) < len(declared):
            raise ValueError(f"the labels declared for {name} must be distinct; got {first_few(declared)}")
        all_labels = tuple(dict.fromkeys(declared + present))
        code_of = {label: code for code, label in enumerate(all_labels)}
        new_codes = np.array([code_of[label] for label in present], dtype=np.intp)
        return cls(new_codes[codes] if len(new_codes) else codes, all_labels)

    @classmethod
    def one(cls, values: Any) -> "Groups":
        """Return one group for all rows, on the device of an array with one value for each row."""
        xp = namespace(values)
        if xp is np:
            return cls(np.zeros(len(values), dtype=np.intp), MARGINAL_LABELS)
        zero = xp.zeros((), dtype=xp.uint8, device=device_of(values))
        return cls(xp.broadcast_to(zero, values.shape), MARGINAL_LABELS)  # without using memory for it

    @classmethod
    def of_codes(cls, codes: Any) -> "Groups":
        """Return the groups 0, 1, ... up to the largest code, also those without rows, of an array on a device."""
        if not is_on_device(codes):
            raise TypeError(
                "groups must be an array on the device of the prediction, with whole numbers 0, 1, 2, ..., or Groups; "
                f"got {type(codes).__name__}"
            )
        codes, n_groups = checked_codes(codes, None)
        if n_groups > max(codes.shape[0], _MAX_CODES_OF_FEW_ROWS):
            raise ValueError(
                f"groups on a device must be numbered 0, 1, 2, ...; the largest of {codes.shape[0]} rows is "
                f"{n_groups - 1}. The library's unique(..., return_inverse=True) numbers them"
            )
        return cls(codes, tuple(range(n_groups)))

    @property
    def counts(self) -> IntArray:
        """Number of rows in each group, edge rows included. Shape (n_groups,)."""
        if is_on_device(self.codes):
            return np.array(group_sizes(self.codes, len(self.labels)), dtype=np.intp)
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.labels))

    def on_host(self) -> "Groups":
        """Return the groups with codes of numpy."""
        return self if not is_on_device(self.codes) else replace(self, codes=on_host(self.codes))

    def cells(self) -> Iterator[tuple[tuple[int, int], IntArray]]:
        """Yield each pair (group code, edge bits) that has rows, with the positions of its rows in order."""
        n_groups = len(self.labels)
        pair_codes = (
            self.codes if self.edge is None else np.where(self.codes < 0, -1, self.codes + self.edge * n_groups)
        )
        for code, rows in rows_by_code(pair_codes, n_groups << self.n_edge_bits):
            bits, group = divmod(code, n_groups)
            yield (group, bits), rows

    def split(self, values: NDArray[Any]) -> dict[Label, NDArray[Any]]:
        """Return the values, one for each row, by group; groups without rows are left out."""
        return {self.labels[code]: values[rows] for code, rows in rows_by_code(self.codes, len(self.labels))}

    def label_of_rows(self) -> NDArray[Any]:
        """Return the label of each row. Shape (n,)."""
        types = {type(label) for label in self.labels}
        if len(types) == 1 and types <= {str, int, float, bool} and (self.codes >= 0).all():
            return np.array(self.labels)[self.codes]
        label_of_code = np.empty(len(self.labels) + 1, dtype=object)  # the last is None, for the code -1
        label_of_code[:-1] = self.labels
        return label_of_code[self.codes]

    def codes_among(self, labels: tuple[Label, ...]) -> IntArray:
        """Return the position of each row's label in other labels, -1 if it is not among them. Shape (n,)."""
        if self.labels == labels[: len(self.labels)]:
            return self.codes
        code_of = {label: code for code, label in enumerate(labels)}
        new_codes = np.array([*(code_of.get(label, -1) for label in self.labels), -1], dtype=np.intp)
        return new_codes[self.codes] if not is_on_device(self.codes) else taken(new_codes, self.codes)

    def product(self, other: "Groups") -> "Groups":
        """Return the combinations of these groups and other groups of the same rows; each keeps its edge bits."""
        labels = tuple(f"{a} & {b}" for a in self.labels for b in other.labels)
        if len(set(labels)) < len(labels):
            raise ValueError(f"the combined labels must be distinct; got {first_few(labels)}")
        rules = tuple(f"{a} and {b}" for a in self._rules_or_labels() for b in other._rules_or_labels())
        if is_on_device(self.codes):
            return Groups(products(self.codes, other.codes, len(other.labels)), labels, rules)
        codes = self.codes * len(other.labels) + other.codes
        codes[(self.codes < 0) | (other.codes < 0)] = -1
        n_edge_bits = self.n_edge_bits + other.n_edge_bits
        edge = self._edge_bits() | (other._edge_bits() << self.n_edge_bits) if n_edge_bits else None
        return Groups(codes, labels, rules, edge, n_edge_bits)

    @classmethod
    def concatenate(cls, parts: Sequence["Groups"]) -> "Groups":
        """Return the groups of the rows of all parts, which must have the same labels and rules."""
        n_edge_bits = max(part.n_edge_bits for part in parts)
        edge = np.concatenate([part._edge_bits() for part in parts]) if n_edge_bits else None
        codes = concatenated([part.codes for part in parts])
        return cls(codes, parts[0].labels, parts[0].rules, edge, n_edge_bits)

    def state(self) -> dict[str, Any]:
        """Return the groups as arrays and JSON values, for a file."""
        edge = {} if self.edge is None else {"edge": _as_small_integers(self.edge, 1 << self.n_edge_bits)}
        return {
            "codes": _as_small_integers(self.codes, len(self.labels)),
            **edge,
            "labels": [json_label(label) for label in self.labels],
            "rules": list(self.rules),
            "n_edge_bits": self.n_edge_bits,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Groups":
        """Return the groups from what `state` returned."""
        labels, rules, n_edge_bits = checked_labels(state["labels"]), tuple(state["rules"]), state["n_edge_bits"]
        if type(n_edge_bits) is not int or not 0 <= n_edge_bits <= _MAX_EDGE_BITS:
            raise ValueError(f"n_edge_bits must be a whole number from 0 to {_MAX_EDGE_BITS}; got {n_edge_bits!r}")
        return cls(state["codes"], labels, rules, state.get("edge"), n_edge_bits)

    def _rules_or_labels(self) -> tuple[str, ...]:
        return self.rules or tuple(map(str, self.labels))

    def _edge_bits(self) -> IntArray:
        return np.zeros(len(self), dtype=np.intp) if self.edge is None else self.edge

    def labels_not_in(self, labels: tuple[Label, ...]) -> tuple[Label, ...]:
        """Return the labels of groups with rows that are not among the given labels."""
        others = set(self.labels) - set(labels)
        counts = self.counts if others else ()
        return tuple(label for label, n in zip(self.labels, counts, strict=False) if n and label in others)

    def check_rules_among(self, labels: tuple[Label, ...], rules: tuple[str, ...]) -> None:
        """Raise ValueError if a label of these new rows has another rule than in the calibration."""
        expected = dict(zip(labels, rules, strict=False))
        new = dict(zip(self.labels, self.rules, strict=False))
        for label in expected.keys() & new.keys():
            if expected[label] != new[label]:
                raise ValueError(
                    f"groups must have the rules of the calibration: {label!r} is {expected[label]} there; "
                    f"got {new[label]}"
                )

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def __getitem__(self, rows: Any) -> "Groups":
        rows = row_selection(rows)
        edge = None if self.edge is None else self.edge[rows]
        return Groups(self.codes[rows], self.labels, self.rules, edge, self.n_edge_bits)

    def __repr__(self) -> str:
        rules = [f" ({rule})" for rule in self.rules] or [""] * len(self.labels)
        parts = [f"{label}{rule} {n}" for label, rule, n in zip(self.labels, rules, self.counts, strict=True)]
        return f"Groups({len(self)} rows: {_with_short_numbers(', '.join(parts))})"


def checked_groups(groups: Any, length: int, matched: str) -> Groups:
    """Return labels, or `Groups`, as `Groups`. Raise ValueError unless they have as many rows as the `matched` rows."""
    checked = groups if isinstance(groups, Groups) else Groups.from_labels(groups)
    if len(checked) != length:
        raise ValueError(f"groups must have {length} rows, as many as {matched}; got {len(checked)}")
    return checked


def _checked_codes(codes: Any, name: str, start: int, stop: int) -> IntArray:
    """Return codes as an array of shape (n,). Raise ValueError unless they are whole numbers in range(start, stop)."""
    array = plain_array(codes, name)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise ValueError(f"{name} must be whole numbers of shape (n,); got {array.dtype} of shape {array.shape}")
    if len(array) and not start <= array.min() <= array.max() < stop:
        allowed = f"positions in labels, at most {stop - 1}, or -1 for no group" if start else f"from 0 to {stop - 1}"
        raise ValueError(f"{name} must be {allowed}; got {array.min()} to {array.max()}")
    return array.astype(np.intp, copy=False)


def _as_small_integers(codes: IntArray, stop: int) -> NDArray[Any]:
    """Return codes from -1 to stop - 1 in the smallest integer type that holds them."""
    return codes.astype(np.min_scalar_type(-max(stop, 1)))


def json_label(label: Label) -> Label:
    """Return a label that JSON can store. Raise TypeError for any other."""
    if not isinstance(label, str | bool | int | float):
        raise TypeError(f"labels must be text, numbers or booleans to be saved; got {label!r}")
    return label


def shared_groups(parts: Sequence["Groups | None"]) -> "Groups | None":
    """Return the groups of rows if they are the same in all parts; None if they differ, or if there are none."""
    first, *others = parts
    if first is None or any(each is None or each.labels != first.labels for each in others):
        return None
    return first if all(np.array_equal(each.codes, first.codes) for each in others if each is not None) else None


def one_row_of_each(clusters: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the positions of one random row of each cluster, in increasing order. `clusters` has shape (n,)."""
    order = rng.permutation(len(clusters))
    return np.sort(order[np.unique(clusters[order], return_index=True)[1]])


def cluster_codes(clusters: Any, n: int, *, matched: str = "X", min_clusters: int = 2) -> IntArray:
    """Return the clusters of n rows as codes 0, 1, ... Raise ValueError unless there are enough clusters."""
    sized = hasattr(clusters, "__len__") and not isinstance(clusters, str) and not hasattr(clusters, "tocsr")
    n_given = len(clusters) if sized else None
    if n_given != n:
        raise ValueError(
            f"clusters must have {n} rows, as many as {matched}; got {repr(clusters) if n_given is None else n_given}"
        )
    encoded = Groups.from_labels(clusters, name="clusters")
    if len(encoded.labels) < min_clusters:
        raise ValueError(f"clusters must hold at least {min_clusters} different clusters; got {len(encoded.labels)}")
    return encoded.codes


def checked_labels(labels: Any) -> tuple[Label, ...]:
    """Return the labels in a file. Raise ValueError unless they are different labels that `json_label` allows."""
    if not isinstance(labels, list) or not all(isinstance(label, str | bool | int | float) for label in labels):
        raise ValueError(f"labels must be a list of text, numbers or booleans; got {labels!r:.80}")
    if len(set(labels)) < len(labels):
        raise ValueError(f"labels must be distinct; got {first_few(labels)}")
    return tuple(labels)


def first_few(values: Sequence[Any], max_values: int = 8) -> str:
    """Return the first values as text, in Python's notation, and the number of the others."""
    more = f", and {len(values) - max_values} more" if len(values) > max_values else ""
    return f"{list(values[:max_values])}{more}"


def rows_by_code(codes: IntArray, n_codes: int) -> Iterator[tuple[int, IntArray]]:
    """Yield each of the codes 0, 1, ... that has rows, with the positions of its rows in order."""
    if n_codes <= _MAX_CODES_TO_SCAN:  # one pass for each code is faster than sorting
        yield from ((code, rows) for code in range(n_codes) if len(rows := np.flatnonzero(codes == code)))
        return
    # numpy's stable sort of int16 is a radix sort, which is faster
    order = np.argsort(codes.astype(np.int16 if n_codes < 2**15 else np.intp), kind="stable")
    starts = np.append(np.searchsorted(codes, np.arange(n_codes), sorter=order), len(codes))
    for code, (start, stop) in enumerate(pairwise(starts.tolist())):
        if start < stop:
            yield code, order[start:stop]


def _with_short_numbers(text: str) -> str:
    """Return the text with long decimals rounded to four significant digits."""
    return re.sub(r"\d+\.\d{4,}(e[+-]?\d+)?", lambda number: f"{float(number[0]):.4g}", text)


def _encode(values: NDArray[Any], name: str) -> tuple[IntArray, tuple[Label, ...]]:
    """Return the code of each value, and the sorted distinct values as Python objects."""
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < max(len(values), 1000) and high < 2**62:
            return _encode_integer_range(values, low, high)
    if values.dtype.kind in "mM":  # microseconds, because nanoseconds would become integers
        values = _in_microseconds(values, name).astype(object)
    if values.dtype.kind == "O":
        _check_hashable(values, name)
        values = _with_python_scalars(values)
    missing = is_missing(values)
    if missing.any():
        raise ValueError(
            f"{name} must have a label for every row; missing labels: {missing.sum()} of {len(values)} (the first in "
            f"row {missing.argmax()}, counted from 0)"
        )
    try:
        labels, codes = np.unique(values, return_inverse=True)
        return codes, tuple(labels.tolist())
    except TypeError:  # labels of several types cannot be sorted
        code_of: dict[Label, int] = {}
        codes = np.array([code_of.setdefault(value, len(code_of)) for value in values.tolist()], dtype=np.intp)
        return codes, tuple(code_of)


def _in_microseconds(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Return times with the precision of Python. Raise ValueError if that would make different times equal."""
    rounded = values.astype(f"{values.dtype.kind}8[us]")
    finer = (rounded != values) & ~is_missing(values)
    if finer.any():
        raise ValueError(
            f"{name} must not be finer than microseconds; got {values[finer][0]} (the first in row {finer.argmax()}, "
            "counted from 0)"
        )
    return rounded


def _check_hashable(values: NDArray[Any], name: str) -> None:
    """Raise TypeError if a value cannot be a label, such as a list."""
    for row, value in enumerate(values):
        try:
            hash(value)
        except TypeError:
            raise TypeError(
                f"{name} must be text, numbers or other hashable labels; got {value!r:.80} (the first in row {row}, "
                "counted from 0)"
            ) from None


def _with_python_scalars(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of objects with numpy scalars replaced by Python scalars."""
    converted = np.empty(len(values), dtype=object)
    converted[:] = [value.item() if isinstance(value, np.generic) else value for value in values]
    return converted


def _encode_integer_range(values: NDArray[Any], low: int, high: int) -> tuple[IntArray, tuple[Label, ...]]:
    """Return codes and distinct values of integers from a small range, by a lookup table instead of sorting."""
    offsets = (values.astype(np.int64, copy=False) - low if low else values).astype(np.intp, copy=False)
    present = np.zeros(high - low + 1, dtype=bool)
    present[offsets[:10_000]] = True  # the first rows usually hold all values
    if not present.all():
        present[offsets] = True
    labels = tuple(low + position for position in np.flatnonzero(present).tolist())
    if present.all():
        return offsets, labels
    return (np.cumsum(present) - 1)[offsets], labels
