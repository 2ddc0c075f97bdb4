import subprocess
import sys

import pytest

from evencover.models.folds import end_with_parent
from tests.processes import descendants, parents, still_there

WATCHED = """
import multiprocessing
import os
import sys
import time

from evencover.models.folds import end_with_parent

METHOD, WHEN = sys.argv[1:]


def work(parent):
    print("started", flush=True)
    while WHEN == "late" and exists(parent):
        time.sleep(0.05)
    end_with_parent(parent)
    if WHEN == "early":
        print("watched", flush=True)
    time.sleep(600)


def exists(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    multiprocessing.get_context(METHOD).Process(target=work, args=(os.getpid(),)).start()
    time.sleep(600)
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="on Windows a process keeps the id of its dead parent")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("when", ["early", "late"])
def test_a_worker_ends_with_its_parent(tmp_path, method, when):
    """Late: the worker is still busy with its start when its parent is killed."""
    driver = tmp_path / "driver.py"
    driver.write_text(WATCHED)
    with subprocess.Popen([sys.executable, driver, method, when], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        if when == "early":
            assert process.stdout.readline() == "watched\n"
        workers = descendants(process.pid, parents())
        process.kill()
    assert workers
    assert not still_there(workers)


def test_a_process_that_nobody_started_as_a_worker_goes_on():
    """Here the test would end."""
    end_with_parent(1)
