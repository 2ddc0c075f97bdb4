"""Read delimited text, such as CSV: header, delimiter, types of columns, and errors with line numbers."""

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from evencover._internal.arrays import reads_as_number, warn_user
from evencover._internal.frames import with_row_numbers
from evencover.datasets._column_names import name_in, unique_names, used_columns
from evencover.datasets._number_texts import Comma
from evencover.datasets._table_cells import MISSING, import_pyarrow, with_numbers, without_missing

_DELIMITERS = ",;\t"
_COMMAS: Mapping[str, Comma] = {";": "decimal", "\t": "either"}  # what a comma in a number means, by delimiter
_MAX_BLOCK = 2**31 - 1  # bytes that pyarrow can parse at once
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_STRAY_RETURN = re.compile(rb"\r(?!\n)")  # pandas writes them without quotes
_POINT_OR_THOUSANDS = re.compile(r"[+-]?(0|[1-9]\d{0,2}(\.\d{3})?)")
_BLANK_LINES = (b"\n\n", b"\n\r\n", b"\r\r")


@dataclass(frozen=True)
class _Header:
    """The names in the first line with text, the delimiter, and the position of the next line."""

    names: list[str]
    delimiter: str
    end: int


def text_table(content: bytes, file: str, *, text: Collection[str] = (), missing: Collection[str] = ()) -> Any:
    """Return delimited text as a pyarrow table; the type of a column is inferred from all of its cells.

    Parameters
    ----------
    content : bytes
        The text, in UTF-8, or in UTF-16 with a byte order mark.
    file : str
        The name of the file, for messages.
    text : collection of str
        Columns to read as text, by name or position.
    missing : collection of str
        Cells that are missing values, in addition to the usual ones.
    """
    try:
        content = _utf8(content)
        header = _header(content, file)
        cells = next(filter(None, _records(content, header.delimiter, start=header.end)), None)
        if cells is None:
            raise ValueError(f"{file} must have rows below its header; got none")
        if len(cells) == len(header.names) + 1:
            header = _longer_header(header, content, file)
        names = unique_names(header.names, file)
        texts = {name_in(names, each) for each in text} & set(names)
        table = _parsed(content, header, names, texts, missing)
    except UnicodeDecodeError:
        raise _not_utf8(file) from None
    except import_pyarrow().ArrowInvalid:
        if b"\n" in content and (stray := len(_STRAY_RETURN.findall(content))):
            warn_user(f"{file}: carriage returns inside cells: {stray}; they were read as spaces")
            return text_table(_STRAY_RETURN.sub(b" ", content), file, text=text, missing=missing)
        _check_lines(content, header, file)
        raise
    _check_encoding(table, file)
    if header.delimiter == ";":
        _warn_of_thousands_points(table, content, header, missing, file)
    columns = zip(header.names, table.columns, strict=True)
    used = [bool(title.strip()) or values.null_count < len(values) for title, values in columns]
    table = without_missing(used_columns(table, used), missing)
    table = with_numbers(table, file, text=texts, comma=_COMMAS.get(header.delimiter, "thousands"))
    return with_row_numbers(table, _blank_rows(content, header) if len(names) > 1 else ())


