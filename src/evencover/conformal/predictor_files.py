"""Calibrated regressors on disk: the calibration, and the fitted model as an object that skops wrote."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn import __version__ as sklearn_version

from evencover.calibration.calibration_files import from_archive, to_archive
from evencover.calibration.cross import CrossFolds
from evencover.calibration.group_thresholds import ByGroup, TwoTails
from evencover.calibration.protocols import Calibrator
from evencover.display.lines import one_line
from evencover.files.archive import IncompatibleFileError, file_errors, read_archive, read_header, write_archive
from evencover.files.checksums import checked_json
from evencover.files.objects import dump_objects, load_objects
from evencover.inputs.arrays import warn_user
from evencover.scores.score import Nonconformity

PREDICTOR, RESULTS = "predictor.evencover", "results.json"  # files in the folder of a run
_NOTES = ("scikit-learn", "calibrator", "level", "scale", "n_features", "features")
_OWN_CALIBRATORS = (ByGroup, TwoTails, CrossFolds)

PredictorClass: TypeAlias = Literal["ConformalRegressor", "CrossConformalRegressor"]


@dataclass(frozen=True, eq=False)
class SavedPredictor:
    """The contents of a file."""

    estimator: Any  # fitted
    calibrator: Any
    learned: Any
    notes: Mapping[str, Any]  # in the header
    path: str = ""


def write(path: str | Path, saved: SavedPredictor) -> None:
    """Write a fitted model, its calibrator, what the calibrator learned, and notes for the header to one file."""
    calibrator, state = saved.calibrator, saved.learned.state()
    objects = {name: value for name, value in state.items() if not is_plain(value)}
    is_own = type(calibrator) in _OWN_CALIBRATORS
    content, untrusted = dump_objects(
        {"estimator": saved.estimator, "calibrator": calibrator if is_own else None, "state": objects}, "predictor"
    )
    archive = to_archive(saved.learned.nonconformity, {name: state[name] for name in state if name not in objects})
    described = {"name": type(calibrator).__name__, "own": is_own}
    header = {**archive.header, "scikit-learn": sklearn_version, "calibrator": described, **saved.notes}
    if untrusted:
        warn_user(f"to load this file, pass the names of the classes in it: trusted={untrusted}")
    write_archive(path, "predictor", replace(archive, header=header, objects=content))


def read(
    path: str | Path,
    kind: PredictorClass,
    nonconformity: Nonconformity | None,
    trusted: Sequence[str],
    given: Calibrator | None = None,
) -> SavedPredictor:
    """Return the contents of a file that `write` wrote; raise ValueError if it is of another class than ``kind``."""
    archive = read_archive(path, "predictor")
    with file_errors(path, "predictor"):
        _check_class(archive.header, kind)
        notes = {**{name: archive.header[name] for name in _NOTES}, "parameters": archive.header.get("parameters", {})}
        _check_calibrator(notes["calibrator"], given)
        state, score = from_archive(archive, nonconformity)
    _warn_of_other_version(path, notes["scikit-learn"])
    objects = load_objects(archive.objects, path, "predictor", trusted)
    with file_errors(path, "predictor"):
        estimator, own, state = objects["estimator"], objects["calibrator"], {**state, **objects["state"]}
    if given is not None:  # outside `file_errors`: an error in the user's own code is not one of the file
        return SavedPredictor(estimator, given, given.restore(state, score), notes, str(path))
    with file_errors(path, "predictor"):
        return SavedPredictor(estimator, own, own.restore(state, score), notes, str(path))


@contextmanager
def model_errors(path: str | None) -> Iterator[None]:
    """Let an error that only a forged model, or a mistake in code, can cause name the file of the model, if any."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError) as error:
        if path is None or isinstance(error, ValueError):
            raise
        raise ValueError(
            f"the model in {path} cannot predict these rows ({type(error).__name__}: {one_line(error)}). Either its "
            "file was changed, or this is a mistake in the code of the model or of evencover"
        ) from error


