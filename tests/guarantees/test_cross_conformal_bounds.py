"""The bounds of cross-conformal prediction: derived by hand, reached in the worst case, and not improvable."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import ceil, floor

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, ttest_1samp
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, PredefinedSplit, RepeatedKFold, TimeSeriesSplit

from evencover import Bounded, ByFeature, ByPrediction, CrossConformalRegressor, Guarantee, Normalized, Residual
from evencover.calibration.cross import CrossFolds
from evencover.guarantees import FoldBound, SmallestBound
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
        covered.append(bool(model.predict_interval([[new]], level=level).covers([0.0])[0]))
    return covered, model.guarantee_.lower_bound(level)


@pytest.mark.parametrize(
    ("n_population", "level"),
    [(10, Fraction(7, 10)), (20, Fraction(8, 10)), (19, Fraction(9, 10)), (14, Fraction(6, 7))],
)
def test_jackknife_plus_has_exactly_its_smallest_possible_coverage(n_population, level):
    """The last row is each of the population with the same probability; it is missed if it is strange.

    With two more strange rows, each wins against one row less, which is too few, and none is missed.
    """
    n_strange = 2 * floor((1 - level) * n_population) - 1
    covered, bound = covered_rows(n_population, n_strange, level)
    assert covered == [row >= n_strange for row in range(n_population)]
    assert bound == Fraction(sum(covered), n_population)
    assert all(covered_rows(n_population, n_strange + 2, level)[0])


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
    """Rows are independent. Coverage is 0.632 at level 0.8, and 0.6003 is guaranteed.

    The 60 shares of 20 new rows have a mean with a standard error of 0.015.
    """
    n, n_new, level, limit = 4001, 20, Fraction(4, 5), 0.37
    rng, shares = np.random.default_rng(0), []
    for _ in range(60):
        x = rng.random((n + n_new, 1))
        model = CrossConformalRegressor(OddOrEven(limit), cv=2, random_state=int(rng.integers(1 << 30)))
        intervals = model.fit(x[:n], np.zeros(n)).predict_interval(x[n:], level=level)
        shares.append(intervals.covers(np.zeros(n_new)).mean())
    exact = exact_coverage(n, int((1 - level) * (n + 1)), limit)
    assert Fraction(3, 5) < model.guarantee_.lower_bound(level) == 1 - Fraction(2 * 800, n + 2) < exact < 0.64
    assert ttest_1samp(shares, exact).pvalue > ONE_IN_A_MILLION
    assert ttest_1samp(shares, float(level), alternative="less").pvalue < ONE_IN_A_MILLION


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
    bound = FoldBound(n, Fraction(n_folds))
    promised = {rank: 1 - bound(1 - Fraction(rank, n + 1)) for rank in range(1, n + 1)}
    assert promised == {rank: min(1, Fraction(2 * rank + n_folds - 2, n + n_folds)) for rank in promised}
    misses = {rank: largest_miss_probability(sizes, rank) for rank in promised}
    assert all(misses[rank] <= float(most) + 1e-9 for rank, most in promised.items())
    if len(set(sizes)) == 1:
        assert any(misses[rank] > float(most) - 1e-9 for rank, most in promised.items() if most < 1)


@pytest.mark.parametrize("sizes", [(2, 2), (1, 3), (1, 1, 2)])
def test_no_dependence_of_repeated_folds_misses_more_than_the_bound(sizes):
    """Two repetitions of folds of these sizes; counts of both are added, and each counts one half."""
    n = sum(sizes)
    bound = FoldBound(n, Fraction(len(sizes)), 2)
    for rank in range(2, 2 * n + 1):  # twice the number of ranks of a miss
        level = 1 - Fraction(rank, 2 * (n + 1))
        assert largest_miss_probability((*sizes, *sizes), rank - 1) <= float(1 - bound(level)) + 1e-9
    assert bound(1 - Fraction(1, 2 * (n + 1))) == 1  # the interval is infinite


def most_wins(n_strange_of_folds, size):
    """Return the largest number of wins that all strange rows can have, in a contest of rows of different folds."""
    fold = np.repeat(np.arange(len(n_strange_of_folds)), size)
    strange = np.concatenate([np.arange(size) < n_strange for n_strange in n_strange_of_folds])
    pairs = [(i, j) for i, j in combinations(range(len(fold)), 2) if fold[i] != fold[j]]
    wins = np.zeros((len(fold), len(pairs)))  # of the first row of each pair: a share
    for column, (i, j) in enumerate(pairs):
        wins[i, column], wins[j, column] = -1, 1
    lost = np.array([sum(j == row for _, j in pairs) for row in range(len(fold))])  # wins if all shares are 0
    least = np.column_stack([wins, np.ones(len(fold))])[strange]
    result = linprog(
        [*np.zeros(len(pairs)), -1], A_ub=least, b_ub=lost[strange], bounds=[(0, 1)] * len(pairs) + [(0, None)]
    )
    assert result.success
    return -result.fun


@pytest.mark.parametrize(("size", "n_folds"), [(1, 5), (1, 6), (2, 3), (2, 4), (3, 3)])
def test_no_contest_has_more_strange_rows_than_the_bound(size, n_folds):
    """Folds of equal size, one of which holds the new row: rows that beat n + 1 − r others; some rank has the most."""
    n, reached = size * (n_folds - 1), False
    bound = FoldBound(n, Fraction(size))
    for counts in combinations_with_replacement(range(size + 1), n_folds):
        if not sum(counts):
            continue
        smallest_rank = max(1, ceil(n + 1 - most_wins(counts, size) - 1e-9))
        most = (1 - bound(1 - Fraction(smallest_rank, n + 1))) * (n + size) if smallest_rank <= n else n + size
        assert sum(counts) <= most
        reached |= sum(counts) == most < n + size
    assert reached


@pytest.mark.parametrize("k", [Fraction(1), Fraction(2), Fraction(7, 2), Fraction(10)])
@pytest.mark.parametrize("repeats", [1, 3])
def test_the_bound_is_never_below_the_one_without_ranks(k, repeats):
    """1 − 2 (1 − level) − (k − 2) / (n + k), or without the last term if k < 2; and it is at most 1."""
    for n in (1, 9, 18, 40):
        bound = FoldBound(n, k, repeats)
        for level in (Fraction(percent, 100) for percent in range(1, 100)):
            slack = max(k - 2, Fraction(0)) / (n + k)
            assert max(0, 1 - 2 * (1 - level) - slack) <= bound(level) <= 1


def test_the_bound_as_text():
    assert str(FoldBound(18, Fraction(1))) == "1 − (2 r − 1) / 19 with r = ⌊19 (1 − level)⌋; the bound is 1 if r < 1"
    assert str(FoldBound(18, Fraction(2))) == "1 − 2 r / 20 with r = ⌊19 (1 − level)⌋; the bound is 1 if r < 1"
    assert (
        str(FoldBound(20, Fraction(7, 2), 2))
        == "1 − (4 r + 3) / 47 with r = ⌊42 (1 − level)⌋ / 2; the bound is 1 if r < 1"
    )
    assert {FoldBound(18, Fraction(1)): 1}[FoldBound(18, Fraction(1))] == 1 != FoldBound(18, Fraction(2))


class BadWhereItHasRows(RegressorMixin, BaseEstimator):
    """A model that predicts 0 in twentieths of [0, 1] without training rows, and −20 in those with training rows."""

    def fit(self, X, y):
        self.known_ = np.unique(twentieths(X))
        return self

    def predict(self, X):
        return np.where(np.isin(twentieths(X), self.known_), -20.0, 0.0)


def twentieths(X):
    """Return the part of [0, 1] that each feature lies in."""
    return (20 * np.ravel(X)).astype(int)


@pytest.mark.parametrize("folds", ["given", "row order", "random"])
def test_folds_by_a_feature_have_no_bound(folds):
    """Without its own twentieth, a model has small scores there, and its predictions are wrong everywhere else.

    Each new row is far above the intervals of the 19 models of the other parts, 95 % of all; and 0.767 would be
    guaranteed. Random folds have no empty part, so that all scores are large.
    """
    rng = np.random.default_rng(0)
    x, new = np.sort(np.concatenate([np.arange(20) / 20 + rng.random(20) / 20 for _ in range(20)])), rng.random(1000)
    cv = {"given": PredefinedSplit(twentieths(x)), "row order": KFold(20), "random": 20}[folds]
    model = CrossConformalRegressor(BadWhereItHasRows(), cv=cv, random_state=0).fit(x[:, None], rng.normal(size=400))
    covered = int(model.predict_interval(new[:, None], level=0.9).covers(rng.normal(size=1000)).sum())
    assert model.guarantee_.lower_bound(0.9) == 1 - Fraction(98, 420)
    assert FOLD_CONDITION in model.guarantee_.assumption or folds == "random"
    assert (covered == 0) == (folds != "random")
    assert covered == 0 or binom.cdf(covered, 1000, float(model.guarantee_.lower_bound(0.9))) > ONE_IN_A_MILLION


FOLD_CONDITION = "the folds depend neither on the targets nor on the features, also not by the order of the rows"


class OwnKFold(KFold):
    """A splitter of one's own, which can do anything."""