def _utf8(content: bytes) -> bytes:
    """Return text in UTF-8 without a byte order mark."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16").encode()
    return content.removeprefix(codecs.BOM_UTF8)


def _header(content: bytes, file: str) -> _Header:
    """Return the header: the first line that is not blank. Its delimiter is the one that gives the most names."""
    ends = []

    def lines() -> Iterator[str]:
        for match in _LINE.finditer(content):
            ends.append(match.end())
            yield match[0].decode()

    text = lines()
    first = next((line for line in text if line.strip()), None)
    if first is None:
        raise ValueError(f"{file} must have a header and rows; the file is empty")
    second = _LINE.match(content, ends[-1])
    delimiter = _delimiter(first, "" if second is None else second[0].decode())
    names = next(csv.reader(chain([first], text), delimiter=delimiter))  # a quoted name may contain line breaks
    return _Header(names, delimiter, ends[-1])


def _delimiter(first: str, second: str) -> str:
    """Return the delimiter that gives the most names in the first line.

    It is a space if the others give only one name, and a space divides the second line into as many cells, or one more.
    """
    names = {mark: len(next(csv.reader([first], delimiter=mark))) for mark in (*_DELIMITERS, " ")}
    best = max(_DELIMITERS, key=names.__getitem__)
    cells = len(next(csv.reader([second], delimiter=" "), []))
    spaced = names[best] == 1 < names[" "] and names[" "] <= cells <= names[" "] + 1
    return " " if spaced else best


def _parsed(
    content: bytes,
    header: _Header,
    names: list[str],
    texts: Collection[str],
    missing: Collection[str],
    only: Sequence[str] | None = None,
) -> Any:
    """Return the rows below the header as a table with these column names, or only with some of them."""
    arrow = import_pyarrow("pyarrow")
    arrow_csv = import_pyarrow("pyarrow.csv")
    return arrow_csv.read_csv(
        arrow.BufferReader(arrow.py_buffer(content).slice(header.end)),
        read_options=arrow_csv.ReadOptions(column_names=names, block_size=min(max(len(content), 2**20), _MAX_BLOCK)),
        parse_options=arrow_csv.ParseOptions(
            delimiter=header.delimiter,
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,  # in a file with one column, an empty line is a missing value
        ),
        convert_options=arrow_csv.ConvertOptions(
            null_values=[*MISSING, *missing],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            column_types=dict.fromkeys(texts, "string"),
            include_columns=only,
        ),
    )


def _records(content: bytes, delimiter: str, *, start: int = 0) -> Any:
    """Return a reader of the cells of each row from a position on; a blank line has no cells."""
    stream = io.BytesIO(content)
    stream.seek(start)
    return csv.reader(io.TextIOWrapper(stream, encoding="utf-8", newline=""), delimiter=delimiter)


def _check_lines(content: bytes, header: _Header, file: str) -> None:
    """Raise ValueError for the first line with more or fewer cells than columns."""
    lines = _records(content, header.delimiter)
    next(filter(None, lines))
    for cells in filter(None, lines):
        if len(cells) != len(header.names):
            raise ValueError(
                f"{file}, line {lines.line_num}: must have {len(header.names)} cells, one for each column; "
                f"got {len(cells)}"
            )


def _check_encoding(table: Any, file: str) -> None:
    """Raise ValueError if a column is not text in UTF-8."""
    binary = [field.name for field in table.schema if field.type == "binary"]
    if binary:
        raise _not_utf8(file, f"column {binary[0]!r} is not; ")


def _not_utf8(file: str, what: str = "") -> ValueError:
    """Return the error for text in another encoding, such as Latin-1."""
    return ValueError(
        f"{file} must be text in UTF-8; {what}save it as UTF-8 (in Excel: CSV UTF-8), or convert it, such as by "
        f"iconv -f latin1 -t utf-8 {file} > new.csv"
    )


def _longer_header(header: _Header, content: bytes, file: str) -> _Header:
    """Return the header of rows that have one cell more than it has names.

    If the last cells are all empty, each row ends with a delimiter. Otherwise the first cells are row names, as R
    writes them, if all of them differ and none is a number with decimals. If both are possible, raise ValueError.
    """
    records = filter(None, _records(content, header.delimiter, start=header.end))
    first, last, widths = zip(*((cells[0], cells[-1], len(cells)) for cells in records), strict=True)
    if set(widths) != {len(header.names) + 1}:
        return header
    are_names = len(set(first)) == len(first) and all(map(_is_row_name, first))
    if any(cell.strip() for cell in last):
        return replace(header, names=["", *header.names]) if are_names else header
    if are_names and not any(cell.startswith("0") for cell in first):  # R numbers rows from 1, without leading zeros
        raise ValueError(
            f"{file} must have a column name for each cell; got rows with one more, in which the first cells, such as "
            f"{first[0]!r}, may be row names and the last ones are empty; if they are row names, write "
            f"{header.delimiter!r} at the beginning of the first line, otherwise at its end"
        )
    return replace(header, names=[*header.names, ""])


def _is_row_name(cell: str) -> bool:
    """Return whether a cell is a text or a whole number."""
    return not reads_as_number(cell) or ("." not in cell and float(cell).is_integer())


def _warn_of_thousands_points(table: Any, content: bytes, header: _Header, missing: Collection[str], file: str) -> None:
    """Warn if the points in all numbers may separate thousands: three digits follow each of them."""
    names = [name for name, values in zip(table.column_names, table.columns, strict=True) if values.type == "double"]
    if not names or any(_shows_decimals(table[name]) for name in names):
        return
    texts = _parsed(content, header, table.column_names, names, missing, only=names)
    cells = {name: [cell.strip() for cell in texts[name].unique().to_pylist() if cell is not None] for name in names}
    if all(_POINT_OR_THOUSANDS.fullmatch(cell) for each in cells.values() for cell in each):
        name, example = next((name, cell) for name, each in cells.items() for cell in each if "." in cell)
        warn_user(
            f"{file}: in column {name!r}, {example!r} is read as {float(example):g}; if its point separates thousands, "
            "remove the points from the file"
        )


def _shows_decimals(values: Any) -> bool:
    """Return whether some number cannot be a whole number below a million with a point before its last three digits."""
    numbers = np.abs(values.drop_null().to_numpy())
    thousandths = np.round(numbers * 1000)
    return bool(np.any((numbers >= 1000) | (thousandths / 1000 != numbers) | ((numbers < 1) & (numbers > 0))))


def _blank_rows(content: bytes, header: _Header) -> list[int]:
    """Return the numbers of the blank rows, counted from 1; a cell with line breaks is part of one row."""
    if not content.startswith((b"\n", b"\r")) and not any(mark in content for mark in _BLANK_LINES):
        return []
    return [number for number, cells in enumerate(_records(content, header.delimiter), start=1) if not cells]
