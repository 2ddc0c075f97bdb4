"""The benchmark of intervals: data, splits, measures, stored results, bars, the page, the figure and errors."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import interval_measures, interval_methods
from benchmarks.interval_data import (
    EVEN,
    PCS,
    PCS_METHODS,
    PUBLISHED,
    BinnedResult,
    DataSet,
    published_results,
    read_binned,
    read_folder,
    without_duplicates,
)
from benchmarks.interval_measures import (
    Counts,
    Measured,
    TestRows,
    binned_result,
    equal_classes,
    exact_p_value,
    measured,
    root_mean_square,
    smallest_p_value,
    split_rows,
    summary,
    worst_third,
)
from benchmarks.interval_methods import Bounds, Method, Task, default_bounds, narrowest_even, study_bounds
from benchmarks.interval_tables import EvenTables, PcsTables
from benchmarks.intervals import PAGE_MARKS, main
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from evencover import BySpread, Intervals, Marginal, Normalized, Residual, conformal_rank, interval_score
from evencover.models import QuantileForest
from evencover.studies import Plan
from tests.canonical_studies import use_light_stack
from tests.processes import descendants, parents, still_there

ROWS = 2000
CALLS = []  # seed and numbers of rows of each task


def noise(X):
    """The standard deviation of the targets in the files."""
    return 1 + 3 * X[:, 0]


def conformal(task, spread):
    """Return intervals around 0 that are proportional to a spread, with one threshold."""
    CALLS.append((task.seed, len(task.X_train), len(task.y_cal), len(task.X_test)))
    scores = np.sort(np.abs(task.y_cal) / spread(task.X_cal))
    half = scores[conformal_rank(len(scores), task.level) - 1] * spread(task.X_test)
    return Bounds(-half, half, [(len(half), len(scores))])


def wide(task):
    return Bounds(np.full(len(task.X_test), -20.0), np.full(len(task.X_test), 20.0))


GOOD = Method(lambda task: conformal(task, noise))
UNEVEN = Method(lambda task: conformal(task, lambda X: np.ones(len(X))))
WIDE = Method(wide)


def methods(default):
    return {"evencover normal": default, "former default": WIDE, "MAPIE CQR": WIDE}


def write_table(path, *, seed=0, rows=ROWS):
    rng = np.random.default_rng(seed)
    X = rng.random((rows, 2))
    values = np.column_stack([X, noise(X) * rng.standard_normal(rows)])
    np.savetxt(path, values, delimiter=",", header="a,b,target", comments="")


@pytest.fixture(autouse=True)
def small_models(monkeypatch):
    """A judge and a unit of time that take less time."""
    monkeypatch.setattr(interval_measures, "QuantileForest", partial(QuantileForest, n_estimators=10))
    fast = partial(HistGradientBoostingRegressor, max_iter=10)
    monkeypatch.setattr(interval_measures, "HistGradientBoostingRegressor", fast)


@pytest.fixture
def folder(tmp_path):
    """Two tables, one of them in a subfolder and with published scores."""
    (tmp_path / "clear").mkdir()
    write_table(tmp_path / "first.csv", seed=0)
    write_table(tmp_path / "clear/second.csv", seed=1)
    lines = ["set,variant,method,seed,coverage,mean_width,interval_score"]
    for variant, score in (("a", 10), ("b", 20), ("c", 30)):
        lines += [f"second,{variant},{method},{seed},0.9,1,{score}" for method in ("clear", "cqr") for seed in range(2)]
    (tmp_path / "clear/published.csv").write_text("\n".join(lines))
    CALLS.clear()
    return tmp_path


@pytest.fixture
def binned_folder(folder):
    """The same tables, and the second one with bins and published results."""
    (folder / "pcs").mkdir()
    write_bins(folder / "pcs/second_bins.csv", ROWS)
    results, bins = ["set,method,model,coverage,width_over_range"], ["set,method,model,feature,bin,coverage"]
    for method in PCS_METHODS:
        for model, width in (("Ridge", 0.5), ("Lasso", 0.4), ("MLP", 0.6)) if "conformal" in method else (("", 0.2),):
            results.append(f"second,{method},{model},0.91,{width}")
        for key, coverage in {"a,0": 0.87, "a,1": 0.94, "b,1": 0.9}.items():
            bins.append(f"second,{method},{'Lasso' if 'conformal' in method else ''},{key},{coverage}")
    (folder / "pcs/published.csv").write_text("\n".join(results))
    (folder / "pcs/published_bins.csv").write_text("\n".join(bins))
    return folder


def write_bins(path, rows):
    """Write bins of two features: the first has 100 rows in bin 0, the second 99 rows in bin 0."""
    lines = [f"{int(i >= 100)},{int(i >= 99)}" for i in range(rows)]
    path.write_text("\n".join(["a,b", *lines]))


def edit_text(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def run(folder, *more, default=GOOD):
    words = ["--data-dir", str(folder), "--output", str(folder / "results"), "--seeds", "2", *more]
    return main(words, methods=methods(default))


def table_rows(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def data_set(name="some", n=200, seed=0):
    rng = np.random.default_rng(seed)
    return DataSet(name, rng.random((n, 2)), rng.standard_normal(n))


def test_the_even_split_is_a_permutation_with_40_40_and_20_percent():
    training, calibration, test = EVEN.split(101, 3)
    assert [len(part) for part in (training, calibration, test)] == [40, 41, 20]
    joined = np.concatenate([training, calibration, test])
    np.testing.assert_array_equal(joined, np.random.default_rng(3).permutation(101))


def test_the_published_split_is_that_of_the_published_scores():
    data = data_set()
    task, test = split_rows(data, PUBLISHED, 2)
    X_rest, X_test, y_rest, expected = train_test_split(data.X, data.y, test_size=0.2, random_state=779)
    X_train, X_cal, y_train, y_cal = train_test_split(X_rest, y_rest, test_size=0.25, random_state=779)
    assert task.level == 0.95
    for found, part in zip(
        (task.X_train, task.y_train, task.X_cal, task.y_cal, task.X_test, test.y),
        (X_train, y_train, X_cal, y_cal, X_test, expected),
        strict=True,
    ):
        np.testing.assert_array_equal(found, part)


def test_the_pcs_split_has_at_most_5000_training_rows_and_no_calibration_rows():
    for n in (200, 7000):
        data = data_set(n=n)
        task, test = split_rows(data, PCS, 2)
        training, tested = train_test_split(np.arange(n), train_size=0.8, random_state=779)
        assert (task.level, len(training)) == (0.9, n * 4 // 5)
        np.testing.assert_array_equal(task.X_train, data.X[training[:5000]])
        np.testing.assert_array_equal(task.y_train, data.y[training[:5000]])
        np.testing.assert_array_equal(task.X_test, data.X[tested])
        np.testing.assert_array_equal(test.y, data.y[tested])
        assert (task.X_cal.shape, task.y_cal.shape) == ((0, 2), (0,))


def test_of_duplicates_in_any_order_and_rounding_the_last_is_kept():
    first, other = data_set("first"), data_set("other", seed=1)
    shuffled = DataSet("shuffled", first.X[::-1], np.round(first.y[::-1], 4))
    more_columns = DataSet("more", np.column_stack([first.X, first.y]), first.y)
    kept = without_duplicates([first, other, shuffled, more_columns])
    assert [data.name for data in kept] == ["other", "shuffled", "more"]


def test_a_folder_is_read_with_its_subfolder_without_published_scores(folder):
    write_table(folder / "clear/first.csv", seed=0)
    assert [data.name for data in read_folder(folder)] == ["first", "second"]
    assert [data.name for data in read_folder(folder, ["second"])] == ["second"]
    write_table(folder / "first.csv", seed=5)
    with pytest.raises(ValueError, match="different data sets have the same name: first"):
        read_folder(folder)


def test_bins_with_100_rows_are_read_with_a_table_of_either_subfolder(binned_folder):
    write_bins(binned_folder / "pcs/Own_bins.csv", 150)
    write_table(binned_folder / "pcs/Own.csv", seed=2, rows=150)
    write_table(binned_folder / "clear/Own.csv", seed=3, rows=150)
    own, second = read_binned(binned_folder)
    assert (own.name, second.name) == ("Own", "second")
    np.testing.assert_array_equal(own.y, np.loadtxt(binned_folder / "pcs/Own.csv", delimiter=",", skiprows=1)[:, 2])
    assert list(own.bins) == [("a", 0)]
    assert list(second.bins) == [("a", 0), ("a", 1), ("b", 1)]
    np.testing.assert_array_equal(second.bins["b", 1], np.arange(ROWS) >= 99)
    np.testing.assert_array_equal(second.y, read_folder(binned_folder, ["second"])[0].y)
    assert [data.name for data in read_binned(binned_folder, ["second"])] == ["second"]


def test_the_other_protocols_do_not_use_the_files_of_the_published_bins(binned_folder):
    before = [data.name for data in read_folder(binned_folder)]
    write_table(binned_folder / "pcs/third.csv", seed=2)
    assert [data.name for data in read_folder(binned_folder)] == before == ["first", "second"]


def test_the_published_result_is_that_of_the_narrowest_model(binned_folder):
    edit_text(binned_folder / "pcs/published.csv", "split_conformal,Lasso,0.91", "split_conformal,Lasso,0.93")
    found = published_results(binned_folder, read_binned(binned_folder))["second"]
    assert tuple(found) == PCS_METHODS
    assert found["pcs_oob"] == BinnedResult(0.91, 0.2, [0.87, 0.94, 0.9])
    assert found["split_conformal"] == BinnedResult(0.93, 0.4, [0.87, 0.94, 0.9], "Lasso")


def test_classes_have_equal_numbers_of_rows_in_increasing_order():
    assert equal_classes(np.array([5.0, 1.0, 3.0, 2.0, 4.0, 6.0]), 3).tolist() == [2, 0, 1, 0, 1, 2]


def test_the_measures_of_one_split():
    y = np.array([0.0, 1.0, 3.0, 1.0])
    lower, upper = np.zeros(4), np.array([1.0, 2.0, 2.0, 0.5])
    codes = np.array([0, 0, 1, 2])
    rows = TestRows(y, codes, codes, codes, target_deviation=2.0)
    task = Task(None, None, None, None, None, 0.9, 0)
    found = measured(Bounds(lower, upper, [(4, 9)]), task, rows, seconds=3.0, unit=0.5)
    score = interval_score(y, Intervals(lower, upper), level=0.9)
    assert score == pytest.approx((5.5 + 20 * 1.0 + 20 * 0.5) / 4)
    assert (found.coverage, found.interval_score, found.mean_width) == (0.5, score / 2, 5.5 / 4)
    assert (found.seconds, found.units) == (3.0, 6.0)
    assert found.thirds == Counts([2, 0, 0], [2, 1, 1])
    assert found.spread_classes.sizes == [2, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert found.p_value == pytest.approx(exact_p_value(2, [(4, 9)], 0.9))
    assert measured(Bounds(lower, upper), task, rows, seconds=1, unit=1).p_value is None


def test_bins_and_the_range_of_one_split_are_those_of_its_test_rows():
    split = [0, 1], [2, 3], [9, 5, 4, 6]
    y = np.arange(10.0)
    bins = {("a", 0): y < 6, ("a", 1): y >= 6, ("b", 2): y == 9}
    task, test = split_rows(DataSet("some", y[:, None], y, bins), SimpleNamespace(level=0.9, split=lambda *_: split), 0)
    codes = np.zeros(4, dtype=int)
    rows = TestRows(test.y, codes, codes, codes, 1.0, test.bins)
    lower, upper = np.array([9.0, 0.0, 5.0, 0.0]), np.array([9.5, 5.0, 6.0, 7.0])  # covers 9, 5 and 6, but not 4
    found = measured(Bounds(lower, upper), task, rows, seconds=1, unit=1)
    assert found.bins == Counts([1, 2, 1], [2, 2, 1])
    assert found.target_range == 5
    assert found.width_over_range == pytest.approx((0.5 + 5 + 1 + 7) / 4 / 5)
    assert Measured.from_json(json.dumps(asdict(found))) == found


def split_of(thirds, classes, **more):
    values = {"coverage": 0.9, "interval_score": 1.0, "target_deviation": 1.0, "mean_width": 1.0} | more
    return Measured(**{"seconds": 1.0, "units": 1.0} | values, thirds=thirds, spread_classes=classes, clusters=classes)


def test_the_worst_third_is_that_of_the_counts_of_all_splits():
    splits = [split_of(Counts([9, 5, 8], [10, 10, 10]), None), split_of(Counts([9, 10, 6], [10, 10, 10]), None)]
    assert worst_third(splits) == 0.7  # of the last third, though the middle one has the smallest count of a split


def test_bins_are_pooled_over_splits_and_widths_are_averaged():
    one = split_of(None, None, mean_width=2.0, target_range=4.0, bins=Counts([8, 5], [10, 5]))
    two = split_of(None, None, mean_width=3.0, target_range=10.0, coverage=0.8, bins=Counts([30, 0], [30, 0]))
    found = binned_result([one, two])
    assert found.bins == [0.95, 1.0]
    assert (found.coverage, found.width_over_range) == (pytest.approx(0.85), pytest.approx(0.4))
    assert found.root_mean_square(0.9) == pytest.approx(np.sqrt((0.05**2 + 0.1**2) / 2))
    assert found.worst_bin == 0.95


def published(width, bins):
    """The same published result of each method, but the narrowest of several models is twice as wide."""
    conformal = BinnedResult(0.91, 2 * width, bins, "MLP")
    return {name: conformal if "conformal" in name else BinnedResult(0.92, width, bins) for name in PCS_METHODS}


def binned_split(width, covered, coverage=0.9):
    """Of a data set with targets from 0 to 1 and bins of 1000 test rows."""
    bins = Counts(covered, [1000] * len(covered))
    return split_of(None, None, coverage=coverage, mean_width=width, target_range=1.0, bins=bins, seconds=2.0)


def test_the_tables_of_widths_and_bins_have_a_line_for_each_method_and_published_one():
    tables = PcsTables({"insurance": published(0.2, [0.87, 0.93]), "other": published(0.5, [0.9, 0.9])})
    split = binned_split(0.22, [880, 940])
    lines = table_rows("\n".join([*tables.header(), *tables.rows(data_set("insurance"), {"ours": [split]})]))
    assert lines[0] == list(PcsTables.columns)
    ours = ["insurance", "200", "ours", "0.900", "0.22", "1.100", "0.032", "0.880", "1", "2"]
    assert lines[2] == ours  # the root of (0.02² + 0.04²) / 2 is 0.0316
    assert lines[3] == ["insurance", "200", "pcs_oob", "0.920", "0.2", "1.000", "0.030", "0.870", "", ""]
    assert [line[2] for line in lines[4:6]] == ["pcs_uq", "majority_vote"]
    assert [line[2] for line in lines[6:]] == ["split_conformal (MLP)", "studentized_conformal (MLP)"]
    results = {"ours": {"insurance": [split], "other": [binned_split(0.4, [900, 890], coverage=0.91)]}}
    lines = table_rows("\n".join(tables.summary(results)))
    rms = (np.sqrt((0.02**2 + 0.04**2) / 2) + np.sqrt(0.01**2 / 2)) / 2
    assert lines[2] == ["ours", f"{np.sqrt(1.1 * 0.8):.3f}", "0.905", f"{rms:.3f}", "0.885"]
    assert lines[3] == ["pcs_oob", "1.000", "0.920", "0.015", "0.885"]
    assert lines[6] == ["split_conformal (narrowest model)", "2.000", "0.910", "0.015", "0.885"]
    only_other = table_rows("\n".join(tables.summary({"ours": {"other": results["ours"]["other"]}})))
    assert only_other[3] == ["pcs_oob", "1.000", "0.920", "0.000", "0.900"]


def test_the_bars_of_widths_and_bins_are_missed_and_reached():
    tables = PcsTables({name: published(1.0, [0.9, 0.9]) for name in ("insurance", "other")})

    def missed(insurance, other):
        return tables.missed({"evencover normal": {"insurance": [insurance], "other": [other]}})

    assert missed(binned_split(1.29, [880, 920]), binned_split(0.77, [920, 880])) == []
    assert missed(binned_split(0.86, [860, 900]), binned_split(1.14, [900, 860])) == [
        "evencover normal: the mean RMS over bins is 0.02828; the bar is at most 0.025."
    ]
    assert missed(binned_split(1.31, [850, 900], coverage=0.88), binned_split(1.16, [850, 900])) == [
        "evencover normal: the geometric mean width over pcs_oob is 1.233; the bar is at most 1.0.",
        "evencover normal: the width over pcs_oob on insurance is 1.31; the bar is at most 1.3.",
        "evencover normal: the width over pcs_oob on other is 1.16; the bar is at most 1.15.",
        "evencover normal: the mean coverage is 0.89; the bar is at least 0.895.",
        "evencover normal: the mean RMS over bins is 0.03536; the bar is at most 0.025.",
        "evencover normal: the mean coverage of the worst bin is 0.85; the bar is at least 0.86.",
    ]
    assert missed(binned_split(1.0, [900, 900], coverage=0.93), binned_split(1.0, [900, 900], coverage=0.92)) == [
        "evencover normal: the mean coverage is 0.925; the bar is at most 0.92."
    ]
    assert tables.missed({"evencover fast": {}}) == ["evencover normal was not measured."]


def test_contenders_are_methods_whose_worst_third_is_covered():
    def missed(ours, **others):
        def found(score, worst):
            thirds, classes = Counts([95, worst, 90], [100, 100, 100]), Counts([90], [100])
            return {"one": [split_of(thirds, classes, interval_score=score)]}

        results = {"evencover normal": found(ours, 88)} | {name: found(*each) for name, each in others.items()}
        return [each for each in EvenTables().missed(results) if " on one, " in each]

    assert missed(1.03, crepes=(1.0, 87)) == []
    assert missed(1.04, crepes=(1.0, 86)) == []
    assert missed(1.04, crepes=(1.0, 87)) == [
        "evencover normal: on one, the interval score is 1.040 times that of crepes; the bar is at most 1.03."
    ]


def test_the_root_mean_square_is_without_the_noise_of_the_test_rows():
    one, two = Counts([80, 95, 3], [100, 100, 19]), Counts([40], [50])
    squares = [0.01 - 0.0009, 0.0025 - 0.0009, 0.01 - 0.0018]  # the class of 19 rows is too small
    mean_square = ((squares[0] + squares[1]) / 2 + squares[2]) / 2
    found = root_mean_square({"first": [one], "second": [two]}, 0.9)
    assert found.root == pytest.approx(np.sqrt(mean_square))
    left_out = np.array([squares[2], (squares[0] + squares[1]) / 2])
    error = np.sqrt(np.sum((left_out - left_out.mean()) ** 2) / 2)
    assert found.standard_error == pytest.approx(error / (2 * found.root))


def test_the_root_mean_square_is_zero_if_the_noise_explains_the_coverage():
    found = root_mean_square({"first": [Counts([90], [100]), Counts([94], [100])]}, 0.9)
    mean_square, error = (-0.0009 + 0.0016 - 0.0009) / 2, 0.0016 / 2
    assert found.root == 0
    assert found.standard_error == pytest.approx(np.sqrt(mean_square + 2 * error) / 2)
    assert np.isnan(root_mean_square({"first": [Counts([5], [5])]}, 0.9).root)


def test_the_p_value_of_the_coverage_is_that_of_simulated_thresholds():
    rng, pools, level = np.random.default_rng(0), [(12, 19), (7, 8), (9, 30)], 0.8
    repeats, covered = 40_000, 0
    for m, n in pools:
        scores, rank = np.sort(rng.random((repeats, n)), axis=1), conformal_rank(n, level)
        covered = covered + (rng.random((repeats, m)) <= scores[:, [rank - 1]]).sum(axis=1)
    for seen in (15, 19, 22, 28):
        expected = min(1.0, 2 * min(np.mean(covered <= seen), np.mean(covered >= seen)))
        assert exact_p_value(seen, pools, level) == pytest.approx(expected, abs=0.015)
    assert exact_p_value(10, [(10, 3)], 0.9) == 1  # too few calibration rows: all are covered
    assert exact_p_value(9, [(10, 3)], 0.9) == 0


def test_the_smallest_p_value_is_adjusted_for_the_number_of_tests():
    splits = [split_of(None, None, p_value=p) for p in (0.5, 0.01, None, 0.2)]
    assert smallest_p_value(splits) == pytest.approx(0.03)
    assert smallest_p_value(splits[2:3]) is None


def test_times_are_geometric_means_and_maxima_over_splits():
    counts = Counts([90], [100])
    found = summary({"set": [split_of(counts, counts, seconds=t, units=10 * t) for t in (1.0, 4.0)]}, 0.9)
    assert (found.seconds, found.max_seconds) == (pytest.approx(2), 4)
    assert (found.units, found.max_units) == (pytest.approx(20), 40)


def test_the_former_rule_prefers_the_simplest_of_the_narrowest_even_candidates():
    def candidate(width, verdict="even", taxonomy=None, transform=None, tails="joint", score=None):
        return SimpleNamespace(
            width=width,
            verdict=verdict,
            taxonomy=taxonomy or Marginal(),
            transform=transform,
            tails=tails,
            nonconformity=score or Normalized(),
        )

    narrow = candidate(1.0, taxonomy=BySpread(5))
    assert narrowest_even([narrow, candidate(0.5, "uneven"), candidate(1.2)]) is narrow
    simple = candidate(1.009, taxonomy=BySpread(3))
    log, tails = candidate(1.0, transform="log", taxonomy=BySpread(3)), candidate(1.0, tails="separate")
    assert narrowest_even([narrow, log, simple]) is simple
    assert narrowest_even([narrow, log, simple, tails]) is tails
    unknown = candidate(0.1, score=SimpleNamespace())
    assert narrowest_even([unknown, candidate(2.0, "undecided", score=Residual())]).width == 2.0


def test_the_command_prints_rows_and_a_summary_and_passes_with_good_intervals(folder, capsys):
    assert run(folder, "--check", "--seeds", "3") == 0
    printed = capsys.readouterr()
    assert "No bar is missed." in printed.out
    assert "first evencover normal 0 ..." in printed.err
    header, _, *rows = table_rows(printed.out)
    assert [tuple(row[:3]) for row in rows[:4]] == [
        ("first", "2 000", "evencover normal"),
        ("first", "2 000", "former default"),
        ("first", "2 000", "MAPIE CQR"),
        ("second", "2 000", "evencover normal"),
    ]
    assert header[:4] == ["data set", "rows", "method", "interval score"]
    assert [row[4] for row in rows[1:3]] == ["1.00", "1.00"]
    assert CALLS[:2] == [(0, 800, 800, 400), (1, 800, 800, 400)]


def test_the_check_fails_and_says_which_bars_are_missed(folder, capsys):
    assert run(folder, "first", "--check", default=UNEVEN) == 1
    missed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("evencover normal:")]
    assert any("the RMS over spread classes is" in line for line in missed)
    assert any("the worst third is" in line for line in missed)
    assert run(folder, "second", "--check", default=WIDE) == 1
    text = capsys.readouterr().out
    assert "the interval score is 1.000 times that of former default; the bar is at most 0.8." in text
    assert "the smallest Holm-adjusted p-value of the coverage is not known" in text


def test_results_are_stored_and_not_measured_again(folder, capsys):
    run(folder, "first")
    assert len(CALLS) == 2
    path = folder / "results/first-even-evencover_normal-1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mean_width": 1e6}))
    (folder / "results/first-even-MAPIE_CQR-0.json").unlink()
    capsys.readouterr()
    run(folder, "first")
    assert len(CALLS) == 2
    printed = capsys.readouterr()
    assert printed.err.splitlines() == ["first judge 0 ...", "first MAPIE CQR 0 ..."]
    assert float(table_rows(printed.out)[2][7].replace(" ", "")) > 5e5


def test_published_scores_are_compared_on_their_splits(folder, capsys):
    assert run(folder, "--protocol", "published", "--check") == 1
    printed = capsys.readouterr().out
    header, _, first, *_ = table_rows(printed)
    cells = dict(zip(header, first, strict=True))
    assert (cells["data set"], cells["CLEAR a"], cells["CLEAR c"], cells["best CQR"]) == ("second", "10", "30", "10")
    assert CALLS == [(0, 1200, 400, 400), (1, 1200, 400, 400)]
    data = read_folder(folder, ["second"])[0]
    scores = []
    for seed in range(2):
        task, test = split_rows(data, PUBLISHED, seed)
        bounds = conformal(task, noise)
        scores.append(interval_score(test.y, Intervals(bounds.lower, bounds.upper), level=0.95))
    assert float(cells["over best CLEAR"]) == pytest.approx(np.mean(scores) / 10, abs=0.001)
    assert "evencover normal: on second, the interval score is" in printed


def test_widths_and_bins_are_compared_on_the_published_splits(binned_folder, capsys):
    run(binned_folder, "--protocol", "pcs", "--check", default=WIDE)
    printed = capsys.readouterr().out
    header, _, first, *_ = table_rows(printed)
    cells = dict(zip(header, first, strict=True))
    data = read_binned(binned_folder)[0]
    ranges = [np.ptp(split_rows(data, PCS, seed)[1].y) for seed in range(2)]
    assert (cells["data set"], cells["method"], cells["worst bin"]) == ("second", "evencover normal", "1.000")
    assert float(cells["width over pcs_oob"]) == pytest.approx(np.mean(40 / np.array(ranges)) / 0.2, abs=0.001)
    assert "| second | 2 000 | split_conformal (Lasso) | 0.910 | 0.4 | 2.000 |" in printed
    assert "evencover normal: the mean coverage is 1; the bar is at most 0.92." in printed


@pytest.mark.parametrize("protocol", list(PAGE_MARKS))
def test_the_page_gets_the_tables_between_its_marks(binned_folder, protocol):
    folder = binned_folder
    page, marks = folder / "page.md", PAGE_MARKS[protocol]
    page.write_text(f"before\n{marks[0]}\nold\n{marks[1]}\nafter\n")
    run(folder, "second", "--page", str(page), "--protocol", protocol, "--seeds", "1", default=WIDE)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| second | 2 000 | evencover normal |" in text


def test_the_documentation_has_the_marks():
    from tests.test_docs import ROOT

    text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert all(text.count(mark) == 1 for marks in PAGE_MARKS.values() for mark in marks)


def test_the_figure_is_written(folder):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    run(folder, "first", "--seeds", "1", "--figure", str(folder / "pictures/figure.png"))
    assert (folder / "pictures/figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "--seeds must be 1 or more; got 0"),
        (["--workers", "0"], "--workers must be 1 or more; got 0"),
        (["prices"], "no data set named prices; the data sets are: bad, first, second, short"),
        (["--data-dir", "nowhere"], "no folder nowhere"),
        (["bad"], "bad.csv: all cells below the header must be numbers"),
        (["short"], "short.csv: needs at least 100 rows and 2 columns; got 99 rows, 3 columns"),
        (["first", "--protocol", "published"], "published.csv has no scores of these data sets"),
        (["second", "--protocol", "published", "--seeds", "3"], "published.csv has no scores of these data sets"),
        (["first", "--protocol", "published", "--figure", "x.png"], "--figure is only for --protocol even"),
        (["first", "--page", "nowhere.md"], "nowhere.md"),
    ],
)
def test_bad_options_and_files_are_errors(folder, capsys, arguments, message):
    (folder / "bad.csv").write_text("a,target\n" + "1,2\n" * 100 + "1,two\n")
    write_table(folder / "short.csv", rows=99)
    with pytest.raises(SystemExit):
        run(folder, *arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("pcs/published.csv", None, None, "published.csv, which the protocol 'pcs' needs"),
        ("pcs/published_bins.csv", None, None, "published_bins.csv, which the protocol 'pcs' needs"),
        ("pcs/second_bins.csv", None, None, "no files NAME_bins.csv in"),
        ("clear/second.csv", None, None, "second.csv or "),
        ("pcs/second_bins.csv", "0,0", "0,none", "second_bins.csv: all cells below the header must be whole numbers"),
        ("pcs/second_bins.csv", "a,b", "a,b\n0,0", "as many rows as the data set, 2000"),
        ("pcs/second_bins.csv", "a,b", "a,b,c", "as many columns as the header, 3; got 2000 rows, 2 columns"),
        ("pcs/published.csv", "majority_vote", "other", "published.csv has no results of majority_vote for second"),
        ("pcs/published_bins.csv", "b,1", "b,0", "published_bins.csv has no coverage of pcs_oob for second in: b 1"),
        (
            "pcs/published.csv",
            "Ridge,0.91,0.5",
            "Ridge,0.91,0.3",
            "has no coverage of split_conformal Ridge for second",
        ),
    ],
)
def test_bad_files_of_published_bins_are_errors(binned_folder, capsys, file, old, new, message):
    path = binned_folder / file
    path.unlink() if old is None else edit_text(path, old, new)
    with pytest.raises(SystemExit):
        run(binned_folder, "--protocol", "pcs")
    assert message in capsys.readouterr().err


def test_data_sets_without_bins_are_an_error(binned_folder, capsys):
    with pytest.raises(SystemExit):
        run(binned_folder, "first", "--protocol", "pcs")
    assert "no data set named first; the data sets are: second" in capsys.readouterr().err


def test_a_missing_package_is_an_error(folder, capsys):
    with pytest.raises(SystemExit):
        main(["--data-dir", str(folder)], methods={"other": Method(wide, ("no_such_package.module",))})
    assert "packages are missing for other" in capsys.readouterr().err


KILLED_WHILE_MEASURING = """
import time

