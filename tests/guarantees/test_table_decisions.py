"""Which columns a study uses is decided on training rows, so that even a model that exploits it covers as promised."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom
from sklearn.base import BaseEstimator, RegressorMixin

from evencover import Marginal, Residual
from evencover.quantiles import conformal_rank
from evencover.studies import Plan, study

STUDIES, NEW_ROWS = 300, 200


class ColumnCounter(RegressorMixin, BaseEstimator):
    """A model that predicts 0 if it gets a column of text, and 1 if that was left out."""

    def fit(self, X, y):
        self.prediction_ = float(X.shape[1] == 1)
        return self

    def predict(self, X):
        return np.full(len(X), self.prediction_)


def rows(n, rng):
    """Return rows with a text that is common, and the target near 0; or that occurs once, and the target near 1.

    Half of the rows are of either kind, so the text column of 62 rows is left out in about half of the tables: if more
    than 31 of its texts differ.
    """
    once = rng.random(n) < 0.5
    words = np.where(once, [f"word {number}" for number in rng.integers(10**15, size=n)], "common")
    return pd.DataFrame({"word": words, "x": rng.normal(size=n), "y": once + rng.uniform(-0.01, 0.01, size=n)})


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [62, 155])
def test_coverage_of_new_rows_if_a_text_column_is_nearly_left_out(n_rows):
    """The number of covered new rows is BetaBinomial, over studies.

    If all 62 rows of the table decided on the text column, few different texts among the calibration rows would go
    along with a model that predicts common texts well: coverage would be 0.46 at level 0.5. Of 155 rows, 62 train.
    """
    plan = Plan(
        ColumnCounter(), Residual(), Marginal(), level=0.5, support="none", target_transform="none", calibration="split"
    )
    rng = np.random.default_rng(0)
    covered, kept = [], []
    for _ in range(STUDIES):
        found = study(rows(n_rows, rng), "y", plan=plan)
        new, features = rows(NEW_ROWS, rng), list(found.regressor.feature_names_in_)
        covered.append(found.regressor.predict_interval(new[features], level=plan.level).covers(new["y"]).sum())
        kept.append("word" not in found.left_out)
    assert np.mean(kept) == 1 if n_rows == 62 else 0.3 < np.mean(kept) < 0.7
    n = found.sizes["calibration"]
    k = conformal_rank(n, plan.level)
    exact = betabinom(NEW_ROWS, k, n + 1 - k)
    z = (np.mean(covered) - exact.mean()) / (exact.std() / np.sqrt(STUDIES))
    assert abs(z) < 4.9
