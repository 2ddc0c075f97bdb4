"""Excel files: the cells of a sheet as a table, and a table as a sheet."""

import math
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from io import BytesIO
from itertools import chain
from typing import IO, Any
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from evencover.display.lines import one_line
from evencover.files.sizes import WORKBOOK, ContentTooLargeError, check_content
from evencover.groups import first_few
from evencover.inputs.arrays import warn_user
from evencover.inputs.frames import with_row_numbers
from evencover.inputs.optional import import_optional
from evencover.tables.table_format import (
    ANY_FORMAT,
    MISSING,
    TableFormat,
    header_position,
    setting_text,
    warn_of_second_header,
    warn_of_titles,
)
from evencover.tables.text_files import (
    check_names,
    import_pyarrow,
    name_in,
    unique_names,
    used_columns,
    with_numbers,
    without_missing,
)

_MAX_ROWS, _MAX_COLUMNS = 2**20, 2**14  # of the format
_HEAD_ROWS = 100  # that show where the header is
_CELL = 8  # bytes of an empty cell
_CHUNK = 2**16
_FORMULA = re.compile(rb"<f[ />]")


def excel_table(
    content: bytes,
    file: str,
    *,
    text: Collection[str] = (),
    missing: Collection[str] = (),
    file_format: TableFormat = ANY_FORMAT,
) -> Any:
    """Return a sheet of an Excel file as a pyarrow table; blank rows and columns are skipped.

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
    file_format : TableFormat
        Sheet and header, if the user names them.
    """
    sheet, rows = _sheet(content, file, file_format.sheet)
    filled = [number for number, row in enumerate(rows, start=1) if any(cell is not None for cell in row)]
    if not filled:
        raise ValueError(f"{file} must have a header and rows; its {sheet} is empty")
    first = _header_row(rows, filled, file, file_format.header_row)
    below = [number for number in filled if number > first]
    if not below:
        raise ValueError(f"{file} must have rows below its header; its {sheet} has none")
    header, *records = [rows[number - 1] if number else [] for number in (first, *below)]
    width = max(map(len, [header, *records]))
    check_content(_CELL * width * len(records), len(content), WORKBOOK)
    columns = list(zip(*(_padded(row, width) for row in records), strict=True))
    titles = _texts(header, width)
    if file_format.header_row is None:
        check_names(titles, file, [_texts(row, width) for row in records[:_HEAD_ROWS]])
    names = unique_names(titles, file)
    texts = {name_in(names, each) for each in text}
    arrays = [_array(cells, as_text=name in texts) for cells, name in zip(columns, names, strict=True)]
    used = [bool(titles[place]) or any(cell is not None for cell in columns[place]) for place in range(width)]
    table = without_missing(used_columns(import_pyarrow().table(arrays, names=names), used), missing)
    others = sorted(set(range(1, filled[-1] + 1)) - {first, *below})
    return with_row_numbers(with_numbers(table, file, text=texts), others, has_header=first > 0)


def _header_row(rows: Sequence[Sequence[Any]], filled: Sequence[int], file: str, given: int | None) -> int:
    """Return the number of the row with the names, counted from 1; 0 if the user says that there is none."""
    if given == 0:
        return 0
    if given is not None:
        if given not in filled:
            found = f"it has {len(rows)} rows" if given > len(rows) else "this row is blank"
            raise ValueError(f"header must be the row of {file} with the column names; got {given}, but {found}")
        return given
    head = [rows[number - 1] for number in filled[:_HEAD_ROWS]]
    width = max(map(len, head))
    texts = [_texts(row, width) for row in head]
    place = header_position(texts)
    if place:
        warn_of_titles(file, filled[place], filled[0], next(filter(None, texts[0])))
    warn_of_second_header(texts[place:], file, filled[place:])
    return filled[place]


def _texts(row: Sequence[Any], width: int) -> list[str]:
    """Return the cells of a row as texts, missing ones as empty texts."""
    return ["" if cell is None else _text(cell).strip() for cell in _padded(row, width)]


def _sheet(content: bytes, file: str, wanted: str | int | None) -> tuple[str, list[list[Any]]]:
    """Return what messages call a sheet, and its rows of cells, missing ones as None."""
    openpyxl = import_optional("openpyxl", extra="datasets", purpose="an Excel file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of styles and of checks of cells, which are not read
            _check_parts(content)
            workbook = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True)
            place = _place_of_sheet([sheet.title for sheet in workbook.worksheets], wanted, file)
            sheet = workbook.worksheets[place]
            sheet.reset_dimensions()  # some programs write wrong ones
            rows, has_empty = [], False
            for row in _checked_rows(sheet, len(content)):
                cells = [_cell(value) for value in row]
                has_empty = has_empty or None in cells
                rows.append(_without_end(cells))
            empty = _formulas_without_value(content, place) if has_empty else []
    except (ContentTooLargeError, UnknownSheetError):
        raise
    except Exception as error:  # openpyxl may raise anything for a file of another kind
        raise ValueError(f"{file} cannot be read as an Excel file: {one_line(error)}") from None
    if len(workbook.worksheets) > 1 and wanted is None:
        warn_user(
            f"{file} has {len(workbook.worksheets)} sheets; the first one, {sheet.title!r}, was read. To read another "
            f"one, use {setting_text('sheet', workbook.worksheets[1].title)}"
        )
    if empty:
        warn_user(
            f"{file}: formulas without a stored value: {len(empty)}, the first in cell {empty[0]}; they were read as "
            "missing values; open the file in a spreadsheet program and save it"
        )
    return f"{'first ' * (wanted is None)}sheet, {sheet.title!r},", rows