from benchmarks.intervals import _mapped


def slow(seconds):
    if seconds:
        time.sleep(seconds)
    return seconds


if __name__ == "__main__":
    for seconds in _mapped(slow, [(0,), (600,), (600,)], workers=2):
        print(seconds, flush=True)
"""


@pytest.mark.system
def test_workers_end_when_their_parent_is_killed(tmp_path):
    driver = tmp_path / "driver.py"
    driver.write_text(KILLED_WHILE_MEASURING)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    with subprocess.Popen([sys.executable, driver], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "0\n"
        workers = descendants(process.pid, parents())
        process.kill()
    assert len(workers) >= 2
    assert not still_there(workers)


def test_the_default_has_the_rows_of_each_threshold(monkeypatch):
    use_light_stack(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    y = noise(X) * rng.standard_normal(600)
    task = Task(X[:200], y[:200], X[200:400], y[200:400], X[400:], 0.9, 0)
    bounds = default_bounds(task, effort="fast")
    assert np.isfinite(bounds.upper - bounds.lower).all()
    tested, calibrated = np.sum(bounds.pools, axis=0)
    assert tested == 200
    assert calibrated >= 200  # rows on an edge have a threshold of their own, which shares calibration rows


def task_without_calibration_rows():
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    y = noise(X) * rng.standard_normal(600)
    return Task(X[:400], y[:400], X[:0], y[:0], X[400:], 0.8, 7)


def test_a_study_gets_all_training_rows_and_nothing_else(monkeypatch):
    seen = {}

    class Regressor:
        def predict_interval(self, X, *, level):
            seen["test"], seen["level"] = X, level
            return Intervals(np.zeros(len(X)), np.ones(len(X)))

    def recorded_study(table, target, **settings):
        seen.update(table=table, target=target, settings=settings)
        return SimpleNamespace(regressor=Regressor())

    monkeypatch.setattr(interval_methods, "study", recorded_study)
    task = task_without_calibration_rows()
    bounds = study_bounds(task, effort="fast")
    features = seen["table"].drop(columns=seen["target"])
    np.testing.assert_array_equal(features.to_numpy(), task.X_train)
    np.testing.assert_array_equal(seen["table"][seen["target"]], task.y_train)
    np.testing.assert_array_equal(seen["test"].to_numpy(), task.X_test)
    assert list(features) == list(seen["test"])
    assert seen["settings"] == {"plan": Plan(level=0.8, seed=7, effort="fast")}
    assert seen["level"] == 0.8
    assert (bounds.lower.tolist(), bounds.upper.tolist()) == ([0.0] * 200, [1.0] * 200)


def test_a_study_divides_the_training_rows_itself(monkeypatch):
    use_light_stack(monkeypatch)
    task = task_without_calibration_rows()
    bounds = study_bounds(task, effort="fast")
    coverage = norm.cdf(bounds.upper / noise(task.X_test)) - norm.cdf(bounds.lower / noise(task.X_test))
    assert coverage.mean() == pytest.approx(0.8, abs=0.1)


def test_only_studies_are_compared_with_published_widths(binned_folder, capsys, monkeypatch):
    use_light_stack(monkeypatch)
    words = ["--data-dir", str(binned_folder), "--output", str(binned_folder / "results"), "--seeds", "1"]
    assert main([*words, "--protocol", "pcs", "--efforts", "fast"]) == 0
    lines = table_rows(capsys.readouterr().out)
    assert lines[2][:3] == ["second", "2 000", "evencover fast"]
    assert lines[3][2] == "pcs_oob"
