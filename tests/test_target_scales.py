"""Models of transformed targets: scores on their scale, intervals mapped back, and the estimator around them."""

import gc
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, QuantileTransformer, StandardScaler

from evencover import (
    Bounded,
    BySpread,
    Calibration,
    ConformalRegressor,
    IntervalDistance,
    Normalized,
    OneSided,
    Prediction,
    Residual,
    Rows,
    Standardized,
    TwoTails,
    audit,
    calibrate,
    diagnose,
    recommend,
)
from evencover.model_selection import IntervalScorer
from evencover.models import LogTransform, QuantileForest, ResidualSpread, WithSpread, predictions_of
from evencover.scores import target_scales
from evencover.scores.evaluation import interval_by, scores_of
from evencover.scores.target_scales import TargetMap
from evencover.studies import MODELS, Plan, study
from tests.report_pages import short_report_page
from tests.synthetic import ALL_SCORES, TwoLines, on_target_scale

pytestmark = pytest.mark.usefixtures("few_trees")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = np.round(np.exp(1 + X[:, 0] + RNG.normal(size=400) * 0.5), 1) + 0.1
SPREAD = WithSpread(Ridge(), ResidualSpread(Ridge()), random_state=0)  # fitted at once
TRANSFORMERS = {
    "log": LogTransform(),
    "log1p": LogTransform(shift=1.0),
    "yeo-johnson": PowerTransformer(),
    "box-cox": PowerTransformer(method="box-cox"),
    "quantiles": QuantileTransformer(n_quantiles=30, output_distribution="normal"),
    "uniform quantiles": QuantileTransformer(n_quantiles=30),
    "standard": StandardScaler(),
    "negative": FunctionTransformer(np.negative, np.negative, validate=True),
    "reciprocal": FunctionTransformer(np.reciprocal, np.reciprocal, validate=True),
    "square": FunctionTransformer(np.square, np.sqrt, validate=True),
    "sqrt": FunctionTransformer(np.sqrt, np.square, validate=True),
    "identity": FunctionTransformer(validate=True),
}
FITTED = {name: clone(each).fit(Y[:, None]) for name, each in TRANSFORMERS.items()}
each_transformer = pytest.mark.parametrize("name", TRANSFORMERS)
MOVES = [0.0, 1e-9, -1e-3, 2.0, np.inf, -np.inf]
targets = arrays(float, 6, elements=st.one_of(st.sampled_from(Y), st.floats(0.01, 1e4)))


def transformed(name, y):
    """Return transformed targets, with a sign such that they increase."""
    sign = -1 if name in ("negative", "reciprocal") else 1
    return sign * np.ravel(FITTED[name].transform(y[:, None]))


def prediction_on(name, y, spread):
    """Return a prediction whose centers on the scale are those of given targets."""
    return on_target_scale(Prediction(np.ravel(FITTED[name].transform(y[:, None])), spread), FITTED[name])


@cache
def map_of(name):
    return TargetMap.around(FITTED[name], Y[:9])


def by_hand(score, level, *, spread=False):
    """Return intervals of the first rows from a calibration of the logs, mapped back by the exponential function."""
    inner = SPREAD if spread else Ridge()
    model = inner.fit(X[:200], np.log(Y[:200]))
    calibration = calibrate(np.log(Y[200:]), predictions_of(model, X[200:]), nonconformity=score)
    intervals = calibration.interval(predictions_of(model, X[:50]), level=level)
    return np.exp(intervals.lower), np.exp(intervals.upper)


