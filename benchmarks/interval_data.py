"""The data of the benchmark of intervals: CSV files of a folder, splits of their rows, and published results."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

SUBFOLDER, PUBLISHED_FILE = "clear", "published.csv"
PCS_SUBFOLDER, BINS_ENDING, PUBLISHED_BINS_FILE = "pcs", "_bins.csv", "published_bins.csv"
PCS_OOB = "pcs_oob"
PCS_METHODS = (PCS_OOB, "pcs_uq", "majority_vote", "split_conformal", "studentized_conformal")
MIN_ROWS, MIN_BIN_ROWS = 100, 100
_ROUNDING = 1e-3  # largest difference of the sorted targets of duplicates, in standard deviations of the target
_PUBLISHED_FIRST_SEED = 777
_PCS_TRAINING_ROWS = 5000

Bin = tuple[str, int]  # a feature, and the number of one of its bins


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features of shape (n, d), targets of shape (n,) and, by bin, whether each row is in it, of shape (n,)."""

    name: str
    X: Any
    y: Any
    bins: Mapping[Bin, Any] = field(default_factory=dict)

    def subset(self, positions: Any) -> "DataSet":
        """Return the rows at these positions."""
        bins = {key: rows[positions] for key, rows in self.bins.items()}
        return DataSet(self.name, self.X[positions], self.y[positions], bins)


@dataclass(frozen=True)
class Protocol:
    """How methods are compared: the level, the default number of seeds, and the split of n rows with a seed.

    The split is three arrays of positions: training, calibration and test rows.
    """

    name: str
    level: float
    seeds: int
    split: Callable[[int, int], Sequence[Any]]


def even_split(n: int, seed: int) -> Sequence[Any]:
    """Return a random permutation of n positions in three parts: 40 % training, 40 % calibration, 20 % test rows."""
    return np.split(np.random.default_rng(seed).permutation(n), [round(0.4 * n), round(0.8 * n)])


def published_split(n: int, seed: int) -> Sequence[Any]:
    """Return the split of the published scores: 60 % training, 20 % calibration, 20 % test rows; seed 777 + seed."""
    random_state = _PUBLISHED_FIRST_SEED + seed
    rest, test = train_test_split(np.arange(n), test_size=0.2, random_state=random_state)
    training, calibration = train_test_split(rest, test_size=0.25, random_state=random_state)
    return training, calibration, test


def pcs_split(n: int, seed: int) -> Sequence[Any]:
    """Return the split of PCS_UQ: of 80 % of the rows the first 5000, no calibration rows, 20 %; seed 777 + seed.

    The training rows are for the calibration, too: each method divides them itself.
    """
    training, test = train_test_split(np.arange(n), train_size=0.8, random_state=_PUBLISHED_FIRST_SEED + seed)
    return training[:_PCS_TRAINING_ROWS], training[:0], test


EVEN = Protocol("even", 0.9, 5, even_split)
PUBLISHED = Protocol("published", 0.95, 10, published_split)
PCS = Protocol("pcs", 0.9, 10, pcs_split)
PROTOCOLS = {protocol.name: protocol for protocol in (EVEN, PUBLISHED, PCS)}


def csv_files(folder: Path) -> list[Path]:
    """Return the CSV files of a folder, then those of its subfolder ``clear``; raise ValueError if there are none."""
    if not folder.is_dir():
        raise ValueError(f"no folder {folder}")
    paths = [*sorted(folder.glob("*.csv")), *sorted((folder / SUBFOLDER).glob("*.csv"))]
    found = [path for path in paths if path.name != PUBLISHED_FILE]
    if not found:
        raise ValueError(f"no CSV files in {folder}")
    return found


def read_folder(folder: Path, names: Sequence[str] = ()) -> list[DataSet]:
    """Return the data sets of a folder without duplicates, in the order of their names.

    Parameters
    ----------
    folder : Path
        The folder.
    names : sequence of str
        Names of files without ``.csv``; by default all. Other files are not read.
    """
    paths = csv_files(folder)
    known = {path.stem for path in paths}
    _check_names(names, known)
    kept = without_duplicates([read_table(path) for path in paths if path.stem in (names or known)])
    found = [data.name for data in kept]
    if same := sorted({name for name in found if found.count(name) > 1}):
        raise ValueError(f"different data sets have the same name: {', '.join(same)}")
    return sorted(kept, key=lambda data: data.name.casefold())


