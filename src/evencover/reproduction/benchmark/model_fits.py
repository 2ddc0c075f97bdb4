"""From a data set to predictions: networks of all splits are trained jointly, other models one by one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from evencover.datasets.dataset import Dataset
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.optional import import_optional
from evencover.model_selection import three_way_split
from evencover.models import DropoutEnsemble, MeanVarianceNetwork, QuantileForest, QuantileNetwork, fit_jointly
from evencover.models.estimators import predictions_of
from evencover.models.network_layers import ShowProgress, TrainingSettings
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction
from evencover.reproduction.benchmark.trials import BenchmarkModel, SplitPredictions
from evencover.reproduction.simulation import seed_of

FitKey: TypeAlias = tuple[int, str]  # seed of the split, name of the model
_NETWORKS = (QuantileNetwork, MeanVarianceNetwork)


@dataclass(frozen=True)
class TrainingJob:
    """Models that are trained in one go, on some splits of a data set."""

    data: str
    models: tuple[str, ...]
    splits: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of the training, calibration and test rows."""

    training: IntArray
    calibration: IntArray
    test: IntArray

    @classmethod
    def of(cls, n: int, seed: int) -> "Split":
        """Return the paper's split of n rows: 20 % test, half of the others calibrate, and the rest train."""
        rows = np.arange(n)
        return cls(*(part.positions for part in three_way_split(rows, rows, random_state=seed)))

    @staticmethod
    def sizes(n: int) -> tuple[int, int, int]:
        """Return the number of training, calibration and test rows among n."""
        n_test = ceil(0.2 * n)
        n_calibration = ceil((n - n_test) / 2)
        return n - n_test - n_calibration, n_calibration, n_test


def training_jobs(data: str, models: Mapping[str, BenchmarkModel], splits: Sequence[int]) -> list[TrainingJob]:
    """Return the training jobs of a data set: one for the networks of all splits, one per split for other models."""
    networks = tuple(name for name, model in models.items() if networks_in(model))
    joint = [TrainingJob(data, networks, tuple(splits))] if networks else []
    return joint + [TrainingJob(data, (name,), (split,)) for name in models if name not in networks for split in splits]


def fit_and_predict(
    job: TrainingJob,
    data: Dataset,
    models: Mapping[str, BenchmarkModel],
    level: float,
    *,
    progress: ShowProgress = False,
) -> Iterator[tuple[FitKey, SplitPredictions]]:
    """Train a job's models and yield their predictions for the rows outside the training part, split by split.

    Parameters
    ----------
    job : TrainingJob
        The models and splits to train.
    data : Dataset
        The rows.
    models : mapping from name to BenchmarkModel
        At least the models of the job.
    level : float
        Nominal coverage of the baselines.
    progress : callable, optional
        Called with the number of finished epochs and of all epochs, while networks train.
    """
    splits = {seed: Split.of(len(data.y), seed) for seed in job.splits}
    networks = _train_networks(job, data, [models[name] for name in job.models], splits, progress)
    for seed, split in splits.items():
        trained = {key: network for (split_seed, key), network in networks.items() if split_seed == seed}
        for name in job.models:
            fitter = _SplitFitter(data, split, trained, _seed(job.data, seed, name))
            yield (seed, name), _split_predictions(models[name], fitter, level)


def estimated_seconds(job: TrainingJob, data: Dataset, models: Mapping[str, BenchmarkModel]) -> float:
    """Return a very rough estimate of a job's seconds on one core, to order the jobs and to report progress."""
    n, features = len(data.y), data.X.shape[1]
    n_training, *_ = Split.sizes(n)
    networks = {_training_key(network): network for name in job.models for network in networks_in(models[name])}
    steps = sum(network.epochs * (n_training / network.batch_size + 1) for network in networks.values())
    trees = 0 if networks else 2.4e-6 * n_training * np.log2(n_training) * features + 1e-4 * n
    return float(len(job.splits) * (1e-4 * steps + trees))


def resolve_devices(models: Mapping[str, BenchmarkModel]) -> dict[str, BenchmarkModel]:
    """Return the models with the device "auto" replaced by the device that this process has.

    The last digits of a result depend on the device, so the configuration must name it. A missing device or package is
    an error.
    """
    return {
        name: BenchmarkModel(*map(_resolve_device, (model.calibrated, model.baseline)))
        for name, model in models.items()
    }


def _resolve_device(estimator: Any) -> Any:
    if isinstance(estimator, QuantileForest):
        import_optional("quantile_forest", extra="forest", purpose="QuantileForest")
    network = _network_in(estimator)
    if network is None:
        return estimator
    device = TrainingSettings.of(network).device
    import_optional("torch", extra="networks", purpose="training a network")
    from evencover.models.network_training import device_of

    resolved = clone(network).set_params(device=device_of(device).type)
    return clone(estimator).set_params(network=resolved) if isinstance(estimator, DropoutEnsemble) else resolved


def networks_in(model: BenchmarkModel) -> list[Any]:
    """Return the networks in a model, which can be trained jointly with those of other models and splits."""
    networks = [_network_in(estimator) for estimator in (model.calibrated, model.baseline)]
    return [network for network in networks if network is not None]


