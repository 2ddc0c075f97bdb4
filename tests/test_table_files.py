"""The reader of table files: the same tables and the same errors for every format and every command."""

import gzip
import io
import re
import sys
from datetime import date
from zipfile import ZipFile

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

from evencover import ConformalRegressor
from evencover.datasets import load_dataset, read_dataset
from evencover.tables.files import column_named, read_table
from tests.command_line import run_command_line as typed

UNUSUAL = {
    "commas": "area,rooms,rent\n50,2,700\n80.5,-3,1e3\n",
    "semicolons": "area;rooms;rent\n50;2;700\n80.5;-3;1e3\n",
    "tabs": "area\trooms\trent\n50\t2\t700\n80.5\t-3\t1e3\n",
    "quotes": '"area","rooms","rent"\n"50","2","700"\n80.5,-3,"1e3"\n',
    "byte order mark": "\ufeffarea,rooms,rent\n50,2,700\n80.5,-3,1e3\n",
    "mark and quotes": '\ufeff"area";"rooms";"rent"\n50;2;700\n80.5;-3;1e3\n',
    "Windows line ends": "area,rooms,rent\r\n50,2,700\r\n80.5,-3,1e3\r\n",
    "old Mac line ends": "area,rooms,rent\r50,2,700\r80.5,-3,1e3\r",
    "spaces": " area , rooms ,rent \n 50, 2 ,700\n80.5 ,-3, 1e3\n",
    "blank lines": "area,rooms,rent\n\n50,2,700\n\n80.5,-3,1e3\n\n",
    "blank first lines": "\n\r\narea,rooms,rent\n50,2,700\n80.5,-3,1e3\n",
    "delimiters at the end": "area,rooms,rent,\n50,2,700,\n80.5,-3,1e3,\n",
    "delimiters at the end of rows": "area,rooms,rent\n50,2,700,\n80.5,-3,1e3,\n",
    "spaces as delimiters": '"area" rooms "rent"\n50 2 700\n80.5 -3 1e3\n',
    "UTF-16": "area\trooms\trent\n50\t2\t700\n80.5\t-3\t1e3\n".encode("utf-16"),
    "compressed": gzip.compress(b"area,rooms,rent\n50,2,700\n80.5,-3,1e3\n"),
    "no last line end": "area,rooms,rent\n50,2,700\n80.5,-3,1e3",
    "all at once": '\ufeff"area"\t rooms \t"rent"\r\n"50"\t 2\t700\r\n\r\n80.5\t-3\t"1e3"',
}
BROKEN = {
    "empty": "",
    "blank lines": " \n\n\t\n",
    "no header": "1,2\n3,4\n",
    "no header, empty cell": "1,,2\n3,4,5\n",
    "no rows and blank lines": "a,y\n\n\n",
    "row names that repeat": "a,y\n1,2,3\n1,4,5\n",
    "no rows": "a,y\n",
    "no rows and no line end": "a,y",
    "short line": "a,b,y\n1,2,3\n\n1,2\n",
    "long line after a text of two lines": 'a,y\n"two\nlines",1\n1,2,3\n',
    "no encoding": b"a,y\n\x81,1\n",
    "no encoding far below": b"a,y\n" + b"1,2\n" * 9999 + b"\x81,1\n",
    "no header among text": "a,2.5,1\nb,1.5,3\n",
    "open quote in the header": 'a,"y\n1,2\n3,4\n',
    "target": "a,b\n1,2\n",
}
COMMANDS = {
    "run": ("--target", "y"),
    "audit": ("--target", "y", "--lower", "a", "--upper", "a"),
    "benchmark": ("--target", "y", "--output", "out", "--dry-run"),
}


