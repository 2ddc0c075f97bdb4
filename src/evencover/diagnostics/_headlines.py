"""The result of a diagnosis or an audit in one or two sentences, with numbers."""

from collections.abc import Sequence

from evencover._internal.text_output import count_text
from evencover.diagnostics._formatting import join_first, percent_text, range_text
from evencover.diagnostics._verdict import GroupCoverage, coverage_range, excludes_level, is_off
from evencover.quantiles import Level

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
    close = abs(overall.coverage - float(level)) <= min(tolerance, 1 - float(level))
    if is_off(overall, level, tolerance) or (not close and excludes_level(overall, level)):
        more_or_fewer = "Fewer" if overall.coverage < level else "More"
        return f"{more_or_fewer} than asked: {share}, not about {share_words(level)}."
    if close:
        less_or_more = "A little less than" if overall.coverage < level else "A little more than"
        noticeable = abs(overall.coverage - float(level)) > tolerance / 3 and excludes_level(overall, level)
        asked = f"{less_or_more} asked" if noticeable else "As asked"
        return f"{asked}, about {share_words(level)}: {share}."
    are_covered = "" if covered else " are covered"
    return f"About {share_words(level)} were asked; {share}{are_covered}, and chance can explain the difference."


def groups_sentence(
    table: Sequence[GroupCoverage], off: Sequence[tuple[float, str]], level: Level, verdict: str
) -> str:
    """Return which groups are off, or between which numbers the coverage of every group lies.

    Parameters
    ----------
    table : sequence of GroupCoverage
        The groups.
    off : sequence of (float, str)
        Coverage and text of each group that is off.
    level : float
        Nominal coverage.
    verdict : {"even", "uneven", "undecided"}
        The verdict.
    """
    if off:
        return off_sentences(off, level, "Covered too rarely", "Covered too often")
    several = sum(row.rows > 0 for row in table) > 1
    between = f"between {range_text(*coverage_range(table))}"
    if not several:
        return f"The true share lies {between}."
    state = "Every group is within the tolerance" if verdict == "even" else "No group is shown to be off"
    return f"{state}; each lies {between}."


def off_sentences(off: Sequence[tuple[float, str]], level: Level, too_rarely: str, too_often: str) -> str:
    """Return the groups that are off, below and above the level, each list after its words."""
    rare = join_first(text for share, text in off if share < level)
    often = join_first(text for share, text in off if share >= level)
    return " ".join([f"{too_rarely}: {rare}."] * bool(rare) + [f"{too_often}: {often}."] * bool(often))
