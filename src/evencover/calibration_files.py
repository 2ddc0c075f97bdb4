"""Calibrations on disk: one npz archive of arrays with a JSON header, no pickle."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar
from zipfile import BadZipFile

import numpy as np

from evencover._version import __version__
from evencover.files import whole_file
from evencover.scores import IntervalDistance, Nonconformity, Normalized, Residual, Score, Standardized

DAMAGE = (BadZipFile, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError)
FORMAT = "evencover.calibration"
VERSION = 2
_HEADER = "header"
_SCORES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Residual, IntervalDistance, Normalized, Standardized)}

Learned = TypeVar("Learned")
Restore: TypeAlias = Callable[[dict[str, Any], Nonconformity], Learned]


def write(path: str | Path, nonconformity: Nonconformity, state: Mapping[str, Any]) -> None:
    """Write a score and what was learned with it to one file: whole or not at all."""
    with whole_file(path) as file:
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
    np.savez(file, **{_HEADER: np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]


def read(path: str | Path, nonconformity: Nonconformity | None, restore: Restore[Learned]) -> Learned:
    """Return what a file that `write` wrote says was learned, or say what is wrong with it."""
    with Path(path).open("rb") as file:
        return unpack(file, str(path), nonconformity, restore)


def unpack(file: BinaryIO, name: str, nonconformity: Nonconformity | None, restore: Restore[Learned]) -> Learned:
    """Return what an open file, called by its name in errors, says was learned: restored from its state and score."""
    try:
        return restore(*_contents(file, nonconformity))
    except DAMAGE as error:
        if isinstance(error, _RefusedError):
            raise ValueError(f"{name}: {error}") from None
        raise ValueError(f"{name} is no calibration that evencover wrote, or it is damaged: {error}") from error


class _RefusedError(ValueError):
    """The file is sound, but not for this reader."""


def _contents(file: BinaryIO, nonconformity: Nonconformity | None) -> tuple[dict[str, Any], Nonconformity]:
    """Return the state and the score in an open file."""
    with np.load(file, allow_pickle=False) as arrays:
        header = json.loads(arrays[_HEADER].tobytes())
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
        if header["version"] != VERSION:
            raise _RefusedError(
                f"written by evencover {header['evencover']} in version {header['version']} of the format; "
                f"this evencover reads version {VERSION}"
            )
        state = {**header["values"], **{name: arrays[name] for name in arrays.files if name != _HEADER}}
    return state, _rebuilt(header["nonconformity"], nonconformity)


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
            raise _RefusedError(f"its nonconformity is {described}; got {_described(given)}")
        return given
    if isinstance(described, list):
        return {label: _score(each) for label, each in described}
    return _score(described)


def _score(described: Mapping[str, Any]) -> Score:
    if described.get("own"):
        raise _RefusedError(f"its score is of your class {described['name']}: pass it as nonconformity=")
    score: Score = _SCORES[described["name"]](**described["settings"])
    return score
