"""TableEncoder."""

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from evencover.models import TableEncoder

ROWS = {
    "area": [50.0, None, 80.0, 65.0],
    "region": ["north", "south", None, "north"],
    "new": [True, None, False, True],
    "code": [3, 1, 3, 2],
}
TABLE = pd.DataFrame(
    {name: pd.Series(values, dtype=object if name == "new" else None) for name, values in ROWS.items()}
)


def test_the_encoding_of_a_small_table():
    encoder = TableEncoder(categorical=["code"]).fit(TABLE)
    assert encoder.get_feature_names_out().tolist() == [
        *("area", "area missing", "region=north", "region=south", "region missing", "new", "new missing"),
        *("code=3", "code=1", "code=2"),
    ]
    np.testing.assert_array_equal(
        encoder.transform(TABLE),
        [
            [50, 0, 1, 0, 0, 1, 0, 1, 0, 0],
            [65, 1, 0, 1, 0, 1, 1, 0, 1, 0],
            [80, 0, 0, 0, 1, 0, 0, 1, 0, 0],
            [65, 0, 1, 0, 0, 1, 0, 0, 0, 1],
        ],
    )


@pytest.mark.parametrize(
    "table",
    [
        pa.table(ROWS),
        pl.DataFrame(ROWS),
        TABLE,
        TABLE.convert_dtypes(),
        TABLE.astype({"region": "category"}),
        pa.table({**ROWS, "region": pa.array(ROWS["region"]).dictionary_encode()}),
        pa.table({**ROWS, "area": pa.array([None if x is None else decimal.Decimal(str(x)) for x in ROWS["area"]])}),
    ],
    ids=["pyarrow", "polars", "pandas", "pandas nullable", "pandas category", "pyarrow dictionary", "pyarrow decimal"],
)
def test_every_library_and_type_gives_the_same_numbers(table):
    expected = TableEncoder().fit_transform(TABLE)
    np.testing.assert_array_equal(TableEncoder().fit_transform(table), expected)
    np.testing.assert_array_equal(TableEncoder().fit(TABLE).transform(table), expected)


def test_the_encoding_equals_that_of_scikit_learn():
    """Imputation with indicators, and one-hot encoding with one column for rare values."""
    rng = np.random.default_rng(0)
    numbers = np.where(rng.random((300, 2)) < 0.2, np.nan, rng.normal(size=(300, 2)))
    words = rng.choice(list("abcdefgh"), 300, p=[0.3, 0.2, 0.15, 0.15, 0.1, 0.05, 0.03, 0.02])
    table = pd.DataFrame({"p": numbers[:, 0], "q": numbers[:, 1], "word": words})
    ours = TableEncoder(max_categories=4).fit(table[:200])
    theirs = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), ["p", "q"]),
            ("word", OneHotEncoder(max_categories=5, sparse_output=False), ["word"]),
        ]
    ).fit(table[:200])
    order = [0, 2, 1, 3]  # in ours, an indicator follows its column
    ours_now, theirs_now = ours.transform(table[200:]), theirs.transform(table[200:])
    np.testing.assert_array_equal(ours_now[:, :4], theirs_now[:, :4][:, order])
    assert sorted(map(tuple, ours_now[:, 4:].T)) == sorted(map(tuple, theirs_now[:, 4:].T))


def test_unseen_values_count_as_rare():
    table = pd.DataFrame({"word": ["a"] * 5 + ["b"] * 3 + ["c"]})
    few = TableEncoder(max_categories=2).fit(table)
    assert few.get_feature_names_out().tolist() == ["word=a", "word=b", "word other"]
    new = pd.DataFrame({"word": ["c", "z", None]})
    np.testing.assert_array_equal(few.transform(new), [[0, 0, 1], [0, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(TableEncoder().fit(table).transform(new), [[0, 0, 1], [0, 0, 0], [0, 0, 0]])


def test_unseen_values_are_outside():
    encoder = TableEncoder().fit(pd.DataFrame({"x": [1.0, 2.0], "word": ["a", "b"]}))
    assert not encoder.outside(pd.DataFrame({"x": [1.0], "word": ["a"]}))
    found = encoder.outside(pd.DataFrame({"x": [np.nan, 1.0, np.nan], "word": ["a", "z", "y"]}))
    assert [(each.name, each.rows.tolist(), each.example) for each in found.columns] == [
        ("x", [True, False, True], None),
        ("word", [False, True, True], "z"),
    ]


def test_columns_without_values():
    """New rows may have any: nothing was learned about them."""
    encoder = TableEncoder().fit(pd.DataFrame({"x": [np.nan, np.nan]}))
    for values in ([np.nan, 3.0], [None, "a"]):
        np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"x": values})), [[1], [0]])


def test_whole_numbers_are_the_same_category_as_floats():
    """Pandas converts whole numbers to floats if a value is missing."""
    encoder = TableEncoder(categorical=["code"]).fit(pd.DataFrame({"code": [1, 2, 2]}))
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"code": [2.0, np.nan]})), [[1, 0], [0, 0]])
