"""Compare models, scores and groups on small tables: ``python -m benchmarks.small_table_models --data-dir DIR``.

DIR has the files of the six named data sets. Of each of them, and of synthetic data whose noise varies, 50, 100 or 200
random rows are the table, and up to 200 others test its intervals. Small tables of packages in `requirements-bench.txt`
are tested by five folds of cross-validation; they are left out if the package is not installed. The level is 0.9. The
interval score is the mean of the width plus 20 times the distance of a missed target from its interval.

The output folder has one JSON file for each table, number of rows, predictor and repetition. What has such a file is
not measured again. Delete the folder after a change of the code.
"""

import json
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, geometric_mean
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, train_test_split

from benchmarks.machine import machine
from benchmarks.markdown import print_row, row
from benchmarks.table_sources import TABLES, read_frame
from benchmarks.tables import with_table
from evencover import (
    BySpread,
    CrossConformalRegressor,
    Marginal,
    Normalized,
    ProbabilityDistance,
    Residual,
    interval_score,
    recommend,
)
from evencover.datasets import cards, load_dataset
from evencover.files.archive import atomic_write
from evencover.studies import Plan
from evencover.studies.table_preparation import ColumnRoles, prepare_table
from evencover.synthetic import heteroskedastic

LEVEL, SEEDS, SIZES, TEST_ROWS, FOLDS = 0.9, 2, (50, 100, 200), 200, 5
SMALL = ("mtcars", "statecrime", "cars93", "baboon", "macrodata", "meats", "grunfeld", "hitters")
ROLES: Mapping[str, Mapping[str, Sequence[str]]] = {  # two columns determine the target, one is a number or 'rotary'
    "cars93": {"drop": ("Min.Price", "Max.Price"), "categorical": ("Cylinders",)}
}
PAGE_MARKS = ("<!-- small table models: start -->", "<!-- small table models: end -->")
COLUMNS = (
    "rows",
    "tables",
    "predictor",
    "relative score",
    "worst table",
    "coverage",
    "least third",
    "seconds",
)
_PACKAGES = ("numpy", "scikit-learn", "evencover")

Predictor = Callable[[Any, Any], Any]  # from features and targets to a calibrated model


@dataclass(frozen=True)
class Measured:
    """The quality of one predictor on test rows: means, and the coverage by thirds of the predicted spread."""

    interval_score: float
    coverage: float
    thirds: Sequence[float]
    seconds: float


def _split(model: str) -> Predictor:
    """Return a predictor of which half of the rows train the model, and half calibrate it."""

    def fitted(X: Any, y: Any) -> Any:
        X_train, X_cal, y_train, y_cal = train_test_split(X, y, test_size=0.5, random_state=0)
        model_ = Plan(model=model).estimator()
        return recommend(model_, X_train, y_train, calibration_rows=len(y_cal)).calibrate(X_cal, y_cal)

    return fitted


def _cross(model: str, score: Any, taxonomy: Any) -> Predictor:
    """Return CV+ with ten folds."""
    return lambda X, y: CrossConformalRegressor(
        Plan(model=model).estimator(), nonconformity=score, taxonomy=taxonomy, random_state=0
    ).fit(X, y)


PREDICTORS: Mapping[str, Predictor] = {
    "split, boosting": _split("boosting"),
    "split, best-of-three": _split("best-of-three"),
    "CV+, boosting, `ProbabilityDistance`": _cross("boosting", ProbabilityDistance(), Marginal()),
    "CV+, best-of-three, `Residual`": _cross("best-of-three", Residual(), Marginal()),
    "CV+, best-of-three, `Normalized`": _cross("best-of-three", Normalized(), Marginal()),
    "CV+, best-of-three, `ProbabilityDistance`": _cross("best-of-three", ProbabilityDistance(), Marginal()),
    "the same, two groups of the spread": _cross("best-of-three", ProbabilityDistance(), BySpread(2)),
}


def main(arguments: Sequence[str] | None = None, *, predictors: Mapping[str, Predictor] = PREDICTORS) -> int:
    """Measure what has no file yet, print means over the tables as Markdown, and return the exit status."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    lines = [f"{machine(_PACKAGES)}.", "", row(COLUMNS), row(["---"] * len(COLUMNS))]
    print("\n".join(lines), flush=True)
    for cells in table_rows(_tables(options), options, predictors):
        print_row(*cells)
        lines.append(row(cells))
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_table(page, lines, marks=PAGE_MARKS), encoding="utf-8")
    return 0


def table_rows(
    tables: Mapping[str, tuple[Any, Any]], options: Namespace, predictors: Mapping[str, Predictor]
) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row: for each number of rows the predictors, compared with the first of them."""
    for title, sizes in {**{str(n): {n} for n in options.sizes}, "32 to 263": {None}}.items():
        names = [(name, n) for n in sizes for name in tables if (n is None) == (name in SMALL)]
        if not names:
            continue
        found: dict[str, list[Measured]] = {
            predictor: [_stored(options, (name, n, predictor), tables[name], make) for name, n in names]
            for predictor, make in predictors.items()
        }
        reference = [each.interval_score for each in next(iter(found.values()))]
        for predictor, measured in found.items():
            yield (title, str(len(names)), predictor, *_summary(measured, reference))


