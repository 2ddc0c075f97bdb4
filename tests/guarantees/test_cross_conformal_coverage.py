"""Coverage of cross-conformal prediction is never below its bound, over many data sets with several new rows each."""

from fractions import Fraction
from itertools import cycle

import numpy as np
import pytest
from scipy.stats import binom, chisquare, t
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import RepeatedKFold
from sklearn.pipeline import Pipeline

from evencover import (
    ByFeature,
    CrossConformalRegressor,
    IntervalDistance,
    Marginal,
    Normalized,
    OneSided,
    Prediction,
    ProbabilityDistance,
    Residual,
)
from evencover.models import NeighborSpread, WithSpread
from evencover.studies import Plan
from evencover.studies.cross_fitting import CrossSettings, OnBetterScale
from tests.repeats import each_row_as_new
from tests.synthetic import ONE_IN_A_MILLION

N, N_NEW, LEVELS = 24, 20, [0.75, 0.85]
REPEATS = 32  # scores of rows that the models were fitted on are found with probability 0.997 (noncentral t)
SCORES = [Residual(), Normalized(), IntervalDistance(), OneSided(Residual())]
FOLDS = {
    "2 folds": {"cv": 2},
    "5 unequal folds": {"cv": 5},
    "10 unequal folds": {"cv": 10},
    "12 folds of 2 rows": {"cv": 12},
    "repeated folds": {"cv": RepeatedKFold(n_splits=4, n_repeats=3)},
    "folds of very different sizes": {"cv": [(np.arange(2, N), np.arange(2)), (np.arange(2), np.arange(2, N))]},
    "rows for training only": {"cv": [(np.r_[:8, 16:N], np.arange(8, 16)), (np.arange(16), np.arange(16, N))]},
    "jackknife+": {"method": "jackknife+"},
    "jackknife+-after-bootstrap": {"method": "jackknife+-after-bootstrap", "n_bootstraps": 30},
    "cross-conformal": {"method": "cross-conformal", "cv": 4},
}
WITH_GROUPS = ["2 folds", "repeated folds", "jackknife+", "jackknife+-after-bootstrap", "cross-conformal"]
WITH_CLUSTERS = ["cross-conformal", "jackknife+", "jackknife+-after-bootstrap"]

IN_ALL_SAMPLES = pytest.mark.filterwarnings("ignore:rows that are in all")  # they count as infinite scores


class LeastSquares(RegressorMixin, BaseEstimator):
    """Least squares for the center, and for the size of its residuals; it overfits small tables."""

    def fit(self, X, y):
        self.center_ = np.linalg.lstsq(self._design(X), y, rcond=None)[0]
        residuals = np.abs(y - self.predict(X))
        self.spread_ = np.linalg.lstsq(self._design(X)[:, :2], residuals, rcond=None)[0]
        self.smallest_ = 0.1 * residuals.mean() + 0.01
        return self

    def predict(self, X):
        return self._design(X) @ self.center_

    def predict_full(self, X):
        center, spread = self.predict(X), np.maximum(self._design(X)[:, :2] @ self.spread_, self.smallest_)
        return Prediction(center, spread, lower=center - spread, upper=center + spread)

    def _design(self, X):
        return np.column_stack([np.ones(len(X)), X])


class SeesAllRows(LeastSquares):
    """The same, fitted on all rows of the table, also on those that were left out."""

    def __init__(self, X, y):
        self.X = X
        self.y = y

    def fit(self, X, y):
        return super().fit(self.X, self.y)


def draw_rows(rng, group):
    """Return features and targets; the first feature is a group, and rows of group 1 have much more noise."""
    X = np.column_stack([group, rng.normal(size=(len(group), 19))])
    return X, X.sum(axis=1) + rng.normal(size=len(group)) * (1 + 14 * X[:, 0])


def draw_clusters(rng, n_clusters, size):
    """Return rows that have features and a part of the noise in common with the rows of their cluster."""
    clusters = np.repeat(np.arange(n_clusters), size)
    X, y = draw_rows(rng, (rng.random(n_clusters) < 0.4)[clusters].astype(float))
    X[:, 1:8] = X[::size, 1:8][clusters]
    return X, X.sum(axis=1) + 3 * rng.normal(size=n_clusters)[clusters] + rng.normal(size=len(y)), clusters


def excess_coverage(rng, rows, new_rows, score, clusters=None, sees_all_rows=False, **settings):
    """Return the covered share of the new rows less its guaranteed mean, at each level. All are of the same group."""
    regressor = SeesAllRows(*rows) if sees_all_rows else LeastSquares()
    model = CrossConformalRegressor(regressor, nonconformity=score, random_state=int(rng.integers(1 << 30)), **settings)
    model.fit(*rows, clusters=clusters)
    X, y = new_rows
    label = X[0, 0] if "taxonomy" in settings else "all"
    bounds = [float(model.guarantee_.lower_bounds[label](level)) for level in LEVELS]
    assert max(bounds) > 0.4, "the bounds are too weak for a test"
    return model.predict_union(X, level=LEVELS).covers(y).mean(axis=0) - bounds


