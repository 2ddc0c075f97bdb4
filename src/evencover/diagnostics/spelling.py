"""How advice names a setting (as a Python argument, or as an option of the command line), and sentences with one."""

from dataclasses import dataclass
from shlex import quote
from typing import Any

from evencover.diagnostics.formatting import range_text, short_repr
from evencover.diagnostics.verdicts import HasVerdict, sufficient_tolerance
from evencover.scores.score import score_option
from evencover.scores.support import without_support
from evencover.taxonomies import group_option

_LARGEST_TOLERANCE = 0.2


@dataclass(frozen=True)
class Spelling:
    """How advice names a setting.

    Parameters
    ----------
    command_line : bool
        Whether settings are options of the command line, such as ``--test-size 0.4``. Otherwise they are Python
        arguments, such as ``test_size=0.4``.
    """

    command_line: bool

    def setting(self, name: str, value: Any) -> str:
        """Return a setting with a value or a list of values; a text in capitals stands for what the reader knows."""
        if self.command_line:
            option = f"--{name.replace('_', '-')}"
            values = [str(each) for each in (value if isinstance(value, list) else [value])]
            if any(each.startswith("-") for each in values):  # which would read as options
                return " ".join(f"{option}={quote(each)}" for each in values)
            return option if value is True else " ".join([option, *map(quote, values)])
        return f"{name}={value if isinstance(value, str) and value.isupper() else repr(value)}"

    def groups(self, taxonomy: Any) -> str:
        """Return the setting of the groups."""
        option = group_option(taxonomy)
        return f"--groups {quote(option)}" if self.command_line and option else f"taxonomy={short_repr(taxonomy)}"

    def score(self, score: Any) -> str:
        """Return the setting of the score."""
        option = score_option(without_support(score)) if self.command_line else None  # its support is another option
        return f"--score {option}" if option else f"nonconformity={short_repr(score)}"


PYTHON, COMMAND_LINE = Spelling(command_line=False), Spelling(command_line=True)


def is_of_use(shown_within: float) -> bool:
    """Return whether the tolerance that rows would meet is small enough to tell something."""
    return sufficient_tolerance(shown_within) <= _LARGEST_TOLERANCE


def good_enough_text(result: HasVerdict, shown_within: float, spelling: Spelling) -> str:
    """Return with which tolerance the groups would count as even, if it is of use.

    What the rows show stands in the headline. A tolerance extends to both sides of the level, so its range is another.
    """
    if not is_of_use(shown_within):
        return "The rows are too few to show more."
    tolerance = sufficient_tolerance(shown_within)
    counted = range_text(max(result.level - tolerance, 0.0), min(result.level + tolerance, 1.0))
    return (
        f"If anything between {counted} in every group is good enough for you, nothing more is needed: with "
        f"{spelling.setting('tolerance', tolerance)}, the groups count as even."
    )
