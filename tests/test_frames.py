"""Frames of pandas, polars and pyarrow as input and output; rows are matched by position."""

import re
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

from evencover import (
    ByFeature,
    ByFunction,
    ConformalRegressor,
    CrossConformalRegressor,
    Intervals,
    Prediction,
    Rows,
    WithSpread,
    audit,
    calibrate,
    conformal_quantile,
    coverage,
    coverage_by_group,
    crps,
    diagnose,
    diagnose_scores,
    interval_score,
    recommend,
)
from evencover.diagnostics import quality
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


ROWS = 400
SHUFFLED = np.random.default_rng(0).permutation(ROWS)
TRUTH = heteroskedastic(ROWS, seed=0)
FRAME = pd.DataFrame(TRUTH.X, columns=["a", "b", "c"], index=SHUFFLED)
Y = pd.Series(TRUTH.y, index=SHUFFLED)
IN_ORDER = pd.Series(TRUTH.y)  # the labels of FRAME in another order
OTHERS = pd.Series(TRUTH.y, index=[f"row {i}" for i in range(ROWS)])
FITTED = ConformalRegressor(LinearRegression(), random_state=0).fit(FRAME, Y)
INTERVALS = FITTED.predict_interval(FRAME)
BOUNDS = pd.DataFrame(np.asarray(INTERVALS), index=SHUFFLED)
CALIBRATION = calibrate(TRUTH.y, TRUTH.mean)
CROSS, SPREAD = CrossConformalRegressor(LinearRegression(), cv=3), WithSpread(LinearRegression())

