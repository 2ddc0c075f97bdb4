"""The search for the region with the lowest coverage: what it finds, its rule in columns and values, its p-values."""

import re

import numpy as np
import pytest
from scipy.stats import betabinom, binom, kstest
from sklearn.tree import DecisionTreeRegressor

from evencover import Intervals, audit, conformal_rank
from evencover.diagnostics import audits
from evencover.diagnostics.regions import Categories, Feature, FeatureSearch, Range, Region, RegionSearch, features_of
from tests.synthetic import ONE_IN_A_MILLION

pd = pytest.importorskip("pandas", reason="pandas is not installed")


def mixed_table(n, seed=0):
    """Return a table of numbers, text, dates, booleans and missing values."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "carat": rng.gamma(2.0, 0.5, n).round(2),
            "cut": rng.choice(["Fair", "Good", "Ideal", "Premium"], n),
            "price": rng.integers(300, 90_000, n),
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 365, n), unit="D"),
            "new": rng.random(n) < 0.5,
            "depth": np.where(rng.random(n) < 0.3, np.nan, rng.normal(60.0, 2.0, n)),
            "shop": np.where(rng.random(n) < 0.3, None, rng.choice(["A", "B"], n)),
        }
    )


NUMBERS = Feature("x", np.array([1.0, 2.0, np.nan, 36_830.5]))

PLANTED = {  # which rows are missed more often, and the rule that should be found
    "two-sided range": (lambda X: (X["carat"] > 0.5) & (X["carat"] <= 1.1), r"0\.(49|5\d?) < carat <= 1\.[01]\d*"),
    "category": (lambda X: X["cut"] == "Ideal", r"cut = Ideal"),
    "all but a category": (lambda X: X["cut"] != "Ideal", r"cut is not Ideal( and .*)?"),
    "two columns": (lambda X: (X["carat"] > 1.02) & (X["cut"] == "Fair"), r"cut = Fair and carat > (0\.9\d|1(\.\d+)?)"),
    "numbers in thousands": (lambda X: X["price"] > 60_000, r"price > (59|60|61) \d\d\d"),
    "dates": (lambda X: X["sold"] > "2020-09-30", r"sold > 2020-(09|10)-\d\d"),
    "booleans": (lambda X: X["new"], r"new = True( and .*)?"),
    "missing numbers": (lambda X: X["depth"].isna(), r"depth missing|\(depth <= 53\.\d+ or missing\)"),
    "missing text": (lambda X: X["shop"].isna(), r"shop missing"),
    "no missing text": (lambda X: ~X["shop"].isna(), r"shop not missing( and .*)?"),
    "low or missing": (lambda X: ~(X["depth"] > 60), r"\(depth <= (59\.9|60)\d* or missing\)( and .*)?"),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_region_is_found(case, monkeypatch):
    monkeypatch.setattr(audits, "excess_risk", lambda *_: None)  # not tested here
    X = mixed_table(6000)
    missed_more_often, rule = PLANTED[case]
    bad = missed_more_often(X).to_numpy()
    covered = np.random.default_rng(1).random(6000) < np.where(bad, 0.6, 0.93)
    found = audit(np.where(covered, 0.5, 2.0), (np.zeros(6000), np.ones(6000)), X=X)
    assert re.fullmatch(rule, found.region_rule)
    assert found.worst_region.high < 0.7
    assert found.worst_region.adjusted < 0.001
    assert found.verdict == "uneven"


def test_a_region_of_one_of_many_features_is_found(monkeypatch):
    monkeypatch.setattr(audits, "excess_risk", lambda *_: None)  # not tested here
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 60))
    covered = (X[:, 7] <= 0.8) | (rng.random(4000) < 0.5)
    found = audit(np.where(covered, 0.5, 2.0), (np.zeros(4000), np.ones(4000)), X=X, groups=np.zeros(4000))
    name, _, edge = found.region_rule.partition(" > ")
    assert (name, float(edge)) == ("column 7", pytest.approx(0.8, abs=0.03))


def worst_node(search, covered):
    """Return which searched rows lie in the node with the largest lack of coverage, from a tree fitted in the test."""
    smallest = {900: 90, 200: 40}[len(covered)]
    tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=smallest, random_state=0).fit(search.matrix, covered)
    nodes = tree.decision_path(search.matrix).toarray().astype(bool).T[1:]
    return max(nodes, key=lambda rows: (covered.mean() - covered[rows].mean()) * np.sqrt(rows.sum()))


@pytest.mark.parametrize("n", [900, 200])
@pytest.mark.parametrize("seed", range(8))
def test_a_region_contains_the_rows_of_its_node(seed, n):
    """The conditions on columns and values select the same rows as the tree."""
    X = mixed_table(n, seed)
    X["ties"] = np.random.default_rng(seed).integers(0, 12, n) / 3
    X["huge"] = X["carat"] * 1e300
    X["near"] = 1e9 + X["carat"] * 1e-5  # 32 bits cannot hold the differences
    rng, search = np.random.default_rng(seed), RegionSearch.of(features_of(X), np.arange(n))
    for _ in range(5):
        covered = rng.random(n) < 0.8
        region = search.worst(covered)
        np.testing.assert_array_equal(region.contains(), worst_node(search, covered))
        assert region.contains().sum() >= max(n / 10, min(50, n / 5))
        assert len(region.rule().split(" and ")) == len(region.conditions) <= 3


def rows_by_rule(rule, X):
    """Return the rows that fulfil a printed rule on columns of numbers without missing values."""
    inside = np.ones(len(X), dtype=bool)
    for part in rule.split(" and "):
        low, name, sign, high = re.fullmatch(r"(?:([-.e\d ]+) < )?(\w+) (<=|>) ([-.e\d ]+)", part).groups()
        high = float(high.replace(" ", ""))
        inside &= X[name] > high if sign == ">" else X[name] <= high
        inside &= True if low is None else X[name] > float(low.replace(" ", ""))
    return inside


@pytest.mark.parametrize("seed", range(6))
def test_printed_edges_separate_the_rows(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=800) * 1e-7,
            "b": rng.uniform(0, 1e6, 800),
            "c": 12_345_678 + rng.uniform(size=800),
            "d": rng.integers(-5, 5, 800),
        }
    )
    search = RegionSearch.of(features_of(X), np.arange(800))
    for _ in range(5):
        region = search.worst(rng.random(800) < 0.8)
        np.testing.assert_array_equal(region.contains(), rows_by_rule(region.rule(), X))


def test_conditions_on_one_column_are_merged():
    x = np.linspace(0, 1, 5000)
    region = RegionSearch.of([Feature("x", x)], np.arange(5000)).worst((x < 0.3) | (x > 0.7))
    assert region.rule() == "0.3 < x <= 0.7"
    cut = Feature("cut", np.arange(600.0) % 6, tuple("abcdef"))
    covered = np.isin(np.arange(600) % 6, [0, 1])
    covered[::50] = True
    assert RegionSearch.of([cut], np.arange(600)).worst(covered).rule() == "cut is none of a, b"


def test_the_texts_of_conditions():
    x = NUMBERS
    texts = {
        Range(missing=False, low=0.3): "x > 0.3",
        Range(missing=False, high=36_830.0): "x <= 36 830",
        Range(missing=True, high=36_830.5): "(x <= 36 830.5 or missing)",
        Range(missing=True, high=-np.inf): "x missing",
        Range(missing=False): "x not missing",
    }
    assert {condition: condition.text(x) for condition in texts} == texts
    assert Range(missing=True, high=1.5).contains(x).tolist() == [True, False, True, False]
    assert Range(missing=False).contains(x).tolist() == [True, True, False, True]
    cut = Feature("cut", np.array([0.0, 1.0, np.nan, 2.0]), ("Fair", "Good", "any other"))
    texts = {
        Categories(frozenset({0})): "cut = Fair",
        Categories(frozenset({2})): "cut = any other",
        Categories(frozenset({3})): "cut missing",
        Categories(frozenset({0, 1, 2})): "cut not missing",
        Categories(frozenset({1, 2, 3})): "cut is not Fair",
        Categories(frozenset({2, 3})): "cut is none of Fair, Good",
    }
    assert {condition: condition.text(cut) for condition in texts} == texts
    assert Categories(frozenset({2, 3})).contains(cut).tolist() == [False, False, True, True]
    both = Region({x: Range(missing=False, low=1.5), cut: Categories(frozenset({1}))})
    assert both.rule() == "x > 1.5 and cut = Good"
    assert both.contains().tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("low", "high", "edge"),
    [
        (3, 4, 3),
        (0.98, 1.0, 0.99),
        (1.0234, 1.0391, 1.03),
        (-0.4, 7.0, 0),
        (36_812.7, 36_834.1, 36_820),
        (2.0, 100.0, 50),
        (-4.0, -3.0, -4),
        (1e300, 1.5e300, 1e300),
        (1e-310, 3e-310, 2e-310),
        (1.0, np.nextafter(1.0, 2), 1.0),
    ],
)
def test_edges_are_round_numbers(low, high, edge):
    assert NUMBERS.edge_between(float(low), float(high)) == edge


def test_edges_lie_between_their_neighbours():
    rng = np.random.default_rng(0)
    for _ in range(500):
        low, high = np.sort(rng.normal(size=2) * 10.0 ** rng.integers(-20, 20))
        assert low <= NUMBERS.edge_between(low, high) < high
        assert low <= NUMBERS.edge_between(low, np.nextafter(low, np.inf)) < np.nextafter(low, np.inf)
    assert [NUMBERS.edge_text(value) for value in (0.3, 36_830.0, 36_830.25, -1e6, 5.0, 1e20)] == [
        *("0.3", "36 830", "36 830.25", "-1 000 000", "5", "1e+20")
    ]


def test_edges_of_dates_are_the_start_of_a_day_or_an_hour():
    times = pd.to_datetime(["2020-03-01 10:20:30", "2020-03-01 14:10:00", "2020-03-03 09:00:00"])
    (when,) = features_of(pd.DataFrame({"when": times}))
    edges = [when.edge_text(when.edge_between(*when.values[[i, i + 1]])) for i in range(2)]
    assert edges == ["2020-03-01 14:00:00", "2020-03-03 00:00:00"]
    (day,) = features_of(pd.DataFrame({"day": times.normalize()}))
    assert day.edge_text(day.edge_between(*day.values[[1, 2]])) == "2020-03-02"


def test_the_excess_risk_sees_standardized_features():
    """Median 0 and standard deviation 1, also of huge numbers; 0 if constant or missing."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(100) * 1e302 + 1e305, np.ones(100), rng.random(100)])
    X[::7, 2] = np.nan
    scaled = FeatureSearch.of(features_of(X), 100, 0).matrix
    np.testing.assert_allclose(np.median(scaled[:, 0]), 0.0, atol=1e-12)
    np.testing.assert_allclose(scaled[:, 0].std(), 1.0)
    assert (scaled[:, 1] == 0).all()
    assert (scaled[::7, 2] == 0).all()
    assert np.isfinite(scaled).all()


