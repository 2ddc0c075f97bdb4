"""The comparison with other models: the rows of a run, columns as numbers, intervals, numbers that are kept."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from benchmarks import peer_models, table_peers
from benchmarks.generated_tables import GENERATORS, generated_frame
from benchmarks.peer_models import Features, boosting, cross_cqr, outside, ridge, split_cqr, widened
from benchmarks.table_peers import (
    COLUMNS,
    PeerScores,
    UsedRows,
    compare,
    kept_scores,
    main,
    peers_of_run,
    studied,
    turns,
)
from benchmarks.table_sources import Table

from evencover.report.writing import data_of
from evencover.studies import Plan, TableError, study
from evencover.tables.files import read_table, write_table

PEERS = PeerScores(0.5, 0.75, interval_score=4.0, coverage=0.9, mean_width=3.0, seconds=1.0)
TRUE_R2 = {"states": 0.98, "customers": 0.82, "schools": 0.89, "machines": 0.54, "million": 0.82, "wide": 0.91}
LINEAR = Plan("linear")


@pytest.fixture
def file(tmp_path):
    """Write a table of 400 rows: dates, a category, patients, and a target that is missing twice."""
    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=400), rng.choice(["a", "b", "c"], size=400).astype(object)
    y = x + (kind == "a") + 0.1 * rng.normal(size=400)
    y[[3, 200]], kind[5] = np.nan, None
    day = (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.permutation(400), unit="D")).strftime("%d.%m.%Y")
    frame = pd.DataFrame({"x": x, "kind": kind, "day": day, "patient": np.arange(400) // 2, "y": y})
    frame.to_csv(tmp_path / "table.csv")
    return tmp_path / "table.csv"


@pytest.fixture
def without_lightgbm(monkeypatch):
    """Let ridge stand in for LightGBM, and its prediction for both quantiles."""

    def stand_in(features, rows, y, *, quantile=None):
        return ridge(features, rows, y)

    for module in (peer_models, table_peers):
        monkeypatch.setattr(module, "boosting", stand_in)


def quiet_study(file, plan=LINEAR, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return study(file, "y", plan=plan, missing_target="drop", **settings)


def written_run(found, folder):
    """Write what the peers read of the folder of a run."""
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(data_of(found)))
    write_table(found.columns_of_intervals(), folder / "intervals.csv")
    return folder


@pytest.mark.parametrize("settings", [{}, {"clusters": "patient"}, {"time": "day"}, {"copies": "drop"}])
def test_the_rows_of_a_run_are_found_again(file, settings):
    """The folder of a run has its test rows alone: held-out rows, or one of each held-out cluster."""
    if "copies" in settings:
        table = pd.read_csv(file)
        pd.concat([table, table[::2]]).to_csv(file, index=False)
    found, table = quiet_study(file, **settings), read_table(file)
    again, expected = UsedRows.of_run(data_of(found), table, found.test.positions), UsedRows.of(found, table)
    assert again.kind == expected.kind == ("order" if "time" in settings else "turns")
    for use in ("training", "calibration", "test"):
        assert sorted(getattr(again, use)) == sorted(getattr(expected, use))


def test_as_many_rows_of_a_large_table_are_training_rows(file):
    """Which rows are in its sample is not known."""
    table, test = read_table(file), np.arange(50, 90)
    rows = {"training": 60, "diagnosis": 20, "calibration": 100, "test": 40}
    results = {"target": "y", "clusters": None, "time": None, "calibration": "split", "seed": 0, "rows": rows}
    used = UsedRows.of_run(results, table, test)
    assert len(used.training) == 60
    all_rows = np.flatnonzero(pd.read_csv(file)["y"].notna()).tolist()
    assert sorted([*used.training, *used.calibration, *used.test]) == all_rows


@pytest.mark.slow
def test_the_rows_of_a_cross_fitted_run_are_found_again(file):
    pd.read_csv(file, nrows=40).to_csv(file, index=False)
    found, table = quiet_study(file, Plan("linear", calibration="cross")), read_table(file)
    again, expected = UsedRows.of_run(data_of(found), table, found.test.positions), UsedRows.of(found, table)
    assert again.kind == expected.kind == "cross"
    for use in ("training", "test"):
        assert sorted(getattr(again, use)) == sorted(getattr(expected, use)) == [0, 1, 2, *range(4, 40)]


def test_rows_of_another_table_are_an_error(file):
    rows = {"training": 300, "held_out": 100}
    results = {"target": "y", "clusters": None, "time": None, "calibration": "split", "rows": rows}
    with pytest.raises(ValueError, match=r"results must be of this table; they have .*, and the table has .* 318, "):
        UsedRows.of_run(results, read_table(file), np.arange(100, 180))


@pytest.mark.parametrize("clusters", [None, np.arange(100) // 2])
def test_held_out_rows_are_tested_in_turn(clusters):
    """The rows of one half calibrate the intervals of the other half; rows that belong together are in one half."""
    held_out = np.arange(40, 100)
    (first, second), (other_first, other_second) = turns(UsedRows("turns", np.arange(40), held_out, held_out, clusters))
    assert sorted([*first, *second]) == held_out.tolist()
    assert set(first) == set(other_second)
    assert set(second) == set(other_first)
    assert len(first) == len(second)
    if clusters is not None:
        assert not set(clusters[first]) & set(clusters[second])


def test_columns_become_numbers(file):
    """Dates become their parts, of which the hour is constant; text becomes codes in the order of the texts."""
    features = Features.of_table(read_table(file), ["x", "day", "kind"])
    table = pd.read_csv(file)
    assert features.values.shape == (400, 6)
    assert features.categories == (5,)
    assert np.array_equal(features.values[:, 0], table["x"])
    days = pd.to_datetime(table["day"], format="%d.%m.%Y")
    assert np.array_equal(features.values[:, 4], (days - days.min()).dt.days)
    assert np.isnan(features.values[5, 5])
    assert np.array_equal(np.delete(features.values[:, 5], 5), table["kind"].drop(5).map({"a": 0, "b": 1, "c": 2}))


def test_ridge_predicts_categories_and_unseen_ones():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(size=500), rng.integers(50, size=500)])
    y = values[:, 0] + 10 * rng.normal(size=51)[values[:, 1].astype(int)]
    predict = ridge(Features(values, (1,)), np.arange(400), y[:400])
    assert np.abs(predict(values[400:]) - y[400:]).max() < 0.5
    assert np.isfinite(predict(np.array([[np.nan, 50.0], [0.0, np.nan]]))).all()


def test_bounds_are_moved_outwards_by_the_threshold():
    bounds = np.array([[0.0, 0.0], [2.0, 1.0]])
    assert outside(np.array([-1.0, 0.25]), bounds).tolist() == [1.0, -0.25]
    assert widened(bounds, 1.0).tolist() == [[-1.0, -1.0], [3.0, 2.0]]
    assert widened(bounds, -0.75).tolist() == [[0.75, 0.5], [1.25, 0.5]]  # the second ones would cross


@pytest.mark.usefixtures("without_lightgbm")
def test_cqr_covers_the_level():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    y, features = x + rng.normal(size=3000), Features(x[:, np.newaxis], ())
    parts = np.split(np.arange(3000), [1000, 2000])
    lower, upper = split_cqr(features, parts[0], [parts[1:]], y, 0.9)
    assert np.isnan(lower[:2000]).all()
    assert abs(np.mean((lower <= y)[2000:] & (y <= upper)[2000:]) - 0.9) < 0.05
    halves = [(parts[0], parts[1]), (parts[1], parts[0])]
    lower, upper = cross_cqr(features, halves, y, 0.9)(parts[2])
    assert abs(np.mean((lower <= y[2000:]) & (y[2000:] <= upper)) - 0.9) < 0.05


def test_lightgbm_has_its_own_categories():
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    codes = rng.integers(50, size=20_000).astype(float)
    effects = rng.normal(size=50)
    y = effects[codes.astype(int)] + 0.1 * rng.normal(size=20_000)
    features = Features(codes[:, np.newaxis], (0,))
    predict = boosting(features, np.arange(10_000), y[:10_000])
    assert np.abs(predict(features.values[10_000:]) - effects[codes[10_000:].astype(int)]).mean() < 0.1
    upper = boosting(features, np.arange(10_000), y[:10_000], quantile=0.95)
    assert abs(np.mean(y[10_000:] <= upper(features.values[10_000:])) - 0.95) < 0.03


@pytest.mark.usefixtures("without_lightgbm")
@pytest.mark.parametrize("cross", [False, True])
def test_peers_are_measured_on_the_rows_of_a_run(file, tmp_path, monkeypatch, cross):
    """If the run is cross-fitted, each row is predicted by models of other folds."""
    monkeypatch.setattr(table_peers, "FOLDS", 3)
    monkeypatch.setattr(table_peers, "INNER_FOLDS", 2)
    found = quiet_study(file)
    folder = written_run(found, tmp_path / "run")
    if cross:
        results = data_of(found) | {"calibration": "cross"}
        (folder / "results.json").write_text(json.dumps(results))
    scores = peers_of_run(file, folder)
    assert scores.r2 == scores.ridge_r2 == scores.boosting_r2
    assert scores.r2 > 0.98
    assert 0.8 <= scores.coverage <= 1
    assert 0.2 < scores.mean_width <= scores.interval_score < 1


@pytest.mark.usefixtures("without_lightgbm")
def test_scores_are_kept_for_the_same_rows_and_columns(file, tmp_path, monkeypatch):
    table, path = read_table(file), tmp_path / "kept.json"
    used = UsedRows("order", np.arange(10, 150), np.arange(210, 300), np.arange(300, 400))
    first = kept_scores(path, table, ["x", "kind"], "y", used)
    monkeypatch.setattr(table_peers, "peer_scores", lambda *_: PEERS)
    assert kept_scores(path, table, ["x", "kind"], "y", used) == first
    assert kept_scores(path, table, ["x"], "y", used) == PEERS
    assert len(json.loads(path.read_text())) == 2


def test_the_settings_of_a_message_are_taken(file, tmp_path):
    found, settings = studied(file, "y", LINEAR)
    assert (found.n_rows, found.n_without_target, settings) == (398, 2, {})
    pd.read_csv(file).assign(size=np.inf).to_csv(tmp_path / "infinite.csv")
    assert studied(tmp_path / "infinite.csv", "y", LINEAR)[1] == {"drop": ["size"]}
    pd.DataFrame({"x": np.arange(30.0), "y": ["text"] * 30}).to_csv(tmp_path / "text.csv")
    with pytest.raises(TableError):
        studied(tmp_path / "text.csv", "y", LINEAR)


def test_the_row_of_a_table(tmp_path, monkeypatch):
    """The numbers of peers come from the same file the next time."""
    monkeypatch.setattr(table_peers, "peer_scores", lambda *_: PEERS)
    table = Table("states", "generated", "states", "y")
    comparison = compare(table, tmp_path, LINEAR, max_rows=600)
    cells = dict(zip(COLUMNS, comparison.cells(), strict=True))
    assert cells["rows"] == "600"
    assert cells["columns of 50 or more texts"] == "state 60"
    assert float(cells["short of the better"]) == pytest.approx(0.75 - comparison.found.quality.r2, abs=1e-3)
    assert float(cells["score / LightGBM-CQR"]) == pytest.approx(comparison.found.quality.interval_score / 4, abs=1e-3)
    assert cells["how"].startswith("turns; linear")


def test_the_command_prints_a_row_for_each_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(table_peers, "peer_scores", lambda *_: PEERS)
    table = Table("states", "generated", "states", "y")
    assert main(["states", "--max-rows", "200", "--output", str(tmp_path)], tables=[table]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("| states | 200 |")
    with pytest.raises(SystemExit):
        main(["prices"], tables=[table])
    assert "prices" in capsys.readouterr().err


@pytest.mark.parametrize("item", [name for name in GENERATORS if name != "million"])
def test_generated_tables_are_the_same_each_time(item):
    assert generated_frame(item).equals(generated_frame(item))


def test_each_generated_table_says_its_r2():
    """The docstring has the R2 of the true mean."""
    assert {name: f"{TRUE_R2[name]:.2f}" in str(each.__doc__) for name, each in GENERATORS.items()} == dict.fromkeys(
        GENERATORS, True
    )


def test_the_states_can_be_predicted():
    """A mean for each state and a slope reach the R2 that is said."""
    frame = generated_frame("states")
    centered = frame[["size", "y"]] - frame.groupby("state")[["size", "y"]].transform("mean")
    slope = np.polyfit(centered["size"], centered["y"], 1)[0]
    residual = centered["y"] - slope * centered["size"]
    assert 1 - residual.var() / frame["y"].var() == pytest.approx(TRUE_R2["states"], abs=0.01)
