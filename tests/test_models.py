"""predictions_of and the adapters."""

import numpy as np
import pytest
from scipy import stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover import Prediction, predictions_of
from evencover.models import FromDistribution, FromOutputs, FromQuantiles, FromStd, is_frozen
from evencover.models._scaling import mean_and_scale

X, Y = load_diabetes(return_X_y=True)


def test_a_plain_regressor_gives_a_center():
    prediction = predictions_of(Ridge().fit(X, Y), X)
    np.testing.assert_array_equal(prediction.center, Ridge().fit(X, Y).predict(X))
    assert prediction.spread is None


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda model: model,
        FrozenEstimator,
        make_pipeline,
        lambda model: make_pipeline(StandardScaler(), model),
        lambda model: make_pipeline(StandardScaler(), FrozenEstimator(model)),
        lambda model: GridSearchCV(make_pipeline(StandardScaler(), model), {"fromstd__level": [0.9]}, cv=2),
        lambda model: make_pipeline(StandardScaler(), GridSearchCV(model, {"level": [0.9]}, cv=2)),
    ],
)
def test_a_full_prediction_is_found_through_wrappers(wrapped):
    model = wrapped(FromStd(BayesianRidge()).fit(X, Y)).fit(X, Y)
    assert predictions_of(model, X).spread is not None


def test_a_transformed_target_gives_a_center_only():
    """A spread of the transformed target is not a spread of the target."""
    model = TransformedTargetRegressor(FromStd(BayesianRidge()), func=np.log, inverse_func=np.exp).fit(X, Y)
    assert predictions_of(model, X).spread is None


def test_predict_full_must_return_a_prediction():
    class Wrong(LinearRegression):
        def predict_full(self, X):
            return self.predict(X)

    with pytest.raises(TypeError, match=r"Wrong\.predict_full must return a Prediction; got ndarray"):
        predictions_of(Wrong().fit(X, Y), X)


@pytest.mark.parametrize("estimator", [BayesianRidge(), GaussianProcessRegressor(alpha=0.5, normalize_y=True)])
def test_from_std_uses_the_standard_deviation_of_the_estimator(estimator):
    model = FromStd(estimator, level=0.8).fit(X, Y)
    mean, std = estimator.fit(X, Y).predict(X, return_std=True)
    prediction = model.predict_full(X)
    np.testing.assert_allclose(prediction.center, mean)
    np.testing.assert_allclose(prediction.spread, std)
    np.testing.assert_allclose(model.predict(X), mean)
    assert prediction.level == 0.8


def test_from_std_needs_a_regressor_with_return_std():
    with pytest.raises(TypeError, match="FromStd needs an estimator whose predict takes return_std=True; Ridge"):
        FromStd(Ridge()).fit(X, Y).predict_full(X)


def test_from_quantiles_with_two_or_three_regressors():
    low, high = (HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0) for q in (0.1, 0.9))
    middle = FromQuantiles(low, high, level=0.8).fit(X, Y)
    prediction = middle.predict_full(X)
    np.testing.assert_allclose(prediction.center, (prediction.lower + prediction.upper) / 2)
    np.testing.assert_array_equal(middle.predict(X), prediction.center)
    with_center = FromQuantiles(low, high, Ridge(), level=0.8).fit(X, Y)
    np.testing.assert_array_equal(with_center.predict(X), Ridge().fit(X, Y).predict(X))
    bounds = np.sort([low.fit(X, Y).predict(X), high.fit(X, Y).predict(X)], axis=0)
    np.testing.assert_array_equal([prediction.lower, prediction.upper], bounds)


