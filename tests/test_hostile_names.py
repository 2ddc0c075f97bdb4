"""Names and cells with control characters and formulas, through all commands: none of them takes effect."""

import csv
import io
import json
import re
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from evencover.cli import terminal
from evencover.reproduction.benchmark.results import benchmark_figure
from tests.archives import rewrite
from tests.canonical_studies import light_linear_model
from tests.command_line import main, run_command_line
from tests.report_pages import few_levels

pytestmark = pytest.mark.filterwarnings("ignore:text that a spreadsheet would run")
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\nevencover: forged")
FILE, PARQUET = "a\x1b]0;title\x07{b}[bold]\u202e\n.csv", "a\x1b[2J{b}.parquet"
NAME, FEATURE, GROUP, TARGET = "id\x1b[2J", "x\u202e", "=g\nevencover: forged", "y\x9b31m"
LABELS = ("\x1b]0;title\x07", "\x1b[2J", "n\nevencover: forged", "\u202eabc", "<script>alert(1)</script>", "=A1")
BOUNDS = ("--lower", "lower\x1b[1m", "--upper", "upper")


@pytest.fixture(scope="module", autouse=True)
def finished(tmp_path_factory):
    """Go to a folder with a hostile table, as text and as Parquet, and a run; return what the run printed."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=600)
    names = [f"=HYPERLINK({number})\x1b[1m" for number in range(600)]
    columns = {NAME: names, FEATURE: x, GROUP: rng.choice(LABELS, 600), TARGET: x + rng.normal(size=600)}
    output, errors = io.StringIO(), io.StringIO()
    with chdir(tmp_path_factory.mktemp("hostile")), few_levels(), light_linear_model():
        pd.DataFrame(columns).to_csv(FILE, index=False)
        pd.DataFrame({**columns, "lower\x1b[1m": x - 1.5, "upper": x + 1.5}).to_parquet(PARQUET)
        groups = ("--score", "residual", "--groups", f"column:{GROUP}")
        with redirect_stdout(output), redirect_stderr(errors), pytest.raises(SystemExit):
            main(["run", FILE, "--target", TARGET, "--model", "linear", *groups, "--output", "out"])
        yield output.getvalue(), errors.getvalue()


def assert_harmless(*texts):
    for text in texts:
        assert CONTROL.search(text) is None, CONTROL.search(text)


def content(path):
    with Path(path).open(encoding="utf-8", newline="") as file:
        return file.read()


def test_a_run(finished):
    text, errors = finished
    assert_harmless(text, errors, content("out/report.html"), content("out/results.json"))
    assert text.startswith(r"Data: a\x1b]0;title\x07{b}[bold]\u202e\n.csv, target y\x9b31m; ")
    assert r"  n\nevencover: forged " in text
    results = json.loads(content("out/results.json"))
    assert (results["data"], results["target"]) == (FILE, TARGET)
    assert {row["group"] for row in results["audit"]["table"]} == set(LABELS)


@pytest.mark.parametrize("options", [(), ("--exact-text",)])
def test_formulas_in_files_of_intervals(capsys, options):
    """All text of the input: names of columns, the group, and columns that are kept."""
    quote = "" if options else "'"
    new = ("out", FILE, "--keep", NAME, GROUP)
    assert run_command_line(capsys, "predict", *new, "--output", "new.tsv", *options)[0] == 0
    header, *rows = csv.reader(io.StringIO(content("new.tsv"), newline=""), delimiter="\t")
    assert header == ["row", "prediction", "lower", "upper", "group", "outside", NAME, f"{quote}{GROUP}"]
    assert {row[4] for row in rows} == {row[7] for row in rows} == {*LABELS[:-1], f"{quote}=A1"}
    assert rows[0][6] == f"{quote}=HYPERLINK(0)\x1b[1m"
    assert float(rows[0][2]) < float(rows[0][3])
    printed = run_command_line(capsys, "predict", *new, *options)[1]
    assert content("new.tsv").replace("\t", ",") == printed


@pytest.mark.parametrize(("options", "quote"), [((), "'"), (("--exact-text",), "")])
def test_formulas_in_the_intervals_of_a_run(capsys, options, quote):
    words = ("--target", TARGET, "--model", "linear", "--score", "residual", "--groups", "none", "--output", "other")
    assert run_command_line(capsys, "run", FILE, *words, *options)[0] == 0
    header, *rows = csv.reader(io.StringIO(content("other/intervals.csv"), newline=""))
    assert {row[header.index(NAME)][: len(quote) + 10] for row in rows} == {f"{quote}=HYPERLINK"}


def test_other_commands(capsys):
    roles = ("--target", TARGET, *BOUNDS, "--group", GROUP)
    calibration, predicted = "c\x1b[2J.evencover", "p\x1b[2J.parquet"
    for command in (
        ("audit", PARQUET, *roles, "--output", "audit\x9b"),
        ("calibrate", PARQUET, *roles, "--output", calibration),
        ("predict", PARQUET, "--calibration", calibration, "--output", predicted),
        ("benchmark", FILE, "--output", "b\x1b[2J", "--dry-run"),
    ):
        assert_harmless(*run_command_line(capsys, *command)[1:])
    assert pq.read_table(predicted)[NAME][0].as_py() == "=HYPERLINK(0)\x1b[1m"
    assert_harmless(content("audit\x9b/report.html"), content("audit\x9b/results.json"))


@pytest.mark.parametrize(
    "command",
    [
        ("run", FILE, "--target", TARGET, "--model", "linear", "--groups", "none", "--output", "json", "--json"),
        ("audit", PARQUET, "--target", TARGET, *BOUNDS, "--group", GROUP, "--json"),
        ("predict", "out", FILE, "--keep", NAME, "--json"),
    ],
)
def test_json_has_the_same_values_without_control_characters(capsys, command):
    _, text, errors = run_command_line(capsys, *command)
    assert_harmless(text, errors)
    assert any(repr(name)[1:-1] in str(json.loads(text)) for name in (NAME, GROUP))


@pytest.mark.parametrize(
    ("status", "command"),
    [
        (1, ("predict", "no\x1b[2J\nevencover: forged", "new.csv")),
        (1, ("run", FILE, "--target", "no\x1b[2J\nevencover: forged")),
        (2, ("run", FILE, "--model", "\x1b[2J")),
        (2, ("run", FILE, "--\x1b[2J", "1")),
        (2, ("r\x1b[2Jn",)),
        (1, ("run", "not UTF-8 \udcff.csv", "--target", "y")),
        (1, ("datasets", "\u202e\x1b[2J")),
    ],
)
def test_errors(capsys, status, command):
    left, text, errors = run_command_line(capsys, *command)
    assert (left, text) == (status, "")
    assert_harmless(errors)
    assert "\n" not in errors.rstrip("\n")


def test_rows_in_a_terminal(capsys, monkeypatch):
    """A program that reads the rows gets the cells as they are."""
    new = ("predict", "out", FILE, "--keep", NAME, GROUP)
    for_a_program = run_command_line(capsys, *new)[1]
    assert "n\nevencover: forged" in for_a_program
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    in_a_terminal = run_command_line(capsys, *new)[1]
    assert_harmless(in_a_terminal)
    assert "These are the first 20 of 600 rows." in in_a_terminal.splitlines()[21]
    assert r"=HYPERLINK(0)\x1b[1m" in in_a_terminal


def test_progress_in_a_terminal(monkeypatch):
    """Neither control characters nor the markup and the fields of rich."""
    shown = io.StringIO()
    monkeypatch.setattr(terminal, "_console", lambda: Console(file=shown, force_terminal=True, width=200))
    with terminal.progress_bar(f"Reading {FILE}") as update:
        update(1, 2)
    with terminal.status() as report_progress:
        report_progress(f"fitting {FILE}")
    text = shown.getvalue()
    assert r"fitting a\x1b]0;title\x07{b}[bold]\u202e\n.csv" in text
    assert r"Reading a\x1b]0;title\x07{b}[bold]\u202e\n.csv" in text
    assert "\x1b]" not in text
    assert "\u202e" not in text


def test_figures_of_a_benchmark():
    """The title is plain text: a dollar sign begins no formula."""
    row = {"binning": "exact", "data": "$a\x1b[2J$^", "group": "all", "model": "QR", "variant": "NCP", "split": 0}
    figure = benchmark_figure([{**row, "level": 0.9, "coverage": 0.9, "width": 1.0}], row["data"], "exact")
    heading = figure.get_suptitle()
    assert heading.startswith(r"$a\x1b[2J$^: 1 splits")
    figure.draw_without_rendering()


@pytest.mark.parametrize(
    "entry",
    [
        {"format": f"{LABELS[0]}\n"},
        {"evencover": LABELS[1], "version": 99},
        {"nonconformity": {"name": LABELS[2], "settings": {}}},
        {"scikit-learn": f"0.1{LABELS[3]}"},
    ],
)
@pytest.mark.filterwarnings("default")
def test_the_header_of_a_forged_predictor(capsys, entry):
    forged = Path("forged.evencover")
    forged.write_bytes(Path("out/predictor.evencover").read_bytes())
    rewrite(forged, **entry)
    *_, errors = run_command_line(capsys, "predict", str(forged), FILE)
    assert "forged.evencover" in errors or "0.1" in errors
    assert_harmless(errors)