def written(folder, content, name="mine.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_files_are_read_alike_as_tables_and_as_data_sets(case, tmp_path):
    path = written(tmp_path, UNUSUAL[case])
    table, data = read_table(path), load_dataset(str(path), target="rent")
    assert table.column_names == ["area", "rooms", "rent"]
    assert (data.features, data.response) == (("area", "rooms"), "rent")
    as_table = list(table.to_pydict().values())
    assert as_table == [*data.X.T.tolist(), data.y.tolist()] == [[50, 80.5], [2, -3], [700, 1000]]


def test_a_carriage_return_inside_a_cell_is_read_as_a_space(tmp_path):
    """Pandas writes such cells without quotes."""
    path = tmp_path / "texts.csv"
    path.write_bytes(b"text,y\none\rtwo,1\nthree,2\n")
    with pytest.warns(UserWarning, match=r"texts.csv: carriage returns inside cells: 1; they were read as spaces"):
        table = read_table(path)
    assert table.to_pydict() == {"text": ["one two", "three"], "y": [1, 2]}


def test_a_delimiter_in_a_quoted_name_is_part_of_the_name(tmp_path):
    assert read_dataset(written(tmp_path, '"a, b, c";"d\ne";y\n1;2;3\n')).features == ("a, b, c", "d\ne")


def test_numbers_are_read_to_the_last_bit(tmp_path):
    """As by Python's float: of any size, with up to 17 digits."""
    rng = np.random.default_rng(0)
    values = np.frombuffer(rng.bytes(8 * 9000)).reshape(3000, 3)
    values = np.where(np.isfinite(values), values, 5e-324)
    values[:, 2] = rng.integers(-(2**53), 2**53, size=3000)
    lines = [",".join(map(repr, row)) for row in values.tolist()]
    data = read_dataset(written(tmp_path, "\n".join(["a,b,y", *lines])))
    assert data.X.tobytes() == np.ascontiguousarray(values[:, :2]).tobytes()
    assert data.y.tobytes() == values[:, 2].tobytes()


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_gets_the_same_error_from_every_command(case, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, BROKEN[case])
    outcomes = {name: typed(capsys, name, "mine.csv", *arguments) for name, arguments in COMMANDS.items()}
    (status, _, error), *others = outcomes.values()
    assert status == 1
    assert "mine.csv" in error
    assert "\n" not in error.strip()
    assert others == [outcomes["run"]] * 2


@pytest.mark.parametrize("corrupt", [slice(4, 40), slice(-8, None)], ids=["in the middle", "at the end"])
def test_a_corrupt_parquet_file_gets_an_error_of_one_line(corrupt, tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "y": [1.0, 2.0]}).to_parquet(tmp_path / "mine.parquet")
    content = bytearray((tmp_path / "mine.parquet").read_bytes())
    content[corrupt] = b"\xff" * len(content[corrupt])
    with pytest.raises(ValueError, match=r"^mine.parquet cannot be read as a table: .+$") as caught:
        read_dataset(written(tmp_path, bytes(content), "mine.parquet"))
    assert "\n" not in str(caught.value)


ROWS = {"area": [50.0, 80.5], "rooms": [2, -3], "city": ["Köln", None], "rent": [700, 1000]}
WRITERS = {
    ".csv": lambda table, path: table.to_csv(path, index=False),
    ".tsv": lambda table, path: table.to_csv(path, sep="\t", index=False),
    ".txt": lambda table, path: table.to_csv(path, sep=";", index=False),
    ".csv.gz": lambda table, path: table.to_csv(path, index=False),
    ".tsv.gz": lambda table, path: table.to_csv(path, sep="\t", index=False),
    ".txt.gz": lambda table, path: table.to_csv(path, index=False),
    ".parquet": lambda table, path: table.to_parquet(path, index=False),
    ".feather": lambda table, path: table.to_feather(path),
    ".arrow": lambda table, path: pl.from_pandas(table).write_ipc(path),
    ".xlsx": lambda table, path: table.to_excel(path, index=False),
    ".xlsm": lambda table, path: table.to_excel(path, index=False, engine="openpyxl"),
}


OUTPUT_SUFFIXES = [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".feather", ".arrow", ".xlsx"]


