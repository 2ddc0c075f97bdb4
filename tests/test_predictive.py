"""Predictive distributions: each result equals that of the calibration scores' values, computed one by one."""

import pickle
import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare
from sklearn.frozen import FrozenEstimator

import evencover
from evencover import (
    ByFeature,
    BySpread,
    ByTarget,
    ConformalRegressor,
    Intervals,
    Normalized,
    OneSided,
    Prediction,
    PredictiveDistribution,
    ProbabilityDistance,
    Residual,
    Rows,
    Standardized,
    TooFewRowsWarning,
    calibrate,
    crps,
)
from evencover.calibration import predictive
from evencover.calibration.group_thresholds import LearnedGroups
from evencover.calibration.predictive import predict_distribution
from tests.calibrators import SlidingWindow
from tests.synthetic import ALL_SCORES, ONE_IN_A_MILLION, Oracle, draw

N, M = 23, 40
SKEWED = np.array([0.05, 0.3, 0.5, 0.9])


def skewed_rows(rng, n):
    """Return rows with predicted quantiles, of which some are equal, and targets that are sometimes one of them."""
    quantiles = rng.normal(size=n)[:, None] + np.cumsum(rng.exponential(size=(n, 4)) * (rng.random((n, 4)) < 0.7), 1)
    quantiles[:, 3] += 0.1  # the spread is positive
    y = np.where(rng.random(n) < 0.4, quantiles[:, 1], quantiles[:, 2] + rng.normal(size=n) * 2)
    return Rows(Prediction(quantiles=quantiles, probabilities=SKEWED), y=y)


def normal_rows(rng, n):
    data = draw(rng, n)
    return Rows(data.prediction, data.X, data.y)


def tied_rows(rng, n):
    """Return rows with whole targets and few different predictions, so scores are tied."""
    spread = rng.choice([0.5, 1.0, 2.0], n)
    return Rows(Prediction(rng.integers(0, 3, n) / 10, spread), y=np.round(spread * rng.normal(size=n)))


CASES = [(rows, score) for rows in (normal_rows, tied_rows) for score in ALL_SCORES]
CASES += [(skewed_rows, score) for score in ALL_SCORES]
every_case = pytest.mark.parametrize(("make_rows", "score"), CASES, ids=lambda case: getattr(case, "__name__", None))


def distribution_of(old, new, score, **options):
    calibration = calibrate(old.y, old.prediction, nonconformity=score)
    return PredictiveDistribution.from_calibration(calibration, new.prediction, calibration_rows=old, **options)


def innermost(score):
    """Return the score of which only one side is used, or the score itself."""
    return score.score if isinstance(score, OneSided) else score


def upper(score, y, prediction):
    """Return the score of the upper tail, which `Standardized` is itself."""
    score = innermost(score)
    return score.tails(y, prediction)[1] if hasattr(score, "tails") else score(y, prediction)


def value_table(score, old, new):
    """Return the value of each new row at each calibration score, in increasing order. Shape (M, N)."""
    scores = np.sort(upper(score, old.y, old.prediction))
    return np.stack([innermost(score).interval(each, new.prediction).upper for each in scores], axis=1)


def integrated_crps(y, values):
    """Return ∫ (F(u) − 1{u >= y})² du by a sum over the points where the integrand changes."""
    points = np.sort(np.append(values, y))
    middle = (points[1:] + points[:-1]) / 2
    shares = (values <= middle[:, None]).mean(axis=1)
    return np.sum(np.diff(points) * (shares - (middle >= y)) ** 2)


@every_case
def test_mean_and_crps_are_integrals_over_equally_likely_values(make_rows, score):
    rng = np.random.default_rng(0)
    old, new = make_rows(rng, N), make_rows(rng, M)
    distribution, values = distribution_of(old, new, score), value_table(score, old, new)
    np.testing.assert_allclose(distribution.mean, values.mean(axis=1), rtol=1e-10, atol=1e-10)
    expected = [integrated_crps(y, row) for y, row in zip(new.y, values, strict=True)]
    np.testing.assert_allclose(distribution.crps(new.y), expected, rtol=1e-9, atol=1e-10)
    far = np.where(np.arange(M) % 2, 1e3, -1e3)
    expected = [integrated_crps(y, row) for y, row in zip(far, values, strict=True)]
    np.testing.assert_allclose(distribution.crps(far), expected, rtol=1e-9)