OTHER_INDEXES = {
    "fit": (lambda y: FITTED.fit(FRAME, y), "y must have the index of X"),
    "fit, clusters": (lambda y: FITTED.fit(TRUTH.X, Y, clusters=y), "clusters must have the index of y"),
    "fit, weights": (lambda y: FITTED.fit(FRAME, Y, sample_weight=y), "sample_weight must have the index of X"),
    "fit, folds": (lambda y: CROSS.fit(FRAME, y), "y must have the index of X"),
    "fit, folds and clusters": (lambda y: CROSS.fit(FRAME, Y, clusters=y), "clusters must have the index of X"),
    "fit, spread": (lambda y: SPREAD.fit(FRAME, y), "y must have the index of X"),
    "fit, times": (lambda y: SPREAD.fit(FRAME, Y, times=y), "times must have the index of X"),
    "calibrate": (lambda y: FITTED.calibrate(FRAME, y), "y must have the index of X"),
    "calibrate, weights": (lambda y: FITTED.calibrate(FRAME, Y, weights=y), "weights must have the index of X"),
    "calibrate, clusters": (lambda y: FITTED.calibrate(FRAME, Y, clusters=y), "clusters must have the index of X"),
    "calibrate_batches": (lambda y: FITTED.calibrate_batches([(FRAME, y)]), "y must have the index of X"),
    "p_values": (lambda y: FITTED.p_values(FRAME, y), "y must have the index of X"),
    "Rows": (lambda y: Rows(Y, FRAME, y), "y must have the index of X"),
    "recommend": (lambda y: recommend(LinearRegression(), FRAME, y), "y must have the index of X"),
    "diagnose": (lambda y: diagnose(FITTED, FRAME, y), "y must have the index of X"),
    "diagnose, pipeline": (lambda y: diagnose(make_pipeline(FITTED), FRAME, y), "y must have the index of X"),
    "diagnose_scores": (lambda y: diagnose_scores(Y.abs(), y > 0), "groups must have the index of scores"),
    "calibrate predictions": (lambda y: calibrate(y, Y), "y must have the index of prediction"),
    "groups": (lambda y: calibrate(Y, TRUTH.mean, groups=y > 0), "groups must have the index of y"),
    "weights of predictions": (lambda y: calibrate(Y, TRUTH.mean, weights=y.abs()), "weights must have the index of y"),
    "interval": (lambda y: CALIBRATION.interval(Y, groups=y), "groups must have the index of prediction"),
    "p-values": (lambda y: CALIBRATION.p_values(y, Y), "y must have the index of prediction"),
    "distribution": (lambda y: FITTED.predict_distribution(FRAME).crps(y), "y must have the index of distribution"),
    "Prediction": (lambda y: Prediction(Y, spread=y.abs()), "spread must have the index of center"),
    "from_quantiles": (lambda y: Prediction.from_quantiles(Y, y), "upper must have the index of lower"),
    "conformal_quantile": (
        lambda y: conformal_quantile(Y, 0.9, weights=y.abs(), test_weight=1.0),
        "weights must have the index of scores",
    ),
    "covers": (lambda y: INTERVALS.covers(y), "y must have the index of intervals"),
    "covers, union": (lambda y: FITTED.predict_union(FRAME).covers(y), "y must have the index of intervals"),
    "covers, own bounds": (lambda y: Intervals(Y - 1, Y + 1).covers(y), "y must have the index of intervals"),
    "plot": (lambda y: INTERVALS.plot(by=y), "by must have the index of intervals"),
    "Intervals": (lambda y: Intervals(Y - 1, y + 1), "upper must have the index of lower"),
    "coverage": (lambda y: coverage(y, INTERVALS), "y must have the index of intervals"),
    "coverage_by_group": (lambda y: coverage_by_group(Y, INTERVALS, y > 0), "groups must have the index of intervals"),
    "interval_score": (lambda y: interval_score(y, INTERVALS), "y must have the index of intervals"),
    "crps": (
        lambda y: crps(Y, BOUNDS.set_axis(y.index), probabilities=[0.05, 0.95]),
        "quantiles must have the index of y",
    ),
    "audit": (lambda y: audit(y, INTERVALS), "y must have the index of intervals"),
    "audit, features": (lambda y: audit(Y, INTERVALS, X=y.to_frame()), "X must have the index of intervals"),
    "audit, clusters": (lambda y: audit(Y, INTERVALS, clusters=y), "clusters must have the index of intervals"),
    "audit, frame": (lambda y: audit(y, BOUNDS), "y must have the index of intervals"),
    "audit, pair": (lambda y: audit(Y, (Y - 1, y + 1)), "upper must have the index of lower"),
    "quality": (lambda y: quality(Y, INTERVALS, prediction=y), "prediction must have the index of intervals"),
    "three_way_split": (lambda y: three_way_split(FRAME, y), "y must have the index of X"),
}


@pytest.mark.parametrize("case", OTHER_INDEXES)
def test_indexes_that_differ_are_an_error(case):
    """Coverage of a shuffled target was 0.66, without a word. The same labels in another order, and other labels."""
    call, expected = OTHER_INDEXES[case]
    with pytest.raises(ValueError, match=re.escape(f"{expected}, in the same order")) as error:
        call(IN_ORDER)
    assert f"got the same labels in another order: row 0 (counted from 0) is {SHUFFLED[0]} in " in str(error.value)
    with pytest.raises(ValueError, match=re.escape(expected)) as error:
        call(OTHERS)
    assert "got other labels: row 0" in str(error.value)
    assert ".loc[" not in str(error.value)


def test_the_error_about_an_index_says_what_to_do():
    """The code in the message works: by label, and by position."""
    by_label = "To match rows by label, pass y.loc[intervals.frame.index]. "
    by_position = "If the rows are in the same order, pass y.to_numpy()"
    with pytest.raises(ValueError, match=re.escape(by_label + by_position)):
        coverage(IN_ORDER, INTERVALS)
    assert coverage(IN_ORDER.to_numpy(), INTERVALS) == coverage(TRUTH.y, INTERVALS)
    of_a_table = FRAME.sort_index()
    with pytest.raises(ValueError, match=re.escape("same order, pass X.set_axis(intervals.frame.index)")):
        audit(TRUTH.y, INTERVALS, X=of_a_table)
    assert audit(TRUTH.y, INTERVALS, X=of_a_table.set_axis(INTERVALS.frame.index)).features_off is not None
    matched = coverage(IN_ORDER.loc[INTERVALS.frame.index], INTERVALS)
    assert matched == INTERVALS.covers(TRUTH.y[SHUFFLED]).mean() < coverage(TRUTH.y, INTERVALS)


