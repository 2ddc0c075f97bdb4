"""Tables of any columns, numbers and text, in CSV and Parquet files."""

import csv
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from evencover.datasets.tables import refuse_unless_file, refuse_unless_known, refuse_unless_named
from evencover.extras import imported
from evencover.files import whole_file
from evencover.groups import first_few
from evencover.inputs import FloatArray
from evencover.tables import as_numbers, column, first_stranger

_DELIMITERS = ",;\t"
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]


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
    refuse_unless_file(path)
    try:
        table = _csv(path, text) if path.suffix.lower() == ".csv" else _arrow("parquet").read_table(path)
    except _arrow("lib").ArrowInvalid as error:
        raise ValueError(f"{path.name} cannot be read as a table: {error}") from None
    table = table.rename_columns([name.strip() for name in table.column_names])
    refuse_unless_named(path, table.column_names, least=1)
    if not table.num_rows:
        raise ValueError(f"{path.name} must have rows below its header; it has none")
    return table


def write_table(columns: Mapping[str, Any], path: str | Path) -> None:
    """Write columns of equal length to a .csv or .parquet file, NaN as missing: whole or not at all."""
    refuse_unless_known(Path(path))
    with whole_file(path) as file:
        write_columns(columns, file, csv=Path(path).suffix.lower() == ".csv")


def write_columns(columns: Mapping[str, Any], file: BinaryIO, *, csv: bool) -> None:
    """Write columns of equal length to an open file, as CSV or as Parquet."""
    arrow = _arrow("lib")
    table = arrow.table({name: arrow.array(values, from_pandas=True) for name, values in columns.items()})
    if csv:
        _arrow("csv").write_csv(table, file)
    else:
        _arrow("parquet").write_table(table, file)


def number_column(table: Any, name: str, role: str, *, finite: bool = True) -> FloatArray:
    """Return a column of numbers that is there for a purpose, called its role in errors. Shape (n,)."""
    refuse_unless_column(table, name, role)
    held = column(table, name, role)
    values = as_numbers(held)
    if values is None:
        row, strange = first_stranger(held)
        raise ValueError(f"{role}: column {name!r} must hold numbers; got {strange!r} in row {row}")
    bad = ~np.isfinite(values)
    if finite and bad.any():
        raise ValueError(
            f"{role}: column {name!r} must hold a finite number in every row; {bad.sum()} of {len(bad)} are missing or "
            f"infinite (the first in row {bad.argmax()}, counted from 0)"
        )
    return values


def refuse_unless_column(table: Any, name: str, role: str) -> None:
    """Raise unless a table has a column of this name."""
    if name not in table.column_names:
        raise ValueError(f"{role} must name a column; there is no {name!r} but {first_few(table.column_names)}")


def _csv(path: Path, text: Collection[str]) -> Any:
    """Return a CSV file as a table; what a column holds is told by all of its cells, unless it is text."""
    arrow = _arrow("csv")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = file.readline()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} must be text in UTF-8; {error}") from None
    delimiter = max(_DELIMITERS, key=header.count)
    names = next(csv.reader([header], delimiter=delimiter), [])
    refuse_unless_named(path, [name.strip() for name in names], least=1)
    table = arrow.read_csv(
        path,
        read_options=arrow.ReadOptions(block_size=max(path.stat().st_size, 2**20)),
        parse_options=arrow.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,  # of one column, an empty line is a missing value
        ),
        convert_options=arrow.ConvertOptions(
            null_values=_MISSING,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            column_types={name: "string" for name in names if name.strip() in text},
        ),
    )
    binary = [field.name for field in table.schema if field.type == "binary"]
    if binary:
        raise ValueError(f"{path.name} must be text in UTF-8; column {binary[0]!r} is not")
    return table


def _arrow(part: str) -> Any:
    return imported(f"pyarrow.{part}", extra="cli", purpose="a table of text and numbers")