def some_targets(n, seed):
    """Return targets of which the first half, in random places, are frequent ones and the others of any size."""
    rng = np.random.default_rng(seed)
    return rng.permutation(np.r_[rng.choice(Y, n // 2), np.exp(rng.uniform(np.log(0.01), np.log(1e4), n - n // 2))])


def check_inverse(name, y, values):
    """Check that a target is beyond the mapped value exactly if its transformed value is beyond the value."""
    target_map = map_of(name)
    lower, upper = target_map.smallest_at_least(values), target_map.largest_at_most(values)
    np.testing.assert_array_equal(lower <= y, transformed(name, y) >= values)
    np.testing.assert_array_equal(y <= upper, transformed(name, y) <= values)


@each_transformer
def test_the_inverse_is_exact(name):
    """A target is beyond the mapped value exactly if its transformed value is beyond the value, ties included."""
    y, other = some_targets(300, 1), some_targets(300, 2)
    other[:30] = y[:30]
    check_inverse(name, y, transformed(name, other) + np.tile(MOVES, 50))
    check_inverse(name, y, np.nextafter(transformed(name, y), np.tile([np.inf, -np.inf], 150)))


@pytest.mark.slow
@each_transformer
@given(y=targets, other=targets, moved=st.sampled_from(MOVES))
def test_the_inverse_is_exact_for_any_targets(name, y, other, moved):
    check_inverse(name, y, transformed(name, other) + moved)


def check_intervals(score, prediction, y, spread, thresholds):
    """Check that intervals hold exactly the targets whose score is at most a threshold, the score itself, or inf."""
    scores = scores_of(score, Rows(prediction, y=y))
    n, thresholds = len(y), np.broadcast_to(thresholds, y.shape)
    rows = np.tile(np.arange(n), 3)
    intervals = interval_by(score, np.r_[thresholds, scores, np.full(n, np.inf)], prediction[rows])
    covered = intervals.covers(y[rows])
    distance = np.abs(scores - thresholds) / (1 + np.abs(scores)) / (1 + np.abs(prediction.scored.center) / spread)
    not_tied = distance > 1e-9
    np.testing.assert_array_equal(covered[:n][not_tied], (scores <= thresholds)[not_tied], repr(score))
    assert covered[n:].all(), score
    assert not np.isnan(np.asarray(intervals)[2 * n :]).any(), score


@each_transformer
def test_an_interval_holds_exactly_the_targets_that_score_at_most_the_threshold(name):
    """Also if a score equals the threshold."""
    rng = np.random.default_rng(0)
    spread, thresholds = rng.uniform(0.1, 5.0, 60), np.exp(rng.uniform(np.log(0.01), np.log(5.0), 60))
    prediction, y = prediction_on(name, some_targets(60, 1), spread), some_targets(60, 2)
    for score in ALL_SCORES:
        check_intervals(score, prediction, y, spread, thresholds)


@pytest.mark.slow
@each_transformer
@given(
    score=st.sampled_from(ALL_SCORES),
    y=targets,
    center=targets,
    threshold=st.floats(0.01, 5.0),
    spread=arrays(float, 6, elements=st.floats(0.1, 5.0)),
)
def test_an_interval_holds_exactly_any_targets_that_score_at_most_the_threshold(
    name, score, y, center, threshold, spread
):
    check_intervals(score, prediction_on(name, center, spread), y, spread, threshold)


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("log", (0.0, np.inf)),
        ("log1p", (-1.0, np.inf)),
        ("box-cox", (0.0, np.inf)),
        ("yeo-johnson", (-np.inf, np.inf)),
        ("quantiles", (-np.inf, np.inf)),
        ("negative", (-np.inf, np.inf)),
        ("reciprocal", (0.0, np.inf)),
        ("square", (0.0, np.inf)),
        ("sqrt", (0.0, np.inf)),
    ],
)
def test_infinite_bounds_become_the_ends_of_the_range(name, ends):
    intervals = interval_by(Residual(), np.inf, prediction_on(name, Y[:3], np.ones(3)))
    np.testing.assert_array_equal(np.asarray(intervals), [ends] * 3)


def test_a_one_sided_score_of_a_decreasing_transform_is_an_upper_bound():
    intervals = interval_by(Standardized(), 1.0, prediction_on("reciprocal", Y[:3], np.full(3, 0.01)))
    np.testing.assert_array_equal(intervals.lower, 0.0)
    np.testing.assert_allclose(intervals.upper, 1 / (1 / Y[:3] - 0.01))


def test_targets_outside_the_range_score_infinity_and_are_not_covered():
    prediction = prediction_on("log", Y[:3], np.ones(3))
    y = np.array([-1.0, 0.0, Y[2]])
    scores = scores_of(Residual(), Rows(prediction, y=y))
    assert np.isinf(scores[0])
    assert scores[1] > 700  # the smallest positive number
    assert scores[2] == 0
    np.testing.assert_array_equal(interval_by(Residual(), 5.0, prediction).covers(y), [False, False, True])


def test_an_interval_beyond_all_transformed_values_is_empty():
    """A quantile transformer has a largest value; a model may predict more."""
    prediction = on_target_scale(Prediction([0.0, 9.0]), FITTED["quantiles"])
    np.testing.assert_array_equal(interval_by(Residual(), 0.5, prediction).empty, [False, True])
    assert interval_by(Residual(), 6.0, prediction).upper[1] == np.inf


def _reciprocal_of_positive(z):
    return np.where(z > 0, 1 / z, np.nan)


@pytest.mark.filterwarnings("ignore:calibration targets that")  # of frozen models
@pytest.mark.parametrize(
    ("transformer", "sign"),
    [
        (TRANSFORMERS["box-cox"], 1),
        (TRANSFORMERS["reciprocal"], 1),
        (TRANSFORMERS["reciprocal"], -1),
        (FunctionTransformer(np.reciprocal, _reciprocal_of_positive), 1),
    ],
    ids=["box-cox", "positive", "negative", "without inverse"],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_row_does_not_depend_on_other_new_rows(transformer, sign, frozen):
    """Also if the transform has no inverse of its prediction, or one on the other side of a gap."""
    model = TransformedTargetRegressor(LinearRegression(), transformer=transformer, check_inverse=False)
    model = FrozenEstimator(model.fit(X, sign * Y)) if frozen else model
    conformal = ConformalRegressor(model, random_state=0).fit(X, sign * Y)
    rows = np.array([[-30.0, 0.0], [0.1, 0.2], [30.0, 0.0]])
    together = np.asarray(conformal.predict_interval(rows))
    for row in range(3):
        np.testing.assert_array_equal(conformal.predict_interval(rows[[row]]), together[[row]])
    assert frozen or (sign * together[1] > 0).all()


def test_a_file_knows_the_range_of_the_targets(tmp_path):
    model = ConformalRegressor(LinearRegression(), target_transform=TRANSFORMERS["box-cox"], random_state=0).fit(X, Y)
    model.save(tmp_path / "model")
    assert ConformalRegressor.load(tmp_path / "model").estimator_.training_target_ == model.estimator_.training_target_


@each_transformer
def test_center_bounds_and_quantiles_are_mapped_back(name):
    """In the order of the target, also if the transform decreases."""
    z = np.ravel(FITTED[name].transform(np.quantile(Y, [0.3, 0.5, 0.6])[:, None]))
    quantiles = np.sort(z)[None] + np.zeros((4, 1))
    prediction = on_target_scale(Prediction(quantiles=quantiles, probabilities=[0.2, 0.5, 0.9]), FITTED[name])
    expected = [0.1, 0.5, 0.8] if z[0] > z[-1] else [0.2, 0.5, 0.9]
    np.testing.assert_allclose(prediction.probabilities, expected)
    np.testing.assert_allclose(prediction.quantiles, np.tile(np.quantile(Y, [0.3, 0.5, 0.6]), (4, 1)), rtol=1e-6)
    np.testing.assert_allclose(prediction.center, np.median(Y), rtol=1e-6)
    np.testing.assert_allclose(prediction.ppf(0.5), np.median(Y), rtol=1e-6)
    np.testing.assert_allclose(prediction.cdf(np.full(4, np.quantile(Y, 0.6))), expected[2], atol=1e-6)
    assert np.all(prediction.lower <= prediction.upper)


def test_the_distribution_of_a_log_model_is_lognormal():
    prediction = on_target_scale(Prediction([0.0, 1.0], [1.0, 0.5]), FITTED["log"])
    own = Prediction([0.0, 1.0], [1.0, 0.5])
    np.testing.assert_allclose(prediction.ppf([0.1, 0.7]), np.exp(own.ppf([0.1, 0.7])))
    np.testing.assert_allclose(prediction.cdf([2.0, 2.0]), own.cdf(np.log([2.0, 2.0])))
    np.testing.assert_array_equal(prediction.cdf([-1.0, -2.0]), 0.0)
    np.testing.assert_allclose(prediction.interval(0.5).upper, np.exp(own.interval(0.5).upper))


def test_a_prediction_with_only_a_center_stays_one():
    prediction = on_target_scale(Prediction([0.0, 1.0]), FITTED["log"])
    assert prediction.known_parts == ("center",)
    np.testing.assert_allclose(prediction.center, np.exp([0.0, 1.0]))
    with pytest.raises(ValueError, match="only a center"):
        interval_by(Normalized(), 1.0, prediction)


def test_rows_are_selected_and_joined_with_their_scales():
    """Each part keeps its own transformer, as in cross-validation."""
    parts = [prediction_on(name, Y[:4], np.arange(1.0, 5)) for name in ("log", "standard")]
    joined = Prediction.concatenate(parts)[[6, 1, 0]]
    for row, (part, own) in enumerate([(1, 2), (0, 1), (0, 0)]):
        expected = interval_by(Normalized(), 0.5, parts[part][[own]])
        np.testing.assert_array_equal(np.asarray(interval_by(Normalized(), 0.5, joined))[row], np.asarray(expected)[0])
    np.testing.assert_array_equal(joined.cdf(np.zeros(3))[1:], 0.0)
    with pytest.raises(ValueError, match="same parts and scales"):
        Prediction.concatenate([parts[0], Prediction([1.0], lower=[0.0], upper=[2.0])])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        FrozenEstimator,
        lambda model: make_pipeline("passthrough", model),
        lambda model: GridSearchCV(model, {"regressor__estimator__alpha": [1.0]}, cv=2),
    ],
    ids=["itself", "frozen", "pipeline", "search"],
)
def test_predictions_of_finds_the_transformed_target(wrap):
    inner = TransformedTargetRegressor(SPREAD, func=np.log, inverse_func=np.exp)
    prediction = predictions_of(wrap(inner.fit(X, Y)).fit(X, Y), X)
    expected = predictions_of(SPREAD.fit(X, np.log(Y)), X)
    np.testing.assert_allclose(prediction.lower, np.exp(expected.lower))
    np.testing.assert_allclose(prediction.scored.spread, expected.spread)


