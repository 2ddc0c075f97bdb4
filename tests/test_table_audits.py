"""Audits of files of any size: the same counts, tests and verdict as in memory, for any number of threads."""

import re
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evencover import Intervals, tables
from evencover import audit as audit_in_memory
from evencover.tables import table_audit
from tests.coverage_laws import holm

COLUMNS = {"target": "y", "lower": "low", "upper": "high"}


def table(n=6000, *, kind="normalized", seed=0):
    """Return targets with intervals, whose noise depends on the group."""
    rng = np.random.default_rng(seed)
    x, group = rng.random(n), rng.integers(0, 3, n)
    noise = 1 + group + x
    y = noise * rng.normal(size=n)
    half = {"normalized": 1.645 * noise, "constant": np.full(n, 4.0), "upper": 1.28 * noise, "empty": 1.5 * noise}[kind]
    low, high = (np.full(n, -np.inf) if kind == "upper" else -half), half
    if kind == "empty":
        low[::40], high[::40], high[::101] = np.nan, np.nan, np.inf
    return pa.table({"y": y, "low": low, "high": high, "g": group, "x": x, "p": rng.normal(size=n) * 0.1})


def assert_equal(found, expected, *, rows_only=False):
    """Compare two audits of groups: counts exactly, numbers up to rounding."""
    for each in fields(expected):
        mine, other = getattr(found, each.name), getattr(expected, each.name)
        if isinstance(other, float):
            assert mine == pytest.approx(other, rel=1e-9, abs=0, nan_ok=True), each.name
        elif not rows_only:
            assert mine == other, each.name


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(table_audit, "_SAMPLE_ROWS", 1500)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("sizes", [None, 500, {0: 300, 1: 400, 2: 5000}], ids=["unknown", "one threshold", "by group"])
@pytest.mark.parametrize("kind", ["normalized", "constant", "empty"])
@pytest.mark.usefixtures("small_sample")
def test_groups_of_all_rows_are_tested(tmp_path, kind, sizes, workers):
    """Rows, coverage, p-values, intervals, widths and scores are those of all rows in memory."""
    whole = table(kind=kind)
    for position in range(3):
        pq.write_table(whole.slice(2000 * position, 2000), tmp_path / f"{position}.parquet", row_group_size=700)
    found = tables.audit(tmp_path, **COLUMNS, group="g", calibration_sizes=sizes, workers=workers)
    intervals = Intervals(whole["low"].to_numpy(), whole["high"].to_numpy())
    expected = audit_in_memory(
        whole["y"].to_numpy(), intervals, groups=whole["g"].to_pylist(), calibration_sizes=sizes, level=0.9
    )
    for mine, other in zip((*found.table, found.overall), (*expected.table, expected.overall), strict=True):
        assert_equal(mine, other)
    assert found.joint_p_value == pytest.approx(expected.joint_p_value, rel=1e-9, abs=0)
    for name in ("verdict", "n_empty", "n_infinite", "own_thresholds", "evidence", "sizes_known"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.quality.mean_width == pytest.approx(expected.quality.mean_width)
    assert found.quality.rows == 6000
    assert sum(row.rows for row in found.by_width) == 6000
    assert "All 6000 rows were counted" in str(found)


@pytest.mark.parametrize("n_fractional", [0, 1])
@pytest.mark.usefixtures("small_sample")
def test_whole_targets_are_on_a_bound_as_in_memory(n_fractional):
    """An interval ends at the whole numbers in it, unless a single target of all parts is not whole."""
    rng, n = np.random.default_rng(0), 6000
    y, group = rng.poisson(2.0, n).astype(float), np.arange(n) % 2
    y[n - n_fractional :] = 0.5
    low, high = np.full(n, -0.3), 4.4 + 0.3 * group
    whole = pa.table({"y": y, "low": low, "high": high, "g": group})
    found = tables.audit(whole, **COLUMNS, group="g", calibration_sizes=20_000)
    expected = audit_in_memory(y, (low, high), groups=group, calibration_sizes=20_000)
    assert (expected.overall.inside < expected.overall.coverage) == (n_fractional == 0)
    for mine, other in zip((*found.table, found.overall), (*expected.table, expected.overall), strict=True):
        assert_equal(mine, other)
    assert found.verdict == expected.verdict == ("uneven" if n_fractional else "undecided")


@pytest.mark.usefixtures("small_sample")
def test_limits_of_the_target_are_no_bounds_as_in_memory():
    """Three in four targets are 0, where all intervals end."""
    rng, n = np.random.default_rng(0), 6000
    y, group = np.maximum(rng.normal(-0.7, 1, n), 0), np.arange(n) % 2
    low, high = np.zeros(n), 1.0 + group
    whole = pa.table({"y": y, "low": low, "high": high, "g": group})
    found = tables.audit(whole, **COLUMNS, group="g", calibration_sizes=20_000)
    expected = audit_in_memory(y, (low, high), groups=group, calibration_sizes=20_000)
    assert found.overall.inside == found.overall.coverage
    for mine, other in zip((*found.table, found.overall), (*expected.table, expected.overall), strict=True):
        assert_equal(mine, other)
    assert found.verdict == expected.verdict == "uneven"


@pytest.mark.parametrize("kind", ["normalized", "constant", "upper", "empty"])
@pytest.mark.usefixtures("small_sample")
def test_default_groups_are_those_of_the_sample(kind):
    """Thirds by width, by center if the widths are equal, or by one-sided bounds; every row is in one of them."""
    whole = table(kind=kind)
    if kind == "constant":
        shift = np.linspace(0, 9, 6000)
        whole = pa.table(
            {name: whole[name].to_numpy() + shift * (name in ("y", "low", "high")) for name in ("y", "low", "high")}
        )
    found = tables.audit(whole, **COLUMNS)
    sample = np.sort(np.random.default_rng(0).choice(6000, 1500, replace=False, shuffle=False))
    intervals = Intervals(*(whole[name].to_numpy()[sample] for name in ("low", "high")))
    expected = audit_in_memory(whole["y"].to_numpy()[sample], intervals, level=0.9)
    assert [row.group for row in found.table] == [row.group for row in expected.table]
    assert sum(row.rows for row in found.table) == 6000
    assert all(row.rows > 0 for row in found.table)
    assert found.notes[: len(expected.notes)] == expected.notes
    intervals = Intervals(*(whole[name].to_numpy() for name in ("low", "high")))
    in_memory = audit_in_memory(whole["y"].to_numpy(), intervals, level=0.9)
    assert (found.n_infinite, found.n_empty) == (in_memory.n_infinite, in_memory.n_empty)


def test_few_rows_are_audited_as_in_memory():
    whole = table(900)
    found = tables.audit(whole, **COLUMNS, group="g", prediction="p", features=["x"])
    expected = audit_in_memory(
        whole["y"].to_numpy(),
        (whole["low"].to_numpy(), whole["high"].to_numpy()),
        X=whole.select(["x"]),
        groups=whole["g"].to_pylist(),
        prediction=whole["p"].to_numpy(),
        level=0.9,
    )
    assert str(found) == str(expected)


@pytest.mark.usefixtures("small_sample")
def test_the_result_does_not_depend_on_the_number_of_threads_and_files(tmp_path):
    """Not in a single digit; the batches are the same."""
    whole = table()
    pq.write_table(whole, tmp_path / "one.parquet", row_group_size=1000)
    texts = {
        str(tables.audit(tmp_path / "one.parquet", **COLUMNS, group="g", features=["x"], workers=workers))
        for workers in (1, 2, 5)
    }
    assert len(texts) == 1


@pytest.mark.usefixtures("small_sample")
def test_the_sample_holds_rows_of_all_kinds_if_groups_alternate():
    """Every k-th row would be of one group only."""
    whole = table().set_column(3, "g", pa.array(np.arange(6000) % 4))
    found = tables.audit(whole, **COLUMNS, features=["g"])
    assert len([row for row in found.by_feature if row.rows > 300]) == 4


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.usefixtures("small_sample")
def test_huge_intervals_have_a_finite_mean_width():
    """Sums of widths do not overflow."""
    n = 6000
    whole = pa.table({"y": np.zeros(n), "low": np.full(n, -8e307), "high": np.full(n, 8e307), "g": np.arange(n) % 2})
    found = tables.audit(whole, **COLUMNS, group="g")
    assert found.table[0].width == pytest.approx(1.6e308)
    assert found.n_infinite == 0


@pytest.mark.usefixtures("small_sample")
def test_many_groups_with_their_own_calibration_rows():
    """Each group is tested with the number of its own calibration rows."""
    n, n_groups = 6000, 300
    rng = np.random.default_rng(0)
    whole = pa.table(
        {"y": rng.normal(size=n), "low": np.full(n, -1.645), "high": np.full(n, 1.645), "g": np.arange(n) % n_groups}
    )
    found = tables.audit(whole, **COLUMNS, group="g", calibration_sizes=dict.fromkeys(range(n_groups), 500))
    assert len(found.table) == n_groups
    assert all(row.rows == 20 for row in found.table)


@pytest.mark.usefixtures("small_sample")
def test_the_worst_region_is_adjusted_once():
    """For the two tests of the family: coverage is right on average, and low in a region."""
    n, rng = 40_000, np.random.default_rng(1)
    x = rng.random(n)
    noise = np.where(x > 0.8, 1.891, 1.0)  # covered with probability 0.7, and 0.95 elsewhere
    whole = pa.table({"y": noise * rng.normal(size=n), "low": np.full(n, -1.96), "high": np.full(n, 1.96), "x": x})
    found = tables.audit(whole, **COLUMNS, features=["x"])
    assert found.overall.p_under > found.worst_region.p_under > 0
    assert found.worst_region.adjusted == pytest.approx(2 * found.worst_region.p_under, abs=0)


@pytest.mark.usefixtures("small_sample")
def test_low_coverage_in_a_feature_is_found_in_the_sample():
    rng = np.random.default_rng(0)
    x = rng.random(20_000)
    whole = pa.table(
        {
            "y": rng.normal(size=20_000) * np.where(x > 0.8, 3, 1),
            "low": np.full(20_000, -1.645),
            "high": np.full(20_000, 1.645),
            "x": x,
        }
    )
    found = tables.audit(whole, **COLUMNS, features=["x"])
    assert found.worst_region is not None
    assert found.region_rule.startswith("x > 0.")
    assert found.verdict == "uneven"
    group, overall = (min(1.0, 2 * min(row.p_under, row.p_over)) for row in (found.table[0], found.overall))
    assert len(found.table) == 1
    assert found.worst_region.adjusted == pytest.approx(holm([group, found.worst_region.p_under])[1], abs=0)
    assert overall == group


@pytest.mark.parametrize(
    ("change", "options", "facts"),
    [
        (lambda t: t.set_column(0, "y", pa.array([None, np.nan] + [0.0] * 898)), {}, ["column 'y' (target)", "finite number", "2 of 900 rows", "row 0"]),
        (lambda t: t, {"group": "none"}, ["group", "no column named 'none'"]),
        (lambda t: t, {"features": ["q", "x"]}, ["no column named 'q'", "['y', 'low', 'high', 'g', 'x', 'p']"]),
        (lambda t: t, {"upper": "y2"}, ["upper", "no column named 'y2'"]),
        (lambda t: t, {"group": "g", "calibration_sizes": {0: 5}}, ["calibration_sizes", "positive whole number", "[1, 2]"]),
        (lambda t: t, {"tolerance": 3}, ["tolerance", "between 0 and 1", "got 3"]),
    ],
)  # fmt: skip
def test_wrong_input_is_one_error(tmp_path, change, options, facts):
    """Missing and infinite bounds are not errors."""
    pq.write_table(change(table(900)), tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=".*".join(map(re.escape, facts))):
        tables.audit(tmp_path / "d.parquet", **{**COLUMNS, **options})
