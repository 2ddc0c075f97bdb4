"""Proofs of pivotality: the paper's conditions, checked with SymPy.

Let a score A(y; θ) be monotone in y, and let g(a, θ) be the target whose score is a. The score is a pivotal quantity
if and only if the probability of a score of at most a, F(g(a, θ); θ), does not depend on θ. Then its density does not
depend on θ either:

    (1)  d/dθ F(g(a, θ); θ) = 0        (2)  d/dθ [ f(g(a, θ); θ) ∂g/∂a ] = 0

The derivative by θ is a total derivative, because the argument g depends on θ as well. For the standardised score,
g = μ + aσ, form (2) is the paper's system of two partial differential equations. Form (1) needs no density, so it also
works for densities with jumps. Form (2) implies form (1) if the range of the scores does not depend on θ. Neither form
needs g itself: at a target y, ∂g/∂θ is −A_θ / A_y and ∂g/∂a is 1 / A_y.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtri

from evencover.inputs.optional import import_optional
from evencover.scores import Score
from evencover.scores.score import Symbols, symbolic_reach
from evencover.theory.families import Family

_POINTS, _ZERO = 80, 1e-9  # points at which expressions are evaluated; largest value that rounding explains
_INTEGRALS, _INTEGRATION_ERROR = 6, 1e-3  # integrals of a density to evaluate; their largest error


def _sympy() -> Any:
    return import_optional("sympy", extra="theory", purpose="algebra on scores and densities")


@dataclass(frozen=True, eq=False)
class SymbolicFamily:
    """A family f(y; θ) as SymPy expressions.

    Parameters
    ----------
    y : sympy.Symbol
        The target.
    parameters : sequence of sympy.Symbol
        θ, from a connected set. Declare assumptions such as ``positive=True``: they help SymPy to simplify.
    density, cdf : sympy.Expr, optional
        Expression in y and θ; pass exactly one of the two. A density must be smooth and positive for every y, so that
        its support does not depend on θ. For any other distribution pass the cdf.

    Examples
    --------
    >>> import sympy
    >>> y, shape, scale = sympy.symbols("y shape scale", positive=True)
    >>> weibull = SymbolicFamily(y, (shape, scale), cdf=1 - sympy.exp(-((y / scale) ** shape)))
    >>> pivotality_condition((y / scale) ** shape, weibull)  # all zero: the score is pivotal
    (0, 0)
    """

    y: Any
    parameters: Any
    density: Any = field(default=None, kw_only=True)
    cdf: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if (self.density is None) == (self.cdf is None):
            raise ValueError(
                f"a symbolic family must have density= or cdf=; got {'neither' if self.cdf is None else 'both'}"
            )
        parameters = (self.parameters,) if hasattr(self.parameters, "free_symbols") else tuple(self.parameters)
        object.__setattr__(self, "parameters", parameters)
        name, expression = ("density", self.density) if self.cdf is None else ("cdf", self.cdf)
        if not hasattr(expression, "free_symbols"):
            raise TypeError(f"{name} must be a SymPy expression; got {expression!r}")
        absent = [str(symbol) for symbol in (self.y, *parameters) if symbol not in expression.free_symbols]
        if absent or not parameters:
            raise ValueError(
                f"{name} must contain the symbols of the target and of every parameter (equal names and assumptions); "
                f"got {name}={expression}, which does not contain {', '.join(absent) or 'a parameter'}"
            )
        if self.cdf is None:
            _check_no_jumps(self.density)
            _check_integral_is_one(self)


def pivotality_condition(score: Any, family: SymbolicFamily) -> tuple[Any, ...]:
    """Return the derivative of the score's distribution by each parameter: all are zero if and only if it is pivotal.

    At a target y it is ``∂L/∂θ − ∂L/∂y · (∂A/∂θ) / (∂A/∂y)``, with L the cdf F. For a family with a density, L is
    f / (∂A/∂y), which is the paper's form. Then the "if" part needs a range of scores that does not depend on θ;
    `is_pivotal` checks that too.

    Parameters
    ----------
    score : sympy.Expr
        A(y; θ), strictly monotone in y. This is checked at 80 points.
    family : SymbolicFamily
        The distributions of the target.
    """
    sympy = _sympy()
    slope = sympy.diff(score, family.y)
    _check_monotone(score, slope, family)
    function = family.density / slope if family.cdf is None else family.cdf
    per_score = sympy.diff(function, family.y) / slope
    conditions = (sympy.diff(function, each) - per_score * sympy.diff(score, each) for each in family.parameters)
    return tuple(sympy.simplify(sympy.expand_log(condition)) for condition in conditions)


def standardization_system(density: Any, y: Any, mean: Any, spread: Any) -> tuple[Any, Any]:
    """Return the left-hand sides of the paper's two equations for the standardised score.

    With f̃(a, μ, σ) = f(μ + aσ; μ, σ) they are ∂(σ f̃)/∂μ and ∂(σ f̃)/∂σ. Both are zero if and only if the density has
    the form g((y − μ)/σ) / σ.

    Parameters
    ----------
    density : sympy.Expr
        f(y; μ, σ).
    y, mean, spread : sympy.Symbol
        The target, μ and σ.
    """
    sympy = _sympy()
    a = sympy.Dummy("a", real=True)
    score_density = spread * density.subs(y, mean + a * spread)
    return sympy.simplify(sympy.diff(score_density, mean)), sympy.simplify(sympy.diff(score_density, spread))


def vanishes(expressions: tuple[Any, ...]) -> bool | None:
    """Return whether all expressions, already simplified, are zero; None if SymPy cannot decide.

    One point with a value other than zero is a disproof. Zeros at all evaluated points are not a proof.
    """
    if any(abs(value) > _ZERO for each in expressions for value in _values_at_points(each)):
        return False
    return True if all(each.equals(0) for each in expressions) else None


def has_fixed_range(score: Any, family: SymbolicFamily) -> bool:
    """Return whether the limits of the score at both ends of y show that its range does not depend on θ."""
    sympy = _sympy()
    ends = (0 if family.y.is_positive else -sympy.oo, sympy.oo)
    try:
        limits = [sympy.limit(score, family.y, end, "-" if end == sympy.oo else "+") for end in ends]
    except (NotImplementedError, ValueError):  # SymPy cannot find the limit
        return False
    return not any(limit.free_symbols or limit.has(sympy.Limit, sympy.AccumBounds) for limit in limits)


@dataclass(frozen=True)
class Proof:
    """The symbolic result for a score on a location-scale family: pivotal, or even at single thresholds only."""

    pivotal: bool
    even_thresholds: tuple[float, ...]


def proof(score: Score, family: Family, estimate: Any, level: float) -> Proof | None:
    """Return the symbolic result, valid for *every* distribution of the noise, or None where SymPy cannot find one.

    The score is at most t if the standardised target (y − μ)/σ lies between two bounds. If neither bound depends on θ,
    the score is pivotal for any noise. Otherwise it may be even at single thresholds: the values of t at which the
    bounds do not depend on θ.
    """
    sympy = _sympy()
    theta = {name: sympy.Dummy(name, real=True, positive=min(v) > 0 or None) for name, v in family.values.items()}
    t, z = sympy.Dummy("t", real=True), sympy.Dummy("z", positive=True)
    try:
        mean, spread = family.moments(**theta)  # type: ignore[misc]  # called for location-scale families only
        bounds = _bounds(score, Symbols(t, z, *estimate(**theta)))
        slopes = tuple(
            sympy.simplify(sympy.diff((bound - mean) / spread, parameter))
            for bound in bounds
            for parameter in theta.values()
        )
        pivotal = vanishes(slopes) is True
        even = () if pivotal else _solutions(slopes, t, z, level)
    except Exception:  # not symbolic: conditions, numpy functions, formulas that SymPy cannot handle
        return None
    return Proof(pivotal, even) if bounds else None


def _bounds(score: Score, symbols: Symbols) -> tuple[Any, ...]:
    """Return the finite ends of the score's interval, or an empty tuple for a score without a known formula."""
    reach = symbolic_reach(score, symbols)
    if reach is None:
        return ()
    ends = {"lower": symbols.center - reach, "upper": symbols.center + reach}
    return tuple(end for side, end in ends.items() if getattr(score, "side", side) == side)