def test_other_suffixes_are_errors_that_list_all(capsys, tmp_path):
    """Those of the tests below."""
    with pytest.raises(ValueError, match=r"got 'mine\.json'") as wrong:
        read_dataset(tmp_path / "mine.json")
    assert set(re.findall(r"\.[a-z.]+\b", str(wrong.value))) == {*WRITERS, ".json"}
    error = typed(capsys, "predict", "folder", "new.csv", "--output", "out.json")[2]
    assert set(re.findall(r"\.[a-z.]+\b", error)) == {*OUTPUT_SUFFIXES, ".json"}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_holds_the_same_table(suffix, tmp_path):
    path = tmp_path / f"my.rents{suffix}"
    WRITERS[suffix](pd.DataFrame(ROWS), path)
    assert read_table(path).to_pydict() == ROWS
    path = path.rename(tmp_path / f"my.rents{suffix.upper()}")
    assert read_table(path).to_pydict() == ROWS
    WRITERS[suffix](pd.DataFrame(ROWS)[["area", "rent"]], numbers := tmp_path / f"my.rents{suffix}")
    assert read_dataset(numbers).name == "my.rents"


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    """A folder with a model, and with rows to predict."""
    folder = tmp_path_factory.mktemp("predictor")
    model = ConformalRegressor(LinearRegression()).fit(pd.DataFrame({"area": np.arange(20.0)}), np.arange(20.0))
    model.save(folder / "model")
    pd.DataFrame(ROWS).to_parquet(folder / "new.parquet")
    return folder


@pytest.mark.parametrize("suffix", OUTPUT_SUFFIXES)
def test_what_is_written_can_be_read(suffix, predictor, capsys, monkeypatch):
    monkeypatch.chdir(predictor)
    status, _, errors = typed(capsys, "predict", "model", "new.parquet", "--keep", *ROWS, "--output", f"out{suffix}")
    assert (status, errors) == (0, "")
    assert read_table(f"out{suffix}").select(list(ROWS)).to_pydict() == ROWS


def test_categories_of_other_libraries_are_text(tmp_path):
    table = pd.DataFrame({"city": pd.Categorical(["a", "b", None]), "y": [1, 2, 3]})
    table.to_parquet(tmp_path / "pandas.parquet")
    pl.from_pandas(table).write_ipc(tmp_path / "polars.arrow")
    for name in ("pandas.parquet", "polars.arrow"):
        assert read_table(tmp_path / name, missing=["b"])["city"].to_pylist() == ["a", None, None]


