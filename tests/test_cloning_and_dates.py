"""Copies of estimators that scikit-learn's `clone` rejects, and dates in the features."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from evencover import ByFeature, ConformalRegressor, recommend
from evencover.models import (
    FromOutputs,
    FromQuantiles,
    FromStd,
    MeanVarianceNetwork,
    NeighborSpread,
    QuantileForest,
    ResidualSpread,
    WithSpread,
)
from evencover.synthetic import heteroskedastic

DATA = heteroskedastic(120, seed=0)


class CopiesItsList(RegressorMixin, BaseEstimator):
    """Like CatBoost: the constructor keeps a copy of a list, and `get_params` returns another copy."""

    def __init__(self, columns=None):
        self.columns = None if columns is None else list(columns)

    def get_params(self, deep=True):
        return {"columns": None if self.columns is None else list(self.columns)}

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class ChangesItsParameter(CopiesItsList):
    def __init__(self, columns=None):
        self.columns = [0, *(columns or [])]


class TwoColumns(LinearRegression):
    """A linear model that predicts a lower and an upper bound."""

    def predict(self, X):
        center = super().predict(X)
        return np.column_stack([center - 1, center + 3])


COPYING = CopiesItsList([0, 2])


@pytest.mark.parametrize(
    "estimator",
    [
        ConformalRegressor(COPYING),
        WithSpread(COPYING, ResidualSpread(COPYING)),
        FromQuantiles(COPYING, COPYING),
        make_pipeline(StandardScaler(), WithSpread(COPYING)),
        ConformalRegressor(make_pipeline(StandardScaler(), COPYING)),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_model_that_copies_its_lists_is_cloned(estimator):
    """scikit-learn's `clone` raises an error for the model itself."""
    with pytest.raises(RuntimeError, match="Cannot clone object"):
        clone(COPYING)
    copy = clone(estimator)
    assert copy is not estimator
    assert repr(copy) == repr(estimator)
    fitted = ConformalRegressor(estimator, random_state=0).fit(DATA.X, DATA.y)
    assert len(fitted.predict_interval(DATA.X)) == 120


def test_a_model_is_fitted_as_a_copy():
    fitted = ConformalRegressor(COPYING, random_state=0).fit(DATA.X, DATA.y)
    assert fitted.estimator_ is not COPYING
    assert repr(fitted.estimator_) == repr(COPYING)
    assert not hasattr(COPYING, "mean_")


def test_a_grid_search_clones_what_is_inside():
    model = ConformalRegressor(WithSpread(COPYING), random_state=0)
    search = GridSearchCV(model, {"calibration_size": [0.4, 0.5]}, cv=2).fit(DATA.X, DATA.y)
    assert search.best_estimator_.estimator_.estimator_.columns == [0, 2]


def test_requested_metadata_are_copied():
    model = ConformalRegressor(COPYING)
    model._metadata_request = {"fit": {"clusters": True}}
    assert clone(model)._metadata_request == {"fit": {"clusters": True}}
    assert clone(model)._metadata_request is not model._metadata_request


def test_a_constructor_that_changes_a_parameter_is_still_an_error():
    with pytest.raises(RuntimeError, match="Cannot clone object"):
        clone(ConformalRegressor(ChangesItsParameter([1])))


class TestTwoOutputs:
    def test_two_columns_are_lower_and_upper(self):
        prediction = FromOutputs(TwoColumns()).fit(DATA.X, DATA.y).predict_full(DATA.X)
        bounds = TwoColumns().fit(DATA.X, DATA.y).predict(DATA.X)
        np.testing.assert_array_equal(prediction.lower, bounds[:, 0])
        np.testing.assert_array_equal(prediction.upper, bounds[:, 1])
        np.testing.assert_allclose(prediction.center, bounds.mean(axis=1))

    def test_named_columns_are_not_changed_by_the_default(self):
        swapped = FromOutputs(TwoColumns(), ["upper", "lower"])
        with pytest.warns(UserWarning, match="are the two swapped"):
            swapped.fit(DATA.X, DATA.y)


DATES = pd.date_range("2024-01-01", periods=120)
TABLE = pd.DataFrame({"x": DATA.X[:, 0], "when": DATES})
TABLES = {
    "pandas": TABLE,
    "with a time zone": TABLE.assign(when=DATES.tz_localize("UTC")),
    "dates of Python": TABLE.assign(when=DATES.date),
    "durations": TABLE.assign(when=DATES - DATES[0]),
    "polars": pl.from_pandas(TABLE),
    "pyarrow": pa.Table.from_pandas(TABLE),
    "only dates": TABLE[["when"]],
}
MESSAGE = r"X must hold numbers for \w+; got dates or times in column 'when'\. Encode them by a pipeline"


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize(
    "fit",
    [
        ConformalRegressor(Ridge()).fit,
        ConformalRegressor(FromStd(BayesianRidge())).fit,
        WithSpread(RandomForestRegressor(3)).fit,
        QuantileForest(n_estimators=3).fit,
        MeanVarianceNetwork(epochs=1).fit,
        lambda X, y: recommend(Ridge(), X, y),
    ],
    ids=["ConformalRegressor", "FromStd", "WithSpread", "QuantileForest", "MeanVarianceNetwork", "recommend"],
)
def test_dates_in_the_features_are_one_clear_error(fit, table):
    with pytest.raises(TypeError, match=MESSAGE):
        fit(table, DATA.y)


