"""Columns of tables as they come: ids, dates, leaks, rows that depend on each other, and splits by time."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import betabinom
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from evencover import ByFeature, Marginal, Residual
from evencover._internal.frames import with_row_numbers
from evencover.diagnostics._spelling import COMMAND_LINE, PYTHON
from evencover.quantiles import conformal_rank
from evencover.studies import Plan, study
from evencover.studies._columns import ColumnRoles, prepare_table
from evencover.studies._dependence import dependence_notes
from evencover.studies._leaks import leak_warnings
from evencover.studies._messages import Message, TableError, TableWarning
from evencover.studies._recognition import recognize

N = 200
RNG = np.random.default_rng(0)
X, Y = RNG.uniform(1, 9, size=(2, N))
TABLE = pd.DataFrame({"x": X, "y": X + Y})
QUICK = Plan(model="linear", nonconformity=Residual(), taxonomy=Marginal())


@pytest.fixture(scope="module")
def plain_study():
    """The study of the table as it is."""
    return study(TABLE, "y", plan=QUICK)


def left_out(name, values):
    return recognize(name, np.array(values, dtype=object if isinstance(values[0], str) else None)).left_out


class TestIds:
    @pytest.mark.parametrize("name", ["column 1", "number", "x", "PID"])
    @pytest.mark.parametrize("start", [0, 1])
    def test_row_numbers(self, name, start):
        numbers = np.arange(start, N + start)
        assert left_out(name, numbers) == f"row numbers from {start} to {N + start - 1}"
        assert left_out(name, RNG.permutation(numbers).astype(float))

    @pytest.mark.parametrize(
        "name", ["id", "patient_id", "customerId", "orderID", "PID", "index", "Unnamed: 0", "key", "id_str"]
    )
    def test_keys(self, name):
        assert left_out(name, 3 * np.arange(N) + 1000) == f"an id: {N} different numbers in {N} rows"
        assert left_out(name, np.r_[1000 : 1000 + N - 20, np.full(20, 1000)])
        assert not left_out(name, np.arange(N) // 2)

    @pytest.mark.parametrize("name", ["paid", "humid", "population", "year", "width"])
    def test_other_numbers(self, name):
        """Different whole numbers may be a measurement."""
        assert not left_out(name, 3 * np.arange(N) + 1000)
        assert not left_out(name, np.arange(N) + 0.5)

    @pytest.mark.parametrize("name", ["t", "time", "year", "study_day", "order date"])
    def test_numbers_that_count_time(self, name):
        assert not left_out(name, np.arange(1, N + 1))

    def test_text(self):
        assert left_out("model", [f"n{i}" for i in range(N)]) == "text with 200 different values in 200 rows"
        assert left_out("model", [f"n{i}" for i in range(12)])
        assert left_out("model", [f"n{i}" for i in range(101)] + ["n1"] * 99)
        assert not left_out("model", [f"n{i // 2}" for i in range(N)])
        assert left_out("model_id", [f"n{i}" for i in range(18)] + ["n1"] * 2)
        assert not left_out("model", [f"n{i}" for i in range(18)] + ["n1"] * 2)

    def test_short_tables_have_no_ids(self):
        assert not left_out("number", np.arange(9))

    def test_they_are_named_and_can_be_kept(self):
        table = TABLE.assign(number=range(N), name=[f"n{i}" for i in range(N)])
        prepared = prepare_table(table, ColumnRoles("y")).decided_by([np.arange(N)])
        assert prepared.left_out == ("number", "name")
        assert list(prepared.features.columns) == ["x"]
        (note,) = prepared.notes
        assert note.sentence(COMMAND_LINE) == (
            "Not used as features: number (row numbers from 0 to 199), name (text with 200 different values in 200 "
            "rows). To use one, add --keep NAME."
        )
        kept = prepare_table(table, ColumnRoles("y", keep=["number", "name"]))
        assert (kept.left_out, list(kept.features.columns)) == ((), ["x", "number", "name"])

    def test_columns_of_groups_are_kept(self):
        prepared = prepare_table(TABLE.assign(number=range(N)), ColumnRoles("y", grouping=("number",)))
        assert list(prepared.features.columns) == ["x", "number"]


COPIES = {
    "twice": 2 * Y,
    "minus": 5 - Y,
    "rounded": Y.round(2),
    "logarithm": np.log(Y).round(3),
    "exponential": np.exp(Y),
    "square": Y**2,
    "inverse": 1 / Y,
    "rank": Y.argsort().argsort() + 1.0,
    "missing in some rows": np.where(np.arange(N) % 3, Y, np.nan),
}


class TestLeaks:
    @pytest.mark.parametrize("case", COPIES)
    def test_copies(self, case):
        (warning,) = leak_warnings({"x": X, "copy": COPIES[case]}, "y", Y)
        assert warning.spelled(PYTHON) == (
            "leak? 'copy' determines the target 'y' almost exactly. If it is not known when you predict, the results "
            "are too good to be true: use drop=['copy']"
        )

    def test_parts(self):
        parts = {"a": X, "b": Y - X, "c": RNG.normal(size=N)}
        (warning,) = leak_warnings(parts, "y", Y)
        assert "'a', 'b' together determine" in warning.text
        assert warning.remedies == ({"drop": ["a", "b"]},)

    def test_no_leak(self):
        """A good feature is no leak, and neither is a fit with many columns."""
        assert leak_warnings({"near": Y + RNG.normal(scale=0.1, size=N), "constant": np.ones(N)}, "y", Y) == []
        many = {str(index): column for index, column in enumerate(RNG.normal(size=(N - 2, N)))}
        assert leak_warnings(many, "y", Y) == []
        assert leak_warnings({"mostly missing": np.where(np.arange(N) < 50, Y, np.nan)}, "y", Y) == []
        assert leak_warnings({}, "y", Y) == []

    def test_a_model_that_is_too_good(self):
        table = TABLE.assign(y=X**2 + 30 * np.sin(X))  # of one column, but not a copy of it
        model = make_pipeline(SplineTransformer(20), LinearRegression())
        found = study(table, "y", plan=Plan(model=model, nonconformity=Residual(), taxonomy=Marginal()))
        assert "of the variation of the target. This is rare" in found.warnings[0]

    def test_times_may_grow_with_the_target(self):
        table = pd.DataFrame({"year": np.arange(1900, 2100), "x": X, "y": np.sort(Y) ** 3})
        assert prepare_table(table, ColumnRoles("y")).warnings == ()
        assert len(prepare_table(table.rename(columns={"year": "z"}), ColumnRoles("y")).warnings) == 1

    def test_a_study_warns(self):
        with pytest.warns(
            TableWarning, match=r"^Leak\? 'copy' determines the target 'y' almost.*: use drop=\['copy'\]\.$"
        ):
            found = study(TABLE.assign(copy=2 * TABLE["y"]), "y", plan=QUICK)
        assert len(found.warnings) == 1
        assert f"Warning: {found.warnings[0]}" in str(found)


class TestDependence:
    def test_repeated_ids(self):
        (note,) = dependence_notes({"country": np.repeat([f"c{i}" for i in range(50)], 4), "x": X})
        assert note.sentence(COMMAND_LINE) == (
            "'country' has 50 different values, with 4.0 rows each on average. A random split tests on values that the "
            "model has seen. If you will predict for new ones, add --clusters country."
        )

    @pytest.mark.parametrize("label", [lambda i: f"p{i}", lambda i: 7 * i + 3])
    def test_a_panel(self, label):
        """An id with any name, if it occurs once in each year."""
        ids = np.array([label(i) for i in range(50) for _ in range(4)])
        years = np.tile(np.arange(2000, 2004), 50)
        (note,) = dependence_notes({"nr": ids, "year": years})
        assert note.remedies == ({"clusters": "nr"},)
        assert dependence_notes({"nr": ids, "year": np.roll(years, 1) % 3}) == []

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("country", np.repeat([f"c{i}" for i in range(20)], 10)),  # too few for a split
            ("country", np.array([f"c{i}" for i in range(195)] + ["c0"] * 5)),  # hardly any is repeated
            ("company", np.array([f"c{i}" for i in range(50)] + ["none"] * 150)),  # one is a category
            ("color", np.repeat([f"c{i}" for i in range(50)], 4)),
            ("subject", np.repeat(np.arange(50) + 0.5, 4)),
            ("subject", np.array([None, "a"] * 100, dtype=object)),
        ],
    )
    def test_no_repeated_ids(self, name, values):
        assert dependence_notes({name: values}) == []

    @pytest.mark.parametrize("order", [1, -1])
    def test_rows_in_the_order_of_time(self, order):
        days = np.arange(N).astype("datetime64[D]")[::order]
        (note,) = dependence_notes({"x": X, "sold": days})
        assert note.remedies == ({"time": "sold"},)
        assert dependence_notes({"sold": RNG.permutation(days)}) == []
        assert dependence_notes({"year": 1900 + np.arange(N)})[0].remedies == ({"time": "year"},)
        assert dependence_notes({"x": np.arange(N) + 0.5}) == []


class TestMissingTargets:
    def test_clusters_and_times_of_rows_without_a_target_may_be_missing(self):
        table = TABLE.assign(y=TABLE["y"].where(TABLE.index > 1), z=[None, None, *range(N - 2)])
        for role in ("clusters", "time"):
            assert len(prepare_table(table, ColumnRoles("y", **{role: "z"}, missing_target="drop")).y) == N - 2

    @pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
    def test_rows_are_left_out_and_counted(self, library):
        table = TABLE.assign(y=TABLE["y"].where(TABLE.index % 4 != 1), sold=pd.date_range("2020", periods=N))
        found = study(library(table), "y", plan=QUICK, missing_target="drop")
        used = np.flatnonzero(np.arange(N) % 4 != 1)
        rows = np.concatenate([found.training, found.calibration, found.test.positions])
        assert np.array_equal(np.sort(rows), used)
        assert np.array_equal(found.test.y, table["y"].to_numpy()[found.test.positions])
        assert np.array_equal(np.asarray(found.test.X["x"]), table["x"].to_numpy()[found.test.positions])
        assert found.notes[0].startswith("Rows without a target: 50 of 200. They were left out")


class TestTime:
    @pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
    @pytest.mark.parametrize("spelling", ["%d.%m.%Y", None])
    def test_parts_follow_each_other(self, library, spelling):
        days = pd.Series(pd.date_range("2020-01-25", periods=N)).sample(frac=1, random_state=0).to_numpy()
        table = TABLE.assign(sold=days if spelling is None else pd.Series(days).dt.strftime(spelling))
        found = study(library(table), "y", plan=QUICK, time="sold")
        assert found.sizes == {"training": 80, "calibration": 80, "test": 40}
        assert days[found.training].max() < days[found.calibration].min()
        assert days[found.calibration].max() < days[found.test.positions].min()
        (note,) = (note for note in found.notes if "plit by 'sold'" in note)
        assert "The model was fitted on rows up to" in note

    def test_rows_of_one_time_are_in_one_part(self):
        year = np.repeat([2000, 2001, 2002, 2003], [50, 60, 50, 40])
        found = study(TABLE.assign(year=year), "y", plan=QUICK, time="year")
        parts = [set(year[rows]) for rows in (found.training, found.calibration, found.test.positions)]
        assert parts == [{2000}, {2001, 2002}, {2003}]

    def test_later_rows_must_show_evenness_by_themselves(self):
        """The calibration rows are earlier, and the rows may have changed since."""
        table = TABLE.assign(day=np.arange(N) + 0.5)
        assert study(table, "y", plan=QUICK).audit.split_at_random
        assert not study(table, "y", plan=QUICK, time="day").audit.split_at_random

    def test_advice_if_the_rows_have_changed(self):
        noise = np.random.default_rng(0).normal(size=2000) * np.where(np.arange(2000) < 1600, 1, 2)
        table = pd.DataFrame({"x": np.tile(X, 10), "day": np.arange(2000) + 0.5, "y": noise})
        plan = Plan(model="linear", nonconformity=Residual(), taxonomy=Marginal())
        found = study(table, "y", plan=plan, time="day", drop=["day"])
        assert found.verdict == "uneven"
        assert found.advice.startswith("Calibrate again on the latest rows, and repeat it as new rows come.")

    def test_a_dropped_column_orders_the_rows(self):
        table = TABLE.assign(sold=pd.date_range("2020", periods=N)[::-1].strftime("%m/%d/%Y"))
        found = study(table, "y", plan=QUICK, time="sold", drop=["sold"])
        assert found.test.positions.max() == 39
        assert [column.name for column in found.columns] == ["x"]

    def test_the_number_covered_has_its_exact_distribution(self):
        """If rows do not change with time, the guarantee holds: BetaBinomial, as for a random split."""
        rng = np.random.default_rng(0)
        tails = []
        for seed in range(200):
            x = rng.uniform(size=100)
            table = pd.DataFrame({"x": x, "y": rng.normal(size=100), "day": np.arange(100) + 0.5})
            plan = Plan(model="linear", nonconformity=Residual(), taxonomy=Marginal(), level=0.8, seed=seed)
            prepared = prepare_table(table, ColumnRoles("y", time="day"))
            tails.append(_tail(prepared, plan))
        z = (np.mean(tails) - 0.5) * np.sqrt(12 * len(tails))
        assert abs(z) < 4.9


def _tail(prepared, plan):
    """Return the middle of the distribution function at the number of covered test rows."""
    from sklearn.dummy import DummyRegressor
    from sklearn.frozen import FrozenEstimator

    from evencover import ConformalRegressor
    from evencover.studies._splits import split_table

    training, calibration, test = split_table(prepared, plan)
    model = FrozenEstimator(DummyRegressor().fit(training.X, training.y))
    regressor = ConformalRegressor(model, nonconformity=Residual()).calibrate(calibration.X, calibration.y)
    covered = regressor.predict_interval(test.X, level=plan.level).covers(test.y).sum()
    n = len(calibration)
    k = conformal_rank(n, plan.level)
    exact = betabinom(len(test), k, n + 1 - k)
    return (exact.cdf(covered) + exact.cdf(covered - 1)) / 2


class TestTargets:
    @pytest.mark.parametrize("y", [X > 5, (X > 5).astype(int), np.where(X > 5, 3.0, 7.0)])
    def test_two_values_are_a_class(self, y):
        (warning,) = prepare_table(TABLE.assign(y=y), ColumnRoles("y")).warnings
        assert "has two values only" in warning.text
        assert "classifier" in warning.text


def patterns(table, **roles):
    """Return the formats of dates that an encoder recognises in all rows."""
    prepared = prepare_table(table, ColumnRoles("y", **roles))
    columns = prepared.encoder.fit(prepared.features).columns_
    return {column.name: column.pattern for column in columns if getattr(column, "pattern", None)}


class TestDates:
    def test_text_and_numbers_become_dates(self):
        table = TABLE.assign(
            sold=[f"{day}.{month}.2020" for month in range(1, 11) for day in range(1, 21)],
            at=[f"{hour}:{minute:02d}" for hour in range(10) for minute in range(20)],
            built=[20_200_000 + 100 * month + day for month in range(1, 11) for day in range(1, 21)],
        )
        assert patterns(table) == {"sold": "%d.%m.%Y", "at": "%H:%M", "built": "%Y%m%d"}
        found = study(table, "y", plan=QUICK)
        assert [column.outputs for column in found.columns[1:]] == [
            ["sold month", "sold weekday", "sold elapsed"],
            ["at hour"],
            ["built month", "built weekday", "built elapsed"],
        ]
        intervals = found.regressor.predict_interval(table.drop(columns="y").iloc[found.test.positions])
        assert np.array_equal(intervals.lower, found.intervals.lower)

    def test_ambiguous_dates_are_named_unless_the_user_decides(self):
        table = TABLE.assign(sold=["03/04/2020", "05/06/2020"] * 100)
        prepared = prepare_table(table, ColumnRoles("y"))
        assert patterns(table) == {"sold": "%m/%d/%Y"}
        (warning,) = prepared.warnings
        assert warning.spelled(COMMAND_LINE).endswith("two ways; read with the month first: use --day-first")
        assert patterns(table, day_first=True) == {"sold": "%d/%m/%Y"}
        assert prepare_table(table, ColumnRoles("y", day_first=True)).warnings == ()

    def test_an_ambiguous_time_is_named_also_if_it_is_no_feature(self):
        table = TABLE.assign(sold=[f"{1 + day % 12:02}/{1 + day // 12 % 12:02}/2020" for day in range(N)])
        (warning,) = prepare_table(table, ColumnRoles("y", time="sold", drop=["sold"])).warnings
        assert "two ways" in warning.text

    def test_columns_that_define_groups_stay_as_they_are(self):
        table = TABLE.assign(month=["2020-01", "2020-02"] * 100)
        groups = ByFeature("month", categories=["2020-01", "2020-02"])
        plan = Plan(model="linear", nonconformity=Residual(), taxonomy=groups)
        assert study(table, "y", plan=plan).groups.labels == ("2020-01", "2020-02")


class TestText:
    @pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
    def test_numbers_as_text_are_numbers(self, library, plain_study):
        table = library(TABLE.assign(x=TABLE["x"].astype(str), y=TABLE["y"].astype(str)))
        found = study(table, "y", plan=QUICK)
        assert found.columns[0].categories is None
        assert found.notes[0] == "Read as numbers: x. To use one as categories, add categorical=NAME."
        new = table.select(["x"]) if hasattr(table, "select") else table[["x"]]
        same = plain_study.regressor.predict_interval(TABLE[["x"]])
        assert np.array_equal(found.regressor.predict_interval(new).lower, same.lower)

    @pytest.mark.parametrize("value", ["late", 3.0])
    def test_a_column_may_have_values_outside_the_training_part_only(self, value, plain_study):
        values = np.full(N, None, dtype=object)
        values[plain_study.test.positions[:2]] = value
        found = study(TABLE.assign(note=values), "y", plan=QUICK)
        assert found.columns[-1].outputs == ["note missing"]


class TestProblems:
    TABLE = TABLE.assign(
        y=TABLE["y"].where(TABLE.index != 7),
        code=["1", "2", "3", "?"] * 50,
        size=np.where(np.arange(N) == 3, np.inf, X),
        date=["2020-01-01", "2020-01-02", "2020-01-03", "soon"] * 50,
    )

    def test_all_are_listed_with_what_solves_them(self):
        with pytest.raises(TableError) as error:
            prepare_table(with_row_numbers(pa.Table.from_pandas(self.TABLE), [4]), ColumnRoles("y"))
        assert error.value.for_command_line().split("\n") == [
            "the table has 4 problems:",
            "- target: column 'y' has no value in 1 of 200 rows (the first in row 10 of the file): use "
            "--missing-target drop",
            "- column 'code' holds numbers, and '?' in row 6 of the file; not numbers: 50 of 200 values: use "
            "--categorical code or --missing-values '?' or --drop code",
            "- column 'size' must have finite or missing values; infinite values: 1 (the first in row 6 of the file): "
            "use --drop size",
            "- column 'date' holds dates such as '2020-01-01', and 'soon' in row 6 of the file; not dates: 50 of 200 "
            "values: use --missing-values soon or --drop date or --categorical date",
            "All at once: --missing-target drop --categorical code --drop size --missing-values soon",
        ]

    def test_what_solves_them_does(self):
        roles = ColumnRoles("y", missing_target="drop", categorical=["code"], drop=["size", "date"])
        assert list(prepare_table(self.TABLE, roles).features.columns) == ["x", "code"]

    def test_python_arguments(self):
        with pytest.raises(TableError, match=r"All at once: missing_target='drop', categorical=\['code'\], drop="):
            prepare_table(self.TABLE, ColumnRoles("y"))

    def test_values_that_read_as_options(self):
        message = Message("a", ({"missing_values": ["-", "--"], "missing_target": "drop"},))
        assert message.spelled(COMMAND_LINE) == "a: use --missing-values=- --missing-values=-- --missing-target drop"

    def test_a_problem_without_a_solution(self):
        error = TableError([Message("a", ({"drop": ["x"]},)), Message("b")])
        assert str(error) == "the table has 2 problems:\n- a: use drop=['x']\n- b"
