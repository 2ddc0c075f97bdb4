"""`recommend`: choose the score and the groups on out-of-fold predictions."""

from copy import deepcopy

import numpy as np
import pytest
from scipy.stats import betabinom, norm
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from evencover import (
    BySpread,
    IntervalDistance,
    Intervals,
    Marginal,
    Normalized,
    Prediction,
    Residual,
    diagnose,
    diagnose_scores,
    interval_score,
    recommend,
)
from evencover.diagnostics.recommendations import Candidate, Recommendation, _best_even, rows_for_groups
from evencover.models import FromQuantiles, ResidualSpread, WithSpread, predictions_of
from evencover.synthetic import heteroskedastic, toy

pytestmark = pytest.mark.usefixtures("few_trees")

DATA = heteroskedastic(1500, seed=0)
FEW = heteroskedastic(300, seed=0)
CHEAP = WithSpread(LinearRegression(), ResidualSpread(LinearRegression()), random_state=0)


@pytest.fixture(scope="module")
def recommended():
    """The model for a regressor without spread. Calibrate a copy of it."""
    return recommend(LinearRegression(), DATA.X, DATA.y)


class RecordingOracle(RegressorMixin, BaseEstimator):
    """An oracle of the toy data that checks that it predicts no row it was fitted on."""

    def fit(self, X, y):
        self.seen_ = {float(value) for value in np.asarray(X)[:, 0]}
        return self

    def predict(self, X):
        return self.predict_full(X).center

    def predict_full(self, X):
        assert not {float(value) for value in np.asarray(X)[:, 0]} & self.seen_
        return Prediction(*toy()._moments(np.asarray(X)))


def test_groups_are_preferred_and_cost_a_pivotal_score_nothing():
    """One threshold is even here, too, but only groups guarantee it."""
    sample = toy().sample(20_000, seed=0)
    model = recommend(RecordingOracle(), sample.X, sample.y)
    assert model.taxonomy.n_groups == 3
    chosen, candidates = model.recommendation_.chosen, model.recommendation_.candidates
    scores = [each.interval_score for each in candidates]
    assert scores == sorted(scores)
    assert chosen.interval_score <= 1.01 * scores[0]
    (one_threshold,) = (each for each in candidates if each.has_one_threshold and each.nonconformity == Normalized())
    assert one_threshold.verdict == "even"
    assert one_threshold.interval_score == pytest.approx(chosen.interval_score, rel=0.01)
    (marked,) = (line for line in str(model.recommendation_).splitlines() if "<-" in line)
    assert marked.split()[0] == chosen.score_name
    assert marked.endswith("<- chosen")
    assert chosen.score_name in repr(model.recommendation_)


@pytest.mark.parametrize(("rows", "groups"), [(250, Marginal), (299, Marginal), (300, BySpread)])
def test_one_threshold_is_chosen_only_if_calibration_rows_are_too_few_for_groups(rows, groups):
    """A pivotal score needs no groups; with 100 rows in each group they are taken all the same."""
    sample = toy().sample(20_000, seed=0)
    model = recommend(RecordingOracle(), sample.X, sample.y, calibration_rows=rows)
    assert isinstance(model.taxonomy, groups)
    few = f"There will be {rows} calibration rows. Groups need 300, because thresholds of fewer rows vary by chance."
    assert (few in model.recommendation_.summary) == (groups is Marginal)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_each_of_three_groups_has_at_least_a_hundred_calibration_rows(level):
    assert rows_for_groups(level, "joint") == (600 if level == 0.95 else 300)


@pytest.mark.parametrize("rows", [250, 300])
def test_groups_are_chosen_with_few_calibration_rows_if_the_given_score_is_uneven(rows):
    """Residuals of the toy data are larger where the spread is; no other score may be chosen."""
    sample = toy().sample(2000, seed=0)
    model = recommend(RecordingOracle(), sample.X, sample.y, nonconformity=Residual(), calibration_rows=rows)
    found = {each.has_one_threshold: each for each in model.recommendation_.candidates}
    assert (found[True].verdict, found[False].verdict) == ("uneven", "even")
    assert model.recommendation_.chosen is found[False]


