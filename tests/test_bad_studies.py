"""Bad input to studies and tables: one clear error each."""

from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from evencover import ByTarget, Marginal, Residual, recommend
from evencover.models import TableEncoder
from evencover.studies import Plan, study

N = 100
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": RNG.normal(size=N), "word": RNG.choice(["a", "b"], N), "y": RNG.normal(size=N)})
QUICK = Plan(model="linear")


def with_column(values):
    return study(TABLE.assign(new=values), "y", plan=QUICK)


CASES = {
    "no table": (lambda: study(np.zeros((9, 2)), "y"), r"table must be a pandas, polars or pyarrow table; got ndarray"),
    "lazy table": (lambda: study(pl.from_pandas(TABLE).lazy(), "y"), r"table must be a .* table; got LazyFrame"),
    "duplicate names": (
        lambda: study(pd.DataFrame(np.zeros((9, 2)), columns=["y", "y"]), "y"),
        r"table has duplicate column names: \['y'\]",
    ),
    "no such target": (
        lambda: study(TABLE, "z"),
        r"target: no column named 'z'; the columns are \['x', 'word', 'y'\]",
    ),
    "no such column to drop": (lambda: study(TABLE, "y", drop=["z"]), r"drop: no column named 'z'"),
    "no such category": (
        lambda: study(TABLE, "y", categorical=["z"]),
        r"categorical: no column named 'z'",
    ),
    "no such clusters": (lambda: study(TABLE, "y", clusters="z"), r"clusters: no column named 'z'"),
    "a text to drop": (
        lambda: study(TABLE, "y", drop="word"),
        r"drop must be a sequence of column names; got the text 'word'",
    ),
    "the target dropped": (lambda: study(TABLE, "y", drop=["y"]), r"drop must not name the target; got 'y'"),
    "nothing left": (
        lambda: study(TABLE, "y", drop=["x", "word"]),
        r"table must have at least one feature column; none is left after dropping the columns \['word', 'x', 'y'\]",
    ),
    "target of text": (lambda: study(TABLE, "word"), r"target: column 'word' must hold numbers; got '[ab]' in row 0"),
    "target missing": (
        lambda: study(TABLE.assign(y=TABLE["y"].where(TABLE.index != 7)), "y"),
        r"target: column 'y' must be finite; NaN or infinite values: 1 of 100 \(the first in row 7, counted from 0\)",
    ),
    "few rows": (
        lambda: study(TABLE[:20], "y"),
        r"more rows: of 20, about 8 are for training \(at least 10 are needed\), 8 for calibration and 4 for testing",
    ),
    "few clusters": (
        lambda: study(TABLE.assign(z=np.arange(N) // 10), "y", clusters="z"),
        r"table must have more clusters by 'z': of 10, about 4 are for training",
    ),
    "clusters missing": (
        lambda: study(TABLE.assign(z=["c", None] * 50), "y", clusters="z"),
        r"clusters: column 'z' must have a label for every row; missing labels: 50 of 100",
    ),
    "dates": (
        lambda: with_column(pd.date_range("2020", periods=N)),
        r"column 'new' holds dates or times: convert them to numbers, or drop the column",
    ),
    "dates as objects": (
        lambda: with_column(pd.date_range("2020", periods=N).date),
        r"column 'new' holds dates or times",
    ),
    "infinite": (
        lambda: with_column(np.where(np.arange(N) == 42, np.inf, 0.0)),
        r"column 'new' must have finite or missing values; infinite values: 1 \(the first in row 42, counted from 0\)",
    ),
    "names": (
        lambda: with_column([f"n{i}" for i in range(N)]),
        r"column 'new' holds text with 100 different values in 100 rows, like names",
    ),
    "numbers and another text": (
        lambda: with_column(["1", "2", "3", "?"] * 25),
        r"column 'new' holds numbers as text, and other text in 25 of 100 rows, such as '\?'",
    ),
    "lists": (lambda: with_column([[1, 2]] * N), r"column 'new' must hold numbers or text; got \[1, 2\] of type list"),
    "arrays": (lambda: with_column([np.zeros(2)] * N), r"column 'new' must hold numbers or text; got array"),
    "level": (lambda: Plan(level=90), r"level must lie strictly between 0 and 1; got 90; did you mean 0.9"),
    "tolerance": (lambda: Plan(tolerance=3), r"tolerance must be a number between 0 and 1"),
    "seed": (lambda: Plan(seed=-1), r"seed must be a whole number, 0 or more; got -1"),
    "large seed": (lambda: Plan(seed=2**32), r"seed must be a whole number below 4294967296; got 4294967296"),
    "shares": (
        lambda: Plan(calibration_size=0.8, test_size=0.2),
        r"calibration_size and test_size must leave rows for training; got 0.8 and 0.2",
    ),
    "share": (lambda: Plan(test_size=20), r"test_size must be a share of the rows, between 0 and 1; got 20"),
    "model by name": (lambda: Plan(model="bosting"), r"unknown model 'bosting'; did you mean 'boosting'"),
    "classifier": (
        lambda: Plan(model=LogisticRegression()),
        r"model must be a regressor; got the classifier LogisticRegression",
    ),
    "score by name": (lambda: Plan(nonconformity="residual"), r"nonconformity must be a score such as Residual\(\)"),
    "score by group": (
        lambda: Plan(nonconformity={"a": Residual()}),
        r"nonconformity must be a score such as Residual\(\)",
    ),
    "taxonomy by name": (lambda: Plan(taxonomy="spread"), r"taxonomy must be a taxonomy such as BySpread\(3\)"),
    "recommend a name": (
        lambda: recommend(LinearRegression(), TABLE[["x"]], TABLE["y"], nonconformity="residual"),
        r"nonconformity must be a score such as Residual\(\)",
    ),
    "recommend no rows": (
        lambda: recommend(LinearRegression(), TABLE[["x"]], TABLE["y"], calibration_rows=0),
        r"calibration_rows must be a positive whole number; got 0",
    ),
    "recommend by target": (
        lambda: recommend(LinearRegression(), TABLE[["x"]], TABLE["y"], taxonomy=ByTarget([0.0])),
        r"taxonomy must not depend on the target, because the interval widths cannot be compared then",
    ),
    "encoder, an unknown column": (
        lambda: TableEncoder(categorical=["z"]).fit(TABLE),
        r"categorical must name columns of X, which has \['x', 'word', 'y'\]; got \['z'\]",
    ),
    "encoder, a text": (
        lambda: TableEncoder(ignored="x").fit(TABLE),
        r"ignored must be a sequence of names of columns; got the text 'x'",
    ),
    "encoder, no categories": (
        lambda: TableEncoder(max_categories=0).fit(TABLE),
        r"max_categories must be a positive whole number; got 0",
    ),
    "encoder, text for numbers": (
        lambda: TableEncoder().fit(TABLE).transform(TABLE.assign(x="much")),
        r"column 'x' must hold numbers, as it did in fit; got 'much'",
    ),
    "encoder, dates": (
        lambda: TableEncoder().fit(pd.DataFrame({"day": pd.date_range("2020", periods=3)})),
        r"column 'day' must hold numbers or text; got dates or times, of type datetime64",
    ),
    "encoder, infinite": (
        lambda: TableEncoder().fit(pd.DataFrame({"x": [1.0, np.inf]})),
        r"column 'x' must have finite or missing values; infinite values: 1 \(the first in row 1, counted from 0\)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_error(case):
    attempt, message = CASES[case]
    with pytest.raises((TypeError, ValueError), match=message):
        attempt()


def test_a_level_is_a_number_whatever_it_was():
    assert isinstance(Plan(level=Fraction(9, 10)).level, float)
    assert Plan(taxonomy=Marginal()).level == 0.9
