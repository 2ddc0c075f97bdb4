"""Joint training of networks: one pass of batched matrix products, one optimiser, a backward pass by hand.

This is the only module that imports PyTorch; `networks` imports it when a training starts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import torch
from torch.optim.adam import adam

from evencover.inputs import Progress
from evencover.inputs.arrays import IntArray
from evencover.inputs.optional import import_optional
from evencover.models.network_layers import (
    Layer,
    Layers,
    Loss,
    ShowProgress,
    TrainingSettings,
    TrainingTask,
    forward,
    initial_layers,
    stacked,
)

_CHUNK_BYTES = 2**25  # random bits that are drawn at a time


def train(
    tasks: Sequence[TrainingTask], settings: TrainingSettings, *, progress: ShowProgress = False
) -> list[tuple[Layers, int]]:
    """Train a network for each task, in one pass; return its layers and the number of epochs they were trained for.

    Every network has its own rows, order of rows, initial weights and dropout, all drawn from its own seed. So the
    result is that of training it alone, up to rounding. All tasks must have the same numbers of rows and features.
    """
    with _one_thread(), torch.no_grad():
        stack = _Stack(tasks, settings)
        step = stack.step if stack.device.type == "cpu" else stack.captured_step()
        stopping = None if settings.patience is None else _EarlyStopping(stack, settings.patience)
        for _ in _with_progress(range(settings.epochs), progress):
            for _ in range(stack.n_batches):
                stack.load_batch()
                step()
            if stopping is not None and stopping.ends_after_epoch(stack):
                break
        networks = stack.networks(stack.layers if stopping is None else stopping.layers_or_nan())
        epochs = [settings.epochs] * len(tasks) if stopping is None else stopping.best_epochs.tolist()
        return list(zip(networks, epochs, strict=True))


def device_of(name: str) -> torch.device:
    """Return the device of this name; "auto" is a GPU if there is one. Raise ValueError if the device is missing."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            'device="cuda" needs a GPU that PyTorch can use, and it finds none; device="auto" uses the CPU then'
        )
    return torch.device(name)


