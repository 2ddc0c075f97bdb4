"""Cross-conformal prediction against its definition, computed from tables of all calibration rows by all new rows."""

import warnings
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import evencover.calibration.cross as cross
import evencover.conformal.cross as cross_conformal
from evencover import (
    Bounded,
    ByFeature,
    CrossConformalRegressor,
    IntervalDistance,
    Normalized,
    OneSided,
    Prediction,
    ProbabilityDistance,
    RelativeIntervalDistance,
    Residual,
    Rows,
    Standardized,
)
from evencover.calibration import cross_sets
from evencover.calibration.cross_sets import FoldScores
from evencover.models import ResidualSpread, WithSpread
from evencover.models.estimators import predictions_of
from evencover.predictions import averaged
from evencover.scores.evaluation import scores_of, threshold_intervals
from evencover.scores.support import without_support

LEVELS = (0.5, 0.9, 0.99)  # the last is infinite: there are too few rows
N_ROWS = 48


@pytest.fixture(scope="module")
def table():
    """Rows with ties: rounded features and positive targets, duplicated rows; and new rows, some of them the same."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=N_ROWS).round(1), rng.normal(size=N_ROWS).round(1), np.arange(N_ROWS) % 3])
    y = np.exp(X[:, 0] / 2 + rng.normal(size=N_ROWS) * (0.2 + 0.2 * np.abs(X[:, 1]))).round(1) + 0.1
    X[40:], y[40:] = X[:8], y[:8]
    new = np.vstack([X[:6], np.column_stack([rng.normal(size=(9, 2)).round(1), rng.integers(3, size=9)])])
    return X, y, new


def folds(n_folds, n=N_ROWS, seed=0):
    """Return folds of different sizes as pairs of training and test positions; the first is the smallest."""
    order = np.random.default_rng(seed).permutation(n)
    ends = np.linspace(0, 1, n_folds + 1) ** 1.5 * (n - n_folds) + np.arange(n_folds + 1)
    parts = np.split(order, ends.round().astype(int)[1:-1])
    return [(np.setdiff1d(order, part), part) for part in parts]


REPEATED = folds(4, seed=1) + folds(7, seed=2) + folds(3, seed=3)
STEPS = ResidualSpread(DecisionTreeRegressor(max_depth=2, random_state=0))  # fitted at once, with many equal spreads
SPREAD = WithSpread(LinearRegression(), STEPS, cv=2, random_state=0)
TREE = WithSpread(DecisionTreeRegressor(max_depth=3, random_state=0), STEPS, cv=2, random_state=0)
METHODS = {
    "cv+": {"cv": folds(5)},
    "repeated": {"cv": REPEATED},
    "jackknife+": {"method": "jackknife+"},
    "bootstrap": {"method": "jackknife+-after-bootstrap", "n_bootstraps": 60},
    "cross-conformal": {"cv": folds(5), "method": "cross-conformal"},
    "repeated cross-conformal": {"cv": REPEATED, "method": "cross-conformal"},
}
SCORES = {
    "residual": (LinearRegression(), Residual()),
    "constant": (DummyRegressor(), Residual()),
    "normalized": (SPREAD, Normalized()),
    "standardized": (SPREAD, Standardized()),
    "upper": (SPREAD, OneSided(Normalized())),
    "lower": (SPREAD, OneSided(IntervalDistance(), side="lower")),
    "distance": (TREE, IntervalDistance()),
    "relative": (SPREAD, RelativeIntervalDistance()),
    "probability": (TREE, ProbabilityDistance(floor=0.01, scale=1.0)),
    "bounded": (LinearRegression(), Bounded(y_min=0.5, y_max=4)),
    "whole": (LinearRegression(), Bounded(whole=True)),
}
SOME_SCORES, SOME_METHODS = ("residual", "normalized", "distance"), ("cv+", "cross-conformal")
METHODS_AND_SCORES = [  # in the default run, all methods with some scores and all scores with some methods
    pytest.param(method, score, marks=() if score in SOME_SCORES or method in SOME_METHODS else pytest.mark.slow)
    for method in METHODS
    for score in SCORES
]


@dataclass
class Definition:
    """The intervals [L_i, U_i] of all calibration rows and repetitions for each new row, and their scores.

    `models` gives the prediction of the model without row i, for any rows; with repetitions, rows are repeated.
    """

    lower: np.ndarray  # (n R, m)
    upper: np.ndarray
    scores: np.ndarray  # (n R,)
    predictions: list  # of the new rows, by the model without each calibration row
    score: object
    n_repeats: int

    @classmethod
    def of(cls, model, X, y, new, score):
        without = models_without(model, len(y))
        own, others = ([predictions_of(each, rows) for each in model.estimators_] for rows in (X, new))
        scores, predictions = [], []
        for row, models in without:
            at_row = averaged_prediction([own[m][[row]] for m in models])
            scores.append(scores_of(score, Rows(at_row, y=y[[row]]))[0])
            predictions.append(averaged_prediction([others[m] for m in models]))
        inner = without_support(score)
        bounds = [
            threshold_intervals(inner, np.full((1, 1), each), prediction)
            for each, prediction in zip(scores, predictions, strict=True)
        ]
        lower, upper = (np.stack([getattr(each, name)[:, 0] for each in bounds]) for name in ("lower", "upper"))
        return cls(lower, upper, np.array(scores), predictions, score, len(without) // len(y))

    def part(self, rows, new):
        """Return the intervals of some calibration rows for some new rows."""
        members = np.flatnonzero(np.tile(rows, self.n_repeats))
        predictions = [self.predictions[i][new] for i in members]
        bounds = (each[members][:, new] for each in (self.lower, self.upper))
        return Definition(*bounds, self.scores[members], predictions, self.score, self.n_repeats)

    @property
    def n(self):
        return len(self.scores) // self.n_repeats

    def interval(self, level):
        """Return the ends: order statistics of all L_i and of all U_i."""
        r, alpha = self.n_repeats, 1 - Fraction(str(level))
        low, high = floor(r * alpha * (self.n + 1)), ceil(r * (1 - alpha) * (self.n + 1))
        low = low - (r - 1)  # with R repetitions, n R + 1 becomes R (n + 1) - (R - 1)
        if high > len(self.scores):
            return np.full(self.lower.shape[1], -np.inf), np.full(self.lower.shape[1], np.inf)
        return np.sort(self.lower, axis=0)[low - 1], np.sort(self.upper, axis=0)[high - 1]

    def check_p_values(self, found, y, rounding=1e-10):
        """Check p-values against (1 + #{i : the score of y is at most s_i} / R) / (n + 1); ties can differ by rounding.

        A prediction depends in its last digit on the number of rows that are predicted at once.
        """
        own = np.array([scores_of(self.score, Rows(prediction, y=y)) for prediction in self.predictions])
        for sign in (1, -1):
            margin = sign * rounding * np.nan_to_num(1 + np.abs(own), posinf=0.0)
            counts = (self.scores[:, None] >= own + margin).sum(axis=0) / self.n_repeats
            assert (sign * (found - (1 + counts) / (self.n + 1)) > -1e-12).all()

    def in_set(self, y, level):
        """Return whether (1 + #{i : L_i <= y <= U_i} / R) / (n + 1) is larger than alpha."""
        counts = ((self.lower <= y) & (y <= self.upper)).sum(axis=0)
        alpha = 1 - Fraction(str(level))
        return counts > floor(self.n_repeats * (alpha * (self.n + 1) - 1))

    def possible(self, y):
        """Return whether targets are in the support of the score."""
        return self.score.support.contains(y) if isinstance(self.score, Bounded) else np.ones(len(y), dtype=bool)

    def targets(self):
        """Yield targets between all neighbouring ends of each new row, and beyond them: a target for each row."""
        ends = np.concatenate([self.lower, self.upper])
        ends = np.sort(np.where(np.isfinite(ends), ends, 0.0), axis=0)
        between = (ends[:-1] + ends[1:]) / 2
        between = np.where(ends[1:] - ends[:-1] > 1e-9, between, ends[0] - 1.0)  # equal ends differ by rounding
        targets = np.concatenate([ends[:1] - 1.0, between, ends[-1:] + 1.0])
        yield from np.unique(targets.round(), axis=0) if getattr(self.score, "whole", False) else targets


def models_without(model, n):
    """Return pairs of a calibration row and the numbers of the models whose mean is the model without it."""
    left_out = model.calibrator_.folds.left_out
    if left_out is not None:
        return [(i, np.flatnonzero(left_out[i])) for i in range(n)]
    if model.method == "jackknife+":
        return [(i, [i]) for i in range(n)]
    repeats = [{}]
    for number, (_, test) in enumerate(model.cv):
        if len(repeats[-1]) == n:
            repeats.append({})
        repeats[-1] |= {i: [number] for i in test}
    return [(i, each[i]) for each in repeats for i in range(n)]


def averaged_prediction(predictions):
    return predictions[0] if len(predictions) == 1 else averaged(predictions, lambda values: values.mean(axis=0))


def fitted(estimator, score, X, y, **settings):
    model = CrossConformalRegressor(estimator, nonconformity=score, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows, and of targets outside the support
        return model.fit(X, y)


def quietly(function, *arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of levels that need more rows
        return function(*arguments, **settings)


def check_sets(model, definition, sets, level, rows=slice(None)):
    """Check prediction sets against the definition, in the targets between all ends, or at the ends themselves."""
    score = definition.score
    if model.method == "cross-conformal":
        for y in definition.targets():
            expected = definition.in_set(y, level) & definition.possible(y)
            covered = np.any([(p.lower[rows] <= y) & (y <= p.upper[rows]) for p in sets.pieces], axis=0)
            np.testing.assert_array_equal(covered, expected)
        return
    lower, upper = definition.interval(level)
    kept = np.ones(len(lower), dtype=bool)
    if isinstance(score, Bounded):
        lower, upper = score.support.restrict(lower, upper)
        kept = lower <= upper
    np.testing.assert_allclose(sets.lower[rows][kept], lower[kept], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sets.upper[rows][kept], upper[kept], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("method", "score_name"), METHODS_AND_SCORES)
def test_sets_and_p_values_follow_the_definition(table, method, score_name):
    X, y, new = table
    estimator, score = SCORES[score_name]
    if method in ("jackknife+", "bootstrap") and isinstance(estimator, WithSpread):
        X, y = X[:24], y[:24]
    model = fitted(estimator, score, X, y, **METHODS[method])
    definition = Definition.of(model, X, y, new, score)
    for level in LEVELS:
        predict = model.predict_union if model.method == "cross-conformal" else model.predict_interval
        check_sets(model, definition, quietly(predict, new, level), level)
    targets = np.tile(np.unique(y), 3)[: len(new)]
    rounding = 0.0 if score_name == "constant" and method != "bootstrap" else 1e-10
    definition.check_p_values(model.p_values(new, targets), targets, rounding)


def test_ties_count_in_p_values():
    """All of them, or with a seed a random share of them and of the new row."""
    X, y = np.zeros((40, 1)), np.repeat([0.0, 1.0, 2.0, 3.0], 10)
    model = CrossConformalRegressor(DummyRegressor(strategy="constant", constant=0.0), cv=5, random_state=0).fit(X, y)
    new = np.array([0.0, 1.0, 2.5])
    np.testing.assert_allclose(model.p_values(X[:3], new), np.array([41, 31, 11]) / 41)
    shares = np.random.default_rng(7).random(3)
    np.testing.assert_allclose(model.p_values(X[:3], new, seed=7), ([30, 20, 10] + shares * [11, 11, 1]) / 41)


@pytest.mark.parametrize("method", ["cv+", "cross-conformal", "repeated", "bootstrap"])
def test_transformed_targets_follow_the_definition(table, method):
    X, y, new = table
    model = fitted(LinearRegression(), Residual(), X, y, target_transform="log", **METHODS[method])
    definition = Definition.of(model, X, y, new, Residual())
    for level in LEVELS[:2]:
        predict = model.predict_union if model.method == "cross-conformal" else model.predict_interval
        check_sets(model, definition, predict(new, level), level)
    definition.check_p_values(model.p_values(new, y[: len(new)]), y[: len(new)])


def test_transforms_that_differ_between_folds_follow_the_definition(table):
    X, y, new = table
    model = fitted(LinearRegression(), Residual(), X, y, target_transform=StandardScaler(), cv=folds(4))
    check_sets(model, Definition.of(model, X, y, new, Residual()), model.predict_interval(new, 0.9), 0.9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("by_group", [False, True])
def test_groups_use_their_own_rows(table, method, by_group):
    X, y, new = table
    scores = {0.0: Residual(), 1.0: OneSided(Residual()), 2.0: Bounded(y_min=0.0)}
    score = scores if by_group else Residual()
    model = fitted(LinearRegression(), score, X, y, taxonomy=ByFeature(2), **METHODS[method])
    predict = model.predict_union if model.method == "cross-conformal" else model.predict_interval
    for label, own in scores.items():
        rows, members = X[:, 2] == label, np.flatnonzero(new[:, 2] == label)
        definition = Definition.of(model, X, y, new, own if by_group else score).part(rows, members)
        for level in LEVELS:
            check_sets(model, definition, quietly(predict, new, level), level, members)
        definition.check_p_values(model.p_values(new, y[: len(new)])[members], y[members])


@pytest.mark.parametrize("score_name", SCORES)
@pytest.mark.parametrize(
    "method", ["cross-conformal", pytest.param("repeated cross-conformal", marks=pytest.mark.slow)]
)
def test_a_target_is_in_the_union_exactly_if_its_p_value_is_above_alpha(table, method, score_name):
    X, y, new = table
    estimator, score = SCORES[score_name]
    model = fitted(estimator, score, X, y, **METHODS[method])
    wider = fitted(estimator, score, X, y, **(METHODS[method] | {"method": "cv+"}))
    rows = model.rows(new)
    definition = Definition.of(model, X, y, new, score)
    levels = (0.3, *LEVELS)
    unions, intervals = (
        [quietly(predict, new, level) for level in levels] for predict in (model.predict_union, wider.predict_interval)
    )
    for targets in definition.targets():
        p_values = model.calibrator_.p_values(Rows(rows.prediction, X=new, y=targets).with_folds(rows.fold_predictions))
        for level, union, wide in zip(levels, unions, intervals, strict=True):
            covered = union.covers(targets)
            np.testing.assert_array_equal(covered, (p_values > 1 - level) & definition.possible(targets))
            assert not (covered & ~wide.covers(targets)).any()


# --- selection over sorted arrays


def random_case(rng):
    """Return fold scores, a number of rows, and values that do not decrease with the score, of several kinds."""
    n_folds = int(rng.integers(1, 9))
    sizes = rng.integers(0, rng.choice([2, 12, 60]), size=n_folds)
    sizes[int(rng.integers(n_folds))] += 1
    if rng.random() < 0.2:
        sizes = np.ones(int(rng.integers(1, 40)), dtype=int)  # jackknife
    folds = np.repeat(np.arange(len(sizes)), sizes)
    scores = rng.normal(size=len(folds))
    kind = rng.integers(5)
    if kind == 1:
        scores = scores.round(0)
    if kind == 2:
        scores[:] = 1.5
    if kind == 3:
        scores[rng.random(len(scores)) < 0.4] = np.inf
        scores[rng.random(len(scores)) < 0.2] = -np.inf
    own = FoldScores.of(scores, folds, len(sizes))
    n_rows = int(rng.integers(0, 7))
    center = rng.normal(size=len(own.sizes) * n_rows) * rng.choice([0.0, 0.1, 3.0])
    slope = rng.choice([0.0, 1.0, 2.5], size=len(center)) if rng.random() < 0.5 else np.ones(len(center))
    step = rng.random() < 0.3

    def values(cells, scores):
        moved = np.multiply(slope[cells], scores, out=np.zeros(len(cells)), where=slope[cells] > 0)
        return center[cells] + (np.floor(moved * 2) if step else moved)

    return own, n_rows, values


def all_values(own, n_rows, values):
    """Return the values of all rows and scores. Shape (n, m)."""
    folds = np.repeat(np.arange(len(own.sizes)), own.sizes)
    cells = folds[:, None] * n_rows + np.arange(n_rows)
    return values(cells.ravel(), np.repeat(own.scores, n_rows)).reshape(len(own), n_rows)


@pytest.mark.parametrize("steps", ["all", "windows", "bisection"])
@pytest.mark.parametrize("block", [1, 40, 1 << 15])
def test_smallest_values_are_those_of_sorting(monkeypatch, steps, block):
    monkeypatch.setattr(cross_sets, "_MAX_VALUES", block)
    if steps != "all":
        monkeypatch.setattr(cross_sets, "_ALL_VALUES", 0)
    if steps == "bisection":
        monkeypatch.setattr(FoldScores, "_smallest_near_expected", lambda self, rank, cells, _: (0.0, False))
    rng = np.random.default_rng(0)
    for _ in range(60):
        own, n_rows, values = random_case(rng)
        ordered = np.sort(all_values(own, n_rows, values), axis=0)
        for rank in {1, len(own), *rng.integers(1, len(own) + 1, size=3)}:
            np.testing.assert_array_equal(own.smallest(int(rank), n_rows, values), ordered[rank - 1])
        assert np.isposinf(own.smallest(len(own) + 1, n_rows, values)).all()


def test_values_are_counted_by_bisection():
    rng = np.random.default_rng(1)
    for _ in range(60):
        own, n_rows, values = random_case(rng)
        table = all_values(own, n_rows, values)
        bounds = rng.choice(np.append(table.ravel(), 0.0), size=n_rows)
        for less in (np.less, np.less_equal):
            found = own.count(own.cells(np.arange(n_rows), n_rows), bounds, values, less)
            expected = np.add.reduceat(less(table, bounds), own.starts, axis=0, dtype=int).T
            np.testing.assert_array_equal(found, expected)


def test_few_values_are_computed_where_models_are_alike():
    rng = np.random.default_rng(0)
    own = FoldScores.of(np.abs(rng.normal(size=5000)), np.arange(5000) % 10, 10)
    center, computed = rng.normal(size=1000 * 10) * 0.05, []

    def values(cells, scores):
        computed.append(len(cells))
        return center[cells] + scores

    own.smallest(4501, 1000, values)
    assert sum(computed) < 1000 * 10 * 9  # of 500 scores in each fold


def test_ties_do_not_need_all_values():
    rng = np.random.default_rng(0)
    own = FoldScores.of(rng.integers(3, size=5000).astype(float), np.arange(5000) % 10, 10)
    center, computed = rng.normal(size=500 * 10).round(1), []

    def values(cells, scores):
        computed.append(len(cells))
        return center[cells] + scores

    found = own.smallest(3000, 500, values)
    assert sum(computed) < 500 * 10 * 150
    expected = np.sort(center.reshape(10, 500)[own.fold_of_score] + own.scores[:, None], axis=0)[2999]
    np.testing.assert_array_equal(found, expected)


# --- targets in enough intervals


def intervals_of_cells(rng, own, n_rows):
    """Return the ends of intervals center ± (half width + score), some of them empty."""
    n_cells = len(own.sizes) * n_rows
    center = (rng.normal(size=n_cells) * rng.choice([0.0, 0.2, 4.0])).round(1)
    half = rng.choice([0.0, 0.5, 1.0], size=n_cells)
    return (lambda cells, s: -(center[cells] - half[cells] - s)), (lambda cells, s: center[cells] + half[cells] + s)


@pytest.mark.parametrize("ends_at_once", [1, 1 << 19])
def test_pieces_hold_the_targets_in_enough_intervals(monkeypatch, ends_at_once):
    monkeypatch.setattr(cross_sets, "_MAX_ENDS", ends_at_once)
    rng = np.random.default_rng(2)
    known = swept = 0
    for _ in range(150):
        own, n_rows, _ = random_case(rng)
        ends = intervals_of_cells(rng, own, n_rows)
        negated_lower, upper = (all_values(own, n_rows, each) for each in ends)
        needed = int(rng.integers(-1, len(own) + 2))
        pieces = cross_sets.depth_pieces(n_rows, own, ends, needed)
        at = np.concatenate([-negated_lower, upper])
        at = np.sort(np.where(np.isfinite(at), at, 0.0), axis=0)
        between = np.concatenate([at[:1] - 1, (at[:-1] + at[1:]) / 2, at[-1:] + 1, at])
        inside = (-negated_lower[:, None] <= between) & (between <= upper[:, None])  # (n, targets, m)
        found = np.any([(piece.lower <= between) & (between <= piece.upper) for piece in pieces], axis=0)
        np.testing.assert_array_equal(found, inside.sum(axis=0) >= needed)
        if 0 < needed <= len(own):
            one = cross_sets._is_one_interval(n_rows, own, ends, needed)
            known, swept = known + one.sum(), swept + (~one).sum()
    assert known > 20  # both ways were tested
    assert swept > 20


# --- blocks


@pytest.fixture(scope="module", params=["cv+", "cross-conformal", "jackknife+-after-bootstrap"])
def grouped(request, table):
    """A model with groups, fitted to a frame."""
    X, y, _ = table
    frame = pd.DataFrame(X, columns=["a", "b", "group"])
    settings = {"n_bootstraps": 20} if "bootstrap" in request.param else {}
    tree = DecisionTreeRegressor(random_state=0)
    return fitted(tree, Residual(), frame, y, method=request.param, taxonomy=ByFeature("group"), **settings)


@pytest.mark.parametrize("unseen", ["marginal", "inf"])
def test_blocks_do_not_change_results(monkeypatch, table, grouped, unseen):
    model, (_, y, _) = grouped, table
    rng = np.random.default_rng(0)
    new = np.column_stack([rng.normal(size=(40, 2)), rng.integers(5, size=40)])
    new = pd.DataFrame(new, columns=["a", "b", "group"], index=np.arange(40) * 10)
    whole = [quietly(model.predict_union, new, level, unseen=unseen) for level in (0.2, [0.2, 0.8])]
    intervals, p_values = (
        quietly(model.predict_interval, new, 0.8, unseen=unseen),
        model.p_values(new, y[:40], unseen=unseen),
    )
    monkeypatch.setattr(cross_conformal, "_FIRST_CELLS", 3 * len(model.estimators_))
    monkeypatch.setattr(cross_conformal, "_MAX_NUMBERS", 7 * len(model.estimators_))
    monkeypatch.setattr(cross, "_MAX_NUMBERS", 2 * N_ROWS)
    assert len(list(model._blocks(new, None))) == 7  # of 3 rows, then of 7
    for level, before in zip((0.2, [0.2, 0.8]), whole, strict=True):
        union = quietly(model.predict_union, new, level, unseen=unseen)
        assert len(union.pieces) == len(before.pieces)
        for piece, other in zip(union.pieces, before.pieces, strict=True):
            rounding = 1e-12 if "bootstrap" in model.method else 0.0  # means depend on the number of rows
            np.testing.assert_allclose(np.asarray(piece), np.asarray(other), rtol=rounding)
            assert list(np.asarray(piece.groups.labels)[piece.groups.codes]) == list(
                np.asarray(other.groups.labels)[other.groups.codes]
            )
            assert set(piece.guarantee.without) == set(other.guarantee.without)
    pd.testing.assert_frame_equal(
        quietly(model.predict_interval, new, 0.8, unseen=unseen).to_frame(), intervals.to_frame()
    )
    np.testing.assert_array_equal(model.p_values(new, y[:40], unseen=unseen), p_values)


def test_quantiles_make_blocks_smaller(table):
    X, y, new = table
    model = fitted(SPREAD, ProbabilityDistance(), X, y, cv=3)
    n_quantiles = len(model.rows(new).fold_predictions[0].probabilities)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(cross_conformal, "_FIRST_CELLS", 3)
        patch.setattr(cross_conformal, "_MAX_NUMBERS", 3 * 2 * (n_quantiles + 1))
        assert [len(rows) for rows in model._blocks(new, None)] == [1] + [2] * 7


def test_reduced_predictions_have_the_same_parts():
    full = Prediction(quantiles=[[0.0, 1.0, 4.0], [1.0, 2.0, 3.0]], probabilities=[0.1, 0.5, 0.9])
    for names in ((), ("spread",), ("lower", "upper")):
        part = full.reduced(("center", *names))
        assert part.quantiles is None
        for name in ("center", *names):
            np.testing.assert_array_equal(getattr(part, name), getattr(full, name))
