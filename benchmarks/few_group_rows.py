"""Measure from how many held-out rows on groups pay: ``python -m benchmarks.few_group_rows FILE.csv ...``.

The files have a header row and only numbers; the last column is the target. Of each, some rows fit the default model
with little effort and choose the score. The next ones calibrate it twice: with one threshold, and with one for each of
three groups of the spread. Other rows, at most 4000, test both. The table has geometric means of ratios, three to one
threshold, and the root mean square distance of the coverage from the level over five groups of the spread.
"""

import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.interval_data import DataSet, read_table
from benchmarks.markdown import print_row
from evencover import BySpread, ConformalRegressor, Marginal, interval_score, recommend
from evencover.inputs.arrays import IntArray
from evencover.rows import Rows
from evencover.studies import Plan
from evencover.taxonomies import Taxonomy

LEVEL, N_BINS = 0.9, 5
HELD_OUT = (60, 100, 150, 200, 300, 450, 600)
_TRAINING_ROWS, _MIN_TEST_ROWS, _MAX_TEST_ROWS = 700, 500, 4000


def measured(data: DataSet, seed: int) -> list[tuple[float, float, float, float]]:
    """Return for each number of held-out rows the ratios of scores and of widths, and both distances from the level."""
    order = np.random.default_rng([seed, len(data.y)]).permutation(len(data.y))
    training, held_out, test = np.split(order, [_TRAINING_ROWS, _TRAINING_ROWS + max(HELD_OUT)])
    if len(test) < _MIN_TEST_ROWS:
        raise ValueError(f"{data.name} must have at least {len(order) - len(test) + _MIN_TEST_ROWS} rows")
    estimator = Plan(effort="fast").estimator()
    chosen = recommend(estimator, data.X[training], data.y[training], taxonomy=Marginal(), seed=seed)
    test, found = test[:_MAX_TEST_ROWS], []
    rows = chosen.calibrate(data.X[held_out], data.y[held_out]).rows(data.X[test], data.y[test])
    for n in HELD_OUT:
        one, three = (_quality(chosen, taxonomy, data, held_out[:n], rows) for taxonomy in (Marginal(), BySpread(3)))
        found.append((three[0] / one[0], three[1] / one[1], one[2], three[2]))
    return found


def _quality(
    chosen: ConformalRegressor, taxonomy: Taxonomy, data: DataSet, held_out: IntArray, rows: Rows
) -> tuple[float, float, float]:
    """Return the interval score, the mean width, and the distance of coverage from the level over groups of the spread.

    `chosen` has the fitted model and the score.
    """
    regressor = ConformalRegressor(chosen.estimator, nonconformity=chosen.nonconformity, taxonomy=taxonomy)
    intervals = regressor.calibrate(data.X[held_out], data.y[held_out]).predict_interval(rows, level=LEVEL)
    y = rows.required_target(by="a test")
    order = np.argsort(rows.prediction.required("spread", by="groups"), kind="stable")
    shares = [intervals[each].covers(y[each]).mean() for each in np.array_split(order, N_BINS)]
    distance = float(np.sqrt(np.mean((np.array(shares) - LEVEL) ** 2)))
    return interval_score(y, intervals, level=LEVEL), float(intervals.width.mean()), distance


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    columns = ("score", "width", "distance, one threshold", "distance, three groups")
    print_row("held-out rows", "for each group", *columns)
    print_row(*["---"] * 6)
    found = np.array([measured(data, seed) for data in map(read_table, options.files) for seed in range(options.seeds)])
    ratios, distances = np.exp(np.log(found[..., :2]).mean(axis=0)), found[..., 2:].mean(axis=0)
    for n, *numbers in zip(HELD_OUT, *ratios.T, *distances.T, strict=True):
        print_row(str(n), str(n // 3), *(f"{number:.3f}" for number in numbers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