@every_case
def test_cdf_counts_values_and_half_of_the_row_itself(make_rows, score):
    rng = np.random.default_rng(1)
    old, new = make_rows(rng, N), make_rows(rng, M)
    distribution, values = distribution_of(old, new, score), value_table(score, old, new)
    y = np.round(new.y, 2) + 0.00123  # not a value
    expected = ((values <= y[:, None]).sum(axis=1) + 0.5) / (N + 1)
    np.testing.assert_array_equal(distribution.cdf(y), expected)
    assert 0 < distribution.cdf(-1e6).max() < distribution.cdf(1e6).min() < 1


def test_cdf_counts_all_values_where_the_predicted_distribution_jumps():
    """The model predicts that the target is 1 with probability 0.4, which three of five scores stand for."""
    old = Rows(Prediction(np.zeros(5), np.ones(5)), y=[-1.0, -0.3, 0.0, 0.3, 1.0])
    new = Rows(Prediction(quantiles=[[0.0, 1.0, 1.0, 3.0]], probabilities=[0.1, 0.3, 0.7, 0.9]))
    distribution = distribution_of(old, new, ProbabilityDistance())
    for y, n_values in ((0.999, 1), (1.0, 4), (1.001, 4)):
        np.testing.assert_allclose(distribution.cdf(y), (n_values + 0.5) / 6)
    np.testing.assert_allclose(distribution.pit([1.0]), 1.5 / 6)  # all targets of 1 have the same score, that of F(1−)


@every_case
@pytest.mark.parametrize("seed", [None, 3])
def test_ppf_is_the_inverse_of_cdf(make_rows, score, seed):
    """The cdf reaches p at the quantile, and not before it."""
    rng = np.random.default_rng(2)
    old, new = make_rows(rng, N), make_rows(rng, M)
    distribution = distribution_of(old, new, score, seed=seed)
    probabilities = [0.001, 0.1, 0.25, 0.5, 0.77, 0.95, 0.999]
    quantiles = distribution.ppf(probabilities)
    for p, column in zip(probabilities, quantiles.T, strict=True):
        finite = np.isfinite(column)
        part, at = distribution[finite], column[finite]
        assert (part.cdf(at) >= p).all()
        assert (part.cdf(at - 1e-9 * (1 + np.abs(at))) < p).all()
        tau = np.broadcast_to(distribution.tau, M)
        np.testing.assert_array_equal(np.isneginf(column), p <= tau / (N + 1))
        np.testing.assert_array_equal(np.isposinf(column), p > (N + tau) / (N + 1))
    np.testing.assert_array_equal(distribution.median, quantiles[:, 3])
    np.testing.assert_array_equal(distribution.ppf(0.25), quantiles[:, 2])


def test_ppf_is_exact_where_a_probability_is_a_rank():
    """(i + 1/2) / (n + 1) is the cdf at the i-th value; 0.1, 0.3, ... are such numbers for n = 4."""
    old = Rows(Prediction(np.zeros(4)), y=[1.0, 2.0, 3.0, 4.0])
    distribution = distribution_of(old, Rows(Prediction(np.zeros(1))), Residual())
    np.testing.assert_allclose(distribution.ppf([0.3, 0.5, 0.7, 0.9])[0], [1, 2, 3, 4], rtol=1e-14)
    assert np.isneginf(distribution.ppf(0.1)).all()
    np.testing.assert_allclose(distribution.ppf(np.nextafter(0.3, 1)), 1, rtol=1e-14)  # a float is its decimal digits


