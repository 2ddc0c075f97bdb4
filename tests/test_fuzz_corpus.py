"""Every case of the corpus of the fuzzer gets a right answer or one clear error, and the fuzzer sees what is none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.corpus import FOLDER, corpus_files, write_case

REPOSITORY = Path(__file__).parents[1]


def replayed(*paths):
    """Return the outcomes of cases by the names of their files; they run in a process of their own."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--replay", *map(str, paths)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode in (0, 1), done.stderr
    return {Path(each["file"]).stem: each for each in found}


@pytest.fixture(scope="module")
def outcomes():
    return replayed(FOLDER)


@pytest.mark.parametrize("name", [path.stem for path in corpus_files()])
def test_a_case_gets_a_right_answer_or_one_clear_error(outcomes, name):
    found = outcomes[name]
    assert not found["bad"], f"{found['name']}: {found['text']}"


def test_bad_outcomes_are_seen(tmp_path):
    """A crash, a hang or too much memory is the outcome of one case, and the next one runs."""
    for name in ("crash", "hang", "memory", "exception", "none"):
        write_case(tmp_path / f"{name}.json", "mistakes", name, "")
    found = replayed(tmp_path)
    expected = {name: name for name in ("crash", "hang", "memory", "exception")}
    assert {name: each["name"] for name, each in found.items()} == {**expected, "none": "right answer"}
    assert [name for name, each in found.items() if not each["bad"]] == ["none"]