def test_a_spread_around_a_transformed_target_is_in_the_unit_of_the_target():
    model = WithSpread(TransformedTargetRegressor(Ridge(), transformer=LogTransform()), random_state=0).fit(X, Y)
    assert predictions_of(model, X).scale is None


@pytest.mark.filterwarnings("ignore::evencover.TooFewRowsWarning")
@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("score", [Residual(), Normalized(), IntervalDistance()], ids=repr)
def test_intervals_are_those_of_the_logs_mapped_back(score, level):
    inner = Ridge() if isinstance(score, Residual) else SPREAD
    model = TransformedTargetRegressor(inner, transformer=LogTransform()).fit(X[:200], Y[:200])
    regressor = ConformalRegressor(FrozenEstimator(model), nonconformity=score).calibrate(X[200:], Y[200:])
    intervals = regressor.predict_interval(X[:50], level=level)
    lower, upper = by_hand(score, level, spread=not isinstance(score, Residual))
    np.testing.assert_allclose(intervals.lower, lower, rtol=1e-14)
    np.testing.assert_allclose(intervals.upper, upper, rtol=1e-14)
    np.testing.assert_allclose(intervals.prediction, np.exp(model.regressor_.predict(X[:50])))
    covered, p_values = regressor.predict_interval(X, level=level).covers(Y), regressor.p_values(X, Y)
    np.testing.assert_array_equal(covered, p_values > 1 - level + 1e-12)


