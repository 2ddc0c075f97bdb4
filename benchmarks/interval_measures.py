"""The measures of the benchmark of intervals: on one split, and over data sets and splits."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from math import nan
from pathlib import Path
from statistics import fmean, geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import betabinom
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.interval_data import Bin, BinnedResult, DataSet, Protocol
from benchmarks.interval_methods import Bounds, Method, Task
from evencover import Intervals, conformal_rank, interval_score
from evencover.files.archive import atomic_write
from evencover.models import QuantileForest

MIN_CLASS_ROWS = 20  # smaller classes are left out of the root mean square
_JUDGE_LEVEL, _JUDGE_SEED = 0.9, 1000  # the seed is added to that of the split
_THIRDS, _CLASSES, _CLUSTERS = 3, 10, 10
_UNIT_FITS = 3


@dataclass(frozen=True)
class Counts:
    """Covered rows and all rows of each class; for bins, of which each row is in several, likewise."""

    covered: Sequence[int]
    sizes: Sequence[int]

    @classmethod
    def of(cls, covers: Any, codes: Any, n_classes: int) -> "Counts":
        """Return the counts for a boolean and the number of a class of each row."""
        covered = np.bincount(codes[covers], minlength=n_classes)
        return cls(covered.tolist(), np.bincount(codes, minlength=n_classes).tolist())

    @classmethod
    def of_bins(cls, covers: Any, bins: Sequence[Any]) -> "Counts":
        """Return the counts for a boolean of each row, and for booleans that say which rows are in each bin."""
        return cls([int((covers & rows).sum()) for rows in bins], [int(rows.sum()) for rows in bins])

    @classmethod
    def pooled(cls, parts: Sequence["Counts"]) -> "Counts":
        """Return the sums of the counts of several splits."""
        return cls(*(np.sum([getattr(each, name) for each in parts], axis=0).tolist() for name in ("covered", "sizes")))

    @property
    def coverage(self) -> Any:
        """The coverage of each class; NaN if it has no rows."""
        with np.errstate(invalid="ignore"):
            return np.divide(self.covered, self.sizes)


@dataclass(frozen=True)
class Measured:
    """The quality of one method on one split.

    The interval score is divided by the standard deviation of all targets of the data set. A unit is the time of one
    fit of boosting on the training rows. The p-value is that of the coverage, None if its law is not known. The range
    is max − min of the test targets. Only the protocol ``pcs`` has bins.
    """

    coverage: float
    interval_score: float
    target_deviation: float
    mean_width: float
    seconds: float
    units: float
    thirds: Counts
    spread_classes: Counts
    clusters: Counts
    p_value: float | None = None
    target_range: float = nan
    bins: Counts = Counts((), ())

    @property
    def width_over_range(self) -> float:
        """The mean width divided by the range of the test targets."""
        return self.mean_width / self.target_range

    @classmethod
    def from_json(cls, text: str) -> "Measured":
        """Return what `json.dumps(asdict(...))` wrote."""
        values = json.loads(text)
        return cls(**{name: Counts(**value) if isinstance(value, dict) else value for name, value in values.items()})


@dataclass(frozen=True, eq=False)
class TestRows:
    """Targets of the test rows, and the class of each: thirds and ten classes of the judge's spread, ten clusters.

    If there are published bins, also which rows are in each bin.
    """

    __test__ = False  # not a class of tests, for pytest

    y: Any
    thirds: Any
    spread_classes: Any
    clusters: Any
    target_deviation: float
    bins: Mapping[Bin, Any] = field(default_factory=dict)


def split_rows(data: DataSet, protocol: Protocol, seed: int) -> tuple[Task, DataSet]:
    """Return the task of a split, and its test rows with their targets."""
    training, calibration, test = (data.subset(positions) for positions in protocol.split(len(data.y), seed))
    return Task(training.X, training.y, calibration.X, calibration.y, test.X, protocol.level, seed), test


def judged_rows(task: Task, test: DataSet, target_deviation: float) -> TestRows:
    """Return the test rows in classes of the spread of a quantile forest, the judge, and in clusters of features."""
    judge = QuantileForest(level=_JUDGE_LEVEL, random_state=task.seed + _JUDGE_SEED).fit(task.X_train, task.y_train)
    spread = judge.predict_full(task.X_test).spread
    scaler = StandardScaler().fit(task.X_train)
    clusters = KMeans(_CLUSTERS, n_init=3, random_state=task.seed).fit(scaler.transform(task.X_train))
    return TestRows(
        test.y,
        equal_classes(spread, _THIRDS),
        equal_classes(spread, _CLASSES),
        clusters.predict(scaler.transform(task.X_test)),
        target_deviation,
        test.bins,
    )


def equal_classes(values: Any, n_classes: int) -> Any:
    """Return the class of each value: classes have equal numbers of rows, up to one, in increasing order."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return ranks * n_classes // len(values)


