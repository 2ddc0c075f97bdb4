"""Print how many seconds of processor time each step of `evencover run` takes, as a Markdown table.

``python -m benchmarks.steps`` uses two synthetic tables: a wide one, with as many rows, columns and text columns as the
Ames housing data, and a long one, with those of the diamonds data. ``python -m benchmarks.steps FILE TARGET ...`` uses
files, each followed by the column to predict.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from functools import wraps
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks.markdown import print_row
from evencover import ConformalRegressor
from evencover.cli import main as run_command_line
from evencover.models import AutoRegressor, TableEncoder, WithSpread, auto
from evencover.report import writing
from evencover.studies import table_study
from evencover.studies.evidence import Evidence

_STEPS: dict[str, list[tuple[Any, str]]] = {  # the functions of each step
    "encode the columns": [(TableEncoder, "fit"), (TableEncoder, "transform")],
    "fit the model": [(AutoRegressor, "fit"), (WithSpread, "fit")],
    "fit distributions of residuals": [(auto, "choose_mixture")],
    "predict": [(AutoRegressor, "predict_full"), (WithSpread, "predict_full")],
    "select score and groups": [(table_study, "recommend")],
    "calibrate": [(ConformalRegressor, "calibrate")],
    "diagnose": [(table_study, "diagnose")],
    "audit": [(Evidence, "audit")],
    "write the report": [(writing, "write_report")],
    "save the predictor": [(ConformalRegressor, "save")],
}
_OTHER = "read, check, write tables"


class Stopwatch:
    """The seconds of each step, without those of the steps inside it."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._running = [_OTHER]
        self._since = time.process_time()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the time inside the context for this step."""
        self._count()
        self._running.append(name)
        try:
            yield
        finally:
            self._count()
            self._running.pop()

    def _count(self) -> None:
        now = time.process_time()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, whose calls count for this step."""

        @wraps(function)
        def call(*given: Any, **settings: Any) -> Any:
            with self.step(name):
                return function(*given, **settings)

        return call


def main(arguments: Sequence[str]) -> None:
    """Print the table of steps."""
    if len(arguments) % 2:
        sys.exit(__doc__)
    with TemporaryDirectory() as folder:
        files = list(zip(arguments[::2], arguments[1::2], strict=True)) or synthetic_files(Path(folder))
        found = {Path(file).stem: step_seconds(file, target, Path(folder)) for file, target in files}
    print_row("step", *(cell for name in found for cell in (f"{name}: seconds", "share")))
    print_row(*["---"] * (1 + 2 * len(found)))
    totals = {name: sum(seconds.values()) for name, seconds in found.items()}
    for step in (*_STEPS, _OTHER):
        cells = ((f"{found[name][step]:.1f}", f"{found[name][step] / totals[name]:.0%}") for name in found)
        print_row(step, *(text.replace("%", " %") for pair in cells for text in pair))
    print_row("all", *(cell for total in totals.values() for cell in (f"{total:.1f}", "")))


def step_seconds(file: str, target: str, folder: Path) -> Counter[str]:
    """Return the seconds of each step of `evencover run` on a file."""
    output = folder / f"study of {Path(file).stem}"
    watch = Stopwatch()
    with ExitStack() as stack:
        for name, functions in _STEPS.items():
            for owner, function in functions:
                stack.enter_context(patch.object(owner, function, watch.timed(name, getattr(owner, function))))
        stack.enter_context(redirect_stdout(StringIO()))
        stack.enter_context(suppress(SystemExit))
        with watch.step(_OTHER):
            run_command_line(["run", file, "--target", target, "--output", str(output)])
    if not output.exists():
        sys.exit(f"the run on {file} failed")
    return watch.seconds


def synthetic_files(folder: Path) -> list[tuple[str, str]]:
    """Write a wide and a long table; return the files and the column to predict."""
    tables = {"wide": synthetic_table(2930, 35, 46), "long": synthetic_table(53_940, 6, 3)}
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return [(str(folder / f"{name}.csv"), "price") for name in tables]


def synthetic_table(n: int, n_numbers: int, n_texts: int) -> pd.DataFrame:
    """Return a table of numbers and of texts with 2 to 9 values; price depends on two columns of each kind."""
    rng = np.random.default_rng(0)
    numbers = {f"number {column}": rng.normal(size=n).round(2) for column in range(n_numbers)}
    codes = [rng.integers(0, 2 + column % 8, size=n) for column in range(n_texts)]
    texts = {f"text {column}": np.array([f"value {code}" for code in each]) for column, each in enumerate(codes)}
    center = numbers["number 0"] + numbers["number 1"] ** 2 + codes[0] + 0.5 * codes[1]
    noise = np.exp(numbers["number 0"] / 2) * rng.normal(size=n)
    return pd.DataFrame({**numbers, **texts, "price": center + noise})


if __name__ == "__main__":
    main(sys.argv[1:])