@pytest.mark.parametrize("n", [1, 2, 9, 18, 19, 20, 39, 199])
def test_central_intervals_have_exact_ranks(n):
    old = Rows(Prediction(np.zeros(n)), y=np.arange(1.0, n + 1))
    distribution = distribution_of(old, Rows(Prediction(np.zeros(1))), Residual())
    for level in (0.05, 0.5, 0.8, 0.9, 0.95, 0.99):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TooFewRowsWarning)
            interval = distribution.interval(level)
        k = int((n + 1) * (1 - Fraction(str(level))) / 2)
        expected = (k, n + 1 - k) if k else (-np.inf, np.inf)
        np.testing.assert_allclose([interval.lower[0], interval.upper[0]], expected, rtol=1e-13)


@every_case
def test_a_target_tied_with_an_end_is_covered(make_rows, score):
    rng = np.random.default_rng(3)
    old, new = make_rows(rng, 200), make_rows(rng, 200)
    distribution = distribution_of(old, new, score)
    scores, tested = np.sort(upper(score, old.y, old.prediction)), upper(score, new.y, new.prediction)
    for level, k in ((0.9, 10), (0.5, 50)):
        inside = (scores[k - 1] <= tested) & (tested <= scores[-k])
        assert distribution.interval(level).covers(new.y)[inside].all()


@every_case
def test_pit_is_the_randomised_rank(make_rows, score):
    rng = np.random.default_rng(4)
    old, new = make_rows(rng, N), make_rows(rng, M)
    distribution = distribution_of(old, new, score, seed=5)
    tau = np.random.default_rng(5).random(M)
    scores, tested = upper(score, old.y, old.prediction), upper(score, new.y, new.prediction)[:, None]
    expected = ((scores < tested).sum(axis=1) + tau * ((scores == tested).sum(axis=1) + 1)) / (N + 1)
    np.testing.assert_allclose(distribution.pit(new.y), expected, rtol=1e-14)


def test_crps_is_that_of_the_metric_for_equally_likely_values():
    rng = np.random.default_rng(6)
    old, new = normal_rows(rng, N), normal_rows(rng, M)
    values, probabilities = value_table(Normalized(), old, new), (np.arange(N) + 0.5) / N
    mean = distribution_of(old, new, Normalized()).crps(new.y).mean()
    assert mean == pytest.approx(crps(new.y, values, probabilities=probabilities), rel=1e-12)


@pytest.mark.parametrize("score", [Normalized(), Standardized(), ProbabilityDistance()], ids=repr)
def test_results_do_not_change_when_the_spread_is_rescaled(score):
    """Multiplication by 8 is exact, so the results are equal to the last digit; by 7 it is rounded."""
    rng = np.random.default_rng(7)
    old, new = normal_rows(rng, N), normal_rows(rng, M)

    def results(factor):
        rescaled = [Rows(Prediction(r.prediction.center, factor * r.prediction.spread), y=r.y) for r in (old, new)]
        distribution = distribution_of(*rescaled, score)
        return [distribution.crps(new.y), distribution.mean, distribution.cdf(new.y), distribution.ppf(0.3)]

    for one, eight, seven in zip(results(1.0), results(8.0), results(7.0), strict=True):
        np.testing.assert_array_equal(one, eight)
        np.testing.assert_allclose(one, seven, rtol=1e-11)


class OwnScore(Residual):
    """A score that is not the package's own: rows are compared with all scores, in blocks."""


@pytest.mark.parametrize("block", [1, 100, 1 << 18])
def test_an_own_score_gives_the_same_results_in_blocks(block, monkeypatch):
    monkeypatch.setattr(predictive, "_MAX_BLOCK", block)
    rng = np.random.default_rng(8)
    old, new = normal_rows(rng, N), normal_rows(rng, M)
    own, plain = (distribution_of(old, new, score) for score in (OwnScore(), Residual()))
    np.testing.assert_allclose(own.crps(new.y), plain.crps(new.y), rtol=1e-12)
    np.testing.assert_allclose(own.mean, plain.mean, rtol=1e-12)


