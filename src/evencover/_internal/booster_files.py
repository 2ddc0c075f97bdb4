"""Regressors of LightGBM, XGBoost and CatBoost in saved files: each model in the format of its own library.

Before an object is saved, `pack_boosters` replaces each such regressor in it by a `SavedBooster`; after it is loaded,
`unpack_boosters` puts the regressors back. Later versions of a library read its format, which they do not promise for
pickles. Earlier versions may read it wrongly without an error (XGBoost 3.0 reads files of 3.2, and predicts something
else), so they are an error here. Only the libraries in the table below are ever imported.
"""

import re
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from evencover._internal.saved_files import IncompatibleFileError
from evencover._internal.unfinished_files import temporary_folder


@dataclass(frozen=True, eq=False)
class SavedBooster:
    """A regressor of a boosting library, as it is in a file."""

    library: str
    version: str  # of the library
    name: str  # of the regressor's class
    params: dict[str, Any]
    attributes: dict[str, Any]  # further ones, such as the number of features
    content: bytes  # the model in the library's own format; empty if it is not fitted


@dataclass(frozen=True)
class _Library:
    """How the regressors of a library are written and read."""

    regressors: tuple[str, ...]
    write: Callable[[Any], bytes]  # of a fitted regressor
    read: Callable[[Any, SavedBooster], object]  # into a regressor that is not fitted
    is_fitted: Callable[[Any], bool]
    model_attributes: tuple[str, ...]  # the attributes that `write` and the parameters already hold


def pack_boosters(objects: Any) -> Any:
    """Return the objects with a `SavedBooster` for each regressor in them; what holds none is not copied."""
    return _replace(objects, _pack, {}) if any(library in sys.modules for library in _LIBRARIES) else objects


def unpack_boosters(objects: Any) -> Any:
    """Return the objects with the regressor of each `SavedBooster`; raise ModuleNotFoundError without its library."""
    return _replace(objects, lambda value: _unpack(value) if type(value) is SavedBooster else value, {})


def _pack(value: Any) -> Any:
    """Return a regressor of a known library as a `SavedBooster`, and any other value unchanged."""
    name, package = type(value).__name__, type(value).__module__.partition(".")[0]
    library = _LIBRARIES.get(package)
    if library is None or name not in library.regressors:
        return value
    module, params = import_module(package), value.get_params(deep=False)
    if type(value) is not getattr(module, name):
        return value
    held = {*params, *library.model_attributes}
    attributes = {key: attribute for key, attribute in vars(value).items() if key not in held}
    content = library.write(value) if library.is_fitted(value) else b""
    return SavedBooster(package, module.__version__, name, params, attributes, content)


def _unpack(saved: SavedBooster) -> Any:
    """Return the regressor of a `SavedBooster`."""
    library = _LIBRARIES.get(saved.library)
    if library is None or saved.name not in library.regressors:
        raise IncompatibleFileError(f"the file holds a {saved.library}.{saved.name}, which evencover does not know")
    _check_attributes(saved, library)
    module = import_module(saved.library)
    if _version_numbers(module.__version__) < _version_numbers(saved.version):
        raise IncompatibleFileError(
            f"its {saved.name} was written by {saved.library} {saved.version}, and this is {module.__version__}, which "
            f"could predict something else: upgrade {saved.library}"
        )
    try:
        model = getattr(module, saved.name)(**saved.params)
        if saved.content:
            library.read(model, saved)
        vars(model).update(saved.attributes)
    except Exception as error:
        raise IncompatibleFileError(
            f"its {saved.name} was written by {saved.library} {saved.version}, and {saved.library} "
            f"{module.__version__} cannot read it: {_first_line(error)}"
        ) from error
    return model


def _check_attributes(saved: SavedBooster, library: _Library) -> None:
    """Raise unless each attribute is one that `_pack` could have saved: not the model itself, and no special name."""
    for name in saved.attributes:
        is_name = isinstance(name, str) and name.isidentifier() and not name.startswith("__")
        if not is_name or name in library.model_attributes:
            raise IncompatibleFileError(
                f"its {saved.name} has the attribute {name!r}, which no file of evencover writes"
            )


def _first_line(error: Exception) -> str:
    """Return the first line of a message; XGBoost adds the stack of its own code."""
    return str(error).strip().partition("\n")[0]


def _version_numbers(version: str) -> list[int]:
    """Return the first two numbers of a version: [3, 2] of "3.2.0"; formats do not change with the third."""
    return [int(number) for number in re.findall(r"\d+", version)[:2]]


def _replace(value: Any, convert: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    """Return a value in which `convert` has replaced parts at any depth; values without such parts are not copied."""
    if id(value) not in done:
        done[id(value)] = value  # ends cycles
        converted = convert(value)
        if converted is value:
            converted = _replace_parts(value, lambda part: _replace(part, convert, done))
        done[id(value)] = converted
    return done[id(value)]


def _replace_parts(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Return a list, tuple, mapping or object with its parts replaced, or itself if none changes."""
    if type(value) in (list, tuple):
        parts = [replace(part) for part in value]
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else type(value)(parts)
    held = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    if not isinstance(held, dict) or isinstance(value, ModuleType):
        return value
    changed = {name: new for name, part in held.items() if (new := replace(part)) is not part}
    if not changed:
        return value
    copied = copy(value)
    (copied if held is value else vars(copied)).update(changed)
    return copied


def _write_lightgbm(model: Any) -> bytes:
    text: str = model.booster_.model_to_string(num_iteration=-1)  # all trees, also those after an early stop
    return text.encode()


def _read_lightgbm(model: Any, saved: SavedBooster) -> None:
    model._Booster = import_module("lightgbm").Booster(model_str=saved.content.decode())
    model._Booster.best_iteration = saved.attributes["_best_iteration"]


def _write_xgboost(model: Any) -> bytes:
    return bytes(model.get_booster().save_raw("ubj"))


def _read_xgboost(model: Any, saved: SavedBooster) -> None:
    model.load_model(bytearray(saved.content))
    model.set_params(**saved.params)  # load_model overwrites some of them


def _write_catboost(model: Any) -> bytes:
    with temporary_folder() as folder:
        path = folder / "model.cbm"
        model.save_model(str(path), format="cbm")
        return path.read_bytes()


_LIBRARIES = {
    "lightgbm": _Library(
        ("LGBMRegressor",),
        _write_lightgbm,
        _read_lightgbm,
        is_fitted=lambda model: model.__sklearn_is_fitted__(),
        model_attributes=("_Booster",),
    ),
    "xgboost": _Library(
        ("XGBRegressor", "XGBRFRegressor"),
        _write_xgboost,
        _read_xgboost,
        is_fitted=lambda model: model.__sklearn_is_fitted__(),
        model_attributes=("_Booster",),
    ),
    "catboost": _Library(
        ("CatBoostRegressor",),
        _write_catboost,
        read=lambda model, saved: model.load_model(blob=saved.content),
        is_fitted=lambda model: model.is_fitted(),
        model_attributes=("_object", "_init_params", "_canonized_params"),
    ),
}
