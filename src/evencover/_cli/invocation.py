"""How a command was called, and the exit status that it ends with."""

import shlex
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evencover.diagnostics._verdict import Verdict


def exit_status(verdict: "Verdict", *, strict: bool) -> int:
    """Return the exit status of a verdict: 3 if uneven; 4 if undecided and `strict`; otherwise 0."""
    if verdict == "uneven":
        return 3
    return 4 if strict and verdict == "undecided" else 0


def command_text(command: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """Return the line that calls a command with these arguments; arguments with their default value are left out."""
    words = ["evencover", command.__name__]
    for name, parameter in signature(command).parameters.items():
        value = arguments[name]
        if value == parameter.default:
            continue
        flag = f"--{name.replace('_', '-')}"
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            words.append(str(value))
        elif value is True:
            words.append(flag)
        else:
            words += [word for each in (value if isinstance(value, tuple) else [value]) for word in (flag, str(each))]
    return shlex.join(words)
