"""The command line, as it is typed."""

import json
import os
import signal
import subprocess
import sys
from inspect import signature

import numpy as np
import pytest

import evencover
from evencover import cli
from evencover.experiments import claims as claims_room
from evencover.experiments import figures as figures_room
from evencover.experiments import tables
from evencover.experiments import verdicts as verdicts_room
from evencover.experiments.claims import Claim

SCRIPT = [sys.executable, "-c", "from evencover.cli import main; main()"]


def run(*arguments, **settings):
    return subprocess.run([*SCRIPT, *arguments], capture_output=True, text=True, check=False, **settings)


def typed(capsys, *arguments):
    """Return exit status, output and errors of a command run in this process."""
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    captured = capsys.readouterr()
    status = left.value.code
    if isinstance(status, str):  # what the interpreter does with it
        return 1, captured.out, status
    return status or 0, captured.out, captured.err


def test_the_script_is_installed():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="evencover")
    assert script.value == "evencover.cli:main"


def test_help_and_version(capsys):
    assert run("--version").stdout.strip() == evencover.__version__
    assert "reproduce" in typed(capsys, "--help")[1]
    for verb in ("tables", "figures", "claims", "verdicts"):
        assert verb in typed(capsys, "reproduce", "--help")[1]
        assert "--repeats" in typed(capsys, "reproduce", verb, "--help")[1]


def test_tables_in_words_and_as_data(capsys):
    status, text, _ = typed(capsys, "reproduce", "tables")
    assert status == 0
    assert "oracle       residual   0.905 ± 0.008   0.951 ± 0.010   0.904 ± 0.017   0.856 ± 0.018" in text
    assert tables.WHY_THEY_DIFFER in text
    status, text, _ = typed(capsys, "reproduce", "tables", "--json")
    data = json.loads(text)
    assert list(data) == ["as run", "as written"]
    assert data["as run"] == [row.as_data() for row in tables.as_run()]
    assert round(data["as run"][1]["high"]["mean_width"], 3) == 2.652


def test_tables_over_more_calibration_sets(capsys):
    _, text, _ = typed(capsys, "reproduce", "tables", "--repeats", "3", "--json")
    assert list(json.loads(text))[2:] == ["as run, 3 calibration sets", "as written, 3 calibration sets"]
    _, again, _ = typed(capsys, "reproduce", "tables", "--repeats", "3", "--json")
    _, other, _ = typed(capsys, "reproduce", "tables", "--repeats", "3", "--seed", "1", "--json")
    assert text == again != other


def test_claims_say_by_their_status_whether_all_hold(capsys):
    status, text, _ = typed(capsys, "reproduce", "claims", "--repeats", "3")
    assert status == 4
    assert len(text.splitlines()) == 8
    assert "NOT SHOWN" in text
    status, text, _ = typed(capsys, "reproduce", "claims", "--repeats", "3", "--json")
    data = json.loads(text)
    assert (status, data["repeats"], len(data["claims"])) == (4, 3, 8)
    assert {"number", "statement", "verdict", "evidence", "figure", "found"} == set(data["claims"][0])


@pytest.mark.parametrize(("verdict", "status"), [("holds", 0), ("fails", 3), ("not shown", 4)])
def test_the_status_is_the_worst_verdict(capsys, monkeypatch, verdict, status):
    found = [Claim(1, "one", "not shown" if verdict == "fails" else "holds", ""), Claim(2, "two", verdict, "")]
    monkeypatch.setattr(claims_room, "claims", lambda **_: iter(found))
    assert typed(capsys, "reproduce", "claims")[0] == status


def test_figures_are_named_as_they_are_written(capsys, tmp_path, monkeypatch):
    one = {"two_taxonomies": figures_room.taxonomies_figure}
    monkeypatch.setattr(figures_room, "figures", lambda repeats: one)
    status, text, _ = typed(capsys, "reproduce", "figures", "--output", str(tmp_path / "new"), "--repeats", "3")
    assert status == 0
    assert sorted(text.split()) == sorted(str(path) for path in (tmp_path / "new").iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [  # nothing is written by those with an output
        (("reproduce", "claims", "--repeats", "1"), "evencover: repeats must be a whole number, 2 or more"),
        (("reproduce", "tables", "--repeats", "-1"), "evencover: repeats must be a whole number, 2 or more"),
        (
            ("reproduce", "tables", "--repeats", "2", "--seed", "-1"),
            "evencover: seed must be a whole number, 0 or more",
        ),
        (("reproduce", "tables", "--seed", "-1"), "evencover: seed must be a whole number, 0 or more; got -1"),
        (("reproduce", "figures", "--output", __file__), "evencover: output must be a folder"),
        (
            ("reproduce", "figures", "--output", ".", "--repeats", "1"),
            "evencover: repeats must be a whole number, 2 or more",
        ),
        (("reproduce", "figures"), "--output"),
        (("reproduce", "figures", "--output", ""), "a folder must have a name"),
        (("reproduce", "claims", "--repeats", "many"), "must be a whole number; got 'many'"),
        (("reproduce", "tables", "--repeats", "1.5"), "must be a whole number; got '1.5'"),
        (("reproduce", "tables", "--repeats", "1"), "evencover: repeats must be a whole number, 2 or more"),
        (("reprodce", "claims"), "reproduce"),
    ],
)
def test_errors_are_short_and_leave_with_a_status(capsys, arguments, said):
    status, out, error = typed(capsys, *arguments)
    assert status != 0
    assert out == ""
    assert said in error
    assert "Traceback" not in error


def test_without_its_extra_the_command_line_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    said = typed(capsys, "--help")[2]
    assert said.startswith("evencover: the command line needs cyclopts: pip install 'evencover[cli]'")


def test_an_interruption_is_not_a_traceback(tmp_path):
    command = [*SCRIPT, "reproduce", "figures", "--repeats", "100000", "--output", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "two_subgroups" in process.stdout.readline()  # it is under way
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error


def test_defaults_are_the_librarys():
    for verb, room in ((cli.claims, claims_room), (cli.figures, figures_room)):
        assert signature(verb).parameters["repeats"].default == room.REPEATS


def test_help_loads_no_numbers():
    """It should come at once."""
    code = "import sys, evencover.cli as cli; cli.app(); print({'numpy', 'scipy'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_letters_that_the_output_lacks_do_not_stop_it():
    done = run("reproduce", "tables", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "0.905 ? 0.008" in done.stdout


def test_it_is_a_module_too():
    done = subprocess.run([sys.executable, "-m", "evencover", "--version"], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == evencover.__version__


def test_a_closed_pipe_is_not_a_traceback():
    command = f"{sys.executable} -m evencover reproduce claims --json --repeats 2 | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("{", "")


def test_verdicts_in_words_and_as_data(capsys, monkeypatch):
    monkeypatch.setattr(verdicts_room, "ROWS", (300,))
    monkeypatch.setattr(verdicts_room, "ROWS_A_GROUP", (20,))
    monkeypatch.setattr(verdicts_room, "_MANY", 5000)
    status, text, _ = typed(capsys, "reproduce", "verdicts", "--repeats", "3")
    assert status == 0
    assert all(name in text for name in [*verdicts_room.TESTS, *verdicts_room.SCENARIOS])
    status, text, _ = typed(capsys, "reproduce", "verdicts", "--repeats", "3", "--json")
    data = json.loads(text)
    assert set(data["rejections"]["20"]) == set(verdicts_room.TESTS)
    for found in data["scenarios"].values():
        assert len(found["coverage"]) == 3
        np.testing.assert_allclose(sum(found["verdicts"]["300"].values()), 1)
