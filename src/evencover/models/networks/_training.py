"""Training of networks, many at once: one pass of batched matrix products, one optimiser, a backward pass by hand.

The one module that needs PyTorch; `together` loads it when there is something to train.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import torch
from torch.optim.adam import adam

from evencover._internal.arrays import IntArray
from evencover._internal.optional import import_optional
from evencover.models.networks._layers import Layer, Layers, forward, initial_layers, stacked
from evencover.models.networks._losses import Loss
from evencover.models.networks._training_settings import Member, Progress, Training

_CHUNK_BYTES = 2**25  # of random bits drawn at a time


def train(members: Sequence[Member], training: Training, *, progress: Progress = False) -> list[tuple[Layers, int]]:
    """Return each member's layers, trained in one pass, and after which epoch they are.

    Every member has its own rows, order of rows, initial weights and dropout, all drawn from its own seed, so its
    result is that of training alone up to rounding. All must have the same numbers of rows and features.
    """
    with _one_thread(), torch.no_grad():
        stack = _Stack(members, training)
        step = stack.step if stack.device.type == "cpu" else stack.captured_step()
        best = None if training.patience is None else _Best(stack, training.patience)
        for _ in _shown(range(training.epochs), progress):
            for _ in range(stack.n_batches):
                stack.load_batch()
                step()
            if best is not None and best.is_final(stack):
                break
        networks = stack.networks(stack.layers if best is None else best.layers_or_nan())
        epochs = [training.epochs] * len(members) if best is None else best.epochs.tolist()
        return list(zip(networks, epochs, strict=True))


def device_of(name: str) -> torch.device:
    """Return the device of this name, or say that it is not there; "auto" is a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            'device="cuda" needs a GPU that PyTorch can use, and it finds none; device="auto" takes the CPU then'
        )
    return torch.device(name)


