"""A spread for models without one: from out-of-sample residuals, and never from the row itself."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from scipy.stats import kstest, norm
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from evencover import (
    BySpread,
    ConformalRegressor,
    CrossConformalRegressor,
    Marginal,
    Normalized,
    Prediction,
    diagnose,
    recommend,
)
from evencover.model_selection import IntervalScorer
from evencover.models import EnsembleSpread, NeighborSpread, QuantileForest, ResidualSpread, TableEncoder, WithSpread
from evencover.synthetic import heteroskedastic

DATA = heteroskedastic(400, seed=0)
NEW = heteroskedastic(200, seed=1)
NORMAL = np.sqrt(np.pi / 2)
GRID = [0.01, 0.025, *(k / 20 for k in range(1, 20)), 0.975, 0.99]


class Memory(RegressorMixin, BaseEstimator):
    """Memorises its training rows, and predicts 0 for all others."""

    def fit(self, X, y):
        self.known_ = {tuple(row): target for row, target in zip(np.asarray(X), y, strict=True)}
        return self

    def predict(self, X):
        return np.array([self.known_.get(tuple(row), 0.0) for row in np.asarray(X)])


def test_residuals_are_out_of_fold():
    """A model that memorises has residual zero on its training rows; out of fold the residuals are the targets."""
    model = WithSpread(Memory(), ResidualSpread(KNeighborsRegressor(1)), cv=3, random_state=0).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(model.predict(DATA.X), DATA.y)
    spread = model.predict_full(DATA.X).spread
    np.testing.assert_allclose(spread, np.maximum(NORMAL * np.abs(DATA.y), model.spread_floor_))


def test_the_residuals_of_a_frozen_model_need_no_folds():
    """The model was not fitted on these rows, so the residuals are out of sample."""
    frozen = FrozenEstimator(Ridge().fit(DATA.X, DATA.y))
    model = WithSpread(frozen, ResidualSpread(KNeighborsRegressor(1))).fit(NEW.X, NEW.y)
    expected = NORMAL * np.abs(NEW.y - frozen.predict(NEW.X))
    np.testing.assert_allclose(model.predict_full(NEW.X).spread, np.maximum(expected, model.spread_floor_))


def test_folds_are_shuffled_unless_a_splitter_is_given():
    """With sorted rows, unshuffled folds leave out whole regions."""
    order = np.argsort(DATA.y)
    X, y = DATA.X[order], DATA.y[order]
    forest = RandomForestRegressor(10, min_samples_leaf=5, random_state=0)
    shuffled = WithSpread(forest, NeighborSpread(), random_state=0).fit(X, y).predict_full(NEW.X).spread
    in_order = WithSpread(forest, NeighborSpread(), cv=KFold(5)).fit(X, y).predict_full(NEW.X).spread
    assert np.median(shuffled) < 0.8 * np.median(in_order)


def neighbours_by_hand(of, k, new, *, skip):
    """Return the spread from k nearest rows in standardised features, without the `skip` nearest ones."""
    scaler = StandardScaler().fit(DATA.X)
    distances = np.linalg.norm(scaler.transform(new)[:, None] - scaler.transform(DATA.X), axis=2)
    nearest = np.argsort(distances, axis=1)[:, skip : k + skip]
    if of == "targets":
        return DATA.y[nearest].std(axis=1)
    return np.take_along_axis(distances, nearest, 1).mean(axis=1)


@pytest.mark.parametrize(("rows", "skip"), [(NEW.X, 0), (DATA.X, 1)], ids=["new rows", "training rows"])
@pytest.mark.parametrize("of", ["targets", "distance"])
def test_neighbours_are_the_nearest_other_rows(of, rows, skip):
    """Equal to a computation by hand; the nearest row of a training row is itself, and is excluded."""
    model = WithSpread(LinearRegression(), NeighborSpread(10, of=of), floor=1e-9, random_state=0).fit(DATA.X, DATA.y)
    expected = neighbours_by_hand(of, 10, rows, skip=skip)
    spread = model.predict_full(rows).spread
    np.testing.assert_allclose(spread / spread.mean(), expected / expected.mean())
    if of == "targets":
        np.testing.assert_allclose(spread, expected)


def test_a_row_is_never_its_own_neighbour():
    """With one neighbour, the spread of a training row is the residual of another row."""
    y = DATA.y.copy()
    y[7] += 1e6
    frozen = FrozenEstimator(LinearRegression().fit(NEW.X, NEW.y))
    before, after = (
        WithSpread(frozen, NeighborSpread(1)).fit(DATA.X, target).predict_full(DATA.X[7:8]) for target in (DATA.y, y)
    )
    assert before.spread == after.spread


def test_a_row_is_not_its_own_neighbour_with_many_features():
    """Distances are rounded, so the distance of a row to itself can be above zero."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 40)) * 100, rng.normal(size=300)
    model = WithSpread(LinearRegression(), NeighborSpread(3, of="targets"), floor=1e-9).fit(X, y)
    np.testing.assert_allclose(model.predict_full(X).spread, model.spread_.learn(None, X, y, None))


