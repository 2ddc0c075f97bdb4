"""Run a benchmark: what is compared, resumable at any moment, the same numbers for any number of processes."""

import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from evencover._internal.arrays import check_count, is_count
from evencover._version import __version__
from evencover.datasets.dataset import Dataset
from evencover.guarantees import TooFewRowsWarning
from evencover.models.networks._training_settings import TrainingSettings
from evencover.quantiles import conformal_rank, level_fraction
from evencover.reproduction.benchmark._model_fits import (
    Fit,
    Job,
    Split,
    SplitPredictions,
    jobs_of,
    networks_in,
    ready,
    seconds_for,
    told,
)
from evencover.reproduction.benchmark._progress_files import ProgressFile, progress_files, watched
from evencover.reproduction.benchmark._result_store import Store, finished, opened
from evencover.reproduction.benchmark._workers import check_cluster_reachable, results_of
from evencover.reproduction.benchmark.trials import Row, Trial, run
from evencover.reproduction.benchmark.variants import BINNINGS, GROUPS, VARIANTS, BenchmarkModel, Variant

PAPER_SPLITS = (13, 2, 47, 1, 15, 31, 89, 666, 3, 43)
_VERSIONED = ("numpy", "scipy", "scikit-learn", "quantile-forest", "torch")


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What is compared on every data set, and how.

    Parameters
    ----------
    models : mapping from name to Contender
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
        _refuse_others("models", self.models, BenchmarkModel)
        _refuse_others("variants", self.variants, Variant)
        for part in ("models", "variants", "splits"):
            if not len(getattr(self, part)):
                raise ValueError(f"{part} must not be empty")
        for network in [network for model in self.models.values() for network in networks_in(model)]:
            TrainingSettings.of(network)  # says what is wrong with its settings
        if not all(is_count(seed) or seed == 0 for seed in self.splits) or len(set(self.splits)) < len(self.splits):
            raise ValueError(f"splits must be different seeds, whole numbers of 0 or more; got {list(self.splits)}")
        object.__setattr__(self, "splits", tuple(int(seed) for seed in self.splits))

    def trials(
        self, data: str, models: Sequence[str] | None = None, splits: Sequence[int] | None = None
    ) -> list[Trial]:
        """Return what is run on a data set, in the order of the results: all, or that of some models and splits."""
        return [
            Trial(data, model, split, variant, binning, float(self.level))
            for model in (self.models if models is None else models)
            for binning in BINNINGS
            for variant in self.variants
            for split in (self.splits if splits is None else splits)
        ]

    def configuration(self, datasets: Sequence[Dataset]) -> dict[str, Any]:
        """Return, as plain values, what decides the numbers."""
        return {
            "level": float(self.level),
            "splits": list(self.splits),
            "models": {
                name: [_in_full(each.calibrated), _in_full(each.baseline)] for name, each in self.models.items()
            },
            "versions": package_versions(),
            "variants": {name: repr(variant) for name, variant in self.variants.items()},
            "datasets": {data.name: data.fingerprint for data in datasets},
        }


def check_datasets(datasets: Sequence[Dataset], level: float) -> None:
    """Raise unless the data sets have different names, and rows enough for a threshold in each group."""
    if isinstance(datasets, Dataset | str) or not all(isinstance(data, Dataset) for data in datasets):
        raise TypeError("datasets must be a sequence of Dataset, from load_dataset or of arrays")
    names = [data.name for data in datasets]
    if not names:
        raise ValueError("datasets must not be empty")
    if len(set(names)) < len(names):
        raise ValueError(f"datasets must have different names; got {names}")
    for data in datasets:
        if not _is_enough(len(data.y), level):
            enough = bisect_left(range(10**9), x=True, key=lambda n: _is_enough(n, level))
            raise ValueError(
                f"{data.name} has {len(data.y)} rows, too few for {len(GROUPS)} groups with a threshold each at level "
                f"{level}: it takes {enough} or more"
            )
        if np.ptp(data.y) == 0:
            raise ValueError(f"the response of {data.name} must vary; {data.response} is {data.y[0]:g} in every row")


def _is_enough(n: int, level: float) -> bool:
    """Return whether a split of n rows leaves each third of the calibration rows, less an edge row, a threshold."""
    _, n_calibration, _ = Split.sizes(n)
    third = n_calibration // len(GROUPS) - 1
    return third > 0 and conformal_rank(third, level) <= third


@cache
def package_versions() -> dict[str, str | None]:
    """Return the versions of the packages that decide the numbers, None for what is not installed."""
    return {"evencover": __version__, **{name: _version(name) for name in _VERSIONED}}


