"""One tail of a score: upper bounds, or lower bounds, instead of intervals."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals
from evencover.intervals import Side as Side
from evencover.predictions import Prediction
from evencover.scores.score import (
    Nonconformity,
    Score,
    Symbols,
    checked_score,
    checked_target,
    has_tails,
    needs_scale,
    score_with_scale,
    states,
    symbolic_reach,
)
from evencover.scores.support import Bounded, without_support


@dataclass(frozen=True)
class OneSided:
    """One tail of a score: how far a target is above what was predicted, or below it.

    With ``side="upper"`` the interval at threshold t is (−inf, U(t)], an upper prediction bound, where U(t) is the
    upper end of the score's own interval at t. With ``side="lower"`` it is [L(t), inf). Calibrated at level 0.9, an
    upper bound is exceeded by at most 10 % of the targets. ``OneSided(Normalized())`` is the same as
    ``Standardized()``.

    The scores of this package know their two tails. Any other score is used around the center: a target on the other
    side of the center scores −inf, and U(t) is at least the center. These bounds are valid for every score. They are
    the smallest ones if the score grows with the distance from the center.

    Parameters
    ----------
    score : score
        A two-sided score.
    side : {"upper", "lower"}
        The side of the bound.

    Examples
    --------
    >>> from evencover import Normalized
    >>> prediction = Prediction([2.0, 2.0], spread=[0.5, 3.0])
    >>> OneSided(Normalized(), side="lower")([1.0, 5.0], prediction)
    array([ 2., -1.])
    >>> OneSided(Normalized(), side="lower").interval(2.0, prediction).lower.round(3)
    array([ 1., -4.])
    """

    score: Score
    side: Side = "upper"

    def __post_init__(self) -> None:
        checked_score(self.score, "score")
        if isinstance(self.score, Bounded):
            raise ValueError(f"score must not be Bounded: use Bounded(OneSided(...), ...); got {self.score!r}")
        if is_one_sided(self.score):
            raise ValueError(f"score must be a two-sided score, such as Normalized(); got {self.score!r}")
        if self.side not in ("lower", "upper"):
            raise ValueError(f"side must be 'lower' or 'upper'; got {self.side!r}")

    @property
    def innermost(self) -> Score:
        """The score of which it is one tail."""
        return self.score

    @property
    def needs_scale(self) -> bool:
        """Whether the score needs the median spread of the training rows."""
        return needs_scale(self.score)

    def with_scale(self, scale: float) -> Self:
        """Return the same tail of the score with this scale."""
        return replace(self, score=score_with_scale(self.score, scale))

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return one tail of the score. Shape (n,)."""
        return self.formula(checked_target(y, prediction), prediction)  # type: ignore[no-any-return]

    def formula(self, y: Any, prediction: Any) -> Any:
        """Return one tail of the score of targets that were checked."""
        is_upper = self.side == "upper"
        if has_tails(self.score):
            below, above = self.score.tails(y, prediction)  # type: ignore[attr-defined]
            return above if is_upper else below
        counts = y > prediction.center if is_upper else y < prediction.center
        return np.where(counts, self.score(y, prediction), -np.inf)

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return ``(−inf, U(threshold)]``, or ``[L(threshold), inf)``."""
        return Intervals(*self.ends(threshold, prediction))

    def ends(self, threshold: Any, prediction: Any) -> tuple[Any, Any]:
        """Return −inf and ``U(threshold)``, or ``L(threshold)`` and inf."""
        lower, upper = self._two_sided_ends(threshold, prediction)
        infinite = prediction.arithmetic.infinite
        return (infinite(-1, upper), upper) if self.side == "upper" else (lower, infinite(1, lower))

    def symbolic_reach(self, symbols: Symbols) -> Any:
        """Return the distance of both ends of the two-sided score."""
        return symbolic_reach(self.score, symbols)

    def _two_sided_ends(self, threshold: Any, prediction: Any) -> tuple[Any, Any]:
        """Return the ends of the two-sided interval; for a score without tails, an interval that has the center."""
        if states(self.score, "ends") and has_tails(self.score):
            return self.score.ends(threshold, prediction)  # type: ignore[attr-defined,no-any-return]
        if has_tails(self.score):
            intervals = self.score.interval(threshold, prediction)
            return intervals.lower, intervals.upper
        center = prediction.center
        no_target = np.isneginf(threshold)  # all calibration rows are on the other side of the center
        finite = np.where(no_target, 0.0, threshold)
        intervals = self.score.interval(finite if finite.ndim else float(finite), prediction)
        no_target = no_target | intervals.empty
        lower, upper = np.minimum(intervals.lower, center), np.maximum(intervals.upper, center)
        return np.where(no_target, center, lower), np.where(no_target, center, upper)


def is_one_sided(score: Score) -> bool:
    """Return whether the intervals of a score have a bound on one side only, so that they have no width."""
    return side_of(score) in ("lower", "upper")


def side_of(nonconformity: Nonconformity) -> Side | Literal["both"] | None:
    """Return which ends of a score's intervals are bounds; None if the score does not tell, or groups differ."""
    if isinstance(nonconformity, Mapping):
        sides = {side_of(score) for score in nonconformity.values()}
        return sides.pop() if len(sides) == 1 else None
    inner = without_support(nonconformity)
    side = getattr(inner, "side", None)
    return side if side in ("lower", "upper") else "both" if has_tails(inner) else None
