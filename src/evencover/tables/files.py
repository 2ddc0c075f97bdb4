"""Tables in files, by format: one reader for all of them."""

import csv
import gzip
import re
import sys
import warnings
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import date, datetime
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile

import numpy as np

from evencover.files.archive import atomic_write
from evencover.groups import first_few
from evencover.inputs.arrays import FloatArray, similar_name, warn_user
from evencover.inputs.frames import column, numeric_column, row_numbers, with_row_numbers
from evencover.inputs.optional import import_optional
from evencover.tables.text_files import (
    MISSING,
    columns_of_file,
    import_pyarrow,
    name_in,
    text_table,
    unique_names,
    used_columns,
    with_numbers,
    without_missing,
)
from evencover.tables.unchanged import unchanged

_FORMULA = re.compile(rb"<f[ />]")


def excel_table(content: bytes, file: str, *, text: Collection[str] = (), missing: Collection[str] = ()) -> Any:
    """Return the first sheet of an Excel file as a pyarrow table; blank rows and columns are skipped.

    Parameters
    ----------
    content : bytes
        The file, in the format .xlsx or .xlsm.
    file : str
        The name of the file, for messages.
    text : collection of str
        Columns to read as text, by name or position.
    missing : collection of str
        Cells that are missing values, in addition to the usual ones.
    """
    sheet, rows = _first_sheet(content, file)
    filled = [number for number, row in enumerate(rows) if any(cell is not None for cell in row)]
    if not filled:
        raise ValueError(f"{file} must have a header and rows; its first sheet, {sheet!r}, is empty")
    header, *records = [rows[number] for number in filled]
    if not records:
        raise ValueError(f"{file} must have rows below its header; its first sheet, {sheet!r}, has none")
    width = max(map(len, [header, *records]))
    columns = list(zip(*(_padded(row, width) for row in records), strict=True))
    titles = ["" if cell is None else str(cell) for cell in _padded(header, width)]
    names = unique_names(titles, file)
    texts = {name_in(names, each) for each in text}
    arrays = [_array(cells, as_text=name in texts) for cells, name in zip(columns, names, strict=True)]
    used = [bool(titles[place]) or any(cell is not None for cell in columns[place]) for place in range(width)]
    table = without_missing(used_columns(import_pyarrow().table(arrays, names=names), used), missing)
    blank = sorted(set(range(1, filled[-1] + 1)) - {number + 1 for number in filled})
    return with_row_numbers(with_numbers(table, file, text=texts), blank)


def _first_sheet(content: bytes, file: str) -> tuple[str, list[list[Any]]]:
    """Return the name of the first sheet and its rows of cells, missing ones as None."""
    openpyxl = import_optional("openpyxl", extra="datasets", purpose="an Excel file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of styles and of checks of cells, which are not read
            workbook = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True)
            sheet = workbook.worksheets[0]
            sheet.reset_dimensions()  # some programs write wrong ones
            rows = [[_cell(value) for value in row] for row in sheet.iter_rows(values_only=True)]
            empty = _formulas_without_value(content) if any(None in row for row in rows) else []
    except Exception as error:  # openpyxl may raise anything for a file of another kind
        raise ValueError(f"{file} cannot be read as an Excel file: {' '.join(str(error).split())}") from None
    if len(workbook.worksheets) > 1:
        warn_user(f"{file} has {len(workbook.worksheets)} sheets; the first one, {sheet.title!r}, was read")
    if empty:
        warn_user(
            f"{file}: formulas without a stored value: {len(empty)}, the first in cell {empty[0]}; they were read as "
            "missing values; open the file in a spreadsheet program and save it"
        )
    return sheet.title, rows


def _formulas_without_value(content: bytes) -> list[str]:
    """Return the cells of the first sheet that hold a formula without its value, as other programs write it."""
    with ZipFile(BytesIO(content)) as parts:
        sheets = [name for name in parts.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
        if not any(_FORMULA.search(parts.read(name)) for name in sheets):
            return []
    cells = zip(_cells(content, data_only=False), _cells(content, data_only=True), strict=True)
    return [
        formula.coordinate
        for formula, value in cells
        if formula.data_type == "f" and value.value is None and value.data_type != "str"  # an empty text is a value
    ]


def _cells(content: bytes, *, data_only: bool) -> Iterator[Any]:
    """Return the cells of the first sheet, with values or with formulas."""
    openpyxl = import_optional("openpyxl", extra="datasets", purpose="an Excel file")
    sheet = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=data_only).worksheets[0]
    sheet.reset_dimensions()
    return chain.from_iterable(sheet.iter_rows())


