"""SQL against Python: thresholds, intervals and calibration, run in DuckDB and SQLite; other dialects are parsed."""

import math
import sqlite3
from dataclasses import dataclass
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from evencover import (
    Bounded,
    BySpread,
    Groups,
    IntervalDistance,
    Intervals,
    Normalized,
    Prediction,
    RelativeIntervalDistance,
    Residual,
    Rows,
    Standardized,
    calibrate,
    conformal_quantile,
    conformal_rank,
    tables,
)
from evencover.calibration.sql import ThresholdSQL, calibrate_sql, threshold_sql
from evencover.calibration.table_columns import TableColumns
from tests.rounding import rounded_up

DIALECTS = ["bigquery", "duckdb", "postgres", "snowflake", "spark", "sqlite"]
SPREAD_SCORES = [
    Residual(),
    Normalized(),
    Normalized(floor=0.3, scale=0.7),
    Normalized(floor=0.3, epsilon=0.1, scale=0.7),
    Standardized(),
    Standardized(epsilon=0.1, scale=0.7),
]
BOUND_SCORES = [IntervalDistance(), RelativeIntervalDistance(), RelativeIntervalDistance(floor=0.5, scale=0.7)]
NO_BOUNDS = Bounded(Residual(), y_min=0)
HOSTILE = [
    "'",
    '"',
    "''",
    "`",
    "'; DROP TABLE t; --",
    '"; DROP TABLE t; --',
    "back\\slash",
    "ends with \\",
    "\\'",
    "\\n",
    "new\nline",
    "return\r",
    "\r\n",
    "tab\t",
    "bell\a",
    "\x1a",
    "\u2028",
    "é漢🙂",
    " a ",
    "a",
    "A",
    "100 %s %(x)s",
    "{x} {{y}} $1 ?1 :name @name #{z}",
    "$$",
    "--",
    "/* */",
    "null",
    "NULL",
    "NaN",
    "true",
    "0",
    "group",
    "long " * 400,
]


class Database:
    """A database in memory: stores columns of values, and returns the rows of a query."""

    def __init__(self, dialect):
        self.dialect = dialect
        self.connection = duckdb.connect() if dialect == "duckdb" else sqlite3.connect(":memory:")

    def store(self, table, columns):
        """Create a table from a mapping from name to (type, values)."""
        name = sqlglot.exp.Identifier(this=table, quoted=True).sql(self.dialect)
        identifiers = [sqlglot.exp.Identifier(this=each, quoted=True).sql(self.dialect) for each in columns]
        types = {"double": "DOUBLE", "int": "BIGINT", "text": "TEXT", "bool": "BOOLEAN"}
        definition = ", ".join(f"{i} {types[kind]}" for i, (kind, _) in zip(identifiers, columns.values(), strict=True))
        self.connection.execute(f"CREATE TABLE {name} ({definition})")
        rows = list(zip(*(values for _, values in columns.values()), strict=True))
        marks = f"({', '.join('?' * len(columns))})"
        for part in (rows[start : start + 500] for start in range(0, len(rows), 500)):
            values = [each.item() if isinstance(each, np.generic) else each for row in part for each in row]
            self.connection.execute(f"INSERT INTO {name} VALUES {', '.join([marks] * len(part))}", values)  # noqa: S608

    def rows(self, query):
        return [tuple(row) for row in self.connection.execute(query).fetchall()]

    def columns(self, query):
        """Return each column of numbers of a query as an array; NULL becomes NaN."""
        return np.array(self.rows(query), dtype=float).T

    def evaluate(self, table, order, *expressions):
        """Return the values of expressions in the rows of a table."""
        return self.columns(f"SELECT {', '.join(expressions)} FROM {table} ORDER BY {order}")  # noqa: S608


@pytest.fixture(params=["duckdb", "sqlite"])
def database(request):
    return Database(request.param)


def predictions(rng, n, *, bounds):
    """Return centers, and spreads or bounds of which a third cross."""
    center = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n)
    spread = np.exp(rng.normal(size=n))
    if not bounds:
        return {"center": center, "spread": spread}
    return {"lower": center, "upper": center + spread * rng.choice([-1, 1, 1], n)}


def prediction_of(columns):
    return Prediction.from_quantiles(**columns) if "lower" in columns else Prediction(**columns)


def doubles(columns):
    return {name: ("double", values) for name, values in columns.items()}


