"""The contract of every calibrator, also users' own: rows are independent of each other, and the guarantee holds."""

import inspect
import pickle
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom, kstest
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

import evencover
from evencover import (
    ByFeature,
    ByGroup,
    ByPrediction,
    BySpread,
    ByTarget,
    ConformalRegressor,
    IntervalDistance,
    Intervals,
    IntervalUnion,
    Normalized,
    Product,
    Residual,
    Rows,
    Standardized,
    TwoTails,
    audit,
    conformal_rank,
    diagnose,
)
from tests.calibrators import SignedTails, SlidingWindow, Tails, ThresholdLine, Window
from tests.repeats import each_row_as_new
from tests.synthetic import ONE_IN_A_MILLION, Oracle, draw

LEVELS = (Fraction(1, 2), Fraction(4, 5), Fraction(9, 10))
CASES = {
    "one group": (ByGroup(), Residual()),
    "by spread": (ByGroup(BySpread(3)), Normalized()),
    "by given edges": (ByGroup(BySpread(edges=[0.6, 1.7])), IntervalDistance()),
    "a score for each group": (ByGroup(BySpread(2)), {"low": Residual(), "high": Normalized()}),
    "by target": (ByGroup(ByTarget([-1.0, 1.0])), Residual()),
    "by product": (ByGroup(Product([BySpread(2), ByPrediction(2)])), Normalized()),
    "one tail": (ByGroup(BySpread(2)), Standardized()),
    "histogram": (ByGroup(bits=10), Residual()),
    "histograms by spread": (ByGroup(BySpread(3), bits=4), Normalized()),
    "histograms by given edges": (ByGroup(BySpread(edges=[1.0]), bits=0), IntervalDistance()),
    "histograms with a score for each group": (
        ByGroup(BySpread(2), bits=10),
        {"low": Residual(), "high": Normalized()},
    ),
    "histograms by target": (ByGroup(ByTarget([-1.0, 1.0]), bits=6), Residual()),
    "histograms of one tail": (ByGroup(Product([BySpread(2), ByPrediction(2)]), bits=10), Standardized()),
    "sliding window": (SlidingWindow(60), IntervalDistance()),
    "two tails": (TwoTails(), Residual()),
    "two tails by spread": (TwoTails(BySpread(2), lower_share=0.3), Normalized()),
    "two tails of bounds": (TwoTails(BySpread(edges=[1.0])), IntervalDistance()),
    "two tails by target": (TwoTails(ByTarget([-1.0, 1.0]), lower_share=0.4), Normalized()),
    "two tails of each group": (TwoTails(BySpread(2)), {"low": IntervalDistance(), "high": Normalized()}),
    "signed tails": (SignedTails(), Standardized()),
    "linear threshold": (ThresholdLine(), Residual()),
}
each_case = pytest.mark.parametrize(("calibrator", "score"), CASES.values(), ids=CASES)


def synthetic_rows(seed, n):
    data = draw(np.random.default_rng(seed), n)
    return Rows(data.prediction, data.X, data.y)


OLD, NEW = synthetic_rows(0, 200), synthetic_rows(1, 50)
ORACLE = FrozenEstimator(Oracle().fit(OLD.X, OLD.y))


def bounds(learned, rows, levels=LEVELS):
    """Return the bounds of each piece, shape (pieces, m, L, 2)."""
    sets = learned.intervals(rows, levels)
    return np.stack([np.asarray(piece) for piece in (sets.pieces if isinstance(sets, IntervalUnion) else [sets])])


def regressor(calibrator, score):
    return ConformalRegressor(ORACLE, nonconformity=score, calibrator=calibrator).fit(OLD.X, OLD.y)


def test_every_calibrator_of_the_package_is_tested():
    """A new calibrator must be added to CASES."""
    public = {getattr(evencover, name) for name in evencover.__all__}
    classes = {each for each in public if isinstance(each, type) and issubclass(each, BaseEstimator)}
    calibrator_types = {each for each in classes if hasattr(each, "learn") and hasattr(each, "restore")}
    tested = {type(calibrator) for calibrator, _ in CASES.values()}
    assert calibrator_types == tested - {SlidingWindow, ThresholdLine, SignedTails}
    assert calibrator_types


