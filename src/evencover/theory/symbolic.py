"""Pivotality by algebra: the paper's conditions, in SymPy.

Let a score A(y; θ) be monotone in y, and write g(a, θ) for the target whose score is a. The score is a pivotal
quantity if and only if the probability of a score of at most a, F(g(a, θ); θ), does not depend on θ:

    d/dθ F(g(a, θ); θ) = 0        and then its density, too:        d/dθ [ f(g(a, θ); θ) ∂g/∂a ] = 0

The derivative by θ is total: θ also moves the argument g. For the standardised score, g = μ + aσ, the second form is
the paper's system of two partial differential equations. The first form needs no density, so it serves densities with
jumps as well; from the second the first follows if the scores' range does not move with θ. Neither needs g itself: at
a target y, ∂g/∂θ is −A_θ / A_y and ∂g/∂a is 1 / A_y.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtri

from evencover._internal.optional import import_optional
from evencover.scores import IntervalDistance, Normalized, Residual, Score, Standardized
from evencover.theory.families import Family

_POINTS, _ZERO = 80, 1e-9  # where expressions are tried, and what rounding may leave of a zero
_INTEGRALS, _ONE = 6, 1e-3  # of a density that are tried, and what quadrature may leave of a one


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
        θ, from a connected set. State what is known of them (``positive=True``): it helps the algebra.
    density, cdf : sympy.Expr, optional
        In terms of y and θ; one of them. A density must be smooth and positive for every y, so that its support does
        not move with θ; for any other give the cdf.

    Examples
    --------
    >>> import sympy
    >>> y, shape, scale = sympy.symbols("y shape scale", positive=True)
    >>> weibull = SymbolicFamily(y, (shape, scale), cdf=1 - sympy.exp(-((y / scale) ** shape)))
    >>> pivotality_condition((y / scale) ** shape, weibull)  # all zero: a pivotal quantity
    (0, 0)
    """

    y: Any
    parameters: Any
    density: Any = field(default=None, kw_only=True)
    cdf: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if (self.density is None) == (self.cdf is None):
            raise ValueError(
                f"a symbolic family needs density= or cdf=; got {'neither' if self.cdf is None else 'both'}"
            )
        parameters = (self.parameters,) if hasattr(self.parameters, "free_symbols") else tuple(self.parameters)
        object.__setattr__(self, "parameters", parameters)
        name, law = ("density", self.density) if self.cdf is None else ("cdf", self.cdf)
        if not hasattr(law, "free_symbols"):
            raise TypeError(f"{name} must be a SymPy expression; got {law!r}")
        absent = [str(each) for each in (self.y, *parameters) if each not in law.free_symbols]
        if absent or not parameters:
            raise ValueError(
                f"{name} must contain the target and every parameter, as the same symbols with the same assumptions; "
                f"{law} is without {', '.join(absent) or 'parameters'}"
            )
        if self.cdf is None:
            _check_no_jumps(self.density)
            _check_integral_is_one(self)


def pivotality_condition(score: Any, family: SymbolicFamily) -> tuple[Any, ...]:
    """Return the derivative of the score's distribution by each parameter: all zero if, and only if, it is pivotal.

    At a target y, with L the cdf F: ``∂L/∂θ − ∂L/∂y · (∂A/∂θ) / (∂A/∂y)``. Given a density instead, L is f / (∂A/∂y),
    which is the paper's form. Then "if" holds only where the range of the scores does not depend on θ; `is_pivotal`
    looks at that as well.

    Parameters
    ----------
    score : sympy.Expr
        A(y; θ), strictly monotone in y; tried at many points.
    family : SymbolicFamily
        The distributions of the target.
    """
    sympy = _sympy()
    slope = sympy.diff(score, family.y)
    _check_monotone(score, slope, family)
    law = family.density / slope if family.cdf is None else family.cdf
    moved = sympy.diff(law, family.y) / slope
    conditions = (sympy.diff(law, each) - moved * sympy.diff(score, each) for each in family.parameters)
    return tuple(sympy.simplify(sympy.expand_log(condition)) for condition in conditions)


