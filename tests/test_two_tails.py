"""Two thresholds for each group: levels of the tails, mirrored targets, weights, unseen groups, files, texts."""

import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.stats import betabinom
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from evencover import (
    Bounded,
    ByFeature,
    ByGroup,
    BySpread,
    ByTarget,
    ConformalRegressor,
    IntervalDistance,
    IntervalUnion,
    Normalized,
    OneSided,
    Prediction,
    Residual,
    Rows,
    Standardized,
    Support,
    TooFewRowsWarning,
    TwoTails,
    audit,
    diagnose,
    recommend,
)
from evencover.models import WithSpread
from evencover.studies import Plan
from tests.calibrators import SignedTails
from tests.synthetic import Oracle, draw, mirrored
from tests.test_one_sided import SquaredResidual

LEVELS = (Fraction(1, 2), Fraction(4, 5), Fraction(9, 10))


def intervals_around_zero(y, n_new, calibrator, score):
    """Return intervals of new rows by a model that predicts 0, calibrated on given targets."""
    model = FrozenEstimator(DummyRegressor(strategy="constant", constant=0.0).fit([[0.0]], [0.0]))
    regressor = ConformalRegressor(model, nonconformity=score, calibrator=calibrator)
    return regressor.calibrate(np.zeros((len(y), 1)), y).predict_interval(np.zeros((n_new, 1)), level=0.9)


def synthetic_rows(seed, n):
    data = draw(np.random.default_rng(seed), n)
    return Rows(data.prediction, data.X, data.y)


OLD, NEW = synthetic_rows(0, 200), synthetic_rows(1, 50)


def bounds(learned, rows=NEW, **options):
    return np.asarray(learned.intervals(rows, LEVELS, **options))


def test_each_end_is_that_of_a_one_sided_score_at_its_own_level():
    """At level 0.9 and a lower share of 0.3: the lower bound at 0.97, the upper bound at 0.93."""
    learned = TwoTails(BySpread(2), lower_share=0.3).learn(OLD, IntervalDistance())
    ends = [
        ByGroup(BySpread(2)).learn(OLD, OneSided(IntervalDistance(), side)).intervals(NEW, (Fraction(level),))
        for side, level in (("lower", "0.97"), ("upper", "0.93"))
    ]
    np.testing.assert_array_equal(bounds(learned)[:, 2], np.hstack([ends[0].lower, ends[1].upper]))


def test_levels_of_the_tails_are_exact():
    """19 rows are enough for 95 % in each tail; in floating point, 1 − 0.5 (1 − 0.9) can need one more."""
    for n, finite in ((19, True), (18, False)):
        learned = TwoTails().learn(OLD[:n], Residual())
        if finite:
            found = learned.intervals(NEW, (Fraction(9, 10),))
        else:
            with pytest.warns(TooFewRowsWarning, match=r"each end of an interval of level 0\.9 needs 19 rows"):
                found = learned.intervals(NEW, (Fraction(9, 10),))
        assert (np.isfinite(np.asarray(found)) == finite).all()
        assert learned.lower_share == Fraction(1, 2)


def test_warnings_name_the_requested_level():
    """Also after merging, and if the tails have different shares."""
    learned = TwoTails(lower_share=0.2).learn(OLD[:18], Residual())
    learned = learned.merge(learned)
    with pytest.warns(TooFewRowsWarning, match=r"one end of an interval of level 0\.9 needs 49 rows in each group"):
        learned.intervals(NEW, (Fraction(9, 10),))


@pytest.mark.parametrize("score", [Residual(), Normalized(), IntervalDistance(), SquaredResidual()], ids=repr)
def test_mirrored_targets_have_mirrored_intervals(score):
    """Scoring −y with mirrored predictions and the other share."""
    taxonomy = BySpread(2)
    here = bounds(TwoTails(taxonomy, lower_share=0.3).learn(OLD, score))
    old, new = (replace(rows, prediction=mirrored(rows.prediction), y=-rows.y) for rows in (OLD, NEW))
    there = bounds(TwoTails(taxonomy, lower_share=0.7).learn(old, score), new)
    np.testing.assert_array_equal(there, -here[..., ::-1])


def test_standardized_means_both_tails_of_the_signed_residual():
    """As `Normalized` does; a calibrator written for signed scores gives the same intervals."""
    learned = TwoTails().learn(OLD, Standardized(floor=0.1, scale=1.0))
    assert learned.nonconformity == Normalized(floor=0.1, scale=1.0)
    np.testing.assert_array_equal(bounds(learned), bounds(TwoTails().learn(OLD, Normalized(floor=0.1, scale=1.0))))
    np.testing.assert_array_equal(
        bounds(TwoTails().learn(OLD, Standardized())), bounds(SignedTails().learn(OLD, Standardized()))
    )