def random_doubles(n):
    """Return finite numbers of all sizes: random bits, small ones, denormal ones, and the extremes."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 2 * n, dtype=np.uint64).view(float)
    usual = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
    denormal = rng.integers(1, 2**52, n // 4, dtype=np.uint64).view(float)
    extremes = [0.0, 0.1, 1e-300, 1e300, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1e22, 2.0**62]
    return np.concatenate([bits[np.isfinite(bits)][:n], usual, denormal, extremes])


def as_bits(values):
    return np.asarray(values, dtype=float).view(np.uint64)


# Numbers


def test_every_number_is_exact_in_the_database(database):
    """Thresholds come back bit for bit, also denormal ones; SQLite 3.40 misreads 1 in 200 decimals."""
    values = random_doubles(300)
    columns = TableColumns(center="c", group="g")
    labels = tuple(range(len(values)))
    sql = threshold_sql(NO_BOUNDS, labels, labels, values, level=0.9, columns=columns, dialect=database.dialect)
    rows = database.rows(sql.table)
    assert [row[:2] for row in rows] == [(label, label) for label in labels]
    np.testing.assert_array_equal(as_bits([row[2] for row in rows]), as_bits(values))


def test_infinite_thresholds_are_infinities_of_the_database(database):
    """Infinities are numbers: they compare with every other number."""
    columns = TableColumns(center="c", group="g")
    thresholds = [np.inf, -np.inf, 0.0]
    sql = threshold_sql(
        Residual(), ("a", "b", "c"), (0, 1, 9), thresholds, level=0.9, columns=columns, dialect=database.dialect
    )
    assert database.rows(sql.table) == [("a", 0, np.inf), ("b", 1, -np.inf), ("c", 9, 0.0)]
    above = database.rows(f"SELECT threshold > 1e308, threshold < -1e308 FROM ({sql.table}) AS t")  # noqa: S608
    assert [tuple(map(bool, row)) for row in above] == [(True, False), (False, True), (False, False)]


# Intervals


@pytest.mark.parametrize("score", [*SPREAD_SCORES, *BOUND_SCORES], ids=str)
def test_bounds_equal_those_of_python_in_every_bit(score, database):
    """Several groups, some without enough rows; infinite, negative and zero thresholds; crossing bounds."""
    rng = np.random.default_rng(1)
    columns = predictions(rng, 400, bounds=score in BOUND_SCORES)
    names = TableColumns(**{role: role for role in columns}, group="g")
    labels = ("ordinary", "few rows", "none", "negative", "zero", "tiny", "huge", "nothing covers")
    thresholds = np.array([rng.random(), np.inf, np.inf, -rng.random(), 0.0, 1e-300, 1e12, -np.inf])
    codes = rng.integers(0, len(labels), 400)
    database.store("t", {"i": ("int", range(400)), "g": ("text", np.array(labels)[codes]), **doubles(columns)})
    sql = threshold_sql(score, labels, [9] * 8, thresholds, level=0.9, columns=names, dialect=database.dialect)
    lower, upper, threshold = database.evaluate("t", "i", sql.lower, sql.upper, sql.threshold)
    expected = score.interval(thresholds[codes], prediction_of(columns))
    np.testing.assert_array_equal(threshold, thresholds[codes])
    np.testing.assert_array_equal(as_bits(lower + 0.0), as_bits(expected.lower + 0.0))
    np.testing.assert_array_equal(as_bits(upper + 0.0), as_bits(expected.upper + 0.0))


@pytest.mark.parametrize("score", [Normalized(), IntervalDistance()], ids=str)
def test_a_calibration_gives_the_same_intervals_in_the_database(score, database):
    """From the scores of calibration rows to intervals of new rows: groups of 0, 1, 8, 9, 30 and 200 rows."""
    rng = np.random.default_rng(2)
    labels, sizes = ("0", "1", "8", "9", "30", "200"), (0, 1, 8, 9, 30, 200)
    groups = Groups(np.repeat(np.arange(6), sizes), labels)
    old, new = (predictions(rng, n, bounds=score == IntervalDistance()) for n in (248, 300))
    calibration = calibrate(rng.normal(size=248), prediction_of(old), nonconformity=score, groups=groups)
    with pytest.warns(UserWarning, match="rows"):
        thresholds = calibration.threshold(0.9)
    codes = rng.integers(0, 6, 300)
    database.store("t", {"i": ("int", range(300)), "g": ("text", np.array(labels)[codes]), **doubles(new)})
    names = TableColumns(**{role: role for role in new}, group="g")
    sql = threshold_sql(score, labels, sizes, thresholds, level=0.9, columns=names, dialect=database.dialect)
    with pytest.warns(UserWarning, match="rows"):
        expected = calibration.interval(prediction_of(new), groups=Groups(codes, labels), level=0.9)
    lower, upper = database.evaluate("t", "i", sql.lower, sql.upper)
    np.testing.assert_array_equal(lower, expected.lower)
    np.testing.assert_array_equal(upper, expected.upper)
    assert np.isinf(upper).any()
    assert np.isfinite(upper).any()


def test_the_joined_table_gives_the_thresholds_of_the_expression(database):
    """One row per group, with its number of calibration rows."""
    labels, thresholds = ("a", "b", "c"), [1.25, np.inf, -0.1]
    columns = TableColumns(center="x", group="g")
    groups = [*"abcacb", None, "unseen"]
    database.store("t", {"i": ("int", range(8)), "g": ("text", groups), "x": ("double", [0.0] * 8)})
    sql = threshold_sql(
        Residual(), labels, (9, 2, 30), thresholds, level=0.9, columns=columns, dialect=database.dialect
    )
    joined = f'(t LEFT JOIN ({sql.table}) AS s ON t.g = s."group")'
    joined, rows, expression = database.evaluate(joined, "i", "s.threshold", "s.calibration_rows", sql.threshold)
    np.testing.assert_array_equal(joined, expression)
    np.testing.assert_array_equal(rows[:6], [9, 2, 30, 9, 30, 2])
    np.testing.assert_array_equal(joined, [1.25, np.inf, -0.1, 1.25, -0.1, np.inf, np.nan, np.nan])


def test_more_groups_than_sqlite_allows_in_one_union(database):
    """700 groups: the table is a union of unions."""
    labels = tuple(f"group {i}" for i in range(700))
    columns = TableColumns(center="x", group="g")
    sql = threshold_sql(
        NO_BOUNDS, labels, range(700), np.arange(700.0), level=0.9, columns=columns, dialect=database.dialect
    )
    assert database.rows(sql.table) == [(label, i, float(i)) for i, label in enumerate(labels)]
    database.store("t", {"i": ("int", range(700)), "g": ("text", labels), "x": ("double", [0.0] * 700)})
    np.testing.assert_array_equal(database.evaluate("t", "i", sql.threshold)[0], np.arange(700.0))


def test_without_groups_the_threshold_is_a_number(database):
    """One group with the name 'all', and no column of groups."""
    columns = TableColumns(center="x")
    sql = threshold_sql(Residual(), ("all",), (20,), [0.1], level=0.9, columns=columns, dialect=database.dialect)
    database.store("t", {"i": ("int", range(3)), "x": ("double", [1.0, -2.0, 1e6])})
    threshold, lower, upper = database.evaluate("t", "i", sql.threshold, sql.lower, sql.upper)
    expected = Residual().interval(0.1, Prediction([1.0, -2.0, 1e6]))
    assert set(threshold) == {0.1}
    np.testing.assert_array_equal(lower, expected.lower)
    np.testing.assert_array_equal(upper, expected.upper)
    assert "CASE" not in sql.threshold
    assert database.rows(sql.table) == [("all", 20, 0.1)]


@pytest.mark.parametrize(("unseen", "value"), [("null", np.nan), ("inf", np.inf), ("marginal", 2.5)])
@pytest.mark.parametrize(
    ("kind", "labels", "groups"),
    [
        ("text", ("a", "b"), ["a", "c", None, "b"]),
        ("int", (1, 2), [1, 3, None, 2]),
        ("double", (0.5, np.inf), [0.5, 7.5, None, np.inf]),
        ("double", (0.5, np.inf), [0.5, 7.5, np.nan, np.inf]),
    ],
)
def test_unseen_and_missing_groups(unseen, value, kind, labels, groups, database):
    """An unseen group gets NULL, infinity or the marginal threshold; a missing group always gets NULL."""
    columns = TableColumns(center="x", group="g")
    sql = threshold_sql(
        Residual(),
        labels,
        (9, 9),
        [1.0, 2.0],
        level=0.9,
        columns=columns,
        dialect=database.dialect,
        unseen=unseen,
        marginal=2.5,
    )
    database.store("t", {"i": ("int", range(4)), "g": (kind, groups), "x": ("double", [0.0] * 4)})
    threshold, lower, upper = database.evaluate("t", "i", sql.threshold, sql.lower, sql.upper)
    np.testing.assert_array_equal(threshold, [1.0, value, np.nan, 2.0])
    np.testing.assert_array_equal(np.isnan(lower), np.isnan(threshold))
    np.testing.assert_array_equal(np.isnan(upper), np.isnan(threshold))


def test_booleans_and_integers_as_labels(database):
    """Groups of booleans and of large and negative integers."""
    for table, kind, labels in (("b", "bool", (False, True)), ("n", "int", (-5, 2**62))):
        columns = TableColumns(center="x", group="g")
        sql = threshold_sql(
            Residual(), labels, (9, 9), [1.0, 2.0], level=0.9, columns=columns, dialect=database.dialect
        )
        rows = [labels[1], labels[0], None]
        database.store(table, {"i": ("int", range(3)), "g": (kind, rows), "x": ("double", [0.0] * 3)})
        np.testing.assert_array_equal(database.evaluate(table, "i", sql.threshold)[0], [2.0, 1.0, np.nan])
        assert [row[0] for row in database.rows(sql.table)] == list(labels)


def test_rows_that_python_rejects_have_no_bounds(database):
    """Missing predictions, and spreads that are zero, negative, infinite or missing, give NULL for both bounds."""
    spread = [1.0, 0.0, -1.0, np.inf, None, np.nan, 1.0]
    center = [0.0] * 6 + [None]
    database.store("t", {"i": ("int", range(7)), "c": ("double", center), "s": ("double", spread)})
    columns = TableColumns(center="c", spread="s")
    for score in (Normalized(), Standardized()):
        sql = threshold_sql(score, ("all",), (9,), [np.inf], level=0.9, columns=columns, dialect=database.dialect)
        bounds = database.evaluate("t", "i", sql.lower, sql.upper)
        np.testing.assert_array_equal(np.isnan(bounds), [[False, *[True] * 6]] * 2)
    bounds = {"c": [1.0, 1.0, None, np.nan, 1.0], "s": [2.0, None, 2.0, 2.0, np.nan]}
    database.store("u", {"i": ("int", range(5)), **doubles(bounds)})
    columns = TableColumns(lower="c", upper="s")
    sql = threshold_sql(IntervalDistance(), ("all",), (9,), [1.0], level=0.9, columns=columns, dialect=database.dialect)
    np.testing.assert_array_equal(
        np.isnan(database.evaluate("u", "i", sql.lower, sql.upper)), [[False, *[True] * 4]] * 2
    )


def test_integer_columns_are_numbers(database):
    """Targets and predictions of whole numbers are not divided as integers, and do not overflow."""
    y, center, spread = [7, 1, 12, -(2**62) - 1, 2**53 + 1], [2, 3, 4, 2**62, 1], [2, 3, 7, 3, 3]
    table = {"i": range(5), "y": y, "c": center, "s": spread}
    database.store("t", {name: ("int", values) for name, values in table.items()})
    columns = TableColumns(center="c", spread="s")
    sql = threshold_sql(Normalized(), ("all",), (9,), [1 / 3], level=0.9, columns=columns, dialect=database.dialect)
    expected = Normalized().interval(1 / 3, Prediction(center, spread))
    np.testing.assert_array_equal(database.evaluate("t", "i", sql.lower, sql.upper), [expected.lower, expected.upper])
    query = calibrate_sql("t", target="y", center="c", spread="s", level=0.5, dialect=database.dialect)
    scores = Normalized()(np.array(y, dtype=float), Prediction(center, spread))
    assert database.rows(query) == [("all", 5, conformal_quantile(scores, 0.5), 0)]
    query = calibrate_sql("t", target="y", center="c", level=0.8, dialect=database.dialect)
    assert database.rows(query) == [("all", 5, 2.0**63, 0)]


# Calibration inside the database


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.29, Fraction(2, 3), 0.999999])
def test_thresholds_computed_in_the_database_are_the_conformal_quantiles(level, database):
    """Groups of 1 to 40 rows: every edge of the rank, with infinite thresholds for small groups."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(1, 41), np.arange(1, 41))
    columns = predictions(rng, len(groups), bounds=False)
    y = rng.normal(size=len(groups))
    order = rng.permutation(len(groups))
    table = {"g": ("int", groups[order]), **doubles({name: v[order] for name, v in {"y": y, **columns}.items()})}
    database.store("t", table)
    query = calibrate_sql(
        "t", target="y", center="center", spread="spread", group="g", level=level, dialect=database.dialect
    )
    scores = Normalized()(y, prediction_of(columns))
    expected = [(n, n, conformal_quantile(scores[groups == n], level), 0) for n in range(1, 41)]
    assert sorted(database.rows(query)) == expected
    assert any(math.isfinite(row[2]) for row in expected) == (conformal_rank(40, level) <= 40)


