"""Compare split conformal regression, CV+ and jackknife+ on few rows: ``python -m benchmarks.small_data``.

The rows are synthetic: ten features, a target whose mean is the mean of the features, and noise that grows with the
absolute value of this mean. The model is a linear regression, with the residual score at level 0.9. A repeat draws n
rows, fits each method on them, and computes the exact coverage and the width of its intervals for 500 other rows. CV+
has ten folds. jackknife+ fits n models, so it has fewer repeats.

The output folder has one JSON file for each method, number of rows and number of repeats. What has such a file is not
simulated again. Delete the folder after a change of the code.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter
from sklearn.linear_model import LinearRegression

from benchmarks.markdown import row, spaced
from benchmarks.tables import with_table
from evencover import ConformalRegressor, CrossConformalRegressor
from evencover.files.archive import atomic_write
from evencover.inputs.arrays import FloatArray, check_count
from evencover.plots import BLACK, BLUE, GREY, STYLE, VERMILION, new_figure
from evencover.synthetic import functional_dependence

LEVEL, SIZES, REPEATS = 0.9, (50, 100, 200, 500, 1000, 2000), 200
METHODS: Mapping[str, Callable[[int], Any]] = {
    "split": lambda seed: ConformalRegressor(LinearRegression(), random_state=seed),
    "CV+": lambda seed: CrossConformalRegressor(LinearRegression(), random_state=seed),
    "jackknife+": lambda seed: CrossConformalRegressor(LinearRegression(), method="jackknife+", random_state=seed),
}
PAGE_MARKS = ("<!-- small data: start -->", "<!-- small data: end -->")
_COLORS, _MARKERS = (VERMILION, BLUE, BLACK), ("o", "s", "^")
_JACKKNIFE_FITS, _JACKKNIFE_REPEATS = 8000, 8  # models of all repeats, and the smallest number of repeats
_TEST_ROWS, _TEST_SEED = 500, 1_000_000
_TWO_SIDED_95 = 1.96


@dataclass(frozen=True, eq=False)
class Simulated:
    """Coverage and relative width of a method in each repeat, of shape (repeats,) each, and its guarantee.

    Parameters
    ----------
    coverage : ndarray
        Mean over the test rows of the exact probability that the target lies in the interval.
    width : ndarray
        Mean width, divided by the mean width of the intervals between the true quantiles.
    proven : float
        The coverage that is guaranteed for every model and distribution of the rows.
    """

    coverage: FloatArray
    width: FloatArray
    proven: float

    @property
    def low_coverage(self) -> float:
        """The coverage that one repeat in ten does not reach."""
        return float(np.quantile(self.coverage, 0.1))


Results = dict[tuple[str, int], Simulated]  # by method and number of rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print a table, draw the picture if requested, and return the exit status."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    found = {}
    for n in options.sizes:
        print(f"{n} rows ...", file=sys.stderr, flush=True)
        found |= {(method, n): stored(options.output, method, n, options.repeats) for method in METHODS}
    lines = table(found)
    print("\n".join(lines))
    if options.picture is not None:
        with mpl.rc_context({**STYLE, "savefig.dpi": 160}):
            picture(found).savefig(options.picture)
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_table(page, lines, marks=PAGE_MARKS), encoding="utf-8")
    return 0


def repeats_of(method: str, n: int, repeats: int) -> int:
    """Return the number of repeats of a method on n rows; fewer for jackknife+ on many rows."""
    if method != "jackknife+":
        return repeats
    return min(repeats, max(_JACKKNIFE_REPEATS, _JACKKNIFE_FITS // n))


def stored(folder: Path, method: str, n: int, repeats: int) -> Simulated:
    """Return the result of a method on n rows from its file, or simulate and store it."""
    repeats = repeats_of(method, n, repeats)
    path = folder / f"{method.replace('+', '_plus')}-{n}-{repeats}.json"
    if not path.exists():
        found = simulate(method, n, repeats)
        values = {"coverage": found.coverage.tolist(), "width": found.width.tolist(), "proven": found.proven}
        with atomic_write(path) as file:
            file.write(json.dumps(values).encode())
    values = json.loads(path.read_text(encoding="utf-8"))
    return Simulated(np.array(values["coverage"]), np.array(values["width"]), values["proven"])


def simulate(method: str, n: int, repeats: int) -> Simulated:
    """Return coverage and width of a method that is fitted on n rows. Repeat i has the same rows for every method."""
    check_count(repeats, "repeats")
    data = functional_dependence()
    new = data.sample(_TEST_ROWS, seed=_TEST_SEED)
    best = data.oracle_interval(new.X, level=LEVEL).width.mean()
    coverages, widths = np.empty(repeats), np.empty(repeats)
    for repeat in range(repeats):
        old = data.sample(n, seed=np.random.default_rng([repeat, n]))
        regressor = METHODS[method](repeat).fit(old.X, old.y)
        intervals = regressor.predict_interval(new.X, level=LEVEL)
        coverages[repeat], widths[repeat] = new.coverage(intervals).mean(), intervals.width.mean() / best
    return Simulated(coverages, widths, float(regressor.guarantee_.lower_bound(LEVEL)))


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """Return the mean over repeats, and half the width of its 95 % confidence interval."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(_TWO_SIDED_95 * error)


