"""The benchmarks of few rows: the simulation with its picture and table, and the comparison on tables."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks import small_data, small_tables
from benchmarks.small_data import LEVEL, METHODS, PAGE_MARKS, Simulated, mean_and_error, repeats_of, simulate
from sklearn.linear_model import LinearRegression

from evencover import ConformalRegressor, coverage, interval_score, mean_width
from evencover.synthetic import functional_dependence

ROOT = Path(__file__).parent.parent
PAGE = "Before.\n\n{}\n\nold\n\n{}\n\nAfter.\n"


def test_a_repeat_has_the_exact_coverage_and_the_width_relative_to_the_true_quantiles():
    found = simulate("split", 60, 3)
    data = functional_dependence()
    new, old = data.sample(500, seed=1_000_000), data.sample(60, seed=np.random.default_rng([2, 60]))
    intervals = ConformalRegressor(LinearRegression(), random_state=2).fit(old.X, old.y).predict_interval(new.X, LEVEL)
    assert found.coverage[2] == pytest.approx(data.coverage(intervals, new.X).mean())
    best = data.oracle_interval(new.X, level=LEVEL)
    assert found.width[2] == pytest.approx(intervals.width.mean() / best.width.mean())
    assert len(set(found.width)) == 3


@pytest.mark.parametrize(("method", "proven"), [("split", 0.9), ("CV+", 42 / 55), ("jackknife+", 42 / 51)])
def test_the_proven_coverage_is_that_of_the_guarantee(method, proven):
    assert simulate(method, 50, 1).proven == pytest.approx(proven)


def test_using_every_row_twice_makes_intervals_narrower():
    split, cross = (simulate(method, 50, 40).width for method in ("split", "CV+"))
    mean, error = mean_and_error(split - cross)
    assert mean > 2 * error


def test_jackknife_has_fewer_repeats_with_many_rows():
    assert [repeats_of("jackknife+", n, 300) for n in (20, 100, 2000)] == [300, 80, 8]
    assert repeats_of("jackknife+", 2000, 5) == 5
    assert {repeats_of(method, 2000, 300) for method in METHODS} == {300, 8}


def test_the_mean_has_a_95_percent_interval():
    values = np.array([1.0, 2.0, 3.0, 6.0])
    assert mean_and_error(values) == pytest.approx((3, 1.96 * values.std(ddof=1) / 2))
    assert Simulated(np.linspace(0, 1, 11), values, LEVEL).low_coverage == pytest.approx(0.1)


def test_the_command_prints_a_table_draws_a_picture_and_updates_a_page(tmp_path, capsys, monkeypatch):
    page, picture = tmp_path / "page.md", tmp_path / "picture.png"
    page.write_text(PAGE.format(*PAGE_MARKS))
    options = ["--sizes", "30", "40", "--repeats", "2", "--output", str(tmp_path / "results")]
    options += ["--picture", str(picture), "--page", str(page)]
    assert small_data.main(options) == 0
    printed = capsys.readouterr().out.strip()
    assert [line.split(" | ")[0] for line in printed.splitlines()] == ["| rows", "| ---", "| 30", "| 40"]
    assert all(line.count("|") == 5 for line in printed.splitlines())
    assert page.read_text() == PAGE.format(*PAGE_MARKS).replace("old", printed)
    assert picture.read_bytes().startswith(b"\x89PNG")
    monkeypatch.delattr(small_data, "simulate")  # stored results are not computed again
    assert small_data.main(options) == 0
    assert capsys.readouterr().out.strip() == printed


def test_the_picture_shows_each_method_and_what_is_proven():
    found = {(method, n): simulate(method, n, 2) for method in METHODS for n in (30, 40)}
    left, right = small_data.picture(found).axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == list(METHODS)
    assert [text.get_text() for text in right.get_legend().get_texts()] == [
        "proven for split (the level)",
        "proven for CV+",
        "proven for jackknife+",
    ]
    assert [container.lines[0].get_ydata()[1] for container in left.containers] == pytest.approx(
        [found[method, 40].width.mean() - 1 for method in METHODS]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sizes", "10", "50"), "--sizes must be 20 or more, so that intervals are finite; got 10"),
        (("--repeats", "1"), "--repeats must be 2 or more; got 1"),
    ],
)
def test_invalid_numbers_are_errors(options, message, capsys):
    with pytest.raises(SystemExit):
        small_data.main(options)
    assert message in capsys.readouterr().err


@pytest.fixture
def table(tmp_path):
    """A small table."""
    sample = functional_dependence().sample(90, seed=0)
    path = tmp_path / "table.csv"
    names = ",".join([*(f"x{i}" for i in range(10)), "y"])
    np.savetxt(path, np.column_stack([sample.X, sample.y]), delimiter=",", header=names, comments="")
    return path


def test_methods_are_compared_on_the_same_rows_of_a_table(table, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(*small_tables.PAGE_MARKS))
    options = ("--tables", str(table), "--sizes", "30", "--models", "ridge", "--repeats", "2", "--page", str(page))
    assert small_tables.main(options) == 0
    printed = capsys.readouterr().out.strip()
    cells = printed.splitlines()[-1].strip("| ").split(" | ")
    assert cells[:2] == ["ridge", "30"]
    assert len(cells) == 2 + len(small_tables.METHODS)
    assert cells[2].startswith("1.00, ")
    assert page.read_text() == PAGE.format(*small_tables.PAGE_MARKS).replace("old", printed)


def test_a_measurement_of_a_table_is_that_of_its_intervals(table):
    values = np.loadtxt(table, delimiter=",", skiprows=1)
    X, y = values[:, :-1], values[:, -1]
    found = small_tables.measure(X, y, "ridge", 30, "split", 2)
    order = np.random.default_rng([1, 30]).permutation(90)
    old, new = order[:30], order[30:]
    model = ConformalRegressor(small_tables.MODELS["ridge"](), random_state=1).fit(X[old], y[old])
    intervals = model.predict_interval(X[new], level=0.9)
    expected = interval_score(y[new], intervals, level=0.9), coverage(y[new], intervals), mean_width(intervals)
    assert (found.interval_score[1], found.coverage[1], found.mean_width[1]) == pytest.approx(expected)


def test_relative_scores_have_the_standard_error_of_a_ratio():
    split, own = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0])
    zeros = np.zeros(3)
    found = {("t", "ridge", 50, "split"): small_tables.Measured(split, zeros, zeros)}
    found["t", "ridge", 50, "CV+"] = small_tables.Measured(own, zeros, zeros)
    assert small_tables.relative(found, ("t", "ridge", 50, "split")) == pytest.approx((1, 0))
    assert small_tables.relative(found, ("t", "ridge", 50, "CV+")) == pytest.approx((0.5, 0.5 / np.sqrt(3) / 2))
    assert small_tables.summary(found)[-1] == "| ridge | 50 | 1.00, 0.000 | 0.50, 0.000 | – | – |"


def test_the_page_has_the_tables_of_both_commands():
    text = (ROOT / "docs/howto/small_data.md").read_text(encoding="utf-8")
    for module, cells in ((small_data, ("50", "100", "200", "500", "1 000", "2 000")), (small_tables, ("ridge",) * 4)):
        between = text.partition(module.PAGE_MARKS[0])[2].partition(module.PAGE_MARKS[1])[0]
        first = [line.split(" | ")[0].strip("| ") for line in between.strip().splitlines()[2:]]
        assert tuple(first[: len(cells)]) == cells