def measure_split(
    data: DataSet,
    protocol: Protocol,
    seed: int,
    methods: Mapping[str, Method],
    folder: Path,
    report: Callable[[str], None],
) -> dict[str, Measured]:
    """Return the results of all methods on a split: from their files or, if there are none, from measurements.

    `report` is called with a line of text before each measurement.
    """
    paths = {name: folder / file_name(data.name, protocol.name, name, seed) for name in methods}
    missing = [name for name, path in paths.items() if not path.exists()]
    if missing:
        report(f"{data.name} judge {seed} ...")
        with threadpool_limits(1):  # so that times and results do not depend on the number of cores and workers
            task, test = split_rows(data, protocol, seed)
            rows = judged_rows(task, test, float(np.std(data.y)))
            for name in missing:
                report(f"{data.name} {name} {seed} ...")
                _store(paths[name], measure(methods[name], task, rows))
    return {name: Measured.from_json(path.read_text(encoding="utf-8")) for name, path in paths.items()}


def file_name(*key: Any) -> str:
    """Return the name of the file of a data set, protocol, method and seed."""
    return "-".join(str(part).replace(" ", "_") for part in key) + ".json"


def _store(path: Path, found: Measured) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(asdict(found)).encode())


def measure(method: Method, task: Task, rows: TestRows) -> Measured:
    """Return the quality of a method on a split."""
    for module in method.modules:
        import_module(module)
    unit = _unit_seconds(task)
    start = perf_counter()
    bounds = method.bounds(task)
    return measured(bounds, task, rows, seconds=perf_counter() - start, unit=unit)


def measured(bounds: Bounds, task: Task, rows: TestRows, *, seconds: float, unit: float) -> Measured:
    """Return the quality of bounds, and the time that they took, also in units of so many seconds."""
    intervals = Intervals(np.asarray(bounds.lower, dtype=float), np.asarray(bounds.upper, dtype=float))
    covers = intervals.covers(rows.y)
    score = interval_score(rows.y, intervals, level=task.level)
    p_value = None if bounds.pools is None else exact_p_value(int(covers.sum()), bounds.pools, task.level)
    return Measured(
        float(covers.mean()),
        float(score / rows.target_deviation),
        rows.target_deviation,
        float(intervals.width.mean()),
        seconds,
        seconds / unit,
        Counts.of(covers, rows.thirds, _THIRDS),
        Counts.of(covers, rows.spread_classes, _CLASSES),
        Counts.of(covers, rows.clusters, _CLUSTERS),
        p_value,
        float(np.ptp(rows.y)),
        Counts.of_bins(covers, list(rows.bins.values())),
    )


def _unit_seconds(task: Task) -> float:
    """Return the median time of three fits of boosting on the training rows."""
    times = []
    for _ in range(_UNIT_FITS):
        start = perf_counter()
        HistGradientBoostingRegressor(random_state=task.seed).fit(task.X_train, task.y_train)
        times.append(perf_counter() - start)
    return median(times)


def exact_p_value(covered: int, pools: Sequence[tuple[int, int]], level: float) -> float:
    """Return the two-sided p-value of a number of covered rows, if calibration and test rows are exchangeable.

    Of m test rows whose threshold is one of n calibration scores, BetaBinomial(m, k, n + 1 − k) rows are covered, where
    k is the conformal rank. The sum over the pools has the convolution of these laws.

    Parameters
    ----------
    covered : int
        Number of covered test rows of all pools.
    pools : sequence of (m, n)
        Numbers of test rows and of calibration rows.
    level : float
        Nominal coverage.
    """
    law = np.ones(1)
    for m, n in pools:
        rank, counts = conformal_rank(n, level), np.arange(m + 1)
        infinite = rank > n  # the threshold is infinite, and all rows are covered
        law = np.convolve(law, counts == m if infinite else betabinom.pmf(counts, m, rank, n + 1 - rank))
    return float(min(1.0, 2 * min(law[: covered + 1].sum(), law[covered:].sum())))


Results = Mapping[str, Sequence[Measured]]  # of one method: by data set, one for each seed


@dataclass(frozen=True)
class RootMeanSquare:
    """Root mean square distance of the coverage of classes from the level, and its standard error.

    If the mean square is not positive once the noise of the test rows is taken off, the root is 0, and two standard
    errors are the root of the mean square plus two of its standard errors.
    """

    root: float
    standard_error: float