@pytest.mark.parametrize("score", [*SPREAD_SCORES, *BOUND_SCORES], ids=str)
def test_every_score_is_computed_as_in_python(score, database):
    """Thresholds of all ranks of one group: every score of the database equals that of Python."""
    rng = np.random.default_rng(4)
    columns = predictions(rng, 12, bounds=score in BOUND_SCORES)
    y = columns.get("center", columns.get("lower")) + rng.normal(size=12)
    database.store("t", doubles({"y": y, **columns}))
    roles = {role: role for role in columns}
    found = [
        database.rows(
            calibrate_sql(
                "t", target="y", **roles, level=Fraction(k, 13), nonconformity=score, dialect=database.dialect
            )
        )
        for k in range(1, 13)
    ]
    expected = np.sort(score(y, prediction_of(columns)))
    np.testing.assert_array_equal(as_bits([rows[0][2] + 0.0 for rows in found]), as_bits(expected + 0.0))


def test_the_default_score_is_that_of_the_columns(database):
    """A center: `Residual`. With a spread: `Normalized`. Bounds: `IntervalDistance`."""
    database.store("t", doubles({"y": [5.0], "c": [1.0], "s": [2.0]}))
    for roles, expected in (
        ({"center": "c"}, 4.0),
        ({"center": "c", "spread": "s"}, 2.0),
        ({"lower": "c", "upper": "s"}, 3.0),
    ):
        query = calibrate_sql("t", target="y", **roles, level=0.5, dialect=database.dialect)
        assert database.rows(query) == [("all", 1, expected, 0)]


