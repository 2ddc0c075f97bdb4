"""Excel files: the cells of the first sheet as a table."""

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
from zipfile import ZipFile

from evencover.display.lines import one_line
from evencover.files.sizes import WORKBOOK, ContentTooLargeError, check_content
from evencover.inputs.arrays import warn_user
from evencover.inputs.frames import with_row_numbers
from evencover.inputs.optional import import_optional
from evencover.tables.text_files import (
    MISSING,
    import_pyarrow,
    name_in,
    unique_names,
    used_columns,
    with_numbers,
    without_missing,
)

_MAX_ROWS, _MAX_COLUMNS = 2**20, 2**14  # of the format
_CELL = 8  # bytes of an empty cell
_CHUNK = 2**16
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
    check_content(_CELL * width * len(records), len(content), WORKBOOK)
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
            _check_parts(content)
            workbook = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True)
            sheet = workbook.worksheets[0]
            sheet.reset_dimensions()  # some programs write wrong ones
            rows, has_empty = [], False
            for row in _checked_rows(sheet, len(content)):
                cells = [_cell(value) for value in row]
                has_empty = has_empty or None in cells
                rows.append(_without_end(cells))
            empty = _formulas_without_value(content) if has_empty else []
    except ContentTooLargeError:
        raise
    except Exception as error:  # openpyxl may raise anything for a file of another kind
        raise ValueError(f"{file} cannot be read as an Excel file: {one_line(error)}") from None
    if len(workbook.worksheets) > 1:
        warn_user(f"{file} has {len(workbook.worksheets)} sheets; the first one, {sheet.title!r}, was read")
    if empty:
        warn_user(
            f"{file}: formulas without a stored value: {len(empty)}, the first in cell {empty[0]}; they were read as "
            "missing values; open the file in a spreadsheet program and save it"
        )
    return sheet.title, rows


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
