"""What the verbs of the main job share."""

import shlex
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evencover.diagnostics.verdicts import Verdict
    from evencover.groups import Groups

STATUS: "dict[Verdict, int]" = {"even": 0, "uneven": 3, "undecided": 4}


def as_typed(verb: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Return the command that calls a verb with these arguments, without what is so by default."""
    words = ["evencover", verb.__name__]
    for name, parameter in signature(verb).parameters.items():
        value = given[name]
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


def labels_in(table: Any, name: str, role: str) -> "Groups":
    """Return the groups of a column's values, each row in one."""
    from evencover.groups import Groups
    from evencover.tables import column

    return Groups.from_labels(column(table, name, role), name=f"{role}: column {name!r}")
