"""The contract of every calibrator, ours and foreign: a row is answered by itself, and what is promised holds."""

import inspect
import pickle
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom, binom, kstest
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

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
    audit,
    calibrators,
    conformal_rank,
    diagnose,
)
from tests.calibrators import SlidingWindow, Tails, ThresholdLine, TwoTails, Window
from tests.synthetic import ONE_IN_A_MILLION, Oracle, draw

LEVELS = (Fraction(1, 2), Fraction(4, 5), Fraction(9, 10))
CASES = {
    "one group": (ByGroup(), Residual()),
    "by spread": (ByGroup(BySpread(3)), Normalized()),
    "by fixed bins": (ByGroup(BySpread(edges=[0.6, 1.7])), IntervalDistance()),
    "a score for each group": (ByGroup(BySpread(2)), {"low": Residual(), "high": Normalized()}),
    "by target": (ByGroup(ByTarget([-1.0, 1.0])), Residual()),
    "by product": (ByGroup(Product([BySpread(2), ByPrediction(2)])), Normalized()),
    "one tail": (ByGroup(BySpread(2)), Standardized()),
    "sliding window": (SlidingWindow(60), IntervalDistance()),
    "two tails": (TwoTails(), Standardized()),
    "threshold line": (ThresholdLine(), Residual()),
}
each_case = pytest.mark.parametrize(("calibrator", "score"), CASES.values(), ids=CASES)


def rows_of(seed, n):
    drawn = draw(np.random.default_rng(seed), n)
    return Rows(drawn.prediction, drawn.X, drawn.y)


OLD, NEW = rows_of(0, 200), rows_of(1, 50)
ORACLE = FrozenEstimator(Oracle().fit(OLD.X, OLD.y))


def bounds(learned, rows, levels=LEVELS):
    """Return the bounds of each piece, shape (pieces, m, L, 2)."""
    made = learned.intervals(rows, levels)
    return np.stack([np.asarray(piece) for piece in (made.pieces if isinstance(made, IntervalUnion) else [made])])


def regressor(calibrator, score):
    return ConformalRegressor(ORACLE, nonconformity=score, calibrator=calibrator).fit(OLD.X, OLD.y)


def test_every_calibrator_of_the_package_is_under_contract():
    """A new one cannot be forgotten here."""
    public = {getattr(calibrators, name) for name in calibrators.__all__}
    ours = {each for each in public if issubclass(each, BaseEstimator)}
    assert ours == {type(calibrator) for calibrator, _ in CASES.values()} - {SlidingWindow, ThresholdLine, TwoTails}
    assert ours


def test_a_foreign_calibrator_is_short():
    """The sliding window needs fewer than 40 lines."""
    assert sum(len(inspect.getsourcelines(each)[0]) for each in (SlidingWindow, Window)) < 40


@each_case
def test_a_row_is_answered_by_itself(calibrator, score):
    """Alone, in other company and in another order, with the same bits."""
    learned = calibrator.learn(OLD, score)
    together, p_values = bounds(learned, NEW), learned.p_values(NEW)
    order = np.random.default_rng(2).permutation(len(NEW))
    np.testing.assert_array_equal(bounds(learned, NEW[order]), together[:, order])
    np.testing.assert_array_equal(learned.p_values(NEW[order]), p_values[order])
    for row in (0, 7):
        np.testing.assert_array_equal(bounds(learned, NEW[row]), together[:, [row]])
        np.testing.assert_array_equal(learned.p_values(NEW[row]), p_values[[row]])


@each_case
def test_levels_are_answered_by_themselves(calibrator, score):
    """Whatever other levels are asked for, in whatever order. Bounds have the shape (m, L)."""
    learned = calibrator.learn(OLD, score)
    several = bounds(learned, NEW)
    assert several.shape[1:] == (len(NEW), len(LEVELS), 2)
    np.testing.assert_array_equal(bounds(learned, NEW, LEVELS[::-1]), several[:, :, ::-1])
    np.testing.assert_array_equal(bounds(learned, NEW, LEVELS[1:2]), several[:, :, 1:2])


