"""Families of distributions of the target, and tests whether a score is pivotal for them.

A score is *pivotal* for a family of distributions if the score's distribution is the same for every member. Then one
threshold, calibrated on all rows jointly, gives the same coverage for every member, at every level. It is tested by a
comparison of distributions and, where possible, by a proof with SymPy.

The paper's conditions: let a score A(y; θ) be monotone in y, and let g(a, θ) be the target whose score is a. The score
is a pivotal quantity if and only if the probability of a score of at most a, F(g(a, θ); θ), does not depend on θ. Then
its density does not depend on θ either:

    (1)  d/dθ F(g(a, θ); θ) = 0        (2)  d/dθ [ f(g(a, θ); θ) ∂g/∂a ] = 0

The derivative by θ is a total derivative, because the argument g depends on θ as well. For the standardised score,
g = μ + aσ, form (2) is the paper's system of two partial differential equations. Form (1) needs no density, so it also
works for densities with jumps. Form (2) implies form (1) if the range of the scores does not depend on θ. Neither form
needs g itself: at a target y, ∂g/∂θ is −A_θ / A_y and ∂g/∂a is 1 / A_y.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from itertools import islice, product
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtri

from evencover.inputs.arrays import FloatArray, checked_vector, is_number
from evencover.inputs.optional import import_optional
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction
from evencover.scores import Score
from evencover.scores.evaluation import interval_by
from evencover.scores.score import Symbols, symbolic_reach

__all__ = [
    "EXPONENTIAL",
    "LAPLACE",
    "NORMAL",
    "TRIANGULAR",
    "UNIFORM",
    "Distribution",
    "Family",
    "LocationScale",
    "Pivotality",
    "SymbolicFamily",
    "is_pivotal",
    "pivotality_condition",
    "standardization_system",
]


_METHODS = ("pdf", "cdf", "ppf", "rvs", "mean", "std")


class Distribution(Protocol):
    """Protocol of one member of a family. SciPy's frozen distributions satisfy it."""

    def cdf(self, y: Any, /) -> Any:
        """Return the probability of a value of at most y."""

    def ppf(self, p: Any, /) -> Any:
        """Return the quantile of probability p."""

    def mean(self) -> Any:
        """Return the mean."""

    def std(self) -> Any:
        """Return the standard deviation."""