@pytest.mark.filterwarnings("ignore::evencover.TooFewRowsWarning")
def test_the_transform_of_the_regressor_is_that_of_scikit_learn():
    short = ConformalRegressor(Ridge(), target_transform="log", random_state=0).fit(X, Y)
    around = TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp)
    long = ConformalRegressor(around, random_state=0).fit(X, Y)
    np.testing.assert_allclose(np.asarray(short.predict_interval(X)), np.asarray(long.predict_interval(X)), rtol=1e-13)
    np.testing.assert_allclose(short.predict(X), np.exp(short.estimator_.regressor_.predict(X)))
    assert short.predict_interval(X, level=0.9999).lower.max() == 0.0


@pytest.mark.parametrize("transform", ["log1p", PowerTransformer(), QuantileTransformer(n_quantiles=50)], ids=repr)
@pytest.mark.parametrize("nonconformity", [Residual(), Normalized(floor=0.1)], ids=repr)
def test_the_regressor_with_all_that_belongs_to_it(transform, nonconformity):
    """Groups, the scale of a score, diagnosis, audit and quality work, in the unit of the target."""
    model = ConformalRegressor(
        make_pipeline(StandardScaler(), SPREAD),
        target_transform=transform,
        nonconformity=nonconformity,
        taxonomy=BySpread(2),
        random_state=0,
    ).fit(X, Y)
    intervals = model.predict_interval(X)
    diagnosis = diagnose(model)
    audited = audit(Y, intervals, X=X)
    if transform == "log1p":
        medians = np.median(intervals.width), np.median(Y)
        assert 0.1 < medians[0] / medians[1] < 10
        assert all(option.width > 0.5 * np.median(Y) for option in diagnosis.options)
        assert np.isfinite(audited.quality.mean_width)
    assert intervals.covers(Y).mean() > 0.8
    assert model.scale_ is None or model.scale_ < 2


