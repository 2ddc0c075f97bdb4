"""Table files that are damaged, or that unpack to far more than they are: one clear error that names the file."""

import csv
import gzip
import io
import re
import subprocess
import sys
import threading
from contextlib import suppress
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from evencover.tables import audit
from evencover.tables.files import read_table
from evencover.tables.text_files import text_table
from tests.command_line import run_command_line as typed
from tests.messages import facts

ROWS = 100_000
SMALL = "0.001"  # a limit in GB, so that small files are large enough
COLUMNS = {"target": "y", "lower": "y", "upper": "y"}


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def workbook(path, *, rows=b"", prolog=b"", parts=()):
    """Write an Excel file with a header, a row and these rows in XML."""
    content = io.BytesIO()
    openpyxl.Workbook().save(content)
    with ZipFile(content) as file:
        found = {name: file.read(name) for name in file.namelist()} | dict(parts)
    namespace = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    pair = b'<row><c t="str"><v>%s</v></c><c t="str"><v>%s</v></c></row>'
    first = (pair % cells for cells in ((b"a", b"y"), (b"5", b"6")))
    sheet = b'<worksheet xmlns="%s"><sheetData>%s%s</sheetData></worksheet>' % (namespace, b"".join(first), rows)
    found["xl/worksheets/sheet1.xml"] = prolog + sheet
    with ZipFile(path, "w", ZIP_DEFLATED) as file:
        for name, part in found.items():
            file.writestr(name, part)
    return path


def row(number, cell):
    return b'<row r="%d"><c r="%s"><v>7</v></c></row>' % (number, cell)


def as_feather(table, path, **settings):
    pf.write_feather(table, path, **settings)


BEYOND = "cannot be read as an Excel file: ... at most 1048576 rows and 16384 columns"
ENTITIES = b'<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]>'
LARGE_TEXT = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int32)), pa.array(["x" * 10_000]))
ZEROS = pa.table({"a": np.zeros(ROWS * 2), "y": np.zeros(ROWS * 2)})
NULLS = pa.table({"a": pa.nulls(ROWS), "y": pa.nulls(ROWS)})

EXCEL = {
    "a row far below": ({"rows": row(999_999_999, b"A999999999")}, BEYOND),
    "the first column too many": ({"rows": row(3, b"XFE3")}, BEYOND),
    "entities": ({"prolog": ENTITIES}, "it defines entities"),
    "entities in UTF-16": (
        {"parts": [("xl/other.xml", ("<!-- " + "z" * 70_000 + " -->" + ENTITIES.decode()).encode("utf-16"))]},
        "it defines entities",
    ),
}


@pytest.mark.parametrize("case", EXCEL)
def test_a_workbook_that_stands_for_too_much(case, tmp_path):
    parts, message = EXCEL[case]
    with pytest.raises(ValueError, match=f"^{facts('a.xlsx ... ' + message)}"):
        read_table(workbook(tmp_path / "a.xlsx", **parts))


def test_whole_numbers_beyond_all_floats_are_infinite_in_any_format(tmp_path):
    digits = b"9" * 400
    large = b"<row><c><v>%s</v></c><c><v>-%s</v></c></row>" % (digits, digits)
    written(tmp_path, "a.csv", b"a,y\n5,6\n%s,-%s\n" % (digits, digits))
    for path in (workbook(tmp_path / "a.xlsx", rows=large.replace(b"<row>", b'<row r="3">')), tmp_path / "a.csv"):
        assert read_table(path).to_pydict() == {"a": [5, np.inf], "y": [6, -np.inf]}


def test_a_row_and_a_cell_far_away_can_be_used(tmp_path):
    """What is before them is empty."""
    table = read_table(workbook(tmp_path / "a.xlsx", rows=row(20_000, b"A20000") + row(20_001, b"XFD20001")))
    assert table.to_pydict() == {"a": [5, 7, None], "y": [6, None, None], "column 16384": [None, None, 7]}


LARGE = {
    "a part of a workbook": ("a.xlsx", lambda path: workbook(path, parts=[("xl/sharedStrings.xml", b" " * 2_000_000)])),
    "far cells": ("a.xlsx", lambda path: workbook(path, rows=b"".join(row(n, b"XFD%d" % n) for n in range(3, 20)))),
    "a far cell below many rows": (
        "a.xlsx",
        lambda path: workbook(path, rows=b"".join(row(n, b"A%d" % n) for n in range(3, 20)) + row(20, b"XFD20")),
    ),
    "compressed text": ("a.csv.gz", lambda path: path.write_bytes(gzip.compress(b"a,y\n" + b"1,2\n" * 500_000))),
    "text": ("a.csv", lambda path: path.write_bytes(b"a,y\n" + b"1,2\n" * 500_000)),
    "columns": ("a.csv", lambda path: path.write_bytes(b"a" + b",b" * 1000 + b"\n1\n")),
    "Parquet": ("a.parquet", lambda path: pq.write_table(ZEROS, path)),
    "Parquet without values": ("a.parquet", lambda path: pq.write_table(NULLS, path)),
    "one text of many rows": (
        "a.parquet",
        lambda path: pq.write_table(pa.table({"a": LARGE_TEXT, "y": range(1000)}), path, store_schema=False),
    ),
    "Feather, zstd": ("a.feather", lambda path: as_feather(ZEROS, path, compression="zstd")),
    "Feather, lz4": ("a.feather", lambda path: as_feather(ZEROS, path, compression="lz4")),
    "Feather without values": ("a.arrow", lambda path: as_feather(NULLS, path, compression="uncompressed")),
    "one category of many rows": ("a.feather", lambda path: as_feather(pa.table({"a": LARGE_TEXT}), path)),
}


