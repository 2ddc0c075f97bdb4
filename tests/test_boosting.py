"""Gradient boosting of other libraries: the adapters predict exactly what the libraries predict, also after saving."""

import sys
import warnings
from zipfile import ZipFile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import betabinom, norm, spearmanr
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover import BySpread, ConformalRegressor, Normalized, conformal_rank, models, recommend
from evencover.model_selection import split_rows
from evencover.models import FromDistribution, ResidualSpread, WithSpread, is_frozen
from evencover.synthetic import heteroskedastic
from tests.synthetic import ONE_IN_A_MILLION

pytestmark = pytest.mark.slow

LINES = {
    "LightGBM quantiles": 'FromQuantiles(LGBMRegressor(objective="quantile", alpha=0.05), LGBMRegressor(objective="quantile", alpha=0.95))',  # noqa: E501
    "XGBoost quantiles": 'FromOutputs(XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.05, 0.5, 0.95]))',
    "CatBoost quantiles": 'FromOutputs(CatBoostRegressor(loss_function="MultiQuantile:alpha=0.05,0.5,0.95"))',
    "CatBoost two quantiles": 'FromOutputs(CatBoostRegressor(loss_function="MultiQuantile:alpha=0.05,0.95"))',
    "XGBoost five quantiles": 'FromOutputs(XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.05, 0.25, 0.5, 0.75, 0.95]))',  # noqa: E501
    "CatBoost five quantiles": 'FromOutputs(CatBoostRegressor(loss_function="MultiQuantile:alpha=0.05,0.25,0.5,0.75,0.95"))',  # noqa: E501
    "CatBoost mean and variance": 'FromOutputs(CatBoostRegressor(loss_function="RMSEWithUncertainty"), ["center", "variance"])',  # noqa: E501
    "NGBoost": "FromDistribution(NGBRegressor())",
    "LightGBM and its residuals": "WithSpread(LGBMRegressor())",
}
# The predictions of each library's own models, without an adapter.
OWN_PREDICTIONS = {
    "LightGBM quantiles": lambda X, lower, upper: {"lower": lower.predict(X), "upper": upper.predict(X)},
    "XGBoost quantiles": lambda X, model: dict(zip(["lower", "center", "upper"], model.predict(X).T, strict=True)),
    "CatBoost quantiles": lambda X, model: dict(zip(["lower", "center", "upper"], model.predict(X).T, strict=True)),
    "CatBoost two quantiles": lambda X, model: dict(zip(["lower", "upper"], model.predict(X).T, strict=True)),
    "XGBoost five quantiles": lambda X, model: five_quantiles(model.predict(X)),
    "CatBoost five quantiles": lambda X, model: five_quantiles(model.predict(X)),
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


def five_quantiles(columns):
    """Return the prediction of five columns; those that cross are put in order."""
    return {
        "lower": columns[:, 0],
        "center": columns[:, 2],
        "upper": columns[:, 4],
        "quantiles": np.sort(columns, axis=1),
    }


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


def test_models_of_quantiles_predict_them(name, model):
    """XGBoost and CatBoost at their own probabilities, NGBoost at those of the package; others have none."""
    prediction = model.predict_full(TEST.X)
    expected = {
        "XGBoost quantiles": [0.05, 0.5, 0.95],
        "CatBoost quantiles": [0.05, 0.5, 0.95],
        "CatBoost two quantiles": [0.05, 0.95],
        "XGBoost five quantiles": [0.05, 0.25, 0.5, 0.75, 0.95],
        "CatBoost five quantiles": [0.05, 0.25, 0.5, 0.75, 0.95],
    }
    if name == "NGBoost":
        np.testing.assert_allclose(
            prediction.quantiles,
            norm.ppf(prediction.probabilities)[None] * prediction.spread[:, None] + prediction.center[:, None],
        )
    elif name in expected:
        np.testing.assert_array_equal(prediction.probabilities, expected[name])
    np.testing.assert_allclose(prediction.cdf(prediction.ppf(0.7)), 0.7, atol=1e-6)


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


# Saved files: the regressor of each library, and a reader of the library's own format.
SMALL = {
    "lightgbm": ("LGBMRegressor", lambda library, content: library.Booster(model_str=content.decode())),
    "xgboost": ("XGBRegressor", lambda library, content: library.Booster(model_file=bytearray(content))),
    "catboost": ("CatBoostRegressor", lambda library, content: library.CatBoost().load_model(blob=content)),
}
PLACES = {
    "alone": lambda model: model,
    "pipeline": lambda model: make_pipeline(StandardScaler(), WithSpread(model, random_state=0)),
    "frozen": lambda model: FrozenEstimator(clone(model).fit(TRAINING.X, TRAINING.y)),
    "search": lambda model: GridSearchCV(model, {"max_depth": [2, 3]}, cv=2),
    "spread": lambda model: WithSpread(Ridge(), ResidualSpread(model), random_state=0),
    "bagging": lambda model: BaggingRegressor(model, 2, random_state=0),
}


def small(library, n_estimators=20, **settings):
    module = pytest.importorskip(library, reason=f"{library} is not installed; `make test-all` installs it")
    name, _ = SMALL[library]
    return getattr(module, name)(n_estimators=n_estimators, **REGRESSORS[name][1], **settings)


def saved_and_loaded(model, path):
    """Return the model after saving and loading; no name has to be trusted, so that `save` does not warn."""
    model.save(path)
    return ConformalRegressor.load(path)


def assert_same_intervals(loaded, model, X=TEST.X):
    np.testing.assert_array_equal(np.asarray(loaded.predict_interval(X)), np.asarray(model.predict_interval(X)))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def saved_models(path):
    """Return the members of a file that are in the format of a boosting library, except the empty ones."""
    with ZipFile(path) as archive, ZipFile(archive.open("objects.skops")) as objects:
        contents = [objects.read(name) for name in objects.namelist() if name.endswith(".bin")]
    return [content for content in contents if content]


def test_a_saved_model_predicts_the_same(model, tmp_path):
    regressor = ConformalRegressor(short(model), nonconformity=Normalized(), random_state=0)
    regressor.fit(TRAINING.X, TRAINING.y)
    assert_same_intervals(saved_and_loaded(regressor, tmp_path / "model"), regressor)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("library", SMALL)
def test_boosters_are_saved_wherever_they_are(library, place, tmp_path):
    regressor = ConformalRegressor(PLACES[place](small(library)), random_state=0).fit(TRAINING.X, TRAINING.y)
    loaded = saved_and_loaded(regressor, tmp_path / "model")
    assert_same_intervals(loaded, regressor)
    assert type(loaded.estimator_) is type(regressor.estimator_)
    assert repr(clone(loaded.estimator_)) == repr(clone(regressor.estimator_))


@pytest.mark.parametrize("library", SMALL)
def test_a_saved_regressor_has_the_same_attributes(library, tmp_path):
    regressor = ConformalRegressor(small(library, random_state=3), random_state=0).fit(TRAINING.X, TRAINING.y)
    restored, original = saved_and_loaded(regressor, tmp_path / "model").estimator_, regressor.estimator_
    assert (restored.n_features_in_, vars(restored).keys()) == (3, vars(original).keys())
    np.testing.assert_equal(restored.get_params(), original.get_params())  # nan is equal to nan
    np.testing.assert_array_equal(restored.feature_importances_, original.feature_importances_)


@pytest.mark.parametrize("library", SMALL)
def test_the_file_holds_the_format_of_the_library(library, tmp_path):
    regressor = ConformalRegressor(small(library), random_state=0).fit(TRAINING.X, TRAINING.y)
    regressor.save(tmp_path / "model")
    (content,) = saved_models(tmp_path / "model")
    module = pytest.importorskip(library)
    rows = module.DMatrix(TEST.X) if library == "xgboost" else TEST.X
    np.testing.assert_array_equal(SMALL[library][1](module, content).predict(rows), regressor.predict(TEST.X))


@pytest.mark.parametrize(
    ("library", "settings"),
    [("lightgbm", {}), ("xgboost", {"enable_categorical": True}), ("catboost", {"cat_features": ["letter", "number"]})],
)
def test_categories_of_a_frame_are_saved(library, settings, tmp_path):
    """The codes of the categories depend on their order in a frame; the saved model finds them by name."""
    rng = np.random.default_rng(0)
    letter, number = (pd.Categorical(rng.choice(values, 400)) for values in (["a", "b", "c"], [10, 20]))
    frame = pd.DataFrame({"x": rng.normal(size=400), "letter": letter, "number": number})
    target = frame["x"] + 3 * letter.codes - 2 * number.codes
    fitted = small(library, **settings).fit(frame, target)
    regressor = ConformalRegressor(FrozenEstimator(fitted)).fit(frame, target)
    loaded = saved_and_loaded(regressor, tmp_path / "model")
    reordered = frame.assign(letter=letter.reorder_categories(["c", "a", "b"]))
    assert_same_intervals(loaded, regressor, frame)
    assert_same_intervals(loaded, regressor, reordered)
    if library != "catboost":  # which calls them feature_names_
        assert loaded.estimator_.feature_names_in_.tolist() == ["x", "letter", "number"]


@pytest.mark.parametrize("library", SMALL)
def test_a_model_that_stopped_early_is_saved(library, tmp_path):
    """XGBoost keeps the trees after the best one, and predicts without them."""
    fit_params = {"eval_set": [(TEST.X, TEST.y)]}
    if library == "lightgbm":
        fit_params |= {"callbacks": [pytest.importorskip(library).early_stopping(3, verbose=False)]}
    settings = {} if library == "lightgbm" else {"early_stopping_rounds": 3}
    fitted = small(library, n_estimators=200, learning_rate=0.5, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM renames eval_set
        fitted.fit(TRAINING.X, TRAINING.y, **fit_params, **({"verbose": False} if library == "xgboost" else {}))
    regressor = ConformalRegressor(FrozenEstimator(fitted)).fit(TEST.X, TEST.y)
    loaded = saved_and_loaded(regressor, tmp_path / "model")
    assert_same_intervals(loaded, regressor)
    best = "best_iteration" if library == "xgboost" else "best_iteration_"
    assert 0 < getattr(loaded.estimator_, best) == getattr(fitted, best) < 190
    if library == "lightgbm":
        assert loaded.estimator_.booster_.best_iteration == fitted.best_iteration_


@pytest.mark.parametrize("library", SMALL)
def test_a_library_that_is_not_installed_is_named(library, tmp_path, monkeypatch):
    ConformalRegressor(small(library), random_state=0).fit(TRAINING.X, TRAINING.y).save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"model holds a model of {library}: pip install {library}$"):
        ConformalRegressor.load(tmp_path / "model")


def squared_error(y, prediction):
    """Return gradient and curvature: an objective of the user."""
    return prediction - y, np.ones_like(y)


def test_functions_of_the_user_must_be_trusted(tmp_path):
    regressor = ConformalRegressor(small("lightgbm", objective=squared_error), random_state=0)
    regressor.fit(TRAINING.X, TRAINING.y)
    name = f"{squared_error.__module__}.squared_error"
    with pytest.warns(UserWarning, match=rf"trusted=\['{name}'\]"):
        regressor.save(tmp_path / "model")
    with pytest.raises(ValueError, match=rf"pass trusted=\['{name}'\]$"):
        ConformalRegressor.load(tmp_path / "model")
    assert_same_intervals(ConformalRegressor.load(tmp_path / "model", trusted=[name]), regressor)


class TestCategoriesOfCatBoost:
    """CatBoost copies the list `cat_features`, which scikit-learn's `clone` rejects."""

    X = pd.DataFrame({"x": TRAINING.X[:300, 0], "kind": np.where(TRAINING.X[:300, 1] > 0.5, "a", "b")})
    y = TRAINING.y[:300]

    def regressor(self, **settings):
        catboost = pytest.importorskip("catboost", reason="catboost is not installed; `make test-all` installs it")
        quiet = REGRESSORS["CatBoostRegressor"][1]
        return catboost.CatBoostRegressor(iterations=10, cat_features=["kind"], **quiet, **settings)

    @pytest.mark.parametrize("around", ["nothing", "ConformalRegressor", "WithSpread", "FromQuantiles", "Pipeline"])
    def test_a_model_with_categories_is_fitted(self, around):
        model = self.regressor()
        estimator = {
            "nothing": model,
            "ConformalRegressor": ConformalRegressor(model),
            "WithSpread": models.WithSpread(model, models.ResidualSpread(model)),
            "FromQuantiles": models.FromQuantiles(
                *(self.regressor(loss_function=f"Quantile:alpha={q}") for q in (0.05, 0.95))
            ),
            "Pipeline": make_pipeline("passthrough", model),
        }[around]
        regressor = ConformalRegressor(estimator, random_state=0).fit(self.X, self.y)
        assert np.isfinite(regressor.predict_interval(self.X, level=0.8).width).all()
        assert clone(clone(regressor)).get_params()["estimator"] is not estimator

    def test_the_clone_predicts_what_the_model_predicts(self):
        regressor = ConformalRegressor(self.regressor(random_state=0), random_state=0).fit(self.X, self.y)
        training, _ = split_rows(300, 0.5, random_state=0)
        alone = self.regressor(random_state=0).fit(self.X.iloc[training], self.y[training])
        np.testing.assert_array_equal(alone.predict(self.X), regressor.predict(self.X))

    def test_recommend_and_grid_searches(self):
        model = models.WithSpread(self.regressor(), models.ResidualSpread(self.regressor()), random_state=0)
        assert recommend(model, self.X, self.y).recommendation_.candidates
        search = GridSearchCV(ConformalRegressor(model, random_state=0), {"calibration_size": [0.4, 0.5]}, cv=2)
        assert search.fit(self.X, self.y).best_params_["calibration_size"] in (0.4, 0.5)

    def test_a_spread_model_that_reads_no_text_gets_a_remedy(self):
        with pytest.raises(
            ValueError, match=r"Remedy: .* or use ResidualSpread\(regressor\) with a regressor that reads"
        ):
            recommend(self.regressor(), self.X, self.y)


def test_dates_are_one_error_for_every_library():
    X = pd.DataFrame({"x": TRAINING.X[:60, 0], "when": pd.date_range("2024-01-01", periods=60)})
    for regressor, (library, _) in REGRESSORS.items():
        module = pytest.importorskip(library, reason=f"{library} is not installed; `make test-all` installs it")
        for table in (X, pl.from_pandas(X)):  # with polars, LightGBM and CatBoost would end the process
            with pytest.raises(TypeError, match=f"for {regressor}; got dates or times in column 'when'"):
                ConformalRegressor(getattr(module, regressor)()).fit(table, TRAINING.y[:60])