def test_identical_rows_have_the_same_spread():
    """Their mean distance is zero and cannot be used as a unit."""
    X, y = np.zeros((100, 2)), np.random.default_rng(0).normal(size=100)
    model = WithSpread(LinearRegression(), NeighborSpread(5, of="distance"), random_state=0).fit(X, y)
    assert 0.8 < model.predict_full(X).spread.mean() < 1.2


@pytest.mark.parametrize(
    "source", [ResidualSpread(), NeighborSpread(), NeighborSpread(of="targets"), NeighborSpread(of="distance")]
)
def test_the_spread_scales_with_the_target(source):
    plain, small, large = (
        WithSpread(LinearRegression(), source, random_state=0).fit(DATA.X, unit * DATA.y).predict_full(NEW.X).spread
        for unit in (1, 1e-9, 1e9)
    )
    np.testing.assert_allclose(small, 1e-9 * plain, rtol=1e-6)
    np.testing.assert_allclose(large, 1e9 * plain, rtol=1e-6)


def test_the_spread_from_distances_is_in_units_of_the_target():
    """The mean spread on the training rows is √(π/2) times the mean absolute residual."""
    frozen = FrozenEstimator(LinearRegression().fit(NEW.X, NEW.y))
    model = WithSpread(frozen, NeighborSpread(of="distance")).fit(DATA.X, DATA.y)
    expected = NORMAL * np.abs(DATA.y - frozen.predict(DATA.X)).mean()
    assert model.predict_full(DATA.X).spread.mean() == pytest.approx(expected)


@pytest.mark.parametrize(
    "ensemble",
    [
        RandomForestRegressor(10, random_state=0),
        ExtraTreesRegressor(10, random_state=0),
        BaggingRegressor(Ridge(), max_features=2, random_state=0),
        VotingRegressor([("a", Ridge()), ("b", RandomForestRegressor(5, random_state=0))]),
        make_pipeline(StandardScaler(), RandomForestRegressor(10, random_state=0)),
        FrozenEstimator(RandomForestRegressor(10, random_state=0).fit(DATA.X, DATA.y)),
    ],
    ids=lambda ensemble: type(ensemble).__name__,
)
@pytest.mark.parametrize("as_frame", [False, True], ids=["array", "frame"])
def test_ensemble_spread_is_the_standard_deviation_over_members(ensemble, as_frame):
    X, new = (pd.DataFrame(rows, columns=list("abc")) if as_frame else rows for rows in (DATA.X, NEW.X))
    ensemble = ensemble if isinstance(ensemble, FrozenEstimator) else clone(ensemble)
    if as_frame and isinstance(ensemble, FrozenEstimator):
        ensemble = FrozenEstimator(clone(ensemble.estimator).fit(X, DATA.y))
    model = WithSpread(ensemble, EnsembleSpread(), floor=1e-9).fit(X, DATA.y)
    inside = model.estimator_.estimator if isinstance(ensemble, FrozenEstimator) else model.estimator_
    last, rows = (inside[-1], inside[:-1].transform(new)) if hasattr(inside, "steps") else (inside, new)
    features = getattr(last, "estimators_features_", [slice(None)] * len(last.estimators_))
    predicted = [
        member.predict(rows if hasattr(member, "feature_names_in_") else np.asarray(rows)[:, own])
        for member, own in zip(last.estimators_, features, strict=True)
    ]
    np.testing.assert_allclose(model.predict_full(new).spread, np.std(predicted, axis=0), rtol=1e-6)


