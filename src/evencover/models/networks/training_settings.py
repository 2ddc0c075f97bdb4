"""Settings of a training, shared by all its networks, and the task of each network: rows, loss and seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evencover.inputs.arrays import is_count, is_number
from evencover.inputs.progress import Progress
from evencover.models.networks.losses import Loss

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
