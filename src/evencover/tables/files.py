"""Tables in files, by format: one reader for all of them."""

import csv
import gzip
import sys
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from evencover.display.lines import one_line
from evencover.files.archive import atomic_write
from evencover.files.sizes import ContentTooLargeError, check_content, read_content
from evencover.groups import first_few
from evencover.inputs.arrays import FloatArray, similar_name
from evencover.inputs.frames import check_column_not_rounded, column, numeric_column, row_numbers
from evencover.tables.excel_files import excel_table, write_workbook
from evencover.tables.spreadsheets import without_formulas
from evencover.tables.table_format import ANY_FORMAT, FileKind, TableFormat
from evencover.tables.text_files import (
    check_names,
    columns_of_file,
    import_pyarrow,
    name_in,
    text_table,
    unique_names,
    without_missing,
)
from evencover.tables.typed_files import feather_table, parquet_table
from evencover.tables.unchanged import unchanged

STDIN = "-"  # as a path: standard input
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_ARROW = (".feather", ".arrow")
_EXCEL = (".xlsx", ".xlsm")
_GZIP = b"\x1f\x8b"  # the first bytes of a compressed file
_ERRORS_OF_DAMAGED_FILES = (csv.Error, zlib.error, EOFError, OSError, MemoryError)
TYPED_SUFFIXES = (".parquet", *_ARROW)
SUFFIXES = (*_TEXT, *TYPED_SUFFIXES, *_EXCEL)
OUTPUT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", *TYPED_SUFFIXES, ".xlsx")


def read_table(
    path: str | Path,
    *,
    text: Collection[str] = (),
    missing: Collection[str] = (),
    file_format: TableFormat = ANY_FORMAT,
) -> Any:
    """Return a file as a pyarrow table of numbers, text, dates and missing values.

    Parameters
    ----------
    path : str or Path
        A text file (.csv, .tsv, .txt, also with .gz) with a header, delimited by commas, semicolons, tabs or vertical
        bars; a .parquet, .feather or .arrow file; an Excel file (.xlsx), of which the first sheet is read; or "-" for
        text from the standard input. Empty cells, NA, N/A, NaN, null, None and errors such as #N/A are missing values,
        unless they are quoted.
    text : collection of str
        Columns of a text or Excel file to read as text, by name or position. The type of every other column is
        inferred from all of its cells; numbers such as $1,234.50 or 45% are recognized, with a warning.
    missing : collection of str
        Further texts that mean a missing value.
    file_format : TableFormat
        Sheet, separator, encoding and header, as far as they shall not be recognised.
    """
    path = Path(path)
    file = file_name(path)
    if str(path) != STDIN:
        check_suffix(path)
    file_format.check_applies(file_kind(path), file)
    if str(path) != STDIN and not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with nullcontext() if str(path) == STDIN else unchanged(path):
            return _table(path, file, text, missing, file_format)
    except ContentTooLargeError as error:
        raise ValueError(f"{file}: {error}") from None
    except (import_pyarrow().ArrowException, UnicodeDecodeError, *_ERRORS_OF_DAMAGED_FILES) as error:
        reason = one_line(error) or "there is not enough memory"  # one line
        raise ValueError(f"{file} cannot be read as a table: {reason}") from None


def file_kind(path: str | Path) -> FileKind:
    """Return the kind of a file, by its suffix; the standard input and a file with any other suffix are text."""
    suffix = _suffix(Path(path), SUFFIXES)
    return (
        "Excel" if suffix in _EXCEL else "Parquet" if suffix == ".parquet" else "Arrow" if suffix in _ARROW else "text"
    )


def file_name(path: Path) -> str:
    """Return the name of a file in messages and results."""
    return "stdin" if str(path) == STDIN else path.name


def table_name(path: Path) -> str:
    """Return the name of the table in a file: that of the file without its suffixes."""
    name, suffix = file_name(path), _suffix(path, SUFFIXES)
    return name[: -len(suffix)] if suffix else Path(name).stem


