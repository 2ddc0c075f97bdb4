"""From a data set to predictions: networks of all splits trained as one stack, other models one by one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from evencover._internal.arrays import FloatArray, IntArray
from evencover._internal.optional import import_optional
from evencover.datasets.dataset import Dataset
from evencover.model_selection import three_way_split
from evencover.models import DropoutEnsemble, MeanVarianceNetwork, QuantileForest, QuantileNetwork, fit_jointly
from evencover.models.networks._training_settings import Progress, TrainingSettings
from evencover.models.predict import predictions_of
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction
from evencover.reproduction.benchmark.variants import BenchmarkModel
from evencover.reproduction.simulation import seed_of

Fit: TypeAlias = tuple[int, str]  # split, model
_NETWORKS = (QuantileNetwork, MeanVarianceNetwork)


@dataclass(frozen=True, eq=False)
class SplitPredictions:
    """What a model says about the calibration rows and then the test rows of a split.

    All in units of the training targets: less their mean, divided by their standard deviation.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets.
    n_calibration : int
        How many of the rows calibrate; the others test.
    prediction : Prediction of n rows
        What is calibrated.
    baseline : Prediction of n rows
        What has the model's own intervals.
    """

    y: FloatArray
    n_calibration: int
    prediction: Prediction
    baseline: Prediction


@dataclass(frozen=True)
class Job:
    """What is trained in one go: some models, on some splits of a data set."""

    data: str
    models: tuple[str, ...]
    splits: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of one split, by position."""

    training: IntArray
    calibration: IntArray
    test: IntArray

    @classmethod
    def of(cls, n: int, seed: int) -> "Split":
        """Return the paper's: 20 % of the rows test, and half of the others calibrate."""
        rows = np.arange(n)
        return cls(*(part.positions for part in three_way_split(rows, rows, random_state=seed)))

    @staticmethod
    def sizes(n: int) -> tuple[int, int, int]:
        """Return how many rows of n train, calibrate and test."""
        n_test = ceil(0.2 * n)
        n_calibration = ceil((n - n_test) / 2)
        return n - n_test - n_calibration, n_calibration, n_test


def jobs_of(data: str, contenders: Mapping[str, BenchmarkModel], splits: Sequence[int]) -> list[Job]:
    """Return what is trained for a data set: all networks of all splits at once, any other model split by split."""
    stacked = tuple(name for name, contender in contenders.items() if networks_in(contender))
    together = [Job(data, stacked, tuple(splits))] if stacked else []
    return together + [Job(data, (name,), (split,)) for name in contenders if name not in stacked for split in splits]


def told(
    job: Job, data: Dataset, contenders: Mapping[str, BenchmarkModel], level: float, *, progress: Progress = False
) -> Iterator[tuple[Fit, SplitPredictions]]:
    """Train a job's models and yield what each says about the rows it has not seen, split by split.

    Parameters
    ----------
    job : Job
        What to train.
    data : Dataset
        The rows.
    contenders : mapping from name to Contender
        The models; those of the job at least.
    level : float
        Nominal coverage of the baselines.
    progress : callable, optional
        Called with the epochs that networks have been trained, and all of theirs.
    """
    splits = {seed: Split.of(len(data.y), seed) for seed in job.splits}
    stack = _trained_stack(job, data, [contenders[name] for name in job.models], splits, progress)
    for seed, split in splits.items():
        trained = {kind: network for (where, kind), network in stack.items() if where == seed}
        for name in job.models:
            fitted = _Fitting(data, split, trained, _seed(job.data, seed, name))
            yield (seed, name), _said(contenders[name], fitted, level)


def seconds_for(job: Job, data: Dataset, contenders: Mapping[str, BenchmarkModel]) -> float:
    """Return, very roughly, how many seconds a job takes on one core: for the order of jobs, and for progress."""
    n, features = len(data.y), data.X.shape[1]
    n_training, *_ = Split.sizes(n)
    networks = {_kind(network): network for name in job.models for network in networks_in(contenders[name])}
    steps = sum(network.epochs * (n_training / network.batch_size + 1) for network in networks.values())
    trees = 0 if networks else 2.4e-6 * n_training * np.log2(n_training) * features + 1e-4 * n
    return float(len(job.splits) * (1e-4 * steps + trees))


def ready(contenders: Mapping[str, BenchmarkModel]) -> dict[str, BenchmarkModel]:
    """Return the models as they will be trained: "auto" is replaced by the device that this process has.

    Another device has other last digits. What is missing, a device or a package, is an error.
    """
    return {name: BenchmarkModel(*map(_ready, (each.calibrated, each.baseline))) for name, each in contenders.items()}


def _ready(estimator: Any) -> Any:
    if isinstance(estimator, QuantileForest):
        import_optional("quantile_forest", extra="forest", purpose="QuantileForest")
    network = _network_in(estimator)
    if network is None:
        return estimator
    device = TrainingSettings.of(network).device
    import_optional("torch", extra="networks", purpose="training a network")
    from evencover.models.networks._training import device_of

    placed = clone(network).set_params(device=device_of(device).type)
    return clone(estimator).set_params(network=placed) if isinstance(estimator, DropoutEnsemble) else placed


