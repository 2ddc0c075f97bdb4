"""Neural networks that predict quantiles, or a mean and a variance: single, trained jointly, or as ensembles."""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from evencover.files.archive import Archive, IncompatibleFileError, file_errors, read_archive, write_archive
from evencover.files.objects import dump_objects, load_objects
from evencover.inputs.arrays import FloatArray, IntArray, check_count
from evencover.inputs.optional import import_optional
from evencover.models._outputs import Center, QuantilePlan, Scaling, relative_floor
from evencover.models.estimators import CenterMixin, checked_features, checked_rows, checked_target, remember_features
from evencover.models.network_layers import (
    GaussianLikelihood,
    NonCrossingPinball,
    Pinball,
    ShowProgress,
    TrainingSettings,
    TrainingTask,
    check_finite,
    check_layers,
    layers_on,
    outputs,
    rows_at_a_time,
    stacked,
    thinned,
)
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction


class SavingMixin:
    """The methods `save` and `load` of networks and their ensembles."""

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, without pickle; `load` reads it.

        A `random_state` that is a generator is saved as None. Everything else is saved as it is.
        """
        check_is_fitted(self)
        content, untrusted = dump_objects(_without_random_generators(self), "network")
        foreign = [name for name in untrusted if name != _class_path(type(self))]
        if foreign:
            raise TypeError(f"settings must be numbers, text or sequences of them to be saved; got {foreign[0]}")
        write_archive(path, "network", Archive({"class": type(self).__name__}, {}, content))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the fitted model in a file that `save` wrote; PyTorch is not needed."""
        archive = read_archive(path, "network")
        with file_errors(path, "network"):
            saved = archive.header["class"]
            if saved != cls.__name__:
                raise IncompatibleFileError(f"the file holds a {saved}: use {saved}.load")
        model = load_objects(archive.objects, path, "network", [_class_path(cls)])
        with file_errors(path, "network"):
            if type(model) is not cls:
                raise TypeError(f"the object in it is a {type(model).__name__}")
            return model

    def check_restored(self) -> None:
        """Raise ValueError unless what was learned fits together: a check of objects in files."""
        model: Any = self
        if not any(name.endswith("_") for name in vars(model)):
            return  # not fitted
        scaling, n_features = model.scaling_, model.n_features_in_
        check_layers(model.layers_, n_features, self._loss_restored().n_outputs)
        if not np.shape(scaling.X_mean) == np.shape(scaling.X_scale) == (n_features,):
            raise ValueError(f"its means and scales must be those of {n_features} features")
        numbers = (scaling.y_mean, scaling.y_scale, *self._numbers_restored())
        check_finite("its means and scales", scaling.X_mean, scaling.X_scale, np.array(numbers))
        if not isinstance(model.device_, str):
            raise TypeError(f"its device must be a text; got {model.device_!r}")

    def _loss_restored(self) -> Any:
        """Return the loss that the networks were trained for."""
        return GaussianLikelihood()

    def _numbers_restored(self) -> tuple[float, ...]:
        """Return the numbers that were learned."""
        model: Any = self
        return (model.level_,)


def _class_path(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _without_random_generators(model: Any) -> Any:
    """Return a shallow copy with None for every `random_state` that is a generator, also in estimators inside."""
    copied = copy(model)
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.random.RandomState):
            setattr(copied, name, None)
        elif isinstance(value, BaseEstimator):
            setattr(copied, name, _without_random_generators(value))
    return copied


_MAX_LOG_VARIANCE = 30.0  # e^30 is 10^13 times the variance of the target: a larger value is not an estimate


