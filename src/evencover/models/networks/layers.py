"""Networks as arrays: layers with a leading axis, one entry for each network of a stack."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from evencover.inputs import FloatArray


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


def outputs(layers: Layers, X: FloatArray, device: Any = None) -> FloatArray:
    """Return the outputs for rows of shape (n, features), in float64 and block by block, so that memory is bounded.

    In float64 a row's outputs do not depend on the rows beside it; in float32 they would, in the seventh digit.
    """
    widest = max(layer.weight.shape[0] * layer.weight.shape[2] for layer in layers)
    rows = max(1, 2**22 // widest)
    layers = tuple(Layer(*(_placed(part, device) for part in layer)) for layer in layers)
    blocks = [forward(layers, _placed(X[None, start : start + rows], device)) for start in range(0, len(X), rows)]
    return np.concatenate([np.asarray(block if device is None else block.cpu()) for block in blocks], axis=1)


def thinned(layers: Layers, kept: Sequence[Any], dropout: float) -> Layers:
    """Return the networks that dropout makes of one: each pass without the hidden units it dropped.

    ``kept`` has, for each hidden layer, the units each pass keeps, shape (passes, units).
    """
    first, *others = layers
    masks = [mask[:, :, None] / (1 - dropout) for mask in kept]
    return first, *(Layer(mask * layer.weight, layer.bias) for mask, layer in zip(masks, others, strict=True))


def _placed(array: Any, device: Any) -> Any:
    """Return an array in float64 where the work is done: here, or on a device of torch's."""
    array = np.asarray(array, dtype=np.float64)
    if device is None:
        return array
    import torch

    return torch.from_numpy(array).to(device)


def _orthogonal(rows: int, columns: int, rng: np.random.Generator) -> FloatArray:
    """Return a random matrix with orthonormal rows or columns, whichever are fewer."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # without this not every direction is equally likely
    return q if rows >= columns else q.T
