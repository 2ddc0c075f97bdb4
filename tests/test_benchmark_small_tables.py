"""The benchmark of models for small tables, with quick predictors on one synthetic table."""

import numpy as np
import pytest
from benchmarks import small_table_models
from benchmarks.small_table_models import COLUMNS, PAGE_MARKS, measure
from sklearn.linear_model import LinearRegression

from evencover import CrossConformalRegressor, Normalized
from evencover.models import NeighborSpread, WithSpread
from evencover.synthetic import heteroskedastic

SAMPLE = heteroskedastic(400, seed=0)
MODEL = WithSpread(LinearRegression(), NeighborSpread(), random_state=0)
PREDICTORS = {
    "residual": lambda X, y: CrossConformalRegressor(MODEL, cv=5, random_state=0).fit(X, y),
    "normalized": lambda X, y: CrossConformalRegressor(MODEL, cv=5, nonconformity=Normalized(), random_state=0).fit(
        X, y
    ),
}


@pytest.fixture
def options(tmp_path, monkeypatch):
    tables = {"synthetic": (SAMPLE.X, SAMPLE.y), "mtcars": (SAMPLE.X[:40], SAMPLE.y[:40])}
    monkeypatch.setattr(small_table_models, "_tables", lambda _: tables)
    page = tmp_path / "page.md"
    page.write_text("before\n{}\n{}\nafter\n".format(*PAGE_MARKS))
    return ["--sizes", "60", "--seeds", "2", "--output", str(tmp_path / "results"), "--page", str(page)]


def test_each_predictor_is_compared_with_the_first(options, tmp_path, capsys):
    assert small_table_models.main(options, predictors=PREDICTORS) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    cells = [dict(zip(COLUMNS, line.strip("| ").split(" | "), strict=True)) for line in lines[2:]]
    assert [(each["rows"], each["predictor"]) for each in cells] == [
        (rows, name) for rows in ("60", "32 to 263") for name in PREDICTORS
    ]
    assert cells[0]["relative score"] == cells[2]["relative score"] == "1.00"
    assert all(line in (tmp_path / "page.md").read_text() for line in lines)
    assert len(list((tmp_path / "results").iterdir())) == 4


def test_results_are_not_measured_again(options, capsys):
    small_table_models.main(options, predictors=PREDICTORS)
    first = capsys.readouterr()
    assert small_table_models.main(options, predictors=dict.fromkeys(PREDICTORS)) == 0
    second = capsys.readouterr()
    assert second.out == first.out
    assert "..." in first.err
    assert second.err == ""


def test_a_measurement():
    training, test = np.arange(100), np.arange(100, 400)
    found = measure(PREDICTORS["residual"], SAMPLE.X, SAMPLE.y, [(training, test)])
    intervals = PREDICTORS["residual"](SAMPLE.X[:100], SAMPLE.y[:100]).predict_interval(SAMPLE.X[100:], level=0.9)
    assert found.coverage == intervals.covers(SAMPLE.y[100:]).mean()
    assert found.coverage == pytest.approx(np.mean(found.thirds))
    assert found.thirds[2] < found.thirds[0]  # one width for all, and the noise varies