def standardization_system(density: Any, y: Any, mean: Any, spread: Any) -> tuple[Any, Any]:
    """Return the left-hand sides of the paper's two equations for the standardised score.

    With f̃(a, μ, σ) = f(μ + aσ; μ, σ) they are ∂(σ f̃)/∂μ and ∂(σ f̃)/∂σ. Both are zero exactly for the densities
    of the form g((y − μ)/σ) / σ.

    Parameters
    ----------
    density : sympy.Expr
        f(y; μ, σ).
    y, mean, spread : sympy.Symbol
        The target, μ and σ.
    """
    sympy = _sympy()
    a = sympy.Dummy("a", real=True)
    law = spread * density.subs(y, mean + a * spread)
    return sympy.simplify(sympy.diff(law, mean)), sympy.simplify(sympy.diff(law, spread))


def vanishes(expressions: tuple[Any, ...]) -> bool | None:
    """Return whether all expressions, simplified before, are zero; None where algebra cannot tell.

    One point at which an expression is not zero is a disproof; that all points tried are zero is no proof.
    """
    if any(abs(value) > _ZERO for each in expressions for value in _values(each)):
        return False
    return True if all(each.equals(0) for each in expressions) else None


def has_fixed_range(score: Any, family: SymbolicFamily) -> bool:
    """Return whether the scores' range is seen not to depend on θ: by the limits at both ends of y."""
    sympy = _sympy()
    ends = (0 if family.y.is_positive else -sympy.oo, sympy.oo)
    try:
        limits = [sympy.limit(score, family.y, end, "-" if end == sympy.oo else "+") for end in ends]
    except (NotImplementedError, ValueError):  # limits that algebra cannot find
        return False
    return not any(limit.free_symbols or limit.has(sympy.Limit, sympy.AccumBounds) for limit in limits)


@dataclass(frozen=True)
class Proof:
    """What algebra says of a score on location-scale families: pivotal, or even at some thresholds only."""

    pivotal: bool
    even_thresholds: tuple[float, ...]


def proof(score: Score, family: Family, estimate: Any, level: float) -> Proof | None:
    """Return what holds for *every* distribution of the noise, or None where algebra does not apply.

    The score is at most t where the standardised target (y − μ)/σ lies between two bounds. If neither depends on
    θ, the score is pivotal, whatever the noise. Else it may still be even at single thresholds: those t at which
    the bounds stop depending on θ.
    """
    sympy = _sympy()
    theta = {name: sympy.Dummy(name, real=True, positive=min(v) > 0 or None) for name, v in family.values.items()}
    t, z = sympy.Dummy("t", real=True), sympy.Dummy("z", positive=True)
    try:
        mean, spread = family.moments(**theta)  # type: ignore[misc]  # asked for location-scale families only
        bounds = _bounds(score, t, z, *estimate(**theta))
        slopes = tuple(
            sympy.simplify(sympy.diff((bound - mean) / spread, parameter))
            for bound in bounds
            for parameter in theta.values()
        )
        pivotal = vanishes(slopes) is True
        even = () if pivotal else _solutions(slopes, t, z, level)
    except Exception:  # whatever is not algebra: conditions, numpy, formulas beyond SymPy
        return None
    return Proof(pivotal, even) if bounds else None


def _bounds(score: Score, t: Any, z: Any, center: Any, spread: Any) -> tuple[Any, ...]:
    """Return the finite ends of the score's interval at t, for the scores whose formula is known; none for others."""
    kind: Any = type(score)  # a subclass may compute something else
    if kind is Residual:
        return center - t, center + t
    if kind is IntervalDistance:
        return center - z * spread - t, center + z * spread + t
    if kind in (Normalized, Standardized) and (score.floor or score.epsilon):  # type: ignore[attr-defined]
        return ()
    if kind is Normalized:
        return center - t * spread, center + t * spread
    return (center + t * spread,) if kind is Standardized else ()