def test_rows_are_matched_by_position():
    """Equal indexes, also with labels that repeat or are missing, and inputs without an index."""
    expected = calibrate(TRUTH.y, TRUTH.mean).threshold(0.9)
    labels = [None, np.nan, "a", "a"] * 100
    same = [pd.Series(values, index=labels) for values in (TRUTH.y, TRUTH.mean)]
    np.testing.assert_array_equal(calibrate(*same).threshold(0.9), expected)
    np.testing.assert_array_equal(calibrate(same[0], pl.Series(TRUTH.mean)).threshold(0.9), expected)
    np.testing.assert_array_equal(calibrate(pa.array(TRUTH.y), same[1]).threshold(0.9), expected)
    numbered = pd.Series(TRUTH.y, index=np.arange(float(ROWS)))
    np.testing.assert_array_equal(calibrate(numbered, pd.Series(TRUTH.mean)).threshold(0.9), expected)
    assert coverage(Y, INTERVALS) == coverage(TRUTH.y, INTERVALS) == coverage(Y.tolist(), INTERVALS)


def test_labels_of_other_types_are_compared():
    """Missing ones of pandas, dates and pairs; the message names the first row that differs."""
    for labels, other, row in (
        (pd.array(["a", None, "b", "c"], dtype="string"), ["a", None, "b", "d"], 3),
        (pd.array(["a", None, "b", "c"], dtype="string"), ["a", "x", "b", "c"], 1),
        (pd.date_range("2020", periods=4), pd.date_range("2020", periods=4, tz="UTC"), 0),
        (pd.MultiIndex.from_product([["a", "b"], [1, 2]]), pd.MultiIndex.from_product([["a", "b"], [1, 3]]), 1),
    ):
        with pytest.raises(ValueError, match=rf"upper must have the index of lower.* row {row} \(counted from 0\) is"):
            Intervals(pd.Series(np.zeros(4), index=labels), pd.Series(np.ones(4), index=other))


def test_arrays_of_pandas_have_no_index():
    bounds = pd.array(np.zeros(400)), pd.Index(np.ones(400))
    assert Intervals(*bounds).frame is None
    assert Intervals(*bounds).covers(Y).shape == (400,)


def test_another_number_of_rows_is_the_first_error():
    with pytest.raises(ValueError, match="y must have 400 rows, as many as the intervals; got 399"):
        coverage(IN_ORDER[:-1], INTERVALS)


def test_bounds_that_are_series_keep_their_index():
    frame = Intervals(Y - 1, Y + 1).to_frame()
    assert frame.index.equals(Y.index)
    assert frame.columns.tolist() == ["lower", "upper"]


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


def test_row_numbers_of_a_file_without_a_header():
    table = with_row_numbers(pa.table({"a": [1, 2, 3]}), [2], has_header=False)
    assert [row_numbers(table)[position] for position in (0, 1, 2)] == [1, 3, 4]


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


def test_a_table_for_validation_needs_no_index_of_the_training_rows():
    """A fit argument with as many rows may be about other rows."""

    class Validated(LinearRegression):
        def fit(self, X, y, X_val=None):
            return super().fit(X, y)

    n = len(FRAME)
    other = FRAME.set_axis(np.arange(n) + n)
    assert ConformalRegressor(Validated()).fit(FRAME, Y, X_val=other).predict_interval(FRAME).frame is not None
