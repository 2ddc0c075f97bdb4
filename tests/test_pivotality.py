"""Which scores are pivotal for which families, by proof and by comparison: both must agree."""

from dataclasses import dataclass
from functools import cache
from itertools import cycle, product

import numpy as np
import pytest
import sympy
from scipy import stats

import evencover.theory as pivotality
from evencover import (
    Bounded,
    IntervalDistance,
    Intervals,
    Normalized,
    OneSided,
    Prediction,
    ProbabilityDistance,
    RelativeIntervalDistance,
    Residual,
    Standardized,
)
from evencover.synthetic import AdditiveNoise, Mixture
from evencover.theory import (
    EXPONENTIAL,
    LAPLACE,
    NORMAL,
    TRIANGULAR,
    UNIFORM,
    Family,
    LocationScale,
    SymbolicFamily,
    is_pivotal,
    pivotality_condition,
    proof,
    standardization_system,
)

FAMILIES = {
    "normal": NORMAL,
    "Laplace": LAPLACE,
    "uniform": UNIFORM,
    "triangular": TRIANGULAR,
    "exponential": EXPONENTIAL,
    "t": LocationScale(stats.t(3), "Student's t"),
    "Cauchy": LocationScale(stats.cauchy(), "Cauchy", location=0, scale=1),
    "rate": EXPONENTIAL.along(lambda rate: (1 / rate, 1 / rate), rate=(0.5, 1, 3)),
    "width": TRIANGULAR.along(lambda width: (2 * width / 3, width / (3 * 2**0.5)), width=(1, 2, 5)),
}
HARMLESS = {
    "the truth": None,
    "σ times 5": lambda mean, spread: (mean, 5 * spread),
    "μ off by 0.3 σ": lambda mean, spread: (mean + 0.3 * spread, spread),
    "both": lambda mean, spread: (mean - spread, spread / 3),
}
HARMFUL = {
    "μ off by 1": lambda mean, spread: (mean + 1, spread),
    "μ times 2": lambda mean, spread: (2 * mean, spread),
    "σ squared": lambda mean, spread: (mean, spread**2),
    "σ plus 1": lambda mean, spread: (mean, spread + 1),
    "σ constant": lambda mean, spread: (mean, 1.0),
    "μ with the wrong sign, if positive": lambda mean, spread: (-abs(mean), spread),
    "μ cut at 0": lambda mean, spread: (min(mean, 0), spread),
    "σ by a condition": lambda mean, spread: (mean, 9 * spread if mean > 0 else spread),
    "σ wrong at one mean": lambda mean, spread: (mean, 7 * spread if mean == 0 else spread),
    "σ with a floor": lambda mean, spread: (mean, max(spread, 0.3)),
    "μ rounded": lambda mean, spread: (round(mean), spread),
}


def without_sympy(*arguments):
    raise ImportError("no SymPy")


SYMPY = ["with SymPy", "without SymPy"]


@pytest.fixture(params=SYMPY)
def how(request, monkeypatch):
    """Every result must be the same with and without SymPy; only `how` differs."""
    if request.param == "without SymPy":
        monkeypatch.setattr(pivotality, "proof", without_sympy)
    return "proved" if request.param == "with SymPy" else "compared"


def covering(cases, chosen):
    """Return all cases as parameters. Those that are not chosen run with the slow tests."""
    return [pytest.param(*case, marks=() if chosen(*case) else pytest.mark.slow) for case in cases]


def with_sympy_or(*chosen):
    """Return the choice of all cases with SymPy. Without it the comparison is the same, so a few cases are enough."""
    return lambda name, *others: others[-1] == SYMPY[0] or name in chosen


@pytest.mark.parametrize(
    ("name", "score", "how"),
    covering(product(FAMILIES, [Normalized(), Standardized()], SYMPY), with_sympy_or("normal", "rate")),
    indirect=["how"],
    ids=repr,
)
def test_the_normalised_and_standardised_scores_are_pivotal_for_location_scale_families(name, score, how):
    answer = is_pivotal(score, FAMILIES[name])
    assert answer
    assert answer.how == how
    reason = "proved" if how == "proved" else f"compared: no difference between {answer.members} members"
    assert str(answer) == f"Pivotal ({reason}): one threshold gives the same coverage for all members, at every level."