def _solutions(slopes: tuple[Any, ...], t: Any, z: Any, level: float) -> tuple[float, ...]:
    """Return the thresholds t at which all slopes are zero, as numbers."""
    found = [each[t] for each in _sympy().solve(slopes, t, dict=True) if t in each]
    numbers = [solution.subs(z, float(ndtri((1 + level) / 2))) for solution in found]
    return tuple(float(number) for number in numbers if number.is_number)


def _values(expression: Any) -> list[float]:
    """Return the expression's real values at some points, always the same ones, where it has any."""
    found = (expression.subs(point).evalf() for point in _points(expression.free_symbols))
    return [float(value) for value in found if value.is_real and value.is_finite]


def _points(symbols: Any) -> Iterator[dict[Any, float]]:
    """Yield values for some symbols: numbers around 1, then of any size; of any sign unless positive."""
    rng = random.Random(0)  # noqa: S311  # points, not secrets
    ordered = sorted(symbols, key=str)
    for i in range(_POINTS):
        reach = 0.5 if i < _POINTS // 2 else 2.0
        sizes = [10 ** rng.uniform(-reach, reach) for _ in ordered]
        signs = [1 if each.is_positive else rng.choice((-1, 1)) for each in ordered]
        yield {each: size * sign for each, size, sign in zip(ordered, sizes, signs, strict=True)}


def _check_no_jumps(density: Any) -> None:
    """Raise if a density has jumps: where they move with θ, its derivative does not see them."""
    sympy = _sympy()
    if density.has(sympy.Piecewise, sympy.Heaviside, sympy.Min, sympy.Max):
        raise ValueError(f"density must be smooth; for {density}, which is not, give cdf= instead")


def _check_integral_is_one(family: SymbolicFamily) -> None:
    """Raise if a density nowhere integrates to 1 over all y, as one whose support was left out; tried at some θ."""
    sympy = _sympy()
    if family.density.has(sympy.core.function.AppliedUndef):
        return  # a function without a formula
    points = list(islice(_points(family.parameters), _INTEGRALS))
    totals = [_integral(family, point) for point in points]
    if not any(abs(total - 1) < _ONE for total in totals):  # one may miss a peak far out, not all
        raise ValueError(
            f"density must integrate to 1 over all {family.y}; {family.density} gives {totals[0]:.3g} at {points[0]}. "
            "Where the support is limited, give cdf= instead"
        )


def _integral(family: SymbolicFamily, point: dict[Any, float]) -> float:
    """Return the integral of a density over all y, at one θ; where it has no value it counts as 0."""
    density = _sympy().lambdify(family.y, family.density.subs(point), ["scipy", "numpy"])
    lowest = 0.0 if family.y.is_positive else -np.inf
    with np.errstate(all="ignore"):
        return float(quad(lambda y: np.nan_to_num(density(y)), lowest, np.inf, limit=500, full_output=1)[0])


def _check_monotone(score: Any, slope: Any, family: SymbolicFamily) -> None:
    """Raise unless the score has a slope of one sign, at all points tried."""
    if family.y not in score.free_symbols:
        raise ValueError(f"score must depend on {family.y}; got {score}")
    unknown = score.free_symbols - {family.y, *family.parameters}
    if unknown:
        raise ValueError(f"score must be made of {family.y} and the family's parameters; got {score} with {unknown}")
    slopes = _values(slope)
    if not slopes or min(slopes) < 0 < max(slopes) or not any(slopes):
        found = f"between {min(slopes):.3g} and {max(slopes):.3g}" if slopes else "not real"
        raise ValueError(
            f"score must be monotone in {family.y}; the slope of {score} is {found}. Scores with two bounds, such as "
            "Normalized(), go with a LocationScale or a Family"
        )
