"""The columns of a table that a study uses, and the split of its rows into three parts."""

from collections.abc import Sequence
from datetime import date, time
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray, checked_vector
from evencover._internal.frames import (
    as_numbers,
    check_no_infinite,
    column,
    column_names,
    columns_of,
    is_missing,
    numeric_column,
    reads_as_number,
    take,
)
from evencover.groups import Groups, first_few
from evencover.model_selection import Part, three_way_split
from evencover.models.encoding import TableEncoder
from evencover.studies.plan import Plan
from evencover.taxonomies import ByFeature, Taxonomy

_ROUNDING_MARGIN = 1e-12  # numbers that agree to this share of their size are equal
_MAX_VALUES = 30  # different texts of a column that are categories without question


def check_column_roles(
    table: Any, target: str, drop: Sequence[str], categorical: Sequence[str], clusters: str | None
) -> None:
    """Raise an error if these arguments do not name columns of a table, or name the target for another role."""
    names = column_names(table) if hasattr(table, "shape") else None
    if names is None:
        raise TypeError(f"table must be a pandas, polars or pyarrow table; got {type(table).__name__}")
    duplicates = sorted({str(name) for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(f"table has duplicate column names: {first_few(duplicates)}")
    named = [] if clusters is None else [clusters]
    for argument, given in {"target": [target], "drop": drop, "categorical": categorical, "clusters": named}.items():
        if isinstance(given, str):
            raise TypeError(f"{argument} must be a sequence of column names; got the text {given!r}")
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"{argument}: no column named {unknown[0]!r}; the columns are {first_few(names)}")
    for argument, given in {"drop": drop, "categorical": categorical, "clusters": named}.items():
        if target in given:
            raise ValueError(f"{argument} must not name the target; got {target!r}")


def target_column(table: Any, target: str) -> FloatArray:
    """Return the targets; raise ValueError if one is not a finite number, or if all are the same."""
    name = f"target: column {target!r}"
    values = checked_vector(numeric_column(column(table, target, "target"), name), name)
    if len(values) > 1 and np.ptp(values) <= _ROUNDING_MARGIN * np.abs(values).max():
        raise ValueError(f"{name} must vary; it is {values[0]:g} in every row, so there is nothing to predict")
    return values


def feature_columns(
    table: Any,
    target: str,
    drop: Sequence[str],
    categorical: Sequence[str],
    clusters: str | None,
    taxonomy: Taxonomy | None,
) -> tuple[Any, TableEncoder]:
    """Return the columns that the model and its groups need, and the encoder of the features."""
    left_out = {target, clusters, *drop}
    ignored = [name for name in grouping_columns(taxonomy) if name in left_out and name != target]
    kept = [name for name in column_names(table) or [] if name not in left_out or name in ignored]
    if len(kept) == len(ignored):
        raise ValueError(
            "table must have at least one feature column; none is left after dropping the columns "
            f"{sorted(filter(None, left_out))}"
        )
    for name in kept:
        if name not in ignored:
            _check_feature(name, column(table, name, "table"), categorical=name in categorical)
    encoder = TableEncoder(categorical=tuple(name for name in categorical if name in kept), ignored=tuple(ignored))
    return columns_of(table, kept), encoder


def grouping_columns(taxonomy: Any) -> list[str]:
    """Return the columns that define the groups of a taxonomy."""
    if isinstance(taxonomy, ByFeature):
        return [taxonomy.column] if isinstance(taxonomy.column, str) else []
    return [name for each in getattr(taxonomy, "taxonomies", ()) for name in grouping_columns(each)]


def _check_feature(name: str, values: Any, *, categorical: bool) -> None:
    """Raise ValueError if a column cannot be a feature: dates, infinite numbers, and text that is no category.

    Text is no category if most rows hold numbers, or most rows differ, unless the user names it as categorical.
    """
    numbers = as_numbers(values)
    if numbers is not None:
        check_no_infinite(numbers, f"column {name!r}")
        return
    if values.dtype.kind in "mM" or any(isinstance(value, date | time) for value in values.tolist()):
        raise ValueError(f"column {name!r} holds dates or times: convert them to numbers, or drop the column")
    texts = [str(value) for value in values[~is_missing(values)].tolist()]
    others = [text for text in texts if not reads_as_number(text)]
    if not categorical and len(others) < len(texts) / 2:
        first = f", such as {others[0]!r}" if others else ""
        raise ValueError(
            f"column {name!r} holds numbers as text, and other text in {len(others)} of {len(texts)} rows{first}: "
            "correct the column, drop it, or name it as categorical"
        )
    distinct = len(set(texts))
    if not categorical and distinct > max(_MAX_VALUES, len(texts) / 2):
        raise ValueError(
            f"column {name!r} holds text with {distinct} different values in {len(texts)} rows, like names or free "
            "text: drop it, or name it as categorical"
        )


_MIN_TRAINING_ROWS = 10  # two for each fold


def split_rows(table: Any, features: Any, y: FloatArray, clusters: str | None, plan: Plan) -> tuple[Part, Part, Part]:
    """Return the training, calibration and test parts; with clusters, the last two have one row of each cluster."""
    labelled = None if clusters is None else column_groups(table, clusters, "clusters")
    n = len(y) if labelled is None else len(labelled.labels)
    if n * plan.training_size < _MIN_TRAINING_ROWS or n * min(plan.calibration_size, plan.test_size) < 1:
        units = "rows" if labelled is None else f"clusters by {clusters!r}"
        raise ValueError(
            f"table must have more {units}: of {n}, about {n * plan.training_size:.0f} are for training (at least "
            f"{_MIN_TRAINING_ROWS} are needed), {n * plan.calibration_size:.0f} for calibration and "
            f"{n * plan.test_size:.0f} for testing"
        )
    codes = None if labelled is None else labelled.codes
    training, calibration, test = three_way_split(
        features,
        y,
        calibration_size=plan.calibration_size,
        test_size=plan.test_size,
        clusters=codes,
        random_state=plan.seed,
    )
    if codes is None:
        return training, calibration, test
    rng = np.random.default_rng([plan.seed, 3])
    return training, _one_row_per_cluster(calibration, codes, rng), _one_row_per_cluster(test, codes, rng)


def column_groups(table: Any, name: str, role: str) -> Groups:
    """Return the groups of rows with equal values in a column; `role` names the argument in errors."""
    return Groups.from_labels(column(table, name, role), name=f"{role}: column {name!r}")


def _one_row_per_cluster(part: Part, codes: IntArray, rng: np.random.Generator) -> Part:
    """Return one random row of each cluster, in the order of the rows."""
    order = rng.permutation(len(part))
    rows = np.sort(order[np.unique(codes[part.positions][order], return_index=True)[1]])
    return Part(take(part.X, rows), take(part.y, rows), part.positions[rows])