def _refuse_others(name: str, values: Any, kind: type) -> None:
    """Raise unless this is a mapping to things of a kind."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{name} must be a mapping from name to {kind.__name__}; got {type(values).__name__}")
    for value in values.values():
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a mapping from name to {kind.__name__}; got one to {type(value).__name__}")


def _in_full(estimator: Any) -> str:
    """Return how an estimator is written, on one line, nothing left out."""
    text = estimator.__repr__(N_CHAR_MAX=10**9) if isinstance(estimator, BaseEstimator) else repr(estimator)
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))  # where a function lies is another thing each time


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


_SECONDS_A_TRIAL = 0.005


@dataclass(frozen=True, eq=False)
class Task:
    """A job to do: trials to run, and rows to train on or else what the models have said before."""

    job: Job
    trials: tuple[Trial, ...]
    data: Dataset | None
    told: Mapping[Fit, SplitPredictions]
    benchmark: Benchmark
    versions: Mapping[str, str | None]  # of the packages that decide the numbers
    progress_file: ProgressFile | None = None

    @property
    def cost(self) -> float:
        """Roughly, the seconds it takes."""
        trials = _SECONDS_A_TRIAL * len(self.trials)
        return trials if self.data is None else trials + seconds_for(self.job, self.data, self.benchmark.models)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a task: predictions of what was trained and rows by the trial's key, or what went wrong.

    An error is text, in a line and in full: not every exception survives the way from another process.
    """

    job: Job
    progress_file: ProgressFile | None
    trained: Mapping[Fit, SplitPredictions] = field(default_factory=dict)
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
    """Run what has not finished yet, and return the rows of all trials in their order.

    A run that is interrupted, even killed, loses what was being trained and nothing else: repeat it to go on.

    Parameters
    ----------
    benchmark : Benchmark
        What to run.
    datasets : sequence of Dataset
        On what, of different names.
    output : str or Path
        The folder that keeps predictions and results. Data sets and variants can be added to it by later runs; rows
        are returned of what is asked for.
    workers : int
        Number of processes; it changes no number.
    cluster : str, optional
        Address of a Dask cluster that does the work instead.
    progress : callable, optional
        Called now and then, by another thread, with the work done and with all the work, in rough seconds.
    """
    check_count(workers, "workers")
    check_datasets(datasets, benchmark.level)
    benchmark = replace(benchmark, models=ready(benchmark.models))
    if cluster is not None:
        check_cluster_reachable(cluster)
    with opened(Path(output), benchmark.configuration(datasets)) as store:
        tasks = sorted(_tasks(benchmark, datasets, store), key=lambda task: -task.cost)
        failed = []
        with (
            _watched(tasks, progress) as watched_tasks,
            closing(results_of(outcome_of, watched_tasks, workers=workers, cluster=cluster)) as outcomes,
        ):
            for outcome in outcomes:
                for fit, said in outcome.trained.items():
                    store.keep(outcome.job.data, fit, said)
                store.add(outcome.rows)
                if outcome.progress_file is not None:
                    outcome.progress_file(1, 1)
                failed += [outcome] if outcome.error is not None else []
        _check_failures(failed, len(tasks))
        return [row for data in datasets for trial in benchmark.trials(data.name) for row in store.rows[trial.key]]


def outcome_of(task: Task) -> Outcome:
    """Train if need be, and run the trials. It depends on its argument alone; what goes wrong is an outcome, too."""
    try:
        return _outcome_of(task)
    except Exception as error:  # of whatever model: the other tasks go on
        in_a_line = f"{type(error).__name__}: {error}"
        return Outcome(task.job, task.progress_file, error=in_a_line, traceback=format_exc())


def _outcome_of(task: Task) -> Outcome:
    """Do what a task says; a group with too few rows for a threshold is in the results, so no warning is needed."""
    if package_versions() != task.versions:
        raise ValueError(
            f"a worker has other packages, {package_versions()}, than the process it works for, {task.versions}"
        )
    trained: dict[Fit, SplitPredictions] = {}
    if task.data is not None:
        tell = task.progress_file or False
        trained = dict(told(task.job, task.data, task.benchmark.models, task.benchmark.level, progress=tell))
    known = trained or task.told
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewRowsWarning)
        rows = {
            trial.key: run(trial, known[trial.split, trial.model], task.benchmark.variants) for trial in task.trials
        }
    return Outcome(task.job, task.progress_file, trained, rows)


@contextmanager
def _watched(tasks: Sequence[Task], progress: Callable[[float, float], None] | None) -> Iterator[Sequence[Task]]:
    """Yield the tasks, each with a pulse if someone wants to know how far they are."""
    if progress is None:
        yield tasks
        return
    total = sum(task.cost for task in tasks)
    with progress_files(len(tasks)) as places:
        costs = {progress_file: task.cost for progress_file, task in zip(places, tasks, strict=True)}
        with watched(costs, lambda done: progress(done, total)):
            yield [
                replace(task, progress_file=progress_file) for progress_file, task in zip(places, tasks, strict=True)
            ]


def unfinished(benchmark: Benchmark, datasets: Sequence[Dataset], output: str | Path) -> dict[str, int]:
    """Return how many trials a run would have to do on each data set; nothing is written."""
    check_datasets(datasets, benchmark.level)
    benchmark = replace(benchmark, models=ready(benchmark.models))
    done = finished(Path(output), benchmark.configuration(datasets))
    return {data.name: sum(trial.key not in done for trial in benchmark.trials(data.name)) for data in datasets}


def _check_failures(failed: Sequence[Outcome], n_tasks: int) -> None:
    """Raise if tasks failed, naming the first; what the others found is kept."""
    if failed:
        first = min(failed, key=lambda outcome: (outcome.job.data, outcome.job.models, outcome.job.splits))
        summed_up = RuntimeError(
            f"{len(failed)} of {n_tasks} trainings failed, and what the others found is kept. {first.job.data}, "
            f"{', '.join(first.job.models)}: {first.error}"
        )
        summed_up.add_note(first.traceback)
        raise summed_up


def _tasks(benchmark: Benchmark, datasets: Sequence[Dataset], store: Store) -> Iterator[Task]:
    """Yield what remains to be done."""
    for data in datasets:
        for job in jobs_of(data.name, benchmark.models, benchmark.splits):
            trials = benchmark.trials(data.name, job.models, job.splits)
            missing = tuple(trial for trial in trials if trial.key not in store.rows)
            fits = sorted({(trial.split, trial.model) for trial in missing})
            known = {fit: said for fit in fits if (said := store.told(data.name, fit)) is not None}
            if len(known) == len(fits) > 0:
                yield Task(job, missing, None, known, benchmark, package_versions())
            elif missing:
                yield Task(job, missing, data, {}, benchmark, package_versions())
