"""Networks as arrays: layers with a leading axis, one entry for each of several networks of the same shape."""

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from evencover._internal.arrays import FloatArray


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