@dataclass(frozen=True, eq=False)
class LocationScale:
    """The family of targets Y = mean + spread × noise, for noise of one distribution.

    The conditional density is ``f(y; mean, spread) = g((y − mean) / spread) / spread``. The *standardised density* g is
    the density of the noise after shifting and scaling it to mean 0 and standard deviation 1. So `mean` and `spread`
    are the mean and standard deviation of the target.

    Parameters
    ----------
    noise : SciPy distribution
        A continuous distribution with fixed shape parameters, such as ``scipy.stats.t(5)``.
    name : str
        Name of the family.
    location, scale : float, optional
        Only for noise without a finite mean or standard deviation: the values to use instead, as in
        ``LocationScale(scipy.stats.cauchy(), location=0, scale=1)``.

    Examples
    --------
    >>> student = LocationScale(stats.t(5), "Student's t")
    >>> student.quantile(0.5, mean=3.0, spread=2.0)
    np.float64(3.0)
    """

    noise: Any
    name: str = "a location-scale family"
    location: float | None = field(default=None, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_continuous(self.noise)
        for part, own in zip(("location", "scale"), _moments(self.noise), strict=True):
            given, moment = getattr(self, part), "standard deviation" if part == "scale" else "mean"
            if given is not None and np.isfinite(own):
                raise ValueError(f"{part} must be left out for noise with a finite {moment}; this noise has {own:g}")
            if given is None and not np.isfinite(own):
                raise ValueError(
                    f"the noise distribution must have a finite {moment}; got {own}. "
                    "For noise without a mean or variance, pass location= and scale= yourself"
                )
            value = own if given is None else given
            if not (is_number(value) and np.isfinite(value)) or (part == "scale" and value <= 0):
                raise ValueError(f"{part} must be a {'positive ' if part == 'scale' else ''}finite number; got {value}")
            object.__setattr__(self, part, float(value))

    def standard_density(self, x: Any) -> Any:
        """Return g(x), the density of the standardised target."""
        return self.scale * self.noise.pdf(self._raw(x))

    def density(self, y: Any, mean: Any, spread: Any) -> Any:
        """Return the conditional density at `y`."""
        return self.standard_density((y - mean) / spread) / spread

    def cdf(self, y: Any, mean: Any, spread: Any) -> Any:
        """Return the conditional probability that the target is at most `y`."""
        return self.noise.cdf(self._raw((y - mean) / spread))

    def quantile(self, p: Any, mean: Any, spread: Any) -> Any:
        """Return the conditional quantile of probability `p`."""
        return mean + spread * self._standard(self.noise.ppf(p))

    def sample(self, mean: FloatArray, spread: FloatArray, rng: Any) -> FloatArray:
        """Draw one target for each row's mean and spread. Shape (n,).

        `rng` is a numpy ``Generator`` or the legacy ``RandomState``.
        """
        shape = np.broadcast_shapes(np.shape(mean), np.shape(spread))
        drawn: FloatArray = mean + spread * self._standard(self.noise.rvs(size=shape, random_state=rng))
        return drawn

    def along(self, moments: Callable[..., tuple[Any, Any]], **values: Any) -> "Family":
        """Return the subfamily whose mean and spread are functions of other parameters.

        Parameters
        ----------
        moments : callable
            Takes the parameters by name and returns the pair (mean, spread). If it uses only arithmetic operators,
            `is_pivotal` can also use it in symbolic proofs.
        **values : sequences of float
            Two or more values of each parameter, for the numerical comparison.

        Examples
        --------
        >>> NORMAL.along(lambda mean: (mean, 1.0), mean=(-1.0, 0.0, 2.0))  # constant noise
        Family(normal, mean)
        """
        check_parameters(moments, "moments", values)

        def member(**theta: float) -> Distribution:
            pair = moments(**theta)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"moments must return a pair (mean, spread); got {pair!r}")
            mean, spread = pair
            if not spread > 0:
                raise ValueError(
                    f"spread must be positive at all values of the parameters; got {spread} for the parameters {theta}"
                )
            return _Member(self, mean, spread)

        return Family(member, values, self.name, moments=moments)

    def _raw(self, x: Any) -> Any:
        """Return standardised values in the units of the noise."""
        return self.location + self.scale * x

    def _standard(self, noise: Any) -> Any:
        """Return values of the noise, standardised to mean 0 and standard deviation 1."""
        return (noise - self.location) / self.scale

    def __repr__(self) -> str:
        return f"LocationScale({self.name})"


@dataclass(frozen=True)
class _Member:
    """The member of a location-scale family with one mean and spread."""

    family: LocationScale
    at_mean: float
    at_spread: float

    def cdf(self, y: Any) -> Any:
        return self.family.cdf(y, self.at_mean, self.at_spread)

    def ppf(self, p: Any) -> Any:
        return self.family.quantile(p, self.at_mean, self.at_spread)

    def mean(self) -> float:
        return self.at_mean

    def std(self) -> float:
        return self.at_spread