class _Stack:
    """Networks in training: rows, parameters, activations and gradients with a leading axis, one entry per network.

    All buffers are allocated once.
    """

    def __init__(self, tasks: Sequence[TrainingTask], settings: TrainingSettings) -> None:
        self.tasks, self.settings = tasks, settings
        self.device = device_of(settings.device)
        rngs = [np.random.default_rng(task.seed) for task in tasks]
        n_outputs = max(task.loss.n_outputs for task in tasks)
        self.sizes = (tasks[0].X.shape[1], *settings.hidden, n_outputs)
        self._place_parameters([self._initial_layers(task, rng) for task, rng in zip(tasks, rngs, strict=True)])
        self._place_rows([rng.permutation(len(task.X)) for task, rng in zip(tasks, rngs, strict=True)])
        self._make_buffers([int(rng.integers(2**63)) for rng in rngs])

    def load_batch(self) -> None:
        """Copy the next rows and the next dropout masks to the buffers that `step` reads."""
        start = self.n_loaded * self.batch_size % self.n
        self.batch_X.copy_(self.X[:, start : start + self.batch_size])
        self.batch_y.copy_(self.y[:, start : start + self.batch_size])
        if self.masks is not None:
            self.masks.draw(self.n_loaded, self.mask_buffer)
        self.n_loaded += 1

    def step(self) -> None:
        """Take one step of Adam in every network, along the gradient of the mean loss of its batch."""
        self._forward()
        for networks, loss in self.networks_by_loss:
            own = slice(0, loss.n_outputs)
            loss.gradient(
                self.outputs[networks, :, own], self.batch_y[networks], out=self.output_gradients[networks, :, own]
            )
        self.output_gradients.div_(self.batch_size)
        self._backward()
        self._adam_step()

    def captured_step(self) -> Callable[[], None]:
        """Return the step as one CUDA graph: replaying it costs one launch instead of one for each kernel."""
        start = self.parameters.clone()
        warm_up = torch.cuda.Stream()
        warm_up.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm_up):
            for _ in range(3):  # memory that is allocated on first use must exist before the capture
                self.step()
        torch.cuda.current_stream().wait_stream(warm_up)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        self.parameters.copy_(start)
        for state in self.adam_state:
            state.zero_()
        replay: Callable[[], None] = graph.replay
        return replay

    def validation_losses(self) -> Any:
        """Return the loss of each network on its validation rows, without dropout. Shape (networks,)."""
        outputs = forward(self.layers, self.validation_X)
        losses = outputs.new_empty(len(self.tasks))
        for networks, loss in self.networks_by_loss:
            losses[networks] = loss.value(outputs[networks, :, : loss.n_outputs], self.validation_y[networks])
        return losses

    def networks(self, layers: Layers) -> list[Layers]:
        """Return the layers of each network as arrays; raise ValueError if a training diverged."""
        arrays = tuple(Layer(*(part.cpu().numpy() for part in layer)) for layer in layers)
        finite = np.all([np.isfinite(part).all(axis=(1, 2)) for layer in arrays for part in layer], axis=0)
        if not finite.all():
            which = f" of networks {np.flatnonzero(~finite).tolist()}" if len(finite) > 1 else ""
            raise ValueError(
                f"training{which} diverged: with learning_rate={self.settings.learning_rate} some network weights "
                "are not finite; use a smaller learning_rate, or look for outliers in X and y"
            )
        return [_network_layers(arrays, position, task.loss.n_outputs) for position, task in enumerate(self.tasks)]

    def _forward(self) -> None:
        """Compute the outputs. Dropped units are zero; the factor for the kept ones is applied in the next product."""
        inputs, scale = self.batch_X, 1.0
        for layer, units, kept in zip(self.layers[:-1], self.activations, self.kept, strict=True):
            torch.baddbmm(layer.bias, inputs, layer.weight, alpha=scale, out=units)
            units.clamp_min_(0)
            if kept is not None:
                units.mul_(kept)
            inputs, scale = units, self.scale
        torch.baddbmm(self.layers[-1].bias, inputs, self.layers[-1].weight, alpha=scale, out=self.outputs)

    def _backward(self) -> None:
        """Compute the gradients of the parameters; a unit at zero, by ReLU or dropout, propagates no gradient."""
        gradient = self.output_gradients
        for number in reversed(range(len(self.layers))):
            inputs, scale = (self.activations[number - 1], self.scale) if number else (self.batch_X, 1.0)
            weight, bias = self.gradients[number]
            torch.sum(gradient, 1, keepdim=True, out=bias)
            torch.baddbmm(weight, inputs.transpose(1, 2), gradient, beta=0, alpha=scale, out=weight)
            if number:
                transposed, buffer = self.layers[number].weight.transpose(1, 2), self.activation_gradients[number - 1]
                gradient = torch.baddbmm(inputs, gradient, transposed, beta=0, alpha=scale, out=buffer)
                torch.sign(inputs, out=inputs)
                gradient.mul_(inputs)

    def _adam_step(self) -> None:
        """Update the parameters by Adam's function; creating the optimiser object takes a second or more."""
        moment, square, n_steps = self.adam_state
        adam(
            [self.parameters],
            [self.parameters.grad],
            [moment],
            [square],
            [],
            [n_steps],
            fused=True,
            capturable=self.device.type == "cuda",
            amsgrad=False,
            maximize=False,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            lr=self.settings.learning_rate,
            weight_decay=self.settings.weight_decay,
        )

    def _initial_layers(self, task: TrainingTask, rng: np.random.Generator) -> Layers:
        """Return the initial weights of a network; outputs that only other networks have are zero and stay zero."""
        *before, last = initial_layers((*self.sizes[:-1], task.loss.n_outputs), rng)
        missing = (0, self.sizes[-1] - task.loss.n_outputs)
        return *before, Layer(*(np.pad(part, ((0, 0), (0, 0), missing)) for part in last))

    def _place_parameters(self, networks: Sequence[Layers]) -> None:
        """Put all parameters into one vector, so that the optimiser updates a single tensor."""
        n_parameters = sum(part.size for network in networks for layer in network for part in layer)
        self.parameters = self._zeros(n_parameters)
        self.parameters.grad = torch.zeros_like(self.parameters)
        self.layers, self.gradients = (
            _as_layers(vector, len(self.tasks), self.sizes) for vector in (self.parameters, self.parameters.grad)
        )
        for views, values in zip(self.layers, stacked(networks), strict=True):
            for view, value in zip(views, values, strict=True):
                view.copy_(torch.from_numpy(value))
        # The two moments, and the number of steps.
        self.adam_state = self._zeros(n_parameters), self._zeros(n_parameters), self._zeros()

    def _place_rows(self, orders: Sequence[IntArray]) -> None:
        """Copy the rows of every network to the device, in its own order; the last ones are for validation.

        Batches go through the rows in this order and continue with the first row after the last, so every row is used.
        The first rows are repeated at the end, so that each batch is one slice.
        """
        n_rows = len(orders[0])
        n_validation = 0 if self.settings.patience is None else max(1, round(n_rows * self.settings.validation_size))
        self.n = n_rows - n_validation
        if self.n < 1:
            share = self.settings.validation_size
            raise ValueError(
                f"patience needs validation rows: validation_size={share} of {n_rows} rows leaves no row to train on"
            )
        self.batch_size = min(self.settings.batch_size, self.n)
        self.n_batches = self.n // self.batch_size
        self.n_loaded = 0
        cyclic = [np.concatenate([order[: self.n], order[: self.batch_size]]) for order in orders]
        self.X, self.y = self._rows_at(cyclic)
        if n_validation:
            self.validation_X, self.validation_y = self._rows_at([order[self.n :] for order in orders])

    def _rows_at(self, positions: Sequence[IntArray]) -> tuple[Any, Any]:
        """Return the rows of each network at these positions: X (networks, n, features), y (networks, n, 1)."""
        pairs = list(zip(self.tasks, positions, strict=True))
        X = np.stack([task.X[rows] for task, rows in pairs])
        y = np.stack([task.y[rows, None] for task, rows in pairs])
        return torch.from_numpy(X).to(self.device), torch.from_numpy(y).to(self.device)

    def _make_buffers(self, seeds: Sequence[int]) -> None:
        """Allocate the tensors that every step writes to, and find the networks with equal losses."""
        rows = (len(self.tasks), self.batch_size)
        features, *hidden, n_outputs = self.sizes
        self.batch_X, self.batch_y = self._zeros(*rows, features), self._zeros(*rows, 1)
        self.outputs, self.output_gradients = (
            self._zeros(rows[0], n_outputs, rows[1]).transpose(1, 2) for _ in range(2)
        )
        self.activations, self.activation_gradients = ([self._zeros(*rows, size) for size in hidden] for _ in range(2))
        self.networks_by_loss = _networks_by_loss([task.loss for task in self.tasks])
        self.scale = 1 / (1 - self.settings.dropout)
        self.masks: _DropoutMasks | None = None
        self.kept: list[Any] = [None] * len(hidden)
        if self.settings.dropout and hidden:
            per_layer = [self.batch_size * size for size in hidden]
            self.masks = _DropoutMasks(seeds, sum(per_layer), self.settings.dropout, self.device)
            self.mask_buffer = self._zeros(len(seeds), sum(per_layer))
            parts = self.mask_buffer.split(per_layer, dim=1)
            self.kept = [part.view(*rows, size) for part, size in zip(parts, hidden, strict=True)]

    def _zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.float32, device=self.device)