def test_ties_signed_zeros_and_infinite_scores(database):
    """Tied scores count once per row; -0.0 equals 0.0; infinite scores are the largest and smallest ones."""
    y = {
        "ties": [1.0, 1.0, 1.0, 2.0, 2.0],
        "zeros": [0.0, -0.0, 0.0, -0.0, -1.0],
        "infinite": [1.0, np.inf, np.inf, -np.inf, 2.0],
    }
    groups = np.repeat(list(y), 5)
    table = {
        "g": ("text", groups),
        **doubles({"y": np.concatenate(list(y.values())), "c": [0.0] * 15, "s": [1.0] * 15}),
    }
    database.store("t", table)
    for level in (0.1, 0.3, 0.5, 0.6, 0.8, 0.9):
        query = calibrate_sql(
            "t",
            target="y",
            center="c",
            spread="s",
            group="g",
            level=level,
            nonconformity=Standardized(),
            dialect=database.dialect,
        )
        expected = [(g, 5, conformal_quantile(scores, level), 0) for g, scores in sorted(y.items())]
        assert sorted(database.rows(query)) == expected


def test_missing_scores_and_groups_have_no_threshold(database):
    """NULL and NaN, and spreads that are not positive, count as missing: the group has no threshold, others have."""
    rows = [
        ("complete", 1.0, 0.0, 1.0),
        ("complete", 2.0, 0.0, 1.0),
        ("no target", None, 0.0, 1.0),
        ("no target", 1.0, 0.0, 1.0),
        ("NaN", np.nan, 0.0, 1.0),
        ("no center", 1.0, None, 1.0),
        ("zero spread", 1.0, 0.0, 0.0),
        ("zero spread", 0.0, 0.0, 0.0),
        ("negative spread", 1.0, 0.0, -1.0),
        ("infinite spread", 1.0, 0.0, np.inf),
        (None, 1.0, 0.0, 1.0),
        (None, 2.0, 0.0, 1.0),
    ]
    group, y, center, spread = zip(*rows, strict=True)
    database.store("t", {"g": ("text", group), **doubles({"y": y, "c": center, "s": spread})})
    query = calibrate_sql("t", target="y", center="c", spread="s", group="g", level=0.5, dialect=database.dialect)
    assert {row[0]: row[1:] for row in database.rows(query)} == {
        "complete": (2, 2.0, 0),
        "no target": (2, None, 1),
        "NaN": (1, None, 1),
        "no center": (1, None, 1),
        "zero spread": (2, None, 2),
        "negative spread": (1, None, 1),
        "infinite spread": (1, None, 1),
        None: (2, None, 0),
    }
    floor = Normalized(floor=0.5, scale=1.0)
    query = calibrate_sql(
        "t", target="y", center="c", spread="s", group="g", level=0.5, nonconformity=floor, dialect=database.dialect
    )
    found = {row[0]: row[1:] for row in database.rows(query)}
    assert (found["zero spread"], found["negative spread"]) == ((2, 2.0, 0), (1, 2.0, 0))


