"""Measure interval scores on three tables: ``python -m benchmarks.interval_scores --data-dir DIR``.

DIR has the file crime2.csv and a folder clear with insurance.csv, sulfur.csv and, if available, published.csv: scores
that others published for the same splits. The target is the last column of each table. Seed i is 777 + i. With it,
`train_test_split` takes 20 % of the rows for testing, and then 25 % of the others for calibration. The level is 0.95.
The interval score is the mean of the width plus 40 times the distance of a missed target from its interval. Lower is
better.

The output folder has one JSON file for each table, predictor and seed. What has such a file is not measured again, so
an interrupted benchmark continues where it stopped. Delete the folder after a change of the code.
"""

import csv
import json
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from benchmarks.machine import machine
from benchmarks.markdown import print_row, row
from benchmarks.tables import with_table
from evencover import (
    ConformalRegressor,
    IntervalDistance,
    Normalized,
    Prediction,
    ProbabilityDistance,
    Residual,
    Support,
    coverage,
    interval_score,
    mean_width,
    recommend,
)
from evencover._internal.saved_files import atomic_write
from evencover.diagnostics.recommendations import _narrowest_even
from evencover.models import QuantileForest
from evencover.studies import Plan

LEVEL, SEEDS, FIRST_SEED = 0.95, 10, 777
FILES = {"insurance": "clear/insurance.csv", "sulfur": "clear/sulfur.csv", "crime2": "crime2.csv"}
PUBLISHED_FILE, PUBLISHED_METHODS = "clear/published.csv", {"cqr": "CQR", "clear": "CLEAR"}
PAGE_MARKS = ("<!-- interval scores: start -->", "<!-- interval scores: end -->")
COLUMNS = ("table", "predictor", "interval score", "relative", "coverage", "mean width", "seconds")
_PACKAGES = ("numpy", "scikit-learn", "quantile-forest", "evencover")
_SYMMETRIC_SCORES = (Residual, IntervalDistance, Normalized)
_FLOOR = 0.01  # lower limit of the spread, for rows whose quantiles are all equal


@dataclass(frozen=True)
class Measured:
    """The quality of one predictor on one split, or a mean over splits."""

    interval_score: float
    coverage: float
    mean_width: float
    seconds: float | None = None  # from the rows to the intervals; None if published by others


@dataclass(frozen=True, eq=False)
class Training:
    """The training rows of a split, the numbers of calibration and test rows, and the seed."""

    X: Any
    y: Any
    calibration_rows: int
    test_rows: int
    seed: int

    def boosting(self) -> Any:
        """Return the model that `evencover run` uses by default, not yet fitted."""
        return Plan(level=LEVEL, seed=self.seed).estimator()

    def recommended(self, model: Any, **settings: Any) -> ConformalRegressor:
        """Return the fitted model with the score and groups that `recommend` chooses."""
        rows = {"calibration_rows": self.calibration_rows, "test_rows": self.test_rows}
        return recommend(model, self.X, self.y, level=LEVEL, seed=self.seed, **rows, **settings)

    def fitted(self, model: Any, score: Any) -> ConformalRegressor:
        """Return the fitted model with one score and one threshold."""
        return ConformalRegressor(FrozenEstimator(model.fit(self.X, self.y)), nonconformity=score)

    def with_probability(self, model: Any) -> ConformalRegressor:
        """Return the fitted model with the distance in probability."""
        regressor = self.fitted(model, None)
        scale = float(np.median(model.predict_full(self.X).spread))
        return regressor.set_params(nonconformity=ProbabilityDistance(floor=_FLOOR, scale=scale))