def test_ensemble_spread_finds_the_members_of_the_best_model_of_a_search():
    search = GridSearchCV(RandomForestRegressor(10, random_state=0), {"max_depth": [2]}, cv=2)
    found = WithSpread(search, EnsembleSpread()).fit(DATA.X, DATA.y).predict_full(NEW.X)
    alone = WithSpread(search.estimator.set_params(max_depth=2), EnsembleSpread()).fit(DATA.X, DATA.y)
    np.testing.assert_array_equal(found.spread, alone.predict_full(NEW.X).spread)


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingRegressor(n_estimators=5),
        Ridge(),
        VotingRegressor([("a", Ridge()), ("b", Ridge(9.0))], weights=[1, 9]),
    ],
)
def test_an_ensemble_whose_prediction_is_not_the_mean_is_an_error(model):
    with pytest.raises(TypeError, match=r"EnsembleSpread needs an ensemble whose prediction is the mean of its estim"):
        WithSpread(model, EnsembleSpread()).fit(DATA.X, DATA.y)


def test_the_floor_is_relative():
    """No spread is below a fraction of the median, also if the second regressor predicts negative values."""
    model = WithSpread(LinearRegression(), ResidualSpread(LinearRegression()), floor=0.5, random_state=0)
    model.fit(DATA.X, DATA.y)
    typical, far = (NORMAL * model.spread_.unit_ * model.spread_.regressor_.predict(X) for X in (DATA.X, DATA.X - 5))
    assert far.max() < 0
    np.testing.assert_allclose(model.spread_floor_, 0.5 * np.median(typical))
    np.testing.assert_allclose(model.predict_full(DATA.X - 5).spread, model.spread_floor_)


def test_the_rounding_margin_depends_on_differences_between_members():
    """Also with targets far from zero, a weighted mean is distinguished from the mean."""
    votes = VotingRegressor([("a", Ridge()), ("b", Ridge(99.0))], weights=[1, 9])
    with pytest.raises(TypeError, match="that of VotingRegressor is not"):
        WithSpread(votes, EnsembleSpread()).fit(DATA.X, DATA.y + 1e9)
    WithSpread(RandomForestRegressor(10), EnsembleSpread()).fit(DATA.X, DATA.y + 1e9)


def test_rows_of_a_cluster_are_in_the_same_fold():
    """Duplicate rows: if one of them is a training row, a model that memorises has residual zero on the other."""
    X, y, clusters = np.repeat(DATA.X, 2, axis=0), np.repeat(DATA.y, 2), np.repeat(np.arange(400), 2)
    model = WithSpread(Memory(), ResidualSpread(KNeighborsRegressor(1)), random_state=0)
    out_of_sample = np.maximum(NORMAL * np.abs(DATA.y), 0)
    without, with_clusters = (
        clone(model).fit(X, y, **given).predict_full(DATA.X).spread for given in ({}, {"clusters": clusters})
    )
    assert np.mean(without < out_of_sample / 2) > 0.5
    np.testing.assert_allclose(with_clusters, out_of_sample, atol=0.01)