def test_groups_of_the_target_give_a_union():
    """The piece of each group is the part of its two-tailed interval that lies in the group's range."""
    learned = TwoTails(ByTarget([0.0])).learn(OLD, Residual())
    union = learned.intervals(NEW, LEVELS)
    assert isinstance(union, IntervalUnion)
    np.testing.assert_array_equal(
        union.covers(NEW.y), learned.p_values(NEW)[:, None] > 1 + 1e-9 - np.array(LEVELS, dtype=float)
    )
    assert union.pieces[0].upper.max() <= 0.0
    assert not learned.guarantee.exact
    assert learned.guarantee.tail_shares is None  # a target below the hull can have missed its own group above


def test_equal_weights_change_nothing_and_others_do():
    learned = TwoTails(ByFeature(0)).learn(OLD, Normalized())
    for weights, same in ((np.full(200, 2.0), True), (np.linspace(1.0, 3.0, 200), False)):
        weighted = TwoTails(ByFeature(0)).learn(replace(OLD, weights=weights), Normalized())
        new = replace(NEW, weights=np.full(50, 2.0))
        assert np.array_equal(bounds(weighted, new), bounds(learned)) == same
        assert np.array_equal(weighted.p_values(new), learned.p_values(NEW)) == same
    assert "likelihood ratios" in str(weighted.guarantee)


def test_unseen_groups():
    """An error, the thresholds of all rows, or infinite intervals; without a guarantee for these groups."""
    old = OLD[np.flatnonzero(OLD.X[:, 0] == 0)]
    learned = TwoTails(ByFeature(0)).learn(old, Normalized())
    unseen = NEW.X[:, 0] == 1
    with pytest.raises(ValueError, match="groups must be among those of the calibration"):
        bounds(learned)
    assert np.isinf(bounds(learned, unseen="inf")[unseen]).all()
    np.testing.assert_array_equal(bounds(learned, unseen="marginal"), bounds(TwoTails().learn(old, Normalized())))
    guarantee = learned.intervals(NEW, LEVELS, unseen="inf").guarantee
    assert (guarantee.without, guarantee.tail_shares) == ((1.0,), (Fraction(1, 2), Fraction(1, 2)))
    assert (learned.p_values(NEW, unseen="inf")[unseen] == 1).all()


def test_the_guarantee_names_each_tail():
    guarantee = TwoTails(BySpread(2), lower_share=0.3).learn(OLD, Normalized()).guarantee
    assert guarantee.misses(0.9) == (Fraction(3, 100), Fraction(7, 100))
    assert (guarantee.kind, guarantee.exact, guarantee.lower_bound(0.9)) == ("per group", True, Fraction(9, 10))
    assert guarantee.coverage(0.9) == {"low": Fraction(97 + 93 - 100, 100), "high": Fraction(98 + 94 - 101, 101)}
    assert str(guarantee).startswith(
        "Coverage per group: in every group, a target lies in its interval with probability at least the level, below "
        "its lower bound with probability at most 0.3 (1 − level), and above its upper bound with at most "
        "0.7 (1 − level). This holds if"
    )
    assert ByGroup().learn(OLD, Normalized()).guarantee.misses(0.9) == (Fraction(1, 10), Fraction(1, 10))


def test_thresholds_of_both_tails():
    """One for each group, at one or several levels."""
    learned = TwoTails(BySpread(2)).learn(OLD, Normalized())
    lower, upper = learned.thresholds(0.9)
    assert (lower.shape, upper.shape) == ((2,), (2,))
    np.testing.assert_array_equal(learned.thresholds([0.5, 0.9])[0][:, 1], lower)
    np.testing.assert_array_equal(upper, learned.upper.threshold(0.95))


