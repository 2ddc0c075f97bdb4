"""Files of intervals in a spreadsheet: text of the input is not run as a formula, and nothing else is changed."""

import csv
import datetime as dt
import gzip
import io
import re
import warnings

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evencover.tables.files import read_table, write_columns, write_table
from evencover.tables.spreadsheets import quoted, without_formulas

pytestmark = pytest.mark.filterwarnings("ignore:text that a spreadsheet would run")
COMMAND = "=cmd|' /C calc'!A0"
NUMBER = r"[+-][-+0-9.,:/() %\u20ac$]*(e[+-]?[0-9]+)?%?"  # digits and their marks run nothing
RISKY = st.text("=+-@\uff1d,;\t\r\n'\"a5e", max_size=8)


def is_run(cell):
    """Whether a spreadsheet may run a cell: it begins with a sign of formulas, and with no number that was a cell."""
    number = re.match(rf'\s*{NUMBER}($|[\s,"])', cell, re.IGNORECASE)
    return re.match("[\t\r\n]*[=+@\uff1d-]", cell) is not None and number is None


def cells_of(text, delimiter):
    """Return the cells of a file as a program sees them that separates them in this way."""
    lines = io.StringIO(text.replace("\r", "\n"), newline="")
    return [cell for row in csv.reader(lines, delimiter=delimiter) for cell in row]


def written(columns, **settings):
    file = io.BytesIO()
    write_columns(columns, file, **settings)
    return file.getvalue().decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (COMMAND, f"'{COMMAND}"),
        ("+A1", "'+A1"),
        ("-A1", "'-A1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\t=A1", "'\t'=A1"),
        ("\r=A1", "'\r'=A1"),
        ("\nA1", "'\nA1"),
        ("-1+A1", "'-1+A1"),
        ("-5;3", "'-5;3"),
        ("-inf", "'-inf"),
        ("a;=A1", "a;'=A1"),
        ('a;"=A1', "a;'\"=A1"),
        ("notes\n- first", "notes\n'- first"),
        ("'=A1", "''=A1"),
        ("'-5", "''-5"),
        *((text, text) for text in ("", "a", "a=b", "a-b", "5", "-5", "+3.2e4", "-", "-1,234.5", "-7%", "'a", '"=A1')),
        *((text, text) for text in ("-1 000", "-5 %", "-12:30", "+49 (30) 123", "- 5 \u20ac", "-1/2", "--")),
        ("-5 EUR", "'-5 EUR"),
        *((text, text) for text in ("a,=A1", "a, -b", "low; -5", "1 & =A1", " =A1", "na\u00efve")),
        ("1;-5;2", "1;'-5;2"),
    ],
)
def test_a_quote_stands_in_front_of_formulas(text, expected):
    assert quoted(text) == expected


def test_a_comma_may_begin_a_cell_of_a_file_with_tabs():
    assert quoted("a,=A1\tb\t=A1", "\t") == "a,'=A1\tb\t'=A1"


@given(RISKY)
def test_a_quote_can_be_taken_away_again(text):
    first, later = "^'(?='*([=+@\uff1d-]|[\t\r\n]))", "(?<=[;\t\r\n])'(?=[\"']*[=+@\uff1d-])"
    assert re.sub(f"{first}|{later}", "", quoted(text)) == text


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t")])
@given(names=st.lists(RISKY, min_size=2, max_size=2, unique=True), texts=st.lists(RISKY, min_size=2, max_size=2))
def test_no_cell_is_run_however_a_program_separates_them(suffix, delimiter, names, texts):
    """The text in quotation marks, which a program with another separator does not see."""
    text = written({names[0]: texts[:1], "x": [1.5], names[1]: texts[1:], "z": [-2]}, suffix=suffix)
    assert [cell for each in (",", ";", "\t") for cell in cells_of(text, each) if is_run(cell)] == []
    expected = [names[0], "x", names[1], "z", texts[0], "1.5", texts[1], "-2"]
    expected = [quoted(cell, delimiter).replace("\r", "\n") for cell in expected]
    assert cells_of(text, delimiter) == expected


def test_a_warning_names_the_columns_that_differ():
    table = pa.table({"a": ["=A1"], "b": ["x"], "-c": [1]})
    with pytest.warns(UserWarning, match=r"got a single quote in front; columns: \['a', '-c'\]. With --exact-text"):
        without_formulas(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        categories = pa.array(["a", "b"]).dictionary_encode()
        without_formulas(pa.table({"a": ["-5 %", "+49 30 123"], "b": [-1, 2], "c": categories}))


def test_numbers_dates_and_missing_text_are_unchanged():
    columns = {
        "number": pa.array([-1.5, None]),
        "count": pa.array([-1, 2]),
        "date": pa.array([dt.date(44, 3, 15), None]),
        "text": pa.array([None, "-5"]),
        "long text": pa.array(["=A1", None], "large_string"),
    }
    found = without_formulas(pa.table(columns))
    assert found.schema.types == pa.table(columns).schema.types
    assert found.column("long text").to_pylist() == ["'=A1", None]
    assert found.drop_columns("long text") == pa.table(columns).drop_columns("long text")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".tsv.gz"])