def _solutions(slopes: tuple[Any, ...], t: Any, z: Any, level: float) -> tuple[float, ...]:
    """Return the thresholds t at which all slopes are zero."""
    solutions = [each[t] for each in _sympy().solve(slopes, t, dict=True) if t in each]
    numbers = [solution.subs(z, float(ndtri((1 + level) / 2))) for solution in solutions]
    return tuple(float(number) for number in numbers if number.is_number)


def _values_at_points(expression: Any) -> Iterator[float]:
    """Yield the expression's finite real values at a fixed set of points: to evaluate one takes milliseconds."""
    symbols = expression.free_symbols
    points = _points(symbols) if symbols else [{}]  # a constant has one value
    found = (expression.subs(point).evalf() for point in points)
    return (float(value) for value in found if value.is_real and value.is_finite)


def _points(symbols: Any) -> Iterator[dict[Any, float]]:
    """Yield values for the symbols: first near 1, then of any size. The sign is random unless a symbol is positive."""
    rng = random.Random(0)  # noqa: S311  # test points, no cryptography
    ordered = sorted(symbols, key=str)
    for i in range(_POINTS):
        reach = 0.5 if i < _POINTS // 2 else 2.0
        sizes = [10 ** rng.uniform(-reach, reach) for _ in ordered]
        signs = [1 if each.is_positive else rng.choice((-1, 1)) for each in ordered]
        yield {each: size * sign for each, size, sign in zip(ordered, sizes, signs, strict=True)}


