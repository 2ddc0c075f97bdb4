"""Read and write CSV and Parquet files, with the same errors for every command."""

import csv
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover._internal.frames import column, numeric_column, reads_as_number
from evencover._internal.optional import import_optional
from evencover._internal.saved_files import atomic_write
from evencover.groups import first_few

_SUFFIXES = (".csv", ".parquet")
_DELIMITERS = ",;\t"
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
_MAX_BLOCK = 2**31 - 1  # bytes that pyarrow can parse at once


def read_table(path: str | Path, *, text: Collection[str] = ()) -> Any:
    """Return a CSV or Parquet file as a pyarrow table of numbers, text, dates and missing values.

    Parameters
    ----------
    path : str or Path
        A .csv file (UTF-8, with a header, delimited by commas, semicolons or tabs) or a .parquet file. In a CSV file
        the cells that are empty, NA, N/A, NaN, null or None are missing values, unless they are quoted.
    text : collection of str
        Columns of a CSV file to read as text. The type of every other column is inferred from all of its cells.
    """
    path = Path(path)
    check_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    arrow = _arrow("pyarrow")
    try:
        table = _csv_table(path, text) if _is_csv(path) else _parquet_table(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} must be text in UTF-8; {error}") from None
    except (arrow.ArrowInvalid, csv.Error, OSError) as error:  # pyarrow's errors may have several lines
        raise ValueError(f"{path.name} cannot be read as a table: {' '.join(str(error).split())}") from None
    if not table.num_rows:
        raise _no_rows(path)
    return table


def write_table(columns: Mapping[str, Any], path: str | Path) -> None:
    """Write columns of equal length to a .csv or .parquet file, atomically; NaN is written as a missing value."""
    check_suffix(Path(path))
    with atomic_write(path) as file:
        write_columns(columns, file, as_csv=_is_csv(Path(path)))


def write_columns(columns: Mapping[str, Any], file: BinaryIO, *, as_csv: bool) -> None:
    """Write columns of equal length to an open file, as CSV or as Parquet."""
    arrow = _arrow("pyarrow")
    table = arrow.table({name: arrow.array(values, from_pandas=True) for name, values in columns.items()})
    if as_csv:
        _arrow("pyarrow.csv").write_csv(table, file)
    else:
        _arrow("pyarrow.parquet").write_table(table, file)


def csv_text(columns: list[str], values: FloatArray) -> str:
    """Return a table as CSV text that preserves every number exactly; integer columns are written without decimals."""
    integer_columns = (values == np.round(values)).all(axis=0)
    texts = [
        [str(int(value)) if is_integer else repr(value) for value in column.tolist()]
        for column, is_integer in zip(values.T, integer_columns, strict=True)
    ]
    lines = [columns, *zip(*texts, strict=True)]
    return "".join(",".join(line) + "\n" for line in lines)


def number_column(table: Any, name: str, context: str, *, finite: bool = True) -> FloatArray:
    """Return a column as numbers, shape (n,).

    Parameters
    ----------
    table : pyarrow.Table
        What `read_table` returns.
    name : str
        The column.
    context : str
        The beginning of error messages: the role of the column and the file name.
    finite : bool
        Whether a missing or infinite value is an error; otherwise missing values become NaN.
    """
    check_column(table, name, context)
    values = numeric_column(column(table, name, context), f"{context}: column {name!r}")
    bad = ~np.isfinite(values)
    if finite and bad.any():
        raise ValueError(
            f"{context}: column {name!r} must hold a finite number in every row; missing or infinite "
            f"values: {bad.sum()} of {len(bad)} (the first in row {bad.argmax()}, counted from 0)"
        )
    return values


def check_column(table: Any, name: str, context: str) -> None:
    """Raise ValueError unless a table has a column of this name; the message begins with the context."""
    if name not in table.column_names:
        raise ValueError(f"{context}: no column named {name!r}; the columns are {first_few(table.column_names)}")


def check_suffix(path: Path) -> None:
    """Raise ValueError unless the suffix of a file is that of a table."""
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"a table is a file that ends in {' or '.join(_SUFFIXES)}; got {path.name!r}")


def _csv_table(path: Path, text: Collection[str]) -> Any:
    """Return a CSV file as a table; the type of a column is inferred from all of its cells, unless it is in `text`."""
    arrow = _arrow("pyarrow.csv")
    names, delimiter = _csv_header(path)
    _check_names(path, names)
    try:
        table = arrow.read_csv(
            path,
            read_options=arrow.ReadOptions(
                column_names=names,
                skip_rows_after_names=1,  # the header, which was read before
                block_size=min(max(path.stat().st_size, 2**20), _MAX_BLOCK),
            ),
            parse_options=arrow.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(names) > 1,  # in a file with one column, an empty line is a missing value
            ),
            convert_options=arrow.ConvertOptions(
                null_values=_MISSING,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                column_types={name: "string" for name in names if name in text},
            ),
        )
    except _arrow("pyarrow").ArrowInvalid:
        _check_lines(path, delimiter, len(names))
        raise
    binary = [field.name for field in table.schema if field.type == "binary"]
    if binary:
        raise ValueError(f"{path.name} must be text in UTF-8; column {binary[0]!r} is not")
    return table


def _csv_header(path: Path) -> tuple[list[str], str]:
    """Return the column names and the delimiter: the one that gives the most names."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        line = file.readline()
        delimiter = max(_DELIMITERS, key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))
        names = next(csv.reader(chain([line], file), delimiter=delimiter), [])  # a quoted name may contain line breaks
    return [name.strip() for name in names], delimiter


def _check_lines(path: Path, delimiter: str, n_columns: int) -> None:
    """Raise ValueError for the first line with more or fewer cells than columns, and if there are no rows."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=delimiter)
        next(lines)
        has_rows = False
        for cells in lines:
            has_rows = True
            if cells and len(cells) != n_columns:
                raise ValueError(
                    f"{path.name}, line {lines.line_num}: must have {n_columns} cells, one for each column; "
                    f"got {len(cells)}"
                )
    if not has_rows:
        raise _no_rows(path)


def _parquet_table(path: Path) -> Any:
    """Return a Parquet file as a table; spaces around column names are removed."""
    table = _arrow("pyarrow.parquet").read_table(path)
    names = [name.strip() for name in table.column_names]
    _check_names(path, names)
    return table.rename_columns(names)


def _check_names(path: Path, names: list[str]) -> None:
    """Raise ValueError if column names are missing, duplicate, all numbers, or that of a pandas index."""
    if all(map(reads_as_number, names)):
        raise ValueError(f"{path.name} must have column names (in CSV, the first line); got {first_few(names)}")
    if "" in names:
        raise ValueError(f"{path.name} must name every column; column {names.index('') + 1} has no name")
    if duplicates := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{path.name} has duplicate column names: {first_few(duplicates)}")
    if indices := [name for name in names if name.startswith("__index_level_")]:
        raise ValueError(f"{path.name} has a pandas index as a column, {indices[0]}; write the file with index=False")


def _no_rows(path: Path) -> ValueError:
    return ValueError(f"{path.name} must have rows below its header; got none")


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _arrow(module: str) -> Any:
    return import_optional(module, extra="datasets", purpose="a CSV or Parquet file")
