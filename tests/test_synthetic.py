"""Synthetic data: samples against their exact distribution."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from evencover import Intervals, IntervalUnion, Residual, calibrate
from evencover.synthetic import (
    AdditiveNoise,
    Mixture,
    NormalFeatures,
    ParametricDistribution,
    SubgroupFeatures,
    SyntheticData,
    TwoModeFeatures,
    UniformFeatures,
    bimodal,
    constant_mean,
    counts,
    functional_dependence,
    heteroskedastic,
    homoskedastic,
    low_dimensional,
    skewed,
    toy,
    two_modes,
    two_subgroups,
    unit_square,
)
from evencover.theory import EXPONENTIAL, LAPLACE, NORMAL, TRIANGULAR, UNIFORM
from tests.synthetic import ONE_IN_A_MILLION

MAKERS = [
    homoskedastic,
    constant_mean,
    functional_dependence,
    low_dimensional,
    two_modes,
    toy,
    two_subgroups,
    unit_square,
]
FAMILIES = [NORMAL, LAPLACE, UNIFORM, TRIANGULAR, EXPONENTIAL]
VARIANTS = {
    "skewed": skewed(),
    **{f"bimodal, {noise.name}": bimodal(noise) for noise in (NORMAL, LAPLACE)},
    "Student's t with other degrees of freedom": SyntheticData(
        "t", UniformFeatures(1), ParametricDistribution(stats.t, lambda X: {"df": 5 + 9 * X[:, 0], "scale": 2.0})
    ),
    "type 4, mixture": two_modes(mixture=True),
    "type 4, mixture, as written": two_modes(mixture=True, as_written=True),
    "type 4, as written": two_modes(as_written=True),
    "toy, as written": toy(as_written=True),
    "three modes": SyntheticData(
        "three modes",
        UniformFeatures(1),
        Mixture(
            [AdditiveNoise(lambda X, m=m: X[:, 0] + m, lambda X: 0.1 + X[:, 0]) for m in (-3, 0, 3)], [0.2, 0.5, 0.3]
        ),
    ),
}
ALL_DATA = {f"{make.__name__}, {noise.name}": make(noise) for make in MAKERS for noise in FAMILIES} | VARIANTS


TEN_NORMAL = NormalFeatures(10, 10.0)
PAPER = {  # features, mean and variance of the paper or of its code
    "control": (homoskedastic(), TwoModeFeatures(10, 0.0, 10.0), lambda x: x.mean(), lambda x: 0.1),
    "type 1": (constant_mean(), TEN_NORMAL, lambda x: 1, lambda x: 0.1 * abs(x.mean())),
    "type 2": (functional_dependence(), TEN_NORMAL, lambda x: x.mean(), lambda x: 0.1 * abs(x.mean()) ** 0.5),
    "type 3": (low_dimensional(), UniformFeatures(10, 0.0, 10.0), lambda x: x.mean(), lambda x: 0.1 * abs(x[1] + 0.1)),
    "type 4": (
        two_modes(),
        TEN_NORMAL,
        lambda x: x.mean() - 1 if x.mean() <= 2 else x.mean() + 1,
        lambda x: 0.1 * abs(x).mean(),
    ),
    "type 4, as written": (
        two_modes(as_written=True),
        TEN_NORMAL,
        lambda x: x.mean() - 1 if x.mean() <= 2 else x.mean() + 1,
        lambda x: 0.01 * x.mean() ** 2,
    ),
    "type 4, mixture": (two_modes(mixture=True), TEN_NORMAL, lambda x: x.mean(), lambda x: 0.1 * abs(x).mean() + 1),
    "toy": (toy(), UniformFeatures(5, 0.0, 10.0), lambda x: x.mean(), lambda x: 0.1 * x.mean()),
    "toy, as written": (
        toy(as_written=True),
        UniformFeatures(5, 0.0, 100.0),
        lambda x: x.mean(),
        lambda x: 0.01 * x.mean() ** 2,
    ),
    "two subgroups": (
        two_subgroups(),
        SubgroupFeatures(),
        lambda x: 0.1 * x[0] + 2 * x[1],
        lambda x: (0.01, 0.25)[int(x[1])],
    ),
    "unit square": (unit_square(), UniformFeatures(2), lambda x: x.sum(), lambda x: 1 + abs(x[1] - 0.5)),
}


DISCRETE = {
    "counts": counts(),
    "counts with many zeros": SyntheticData(
        "zeros",
        UniformFeatures(2),
        Mixture(
            [
                ParametricDistribution(stats.poisson, lambda X: {"mu": 0.0}),
                ParametricDistribution(stats.poisson, lambda X: {"mu": 1 + 9 * X[:, 0]}),
            ],
            [0.3, 0.7],
        ),
    ),
    "overdispersed": SyntheticData(
        "overdispersed",
        UniformFeatures(1),
        ParametricDistribution(stats.nbinom, lambda X: {"n": 2.0, "p": 0.1 + 0.8 * X[:, 0]}),
    ),
}


@pytest.mark.parametrize("name", PAPER)
def test_features_means_and_variances_are_the_papers(name):
    data, features, mean, variance = PAPER[name]
    assert data.features == features
    sample = data.sample(300, seed=0)
    np.testing.assert_allclose(sample.mean, [mean(x) for x in sample.X])
    np.testing.assert_allclose(sample.spread**2, [variance(x) for x in sample.X])


@pytest.fixture(params=ALL_DATA)
def data(request):
    return ALL_DATA[request.param]


def test_targets_follow_their_distribution_at_every_noise_level(data):
    """F(Y | X) is uniform, in each third of the spread."""
    sample = data.sample(15_000, seed=0)
    p = data.distribution.cdf(sample.y, sample.X)
    for rows in np.array_split(np.argsort(sample.spread, kind="stable"), 3):
        assert stats.kstest(p[rows], "uniform").pvalue > ONE_IN_A_MILLION


def test_mean_and_spread_are_those_of_the_target(data):
    """Standardised residuals have mean 0 and mean square 1, within five standard errors."""
    sample = data.sample(50_000, seed=1)
    noise = (sample.y - sample.mean) / sample.spread
    for values in (noise, noise**2 - 1):
        assert abs(values.mean()) < 5 * values.std() / np.sqrt(len(values))


def test_the_density_is_the_slope_of_the_cdf(data):
    row = data.sample(3, seed=2).X[2:]
    low, high = (float(data.distribution.quantile(p, row)[0]) for p in (0.2, 0.7))

    def density(y):
        return float(data.distribution.density(np.array([y]), row)[0])

    breaks = [float(data.distribution.mean(row)[0])]
    assert quad(density, low, high, limit=300, points=breaks)[0] == pytest.approx(0.5, abs=1e-6)


def test_the_oracle_interval_covers_every_row_at_the_level(data):
    sample = data.sample(500, seed=3)
    for level in (0.5, 0.9):
        intervals = data.oracle_interval(sample.X, level=level)
        np.testing.assert_allclose(data.coverage(intervals, sample.X), level, atol=1e-9)
        assert intervals.level == level


def test_conditional_coverage_agrees_with_counts(data):
    """The count of rows covered by an interval against the sum of their probabilities."""
    sample = data.sample(20_000, seed=4)
    intervals = Residual().interval(0.7 * float(np.median(sample.spread)), sample.oracle())
    exact = sample.coverage(intervals)
    excess = intervals.covers(sample.y).sum() - exact.sum()
    assert abs(excess) < 5 * np.sqrt((exact * (1 - exact)).sum())


@pytest.fixture(params=DISCRETE)
def discrete(request):
    return DISCRETE[request.param]


def test_discrete_targets_follow_their_distribution_at_every_noise_level(discrete):
    """A uniform draw between F(y−) and F(y) is uniform, in each third of the spread."""
    sample = discrete.sample(15_000, seed=0)
    assert (sample.y == sample.y.round()).all()
    below, at = (discrete.distribution.cdf(y, sample.X) for y in (np.nextafter(sample.y, -np.inf), sample.y))
    p = below + np.random.default_rng(1).uniform(size=len(sample)) * (at - below)
    for rows in np.array_split(np.argsort(sample.spread, kind="stable"), 3):
        assert stats.kstest(p[rows], "uniform").pvalue > ONE_IN_A_MILLION


def test_mean_and_spread_are_those_of_the_discrete_target(discrete):
    test_mean_and_spread_are_those_of_the_target(discrete)


def test_the_density_of_a_discrete_target_is_the_jump_of_its_cdf(discrete):
    X = discrete.sample(40, seed=2).X
    total = np.zeros(40)
    for y in np.arange(-1.0, 30.0):
        mass = discrete.distribution.density(np.full(40, y), X)
        total += mass
        np.testing.assert_allclose(total, discrete.distribution.cdf(np.full(40, y + 0.7), X), atol=1e-12)
        assert (discrete.distribution.density(np.full(40, y + 0.5), X) == 0).all()


@pytest.mark.parametrize("p", [0.01, 0.2, 0.3, 0.5, 0.95])
def test_a_quantile_of_a_discrete_target_is_the_smallest_target_with_that_probability(discrete, p):
    X = discrete.sample(200, seed=3).X
    quantile = discrete.distribution.quantile(p, X)
    assert (quantile == quantile.round()).all()
    assert (discrete.distribution.cdf(quantile, X) >= p).all()
    assert (discrete.distribution.cdf(np.nextafter(quantile, -np.inf), X) < p).all()


def test_the_oracle_interval_covers_discrete_targets_at_least_at_the_level(discrete):
    sample = discrete.sample(500, seed=3)
    for level in (0.5, 0.9):
        intervals = discrete.oracle_interval(sample.X, level=level)
        assert (discrete.coverage(intervals, sample.X) >= level - 1e-12).all()
        inner = Intervals(intervals.lower + 0.01, intervals.upper - 0.01)
        assert (discrete.coverage(inner, sample.X) < level).mean() > 0.5  # without its ends it covers less


def test_conditional_coverage_of_discrete_targets_counts_both_ends(discrete):
    """The sum of the probabilities of the whole numbers in the closed interval, also for intervals of one point."""
    sample = discrete.sample(300, seed=4)
    low = np.arange(300.0) % 7 - 1
    for lower, upper in ((low, low), (low, low + 3), (low + 0.2, low + 2.9), (low + 0.2, low + 0.8)):
        inside = sum(
            np.where((lower <= y) & (y <= upper), discrete.distribution.density(np.full(300, y), sample.X), 0.0)
            for y in np.arange(-2.0, 20.0)
        )
        np.testing.assert_allclose(sample.coverage(Intervals(lower, upper)), inside, atol=1e-12)


def test_conditional_coverage_of_discrete_targets_agrees_with_counts(discrete):
    sample = discrete.sample(20_000, seed=5)
    intervals = Intervals(np.floor(sample.mean), np.ceil(sample.mean))
    exact = sample.coverage(intervals)
    excess = intervals.covers(sample.y).sum() - exact.sum()
    assert abs(excess) < 5 * np.sqrt((exact * (1 - exact)).sum())


def test_the_shape_of_the_noise_is_the_documented_one():
    """Moments of a few rows, from their formulas."""
    X = np.random.default_rng(0).uniform(size=(50, 3))
    wave = 3 * np.sin(np.pi * X[:, 0])
    frozen = skewed().distribution._frozen(X)
    np.testing.assert_allclose(frozen.stats("m"), wave)
    np.testing.assert_allclose(frozen.stats("v"), (0.5 + X[:, 1]) ** 2)
    np.testing.assert_allclose(frozen.stats("s"), 0.2 + 1.8 * X[:, 2])
    modes = bimodal().distribution
    np.testing.assert_allclose(modes.mean(X), wave, atol=1e-12)
    np.testing.assert_allclose(modes.spread(X) ** 2, (0.3 + 0.4 * X[:, 1]) ** 2 + (2 * X[:, 2]) ** 2)
    rate = np.exp(3 * X[:, 0] + X[:, 1] - 1)
    np.testing.assert_allclose(counts().distribution.density(np.full(50, 2.0), X), rate**2 * np.exp(-rate) / 2)


@pytest.mark.parametrize(("data", "level"), [(skewed(), 0.7), (bimodal(), 0.5), (counts(), 0.7)], ids=repr)
def test_the_true_center_and_spread_do_not_cover_evenly_if_the_shape_of_the_noise_differs(data, level):
    sample = data.sample(1000, seed=0)
    assert np.ptp(sample.coverage(sample.oracle(level=level).interval())) > 0.15


def test_conditional_coverage_of_several_levels_of_empty_and_of_infinite_intervals():
    sample = heteroskedastic(50, seed=0)
    several = calibrate(sample.y, sample.oracle()).interval(sample.oracle(), level=[0.5, 0.8])
    exact = sample.coverage(several)
    assert exact.shape == (50, 2)
    for column in (0, 1):
        one = Intervals(several.lower[:, column], several.upper[:, column])
        np.testing.assert_array_equal(exact[:, column], sample.coverage(one))
    assert (sample.coverage(Intervals(np.ones(50), np.zeros(50))) == 0).all()
    assert (sample.coverage(Intervals(np.full(50, -np.inf), np.full(50, np.inf))) == 1).all()


def test_conditional_coverage_of_a_union_adds_up():
    sample = heteroskedastic(30, seed=0)
    pieces = [Intervals(sample.mean - 2, sample.mean - 1), Intervals(sample.mean, sample.mean + 1)]
    np.testing.assert_allclose(sample.coverage(IntervalUnion(pieces)), sum(map(sample.coverage, pieces)))


def test_features_can_be_lists_and_mean_and_spread_can_be_constants():
    data = SyntheticData("constant", UniformFeatures(2), AdditiveNoise(lambda X: 1.0, lambda X: 0.5))
    sample = data.sample(2000, seed=0)
    assert sample.mean.shape == sample.spread.shape == (2000,)
    assert stats.kstest((sample.y - 1) / 0.5, "norm").pvalue > ONE_IN_A_MILLION
    np.testing.assert_array_equal(data.oracle(sample.X.tolist()).center, sample.mean)
    assert repr(sample) == "Sample(2000 rows of 2 features from SyntheticData(constant))"
    assert len(sample) == 2000


def test_a_mixture_of_many_components():
    components = [AdditiveNoise(lambda X, m=m: float(m), lambda X: 0.01) for m in range(100)]
    y = SyntheticData("many", UniformFeatures(1), Mixture(components)).sample(5000, seed=0).y
    assert len(np.unique(y.round())) == 100


def test_a_mixture_of_two_equal_components_is_that_component():
    component = constant_mean().distribution
    sample = constant_mean().sample(100, seed=0)
    twice = Mixture([component, component])
    for part in ("mean", "spread"):
        np.testing.assert_allclose(getattr(twice, part)(sample.X), getattr(component, part)(sample.X))
    np.testing.assert_allclose(twice.quantile(0.3, sample.X), component.quantile(0.3, sample.X))


@pytest.mark.parametrize(
    ("features", "mean", "variance"),
    [
        (UniformFeatures(4, -1.0, 5.0), 2.0, 3.0),
        (NormalFeatures(3, 10.0), 0.0, 10.0),
        (TwoModeFeatures(2, 0.0, 9.0), 4.5, 9.75),
    ],
)
def test_features_have_their_moments_and_range(features, mean, variance):
    X = features.draw(40_000, np.random.default_rng(0))
    assert X.shape == (40_000, features.n_features)
    error = 5 * np.sqrt(variance / len(X))
    np.testing.assert_allclose(X.mean(axis=0), mean, atol=error)
    np.testing.assert_allclose(X.var(axis=0), variance, rtol=0.05)


def test_two_modes_of_features_leave_the_middle_empty():
    X = TwoModeFeatures(3, 0.0, 9.0).draw(2000, np.random.default_rng(0))
    assert not ((X > 3) & (X < 6)).any()
    assert (X.max(axis=1) < 3).sum() + (X.min(axis=1) > 6).sum() == 2000


def test_subgroups_alternate():
    assert SubgroupFeatures().draw(20, np.random.default_rng(0))[:, 1].sum() == 10


def test_a_seed_repeats_the_rows_and_a_generator_continues():
    assert np.array_equal(heteroskedastic(10, seed=1).y, heteroskedastic(10, seed=1).y)
    assert not np.array_equal(heteroskedastic(10, seed=1).y, heteroskedastic(10, seed=2).y)
    rng = np.random.default_rng(0)
    assert not np.array_equal(toy().sample(10, seed=rng).y, toy().sample(10, seed=rng).y)


def test_the_toy_model_has_the_same_draws_as_the_authors_code():
    """With numpy's legacy generator: features first, then the noise."""
    state = np.random.RandomState(15)
    X = state.uniform(0, 10, (50, 5))
    mean = X.mean(axis=1)
    y = mean + state.normal(0, np.sqrt(0.1 * mean))
    sample = toy().sample(50, seed=np.random.RandomState(15))
    np.testing.assert_array_equal(sample.X, X)
    np.testing.assert_array_equal(sample.y, y)


