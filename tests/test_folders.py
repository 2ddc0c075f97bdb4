"""Results appear in their place together or not at all, and the next command removes what a killed one has left."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from evencover.files import unfinished
from evencover.files.archive import atomic_write
from evencover.files.unfinished import lock_file, output_folder, remove_leftovers, temporary_folder
from evencover.report.writing import new_files
from tests.processes import LIMIT

ORDER = ("table.csv", "report.html", "results.json")  # the last one is there only if the others are
OLD = {"table.csv": "old", "report.html": "old", "results.json": "old"}
NEW = {"report.html": "new", "results.json": "new", "more.txt": "new"}
USER = {"notes.txt": "the user's"}


def write(folder, files, check=lambda: None):
    with output_folder(folder, check, order=ORDER) as temporary:
        for name, text in files.items():
            (temporary / name).write_text(text)


def content(folder):
    return {path.name: path.read_text() if path.is_file() else None for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    """The folder of an earlier result, with a file of the user."""
    write(tmp_path / "out", OLD)
    (tmp_path / "out" / "notes.txt").write_text("the user's")
    return tmp_path / "out"


def renames_that_fail(patch, numbers):
    """Let the renames with these numbers fail, counted from 0."""
    rename, calls = Path.rename, iter(range(1000))

    def sometimes(path, target):
        if next(calls) in numbers:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return rename(path, target)

    patch.setattr(Path, "rename", sometimes)


class TestMoves:
    def test_new_files_replace_those_of_the_earlier_result_and_no_others(self, folder):
        write(folder, NEW)
        assert content(folder) == {**NEW, **USER}

    def test_a_new_folder_appears_with_the_folders_above_it(self, tmp_path):
        write(tmp_path / "a" / "b", NEW)
        assert content(tmp_path / "a" / "b") == NEW
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    @pytest.mark.parametrize("number", range(1, 8))  # 0 moves the new files next to the folder's
    def test_a_move_that_fails_is_undone_with_all_before(self, folder, monkeypatch, number):
        with monkeypatch.context() as patch:
            renames_that_fail(patch, {number})
            with pytest.raises(OSError, match="No space left") as raised:
                write(folder, NEW)
        assert ".evencover" not in str(raised.value) or number == 4  # which renames a folder
        assert content(folder) == {**OLD, **USER}

    def test_a_file_that_became_a_folder_of_the_user_is_an_error(self, folder):
        (folder / "report.html").unlink()
        (folder / "report.html").mkdir()
        (folder / "report.html" / "mine.txt").write_text("mine")
        before = content(folder)
        with pytest.raises(IsADirectoryError, match=r"out/report.html"):
            write(folder, NEW)
        assert content(folder) == before
        assert (folder / "report.html" / "mine.txt").read_text() == "mine"

    def test_an_interrupt_in_a_move_is_undone(self, folder, monkeypatch):
        rename = Path.rename

        def interrupted(path, target):
            rename(path, target)
            if path.name == "results.json" and target.parent == folder:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", interrupted)
            with pytest.raises(KeyboardInterrupt):
                write(folder, NEW)
        left = content(folder)
        assert {name: left[name] for name in OLD} == OLD

    def test_what_cannot_be_moved_back_is_kept_and_moved_back_by_the_next_command(self, folder, monkeypatch):
        with monkeypatch.context() as patch:
            renames_that_fail(patch, range(4, 100))
            patch.setattr(Path, "replace", Path.rename)
            with pytest.raises(OSError, match=r"its other files are in .*\.evencover-"):
                write(folder, NEW)
        assert content(folder).keys() != {**OLD, **USER}.keys()
        remove_leftovers(folder)
        assert content(folder) == {**OLD, **USER}

    @pytest.mark.parametrize("kind", ["link", "current folder"])
    def test_a_link_and_the_current_folder_stay_what_they_are(self, folder, monkeypatch, kind):
        named = folder.parent / "link"
        if kind == "link":
            named.symlink_to(folder)
        else:
            monkeypatch.chdir(folder)
            named = Path()
        inode = folder.stat().st_ino
        write(named, NEW)
        assert content(folder) == {**NEW, **USER}
        assert folder.stat().st_ino == inode
        assert not folder.is_symlink()

    def test_an_earlier_file_that_is_a_link_is_replaced_and_its_target_stays(self, folder):
        target = folder.parent / "target.html"
        target.write_text("mine")
        (folder / "report.html").unlink()
        (folder / "report.html").symlink_to(target)
        write(folder, NEW)
        assert (target.read_text(), (folder / "report.html").is_symlink()) == ("mine", False)

    def test_a_folder_that_appears_meanwhile_is_checked(self, tmp_path):
        def check():
            if (tmp_path / "out").exists():
                raise FileExistsError("there are other files now")

        def write_slowly():
            with output_folder(tmp_path / "out", check) as temporary:
                (temporary / "a").write_text("new")
                (tmp_path / "out").mkdir()

        with pytest.raises(FileExistsError, match="other files now"):
            write_slowly()
        assert content(tmp_path / "out") == {}

    def test_two_commands_that_create_one_folder(self, tmp_path):
        """The second to end replaces the files of the first one."""
        with output_folder(tmp_path / "out", lambda: None, order=ORDER) as temporary:
            (temporary / "report.html").write_text("second")
            write(tmp_path / "out", NEW)
        assert content(tmp_path / "out") == {"report.html": "second", "more.txt": "new"}

    def test_moves_wait_for_those_of_another_command(self, folder, monkeypatch):
        monkeypatch.setattr(unfinished, "_LONGEST_MOVE", 0.0)
        with (folder / ".evencover-moving").open("w") as other:
            lock_file(other.fileno())
            with pytest.raises(TimeoutError, match=r"another command moves files.*\.evencover-moving"):
                write(folder, NEW)
        write(folder, NEW)
        assert content(folder) == {**NEW, **USER}


@pytest.mark.parametrize(("kind", "stays"), [("audit", True), ("study", False)])
def test_earlier_intervals_leave_only_with_a_study(tmp_path, kind, stays):
    """A study replaces its intervals, also by a file of another format; an audit has none, so they are the user's."""
    with new_files(tmp_path / "out", kind) as temporary:
        (temporary / "results.json").write_text(json.dumps({"evencover": "0", "kind": kind}))
    (tmp_path / "out" / "intervals.csv").write_text("")
    with new_files(tmp_path / "out", kind) as temporary:
        (temporary / "intervals.parquet").write_text("")
    assert (tmp_path / "out" / "intervals.csv").exists() == stays


