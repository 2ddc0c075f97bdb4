"""How a table file is read: what the user says of it, and what its content shows of its encoding and its header."""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from shlex import quote
from typing import Any, Literal, TypeAlias

import numpy as np

from evencover.display.lines import one_line
from evencover.inputs.arrays import reads_as_number, warn_user

FileKind: TypeAlias = Literal["text", "Excel", "Parquet", "Arrow", "folder", "data set", "table"]
_USED: dict[FileKind, tuple[str, ...]] = {"text": ("separator", "encoding", "header"), "Excel": ("sheet", "header")}
_KINDS: dict[FileKind, str] = {
    "text": "a text file",
    "Excel": "an Excel file",
    "Parquet": "a Parquet file",
    "Arrow": "an Arrow file",
    "folder": "a folder of Parquet files",
    "data set": "a data set",
    "table": "a table in memory",
}
_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}
_ENCODINGS = "utf-8, cp1252 (Windows), latin-1, utf-16, cp1251 (Cyrillic), shift_jis, gb18030"


@dataclass(frozen=True)
class TableFormat:
    """How a file is read as a table, where the user says it; what is None is recognised.

    Parameters
    ----------
    sheet : str or int, optional
        The sheet of an Excel file: its name or, if no sheet has that name, its position, counted from 1. By default the
        first one.
    separator : str, optional
        What separates the cells of a text file: one character, or "tab" or "space".
    encoding : str, optional
        The encoding of a text file, by the name that Python gives it, such as "cp1252".
    header : int or str, optional
        The row with the names of the columns, in a text or Excel file: its number, counted from 1. Rows above it are
        not read. 0 or "none" for a file without a header; its columns are called ``column 1``, ``column 2``, ...

    Examples
    --------
    >>> TableFormat(separator="space", header="none")
    TableFormat(sheet=None, separator=' ', encoding=None, header=0)
    """

    sheet: str | int | None = None
    separator: str | None = None
    encoding: str | None = None
    header: int | str | None = None

    def __post_init__(self) -> None:
        _check_sheet(self.sheet)
        object.__setattr__(self, "separator", _checked_separator(self.separator))
        _check_encoding(self.encoding)
        object.__setattr__(self, "header", _checked_header(self.header))

    @property
    def header_row(self) -> int | None:
        """The row of the header as a number; 0 if the file has none, None if it is recognised."""
        return None if self.header is None else int(self.header)

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are not None."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in values if value is not None}

    def check_applies(self, kind: FileKind, name: str) -> None:
        """Raise ValueError if settings are given that a kind of data, which has a name, does not use."""
        for setting in self.given:
            if setting not in _USED.get(kind, ()):
                kinds = " and ".join(each for each, used in _USED.items() if setting in used)
                raise ValueError(f"{setting} is for {kinds} files; {name} is {_KINDS[kind]}, so leave it out")


def setting_text(name: str, value: Any) -> str:
    """Return how a setting of the format is given: as an option, and in Python."""
    return f"--{name} {quote(str(value))} (in Python TableFormat({name}={value!r}))"


def _check_sheet(sheet: Any) -> None:
    is_name, is_position = isinstance(sheet, str), isinstance(sheet, int) and not isinstance(sheet, bool)
    if sheet is not None and (not (is_name or is_position) or sheet == "" or (is_position and sheet < 1)):
        raise ValueError(f"sheet must be the name of a sheet, or its position counted from 1; got {sheet!r}")


def _checked_separator(separator: Any) -> str | None:
    if separator is None:
        return None
    mark = _SEPARATORS.get(separator, separator) if isinstance(separator, str) else ""
    if len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n\0':
        raise ValueError(
            "separator must be one ASCII character such as ; or | (no letter, digit, quotation mark or line break), or "
            f"one of the words tab and space; got {separator!r}"
        )
    return mark


def _check_encoding(encoding: Any) -> None:
    try:
        if encoding is not None:
            b"a".decode(encoding)
    except UnicodeDecodeError:  # one letter has too few bytes
        pass
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"encoding must be one that Python knows, such as {_ENCODINGS}; got {encoding!r}") from None