def test_features_and_noise_can_be_chosen():
    data = constant_mean(LAPLACE, features=UniformFeatures(2, 1.0, 2.0))
    sample = data.sample(100, seed=0)
    assert sample.X.shape == (100, 2)
    assert sample.X.min() >= 1
    np.testing.assert_allclose(sample.spread**2, 0.1 * sample.X.mean(axis=1))


def test_the_oracle_knows_mean_and_spread():
    sample = heteroskedastic(20, seed=0)
    prediction = sample.oracle(level=0.8)
    np.testing.assert_array_equal(prediction.center, sample.mean)
    np.testing.assert_array_equal(prediction.spread, sample.spread)
    assert prediction.level == 0.8
    np.testing.assert_array_equal(sample.source.oracle(sample.X).center, sample.mean)


@pytest.mark.parametrize(
    "name", ["toy, exponential", "skewed", "counts", pytest.param("bimodal, normal", marks=pytest.mark.slow)]
)
def test_the_oracle_distribution_has_the_true_quantiles(name):
    """So its cdf differs from the true one by less than the step between two probabilities; if smooth, far less."""
    data = (ALL_DATA | DISCRETE)[name]
    sample = data.sample(20, seed=0)
    prediction = sample.oracle_distribution(level=0.8)
    assert prediction.quantiles.shape == (20, 161)
    assert (prediction.crossings, prediction.level) == (0, 0.8)
    np.testing.assert_array_equal(prediction.center, sample.mean)
    np.testing.assert_array_equal(prediction.spread, sample.spread)
    for column in (0, 50, 80, 160):
        p = float(prediction.probabilities[column])
        np.testing.assert_array_equal(prediction.quantiles[:, column], data.distribution.quantile(p, sample.X))
    step = 2e-4 if name in ("toy, exponential", "skewed") else np.diff(prediction.probabilities).max()
    np.testing.assert_allclose(prediction.cdf(sample.y), data.distribution.cdf(sample.y, sample.X), atol=step)
    if name != "counts":
        np.testing.assert_allclose(sample.coverage(prediction.interval()), 0.8, atol=2e-4)


@pytest.mark.parametrize("name", ["skewed", "bimodal, normal"])
def test_the_oracle_distribution_at_few_probabilities(name):
    data = ALL_DATA[name]
    sample = data.sample(20, seed=0)
    probabilities = [0.1, 0.5, 0.9]
    prediction = data.oracle_distribution(sample.X.tolist(), probabilities=probabilities)
    np.testing.assert_array_equal(prediction.center, sample.mean)
    np.testing.assert_array_equal(prediction.spread, sample.spread)
    for column, p in enumerate(probabilities):
        quantiles = prediction.quantiles[:, column]
        np.testing.assert_array_equal(quantiles, data.distribution.quantile(p, sample.X))
        np.testing.assert_allclose(prediction.cdf(quantiles), p)
    np.testing.assert_allclose(data.coverage(prediction.interval(0.8), sample.X), 0.8)
