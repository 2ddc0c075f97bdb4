"""How a command was called, and the exit status that it ends with."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, signature
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from evencover.cli.terminal import message_text

if TYPE_CHECKING:
    from evencover.diagnostics.verdicts import Verdict


class UsageError(ValueError):
    """The words of a command line are wrong, whatever the files hold; the exit status is `USAGE_STATUS`."""


USAGE_STATUS = 2


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn an error into a `UsageError`: inside, options are checked before any file is read."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise UsageError(message_text(error)) from error


def exit_status(verdict: "Verdict", *, strict: bool) -> int:
    """Return the exit status of a verdict: 3 if uneven; 4 if undecided and `strict`; otherwise 0."""
    if verdict == "uneven":
        return 3
    return 4 if strict and verdict == "undecided" else 0


HYPHEN, HYPHEN_AS_PATH = "-", "./-"  # the parser takes a hyphen for an option; as a path, both are the same


def flags_of_lists(commands: Iterable[Callable[..., Any]]) -> set[str]:
    """Return the options of these commands that take several values."""
    return {
        _flag(name)
        for command in commands
        for name, parameter in signature(command).parameters.items()
        if any(get_origin(kind) is tuple for kind in get_args(parameter.annotation))
    }


def with_repeated_flags(words: Sequence[str], commands: Sequence[Callable[..., Any]]) -> list[str]:
    """Return the words of a command line with an option before each of its values: --drop a --drop b for --drop a b.

    The values of an option end at the next option. As long as the files of the command are still to come, the values
    also end before a word that names one: a table, a file, a folder or a data set.

    Parameters
    ----------
    words : sequence of str
        The words after ``evencover``.
    commands : sequence of callable
        The commands with options that take several values.
    """
    lists, with_value = flags_of_lists(commands), _flags_with_value(commands)
    files_to_come = _count_files(words, commands) + 1  # the command itself counts
    result: list[str] = []
    flag = None  # the option whose first value has come
    for before, word in pairwise(["", *words]):
        if _is_option(word):
            flag = None
        elif before in with_value:
            flag = before if before in lists else None
        elif flag is None or (files_to_come > 0 and _names_data(word, flag)):
            flag, files_to_come = None, files_to_come - 1
        else:
            result.append(flag)
        result.append(HYPHEN_AS_PATH if word == HYPHEN else word)
    return result


def _flags_with_value(commands: Iterable[Callable[..., Any]]) -> set[str]:
    """Return the options of these commands that take at least one value."""
    parameters = [each for command in commands for each in signature(command).parameters.values()]
    return {_flag(each.name) for each in parameters if each.annotation is not bool}


def _count_files(words: Sequence[str], commands: Iterable[Callable[..., Any]]) -> int:
    """Return how many files the command takes; for any other command, one for each word."""
    for command in commands:
        if command.__name__ in words[:1]:
            kinds = [each.kind for each in signature(command).parameters.values()]
            return kinds.count(Parameter.POSITIONAL_ONLY)
    return len(words)


def _is_option(word: str) -> bool:
    """Return whether a word is an option, and not a negative number or a hyphen."""
    return re.match("-[^0-9.]", word) is not None


def _names_data(word: str, flag: str) -> bool:
    """Return whether a word after the values of an option is a file, a folder or a data set."""
    from evencover.datasets.dataset import cards
    from evencover.tables.files import SUFFIXES

    if word == HYPHEN:
        return flag != "--missing-values"
    return word.lower().endswith(SUFFIXES) or Path(word).exists() or word in cards()


def command_text(command: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """Return the line that calls a command with these arguments; arguments with their default value are left out."""
    words = ["evencover", command.__name__]
    for name, parameter in signature(command).parameters.items():
        value = arguments[name]
        if value == parameter.default:
            continue
        flag = _flag(name)
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            words.append(str(value))
        elif value is True:
            words.append(flag)
        else:
            words += [word for each in (value if isinstance(value, tuple) else [value]) for word in (flag, str(each))]
    return shlex.join(words)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
