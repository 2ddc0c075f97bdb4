"""Networks as arrays: their layers, what their outputs mean, and their files."""

from collections.abc import Iterator, Sequence
from copy import copy
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from evencover.files.archive import Archive, IncompatibleFileError, file_errors, read_archive, write_archive
from evencover.files.objects import dump_objects, load_objects
from evencover.inputs.arrays import FloatArray
from evencover.models.estimators import CenterMixin, checked_rows
from evencover.models.networks.training_tasks import GaussianLikelihood
from evencover.predictions import Prediction


class Layer(NamedTuple):
    """One layer of several networks: an affine map for each."""

    weight: Any  # (networks, inputs, outputs)
    bias: Any  # (networks, 1, outputs)


Layers = tuple[Layer, ...]


def initial_layers(sizes: Sequence[int], rng: np.random.Generator) -> Layers:
    """Return one network with random orthogonal weights and zero biases; sizes go from features to outputs."""
    return tuple(Layer(_orthogonal(*shape, rng)[None], np.zeros((1, 1, shape[1]))) for shape in pairwise(sizes))


def stacked(networks: Sequence[Layers]) -> Layers:
    """Return several networks of the same shape as one, joined along the leading axis."""
    return tuple(
        Layer(*(np.concatenate(parts) for parts in zip(*same, strict=True))) for same in zip(*networks, strict=True)
    )


def forward(layers: Layers, X: Any) -> Any:
    """Return the outputs, shape (networks, n, outputs), for rows of shape (1 or networks, n, features).

    Only operators are used, so numpy arrays and PyTorch tensors on any device both work.
    """
    *hidden, last = layers
    for layer in hidden:
        X = (X @ layer.weight + layer.bias).clip(min=0)
    return X @ last.weight + last.bias


def rows_at_a_time(layers: Layers) -> int:
    """Return the number of rows to predict at once so that the largest layer of activations takes at most 32 MB."""
    widest = max(layer.weight.shape[0] * layer.weight.shape[2] for layer in layers)
    return max(1, 2**22 // int(widest))


def layers_on(device: str, layers: Layers) -> Layers:
    """Return the layers in float64: as tensors if the device is a GPU and it is available, else as arrays.

    The outputs of a row depend on the other rows of the same call only by rounding. In float64 this changes the last
    bits; in float32 it would change the seventh digit.
    """
    layers = tuple(Layer(*(np.asarray(part, dtype=np.float64) for part in layer)) for layer in layers)
    if device == "cpu" or find_spec("torch") is None:
        return layers
    import torch

    if not torch.cuda.is_available():
        return layers
    return tuple(Layer(*(torch.from_numpy(part).to("cuda") for part in layer)) for layer in layers)


def outputs(layers: Layers, X: FloatArray) -> FloatArray:
    """Return the outputs, shape (networks, n, outputs), for rows (n, features), computed on the layers' device."""
    bias = layers[0].bias
    if isinstance(bias, np.ndarray):
        return np.asarray(forward(layers, X[None]))
    return np.asarray(forward(layers, bias.new_tensor(X[None])).cpu())


def thinned(layers: Layers, kept: Sequence[Any], dropout: float) -> Layers:
    """Return the networks that dropout makes of one: one for each pass, without the hidden units dropped in it.

    ``kept`` has a mask for each hidden layer: 1 for the units that a pass keeps, shape (passes, units).
    """
    first, *others = layers
    masks = [mask[:, :, None] / (1 - dropout) for mask in kept]
    return first, *(Layer(mask * layer.weight, layer.bias) for mask, layer in zip(masks, others, strict=True))


def _orthogonal(rows: int, columns: int, rng: np.random.Generator) -> FloatArray:
    """Return a random matrix whose rows, or columns if these are fewer, are orthonormal."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # without this, the distribution of the matrix would not be uniform
    return q if rows >= columns else q.T


class SavingMixin:
    """The methods `save` and `load` of networks and their ensembles."""

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, without pickle; `load` reads it.

        A `random_state` that is a generator is saved as None. Everything else is saved as it is.
        """
        check_is_fitted(self)
        content, untrusted = dump_objects(_without_random_generators(self), "network")
        foreign = [name for name in untrusted if name != _class_path(type(self))]
        if foreign:
            raise TypeError(f"settings must be numbers, text or sequences of them to be saved; got {foreign[0]}")
        write_archive(path, "network", Archive({"class": type(self).__name__}, {}, content))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the fitted model in a file that `save` wrote; PyTorch is not needed."""
        archive = read_archive(path, "network")
        with file_errors(path, "network"):
            saved = archive.header["class"]
            if saved != cls.__name__:
                raise IncompatibleFileError(f"the file holds a {saved}: use {saved}.load")
        model = load_objects(archive.objects, path, "network", [_class_path(cls)])
        with file_errors(path, "network"):
            if type(model) is not cls:
                raise TypeError(f"the object in it is a {type(model).__name__}")
            return model


def _class_path(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _without_random_generators(model: Any) -> Any:
    """Return a shallow copy with None for every `random_state` that is a generator, also in estimators inside."""
    copied = copy(model)
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.random.RandomState):
            setattr(copied, name, None)
        elif isinstance(value, BaseEstimator):
            setattr(copied, name, _without_random_generators(value))
    return copied


_MAX_LOG_VARIANCE = 30.0  # e^30 is 10^13 times the variance of the target: a larger value is not an estimate


class MixtureMixin(CenterMixin):
    """The methods `predict` and `predict_full` of one or several mean-variance networks."""

    def predict_full(self, X: Any) -> Prediction:
        """Return mean, total standard deviation and normal bounds.

        The total variance is the mean of the networks' variances plus the variance of their means.
        """
        model: Any = self
        centers, variances = [], []
        for values in network_outputs(model, checked_rows(model, X)):
            means, log_variances = values[..., 0], values[..., 1]
            own = np.exp(np.minimum(log_variances, _MAX_LOG_VARIANCE)) + GaussianLikelihood.stabilizer
            centers.append(means.mean(0))
            variances.append(own.mean(0) + means.var(0))
        spread = model.scaling_.y_scale * np.sqrt(np.concatenate(variances))
        return Prediction(model.scaling_.to_target(np.concatenate(centers)), spread, level=model.level_)


def network_outputs(model: Any, X: FloatArray) -> Iterator[FloatArray]:
    """Yield the outputs of a model's networks, in standardised units: blocks of shape (networks, rows, outputs)."""
    n_rows = rows_at_a_time(model.layers_)
    layers = layers_on(model.device_, model.layers_)
    for start in range(0, len(X), n_rows):
        yield outputs(layers, model.scaling_.features(X[start : start + n_rows]))
