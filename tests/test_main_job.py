"""The commands run, predict and audit, from the words after `evencover` to files, output and exit status."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from evencover import ConformalRegressor
from evencover.studies import MODELS
from tests.canonical_studies import light_linear_model
from tests.command_line import app, main, run_command_line
from tests.report_pages import few_levels
from tests.test_cli import SCRIPT, run

QUICK = ("--model", "linear", "--score", "residual", "--groups", "none")
RUN = ("run", "houses.csv", "--target", "price", "--drop", "name", *QUICK)
FILES = ["intervals.csv", "predictor.evencover", "report.html", "results.json"]


def houses(n=600, seed=0):
    rng = np.random.default_rng(seed)
    area = rng.uniform(size=n)
    codes = rng.choice(["01", "x9", "y8"], n)
    return pd.DataFrame(
        {
            "name": [f"house {i}" for i in range(n)],
            "area": np.where(rng.random(n) < 0.1, np.nan, area),
            "<script>": rng.choice(["a,b", 'say "c"', "d\ne"], n),
            "code": codes,
            "price": 3 * area + 5 * (codes == "01") + rng.normal(size=n) * (0.1 + area),
        }
    )


def names_in(folder="."):
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.fixture(autouse=True, scope="module")
def quick_runs():
    """Neither models nor reports are the point here."""
    with few_levels(), light_linear_model():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick_runs):
    """A folder with a table and the output of one run at level 0.8, and what that run returned."""
    folder = tmp_path_factory.mktemp("finished")
    houses().to_csv(folder / "houses.csv", index=False)
    output, errors = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors)
    with contextlib.chdir(folder), streams[0], streams[1], pytest.raises(SystemExit) as left:
        main([*RUN, "--level", "0.8"])
    return folder, (left.value.code, output.getvalue(), errors.getvalue())


@pytest.fixture
def work(finished, tmp_path, monkeypatch):
    """A copy of the finished run's folder, as the current folder."""
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def csv(tmp_path, monkeypatch):
    """A table of houses in the current folder, and nothing else."""
    monkeypatch.chdir(tmp_path)
    houses().to_csv("houses.csv", index=False)
    return "houses.csv"


def run_again(capsys, *arguments):
    return run_command_line(capsys, *RUN, *arguments)


