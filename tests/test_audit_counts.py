"""Counts of audits: batches add up to the counts of all rows, whatever their order."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from evencover import Intervals
from evencover.diagnostics.audit_counts import CellCounter, RowsInMemory, RowTotals
from evencover.groups import Groups

LEVEL = Fraction(9, 10)
LABELS = ("a", "b", "c")


def rows(n=500):
    rng = np.random.default_rng(0)
    y, center, width = rng.normal(size=n), rng.normal(size=n), rng.choice([0.5, 1.5, 3.0], size=n)
    lower, upper = center - width, center + width
    upper[:3], lower[3:6] = np.inf, np.nan
    return y, Intervals(lower, upper), rng.integers(0, 2, size=n)


def counted_in(batches):
    y, intervals, codes = rows()
    counter = CellCounter.like(y, intervals, LEVEL)
    for batch in batches:
        counter.add(y[batch], intervals[batch], codes[batch], LABELS)
    return counter.counts(LABELS, len(LABELS))


@pytest.fixture
def in_memory():
    y, intervals, codes = rows()
    return RowsInMemory.of(y, intervals, LEVEL, codes), Groups(codes, LABELS)


def whole_numbers(totals):
    return {name: value for name, value in vars(totals).items() if name not in ("means", "widths", "scores")}


def test_batches_have_the_counts_of_rows_in_memory(in_memory):
    rows_in_memory, groups = in_memory
    batches = counted_in(np.array_split(np.arange(500), 7))
    assert batches.groups.keys() == rows_in_memory.by_group(groups).keys()
    for label, expected in rows_in_memory.by_group(groups).items():
        assert whole_numbers(batches.groups[label]) == whole_numbers(expected)
    assert whole_numbers(batches.all_rows) == whole_numbers(rows_in_memory.totals(np.arange(500)))
    assert sum(each.rows for each in batches.strata.values()) == 500


def test_the_order_of_batches_does_not_matter():
    batches = np.array_split(np.arange(500), 7)
    assert counted_in(batches).all_rows == counted_in(batches[::-1]).all_rows


def test_mean_widths_in_memory_are_those_of_numpy(in_memory):
    rows_in_memory, _ = in_memory
    chosen = np.arange(6, 500)
    found, widths = rows_in_memory.totals(chosen), rows()[1].width[chosen]
    assert found.width == widths.mean()
    assert found.width == pytest.approx((found + RowTotals()).width, rel=1e-14)


def test_totals_without_rows():
    assert RowTotals() + RowTotals() == RowTotals(by_pool=Counter())
    assert np.isnan([RowTotals().width, RowTotals().score, *RowTotals().misses]).all()
