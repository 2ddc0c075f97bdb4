"""Optional packages: imported where they are used; the error tells how to install a missing one."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from evencover._version import __version__


def import_optional(name: str, *, extra: str, purpose: str) -> Any:
    """Return a module of an optional package. Raise ImportError with the install command if it is missing.

    Parameters
    ----------
    name : str
        Name of the module.
    extra : str
        The extra of evencover that installs it.
    purpose : str
        What needs it, for the error message.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        command = f"pip install 'evencover[{extra}]' (from a clone: pip install '.[{extra}]')"
        raise ImportError(f"{purpose} needs {name}: {command}", name=name) from error


@contextmanager
def import_disabled(names: Iterable[str]) -> Iterator[None]:
    """Let the import of these modules fail inside the context; modules that are loaded already stay as they are."""
    disabled = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(disabled))  # type: ignore[arg-type]  # None: the import raises ImportError
    try:
        yield
    finally:
        for name in disabled:
            del sys.modules[name]


def package_versions(names: Iterable[str]) -> dict[str, str | None]:
    """Return the installed versions of packages by name, None for a package that is not installed."""
    return {name: __version__ if name == "evencover" else _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
