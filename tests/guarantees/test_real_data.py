"""The guarantee on real data: over random splits, p-values are exactly uniform, whatever the data are."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor

from evencover import BySpread, IntervalDistance, Normalized, Residual, Rows, calibrate, predictions_of
from evencover.models import FromQuantiles
from tests.synthetic import ONE_IN_A_MILLION

FOLDER = os.environ.get("EVENCOVER_DATA")
LIMIT = norm.isf(ONE_IN_A_MILLION / 2)


def held_out_rows(name):
    """Return a model's predictions for rows it was not fitted on, and their targets; small trees give many ties."""
    table = np.loadtxt(Path(FOLDER) / f"{name}.csv", delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1]
    training = np.random.default_rng(0).permutation(len(y)) < len(y) // 3
    low, high = (
        HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=20, max_leaf_nodes=4, random_state=0)
        for q in (0.1, 0.9)
    )
    model = FromQuantiles(low, high, level=0.8).fit(X[training], y[training])
    return predictions_of(model, X[~training]), y[~training]


@pytest.mark.skipif(FOLDER is None, reason="EVENCOVER_DATA must be a folder with the paper's data sets as CSV files")
@pytest.mark.parametrize("score", [Residual(), Normalized(floor=0.01, scale=1.0), IntervalDistance()], ids=repr)
@pytest.mark.parametrize("name", ["concrete", "crime2", "star"])
def test_p_values_are_uniform_at_every_noise_level(name, score):
    """With small calibration sets, so that a rank off by one would be detected."""
    prediction, y = held_out_rows(name)
    rng = np.random.default_rng(1)
    excess = []
    for _ in range(2000):
        order = rng.permutation(len(y))
        old, new = order[:40], order[40:80]
        taxonomy = BySpread(3)
        groups = taxonomy.learn(Rows(prediction[old]))
        calibration = calibrate(y[old], prediction[old], nonconformity=score, groups=groups)
        assigned = taxonomy.assign(Rows(prediction[new]))
        p = calibration.p_values(y[new], prediction[new], groups=assigned, seed=rng)
        excess.append([((p <= 0.2) - 0.2)[assigned.codes == code].sum() for code in range(3)])
    z = np.mean(excess, axis=0) / np.std(excess, axis=0) * np.sqrt(len(excess))
    assert np.abs(z).max() < LIMIT
