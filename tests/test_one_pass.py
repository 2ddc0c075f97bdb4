"""No repeated work: each row is predicted once, each target checked once, each joint test drawn once."""

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from evencover import (
    BySpread,
    ByTarget,
    ConformalRegressor,
    IntervalDistance,
    Normalized,
    Prediction,
    Residual,
    Rows,
    Standardized,
    TwoTails,
    diagnose,
)
from evencover.calibration import calibration, stored_scores
from evencover.diagnostics.one_threshold import MarginalThreshold
from evencover.inputs import arrays
from evencover.models import AutoRegressor, NeighborSpread, QuantileForest, ResidualSpread, TableEncoder, WithSpread
from evencover.synthetic import heteroskedastic
from tests.calibrators import SignedTails, SlidingWindow
from tests.command_line import main
from tests.report_pages import few_levels
from tests.synthetic import Oracle, draw

OLD, NEW = draw(np.random.default_rng(0), 300), draw(np.random.default_rng(1), 50)


class CountingOracle(Oracle):
    """Counts how often each row is predicted."""

    predicted: ClassVar = Counter()

    def predict_full(self, X):
        self.predicted.update(np.asarray(X)[:, 1].tolist())
        return super().predict_full(X)


@pytest.fixture
def model():
    CountingOracle.predicted.clear()
    frozen = FrozenEstimator(CountingOracle().fit(OLD.X, OLD.y))
    return ConformalRegressor(frozen, taxonomy=ByTarget([0.0])).fit(OLD.X, OLD.y)


def times_predicted(X):
    return [CountingOracle.predicted[spread] for spread in X[:, 1].tolist()]


def test_rows_are_predicted_once_for_all_results(model):
    """Intervals at any level, unions, p-values and groups use the same prediction."""
    rows = model.rows(NEW.X, NEW.y)
    expected = model.predict_interval(NEW.X, level=[0.5, 0.9]), model.p_values(NEW.X, NEW.y)
    CountingOracle.predicted.clear()
    np.testing.assert_array_equal(np.asarray(model.predict_interval(rows, level=[0.5, 0.9])), np.asarray(expected[0]))
    np.testing.assert_array_equal(model.p_values(rows), expected[1])
    model.predict_union(rows)
    model.taxonomy_.assign(rows)
    assert not CountingOracle.predicted


def test_calibrating_and_diagnosing_predict_each_row_once(model):
    diagnose(model)
    assert times_predicted(OLD.X) == [1] * len(OLD.y)


def test_rows_are_returned_unchanged(model):
    rows = model.rows(NEW.X, NEW.y)
    assert model.rows(rows) is rows
    for more in ({"y": NEW.y}, {"weights": NEW.y}):
        with pytest.raises(ValueError, match="Rows contain their targets and weights; got y or weights in addition"):
            model.rows(rows, **more)


def test_selected_rows_keep_all_their_parts():
    rows = Rows(NEW.prediction, NEW.X, NEW.y, np.arange(50.0))
    some = rows[[3, 1]]
    assert (some.y.tolist(), some.weights.tolist()) == (NEW.y[[3, 1]].tolist(), [3.0, 1.0])
    np.testing.assert_array_equal(some.X, NEW.X[[3, 1]])
    assert repr(some) == "Rows(2 rows of prediction, X, y, weights)"


def test_the_number_of_targets_is_checked():
    with pytest.raises(ValueError, match="y must have 50 rows, as many as the prediction; got 2"):
        Rows.with_checked_target(NEW.prediction, NEW.X, NEW.y[:2])


def test_rows_without_targets_have_no_p_values(model):
    for X in (NEW.X, model.rows(NEW.X)):
        with pytest.raises(ValueError, match="a p-value needs y, the targets; these rows have none"):
            model.p_values(X)


def test_rows_do_not_make_a_model_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        ConformalRegressor(LinearRegression()).predict_interval(Rows(Prediction(NEW.y)))


def test_a_run_predicts_each_row_exactly_once(tmp_path, monkeypatch):
    """Held-out rows by the final model, also if they take turns to calibrate and to test it; with the report."""
    data = heteroskedastic(400, seed=0)
    table = pd.DataFrame(data.X, columns=["a", "b", "c"]).assign(number=np.arange(400.0), y=data.y)
    table.to_csv(tmp_path / "table.csv", index=False)
    predicted, encoded = Counter(), Counter()
    predict_full, transform = AutoRegressor.predict_full, TableEncoder.transform

    def counted_predict(self, X):
        predicted.update(np.asarray(X)[:, 3].tolist())
        return predict_full(self, X)

    def counted_transform(self, X):
        encoded.update(np.asarray(X["number"]).tolist())
        return transform(self, X)

    monkeypatch.setattr(AutoRegressor, "predict_full", counted_predict)
    monkeypatch.setattr(TableEncoder, "transform", counted_transform)
    words = ("--target", "y", "--keep", "number", "--output", str(tmp_path / "found"), "--effort", "fast")
    with few_levels(), pytest.raises(SystemExit):
        main(["run", str(tmp_path / "table.csv"), *words])
    results = json.loads((tmp_path / "found" / "results.json").read_text(encoding="utf-8"))
    assert len(predicted) == results["rows"]["held_out"] == 100
    assert set(predicted.values()) == {1}
    test_rows = pd.read_csv(tmp_path / "found" / "intervals.csv")["row"] - 2  # the header is row 1
    assert set(test_rows) == set(predicted)
    assert [encoded[row] for row in test_rows] == [1] * 100