def _checked_header(header: Any) -> int | None:
    if header is None:
        return None
    text = "0" if isinstance(header, str) and header.lower() == "none" else str(header)
    if isinstance(header, bool) or not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError(
            "header must be the row with the column names, counted from 1, or 0 or none if the file has no such row; "
            f"got {header!r}"
        )
    return int(text)


ANY_FORMAT = TableFormat()
_CHUNK = 2**20
_MARKS = {  # byte order marks; that of UTF-32 begins with one of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SAMPLE = 2**16  # bytes that show where zero bytes are
_MIN_ZEROS, _MAX_ZEROS = 0.3, 0.01  # share of the characters whose first, or second, byte is zero in UTF-16
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f\x7f-\x9f\ufffe\uffff]")  # not in text; \x1a ends old DOS files
_UTF8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH_BYTE = re.compile(rb"[\x80-\xff]")
# What Western words do not have: many other characters than ASCII in a row, a capital letter or a sign inside a word.
_OTHER_ALPHABET = re.compile(
    r"[^\W\d_\x00-\x7f]{4}|[a-z][\u0160\u017d\u0152\u0178\xc0-\xd6\xd8-\xde][a-z]|[a-z][\u0160\u017d\u0152\u0178]\b"
    r"|[A-Za-z\xc0-\xff][\u201a\u0192\u201e\u2020\u2021\u02c6\u2030\u2039\u203a\u02dc\u2122\u20ac\u201c\u201d"
    r"\xa1\xa2\xa3\xa4\xa5\xac\xaf\xb2\xb3\xb6\xb8\xb9\xbc\xbd\xbe\xbf][a-z\xdf-\xff]|\u0192.\u0192"
    r"|[\u0152\u0153\u0160\u0161\u017d\u017e\u0178\u0192\u2020\u2021\u02c6\u2030\u2039\u203a\u02dc]{2}"
    r"|(?<!\d)[\xa2-\xbe\xad]{2}(?!\d)|[A-Za-z][\u0160\u017d\u0152\u0178][a-z]"
)
_NOT_ASCII = re.compile(r"[^\s,;|\"]*[^\x00-\x7f][^\s,;|\"]*")


def utf8_text(content: bytes, file: str, encoding: str | None = None) -> bytes:
    """Return text in UTF-8 without a byte order mark; warn if its encoding was guessed.

    UTF-8 is told from all others by its rules. Without a byte order mark, UTF-16 shows in zero bytes, which are every
    second one. Other text is read as Windows-1252, which is Latin-1 with more signs, if it looks like Western words.

    Parameters
    ----------
    content : bytes
        The text.
    file : str
        The name of the file, for messages.
    encoding : str, optional
        The encoding, if the user names it.
    """
    mark = next((mark for mark in _MARKS if content.startswith(mark)), None)
    if encoding is not None or mark is not None:
        return _decoded(content, file, encoding, _MARKS.get(mark or b"", ""))
    if b"\0" in content:
        guessed = _utf16(content)
        return content if guessed is None else _with_warning(*guessed, file)
    if _is_utf8(content):
        return content.removeprefix(codecs.BOM_UTF8)
    return _with_warning(_western(content, file), "Windows-1252 (Latin-1)", file)


def _decoded(content: bytes, file: str, given: str | None, marked: str) -> bytes:
    """Return text in UTF-8 that is in the encoding that the user names or, without one, that its first bytes show."""
    try:
        return content.decode(given or marked).removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        found = f"line {line} holds bytes that are no text in it, such as 0x{content[error.start]:02x}"
    except UnicodeError as error:
        found = one_line(error)
    if given is None:
        raise ValueError(f"{file} must be text in {marked.upper()}, whose mark it begins with; {found}")
    raise ValueError(
        f"encoding must be that of {file}; got {given!r}, but {found}. Use --encoding NAME, such as {_ENCODINGS}"
    )


def _with_warning(text: str, encoding: str, file: str) -> bytes:
    """Return text in UTF-8, with a warning that its encoding was guessed."""
    found = _NOT_ASCII.search(text)
    example = f", with text such as {found[0]!r:.40}" if found else ""
    warn_user(
        f"{file} is not text in UTF-8; it was read as {encoding}{example}. If this is wrong, use --encoding NAME (in "
        "Python TableFormat(encoding=NAME))"
    )
    return text.encode()


