"""Run a benchmark: it can be interrupted at any moment, and gives the same numbers for any number of processes."""

import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from evencover.datasets.dataset import Dataset
from evencover.guarantees import TooFewRowsWarning
from evencover.inputs.arrays import check_count, is_count
from evencover.inputs.optional import package_versions
from evencover.models.network_layers import TrainingSettings
from evencover.quantiles import conformal_rank, level_fraction
from evencover.reproduction.benchmark.model_fits import (
    FitKey,
    Split,
    TrainingJob,
    estimated_seconds,
    fit_and_predict,
    networks_in,
    resolve_devices,
    training_jobs,
)
from evencover.reproduction.benchmark.result_store import (
    ResultStore,
    finished_trials,
    open_store,
)
from evencover.reproduction.benchmark.trials import (
    BINNING_METHODS,
    GROUP_NAMES,
    VARIANTS,
    BenchmarkModel,
    Row,
    SplitPredictions,
    Trial,
    Variant,
    run_trial,
)
from evencover.reproduction.benchmark.workers import (
    ProgressFile,
    check_cluster_reachable,
    map_unordered,
    progress_files,
    report_progress,
)

PAPER_SPLITS = (13, 2, 47, 1, 15, 31, 89, 666, 3, 43)
_VERSIONED = ("evencover", "numpy", "scipy", "scikit-learn", "quantile-forest", "torch")


@dataclass(frozen=True, eq=False)
class Benchmark:
    """The models, variants and splits that are compared on every data set.

    Parameters
    ----------
    models : mapping from name to BenchmarkModel
        Such as `paper_models`.
    variants : mapping from name to Variant
        The paper's seven by default.
    splits : sequence of int
        Seeds of the splits; the paper's ten by default.
    level : float
        Nominal coverage.

    Examples
    --------
    >>> from evencover.reproduction.benchmark import paper_models
    >>> len(Benchmark(paper_models(), splits=[1, 2]).trials("mine"))  # 4 models, 7 variants, 2 splits, 2 binnings
    112
    """

    models: Mapping[str, BenchmarkModel]
    variants: Mapping[str, Variant] = field(default_factory=lambda: dict(VARIANTS))
    splits: Sequence[int] = PAPER_SPLITS
    level: float = 0.9

    def __post_init__(self) -> None:
        level_fraction(self.level)
        _check_mapping("models", self.models, BenchmarkModel)
        _check_mapping("variants", self.variants, Variant)
        for part in ("models", "variants", "splits"):
            if not len(getattr(self, part)):
                raise ValueError(f"{part} must not be empty")
        for network in [network for model in self.models.values() for network in networks_in(model)]:
            TrainingSettings.of(network)  # raises for a bad setting
        if not all(is_count(seed) or seed == 0 for seed in self.splits) or len(set(self.splits)) < len(self.splits):
            raise ValueError(f"splits must be distinct seeds, whole numbers of 0 or more; got {list(self.splits)}")
        object.__setattr__(self, "splits", tuple(int(seed) for seed in self.splits))

    def trials(
        self, data: str, models: Sequence[str] | None = None, splits: Sequence[int] | None = None
    ) -> list[Trial]:
        """Return the trials on a data set in the order of the results: all, or those of some models and splits."""
        return [
            Trial(data, model, split, variant, binning, float(self.level))
            for model in (self.models if models is None else models)
            for binning in BINNING_METHODS
            for variant in self.variants
            for split in (self.splits if splits is None else splits)
        ]

    def configuration(self, datasets: Sequence[Dataset]) -> dict[str, Any]:
        """Return the settings that determine the numbers, as plain values."""
        return {
            "level": float(self.level),
            "splits": list(self.splits),
            "models": {
                name: [_full_repr(model.calibrated), _full_repr(model.baseline)] for name, model in self.models.items()
            },
            "versions": _versions(),
            "variants": {name: repr(variant) for name, variant in self.variants.items()},
            "datasets": {data.name: data.fingerprint for data in datasets},
        }