def networks_in(contender: BenchmarkModel) -> list[Any]:
    """Return the networks of a contender that train in the stack."""
    inside = [_network_in(each) for each in (contender.calibrated, contender.baseline)]
    return [network for network in inside if network is not None]


def _network_in(estimator: Any) -> Any:
    """Return the network that an estimator is, or that it is an ensemble of; None if there is none."""
    if isinstance(estimator, DropoutEnsemble):
        estimator = MeanVarianceNetwork() if estimator.network is None else estimator.network
    return estimator if isinstance(estimator, _NETWORKS) else None


def _kind(network: Any) -> str:
    """Return what makes two networks one training: their class and settings."""
    return f"{type(network).__name__} {network.get_params()}"


def _trained_stack(
    job: Job, data: Dataset, contenders: Sequence[BenchmarkModel], splits: Mapping[int, Split], progress: Progress
) -> dict[tuple[int, str], Any]:
    """Return the trained networks by split and kind; those that can share a pass do, equal losses side by side."""
    kinds = {_kind(network): network for contender in contenders for network in networks_in(contender)}
    found: dict[tuple[int, str], Any] = {}

    def settings(kind: str) -> str:
        return repr(TrainingSettings.of(kinds[kind]))

    for _, alike in groupby(sorted(kinds, key=settings), settings):
        members = [(seed, kind) for kind in alike for seed in splits]
        networks = [_new_network(kinds[kind], job.data, seed) for seed, kind in members]
        rows = [splits[seed].training for seed, _ in members]
        found |= dict(zip(members, fit_jointly(networks, data.X, data.y, rows=rows, progress=progress), strict=True))
    return found


def _new_network(network: Any, data: str, split: int) -> Any:
    """Return a network to train, its seed a hash of data set, split and class: whoever shares it, it is this one."""
    seed = network.random_state
    return clone(network).set_params(random_state=_seed(data, split, type(network).__name__) if seed is None else seed)


def _seed(data: str, split: int, name: str) -> int:
    return seed_of(0, data, str(split), name) % 2**32  # as large as scikit-learn takes


@dataclass(frozen=True, eq=False)
class _Fitting:
    """What it takes to fit an estimator on a split."""

    data: Dataset
    split: Split
    trained: Mapping[str, Any]  # networks by kind
    seed: int

    def fitted(self, estimator: Any) -> Any:
        """Return a fitted copy; networks come from the stack."""
        network = _network_in(estimator)
        if network is not None and not isinstance(estimator, DropoutEnsemble):
            return self.trained[_kind(network)]
        fresh = clone(estimator)
        if network is not None:
            fresh.set_params(network=FrozenEstimator(self.trained[_kind(network)]))
        unseeded = [
            name
            for name, value in fresh.get_params().items()
            if value is None and name.rpartition("__")[2] == "random_state"
        ]
        rows = self.split.training
        return fresh.set_params(**dict.fromkeys(unseeded, self.seed)).fit(self.data.X[rows], self.data.y[rows])


def _said(contender: BenchmarkModel, fitting: _Fitting, level: float) -> SplitPredictions:
    """Return what a contender says, in units of the training targets."""
    data, split = fitting.data, fitting.split
    rows = np.concatenate([split.calibration, split.test])
    model = fitting.fitted(contender.calibrated)
    said = predictions_of(model, data.X[rows])
    other, others = model, said
    if contender.baseline is not None:
        other = fitting.fitted(contender.baseline)
        others = predictions_of(other, data.X[rows])
    learned = data.y[split.training]
    unit = learned.mean(), learned.std() or 1.0
    return SplitPredictions(
        (data.y[rows] - unit[0]) / unit[1],
        len(split.calibration),
        _in_units(said, *unit),
        _in_units(_at_level(other, others, data.X[rows], level), *unit),
    )


def _at_level(model: Any, said: Prediction, X: FloatArray, level: float) -> Prediction:
    """Return what a model has said with bounds at the level: its own ones, or quantiles it has learned."""
    wanted = level_fraction(level)
    if level_fraction(said.level) == wanted:
        return said
    ends = [float((1 - wanted) / 2), float((1 + wanted) / 2)]
    learned = list(model.plan_.levels) if hasattr(model, "predict_quantiles") else []
    if not all(end in learned for end in ends):
        raise ValueError(
            f"the bounds of {type(model).__name__} are at level {said.level}, the benchmark is at {level}: give its "
            "Contender a baseline at that level"
        )
    quantiles = model.predict_quantiles(X)
    lower, upper = (quantiles[:, learned.index(end)] for end in ends)
    return Prediction.from_quantiles(lower, upper, said.center, level=level)


def _in_units(said: Prediction, mean: float, deviation: float) -> Prediction:
    """Return a prediction less a mean and divided by a deviation."""
    center, lower, upper = (
        (said.required(part, by="the benchmark") - mean) / deviation for part in ("center", "lower", "upper")
    )
    spread = said.required("spread", by="the benchmark") / deviation
    return Prediction(center, spread, lower, upper, level=said.level)