@pytest.mark.parametrize(
    ("name", "estimate", "how"),
    covering(product(["normal", "triangular"], HARMLESS, SYMPY), with_sympy_or("normal")),
    indirect=["how"],
)
def test_they_stay_pivotal_if_the_spread_is_off_by_a_factor_and_the_mean_by_multiples_of_it(name, estimate, how):
    answer = is_pivotal(Normalized(), FAMILIES[name], estimate=HARMLESS[estimate])
    assert (bool(answer), answer.how) == (True, how)


@pytest.mark.parametrize("estimate", HARMFUL)
def test_they_are_not_pivotal_if_the_model_is_wrong_otherwise(estimate, how):
    assert not is_pivotal(Normalized(), NORMAL, estimate=HARMFUL[estimate])


@pytest.mark.parametrize(
    ("name", "how"), covering(product(FAMILIES, SYMPY), with_sympy_or("normal", "rate")), indirect=["how"]
)
def test_the_residual_score_is_not_pivotal(name, how):
    answer = is_pivotal(Residual(), FAMILIES[name])
    assert not answer
    assert answer.difference > 0.3
    assert len(answer.between) == 2
    assert answer.even_at == ()


@pytest.mark.parametrize(
    ("score", "family"),
    [
        (Normalized(), LocationScale(stats.gamma(0.1), "a density without bound")),
        (Standardized(), LocationScale(stats.powerlaw(0.3), "another")),
        (
            Normalized(),
            NORMAL.along(lambda mean, spread: (mean, spread), mean=(0.0, 1e4), spread=(0.001, 1.0)),
        ),
    ],
    ids=["gamma", "power law", "far from 0"],
)
def test_rounding_does_not_change_the_result(score, family, how):
    assert is_pivotal(score, family).how == how


