"""Text that is nearly numbers, numbers that mean a missing value, targets that are classes or shares."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

from evencover import ConformalRegressor, Marginal, Residual
from evencover.models import Recognition, TableEncoder
from evencover.models.encoding import encoder_of
from evencover.studies import Plan, TableError, study
from tests.canonical_studies import checked_table
from tests.command_line import run_command_line

N = 600
RNG = np.random.default_rng(0)
X = RNG.uniform(1, 9, size=N)
TABLE = pd.DataFrame({"x": X, "y": X + RNG.normal(size=N)})
QUICK = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=Marginal())
WEIGHTS = [f"{value:.1f}" for value in 10 * X]


def kind(*cells):
    return Recognition().kind("c", np.array(cells, dtype=object))


def with_cells(cells, values=WEIGHTS):
    """Return the table with a column of numbers as text, and other cells in the first rows."""
    return TABLE.assign(weight=[*cells, *values[len(cells) :]])


def about(found, word):
    """Return the notes of a study that contain a word."""
    return [note for note in found.notes if word in note]


class TestUnits:
    @pytest.mark.parametrize(
        ("cells", "unit"),
        [
            (["117 m2", "85 m2"], "m2"),
            (["3.0 kg", "12kg", "-1.5 kg", "1e3 kg"], "kg"),
            (["$ 12", "$15", "-$3"], "$"),
            (["12 %", "45%"], "%"),
            (["EUR 5", "EUR 7.50"], "EUR"),
            (["1,250 sq ft", "980 sq ft"], "sq ft"),
            (["36 months", "60 months"], "months"),
            (["1.5", "2"], ""),
            (["1,234", "12"], ""),
        ],
    )
    def test_numbers(self, cells, unit):
        found = kind(*cells)
        assert (found.numbers, found.unit) == (True, unit)

    @pytest.mark.parametrize(
        "cells",
        [
            ["117 m2", "85 ft2"],
            ["117 m2", "85"],
            ["A12", "A13"],  # a code
            ["2. Middle Atlantic"] * 30,
            ["5-10", "11-20"],
            ["4 or less hours", *["5 hours", "6 hours"] * 10, "10 or more hours"],
            ["1.5Fin", "2Story"],
            [True, "2 kg"],
        ],
    )
    def test_other_text(self, cells):
        assert not kind(*cells).numbers

    def test_a_few_other_cells(self):
        """Two cells; or 1 % without a digit; and 20 numbers for each."""
        numbers = [f"{number % 50} kg" for number in range(300)]
        assert kind(*numbers, "5 lb", "heavy").unit == "kg"
        assert kind(*numbers, *["heavy"] * 3).unit == "kg"
        assert not kind(*numbers, *["heavy"] * 4).numbers
        assert not kind(*numbers, *["5 lb"] * 3).numbers
        assert not kind(*numbers[:19], "heavy").numbers

    @pytest.mark.parametrize("library", [pd.DataFrame, pa.Table.from_pandas])
    def test_an_encoder(self, library):
        table = library(pd.DataFrame({"area": ["117 m2", "85 m2", None, "90 m2"]}))
        encoder = TableEncoder(recognition=Recognition()).fit(table)
        assert encoder.columns_[0].unit == "m2"
        assert encoder.transform(table).tolist() == [[117, 0], [85, 0], [90, 1], [90, 0]]
        new = library(pd.DataFrame({"area": ["100 m2", "80", "85 ft2", "?"]}))
        assert encoder.transform(new).tolist() == [[100, 0], [80, 0], [90, 1], [90, 1]]
        assert encoder.odd_values(new) == [
            "'area': values that are not numbers with the unit 'm2' count as missing, such as '85 ft2'; rows: 2"
        ]
        numbers = library(pd.DataFrame({"area": [100.0, 80.0]}))
        assert encoder.transform(numbers).tolist() == [[100, 0], [80, 0]]
        assert encoder.odd_values(numbers) == []
        assert encoder.outside(new).rows.tolist() == [False, False, True, True]

    def test_the_user_names_the_unit(self):
        table = pd.DataFrame({"area": ["117 m2", "?", "85 m2", "?"]})
        encoder = TableEncoder(numbers={"area": "m2"}).fit(table)
        assert encoder.transform(table).tolist() == [[117, 0], [101, 1], [85, 0], [101, 1]]
        with pytest.raises(ValueError, match=r"numbers must name columns of X, .* got \['size'\]"):
            TableEncoder(numbers={"size": "m2"}).fit(table)

    def test_a_study_says_so(self):
        table = TABLE.assign(area=[f"{value} m2" for value in RNG.integers(20, 200, size=N)])
        found = study(table, "y", plan=QUICK)
        (note,) = about(found, "area")
        assert note == "Read as numbers: area (unit 'm2'). To use one as categories, add categorical=NAME."
        assert study(table, "y", plan=QUICK, categorical=["area"]).columns[1].categories is not None

    def test_a_target(self):
        table = TABLE.assign(y=[f"{value:.3f} kg" for value in TABLE["y"]])
        found = study(table, "y", plan=QUICK)
        assert about(found, "target 'y' is read as numbers with the unit 'kg'")
        expected = study(TABLE.assign(y=TABLE["y"].round(3)), "y", plan=QUICK)
        np.testing.assert_array_equal(found.intervals.lower, expected.intervals.lower)


class TestOddCells:
    @pytest.mark.parametrize("seed", range(3))  # with both cells in the training rows, with one, with none
    def test_they_are_missing_and_named(self, seed):
        table = with_cells(["n.a.", "1O.5"])
        found = study(table, "y", plan=replace(QUICK, seed=seed))
        (note,) = about(found, "weight")
        assert note.startswith(
            "Read as numbers, with a missing value where a cell is no number: weight (2 of 600 cells: 'n.a.' in row 0 "
            "(counted from 0), '1O.5' in row 1 (counted from 0))"
        )
        assert note.endswith("add categorical=NAME or drop=NAME.")
        column = found.columns[-1]
        assert column.missing == np.isin([0, 1], found.training).sum()
        numbers = TABLE.assign(weight=[np.nan, np.nan, *map(float, WEIGHTS[2:])])
        expected = study(numbers, "y", plan=replace(QUICK, seed=seed))
        np.testing.assert_array_equal(found.intervals.upper, expected.intervals.upper)

    def test_floats_and_text(self):
        """A column of Python objects."""
        values = pd.Series(["?", *map(float, WEIGHTS[1:])], dtype=object)
        found = study(TABLE.assign(weight=values), "y", plan=QUICK)
        assert "1 of 600 cells: '?' in row 0" in about(found, "weight")[0]

    @pytest.mark.parametrize("library", [pl.from_pandas, pa.Table.from_pandas])
    def test_other_libraries(self, library):
        found = study(library(with_cells(["n.a."])), "y", plan=QUICK)
        assert "1 of 600 cells: 'n.a.' in row 0" in about(found, "weight")[0]

    def test_an_audit_searches_them_as_numbers(self, tmp_path, capsys):
        with_cells(["n.a."]).assign(lower=X - 1.6, upper=X + 1.6).to_csv(tmp_path / "table.csv", index=False)
        columns = "--target", "y", "--lower", "lower", "--upper", "upper", "--level", "0.9"
        shown = run_command_line(capsys, "audit", str(tmp_path / "table.csv"), *columns)[1]
        assert "where a cell is no number: weight (1 of 600 cells: 'n.a.' in row 2 of the file)" in shown
        assert "add --missing-values n.a." in shown

    def test_more_of_them_are_a_problem(self):
        with pytest.raises(TableError, match=r"'weight' holds numbers, and '136A' in row 0 .*not numbers: 3 of 600"):
            study(with_cells(["136A"] * 3), "y", plan=QUICK)
        assert about(study(with_cells(["other"] * 6), "y", plan=QUICK), "6 of 600 cells")
        with pytest.raises(TableError, match="not numbers: 7 of 600"):
            study(with_cells(["other"] * 7), "y", plan=QUICK)

    def test_other_uses_of_the_column(self):
        table = with_cells(["n.a."])
        assert study(table, "y", plan=QUICK, categorical=["weight"]).columns[-1].categories is not None
        assert [column.name for column in study(table, "y", plan=QUICK, drop=["weight"]).columns] == ["x"]

    def test_folds_of_a_small_table(self):
        plan = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=Marginal(), calibration="cross")
        found = study(with_cells(["n.a.", "late"]).head(60), "y", plan=plan)
        assert "2 of 60 cells" in about(found, "weight")[0]
        assert sorted({model[0].columns_[-1].missing for model in found.regressor.estimators_}) in (
            [1, 2],
            [0, 1, 2],
            [0, 2],
        )
        new = with_cells(["bad"]).head(3)[["x", "weight"]]
        assert encoder_of(found.regressor).odd_values(new) == [
            "'weight': values that are not numbers count as missing, such as 'bad'; rows: 1"
        ]

    def test_more_of_them_among_the_rows_of_a_unit(self):
        """By all rows it is text; the training rows have fewer such cells, and decide."""
        day, n_bad = np.arange(200), 6
        values = [f"{number % 30} kg" for number in day[: 200 - n_bad]] + ["heavy"] * n_bad
        table = TABLE.head(200).assign(weight=values, day=day + 0.5)
        found = study(table, "y", plan=QUICK, time="day")
        assert next(column for column in found.columns if column.name == "weight").unit == "kg"
        assert "6 of 200 cells: 'heavy' in row 194" in about(found, "no number")[0]
        assert "weight (read as numbers with the unit kg; by all rows used as it is)" in about(found, "All rows")[0]

    def test_a_run_and_new_rows(self, tmp_path, capsys):
        with_cells(["n.a.", "1O.5"]).to_csv(tmp_path / "table.csv", index=False)
        settings = "--model", "linear", "--score", "residual", "--groups", "none", "--output", str(tmp_path / "out")
        status, shown = run_command_line(capsys, "run", str(tmp_path / "table.csv"), "--target", "y", *settings)[:2]
        assert status == 0
        assert "'n.a.' in row 2 of the file, '1O.5' in row 3 of the file" in shown
        assert "add --missing-values n.a. 1O.5 or --categorical NAME or --drop NAME" in shown
        new = pd.DataFrame({"x": [2.0, 3.0], "weight": ["20", "unknown"]})
        new.to_csv(tmp_path / "new.csv", index=False)
        status, shown, errors = run_command_line(capsys, "predict", str(tmp_path / "out"), str(tmp_path / "new.csv"))
        assert (status, len(shown.splitlines())) == (0, 3)
        assert "1 of 2 rows are outside what the model has seen: weight (1, such as 'unknown')" in errors

    def test_the_interval_of_a_new_row_does_not_depend_on_other_rows(self, tmp_path, capsys):
        """In a file separated by semicolons, the whole column would be read with decimal commas."""
        found = study(with_cells(["n.a.", "1O.5"]), "y", plan=QUICK)
        found.regressor.save(tmp_path / "predictor.evencover")
        shown = []
        for other in ("2,5", "unknown"):
            (tmp_path / "new.csv").write_text(f"x;weight\n2.0;1,250\n3.0;{other}\n")
            paths = [str(tmp_path / name) for name in ("predictor.evencover", "new.csv")]
            shown.append(run_command_line(capsys, "predict", *paths)[1].splitlines()[1])
        assert shown[0] == shown[1]

    def test_a_column_of_numbers_refuses_text(self):
        found = study(TABLE.assign(weight=list(map(float, WEIGHTS))), "y", plan=QUICK)
        with pytest.raises(
            ValueError, match=r"column 'weight' must hold numbers, as it did in fit; got 'n\.a\.' in row 0"
        ):
            found.regressor.predict(with_cells(["n.a."])[["x", "weight"]])

    def test_files(self, tmp_path):
        """Units and formats of dates are in the file."""
        quarters = [f"{1900 + row // 4} Q{row % 4 + 1}" for row in range(N)]
        table = with_cells(["5 lb"], [f"{weight} kg" for weight in WEIGHTS]).assign(quarter=quarters)
        found = study(table, "y", plan=QUICK)
        assert found.columns[-1].pattern == "%Y Q%q"
        found.regressor.save(tmp_path / "predictor.evencover")
        loaded = ConformalRegressor.load(tmp_path / "predictor.evencover")
        new = table[["x", "weight", "quarter"]]
        np.testing.assert_array_equal(loaded.predict(new), found.regressor.predict(new))


def test_quarters_split_by_time():
    quarters = [f"{1900 + row // 4}Q{row % 4 + 1}" for row in range(N)]
    found = study(TABLE.assign(quarter=quarters[::-1]), "y", plan=QUICK, time="quarter")
    assert set(found.training) == set(range(200, N))
    assert "fitted on rows up to 1999Q4, calibrated" in about(found, "Split by 'quarter'")[0]


class TestCodesOfMissingValues:
    def warnings(self, **columns):
        return [str(each) for each in checked_table(TABLE.assign(**columns))[0]]

    @pytest.mark.parametrize("code", [-99, -999, -9999, 999, 9999])
    def test_a_warning_names_them(self, code):
        size = np.where(np.arange(N) % 100 == 7, code, np.arange(N) % 30)
        (warning,) = self.warnings(size=size)
        assert warning == (
            f"Column 'size' is {code} in 6 of 600 rows, and between 0 and 29 in all others, so {code} may mean a "
            "missing value."
        )

    def test_the_remedy(self):
        size = np.where(np.arange(N) % 100 == 7, -999, np.arange(N) % 30)
        (warning,) = checked_table(TABLE.assign(size=size))[0]
        assert warning.for_command_line().endswith("may mean a missing value: use --missing-values=-999.")

    def test_a_target(self):
        table = TABLE.assign(y=np.where(np.arange(N) % 100 == 7, -999, TABLE["y"].abs()))
        (warning,) = checked_table(table)[0]
        assert str(warning).startswith("The target 'y' is -999 in 6 of 600 rows")
        assert warning.for_command_line().endswith(": use --missing-values=-999.")

    @pytest.mark.parametrize(
        "values",
        [
            np.r_[-99.0, -99.0, -99.0, np.linspace(-120, 50, N - 3)],  # such as a longitude
            np.r_[-99.0, np.linspace(0, 50, N - 1)],
            np.r_[[999.0] * 5, np.linspace(0, 990, N - 5)],
            np.r_[[-98.0] * 5, np.linspace(0, 50, N - 5)],
            np.full(N, -999.0),
        ],
    )
    def test_other_numbers(self, values):
        assert self.warnings(size=values) == []

    def test_categories(self):
        size = np.where(np.arange(N) % 100 == 7, -999, np.arange(N) % 30)
        assert checked_table(TABLE.assign(size=size), categorical=["size"])[0] == []


class TestClasses:
    def warnings(self, name, values):
        return [str(each) for each in checked_table(TABLE[["x"]].assign(**{name: values}), name)[0]]

    @pytest.mark.parametrize(("name", "n"), [("target", 3), ("digit", 10), ("class", 3), ("vehicle_type", 4)])
    def test_a_warning(self, name, n):
        (warning,) = self.warnings(name, RNG.integers(0, n, size=N))
        assert f"has {n} different values, whole numbers from 0 to {n - 1}. If these are codes of classes" in warning

    def test_codes_with_gaps(self):
        (warning,) = self.warnings("Type", RNG.choice([1, 2, 3, 5, 6, 7], size=N))
        assert "6 different values, whole numbers from 1 to 7" in warning

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("rating", RNG.integers(1, 6, size=N)),
            ("n_children", RNG.poisson(1.5, size=N)),
            ("quality", RNG.integers(3, 10, size=N)),
            ("target", RNG.integers(0, 40, size=N)),
            ("target", RNG.integers(20, 30, size=N)),
            ("target", RNG.integers(0, 5, size=N) / 2),
        ],
    )
    def test_counts_ratings_and_measurements(self, name, values):
        assert self.warnings(name, values) == []


class TestShares:
    """The upper limit of a share is a part of the support, which training targets decide."""

    TABLE = pd.DataFrame({"x": X, "prate": np.minimum(100, 60 + 8 * X + RNG.normal(scale=10, size=N)).round(2)})

    @pytest.mark.parametrize("calibration", ["split", "cross"])
    def test_no_interval_is_above_it(self, calibration):
        table = self.TABLE.head(100 if calibration == "cross" else N)
        found = study(table, "prate", plan=replace(QUICK, calibration=calibration))
        assert found.intervals.upper.max() == 100
        assert about(found, "All training targets are at least 0 and at most 100, so intervals hold only such values.")
        free = study(table, "prate", plan=replace(QUICK, calibration=calibration, support="none"))
        assert free.intervals.upper.max() > 100

    def test_the_name(self):
        table = TABLE.assign(y=TABLE["y"].clip(0.5, 9.4) / 10).rename(columns={"y": "share of votes"})
        assert about(study(table, "share of votes", plan=QUICK), "at least 0 and at most 1,")

    def test_small_tables_know_the_name(self):
        table = TABLE.assign(y=TABLE["y"].clip(0.5, 9.9) * 10).rename(columns={"y": "percent"}).head(100)
        found = study(table, "percent", plan=replace(QUICK, calibration="cross"))
        assert found.intervals.upper.max() <= 100
        assert found.regressor.calibration_.nonconformity.y_max == 100

    def test_targets_above_it_are_counted(self):
        table = self.TABLE.copy()
        later = np.setdiff1d(np.arange(N), study(table, "prate", plan=QUICK).training)
        table.loc[later[:2], "prate"] = 130.0
        with pytest.warns(UserWarning, match="outside the support"):
            found = study(table, "prate", plan=QUICK)
        assert found.intervals.upper.max() == 100

    def test_large_tables(self, tmp_path):
        table = pa.Table.from_pandas(self.TABLE, preserve_index=False)
        found = study(table, "prate", plan=QUICK, output=tmp_path / "intervals.parquet", training_rows=100)
        assert found.intervals.upper.max() == 100
