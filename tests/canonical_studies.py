"""Studies that several test files look at, each computed once in a process; cheap models."""

import warnings
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

from evencover import CrossConformalRegressor
from evencover.models import NeighborSpread, WithSpread
from evencover.models.members import EFFORTS
from evencover.studies import MODELS, Plan, study
from tests.synthetic import TwoLines


@contextmanager
def light_linear_model():
    """The model named linear with a spread of neighbours: boosting, its own, takes most of the time of a study."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            MODELS, "linear", lambda _, seed: WithSpread(LinearRegression(), NeighborSpread(), random_state=seed)
        )
        yield


def use_light_stack(patch):
    """With effort "fast", a stack is two linear models and one tree, for tests in which it need not learn much."""
    members = {"members": ("linear", "products"), "distributions": ("extra trees",)}
    patch.setitem(EFFORTS, "fast", replace(EFFORTS["fast"], **members, n_folds=2, n_distribution_trees=1))


def use_small_stack(patch):
    """With effort "normal", a stack has regressors of all kinds, but small ones."""
    sizes = {"n_folds": 2, "n_trees": 3, "n_distribution_trees": 3, "n_kernels": 20}
    patch.setitem(EFFORTS, "normal", replace(EFFORTS["normal"], **sizes))
    patch.setattr("evencover.models.members._NETWORK_EPOCHS", (3, 3))


def prices(n=400):
    """Return a table of prices whose log is linear in the feature, with equal noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=n)
    return pd.DataFrame({"x": x, "price": np.exp(4 * x + rng.normal(scale=0.2, size=n))})


@cache
def study_of_prices():
    """Return a study that selects a model of the log of the target."""
    return study(prices(), "price", plan=Plan(model=TwoLines()))


def use_effort(patch, name="fast", **settings):
    """Change what a stack with this effort fits."""
    patch.setitem(EFFORTS, name, replace(EFFORTS[name], **settings))


class StopStudyError(Exception):
    """Ends a study before anything is fitted."""


class NeverFitted(RegressorMixin, BaseEstimator):
    """A model that ends the study when it is to be fitted."""

    def fit(self, X, y):
        raise StopStudyError

    def predict(self, X):
        raise StopStudyError


def checked_table(table, target="y", *, plan=None, **roles):
    """Return the warnings of a study, and whether it is a split or cross-fitted; it ends when the table is checked."""
    steps = []

    def begin(step):
        steps.append(step)
        if len(steps) > 1:
            raise StopStudyError

    with warnings.catch_warnings(record=True) as caught, suppress(StopStudyError):
        warnings.simplefilter("always")
        study(table, target, plan=replace(plan or Plan(), model=NeverFitted()), progress=begin, **roles)
    cross = steps[1:] == ["fitting and calibrating the model on all rows"]
    return [each.message for each in caught], "cross" if cross else "split"


def cross_regressor(table, plan):
    """Return the regressor of a cross-fitted study as it is before it is fitted."""
    made = []

    def fit(self, X, y, **settings):
        made.append(self)
        raise StopStudyError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CrossConformalRegressor, "fit", fit)
        with pytest.raises(StopStudyError):
            study(table, "y", plan=plan)
    return made[0]
