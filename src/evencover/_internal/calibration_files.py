"""Calibrations on disk: one npz archive of arrays with a JSON header, no pickle."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar
from zipfile import BadZipFile
from zlib import error as ZlibError  # noqa: N812

import numpy as np

from evencover._internal.saved_files import atomic_write
from evencover._version import __version__
from evencover.scores import BUILTIN_SCORES, Nonconformity, Score

_DAMAGE = (
    *(AttributeError, BadZipFile, EOFError, KeyError, NotImplementedError),
    *(OSError, RuntimeError, TypeError, ValueError, ZlibError),
)
FORMAT = "evencover.calibration"
VERSION = 2
_HEADER, _ARRAY = "header", "array_"  # members of the archive: the latter with a name behind it
_SCORES: dict[str, type[Any]] = {kind.__name__: kind for kind in BUILTIN_SCORES}

Learned = TypeVar("Learned")
Restore: TypeAlias = Callable[[dict[str, Any], Nonconformity], Learned]


def write(path: str | Path, nonconformity: Nonconformity, state: Mapping[str, Any]) -> None:
    """Write a score and what was learned with it to one file: whole or not at all."""
    with atomic_write(path) as file:
        pack(file, nonconformity, state)


def pack(file: BinaryIO, nonconformity: Nonconformity, state: Mapping[str, Any]) -> None:
    """Write a score and what was learned with it, arrays and values that JSON knows by name, to an open file."""
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "evencover": __version__,
        "nonconformity": _described(nonconformity),
        "values": {name: value for name, value in state.items() if name not in arrays},
    }
    members = {f"{_ARRAY}{name}": value for name, value in arrays.items()}
    members[_HEADER] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(file, **members)  # type: ignore[arg-type]


def read(path: str | Path, nonconformity: Nonconformity | None, restore: Restore[Learned]) -> Learned:
    """Return what a file that `write` wrote says was learned, or say what is wrong with it."""
    with Path(path).open("rb") as file, file_errors(path, "calibration"):
        return restore(*unpack(file, nonconformity))


def unpack(file: BinaryIO, nonconformity: Nonconformity | None) -> tuple[dict[str, Any], Nonconformity]:
    """Return the state and the score in an open file, inside `file_errors`."""
    with np.load(file, allow_pickle=False) as arrays:
        header = json.loads(arrays[_HEADER].tobytes())
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
        if header["version"] != VERSION:
            raise IncompatibleFileError(
                f"written by evencover {header['evencover']} in version {header['version']} of the format; "
                f"this evencover reads version {VERSION}"
            )
        held = {name.removeprefix(_ARRAY): arrays[name] for name in arrays.files if name.startswith(_ARRAY)}
    return {**header["values"], **held}, _rebuilt(header["nonconformity"], nonconformity)


@contextmanager
def file_errors(path: str | Path, what: str) -> Iterator[None]:
    """Turn whatever a damaged or refused file leads to into one error that names it, and says what it is not."""
    try:
        yield
    except IncompatibleFileError as error:
        raise ValueError(f"{path}: {error}") from None
    except _DAMAGE as error:
        raise ValueError(f"{path} is no {what} that evencover wrote, or it is damaged: {error}") from error


class IncompatibleFileError(ValueError):
    """The file is sound, but not for this reader."""


def _described(nonconformity: Nonconformity) -> Any:
    """Return a score as its name and settings; a mapping as pairs of a group and its score, in order."""
    if isinstance(nonconformity, Mapping):
        return [[label, _described(score)] for label, score in nonconformity.items()]
    if type(nonconformity) in _SCORES.values():
        settings = asdict(nonconformity)  # type: ignore[call-overload]
        return {
            "name": type(nonconformity).__name__,
            "settings": {name: None if value is None else float(value) for name, value in settings.items()},
        }
    return {"name": type(nonconformity).__name__, "own": True}


def _rebuilt(described: Any, given: Nonconformity | None) -> Nonconformity:
    """Return the score a file describes, or the given one, which must fit the description."""
    if given is not None:
        if isinstance(given, Mapping) and isinstance(described, list):
            given = {label: given[label] for label, _ in described if label in given}
        if _described(given) != described:
            raise IncompatibleFileError(f"its nonconformity is {described}; got {_described(given)}")
        return given
    if isinstance(described, list):
        return {label: _score(each) for label, each in described}
    return _score(described)


def _score(described: Mapping[str, Any]) -> Score:
    if described.get("own"):
        raise IncompatibleFileError(f"its score is of your class {described['name']}: pass it as nonconformity=")
    score: Score = _SCORES[described["name"]](**described["settings"])
    return score
