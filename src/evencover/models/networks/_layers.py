"""Networks as arrays: layers with a leading axis, one entry for each network of a stack."""

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from evencover._internal.arrays import FloatArray


class Layer(NamedTuple):
    """An affine map for each network of a stack."""

    weight: Any  # (networks, inputs, outputs)
    bias: Any  # (networks, 1, outputs)


Layers = tuple[Layer, ...]


def initial_layers(sizes: Sequence[int], rng: np.random.Generator) -> Layers:
    """Return one network with orthogonal weights and zero biases, from features to outputs."""
    return tuple(Layer(_orthogonal(*shape, rng)[None], np.zeros((1, 1, shape[1]))) for shape in pairwise(sizes))


def stacked(networks: Sequence[Layers]) -> Layers:
    """Return several networks of one shape as one stack."""
    return tuple(
        Layer(*(np.concatenate(parts) for parts in zip(*same, strict=True))) for same in zip(*networks, strict=True)
    )


def forward(layers: Layers, X: Any) -> Any:
    """Return the outputs, shape (networks, n, outputs), for rows of shape (1 or networks, n, features).

    Plain operators only, so that numpy arrays and tensors on any device will do.
    """
    *hidden, last = layers
    for layer in hidden:
        X = (X @ layer.weight + layer.bias).clip(min=0)
    return X @ last.weight + last.bias


def rows_at_a_time(layers: Layers) -> int:
    """Return how many rows the networks may see at once for the widest layer of all to stay within 32 MB."""
    widest = max(layer.weight.shape[0] * layer.weight.shape[2] for layer in layers)
    return max(1, 2**22 // int(widest))


def layers_on(device: str, layers: Layers) -> Layers:
    """Return the layers in float64, as arrays, or as tensors on the GPU if that is the device and (still) there.

    In float64 a row's outputs do not depend on the rows beside it, but for their last bits; in float32 they would, in
    the seventh digit.
    """
    layers = tuple(Layer(*(np.asarray(part, dtype=np.float64) for part in layer)) for layer in layers)
    if device == "cpu" or find_spec("torch") is None:
        return layers
    import torch

    if not torch.cuda.is_available():
        return layers
    return tuple(Layer(*(torch.from_numpy(part).to("cuda") for part in layer)) for layer in layers)


def outputs(layers: Layers, X: FloatArray) -> FloatArray:
    """Return the outputs, shape (networks, n, outputs), for rows (n, features), computed where the layers are."""
    bias = layers[0].bias
    if isinstance(bias, np.ndarray):
        return np.asarray(forward(layers, X[None]))
    return np.asarray(forward(layers, bias.new_tensor(X[None])).cpu())


def thinned(layers: Layers, kept: Sequence[Any], dropout: float) -> Layers:
    """Return the networks that dropout makes of one: each pass without the hidden units it dropped.

    ``kept`` has, for each hidden layer, the units each pass keeps, shape (passes, units).
    """
    first, *others = layers
    masks = [mask[:, :, None] / (1 - dropout) for mask in kept]
    return first, *(Layer(mask * layer.weight, layer.bias) for mask, layer in zip(masks, others, strict=True))


def _orthogonal(rows: int, columns: int, rng: np.random.Generator) -> FloatArray:
    """Return a random matrix with orthonormal rows or columns, whichever are fewer."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # without this not every direction is equally likely
    return q if rows >= columns else q.T
