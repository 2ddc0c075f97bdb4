"""How a file is read: separators, encodings and headers that are recognised, and those that the user names."""

import gzip
import io
import re
import sys
import warnings

import openpyxl
import pytest

from evencover.inputs.frames import row_numbers
from evencover.studies import study
from evencover.tables import TableFormat
from evencover.tables.files import read_table
from evencover.tables.table_format import header_position, is_row_of_data
from tests.command_line import run_command_line as typed

ROWS = {"città": ["Forlì", "“Zürich”, €", None], "area": [50.5, 80, -3], "rent": [700, 1000, 650]}
TEXT = "città;area;rent\nForlì;50.5;700\n“Zürich”, €;80;1000\nNA;-3;650\n"
PLAIN = "city,area,rent\nForli,50.5,700\nZug,80,1000\nBern,-3,650\n"
PLAIN_ROWS = {**ROWS, "city": ["Forli", "Zug", "Bern"]}
del PLAIN_ROWS["città"]


def written(folder, content, name="mine.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read_silently(path, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_table(path, file_format=TableFormat(**settings))


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le", "utf-16-be"])
    @pytest.mark.parametrize("source", [".csv", ".csv.gz", "-"])
    def test_others_than_utf8_are_recognised_with_a_warning(self, encoding, source, tmp_path, monkeypatch):
        content = TEXT.encode(encoding)
        path = "-" if source == "-" else written(tmp_path, content, f"mine{source}")
        if source == "-":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        elif source == ".csv.gz":
            path.write_bytes(gzip.compress(content))
        shown = "Windows-1252 (Latin-1)" if encoding == "cp1252" else encoding.upper()
        message = (
            f"is not text in UTF-8; it was read as {shown}, with text such as 'città'. If this is wrong, use --enc"
        )
        with pytest.warns(UserWarning, match=re.escape(message)):
            assert read_table(path).to_pydict() == ROWS

    def test_latin_1(self, tmp_path):
        """It has the signs of Windows-1252 below 0x80 and from 0xa0 on."""
        content = "".join(f"{chr(code)}\n" for code in range(0xA0, 0x100) if chr(code).strip()).encode("latin-1")
        with pytest.warns(UserWarning, match="Latin-1"):
            table = read_table(written(tmp_path, b"sign\n" + content))
        assert table["sign"].to_pylist() == content.decode("latin-1").split()

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_utf8_and_marked_text_get_no_warning(self, encoding, tmp_path):
        assert read_silently(written(tmp_path, TEXT.encode(encoding))).to_pydict() == ROWS

    def test_a_long_file_in_utf8(self, tmp_path):
        """Characters lie across the parts that are looked at."""
        table = read_silently(written(tmp_path, "a,y\n" + "€é,1\n" * 300_000))
        assert table["a"].unique().to_pylist() == ["€é"]

    @pytest.mark.parametrize("encoding", ["cp1251", "shift_jis", "mac_roman", "cp850", "cp1250"])
    def test_the_user_names_others(self, encoding, tmp_path):
        words = {"cp1251": "Москва", "shift_jis": "東京", "cp1250": "Wałęsa"}
        text = f"ort,y\nZug,1\n{words.get(encoding, 'Zürich Café')},2\n"
        path = written(tmp_path, text.encode(encoding))
        with pytest.raises(ValueError, match=r"mine.csv must be text in UTF-8, or in .*Latin-1.*Use --encoding NAME"):
            read_table(path)
        table = read_silently(path, encoding=encoding)
        assert table["ort"].to_pylist() == [line.split(",")[0] for line in text.splitlines()[1:]]

    @pytest.mark.parametrize(("text", "encoding"), [("北京", "gbk"), ("서울", "euc_kr"), ("Zürich", "mac_roman")])
    def test_short_words_of_other_alphabets_are_no_western_ones(self, text, encoding, tmp_path):
        path = written(tmp_path, f"ort,y\n{text},1\nZug,2\n".encode(encoding))
        with pytest.raises(ValueError, match=r"or in .*Latin-1.*Use --encoding NAME"):
            read_table(path)

    def test_damaged_utf8_is_not_taken_for_latin_1(self, tmp_path):
        path = written(tmp_path, "ort,y\nKöln,1\nMünchen,2\n".encode() + b"K\xf6ln,3\n")
        with pytest.raises(ValueError, match=r"mine.csv must be text in UTF-8, .*: 1, the first in line 4"):
            read_table(path)

    def test_text_that_is_not_in_the_named_encoding(self, tmp_path):
        path = written(tmp_path, "ort,y\nKöln,1\n".encode("cp1252"))
        with pytest.raises(ValueError, match=r"encoding must be that of mine.csv; got 'utf-8', but line 2 .*0xf6"):
            read_table(path, file_format=TableFormat(encoding="utf-8"))


class TestSeparators:
    @pytest.mark.parametrize("separator", ["|", ",", ";", "\t"])
    def test_they_are_recognised(self, separator, tmp_path):
        path = written(tmp_path, PLAIN.replace(",", separator).replace("\n", "\n\n", 1))
        assert read_silently(path).to_pydict() == PLAIN_ROWS

    @pytest.mark.parametrize(("separator", "given"), [("\t", "tab"), ("\t", "\\t"), (" ", "space"), ("^", "^")])
    def test_the_user_names_them(self, separator, given, tmp_path):
        path = written(tmp_path, PLAIN.replace(",", separator))
        assert read_silently(path, separator=given).to_pydict() == PLAIN_ROWS

    def test_bars_within_names_and_cells(self, tmp_path):
        text = "name,a|b|c\nx,1|2|3\ny,4|5|6\n"
        assert read_silently(written(tmp_path, text)).column_names == ["name", "a|b|c"]
        assert read_silently(written(tmp_path, text), separator="|").column_names == ["name,a", "b", "c"]
        assert read_silently(written(tmp_path, 'a|b|c\n1|2|"x\ny"\n')).num_rows == 1
        assert read_silently(written(tmp_path, 'a|"b,c"|d\n1|"2,x"|3\n')).column_names == ["a", "b,c", "d"]

    def test_a_comma_in_a_file_with_bars_is_decimal_if_it_can_be_nothing_else(self, tmp_path):
        with pytest.warns(UserWarning, match="holds numbers as text"):
            assert read_table(written(tmp_path, "a|y\n1,5|1\n2,25|2\n"))["a"].to_pylist() == [1.5, 2.25]


TITLES = {
    "a line": "Rents of 2020\n",
    "a line and a blank one": "Rents of 2020\n\n",
    "lines with cells": "Rents, of 2020\nby the city\n",
    "comments": "# source: me\n# city, area, rent and no more\n",
    "padded lines": "Rents of 2020,,\n,,\n",
    "quoted": '"Rents, and\nmore"\n',
}


class TestTitles:
    @pytest.mark.parametrize("case", TITLES)
    @pytest.mark.parametrize("separator", [",", ";"])
    def test_they_are_no_header(self, case, separator, tmp_path):
        text = (TITLES[case] if separator == "," else TITLES[case].replace(",,", ";;")) + PLAIN.replace(",", separator)
        path = written(tmp_path, text)
        row = 2 if case in ("a line", "quoted") else 3
        message = rf"mine.csv: row {row} was read as the header, .* look like titles, .* use --header 1 \(in Python"
        with pytest.warns(UserWarning, match=message):
            table = read_table(path)
        assert table.to_pydict() == PLAIN_ROWS
        assert row_numbers(table)[1] == row + 2
        assert read_silently(path, header=row).equals(table, check_metadata=True)

    @pytest.mark.filterwarnings("ignore:mine.csv. row 3 was read")
    def test_rows_count_as_in_the_file(self, capsys, tmp_path):
        path = written(tmp_path, "Title\n\nx,y\n1,0.5\n\n2,big\n3,0.25\n")
        error = typed(capsys, "audit", str(path), "--target", "y", "--lower", "x", "--upper", "x")[2]
        assert "got 'big' in row 6 of the file" in error

    @pytest.mark.parametrize(
        "rows",
        [
            [["", "y"], ["a", "1"], ["b", "2"]],  # an index
            [["a", "", ""], ["x", "1", "2"], ["z", "3", "4"]],  # names that are missing
            [["a", "y"], ["first", "1", "2"], ["second", "3", "4"]],  # row names
            [["a", "b"], ["x", "y"], ["z", "w"]],
            [["a", "b"], ["x", "y", "z"], ["u", "v", "w"]],
            [["a"], ["b"], ["1"]],
            [["Title"], ["a", "1"], ["b", "2"]],  # titles above rows without names
            [["Title"], ["a", "b"], ["1", "2"], ["1"]],
            [["Title"], ["a", "b"]],
            [["a", "", "b"], ["x", "?", "y"], ["z", "1", "w"]],  # a name that is missing above an odd cell
            [["#id", "y"], ["1", "2"], ["3", "4"]],
            [["#id", "y"], ["a", "?"], ["b", "c"]],
            [["mpg", "cyl"], ["Mazda", "NA", "NA"], ["Fiat", "3", "1"]],  # row names, and a first row without values
            [["city", "", "c", "d"], ["Rome", "NA", "NA", "NA"], ["Bonn", "1", "2", "3"]],
        ],
    )
    def test_other_first_rows_are_headers(self, rows):
        assert header_position(rows) == 0

    def test_a_first_row_without_values_is_no_second_header(self, tmp_path):
        """As in a table of lagged values."""
        table = read_silently(written(tmp_path, "city,b,c\nRome,NA,NA\nBonn,2,3\nOslo,4,5\n"))
        assert table.to_pydict() == {"city": ["Rome", "Bonn", "Oslo"], "b": [None, 2, 4], "c": [None, 3, 5]}

    def test_a_second_row_of_names_gets_a_warning(self, tmp_path):
        path = written(tmp_path, "My,title,2020\n\na,b,c\n1,2,x\n3,4,y\n")
        with pytest.warns(UserWarning, match=r"mine.csv: row 3 holds text where .* such as 'c'.* use --header 3 \("):
            assert read_table(path).num_rows == 3
        assert read_silently(path, header=3).to_pydict() == {"a": [1, 3], "b": [2, 4], "c": ["x", "y"]}

    def test_a_file_whose_lines_have_other_numbers_of_cells(self, tmp_path):
        path = written(tmp_path, "Title\na,b,c\nx,y,z\n")
        with pytest.raises(ValueError, match=r"line 2: must have 1 cells.*; got 3 \(if .* --separator; .* --header\)"):
            read_table(path)
        assert read_silently(path, header=2).to_pydict() == {"a": ["x"], "b": ["y"], "c": ["z"]}

    @pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
    @pytest.mark.parametrize(("row", "found"), [(2, "this row is blank"), (9, "has 4 rows")])
    def test_the_named_row_must_have_names(self, suffix, row, found, tmp_path):
        path = tmp_path / f"mine{suffix}"
        sheet(path, ["a", "y"], [], [1, 2], [3, 4]) if suffix == ".xlsx" else path.write_text("a,y\n\n1,2\n3,4\n")
        with pytest.raises(ValueError, match=rf"header must be the row of mine{suffix} .*; got {row}, but .*{found}"):
            read_table(path, file_format=TableFormat(header=row))


WITHOUT_HEADER = {
    "flowers": "5.1,3.5,1.4,0.2,setosa\n4.9,3.0,1.4,0.2,setosa\n7.0,3.2,4.7,1.4,versicolor\n",
    "persons": "39,State-gov,77516\n50,Private,83311\n38,State-gov,215646\n",
    "no text again": "Alabama,5.3\nAlaska,6.1\nArizona,4.8\n",
    "row numbers": "1,Austin\n2,Berlin\n3,Cairo\n",
    "numbers only": "1,2\n3,4\n",
    "negative": "a,-3,2\nb,4,5\n",
}
NAMES = [
    ["country", "1990", "1991", "1995"],
    ["country", "2020"],
    ["country", "2021", "2020"],
    ["", "0", "1", "2"],
    ["name", "0"],
    ["id", "0.05", "0.5", "0.95"],
    ["sample", "400.5", "401", "401.5"],
    ["subject", "inf", "nan"],
    ["a", "b"],
]


class TestNoHeader:
    @pytest.mark.parametrize("case", WITHOUT_HEADER)
    def test_a_first_row_of_values_is_an_error_that_names_the_option(self, case, tmp_path):
        path, lines = written(tmp_path, WITHOUT_HEADER[case]), WITHOUT_HEADER[case].splitlines()
        with pytest.raises(ValueError, match=r"mine.csv must have column names .* use --header 0 \(in Python"):
            read_table(path)
        for none in (0, "0", "none"):
            table = read_silently(path, header=none)
            assert (table.num_rows, table.column_names[0]) == (len(lines), "column 1")
            assert row_numbers(table)[1] == 2
        assert read_silently(path, header=1).column_names == lines[0].split(",")

    @pytest.mark.parametrize("names", NAMES)
    def test_numbers_may_be_names(self, names):
        """Years, levels of quantiles, wavelengths, and what pandas writes."""
        rows = [["x", *["1.5"] * (len(names) - 1)], ["z", *["2.5"] * (len(names) - 1)]]
        assert not is_row_of_data(names, rows)
        assert is_row_of_data(names, [[names[0], *row[1:]] for row in rows]) == (names[0] not in ("", "subject", "a"))

    def test_blank_rows_and_one_column(self, tmp_path):
        path = written(tmp_path, "\n5.5\n\n4.5\n")
        table = read_silently(path, header=0)
        assert table.to_pydict() == {"column 1": [5.5, None, 4.5]}
        assert [row_numbers(table)[place] for place in (0, 2)] == [2, 4]


def sheet(path, *rows, others=None):
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    for name, cells in (others or {}).items():
        added = workbook.create_sheet(name)
        for row in cells:
            added.append(row)
    workbook.save(path)
    return path


class TestExcel:
    def test_a_sheet_by_name_or_position(self, tmp_path):
        others = {"more": [["b", "y"], [3, 4]], "3": [["c", "y"], [5, 6]], "x": [["d", "y"], [7, "=A2"]]}
        path = sheet(tmp_path / "a.xlsx", ["a", "y"], [1, 2], others=others)
        names = {"more": "b", 2: "b", "2": "b", "3": "c", 3: "c", "1": "a"}
        assert {wanted: read_silently(path, sheet=wanted).column_names[0] for wanted in names} == names
        for wanted in ("4", "x", 4):
            with pytest.warns(UserWarning, match="formulas without a stored value: 1, the first in cell B2"):
                assert read_table(path, file_format=TableFormat(sheet=wanted))["d"].to_pylist() == [7]
        for wanted in (5, "0", "most"):
            with pytest.raises(
                ValueError, match=rf"^sheet must be one .* a.xlsx, \['Sheet', 'more', .*; got '?{wanted}"
            ):
                read_table(path, file_format=TableFormat(sheet=wanted))
        with pytest.warns(
            UserWarning, match=r"the first one, 'Sheet', was read. To read another one, use --sheet more"
        ):
            read_table(path)

    def test_titles_above_the_header(self, tmp_path):
        path = sheet(
            tmp_path / "a.xlsx", ["Rents", 2020], [], ["city", "area", "rent"], ["Zug", 50, 700], ["Bern", 3, 4]
        )
        with pytest.warns(UserWarning, match=r"a.xlsx: row 3 was read as the header, .* such as 'Rents'"):
            table = read_table(path)
        assert table.to_pydict() == {"city": ["Zug", "Bern"], "area": [50, 3], "rent": [700, 4]}
        assert row_numbers(table)[1] == 5
        assert read_silently(path, header="3").equals(table, check_metadata=True)

    def test_no_header(self, tmp_path):
        path = sheet(tmp_path / "a.xlsx", [5.1, "setosa"], [4.9, "setosa"])
        with pytest.raises(ValueError, match=r"a.xlsx must have column names .* use --header 0"):
            read_table(path)
        table = read_silently(path, header=0)
        assert table.to_pydict() == {"column 1": [5.1, 4.9], "column 2": ["setosa", "setosa"]}
        assert row_numbers(table)[1] == 2


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("a.csv", {"sheet": 1}, "sheet is for Excel files; a.csv is a text file, so leave it out"),
        ("a.xlsx", {"separator": ";"}, "separator is for text files; a.xlsx is an Excel file"),
        ("a.xlsx", {"encoding": "utf-8"}, "encoding is for text files; a.xlsx is an Excel file"),
        ("a.parquet", {"header": 1}, "header is for text and Excel files; a.parquet is a Parquet file"),
        ("a.feather", {"sheet": "x"}, "sheet is for Excel files; a.feather is an Arrow file"),
        ("-", {"sheet": "x"}, "sheet is for Excel files; stdin is a text file"),
    ],
)
def test_settings_of_another_kind_of_file(name, settings, message):
    for read in (read_table, lambda path, **options: study(path, "y", **options)):
        with pytest.raises(ValueError, match=f"^{message}"):
            read(name, file_format=TableFormat(**settings))