@pytest.mark.parametrize("score", [Residual(), OwnScore()], ids=["sums", "blocks"])
def test_memory_does_not_grow_with_rows_times_scores(score):
    """A table of 3000 rows by 3000 scores would have 72 MB."""
    rng = np.random.default_rng(9)
    old, new = normal_rows(rng, 3000), normal_rows(rng, 3000)
    distribution = distribution_of(old, new, score)
    tracemalloc.start()
    distribution.crps(new.y), distribution.mean, distribution.pit(new.y), distribution.interval(0.9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (1e6 if type(score) is Residual else 40e6)


class WithInfinity(Residual):
    """A score that is infinite for targets above 2 and below −2."""

    def tails(self, y, prediction):
        below, above = super().tails(y, prediction)
        return below, np.where(y > 2, np.inf, np.where(y < -2, -np.inf, above))


def test_infinite_scores_count_as_ranks_and_not_as_values():
    old = Rows(Prediction(np.zeros(6)), y=[-3.0, -1.0, 0.0, 1.0, 3.0, 4.0])
    distribution = distribution_of(old, Rows(Prediction(np.zeros(1))), WithInfinity())
    np.testing.assert_allclose(distribution.mean, [0], atol=1e-12)
    np.testing.assert_allclose(distribution.crps([0.0]), integrated_crps(0.0, np.array([-1.0, 0.0, 1.0])), rtol=1e-12)
    np.testing.assert_allclose(distribution.cdf([0.5]), 3.5 / 7)
    np.testing.assert_array_equal(np.isinf(distribution.ppf([0.2, 0.3, 0.7, 0.8])[0]), [True, False, True, True])
    assert set(distribution.rvs(0, size=100)[0].round(9)) == {-1.0, 0.0, 1.0}


def test_draws_are_uniform_over_the_values():
    """The number of draws of each value is multinomial."""
    old = Rows(Prediction(np.zeros(10)), y=np.arange(10.0))
    distribution = distribution_of(old, Rows(Prediction(np.array([0.0, 100.0]))), Residual())
    draws = distribution.rvs(11, size=5000)
    assert draws.shape == (2, 5000)
    for row, center in zip(draws, (0, 100), strict=True):
        counts = np.bincount(np.round(row - center).astype(int), minlength=10)
        assert chisquare(counts).pvalue > ONE_IN_A_MILLION
    np.testing.assert_array_equal(distribution.rvs(11), distribution.rvs(11, size=1)[:, 0])
    assert (distribution.rvs(np.random.default_rng(0), size=3) != distribution.rvs(1, size=3)).any()


def model_for(score, taxonomy=None, n=400, seed=0):
    rng = np.random.default_rng(seed)
    data, new = draw(rng, n), draw(rng, 60)
    model = ConformalRegressor(FrozenEstimator(Oracle().fit(data.X, data.y)), nonconformity=score, taxonomy=taxonomy)
    return model.fit(data.X, data.y), new


def test_draws_of_different_rows_are_independent():
    """Each pair of values of two rows is drawn equally often."""
    old = Rows(Prediction(np.zeros(5)), y=np.arange(5.0))
    draws = distribution_of(old, Rows(Prediction(np.zeros(2))), Residual()).rvs(0, size=5000)
    first, second = np.round(draws).astype(int)
    assert chisquare(np.bincount(5 * first + second, minlength=25)).pvalue > ONE_IN_A_MILLION


def test_each_group_has_its_own_distribution():
    """Also with a score for each group."""
    score = {0: Residual(), 1: Normalized()}
    model, new = model_for(score, ByFeature(0))
    distribution, old = model.predict_distribution(new.X), model.calibration_rows_
    for label in (0, 1):
        members, rows = new.X[:, 0] == label, old[old.X[:, 0] == label]
        alone = distribution_of(rows, Rows(new.prediction[members]), score[label])
        for name in ("median", "mean"):
            np.testing.assert_array_equal(getattr(distribution, name)[members], getattr(alone, name))
        for name in ("crps", "pit", "cdf"):
            expected = getattr(alone, name)(new.y[members])
            np.testing.assert_array_equal(getattr(distribution, name)(new.y)[members], expected)
        np.testing.assert_array_equal(distribution.interval(0.8).upper[members], alone.interval(0.8).upper)


def test_edge_rows_are_compared_with_their_own_scores():
    """As p-values are: those of `Standardized` are 1 minus the randomised rank."""
    model, new = model_for(Standardized(), BySpread(3))
    pit = model.predict_distribution(new.X, seed=1).pit(new.y)
    tau = np.random.default_rng(1).random(len(new.y))
    p_values = model.calibration_.p_values(
        new.y, new.prediction, groups=model.calibrator_.groups(model.rows(new.X)), seed=1
    )
    np.testing.assert_allclose(pit + p_values - (2 * tau - 1) / (model_sizes(model, new) + 1), 1, rtol=1e-12)


def model_sizes(model, new):
    """Return the number of scores that each new row is compared with."""
    distribution = model.predict_distribution(new.X)
    return np.array([pool.n for pool in distribution.pools])[distribution.pool_codes]


def test_unseen_groups():
    model, new = model_for(Normalized(), ByFeature(0))
    X = new.X.copy()
    X[0, 0] = 7
    with pytest.raises(ValueError, match="groups must be among those of the calibration"):
        model.predict_distribution(X)
    marginal = model.predict_distribution(X, unseen="marginal")
    everything = distribution_of(model.calibration_rows_, Rows(new.prediction[:1]), Normalized())
    np.testing.assert_array_equal(marginal.mean[:1], everything.mean)
    unknown = model.predict_distribution(X, unseen="inf")
    assert np.isnan(unknown.mean[0])
    assert np.isnan(unknown.rvs(0)[0])
    assert unknown.crps(new.y)[0] == np.inf
    assert unknown.cdf(0.0)[0] == unknown.pit(new.y)[0] == 0.5
    assert np.isinf(unknown.interval(0.5).width[0])
    assert np.isfinite(unknown.crps(new.y)[1:]).all()
    assert unknown.interval(0.5).guarantee.without == (7.0,)


def test_a_loaded_model_needs_a_one_sided_score(tmp_path):
    model, new = model_for(Standardized())
    model.estimator_ = model.estimator = FrozenEstimator(Oracle())
    with pytest.warns(UserWarning, match="to load this file"):
        model.save(tmp_path / "model", level=0.9)
    loaded = ConformalRegressor.load(tmp_path / "model", trusted=["tests.synthetic.Oracle"])
    assert not hasattr(loaded, "calibration_rows_")
    np.testing.assert_array_equal(
        loaded.predict_distribution(new.X).crps(new.y), model.predict_distribution(new.X).crps(new.y)
    )
    model, new = model_for(Normalized())
    del model.calibration_rows_
    with pytest.raises(ValueError, match=r"with Normalized needs the calibration rows.*Call calibrate\(X, y\) again"):
        model.predict_distribution(new.X)


def test_intervals_have_the_index_groups_and_guarantee():
    model, new = model_for(Normalized(), ByFeature(0))
    X = pd.DataFrame(new.X, index=np.arange(60) + 100)
    intervals = model.predict_distribution(X).interval([0.5, 0.9])
    assert isinstance(intervals, Intervals)
    assert intervals.level == (0.5, 0.9)
    frame = intervals[3:5].to_frame()
    assert list(frame.index) == [103, 104]
    assert list(frame) == ["prediction", "lower_0.5", "upper_0.5", "lower_0.9", "upper_0.9", "group"]
    assert intervals.guarantee.kind == "per group"
    assert not intervals.guarantee.exact


def test_too_few_rows_are_a_warning():
    model, new = model_for(Residual(), n=18)
    with pytest.warns(
        TooFewRowsWarning,
        match=r"each end of an interval of level 0\.9 needs 19 rows in each group; group 'all' has 18",
    ):
        assert np.isinf(model.predict_distribution(new.X).interval(0.9).upper).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(model.predict_distribution(new.X).interval(0.8).width).all()


def test_the_warning_gives_the_sizes_of_the_groups():
    """Edge rows are compared with one row more, which does not change the size of their group."""
    model, _ = model_for(Normalized(), BySpread(3))
    distribution = model.predict_distribution(model.calibration_rows_)
    assert len(distribution.pools) > 3
    with pytest.warns(TooFewRowsWarning) as caught:
        distribution.interval(0.999)
    sizes = distribution.guarantee.sizes
    assert ", ".join(f"group {label!r} has {n}" for label, n in sizes.items()) in str(caught[0].message)
    assert ", ".join(f"{label} {n}" for label, n in sizes.items()) in repr(distribution)


def test_rows_are_selected_and_pickled():
    model, new = model_for(Normalized(), BySpread(3))
    distribution = model.predict_distribution(new.X, seed=2)
    expected = distribution.pit(new.y)
    for rows in (slice(5, 9), [3, 1], new.X[:, 0] == 1):
        np.testing.assert_array_equal(distribution[rows].pit(new.y[rows]), expected[rows])
    assert len(distribution[4]) == 1
    assert len(distribution[:0].mean) == len(distribution[:0].crps([])) == 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(distribution)).pit(new.y), expected)  # noqa: S301


