"""What every model and adapter passes on: sample weights, routed metadata, names of features, and one target only."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover import (
    ConformalRegressor,
    CrossConformalRegressor,
    Intervals,
    Prediction,
    Rows,
    audit,
    calibrate,
    coverage,
    coverage_by_group,
    crps,
    diagnose,
    interval_score,
    models,
    recommend,
)
from evencover.diagnostics import quality
from evencover.metrics import pinball_loss
from evencover.model_selection import CoverageScorer
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
    ResidualSpread,
    TableEncoder,
    WithSpread,
)
from evencover.synthetic import heteroskedastic
from tests.canonical_studies import use_light_stack

DATA = heteroskedastic(120, seed=0)
TABLE = pd.DataFrame(DATA.X, columns=["a", "b", "c"])
WEIGHTS = np.random.default_rng(0).uniform(0.1, 5, size=120)
ENCODED = ["a", "b", "c", "kind=big", "kind=small"]
QUICK = {"hidden": (8,), "epochs": 2, "random_state": 0}


class Recorder(RegressorMixin, BaseEstimator):
    """A weighted mean that can return everything an adapter asks for, and remembers its rows and weights."""

    def __init__(self, columns=1):
        self.columns = columns

    def fit(self, X, y, sample_weight=None):
        self.n_features_in_ = np.shape(X)[1]
        self.y_, self.weights_ = np.asarray(y), sample_weight
        self.mean_ = float(np.average(y, weights=sample_weight))
        self.estimators_ = []
        return self

    def predict(self, X, return_std=False):
        center = np.full(len(X), self.mean_)
        if self.columns == 3:
            return np.column_stack([center - 1, center, center + 1])
        return (center, np.ones(len(X))) if return_std else center

    def pred_dist(self, X):
        return norm(self.predict(X), 1.0)


class MeanOfMembers(Recorder):
    """An ensemble of two members whose mean it predicts."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        rows = np.asarray(X)
        self.estimators_ = [LinearRegression().fit(rows, y, sample_weight), LinearRegression().fit(rows, 2 * y)]
        return self

    def predict(self, X):
        return np.mean([member.predict(np.asarray(X)) for member in self.estimators_], axis=0)


WRAPPERS = {
    "ConformalRegressor": ConformalRegressor(Recorder(), random_state=0),
    "CrossConformalRegressor": CrossConformalRegressor(Recorder(), cv=4, random_state=0),
    "CrossConformalRegressor, leave one out": CrossConformalRegressor(Recorder(), method="jackknife+"),
    "WithSpread, residuals": WithSpread(Recorder(), random_state=0),
    "WithSpread, own residual model": WithSpread(Recorder(), ResidualSpread(LinearRegression()), random_state=0),
    "WithSpread, neighbours": WithSpread(Recorder(), NeighborSpread(5), random_state=0),
    "WithSpread, targets": WithSpread(Recorder(), NeighborSpread(5, of="targets"), random_state=0),
    "WithSpread, distance": WithSpread(Recorder(), NeighborSpread(5, of="distance"), random_state=0),
    "WithSpread, members": WithSpread(MeanOfMembers(), EnsembleSpread(), random_state=0),
    "FromStd": FromStd(Recorder()),
    "FromQuantiles": FromQuantiles(Recorder(), Recorder(), Recorder()),
    "FromOutputs": FromOutputs(Recorder(columns=3)),
    "FromDistribution": FromDistribution(Recorder()),
}
NO_WEIGHTS = {
    "AutoRegressor": AutoRegressor(effort="fast", random_state=0),
    "QuantileForest": QuantileForest(n_estimators=3, random_state=0),
    "QuantileNetwork": QuantileNetwork(**QUICK),
    "MeanVarianceNetwork": MeanVarianceNetwork(**QUICK),
    "DropoutEnsemble": DropoutEnsemble(MeanVarianceNetwork(**QUICK), passes=3),
    "DeepEnsemble": DeepEnsemble(MeanVarianceNetwork(**QUICK), members=2),
}
ALL = WRAPPERS | NO_WEIGHTS
over_wrappers = pytest.mark.parametrize("model", WRAPPERS.values(), ids=WRAPPERS)
over_all = pytest.mark.parametrize("model", ALL.values(), ids=ALL)


@pytest.fixture(autouse=True)
def small_stack(monkeypatch):
    """What is passed on does not depend on the models of a stack."""
    use_light_stack(monkeypatch)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def recorders(model):
    """Return the fitted recorders inside a fitted model."""
    if isinstance(model, CrossConformalRegressor):
        return model.estimators_
    names = ("estimator_", "lower_", "upper_", "center_")
    return [getattr(model, name) for name in names if getattr(model, name, None) is not None]


def weighted_rows(model):
    """Return the targets and weights that every recorder was fitted on."""
    return [np.column_stack([each.y_, each.weights_]) for each in recorders(model)]


