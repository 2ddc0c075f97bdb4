"""CSV and other text files: separators, numbers, missing values and column names in text."""

import csv
import io
import json
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from threading import Lock
from typing import Any, Literal, TypeAlias

import numpy as np

from evencover.files.sizes import check_content
from evencover.groups import first_few
from evencover.inputs.arrays import reads_as_number, warn_user
from evencover.inputs.frames import with_row_numbers
from evencover.inputs.number_texts import CURRENCIES
from evencover.inputs.optional import import_optional
from evencover.tables.table_format import (
    ANY_FORMAT,
    MISSING,
    TableFormat,
    header_position,
    is_row_of_data,
    setting_text,
    utf8_text,
    warn_of_second_header,
    warn_of_titles,
)

_COLUMNS = b"evencover.columns"  # in the metadata of a pyarrow table: the columns of its file, if there are more


def unique_names(header: Sequence[str], file: str) -> list[str]:
    """Return one name for each column: a nameless one is called by its position, so is the second one of equal names.

    Parameters
    ----------
    header : sequence of str
        The names in the file; empty for a nameless column.
    file : str
        The name of the file, for messages.
    """
    given = [name.strip() for name in header]
    names: dict[str, None] = {}  # in order, and found at once among many
    taken = set(given)
    for position, name in enumerate(given, start=1):
        unique = name or f"column {position}"
        while unique in names or (unique != name and unique in taken):
            unique = f"{unique} (column {position})"
        names[unique] = None
    renamed = [f"{new!r}" for old, new in zip(given, names, strict=True) if old and new != old]
    if renamed:
        warn_user(f"{file} has duplicate column names; their columns are now called {', '.join(renamed)}")
    return list(names)


def name_in(names: Sequence[str], text: str) -> str:
    """Return the name that a text means among these: the text itself or, if no column has that name, its position.

    Positions count from 1. A text that is neither is returned unchanged.
    """
    if text in names or not re.fullmatch("[0-9]{1,6}", text) or not 0 < int(text) <= len(names):
        return text
    return names[int(text) - 1]


def used_columns(table: Any, used: Sequence[bool]) -> Any:
    """Return a pyarrow table without its unused columns; it keeps the names of all columns of its file, for positions.

    Parameters
    ----------
    table : pyarrow.Table
        All columns of a file.
    used : sequence of bool
        Whether the table keeps a column. A column without a name and without values is not used.
    """
    if all(used):
        return table
    names = table.column_names
    kept = table.select([name for name, use in zip(names, used, strict=True) if use])
    return kept.replace_schema_metadata({**(table.schema.metadata or {}), _COLUMNS: json.dumps(names)})


def columns_of_file(table: Any) -> list[str]:
    """Return the names of all columns of the file that a pyarrow table was read from, in the order of the file."""
    names = (table.schema.metadata or {}).get(_COLUMNS)
    return list(table.column_names) if names is None else list(json.loads(names))


def check_names(header: Sequence[str], file: str, rows: Sequence[Sequence[str]] | None = None) -> None:
    """Raise ValueError if what should be the names of columns are numbers, or look like the rows below.

    Parameters
    ----------
    header : sequence of str
        The names in the file; empty for a nameless column.
    file : str
        The name of the file, for messages.
    rows : sequence of sequence of str, optional
        The first rows below them in a text or Excel file, with as many cells (see `is_row_of_data`).
    """
    given = [name.strip() for name in header]
    is_header = any(map(_is_name, given)) or _is_pandas_numbering(given)
    if is_header and not is_row_of_data(given, rows or ()):
        return
    offer = ""
    if rows is not None:
        offer = (
            f". If these are values, because the file has no header, use {setting_text('header', 0)}; if they are "
            "names, use --header with the number of their row"
        )
    raise ValueError(f"{file} must have column names (in CSV, the first line); got {first_few(given)}{offer}")


def _is_name(name: str) -> bool:
    return bool(name) and not reads_as_number(name)


def _is_pandas_numbering(names: Sequence[str]) -> bool:
    """Return whether names are those that pandas writes for an index and columns without names: empty, 0, 1, 2, ..."""
    return len(names) > 1 and list(names) == ["", *map(str, range(len(names) - 1))]


Comma: TypeAlias = Literal["thousands", "decimal", "either"]  # what a comma between digits means