def test_text_from_standard_input(monkeypatch):
    for content in (b"a,y\n1,2\n", gzip.compress(b"a,y\n1,2\n")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert read_table("-").to_pydict() == {"a": [1], "y": [2]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(ValueError, match="stdin must have a header and rows; the file is empty"):
        read_table("-")


def sheet(path, *rows, more_sheets=()):
    """Write an Excel file with these rows."""
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    for name in more_sheets:
        workbook.create_sheet(name)
    workbook.save(path)
    return path


def replace_in_sheet(path, changed_path, old, new):
    """Write a copy of an Excel file with another text in its first sheet."""
    with ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    part = "xl/worksheets/sheet1.xml"
    assert old in parts[part]
    parts[part] = parts[part].replace(old, new)
    with ZipFile(changed_path, "w") as changed:
        for name, content in parts.items():
            changed.writestr(name, content)


class TestExcel:
    def test_cells_of_every_kind(self, tmp_path):
        path = sheet(
            tmp_path / "a.xlsx",
            ["when", "number", "as text", "code", "mixed", "true", "none"],
            [pd.Timestamp(2020, 1, 2, 3), 1, "5", "01", 7, True, None],
            [date(2021, 1, 2), 2.5, "7.5", 12.0, pd.Timestamp(2020, 5, 6), False, "NA"],
            ["#N/A", "#DIV/0!", " ", None, "x", None, None],
        )
        table = read_table(path, text=["code"])
        assert table.to_pydict() == {
            "when": [pd.Timestamp(2020, 1, 2, 3), pd.Timestamp(2021, 1, 2), None],
            "number": [1, 2.5, None],
            "as text": [5, 7.5, None],
            "code": ["01", "12", None],
            "mixed": ["7", "2020-05-06", "x"],
            "true": [True, False, None],
            "none": [None] * 3,
        }

    def test_blank_rows_and_columns_are_skipped_but_counted(self, tmp_path):
        rows = [], ["a", None, "y"], [1, None, 2], [], ["x", None, 3], [None, None, None, None]
        table = read_table(sheet(tmp_path / "a.xlsx", *rows))
        assert table.to_pydict() == {"a": ["1", "x"], "y": [2, 3]}
        assert [column_named(table, position) for position in "123"] == ["a", "column 2", "y"]
        with pytest.raises(ValueError, match=r"a.xlsx: column 'a' must hold numbers; got 'x' in row 5 of the file"):
            read_dataset(tmp_path / "a.xlsx")

    @pytest.mark.parametrize("formula", ["=B2*2", "=IF(B2,,)"])
    def test_formulas_without_a_value_get_a_warning(self, formula, tmp_path):
        """Programs other than Excel write formulas without their values."""
        path = sheet(tmp_path / "a.xlsx", ["a", "y"], [1, 2], [formula, 3], [formula, None])
        with pytest.warns(UserWarning, match=r"a.xlsx: formulas .*: 2, the first in cell A3; .* missing values"):
            assert read_table(path)["a"].to_pylist() == [1, None]

    def test_a_formula_with_an_empty_text_gets_no_warning(self, tmp_path):
        path = sheet(tmp_path / "a.xlsx", ["a", "y"], [1, 2], ["=B2*2", 3])
        replace_in_sheet(path, path := tmp_path / "b.xlsx", b'<c r="A3"', b'<c r="A3" t="str"')
        assert read_table(path)["a"].to_pylist() == [1, None]

    def test_the_sheet_that_was_read(self, tmp_path):
        path = sheet(tmp_path / "a.xlsx", ["a", "y"], [1, 2], more_sheets=["More"])
        with pytest.warns(UserWarning, match="a.xlsx has 2 sheets; the first one, 'Sheet', was read"):
            assert read_table(path).to_pydict() == {"a": [1], "y": [2]}

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([], "a.xlsx must have a header and rows; its first sheet, 'Sheet', is empty"),
            ([["a", "y"]], "a.xlsx must have rows below its header; its first sheet, 'Sheet', has none"),
            ([[1, 2], [3, 4]], r"a.xlsx must have column names .+; got \['1', '2'\]"),
        ],
    )
    def test_without_rows(self, rows, message, tmp_path):
        with pytest.raises(ValueError, match=message):
            read_table(sheet(tmp_path / "a.xlsx", *rows))

    def test_a_wrong_size_in_the_file_is_ignored(self, tmp_path):
        right = sheet(tmp_path / "right.xlsx", ["a", "y"], [1, 2])
        replace_in_sheet(right, tmp_path / "wrong.xlsx", b'<dimension ref="A1:B2"', b'<dimension ref="A1"')
        assert read_table(tmp_path / "wrong.xlsx").to_pydict() == {"a": [1], "y": [2]}

    def test_another_file_with_this_suffix(self, tmp_path):
        with pytest.raises(ValueError, match=r"a.xlsx cannot be read as an Excel file: File is not a zip file"):
            read_table(written(tmp_path, "a,y\n1,2\n", "a.xlsx"))

    def test_without_openpyxl_the_error_says_what_to_install(self, tmp_path, monkeypatch):
        path = sheet(tmp_path / "a.xlsx", ["a"], [1])
        monkeypatch.setitem(sys.modules, "openpyxl", None)
        with pytest.raises(ImportError, match="an Excel file needs openpyxl: pip install"):
            read_table(path)


