"""The contract of every score: a function and its inverse."""

import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evencover import (
    Bounded,
    Intervals,
    Normalized,
    OneSided,
    Prediction,
    ProbabilityDistance,
    RelativeIntervalDistance,
    Residual,
    Standardized,
    scores,
)
from evencover.calibration.predictive import value_map
from evencover.predictions import ALL_PARTS
from evencover.scores import BUILTIN_SCORES
from evencover.scores.evaluation import scores_by
from evencover.scores.one_sided import is_one_sided, side_of
from evencover.scores.score import Symbols, from_option, innermost, score_option, states, symbolic_reach, used_parts
from tests.synthetic import ALL_SCORES, BOUNDED_SCORES, mirrored

N = 5
TWO_SIDED = [score for score in ALL_SCORES if not isinstance(score, OneSided | Standardized)]
each_score = pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
numbers = arrays(float, N, elements=st.floats(-100, 100))
spreads = arrays(float, N, elements=st.floats(0.01, 100))
thresholds = st.one_of(st.floats(-50, 50), st.just(np.inf))


def test_every_score_of_the_module_is_tested():
    """A new score must be added to ALL_SCORES; test_bounded_scores.py has the contract of `Bounded`."""
    public = {value for value in vars(scores).values() if inspect.isclass(value) and dataclasses.is_dataclass(value)}
    assert public == {type(score) for score in [*ALL_SCORES, *BOUNDED_SCORES]} == set(scores.BUILTIN_SCORES)
    assert len(public) >= 4


@each_score
@given(y=numbers, center=numbers, spread=spreads, threshold=thresholds)
def test_an_interval_is_the_set_of_targets_that_score_at_most_the_threshold(score, y, center, spread, threshold):
    """Except for scores very close to the threshold, where rounding decides."""
    prediction = Prediction(center, spread)
    scored = score(y, prediction)
    not_tied = np.abs(scored - threshold) > 1e-9 * (1 + np.abs(scored) + abs(threshold)) * (1 + 100 / spread)
    covered = score.interval(threshold, prediction).covers(y)
    np.testing.assert_array_equal(covered[not_tied], (scored <= threshold)[not_tied])


@each_score
@given(
    cents=arrays(int, N, elements=st.integers(-(10**9), 10**9)),
    center=arrays(float, N, elements=st.floats(-1e7, 1e7).map(lambda value: round(value, 6))),
    spread=arrays(float, N, elements=st.floats(1e-6, 1e6)),
)
def test_a_target_whose_score_is_the_threshold_is_covered(score, cents, center, spread):
    """Despite rounding: otherwise tied targets, such as prices, would all be missed at once."""
    prediction = Prediction(center, spread)
    y = cents / 100
    assert score.interval(score(y, prediction), prediction).covers(y).all()


def from_quarters(quarters, spread):
    """Return a prediction with skewed quantiles, some of them equal, and a positive spread."""
    quantiles = np.sort(quarters, axis=1) / 4
    bounds = quantiles[:, 0] - 0.1, quantiles[:, -1] + 0.1
    return Prediction(None, spread, *bounds, quantiles=quantiles, probabilities=[0.02, 0.3, 0.5, 0.6, 0.9])


quarters = arrays(int, (N, 5), elements=st.integers(-8, 8))


@each_score
@given(quarters=quarters, y=arrays(int, N, elements=st.integers(-40, 40)), spread=spreads, threshold=thresholds)
def test_the_contract_holds_for_distributions_with_jumps(score, quarters, y, spread, threshold):
    """The set at t is exactly the targets that score at most t, also at quantiles and where the cdf jumps."""
    prediction, y = from_quarters(quarters, spread), y / 4
    scored = score(y, prediction)
    not_tied = np.abs(scored - threshold) > 1e-9 * (1 + np.abs(scored) + abs(threshold)) * (1 + 100 / spread)
    covered = score.interval(threshold, prediction).covers(y)
    np.testing.assert_array_equal(covered[not_tied], (scored <= threshold)[not_tied])
    assert score.interval(scored, prediction).covers(y).all()


@each_score
@given(quarters=quarters, y=arrays(int, N, elements=st.integers(-9999, 9999)).map(lambda y: y / 100), spread=spreads)
def test_the_score_is_the_larger_of_its_tails(score, quarters, y, spread):
    """Each end of the interval belongs to one tail, also if the interval is empty."""
    prediction = from_quarters(quarters, spread)
    if not hasattr(score, "tails"):
        assert isinstance(score, OneSided | Standardized)
        return
    below, above = score.tails(y, prediction)
    np.testing.assert_array_equal(np.maximum(below, above), score(y, prediction))
    assert (score.interval(below, prediction).lower <= y).all()
    assert (score.interval(above, prediction).upper >= y).all()


