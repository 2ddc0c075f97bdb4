"""Names of columns in files: unique names for all of them, and columns named by position."""

import json
import re
from collections.abc import Sequence
from typing import Any

from evencover._internal.arrays import reads_as_number, warn_user
from evencover.groups import first_few

_COLUMNS = b"evencover.columns"  # in the metadata of a pyarrow table: the columns of its file, if there are more


def unique_names(header: Sequence[str], file: str) -> list[str]:
    """Return one name for each column: a nameless one is called by its position, so is the second one of equal names.

    Parameters
    ----------
    header : sequence of str
        The names in the file; empty for a nameless column.
    file : str
        The name of the file, for messages. Names that are all numbers or empty are an error, because the file has no
        header then.
    """
    given = [name.strip() for name in header]
    if not any(_is_name(name) for name in given) and not _is_pandas_numbering(given):
        raise ValueError(f"{file} must have column names (in CSV, the first line); got {first_few(given)}")
    names: list[str] = []
    for position, name in enumerate(given, start=1):
        unique = name or f"column {position}"
        while unique in names or (unique != name and unique in given):
            unique = f"{unique} (column {position})"
        names.append(unique)
    renamed = [f"{new!r}" for old, new in zip(given, names, strict=True) if old and new != old]
    if renamed:
        warn_user(f"{file} has duplicate column names; their columns are now called {', '.join(renamed)}")
    return names


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


def _is_name(name: str) -> bool:
    return bool(name) and not reads_as_number(name)


def _is_pandas_numbering(names: Sequence[str]) -> bool:
    """Return whether names are those that pandas writes for an index and columns without names: empty, 0, 1, 2, ..."""
    return len(names) > 1 and list(names) == ["", *map(str, range(len(names) - 1))]
