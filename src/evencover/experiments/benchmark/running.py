"""Running a benchmark: resumable at any moment, in any number of processes, with the same numbers."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from traceback import format_exc

from evencover.datasets.tables import Dataset
from evencover.experiments.benchmark.fits import Fit, Job, Told, jobs_of, ready, seconds_for, told
from evencover.experiments.benchmark.plan import Benchmark, package_versions, refuse_unfit
from evencover.experiments.benchmark.pulses import Pulse, pulses, watched
from evencover.experiments.benchmark.store import Store, finished, opened
from evencover.experiments.benchmark.trials import Row, Trial, run
from evencover.experiments.benchmark.workers import refuse_unless_reached, results_of
from evencover.inputs import refuse_unless_count
from evencover.pools import TooFewRowsWarning

_SECONDS_A_TRIAL = 0.005


@dataclass(frozen=True, eq=False)
class Task:
    """A job to do: trials to run, and rows to train on or else what the models have said before."""

    job: Job
    trials: tuple[Trial, ...]
    data: Dataset | None
    told: Mapping[Fit, Told]
    benchmark: Benchmark
    versions: Mapping[str, str | None]  # of the packages that decide the numbers
    pulse: Pulse | None = None

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
    pulse: Pulse | None
    trained: Mapping[Fit, Told] = field(default_factory=dict)
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
    refuse_unless_count(workers, "workers")
    refuse_unfit(datasets, benchmark.level)
    benchmark = replace(benchmark, models=ready(benchmark.models))
    if cluster is not None:
        refuse_unless_reached(cluster)
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
                if outcome.pulse is not None:
                    outcome.pulse(1, 1)
                failed += [outcome] if outcome.error is not None else []
        _refuse_failures(failed, len(tasks))
        return [row for data in datasets for trial in benchmark.trials(data.name) for row in store.rows[trial.key]]


def outcome_of(task: Task) -> Outcome:
    """Train if need be, and run the trials. It depends on its argument alone; what goes wrong is an outcome, too."""
    try:
        return _outcome_of(task)
    except Exception as error:  # of whatever model: the other tasks go on
        in_a_line = f"{type(error).__name__}: {error}"
        return Outcome(task.job, task.pulse, error=in_a_line, traceback=format_exc())


def _outcome_of(task: Task) -> Outcome:
    """Do what a task says; a group with too few rows for a threshold is in the results, so no warning is needed."""
    if package_versions() != task.versions:
        raise ValueError(
            f"a worker has other packages, {package_versions()}, than the process it works for, {task.versions}"
        )
    trained: dict[Fit, Told] = {}
    if task.data is not None:
        tell = task.pulse or False
        trained = dict(told(task.job, task.data, task.benchmark.models, task.benchmark.level, progress=tell))
    known = trained or task.told
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewRowsWarning)
        rows = {
            trial.key: run(trial, known[trial.split, trial.model], task.benchmark.variants) for trial in task.trials
        }
    return Outcome(task.job, task.pulse, trained, rows)


@contextmanager
def _watched(tasks: Sequence[Task], progress: Callable[[float, float], None] | None) -> Iterator[Sequence[Task]]:
    """Yield the tasks, each with a pulse if someone wants to know how far they are."""
    if progress is None:
        yield tasks
        return
    total = sum(task.cost for task in tasks)
    with pulses(len(tasks)) as places:
        costs = {pulse: task.cost for pulse, task in zip(places, tasks, strict=True)}
        with watched(costs, lambda done: progress(done, total)):
            yield [replace(task, pulse=pulse) for pulse, task in zip(places, tasks, strict=True)]


def unfinished(benchmark: Benchmark, datasets: Sequence[Dataset], output: str | Path) -> dict[str, int]:
    """Return how many trials a run would have to do on each data set; nothing is written."""
    refuse_unfit(datasets, benchmark.level)
    benchmark = replace(benchmark, models=ready(benchmark.models))
    done = finished(Path(output), benchmark.configuration(datasets))
    return {data.name: sum(trial.key not in done for trial in benchmark.trials(data.name)) for data in datasets}


def _refuse_failures(failed: Sequence[Outcome], n_tasks: int) -> None:
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
