"""The bounds of cross-conformal prediction: derived by hand, reached in the worst case, and not improvable."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, binomtest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, RepeatedKFold

from evencover import Bounded, ByFeature, ByPrediction, CrossConformalRegressor, Normalized, Residual
from evencover.calibrators.cross import CrossFolds
from evencover.models import WithSpread
from tests.synthetic import ONE_IN_A_MILLION


class KnowsTheOthers(RegressorMixin, BaseEstimator):
    """A model of rows that are drawn without replacement from 0, ..., n_population − 1, all with target 0.

    Without two rows, it concludes from its training rows which two, and predicts 1 for one of them, its winner, and 0
    for the other. The `n_strange` first rows win against all others, and each wins against half of the strange rows.
    """

    def __init__(self, n_population, n_strange):
        self.n_population = n_population
        self.n_strange = n_strange

    def fit(self, X, y):
        self.missing_ = sorted(set(range(self.n_population)) - set(np.ravel(X).astype(int)))
        return self

    def predict(self, X):
        return np.array([float(self._wins(int(row), sum(self.missing_) - int(row))) for row in np.ravel(X)])

    def _wins(self, row, other):
        if row >= self.n_strange:
            return False
        return other >= self.n_strange or 0 < (other - row) % self.n_strange <= self.n_strange // 2


def covered_rows(n_population, n_strange, level):
    """Return whether each row of the population is covered by jackknife+ of all others."""
    covered = []
    for new in range(n_population):
        rows = np.setdiff1d(np.arange(n_population), new)[:, None]
        model = CrossConformalRegressor(KnowsTheOthers(n_population, n_strange), method="jackknife+")
        model.fit(rows, np.zeros(len(rows)))
        assert model.guarantee_.lower_bound(level) == 1 - 2 * (1 - level)
        covered.append(bool(model.predict_interval([[new]], level=level).covers([0.0])[0]))
    return covered


@pytest.mark.parametrize(("n_population", "level"), [(10, Fraction(7, 10)), (20, Fraction(8, 10))])
def test_jackknife_plus_has_exactly_its_smallest_possible_coverage(n_population, level):
    """The last row is each of the population with the same probability; it is missed if it is strange.

    With two more strange rows, each wins against one row less, which is too few, and none is missed.
    """
    n_strange = int(2 * (1 - level) * n_population) - 1
    covered = covered_rows(n_population, n_strange, level)
    assert covered == [row >= n_strange for row in range(n_population)]
    coverage = Fraction(sum(covered), n_population)
    assert coverage == 1 - 2 * (1 - level) + Fraction(1, n_population) < level - Fraction(1, 7)
    assert all(covered_rows(n_population, n_strange + 2, level))


class OddOrEven(RegressorMixin, BaseEstimator):
    """A model of a target that is always 0. Its error depends on whether its number of training rows is odd.

    Among features below `limit`, the errors of the model of an odd number have the opposite order.
    """

    def __init__(self, limit):
        self.limit = limit

    def fit(self, X, y):
        self.is_odd_ = len(y) % 2 == 1
        return self

    def predict(self, X):
        x = np.ravel(X)
        return np.where(self.is_odd_ & (x < self.limit), 1 - self.limit + x, 1 - x)


def exact_coverage(n, rank, limit):
    """Return the probability that at least `rank` rows of both folds have an error at least that of a new row."""
    x, weights = np.polynomial.legendre.leggauss(60)
    total = 0.0
    for low, high in ((0.0, limit), (limit, 1.0)):
        for u, weight in zip((low + high) / 2 + x * (high - low) / 2, weights * (high - low) / 2, strict=True):
            shares = (u, limit - u if u < limit else u)  # of rows with a larger error, by the two models
            counts = np.arange(rank)
            first, second = binom.pmf(counts, (n + 1) // 2, shares[0]), binom.cdf(rank - 1 - counts, n // 2, shares[1])
            total += weight * float(first @ second)
    return 1 - total


def test_two_folds_come_near_the_bound():
    """Rows are independent. Coverage is 0.632 at level 0.8, and 0.6 is guaranteed."""
    n, level, limit, repeats = 4001, Fraction(4, 5), 0.37, 300
    rng, covered = np.random.default_rng(0), 0
    for _ in range(repeats):
        x = rng.random((n + 1, 1))
        model = CrossConformalRegressor(OddOrEven(limit), cv=2, random_state=int(rng.integers(1 << 30)))
        covered += int(model.fit(x[:n], np.zeros(n)).predict_interval(x[n:], level=level).covers([0.0])[0])
    exact = exact_coverage(n, int((1 - level) * (n + 1)), limit)
    assert model.guarantee_.lower_bound(level) == Fraction(3, 5) < exact < 0.64
    assert binomtest(covered, repeats, exact).pvalue > ONE_IN_A_MILLION
    assert binom.cdf(covered, repeats, float(level)) < ONE_IN_A_MILLION < binom.cdf(covered, repeats, 0.6)


def largest_miss_probability(sizes, rank):
    """Return the largest P(count < rank) over joint distributions of uniform counts 0, ..., n_k in the folds."""
    cells = np.array(list(product(*(range(size + 1) for size in sizes))))
    rows = [cells[:, fold] == value for fold, size in enumerate(sizes) for value in range(size + 1)]
    shares = [1 / (size + 1) for size in sizes for _ in range(size + 1)]
    result = linprog(-(cells.sum(axis=1) < rank).astype(float), A_eq=np.array(rows, float), b_eq=shares)
    assert result.success
    return -result.fun


@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (5, 5), (1, 6), (2, 2, 2), (1, 2, 4), (3, 3, 3), (1, 1, 2, 2)])
def test_no_dependence_of_the_folds_misses_more_than_the_bound(sizes):
    """Of all joint distributions of fold p-values; for some rank the bound is reached if folds have equal size."""
    n, n_folds = sum(sizes), len(sizes)
    bounds = {rank: Fraction(2 * rank + n_folds - 2, n + n_folds) for rank in range(1, n + 1)}
    misses = {rank: largest_miss_probability(sizes, rank) for rank in bounds}
    assert all(misses[rank] <= float(bound) + 1e-9 for rank, bound in bounds.items())
    if len(set(sizes)) == 1:
        assert any(misses[rank] > float(bound) - 1e-9 for rank, bound in bounds.items() if bound < 1)


def fitted(n=20, *, clusters=None, feature=0.0, **settings):
    """Return a linear model for n rows, whose second feature is given."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=n), np.broadcast_to(feature, n)])
    model = CrossConformalRegressor(LinearRegression(), random_state=0, **settings)
    return model.fit(X, 10 + X[:, 0] + rng.random(n), clusters=clusters)


