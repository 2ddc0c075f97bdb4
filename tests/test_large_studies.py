"""Studies of tables in batches: a sample fits the model, and every other row calibrates it, half of them after a test."""

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from evencover import (
    ByFeature,
    ByGroup,
    ByPrediction,
    BySpread,
    ConformalRegressor,
    Groups,
    IntervalDistance,
    Marginal,
    Normalized,
    Product,
    Residual,
    TooFewRowsWarning,
    TwoTails,
    audit,
)
from evencover.models import NeighborSpread, WithSpread
from evencover.quantiles import level_fraction
from evencover.studies import Plan, TableError, TableWarning, study
from evencover.tables.files import read_table
from evencover.taxonomies import ByTarget
from tests.canonical_studies import light_linear_model
from tests.command_line import run_command_line
from tests.report_pages import cells_of, few_levels, levels_of, page_at, short_report_page

LINEAR = Plan("linear", Normalized(), BySpread(3), seed=3)


def table(n=6000, seed=0, *, positive=False):
    """Return features, one of them text with missing values, an id, and a target whose noise depends on a feature."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.random(n)
    word = rng.choice(["u", "v", "w"], n, p=[0.6, 0.396, 0.004])
    y = x + (word == "u") + (0.3 + z) * rng.normal(size=n)
    return pa.table(
        {
            "id": [f"row {row:06}" for row in range(n)],
            "x": x,
            "z": pa.array(z, mask=rng.random(n) < 0.02),
            "word": word,
            "y": np.round(10 + np.abs(y)) if positive else y,
        }
    )


@pytest.fixture(autouse=True, scope="module")
def quick_studies():
    """Neither models nor reports are the point here."""
    with few_levels(), light_linear_model():
        yield


@pytest.fixture(scope="module")
def canonical(tmp_path_factory, quick_studies):
    """The study of a table, and its file of intervals."""
    return studied(table(), tmp_path_factory.mktemp("canonical"))


def in_files(folder, whole, sizes, row_group_size=1000):
    """Write a table as files of these sizes, with small row groups."""
    folder.mkdir()
    start = 0
    for position, size in enumerate(sizes):
        pq.write_table(whole.slice(start, size), folder / f"{position}.parquet", row_group_size=row_group_size)
        start += size
    return folder


def studied(data, tmp_path, *, plan=LINEAR, training_rows=400, **settings):
    """Return the study of a table, and its file of intervals."""
    output = tmp_path / "intervals.parquet"
    found = study(data, "y", plan=plan, training_rows=training_rows, output=output, name="table", **settings)
    return found, pq.read_table(output)


def calibration_rows(found, written, n):
    """Return the positions of the rows that are neither in the sample nor tested."""
    used = np.concatenate([found.training, found.calibration, written["row"].to_numpy()])
    assert len(np.unique(used)) == len(used)
    return np.setdiff1d(np.arange(n), used)


def thresholds(learned, level):
    """Return the thresholds of each group; with separate tails, of both."""
    used = learned.used_calibrations((level_fraction(level),))
    return [calibration.threshold(levels) for calibration, levels in used]


PLANS = {
    "groups of the spread": LINEAR,
    "one threshold": Plan("linear", Residual(), Marginal()),
    "separate tails": Plan("linear", Normalized(), BySpread(2), tails="separate"),
    "groups of a column": Plan("linear", Normalized(), ByFeature("word")),
    "combinations": Plan("linear", Normalized(), Product([ByPrediction(2), ByFeature("word")])),
    "selected": Plan("linear"),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.filterwarnings("ignore::evencover.TooFewRowsWarning")
def test_each_other_row_calibrates_or_tests(tmp_path, plan):
    """Thresholds and counts are those of the same rows in memory, bit by bit; new rows have thresholds of all rows."""
    whole = table(3000)
    found, written = studied(in_files(tmp_path / "data", whole, [1200, 0, 1800]), tmp_path, plan=plan)
    assert sum(found.sizes.values()) == 3000
    np.testing.assert_array_equal(np.sort(found.test.positions), np.sort(found.calibration))
    rows = calibration_rows(found, written, 3000)
    assert found.sizes["calibration"] == len(rows)
    assert abs(len(rows) / (len(rows) + len(written)) - 1 / 2) < 0.05
    tested, level, y = written["row"].to_numpy(), plan.level, whole["y"].to_numpy()
    features = whole.select(list(found.regressor.feature_names_in_))
    for regressor, used in ((found.evidence.regressor, rows), (found.regressor, np.concatenate([rows, tested]))):
        score = regressor.calibrator_.nonconformity
        learned = regressor.calibrator.learn(regressor.rows(features.take(used), y[used]), score)
        assert sum(regressor.guarantee_.sizes.values()) == len(used)
        assert regressor.guarantee_.sizes == learned.guarantee.sizes
        assert str(regressor.guarantee_) == str(learned.guarantee)
        np.testing.assert_array_equal(thresholds(regressor.calibrator_, level), thresholds(learned, level))
    intervals = found.evidence.regressor.predict_interval(features.take(tested), level=level)
    np.testing.assert_array_equal(written["lower"].to_numpy(), intervals.lower)
    np.testing.assert_array_equal(written["y"].to_numpy(), y[tested])
    assert written["id"].to_pylist() == whole["id"].take(tested).to_pylist()
    groups = Groups.from_labels(written["group"].to_pylist(), found.groups.labels)
    expected = audit(y[tested], intervals, groups=groups, level=level)
    assert [row.group for row in found.audit.table] == list(found.groups.labels)
    for row, other in zip([*found.audit.table, found.audit.overall], [*expected.table, expected.overall], strict=True):
        for name in ("rows", "coverage", "p_under", "p_over", "width", "score"):
            value = pytest.approx(getattr(other, name), rel=1e-9, abs=0, nan_ok=True)
            assert getattr(row, name) == value, (row.group, name)


@pytest.mark.parametrize("kind", ["one file", "folder", "dataset", "table"])
def test_the_result_does_not_depend_on_files_and_batches(tmp_path, canonical, kind):
    """The use of a row depends on its position only."""
    expected, rows = canonical
    whole = table()
    folder = in_files(tmp_path / "data", whole, [1, 4999, 1000])
    if kind == "one file":
        pq.write_table(whole, tmp_path / "whole.parquet", row_group_size=6000)
    data = {"one file": tmp_path / "whole.parquet", "folder": folder, "dataset": ds.dataset(folder), "table": whole}
    found, other_rows = studied(data[kind], tmp_path)
    assert other_rows.equals(rows)
    assert str(found) == str(expected)
    np.testing.assert_array_equal(found.regressor.calibration_.scores, expected.regressor.calibration_.scores)


@pytest.mark.parametrize(
    ("plan", "training"),
    [
        (PLANS["one threshold"], 400),
        (PLANS["separate tails"], 400),
        (replace(LINEAR, held_out=0.5), 400),
        (replace(LINEAR, held_out=0.04), 400),
        (LINEAR, 334),  # given groups ask for 100 held-out rows each, and get a third of the sample of 500 rows
    ],
)
def test_so_many_training_rows(tmp_path, plan, training):
    """The sample has as many more rows as its model does not see."""
    assert studied(table(), tmp_path, plan=plan)[0].sizes["training"] == training


def test_the_seed_changes_the_sample(tmp_path, canonical):
    first, rows = canonical
    second, other_rows = studied(table(), tmp_path, plan=Plan("linear", Normalized(), BySpread(3), seed=4))
    assert not np.array_equal(first.training, second.training)
    assert rows["row"].to_pylist() != other_rows["row"].to_pylist()


def test_the_sample_is_at_most_half_of_the_table(tmp_path):
    found, _ = studied(table(), tmp_path, training_rows=100_000)
    assert found.sizes["training"] + found.sizes["diagnosis"] == 3000
    assert "a random sample of 3000 rows was used to choose the method and to fit the model (2700 rows)" in str(found)


def test_the_report_has_the_counts_of_all_rows_at_every_level(tmp_path):
    """The slider has the levels at which all rows were counted."""
    found, written = studied(table(), tmp_path, plan=Plan("linear", Normalized(), BySpread(3), level=0.85))
    assert found.evidence.levels == (0.5, 0.8, 0.85, 0.9, 0.95, 0.99)
    text = short_report_page(found)
    n = f"{len(written)}"
    assert text.count(f'"{n}"') + text.count(f">{n}<") >= 1
    assert "The diagnosis part is the rest of the random sample" in text
    assert levels_of(text) == [0.5, 0.8, 0.85, 0.9, 0.95, 0.99]
    whole = table()
    tested = written["row"].to_numpy()
    features = whole.select(list(found.regressor.feature_names_in_)).take(tested)
    for index, level in enumerate(levels_of(text)):
        intervals = found.evidence.regressor.predict_interval(features, level=level)
        share = intervals.covers(whole["y"].to_numpy()[tested]).mean()
        *_, (_, rows, coverage, *_) = cells_of(page_at(text, index), "coverage")
        assert (rows, coverage) == (n, f"{share:.3f}")
        if level == found.plan.level:
            assert found.audit.overall.coverage == pytest.approx(share, rel=1e-12)


def test_ties_at_another_level_change_no_audit(canonical):
    """A report asks for the intervals at all levels at once, which know only that scores are tied at one of them."""
    found, _ = canonical
    own = found.evidence.intervals(0.8)
    tied = replace(own, guarantee=replace(own.guarantee, tied=("low",)))
    audits = (found.evidence.audit(each, found.diagnosis, found.plan) for each in (own, tied))
    first, second = ([(row.low, row.high) for row in each.table] for each in audits)
    assert first == second


def test_a_saved_predictor_has_the_thresholds_of_all_rows(tmp_path, canonical):
    found, _ = canonical
    found.regressor.save(tmp_path / "predictor")
    loaded = ConformalRegressor.load(tmp_path / "predictor")
    new = table(50, seed=1).select(["x", "z", "word"])
    np.testing.assert_array_equal(loaded.predict_interval(new).lower, found.regressor.predict_interval(new).lower)
    assert sum(loaded.guarantee_.sizes.values()) == found.sizes["calibration"] + found.sizes["test"]


def test_targets_outside_the_support_are_counted_in_all_rows(tmp_path):
    """A negative target among whole numbers, which the sample does not contain; it is warned of once."""
    whole = table(positive=True)
    _, written = studied(whole, tmp_path)
    position = int(written["row"][7].as_py())
    values = whole["y"].to_numpy().copy()
    values[position] = -3.0
    changed = whole.set_column(whole.schema.get_field_index("y"), "y", pa.array(values))
    with pytest.warns(TableWarning, match="1 of .* test targets are outside the support"):
        found, _ = studied(changed, tmp_path)
    assert any("1 of" in text and "outside the support" in text for text in found.warnings)


def test_groups_with_too_few_rows_are_warned_of_once(tmp_path):
    whole = table(1500)
    with pytest.warns(TooFewRowsWarning) as caught:
        studied(whole, tmp_path, plan=Plan("linear", Normalized(), ByFeature("word")), training_rows=100)
    assert len(caught) == 1
    assert "w" in str(caught[0].message)


def test_rows_without_a_target_get_intervals_are_left_out_or_an_error(tmp_path):
    whole = table()
    values = whole["y"].to_pylist()
    values[5500] = values[5700] = None
    folder = in_files(tmp_path / "data", whole.set_column(4, "y", pa.array(values)), [3000, 3000])
    message = r"1\.parquet: target: column 'y' has no value in 2 of 3000 rows \(the first in row 2500, counted from 0\)"
    with pytest.raises(TableError, match=message):
        studied(folder, tmp_path, missing_target="error")
    assert not (tmp_path / "intervals.parquet").exists()
    dropped, rows = studied(folder, tmp_path, missing_target="drop")
    other = tmp_path / "intervals_without_target.parquet"
    assert not other.exists()
    found, same_rows = studied(folder, tmp_path)
    assert same_rows.equals(rows)
    for each, said in ((dropped, "They were left out"), (found, "They neither fitted nor tested")):
        assert (sum(each.sizes.values()), each.n_without_target) == (5998, 2)
        assert f"Rows without a target: 2 of 6000. {said}" in str(each)
    written = pq.read_table(other)
    assert written["row"].to_pylist() == [5500, 5700]
    assert written["id"].to_pylist() == whole["id"].take([5500, 5700]).to_pylist()
    features = whole.select(list(found.regressor.feature_names_in_)).take([5500, 5700])
    intervals = found.regressor.predict_interval(features, level=0.9)  # with the thresholds of all rows
    np.testing.assert_array_equal(written["upper"].to_numpy(), intervals.upper)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"plan": Plan("linear", calibration="cross")}, "plan must not have calibration='cross', nor groups of the"),
        ({"plan": Plan("linear", Residual(), ByTarget([0.0]))}, "plan must not have calibration='cross', nor groups"),
        ({"training_rows": 0}, "training_rows must be a whole number, 10 or more; got 0"),
        ({"drop": ["nothing"]}, "drop: no column named 'nothing'"),
    ],
)
def test_wrong_settings(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        studied(table(600), tmp_path, **settings)
    assert not list(tmp_path.iterdir())


def test_wrong_columns_and_files(tmp_path):
    whole = table(600)
    with pytest.raises(ValueError, match="no column named 'Y'; the columns are"):
        study(whole, "Y", output=tmp_path / "out.parquet")
    with pytest.raises(ValueError, match=r"output must be a \.parquet or \.csv file; got 'out.txt'"):
        study(whole, "y", output=tmp_path / "out.txt")
    with pytest.raises(FileNotFoundError, match="output must be in a folder that exists; there is no"):
        study(whole, "y", output=tmp_path / "nowhere" / "out.parquet")
    with pytest.raises(ValueError, match="data must have at least 100 rows to be studied in batches; got 99"):
        study(whole.slice(0, 99), "y", output=tmp_path / "out.parquet")
    lists = with_column(whole, "list", [[1, 2]] * 600)
    with pytest.raises(
        ValueError, match=r"output must be a \.parquet file, because \.csv files cannot hold the lists in"
    ):
        study(lists, "y", output=tmp_path / "out.csv", drop=["list"])
    folder = in_files(tmp_path / "data", whole, [300, 300])
    with pytest.raises(ValueError, match="output must not be in the folder of the data"):
        study(folder, "y", output=folder / "out.parquet")
    pq.write_table(whole.set_column(1, "x", pa.array(["a"] * 600)), folder / "2.parquet")
    with pytest.raises(ValueError, match=r"2\.parquet: column 'x' holds text, but in 0\.parquet it holds numbers"):
        study(folder, "y", output=tmp_path / "out.parquet")
    pq.write_table(whole.drop_columns(["z"]), folder / "2.parquet")
    with pytest.raises(ValueError, match=r"2\.parquet: no column named 'z'"):
        study(folder, "y", output=tmp_path / "out.parquet")


def test_problems_of_the_sample_say_that_rows_are_those_of_a_sample(tmp_path):
    whole = table(600).append_column("list", pa.array([[1, 2]] * 600))
    with pytest.raises(TableError, match=r"in row 0 \(counted from 0\) \(in a random sample of 300 rows\)"):
        studied(whole, tmp_path)


def with_column(whole, name, values):
    """Return a table with other values in a column, or with a new column."""
    values = values if isinstance(values, pa.Array) else pa.array(values)
    if name not in whole.column_names:
        return whole.append_column(name, values)
    return whole.set_column(whole.column_names.index(name), name, values)


def test_batches_and_files_may_have_one_target_or_none(tmp_path):
    """Only all rows together must vary."""
    whole = table()
    zeros = np.where(whole["y"].to_numpy() < 0.5, 0.0, whole["y"].to_numpy())
    order = np.argsort(zeros, kind="stable")
    in_order = with_column(whole, "y", zeros).take(order)
    found, _ = studied(in_files(tmp_path / "sorted", in_order, [500, 2, 5498]), tmp_path)
    assert sum(found.sizes.values()) == 6000
    values = zeros[order].tolist()
    missing = with_column(in_order, "y", pa.array([None] * 1500 + values[1500:], pa.float64()))
    folder = in_files(tmp_path / "missing", missing, [700, 800, 4500])
    pq.write_table(with_column(missing.slice(0, 700), "y", pa.nulls(700)), folder / "0.parquet")
    found, _ = studied(folder, tmp_path, missing_target="drop")
    assert sum(found.sizes.values()) == 4500
    notes = [note for note in found.notes if "ows without a target" in note]
    assert notes == [
        "Rows without a target: 1500 of 6000. They were left out, and the guarantee is for rows whose target can be known."
    ]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_other_columns_keep_their_types(tmp_path, suffix):
    """Also if the first batches have no value; whole numbers are not rounded."""
    whole = with_column(table(), "code", pa.array([None] * 3000 + [2**60 + 1] * 3000, pa.int64()))
    whole = with_column(whole, "note", pa.array([None] * 3000 + ["late"] * 3000, pa.string()))
    folder = in_files(tmp_path / "data", whole, [2000, 4000])
    pq.write_table(with_column(whole.slice(0, 2000), "note", pa.nulls(2000)), folder / "0.parquet")
    output = tmp_path / f"out.{suffix}"
    study(folder, "y", plan=LINEAR, training_rows=400, output=output, drop=["code", "note"])
    written = (pq.read_table if suffix == "parquet" else pa_csv.read_csv)(output)
    late = np.array(written["row"]) >= 3000
    assert set(written["code"].filter(late).to_pylist()) == {2**60 + 1}
    assert written["code"].filter(~late).null_count == (~late).sum()
    assert set(written["note"].filter(late).to_pylist()) == {"late"}


@pytest.mark.parametrize(("exact", "quote"), [(False, "'"), (True, "")])
@pytest.mark.filterwarnings("ignore:text that a spreadsheet would run")
def test_formulas_in_a_csv_file(tmp_path, exact, quote):
    whole = with_column(table(), "=note", pa.array(["=A1", "-5"] * 3000))
    output = tmp_path / "out.csv"
    study(whole, "y", plan=LINEAR, training_rows=400, output=output, drop=["=note"], exact_text=exact)
    written = pa_csv.read_csv(output)
    assert set(written[f"{quote}=note"].to_pylist()) == {f"{quote}=A1", "-5"}
    assert written.schema.field("lower").type == pa.float64()


def test_misses_of_separate_tails_are_those_of_all_test_rows(tmp_path):
    plan = Plan("linear", Normalized(), BySpread(2), tails="separate")
    found, written = studied(table(), tmp_path, plan=plan)
    y, groups = written["y"].to_numpy(), np.array(written["group"].to_pylist())
    below, above = y < written["lower"].to_numpy(), y > written["upper"].to_numpy()
    expected = {label: (below[groups == label].mean(), above[groups == label].mean()) for label in ("low", "high")}
    misses = found.evidence.misses(found.intervals_at(0.9))
    assert misses == {**expected, "all rows": (below.mean(), above.mean())}
    assert f"all rows {below.mean():.1%} and {above.mean():.1%}".replace("%", " %") in str(found)


def test_wrong_features_and_labels_name_the_file(tmp_path):
    """Also those outside the sample."""
    whole = with_column(table(), "q", [f"{row % 28 + 1}.1.2020" for row in range(6000)])
    found, _written = studied(whole, tmp_path, training_rows=100)
    sampled = {*found.training.tolist(), *found.calibration.tolist()}
    row = next(row for row in range(3600, 6000) if row not in sampled)
    values = whole["q"].to_pylist()
    values[row] = "oops"
    folder = in_files(tmp_path / "data", with_column(whole, "q", values), [3000, 3000], row_group_size=500)
    with pytest.raises(
        ValueError,
        match=r"^1\.parquet, \d+ rows between row 500 \(counted from 0\) and row 999 \(counted from 0\): column 'q' must hold dates.*got 'oops'",
    ):
        studied(folder, tmp_path, training_rows=100)
    words = whole["word"].to_pylist()
    words[row] = None
    folder = in_files(tmp_path / "words", with_column(whole, "word", words), [3000, 3000])
    message = rf"^1\.parquet: groups: column 'word' must have a label in every row; row {row - 3000} \(counted from 0\)"
    with pytest.raises(ValueError, match=message):
        studied(folder, tmp_path, plan=PLANS["groups of a column"])


def test_text_among_numbers_outside_the_sample_is_missing_with_a_warning(tmp_path):
    whole = with_column(table(), "q", [str(row % 7) for row in range(6000)])
    found, _written = studied(whole, tmp_path, training_rows=100)
    sampled = {*found.training.tolist(), *found.calibration.tolist()}
    values = whole["q"].to_pylist()
    for row in [row for row in range(6000) if row not in sampled][::1000]:
        values[row] = f"oops {row}"
    with pytest.warns(UserWarning, match="'q': values that are not numbers count as missing, such as 'oops") as caught:
        studied(with_column(whole, "q", values), tmp_path, training_rows=100)
    assert sum("oops" in str(each.message) for each in caught) == 1


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("q", [["a"] * 300, [1.0] * 300], r"1\.parquet: column 'q' holds numbers, but in 0\.parquet it holds text"),
        ("q", [pa.nulls(300), ["a"] * 300, [1.0] * 300], r"2\.parquet: column 'q' holds numbers, but in 1\.parquet"),
        ("w", [[1] * 300, [1.0] * 300], r"1\.parquet: column 'w' holds numbers, but in 0\.parquet it holds whole"),
        ("q", [None, [1.0] * 300], r"1\.parquet: no column named 'q'"),
        ("q", [[1.0] * 300, None], r"1\.parquet: no column named 'q'"),
    ],
)
def test_files_must_have_the_same_columns(tmp_path, name, columns, message):
    whole = table(300).drop_columns(["id"])
    (tmp_path / "data").mkdir()
    for position, values in enumerate(columns):
        part = whole if values is None else with_column(whole, name, values)
        pq.write_table(part, tmp_path / "data" / f"{position}.parquet")
    plan = Plan("linear", Normalized(), ByFeature("w")) if name == "w" else LINEAR
    with pytest.raises(ValueError, match=message):
        study(tmp_path / "data", "y", plan=plan, output=tmp_path / "out.parquet")


def test_an_interruption_leaves_no_file(tmp_path):
    def interrupt(step):
        if step.startswith("testing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        studied(table(), tmp_path, progress=interrupt)
    assert not list(tmp_path.iterdir())


def test_progress_counts_the_rows(tmp_path):
    steps = []
    studied(in_files(tmp_path / "data", table(), [3000, 3000]), tmp_path, progress=steps.append)
    for step in ("sampling", "calibrating", "testing"):
        assert f"{step}: 6000 of 6000 rows" in steps


class TestCalibrationInParts:
    """`calibrate_batches` equals `calibrate` on all rows."""

    def fitted(self, **settings):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 2))
        y = X[:, 0] + (0.5 + np.abs(X[:, 1])) * rng.normal(size=600)
        model = ConformalRegressor(
            WithSpread(DecisionTreeRegressor(max_depth=3, random_state=0), NeighborSpread()), random_state=0, **settings
        ).fit(X[:300], y[:300])
        return model, X[300:], y[300:]

    @pytest.mark.parametrize(
        "calibrator",
        [None, TwoTails(BySpread(edges=[1.1])), ByGroup(BySpread(edges=[1.1]), bits=10), TwoTails(Marginal())],
    )
    @pytest.mark.parametrize("score", [Normalized(), Normalized(floor=0.1), IntervalDistance()])
    def test_thresholds_and_p_values_are_equal(self, calibrator, score):
        model, X, y = self.fitted(nonconformity=score, calibrator=calibrator)
        expected = model.calibrate(X, y).predict_interval(X, level=[0.5, 0.9])
        p_values = model.p_values(X, y)
        model.calibrate_batches((X[part], y[part]) for part in (slice(0, 1), slice(1, 120), slice(120, 300)))
        found = model.predict_interval(X, level=[0.5, 0.9])
        np.testing.assert_array_equal(found.lower, expected.lower)
        np.testing.assert_array_equal(found.upper, expected.upper)
        np.testing.assert_array_equal(model.p_values(X, y), p_values)

    @pytest.mark.parametrize(
        ("calibrator", "n_bytes"), [(ByGroup(BySpread(edges=[1.1])), 16), (TwoTails(BySpread(edges=[1.1])), 48)]
    )
    def test_scores_and_groups_take_16_bytes_a_row(self, calibrator, n_bytes):
        """Three times as many with separate tails; half as much again once the scores were sorted for a prediction."""
        model, X, y = self.fitted(nonconformity=Normalized(), calibrator=calibrator)
        parts = [(np.tile(X, (20, 1)), np.tile(y, 20))] * 10
        tracemalloc.start()
        model.calibrate_batches(parts)
        held = [tracemalloc.get_traced_memory()[0]]
        model.predict_interval(X[:9])
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        np.testing.assert_allclose(np.array(held) / (200 * len(y)), [n_bytes, 1.5 * n_bytes], rtol=0.1)

    def test_groups_that_are_learned_are_an_error(self):
        model, X, y = self.fitted(nonconformity=Normalized(), taxonomy=BySpread(2))
        with pytest.raises(
            ValueError, match=r"all parts must have the same groups; give them, as in BySpread\(edges=\[...\]\)"
        ):
            model.calibrate_batches([(X[:150], y[:150]), (X[150:], y[150:])])

    def test_other_errors(self):
        model, X, y = self.fitted()
        with pytest.raises(
            ValueError, match=r"parts must be \(X, y\) or \(X, y, clusters\), at least one of which has rows; got none"
        ):
            model.calibrate_batches([])
        from sklearn.exceptions import NotFittedError

        with pytest.raises(NotFittedError, match="not fitted yet"):
            ConformalRegressor(LinearRegression()).calibrate_batches([(X, y)])
        from evencover import diagnose

        model.calibrate_batches([(X, y)])
        with pytest.raises(ValueError, match="model has no calibration rows, because it was loaded from a file or cal"):
            diagnose(model)


class TestCommandLine:
    """`evencover run` on large files."""

    @pytest.fixture(autouse=True)
    def small_limit(self, monkeypatch):
        monkeypatch.setattr("evencover.cli.run_inputs._MAX_ROWS_IN_MEMORY", 1000)
        monkeypatch.setattr("evencover.cli.run_inputs._ROWS_PER_TRAINING_ROW", 0)

    def run(self, capsys, *arguments):
        return run_command_line(capsys, "run", *map(str, arguments), "--model", "linear", "--score", "normalized")

    def test_its_intervals_are_not_written_to_excel(self, capsys, tmp_path):
        pq.write_table(table(1500), tmp_path / "data.parquet")
        error = self.run(capsys, tmp_path / "data.parquet", "--target", "y", "--intervals", "xlsx")[2]
        assert "intervals must be csv or parquet for a table that is read in batches; got xlsx" in error

    @pytest.mark.parametrize("kind", ["parquet", "folder", "csv"])
    def test_a_large_table_is_studied_in_batches(self, capsys, tmp_path, kind):
        """The text says so; the predictor of the folder predicts new rows."""
        whole, output = table(1500), tmp_path / "out"
        data = tmp_path / f"data.{kind}"
        if kind == "parquet":
            pq.write_table(whole, data)
        elif kind == "csv":
            pa_csv.write_csv(whole, data)
        else:
            in_files(data, whole, [700, 800])
        options = ("--target", "y", "--groups", "column:word", "--level", "0.8", "--output", output)
        status, out, error = self.run(capsys, data, *options)
        assert status in (0, 3, 4), error
        assert "a random sample of 750 rows was used to choose the method" in out
        assert {path.name for path in output.iterdir()} == {
            "report.html",
            "results.json",
            "predictor.evencover",
            f"intervals.{'csv' if kind == 'csv' else 'parquet'}",
        }
        read = pa_csv.read_csv if kind == "csv" else pq.read_table
        written = read(next(output.glob("intervals.*")))
        numbers = np.array(written["row"]) - 2 * (kind == "csv")  # the header of a text file is row 1
        assert written["id"].to_pylist() == whole["id"].take(numbers).to_pylist()
        assert set(written.column_names) >= {"id", "row", "prediction", "lower", "upper", "group", "covered", "y"}
        pq.write_table(table(20, seed=1), tmp_path / "new.parquet")
        new = run_command_line(capsys, "predict", str(output), str(tmp_path / "new.parquet"))
        assert new[0] == 0
        assert len(new[1].splitlines()) == 21

    def test_a_table_of_the_limit_is_studied_in_memory(self, capsys, tmp_path):
        pq.write_table(table(1000), tmp_path / "data.parquet")
        _, out, _ = self.run(capsys, tmp_path / "data.parquet", "--target", "y", "--output", tmp_path / "out")
        assert "900 rows to train, 100 held out to calibrate and to test in turn" in out

    def test_a_table_is_in_memory_if_half_of_it_had_too_few_training_rows(self, capsys, tmp_path, monkeypatch):
        """Otherwise, a table that is read in batches would have fewer of them than a smaller table."""
        monkeypatch.setattr("evencover.cli.run_inputs._ROWS_PER_TRAINING_ROW", 3)
        pq.write_table(table(1500), tmp_path / "data.parquet")
        for n, text in ((500, "500 rows to train, 1000 held out"), (499, "499 training, 100 diagnosis")):
            options = ("--target", "y", "--output", tmp_path / str(n), "--training-rows", n)
            assert text in self.run(capsys, tmp_path / "data.parquet", *options)[1]

    def test_a_small_folder_is_studied_in_memory(self, capsys, tmp_path):
        in_files(tmp_path / "data", table(800), [300, 500])
        _, out, _ = self.run(capsys, tmp_path / "data", "--target", "y", "--output", tmp_path / "out")
        assert "700 rows to train, 100 held out to calibrate and to test in turn" in out
        assert (tmp_path / "out" / "intervals.parquet").exists()

    def test_time_needs_the_whole_table(self, capsys, tmp_path):
        pq.write_table(table(1500), tmp_path / "data.parquet")
        options = ("--target", "y", "--time", "x", "--output", tmp_path / "out")
        _, out, _ = self.run(capsys, tmp_path / "data.parquet", *options)
        assert "1200 training, 150 calibration, 150 test rows" in out
        folder = in_files(tmp_path / "folder", table(1500), [1500])
        status, _, error = self.run(capsys, folder, *options)
        assert status == 1
        assert "clusters, time, calibration=cross and copies=drop need one file, read as a whole; got a folder" in error

    def test_errors_name_options(self, capsys, tmp_path):
        whole = table(1500)
        values = whole["y"].to_pylist()
        values[17] = None
        pq.write_table(whole.set_column(4, "y", pa.array(values)), tmp_path / "data.parquet")
        status, _, error = self.run(capsys, tmp_path / "data.parquet", "--target", "y", "--output", tmp_path / "out")
        assert status in (0, 3)
        assert (tmp_path / "out" / "intervals_without_target.parquet").exists()
        options = ("--target", "y", "--missing-target", "error", "--output", tmp_path / "other")
        status, _, error = self.run(capsys, tmp_path / "data.parquet", *options)
        assert status == 1
        assert "data.parquet: target: column 'y' has no value in 1 of 1500 rows (the first in row 17" in error
        assert "--missing-target predict or --missing-target drop" in error
        assert not (tmp_path / "other").exists()
        status, _, error = self.run(capsys, tmp_path / "data.parquet", "--target", "Y")
        assert "no column named 'Y'; did you mean 'y'?" in error

    def test_many_groups_are_an_error(self, capsys, tmp_path):
        pq.write_table(table(1500), tmp_path / "data.parquet")
        options = ("--target", "y", "--groups", "column:id", "--output", tmp_path / "out")
        _, _, error = self.run(capsys, tmp_path / "data.parquet", *options)
        assert re.search("groups: column 'id' must have at most 50 different values.*got 1500", error)


def test_rows_of_a_large_text_file_have_its_numbers(tmp_path):
    """Also in errors and in the file of intervals: the header is row 1, and the third row is blank."""
    whole = table(1500)
    lines = whole.to_pandas().to_csv(index=False).splitlines()
    (tmp_path / "data.csv").write_text("\n".join([*lines[:2], "", *lines[2:]]), encoding="utf-8")
    read = read_table(tmp_path / "data.csv")
    _, written = studied(read, tmp_path, training_rows=300)
    numbers = np.array(written["row"])
    assert written["id"].to_pylist() == whole["id"].take(numbers - np.where(numbers > 3, 3, 2)).to_pylist()
    values = [None if row == 700 else value for row, value in enumerate(read["y"].to_pylist())]
    missing = read.set_column(read.column_names.index("y"), "y", pa.array(values))
    with pytest.raises(TableError, match=r"has no value in 1 of 1500 rows \(the first in row 703 of the file\)"):
        studied(missing, tmp_path, training_rows=300, missing_target="error")
    words = [None if row == 700 else value for row, value in enumerate(read["word"].to_pylist())]
    missing = read.set_column(read.column_names.index("word"), "word", pa.array(words))
    with pytest.raises(ValueError, match="column 'word' must have a label in every row; row 703 of the file has none"):
        studied(missing, tmp_path, plan=PLANS["groups of a column"], training_rows=300)


def test_the_second_file_is_no_file_of_the_data_and_none_of_an_earlier_study(tmp_path):
    """A study without rows that lack a target leaves no file with those of an earlier one."""
    whole = table(1500)
    values = [None, *whole["y"].to_pylist()[1:]]
    missing = whole.set_column(whole.column_names.index("y"), "y", pa.array(values))
    data = tmp_path / "intervals_without_target.parquet"
    pq.write_table(missing, data)
    with pytest.raises(ValueError, match=r"output must not be a file of the data; got .*intervals_without_target"):
        studied(data, tmp_path, training_rows=300)
    assert pq.read_table(data).equals(missing)
    data.unlink()
    for study_of, is_there in ((missing, True), (whole, False)):
        studied(study_of, tmp_path, training_rows=300)
        assert data.exists() == is_there
