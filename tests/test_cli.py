"""The command line: output, errors and exit status of every command."""

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from functools import cache
from inspect import signature

import numpy as np
import pandas as pd
import pytest

import evencover
import evencover.cli
from evencover.cli.invocation import with_repeated_flags
from evencover.reproduction import claims as claims_module
from evencover.reproduction import coverage_tables, paper_figures, verdict_rates
from evencover.reproduction.claims import Claim
from evencover.reproduction.simulation import Design
from tests.command_line import app, main, run_command_line
from tests.processes import LIMIT

SCRIPT = [sys.executable, "-m", "evencover"]


def run(*arguments, **settings):
    return subprocess.run([*SCRIPT, *arguments], capture_output=True, text=True, check=False, **settings)


def test_the_script_is_installed():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="evencover")
    assert script.value == "evencover.__main__:main"


def test_help_and_version(capsys):
    assert run_command_line(capsys, "--version")[1] == f"evencover {evencover.__version__}\n"
    assert "reproduce" in run_command_line(capsys, "--help")[1]
    for command in ("tables", "figures", "claims", "verdicts"):
        assert command in run_command_line(capsys, "reproduce", "--help")[1]
        assert "--repeats" in run_command_line(capsys, "reproduce", command, "--help")[1]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_completion_in_bash(capsys, tmp_path, monkeypatch):
    """Of commands, options and choices, after a line in the file that bash reads; what is in this file stays."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bashrc").write_text("export MINE=1\n", encoding="utf-8")
    for _ in range(2):  # the second time, nothing is added
        status, text, _ = run_command_line(capsys, "--install-completion", "--shell", "bash")
        assert (status, ".bashrc" in text) == (0, True)
    own, *added = (tmp_path / ".bashrc").read_text(encoding="utf-8").splitlines()
    assert (own, sum("evencover" in line and not line.startswith("#") for line in added)) == ("export MINE=1", 1)
    bash, choices = shutil.which("bash"), {"fast", "normal", "best"}
    for words, expected in {("au",): {"audit"}, ("run", "--le"): {"--level"}, ("run", "--effort", ""): choices}.items():
        typed = f"COMP_WORDS=(evencover {shlex.join(words)}); COMP_CWORD={len(words)}"
        code = f"source ~/.bashrc; {typed}; _evencover; echo ${{COMPREPLY[@]}}"
        assert set(subprocess.check_output([bash, "-c", code], text=True).split()) == expected


def help_groups(text):
    """Return the options of each group in the help of a command."""
    panels = re.split(r"^╭─ (\w+) ─+╮$", text, flags=re.MULTILINE)[1:]
    return {
        title: re.findall(r"^│[ *]{1,4}(--[a-z-]+)", panel, re.MULTILINE)
        for title, panel in zip(*[iter(panels)] * 2, strict=True)
    }


@pytest.mark.parametrize("name", ["run", "predict", "audit", "calibrate"])
def test_options_have_groups_in_the_help(capsys, name):
    """Each option once, in groups in the same order for all commands; what is in no group is advanced."""
    groups = help_groups(run_command_line(capsys, name, "--help")[1])
    assert groups.pop("Arguments") == []
    order = ["Data", "Model", "Groups", "Output", "Advanced"]
    assert list(groups) == [title for title in order if title in groups]
    options = [
        f"--{each.replace('_', '-')}"
        for each, kind in signature(getattr(evencover.cli, name)).parameters.items()
        if kind.kind is kind.KEYWORD_ONLY
    ]
    assert sorted(option for listed in groups.values() for option in listed) == sorted(options)
    assert "--level" in groups["Groups"]
    if name == "run":
        assert (list(groups), groups["Data"][0], groups["Model"][0]) == (order, "--target", "--model")
        assert "--seed" in groups["Advanced"]


def test_tables_as_text_and_as_json(capsys):
    status, text, _ = run_command_line(capsys, "reproduce", "tables")
    assert status == 0
    assert "oracle       residual   0.905 ± 0.008   0.951 ± 0.010   0.904 ± 0.017   0.856 ± 0.018" in text
    assert coverage_tables.WHY_THEY_DIFFER in text
    status, text, _ = run_command_line(capsys, "reproduce", "tables", "--json")
    data = json.loads(text)
    assert list(data) == ["as run", "as written"]
    assert data["as run"] == [row.as_data() for row in coverage_tables.as_run()]
    assert round(data["as run"][1]["high"]["mean_width"], 3) == 2.652


def test_tables_over_more_calibration_sets(capsys, monkeypatch):
    monkeypatch.setattr(coverage_tables, "_REPEATED", Design(n_calibration=500, n_test=2000))
    _, text, _ = run_command_line(capsys, "reproduce", "tables", "--repeats", "2", "--json")
    assert list(json.loads(text))[2:] == ["as run, 2 calibration sets", "as written, 2 calibration sets"]
    _, again, _ = run_command_line(capsys, "reproduce", "tables", "--repeats", "2", "--json")
    _, other, _ = run_command_line(capsys, "reproduce", "tables", "--repeats", "2", "--seed", "1", "--json")
    assert text == again != other


def test_the_exit_status_of_claims(capsys, monkeypatch):
    """With two repeats some claims cannot be shown; the claims are computed once, for both formats."""
    found = list(claims_module.claims(repeats=2, seed=5))
    settings = []

    def computed(*, repeats, seed, progress):
        settings.append((repeats, seed))
        return iter(found)

    monkeypatch.setattr(claims_module, "claims", computed)
    status, text, _ = run_command_line(capsys, "reproduce", "claims", "--repeats", "2", "--seed", "5")
    assert status == 4
    assert text.splitlines() == [str(claim) for claim in found]
    assert len(found) == 8
    assert "NOT SHOWN" in text
    status, text, _ = run_command_line(capsys, "reproduce", "claims", "--repeats", "2", "--seed", "5", "--json")
    data = json.loads(text)
    assert (status, data["repeats"], len(data["claims"])) == (4, 2, 8)
    assert {"number", "statement", "verdict", "evidence", "figure", "found"} == set(data["claims"][0])
    assert settings == [(2, 5), (2, 5)]


@pytest.mark.parametrize(("verdict", "status"), [("holds", 0), ("fails", 3), ("not shown", 4)])
def test_the_exit_status_is_that_of_the_worst_verdict(capsys, monkeypatch, verdict, status):
    found = [Claim(1, "one", "not shown" if verdict == "fails" else "holds", ""), Claim(2, "two", verdict, "")]
    monkeypatch.setattr(claims_module, "claims", lambda **_: iter(found))
    assert run_command_line(capsys, "reproduce", "claims")[0] == status


def test_figures_prints_the_path_of_each_file(capsys, tmp_path, monkeypatch):
    one = {"two_taxonomies": paper_figures.taxonomies_figure}
    monkeypatch.setattr(paper_figures, "figures", lambda repeats: one)
    status, text, _ = run_command_line(
        capsys, "reproduce", "figures", "--output", str(tmp_path / "new"), "--repeats", "3"
    )
    assert status == 0
    assert sorted(text.split()) == sorted(str(path) for path in (tmp_path / "new").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [  # nothing is written by those with an output
        (("reproduce", "claims", "--repeats", "1"), "evencover: repeats must be a whole number, 2 or more"),
        (("reproduce", "tables", "--repeats", "-1"), "evencover: repeats must be a whole number, 2 or more"),
        (
            ("reproduce", "tables", "--repeats", "2", "--seed", "-1"),
            "evencover: seed must be a whole number, 0 or more",
        ),
        (("reproduce", "tables", "--seed", "-1"), "evencover: seed must be a whole number, 0 or more; got -1"),
        (("reproduce", "figures", "--output", __file__), "evencover: output must be a folder"),
        (("reproduce", "verdicts", "--repeats", "0"), "evencover: repeats must be a positive whole number; got 0"),
        (("reproduce", "claims", "--seed", "-1"), "evencover: seed must be a whole number, 0 or more; got -1"),
        (
            ("reproduce", "figures", "--output", ".", "--repeats", "1"),
            "evencover: repeats must be a whole number, 2 or more",
        ),
        (("reproduce", "figures"), "--output"),
        (("reproduce", "figures", "--output", ""), "must be a path; got an empty text"),
        (("reproduce", "claims", "--repeats", "many"), "must be a whole number; got 'many'"),
        (("reproduce", "tables", "--repeats", "1.5"), "must be a whole number; got '1.5'"),
        (("run", "--tolerance", "abc"), "--tolerance: must be a number between 0 and 1, such as 0.03; got 'abc'"),
        (("run", "--level", "90 %"), "--level: must be a number between 0 and 1, such as 0.9; got '90 %'"),
        (("run", "--held-out", "0,2"), "--held-out: must be a number between 0 and 1, such as 0.2; got '0,2'"),
        (("run", "--training-rows", "5"), "training_rows must be a whole number, 10 or more; got 5"),
        (("run", "--clusters", "a", "--time", "b"), "clusters and time cannot be combined; got both"),
        (("run", "--separator", ";;"), "separator must be one ASCII character"),
        (("run", "--header", "first"), "header must be the row with the column names, counted from 1, or 0 or none"),
        (("reproduce", "tables", "--repeats", "1"), "evencover: repeats must be a whole number, 2 or more"),
        (("reprodce", "claims"), "reproduce"),
    ],
)
def test_errors_are_one_line_with_an_exit_status(capsys, arguments, message):
    status, out, error = run_command_line(capsys, *arguments)
    assert status == (1 if __file__ in arguments else 2)
    assert out == ""
    assert message in error
    assert "Traceback" not in error


def test_without_its_extra_the_command_line_prints_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    error = run_command_line(capsys, "--help")[2]
    assert error.startswith("evencover: the command line needs cyclopts: pip install 'evencover[cli]'")


@pytest.mark.system
def test_an_interruption_is_not_a_traceback(tmp_path):
    command = [*SCRIPT, "reproduce", "figures", "--repeats", "100000", "--output", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "two_subgroups" in process.stdout.readline()  # it is under way
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=LIMIT)
        finally:
            process.kill()  # a failure must not leave it running
            _, error = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in error


def test_defaults_are_the_librarys(capsys):
    for command, module in (("claims", claims_module), ("figures", paper_figures)):
        assert f"[default: {module.REPEATS}]" in run_command_line(capsys, "reproduce", command, "--help")[1]


def test_help_does_not_import_numpy():
    """So it appears at once."""
    code = "import sys, evencover.cli as cli; cli.app(); print({'numpy', 'scipy'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_characters_that_the_terminal_lacks_are_replaced(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    with pytest.raises(SystemExit) as left:
        main(["reproduce", "tables"])
    terminal.flush()
    assert not left.value.code
    assert b"0.905 ? 0.008" in terminal.buffer.getvalue()


def test_python_dash_m_runs_it():
    done = subprocess.run([sys.executable, "-m", "evencover", "--version"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["evencover", evencover.__version__]


@pytest.mark.system
@pytest.mark.parametrize("words", [("--help",), ("datasets", "--json")], ids=" ".join)
def test_a_closed_pipe_is_not_a_traceback(words):
    """As after `| head`, once that has read enough."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([*SCRIPT, *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_verdicts_as_text_and_as_json(capsys, monkeypatch):
    monkeypatch.setattr(verdict_rates, "ROWS", (300,))
    monkeypatch.setattr(verdict_rates, "ROWS_PER_GROUP", (20,))
    monkeypatch.setattr(verdict_rates, "_MANY", 5000)
    monkeypatch.setattr(verdict_rates, "CALIBRATION_ROWS", (300, 400))
    monkeypatch.setattr(verdict_rates, "LEVELS", (0.5, 0.9))
    monkeypatch.setattr(verdict_rates, "_REFERENCE_ROWS", 5000)
    for name in ("rejections", "true_coverage", "verdict_shares"):  # computed once, for both formats
        monkeypatch.setattr(verdict_rates, name, cache(getattr(verdict_rates, name)))
    for name in ("audit_rates", "situation_rates"):
        monkeypatch.setattr(verdict_rates, name, cache(getattr(verdict_rates, name)))
    status, text, _ = run_command_line(capsys, "reproduce", "verdicts", "--repeats", "2")
    assert status == 0
    assert all(name in text for name in [*verdict_rates.TESTS, *verdict_rates.SCENARIOS])
    assert all(name in text for name in ("300 + 150", "400 + 200", "level 0.5, 10 groups", *verdict_rates.SITUATIONS))
    assert all(f"later rows, one threshold, one group {shift:+g}" in text for shift in verdict_rates.SHIFTS[1:])
    status, text, _ = run_command_line(capsys, "reproduce", "verdicts", "--repeats", "2", "--json")
    data = json.loads(text)
    assert set(data["rejections"]["20"]) == set(verdict_rates.TESTS)
    for found in data["scenarios"].values():
        assert len(found["coverage"]) == 3
        np.testing.assert_allclose(sum(found["verdicts"]["300"].values()), 1)
    assert list(data["audits"]) == list(verdict_rates.SCENARIOS)
    assert [(each["level"], each["groups"]) for each in data["situations"]] == [
        (0.5, 3),
        (0.5, 10),
        (0.9, 3),
        (0.9, 10),
    ]
    for found in [
        *data["audits"].values(),
        *(rates for each in data["situations"] for rates in each["rates"].values()),
    ]:
        assert list(found) == ["300", "400"]
        np.testing.assert_allclose(sum(found["300"][name] for name in ("uneven", "even", "undecided")), 1)


