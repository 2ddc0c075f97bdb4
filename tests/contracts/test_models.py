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

from evencover import BySpread, ConformalRegressor, Rows, conformal_rank, models, predictions_of
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
)
from evencover.models._best_regressor import small_table_regressor
from evencover.synthetic import heteroskedastic
from tests.synthetic import ALL_SCORES, ONE_IN_A_MILLION

EPOCHS = 30  # instead of 300: enough for the contract and for recovering the noise
NETWORK = MeanVarianceNetwork(epochs=EPOCHS, random_state=0)
FOREST = RandomForestRegressor(min_samples_leaf=5, n_estimators=50, random_state=0)
# Models that recover the noise of synthetic data from 10 000 rows.
NOISE_MODELS = {
    "quantile network": QuantileNetwork(epochs=EPOCHS, random_state=0),
    "many quantiles": QuantileNetwork(quantiles=np.linspace(0.05, 0.95, 19), epochs=EPOCHS, random_state=0),
    "softened, with a mean": QuantileNetwork(softening=2, center="mean", epochs=EPOCHS, random_state=0),
    "quantile forest": QuantileForest(random_state=0),
    "mean-variance network": NETWORK,
    "dropout ensemble": DropoutEnsemble(NETWORK, random_state=0),
    "deep ensemble": DeepEnsemble(MeanVarianceNetwork(epochs=10), members=3, random_state=0),
    "residual model": WithSpread(FOREST, random_state=0),
    "stack": AutoRegressor(effort="fast", random_state=0),
    "neighbours' residuals": WithSpread(FOREST, NeighborSpread(), random_state=0),
    "neighbours' targets": WithSpread(FOREST, NeighborSpread(of="targets"), random_state=0),
}
# Models whose spread measures something else: distance or model uncertainty, not noise.
GAUSSIAN = GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None, normalize_y=True)
LINEAR = [QuantileRegressor(quantile=q, alpha=0) for q in (0.05, 0.95)]
BOOSTED = [HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0) for q in (0.05, 0.95)]
FIVE = (0.05, 0.25, 0.5, 0.75, 0.95)
ALL_MODELS = NOISE_MODELS | {
    "neighbours' distance": WithSpread(FOREST, NeighborSpread(of="distance"), random_state=0),
    "members": WithSpread(FOREST, EnsembleSpread(), random_state=0),
    "best of three": WithSpread(small_table_regressor(0), NeighborSpread(), random_state=0),
    "standard deviation": FromStd(GAUSSIAN),
    "linear quantiles": FromQuantiles(*LINEAR),
    "boosted quantiles": FromQuantiles(*BOOSTED),
    "many linear quantiles": FromQuantiles(quantiles={q: QuantileRegressor(quantile=q, alpha=0) for q in FIVE}),
}
SMALL = heteroskedastic(300, seed=1)
# Adapters of quantile regressors pass on their predictions: bounds may be equal, and the optimizers have absolute
# tolerances.
WITH_POSITIVE_SPREAD = [name for name, model in ALL_MODELS.items() if not isinstance(model, FromQuantiles)]

over_all_models = pytest.mark.parametrize("model", ALL_MODELS.values(), ids=ALL_MODELS)
over_models_with_positive_spread = pytest.mark.parametrize(
    "model", [ALL_MODELS[name] for name in WITH_POSITIVE_SPREAD], ids=WITH_POSITIVE_SPREAD
)


def fitted(model, X=SMALL.X, y=SMALL.y):
    return clone(model).fit(X, y)


@cache
def fitted_to_small(name):
    """Return a model fitted to a few rows, for tests that do not change it."""
    return fitted(ALL_MODELS[name])


@cache
def fitted_to_noise(name):
    """Return a model fitted to 5000 rows, for tests that do not change it."""
    training = heteroskedastic(5000, seed=0)
    return fitted(NOISE_MODELS[name], training.X, training.y)


