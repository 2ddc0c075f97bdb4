"""The columns of a study: which there are, and which can be used as they are."""

from collections.abc import Sequence
from datetime import date, time
from typing import Any

import numpy as np

from evencover.groups import first_few
from evencover.inputs import FloatArray, checked_vector
from evencover.models.encoding import TableEncoder
from evencover.tables import as_numbers, column, column_names, columns_of, first_stranger, is_missing
from evencover.taxonomies import ByFeature, Taxonomy

_MOST_VALUES = 30  # of a text column before it is asked what it is


def refuse_names(
    table: Any, target: str, drop: Sequence[str], categorical: Sequence[str], split_by: str | None
) -> None:
    """Raise unless there is a table, and these arguments name columns of it, each for one purpose."""
    names = column_names(table) if hasattr(table, "shape") else None
    if names is None:
        raise TypeError(f"table must be a pandas, polars or pyarrow table; got {type(table).__name__}")
    again = sorted({str(name) for name in names if names.count(name) > 1})
    if again:
        raise ValueError(f"table must have a name of its own for each column; there twice is {first_few(again)}")
    clusters = [] if split_by is None else [split_by]
    for argument, given in {"target": [target], "drop": drop, "categorical": categorical, "split_by": clusters}.items():
        if isinstance(given, str):
            raise TypeError(f"{argument} must be a sequence of names of columns; got the text {given!r}")
        strange = [name for name in given if name not in names]
        if strange:
            raise ValueError(f"{argument} must name a column; there is no {strange[0]!r} but {first_few(names)}")
    for argument, given in {"drop": drop, "categorical": categorical, "split_by": clusters}.items():
        if target in given:
            raise ValueError(f"{argument} must not name the target; got {target!r}")


def target_column(table: Any, target: str) -> FloatArray:
    """Return the targets: numbers, every one of them."""
    held = column(table, target, "target")
    values = as_numbers(held)
    if values is None:
        row, strange = first_stranger(held)
        raise ValueError(f"target: column {target!r} must hold numbers; got {strange!r} in row {row}")
    return checked_vector(values, f"target: column {target!r}")


def feature_columns(
    table: Any,
    target: str,
    drop: Sequence[str],
    categorical: Sequence[str],
    split_by: str | None,
    taxonomy: Taxonomy | None,
) -> tuple[Any, TableEncoder]:
    """Return the columns that the model and its groups need, and what makes numbers of those that are features."""
    left_out = {target, split_by, *drop}
    ignored = [name for name in grouping_columns(taxonomy) if name in left_out and name != target]
    kept = [name for name in column_names(table) or [] if name not in left_out or name in ignored]
    if len(kept) == len(ignored):
        raise ValueError(f"no column is left to predict from, without {sorted(filter(None, left_out))}")
    for name in kept:
        if name not in ignored:
            _refuse_puzzle(name, column(table, name, "table"), categorical=name in categorical)
    encoder = TableEncoder(categorical=tuple(name for name in categorical if name in kept), ignored=tuple(ignored))
    return columns_of(table, kept), encoder


def grouping_columns(taxonomy: Any) -> list[str]:
    """Return the columns that a taxonomy's groups are formed by."""
    if isinstance(taxonomy, ByFeature):
        return [taxonomy.column] if isinstance(taxonomy.column, str) else []
    return [name for each in getattr(taxonomy, "taxonomies", ()) for name in grouping_columns(each)]


def _refuse_puzzle(name: str, values: Any, *, categorical: bool) -> None:
    """Raise for a column that cannot be a feature as it is: dates, infinite numbers, and text that is no category.

    Text is a puzzle that is mostly numbers, or mostly different, unless it was called categorical.
    """
    numbers = as_numbers(values)
    if numbers is not None:
        infinite = np.flatnonzero(np.isinf(numbers))
        if len(infinite):
            raise ValueError(
                f"column {name!r} must be finite or missing; {len(infinite)} values are infinite (the first in row "
                f"{infinite[0]})"
            )
        return
    if values.dtype.kind in "mM" or any(isinstance(value, date | time) for value in values.tolist()):
        raise ValueError(f"column {name!r} holds dates or times: make numbers of them, or drop it")
    texts = [str(value) for value in values[~is_missing(values)].tolist()]
    strange = [text for text in texts if not _is_number(text)]
    if not categorical and len(strange) < len(texts) / 2:
        first = f", such as {strange[0]!r}" if strange else ""
        raise ValueError(
            f"column {name!r} is text that holds numbers, and in {len(strange)} of {len(texts)} rows something "
            f"else{first}: mend it, drop it, or name it as categorical"
        )
    distinct = len(set(texts))
    if not categorical and distinct > max(_MOST_VALUES, len(texts) / 2):
        raise ValueError(
            f"column {name!r} is text with {distinct} different values in {len(texts)} rows, like a name or free text: "
            "drop it, or name it as categorical"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
