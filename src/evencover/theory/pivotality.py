"""Is a score a pivotal quantity? By algebra where that is possible, by comparing distributions everywhere.

A score is *pivotal* for a family of distributions if its own distribution is the same for every member. Then one
threshold, calibrated on all rows together, covers every kind of row evenly, at every level.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import brentq

from evencover._internal.arrays import FloatArray, checked_vector
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction
from evencover.scores import interval_by
from evencover.theory.families import Distribution, Family, LocationScale, check_parameters
from evencover.theory.symbolic import Proof, SymbolicFamily, has_fixed_range, pivotality_condition, proof, vanishes

Theta: TypeAlias = dict[str, float]

_MEANS, _SPREADS = (-2.3, 0.0, 3.7), (0.2, 1.0, 4.5)  # where location-scale families are compared
_SAME = 1e-9  # of two probabilities computed from a cdf
_ULPS = 16  # by how many units in the last place a bound may be off
_SAME_ON_GRID = 1e-3  # of two probabilities counted on a grid of targets
_GRID = 10_000  # targets at equal steps of probability
_PROBABILITIES = np.linspace(0.0005, 0.9995, 200)  # at which each member's scores give a threshold to compare at


@dataclass(frozen=True)
class Pivotality:
    """The answer of `is_pivotal`; true where the score is pivotal.

    Parameters
    ----------
    pivotal : bool
        Whether the score's distribution is free of the parameters.
    how : str
        "proved" by algebra, or "compared" between members of the family.
    members : int
        How many members were compared; 0 for a symbolic family.
    difference : float, optional
        Largest difference between two members' probabilities of a score up to the same threshold, beyond rounding.
    between : tuple of two dict
        The parameters of these two members, if the score is not pivotal.
    even_at : tuple of float
        Single levels at which one threshold is even although the score is not pivotal. Not looked for where the
        score is a plain function.
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
            return f"Pivotal ({how}): one threshold is even at every level."
        where = " and ".join(", ".join(f"{name}={value:g}" for name, value in theta.items()) for theta in self.between)
        gap = f" One threshold can cover {self.difference or 0:.3g} more of one member than of another ({where})."
        even = f" At level {' and '.join(f'{level:.6g}' for level in self.even_at)} it is even nevertheless."
        return f"Not pivotal ({self.how}).{gap if self.between else ''}{even if self.even_at else ''}"


def is_pivotal(
    score: Any,
    family: LocationScale | Family | SymbolicFamily,
    *,
    estimate: Callable[..., Any] | None = None,
    level: float = 0.9,
) -> Pivotality:
    """Decide whether a score is a pivotal quantity for a family of distributions.

    Members of the family are compared: the probability of a score of at most t, by the score's interval and the
    member's cdf, at many t, over all combinations of the family's values. That is exact up to rounding, without
    sampling; only a plain function, which has no interval, is counted on a grid of 10 000 targets. For location-scale
    families and the scores of this package (without epsilon and floor), a yes is also proved by algebra, for all
    parameters and any noise, if SymPy is there (extra `theory`).

    Parameters
    ----------
    score : Score, callable, or sympy.Expr
        A nonconformity score; any function of (y, prediction); or, for a `SymbolicFamily`, an expression that is
        monotone in y.
    family : LocationScale, Family or SymbolicFamily
        The distributions of the target, given its features. A symbolic one is decided by algebra alone.
    estimate : callable, optional
        What the model believes, in terms of the family's parameters by name: a pair (center, spread) or a
        `Prediction` of one row. The true mean and standard deviation by default. For algebra, use plain operators.
    level : float
        Level of the prediction's own bounds, center ± z spread, which `IntervalDistance` measures from.

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
        return _decided_by_condition(score, family, estimate)
    _check_score(score)
    family = _as_family(family)
    if estimate is not None:
        check_parameters(estimate, "estimate", family.values)
    comparison = _Comparison(score, family, estimate, level)
    return comparison.answer(_proof(comparison))


def _check_score(score: Any) -> None:
    """Raise unless a score can be called on targets and predictions."""
    if isinstance(score, type):
        raise TypeError(f"score must be a score, such as Normalized(), not the class itself; got {score.__name__}")
    if hasattr(score, "free_symbols"):
        raise TypeError(f"a SymPy expression goes with a SymbolicFamily; got {score}")
    if not callable(score):
        raise TypeError(f"score must be a score, such as Normalized(), or a function of (y, prediction); got {score!r}")


def _as_family(family: Any) -> Family:
    """Return a family with parameters to compare."""
    if isinstance(family, LocationScale):
        return family.along(lambda mean, spread: (mean, spread), mean=_MEANS, spread=_SPREADS)
    if not isinstance(family, Family):
        raise TypeError(f"family must be a LocationScale, a Family or a SymbolicFamily; got {type(family).__name__}")
    return family


def _decided_by_condition(score: Any, family: SymbolicFamily, estimate: Any) -> Pivotality:
    """Return the answer of the paper's condition."""
    if not hasattr(score, "free_symbols"):
        raise TypeError(
            "score must be a SymPy expression for a SymbolicFamily; scores of this package go with a LocationScale or "
            f"a Family. Got {type(score).__name__}"
        )
    if estimate is not None:
        raise ValueError(
            "estimate goes with a LocationScale or a Family; a symbolic score says itself what is believed"
        )
    answer = vanishes(pivotality_condition(score, family))
    if answer is None or (answer and family.cdf is None and not has_fixed_range(score, family)):
        raise ValueError(f"algebra cannot tell whether {score} is pivotal; give cdf=, or compare it with a Family")
    return Pivotality(pivotal=answer, how="proved")


