"""Tests of whether scores depend on the groups: differences of quantiles, whole distributions, the spread."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc
from scipy.stats import beta, chi2, ks_2samp, rankdata

from evencover.diagnostics.exact_tests import SIGNIFICANT, holm
from evencover.display.text import p_value_phrase
from evencover.groups import Groups, Label
from evencover.inputs.arrays import FloatArray, IntArray, checked_vector
from evencover.quantiles import Level, level_fraction

MIN_ROWS_ABOVE = 10  # expected rows of a group above the quantile; with fewer, the bootstrap is not reliable
_MIN_RESAMPLES = 2000
_RESAMPLES_PER_PAIR = 100
_MAX_RESAMPLES = 20_000
_MAX_GROUPS = 30  # with more, there are too many pairs to look at
_NEGLIGIBLE = 1e-11  # weight, or probability, outside the window at either end
_MAX_COUNTS = 2_000_000  # in memory at a time


@dataclass(frozen=True)
class QuantileDifference:
    """The difference between the score quantiles of two groups, with a bootstrap interval.

    Parameters
    ----------
    groups : pair of labels
        The first group, and the second one, which is subtracted.
    difference : float
        Difference of the Harrell-Davis estimates; NaN if one of them is not finite.
    low, high : float
        Percentile interval; the intervals of all pairs hold jointly with probability about 95 % (Bonferroni).
    p_value, adjusted : float
        Bootstrap p-value: unadjusted, and Holm-adjusted for the number of pairs.
    """

    groups: tuple[Label, Label]
    difference: float
    low: float
    high: float
    p_value: float
    adjusted: float


def quantile_differences(
    scores: FloatArray, groups: Groups, level: Level, rng: np.random.Generator
) -> tuple[QuantileDifference, ...]:
    """Return the difference of score quantiles for each pair of groups, at the probability level × (1 + 1/n).

    The marginal threshold of all n rows estimates the quantile at this probability. The bootstrap is approximate: it
    needs about 10 / (1 − level) rows per group. With more than 30 groups there are too many pairs, and the result is
    empty.

    References
    ----------
    Wilcox, Erceg-Hurn, Clark, Carlson (2014), Comparing two independent groups via the lower and upper quantiles.
    """
    members = groups.split(scores)
    probability = float(level_fraction(level)) * (1 + 1 / max(len(scores), 1))
    pairs = list(combinations(members, 2))
    if not pairs or probability >= 1 or len(members) > _MAX_GROUPS:
        return ()
    n_resamples = min(max(_MIN_RESAMPLES, _RESAMPLES_PER_PAIR * len(pairs)), _MAX_RESAMPLES)
    estimates = {label: harrell_davis(own, probability) for label, own in members.items()}
    resampled = {label: resampled_quantiles(own, probability, n_resamples, rng) for label, own in members.items()}
    compared = [_bootstrap_test(estimates[a] - estimates[b], resampled[a] - resampled[b], len(pairs)) for a, b in pairs]
    adjusted = holm(np.array([p_value for *_, p_value in compared])).tolist()
    return tuple(QuantileDifference(*each) for each in zip(pairs, *zip(*compared, strict=True), adjusted, strict=True))


def harrell_davis(values: Any, probability: float) -> float:
    """Return the Harrell-Davis estimate of a quantile: the mean of all order statistics with Beta weights.

    The weights come from the distribution Beta((n + 1) p, (n + 1)(1 − p)) of the order statistic of rank (n + 1) p.

    Parameters
    ----------
    values : array-like of shape (n,)
        The sample.
    probability : float
        Probability of the quantile, in (0, 1).

    References
    ----------
    Harrell, Davis (1982), A new distribution-free quantile estimator.

    Examples
    --------
    >>> round(harrell_davis([1.0, 2.0, 3.0, 4.0], 0.5), 6)
    2.5
    """
    ordered = np.sort(checked_vector(values, "values", finite=False))
    weights = np.diff(_cumulative_weights(len(ordered), probability))
    used = np.isfinite(ordered) | (weights > _NEGLIGIBLE)
    return float(weights[used] @ ordered[used])


def resampled_quantiles(
    values: FloatArray, probability: float, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return the Harrell-Davis estimates of bootstrap resamples; NaN if scores near the quantile are infinite."""
    n = len(values)
    weights = _cumulative_weights(n, probability)
    low, high = _window(weights, n)
    ordered = np.partition(values, [low, high - 1])[low:high]
    ordered.sort()
    with np.errstate(invalid="ignore"):  # from infinite scores
        steps = np.diff(ordered)
        parts = [weights[counts] @ steps for counts in _cumulative_counts(n, low, high, n_resamples, rng)]
        return np.asarray(ordered[-1] - np.concatenate(parts))