@each_score
@given(center=numbers, spread=spreads, pair=st.tuples(thresholds, thresholds))
def test_intervals_of_larger_thresholds_contain_those_of_smaller(score, center, spread, pair):
    """Empty intervals are contained in any."""
    small, large = (score.interval(t, Prediction(center, spread)) for t in sorted(pair))
    inside = (large.lower <= small.lower) & (small.upper <= large.upper)
    assert (inside | small.empty).all()


@each_score
@given(y=numbers, center=numbers, spread=spreads, scale=st.floats(0.01, 100), shift=st.floats(-100, 100))
def test_the_unit_of_the_target_does_not_matter(score, y, center, spread, scale, shift):
    """Calibrating in another unit, y -> scale y + shift, transforms the interval in the same way."""
    other = in_unit(score, scale)
    here, there = Prediction(center, spread), Prediction(scale * center + shift, scale * spread)
    interval = score.interval(np.median(score(y, here)), here)
    moved = other.interval(np.median(other(scale * y + shift, there)), there)
    tolerance = {"rtol": 1e-6, "atol": 1e-6 * (scale * 200 + abs(shift) + 1)}
    np.testing.assert_allclose(moved.lower, scale * interval.lower + shift, **tolerance)
    np.testing.assert_allclose(moved.upper, scale * interval.upper + shift, **tolerance)


def in_unit(score, factor):
    """Return the score with its scale in another unit of the target."""
    if isinstance(score, OneSided):
        return dataclasses.replace(score, score=in_unit(score.score, factor))
    if getattr(score, "scale", None) is None:
        return score
    return dataclasses.replace(score, scale=score.scale * factor)


@pytest.mark.parametrize("side", [None, "lower", "upper"])
@pytest.mark.parametrize("score", TWO_SIDED, ids=repr)
@given(y=numbers, center=numbers, spread=spreads, threshold=thresholds)
def test_scores_are_mirrored_with_the_target(score, side, y, center, spread, threshold):
    """Scores of −y and mirrored predictions are the same, and the intervals are mirrored; lower and upper are swapped.

    Without rounding errors, because the sign of a number is exact; only a probability 1 − p is rounded.
    """
    rtol = 1e-9 if isinstance(score, ProbabilityDistance) else 0
    check_mirrored(score, side, y, Prediction(center, spread), threshold, rtol=rtol)


@pytest.mark.parametrize("side", [None, "lower", "upper"])
@given(quarters=quarters, y=arrays(int, N, elements=st.integers(-40, 40)), spread=spreads, threshold=thresholds)
def test_scores_of_mirrored_distributions(side, quarters, y, spread, threshold):
    """Also where the cdf jumps."""
    check_mirrored(ProbabilityDistance(), side, y / 4, from_quarters(quarters, spread), threshold, rtol=1e-9)


def check_mirrored(score, side, y, prediction, threshold, rtol):
    """Compare a score, or one side of it, with the same for −y and the mirrored prediction."""
    other = score
    if side is not None:
        score, other = (OneSided(score, each) for each in (side, "lower" if side == "upper" else "upper"))
    tolerance = {"rtol": rtol, "atol": 1000 * rtol}
    np.testing.assert_allclose(other(-y, mirrored(prediction)), score(y, prediction), **tolerance)
    here, there = score.interval(threshold, prediction), other.interval(threshold, mirrored(prediction))
    np.testing.assert_allclose(there.lower, -here.upper, **tolerance)
    np.testing.assert_allclose(there.upper, -here.lower, **tolerance)


@pytest.mark.parametrize("score", TWO_SIDED, ids=repr)
@given(y=numbers, center=numbers, spread=spreads, threshold=thresholds)
def test_a_score_is_the_larger_of_its_two_tails(score, y, center, spread, threshold):
    """And the ends of its interval are those of its one-sided intervals."""
    prediction = Prediction(center, spread)
    lower, upper = OneSided(score, "lower"), OneSided(score, "upper")
    np.testing.assert_array_equal(np.maximum(lower(y, prediction), upper(y, prediction)), score(y, prediction))
    both = score.interval(threshold, prediction)
    np.testing.assert_array_equal(lower.interval(threshold, prediction).lower, both.lower)
    np.testing.assert_array_equal(upper.interval(threshold, prediction).upper, both.upper)
    assert (lower.interval(threshold, prediction).upper == np.inf).all()
    assert (upper.interval(threshold, prediction).lower == -np.inf).all()


