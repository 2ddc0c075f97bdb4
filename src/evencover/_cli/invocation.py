"""How a command was called, and the exit status that it ends with."""

import shlex
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evencover.diagnostics._verdict import Verdict

EXIT_STATUS: "dict[Verdict, int]" = {"even": 0, "uneven": 3, "undecided": 4}


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
