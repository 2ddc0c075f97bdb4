"""scikit-learn's estimator checks for every estimator of the package; all must pass."""

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import norm
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.preprocessing import PowerTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from evencover import BySpread, ConformalRegressor, CrossConformalRegressor, Normalized, models
from evencover.models import (
    AutoRegressor,
    DeepEnsemble,
    DropoutEnsemble,
    EnsembleSpread,
    FromDistribution,
    FromOutputs,
    FromQuantiles,
    FromStd,
    LogTransform,
    MeanVarianceNetwork,
    NeighborSpread,
    QuantileForest,
    QuantileNetwork,
    ResidualSpread,
    TableEncoder,
    WithSpread,
)
from evencover.models.extremes import ExtremeLimiter
from evencover.models.members import KernelRegressor, StackMember
from evencover.studies import Plan
from tests.canonical_studies import use_light_stack

GAUSSIAN = GaussianProcessRegressor(alpha=0.1, optimizer=None)
QUICK = {"hidden": (8,), "learning_rate": 0.05, "epochs": 20}
LONGER = {"hidden": (16,), "learning_rate": 0.01, "epochs": 100}
QUANTILE_REGRESSORS = {q: QuantileRegressor(quantile=q, alpha=0.01) for q in (0.05, 0.5, 0.95)}


class ThreeColumns(LinearRegression):
    """A linear model that predicts lower bound, center and upper bound."""

    def predict(self, X):
        center = super().predict(X)
        return np.column_stack([center - 1, center, center + 1])


class NormalDistributions(LinearRegression):
    """A linear model that predicts normal distributions."""

    def pred_dist(self, X):
        return norm(self.predict(X), 1.0)


# Every class, and every way in which a class itself handles rows, with parts that are fitted quickly.
ESTIMATORS = [
    ConformalRegressor(LinearRegression(), random_state=0),
    ConformalRegressor(FromStd(GAUSSIAN), nonconformity=Normalized(), taxonomy=BySpread(2), random_state=0),
    ConformalRegressor(LinearRegression(), target_transform=StandardScaler(), random_state=0),
    CrossConformalRegressor(LinearRegression(), cv=3, random_state=0),
    CrossConformalRegressor(LinearRegression(), cv=2, method="cross-conformal", n_jobs=2, random_state=0),
    AutoRegressor(effort="fast"),
    FromStd(GAUSSIAN),
    FromQuantiles(QUANTILE_REGRESSORS[0.05], QUANTILE_REGRESSORS[0.95]),
    QuantileNetwork(**QUICK),
    MeanVarianceNetwork(**QUICK),
    DropoutEnsemble(MeanVarianceNetwork(**QUICK), passes=10),
    DeepEnsemble(MeanVarianceNetwork(**QUICK), members=2),
    QuantileForest(n_estimators=3, min_samples_leaf=2),
    WithSpread(LinearRegression(), ResidualSpread(LinearRegression()), cv=2),
    WithSpread(LinearRegression(), NeighborSpread(of="targets")),
    WithSpread(RandomForestRegressor(2, random_state=0), EnsembleSpread()),
    TableEncoder(),
    LogTransform(shift=1e3),
    FromOutputs(ThreeColumns()),
    FromDistribution(NormalDistributions()),
]
BEST_OF_THREE = Plan(model="best-of-three").estimator()
PARTS = [
    clone(BEST_OF_THREE.estimator).set_params(candidates=(("linear", LinearRegression()), ("ridge", Ridge())), cv=2),
    dict(BEST_OF_THREE.estimator.candidates)["kernel"][1],
    KernelRegressor(),
    StackMember(LinearRegression()),
    ExtremeLimiter(),
]
# The same classes with other settings, and with parts that take longer.
OTHER_SETTINGS = [
    ConformalRegressor(LinearRegression(), target_transform=PowerTransformer(), random_state=0),
    CrossConformalRegressor(LinearRegression(), method="cross-conformal", n_jobs=2, random_state=0),
    CrossConformalRegressor(LinearRegression(), method="jackknife+"),
    CrossConformalRegressor(LinearRegression(), method="jackknife+-after-bootstrap", random_state=0),
    CrossConformalRegressor(
        FromStd(GAUSSIAN), cv=3, nonconformity=Normalized(floor=0.1), taxonomy=BySpread(2), random_state=0
    ),
    CrossConformalRegressor(LinearRegression(), cv=3, target_transform=PowerTransformer(), random_state=0),
    AutoRegressor(effort="fast"),
    FromQuantiles(quantiles=QUANTILE_REGRESSORS),
    QuantileNetwork(**LONGER),
    QuantileNetwork(quantiles=(0.25, 0.75), **LONGER),
    MeanVarianceNetwork(**LONGER),
    DropoutEnsemble(MeanVarianceNetwork(**LONGER)),
    DeepEnsemble(MeanVarianceNetwork(**LONGER)),
    QuantileForest(n_estimators=10, min_samples_leaf=2),
    WithSpread(LinearRegression()),
    WithSpread(LinearRegression(), NeighborSpread()),
    WithSpread(LinearRegression(), NeighborSpread(of="distance")),
    WithSpread(RandomForestRegressor(5, random_state=0), EnsembleSpread()),
    BEST_OF_THREE,
    BEST_OF_THREE.estimator,
]


def test_every_estimator_is_checked():
    public = {getattr(models, name) for name in models.__all__} | {ConformalRegressor, CrossConformalRegressor}
    assert {type(estimator) for estimator in ESTIMATORS} == {each for each in public if hasattr(each, "fit")}


def settings_of(estimator):
    """Return an estimator in one line, to name its test."""
    return " ".join(repr(estimator).split())[:150]


def failed_checks(estimator):
    """Return the errors of scikit-learn's checks that fail. Threads serve n_jobs, because processes start slowly."""
    with parallel_config("threading"):
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 40
    return {each["check_name"]: each["exception"] for each in results if each["status"] == "failed"}


@pytest.fixture
def small_stack(monkeypatch):
    use_light_stack(monkeypatch)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *PARTS], ids=settings_of)
def test_estimator_passes_scikit_learns_checks(estimator, small_stack):
    assert failed_checks(estimator) == {}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", OTHER_SETTINGS, ids=settings_of)
def test_other_settings_pass_scikit_learns_checks(estimator):
    assert failed_checks(estimator) == {}
