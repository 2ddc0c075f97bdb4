"""Settings as text (Python arguments, or options of the command line), and messages on a table with such settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

from evencover.display.lines import joined_lines
from evencover.display.text import short_repr
from evencover.scores.score import score_option
from evencover.scores.support import without_support
from evencover.taxonomies import group_option

if TYPE_CHECKING:
    from evencover.studies.messages import Message

_OF_FILES = {"missing_values"}  # options of the command line that Python does not need


@dataclass(frozen=True)
class SettingStyle:
    """How texts name settings.

    Parameters
    ----------
    command_line : bool
        Whether settings are options of the command line, such as ``--held-out 0.4``. Otherwise they are Python
        arguments, such as ``held_out=0.4``.
    """

    command_line: bool

    def setting(self, name: str, value: Any) -> str:
        """Return a setting with a value or a list of values; a text in capitals stands for what the reader knows."""
        if name == "taxonomy":
            return self.groups(value)
        if self.command_line:
            option = f"--{name.replace('_', '-')}"
            values = [str(each) for each in (value if isinstance(value, list) else [value])]
            if any(each.startswith("-") for each in values):  # which would read as options
                return " ".join(f"{option}={quote(each)}" for each in values)
            return option if value is True else " ".join([option, *map(quote, values)])
        return f"{name}={value if isinstance(value, str) and value.isupper() else repr(value)}"

    def settings(self, values: Mapping[str, Any]) -> str:
        """Return several settings with their values."""
        separator = " " if self.command_line else ", "
        return separator.join(self.setting(name, value) for name, value in values.items())

    def groups(self, taxonomy: Any) -> str:
        """Return the setting of the groups."""
        option = group_option(taxonomy)
        return f"--groups {quote(option)}" if self.command_line and option else f"taxonomy={short_repr(taxonomy)}"

    def score(self, score: Any) -> str:
        """Return the setting of the score."""
        option = score_option(without_support(score)) if self.command_line else None  # its support is another option
        return f"--score {option}" if option else f"nonconformity={short_repr(score)}"


PYTHON, COMMAND_LINE = SettingStyle(command_line=False), SettingStyle(command_line=True)


def message_sentence(message: "Message", style: SettingStyle = PYTHON) -> str:
    """Return a message with a capital letter, unless it begins with the name of a file, and a full stop."""
    text = _message_text(message, style)
    return f"{text if '.' in text.split()[0] else text[0].upper() + text[1:]}."


def problems_text(problems: Sequence["Message"], style: SettingStyle = PYTHON) -> str:
    """Return all problems of a table, with the settings that solve them."""
    texts = [_message_text(problem, style) for problem in problems]
    if len(texts) == 1:
        return texts[0]
    remedies = [_usable_remedies(problem, style) for problem in problems]
    together = [f"All at once: {style.settings(_first_of_each(remedies))}"] if all(remedies) else []
    return joined_lines([f"the table has {len(texts)} problems:", *(f"- {text}" for text in texts), *together])


def _message_text(message: "Message", style: SettingStyle) -> str:
    remedies = [style.settings(remedy) for remedy in _usable_remedies(message, style)]
    return f"{message.text}{message.lead} {' or '.join(remedies)}" if remedies else message.text


def _usable_remedies(message: "Message", style: SettingStyle) -> list[Mapping[str, Any]]:
    """Return the remedies that exist on the command line, or in Python."""
    return [each for each in message.remedies if style.command_line or not set(each) & _OF_FILES]


def _first_of_each(remedies: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the first remedy of each problem; lists of the same setting are joined."""
    joined: dict[str, Any] = {}
    for name, value in (setting for first, *_ in remedies for setting in first.items()):
        joined[name] = [*joined.get(name, []), *value] if isinstance(value, list) else value
    return joined
