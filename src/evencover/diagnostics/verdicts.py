"""The coverage of groups, and the verdict rule (even, uneven or undecided), shared by `diagnose` and `audit`."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isnan, sqrt
from typing import Literal, Protocol, TypeAlias

from evencover.diagnostics.exact_tests import SIGNIFICANT, clopper_pearson
from evencover.groups import Label
from evencover.inputs.arrays import check_seed, is_number
from evencover.quantiles import Level, level_fraction

Verdict: TypeAlias = Literal["even", "uneven", "undecided"]

_ROUNDING_MARGIN = 1e-12
_LARGEST_DEFAULT = 0.03
_DEFAULT_IN_DEVIATIONS = 0.1


def default_tolerance(level: Level) -> float:
    """Return the tolerance that is used if none is given: min(0.03, 0.1 √(level (1 − level))).

    At level 0.9, a coverage of 0.87 means 13 missed targets in 100 instead of 10; at level 0.99, one of 0.96 means four
    instead of one. So above 0.9, and below 0.1, the tolerance is smaller: a tenth of the standard deviation of a row.

    Examples
    --------
    >>> [round(default_tolerance(level), 3) for level in (0.5, 0.9, 0.95, 0.99)]
    [0.03, 0.03, 0.022, 0.01]
    """
    share = float(level_fraction(level))
    return min(_LARGEST_DEFAULT, _DEFAULT_IN_DEVIATIONS * sqrt(share * (1 - share)))


@dataclass(frozen=True)
class GroupForecast:
    """The coverage that one threshold for all rows will have in a group.

    Parameters
    ----------
    group : label
        The group.
    rows : int
        Number of its calibration rows.
    coverage : float
        Share of these rows that the threshold covers; NaN without rows.
    low, high : float
        Interval for the probability that the threshold, as computed, covers a future row of the group. The intervals
        of all groups hold at the same time with 95 % confidence.
    p_value, adjusted : float
        p-value of the exact test of this group against the others: unadjusted, and Holm-adjusted for the number of
        groups. NaN without rows.
    threshold : float
        The threshold from the rows of this group alone; inf if they are too few.
    within : float
        The smallest distance from the level within which the coverage of this group is shown to lie.
    inside : float
        Share of these rows whose target lies strictly inside its interval; NaN without rows.
    inside_low : float
        Lower end of the interval for that share.
    """

    group: Label
    rows: int
    coverage: float
    low: float
    high: float
    p_value: float
    adjusted: float
    threshold: float
    within: float
    inside: float
    inside_low: float

    @property
    def estimate(self) -> float:
        """Estimate of the coverage: that of the calibration rows."""
        return self.coverage


@dataclass(frozen=True)
class GroupAudit:
    """The coverage of intervals in a group of test rows.

    Parameters
    ----------
    group : label
        The group.
    rows : int
        Number of its test rows.
    coverage : float
        Share of these rows that is covered; NaN without rows, and if none could be tested (`Audit.n_untested`).
    low, high : float
        Interval of the coverage in the group, for these intervals with their current calibration. The intervals of all
        groups of `Audit.table` hold at the same time with 95 % confidence; other rows have a 95 % Clopper-Pearson
        interval of their own.
    estimate : float
        Estimate of the coverage from the rows behind the interval (see `Audit.evidence`); NaN without rows.
    p_under, p_over : float
        One-sided exact p-values for under-coverage, and for over-coverage by the targets strictly inside. NaN without
        rows, or without a guarantee (groups unseen in calibration).
    adjusted : float
        Two-sided p-value, Holm-adjusted for the number of groups that are tested jointly.
    p_limit : float
        The limit of `adjusted` for infinitely many test rows with the same coverage. If it is at least 0.05, the
        randomness of the calibration rows alone can explain the coverage. NaN without rows; 0 if the number of
        calibration rows is not known.
    width : float
        Mean width; NaN without rows.
    score : float
        Mean interval (Winkler) score; NaN without rows, or for unions of intervals.
    within : float
        The smallest distance from the level within which the coverage of this group, by itself, is shown to lie.
        Infinite without rows, and if intervals are infinite.
    inside, inside_low : float
        Share of the targets strictly inside their intervals, not on a bound, and the lower end of an interval for it.
        A group is covered too often only if this share is shown to be larger than the level.
    also : tuple of labels
        The groups by other features that hold the same rows, such as ``code = GR`` of ``country = Greece``.
    """

    group: Label
    rows: int
    coverage: float
    low: float
    high: float
    estimate: float
    p_under: float
    p_over: float
    adjusted: float
    p_limit: float
    width: float
    score: float
    within: float
    inside: float
    inside_low: float
    also: tuple[Label, ...] = ()


GroupCoverage: TypeAlias = GroupForecast | GroupAudit


def by_p_value(group: GroupCoverage) -> tuple[bool, float]:
    """Return the key that sorts groups by p-value, those without one last."""
    return isnan(group.adjusted), group.adjusted


class HasVerdict(Protocol):
    """A result with a verdict on groups."""

    @property
    def verdict(self) -> Verdict:
        """The verdict."""

    @property
    def table(self) -> Sequence[GroupCoverage]:
        """The groups."""

    @property
    def level(self) -> float:
        """Nominal coverage."""

    @property
    def tolerance(self) -> float:
        """Largest distance from the level that counts as even."""

    @property
    def shown_within(self) -> float:
        """The smallest distance from the level within which all groups are shown to lie."""


def verdict(
    table: Sequence[GroupCoverage],
    level: Level,
    tolerance: float,
    *,
    shown_within: float,
    overall: GroupCoverage | None = None,
    region: GroupCoverage | None = None,
) -> Verdict:
    """Return the verdict on some groups.

    It is `uneven` if the region is off, see `is_off`. Otherwise it is `even` if all groups together are shown to lie
    within the tolerance of the level. Otherwise it is `uneven` if a group is off, or all rows. Otherwise it is
    `undecided`. Groups without rows are ignored.

    Parameters
    ----------
    table : sequence of GroupCoverage
        The groups.
    level, tolerance : float
        Nominal coverage, and the largest distance from it that counts as even.
    shown_within : float
        The smallest distance from the level within which all groups are shown to lie.
    overall, region : GroupCoverage, optional
        All rows, and a region of the features, which were tested jointly with the groups. If all groups lie within the
        tolerance, so do all rows together, but not every region.
    """
    if region is not None and is_off(region, level, tolerance):
        return "uneven"
    if shown_within <= tolerance + _ROUNDING_MARGIN:
        return "even"
    others = [] if overall is None else [overall]
    return "uneven" if any(is_off(group, level, tolerance) for group in [*table, *others]) else "undecided"


def is_off(group: GroupCoverage, level: Level, tolerance: float) -> bool:
    """Return whether a group's coverage is shown to differ from the level, and is not shown to be negligibly off.

    It differs if the test is significant and the group's interval excludes the level. It is negligibly off if it is
    shown to lie within the tolerance. Texts, pictures and verdicts all use this rule.
    """
    return bool(
        group.rows
        and group.adjusted < SIGNIFICANT
        and excludes_level(group, level)
        and not group.within <= tolerance + _ROUNDING_MARGIN
    )


def excludes_level(group: GroupCoverage, level: Level) -> bool:
    """Return whether a group is covered too rarely, or too often: its interval excludes the level.

    It is covered too often only if the targets *strictly inside* their intervals are more than the level. Targets on a
    bound would be missed by a narrower interval. So if many targets are equal, such as small whole numbers, intervals
    that are as narrow as possible can cover more than the level, and are not too wide.
    """
    return group.high < float(level) or group.inside_low > float(level)


def explained_by_bounds(group: GroupCoverage, level: Level) -> bool:
    """Return whether a group is covered more often than the level only because targets lie exactly on a bound.

    Without these targets, it is not shown to be covered more often. If the group is not tested, its interval is from a
    law that knows no ties, so its own covered rows have to show it.
    """
    low = group.low
    if isnan(group.adjusted) and group.rows and not isnan(group.coverage):
        low = float(clopper_pearson(round(group.coverage * group.rows), group.rows)[0])
    shown = low > float(level) and group.inside_low < low and group.inside < group.coverage
    too_often = group.adjusted < SIGNIFICANT and excludes_level(group, level)
    return bool(group.rows) and shown and not too_often


def cannot_be_narrower(result: HasVerdict) -> list[GroupCoverage]:
    """Return the groups that are not shown to lie within the tolerance, and whose targets strictly inside are few."""
    wide = (row for row in result.table if row.rows and row.within > result.tolerance)
    return [row for row in wide if row.inside <= result.level < row.coverage]


def is_as_even_as_possible(result: HasVerdict, overall: GroupCoverage | None = None) -> bool:
    """Return whether groups are not even only because some of them cannot be narrower.

    No group is covered too rarely, some rows are shown to be covered more often than the level, and every group that is
    not shown to lie within the tolerance cannot be narrower.
    """
    tight, groups = cannot_be_narrower(result), [row for row in result.table if row.rows]
    shown = any(explained_by_bounds(row, result.level) for row in [*tight, *([] if overall is None else [overall])])
    enough = all(row.low >= result.level - result.tolerance for row in groups)
    wide = [row for row in groups if row.within > result.tolerance]
    return result.verdict == "undecided" and shown and enough and len(wide) == len(tight)


def shown_range(result: HasVerdict) -> tuple[float, float]:
    """Return the range in which the coverage of every group is shown to lie.

    It is that of the groups' intervals. These hold jointly, so they can be wider than what makes groups even: then it
    is the range around the level that does.
    """
    groups = [group for group in result.table if group.rows]
    low, high = min((group.low for group in groups), default=0.0), max((group.high for group in groups), default=1.0)
    lowest, highest = tolerance_range(result)
    if result.verdict == "even" and not lowest <= low <= high <= highest:
        return max(result.level - result.shown_within, 0.0), min(result.level + result.shown_within, 1.0)
    return low, high


def tolerance_range(result: HasVerdict) -> tuple[float, float]:
    """Return the lowest and the highest coverage that counts as even."""
    return max(result.level - result.tolerance, 0.0), min(result.level + result.tolerance, 1.0)


def sufficient_tolerance(distance: float) -> float:
    """Return the smallest tolerance with two decimals that is at least a distance; at most 0.99."""
    return min(ceil(round(100 * min(distance, 1.0), 6)) / 100, 0.99)


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


def checked_settings(level: Level, tolerance: float | None, seed: int) -> Settings:
    """Return the settings of a verdict; without a tolerance, that of the level. Raise ValueError if one is invalid."""
    tolerance = default_tolerance(level) if tolerance is None else tolerance
    if not is_number(tolerance) or not 0 < tolerance < 1:
        hint = f"; did you mean {tolerance / 100:g}?" if is_number(tolerance) and 1 <= tolerance < 100 else ""
        raise ValueError(f"tolerance must be a number between 0 and 1, such as 0.03; got {tolerance!r}{hint}")
    check_seed(seed)
    return Settings(level_fraction(level), float(tolerance), int(seed))