class TestNames:
    @pytest.mark.parametrize(
        ("text", "names"),
        [
            (",a,y\n0,1,2\n1,3,4\n", ["column 1", "a", "y"]),
            ("a,,y\n0,1,2\n1,3,4\n", ["a", "column 2", "y"]),
            ("column 2,,y\n0,1,2\n1,3,4\n", ["column 2", "column 2 (column 2)", "y"]),
            (",column 1,y\n0,1,2\n", ["column 1 (column 1)", "column 1", "y"]),
            ("a,y\nfirst,1,2\nsecond,3,4\n", ["column 1", "a", "y"]),  # as R writes row names
            (",0,1\n0,1,2\n1,3,4\n", ["column 1", "0", "1"]),  # as pandas writes a frame without names
            ("__index_level_0__,a,y\n0,1,2\n", ["__index_level_0__", "a", "y"]),
        ],
    )
    def test_nameless_columns_are_named_by_position(self, text, names, tmp_path):
        assert read_table(written(tmp_path, text)).column_names == names

    def test_duplicate_names_are_made_unique(self, tmp_path):
        message = r"mine.csv has duplicate column names; .* 'a \(column 3\)', 'a \(column 4\)'"
        with pytest.warns(UserWarning, match=message):
            table = read_table(written(tmp_path, "a,y,a, a\n1,2,3,4\n"))
        assert table.to_pydict() == {"a": [1], "y": [2], "a (column 3)": [3], "a (column 4)": [4]}

    def test_options_name_columns_by_position(self):
        table = pa.table({"a": [1], "3": [2], "c": [3]})
        assert [column_named(table, text) for text in ("a", "1", "2", "3", "4", "0", "-1", "x")] == [
            *("a", "a", "3", "3", "4", "0", "-1", "x")
        ]

    def test_a_delimiter_at_the_end_of_rows_does_not_shift_the_names(self, tmp_path):
        table = read_table(written(tmp_path, "code,y\n01,2,\n02,3,\n"), text=["code"])
        assert table.to_pydict() == {"code": ["01", "02"], "y": [2, 3]}

    @pytest.mark.parametrize("last", ["NA", "null", "?"])
    def test_row_names_before_a_last_column_without_values(self, last, tmp_path):
        """As R writes new rows whose target is not known."""
        table = read_table(written(tmp_path, f"a,b,y\n7,1,2,{last}\n9,3,4,{last}\n"), missing=["?"])
        assert table.to_pydict() == {"column 1": [7, 9], "a": [1, 3], "b": [2, 4], "y": [None, None]}

    @pytest.mark.parametrize("names", [("1", "2"), ("first", "second"), ("12", "1e+05")])
    def test_row_names_or_delimiters_at_the_end_of_rows(self, names, tmp_path):
        message = (
            rf"mine.csv .* rows with one more, .* '{re.escape(names[0])}', may be row names .* ',' at the beginning"
        )
        with pytest.raises(ValueError, match=message):
            read_table(written(tmp_path, rows := f"a,b,y\n{names[0]},1,2,\n{names[1]},3,4,\n"))
        assert read_table(written(tmp_path, f",{rows}")).column_names == ["column 1", "a", "b", "y"]
        assert read_table(written(tmp_path, rows.replace("y", "y,"))).column_names == ["a", "b", "y"]

    def test_decimals_are_no_row_names(self, tmp_path):
        with pytest.raises(ValueError, match=r"mine.csv, line 2: must have 2 cells, one for each column; got 3"):
            read_table(written(tmp_path, "a,y\n0.5,1,2\n1.5,3,4\n"))

    def test_positions_count_empty_columns_without_a_name(self, tmp_path):
        path = written(tmp_path, "a,,b,code,y,\n1,,2,01,3,\n4,,5,02,6,\n")
        sheet(tmp_path / "a.xlsx", ["a", None, "b", "code", "y"], [1, None, 2, "01", 3], [4, None, 5, "02", 6])
        for file in (path, tmp_path / "a.xlsx"):
            table = read_table(file, text=["4"])
            assert table.to_pydict() == {"a": [1, 4], "b": [2, 5], "code": ["01", "02"], "y": [3, 6]}
            assert [column_named(table, position) for position in "1345"] == ["a", "b", "code", "y"]

    def test_a_nameless_column_after_an_empty_one_is_no_feature(self, tmp_path):
        with pytest.raises(ValueError, match=r"mine.csv must name every column; column 3 has no name"):
            read_dataset(written(tmp_path, "a,,,y\n1,,2,3\n"))
        assert read_dataset(written(tmp_path, "a,,y\n1,,3\n")).features == ("a",)

    def test_a_position_can_be_read_as_text(self, tmp_path):
        assert read_table(written(tmp_path, "code,y\n01,2\n"), text=["1"]).to_pydict() == {"code": ["01"], "y": [2]}