class UnknownSheetError(ValueError):
    """A workbook does not have the sheet that the user names."""


def _place_of_sheet(titles: Sequence[str], wanted: str | int | None, file: str) -> int:
    """Return the position, from 0, of the sheet that the user names, by its name or its position from 1."""
    if wanted is None:
        return 0
    if wanted in titles:
        return titles.index(str(wanted))
    position = int(wanted) if re.fullmatch("[0-9]{1,6}", str(wanted)) else 0
    if not 0 < position <= len(titles):
        raise UnknownSheetError(f"sheet must be one of the sheets of {file}, {first_few(titles)}; got {wanted!r}")
    return position - 1


def _check_parts(content: bytes) -> None:
    """Raise ContentTooLargeError if the parts of a workbook are too large, ValueError if one defines entities.

    An entity can stand for much text, and may consist of others. No program writes them into a workbook.
    """
    with ZipFile(BytesIO(content)) as parts:
        check_content(sum(part.file_size for part in parts.infolist()), len(content), WORKBOOK)
        for name in parts.namelist():
            with parts.open(name) as part:
                _check_beginning(part)


def _check_beginning(part: IO[bytes]) -> None:
    """Raise ValueError if XML has a document type, which comes before its first element."""
    elements: list[bool] = []
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler = lambda *_: elements.append(True)
    with suppress(expat.ExpatError):  # a picture, or what openpyxl finds an error in
        while not elements and (chunk := part.read(_CHUNK)):
            parser.Parse(chunk)


def _refuse_document_type(name: str, *_: Any) -> None:
    raise ValueError(f"it defines entities, in a document type {name!r}")


def _checked_rows(sheet: Any, packed: int) -> Iterator[Sequence[Any]]:
    """Yield the rows of values; raise for more than a workbook can have.

    A row or a cell far away stands for all that are empty before it, which openpyxl creates.
    """
    size = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        if number > _MAX_ROWS or len(row) > _MAX_COLUMNS:
            raise ValueError(f"a sheet has at most {_MAX_ROWS} rows and {_MAX_COLUMNS} columns; got a cell beyond")
        if row:
            size += _CELL * len(row)
            check_content(size, packed, WORKBOOK)
        yield row


def _without_end(cells: list[Any]) -> list[Any]:
    """Return the cells of a row without the missing ones at its end."""
    while cells and cells[-1] is None:
        del cells[-1]
    return cells


def _formulas_without_value(content: bytes, place: int) -> list[str]:
    """Return the cells of a sheet that hold a formula without its value, as other programs write it."""
    with ZipFile(BytesIO(content)) as parts:
        sheets = [name for name in parts.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
        if not any(_FORMULA.search(parts.read(name)) for name in sheets):
            return []
    cells = zip(_cells(content, place, data_only=False), _cells(content, place, data_only=True), strict=True)
    return [
        formula.coordinate
        for formula, value in cells
        if formula.data_type == "f" and value.value is None and value.data_type != "str"  # an empty text is a value
    ]


def _cells(content: bytes, place: int, *, data_only: bool) -> Iterator[Any]:
    """Return the cells of a sheet, with values or with formulas."""
    openpyxl = import_optional("openpyxl", extra="datasets", purpose="an Excel file")
    sheet = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=data_only).worksheets[place]
    sheet.reset_dimensions()
    return chain.from_iterable(sheet.iter_rows())


def _cell(value: Any) -> Any:
    """Return the value of a cell; None if it is missing."""
    if not isinstance(value, str):
        return value
    text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value) if "_x" in value else value
    return None if text in MISSING or not text.strip() else text


def _padded(row: Sequence[Any], width: int) -> list[Any]:
    return [*row, *[None] * (width - len(row))]


def _array(cells: Sequence[Any], *, as_text: bool) -> Any:
    """Return a column as a pyarrow array; cells of several kinds become text."""
    kinds = {_kind(cell) for cell in cells if cell is not None}
    if as_text or len(kinds) > 1:
        cells = [None if cell is None else _text(cell) for cell in cells]
    elif kinds == {float} and not all(cell is None or _is_short_integer(cell) for cell in cells):
        cells = [None if cell is None else _number(cell) for cell in cells]
    return import_pyarrow().array(cells)


def _kind(cell: Any) -> type:
    """Return the type of a cell: float for every number, datetime for every date."""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float
    return datetime if isinstance(cell, date) else type(cell)


def _number(cell: float) -> float:
    """Return a number; one that is too large for a float is infinite, as in text files."""
    try:
        return float(cell)
    except OverflowError:
        return math.copysign(math.inf, 1 if cell > 0 else -1)


