"""What columns are is decided on the rows that a model is fitted on: no other row changes what the model sees."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

from evencover import CrossConformalRegressor, Marginal, Residual
from evencover.models import Recognition, TableEncoder
from evencover.models.encoding import encoder_of
from evencover.studies import Plan, TableError, study
from tests.canonical_studies import light_linear_model
from tests.command_line import run_command_line

QUICK = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=Marginal(), held_out=0.6)
CROSS = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=Marginal(), calibration="cross")
DIFFERS = "rows suggest another use of: "


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": x + rng.normal(size=n)})


def with_column(n, name, held_out, inside, outside):
    """Return a table with a column that has values `inside`, and `outside` in the held-out rows."""
    values = np.empty(n, dtype=object)
    others = np.setdiff1d(np.arange(n), held_out)
    values[others] = inside(np.arange(len(others)))
    values[held_out] = outside(np.arange(len(held_out)))
    return table(n).assign(**{name: pd.Series(values).infer_objects()})


@cache
def training_rows():
    """Return the training rows of a table of 200 rows, which depend on the seed alone, and the other rows."""
    training = study(table(200), "y", plan=QUICK).training
    return training, np.setdiff1d(np.arange(200), training)


@cache
def first_fold():
    """Return the rows that train the first model of a table of 60 rows, and those that calibrate it."""
    return study(table(60), "y", plan=CROSS).regressor.cv[0]


def use_by_all_rows(whole, name):
    """Return how a model that is fitted on all rows of a table uses a column."""
    return Recognition().kind(name, np.asarray(whole[name])).use


@cache
def cross_study(change):
    """Return a cross-fitted study, and its table, before (0) or after (1) a change of the rows of the first fold."""
    whole = table(60).assign(name=texts("n", range(60)))
    for name, (inside, *changes) in OF_FOLDS.items():
        whole[name] = with_column(60, name, first_fold()[1], inside, changes[change])[name]
    return study(whole, "y", plan=CROSS), whole


def texts(prefix, numbers):
    return [f"{prefix}{number}" for number in numbers]


# A name, the values in training rows, and in held-out rows before and after a change. All but the last five changes
# would change what the column is by all rows.
CASES = {
    "text that differs": ("c", lambda i: texts("a", i), lambda i: texts("b", i), lambda i: texts("b", i % 5)),
    "categories": ("c", lambda i: texts("a", i % 4), lambda i: texts("a", i % 4), lambda i: texts("b", i)),
    "row numbers": ("c", lambda i: i, lambda i: i + 80, lambda i: i + 1080),
    "an id": ("patient_id", lambda i: i % 64 + 500, lambda i: i + 1000, lambda i: i % 9 + 1000),
    "numbers like dates": ("c", lambda i: 20200101 + i % 4, lambda i: 20200101 + i % 4, lambda i: 20200101 + i % 25),
    "a month": (
        "c",
        lambda i: texts("2020-01-1", i % 4),
        lambda i: ["2020-01-15"] * len(i),
        lambda i: ["2021-07-15"] * len(i),
    ),
    "a constant": ("c", lambda i: np.full(len(i), 3.0), lambda i: np.full(len(i), 3.0), lambda i: i + 0.5),
    "missing values": ("c", lambda i: i % 7 + 0.5, lambda i: i % 7 + 0.5, lambda i: [None] * len(i)),
    "cells that are no numbers": (
        "c",
        lambda i: texts("", i % 7 + 0.5),
        lambda i: texts("", i % 7 + 0.5),
        lambda i: ["bad", "worse", *texts("", i[2:])],
    ),
    "a unit": (
        "c",
        lambda i: [f"{n % 7} kg" for n in i],
        lambda i: [f"{n} kg" for n in i],
        lambda i: ["5 kg"] * len(i),
    ),
}


def assert_same_model(before, after, rows):
    """Check that two fitted pipelines use the same columns in the same way, and predict the same for given rows."""
    assert before[0].columns_ == after[0].columns_
    np.testing.assert_array_equal(*(model.predict(rows[list(model.feature_names_in_)]) for model in (before, after)))


@pytest.mark.parametrize("case", CASES)
def test_held_out_rows_do_not_change_the_model_of_a_split(case):
    name, inside, *changes = CASES[case]
    training, held_out = training_rows()
    parts_of_table = [with_column(200, name, held_out, inside, outside) for outside in changes]
    before, after = (study(each, "y", plan=QUICK) for each in parts_of_table)
    assert_same_model(
        before.regressor.estimator_.estimator, after.regressor.estimator_.estimator, parts_of_table[0].iloc[training]
    )
    assert before.left_out == after.left_out
    by_all = [use_by_all_rows(each, name) for each in parts_of_table]
    changed = list(CASES).index(case) < len(CASES) - 5
    assert (by_all[0] != by_all[1]) == changed
    assert sum(DIFFERS in note for found in (before, after) for note in found.notes) == changed


def test_held_out_rows_do_not_change_what_is_selected():
    """The score and the groups are selected by models of folds, each of which decides on its own rows."""
    plan = Plan(model="linear", held_out=0.6)
    name, inside, *changes = CASES["text that differs"]
    _, held_out = training_rows()
    with light_linear_model():
        found = [study(with_column(200, name, held_out, inside, outside), "y", plan=plan) for outside in changes]
    assert found[0].method == found[1].method
    assert str(found[0].recommendation) == str(found[1].recommendation)


# With 60 rows, of which a fold holds out six: columns that six rows change by all rows. The texts differ; the numbers
# are those of the rows.
OF_FOLDS = {
    "c": (lambda i: texts("a", i % 26), lambda i: texts("b", i), lambda i: texts("a", i)),
    "number": (lambda i: i, lambda i: i + 54, lambda i: i + 1054),
}


def test_rows_of_a_fold_do_not_change_its_model():
    (before, whole), (after, changed) = (cross_study(change) for change in (0, 1))
    assert all(use_by_all_rows(whole, name) != use_by_all_rows(changed, name) for name in OF_FOLDS)
    np.testing.assert_array_equal(before.regressor.cv[0][1], first_fold()[1])
    models = [found.regressor.estimators_[0] for found in (before, after)]
    assert_same_model(*models, whole.iloc[first_fold()[0]])


def test_every_fold_decides_for_itself():
    """A fold that holds out rows with rare texts has fewer of them, and its model uses the column."""
    found, whole = cross_study(0)
    used = [[column.name for column in model[0].columns_] for model in found.regressor.estimators_]
    assert used[0] == ["x", "c"]
    assert ["x"] in used
    assert set(found.left_out) == {"name", "number"}
    (note,) = (note for note in found.notes if DIFFERS in note)
    assert f"{DIFFERS}c (used as it is or left out; by all rows left out)" in note
    joined = encoder_of(found.regressor)
    assert [column.name for column in joined.columns_] == ["x", "c"]
    new = whole[["x", "c"]].assign(c="new")
    assert [(each.name, each.example) for each in joined.outside(new).columns] == [("c", "new")]


def large_study(whole, folder):
    data = pa.Table.from_pandas(whole, preserve_index=False)
    return study(data, "y", plan=QUICK, training_rows=80, output=folder / "intervals.parquet")


@cache
def training_rows_of_a_large_table():
    """Return the training rows of a table of 1000 rows, which depend on the seed alone."""
    with TemporaryDirectory() as folder:
        return large_study(table(1000), Path(folder)).training


@pytest.mark.parametrize("case", ["text that differs", "categories", "an id", "numbers like dates"])
def test_other_rows_do_not_change_the_model_of_a_large_table(case, tmp_path):
    """The training rows of the sample decide."""
    name, inside, *changes = CASES[case]
    training = training_rows_of_a_large_table()
    held_out = np.setdiff1d(np.arange(1000), training)
    parts_of_table = [with_column(1000, name, held_out, inside, outside) for outside in changes]
    before, after = (large_study(each, tmp_path) for each in parts_of_table)
    rows = parts_of_table[0].iloc[training]
    assert before.columns == after.columns
    assert before.left_out == after.left_out
    np.testing.assert_array_equal(
        *(found.regressor.predict(rows[list(found.regressor.feature_names_in_)]) for found in (before, after))
    )


class TestValuesThatTrainingRowsDoNotHave:
    """Held-out rows pass through the same function as new rows: a value that it cannot read is an error."""

    def test_words_among_numbers(self):
        day = np.arange(200)
        code = [str(number % 7) if number < 80 else f"w{number % 3}" for number in day]
        whole = table(200).assign(day=day + 0.5, code=code)
        with pytest.raises(TableError) as error:
            study(whole, "y", plan=QUICK, time="day")
        problem, _, remedies = str(error.value).partition(": use ")
        assert [fact for fact in ("'code'", "numbers", "'w2' in row 80") if fact not in problem] == []
        assert remedies == "drop=['code'] or categorical=['code']"
        found = study(whole, "y", plan=QUICK, time="day", categorical=["code"])
        assert found.columns[-1].categories is not None

    def test_days_that_show_which_number_is_the_month(self):
        day = np.arange(200)
        sold = [f"{1 + number % 12:02}/01/2020" if number < 80 else f"{13 + number % 9}/01/2020" for number in day]
        whole = table(200).assign(day=day + 0.5, sold=sold)
        with pytest.raises(
            TableError,
            match=r"dates in the format %m/%d/%Y in the rows .* '21/01/2020' in row 80 .*: use day_first=True or drop=",
        ):
            study(whole, "y", plan=QUICK, time="day")
        assert study(whole, "y", plan=QUICK, time="day", day_first=True).columns[-1].pattern == "%d/%m/%Y"

    def test_rows_without_a_target_are_numbered_too(self):
        whole = table(200).assign(day=np.arange(200) + 0.5, code=[str(n % 7) if n < 99 else "word" for n in range(200)])
        whole.loc[:9, "y"] = np.nan
        with pytest.raises(TableError, match=r"'word' in row 99 \(counted"):
            study(whole, "y", plan=QUICK, time="day", missing_target="drop")

    def test_numbers_among_numbers_that_are_dates(self):
        """A model of a fold without the other number would read dates, so this is an error for all rows."""
        whole = table(60).assign(sold=20200101 + np.arange(60) % 20)
        whole.loc[7, "sold"] = 0
        with pytest.raises(TableError) as error:
            study(whole, "y", plan=CROSS)
        problem, _, remedies = error.value.for_command_line().partition(": use ")
        facts = "'sold'", "dates such as 20200101", "0 in row 7", "not dates: 1 of 60 values"
        assert [fact for fact in facts if fact not in problem] == []
        assert remedies == "--missing-values 0 or --drop sold or --categorical sold"

    def test_no_column_is_left(self):
        day = np.arange(200)
        whole = table(200)[["y"]].assign(c=[f"n{number if number < 80 else 0}" for number in day], day=day)
        with pytest.raises(
            TableError, match=r"look like ids: c \(in the rows that the model is fitted on, text with 80 "
        ):
            study(whole, "y", plan=QUICK, time="day", drop=["day"])


class TestEncoder:
    def test_it_recognises_columns_in_fit(self):
        whole = pd.DataFrame(
            {
                "number": np.arange(1, 41),
                "sold": [f"{day % 28 + 1}.1.2020" for day in range(40)],
                "size": [f"{size % 7}.5" for size in range(40)],
                "kind": list("ab") * 20,
            }
        )
        encoder = TableEncoder(recognition=Recognition(table_rows=40)).fit(whole[::2])
        assert [(column.name, column.outputs) for column in encoder.columns_] == [
            ("sold", ["sold weekday", "sold elapsed"]),
            ("size", ["size"]),
            ("kind", ["kind=a"]),
        ]
        assert encoder.transform(whole).shape == (40, 4)
        kept = TableEncoder(recognition=Recognition(keep=("number",), unchanged=("size",))).fit(whole)
        assert kept.columns_[0].name == "number"
        assert kept.columns_[2].categories is not None

    def test_a_model_without_features_gets_a_constant(self):
        whole = pd.DataFrame({"name": [f"n{number}" for number in range(20)]})
        encoder = TableEncoder(recognition=Recognition()).fit(whole)
        np.testing.assert_array_equal(encoder.transform(whole), np.zeros((20, 1)))
        assert encoder.get_feature_names_out().tolist() == ["constant"]

    def test_row_numbers_of_some_rows(self):
        """They are told from other whole numbers by the number of rows of the table."""
        some = np.array([1, 3, 6, 8, 10, 12, 13, 16, 19, 21, 23, 24, 27, 29, 31, 33, 35, 38, 39])
        assert Recognition(table_rows=40).kind("c", some).left_out == "row numbers"
        assert Recognition(table_rows=40).kind("c", some + 1).left_out == "row numbers"
        assert not Recognition(table_rows=40).kind("c", np.append(some, 41)).left_out
        assert not Recognition(table_rows=40).kind("c", np.append(some, 3)).left_out
        assert not Recognition().kind("c", some).left_out
        assert not Recognition(table_rows=200).kind("c", some).left_out  # so few can be different by chance


def test_a_new_table_needs_the_columns_that_a_fold_uses(tmp_path, capsys):
    """Ids are not among them."""
    found, whole = cross_study(0)
    new = whole[["x", "c"]]
    assert list(found.regressor.feature_names_in_) == ["x", "c"]
    found.regressor.save(tmp_path / "predictor.evencover")
    new.to_csv(tmp_path / "new.csv", index=False)
    paths = [str(tmp_path / name) for name in ("predictor.evencover", "new.csv", "out.csv")]
    assert run_command_line(capsys, "predict", *paths[:2], "--output", paths[2])[0] == 0
    written = pd.read_csv(paths[2])
    np.testing.assert_allclose(written["lower"], found.regressor.predict_interval(new).lower)
    loaded = CrossConformalRegressor.load(paths[0])
    np.testing.assert_array_equal(loaded.predict(new), found.regressor.predict(new))


def days(n, late):
    """Return n dates as text with days up to the 12th; in some rows they are later, which shows that days are first."""
    rng = np.random.default_rng(1)
    texts = [f"{day:02d}/{month:02d}/2020" for day, month in zip(*rng.integers(1, 13, size=(2, n)), strict=True)]
    for row in late:
        texts[row] = f"2{row % 9}/10/2020"
    return pd.DataFrame({"when": texts, "x": rng.normal(size=n), "y": rng.normal(size=n)})


def test_folds_of_the_training_rows_read_dates_as_all_training_rows_do():
    """The fold without the late day would take the month for the day, and could not read it."""
    training, _ = training_rows()
    when = next(
        each
        for each in study(days(200, training[:1].tolist()), "y", plan=replace(QUICK, taxonomy=None)).columns
        if each.name == "when"
    )
    assert when.pattern == "%d/%m/%Y"


def test_a_fold_of_a_small_table_that_cannot_read_a_date_is_one_error():
    with pytest.raises(TableError, match=r"column 'when' holds dates in the format %m/%d/%Y .* in row") as caught:
        study(days(40, [3, 17]), "y", plan=Plan(model=LinearRegression(), calibration="cross"))
    assert "day_first" in str(caught.value)