def test_a_users_own_calibrator_is_short():
    """The sliding window needs fewer than 40 lines."""
    assert sum(len(inspect.getsourcelines(each)[0]) for each in (SlidingWindow, Window)) < 40


@each_case
def test_results_of_a_row_do_not_depend_on_other_rows(calibrator, score):
    """A single row and rows in another order give exactly the same numbers."""
    learned = calibrator.learn(OLD, score)
    expected, p_values = bounds(learned, NEW), learned.p_values(NEW)
    order = np.random.default_rng(2).permutation(len(NEW))
    np.testing.assert_array_equal(bounds(learned, NEW[order]), expected[:, order])
    np.testing.assert_array_equal(learned.p_values(NEW[order]), p_values[order])
    for row in (0, 7):
        np.testing.assert_array_equal(bounds(learned, NEW[row]), expected[:, [row]])
        np.testing.assert_array_equal(learned.p_values(NEW[row]), p_values[[row]])


@each_case
def test_results_of_a_level_do_not_depend_on_other_levels(calibrator, score):
    """Nor on their order. Bounds have the shape (m, L)."""
    learned = calibrator.learn(OLD, score)
    several = bounds(learned, NEW)
    assert several.shape[1:] == (len(NEW), len(LEVELS), 2)
    np.testing.assert_array_equal(bounds(learned, NEW, LEVELS[::-1]), several[:, :, ::-1])
    np.testing.assert_array_equal(bounds(learned, NEW, LEVELS[1:2]), several[:, :, 1:2])


@each_case
def test_intervals_are_nested_if_nested_is_true(calibrator, score):
    """The interval of a larger level contains that of a smaller one."""
    learned = calibrator.learn(OLD, score)
    assert learned.nested == (not isinstance(calibrator, ThresholdLine))
    found = bounds(learned, NEW)
    inner, outer = found[:, :, :-1], found[:, :, 1:]
    empty = inner[..., 0] > inner[..., 1]
    contains = ((outer[..., 0] <= inner[..., 0]) & (inner[..., 1] <= outer[..., 1])) | empty
    assert contains.all() or not learned.nested


@pytest.mark.parametrize("name", [name for name in CASES if name != "linear threshold"])
def test_an_interval_covers_if_and_only_if_the_p_value_exceeds_1_minus_level(name):
    """For all calibrators that compare a score with calibration scores."""
    calibrator, score = CASES[name]
    learned = calibrator.learn(OLD, score)
    covered = learned.intervals(NEW, LEVELS).covers(NEW.y)
    limits = 1 + 1e-9 - np.array([float(level) for level in LEVELS])  # p may equal 1 − level
    np.testing.assert_array_equal(covered, learned.p_values(NEW)[:, None] > limits)
    assert 0 < covered.mean() < 1


@each_case
def test_learn_does_not_change_the_calibrator_or_the_rows(calibrator, score):
    """So one calibrator can be used for many models."""
    settings, y = repr(calibrator), OLD.y.copy()
    first, second = calibrator.learn(OLD, score), calibrator.learn(OLD, score)
    np.testing.assert_array_equal(bounds(first, NEW), bounds(second, NEW))
    assert repr(calibrator) == settings
    np.testing.assert_array_equal(OLD.y, y)


@each_case
def test_results_are_the_same_after_pickling(calibrator, score):
    learned = calibrator.learn(OLD, score)
    before = bounds(learned, NEW)  # fills the caches
    copy = pickle.loads(pickle.dumps(learned))  # noqa: S301
    np.testing.assert_array_equal(bounds(copy, NEW), before)
    np.testing.assert_array_equal(copy.p_values(NEW), learned.p_values(NEW))
    assert str(copy.guarantee) == str(learned.guarantee)