def test_candidates_are_compared_by_their_interval_scores():
    """The mean width plus 2 / (1 − level) times the distance of missed targets, with thresholds from the same rows."""
    sample = toy().sample(2000, seed=0)
    model = recommend(RecordingOracle(), sample.X, sample.y, taxonomy=Marginal(), nonconformity=Residual())
    (only,) = model.recommendation_.candidates
    center = toy()._moments(sample.X)[0]
    threshold = np.sort(np.abs(sample.y - center))[1800]  # rank 1801 of 2000
    intervals = Intervals(center - threshold, center + threshold)
    assert only.interval_score == pytest.approx(interval_score(sample.y, intervals, level=0.9))
    assert only.width == pytest.approx(2 * threshold)


class KnownSpread(RegressorMixin, BaseEstimator):
    """Predicts 0, with the only feature as spread."""

    def fit(self, X, y):
        return self

    def predict_full(self, X):
        return Prediction(np.zeros(len(X)), spread=np.ravel(X))

    def predict(self, X):
        return self.predict_full(X).center


def test_one_threshold_must_be_even_over_five_groups():
    """In each third of the rows by spread, half of them have three times the noise: thirds do not show it."""
    spread = np.linspace(1, 2, 6000)
    noise = np.where(np.arange(6000) % 2000 < 1000, 3.0, 1.0)
    y = (
        noise
        * np.random.default_rng(0).permuted(np.tile(norm.ppf((np.arange(1000) + 0.5) / 1000), (6, 1)), axis=1).ravel()
    )
    model = recommend(KnownSpread(), spread[:, None], y, nonconformity=Residual(), calibration_rows=200)
    (one,) = (each for each in model.recommendation_.candidates if each.has_one_threshold)
    by_groups = {n: diagnose_scores(np.abs(y), np.arange(6000) * n // 6000).verdict for n in (3, 5)}
    assert by_groups == {3: "even", 5: "uneven"}
    assert one.verdict == "uneven"


def test_groups_that_the_test_rows_cannot_show_to_be_even_are_not_chosen():
    sample = toy().sample(4500, seed=0)
    cases = ((4500, None, {1, 3, 5, 10}), (4500, 300, {1, 3, 5}), (3000, None, {1, 3, 5}), (3000, 300, {1, 3}))
    for rows, test_rows, expected in cases:
        model = recommend(RecordingOracle(), sample.X, sample.y, calibration_rows=rows, test_rows=test_rows)
        assert {getattr(each.taxonomy, "n_groups", 1) for each in model.recommendation_.candidates} == expected


def test_the_model_is_frozen_uncalibrated_and_fitted_on_all_rows(recommended):
    model = deepcopy(recommended)
    assert isinstance(model.estimator, FrozenEstimator)
    fitted = LinearRegression().fit(DATA.X, DATA.y)
    np.testing.assert_allclose(model.estimator.predict(DATA.X), fitted.predict(DATA.X))
    with pytest.raises(NotFittedError, match="Call 'calibrate' with rows that the frozen estimator was not fitted on"):
        model.predict_interval(DATA.X)
    fresh = heteroskedastic(600, seed=1)
    assert sum(row.rows for row in diagnose(model, fresh.X, fresh.y).table) >= 598  # up to two are edges
    assert model.calibrate(fresh.X, fresh.y).predict_interval(DATA.X).level == 0.9
    assert model.recommendation_.level == 0.9


def test_a_model_without_spread_is_given_one(recommended):
    assert isinstance(recommended.estimator.estimator, WithSpread)
    frozen = recommend(FrozenEstimator(LinearRegression().fit(FEW.X, FEW.y)), FEW.X, FEW.y)
    assert isinstance(frozen.estimator.estimator, WithSpread)


def test_quantile_models_pipelines_and_frames():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    low, high = (QuantileRegressor(quantile=q, alpha=0.0) for q in (0.05, 0.95))
    frame = pd.DataFrame(FEW.X, columns=[f"x{i}" for i in range(FEW.X.shape[1])], index=np.arange(300)[::-1])
    estimator = make_pipeline(StandardScaler(), FromQuantiles(low, high))
    model = recommend(estimator, frame, pd.Series(FEW.y, index=frame.index))
    plain = recommend(estimator, FEW.X, FEW.y)
    assert str(model.recommendation_) == str(plain.recommendation_)
    assert {type(each.nonconformity).__name__ for each in plain.recommendation_.candidates} == {
        "Residual",
        "IntervalDistance",
        "RelativeIntervalDistance",
        "Normalized",
    }


def test_the_same_seed_gives_the_same_choice():
    first, again, other = (recommend(CHEAP, FEW.X, FEW.y, seed=seed).recommendation_ for seed in (3, 3, 4))
    assert str(first) == str(again)
    assert [each.width for each in first.candidates] == [each.width for each in again.candidates]
    assert [each.width for each in first.candidates] != [each.width for each in other.candidates]


def test_the_same_seed_gives_the_same_added_spread():
    first, again = (recommend(LinearRegression(), FEW.X, FEW.y, seed=3) for _ in range(2))
    assert str(first.recommendation_) == str(again.recommendation_)
    np.testing.assert_array_equal(*(predictions_of(model.estimator, FEW.X).spread for model in (first, again)))


def test_more_groups_only_with_enough_rows():
    def numbers_of_groups(n):
        sample = toy().sample(n, seed=0)
        candidates = recommend(RecordingOracle(), sample.X, sample.y).recommendation_.candidates
        return {getattr(each.taxonomy, "n_groups", 1) for each in candidates}

    assert numbers_of_groups(500) == {1, 3}
    assert numbers_of_groups(2500) == {1, 3, 5}
    assert numbers_of_groups(4500) == {1, 3, 5, 10}


@pytest.mark.parametrize(("tails", "rows"), [("joint", 300), ("separate", 600)])
def test_each_end_with_its_own_threshold_takes_twice_the_rows_for_groups(tails, rows):
    sample = toy().sample(500, seed=0)

    def has_groups(calibration_rows):
        model = recommend(RecordingOracle(), sample.X, sample.y, tails=tails, calibration_rows=calibration_rows)
        assert model.recommendation_.tails == tails
        return not model.recommendation_.chosen.has_one_threshold

    assert rows_for_groups(0.9, tails) == rows
    assert [has_groups(rows - 1), has_groups(rows)] == [False, True]


def test_the_rule():
    """The even candidate with the lowest score, or a simpler one within 1 %; otherwise undecided ones likewise.

    Groups are preferred; with few calibration rows, one threshold that is not uneven is. It may cost 10 % of the
    score.
    """

    def candidate(verdict, score, n_groups=None):
        return Candidate(Normalized(), Marginal() if n_groups is None else BySpread(n_groups), verdict, score, 1.0)

    low, few, one = candidate("even", 1.0, 10), candidate("even", 1.009, 3), candidate("even", 0.5)
    uneven, open_one = candidate("uneven", 0.5), candidate("undecided", 0.7)
    infinite = candidate("undecided", np.inf, 3)
    close, even = candidate("undecided", 0.54), candidate("even", 0.545)
    for candidates, prefer_groups, expected in [
        ([uneven, open_one, low, few, one], True, few),
        ([uneven, open_one, low, few, one], False, one),
        ([uneven, low, open_one], True, low),
        ([uneven, low, open_one], False, low),
        ([uneven, low, close], False, close),
        ([uneven, open_one], False, uneven),
        ([uneven, close], True, close),
        ([uneven, close, even], False, even),
        ([open_one, candidate("even", 0.78)], False, open_one),
        ([infinite], False, infinite),
        ([uneven, infinite], False, uneven),
        ([uneven], True, uneven),
    ]:
        assert _best_even(candidates, prefer_groups=prefer_groups) is expected, candidates


def test_categories_in_a_pipeline():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    X = pd.DataFrame({"x": FEW.X[:, 0], "kind": np.where(FEW.X[:, 1] > 0.5, "a", "b")})
    prepare = ColumnTransformer([("kind", OneHotEncoder(), ["kind"])], remainder="passthrough")
    model = recommend(make_pipeline(prepare, LinearRegression()), X, FEW.y)
    assert isinstance(model.estimator.estimator[-1], WithSpread)
    assert len(model.calibrate(X, FEW.y).predict_interval(X)) == len(X)


@pytest.mark.parametrize("n", [10, 20])
def test_few_rows_get_finite_intervals(n):
    sample = toy().sample(n, seed=n)
    chosen = recommend(RecordingOracle(), sample.X, sample.y).recommendation_.chosen
    assert np.isfinite(chosen.width)
    assert isinstance(chosen.taxonomy, Marginal)


def test_the_choice_costs_no_coverage():
    """After calibration on other rows, the number of covered rows has its exact distribution."""
    rng = np.random.default_rng(0)
    synthetic, counts = toy(), []
    for _ in range(60):
        sample = synthetic.sample(150, seed=rng)
        model = recommend(RecordingOracle(), sample.X, sample.y, seed=int(rng.integers(1000)))
        model.set_params(taxonomy=Marginal())  # so that every repeat has the same distribution
        old, new = synthetic.sample(50, seed=rng), synthetic.sample(400, seed=rng)
        counts.append(model.calibrate(old.X, old.y).predict_interval(new.X).covers(new.y).sum())
    expected = betabinom(400, 46, 5)
    z = (np.mean(counts) - expected.mean()) / (expected.std() / np.sqrt(len(counts)))
    assert abs(z) < 4.9


class TestText:
    """`print` says what was chosen and why, then shows the table."""

    one, groups = Marginal(), BySpread(3)

    def summary(self, *candidates, chosen):
        ordered = tuple(sorted(candidates, key=lambda each: each.interval_score))
        return Recommendation(ordered, chosen, 0.9).summary.split("\n")

    def test_even_groups_against_the_other_candidates(self):
        chosen = Candidate(Normalized(), self.groups, "even", 2.0, 1.0)
        lines = self.summary(
            chosen,
            Candidate(Residual(), self.one, "uneven", 1.9, 1.0),
            Candidate(Normalized(), self.one, "undecided", 2.2, 1.0),
            Candidate(IntervalDistance(), self.one, "even", 1.98, 1.0),
            Candidate(Residual(), self.groups, "even", 3.0, 1.0),
            chosen=chosen,
        )
        assert lines == [
            "Chosen: Normalized() with BySpread(n_groups=3). Thresholds per group are even by their guarantee, and no "
            "even candidate with groups has a lower interval score.",
            "Uneven: Residual() with one threshold (score 5.0 % lower).",
            "Undecided, because the rows are too few: Normalized() with one threshold (score 10.0 % higher).",
            "Even on the training rows, but not guaranteed: IntervalDistance() with one threshold (score 1.0 % lower).",
            "Also even, but with a higher interval score: 1 of the 5 candidates.",
        ]

    def test_one_threshold_instead_of_a_less_simple_one(self):
        chosen = Candidate(Normalized(), self.one, "even", 2.0, 1.0)
        on_log_scale = Candidate(Normalized(), self.one, "even", 1.99, 1.0, transform="log")
        (line,) = self.summary(chosen, on_log_scale, chosen=chosen)
        assert line.endswith("of the spread. Less simple ones have an interval score that is at most 1 % lower.")

    def test_no_even_candidate(self):
        chosen = Candidate(Normalized(), self.one, "undecided", 2.0, 1.0)
        first, second = self.summary(chosen, Candidate(Residual(), self.one, "uneven", 3.0, 1.0), chosen=chosen)
        assert (
            "No candidate is even: the rows are too few to show it. Of the undecided ones, this is the best." in first
        )
        assert second == "Uneven: Residual() with one threshold (score 50.0 % higher)."
        (only,) = self.summary(chosen, chosen=chosen)
        assert only.endswith("It was the only candidate; its verdict: undecided.")

    def test_infinite_scores(self):
        chosen = Candidate(Normalized(), self.one, "even", 2.0, 1.0)
        other = Candidate(Residual(), self.groups, "undecided", np.inf, np.inf)
        _, undecided = self.summary(chosen, other, chosen=chosen)
        assert undecided.endswith("Residual() with BySpread(n_groups=3) (interval score infinite).")

    def test_a_notebook_shows_the_choice_with_the_model(self, recommended):
        model = recommended
        shown = model._repr_mimebundle_()
        assert str(model.recommendation_) in shown["text/plain"]
        assert shown["text/html"].startswith("<div><b><p>Chosen: ")
        assert "FrozenEstimator" in shown["text/html"]
        assert str(model.recommendation_).startswith(f"{model.recommendation_.summary}\n\n  nonconformity")
        assert "Chosen" not in clone(model)._repr_mimebundle_()["text/html"]


class ShiftedOracle(RecordingOracle):
    """The oracle of the toy data, whose center is one spread too high."""

    def predict_full(self, X):
        center, spread = toy()._moments(np.asarray(X))
        return Prediction(center + spread, spread)


def test_separate_tails_are_tried_and_chosen_if_they_are_narrower():
    """A center that is off by a constant is corrected by a threshold for each end, and not by one for both."""
    sample, other = toy().sample(4000, seed=0), toy().sample(2000, seed=1)
    model = recommend(ShiftedOracle(), sample.X, sample.y)
    chosen = model.recommendation_.chosen
    assert chosen.tails == "separate"
    assert model.calibrator.taxonomy is chosen.taxonomy
    assert ", for each end" in chosen.name
    width = model.calibrate(other.X, other.y).predict_interval(other.X).width.mean()
    assert width == pytest.approx(chosen.width, rel=0.03)
    joint = recommend(ShiftedOracle(), sample.X, sample.y, tails="joint")
    assert {each.tails for each in joint.recommendation_.candidates} == {"joint"}
    assert joint.recommendation_.chosen.width > 1.1 * chosen.width
    separate = recommend(ShiftedOracle(), sample.X, sample.y, tails="separate", taxonomy=BySpread(3))
    assert {each.tails for each in separate.recommendation_.candidates} == {"separate"}
    with pytest.raises(ValueError, match="tails must be 'joint', 'separate' or None; got 'both'"):
        recommend(ShiftedOracle(), sample.X, sample.y, tails="both")


def test_joint_tails_are_chosen_if_separate_ones_are_not_narrower():
    sample = toy().sample(4000, seed=0)
    recommendation = recommend(RecordingOracle(), sample.X, sample.y, taxonomy=BySpread(3)).recommendation_
    assert recommendation.chosen.tails == "joint"
    tried = {type(each.nonconformity).__name__ for each in recommendation.candidates if each.tails == "separate"}
    assert tried == {"IntervalDistance", "Normalized"}


def test_rows_of_a_cluster_are_in_the_same_fold():
    """They have the same feature here, which the oracle must not have seen."""
    oracle = RecordingOracle()
    clusters = np.repeat(np.arange(300), 5)
    X = DATA.X[:300][clusters]
    assert len(recommend(oracle, X, DATA.y, clusters=clusters).recommendation_.candidates)
    with pytest.raises(AssertionError):
        recommend(oracle, X, DATA.y)
    with pytest.raises(ValueError, match="clusters must have 1500 rows, as many as X; got 300"):
        recommend(oracle, X, DATA.y, clusters=np.arange(300))


def test_there_can_be_fewer_clusters_than_folds():
    clusters = np.arange(1500) % 3
    seen = []
    recommend(CHEAP, DATA.X, DATA.y, clusters=clusters, progress=lambda *each: seen.append(each))
    assert seen == [(done, 4) for done in (0, 1, 2, 3, 4)]  # three folds, and all rows


def test_the_log_can_be_switched_off():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    y = np.exp(2 * X[:, 0] + rng.normal(scale=0.5, size=300))
    transforms = [
        {each.transform for each in recommend(CHEAP, X, y, **settings).recommendation_.candidates}
        for settings in ({}, {"target_transform": "none"})
    ]
    assert transforms == [{None, "log"}, {None}]
    with pytest.raises(ValueError, match="target_transform must be 'auto' or 'none'; got 'log'"):
        recommend(LinearRegression(), X, y, target_transform="log")


def test_an_invalid_support_is_an_error_before_anything_is_fitted():
    fits = []
    with pytest.raises(TypeError, match=r"support must be a support such as Support\(y_min=0\), or None; got 0$"):
        recommend(LinearRegression(), np.zeros((50, 1)), np.arange(50.0), support=0, progress=lambda *_: fits.append(1))
    assert not fits