def parts(n, *tests):
    """Return pairs of training and test positions: the rows from the first to before the second of two numbers."""
    return [(np.r_[:first, end:n], np.arange(first, end)) for first, end in tests]


FOLDS_2_AND_5 = parts(20, (0, 10), (10, 20), *((4 * k, 4 * k + 4) for k in range(5)))
PAST_ROWS = [(np.arange(10), [row]) for row in range(10, 20)]
SLACKS = [
    ({"cv": 2}, Fraction(0)),
    ({"cv": 4}, Fraction(2, 24)),
    ({"cv": 3}, Fraction(1, 23)),  # folds of 7, 7 and 6 rows
    ({"cv": 5}, Fraction(2, 24)),  # 3 / 25 for the number of folds, 2 / 24 for folds of 4 rows
    ({"cv": 10}, Fraction(0)),  # folds of 2 rows
    ({"cv": 10, "n": 22}, Fraction(8, 32)),  # folds of 2 and 3 rows
    ({"cv": 10, "method": "cross-conformal", "n": 22}, Fraction(8, 32)),
    ({"cv": LeaveOneOut()}, Fraction(0)),
    ({"method": "jackknife+"}, Fraction(0)),
    ({"method": "jackknife+-after-bootstrap"}, Fraction(0)),
    ({"cv": RepeatedKFold(n_splits=5, n_repeats=3, random_state=0)}, Fraction(3, 25)),
    ({"cv": FOLDS_2_AND_5}, Fraction(3, 2) / (20 + Fraction(7, 2))),  # 3.5 folds on average
    ({"cv": parts(20, (8, 12), (12, 16), (16, 20))}, Fraction(1, 15)),  # the first 8 rows are for training
    ({"cv": PAST_ROWS}, Fraction(8, 20)),  # models that leave out more than one row
]


@pytest.mark.parametrize(("settings", "slack"), SLACKS)
def test_slack_by_hand(settings, slack):
    guarantee = fitted(**settings).guarantee_
    assert guarantee.lower_bound(0.9) == Fraction(8, 10) - slack


def test_each_group_has_its_own_slack():
    """Of 5 folds in order, the first 8 rows are in 2 and the other 12 in 3; leaving out one row has no slack."""
    feature = np.arange(20) >= 8
    model = fitted(cv=KFold(5), taxonomy=ByFeature(1), feature=feature)
    assert [bound.slack for bound in model.guarantee_.lower_bounds.values()] == [0, Fraction(1, 15)]
    assert model.guarantee_.lower_bound(0.9) == Fraction(8, 10) - Fraction(1, 15)
    assert "at least 1 − 2 (1 − level) − slack (slack: 0.0 0, 1.0 0.0667). This holds if new" in str(model.guarantee_)
    jackknife = fitted(method="jackknife+", taxonomy=ByFeature(1), feature=feature).guarantee_
    assert "in every group, a target lies in its interval with probability usually about the level" in str(jackknife)
    assert "and at least 1 − 2 (1 − level). This holds if new rows" in str(jackknife)
    assert jackknife.lower_bound(0.9) == Fraction(8, 10)