def test_tags_are_those_of_both_parts():
    forest = RandomForestRegressor()
    own = get_tags(forest).input_tags
    found = [
        get_tags(WithSpread(forest, source)).input_tags
        for source in (None, NeighborSpread(), EnsembleSpread(), "wrong")
    ]
    assert [tags.allow_nan for tags in found] == [own.allow_nan, False, own.allow_nan, own.allow_nan]
    assert [tags.sparse for tags in found] == [False, False, own.sparse, own.sparse]


WORDS = pd.DataFrame({"x": DATA.X[:, 0], "word": np.where(DATA.X[:, 1] > 0.5, "loud", "quiet")})
WORDS.loc[3, "word"] = WORDS.loc[4, "x"] = None
LOUD = (WORDS["word"] == "loud").to_numpy()
NOISY = DATA.X[:, 0] + np.random.default_rng(0).normal(size=400) * np.where(LOUD, 5, 1)
ENCODED = make_pipeline(TableEncoder(), Ridge())


@pytest.mark.parametrize("source", [None, NeighborSpread()])
def test_the_spread_depends_on_columns_of_text(source):
    """The pipeline inside encodes text for the center; the source encodes it for the spread, in any library."""
    model = WithSpread(ENCODED, source, random_state=0)
    spread = model.fit(WORDS, NOISY).predict_full(WORDS).spread
    assert spread[LOUD].mean() > 3 * spread[~LOUD].mean()
    np.testing.assert_array_equal(model.predict_full(WORDS[:5]).spread, spread[:5])  # by the training rows alone
    assert np.isfinite(model.predict_full(WORDS.assign(word="new")).spread).all()
    for table in (pl.from_pandas(WORDS), pa.Table.from_pandas(WORDS)):
        np.testing.assert_array_equal(model.fit(table, NOISY).predict_full(table).spread, spread)


def test_a_table_of_numbers_is_not_encoded():
    """So results for numbers, also those written as text, and for categories that trees read, stay as they are."""
    numbers = pd.DataFrame(DATA.X).add_prefix("x")
    categories = numbers.assign(word=pd.Categorical(WORDS["word"]))
    for table in (numbers, numbers.astype(str), categories):
        source = ResidualSpread()
        source.learn(None, table, DATA.y, DATA.y)
        assert isinstance(source.regressor_, HistGradientBoostingRegressor)
        neighbours = NeighborSpread()
        if table is not categories:
            neighbours.learn(None, table, DATA.y, DATA.y)
            assert neighbours.encoder_ is None


@pytest.mark.parametrize("source", [None, NeighborSpread()])
def test_models_of_text_are_calibrated_diagnosed_and_saved(source, tmp_path):
    inside = WithSpread(ENCODED, source, random_state=0)
    model = ConformalRegressor(inside, nonconformity=Normalized(), random_state=0).fit(WORDS, NOISY)
    intervals = model.predict_interval(WORDS)
    assert intervals.width[LOUD].mean() > 3 * intervals.width[~LOUD].mean()
    assert diagnose(model, WORDS, NOISY).verdict in ("even", "undecided", "uneven")
    model.save(tmp_path / "model.evencover")
    loaded = ConformalRegressor.load(tmp_path / "model.evencover")
    np.testing.assert_array_equal(loaded.predict_interval(WORDS).lower, intervals.lower)


def test_models_of_text_work_in_folds_and_in_the_choice_of_a_score():
    inside = WithSpread(ENCODED, cv=2, random_state=0)
    folds = CrossConformalRegressor(inside, cv=2, nonconformity=Normalized(), random_state=0).fit(WORDS, NOISY)
    chosen = recommend(inside, WORDS, NOISY, taxonomy=Marginal()).calibrate(WORDS, NOISY)
    for model in (folds, chosen):
        width = model.predict_interval(WORDS).width
        assert width[LOUD].mean() > 2 * width[~LOUD].mean()


def test_errors_about_features_name_a_remedy():
    of = r"ResidualSpread\(regressor=Ridge\(\)\) cannot learn the spread from these features"
    with pytest.raises(
        ValueError, match=rf"{of}: X must hold numbers for Ridge; got text in column 'word'\. Encode them"
    ):
        WithSpread(ENCODED, ResidualSpread(Ridge())).fit(WORDS, NOISY)
    with pytest.raises(TypeError, match="with a regressor that accepts sparse features"):
        WithSpread(Ridge()).fit(csr_array(DATA.X), DATA.y)