@each_score
def test_shapes_types_and_pickling(score):
    """One score and one interval for each row, for one threshold or one for each row; a pickled score is equal."""
    prediction = Prediction(np.zeros(N), np.ones(N))
    assert score(np.ones(N), prediction).shape == (N,)
    for threshold in (1.0, np.arange(N) * 1.0):
        intervals = score.interval(threshold, prediction)
        assert isinstance(intervals, Intervals)
        assert np.asarray(intervals).shape == (N, 2)
    assert pickle.loads(pickle.dumps(score)) == score  # noqa: S301
    assert hash(score) == hash(pickle.loads(pickle.dumps(score)))  # noqa: S301


@each_score
def test_scores_do_not_change_their_input(score):
    """Neither targets nor predictions."""
    y, center, spread = np.arange(5.0), np.ones(5), np.full(5, 2.0)
    score.interval(1.0, Prediction(center, spread))
    score(y, Prediction(center, spread))
    assert (y.tolist(), center.tolist(), spread.tolist()) == ([0, 1, 2, 3, 4], [1] * 5, [2] * 5)


def wrapped(score):
    """Return the score in each of the package's wrappers that it fits into."""
    one_sided = [] if is_one_sided(score) else [OneSided(score, side="lower")]
    return [score, *one_sided, *(Bounded(each, y_min=0.0) for each in [score, *one_sided])]


@each_score
def test_a_score_uses_only_the_parts_of_a_prediction_that_it_names(score):
    """Other spreads or bounds do not change it; those that it names do. Wrappers use the parts of the score inside."""
    rng = np.random.default_rng(0)
    center, spread, width, y = rng.normal(size=N), rng.uniform(1, 2, N), rng.uniform(1, 2, N), rng.normal(size=N) * 5
    bounds = {"lower": center - width, "upper": center + width}
    changed = {
        "spread": Prediction(center, spread * 2, **bounds),
        "lower": Prediction(center, spread, bounds["lower"] - 3, bounds["upper"]),
        "upper": Prediction(center, spread, bounds["lower"], bounds["upper"] + 3),
    }
    parts = used_parts(score)
    assert "center" in parts
    assert set(parts) <= set(ALL_PARTS)
    for part, other in {} if isinstance(score, OneSided) else changed.items():
        same = np.array_equal(score(y, other), score(y, Prediction(center, spread, **bounds)))
        assert same == (part not in parts) or "quantiles" in parts
    assert {used_parts(each) for each in wrapped(score)} == {parts}


@each_score
def test_wrappers_know_the_score_inside(score):
    assert {innermost(each) for each in wrapped(score)} == {innermost(score)}
    assert not isinstance(innermost(score), OneSided | Bounded)


@each_score
def test_the_side_of_a_score_is_the_finite_side_of_its_intervals(score):
    """Wrapped in `Bounded`, too."""
    intervals = score.interval(1.0, Prediction(np.zeros(N), np.ones(N)))
    finite = {"lower": np.isfinite(intervals.lower).all(), "upper": np.isfinite(intervals.upper).all()}
    expected = "both" if all(finite.values()) else next(side for side in finite if finite[side])
    assert side_of(score) == side_of(Bounded(score, y_min=0.0)) == expected
    assert is_one_sided(score) == (expected != "both")
    if states(score, "two_sided"):
        assert side_of(score.two_sided()) == "both"


@each_score
@given(center=numbers, spread=spreads, threshold=st.floats(-2, 50))
def test_the_value_map_is_the_upper_end_of_the_interval(score, center, spread, threshold):
    """Every two-sided score of the package has one, and `Standardized`; a wrapped one is asked for that inside."""
    prediction, inner = Prediction(center, spread), innermost(score)
    expected = inner.interval(threshold, prediction).upper
    found = value_map(inner, prediction).values(threshold)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * (100 + spread.max() * 50))