@pytest.mark.parametrize("missing", ["lower", "upper"])
def test_one_missing_bound_is_a_missing_score(missing, database):
    """The larger of two distances is not the one that happens to be known."""
    bounds = {"lower": [0.0, 0.0], "upper": [1.0, 1.0]} | {missing: [0.5, None]}
    database.store("t", doubles({"y": [5.0, 5.0], **bounds}))
    for score in BOUND_SCORES:
        query = calibrate_sql(
            "t", target="y", lower="lower", upper="upper", level=0.5, nonconformity=score, dialect=database.dialect
        )
        assert database.rows(query) == [("all", 2, None, 1)]


def test_a_table_without_rows(database):
    """Without groups, the threshold of no rows is infinite; with groups, there is no group."""
    database.store("t", {"g": ("text", []), **doubles({"y": [], "c": []})})
    query = calibrate_sql("t", target="y", center="c", dialect=database.dialect)
    assert database.rows(query) == [("all", 0, np.inf, 0)]
    assert database.rows(calibrate_sql("t", target="y", center="c", group="g", dialect=database.dialect)) == []


def test_calibration_and_intervals_agree(database):
    """The two queries belong together: thresholds of one, as literals of the other."""
    rng = np.random.default_rng(5)
    y, groups = rng.normal(size=60), rng.choice(["a", "b", "c"], 60)
    database.store("t", {"g": ("text", groups), **doubles({"y": y, "c": np.zeros(60)})})
    rows = sorted(database.rows(calibrate_sql("t", target="y", center="c", group="g", dialect=database.dialect)))
    calibration = calibrate(y, np.zeros(60), groups=groups)
    assert tuple(row[0] for row in rows) == calibration.labels
    assert tuple(row[1] for row in rows) == tuple(calibration.sizes.values())
    np.testing.assert_array_equal([row[2] for row in rows], calibration.threshold(0.9))


# Hostile names


def test_hostile_labels(database):
    """Every label reaches its own group, and nothing else happens to the database."""
    thresholds = np.arange(len(HOSTILE)) + 0.5
    columns = TableColumns(center="x", group="g")
    database.store(
        "t", {"i": ("int", range(len(HOSTILE) + 1)), "g": ("text", ["", *HOSTILE]), **doubles({"x": [0.0] * 34})}
    )
    labels = ("", *HOSTILE)
    sql = threshold_sql(
        Residual(), labels, [1] * 34, [0.0, *thresholds], level=0.9, columns=columns, dialect=database.dialect
    )
    np.testing.assert_array_equal(database.evaluate("t", "i", sql.threshold)[0], [0.0, *thresholds])
    assert tuple(row[0] for row in database.rows(sql.table)) == labels
    query = calibrate_sql("t", target="x", center="x", group="g", dialect=database.dialect)
    assert {row[0] for row in database.rows(query)} == set(labels)
    assert database.rows("SELECT COUNT(*) FROM t") == [(34,)]


@pytest.mark.parametrize("name", [*HOSTILE[:-1], "scores", "SCORES", "part", "calibration", "n", "score", "position"])
def test_hostile_names_of_tables_and_columns(name, database):
    """Names are quoted; a table or column may have a name that the queries use themselves."""
    names = {role: f"{name}{i}" if i else name for i, role in enumerate(("group", "target", "center", "spread"))}
    values = {"group": ["a", "a"], "target": [3.0, 5.0], "center": [1.0, 1.0], "spread": [2.0, 4.0]}
    kinds = {"group": "text"}
    database.store(name, {names[role]: (kinds.get(role, "double"), each) for role, each in values.items()})
    query = calibrate_sql(name, **names, level=0.5, dialect=database.dialect)
    assert database.rows(query) == [("a", 2, 1.0, 0)]
    columns = TableColumns(center=names["center"], spread=names["spread"], group=names["group"])
    sql = threshold_sql(Normalized(), ("a",), (2,), [1.0], level=0.5, columns=columns, dialect=database.dialect)
    table = sqlglot.exp.Identifier(this=name, quoted=True).sql(database.dialect)
    lower, upper, threshold = database.evaluate(table, sql.upper, sql.lower, sql.upper, sql.threshold)
    expected = Normalized().interval(1.0, Prediction([1.0, 1.0], [2.0, 4.0]))
    np.testing.assert_array_equal([lower, upper, threshold], [expected.lower, expected.upper, [1.0, 1.0]])