@dataclass(frozen=True, eq=False)
class Family:
    """Distributions f(y; θ) of the target, one for each value of the parameters θ.

    Parameters
    ----------
    distribution : callable
        Takes the parameters by name and returns a SciPy distribution: ``lambda shape: scipy.stats.gamma(shape)``.
    values : mapping of str to sequence of float
        Two or more values of each parameter. The members at all combinations of the values are compared.
    name : str
        Name of the family.
    moments : callable, optional
        Only for a subfamily of a location-scale family: mean and spread as functions of the parameters.
        `LocationScale.along` sets it.

    Examples
    --------
    >>> Family(lambda shape: stats.gamma(shape), {"shape": (1.0, 2.0, 5.0)}, "gamma")
    Family(gamma, shape)
    """

    distribution: Callable[..., Distribution]
    values: Mapping[str, Any]
    name: str = "a family"
    moments: Callable[..., tuple[Any, Any]] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping):
            raise TypeError(
                "values must be a dict from parameter names to sequences of numbers, such as {'shape': (1, 2)}; got "
                f"{self.values!r}"
            )
        values = {name: checked_vector(given, f"values of {name}") for name, given in self.values.items()}
        if not values or any(len(np.unique(given)) < 2 for given in values.values()):
            raise ValueError(
                "values must contain one parameter or more, each with two or more different values; "
                f"got { ({name: given.tolist() for name, given in values.items()}) }"
            )
        object.__setattr__(self, "values", values)
        if self.moments is None:
            check_parameters(self.distribution, "distribution", values)

    def members(self) -> Iterator[tuple[dict[str, float], Distribution]]:
        """Yield every combination of the parameter values, with its distribution."""
        for combination in product(*self.values.values()):
            theta = {name: float(value) for name, value in zip(self.values, combination, strict=True)}
            member = self.distribution(**theta)
            _check_distribution(member)
            yield theta, member

    def __repr__(self) -> str:
        return f"Family({self.name}, {', '.join(self.values)})"


def check_parameters(function: Any, name: str, parameters: Mapping[str, Any]) -> None:
    """Raise TypeError unless a function takes a family's parameters by name."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of the family's parameters; got {function!r}")
    try:
        accepted = signature(function)
    except ValueError:  # a function written in C without a signature
        return
    try:
        accepted.bind(**parameters)
    except TypeError:
        raise TypeError(
            f"the arguments of {name} must have the names of the family's parameters, ({', '.join(parameters)}); "
            f"got {accepted}"
        ) from None


def _check_continuous(noise: Any) -> None:
    """Raise TypeError unless this is one of SciPy's continuous distributions."""
    missing = [method for method in _METHODS if not hasattr(noise, method)]
    if missing:
        raise TypeError(
            "noise must be one of SciPy's classic continuous distributions, such as scipy.stats.t(5); "
            f"got {noise!r}, which has no {', '.join(missing)}"
        )


def _moments(noise: Any) -> tuple[float, float]:
    """Return mean and standard deviation of the noise."""
    try:
        return float(noise.mean()), float(noise.std())
    except TypeError as error:  # a distribution without fixed shape parameters
        raise TypeError(f"noise must have fixed shape parameters, such as scipy.stats.t(5); {error}") from error


def _check_distribution(member: Any) -> None:
    """Raise TypeError unless a member has the methods of `Distribution` and fixed shape parameters."""
    missing = [method for method in ("cdf", "ppf", "mean", "std") if not hasattr(member, method)]
    open_shapes = isinstance(member, stats.rv_continuous | stats.rv_discrete) and member.shapes
    if missing or open_shapes:
        raise TypeError(
            "distribution must return a distribution with fixed shape parameters, such as scipy.stats.gamma(2.0); "
            f"got {member!r}"
        )


NORMAL = LocationScale(stats.norm(), "normal")
LAPLACE = LocationScale(stats.laplace(), "Laplace")
UNIFORM = LocationScale(stats.uniform(), "uniform")
TRIANGULAR = LocationScale(stats.triang(1), "triangular")  # density 2y / λ² on [0, λ], as in the paper
EXPONENTIAL = LocationScale(stats.expon(), "exponential")


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


Theta: TypeAlias = dict[str, float]

