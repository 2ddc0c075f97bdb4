"""Test whether a score is a pivotal quantity, by comparison of distributions and, where possible, by a proof.

A score is *pivotal* for a family of distributions if the score's distribution is the same for every member. Then one
threshold, calibrated on all rows jointly, gives the same coverage for every member, at every level.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from evencover.inputs.arrays import FloatArray, checked_vector
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction
from evencover.scores.evaluation import interval_by
from evencover.theory.families import Distribution, Family, LocationScale, check_parameters
from evencover.theory.symbolic import Proof, SymbolicFamily, has_fixed_range, pivotality_condition, proof, vanishes

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
