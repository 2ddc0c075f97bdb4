"""The exact distribution of coverage: BetaBinomial(m, k, n + 1 - k) of m new rows of a group are covered."""

from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.stats import betabinom, chisquare
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from evencover import (
    ByFeature,
    BySpread,
    ByTarget,
    ConformalRegressor,
    Groups,
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
from evencover.models import predictions_of
from tests.guarantees.test_p_values import SimplerEdgeRows
from tests.repeats import InEachRepeat, joined
from tests.synthetic import ALL_SCORES, ONE_IN_A_MILLION, Oracle, draw

LEVELS = [0.05, 0.5, 0.9]
N, M = 37, 12


@cache
def simulated(taxonomy, *, repeats, seed, n):
    """Return the calibration rows and the new rows of all repeats, with their groups: (rows, groups) of both."""
    rng = np.random.default_rng(seed)
    fixed_sizes = np.tile(np.arange(n) % 3 == 0, repeats) if isinstance(taxonomy, ByFeature) else None
    old, new = draw(rng, repeats * n, feature=fixed_sizes), draw(rng, repeats * 9 * M)
    old, new = (Rows(each.prediction, each.X, each.y) for each in (old, new))
    in_each_repeat = InEachRepeat(taxonomy, repeats)
    return (old, in_each_repeat.learn(old)), (new, in_each_repeat.assign(new))


def covered_counts(score, taxonomy, *, repeats, seed, levels=LEVELS, n=N):
    """Return the number covered among M new rows in each repeat, by (label, calibration size, level)."""
    (old, groups), (new, assigned) = simulated(taxonomy, repeats=repeats, seed=seed, n=n)
    calibration = calibrate(old.y, old.prediction, nonconformity=score, groups=groups)
    covered = calibration.interval(new.prediction, groups=assigned, level=levels).covers(new.y)
    return counts_by_size(covered, assigned, calibration.sizes, levels)


def counts_by_size(covered, groups, sizes, levels):
    """Return the number covered among the first M new rows of each group that has at least M, by size and level.

    The labels of the groups are (repeat, label), and the keys of the result are (label, calibration size, level).
    """
    counts = {}
    for (repeat, label), hits in groups.split(covered).items():
        if len(hits) >= M:
            for level, total in zip(levels, hits[:M].sum(axis=0), strict=True):
                counts.setdefault((label, sizes[repeat, label], level), []).append(total)
    return counts


def repeats_of(n_repeats, size):
    """Return groups that are the repeats, with as many rows in each."""
    return Groups(np.repeat(np.arange(n_repeats), size), tuple((repeat, "all") for repeat in range(n_repeats)))


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
    """For every score and taxonomy, at levels near 0, in the middle and near 1.

    A rank off by one is found with probability 0.995 with one group of 37 rows and 500 repeats, and more with smaller
    groups (noncentral chi-square, at level 0.05).
    """
    assert smallest_p_value(covered_counts(score, taxonomy, repeats=repeats, seed=1)) > ONE_IN_A_MILLION


@pytest.mark.parametrize("score", [Residual(), Normalized(), ProbabilityDistance()], ids=repr)
@pytest.mark.parametrize("sign", [1, -1], ids=["increasing", "decreasing"])
def test_coverage_on_another_scale_has_its_exact_distribution(score, sign):
    """The target is lognormal, and the model was fitted to its logarithm, or to the negative logarithm.

    A rank off by one is found with probability 0.995 (noncentral chi-square, at level 0.05).
    """
    rng, repeats = np.random.default_rng(8), 500
    old, new = draw(rng, repeats * N), draw(rng, repeats * M)
    model = TransformedTargetRegressor(
        Oracle(), func=lambda y: sign * np.log(y), inverse_func=lambda z: np.exp(sign * z), check_inverse=False
    ).fit(old.X, np.exp(old.y))
    predictions = [predictions_of(model, each.X * [1, 1, sign]) for each in (old, new)]  # the model reads sign * center
    calibration = calibrate(np.exp(old.y), predictions[0], nonconformity=score, groups=repeats_of(repeats, N))
    groups = repeats_of(repeats, M)
    covered = calibration.interval(predictions[1], groups=groups, level=LEVELS).covers(np.exp(new.y))
    assert smallest_p_value(counts_by_size(covered, groups, calibration.sizes, LEVELS)) > ONE_IN_A_MILLION


@pytest.mark.slow
def test_coverage_of_a_fitted_log_model_has_its_exact_distribution():
    """From the split to the intervals, in the unit of the target."""
    rng, repeats, covered = np.random.default_rng(9), 400, []
    for _ in range(repeats):
        X = rng.normal(size=(2 * N + M, 1))
        y = np.exp(X[:, 0] + rng.gumbel(size=len(X)))
        model = ConformalRegressor(LinearRegression(), target_transform="log", random_state=0)
        model.fit(X[: 2 * N], y[: 2 * N])
        covered.append(model.predict_interval(X[2 * N :], level=LEVELS).covers(y[2 * N :]))
    groups = repeats_of(repeats, M)
    counts = counts_by_size(np.concatenate(covered), groups, dict.fromkeys(groups.labels, N), LEVELS)
    assert smallest_p_value(counts) > ONE_IN_A_MILLION


@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_coverage_of_small_bins_has_its_exact_distribution(n_groups):
    """A few rows in each bin; some thresholds are infinite.

    A rank off by one is found with probability 0.9999 in each bin (noncentral chi-square, at level 0.01). More repeats
    are there for edge rows as ordinary members, which change less: p is 1e-17 with 2 and with 4 bins.
    """
    repeats = 500 if n_groups == 1 else 1500  # one bin has no edge rows
    with pytest.warns(TooFewRowsWarning):
        counts = covered_counts(
            Residual(), BySpread(n_groups), repeats=repeats, seed=2, levels=[0.01, 0.3, 0.6, 0.99], n=13
        )
    assert smallest_p_value(counts) > ONE_IN_A_MILLION


def test_a_rank_off_by_one_is_detected(monkeypatch):
    """It over-covers by 1 / (n + 1), which a test with a tolerance would not notice."""
    monkeypatch.setattr(quantiles, "conformal_rank", lambda n, level: conformal_rank(n, level) + 1)
    assert smallest_p_value(covered_counts(Residual(), Marginal(), repeats=1500, seed=1)) < ONE_IN_A_MILLION


def test_edge_rows_as_ordinary_members_are_detected():
    """The same bins are then not exactly valid."""
    counts = covered_counts(Residual(), SimplerEdgeRows(), repeats=1000, seed=1, levels=[0.5, 0.7], n=9)
    assert smallest_p_value(counts) < ONE_IN_A_MILLION


class LearnedAsAssigned(BySpread):
    """The same bins, in which calibration rows are treated as new rows."""

    def learn(self, rows):
        super().learn(rows)
        return self.assign(rows)


def cell_of(values, new, taxonomy):
    """Return the rows that are compared if one of the rows is new: it and the calibration rows that count; its bin."""
    old = np.delete(np.arange(len(values)), new)
    groups, assigned = taxonomy.learn(spreads(values[old])), taxonomy.assign(spreads(values[[new]]))
    bits, own_bits = (0 if each.edge is None else each.edge for each in (groups, assigned))
    counts = (groups.codes == assigned.codes) & ((bits & ~np.asarray(own_bits)) == 0)
    return frozenset(old[counts]) | {new}, assigned.codes[0]


def spreads(values):
    """Return rows with these spreads."""
    return Rows(Prediction(np.zeros(len(values)), values))


def inexact_cells(sizes, bins=BySpread):
    """Return the number of new rows whose cell differs if another of its rows is the new one, over all ties."""
    inexact = 0
    for n, n_groups in sizes:
        for values in combinations_with_replacement((1.0, 2.0, 3.0, 4.0), n + 1):
            cells = [cell_of(np.array(values), new, bins(n_groups)) for new in range(n + 1)]
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
    assert inexact_cells([(5, 3)], LearnedAsAssigned) > 0


def test_the_union_over_target_groups_has_its_exact_distribution():
    """With groups of the target, the union of the groups' pieces has exact coverage in every group.

    A rank off by one is found with probability 0.999 in one of the three groups (noncentral chi-square, at level 0.9).
    """
    rng, repeats = np.random.default_rng(3), 500
    covered, sizes, codes, hull_excess = [], {}, [], []
    for repeat in range(repeats):
        old, new = draw(rng, 9 * N), draw(rng, 12 * M)
        keep = np.concatenate([rows[:N] for rows in rows_by_target_group(old.y)])
        model = ConformalRegressor(FrozenEstimator(Oracle().fit(old.X, old.y)), taxonomy=ByTarget([-0.5, 0.7]))
        model.fit(old.X[keep], old.y[keep])
        union = model.predict_union(new.X, level=[0.5, 0.9])
        covered.append(union.covers(new.y))
        codes.append(model.taxonomy_.assign(Rows(new.prediction, y=new.y)))
        sizes |= {(repeat, label): size for label, size in model.calibration_.sizes.items()}
        hull_excess.append(union.hull().covers(new.y).mean(axis=0) - union.covers(new.y).mean(axis=0))
    counts = counts_by_size(np.concatenate(covered), joined(codes), sizes, [0.5, 0.9])
    assert smallest_p_value(counts) > ONE_IN_A_MILLION
    assert np.min(hull_excess) >= 0
    assert np.max(hull_excess) > 0


def rows_by_target_group(y):
    """Return the rows of each group of the target."""
    return [np.flatnonzero(y <= -0.5), np.flatnonzero((y > -0.5) & (y <= 0.7)), np.flatnonzero(y > 0.7)]
