"""Pivotality by algebra: the paper's conditions, in SymPy.

For a score that increases in y, write g(a, θ) for the target whose score is a. The score is a pivotal quantity if
and only if the probability of a score of at most a, F(g(a, θ); θ), does not depend on θ:

    d/dθ F(g(a, θ); θ) = 0        and, differentiated by a,        d/dθ [ f(g(a, θ); θ) ∂g/∂a ] = 0

The derivative by θ is total: θ also moves the argument g. For the standardised score, g = μ + aσ, the second form
is the paper's system of two partial differential equations. The first form needs no density, so it serves
densities with jumps as well.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from evencover.extras import imported
from evencover.scores import IntervalDistance, Normalized, Residual, Score, Standardized
from evencover.theory.families import Family

_POINTS, _ZERO = 50, 1e-9  # where expressions are tried, and what rounding may leave of a zero


def _sympy() -> Any:
    return imported("sympy", extra="theory", purpose="algebra on scores and densities")


@dataclass(frozen=True, eq=False)
class SymbolicFamily:
    """A family f(y; θ) as SymPy expressions.

    Parameters
    ----------
    y : sympy.Symbol
        The target.
    parameters : sequence of sympy.Symbol
        θ. State what is known of them (``positive=True``): it helps the algebra.
    density, cdf : sympy.Expr, optional
        In terms of y and θ; one of them, or both.

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
        if self.density is None and self.cdf is None:
            raise ValueError("a symbolic family needs density= or cdf=; got neither")
        object.__setattr__(self, "parameters", tuple(self.parameters))


def inverse_of(score: Any, family: SymbolicFamily, a: Any) -> Any:
    """Return g(a, θ): the target whose score, a SymPy expression, is a.

    A score that several targets share is refused: the paper's condition is one for scores that increase in y.
    """
    sympy = _sympy()
    solutions = [each for each in sympy.solve(sympy.Eq(score, a), family.y) if each.is_real is not False]
    if len(solutions) != 1:
        raise ValueError(
            f"score must increase in {family.y}, so that one target has each score; {score} = {a} has "
            f"{len(solutions)} solutions. Scores with two bounds, such as Normalized(), are compared numerically"
        )
    return solutions[0]


def pivotality_condition(score: Any, family: SymbolicFamily) -> tuple[Any, ...]:
    """Return the derivative of the score's distribution by each parameter: all zero if, and only if, it is pivotal.

    Each is taken at the score of a target y, and is an expression of y and the parameters.

    Parameters
    ----------
    score : sympy.Expr
        In terms of y and the parameters; increasing in y.
    family : SymbolicFamily
        By its cdf the first form of the condition is used, by its density alone the paper's.
    """
    sympy = _sympy()
    a = sympy.Dummy("a", real=True) if not family.y.is_positive else sympy.Dummy("a", positive=True)
    inverse = inverse_of(score, family, a)
    if family.cdf is not None:
        law = family.cdf.subs(family.y, inverse)
    else:
        law = family.density.subs(family.y, inverse) * sympy.diff(inverse, a)
    return tuple(sympy.simplify(sympy.diff(law, each)).subs(a, score) for each in family.parameters)


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
    family = SymbolicFamily(y, (mean, spread), density=density)
    a = sympy.Dummy("a", real=True)
    law = spread * family.density.subs(y, mean + a * spread)
    return sympy.simplify(sympy.diff(law, mean)), sympy.simplify(sympy.diff(law, spread))


def vanishes(expressions: tuple[Any, ...]) -> bool | None:
    """Return whether all expressions are zero; None where algebra cannot tell.

    One point at which an expression is not zero is a disproof; that all points tried are zero is no proof.
    """
    if any(_is_nonzero_somewhere(each) for each in expressions):
        return False
    answers = [_sympy().simplify(each).equals(0) for each in expressions]
    return True if all(answers) else None


def _is_nonzero_somewhere(expression: Any) -> bool:
    """Return whether an expression has a value other than 0 at one of some points, always the same ones."""
    rng = random.Random(0)  # noqa: S311  # points, not secrets
    symbols = sorted(expression.free_symbols, key=str)
    for _ in range(_POINTS):
        point = {each: rng.uniform(0.3, 3.0) * (1 if each.is_positive else rng.choice((-1, 1))) for each in symbols}
        value = expression.subs(point).evalf()
        if value.is_number and value.is_finite and abs(value) > _ZERO:
            return True
    return False


@dataclass(frozen=True)
class Proof:
    """What algebra says of a score on location-scale families: pivotal, or even at some thresholds only."""

    pivotal: bool
    even_thresholds: tuple[float, ...]


def proof(score: Score, family: Family, estimate: Any) -> Proof | None:
    """Return what holds for *every* distribution of the noise, or None where algebra does not apply.

    The score is at most t where the standardised target (y − μ)/σ lies between two bounds. If neither depends on
    θ, the score is pivotal, whatever the noise. Else it may still be even at single thresholds: those t at which
    the bounds stop depending on θ.
    """
    sympy = _sympy()
    theta = {name: sympy.Symbol(name, positive=min(values) > 0, real=True) for name, values in family.values.items()}
    t = sympy.Symbol("t", real=True)
    try:
        mean, spread = family.moments(**theta)  # type: ignore[misc]  # asked for location-scale families only
        bounds = _bounds(score, t, *estimate(**theta))
    except (TypeError, AttributeError):  # not plain operators, so not algebra
        return None
    if bounds is None:
        return None
    slopes = [
        sympy.simplify(sympy.diff((bound - mean) / spread, parameter))
        for bound in bounds
        for parameter in theta.values()
    ]
    if vanishes(tuple(slopes)):
        return Proof(pivotal=True, even_thresholds=())
    try:
        found = sympy.solve(slopes, t, dict=True)
    except NotImplementedError:  # equations that algebra cannot solve
        found = []
    return Proof(pivotal=False, even_thresholds=tuple(float(each[t]) for each in found if each.get(t, t).is_number))


def _bounds(score: Score, t: Any, center: Any, spread: Any) -> tuple[Any, ...] | None:
    """Return the finite ends of the score's interval at t, for the scores whose formula is known."""
    sympy = _sympy()
    if isinstance(score, Residual):
        return center - t, center + t
    if isinstance(score, IntervalDistance):
        z = sympy.Symbol("z", positive=True)  # the normal quantile of the level; no proof needs its value
        return center - z * spread - t, center + z * spread + t
    if isinstance(score, Normalized | Standardized) and not score.floor:
        unit = spread + sympy.nsimplify(score.epsilon * (score.scale or 0))
        return (center + t * unit,) if isinstance(score, Standardized) else (center - t * unit, center + t * unit)
    return None
