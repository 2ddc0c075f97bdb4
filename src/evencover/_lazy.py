"""Names of a package that are loaded on first use, so that importing it is fast."""

TYPE_CHECKING = False  # type checkers take it for that of `typing`, which takes milliseconds to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def loaded_on_use(
    package: str, modules: "Mapping[str, str]"
) -> "tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]":
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    Parameters
    ----------
    package : str
        The name of the package.
    modules : mapping from str to str
        The names, separated by spaces, of each module of evencover.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> "Any":
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module
        from sys import modules as loaded

        value = getattr(import_module(f"evencover.{module_of[name]}"), name)
        setattr(loaded[package], name, value)
        return value

    names = sorted(module_of)
    return load, lambda: names, names
