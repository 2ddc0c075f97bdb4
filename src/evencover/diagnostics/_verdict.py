"""The verdict rule (even, uneven or undecided), shared by `diagnose` and `audit`."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt
from typing import Literal, Protocol, TypeAlias

from evencover._internal.arrays import check_seed, is_number
from evencover.diagnostics._exact_tests import SIGNIFICANT, clopper_pearson_lower, clopper_pearson_upper
from evencover.groups import Label
from evencover.quantiles import Level, level_fraction

Verdict: TypeAlias = Literal["even", "uneven", "undecided"]

_ROUNDING_MARGIN = 1e-12
_SAFETY_MARGIN = 1.5  # standard errors: with three groups, all of them are decided about four times in five
_MAX_ROWS = 10**12


class GroupCoverage(Protocol):
    """A group's coverage, with an interval for it."""

    @property
    def group(self) -> Label:
        """Label of the group."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def coverage(self) -> float:
        """Share of the rows that is covered; NaN without rows."""

    @property
    def low(self) -> float:
        """Lower end of the interval."""

    @property
    def high(self) -> float:
        """Upper end of the interval."""


def verdict(
    table: Sequence[GroupCoverage],
    joint_p_value: float,
    level: Level,
    tolerance: float,
    other_rows: Sequence[GroupCoverage] = (),
) -> Verdict:
    """Return the verdict on some groups.

    It is `uneven` if the joint p-value is below 0.05 and the interval of some group excludes the level. Otherwise it is
    `even` if the interval of every group lies within the tolerance of the level. Otherwise it is `undecided`. Groups
    without rows are ignored. `other_rows` were tested jointly with the groups. They can show that coverage is uneven,
    but not that it is even.
    """
    table = [group for group in table if group.rows]
    if joint_p_value < SIGNIFICANT and any(excludes_level(group, level) for group in [*table, *other_rows]):
        return "uneven"
    return "even" if table and all(within_tolerance(group, level, tolerance) for group in table) else "undecided"


def excludes_level(group: GroupCoverage, level: Level) -> bool:
    """Return whether the group's interval excludes the level."""
    return not group.low <= float(level) <= group.high


def within_tolerance(group: GroupCoverage, level: Level, tolerance: float) -> bool:
    """Return whether the group's whole interval lies within the tolerance of the level."""
    reach = tolerance + _ROUNDING_MARGIN
    return float(level) - reach <= group.low and group.high <= float(level) + reach


def rows_to_add(table: Sequence[GroupCoverage], level: Level, tolerance: float) -> dict[Label, int]:
    """Return about how many more rows each group needs for a decision, if its coverage stays near its current value.

    Groups whose interval lies within the tolerance need none. With the additional rows, the interval of a group would
    exclude the level or lie within the tolerance, even if the next count were 1.5 standard errors off in the wrong
    direction. The coverage of few rows is shrunk towards the level: by half where its standard error equals the
    tolerance. The answer is at least a tenth of the current rows, because a group whose interval already excludes the
    level still lacks significance.
    """
    return {
        group.group: _rows_to_add(group, float(level), tolerance)
        for group in table
        if group.rows and not within_tolerance(group, level, tolerance)
    }


def _rows_to_add(group: GroupCoverage, level: float, tolerance: float) -> int:
    """Return about how many more rows would decide on a group, accurate to a twentieth."""
    low = n = group.rows
    weight = level * (1 - level) / tolerance**2
    share = (group.coverage * n + level * weight) / (n + weight)
    while not _decides(share, n, level, tolerance) and n < _MAX_ROWS:
        low, n = n, 2 * n
    while n - low > max(low // 20, 1):
        middle = (low + n) // 2
        low, n = (low, middle) if _decides(share, middle, level, tolerance) else (middle, n)
    return max(n - group.rows, ceil(group.rows / 10))


def _decides(share: float, n: int, level: float, tolerance: float) -> bool:
    """Return whether n rows are enough to decide on a coverage, with the safety margin for random error."""
    margin = _SAFETY_MARGIN * sqrt(max(share * (1 - share), level * (1 - level) / 4) / n)
    sign = 1 if share >= level else -1
    nearer, farther = share - sign * margin, share + sign * margin
    covered = [round(min(max(each, 0.0), 1.0) * n) for each in (nearer, farther)]
    excluded = (
        clopper_pearson_lower(covered[0], n) > level if sign > 0 else clopper_pearson_upper(covered[0], n) < level
    )
    low, high = clopper_pearson_lower(covered[1], n), clopper_pearson_upper(covered[1], n)
    return bool(excluded or (low >= level - tolerance and high <= level + tolerance))


@dataclass(frozen=True)
class Settings:
    """The settings of a verdict.

    Parameters
    ----------
    level : Fraction
        Nominal coverage.
    tolerance : float
        Largest distance from the level that counts as even.
    seed : int
        Seed of the random draws.
    """

    level: Fraction
    tolerance: float
    seed: int


def checked_settings(level: Level, tolerance: float, seed: int) -> Settings:
    """Return the settings of a verdict. Raise ValueError if one of them is invalid."""
    if not is_number(tolerance) or not 0 < tolerance < 1:
        hint = f"; did you mean {tolerance / 100:g}?" if is_number(tolerance) and 1 <= tolerance < 100 else ""
        raise ValueError(f"tolerance must be a number between 0 and 1, such as 0.03; got {tolerance!r}{hint}")
    check_seed(seed)
    return Settings(level_fraction(level), float(tolerance), int(seed))
