"""Results on disk: the configuration, a line for each finished trial, and the models' predictions.

A folder holds ``benchmark.json``, the configuration; ``trials.jsonl``, a line for each finished trial; and
``predictions``, a file for each trained model and split. If the process is killed while it writes a line, the
incomplete line is discarded and its trial runs again. All other files are written atomically: they are complete or
absent. The configuration, each line and each file of predictions have a checksum.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from evencover.files.archive import ERRORS_OF_CORRUPT_FILES, atomic_write, opened_zip, read_array
from evencover.files.checksums import add_checksum, check_checksum, checked_json, with_checksum
from evencover.files.unfinished import remove_leftovers
from evencover.predictions import Prediction
from evencover.reproduction.benchmark.model_fits import FitKey
from evencover.reproduction.benchmark.trials import Row, SplitPredictions

_CONFIGURATION = "benchmark.json"
_TRIALS = "trials.jsonl"
_EXTENDABLE = ("datasets", "variants")
_PARTS = ("center", "spread", "lower", "upper")


@dataclass(frozen=True, eq=False)
class ResultStore:
    """A folder of results, open for one run at a time."""

    folder: Path
    rows: dict[str, list[Row]]  # of the finished trials, by the trial's key
    file: Any

    def add_trials(self, rows: Mapping[str, list[Row]]) -> None:
        """Append the rows of finished trials, by key, and wait until they are on the disk."""
        trials = (with_checksum({"key": key, "rows": trial_rows}) for key, trial_rows in rows.items())
        lines = (f"{json.dumps(trial)}\n" for trial in trials)
        self.file.write("".join(lines).encode())
        self.file.flush()
        os.fsync(self.file.fileno())
        self.rows.update(rows)

    def save_predictions(self, data: str, fit: FitKey, predictions: SplitPredictions) -> None:
        """Write a model's predictions for a split."""
        path = _predictions_path(self.folder, data, fit)
        path.parent.mkdir(exist_ok=True)
        with atomic_write(path) as file:
            np.savez(file, **_as_arrays(predictions))
            add_checksum(file)

    def load_predictions(self, data: str, fit: FitKey) -> SplitPredictions | None:
        """Return a model's predictions for a split, None if they are not saved."""
        path = _predictions_path(self.folder, data, fit)
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, opened_zip(file) as members:
                check_checksum(file)
                names = members.namelist()
                return _from_arrays({name.removesuffix(".npy"): read_array(members, name) for name in names})
        except ERRORS_OF_CORRUPT_FILES as error:
            raise ValueError(f"corrupt file {path} ({error}); delete it to train this model again") from error


@contextmanager
def open_store(folder: Path, configuration: Mapping[str, Any]) -> Iterator[ResultStore]:
    """Yield the result store in a folder; raise ValueError if it is in use or has another configuration.

    Parameters
    ----------
    folder : Path
        The folder with the results; created if it does not exist.
    configuration : mapping
        Plain values that determine the results. Later runs may add entries to ``datasets`` and ``variants``, which are
        by name; everything else must stay the same.
    """
    _check_is_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _TRIALS).open("ab") as file:
        _lock(file, folder)
        merged = _merged_configuration(folder, configuration)
        remove_leftovers(folder / "predictions")
        with atomic_write(folder / _CONFIGURATION) as new_file:
            new_file.write(json.dumps(with_checksum(merged), indent=2).encode())
        rows, n_bytes = _read_trials(folder / _TRIALS)
        file.truncate(n_bytes)
        yield ResultStore(folder, rows, file)


def finished_trials(folder: Path, configuration: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the rows of the finished trials by key, without changing anything in the folder."""
    _check_is_folder(folder)
    if not (folder / _TRIALS).exists():
        return {}
    _merged_configuration(folder, configuration)
    return _read_trials(folder / _TRIALS)[0]


def _check_is_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output must be a folder; {folder} is a file")


def _read_trials(path: Path) -> tuple[dict[str, list[Row]], int]:
    """Return the rows by key, and the number of bytes up to the end of the last complete line."""
    rows: dict[str, list[Row]] = {}
    n_bytes = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            trial = checked_json(json.loads(line))
            rows[trial["key"]] = trial["rows"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"corrupt line {number} in {path} ({error}); delete the line to run its trial again"
            ) from None
        n_bytes += len(line)
    return rows, n_bytes


def _merged_configuration(folder: Path, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with the data sets and variants of earlier runs; raise if another setting differs."""
    path = folder / _CONFIGURATION
    if not path.exists():
        return dict(configuration)
    earlier, current = _read_configuration(path), json.loads(json.dumps(configuration))
    merged: dict[str, Any] = current | {part: {**earlier.get(part, {}), **current[part]} for part in _EXTENDABLE}
    was, now = dict(_flatten(earlier)), dict(_flatten(merged))
    for part in now | was:
        is_new = part not in was and part.startswith(tuple(f"{name}." for name in _EXTENDABLE))
        if was.get(part) != now.get(part) and not is_new:
            raise ValueError(
                f"{folder} holds results of other settings: {part} is {was.get(part)} in the folder and "
                f"{now.get(part)} in this run. Choose another folder, or repeat the folder's settings to continue"
            )
    return merged


def _read_configuration(path: Path) -> dict[str, Any]:
    try:
        return checked_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not the configuration of a benchmark ({error}); choose another folder") from None


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a nested mapping, each with its path, such as ("models.QR", ...)."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _lock(file: Any, folder: Path) -> None:
    """Lock the folder until this process ends, in whatever way; on systems without such locks, do nothing."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another run is writing to {folder}; wait for it, or choose another folder") from None


def _predictions_path(folder: Path, data: str, fit: FitKey) -> Path:
    name = sha256(json.dumps([data, *fit]).encode()).hexdigest()[:20]  # names of data and models may be any text
    return folder / "predictions" / f"{name}.npz"


def _as_arrays(predictions: SplitPredictions) -> dict[str, Any]:
    arrays: dict[str, Any] = {"y": predictions.y, "n_calibration": predictions.n_calibration}
    for name in ("prediction", "baseline"):
        values: Prediction = getattr(predictions, name)
        arrays |= {f"{name}_{part}": getattr(values, part) for part in _PARTS} | {f"{name}_level": values.level}
    return arrays


def _from_arrays(arrays: Mapping[str, Any]) -> SplitPredictions:
    """Return the predictions that `_as_arrays` turned into arrays."""
    prediction, baseline = (
        Prediction(*(arrays[f"{name}_{part}"] for part in _PARTS), level=float(arrays[f"{name}_level"]))
        for name in ("prediction", "baseline")
    )
    return SplitPredictions(arrays["y"], int(arrays["n_calibration"]), prediction, baseline)