def _network_in(estimator: Any) -> Any:
    """Return the estimator if it is a network, or the network in a dropout ensemble; None for other estimators."""
    if isinstance(estimator, DropoutEnsemble):
        estimator = MeanVarianceNetwork() if estimator.network is None else estimator.network
    return estimator if isinstance(estimator, _NETWORKS) else None


def _training_key(network: Any) -> str:
    """Return the class and settings of a network: networks with the same key share one training."""
    return f"{type(network).__name__} {network.get_params()}"


def _train_networks(
    job: TrainingJob,
    data: Dataset,
    models: Sequence[BenchmarkModel],
    splits: Mapping[int, Split],
    progress: ShowProgress,
) -> dict[tuple[int, str], Any]:
    """Return the trained networks by split and training key; networks with the same settings are trained jointly."""
    by_key = {_training_key(network): network for model in models for network in networks_in(model)}
    trained: dict[tuple[int, str], Any] = {}

    def settings(key: str) -> str:
        return repr(TrainingSettings.of(by_key[key]))

    for _, keys in groupby(sorted(by_key, key=settings), settings):
        members = [(seed, key) for key in keys for seed in splits]  # equal losses next to each other, which is fastest
        networks = [_new_network(by_key[key], job.data, seed) for seed, key in members]
        rows = [splits[seed].training for seed, _ in members]
        trained |= dict(zip(members, fit_jointly(networks, data.X, data.y, rows=rows, progress=progress), strict=True))
    return trained


def _new_network(network: Any, data: str, split: int) -> Any:
    """Return an unfitted copy, seeded by a hash of data set, split and class: the same network for every model."""
    seed = network.random_state
    return clone(network).set_params(random_state=_seed(data, split, type(network).__name__) if seed is None else seed)


def _seed(data: str, split: int, name: str) -> int:
    return seed_of(0, data, str(split), name) % 2**32  # scikit-learn takes no larger seeds


@dataclass(frozen=True, eq=False)
class _SplitFitter:
    """Fits estimators on the training rows of one split."""

    data: Dataset
    split: Split
    networks: Mapping[str, Any]  # trained, by training key
    seed: int

    def fit(self, estimator: Any) -> Any:
        """Return a fitted copy, made of the networks that are trained already where it has any."""
        network = _network_in(estimator)
        if network is not None and not isinstance(estimator, DropoutEnsemble):
            return self.networks[_training_key(network)]
        copy = clone(estimator)
        if network is not None:
            copy.set_params(network=FrozenEstimator(self.networks[_training_key(network)]))
        unseeded = [
            name
            for name, value in copy.get_params().items()
            if value is None and name.rpartition("__")[2] == "random_state"
        ]
        rows = self.split.training
        return copy.set_params(**dict.fromkeys(unseeded, self.seed)).fit(self.data.X[rows], self.data.y[rows])


def _split_predictions(model: BenchmarkModel, fitter: _SplitFitter, level: float) -> SplitPredictions:
    """Return a model's predictions for the calibration and test rows, in units of the training targets."""
    data, split = fitter.data, fitter.split
    rows = np.concatenate([split.calibration, split.test])
    calibrated = fitter.fit(model.calibrated)
    prediction = predictions_of(calibrated, data.X[rows])
    baseline, baseline_prediction = calibrated, prediction
    if model.baseline is not None:
        baseline = fitter.fit(model.baseline)
        baseline_prediction = predictions_of(baseline, data.X[rows])
    training_targets = data.y[split.training]
    mean, deviation = training_targets.mean(), training_targets.std() or 1.0
    return SplitPredictions(
        (data.y[rows] - mean) / deviation,
        len(split.calibration),
        _rescaled(prediction, mean, deviation),
        _rescaled(_prediction_at_level(baseline, baseline_prediction, data.X[rows], level), mean, deviation),
    )


def _prediction_at_level(model: Any, prediction: Prediction, X: FloatArray, level: float) -> Prediction:
    """Return a prediction with bounds at the level: the model's own bounds, or quantiles that it has learned."""
    nominal = level_fraction(level)
    if level_fraction(prediction.level) == nominal:
        return prediction
    ends = [float((1 - nominal) / 2), float((1 + nominal) / 2)]
    learned = list(model.plan_.levels) if hasattr(model, "predict_quantiles") else []
    if not all(end in learned for end in ends):
        raise ValueError(
            f"{type(model).__name__} predicts bounds at level {prediction.level}, but the benchmark's level is "
            f"{level}: pass BenchmarkModel a baseline at level {level}"
        )
    quantiles = model.predict_quantiles(X)
    lower, upper = (quantiles[:, learned.index(end)] for end in ends)
    return Prediction.from_quantiles(lower, upper, prediction.center, level=level)


def _rescaled(prediction: Prediction, mean: float, deviation: float) -> Prediction:
    """Return a prediction less a mean, divided by a deviation."""
    center, lower, upper = (
        (prediction.required(part, by="the benchmark") - mean) / deviation for part in ("center", "lower", "upper")
    )
    spread = prediction.required("spread", by="the benchmark") / deviation
    return Prediction(center, spread, lower, upper, level=prediction.level)
