"""Bad input to theory, worlds and experiments: one clear error each."""

import re
from pathlib import Path

import numpy as np
import pytest
import sympy
from scipy import stats

from evencover import Intervals, Normalized, Prediction, Residual, is_pivotal
from evencover.experiments.claims import claims
from evencover.experiments.figures import write_figures
from evencover.experiments.tables import repeated
from evencover.synthetic import (
    Mixture,
    NoisyCenter,
    NoisySpread,
    NoisyVariance,
    ScaledSpread,
    ShiftedCenter,
    misspecified,
    toy,
)
from evencover.theory import NORMAL, Family, LocationScale, SymbolicFamily, pivotality_condition

y, mu = sympy.symbols("y mu", real=True)
sigma = sympy.Symbol("sigma", positive=True)
SYMBOLIC = SymbolicFamily(
    y, (mu, sigma), density=sympy.exp(-(((y - mu) / sigma) ** 2) / 2) / (sigma * sympy.sqrt(2 * sympy.pi))
)
ORACLE = Prediction(np.zeros(3), np.ones(3))
CASES = {
    # families
    "noise, no distribution": (
        lambda: LocationScale(3),
        "noise must be a continuous SciPy distribution, such as scipy.stats.t(5); got 3, which has no pdf",
    ),
    "noise, discrete": (lambda: LocationScale(stats.poisson(3)), "which has no pdf"),
    "noise, open shapes": (lambda: LocationScale(stats.t), "noise must have its shapes fixed, as scipy.stats.t(5) has"),
    "noise, no moments": (
        lambda: LocationScale(stats.cauchy()),
        "location must be a finite number; got nan. Noise without a mean or variance needs location= and scale=",
    ),
    "noise, no variance": (lambda: LocationScale(stats.t(2)), "scale must be a positive finite number; got inf"),
    "noise, scale 0": (lambda: LocationScale(stats.norm(), scale=0), "scale must be a positive finite number; got 0"),
    "family, one value": (
        lambda: Family(stats.gamma, {"a": [1.0]}),
        "with two or more different values each; got {'a': [1.0]}",
    ),
    "family, no parameter": (lambda: Family(stats.gamma, {}), "a family needs one parameter or more"),
    "family, NaN": (
        lambda: Family(stats.gamma, {"a": [1.0, np.nan]}),
        "values of a must be finite; 1 of 2 values are NaN or infinite",
    ),
    "symbolic family, empty": (
        lambda: SymbolicFamily(y, (mu,)),
        "a symbolic family needs density= or cdf=; got neither",
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
        "score must be a SymPy expression for a SymbolicFamily",
    ),
    "score, expression elsewhere": (
        lambda: is_pivotal((y - mu) / sigma, NORMAL),
        "a SymPy expression goes with a SymbolicFamily",
    ),
    "score, two solutions": (
        lambda: pivotality_condition((y - mu) ** 2, SYMBOLIC),
        "score must increase in y, so that one target has each score; (-mu + y)**2 = _a has 2 solutions",
    ),
    "score, without y": (lambda: pivotality_condition(mu, SYMBOLIC), "score must depend on y; got mu"),
    "estimate, one number": (
        lambda: is_pivotal(Residual(), NORMAL, estimate=lambda mean, spread: 3),
        "estimate must return a pair (center, spread) or a Prediction; got 3",
    ),
    "estimate, negative spread": (
        lambda: is_pivotal(Normalized(), NORMAL, estimate=lambda mean, spread: (mean, spread - 4)),
        "Normalized divides by the spread, which must be positive",
    ),
    "estimate, other names": (
        lambda: is_pivotal(Residual(), NORMAL, estimate=lambda mu, sigma: (mu, sigma)),
        "estimate must take the family's parameters by name, mean and spread",
    ),
    "level 90": (lambda: is_pivotal(Residual(), NORMAL, level=90), "did you mean 0.9?"),
    # worlds
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
        lambda: Mixture([toy().law] * 2, [0.5, 0.6]),
        "weights must be positive, with sum 1; got [0.5, 0.6]",
    ),
    "mixture, too many weights": (lambda: Mixture([toy().law] * 2, [0.5, 0.2, 0.3]), "weights must have 2 rows"),
    "mixture, no law": (lambda: Mixture([]), "a mixture needs one law or more; got none"),
    # misspecification
    **{
        f"{kind.__name__}, {value}": (
            lambda kind=kind, value=value: kind(value),
            f"must be a positive finite number; got {value!r}",
        )
        for kind in (NoisySpread, NoisyVariance, NoisyCenter, ScaledSpread)
        for value in (0, -1.0, np.inf, "a")
    },
    "shift, NaN": (lambda: ShiftedCenter(np.nan), "by must be a finite number; got nan"),
    "no spread": (
        lambda: misspecified(Prediction([1.0]), ScaledSpread(2.0)),
        "misspecified needs a prediction with spread",
    ),
    "class for a change": (
        lambda: misspecified(ORACLE, ScaledSpread),
        "changes must be functions of (center, spread, generator) or objects such as ScaledSpread(2.0); got",
    ),
    "seed of changes": (
        lambda: misspecified(ORACLE, NoisySpread(1.0), seed=1.5),
        "seed must be a whole number, 0 or more",
    ),
    # experiments
    "repeats of tables": (lambda: repeated(0), "repeats must be a positive whole number; got 0"),
    "repeats of claims": (
        lambda: next(claims(repeats=1)),
        "repeats must be a whole number, 2 or more, to have a scatter; got 1",
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
