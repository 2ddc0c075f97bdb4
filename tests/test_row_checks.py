"""Rows that are exact copies of other rows, and values that lie extremely far from all others."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import betabinom
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsRegressor

from evencover import ConformalRegressor, Marginal, Residual, conformal_rank
from evencover.inputs.frames import RowNumbers
from evencover.models.extremes import ExtremeLimiter, OrdinaryRange
from evencover.report.writing import data_of
from evencover.studies import Plan, TableWarning, study
from evencover.studies.row_checks import EqualRows, extreme_values
from tests.canonical_studies import checked_table, light_linear_model
from tests.command_line import run_command_line

MEMORY = Plan(KNeighborsRegressor(1), Residual(), Marginal(), level=0.5, support="none", calibration="split")


def rows(n, seed=0):
    """Return rows with numbers and a category, and a target that depends on them."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    word = rng.choice(["u", "v"], n)
    return pd.DataFrame({"a": a, "b": b, "word": word, "y": a + (word == "u") + rng.normal(size=n)})


def repeated(table, times):
    """Return a table several times, with row numbers as `DataFrame.to_csv` writes them."""
    whole = pd.concat([table] * times, ignore_index=True)
    whole.insert(0, "Unnamed: 0", np.arange(len(whole)))
    return whole


def are_copies(table, target="y"):
    columns = {name: table[name].to_numpy() for name in table if name != target}
    return EqualRows.of(columns, table[target].to_numpy(dtype=float)).are_copies()


def messages(table, kind, **settings):
    """Return the texts of a table's warnings of a kind."""
    found = checked_table(table, plan=Plan(), **settings)[0]
    return [str(each) for each in found if isinstance(each, TableWarning) and each.message.kind == kind]


class TestEqualRows:
    def test_all_kinds_of_values(self):
        """Missing values are equal; so are 0 and −0, and lists; numbers that Python's `hash` confuses are not."""
        values = {
            "number": np.array([0.0, -0.0, np.nan, np.nan, 1.0]),
            "whole": np.array([-1, -1, 2**60, 2**60, -2]),
            "text": np.array(["a", "a", None, np.nan, "a"], dtype=object),
            "date": np.array(["2020-01-01", "2020-01-01", "NaT", "NaT", "2020-01-01"], dtype="M8[s]"),
        }
        lists = np.empty(5, dtype=object)
        lists[:] = [[1], [1], [2], [2], [1]]
        found = EqualRows.of({**values, "list": lists}, np.array([1.0, 1, 2, 2, 1]))
        assert found.first_rows.tolist() == [0, 0, 2, 2, 4]
        different = EqualRows.of({"x": np.array([-1, -2], dtype=object)}, np.zeros(2))
        assert different.first_rows.tolist() == [0, 1]

    def test_columns_are_not_interchangeable(self):
        found = EqualRows.of({"a": np.array([1.0, 2.0]), "b": np.array([2.0, 1.0])}, np.zeros(2))
        assert found.kept().all()

    def test_a_copy_in_the_same_cluster_is_kept(self):
        found = EqualRows.of({"a": np.zeros(4)}, np.array([1.0, 1, 1, 2]))
        assert found.kept().tolist() == [True, False, False, True]
        assert found.kept(np.array([0, 0, 1, 1])).tolist() == [True, True, False, True]