def test_every_model_of_the_package_is_tested():
    """Adapters for models of other libraries are tested with those libraries."""
    public = {getattr(models, name) for name in models.__all__}
    full_models = {value for value in public if hasattr(value, "predict_full")}
    assert {type(model) for model in ALL_MODELS.values()} == full_models - {FromOutputs, FromDistribution}


@over_all_models
def test_predictions_are_full(model):
    """Four float64 arrays of the same length, lower at most upper, and `predict` returns the center."""
    model = fitted(model)
    prediction = model.predict_full(SMALL.X)
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


@pytest.mark.parametrize("name", ALL_MODELS)
def test_the_prediction_is_a_distribution(name):
    """Quantiles in order at the probabilities of the model, bounds among them, and a cdf that inverts the ppf."""
    prediction = fitted_to_small(name).predict_full(SMALL.X)
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


@pytest.mark.parametrize("name", ALL_MODELS)
def test_the_quantiles_of_a_row_do_not_depend_on_other_rows(name):
    model = fitted_to_small(name)
    several, single = model.predict_full(SMALL.X[:20]), model.predict_full(SMALL.X[7:8])
    probabilities = [0.01, 0.3, 0.9]
    np.testing.assert_allclose(several.ppf(probabilities)[7:8], single.ppf(probabilities), rtol=1e-9)


@pytest.mark.parametrize("name", ALL_MODELS)
def test_pickles_keep_the_distribution(name):
    model = fitted_to_small(name)
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301
    found, expected = (each.predict_full(SMALL.X).ppf([0.02, 0.3, 0.9]) for each in (copy, model))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ALL_MODELS)
def test_frames_give_the_distribution_of_their_arrays(name):
    frame = pd.DataFrame(SMALL.X, columns=["a", "b", "c"], index=np.arange(300)[::-1])
    found = fitted(ALL_MODELS[name], frame).predict_full(frame).ppf([0.02, 0.3, 0.9])
    np.testing.assert_allclose(found, fitted_to_small(name).predict_full(SMALL.X).ppf([0.02, 0.3, 0.9]))


@pytest.mark.parametrize("name", WITH_POSITIVE_SPREAD)
def test_the_distribution_is_in_the_unit_of_the_target(name):
    plain, other = fitted_to_small(name), fitted(ALL_MODELS[name], y=1024 * SMALL.y)
    expected, found = (each.predict_full(SMALL.X).ppf([0.02, 0.3, 0.9]) for each in (plain, other))
    np.testing.assert_allclose(found, 1024 * expected, rtol=1e-6)


@over_models_with_positive_spread
def test_spreads_are_positive(model):
    assert np.all(fitted(model).predict_full(SMALL.X).spread > 0)


@over_all_models
def test_the_same_seed_gives_the_same_model(model):
    first, second = (fitted(model).predict_full(SMALL.X) for _ in range(2))
    np.testing.assert_array_equal(first.center, second.center)
    np.testing.assert_array_equal(first.spread, second.spread)


@over_all_models
def test_the_prediction_of_a_row_does_not_depend_on_other_rows(model):
    model = fitted(model)
    several, single = model.predict_full(SMALL.X[:20]), model.predict_full(SMALL.X[7:8])
    np.testing.assert_allclose(several[7].center, single.center, rtol=1e-9)
    np.testing.assert_allclose(several[7].spread, single.spread, rtol=1e-9)


