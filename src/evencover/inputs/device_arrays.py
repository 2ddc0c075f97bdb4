"""Arrays of torch, CuPy, JAX and other libraries, which stay on their device, such as a GPU.

Values such as `Prediction` and `Intervals` hold numpy arrays, or arrays of one such library. These are checked with the
same sentences, and no array is copied to the host. Order statistics are selected where that is faster than sorting.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import LARGEST_EXACT, check_not_rounded, checked_vector, is_on_device, on_host
from evencover.inputs.optional import import_optional

MAX_GROUPS_TO_SCAN = 64  # up to so many groups, one pass for each is faster than sorting by group
_MAX_SORTED = 100_000  # so many scores are sorted at once, which is as fast
_MAX_SELECTED_RANKS = 16  # for more ranks, sorting once is faster
_STANDARD_DEVIATIONS = 6  # of the sample's rank, from the bounds to rank k


def namespace(values: Any) -> Any:
    """Return the functions for an array: numpy itself, or the array API of its library."""
    return np if not is_on_device(values) else _compat().array_namespace(values)


def checked_column(
    values: Any, name: str, *, like: Any = None, length: int | None = None, matched: str = "", finite: bool = True
) -> Any:
    """Return numbers of shape (n,), on their device or as `checked_vector` does. Raise an error unless they fit.

    Parameters
    ----------
    values : array-like of shape (n,)
        Numbers.
    name : str
        Name of the argument, for errors.
    like : array, optional
        What decides where the numbers are: if it is a numpy array, they become one, too; otherwise they must be of the
        same library, on the same device. By default the values themselves decide.
    length, matched, finite
        As in `checked_vector`.
    """
    if not is_on_device(values if like is None else like):
        return checked_vector(values, name, length=length, matched=matched, finite=finite)
    xp = common_namespace({name: values} if like is None else {matched: like, name: values})
    return checked_numbers(xp, values, name, length=length, matched=matched, finite=finite)


def check_not_negative(spread: Any) -> None:
    """Raise ValueError if a spread is negative, because bounds would be in the wrong order."""
    xp = namespace(spread)
    if spread.shape[0] and xp.min(spread) < 0:
        raise ValueError(
            "spread must not be negative if bounds are derived from it; negative values: "
            f"{count(xp, spread < 0)} of {spread.shape[0]}"
        )


def joined_rows(values: list[Any]) -> Any:
    """Return arrays, tuples of arrays or scales, joined in their order; None stays None."""
    if len({type(each) for each in values}) > 1:
        raise ValueError("predictions must have the same parts and scales; got some of models of transformed targets")
    if hasattr(values[0], "concatenate"):
        return values[0].concatenate(values)
    if isinstance(values[0], tuple):
        return tuple(concatenated(column) for column in zip(*values, strict=True))
    return None if values[0] is None else concatenated(values)


def concatenated(arrays: Sequence[Any]) -> Any:
    """Return arrays of one library, joined in their order."""
    return np.concatenate(arrays) if not is_on_device(arrays[0]) else namespace(arrays[0]).concat(list(arrays))


def taken(table: NDArray[Any], codes: Any) -> Any:
    """Return the value of a small table at each code, on the device of the codes. Shape (n,)."""
    xp = namespace(codes)
    return xp.take(xp.asarray(table, device=device_of(codes)), as_positions(xp, codes), axis=0)


def products(codes: Any, other: Any, n_other: int) -> Any:
    """Return the code of each pair of codes, of which the second are 0 to n_other − 1. Shape (n,)."""
    xp = namespace(codes)
    return as_positions(xp, codes) * n_other + as_positions(xp, other)


def common_namespace(arrays: Mapping[str, Any]) -> Any:
    """Return the array API of these arrays, by the name of the argument. Raise an error unless all have the same.

    All must also be on the same device.
    """
    compat = _compat()
    for name, array in arrays.items():
        if not compat.is_array_api_obj(array):
            raise TypeError(
                f"{name} must be an array of torch, CuPy, JAX, numpy or another library with the array API; got "
                f"{type(array).__name__}"
            )
    namespaces = {name: compat.array_namespace(array) for name, array in arrays.items()}
    xp = next(iter(namespaces.values()))
    if any(each is not xp for each in namespaces.values()):
        libraries = {name: _library(each) for name, each in namespaces.items()}
        raise TypeError(f"all arrays must be of one library; got {_by_name(libraries)}")
    devices = {name: compat.device(array) for name, array in arrays.items()}
    first = next(iter(devices.values()))
    if any(each != first for each in devices.values()):  # those of CuPy cannot be in a set
        raise ValueError(f"all arrays must be on one device; got {_by_name(devices)}")
    return xp


def _library(xp: Any) -> str:
    """Return the name of the library of an array API, such as torch."""
    return str(xp.__name__).removeprefix("array_api_compat.").partition(".")[0]


def _by_name(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items())


def device_of(array: Any) -> Any:
    """Return the device of an array."""
    return _compat().device(array)


def on_cpu(array: Any) -> bool:
    """Return whether an array is in the memory of the processor, and not on a GPU."""
    return "cpu" in str(device_of(array)).lower()


def is_jax(xp: Any) -> bool:
    """Return whether an array API is that of JAX."""
    return bool(_compat().is_jax_namespace(xp))


def _compat() -> Any:
    return import_optional("array_api_compat", extra="arrays", purpose="an array that is not of numpy")


def count(xp: Any, mask: Any) -> int:
    """Return how many values of a mask are true."""
    return int(xp.count_nonzero(mask))


def checked_numbers(
    xp: Any, values: Any, name: str, *, length: int | None = None, matched: str = "", finite: bool = True
) -> Any:
    """Return an array of real numbers of shape (n,). Raise ValueError or TypeError if it is something else.

    Floating-point numbers keep their type; integers and booleans become float64, as everywhere in this package. The
    parameters are those of `checked_vector`.
    """
    if xp.isdtype(values.dtype, ("bool", "integral")):
        values = _not_rounded(xp, values, name)
    if not xp.isdtype(values.dtype, "real floating"):
        raise TypeError(f"{name} must hold numbers; got an array of dtype {values.dtype}")
    _check_shape(values, name, length, matched)
    bad = ~xp.isfinite(values) if finite else xp.isnan(values)
    if xp.any(bad):
        expected, problem = ("finite", "NaN or infinite") if finite else ("free of NaN", "NaN")
        raise ValueError(
            f"{name} must be {expected}; {problem} values: {count(xp, bad)} of {bad.shape[0]} "
            f"(the first in row {int(xp.nonzero(bad)[0][0])}, counted from 0)"
        )
    return values


def _not_rounded(xp: Any, values: Any, name: str) -> Any:
    """Return whole numbers or booleans as float64. Raise ValueError if some are too large for that."""
    floats = xp.astype(values, xp.float64)
    if xp.isdtype(values.dtype, "integral") and xp.iinfo(values.dtype).bits == 64:
        large = xp.abs(floats) >= LARGEST_EXACT
        if xp.any(large):  # a copy of these few
            check_not_rounded(on_host(values), on_host(floats), name)
    return floats


def checked_codes(codes: Any, n_groups: int | None) -> tuple[Any, int]:
    """Return group codes of shape (n,), and the number of groups: by default the largest code plus 1."""
    xp = namespace(codes)
    if not xp.isdtype(codes.dtype, "integral"):
        raise TypeError(f"groups on a device must hold whole numbers 0, 1, 2, ...; got an array of dtype {codes.dtype}")
    _check_shape(codes, "groups", None, "")
    if xp.isdtype(codes.dtype, "unsigned integer") and xp.iinfo(codes.dtype).bits > 8:
        codes = as_positions(xp, codes)  # torch has no maximum of these types
    if not codes.shape[0]:
        return codes, n_groups or 0
    smallest, largest = int(xp.min(codes)), int(xp.max(codes))
    n_groups = largest + 1 if n_groups is None else n_groups
    if smallest < 0 or largest >= n_groups:
        raise ValueError(f"groups must be whole numbers from 0 to {max(n_groups, 1) - 1}; got {smallest} to {largest}")
    return codes, n_groups


def as_positions(xp: Any, codes: Any) -> Any:
    """Return whole numbers in the default type of the library, which its arrays can be indexed by."""
    return xp.astype(codes, xp.asarray(0).dtype, copy=False)


def _check_shape(values: Any, name: str, length: int | None, matched: str) -> None:
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, of shape (n,); got shape {tuple(values.shape)}")
    if length is not None and values.shape[0] != length:
        raise ValueError(f"{name} must have {length} rows, as many as {matched}; got {values.shape[0]}")


def group_sizes(groups: Any, n_groups: int) -> list[int]:
    """Return the number of rows of each group."""
    xp = namespace(groups)
    if n_groups == 1:
        return [groups.shape[0]]
    if n_groups <= MAX_GROUPS_TO_SCAN:
        return [count(xp, groups == code) for code in range(n_groups)]
    return sizes_of_sorted(xp, xp.sort(as_positions(xp, groups), stable=False), n_groups)


def sizes_of_sorted(xp: Any, groups: Any, n_groups: int) -> list[int]:
    """Return the number of rows of each group, from groups in order."""
    codes = xp.arange(n_groups, dtype=groups.dtype, device=device_of(groups))
    ends = small_list(xp.searchsorted(groups, codes, side="right"))
    return [end - start for start, end in pairwise([0, *ends])]


def small_list(values: Any) -> list[int]:
    """Return a few whole numbers as Python numbers, at once where the library can."""
    return values.tolist() if hasattr(values, "tolist") else [int(values[i]) for i in range(values.shape[0])]


def smallest(xp: Any, scores: Any, ranks: Sequence[int], n: int) -> list[Any]:
    """Return the k-th smallest of n scores for each rank k, as arrays of shape (). It is inf if k > n.

    A sorted sample of the scores gives two bounds around rank k. Counts of the scores below them say whether the k-th
    smallest lies between the bounds, or equals one of them; only the scores between them are sorted. If it lies
    elsewhere, because the order of the scores misled the sample, all scores are sorted. So the result never depends on
    the sample.

    Parameters
    ----------
    xp : module
        The array API of the scores.
    scores : array of shape (n,) or longer
        Scores without NaN. Further values must be inf.
    ranks : sequence of int
        Ranks, 1 or more.
    n : int
        Number of scores.
    """
    finite = sorted({rank for rank in ranks if rank <= n})
    found = dict(zip(finite, _order_statistics(xp, scores, finite), strict=True))
    infinite = xp.asarray(inf, dtype=scores.dtype, device=device_of(scores))
    return [found.get(rank, infinite) for rank in ranks]


def _order_statistics(xp: Any, scores: Any, ranks: Sequence[int]) -> list[Any]:
    """Return the k-th smallest score for each rank k, if there are so many."""
    if not ranks:
        return []
    if scores.shape[0] <= _MAX_SORTED or len(ranks) > _MAX_SELECTED_RANKS:
        ordered = xp.sort(scores, stable=False)
        return [ordered[rank - 1] for rank in ranks]
    sample = _sorted_sample(xp, scores)
    return [_selected(xp, scores, rank, *_sample_bounds(sample, rank, scores.shape[0])) for rank in ranks]


def _sorted_sample(xp: Any, scores: Any) -> Any:
    """Return about n ** (2/3) of the scores in order, between −inf and inf."""
    sample = xp.sort(scores[:: round(scores.shape[0] ** (1 / 3))], stable=False)
    ends = [xp.asarray([end], dtype=scores.dtype, device=device_of(scores)) for end in (-inf, inf)]
    return xp.concat([ends[0], sample, ends[1]])


def _sample_bounds(sample: Any, rank: int, n: int) -> tuple[Any, Any]:
    """Return two values of the sample between which the k-th smallest of n scores lies, if their order is random."""
    size = sample.shape[0] - 2
    share = rank / n
    margin = _STANDARD_DEVIATIONS * sqrt(size * share * (1 - share)) + 1
    low, high = floor(size * share - margin), ceil(size * share + margin)
    return sample[max(low, 0)], sample[min(high, size + 1)]


def _selected(xp: Any, scores: Any, rank: int, low: Any, high: Any) -> Any:
    """Return the k-th smallest score, fast if it is at least `low` and at most `high`."""
    n = scores.shape[0]
    above_low, below_high = scores > low, scores < high
    up_to_low, up_to_below_high = n - count(xp, above_low), count(xp, below_high)
    if up_to_low < rank <= up_to_below_high:
        between = values_where(xp, scores, above_low & below_high, up_to_below_high - up_to_low)
        return xp.sort(between, stable=False)[rank - up_to_low - 1]
    if rank <= up_to_low and count(xp, scores < low) < rank:
        return low
    if rank > up_to_below_high and count(xp, scores <= high) >= rank:
        return high
    return xp.sort(scores, stable=False)[rank - 1]


def values_where(xp: Any, values: Any, mask: Any, n: int) -> Any:
    """Return the n values whose mask is true; with JAX followed by inf up to a round length.

    JAX compiles anew for each length, and would copy a mask that is an index to the host.
    """
    if n == 0:
        return values[:0]
    if not is_jax(xp):
        return xp.take(values, xp.nonzero(mask)[0], axis=0)
    integer = xp.int32 if values.shape[0] < 2**31 else xp.int64
    ranks = xp.arange(1, _round_length(n) + 1, dtype=integer, device=device_of(values))
    positions = xp.searchsorted(xp.cumulative_sum(xp.astype(mask, integer)), ranks)
    return xp.where(ranks <= n, xp.take(values, positions, axis=0), inf)


def _round_length(n: int) -> int:
    """Return a length of at least n: 1024, or by at most a quarter larger, with four lengths for each power of two."""
    n = max(n, 1024)
    step = 1 << (n.bit_length() - 3)
    return -(-n // step) * step
