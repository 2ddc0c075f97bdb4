"""Gradient boosting of other libraries: the adapters predict exactly what the libraries predict."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom, norm, spearmanr
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from evencover import BySpread, ConformalRegressor, Normalized, conformal_rank, models
from evencover.models import FromDistribution, is_frozen
from evencover.synthetic import heteroskedastic
from tests.synthetic import ONE_IN_A_MILLION

pytestmark = pytest.mark.slow

LINES = {
    "LightGBM quantiles": 'FromQuantiles(LGBMRegressor(objective="quantile", alpha=0.05), LGBMRegressor(objective="quantile", alpha=0.95))',  # noqa: E501
    "XGBoost quantiles": 'FromOutputs(XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.05, 0.5, 0.95]))',
    "CatBoost quantiles": 'FromOutputs(CatBoostRegressor(loss_function="MultiQuantile:alpha=0.05,0.5,0.95"))',
    "CatBoost mean and variance": 'FromOutputs(CatBoostRegressor(loss_function="RMSEWithUncertainty"), ["center", "variance"])',  # noqa: E501
    "NGBoost": "FromDistribution(NGBRegressor())",
    "LightGBM and its residuals": "WithSpread(LGBMRegressor())",
}
# The predictions of each library's own models, without an adapter.
OWN_PREDICTIONS = {
    "LightGBM quantiles": lambda X, lower, upper: {"lower": lower.predict(X), "upper": upper.predict(X)},
    "XGBoost quantiles": lambda X, model: dict(zip(["lower", "center", "upper"], model.predict(X).T, strict=True)),
    "CatBoost quantiles": lambda X, model: dict(zip(["lower", "center", "upper"], model.predict(X).T, strict=True)),
    "CatBoost mean and variance": lambda X, model: normal(*model.predict(X, "RawFormulaVal").T),
    "NGBoost": lambda X, model: normal(*model.pred_param(X).T),
    "LightGBM and its residuals": lambda X, model: {"center": model.predict(X)},
}
# The library of each regressor, and settings for no output, one thread and reproducible results.
REGRESSORS = {
    "LGBMRegressor": ("lightgbm", {"verbosity": -1, "n_jobs": 1}),
    "XGBRegressor": ("xgboost", {"n_jobs": 1}),
    "CatBoostRegressor": ("catboost", {"verbose": False, "thread_count": 1, "allow_writing_files": False}),
    "NGBRegressor": ("ngboost", {"verbose": False, "Base__random_state": 0}),
}
TRAINING, TEST = heteroskedastic(2000, seed=1), heteroskedastic(2000, seed=2)


def normal(mean, log_deviation):
    """Return the prediction of a normal distribution from the two outputs of CatBoost and NGBoost."""
    distribution = norm(mean, np.exp(log_deviation))
    lower, upper = distribution.ppf(0.05), distribution.ppf(0.95)
    return {"center": mean, "spread": distribution.std(), "lower": lower, "upper": upper}


def model_of(line):
    """Return a clone of the model of a line, without output; skip the test if its library is not installed."""
    regressor, (library, settings) = next(each for each in REGRESSORS.items() if each[0] in line)
    module = pytest.importorskip(library, reason=f"{library} is not installed; `make test-all` installs it")
    model = clone(eval(line, {**vars(models), regressor: getattr(module, regressor)}))  # noqa: S307
    own = {"random_state": 0} if "random_state" in model.get_params(deep=False) else {}
    return model.set_params(**own, **{f"{part}__{name}": settings[name] for part in parts(model) for name in settings})


def parts(model):
    """Return the library's regressors inside a model, by parameter name."""
    return {name: part for name, part in model.get_params(deep=False).items() if hasattr(part, "fit")}


def fitted_parts(model, **fit_params):
    return {name: clone(part).fit(TRAINING.X, TRAINING.y, **fit_params) for name, part in parts(model).items()}


def short(model):
    """Return an unfitted copy with few trees."""
    return clone(model).set_params(**{f"{part}__n_estimators": 30 for part in parts(model)})