def _is_short_integer(cell: float) -> bool:
    return isinstance(cell, int) and abs(cell) < 2**63


def _text(cell: Any) -> str:
    """Return a cell as text: whole numbers without a decimal point, dates without a time at midnight."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).removesuffix(" 00:00:00") if isinstance(cell, datetime) else str(cell)


_MAX_TEXT = 32_767  # characters of a cell, counted as UTF-16
_MAX_SHOWN = 10**15  # whole numbers below it have a short form
_ESCAPED = re.compile("_x((?![Dd][89A-Fa-f])[0-9A-Fa-f]{4})_")  # how the format writes a character that XML cannot hold
_TO_ESCAPE = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_FIRST_DATE = date(1900, 3, 1)  # Excel takes 1900 for a leap year
_PROPERTIES, _TIME = "docProps/core.xml", re.compile(rb"\d{4}-\d\d-\d\dT[\d:]+Z")
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def write_workbook(table: Any, file: IO[bytes]) -> None:
    """Write a pyarrow table to an open Excel file; the same table gives the same bytes.

    Numbers are exact, dates are dates and missing values are empty cells. Text stays text, also if it begins with =.
    Infinite numbers, and columns with dates that the format lacks, are text. Raise ValueError for what it cannot hold.

    Parameters
    ----------
    table : pyarrow.Table
        The columns.
    file : binary file
        The file.
    """
    openpyxl = import_optional("openpyxl", extra="datasets", purpose="an Excel file")
    if table.num_rows >= _MAX_ROWS or table.num_columns > _MAX_COLUMNS:
        raise ValueError(
            f"an Excel file holds at most {_MAX_ROWS - 1} rows below a header, and {_MAX_COLUMNS} columns; got "
            f"{table.num_rows} rows and {table.num_columns} columns: write .csv or .parquet"
        )
    workbook = openpyxl.Workbook(write_only=True)
    sheet = workbook.create_sheet()
    columns = [_writable(values, name) for name, values in zip(table.column_names, table.columns, strict=True)]
    names = [_checked_text(name, f"the column name {name!r:.40}") for name in table.column_names]
    for row in chain([names], zip(*columns, strict=True)):
        sheet.append([_written_cell(value, sheet, openpyxl) for value in row])
    workbook.save(content := BytesIO())
    _copy_without_times(content, file)


def _copy_without_times(content: BytesIO, file: IO[bytes]) -> None:
    """Copy a workbook without the time at which it was written."""
    with ZipFile(content) as parts, ZipFile(file, "w", ZIP_DEFLATED) as copied:
        for name in parts.namelist():
            part = parts.read(name)
            info = ZipInfo(name, date_time=_NO_TIME)
            info.compress_type = ZIP_DEFLATED
            copied.writestr(info, _TIME.sub(b"1980-01-01T00:00:00Z", part) if name == _PROPERTIES else part)


def _writable(values: Any, name: str) -> list[Any]:
    """Return a column as values that a cell can hold: numbers, truth values, dates, texts, and None if missing."""
    types = import_pyarrow().types
    if types.is_nested(values.type):
        raise ValueError(f"an Excel file cannot hold the lists in the column {name!r}: write .parquet")
    cells = values.to_pylist()
    if types.is_timestamp(values.type) or types.is_date(values.type):
        return cells if all(map(_is_writable_date, cells)) else [None if cell is None else str(cell) for cell in cells]
    where = f"the column {name!r:.40}"
    return [cell if cell is None or isinstance(cell, int | float) else _checked_text(cell, where) for cell in cells]


def _is_writable_date(cell: Any) -> bool:
    """Return whether a cell can hold a date exactly: from 1900-03-01 on, to the millisecond, without a time zone."""
    if not isinstance(cell, datetime):
        return cell is None or cell >= _FIRST_DATE
    is_exact = cell.microsecond % 1000 == 0 and not getattr(cell, "nanosecond", 0)
    return cell.tzinfo is None and cell.date() >= _FIRST_DATE and is_exact


def _checked_text(value: Any, where: str) -> str:
    """Return a value as text; raise ValueError if a cell cannot hold it."""
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    text = _TO_ESCAPE.sub(lambda match: f"_x{ord(match[0]):04X}_", text)
    if len(text.encode("utf-16-le")) > 2 * _MAX_TEXT:
        raise ValueError(
            f"a cell of an Excel file holds at most {_MAX_TEXT} characters; got more in {where}: write .csv or .parquet"
        )
    return text


def _written_cell(value: Any, sheet: Any, openpyxl: Any) -> Any:
    """Return what openpyxl writes as this value; of a cell, the type says what it is."""
    if isinstance(value, float) and math.isnan(value):
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isinf(value)
    if not isinstance(value, str | float) and not (is_number and abs(value) >= _MAX_SHOWN):
        return value
    cell = openpyxl.cell.WriteOnlyCell(sheet, value=str(value))
    cell.data_type = "n" if is_number else "s"  # a number as text has all of its digits; text with = is no formula
    return cell