def test_missing_values_that_the_search_did_not_see_lie_in_no_range():
    x = np.where(np.arange(400) < 200, np.arange(400.0), np.nan)
    region = RegionSearch.of([Feature("x", x)], np.arange(200)).worst(np.arange(200) >= 100)
    assert region.rule() == "x <= 99"
    assert region.contains().tolist() == [True] * 100 + [False] * 300


def test_outermost_ranges_are_unbounded():
    """Rows of the other half can lie outside the range of the searched rows."""
    x = np.append(np.arange(200.0), [-1e9, 1e9])
    for covered, inside in ((x < 100, [False, True]), (x >= 100, [True, False])):
        region = RegionSearch.of([Feature("x", x)], np.arange(200)).worst(covered[:200])
        assert region.contains()[200:].tolist() == inside


def test_the_search_is_computed_once_for_several_audits():
    X = mixed_table(1000)
    covered = np.random.default_rng(0).random((3, 1000)) < 0.8
    search = FeatureSearch.of(features_of(X), 1000, 5)
    for each in covered:
        y, bounds, groups = np.where(each, 0.5, 2.0), (np.zeros(1000), np.ones(1000)), np.zeros(1000)
        once = audit(y, bounds, X=search, groups=groups, seed=5)
        assert str(once) == str(audit(y, bounds, X=X, groups=groups, seed=5))
        assert once.region_rule