@each_case
def test_intervals_are_nested_where_it_says_so(calibrator, score):
    """A larger level contains a smaller one."""
    learned = calibrator.learn(OLD, score)
    assert learned.nested == (not isinstance(calibrator, ThresholdLine))
    made = bounds(learned, NEW)
    inner, outer = made[:, :, :-1], made[:, :, 1:]
    empty = inner[..., 0] > inner[..., 1]
    contains = ((outer[..., 0] <= inner[..., 0]) & (inner[..., 1] <= outer[..., 1])) | empty
    assert contains.all() or not learned.nested


@pytest.mark.parametrize("name", [name for name in CASES if name != "threshold line"])
def test_an_interval_covers_exactly_where_the_p_value_exceeds(name):
    """One minus the level: all of these compare the score with calibration scores."""
    calibrator, score = CASES[name]
    learned = calibrator.learn(OLD, score)
    covered = learned.intervals(NEW, LEVELS).covers(NEW.y)
    passes = learned.p_values(NEW)[:, None] > 1 + 1e-9 - np.array(
        [float(level) for level in LEVELS]
    )  # p may be 1 − level
    np.testing.assert_array_equal(covered, passes)
    assert 0 < covered.mean() < 1


@each_case
def test_learning_leaves_the_calibrator_and_the_rows_as_they_were(calibrator, score):
    """So that one calibrator can serve many models."""
    settings, y = repr(calibrator), OLD.y.copy()
    first, second = calibrator.learn(OLD, score), calibrator.learn(OLD, score)
    np.testing.assert_array_equal(bounds(first, NEW), bounds(second, NEW))
    assert repr(calibrator) == settings
    np.testing.assert_array_equal(OLD.y, y)


@each_case
def test_answers_are_the_same_after_pickling(calibrator, score):
    learned = calibrator.learn(OLD, score)
    before = bounds(learned, NEW)  # fills whatever it remembers
    copy = pickle.loads(pickle.dumps(learned))  # noqa: S301
    np.testing.assert_array_equal(bounds(copy, NEW), before)
    np.testing.assert_array_equal(copy.p_values(NEW), learned.p_values(NEW))
    assert str(copy.guarantee) == str(learned.guarantee)


@each_case
@pytest.mark.filterwarnings("ignore:to load this file")
def test_answers_are_the_same_after_the_file(calibrator, score, tmp_path):
    """A foreign calibrator is passed in loading, as a foreign score is."""
    model = regressor(calibrator, score)
    model.save(tmp_path / "model")
    foreign = None if isinstance(calibrator, ByGroup) else calibrator
    loaded = ConformalRegressor.load(tmp_path / "model", calibrator=foreign, trusted=["tests.synthetic.Oracle"])
    np.testing.assert_array_equal(bounds(loaded.calibrator_, NEW), bounds(model.calibrator_, NEW))
    np.testing.assert_array_equal(loaded.p_values(NEW.X, NEW.y), model.p_values(NEW.X, NEW.y))
    assert str(loaded.guarantee_) == str(model.guarantee_)
    np.testing.assert_array_equal(
        bounds(loaded.calibrate(OLD.X, OLD.y).calibrator_, NEW), bounds(model.calibrator_, NEW)
    )