def _check_names(names: Sequence[str], known: Iterable[str]) -> None:
    """Raise ValueError if a name is none of the known ones."""
    if unknown := sorted(set(names) - set(known)):
        all_known = ", ".join(sorted(known, key=str.casefold))
        raise ValueError(f"no data set named {', '.join(unknown)}; the data sets are: {all_known}")


def read_table(path: Path) -> DataSet:
    """Return the table of a CSV file with a header; its last column is the target. Raise ValueError if it is unfit."""
    try:
        values = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path}: all cells below the header must be numbers: {error}") from None
    if len(values) < MIN_ROWS or values.shape[1] < 2:
        raise ValueError(
            f"{path}: needs at least {MIN_ROWS} rows and 2 columns; got {len(values)} rows, {values.shape[1]} columns"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{path}: all numbers must be finite")
    if np.ptp(values[:, -1]) == 0:
        raise ValueError(f"{path}: the target, which is the last column, has only one value")
    return DataSet(path.stem, values[:, :-1], values[:, -1])


def without_duplicates(found: Sequence[DataSet]) -> list[DataSet]:
    """Return the data sets that no later one equals."""
    return [data for i, data in enumerate(found) if not any(_is_duplicate(data, each) for each in found[i + 1 :])]


def _is_duplicate(one: DataSet, other: DataSet) -> bool:
    """Return whether two data sets have the same shape and, in some order and up to rounding, the same targets.

    The targets of one file may be rounded, such as to two digits. Samples of the same distribution differ by more.
    """
    if one.X.shape != other.X.shape:
        return False
    difference = np.abs(np.sort(one.y) - np.sort(other.y)).max()
    return bool(difference <= _ROUNDING * np.std(one.y))


def published_scores(folder: Path, seeds: int) -> dict[str, dict[tuple[str, str], float]]:
    """Return the mean published interval score by data set, and by method and variant, over the first seeds.

    Only methods and variants that have a score for each of these seeds are included.
    """
    path = folder / SUBFOLDER / PUBLISHED_FILE
    if not path.exists():
        raise ValueError(f"no file {path}, which the protocol 'published' needs")
    with path.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if int(line["seed"]) < seeds]
    scores: dict[str, dict[tuple[str, str], list[float]]] = {}
    for line in lines:
        by_method = scores.setdefault(line["set"], {})
        by_method.setdefault((line["method"], line["variant"]), []).append(float(line["interval_score"]))
    return {
        name: {key: fmean(each) for key, each in by_method.items() if len(each) == seeds}
        for name, by_method in scores.items()
    }


def with_published(found: Iterable[DataSet], scores: Mapping[str, Mapping[tuple[str, str], float]]) -> list[DataSet]:
    """Return the data sets that have published scores of all variants; raise ValueError if there are none."""
    needed = {(method, variant) for method in ("clear", "cqr") for variant in "abc"}
    kept = [data for data in found if needed <= set(scores.get(data.name, {}))]
    if not kept:
        raise ValueError(f"{PUBLISHED_FILE} has no scores of these data sets for all seeds")
    return kept


def read_binned(folder: Path, names: Sequence[str] = ()) -> list[DataSet]:
    """Return the data sets that have a file of bins in the subfolder ``pcs``, in the order of their names.

    The table of a data set is in the same subfolder or, if it is not there, in the subfolder ``clear``.

    Parameters
    ----------
    folder : Path
        The folder.
    names : sequence of str
        Names of data sets; by default all. Other files are not read.
    """
    found = (folder / PCS_SUBFOLDER).glob(f"*{BINS_ENDING}")
    paths = {path.name.removesuffix(BINS_ENDING): path for path in found if path.name != PUBLISHED_BINS_FILE}
    if not paths:
        raise ValueError(f"no files NAME{BINS_ENDING} in {folder / PCS_SUBFOLDER}, which the protocol 'pcs' needs")
    _check_names(names, paths)
    return [_binned(folder, name, paths[name]) for name in sorted(set(names or paths), key=str.casefold)]