CLUSTER_SLACKS = [
    ({"cv": 4}, Fraction(14, 96)),  # 4 folds × 4 rows of a cluster; folds have 20 rows
    ({"cv": 10}, Fraction(6, 88)),  # 10 folds of 8 rows
    ({"cv": GroupKFold(3)}, Fraction(10, 92)),
    ({"method": "jackknife+"}, Fraction(2, 84)),
    ({"method": "jackknife+-after-bootstrap"}, Fraction(2, 84)),
]


@pytest.mark.parametrize(("settings", "slack"), CLUSTER_SLACKS)
def test_slack_of_clusters_by_hand(settings, slack):
    """20 clusters of 4 rows."""
    guarantee = fitted(80, clusters=np.arange(80) // 4, **settings).guarantee_
    assert guarantee.lower_bound(0.9) == Fraction(8, 10) - slack
    assert "new rows are random rows of new clusters" in guarantee.assumption


@pytest.mark.parametrize(("n_folds", "slack"), [(20, Fraction(0)), (5, Fraction(2, 24)), (4, Fraction(2, 24))])
def test_one_row_of_each_cluster_counts_as_a_row(n_folds, slack):
    """20 clusters of 1 to 4 rows, of which one row each is scored: folds of 1, 4 and 5 clusters that are left out."""
    clusters = np.repeat(np.arange(20), np.arange(20) % 4 + 1)
    folds = np.arange(20) % n_folds
    first = np.unique(clusters, return_index=True)[1]
    cv = [(np.flatnonzero(folds[clusters] != fold), first[folds == fold]) for fold in range(n_folds)]
    guarantee = fitted(len(clusters), clusters=clusters, cv=cv).guarantee_
    assert guarantee.lower_bound(0.9) == Fraction(8, 10) - slack
    assert "new rows are random rows of new clusters" in guarantee.assumption


class FirstRow(RegressorMixin, BaseEstimator):
    """A model that depends on the order of its rows: it predicts the target of the first."""

    def fit(self, X, y):
        self.target_ = y[0]
        return self

    def predict(self, X):
        return np.full(len(X), self.target_)


@pytest.mark.parametrize("method", ["cv+", "jackknife+", "jackknife+-after-bootstrap"])
def test_models_get_their_rows_in_random_order(method):
    """Each of the other rows is the first one of a model with the same probability: not always row 0 or row 1."""
    y = np.arange(40.0)
    model = CrossConformalRegressor(FirstRow(), method=method, random_state=0).fit(y[:, None], y)
    first = [each.target_ for each in model.estimators_]
    assert len(set(first)) > 5
    again = CrossConformalRegressor(FirstRow(), method=method, random_state=0).fit(y[:, None], y)
    assert [each.target_ for each in again.estimators_] == first


@pytest.mark.parametrize("method", ["cv+", "jackknife+", "jackknife+-after-bootstrap"])
def test_clusters_of_different_sizes_have_no_bound(method):
    guarantee = fitted(79, clusters=np.arange(79) // 4, method=method).guarantee_
    assert guarantee.lower_bound(0.9) == 0
    assert "there are many clusters, whose scores do not depend on their sizes" in guarantee.assumption
    one_row_each = fitted(clusters=np.arange(20), method=method, **{"cv": 4} if method == "cv+" else {}).guarantee_
    assert one_row_each.lower_bound(0.9) == Fraction(8, 10) - (Fraction(2, 24) if method == "cv+" else 0)


def test_clusters_must_be_left_out_together():
    with pytest.raises(ValueError, match="cv must leave out all rows of a cluster together, such as GroupKFold; got"):
        fitted(80, clusters=np.arange(80) // 4, cv=parts(80, (0, 38), (38, 80)))


def test_groups_of_predictions_have_no_bound():
    guarantee = fitted(taxonomy=ByPrediction(2)).guarantee_
    assert guarantee.lower_bound(0.9) == 0
    assert "in every group, a target lies in its interval with probability about the level. This holds if (1) new" in (
        str(guarantee)
    )
    assert guarantee.assumption.endswith("and (2) the models of the folds agree on the groups of nearly all rows")


def test_scale_and_support_are_conditions():
    model = fitted(nonconformity=Bounded(Residual(), y_min=0), cv=2)
    assert model.guarantee_.assumption.endswith("and (2) all targets are at least 0")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    spread = CrossConformalRegressor(
        WithSpread(LinearRegression(), random_state=0), cv=2, nonconformity=Normalized(floor=0.1), random_state=0
    ).fit(X, rng.normal(size=60))
    assert spread.guarantee_.assumption.endswith(
        "and (2) the scale in the score, the median spread of all rows, does not depend on a single row"
    )


@pytest.mark.parametrize("settings", [{"cv": 10}, {"method": "jackknife+-after-bootstrap"}])
def test_restored_folds_have_the_same_guarantee(settings):
    learned = fitted(80, clusters=np.arange(80) // 4, **settings).calibrator_
    restored = CrossFolds(method=learned.method).restore(learned.state(), learned.nonconformity)
    assert str(restored.guarantee) == str(learned.guarantee)
