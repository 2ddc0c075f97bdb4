"""Audits, studies and reports of one-sided bounds, which are infinite on one side on purpose."""

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from evencover import (
    Bounded,
    ByGroup,
    BySpread,
    ConformalRegressor,
    Intervals,
    Normalized,
    OneSided,
    Residual,
    Support,
    TwoTails,
    audit,
    calibrate,
    recommend,
)
from evencover.diagnostics import quality
from evencover.intervals import bound_side
from evencover.model_selection import IntervalScorer
from evencover.models import ResidualSpread, WithSpread
from evencover.studies import Plan, study
from evencover.synthetic import heteroskedastic
from evencover.words.answers import width_text
from tests.report_pages import few_levels, report_page, report_text

SPREAD = WithSpread(LinearRegression(), ResidualSpread(LinearRegression()), random_state=0)  # fitted at once
NONSENSE = ("infinite", "width", " wide ", "narrow", "intervals are", "Winkler")
INFINITE = np.full(300, np.inf)
CENTER = np.linspace(0.0, 10.0, 300)
Y = CENTER + np.tile([-1.0, 0.0, 1.0, 0.5, -0.5, 0.2, -0.2, 0.7, -0.7, 2.5], 30)
BOUNDS = {"upper": Intervals(-INFINITE, CENTER + 2), "lower": Intervals(CENTER - 0.8, INFINITE)}


@pytest.fixture(autouse=True, scope="module")
def reports_with_few_levels():
    """The highest of them needs many rows."""
    with few_levels(50, 95, 99):
        yield


def plain(text):
    """Return the text of a page without its no-break spaces."""
    return unescape(text).replace("\u00a0", " ")


@pytest.fixture(scope="module", params=["upper", "lower"])
def found(request):
    data = heteroskedastic(900, seed=0)
    table = pd.DataFrame(data.X).add_prefix("x").assign(y=data.y)
    plan = Plan(model=SPREAD, side=request.param)
    assert plan.nonconformity == OneSided(Normalized(), side=request.param)
    return request.param, study(table, "y", plan=plan)


@pytest.mark.parametrize(
    ("lower", "upper", "side"),
    [
        ([-np.inf, -np.inf], [1.0, 2.0], "upper"),
        ([1.0, 2.0], [np.inf, np.inf], "lower"),
        ([-np.inf, -np.inf], [1.0, np.inf], "upper"),  # too few calibration rows for the second row
        ([-np.inf, -np.inf], [np.inf, np.inf], None),
        ([-np.inf, 0.0], [np.inf, 1.0], None),
        ([-np.inf, 0.0], [1.0, np.inf], None),
        ([-np.inf, -np.inf], [-np.inf, 1.0], None),
        ([0.0, 0.0], [1.0, 1.0], None),
        ([], [], None),
    ],
)
def test_which_intervals_are_bounds(lower, upper, side):
    assert bound_side(Intervals(np.array(lower), np.array(upper))) == side


@pytest.mark.parametrize(
    ("side", "often", "far", "bound"),
    [
        ("upper", "90.0 % of 300 test targets are at or below their upper bound", "2 above", 7.0),
        ("lower", "90.0 % of 300 test targets are at or above their lower bound", "0.8 below", 4.2),
    ],
)
def test_an_audit_calls_them_bounds(side, often, far, bound):
    text = str(audit(Y, BOUNDS[side], prediction=CENTER))
    assert often in text
    assert f"The {side} bounds are {far} the prediction on average." in text
    assert f"The intervals are {side} bounds, so the groups are thirds by the bound." in text
    assert f"Use the {side} bounds." in text or f"use the {side} bounds." in text
    assert not [word for word in NONSENSE if word in text.replace("The intervals are", "")]
    assert f"The {side} bounds are {bound:g} on average." in str(audit(Y, np.asarray(BOUNDS[side])))


def test_measures_of_bounds():
    measured = quality(Y, BOUNDS["lower"], prediction=CENTER)
    assert (measured.side, measured.n_infinite, measured.noun) == ("lower", 0, "lower bounds")
    assert (measured.mean_bound, measured.mean_distance) == pytest.approx((4.2, -0.8))
    two_sided = quality(Y, Intervals(CENTER - 1, CENTER + 1), prediction=CENTER)
    assert two_sided.side is None
    assert np.isnan([two_sided.mean_bound, two_sided.mean_distance]).all()


def test_the_distance_uses_the_prediction_that_bounds_come_with():
    bounds = Intervals(-INFINITE, CENTER + 2, prediction=CENTER)
    assert quality(Y, bounds).summary == "The upper bounds are 2 above the prediction on average."


def test_bounds_that_are_infinite_for_want_of_calibration_rows_are_counted():
    """The advice on too few calibration rows is right for these rows, and only for them."""
    bounds = Intervals(-INFINITE, np.where(np.arange(300) < 5, np.inf, CENTER + 2))
    audited = audit(Y, bounds, prediction=CENTER)
    assert audited.n_infinite == audited.quality.n_infinite == 5
    assert "5 of 300 upper bounds are infinite, because a finite threshold" in audited.advice
    assert width_text(audited.quality) == "5 of 300 upper bounds are infinite."


@pytest.mark.parametrize(("share", "text"), [(0.5, "Fewer than asked"), (1.0, "Calibrate the upper bounds")])
def test_bounds_that_are_off(share, text):
    y = np.where(np.arange(300) % 10 < 10 * share, CENTER, CENTER + 3)
    audited = audit(y, BOUNDS["upper"], prediction=CENTER)
    assert audited.verdict == "uneven"
    assert text in str(audited)


