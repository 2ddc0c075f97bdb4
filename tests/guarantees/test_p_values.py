"""Smoothed p-values are exactly uniform in every group, for any spreads: distinct, tied or constant."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from evencover import ByFeature, ByPrediction, BySpread, Groups, Prediction, Product, Residual, Rows, calibrate
from tests.repeats import each_row_as_new
from tests.synthetic import ONE_IN_A_MILLION, draw

SPREADS = {
    "continuous": lambda rng, n: np.exp(rng.uniform(-2.0, 2.0, n)),
    "constant": lambda rng, n: np.ones(n),
    "two values": lambda rng, n: rng.choice([1.0, 3.0], n),
    "skewed integers": lambda rng, n: 1.0 + rng.poisson(0.8, n),
    "rounded": lambda rng, n: np.ceil(rng.uniform(0, 8, n)) / 2,
    "mostly tied": lambda rng, n: np.where(rng.random(n) < 0.95, 1.0, rng.choice([0.5, 2.0, 3.0], n)),
    "half tied": lambda rng, n: np.where(rng.random(n) < 0.5, 1.0, rng.uniform(0.5, 3.0, n)),
}
_MAX_GROUPS = 8
LIMIT = norm.isf(ONE_IN_A_MILLION / 2)


SIZES = [(2, 3), (11, 2), (30, 3), (24, 5)]  # calibration rows and groups


def uneven_ranks(rows, taxonomy):
    """Return the ranks of new rows, where they are not uniform, if each of the rows is the new one in turn.

    The p-value of a new row that is compared with c − 1 rows is its rank over c. It is uniform if every rank 1, ..., c
    is that of as many rows: the ranks are returned by group and c. A target far away has the p-value 1 / c.
    """
    ranks = {}
    for old, new in each_row_as_new(rows):
        groups, pair = taxonomy.learn(old), [0, 0]
        calibration = calibrate(old.y, old.prediction, nonconformity=Residual(), groups=groups)
        assigned, targets = taxonomy.assign(new)[pair], [new.y[0], 1e9]
        p, smallest = calibration.p_values(targets, new.prediction[pair], groups=assigned)
        smoothed, _ = calibration.p_values(targets, new.prediction[pair], groups=assigned, seed=0)
        size = round(1 / smallest)
        assert p * size - 1 < smoothed * size < p * size
        ranks.setdefault((int(assigned.codes[0]), size), []).append(round(p * size))
    return {cell: found for cell, found in ranks.items() if len(set(np.bincount(found, minlength=cell[1] + 1)[1:])) > 1}


def all_uneven_ranks(spread, taxonomy, n, seed=0):
    """Return the uneven ranks of tables of n + 1 rows, with about 120 rows in all."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(120 // (n + 1)):
        table = draw(rng, n + 1, SPREADS[spread](rng, n + 1))
        found.append(uneven_ranks(Rows(table.prediction, table.X, table.y), taxonomy))
    return found


@pytest.mark.parametrize("spread", SPREADS)
def test_bins_of_the_spread_are_exact(spread):
    """Also with fewer calibration rows than groups. Given the rows, each is equally likely to be the new one.

    So this proves the distribution for these rows, and no chance is left.
    """
    found = {(n, n_groups): all_uneven_ranks(spread, BySpread(n_groups), n) for n, n_groups in SIZES}
    assert {size: uneven for size, tables in found.items() if (uneven := [each for each in tables if each])} == {}


@pytest.mark.parametrize("spread", ["continuous", "rounded", "half tied"])
def test_products_are_exact(spread):
    """Two taxonomies with learned bins, and a feature: each taxonomy has its own edge rows."""
    product = Product([BySpread(2), _ByRoundedPrediction(2), ByFeature(0, categories=[0, 1])])
    assert [uneven for uneven in all_uneven_ranks(spread, product, 30) if uneven] == []


class SimplerEdgeRows(BySpread):
    """The same bins, but no row on an edge is an edge row, or all of them are."""

    def __init__(self, n_groups=3, *, edge_rows="none"):
        super().__init__(n_groups)
        self.edge_rows = edge_rows

    def learn(self, rows):
        return self._simpler(super().learn(rows), rows)

    def assign(self, rows):
        return self._simpler(super().assign(rows), rows)

    def _simpler(self, groups, rows):
        on_an_edge = np.isin(rows.prediction.spread, self.edges_) & (self.edge_rows == "all")
        return Groups(groups.codes, groups.labels, (), on_an_edge.astype(int), 1)