def test_repr():
    model, new = model_for(Residual())
    text = "PredictiveDistribution(60 rows; Residual(); calibration rows: all 400{})"
    assert repr(model.predict_distribution(new.X)) == text.format("")
    assert repr(model.predict_distribution(new.X, seed=0)) == text.format("; smoothed")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.cdf([1.0, 2.0]), "y must have 60 rows, as many as the distribution; got 2"),
        (lambda d: d.cdf(np.nan), "y must be finite"),
        (lambda d: d.crps(np.full(60, np.inf)), "y must be finite"),
        (lambda d: d.pit(np.full((60, 2), 0.0)), "y must be one-dimensional"),
        (lambda d: d.ppf(0.0), "p must be one or more probabilities, strictly between 0 and 1; got 0.0"),
        (lambda d: d.ppf([0.5, 1.2]), "p must be one or more probabilities"),
        (lambda d: d.ppf([]), "p must be one or more probabilities"),
        (lambda d: d.ppf(np.nan), "p must be finite"),
        (lambda d: d.interval(90), "did you mean 0.9"),
        (lambda d: d.rvs(-1), "seed must be a whole number"),
        (lambda d: d.rvs(0, size=0), "size must be a positive whole number; got 0"),
    ],
)
def test_bad_input(call, message):
    model, new = model_for(Residual())
    with pytest.raises(ValueError, match=message):
        call(model.predict_distribution(new.X))