def _summary(measured: Sequence[Measured], reference: Sequence[float]) -> tuple[str, ...]:
    """Return means over tables; interval scores are relative to those of another predictor on the same tables."""
    relative = [each.interval_score / other for each, other in zip(measured, reference, strict=True)]
    return (
        f"{geometric_mean(relative):.2f}",
        f"{max(relative):.2f}",
        f"{fmean(each.coverage for each in measured):.3f}",
        f"{fmean(min(each.thirds) for each in measured):.3f}",
        f"{fmean(each.seconds for each in measured):.1f}",
    )


def measure(make: Predictor, X: Any, y: Any, splits: Sequence[tuple[Any, Any]]) -> Measured:
    """Return the quality of a predictor, over all test rows of these splits."""
    scores, covered, thirds, seconds = [], [], [], 0.0
    for training, test in splits:
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make(X[training], y[training])
            rows = model.rows(X[test], y[test])
            intervals = model.predict_interval(rows, level=LEVEL)
        seconds += perf_counter() - start
        rank = np.argsort(np.argsort(rows.prediction.spread, kind="stable"), kind="stable")
        scores.append(interval_score(y[test], intervals, level=LEVEL))
        covered.append(intervals.covers(y[test]))
        thirds.append(rank * 3 // len(test))
    hits, third = np.concatenate(covered), np.concatenate(thirds)
    by_third = [float(hits[third == number].mean()) for number in range(3)]
    return Measured(fmean(scores), float(hits.mean()), by_third, seconds / len(splits))


def _splits(n: int, size: int | None, seeds: int) -> list[tuple[Any, Any]]:
    """Return positions of the table and of the test rows: folds, or random rows and up to 200 others."""
    if size is None:
        return list(KFold(FOLDS, shuffle=True, random_state=0).split(np.arange(n)))
    orders = [np.random.default_rng([size, seed]).permutation(n) for seed in range(seeds)]
    return [(order[:size], order[size : size + TEST_ROWS]) for order in orders]


def _stored(options: Namespace, key: tuple[str, int | None, str], table: tuple[Any, Any], make: Predictor) -> Measured:
    """Return a result from its file, or measure and store it."""
    name = "-".join("".join(c if c.isalnum() else " " for c in " ".join(map(str, key))).split())
    path = options.output / f"{name}.json"
    if not path.exists():
        print(f"{path.stem} ...", file=sys.stderr, flush=True)
        found = measure(make, *table, _splits(len(table[1]), key[1], options.seeds))
        with atomic_write(path) as file:
            file.write(json.dumps(asdict(found)).encode())
    return Measured(**json.loads(path.read_text(encoding="utf-8")))


def _tables(options: Namespace) -> dict[str, tuple[Any, Any]]:
    """Return features as numbers, and targets, by name."""
    tables = {}
    for name in cards():
        dataset = load_dataset(name, data_dir=options.data_dir)
        tables[name] = dataset.X, dataset.y
    sample = heteroskedastic(2000, seed=0)
    tables["heteroskedastic"] = sample.X, sample.y
    for table in TABLES:
        if table.name in SMALL and find_spec(table.package) is not None:
            frame = read_frame(table).dropna(subset=[table.target])
            roles = ColumnRoles(target=table.target, **ROLES.get(table.name, {}))
            prepared = prepare_table(frame, roles)
            tables[table.name] = np.asarray(prepared.encoder.fit_transform(prepared.features)), prepared.y
    return tables


def _options(arguments: Sequence[str] | None) -> Namespace:
    """Return the parsed options."""
    parser = ArgumentParser(
        prog="python -m benchmarks.small_table_models", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--data-dir", type=Path, help="folder of the named data sets; by default the cache")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of rows")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"number of random tables (default: {SEEDS})")
    parser.add_argument("--output", type=Path, default=Path("build/small_table_models"), help="folder for results")
    parser.add_argument("--page", type=Path, help="a page that gets the table too, such as docs/benchmarks.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
