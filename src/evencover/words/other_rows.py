"""Later rows and new units in sentences: how often intervals cover them, and what to do about it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from evencover.display.text import count_text, percent_text
from evencover.studies.other_rows import OtherRows
from evencover.words.settings import PYTHON, SettingStyle

BEYOND_THE_TABLE = "Beyond the table"
_MORE_OFTEN = 0.05
_LOWER_R2 = 0.05  # a difference of R² that is worth a sentence


def other_rows_text(found: OtherRows) -> str:
    """Return how often other rows are covered, compared with the level, and what the intervals are good for."""
    shown = found.shown
    share = f"For {_rows_text(found)}: {percent_text(shown.coverage)} of {_tested_text(shown)}"
    if shown.fails:
        return f"{share} instead of {100 * found.level:g} %. {_limits_text(found)}"
    if shown.coverage > found.level + _MORE_OFTEN:
        return f"{share}, more often than asked."
    if shown.is_close:
        return f"{share}, about as asked."
    return f"{share} instead of {100 * found.level:g} %. They are too few to tell whether this is chance."


def other_rows_question(found: Sequence[OtherRows]) -> str:
    """Return the question that is answered."""
    return f"What about {' and '.join(_rows_text(each) for each in found)}?"


def _tested_text(found: OtherRows) -> str:
    """Return how many rows were tested; of units, their number."""
    rows = f"{count_text(found.rows)} rows"
    return rows if found.units is None else f"{rows} of {count_text(found.units)} such values"


def _rows_text(found: OtherRows) -> str:
    """Return which rows the answer is about."""
    if found.question == "new":
        return f"new values of {found.column!r}"
    if found.column is None:
        return "rows after the last one"
    return f"later dates ({found.column!r})" if found.of_dates else f"later values of {found.column!r}"


def _limits_text(found: OtherRows) -> str:
    """Return for which rows the intervals hold."""
    if found.question == "new":
        return f"These intervals hold only for the values of {found.column!r} in the table."
    if found.column is None:
        depend = "Rows next to each other are alike in what the model does not explain"
        return f"{depend}, so these intervals hold only between the rows of the table."
    between = "the dates" if found.of_dates else f"the first and the last {found.column!r}"
    return f"These intervals hold only between {between} in the table."


@dataclass(frozen=True)
class OtherRowsAdvice:
    """What to do about other rows that are not covered: sentences, and the option of the command line they add."""

    sentences: Sequence[str]
    option: tuple[str, ...] = ()


def advice_on_other_rows(answers: Sequence[OtherRows], style: SettingStyle = PYTHON) -> OtherRowsAdvice:
    """Return what to do if later rows or new units are not covered; empty if they are."""
    failing = [each for each in answers if each.shown.fails]
    if not failing:
        return OtherRowsAdvice(())
    sentences = [sentence for each in failing for sentence in _advice(each, style)]
    options = [_setting(each, style) for each in failing if each.column is not None]
    return OtherRowsAdvice(sentences, tuple(shlex.split(options[0])) if options and style.command_line else ())


def _setting(found: OtherRows, style: SettingStyle) -> str:
    return style.setting("clusters" if found.question == "new" else "time", found.column or "COLUMN")


def _advice(found: OtherRows, style: SettingStyle) -> list[str]:
    use = "Run again with" if style.command_line else "Use"
    setting, rows = _setting(found, style), _rows_text(found)
    if found.question == "new":
        return [
            f"{use} {setting} to predict for {rows}.",
            "The intervals are then calibrated on values that the model has not seen, and are wider.",
        ]
    if found.in_order is not None and not found.in_order.fails and found.column is not None:
        return [
            f"{use} {setting} to predict {rows}.",
            "The first rows then fit the model, and the next ones calibrate it. Tested like this, "
            f"{percent_text(found.in_order.coverage)} of {_tested_text(found.in_order)} after these were covered.",
        ]
    return [f"Do not use these intervals for {rows}.", *_why_later_rows_fail(found), _change_target(found, style)]


def _why_later_rows_fail(found: OtherRows) -> list[str]:
    """Return that the model is worse on later rows, if it is."""
    later, at_random = found.shown.r2, found.r2_at_random
    if not isfinite(later) or not isfinite(at_random) or at_random - later < _LOWER_R2:
        return ["The rows change with time, more than the intervals allow for."]
    return [
        f"The model does not carry over to later rows: R2 is {at_random:.2f} on random rows, and {later:.2f} on later "
        "ones."
    ]


def _change_target(found: OtherRows, style: SettingStyle) -> str:
    setting = _setting(found, style)
    if found.column is None:
        return f"To predict what comes next, add a column of dates or of row numbers, and name it with {setting}."
    tested = found.in_order or found
    return (
        f"To predict the future, use {setting}, which tests on the last rows. As it is, about "
        f"{percent_text(tested.coverage)} of them are covered. The change since the time before is often easier to "
        "predict than the value itself."
    )
