"""Networks on disk: one safetensors file of arrays with a JSON header, no pickle."""

import json
from dataclasses import asdict
from itertools import count, takewhile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from evencover._internal.optional import import_optional
from evencover._internal.saved_files import atomic_write
from evencover._version import __version__
from evencover.models._quantile_plan import QuantilePlan
from evencover.models._scaling import Scaling
from evencover.models.networks._layers import Layer

FORMAT = "evencover.network"
VERSION = 1
_NUMBERS = ("level_", "n_epochs_", "spread_floor_")

Model = TypeVar("Model")


def write_network(model: Any, path: str | Path) -> None:
    """Write a fitted model to one file: whole or not at all."""
    check_is_fitted(model)
    safetensors = import_optional("safetensors.numpy", extra="files", purpose="saving a network")
    content = safetensors.save(_arrays(model), metadata={"evencover": json.dumps(_header(model), default=_plain)})
    with atomic_write(path) as file:
        file.write(content)


def read_network(kind: type[Model], path: str | Path, inner: type[Any] | None = None) -> Model:
    """Return the fitted model of this kind in a file that `write_network` wrote, or say what is wrong with it.

    ``inner`` is the kind of the network that an ensemble is made of.
    """
    safetensors = import_optional("safetensors", extra="files", purpose="loading a network")
    with Path(path).open("rb"):
        pass  # a missing file is the system's own error
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = json.loads(file.metadata()["evencover"])
            _check_readable(header, kind)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        model: Model = _restored(_rebuilt(kind, header["settings"], inner), header, arrays)
    except IncompatibleFileError as error:
        raise ValueError(f"{path}: {error}") from None
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no network that evencover wrote, or it is damaged: {error!r}") from error
    return model


class IncompatibleFileError(ValueError):
    """The file is sound, but not for this reader."""


def _check_readable(header: dict[str, Any], kind: type[Any]) -> None:
    """Raise unless the file is of this format, of a version known here, and holds this kind of model."""
    if header["format"] != FORMAT or header["version"] > VERSION:
        raise IncompatibleFileError(
            f"written by evencover {header['evencover']} as {header['format']}, version {header['version']}; "
            f"this evencover reads {FORMAT} up to version {VERSION}"
        )
    if header["kind"] != kind.__name__:
        raise IncompatibleFileError(f"it holds a {header['kind']}: {header['kind']}.load reads it")


def _header(model: Any) -> dict[str, Any]:
    """Return what is not an array: settings, features, and what was noted in training."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "evencover": __version__,
        "kind": type(model).__name__,
        "settings": _settings(model),
        "device": model.device_,
        "features": model.n_features_in_,
        "names": getattr(model, "feature_names_in_", None),
        "plan": asdict(model.plan_) if hasattr(model, "plan_") else None,
        "numbers": {name: getattr(model, name) for name in _NUMBERS if hasattr(model, name)},
    }


def _arrays(model: Any) -> dict[str, NDArray[Any]]:
    """Return a model's arrays by name."""
    scaling = model.scaling_
    arrays = {"X_mean": scaling.X_mean, "X_scale": scaling.X_scale, "y": np.array([scaling.y_mean, scaling.y_scale])}
    for place, layer in enumerate(model.layers_):
        arrays |= {f"weight_{place}": layer.weight, f"bias_{place}": layer.bias}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _restored(model: Any, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the model with what it had learned."""
    places = takewhile(lambda place: f"weight_{place}" in arrays, count())
    model.layers_ = tuple(Layer(arrays[f"weight_{place}"], arrays[f"bias_{place}"]) for place in places)
    model.scaling_ = Scaling(arrays["X_mean"], arrays["X_scale"], *arrays["y"].tolist())
    model.device_, model.n_features_in_ = header["device"], header["features"]
    if header["names"] is not None:
        model.feature_names_in_ = np.array(header["names"], dtype=object)
    if header["plan"] is not None:
        model.plan_ = QuantilePlan(**{name: _hashable(value) for name, value in header["plan"].items()})
    for name, value in header["numbers"].items():
        setattr(model, name, value)
    return model


def _settings(model: Any) -> dict[str, Any]:
    """Return the constructor's arguments; an ensemble's network is its own settings, a generator is left out."""
    settings: dict[str, Any] = model.get_params(deep=False)
    network = settings.get("network")
    if network is not None:
        settings["network"] = _settings(network.estimator if isinstance(network, FrozenEstimator) else network)
    if isinstance(settings["random_state"], np.random.RandomState):
        settings["random_state"] = None
    return settings


def _rebuilt(kind: type[Any], settings: dict[str, Any], inner: type[Any] | None) -> Any:
    """Return an unfitted model with these settings."""
    network = settings.pop("network", None)
    settings = {name: _hashable(value) for name, value in settings.items()}
    return kind(**settings, **({} if inner is None else {"network": network and _rebuilt(inner, network, None)}))


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Return numpy's numbers and arrays as JSON knows them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"settings must be numbers, text or sequences of them to be saved; got {value!r}")