def test_datasets_are_listed_next_to_the_papers_table(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("EVENCOVER_CACHE", str(tmp_path))
    status, text, _ = run_command_line(capsys, "datasets")
    assert status == 0
    assert "concrete     missing     -   1030         -      8         -   0.42         -   2.68" in text
    status, text, _ = run_command_line(capsys, "datasets", "star", "--json")
    (star,) = json.loads(text)
    assert (star["name"], star["path"], star["measured"], star["paper"]["features"]) == ("star", None, None, 39)
    assert "did you mean 'star'?" in run_command_line(capsys, "datasets", "stars")[2]


@pytest.mark.skipif(
    "EVENCOVER_DATA" not in os.environ, reason="EVENCOVER_DATA names no folder with the paper's data sets"
)
def test_datasets_are_measured(capsys):
    status, text, _ = run_command_line(capsys, "datasets", "--data-dir", os.environ["EVENCOVER_DATA"])
    assert status == 0
    assert all(
        line in text for line in ("372    372       102    105      1.26   1.26      5.15   5.15", "concrete.csv")
    )


@pytest.fixture(scope="module")
def own_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "mine.csv"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    rows = np.column_stack([X, X[:, 0] + np.abs(X[:, 1]) * rng.normal(size=400)])
    np.savetxt(path, rows, delimiter=",", header="a,b,y", comments="")
    return str(path)


@pytest.fixture
def empty_figures(monkeypatch):
    """Pictures without axes: test_benchmark looks at what they show, and drawing it takes most of the time."""
    from matplotlib.figure import Figure

    monkeypatch.setattr("evencover.reproduction.benchmark.results.benchmark_figure", lambda *_: Figure())


def test_a_benchmark_in_one_command(capsys, own_file, tmp_path, empty_figures):
    """A dry run, the run, a dry run that finds all trials done, and an error for other settings in the same folder."""
    output = str(tmp_path / "out")
    small = (own_file, "--target", "y", "--models", "QRF", "--quick", "--workers", "1", "--output", output)
    status, text, _ = run_command_line(capsys, "benchmark", *small, "--dry-run")
    assert (status, "mine: 400 rows, 2 features; 28 of 28 trials to run" in text) == (0, True)
    assert not (tmp_path / "out").exists()
    status, text, _ = run_command_line(capsys, "benchmark", *small)
    assert status == 0
    assert "| NCP | 6 |" in text
    assert "keep the level in every group, up to chance: holds (" in text
    assert f"Wrote 7 files to {output}, including " in text
    assert "0 of 28 trials to run" in run_command_line(capsys, "benchmark", *small, "--dry-run")[1]
    planned = json.loads(run_command_line(capsys, "benchmark", *small, "--dry-run", "--json")[1])
    assert [(each["trials"], each["to_run"]) for each in planned["data_sets"]] == [(28, 0)]
    status, _, error = run_command_line(capsys, "benchmark", *small, "--splits", "3")
    assert (status, "splits is [13, 2] in the folder and [13, 2, 47] in this run" in error) == (1, True)


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_a_file_of_another_kind_is_no_data_set(capsys, tmp_path, more):
    status, _, error = run_command_line(capsys, "benchmark", "mine.json", *more, "--output", str(tmp_path / "out"))
    assert (status, ".xlsx or .xlsm; got 'mine.json'" in error) == (1, True)


def test_an_unknown_data_set_is_like_a_missing_file(capsys, tmp_path):
    status, _, error = run_command_line(capsys, "benchmark", "turbin", "--output", str(tmp_path / "out"))
    assert (status, "unknown data set 'turbin'; did you mean 'turbine'?" in error) == (1, True)
    assert not (tmp_path / "out").exists()


def test_a_dry_run_needs_no_data(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("EVENCOVER_CACHE", str(tmp_path))
    status, text, _ = run_command_line(
        capsys, "benchmark", "--dry-run", "--models", "QRF", "--output", str(tmp_path / "out")
    )
    assert status == 0
    assert "star: to download from https://vincentarelbundock.github.io/" in text
    assert list(tmp_path.rglob("*")) == []


def test_a_broken_guarantee_gives_exit_status_3(capsys, own_file, tmp_path, monkeypatch, empty_figures):
    monkeypatch.setattr("evencover.reproduction.benchmark.results._SIGNIFICANT", 9.0)
    small = (own_file, "--models", "MV", "--variants", "NCP", "--splits", "1", "--epochs", "2", "--workers", "1")
    status, text, _ = run_command_line(capsys, "benchmark", *small, "--output", str(tmp_path))
    assert (status, "FAILS" in text) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--models", "QR,QRFF"), "unknown model 'QRFF'; did you mean 'QRF'?"),
        (("--variants", "ncp"), "unknown variant 'ncp'; did you mean 'NCP'?"),
        (("--splits", "11"), "splits must be between 1 and 10, the number in the paper; got 11"),
        (("--splits", "0"), "splits must be between 1 and 10, the number in the paper; got 0"),
        (("--epochs", "0", "--models", "QRF"), "epochs must be a positive whole number; got 0"),
        (("--target", "y"), "target is only for files, and no file was given; got 'y'"),
        (("--level", "90"), "did you mean 0.9?"),
    ],
)
def test_a_wrong_benchmark_is_an_error_before_any_work(capsys, tmp_path, arguments, message):
    status, _, error = run_command_line(capsys, "benchmark", *arguments, "--output", str(tmp_path / "out"))
    assert (status, message in error) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "threads"), [({}, str(max(1, (os.cpu_count() or 1) // 2))), ({"OMP_NUM_THREADS": "7"}, "7")]
)
def test_half_of_the_cores_unless_the_environment_sets_another_number(given, threads):
    """Set before scikit-learn is imported, because it reads the number then."""
    code = (
        "import os, sys; from evencover.cli import main\n"
        "assert 'sklearn' not in sys.modules\n"
        "try: main(['--version'])\n"
        "finally: print(os.environ['OMP_NUM_THREADS'])"
    )
    env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | given
    assert subprocess.check_output([sys.executable, "-c", code], env=env, text=True).split()[-1] == threads


@pytest.mark.filterwarnings("always")
def test_a_warning_is_printed_once_in_one_line(capsys, monkeypatch):
    def warning_claims(**_):
        for message in ("few rows", "few rows", "many rows"):
            warnings.warn(message, stacklevel=1)
        return iter([])

    monkeypatch.setattr(claims_module, "claims", warning_claims)
    errors = run_command_line(capsys, "reproduce", "claims")[2]
    assert errors == "evencover: few rows\nevencover: many rows\n"


def test_options_with_several_values_come_before_each_value(tmp_path, monkeypatch):
    """Until the next option, or the file of the command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    commands = [app()[name].default_command for name in ("run", "predict", "audit")]
    for words, expected in {
        **{
            f"run {flag} a b": f"run {flag} a {flag} b"
            for flag in ("--drop", "--categorical", "--groups", "--missing-values", "--features", "--keep")
        },
        **{f"run {flag} a b": f"run {flag} a b" for flag in ("--target", "--level", "--clusters")},
        "run a.csv --drop a b --json": "run a.csv --drop a --drop b --json",
        "run a.csv --drop a --target b c": "run a.csv --drop a --target b c",
        "run --drop a b c.CSV": "run --drop a --drop b c.CSV",
        "run --drop a b data --target y": "run --drop a --drop b data --target y",
        "run --drop a.csv b": "run --drop a.csv --drop b",
        "run --drop a -": "run --drop a ./-",
        "run - --missing-values - ? -9": "run ./- --missing-values ./- --missing-values ? --missing-values -9",
        "run --drop a b -h": "run --drop a --drop b -h",
        "run --drop a concrete": "run --drop a concrete",
        "run data --drop a folder concrete": "run data --drop a --drop folder --drop concrete",
        "predict --keep a b folder new": "predict --keep a --keep b folder new",
        "predict folder --keep a data": "predict folder --keep a data",
        "run --json --target y data --drop a data": "run --json --target y data --drop a --drop data",
        "run --target=y data --drop a data": "run --target=y data --drop a --drop data",
        "run --drop a data --keep b data": "run --drop a data --keep b --keep data",
        "run --target data --drop a data": "run --target data --drop a data",
        "benchmark --keep a data": "benchmark --keep a data",
        "predict folder data --keep a data": "predict folder data --keep a --keep data",
    }.items():
        assert " ".join(with_repeated_flags(words.split(), commands)) == expected


def test_an_audit_of_clusters_tests_one_row_of_each(capsys, tmp_path):
    """Rows of a cluster repeat each other, so all of them together would look like ten times the evidence."""
    rng = np.random.default_rng(0)
    path, noise = tmp_path / "rows.csv", np.repeat(rng.normal(size=60), 10)
    columns = {
        "patient": np.repeat(np.arange(60), 10),
        "y": noise,
        "lower": np.full(600, -1.2),
        "upper": np.full(600, 1.2),
    }
    pd.DataFrame(columns).to_csv(path, index=False)
    words = (
        "audit",
        str(path),
        "--target",
        "y",
        "--lower",
        "lower",
        "--upper",
        "upper",
        "--features",
        "none",
        "--json",
    )
    found = [json.loads(run_command_line(capsys, *words, *more)[1]) for more in ((), ("--clusters", "patient"))]
    assert [each["overall"]["rows"] for each in found] == [600, 60]
    assert any("One random row of each of 60 clusters was tested" in note for note in found[1]["notes"])
    status, _, error = run_command_line(capsys, *words, "--clusters", "patients")
    assert (status, "did you mean 'patient'" in error) == (1, True)


@pytest.mark.parametrize(
    ("clusters", "role"),
    [
        ("y", "the target"),
        ("1", "the target"),
        ("lo", "the lower bounds"),
        ("hi", "the upper bounds"),
        ("p", "the predictions"),
    ],
)
def test_clusters_of_an_audit_are_a_column_of_their_own(capsys, tmp_path, clusters, role):
    path = tmp_path / "rows.csv"
    path.write_text("y,lo,hi,p\n1,0,2,1\n2,1,3,2\n")
    words = ("--target", "y", "--lower", "lo", "--upper", "hi", "--prediction", "p", "--clusters", clusters)
    status, out, error = run_command_line(capsys, "audit", str(path), *words)
    name = "y" if clusters == "1" else clusters
    assert (status, out) == (1, "")
    assert error == f"evencover: clusters must not name {role}; got {name!r}"
