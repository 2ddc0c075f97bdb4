"""Measure how often a study warns of later rows or new units although the order of the rows and the ids mean nothing.

``python -m benchmarks.other_rows`` studies tables with dates and ids that are drawn at random: synthetic tables with
new rows each time, and the real tables of `evencover.datasets` with new dates and ids. Such a table has nothing that
changes with time, or from unit to unit, so every warning is wrong. ``--data-dir`` names the folder of the real tables,
and ``--model default`` takes the default model of a study instead of a linear one.
"""

import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from benchmarks.markdown import row
from evencover import Plan, study
from evencover.datasets import load_dataset
from evencover.models import NeighborSpread, WithSpread
from evencover.synthetic import heteroskedastic

SIZES, TABLES = (200, 500, 2000), ("concrete", "star", "crime2")


@dataclass(frozen=True)
class Warned:
    """Numbers of tables: all, those with a wrong warning of later rows or of new units, those with a running order."""

    tables: int = 0
    later: int = 0
    new: int = 0
    running_order: int = 0

    def __add__(self, other: "Warned") -> "Warned":
        return Warned(
            self.tables + other.tables,
            self.later + other.later,
            self.new + other.new,
            self.running_order + other.running_order,
        )


def with_meaningless_columns(table: Any, seed: int) -> Any:
    """Return a table with a date and an id in each row, drawn at random.

    The dates span between half a year and ten years, and ids have about eight rows each.
    """
    rng, n = np.random.default_rng([seed, 1]), len(table)
    span = 365 * np.exp(rng.uniform(np.log(0.5), np.log(10)))
    days = np.datetime64("2015-01-01") + rng.integers(0, int(span), size=n).astype("timedelta64[D]")
    return table.assign(sold=days, customer_id=rng.integers(0, max(26, n // 8), size=n))


def warned(table: Any, target: str, seed: int, plan: Plan) -> Warned:
    """Return whether a study of the table warns wrongly: with dates and ids at random, and without any."""
    plan = replace(plan, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = study(with_meaningless_columns(table, seed), target, plan=plan).other_rows
        neither = study(table, target, plan=plan).other_rows
    failing = {each.question for each in both if each.shown.fails}
    return Warned(1, "later" in failing, "new" in failing, bool(neither))


def synthetic_table(n: int, seed: int) -> Any:
    """Return independent rows with noise that depends on a feature."""
    sample = heteroskedastic(n, seed=seed)
    columns = {f"x{number}": values for number, values in enumerate(np.asarray(sample.X).T)}
    return pd.DataFrame({**columns, "y": sample.y})


def shuffled_table(name: str, seed: int, data_dir: Path | None) -> tuple[Any, str]:
    """Return the rows of a data set in random order, and the name of its target."""
    found = load_dataset(name, data_dir=data_dir)
    table = pd.DataFrame(np.asarray(found.X), columns=[f"x{number}" for number in range(np.asarray(found.X).shape[1])])
    return table.assign(y=found.y).sample(frac=1, random_state=seed, ignore_index=True), "y"


def measurements(options: Namespace) -> Iterator[tuple[str, Warned]]:
    """Yield the numbers for each kind of tables."""
    linear = WithSpread(LinearRegression(), NeighborSpread(), random_state=0)
    plan = Plan(model=linear) if options.model == "linear" else Plan()
    for n in options.sizes:
        tables = (synthetic_table(n, seed) for seed in range(options.repeats))
        yield f"synthetic, {n} rows", sum((warned(each, "y", i, plan) for i, each in enumerate(tables)), Warned())
    for name in options.tables:
        tables = (shuffled_table(name, seed, options.data_dir) for seed in range(options.repeats))
        found = (warned(each, target, i, plan) for i, (each, target) in enumerate(tables))
        yield f"{name}, shuffled", sum(found, Warned())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure everything, print it as Markdown, and return the exit status."""
    options = _options(arguments)
    print(row(["tables", "number", "wrong: later dates", "wrong: new units", "wrong: running order"]))
    print(row(["---"] * 5), flush=True)
    for name, found in measurements(options):
        cells = (found.tables, found.later, found.new, found.running_order)
        print(row([name, *map(str, cells)]), flush=True)
    return 0


def _options(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m benchmarks.other_rows", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES, help="rows of synthetic tables")
    parser.add_argument("--tables", nargs="*", default=TABLES, help=f"data sets (default: {', '.join(TABLES)})")
    parser.add_argument("--model", choices=["linear", "default"], default="linear", help="default: linear, the fastest")
    parser.add_argument("--repeats", type=int, default=300, help="tables of each kind (default: 300)")
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