def check_datasets(datasets: Sequence[Dataset], level: float) -> None:
    """Raise unless the data sets have distinct names, and enough rows for a finite threshold in each group."""
    if isinstance(datasets, Dataset | str) or not all(isinstance(data, Dataset) for data in datasets):
        raise TypeError("datasets must be a sequence of Dataset objects, made by load_dataset or from arrays")
    names = [data.name for data in datasets]
    if not names:
        raise ValueError("datasets must not be empty")
    if len(set(names)) < len(names):
        raise ValueError(f"datasets must have distinct names; got {names}")
    for data in datasets:
        if not _has_enough_rows(len(data.y), level):
            enough = bisect_left(range(10**9), x=True, key=lambda n: _has_enough_rows(n, level))
            raise ValueError(
                f"{data.name} must have at least {enough} rows, so that each of {len(GROUP_NAMES)} groups has a finite "
                f"threshold at level {level}; got {len(data.y)}"
            )
        if np.ptp(data.y) == 0:
            raise ValueError(f"the response of {data.name} must vary; {data.response} is {data.y[0]:g} in every row")


def _has_enough_rows(n: int, level: float) -> bool:
    """Return whether a split of n rows gives each third of the calibration rows, less an edge row, a threshold."""
    _, n_calibration, _ = Split.sizes(n)
    n_in_group = n_calibration // len(GROUP_NAMES) - 1
    return n_in_group > 0 and conformal_rank(n_in_group, level) <= n_in_group


def _check_mapping(name: str, values: Any, kind: type) -> None:
    """Raise TypeError unless this is a mapping to objects of a class."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{name} must be a mapping from name to {kind.__name__}; got {type(values).__name__}")
    for value in values.values():
        if not isinstance(value, kind):
            raise TypeError(
                f"{name} must be a mapping from name to {kind.__name__}; got a value of type {type(value).__name__}"
            )


def _full_repr(estimator: Any) -> str:
    """Return an estimator's repr on one line, unabridged and without memory addresses, which differ in every run."""
    text = estimator.__repr__(N_CHAR_MAX=10**9) if isinstance(estimator, BaseEstimator) else repr(estimator)
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))


@cache
def _versions() -> dict[str, str | None]:
    """Return the versions of the packages that determine the numbers."""
    return package_versions(_VERSIONED)


_SECONDS_PER_TRIAL = 0.005


@dataclass(frozen=True, eq=False)
class BenchmarkTask:
    """Trials of one training job, with the rows to train on or, if the job was done before, its predictions."""

    job: TrainingJob
    trials: tuple[Trial, ...]
    data: Dataset | None
    predictions: Mapping[FitKey, SplitPredictions]
    benchmark: Benchmark
    versions: Mapping[str, str | None]  # of the packages that determine the numbers
    progress_file: ProgressFile | None = None

    @property
    def cost(self) -> float:
        """A rough estimate of the seconds it takes."""
        trials = _SECONDS_PER_TRIAL * len(self.trials)
        return trials if self.data is None else trials + estimated_seconds(self.job, self.data, self.benchmark.models)


@dataclass(frozen=True, eq=False)
class TaskResult:
    """The predictions of newly trained models and the rows by the trial's key; or the error if the task failed.

    The error is text, one line and the traceback, because some exceptions cannot be sent from one process to another.
    """

    job: TrainingJob
    progress_file: ProgressFile | None
    new_predictions: Mapping[FitKey, SplitPredictions] = field(default_factory=dict)
    rows: Mapping[str, list[Row]] = field(default_factory=dict)
    error: str | None = None
    traceback: str = ""