def test_text_files_hold_quotes_unless_they_shall_be_exact(tmp_path, suffix):
    for exact, prefix in ((False, "'"), (True, "")):
        path = tmp_path / f"{exact}{suffix}"
        write_table({"=name": ["=A1", "b"]}, path, exact_text=exact)
        content = gzip.decompress(path.read_bytes()) if suffix.endswith(".gz") else path.read_bytes()
        assert content.decode() == f'"{prefix}=name"\n"{prefix}=A1"\n"b"\n'


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_files_with_types_hold_text_as_it_is(tmp_path, suffix):
    columns = {"=name": ["=A1", "b"]}
    write_table(columns, tmp_path / f"table{suffix}")
    assert read_table(tmp_path / f"table{suffix}").to_pydict() == columns


@pytest.mark.parametrize(
    "texts",
    [
        pd.Series(["=A1", "na\u00efve", "=A1"], dtype="category"),
        pa.array(["=A1", "na\u00efve", "=A1"], "large_string"),
        [text.encode() for text in ("=A1", "na\u00efve", "=A1")],
        pa.array([text.encode().ljust(6) for text in ("=A1  ", "na\u00efve", "=A1  ")], pa.binary(6)),
    ],
)
def test_other_types_of_text(texts):
    cells = [cell.strip() for cell in cells_of(written({"x": texts}), ",")]
    assert cells == ["x", "'=A1", "na\u00efve", "'=A1"]


class TestWorkbooks:
    """Tables as Excel files."""

    def test_cells_are_what_was_written(self, tmp_path):
        """Numbers to the last bit, text with = as text, every character, dates to the millisecond."""
        rng = np.random.default_rng(0)
        numbers = np.frombuffer(rng.bytes(8 * 600))
        texts = [
            "=1+1",
            "-x",
            "@a",
            " sp ",
            "a\nb",
            "_x000D_ q",
            "\u00e9\u20ac\U0001f600",
            "'q",
            "#NAME",
            "<b>\x01\r\n&",
        ]
        columns = {
            "=h": np.where(np.isfinite(numbers), numbers, 5e-324),
            "_x0041_": rng.integers(-(2**62), 2**62, 600),
            "bound": np.where(rng.random(600) < 0.1, np.inf, rng.normal(size=600)),
            "lower": np.where(rng.random(600) < 0.1, -np.inf, 1.0),
            "gap": pa.array([0.1 + 0.2, None] * 300),
            "text": pa.array(texts * 60),
            "category": pa.array(["a", None] * 300).dictionary_encode(),
            "truth": pa.array([True, None, False] * 200),
            "time": pa.array([pd.Timestamp("2020-01-02 03:04:05.678"), None] * 300),
        }
        write_table(columns, path := tmp_path / "a.xlsx")
        assert read_table(path).to_pydict() == {name: pa.array(each).to_pylist() for name, each in columns.items()}
        assert {cell.data_type for cell in openpyxl.load_workbook(path).active["F"]} == {"s"}  # no formula
        first = path.read_bytes()
        write_table(columns, path)
        assert path.read_bytes() == first

    def test_missing_numbers_are_empty_cells(self, tmp_path):
        write_table({"a": np.array([1.5, np.nan]), "b": [1, 2]}, path := tmp_path / "a.xlsx")
        assert [cell.value for cell in openpyxl.load_workbook(path).active["A"]] == ["a", 1.5, None]

    def test_dates_are_dates_or_text(self, tmp_path):
        """Excel has no dates before 1900, no time zones and no microseconds."""
        day, old = dt.date(2020, 1, 2), dt.date(1850, 1, 2)
        columns = {
            "day": pa.array([day, None]),
            "old": pa.array([old, day]),
            "fine": pa.array([pd.Timestamp("2020-01-02 03:04:05.000006"), None]),
            "zone": pa.array([dt.datetime(2020, 1, 2, tzinfo=dt.UTC), None]),
        }
        write_table(columns, path := tmp_path / "a.xlsx")
        assert read_table(path).to_pydict() == {
            "day": [pd.Timestamp("2020-01-02"), None],
            "old": ["1850-01-02", "2020-01-02"],
            "fine": ["2020-01-02 03:04:05.000006", None],
            "zone": ["2020-01-02 00:00:00+00:00", None],
        }

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"a": ["x" * 32_768]}, "at most 32767 characters; got more in the column 'a': write .csv or .parquet"),
            ({"a": ["\U0001f600" * 16_384]}, "a cell of an Excel file holds at most 32767 characters"),
            ({"a": [[1]]}, "an Excel file cannot hold the lists in the column 'a': write .parquet"),
            ({"a": np.zeros(2**20)}, "at most 1048575 rows below a header, and 16384 columns; got 1048576 rows and 1 "),
            ({str(place): [1] for place in range(16_385)}, "at most 1048575 rows .*; got 1 rows and 16385 columns"),
        ],
        ids=["long text", "long text of pairs", "lists", "rows", "columns"],
    )
    def test_what_the_format_cannot_hold_is_an_error(self, columns, message, tmp_path):
        path = tmp_path / "a.xlsx"
        path.write_bytes(b"before")
        with pytest.raises(ValueError, match=message):
            write_table(columns, path)
        assert path.read_bytes() == b"before"