def smallest_p_value(excess):
    """Return the smaller of the levels' p-values of so little coverage, if no mean is below 0 (a t-test)."""
    excess = np.array(excess)
    errors = np.maximum(excess.std(axis=0, ddof=1), 0.01) / np.sqrt(len(excess))
    return t.cdf(excess.mean(axis=0) / errors, len(excess) - 1).min()


def p_value_of_folds(settings, repeats, *, scores=SCORES, group=None, seed=1):
    """Return the p-value over many data sets; the new rows are the last, and of group 1 if there are groups."""
    rng, given = np.random.default_rng(seed), {} if group is None else {"taxonomy": ByFeature(0)}
    excess = []
    for _, score in zip(range(repeats), cycle(scores), strict=False):
        groups = rng.random(N + N_NEW) < 0.3 if group is None else np.append(group, np.ones(N_NEW))
        X, y = draw_rows(rng, groups.astype(float))
        excess.append(excess_coverage(rng, (X[:N], y[:N]), (X[N:], y[N:]), score, **given, **settings))
    return smallest_p_value(excess)


def p_value_of_clusters(settings, repeats, *, size, seed=2):
    """Return the p-value over many data sets of clusters; each new row is a row of a new cluster."""
    rng, excess, n = np.random.default_rng(seed), [], 12 * size
    for _, score in zip(range(repeats), cycle(SCORES), strict=False):
        X, y, clusters = draw_clusters(rng, 12 + N_NEW, size)
        new_rows = X[n::size], y[n::size]
        excess.append(excess_coverage(rng, (X[:n], y[:n]), new_rows, score, clusters=clusters[:n], **settings))
    return smallest_p_value(excess)


@IN_ALL_SAMPLES
@pytest.mark.parametrize("folds", FOLDS)
def test_coverage_is_not_below_the_bound(folds):
    """For four scores in turn."""
    assert p_value_of_folds(FOLDS[folds], REPEATS) > ONE_IN_A_MILLION


@IN_ALL_SAMPLES
@pytest.mark.slow
@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("folds", FOLDS)
def test_coverage_is_not_below_the_bound_for_each_score(folds, score):
    assert p_value_of_folds(FOLDS[folds], 150, scores=[score]) > ONE_IN_A_MILLION