def test_dates_that_only_the_spread_model_reads():
    """A source without a regressor of the user encodes them."""
    first = make_pipeline(FunctionTransformer(lambda table: table[["x"]]), Ridge())
    for source in (NeighborSpread(), ResidualSpread()):
        assert np.ptp(WithSpread(first, source).fit(TABLE, DATA.y).predict_full(TABLE).spread) > 0
    with pytest.raises(TypeError, match=rf"ResidualSpread\(regressor=Ridge\(\)\) cannot .* features: {MESSAGE}"):
        WithSpread(first, ResidualSpread(Ridge())).fit(TABLE, DATA.y)


def test_dates_in_new_rows():
    numbers = TABLE.assign(when=np.arange(120.0))
    model = ConformalRegressor(Ridge(), random_state=0).fit(numbers, DATA.y)
    frozen = ConformalRegressor(FrozenEstimator(Ridge().fit(numbers, DATA.y)))
    forest = QuantileForest(n_estimators=3).fit(numbers, DATA.y)
    for call in (
        lambda: model.predict_interval(TABLE),
        lambda: model.predict(TABLE),
        lambda: model.calibrate(TABLE, DATA.y),
        lambda: frozen.calibrate(TABLE, DATA.y),
        lambda: forest.predict(TABLE),
    ):
        with pytest.raises(TypeError, match=MESSAGE):
            call()


def test_a_pipeline_may_use_dates():
    """No error as long as the model gets numbers; groups of dates are values like others."""
    months = FunctionTransformer(lambda table: np.column_stack([table["x"], table["when"].dt.month]))
    model = ConformalRegressor(make_pipeline(months, Ridge()), random_state=0).fit(TABLE, DATA.y)
    assert len(model.predict_interval(TABLE)) == 120
    with pytest.raises(TypeError, match=r"'?when'? must hold numbers; got an array of dtype datetime64"):
        model.set_params(taxonomy=ByFeature("when", edges=[3])).fit(TABLE, DATA.y)


def test_a_pipeline_that_passes_dates_on_is_the_same_error():
    with pytest.raises(TypeError, match=MESSAGE):
        ConformalRegressor(make_pipeline(StandardScaler(), Ridge())).fit(TABLE, DATA.y)


def test_other_errors_stay_as_they_are():
    def fail(table):
        raise ValueError("no luck with these dates")

    with pytest.raises(ValueError, match="no luck with these dates"):
        ConformalRegressor(make_pipeline(FunctionTransformer(fail), Ridge())).fit(TABLE, DATA.y)


def test_columns_of_dates_are_found():
    one = pd.DataFrame({"a": [1.0, 2.0], "b": [None, date(2024, 1, 2)], "c": ["2024-01-01", "x"], "d": [None, 3]})
    table = pd.concat([one.astype({"d": object})] * 20, ignore_index=True)
    model, y = ConformalRegressor(Ridge(), random_state=0), np.arange(40.0)
    for X, found in (
        (table, "'b'"),
        (table.to_numpy(), "1"),
        (np.full((40, 1), "2024-01-01", dtype="datetime64[D]"), "0"),
    ):
        with pytest.raises(TypeError, match=rf"got dates or times in column {found}\."):
            model.fit(X, y)


TEXT = pd.DataFrame({"x": DATA.X[:, 0], "kind": ["a", "b", None] * 40, "digits": [str(i) for i in range(120)]})
TEXTS = {
    "pandas": TEXT,
    "pandas, categories": TEXT.astype({"kind": "category"}),
    "polars": pl.from_pandas(TEXT),
    "pyarrow": pa.Table.from_pandas(TEXT),
    "numpy": TEXT.to_numpy(),
}


@pytest.mark.parametrize("library", TEXTS)
@pytest.mark.parametrize(
    "model",
    [
        ConformalRegressor(Ridge()),
        FromStd(BayesianRidge()),
        WithSpread(RandomForestRegressor(3)),
        QuantileForest(n_estimators=3),
        MeanVarianceNetwork(epochs=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_text_in_the_features_is_one_clear_error(model, library):
    """It names the columns, but not those of numbers that are written as text."""
    column = "1" if library == "numpy" else "'kind'"
    message = rf"X must hold numbers for \w+; got text in column {column}\. Encode them by a pipeline, such as"
    with pytest.raises(ValueError, match=message):
        model.fit(TEXTS[library], DATA.y)


def test_text_in_new_rows_is_a_clear_error():
    numbers = TEXT.assign(kind=1.0)
    model = ConformalRegressor(Ridge(), random_state=0).fit(numbers, DATA.y)
    for call in (model.predict, model.predict_interval):
        with pytest.raises(ValueError, match=r"X must hold numbers for Ridge; got text in column 'kind'\. Encode"):
            call(TEXT)


def test_errors_of_boosting_libraries_about_text_are_explained():
    """Not if all columns are of types for categories: the library says which of its parameters reads them."""

    class Booster(Ridge):
        def fit(self, X, y):
            raise ValueError("DataFrame.dtypes must be int, float or bool. Set enable_categorical")

    for table, message in (
        (TEXT, "X must hold numbers for Booster; got text in column 'kind'"),
        (TEXTS["pandas, categories"][["x", "kind"]], "Set enable_categorical"),
    ):
        with pytest.raises(ValueError, match=message):
            ConformalRegressor(Booster()).fit(table, DATA.y)
