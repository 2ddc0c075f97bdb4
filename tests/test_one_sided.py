"""One-sided bounds from any score: files, scales, users' own scores."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import betabinom, kstest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from evencover import (
    Bounded,
    Calibration,
    ConformalRegressor,
    IntervalDistance,
    Intervals,
    Normalized,
    OneSided,
    Prediction,
    Residual,
    Standardized,
    calibrate,
    conformal_rank,
    diagnose,
)
from evencover.models import WithSpread
from evencover.theory import NORMAL, is_pivotal
from tests.report_pages import result_data
from tests.synthetic import ONE_IN_A_MILLION, Oracle, draw

SIDES = ("lower", "upper")
PREDICTION = Prediction([0.0, 10.0], spread=[1.0, 4.0], lower=[-2.0, 5.0], upper=[2.0, 11.0])
Y = [3.0, 4.0]


@dataclass(frozen=True)
class SquaredResidual:
    """A user's score without tails; its intervals contain the center."""

    def __call__(self, y, prediction):
        return (y - prediction.center) ** 2

    def interval(self, threshold, prediction):
        half_width = np.sqrt(threshold) * (1 + 1e-12)
        return Intervals(prediction.center - half_width, prediction.center + half_width)


@dataclass(frozen=True)
class CubedResidual(Residual):
    """A subclass that changes the score and its inverse, but inherits the tails."""

    def __call__(self, y, prediction):
        return super().__call__(y, prediction) ** 3

    def interval(self, threshold, prediction):
        return super().interval(np.cbrt(threshold), prediction)


@pytest.mark.parametrize(
    ("score", "below", "above"),
    [
        (Residual(), [-3.0, 6.0], [3.0, -6.0]),
        (Normalized(), [-3.0, 1.5], [3.0, -1.5]),
        (IntervalDistance(), [-5.0, 1.0], [1.0, -7.0]),
        (SquaredResidual(), [-np.inf, 36.0], [9.0, -np.inf]),
        (CubedResidual(), [-np.inf, 216.0], [27.0, -np.inf]),
    ],
    ids=repr,
)
def test_one_sided_scores_match_their_formula(score, below, above):
    np.testing.assert_allclose(OneSided(score, "lower")(Y, PREDICTION), below)
    np.testing.assert_allclose(OneSided(score)(Y, PREDICTION), above)


@pytest.mark.parametrize("settings", [{}, {"floor": 0.5, "epsilon": 0.1, "scale": 2.0}], ids=str)
def test_the_upper_tail_of_normalized_is_standardized(settings):
    rng = np.random.default_rng(0)
    data = draw(rng, 500)
    one, other = OneSided(Normalized(**settings)), Standardized(**settings)
    np.testing.assert_array_equal(one(data.y, data.prediction), other(data.y, data.prediction))
    for threshold in (-np.inf, -1.5, 0.0, 2.5, np.inf, rng.normal(size=500)):
        np.testing.assert_array_equal(
            np.asarray(one.interval(threshold, data.prediction)), np.asarray(other.interval(threshold, data.prediction))
        )


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("score", [SquaredResidual(), CubedResidual()], ids=repr)
def test_bounds_of_a_score_without_tails_are_the_targets_that_score_at_most_the_threshold(score, side):
    """They contain the center, also at a threshold of −inf."""
    rng = np.random.default_rng(1)
    data = draw(rng, 2000)
    one_sided = OneSided(score, side)
    scores = one_sided(data.y, data.prediction)
    assert 0 < np.isneginf(scores).mean() < 1
    for threshold in (-np.inf, 0.0, 0.3, 4.0, np.inf, rng.permutation(scores), scores):
        intervals = one_sided.interval(threshold, data.prediction)
        np.testing.assert_array_equal(intervals.covers(data.y), scores <= threshold)
        assert intervals.covers(data.prediction.center).all()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("score", [SquaredResidual(), CubedResidual()], ids=repr)
def test_bounds_of_a_score_without_tails_have_the_exact_distribution(score, side):
    """The number covered among 30 new rows is BetaBinomial, as there are no ties above the center."""
    rng, repeats, (n, m, level) = np.random.default_rng(2), np.arange(800), (40, 30, 0.9)
    k = conformal_rank(n, level)
    expected = betabinom(m, k, n + 1 - k)
    old, new = (draw(rng, len(repeats) * size) for size in (n, m))
    calibration = calibrate(old.y, old.prediction, nonconformity=OneSided(score, side), groups=np.repeat(repeats, n))
    intervals = calibration.interval(new.prediction, groups=np.repeat(repeats, m), level=level)
    hits = intervals.covers(new.y).reshape(-1, m).sum(axis=1)
    uniform = expected.cdf(hits - 1) + rng.random(len(repeats)) * expected.pmf(hits)
    assert kstest(uniform, "uniform").pvalue > ONE_IN_A_MILLION