def _cell(value: Any) -> Any:
    """Return the value of a cell; None if it is missing."""
    return None if isinstance(value, str) and (value in MISSING or not value.strip()) else value


def _padded(row: Sequence[Any], width: int) -> list[Any]:
    return [*row, *[None] * (width - len(row))]


def _array(cells: Sequence[Any], *, as_text: bool) -> Any:
    """Return a column as a pyarrow array; cells of several kinds become text."""
    kinds = {_kind(cell) for cell in cells if cell is not None}
    if as_text or len(kinds) > 1:
        cells = [None if cell is None else _text(cell) for cell in cells]
    elif kinds == {float} and not all(cell is None or _is_short_integer(cell) for cell in cells):
        cells = [None if cell is None else float(cell) for cell in cells]
    return import_pyarrow().array(cells)


def _kind(cell: Any) -> type:
    """Return the type of a cell: float for every number, datetime for every date."""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float
    return datetime if isinstance(cell, date) else type(cell)


def _is_short_integer(cell: float) -> bool:
    return isinstance(cell, int) and abs(cell) < 2**63


def _text(cell: Any) -> str:
    """Return a cell as text: whole numbers without a decimal point, dates without a time at midnight."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).removesuffix(" 00:00:00") if isinstance(cell, datetime) else str(cell)


STDIN = "-"  # as a path: standard input
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_ARROW = (".feather", ".arrow")
_EXCEL = (".xlsx", ".xlsm")
_GZIP = b"\x1f\x8b"  # the first bytes of a compressed file
TYPED_SUFFIXES = (".parquet", *_ARROW)
SUFFIXES = (*_TEXT, *TYPED_SUFFIXES, *_EXCEL)
OUTPUT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", *TYPED_SUFFIXES)


def read_table(path: str | Path, *, text: Collection[str] = (), missing: Collection[str] = ()) -> Any:
    """Return a file as a pyarrow table of numbers, text, dates and missing values.

    Parameters
    ----------
    path : str or Path
        A text file (.csv, .tsv, .txt, also with .gz) in UTF-8, with a header, delimited by commas, semicolons or tabs;
        a .parquet, .feather or .arrow file; an Excel file (.xlsx), of which the first sheet is read; or "-" for text
        from the standard input. Empty cells, NA, N/A, NaN, null, None and errors such as #N/A are missing values,
        unless they are quoted.
    text : collection of str
        Columns of a text or Excel file to read as text, by name or position. The type of every other column is
        inferred from all of its cells; numbers such as $1,234.50 or 45% are recognized, with a warning.
    missing : collection of str
        Further texts that mean a missing value.
    """
    path = Path(path)
    file = file_name(path)
    if str(path) != STDIN:
        check_suffix(path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
    try:
        with nullcontext() if str(path) == STDIN else unchanged(path):
            return _table(path, file, text, missing)
    except (import_pyarrow().ArrowInvalid, csv.Error, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"{file} cannot be read as a table: {' '.join(str(error).split())}") from None  # one line


def file_name(path: Path) -> str:
    """Return the name of a file in messages and results."""
    return "stdin" if str(path) == STDIN else path.name


def table_name(path: Path) -> str:
    """Return the name of the table in a file: that of the file without its suffixes."""
    name, suffix = file_name(path), _suffix(path, SUFFIXES)
    return name[: -len(suffix)] if suffix else Path(name).stem


def write_table(columns: Mapping[str, Any], path: str | Path) -> None:
    """Write columns of equal length to a file, atomically; NaN is written as a missing value.

    Parameters
    ----------
    columns : mapping from str to array
        The columns.
    path : str or Path
        A file that ends in .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .feather or .arrow.
    """
    path = Path(path)
    check_output_suffix(path)
    with atomic_write(path) as file:
        write_columns(columns, file, suffix=_suffix(path, OUTPUT_SUFFIXES))


def write_columns(columns: Mapping[str, Any], file: BinaryIO, *, suffix: str = ".csv") -> None:
    """Write columns of equal length to an open file, in the format of a suffix."""
    arrow = import_pyarrow()
    table = arrow.table({name: arrow.array(values, from_pandas=True) for name, values in columns.items()})
    if suffix == ".parquet":
        import_pyarrow("pyarrow.parquet").write_table(table, file)
    elif suffix in _ARROW:
        import_pyarrow("pyarrow.feather").write_feather(table, file)
    elif suffix.endswith(".gz"):
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
            write_columns(columns, compressed, suffix=suffix.removesuffix(".gz"))  # type: ignore[arg-type]
    else:
        arrow_csv = import_pyarrow("pyarrow.csv")
        delimiter = "\t" if suffix == ".tsv" else ","
        arrow_csv.write_csv(table, file, arrow_csv.WriteOptions(delimiter=delimiter))


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
    rows = row_numbers(table)
    values = numeric_column(column(table, name, context), f"{context}: column {name!r}", rows=rows)
    bad = ~np.isfinite(values)
    if finite and bad.any():
        raise ValueError(
            f"{context}: column {name!r} must hold a finite number in every row; missing or infinite "
            f"values: {bad.sum()} of {len(bad)} {rows.first(bad)}"
        )
    return values


def check_column(table: Any, name: str, context: str) -> None:
    """Raise ValueError unless a table has a column of this name; the message begins with the context."""
    names = table.column_names
    if name not in names:
        hint = similar_name(name, names)
        raise ValueError(f"{context}: no column named {name!r}; {hint}the columns are {first_few(names)}")


def column_named(table: Any, text: str) -> str:
    """Return the name of the column that a text means: its name or, if no column has that name, its position.

    Positions count from 1, as in the file. A text that is neither is returned unchanged.
    """
    return name_in(columns_of_file(table), text)


def check_suffix(path: Path) -> None:
    """Raise ValueError unless the suffix of a file is that of a table."""
    if _suffix(path, SUFFIXES):
        return
    if path.suffix.lower() == ".xls":
        raise ValueError(f"{path.name} must be an Excel file of the current format; save it as .xlsx")
    raise ValueError(f"a table is a file that ends in {_join(SUFFIXES)}; got {path.name!r}")


def check_output_suffix(path: Path) -> None:
    """Raise ValueError unless a table can be written in the format of a file's suffix."""
    if not _suffix(path, OUTPUT_SUFFIXES):
        raise ValueError(f"a table can be written to a file that ends in {_join(OUTPUT_SUFFIXES)}; got {path.name!r}")


