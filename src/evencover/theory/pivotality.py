"""Is a score a pivotal quantity? By algebra where that is possible, by comparing distributions elsewhere.

A score is *pivotal* for a family of distributions if its own distribution is the same for every member. Then one
threshold, calibrated on all rows together, covers every kind of row evenly, at every level.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import brentq

from evencover.inputs import FloatArray
from evencover.intervals import Intervals
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction
from evencover.scores import Score
from evencover.theory.families import Distribution, Family, LocationScale
from evencover.theory.symbolic import Proof, SymbolicFamily, pivotality_condition, proof, vanishes

Theta: TypeAlias = dict[str, float]

_MEANS, _SPREADS = (-2.0, 0.0, 3.0), (0.5, 1.0, 4.0)  # where location-scale families are compared
_SAME = 1e-6  # of two probabilities computed from the same cdf
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
        "proved" by algebra, or "compared" numerically over the family's values.
    difference : float
        Largest difference between two members' probabilities of a score up to the same threshold; 0 if proved.
    between : tuple of two dict
        The parameters of these two members; empty if proved or disproved by algebra alone.
    even_at : tuple of float
        Single levels at which one threshold is even although the score is not pivotal.
    """

    pivotal: bool
    how: str
    difference: float = 0.0
    between: tuple[Theta, ...] = ()
    even_at: tuple[float, ...] = ()

    def __bool__(self) -> bool:
        return self.pivotal

    def __str__(self) -> str:
        if self.pivotal:
            return f"Pivotal ({self.how}): one threshold is even at every level."
        where = " and ".join(", ".join(f"{name}={value:g}" for name, value in theta.items()) for theta in self.between)
        gap = f" One threshold can cover {self.difference:.3f} more of one member than of another ({where})."
        even = f" It is even at level {' and '.join(f'{level:.6g}' for level in self.even_at)} only."
        return f"Not pivotal ({self.how}).{gap if self.between else ''}{even if self.even_at else ''}"


def is_pivotal(
    score: Any,
    family: LocationScale | Family | SymbolicFamily,
    *,
    estimate: Callable[..., Any] | None = None,
    level: float = 0.9,
) -> Pivotality:
    """Decide whether a score is a pivotal quantity for a family of distributions.

    For location-scale families the scores of this package are decided by algebra if SymPy is there (extra
    `theory`) and the answer is yes. Everything else is compared: the probability of a score of at most t, by the
    score's interval and the member's cdf, at many t, over all combinations of the family's values. That is exact
    up to rounding, without sampling; only a plain function, which has no interval, is counted on a grid of
    10 000 targets.

    Parameters
    ----------
    score : Score, callable, or sympy.Expr
        A nonconformity score; any function of (y, prediction); or, for a `SymbolicFamily`, an expression that
        increases in y.
    family : LocationScale, Family or SymbolicFamily
        The distributions of the target, given its features.
    estimate : callable, optional
        What the model believes, in terms of the family's parameters by name: a pair (center, spread) or a
        `Prediction`. The true mean and standard deviation by default. For algebra, use plain operators.
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
    if isinstance(family, SymbolicFamily):
        return _decided_by_condition(score, family)
    if not callable(score):
        raise TypeError(f"score must be a score, such as Normalized(), or a function of (y, prediction); got {score!r}")
    family = _as_family(family)
    proved = _proof(score, family, estimate)
    if proved is not None and proved.pivotal:
        return Pivotality(pivotal=True, how="proved")
    return _compared(score, family, estimate, proved, level=float(level_fraction(level)))


def _as_family(family: Any) -> Family:
    """Return a family with parameters to compare."""
    if isinstance(family, LocationScale):
        return family.along(lambda mean, spread: (mean, spread), mean=_MEANS, spread=_SPREADS)
    if not isinstance(family, Family):
        raise TypeError(f"family must be a LocationScale, a Family or a SymbolicFamily; got {type(family).__name__}")
    return family


def _decided_by_condition(score: Any, family: SymbolicFamily) -> Pivotality:
    """Return the answer of the paper's condition."""
    if not hasattr(score, "free_symbols"):
        raise TypeError(
            "score must be a SymPy expression for a SymbolicFamily; scores of this package go with a LocationScale or "
            f"a Family. Got {type(score).__name__}"
        )
    answer = vanishes(pivotality_condition(score, family))
    if answer is None:
        raise ValueError(f"algebra cannot tell whether {score} is pivotal; compare it numerically with a Family")
    return Pivotality(pivotal=answer, how="proved")


