"""Frames of pandas, polars and pyarrow as input and output; rows are matched by position."""

import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evencover import ByFeature, ByFunction, ConformalRegressor, Intervals, calibrate
from evencover.inputs.frames import row_numbers, take, with_row_numbers
from evencover.model_selection import three_way_split
from evencover.models import TableEncoder
from evencover.synthetic import heteroskedastic

LIBRARIES = {
    "pandas": lambda columns: pd.DataFrame(columns, index=[f"row {i}" for i in range(len(columns["a"]))][::-1]),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}
each_library = pytest.mark.parametrize("library", LIBRARIES)


@pytest.fixture
def data():
    return heteroskedastic(400, seed=0)


def columns_of(data):
    region = np.where(data.X[:, 2] > 0.5, "noisy", "quiet")
    return {"a": data.X[:, 0], "b": data.X[:, 1], "c": data.X[:, 2], "region": region}


def as_array(column):
    return np.asarray(column)


def linear_model():
    """A linear model of the three numeric columns, for frames of any library."""
    return make_pipeline(make_column_transformer(("passthrough", ["a", "b", "c"])), LinearRegression())


@each_library
def test_intervals_of_a_frame_are_a_frame_of_the_same_library(library, data):
    """With the same intervals as for arrays, and with the same index."""
    frame = LIBRARIES[library]({name: column for name, column in columns_of(data).items() if name != "region"})
    from_frame = ConformalRegressor(LinearRegression(), taxonomy=ByFeature("c", edges=[0.5]), random_state=0)
    from_array = ConformalRegressor(LinearRegression(), taxonomy=ByFeature(2, edges=[0.5]), random_state=0)
    intervals = from_frame.fit(frame, data.y).predict_interval(frame)
    expected = from_array.fit(data.X, data.y).predict_interval(data.X)
    np.testing.assert_allclose(intervals.lower, expected.lower)
    result = intervals.to_frame()
    assert type(result) is type(frame)
    np.testing.assert_array_equal(as_array(result["lower"]), intervals.lower)
    np.testing.assert_array_equal(as_array(result["group"]), np.where(data.X[:, 2] <= 0.5, "c <= 0.5", "0.5 < c"))
    if library == "pandas":
        assert result.index.equals(frame.index)
        assert intervals[5:7].to_frame().index.tolist() == frame.index[5:7].tolist()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_text_columns_reach_the_model_and_the_taxonomy(library, data):
    """The frame is not converted to an array."""
    frame = LIBRARIES[library](columns_of(data))
    encode = make_column_transformer((OneHotEncoder(), ["region"]), remainder="passthrough")
    model = ConformalRegressor(
        make_pipeline(encode, LinearRegression()), taxonomy=ByFeature("region"), random_state=0
    ).fit(frame, data.y)
    assert set(model.calibration_.sizes) == {"noisy", "quiet"}
    assert set(model.predict_interval(frame).to_frame()["group"]) == {"noisy", "quiet"}


def test_a_series_is_read_by_position_not_by_label(data):
    """A shuffled index is ignored: the intervals are those of the plain array."""
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"])
    shuffled = pd.Series(data.y, index=np.random.default_rng(0).permutation(400))
    model = ConformalRegressor(LinearRegression(), random_state=0)
    expected = model.fit(frame, data.y).predict_interval(frame)
    found = model.fit(frame, shuffled).predict_interval(frame)
    np.testing.assert_array_equal(found.lower, expected.lower)
    np.testing.assert_array_equal(found.covers(shuffled), expected.covers(data.y))
    centers = pd.Series(data.mean, index=shuffled.index[::-1])
    np.testing.assert_array_equal(
        calibrate(shuffled, centers).threshold(0.9), calibrate(data.y, data.mean).threshold(0.9)
    )


@each_library
def test_targets_and_labels_from_any_library(library, data):
    columns = {"y": data.y, "a": data.mean, "g": np.where(data.X[:, 0] > 0.5, "p", "q")}
    frame = LIBRARIES[library](columns)
    found = calibrate(frame["y"], frame["a"], groups=frame["g"])
    expected = calibrate(data.y, data.mean, groups=columns["g"])
    np.testing.assert_array_equal(found.threshold(0.9), expected.threshold(0.9))
    training, calibration, test = three_way_split(frame, frame["y"], random_state=0)
    assert type(test.X) is type(frame)
    np.testing.assert_array_equal(as_array(test.y), data.y[test.positions])
    assert len(training) + len(calibration) + len(test) == 400


def test_several_levels_and_empty_intervals_in_a_frame():
    """Two columns for each level; an empty interval has NaN bounds, and a warning counts them."""
    intervals = Intervals(np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [2.0, 4.0]]), level=(0.5, 0.9))
    with pytest.warns(UserWarning, match="empty intervals: 1 of 4; their bounds are NaN"):
        frame = intervals.to_frame(like=pd.DataFrame({"x": [1, 2]}))
    assert list(frame.columns) == ["lower_0.5", "upper_0.5", "lower_0.9", "upper_0.9"]
    assert np.isnan(frame.loc[0, "lower_0.9"])
    assert np.isnan(frame.loc[0, "upper_0.9"])
    assert frame.loc[1, "upper_0.9"] == 4.0


