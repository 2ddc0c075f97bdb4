"""The guarantee as a law: the number covered among m new rows of a group is BetaBinomial(m, k, n + 1 - k)."""

import numpy as np
import pytest
from scipy.stats import betabinom, chisquare
from sklearn.frozen import FrozenEstimator

from evencover import (
    ByFeature,
    BySpread,
    ByTarget,
    ConformalRegressor,
    Marginal,
    Residual,
    Rows,
    TooFewRowsWarning,
    calibrate,
    conformal_rank,
    quantiles,
)
from evencover._internal.bins import Bins
from tests.synthetic import ALL_SCORES, ONE_IN_A_MILLION, Oracle, draw

LEVELS = [0.05, 0.5, 0.9]
N, M = 37, 12


def covered_counts(score, taxonomy, *, repeats, seed, levels=LEVELS, n=N):
    """Return how many of M new rows are covered, one count a repeat, by (label, calibration size, level)."""
    rng = np.random.default_rng(seed)
    fixed_sizes = np.arange(n) % 3 == 0 if isinstance(taxonomy, ByFeature) else None
    counts = {}
    for _ in range(repeats):
        old, new = draw(rng, n, feature=fixed_sizes), draw(rng, 9 * M)
        groups = taxonomy.learn(Rows(old.prediction, old.X, old.y))
        calibration = calibrate(old.y, old.prediction, nonconformity=score, groups=groups)
        assigned = taxonomy.assign(Rows(new.prediction, new.X, new.y))
        covered = calibration.interval(new.prediction, groups=assigned, level=levels).covers(new.y)
        add_counts(counts, covered, assigned.codes, calibration.sizes, levels)
    return counts


def add_counts(counts, covered, codes, sizes, levels):
    """Add the number covered among the first M new rows of each group that has so many."""
    for code, (label, size) in enumerate(sizes.items()):
        rows = np.flatnonzero(codes == code)[:M]
        if len(rows) == M:
            for level, hits in zip(levels, covered[rows].sum(axis=0), strict=True):
                counts.setdefault((label, size, level), []).append(hits)


def law_p_value(hits, size, level):
    """Return the chi-square p-value of counts against their law."""
    k = conformal_rank(size, level)
    observed = np.bincount(hits, minlength=M + 1)
    if k > size:  # everything is covered
        return float(observed[M] == len(hits))
    expected = betabinom(M, k, size + 1 - k).pmf(np.arange(M + 1)) * len(hits)
    cells = np.minimum(np.cumsum(expected) // 10, (len(hits) - 10) // 10)  # of about 10 expected or more
    _, cells = np.unique(cells, return_inverse=True)
    return float(chisquare(np.bincount(cells, observed), np.bincount(cells, expected)).pvalue)


def worst_p_value(counts):
    """Return the worst fit over groups and levels, of those with repeats enough to tell."""
    p_values = [law_p_value(hits, size, level) for (_, size, level), hits in counts.items() if len(hits) >= 300]
    assert p_values, "no group had enough repeats: the test would say nothing"
    return min(p_values)


@pytest.mark.parametrize("taxonomy", [Marginal(), BySpread(3), ByFeature(0)], ids=repr)
@pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
def test_coverage_follows_its_law(score, taxonomy):
    """Every score with every taxonomy, at levels near 0, in the middle and near 1."""
    assert worst_p_value(covered_counts(score, taxonomy, repeats=1500, seed=1)) > ONE_IN_A_MILLION


@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_small_bins_follow_the_law(n_groups):
    """A handful of rows a bin, infinite thresholds among them."""
    with pytest.warns(TooFewRowsWarning):
        counts = covered_counts(
            Residual(), BySpread(n_groups), repeats=1500, seed=2, levels=[0.01, 0.3, 0.6, 0.99], n=13
        )
    assert worst_p_value(counts) > ONE_IN_A_MILLION


def test_the_law_catches_a_rank_off_by_one(monkeypatch):
    """One rank too many over-covers by 1 / (n + 1), which a tolerance would let pass."""
    monkeypatch.setattr(quantiles, "conformal_rank", lambda n, level: conformal_rank(n, level) + 1)
    assert worst_p_value(covered_counts(Residual(), Marginal(), repeats=1500, seed=1)) < ONE_IN_A_MILLION


def test_the_law_catches_edge_rows_left_in(monkeypatch):
    """The same bins with their edge rows as ordinary members are not exactly valid."""
    learn = Bins.equal_frequency

    def edges_left_in(values, n_groups, name):
        bins = learn(values, n_groups, name)
        return Bins(bins.edges, np.zeros_like(bins.apart), name)

    monkeypatch.setattr(Bins, "equal_frequency", edges_left_in)
    counts = covered_counts(Residual(), BySpread(3), repeats=3000, seed=1, levels=[0.9], n=30)
    assert worst_p_value(counts) < ONE_IN_A_MILLION


def test_union_over_target_groups_follows_the_law():
    """With groups of the target itself, the union of the groups' pieces has the law in every group."""
    rng = np.random.default_rng(3)
    counts, hulls = {}, []
    for _ in range(600):
        old, new = draw(rng, 9 * N), draw(rng, 12 * M)
        keep = np.concatenate([rows[:N] for rows in by_target(old.y)])
        model = ConformalRegressor(FrozenEstimator(Oracle().fit(old.X, old.y)), taxonomy=ByTarget([-0.5, 0.7]))
        model.fit(old.X[keep], old.y[keep])
        union = model.predict_union(new.X, level=[0.5, 0.9])
        codes = model.taxonomy_.assign(Rows(new.prediction, y=new.y)).codes
        add_counts(counts, union.covers(new.y), codes, model.calibration_.sizes, [0.5, 0.9])
        hulls.append(union.hull().covers(new.y).mean(axis=0) - union.covers(new.y).mean(axis=0))
    assert worst_p_value(counts) > ONE_IN_A_MILLION
    assert np.min(hulls) >= 0
    assert np.max(hulls) > 0


def by_target(y):
    """Return the rows of each target group."""
    return [np.flatnonzero(y <= -0.5), np.flatnonzero((y > -0.5) & (y <= 0.7)), np.flatnonzero(y > 0.7)]
