"""predictions_of and the adapters."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover import ConformalRegressor, Prediction
from evencover.models import FromDistribution, FromOutputs, FromQuantiles, FromStd, is_frozen, predictions_of
from evencover.models._outputs import mean_and_scale

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


def test_a_prediction_of_transformed_targets_is_mapped_back():
    """Its spread follows from the mapped bounds: a spread of the transformed target is not one of the target."""
    model = TransformedTargetRegressor(FromStd(BayesianRidge()), func=np.log, inverse_func=np.exp).fit(X, Y)
    prediction, inner = predictions_of(model, X), predictions_of(model.regressor_, X)
    np.testing.assert_allclose(prediction.upper, np.exp(inner.upper))
    np.testing.assert_allclose(prediction.spread, (np.exp(inner.upper) - np.exp(inner.lower)) / (2 * norm.ppf(0.95)))


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
    settings = {"loss": "quantile", "max_iter": 10, "random_state": 0}
    low, high = (HistGradientBoostingRegressor(quantile=q, **settings) for q in (0.1, 0.9))
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
    levels = [0.01, 0.025, *(k / 20 for k in range(1, 20)), 0.975, 0.99]
    np.testing.assert_allclose(prediction.probabilities, levels)
    exact = stats.gamma(3.0, scale=2.0).ppf(levels)
    np.testing.assert_allclose(prediction.quantiles, center[:, None] + exact)


def test_from_distribution_takes_a_pipeline():
    class Gamma(LinearRegression):
        def pred_dist(self, X):
            return stats.gamma(3.0, loc=self.predict(X), scale=2.0)

    own = make_pipeline(StandardScaler(), FromDistribution(Gamma())).fit(X, Y)
    inside = FromDistribution(make_pipeline(StandardScaler(), Gamma())).fit(X, Y)
    np.testing.assert_array_equal(inside.predict_full(X).upper, predictions_of(own, X).upper)


@pytest.mark.skipif(not hasattr(stats, "Normal"), reason="scipy 1.15 introduced these distributions")
def test_from_distribution_reads_the_newer_distributions_of_scipy():
    class Newer(LinearRegression):
        def pred_dist(self, X):
            return stats.Normal(mu=self.predict(X), sigma=2.0)

    class Older(LinearRegression):
        def pred_dist(self, X):
            return stats.norm(self.predict(X), 2.0)

    newer, older = (FromDistribution(kind()).fit(X, Y).predict_full(X) for kind in (Newer, Older))
    for part in ("center", "spread", "lower", "upper", "quantiles"):
        np.testing.assert_allclose(getattr(newer, part), getattr(older, part))


def quantile_regressors(*probabilities):
    return {p: QuantileRegressor(quantile=p, alpha=0) for p in probabilities}


def test_from_quantiles_with_any_number_of_regressors():
    """The quantiles are those of the regressors; bounds and center are the quantiles at their levels."""
    regressors = quantile_regressors(0.9, 0.1, 0.5, 0.3)
    model = FromQuantiles(quantiles=regressors, level=0.8).fit(X, Y)
    prediction = model.predict_full(X)
    expected = {p: clone(each).fit(X, Y).predict(X) for p, each in regressors.items()}
    np.testing.assert_array_equal(prediction.probabilities, [0.1, 0.3, 0.5, 0.9])
    np.testing.assert_array_equal(prediction.quantiles, np.sort(np.stack([expected[p] for p in sorted(expected)], 1)))
    np.testing.assert_array_equal(prediction.center, expected[0.5])
    np.testing.assert_array_equal([prediction.lower, prediction.upper], [expected[0.1], expected[0.9]])
    assert model.quantiles_.keys() == regressors.keys()
    assert (model.lower_, model.upper_, model.center_) == (None, None, None)


def test_bounds_and_further_quantiles_make_one_distribution():
    low, high, quartiles = quantile_regressors(0.1)[0.1], quantile_regressors(0.9)[0.9], quantile_regressors(0.25, 0.75)
    model = FromQuantiles(low, high, Ridge(), quantiles=quartiles, level=0.8).fit(X, Y)
    prediction = model.predict_full(X)
    np.testing.assert_array_equal(prediction.probabilities, [0.1, 0.25, 0.75, 0.9])
    np.testing.assert_array_equal(prediction.center, Ridge().fit(X, Y).predict(X))
    plain = FromQuantiles(low, high, Ridge(), level=0.8).fit(X, Y).predict_full(X)
    np.testing.assert_array_equal([prediction.lower, prediction.upper], [plain.lower, plain.upper])


def test_bounds_at_another_level_follow_from_the_quantiles():
    model = FromQuantiles(quantiles=quantile_regressors(0.1, 0.5, 0.9), level=0.5).fit(X, Y)
    prediction = model.predict_full(X)
    np.testing.assert_allclose(prediction.lower, prediction.ppf(0.25))
    np.testing.assert_allclose(prediction.upper, prediction.ppf(0.75))


def test_regressors_by_probability_work_like_others():
    """In clones, searches, pickles, with fit arguments, frozen, and before they are fitted."""
    model = FromQuantiles(quantiles={0.1: Ridge(), 0.9: Ridge()})
    assert repr(clone(model)) == repr(model)
    assert clone(model).quantiles[0.1] is not model.quantiles[0.1]
    assert not is_frozen(model)
    with pytest.raises(NotFittedError):
        model.predict(X)
    weights = np.linspace(0.1, 5, len(Y))
    weighted = clone(model).fit(X, Y, sample_weight=weights).predict(X)
    np.testing.assert_allclose(weighted, Ridge().fit(X, Y, sample_weight=weights).predict(X))
    frozen = FromQuantiles(quantiles={p: FrozenEstimator(Ridge(p).fit(X, Y)) for p in (0.1, 0.9)})
    assert is_frozen(frozen)
    assert is_frozen(clone(frozen))
    search = GridSearchCV(model, {"quantiles": [{0.1: Ridge(a), 0.9: Ridge(a)} for a in (0.1, 1e9)]}).fit(X, Y)
    assert search.best_params_["quantiles"][0.1].alpha == 0.1
    assert predictions_of(search, X).quantiles.shape == (442, 2)


def test_fit_arguments_are_routed_to_regressors_by_probability():
    with config_context(enable_metadata_routing=True):
        weighted, plain = Ridge().set_fit_request(sample_weight=True), Ridge().set_fit_request(sample_weight=False)
        model = FromQuantiles(quantiles={0.1: weighted, 0.9: plain})
        model.fit(X, Y, sample_weight=np.linspace(0.1, 5, len(Y)))
    without = Ridge().fit(X, Y).predict(X)
    np.testing.assert_array_equal(model.quantiles_[0.9].predict(X), without)
    assert not np.allclose(model.quantiles_[0.1].predict(X), without)


def test_a_saved_distribution_is_the_same(tmp_path):
    """Regressors by probability, and probabilities of columns."""
    several = LinearRegression().fit(X, np.column_stack([Y + shift for shift in (-20, -5, 0, 30)]))
    for model in (
        FromQuantiles(quantiles=quantile_regressors(0.1, 0.5, 0.9)),
        FromOutputs(FrozenEstimator(several), [0.05, 0.25, 0.5, 0.95]),
    ):
        regressor = ConformalRegressor(model, random_state=0).fit(X, Y)
        regressor.save(tmp_path / "model")
        loaded = ConformalRegressor.load(tmp_path / "model")
        expected, found = (each.rows(X).prediction for each in (regressor, loaded))
        np.testing.assert_array_equal(found.quantiles, expected.quantiles)
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)


def test_from_outputs_reads_columns_by_probability():
    """In any order, with or without names; bounds and center are exactly the columns at their probabilities."""
    shifts = {0.5: 0, 0.95: 30, 0.05: -20, 0.25: -5}
    several = FrozenEstimator(LinearRegression().fit(X, np.column_stack([Y + shift for shift in shifts.values()])))
    column = dict(zip(shifts, several.predict(X).T, strict=True))
    prediction = FromOutputs(several, list(shifts)).fit(X, Y).predict_full(X)
    np.testing.assert_array_equal(prediction.probabilities, sorted(shifts))
    np.testing.assert_array_equal(prediction.quantiles, np.stack([column[p] for p in sorted(shifts)], 1))
    np.testing.assert_array_equal(prediction.center, column[0.5])
    np.testing.assert_array_equal([prediction.lower, prediction.upper], [column[0.05], column[0.95]])
    named = FromOutputs(several, ["center", "upper", "lower", 0.25]).fit
    with pytest.raises(ValueError, match="two or more probabilities"):
        named(X, Y)
    mixed = FromOutputs(several, ["center", 0.95, 0.05, ""]).fit(X, Y).predict_full(X)
    np.testing.assert_array_equal(mixed.center, column[0.5])
    np.testing.assert_array_equal(mixed.probabilities, [0.05, 0.95])


class Columns(LinearRegression):
    """A linear model with the parameters of XGBoost and CatBoost, which predicts a column for each probability."""

    def __init__(self, quantile_alpha=None, loss_function=None, objective=None):
        super().__init__()
        self.quantile_alpha = quantile_alpha
        self.loss_function = loss_function
        self.objective = objective

    def predict(self, X):
        return super().predict(X)[:, None] + np.arange(4)


@pytest.mark.parametrize(
    "settings",
    [
        {"quantile_alpha": [0.1, 0.3, 0.5, 0.9]},
        {"quantile_alpha": np.array([0.1, 0.3, 0.5, 0.9])},
        {"loss_function": "MultiQuantile:alpha=0.1,0.3,0.5,0.9"},
        {"loss_function": "MultiQuantile:use_weights=True;alpha=0.1, 0.3, 0.5, 0.9"},
        {"loss_function": "RMSE", "objective": "MultiQuantile:alpha=0.1,0.3,0.5,0.9;use_weights=True"},
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: make_pipeline(StandardScaler(), model),
        lambda model: FrozenEstimator(model.fit(X, Y)),
        lambda model: GridSearchCV(model, {"objective": [model.objective]}, scoring=lambda *_: 0.0, cv=2),
    ],
    ids=["alone", "pipeline", "frozen", "search"],
)
def test_probabilities_are_read_from_the_parameters_of_the_model(settings, wrap):
    model = FromOutputs(wrap(Columns(**settings)), level=0.8).fit(X, Y)
    assert model.outputs_ == (0.1, 0.3, 0.5, 0.9)
    prediction = model.predict_full(X)
    np.testing.assert_array_equal(prediction.probabilities, [0.1, 0.3, 0.5, 0.9])
    np.testing.assert_array_equal([prediction.lower, prediction.upper], prediction.quantiles[:, [0, 3]].T)


def test_swapped_quantiles_by_probability_cause_a_warning():
    with pytest.warns(UserWarning, match=r"the 0.1 quantile is above the 0.9 quantile in \d+ of 100 rows"):
        FromQuantiles(quantiles={0.1: quantile_regressors(0.9)[0.9], 0.9: quantile_regressors(0.1)[0.1]}).fit(X, Y)