def _is_utf8(content: bytes) -> bool:
    """Return whether all of a text is UTF-8; parts are decoded, so that this takes no memory."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), _CHUNK):
            decoder.decode(content[start : start + _CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _utf16(content: bytes) -> tuple[str, str] | None:
    """Return the text of a file in UTF-16 without a byte order mark, and its encoding; None if it is something else."""
    sample = np.frombuffer(content[:_SAMPLE][: len(content) // 2 * 2], dtype=np.uint8).reshape(-1, 2)
    first, second = (sample == 0).mean(axis=0) if len(sample) else (0.0, 0.0)
    for name, zeros, others in (("UTF-16-LE", second, first), ("UTF-16-BE", first, second)):
        if zeros >= _MIN_ZEROS and others <= _MAX_ZEROS:
            try:
                text = content.decode(name)
            except UnicodeDecodeError:
                return None
            return None if _CONTROLS.search(text) else (text, name)
    return None


def _western(content: bytes, file: str) -> str:
    """Return text in Windows-1252; raise ValueError if it does not look like text in a Western language."""
    n_high, n_damaged = len(_HIGH_BYTE.findall(content)), len(_HIGH_BYTE.findall(_UTF8_CHARACTER.sub(b"", content)))
    if 2 * (n_high - n_damaged) >= n_high:  # most are parts of characters in UTF-8
        first = next(each.start() for each in re.finditer(rb"[\x80-\xff]", _masked(content)))
        line = 1 + content.count(b"\n", 0, first)
        raise ValueError(
            f"{file} must be text in UTF-8, in which most of it is; bytes that are not: {n_damaged}, the first in line "
            f"{line}. Correct them, or use --encoding NAME, such as {_ENCODINGS}"
        )
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        text = "\0"
    if _CONTROLS.search(text) or _OTHER_ALPHABET.search(text):
        raise ValueError(
            f"{file} must be text in UTF-8, or in Windows-1252 (Latin-1), as Western languages use it; it looks like "
            f"neither. Use --encoding NAME, such as {_ENCODINGS} (in Python TableFormat(encoding=NAME))"
        )
    return text


def _masked(content: bytes) -> bytes:
    """Return text with the characters in UTF-8 replaced by as many other bytes."""
    return _UTF8_CHARACTER.sub(lambda match: b"?" * len(match[0]), content)


ERRORS = ("#N/A", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")  # spreadsheet cells without a value
MISSING = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", *ERRORS)
_COMMENT = "#"
_MIN_NUMBER_COLUMNS = 2  # below text, if that may be odd cells
_MISSING_IN_HEAD = {*MISSING, "."}


def header_position(rows: Sequence[Sequence[str]]) -> int:
    """Return which of the first rows of a file holds the names: 0, or a later one if all above it are titles.

    A title has another number of cells than the rows of the table, or lacks text in some columns, or begins with #. The
    names are text in every column, except perhaps in the first. There are numbers below one of them; below two, if a
    title has text in more than half of the columns, because the rows may be names with gaps and odd cells.

    Parameters
    ----------
    rows : sequence of sequence of str
        The first rows that are not blank, without spaces around the texts.
    """
    width = len(rows[-1]) if rows else 0
    columns = list(zip(*(row for row in rows[1:] if len(row) == width), strict=True))
    used = [place for place, cells in enumerate(columns) if any(cells)]
    places, is_sure = [], True
    for place, (title, names) in enumerate(pairwise(rows[:-1]), start=1):
        n_filled = sum(map(bool, title))
        lacks_first_only = not title[0] and n_filled + 1 >= len(used)
        if len(title) == width and (n_filled >= len(used) or lacks_first_only) and not title[0].startswith(_COMMENT):
            break
        is_sure = is_sure and (len(title) != width or 2 * n_filled <= len(used))
        below = rows[place + 1 :]
        if all(len(row) == width for row in (names, *below)):
            n_numbers = _numbers_below_names(names, below, used)
            places += [place] if n_numbers >= (1 if is_sure else _MIN_NUMBER_COLUMNS) else []
    return next((place for place in places if not rows[place][0].startswith(_COMMENT)), (*places, 0)[0])


def _numbers_below_names(names: Sequence[str], below: Sequence[Sequence[str]], used: Sequence[int]) -> int:
    """Return how many columns hold numbers below a name; 0 if a used column but the first has no name in this row.

    A word for a missing value, such as NA, is no name.
    """
    if any(names[each] in _MISSING_IN_HEAD or _is_number(names[each]) for each in used if each > 0 or names[0]):
        return 0
    return sum(bool(names[each]) and _are_numbers([row[each] for row in below]) for each in used)


def warn_of_titles(file: str, row: int, first: int, title: str) -> None:
    """Warn that a row was read as the header, because the rows above it, from a first one with a text, are titles."""
    warn_user(
        f"{file}: row {row} was read as the header, because the rows above it look like titles, such as {title!r:.40}. "
        f"If the names are in another row, such as {first}, use {setting_text('header', first)}"
    )


def _are_numbers(cells: Sequence[str]) -> bool:
    """Return whether more than half of the cells that are not missing are numbers."""
    known = [cell for cell in cells if cell not in _MISSING_IN_HEAD]
    return 2 * sum(map(_is_number, known)) > len(known)


def _is_number(text: str) -> bool:
    """Return whether a text is a number, and not a word for one, such as inf."""
    return reads_as_number(text) and bool(np.isfinite(float(text)))


def warn_of_second_header(rows: Sequence[Sequence[str]], file: str, numbers: Sequence[int]) -> None:
    """Warn if the second row of a file may hold the names: it has text only, above several columns of numbers.

    Parameters
    ----------
    rows : sequence of sequence of str
        The first rows that are not blank, without spaces around the texts; the first one was read as the header.
    file : str
        The name of the file.
    numbers : sequence of int
        The numbers of the rows in the file.
    """
    below = [row for row in rows[2:] if len(row) == len(rows[1])]
    used = [place for place, cells in enumerate(zip(*below, strict=True)) if any(cells)]
    if below and _numbers_below_names(rows[1], below, used) >= _MIN_NUMBER_COLUMNS:
        warn_user(
            f"{file}: row {numbers[1]} holds text where the rows below hold numbers, such as {rows[1][-1]!r:.40}. If "
            f"it has the names of the columns, use {setting_text('header', numbers[1])}"
        )


_YEARS = 1500, 2100
_MIN_EVEN, _MIN_ORDERED = 3, 6  # numbers that show by even steps, or by their order, that they are names


def is_row_of_data(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row of a file looks like the rows below it, so that the file has no header.

    It has numbers where the columns have numbers, and a text that occurs again in its column; or its numbers are no
    such names as years, levels of quantiles or 0, 1, 2. A row of numbers alone is one of data.

    Parameters
    ----------
    names : sequence of str
        The cells of the first row.
    rows : sequence of sequence of str
        The first rows below it, with as many cells.
    """
    pairs = list(zip(names, zip(*rows, strict=True), strict=True)) if rows else []
    numbers = [float(name) for name, cells in pairs if _is_number(name) and _are_numbers(cells)]
    if not numbers:
        return False
    texts_occur_again = (
        name in cells for name, cells in pairs if name not in _MISSING_IN_HEAD and not _is_number(name)
    )
    is_row_number = len(numbers) == 1 and _is_number(names[0])
    return any(texts_occur_again) or is_row_number or not _may_be_names(np.array(numbers))


def _may_be_names(numbers: Any) -> bool:
    """Return whether numbers in the order of their columns are years, shares, a numbering, or have a rule like it."""
    steps = np.diff(numbers)
    if not (np.all(steps > 0) or np.all(steps < 0)):
        return False
    are_years = bool(np.all((numbers % 1 == 0) & (numbers >= _YEARS[0]) & (numbers <= _YEARS[1])))
    are_counted = numbers[0] in (0, 1) and bool(np.all(steps == 1))
    are_shares = len(numbers) > 1 and bool(np.all((numbers > 0) & (numbers < 1)))
    are_even = len(numbers) >= _MIN_EVEN and np.ptp(steps) <= 0.1 * abs(steps.mean())
    return are_years or are_counted or are_shares or bool(are_even) or len(numbers) >= _MIN_ORDERED
