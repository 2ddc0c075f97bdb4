"""Bad input to studies and tables: one clear error each."""

from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from evencover import ByFeature, ByTarget, Marginal, OneSided, Residual, recommend
from evencover.models import TableEncoder
from evencover.studies import Plan, study

N = 100
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": RNG.normal(size=N), "word": RNG.choice(["a", "b"], N), "y": RNG.normal(size=N)})
DAYS = pd.DataFrame({"day": pd.date_range("2020", periods=3)})
QUICK = Plan(model="linear")


def with_column(values):
    return study(TABLE.assign(new=values), "y", plan=QUICK)


CASES = {
    "no table": (
        lambda: study(np.zeros((9, 2)), "y"),
        r"table must be a pandas, polars or pyarrow table, or a file, with the features and the target; got ndarray of "
        r"shape \(9, 2\). With an array, use study\(pandas.DataFrame\(array, columns=\[...\]\), 'y'\)$",
    ),
    "lazy table": (lambda: study(pl.from_pandas(TABLE).lazy(), "y"), r"table must be a .* type LazyFrame$"),
    "a column as the table": (lambda: study(TABLE["y"], "y"), r"table must be a .*; got Series of shape \(100,\)$"),
    "X, y": (
        lambda: study(TABLE[["x"]], TABLE["y"]),
        r"target must be the name of a column of the table; got Series of shape \(100,\). With features X and targets "
        r"y, use study\(X.assign\(y=y\), 'y'\)$",
    ),
    "X, y of no name": (
        lambda: study(TABLE[["x"]], TABLE["y"].to_numpy()),
        r"got ndarray of shape \(100,\). .* use study\(X.assign\(target=y\), 'target'\)$",
    ),
    "X, y with a space in its name": (
        lambda: study(TABLE[["x"]], TABLE[["y"]].set_axis(["a b"], axis=1)),
        r"use study\(X.assign\(\*\*{'a b': y}\), 'a b'\)$",
    ),
    "X, y of polars": (
        lambda: study(pl.from_pandas(TABLE[["x"]]), pl.Series("y", TABLE["y"].to_list())),
        r"use study\(X.with_columns\(polars.Series\('y', y\)\), 'y'\)$",
    ),
    "X, y of pyarrow": (
        lambda: study(pa.table({"x": [1.0]}), pa.array([2.0])),
        r"use study\(X.append_column\('target', \[y\]\), 'target'\)$",
    ),
    "X, y of numpy": (
        lambda: study(np.zeros((9, 2)), np.zeros(9)),
        r"table must be .*; got ndarray of shape \(9, 2\); target must be .*; got ndarray of shape \(9,\). With features X "
        r"and targets y, use study\(pandas.DataFrame\(X\).add_prefix\('x'\).assign\(target=y\), 'target'\)$",
    ),
    "the target's column": (
        lambda: study(TABLE, TABLE["y"]),
        r"target must be the name .* The table has this column, so use study\(table, 'y'\)$",
    ),
    "a list for the target": (lambda: study(TABLE, ["y"]), r"got \['y'\]. The table has .* study\(table, 'y'\)$"),
    "X, y in batches": (lambda: study(TABLE, TABLE["y"], output="y.csv"), r"^target must be the name of a column"),
    "no target named": (lambda: study(TABLE, None), r"target must be the name of a column of the table; got None$"),
    "a plan for the target": (
        lambda: study(TABLE, QUICK),
        r"target must be .* type Plan. Pass the plan by its name, after the target: study\(table, target, plan=Plan",
    ),
    "a dict for the plan": (
        lambda: study(TABLE, "y", plan={"level": 0.8}),
        r"^plan must be a Plan, such as Plan\(level=0.8\); got {'level': 0.8}$",
    ),
    "columns for names": (
        lambda: study(TABLE, "y", clusters=TABLE["word"], time=DAYS["day"]),
        r"clusters must be the name of a column of the table, .*; got Series of shape \(100,\); time must be the name",
    ),
    "None to drop": (lambda: study(TABLE, "y", drop=None), r"drop must be a sequence of column names; got None"),
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
    "target of text": (
        lambda: study(TABLE.assign(word=["a"] * 30 + ["b"] * 70), "word"),
        r"target: column 'word' must hold numbers; got 'b' \(70 rows\), 'a' \(30 rows\). To predict a class, use a classifier",
    ),
    "target of many texts": (
        lambda: study(TABLE.assign(word=[f"w{i % 20}" for i in range(N)]), "word"),
        r"must hold numbers; got 'w0' \(5 rows\), 'w1' \(5 rows\), 'w2' \(5 rows\) and 17 other texts",
    ),
    "target with units": (
        lambda: study(TABLE.assign(y=[f"{i} {'kg' if i % 2 else 'lb'}" for i in range(N)]), "y"),
        r"must hold numbers; got '0 lb' in row 0 \(counted from 0\); not numbers: 100 of 100 values. Correct these values",
    ),
    "target with units and a word": (
        lambda: study(TABLE.assign(y=[f"${i}" for i in range(N - 1)] + ["call us"]), "y"),
        r"must hold numbers; got 'call us' in row 99 \(counted from 0\)",
    ),
    "target with units and a number": (
        lambda: study(TABLE.assign(y=[f"{i} kg" for i in range(N - 1)] + ["12"]), "y"),
        r"must hold numbers; got '0 kg' in row 0 \(counted from 0\); not numbers: 99 of 100 values",
    ),
    "target with units and commas": (
        lambda: study(TABLE.assign(y=[f"1,{100 + i} kg" for i in range(N)]), "y"),
        r"must hold numbers; got '1,100 kg' in row 0",
    ),
    "target of numbers and a word": (
        lambda: study(TABLE.assign(y=["0.5", "big"] + ["0.23"] * 98), "y"),
        r"target: column 'y' must hold numbers; got 'big' in row 1 \(counted from 0\); not numbers: 1 of 100 values$",
    ),
    "target of dates": (
        lambda: study(TABLE.assign(y=pd.date_range("2020", periods=N)), "y"),
        r"target: column 'y' must hold numbers; got datetime.datetime\(2020, 1, 1, 0, 0\) in row 0",
    ),
    "target infinite": (
        lambda: study(TABLE.assign(y=TABLE["y"].where(TABLE.index != 7, np.inf)), "y"),
        r"target: column 'y' must be finite; infinite values: 1 of 100 \(the first in row 7, counted from 0\)",
    ),
    "no target anywhere": (
        lambda: study(TABLE.assign(y=np.nan), "y", missing_target="drop"),
        r"target: column 'y' must hold numbers; it has no value in any row",
    ),
    "copies": (
        lambda: study(TABLE, "y", copies="together"),
        r"unknown copies 'together'; .*choose one of: auto, drop, keep",
    ),
    "copies in batches": (
        lambda: study(TABLE, "y", copies="drop", output="intervals.csv"),
        r"copies='drop': for tables in memory only; leave output out",
    ),
    "missing_target": (
        lambda: study(TABLE, "y", missing_target="keep"),
        r"unknown missing_target 'keep'; .*choose one of: predict, drop, error",
    ),
    "target missing": (
        lambda: study(TABLE.assign(y=TABLE["y"].where(TABLE.index != 7)), "y", missing_target="error"),
        r"target: column 'y' has no value in 1 of 100 rows \(the first in row 7, counted from 0\): use "
        "missing_target='predict' or missing_target='drop'",
    ),
    "few rows": (
        lambda: study(TABLE[:13], "y", plan=Plan(calibration="split")),
        r"at least 10 rows to fit the model and 2 more to calibrate and test it; got 13, of which 9 would fit it and 4 "
        r"would be held out$",
    ),
    "few clusters": (
        lambda: study(TABLE.assign(z=np.arange(N) // 10), "y", plan=Plan(calibration="split"), clusters="z"),
        r"at least 10 clusters to fit the model and 2 more to calibrate and test it; got 10, of which 7 would fit it",
    ),
    "clusters missing": (
        lambda: study(TABLE.assign(z=["c", None] * 50), "y", clusters="z"),
        r"clusters: column 'z' must have a label in every row; missing: 50 of 100 \(the first in row 1, counted from 0\)",
    ),
    "no such time": (lambda: study(TABLE, "y", time="z"), r"time: no column named 'z'"),
    "a similar name": (
        lambda: study(TABLE, "y", drop=["wrd"]),
        r"no column named 'wrd'; did you mean 'word'\? the columns",
    ),
    "times of text": (
        lambda: study(TABLE, "y", time="word"),
        r"time: column 'word' must hold dates in one format, or numbers; got '[ab]'",
    ),
    "times missing": (
        lambda: study(TABLE.assign(z=[1.0, None] * 50), "y", time="z"),
        r"time: column 'z' must have a time in every row; missing: 50 of 100",
    ),
    "two times": (
        lambda: study(TABLE.assign(z=np.arange(N) // 50), "y", time="z"),
        "time must have at least 3 different times, to fit the model, to calibrate it and to test it; got 2",
    ),
    "few early rows": (
        lambda: study(TABLE.assign(z=np.repeat([1, 2, 3], (5, 45, 50))), "y", time="z"),
        r"time must have at least 10 rows to fit the model at the earliest times, and later times to calibrate and to "
        r"test it; got 5 rows$",
    ),
    "clusters and time": (
        lambda: study(TABLE.assign(z=np.arange(N)), "y", time="z", clusters="word"),
        r"clusters and time cannot be combined; got both",
    ),
    "clusters that are the time": (
        lambda: study(TABLE.assign(z=np.arange(N)), "y", time="z", clusters="z"),
        r"^clusters and time cannot be combined; got both$",
    ),
    "X and y in another order": (
        lambda: study(TABLE.drop(columns="y"), TABLE["y"][::-1]),
        r"Before X and y can be one table: y must have the index of X, in the same order",
    ),
    "kept and dropped": (
        lambda: study(TABLE, "y", keep=["x"], drop=["x"]),
        r"keep must not name a column that is dropped or holds the clusters; got 'x'",
    ),
    "nothing but ids": (
        lambda: study(TABLE[["y"]].assign(z=np.arange(N)), "y"),
        r"at least one feature column; none is left .*, and as ids: z \(row numbers from 0 to 99\): use keep=\['z'\]",
    ),
    "dates and a word": (
        lambda: with_column(["2020-01-01", "2020-02-01", "soon", "2020-03-01"] * 25),
        r"column 'new' holds dates such as '2020-01-01', and 'soon' in row 2 \(counted from 0\); not dates: 25 of 100 values",
    ),
    "durations": (
        lambda: with_column(pd.to_timedelta(np.arange(N), unit="D")),
        r"column 'new' must hold numbers, text or dates; got .*: use drop=\['new'\]",
    ),
    "infinite": (
        lambda: with_column(np.where(np.arange(N) == 42, np.inf, 0.0)),
        r"column 'new' must have finite or missing values; infinite values: 1 \(the first in row 42, counted from 0\)",
    ),
    "numbers and another text in too many rows": (
        lambda: with_column([str(i % 40) for i in range(N - 3)] + ["?"] * 3),
        r"column 'new' holds numbers, and '\?' in row 97 \(counted from 0\); not numbers: 3 of 100 values: use ",
    ),
    "a number for groups with another text": (
        lambda: study(
            TABLE.assign(new=[str(i % 4) for i in range(N - 1)] + ["?"]), "y", plan=Plan(taxonomy=ByFeature("new"))
        ),
        r"column 'new' holds numbers, and '\?' in row 99",
    ),
    "a time that is no number": (
        lambda: study(TABLE.assign(new=[str(i) for i in range(N - 1)] + ["late"]), "y", time="new"),
        r"time: column 'new' must have a time in every row; missing: 1 of 100 \(the first in row 99, counted from 0\)",
    ),
    "numbers and another text": (
        lambda: with_column(["1", "2", "3", "?"] * 25),
        r"column 'new' holds numbers, and '\?' in row 3 \(counted from 0\); not numbers: 25 of 100 values: use categorical=\['new'\] or drop=\['new'\]",
    ),
    "lists": (
        lambda: with_column([[1, 2]] * N),
        r"column 'new' must hold numbers, text or dates; got \[1, 2\] of type list in row 0",
    ),
    "arrays": (lambda: with_column([np.zeros(2)] * N), r"column 'new' must hold numbers, text or dates; got array"),
    "several problems": (
        lambda: study(
            TABLE.assign(y=TABLE["y"].where(TABLE.index != 7), a=["1", "2", "3", "?"] * 25, b=np.inf),
            "y",
            drop=["c"],
            missing_target="error",
        ),
        r"the table has 4 problems:\n- drop: no column named 'c'.*\n- target: .*\n- column 'a' .*\n- column 'b' ",
    ),
    "level": (lambda: Plan(level=90), r"level must lie strictly between 0 and 1; got 90; did you mean 0.9"),
    "side": (lambda: Plan(side="up"), r"side must be 'lower', 'upper' or None; got 'up'"),
    "side with tails": (
        lambda: Plan(side="lower", tails="separate"),
        r"tails must be 'joint' or None for lower bounds; got 'separate'",
    ),
    "side of the score": (
        lambda: Plan(nonconformity=OneSided(Residual(), side="lower"), side="upper"),
        r"side must be that of the score OneSided\(score=Residual\(\), side='lower'\); got 'upper'",
    ),
    "tails": (lambda: Plan(tails="two"), r"tails must be 'joint', 'separate' or None; got 'two'"),
    "training rows": (
        lambda: study(TABLE, "y", training_rows=9),
        r"^training_rows must be a whole number, 10 or more; got 9$",
    ),
    "tolerance": (lambda: Plan(tolerance=3), r"tolerance must be a number between 0 and 1"),
    "seed": (lambda: Plan(seed=-1), r"seed must be a whole number, 0 or more; got -1"),
    "large seed": (lambda: Plan(seed=2**32), r"seed must be a whole number below 4294967296; got 4294967296"),
    "share": (lambda: Plan(held_out=20), r"held_out must be a share of the rows, between 0 and 1; got 20"),
    "large share": (
        lambda: study(TABLE, "y", plan=Plan(held_out=0.95)),
        r"got 100, of which 5 would fit it and 95 would be held out, with held_out=0\.95$",
    ),
    "small share": (
        lambda: study(TABLE, "y", plan=Plan(held_out=0.01)),
        r"and 2 more to calibrate and test it; got 100, of which 99 would fit it",
    ),
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
    "encoder, other dates": (
        lambda: TableEncoder(dates={"day": "%d.%m.%Y"}).fit(pd.DataFrame({"day": ["1.2.2020", "2/1/2020"]})),
        r"column 'day' must hold dates in the format %d.%m.%Y; got '2/1/2020' in row 1 \(counted from 0\)",
    ),
    "encoder, text for dates": (
        lambda: TableEncoder().fit(DAYS).transform(DAYS.assign(day="soon")),
        r"column 'day' must hold dates, as it did in fit; got 'soon' in row 0",
    ),
    "encoder, dates of no column": (
        lambda: TableEncoder(dates={"date": "%Y"}).fit(DAYS),
        r"dates must name columns of X, which has \['day'\]; got \['date'\]",
    ),
    "encoder, durations": (
        lambda: TableEncoder().fit(pd.DataFrame({"time": pd.to_timedelta([1, 2], unit="D")})),
        r"column 'time' must hold numbers or text; got values of type timedelta64",
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
