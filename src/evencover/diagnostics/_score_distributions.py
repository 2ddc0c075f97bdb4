"""Whether the groups' scores differ at any level: pairs by Kolmogorov and Smirnov, all by Anderson and Darling."""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from scipy.stats import ks_2samp

from evencover._internal.arrays import FloatArray, IntArray
from evencover.diagnostics._exact_tests import holm
from evencover.groups import Groups, Label

_EXACT = 1000  # rows, without ties, up to which the Kolmogorov-Smirnov law is summed
_MOST_GROUPS = 30  # beyond which pairs are too many to look at
_DRAWS = 9999
_TERMS = 100
_PERMUTATIONS = 999
_PLACES, _MANY_PLACES = 100, 1000  # of scores with ties, and without: enough for the statistic, and little memory
_ROUNDING = 1e-9


@dataclass(frozen=True)
class DistributionDifference:
    """The distance between two groups' score distributions.

    Parameters
    ----------
    groups : pair of labels
        The two.
    distance : float
        The largest difference of their empirical distribution functions.
    p_value, adjusted : float
        Kolmogorov-Smirnov p-value: by itself, and adjusted for the number of pairs (Holm).
    """

    groups: tuple[Label, Label]
    distance: float
    p_value: float
    adjusted: float


def distribution_differences(scores: FloatArray, groups: Groups) -> tuple[DistributionDifference, ...]:
    """Return the distance of each pair of groups that have rows; of none, if there are more than 30."""
    members = groups.split(scores)
    if len(members) > _MOST_GROUPS:
        return ()
    found = []
    for first, second in combinations(members, 2):
        a, b = members[first], members[second]
        largest, tied = max(len(a), len(b)), len(np.unique(np.append(a, b))) < len(a) + len(b)
        exact = largest == 1 or (largest <= _EXACT and not tied)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the exact sum may come out above 1
            test = ks_2samp(a, b, method="exact" if exact else "asymp")
        found.append(((first, second), float(test.statistic), float(test.pvalue)))
    adjusted = holm(np.array([p_value for *_, p_value in found])).tolist()
    return tuple(DistributionDifference(*each, p) for each, p in zip(found, adjusted, strict=True))


def anderson_darling_p_value(scores: FloatArray, groups: Groups, rng: np.random.Generator) -> float:
    """Return the p-value of one distribution for all groups' scores; 1 with fewer than two groups.

    The statistic is Scholz and Stephens' for k samples. Its law in large samples without ties is that of
    Σ_j χ²_j / (j (j + 1)), each χ² with k − 1 degrees of freedom: 9999 draws of it, always the same. With ties the
    scores are seen as at most 100 ranks, and the groups' counts at each drawn anew, 999 times (fewer for more than 30
    groups): a permutation test, which is exact.

    References
    ----------
    Scholz, Stephens (1987), K-sample Anderson-Darling tests.
    """
    in_groups = groups.codes >= 0
    values, codes = scores[in_groups], groups.codes[in_groups]
    _, places = np.unique(values, return_inverse=True)
    _, codes = np.unique(codes, return_inverse=True)
    n_groups, n_places = codes.max(initial=-1) + 1, places.max(initial=-1) + 1
    if n_groups < 2 or n_places < 2:
        return 1.0
    if n_places == len(values):
        observed, law = _statistics(_table(codes, _coarse(places, _MANY_PLACES))[None]), _limit_law(n_groups)
    else:
        table = _table(codes, _coarse(places, _PLACES))
        observed, law = _statistics(table[None]), _statistics(_tables_like(table, rng))
    return float(1 + np.count_nonzero(law >= observed * (1 - _ROUNDING))) / (len(law) + 1)


@lru_cache(maxsize=8)
def _limit_law(n_samples: int) -> FloatArray:
    """Return draws of the statistic's law in large samples; of the terms left out, only the mean."""
    weights = 1 / (np.arange(1, _TERMS + 1) * np.arange(2, _TERMS + 2))
    draws = np.random.default_rng(0).chisquare(n_samples - 1, size=(_DRAWS, _TERMS))
    return np.asarray(draws @ weights + (n_samples - 1) / (_TERMS + 1))


def _table(codes: IntArray, places: IntArray) -> IntArray:
    """Return the rows of each group at each place among the sorted scores. Shape (groups, places)."""
    shape = codes.max() + 1, places.max() + 1
    return np.bincount(codes * shape[1] + places, minlength=shape[0] * shape[1]).reshape(shape)


def _coarse(places: IntArray, most: int) -> IntArray:
    """Return places merged with their neighbours, where there are more than that many, to so many of equal rows."""
    counts = np.bincount(places)
    if len(counts) <= most:
        return places
    bins = (np.cumsum(counts) - 1) * most // len(places)
    return np.unique(bins[places], return_inverse=True)[1]


def _tables_like(table: IntArray, rng: np.random.Generator) -> IntArray:
    """Return tables with the same sums, drawn as if scores did not depend on groups. Shape (draws, groups, places)."""
    left = np.tile(table.sum(axis=0), (max(99, min(_PERMUTATIONS, 30_000 // len(table))), 1))
    drawn = []
    for size in table.sum(axis=1)[:-1]:
        drawn.append(np.stack([rng.multivariate_hypergeometric(each, size, method="marginals") for each in left]))
        left = left - drawn[-1]
    return np.stack([*drawn, left], axis=1)


def _statistics(tables: IntArray) -> FloatArray:
    """Return Anderson and Darling's statistic of each table; a tied row counts half. Shape (tables,)."""
    ties, sizes = tables[0].sum(axis=0), tables[0].sum(axis=1)
    n, up_to = ties.sum(), np.cumsum(ties) - ties / 2
    scale = ties / (n * (up_to * (n - up_to) - n * ties / 4))
    own = np.cumsum(tables, axis=-1) - tables / 2
    squares = (n * own - sizes[:, None] * up_to) ** 2 @ scale  # (tables, groups)
    return np.asarray((squares / sizes).sum(axis=-1) * (n - 1) / n)