class _Stack:
    """Networks side by side: rows, parameters, activations and gradients with a leading axis, in buffers made once."""

    def __init__(self, members: Sequence[Member], training: Training) -> None:
        self.members, self.training = members, training
        self.device = device_of(training.device)
        rngs = [np.random.default_rng(member.seed) for member in members]
        n_outputs = max(member.loss.n_outputs for member in members)
        self.sizes = (members[0].X.shape[1], *training.hidden, n_outputs)
        self._place_parameters([self._initial_layers(member, rng) for member, rng in zip(members, rngs, strict=True)])
        self._place_rows([rng.permutation(len(member.X)) for member, rng in zip(members, rngs, strict=True)])
        self._make_buffers([int(rng.integers(2**63)) for rng in rngs])

    def load_batch(self) -> None:
        """Bring the next rows and the next dropped units to where `step` reads them."""
        start = self.n_loaded * self.batch_size % self.n
        self.batch_X.copy_(self.X[:, start : start + self.batch_size])
        self.batch_y.copy_(self.y[:, start : start + self.batch_size])
        if self.coins is not None:
            self.coins.draw(self.n_loaded, self.tossed)
        self.n_loaded += 1

    def step(self) -> None:
        """Move every network one step of Adam down the gradient of its batch's mean loss."""
        self._propagate()
        for run, loss in self.runs:
            own = slice(0, loss.n_outputs)
            loss.gradient(self.outputs[run, :, own], self.batch_y[run], out=self.slopes[run, :, own])
        self.slopes.div_(self.batch_size)
        self._propagate_back()
        self._descend()

    def captured_step(self) -> Callable[[], None]:
        """Return the step as one CUDA graph: replaying it costs one launch instead of one for each kernel."""
        start = self.parameters.clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):  # what is made on first use must be there before the capture
                self.step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        self.parameters.copy_(start)
        for state in self.adam_state:
            state.zero_()
        replay: Callable[[], None] = graph.replay
        return replay

    def validation_losses(self) -> Any:
        """Return each member's loss on the rows set aside, without dropout. Shape (members,)."""
        outputs = forward(self.layers, self.validation_X)
        losses = outputs.new_empty(len(self.members))
        for run, loss in self.runs:
            losses[run] = loss.value(outputs[run, :, : loss.n_outputs], self.validation_y[run])
        return losses

    def networks(self, layers: Layers) -> list[Layers]:
        """Return each member's layers as arrays, or say whose training came to nothing."""
        arrays = tuple(Layer(*(part.cpu().numpy() for part in layer)) for layer in layers)
        sound = np.all([np.isfinite(part).all(axis=(1, 2)) for layer in arrays for part in layer], axis=0)
        if not sound.all():
            whose = f" of networks {np.flatnonzero(~sound).tolist()}" if len(sound) > 1 else ""
            raise ValueError(
                f"training{whose} diverged: with learning_rate={self.training.learning_rate} some weights are not "
                "finite; lower it, or look for outliers in X and y"
            )
        return [_member_layers(arrays, place, member.loss.n_outputs) for place, member in enumerate(self.members)]

    def _propagate(self) -> None:
        """Compute the outputs; dropped units are zero, and the others' larger weight is left to the next product."""
        inputs, scale = self.batch_X, 1.0
        for layer, units, kept in zip(self.layers[:-1], self.activations, self.kept, strict=True):
            torch.baddbmm(layer.bias, inputs, layer.weight, alpha=scale, out=units)
            units.clamp_min_(0)
            if kept is not None:
                units.mul_(kept)
            inputs, scale = units, self.scale
        torch.baddbmm(self.layers[-1].bias, inputs, self.layers[-1].weight, alpha=scale, out=self.outputs)

    def _propagate_back(self) -> None:
        """Compute the gradient from the slopes of the loss; a unit at zero, rectified or dropped, passes none on."""
        slopes = self.slopes
        for place in reversed(range(len(self.layers))):
            inputs, scale = (self.activations[place - 1], self.scale) if place else (self.batch_X, 1.0)
            weight, bias = self.gradients[place]
            torch.sum(slopes, 1, keepdim=True, out=bias)
            torch.baddbmm(weight, inputs.transpose(1, 2), slopes, beta=0, alpha=scale, out=weight)
            if place:
                back = self.layers[place].weight.transpose(1, 2)
                slopes = torch.baddbmm(inputs, slopes, back, beta=0, alpha=scale, out=self.back[place - 1])
                torch.sign(inputs, out=inputs)
                slopes.mul_(inputs)

    def _descend(self) -> None:
        """Take Adam's step. As a function: an optimiser object would load the compiler first, for a second or more."""
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
            lr=self.training.learning_rate,
            weight_decay=self.training.weight_decay,
        )

    def _initial_layers(self, member: Member, rng: np.random.Generator) -> Layers:
        """Return the member's first weights; outputs that only others have are zero and stay so."""
        *before, last = initial_layers((*self.sizes[:-1], member.loss.n_outputs), rng)
        missing = (0, self.sizes[-1] - member.loss.n_outputs)
        return *before, Layer(*(np.pad(part, ((0, 0), (0, 0), missing)) for part in last))

    def _place_parameters(self, networks: Sequence[Layers]) -> None:
        """Lay all parameters out in one vector, so that the optimiser has one thing to move."""
        n_parameters = sum(part.size for network in networks for layer in network for part in layer)
        self.parameters = self._zeros(n_parameters)
        self.parameters.grad = torch.zeros_like(self.parameters)
        self.layers, self.gradients = (
            _as_layers(vector, len(self.members), self.sizes) for vector in (self.parameters, self.parameters.grad)
        )
        for views, values in zip(self.layers, stacked(networks), strict=True):
            for view, value in zip(views, values, strict=True):
                view.copy_(torch.from_numpy(value))
        self.adam_state = self._zeros(n_parameters), self._zeros(n_parameters), self._zeros()  # two moments, and steps

    def _place_rows(self, orders: Sequence[IntArray]) -> None:
        """Put every member's rows in its order, those for validation aside.

        Batches go round in that order, across its end to its start, so no row is left out; the first rows stand
        behind the last ones too, so that each batch is one slice.
        """
        n_rows = len(orders[0])
        aside = 0 if self.training.patience is None else max(1, round(n_rows * self.training.validation_size))
        self.n = n_rows - aside
        if self.n < 1:
            share = self.training.validation_size
            raise ValueError(
                f"patience sets rows aside: validation_size={share} of {n_rows} rows leaves none to learn from"
            )
        self.batch_size = min(self.training.batch_size, self.n)
        self.n_batches = self.n // self.batch_size
        self.n_loaded = 0
        around = [np.concatenate([order[: self.n], order[: self.batch_size]]) for order in orders]
        self.X, self.y = self._rows_at(around)
        if aside:
            self.validation_X, self.validation_y = self._rows_at([order[self.n :] for order in orders])

    def _rows_at(self, places: Sequence[IntArray]) -> tuple[Any, Any]:
        """Return the members' rows at their places on the device: X (members, n, features), y (members, n, 1)."""
        pairs = list(zip(self.members, places, strict=True))
        X = np.stack([member.X[rows] for member, rows in pairs])
        y = np.stack([member.y[rows, None] for member, rows in pairs])
        return torch.from_numpy(X).to(self.device), torch.from_numpy(y).to(self.device)

    def _make_buffers(self, seeds: Sequence[int]) -> None:
        """Make what every step writes to, and note which members share a loss."""
        rows = (len(self.members), self.batch_size)
        features, *hidden, n_outputs = self.sizes
        self.batch_X, self.batch_y = self._zeros(*rows, features), self._zeros(*rows, 1)
        self.outputs, self.slopes = (self._zeros(rows[0], n_outputs, rows[1]).transpose(1, 2) for _ in "ab")
        self.activations, self.back = ([self._zeros(*rows, size) for size in hidden] for _ in "ab")
        self.runs = _runs([member.loss for member in self.members])
        self.scale = 1 / (1 - self.training.dropout)
        self.coins: _DropoutMasks | None = None
        self.kept: list[Any] = [None] * len(hidden)
        if self.training.dropout and hidden:
            per_layer = [self.batch_size * size for size in hidden]
            self.coins = _DropoutMasks(seeds, sum(per_layer), self.training.dropout, self.device)
            self.tossed = self._zeros(len(seeds), sum(per_layer))
            self.kept = [
                part.view(*rows, size) for part, size in zip(self.tossed.split(per_layer, dim=1), hidden, strict=True)
            ]

    def _zeros(self, *shape: int) -> torch.Tensor:
        """Return a buffer on the device."""
        return torch.zeros(shape, dtype=torch.float32, device=self.device)


