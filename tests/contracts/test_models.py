"""The contract of every model: full predictions, positive spreads, rows independent of each other."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom, kstest, spearmanr
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LinearRegression, QuantileRegressor

from evencover import BySpread, ConformalRegressor, Rows, conformal_rank, models
from evencover.models import (
    AutoRegressor,
    DeepEnsemble,
    DropoutEnsemble,
    EnsembleSpread,
    FromDistribution,
    FromOutputs,
    FromQuantiles,
    FromStd,
    MeanVarianceNetwork,
    NeighborSpread,
    QuantileForest,
    QuantileNetwork,
    WithSpread,
    predictions_of,
)
from evencover.studies import Plan
from evencover.synthetic import heteroskedastic
from tests.synthetic import ALL_SCORES, ONE_IN_A_MILLION


def noise_models(*, epochs, trees):
    """Return models that recover the noise of synthetic data, if they are large enough and trained for long enough."""
    settings = {"hidden": (32, 32), "dropout": 0.05, "learning_rate": 0.003, "epochs": epochs, "random_state": 0}
    network = MeanVarianceNetwork(**settings)
    forest = RandomForestRegressor(trees, min_samples_leaf=5, random_state=0)
    return {
        "quantile network": QuantileNetwork(**settings),
        "many quantiles": QuantileNetwork(quantiles=np.linspace(0.05, 0.95, 19), **settings),
        "softened, with a mean": QuantileNetwork(softening=2, center="mean", **settings),
        "quantile forest": QuantileForest(n_estimators=2 * trees, random_state=0),
        "mean-variance network": network,
        "dropout ensemble": DropoutEnsemble(network, passes=30, random_state=0),
        "deep ensemble": DeepEnsemble(network, members=2, random_state=0),
        "residual model": WithSpread(forest, random_state=0),
        "stack": AutoRegressor(effort="fast", random_state=0),
        "neighbours' residuals": WithSpread(forest, NeighborSpread(), random_state=0),
        "neighbours' targets": WithSpread(forest, NeighborSpread(of="targets"), random_state=0),
    }


NOISE_MODELS = noise_models(epochs=20, trees=20)
FOREST = RandomForestRegressor(10, min_samples_leaf=5, random_state=0)
# Models whose spread measures something else: distance or model uncertainty, not noise.
GAUSSIAN = GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None, normalize_y=True)
LINEAR = [QuantileRegressor(quantile=q, alpha=0) for q in (0.05, 0.95)]
BOOSTED = [
    HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=10, random_state=0) for q in (0.05, 0.95)
]
FIVE = (0.05, 0.25, 0.5, 0.75, 0.95)
# Small models: the contracts do not depend on what was learned.
ALL_MODELS = noise_models(epochs=3, trees=10) | {
    "neighbours' distance": WithSpread(FOREST, NeighborSpread(of="distance"), random_state=0),
    "members": WithSpread(FOREST, EnsembleSpread(), random_state=0),
    "best of three": Plan(model="best-of-three").estimator(),
    "standard deviation": FromStd(GAUSSIAN),
    "linear quantiles": FromQuantiles(*LINEAR),
    "boosted quantiles": FromQuantiles(*BOOSTED),
    "many linear quantiles": FromQuantiles(quantiles={q: QuantileRegressor(quantile=q, alpha=0) for q in FIVE}),
}
SMALL = heteroskedastic(300, seed=1)
NOISE_TEST = heteroskedastic(2000, seed=1)
# Adapters of quantile regressors pass on their predictions: bounds may be equal, and the optimizers have absolute
# tolerances.
WITH_POSITIVE_SPREAD = [name for name, model in ALL_MODELS.items() if not isinstance(model, FromQuantiles)]

over_all_models = pytest.mark.parametrize("name", ALL_MODELS)
over_models_with_positive_spread = pytest.mark.parametrize("name", WITH_POSITIVE_SPREAD)
over_noise_models = pytest.mark.parametrize("name", NOISE_MODELS)


def fitted(name, X=SMALL.X, y=SMALL.y):
    return clone(ALL_MODELS[name]).fit(X, y)


# Results that several tests look at. None of them changes a model.
fitted_to_small = cache(fitted)
small_prediction = cache(lambda name: fitted_to_small(name).predict_full(SMALL.X))


@cache
def noise_prediction(name):
    """Return the prediction of NOISE_TEST by a model fitted to 3000 rows."""
    training = heteroskedastic(3000, seed=0)
    return clone(NOISE_MODELS[name]).fit(training.X, training.y).predict_full(NOISE_TEST.X)


def test_every_model_of_the_package_is_tested():
    """Adapters for models of other libraries are tested with those libraries."""
    public = {getattr(models, name) for name in models.__all__}
    full_models = {value for value in public if hasattr(value, "predict_full")}
    assert {type(model) for model in ALL_MODELS.values()} == full_models - {FromOutputs, FromDistribution}


@over_all_models
def test_predictions_are_full(name):
    """Four float64 arrays of the same length, lower at most upper, and `predict` returns the center."""
    model, prediction = fitted_to_small(name), small_prediction(name)
    for part in (prediction.center, prediction.spread, prediction.lower, prediction.upper):
        assert part.shape == (300,)
        assert part.dtype == np.float64
    assert np.all(prediction.lower <= prediction.upper)
    np.testing.assert_array_equal(model.predict(SMALL.X), prediction.center)
    assert predictions_of(model, SMALL.X[:2]).spread.shape == (2,)


# The number of quantiles that each model predicts; a model without quantiles predicts a normal distribution, or the one
# through its two bounds.
N_QUANTILES = {
    "quantile network": 3,
    "many quantiles": 19,
    "softened, with a mean": 2,
    "quantile forest": 23,
    "residual model": 23,
    "neighbours' residuals": 23,
    "neighbours' distance": 23,
    "best of three": 23,
    "stack": 23,
    "many linear quantiles": 5,
}


@over_all_models
def test_the_prediction_is_a_distribution(name):
    """Quantiles in order at the probabilities of the model, bounds among them, and a cdf that inverts the ppf."""
    prediction = small_prediction(name)
    if name in N_QUANTILES:
        assert prediction.quantiles.shape == (300, N_QUANTILES[name])
        assert np.all(np.diff(prediction.quantiles, axis=1) >= 0)
        np.testing.assert_allclose(prediction.ppf(prediction.probabilities), prediction.quantiles)
    else:
        assert prediction.quantiles is None
    untied = np.ptp(prediction.ppf([0.3, 0.7]), axis=1) > 0
    bounds = [prediction.ppf((1 + sign * prediction.level) / 2) for sign in (-1, 1)]
    if not prediction.crossings:
        np.testing.assert_allclose(bounds, [prediction.lower, prediction.upper], rtol=1e-9, atol=1e-9)
    for p in (0.001, 0.2, 0.5, 0.83, 0.999):
        value = prediction.ppf(p)
        below = np.nextafter(value, -np.inf) - 1e-9 * np.abs(value)
        assert np.all(prediction.cdf(value + 1e-9 * np.abs(value)) >= p - 1e-6)
        assert np.all(prediction.cdf(below) <= p + 1e-6)
    assert untied.mean() > 0.5


@over_all_models
def test_the_prediction_of_a_row_does_not_depend_on_other_rows(name):
    model, probabilities = fitted_to_small(name), [0.01, 0.3, 0.9]
    several, single = model.predict_full(SMALL.X[:20])[7], model.predict_full(SMALL.X[7:8])
    np.testing.assert_allclose(several.center, single.center, rtol=1e-9)
    np.testing.assert_allclose(several.spread, single.spread, rtol=1e-9)
    np.testing.assert_allclose(several.ppf(probabilities), single.ppf(probabilities), rtol=1e-9)


@over_all_models
def test_a_pickled_model_predicts_the_same(name):
    model = fitted_to_small(name)
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301
    found, expected = copy.predict_full(SMALL.X), small_prediction(name)
    np.testing.assert_array_equal(found.spread, expected.spread)
    np.testing.assert_array_equal(found.ppf([0.02, 0.3, 0.9]), expected.ppf([0.02, 0.3, 0.9]))


@over_all_models
def test_a_frame_gives_the_predictions_of_its_array(name):
    frame = pd.DataFrame(SMALL.X, columns=["a", "b", "c"], index=np.arange(300)[::-1])
    model = fitted(name, frame)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    found, expected = model.predict_full(frame), small_prediction(name)
    np.testing.assert_allclose(found.center, expected.center)
    np.testing.assert_allclose(found.ppf([0.02, 0.3, 0.9]), expected.ppf([0.02, 0.3, 0.9]))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict_full(frame[["c", "b", "a"]])


@over_models_with_positive_spread
def test_the_prediction_is_in_the_unit_of_the_target(name):
    plain, other = small_prediction(name), fitted(name, y=1024 * SMALL.y).predict_full(SMALL.X)
    np.testing.assert_allclose(other.center, 1024 * plain.center, rtol=1e-6)
    np.testing.assert_allclose(other.spread, 1024 * plain.spread, rtol=1e-6)
    np.testing.assert_allclose(other.ppf([0.02, 0.3, 0.9]), 1024 * plain.ppf([0.02, 0.3, 0.9]), rtol=1e-6)


@over_models_with_positive_spread
def test_spreads_are_positive(name):
    assert np.all(small_prediction(name).spread > 0)


@over_all_models
def test_the_same_seed_gives_the_same_model(name):
    first, second = small_prediction(name), fitted(name).predict_full(SMALL.X)
    np.testing.assert_array_equal(first.center, second.center)
    np.testing.assert_array_equal(first.spread, second.spread)


@over_all_models
def test_a_constant_column_is_allowed(name):
    X = SMALL.X.copy()
    X[:, 1] = 0.1
    prediction = fitted(name, X).predict_full(X)
    assert np.isfinite(prediction.center).all()
    assert np.isfinite(prediction.spread).all()


@over_models_with_positive_spread
def test_a_constant_target_has_a_small_positive_spread(name):
    prediction = fitted(name, y=np.full(300, 7.5)).predict_full(SMALL.X)
    np.testing.assert_allclose(prediction.center, 7.5, atol=0.5)
    assert np.all(prediction.spread > 0)
    assert np.all(prediction.spread < 2)


@over_all_models
def test_a_model_can_be_fitted_to_nine_rows(name):
    """Fewer than a batch, than the minimum of a leaf and than the number of neighbours."""
    prediction = fitted(name, SMALL.X[:9], SMALL.y[:9]).predict_full(SMALL.X)
    assert np.isfinite(prediction.spread).all()


@over_models_with_positive_spread
def test_a_model_works_with_every_score_in_noise_groups(name):
    """In each group the number covered is BetaBinomial, whatever the model."""
    calibration, test = heteroskedastic(300, seed=2), heteroskedastic(400, seed=3)
    frozen = FrozenEstimator(fitted_to_small(name))
    for score in ALL_SCORES:
        regressor = ConformalRegressor(frozen, nonconformity=score, taxonomy=BySpread(3))
        regressor.fit(calibration.X, calibration.y)
        covered = regressor.predict_interval(test.X, level=0.8).covers(test.y)
        codes = regressor.taxonomy_.assign(Rows(predictions_of(frozen, test.X))).codes
        for code, n in enumerate(regressor.guarantee_.sizes.values()):
            rank, own = conformal_rank(n, 0.8), covered[codes == code]
            expected = betabinom(len(own), rank, n + 1 - rank)
            assert expected.ppf(ONE_IN_A_MILLION) <= own.sum() <= expected.isf(ONE_IN_A_MILLION)


@over_noise_models
def test_the_noise_is_recovered(name):
    """The spread ranks the rows like the true spread, and has about its size."""
    spread = noise_prediction(name).spread
    assert spearmanr(spread, NOISE_TEST.spread).statistic >= 0.8
    assert np.median(np.abs(np.log(spread / NOISE_TEST.spread))) <= 0.25


@over_noise_models
def test_probability_integral_transforms_are_nearly_uniform(name):
    """The predicted probabilities of new targets are near their exact distribution."""
    assert kstest(noise_prediction(name).cdf(NOISE_TEST.y), "uniform").statistic < 0.08


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        QuantileNetwork(random_state=0),
        QuantileNetwork(softening=2, random_state=0),
        MeanVarianceNetwork(random_state=0),
        DropoutEnsemble(random_state=0),
        DeepEnsemble(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_noise_is_recovered_with_the_papers_settings(model):
    training, test = heteroskedastic(10_000, seed=0), heteroskedastic(4000, seed=1)
    spread = clone(model).fit(training.X, training.y).predict_full(test.X).spread
    assert spearmanr(spread, test.spread).statistic >= 0.8
    assert np.median(np.abs(np.log(spread / test.spread))) <= 0.25


def test_noise_is_not_recovered_without_its_feature():
    """The limits above are not trivial: without the feature that the noise depends on, they are exceeded."""
    training, test = heteroskedastic(3000, seed=0), NOISE_TEST
    spread = WithSpread(LinearRegression()).fit(training.X[:, :2], training.y).predict_full(test.X[:, :2]).spread
    assert spearmanr(spread, test.spread).statistic < 0.8
