"""scikit-learn's estimator checks for every estimator of the package; all must pass."""

import numpy as np
from joblib import parallel_config
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.preprocessing import PowerTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

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
    TableEncoder,
    WithSpread,
)
from evencover.models._best_regressor import KernelFeatures, small_table_regressor
from evencover.models._kernel_regressor import KernelRegressor
from evencover.models._stack_members import StackMember

GAUSSIAN = GaussianProcessRegressor(alpha=0.1, optimizer=None)
QUICK = {"hidden": (16,), "learning_rate": 0.01, "epochs": 100}


class ThreeColumns(LinearRegression):
    """A linear model that predicts lower bound, center and upper bound."""

    def predict(self, X):
        center = super().predict(X)
        return np.column_stack([center - 1, center, center + 1])


class NormalDistributions(LinearRegression):
    """A linear model that predicts normal distributions."""

    def pred_dist(self, X):
        return norm(self.predict(X), 1.0)


ESTIMATORS = [
    ConformalRegressor(LinearRegression(), random_state=0),
    ConformalRegressor(FromStd(GAUSSIAN), nonconformity=Normalized(), taxonomy=BySpread(2), random_state=0),
    ConformalRegressor(LinearRegression(), target_transform=PowerTransformer(), random_state=0),
    CrossConformalRegressor(LinearRegression(), cv=3, random_state=0),
    CrossConformalRegressor(LinearRegression(), method="cross-conformal", n_jobs=2, random_state=0),
    CrossConformalRegressor(LinearRegression(), method="jackknife+"),
    CrossConformalRegressor(LinearRegression(), method="jackknife+-after-bootstrap", random_state=0),
    CrossConformalRegressor(
        FromStd(GAUSSIAN), cv=3, nonconformity=Normalized(floor=0.1), taxonomy=BySpread(2), random_state=0
    ),
    CrossConformalRegressor(LinearRegression(), cv=3, target_transform=PowerTransformer(), random_state=0),
    AutoRegressor(effort="fast"),
    FromStd(GAUSSIAN),
    FromQuantiles(QuantileRegressor(quantile=0.05, alpha=0.01), QuantileRegressor(quantile=0.95, alpha=0.01)),
    FromQuantiles(quantiles={q: QuantileRegressor(quantile=q, alpha=0.01) for q in (0.05, 0.5, 0.95)}),
    QuantileNetwork(**QUICK),
    QuantileNetwork(quantiles=(0.25, 0.75), **QUICK),
    MeanVarianceNetwork(**QUICK),
    DropoutEnsemble(MeanVarianceNetwork(**QUICK)),
    DeepEnsemble(MeanVarianceNetwork(**QUICK)),
    QuantileForest(n_estimators=10, min_samples_leaf=2),
    WithSpread(LinearRegression()),
    WithSpread(LinearRegression(), NeighborSpread()),
    WithSpread(LinearRegression(), NeighborSpread(of="targets")),
    WithSpread(LinearRegression(), NeighborSpread(of="distance")),
    WithSpread(RandomForestRegressor(5, random_state=0), EnsembleSpread()),
    WithSpread(small_table_regressor(0), NeighborSpread()),
    TableEncoder(),
    LogTransform(shift=1e3),
    FromOutputs(ThreeColumns()),
    FromDistribution(NormalDistributions()),
]


def test_every_estimator_is_checked():
    public = {getattr(models, name) for name in models.__all__} | {ConformalRegressor, CrossConformalRegressor}
    assert {type(estimator) for estimator in ESTIMATORS} == {each for each in public if hasattr(each, "fit")}


PARTS = [small_table_regressor(0), KernelFeatures(), KernelRegressor(), StackMember(LinearRegression())]


@parametrize_with_checks([*ESTIMATORS, *PARTS])
def test_estimator_passes_scikit_learns_check(estimator, check):
    """Those with n_jobs use threads, because processes start slowly."""
    with parallel_config("threading"):
        check(estimator)
