"""The result of a diagnosis or an audit in one or two sentences, with numbers."""

from collections.abc import Sequence

import numpy as np

from evencover.diagnostics.exact_tests import SIGNIFICANT
from evencover.diagnostics.formatting import join_first, percent_text, range_text
from evencover.diagnostics.verdicts import GroupCoverage, HasVerdict, excludes_level, explained_by_bounds, shown_range
from evencover.display.text import count_text
from evencover.quantiles import Level

_ROUNDING_MARGIN = 1e-9
_TENTHS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def share_words(level: Level) -> str:
    """Return a level in words: half, nine in ten, 19 in 20, 97 in 100, 99.9 %."""
    percent = round(100 * float(level), 6)
    if percent == 50:
        return "half"
    if percent % 10 == 0 and 10 <= percent <= 90:
        return f"{_TENTHS[int(percent // 10) - 1]} in ten"
    if percent % 5 == 0 and 0 < percent < 100:
        return f"{percent // 5:g} in 20"
    return f"{percent:g} in 100" if percent % 1 == 0 and 0 < percent < 100 else f"{100 * float(level):.12g} %"


def share_sentence(overall: GroupCoverage, level: Level, tolerance: float, covered: str = "") -> str:
    """Return how often all rows are covered, compared with the level.

    `covered` continues "test targets ...", if the intervals are one-sided bounds; see `Quality.covered_text`.
    """
    what = f"test targets {covered}" if covered else "test rows"
    share = f"{percent_text(overall.coverage)} of {count_text(overall.rows)} {what}"
    are_covered = "" if covered else " are covered"
    if np.isinf(overall.within) and overall.coverage == 1:
        return f"{share}{are_covered}, because infinite intervals are right for every target."
    differs = overall.adjusted < SIGNIFICANT and excludes_level(overall, level)
    if differs and overall.within > _largest_close_distance(level, tolerance):
        more_or_fewer = "Fewer" if overall.coverage < level else "More"
        return f"{more_or_fewer} than asked: {share}, not about {share_words(level)}."
    if is_close(overall, level, tolerance):
        less_or_more = "A little less than" if overall.coverage < level else "A little more than"
        noticeable = differs and abs(overall.coverage - float(level)) > tolerance / 3
        asked = f"{less_or_more} asked" if noticeable else "As asked"
        return f"{asked}, about {share_words(level)}: {share}."
    cause = "targets that lie exactly on a bound" if explained_by_bounds(overall, level) else "chance"
    return f"About {share_words(level)} were asked; {share}{are_covered}, and {cause} can explain the difference."


def is_close(overall: GroupCoverage, level: Level, tolerance: float) -> bool:
    """Return whether the measured coverage is near the level, or as near as the number of rows allows."""
    distance = abs(overall.coverage - float(level))
    return bool(distance <= _largest_close_distance(level, tolerance) or distance * overall.rows < 1 - _ROUNDING_MARGIN)


def _largest_close_distance(level: Level, tolerance: float) -> float:
    """Return the tolerance; at high levels, no more than the share that may be missed."""
    return min(tolerance, 1 - float(level))


def groups_sentence(result: HasVerdict, off: Sequence[tuple[float, str]]) -> str:
    """Return which groups are off, or between which numbers the coverage of every group lies.

    Parameters
    ----------
    result : HasVerdict
        The result.
    off : sequence of (float, str)
        Coverage and text of each group that is off.
    """
    if off:
        return off_sentences(off, result.level, "Covered too rarely", "Covered too often")
    if result.verdict == "uneven":
        return "No single group is shown to be off, but all rows together are."
    several = sum(row.rows > 0 for row in result.table) > 1
    between = f"between {range_text(*shown_range(result))}"
    if not several:
        return f"The true share lies {between}."
    within = f"Every group is within {result.tolerance:.2g} of the level"
    state = within if result.verdict == "even" else "No group is shown to be off"
    return f"{state}; each lies {between}."


def off_sentences(off: Sequence[tuple[float, str]], level: Level, too_rarely: str, too_often: str) -> str:
    """Return the groups that are off, below and above the level, each list after its words."""
    rare = join_first(text for share, text in off if share < level)
    often = join_first(text for share, text in off if share >= level)
    return " ".join([f"{too_rarely}: {rare}."] * bool(rare) + [f"{too_often}: {often}."] * bool(often))