IN_RANDOM_ORDER = [
    {"cv": 4},
    {"cv": KFold(4, shuffle=True, random_state=0)},
    {"cv": RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)},
    {"cv": LeaveOneOut()},
    {"method": "jackknife+"},
    {"method": "jackknife+-after-bootstrap"},
    {"cv": 4, "clusters": np.arange(20) // 2},
    {"cv": GroupKFold(4, shuffle=True, random_state=0), "clusters": np.arange(20) // 2},
    {"method": "jackknife+", "clusters": np.arange(20) // 2},
]
AS_GIVEN = [
    {"cv": KFold(4)},
    {"cv": OwnKFold(4, shuffle=True, random_state=0)},
    {"cv": PredefinedSplit(np.arange(20) % 4)},
    {"cv": TimeSeriesSplit(4)},
    {"cv": [(np.arange(10), np.arange(10, 20)), (np.arange(10, 20), np.arange(10))]},
    {"cv": KFold(4), "method": "cross-conformal"},
    {"cv": GroupKFold(4), "clusters": np.arange(20) // 2},
]


@pytest.mark.parametrize("settings", IN_RANDOM_ORDER)
def test_random_folds_need_no_condition(settings):
    assert "folds" not in fitted(**settings).guarantee_.assumption


@pytest.mark.parametrize("settings", AS_GIVEN)
def test_other_folds_are_a_condition(settings):
    model = fitted(**settings)
    assert f"(2) {FOLD_CONDITION}" in model.guarantee_.assumption
    learned = model.calibrator_
    restored = CrossFolds(method=learned.method).restore(learned.state(), learned.nonconformity)
    assert restored.guarantee.assumption == learned.guarantee.assumption


@pytest.mark.parametrize("settings", [{"cv": 4}, {"method": "jackknife+"}])
def test_files_that_do_not_know_about_their_folds_state_the_condition(settings):
    """jackknife+ needs none."""
    learned = fitted(**settings).calibrator_
    state = {name: value for name, value in learned.state().items() if name != "random_folds"}
    restored = CrossFolds(method=learned.method).restore(state, learned.nonconformity)
    assert (FOLD_CONDITION in restored.guarantee.assumption) == ("cv" in settings)


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
MISSES = [  # at level 0.9: r = 2 of 21 ranks
    ({"cv": 2}, Fraction(4, 22)),
    ({"cv": 4}, Fraction(6, 24)),
    ({"cv": 3}, Fraction(5, 23)),  # folds of 7, 7 and 6 rows
    ({"cv": 5}, Fraction(6, 24)),  # 7 / 25 for the number of folds, 6 / 24 for folds of 4 rows
    ({"cv": 10}, Fraction(4, 22)),  # folds of 2 rows
    ({"cv": 10, "n": 22}, Fraction(12, 32)),  # folds of 2 and 3 rows
    ({"cv": 10, "method": "cross-conformal", "n": 22}, Fraction(12, 32)),
    ({"cv": LeaveOneOut()}, Fraction(3, 21)),
    ({"method": "jackknife+"}, Fraction(3, 21)),
    ({"method": "jackknife+", "n": 18}, Fraction(1, 19)),  # r = 1
    ({"method": "jackknife+-after-bootstrap"}, Fraction(3, 21)),
    ({"method": "jackknife+", "n": 8}, Fraction(0)),  # r = 0: infinite intervals
    ({"cv": RepeatedKFold(n_splits=5, n_repeats=3, random_state=0)}, Fraction(7, 25)),  # ⌊6.3⌋ / 3 = 2
    ({"cv": RepeatedKFold(n_splits=5, n_repeats=5, random_state=0)}, Fraction(7, 25)),  # ⌊10.5⌋ / 5 = 2
    ({"cv": RepeatedKFold(n_splits=5, n_repeats=10, random_state=0)}, Fraction(72, 10) / 25),  # ⌊21⌋ / 10 = 2.1
    ({"cv": FOLDS_2_AND_5}, Fraction(11, 2) / (20 + Fraction(7, 2))),  # 3.5 folds on average; ⌊4.2⌋ / 2 = 2
    ({"cv": parts(20, (8, 12), (12, 16), (16, 20))}, Fraction(3, 15)),  # the first 8 rows are for training; r = 1
    ({"cv": PAST_ROWS}, Fraction(10, 20)),  # models that leave out more than one row; r = 1
]


@pytest.mark.parametrize(("settings", "misses"), MISSES)
def test_bound_by_hand(settings, misses):
    assert fitted(**settings).guarantee_.lower_bound(0.9) == 1 - misses


def test_bounds_of_a_hundred_rows():
    """10 folds of 100 rows: 0.745, and not 1 − 0.2 − 8 / 110 = 0.727."""
    bound = fitted(100, cv=10).guarantee_.lower_bound
    assert bound == FoldBound(100, Fraction(10))
    assert bound(0.9) == 1 - Fraction(28, 110)


def test_each_group_has_its_own_bound():
    """Of 5 folds in order, the first 8 rows are in 2 and the other 12 in 3. With 8 rows, intervals are infinite."""
    feature = np.arange(20) >= 8
    guarantee = fitted(cv=KFold(5), taxonomy=ByFeature(1), feature=feature).guarantee_
    assert list(guarantee.lower_bounds.values()) == [FoldBound(8, Fraction(2)), FoldBound(12, Fraction(3))]
    assert [bound(0.9) for bound in guarantee.lower_bounds.values()] == [1, 1 - Fraction(3, 15)]
    assert [guarantee.lower_bound(level) for level in (0.9, 0.8)] == [1 - Fraction(3, 15), 1 - Fraction(5, 15)]
    assert str(guarantee.lower_bound).startswith(
        "the smallest of: 1 − 2 r / 10 with r = ⌊9 (1 − level)⌋; the bound is 1 if r < 1"
    )
    assert (
        "at least the bound of its group (0.0: 1 − 2 r / 10 with r = ⌊9 (1 − level)⌋; the bound is 1 if r < 1; 1.0: "
        in str(guarantee)
    )
    jackknife = fitted(method="jackknife+", taxonomy=ByFeature(1), feature=np.arange(20) >= 10).guarantee_
    assert "in every group, a target lies in its interval with probability usually about the level" in str(jackknife)
    assert (
        "and at least 1 − (2 r − 1) / 11 with r = ⌊11 (1 − level)⌋; the bound is 1 if r < 1. This holds if new"
        in str(jackknife)
    )
    assert jackknife.lower_bound(0.9) == Fraction(10, 11)


def test_the_smallest_bound_depends_on_the_level():
    """At level 0.9 the group of 19 rows has the smaller bound, at level 0.85 that of 18 rows."""
    bounds = {"a": FoldBound(18, Fraction(1)), "b": FoldBound(19, Fraction(1))}
    smallest = Guarantee("approximate", {"a": 18, "b": 19}, bound=bounds).lower_bound
    assert [smallest(level) for level in (0.9, 0.87)] == [Fraction(17, 20), Fraction(16, 19)]
    assert hash(smallest) == hash(SmallestBound(tuple(bounds.values())))


def test_a_group_without_rows_has_infinite_intervals():
    taxonomy = ByFeature(1, categories=[0, 1])
    guarantee = fitted(cv=3, taxonomy=taxonomy, clusters=np.arange(20) // 2).guarantee_
    assert guarantee.lower_bounds[1](0.01) == 1


CLUSTER_MISSES = [  # r = 8 of 81 ranks
    ({"cv": 4}, Fraction(30, 96)),  # 4 folds × 4 rows of a cluster; folds have 20 rows
    ({"cv": 10}, Fraction(22, 88)),  # 10 folds of 8 rows
    ({"cv": GroupKFold(3)}, Fraction(26, 92)),
    ({"method": "jackknife+"}, Fraction(18, 84)),
    ({"method": "jackknife+-after-bootstrap"}, Fraction(18, 84)),
]


@pytest.mark.parametrize(("settings", "misses"), CLUSTER_MISSES)
def test_bound_of_clusters_by_hand(settings, misses):
    """20 clusters of 4 rows."""
    guarantee = fitted(80, clusters=np.arange(80) // 4, **settings).guarantee_
    assert guarantee.lower_bound(0.9) == 1 - misses
    assert "new rows are random rows of new clusters" in guarantee.assumption


@pytest.mark.parametrize(("n_folds", "k"), [(20, 1), (5, 4), (4, 4)])
def test_one_row_of_each_cluster_counts_as_a_row(n_folds, k):
    """20 clusters of 1 to 4 rows, of which one row each is scored: folds of 1, 4 and 5 clusters that are left out."""
    clusters = np.repeat(np.arange(20), np.arange(20) % 4 + 1)
    folds = np.arange(20) % n_folds
    first = np.unique(clusters, return_index=True)[1]
    cv = [(np.flatnonzero(folds[clusters] != fold), first[folds == fold]) for fold in range(n_folds)]
    guarantee = fitted(len(clusters), clusters=clusters, cv=cv).guarantee_
    assert guarantee.lower_bound == FoldBound(20, Fraction(k))
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
    assert one_row_each.lower_bound == FoldBound(20, Fraction(4 if method == "cv+" else 1))


def test_clusters_must_be_left_out_together():
    with pytest.raises(ValueError, match=r"cv must leave out .* a cluster together, such as GroupKFold; got"):
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
    assert restored.guarantee.lower_bound == learned.guarantee.lower_bound