_MISSING = ("", ".")  # in a column of numbers
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<before>[{CURRENCIES}]?)\s?(?P<digits>[+-]?[\d.,]+(e[+-]?\d+)?)\s?(?P<after>[%{CURRENCIES}]?)",
    re.IGNORECASE,
)
_THOUSANDS_SPACE = re.compile("(?<=\\d)[\u00a0\u202f'\u2019](?=\\d{3}(?!\\d))")  # as in 1'234
_EITHER = re.compile(r"\d{1,3},\d{3}")
_COMMA_GROUPS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # 1,234.5
_POINT_GROUPS = re.compile(r"\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}")  # 1.234,5
_DECIMAL_COMMA = re.compile(r"\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class _Reading:
    """A text as a number, the signs around it, and its decimal mark: empty if the text shows none."""

    number: float
    signs: str = ""
    mark: Literal["", "point", "comma", "either"] = ""


def numbers_in_texts(texts: Iterable[str], *, comma: Comma) -> dict[str, float | None] | None:
    """Return the number in each text, None for a missing one; return None if some text is not a number.

    All texts must have the same signs (such as $ or %) and the same decimal mark. Each text has only one reading, so a
    column is read alike in a file with other rows. A percentage is read as its number: 45% as 45. If no text is a
    number, all of them are missing.

    Parameters
    ----------
    texts : iterable of str
        The different texts of a column.
    comma : {"thousands", "decimal", "either"}
        What a comma between digits means, as in 1,234. If it is "either", another text of the column must decide. If
        it is "thousands", 1,5 is still a decimal comma, provided that every text of the column has one.
    """
    readings: dict[str, _Reading | None] = {}
    for text in texts:
        missing = text.strip() in _MISSING
        readings[text] = None if missing else _reading(text, comma)
        if readings[text] is None and not missing:
            return None
    known = [reading for reading in readings.values() if reading is not None]
    marks = {reading.mark for reading in known} - {""}
    if len({reading.signs for reading in known}) > 1 or {"point", "comma"} <= marks or marks == {"either"}:
        return None
    if comma == "thousands" and "comma" in marks and any(not reading.mark for reading in known):
        return None  # 1,5 and 2 may be lists of codes
    if marks == {"either", "comma"}:
        return numbers_in_texts(readings, comma="decimal")
    return {text: None if reading is None else reading.number for text, reading in readings.items()}


def _reading(text: str, comma: Comma) -> _Reading | None:
    """Return the number in a text; None if it is no number."""
    if reads_as_number(text):
        return _Reading(float(text), mark="point" if "." in text else "")
    match = _NUMBER.fullmatch(_THOUSANDS_SPACE.sub("", text.strip().replace("\u2212", "-")))
    if match is None:
        return None
    sign, digits = match["sign"], match["digits"]
    if digits[0] in "+-":
        if sign:
            return None
        sign, digits = digits[0], digits[1:]
    found = _decimal(digits, comma)
    if found is None or not reads_as_number(found[0]):
        return None
    return _Reading(float(sign + found[0]), match["before"] + match["after"], found[1])


def _decimal(digits: str, comma: Comma) -> tuple[str, Literal["", "point", "comma", "either"]] | None:
    """Return a number without sign as Python writes it, and its decimal mark; None if it has another form."""
    if "," not in digits and digits.count(".") < 2:
        return digits, "point" if "." in digits else ""
    if comma != "decimal" and _COMMA_GROUPS.fullmatch(digits):
        return digits.replace(",", ""), "either" if comma == "either" and _EITHER.fullmatch(digits) else "point"
    may_have_points = comma != "thousands" or "," in digits
    if _DECIMAL_COMMA.fullmatch(digits) or (may_have_points and _POINT_GROUPS.fullmatch(digits)):
        return digits.replace(".", "").replace(",", "."), "comma"
    if comma == "decimal" and _COMMA_GROUPS.fullmatch(digits):  # 1,234.5 or 1,234,567
        return digits.replace(",", ""), "point"
    return None


_MAX_EXAMPLES = 3  # columns that a warning names


def import_pyarrow(module: str = "pyarrow") -> Any:
    """Return a module of pyarrow."""
    return import_optional(module, extra="datasets", purpose="a table file")


def is_text(column: Any) -> bool:
    """Return whether a column of a pyarrow table holds text."""
    return str(column.type) in ("string", "large_string")


def without_missing(table: Any, missing: Collection[str]) -> Any:
    """Return a pyarrow table in which the cells with these texts, or with the numbers in them, are missing values."""
    if not missing:
        return table
    numbers = [float(text) for text in missing if reads_as_number(text)]
    for position, column in enumerate(table.columns):
        if is_text(column):
            table = _without(table, position, list(missing))
        elif str(column.type).startswith(("int", "uint")):
            table = _without(table, position, [int(number) for number in numbers if number.is_integer()])
        elif str(column.type) in ("float", "double"):
            table = _without(table, position, numbers)
    return table


def with_numbers(table: Any, file: str, *, text: Collection[str] = (), comma: Comma = "thousands") -> Any:
    """Return a pyarrow table in which columns of numbers that are written as text hold numbers; warn about them.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    file : str
        The name of the file, for the warning.
    text : collection of str
        Columns that stay text.
    comma : {"thousands", "decimal", "either"}
        What a comma between digits means.
    """
    examples = []
    for position, name in enumerate(table.column_names):
        if name in text or not is_text(table.column(position)):
            continue
        encoded = table.column(position).combine_chunks().dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        numbers = numbers_in_texts(texts, comma=comma)
        if numbers is None:
            _warn_of_ambiguous_commas(texts, name, file, comma)
            continue
        values = import_pyarrow().array(list(numbers.values()), type="float64")
        table = table.set_column(position, name, values.take(encoded.indices))
        marked = next((each for each in texts if numbers[each] is not None and not reads_as_number(each)), None)
        examples += [] if marked is None else [f"{name} ({marked!r} is {_short(numbers[marked])})"]
    if examples:
        more = len(examples) - _MAX_EXAMPLES
        rest = f" and {more} more" if more > 0 else ""
        plural = "s" * (len(examples) > 1)
        warn_user(f"{file} holds numbers as text in the column{plural} {', '.join(examples[:_MAX_EXAMPLES])}{rest}")
    return table


def _warn_of_ambiguous_commas(texts: list[str], name: str, file: str, comma: Comma) -> None:
    """Warn if a column would be numbers, were it known what a comma means."""
    with_point, with_comma = numbers_in_texts(texts, comma="thousands"), numbers_in_texts(texts, comma="decimal")
    if comma == "thousands" and with_comma:
        example = next(each for each in texts if with_comma[each] is not None and not reads_as_number(each))
        number = _short(with_comma[example])
        warn_user(
            f"{file}: column {name!r} is read as text; if {example!r} means {number}, write {number} into the file"
        )
    elif comma == "either" and with_point and with_comma:
        example = next(each for each in texts if with_point[each] != with_comma[each])
        warn_user(
            f"{file}: column {name!r} is read as text, because {example!r} can mean {_short(with_point[example])} or "
            f"{_short(with_comma[example])}; write one of these into the file"
        )


def _short(number: float | None) -> str:
    return repr(number).removesuffix(".0")


def _without(table: Any, position: int, values: Collection[Any]) -> Any:
    """Return a table with some values of a column replaced by missing values."""
    compute, arrow = import_pyarrow("pyarrow.compute"), import_pyarrow()
    column = table.column(position)
    found = compute.is_in(column, value_set=arrow.array(values, type=column.type))
    if not compute.any(found).as_py():
        return table
    kept = compute.if_else(found, arrow.scalar(None, type=column.type), column)
    return table.set_column(position, table.column_names[position], kept)


_DELIMITERS = ",;\t|"
_COMMAS: Mapping[str, Comma] = {",": "thousands", " ": "thousands", ";": "decimal"}  # by delimiter; others: either
_HEAD_ROWS, _HEAD_BYTES = 100, 2**20  # that show where the header is
_MAX_HEADER_LINES = 100  # that a quoted name may span, when the delimiter is looked for
_MAX_BLOCK = 2**31 - 1  # bytes that pyarrow can parse at once
_COLUMN = 2**14  # bytes that pyarrow takes to read a column, at least
_NO_LIMIT = 2**31 - 1  # characters of a cell; a C long on every system
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_LINE_END = re.compile(rb"\r\n|\r|\n")
_STRAY_RETURN = re.compile(rb"\r(?!\n)")  # pandas writes them without quotes
_POINT_OR_THOUSANDS = re.compile(r"[+-]?(0|[1-9]\d{0,2}(\.\d{3})?)")
_BLANK_LINES = (b"\n\n", b"\n\r\n", b"\r\r")


@dataclass(frozen=True)
class _Header:
    """The names of the columns, the delimiter, and where the rows of the table begin.

    Parameters
    ----------
    names : list of str
        The names; all are empty in a file without a header.
    delimiter : str
        What separates the cells.
    end : int
        The position of the first row below the header, in bytes.
    row : int
        The row of the header in the file, counted from 1; in a file without one, the first row.
    below : sequence of list of str
        The texts in the first rows below it with as many cells.
    is_in_file : bool
        Whether the file has a header.
    """

    names: list[str]
    delimiter: str
    end: int
    row: int
    below: Sequence[Sequence[str]] = ()
    is_in_file: bool = True


@dataclass(frozen=True)
class _Row:
    """A row of a text file: its number, counted from 1, its cells, and its positions in bytes."""

    number: int
    cells: list[str]
    start: int
    end: int

    @property
    def texts(self) -> list[str]:
        """The cells without spaces around them."""
        return [cell.strip() for cell in self.cells]

    @property
    def is_blank(self) -> bool:
        """Whether no cell has text."""
        return not any(self.texts)


_BEGINNINGS = {"an Excel file": b"PK\x03\x04", "a Parquet file": b"PAR1", "a Feather file": b"ARROW1"}
_LIMIT = Lock()
_limits: list[int] = []  # one for each text that is being read: the limit before the first, then no limit


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Let Python's csv read long cells; the limit, which all threads share, is restored after the last of them."""
    with _LIMIT:
        _limits.append(csv.field_size_limit(_NO_LIMIT))
    try:
        yield
    finally:
        with _LIMIT:
            before = _limits[0]
            _limits.pop()
            if not _limits:
                csv.field_size_limit(before)


@_cells_of_any_length()
def text_table(
    content: bytes,
    file: str,
    *,
    text: Collection[str] = (),
    missing: Collection[str] = (),
    file_format: TableFormat = ANY_FORMAT,
) -> Any:
    """Return delimited text as a pyarrow table; the type of a column is inferred from all of its cells.

    Parameters
    ----------
    content : bytes
        The text. If its encoding is neither UTF-8 nor marked, it is guessed, with a warning (see `utf8_text`).
    file : str
        The name of the file, for messages.
    text : collection of str
        Columns to read as text, by name or position.
    missing : collection of str
        Cells that are missing values, in addition to the usual ones.
    file_format : TableFormat
        Separator, encoding and header, if the user names them.
    """
    content = utf8_text(content, file, file_format.encoding)
    _check_zeros(content, file)
    return _delimited_table(content, file, text, missing, file_format)


def _delimited_table(
    content: bytes, file: str, text: Collection[str], missing: Collection[str], file_format: TableFormat
) -> Any:
    """Return delimited text in UTF-8 as a pyarrow table."""
    header = _header(content, file, file_format)
    check_content(_COLUMN * len(header.names))
    cells = next(filter(None, _records(content, header.delimiter, start=header.end)), None)
    if cells is None:
        raise ValueError(f"{file} must have rows below its header; got none")
    if content.endswith(header.delimiter.encode()):
        content += b"\n"  # otherwise pyarrow takes a missing cell after a quoted one for an empty text
    if len(cells) == len(header.names) + 1:
        header = _longer_header(header, content, file)
    if file_format.header_row is None:
        check_names(header.names, file, header.below)
    names = unique_names(header.names, file)
    texts = {name_in(names, each) for each in text} & set(names)
    try:
        table = _parsed(content, header, names, texts, missing)
    except import_pyarrow().ArrowInvalid:
        if b"\n" in content and (stray := len(_STRAY_RETURN.findall(content))):
            warn_user(f"{file}: carriage returns inside cells: {stray}; they were read as spaces")
            return _delimited_table(_STRAY_RETURN.sub(b" ", content), file, text, missing, file_format)
        _check_lines(content, header, file)
        raise
    if header.delimiter == ";":
        _warn_of_thousands_points(table, content, header, missing, file)
    columns = zip(header.names, table.columns, strict=True)
    used = [bool(title.strip()) or values.null_count < len(values) for title, values in columns]
    table = without_missing(used_columns(table, used), missing)
    table = with_numbers(table, file, text=texts, comma=_COMMAS.get(header.delimiter, "either"))
    return with_row_numbers(table, _rows_of_no_data(content, header), has_header=header.is_in_file)


def _check_zeros(content: bytes, file: str) -> None:
    """Raise ValueError for a zero byte, which is no text: of a damaged file, or of another kind of file."""
    position = content.find(b"\0")
    if position >= 0:
        for kind, begin in _BEGINNINGS.items():
            if content.startswith(begin):
                raise ValueError(f"{file} is not text, but looks like {kind}: give it the suffix of such a file")
        line = 1 + len(_LINE_END.findall(content, 0, position))
        raise ValueError(
            f"{file}, line {line}: must be text; got a zero byte (if the file has another encoding than UTF-8, use "
            "--encoding NAME)"
        )


def _header(content: bytes, file: str, file_format: TableFormat) -> _Header:
    """Return the header: the row that the user names, or the first one that is neither blank nor a title."""
    first = next((row for row in _rows(content, file_format.separator or ",") if not row.is_blank), None)
    if first is None:
        raise ValueError(f"{file} must have a header and rows; the file is empty")
    if file_format.header_row is not None:
        return _named_header(content, file, file_format.header_row or first.number, file_format)
    separator = file_format.separator or _delimiter_at(content, first.start)
    rows = _head(content, separator)
    place = header_position([row.texts for row in rows])
    widths = {len(row.cells) for row in rows}
    if not place and file_format.separator is None and (len(widths) > 1 or widths == {1}):
        separator, rows, place = _below_titles(content, separator)
    if place:
        warn_of_titles(file, rows[place].number, rows[0].number, next(filter(None, rows[0].texts)))
    warn_of_second_header([row.texts for row in rows[place:]], file, [row.number for row in rows[place:]])
    return _header_in(rows, place, separator)


def _header_in(rows: Sequence[_Row], place: int, delimiter: str) -> _Header:
    """Return the header that is one of the first rows."""
    header = rows[place]
    below = [row.texts for row in rows[place + 1 :] if len(row.cells) == len(header.cells)]
    return _Header(header.cells, delimiter, header.end, header.number, below)


def _named_header(content: bytes, file: str, number: int, file_format: TableFormat) -> _Header:
    """Return the header whose row the user names; or that of a file without one, which begins in this row."""
    separator = file_format.separator
    if separator is None:
        start = next((row.start for row in _rows(content, ",") if row.number == number), 0)
        separator = _delimiter_at(content, start)
    (row,) = deque(islice(_rows(content, separator), number), maxlen=1)
    if row.number < number or row.is_blank:
        found = f"{file} has {row.number} rows" if row.number < number else "this row is blank"
        raise ValueError(f"header must be the row of {file} with the column names; got {number}, but {found}")
    if file_format.header_row:
        return _Header(row.cells, separator, row.end, number)
    return _Header([""] * len(row.cells), separator, row.start, number, is_in_file=False)


def _below_titles(content: bytes, separator: str) -> tuple[str, list[_Row], int]:
    """Return the separator that shows titles above a header of the most names, the first rows, and the header's place.

    Without titles, the place is 0 and the separator is the given one.
    """
    found = [(separator, _head(content, separator), 0)]
    for each in _DELIMITERS:
        rows = _head(content, each)
        if place := header_position([row.texts for row in rows]):
            found.append((each, rows, place))
    return max(found, key=lambda each: len(each[1][each[2]].cells) if each[2] else 0)


def _rows(content: bytes, delimiter: str) -> Iterator[_Row]:
    """Yield all rows of a text; a cell with line breaks is part of one row."""
    end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        for match in _LINE.finditer(content):
            end = match.end()
            yield match[0].decode()

    start = 0
    for number, cells in enumerate(csv.reader(lines(), delimiter=delimiter), start=1):
        yield _Row(number, cells, start, end)
        start = end


def _head(content: bytes, delimiter: str) -> list[_Row]:
    """Return the first rows that are not blank: two, and more if they are short."""
    rows = (row for row in _rows(content, delimiter) if not row.is_blank)
    first = list(islice(rows, 2))
    return [*first, *takewhile(lambda row: row.end <= _HEAD_BYTES, islice(rows, _HEAD_ROWS))]


def _delimiter_at(content: bytes, start: int) -> str:
    """Return the delimiter of the header that begins at a position."""
    first = _whole_record(content, start)
    end = start + len("".join(first).encode())
    second = next((match.start() for match in _LINE.finditer(content, end) if match[0].strip()), len(content))
    return _delimiter(first, _whole_record(content, second))


def _whole_record(content: bytes, start: int) -> list[str]:
    """Return the line at a position with the lines after it, up to the end of its quoted cells."""
    lines: list[str] = []
    for match in islice(_LINE.finditer(content, start), _MAX_HEADER_LINES):
        lines.append(match[0].decode())
        if sum(line.count('"') for line in lines) % 2 == 0:
            return lines
    return lines[:1]


def _are_whole(rows: Iterable[Sequence[str]]) -> bool:
    """Return whether no cell holds only one of two quotation marks, so that it may be a part of a quoted cell."""
    return all(cell.count('"') % 2 == 0 for row in rows for cell in row)


def _delimiter(first: Sequence[str], second: Sequence[str]) -> str:
    """Return the delimiter that gives the most names in the header, which may have several lines.

    It is a vertical bar, which a name may hold, only if the next row has as many cells, or one more, and no other
    delimiter divides both lines into as many. It is a space if the others give only one name, and a space divides the
    next row into as many cells, or one more.
    """
    rows = {
        mark: (next(csv.reader(first, delimiter=mark)), next(csv.reader(second, delimiter=mark), []))
        for mark in (*_DELIMITERS, " ")
    }
    names = {mark: len(row) for mark, (row, _) in rows.items()}
    agree = {mark: names[mark] > 1 and names[mark] <= len(row) <= names[mark] + 1 for mark, (_, row) in rows.items()}
    others = _DELIMITERS.replace("|", "")
    best = max(others, key=names.__getitem__)
    if names["|"] > names[best] and agree["|"] and not any(agree[mark] and _are_whole(rows[mark]) for mark in others):
        return "|"
    return " " if names[best] == 1 and agree[" "] else best


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
    lines, above = _records(content, header.delimiter, start=header.end), len(_LINE_END.findall(content, 0, header.end))
    for cells in filter(None, lines):
        if len(cells) != len(header.names):
            raise ValueError(
                f"{file}, line {above + lines.line_num}: must have {len(header.names)} cells, one for each column; "
                f"got {len(cells)}{_offer(header)}"
            )


def _offer(header: _Header) -> str:
    """Return what to do if the separator or the header is another one, if the header has only one name."""
    if len(header.names) > 1:
        return ""
    return " (if the cells are separated otherwise, use --separator; if the names are in another row, use --header)"


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
        return replace(header, names=["", *header.names], below=()) if are_names else header
    if are_names and not any(cell.startswith("0") for cell in first):  # R numbers rows from 1, without leading zeros
        raise ValueError(
            f"{file} must have a column name for each cell; got rows with one more, in which the first cells, such as "
            f"{first[0]!r}, may be row names and the last ones are empty; if they are row names, write "
            f"{header.delimiter!r} at the beginning of the first line, otherwise at its end"
        )
    return replace(header, names=[*header.names, ""], below=())


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
    if not all(_POINT_OR_THOUSANDS.fullmatch(cell) for each in cells.values() for cell in each):
        return
    with_points = ((name, cell) for name, each in cells.items() for cell in each if "." in cell)
    name, example = next(with_points, ("", ""))
    if name:  # a column of +3 has no point either
        warn_user(
            f"{file}: in column {name!r}, {example!r} is read as {float(example):g}; if its point separates thousands, "
            "remove the points from the file"
        )


def _shows_decimals(values: Any) -> bool:
    """Return whether some number cannot be a whole number below a million with a point before its last three digits."""
    numbers = np.abs(values.drop_null().to_numpy())
    with np.errstate(over="ignore"):  # of a number that is above 1000 anyway
        thousandths = np.round(numbers * 1000)
    return bool(np.any((numbers >= 1000) | (thousandths / 1000 != numbers) | ((numbers < 1) & (numbers > 0))))


def _rows_of_no_data(content: bytes, header: _Header) -> list[int]:
    """Return the numbers of the rows above the header and of the blank rows, counted from 1.

    A cell with line breaks is part of one row. In a file with one column, a blank row is one of data.
    """
    above = list(range(1, header.row))
    if len(header.names) == 1 or not any(mark in content for mark in _BLANK_LINES):
        return above
    records = _records(content, header.delimiter, start=header.end)
    below = enumerate(records, start=header.row + header.is_in_file)
    return [*above, *(number for number, cells in below if not cells)]
