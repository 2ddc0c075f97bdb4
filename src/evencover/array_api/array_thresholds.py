"""Thresholds of scores on any device, by group."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, inf, sqrt
from typing import Any

from evencover.array_api._array_checks import (
    as_positions,
    checked_codes,
    checked_numbers,
    common_namespace,
    count,
    device_of,
    is_jax,
    on_cpu,
)
from evencover.quantiles import Levels, conformal_rank, is_level_sequence, level_fractions

_MAX_GROUPS_TO_SCAN = 64  # up to so many groups, one pass for each is faster than sorting by group


def thresholds(scores: Any, level: Levels, *, groups: Any = None, n_groups: int | None = None) -> Any:
    """Return the threshold of each group, on the device of the scores and of their type.

    It is the k-th smallest of the n scores of a group, k = `conformal_rank(n, level)`, and inf if k > n: what
    `conformal_quantile` returns, bit for bit.

    Parameters
    ----------
    scores : array of shape (n,)
        Calibration scores; infinite ones are allowed, NaN is not.
    level : float or sequence of L floats
        Nominal coverage.
    groups : array of int, shape (n,), optional
        The group of each row, 0 to n_groups − 1. One group by default.
    n_groups : int, optional
        Number of groups, by default the largest code plus 1.

    Returns
    -------
    array of shape (n_groups,), or (n_groups, L) for L levels

    Examples
    --------
    >>> import numpy as np
    >>> thresholds(np.array([3.0, 1.0, 2.0, 5.0]), [0.5, 0.9], groups=np.array([0, 0, 0, 1]))
    array([[ 2., inf],
           [ 5., inf]])
    """
    levels = level_fractions(level)
    arrays = {"scores": scores} if groups is None else {"scores": scores, "groups": groups}
    xp = common_namespace(arrays)
    scores = checked_numbers(xp, scores, "scores", finite=False)
    groups, n_groups = checked_codes(xp, groups, n_groups, length=scores.shape[0], matched="scores")
    table = threshold_table(xp, scores, groups, n_groups, levels)
    return table if is_level_sequence(level) else table[:, 0]


def threshold_table(xp: Any, scores: Any, groups: Any, n_groups: int, levels: tuple[Fraction, ...]) -> Any:
    """Return the threshold of each group of checked scores at each level. Shape (n_groups, L)."""
    if groups is not None and (n_groups > _MAX_GROUPS_TO_SCAN or not on_cpu(scores)):
        return _table_by_sorting(xp, scores, groups, n_groups, levels)
    rows = []
    for own_scores, n in _scores_by_group(xp, scores, groups, n_groups):
        ranks = [conformal_rank(n, level) for level in levels]
        rows.append(xp.stack(smallest(xp, own_scores, ranks, n)))
    return xp.stack(rows)


def _scores_by_group(xp: Any, scores: Any, groups: Any, n_groups: int) -> Iterator[tuple[Any, int]]:
    """Yield the scores of each group and their number, one group at a time to save memory."""
    if groups is None:
        yield scores, scores.shape[0]
        return
    for code in range(n_groups):
        own_rows = groups == code
        n = count(xp, own_rows)
        yield values_where(xp, scores, own_rows, n), n


def _table_by_sorting(xp: Any, scores: Any, groups: Any, n_groups: int, levels: tuple[Fraction, ...]) -> Any:
    """Return the thresholds from scores that are sorted by group, and within each group. Shape (n_groups, L).

    A GPU sorts all scores as fast as it would collect those of each group.
    """
    short = n_groups <= 256  # and sorted faster
    groups = xp.astype(groups, xp.uint8, copy=False) if short else as_positions(xp, groups)
    by_score = xp.argsort(scores, stable=False)
    groups_by_score = xp.take(groups, by_score, axis=0)
    by_group = xp.argsort(groups_by_score, stable=True)
    positions, start = [], 0
    for size in _sizes_of_sorted(xp, xp.take(groups_by_score, by_group, axis=0), n_groups):
        ranks = [conformal_rank(size, level) for level in levels]
        positions += [start + rank - 1 if rank <= size else -1 for rank in ranks]
        start += size
    device = device_of(scores)
    chosen = xp.asarray([max(position, 0) for position in positions], device=device)
    found = xp.take(scores, xp.take(by_score, xp.take(by_group, chosen, axis=0), axis=0), axis=0)
    is_finite = xp.asarray([position >= 0 for position in positions], device=device)
    return xp.reshape(xp.where(is_finite, found, inf), (n_groups, len(levels)))


def group_sizes(xp: Any, groups: Any, n_groups: int) -> list[int]:
    """Return the number of rows of each group."""
    if n_groups <= _MAX_GROUPS_TO_SCAN:
        return [count(xp, groups == code) for code in range(n_groups)]
    return _sizes_of_sorted(xp, xp.sort(as_positions(xp, groups), stable=False), n_groups)


def _sizes_of_sorted(xp: Any, groups: Any, n_groups: int) -> list[int]:
    """Return the number of rows of each group, from groups in order."""
    codes = xp.arange(n_groups, dtype=groups.dtype, device=device_of(groups))
    ends = _numbers(xp.searchsorted(groups, codes, side="right"))
    return [end - start for start, end in pairwise([0, *ends])]


def _numbers(values: Any) -> list[int]:
    """Return a few whole numbers as Python numbers, at once where the library can."""
    return values.tolist() if hasattr(values, "tolist") else [int(values[i]) for i in range(values.shape[0])]


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
