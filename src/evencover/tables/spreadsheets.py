"""Text in CSV files that a spreadsheet would run as a formula: it gets a single quote in front, and stays text.

Excel, LibreOffice and Google Sheets take a cell that begins with =, +, -, @ or their full-width forms for a formula,
quoted or not; a tab or a line break in front does not prevent it. A formula can send the other cells to a server, or
start a program. The quote is what the OWASP recommends against this "CSV injection".

A program that splits the cells at another separator than that of the file, such as Excel at semicolons where the comma
is the decimal point, does not see the quotation marks around a cell either. So what follows another separator or a line
break within a text may begin a cell, too, also after quotation marks.

No two texts become the same: a text that has such quotes already gets one more.
"""

import re
from typing import Any

from evencover.groups import first_few
from evencover.inputs.arrays import warn_user
from evencover.tables.text_files import import_pyarrow

_FORMULA = "[=+\\-@\uff1d\uff0b\uff0d\uff20]"
# After a sign, digits and marks of numbers, telephone numbers, times, amounts: they call nothing and refer to nothing
_HARMLESS = "[+-][-+0-9.,:/() \u00a0\u202f%\u00b0$\u20ac\u00a3\u00a5]*(?:[eE][+-]?[0-9]+)?%?"
_SEPARATORS = {",": r";\t\r\n", "\t": r",;\t\r\n"}  # within a text; a comma is safe in a file with commas
_MAY_NEED_QUOTES = f"(^|[,;\t\r\n])[\"']*{_FORMULA}|^'*[\t\r\n]"  # faster than what `quoted` looks for


def without_formulas(table: Any, delimiter: str = ",") -> Any:
    """Return a pyarrow table whose text and column names a spreadsheet does not run, with a warning if some would.

    Numbers and dates are unchanged.

    Parameters
    ----------
    table : pyarrow.Table
        The columns of a file.
    delimiter : str
        What separates the cells of the file: a comma or a tab.
    """
    columns = [_quoted_column(values, delimiter) for values in table.columns]
    names = [quoted(name, delimiter) for name in table.column_names]
    pairs = zip(names, table.column_names, columns, table.columns, strict=True)
    changed = [name for new, name, after, before in pairs if new != name or not after.equals(before.cast(after.type))]
    if changed:
        warn_user(
            "text that a spreadsheet would run as a formula got a single quote in front; columns: "
            f"{first_few(changed)}. With --exact-text, in Python exact_text=True, it is written as it is"
        )
    return import_pyarrow().table(columns, names=names)


def quoted(text: str, delimiter: str = ",") -> str:
    """Return a text with a single quote in front of what a spreadsheet would take for a formula.

    Examples
    --------
    >>> [quoted(text) for text in ("=A1", "-5", "-A1", "a;=A1", "'=A1")]
    ["'=A1", '-5', "'-A1", "a;'=A1", "''=A1"]
    """
    first, later = f"^(?='*{_FORMULA}|'*[\t\r\n])", f"(?<=[{_SEPARATORS[delimiter]}])(?=[\"']*{_FORMULA})"
    return re.sub(f"(?!{_HARMLESS}\\Z)(?:{first}|{later})", "'", text)


def _quoted_column(values: Any, delimiter: str) -> Any:
    """Return a column of text, categories or bytes with quotes where they are needed; any other column unchanged."""
    types = import_pyarrow().types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if types.is_fixed_size_binary(values.type):
        values = values.cast("binary")
    if str(values.type) not in ("string", "large_string", "binary", "large_binary"):
        return values
    chunks = [_quoted_array(chunk, delimiter) for chunk in values.chunks]
    return import_pyarrow().chunked_array(chunks, type=values.type)


def _quoted_array(texts: Any, delimiter: str) -> Any:
    compute = import_pyarrow("pyarrow.compute")
    which = compute.match_substring_regex(texts, _MAY_NEED_QUOTES)  # missing where the text is
    changed = [_quoted_value(text, delimiter) for text in texts.filter(which).to_pylist()]
    return compute.replace_with_mask(texts, which, import_pyarrow().array(changed, type=texts.type))


def _quoted_value(value: str | bytes, delimiter: str) -> str | bytes:
    if isinstance(value, str):
        return quoted(value, delimiter)
    return quoted(value.decode(errors="surrogateescape"), delimiter).encode(errors="surrogateescape")