def assert_same_prediction(prediction, expected):
    """Assert that a prediction equals that of the library, except that bounds that cross are put in order."""
    if "lower" in expected:
        expected["lower"], expected["upper"] = np.sort([expected["lower"], expected["upper"]], axis=0)
    for part, values in expected.items():
        np.testing.assert_allclose(getattr(prediction, part), values, rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module", params=LINES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return model_of(LINES[name]).fit(TRAINING.X, TRAINING.y)


def test_the_prediction_equals_that_of_the_library(name, model):
    assert_same_prediction(model.predict_full(TEST.X), OWN_PREDICTIONS[name](TEST.X, *fitted_parts(model).values()))


def test_the_spread_ranks_rows_by_their_noise(model):
    assert spearmanr(model.predict_full(TEST.X).spread, TEST.spread).statistic >= 0.8


def test_a_clone_learns_the_same_from_a_frame(model):
    frame = pd.DataFrame(TEST.X, columns=["a", "b", "c"])
    from_array, from_frame = short(model).fit(TEST.X, TEST.y), short(model).fit(frame, TEST.y)
    expected, prediction = from_array.predict_full(TEST.X), from_frame.predict_full(frame)
    assert_same_prediction(prediction, {"center": expected.center, "spread": expected.spread})


def test_sample_weights_are_passed_to_the_library(name, model):
    plain, weighted, weights = short(model), short(model), np.where(TRAINING.y > 2, 5.0, 0.1)
    prediction = weighted.fit(TRAINING.X, TRAINING.y, sample_weight=weights).predict_full(TEST.X)
    assert_same_prediction(
        prediction, OWN_PREDICTIONS[name](TEST.X, *fitted_parts(weighted, sample_weight=weights).values())
    )
    assert prediction.center.mean() > plain.fit(TRAINING.X, TRAINING.y).predict(TEST.X).mean() + 0.05


def test_coverage_has_its_exact_distribution_at_every_noise_level(model):
    regressor = ConformalRegressor(model, nonconformity=Normalized(), taxonomy=BySpread(3), random_state=0)
    intervals = regressor.fit(TRAINING.X, TRAINING.y).predict_interval(TEST.X, level=0.9)
    for group, size in enumerate(regressor.calibration_.sizes.values()):
        rows, rank = intervals.groups.codes == group, conformal_rank(size, 0.9)
        covered = betabinom(rows.sum(), rank, size + 1 - rank)
        n_covered = intervals[rows].covers(TEST.y[rows]).sum()
        assert covered.ppf(ONE_IN_A_MILLION) <= n_covered <= covered.isf(ONE_IN_A_MILLION)


def test_a_frozen_regressor_is_not_fitted_again(name, model):
    """An adapter does not change a frozen model, and calibration then uses all rows."""
    own = fitted_parts(short(model))
    frozen = clone(model).set_params(**{part: FrozenEstimator(fitted) for part, fitted in own.items()})
    assert_same_prediction(
        frozen.fit(TEST.X, -TEST.y).predict_full(TEST.X), OWN_PREDICTIONS[name](TEST.X, *own.values())
    )
    if is_frozen(frozen):  # not with WithSpread, which learns a spread
        assert ConformalRegressor(frozen).fit(TEST.X, TEST.y).calibration_.sizes == {"all": 2000}


def test_a_fitted_adapter_can_be_frozen(model):
    regressor = ConformalRegressor(FrozenEstimator(model), nonconformity=Normalized()).fit(TEST.X, TEST.y)
    assert regressor.calibration_.sizes == {"all": 2000}
    np.testing.assert_array_equal(regressor.predict(TEST.X), model.predict(TEST.X))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["lower", "upper"], "outputs must have one name for each column that XGBRegressor predicts; got 2 names"),
        (["low", "middle", "high"], "outputs must be a sequence with one name per column: lower, center, upper"),
    ],
)
def test_wrong_names_of_outputs_are_an_error(outputs, message):
    model = short(model_of(LINES["XGBoost quantiles"])).set_params(outputs=outputs)
    with pytest.raises(ValueError, match=message):
        model.fit(TEST.X, TEST.y).predict_full(TEST.X)


def test_a_regressor_without_distributions_is_an_error():
    with pytest.raises(TypeError, match=r"estimator must have a method pred_dist\(X\); got LGBMRegressor"):
        FromDistribution(model_of(LINES["LightGBM and its residuals"]).estimator).fit(TEST.X, TEST.y)
