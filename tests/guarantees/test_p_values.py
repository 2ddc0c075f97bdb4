"""Smoothed p-values are exactly uniform in every group, for any spreads: distinct, tied or constant."""

import numpy as np
import pytest
from scipy.stats import norm

from evencover import ByFeature, ByPrediction, BySpread, Prediction, Product, Residual, Rows, calibrate
from evencover._internal.bins import Bins
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


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(
    ("n", "n_groups", "repeats"),
    [
        *[(2, 3, 1000), (11, 2, 1000), (30, 3, 1000), (24, 5, 1000)],
        *(pytest.param(n, k, 10_000, marks=pytest.mark.slow) for n, k in [(2, 3), (11, 2), (30, 3), (24, 5)]),
    ],
)
def test_bins_of_the_spread_are_exact(spread, n, n_groups, repeats):
    """Also with fewer calibration rows than groups."""
    assert np.abs(uniformity_z_scores(spread, BySpread(n_groups), n=n, repeats=repeats)).max() < LIMIT


@pytest.mark.parametrize("repeats", [1500, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("spread", ["continuous", "rounded", "half tied"])
def test_products_are_exact(spread, repeats):
    """Two taxonomies with learned bins, and a feature: each taxonomy has its own edge rows."""
    rounded = Product([BySpread(2), _ByRoundedPrediction(2), ByFeature(0)])
    assert np.abs(uniformity_z_scores(spread, rounded, n=30, repeats=repeats)).max() < LIMIT


@pytest.mark.parametrize("edge_rows", ["none", pytest.param("all", marks=pytest.mark.slow)])
def test_simpler_rules_for_edge_rows_are_detected(edge_rows, monkeypatch):
    """Treating no row on an edge as an edge row, or all of them, is not exact."""
    equal_frequency = Bins.equal_frequency

    def simpler_bins(values, n_groups, name):
        bins = equal_frequency(values, n_groups, name)
        return Bins(bins.edges, np.full_like(bins.has_edge_rows, edge_rows == "all"), name)

    monkeypatch.setattr(Bins, "equal_frequency", simpler_bins)
    spread = "continuous" if edge_rows == "none" else "rounded"
    assert np.abs(uniformity_z_scores(spread, BySpread(3), n=15, repeats=12000)).max() > LIMIT


class _ByRoundedPrediction(ByPrediction):
    """Bins of the rounded center, which has ties."""

    def learn(self, rows):
        return super().learn(self._rounded(rows))

    def assign(self, rows):
        return super().assign(self._rounded(rows))

    def _rounded(self, rows):
        return Rows(Prediction(np.round(rows.prediction.center)))


def test_weighted_p_values_are_exact_under_covariate_shift():
    """New rows have another distribution; with likelihood ratios as weights, p-values are still uniform."""
    rng = np.random.default_rng(5)
    excess, unweighted = [], []
    for _ in range(4000):
        old, new = draw(rng, 25), draw(rng, 200)
        acceptance = new.prediction.spread / 8.0  # large spreads are accepted more often
        rows = np.flatnonzero(rng.random(200) < acceptance)[:20]
        weights = {"weights": old.prediction.spread}
        calibration = calibrate(old.y, old.prediction, **weights)
        new_rows = (new.y[rows], new.prediction[rows])
        p = calibration.p_values(*new_rows, weights=new.prediction.spread[rows], seed=rng)
        excess.append((p <= 0.3).mean() - 0.3)
        unweighted.append((calibrate(old.y, old.prediction).p_values(*new_rows, seed=rng) <= 0.3).mean() - 0.3)
    z = [np.mean(each) / np.std(each) * np.sqrt(len(each)) for each in (excess, unweighted)]
    assert abs(z[0]) < LIMIT
    assert abs(z[1]) > LIMIT