def test_parameters_are_cloned_set_and_searched():
    model = ConformalRegressor(Ridge(), target_transform=PowerTransformer(), random_state=0)
    assert clone(model).get_params()["target_transform__method"] == "yeo-johnson"
    transforms = [None, "log", PowerTransformer()]
    search = GridSearchCV(model, {"target_transform": transforms}, scoring=IntervalScorer(), cv=3)
    assert search.fit(X, Y).best_params_["target_transform"] == "log"


def test_fit_arguments_reach_the_model_inside():
    weights = np.where(X[:, 1] > 0, 1.0, 1e-9)
    model = ConformalRegressor(Ridge(), target_transform="log", random_state=0)
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    plain = clone(model).fit(X, Y)
    assert not np.allclose(weighted.estimator_.regressor_.coef_, plain.estimator_.regressor_.coef_)
    with config_context(enable_metadata_routing=True):
        routed = ConformalRegressor(Ridge().set_fit_request(sample_weight=True), target_transform="log", random_state=0)
        routed.fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(routed.estimator_.regressor_.coef_, weighted.estimator_.regressor_.coef_)


def test_clusters_reach_a_spread_inside():
    """Rows of the same cluster are in the same fold, so other residuals are learned from."""
    clustered = TransformedTargetRegressor(SPREAD, transformer=LogTransform()).fit(X, Y, clusters=np.arange(400) // 80)
    plain = TransformedTargetRegressor(SPREAD, transformer=LogTransform()).fit(X, Y)
    assert clustered.regressor_.spread_floor_ != plain.regressor_.spread_floor_


def test_frames_keep_their_index():
    frame = pd.DataFrame(X, columns=["a", "b"], index=[f"row {i}" for i in range(400)])
    model = ConformalRegressor(Ridge(), target_transform="log", random_state=0).fit(frame, pd.Series(Y, frame.index))
    table = model.predict_interval(frame[:3]).to_frame()
    assert list(table.index) == ["row 0", "row 1", "row 2"]
    assert np.all(table["lower"] > 0)


@pytest.mark.parametrize("transform", ["log", "log1p", PowerTransformer(), StandardScaler()], ids=repr)
def test_files_need_no_trust(tmp_path, transform, recwarn):
    model = ConformalRegressor(SPREAD, nonconformity=Normalized(), target_transform=transform, random_state=0).fit(X, Y)
    model.save(tmp_path / "model.evencover")
    loaded = ConformalRegressor.load(tmp_path / "model.evencover")
    np.testing.assert_array_equal(np.asarray(loaded.predict_interval(X)), np.asarray(model.predict_interval(X)))
    np.testing.assert_array_equal(loaded.p_values(X, Y), model.p_values(X, Y))
    assert not [warning for warning in recwarn if "trusted" in str(warning.message)]


@pytest.mark.parametrize(
    ("transform", "y", "text"),
    [
        ("log", np.r_[0.0, -2.0, Y[2:]], "larger than 0 for target_transform='log'; got 2 of 400 .* smallest is -2$"),
        ("log", np.r_[0.0, Y[1:]], "The smallest is 0. Use target_transform='log1p', which allows 0$"),
        (LogTransform(), np.r_[0.0, Y[1:]], r"larger than 0 for LogTransform\(\); got 1 of 400 that are not"),
        ("log1p", np.r_[-1.0, Y[1:]], "larger than -1 for target_transform='log1p'; got 1 of 400 .* smallest is -1$"),
        (PowerTransformer(method="box-cox"), Y - 1, "PowerTransformer.*strictly positive"),
        (FunctionTransformer(np.log, np.exp), Y - 0.2, "FunctionTransformer.* of 400 targets that it cannot"),
        (FunctionTransformer(np.cos, np.arccos, check_inverse=False), Y, "must be monotone"),
        (FunctionTransformer(np.sign, np.abs, check_inverse=False), Y, "must be monotone"),
        (
            FunctionTransformer(np.log),
            Y,
            "right inverse.* turns the target .* into .*, and this back into",
        ),
        (FunctionTransformer(np.log, np.square, check_inverse=False), Y, "must have the right inverse"),
        ("exp", Y, "target_transform must be 'log', 'log1p', or a transformer"),
        (PowerTransformer, Y, r"got the class PowerTransformer, not an object PowerTransformer\(...\)$"),
    ],
)
def test_a_transform_that_fails_is_an_error_before_anything_is_fitted(transform, y, text):
    with pytest.raises(ValueError, match=text):
        ConformalRegressor(Ridge(), target_transform=transform).fit(X, y)


def test_calibration_targets_that_cannot_be_transformed_are_counted():
    """They score infinity, so the coverage of all targets is still at least the level."""
    model = ConformalRegressor(Ridge(), target_transform="log", random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match=r"LogTransform\(\) cannot transform to finite numbers: 2 of 50"):
        model.calibrate(X[:50], np.r_[-1.0, 0.0, Y[:48]])
    assert np.isinf(model.calibration_.scores[0])
    np.testing.assert_allclose(model.p_values(X[:2], [-1.0, 0.0]), [2 / 51, 3 / 51])
    assert not model.predict_interval(X[:2], level=0.9).covers([-1.0, 0.0]).any()


def test_a_frozen_estimator_takes_no_transform():
    frozen = FrozenEstimator(Ridge().fit(X, Y))
    for method in ("fit", "calibrate"):
        with pytest.raises(ValueError, match="target_transform must be None for a frozen estimator"):
            getattr(ConformalRegressor(frozen, target_transform="log"), method)(X, Y)


def test_a_quantile_forest_inside_keeps_its_quantiles():
    forest = QuantileForest(n_estimators=20, random_state=0)
    model = ConformalRegressor(forest, target_transform="log", nonconformity=IntervalDistance(), random_state=0)
    prediction = model.fit(X, Y).rows(X).prediction
    assert (prediction.quantiles is None) == (prediction.scored.quantiles is None)
    np.testing.assert_allclose(np.log(prediction.lower), prediction.scored.lower)


def test_recommend_evaluates_the_log_of_positive_skewed_targets():
    fits = []
    model = recommend(LinearRegression(), X, Y, progress=lambda *each: fits.append(each))
    assert model.recommendation_.chosen.transform == "log"
    assert "of the log of the target with" in str(model.recommendation_)
    assert {each.transform for each in model.recommendation_.candidates} == {None, "log"}
    assert fits[0] == (0, 11)
    assert fits[-1] == (11, 11)
    assert sorted(fits) == fits
    intervals = model.calibrate(X, Y).predict_interval(X)
    assert intervals.lower.min() > 0


@pytest.mark.parametrize("nonconformity", [None, Residual(), Normalized(floor=0.1)], ids=repr)
def test_recommend_uses_the_given_score_on_the_log_scale(nonconformity):
    model = recommend(
        make_pipeline(StandardScaler(), TwoLines()), X, Y, nonconformity=nonconformity, taxonomy=BySpread(2)
    )
    names = {type(each.nonconformity) for each in model.recommendation_.candidates if each.transform == "log"}
    assert names == {type(nonconformity)} or nonconformity is None
    model.calibrate(X, Y)


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (TwoLines(), Y - Y.min()),
        (TwoLines(), np.abs(X[:, 0]) + 5),
        (TwoLines(), -np.log(1 - (np.arange(400) + 0.5) / 400)),
        (TransformedTargetRegressor(TwoLines(), transformer=StandardScaler()), Y),
        (make_pipeline(StandardScaler(), TransformedTargetRegressor(TwoLines())), Y),
        (FrozenEstimator(TwoLines().fit(X, Y)), Y),
    ],
    ids=["zero", "not skewed", "log is skewed", "transformed", "transformed in a pipeline", "frozen"],
)
def test_recommend_does_not_evaluate_the_log_of_others(estimator, y):
    model = recommend(estimator, X, y)
    assert {each.transform for each in model.recommendation_.candidates} == {None}
    model.calibrate(X, y).predict_interval(X)


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_separate_tails_are_those_of_the_logs(share):
    """Each end has its own threshold, on the scale of the model."""
    model = TransformedTargetRegressor(SPREAD, transformer=LogTransform())
    regressor = ConformalRegressor(
        FrozenEstimator(model.fit(X[:200], Y[:200])),
        nonconformity=Normalized(),
        calibrator=TwoTails(lower_share=share),
    ).calibrate(X[200:], Y[200:])
    logs = ConformalRegressor(
        FrozenEstimator(model.regressor_), nonconformity=Normalized(), calibrator=TwoTails(lower_share=share)
    ).calibrate(X[200:], np.log(Y[200:]))
    expected = np.exp(np.asarray(logs.predict_interval(X)))
    np.testing.assert_allclose(np.asarray(regressor.predict_interval(X)), expected, rtol=1e-13)
    np.testing.assert_array_equal(regressor.p_values(X, Y), logs.p_values(X, np.log(Y)))


