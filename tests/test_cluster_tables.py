"""Calibration, prediction and audits of Dask and Spark DataFrames: equal to one machine, in any partition."""

import itertools
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Thread
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from evencover import BySpread, ConformalRegressor, Normalized, Prediction, tables
from evencover.models import WithSpread
from evencover.studies import Plan, study
from evencover.tables import table_audit
from tests.clusters import dask_cluster, joined, partitions, spark_session
from tests.large_tables import COLUMNS, HOSTILE, in_memory, table
from tests.processes import wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.fixture(scope="module")
def dask_engine():
    with dask_cluster() as engine:
        yield engine


@pytest.fixture(scope="module")
def spark_engine(tmp_path_factory):
    with spark_session(tmp_path_factory.mktemp("spark")) as engine:
        yield engine


@pytest.fixture(params=["dask", "spark"])
def engine(request):
    return request.getfixturevalue(f"{request.param}_engine")


SLOW_ON_SPARK = pytest.mark.parametrize(
    "engine", ["dask", pytest.param("spark", marks=pytest.mark.slow)], indirect=True
)


def one_group_in_one_partition():
    """Return partitions of very different sizes, two without rows; group d is in the last one only."""
    parts = partitions(table(3000), [2500, 0, 1, 499, 0])
    return [*parts, table(700, seed=1, groups=("a", "d"))]


PARTITIONS = {
    "one": [table(3000)],
    "many": partitions(table(3000), [176] * 16 + [184]),
    "skewed": one_group_in_one_partition(),
}


@SLOW_ON_SPARK
@pytest.mark.parametrize("parts_of_table", PARTITIONS.values(), ids=PARTITIONS)
def test_one_exact_threshold_equals_that_in_memory(engine, parts_of_table):
    """Whatever the partitions."""
    found = tables.calibrate(engine.frame(parts_of_table), **COLUMNS, level=0.9)
    np.testing.assert_array_equal(found.threshold(0.9), in_memory(joined(parts_of_table)).threshold(0.9))


def test_exact_thresholds_equal_those_in_memory(engine):
    """Bit by bit, at several levels, in partitions of very different sizes."""
    parts_of_table, levels = one_group_in_one_partition(), [0.5, 0.9, 0.995]
    found = tables.calibrate(engine.frame(parts_of_table), **COLUMNS, level=levels)
    expected = in_memory(joined(parts_of_table))
    assert found.sizes == expected.sizes
    np.testing.assert_array_equal(found.threshold(levels), expected.threshold(levels))
    assert found.guarantee.exact


def test_one_pass_counts_what_one_machine_counts(engine):
    """All counts are the same, so thresholds at all levels are."""
    parts_of_table = one_group_in_one_partition()
    found = tables.calibrate(engine.frame(parts_of_table), **COLUMNS, exact=False)
    expected = tables.calibrate(joined(parts_of_table), **COLUMNS, exact=False)
    assert found.labels == expected.labels
    for cell, histogram in expected.stored.pools.items():
        np.testing.assert_array_equal(found.stored.pools[cell].indices, histogram.indices)
        np.testing.assert_array_equal(found.stored.pools[cell].counts, histogram.counts)


@SLOW_ON_SPARK
@pytest.mark.parametrize("labels", [[3, -1, 2**40], [True, False]], ids=["whole numbers", "booleans"])
def test_groups_can_be_numbers_and_booleans(engine, labels):
    check_labels(engine, labels)


def test_groups_can_have_any_name(engine):
    check_labels(engine, HOSTILE)


def check_labels(engine, labels):
    """Labels keep their type, and intervals are those of each label's threshold."""
    parts_of_table = partitions(table(groups=labels), [1000, 2000])
    frame = engine.frame(parts_of_table)
    found = tables.calibrate(frame, **COLUMNS)
    assert list(map(type, found.labels)) == [type(label) for label in sorted(labels)]
    assert_bounds(engine.collect(tables.predict(frame, found)), joined(parts_of_table))


