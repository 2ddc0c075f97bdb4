"""Scores and the bounds of their intervals as SQL expressions, with the same roundings as in Python."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evencover._internal.sql_writer import Expression, SQLWriter
from evencover.scores.bounds import IntervalDistance, RelativeIntervalDistance
from evencover.scores.residuals import Normalized, Residual, Standardized
from evencover.scores.score import missing_scale
from evencover.table_columns import TableColumns

Bounds: TypeAlias = tuple[Expression, Expression]

_ROUNDING_MARGIN = 4 * float(np.finfo(float).eps)  # that of evencover.scores.score.with_rounding_margin


@dataclass(frozen=True)
class SQLRow:
    """The target and the predictions of a row as expressions, and the score that uses them."""

    writer: SQLWriter
    score: Any
    numbers: Mapping[str, Expression]  # by role, in double precision; bounds are in order

    def __getitem__(self, role: str) -> Expression:
        """Return a number by its role. Raise ValueError if there is no such column."""
        if role not in self.numbers:
            given = ", ".join(self.numbers)
            raise ValueError(f"{type(self.score).__name__} needs a column for {role}; got columns for {given}")
        return self.numbers[role]

    def score_of_target(self) -> Expression:
        """Return the score of the target. Raise ValueError if there is no formula for it."""
        if type(self.score) not in _FORMULAS:
            names = ", ".join(each.__name__ for each in _FORMULAS)
            raise ValueError(f"nonconformity must be one of {names} for SQL; got {self.score!r}")
        return _FORMULAS[type(self.score)][0](self)

    def bounds_at(self, threshold: Expression) -> Bounds | None:
        """Return the bounds of the interval, None if there is no formula for the score."""
        formulas = _FORMULAS.get(type(self.score))
        return None if formulas is None else formulas[1](self, threshold)

    def divisor(self, unit: Expression) -> Expression:
        """Return a spread or width with the floor and epsilon of the score."""
        epsilon = getattr(self.score, "epsilon", 0.0)
        if self.score.needs_scale:
            raise missing_scale(type(self.score).__name__, "its settings are fractions")
        if self.score.floor:
            floor = self.writer.number(self.score.floor * self.score.scale)
            unit = self.writer.case((unit < floor, floor), default=unit)
        return self.writer.grouped(unit + self.writer.number(epsilon * self.score.scale)) if epsilon else unit

    def if_positive(self, divisor: Expression, value: Expression) -> Expression:
        """Return a value; NULL where the divisor is not positive and finite (NaN is never below infinity)."""
        positive = (divisor > self.writer.integer(0)).and_(divisor < self.writer.infinity)
        return self.writer.case((positive, value))

    def larger(self, a: Expression, b: Expression) -> Expression:
        """Return the larger of two numbers. GREATEST ignores NULL in some databases."""
        return self.writer.case((a >= b, a), (b > a, b))

    def widened(self, distance: Expression, bound: Expression) -> Expression:
        """Return a distance plus a rounding margin, which is 0 if the distance is infinite."""
        size = self.writer.absolute(bound) + self.writer.absolute(distance)
        margin = size * self.writer.number(_ROUNDING_MARGIN)
        margin = self.writer.case((size < self.writer.infinity, margin), default=self.writer.integer(0))
        return self.writer.grouped(distance + margin)


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


def _residual_score(row: SQLRow) -> Expression:
    return row.writer.absolute(row["target"] - row["center"])


def _residual_bounds(row: SQLRow, distance: Expression) -> Bounds:
    widened = row.widened(distance, row["center"])
    return row["center"] - widened, row["center"] + widened


def _normalized_score(row: SQLRow) -> Expression:
    divisor = row.divisor(row["spread"])
    return row.if_positive(divisor, _residual_score(row) / divisor)


def _normalized_bounds(row: SQLRow, threshold: Expression) -> Bounds:
    divisor = row.divisor(row["spread"])
    lower, upper = _residual_bounds(row, threshold * divisor)
    return row.if_positive(divisor, lower), row.if_positive(divisor, upper)


def _standardized_score(row: SQLRow) -> Expression:
    divisor = row.divisor(row["spread"])
    return row.if_positive(divisor, (row["target"] - row["center"]) / divisor)


def _standardized_bounds(row: SQLRow, threshold: Expression) -> Bounds:
    _, upper = _normalized_bounds(row, threshold)
    return row.writer.case((upper <= row.writer.infinity, row.writer.number(-math.inf))), upper


def _distance_score(row: SQLRow) -> Expression:
    return row.larger(row["lower"] - row["target"], row["target"] - row["upper"])


def _distance_bounds(row: SQLRow, distance: Expression) -> Bounds:
    lower, upper = row["lower"], row["upper"]
    return lower - row.widened(distance, lower), upper + row.widened(distance, upper)


def _relative_score(row: SQLRow) -> Expression:
    width = row.divisor(row["upper"] - row["lower"])
    tails = (row["lower"] - row["target"]) / width, (row["target"] - row["upper"]) / width
    return row.if_positive(width, row.larger(*tails))


def _relative_bounds(row: SQLRow, threshold: Expression) -> Bounds:
    width = row.divisor(row["upper"] - row["lower"])
    lower, upper = _distance_bounds(row, threshold * width)
    return row.if_positive(width, lower), row.if_positive(width, upper)


# Not for subclasses, whose formulas may differ
_FORMULAS: dict[type[Any], tuple[Callable[[SQLRow], Expression], Callable[[SQLRow, Expression], Bounds]]] = {
    Residual: (_residual_score, _residual_bounds),
    Normalized: (_normalized_score, _normalized_bounds),
    Standardized: (_standardized_score, _standardized_bounds),
    IntervalDistance: (_distance_score, _distance_bounds),
    RelativeIntervalDistance: (_relative_score, _relative_bounds),
}
