"""Calibrations on disk: one npz archive of arrays with a JSON header, no pickle."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from evencover._version import __version__
from evencover.files import whole_file
from evencover.groups import Label
from evencover.pools import Pool
from evencover.scores import IntervalDistance, Nonconformity, Normalized, Residual, Score, Standardized

DAMAGE = (BadZipFile, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError)
FORMAT = "evencover.calibration"
VERSION = 1
_SCORES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Residual, IntervalDistance, Normalized, Standardized)}


def write(path: str | Path, parts: Mapping[str, Any]) -> None:
    """Write a calibration's parts, by their names, to one file: whole or not at all."""
    with whole_file(path) as file:
        pack(file, parts)


def pack(file: BinaryIO, parts: Mapping[str, Any]) -> None:
    """Write a calibration's parts to an open file."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "evencover": __version__,
        "nonconformity": _described(parts["nonconformity"]),
        "labels": [_plain(label) for label in parts["labels"]],
        "rules": parts["rules"],
        "weighted": parts["weighted"],
        "cells": list(parts["cells"]),
    }
    arrays: dict[str, NDArray[Any]] = {"header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)}
    for place, pool in enumerate(parts["cells"].values()):
        arrays[f"scores_{place}"] = pool.scores
        if pool.weights is not None:
            arrays[f"weights_{place}"] = pool.weights
    np.savez(file, **arrays)  # type: ignore[arg-type]


def read(path: str | Path, nonconformity: Nonconformity | None) -> dict[str, Any]:
    """Return the parts in a file that `write` wrote, or say what is wrong with it."""
    with Path(path).open("rb") as file:
        return unpack(file, str(path), nonconformity)


def unpack(file: BinaryIO, name: str, nonconformity: Nonconformity | None) -> dict[str, Any]:
    """Return the parts in an open file, called by its name in errors."""
    try:
        return _parts(file, nonconformity)
    except DAMAGE as error:
        if isinstance(error, _RefusedError):
            raise ValueError(f"{name}: {error}") from None
        raise ValueError(f"{name} is no calibration that evencover wrote, or it is damaged: {error}") from error


class _RefusedError(ValueError):
    """The file is sound, but not for this reader."""


def _parts(file: BinaryIO, nonconformity: Nonconformity | None) -> dict[str, Any]:
    """Return what an open file holds."""
    with np.load(file, allow_pickle=False) as arrays:
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
        if header["version"] > VERSION:
            raise _RefusedError(
                f"written by evencover {header['evencover']} in version {header['version']} of the format; "
                f"this evencover reads up to version {VERSION}"
            )
        cells = {
            (group, bits): Pool(arrays[f"scores_{i}"], arrays[f"weights_{i}"] if header["weighted"] else None)
            for i, (group, bits) in enumerate(header["cells"])
        }
    labels = tuple(header["labels"])
    return {
        "nonconformity": _rebuilt(header["nonconformity"], labels, nonconformity),
        "labels": labels,
        "cells": cells,
        "rules": tuple(header["rules"]),
        "weighted": header["weighted"],
    }


def _described(nonconformity: Nonconformity) -> Any:
    """Return a score as its name and settings; a mapping as one for each group, in order."""
    if isinstance(nonconformity, Mapping):
        return [_described(score) for score in nonconformity.values()]
    if type(nonconformity) in _SCORES.values():
        settings = asdict(nonconformity)  # type: ignore[call-overload]
        return {
            "name": type(nonconformity).__name__,
            "settings": {name: None if value is None else float(value) for name, value in settings.items()},
        }
    return {"name": type(nonconformity).__name__, "own": True}


def _rebuilt(described: Any, labels: tuple[Label, ...], given: Nonconformity | None) -> Nonconformity:
    """Return the score a file describes, or the given one, which must fit the description."""
    if given is not None:
        given = {label: given[label] for label in labels if label in given} if isinstance(given, Mapping) else given
        if _described(given) != described:
            raise _RefusedError(f"its nonconformity is {described}; got {_described(given)}")
        return given
    if isinstance(described, list):
        return {label: _score(each) for label, each in zip(labels, described, strict=True)}
    return _score(described)


def _score(described: Mapping[str, Any]) -> Score:
    if described.get("own"):
        raise _RefusedError(f"its score is of your class {described['name']}: pass it as nonconformity=")
    score: Score = _SCORES[described["name"]](**described["settings"])
    return score


def _plain(label: Label) -> Label:
    """Return a label that JSON gives back as it was."""
    if not isinstance(label, str | bool | int | float):
        raise TypeError(f"labels must be text, numbers or booleans to be saved; got {label!r}")
    return label
