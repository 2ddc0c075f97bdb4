"""The reader of CSV and Parquet files: the same tables and the same errors for every command."""

import sys

import numpy as np
import pytest

from evencover.datasets import load_dataset, read_dataset
from evencover.datasets._table_files import csv_text, number_column, read_table, write_table
from tests.test_cli import run_command_line as typed

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
    "no last line end": "area,rooms,rent\n50,2,700\n80.5,-3,1e3",
    "all at once": '\ufeff"area"\t rooms \t"rent"\r\n"50"\t 2\t700\r\n\r\n80.5\t-3\t"1e3"',
}
BROKEN = {
    "empty": "",
    "blank first line": "\na,y\n1,2\n",
    "no header": "1,2\n3,4\n",
    "no name": "a,,y\n1,2,3\n",
    "duplicate names": "a,y, a\n1,2,3\n",
    "pandas' index": "__index_level_0__,a,y\n0,1,2\n",
    "no rows": "a,y\n",
    "no rows and no line end": "a,y",
    "short line": "a,b,y\n1,2,3\n\n1,2\n",
    "long line after a text of two lines": 'a,y\n"two\nlines",1\n1,2,3\n',
    "not UTF-8": "a,y\nö,1\n".encode("latin-1"),
    "not UTF-8 far below": b"a,y\n" + b"1,2\n" * 9999 + b"\xf6,1\n",
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
    as_table = [number_column(table, name, "test").tolist() for name in table.column_names]
    assert as_table == [*data.X.T.tolist(), data.y.tolist()] == [[50, 80.5], [2, -3], [700, 1000]]


def test_a_delimiter_in_a_quoted_name_is_part_of_the_name(tmp_path):
    assert read_dataset(written(tmp_path, '"a, b, c";"d\ne";y\n1;2;3\n')).features == ("a, b, c", "d\ne")


def test_numbers_are_read_to_the_last_bit(tmp_path):
    """As by Python's float: of any size, with up to 17 digits."""
    rng = np.random.default_rng(0)
    values = np.frombuffer(rng.bytes(8 * 9000)).reshape(3000, 3)
    values = np.where(np.isfinite(values), values, 5e-324)
    values[:, 2] = rng.integers(-(2**53), 2**53, size=3000)
    data = read_dataset(written(tmp_path, csv_text(["a", "b", "y"], values)))
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
    write_table({"a": [1.0, 2.0], "y": [1.0, 2.0]}, tmp_path / "mine.parquet")
    content = bytearray((tmp_path / "mine.parquet").read_bytes())
    content[corrupt] = b"\xff" * len(content[corrupt])
    with pytest.raises(ValueError, match=r"^mine.parquet cannot be read as a table: .+$") as caught:
        read_dataset(written(tmp_path, bytes(content), "mine.parquet"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["mine.csv", "mine.parquet"])
def test_without_pyarrow_the_error_says_what_to_install(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"a CSV or Parquet file needs pyarrow: pip install 'evencover\[datasets\]'"):
        read_dataset(written(tmp_path, UNUSUAL["commas"], name))