class MixtureMixin(CenterMixin):
    """The methods `predict` and `predict_full` of one or several mean-variance networks."""

    def predict_full(self, X: Any) -> Prediction:
        """Return mean, total standard deviation and normal bounds.

        The total variance is the mean of the networks' variances plus the variance of their means.
        """
        model: Any = self
        centers, variances = [], []
        for values in network_outputs(model, checked_rows(model, X)):
            means, log_variances = values[..., 0], values[..., 1]
            own = np.exp(np.minimum(log_variances, _MAX_LOG_VARIANCE)) + GaussianLikelihood.stabilizer
            centers.append(means.mean(0))
            variances.append(own.mean(0) + means.var(0))
        spread = model.scaling_.y_scale * np.sqrt(np.concatenate(variances))
        return Prediction(model.scaling_.to_target(np.concatenate(centers)), spread, level=model.level_)


def network_outputs(model: Any, X: FloatArray) -> Iterator[FloatArray]:
    """Yield the outputs of a model's networks, in standardised units: blocks of shape (networks, rows, outputs)."""
    n_rows = rows_at_a_time(model.layers_)
    layers = layers_on(model.device_, model.layers_)
    for start in range(0, len(X), n_rows):
        yield outputs(layers, model.scaling_.features(X[start : start + n_rows]))