@pytest.mark.parametrize("edge_rows", ["none", "all"])
def test_simpler_rules_for_edge_rows_are_detected(edge_rows):
    """Treating no row on an edge as an edge row, or all of them, is not exact."""
    spread = "continuous" if edge_rows == "none" else "rounded"
    assert any(all_uneven_ranks(spread, SimplerEdgeRows(edge_rows=edge_rows), 15))


def test_smoothed_p_values_are_uniform_with_ties():
    """4 calibration rows in each of 2000 groups, and whole targets. Without a seed, p-values are at least uniform.

    Those have jumps of 0.2 or more, which the test detects with certainty: at this size it rejects at 0.06.
    """
    rng, repeats = np.random.default_rng(6), 2000
    groups = np.arange(repeats)
    calibration = calibrate(rng.poisson(2.0, 4 * repeats), np.zeros(4 * repeats), groups=np.repeat(groups, 4))
    y = rng.poisson(2.0, repeats)
    plain, smoothed = (calibration.p_values(y, np.zeros(repeats), groups=groups, seed=seed) for seed in (None, rng))
    assert kstest(smoothed, "uniform").pvalue > ONE_IN_A_MILLION
    assert kstest(plain, "uniform").pvalue < ONE_IN_A_MILLION < kstest(plain, "uniform", alternative="greater").pvalue


def uniformity_z_scores(spread, taxonomy, *, n, repeats, seed=0):
    """Return the z-scores of #{p <= 0.25} and #{p <= 0.7} among the new rows of each group, over many repeats."""
    rng = np.random.default_rng(seed)
    excess = []
    for _ in range(repeats):
        old, new = (draw(rng, size, SPREADS[spread](rng, size)) for size in (n, 20))
        groups = taxonomy.learn(Rows(old.prediction, old.X))
        assigned = taxonomy.assign(Rows(new.prediction, new.X))
        calibration = calibrate(old.y, old.prediction, nonconformity=Residual(), groups=groups)
        p = calibration.p_values(new.y, new.prediction, groups=assigned, seed=rng)
        member = assigned.codes[:, None] == np.arange(_MAX_GROUPS)  # (rows, groups)
        excess.append([member.T @ ((p <= level) - level) for level in (0.25, 0.7)])
    excess = np.array(excess).reshape(repeats, -1)
    varies = excess.std(axis=0) > 0  # groups that never have rows test nothing
    assert varies.any()
    return excess.mean(axis=0)[varies] / excess.std(axis=0)[varies] * np.sqrt(repeats)


@pytest.mark.slow
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(("n", "n_groups"), SIZES)
def test_simulated_p_values_are_uniform_in_bins_of_the_spread(spread, n, n_groups):
    assert np.abs(uniformity_z_scores(spread, BySpread(n_groups), n=n, repeats=10_000)).max() < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["continuous", "rounded", "half tied"])
def test_simulated_p_values_are_uniform_in_products(spread):
    product = Product([BySpread(2), _ByRoundedPrediction(2), ByFeature(0)])
    assert np.abs(uniformity_z_scores(spread, product, n=30, repeats=10_000)).max() < LIMIT


class _ByRoundedPrediction(ByPrediction):
    """Bins of the rounded center, which has ties."""

    def learn(self, rows):
        return super().learn(self._rounded(rows))

    def assign(self, rows):
        return super().assign(self._rounded(rows))

    def _rounded(self, rows):
        return Rows(Prediction(np.round(rows.prediction.center)))


def test_weighted_p_values_are_exact_under_covariate_shift():
    """New rows have another distribution; with likelihood ratios as weights, p-values are still uniform.

    Without the weights z is 34 on average, and 11.6 without the weight of the new row only. The limit is 4.9.
    """
    rng, repeats = np.random.default_rng(5), 1000
    old, new = draw(rng, 5 * repeats), draw(rng, 100 * repeats)
    groups = np.repeat(np.arange(repeats), 5)  # each repeat is a group
    accepted = np.flatnonzero(rng.random(len(new.y)) < new.prediction.spread / 8.0)  # large spreads are more frequent
    new_rows, weight, assigned = (new.y[accepted], new.prediction[accepted]), new.prediction.spread, accepted // 100
    weighted = calibrate(old.y, old.prediction, groups=groups, weights=old.prediction.spread)
    unweighted = calibrate(old.y, old.prediction, groups=groups)

    def z_score(p_values):
        excess = np.bincount(assigned, (p_values <= 0.3) - 0.3) / np.bincount(assigned)  # the mean of each repeat
        return np.mean(excess) / np.std(excess) * np.sqrt(repeats)

    assert abs(z_score(weighted.p_values(*new_rows, groups=assigned, weights=weight[accepted], seed=rng))) < LIMIT
    assert abs(z_score(unweighted.p_values(*new_rows, groups=assigned, seed=rng))) > LIMIT
