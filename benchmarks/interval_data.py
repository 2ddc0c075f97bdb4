"""The data of the benchmark of intervals: CSV files of a folder, splits of their rows, and published scores."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

SUBFOLDER, PUBLISHED_FILE = "clear", "published.csv"
MIN_ROWS = 100
_ROUNDING = 1e-3  # largest difference of the sorted targets of duplicates, in standard deviations of the target
_PUBLISHED_FIRST_SEED = 777


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features of shape (n, d) and targets of shape (n,)."""

    name: str
    X: Any
    y: Any


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


EVEN = Protocol("even", 0.9, 5, even_split)
PUBLISHED = Protocol("published", 0.95, 10, published_split)
PROTOCOLS = {protocol.name: protocol for protocol in (EVEN, PUBLISHED)}


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
    known = sorted({path.stem for path in paths}, key=str.casefold)
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(f"no data set named {', '.join(unknown)}; the data sets are: {', '.join(known)}")
    kept = without_duplicates([read_table(path) for path in paths if path.stem in (names or known)])
    found = [data.name for data in kept]
    if same := sorted({name for name in found if found.count(name) > 1}):
        raise ValueError(f"different data sets have the same name: {', '.join(same)}")
    return sorted(kept, key=lambda data: data.name.casefold())


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