def write_table(columns: Mapping[str, Any], path: str | Path, *, exact_text: bool = False) -> None:
    """Write columns of equal length to a file, atomically; NaN is written as a missing value.

    Parameters
    ----------
    columns : mapping from str to array
        The columns.
    path : str or Path
        A file that ends in .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .feather, .arrow or .xlsx.
    exact_text : bool
        Whether .csv and .tsv files hold text as it is; otherwise formulas get a quote (see `without_formulas`).
    """
    path = Path(path)
    check_output_suffix(path)
    with atomic_write(path) as file:
        write_columns(columns, file, suffix=_suffix(path, OUTPUT_SUFFIXES), exact_text=exact_text)


def write_columns(
    columns: Mapping[str, Any], file: BinaryIO, *, suffix: str = ".csv", exact_text: bool = False
) -> None:
    """Write columns of equal length to an open file, in the format of a suffix."""
    arrow = import_pyarrow()
    table = arrow.table({name: arrow.array(values, from_pandas=True) for name, values in columns.items()})
    if suffix == ".parquet":
        import_pyarrow("pyarrow.parquet").write_table(table, file)
    elif suffix in _ARROW:
        import_pyarrow("pyarrow.feather").write_feather(table, file)
    elif suffix == ".xlsx":
        write_workbook(table, file)
    elif suffix.endswith(".gz"):
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
            plain: BinaryIO = compressed  # type: ignore[assignment]
            write_columns(columns, plain, suffix=suffix.removesuffix(".gz"), exact_text=exact_text)
    else:
        arrow_csv = import_pyarrow("pyarrow.csv")
        delimiter = "\t" if suffix == ".tsv" else ","
        written = table if exact_text else without_formulas(table, delimiter)
        arrow_csv.write_csv(written, file, arrow_csv.WriteOptions(delimiter=delimiter))


def csv_text(columns: list[str], values: FloatArray) -> str:
    """Return a table as CSV text that preserves every number exactly; integer columns are written without decimals."""
    integer_columns = (values == np.round(values)).all(axis=0)
    texts = [
        [str(int(value)) if is_integer else repr(value) for value in column.tolist()]
        for column, is_integer in zip(values.T, integer_columns, strict=True)
    ]
    lines = [columns, *zip(*texts, strict=True)]
    return "".join(",".join(line) + "\n" for line in lines)


def number_column(table: Any, name: str, context: str, *, finite: bool = True, exact: bool = True) -> FloatArray:
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
    exact : bool
        Whether a whole number that is too large for floating point is an error.
    """
    check_column(table, name, context)
    rows = row_numbers(table)
    values = numeric_column(column(table, name, context), f"{context}: column {name!r}", rows=rows)
    if exact:
        check_column_not_rounded(table, name, values, f"{context}: column {name!r}", rows=rows)
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


def _table(path: Path, file: str, text: Collection[str], missing: Collection[str], file_format: TableFormat) -> Any:
    """Return the table in a file, by its kind."""
    kind = file_kind(path)
    if kind in ("Parquet", "Arrow"):
        return _typed_table(path, file, missing)
    content = _content(path)
    if kind == "Excel":
        return excel_table(content, file, text=text, missing=missing, file_format=file_format)
    if content.startswith(_GZIP):
        with gzip.GzipFile(fileobj=BytesIO(content)) as unpacked:
            content = read_content(unpacked, len(content))
    return text_table(content, file, text=text, missing=missing, file_format=file_format)


def _content(path: Path) -> bytes:
    """Return the bytes of a file, or of the standard input."""
    if str(path) == STDIN:
        return read_content(sys.stdin.buffer)
    check_content(path.stat().st_size)
    return path.read_bytes()


def _typed_table(path: Path, file: str, missing: Collection[str]) -> Any:
    """Return a Parquet or Feather file as a table."""
    table = feather_table(path) if file_kind(path) == "Arrow" else parquet_table(path)
    if not table.num_rows:
        raise ValueError(f"{file} must have rows; got none")
    check_names(table.column_names, file)
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
