"""Which columns of a table a study uses, and how its rows are split into three parts."""

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

_MOST_VALUES = 30  # of a text column before it is asked what it is


def check_column_roles(
    table: Any, target: str, drop: Sequence[str], categorical: Sequence[str], clusters: str | None
) -> None:
    """Raise unless there is a table, and these arguments name columns of it, each for one purpose."""
    names = column_names(table) if hasattr(table, "shape") else None
    if names is None:
        raise TypeError(f"table must be a pandas, polars or pyarrow table; got {type(table).__name__}")
    again = sorted({str(name) for name in names if names.count(name) > 1})
    if again:
        raise ValueError(f"table must have a name of its own for each column; there twice is {first_few(again)}")
    named = [] if clusters is None else [clusters]
    for argument, given in {"target": [target], "drop": drop, "categorical": categorical, "clusters": named}.items():
        if isinstance(given, str):
            raise TypeError(f"{argument} must be a sequence of names of columns; got the text {given!r}")
        strange = [name for name in given if name not in names]
        if strange:
            raise ValueError(f"{argument} must name a column; there is no {strange[0]!r} but {first_few(names)}")
    for argument, given in {"drop": drop, "categorical": categorical, "clusters": named}.items():
        if target in given:
            raise ValueError(f"{argument} must not name the target; got {target!r}")


def target_column(table: Any, target: str) -> FloatArray:
    """Return the targets: numbers, every one of them."""
    name = f"target: column {target!r}"
    return checked_vector(numeric_column(column(table, target, "target"), name), name)


def feature_columns(
    table: Any,
    target: str,
    drop: Sequence[str],
    categorical: Sequence[str],
    clusters: str | None,
    taxonomy: Taxonomy | None,
) -> tuple[Any, TableEncoder]:
    """Return the columns that the model and its groups need, and what makes numbers of those that are features."""
    left_out = {target, clusters, *drop}
    ignored = [name for name in grouping_columns(taxonomy) if name in left_out and name != target]
    kept = [name for name in column_names(table) or [] if name not in left_out or name in ignored]
    if len(kept) == len(ignored):
        raise ValueError(f"no column is left to predict from, without {sorted(filter(None, left_out))}")
    for name in kept:
        if name not in ignored:
            _check_feature(name, column(table, name, "table"), categorical=name in categorical)
    encoder = TableEncoder(categorical=tuple(name for name in categorical if name in kept), ignored=tuple(ignored))
    return columns_of(table, kept), encoder


def grouping_columns(taxonomy: Any) -> list[str]:
    """Return the columns that a taxonomy's groups are formed by."""
    if isinstance(taxonomy, ByFeature):
        return [taxonomy.column] if isinstance(taxonomy.column, str) else []
    return [name for each in getattr(taxonomy, "taxonomies", ()) for name in grouping_columns(each)]


def _check_feature(name: str, values: Any, *, categorical: bool) -> None:
    """Raise for a column that cannot be a feature as it is: dates, infinite numbers, and text that is no category.

    Text is a puzzle that is mostly numbers, or mostly different, unless it was called categorical.
    """
    numbers = as_numbers(values)
    if numbers is not None:
        check_no_infinite(numbers, f"column {name!r}")
        return
    if values.dtype.kind in "mM" or any(isinstance(value, date | time) for value in values.tolist()):
        raise ValueError(f"column {name!r} holds dates or times: make numbers of them, or drop it")
    texts = [str(value) for value in values[~is_missing(values)].tolist()]
    strange = [text for text in texts if not reads_as_number(text)]
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


_FEWEST = 10  # training rows: two for each fold


def three_parts(table: Any, features: Any, y: FloatArray, clusters: str | None, plan: Plan) -> tuple[Part, Part, Part]:
    """Return the three parts; of clusters, one row each for calibration and for the verdict."""
    labelled = None if clusters is None else _cluster_labels(table, clusters)
    n = len(y) if labelled is None else len(labelled.labels)
    if n * plan.training_size < _FEWEST or n * min(plan.calibration_size, plan.test_size) < 1:
        what = "rows" if labelled is None else f"clusters by {clusters!r}"
        raise ValueError(
            f"table must have more {what}: {n} leave about {n * plan.training_size:.0f} for training, which takes "
            f"{_FEWEST}, {n * plan.calibration_size:.0f} to calibrate and {n * plan.test_size:.0f} to judge"
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
    return training, _one_each(calibration, codes, rng), _one_each(test, codes, rng)


def _cluster_labels(table: Any, clusters: str) -> Groups:
    """Return the cluster of each row."""
    return Groups.from_labels(column(table, clusters, "clusters"), name=f"clusters: column {clusters!r}")


def _one_each(part: Part, codes: IntArray, rng: np.random.Generator) -> Part:
    """Return a row of each cluster, at random, in the order of the rows."""
    order = rng.permutation(len(part))
    rows = np.sort(order[np.unique(codes[part.positions][order], return_index=True)[1]])
    return Part(take(part.X, rows), take(part.y, rows), part.positions[rows])