class TestErrors:
    def test_a_broken_link_is_named_before_anything_is_computed(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        for path in (tmp_path / "link", tmp_path / "link" / "below"):
            with pytest.raises(OSError, match=r"broken link to .*nowhere"), output_folder(path, lambda: None):
                pytest.fail("computed")

    def test_a_file_in_place_of_a_folder_and_a_name_that_is_too_long(self, tmp_path):
        (tmp_path / "file").write_text("")
        for path, reason in ((tmp_path / "file" / "below", "Not a directory"), (tmp_path / ("x" * 300), "too long")):
            with pytest.raises(OSError, match=reason), output_folder(path, lambda: None):
                pytest.fail("computed")

    def test_a_folder_that_vanishes_is_named(self, folder):
        with pytest.raises(OSError, match=r"out"), output_folder(folder, lambda: None):
            shutil.rmtree(folder)

    @pytest.mark.parametrize("place", ["file", "output folder"])
    def test_a_full_disk_names_the_output(self, tmp_path, monkeypatch, place):
        """A limit on the size of files stands for it."""
        code = """
import resource, sys
from pathlib import Path
from evencover.files.archive import atomic_write
from evencover.files.unfinished import output_folder
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
def write(path):
    with atomic_write(path) as file:
        file.write(b"x" * 100000)
if sys.argv[1] == "file":
    write("new.txt")
else:
    with output_folder(Path("out"), lambda: None) as folder:
        write(folder / "new.txt")
"""
        pytest.importorskip("resource")
        done = subprocess.run(
            [sys.executable, "-c", code, place],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        name = "new.txt" if place == "file" else "out/new.txt"
        assert done.stderr.splitlines()[-1].endswith(f"File too large: '{name if '/' in name else tmp_path / name}'")
        assert list(tmp_path.iterdir()) == []

    def test_an_error_of_another_file_keeps_its_name(self, tmp_path):
        def write_what_is_missing():
            with atomic_write(tmp_path / "new.txt"):
                (tmp_path / "missing.txt").read_text()

        with pytest.raises(FileNotFoundError, match=r"missing.txt"):
            write_what_is_missing()

    def test_a_file_in_a_folder_that_is_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"none/new.txt'"), atomic_write(tmp_path / "none" / "new.txt"):
            pytest.fail("computed")


KILLED = """
import os, signal, sys, time
from pathlib import Path
from evencover.files import unfinished
from evencover.files.archive import atomic_write

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

{moment}
"""
IN_A_FILE = "with atomic_write('new.txt') as file:\n    file.write(b'half')\n    kill()"
IN_A_FOLDER = "with unfinished.temporary_folder(Path()) as folder:\n    (folder / 'a').mkdir()\n    kill()"
BEFORE_THE_LOCK = "unfinished._locked = kill\nwith unfinished.temporary_folder(Path()):\n    pass"
IN_A_MOVE = """
rename, calls = Path.rename, iter(range(100))
def rename_until_killed(path, target):
    if next(calls) == int(sys.argv[1]):
        kill()
    return rename(path, target)
Path.rename = rename_until_killed
with unfinished.output_folder(Path("out"), lambda: None, order=("table.csv", "report.html", "results.json")) as folder:
    for name in ("report.html", "results.json", "more.txt"):
        (folder / name).write_text("new")
"""


def killed(folder, moment, *words):
    """Run code that kills its own process."""
    command = [sys.executable, "-c", KILLED.format(moment=moment), *map(str, words)]
    done = subprocess.run(command, cwd=folder, timeout=LIMIT, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL


@contextmanager
def living(folder):
    """Yield a process that holds a temporary folder."""
    code = "import sys\nfrom pathlib import Path\nfrom evencover.files.unfinished import temporary_folder\n"
    code += "with temporary_folder(Path()):\n    print('ready', flush=True)\n    sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], cwd=folder, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.communicate(timeout=LIMIT)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
class TestLeftovers:
    @pytest.mark.parametrize("moment", [IN_A_FILE, IN_A_FOLDER, BEFORE_THE_LOCK])
    def test_the_next_command_removes_them(self, tmp_path, moment):
        killed(tmp_path, moment)
        assert len(list(tmp_path.iterdir())) == 1
        with atomic_write(tmp_path / "other.txt"):
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]

    @pytest.mark.parametrize("number", range(8))
    def test_moves_of_a_killed_process_are_undone_or_completed(self, folder, number):
        """Old and new files are never there together; afterwards, all of one kind are."""
        killed(folder.parent, IN_A_MOVE, number)
        left = {text for name, text in content(folder).items() if name in {**OLD, **NEW}}
        assert left in ({"old"}, {"new"}, set())
        if "results.json" in content(folder) and left == {"new"}:
            assert {**NEW, **USER}.items() <= content(folder).items()
        remove_leftovers(folder)
        found = {name: text for name, text in content(folder).items() if not name.startswith(".evencover")}
        assert found == ({**OLD, **USER} if number < 5 else {**NEW, **USER})
        write(folder, NEW)
        assert content(folder) == {**NEW, **USER}

    def test_those_of_a_living_process_stay(self, tmp_path):
        with living(tmp_path):
            (before,) = tmp_path.iterdir()
            remove_leftovers(tmp_path)
            assert list(before.iterdir()) == [before / "lock"]
        assert list(tmp_path.iterdir()) == []

    def test_those_of_this_process_stay(self, tmp_path, monkeypatch):
        """Also if it gets a lock that it has already, as in some network folders."""
        with temporary_folder(tmp_path) as folder:
            monkeypatch.setattr(unfinished, "lock_file", lambda _: None)
            remove_leftovers(tmp_path)
            assert folder.exists()
        assert list(tmp_path.iterdir()) == []

    def test_those_of_another_computer_of_nobody_and_links_stay(self, tmp_path, monkeypatch):
        killed(tmp_path, IN_A_FOLDER)
        (leftover,) = tmp_path.iterdir()
        own, name = unfinished._own_prefix(), leftover.name
        for other in (name.replace(own, f"{unfinished._PREFIX}00000000-"), name.replace(own, unfinished._PREFIX)):
            (tmp_path / other).mkdir()
            (tmp_path / other / "lock").write_text("")
        leftover.rename(tmp_path / "target")
        leftover.symlink_to("target")
        (tmp_path / f"{own}0123").mkdir()  # not such a name
        (tmp_path / f"{own}{'0' * 16}").mkdir()
        (tmp_path / f"{own}{'0' * 16}" / "mine").write_text("without a lock")
        before = sorted(tmp_path.rglob("*"))
        remove_leftovers(tmp_path)
        assert sorted(tmp_path.rglob("*")) == before

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs the right to change owners")
    def test_those_of_another_user_stay(self, tmp_path):
        killed(tmp_path, IN_A_FOLDER)
        (leftover,) = tmp_path.iterdir()
        os.chown(leftover, 65534, 65534)
        remove_leftovers(tmp_path)
        assert leftover.exists()

    def test_without_locks_nothing_is_taken_for_a_leftover(self, tmp_path, monkeypatch):
        def unsupported(_):
            raise OSError(errno.ENOLCK, "No locks available")

        with monkeypatch.context() as patch:
            patch.setattr(unfinished, "lock_file", unsupported)
            write(tmp_path / "out", OLD)
            write(tmp_path / "out", NEW)
            assert content(tmp_path / "out") == NEW
            with temporary_folder(tmp_path) as folder:
                remove_leftovers(tmp_path)
                assert not folder.name.startswith(unfinished._own_prefix())
                assert folder.exists()
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_a_folder_that_is_taken_for_a_leftover_at_once_is_created_again(self, tmp_path, monkeypatch):
        locked, calls = unfinished._locked, iter(range(10))

        def later(path, flags=0):
            if next(calls) == 0:
                path.parent.rmdir()
            return locked(path, flags)

        monkeypatch.setattr(unfinished, "_locked", later)
        with temporary_folder(tmp_path) as folder:
            assert folder.exists()

    def test_moves_that_another_computer_has_begun_are_not_disturbed(self, folder):
        other = folder / f"{unfinished._PREFIX}00000000-{'0' * 16}"
        (other / "earlier").mkdir(parents=True)
        with pytest.raises(FileExistsError, match=r"another command is moving files.*00000000-"):
            write(folder, NEW)
        other.joinpath("earlier").rmdir()
        assert content(folder) == {**OLD, **USER, other.name: None}
