"""Whether the groups' scores differ at any level: pairs by Kolmogorov and Smirnov, all by Anderson and Darling."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from scipy.stats import ks_2samp

from evencover.diagnostics.counts import holm
from evencover.groups import Groups, Label, rows_by_code
from evencover.inputs import FloatArray

_EXACT = 1000  # rows up to which the Kolmogorov-Smirnov law is summed
_DRAWS = 9999
_TERMS = 100


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
    """Return the distance of each pair of groups that have rows."""
    members = {groups.labels[code]: scores[rows] for code, rows in rows_by_code(groups.codes, len(groups.labels))}
    found = []
    for first, second in combinations(members, 2):
        a, b = members[first], members[second]
        test = ks_2samp(a, b, method="exact" if max(len(a), len(b)) <= _EXACT else "asymp")
        found.append(((first, second), float(test.statistic), float(test.pvalue)))
    adjusted = holm(np.array([p_value for *_, p_value in found])).tolist()
    return tuple(DistributionDifference(*each, p) for each, p in zip(found, adjusted, strict=True))


def anderson_darling_p_value(scores: FloatArray, groups: Groups) -> float:
    """Return the p-value of one distribution for all groups' scores; 1 with fewer than two groups.

    The statistic is Scholz and Stephens' for k samples with ties; its law in large samples is that of
    Σ_j χ²_j / (j (j + 1)), each χ² with k − 1 degrees of freedom: 9999 draws of it, always the same.

    References
    ----------
    Scholz, Stephens (1987), K-sample Anderson-Darling tests.
    """
    statistic, n_samples = _anderson_darling(scores, groups)
    if n_samples < 2:
        return 1.0
    return float(1 + np.count_nonzero(_limit_law(n_samples) >= statistic)) / (_DRAWS + 1)


@lru_cache(maxsize=8)
def _limit_law(n_samples: int) -> FloatArray:
    """Return draws of the statistic's law in large samples; of the terms left out, only the mean."""
    weights = 1 / (np.arange(1, _TERMS + 1) * np.arange(2, _TERMS + 2))
    draws = np.random.default_rng(0).chisquare(n_samples - 1, size=(_DRAWS, _TERMS))
    return np.asarray(draws @ weights + (n_samples - 1) / (_TERMS + 1))


def _anderson_darling(scores: FloatArray, groups: Groups) -> tuple[float, int]:
    """Return the statistic, and the number of groups that have rows."""
    in_groups = groups.codes >= 0
    values, codes = scores[in_groups], groups.codes[in_groups]
    ladder, places, ties = np.unique(values, return_inverse=True, return_counts=True)
    n, sizes = len(values), np.bincount(codes, minlength=len(groups.labels))
    if len(ladder) < 2:
        return 0.0, int(np.count_nonzero(sizes))
    up_to = np.cumsum(ties) - ties / 2  # a tied row counts half
    scale = ties / (n * (up_to * (n - up_to) - n * ties / 4))
    total = 0.0
    for group in np.flatnonzero(sizes):
        own = np.bincount(places[codes == group], minlength=len(ladder))
        total += float(scale @ (n * (np.cumsum(own) - own / 2) - sizes[group] * up_to) ** 2) / sizes[group]
    return total * (n - 1) / n, int(np.count_nonzero(sizes))