class OnlyIntervals:
    """A two-sided score without tails."""

    def __call__(self, y, prediction):
        return Residual()(y, prediction)

    def interval(self, threshold, prediction):
        return Residual().interval(threshold, prediction)


def test_models_without_a_distribution():
    rng = np.random.default_rng(0)
    data = draw(rng, 100)
    frozen = FrozenEstimator(Oracle().fit(data.X, data.y))

    def predict(weights=None, **options):
        model = ConformalRegressor(frozen, **options).calibrate(data.X, data.y, weights=weights)
        model.predict_distribution(data.X)

    with pytest.raises(ValueError, match="takes no weights for covariate shift"):
        predict(weights=np.ones(100))
    with pytest.raises(ValueError, match=r"do not depend on the target, such as BySpread\(3\); got ByTarget"):
        predict(taxonomy=ByTarget([0.0]))
    with pytest.raises(ValueError, match=r"with the method tails\(y, prediction\); got OnlyIntervals"):
        predict(nonconformity=OnlyIntervals())
    with pytest.raises(ValueError, match="needs calibration scores by group, such as those of the calibrator ByGroup"):
        predict(calibrator=SlidingWindow(50))
    with pytest.raises(ValueError, match="seed must be a whole number"):
        ConformalRegressor(frozen).calibrate(data.X, data.y).predict_distribution(data.X, seed="a")


def test_a_calibrator_that_names_no_scores_has_no_distribution():
    """Its intervals may be others than those of the scores by group, which it also has."""
    learned = LearnedGroups(evencover.Marginal(), calibrate(np.arange(20.0), np.zeros(20)))
    with pytest.raises(ValueError, match="LearnedGroups has none"):
        predict_distribution(learned, Rows(Prediction([0.0])), None, None, "error")
