"""Tests of equal score distributions: Kolmogorov-Smirnov for pairs of groups, Anderson-Darling for all groups."""

import warnings
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations

import numpy as np
from scipy.stats import ks_2samp

from evencover._internal.arrays import FloatArray, IntArray
from evencover.diagnostics._exact_tests import holm
from evencover.groups import Groups, Label

_MAX_EXACT_ROWS = 1000  # of untied scores; with more, the Kolmogorov-Smirnov p-value is asymptotic

_N_DRAWS = 9999
_N_TERMS = 100
_PERMUTATIONS = 999
_MAX_TIED_RANKS, _MAX_RANKS = 100, 1000  # with ties, and without: enough for the statistic, and little memory
_ROUNDING_MARGIN = 1e-9


@dataclass(frozen=True)
class DistributionDifference:
    """The distance between the score distributions of two groups.

    Parameters
    ----------
    groups : pair of labels
        The two groups.
    distance : float
        The largest difference of their empirical CDFs.
    p_value, adjusted : float
        Kolmogorov-Smirnov p-value: unadjusted, and Holm-adjusted for the number of pairs.
    """

    groups: tuple[Label, Label]
    distance: float
    p_value: float
    adjusted: float


def distribution_differences(scores: FloatArray, groups: Groups) -> tuple[DistributionDifference, ...]:
    """Return the distance for each pair of groups that have rows; empty if there are more than 30 such groups."""
    members = groups.split(scores)
    if len(members) > _MAX_GROUPS:
        return ()
    compared = []
    for first, second in combinations(members, 2):
        a, b = members[first], members[second]
        largest, tied = max(len(a), len(b)), len(np.unique(np.append(a, b))) < len(a) + len(b)
        exact = largest == 1 or (largest <= _MAX_EXACT_ROWS and not tied)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the exact sum can slightly exceed 1
            test = ks_2samp(a, b, method="exact" if exact else "asymp")
        compared.append(((first, second), float(test.statistic), float(test.pvalue)))
    adjusted = holm(np.array([p_value for *_, p_value in compared])).tolist()
    return tuple(DistributionDifference(*each, p) for each, p in zip(compared, adjusted, strict=True))


def anderson_darling_p_value(scores: FloatArray, groups: Groups, rng: np.random.Generator) -> float:
    """Return the p-value of the null hypothesis that all groups share one score distribution; 1 with fewer than two.

    The statistic is the k-sample statistic of Scholz and Stephens. Without ties, its large-sample distribution is that
    of Σ_j χ²_j / (j (j + 1)), each χ² with k − 1 degrees of freedom; it is represented by 9999 fixed draws. With ties,
    the scores are merged to at most 100 ranks and an exact permutation test is used: the groups' counts at each rank
    are drawn 999 times (fewer for more than 30 groups).

    References
    ----------
    Scholz, Stephens (1987), K-sample Anderson-Darling tests.
    """
    in_groups = groups.codes >= 0
    values, codes = scores[in_groups], groups.codes[in_groups]
    _, ranks = np.unique(values, return_inverse=True)
    _, codes = np.unique(codes, return_inverse=True)
    n_groups, n_ranks = codes.max(initial=-1) + 1, ranks.max(initial=-1) + 1
    if n_groups < 2 or n_ranks < 2:
        return 1.0
    if n_ranks == len(values):
        observed = _statistics(_contingency_table(codes, _merge_ranks(ranks, _MAX_RANKS))[None])
        null_draws = _limit_draws(n_groups)
    else:
        table = _contingency_table(codes, _merge_ranks(ranks, _MAX_TIED_RANKS))
        observed, null_draws = _statistics(table[None]), _statistics(_permuted_tables(table, rng))
    return float(1 + np.count_nonzero(null_draws >= observed * (1 - _ROUNDING_MARGIN))) / (len(null_draws) + 1)


@lru_cache(maxsize=8)
def _limit_draws(n_samples: int) -> FloatArray:
    """Return draws of the statistic's large-sample distribution; terms after the 100th are replaced by their mean."""
    weights = 1 / (np.arange(1, _N_TERMS + 1) * np.arange(2, _N_TERMS + 2))
    draws = np.random.default_rng(0).chisquare(n_samples - 1, size=(_N_DRAWS, _N_TERMS))
    return np.asarray(draws @ weights + (n_samples - 1) / (_N_TERMS + 1))


def _contingency_table(codes: IntArray, ranks: IntArray) -> IntArray:
    """Return the number of rows of each group at each rank of the scores. Shape (groups, ranks)."""
    shape = codes.max() + 1, ranks.max() + 1
    return np.bincount(codes * shape[1] + ranks, minlength=shape[0] * shape[1]).reshape(shape)


def _merge_ranks(ranks: IntArray, limit: int) -> IntArray:
    """Return ranks; if there are more than the limit, neighbours are merged into bins of about equally many rows."""
    counts = np.bincount(ranks)
    if len(counts) <= limit:
        return ranks
    bins = (np.cumsum(counts) - 1) * limit // len(ranks)
    return np.unique(bins[ranks], return_inverse=True)[1]


def _permuted_tables(table: IntArray, rng: np.random.Generator) -> IntArray:
    """Return random tables with the same margins, for scores independent of groups. Shape (draws, groups, ranks)."""
    n_draws = max(99, min(_PERMUTATIONS, 30_000 // len(table)))
    ties, (first, *others, _) = table.sum(axis=0), table.sum(axis=1)
    draw = partial(rng.multivariate_hypergeometric, method="marginals")
    drawn = [draw(ties, first, n_draws)]
    remaining = ties - drawn[0]
    for size in others:
        drawn.append(np.stack([draw(each, size) for each in remaining]))
        remaining = remaining - drawn[-1]
    return np.stack([*drawn, remaining], axis=1)


def _statistics(tables: IntArray) -> FloatArray:
    """Return the Anderson-Darling statistic of each table; a tied row counts half. Shape (tables,)."""
    ties, sizes = tables[0].sum(axis=0), tables[0].sum(axis=1)
    n, up_to = ties.sum(), np.cumsum(ties) - ties / 2
    scale = ties / (n * (up_to * (n - up_to) - n * ties / 4))
    own = np.cumsum(tables, axis=-1) - tables / 2
    squares = (n * own - sizes[:, None] * up_to) ** 2 @ scale  # (tables, groups)
    return np.asarray((squares / sizes).sum(axis=-1) * (n - 1) / n)