def test_infinite_bounds_stay_infinite_in_a_frame():
    intervals = Intervals(np.array([-np.inf]), np.array([np.inf]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert intervals.to_frame(like=pl.DataFrame({"x": [1]}))["upper"][0] == np.inf


def test_to_frame_needs_like_if_the_input_was_an_array(data):
    intervals = ConformalRegressor(LinearRegression(), random_state=0).fit(data.X, data.y).predict_interval(data.X)
    with pytest.raises(TypeError, match=r"to_frame needs the pandas, polars or pyarrow table"):
        intervals.to_frame()
    assert len(intervals.to_frame(like=pd.DataFrame(data.X))) == 400


def test_groups_by_a_function_of_a_frame(data):
    frame = pd.DataFrame(columns_of(data))
    taxonomy = ByFunction(lambda rows: rows["region"].str.upper())
    model = ConformalRegressor(linear_model(), taxonomy=taxonomy, random_state=0).fit(frame, data.y)
    assert set(model.calibration_.sizes) == {"NOISY", "QUIET"}


def test_columns_by_position_and_by_an_unknown_name(data):
    frame = pd.DataFrame(columns_of(data))
    model = ConformalRegressor(linear_model(), taxonomy=ByFeature(3), random_state=0).fit(frame, data.y)
    assert set(model.calibration_.sizes) == {"noisy", "quiet"}
    with pytest.raises(
        ValueError, match=r"ByFeature\('county'\): X has no column 'county'; the columns are: a, b, c, region"
    ):
        ConformalRegressor(linear_model(), taxonomy=ByFeature("county")).fit(frame, data.y)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_intervals_of_predictions_in_a_column_are_a_frame(library, data):
    column = LIBRARIES[library]({"a": data.mean})["a"]
    intervals = calibrate(data.y, column).interval(column)
    frame = intervals.to_frame()
    np.testing.assert_array_equal(as_array(frame["upper"]), intervals.upper)
    assert type(frame).__module__.startswith(library)


def test_the_error_without_narwhals_has_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ImportError, match=r"a result as a frame needs narwhals: pip install 'evencover\[frames\]'"):
        Intervals([0.0], [1.0]).to_frame(like=pd.DataFrame({"x": [1]}))


def test_missing_values_in_pyarrow_dictionaries_stay_missing():
    table = pa.table({"word": pa.array(["a", None, "b"]).dictionary_encode()})
    encoder = TableEncoder().fit(table)
    assert encoder.get_feature_names_out().tolist() == ["word=a", "word=b", "word missing"]
    np.testing.assert_array_equal(encoder.transform(table), [[1, 0, 0], [0, 0, 1], [0, 1, 0]])


def test_missing_values_in_a_column_of_objects():
    values = np.array([np.float64(1.5), np.int64(2), np.bool_(True), None, np.nan, pd.NA, pd.NaT, 3], dtype=object)
    table = pd.DataFrame({"a": values})
    numbers, missing = TableEncoder().fit(table).transform(table).T
    assert missing.tolist() == [0] * 3 + [1] * 4 + [0]
    np.testing.assert_array_equal(numbers, [1.5, 2, 1, *[1.75] * 4, 3])  # missing ones are the median


@pytest.mark.parametrize("library", [pd.Series, pa.array])
def test_lists_are_neither_numbers_nor_missing(library):
    column = library([[0.0, 0.0], [1.0], None])
    table = pa.table({"deep": column}) if library is pa.array else pd.DataFrame({"deep": column})
    with pytest.raises(ValueError, match=r"column 'deep' must hold numbers or text; got .*0\.0?, 0\."):
        TableEncoder().fit(table)


def test_row_numbers_of_a_file_hold_for_columns_but_not_for_selected_rows():
    table = with_row_numbers(pa.table({"a": [1, 2], "b": [3, 4]}).replace_schema_metadata({"own": "text"}), [1, 3])
    for whole in (table, table.select(["b"])):
        assert [row_numbers(whole)[position] for position in (0, 1)] == [4, 5]
        assert row_numbers(whole).at(np.array([1, 0])).tolist() == [5, 4]
        assert row_numbers(whole).text(1) == "row 5 of the file"
        assert row_numbers(whole).first(np.array([False, True])) == "(the first in row 5 of the file)"
    selected = take(table, np.array([1]))
    assert selected.schema.metadata == {b"own": b"text"}
    for other in (selected, pd.DataFrame({"a": [1]}), np.ones((2, 2)), pa.chunked_array([[1, 2]])):
        assert row_numbers(other).text(1) == "row 1 (counted from 0)"
        assert row_numbers(other).first(np.array([False, True])) == "(the first in row 1, counted from 0)"