@dataclass(frozen=True)
class Summary:
    """The quality of one method over all data sets and splits; of times, geometric mean and maximum over splits."""

    coverage: float
    worst_third: float
    spread_classes: RootMeanSquare
    clusters: RootMeanSquare
    p_value: float | None  # the smallest, Holm-adjusted
    seconds: float
    max_seconds: float
    units: float
    max_units: float


def summary(found: Results, level: float) -> Summary:
    """Return the quality of a method over all data sets and splits."""
    splits = [each for by_seed in found.values() for each in by_seed]
    seconds, units = ([getattr(each, name) for each in splits] for name in ("seconds", "units"))
    return Summary(
        fmean(fmean(each.coverage for each in by_seed) for by_seed in found.values()),
        fmean(worst_third(by_seed) for by_seed in found.values()),
        root_mean_square({name: [each.spread_classes for each in by_seed] for name, by_seed in found.items()}, level),
        root_mean_square({name: [each.clusters for each in by_seed] for name, by_seed in found.items()}, level),
        smallest_p_value(splits),
        geometric_mean(seconds),
        max(seconds),
        geometric_mean(units),
        max(units),
    )


def worst_third(by_seed: Sequence[Measured]) -> float:
    """Return the smallest coverage of the three thirds of one data set, each pooled over the splits."""
    return float(Counts.pooled([each.thirds for each in by_seed]).coverage.min())


def mean_score(by_seed: Sequence[Measured]) -> float:
    """Return the mean interval score over the splits of one data set."""
    return fmean(each.interval_score for each in by_seed)


def binned_result(by_seed: Sequence[Measured]) -> BinnedResult:
    """Return the means over the splits of one data set; the coverage of each bin is pooled over them."""
    return BinnedResult(
        fmean(each.coverage for each in by_seed),
        fmean(each.width_over_range for each in by_seed),
        Counts.pooled([each.bins for each in by_seed]).coverage.tolist(),
    )


def relative_score(found: Results, reference: Results) -> float:
    """Return the geometric mean over data sets of the ratio of two methods' interval scores."""
    return geometric_mean(mean_score(by_seed) / mean_score(reference[name]) for name, by_seed in found.items())


def smallest_p_value(splits: Sequence[Measured]) -> float | None:
    """Return the smallest Holm-adjusted p-value: the smallest one times their number; None if there are none."""
    p_values = [each.p_value for each in splits if each.p_value is not None]
    return min(1.0, len(p_values) * min(p_values)) if p_values else None


def root_mean_square(by_set: Mapping[str, Sequence[Counts]], level: float) -> RootMeanSquare:
    """Return the root mean square distance of the coverage of classes from the level, without noise of the test rows.

    A class of m test rows has the square distance (coverage − level)² − level (1 − level) / m. These are averaged over
    the classes of all splits of a data set, then over data sets. The standard error is that of the jackknife, which
    leaves out one split at a time. NaN if no class has enough rows.

    Parameters
    ----------
    by_set : mapping from name to sequence of Counts
        The classes of each split of each data set.
    level : float
        Nominal coverage.
    """
    splits = [
        (name, squares) for name, counts in by_set.items() for each in counts if (squares := _squares(each, level))
    ]
    if not splits:
        return RootMeanSquare(np.nan, np.nan)
    mean_square = _mean_square(splits)
    left_out = [_mean_square(splits[:i] + splits[i + 1 :]) for i in range(len(splits)) if len(splits) > 1]
    error = float(np.sqrt((len(splits) - 1) * np.var(left_out))) if left_out else np.nan
    if mean_square <= 0:
        return RootMeanSquare(0.0, float(np.sqrt(np.maximum(0.0, mean_square + 2 * error))) / 2)
    root = float(np.sqrt(mean_square))
    return RootMeanSquare(root, error / (2 * root))


def _squares(counts: Counts, level: float) -> list[float]:
    """Return the square distance of the coverage of each class from the level, less the noise of its test rows."""
    sizes = np.array(counts.sizes)
    large = sizes >= MIN_CLASS_ROWS
    squares = (counts.coverage[large] - level) ** 2 - level * (1 - level) / sizes[large]
    return [float(each) for each in squares]


def _mean_square(splits: Sequence[tuple[str, Sequence[float]]]) -> float:
    """Return the mean over data sets of the mean over the classes of their splits."""
    by_set: dict[str, list[float]] = {}
    for name, squares in splits:
        by_set.setdefault(name, []).extend(squares)
    return fmean(fmean(each) for each in by_set.values())
