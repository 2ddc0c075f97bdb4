"""CSV and Parquet files: the one reader, the one writer, and their errors."""

import csv
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover._internal.frames import as_numbers, column, first_non_numeric, reads_as_number
from evencover._internal.optional import import_optional
from evencover._internal.saved_files import atomic_write
from evencover.groups import first_few

_SUFFIXES = (".csv", ".parquet")
_DELIMITERS = ",;\t"
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
_LARGEST_BLOCK = 2**31 - 1  # bytes that pyarrow can parse at once


def read_table(path: str | Path, *, text: Collection[str] = ()) -> Any:
    """Return a CSV or Parquet file as a pyarrow table: numbers, text, dates, missing values.

    Parameters
    ----------
    path : str or Path
        A file that ends in .csv, in UTF-8, with a header and commas, semicolons or tabs between; or in .parquet. In a
        CSV file a cell is missing that is empty, NA, N/A, NaN, null or None, unless it is quoted.
    text : collection of str
        Columns of a CSV file that hold text, whatever it looks like; the others are what all of their cells look like.
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
    """Write columns of equal length to a .csv or .parquet file, NaN as missing: whole or not at all."""
    check_suffix(Path(path))
    with atomic_write(path) as file:
        write_columns(columns, file, csv=_is_csv(Path(path)))


def write_columns(columns: Mapping[str, Any], file: BinaryIO, *, csv: bool) -> None:
    """Write columns of equal length to an open file, as CSV or as Parquet."""
    arrow = _arrow("pyarrow")
    table = arrow.table({name: arrow.array(values, from_pandas=True) for name, values in columns.items()})
    if csv:
        _arrow("pyarrow.csv").write_csv(table, file)
    else:
        _arrow("pyarrow.parquet").write_table(table, file)


def csv_text(columns: list[str], values: FloatArray) -> str:
    """Return a table as CSV whose numbers read back as they are; a column of whole numbers has no decimal point."""
    whole = (values == np.round(values)).all(axis=0)
    written = [
        [str(int(value)) if is_whole else repr(value) for value in column.tolist()]
        for column, is_whole in zip(values.T, whole, strict=True)
    ]
    lines = [columns, *zip(*written, strict=True)]
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
        What errors begin with: the file's name, and what the column is for.
    finite : bool
        Whether a missing or infinite value is an error; missing ones are NaN otherwise.
    """
    check_column(table, name, context)
    held = column(table, name, context)
    values = as_numbers(held)
    if values is None:
        row, strange = first_non_numeric(held)
        raise ValueError(
            f"{context}: column {name!r} must hold numbers; got {strange!r:.80} in row {row} (counted from 0)"
        )
    bad = ~np.isfinite(values)
    if finite and bad.any():
        raise ValueError(
            f"{context}: column {name!r} must hold a finite number in every row; {bad.sum()} of {len(bad)} are missing "
            f"or infinite (the first in row {bad.argmax()}, counted from 0)"
        )
    return values


def check_column(table: Any, name: str, context: str) -> None:
    """Raise unless a table has a column of this name; errors begin with the context."""
    if name not in table.column_names:
        raise ValueError(f"{context}: no column named {name!r}; the columns are {first_few(table.column_names)}")


def check_suffix(path: Path) -> None:
    """Raise unless the ending of a file is that of a table."""
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"a table is a file that ends in {' or '.join(_SUFFIXES)}; got {path.name!r}")


def _csv_table(path: Path, text: Collection[str]) -> Any:
    """Return a CSV file as a table; what a column holds is told by all of its cells, unless it is text."""
    arrow = _arrow("pyarrow.csv")
    names, delimiter = _csv_header(path)
    _check_names(path, names)
    try:
        table = arrow.read_csv(
            path,
            read_options=arrow.ReadOptions(
                column_names=names,
                skip_rows_after_names=1,  # the header, which is read already
                block_size=min(max(path.stat().st_size, 2**20), _LARGEST_BLOCK),
            ),
            parse_options=arrow.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(names) > 1,  # of one column, an empty line is a missing value
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
    """Return the names of the columns, and the delimiter: the one that gives the most names."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        line = file.readline()
        delimiter = max(_DELIMITERS, key=lambda each: len(next(csv.reader([line], delimiter=each), [])))
        names = next(csv.reader(chain([line], file), delimiter=delimiter), [])  # a quoted name may go on in a new line
    return [name.strip() for name in names], delimiter


def _check_lines(path: Path, delimiter: str, n_columns: int) -> None:
    """Raise for the first line that has not one cell for each column, and if none follow the header."""
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
    """Return a Parquet file as a table, without spaces around the names."""
    table = _arrow("pyarrow.parquet").read_table(path)
    names = [name.strip() for name in table.column_names]
    _check_names(path, names)
    return table.rename_columns(names)


def _check_names(path: Path, names: list[str]) -> None:
    """Raise for column names that are missing, repeated, all numbers, or that of pandas' index."""
    if all(map(reads_as_number, names)):
        raise ValueError(f"{path.name} must have column names (in CSV, the first line); got {first_few(names)}")
    if "" in names:
        raise ValueError(f"{path.name} must name every column; column {names.index('') + 1} has no name")
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise ValueError(f"{path.name} has duplicate column names: {first_few(repeated)}")
    if indices := [name for name in names if name.startswith("__index_level_")]:
        raise ValueError(f"{path.name} has pandas' index as a column, {indices[0]}: write it with index=False")


def _no_rows(path: Path) -> ValueError:
    return ValueError(f"{path.name} must have rows below its header; it has none")


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _arrow(module: str) -> Any:
    return import_optional(module, extra="datasets", purpose="a CSV or Parquet file")
