"""Even, uneven or undecided: one rule for what is to come and for what was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt
from typing import Literal, Protocol, TypeAlias

from evencover._internal.arrays import check_seed, is_number
from evencover.diagnostics._exact_tests import SIGNIFICANT, lower_share, upper_share
from evencover.groups import Label
from evencover.quantiles import Level, level_fraction

Verdict: TypeAlias = Literal["even", "uneven", "undecided"]

_ROUNDING = 1e-12
_ROOM = 1.5  # standard errors: with three groups, all of them decide about four times in five
_FAR = 10**12  # rows


class GroupCoverage(Protocol):
    """A group's coverage, with an interval for it."""

    @property
    def group(self) -> Label:
        """Its name."""

    @property
    def rows(self) -> int:
        """Its rows."""

    @property
    def coverage(self) -> float:
        """Share of them that is covered; NaN without rows."""

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
    also: Sequence[GroupCoverage] = (),
) -> Verdict:
    """Return the verdict on some groups.

    `uneven` where the joint p-value is under 0.05 and some group's interval excludes the level; else `even` where every
    group's interval lies within the tolerance of the level; else `undecided`. Groups without rows are not judged. Other
    rows that were tested along with the groups, `also`, can show that coverage is uneven, not that it is even.
    """
    table = [group for group in table if group.rows]
    if joint_p_value < SIGNIFICANT and any(excludes(group, level) for group in [*table, *also]):
        return "uneven"
    return "even" if table and all(within(group, level, tolerance) for group in table) else "undecided"


def excludes(group: GroupCoverage, level: Level) -> bool:
    """Return whether the group's interval excludes the level."""
    return not group.low <= float(level) <= group.high


def within(group: GroupCoverage, level: Level, tolerance: float) -> bool:
    """Return whether the group's whole interval lies within the tolerance of the level."""
    reach = tolerance + _ROUNDING
    return float(level) - reach <= group.low and group.high <= float(level) + reach


def rows_to_add(table: Sequence[GroupCoverage], level: Level, tolerance: float) -> dict[Label, int]:
    """Return about how many more rows each group not within the tolerance needs, were its coverage what was seen.

    With that many its interval would exclude the level, or lie within the tolerance, also if the next count were off by
    1.5 standard errors in the wrong direction. What few rows show is drawn towards the level: half the way where their
    standard error is the tolerance. It is at least a tenth more: a group whose interval excludes the level already
    lacks significance.
    """
    return {
        group.group: _more(group, float(level), tolerance)
        for group in table
        if group.rows and not within(group, level, tolerance)
    }


def _more(group: GroupCoverage, level: float, tolerance: float) -> int:
    """Return about how many more rows would decide on a group, to a twentieth."""
    low = n = group.rows
    weight = level * (1 - level) / tolerance**2
    share = (group.coverage * n + level * weight) / (n + weight)
    while not _decides(share, n, level, tolerance) and n < _FAR:
        low, n = n, 2 * n
    while n - low > max(low // 20, 1):
        middle = (low + n) // 2
        low, n = (low, middle) if _decides(share, middle, level, tolerance) else (middle, n)
    return max(n - group.rows, ceil(group.rows / 10))


def _decides(share: float, n: int, level: float, tolerance: float) -> bool:
    """Return whether n rows decide on a coverage, with room for their chance."""
    room = _ROOM * sqrt(max(share * (1 - share), level * (1 - level) / 4) / n)
    away = 1 if share >= level else -1
    nearer, farther = share - away * room, share + away * room
    covered = [round(min(max(each, 0.0), 1.0) * n) for each in (nearer, farther)]
    off = lower_share(covered[0], n) > level if away > 0 else upper_share(covered[0], n) < level
    low, high = lower_share(covered[1], n), upper_share(covered[1], n)
    return bool(off or (low >= level - tolerance and high <= level + tolerance))


@dataclass(frozen=True)
class Settings:
    """What a verdict is asked for.

    Parameters
    ----------
    level : Fraction
        Nominal coverage.
    tolerance : float
        Distance from it that counts as even.
    seed : int
        Of draws.
    """

    level: Fraction
    tolerance: float
    seed: int


def checked_settings(level: Level, tolerance: float, seed: int) -> Settings:
    """Return the settings of a verdict, or say what is wrong with them."""
    if not is_number(tolerance) or not 0 < tolerance < 1:
        hint = f"; did you mean {tolerance / 100:g}?" if is_number(tolerance) and 1 <= tolerance < 100 else ""
        raise ValueError(f"tolerance must be a distance from the level, such as 0.03; got {tolerance!r}{hint}")
    check_seed(seed)
    return Settings(level_fraction(level), float(tolerance), int(seed))
