"""Predictive distributions of targets with limits, whole numbers or another scale, and of one-sided scores."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom, kstest
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer

from evencover import (
    Bounded,
    BySpread,
    ConformalRegressor,
    IntervalDistance,
    Intervals,
    Normalized,
    OneSided,
    Prediction,
    PredictiveDistribution,
    ProbabilityDistance,
    RelativeIntervalDistance,
    Residual,
    Rows,
    Standardized,
    TwoTails,
    calibrate,
)
from evencover.synthetic import counts
from tests.guarantees.test_predictive_distributions import repeated, tied_data
from tests.synthetic import ONE_IN_A_MILLION, Oracle, draw, on_target_scale
from tests.test_predictive import distribution_of, integrated_crps, normal_rows, skewed_rows

SCORES = [Residual(), Normalized(), Standardized(), ProbabilityDistance()]
LIMITS = [{"y_min": 0}, {"y_max": 0.5}, {"y_min": -0.5, "y_max": 0.75}]


def pair(make_rows, seed, n=23, m=60):
    rng = np.random.default_rng(seed)
    return make_rows(rng, n), make_rows(rng, m)


def value_table(distribution, n):
    """Return the value of each row at each of n ranks, as the quantiles between two steps of the cdf. Shape (m, n)."""
    return distribution.ppf((np.arange(n) + 1.0) / (n + 1))


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("make_rows", [normal_rows, skewed_rows])
def test_limits_clip_the_values(make_rows, score, limits):
    """The values, the mean and the CRPS are those of the inner score's values, clipped."""
    old, new = pair(make_rows, 0)
    low, high = limits.get("y_min", -np.inf), limits.get("y_max", np.inf)
    old = Rows(old.prediction, y=np.clip(old.y, low, high))
    inner, bounded = (distribution_of(old, new, each) for each in (score, Bounded(score, **limits)))
    values = np.clip(value_table(inner, 23), low, high)
    np.testing.assert_array_equal(value_table(bounded, 23), values)
    np.testing.assert_allclose(bounded.mean, values.mean(axis=1), rtol=1e-9, atol=1e-10)
    for y in (new.y, np.clip(new.y, low, high)):
        expected = [integrated_crps(*each) for each in zip(y, values, strict=True)]
        np.testing.assert_allclose(bounded.crps(y), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(bounded.interval(0.8), np.clip(inner.interval(0.8), low, high))
    assert bounded.ppf(0.999).max() <= high
    assert (bounded.cdf(low - 1) == 0).all() if np.isfinite(low) else True
    assert (bounded.cdf(high) == 1).all() if np.isfinite(high) else True
    inside = np.clip(new.y, low, np.nextafter(high, low))
    np.testing.assert_array_equal(bounded.cdf(inside), inner.cdf(inside))


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_whole_targets_have_whole_values(score):
    rng = np.random.default_rng(1)
    old, new = (Rows(r.prediction, y=np.abs(np.round(3 * r.y))) for r in (normal_rows(rng, 39), normal_rows(rng, 60)))
    inner, whole = (distribution_of(old, new, each) for each in (score, Bounded(score, y_min=0, whole=True)))
    values = np.maximum(np.floor(value_table(inner, 39) + 0.5), 0)  # the nearest whole numbers
    np.testing.assert_array_equal(value_table(whole, 39), values)
    np.testing.assert_allclose(whole.mean, values.mean(axis=1), rtol=1e-12)
    expected = [integrated_crps(*each) for each in zip(new.y, values, strict=True)]
    np.testing.assert_allclose(whole.crps(new.y), expected, rtol=1e-9, atol=1e-12)
    for y in (0.0, 1.0, 1.5, 4.0):
        np.testing.assert_allclose(whole.cdf(y), ((values <= y).sum(axis=1) + 0.5) / 40, rtol=1e-12)
    intervals, around = whole.interval(0.8), inner.interval(0.8)
    np.testing.assert_array_equal(intervals.lower, np.maximum(np.ceil(around.lower), 0))
    np.testing.assert_array_equal(intervals.upper, np.maximum(np.floor(around.upper), 0))
    np.testing.assert_array_equal(intervals.covers(new.y), around.covers(new.y))
    draws = whole.rvs(0, size=5)
    assert (draws == np.round(draws)).all()


@pytest.mark.parametrize("center", [0.0, 0.3, 2.5])
def test_whole_values_of_a_constant_model_are_the_targets(center):
    """Each new row has the observed distribution, also if the center is no whole number."""
    old = Rows(Prediction(np.full(9, center)), y=[0.0, 0, 0, 1, 1, 2, 2, 5, 7])
    whole = distribution_of(old, Rows(Prediction([center])), Bounded(Residual(), y_min=0, whole=True))
    np.testing.assert_array_equal(value_table(whole, 9)[0], old.y)
    for k in range(8):
        np.testing.assert_allclose(whole.cdf(k), (np.sum(old.y <= k) + 0.5) / 10, rtol=1e-12)
    np.testing.assert_allclose(whole.mean, old.y.mean(), rtol=1e-12)


def test_halves_are_rounded_up():
    """All values lie 0.5 above a whole number, up to rounding errors: all results agree on the next one."""
    old = Rows(Prediction(np.full(4, 0.3)), y=[0.0, 1.0, 2.0, 3.0])
    whole = distribution_of(old, Rows(Prediction([0.8, 2.8])), Bounded(Residual(), whole=True))
    np.testing.assert_array_equal(value_table(whole, 4), [[1, 2, 3, 4], [3, 4, 5, 6]])
    np.testing.assert_allclose([whole.cdf(k)[0] for k in range(5)], (np.arange(5) + 0.5) / 5, rtol=1e-12)
    np.testing.assert_allclose([whole.cdf(k)[1] for k in range(2, 7)], (np.arange(5) + 0.5) / 5, rtol=1e-12)


def poisson_rows(n, seed):
    """Return counts with their true mean and standard deviation."""
    sample = counts().sample(n, seed=seed)
    rate = np.exp(3 * sample.X[:, 0] + sample.X[:, 1] - 1)
    return Rows(Prediction(rate, np.sqrt(rate)), sample.X, sample.y)


@pytest.mark.parametrize("score", [Residual(), Normalized()], ids=repr)
def test_probabilities_of_counts_agree_with_observed_shares(score):
    """The number of targets of at most k is about binomial, if the model is right.

    With values that are rounded down, the probability of zero would be 24 % instead of 16 %.
    """
    old, new, taxonomy = poisson_rows(20_000, seed=0), poisson_rows(3000, seed=1), BySpread(5)
    options = {"nonconformity": Bounded(score, y_min=0, whole=True), "groups": taxonomy.learn(old)}
    calibration = calibrate(old.y, old.prediction, **options)
    distribution = PredictiveDistribution.from_calibration(
        calibration, new.prediction, groups=taxonomy.assign(new), calibration_rows=old
    )
    for k in range(12):
        observed, expected = np.count_nonzero(new.y <= k), binom(3000, distribution.cdf(k).mean())
        assert min(expected.cdf(observed), expected.sf(observed - 1)) > ONE_IN_A_MILLION


@pytest.mark.parametrize("score", [Residual(), Normalized(), ProbabilityDistance()], ids=repr)
def test_a_side_of_a_score_has_the_same_distribution(score):
    old, new = pair(normal_rows, 2)
    expected = distribution_of(old, new, score)
    for side in ("upper", "lower"):
        found = distribution_of(old, new, OneSided(score, side))
        np.testing.assert_array_equal(found.crps(new.y), expected.crps(new.y))
        np.testing.assert_array_equal(found.ppf([0.1, 0.9]), expected.ppf([0.1, 0.9]))


@pytest.mark.parametrize("limits", [None, {"y_min": -100}])
def test_scores_of_the_lower_side_alone_are_not_enough(limits):
    """A file holds no rows. The error names the side that works, and this side works."""
    old, new = pair(normal_rows, 2)

    def from_scores(side):
        score = OneSided(Normalized(), side)
        calibration = calibrate(old.y, old.prediction, nonconformity=Bounded(score, **limits) if limits else score)
        return PredictiveDistribution.from_calibration(calibration, new.prediction)

    message = (
        r"with OneSided\(.*side='lower'\) needs the calibration rows, because the score of the lower side does not "
        r"give that of the upper side.*the score OneSided\(Normalized\(...\), side='upper'\)"
    )
    with pytest.raises(ValueError, match=message):
        from_scores("lower")
    expected = distribution_of(old, new, OneSided(Normalized(), "lower"))
    np.testing.assert_array_equal(from_scores("upper").median, expected.median)


def test_two_tails_have_the_distribution_of_the_upper_tail():
    """Also without the calibration rows, as after loading: the scores of each tail are stored."""
    data, new = (draw(np.random.default_rng(seed), 200) for seed in (3, 4))
    frozen = FrozenEstimator(Oracle().fit(data.X, data.y))
    tails = ConformalRegressor(frozen, nonconformity=Normalized(), calibrator=TwoTails()).calibrate(data.X, data.y)
    plain = ConformalRegressor(frozen, nonconformity=Normalized()).calibrate(data.X, data.y)
    expected = plain.predict_distribution(new.X).crps(new.y)
    np.testing.assert_array_equal(tails.predict_distribution(new.X).crps(new.y), expected)
    del tails.calibration_rows_
    np.testing.assert_array_equal(tails.predict_distribution(new.X).crps(new.y), expected)


def log_model(n=400):
    """Return a model of the logarithm of the target, the same model of the logarithm as target, and new rows."""
    rng = np.random.default_rng(5)
    data, new = draw(rng, n), draw(rng, 30)
    y, new_y = np.exp(data.y / 5), np.exp(new.y / 5)
    options = {"nonconformity": Residual(), "random_state": 0}
    inner = LinearRegression()
    back = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp)
    model = ConformalRegressor(back, **options).fit(data.X, y)
    on_scale = ConformalRegressor(inner, **options).fit(data.X, np.log(y))
    return model.predict_distribution(new.X), on_scale.predict_distribution(new.X), new_y


