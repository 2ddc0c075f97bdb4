r"""Text that is shown to people: control characters of the input are written as escape sequences.

Names of files, columns and categories are any text. In a terminal, control characters in them could move the cursor,
change colours or the title of the window, or begin a line that looks like one of evencover. In HTML they are invalid.
So a text is one line, in which a line break is written as \n, unless it was made of lines by `joined_lines`.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Self

from evencover.inputs import Finished

# C0 and C1 controls, line separators, characters that reverse the text around them, and surrogates, which stand for
# bytes of a file name that are not UTF-8. Joiners and marks that emoji and scripts need are not among them.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Lines(str):
    """A text of several lines whose control characters are escaped already."""

    __slots__ = ()


def joined_lines(parts: Iterable[str]) -> Lines:
    r"""Return texts as lines, one below the other. Each text is one line, unless it is `Lines`.

    Examples
    --------
    >>> print(joined_lines(["region  rows", "a\nb        3"]))
    region  rows
    a\nb        3
    """
    return Lines("\n".join(map(shown, parts)))


def shown(text: str) -> str:
    r"""Return a text as one line, with control characters as escape sequences such as \x1b; `Lines` are unchanged."""
    return text if isinstance(text, Lines) else _CONTROL.sub(_python_escape, text)


def one_line(error: Exception) -> str:
    """Return the message of an error of a library as one line."""
    return shown(" ".join(str(error).split()))


def json_text(data: Any, **settings: Any) -> Lines:
    """Return data as JSON text with the same values, in which control characters are escape sequences.

    Parameters
    ----------
    data : JSON values
        The data.
    **settings : Any
        Settings of `json.dumps`.
    """
    return Lines(_CONTROL.sub(_json_escape, json.dumps(data, ensure_ascii=False, **settings)))


def _python_escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _json_escape(found: re.Match[str]) -> str:
    """Return the escape sequence; a line break stays, because JSON has them between values only."""
    return "\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}"


def count_text(count: int) -> str:
    """Return a number of rows for a sentence: 586, 10 788."""
    return str(count) if count < 10_000 else f"{count:,}".replace(",", " ")


class Step(str):
    """A step of a long computation as text, such as "fitting the model: 12 of 40 fits", and what the text is made of.

    Parameters
    ----------
    name : str
        What is done.
    done, total : int
        How much of it is finished, and all of it.
    unit : str
        What is counted.
    effort : str, optional
        The effort of the model that is fitted, if it has one; see `Plan`.
    """

    name: str
    amount: str
    effort: str | None
    share: float

    def __new__(cls, name: str, done: int, total: int, unit: str, *, effort: str | None = None) -> Self:
        """Return the step; `done` may know which share of the work it is."""
        amount = f"{count_text(done)} of {count_text(total)} {unit}"
        step = super().__new__(cls, f"{name}: {amount}")
        step.name, step.amount, step.effort = name, amount, effort
        step.share = done.share if isinstance(done, Finished) else done / max(total, 1)
        return step

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make a copy, also in another process: as plain text."""
        return str, (str(self),)
