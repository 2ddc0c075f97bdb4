"""The benchmark of intervals: data, splits, measures, stored results, bars, the page, the figure and errors."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import interval_measures
from benchmarks.interval_data import EVEN, PUBLISHED, DataSet, read_folder, without_duplicates
from benchmarks.interval_measures import (
    Counts,
    Measured,
    TestRows,
    equal_classes,
    exact_p_value,
    measured,
    root_mean_square,
    smallest_p_value,
    split_rows,
    summary,
    worst_third,
)
from benchmarks.interval_methods import Bounds, Method, Task, default_bounds, narrowest_even
from benchmarks.intervals import PAGE_MARKS, main
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from evencover import BySpread, Intervals, Marginal, Normalized, Residual, conformal_rank, interval_score
from evencover.models import QuantileForest
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
    task, y_test = split_rows(data, PUBLISHED, 2)
    X_rest, X_test, y_rest, expected = train_test_split(data.X, data.y, test_size=0.2, random_state=779)
    X_train, X_cal, y_train, y_cal = train_test_split(X_rest, y_rest, test_size=0.25, random_state=779)
    assert task.level == 0.95
    for found, part in zip(
        (task.X_train, task.y_train, task.X_cal, task.y_cal, task.X_test, y_test),
        (X_train, y_train, X_cal, y_cal, X_test, expected),
        strict=True,
    ):
        np.testing.assert_array_equal(found, part)


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


def split_of(thirds, classes, **more):
    values = {"coverage": 0.9, "interval_score": 1.0, "target_deviation": 1.0, "mean_width": 1.0} | more
    return Measured(**{"seconds": 1.0, "units": 1.0} | values, thirds=thirds, spread_classes=classes, clusters=classes)


def test_the_worst_third_is_that_of_the_counts_of_all_splits():
    splits = [split_of(Counts([9, 5, 8], [10, 10, 10]), None), split_of(Counts([9, 10, 6], [10, 10, 10]), None)]
    assert worst_third(splits) == 0.7  # of the last third, though the middle one has the smallest count of a split


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
        task, y_test = split_rows(data, PUBLISHED, seed)
        bounds = conformal(task, noise)
        scores.append(interval_score(y_test, Intervals(bounds.lower, bounds.upper), level=0.95))
    assert float(cells["over best CLEAR"]) == pytest.approx(np.mean(scores) / 10, abs=0.001)
    assert "evencover normal: on second, the interval score is" in printed


@pytest.mark.parametrize("protocol", list(PAGE_MARKS))
def test_the_page_gets_the_tables_between_its_marks(folder, protocol):
    page, marks = folder / "page.md", PAGE_MARKS[protocol]
    page.write_text(f"before\n{marks[0]}\nold\n{marks[1]}\nafter\n")
    run(folder, "second", "--page", str(page), "--protocol", protocol, "--seeds", "1")
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