def test_a_text_is_one_name_and_a_sequence_a_qualified_name(database):
    """A dot in a text is a part of the name."""
    database.store("main.t", doubles({"y": [1.0], "c": [0.0]}))
    database.store("t", doubles({"y": [2.0], "c": [0.0]}))
    for table, expected in (("main.t", 1.0), (("main", "t"), 2.0), (["t"], 2.0)):
        query = calibrate_sql(table, target="y", center="c", level=0.5, dialect=database.dialect)
        assert database.rows(query) == [("all", 1, expected, 0)]


def test_unknown_columns_are_errors(database):
    """SQLite takes an unknown name in double quotes for a text, so names are in other quotes there."""
    database.store("t", doubles({"y": [1.0], "c": [0.0]}))
    error = duckdb.Error if database.dialect == "duckdb" else sqlite3.Error
    query = calibrate_sql("t", target="y", center="c", group="no_such_column", dialect=database.dialect)
    with pytest.raises(error, match="no_such_column"):
        database.rows(query)
    columns = TableColumns(center="centre", group="no_such_column")
    sql = threshold_sql(Residual(), ("a",), (9,), [1.0], level=0.9, columns=columns, dialect=database.dialect)
    for expression, name in ((sql.threshold, "no_such_column"), (sql.lower, "centre|no_such_column")):
        with pytest.raises(error, match=name):
            database.evaluate("t", "y", expression)


def test_text_in_sqlite_is_not_a_number():
    """SQLite stores text in columns of numbers and would turn it into 0; here its score is missing."""
    database = Database("sqlite")
    database.store("t", doubles({"y": [1.0, 2.0, ""], "c": [0.0, "?", 0.0]}))
    query = calibrate_sql("t", target="y", center="c", level=0.5, dialect="sqlite")
    assert database.rows(query) == [("all", 3, None, 2)]


# All dialects


@pytest.mark.parametrize("dialect", DIALECTS)
def test_labels_read_back_in_every_dialect(dialect):
    """The parser of each dialect returns the labels that were written."""
    columns = TableColumns(center="c", spread="s", group="g")
    sql = threshold_sql(
        Normalized(),
        tuple(HOSTILE),
        [1] * len(HOSTILE),
        [1.0] * len(HOSTILE),
        level=0.9,
        columns=columns,
        dialect=dialect,
    )
    table = sqlglot.parse_one(sql.table, dialect=dialect)
    read = {each.this for each in table.find_all(sqlglot.exp.Literal) if each.is_string}
    assert read >= set(HOSTILE)
    threshold = sqlglot.parse_one(sql.threshold, dialect=dialect)
    assert [each.this.expression.this for each in threshold.args["ifs"]] == HOSTILE
    for expression in (sql.lower, sql.upper):
        assert isinstance(sqlglot.parse_one(expression, dialect=dialect), sqlglot.exp.Case)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_read_back_in_every_dialect(dialect):
    """The same for the names of tables and columns, in the query and in the expressions."""
    for start in range(0, len(HOSTILE), 4):
        table, target, center, group = (HOSTILE * 2)[start : start + 4]
        query = calibrate_sql(("s", table), target=target, center=center, group=group, dialect=dialect)
        parsed = sqlglot.parse_one(query, dialect=dialect)
        assert table in {each.name for each in parsed.find_all(sqlglot.exp.Table) if each.db == "s"}
        assert {target, center, group} <= {each.name for each in parsed.find_all(sqlglot.exp.Column)}
    for name in HOSTILE:
        columns = TableColumns(center=name)
        sql = threshold_sql(Residual(), ("all",), (9,), [1.0], level=0.9, columns=columns, dialect=dialect)
        parsed = sqlglot.parse_one(sql.lower, dialect=dialect)
        assert {each.name for each in parsed.find_all(sqlglot.exp.Column)} == {name}


@pytest.mark.parametrize("dialect", [each for each in DIALECTS if each != "sqlite"])
def test_numbers_are_texts_cast_to_double_precision(dialect):
    """The text of a number is Python's shortest one, which stands for this number only; infinity is 'inf'."""
    values = [0.1, -1e-300, 5e-324, 1.7976931348623157e308, np.inf, -np.inf]
    columns = TableColumns(center="c", group="g")
    sql = threshold_sql(Residual(), tuple("abcdef"), [1] * 6, values, level=0.9, columns=columns, dialect=dialect)
    casts = [each.args["true"] for each in sqlglot.parse_one(sql.threshold, dialect=dialect).args["ifs"]]
    assert [float(each.this.this) for each in casts] == values
    assert all(each.this.is_string and each.is_type("double") for each in casts)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_booleans_are_those_of_the_dialect(dialect):
    """TRUE and FALSE, but 1 and 0 in SQLite."""
    columns = TableColumns(center="c", group="g")
    sql = threshold_sql(Residual(), (False, True), (1, 1), [1.0, 2.0], level=0.9, columns=columns, dialect=dialect)
    literals = [each.this.expression for each in sqlglot.parse_one(sql.threshold, dialect=dialect).args["ifs"]]
    kind = sqlglot.exp.Literal if dialect == "sqlite" else sqlglot.exp.Boolean
    assert [each.to_py() for each in literals] == [False, True]
    assert all(isinstance(each, kind) for each in literals)


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "spark"])
def test_backslashes_are_doubled_where_they_escape(dialect):
    """A label that ends with a backslash does not end the quote."""
    columns = TableColumns(center="c", group="g")
    labels = ("a\\", "\\'", "b\nc")
    sql = threshold_sql(Residual(), labels, [1] * 3, [1.0] * 3, level=0.9, columns=columns, dialect=dialect)
    assert r"'a\\'" in sql.threshold
    assert r"'\\\''" in sql.threshold
    assert r"'b\nc'" in sql.threshold


