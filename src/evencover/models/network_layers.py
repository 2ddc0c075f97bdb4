"""Networks as arrays, and what they are trained for: layers, losses with their gradients, settings, and tasks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from math import inf
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils import check_random_state

from evencover.inputs import Progress
from evencover.inputs.arrays import FloatArray, is_count, is_number


class Layer(NamedTuple):
    """One layer of several networks: an affine map for each."""

    weight: Any  # (networks, inputs, outputs)
    bias: Any  # (networks, 1, outputs)


Layers = tuple[Layer, ...]


def check_layers(layers: Layers, n_features: int, n_outputs: int) -> None:
    """Raise ValueError unless each layer takes what the one before it gives, from the features to the outputs."""
    n_inputs = n_features
    for layer in layers:
        weight, bias = np.shape(layer.weight), np.shape(layer.bias)
        if len(weight) != 3 or weight[1] != n_inputs or bias[1:] != (1, weight[2]):
            raise ValueError(f"a layer of a network with {n_inputs} inputs has weights of shape {weight} and {bias}")
        n_inputs = weight[2]
    if n_inputs != n_outputs:
        raise ValueError(f"a network must have {n_outputs} outputs; got {n_inputs}")
    numbers = {len(part) for layer in layers for part in layer}
    if 0 in numbers or len(numbers - {1}) > 1:
        raise ValueError(f"the layers are those of different numbers of networks: {sorted(numbers)}")
    check_finite("the weights of a network", *(part for layer in layers for part in layer))


def check_finite(name: str, *arrays: NDArray[Any]) -> None:
    """Raise ValueError unless arrays hold finite floating-point numbers."""
    if not all(np.asarray(array).dtype.kind == "f" and np.isfinite(array).all() for array in arrays):
        raise ValueError(f"{name} must be finite")


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


@dataclass(frozen=True)
class Pinball:
    """The sum of the pinball losses at several quantile levels, plus the squared error of the mean if there is one.

    The outputs are the quantiles in order, then the mean. The pinball loss at level q is (y − f) (q − 1[y < f]). The
    q-quantile of y minimises its expectation.
    """

    levels: tuple[float, ...]
    mean: bool = False

    @property
    def n_outputs(self) -> int:
        """One for each quantile, and one for the mean if there is one."""
        return len(self.levels) + self.mean

    def value(self, outputs: Any, y: Any) -> Any:
        """Return the mean loss of each network. Shape (networks,)."""
        losses = (outputs - y) * self.gradient(outputs, y, outputs.new_empty(outputs.shape))
        if self.mean:
            losses[..., -1] *= 0.5  # error times derivative is 2 (f − y)²
        return losses.sum(2).mean(1)

    def gradient(self, outputs: Any, y: Any, out: Any) -> Any:
        """Write 1[y < f] − q for each quantile, 2 (f − y) for the mean."""
        out.copy_(outputs).gt_(y)
        for position, level in enumerate(self.levels):  # creating a tensor of levels is impossible in a CUDA graph
            out[..., position].sub_(level)
        if self.mean:
            out[..., -1:].copy_(outputs[..., -1:]).sub_(y).mul_(2)
        return out


@dataclass(frozen=True)
class NonCrossingPinball:
    """The loss `Pinball` of quantiles that never cross, because the network learns the steps between them.

    The first output a₀ is the quantile at the level nearest to 1/2. The output aₖ gives the step from the quantile
    before to the k-th one: gₖ log(1 + exp aₖ) / log 2, where gₖ is the step of a standard normal distribution. If all
    outputs are zero, the quantiles are those of a standard normal distribution less its quantile at that level. The
    mean, if there is one, is the last output.
    """

    levels: tuple[float, ...]
    mean: bool = False

    @property
    def n_outputs(self) -> int:
        """One for each quantile, and one for the mean if there is one."""
        return len(self.levels) + self.mean

    def quantiles(self, outputs: FloatArray) -> FloatArray:
        """Return the quantiles for outputs of shape (n, n_outputs), without the mean. Shape (n, levels)."""
        first, others = outputs[:, :1], outputs[:, 1 : len(self.levels)]
        sums = np.cumsum(np.pad(np.logaddexp(0, others) * self._units, ((0, 0), (1, 0))), axis=1)
        values: FloatArray = first + (sums - sums[:, [self._middle]])
        return values

    def value(self, outputs: Any, y: Any) -> Any:
        """Return the mean loss of each network. Shape (networks,)."""
        return self._pinball.value(self._predicted(outputs), y)

    def gradient(self, outputs: Any, y: Any, out: Any) -> Any:
        """Write the derivatives: of a₀ the sum over all quantiles, of aₖ those of the quantiles that its step moves.

        The k-th step moves the k-th and all higher quantiles up. Up to the middle one, all quantiles are then moved
        down by the same step.
        """
        self._pinball.gradient(self._predicted(outputs), y, out)
        n = len(self.levels)
        by_quantile = out[..., :n]
        below = by_quantile.cumsum(2)  # of the quantiles up to each one
        total = below[..., -1:]
        by_quantile[..., :1].copy_(total)
        by_step = by_quantile[..., 1:]
        by_step.copy_(below[..., :-1]).neg_()
        by_step[..., self._middle :].add_(total)
        by_step.mul_(outputs[..., 1:n].sigmoid())
        for position, unit in enumerate(self._units):
            by_step[..., position].mul_(unit)
        return out

    def _predicted(self, outputs: Any) -> Any:
        """Return the quantiles and the mean for outputs of shape (networks, n, n_outputs), as tensors."""
        n = len(self.levels)
        predicted = outputs.clone()
        steps = predicted[..., 1:n]
        steps.abs_().neg_().exp_().log1p_().add_(outputs[..., 1:n].clamp(min=0))  # log(1 + exp a), without overflow
        for position, unit in enumerate(self._units):
            steps[..., position].mul_(unit)
        predicted[..., :1].zero_()
        sums = predicted[..., :n].cumsum(2)
        predicted[..., :n].copy_(sums).sub_(sums[..., self._middle : self._middle + 1]).add_(outputs[..., :1])
        return predicted

    @cached_property
    def _pinball(self) -> Pinball:
        return Pinball(self.levels, self.mean)

    @cached_property
    def _middle(self) -> int:
        """The position of the level that is nearest to 1/2."""
        return int(np.argmin(np.abs(np.subtract(self.levels, 0.5))))

    @cached_property
    def _units(self) -> list[float]:
        """The factor gₖ / log 2 of each step."""
        units: list[float] = (np.diff(ndtri(self.levels)) / np.log(2)).tolist()
        return units


@dataclass(frozen=True)
class GaussianLikelihood:
    """The negative log-likelihood of a normal target, (log v + (y − μ)² / v) / 2, for outputs μ and s; v = eˢ + ε.

    Without ε, the variance of rows with residual zero would go to zero, and the gradient to infinity.
    """

    stabilizer: ClassVar[float] = 1e-3
    n_outputs: ClassVar[int] = 2

    def value(self, outputs: Any, y: Any) -> Any:
        """Return the mean loss of each network. Shape (networks,)."""
        mean, variance = outputs[..., :1], outputs[..., 1:].exp() + self.stabilizer
        return 0.5 * (variance.log() + (y - mean) ** 2 / variance).mean((1, 2))

    def gradient(self, outputs: Any, y: Any, out: Any) -> Any:
        """Write w for the mean and (eˢ / v − w² eˢ) / 2 for s, where w = (μ − y) / v."""
        (mean, log_variance), (by_mean, by_log_variance) = outputs.unbind(2), out.unbind(2)
        exponential = log_variance.exp()
        variance = exponential + self.stabilizer
        by_mean.copy_(mean).sub_(y[..., 0]).div_(variance)
        by_log_variance.copy_(variance.reciprocal_()).addcmul_(by_mean, by_mean, value=-1).mul_(exponential).mul_(0.5)
        return out


Loss: TypeAlias = Pinball | NonCrossingPinball | GaussianLikelihood
ShowProgress: TypeAlias = bool | Progress  # whether to show a bar, or a function of (epochs done, epochs)


@dataclass(frozen=True)
class TrainingSettings:
    """How networks are built and trained; the same for all networks that are trained jointly."""

    hidden: tuple[int, ...]
    dropout: float
    learning_rate: float
    weight_decay: float
    batch_size: int
    epochs: int
    patience: int | None
    validation_size: float
    device: str

    @classmethod
    def of(cls, network: Any) -> "TrainingSettings":
        """Return the settings of a network; raise ValueError if one is invalid."""
        values = {field.name: getattr(network, field.name) for field in fields(cls)}
        for name, (is_valid, expected) in _EXPECTED.items():
            if not is_valid(values[name]):
                raise ValueError(f"{name} must be {expected}; got {values[name]!r}")
        return cls(**{**values, "hidden": tuple(int(size) for size in values["hidden"])})


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """What one network learns from: standardised rows, a loss, and the seed of all its random numbers."""

    X: NDArray[np.float32]  # (n, features)
    y: NDArray[np.float32]  # (n,)
    loss: Loss
    seed: int

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray, loss: Loss, random_state: Any) -> "TrainingTask":
        """Return the task of a network with this `random_state`, with rows in single precision."""
        seed = int(check_random_state(random_state).randint(2**31))
        return cls(X.astype(np.float32), y.astype(np.float32), loss, seed)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and all(map(is_count, value))


def _is_within(low: float, high: float, *, open_below: bool) -> Callable[[Any], bool]:
    """Return the test for a number in [low, high), or in (low, high)."""

    def is_valid(value: Any) -> bool:
        return is_number(value) and bool(low < value < high or (not open_below and value == low))

    return is_valid


_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hidden": (_is_sizes, "a sequence of positive whole numbers"),
    "dropout": (_is_within(0, 1, open_below=False), "at least 0 and less than 1"),
    "learning_rate": (_is_within(0, inf, open_below=True), "a positive number"),
    "weight_decay": (_is_within(0, inf, open_below=False), "zero or a positive number"),
    "batch_size": (is_count, "a positive whole number"),
    "epochs": (is_count, "a positive whole number"),
    "patience": (lambda value: value is None or is_count(value), "None or a positive whole number"),
    "validation_size": (_is_within(0, 1, open_below=True), "strictly between 0 and 1"),
    "device": (lambda value: value in ("auto", "cpu", "cuda"), '"auto", "cpu" or "cuda"'),
}