class TestRowNumbers:
    COLUMNS = ("--target", "y", "--lower", "y", "--upper", "y")

    @pytest.mark.parametrize(
        ("text", "row"),
        [
            ("x,y\n1,0.23\n2,big\n3,0.5\n", 3),
            ("x,y\n1,0.23\n\n\n2,big\n", 5),
            ("\nx,y\r\n1,0.23\r\n\r\n2,big\r\n\n", 5),
            ('x,y\n"two\n\nlines",0.23\n2,big\n', 3),
            ("x,y\r1,0.23\r\r2,big\r", 4),
            ("y\n1\n\nbig\n", 4),
        ],
        ids=["plain", "blank lines", "Windows", "line breaks in a cell", "old Mac", "one column"],
    )
    def test_they_count_as_in_the_file(self, text, row, capsys, tmp_path):
        error = typed(capsys, "audit", str(written(tmp_path, text)), *self.COLUMNS)[2]
        assert f"column 'y' must hold numbers; got 'big' in row {row} of the file" in error

    def test_a_file_without_a_header_is_counted_from_0(self, capsys, tmp_path):
        pd.DataFrame({"y": ["1", "big"]}).to_parquet(tmp_path / "a.parquet")
        error = typed(capsys, "audit", str(tmp_path / "a.parquet"), *self.COLUMNS)[2]
        assert "got 'big' in row 1 (counted from 0)" in error


