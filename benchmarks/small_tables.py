"""Compare split conformal regression with the cross-conformal methods on few rows of real tables.

``python -m benchmarks.small_tables`` draws n rows of a table, fits each method on them, and measures its intervals on
up to 1000 other rows. The tables are those of `evencover.datasets`; ``--data-dir`` names a folder that has them. The
level is 0.9. The interval score is the mean of the width plus 20 times the distance of a missed target from its
interval; lower is better. It is given relative to that of split conformal regression on the same rows.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from benchmarks.markdown import row
from benchmarks.tables import with_table
from evencover import ConformalRegressor, CrossConformalRegressor, coverage, interval_score, mean_width
from evencover.datasets import load_dataset

LEVEL, SIZES, TABLES = 0.9, (50, 100, 200, 500), ("concrete", "star", "turbine")
MODELS: Mapping[str, Callable[[], Any]] = {
    "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 7))),
    "tree": lambda: DecisionTreeRegressor(min_samples_leaf=3, random_state=0),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=50, random_state=0),
}
REPEATS = {"ridge": 20, "tree": 20, "boosting": 4}
METHODS: Mapping[str, Callable[[Any, int], Any]] = {
    "split": lambda model, seed: ConformalRegressor(model, random_state=seed),
    "CV+": lambda model, seed: CrossConformalRegressor(model, random_state=seed),
    "jackknife+": lambda model, seed: CrossConformalRegressor(model, method="jackknife+", random_state=seed),
    "after bootstrap": lambda model, seed: CrossConformalRegressor(
        model, method="jackknife+-after-bootstrap", random_state=seed
    ),
}
PAGE_MARKS = ("<!-- small tables: start -->", "<!-- small tables: end -->")
_MAX_JACKKNIFE_ROWS = {"ridge": 200, "tree": 200, "boosting": 50}  # jackknife+ fits a model for each row
_MAX_TEST_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Measured:
    """Interval scores, coverages and mean widths of a method, over repeats. Shape (repeats,) each."""

    interval_score: Any
    coverage: Any
    mean_width: Any


Results = dict[tuple[str, str, int, str], Measured]  # by table, model, number of rows and method


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure everything, print it as Markdown, and return the exit status."""
    options = _options(arguments)
    found: Results = {}
    for key, measured in measurements(options):
        found[key] = measured
        print(_progress(key, found), file=sys.stderr, flush=True)
    lines = summary(found)
    print("\n".join(lines))
    if options.json is not None:
        options.json.write_text(json.dumps(_plain(found), indent=1), encoding="utf-8")
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_table(page, lines, marks=PAGE_MARKS), encoding="utf-8")
    return 0


def measurements(options: Namespace) -> Iterator[tuple[tuple[str, str, int, str], Measured]]:
    """Yield the results of each table, model, number of rows and method."""
    for model in options.models:
        repeats = options.repeats or REPEATS[model]
        for table in options.tables:
            dataset = load_dataset(table, data_dir=options.data_dir)
            for n in options.sizes:
                for method in METHODS:
                    if method != "jackknife+" or n <= _MAX_JACKKNIFE_ROWS[model]:
                        yield (table, model, n, method), measure(dataset.X, dataset.y, model, n, method, repeats)


def measure(X: Any, y: Any, model: str, n: int, method: str, repeats: int) -> Measured:
    """Return the quality of a method that is fitted on n rows. Repeat i has the same rows for every method."""
    values, targets, results = np.asarray(X), np.asarray(y), []
    for repeat in range(repeats):
        order = np.random.default_rng([repeat, n]).permutation(len(targets))
        old, new = order[:n], order[n : n + _MAX_TEST_ROWS]
        regressor = METHODS[method](MODELS[model](), repeat).fit(values[old], targets[old])
        intervals = regressor.predict_interval(values[new], level=LEVEL)
        results.append(
            (
                interval_score(targets[new], intervals, level=LEVEL),
                coverage(targets[new], intervals),
                mean_width(intervals),
            )
        )
    return Measured(*np.array(results, dtype=float).T)


def relative(found: Results, key: tuple[str, str, int, str]) -> tuple[float, float]:
    """Return the interval score divided by that of split conformal regression, and the standard error of the ratio."""
    own, split = found[key].interval_score, found[(*key[:3], "split")].interval_score
    ratio = own.mean() / split.mean()
    error = (own - ratio * split).std(ddof=1) / np.sqrt(len(own)) / split.mean() if len(own) > 1 else np.nan
    return float(ratio), float(error)


def summary(found: Results) -> list[str]:
    """Return the lines of a table: for each model and number of rows, the means over tables."""
    methods = list(METHODS)
    tables = list(dict.fromkeys(table for table, *_ in found))
    cases = list(dict.fromkeys((model, n) for _, model, n, _ in found))
    lines = [row(["model", "rows", *methods]), row(["---"] * (2 + len(methods)))]
    for model, n in cases:
        cells = [_cell(found, [(table, model, n, method) for table in tables]) for method in methods]
        lines.append(row([model, str(n), *cells]))
    return lines


def _cell(found: Results, keys: Sequence[tuple[str, str, int, str]]) -> str:
    """Return the mean relative interval score and the mean coverage over tables."""
    if any(key not in found for key in keys):
        return "–"
    ratio = float(np.exp(np.mean([np.log(relative(found, key)[0]) for key in keys])))
    return f"{ratio:.2f}, {np.mean([found[key].coverage.mean() for key in keys]):.3f}"


def _progress(key: tuple[str, str, int, str], found: Results) -> str:
    """Return the results of one table, model, number of rows and method as a line."""
    ratio, error = relative(found, key)
    covered = found[key].coverage
    return (
        f"{key[0]:10} {key[1]:9} {key[2]:4} {key[3]:16} score {ratio:.3f} ± {error:.3f}, coverage {covered.mean():.3f}"
    )


def _plain(found: Results) -> list[dict[str, Any]]:
    """Return the results as JSON data, with the coverage below which one repeat in ten is."""
    names = ("table", "model", "rows", "method")
    return [
        dict(zip(names, key, strict=True))
        | dict(zip(("relative_score", "error"), relative(found, key), strict=True))
        | {"coverage": each.coverage.mean(), "low_coverage": float(np.quantile(each.coverage, 0.1))}
        | {"mean_width": each.mean_width.mean(), "interval_score": each.interval_score.mean()}
        for key, each in found.items()
    ]


def _options(arguments: Sequence[str] | None) -> Namespace:
    """Return the parsed options."""
    parser = ArgumentParser(prog="python -m benchmarks.small_tables", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", nargs="+", default=TABLES, help=f"data sets (default: {', '.join(TABLES)})")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), help="models (default: all)")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="numbers of rows")
    parser.add_argument("--repeats", type=int, help="random draws of rows (default: 20; 4 for boosting)")
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    parser.add_argument("--page", type=Path, help="a page that gets the table too, such as docs/howto/small_data.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