def test_distributions_of_a_transformed_target_are_mapped_back():
    mapped, on_scale, y = log_model()
    probabilities = [0.001, 0.1, 0.5, 0.9, 0.999]
    np.testing.assert_allclose(mapped.ppf(probabilities), np.exp(on_scale.ppf(probabilities)), rtol=1e-9)
    np.testing.assert_allclose(mapped.cdf(y), on_scale.cdf(np.log(y)), rtol=1e-12)
    np.testing.assert_allclose(mapped.pit(y), on_scale.pit(np.log(y)), rtol=1e-12)
    assert (mapped.cdf(-1.0) == 0).all()
    values = np.exp(value_table(on_scale, 200))
    np.testing.assert_allclose(mapped.mean, values.mean(axis=1), rtol=1e-9)
    expected = [integrated_crps(*each) for each in zip(y, values, strict=True)]
    np.testing.assert_allclose(mapped.crps(y), expected, rtol=1e-8)
    np.testing.assert_allclose(mapped.interval(0.9), np.exp(on_scale.interval(0.9)), rtol=1e-9)


@pytest.mark.parametrize("score", [*SCORES, IntervalDistance(), RelativeIntervalDistance()], ids=repr)
@pytest.mark.parametrize("limits", [None, {"y_min": 0, "y_max": 9, "whole": True}], ids=str)
def test_mean_and_crps_of_rows_with_different_scales(score, limits):
    """Rows of models of the log and of the square root: the results are those of the values, found one by one."""
    old, new = pair(skewed_rows, 8)
    maps = [FunctionTransformer(*each).fit(np.ones((1, 1))) for each in ((np.log1p, np.expm1), (np.sqrt, np.square))]
    inner = Prediction(quantiles=2 + new.prediction.quantiles[:40] / 4, probabilities=new.prediction.probabilities)
    parts = [on_target_scale(inner[rows], each) for rows, each in zip((slice(25), slice(25, 40)), maps, strict=True)]
    old = Rows(on_target_scale(old.prediction, maps[0]), y=np.round(np.exp(old.y)).clip(max=9))
    new = Rows(Prediction.concatenate(parts))
    distribution = distribution_of(old, new, Bounded(score, **limits) if limits else score)
    values, y = value_table(distribution, 23), np.linspace(0, 9, 40)
    np.testing.assert_allclose(distribution.mean, values.mean(axis=1), rtol=1e-9)
    expected = [integrated_crps(*each) for each in zip(y, values, strict=True)]
    np.testing.assert_allclose(distribution.crps(y), expected, rtol=1e-8)