class TestChance:
    @pytest.mark.parametrize("times", [2, 5])
    def test_a_repeated_table_has_copies(self, times):
        iris = load_iris(as_frame=True).frame
        target = "petal width (cm)"
        assert are_copies(pd.concat([iris] * times), target)
        assert not are_copies(iris, target)
        assert are_copies(pd.concat([iris, iris.sample(30, random_state=0)]), target)
        assert are_copies(iris.sample(800, replace=True, random_state=0), target)

    @pytest.mark.parametrize("n_values", [(3, 2, 10), (5, 5, 5, 30), (2, 100), (20, 20), (4, 1000), (2, 2, 2, 2, 50)])
    @pytest.mark.parametrize("n", [50, 200, 1000])
    def test_equal_rows_of_few_values_are_chance(self, n, n_values):
        rng = np.random.default_rng(n)
        for _ in range(10):
            table = pd.DataFrame({str(i): rng.integers(k, size=n) for i, k in enumerate(n_values)})
            assert not are_copies(table, table.columns[-1])

    def test_a_zero_inflated_target_is_chance(self):
        rng = np.random.default_rng(0)
        x = rng.integers(100, size=(2, 400))
        counts = np.where(rng.random(400) < 0.9, 0, rng.integers(100, size=400))
        assert not are_copies(pd.DataFrame({"a": x[0] // 5, "b": x[1] // 5, "y": counts}))

    def test_an_attribute_of_a_category_is_chance(self):
        """The target is that of its category, so rows with equal features have equal targets."""
        rng = np.random.default_rng(0)
        name, month = rng.integers(80, size=600), rng.integers(12, size=600)
        assert not are_copies(pd.DataFrame({"name": name, "month": month, "y": rng.normal(size=80)[name]}))

    def test_few_copies_are_not_looked_at(self):
        table = rows(1000)
        assert not are_copies(pd.concat([table, table[:9]]))
        assert are_copies(pd.concat([table, table[:11]]))


class TestCopies:
    @pytest.mark.parametrize(("n", "times"), [(30, 5), (300, 4)])
    def test_the_study_is_that_of_the_table_without_copies(self, n, times):
        """Cross-fitted and split: bit for bit, whatever the row numbers are."""
        with light_linear_model(), warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            once, copied = (study(repeated(rows(n), k), "y", plan=Plan(model="linear")) for k in (1, times))
        assert (copied.n_copies, copied.sizes) == (n * (times - 1), once.sizes)
        assert np.array_equal(copied.intervals.upper, once.intervals.upper)
        assert str(copied.regressor.guarantee_) == str(once.regressor.guarantee_)
        (warning,) = copied.warnings
        assert warning.startswith(
            f"{n * (times - 1)} of {n * times} rows are exact copies of other rows, in all columns"
        )
        assert "except Unnamed: 0. One row of each set of copies was used" in warning

    def test_the_number_covered_has_its_exact_distribution(self):
        """The law is that of calibration rows without copies; with copies, the memory of a model is tested."""
        n_new, z = 100, {}
        for copies, n_tables in (("auto", 60), ("keep", 15)):
            rng, covered = np.random.default_rng(0), []
            for seed in range(n_tables):
                table = rows(60, seed).drop(columns="word")
                table = table.loc[np.repeat(np.arange(60), rng.integers(1, 8, size=60))]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", TableWarning)
                    found = study(table, "y", plan=MEMORY, copies=copies)
                new = rows(n_new, 1000 + seed).drop(columns="word")
                intervals = found.regressor.predict_interval(new.drop(columns="y"), level=0.5)
                covered.append(intervals.covers(new["y"]).sum())
            if copies == "auto":
                n, k = found.sizes["held_out"], conformal_rank(found.sizes["held_out"], 0.5)
            exact = betabinom(n_new, k, n + 1 - k)
            z[copies] = (np.mean(covered) - exact.mean()) / (exact.std() / np.sqrt(n_tables))
        assert abs(z["auto"]) < 4.9
        assert z["keep"] < -4.9

    def test_one_feature_that_determines_the_target(self):
        """As the year of a coin and its age: coins of one year are equal rows, and no copies."""
        year = np.random.default_rng(0).integers(1960, 2002, size=300)
        equal = EqualRows.of({"year": year}, 2002.0 - year)
        assert equal.are_copies()
        assert not equal.are_copies(target_is_known=True)

    def test_settings(self):
        table = repeated(rows(40), 3)
        assert messages(table, "copies", copies="keep") == []
        assert len(messages(table, "copies")) == 1
        chance = pd.DataFrame({"x": np.arange(100) % 3, "y": np.arange(100) % 7})
        assert messages(chance, "copies") == []
        (text,) = messages(chance, "copies", copies="drop")
        assert text.startswith("79 of 100 rows are exact copies of other rows, in all columns. One row")

    def test_dropped_columns_count_unless_they_are_ids(self):
        table = rows(40)
        both = pd.concat([table, table], ignore_index=True)
        assert messages(both.assign(number=np.arange(80)), "copies", drop=["number"])
        assert not messages(both.assign(group=np.arange(80) // 40), "copies", drop=["group"])

    def test_clusters_and_times(self):
        table = rows(60).assign(who=np.arange(60) // 3, when=np.arange(60))
        again = pd.concat([table, table.assign(who=table["who"] + 20)])
        (text,) = messages(again, "copies", clusters="who")
        assert text.startswith("60 of 120 rows are exact copies")
        assert not messages(pd.concat([table, table]), "copies", clusters="who")
        (text,) = messages(pd.concat([table, table]), "copies", time="when")
        assert text.startswith("60 of 120 rows")
        assert not messages(pd.concat([table, table.assign(when=table["when"] + 60)]), "copies", time="when")

    @pytest.mark.filterwarnings("ignore::evencover.studies.TableWarning")
    def test_the_command_line(self, tmp_path, capsys):
        repeated(rows(30), 4).to_csv(tmp_path / "table.csv", index=False)
        options = (
            "--target",
            "y",
            "--model",
            "linear",
            "--output",
            str(tmp_path / "out"),
            "--copies",
            "drop",
            "--json",
        )
        with light_linear_model():
            _, text, _ = run_command_line(capsys, "run", str(tmp_path / "table.csv"), *options)
        assert '"copies": 90' in text
        assert "To use all rows, add --copies keep." in text

    def test_batches_say_that_copies_are_used(self, tmp_path):
        table = pa.Table.from_pandas(pd.concat([rows(1500)] * 4, ignore_index=True))
        plan = Plan("linear", Residual(), Marginal())
        with light_linear_model(), pytest.warns(TableWarning, match="in batches, all rows are used") as caught:
            found = study(table, "y", plan=plan, output=tmp_path / "intervals.parquet", training_rows=1000)
        assert sum(isinstance(each.message, TableWarning) for each in caught) == 1
        (text,) = found.warnings
        assert re.match(r"In a random sample of \d+ rows, \d+ are exact copies of other rows\. In a table", text)


def quiet_study(table, model):
    """Return the study of a table with one threshold, which gives no warnings but those of the table."""
    plan = Plan(model=model, calibration="split", nonconformity=Residual(), taxonomy=Marginal())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TableWarning)
        return study(table, "y", plan=plan)


class TestExtremes:
    def test_which_numbers_are_extreme(self):
        rng = np.random.default_rng(0)
        normal = rng.normal(size=200)
        for extreme in ([1e300], [-1.7e308], [1e300, -1e200, 1e100], [200.0]):
            values = np.concatenate([extreme, normal])
            found = extreme_values("x", values)
            assert [each.value for each in found] == extreme
            assert (found[0].lowest, found[0].highest) == (normal.min(), normal.max())

    def test_heavy_tails_and_rare_values_are_not(self):
        rng = np.random.default_rng(0)
        for values in (
            np.exp(3 * rng.normal(size=300)),
            rng.standard_t(4, size=300),
            np.array([0.0] * 99 + [1.0]),
            np.array([0.0] * 90 + [1.0, 5.0, 20.0, 60.0] * 3),
            np.array([1e300] * 4 + [1.0, 2.0, 3.0] * 40),
            np.array([1.0] * 8 + [1e9]),
        ):
            assert extreme_values("x", values) == []

    def test_features_are_limited_to_ordinary_ones(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(100, 2))
        assert np.array_equal(ExtremeLimiter().fit_transform(X), X)
        spoilt = X.copy()
        spoilt[7, 0] = 1e300
        limiter = ExtremeLimiter().fit(spoilt)
        assert limiter.transform(spoilt)[7].tolist() == [np.delete(X[:, 0], 7).max(), X[7, 1]]
        assert limiter.transform([[-1e300, 5.0]])[0].tolist() == [np.delete(X[:, 0], 7).min(), 5.0]

    @pytest.mark.parametrize("model", ["best-of-three", "boosting", "linear"])
    @pytest.mark.parametrize("name", ["a", "y"])
    def test_one_cell_ruins_no_model(self, name, model):
        """Without the limits, the linear models failed or had intervals as wide as the cell."""
        table = rows(60)
        before = quiet_study(table, model)
        table.loc[before.training[0], name] = 1e300
        found = quiet_study(table, model)
        assert set(found.training) == set(before.training)
        assert found.intervals.width.mean() < 1.5 * before.intervals.width.mean()

    @pytest.mark.parametrize("name", ["a", "y"])
    def test_one_cell_of_a_held_out_row_ruins_no_predictor(self, name):
        """The second largest of 20 scores is the threshold, so one of them may be infinite."""
        table, new = rows(60), rows(60, seed=1).drop(columns="y")
        before = quiet_study(table, "linear")
        table.loc[before.calibration[0], name] = 1e300
        found = quiet_study(table, "linear")
        np.testing.assert_array_equal(found.regressor.predict(new), before.regressor.predict(new))
        largest = before.regressor.calibration_.scores.max()
        assert found.regressor.predict_interval(new).width.max() <= 2 * largest * (1 + 1e-12)

    def test_a_saved_predictor_limits_new_rows(self, tmp_path):
        found = study(rows(60), "y", plan=Plan("best-of-three", Residual(), Marginal(), calibration="split"))
        found.regressor.save(tmp_path / "predictor")
        new = rows(3, seed=1).drop(columns="y")
        new.loc[0, "a"] = 1e300
        intervals = ConformalRegressor.load(tmp_path / "predictor").predict_interval(new)
        assert np.isfinite(intervals.upper).all()

    def test_the_advice_names_the_rows(self):
        """And not that columns should be added: one value hides what the model explains."""
        rng = np.random.default_rng(0)
        x = rng.uniform(100, 200, size=60)
        table = pd.DataFrame({"height": x, "mass": x / 2 + rng.normal(scale=10, size=60)})
        table.loc[15, "mass"] = 1358
        with (
            light_linear_model(),
            pytest.warns(TableWarning, match=r"has 1358 in row 15 \(counted from 0\); all other"),
        ):
            found = study(table, "mass", plan=Plan(model="linear"))
        assert found.quality.explains_nothing
        assert found.advice.startswith("Check the extreme values: row 15 (counted from 0) has mass 1358 (others: ")
        (warning,) = found.table_warnings
        assert (warning.kind, warning.remedies) == ("extreme values", ({"missing_values": ["1358"]},))
        assert [(each.row, each.value, each.is_target) for each in found.extremes] == [(15, 1358.0, True)]
        of_file = replace(found, row_numbers=RowNumbers(blank=(2,)))
        assert [data_of(each)["extremes"][0]["row"] for each in (found, of_file)] == [15, 18]

    def test_rows_are_those_of_the_table(self):
        """Rows without a target, and copies, are counted."""
        table = rows(50)
        table.loc[3, "y"] = np.nan
        table.loc[20, "b"] = -1e9
        table = pd.concat([table.iloc[:10], table], ignore_index=True)
        (text,) = messages(table, "extreme values", missing_target="drop", copies="drop")
        assert "Column 'b' has -1e+09 in row 30 (counted from 0)" in text.replace("-1 000 000 000", "-1e+09")

    def test_the_range_of_few_numbers_is_not_known(self):
        assert OrdinaryRange.of(np.array([1.0, 2.0, 1e9])) == OrdinaryRange()
