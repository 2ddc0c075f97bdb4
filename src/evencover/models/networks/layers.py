"""Networks as arrays: layers with a leading axis, one entry for each network of a stack."""

from collections.abc import Sequence
from importlib.util import find_spec
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


def outputs(layers: Layers, X: FloatArray, device: str = "cpu") -> FloatArray:
    """Return the outputs for rows of shape (n, features), in float64 and block by block, so that memory is bounded.

    In float64 a row's outputs do not depend on the rows beside it; in float32 they would, in the seventh digit.
    """
    widest = max(layer.weight.shape[0] * layer.weight.shape[2] for layer in layers)
    rows = max(1, 2**22 // widest)
    placed, fetched = (_on_gpu, _from_gpu) if device == "cuda" and _has_gpu() else (_as_float64, np.asarray)
    layers = tuple(Layer(*map(placed, layer)) for layer in layers)
    blocks = [forward(layers, placed(X[None, start : start + rows])) for start in range(0, len(X), rows)]
    return np.concatenate([fetched(block) for block in blocks], axis=1)


def thinned(layers: Layers, kept: Sequence[Any], dropout: float) -> Layers:
    """Return the networks that dropout makes of one: each pass without the hidden units it dropped.

    ``kept`` has, for each hidden layer, the units each pass keeps, shape (passes, units).
    """
    first, *others = layers
    masks = [mask[:, :, None] / (1 - dropout) for mask in kept]
    return first, *(Layer(mask * layer.weight, layer.bias) for mask, layer in zip(masks, others, strict=True))


def _as_float64(array: Any) -> FloatArray:
    return np.asarray(array, dtype=np.float64)


def _on_gpu(array: Any) -> Any:
    import torch

    return torch.from_numpy(_as_float64(array)).to("cuda")


def _from_gpu(tensor: Any) -> FloatArray:
    return np.asarray(tensor.cpu())


def _has_gpu() -> bool:
    """Return whether there is (still) a GPU, and PyTorch to use it."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _orthogonal(rows: int, columns: int, rng: np.random.Generator) -> FloatArray:
    """Return a random matrix with orthonormal rows or columns, whichever are fewer."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # without this not every direction is equally likely
    return q if rows >= columns else q.T