class _DropoutMasks:
    """Which hidden units stay, for one step after the other; every member has a generator of its own.

    A unit is dropped if 16 random bits, read as a number, lie below dropout times 2¹⁶. That is several times as fast
    as a random float for each unit. Bits are drawn for many steps at once.
    """

    def __init__(self, seeds: Sequence[int], n: int, dropout: float, device: torch.device) -> None:
        self.n = n
        words = -(-n // 4)  # a word of 64 bits is four coins
        self.n_steps = max(1, min(64, _CHUNK_BYTES // (8 * words * len(seeds))))
        self.words = torch.zeros((len(seeds), self.n_steps, words), dtype=torch.int64, device=device)
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.first_kept = round(dropout * 2**16) - 2**15

    def draw(self, step: int, out: Any) -> None:
        """Write ones for the units that stay, zeros for those that go. Shape (members, n)."""
        place = step % self.n_steps
        if place == 0:
            for words, generator in zip(self.words, self.generators, strict=True):
                words.random_(-(2**63), None, generator=generator)
        torch.ge(self.words[:, place].view(torch.int16)[:, : self.n], self.first_kept, out=out)


class _Best:
    """Early stopping: each member's weights at its smallest validation loss, until its patience ends."""

    def __init__(self, stack: _Stack, patience: int) -> None:
        self.patience = patience
        self.layers = tuple(Layer(*(part.clone() for part in layer)) for layer in stack.layers)
        self.losses = torch.full((len(stack.members),), torch.inf, device=stack.device)
        self.epoch = 0
        self.epochs, self.waited = (
            torch.zeros(len(stack.members), dtype=torch.int64, device=stack.device) for _ in ("best", "since")
        )

    def layers_or_nan(self) -> Layers:
        """Return the best weights; NaN for a member whose loss never was a number, so that none are the best."""
        unsound = ~self.losses.isfinite()
        for layer in self.layers:
            for part in layer:
                part[unsound] = torch.nan
        return self.layers

    def is_final(self, stack: _Stack) -> bool:
        """Take over the members that got better, and say whether all patience has ended."""
        losses = stack.validation_losses()
        better = (losses < self.losses) & (self.waited < self.patience)
        self.losses[better] = losses[better]
        for kept, current in zip(self.layers, stack.layers, strict=True):
            for part, now in zip(kept, current, strict=True):
                part[better] = now[better]
        self.epoch += 1
        self.epochs[better] = self.epoch
        self.waited += 1
        self.waited[better] = 0
        return bool((self.waited >= self.patience).all())


def _as_layers(vector: Any, members: int, sizes: Sequence[int]) -> Layers:
    """Return views of one vector: weight and bias of each layer, for all members."""
    shapes = [shape for inputs, outputs in pairwise(sizes) for shape in ((outputs, inputs), (outputs, 1))]
    parts = vector.split([members * rows * columns for rows, columns in shapes])
    views = [part.view(members, *shape).transpose(1, 2) for part, shape in zip(parts, shapes, strict=True)]
    return tuple(Layer(*pair) for pair in zip(views[::2], views[1::2], strict=True))


def _member_layers(layers: Layers, place: int, n_outputs: int) -> Layers:
    """Return one member's layers, as a stack of one, without the outputs that only others have."""
    *before, last = (Layer(*(part[place : place + 1].copy() for part in layer)) for layer in layers)
    return *before, Layer(*(part[..., :n_outputs] for part in last))


def _runs(losses: Sequence[Loss]) -> list[tuple[slice, Loss]]:
    """Return the members with equal losses side by side as slices."""
    runs, start = [], 0
    for loss, same in groupby(losses):
        stop = start + len(list(same))
        runs.append((slice(start, stop), loss))
        start = stop
    return runs


@contextmanager
def _one_thread() -> Iterator[None]:
    """Train on one thread: the products are small, and threads that wait for each other can cost a hundredfold."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _shown(epochs: range, progress: Progress) -> Iterable[int]:
    """Return the epochs, with a progress bar if one is asked for; a function is told about each instead."""
    if callable(progress):
        return _told(epochs, progress)
    if not progress:
        return epochs
    bar: Iterable[int] = import_optional("tqdm", extra="networks", purpose="progress").tqdm(
        epochs, "training", unit="epoch"
    )
    return bar


def _told(epochs: range, tell: Callable[[int, int], None]) -> Iterator[int]:
    """Yield the epochs, and tell after each how many there have been."""
    for epoch in epochs:
        yield epoch
        tell(epoch + 1, len(epochs))