def saved_class(path: str | Path) -> PredictorClass:
    """Return the name of the class whose `load` reads a file."""
    header = read_header(path, "predictor")
    with file_errors(path, "predictor"):
        return _class_of(header)


def saved_level(path: str | Path) -> float:
    """Return the level that was passed when the file was saved."""
    header = read_header(path, "predictor")
    with file_errors(path, "predictor"):
        return float(header["level"])


def texts_of_run(folder: Path, setting: Literal["missing_values", "kept_columns"]) -> list[str]:
    """Return the texts of a setting of a run, from the results in its folder; none if there are none.

    They are the texts that mean a missing value, or the columns that are written next to the intervals.
    """
    with file_errors(folder / RESULTS, "results"):
        texts = _results_in(folder).get(setting, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{setting} must be texts; got {texts!r:.40}")
        return texts


def file_format_of(folder: Path) -> tuple[str, Mapping[str, Any]]:
    """Return the name of the table of a run, and the settings of its format that the user gave, if there are any."""
    with file_errors(folder / RESULTS, "results"):
        results = _results_in(folder)
        settings = results.get("file_format", {})
        if not isinstance(settings, dict):
            raise ValueError(f"file_format must be an object; got {settings!r:.40}")
        return str(results.get("data", "")), settings


def _results_in(folder: Path) -> dict[str, Any]:
    """Return the results in the folder of a run; empty if there are none."""
    path = folder / RESULTS
    return dict(checked_json(json.loads(path.read_text(encoding="utf-8-sig")))) if path.is_file() else {}


def _class_of(header: Mapping[str, Any]) -> PredictorClass:
    described = header["calibrator"]
    is_cross = described["own"] and described["name"] == CrossFolds.__name__
    return "CrossConformalRegressor" if is_cross else "ConformalRegressor"


def _check_class(header: Mapping[str, Any], kind: PredictorClass) -> None:
    """Raise unless a file was saved by this class."""
    if (saved := _class_of(header)) != kind:
        raise IncompatibleFileError(f"a {saved} was saved to this file; load it by {saved}.load, not by {kind}.load")


def without_scale(nonconformity: Any, scale: float | None) -> Any:
    """Return the score, or mapping of scores, without a scale that was computed in `fit`, at any depth."""
    if scale is None:
        return nonconformity
    if isinstance(nonconformity, Mapping):
        return {label: without_scale(score, scale) for label, score in nonconformity.items()}
    if not is_dataclass(nonconformity) or isinstance(nonconformity, type):
        return nonconformity
    settings = {each.name: getattr(nonconformity, each.name) for each in fields(nonconformity) if each.init}
    found = {name: without_scale(value, scale) for name, value in settings.items()}
    return replace(nonconformity, **{**found, **({"scale": None} if settings.get("scale") == scale else {})})


def _check_calibrator(described: Mapping[str, Any], given: Calibrator | None) -> None:
    """Raise unless a file's calibrator is of this package, or the given one has its name."""
    if given is None and not described["own"]:
        raise IncompatibleFileError(f"its calibrator is of your class {described['name']}: pass it as calibrator=")
    if given is not None and type(given).__name__ != described["name"]:
        raise IncompatibleFileError(f"its calibrator is {described['name']}; got {given!r}")


def _warn_of_other_version(path: str | Path, saved_with: str) -> None:
    if saved_with != sklearn_version:
        warn_user(
            f"{path} was written with scikit-learn {saved_with}, and this is {sklearn_version}: the model may predict "
            "differently, and a calibration holds only for the model it was made with"
        )


def is_plain(value: Any, *, inside: bool = False) -> bool:
    """Return whether a value is an array of numbers or text, or a value that JSON restores unchanged."""
    if type(value) is np.ndarray:
        return not inside and not value.dtype.hasobject
    if type(value) is list:
        return all(is_plain(each, inside=True) for each in value)
    return value is None or type(value) in (str, bool, int, float)