@IN_ALL_SAMPLES
@pytest.mark.parametrize("folds", WITH_GROUPS)
@pytest.mark.parametrize("repeats", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_coverage_of_a_small_group_is_not_below_its_bound(folds, repeats):
    """A third of the rows, with fifteen times the noise of the others.

    Scores of rows that the models were fitted on are found with probability 0.997 (noncentral t).
    """
    assert p_value_of_folds(FOLDS[folds], repeats, group=np.arange(N) % 3 == 0) > ONE_IN_A_MILLION


@IN_ALL_SAMPLES
@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("folds", WITH_CLUSTERS)
@pytest.mark.parametrize("repeats", [REPEATS, pytest.param(200, marks=pytest.mark.slow)])
def test_coverage_of_new_clusters_is_not_below_the_bound(folds, size, repeats):
    assert p_value_of_clusters(FOLDS[folds], repeats, size=size) > ONE_IN_A_MILLION


@pytest.mark.parametrize("folds", ["5 unequal folds", "jackknife+"])
def test_scores_of_rows_that_the_models_were_fitted_on_are_detected(folds):
    assert p_value_of_folds({**FOLDS[folds], "sees_all_rows": True}, REPEATS) < ONE_IN_A_MILLION


@pytest.mark.parametrize("taxonomy", [None, ByFeature(0)], ids=["one group", "two groups"])
def test_a_very_small_group_is_covered_only_with_its_own_scores(taxonomy):
    """6 of 120 rows have fifteen times the noise of the others; with 2 folds the bound is at least 0.7.

    With the scores of all rows, less than 0.15 of them are covered, which is found with probability 0.9999 (binomial).
    """
    rng, group, covered = np.random.default_rng(4), np.append(np.arange(120) % 20 == 0, 1.0), 0
    for _ in range(50):
        X, y = group[:, None], rng.normal(size=121) * (1 + 14 * group)
        model = CrossConformalRegressor(Zero(), cv=2, taxonomy=taxonomy, random_state=int(rng.integers(1 << 30)))
        covered += int(model.fit(X[:120], y[:120]).predict_interval(X[120:], level=0.85).covers(y[120:])[0])
    assert model.guarantee_.lower_bound(0.85) >= Fraction(7, 10)
    assert (binom.cdf(covered, 50, 0.7) > ONE_IN_A_MILLION) == (taxonomy is not None)


@pytest.mark.filterwarnings("ignore:clusters has only 3")
def test_the_bound_of_rows_does_not_hold_for_clusters():
    """All rows of a cluster are the same, so that new rows have the largest score with probability 1 / 4."""
    clusters, covered = np.repeat(np.arange(3), 16), []
    for y, new_y in each_row_as_new(np.random.default_rng(5).normal(size=4)):
        model = CrossConformalRegressor(Zero(), method="jackknife+").fit(
            np.zeros((48, 1)), y[clusters], clusters=clusters
        )
        covered.append(model.predict_interval(np.zeros((1, 1)), level=0.95).covers(new_y)[0])
    of_rows = CrossConformalRegressor(Zero(), method="jackknife+").fit(np.zeros((48, 1)), y[clusters])
    assert model.guarantee_.lower_bound(0.95) <= np.mean(covered) == 0.75 < of_rows.guarantee_.lower_bound(0.95)


class Zero(RegressorMixin, BaseEstimator):
    """A model that predicts 0."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


def fold_p_values(rng, n, cv):
    """Return for each fold its p-value of a new row: its rank among the scores of the fold, by the fold's model."""
    X, y = draw_rows(rng, (rng.random(n + 1) < 0.3).astype(float))
    model = CrossConformalRegressor(LeastSquares(), cv=cv).fit(X[:n], y[:n])
    codes, scores = model.calibrator_.folds.codes[0], model.calibrator_.scores
    new = [np.abs(y[n] - each.predict(X[n:])[0]) for each in model.estimators_]
    counts = [(scores[codes == fold] >= score).sum() for fold, score in enumerate(new)]
    assert model.p_values(X[n:], y[n:])[0] == (1 + sum(counts)) / (n + 1)
    return [*counts, model.p_values(X[n:], y[n:])[0]]


@pytest.mark.parametrize("repeats", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_fold_p_values_are_uniform_and_their_sum_has_the_bound(repeats):
    """For folds of 4, 5 and 11 rows: (1 + count) / (n_k + 1) is exactly uniform; P(p <= u) has its bound."""
    rng, sizes, n = np.random.default_rng(3), [4, 5, 11], 20
    edges = np.cumsum([0, *sizes])
    cv = [(np.setdiff1d(np.arange(n), np.arange(*ends)), np.arange(*ends)) for ends in np.c_[edges[:-1], edges[1:]]]
    results = np.array([fold_p_values(rng, n, cv) for _ in range(repeats)])
    for size, counts in zip(sizes, results.T[:3].astype(int), strict=True):
        assert chisquare(np.bincount(counts, minlength=size + 1)).pvalue > ONE_IN_A_MILLION
    for rank in range(1, n):
        small = (results[:, 3] <= (rank + 0.5) / (n + 1)).sum()  # so that p-values on the grid are not rounded away
        assert binom.sf(small - 1, repeats, min(1.0, (2 * rank + 1) / (n + 3))) > ONE_IN_A_MILLION


class SeesItsFold(OnBetterScale):
    """A broken version, which is fitted, and decides, on the rows of its fold as well."""

    def __init__(self, settings, rows):
        super().__init__(settings)
        self.rows = rows

    def fit(self, X, y):
        return super().fit(*self.rows)


def rank_of_new_row(rng, *, broken=False):
    """Return how many calibration scores of one fold are at least that of a new row, and whether the log was used."""
    X = rng.normal(size=(29, 16))
    y = np.exp(X[:, 0] + 0.3 * rng.normal(size=29))
    spread = WithSpread(LinearRegression(), NeighborSpread(), random_state=0)
    settings = CrossSettings(Plan(), Pipeline([("model", spread)]), ProbabilityDistance(), Marginal())
    estimator = SeesItsFold(settings, (X[:28], y[:28])) if broken else OnBetterScale(settings)
    model = CrossConformalRegressor(
        estimator, nonconformity=ProbabilityDistance(), cv=[(np.arange(24), np.arange(24, 28))]
    )
    model.fit(X[:28], y[:28])
    count = round(5 * float(model.p_values(X[28:], y[28:])[0])) - 1
    return count, isinstance(model.estimators_[0].best_estimator_[-1], TransformedTargetRegressor)


@pytest.mark.parametrize("broken", [False, True])
def test_a_model_that_decides_on_the_log_of_its_target_keeps_the_guarantee(broken):
    """The rank of a new row among the four rows of a fold is exactly uniform, whatever the model decides.

    If a model is fitted on the rows that calibrate it, the new row often has the largest score.
    """
    rng = np.random.default_rng(6)
    counts, of_log = zip(*(rank_of_new_row(rng, broken=broken) for _ in range(70)), strict=True)
    assert 0.05 < np.mean(of_log) < 0.95
    p_value = chisquare(np.bincount(counts, minlength=5)).pvalue
    assert (p_value > ONE_IN_A_MILLION) != broken