def requesting(model):
    """Return a copy whose recorders request sample weights."""
    names = ("estimator", "lower", "upper", "center")
    parts = {name: value for name, value in model.get_params(deep=False).items() if name in names}
    return clone(model).set_params(
        **{name: clone(part).set_fit_request(sample_weight=True) for name, part in parts.items() if part is not None}
    )


def test_every_model_and_adapter_is_tested():
    public = {getattr(models, name) for name in models.__all__} | {ConformalRegressor, CrossConformalRegressor}
    assert {type(model) for model in ALL.values()} == {each for each in public if hasattr(each, "predict")}


@over_wrappers
def test_sample_weights_reach_every_wrapped_model(model):
    """Each row keeps its own weight; only training rows are passed."""
    fitted = clone(model).fit(DATA.X, DATA.y, sample_weight=WEIGHTS)
    every = {tuple(row) for row in np.column_stack([DATA.y, WEIGHTS])}
    assert recorders(fitted)
    for rows in weighted_rows(fitted):
        assert {tuple(row) for row in rows} <= every
        assert len(rows) == n_training(model)


def n_training(model):
    """Return the number of rows that each wrapped model is fitted on."""
    if isinstance(model, CrossConformalRegressor):
        return 119 if model.method == "jackknife+" else 90
    return 60 if isinstance(model, ConformalRegressor) else 120


def test_out_of_fold_models_are_weighted_too():
    few = np.where(np.arange(120) < 60, 1e-9, 1.0)  # only the second half counts
    spread = WithSpread(Recorder(), NeighborSpread(5), cv=2, random_state=0)
    fitted = spread.fit(DATA.X, DATA.y + 100.0 * (np.arange(120) < 60), sample_weight=few)
    first, second = fitted.predict_full(DATA.X[:60]).spread, fitted.predict_full(DATA.X[60:]).spread
    assert fitted.estimator_.mean_ < 10
    assert np.median(first) > 20
    assert np.median(second) > 20  # neighbours are from both halves


@over_wrappers
def test_weights_of_another_length_are_an_error(model):
    with pytest.raises((ValueError, TypeError)):
        clone(model).fit(DATA.X, DATA.y, sample_weight=WEIGHTS[:7])