def _check_no_jumps(density: Any) -> None:
    """Raise ValueError if a density has jumps: its derivative misses jumps whose place depends on θ."""
    sympy = _sympy()
    if density.has(sympy.Piecewise, sympy.Heaviside, sympy.Min, sympy.Max):
        raise ValueError(f"density must be smooth; got {density}. Pass cdf= instead")


def _check_integral_is_one(family: SymbolicFamily) -> None:
    """Raise ValueError if the density integrates to 1 at none of a few θ, as when its support was left out."""
    sympy = _sympy()
    if family.density.has(sympy.core.function.AppliedUndef):
        return  # an undefined function, which cannot be integrated
    points = list(islice(_points(family.parameters), _INTEGRALS))
    totals = [_integral(family, point) for point in points]
    if not any(abs(total - 1) < _INTEGRATION_ERROR for total in totals):  # single integrals can miss a distant peak
        raise ValueError(
            f"density must integrate to 1 over all {family.y}; the integral of {family.density} is {totals[0]:.3g} at "
            f"{points[0]}. If the support is limited, pass cdf= instead"
        )


def _integral(family: SymbolicFamily, point: dict[Any, float]) -> float:
    """Return the integral of a density over all y, at one θ. Undefined values count as 0."""
    density = _sympy().lambdify(family.y, family.density.subs(point), ["scipy", "numpy"])
    lowest = 0.0 if family.y.is_positive else -np.inf
    with np.errstate(all="ignore"):
        return float(quad(lambda y: np.nan_to_num(density(y)), lowest, np.inf, limit=500, full_output=1)[0])


def _check_monotone(score: Any, slope: Any, family: SymbolicFamily) -> None:
    """Raise ValueError unless the score's slope has the same sign at all evaluated points."""
    if family.y not in score.free_symbols:
        raise ValueError(f"score must depend on {family.y}; got {score}")
    unknown = score.free_symbols - {family.y, *family.parameters}
    if unknown:
        raise ValueError(
            f"score must contain only {family.y} and the family's parameters; got {score}. Not parameters of the "
            f"family: {', '.join(sorted(map(str, unknown)))}"
        )
    slopes = list(_values_at_points(slope))
    if not slopes or min(slopes) < 0 < max(slopes) or not any(slopes):
        found = f"between {min(slopes):.3g} and {max(slopes):.3g}" if slopes else "not real"
        raise ValueError(
            f"score must be monotone in {family.y}; the slope of {score} is {found}. For scores with two bounds, such "
            "as Normalized(), pass a LocationScale or a Family"
        )
