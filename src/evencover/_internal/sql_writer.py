"""Literals, names and queries of SQL dialects. Every text and name is quoted, and every number exact."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from evencover._internal.arrays import lookup
from evencover._internal.optional import import_optional

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

    def absolute(self, value: Expression) -> Expression:
        """Return the absolute value."""
        return self.exp.Abs(this=value)

    def grouped(self, expression: Expression) -> Expression:
        """Return an expression in parentheses: sqlglot writes a + (b + c) as a + b + c, which rounds differently."""
        return self.exp.Paren(this=expression)

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
