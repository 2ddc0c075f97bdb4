"""Problems, warnings and notes about a table, each with the settings that solve it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evencover.diagnostics.spelling import COMMAND_LINE, PYTHON, Spelling

_OF_FILES = {"missing_values"}  # options of the command line that Python does not need


@dataclass(frozen=True)
class Message:
    """A sentence about a table.

    Parameters
    ----------
    text : str
        The sentence, without a full stop.
    remedies : tuple of mappings from str to value
        Settings of `study` that solve it, the best first. A remedy may need several settings.
    lead : str
        The words between the sentence and the settings.
    """

    text: str
    remedies: tuple[Mapping[str, Any], ...] = ()
    lead: str = ": use"

    def spelled(self, spelling: Spelling) -> str:
        """Return the sentence, with its settings named in this way."""
        remedies = [_spelled_settings(remedy, spelling) for remedy in self.usable_remedies(spelling)]
        return f"{self.text}{self.lead} {' or '.join(remedies)}" if remedies else self.text

    def sentence(self, spelling: Spelling) -> str:
        """Return the message with a capital letter, unless it begins with the name of a file, and a full stop."""
        text = self.spelled(spelling)
        return f"{text if '.' in text.split()[0] else text[0].upper() + text[1:]}."

    def usable_remedies(self, spelling: Spelling) -> list[Mapping[str, Any]]:
        """Return the remedies that exist on the command line, or in Python."""
        return [each for each in self.remedies if spelling.command_line or not set(each) & _OF_FILES]


class TableWarning(UserWarning):
    """Something that may be wrong with a table.

    Parameters
    ----------
    message : Message
        What may be wrong.
    """

    def __init__(self, message: Message) -> None:
        self.message = message
        super().__init__(message.sentence(PYTHON))

    def for_command_line(self) -> str:
        """Return the message with options of the command line."""
        return self.message.sentence(COMMAND_LINE)


class TableError(ValueError):
    """All problems of a table.

    Parameters
    ----------
    problems : sequence of Message
        The problems.
    """

    def __init__(self, problems: Sequence[Message]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.spelled(PYTHON))

    def for_command_line(self) -> str:
        """Return all problems, with options of the command line."""
        return self.spelled(COMMAND_LINE)

    def spelled(self, spelling: Spelling) -> str:
        """Return all problems, with the settings that solve them named in this way."""
        texts = [problem.spelled(spelling) for problem in self.problems]
        if len(texts) == 1:
            return texts[0]
        solved = _spelled_settings(self._first_remedies(spelling), spelling)
        together = f"\nAll at once: {solved}" if all(each.usable_remedies(spelling) for each in self.problems) else ""
        return f"the table has {len(texts)} problems:" + "".join(f"\n- {text}" for text in texts) + together

    def _first_remedies(self, spelling: Spelling) -> dict[str, Any]:
        """Return the first remedy of each problem; lists of the same setting are joined."""
        joined: dict[str, Any] = {}
        first = (each.usable_remedies(spelling)[:1] for each in self.problems)
        for name, value in (setting for remedies in first for remedy in remedies for setting in remedy.items()):
            joined[name] = [*joined.get(name, []), *value] if isinstance(value, list) else value
        return joined


def _spelled_settings(settings: Mapping[str, Any], spelling: Spelling) -> str:
    separator = " " if spelling.command_line else ", "
    return separator.join(spelling.setting(name, value) for name, value in settings.items())