def _proof(score: Any, family: Family, estimate: Callable[..., Any] | None) -> Proof | None:
    """Return what algebra says, if it applies and SymPy is installed."""
    if family.standard is None or family.moments is None:
        return None
    try:
        return proof(score, family, estimate or family.moments)
    except ImportError:
        return None


def _compared(
    score: Any, family: Family, estimate: Callable[..., Any] | None, proved: Proof | None, *, level: float
) -> Pivotality:
    """Return the answer of a comparison of all members' score distributions."""
    thetas, members = zip(*family.members(), strict=True)
    predictions = [_prediction(theta, member, estimate, level) for theta, member in family.members()]
    on_grid = [_scores_on_grid(score, member, said) for member, said in zip(members, predictions, strict=True)]
    thresholds = np.unique(np.quantile(on_grid, _PROBABILITIES, axis=1))
    invertible = hasattr(score, "interval")

    def law(threshold: FloatArray, which: int) -> FloatArray:
        if not invertible:
            return np.searchsorted(on_grid[which], threshold, side="right") / _GRID
        return _probability(score, threshold, members[which], predictions[which])

    laws = np.array([law(thresholds, which) for which in range(len(members))])  # (members, thresholds)
    gaps = np.ptp(laws, axis=0)
    if gaps.max() < (_SAME if invertible else _SAME_ON_GRID):
        return Pivotality(pivotal=True, how="compared", difference=float(gaps.max()))
    widest = laws[:, gaps.argmax()].round(9)  # of members that are the same but for rounding, the first
    pair = int(widest.argmax()), int(widest.argmin())
    crossings = (
        () if not invertible else _crossings(law, thresholds, pair) if proved is None else proved.even_thresholds
    )
    return Pivotality(
        pivotal=False,
        how="compared",
        difference=float(gaps.max()),
        between=tuple(thetas[which] for which in pair),
        even_at=_even_levels(law, crossings, len(members)),
    )


def _prediction(theta: Theta, member: Distribution, estimate: Callable[..., Any] | None, level: float) -> Prediction:
    """Return what a model says about one row of this member."""
    said = (member.mean(), member.std()) if estimate is None else estimate(**theta)
    if isinstance(said, Prediction):
        return said
    try:
        center, spread = said
        return Prediction([float(center)], [float(spread)], level=level)
    except (TypeError, ValueError) as error:
        raise TypeError(f"estimate must return a pair (center, spread) or a Prediction; got {said!r}") from error


def _scores_on_grid(score: Any, member: Distribution, said: Prediction) -> FloatArray:
    """Return the sorted scores of targets at equal steps of probability. Shape (grid,)."""
    targets = member.ppf((np.arange(_GRID) + 0.5) / _GRID)
    return np.sort(score(targets, said[np.zeros(_GRID, dtype=int)]))


def _probability(score: Score, threshold: FloatArray, member: Distribution, said: Prediction) -> FloatArray:
    """Return the member's probability of a score of at most each threshold, exactly."""
    made: Intervals = score.interval(threshold, said[np.zeros(len(threshold), dtype=int)])
    inside = np.asarray(member.cdf(made.upper)) - np.asarray(member.cdf(made.lower))
    return np.where(made.empty, 0.0, inside)


def _crossings(
    law: Callable[[FloatArray, int], FloatArray], thresholds: FloatArray, pair: tuple[int, int]
) -> tuple[float, ...]:
    """Return the thresholds at which the two members that differ most agree."""

    def gap(threshold: float) -> float:
        one, other = (law(np.array([threshold]), which)[0] for which in pair)
        return float(one - other)

    gaps = law(thresholds, pair[0]) - law(thresholds, pair[1])
    changes = np.flatnonzero(gaps[:-1] * gaps[1:] < 0)
    return tuple(float(brentq(gap, thresholds[i], thresholds[i + 1], xtol=1e-14)) for i in changes)


def _even_levels(
    law: Callable[[FloatArray, int], FloatArray], crossings: tuple[float, ...], n_members: int
) -> tuple[float, ...]:
    """Return the levels of those thresholds at which all members agree."""
    laws = [[law(np.array([threshold]), which)[0] for which in range(n_members)] for threshold in crossings]
    levels = [round(float(np.mean(each)), 9) for each in laws if np.ptp(each) < _SAME]
    return tuple(level for level in levels if 0 < level < 1)