@pytest.mark.parametrize("limits", [None, {"y_min": 0}, {"y_min": 0, "whole": True}])
def test_values_without_a_finite_target_make_mean_and_crps_infinite(limits):
    """The exponential is more than 1e100 in the last two rows; the other rows do not change. No warnings."""
    rng = np.random.default_rng(7)
    X = rng.uniform(size=(400, 1))
    y = np.ceil(np.exp(3 * X[:, 0] + rng.normal(size=400)))
    score = Bounded(Residual(), **limits) if limits else Residual()
    model = ConformalRegressor(LinearRegression(), nonconformity=score, target_transform="log", random_state=0)
    new = np.array([[0.5], [0.9], [1e3], [1e4]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distribution = model.fit(X, y).predict_distribution(new)
        mean, crps = distribution.mean, distribution.crps(np.full(4, 3.0))
        alone = model.predict_distribution(new[:2])
    np.testing.assert_allclose(mean, [*alone.mean, np.inf, np.inf], rtol=1e-12)
    np.testing.assert_allclose(crps, [*alone.crps(np.full(2, 3.0)), np.inf, np.inf], rtol=1e-12)
    assert np.isfinite([*mean[:2], *crps[:2]]).all()
    bounded = ConformalRegressor(
        LinearRegression(), nonconformity=Bounded(Residual(), y_max=1e6), target_transform="log", random_state=0
    )
    assert (bounded.fit(X, y).predict_distribution(new).mean <= 1e6).all()


def test_smoothed_pit_of_counts_is_uniform():
    """3000 groups of 9 calibration rows and one new row each: the PIT of whole targets is exactly uniform."""
    distribution, y = repeated(tied_data, Bounded(Residual(), y_min=0, whole=True), n=9, seed=6, smoothed=True)
    assert kstest(distribution.pit(y), "uniform").pvalue > ONE_IN_A_MILLION


def test_central_intervals_hold_all_targets_that_a_transform_makes_equal():
    """Targets beyond those of the training rows all have the same transformed value, hence the same score."""
    X, training = np.zeros((19, 1)), np.linspace(0, 1, 19)
    model = TransformedTargetRegressor(DummyRegressor(), transformer=QuantileTransformer(n_quantiles=5))
    calibration = np.r_[np.full(4, -1.0), np.linspace(0.1, 0.9, 11), np.full(4, 2.0)]
    conformal = ConformalRegressor(FrozenEstimator(model.fit(X, training))).fit(X, calibration)
    distribution = conformal.predict_distribution(X[:1])
    assert distribution.interval(0.8).covers([-9.0]).all(), "its score is that of the second smallest target, -1"
    assert distribution.interval(0.8).covers([9.0]).all()
    assert not distribution.interval(0.5).covers([-9.0]).any()


def test_values_beyond_a_quantile_transformer_are_infinite():
    """Where the model predicts a value near an end; so are mean, CRPS and some draws. Two limits make them finite."""
    rng = np.random.default_rng(0)
    X, new, y_new = rng.uniform(size=(200, 1)), np.array([[0.01], [0.99]]), np.array([0.0, 3.0])
    y = 3 * X[:, 0] + rng.normal(size=200)

    def distribution(score):
        to_ranks = QuantileTransformer(n_quantiles=20)
        model = ConformalRegressor(LinearRegression(), nonconformity=score, target_transform=to_ranks, random_state=0)
        return model.fit(X, y).predict_distribution(new)

    found, bounded = distribution(Residual()), distribution(Bounded(Residual(), y_min=-10, y_max=20))
    assert found.mean.tolist() == [-np.inf, np.inf]
    assert np.isposinf(found.crps(y_new)).all()
    assert np.isinf(found.rvs(0, size=100)).any(axis=1).all()
    assert np.isfinite(found.median).all()
    np.testing.assert_array_equal(found.median, bounded.median)
    assert np.isfinite([bounded.mean, bounded.crps(y_new), bounded.rvs(0)]).all()


class _Steps(Residual):
    """The residual above the center, in steps of 1."""

    def tails(self, y, prediction):
        above = np.floor(y - prediction.center)
        return -above, above

    def __call__(self, y, prediction):
        return np.maximum(*self.tails(y, prediction))

    def interval(self, threshold, prediction):
        threshold = np.floor(np.broadcast_to(threshold, len(prediction)))
        return Intervals(prediction.center - threshold, np.nextafter(prediction.center + threshold + 1, -np.inf))


def test_central_intervals_hold_all_targets_with_the_score_of_their_ends():
    old = Rows(np.zeros(19), y=np.repeat(np.arange(10.0), 2)[:19] + 0.7)
    interval = distribution_of(old, Rows(np.zeros(1)), _Steps()).interval(0.8)
    np.testing.assert_allclose(interval, [[0.0, 9.0]], atol=1e-9)


@pytest.mark.filterwarnings("ignore:calibration targets outside")
@pytest.mark.parametrize(
    ("score", "calibrator"),
    [(Residual(), TwoTails()), (OneSided(Residual()), None), (OneSided(Residual(), "lower"), None)],
)
def test_targets_outside_the_limits_count_on_their_side(tmp_path, score, calibrator):
    """Their scores are infinite, but in a distribution a target below the limits is small."""
    sample = draw(np.random.default_rng(0), 300)
    frozen = FrozenEstimator(LinearRegression().fit(sample.X, sample.y))
    model, usual = (
        ConformalRegressor(frozen, nonconformity=Bounded(each, y_min=0), calibrator=by).fit(sample.X, sample.y)
        for each, by in ((score, calibrator), (Residual(), None))
    )
    assert (sample.y < 0).mean() > 0.1
    pits = [each.predict_distribution(sample.X, seed=0).pit(sample.y) for each in (model, usual)]
    np.testing.assert_array_equal(*pits)
    model.save(tmp_path / "model.evencover")
    with pytest.raises(ValueError, match="needs the calibration rows, because"):
        ConformalRegressor.load(tmp_path / "model.evencover", trusted=["tests.synthetic.Oracle"]).predict_distribution(
            sample.X
        )


@pytest.mark.parametrize("level", [0.05, 0.3, 0.9])
def test_central_intervals_hold_a_possible_target(level):
    """Where no whole number is between the ends, or all of them are outside the limits, a point replaces them."""
    old, y = counts_of(400)
    new, _ = counts_of(300, spread=0.1)
    calibration = calibrate(y, old, nonconformity=Bounded(Normalized(), y_min=1, whole=True))
    distribution = PredictiveDistribution.from_calibration(calibration, new, calibration_rows=Rows(old, y=y))
    free = PredictiveDistribution.from_calibration(
        calibrate(y, old, nonconformity=Normalized()), new, calibration_rows=Rows(old, y=y)
    ).interval(level)
    intervals = distribution.interval(level)
    holds_none = np.maximum(np.ceil(free.lower), 1) > np.floor(free.upper)
    assert holds_none.any()
    np.testing.assert_array_equal(intervals.replaced, holds_none)
    assert not intervals.empty.any()
    assert (intervals.lower >= 1).all()
    for bound in (intervals.lower, intervals.upper):
        np.testing.assert_array_equal(bound, np.rint(bound))
    possible = np.arange(1, 40)[:, None]
    assert not ((possible < intervals.lower) & (possible >= free.lower)).any()
    assert not ((possible > intervals.upper) & (possible <= free.upper)).any()


def counts_of(n, spread=1.0):
    rng = np.random.default_rng(n)
    center = rng.uniform(0, 5, n)
    return Prediction(center, np.full(n, spread)), 1.0 + rng.poisson(center)


def test_wrong_calibration_rows_raise():
    old, new = pair(normal_rows, 0)
    calibration = calibrate(old.y, old.prediction)
    for given, error, text in (
        (old[:3], ValueError, "calibration_rows must be the 23 rows that were calibrated on; got 3 rows"),
        (old.prediction, TypeError, "calibration_rows must be Rows, with predictions and targets; got Prediction"),
    ):
        with pytest.raises(error, match=text):
            PredictiveDistribution.from_calibration(calibration, new, calibration_rows=given)