def test_an_upper_bound_of_a_decreasing_transform_is_an_upper_bound():
    model = ConformalRegressor(
        Ridge(),
        target_transform=FunctionTransformer(np.reciprocal, np.reciprocal),
        nonconformity=OneSided(Residual(), side="upper"),
        random_state=0,
    ).fit(X, Y)
    intervals = model.predict_interval(X)
    assert np.all(intervals.lower == 0)
    assert np.isfinite(intervals.upper).any()
    assert 0.85 < intervals.covers(Y).mean() < 1


def test_limits_are_in_the_unit_of_the_target():
    """Bounded is applied around the scale, so limits and whole numbers are those of the target."""
    counts = np.floor(Y)
    score = Bounded(Residual(), y_min=0, y_max=50, whole=True)
    settings = {"target_transform": "log1p", "random_state": 0}
    bounded = ConformalRegressor(Ridge(), nonconformity=score, **settings).fit(X, counts).predict_interval(X)
    plain = ConformalRegressor(Ridge(), **settings).fit(X, counts).predict_interval(X)
    kept = (counts <= 50) & ~bounded.replaced
    np.testing.assert_array_equal(bounded.covers(counts)[kept], plain.covers(counts)[kept])
    assert kept.mean() > 0.9
    np.testing.assert_array_equal(bounded.upper, np.floor(bounded.upper))
    assert bounded.lower.min() >= 0
    assert bounded.upper.max() <= 50


