"""Networks that are trained jointly, in one pass."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.optional import import_optional
from evencover.models._outputs import Scaling
from evencover.models.estimators import checked_features, checked_target, remember_features
from evencover.models.networks.layers import Layers
from evencover.models.networks.training_tasks import ShowProgress, TrainingSettings, TrainingTask


def fit_jointly(
    networks: Sequence[Any], X: Any, y: Any, *, rows: Sequence[Any] | None = None, progress: ShowProgress = False
) -> list[Any]:
    """Fit several networks in one pass and return them; this is several times as fast as one after the other.

    Each network has its own rows, order of rows, initial weights and dropout, all drawn from its own `random_state`.
    What it learns does not depend on the other networks, up to rounding. A long training amplifies rounding, as it
    does between machines.

    Parameters
    ----------
    networks : sequence of QuantileNetwork or MeanVarianceNetwork
        Networks with the same layers and training settings. Losses, levels and seeds may differ. Training is fastest
        if networks with equal losses are next to each other.
    X : table of shape (n, features)
        Features.
    y : array-like of shape (n,)
        Targets.
    rows : sequence of arrays of row numbers, optional
        The training rows of each network, the same number for each. By default all rows.
    progress : bool or callable
        Whether to show a progress bar; or a function that is called after each epoch with the number of epochs done
        and the number of all epochs.

    Examples
    --------
    >>> from evencover.models import MeanVarianceNetwork, QuantileNetwork
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> networks = [QuantileNetwork(epochs=5, random_state=0), MeanVarianceNetwork(epochs=5, random_state=1)]
    >>> [network.predict(sample.X).shape for network in fit_jointly(networks, sample.X, sample.y)]
    [(500,), (500,)]
    """
    networks = _checked_networks(networks)
    settings = TrainingSettings.of(networks[0])
    losses = [network._loss() for network in networks]
    table = checked_features(networks[0], X)
    target = checked_target(networks[0], X, y)
    positions = _checked_positions(rows, len(networks), len(target))
    scalings = [Scaling.of(table[own], target[own]) for own in positions]
    tasks = [
        TrainingTask(
            _float32(scaling.features(table[own])), _float32(scaling.target(target[own])), loss, _seed(network)
        )
        for network, own, loss, scaling in zip(networks, positions, losses, scalings, strict=True)
    ]
    trained, device = _train(tasks, settings, progress=progress)
    for network, own, scaling, (layers, n_epochs) in zip(networks, positions, scalings, trained, strict=True):
        remember_features(network, X)
        network.scaling_, network.layers_, network.n_epochs_, network.device_ = scaling, layers, n_epochs, device
        network._finish_fit(table[own], target[own])
    return networks


def _checked_networks(networks: Sequence[Any]) -> list[Any]:
    """Return the networks; raise if they cannot be trained jointly."""
    if not isinstance(networks, Iterable):
        raise TypeError(f"networks must be a sequence of networks; got {networks!r}")
    networks = list(networks)
    if not networks:
        raise ValueError("networks must not be empty")
    for position, network in enumerate(networks):
        if not hasattr(type(network), "_loss"):
            raise TypeError(f"networks must be QuantileNetwork or MeanVarianceNetwork objects; got {network!r}")
        if any(network is other for other in networks[:position]):
            raise ValueError(f"networks must be distinct objects; number {position} is a duplicate: clone it")
    first = asdict(TrainingSettings.of(networks[0]))
    for network in networks[1:]:
        for name, value in asdict(TrainingSettings.of(network)).items():
            if value != first[name]:
                raise ValueError(
                    f"networks that are trained jointly must have the same {name}; got {first[name]!r} and {value!r}"
                )
    return networks


def _checked_positions(rows: Sequence[Any] | None, n_networks: int, n: int) -> list[IntArray]:
    """Return the positions of each network's training rows."""
    if rows is None:
        return [np.arange(n)] * n_networks
    if len(rows) != n_networks:
        raise ValueError(f"rows must have an array for each of the {n_networks} networks; got {len(rows)}")
    positions = [np.asarray(own) for own in rows]
    for own in positions:
        if own.ndim != 1 or own.dtype.kind not in "iu":
            raise ValueError(
                f"rows must hold arrays of row numbers (integers); got an array of dtype {own.dtype} and shape "
                f"{own.shape}"
            )
        if own.size and not 0 <= own.min() <= own.max() < n:
            raise ValueError(f"rows must hold row numbers from 0 to {n - 1}; got {own.min()} to {own.max()}")
    sizes = sorted({len(own) for own in positions})
    if len(sizes) > 1 or sizes[0] == 0:
        raise ValueError(f"rows must hold the same number of row numbers, at least one, for each network; got {sizes}")
    return positions


def _train(
    tasks: list[TrainingTask], settings: TrainingSettings, *, progress: ShowProgress
) -> tuple[list[tuple[Layers, int]], str]:
    """Return the trained layers and number of epochs of each task, and the device; PyTorch is imported here."""
    import_optional("torch", extra="networks", purpose="training a network")
    from evencover.models.networks.training import device_of, train

    return train(tasks, settings, progress=progress), device_of(settings.device).type


def _float32(values: FloatArray) -> NDArray[np.float32]:
    return values.astype(np.float32)


def _seed(network: Any) -> int:
    """Return the seed of all random numbers in the training of a network."""
    return int(check_random_state(network.random_state).randint(2**31))
