"""Bad input to `theory`, `synthetic` and `reproduction`: one clear error each."""

import re
from pathlib import Path

import numpy as np
import pytest
import sympy
from scipy import stats

from evencover import Intervals, Normalized, Prediction, Residual
from evencover.reproduction.claims import claims
from evencover.reproduction.coverage_tables import repeated
from evencover.reproduction.paper_figures import write_figures
from evencover.reproduction.simulation import Design, count_coverage
from evencover.synthetic import (
    AdditiveNoise,
    Mixture,
    NoisyCenter,
    NoisySpread,
    NoisyVariance,
    NormalFeatures,
    ParametricDistribution,
    ScaledSpread,
    ShiftedCenter,
    SyntheticData,
    TwoModeFeatures,
    UniformFeatures,
    homoskedastic,
    low_dimensional,
    misspecified,
    toy,
)
from evencover.theory import NORMAL, Family, LocationScale, SymbolicFamily, is_pivotal, pivotality_condition

y, mu = sympy.symbols("y mu", real=True)
sigma = sympy.Symbol("sigma", positive=True)
SYMBOLIC = SymbolicFamily(
    y, (mu, sigma), density=sympy.exp(-(((y - mu) / sigma) ** 2) / 2) / (sigma * sympy.sqrt(2 * sympy.pi))
)
ORACLE = Prediction(np.zeros(3), np.ones(3))


class Pair(Residual):
    """A score whose `interval` returns a tuple instead of Intervals."""

    def interval(self, threshold, prediction):
        return prediction.center - threshold, prediction.center + threshold


class Short(AdditiveNoise):
    """A distribution that draws too few targets."""

    def __init__(self):
        super().__init__(lambda X: 0.0, lambda X: 1.0)

    def sample(self, X, rng):
        return np.zeros(3)


def parametric(family, parameters):
    """Draw from synthetic data whose distribution has these parameters."""
    return SyntheticData("w", UniformFeatures(2), ParametricDistribution(family, parameters)).sample(5)


class Few:
    """Features that draw too few rows."""

    def draw(self, n, rng):
        return np.ones((3, 5))


