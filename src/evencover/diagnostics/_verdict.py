"""The verdict rule (even, uneven or undecided), shared by `diagnose` and `audit`."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal, Protocol, TypeAlias

from evencover._internal.arrays import check_seed, is_number
from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.groups import Label
from evencover.quantiles import Level, level_fraction

Verdict: TypeAlias = Literal["even", "uneven", "undecided"]

_ROUNDING_MARGIN = 1e-12


class GroupCoverage(Protocol):
    """A group's coverage, with an interval for it and a p-value."""

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

    @property
    def estimate(self) -> float:
        """Estimate of the coverage from all rows behind the interval; NaN without rows."""

    @property
    def adjusted(self) -> float:
        """The p-value, adjusted for the number of tests; NaN if the group was not tested."""


class HasVerdict(Protocol):
    """A result with a verdict on groups."""

    @property
    def verdict(self) -> Verdict:
        """The verdict."""

    @property
    def headline(self) -> str:
        """What is known, in one or two sentences."""

    @property
    def advice(self) -> str:
        """What to do."""

    @property
    def table(self) -> Sequence[GroupCoverage]:
        """The groups."""

    @property
    def level(self) -> float:
        """Nominal coverage."""

    @property
    def tolerance(self) -> float:
        """Largest distance from the level that counts as even."""


def verdict(
    table: Sequence[GroupCoverage], level: Level, tolerance: float, other_rows: Sequence[GroupCoverage] = ()
) -> Verdict:
    """Return the verdict on some groups.

    It is `uneven` if some group is off, see `is_off`. Otherwise it is `even` if the interval of every group lies within
    the tolerance of the level. Otherwise it is `undecided`. Groups without rows are ignored. `other_rows` were tested
    jointly with the groups. They can show that coverage is uneven, but not that it is even.
    """
    table = [group for group in table if group.rows]
    if any(is_off(group, level, tolerance) for group in [*table, *other_rows]):
        return "uneven"
    return "even" if table and all(within_tolerance(group, level, tolerance) for group in table) else "undecided"


def is_off(group: GroupCoverage, level: Level, tolerance: float) -> bool:
    """Return whether a group's coverage is shown to differ from the level by more than a negligible amount.

    The difference is significant, the group's interval excludes the level, and the interval does not lie within the
    tolerance. Texts, pictures and verdicts all use this rule.
    """
    negligible = within_tolerance(group, level, tolerance)
    return bool(group.rows and group.adjusted < SIGNIFICANT and excludes_level(group, level) and not negligible)


def excludes_level(group: GroupCoverage, level: Level) -> bool:
    """Return whether the group's interval excludes the level."""
    return not group.low <= float(level) <= group.high


def within_tolerance(group: GroupCoverage, level: Level, tolerance: float) -> bool:
    """Return whether the group's whole interval lies within the tolerance of the level."""
    reach = tolerance + _ROUNDING_MARGIN
    return float(level) - reach <= group.low and group.high <= float(level) + reach


def coverage_range(table: Sequence[GroupCoverage]) -> tuple[float, float]:
    """Return the lowest and the highest end of the groups' intervals; (0, 1) without rows."""
    table = [group for group in table if group.rows]
    return min((group.low for group in table), default=0.0), max((group.high for group in table), default=1.0)


def tolerance_range(result: HasVerdict) -> tuple[float, float]:
    """Return the lowest and the highest coverage that counts as even."""
    return max(result.level - result.tolerance, 0.0), min(result.level + result.tolerance, 1.0)


def shown_within(table: Sequence[GroupCoverage], level: Level) -> float:
    """Return the smallest tolerance at which these intervals would all lie within the tolerance of the level."""
    low, high = coverage_range(table)
    return max(float(level) - low, high - float(level), 0.0)


def sufficient_tolerance(distance: float) -> float:
    """Return the smallest tolerance with two decimals that is at least a distance; at most 0.99."""
    return min(ceil(round(100 * distance, 6)) / 100, 0.99)


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