def test_at_most_20_000_rows_are_searched():
    search = FeatureSearch.of(features_of(np.random.default_rng(0).normal(size=(50_000, 1))), 50_000, 0)
    assert len(search.regions.matrix) == 20_000
    assert [len(half) for half in search.halves] == [25_000, 25_000]


@pytest.mark.parametrize("repeats", [100, pytest.param(3000, marks=pytest.mark.slow)])
def test_p_values_of_a_valid_predictor(repeats, monkeypatch):
    """With one threshold from 60 calibration rows, the number of covered rows in the region is BetaBinomial.

    The region depends on the searched rows only. So randomized p-values of the tested rows are uniform. If they were
    the searched rows, 36 % of the p-values would be below 0.05, which is found with probability 0.9999 (binomial).
    """
    monkeypatch.setattr(audits, "excess_risk", lambda *_: None)  # not tested here
    rng = np.random.default_rng(0)
    n, rank = 60, conformal_rank(60, 0.9)
    p_values, randomized = [], []
    for seed in range(repeats):
        threshold = np.sort(rng.random(n))[rank - 1]
        X, y = rng.normal(size=(600, 2)), rng.random(600)
        made = Intervals(np.full(600, -1.0), np.full(600, threshold))
        found = audit(y, made, X=X, groups=np.zeros(600), calibration_sizes=n, seed=seed).worst_region
        p_values.append(found.p_under)
        covered, law = round(found.rows * found.coverage), betabinom(found.rows, rank, n + 1 - rank)
        assert found.p_under == pytest.approx(law.cdf(covered))
        below = law.cdf(covered - 1)
        randomized.append(below + rng.random() * (found.p_under - below))
    assert sum(np.array(p_values) <= 0.05) <= binom.isf(ONE_IN_A_MILLION, repeats, 0.05)
    assert kstest(randomized, "uniform").pvalue > ONE_IN_A_MILLION