def _proof(comparison: "_Comparison") -> Proof | None:
    """Return what algebra says, if it applies and SymPy is installed."""
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
        members = [(theta, each, self._said(theta, each)) for theta, each in self.family.members()]
        object.__setattr__(self, "members", members)

    def answer(self, proved: Proof | None) -> Pivotality:
        """Return whether the members agree; a proof counts only if they do."""
        gaps = self._gaps(self._thresholds)
        laws = np.array([self._law(self._thresholds, which) for which in range(len(self.members))])
        difference = float(gaps.max())
        if difference < (_SAME if self._invertible else _SAME_ON_GRID):
            how = "proved" if proved is not None and proved.pivotal else "compared"
            return Pivotality(pivotal=True, how=how, members=len(laws), difference=difference)
        widest = laws[:, gaps.argmax()].round(9)  # of members that are the same but for rounding, the first
        pair = int(widest.argmax()), int(widest.argmin())
        crossings = self._crossings(laws[pair[0]] - laws[pair[1]], pair) if self._invertible else ()
        return Pivotality(
            pivotal=False,
            how="compared",
            members=len(laws),
            difference=difference,
            between=tuple(self.members[which][0] for which in pair),
            even_at=self._even_levels((*crossings, *(proved.even_thresholds if proved else ()))),
        )

    def _said(self, theta: Theta, member: Distribution) -> Prediction:
        """Return what a model says about one row of this member."""
        said = (member.mean(), member.std()) if self.estimate is None else self.estimate(**theta)
        if self.estimate is None and not np.isfinite(said).all():
            raise ValueError(
                f"the member at {theta} has no mean or no standard deviation; say what is believed by estimate="
            )
        if isinstance(said, Prediction) and len(said) == 1:
            return said
        try:
            center, spread = (float(part) for part in said)
        except (TypeError, ValueError):
            raise TypeError(
                f"estimate must return a pair (center, spread) or a Prediction of one row; got {said!r}"
            ) from None
        if not (np.isfinite(center) and 0 < spread < np.inf):
            raise ValueError(f"estimate must return a finite center and a positive spread; got {said!r} at {theta}")
        return Prediction([center], [spread], level=self.level)

    @property
    def _invertible(self) -> bool:
        return hasattr(self.score, "interval")

    @cached_property
    def _on_grid(self) -> list[FloatArray]:
        """Each member's sorted scores of targets at equal steps of probability, each of shape (grid,)."""
        p = (np.arange(_GRID) + 0.5) / _GRID
        rows = np.zeros(_GRID, dtype=int)
        found = [self.score(np.asarray(member.ppf(p)), said[rows]) for _, member, said in self.members]
        return [np.sort(checked_vector(scores, "the score's values", length=_GRID, finite=False)) for scores in found]

    @cached_property
    def _thresholds(self) -> FloatArray:
        """Where distributions are compared: at quantiles of each member's scores, and between them."""
        found = np.unique(np.quantile(self._on_grid, _PROBABILITIES, axis=1))
        return np.sort(np.concatenate([found, (found[1:] + found[:-1]) / 2]))

    def _law(self, thresholds: FloatArray, which: int, ulps: int = 0) -> FloatArray:
        """Return a member's probability of a score of at most each threshold; its interval wider by some ulps."""
        if not self._invertible:
            return np.searchsorted(self._on_grid[which], thresholds, side="right") / _GRID
        _, member, said = self.members[which]
        made = interval_by(self.score, thresholds, said[np.zeros(len(thresholds), dtype=int)])
        lower, upper = (_moved(bound, side * ulps, said) for side, bound in ((-1, made.lower), (1, made.upper)))
        below = member.cdf(np.nextafter(lower, -np.inf))  # the interval is closed
        return np.where(lower > upper, 0.0, np.asarray(member.cdf(upper)) - np.asarray(below))

    def _gaps(self, thresholds: FloatArray) -> FloatArray:
        """Return the largest difference between two members at each threshold, beyond what rounding may do."""
        which = range(len(self.members))
        most = np.min([self._law(thresholds, each, _ULPS) for each in which], axis=0)
        least = np.max([self._law(thresholds, each, -_ULPS) for each in which], axis=0)
        return np.asarray(np.maximum(least - most, 0.0))

    def _crossings(self, gaps: FloatArray, pair: tuple[int, int]) -> tuple[float, ...]:
        """Return the thresholds at which two members agree, given their difference at the thresholds compared."""

        def gap(threshold: float) -> float:
            one, other = (self._law(np.array([threshold]), which)[0] for which in pair)
            return float(one - other)

        signed = np.flatnonzero(gaps)
        changes = np.flatnonzero(np.diff(np.sign(gaps[signed])))
        brackets = [self._thresholds[signed[[i, i + 1]]] for i in changes]
        return tuple(float(brentq(gap, low, high, xtol=1e-14)) for low, high in brackets)

    def _even_levels(self, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        """Return the levels of those thresholds at which all members agree."""
        even = [t for t in thresholds if self._gaps(np.array([t]))[0] < _SAME]
        levels = {round(float(self._law(np.array([t]), 0)[0]), 9) for t in even}
        return tuple(sorted(level for level in levels if 0 < level < 1))


def _moved(bound: FloatArray, ulps: int, said: Prediction) -> FloatArray:
    """Return bounds moved by some units in the last place of what they were computed from."""
    size = np.where(np.isinf(bound), 0.0, np.abs(bound)) + np.abs(said.center)
    return np.asarray(bound + ulps * np.finfo(float).eps * size)