@pytest.mark.parametrize(
    "model",
    [
        ConformalRegressor(KNeighborsRegressor()),
        CrossConformalRegressor(KNeighborsRegressor()),
        WithSpread(KNeighborsRegressor()),
        FromStd(KNeighborsRegressor()),
        FromQuantiles(KNeighborsRegressor(), KNeighborsRegressor()),
        FromOutputs(KNeighborsRegressor()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_wrapped_model_without_weights_is_a_clear_error(model):
    message = r"fit arguments must be those of KNeighborsRegressor\.fit; got sample_weight, which it does not take"
    with pytest.raises(TypeError, match=message):
        model.fit(DATA.X, DATA.y, sample_weight=WEIGHTS)


@pytest.mark.parametrize("model", NO_WEIGHTS.values(), ids=NO_WEIGHTS)
def test_a_model_without_weights_is_a_clear_error(model):
    with pytest.raises(TypeError, match=r"fit\(\) got an unexpected keyword argument 'sample_weight'"):
        clone(model).fit(DATA.X, DATA.y, sample_weight=WEIGHTS)
    with pytest.raises(TypeError, match=rf"those of {type(model).__name__}\.fit; got sample_weight"):
        ConformalRegressor(model).fit(DATA.X, DATA.y, sample_weight=WEIGHTS)


@over_wrappers
def test_metadata_are_routed_through_a_pipeline_and_a_search(model, routing):
    """With routing, a request of the innermost model is enough; without one it is an error."""
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    piped = make_pipeline(scaler, requesting(model))
    last = piped.fit(DATA.X, DATA.y, sample_weight=WEIGHTS)[-1]
    assert recorders(last)
    assert all(each.weights_ is not None for each in recorders(last))
    search = GridSearchCV(piped, {"standardscaler__with_mean": [True, False]}, cv=2, scoring=lambda *_: 0.0)
    best = search.fit(DATA.X, DATA.y, sample_weight=WEIGHTS).best_estimator_[-1]
    assert all(each.weights_ is not None for each in recorders(best))
    with pytest.raises(ValueError, match="sample_weight"):
        make_pipeline(scaler, clone(model)).fit(DATA.X, DATA.y, sample_weight=WEIGHTS)


def test_clusters_are_routed_to_the_conformal_regressor(routing):
    clusters = np.arange(120) // 6
    model = ConformalRegressor(Recorder(), random_state=0).set_fit_request(clusters=True)
    fitted = make_pipeline(StandardScaler(), model).fit(DATA.X, DATA.y, clusters=clusters)[-1]
    calibrated = {float(each) for each in fitted.calibration_rows_.y}
    assert all(len(calibrated & set(DATA.y[clusters == each])) in (0, 6) for each in range(20))


def test_clusters_are_routed_to_the_cross_conformal_regressor(routing):
    clusters = np.arange(120) // 6
    model = CrossConformalRegressor(Recorder(), cv=4, random_state=0).set_fit_request(clusters=True)
    fitted = make_pipeline(StandardScaler(), model).fit(DATA.X, DATA.y, clusters=clusters)[-1]
    for recorder in fitted.estimators_:
        assert all(np.isin(DATA.y[clusters == each], recorder.y_).sum() in (0, 6) for each in range(20))


@over_all
def test_the_number_and_names_of_features_are_kept(model):
    fitted = clone(model).fit(TABLE, DATA.y)
    assert fitted.n_features_in_ == 3
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
    from_polars = clone(model).fit(pl.from_pandas(TABLE), DATA.y)
    assert list(from_polars.feature_names_in_) == ["a", "b", "c"]
    plain = clone(model).fit(DATA.X, DATA.y)
    assert plain.n_features_in_ == 3
    assert not hasattr(plain, "feature_names_in_")
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(TABLE[["c", "a", "b"]])
    with pytest.raises(ValueError, match=r"X has 2 features, but \w+ is expecting 3 features"):
        plain.predict(DATA.X[:, :2])


@over_all
def test_the_last_step_of_a_pipeline_gets_the_names_of_set_output(model):
    """An encoder that returns frames gives the model names of features, and gets them back at prediction."""
    table = TABLE.assign(kind=np.where(DATA.X[:, 0] > 0.5, "big", "small"))
    piped = make_pipeline(TableEncoder(), clone(model)).set_output(transform="pandas").fit(table, DATA.y)
    assert list(piped[-1].feature_names_in_) == ENCODED
    assert np.isfinite(piped.predict(table)).all()


@pytest.mark.parametrize("library", ["default", "pandas", "polars"])
def test_the_encoder_returns_the_frames_of_set_output(library):
    table = TABLE.assign(kind=np.where(DATA.X[:, 0] > 0.5, "big", "small")).set_index(np.arange(120)[::-1])
    encoder = TableEncoder().set_output(transform=library).fit(table)
    encoded = clone(encoder).fit(table).transform(table)
    expected = {"default": np.ndarray, "pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    assert isinstance(encoded, expected)
    np.testing.assert_array_equal(np.asarray(encoded), TableEncoder().fit(table).transform(table))
    if library != "default":
        assert list(encoded.columns) == list(encoder.get_feature_names_out()) == ENCODED
    if library == "pandas":
        assert encoded.index.equals(table.index)
    assert (encoder.n_features_in_, list(encoder.feature_names_in_)) == (4, ["a", "b", "c", "kind"])


TWO = np.column_stack([DATA.y, DATA.y])
REGRESSOR = ConformalRegressor(LinearRegression(), random_state=0).fit(DATA.X, DATA.y)
INTERVALS = REGRESSOR.predict_interval(DATA.X)
SEVERAL_TARGETS = {
    **{f"{name}.fit": (lambda y, model=model: clone(model).fit(DATA.X, y)) for name, model in ALL.items()},
    "calibrate of a fitted model": lambda y: clone(REGRESSOR).fit(DATA.X, DATA.y).calibrate(DATA.X, y),
    "calibrate of a frozen model": lambda y: ConformalRegressor(FrozenEstimator(REGRESSOR)).calibrate(DATA.X, y),
    "p_values": lambda y: REGRESSOR.p_values(DATA.X, y),
    "rows": lambda y: REGRESSOR.rows(DATA.X, y),
    "Rows": lambda y: Rows(Prediction(DATA.mean), DATA.X, y),
    "calibrate": lambda y: calibrate(y, DATA.mean),
    "audit": lambda y: audit(y, INTERVALS),
    "diagnose": lambda y: diagnose(REGRESSOR, DATA.X, y),
    "recommend": lambda y: recommend(LinearRegression(), DATA.X, y),
    "quality": lambda y: quality(y, INTERVALS, prediction=DATA.mean),
    "coverage": lambda y: coverage(y, INTERVALS),
    "coverage_by_group": lambda y: coverage_by_group(y, INTERVALS, np.arange(120) % 2),
    "interval_score": lambda y: interval_score(y, INTERVALS, level=0.9),
    "pinball_loss": lambda y: pinball_loss(y, DATA.mean, probability=0.5),
    "crps": lambda y: crps(y, np.zeros((120, 2)), probabilities=[0.2, 0.8]),
    "covers": lambda y: Intervals(DATA.mean, DATA.mean).covers(y),
    "CoverageScorer": lambda y: CoverageScorer()(REGRESSOR, DATA.X, y),
}


@pytest.mark.parametrize("call", SEVERAL_TARGETS.values(), ids=SEVERAL_TARGETS)
@pytest.mark.parametrize("targets", [TWO, pd.DataFrame(TWO, columns=["price", "rent"])], ids=["array", "frame"])
def test_several_targets_are_one_clear_error(call, targets):
    with pytest.raises(ValueError, match=r"^y must be one.*of shape \(n,\); got shape \(120, 2\)"):
        call(targets)
