"""CSV and other text files: a grammar of dialects whose cells are known, and broken files compared with csv."""

import csv
import io
import re
from itertools import chain
from pathlib import Path
from warnings import catch_warnings, simplefilter

from hypothesis import strategies as st

from evencover.tables.files import read_table
from evencover.tables.text_files import MISSING, columns_of_file
from tests.fuzz.outcomes import WrongAnswerError, clear_errors

_CELLS = (
    *("", "NA", "nan", "None", "null", "#N/A", ".", "-", " ", "inf", "-inf", "true", "False", "?"),
    *("0", "1", "-1", "+3", "00", "01", "1.0", "1.", ".5", "-0", "1e3", "1E-400", "1e999", "9007199254740993"),
    *("18446744073709551616", "1,5", "1,234", "1.234,5", "1 234", "1'234", "$1,234.50", "45%", "-$3", "$-3", "(3)"),
    *("1_000", "0x10", "\u0661", "\uff11", "\u22125", "a", "b c", "=1+1", "@x", "2020-01-31", "31/01/2020", "12:30"),
    *("2020-01-31T10:00:00Z", "24:00", "a,b", "a;b", "a\tb", 'say "x"', "two\nlines", "\u00e9", "\U0001f600", "'", "#"),
)
_NAMES = ("a", "y", "x 1", "price", "", "1", "na", "NA", "a,b", "a;b", "\u00e9", "=y", 'q"', "two\nlines", " s ")
_SEPARATORS = (",", ";", "\t", "|")
_ENCODINGS = ("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252")
_GUESSED = ("utf-16-le", "utf-16-be", "cp1252")  # without a warning, it is another one
_SEPARATORS_ALONE = re.compile(r"\A(?:[,;|\t ]*(?:\r\n|\r|\n))+")  # lines above the header
_BROKEN = (
    b'"',
    b'""',
    b",",
    b";",
    b"\t",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b" ",
)


def cases():
    """Return the strategy: two of three files are well-formed, the others are broken."""
    return st.one_of(_well_formed(), _well_formed(), _broken())


@st.composite
def _well_formed(draw):
    """Return a file of a dialect, and its cells: of each, its text and whether it is quoted."""
    width = draw(st.integers(1, 4))
    named = [name for name in _NAMES if name.strip() or width > 1]  # a blank line is no header
    names = draw(st.lists(st.sampled_from(named), min_size=width, max_size=width, unique_by=str.strip))
    column = st.one_of(st.just(_CELLS), st.just(_CELLS[14:37]), st.just(("0", "1", "2.5", "", "NA")), st.just("abc"))
    kinds = [draw(column) for _ in names]
    rows = [[draw(st.sampled_from(cells)) for cells in kinds] for _ in range(draw(st.integers(1, 6)))]
    dialect = {
        "separator": draw(st.sampled_from(_SEPARATORS)),
        "newline": draw(st.sampled_from(["\n", "\r\n", "\r"])),
        "quote": draw(st.sampled_from(["where needed", "always"])),
        "ends": draw(st.booleans()) or width == 1,  # a last line without text is no line
        "encoding": draw(st.sampled_from(_ENCODINGS)),
        "blank": draw(st.sampled_from([None, None, 0, 1, 2])),
    }
    if dialect["encoding"] == "cp1252" and not _is_in("cp1252", chain(names, *rows)):
        dialect["encoding"] = "utf-8"
    return {"names": names, "rows": rows, "dialect": dialect}


def _is_in(encoding, texts):
    """Return whether an encoding has all characters of some texts."""
    try:
        "".join(texts).encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@st.composite
def _broken(draw):
    """Return the bytes of a file with something inserted, repeated or cut out."""
    content = file_of(draw(_well_formed()))
    for _ in range(draw(st.integers(1, 4))):
        start, size = draw(st.integers(0, len(content))), draw(st.integers(0, 4))
        inserted = draw(st.sampled_from(_BROKEN) | st.binary(max_size=3)) * draw(st.sampled_from([1, 1, 2, 50]))
        content = content[:start] + inserted + content[start + size :]
    return {"content": content}


def file_of(case):
    """Return the content of a file: the one in the case, or the one that it describes, or the one that it makes."""
    if "content" in case:
        return case["content"]
    if "long" in case:
        return _long_file(**case["long"])
    dialect = case["dialect"]
    lines = [
        dialect["separator"].join(_written(cell, dialect) for cell in row) for row in (case["names"], *case["rows"])
    ]
    if dialect["blank"] is not None and len(case["names"]) > 1:
        lines.insert(min(dialect["blank"], len(lines)), "")
    end = dialect["newline"] if dialect["ends"] else ""
    return (dialect["newline"].join(lines) + end).encode(dialect["encoding"])