class CenterAndSpread(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A model that predicts the center and the spread of another one, but none of its quantiles."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> "CenterAndSpread":
        """Fit a copy of the other model."""
        self.estimator_ = clone(self.estimator).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        """Return the center."""
        return self.estimator_.predict(X)

    def predict_full(self, X: Any) -> Prediction:
        """Return center and spread."""
        full = self.estimator_.predict_full(X)
        return Prediction(full.center, full.spread, level=full.level)


def symmetric_default(training: Training) -> ConformalRegressor:
    """Return the default as it was without quantiles: the best of three scores, for boosting with a spread."""
    model = CenterAndSpread(training.boosting())
    regressor = training.recommended(model, tails="joint", target_transform="none")
    candidates = regressor.recommendation_.candidates
    best = _narrowest_even([each for each in candidates if isinstance(each.nonconformity, _SYMMETRIC_SCORES)])
    return regressor.set_params(nonconformity=best.nonconformity, taxonomy=best.taxonomy)


def _forest(training: Training) -> QuantileForest:
    return QuantileForest(level=LEVEL, random_state=training.seed)


PREDICTORS: Mapping[str, Callable[[Training], ConformalRegressor]] = {
    "default without quantiles": symmetric_default,
    "default": lambda training: training.recommended(training.boosting(), support=Support.of_targets(training.y)),
    "boosting, `ProbabilityDistance`": lambda training: training.with_probability(training.boosting()),
    "`QuantileForest`, `ProbabilityDistance`": lambda training: training.with_probability(_forest(training)),
    "`QuantileForest`, `IntervalDistance` (CQR)": lambda training: training.fitted(
        _forest(training), IntervalDistance()
    ),
}


def main(
    arguments: Sequence[str] | None = None,
    *,
    predictors: Mapping[str, Callable[[Training], ConformalRegressor]] = PREDICTORS,
) -> int:
    """Measure what has no file yet, print all of it as Markdown, and return the exit status."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    splits = "One split" if options.seeds == 1 else f"Means over {options.seeds} splits"
    lines = [f"{splits}. {machine(_PACKAGES)}.", "", row(COLUMNS), row(["---"] * len(COLUMNS))]
    print("\n".join(lines), flush=True)
    for cells in table_rows(options, predictors):
        print_row(*cells)
        lines.append(row(cells))
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_table(page, lines, marks=PAGE_MARKS), encoding="utf-8")
    return 0


def table_rows(
    options: Namespace, predictors: Mapping[str, Callable[[Training], ConformalRegressor]]
) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row: for each table the predictors, then the published scores."""
    for name in options.names or FILES:
        X, y = read_table(options.data_dir / FILES[name])
        reference = None
        for predictor, make in predictors.items():
            average = _mean([_stored(options.output, (name, predictor, seed), make, X, y) for seed in _seeds(options)])
            reference = reference or average.interval_score
            yield _cells(name, predictor, average, reference)
        for predictor, average in published(options.data_dir / PUBLISHED_FILE, name, options.seeds):
            yield _cells(name, predictor, average, reference or np.nan)


def _seeds(options: Namespace) -> range:
    return range(FIRST_SEED, FIRST_SEED + options.seeds)


def measure(make: Callable[[Training], ConformalRegressor], X: Any, y: Any, seed: int) -> Measured:
    """Return the quality of a predictor on the split of a seed."""
    X_rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    X_train, X_cal, y_train, y_cal = train_test_split(X_rest, y_rest, test_size=0.25, random_state=seed)
    start = perf_counter()
    regressor = make(Training(X_train, y_train, len(y_cal), len(y_test), seed))
    intervals = regressor.calibrate(X_cal, y_cal).predict_interval(X_test, level=LEVEL)
    seconds = perf_counter() - start
    return Measured(
        interval_score(y_test, intervals, level=LEVEL),
        float(coverage(y_test, intervals)),
        float(mean_width(intervals)),
        seconds,
    )


def read_table(path: Path) -> tuple[Any, Any]:
    """Return the features and the targets, which are the last column."""
    values = np.loadtxt(path, delimiter=",", skiprows=1)
    return values[:, :-1], values[:, -1]


def published(path: Path, name: str, seeds: int) -> Iterator[tuple[str, Measured]]:
    """Yield the published means of a table over the first seeds, by method and variant; nothing without the file."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["set"] == name and int(line["seed"]) < seeds]
    for method, title in PUBLISHED_METHODS.items():
        for variant in sorted({line["variant"] for line in lines}):
            own = [line for line in lines if (line["method"], line["variant"]) == (method, variant)]
            if own:
                numbers = [[float(line[key]) for key in ("interval_score", "coverage", "mean_width")] for line in own]
                yield f"{title} (published, variant {variant})", _mean([Measured(*each) for each in numbers])


def _stored(
    folder: Path, key: tuple[str, str, int], make: Callable[[Training], ConformalRegressor], X: Any, y: Any
) -> Measured:
    """Return the result of a table, predictor and seed from its file, or measure and store it."""
    path = folder / ("-".join(re.findall(r"\w+", " ".join(map(str, key)))) + ".json")
    if not path.exists():
        print(f"{path.stem} ...", file=sys.stderr, flush=True)
        text = json.dumps(asdict(measure(make, X, y, key[-1])))
        with atomic_write(path) as file:
            file.write(text.encode())
    return Measured(**json.loads(path.read_text(encoding="utf-8")))


def _mean(found: Sequence[Measured]) -> Measured:
    """Return the means over splits."""
    seconds = None if found[0].seconds is None else mean(each.seconds or 0.0 for each in found)
    columns = ("interval_score", "coverage", "mean_width")
    return Measured(*(mean(getattr(each, column) for each in found) for column in columns), seconds)


def _cells(name: str, predictor: str, found: Measured, reference: float) -> tuple[str, ...]:
    """Return the cells of a row; the reference is the interval score of the first predictor."""
    return (
        name,
        predictor,
        _number(found.interval_score),
        f"{found.interval_score / reference:.2f}",
        f"{found.coverage:.3f}",
        _number(found.mean_width),
        "" if found.seconds is None else f"{found.seconds:.1f}",
    )


def _number(value: float) -> str:
    """Return a number with about three digits, and spaces between the thousands."""
    return f"{value:,.0f}".replace(",", " ") if value >= 1000 else f"{value:.3g}"


def _options(arguments: Sequence[str] | None) -> Namespace:
    """Return the parsed options; exit with an error if a file is missing."""
    parser = ArgumentParser(prog="python -m benchmarks.interval_scores", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"tables; by default all: {', '.join(FILES)}")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"number of splits (default: {SEEDS})")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/interval_scores"),
        help="folder for results (default: build/interval_scores)",
    )
    parser.add_argument("--page", type=Path, help="a page that gets the table too, such as docs/benchmarks.md")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(FILES)):
        parser.error(f"NAME must be one of {', '.join(FILES)}; got {', '.join(unknown)}")
    if options.seeds < 1:
        parser.error(f"--seeds must be 1 or more; got {options.seeds}")
    missing = [path for name in options.names or FILES if not (path := options.data_dir / FILES[name]).exists()]
    if missing:
        parser.error(f"--data-dir must have the files {', '.join(FILES.values())}; missing: {missing[0]}")
    return options


if __name__ == "__main__":
    sys.exit(main())
