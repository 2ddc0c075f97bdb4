"""The benchmark of interval scores: splits, stored results, published scores, the page, the default before."""

import json

import numpy as np
import pytest
from benchmarks.interval_scores import (
    COLUMNS,
    FILES,
    LEVEL,
    PAGE_MARKS,
    PUBLISHED_FILE,
    Training,
    main,
    symmetric_default,
)
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from evencover import Intervals, Prediction, interval_score
from evencover.synthetic import skewed

MADE = []  # seed and sizes of each predictor


class Fixed:
    """A predictor whose intervals are the training mean ± 2; it notes how it was made."""

    def __init__(self, training):
        self.training = training
        MADE.append((training.seed, len(training.y), training.calibration_rows, training.test_rows))

    def calibrate(self, X, y):
        assert len(y) == self.training.calibration_rows
        return self

    def predict_interval(self, X, level):
        assert level == LEVEL
        center = np.full(len(X), self.training.y.mean())
        return Intervals(center - 2, center + 2)


@pytest.fixture
def folder(tmp_path):
    """Three small tables, and published scores of one of them."""
    (tmp_path / "clear").mkdir()
    for number, file in enumerate(FILES.values()):
        sample = skewed().sample(100, seed=number)
        rows = np.column_stack([sample.X, sample.y])
        np.savetxt(tmp_path / file, rows, delimiter=",", header="a,b,c,target", comments="")
    (tmp_path / PUBLISHED_FILE).write_text(
        "set,variant,method,seed,coverage,mean_width,interval_score\n"
        "insurance,a,cqr,0,0.9,1000,2000\ninsurance,a,cqr,1,1.0,3000,4000\ninsurance,a,cqr,2,0,0,0\n"
        "insurance,a,pcs,0,0,0,0\nsulfur,b,clear,0,0.5,1,3\n"
    )
    MADE.clear()
    return tmp_path


def run(folder, *more):
    return main(
        ["--data-dir", str(folder), "--output", str(folder / "results"), "--seeds", "2", *more], predictors=FIXED
    )


FIXED = {"fixed": Fixed, "again": Fixed}


def table(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_table_has_a_row_for_each_predictor_and_each_published_method(folder, capsys):
    assert run(folder) == 0
    header, _, *rows = table(capsys.readouterr().out)
    assert tuple(header) == COLUMNS
    assert [(cells[0], cells[1]) for cells in rows] == [
        ("insurance", "fixed"),
        ("insurance", "again"),
        ("insurance", "CQR (published, variant a)"),
        ("sulfur", "fixed"),
        ("sulfur", "again"),
        ("sulfur", "CLEAR (published, variant b)"),
        ("crime2", "fixed"),
        ("crime2", "again"),
    ]
    assert rows[2][2:] == ["3 000", rows[2][3], "0.950", "2 000", ""]
    assert MADE[:2] == [(777, 60, 20, 20), (778, 60, 20, 20)]


def test_the_interval_score_is_that_of_the_documented_splits(folder, capsys):
    run(folder, "insurance")
    rows = np.loadtxt(folder / FILES["insurance"], delimiter=",", skiprows=1)
    scores = []
    for seed in (777, 778):
        rest, test = train_test_split(rows[:, -1], test_size=0.2, random_state=seed)
        center = np.full(20, train_test_split(rest, test_size=0.25, random_state=seed)[0].mean())
        scores.append(interval_score(test, Intervals(center - 2, center + 2), level=0.95))
    printed = table(capsys.readouterr().out)[2]
    assert printed[2:4] == [f"{np.mean(scores):.3g}", "1.00"]


def test_results_are_stored_and_not_measured_again(folder, capsys):
    run(folder, "sulfur")
    assert len(MADE) == 4
    path = folder / "results" / "sulfur-fixed-777.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mean_width": 10.0}))
    capsys.readouterr()
    run(folder, "sulfur")
    assert len(MADE) == 4
    assert table(capsys.readouterr().out)[2][5] == "7"  # the mean of 10 and 4


def test_the_page_gets_the_table_between_its_marks(folder):
    page = folder / "page.md"
    page.write_text(f"before\n{PAGE_MARKS[0]}\nold\n{PAGE_MARKS[1]}\nafter\n")
    run(folder, "crime2", "--page", str(page))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "Means over 2 splits." in text
    assert len(table(text)) == 4


def test_the_documentation_has_the_marks():
    from tests.test_docs import ROOT

    text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert all(text.count(mark) == 1 for mark in PAGE_MARKS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "--seeds must be 1 or more; got 0"),
        (["prices"], "NAME must be one of insurance, sulfur, crime2; got prices"),
        (["--data-dir", "nowhere"], "--data-dir must have the files clear/insurance.csv"),
    ],
)
def test_bad_options_are_errors(folder, capsys, arguments, message):
    with pytest.raises(SystemExit):
        run(folder, *arguments)
    assert message in capsys.readouterr().err


class Quantiles(LinearRegression):
    """A model that predicts skewed quantiles."""

    def predict_full(self, X):
        center = self.predict(X)
        quantiles = center[:, None] + np.array([-1.0, 0.0, 8.0])
        return Prediction(center, np.ones(len(center)), quantiles=quantiles, probabilities=[0.1, 0.5, 0.9])


def test_the_default_without_quantiles_has_symmetric_intervals(monkeypatch):
    monkeypatch.setattr(Training, "boosting", lambda self: Quantiles())
    sample, new = skewed().sample(300, seed=0), skewed().sample(100, seed=1)
    regressor = symmetric_default(Training(sample.X, sample.y, 100, 100, 0)).calibrate(new.X, new.y)
    intervals = regressor.predict_interval(new.X, level=0.9)
    np.testing.assert_allclose((intervals.lower + intervals.upper) / 2, regressor.predict(new.X))