@pytest.mark.parametrize("score", [Residual(), Normalized(), IntervalDistance()], ids=repr)
@pytest.mark.parametrize("calibrator", [None, SlidingWindow(50)], ids=["groups", "window"])
def test_a_target_is_checked_once(score, calibrator, monkeypatch):
    """At the public method; rows, calibration and score do not check it again."""
    checked = []
    by = arrays.as_floats
    monkeypatch.setattr(
        arrays, "as_floats", lambda values, name, **how: checked.append(name) or by(values, name, **how)
    )
    model = ConformalRegressor(FrozenEstimator(Oracle().fit(OLD.X, OLD.y)), nonconformity=score, calibrator=calibrator)
    for call in (
        lambda: model.fit(OLD.X, OLD.y),
        lambda: model.calibrate(OLD.X, OLD.y),
        lambda: model.p_values(NEW.X, NEW.y),
        lambda: calibration.calibrate(OLD.y, OLD.prediction, nonconformity=score),
    ):
        checked.clear()
        call()
        assert checked.count("y") == 1


def test_a_diagnosis_neither_scores_nor_draws_twice(monkeypatch):
    """The scores of the calibration are used; the joint test is drawn once."""
    scored, drawn = Counter(), Counter()
    for score in (Residual, Normalized, IntervalDistance):
        by = score.formula
        monkeypatch.setattr(score, "formula", lambda *args, by=by, kind=score: scored.update([kind]) or by(*args))
    draw_p_value = MarginalThreshold.joint_p_value
    monkeypatch.setattr(
        MarginalThreshold,
        "joint_p_value",
        lambda self, seed: drawn.update([self.scores.tobytes()]) or draw_p_value(self, seed),
    )
    data = heteroskedastic(1000, seed=0)
    model = ConformalRegressor(WithSpread(LinearRegression(), NeighborSpread()), taxonomy=BySpread(3), random_state=0)
    model.fit(data.X, data.y)
    assert (diagnose(model).verdict, scored[Residual]) == ("uneven", 1)
    assert scored == {Residual: 1, Normalized: 1, IntervalDistance: 1}
    assert set(drawn.values()) == {1}
    assert model.calibrator_.scores.tobytes() in drawn


@pytest.fixture
def searches(monkeypatch):
    """The levels of each search of the calibration scores."""
    found, thresholds = [], stored_scores.thresholds
    monkeypatch.setattr(
        stored_scores, "thresholds", lambda scores, levels: found.append(levels) or thresholds(scores, levels)
    )
    return found


def test_thresholds_are_found_once_for_each_choice_of_levels(searches):
    """Predicting rows one by one does not search the calibration scores for each of them."""
    made = calibration.calibrate(OLD.y, OLD.prediction)
    for row in range(5):
        made.interval(NEW.prediction[row], level=0.9)
        made.interval(NEW.prediction[row], level=[0.5, 0.9])
    assert len(searches) == 2


def test_the_cache_of_thresholds_stays_small(searches):
    """Of 250 levels, the first are forgotten and found again."""
    made, levels = calibration.calibrate(OLD.y, OLD.prediction), np.linspace(0.01, 0.99, 250)
    expected = [made.threshold(level)[0] for level in levels]
    assert len(searches) == 250
    assert made.threshold(levels[-1])[0] == expected[-1]
    assert len(searches) == 250
    assert made.threshold(levels[0])[0] == expected[0]
    assert len(searches) == 251
    fresh = calibration.calibrate(OLD.y, OLD.prediction)
    assert [fresh.threshold(level)[0] for level in levels] == expected


@pytest.fixture
def eager_threads():
    """Threads that take turns after every few instructions, so that few calls meet in all places."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# While a forest predicts, scikit-learn changes the warning filters of all threads, and may then find none.
@pytest.mark.filterwarnings("ignore:`sklearn.utils.parallel.delayed` should be used:UserWarning")
@pytest.mark.parametrize(
    "calibrator", [None, SlidingWindow(50), TwoTails(), SignedTails()], ids=["groups", "window", "tails", "own tails"]
)
def test_several_threads_get_the_same_numbers(calibrator, tmp_path, eager_threads):
    """A loaded predictor with single rows at several levels, in eight threads at once."""
    data, new = heteroskedastic(600, seed=0), heteroskedastic(40, seed=1)
    forest, linear_spread = QuantileForest(n_estimators=4, random_state=0), ResidualSpread(LinearRegression())
    estimator = forest if calibrator is None else WithSpread(LinearRegression(), linear_spread, random_state=0)
    taxonomy = BySpread(3) if calibrator is None else None
    model = ConformalRegressor(
        estimator, nonconformity=Standardized(), taxonomy=taxonomy, calibrator=calibrator, random_state=0
    )
    model.fit(data.X, data.y).save(tmp_path / "model")
    levels = [0.5, 0.8, 0.9]
    jobs = [(row, level) for row in range(8) for level in levels] * 2

    def answer(loaded, job):
        row, level = job
        one = new.X[[row]]
        made = loaded.predict_interval(one, level=level)
        return np.asarray(made).tolist(), loaded.p_values(one, new.y[[row]]).tolist()

    alone, shared = (ConformalRegressor.load(tmp_path / "model", calibrator=calibrator) for _ in range(2))
    expected = [answer(alone, job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda job: answer(shared, job), jobs)) == expected
