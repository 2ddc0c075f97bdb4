"""Calibrations on disk: the scores as arrays, the nonconformity measure as its name and settings in the header."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import accumulate, chain
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from evencover.files.archive import (
    Archive,
    IncompatibleFileError,
    check_header,
    file_errors,
    read_archive,
    write_archive,
)
from evencover.scores import BUILTIN_SCORES, Score
from evencover.scores.score import Nonconformity

_SCORES: dict[str, type[Any]] = {score.__name__: score for score in BUILTIN_SCORES}

Learned = TypeVar("Learned")
Restore: TypeAlias = Callable[[dict[str, Any], Nonconformity], Learned]


def write(path: str | Path, nonconformity: Nonconformity, state: Mapping[str, Any]) -> None:
    """Write a score, and the state of what was learned with it, to one file."""
    write_archive(path, "calibration", to_archive(nonconformity, state))


def read(path: str | Path, nonconformity: Nonconformity | None, restore: Restore[Learned]) -> Learned:
    """Return what ``restore(state, score)`` makes of a file that `write` wrote; raise ValueError if it is corrupt."""
    with Path(path).open("rb") as file:
        is_json = file.read(1) == b"{"
    if is_json:
        return _read_json(path, nonconformity, restore)
    archive = read_archive(path, "calibration")
    with file_errors(path, "calibration"):
        return restore(*from_archive(archive, nonconformity))


def _read_json(path: str | Path, nonconformity: Nonconformity | None, restore: Restore[Learned]) -> Learned:
    """Return the calibration in a file of JSON, which those of tables were up to version 4 of the format."""
    content = Path(path).read_bytes()
    with file_errors(path, "calibration"):
        data = json.loads(content)
        check_header(data, "table calibration")
        return restore(_state_of_json(data), restored_nonconformity(data["nonconformity"], nonconformity))


def _state_of_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of `CountedScores` from the counts of each group, whose positions are a first one and steps."""
    groups = data["groups"]
    for group in groups:
        if len(group["steps"]) + 1 != max(len(group["counts"]), 1) or sum(group["counts"]) != group["rows"]:
            raise ValueError(f"the counts of group {group['label']!r} do not belong together")
    indices = [list(accumulate([group["first"], *group["steps"]]))[: len(group["counts"])] for group in groups]
    exact = [(row, rank, float(score)) for row, group in enumerate(groups) for rank, score in group["exact"]]
    return {
        "cells": np.array([(row, 0) for row in range(len(groups))]).reshape(-1, 2),
        "lengths": np.array([len(each) for each in indices]),
        "indices": np.array(list(chain.from_iterable(indices))),
        "counts": np.array([count for group in groups for count in group["counts"]]),
        "exact_ranks": np.array([each[:2] for each in exact]).reshape(-1, 2),
        "exact_scores": np.array([score for *_, score in exact], dtype=float),
        "labels": [group["label"] for group in groups],
        "rules": [],
        **{name: data[name] for name in ("bits", "columns", "levels")},
    }


def to_archive(nonconformity: Nonconformity, state: Mapping[str, Any]) -> Archive:
    """Return the archive of a score and a state: arrays, and values that JSON can represent, by name."""
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    values = {name: value for name, value in state.items() if name not in arrays}
    return Archive({"nonconformity": described_nonconformity(nonconformity), "values": values}, arrays)


def from_archive(archive: Archive, nonconformity: Nonconformity | None) -> tuple[dict[str, Any], Nonconformity]:
    """Return the state and the score in an archive; call it inside `file_errors`."""
    score = restored_nonconformity(archive.header["nonconformity"], nonconformity)
    return {**archive.header["values"], **archive.arrays}, score


def described_nonconformity(nonconformity: Nonconformity) -> Any:
    """Return a score as its name and settings; a mapping as pairs of a group and its score, in order."""
    if isinstance(nonconformity, Mapping):
        return [[label, described_nonconformity(score)] for label, score in nonconformity.items()]
    if type(nonconformity) in _SCORES.values():
        settings = {each.name: getattr(nonconformity, each.name) for each in fields(nonconformity)}  # type: ignore[arg-type]
        return {
            "name": type(nonconformity).__name__,
            "settings": {name: _described_setting(value) for name, value in settings.items()},
        }
    return {"name": type(nonconformity).__name__, "own": True}


def _described_setting(value: Any) -> Any:
    """Return a setting of a score as a JSON value; a score inside another one as its description."""
    if value is None or isinstance(value, str | bool | np.bool_):
        return bool(value) if isinstance(value, np.bool_) else value
    return float(value) if isinstance(value, Real) else described_nonconformity(value)


def restored_nonconformity(description: Any, given: Nonconformity | None) -> Nonconformity:
    """Return the score that a file describes, or the given one, which must match the description."""
    if given is not None:
        if isinstance(given, Mapping) and isinstance(description, list):
            given = {label: given[label] for label, _ in description if label in given}
        if described_nonconformity(given) != description:
            raise IncompatibleFileError(f"its nonconformity is {description}; got {described_nonconformity(given)}")
        return given
    if isinstance(description, list):
        return {label: _restored_score(each) for label, each in description}
    return _restored_score(description)


def _restored_score(description: Mapping[str, Any]) -> Score:
    if description.get("own"):
        raise IncompatibleFileError(f"its score is of your class {description['name']}: pass it as nonconformity=")
    settings = {
        name: _restored_score(value) if isinstance(value, Mapping) else value
        for name, value in description["settings"].items()
    }
    score: Score = _SCORES[description["name"]](**settings)
    return score
