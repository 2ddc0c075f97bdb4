"""Standard streams that are closed or full, and names of files that are no text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import run_command_line
from tests.processes import LIMIT

COMMAND = (sys.executable, "-m", "evencover")
AUDIT = ("--target", "y", "--lower", "lower", "--upper", "upper")
TABLE = "y,lower,upper\n" + "1,0,2\n" * 30

posix = pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")


def in_a_shell(folder, redirection, *words):
    """Return status, output and errors of a command with redirected streams."""
    script = f'exec "$@" {redirection}'
    command = ["sh", "-c", script, "sh", *COMMAND, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
    return done.returncode, done.stdout, done.stderr


@posix
@pytest.mark.parametrize("words", [("--version",), ("--help",)])
@pytest.mark.parametrize(
    ("redirection", "reason"), [(">&-", "standard output is closed"), (">/dev/full", "'standard output'")]
)
def test_output_that_cannot_be_printed_is_an_error(tmp_path, words, redirection, reason):
    if "full" in redirection and not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    status, _, errors = in_a_shell(tmp_path, redirection, *words)
    assert (status, errors.count("\n")) == (1, 1)
    assert reason in errors


@posix
def test_a_closed_standard_output_is_an_error_before_anything_is_written(tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    status, _, errors = in_a_shell(tmp_path, ">&-", "audit", "table.csv", *AUDIT, "--output", "out")
    assert (status, "standard output is closed" in errors) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@posix
def test_errors_do_not_go_to_the_standard_output_if_theirs_is_closed(tmp_path):
    assert in_a_shell(tmp_path, "2>&-", "audit", "none.csv", *AUDIT) == (1, "", "")
    (tmp_path / "table.csv").write_text(TABLE.replace("1,0,2", "$1,0,2"))  # of which a warning tells
    status, output, _ = in_a_shell(tmp_path, "2>&-", "audit", "table.csv", *AUDIT, "--json")
    assert (status, json.loads(output)["kind"]) == (0, "audit")


@posix
def test_a_closed_standard_input_holds_no_table(tmp_path):
    status, _, errors = in_a_shell(tmp_path, "<&-", "audit", "-", *AUDIT)
    assert (status, errors.count("\n")) == (1, 1)
    assert "stdin" in errors


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_of_files_need_not_be_text(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table, output = (os.fsdecode(name) for name in (b"ta\xff.csv", b"out\xff"))
    Path(table).write_text(TABLE)
    status, printed, errors = run_command_line(capsys, "audit", table, *AUDIT, "--output", output)
    assert (status, errors, "out" in printed) == (0, "", True)
    assert sorted(path.name for path in Path(output).iterdir()) == ["report.html", "results.json"]
    assert json.loads((Path(output) / "results.json").read_text(encoding="utf-8"))["kind"] == "audit"
    assert "ta\\udcff.csv" in (Path(output) / "report.html").read_text(encoding="utf-8")
    assert run_command_line(capsys, "audit", os.fsdecode(b"no\xff.csv"), *AUDIT)[0] == 1
