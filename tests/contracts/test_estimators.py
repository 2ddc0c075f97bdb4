"""scikit-learn's own checks, over every estimator of the package; none is expected to fail."""

from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from evencover import BySpread, ConformalRegressor, Normalized
from evencover.models import FromQuantiles, FromStd

GAUSSIAN = GaussianProcessRegressor(alpha=0.1, optimizer=None)
ESTIMATORS = [
    ConformalRegressor(LinearRegression(), random_state=0),
    ConformalRegressor(FromStd(GAUSSIAN), nonconformity=Normalized(), taxonomy=BySpread(2), random_state=0),
    FromStd(GAUSSIAN),
    FromQuantiles(QuantileRegressor(quantile=0.05, alpha=0.01), QuantileRegressor(quantile=0.95, alpha=0.01)),
]


@parametrize_with_checks(ESTIMATORS)
def test_estimator_follows_scikit_learn(estimator, check):
    check(estimator)