@pytest.mark.parametrize("case", LARGE)
def test_content_above_the_limit_is_refused_and_the_setting_named(case, capsys, tmp_path, monkeypatch):
    name, write = LARGE[case]
    write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENCOVER_MAX_GB", SMALL)
    message = facts(f"{name}: its content takes ... the limit is 1 MB ... EVENCOVER_MAX_GB")
    with pytest.raises(ValueError, match=f"^{message}"):
        read_table(name)
    status, _, error = typed(capsys, "run", name, "--target", "1")
    assert (status, "\n" in error.strip()) == (1, False)
    assert re.search(message, error)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_standard_input_above_the_limit(compress, tmp_path, monkeypatch):
    content = compress(b"a,y\n" + b"1,2\n" * 500_000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    monkeypatch.setenv("EVENCOVER_MAX_GB", SMALL)
    with pytest.raises(ValueError, match=r"^stdin: its content takes at least .* EVENCOVER_MAX_GB"):
        read_table("-")


def test_far_more_than_a_small_file_is_refused_by_default(tmp_path):
    """280 MB from 1.2 MB; 20 MB of a smaller file are fine."""
    path = written(tmp_path, "a.csv.gz", gzip.compress(b"a,y\n" + b"1,2\n" * 70_000_000, 1))
    with pytest.raises(ValueError, match=r"^a.csv.gz: its content takes at least 26\d MB of memory from .* MB"):
        read_table(path)
    path = written(tmp_path, "b.csv.gz", gzip.compress(b"a,y\n" + b"1,2\n" * 5_000_000, 1))
    assert read_table(path).num_rows == 5_000_000


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_categories_lists_and_missing_values_are_read_as_they_are(compression, tmp_path):
    table = pa.table(
        {
            "text": ["a", None, "ccc"] * 50,
            "category": pa.array(["u", "v", None] * 50).dictionary_encode(),
            "list": [[1, 2], None, []] * 50,
            "y": [1.5, None, 2.5] * 50,
            "none": pa.nulls(150),
        }
    )
    as_feather(table, tmp_path / "a.feather", compression=compression, chunksize=70)
    settings = {"compression": "none" if compression == "uncompressed" else compression, "row_group_size": 70}
    pq.write_table(table, tmp_path / "a.parquet", **settings)
    for name in ("a.feather", "a.parquet"):
        assert read_table(tmp_path / name).to_pydict() == table.to_pydict()


def feather(column):
    """Return a Feather file with a column `a`, not compressed."""
    content = io.BytesIO()
    table = pa.table({"a": column, "y": np.arange(len(column)) + 0.5})
    pf.write_feather(table, content, compression="uncompressed")
    return content.getvalue()


TEXTS = feather(pa.array(["one", "two", "three"] * 20))
CODES = feather(pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 20, pa.int32()), pa.array(["one", "two", "three"])))
DAMAGED = {  # values that point to memory of others
    "offsets of texts": TEXTS.replace(np.array([3, 6], "<i4").tobytes(), np.array([3, 2**30], "<i4").tobytes(), 1),
    "codes of categories": CODES.replace(np.array([0, 1, 2, 0], "<i4").tobytes(), b"\xff\xff\xff\x3f" * 4, 1),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_feather_files_are_found_before_they_are_used(case, tmp_path):
    """In another process, which would crash."""
    path = written(tmp_path, "a.feather", DAMAGED[case])
    code = f"from evencover.tables.files import read_table; read_table({str(path)!r})['a'].to_pylist()"
    left = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert left.returncode == 1
    assert "ValueError: a.feather cannot be read as a table: " in left.stderr.splitlines()[-1]


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_feather_files_of_a_dataset_are_found(case, tmp_path):
    path = written(tmp_path, "a.feather", DAMAGED[case])
    with pytest.raises(ValueError, match=r"a\.feather: cannot be read: "):
        audit(ds.dataset(path, format="feather"), **COLUMNS)


@pytest.mark.parametrize("content", [TEXTS, CODES], ids=["texts", "categories"])
def test_any_damage_of_the_index_of_a_feather_file_is_one_error(content, tmp_path):
    """Bytes that are all ones, in many positions of its end."""
    messages = [
        self_or_error(written(tmp_path, "a.feather", content[:start] + b"\xff" * 8 + content[start + 8 :]))
        for start in range(len(content) - 200, len(content), 3)
    ]
    assert all(message.startswith("a.feather") for message in messages)
    assert sum(message != "a.feather" for message in messages) > 30


def self_or_error(path):
    """Return the name of a file that can be read, or the error."""
    try:
        read_table(path)
    except ValueError as error:
        return str(error)
    return path.name


TEXT_ERRORS = {
    "a zero byte": (b"a,y\n1,2\n\n3,\x004\n", "a.csv, line 4: must be text; got a zero byte"),
    "damaged UTF-16 without a mark": (
        "a,y\n1,\n".encode("utf-16-le") + b"\0",
        "a.csv, line 1: ... use --encoding NAME",
    ),
    "half of a character": ("a,y\n1,2\n".encode("utf-16")[:-1], "a.csv must be text in UTF-16"),
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


def test_huge_numbers_in_a_file_with_semicolons_cause_no_warning(tmp_path):
    """A warning is an error in the tests."""
    assert read_table(written(tmp_path, "a.csv", b"a;y\n1e308;1\n-1.7e308;2\n"))["a"].to_pylist() == [1e308, -1.7e308]