def test_a_study_selects_the_log_and_writes_its_results(tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS, "linear", lambda level, seed: SPREAD)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    found = study(table, "y", plan=Plan(model="linear"))
    assert found.recommendation.chosen.transform == "log"
    assert "linear, fitted to the log of the target; score: " in str(found)
    assert "of the log of the target" in short_report_page(found)
    found.regressor.save(tmp_path / "model.evencover")
    loaded = ConformalRegressor.load(tmp_path / "model.evencover")
    intervals = found.regressor.predict_interval(table[["a", "b"]])
    np.testing.assert_array_equal(np.asarray(loaded.predict_interval(table[["a", "b"]])), np.asarray(intervals))
    assert intervals.lower.min() > 0


def test_a_predictive_distribution_is_that_of_the_logs():
    model = TransformedTargetRegressor(SPREAD, transformer=LogTransform())
    frozen = FrozenEstimator(model.fit(X[:200], Y[:200]))
    own = ConformalRegressor(frozen, nonconformity=Normalized()).calibrate(X[200:], Y[200:]).predict_distribution(X)
    logs = ConformalRegressor(FrozenEstimator(model.regressor_), nonconformity=Normalized())
    expected = logs.calibrate(X[200:], np.log(Y[200:])).predict_distribution(X)
    np.testing.assert_allclose(own.cdf(Y), expected.cdf(np.log(Y)))
    np.testing.assert_allclose(own.ppf(0.9), np.exp(expected.ppf(0.9)))
    assert own.cdf(np.full(400, -1.0)).max() <= 1 / 201


