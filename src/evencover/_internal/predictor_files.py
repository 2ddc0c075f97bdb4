"""Calibrated regressors on disk: the calibration, and the fitted model as an object that skops wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn import __version__ as sklearn_version
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from evencover._internal.arrays import warn_user
from evencover._internal.calibration_files import from_archive, to_archive
from evencover._internal.saved_files import IncompatibleFileError, file_errors, read_archive, read_header, write_archive
from evencover._internal.saved_objects import dump_objects, load_objects
from evencover.calibrators.by_group import ByGroup
from evencover.calibrators.protocols import Calibrated, Calibrator
from evencover.calibrators.two_tails import TwoTails
from evencover.models.predict import is_frozen
from evencover.quantiles import level_fraction
from evencover.scores.score import Nonconformity
from evencover.taxonomies import fresh_taxonomy

PREDICTOR, RESULTS = "predictor.evencover", "results.json"  # files in the folder of a run
_NOTES = ("scikit-learn", "calibrator", "level", "scale", "n_features", "features")
_OWN_CALIBRATORS = (ByGroup, TwoTails)


class PredictorFileMixin:
    """The methods `save` and `load` of `ConformalRegressor`."""

    estimator_: Any
    scale_: float | None
    calibrator_: Calibrated
    _learned_by: Calibrator

    def save(self, path: str | Path, *, level: float = 0.9) -> None:
        """Write the calibrated model to one file, without pickle; the calibration rows are not saved.

        A warning lists classes that `load` does not know: others than those of scikit-learn, boosters and this package.

        Parameters
        ----------
        path : str or Path
            The file. It is written atomically: complete, or not at all.
        level : float
            The default level of ``evencover predict`` for this file.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        notes = {
            "level": float(level_fraction(level)),
            "scale": self.scale_,
            "n_features": getattr(self, "n_features_in_", None),
            "features": None if names is None else names.tolist(),
        }
        write(path, self.estimator_, self._learned_by, self.calibrator_, notes)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        nonconformity: Nonconformity | None = None,
        calibrator: Calibrator | None = None,
        trusted: Sequence[str] = (),
    ) -> Self:
        """Return the calibrated model in a file that `save` wrote. Its estimator is frozen: `fit` only calibrates it.

        Parameters
        ----------
        path : str or Path
            The file.
        nonconformity : score or mapping, optional
            The score, if its class is your own: a file can hold only scores of this package.
        calibrator : calibrator, optional
            The calibrator, if its class is your own.
        trusted : sequence of str
            Names of further classes that may be loaded, such as ``"mine.Model"``; a warning of `save` and the error of
            `load` list those that a file needs. A file contains no code, but loading runs the code of these classes,
            and a manipulated model can crash the process: load only files from authors you trust.
        """
        fitted, learner, learned, notes = read(path, nonconformity, calibrator, trusted)
        frozen = fitted if is_frozen(fitted) else FrozenEstimator(fitted)
        model: Any = cls(frozen, nonconformity=learned.nonconformity, calibrator=learner)  # type: ignore[call-arg]
        model.estimator_, model.scale_ = fitted, notes["scale"]
        model.calibrator_, model._learned_by = learned, learner
        if calibrator is None and isinstance(learner, ByGroup):
            model.set_params(calibrator=None, taxonomy=fresh_taxonomy(model.taxonomy_))
        if notes["n_features"] is not None:
            model.n_features_in_ = notes["n_features"]
        if notes["features"] is not None:
            model.feature_names_in_ = np.array(notes["features"], dtype=object)
        return model  # type: ignore[no-any-return]


def write(
    path: str | Path, estimator: Any, calibrator: Calibrator, learned: Calibrated, notes: Mapping[str, Any]
) -> None:
    """Write a fitted model, its calibrator, what the calibrator learned, and notes for the header to one file."""
    state = learned.state()
    objects = {name: value for name, value in state.items() if not _is_plain(value)}
    is_own = type(calibrator) in _OWN_CALIBRATORS
    content, untrusted = dump_objects(
        {"estimator": estimator, "calibrator": calibrator if is_own else None, "state": objects}, "predictor"
    )
    archive = to_archive(learned.nonconformity, {name: state[name] for name in state if name not in objects})
    described = {"name": type(calibrator).__name__, "own": is_own}
    header = {**archive.header, "scikit-learn": sklearn_version, "calibrator": described, **notes}
    if untrusted:
        warn_user(f"to load this file, pass the names of the classes in it: trusted={untrusted}")
    write_archive(path, "predictor", replace(archive, header=header, objects=content))


def read(
    path: str | Path, nonconformity: Nonconformity | None, given: Calibrator | None, trusted: Sequence[str]
) -> tuple[Any, Calibrator, Calibrated, dict[str, Any]]:
    """Return the model, its calibrator, what the calibrator learned, and the notes in a file that `write` wrote."""
    archive = read_archive(path, "predictor")
    with file_errors(path, "predictor"):
        notes = {name: archive.header[name] for name in _NOTES}
        _check_calibrator(notes["calibrator"], given)
        state, score = from_archive(archive, nonconformity)
    _warn_of_other_version(path, notes["scikit-learn"])
    objects = load_objects(archive.objects, path, "predictor", trusted)
    with file_errors(path, "predictor"):
        estimator, own, state = objects["estimator"], objects["calibrator"], {**state, **objects["state"]}
    if given is not None:  # outside `file_errors`: an error in the user's own code is not one of the file
        return estimator, given, given.restore(state, score), notes
    with file_errors(path, "predictor"):
        return estimator, own, own.restore(state, score), notes


def saved_level(path: str | Path) -> float:
    """Return the level that was passed when the file was saved."""
    header = read_header(path, "predictor")
    with file_errors(path, "predictor"):
        return float(header["level"])


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


def _is_plain(value: Any, *, inside: bool = False) -> bool:
    """Return whether a value is an array of numbers or text, or a value that JSON restores unchanged."""
    if type(value) is np.ndarray:
        return not inside and not value.dtype.hasobject
    if type(value) is list:
        return all(_is_plain(each, inside=True) for each in value)
    return value is None or type(value) in (str, bool, int, float)