@each_case
def test_scores_are_those_of_the_rows_in_their_order(calibrator, score):
    """Where a calibrator keeps them."""
    scores = calibrator.learn(OLD, score).scores
    if isinstance(score, dict):
        low = OLD.prediction.spread <= np.sort(OLD.prediction.spread)[len(OLD) // 2 - 1]
        expected = np.where(low, *(score[group](OLD.y, OLD.prediction) for group in ("low", "high")))
    else:
        expected = score(OLD.y, OLD.prediction)
    np.testing.assert_array_equal(scores, expected[-len(scores) :])


@each_case
def test_a_regressor_answers_as_its_calibrator_does(calibrator, score):
    """One level or several, from features or from rows, with the frame and the guarantee; and it can be diagnosed."""
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
    assert found.sizes_known == (model.guarantee_.exact and len(pieces) == 1)  # unions are not of one threshold a row


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("name", ["one group", "by fixed bins", "by target"])
def test_parts_merged_are_the_whole(name, parts):
    """Where groups need no learning, so that all parts have the same."""
    calibrator, score = CASES[name]
    first, *rest = (calibrator.learn(OLD[place::parts], score) for place in range(parts))
    whole = calibrator.learn(OLD, score)
    merged = first.merge(*rest)
    np.testing.assert_array_equal(bounds(merged, NEW), bounds(whole, NEW))
    np.testing.assert_array_equal(merged.p_values(NEW), whole.p_values(NEW))
    assert merged.guarantee.sizes == whole.guarantee.sizes


def test_parts_with_other_groups_are_not_merged():
    first, second = (ByGroup(BySpread(3)).learn(OLD[place::2], Residual()) for place in range(2))
    with pytest.raises(ValueError, match="merge needs calibrations with the same rules"):
        first.merge(second)


# The law of groups of the target is tested in tests/guarantees; the line of thresholds promises nothing.
LAWFUL = [name for name in CASES if name not in ("by target", "threshold line")]


@pytest.mark.parametrize("name", LAWFUL)
def test_the_guarantee_holds(name):
    """Counts follow BetaBinomial where it says exact; else at least the lower bound is covered, by an exact test."""
    calibrator, score = CASES[name]
    rng = np.random.default_rng(3)
    ranks, covered, repeats = [], 0, 600
    for _ in range(repeats):
        old, new = (draw(rng, n) for n in (60, 40))
        learned = calibrator.learn(Rows(old.prediction, old.X, old.y), score)
        rows = Rows(new.prediction, new.X, new.y)
        hits = learned.intervals(rows, LEVELS[1:2]).covers(rows.y)[:, 0]
        covered += bool(hits[0])
        if learned.guarantee.exact:
            codes = learned.groups(rows).codes if hasattr(learned, "groups") else np.zeros(len(rows), dtype=int)
            n = list(learned.guarantee.sizes.values())[codes[0]]
            ranks.append(randomised_rank(hits[codes == codes[0]], n, LEVELS[1], rng))
    assert binom.cdf(covered, repeats, float(learned.guarantee.lower_bound(LEVELS[1]))) > ONE_IN_A_MILLION
    if learned.guarantee.exact:
        assert kstest(ranks, "uniform").pvalue > ONE_IN_A_MILLION


def randomised_rank(hits, n, level, rng):
    """Return where the number covered lies in its law, uniform if it follows it."""
    k = conformal_rank(n, level)
    law = betabinom(len(hits), k, n + 1 - k)
    return law.cdf(hits.sum() - 1) + rng.random() * law.pmf(hits.sum())


def test_two_tails_follow_their_own_law():
    """Between the two thresholds lie 2k − n − 1 of the n + 1 gaps, k the conformal rank of a tail."""
    rng, ranks = np.random.default_rng(4), []
    k = conformal_rank(60, Fraction(9, 10))
    law = betabinom(40, 2 * k - 61, 2 * (61 - k))
    for _ in range(600):
        old, new = (draw(rng, n) for n in (60, 40))
        learned = TwoTails().learn(Rows(old.prediction, y=old.y), Standardized())
        hits = learned.intervals(Rows(new.prediction), LEVELS[1:2]).covers(new.y).sum()
        ranks.append(law.cdf(hits - 1) + rng.random() * law.pmf(hits))
    assert kstest(ranks, "uniform").pvalue > ONE_IN_A_MILLION
    assert isinstance(learned, Tails)


def test_weights_are_refused_by_calibrators_that_know_none():
    """Nothing is left out in silence: neither calibration rows' weights nor those of new rows."""
    model = regressor(SlidingWindow(60), Residual())
    with pytest.raises(ValueError, match="SlidingWindow takes no weights"):
        model.calibrate(OLD.X, OLD.y, weights=np.ones(len(OLD)))
    with pytest.raises(ValueError, match="SlidingWindow takes no weights"):
        model.predict_interval(NEW.X, weights=np.ones(len(NEW)))


def test_weights_reach_those_that_take_them():
    weights = np.linspace(1.0, 2.0, len(OLD))
    model = ConformalRegressor(ORACLE, calibrator=ByGroup(ByFeature(0)))
    model.calibrate(OLD.X, OLD.y, weights=weights)
    learned = ByGroup(ByFeature(0)).learn(replace(OLD, weights=weights), Residual())
    rows = replace(NEW, weights=np.ones(len(NEW)))
    np.testing.assert_array_equal(bounds(model.calibrator_, rows), bounds(learned, rows))
    assert not np.array_equal(bounds(learned, rows), bounds(ByGroup(ByFeature(0)).learn(OLD, Residual()), NEW))


class Broken:
    """A calibrator whose answers are not what they must be."""

    def __init__(self, **answers):
        self.answers = answers

    def learn(self, rows, nonconformity):
        learned = SlidingWindow(60).learn(rows, nonconformity)
        return type("Odd", (Window,), {name: lambda *_, made=made, **__: made for name, made in self.answers.items()})(
            learned.nonconformity, learned.scores
        )

    def restore(self, state, nonconformity):
        raise TypeError("of the user's own")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ((np.zeros(50), np.ones(50)), "Odd.intervals must return Intervals, or a union of one or more; got tuple"),
        (IntervalUnion([]), "Odd.intervals must return Intervals, or a union of one or more; got IntervalUnion"),
        (Intervals(np.zeros(50), np.ones(50)), "bounds of shape (50, 1), rows by levels; got (50,)"),
        (Intervals(np.zeros((1, 50)), np.ones((1, 50))), "bounds of shape (50, 1), rows by levels; got (1, 50)"),
        (IntervalUnion([Intervals(np.zeros((50, 2)), np.ones((50, 2)))]), "rows by levels; got (50, 2)"),
    ],
)
def test_intervals_that_are_none_are_refused(made, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        regressor(Broken(intervals=made), Residual()).predict_interval(NEW.X)


def test_p_values_that_are_none_are_refused():
    with pytest.raises(ValueError, match="p-values of Odd must be one-dimensional"):
        regressor(Broken(p_values=7.0), Residual()).p_values(NEW.X, NEW.y)


def test_what_was_learned_must_be_able_to_answer():
    """Before anything is taken over."""

    class Forgetful(Broken):
        def learn(self, rows, nonconformity):
            return None

    with pytest.raises(
        TypeError, match=r"must return an object with nonconformity, .*, state; None lacks nonconformity, guarantee"
    ):
        regressor(Forgetful(), Residual())


@pytest.mark.filterwarnings("ignore:to load this file")
def test_every_kind_of_state_comes_back(tmp_path):
    """Arrays, values, lists of arrays, tuples and mappings; names that an archive uses itself."""
    states = []

    class Hoarder(SlidingWindow):
        def learn(self, rows, nonconformity):
            state = {"header": 1, "file": "x", "allow_pickle": [0.5, None], "folds": [np.arange(3.0), np.ones(2)]}
            state |= {"pair": (1, 2), "by": {"a": np.zeros(2)}, "none": np.empty((0, 3)), "scores": OLD.y}
            return type("Hoard", (Window,), {"state": lambda _: state})(nonconformity, OLD.y)

        def restore(self, state, nonconformity):
            states.append(state)
            return super().restore(state, nonconformity)

    model = regressor(Hoarder(60), Residual())
    model.save(tmp_path / "model")
    ConformalRegressor.load(tmp_path / "model", calibrator=Hoarder(60), trusted=["tests.synthetic.Oracle"])
    (state,) = states
    assert (state["header"], state["file"], state["allow_pickle"], state["pair"]) == (1, "x", [0.5, None], (1, 2))
    assert [part.tolist() for part in state["folds"]] == [[0.0, 1.0, 2.0], [1.0, 1.0]]
    assert (state["by"]["a"].tolist(), state["none"].shape) == ([0.0, 0.0], (0, 3))


@pytest.mark.filterwarnings("ignore:to load this file")
def test_an_error_of_the_users_own_in_restoring_is_not_called_damage(tmp_path):
    model = regressor(Broken(), Residual())
    model.save(tmp_path / "model")
    with pytest.raises(TypeError, match=r"^of the user's own$"):
        ConformalRegressor.load(tmp_path / "model", calibrator=Broken(), trusted=["tests.synthetic.Oracle"])


@pytest.mark.filterwarnings("ignore:to load this file")
def test_a_model_is_what_it_learned_whatever_its_parameters_become(tmp_path):
    """Other parameters take effect with the next calibration: answers, weights and files are of the last one."""
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


def test_the_hull_of_a_union_promises_no_exact_law():
    union = regressor(ByGroup(ByTarget([0.0])), Residual()).predict_union(NEW.X)
    assert (union.guarantee.exact, union.hull().guarantee.exact) == (True, False)


def test_no_rows_have_no_intervals():
    """Of whatever calibrator: shapes stay what they are."""
    for calibrator, score in CASES.values():
        made = regressor(calibrator, score).predict_interval(NEW.X[:0], level=[0.5, 0.9])
        assert made.lower.shape == (0, 2)