def test_the_range_of_a_transform_is_searched_once_for_a_model(monkeypatch):
    """And forgotten with the model."""
    searches, around = [], target_scales.TargetMap.around
    monkeypatch.setattr(target_scales.TargetMap, "around", lambda *args: searches.append(1) or around(*args))
    X = np.linspace(0, 1, 60)[:, None]
    model = ConformalRegressor(LinearRegression(), target_transform="log", random_state=0).fit(X, np.exp(X[:, 0] + 1))
    known = len(target_scales._KNOWN_RANGES)
    searches.clear()
    model.predict_interval(X[:1])
    assert searches == []
    del model
    gc.collect()
    assert len(target_scales._KNOWN_RANGES) < known


def test_thresholds_of_the_log_need_predictions_that_know_it(tmp_path):
    """Plain predictions would get intervals on the scale of the log, without a word; also after saving and loading."""
    X = np.random.default_rng(0).normal(size=(200, 1))
    y = np.exp(X[:, 0])
    model = ConformalRegressor(LinearRegression(), target_transform="log", random_state=0).fit(X, y)
    model.calibration_.save(tmp_path / "calibration")
    for calibration in (model.calibration_, Calibration.load(tmp_path / "calibration")):
        expected = model.predict_interval(X)
        np.testing.assert_array_equal(calibration.interval(model.rows(X).prediction).lower, expected.lower)
        assert len(calibration.interval([])) == 0
        with pytest.raises(ValueError, match="prediction must be that of the model"):
            calibration.interval(model.predict(X))
        with pytest.raises(ValueError, match="prediction must be that of the model"):
            calibration.p_values(y, model.predict(X))
        with pytest.raises(ValueError, match="SQL has no transform of the target"):
            calibration.to_sql(dialect="duckdb", center="c")


def test_merged_thresholds_remember_the_log():
    """Also if the first part has no rows; thresholds of the target itself cannot be added."""
    X = np.random.default_rng(0).normal(size=(200, 1))
    y = np.exp(X[:, 0])
    model = ConformalRegressor(LinearRegression(), target_transform="log", random_state=0).fit(X, y)
    prediction = model.rows(X).prediction
    of_log, of_target = calibrate(y, prediction), calibrate(y, model.predict(X))
    merged = calibrate([], []).merge(of_log)
    assert merged.threshold(0.9) == of_log.threshold(0.9)
    with pytest.raises(ValueError, match="prediction must be that of the model"):
        merged.interval(model.predict(X))
    with pytest.raises(ValueError, match="merge needs calibrations with the same transformed"):
        of_log.merge(of_target)