@pytest.mark.parametrize("taxonomy", [None, BySpread(2)], ids=repr)
def test_a_bounded_score_stays_the_outermost(taxonomy):
    """Its intervals are those of the inner score, rounded inward and cut; crossed ends become a possible target."""
    old, new = (replace(rows, y=np.rint(np.abs(rows.y))) for rows in (OLD, NEW))
    inner, outer = Normalized(), Bounded(Normalized(), y_min=0, whole=True)
    nonconformity = outer if taxonomy is None else {"low": outer, "high": outer}
    learned = TwoTails(taxonomy).learn(old, nonconformity)
    free = bounds(TwoTails(taxonomy).learn(old, inner), new)
    found = learned.intervals(new, LEVELS)
    lower, upper = np.maximum(np.ceil(free[..., 0]), 0), np.floor(free[..., 1])
    crossed = lower > upper
    assert 0 < crossed.mean() < 0.5
    np.testing.assert_array_equal(found.lower[~crossed], lower[~crossed])
    np.testing.assert_array_equal(found.upper[~crossed], upper[~crossed])
    np.testing.assert_array_equal(found.replaced, crossed)
    np.testing.assert_array_equal(found.lower[crossed], found.upper[crossed])
    assert (found.lower[crossed] == np.abs(np.rint(found.lower[crossed]))).all()
    assert "all targets are whole numbers of at least 0" in str(learned.guarantee)
    one_level = learned.intervals(new, LEVELS[:1])
    np.testing.assert_array_equal(np.asarray(one_level)[:, 0], np.asarray(found)[:, 0])


def test_targets_outside_the_support_are_reported_once():
    with pytest.warns(UserWarning, match="calibration targets outside the support") as caught:
        learned = TwoTails().learn(OLD, Bounded(Residual(), y_min=0))
    assert len(caught) == 1
    assert np.isinf(learned.lower.scores[OLD.y < 0]).all()


def test_a_diagnosis_is_that_of_one_threshold_for_both_tails():
    """The same as for a model with one threshold and the same score."""
    oracle = FrozenEstimator(Oracle().fit(OLD.X, OLD.y))
    found = [
        diagnose(ConformalRegressor(oracle, nonconformity=Residual(), calibrator=each).fit(OLD.X, OLD.y))
        for each in (TwoTails(), ByGroup())
    ]
    assert str(found[0]) == str(found[1])


def test_a_regressor_sets_the_scale_and_saves_its_own_scores(tmp_path):
    """Of both tails; a user's score without tails is passed to `load`."""
    model = ConformalRegressor(
        WithSpread(LinearRegression()), nonconformity=Normalized(floor=0.5), calibrator=TwoTails(BySpread(2))
    ).fit(OLD.X, OLD.y)
    assert model.calibrator_.lower.nonconformity == OneSided(Normalized(floor=0.5, scale=model.scale_), side="lower")
    own = ConformalRegressor(LinearRegression(), nonconformity=SquaredResidual(), calibrator=TwoTails(), random_state=0)
    own.fit(OLD.X, OLD.y).save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model", nonconformity=SquaredResidual())
    np.testing.assert_array_equal(np.asarray(loaded.predict_interval(NEW.X)), np.asarray(own.predict_interval(NEW.X)))
    assert repr(loaded.calibrator) == "TwoTails()"


def test_a_regressor_shows_its_taxonomy_and_two_sided_scores():
    model = ConformalRegressor(FrozenEstimator(Oracle().fit(OLD.X, OLD.y)), calibrator=TwoTails(BySpread(2)))
    model.fit(OLD.X, OLD.y)
    assert model.taxonomy_.labels_ == ("low", "high")
    np.testing.assert_array_equal(model.calibration_.scores, Residual()(OLD.y, OLD.prediction))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, "half", True, None])
def test_wrong_shares_raise(share):
    with pytest.raises(ValueError, match=r"lower_share must be a number strictly between 0 and 1; got .* use OneSided"):
        TwoTails(lower_share=share).learn(OLD, Residual())


def test_wrong_scores_and_parts_raise():
    with pytest.raises(ValueError, match=r"two-sided score for separate tails, such as Residual\(\); got OneSided"):
        TwoTails().learn(OLD, OneSided(Residual()))
    with pytest.raises(ValueError, match="nonconformity must have one score for each of the groups"):
        TwoTails(BySpread(2)).learn(OLD, {"low": Residual()})
    first, second = (TwoTails(lower_share=share).learn(OLD, Residual()) for share in (0.5, 0.3))
    with pytest.raises(ValueError, match="merge needs calibrations with the same lower_share; got 1/2 and 3/10"):
        first.merge(second)


