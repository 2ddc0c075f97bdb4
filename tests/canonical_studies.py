"""Studies that several test files look at, each computed once in a process; cheap models and reports."""

from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from evencover import write_report
from evencover.models import NeighborSpread, WithSpread
from evencover.models._stack_members import EFFORTS
from evencover.studies import MODELS, Plan, study
from tests.synthetic import TwoLines


@contextmanager
def few_levels(*percentages):
    """Reports with two levels besides their own: test_report checks the slider, and each level takes time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evencover._report.contents._MANY_LEVELS", percentages or (50, 95))
        yield


def report_text(result, folder):
    """Return the report of a result as text, at few levels."""
    with few_levels():
        write_report(result, folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


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
    patch.setattr("evencover.models._stack_members._NETWORK_EPOCHS", (3, 3))


def prices(n=400):
    """Return a table of prices whose log is linear in the feature, with equal noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=n)
    return pd.DataFrame({"x": x, "price": np.exp(4 * x + rng.normal(scale=0.2, size=n))})


@cache
def study_of_prices():
    """Return a study that selects a model of the log of the target."""
    return study(prices(), "price", plan=Plan(model=TwoLines()))