@each_score
@given(center=numbers, spread=spreads, threshold=st.floats(-2, 50))
def test_the_symbolic_reach_is_that_of_the_interval(score, center, spread, threshold):
    """With numbers in place of symbols, and without a floor, of which there is no formula."""
    prediction = Prediction(center, spread, level=0.9)
    z = (prediction.upper - center) / spread
    reach = symbolic_reach(score, Symbols(threshold, z, center, spread))
    inner = innermost(score)
    if getattr(inner, "floor", 0) or getattr(inner, "epsilon", 0):
        assert reach is None
        return
    intervals = score.interval(threshold, prediction)
    tolerance = {"rtol": 1e-9, "atol": 1e-9 * (100 + spread.max() * 50)}
    if side_of(score) != "lower":
        np.testing.assert_allclose(intervals.upper, center + reach, **tolerance)
    if side_of(score) != "upper":
        np.testing.assert_allclose(intervals.lower, center - reach, **tolerance)
    assert symbolic_reach(Bounded(score, y_min=0.0), Symbols(threshold, z, center, spread)) is None


WITH_OPTION = [each for each in BUILTIN_SCORES if hasattr(each, "option")]


def test_every_option_has_its_own_name():
    """Scores that are compared have an option, so that advice can name it."""
    options = [each.option for each in WITH_OPTION]
    assert len(set(options)) == len(options) >= 5
    assert all(hasattr(each, "option") for each in BUILTIN_SCORES if hasattr(each, "for_prediction"))


@pytest.mark.parametrize("kind", WITH_OPTION, ids=lambda each: each.option)
def test_an_option_stands_for_a_score(kind):
    """Whatever its scale, which is learned; not for other settings."""
    score = from_option(kind)
    assert type(score) is kind
    assert score_option(score) == kind.option
    if hasattr(score, "floor"):
        assert score_option(dataclasses.replace(score, scale=2.0)) == kind.option
        assert score_option(dataclasses.replace(score, floor=0.5)) is None


@pytest.mark.parametrize("kind", [each for each in BUILTIN_SCORES if hasattr(each, "for_prediction")], ids=str)
def test_compared_scores_can_be_computed(kind):
    """A score is either finite for a prediction, or not compared for it."""
    y, center = np.zeros(N), np.arange(N) * 1.0
    with_quantiles = {"quantiles": center[:, None] + [-1.0, 0.0, 2.0], "probabilities": [0.1, 0.5, 0.9]}
    predictions = {
        "center": Prediction(center),
        "spread": Prediction(center, np.ones(N)),
        "no spread": Prediction(center, np.zeros(N)),
        "bounds": Prediction(center, lower=center - 1, upper=center + 2),
        "quantiles": Prediction(**with_quantiles),
        "no rows": Prediction(np.empty(0), np.empty(0)),
    }
    found = {name: kind.for_prediction(prediction) for name, prediction in predictions.items()}
    for name, score in found.items():
        if score is not None:
            assert type(score) is kind
            assert np.isfinite(score(y[: len(predictions[name])], predictions[name])).all()
    assert found["quantiles"] is not None
    assert (found["center"] is not None) == (kind is Residual)


class Own:
    """A score with `__call__` and `interval` only."""

    def __call__(self, y, prediction):
        """Return the distance from the center."""
        return np.abs(y - prediction.center)

    def interval(self, threshold, prediction):
        """Return the interval."""
        return Intervals(prediction.center - threshold, prediction.center + threshold)


class Changed(Residual):
    """A subclass of a score of the package that computes something else."""

    def __call__(self, y, prediction):
        """Return the distance from the center in units of the spread."""
        return np.abs(y - prediction.center) / prediction.spread


@pytest.mark.parametrize("score", [Own(), Changed()], ids=lambda score: type(score).__name__)
def test_what_a_score_does_not_say_has_a_default(score):
    """A subclass with another formula is not what the members of its parent say."""
    prediction = Prediction(np.zeros(2), [1.0, 2.0])
    assert used_parts(score) is used_parts(Bounded(OneSided(score), y_min=0.0)) is None
    assert (side_of(score), innermost(score), score_option(score)) == (None, score, None)
    assert value_map(score, prediction) is symbolic_reach(score, Symbols(1.0, 1.0, 0.0, 1.0)) is None
    np.testing.assert_array_equal(scores_by(score, np.ones(2), prediction), score(np.ones(2), prediction))


def test_a_score_of_ones_own_can_say_more():
    """As class attributes or methods."""

    class Known(Own):
        prediction_parts = ("center",)
        side = "upper"

        __call__, interval = Own.__call__, Own.interval

    assert used_parts(Bounded(Known(), y_min=0.0)) == ("center",)
    assert side_of(Known()) == "upper"


def test_settings_that_options_stand_for():
    assert from_option(RelativeIntervalDistance) == RelativeIntervalDistance(floor=0.01)
    assert score_option(Normalized(epsilon=0.1)) is None