@over_all_models
def test_a_frame_gives_the_predictions_of_its_array(model):
    frame = pd.DataFrame(SMALL.X, columns=["a", "b", "c"], index=np.arange(300)[::-1])
    model = fitted(model, frame)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(model.predict(frame), fitted(clone(model)).predict(SMALL.X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict_full(frame[["c", "b", "a"]])


@over_all_models
def test_a_constant_column_is_allowed(model):
    X = SMALL.X.copy()
    X[:, 1] = 0.1
    prediction = fitted(model, X).predict_full(X)
    assert np.isfinite(prediction.center).all()
    assert np.isfinite(prediction.spread).all()


@over_models_with_positive_spread
def test_a_constant_target_has_a_small_positive_spread(model):
    prediction = fitted(model, y=np.full(300, 7.5)).predict_full(SMALL.X)
    np.testing.assert_allclose(prediction.center, 7.5, atol=0.5)
    assert np.all(prediction.spread > 0)
    assert np.all(prediction.spread < 2)


@over_all_models
def test_a_model_can_be_fitted_to_nine_rows(model):
    """Fewer than a batch, than the minimum of a leaf and than the number of neighbours."""
    prediction = fitted(model, SMALL.X[:9], SMALL.y[:9]).predict_full(SMALL.X)
    assert np.isfinite(prediction.spread).all()


@over_models_with_positive_spread
def test_the_spread_is_in_the_unit_of_the_target(model):
    plain, other = (fitted(model, y=unit * SMALL.y).predict_full(SMALL.X) for unit in (1, 1024))
    np.testing.assert_allclose(other.center, 1024 * plain.center, rtol=1e-6)
    np.testing.assert_allclose(other.spread, 1024 * plain.spread, rtol=1e-6)


@over_all_models
def test_a_pickled_model_predicts_the_same(model):
    model = fitted(model)
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(copy.predict_full(SMALL.X).spread, model.predict_full(SMALL.X).spread)


@over_models_with_positive_spread
def test_a_model_works_with_every_score_in_noise_groups(model):
    """In each group the number covered is BetaBinomial, whatever the model."""
    calibration, test = heteroskedastic(300, seed=2), heteroskedastic(400, seed=3)
    frozen = FrozenEstimator(fitted(model))
    for score in ALL_SCORES:
        regressor = ConformalRegressor(frozen, nonconformity=score, taxonomy=BySpread(3))
        regressor.fit(calibration.X, calibration.y)
        covered = regressor.predict_interval(test.X, level=0.8).covers(test.y)
        codes = regressor.taxonomy_.assign(Rows(predictions_of(frozen, test.X))).codes
        for code, n in enumerate(regressor.guarantee_.sizes.values()):
            rank, own = conformal_rank(n, 0.8), covered[codes == code]
            expected = betabinom(len(own), rank, n + 1 - rank)
            assert expected.ppf(ONE_IN_A_MILLION) <= own.sum() <= expected.isf(ONE_IN_A_MILLION)


@pytest.mark.parametrize("name", NOISE_MODELS)
def test_the_noise_is_recovered(name):
    """From 5000 rows: the spread ranks the rows like the true spread, and has about its size."""
    test = heteroskedastic(4000, seed=1)
    spread = fitted_to_noise(name).predict_full(test.X).spread
    assert spearmanr(spread, test.spread).statistic >= 0.8
    assert np.median(np.abs(np.log(spread / test.spread))) <= 0.25


@pytest.mark.parametrize("name", NOISE_MODELS)
def test_probability_integral_transforms_are_nearly_uniform(name):
    """From 5000 rows: the predicted probabilities of new targets are near their exact distribution."""
    test = heteroskedastic(4000, seed=1)
    transforms = fitted_to_noise(name).predict_full(test.X).cdf(test.y)
    assert kstest(transforms, "uniform").statistic < 0.08


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
    spread = fitted(model, training.X, training.y).predict_full(test.X).spread
    assert spearmanr(spread, test.spread).statistic >= 0.8
    assert np.median(np.abs(np.log(spread / test.spread))) <= 0.25


def test_noise_is_not_recovered_without_its_feature():
    """The limits above are not trivial: without the feature that the noise depends on, they are exceeded."""
    training, test = heteroskedastic(5000, seed=0), heteroskedastic(4000, seed=1)
    spread = WithSpread(LinearRegression()).fit(training.X[:, :2], training.y).predict_full(test.X[:, :2]).spread
    assert spearmanr(spread, test.spread).statistic < 0.8