def test_the_result_has_the_dialect_and_the_level():
    """The result is a frozen value."""
    columns = TableColumns(center="c")
    sql = threshold_sql(Residual(), ("all",), (9,), [1.0], level=Fraction(9, 10), columns=columns, dialect="postgres")
    assert isinstance(sql, ThresholdSQL)
    assert (sql.dialect, sql.level) == ("postgres", 0.9)
    with pytest.raises(AttributeError):
        sql.level = 0.5


@pytest.mark.parametrize("dialect", DIALECTS)
def test_other_scores_have_thresholds_but_no_bounds(dialect):
    """A score without a formula, also a subclass, has no bounds in SQL, and cannot be calibrated there."""

    class Own(Residual):
        def interval(self, threshold, prediction):
            return super().interval(threshold / 2, prediction)

    for score in (Bounded(Residual(), y_min=0), Own()):
        sql = threshold_sql(score, ("all",), (9,), [1.0], level=0.9, columns=TableColumns(center="c"), dialect=dialect)
        assert (sql.lower, sql.upper) == (None, None)
        assert sql.threshold
        with pytest.raises(ValueError, match="nonconformity must have a formula for SQL, as Residual, "):
            calibrate_sql("t", target="y", center="c", nonconformity=score, dialect=dialect)


# Errors


def settings(**changed):
    """Return valid arguments of `threshold_sql`, some of them changed."""
    given = {
        "nonconformity": Residual(),
        "labels": ("a", "b"),
        "sizes": (1, 2),
        "thresholds": [1.0, 2.0],
        "level": 0.9,
        "columns": TableColumns(center="c", group="g"),
        "dialect": "duckdb",
    }
    return given | changed


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"dialect": "mysql"}, ValueError, "unknown SQL dialect 'mysql'; .*bigquery, duckdb, postgres, snowflake"),
        ({"dialect": "postgresql"}, ValueError, "did you mean 'postgres'"),
        ({"nonconformity": {"a": Residual(), "b": Normalized()}}, ValueError, "SQL needs one score for all groups"),
        ({"nonconformity": Residual}, TypeError, "nonconformity must be a score"),
        ({"nonconformity": Normalized()}, ValueError, "Normalized needs a column for spread; got columns for center"),
        ({"nonconformity": IntervalDistance()}, ValueError, "IntervalDistance needs a column for lower"),
        (
            {"columns": TableColumns(lower="l", upper="u", group="g")},
            ValueError,
            "Residual needs a column for center; got columns for lower, upper",
        ),
        (
            {"nonconformity": Normalized(floor=0.1), "columns": TableColumns(center="c", spread="s", group="g")},
            ValueError,
            "the scale is missing",
        ),
        ({"columns": TableColumns(center="c")}, ValueError, "columns must name the group, because there are 2 groups"),
        ({"unseen": "error"}, ValueError, "unknown value of unseen 'error'; choose one of: null, inf, marginal"),
        ({"unseen": "marginal"}, ValueError, "unseen='marginal' needs marginal"),
        ({"labels": ("a", 1)}, ValueError, "all text, all numbers or all booleans for SQL; got numbers and text"),
        ({"labels": (True, 2)}, ValueError, "got booleans and numbers"),
        ({"labels": ("a", None)}, ValueError, "labels must be text, booleans or numbers"),
        ({"labels": (1, 2**63)}, ValueError, "at most 64 bits"),
        ({"labels": ("a", "b\0")}, ValueError, "NUL"),
        ({"labels": ("a", "\ud800")}, ValueError, "unpaired surrogates"),
        ({"labels": ("a", "${x}"), "dialect": "spark"}, ValueError, "Spark replaces"),
        ({"labels": ()}, ValueError, "one entry for each group; got 0 and 2"),
        ({"sizes": (1,)}, ValueError, "one entry for each group; got 2 and 1"),
        ({"thresholds": [1.0]}, ValueError, "thresholds must have 2 rows"),
        ({"thresholds": [1.0, np.nan]}, ValueError, "thresholds must be free of NaN"),
        ({"level": 1.5}, ValueError, "level must lie strictly between 0 and 1"),
        ({"columns": TableColumns(center="c\0", group="g")}, ValueError, "NUL"),
    ],
)
def test_errors_of_threshold_sql(changed, error, message):
    """Each mistake has an error that names what was expected."""
    with pytest.raises(error, match=message):
        threshold_sql(**settings(**changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dialect": "oracle"}, "unknown SQL dialect 'oracle'"),
        ({"level": 0.1234567}, "denominator of at most 1 000 000 for SQL; got 0.1234567"),
        ({"level": Fraction(1, 1_000_001)}, "denominator of at most 1 000 000"),
        ({"nonconformity": {"a": Residual()}}, "SQL needs one score for all groups"),
        ({"nonconformity": Normalized()}, "Normalized needs a column for spread"),
        ({"center": None}, "predictions must have a center, or lower and upper"),
        ({"table": ()}, "table must be a name, or a qualified name"),
        ({"table": ("a", "b", "c", "d")}, "table must be a name, or a qualified name"),
        ({"table": ""}, "names of tables and columns must be text"),
        ({"table": ("a", 1)}, "names of tables and columns must be text"),
        ({"target": None}, "Residual needs a column for target"),
        ({"target": "y\0"}, "NUL"),
    ],
)
def test_errors_of_calibrate_sql(changed, message):
    """Each mistake has an error that names what was expected."""
    with pytest.raises(ValueError, match=message):
        calibrate_sql(**{"table": "t", "target": "y", "center": "c", "dialect": "duckdb"} | changed)