class TestMissingValues:
    def test_the_usual_texts(self, tmp_path):
        cells = ["", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", "#N/A", "#DIV/0!", "1", "2"]
        table = read_table(written(tmp_path, "a,y\n" + "".join(f"{cell},0\n" for cell in cells)))
        assert table["a"].to_pylist() == [None] * 12 + [1, 2]

    def test_points_and_quoted_blanks_among_numbers(self, tmp_path):
        table = read_table(written(tmp_path, 'a,b,c\n"1",.,.\n"",2, \n" ",3,x\n'))
        assert table.to_pydict() == {"a": [1, None, None], "b": [None, 2, 3], "c": [".", " ", "x"]}

    @pytest.mark.parametrize("cell", ['""', ".", '" "'])
    @pytest.mark.parametrize("rows", [1, 2])
    def test_a_column_without_any_number(self, cell, rows, tmp_path):
        """As in a file of one row; a column of text stays text."""
        table = read_table(written(tmp_path, "a,c,y\n" + f"{cell},{cell},0.5\n" * rows), text=["c"])
        assert table["a"].to_pylist() == [None] * rows
        assert table["a"].type == "double"
        assert table["c"].to_pylist() == [cell.strip('"')] * rows

    def test_further_texts(self, tmp_path):
        text = 'a,b,c,d,e\n?,-999,2020-01-01,"?",-\n1,-999.0,?,x,2\n2,3,2020-01-02,-999,3\n'
        table = read_table(written(tmp_path, text), missing=["?", "-", "-999"])
        assert table.to_pydict() == {
            "a": [None, 1, 2],
            "b": [None, None, 3],
            "c": [date(2020, 1, 1), None, date(2020, 1, 2)],
            "d": [None, "x", None],
            "e": [None, 2, 3],
        }

    @pytest.mark.parametrize("suffix", [".parquet", ".xlsx"])
    def test_further_texts_in_other_formats(self, suffix, tmp_path):
        WRITERS[suffix](
            pd.DataFrame({"a": ["?", "x"], "b": [-9, 1], "c": [-9.0, 1.5]}), path := tmp_path / f"a{suffix}"
        )
        expected = {"a": [None, "x"], "b": [None, 1], "c": [None, 1.5]}
        assert read_table(path, missing=["?", "-9"]).to_pydict() == expected


class TestNumbersAsText:
    @pytest.mark.parametrize(
        ("delimiter", "texts", "numbers"),
        [
            (",", ["$1,234.50", "$5", "-$6", "$-7", "$ 8"], [1234.5, 5, -6, -7, 8]),
            (",", ["45%", "3.5 %", "\u22127%", "."], [45, 3.5, -7, None]),
            (",", ["1,234", "12", "1,234,567.5", "2.5"], [1234, 12, 1234567.5, 2.5]),
            (",", ["1'234", "12\u00a0345\u00a0678", "5"], [1234, 12345678, 5]),
            (",", ["3,14", "2"], None),  # 3,14 may be a list of codes
            (",", ["3,14", "-2,5", ""], [3.14, -2.5, None]),
            (",", ["1,5", "1.234,5", "0,123"], [1.5, 1234.5, 0.123]),
            (",", ["1,5", "1,234"], None),
            (",", ["1,5", "2.5"], None),
            (",", ["1.234.567", "1.234.568"], None),
            ("\t", ["0,123", "1,234"], [0.123, 1.234]),
            (",", ["$5", "6"], None),  # 6 may be in another currency
            (",", ["45%", "0.45"], None),
            (",", ["$5", "€6"], None),
            (",", ["1_000", "2"], None),
            (",", ["--5%", "2%"], None),
            (",", ["12,34,567", "5"], None),
            (",", [".", ""], [None, None]),
            (";", ["3,14", "1,234", "5", "1.234,5", ",5", "1,5e3"], [3.14, 1.234, 5, 1234.5, 0.5, 1500]),
            (";", ["1.234.567", "3 €"], None),
            (";", ["1.234.567 €", "3 €"], [1234567, 3]),
            (";", ["1.234,5", "1.234"], None),  # alone, 1.234 is a number with a point
            (";", ["$1,234.50", "$2.5"], [1234.5, 2.5]),
            (";", ["1,234.50", "1,234"], None),
            ("\t", ["1,234", "3,14"], [1.234, 3.14]),
            ("\t", ["1,234", "1,234,567"], [1234, 1234567]),
            ("\t", ["1,234", "2.5"], [1234, 2.5]),
            ("\t", ["1,234", "5"], None),
        ],
    )
    @pytest.mark.filterwarnings("ignore:mine.csv")
    def test_numbers_with_signs_and_separators(self, delimiter, texts, numbers, tmp_path):
        """A comma separates thousands, in a file with semicolons it is decimal, and in one with tabs it may be both."""
        lines = [f"a{delimiter}y", *(f'"{text}"{delimiter}0' for text in texts)]
        assert read_table(written(tmp_path, "\n".join(lines)))["a"].to_pylist() == (numbers or texts)

    def test_a_column_is_converted_with_a_warning(self, tmp_path):
        path = written(tmp_path, 'price,share,code,y\n"$1,234.50",45%,"1,000",1\n$5,3%,"2,000",2\n')
        message = (
            r"mine.csv holds numbers as text in the columns price \('\$1,234.50' is 1234.5\), share \('45%' is 45\)$"
        )
        with pytest.warns(UserWarning, match=message):
            table = read_table(path, text=["code"])
        assert table.to_pydict() == {"price": [1234.5, 5], "share": [45, 3], "code": ["1,000", "2,000"], "y": [1, 2]}

    @pytest.mark.parametrize("delimiter", [";", "\t"])
    def test_decimal_commas(self, delimiter, tmp_path):
        table = pd.DataFrame({f"x{k}": [1.5, 2.25, 1234.125] for k in range(5)})
        table.to_csv(tmp_path / "a.csv", sep=delimiter, decimal=",", index=False)
        with pytest.warns(UserWarning, match=r"x0 \('1,5' is 1.5\), x1 .+, x2 \('1,5' is 1.5\) and 2 more$"):
            found = read_table(tmp_path / "a.csv")
        assert found.to_pydict() == table.to_dict("list")

    def test_the_rows_of_a_file_do_not_change_the_reading(self, tmp_path):
        cells = ["1,5", "1,234", "1.234,5", "7"]
        with pytest.warns(UserWarning, match="as text"):
            together = read_table(written(tmp_path, "a;y\n" + "".join(f"{cell};0\n" for cell in cells)))
        for cell, number in zip(cells[:3], together["a"].to_pylist(), strict=False):
            with pytest.warns(UserWarning, match="as text"):
                assert read_table(written(tmp_path, f"a;y\n{cell};0\n"))["a"].to_pylist() == [number]

    def test_quoted_decimal_commas_in_a_file_with_commas(self, tmp_path):
        with pytest.warns(UserWarning, match=r"mine.csv holds numbers as text in the column a \('1,5' is 1.5\)"):
            assert read_table(written(tmp_path, 'a,y\n"1,5",1\n"12,75",2\n'))["a"].to_pylist() == [1.5, 12.75]

    @pytest.mark.parametrize("other", ["7", "1,234"])
    def test_decimal_commas_next_to_other_numbers_get_a_hint(self, other, tmp_path):
        message = r"column 'a' is read as text; if '1,5' means 1.5, write 1.5 into the file"
        with pytest.warns(UserWarning, match=message):
            assert read_table(written(tmp_path, f'a,y\n"1,5",1\n"{other}",2\n'))["a"].to_pylist() == ["1,5", other]

    @pytest.mark.parametrize("cells", [["1.234", "12.500", "999", ""], ["-1.000", "2.000"]])
    def test_points_that_may_separate_thousands_get_a_warning(self, cells, tmp_path):
        message = (
            rf"mine.csv: in column 'a', '{cells[0]}' is read as {float(cells[0]):g}; if its point separates thousands, "
            "remove the points from the file"
        )
        path = written(tmp_path, "a;y\n" + "".join(f"{cell};1\n" for cell in cells))
        with pytest.warns(UserWarning, match=message):
            assert read_table(path)["a"].to_pylist() == [float(cell) if cell else None for cell in cells]

    @pytest.mark.parametrize("other", ["0.500", "1.50", "1234", "1234.567", "0.000", "2e-3", "1.0"])
    def test_points_in_other_places_get_no_warning(self, other, tmp_path):
        for content in (f"a;b\n1.234;1\n{other};2\n", f"a;b\n1.234;{other}\n1.234;0.5\n"):
            assert read_table(written(tmp_path, content))["a"].to_pylist()[0] == 1.234
        assert read_table(written(tmp_path, "a,b\n1.234,1\n"))["a"].to_pylist() == [1.234]

    def test_a_comma_that_can_mean_both_gets_a_warning(self, tmp_path):
        message = "column 'a' is read as text, .*'1,234' can mean 1234 or 1.234"
        with pytest.warns(UserWarning, match=message):
            assert read_table(written(tmp_path, "a\ty\n1,234\t2\n5\t3\n"))["a"].to_pylist() == ["1,234", "5"]


@pytest.mark.parametrize("name", ["mine.csv", "mine.parquet"])
def test_without_pyarrow_the_error_says_what_to_install(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"a table file needs pyarrow: pip install 'evencover\[datasets\]'"):
        read_dataset(written(tmp_path, UNUSUAL["commas"], name))
