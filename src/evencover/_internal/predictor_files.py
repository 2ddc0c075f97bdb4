"""Calibrated regressors on disk: one zip archive of a JSON header, what was calibrated and the model, no pickle."""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from sklearn import __version__ as sklearn_version

from evencover._internal.arrays import warn_user
from evencover._internal.calibration_files import IncompatibleFileError, file_errors, pack, unpack
from evencover._internal.optional import import_optional
from evencover._internal.saved_files import atomic_write
from evencover._version import __version__
from evencover.calibrators.by_group import ByGroup
from evencover.calibrators.protocols import Calibrated, Calibrator
from evencover.scores import Nonconformity

FORMAT = "evencover.predictor"
VERSION = 2
_NOTED = ("scikit-learn", "calibrator", "level", "scale", "n_features", "features")
_HEADER, _CALIBRATION, _LEARNED = "header.json", "calibration.npz", "learned.skops"
_OWN_CALIBRATORS = (ByGroup,)
_OWN = {
    "_internal.bins": "Bins",
    "calibrators.by_group": "ByGroup",
    "taxonomies": "ByFeature ByPrediction BySpread ByTarget Marginal Product",
    "models.adapters": "FromDistribution FromOutputs FromQuantiles FromStd",
    "models.encoding": "EncodedColumn TableEncoder",
    "models.forest": "QuantileForest",
    "models.networks.ensembles": "DeepEnsemble DropoutEnsemble",
    "models.networks._layers": "Layer",
    "models.networks.regressors": "MeanVarianceNetwork QuantileNetwork",
    "models._quantile_plan": "QuantilePlan",
    "models._scaling": "Scaling",
    "models.spread": "EnsembleSpread NeighborSpread ResidualSpread WithSpread",
}
TRUSTED = (  # kinds of thing that a file may hold without being asked about
    *(f"evencover.{module}.{name}" for module, names in _OWN.items() for name in names.split()),
    "quantile_forest._quantile_forest.RandomForestQuantileRegressor",
    "quantile_forest._quantile_forest_fast.QuantileForest",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree",
)


def write(
    path: str | Path, estimator: Any, calibrator: Calibrator, learned: Calibrated, notes: Mapping[str, Any]
) -> None:
    """Write a model, its calibrator, what that learned, and notes to one file: whole or not at all."""
    skops = import_optional("skops.io", extra="files", purpose="saving a predictor")
    state = learned.state()
    objects = {name: value for name, value in state.items() if not _is_plain(value)}
    is_own = type(calibrator) in _OWN_CALIBRATORS
    header = {
        "format": FORMAT,
        "version": VERSION,
        "evencover": __version__,
        "scikit-learn": sklearn_version,
        "calibrator": {"name": type(calibrator).__name__, "own": is_own},
        **notes,
    }
    content = skops.dumps({"estimator": estimator, "calibrator": calibrator if is_own else None, "state": objects})
    _check_saved_types([kind for kind in skops.get_untrusted_types(data=content) if kind not in TRUSTED])
    values = {name: value for name, value in state.items() if name not in objects}
    pack(calibration := BytesIO(), learned.nonconformity, values)
    with atomic_write(path) as file, ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr(_HEADER, json.dumps(header))
        archive.writestr(_CALIBRATION, calibration.getvalue())
        archive.writestr(_LEARNED, content)


def read(
    path: str | Path, nonconformity: Nonconformity | None, given: Calibrator | None, trusted: Sequence[str]
) -> tuple[Any, Calibrator, Calibrated, dict[str, Any]]:
    """Return the model, its calibrator, what that learned, and the header in a file that `write` wrote."""
    skops = import_optional("skops.io", extra="files", purpose="loading a predictor")
    header, calibration, content = _members(path)
    with file_errors(path, "predictor"):
        _check_calibrator(header["calibrator"], given)
        strange = sorted(set(skops.get_untrusted_types(data=content)) - {*TRUSTED, *trusted})
    if strange:
        raise ValueError(
            f"{path} holds kinds of thing that evencover does not know: {', '.join(strange)}. If you trust whoever "
            "wrote it, name them as trusted=[...]"
        )
    if header["scikit-learn"] != sklearn_version:
        warn_user(
            f"{path} was written with scikit-learn {header['scikit-learn']}, and this is {sklearn_version}: a model "
            "may predict differently, and a calibration holds only for the model it was made with"
        )
    with file_errors(path, "calibration"):
        state, score = unpack(BytesIO(calibration), nonconformity)
    with file_errors(path, "predictor"):
        objects = skops.loads(content, trusted=[*TRUSTED, *trusted])
        estimator, own, state = objects["estimator"], objects["calibrator"], {**state, **objects["state"]}
    if given is not None:
        return estimator, given, given.restore(state, score), header
    with file_errors(path, "predictor"):
        return estimator, own, own.restore(state, score), header


def _check_calibrator(described: Mapping[str, Any], given: Calibrator | None) -> None:
    """Raise unless a file's calibrator is ours, or the given one has its name."""
    if given is None and not described["own"]:
        raise IncompatibleFileError(f"its calibrator is of your class {described['name']}: pass it as calibrator=")
    if given is not None and type(given).__name__ != described["name"]:
        raise IncompatibleFileError(f"its calibrator is {described['name']}; got {given!r}")


def _is_plain(value: Any, *, inside: bool = False) -> bool:
    """Return whether a value is an array of numbers or text, or something that JSON gives back as it was."""
    if type(value) is np.ndarray:
        return not inside and not value.dtype.hasobject
    if type(value) is list:
        return all(_is_plain(each, inside=True) for each in value)
    return value is None or type(value) in (str, bool, int, float)


def noted_level(path: str | Path) -> float:
    """Return the level that a file says to predict at."""
    level: float = _members(path)[0]["level"]
    return level


def _members(path: str | Path) -> tuple[dict[str, Any], bytes, bytes]:
    """Return the header, the calibration and the model in a file, the latter two as they are."""
    with Path(path).open("rb") as file, file_errors(path, "predictor"):
        with ZipFile(file) as archive:
            header, scores, content = (archive.read(name) for name in (_HEADER, _CALIBRATION, _LEARNED))
        notes: dict[str, Any] = json.loads(header)
        if notes["format"] == FORMAT and int(notes["version"]) == VERSION:
            return {name: notes[name] for name in _NOTED}, scores, content
        written_by = notes["evencover"]
    raise ValueError(
        f"{path} was written by evencover {written_by} as {notes['format']}, version {notes['version']}; this "
        f"evencover reads {FORMAT}, version {VERSION}"
    )


def _check_saved_types(kinds: Sequence[str]) -> None:
    """Raise for functions without a name, which cannot be found again; warn of what has to be trusted in loading."""
    nameless = [kind for kind in kinds if "<" in kind]
    if nameless:
        raise TypeError(f"a function without a name of its own in a module cannot be saved; got {nameless[0]}")
    if kinds:
        warn_user(f"to load this file, name what it holds as trusted={list(kinds)}")