@dataclass(kw_only=True, eq=False, repr=False)
class _NetworkMixin(SavingMixin):
    """The settings of a network and its training, shared by the two networks; see `MeanVarianceNetwork`."""

    level: float = 0.9
    hidden: Sequence[int] = (64, 64, 64)
    dropout: float = 0.2
    learning_rate: float = 5e-4
    weight_decay: float = 1e-6
    batch_size: int = 64
    epochs: int = 300
    patience: int | None = None
    validation_size: float = 0.1
    device: str = "auto"
    random_state: Any = None
    progress: bool = False

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network."""
        fit_jointly([self], X, y, progress=self.progress)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class QuantileNetwork(CenterMixin, _NetworkMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Neural network that learns quantiles by the pinball loss (QR in the paper).

    The bounds are the α/2 and 1 − α/2 quantiles, where α = softening · (1 − level). The spread is
    (upper − lower) / 2z, where z is the normal quantile of 1 − α/2. Features and target are standardised internally.
    Rows are shuffled once, and batches go through them in this order.

    Without additional quantiles, this is the paper's network: each quantile is an output of its own, and quantiles may
    cross in some rows. With additional quantiles, the network learns the steps between neighbouring quantiles, which
    are positive, so its quantiles never cross.

    Parameters
    ----------
    level : float
        Nominal coverage of the network's own bounds, before softening.
    softening : float
        Factor on the error rate 1 − level of the network's own bounds. The paper uses 2 inside a `ConformalRegressor`:
        less extreme quantiles are easier to learn, and the calibration corrects the level. Without calibration use 1.
    quantiles : sequence of float
        Additional quantile levels to learn, such as ``np.linspace(0.05, 0.95, 19)`` for a whole distribution.
    center : {"median", "mean"}
        What `predict` returns. The mean is learned by a squared error, which is added to the pinball losses.
    hidden : sequence of int
        Number of units of each hidden layer.
    dropout : float
        Share of hidden units that are dropped in each training step.
    learning_rate, weight_decay : float
        Parameters of the optimiser, Adam.
    batch_size : int
        Number of rows in a training step; all rows if there are fewer.
    epochs : int
        Number of epochs. An epoch has as many steps as complete batches fit into the rows.
    patience : int, optional
        Stop early if the validation loss has not fallen for this number of epochs, and keep the best weights. By
        default there is no early stopping.
    validation_size : float
        Share of the rows for validation, if there is a `patience`.
    device : {"auto", "cpu", "cuda"}
        Where to train; "auto" uses a GPU if there is one.
    random_state : int, RandomState or None
        Seed of initial weights, order of rows and dropout.
    progress : bool
        Whether to show a progress bar.

    Attributes
    ----------
    plan_ : QuantilePlan
        The quantiles that were learned; ``plan_.levels`` are all their levels, in order.
    layers_ : tuple of layers
        Weights and biases, in float32.
    scaling_ : Scaling
        Means and standard deviations of features and target.
    spread_floor_ : float
        The smallest spread that is predicted: 0.001 times the median spread on the training rows.
    n_epochs_ : int
        Number of epochs that the weights were trained for: all, or up to the best one with `patience`.
    device_ : str
        The device of the training.

    References
    ----------
    Koenker and Hallock, "Quantile regression", Journal of Economic Perspectives, 2001. Romano, Patterson and Candès,
    "Conformalized quantile regression", NeurIPS 2019.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> model = QuantileNetwork(softening=2, epochs=5, random_state=0).fit(sample.X, sample.y)
    >>> model.predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper, 3 quantiles; level=0.8)
    """

    softening: float = 1.0
    quantiles: Sequence[float] = ()
    center: Center = "median"

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread, bounds and quantiles. Quantiles that cross are put in order."""
        return self._prediction(checked_rows(self, X))

    def predict_quantiles(self, X: Any) -> FloatArray:
        """Return all learned quantiles, sorted in each row. Shape (n, q), for the levels ``plan_.levels``."""
        X = checked_rows(self, X)
        return np.sort(self._values(X)[:, : len(self.plan_.levels)], axis=1)

    def _loss(self) -> Pinball | NonCrossingPinball:
        return _loss_of(self._plan())

    def _loss_restored(self) -> Pinball | NonCrossingPinball:
        return _loss_of(self.plan_)

    def _numbers_restored(self) -> tuple[float, ...]:
        return self.plan_.own_level, self.spread_floor_, *self.plan_.bounds, *self.plan_.levels

    def _finish_fit(self, X: FloatArray, y: FloatArray) -> None:
        """Set the learned attributes other than the weights, from the training rows."""
        self.plan_, self.spread_floor_ = self._plan(), 0.0
        self.spread_floor_ = relative_floor(self._prediction(X).spread, y)

    def _plan(self) -> QuantilePlan:
        plan = QuantilePlan.of(self.level, self.softening, self.quantiles, self.center)
        return replace(plan, non_crossing=len(self.quantiles) > 0)

    def _values(self, X: FloatArray) -> FloatArray:
        """Return the quantiles, and the mean if it is the center, in units of the target. Shape (n, outputs)."""
        outputs, loss = np.concatenate([block[0] for block in network_outputs(self, X)]), _loss_of(self.plan_)
        if isinstance(loss, NonCrossingPinball):
            outputs[:, : len(loss.levels)] = loss.quantiles(outputs)
        values: FloatArray = self.scaling_.to_target(outputs)
        return values

    def _prediction(self, X: FloatArray) -> Prediction:
        values, q = self._values(X), len(self.plan_.levels)
        mean = values[:, q] if self.plan_.center == "mean" else None
        return self.plan_.prediction(values[:, :q], mean, self.spread_floor_)


def _loss_of(plan: QuantilePlan) -> Pinball | NonCrossingPinball:
    """Return the loss of a network that learns these quantiles."""
    loss = NonCrossingPinball if plan.non_crossing else Pinball
    return loss(plan.levels, mean=plan.center == "mean")


class MeanVarianceNetwork(MixtureMixin, _NetworkMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Neural network that learns a mean μ and a log-variance s by the Gaussian likelihood (MV in the paper).

    The loss is log v + (y − μ)² / v with v = eˢ + 0.001, for the standardised target. The spread is the standard
    deviation √v, and the bounds are those of a normal target. Features and target are standardised internally. Rows
    are shuffled once, and batches go through them in this order.

    Parameters
    ----------
    level : float
        Nominal coverage of the network's own bounds.
    hidden : sequence of int
        Number of units of each hidden layer.
    dropout : float
        Share of hidden units that are dropped in each training step.
    learning_rate, weight_decay : float
        Parameters of the optimiser, Adam.
    batch_size : int
        Number of rows in a training step; all rows if there are fewer.
    epochs : int
        Number of epochs. An epoch has as many steps as complete batches fit into the rows.
    patience : int, optional
        Stop early if the validation loss has not fallen for this number of epochs, and keep the best weights. By
        default there is no early stopping.
    validation_size : float
        Share of the rows for validation, if there is a `patience`.
    device : {"auto", "cpu", "cuda"}
        Where to train; "auto" uses a GPU if there is one.
    random_state : int, RandomState or None
        Seed of initial weights, order of rows and dropout.
    progress : bool
        Whether to show a progress bar.

    Attributes
    ----------
    layers_ : tuple of layers
        Weights and biases, in float32.
    scaling_ : Scaling
        Means and standard deviations of features and target.
    n_epochs_ : int
        Number of epochs that the weights were trained for: all, or up to the best one with `patience`.
    device_ : str
        The device of the training.
    level_ : float
        Nominal coverage of the bounds.

    References
    ----------
    Nix and Weigend, "Estimating the mean and variance of the target probability distribution", ICNN 1994.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> model = MeanVarianceNetwork(epochs=5, random_state=0).fit(sample.X, sample.y)
    >>> model.predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper; level=0.9)
    """

    def _loss(self) -> GaussianLikelihood:
        level_fraction(self.level)
        return GaussianLikelihood()

    def _finish_fit(self, X: FloatArray, y: FloatArray) -> None:  # noqa: ARG002
        """Keep the level, so that changing the parameter later has no effect before the next `fit`."""
        self.level_ = self.level


