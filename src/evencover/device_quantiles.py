"""Order statistics of arrays on any device: selected where that is faster than sorting, and always exact."""

from collections.abc import Sequence
from math import ceil, floor, inf, sqrt
from typing import Any

from evencover.inputs.device_arrays import count, device_of, is_jax

_MAX_SORTED = 100_000  # so many scores are sorted at once, which is as fast
_MAX_SELECTED_RANKS = 16  # for more ranks, sorting once is faster
_STANDARD_DEVIATIONS = 6  # of the sample's rank, from the bounds to rank k


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
