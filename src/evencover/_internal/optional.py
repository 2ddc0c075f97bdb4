"""Optional packages: loaded where they are used, with one error that says how to install them."""

from importlib import import_module
from typing import Any


def import_optional(name: str, *, extra: str, purpose: str) -> Any:
    """Return a module of an extra, or say which extra brings it.

    Parameters
    ----------
    name : str
        The module.
    extra : str
        The extra of this package that installs it.
    purpose : str
        What needs it, for the error.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        how = f"pip install 'evencover[{extra}]' (from a clone: pip install '.[{extra}]')"
        raise ImportError(f"{purpose} needs {name}: {how}", name=name) from error