def _cumulative_weights(n: int, probability: float) -> FloatArray:
    """Return the total weight of the i smallest of n values, for i from 0 to n. Shape (n + 1,)."""
    return np.asarray(betainc((n + 1) * probability, (n + 1) * (1 - probability), np.arange(n + 1) / n))


def _window(weights: FloatArray, n: int) -> tuple[int, int]:
    """Return the range of positions (the end excluded) of the scores that can have weight in a resample."""
    first = int(np.searchsorted(weights, _NEGLIGIBLE))  # smallest rank that has weight
    last = int(np.searchsorted(weights, 1 - _NEGLIGIBLE))  # largest rank that has weight
    low = int(n * beta.ppf(_NEGLIGIBLE, first, n - first + 1)) if first > 0 else 0
    high = int(np.ceil(n * beta.isf(_NEGLIGIBLE, last, n - last + 1))) if last < n else n
    return min(low, n - 1), max(high, low + 1)


def _cumulative_counts(n: int, low: int, high: int, n_resamples: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield, for blocks of resamples, how many of n draws fall up to each position of the window but the last."""
    width = high - low
    block = max(1, _MAX_COUNTS // width)
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        below = rng.binomial(n, low / n, size)
        inside = rng.binomial(n - below, width / (n - low)).astype(np.intp)  # np.repeat takes no int64 on 32 bits
        positions = np.repeat(np.arange(0, size * width, width), inside)
        positions += rng.integers(0, width, len(positions))
        counts = np.bincount(positions, minlength=size * width).reshape(size, width)
        counts[:, 0] += below
        yield np.cumsum(counts, axis=1)[:, :-1]


def _bootstrap_test(difference: float, resampled: FloatArray, n_pairs: int) -> tuple[float, float, float, float]:
    """Return a difference with the bounds of its percentile interval and its p-value."""
    if not np.isfinite(difference) or np.isnan(resampled).any():
        return (np.nan,) * 4
    tail = SIGNIFICANT / n_pairs / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    above, below = np.count_nonzero(resampled >= 0), np.count_nonzero(resampled <= 0)
    p_value = min(1.0, 2 * (1 + min(above, below)) / (1 + len(resampled)))
    return float(difference), float(low), float(high), p_value


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


_DEGREE = 3
_MIN_ROWS = 20  # for the chi-squared approximation
_MAX_ROWS = 50_000  # enough to find any dependence that matters
_NEGLIGIBLE_SIZE = 1e-8
_POWERS = np.linspace(-2.0, 3.0, 21)
_TERMS = np.concatenate([-np.linspace(0.9, 0.1, 9), [0.0], np.geomspace(0.1, 10.0, 11)])
_ACTIONS = {
    "power": "dividing the score by spread**{value:.2f}",
    "term": "dividing the score by (spread {sign} {size:.2f} × median spread)",
    "term in the divisor": "multiplying the score by spread / (spread {sign} {size:.2f} × median spread)",
}


@dataclass(frozen=True)
class Remedy:
    """The best change of one kind to make the score independent of the spread.

    Parameters
    ----------
    kind : {"power", "term", "term in the divisor"}
        Divide the score by spread**value; divide it by spread + value × median spread; or, for a score that is already
        divided by the spread, divide by spread + value × median spread instead.
    value : float
        The value that leaves the least dependence.
    p_value : float
        p-value of independence after the change: small if no value removes the dependence.
    """

    kind: str
    value: float
    p_value: float

    @property
    def removes_dependence(self) -> bool:
        """Whether the changed score shows no significant dependence on the spread."""
        return self.p_value >= SIGNIFICANT

    def __str__(self) -> str:
        sign = "-" if self.value < 0 else "+"
        return _ACTIONS[self.kind].format(value=self.value, sign=sign, size=abs(self.value))


@dataclass(frozen=True)
class Dependence:
    """Whether the score depends on the spread.

    Parameters
    ----------
    p_value : float
        p-value of independence; NaN if the score or the spread is constant, or with fewer than 20 rows.
    correlation : float
        Rank correlation (Spearman) of score and spread. If it is positive, noisy rows have larger scores.
    remedies : tuple of Remedy
        If they are dependent: the changes of the score that were evaluated, the simplest first.
    """

    p_value: float
    correlation: float
    remedies: tuple[Remedy, ...] = ()

    @property
    def sufficient_remedy(self) -> Remedy | None:
        """The simplest change of the score that removes the dependence, if there is one."""
        return next((remedy for remedy in self.remedies if remedy.removes_dependence), None)

    def __str__(self) -> str:
        if np.isnan(self.p_value):
            return f"not tested (one of them is constant, or there are fewer than {_MIN_ROWS} rows)"
        if self.p_value >= SIGNIFICANT:
            return f"no significant dependence ({p_value_phrase(self.p_value)})"
        found = f"dependent ({p_value_phrase(self.p_value)}, rank correlation {self.correlation:+.2f})"
        if self.sufficient_remedy:
            return f"{found}; {self.sufficient_remedy} would remove the dependence"
        none = "; dividing by a power of the spread or adding a term to it would not remove the dependence"
        return found + none * bool(self.remedies)


def dependence(scores: FloatArray, spread: FloatArray, rng: np.random.Generator) -> Dependence:
    """Return whether the score depends on the spread, and which changes of the score were evaluated.

    With more than 50 000 rows, a random sample of so many is used.
    """
    if len(scores) > _MAX_ROWS:
        sample = rng.choice(len(scores), _MAX_ROWS, replace=False)
        scores, spread = scores[sample], spread[sample]
    if len(scores) < _MIN_ROWS or spread.min() == spread.max() or scores.min() == scores.max():
        return Dependence(np.nan, np.nan)
    score_basis, basis = _rank_polynomials(scores), _rank_polynomials(spread)
    p_value, correlation = _p_value(score_basis, basis), float(score_basis[:, 0] @ basis[:, 0])
    if p_value >= SIGNIFICANT or spread.min() <= 0:
        return Dependence(p_value, correlation)
    ratios = spread / np.median(spread)
    terms = _TERMS[ratios.min() + _TERMS > 0]
    remedies = [
        _best_remedy("power", _POWERS, basis, lambda power: scores / ratios**power),
        _best_remedy("term", terms, basis, lambda term: scores / (ratios + term)),
        _best_remedy("term in the divisor", terms, basis, lambda term: scores * ratios / (ratios + term)),
    ]
    return Dependence(p_value, correlation, tuple(remedies))


def _rank_polynomials(values: FloatArray) -> FloatArray:
    """Return orthonormal polynomials of the ranks, without the constant; fewer if few values differ. Shape (n, 3)."""
    ranks = rankdata(values)
    centered = (ranks - ranks.mean()) / len(ranks)
    basis, triangle = np.linalg.qr(np.stack([centered**power for power in range(_DEGREE + 1)], axis=1))
    sizes = triangle.diagonal()
    kept = np.flatnonzero(np.abs(sizes) > _NEGLIGIBLE_SIZE * np.sqrt(len(ranks)))[1:]
    return np.asarray(basis[:, kept] * np.sign(sizes[kept]))


def _statistic(a: FloatArray, b: FloatArray) -> float:
    """Return the test statistic of two bases: (n − 1) times the sum of their squared correlations."""
    return float((len(a) - 1) * np.sum((a.T @ b) ** 2))


def _p_value(a: FloatArray, b: FloatArray, *, fitted: int = 0) -> float:
    """Return the p-value of independence, given the two bases and the number of fitted parameters."""
    freedom = a.shape[1] * b.shape[1] - fitted
    return float(chi2.sf(_statistic(a, b), max(freedom, 1)))


def _best_remedy(kind: str, grid: FloatArray, basis: FloatArray, changed: Callable[[float], FloatArray]) -> Remedy:
    """Return the remedy whose parameter leaves the least dependence: best on a grid, then refined between neighbours.

    `changed` returns the changed scores for a value of the parameter. `basis` is that of the spread.
    """

    def statistic(value: float) -> float:
        return _statistic(_rank_polynomials(changed(value)), basis)

    on_grid = [statistic(value) for value in grid]
    best = int(np.argmin(on_grid))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    refined = minimize_scalar(statistic, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    value = float(refined.x) if refined.fun <= on_grid[best] else float(grid[best])
    return Remedy(kind, value, _p_value(_rank_polynomials(changed(value)), basis, fitted=1))
