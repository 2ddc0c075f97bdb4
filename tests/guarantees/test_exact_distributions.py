"""The exact distribution of coverage: BetaBinomial(m, k, n + 1 - k) of m new rows of a group are covered."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.stats import betabinom, chisquare
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer

from evencover import (
    ByFeature,
    BySpread,
    ByTarget,
    ConformalRegressor,
    Marginal,
    Normalized,
    Prediction,
    ProbabilityDistance,
    Residual,
    Rows,
    TooFewRowsWarning,
    calibrate,
    conformal_rank,
    quantiles,
)
from evencover._internal.bins import Bins
from evencover._internal.target_scales import on_target_scale
from tests.synthetic import ALL_SCORES, ONE_IN_A_MILLION, Oracle, draw

LEVELS = [0.05, 0.5, 0.9]
N, M = 37, 12


def covered_counts(score, taxonomy, *, repeats, seed, levels=LEVELS, n=N):
    """Return the number covered among M new rows in each repeat, by (label, calibration size, level)."""
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
    """Add the number covered among the first M new rows of each group that has at least M."""
    for code, (label, size) in enumerate(sizes.items()):
        rows = np.flatnonzero(codes == code)[:M]
        if len(rows) == M:
            for level, hits in zip(levels, covered[rows].sum(axis=0), strict=True):
                counts.setdefault((label, size, level), []).append(hits)


def chi_square_p_value(hits, size, level):
    """Return the p-value of a chi-square test of the numbers covered against their exact distribution."""
    k = conformal_rank(size, level)
    observed = np.bincount(hits, minlength=M + 1)
    if k > size:  # everything is covered
        return float(observed[M] == len(hits))
    expected = betabinom(M, k, size + 1 - k).pmf(np.arange(M + 1)) * len(hits)
    bins = np.minimum(np.cumsum(expected) // 10, (len(hits) - 10) // 10)  # with at least about 10 expected counts
    _, bins = np.unique(bins, return_inverse=True)
    return float(chisquare(np.bincount(bins, observed), np.bincount(bins, expected)).pvalue)


def smallest_p_value(counts):
    """Return the smallest p-value over groups and levels with at least 300 repeats."""
    p_values = [chi_square_p_value(hits, size, level) for (_, size, level), hits in counts.items() if len(hits) >= 300]
    assert p_values, "no group had enough repeats, so nothing was tested"
    return min(p_values)


@pytest.mark.parametrize("repeats", [500, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("taxonomy", [Marginal(), BySpread(3), ByFeature(0)], ids=repr)
@pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
def test_coverage_has_its_exact_distribution(score, taxonomy, repeats):
    """For every score and taxonomy, at levels near 0, in the middle and near 1."""
    assert smallest_p_value(covered_counts(score, taxonomy, repeats=repeats, seed=1)) > ONE_IN_A_MILLION


@pytest.mark.parametrize("score", [Residual(), Normalized(), ProbabilityDistance()], ids=repr)
@pytest.mark.parametrize("function", [np.log, lambda y: -np.log(y)], ids=["increasing", "decreasing"])
def test_coverage_on_another_scale_has_its_exact_distribution(score, function):
    """The target is lognormal, and the model was fitted to its logarithm."""
    sign = 1 if function is np.log else -1
    transformer = FunctionTransformer(function, lambda z: np.exp(sign * z)).fit(np.ones((1, 1)))
    rng, counts = np.random.default_rng(8), {}
    for _ in range(400):
        old, new = draw(rng, N), draw(rng, 3 * M)
        scaled = [on_target_scale(Prediction(sign * each.X[:, 2], each.X[:, 1]), transformer) for each in (old, new)]
        calibration = calibrate(np.exp(old.y), scaled[0], nonconformity=score)
        covered = calibration.interval(scaled[1], level=LEVELS).covers(np.exp(new.y))
        add_counts(counts, covered, np.zeros(len(new.y), dtype=int), calibration.sizes, LEVELS)
    assert smallest_p_value(counts) > ONE_IN_A_MILLION


@pytest.mark.slow
def test_coverage_of_a_fitted_log_model_has_its_exact_distribution():
    """From the split to the intervals, in the unit of the target."""
    rng, counts = np.random.default_rng(9), {}
    for _ in range(400):
        X = rng.normal(size=(2 * N + M, 1))
        y = np.exp(X[:, 0] + rng.gumbel(size=len(X)))
        model = ConformalRegressor(LinearRegression(), target_transform="log", random_state=0)
        model.fit(X[: 2 * N], y[: 2 * N])
        covered = model.predict_interval(X[2 * N :], level=LEVELS).covers(y[2 * N :])
        add_counts(counts, covered, np.zeros(M, dtype=int), {"all": N}, LEVELS)
    assert smallest_p_value(counts) > ONE_IN_A_MILLION


@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_coverage_of_small_bins_has_its_exact_distribution(n_groups):
    """A few rows in each bin; some thresholds are infinite."""
    with pytest.warns(TooFewRowsWarning):
        counts = covered_counts(
            Residual(), BySpread(n_groups), repeats=1500, seed=2, levels=[0.01, 0.3, 0.6, 0.99], n=13
        )
    assert smallest_p_value(counts) > ONE_IN_A_MILLION


def test_a_rank_off_by_one_is_detected(monkeypatch):
    """It over-covers by 1 / (n + 1), which a test with a tolerance would not notice."""
    monkeypatch.setattr(quantiles, "conformal_rank", lambda n, level: conformal_rank(n, level) + 1)
    assert smallest_p_value(covered_counts(Residual(), Marginal(), repeats=1500, seed=1)) < ONE_IN_A_MILLION


def test_edge_rows_as_ordinary_members_are_detected(monkeypatch):
    """The same bins are then not exactly valid."""
    equal_frequency = Bins.equal_frequency

    def without_edge_rows(values, n_groups, name):
        bins = equal_frequency(values, n_groups, name)
        return Bins(bins.edges, np.zeros_like(bins.has_edge_rows), name)

    monkeypatch.setattr(Bins, "equal_frequency", without_edge_rows)
    counts = covered_counts(Residual(), BySpread(3), repeats=3000, seed=1, levels=[0.9], n=30)
    assert smallest_p_value(counts) < ONE_IN_A_MILLION


def cell_of(values, new, n_groups, learn=Bins.calibration_groups):
    """Return the rows that are compared if one of the rows is new: it and the calibration rows that count; its bin."""
    old = np.delete(np.arange(len(values)), new)
    bins = Bins.equal_frequency(values[old], n_groups, "spread")
    groups, assigned = learn(bins, values[old]), bins.groups(values[[new]])
    bits, own_bits = (0 if each.edge is None else each.edge for each in (groups, assigned))
    counts = (groups.codes == assigned.codes) & ((bits & ~np.asarray(own_bits)) == 0)
    return frozenset(old[counts]) | {new}, assigned.codes[0]


def inexact_cells(sizes, **settings):
    """Return the number of new rows whose cell differs if another of its rows is the new one, over all ties."""
    inexact = 0
    for n, n_groups in sizes:
        for values in combinations_with_replacement((1.0, 2.0, 3.0, 4.0), n + 1):
            cells = [cell_of(np.array(values), new, n_groups, **settings) for new in range(n + 1)]
            with_rows = (cell for cell in cells if len(cell[0]) > 1)  # alone, a row gets an infinite interval
            inexact += sum(any(cells[other] != cell for other in cell[0]) for cell in with_rows)
    return inexact


def test_bins_with_any_ties_are_exact():
    """The rows that a new row is compared with do not depend on which of them is the new one.

    If this holds for all n + 1 rows, its rank among them is uniform, so the guarantee is exact in every bin. All ways
    in which up to 7 rows can be tied are tried, with bins that are merged and bins that are not.
    """
    assert inexact_cells([(n, n_groups) for n in range(1, 7) for n_groups in (2, 3, 4)]) == 0


def test_a_single_row_above_the_last_edge_in_its_own_bin_is_detected():
    """Larger values of new rows belong to the bin below only if this row counts there, too."""
    assert inexact_cells([(5, 3)], learn=Bins.groups) > 0


def test_the_union_over_target_groups_has_its_exact_distribution():
    """With groups of the target, the union of the groups' pieces has exact coverage in every group."""
    rng = np.random.default_rng(3)
    counts, hull_excess = {}, []
    for _ in range(600):
        old, new = draw(rng, 9 * N), draw(rng, 12 * M)
        keep = np.concatenate([rows[:N] for rows in rows_by_target_group(old.y)])
        model = ConformalRegressor(FrozenEstimator(Oracle().fit(old.X, old.y)), taxonomy=ByTarget([-0.5, 0.7]))
        model.fit(old.X[keep], old.y[keep])
        union = model.predict_union(new.X, level=[0.5, 0.9])
        codes = model.taxonomy_.assign(Rows(new.prediction, y=new.y)).codes
        add_counts(counts, union.covers(new.y), codes, model.calibration_.sizes, [0.5, 0.9])
        hull_excess.append(union.hull().covers(new.y).mean(axis=0) - union.covers(new.y).mean(axis=0))
    assert smallest_p_value(counts) > ONE_IN_A_MILLION
    assert np.min(hull_excess) >= 0
    assert np.max(hull_excess) > 0


def rows_by_target_group(y):
    """Return the rows of each group of the target."""
    return [np.flatnonzero(y <= -0.5), np.flatnonzero((y > -0.5) & (y <= 0.7)), np.flatnonzero(y > 0.7)]