_MEANS, _SPREADS = (-2.3, 0.0, 3.7), (0.2, 1.0, 4.5)  # parameters at which location-scale families are compared
_TOLERANCE = 1e-9  # on a difference of two probabilities from a cdf
_ULPS = 16  # rounding margin of a bound, in units in the last place
_GRID_TOLERANCE = 1e-3  # on a difference of two probabilities from a grid of targets
_GRID = 10_000  # number of targets, at equal steps of probability
_PROBABILITIES = np.linspace(0.0005, 0.9995, 200)  # members are compared at these quantiles of their scores
# Probabilities of a distribution's quantiles: those at the ends of the intervals between two tails of equal mass.
_KNOTS = np.concatenate([(1 - _PROBABILITIES[::-1]) / 2, [0.5], (1 + _PROBABILITIES) / 2])


@dataclass(frozen=True)
class Pivotality:
    """The result of `is_pivotal`. It is true if the score is pivotal.

    Parameters
    ----------
    pivotal : bool
        Whether the score's distribution does not depend on the parameters.
    how : str
        "proved" symbolically, or "compared" numerically between members of the family.
    members : int
        Number of members compared; 0 for a symbolic family.
    difference : float, optional
        Largest difference, beyond rounding, between two members' probabilities of a score of at most t, over all t.
    between : tuple of two dict
        The parameters of these two members; empty if the score is pivotal.
    even_at : tuple of float
        Single levels at which one threshold covers all members equally although the score is not pivotal. Always
        empty if the score is a plain function.
    """

    pivotal: bool
    how: str
    members: int = 0
    difference: float | None = None
    between: tuple[Theta, ...] = ()
    even_at: tuple[float, ...] = ()

    def __bool__(self) -> bool:
        return self.pivotal

    def __str__(self) -> str:
        if self.pivotal:
            how = "proved" if self.how == "proved" else f"compared: no difference between {self.members} members"
            return f"Pivotal ({how}): one threshold gives the same coverage for all members, at every level."
        where = " and ".join(", ".join(f"{name}={value:g}" for name, value in theta.items()) for theta in self.between)
        gap = f" With one threshold, the coverage of two members can differ by {self.difference or 0:.3g} ({where})."
        levels = " and ".join(f"{level:.6g}" for level in self.even_at)
        even = f" At level {levels} the coverage is the same for all members."
        return f"Not pivotal ({self.how}).{gap if self.between else ''}{even if self.even_at else ''}"


def is_pivotal(
    score: Any,
    family: LocationScale | Family | SymbolicFamily,
    *,
    estimate: Callable[..., Any] | None = None,
    level: float = 0.9,
) -> Pivotality:
    """Test whether a score is a pivotal quantity for a family of distributions.

    The test compares the members at all combinations of the family's values: the probability of a score of at most t,
    at many t. The score's interval and the member's cdf give this probability exactly up to rounding, without
    sampling. A plain function has no interval, so its probabilities are counted on a grid of 10 000 targets.

    For location-scale families and the scores of this package (without epsilon and floor), a positive result is also
    proved symbolically, for all parameters and any noise, if SymPy is installed (extra `theory`).

    `ProbabilityDistance` needs the model's distribution. It is given by its quantiles at 401 probabilities, and
    interpolated between them. The members are compared at the thresholds whose intervals end at such quantiles. So the
    result is about the distribution itself: it does not include the error of the interpolation.

    Parameters
    ----------
    score : Score, callable, or sympy.Expr
        A nonconformity score, or any function of (y, prediction). For a `SymbolicFamily`: an expression that is
        monotone in y.
    family : LocationScale, Family or SymbolicFamily
        The distributions of the target, given its features. For a `SymbolicFamily` the test is symbolic only.
    estimate : callable, optional
        The model's prediction as a function of the family's parameters, by name: a pair (center, spread), a
        distribution with a method ``ppf``, such as ``scipy.stats.gamma(2)``, or a `Prediction` of one row. By default
        the true mean and standard deviation; for `ProbabilityDistance` the true distribution. A proof needs a function
        that uses only arithmetic operators.
    level : float
        Level of the prediction's bounds: center ± z spread, or quantiles of the distribution. `IntervalDistance` and
        `RelativeIntervalDistance` measure the distance from them.

    Examples
    --------
    >>> from evencover import IntervalDistance, Normalized, Residual
    >>> from evencover.theory import NORMAL
    >>> bool(is_pivotal(Normalized(), NORMAL)), bool(is_pivotal(Residual(), NORMAL))
    (True, False)
    >>> is_pivotal(IntervalDistance(), NORMAL, level=0.8).even_at
    (0.8,)
    """
    level = float(level_fraction(level))
    if isinstance(family, SymbolicFamily):
        return _symbolic_result(score, family, estimate)
    _check_score(score)
    family = _as_family(family)
    if estimate is not None:
        check_parameters(estimate, "estimate", family.values)
    comparison = _Comparison(score, family, estimate, level)
    return comparison.result(_proof(comparison))