def test_formulas_that_sympy_cannot_handle_are_compared():
    """The step lies beyond all compared spreads, so the members agree."""

    def stepwise(spread):
        return 0.0, spread * (1 + spread // 100)

    family = NORMAL.along(lambda spread: (0.0, spread), spread=(1.0, 2.0))
    answer = is_pivotal(Normalized(), family, estimate=stepwise)
    assert (bool(answer), answer.how) == (True, "compared")


def test_the_residual_score_is_pivotal_if_the_spread_is_constant(how):
    assert is_pivotal(Residual(), NORMAL.along(lambda mean: (mean, 0.7), mean=(-1, 0, 5)))


@pytest.mark.parametrize(
    ("name", "factor", "how"),
    covering(
        product(["normal", "Laplace", "uniform", "triangular", "exponential", "t"], [0.5, 1.0, 2.0], SYMPY),
        lambda name, factor, how: (
            name == "normal"
            or (factor == {"Laplace": 2.0, "uniform": 2.0, "exponential": 0.5}.get(name, 1.0) and how == SYMPY[0])
        ),
    ),
    indirect=["how"],
)
def test_the_interval_score_is_even_at_one_level_only(name, factor, how):
    """At P(|ε| <= λz), for σ wrong by a factor λ. If that is 1, there is no such level."""
    level, family = 0.6, FAMILIES[name]
    answer = is_pivotal(IntervalDistance(), family, level=level, estimate=lambda mean, spread: (mean, factor * spread))
    z = factor * stats.norm.ppf((1 + level) / 2)
    even = family.cdf(z, 0.0, 1.0) - family.cdf(-z, 0.0, 1.0)
    assert not answer
    assert answer.even_at == pytest.approx(() if even > 1 - 1e-9 else (even,), abs=1e-8)
    if even < 1 - 1e-9:
        assert f"At level {even:.6g} the coverage is the same for all members." in str(answer)


@pytest.mark.parametrize("function", [np.sqrt, lambda a: np.minimum(a, 1.5)], ids=["root", "cut"])
def test_a_fixed_function_of_a_pivotal_score_is_pivotal(function):
    assert is_pivotal(lambda y, prediction: function(np.abs(y - prediction.center) / prediction.spread), NORMAL)


def test_a_function_that_is_nearly_pivotal_is_not_pivotal():
    answer = is_pivotal(lambda y, prediction: np.abs(y - prediction.center) / prediction.spread**1.05, NORMAL)
    assert not answer
    assert answer.how == "compared"


@pytest.mark.parametrize(("epsilon", "floor"), [(0.1, 0.0), (1e-7, 0.0), (0.0, 0.8)])
def test_a_score_with_epsilon_or_floor_is_not_pivotal(epsilon, floor, how):
    assert not is_pivotal(Normalized(epsilon=epsilon, floor=floor, scale=1.0), NORMAL)


@pytest.mark.parametrize("estimate", HARMFUL)
def test_the_proof_alone_never_calls_a_wrong_score_pivotal(estimate):
    """The comparison would overrule a wrong proof. Functions that branch on values have no proof."""
    family = NORMAL.along(lambda mean, spread: (mean, spread), mean=(-1.0, 2.0), spread=(0.5, 1.0))
    answer = proof(Normalized(), family, HARMFUL[estimate], 0.9)
    assert answer is None or not answer.pivotal or estimate == "σ wrong at one mean"  # == compares symbols, not values


def test_a_comparison_is_not_called_a_proof():
    """A floor below all compared spreads has no effect on the comparison."""
    answer = is_pivotal(Normalized(floor=0.01, scale=1.0), NORMAL)
    assert (bool(answer), answer.how, answer.members) == (True, "compared", 9)


def test_parameters_may_have_any_name(how):
    """Also the names that the formulas use."""
    for name in ("t", "z", "a", "y"):
        family = NORMAL.along(eval(f"lambda {name}: (0.0 * {name}, {name})"), **{name: (1.0, 2.0)})  # noqa: S307
        assert is_pivotal(IntervalDistance(), family).even_at == pytest.approx((0.9,))


def test_even_levels_are_found_by_proof_and_by_comparison(how):
    wide = is_pivotal(IntervalDistance(), NORMAL, estimate=lambda mean, spread: (mean, spread + 1))
    assert wide.even_at == pytest.approx((0.9,))
    path = NORMAL.along(lambda m: (m, 1 + m * m), m=(0.0, 1.0))
    one_tail = is_pivotal(Standardized(), path, estimate=lambda m: (0.0, 1.0))
    assert one_tail.even_at == pytest.approx((stats.norm.cdf(-1),))


class Disguised(Normalized):
    """A subclass that computes something else."""

    def __call__(self, y, prediction):
        return Residual()(y, prediction)

    def interval(self, threshold, prediction):
        return Residual().interval(threshold, prediction)


def test_a_subclass_does_not_get_the_proof_of_its_parent(how):
    assert not is_pivotal(Disguised(), NORMAL)


@dataclass(frozen=True)
class Plain:
    """Distance from the center, with bounds that are not rounded outward."""

    def __call__(self, y, prediction):
        return np.abs(y - prediction.center)

    def interval(self, threshold, prediction):
        return Intervals(prediction.center - threshold, prediction.center + threshold)


def test_intervals_are_closed_so_discrete_targets_count_at_both_ends():
    """|Y − ½| is ½ for every Bernoulli distribution."""
    bernoulli = Family(lambda p: stats.bernoulli(p), {"p": (0.2, 0.5, 0.8)}, "Bernoulli")
    assert is_pivotal(Plain(), bernoulli, estimate=lambda p: (0.5, 1.0))
    assert not is_pivotal(Plain(), bernoulli, estimate=lambda p: (0.4, 1.0))


@dataclass(frozen=True)
class Squared:
    """A user's score."""

    def __call__(self, y, prediction):
        return ((y - prediction.center) / prediction.spread) ** 2

    def interval(self, threshold, prediction):
        reach = np.sqrt(np.maximum(threshold, 0)) * prediction.spread
        return Intervals(prediction.center - reach, prediction.center + reach)


def test_a_users_score_is_compared_exactly():
    answer = is_pivotal(Squared(), FAMILIES["t"])
    assert answer
    assert answer.difference < 1e-9
    assert not is_pivotal(Squared(), NORMAL, estimate=lambda mean, spread: (mean + 0.01, spread))


def test_estimate_may_return_a_prediction_with_quantiles():
    """The distance from an interval between true quantiles is even at the level between them, for any noise."""

    def quantiles(mean, spread):
        bounds = EXPONENTIAL.quantile(np.array([0.1, 0.9]), mean, spread)
        return Prediction([mean], lower=bounds[:1], upper=bounds[1:], level=0.8)

    answer = is_pivotal(IntervalDistance(), EXPONENTIAL, estimate=quantiles)
    assert answer.even_at == pytest.approx((0.8,), abs=1e-8)


def test_noise_whose_shape_differs_has_no_pivotal_score_of_center_and_spread():
    gamma = Family(lambda shape: stats.gamma(shape), {"shape": (1, 2, 5)}, "gamma")
    assert not any(is_pivotal(score, gamma) for score in (Residual(), Normalized(), Standardized(), IntervalDistance()))


@dataclass
class Modes:
    """Two modes at -1 and 1, each with the same spread."""

    within: float

    def mixture(self):
        return Mixture(
            [AdditiveNoise(lambda X, m=m: np.full(len(X), m), lambda X: np.full(len(X), self.within)) for m in (-1, 1)]
        )

    def cdf(self, y):
        return self.mixture().cdf(np.asarray(y), np.zeros((np.size(y), 1)))

    def ppf(self, p):
        return self.mixture().quantile(p, np.zeros((len(p), 1)))

    def mean(self):
        return 0.0

    def std(self):
        return np.sqrt(1 + self.within**2)


def test_mixtures_have_no_pivotal_normalised_score(monkeypatch):
    monkeypatch.setattr(pivotality, "_GRID", 60)
    answer = is_pivotal(Normalized(), Family(Modes, {"within": (0.1, 1.0)}, "two modes"))
    assert not answer
    assert answer.difference > 0.1


@pytest.mark.parametrize(
    ("name", "score", "how"),
    covering(product(FAMILIES, [RelativeIntervalDistance(), ProbabilityDistance()], SYMPY), with_sympy_or("normal")),
    indirect=["how"],
    ids=repr,
)
def test_relative_distances_and_distances_in_probability_are_pivotal_for_location_scale_families(name, score, how):
    """With bounds center ± z spread and with the true distribution, for every noise."""
    answer = is_pivotal(score, FAMILIES[name])
    assert answer
    assert answer.how == how


SCALED = [Normalized(), RelativeIntervalDistance(), ProbabilityDistance()]
ONE_OF_THEM = dict(zip([*HARMLESS, *HARMFUL], cycle(SCALED), strict=False))  # for each estimate


@pytest.mark.parametrize(
    ("score", "estimate", "how"),
    covering(product(SCALED, ONE_OF_THEM, SYMPY), lambda score, estimate, how: score == ONE_OF_THEM[estimate]),
    indirect=["how"],
    ids=repr,
)
def test_a_wrong_center_and_spread_harm_them_as_they_harm_the_normalised_score(score, estimate, how):
    """A center and a spread are a normal distribution; the noise here is not normal."""
    answer = is_pivotal(score, EXPONENTIAL, estimate=(HARMLESS | HARMFUL)[estimate])
    assert bool(answer) is (estimate in HARMLESS)


@pytest.mark.parametrize(
    ("name", "score", "side", "how"),
    covering(
        product(["normal", "exponential"], [*SCALED, Residual(), IntervalDistance()], ["lower", "upper"], SYMPY),
        lambda name, score, side, how: how == SYMPY[0] or (name == "exponential" and side == "upper"),
    ),
    indirect=["how"],
    ids=repr,
)
def test_one_tail_of_a_score_is_pivotal_if_the_score_is(name, score, side, how):
    answer = is_pivotal(OneSided(score, side=side), FAMILIES[name])
    pivotal = score in SCALED
    assert (bool(answer), answer.how) == (pivotal, how if pivotal else "compared")


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_each_end_of_the_bounds_is_even_at_the_probability_beyond_it(side):
    answer = is_pivotal(OneSided(IntervalDistance(), side=side), NORMAL, level=0.8)
    assert answer.even_at == pytest.approx((0.9,), abs=1e-8)


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_one_tail_of_the_distance_in_probability_is_pivotal_for_every_continuous_family(side):
    gamma = Family(lambda shape: stats.gamma(shape), {"shape": (1, 2, 5)}, "gamma")
    assert is_pivotal(OneSided(ProbabilityDistance(), side=side), gamma)
    assert not is_pivotal(OneSided(Normalized(), side=side), gamma)
    assert not is_pivotal(
        OneSided(ProbabilityDistance(), side=side), gamma, estimate=lambda shape: stats.gamma(1.1 * shape)
    )


def test_limits_of_the_target_leave_the_distance_in_probability_pivotal():
    """All targets are positive, so the limit changes nothing; the true distribution is used inside both wrappers."""
    gamma = Family(lambda shape: stats.gamma(shape), {"shape": (1, 2, 5)}, "gamma")
    for score in (ProbabilityDistance(), OneSided(ProbabilityDistance())):
        assert is_pivotal(Bounded(score, y_min=0.0), gamma)
    assert not is_pivotal(Bounded(Normalized(), y_min=0.0), gamma)


def test_a_floor_of_the_width_is_not_proved():
    assert is_pivotal(RelativeIntervalDistance(floor=1e-3, scale=1.0), NORMAL).how == "compared"
    assert not is_pivotal(RelativeIntervalDistance(floor=5.0, scale=1.0), NORMAL)


SHAPES = {
    "gamma": Family(lambda shape: stats.gamma(shape), {"shape": (0.3, 1, 2, 5)}, "gamma"),
    "lognormal": Family(lambda s: stats.lognorm(s), {"s": (0.2, 1, 2)}, "lognormal"),
    "beta": Family(lambda a, b: stats.beta(a, b), {"a": (0.5, 1, 3), "b": (1, 4)}, "beta"),
    "normal, far from 0": Family(lambda mean: stats.norm(mean, 0.001), {"mean": (1, 1e4)}, "normal"),
    "Cauchy": Family(lambda where, scale: stats.cauchy(where, scale), {"where": (0, 2), "scale": (1, 3)}, "Cauchy"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_distance_in_probability_is_pivotal_for_every_continuous_family(name):
    """With the true distribution, also if the shape of the noise differs and if there is no mean."""
    answer = is_pivotal(ProbabilityDistance(), SHAPES[name])
    assert (bool(answer), answer.how) == (True, "compared")
    assert answer.difference < 1e-9


def test_the_distance_in_probability_is_not_pivotal_if_the_distribution_is_wrong():
    gamma = SHAPES["gamma"]
    for wrong in (1.1, 1.001):
        answer = is_pivotal(
            ProbabilityDistance(), gamma, estimate=lambda shape, wrong=wrong: stats.gamma(wrong * shape)
        )
        assert not answer
        assert answer.difference > 0.02 * (wrong - 1)
    assert not is_pivotal(ProbabilityDistance(), gamma, estimate=lambda shape: (shape, shape**0.5))  # a normal one


def test_the_distance_in_probability_stays_pivotal_if_the_probabilities_are_wrong_in_the_same_way():
    """The model's quantile at p is the true one at the square root of p, in every row: one threshold corrects it."""

    @dataclass
    class TooHigh:
        shape: float

        def ppf(self, p):
            return stats.gamma(self.shape).ppf(np.sqrt(p))

    assert is_pivotal(ProbabilityDistance(), SHAPES["gamma"], estimate=TooHigh)


def test_with_few_quantiles_it_is_even_at_their_levels_and_not_everywhere():
    """Between them a prediction interpolates, which is an error that one threshold does not correct."""
    probabilities = np.array([0.05, 0.25, 0.5, 0.75, 0.95])

    def few(shape):
        return Prediction(quantiles=[stats.gamma(shape).ppf(probabilities)], probabilities=probabilities)

    family = Family(lambda shape: stats.gamma(shape), {"shape": (1, 3)}, "gamma")
    answer = is_pivotal(ProbabilityDistance(), family, estimate=few)
    assert not answer
    assert min(abs(level - 0.9) for level in answer.even_at) < 1e-8


@pytest.mark.parametrize(
    "family",
    [
        Family(lambda mu: stats.poisson(mu), {"mu": (2, 5)}, "Poisson"),
        Family(lambda mu: stats.poisson(mu), {"mu": (200, 500)}, "Poisson with large counts"),
        Family(lambda p: stats.bernoulli(p), {"p": (0.2, 0.5)}, "Bernoulli"),
    ],
    ids=repr,
)
def test_no_distance_in_probability_is_pivotal_for_discrete_targets(family):
    """F jumps, by another amount in each member. No level is even for all members."""
    answer = is_pivotal(ProbabilityDistance(), family)
    assert not answer
    assert answer.even_at == ()


def test_distances_from_the_bounds_of_a_true_distribution_are_even_at_their_level():
    for score in (IntervalDistance(), RelativeIntervalDistance()):
        answer = is_pivotal(score, SHAPES["gamma"], level=0.8, estimate=lambda shape: stats.gamma(shape))
        assert not answer
        assert answer.even_at == pytest.approx((0.8,), abs=1e-8)


# The paper's conditions on symbolic expressions.

y, mu, a = sympy.symbols("y mu a", real=True)
sigma, lam, shape, scale = sympy.symbols("sigma lambda shape scale", positive=True)
STANDARD = (y - mu) / sigma
DENSITIES = {
    "normal": sympy.exp(-(STANDARD**2) / 2) / (sigma * sympy.sqrt(2 * sympy.pi)),
    "Laplace": sympy.exp(-sympy.sqrt(2) * sympy.Abs(STANDARD)) / (sigma * sympy.sqrt(2)),
    "logistic": sympy.exp(-STANDARD) / (sigma * (1 + sympy.exp(-STANDARD)) ** 2),
    "any": sympy.Function("g")(STANDARD) / sigma,
}


@cache
def location_scale(name):
    """Return the family of a density; each is checked by integrals when it is made."""
    return SymbolicFamily(y, (mu, sigma), density=DENSITIES[name])


@pytest.mark.parametrize("name", DENSITIES)
def test_location_scale_densities_solve_the_papers_two_equations(name):
    assert standardization_system(DENSITIES[name], y, mu, sigma) == (0, 0)


@pytest.mark.parametrize(
    "density",
    [
        DENSITIES["normal"] / sigma,  # not normalised
        DENSITIES["normal"].subs(sigma, sigma**2),
        DENSITIES["normal"].subs(mu, 2 * mu),
        sympy.exp(-y / mu) / mu,
    ],
)
def test_other_densities_do_not(density):
    assert standardization_system(density, y, mu, sigma) != (0, 0)


def test_the_two_equations_have_no_other_solution():
    """∂(σ f̃)/∂σ = 0 has only the solutions g(a)/σ."""
    f = sympy.Function("f")
    solution = sympy.dsolve(sympy.diff(sigma * f(sigma), sigma), f(sigma))
    assert solution.rhs == sympy.Symbol("C1") / sigma


@pytest.mark.parametrize(
    ("name", "score", "pivotal"),
    [
        *((name, STANDARD, True) for name in ("normal", "logistic")),
        ("logistic", sympy.exp(STANDARD), True),
        ("normal", y - mu, False),
        pytest.param("normal", sympy.exp(STANDARD), True, marks=pytest.mark.slow),
        pytest.param("logistic", y - mu, False, marks=pytest.mark.slow),
    ],
)
def test_the_condition_on_the_density_decides_increasing_scores(name, score, pivotal):
    assert bool(is_pivotal(score, location_scale(name))) is pivotal


@pytest.mark.parametrize(
    "score",
    [
        STANDARD**3,
        sympy.atan(STANDARD),
        -STANDARD,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (STANDARD**3 + STANDARD, sympy.sinh(STANDARD))),
    ],
)
def test_any_monotone_function_of_the_standardised_score_is_proved_pivotal(score):
    assert is_pivotal(score, location_scale("normal"))


def test_a_monotone_score_of_a_positive_target_may_have_any_sign():
    t = sympy.Symbol("t", positive=True)
    exponential = SymbolicFamily(t, scale, cdf=1 - sympy.exp(-t / scale))
    assert is_pivotal(-scale / t, exponential)
    assert is_pivotal(sympy.log(t) - sympy.log(scale), exponential)
    lopsided = SymbolicFamily(t, scale, cdf=sympy.Piecewise((t ** (1 / scale) / 2, t < 1), (1 - 1 / (2 * t), True)))
    assert not is_pivotal(sympy.log(t), lopsided)


@pytest.mark.parametrize("depends", [True, False])
def test_a_density_proves_nothing_if_the_range_of_scores_depends_on_the_parameter(depends):
    """The condition on the density holds point by point only; the condition on the cdf is exact."""
    t = sympy.Symbol("t", positive=True)
    survival = sympy.exp(-t / scale)
    score = survival + scale if depends else survival
    by_density = SymbolicFamily(t, scale, density=survival / scale)
    by_cdf = SymbolicFamily(t, scale, cdf=1 - survival)
    assert bool(is_pivotal(score, by_cdf)) is not depends
    if depends:
        with pytest.raises(ValueError, match="SymPy cannot decide"):
            is_pivotal(score, by_density)
    else:
        assert is_pivotal(score, by_density)


def test_a_density_with_a_distant_peak_at_some_parameters_is_accepted():
    far = DENSITIES["normal"].subs(mu, mu**7)
    assert is_pivotal((y - mu**7) / sigma, SymbolicFamily(y, (mu, sigma), density=far))


def test_a_support_that_depends_on_the_parameter_is_handled_by_the_cdf():
    theta = sympy.Symbol("theta", real=True)
    sliding = sympy.Piecewise((0, y < theta), (y - theta, y < theta + 1), (1, True))
    assert not is_pivotal(y, SymbolicFamily(y, theta, cdf=sliding))
    assert is_pivotal(y - theta, SymbolicFamily(y, theta, cdf=sliding))


def test_the_derivative_must_be_total():
    """Without the dependence of g on θ, the condition would not hold for the standardised normal score."""
    inverse = mu + a * sigma
    partial = sympy.diff(inverse, a) * sympy.diff(DENSITIES["normal"], mu).subs(y, inverse)
    partial += DENSITIES["normal"].subs(y, inverse) * sympy.diff(inverse, a, mu)
    assert sympy.simplify(partial) != 0
    assert pivotality_condition(STANDARD, location_scale("normal")) == (0, 0)


PIECEWISE = {  # cdfs with corners, where the densities jump
    "uniform": (
        SymbolicFamily(
            y, (mu, sigma), cdf=sympy.Min(sympy.Max(STANDARD / (2 * sympy.sqrt(3)) + sympy.Rational(1, 2), 0), 1)
        ),
        STANDARD,
        y - mu,
    ),
    "triangular": (
        SymbolicFamily(y, (lam,), cdf=sympy.Piecewise((0, y < 0), ((y / lam) ** 2, y < lam), (1, True))),
        (y - 2 * lam / 3) / (lam / (3 * sympy.sqrt(2))),
        y - 2 * lam / 3,
    ),
    "exponential": (
        SymbolicFamily(y, (lam,), cdf=sympy.Piecewise((0, y < 0), (1 - sympy.exp(-y / lam), True))),
        (y - lam) / lam,
        y - lam,
    ),
}


@pytest.mark.parametrize("name", PIECEWISE)
def test_the_condition_on_the_cdf_works_for_densities_with_jumps(name):
    family, standardised, residual = PIECEWISE[name]
    assert is_pivotal(standardised, family)
    assert not is_pivotal(residual, family)


def test_families_beyond_location_and_scale():
    t = sympy.Symbol("t", positive=True)
    weibull = SymbolicFamily(t, (shape, scale), cdf=1 - sympy.exp(-((t / scale) ** shape)))
    assert is_pivotal((t / scale) ** shape, weibull)
    assert is_pivotal(weibull.cdf, weibull)
    answer = is_pivotal(t / scale, weibull)
    assert not answer
    assert str(answer) == "Not pivotal (proved)."


def test_density_and_cdf_give_the_same_results():
    t = sympy.Symbol("t", positive=True)
    cdf = 1 - sympy.exp(-((t / scale) ** shape))
    by_density = SymbolicFamily(t, (shape, scale), density=sympy.diff(cdf, t))
    assert is_pivotal((t / scale) ** shape, by_density)
    assert not is_pivotal(t / scale, by_density)
