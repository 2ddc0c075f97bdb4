"""Results on disk: rows appended as trials finish, predictions beside them, and what they were made with.

A folder holds ``benchmark.json``, the configuration; ``trials.jsonl``, a line for each finished trial; and
``predictions``, a file for each trained model and split. A line that was cut off when the process died is no line: its
trial runs again. Every other file is whole or not there.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from evencover._internal.saved_files import atomic_write
from evencover.predictions import Prediction
from evencover.reproduction.benchmark._model_fits import Fit, SplitPredictions
from evencover.reproduction.benchmark.trials import Row

_CONFIGURATION = "benchmark.json"
_TRIALS = "trials.jsonl"
_EXTENDABLE = ("datasets", "variants")
_PARTS = ("center", "spread", "lower", "upper")


@dataclass(frozen=True, eq=False)
class Store:
    """A folder of results, open for one run at a time."""

    folder: Path
    rows: dict[str, list[Row]]  # by key, of the trials that have finished
    file: Any

    def add(self, found: Mapping[str, list[Row]]) -> None:
        """Append finished trials by key, and see to it that they are on the disk."""
        lines = (json.dumps({"key": key, "rows": rows}) + "\n" for key, rows in found.items())
        self.file.write("".join(lines).encode())
        self.file.flush()
        os.fsync(self.file.fileno())
        self.rows.update(found)

    def keep(self, data: str, fit: Fit, told: SplitPredictions) -> None:
        """Write what a model says about a split."""
        path = _told_path(self.folder, data, fit)
        path.parent.mkdir(exist_ok=True)
        with atomic_write(path) as file:
            np.savez(file, **_arrays(told))

    def told(self, data: str, fit: Fit) -> SplitPredictions | None:
        """Return what a model says about a split, if that is known."""
        path = _told_path(self.folder, data, fit)
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return _told(arrays)
        except (BadZipFile, KeyError, ValueError) as error:
            raise ValueError(f"{path} is damaged ({error}); delete it to train that model again") from error


@contextmanager
def opened(folder: Path, configuration: Mapping[str, Any]) -> Iterator[Store]:
    """Yield the store in a folder, made if it is not there; refuse one that is in use or was made otherwise.

    Parameters
    ----------
    folder : Path
        Where the results are.
    configuration : mapping
        Plain values that decide what results are. To ``datasets`` and ``variants``, which are by name, others may be
        added later; everything must stay as it is.
    """
    _check_is_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _TRIALS).open("ab") as file:
        _lock(file, folder)
        merged = _merged(folder, configuration)
        for pattern in (f"{_CONFIGURATION}.*.part", "predictions/*.npz.*.part"):  # of a run that was killed
            for left_over in folder.glob(pattern):
                left_over.unlink()
        with atomic_write(folder / _CONFIGURATION) as fresh:
            fresh.write(json.dumps(merged, indent=2).encode())
        rows, whole = _finished_lines(folder / _TRIALS)
        file.truncate(whole)
        yield Store(folder, rows, file)


def finished(folder: Path, configuration: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the finished trials' rows by key, without changing anything in the folder."""
    _check_is_folder(folder)
    if not (folder / _TRIALS).exists():
        return {}
    _merged(folder, configuration)
    return _finished_lines(folder / _TRIALS)[0]


def _check_is_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output must be a folder; {folder} is a file")


def _finished_lines(path: Path) -> tuple[dict[str, list[Row]], int]:
    """Return the rows by key, and the number of bytes up to the end of the last whole line."""
    rows: dict[str, list[Row]] = {}
    whole = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            read = json.loads(line)
            rows[read["key"]] = read["rows"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number} is damaged ({error}); delete the line to run its trial again"
            ) from None
        whole += len(line)
    return rows, whole


def _merged(folder: Path, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with what earlier runs had besides, or say in what it differs from theirs."""
    path = folder / _CONFIGURATION
    if not path.exists():
        return dict(configuration)
    there, here = _read(path), json.loads(json.dumps(configuration))
    merged: dict[str, Any] = here | {part: {**there.get(part, {}), **here[part]} for part in _EXTENDABLE}
    was, now = dict(_flat(there)), dict(_flat(merged))
    for part in now | was:
        is_new = part not in was and part.startswith(tuple(f"{name}." for name in _EXTENDABLE))
        if was.get(part) != now.get(part) and not is_new:
            raise ValueError(
                f"{folder} holds results of another configuration: {part} is {was.get(part)} there and {now.get(part)} "
                "here. Name another folder, or repeat those settings to go on"
            )
    return merged


def _read(path: Path) -> dict[str, Any]:
    """Return a configuration, or say that the file holds something else."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not the configuration of a benchmark ({error}); name another folder") from None


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the innermost values, each with its path."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _lock(file: Any, folder: Path) -> None:
    """Take the folder for this process, until it ends in whatever way; where the system has no such locks, trust."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another run is writing to {folder}; wait for it, or name another folder") from None


def _told_path(folder: Path, data: str, fit: Fit) -> Path:
    name = sha256(json.dumps([data, *fit]).encode()).hexdigest()[:20]  # names of data and models may be anything
    return folder / "predictions" / f"{name}.npz"


def _arrays(told: SplitPredictions) -> dict[str, Any]:
    """Return plain arrays."""
    arrays: dict[str, Any] = {"y": told.y, "n_calibration": told.n_calibration}
    for name in ("prediction", "baseline"):
        said: Prediction = getattr(told, name)
        arrays |= {f"{name}_{part}": getattr(said, part) for part in _PARTS} | {f"{name}_level": said.level}
    return arrays


def _told(arrays: Mapping[str, Any]) -> SplitPredictions:
    """Return what `_arrays` took apart."""
    said = [
        Prediction(*(arrays[f"{name}_{part}"] for part in _PARTS), level=float(arrays[f"{name}_level"]))
        for name in ("prediction", "baseline")
    ]
    return SplitPredictions(arrays["y"], int(arrays["n_calibration"]), *said)