def test_a_study_calls_them_bounds(found):
    side, result = found
    text = str(result)
    assert f"test targets are at or {'below' if side == 'upper' else 'above'} their {side} bound" in text
    assert f"How far: The {side} bounds are " in text
    assert f"the {side} bounds" in result.advice
    assert not [word for word in NONSENSE if word in text]


def test_a_report_calls_them_bounds(found):
    side, result = found
    text = plain(report_page(result))
    for expected in (
        f"<title>{side.capitalize()} bounds for y</title>",
        f"How often are the {side} bounds right?",
        f"{side} bound is right if the true value of y is not {'above' if side == 'upper' else 'below'} it.",
        f"How far are the {side} bounds from the predictions?",
        f"{'above' if side == 'upper' else 'below'} the prediction, on average, in the unit of y",
        f"so this {side} bound is right.",
        f"Infinite {side} bounds: 0.",
    ):
        assert expected in text
    assert "Mean width" not in text
    assert "mean width" not in text
    assert "How wide are they?" not in text


def test_a_report_on_an_audit_without_predictions():
    text = plain(report_page(audit(Y, BOUNDS["upper"])))
    assert "How large are they?" in text
    assert ">7</" in text


def test_a_recommendation_has_no_widths():
    data = heteroskedastic(300, seed=0)
    text = str(recommend(SPREAD, data.X, data.y, nonconformity=OneSided(Normalized())).recommendation_)
    assert "width" not in text
    assert "narrow" not in text


@pytest.mark.filterwarnings("ignore:too few calibration rows")
def test_a_report_at_a_level_where_all_bounds_are_infinite():
    """The other levels of the slider show that they are bounds."""
    data = heteroskedastic(300, seed=0)
    table = pd.DataFrame(data.X).add_prefix("x").assign(y=data.y)
    plan = Plan(
        model=SPREAD, level=0.99, nonconformity=OneSided(Normalized()), taxonomy=BySpread(3), calibration="split"
    )
    text = plain(report_page(study(table, "y", plan=plan)))
    assert "How far are the upper bounds from the predictions?" in text
    assert "for 100 of 100 rows" in text
    assert re.search("100 of 100 intervals are infinite, .* level 0.99 needs at least 99 ", text)


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize(
    ("support", "transform"), [({"y_min": 0}, None), ({"y_min": 0, "y_max": 99}, None), (None, "log")]
)
def test_bounds_that_end_at_limits_of_the_target_are_bounds(side, support, transform):
    """The other end is a limit and not infinite, but its distance is no width."""
    data = heteroskedastic(900, seed=0)
    y, score = 20 + data.y, OneSided(Residual(), side=side)
    score = score if support is None else Bounded(score, **support)
    model = ConformalRegressor(LinearRegression(), nonconformity=score, target_transform=transform, random_state=0)
    bounds = model.fit(data.X, y).predict_interval(data.X)
    assert np.isfinite(bounds.lower if side == "upper" else bounds.upper).all() or side == "lower"
    assert bound_side(bounds) == bound_side(bounds[:10]) == side
    assert f"The {side} bounds are " in str(audit(y, bounds))
    with pytest.raises(ValueError, match=f"got {side} bounds, which have one"):
        IntervalScorer()(model, data.X, y)


@pytest.mark.filterwarnings("ignore:too few calibration rows")
@pytest.mark.parametrize("calibrator", [ByGroup(), TwoTails()])
def test_infinite_intervals_of_limited_targets_are_no_bounds(calibrator):
    """From 0 to infinity: there are too few calibration rows."""
    data = heteroskedastic(30, seed=0)
    score = Bounded(y_min=0)
    model = ConformalRegressor(LinearRegression(), nonconformity=score, calibrator=calibrator, random_state=0)
    intervals = model.fit(data.X, 20 + data.y).predict_interval(data.X, level=0.95)
    assert (intervals.lower == 0).all()
    assert bound_side(intervals) is None
    audited = audit(20 + data.y, intervals)
    assert re.search("30 of 30 intervals are infinite, .* level 0.95 needs at least", audited.advice)
    text = report_text(audited)
    assert "Not known yet. All intervals are infinite" in text
    assert "A finite threshold at level 0.95 needs" in text


def test_a_report_on_few_rows_calls_intervals_intervals():
    """At the highest levels they are from 0 to infinity."""
    data = heteroskedastic(300, seed=0)
    table = pd.DataFrame(data.X).add_prefix("x").assign(y=20 + data.y)
    result = study(table, "y", plan=Plan(model=SPREAD, taxonomy=BySpread(3), nonconformity=Normalized()))
    text = plain(report_page(result))
    assert "How often are the intervals right?" in text
    assert "lower bound" not in text


def test_a_recommendation_of_bounds_has_no_widths_with_a_support_and_no_log():
    """The widths would end at the limit of the target, or at that of the log, and say nothing."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(400, 1))
    y = 3 + 10 * X[:, 0] + rng.normal(size=400)
    usual = recommend(SPREAD, X, y).recommendation_
    assert {each.transform for each in usual.candidates} == {None, "log"}
    for support in (None, Support(y_min=0)):
        model = recommend(SPREAD, X, y, nonconformity=OneSided(Normalized()), support=support)
        found = model.recommendation_
        assert {(each.transform, each.width) for each in found.candidates} == {(None, np.inf)}
        assert "width" not in str(found)


class UpperResidual:
    """A score of a user that is one-sided, without saying so."""

    def __call__(self, y, prediction):
        return np.asarray(y) - prediction.center

    def interval(self, threshold, prediction):
        return Intervals(np.full(len(prediction), -np.inf), prediction.center + threshold)


def test_the_bounds_of_a_users_own_score_are_found_by_their_infinite_ends():
    bounds = calibrate(Y, CENTER, nonconformity=UpperResidual()).interval(CENTER)
    assert bound_side(bounds) == "upper"