def _check_score(score: Any) -> None:
    """Raise TypeError unless a score is a function of targets and predictions."""
    if isinstance(score, type):
        raise TypeError(f"score must be a score, such as Normalized(), not the class itself; got {score.__name__}")
    if hasattr(score, "free_symbols"):
        raise TypeError(f"family must be a SymbolicFamily if the score is a SymPy expression; got the score {score}")
    if not callable(score):
        raise TypeError(f"score must be a score, such as Normalized(), or a function of (y, prediction); got {score!r}")


def _as_family(family: Any) -> Family:
    """Return a family with parameter values to compare."""
    if isinstance(family, LocationScale):
        return family.along(lambda mean, spread: (mean, spread), mean=_MEANS, spread=_SPREADS)
    if not isinstance(family, Family):
        raise TypeError(f"family must be a LocationScale, a Family or a SymbolicFamily; got {type(family).__name__}")
    return family


def _symbolic_result(score: Any, family: SymbolicFamily, estimate: Any) -> Pivotality:
    """Return the result of the paper's condition."""
    if not hasattr(score, "free_symbols"):
        raise TypeError(
            f"score must be a SymPy expression for a SymbolicFamily; got {type(score).__name__}. For scores of this "
            "package, pass a LocationScale or a Family"
        )
    if estimate is not None:
        raise ValueError(
            "estimate must be left out for a SymbolicFamily: the score's expression already contains the prediction"
        )
    pivotal = vanishes(pivotality_condition(score, family))
    if pivotal is None or (pivotal and family.cdf is None and not has_fixed_range(score, family)):
        raise ValueError(
            f"SymPy cannot decide whether {score} is pivotal; pass the family's cdf=, or compare members with a Family"
        )
    return Pivotality(pivotal=pivotal, how="proved")