@pytest.mark.parametrize("side", SIDES)
def test_a_regressor_predicts_bounds_on_one_side(side, tmp_path):
    """The side of the bound is finite and the other is infinite; a saved model predicts the same."""
    rng = np.random.default_rng(3)
    data = draw(rng, 800)
    oracle = FrozenEstimator(Oracle().fit(data.X, data.y))
    model = ConformalRegressor(oracle, nonconformity=OneSided(Normalized(), side=side)).fit(data.X, data.y)
    intervals = model.predict_interval(data.X, level=0.9)
    finite, infinite = (intervals.lower, intervals.upper)[:: 1 if side == "lower" else -1]
    assert (np.isfinite(finite).all(), np.isinf(infinite).all()) == (True, True)
    assert 0.9 <= intervals.covers(data.y).mean() < 0.91
    np.testing.assert_array_equal(intervals.covers(data.y), model.p_values(data.X, data.y) > 0.1 - 0.1 / 801)
    model.calibration_.save(tmp_path / "calibration")
    loaded = Calibration.load(tmp_path / "calibration")
    assert loaded.nonconformity == OneSided(Normalized(), side)
    np.testing.assert_array_equal(loaded.scores, model.calibration_.scores)


def test_a_file_does_not_hold_a_users_score_inside(tmp_path):
    """It is passed to `load`, and must have the same side."""
    score = OneSided(SquaredResidual(), "lower")
    calibrate([1.0, 2.0], [0.0, 0.0], nonconformity=score).save(tmp_path / "calibration")
    with pytest.raises(ValueError, match="its score is of your class SquaredResidual: pass it as nonconformity="):
        Calibration.load(tmp_path / "calibration")
    with pytest.raises(ValueError, match="its nonconformity is"):
        Calibration.load(tmp_path / "calibration", nonconformity=OneSided(SquaredResidual()))
    assert Calibration.load(tmp_path / "calibration", nonconformity=score).nonconformity == score


def test_the_scale_of_the_inner_score_is_set_from_the_training_rows():
    data = draw(np.random.default_rng(4), 400)
    score = OneSided(Normalized(floor=0.5), side="lower")
    assert score.needs_scale
    assert not OneSided(SquaredResidual()).needs_scale
    model = ConformalRegressor(WithSpread(LinearRegression()), nonconformity=score, random_state=0).fit(data.X, data.y)
    assert model.calibration_.nonconformity == OneSided(Normalized(floor=0.5, scale=model.scale_), side="lower")
    assert model.scale_ > 0


def test_pivotality_of_one_tail_is_that_of_the_score():
    """Proved by SymPy for every noise, as for the two-sided scores."""
    for side in SIDES:
        assert is_pivotal(OneSided(Normalized(), side), NORMAL)
        assert not is_pivotal(OneSided(Residual(), side), NORMAL)
        assert is_pivotal(OneSided(IntervalDistance(), side), NORMAL, level=0.8).even_at
    assert "proved" in str(is_pivotal(OneSided(Normalized(), "lower"), NORMAL))


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (OneSided(Normalized(scale=0.1), side="lower"), "OneSided(Normalized(scale=0.1), side='lower')"),
        (OneSided(Residual()), "OneSided(Residual())"),
    ],
)
def test_results_store_one_sided_scores_as_python_code(score, text):
    rows = draw(np.random.default_rng(0), 30)
    model = ConformalRegressor(FrozenEstimator(Oracle().fit(rows.X, rows.y)), nonconformity=score)
    options = result_data(diagnose(model.fit(rows.X, rows.y)))["options"]
    assert options[0]["nonconformity"] == text


def test_wrong_settings_raise():
    for score in (Standardized(), OneSided(Residual())):
        with pytest.raises(ValueError, match=r"score must be a two-sided score, such as Normalized\(\); got"):
            OneSided(score)
    with pytest.raises(ValueError, match=r"score must not be Bounded: use Bounded\(OneSided\(\.\.\.\), \.\.\.\); got"):
        OneSided(Bounded(Residual(), y_min=0))
    with pytest.raises(ValueError, match="side must be 'lower' or 'upper'; got 'left'"):
        OneSided(Residual(), side="left")
    with pytest.raises(TypeError, match="score must be a score such as"):
        OneSided("residual")


def test_a_subclass_with_other_formulas_does_not_use_the_tails_of_its_parent():
    """Its formula alone is changed; coverage stays at the level."""

    class Doubled(Residual):
        def formula(self, y, prediction):
            return 2 * abs(y - prediction.center)

        def ends(self, threshold, prediction):
            return Residual.ends(self, threshold / 2, prediction)

    y = np.random.default_rng(0).normal(size=4000)
    score = OneSided(Doubled())
    found = calibrate(y[:2000], np.zeros(2000), nonconformity=score).interval(np.zeros(2000), level=0.9)
    exact = calibrate(y[:2000], np.zeros(2000), nonconformity=OneSided(Residual())).interval(np.zeros(2000), level=0.9)
    np.testing.assert_allclose(found.upper, exact.upper)