def _suffix(path: Path, suffixes: Collection[str]) -> str:
    """Return which of the suffixes a file has, in lower case; an empty text if it has none of them."""
    return max((each for each in suffixes if path.name.lower().endswith(each)), key=len, default="")


def _join(suffixes: Sequence[str]) -> str:
    return f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"


def _table(path: Path, file: str, text: Collection[str], missing: Collection[str]) -> Any:
    """Return the table in a file, by the format of its suffix."""
    suffix = _suffix(path, SUFFIXES)
    if suffix in _EXCEL:
        return excel_table(path.read_bytes(), file, text=text, missing=missing)
    if suffix in TYPED_SUFFIXES:
        return _typed_table(path, file, missing)
    content = sys.stdin.buffer.read() if str(path) == STDIN else path.read_bytes()
    content = gzip.decompress(content) if content.startswith(_GZIP) else content
    return text_table(content, file, text=text, missing=missing)


def _typed_table(path: Path, file: str, missing: Collection[str]) -> Any:
    """Return a Parquet or Feather file as a table."""
    module = "parquet" if _suffix(path, SUFFIXES) == ".parquet" else "feather"
    table = import_pyarrow(f"pyarrow.{module}").read_table(path)
    if not table.num_rows:
        raise ValueError(f"{file} must have rows; got none")
    return plain_table(table, unique_names(table.column_names, file), missing)


def plain_table(table: Any, names: Sequence[str], missing: Collection[str]) -> Any:
    """Return a pyarrow table with other names of its columns, plain text, and texts that mean a missing value."""
    columns = [_plain_text(values) for values in table.columns]
    return without_missing(import_pyarrow().table(columns, names=names), missing)


def _plain_text(values: Any) -> Any:
    """Return a column of categories or of text in the format of polars as plain text; any other column unchanged."""
    kind = str(values.type)
    if kind.startswith("dictionary<values=string_view"):  # pyarrow cannot cast it
        return import_pyarrow().chunked_array([values.to_pylist()], type="string")
    is_other_text = kind.startswith(("string_view", "dictionary<values=string", "dictionary<values=large_string"))
    return values.cast("string") if is_other_text else values