def test_fit_arguments_are_passed_to_the_model():
    weights = np.linspace(0.1, 5, 400)
    model = WithSpread(Ridge(), random_state=0).fit(DATA.X, DATA.y, sample_weight=weights)
    np.testing.assert_array_equal(
        model.predict(NEW.X), Ridge().fit(DATA.X, DATA.y, sample_weight=weights).predict(NEW.X)
    )


def test_a_user_defined_source_works():
    class ThirdFeature:
        """The third feature as the spread."""

        needs_residuals = False

        def learn(self, estimator, X, y, residuals):
            return self.spread(estimator, X)

        def spread(self, estimator, X):
            return X[:, 2]

    model = WithSpread(Ridge(), ThirdFeature()).fit(DATA.X, DATA.y)
    np.testing.assert_array_equal(model.predict_full(NEW.X).spread, np.maximum(NEW.X[:, 2], model.spread_floor_))


def test_a_search_can_choose_the_source():
    model = ConformalRegressor(WithSpread(Ridge()), nonconformity=Normalized(), taxonomy=BySpread(2), random_state=0)
    choice = {"estimator__spread": [ResidualSpread(), NeighborSpread(10), NeighborSpread(of="distance")]}
    search = GridSearchCV(model, choice, scoring=IntervalScorer(0.9), cv=3).fit(DATA.X, DATA.y)
    assert search.best_params_["estimator__spread"].needs_residuals


def residual_quantiles_by_hand(model, splitter, X, y, floor):
    """Return the quantiles of residuals divided by spreads, with models that were not fitted on the rows' folds."""
    residuals, spread = np.empty(len(y)), np.empty(len(y))
    for training, held_out in splitter.split(X):
        residuals[held_out] = y[held_out] - clone(model.estimator).fit(X[training], y[training]).predict(X[held_out])
    for training, held_out in splitter.split(X):
        source = clone(model.spread)
        source.learn(None, X[training], y[training], residuals[training])
        spread[held_out] = source.spread(None, X[held_out])
    return np.quantile(residuals / np.maximum(spread, floor), GRID, method="weibull")


@pytest.mark.parametrize(
    "source", [ResidualSpread(Ridge()), NeighborSpread(10), NeighborSpread(of="distance")], ids=repr
)
@pytest.mark.parametrize("folds", [2, 3])
def test_quantiles_are_those_of_cross_fitted_standardised_residuals(source, folds):
    model = WithSpread(Ridge(), source, cv=KFold(folds)).fit(DATA.X, DATA.y)
    probabilities, quantiles = model.residual_quantiles_
    np.testing.assert_array_equal(probabilities, GRID)
    expected = residual_quantiles_by_hand(model, KFold(folds), DATA.X, DATA.y, model.spread_floor_)
    np.testing.assert_allclose(quantiles, expected)
    prediction = model.predict_full(NEW.X)
    np.testing.assert_allclose(
        prediction.quantiles, prediction.center[:, None] + prediction.spread[:, None] * quantiles
    )
    np.testing.assert_allclose(prediction.lower, prediction.quantiles[:, GRID.index(0.05)])
    np.testing.assert_allclose(prediction.upper, prediction.quantiles[:, GRID.index(0.95)])