def _binned(folder: Path, name: str, bins_path: Path) -> DataSet:
    """Return the data set with this name and its bins."""
    paths = [folder / subfolder / f"{name}.csv" for subfolder in (PCS_SUBFOLDER, SUBFOLDER)]
    existing = [path for path in paths if path.exists()]
    if not existing:
        raise ValueError(f"no file {paths[0]} or {paths[1]}")
    data = read_table(existing[0])
    return DataSet(name, data.X, data.y, read_bins(bins_path, len(data.y)))


def read_bins(path: Path, n_rows: int) -> dict[Bin, Any]:
    """Return which rows are in each bin with 100 rows or more, as booleans of shape (n_rows,).

    The file has a column for each feature, and the number of its bin in each row. Raise ValueError if it is unfit.
    """
    with path.open(encoding="utf-8", newline="") as file:
        features = next(csv.reader(file), [])
    try:
        numbers = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2, dtype=int)
    except ValueError as error:
        raise ValueError(f"{path}: all cells below the header must be whole numbers: {error}") from None
    if numbers.shape != (n_rows, len(features)):
        raise ValueError(
            f"{path}: needs as many rows as the data set, {n_rows}, and as many columns as the header, "
            f"{len(features)}; got {len(numbers)} rows, {numbers.shape[1]} columns"
        )
    bins = {
        (feature, int(number)): column == number
        for feature, column in zip(features, numbers.T, strict=True)
        for number in np.unique(column)
    }
    return {key: rows for key, rows in bins.items() if rows.sum() >= MIN_BIN_ROWS}


@dataclass(frozen=True)
class BinnedResult:
    """Coverage, width divided by max − min of the test targets, and coverage of each bin: means over the seeds.

    The bins are in the order of those of the data set. The model is that of a published method with several models.
    """

    coverage: float
    width_over_range: float
    bins: Sequence[float]
    model: str = ""

    def root_mean_square(self, level: float) -> float:
        """Return the root mean square distance of the coverage of the bins from the level."""
        return float(np.sqrt(np.mean((np.array(self.bins) - level) ** 2)))

    @property
    def worst_bin(self) -> float:
        """The smallest coverage of the bins."""
        return float(np.min(self.bins))


def published_results(folder: Path, found: Iterable[DataSet]) -> dict[str, dict[str, BinnedResult]]:
    """Return the published results by data set and method; of several models, those of the narrowest.

    Raise ValueError if there are none of a method for a data set, or for one of its bins.
    """
    lines = _lines(folder / PCS_SUBFOLDER / PUBLISHED_FILE)
    bins: dict[tuple[str, ...], dict[Bin, float]] = {}
    for line in _lines(folder / PCS_SUBFOLDER / PUBLISHED_BINS_FILE):
        bins.setdefault(_result_key(line), {})[line["feature"], int(line["bin"])] = float(line["coverage"])
    return {data.name: {method: _narrowest(lines, bins, data, method) for method in PCS_METHODS} for data in found}


def _narrowest(
    lines: Iterable[Mapping[str, str]], bins: Mapping[tuple[str, ...], Mapping[Bin, float]], data: DataSet, method: str
) -> BinnedResult:
    """Return the result of the model of a method that is the narrowest on a data set."""
    models = [line for line in lines if (line["set"], line["method"]) == (data.name, method)]
    if not models:
        raise ValueError(f"{PUBLISHED_FILE} has no results of {method} for {data.name}")
    line = min(models, key=lambda each: float(each["width_over_range"]))
    coverage = bins.get(_result_key(line), {})
    if missing := [f"{feature} {number}" for feature, number in data.bins if (feature, number) not in coverage]:
        label = " ".join(filter(None, (method, line["model"])))
        raise ValueError(f"{PUBLISHED_BINS_FILE} has no coverage of {label} for {data.name} in: {', '.join(missing)}")
    in_order = [coverage[key] for key in data.bins]
    return BinnedResult(float(line["coverage"]), float(line["width_over_range"]), in_order, line["model"])


def _result_key(line: Mapping[str, str]) -> tuple[str, ...]:
    return line["set"], line["method"], line["model"]


def _lines(path: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV file with published results."""
    if not path.exists():
        raise ValueError(f"no file {path}, which the protocol 'pcs' needs")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