def scored_rows(n=400):
    rng = np.random.default_rng(7)
    center, spread = rng.normal(size=n), np.exp(rng.normal(size=n))
    groups = np.array(["a", "it's", "\\"])[rng.integers(0, 3, n)]
    return center + spread * rng.normal(size=n), Prediction(center, spread=spread), groups


@pytest.mark.parametrize("unseen", ["null", "inf", "marginal"])
def test_calibrations_write_their_own_sql(unseen):
    """From scores and from histograms: the thresholds are those that `threshold` returns."""
    y, prediction, groups = scored_rows()
    calibration = calibrate(y, prediction, nonconformity=Normalized(), groups=groups)
    histograms = calibrate(y, prediction, nonconformity=Normalized(), groups=groups, bits=5)
    by_scores = calibration.to_sql(0.8, dialect="duckdb", center="c", spread="s", group="g", unseen=unseen)
    by_histograms = histograms.to_sql(0.8, dialect="duckdb", center="c", spread="s", group="g", unseen=unseen)
    for sql, source in ((by_scores, calibration), (by_histograms, histograms)):
        found = duckdb.sql(sql.table).fetchall()
        assert found == [
            (label, n, threshold)
            for (label, n), threshold in zip(source.sizes.items(), source.threshold(0.8).tolist(), strict=True)
        ]
        new_row = f"SELECT {sql.threshold} FROM (SELECT 'new' AS g, 0.0 AS c, 1.0 AS s)"  # noqa: S608
        ((other,),) = duckdb.sql(new_row).fetchall()
        everything = conformal_quantile(Normalized()(y, prediction), 0.8)
        rounded = everything if source is calibration else rounded_up(everything, 5)
        assert other == {"null": None, "inf": np.inf, "marginal": rounded}[unseen]


def test_a_table_calibration_knows_its_columns():
    y, prediction, groups = scored_rows()
    rows = pa.table({"y": y, "c": prediction.center, "s": prediction.spread, "g": groups.tolist()})
    calibration = tables.calibrate(rows, target="y", center="c", spread="s", group="g")
    sql = calibration.to_sql(dialect="duckdb")
    found = duckdb.sql(f"SELECT {sql.lower} AS low, {sql.upper} AS high FROM rows").fetchnumpy()  # noqa: S608
    expected = calibration.interval(prediction, groups=groups)
    np.testing.assert_array_equal(np.stack(list(found.values()), axis=1), np.asarray(expected))


def test_weights_and_learned_edges_have_no_sql():
    y, prediction, _ = scored_rows()
    with pytest.raises(ValueError, match="SQL has no weights"):
        calibrate(y, prediction, weights=np.ones(400)).to_sql(dialect="duckdb", center="c")
    learned = BySpread(3).learn(Rows(prediction))
    with pytest.raises(ValueError, match="SQL needs groups that are values of a column"):
        calibrate(y, prediction, groups=learned).to_sql(dialect="duckdb", center="c", group="g")


def test_own_formulas_use_numbers_on_both_sides_and_all_parts(database):
    """Operators with a number on the left, and parts of the prediction by name."""

    @dataclass(frozen=True)
    class Own:
        prediction_parts = ("center", "spread")

        def __call__(self, y, prediction):
            return self.formula(np.asarray(y), prediction)

        def formula(self, y, prediction):
            return 2 * abs(y - prediction.center) / (1 + prediction.spread) - (1 - 1 / prediction.spread) * 0

        def ends(self, threshold, prediction):
            distance = 0.5 * threshold * (1 + prediction.spread)
            return prediction.center - distance, prediction.center + distance

        def interval(self, threshold, prediction):
            return Intervals(*self.ends(threshold, prediction))

    center, spread = np.array([1.0, 2.0, -3.5]), np.array([0.5, 1.0, 2.25])
    database.store("t", doubles({"i": np.arange(3.0), "c": center, "s": spread}))
    columns = TableColumns(center="c", spread="s")
    sql = threshold_sql(Own(), ("all",), (9,), [1.3], level=0.9, columns=columns, dialect=database.dialect)
    lower, upper = database.evaluate("t", "i", sql.lower, sql.upper)
    expected = Own().interval(1.3, Prediction(center, spread))
    np.testing.assert_array_equal(lower, expected.lower)
    np.testing.assert_array_equal(upper, expected.upper)
    assert "score" in calibrate_sql("t", target="y", center="c", spread="s", nonconformity=Own(), dialect="duckdb")
