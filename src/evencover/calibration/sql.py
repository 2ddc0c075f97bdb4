"""Calibration and prediction intervals as SQL, for tables that stay in their database."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from evencover.arithmetic import ROUNDING_MARGIN
from evencover.calibration.table_columns import TableColumns
from evencover.inputs.arrays import checked_vector, lookup
from evencover.inputs.optional import import_optional
from evencover.quantiles import Level, level_fraction
from evencover.scores import BUILTIN_SCORES
from evencover.scores.score import checked_score, has_formulas

Expression: TypeAlias = Any  # of sqlglot, which is optional

DIALECTS = ("bigquery", "duckdb", "postgres", "snowflake", "spark", "sqlite")

_MAX_UNION = 250  # SELECTs in one UNION ALL; SQLite allows 500


@dataclass(frozen=True)
class SQLWriter:
    """What the expressions of a dialect are made of, and their text.

    Parameters
    ----------
    dialect : str
        One of `DIALECTS`.
    exp : module
        ``sqlglot.exp``.
    """

    dialect: str
    exp: Any

    @classmethod
    def of(cls, dialect: Any) -> "SQLWriter":
        """Return the writer of a dialect. Raise ValueError for an unknown one, ImportError without sqlglot."""
        return cls(lookup(dialect, {each: each for each in DIALECTS}, "SQL dialect"), _sqlglot().exp)

    def text(self, expression: Expression, *, pretty: bool = False) -> str:
        """Return an expression or query as SQL text."""
        dialect = _sqlglot().Dialect.get_or_raise(self.dialect)
        if self.dialect == "sqlite":  # in double quotes, it would take an unknown name for a text
            dialect.IDENTIFIER_START = dialect.IDENTIFIER_END = "`"
        return str(expression.sql(dialect=dialect, pretty=pretty))

    def identifier(self, name: Any) -> Expression:
        """Return the quoted name of a table or column."""
        if not isinstance(name, str) or not name:
            raise ValueError(f"the names of tables and columns must be text; got {name!r}")
        return self.exp.Identifier(this=self._checked_text(name), quoted=True)

    def column(self, name: str, table: str | None = None) -> Expression:
        """Return a column by its name, with or without the name of its table."""
        return self.exp.Column(this=self.identifier(name), table=None if table is None else self.identifier(table))

    def table(self, parts: Sequence[Any], alias: str | None = None) -> Expression:
        """Return a table by its qualified name of at most 3 parts."""
        names = map(self.identifier, reversed(parts))
        table = self.exp.Table(**dict(zip(("this", "db", "catalog"), names, strict=False)))
        return table if alias is None else self.exp.alias_(table, alias, table=True, quoted=True)

    def number_column(self, name: str, table: str | None = None) -> Expression:
        """Return a column as double precision, because integers would be divided as integers."""
        column = self.column(name, table)
        number = self._double(column)
        if self.dialect != "sqlite":
            return number
        # SQLite would turn text into 0, such as an empty cell of a CSV file
        types = [self.exp.Literal.string(each) for each in ("integer", "real")]
        return self.case((self.exp.In(this=self.exp.func("TYPEOF", column), expressions=types), number))

    def number(self, value: float) -> Expression:
        """Return a number in double precision, equal in every bit; plain digits would be a DECIMAL."""
        value = float(value) + 0.0  # -0.0 becomes 0.0
        if self.dialect != "sqlite":
            return self._double(self.exp.Literal.string(repr(value)))
        if math.isinf(value):
            infinity = self.exp.Literal.number("9e999")
            return infinity if value > 0 else self.exp.Neg(this=infinity)
        return self._exact_quotient(value)

    @property
    def infinity(self) -> Expression:
        """The infinite number."""
        return self.number(math.inf)

    def integer(self, value: int) -> Expression:
        """Return a whole number."""
        return self.exp.convert(int(value))

    def label(self, value: str | bool | float) -> Expression:
        """Return the label of a group."""
        if isinstance(value, str):
            return self.exp.Literal.string(self._checked_text(value))
        if isinstance(value, bool) and self.dialect != "sqlite":  # SQLite has 1 and 0
            return self.exp.Boolean(this=value)
        return self.integer(value) if isinstance(value, int) else self.number(value)

    def case(self, *branches: tuple[Expression, Expression], default: Expression = None) -> Expression:
        """Return CASE WHEN condition THEN value ... ELSE default END, from pairs (condition, value)."""
        ifs = [self.exp.If(this=condition, true=value) for condition, value in branches]
        return self.exp.Case(ifs=ifs, default=default)

    def named(self, expression: Expression, name: str) -> Expression:
        """Return an expression AS a name."""
        return self.exp.alias_(expression, name, quoted=True)

    def select(self, *columns: Expression, source: Expression = None) -> Expression:
        """Return SELECT columns, or SELECT columns FROM a table or query."""
        select = self.exp.Select(expressions=list(columns))
        if isinstance(source, self.exp.Query):
            source = source.subquery(self.identifier("part"), copy=False)
        return select if source is None else select.from_(source, copy=False)

    def union_all(self, queries: Sequence[Expression]) -> Expression:
        """Return the rows of all queries; many are united in nested parts, each small enough for SQLite."""
        parts = [queries[start : start + _MAX_UNION] for start in range(0, len(queries), _MAX_UNION)]
        unions = [self.exp.union(*each, distinct=False, copy=False) if len(each) > 1 else each[0] for each in parts]
        if len(unions) == 1:
            return unions[0]
        return self.union_all([self.select(self.exp.Star(), source=each) for each in unions])

    def _double(self, expression: Expression) -> Expression:
        return self.exp.cast(expression, self.exp.DataType.Type.DOUBLE)

    def _exact_quotient(self, value: float) -> Expression:
        """Return a whole number, multiplied or divided by powers of two: SQLite rounds some decimals wrongly."""
        numerator, denominator = value.as_integer_ratio()
        twos = (numerator & -numerator).bit_length() - 1 if numerator else 0
        expression = self.exp.Mul(this=self.integer(numerator >> twos), expression=self.exp.Literal.number("1.0"))
        for power in _powers_of_two(twos):  # from left to right, without the copies that * and / make
            expression = self.exp.Mul(this=expression, expression=self.integer(power))
        for power in _powers_of_two(denominator.bit_length() - 1):
            expression = self.exp.Div(this=expression, expression=self.integer(power), typed=True)
        return self.exp.Paren(this=expression)

    def _checked_text(self, text: str) -> str:
        """Return a text. Raise ValueError if a database cannot hold it, or would change it."""
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError(f"SQL cannot hold text with NUL characters or unpaired surrogates; got {text!r}")
        if self.dialect == "spark" and "${" in text:
            raise ValueError(f"Spark replaces ${{...}} in SQL by variables, also inside of text; got {text!r}")
        return text


def _powers_of_two(exponent: int) -> list[int]:
    """Return powers of two that fit into 64 bits and whose product is 2 ** exponent."""
    full, rest = divmod(exponent, 62)
    return [2**62] * full + [2**rest] * (rest > 0)


def _sqlglot() -> Any:
    return import_optional("sqlglot", extra="sql", purpose="SQL")


@dataclass(frozen=True)
class SQLNumber:
    """An expression with the operators of a number, so that the formulas of scores can be written as SQL.

    An operation that is part of another one is in parentheses: sqlglot writes a + (b + c) as a + b + c, which rounds
    differently.
    """

    writer: SQLWriter
    expression: Expression

    def __add__(self, other: Any) -> "SQLNumber":
        return self._joined("Add", other)

    def __sub__(self, other: Any) -> "SQLNumber":
        return self._joined("Sub", other)

    def __mul__(self, other: Any) -> "SQLNumber":
        return self._joined("Mul", other)

    def __truediv__(self, other: Any) -> "SQLNumber":
        return self._joined("Div", other)

    def __radd__(self, other: float) -> "SQLNumber":
        return self._number(other) + self

    def __rsub__(self, other: float) -> "SQLNumber":
        return self._number(other) - self

    def __rmul__(self, other: float) -> "SQLNumber":
        return self._number(other) * self

    def __rtruediv__(self, other: float) -> "SQLNumber":
        return self._number(other) / self

    def __neg__(self) -> "SQLNumber":
        return SQLNumber(self.writer, self.writer.exp.Neg(this=self._part()))

    def __abs__(self) -> "SQLNumber":
        return SQLNumber(self.writer, self.writer.exp.Abs(this=self.expression.copy()))

    def _joined(self, operation: str, other: Any) -> "SQLNumber":
        number = other if isinstance(other, SQLNumber) else self._number(other)
        joined = getattr(self.writer.exp, operation)(this=self._part(), expression=number._part())
        return SQLNumber(self.writer, joined)

    def _number(self, value: float) -> "SQLNumber":
        return SQLNumber(self.writer, self.writer.number(value))

    def _part(self) -> Expression:
        """Return a copy as a part of another expression."""
        part = self.expression.copy()
        return self.writer.exp.Paren(this=part) if isinstance(part, self.writer.exp.Binary) else part


class SQLRow:
    """The prediction of a row as expressions, and their arithmetic: in formulas of scores, it is the `Prediction`.

    Parameters
    ----------
    writer : SQLWriter
        The dialect.
    score : score
        The score, for errors.
    numbers : mapping from role to expression
        The target and the parts of the prediction in double precision; bounds are in order.
    """

    def __init__(self, writer: SQLWriter, score: Any, numbers: Mapping[str, Expression]) -> None:
        self.writer, self.score = writer, score
        self._numbers = {role: SQLNumber(writer, number) for role, number in numbers.items()}
        self._divisors: list[Expression] = []  # of the formula that is being written

    def score_of_target(self) -> Expression:
        """Return the score of the target. Raise ValueError if there is no formula for it."""
        if not has_formulas(self.score):
            names = ", ".join(each.__name__ for each in BUILTIN_SCORES if hasattr(each, "ends"))
            raise ValueError(f"nonconformity must have a formula for SQL, as {names} have; got {self.score!r}")
        return self._where_positive(self.score.formula(self.required("target"), self))

    def bounds_at(self, threshold: Expression) -> tuple[Expression | None, Expression | None]:
        """Return the bounds of the interval, None if there is no formula for the score."""
        if not has_formulas(self.score):
            return None, None
        lower, upper = self.score.ends(SQLNumber(self.writer, threshold), self)
        return self._where_positive(lower), self._where_positive(upper)

    @property
    def arithmetic(self) -> "SQLRow":
        """The functions of formulas."""
        return self

    def __getattr__(self, part: str) -> SQLNumber:
        """Return a part of the prediction: center, spread, lower or upper."""
        if part not in ("center", "spread", "lower", "upper"):
            raise AttributeError(f"SQL has no {part} of a prediction")
        return self.required(part)

    def required(self, role: str, *, by: str = "") -> SQLNumber:
        """Return a number by its role. Raise ValueError if there is no such column."""
        if role not in self._numbers:
            given, name = ", ".join(self._numbers), by or type(self.score).__name__
            raise ValueError(f"{name} needs a column for {role}; got columns for {given}")
        return self._numbers[role]

    def maximum(self, a: SQLNumber, b: SQLNumber | float) -> SQLNumber:
        """Return the larger of two numbers, NULL if one is missing. GREATEST ignores NULL in some databases."""
        left = a.expression
        if isinstance(b, SQLNumber):
            larger = self.writer.case((left >= b.expression, left), (b.expression > left, b.expression))
        else:
            larger = self.writer.case((left < self.writer.number(b), self.writer.number(b)), default=left)
        return SQLNumber(self.writer, larger)

    def widened(self, distance: SQLNumber, bound: SQLNumber) -> SQLNumber:
        """Return a distance plus a rounding margin, which is 0 if the distance is infinite."""
        size = abs(bound) + abs(distance)
        margin = (size * ROUNDING_MARGIN).expression
        finite = self.writer.case((size.expression < self.writer.infinity, margin), default=self.writer.integer(0))
        return distance + SQLNumber(self.writer, finite)

    def check_divisor(self, divisor: SQLNumber, _name: str, _what: str) -> None:
        """Remember a divisor: results are NULL where it is not positive and finite."""
        if divisor.expression not in self._divisors:
            self._divisors.append(divisor.expression)

    def infinite(self, sign: int, bound: SQLNumber) -> SQLNumber:
        """Return inf or −inf; NULL where the other bound is missing."""
        known = bound.expression <= self.writer.infinity
        return SQLNumber(self.writer, self.writer.case((known, self.writer.number(sign * math.inf))))

    def _where_positive(self, value: SQLNumber) -> Expression:
        """Return a value; NULL where a divisor is not positive and finite (NaN is never below infinity)."""
        result = value.expression
        for divisor in self._divisors:
            positive = (divisor > self.writer.integer(0)).and_(divisor < self.writer.infinity)
            result = self.writer.case((positive, result))
        return result


def numbers_of(writer: SQLWriter, columns: TableColumns, table: str | None = None) -> dict[str, Expression]:
    """Return the columns of numbers by role; bounds in the wrong order are put in order, as by `Prediction`."""
    numbers = {role: writer.number_column(name, table) for role, name in columns.numeric.items()}
    if columns.lower is not None:
        lower, upper = numbers["lower"], numbers["upper"]
        ordered = (lower <= upper).and_(upper <= writer.infinity)  # false for NaN
        crossed = (lower > upper).and_(lower <= writer.infinity)
        numbers["lower"] = writer.case((ordered, lower), (crossed, upper))
        numbers["upper"] = writer.case((ordered, upper), (crossed, lower))
    return numbers


UnseenSQL: TypeAlias = Literal["null", "inf", "marginal"]

_MAX_DENOMINATOR = 1_000_000  # of a level: (rows + 1) × denominator must fit into 64 bits
_ROWS = "calibration"  # alias of the table of calibration rows


@dataclass(frozen=True)
class ThresholdSQL:
    """The thresholds of a calibration, and the intervals that follow from them, as SQL text.

    `threshold`, `lower` and `upper` are expressions for a SELECT from the table of new rows:
    ``f"SELECT *, {sql.lower} AS lower_bound, {sql.upper} AS upper_bound FROM new_rows"``. The bounds equal those of
    Python in every bit. They are NULL where Python raises an error: if the group or a prediction is missing, or if the
    spread (or the width, if the score divides by it) is not positive and finite. If a center is NaN, both are NaN.

    Parameters
    ----------
    dialect : str
        The dialect of the SQL.
    level : float
        Nominal coverage.
    table : str
        A SELECT statement, to join with. It returns one row for each group, with the columns "group",
        "calibration_rows" and "threshold".
    threshold : str
        The threshold of a row. It is NULL if the group is missing (NULL or NaN).
    lower, upper : str or None
        The bounds of the interval. None unless the score has formulas: `Residual`, `Normalized`, `Standardized`,
        `IntervalDistance`, `RelativeIntervalDistance`, `OneSided` of one of these, or one of your own (see `Score`).
    """

    dialect: str
    level: float
    table: str
    threshold: str
    lower: str | None
    upper: str | None


def threshold_sql(
    nonconformity: Any,
    labels: Sequence[Any],
    sizes: Sequence[int],
    thresholds: Any,
    *,
    level: Level,
    columns: TableColumns,
    dialect: str,
    unseen: UnseenSQL = "null",
    marginal: float | None = None,
) -> ThresholdSQL:
    """Return thresholds, and the intervals of a score with these thresholds, as SQL.

    Names of columns are quoted, so they must be spelled as in the database. Groups of text are compared by the
    collation of their column: one that ignores case does not distinguish "a" from "A".

    Parameters
    ----------
    nonconformity : score
        One score for all groups.
    labels : sequence of n_groups labels
        The groups: all are text, or all numbers, or all booleans. ("all",) if there is no column of groups.
    sizes : sequence of n_groups ints
        Number of calibration rows of each group.
    thresholds : array-like of shape (n_groups,)
        The threshold of each group; infinite ones are allowed.
    level : float or Fraction
        Nominal coverage of these thresholds.
    columns : TableColumns
        The columns of the new rows.
    dialect : {"bigquery", "duckdb", "postgres", "snowflake", "spark", "sqlite"}
        The dialect of the SQL.
    unseen : {"null", "inf", "marginal"}
        The threshold of other groups: NULL, infinity, or that of all calibration rows (without a guarantee).
    marginal : float, optional
        The threshold of all calibration rows; required for ``unseen="marginal"``.

    Examples
    --------
    >>> from evencover import Residual
    >>> columns = TableColumns(center="price", group="city")
    >>> sql = threshold_sql(Residual(), ("Oslo",), (9,), [1.5], level=0.9, columns=columns, dialect="duckdb")
    >>> print(sql.threshold)
    CASE WHEN "city" = 'Oslo' THEN CAST('1.5' AS DOUBLE) ELSE NULL END
    """
    writer = SQLWriter.of(dialect)
    row = SQLRow(writer, _one_score(nonconformity), numbers_of(writer, columns))
    _check_labels(labels, sizes)
    values = checked_vector(thresholds, "thresholds", length=len(labels), matched="labels", finite=False).tolist()
    if columns.group is None:
        threshold = _only_threshold(writer, labels, values)
    else:
        other = _unseen_threshold(writer, unseen, marginal)
        threshold = _threshold_of_group(
            writer, writer.column(columns.group), dict(zip(labels, values, strict=True)), other
        )
    lower, upper = row.bounds_at(threshold)
    return ThresholdSQL(
        dialect,
        float(level_fraction(level)),
        writer.text(_threshold_table(writer, labels, sizes, values)),
        writer.text(threshold),
        None if lower is None else writer.text(lower),
        None if upper is None else writer.text(upper),
    )


def calibrate_sql(
    table: str | Sequence[str],
    *,
    target: str,
    center: str | None = None,
    spread: str | None = None,
    lower: str | None = None,
    upper: str | None = None,
    group: str | None = None,
    level: Level = 0.9,
    nonconformity: Any = None,
    dialect: str,
) -> str:
    """Return a query that finds the exact threshold of each group inside the database.

    The threshold of a group of n rows is its k-th smallest score, k = ceil((n + 1) level) in exact arithmetic, and
    infinite if k > n. If these rows and new rows are exchangeable, an interval covers a new row of the group with
    probability at least the level.

    The query returns one row for each group, with the columns "group", "calibration_rows" (n), "threshold" and
    "missing_scores". A score is missing if it is NULL or NaN, or if the spread (or the width, if the score divides by
    it) is not positive and finite. No row is dropped: if a group has missing scores, or is NULL, its threshold is NULL.
    NaN in a column of groups is a group of its own.

    Parameters
    ----------
    table : str, or sequence of 1 to 3 str
        The table of the calibration rows: one name, or the parts of a qualified name, such as ("schema", "table").
    target, center, spread, lower, upper, group : str
        Names of columns as in `TableColumns`, spelled as in the database. Without `group`, all rows are one group,
        'all'.
    level : float or Fraction
        Nominal coverage; a fraction with a denominator of at most 1 000 000.
    nonconformity : score, optional
        One of the scores for which `ThresholdSQL` has bounds; by default `TableColumns.nonconformity`.
    dialect : {"bigquery", "duckdb", "postgres", "snowflake", "spark", "sqlite"}
        The dialect of the SQL.

    Examples
    --------
    >>> query = calibrate_sql("sales", target="price", center="predicted", group="city", dialect="duckdb")
    >>> print(query[:18])
    WITH "scores" AS (
    """
    writer, grouped = SQLWriter.of(dialect), group is not None
    columns = TableColumns(target, center, spread, lower, upper, group)
    score = columns.nonconformity if nonconformity is None else _one_score(nonconformity)
    parts = _table_parts(table)
    predictions = _prediction_query(writer, columns, parts)
    row = SQLRow(writer, score, {role: writer.column(role) for role in columns.numeric})
    scored = writer.named(row.score_of_target(), "score")
    scores = writer.select(*[writer.column("group")] * grouped, scored, source=predictions)
    name = "scores" if str(parts[-1]).lower() != "scores" else "calibration_scores"  # not the name of the table
    positions = _position_query(writer, name, grouped=grouped)
    query = _threshold_query(writer, positions, _checked_level(level), grouped=grouped)
    return writer.text(query.with_(writer.identifier(name), as_=scores, copy=False), pretty=True)


def _only_threshold(writer: SQLWriter, labels: Sequence[Any], thresholds: Sequence[float]) -> Expression:
    """Return the threshold of all rows. Raise ValueError if there are groups, but no column for them."""
    if tuple(labels) != ("all",):
        raise ValueError(f"columns must name the group, because there are {len(labels)} groups; got group=None")
    return writer.number(thresholds[0])


def _threshold_of_group(
    writer: SQLWriter, group: Expression, thresholds: Mapping[Any, float], other: Expression
) -> Expression:
    """Return the threshold of a row: that of its group, `other` if it is unseen, NULL if it is missing."""
    branches = [(group.eq(writer.label(label)), writer.number(value)) for label, value in thresholds.items()]
    if isinstance(other, writer.exp.Null):
        return writer.case(*branches, default=other)
    numeric = any(_kind(label) == "numbers" for label in thresholds)
    known = group <= writer.infinity if numeric else writer.exp.not_(group.is_(writer.exp.null()))  # false for NaN
    return writer.case(*branches, (known, other), default=writer.exp.null())


def _unseen_threshold(writer: SQLWriter, unseen: Any, marginal: float | None) -> Expression:
    """Return the threshold of unseen groups."""
    value = lookup(unseen, {"null": None, "inf": math.inf, "marginal": marginal}, "value of unseen")
    if unseen == "marginal" and (value is None or math.isnan(value)):
        raise ValueError(f"unseen='marginal' needs marginal, the threshold of all calibration rows; got {marginal}")
    return writer.exp.null() if value is None else writer.number(value)


def _threshold_table(
    writer: SQLWriter, labels: Sequence[Any], sizes: Sequence[int], thresholds: Sequence[float]
) -> Expression:
    """Return a SELECT of the groups, the numbers of their rows and their thresholds."""
    names = ("group", "calibration_rows", "threshold")
    rows = zip(map(writer.label, labels), map(writer.integer, sizes), map(writer.number, thresholds), strict=True)
    return writer.union_all([writer.select(*map(writer.named, row, names)) for row in rows])


def _check_labels(labels: Sequence[Any], sizes: Sequence[int]) -> None:
    """Raise ValueError unless one SQL column can hold the labels, and there are as many sizes."""
    if not labels or len(labels) != len(sizes):
        raise ValueError(f"labels and sizes must have one entry for each group; got {len(labels)} and {len(sizes)}")
    kinds = sorted({_kind(label) for label in labels})
    if len(kinds) > 1:
        raise ValueError(f"the labels must be all text, all numbers or all booleans for SQL; got {' and '.join(kinds)}")


def _kind(label: Any) -> str:
    """Return the kind of a label. Raise ValueError if SQL has no literal for it."""
    if isinstance(label, str):
        return "text"
    if isinstance(label, bool):
        return "booleans"
    if isinstance(label, float) or (isinstance(label, int) and -(2**63) < label < 2**63):
        return "numbers"
    raise ValueError(f"labels must be text, booleans or numbers of at most 64 bits for SQL; got {label!r}")


def _one_score(nonconformity: Any) -> Any:
    """Return the score. Raise ValueError for a mapping from group to score."""
    if isinstance(nonconformity, Mapping):
        raise ValueError(f"SQL needs one score for all groups; got a mapping with {len(nonconformity)} scores")
    return checked_score(nonconformity)


def _table_parts(table: Any) -> list[Any]:
    """Return the parts of the name of a table. Raise ValueError unless there are 1 to 3."""
    parts = [table] if isinstance(table, str) else list(table)
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"table must be a name, or a qualified name in 2 or 3 parts; got {table!r}")
    return parts


def _checked_level(level: Level) -> Fraction:
    """Return the level as a fraction. Raise ValueError if 64-bit integers are too small for its digits."""
    fraction = level_fraction(level)
    if fraction.denominator > _MAX_DENOMINATOR:
        raise ValueError(f"level must be a fraction with a denominator of at most 1 000 000 for SQL; got {level}")
    return fraction


def _prediction_query(writer: SQLWriter, columns: TableColumns, table: Sequence[Any]) -> Expression:
    """Return the query of the groups, targets and predictions, named by their roles."""
    numbers = [writer.named(number, role) for role, number in numbers_of(writer, columns, _ROWS).items()]
    groups = [] if columns.group is None else [writer.named(writer.column(columns.group, _ROWS), "group")]
    return writer.select(*groups, *numbers, source=writer.table(table, _ROWS))


def _position_query(writer: SQLWriter, scores: str, *, grouped: bool) -> Expression:
    """Return the query of each row's position among the n sorted scores of its group."""
    exp, score, groups = writer.exp, writer.column("score"), [writer.column("group")] * grouped
    position = exp.Window(this=exp.RowNumber(), partition_by=groups, order=exp.Order(expressions=[score]))
    n = exp.Window(this=exp.Count(this=exp.Star()), partition_by=groups)
    named = writer.named(position, "position"), writer.named(n, "n")
    return writer.select(*groups, score, *named, source=writer.table([scores]))


def _threshold_query(writer: SQLWriter, positions: Expression, level: Fraction, *, grouped: bool) -> Expression:
    """Return the query of the threshold of each group, from the positions of the scores.

    Without groups it has no GROUP BY, so that a table without rows has an infinite threshold.
    """
    exp, score, zero = writer.exp, writer.column("score"), writer.integer(0)
    group = writer.column("group") if grouped else writer.label("all")
    present = exp.Count(this=writer.case((score <= writer.infinity, score)))  # neither NULL nor NaN
    missing = exp.Count(this=exp.Star()) - present
    at_rank = exp.Max(this=writer.case((_is_rank(writer, level), score)))
    quantile = exp.Coalesce(this=at_rank, expressions=[writer.infinity])
    undefined = (missing > zero).or_(group.is_(exp.null())) if grouped else missing > zero
    columns = {
        "group": group,
        "calibration_rows": exp.Count(this=exp.Star()),
        "threshold": writer.case((undefined, exp.null()), default=quantile),
        "missing_scores": missing,
    }
    query = writer.select(*[writer.named(column, name) for name, column in columns.items()], source=positions)
    return query.group_by(group, copy=False) if grouped else query


def _is_rank(writer: SQLWriter, level: Fraction) -> Expression:
    """Return whether position = ceil((n + 1) level), in whole numbers and without a division."""
    n, position, one = writer.column("n"), writer.column("position"), writer.integer(1)
    numerator, denominator = writer.integer(level.numerator), writer.integer(level.denominator)
    needed = (n + one) * numerator
    return ((position - one) * denominator < needed).and_(needed <= position * denominator)