def run_benchmark(
    benchmark: Benchmark,
    datasets: Sequence[Dataset],
    output: str | Path,
    *,
    workers: int = 1,
    cluster: str | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> list[Row]:
    """Run the trials that are not finished, and return the rows of all trials in their order.

    An interrupted or killed run loses only the trainings that were in progress. Repeat the call to continue.

    Parameters
    ----------
    benchmark : Benchmark
        Models, variants, splits and level.
    datasets : sequence of Dataset
        Data sets with distinct names.
    output : str or Path
        The folder for predictions and results. Later runs can add data sets and variants to it; a run returns the rows
        of its own benchmark and data sets.
    workers : int
        Number of processes; the results do not depend on it.
    cluster : str, optional
        Address of a Dask cluster that runs the tasks instead.
    progress : callable, optional
        Called twice a second, from another thread, with the finished and the total work, both in estimated seconds.
    """
    check_count(workers, "workers")
    check_datasets(datasets, benchmark.level)
    benchmark = replace(benchmark, models=resolve_devices(benchmark.models))
    if cluster is not None:
        check_cluster_reachable(cluster)
    with open_store(Path(output), benchmark.configuration(datasets)) as store:
        tasks = sorted(_tasks(benchmark, datasets, store), key=lambda task: -task.cost)
        failed = []
        with (
            _with_progress_files(tasks, progress) as reporting_tasks,
            closing(map_unordered(run_task, reporting_tasks, workers=workers, cluster=cluster)) as results,
        ):
            for result in results:
                for fit, predictions in result.new_predictions.items():
                    store.save_predictions(result.job.data, fit, predictions)
                store.add_trials(result.rows)
                if result.progress_file is not None:
                    result.progress_file(1, 1)
                failed += [result] if result.error is not None else []
        _check_failures(failed, len(tasks))
        return [row for data in datasets for trial in benchmark.trials(data.name) for row in store.rows[trial.key]]


def run_task(task: BenchmarkTask) -> TaskResult:
    """Train the models if needed, and run the trials; an exception becomes a result with an error.

    A pure function of its argument, except that it writes the progress file.
    """
    try:
        return _train_and_run(task)
    except Exception as error:  # of any model: the other tasks continue
        message = f"{type(error).__name__}: {error}"
        return TaskResult(task.job, task.progress_file, error=message, traceback=format_exc())


def _train_and_run(task: BenchmarkTask) -> TaskResult:
    """Return the result of a task, without warnings about groups with few rows: the results show those groups."""
    if _versions() != task.versions:
        raise ValueError(
            f"a worker must have the package versions of the main process, {dict(task.versions)}; got {_versions()}"
        )
    new: dict[FitKey, SplitPredictions] = {}
    if task.data is not None:
        progress = task.progress_file or False
        new = dict(fit_and_predict(task.job, task.data, task.benchmark.models, task.benchmark.level, progress=progress))
    predictions = new or task.predictions
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewRowsWarning)
        rows = {
            trial.key: run_trial(trial, predictions[trial.split, trial.model], task.benchmark.variants)
            for trial in task.trials
        }
    return TaskResult(task.job, task.progress_file, new, rows)


@contextmanager
def _with_progress_files(
    tasks: Sequence[BenchmarkTask], progress: Callable[[float, float], None] | None
) -> Iterator[Sequence[BenchmarkTask]]:
    """Yield the tasks, each with a progress file if there is a progress callback, which is then called regularly."""
    if progress is None:
        yield tasks
        return
    total = sum(task.cost for task in tasks)
    with progress_files(len(tasks)) as files:
        costs = {file: task.cost for file, task in zip(files, tasks, strict=True)}
        with report_progress(costs, lambda done: progress(done, total)):
            yield [replace(task, progress_file=file) for file, task in zip(files, tasks, strict=True)]


def unfinished_trials(benchmark: Benchmark, datasets: Sequence[Dataset], output: str | Path) -> dict[str, int]:
    """Return the number of trials that a run would still do on each data set; nothing is written."""
    check_datasets(datasets, benchmark.level)
    benchmark = replace(benchmark, models=resolve_devices(benchmark.models))
    finished = finished_trials(Path(output), benchmark.configuration(datasets))
    return {data.name: sum(trial.key not in finished for trial in benchmark.trials(data.name)) for data in datasets}


def _check_failures(failed: Sequence[TaskResult], n_tasks: int) -> None:
    """Raise RuntimeError with the first error if tasks failed."""
    if failed:
        first = min(failed, key=lambda result: (result.job.data, result.job.models, result.job.splits))
        error = RuntimeError(
            f"{len(failed)} of {n_tasks} tasks failed; the results of the others are saved. {first.job.data}, "
            f"{', '.join(first.job.models)}: {first.error}"
        )
        error.add_note(first.traceback)
        raise error


def _tasks(benchmark: Benchmark, datasets: Sequence[Dataset], store: ResultStore) -> Iterator[BenchmarkTask]:
    """Yield the tasks with unfinished trials."""
    for data in datasets:
        for job in training_jobs(data.name, benchmark.models, benchmark.splits):
            trials = benchmark.trials(data.name, job.models, job.splits)
            missing = tuple(trial for trial in trials if trial.key not in store.rows)
            fits = sorted({(trial.split, trial.model) for trial in missing})
            saved = {fit: found for fit in fits if (found := store.load_predictions(data.name, fit)) is not None}
            if len(saved) == len(fits) > 0:
                yield BenchmarkTask(job, missing, None, saved, benchmark, _versions())
            elif missing:
                yield BenchmarkTask(job, missing, data, {}, benchmark, _versions())