def test_a_study_takes_the_format_of_a_file_only(tmp_path):
    path = written(tmp_path, "1^2\n3^4\n")
    with pytest.raises(ValueError, match="table must have at least 13 rows"):
        study(path, "column 2", file_format=TableFormat(separator="^", header=0))
    for data, kind in ((read_table(written(tmp_path, PLAIN)), "table is a table in memory"), (tmp_path, "a folder")):
        with pytest.raises(ValueError, match=f"header is for text and Excel files; .*{kind}"):
            study(data, "rent", file_format=TableFormat(header=2))


@pytest.mark.parametrize("command", ["run", "audit"])
def test_commands_have_the_options(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "\xe9t\xe9^y^z\n1^x^3\n".encode("cp1252"))
    sheet(tmp_path / "a.xlsx", ["a"], [1], others={"more": [["title"], ["t", "y"], [1, "x"]]})
    (tmp_path / "folder").mkdir()
    options = ("--target", "y", *(("--lower", "t", "--upper", "t") if command == "audit" else ()))
    for words in (
        ("mine.csv", "--separator", "^", "--encoding", "cp1252", "--header", "1"),
        ("a.xlsx", "--sheet", "more", "--header", "2"),
    ):
        assert re.search("column 'y' must hold numbers; got 'x'", typed(capsys, command, *words, *options)[2])
    assert "folder is a folder of Parquet files" in typed(capsys, command, "folder", "--sheet", "1", *options)[2]


def test_a_data_set_has_no_format(capsys):
    error = typed(capsys, "run", "--header", "1")[2]
    assert "header is for text and Excel files; heteroskedastic is a data set, so leave it out" in error
