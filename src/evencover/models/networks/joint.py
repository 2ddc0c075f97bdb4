"""Networks fitted in one pass, and what their outputs mean together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_random_state

from evencover._internal.arrays import FloatArray, IntArray
from evencover._internal.optional import import_optional
from evencover.models._scaling import Scaling
from evencover.models._validation import checked_rows, checked_target, remember_features
from evencover.models.networks._layers import Layers, layers_on, outputs, rows_at_a_time
from evencover.models.networks._losses import GaussianLikelihood
from evencover.models.networks._training_settings import Member, Progress, Training
from evencover.predictions import Prediction

_LARGEST = 30.0  # a log-variance beyond this is no longer an estimate; e^30 is 10^13 times the target's variance


def fit_jointly(
    networks: Sequence[Any], X: Any, y: Any, *, rows: Sequence[Any] | None = None, progress: Progress = False
) -> list[Any]:
    """Return the networks, fitted in one pass: several times as fast as one after the other.

    Each network has its own rows, order of rows, initial weights and dropout, all from its own `random_state`: what
    it learns does not depend on the others, up to rounding (which a long training amplifies, as between machines).

    Parameters
    ----------
    networks : sequence of QuantileNetwork or MeanVarianceNetwork
        Of the same layers and training settings; losses, levels and seeds may differ. Those with equal losses are
        fastest side by side.
    X : table of shape (n, features)
        Features.
    y : array-like of shape (n,)
        Targets.
    rows : sequence of arrays of positions, optional
        The rows each network learns from, as many for each; all rows by default.
    progress : bool or callable
        Whether to show a progress bar; or a function of the epochs done and of all epochs, called after each.

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
    training = Training.of(networks[0])
    losses = [network._loss() for network in networks]
    table: FloatArray = check_array(X, dtype=np.float64, estimator=networks[0], input_name="X")
    target = checked_target(networks[0], X, y)
    places = _checked_places(rows, len(networks), len(target))
    scalings = [Scaling.of(table[own], target[own]) for own in places]
    members = [
        Member(_float32(scaling.features(table[own])), _float32(scaling.target(target[own])), loss, _seed(network))
        for network, own, loss, scaling in zip(networks, places, losses, scalings, strict=True)
    ]
    trained, device = _trained(members, training, progress=progress)
    for network, own, scaling, (layers, n_epochs) in zip(networks, places, scalings, trained, strict=True):
        remember_features(network, X)
        network.scaling_, network.layers_, network.n_epochs_, network.device_ = scaling, layers, n_epochs, device
        network._note(table[own], target[own])
    return networks


def outputs_of(model: Any, X: FloatArray) -> Iterator[FloatArray]:
    """Yield what a model's networks say about rows, in their units: blocks of shape (networks, rows, outputs)."""
    rows = rows_at_a_time(model.layers_)
    placed = layers_on(model.device_, model.layers_)
    for start in range(0, len(X), rows):
        yield outputs(placed, model.scaling_.features(X[start : start + rows]))


def mixture_of(model: Any, X: Any) -> Prediction:
    """Return the mean, total standard deviation and normal bounds of a fitted model's mean-variance networks.

    The total variance is the mean of the variances plus the variance of the means.
    """
    centers, variances = [], []
    for values in outputs_of(model, checked_rows(model, X)):
        means, log_variances = values[..., 0], values[..., 1]
        own = np.exp(np.minimum(log_variances, _LARGEST)) + GaussianLikelihood.stabilizer
        centers.append(means.mean(0))
        variances.append(own.mean(0) + means.var(0))
    spread = model.scaling_.y_scale * np.sqrt(np.concatenate(variances))
    return Prediction(model.scaling_.to_target(np.concatenate(centers)), spread, level=model.level_)


def _checked_networks(networks: Sequence[Any]) -> list[Any]:
    """Return the networks, or say why they cannot train together."""
    if not isinstance(networks, Iterable):
        raise TypeError(f"networks must be a sequence of networks; got {networks!r}")
    networks = list(networks)
    if not networks:
        raise ValueError("networks must not be empty")
    for place, network in enumerate(networks):
        if not hasattr(type(network), "_loss"):
            raise TypeError(f"networks must be QuantileNetwork or MeanVarianceNetwork objects; got {network!r}")
        if any(network is other for other in networks[:place]):
            raise ValueError(f"networks must be distinct objects; number {place} is there twice: clone it")
    first = asdict(Training.of(networks[0]))
    for network in networks[1:]:
        for name, value in asdict(Training.of(network)).items():
            if value != first[name]:
                raise ValueError(
                    f"networks that train together must have the same {name}; got {first[name]!r} and {value!r}"
                )
    return networks


def _checked_places(rows: Sequence[Any] | None, n_networks: int, n: int) -> list[IntArray]:
    """Return the rows of each network as positions."""
    if rows is None:
        return [np.arange(n)] * n_networks
    if len(rows) != n_networks:
        raise ValueError(f"rows must have an array for each of the {n_networks} networks; got {len(rows)}")
    places = [np.asarray(own) for own in rows]
    for own in places:
        if own.ndim != 1 or own.dtype.kind not in "iu":
            raise ValueError(f"rows must hold arrays of positions; got one of dtype {own.dtype} and shape {own.shape}")
        if own.size and not 0 <= own.min() <= own.max() < n:
            raise ValueError(f"rows must hold positions from 0 to {n - 1}; got {own.min()} to {own.max()}")
    sizes = sorted({len(own) for own in places})
    if len(sizes) > 1 or sizes[0] == 0:
        raise ValueError(f"rows must hold as many positions for each network, and at least one; got {sizes}")
    return places


def _trained(members: list[Member], training: Training, *, progress: Progress) -> tuple[list[tuple[Layers, int]], str]:
    """Return the trained layers, the epochs that took, and where it was, or say how to install PyTorch."""
    import_optional("torch", extra="networks", purpose="training a network")
    from evencover.models.networks._training import device_of, train

    return train(members, training, progress=progress), device_of(training.device).type


def _float32(values: FloatArray) -> NDArray[np.float32]:
    return values.astype(np.float32)


def _seed(network: Any) -> int:
    """Return the seed of everything random in a network's training."""
    return int(check_random_state(network.random_state).randint(2**31))