def test_swapped_quantiles_cause_a_warning():
    """They are put in order; bounds that cross in a few rows cause no warning."""
    low, high = (QuantileRegressor(quantile=q, alpha=0) for q in (0.05, 0.95))
    with pytest.warns(UserWarning, match="lower is above upper in 100 of 100 rows; are the two swapped"):
        swapped = FromQuantiles(high, low).fit(X, Y).predict_full(X)
    np.testing.assert_array_equal(swapped.lower, FromQuantiles(low, high).fit(X, Y).predict_full(X).lower)
    two = FrozenEstimator(LinearRegression().fit(X, np.column_stack([Y + 1, Y - 1])))
    with pytest.warns(UserWarning, match="are the two swapped"):
        FromOutputs(two, ["lower", "upper"]).fit(X, Y)


def test_fit_arguments_are_passed_to_every_regressor():
    weights = np.linspace(0.1, 5, 442)
    model = FromQuantiles(QuantileRegressor(quantile=0.1), QuantileRegressor(quantile=0.9), Ridge())
    weighted = model.fit(X, Y, sample_weight=weights).predict_full(X)
    expected = Ridge().fit(X, Y, sample_weight=weights).predict(X)
    np.testing.assert_array_equal(weighted.center, expected)


def test_a_prediction_of_several_targets_is_an_error():
    several = LinearRegression().fit(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match=r"center must be one-dimensional, of shape \(n,\); got shape \(442, 2\)"):
        predictions_of(several, X)
    assert isinstance(predictions_of(Ridge().fit(X, Y), X[:1]), Prediction)


def test_predictions_of_shape_n_1_are_a_center():
    class Column(LinearRegression):
        def predict(self, X):
            return super().predict(X)[:, None]

    assert predictions_of(Column().fit(X, Y), X).center.shape == (442,)


def test_the_scale_of_a_column_is_accurate_and_1_if_it_is_constant():
    """Also far from zero, where a sum of squares loses all digits; 0.1 + 0.2 and 0.3 differ by rounding only."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=100_000)
    rounded = np.where(noise > 0, 0.1 + 0.2, 0.3)
    mean, scale = mean_and_scale(np.column_stack([1e12 + 200 * noise, 1.7e9 + 0.01 * noise, 1e-12 * noise, rounded]))
    np.testing.assert_allclose(scale, [200, 0.01, 1e-12, 1], rtol=0.01)
    np.testing.assert_allclose(mean, [1e12, 1.7e9, 0, 0.3], rtol=1e-9, atol=1e-14)


def test_from_outputs_reads_columns_by_name():
    """Bounds, a center or their middle, a variance as the square of a spread; columns without name are ignored."""
    columns = np.column_stack([Y - 20, Y, Y + 10, np.full(442, 4.0)])
    several = FrozenEstimator(LinearRegression().fit(X, columns))
    predicted = several.predict(X)
    bounds = FromOutputs(several, ["lower", "", "upper", ""], level=0.8).fit(X, Y).predict_full(X)
    np.testing.assert_allclose(bounds.center, (predicted[:, 0] + predicted[:, 2]) / 2)
    np.testing.assert_allclose([bounds.lower, bounds.upper], predicted[:, [0, 2]].T)
    assert bounds.level == 0.8
    variance = FromOutputs(several, ["", "center", "", "variance"]).fit(X, Y)
    np.testing.assert_allclose(variance.predict(X), predicted[:, 1])
    np.testing.assert_allclose(variance.predict_full(X).spread, 2.0)
    assert is_frozen(variance)


def test_from_distribution_reads_moments_and_quantiles():
    class Gamma(LinearRegression):
        def pred_dist(self, X):
            return stats.gamma(3.0, loc=self.predict(X), scale=2.0)

    prediction = FromDistribution(Gamma(), level=0.8).fit(X, Y).predict_full(X)
    center = LinearRegression().fit(X, Y).predict(X)
    np.testing.assert_allclose(prediction.center, center + 6.0)
    np.testing.assert_allclose(prediction.spread, np.sqrt(12.0))
    np.testing.assert_allclose(prediction.lower, center + stats.gamma(3.0, scale=2.0).ppf(0.1))
    np.testing.assert_allclose(prediction.upper, center + stats.gamma(3.0, scale=2.0).ppf(0.9))
