"""Columns of tables as they come: ids, dates, leaks, rows that depend on each other, and splits by time."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import betabinom
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from evencover import ByFeature, ConformalRegressor, Marginal, Residual, conformal_rank
from evencover.models import Recognition
from evencover.studies import Plan, TableError, TableWarning, study
from tests.canonical_studies import checked_table
from tests.command_line import run_command_line

N = 200
RNG = np.random.default_rng(0)
X, Y = RNG.uniform(1, 9, size=(2, N))
TABLE = pd.DataFrame({"x": X, "y": X + Y})
QUICK = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=Marginal())


@pytest.fixture(scope="module")
def plain_study():
    """The study of the table as it is."""
    return study(TABLE, "y", plan=QUICK)


def warnings_of(table, **roles):
    return checked_table(table, **roles)[0]


def leaks(columns, y=Y):
    """Return the warnings of a table with these columns and targets, as text."""
    return list(map(str, warnings_of(pd.DataFrame({**columns, "y": y}), keep=list(columns))))


def questions(**columns):
    """Return the columns that a study asks about, by question: later rows, or new units."""
    table = pd.DataFrame({"x": X, **columns, "y": X + Y})
    return {each.question: each.column for each in study(table, "y", plan=QUICK).other_rows}


def left_out(name, values):
    return Recognition().kind(name, np.array(values, dtype=object if isinstance(values[0], str) else None)).left_out


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
        found = study(table, "y", plan=QUICK)
        assert found.left_out == ("number", "name")
        assert [column.name for column in found.columns] == ["x"]
        note, *_ = found.notes
        assert "number (row numbers from 0 to 199), name (text with 200 different values in 200 rows)" in note
        assert note.endswith("add keep=NAME.")
        kept = study(table, "y", plan=QUICK, keep=["number", "name"])
        assert (kept.left_out, [column.name for column in kept.columns]) == ((), ["x", "number", "name"])

    def test_columns_of_groups_are_kept(self):
        plan = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=ByFeature("number", edges=[99]))
        found = study(TABLE.assign(number=range(N)), "y", plan=plan)
        assert [column.name for column in found.columns] == ["x", "number"]


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
        (warning,) = leaks({"x": X, "copy": COPIES[case]})
        assert warning.startswith("Leak? 'copy' determines the target 'y'")
        assert warning.endswith("use drop=['copy'].")

    def test_parts(self):
        parts = {"a": X, "b": Y - X, "c": RNG.normal(size=N)}
        (warning,) = leaks(parts)
        assert "'a', 'b' together determine" in warning
        assert warning.endswith("use drop=['a', 'b'].")

    def test_no_leak(self):
        """A good feature is no leak, and neither is a fit with many columns."""
        assert leaks({"near": Y + RNG.normal(scale=0.1, size=N), "constant": np.ones(N)}) == []
        assert leaks({str(index): column for index, column in enumerate(RNG.normal(size=(N - 1, N)))}) == []
        assert leaks({"mostly missing": np.where(np.arange(N) < 50, Y, np.nan)}) == []
        assert leaks({"text": ["a", "b"] * 100}) == []

    def test_a_model_that_is_too_good(self):
        table = TABLE.assign(y=X**2 + 30 * np.sin(X))  # of one column, but not a copy of it
        model = make_pipeline(SplineTransformer(20), LinearRegression())
        found = study(table, "y", plan=Plan(model=model, nonconformity=Residual(), taxonomy=Marginal()))
        assert "of the variation of the target. This is rare" in found.warnings[0]

    def test_times_may_grow_with_the_target(self):
        table = pd.DataFrame({"year": np.arange(1900, 2100), "x": X, "y": np.sort(Y) ** 3})
        assert warnings_of(table) == []
        assert len(warnings_of(table.rename(columns={"year": "z"}))) == 1

    def test_a_study_warns(self):
        with pytest.warns(
            TableWarning, match=r"^Leak\? 'copy' determines the target 'y' almost.*: use drop=\['copy'\]\.$"
        ):
            found = study(TABLE.assign(copy=2 * TABLE["y"]), "y", plan=QUICK)
        assert len(found.warnings) == 1
        assert f"Warning: {found.warnings[0]}" in str(found)


class TestDependence:
    def test_repeated_ids(self):
        assert questions(country=np.repeat([f"c{i}" for i in range(50)], 4)) == {"new": "country"}

    @pytest.mark.parametrize("label", [lambda i: f"p{i}", lambda i: 7 * i + 3])
    def test_a_panel(self, label):
        """An id with any name, if it occurs once in each year."""
        ids = np.array([label(i) for i in range(50) for _ in range(4)])
        years = np.tile(np.arange(2000, 2004), 50)
        assert questions(nr=ids, year=years) == {"new": "nr"}
        assert questions(nr=ids, year=np.roll(years, 1) % 3) == {}

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
        assert questions(**{name: values}) == {}

    @pytest.mark.parametrize("order", [1, -1])
    def test_times_in_any_order(self, order):
        days = np.arange(N).astype("datetime64[D]")[::order]
        assert questions(sold=days) == {"later": "sold"}
        assert questions(sold=RNG.permutation(days)) == {"later": "sold"}
        assert questions(year=RNG.integers(1990, 2010, size=N)) == {"later": "year"}
        assert questions(z=np.arange(N) + 0.5) == {}

    def test_the_column_that_sorts_the_rows_comes_first(self):
        days = np.arange(N).astype("datetime64[D]")
        assert questions(born=RNG.permutation(days), year=1900 + np.arange(N) // 4) == {"later": "year"}
        assert questions(year=RNG.integers(1990, 2010, size=N), sold=RNG.permutation(days)) == {"later": "sold"}

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("month", RNG.integers(1, 13, size=N)),  # begins again each year
            ("T", RNG.normal(size=N)),  # a temperature
            ("year", RNG.integers(2001, 2005, size=N)),  # too few for three parts
            ("year", np.where(np.arange(N) == 3, np.nan, 1900 + np.arange(N))),
        ],
    )
    def test_no_times(self, name, values):
        assert questions(**{name: values}) == {}

    def test_months_in_the_order_of_the_rows_are_times(self):
        assert questions(month=np.arange(N)) == {"later": "month"}

    def test_too_few_rows_to_test_have_a_note(self):
        table, plan = pd.DataFrame({"x": X, "year": 1900 + np.arange(N), "y": X + Y})[:30], replace(QUICK, held_out=0.6)
        found = study(table, "y", plan=plan)
        assert found.other_rows == ()
        assert any(note.endswith("If you will predict later rows, add time='year'.") for note in found.notes)
        table = pd.DataFrame({"x": X, "country": np.arange(N) % 26, "y": X + Y})[:40]
        (note,) = (note for note in study(table, "y", plan=plan).notes if "clusters=" in note)
        assert note.startswith("'country' has 26 different values, with 1.5 rows each")


class TestMissingTargets:
    def test_clusters_and_times_of_rows_without_a_target_may_be_missing(self):
        table = TABLE.assign(y=TABLE["y"].where(TABLE.index > 1), z=[None, None, *range(N - 2)])
        for role in ("clusters", "time"):
            found = study(table, "y", plan=QUICK, **{role: "z"})
            assert found.n_rows == N - 2
            assert np.isfinite(np.asarray(found.without_target.intervals)).all()

    @pytest.mark.parametrize("missing_target", ["predict", "drop"])
    @pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
    def test_rows_are_left_out_and_counted(self, library, missing_target):
        table = TABLE.assign(y=TABLE["y"].where(TABLE.index % 4 != 1), sold=pd.date_range("2020", periods=N))
        found = study(library(table), "y", plan=QUICK, missing_target=missing_target)
        used = np.flatnonzero(np.arange(N) % 4 != 1)
        assert np.array_equal(np.sort(np.concatenate([found.training, found.test.positions])), used)
        assert np.array_equal(found.calibration, found.test.positions)
        assert np.array_equal(found.test.y, table["y"].to_numpy()[found.test.positions])
        assert np.array_equal(np.asarray(found.test.X["x"]), table["x"].to_numpy()[found.test.positions])
        said = {"predict": "They neither fitted nor tested the model", "drop": "They were left out"}[missing_target]
        assert found.notes[0].startswith(f"Rows without a target: 50 of 200. {said}")
        assert (found.n_without_target, found.without_target is None) == (50, missing_target == "drop")

    @pytest.mark.parametrize(
        ("library", "calibration"),
        [
            (pd.DataFrame, "split"),
            (pl.from_pandas, "split"),
            (pa.Table.from_pandas, "split"),
            (pd.DataFrame, "cross"),
        ],
    )
    def test_they_get_the_intervals_of_new_rows(self, library, calibration):
        """Columns that are left out, text as numbers, and values that the model has not seen, are those of new rows."""
        table = TABLE.assign(
            number=np.arange(N),
            size=[f"{value:.1f} kg" for value in RNG.uniform(size=N)],
            y=TABLE["y"].where(TABLE.index % 4 != 1),
        )
        table.loc[5, "x"] = 1000.0
        plan = replace(QUICK, calibration=calibration, model="linear")
        found = study(library(table), "y", plan=plan)
        rows = np.flatnonzero(np.arange(N) % 4 == 1)
        columns = found.without_target.columns()
        assert list(columns) == ["row", "prediction", "lower", "upper", "outside"]
        np.testing.assert_array_equal(columns["row"], rows)
        expected = found.regressor.predict_interval(table.loc[rows, ["x", "size"]], level=0.9)
        np.testing.assert_array_equal(np.asarray(found.without_target.intervals), np.asarray(expected))
        assert [name for name in columns["outside"] if name] == ["x"]
        assert columns["outside"][1] == "x"

    def test_they_change_nothing_else(self):
        table = TABLE.assign(y=TABLE["y"].where(TABLE.index % 4 != 1), word=["a", "b"] * (N // 2))
        plan = Plan(model="linear", nonconformity=Residual(), taxonomy=ByFeature("word"))
        found, dropped = (study(table, "y", plan=plan, missing_target=each) for each in ("predict", "drop"))
        alone = study(table.dropna().reset_index(drop=True), "y", plan=plan)
        for other in (dropped, alone):
            np.testing.assert_array_equal(np.asarray(found.intervals), np.asarray(other.intervals))
            assert str(found.audit) == str(other.audit)

    def test_a_group_without_targets_has_infinite_intervals(self):
        table = TABLE.assign(word=["a", "b"] * (N // 2), y=TABLE["y"].where(TABLE.index != 7))
        table.loc[7, "word"] = "c"
        plan = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=ByFeature("word"))
        found = study(table, "y", plan=plan, drop=["word"])
        assert np.asarray(found.without_target.intervals).tolist() == [[0, np.inf]]
        few = "1 of the 1 rows without a target have infinite intervals, because their group has too few calibration"
        assert any(note.startswith(few) for note in found.notes)

    def test_labels_of_groups_are_needed_only_where_they_are_used(self):
        table = TABLE.assign(word=["a", "b"] * (N // 2), y=TABLE["y"].where(TABLE.index != 7))
        table.loc[7, "word"] = None
        plan = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=ByFeature("word"))
        message = r"groups: column 'word' must have a label in every row; missing: 1 of 200 \(the first in row 7, "
        with pytest.raises(TableError, match=rf"{message}counted from 0\) and no target .*: use missing_target='drop'"):
            study(table, "y", plan=plan, drop=["word"])
        assert study(table, "y", plan=plan, drop=["word"], missing_target="drop").n_rows == N - 1
        table.loc[7, "y"] = 1.0
        with pytest.raises(TableError, match=rf"{message}counted from 0\)$"):
            study(table, "y", plan=plan, drop=["word"], missing_target="drop")

    def test_what_they_hold_is_checked_before_the_model_is_fitted(self):
        """All rows together hold text; the rows with a target hold numbers, which is all that their model can read."""
        known = N // 3
        sizes = [f"{value:.2f}" for value in RNG.uniform(size=known)] + ["small", "large"] * ((N - known) // 2)
        table = TABLE.assign(size=sizes, y=TABLE["y"].where(TABLE.index < known))
        with pytest.raises(TableError, match=r"column 'size' holds numbers in the rows .*, and 'small' in row 66"):
            study(table, "y", plan=QUICK)


class TestTime:
    @pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
    @pytest.mark.parametrize("spelling", ["%d.%m.%Y", None])
    def test_parts_follow_each_other(self, library, spelling):
        days = pd.Series(pd.date_range("2020-01-25", periods=N)).sample(frac=1, random_state=0).to_numpy()
        table = TABLE.assign(sold=days if spelling is None else pd.Series(days).dt.strftime(spelling))
        found = study(library(table), "y", plan=QUICK, time="sold")
        assert found.sizes == {"training": 134, "calibration": 33, "test": 33}
        assert days[found.training].max() < days[found.calibration].min()
        assert days[found.calibration].max() < days[found.test.positions].min()
        (note,) = (note for note in found.notes if "plit by 'sold'" in note)
        last = [str(days[rows].max())[:10] for rows in (found.training, found.calibration, found.test.positions)]
        if spelling is not None:
            last = [pd.Timestamp(day).strftime(spelling) for day in last]
        assert (
            f"fitted on rows up to {last[0]}, calibrated on the rows after these up to {last[1]}, and tested on" in note
        )
        assert (
            f"the rows after these up to {last[2]}. Then it was calibrated again, on all rows after {last[0]}, so"
            in note
        )

    def test_the_audit_has_thresholds_without_test_rows_and_new_rows_have_those_of_all(self):
        """The law of the test is that of earlier rows; its rows then calibrate the model for new rows, too."""
        table = TABLE.assign(day=np.arange(N)[::-1] + 0.5)
        found = study(table, "y", plan=QUICK, time="day")
        y, center = table["y"].to_numpy(), found.regressor.predict(table.drop(columns="y"))
        later = np.concatenate([found.calibration, found.test.positions])
        assert sorted(later) == list(range(66))
        for regressor, rows in ((found.evidence.regressor, found.calibration), (found.regressor, later)):
            scores = np.sort(np.abs(y - center)[rows])
            assert regressor.guarantee_.sizes == {"all": len(rows)}
            np.testing.assert_allclose(
                regressor.calibration_.threshold(0.9), scores[conformal_rank(len(rows), 0.9) - 1], rtol=1e-12
            )
        tested = found.evidence.regressor.calibration_.threshold(0.9)
        np.testing.assert_allclose(found.intervals.upper - found.prediction.center, np.broadcast_to(tested, 33))
        assert found.audit.overall.rows == 33
        assert not found.audit.in_turn

    def test_rows_of_one_time_are_in_one_part(self):
        year = np.repeat([2000, 2001, 2002, 2003], [50, 60, 50, 40])
        found = study(TABLE.assign(year=year), "y", plan=QUICK, time="year")
        parts = [set(year[rows]) for rows in (found.training, found.calibration, found.test.positions)]
        assert parts == [{2000, 2001}, {2002}, {2003}]

    def test_later_rows_must_show_evenness_by_themselves(self):
        """The calibration rows are earlier, and the rows may have changed since."""
        table = TABLE.assign(day=np.arange(N) + 0.5)
        assert study(table, "y", plan=QUICK).audit.split_at_random
        assert not study(table, "y", plan=QUICK, time="day").audit.split_at_random

    def test_advice_if_the_rows_have_changed(self):
        noise = np.random.default_rng(0).normal(size=2000) * np.where(np.arange(2000) < 1600, 1, 2)
        table = pd.DataFrame({"x": np.tile(X, 10), "day": np.arange(2000) + 0.5, "y": noise})
        plan = Plan(model="linear", nonconformity=Residual(), taxonomy=Marginal(), held_out=0.4)
        found = study(table, "y", plan=plan, time="day", drop=["day"])
        assert found.test.positions.min() == 1600
        assert found.verdict == "uneven"
        assert found.advice.startswith("Calibrate again as new rows come.")

    def test_a_dropped_column_orders_the_rows(self):
        table = TABLE.assign(sold=pd.date_range("2020", periods=N)[::-1].strftime("%m/%d/%Y"))
        found = study(table, "y", plan=QUICK, time="sold", drop=["sold"])
        assert sorted(found.test.positions) == list(range(33))
        assert [column.name for column in found.columns] == ["x"]

    def test_the_number_covered_has_its_exact_distribution(self):
        """If rows do not change with time, the guarantee holds: BetaBinomial, as for a random split."""
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"x": rng.uniform(size=100), "y": rng.normal(size=100), "day": np.arange(100) + 0.5})
        found = study(table, "y", plan=QUICK, time="day")
        parts = found.training, found.calibration, found.test.positions
        z = (np.mean([_tail(rng.normal(size=100), *parts, level=0.8) for _ in range(200)]) - 0.5) * np.sqrt(12 * 200)
        assert abs(z) < 4.9


def _tail(y, training, calibration, test, *, level):
    """Return the middle of the distribution function at the number of covered test rows."""
    X = np.zeros((len(y), 1))
    model = FrozenEstimator(DummyRegressor().fit(X[training], y[training]))
    regressor = ConformalRegressor(model, nonconformity=Residual()).calibrate(X[calibration], y[calibration])
    covered = regressor.predict_interval(X[test], level=level).covers(y[test]).sum()
    n = len(calibration)
    k = conformal_rank(n, level)
    exact = betabinom(len(test), k, n + 1 - k)
    return (exact.cdf(covered) + exact.cdf(covered - 1)) / 2


class TestTargets:
    @pytest.mark.parametrize("y", [X > 5, (X > 5).astype(int), np.where(X > 5, 3.0, 7.0)])
    def test_two_values_are_a_class(self, y):
        (warning,) = map(str, warnings_of(TABLE.assign(y=y)))
        assert "has two values only" in warning
        assert "classifier" in warning


def patterns(found):
    """Return the formats of dates that the model of a study reads."""
    return {column.name: column.pattern for column in found.columns if getattr(column, "pattern", None)}


class TestDates:
    def test_text_and_numbers_become_dates(self):
        table = TABLE.assign(
            sold=[f"{day}.{month}.2020" for month in range(1, 11) for day in range(1, 21)],
            at=[f"{hour}:{minute:02d}" for hour in range(10) for minute in range(20)],
            built=[20_200_000 + 100 * month + day for month in range(1, 11) for day in range(1, 21)],
        )
        found = study(table, "y", plan=QUICK)
        assert patterns(found) == {"sold": "%d.%m.%Y", "at": "%H:%M", "built": "%Y%m%d"}
        assert [column.outputs for column in found.columns[1:]] == [
            ["sold weekday", "sold elapsed"],  # all in one year, so the month would only repeat the elapsed days
            ["at hour"],
            ["built weekday", "built elapsed"],
        ]
        predicted = found.regressor.predict(table.drop(columns="y").iloc[found.test.positions])
        assert np.array_equal(predicted, found.prediction.center)

    def test_the_month_is_a_feature_of_several_years(self):
        """In one year, a linear model would take it for time, and it falls back in January."""
        days = np.datetime64("2015-01-01") + np.arange(N).astype("timedelta64[D]")
        parts = [study(TABLE.assign(day=each), "y", plan=QUICK).columns[1].parts for each in (days, days + 300)]
        assert parts == [("weekday", "elapsed"), ("year", "month", "weekday", "elapsed")]

    def test_ambiguous_dates_are_named_unless_the_user_decides(self):
        table = TABLE.assign(sold=["03/04/2020", "05/06/2020"] * 100)
        with pytest.warns(TableWarning) as caught:
            assert patterns(study(table, "y", plan=QUICK)) == {"sold": "%m/%d/%Y"}
        (warning,) = (each.message for each in caught)
        assert warning.for_command_line().endswith("two ways; read with the month first: use --day-first.")
        assert patterns(study(table, "y", plan=QUICK, day_first=True)) == {"sold": "%d/%m/%Y"}
        assert warnings_of(table, day_first=True) == []

    def test_an_ambiguous_time_is_named_also_if_it_is_no_feature(self):
        table = TABLE.assign(sold=[f"{1 + day % 12:02}/{1 + day // 12 % 12:02}/2020" for day in range(N)])
        (warning,) = warnings_of(table, time="sold", drop=["sold"])
        assert "two ways" in str(warning)

    def test_columns_that_define_groups_stay_as_they_are(self):
        table = TABLE.assign(month=["2020-01", "2020-02"] * 100)
        groups = ByFeature("month", categories=["2020-01", "2020-02"])
        plan = Plan(model="linear", nonconformity=Residual(), taxonomy=groups)
        found = study(table, "y", plan=plan)
        assert found.groups.labels == ("2020-01", "2020-02")
        assert set(found.test.X["month"]) == {"2020-01", "2020-02"}


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

    def test_all_are_listed_with_what_solves_them(self, capsys, tmp_path):
        header, *rows = self.TABLE.to_csv(index=False).splitlines()
        path = tmp_path / "a.csv"
        path.write_text("\n".join([header, *rows[:2], "", *rows[2:]]), encoding="utf-8")
        status, _, error = run_command_line(capsys, "run", str(path), "--target", "y", "--missing-target", "error")
        assert status == 1
        first, *problems, together = error.splitlines()
        assert "4 problems" in first
        facts = [
            ("'y'", "1 of 200 rows", "row 10 of the file"),
            ("'code'", "'?' in row 6 of the file", "50 of 200 values"),
            ("'size'", "infinite values: 1 ", "row 6 of the file"),
            ("'date'", "'2020-01-01'", "'soon' in row 6 of the file", "50 of 200 values"),
        ]
        for problem, expected in zip(problems, facts, strict=True):
            assert [fact for fact in expected if fact not in problem] == [], problem
        assert [problem.partition(": use ")[2] for problem in problems] == [
            "--missing-target predict or --missing-target drop",
            "--categorical code or --missing-values '?' or --drop code",
            "--drop size",
            "--missing-values soon or --drop date or --categorical date",
        ]
        assert together.endswith(": --missing-target predict --categorical code --drop size --missing-values soon")

    def test_what_solves_them_does(self):
        roles = {"missing_target": "predict", "categorical": ["code"], "drop": ["size", "date"]}
        assert [column.name for column in study(self.TABLE, "y", plan=QUICK, **roles).columns] == ["x", "code"]

    def test_python_arguments(self):
        with pytest.raises(TableError, match=r"All at once: missing_target='predict', categorical=\['code'\], drop="):
            study(self.TABLE, "y", plan=QUICK, missing_target="error")

    def test_values_that_read_as_options(self):
        table = TABLE.assign(code=[str(i % 40) for i in range(N - 6)] + ["-", "--"] * 3)
        with pytest.raises(TableError) as error:
            study(table, "y", plan=QUICK)
        assert "use --missing-values=- --missing-values=-- or --categorical code" in error.value.for_command_line()

    def test_a_problem_without_a_solution(self):
        with pytest.raises(TableError) as error:
            study(TABLE.assign(size=self.TABLE["size"]), "y", plan=QUICK, clusters="none")
        first, *problems = str(error.value).split("\n")
        assert first == "the table has 2 problems:"
        assert [problem.partition(": use ")[2] for problem in problems] == ["", "drop=['size']"]