CASES = {
    # families
    "noise, no distribution": (
        lambda: LocationScale(3),
        "noise must be one of SciPy's classic continuous distributions, such as scipy.stats.t(5); got 3, which has no pdf",
    ),
    "noise, discrete": (lambda: LocationScale(stats.poisson(3)), "which has no pdf"),
    "noise, open shapes": (
        lambda: LocationScale(stats.t),
        "noise must have fixed shape parameters, such as scipy.stats.t(5)",
    ),
    "noise, no moments": (
        lambda: LocationScale(stats.cauchy()),
        "the noise distribution must have a finite mean; got nan. For noise without a mean or variance, pass location= and "
        "scale= yourself",
    ),
    "noise, no variance": (
        lambda: LocationScale(stats.t(2)),
        "the noise distribution must have a finite standard deviation; got inf",
    ),
    "noise, scale 0": (
        lambda: LocationScale(stats.cauchy(), location=0, scale=0),
        "scale must be a positive finite number; got 0",
    ),
    "noise, location of its own": (
        lambda: LocationScale(stats.expon(), location=0.0),
        "location must be left out for noise with a finite mean; this noise has 1",
    ),
    "family, list": (
        lambda: Family(stats.gamma, [1, 2]),
        "values must be a dict from parameter names to sequences of numbers, such as {'shape': (1, 2)}; got [1, 2]",
    ),
    "family, open shapes": (
        lambda: is_pivotal(Residual(), Family(lambda a: stats.gamma, {"a": (1, 2)})),
        "distribution must return a distribution with fixed shape parameters",
    ),
    "family, spread": (
        lambda: is_pivotal(Residual(), NORMAL.along(lambda m: (m, m), m=(-1.0, 2.0))),
        "spread must be positive at all values of the parameters; got -1.0 for the parameters {'m': -1.0}",
    ),
    "family, no moments": (
        lambda: is_pivotal(Residual(), Family(stats.cauchy, {"loc": (1, 2)})),
        "has no finite mean or no finite standard deviation; pass estimate=",
    ),
    "symbolic family, both": (
        lambda: SymbolicFamily(y, mu, density=y * mu, cdf=y * mu),
        "a symbolic family must have density= or cdf=; got both",
    ),
    "symbolic family, text": (
        lambda: SymbolicFamily(y, mu, cdf="y - mu"),
        "cdf must be a SymPy expression; got 'y - mu'",
    ),
    "symbolic family, unused": (
        lambda: SymbolicFamily(y, (mu, sigma), cdf=y - mu),
        "cdf must contain the symbols of the target and of every parameter (equal names and assumptions); got cdf=-mu + y, which does not contain sigma",
    ),
    "symbolic family, no parameter": (lambda: SymbolicFamily(y, (), cdf=y + 0), "does not contain a parameter"),
    "symbolic family, no density": (
        lambda: SymbolicFamily(y, sigma, density=2 * y / sigma**2),
        "density must integrate to 1 over all y; the integral of 2*y/sigma**2 is",
    ),
    "family, other names": (
        lambda: Family(lambda a: stats.gamma(a), {"shape": (1, 2)}),
        "the arguments of distribution must have the names of the family's parameters, (shape); got (a)",
    ),
    "path, other names": (
        lambda: NORMAL.along(lambda m: (m, 1.0), mean=(1.0, 2.0)),
        "the arguments of moments must have the names of the family's parameters, (mean); got (m)",
    ),
    "path, one number": (
        lambda: is_pivotal(Residual(), NORMAL.along(lambda m: m, m=(1.0, 2.0))),
        "moments must return a pair (mean, spread); got 1.0",
    ),
    "symbolic family, jumps": (
        lambda: SymbolicFamily(y, mu, density=sympy.Piecewise((1, y > mu), (0, True))),
        "density must be smooth; got Piecewise((1, mu < y), (0, True)). Pass cdf= instead",
    ),
    "family, one value": (
        lambda: Family(stats.gamma, {"a": [1.0]}),
        "each with two or more different values; got {'a': [1.0]}",
    ),
    "family, no parameter": (lambda: Family(stats.gamma, {}), "values must contain one parameter or more"),
    "family, NaN": (
        lambda: Family(stats.gamma, {"a": [1.0, np.nan]}),
        "values of a must be finite; NaN or infinite values: 1 of 2",
    ),
    "symbolic family, empty": (
        lambda: SymbolicFamily(y, (mu,)),
        "a symbolic family must have density= or cdf=; got neither",
    ),
    # is_pivotal
    "family, other": (
        lambda: is_pivotal(Residual(), stats.norm()),
        "family must be a LocationScale, a Family or a SymbolicFamily; got rv_continuous_frozen",
    ),
    "score, other": (
        lambda: is_pivotal("residual", NORMAL),
        "score must be a score, such as Normalized(), or a function of (y, prediction); got 'residual'",
    ),
    "score, class": (
        lambda: is_pivotal(Normalized, NORMAL),
        "score must be a score, such as Normalized(), not the class itself; got",
    ),
    "score, expression missing": (
        lambda: is_pivotal(Residual(), SYMBOLIC),
        "score must be a SymPy expression for a SymbolicFamily; got Residual",
    ),
    "score, expression elsewhere": (
        lambda: is_pivotal((y - mu) / sigma, NORMAL),
        "family must be a SymbolicFamily if the score is a SymPy expression; got the score",
    ),
    "score, two solutions": (
        lambda: pivotality_condition((y - mu) ** 2, SYMBOLIC),
        "score must be monotone in y; the slope of (-mu + y)**2 is between",
    ),
    "score, turns far out": (
        lambda: pivotality_condition((y - 20) ** 2 / mu**2, SYMBOLIC),
        "score must be monotone in y; the slope of",
    ),
    "score, unknown symbol": (
        lambda: pivotality_condition(y - sympy.Symbol("tau"), SYMBOLIC),
        "score must contain only y and the family's parameters; got -tau + y. Not parameters of the family: tau",
    ),
    "score, not real": (
        lambda: pivotality_condition(sympy.I * y, SYMBOLIC),
        "score must be monotone in y; the slope of I*y is not real",
    ),
    "score, NaN": (
        lambda: is_pivotal(lambda y, prediction: y * np.nan, NORMAL),
        "the score's values must be free of NaN; NaN values: 10000 of 10000",
    ),
    "score, too few": (
        lambda: is_pivotal(lambda y, prediction: y[:3], NORMAL),
        "the score's values must have 10000 rows",
    ),
    "score, interval": (lambda: is_pivotal(Pair(), NORMAL), "Pair.interval must return Intervals; got tuple"),
    "estimate, no function": (
        lambda: is_pivotal(Residual(), NORMAL, estimate=(0, 1)),
        "estimate must be a function of the family's parameters; got (0, 1)",
    ),
    "estimate, two rows": (
        lambda: is_pivotal(Residual(), NORMAL, estimate=lambda mean, spread: ORACLE),
        "estimate must return a pair (center, spread), a distribution with a method ppf or a Prediction of one row; got Prediction(3 rows",
    ),
    "estimate, symbolic": (
        lambda: is_pivotal((y - mu) / sigma, SYMBOLIC, estimate=lambda: 0),
        "estimate must be left out for a SymbolicFamily",
    ),
    "score, without y": (lambda: pivotality_condition(mu, SYMBOLIC), "score must depend on y; got mu"),
    "estimate, one number": (
        lambda: is_pivotal(Residual(), NORMAL, estimate=lambda mean, spread: 3),
        "estimate must return a pair (center, spread), a distribution with a method ppf or a Prediction of one row; got 3",
    ),
    "estimate, negative spread": (
        lambda: is_pivotal(Normalized(), NORMAL, estimate=lambda mean, spread: (mean, spread - 4)),
        "estimate must return a finite center and a positive spread; it returned (",
    ),
    "estimate, other names": (
        lambda: is_pivotal(Residual(), NORMAL, estimate=lambda mu, sigma: (mu, sigma)),
        "the arguments of estimate must have the names of the family's parameters, (mean, spread)",
    ),
    "level 90": (lambda: is_pivotal(Normalized(), NORMAL, level=90), "did you mean 0.9?"),
    "level 90, symbolic": (lambda: is_pivotal((y - mu) / sigma, SYMBOLIC, level=90), "did you mean 0.9?"),
    # synthetic data
    "n": (lambda: toy().sample(0), "n must be a positive whole number; got 0"),
    "seed, text": (
        lambda: toy().sample(3, seed="a"),
        "seed must be a whole number, 0 or more, or a numpy random generator; got 'a'",
    ),
    "seed, negative": (lambda: toy().sample(3, seed=-1), "seed must be a whole number, 0 or more"),
    "coverage, other rows": (
        lambda: toy().coverage(Intervals(np.zeros(3), np.ones(3)), np.ones((4, 5))),
        "X must have 3 rows, as many as the intervals; got 4",
    ),
    "mixture, weights": (
        lambda: Mixture([toy().distribution] * 2, [0.5, 0.6]),
        "weights must be positive with sum 1; got [0.5, 0.6]",
    ),
    "mixture, too many weights": (
        lambda: Mixture([toy().distribution] * 2, [0.5, 0.2, 0.3]),
        "weights must have 2 rows",
    ),
    "mixture, empty": (lambda: Mixture([]), "components must be a sequence of one distribution or more; got list"),
    "mixture, no sequence": (
        lambda: Mixture(toy().distribution, toy().distribution),
        "components must be a sequence of one distribution or more; got AdditiveNoise",
    ),
    "noise, SciPy distribution": (
        lambda: low_dimensional(stats.t(4)),
        "noise must be a LocationScale, such as evencover.theory.LAPLACE or LocationScale(scipy.stats.t(5)); got",
    ),
    "noise, number of rows": (lambda: homoskedastic(1000), "noise must be a LocationScale"),
    "distribution, number": (
        lambda: AdditiveNoise(lambda X: X[:, 0], 1.0),
        "spread must be a function of X, shape (n, features); got 1.0",
    ),
    "distribution, shape": (
        lambda: SyntheticData("w", UniformFeatures(2), AdditiveNoise(lambda X: X, lambda X: 1.0)).sample(5),
        "mean must return one number per row, shape (5,); got shape (5, 2)",
    ),
    "distribution, spread": (
        lambda: SyntheticData("w", UniformFeatures(2), AdditiveNoise(lambda X: 0.0, lambda X: -X[:, 0])).sample(5),
        "spread must be positive; got 0 or less in 5 of 5 rows",
    ),
    "family, frozen": (
        lambda: ParametricDistribution(stats.gamma(2.0), lambda X: {}),
        "family must be one of SciPy's classic distributions without parameters, such as scipy.stats.gamma; got",
    ),
    "family, parameters as dict": (
        lambda: ParametricDistribution(stats.gamma, {"a": 2.0}),
        "parameters must be a function of X, shape (n, features); got {'a': 2.0}",
    ),
    "family, parameters as array": (
        lambda: parametric(stats.gamma, lambda X: X[:, 0]),
        "parameters must return a dict from names to values; got array(",
    ),
    "family, unknown parameter": (
        lambda: parametric(stats.gamma, lambda X: {"b": X[:, 0]}),
        "parameters must return the parameters of scipy.stats.gamma; got the names b (",
    ),
    "family, parameter of other shape": (
        lambda: parametric(stats.gamma, lambda X: {"a": X}),
        "the parameter a must return one number per row, shape (5,); got shape (5, 2)",
    ),
    "family, parameter out of range": (
        lambda: parametric(stats.poisson, lambda X: {"mu": -X[:, 0]}),
        "parameters must be in the range of scipy.stats.poisson; they are outside in 5 of 5 rows",
    ),
    "family, parameter NaN": (
        lambda: parametric(stats.poisson, lambda X: {"mu": np.nan}),
        "the parameter mu must be finite; NaN or infinite values: 5 of 5",
    ),
    "synthetic data, order of arguments": (
        lambda: SyntheticData(UniformFeatures(2), toy().distribution, "w"),
        "features must be an object with a draw(n, rng) method; got AdditiveNoise(",
    ),
    "synthetic data, class": (
        lambda: SyntheticData("w", UniformFeatures, toy().distribution),
        "features must be an object with a draw(n, rng) method; got <class",
    ),
    "synthetic data, SciPy distribution": (
        lambda: SyntheticData("w", UniformFeatures(1), stats.norm()),
        "distribution must be an object with the methods of ConditionalDistribution; got",
    ),
    "mixture, text": (
        lambda: Mixture("ab"),
        "each component must be an object with the methods of ConditionalDistribution; got 'a', which has no mean",
    ),
    "distribution, too few rows": (
        lambda: SyntheticData("w", UniformFeatures(1), Short()).sample(5),
        "the distribution's sample must have 5 rows, as many as the features; got 3",
    ),
    "features, too few": (
        lambda: SyntheticData("w", Few(), toy().distribution).sample(5),
        "features must draw 5 rows; got 3",
    ),
    "X, one-dimensional": (lambda: toy().oracle(np.ones(5)), "X must have shape (n, features); got shape (5,)"),
    "X, NaN": (lambda: toy().oracle(np.full((2, 5), np.nan)), "X must be finite; NaN or infinite values: 10 of 10"),
    "probabilities, percent": (
        lambda: toy().oracle_distribution(np.ones((2, 5)), probabilities=[10, 50, 90]),
        "probabilities must lie strictly between 0 and 1; got [10.0, 50.0, 90.0]",
    ),
    "probabilities, order": (
        lambda: toy().oracle_distribution(np.ones((2, 5)), probabilities=[0.9, 0.1]),
        "probabilities must be two or more numbers in increasing order; got [0.9, 0.1]",
    ),
    "intervals, pair": (
        lambda: toy().coverage((0, 1), np.ones((4, 5))),
        "intervals must be Intervals, such as Intervals(lower, upper); got tuple",
    ),
    "features, none": (lambda: UniformFeatures(0), "n_features must be a positive whole number; got 0"),
    "features, range": (
        lambda: TwoModeFeatures(2, 5.0, 1.0),
        "low and high must be finite numbers, low below high; got 5.0 and 1.0",
    ),
    "features, variance": (lambda: NormalFeatures(2, -1.0), "variance must be a positive finite number; got -1.0"),
    # misspecification
    **{
        f"{kind.__name__}, {value}": (
            lambda kind=kind, value=value: kind(value),
            f"must be a positive finite number; got {value!r}",
        )
        for kind in (NoisySpread, NoisyVariance, NoisyCenter, ScaledSpread)
        for value in (0, -1.0, np.inf, "a")
    },
    "shift, NaN": (lambda: ShiftedCenter(np.nan), "'by' (the number to add) must be a finite number; got nan"),
    "no spread": (
        lambda: misspecified(Prediction([1.0]), ScaledSpread(2.0)),
        "misspecified() needs a prediction with a spread",
    ),
    "misspecification, class": (
        lambda: misspecified(ORACLE, ScaledSpread),
        "misspecifications must be functions of (center, spread, generator) or objects such as ScaledSpread(2.0); got",
    ),
    "misspecification, no pair": (
        lambda: misspecified(ORACLE, lambda c, s, rng: c),
        "a misspecification must return a pair (center, spread);",
    ),
    "misspecification, fewer rows": (
        lambda: misspecified(ORACLE, lambda c, s, rng: (c[:1], s[:1])),
        "must have 3 rows, as many as before; got 1",
    ),
    "misspecification, negative": (
        lambda: misspecified(ORACLE, lambda c, s, rng: (c, -s)),
        "must not be negative; negative values: 3 of 3",
    ),
    "misspecified, no prediction": (
        lambda: misspecified(toy().sample(3), ScaledSpread(2.0)),
        "prediction must be a Prediction, such as sample.oracle(); got Sample",
    ),
    "misspecified, seed": (
        lambda: misspecified(ORACLE, NoisySpread(1.0), seed=1.5),
        "seed must be a whole number, 0 or more",
    ),
    # reproduction
    "repeats of tables": (lambda: repeated(0), "repeats must be a whole number, 2 or more"),
    "design, too few rows": (
        lambda: Design(5, 5),
        "n_calibration must be large enough for a threshold at level 0.9; got 5",
    ),
    "design, no test": (lambda: Design(50, 0), "n_test must be a positive whole number; got 0"),
    "design, level": (lambda: Design(level=90), "did you mean 0.9?"),
    "counts, none": (
        lambda: count_coverage(Residual(), np.ones(0), ORACLE[:0], design=Design(9, 1)),
        "y must contain complete repeats of 10 rows; got 0 rows",
    ),
    "counts, by": (
        lambda: count_coverage(Residual(), np.ones(3), ORACLE, design=Design(2, 1, 0.5), by=np.ones(2)),
        "'by' (the values that define the groups) must have 3 rows, as many as y; got 2",
    ),
    "counts, rows": (
        lambda: count_coverage(Residual(), np.ones(3), ORACLE, design=Design(9, 1)),
        "y must contain complete repeats of 10 rows; got 3 rows",
    ),
    "repeats of claims": (
        lambda: next(claims(repeats=1)),
        "repeats must be a whole number, 2 or more, for a standard error; got 1",
    ),
    "generator for claims": (
        lambda: next(claims(repeats=2, seed=np.random.default_rng(0))),
        "seed must be a whole number, 0 or more; got Generator",
    ),
    "seed of claims": (lambda: next(claims(repeats=2, seed=-3)), "seed must be a whole number, 0 or more"),
    "repeats of figures": (
        lambda: next(write_figures(Path("unused"), repeats=1)),
        "repeats must be a whole number, 2 or more",
    ),
    "output is a file": (lambda: next(write_figures(Path(__file__))), "output must be a folder; "),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_one_clear_error(case):
    call, message = CASES[case]
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        call()