def _proof(comparison: "_Comparison") -> Proof | None:
    """Return the symbolic result, or None if there is none or SymPy is not installed."""
    family = comparison.family
    if family.moments is None:
        return None
    try:
        return proof(comparison.score, family, comparison.estimate or family.moments, comparison.level)
    except ImportError:
        return None


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The score's distribution under every member of a family."""

    score: Any
    family: Family
    estimate: Callable[..., Any] | None
    level: float
    members: list[tuple[Theta, Distribution, Prediction]] = field(init=False)

    def __post_init__(self) -> None:
        members = [(theta, each, self._prediction(theta, each)) for theta, each in self.family.members()]
        object.__setattr__(self, "members", members)

    def result(self, proved: Proof | None) -> Pivotality:
        """Return whether the members agree. A proof counts only if they do."""
        gaps = self._gaps(self._thresholds)
        cdfs = np.array([self._score_cdf(self._thresholds, which) for which in range(len(self.members))])
        difference = float(gaps.max())
        if difference < (_TOLERANCE if self._invertible else _GRID_TOLERANCE):
            how = "proved" if proved is not None and proved.pivotal else "compared"
            return Pivotality(pivotal=True, how=how, members=len(cdfs), difference=difference)
        at_largest_gap = cdfs[:, gaps.argmax()].round(9)  # among members that differ by rounding only, take the first
        pair = int(at_largest_gap.argmax()), int(at_largest_gap.argmin())
        crossings = self._crossings(cdfs[pair[0]] - cdfs[pair[1]], pair) if self._invertible else ()
        return Pivotality(
            pivotal=False,
            how="compared",
            members=len(cdfs),
            difference=difference,
            between=tuple(self.members[which][0] for which in pair),
            even_at=self._even_levels((*crossings, *(proved.even_thresholds if proved else ()))),
        )

    def _prediction(self, theta: Theta, member: Distribution) -> Prediction:
        """Return the model's prediction for one row of this member."""
        estimated = self._truth(theta, member) if self.estimate is None else self.estimate(**theta)
        if isinstance(estimated, Prediction) and len(estimated) == 1:
            return estimated
        if hasattr(estimated, "ppf") and not isinstance(estimated, Prediction):
            return _predicted_distribution(estimated, self.level)
        try:
            center, spread = (float(part) for part in estimated)
        except (TypeError, ValueError):
            raise TypeError(
                "estimate must return a pair (center, spread), a distribution with a method ppf or a Prediction of one "
                f"row; got {estimated!r}"
            ) from None
        if not (np.isfinite(center) and 0 < spread < np.inf):
            raise ValueError(
                "estimate must return a finite center and a positive spread; it returned "
                f"{estimated!r} for the parameters {theta}"
            )
        return Prediction([center], [spread], level=self.level)

    def _truth(self, theta: Theta, member: Distribution) -> Any:
        """Return what a model without error predicts: the distribution if the score uses it, or mean and spread."""
        if _uses_distribution(self.score):
            return member
        moments = (member.mean(), member.std())
        if not np.isfinite(moments).all():
            raise ValueError(
                f"the distribution with the parameters {theta} has no finite mean or no finite standard deviation; "
                "pass estimate=, a function of the parameters that returns the model's prediction"
            )
        return moments

    @property
    def _invertible(self) -> bool:
        return hasattr(self.score, "interval")

    @property
    def _knows_distributions(self) -> bool:
        """Whether the score measures distances in probability, and every prediction has the quantiles at `_KNOTS`."""
        probabilities = [prediction.probabilities for _, _, prediction in self.members]
        known = all(each is not None and np.array_equal(each, _KNOTS) for each in probabilities)
        return known and _uses_distribution(self.score)

    @cached_property
    def _grid_scores(self) -> list[FloatArray]:
        """Each member's sorted scores of targets at equal steps of probability, each of shape (grid,)."""
        p = (np.arange(_GRID) + 0.5) / _GRID
        rows = np.zeros(_GRID, dtype=int)
        grid = [self.score(np.asarray(member.ppf(p)), prediction[rows]) for _, member, prediction in self.members]
        checks: dict[str, Any] = {"length": _GRID, "matched": "the targets", "finite": False}
        return [np.sort(checked_vector(scores, "the score's values", **checks)) for scores in grid]

    @cached_property
    def _thresholds(self) -> FloatArray:
        """The thresholds of the comparison: quantiles of each member's scores, and the midpoints between them.

        For distances in the probability of a distribution: those at which the intervals end at its known quantiles.
        """
        if self._knows_distributions:
            below = ndtri(_KNOTS[: len(_PROBABILITIES)])
            return np.concatenate([below, [0.0], -below[::-1]])
        with np.errstate(invalid="ignore"):  # between infinite scores, of targets outside a support
            quantiles = np.unique(np.quantile(self._grid_scores, _PROBABILITIES, axis=1))
        return np.sort(np.concatenate([quantiles, (quantiles[1:] + quantiles[:-1]) / 2]))

    def _score_cdf(self, thresholds: FloatArray, which: int, ulps: int = 0) -> FloatArray:
        """Return a member's probability of a score of at most each threshold, for intervals widened by some ulps."""
        if not self._invertible:
            return np.searchsorted(self._grid_scores[which], thresholds, side="right") / _GRID
        _, member, prediction = self.members[which]
        intervals = interval_by(self.score, thresholds, prediction[np.zeros(len(thresholds), dtype=int)])
        lower = _shift(intervals.lower, -ulps, prediction)
        upper = _shift(intervals.upper, ulps, prediction)
        below = member.cdf(np.nextafter(lower, -np.inf))  # the interval is closed
        return np.where(lower > upper, 0.0, np.asarray(member.cdf(upper)) - np.asarray(below))

    def _gaps(self, thresholds: FloatArray, *, largest_error: float = _GRID_TOLERANCE) -> FloatArray:
        """Return the largest difference between two members at each threshold, beyond the rounding margin.

        Intervals between quantiles of a discrete distribution end at its mass points, which the margin includes and
        excludes. So for such scores differences above the largest error of rounding count also without the margin,
        unless all members have densities, as in location-scale families.
        """
        which = range(len(self.members))
        smallest = np.min([self._score_cdf(thresholds, each, _ULPS) for each in which], axis=0)
        largest = np.max([self._score_cdf(thresholds, each, -_ULPS) for each in which], axis=0)
        gaps = np.asarray(np.maximum(largest - smallest, 0.0))
        if self.family.moments is not None or not _uses_distribution(self.score):
            return gaps
        plain = np.ptp([self._score_cdf(thresholds, each) for each in which], axis=0)
        return np.where(plain > largest_error, np.maximum(gaps, plain), gaps)

    def _crossings(self, gaps: FloatArray, pair: tuple[int, int]) -> tuple[float, ...]:
        """Return the thresholds at which two members agree, given their differences at `_thresholds`."""

        def gap(threshold: float) -> float:
            one, other = (self._score_cdf(np.array([threshold]), which)[0] for which in pair)
            return float(one - other)

        signed = np.flatnonzero(gaps)
        sign_changes = np.flatnonzero(np.diff(np.sign(gaps[signed])))
        brackets = [self._thresholds[signed[[i, i + 1]]] for i in sign_changes]
        return tuple(float(brentq(gap, low, high, xtol=1e-14)) for low, high in brackets)

    def _even_levels(self, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        """Return the levels of those thresholds at which all members agree."""
        even = [t for t in thresholds if self._gaps(np.array([t]), largest_error=_TOLERANCE)[0] < _TOLERANCE]
        levels = {round(float(self._score_cdf(np.array([t]), 0)[0]), 9) for t in even}
        return tuple(sorted(level for level in levels if 0 < level < 1))


def _uses_distribution(score: Any) -> bool:
    """Return whether a score, or the score that it wraps, uses the quantiles of a prediction."""
    while hasattr(score, "score"):
        score = score.score
    return "quantiles" in (getattr(score, "prediction_parts", None) or ())


def _predicted_distribution(distribution: Any, level: float) -> Prediction:
    """Return the prediction of a distribution, for one row: its median, its bounds at the level and its quantiles."""
    quantiles = np.asarray(distribution.ppf(_KNOTS), dtype=float)
    lower, upper = np.asarray(distribution.ppf(np.array([(1 - level) / 2, (1 + level) / 2])), dtype=float)
    return Prediction(None, None, [lower], [upper], quantiles=[quantiles], probabilities=_KNOTS, level=level)


def _shift(bound: FloatArray, ulps: int, prediction: Prediction) -> FloatArray:
    """Return bounds shifted by some units in the last place of the bound and the center."""
    size = np.where(np.isinf(bound), 0.0, np.abs(bound)) + np.abs(prediction.center)
    return np.asarray(bound + ulps * np.finfo(float).eps * size)