def assert_bounds(predicted, whole, level=0.9, suffix=""):
    """The bounds equal those of the same rows in memory, bit by bit."""
    prediction = Prediction(whole["c"].to_numpy(), spread=whole["s"].to_numpy())
    intervals = in_memory(whole).interval(prediction, groups=whole["g"].to_pylist(), level=level)
    np.testing.assert_array_equal(predicted[f"lower{suffix}"], intervals.lower)
    np.testing.assert_array_equal(predicted[f"upper{suffix}"], intervals.upper)


def test_predictions_are_columns_next_to_those_of_the_table(engine):
    """Columns keep their order, and get another name if the bounds have theirs; several levels have a suffix each."""
    parts_of_table = one_group_in_one_partition()
    named = [part.append_column("lower", pa.array(np.arange(part.num_rows))) for part in parts_of_table]
    calibration = tables.calibrate(engine.frame(parts_of_table), **COLUMNS, level=[0.9, 0.5])
    found = engine.collect(tables.predict(engine.frame(named), calibration))
    assert list(found.columns) == ["y", "c", "s", "g", "table_lower", "lower", "upper"]
    assert found["table_lower"].tolist() == joined(named)["lower"].to_pylist()
    assert_bounds(found, joined(parts_of_table))
    several = engine.collect(tables.predict(engine.frame(parts_of_table), calibration, level=[0.5, 0.9]))
    assert list(several.columns)[4:] == ["lower_0.5", "upper_0.5", "lower_0.9", "upper_0.9"]
    for level in (0.5, 0.9):
        assert_bounds(several, joined(parts_of_table), level, f"_{level}")


def test_unseen_groups(engine):
    """An infinite interval if asked for, otherwise an error that names the partition and the group."""
    calibration = tables.calibrate(engine.frame([table()]), **COLUMNS)
    frame = engine.frame([table(50), table(50, groups=("a", "z"))])
    found = engine.collect(tables.predict(frame, calibration, unseen="inf"))
    assert (np.isinf(found["upper"]) == (found["g"] == "z")).all()
    with pytest.raises(engine.error, match=r"partition 1: groups must be among .*; got \['z'\]"):
        engine.collect(tables.predict(frame, calibration))


def audit_table(n, seed):
    """Return targets with intervals that are too narrow in group b."""
    rng = np.random.default_rng(seed)
    group, x = np.where(rng.random(n) < 0.4, "a", "b"), rng.random(n)
    y = np.where(group == "a", 1.0, 1.2) * rng.normal(size=n)
    half = np.where(rng.random(n) < 0.01, np.inf, 1.645)
    return pa.table({"y": y, "low": -half, "high": half, "g": group, "x": x, "p": 0.1 * rng.normal(size=n)})


def test_audits_equal_those_of_one_machine(engine, monkeypatch):
    """The sample is the same, and so are all counts and p-values; sums of widths are added in another order."""
    monkeypatch.setattr(table_audit, "_SAMPLE_ROWS", 1500)
    parts = partitions(audit_table(4000, 0), [2500, 0, 1000, 500])
    settings = {"target": "y", "lower": "low", "upper": "high", "group": "g", "prediction": "p", "features": ["x"]}
    found = tables.audit(engine.frame(parts), **settings)
    expected = tables.audit(joined(parts), **settings)
    assert found.verdict == expected.verdict == "uneven"
    assert str(found) == str(expected)
    for mine, other in zip([*found.table, found.overall], [*expected.table, expected.overall], strict=True):
        for each in fields(other):
            value = getattr(other, each.name)
            if each.name in ("width", "score"):
                value = pytest.approx(value, rel=1e-12, abs=0)
            assert getattr(mine, each.name) == value, each.name