def table(found: Results) -> list[str]:
    """Return the lines of a table: width, coverage, and the coverage that one data set in ten does not reach.

    The last one needs many repeats, so jackknife+ has none.
    """
    methods, sizes = _names(found)
    often = [method for method in methods if method != "jackknife+"]
    titles = [f"{what}: {' / '.join(methods)}" for what in ("width", "coverage")]
    lines = [row(["rows", *titles, f"one in ten below: {' / '.join(often)}"]), row(["---"] * 4)]
    for n in sizes:
        widths = [f"{found[method, n].width.mean():.2f}" for method in methods]
        coverages = [f"{found[method, n].coverage.mean():.3f}" for method in methods]
        low = [f"{found[method, n].low_coverage:.3f}" for method in often]
        lines.append(row([spaced(n), *map(" / ".join, (widths, coverages, low))]))
    return lines


def picture(found: Results) -> Figure:
    """Draw mean width and coverage against the number of rows, with 95 % confidence intervals of the means."""
    figure, ((left, right),) = new_figure(1, 2, size=(9.6, 3.8))
    _draw_lines(left, found, lambda each: each.width - 1)
    left.axhline(0, color=GREY, lw=1, ls="--")
    left.set(title="Mean width", ylabel="wider than the best possible interval")
    _draw_lines(right, found, lambda each: each.coverage)
    right.set(title="Coverage", ylabel="targets in their intervals", ylim=(0.68, 0.96))
    left.legend(frameon=False, loc="upper right")
    right.legend(handles=_draw_proven(right, found), frameon=False, loc="center right", bbox_to_anchor=(1, 0.6))
    for axes in (left, right):
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    return figure


def _draw_lines(axes: Axes, found: Results, values: Callable[[Simulated], FloatArray]) -> None:
    """Draw a line for each method, with error bars; the points of methods lie a little side by side."""
    methods, sizes = _names(found)
    for i, method in enumerate(methods):
        means, errors = zip(*(mean_and_error(values(found[method, n])) for n in sizes), strict=True)
        places = np.array(sizes) * 1.04 ** (i - (len(methods) - 1) / 2)
        style = {"color": _COLORS[i], "marker": _MARKERS[i], "ms": 5, "lw": 1.5, "elinewidth": 1.2, "capsize": 2.5}
        axes.errorbar(places, means, errors, label=method, **style)
    axes.set(xscale="log", xlabel="rows for the model and the calibration together")
    axes.set_xticks(sizes, [spaced(n) for n in sizes])
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_proven(axes: Axes, found: Results) -> list[Any]:
    """Draw the coverage that is proven for each method, and return the lines, for a legend."""
    methods, sizes = _names(found)
    lines = []
    for i, method in enumerate(methods):
        proven = [found[method, n].proven for n in sizes]
        lines += axes.plot(
            sizes,
            proven,
            color=_COLORS[i],
            lw=1.2,
            ls=":",
            label=f"proven for {method}" + " (the level)" * (proven[0] == LEVEL),
        )
    return lines


def _names(found: Results) -> tuple[list[str], list[int]]:
    """Return the methods and the numbers of rows, in their order."""
    return list(dict.fromkeys(method for method, _ in found)), list(dict.fromkeys(n for _, n in found))


def _options(arguments: Sequence[str] | None) -> Namespace:
    """Return the parsed options; exit with an error if a number is not valid."""
    parser = ArgumentParser(prog="python -m benchmarks.small_data", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="numbers of rows")
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help=f"repeats; jackknife+ has fewer (default: {REPEATS})"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/small_data"), help="folder for results (default: build/small_data)"
    )
    parser.add_argument("--picture", type=Path, help="a file for the picture")
    parser.add_argument("--page", type=Path, help="a page that gets the table too, such as docs/howto/small_data.md")
    options = parser.parse_args(arguments)
    if min(options.sizes) < 20:
        parser.error(f"--sizes must be 20 or more, so that intervals are finite; got {min(options.sizes)}")
    if options.repeats < 2:
        parser.error(f"--repeats must be 2 or more; got {options.repeats}")
    return options


if __name__ == "__main__":
    sys.exit(main())
