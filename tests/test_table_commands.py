"""The commands for tables of any size: calibrate, predict with a calibration, and audits in parts."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evencover import Calibration, Normalized, Prediction, calibrate
from evencover.tables import table_audit
from tests.command_line import run_command_line
from tests.test_cli import run


def write(path, n=900, seed=0, **changes):
    rng = np.random.default_rng(seed)
    center, spread = rng.normal(size=n), np.exp(rng.normal(size=n))
    columns = {"y": center + spread * rng.normal(size=n), "c": center, "s": spread, "g": (["a", "b", "it's"] * n)[:n]}
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({**columns, **changes}), path)
    return {**columns, **changes}


@pytest.fixture
def files(tmp_path):
    """Return a folder with calibration rows, and their columns."""
    return tmp_path, write(tmp_path / "old.parquet")


def arguments(folder, *more):
    columns = ("--target", "y", "--center", "c", "--spread", "s", "--group", "g")
    return ("calibrate", str(folder / "old.parquet"), *columns, "--output", str(folder / "cal.evencover"), *more)


def test_calibrate_and_predict(files, capsys):
    """The thresholds are printed, the intervals are those in memory, and the guarantee is stated."""
    folder, old = files
    status, text, errors = run_command_line(capsys, *arguments(folder))
    assert (status, errors) == (0, "")
    assert "Thresholds at level 0.9" in text
    assert "it's    300" in text
    assert "Coverage per group" in text
    write(folder / "new.parquet", seed=1)
    status, text, errors = run_command_line(
        capsys, "predict", str(folder / "new.parquet"), "--calibration", str(folder / "cal.evencover"),
        "--output", str(folder / "out.parquet"),
    )  # fmt: skip
    assert (status, errors) == (0, "")
    assert text.startswith("Wrote 900 rows with intervals at level 0.9 to ")
    new = pq.read_table(folder / "out.parquet")
    expected = calibrate(
        old["y"], Prediction(old["c"], spread=old["s"]), nonconformity=Normalized(), groups=old["g"]
    ).interval(Prediction(new["c"].to_numpy(), spread=new["s"].to_numpy()), groups=new["g"].to_pylist())
    np.testing.assert_array_equal(new["lower"], expected.lower)
    np.testing.assert_array_equal(new["upper"], expected.upper)


def test_results_as_json(files, capsys):
    folder, _ = files
    _, text, _ = run_command_line(capsys, *arguments(folder, "--one-pass", "--level", "0.8", "--json", "--bits", "4"))
    data = json.loads(text)
    saved = Calibration.load(folder / "cal.evencover")
    assert [row["threshold"] for row in data["groups"]] == saved.threshold(0.8).tolist()
    assert all(0 < row["excess"] < 0.2 for row in data["groups"])
    _, text, _ = run_command_line(
        capsys, "predict", str(folder / "old.parquet"), "--calibration", str(folder / "cal.evencover"),
        "--output", str(folder / "out.parquet"), "--json", "--level", "0.5", "--workers", "1",
    )  # fmt: skip
    data = json.loads(text)
    assert (data["rows"], data["level"], data["n_infinite"]) == (900, 0.5, 0)


@pytest.mark.filterwarnings("default:too few calibration rows")
def test_infinite_intervals_are_reported(tmp_path, capsys):
    write(tmp_path / "old.parquet", n=12)
    _, text, errors = run_command_line(capsys, *arguments(tmp_path))
    assert "infinite" in text
    assert "too few calibration rows" in errors
    _, text, errors = run_command_line(
        capsys, "predict", str(tmp_path / "old.parquet"), "--calibration", str(tmp_path / "cal.evencover"),
        "--output", str(tmp_path / "out.parquet"),
    )  # fmt: skip
    assert "12 of 12 intervals are infinite" in errors
    assert "Mean width" not in text
    _, text, _ = run_command_line(
        capsys, "predict", str(tmp_path / "old.parquet"), "--calibration", str(tmp_path / "cal.evencover"),
        "--output", str(tmp_path / "out.parquet"), "--json",
    )  # fmt: skip
    assert json.loads(text, parse_constant=pytest.fail)["mean_width"] is None


@pytest.mark.parametrize(
    ("status", "words", "message"),
    [
        (2, ["calibrate", "DATA", "--target", "y", "--output", "x.json"], "predictions must have a center, or lower and upper; got neither"),
        (1, ["calibrate", "DATA", "--target", "z", "--center", "c", "--output", "x.json"], "old.parquet: target: no column named 'z'"),
        (1, ["calibrate", "none.parquet", "--target", "y", "--center", "c", "--output", "x.json"], "there is no file or folder none.parquet"),
        (1, ["calibrate", "DATA", "--target", "y", "--center", "c", "--output", "no/x.json"], "output must be in a folder that exists; there is no no"),
        (2, ["calibrate", "DATA", "--target", "y", "--center", "c", "--output", "DATA"], "output must be a .evencover file; got old.parquet"),
        (2, ["calibrate", "DATA", "--target", "y", "--center", "c", "--output", "x.json", "--level", "90"], "did you mean 0.9?"),
        (2, ["calibrate", "DATA", "--target", "y", "--center", "c", "--output", "x.json", "--workers", "0"], "workers must be a positive whole number; got 0"),
        (2, ["predict", "DATA", "--calibration", "CAL"], "output must be given with --calibration"),
        (1, ["predict", "DATA", "--calibration", "none.json", "--output", "x.parquet"], "there is no none.json"),
        (1, ["predict", "DATA", "--calibration", "DATA", "--output", "x.parquet"], "is not a calibration file written by evencover"),
        (2, ["predict", "DATA", "NEW", "--calibration", "CAL", "--output", "x.parquet"], "with --calibration, all columns are kept; leave out: new"),
        (1, ["predict", "DATA", "--calibration", "CAL", "--output", "x.csv"], "output must be a .parquet file"),
        (2, ["predict", "DATA", "--calibration", "CAL", "--output", "x.parquet", "--strict"], "strict is for the predictor of a run"),
        (2, ["predict", "DATA"], "new must be given"),
        (2, ["predict", "DATA", "NEW", "--workers", "2"], "workers is used only with --calibration"),
        (1, ["audit", "FOLDER", "--target", "y", "--lower", "c", "--upper", "s", "--missing-values", "?"], "missing_values is for text"),
        (1, ["audit", "FOLDER", "--target", "y", "--lower", "c", "--upper", "q"], "old.parquet: upper: no column named 'q'"),
    ],
)  # fmt: skip
def test_wrong_commands_are_one_line(files, capsys, monkeypatch, status, words, message):
    """With status 2 if the words are wrong, and 1 if a file is. Nothing is written."""
    folder, _ = files
    run_command_line(capsys, *arguments(folder))
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    names = {"DATA": "old.parquet", "CAL": "cal.evencover", "NEW": "old.parquet", "FOLDER": "."}
    left, _, error = run_command_line(capsys, *[names.get(word, word) for word in words])
    assert (left, message in error) == (status, True)
    assert "\n" not in error.removesuffix("\n")
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_folder_is_audited_in_parts(tmp_path, capsys, monkeypatch):
    """All rows are counted, features are searched in a sample, and the exit status is that of the verdict."""
    monkeypatch.setattr(table_audit, "_SAMPLE_ROWS", 1000)
    n = 6000
    noise = np.where(np.arange(n) % 3 == 2, 3.0, 1.0)
    y = noise * np.random.default_rng(0).normal(size=n)
    write(tmp_path / "data" / "one.parquet", n, seed=3, y=y, low=np.full(n, -2.0), high=np.full(n, 2.0))
    command = ("audit", str(tmp_path / "data"), "--target", "y", "--lower", "low", "--upper", "high", "--group", "g")
    status, text, _ = run_command_line(capsys, *command, "--output", str(tmp_path / "report"))
    assert status == 3
    assert "All 6000 rows were counted." in text
    assert "Features searched for low coverage (2): c, s." in text
    assert "2000" in text
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"report.html", "results.json"}
    monkeypatch.setattr("evencover.cli.table_audits._MAX_ROWS_IN_MEMORY", 5000)
    one_file = ("audit", str(tmp_path / "data" / "one.parquet"), *command[2:], "--json")
    status, as_json, _ = run_command_line(capsys, *one_file)
    assert status == 3
    assert sum(row["rows"] for row in json.loads(as_json)["table"]) == n


def test_the_help_names_the_command():
    assert "calibrate" in run("--help").stdout
