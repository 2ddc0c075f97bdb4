"""Splits into training, calibration and test parts, and the scorer of coverage."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover import ConformalRegressor, Normalized, OneSided, Residual, coverage, coverage_by_group
from evencover.model_selection import CoverageScorer, IntervalScorer, three_way_split
from evencover.models import WithSpread
from evencover.synthetic import heteroskedastic

pytestmark = pytest.mark.usefixtures("few_trees")

X, Y = np.arange(200.0).reshape(100, 2), np.arange(100.0)


def test_parts_are_disjoint_and_hold_all_rows():
    parts = three_way_split(X, Y, calibration_size=0.3, test_size=0.1, random_state=0)
    assert [len(part) for part in parts] == [60, 30, 10]
    np.testing.assert_array_equal(np.sort(np.concatenate([part.positions for part in parts])), np.arange(100))
    for part in parts:
        np.testing.assert_array_equal(part.X, X[part.positions])
        np.testing.assert_array_equal(part.y, Y[part.positions])


def test_the_seed_determines_the_split():
    first, again, other = (three_way_split(X, Y, random_state=seed)[0].positions for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_rows_of_a_cluster_are_in_one_part():
    clusters = np.arange(100) // 4
    parts = three_way_split(X, Y, clusters=clusters, random_state=0)
    found = [set(clusters[part.positions]) for part in parts]
    assert sum(map(len, found)) == 25
    assert len(set.union(*found)) == 25


def test_strata_have_the_same_shares_in_all_parts():
    strata = np.repeat(["many", "few"], [80, 20])
    for part in three_way_split(X, Y, stratify=strata, random_state=0):
        assert np.mean(strata[part.positions] == "few") == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"test_size": 20}, "test_size must be a share of the rows, between 0 and 1; got 20"),
        ({"calibration_size": 0.9}, "must leave rows for training; got 0.9 and 0.2"),
        ({"clusters": np.zeros(99)}, "clusters must have 100 rows, as many as X; got 99"),
        ({"stratify": np.zeros(99)}, "stratify must have 100 rows, as many as X; got 99"),
        ({"clusters": np.zeros(100), "stratify": np.zeros(100)}, "clusters and stratify cannot be combined; got both"),
    ],
)
def test_bad_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        three_way_split(X, Y, **arguments)


def test_lists_can_be_split():
    training, calibration, test = three_way_split(X.tolist(), Y.tolist(), random_state=0)
    assert len(training) == len(calibration) == 2 * len(test) == 40


def test_few_clusters_give_one_warning():
    """With the number of clusters."""
    with pytest.warns(UserWarning, match="clusters has only 9 different clusters") as caught:
        three_way_split(X, Y, clusters=np.arange(100) % 9, random_state=0)
    assert len(caught) == 1


class TestCoverageScorer:
    data = heteroskedastic(600, seed=0)
    model = ConformalRegressor(LinearRegression(), random_state=0)

    def test_the_score_is_the_coverage_at_the_level(self):
        fitted = self.model.fit(self.data.X, self.data.y)
        for level in (0.5, 0.9):
            expected = coverage(self.data.y, fitted.predict_interval(self.data.X, level=level))
            assert CoverageScorer(level)(fitted, self.data.X, self.data.y) == expected

    def test_by_a_column_it_is_the_smallest_coverage_of_a_group(self):
        noisy = np.where(self.data.X[:, 2] > 0.5, "noisy", "quiet")
        table = pd.DataFrame(self.data.X, columns=["a", "b", "c"]).assign(region=noisy == "noisy")
        fitted = self.model.fit(table, self.data.y)
        shares = coverage_by_group(self.data.y, fitted.predict_interval(table), noisy)
        score = CoverageScorer(0.9, by="region")(fitted, table, self.data.y)
        assert score == min(shares.values()) < CoverageScorer(0.9)(fitted, table, self.data.y)
        with pytest.raises(ValueError, match=r"CoverageScorer\(by='county'\): X has no column 'county'"):
            CoverageScorer(by="county")(fitted, table, self.data.y)

    def test_in_cross_validation_and_searches_of_pipelines(self):
        piped = make_pipeline(StandardScaler(), self.model)
        scores = cross_val_score(piped, self.data.X, self.data.y, cv=3, scoring=CoverageScorer(0.8))
        assert np.all(np.abs(scores - 0.8) < 0.1)
        search = GridSearchCV(
            ConformalRegressor(WithSpread(LinearRegression(), random_state=0), random_state=0),
            {"nonconformity": [Residual(), Normalized()]},
            scoring={"coverage": CoverageScorer(), "score": IntervalScorer()},
            refit="score",
            cv=3,
        ).fit(self.data.X, self.data.y)
        assert search.best_params_ == {"nonconformity": Normalized()}
        assert np.all(np.abs(search.cv_results_["mean_test_coverage"] - 0.9) < 0.05)

    def test_a_level_of_90_is_an_error(self):
        with pytest.raises(ValueError, match=r"did you mean 0\.9"):
            CoverageScorer(90)


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_one_sided_bounds_have_no_interval_score(side):
    model = ConformalRegressor(LinearRegression(), nonconformity=OneSided(Residual(), side=side), random_state=0)
    with pytest.raises(ValueError, match=f"two finite ends; got {side} bounds, which have one. Use CoverageScorer"):
        IntervalScorer(0.9)(model.fit(X, Y), X, Y)
    assert 0.8 < CoverageScorer(0.9)(model, X, Y) <= 1


@pytest.mark.parametrize("score", [Residual(), OneSided(Residual())], ids=repr)
@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:too few calibration rows")
def test_too_few_calibration_rows_have_an_infinite_interval_score(score):
    model = ConformalRegressor(LinearRegression(), nonconformity=score, random_state=0)
    assert (cross_val_score(model, X[:12], Y[:12], cv=2, scoring=IntervalScorer(0.9)) == -np.inf).all()