def test_training_rows_are_predicted_out_of_fold():
    """By a center and a spread that are learned without the row, and the quantiles that all rows have."""
    sample = heteroskedastic(60, seed=0)
    splitter = KFold(3, shuffle=True, random_state=1)
    model = WithSpread(Ridge(), NeighborSpread(5), cv=splitter, random_state=0).fit(sample.X, sample.y)
    found, centers = model.out_of_fold_prediction_, cross_val_predict(Ridge(), sample.X, sample.y, cv=splitter)
    np.testing.assert_allclose(found.center, centers)
    for _, held_out in splitter.split(sample.X):
        others = ~np.isin(np.arange(60), held_out)
        source = NeighborSpread(5)
        source.learn(model.estimator_, sample.X[others], sample.y[others], (sample.y - centers)[others])
        np.testing.assert_allclose(found.spread[~others], source.spread(model.estimator_, sample.X[~others]))
    new = model.predict_full(sample.X)
    standardized = [(each.quantiles - each.center[:, None]) / each.spread[:, None] for each in (found, new)]
    np.testing.assert_allclose(standardized[0], standardized[1])
    assert not hasattr(pickle.loads(pickle.dumps(model)), "out_of_fold_prediction_")  # noqa: S301
    assert WithSpread(Ridge(), random_state=0).fit(sample.X[:19], sample.y[:19]).out_of_fold_prediction_ is None


def test_a_spread_that_memorises_does_not_change_the_quantiles():
    """On its own training rows, its standardised residuals would all be ±√(2/π) = ±0.8."""
    model = WithSpread(Ridge(), ResidualSpread(KNeighborsRegressor(1)), random_state=0).fit(DATA.X, DATA.y)
    low, high = model.residual_quantiles_[1][[GRID.index(0.05), GRID.index(0.95)]]
    assert low < -2
    assert high > 2


def test_rows_of_a_cluster_have_no_spread_from_each_other():
    """Each row twice: the spread of a row must not be learned from its copy."""
    X, y, clusters = np.repeat(DATA.X, 2, axis=0), np.repeat(DATA.y, 2), np.repeat(np.arange(400), 2)
    frozen = FrozenEstimator(Ridge().fit(NEW.X, NEW.y))
    for estimator in (Ridge(), frozen):
        model = WithSpread(estimator, ResidualSpread(KNeighborsRegressor(1)), random_state=0)
        apart, together = (clone(model).fit(X, y, **given) for given in ({}, {"clusters": clusters}))
        assert apart.residual_quantiles_[1][-3] < 2 < together.residual_quantiles_[1][-3]


def test_quantiles_keep_the_skewness_of_the_noise():
    """With exponential noise, about 5 % of new targets are beyond each bound; with normal bounds, none are below."""
    rng = np.random.default_rng(0)
    X, noise = rng.uniform(size=(20_000, 2)), rng.exponential(size=20_000) - 1
    y = X[:, 0] + (0.5 + X[:, 1]) * noise
    model = WithSpread(LinearRegression(), ResidualSpread(LinearRegression()), random_state=0).fit(
        X[:10_000], y[:10_000]
    )
    prediction, new = model.predict_full(X[10_000:]), y[10_000:]
    assert abs(np.mean(new < prediction.lower) - 0.05) < 0.02
    assert abs(np.mean(new > prediction.upper) - 0.05) < 0.02
    assert np.mean(new < Prediction(prediction.center, prediction.spread).lower) < 0.001
    assert kstest(prediction.cdf(new), "uniform").statistic < 0.03


def test_few_residuals_give_normal_tails():
    """30 residuals show the 5 % to 95 % quantiles; beyond, the quantiles are on straight lines in normal scores."""
    _, quantiles = (
        WithSpread(Ridge(), ResidualSpread(Ridge()), random_state=0).fit(DATA.X[:30], DATA.y[:30]).residual_quantiles_
    )
    median, z = quantiles[GRID.index(0.5)], norm.ppf(GRID)
    for end, shown in ((0, GRID.index(0.05)), (-1, GRID.index(0.95))):
        slope = (quantiles[shown] - median) / z[shown]
        np.testing.assert_allclose(quantiles[end], median + slope * z[end])


def test_too_few_rows_give_a_normal_distribution():
    model = WithSpread(Ridge(), random_state=0).fit(DATA.X[:19], DATA.y[:19])
    np.testing.assert_allclose(model.residual_quantiles_[1], norm.ppf(GRID))
    prediction = model.predict_full(NEW.X)
    np.testing.assert_allclose(prediction.lower, Prediction(prediction.center, prediction.spread).lower)