class _DropoutMasks:
    """Dropout masks, one for each step; every network has its own generator.

    A unit is dropped if 16 random bits, read as a number, are less than dropout times 2¹⁶. This is several times as
    fast as one random float for each unit. Bits are drawn for many steps at once.
    """

    def __init__(self, seeds: Sequence[int], n: int, dropout: float, device: torch.device) -> None:
        self.n = n
        words = -(-n // 4)  # a word of 64 bits decides for four units
        self.n_steps = max(1, min(64, _CHUNK_BYTES // (8 * words * len(seeds))))
        self.words = torch.zeros((len(seeds), self.n_steps, words), dtype=torch.int64, device=device)
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.first_kept = round(dropout * 2**16) - 2**15

    def draw(self, step: int, out: Any) -> None:
        """Write 1 for kept units and 0 for dropped ones. Shape (networks, n)."""
        position = step % self.n_steps
        if position == 0:
            for words, generator in zip(self.words, self.generators, strict=True):
                words.random_(-(2**63), None, generator=generator)
        torch.ge(self.words[:, position].view(torch.int16)[:, : self.n], self.first_kept, out=out)


class _EarlyStopping:
    """The weights of each network at its smallest validation loss, until its patience ends."""

    def __init__(self, stack: _Stack, patience: int) -> None:
        self.patience = patience
        self.layers = tuple(Layer(*(part.clone() for part in layer)) for layer in stack.layers)
        self.losses = torch.full((len(stack.tasks),), torch.inf, device=stack.device)
        self.epoch = 0
        self.best_epochs, self.epochs_since_best = (
            torch.zeros(len(stack.tasks), dtype=torch.int64, device=stack.device) for _ in range(2)
        )

    def layers_or_nan(self) -> Layers:
        """Return the best weights; NaN for a network whose validation loss was never finite."""
        diverged = ~self.losses.isfinite()
        for layer in self.layers:
            for part in layer:
                part[diverged] = torch.nan
        return self.layers

    def ends_after_epoch(self, stack: _Stack) -> bool:
        """Keep the weights of networks that improved; return whether the patience of all networks has ended."""
        losses = stack.validation_losses()
        better = (losses < self.losses) & (self.epochs_since_best < self.patience)
        self.losses[better] = losses[better]
        for kept, current in zip(self.layers, stack.layers, strict=True):
            for kept_part, current_part in zip(kept, current, strict=True):
                kept_part[better] = current_part[better]
        self.epoch += 1
        self.best_epochs[better] = self.epoch
        self.epochs_since_best += 1
        self.epochs_since_best[better] = 0
        return bool((self.epochs_since_best >= self.patience).all())


def _as_layers(vector: Any, n_networks: int, sizes: Sequence[int]) -> Layers:
    """Return views of one vector: weight and bias of each layer, for all networks."""
    shapes = [shape for inputs, outputs in pairwise(sizes) for shape in ((outputs, inputs), (outputs, 1))]
    parts = vector.split([n_networks * rows * columns for rows, columns in shapes])
    views = [part.view(n_networks, *shape).transpose(1, 2) for part, shape in zip(parts, shapes, strict=True)]
    return tuple(Layer(*pair) for pair in zip(views[::2], views[1::2], strict=True))


def _network_layers(layers: Layers, position: int, n_outputs: int) -> Layers:
    """Return the layers of one network, as a stack of one, without the outputs that only other networks have."""
    *before, last = (Layer(*(part[position : position + 1].copy() for part in layer)) for layer in layers)
    return *before, Layer(*(part[..., :n_outputs] for part in last))


def _networks_by_loss(losses: Sequence[Loss]) -> list[tuple[slice, Loss]]:
    """Return each run of consecutive networks with equal losses, as a slice and the loss."""
    slices, start = [], 0
    for loss, same in groupby(losses):
        stop = start + len(list(same))
        slices.append((slice(start, stop), loss))
        start = stop
    return slices


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread: the products are small, and waiting threads can make training 100 times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _with_progress(epochs: range, progress: ShowProgress) -> Iterable[int]:
    """Return the epochs, with a progress bar or a call of a function after each, if requested."""
    if callable(progress):
        return _with_reports(epochs, progress)
    if not progress:
        return epochs
    bar: Iterable[int] = import_optional("tqdm", extra="networks", purpose="progress").tqdm(
        epochs, "training", unit="epoch"
    )
    return bar


def _with_reports(epochs: range, report_progress: Progress) -> Iterator[int]:
    """Yield the epochs; after each, report the number of epochs done and the number of all epochs."""
    for epoch in epochs:
        yield epoch
        report_progress(epoch + 1, len(epochs))