def _long_file(columns, name, rows, cell):
    """Return a file too long to be kept: so many columns, and cells of so many characters."""
    names = [f"{name}{number}" for number in range(columns)]
    row = ",".join(["x" * cell, *["1"] * (columns - 1)])
    return "\n".join([",".join(names), *["1" + ",1" * (columns - 1)] * rows, row]).encode()


def _is_quoted(cell, dialect):
    return dialect["quote"] == "always" or any(mark in cell for mark in (*_SEPARATORS, " ", '"', "\n", "\r"))


def _written(cell, dialect):
    return '"' + cell.replace('"', '""') + '"' if _is_quoted(cell, dialect) else cell


def run(case):
    """Read a file, with types and as text, and compare the cells with those that are known or that csv reads."""
    path = Path("table.csv")
    path.write_bytes(file_of(case))
    if "long" in case:
        read_table(path)  # an error is wrong: the file is well-formed
        return
    with clear_errors("table.csv"), catch_warnings(record=True) as caught:
        simplefilter("always")
        typed = read_table(path)
        text = read_table(path, text=typed.column_names)
        texts = [str(each.message) for each in caught]
    if any("look like titles" in each for each in texts):
        return  # what comes after the first row may be a header, too
    if "rows" in case and _is_guessed(case) and not any("is not text in UTF-8" in each for each in texts):
        raise WrongAnswerError("an encoding was guessed without a warning", "warning")
    expected = _known(case) if "rows" in case else _cells_by_csv(case, text)
    if expected is not None:
        _compare(text, expected)
        _compare_numbers(typed, expected)


def _is_guessed(case):
    """Return whether the encoding of a file cannot be told for sure."""
    encoding, content = case["dialect"]["encoding"], file_of(case)
    return encoding in _GUESSED and (encoding != "cp1252" or not content.isascii())


def _known(case):
    """Return the cells: of each, the texts that it may be read as. None stands for a missing value."""
    dialect = case["dialect"]
    rows = [[_readings(cell, _is_quoted(cell, dialect)) for cell in row] for row in case["rows"]]
    is_used = [
        bool(name.strip()) or any(row[place] != {None} for row in rows) for place, name in enumerate(case["names"])
    ]
    return [[cell for cell, used in zip(row, is_used, strict=True) if used] for row in rows]


def _readings(cell, is_quoted):
    missing = cell in MISSING and not is_quoted
    return {None} if missing else {cell}


def _cells_by_csv(case, table):
    """Return the cells that Python's csv reads, if some separator gives as many columns; otherwise None."""
    try:
        content = file_of(case).decode("utf-8-sig")
        if "\0" in content:
            return None  # it may be UTF-16 without a mark
        content = _SEPARATORS_ALONE.sub("", content)
        readers = [csv.reader(io.StringIO(content, newline=""), delimiter=each, strict=True) for each in _SEPARATORS]
        every = [[row for row in reader if row] for reader in readers]
    except (UnicodeDecodeError, csv.Error):
        return None
    names = columns_of_file(table)
    used = [place for place, name in enumerate(names) if name in table.column_names]
    for header, *rows in filter(None, every):
        if {len(row) for row in (header, *rows)} == {len(names)} and len(rows) == table.num_rows:
            return [[_readings_by_csv(row[place]) for place in used] for row in rows]
    return None


def _readings_by_csv(cell):
    """Return what a cell may be read as; pyarrow drops a byte order mark below the header."""
    texts = {cell, cell.removeprefix("\ufeff")}
    return texts | {None} if texts & {*MISSING} else texts


def _compare(table, expected):
    """Raise unless the table has these cells."""
    read = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    if len(read) != len(expected):
        raise WrongAnswerError(f"rows: {len(read)} instead of {len(expected)}", "rows")
    for found, cells in zip(read, expected, strict=True):
        if len(found) != len(cells):
            raise WrongAnswerError(f"columns: {len(found)} instead of {len(cells)}", "columns")
        for cell, readings in zip(found, cells, strict=True):
            if cell not in readings:
                raise WrongAnswerError(f"cell {cell!r} instead of one of {readings}", "cells")


def _compare_numbers(table, expected):
    """Raise if a column that was read as numbers has another number than Python reads in its cell."""
    for place, column in enumerate(table.columns):
        if str(column.type) not in ("int64", "double"):
            continue
        for number, cells in zip(column.to_pylist(), (row[place] for row in expected), strict=True):
            texts = [cell for cell in cells if cell is not None]
            if texts and (wrong := _wrong_number(number, texts[0].strip())):
                raise WrongAnswerError(wrong, "numbers")


def _wrong_number(number, text):
    """Return what is wrong with a number that was read from a text; a text that Python does not read is not judged."""
    try:
        expected = float(text)
    except ValueError:
        return None
    if number is None:
        return None if expected != expected else f"{text!r} was read as missing"
    exact = int(text) if isinstance(number, int) else expected
    both_nan = number != number and expected != expected
    return None if number == exact or both_nan or "_" in text else f"{text!r} was read as {number!r}"