@each_case
@pytest.mark.filterwarnings("ignore:to load this file")
def test_results_are_the_same_after_saving_and_loading(calibrator, score, tmp_path):
    """A user's own calibrator is passed to `load`, like a user's own score."""
    model = regressor(calibrator, score)
    model.save(tmp_path / "model")
    own_calibrator = None if isinstance(calibrator, ByGroup | TwoTails) else calibrator
    loaded = ConformalRegressor.load(tmp_path / "model", calibrator=own_calibrator, trusted=["tests.synthetic.Oracle"])
    np.testing.assert_array_equal(bounds(loaded.calibrator_, NEW), bounds(model.calibrator_, NEW))
    np.testing.assert_array_equal(loaded.p_values(NEW.X, NEW.y), model.p_values(NEW.X, NEW.y))
    assert str(loaded.guarantee_) == str(model.guarantee_)
    np.testing.assert_array_equal(
        bounds(loaded.calibrate(OLD.X, OLD.y).calibrator_, NEW), bounds(model.calibrator_, NEW)
    )


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("histogram")])
def test_scores_are_in_the_order_of_the_rows(name):
    """For calibrators that keep the scores."""
    calibrator, score = CASES[name]
    scores = calibrator.learn(OLD, score).scores
    if isinstance(score, dict):
        low = OLD.prediction.spread <= np.sort(OLD.prediction.spread)[len(OLD) // 2 - 1]
        expected = np.where(low, *(score[group](OLD.y, OLD.prediction) for group in ("low", "high")))
    else:
        expected = score(OLD.y, OLD.prediction)
    np.testing.assert_array_equal(scores, expected[-len(scores) :])


@each_case
def test_a_regressor_gives_the_results_of_its_calibrator(calibrator, score):
    """For one or several levels, from features or rows, with frame and guarantee; it can be diagnosed and audited."""
    model = regressor(calibrator, score)
    rows = model.rows(NEW.X, NEW.y)
    union = model.predict_union(rows, level=[0.5, 0.8, 0.9])
    pieces = np.stack([np.asarray(piece) for piece in union.pieces])
    np.testing.assert_array_equal(pieces, bounds(model.calibrator_, NEW))
    frame = pd.DataFrame(NEW.X)
    one = model.predict_interval(frame, level=0.8)
    np.testing.assert_array_equal(np.asarray(one), np.asarray(model.predict_interval(rows, level=(0.5, 0.8)))[:, 1])
    assert (one.level, one.lower.shape, str(one.guarantee)) == (0.8, (len(NEW),), str(model.guarantee_))
    assert list(one.to_frame().index) == list(frame.index)
    np.testing.assert_array_equal(model.p_values(NEW.X, NEW.y), model.p_values(rows))
    if not isinstance(score, dict):
        assert diagnose(model).verdict in ("even", "uneven", "undecided")
    found = audit(NEW.y, model.predict_interval(rows, level=0.8))
    assert found.sizes_known == (model.guarantee_.exact and len(pieces) == 1)  # a row of a union has several thresholds


MERGEABLE = ["one group", "by given edges", "by target", "two tails of bounds", "two tails by target"]
MERGEABLE += ["histogram", "histograms by given edges", "histograms by target"]


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("name", MERGEABLE)
def test_merged_parts_equal_the_whole(name, parts):
    """For groups that are not learned, so that all parts have the same groups."""
    calibrator, score = CASES[name]
    first, *rest = (calibrator.learn(OLD[start::parts], score) for start in range(parts))
    whole = calibrator.learn(OLD, score)
    merged = first.merge(*rest)
    np.testing.assert_array_equal(bounds(merged, NEW), bounds(whole, NEW))
    np.testing.assert_array_equal(merged.p_values(NEW), whole.p_values(NEW))
    assert merged.guarantee.sizes == whole.guarantee.sizes


def test_merging_parts_with_different_groups_raises():
    first, second = (ByGroup(BySpread(3)).learn(OLD[start::2], Residual()) for start in range(2))
    with pytest.raises(ValueError, match="merge needs calibrations with the same rules"):
        first.merge(second)


# Groups of the target are tested in tests/guarantees; the linear threshold has no guarantee.
WITH_GUARANTEE = [name for name in CASES if "by target" not in name and name != "linear threshold"]


@pytest.mark.parametrize("name", WITH_GUARANTEE)
def test_the_guarantee_holds(name):
    """Exact ones cover k of n + 1 rows of each group, if each row is the new one in turn. Others cover no fewer.

    Given the rows, each is equally likely to be the new one, so a wrong rank or edge row is found with certainty. For
    two tails, the numbers beyond each end are exact: see tests/guarantees/test_two_tails.
    """
    calibrator, score = CASES[name]
    rows, level, covered = synthetic_rows(3, 61), LEVELS[1], {}
    for old, new in each_row_as_new(rows):
        learned = calibrator.learn(old, score)
        code = int(learned.groups(new).codes[0]) if hasattr(learned, "groups") else 0
        n = list(learned.guarantee.sizes.values())[code]
        covered.setdefault((code, n), []).append(bool(learned.intervals(new, (level,)).covers(new.y)[0, 0]))
    shares = {group: Fraction(sum(hits), len(hits)) for group, hits in covered.items()}
    assert learned.guarantee.lower_bound(level) <= min(shares.values()) < 1
    if is_exact(learned.guarantee):
        assert shares == {(code, n): Fraction(conformal_rank(n, level), n + 1) for code, n in covered}


def is_exact(guarantee):
    return guarantee.exact and guarantee.tail_shares is None


def test_two_tails_cover_a_beta_binomial_number():
    """2k − n − 1 of the n + 1 gaps lie between the two thresholds, where k is the conformal rank of a tail."""
    rng, uniform = np.random.default_rng(4), []
    k = conformal_rank(60, Fraction(9, 10))
    expected = betabinom(40, 2 * k - 61, 2 * (61 - k))
    for _ in range(600):
        old, new = (draw(rng, n) for n in (60, 40))
        learned = SignedTails().learn(Rows(old.prediction, y=old.y), Standardized())
        hits = learned.intervals(Rows(new.prediction), LEVELS[1:2]).covers(new.y).sum()
        uniform.append(expected.cdf(hits - 1) + rng.random() * expected.pmf(hits))
    assert kstest(uniform, "uniform").pvalue > ONE_IN_A_MILLION
    assert isinstance(learned, Tails)


def test_weights_raise_for_calibrators_that_do_not_take_them():
    """Weights are never ignored silently, neither of calibration rows nor of new rows."""
    model = regressor(SlidingWindow(60), Residual())
    with pytest.raises(ValueError, match="SlidingWindow takes no weights"):
        model.calibrate(OLD.X, OLD.y, weights=np.ones(len(OLD)))
    with pytest.raises(ValueError, match="SlidingWindow takes no weights"):
        model.predict_interval(NEW.X, weights=np.ones(len(NEW)))


def test_weights_reach_calibrators_that_take_them():
    weights = np.linspace(1.0, 2.0, len(OLD))
    model = ConformalRegressor(ORACLE, calibrator=ByGroup(ByFeature(0)))
    model.calibrate(OLD.X, OLD.y, weights=weights)
    learned = ByGroup(ByFeature(0)).learn(replace(OLD, weights=weights), Residual())
    rows = replace(NEW, weights=np.ones(len(NEW)))
    np.testing.assert_array_equal(bounds(model.calibrator_, rows), bounds(learned, rows))
    assert not np.array_equal(bounds(learned, rows), bounds(ByGroup(ByFeature(0)).learn(OLD, Residual()), NEW))


class BrokenCalibrator:
    """A calibrator whose methods return the given wrong results."""

    def __init__(self, **results):
        self.results = results

    def learn(self, rows, nonconformity):
        learned = SlidingWindow(60).learn(rows, nonconformity)
        methods = {name: lambda *_, result=result, **__: result for name, result in self.results.items()}
        return type("Broken", (Window,), methods)(learned.nonconformity, learned.scores)

    def restore(self, state, nonconformity):
        raise TypeError("an error in the user's code")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            (np.zeros(50), np.ones(50)),
            "Broken.intervals must return Intervals, or a union of one or more; got tuple",
        ),
        (
            IntervalUnion([]),
            "Broken.intervals must return Intervals, or a union of one or more; got IntervalUnion",
        ),
        (Intervals(np.zeros(50), np.ones(50)), "bounds of shape (50, 1), rows by levels; got (50,)"),
        (Intervals(np.zeros((1, 50)), np.ones((1, 50))), "bounds of shape (50, 1), rows by levels; got (1, 50)"),
        (IntervalUnion([Intervals(np.zeros((50, 2)), np.ones((50, 2)))]), "rows by levels; got (50, 2)"),
    ],
)
def test_wrong_results_of_intervals_raise(result, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        regressor(BrokenCalibrator(intervals=result), Residual()).predict_interval(NEW.X)


def test_wrong_results_of_p_values_raise():
    with pytest.raises(ValueError, match="p-values of Broken must be one-dimensional"):
        regressor(BrokenCalibrator(p_values=7.0), Residual()).p_values(NEW.X, NEW.y)


def test_learn_must_return_an_object_with_all_members():
    """The check comes before any change of the regressor."""

    class LearnsNothing(BrokenCalibrator):
        def learn(self, rows, nonconformity):
            return None

    with pytest.raises(
        TypeError, match=r"must return an object with nonconformity, .*, state; None lacks nonconformity, guarantee"
    ):
        regressor(LearnsNothing(), Residual())


@pytest.mark.filterwarnings("ignore:to load this file")
def test_every_type_of_state_is_saved_and_loaded(tmp_path):
    """Arrays, values, lists of arrays, tuples and mappings; also under names that the archive uses itself."""
    states = []

    class ManyStates(SlidingWindow):
        def learn(self, rows, nonconformity):
            state = {"header": 1, "file": "x", "allow_pickle": [0.5, None], "folds": [np.arange(3.0), np.ones(2)]}
            state |= {"pair": (1, 2), "by": {"a": np.zeros(2)}, "none": np.empty((0, 3)), "scores": OLD.y}
            return type("WindowWithManyStates", (Window,), {"state": lambda _: state})(nonconformity, OLD.y)

        def restore(self, state, nonconformity):
            states.append(state)
            return super().restore(state, nonconformity)

    model = regressor(ManyStates(60), Residual())
    model.save(tmp_path / "model")
    ConformalRegressor.load(tmp_path / "model", calibrator=ManyStates(60), trusted=["tests.synthetic.Oracle"])
    (state,) = states
    assert (state["header"], state["file"], state["allow_pickle"], state["pair"]) == (1, "x", [0.5, None], (1, 2))
    assert [part.tolist() for part in state["folds"]] == [[0.0, 1.0, 2.0], [1.0, 1.0]]
    assert (state["by"]["a"].tolist(), state["none"].shape) == ([0.0, 0.0], (0, 3))


@pytest.mark.filterwarnings("ignore:to load this file")
def test_an_error_in_a_users_restore_is_not_reported_as_a_corrupt_file(tmp_path):
    model = regressor(BrokenCalibrator(), Residual())
    model.save(tmp_path / "model")
    with pytest.raises(TypeError, match=r"^an error in the user's code$"):
        ConformalRegressor.load(tmp_path / "model", calibrator=BrokenCalibrator(), trusted=["tests.synthetic.Oracle"])


@pytest.mark.filterwarnings("ignore:to load this file")
def test_set_params_has_no_effect_until_the_next_calibration(tmp_path):
    """Until then, predictions, weights and files are those of the last calibration."""
    model = regressor(ByGroup(ByFeature(0)), Residual())
    before = bounds(model.calibrator_, NEW)
    model.set_params(calibrator=SlidingWindow(60), taxonomy=BySpread(2))
    np.testing.assert_array_equal(np.asarray(model.predict_interval(NEW.X, level=[0.5, 0.8, 0.9])), before[0])
    model.save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model", trusted=["tests.synthetic.Oracle"])
    np.testing.assert_array_equal(bounds(loaded.calibrator_, NEW), before)
    window = regressor(SlidingWindow(60), Residual()).set_params(calibrator=None)
    with pytest.raises(ValueError, match="SlidingWindow takes no weights"):
        window.predict_interval(NEW.X, weights=np.ones(len(NEW)))
    with pytest.raises(ValueError, match="SlidingWindow takes no weights"):
        window.predict_interval(replace(window.rows(NEW.X), weights=np.ones(len(NEW))))


def test_the_guarantee_of_a_hull_is_not_exact():
    union = regressor(ByGroup(ByTarget([0.0])), Residual()).predict_union(NEW.X)
    assert (union.guarantee.exact, union.hull().guarantee.exact) == (True, False)


def test_predicting_no_rows_returns_no_intervals():
    """For every calibrator, with bounds of shape (0, L)."""
    for calibrator, score in CASES.values():
        intervals = regressor(calibrator, score).predict_interval(NEW.X[:0], level=[0.5, 0.9])
        assert intervals.lower.shape == (0, 2)
