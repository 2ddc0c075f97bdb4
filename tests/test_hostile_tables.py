"""Table files that are damaged, or that unpack to far more than they are: one clear error that names the file."""

import csv
import gzip
import re
import threading
from contextlib import suppress

import pytest

from evencover.tables.files import read_table
from evencover.tables.text_files import text_table
from tests.command_line import run_command_line as typed
from tests.messages import facts


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


TEXT_ERRORS = {
    "a zero byte": (b"a,y\n1,2\n\n3,\x004\n", "a.csv, line 4: must be text; got a zero byte"),
    "UTF-16 without a mark": ("a,y\n1,2\n".encode("utf-16-le"), "a.csv, line 1: ... save it as UTF-8"),
    "half of a character": ("a,y\n1,2\n".encode("utf-16")[:-1], "a.csv must be text in UTF-8"),
    "damaged compression": (gzip.compress(b"a,y\n1,2\n")[:-9], "a.csv cannot be read as a table"),
    "wrong checksum": (gzip.compress(b"a,y\n1,2\n")[:-8] + bytes(8), "a.csv cannot be read as a table: CRC"),
    "wrong compression": (b"\x1f\x8b\x08" + b"\xff" * 50, "a.csv cannot be read as a table"),
}


@pytest.mark.parametrize("case", TEXT_ERRORS)
def test_errors_of_damaged_text_name_the_file(case, capsys, tmp_path, monkeypatch):
    content, message = TEXT_ERRORS[case]
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "a.csv", content)
    status, _, error = typed(capsys, "run", "a.csv", "--target", "y")
    assert (status, "\n" in error.strip()) == (1, False)
    assert re.search(facts(message), error)


class TestLongText:
    """Python's csv refuses cells above 131 072 characters, unless its limit, which is global, is raised."""

    LONG = "x" * 200_000

    def test_a_long_header(self, tmp_path):
        names = [f"column_{number:05d}" for number in range(15_000)]
        path = written(tmp_path, "a.csv", f"{','.join(names)}\n{',1' * 15_000}\n".replace("\n,", "\n").encode())
        assert read_table(path).column_names == names

    @pytest.mark.parametrize("cells", [[LONG, "z"], ["z", LONG]], ids=["first", "later"])
    def test_a_long_cell_in_any_row(self, cells, tmp_path):
        path = written(tmp_path, "a.csv", f"a,y\n{cells[0]},1\n{cells[1]},2\n".encode())
        assert read_table(path)["a"].to_pylist() == cells

    def test_a_long_cell_in_the_header_and_next_to_a_short_row(self, tmp_path):
        path = written(tmp_path, "a.csv", f"{self.LONG},y\n{self.LONG},2\n1\n".encode())
        with pytest.raises(ValueError, match=r"a.csv, line 3: must have 2 cells, one for each column; got 1"):
            read_table(path)

    def test_the_limit_of_the_process_is_restored(self):
        """Also when several threads read at the same time, and one meets an error."""
        before = csv.field_size_limit(1000)
        try:
            contents = [f"a,y\n{self.LONG},1\n".encode(), b"a,y\n1\n"] * 4
            threads = [threading.Thread(target=self.outcome, args=[content]) for content in contents]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert csv.field_size_limit() == 1000
        finally:
            csv.field_size_limit(before)

    def outcome(self, content):
        with suppress(ValueError):
            text_table(content, "a.csv")


@pytest.mark.parametrize("text", ["a;y\n1;+3\n", "a;y\n+1;+3\n-2;0\n"])
def test_signed_numbers_without_a_point_in_a_file_with_semicolons(text, tmp_path):
    """Nothing shows what a point means there."""
    table = read_table(written(tmp_path, "a.csv", text.encode()))
    assert table["y"].to_pylist()[0] == 3