@pytest.mark.filterwarnings("ignore:too few calibration rows")
@pytest.mark.parametrize(("n", "covered_ranks"), [(15, 16), (30, 29), (99, 90)])
def test_an_audit_tests_the_ranks_that_both_tails_cover(n, covered_ranks):
    """With 30 rows, the conformal rank of level 0.9 is 28, but 29 of 31 ranks are covered. With 15 rows, all are."""
    rng = np.random.default_rng(0)
    intervals = intervals_around_zero(rng.normal(size=n), 400, TwoTails(), Residual())
    y = rng.normal(size=400)
    overall = audit(y, intervals).overall
    hits = np.count_nonzero(intervals.covers(y))
    expected = betabinom(400, covered_ranks, n + 1 - covered_ranks).sf(hits - 1) if covered_ranks <= n else 1.0
    assert overall.p_over == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:too few calibration rows")
@pytest.mark.parametrize(
    ("calibrator", "score", "n", "needed"),
    [(TwoTails(), Residual(), 15, 19), (ByGroup(), Residual(), 5, 9), (ByGroup(), OneSided(Residual()), 40, None)],
)
def test_advice_for_infinite_intervals(calibrator, score, n, needed):
    """Separate tails need more rows. One-sided bounds have no second end, so they do not count as infinite."""
    rng = np.random.default_rng(0)
    intervals = intervals_around_zero(rng.normal(size=n), 400, calibrator, score)
    found = audit(rng.normal(size=400), intervals)
    assert found.n_infinite == (0 if needed is None else 400)
    assert found.rows_needed == needed
    assert ("needs at least" in found.advice) == (needed is not None)


@pytest.mark.parametrize("bounded", [False, True])
def test_intervals_are_nested_unless_crossing_ends_become_a_point(bounded):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = np.round(np.exp(X[:, 0] + 0.7 * rng.normal(size=400)))
    score = Bounded(IntervalDistance(), y_min=0, whole=True) if bounded else IntervalDistance()
    model = ConformalRegressor(
        WithSpread(LinearRegression(), random_state=0), nonconformity=score, calibrator=TwoTails(), random_state=0
    )
    intervals = model.fit(X, y).predict_interval(X, level=[0.01, 0.05, 0.2, 0.5, 0.9])
    inside = (np.diff(intervals.lower) <= 0) & (np.diff(intervals.upper) >= 0) | intervals.empty[:, :-1]
    assert inside.all() == model.calibrator_.nested == (not bounded)


@pytest.mark.parametrize(
    "limits", [{"y_min": -1000}, {"y_min": -5, "y_max": 140}, {"y_min": -1000, "whole": True}], ids=str
)
def test_a_point_between_crossed_ends_keeps_the_share_of_each_tail(limits):
    """No possible target is below a bound, or above one, that is not so without the support."""
    rng = np.random.default_rng(0)

    def crossing_rows(n):  # a few narrow bounds, far from their targets
        narrow = rng.random(n) < 0.08
        upper = np.where(narrow, 1.0, 100.0)
        y = np.where(narrow, 27.0, np.where(rng.random(n) < 0.12, 130.0, 0.0)) + rng.normal(size=n).round()
        return Rows(Prediction(np.where(narrow, 0.5, 0.0), lower=np.where(narrow, 0.0, -100.0), upper=upper), y=y)

    old, new = crossing_rows(2000), crossing_rows(5000)
    new = new[Support(**limits).contains(new.y)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of calibration targets outside the limits
        free, bounded = (
            TwoTails().learn(old, score).intervals(new, (Fraction(4, 5),))
            for score in (IntervalDistance(), Bounded(IntervalDistance(), **limits))
        )
    assert free.empty.any()
    assert bounded.n_replaced >= free.empty.sum()
    y = new.y[:, None]
    assert not ((y < bounded.lower) & (y >= free.lower)).any()
    assert not ((y > bounded.upper) & (y <= free.upper)).any()


class NeverFitted(LinearRegression):
    def fit(self, X, y):
        raise AssertionError


def test_separate_tails_of_a_one_sided_score_are_an_error_before_anything_is_fitted():
    settings = {"nonconformity": Bounded(OneSided(Residual()), y_min=0), "tails": "separate"}
    for use in (Plan, partial(recommend, NeverFitted(), np.zeros((20, 1)), np.arange(20.0))):
        with pytest.raises(ValueError, match="nonconformity must be a two-sided score for separate tails"):
            use(**settings)


def test_recommend_treats_standardized_as_normalized():
    data = draw(np.random.default_rng(0), 200)
    widths = [
        recommend(Oracle(), data.X, data.y, nonconformity=score, tails="separate").recommendation_.chosen.width
        for score in (Standardized(), Normalized())
    ]
    assert widths[0] == widths[1] < np.inf