class DropoutEnsemble(MixtureMixin, SavingMixin, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ensemble by dropout: one mean-variance network whose dropout stays active at prediction (MVE in the paper).

    Each pass k drops its own hidden units, which gives a smaller network with mean μ_k and standard deviation σ_k.
    The units are drawn once in `fit` and are the same for every row, so the prediction of a row is deterministic. The
    center is the mean of the μ_k. The variance is that of the mixture: the mean of the σ_k² plus the variance of the
    μ_k. The bounds are those of a normal target.

    Parameters
    ----------
    network : MeanVarianceNetwork, optional
        The network to train; by default one with the settings of the paper. A fitted network in scikit-learn's
        `FrozenEstimator` is not trained again.
    passes : int
        Number of passes.
    random_state : int, RandomState or None
        Seed of the passes, and of the network if its own `random_state` is None.

    Attributes
    ----------
    layers_ : tuple of layers
        Weights and biases of the smaller networks, one for each pass.
    scaling_ : Scaling
        Means and standard deviations of features and target.
    level_ : float
        Nominal coverage of the bounds.
    device_ : str
        The device of the training.

    References
    ----------
    Gal and Ghahramani, "Dropout as a Bayesian approximation", ICML 2016. Kendall and Gal, "What uncertainties do we
    need in Bayesian deep learning for computer vision?", NeurIPS 2017.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> network = MeanVarianceNetwork(epochs=5, random_state=0).fit(sample.X, sample.y)
    >>> ensemble = DropoutEnsemble(FrozenEstimator(network), random_state=0).fit(sample.X, sample.y)
    >>> bool(np.all(ensemble.predict_full(sample.X).spread > 0))
    True
    """

    def __init__(self, network: Any = None, *, passes: int = 50, random_state: Any = None) -> None:
        self.network = network
        self.passes = passes
        self.random_state = random_state

    @property
    def wrapped_estimators(self) -> list[Any]:
        """The wrapped network, for `is_frozen`."""
        return [self.network]

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network unless it is frozen, and draw the passes."""
        check_count(self.passes, "'passes' (the number of predictions with dropout)")
        rng = check_random_state(self.random_state)
        network = _checked_network(self.network)
        if np.size(network.hidden) == 0 or not network.dropout:
            raise ValueError(
                "network must have hidden layers and dropout above 0 for a DropoutEnsemble; got "
                f"hidden={network.hidden!r}, dropout={network.dropout!r}"
            )
        if isinstance(self.network, FrozenEstimator):
            checked_rows(network, X)
            checked_target(self, X, y)
        else:
            network = fit_jointly([_seeded(network, rng)], X, y, progress=network.progress)[0]
        sizes = [layer.bias.shape[2] for layer in network.layers_[:-1]]
        kept = [(rng.random_sample((self.passes, size)) >= network.dropout).astype(np.float32) for size in sizes]
        _set_learned(self, network, thinned(network.layers_, kept, network.dropout))
        remember_features(self, X)
        return self


class DeepEnsemble(MixtureMixin, SavingMixin, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ensemble of mean-variance networks that differ in initial weights, order of rows and dropout.

    The members are trained jointly. The center is the mean of the members' means. The variance is that of the mixture:
    the mean of the members' variances plus the variance of their means. The bounds are those of a normal target.

    Parameters
    ----------
    network : MeanVarianceNetwork, optional
        The settings of each member; by default those of the paper. Its `random_state` is not used.
    members : int
        Number of networks.
    random_state : int, RandomState or None
        Seed from which the seeds of the members are drawn.

    Attributes
    ----------
    layers_ : tuple of layers
        Weights and biases of the members.
    scaling_ : Scaling
        Means and standard deviations of features and target.
    level_ : float
        Nominal coverage of the bounds.
    device_ : str
        The device of the training.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell, "Simple and scalable predictive uncertainty estimation using deep
    ensembles", NeurIPS 2017.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> ensemble = DeepEnsemble(MeanVarianceNetwork(epochs=5), random_state=0).fit(sample.X, sample.y)
    >>> ensemble.predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper; level=0.9)
    """

    def __init__(self, network: Any = None, *, members: int = 5, random_state: Any = None) -> None:
        self.network = network
        self.members = members
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the members jointly."""
        check_count(self.members, "members")
        if isinstance(self.network, FrozenEstimator):
            raise TypeError("network must not be frozen: each member is trained from its own initial weights")
        rng = check_random_state(self.random_state)
        network = _checked_network(self.network)
        seeds = rng.randint(2**31, size=self.members)
        members = [clone(network).set_params(random_state=int(seed)) for seed in seeds]
        fit_jointly(members, X, y, progress=network.progress)
        _set_learned(self, members[0], stacked([member.layers_ for member in members]))
        remember_features(self, X)
        return self


def _checked_network(network: Any) -> MeanVarianceNetwork:
    """Return the network without `FrozenEstimator` around it; for None, one with the settings of the paper."""
    unfrozen = network.estimator if isinstance(network, FrozenEstimator) else network
    unfrozen = MeanVarianceNetwork() if unfrozen is None else unfrozen
    if not isinstance(unfrozen, MeanVarianceNetwork):
        raise TypeError(f"network must be a MeanVarianceNetwork; got {network!r}")
    return unfrozen


def _seeded(network: MeanVarianceNetwork, rng: np.random.RandomState) -> MeanVarianceNetwork:
    """Return an unfitted copy, with a seed from the generator if its `random_state` is None."""
    copy: MeanVarianceNetwork = clone(network)
    return copy.set_params(random_state=rng.randint(2**31)) if copy.random_state is None else copy


def _set_learned(ensemble: Any, network: MeanVarianceNetwork, layers: Any) -> None:
    """Set the learned attributes of an ensemble: the weights, and the rest as in one of its networks."""
    ensemble.layers_, ensemble.scaling_ = layers, network.scaling_
    ensemble.level_, ensemble.device_ = network.level_, network.device_


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
        TrainingTask.of(scaling.features(table[own]), scaling.target(target[own]), loss, network.random_state)
        for network, own, loss, scaling in zip(networks, positions, losses, scalings, strict=True)
    ]
    import_optional("torch", extra="networks", purpose="training a network")
    from evencover.models.network_training import device_of, train

    trained, device = train(tasks, settings, progress=progress), device_of(settings.device).type
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