@pytest.mark.parametrize("sizes", [(19, 20), (98, 99)])
@pytest.mark.parametrize("kind", ["residuals", "forest"])
def test_models_of_few_rows_predict_at_the_same_probabilities(kind, sizes):
    """So the predictions of folds, whose sizes differ by one row, can be joined."""
    model = WithSpread(Ridge(), random_state=0) if kind == "residuals" else QuantileForest(n_estimators=5)
    parts = [clone(model).fit(DATA.X[:n], DATA.y[:n]).predict_full(NEW.X) for n in sizes]
    assert Prediction.concatenate(parts).quantiles.shape == (400, 23)


@pytest.mark.parametrize("source", [NeighborSpread(of="targets"), EnsembleSpread()])
def test_without_residuals_the_distribution_is_normal(source):
    model = WithSpread(RandomForestRegressor(5, random_state=0), source).fit(DATA.X, DATA.y)
    prediction = model.predict_full(NEW.X)
    assert model.residual_quantiles_ is None
    assert prediction.quantiles is None
    np.testing.assert_allclose(prediction.ppf(0.95), prediction.center + norm.ppf(0.95) * prediction.spread)


def test_the_quantiles_of_a_frozen_model_are_always_the_same():
    """Its residuals need no folds, and the folds of its spread are fixed."""
    frozen = FrozenEstimator(Ridge().fit(NEW.X, NEW.y))
    first, second = (WithSpread(frozen, ResidualSpread(Ridge())).fit(DATA.X, DATA.y).residual_quantiles_ for _ in "ab")
    np.testing.assert_array_equal(first[1], second[1])


def test_many_rows_need_one_part_of_the_residuals():
    """One fit on the other rows, after the one on all rows."""
    sizes = []

    class Counted(ResidualSpread):
        def learn(self, estimator, X, y, residuals):
            sizes.append(len(y))
            return super().learn(estimator, X, y, residuals)

    X, y = np.tile(DATA.X, (40, 1)), np.tile(DATA.y, 40)
    WithSpread(Ridge(), Counted(Ridge()), cv=KFold(3)).fit(X, y)
    assert sizes == [16_000, 10_666]


def test_a_model_of_an_earlier_version_predicts_a_normal_distribution():
    """Files of version 3 hold no quantiles of residuals."""
    model = WithSpread(Ridge(), random_state=0).fit(DATA.X, DATA.y)
    del model.residual_quantiles_
    prediction = model.predict_full(NEW.X)
    np.testing.assert_array_equal(prediction.upper, Prediction(prediction.center, prediction.spread).upper)


def test_quantiles_take_no_memory_until_they_are_used():
    """Bounds, selected rows and joined predictions are those of a prediction with a table of quantiles."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    lazy = WithSpread(LinearRegression(), random_state=0).fit(X, X[:, 0] + rng.exponential(size=200)).predict_full(X)
    assert lazy.lower is not None
    assert lazy.known_parts == ("center", "spread", "quantiles")
    assert max(np.size(each) for each in vars(lazy).values()) == 200
    settings = {"probabilities": lazy.probabilities, "level": lazy.level}
    table = Prediction(lazy.center, lazy.spread, quantiles=lazy[:].quantiles, **settings)
    for each, other in (
        (lazy, table),
        (lazy[3:9], table[3:9]),
        (Prediction.concatenate([lazy[:50], table[50:]]), table),
    ):
        for name in ("center", "spread", "lower", "upper", "quantiles"):
            np.testing.assert_allclose(getattr(each, name), getattr(other, name), rtol=1e-12)
        np.testing.assert_array_equal(each.ppf([0.003, 0.33]), other.ppf([0.003, 0.33]))
    np.testing.assert_array_equal(lazy.interval(0.8), table.interval(0.8))