def features(n, seed):
    """Return a table with two features and a target."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), rng.integers(0, 5, n)
    return pd.DataFrame({"a": a, "b": b, "y": a + (1 + b) * rng.normal(size=n)})


def test_a_fitted_model_predicts_each_partition(engine):
    """The model is sent to the workers; the intervals equal those in one process."""
    train, new = features(600, 0), features(200, 1)
    model = ConformalRegressor(
        WithSpread(LinearRegression()), nonconformity=Normalized(), taxonomy=BySpread(2), random_state=0
    ).fit(train[["a", "b"]], train["y"])
    parts = partitions(pa.Table.from_pandas(new), [150, 0, 50])
    found = engine.collect(tables.predict(engine.frame(parts), model, level=0.8))
    expected = model.predict_interval(new[["a", "b"]], level=0.8)
    assert list(found.columns) == ["a", "b", "y", "prediction", "lower", "upper"]
    np.testing.assert_allclose(found["prediction"], model.predict(new[["a", "b"]]), rtol=1e-12)
    for side in ("lower", "upper"):
        np.testing.assert_allclose(found[side], getattr(expected, side), rtol=1e-12)


def test_the_predictor_of_a_study_predicts_text_and_missing_values(engine):
    """Its encoder takes the columns as they are."""
    rng = np.random.default_rng(0)
    n = 400
    word, x = rng.choice(["u", "v"], n), rng.normal(size=n)
    whole = pa.table(
        {
            "word": pa.array(word.tolist(), mask=rng.random(n) < 0.1),
            "x": pa.array(x, mask=rng.random(n) < 0.1),
            "y": x + (word == "u") + rng.normal(size=n),
        }
    )
    plan = Plan("linear", Normalized(), BySpread(2), calibration="split")
    model = study(whole, "y", plan=plan).regressor
    found = engine.collect(tables.predict(engine.frame(partitions(whole, [100, 300])), model))
    expected = model.predict_interval(whole.select(["word", "x"]))
    np.testing.assert_allclose(found["lower"], expected.lower, rtol=1e-12)


@SLOW_ON_SPARK
def test_models_that_were_fitted_on_arrays_take_all_columns(engine):
    train, new = features(300, 0), features(40, 1)
    model = ConformalRegressor(LinearRegression(), random_state=0).fit(train[["a", "b"]].to_numpy(), train["y"])
    frame = engine.frame([pa.Table.from_pandas(new[["a", "b"]])])
    found = engine.collect(tables.predict(frame, model))
    expected = model.predict_interval(new[["a", "b"]].to_numpy())
    np.testing.assert_allclose(found["upper"], expected.upper, rtol=1e-12)


def with_value(whole, column, row, value):
    """Return a table with one other value."""
    values = whole[column].to_pylist()
    values[row] = value
    position = whole.schema.get_field_index(column)
    return whole.set_column(position, whole.schema.field(column), pa.array(values, whole.schema.field(column).type))


def test_wrong_values_are_one_error_that_names_the_first_partition(engine):
    """It lists all wrong values of that partition, and says how many others have some."""
    wrong = with_value(with_value(with_value(table(900), "y", 350, None), "s", 899, 0.0), "s", 352, -1.0)
    frame = engine.frame([table(100), wrong, table(10), with_value(table(50), "c", 0, np.inf)])
    message = (
        "partition 1: column 'y' (target) must hold a finite number in every row; wrong: 1 of 900 rows (the first in "
        "row 350, counted from 0); column 's' (spread) must be positive and finite in every row; wrong: 2 of 900 rows "
        "(the first in row 352, counted from 0); 2 partitions have such errors"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        tables.calibrate(frame, **COLUMNS)
    bounds = {"lower": "c", "upper": "s"}
    with pytest.raises(ValueError, match=r"^partition 1: column 'y' \(target\) must .* wrong: 1 of 900 rows"):
        tables.audit(frame, target="y", **bounds)


@SLOW_ON_SPARK
def test_missing_groups_are_an_error(engine):
    frame = engine.frame([table(100), with_value(table(100), "g", 7, None)])
    with pytest.raises(ValueError, match=r"partition 1: column 'g' \(group\) must have a label in every row; wrong: 1"):
        tables.calibrate(frame, **COLUMNS)
    calibration = tables.calibrate(table(), **COLUMNS)
    with pytest.raises(engine.error, match=r"partition 1: column 'g' \(group\) must have a label in every row"):
        engine.collect(tables.predict(frame, calibration))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "Y", "center": "c"}, r"target: no column named 'Y'; did you mean 'y'\? the columns are"),
        ({"target": "g", "center": "c"}, r"column 'g' \(target\) must hold numbers or whole numbers; it holds text"),
        ({"target": "y", "center": "c", "group": "s"}, r"column 's' \(group\) must hold text or whole numbers or bool"),
        ({"target": "y", "center": "c", "workers": 2}, "workers: for files only"),
        ({"target": "y", "center": "c", "progress": print}, "progress: for files only"),
    ],
)
def test_wrong_columns_are_an_error_before_anything_is_read(engine, settings, message):
    with pytest.raises(ValueError, match=message):
        tables.calibrate(engine.frame([table(20)]), **settings)


def test_predictions_need_the_columns_and_no_output(engine):
    frame, calibration = engine.frame([table(20)]), tables.calibrate(table(), **COLUMNS)
    with pytest.raises(ValueError, match="output is for files; for a DataFrame, write what predict returns"):
        tables.predict(frame, calibration, output="out.parquet")
    with pytest.raises(ValueError, match="center: no column named 'c'"):
        tables.predict(frame[["y", "s", "g"]], calibration)
    with pytest.raises(TypeError, match="predictor must be what calibrate returned, or a calibrated model"):
        tables.predict(frame, LinearRegression())
    with pytest.raises(ValueError, match="unseen must be 'error', 'marginal' or 'inf'; got 'bla'"):
        tables.predict(frame, calibration, unseen="bla")
    with pytest.raises(NotFittedError):
        tables.predict(frame, ConformalRegressor(LinearRegression()))
    train = features(100, 0)
    model = ConformalRegressor(LinearRegression(), random_state=0).fit(train[["a", "b"]], train["y"])
    with pytest.raises(ValueError, match="no column named 'a'; no column named 'b'; the columns are"):
        tables.predict(frame, model)


def test_no_rows_are_an_error(engine):
    empty = engine.frame([table(5).slice(0, 0)] * 2)
    with pytest.raises(ValueError, match="data must have rows; got none"):
        tables.calibrate(empty, **COLUMNS)
    with pytest.raises(ValueError, match="data must have rows; got none"):
        tables.audit(empty, target="y", lower="c", upper="s")


def test_one_column_is_no_table(engine):
    with pytest.raises(TypeError, match=r"data must be a (Dask|Spark) DataFrame; got"):
        tables.calibrate(engine.frame([table(5)])["y"], **COLUMNS)


@dataclass(frozen=True)
class WaitingScore(Normalized):
    """A score whose fourth call in a process waits for a file, so that a worker can be killed before it has finished."""

    file: Path = Path()
    n_calls: ClassVar[Iterator[int]] = itertools.count()

    def __call__(self, y, prediction):
        if next(self.n_calls) >= 3:
            wait_until(self.file.exists)
        return super().__call__(y, prediction)


def test_the_result_is_the_same_if_a_worker_is_killed(dask_engine, tmp_path):
    """The cluster starts another process, and computes the lost partitions again."""
    parts_of_table, is_killed = partitions(table(3000), [100] * 30), tmp_path / "killed"
    cluster = dask_engine.cluster

    def busy():
        return [each for each in cluster.scheduler.workers.values() if len(each.has_what) > 2 and each.processing]

    def kill():
        wait_until(busy)
        nanny = next(nanny for nanny in cluster.workers.values() if nanny.worker_address == busy()[0].address)
        os.kill(nanny.pid, signal.SIGKILL)
        is_killed.touch()

    killer = Thread(target=kill)
    killer.start()
    found = tables.calibrate(dask_engine.frame(parts_of_table), **COLUMNS, nonconformity=WaitingScore(file=is_killed))
    killer.join()
    assert is_killed.exists()
    assert found.sizes == in_memory(table(3000)).sizes
    np.testing.assert_array_equal(found.threshold(0.9), in_memory(table(3000)).threshold(0.9))


def object_frame(dask_engine, *groups):
    """Return a Dask DataFrame whose groups are Python objects, with one partition for each list of groups."""
    import dask
    import dask.dataframe as dd

    frames = [
        pd.DataFrame({"y": np.arange(len(each), dtype=float), "c": 0.0, "g": pd.Series(each, dtype=object)})
        for each in groups
    ]
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(lambda frame: frame, frames, meta=frames[0].iloc[:0])


def test_columns_of_python_objects_are_checked_in_each_partition(dask_engine):
    """Their type is not known before."""
    columns = {"target": "y", "center": "c", "group": "g"}
    found = tables.calibrate(object_frame(dask_engine, ["a", "b"] * 20, ["b", "c"] * 20), **columns)
    assert found.sizes == {"a": 20, "b": 40, "c": 20}
    for groups, message in [
        ([["a"] * 3, [1.5, 2.5]], r"partition 1: column 'g' \(group\) must hold text .*; it holds numbers \(double\)"),
        ([["a"] * 3, ["a", 1]], "partition 1: a column must hold values of one type"),
        ([["a"] * 3, [1, 2]], r"column 'g' \(group\) must hold the same in all partitions; it holds text and whole"),
        ([[True] * 3, [1, 2]], r"column 'g' \(group\) must hold the same .*; it holds booleans and whole numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            tables.calibrate(object_frame(dask_engine, *groups), **columns)


def test_other_columns_of_spark_are_kept_as_they_are(spark_engine):
    """Times, dates, decimals, lists and names with dots and backticks."""
    query = """
        SELECT 1.0D AS `a.b``c`, 2.0D AS y, 'g' AS g, TIMESTAMP '2024-05-06 07:08:09.123456' AS t, DATE '1999-12-31' AS d,
               CAST('1.25' AS DECIMAL(10, 2)) AS m, ARRAY(1, 2) AS l, CAST(NULL AS STRING) AS n
    """
    frame = spark_engine.session.sql(query)
    calibration = tables.calibrate(pa.table({"a.b`c": np.zeros(30), "y": np.arange(30.0)}), target="y", center="a.b`c")
    found = tables.predict(frame, calibration)
    assert [field.dataType for field in found.schema][:-2] == [field.dataType for field in frame.schema]
    assert found.collect()[0][:-2] == frame.collect()[0][:]
    assert tables.calibrate(frame, target="y", center="a.b`c").sizes == {"all": 1}


def test_spark_takes_names_in_any_case_for_the_same(spark_engine):
    """So a column Lower gets another name, too."""
    calibration = tables.calibrate(table(), **COLUMNS)
    frame = spark_engine.frame([with_value(table(20), "g", 0, "a")]).withColumnRenamed("y", "Lower")
    found = tables.predict(frame, calibration)
    assert found.columns == ["table_Lower", "c", "s", "g", "lower", "upper"]
    assert found.select("lower").count() == 20


def test_changed_data_is_an_error(dask_engine):
    """The sample of an audit has a place for each row."""
    import dask
    import dask.dataframe as dd

    calls = []

    def partition(_):
        calls.append(1)
        whole = audit_table(100, 0).to_pandas()
        return whole if len(calls) < 2 else whole.iloc[:90]

    frame = dd.from_map(partition, [0], meta=audit_table(1, 0).to_pandas().iloc[:0])
    with dask.config.set(scheduler="synchronous"), pytest.raises(RuntimeError, match="the data changed while it was"):
        tables.audit(frame, target="y", lower="low", upper="high")
