"""The guarantee on real data: over random splits, p-values are exactly uniform, whatever the data are."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor

from evencover import BySpread, IntervalDistance, Normalized, Residual, Rows, calibrate
from evencover.models import FromQuantiles, predictions_of
from tests.repeats import InEachRepeat
from tests.synthetic import ONE_IN_A_MILLION

FOLDER = os.environ.get("EVENCOVER_DATA")
LIMIT = norm.isf(ONE_IN_A_MILLION / 2)
REPEATS, N = 600, 40


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
    return Rows(predictions_of(model, X[~training]), y=y[~training])


@cache
def random_splits(name):
    """Return the calibration rows and the new rows of all repeats, with their groups: (rows, groups) of both."""
    rows, rng = held_out_rows(name), np.random.default_rng(1)
    orders = np.stack([rng.permutation(len(rows))[: 2 * N] for _ in range(REPEATS)])
    old, new = rows[orders[:, :N].ravel()], rows[orders[:, N:].ravel()]
    taxonomy = InEachRepeat(BySpread(3), REPEATS)
    return (old, taxonomy.learn(old)), (new, taxonomy.assign(new))


@pytest.mark.skipif(FOLDER is None, reason="EVENCOVER_DATA must be a folder with the paper's data sets as CSV files")
@pytest.mark.parametrize("score", [Residual(), Normalized(floor=0.01, scale=1.0), IntervalDistance()], ids=repr)
@pytest.mark.parametrize("name", ["concrete", "crime2", "star"])
def test_p_values_are_uniform_at_every_noise_level(name, score):
    """With small calibration sets of about 13 rows in each group.

    A rank off by one changes P(p <= 0.2) by 1/14, more than half of the standard deviation of a repeat. So z is about
    15, and the limit of 4.9 finds it with certainty.
    """
    (old, groups), (new, assigned) = random_splits(name)
    calibration = calibrate(old.y, old.prediction, nonconformity=score, groups=groups)
    p = calibration.p_values(new.y, new.prediction, groups=assigned, seed=2)
    repeat_of = np.array([repeat for repeat, _ in assigned.labels])
    position = np.arange(len(repeat_of)) - np.searchsorted(repeat_of, repeat_of)  # of each group in its repeat
    excess = np.zeros((REPEATS, 3))
    np.add.at(excess, (repeat_of[assigned.codes], position[assigned.codes]), (p <= 0.2) - 0.2)
    z = np.mean(excess, axis=0) / np.std(excess, axis=0) * np.sqrt(REPEATS)
    assert np.abs(z).max() < LIMIT
