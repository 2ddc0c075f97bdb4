"""Problems, warnings and notes about a table, each with the settings that solve it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
    kind : str
        What it is about, where code needs to know it; no code reads the text.
    """

    text: str
    remedies: tuple[Mapping[str, Any], ...] = ()
    lead: str = ": use"
    kind: str = ""


class TableWarning(UserWarning):
    """Something that may be wrong with a table.

    Parameters
    ----------
    message : Message
        What may be wrong.
    """

    def __init__(self, message: Message) -> None:
        from evencover.words.settings import message_sentence

        self.message = message
        super().__init__(message_sentence(message))

    def for_command_line(self) -> str:
        """Return the message with options of the command line."""
        from evencover.words.settings import COMMAND_LINE, message_sentence

        return message_sentence(self.message, COMMAND_LINE)


class TableError(ValueError):
    """All problems of a table.

    Parameters
    ----------
    problems : sequence of Message
        The problems.
    """

    def __init__(self, problems: Sequence[Message]) -> None:
        from evencover.words.settings import problems_text

        self.problems = tuple(problems)
        super().__init__(problems_text(self.problems))

    def for_command_line(self) -> str:
        """Return all problems, with options of the command line."""
        from evencover.words.settings import COMMAND_LINE, problems_text

        return problems_text(self.problems, COMMAND_LINE)