class TestRun:
    def test_the_folder_and_what_is_printed(self, finished):
        folder, (status, text, errors) = finished
        output = folder / "evencover-houses"
        results = json.loads((output / "results.json").read_text(encoding="utf-8"))
        assert names_in(output) == FILES
        assert status == (3 if results["verdict"] == "uneven" else 0)
        assert f"\n\nVerdict: {results['verdict']}.\nHow often right: " in text
        assert f"\nWhat to do: {results['advice']}\n\nCoverage of the test rows" in text
        assert results["diagnosis"]["advice"] not in text  # one advice for one run
        assert f"Written to evencover-houses: {', '.join(FILES)}." in text
        assert errors == ""
        options = "--target price --model linear --score residual --groups none --level 0.8 --drop name"
        page = (output / "report.html").read_text(encoding="utf-8")
        assert f"evencover run houses.csv {options}" in page
        assert "evencover predict evencover-houses NEW.csv --output intervals.csv" in page
        assert "FOLDER" not in page.replace("NEW_FOLDER", "")
        intervals = pd.read_csv(output / "intervals.csv")
        assert len(intervals) == results["rows"]["held_out"] == 60
        positions = intervals["row"] - 2  # the header is row 1 of the file
        assert intervals["name"].tolist() == [f"house {position}" for position in positions]
        np.testing.assert_allclose(intervals["price"], houses()["price"][positions])
        assert intervals["covered"].mean() == results["audit"]["overall"]["coverage"]

    @pytest.mark.parametrize(
        "words",
        [
            "houses.csv --target price --drop name code",
            "houses.csv --drop name --target price --drop code",
            "--target price --drop name code houses.csv",
            "--drop name 4 houses.csv --target 5",
            "./houses.csv --drop 1 4 --missing-values - ? -9 --target price",
            "--target price houses.csv --drop name code --strict",
        ],
    )
    def test_several_columns_to_drop(self, words, capsys, csv, monkeypatch):
        """After one option or after several, by name or position, before or after the file."""

        def studied(table, target, *, drop, name, **_):
            raise ValueError(f"{name}: {len(table)} rows, target {target}, without {drop}")

        monkeypatch.setattr("evencover.cli.run_inputs.study", studied)
        _, _, errors = run_command_line(capsys, "run", *words.split(), *QUICK)
        assert errors == "evencover: houses.csv: 600 rows, target price, without ['name', 'code']"

    def test_dropped_columns_are_no_features_and_kept_next_to_the_intervals(self, capsys, csv):
        """The command in the report has the option before each of them."""
        Path(csv).rename("my houses.csv")
        words = ("--target", "price", "--drop", "name", "code", *QUICK, "--output", "out", "--strict")
        _, text, errors = run_command_line(capsys, "run", "my houses.csv", *words)
        assert errors == ""
        assert "Data: my houses.csv, target price;" in text
        page = unescape(Path("out/report.html").read_text(encoding="utf-8"))
        options = f"--target price --output out {' '.join(QUICK)} --drop name --drop code --strict"
        assert f">evencover run 'my houses.csv' {options}<" in page
        assert {"name", "code"} <= set(pd.read_csv("out/intervals.csv").columns)
        assert ConformalRegressor.load("out/predictor.evencover").feature_names_in_.tolist() == ["area", "<script>"]

    def test_counts_get_whole_intervals_of_at_least_zero(self, capsys, tmp_path, monkeypatch):
        """In the run, its results and the predictions for new rows; --support none switches it off."""
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"x": rng.uniform(size=600)}).assign(visits=lambda each: rng.poisson(4 * each.x))
        table.to_csv("visits.csv", index=False)
        note = "so intervals hold only such numbers. To switch this off, use --support none."
        for words, whole in (((), True), (("--support", "none"), False)):
            _, text, errors = run_command_line(
                capsys, "run", "visits.csv", "--target", "visits", *QUICK, *words, "--output", "out"
            )
            assert errors == ""
            assert (note in text) == (note in Path("out/report.html").read_text(encoding="utf-8")) == whole
            results = json.loads(Path("out/results.json").read_text(encoding="utf-8"))
            assert results["support"] == ({"y_min": 0, "y_max": None, "whole": True} if whole else None)
            assert results["nonconformity"] == ("Bounded(Residual(), y_min=0, whole=True)" if whole else "Residual()")
            run_command_line(capsys, "predict", "out", "visits.csv", "--output", "new.csv")
            bounds = pd.read_csv("new.csv")[["lower", "upper"]].to_numpy()
            assert (bounds.min() >= 0, (bounds % 1 == 0).all()) == (whole, whole)
            shutil.rmtree("out")

    def test_a_table_from_standard_input(self, capsys, finished, tmp_path, monkeypatch):
        """The same intervals as from the file; `predict` and `audit` read it, too."""
        monkeypatch.chdir(tmp_path)
        table, intervals = (
            (finished[0] / name).read_text(encoding="utf-8")
            for name in ("houses.csv", "evencover-houses/intervals.csv")
        )

        def run_with_input(text, *words):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            return run_command_line(capsys, *words)

        _, text, errors = run_with_input(table, "run", "-", *RUN[2:], "--level", "0.8")
        assert errors == ""
        assert "Data: stdin, target price;" in text
        assert "evencover run - --target price" in Path("evencover-stdin/report.html").read_text(encoding="utf-8")
        assert Path("evencover-stdin/intervals.csv").read_text(encoding="utf-8") == intervals
        status, text, errors = run_with_input(table, "predict", "evencover-stdin", "--keep", "name", "-")
        assert (status, errors, len(text.splitlines())) == (0, "", 601)
        columns = ("--target", "price", "--lower", "lower", "--upper", "upper")
        assert "Verdict: " in run_with_input(intervals, "audit", "-", *columns)[1]

    @pytest.mark.system
    def test_a_table_from_a_pipe(self):
        table = "y,lo,hi\n" + "0,-1,1\n" * 50
        done = run("audit", "-", "--target", "y", "--lower", "lo", "--upper", "hi", input=table)
        assert "Verdict: " in done.stdout

    def test_bounds_on_one_side(self, capsys, csv):
        """The report and the predictor know the side; `predict` has one threshold, and the test one for each half."""
        _, text, errors = run_again(capsys, "--side", "lower")
        assert errors == ""
        assert "test targets are at or above their lower bound" in text
        assert "How far: The lower bounds are" in text
        page = Path("evencover-houses/report.html").read_text(encoding="utf-8")
        assert "--side lower" in page
        assert "at or above their lower bound" in page.replace("\u00a0", " ")
        run_command_line(capsys, "predict", "evencover-houses", csv, "--output", "new.csv")
        tested, new = (pd.read_csv(path) for path in ("evencover-houses/intervals.csv", "new.csv"))
        assert np.isinf(new["upper"]).all()
        np.testing.assert_array_equal(new.set_index("row").loc[tested["row"], "prediction"], tested["prediction"])
        threshold, halves = ((each["prediction"] - each["lower"]).round(9).unique() for each in (new, tested))
        results = json.loads(Path("evencover-houses/results.json").read_text(encoding="utf-8"))
        assert threshold == pytest.approx([results["thresholds"]["all"]])
        assert min(halves) <= threshold.item() <= max(halves)
        assert len(halves) == 2

    def test_separate_tails(self, capsys, csv):
        """The report and the predictor have a threshold for each end, which `predict` uses."""
        _, text, errors = run_again(capsys, "--tails", "separate")
        assert errors == ""
        assert "; one threshold for each end.\n" in text
        assert "\nTest rows below and above their intervals: low " in text
        results = json.loads(Path("evencover-houses/results.json").read_text(encoding="utf-8"))
        assert results["thresholds"]["all"].keys() == {"lower", "upper"}
        page = Path("evencover-houses/report.html").read_text(encoding="utf-8")
        assert "--tails separate" in page
        assert "Test rows below and above their intervals: low " in page
        run_command_line(capsys, "predict", "evencover-houses", csv, "--output", "new.csv")
        new, thresholds = pd.read_csv("new.csv"), results["thresholds"]["all"]
        np.testing.assert_allclose(new["prediction"] - new["lower"], thresholds["lower"])
        np.testing.assert_allclose(new["upper"] - new["prediction"], thresholds["upper"])
        assert thresholds["lower"] != pytest.approx(thresholds["upper"])

    @pytest.mark.parametrize("suffix", [".csv.gz", ".TSV", ".feather", ".xlsx"])
    def test_other_formats(self, suffix, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write = {".csv.gz": "to_csv", ".TSV": "to_csv", ".feather": "to_feather", ".xlsx": "to_excel"}[suffix]
        options = {".TSV": {"sep": "\t", "index": False}, ".feather": {}}.get(suffix, {"index": False})
        getattr(houses(), write)(f"houses{suffix}", **options)
        run_command_line(capsys, "run", f"houses{suffix}", *RUN[2:])
        name = "intervals.parquet" if suffix == ".feather" else "intervals.csv"
        assert names_in("evencover-houses") == [name, *FILES[1:]]
        status, text, _ = run_command_line(capsys, "predict", "evencover-houses", f"houses{suffix}")
        assert (status, len(text.splitlines())) == (0, 601)

    def test_missing_values_by_their_text(self, capsys, csv):
        table = houses()
        table["area"] = table["area"].map(lambda area: "-" if np.isnan(area) else repr(area))
        table.to_csv("houses.csv", index=False)
        assert "'-'" in run_command_line(capsys, *RUN)[2]
        _, _, errors = run_command_line(capsys, *RUN, "--missing-values", "?", "-")
        assert errors == ""
        for given in ((), ("--missing-values", "-")):  # by default those of the run
            status, _, errors = run_command_line(capsys, "predict", "evencover-houses", csv, *given)
            assert (status, errors) == (0, "")
        errors = run_command_line(capsys, "predict", "evencover-houses", csv, "--missing-values", "?")[2]
        assert "column 'area' must hold numbers, as it did in fit; got '-' in row" in errors
        assert "of the file" in errors

    def test_new_rows_are_read_as_the_table_was(self, capsys, csv):
        """With the separator and the header of the run, which a note names; options and other kinds of files differ."""
        text = houses().drop(columns=["name", "<script>"]).to_csv(sep="^", index=False)
        Path(csv).write_text(text.partition("\n")[2], encoding="utf-8")
        options = ("--separator", "^", "--header", "none")
        _, _, errors = run_command_line(capsys, "run", csv, "--target", "3", *QUICK, *options)
        assert errors == ""
        results = json.loads(Path("evencover-houses/results.json").read_text(encoding="utf-8"))
        assert results["file_format"] == {"separator": "^", "header": 0}
        status, printed, errors = run_command_line(capsys, "predict", "evencover-houses", csv)
        assert (status, len(printed.splitlines())) == (0, 601)
        assert "houses.csv is read as houses.csv was: --separator '^' --header 0; if it differs, give these" in errors
        status, printed, errors = run_command_line(capsys, "predict", "evencover-houses", csv, *options[:3], "1")
        assert "missing columns: ['column 1', 'column 2']" in errors
        read_by_excel = pd.read_csv(csv, sep="^", names=["column 1", "column 2", "column 3"], dtype={"column 2": str})
        read_by_excel.to_excel("new.xlsx", index=False)
        status, again, errors = run_command_line(capsys, "predict", "evencover-houses", "new.xlsx")
        assert (status, errors, len(again.splitlines())) == (0, "", 601)

    def test_intervals_in_excel(self, capsys, csv):
        status, _, errors = run_again(capsys, "--intervals", "xlsx")
        assert (status, errors, names_in("evencover-houses")) == (0, "", ["intervals.xlsx", *FILES[1:]])
        found = pd.read_excel("evencover-houses/intervals.xlsx")
        run_again(capsys)
        pd.testing.assert_frame_equal(found, pd.read_csv("evencover-houses/intervals.csv"), check_exact=True)

    @pytest.mark.parametrize(
        ("column", "cells"),
        [
            ("price", ["?"]),
            ("price", ["-", "it's $(x)"]),
            ("price", ["<5", "unknown", "12*"]),
            ("area", ["tbd", "n.a.", "-x", "<5"] * 3),
            ("area", ["12*"] * 5),
        ],
    )
    def test_the_options_that_an_error_names_work(self, column, cells, capsys, csv):
        """Pasted at the end of the command; odd cells among numbers may be missing values."""
        table = houses()
        table[column] = [*cells, *map(repr, table[column].fillna(0.5)[len(cells) :])]
        table.to_csv("houses.csv", index=False)
        status, _, error = run_again(capsys)
        assert status == 1
        assert f"not numbers: {len(cells)} of 600 values" in error
        offered = error.strip().rpartition(": use ")[2].partition(" or ")[0]
        given = {word.removeprefix("--missing-values=") for word in shlex.split(offered)}
        assert set(cells) <= given
        status, text, error = run_command_line(capsys, *shlex.split(f"{shlex.join(RUN)} {offered}"))
        assert (status, error) in ((0, ""), (3, ""))
        assert "is no number" not in text

    def test_how_a_file_was_read_is_in_the_results(self, capsys, csv):
        houses().assign(code=lambda table: [f"${each}" for each in range(len(table))]).to_csv(csv, index=False)
        _, text, errors = run_again(capsys)
        assert errors.startswith("evencover: houses.csv holds numbers as text in the column code ('$0' is 0)")
        note = "houses.csv holds numbers as text in the column code"
        assert f"Note: {note}" in text
        assert json.loads(Path("evencover-houses/results.json").read_text(encoding="utf-8"))["notes"][0].startswith(
            note
        )

    def test_a_target_that_two_columns_have(self, capsys, csv):
        csv_text = Path(csv).read_text(encoding="utf-8").replace(",code,", ",price,", 1)
        Path(csv).write_text(csv_text, encoding="utf-8")
        status, _, errors = run_again(capsys)
        assert (status, "several columns are named 'price'; give the position of one" in errors) == (1, True)

    def test_no_data_is_needed(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("evencover.cli.run_inputs._EXAMPLE_ROWS", 2000)
        status, text, _ = run_command_line(capsys, "run", *QUICK)
        assert status == 3  # one threshold for data whose noise grows tenfold
        assert "1800 rows to train, 200 held out to calibrate and to test in turn." in text
        assert names_in() == ["evencover-heteroskedastic"]
        page = Path("evencover-heteroskedastic/report.html").read_text(encoding="utf-8")
        assert f">evencover run {' '.join(QUICK)}<" in page  # without the options that have their default

    def test_json_is_what_the_file_holds(self, capsys, csv):
        status, text, _ = run_again(capsys, "--json", "--strict")
        assert (status, json.loads(text)["verdict"]) == (4, "undecided")
        assert json.loads(text) == json.loads(Path("evencover-houses/results.json").read_text(encoding="utf-8"))
        assert json.loads(text)["kind"] == "study"

    def test_parquet_in_and_out(self, capsys, work):
        """The same intervals as from CSV, in a Parquet file that replaces the CSV file; and back."""
        from_csv = pd.read_csv("evencover-houses/intervals.csv")
        houses().to_parquet("houses.parquet", index=False)
        arguments = ("run", "houses.parquet", *RUN[2:], "--level", "0.8")
        run_command_line(capsys, *arguments)
        assert names_in("evencover-houses") == ["intervals.parquet", *FILES[1:]]
        from_parquet = pyarrow.parquet.read_table("evencover-houses/intervals.parquet").to_pandas()
        np.testing.assert_allclose(from_csv["lower"], from_parquet["lower"])
        run_command_line(capsys, *arguments, "--intervals", "csv")
        assert names_in("evencover-houses") == FILES

    def test_the_same_command_gives_the_same_files(self, capsys, work):
        first = {name: Path("evencover-houses", name).read_bytes() for name in FILES if "predictor" not in name}
        shutil.rmtree("evencover-houses")
        run_again(capsys, "--level", "0.8")
        assert {name: Path("evencover-houses", name).read_bytes() for name in first} == first

    def test_scores_groups_and_levels(self, capsys, csv):
        options = ("--score", "normalized", "--groups", "spread:2", "--groups", "column:code", "--level", "0.8")
        _, text, _ = run_command_line(capsys, *RUN[:6], "--model", "linear", *options)
        assert (
            "Model: linear; score: Normalized(); groups: Product(taxonomies=[BySpread(n_groups=2), ByFeature(" in text
        )
        assert "at level 0.8" in text
        assert text.count(" & ") >= 6

    def test_clusters(self, capsys, csv):
        status, _, error = run_again(capsys, "--clusters", "code", "--calibration", "split")
        assert (status, "table must have at least 10 clusters to fit the model and 2 more" in error) == (1, True)
        houses().assign(patient=np.arange(600) // 4).to_csv(csv, index=False)
        _, text, _ = run_again(capsys, "--clusters", "patient")
        assert "(calibration: each patient counts as one row; test: one row of each patient)" in text

    def test_the_share_of_rows_that_are_held_out(self, capsys, csv):
        _, text, _ = run_again(capsys, "--held-out", "0.4", "--json")
        assert json.loads(text)["rows"] == {"training": 360, "held_out": 240}

    def test_every_model_can_be_named(self):
        (model,) = (each for each in app()["run"].assemble_argument_collection() if each.name == "--model")
        assert set(model.get_choices()) == {"auto", *MODELS}


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_positions_count_an_empty_column_without_a_name(capsys, csv, suffix):
    """As they are in the file: an empty column comes before the name, which is then the third column."""
    table = houses()[["area", "name", "code", "price"]]
    table.insert(1, "", np.nan)
    write = table.to_csv if suffix == ".csv" else table.to_excel
    write(f"mine{suffix}", index=False)
    options = ("--target", "5", "--drop", "3", "--categorical", "4", *QUICK)
    status, _, errors = run_command_line(capsys, "run", f"mine{suffix}", *options, "--json")
    assert (status in (0, 3), errors) == (True, "")
    assert ConformalRegressor.load("evencover-mine/predictor.evencover").feature_names_in_.tolist() == ["area", "code"]
    assert "name" in pd.read_csv("evencover-mine/intervals.csv")


class TestPredict:
    def test_the_intervals_of_the_saved_predictor(self, capsys, work):
        """At the level of the run by default, whatever the order of the columns."""
        new = houses(20, seed=1)
        new.iloc[:, ::-1].to_csv("new.csv", index=False)
        status, text, errors = run_command_line(capsys, "predict", "evencover-houses", "new.csv", "--keep", "name")
        assert (status, errors) == (0, "")
        printed = pd.read_csv(io.StringIO(text))
        model = ConformalRegressor.load("evencover-houses/predictor.evencover")
        features = new[["area", "<script>", "code"]]
        intervals = model.predict_interval(features, level=0.8)
        np.testing.assert_allclose(printed["prediction"], model.predict(features))
        np.testing.assert_allclose(printed[["lower", "upper"]], np.asarray(intervals))
        assert printed["name"].tolist() == new["name"].tolist()
        _, text, _ = run_command_line(capsys, "predict", "evencover-houses", "new.csv", "--level", "0.5", "--json")
        data = json.loads(text)
        assert data["level"] == 0.5
        assert (
            np.mean(np.subtract(data["intervals"]["upper"], data["intervals"]["lower"]))
            < printed.eval("upper - lower").mean()
        )

    def test_an_interval_does_not_depend_on_the_other_rows(self, capsys, work):
        """Codes of digits stay text in a file without letters."""
        new = houses(30, seed=1)
        for name, rows in {"all": new.index, "digits": new.index[new["code"] == "01"]}.items():
            new.loc[rows].to_csv(f"{name}.csv", index=False)
            arguments = ("predict", "evencover-houses", f"{name}.csv", "--keep", "name", "--output", f"{name}_out.csv")
            status, text, _ = run_command_line(capsys, *arguments)
            assert (status, f"Wrote {len(rows)} intervals at level 0.8 to {name}_out.csv." in text) == (0, True)
        every, digits = (pd.read_csv(f"{name}_out.csv").set_index("name") for name in ("all", "digits"))
        assert 0 < len(digits) < 30
        assert (every["row"] - 2).tolist() == list(range(30))
        pd.testing.assert_frame_equal(every.loc[digits.index].drop(columns="row"), digits.drop(columns="row"))

    @pytest.mark.parametrize("groups", [("column:code",), ("spread:2", "column:code"), ("column:year",)])
    def test_groups_of_text_and_of_numbers(self, capsys, csv, groups):
        houses().assign(year=np.arange(600) % 2 + 2020).to_csv(csv, index=False)
        options = [word for each in groups for word in ("--groups", each)]
        run_command_line(capsys, *RUN[:-2], *options, "--level", "0.8")
        new = houses(30, seed=1).assign(year=2020)
        new[new["code"] == "01"].to_csv("new.csv", index=False)
        status, text, errors = run_command_line(capsys, "predict", "evencover-houses", "new.csv")
        assert (status, errors) == (0, "")
        assert set(text.splitlines()[1].split(",")[4].strip('"').split(" & ")) & {"01", "2020"}

    def test_one_column_with_an_empty_line(self, capsys, csv):
        houses()[["area", "price"]].to_csv(csv, index=False)
        run_command_line(capsys, "run", csv, "--target", "price", *QUICK)
        Path("new.csv").write_text("area\n0.1\n\n0.3\n", encoding="utf-8")
        _, text, _ = run_command_line(capsys, "predict", "evencover-houses", "new.csv")
        assert len(text.splitlines()) == 4

    @pytest.mark.parametrize("cell", ['""', ".", "NA"])
    def test_a_single_row_without_a_number(self, capsys, work, cell):
        """The interval of a row without an area is the same with and without another row in the file."""
        printed = []
        for rows in ([f'{cell},"a,b",01'], [f'{cell},"a,b",01', '0.5,"a,b",01']):
            Path("new.csv").write_text("\n".join(["area,<script>,code", *rows, ""]), encoding="utf-8")
            printed.append(run_command_line(capsys, "predict", "evencover-houses", "new.csv")[1].splitlines())
        assert printed[0] == printed[1][:2]
        assert len(printed[0]) == 2

    def test_new_rows_with_row_names_and_unknown_targets(self, capsys, work):
        """As R writes them: the columns are not shifted."""
        new = houses(5, seed=1)
        new.to_csv("new.csv", index=False)
        expected = run_command_line(capsys, "predict", "evencover-houses", "new.csv")
        new.assign(price=np.nan).to_csv("new.csv", na_rep="NA", index_label=False)
        assert run_command_line(capsys, "predict", "evencover-houses", "new.csv") == expected

    def test_the_folder_and_the_file_may_come_last(self, capsys, work):
        expected = run_command_line(capsys, "predict", "evencover-houses", "houses.csv", "--keep", "name", "code")
        words = ("predict", "--keep", "name", "code", "evencover-houses", "houses.csv")
        assert run_command_line(capsys, *words) == expected
        assert expected[0] == 0

    def test_unseen_values_are_reported(self, capsys, work):
        houses(5, seed=1).assign(code="zz").to_csv("new.csv", index=False)
        _, _, errors = run_command_line(capsys, "predict", "evencover-houses", "new.csv")
        expected = "5 of 5 rows are outside what the model has seen: code (5, such as 'zz')"
        assert errors == f"evencover: {expected}\n"

    def test_rows_outside_are_named_and_an_error_if_strict(self, capsys, work):
        new = houses(5, seed=1)
        new.loc[1, "area"], new.loc[1, "code"], new.loc[3, "area"] = 1e9, "zz", -1e9
        new.to_csv("new.csv", index=False)
        arguments = ("predict", "evencover-houses", "new.csv", "--output", "out.csv")
        status, _, errors = run_command_line(capsys, *arguments, "--strict")
        said = (
            "2 of 5 rows are outside what the model has seen: area (2, such as 1 000 000 000), code (1, such as 'zz')"
        )
        assert (status, said in errors, "--strict" in errors) == (1, True, True)
        assert not Path("out.csv").exists()
        status, _, errors = run_command_line(capsys, *arguments)
        assert (status, errors) == (0, f"evencover: {said}\n")
        assert pd.read_csv("out.csv")["outside"].fillna("").tolist() == ["", "area; code", "", "area", ""]
        _, text, _ = run_command_line(capsys, *arguments[:-2], "--json")
        counts = {"rows": 2, "by_column": {"area": 2, "code": 1}, "without_values": []}
        assert json.loads(text)["outside"] == counts
        new.loc[[0, 2, 4]].to_csv("new.csv", index=False)
        status, _, errors = run_command_line(capsys, *arguments, "--strict")
        assert (status, errors) == (0, "")

    def test_a_kept_column_with_the_name_of_a_result_gets_a_prefix(self, capsys, work):
        houses(5).assign(lower=1.5).to_csv("new.csv", index=False)
        _, text, _ = run_command_line(capsys, "predict", "evencover-houses", "new.csv", "--keep", "lower")
        assert text.splitlines()[0] == '"row","prediction","lower","upper","outside","table_lower"'

    def test_columns_that_join_the_intervals_to_the_table(self, capsys, work):
        """Rows as in the file, blank lines counted; the columns that the run dropped, those named, or all."""
        header, *rows = houses(4, seed=1).drop(columns="<script>").to_csv(index=False).splitlines()
        Path("new.csv").write_text("\n".join([header, rows[0], "", *rows[1:]]), encoding="utf-8")
        results = json.loads(Path("evencover-houses/results.json").read_text(encoding="utf-8"))
        assert results["kept_columns"] == ["name"]
        arguments = ("predict", "evencover-houses", "new.csv", "--output", "out.csv")
        new = houses(4, seed=1)
        new["<script>"] = "a,b"
        new.iloc[:, [0, 1, 3, 4, 2]].to_csv("new.csv", index=False)
        lines = Path("new.csv").read_text(encoding="utf-8").splitlines()
        Path("new.csv").write_text("\n".join([lines[0], lines[1], "", *lines[2:]]), encoding="utf-8")
        own = ["row", "prediction", "lower", "upper", "outside"]
        for options, kept in (
            ((), ["name"]),
            (("--keep", "code"), ["code"]),
            (("--keep", "all"), ["name", "area", "code", "price", "<script>"]),
        ):
            assert run_command_line(capsys, *arguments, *options)[0] == 0
            found = pd.read_csv("out.csv")
            assert list(found) == own + kept
            assert found["row"].tolist() == [2, 4, 5, 6]
            for name in kept:
                assert found[name].fillna(-1).tolist() == pd.read_csv("new.csv")[name].fillna(-1).tolist()

    def test_a_terminal_shows_a_table_to_read(self, capsys, work, monkeypatch):
        """Only the first rows, numbers with four digits; a pipe gets all of them as CSV."""
        new = houses(30, seed=1).assign(name=["a very long name of a house, longer than a cell"] * 30)
        new.to_csv("new.csv", index=False)
        arguments = ("predict", "evencover-houses", "new.csv")
        _, piped, _ = run_command_line(capsys, *arguments)
        assert len(pd.read_csv(io.StringIO(piped))) == 30
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        _, text, _ = run_command_line(capsys, *arguments)
        header, first, *lines = text.splitlines()
        assert header.split() == ["row", "name", "prediction", "lower", "upper", "outside"]
        assert first.startswith("  2    a very long name of a house...")
        predicted = pd.read_csv(io.StringIO(piped)).loc[0, ["prediction", "lower", "upper"]]
        assert first.split()[-3:] == [f"{value:.2f}" for value in predicted]  # of a width of about 3
        assert lines[19] == "These are the first 20 of 30 rows. To write all of them, add --output FILE.csv."
        assert lines[20].startswith("Marginal coverage")

    def test_a_terminal_shows_narrow_intervals_of_large_numbers(self, capsys, csv, monkeypatch):
        """As many decimals as the widths need; the results stay together, and the key comes first."""
        table = houses().assign(price=lambda each: each["price"] + 1_000_000)
        table["lower"] = [f"place {row}" for row in range(600)]
        table.to_csv(csv, index=False)
        run_again(capsys, "--drop", "lower")
        _, piped, _ = run_command_line(capsys, "predict", "evencover-houses", csv)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        _, text, _ = run_command_line(capsys, "predict", "evencover-houses", csv)
        header, first, *_ = text.splitlines()
        results = ["prediction", "lower", "upper", "outside"]
        assert header.split() == ["row", "name", "table_lower", *results]
        values = pd.read_csv(io.StringIO(piped)).loc[0, ["prediction", "lower", "upper"]]
        assert first.endswith("  ".join(f"{value:,.2f}".replace(",", " ") for value in values))

    def test_rows_without_a_target_get_intervals(self, capsys, csv):
        table = houses()
        table.loc[[3, 7], "price"] = np.nan
        table.to_csv(csv, index=False)
        _, text, errors = run_again(capsys)
        assert errors == ""
        written = "intervals.csv, intervals_without_target.csv, predictor.evencover, report.html, results.json"
        assert f"Written to evencover-houses: {written}." in text
        assert "Note: Rows without a target: 2 of 600. They neither fitted nor tested the model" in text
        found = pd.read_csv("evencover-houses/intervals_without_target.csv")
        assert found["name"].tolist() == ["house 3", "house 7"]
        assert found["row"].tolist() == [5, 9]
        run_command_line(capsys, "predict", "evencover-houses", csv, "--output", "new.csv")
        new = pd.read_csv("new.csv").set_index("row").loc[[5, 9], ["lower", "upper"]]
        np.testing.assert_array_equal(found[["lower", "upper"]], new)
        results = json.loads(Path("evencover-houses/results.json").read_text(encoding="utf-8"))
        assert results["without_target"] == 2
        houses().to_csv(csv, index=False)
        run_again(capsys)
        assert names_in("evencover-houses") == FILES  # a file of the earlier run is not left


class TestAudit:
    def test_each_verdict_has_its_status(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        y = np.random.default_rng(0).normal(size=30_000)
        reach = {"even": 1.645, "uneven": 1.5, "undecided": 1.645}
        for verdict, status in {"even": 0, "uneven": 3, "undecided": 0}.items():
            n = 60 if verdict == "undecided" else 30_000
            table = pd.DataFrame({"y": y, "lo": -reach[verdict], "hi": reach[verdict], "g": np.arange(30_000) % 3})[:n]
            table.to_csv("a.csv", index=False)
            arguments = ("audit", "a.csv", "--target", "y", "--lower", "lo", "--upper", "hi", "--group", "g")
            left, text, _ = run_command_line(capsys, *arguments)
            assert (left, f"Verdict: {verdict}." in text) == (status, True)
            left, text, _ = run_command_line(capsys, *arguments, "--strict", "--json")
            strict = 4 if verdict == "undecided" else status
            assert (left, json.loads(text)["verdict"]) == (strict, verdict)

    def test_the_textbook_failure_is_found(self, capsys, tmp_path, monkeypatch):
        """One width for all rows, noise that grows with the prediction: with and without the feature in the file."""
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(0)
        x = rng.uniform(0, 10, 6000)
        table = pd.DataFrame({"y": 2 * x + (0.3 + 0.2 * x) * rng.normal(size=6000)})
        table["lo"], table["hi"] = (2 * x - 2.36).round(2), (2 * x + 2.36).round(2)
        table.to_csv("plain.csv", index=False)
        table.assign(x=x, prediction=2 * x).to_csv("full.csv", index=False)
        for name, rule in {"plain": "center > 1", "full": "x > "}.items():
            arguments = ("audit", f"{name}.csv", "--target", "y", "--lower", "lo", "--upper", "hi")
            status, text, _ = run_command_line(capsys, *arguments)
            assert status == 3
            assert text.startswith("Verdict: uneven.\nHow often right: As asked, about nine in ten: ")
            assert f"Worst region (lowest coverage by the features): {rule}" in text
            assert "\n  center > 1" in text
            assert (
                "All intervals have the same width (4.72), so the groups are thirds by the interval's center." in text
            )
            assert ("No features were given" in text) == (name == "plain")
            assert ("Features searched for low coverage (1): x." in text) == (name == "full")
        status, text, _ = run_command_line(capsys, *arguments, "--features", "none")
        assert "No features were given" in text

    def test_columns_that_give_the_answer_away_are_left_out(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(0)
        y, forecast = rng.normal(size=(2, 400))
        hit = np.abs(y - forecast) < 2
        table = pd.DataFrame({"y": y, "lo": forecast - 2, "hi": forecast + 2, "forecast": forecast})
        answers = {"hit": hit, "missed": (~hit).astype(int), "word": np.where(hit, "in", "out"), "copy": y.round(9)}
        answers |= {"error": y - forecast, "distance": np.abs(forecast - y)}
        useless = {"rate": np.where(hit, 1.0, np.inf), "id": [f"n{i}" for i in range(400)], "level": 0.9, "gone": None}
        kept = {"size": rng.normal(size=400), "kind": rng.choice(["a", "b"], 400), "part": np.where(hit, 1.0, np.nan)}
        kept["part"][:200] = 2.0
        table.assign(**answers, **useless, **kept).to_csv("a.csv", index=False)
        arguments = ("audit", "a.csv", "--target", "y", "--lower", "lo", "--upper", "hi", "--prediction", "forecast")
        _, text, _ = run_command_line(capsys, *arguments, "--json")
        assert json.loads(text)["notes"][-2:] == [
            "Features searched for low coverage (3): size, kind, part.",
            "Columns left out: hit (tells whether the row is covered), missed (tells whether the row is covered), "
            "word (tells whether the row is covered), copy (equals the target), error (equals the error of the "
            "prediction), distance (equals the error of the prediction), and 2 more.",
        ]
        _, text, _ = run_command_line(
            capsys, *arguments, "--features", "size", "--features", "rate", "--features", "id"
        )
        assert "Features searched for low coverage (1): size." in text
        infinite = (~hit).sum()
        assert (
            f"Columns left out: rate (infinite values: {infinite}), id (text with 400 different values in 400 rows)."
            in text
        )
        _, text, _ = run_command_line(capsys, *arguments[:-2], "--features", "forecast", "--features", "error")
        assert "Features searched for low coverage (1): forecast." in text
        assert "Columns left out: error (equals the error of the prediction)." in text  # the center of the interval

    def test_the_intervals_of_a_run_are_audited_without_further_options(self, capsys, work):
        arguments = ("evencover-houses/intervals.csv", "--target", "price", "--lower", "lower", "--upper", "upper")
        status, text, errors = run_command_line(capsys, "audit", *arguments, "--level", "0.8")
        assert (status, errors) == (0, "")  # the noise differs, but 60 rows do not show it
        assert "Features searched for low coverage (1): group." in text
        n = len(pd.read_csv(arguments[0]))
        assert (
            f"Columns left out: row (an id: {n} different numbers in {n} rows), covered (tells whether the row is "
            f"covered), name (text with {n} different values in {n} rows)."
        ) in text
        _, text, _ = run_command_line(capsys, "audit", *arguments, "--group", "group")
        assert "Features searched" not in text
        _, text, _ = run_command_line(capsys, "audit", *arguments, "--features", "row")
        assert "Features searched for low coverage (1): row." in text  # the user asked for it

    def test_ids_are_not_searched_and_dates_in_text_are(self, capsys, tmp_path, monkeypatch):
        """The same rule as that of a run: also for an index without a name, and for dates in any spelling."""
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(0)
        n = 600
        y, size, step = rng.normal(size=n), rng.integers(0, 500, n), np.arange(n)
        days = pd.Timestamp("2021-01-01") + pd.to_timedelta(step % 300, unit="D")
        table = pd.DataFrame({"y": y, "lo": -1.6, "hi": np.where(step % 300 < 100, 0.0, 1.6), "year": step})
        table = table.assign(customer_id=rng.permutation(9 * n)[:n], place=rng.permutation(n), size=size)
        table["day"] = days.strftime("%d.%m.%Y")
        table["age"] = np.where(rng.random(n) < 0.1, "?", size.astype(str))
        table.index += 1000
        table.to_csv("a.csv")
        arguments = ("audit", "a.csv", "--target", "y", "--lower", "lo", "--upper", "hi", "--json")
        notes = json.loads(run_command_line(capsys, *arguments)[1])["notes"]
        assert "Features searched for low coverage (4): year, size, day, age." in notes
        assert (
            "Columns left out: column 1 (an id: 600 different numbers in 600 rows), customer_id (an id: 600 different "
            "numbers in 600 rows), place (row numbers from 0 to 599)."
        ) in notes
        mixed = [note for note in notes if note.startswith("Column 'age' holds numbers, and '?' in row ")]
        assert mixed
        assert mixed[0].endswith(" of 600 values: use --missing-values '?'.")
        text = run_command_line(capsys, *arguments[:-1])[1]
        assert "day <= 2021-04-10 (" in text

    def test_columns_of_other_types_are_not_searched(self, capsys, tmp_path, monkeypatch):
        """A list, for instance, has no place among the values of other rows."""
        monkeypatch.chdir(tmp_path)
        columns = {"y": np.arange(20.0), "lo": np.zeros(20), "hi": np.full(20, 9.0), "x": np.arange(20) % 3 / 2}
        pd.DataFrame({**columns, "items": [[k % 2] for k in range(20)]}).to_parquet("a.parquet")
        arguments = ("audit", "a.parquet", "--target", "y", "--lower", "lo", "--upper", "hi", "--json")
        notes = json.loads(run_command_line(capsys, *arguments)[1])["notes"]
        assert "Features searched for low coverage (1): x." in notes
        assert "Columns left out: items (neither numbers nor text nor dates)." in notes

    def test_a_column_of_many_numbers_is_split_into_thirds(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        y = np.random.default_rng(0).normal(size=900)
        days = pd.Timestamp("2021-01-01") + pd.to_timedelta(np.arange(900), unit="D")
        table = pd.DataFrame({"y": y, "lo": -1.6, "hi": 1.6, "age": np.arange(900) * 50, "day": days, "ten": y // 0.7})
        table.assign(ten=np.arange(900) % 10).to_csv("a.csv", index=False)
        arguments = (
            "audit",
            "a.csv",
            "--target",
            "y",
            "--lower",
            "lo",
            "--upper",
            "hi",
            "--features",
            "none",
            "--group",
        )
        for name, note in {
            "age": "Column age has 900 different values, so the groups are: age <= 14 950, 14 950 < age <= 29 950, "
            "age > 29 950.",
            "day": "Column day has 900 different values, so the groups are: day <= 2021-10-27, "
            "2021-10-27 < day <= 2022-08-23, day > 2022-08-23.",
        }.items():
            data = json.loads(run_command_line(capsys, *arguments, name, "--json")[1])
            assert data["notes"] == [note]
            assert [row["rows"] for row in data["table"]] == [300] * 3
        data = json.loads(run_command_line(capsys, *arguments, "ten", "--json")[1])
        assert (len(data["table"]), data["notes"]) == (10, [])

    def test_a_report(self, capsys, work):
        arguments = ("evencover-houses/intervals.csv", "--target", "price", "--lower", "lower", "--upper", "upper")
        _, text, _ = run_command_line(capsys, "audit", *arguments, "--output", "audited")
        assert "Written to audited: report.html, results.json." in text
        assert "worst region" in text
        assert names_in("audited") == ["report.html", "results.json"]
        status, _, error = run_command_line(capsys, "audit", *arguments, "--output", "evencover-houses")
        assert (status, "the folder of an earlier audit; evencover-houses contains other files" in error) == (1, True)

    def test_columns_by_position(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rows = "".join(f"{k},-1,1,{k % 2},{k % 3},0\n" for k in range(30))
        Path("a.csv").write_text(f"y,lo,hi,g,x,p\n{rows}", encoding="utf-8")
        by_name = "--target y --lower lo --upper hi --group g --features x g --prediction p"
        by_position = "--target 1 --lower 2 --upper 3 --group 4 --features 5 4 --prediction 6"
        texts = [run_command_line(capsys, "audit", "a.csv", *each.split()) for each in (by_name, by_position)]
        assert texts[0] == texts[1]
        assert "Features searched for low coverage (2): x, g." in texts[0][1]

    def test_odd_cells_among_bounds_may_be_empty_intervals(self, capsys, csv):
        rows = "".join(f"{k % 7},-2,{'-' if k < 3 else 9 + k}\n" for k in range(100))
        Path(csv).write_text(f"y,l,u\n{rows}", encoding="utf-8")
        options = ("audit", csv, "--target", "y", "--lower", "l", "--upper", "u")
        status, _, error = run_command_line(capsys, *options)
        assert status == 1
        assert "upper of houses.csv: column 'u' must hold numbers; got '-' (the first in row 2 of the file)" in error
        offered = error.strip().rpartition("If these intervals are empty, use ")[2]
        assert offered == "--missing-values=-"
        status, text, error = run_command_line(capsys, *options, offered)
        assert (status in (0, 3), error) == (True, "")
        assert "0.97" in text

    def test_swapped_bounds_are_reported(self, capsys, csv):
        Path("a.csv").write_text("y,lo,hi\n0,-1,1\n0,1,-1\n0,-1,1\n", encoding="utf-8")
        _, text, errors = run_command_line(capsys, "audit", "a.csv", "--target", "y", "--lower", "lo", "--upper", "hi")
        assert re.fullmatch(r"evencover: .* lower above upper: 1 .* row 3 of the file.* empty\n", errors)
        assert "Empty intervals: 1" in text


CASES = {
    "no target": (
        ["run", "houses.csv"],
        r"target must .* column .* houses.csv .*\['name', 'area'",
    ),
    "no file": (["run", "nope.csv", "--target", "y"], r"there is no file nope.csv"),
    "no table": (
        ["run", "houses.json", "--target", "y"],
        r"a table is a file that ends in .csv, .+ .xlsx or .xlsm; got 'houses.json'",
    ),
    "no data set": (["run", "turbin"], r"unknown data set 'turbin'; did you mean 'turbine'"),
    "a target of text": (["run", "houses.csv", "--target", "name"], r"target: column 'name' must hold numbers; got .*"),
    "level in percent": (
        ["run", "--level", "90"],
        r"level must lie strictly between 0 and 1; got 90.0; did you mean 0.9",
    ),
    "level in words": (
        ["run", "--level", "much"],
        r"Invalid value for --level: must be a number between 0 and 1, such as 0.9; got 'much'",
    ),
    "no such option": (["run", "--lavel", "0.9"], r"Unknown option: --lavel. Did you mean --level"),
    "no such command": (["rum"], r'Unknown command "rum"'),
    "no such model": (["run", "--model", "bosting"], r"Invalid value .*bosting"),
    "no such score": (["run", "--score", "residul"], r"unknown score 'residul'; .*residual.* one of: auto, residual, "),
    "groups": (
        ["run", "--groups", "noise"],
        r"groups must be none, spread, spread:5, prediction:4 or column:NAME; got 'noise'",
    ),
    "no groups": (["run", "--groups", "spread:0"], r"groups must be none, spread, .*; got 'spread:0'"),
    "groups by no column": (
        ["run", "--groups", "column:zone"],
        r"groups: no column named 'zone'; the columns are \['x0'",
    ),
    "too many groups": (
        ["run", "--groups", "column:x0"],
        r"groups: column 'x0' .* at most 50 .*; got 20000",
    ),
    "folder is a file": (["run", "--output", "houses.csv"], r"output must be a folder; houses.csv is a file"),
    "folder of others": (
        ["run", "--output", "."],
        r"output must be a new folder, .* study; \. contains other files",
    ),
    "folder in a file": (
        ["run", "--output", "houses.csv/sub"],
        r"output must be a folder that can be written to; houses.csv/sub: ",
    ),
    "keep": (
        ["predict", "evencover-houses", "houses.csv", "--keep", "zone"],
        r"keep: no column named 'zone'; the columns are \['name', 'area'",
    ),
    "no folder": (["predict", "nope", "houses.csv"], r"folder must be the folder of a run; there is no nope"),
    "no run's folder": (
        ["predict", ".", "houses.csv"],
        r"folder must be the folder of a run; . has no file predictor.evencover",
    ),
    "no predictor": (
        ["predict", "houses.csv", "houses.csv"],
        r"houses.csv is not a predictor file written by evencover, or it is corrupt",
    ),
    "columns missing": (
        ["predict", "evencover-houses", "other.csv"],
        r"other.csv .* missing columns: \['area', '<script>', 'code'",
    ),
    "out to nowhere": (
        ["predict", "evencover-houses", "houses.csv", "--output", "a.json"],
        r"a table can be written to a file that ends in .csv, .+ .arrow or .xlsx; got 'a.json'",
    ),
    "audit, no column": (
        ["audit", "houses.csv", "--target", "y", "--lower", "l", "--upper", "u"],
        r"target of houses.csv: no column named 'y'; the columns are \['name', 'area'",
    ),
    "audit, text": (
        ["audit", "houses.csv", "--target", "code", "--lower", "area", "--upper", "area"],
        r"target of houses.csv: column 'code' must hold numbers; got '(x9|y8)' in row \d of the file",
    ),
    "audit, target missing": (
        ["audit", "houses.csv", "--target", "area", "--lower", "price", "--upper", "price"],
        r"target of houses.csv: column 'area' must hold a finite number .* \d+ of 600",
    ),
    "audit, groups missing": (
        ["audit", "houses.csv", "--target", "price", "--lower", "price", "--upper", "price", "--group", "area"],
        r"group: column 'area' must have a label .* \d+ of 600",
    ),
    "audit, infinite groups": (
        ["audit", "infinite.csv", "--target", "y", "--lower", "l", "--upper", "u", "--group", "g"],
        r"group: column 'g' must have finite .* infinite values: 1 .* row 3 of the file",
    ),
    "audit, no prediction": (
        ["audit", "houses.csv", "--target", "price", "--lower", "price", "--upper", "price", "--prediction", "p"],
        r"prediction of houses.csv: no column named 'p'; the columns are \['name', 'area'",
    ),
    "audit, no feature": (
        ["audit", "houses.csv", "--target", "price", "--lower", "price", "--upper", "price", "--features", "zone"],
        r"features of houses.csv: no column named 'zone'; the columns are \['name', 'area'",
    ),
    "audit, no rows": (
        ["audit", "houses.csv", "--target", "price", "--lower", "price", "--upper", "price", "--calibration-rows", "0"],
        r"calibration_rows must be a positive whole number; got 0",
    ),
    "latin": (
        ["audit", "latin.csv", "--target", "y", "--lower", "l", "--upper", "u"],
        r"latin.csv must be text in UTF-8",
    ),
    "ragged": (
        ["audit", "ragged.csv", "--target", "y", "--lower", "l", "--upper", "u"],
        r"ragged.csv, line 3: must have 3 cells, one for each column; got 2",
    ),
    "header only": (
        ["audit", "header.csv", "--target", "y", "--lower", "l", "--upper", "u"],
        r"header.csv must have rows below its header",
    ),
    "empty file": (
        ["audit", "empty.csv", "--target", "y", "--lower", "l", "--upper", "u"],
        r"empty.csv must have a header and rows; the file is empty",
    ),
}


@pytest.fixture(scope="module")
def workplace(finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    shutil.copytree(finished[0], folder, dirs_exist_ok=True)
    texts = {"other": "z\n1\n", "latin": "y,l,u\n1,2,\x81\n", "ragged": "y,l,u\n1,2,3\n1,2\n", "header": "y,l,u\n"}
    texts["infinite"] = "y,l,u,g\n" + "".join(f"0,-1,1,{'inf' if i == 1 else i}\n" for i in range(20))
    for name, text in {**texts, "empty": "", "twice": "y,y\n1,2\n"}.items():
        (folder / f"{name}.csv").write_bytes(text.encode("latin-1"))
    return folder


CASES["audit, level"] = ([*CASES["audit, no column"][0], "--level", "90"], r"got 90.0; did you mean 0.9")
CASES["predict, level"] = (
    ["predict", "evencover-houses", "houses.csv", "--level", "90"],
    r"got 90.0; did you mean 0.9",
)
USAGE = {  # the words are wrong, whatever the files hold
    *("no target", "level in percent", "level in words", "no such option", "no such command", "no such model"),
    *("no such score", "groups", "no groups", "out to nowhere", "audit, no rows"),
    *("audit, level", "predict, level"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_line(case, capsys, workplace, monkeypatch):
    """With status 2 if the words are wrong, as of other tools, and 1 if a file is."""
    monkeypatch.chdir(workplace)
    before = names_in()
    arguments, message = CASES[case]
    status, out, error = run_command_line(capsys, *arguments)
    assert status == (2 if case in USAGE else 1)
    assert out == ""
    assert error.startswith("evencover: ")
    assert "\n" not in error.removesuffix("\n")
    assert re.search(message, error)
    assert names_in() == before


def test_help_is_a_page(capsys):
    text = run_command_line(capsys, "--help")[1]
    assert text.index("run  ") < text.index("predict  ") < text.index("audit  ") < text.index("reproduce  ")
    assert "evencover run houses.csv --target price" in text
    text = " ".join(text.split())
    assert "is 3 if coverage is uneven or differs from the level, and 0 if not" in text
    assert "it is 2 if a command or an option is wrong, and 1 after any other error" in text


def test_every_command_has_json():
    top = app()
    for name in [name for name in top if not name.startswith("-")]:
        commands = [top[name][each] for each in top[name] if not each.startswith("-")] or [top[name]]
        for command in commands:
            assert "--json" in {each.name for each in command.assemble_argument_collection()}


def test_completion_can_be_installed(tmp_path):
    home = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    done = subprocess.run([*SCRIPT, "--install-completion"], env=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scripts = [
        path for path in tmp_path.rglob("*") if path.is_file() and "evencover" in path.read_text(encoding="utf-8")
    ]
    assert any("--target" in path.read_text(encoding="utf-8") for path in scripts)
