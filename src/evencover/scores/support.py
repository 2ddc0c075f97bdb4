"""`Bounded`: a score for targets that have limits, or that are whole numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np

from evencover.groups import Groups
from evencover.inputs.arrays import BoolArray, FloatArray, warn_user
from evencover.intervals import Intervals
from evencover.predictions import Prediction
from evencover.scores.residuals import Residual
from evencover.scores.score import Nonconformity, Score, checked_score, checked_target, needs_scale, score_with_scale
from evencover.target_support import Support

ScoreFunction: TypeAlias = Callable[[FloatArray, Prediction], FloatArray]
_RESIDUAL = Residual()


@dataclass(frozen=True, repr=False)
class Bounded:
    """Another score, for targets between limits, or for whole numbers: impossible targets have an infinite score.

    Targets below `y_min`, above `y_max` or, with `whole`, between two whole numbers score infinity. All others have
    the score of the inner score. So an interval is that of the inner score, cut at the limits. With `whole`, its ends
    are rounded inward to whole numbers, so it holds the same whole numbers as before.

    An interval that holds no possible target is replaced by one point, the nearest possible target: of those next to
    the middle of the interval and next to the predicted center, the one with the smallest score. `Intervals.replaced`
    marks these intervals. Such a point covers more than an empty interval, so the guaranteed coverage stays at least
    the level. All other intervals hold exactly the targets that score at most the threshold, if the threshold is
    finite. With an infinite threshold, the interval holds all possible targets.

    The guarantee assumes that all targets are possible ones, and its text says so. With a finite threshold it also
    holds if some are not, because calibration targets outside the support score infinity, too. `calibrate` warns and
    counts them.

    Parameters
    ----------
    score : score
        The inner score, `Residual()` by default. `Bounded` is the outermost score: ``Bounded(OneSided(...))``.
    y_min, y_max : float, optional
        The smallest and the largest possible target. ``y_min=0`` is for targets that are never negative, such as
        prices.
    whole : bool
        Whether all targets are whole numbers, such as counts.

    Examples
    --------
    >>> score, prediction = Bounded(y_min=0, whole=True), Prediction([1.3, 7.2])
    >>> score([-1.0, 9.0], prediction)
    array([inf, 1.8])
    >>> np.asarray(score.interval(2.0, prediction))
    array([[0., 3.],
           [6., 9.]])
    """

    score: Score = _RESIDUAL
    _: KW_ONLY
    y_min: float | None = None
    y_max: float | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        checked_score(self.score, "score")
        if isinstance(self.score, Bounded):
            raise ValueError(
                f"Bounded must be the outermost score, and there can be only one; got {self.score!r} in it"
            )
        for name in ("y_min", "y_max", "whole"):
            object.__setattr__(self, name, getattr(self.support, name))

    @cached_property
    def support(self) -> Support:
        """The possible targets."""
        return Support(self.y_min, self.y_max, self.whole)

    @property
    def innermost(self) -> Score:
        """The score inside, of which it may use one tail only."""
        return getattr(self.score, "innermost", self.score)

    @property
    def needs_scale(self) -> bool:
        """Whether the inner score has an epsilon or floor, but no scale yet."""
        return needs_scale(self.score)

    def with_scale(self, scale: float) -> Self:
        """Return the same score, whose inner score has this scale."""
        return self.around(score_with_scale(self.score, scale))

    def around(self, score: Any) -> Self:
        """Return the same support around another score."""
        return replace(self, score=score)

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return the inner score, and infinity for targets outside the support. Shape (n,)."""
        target = checked_target(y, prediction)
        return self.outside_infinite(target, self.score(target, prediction))

    def outside_infinite(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        """Return given scores of the targets, and infinity for targets outside the support. Shape (n,)."""
        return np.where(self.support.contains(y), scores, np.inf)

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return the possible targets of the inner score's interval; the nearest one if there is none."""
        return self.restrict(self.score.interval(threshold, prediction), prediction, self.score)

    def restrict(self, intervals: Intervals, prediction: Prediction, score: ScoreFunction) -> Intervals:
        """Return the possible targets of each interval; the nearest one, with the smallest score, if there is none."""
        lower, upper = self.support.restrict(intervals.lower, intervals.upper)
        replaced = ~(lower <= upper)
        if replaced.any():
            nearest = _nearest_targets(self.support, intervals[replaced], prediction[replaced], score)
            lower[replaced] = upper[replaced] = nearest
        return Intervals(lower, upper, replaced=replaced)

    def __repr__(self) -> str:
        settings = [(part.name, getattr(self, part.name), part.default) for part in fields(self)[1:]]
        given = (f"{name}={value!r}" for name, value, default in settings if value != default)
        return f"Bounded({', '.join([repr(self.score), *given])})"


def with_support(score: Score, support: Support | None) -> Score:
    """Return a score for targets with this support; the same score for None, or if it has a support already."""
    if support is None or isinstance(score, Bounded):
        return score
    return Bounded(score, y_min=support.y_min, y_max=support.y_max, whole=support.whole)


def without_support(score: Score) -> Score:
    """Return the score inside `Bounded`, or the score itself."""
    return score.score if isinstance(score, Bounded) else score


def _nearest_targets(
    support: Support, intervals: Intervals, prediction: Prediction, score: ScoreFunction
) -> FloatArray:
    """Return the possible target with the smallest score, for intervals that hold none. Shape (n,).

    The scores of this package are smallest at the middle of an interval that is empty from the start (from inf to -inf:
    at the center), or at the center, and increase on both sides.
    """
    with np.errstate(invalid="ignore"):
        middle = (intervals.lower + intervals.upper) / 2
    middle = np.where(np.isnan(middle), prediction.center, middle)
    return best_target([*support.neighbors(middle), *support.neighbors(prediction.center)], prediction, score)


def best_target(candidates: Sequence[FloatArray], prediction: Prediction, score: ScoreFunction) -> FloatArray:
    """Return the candidate with the smallest score in each row. Shape (n,)."""
    table = np.stack(candidates)  # (candidates, n)
    best = np.argmin([score(each, prediction) for each in table], axis=0)
    return np.asarray(table[best, np.arange(len(best))])


def support_of(nonconformity: Nonconformity) -> str | None:
    """Return the possible targets of a score, or of the scores of all groups, as text; None if all are possible."""
    if not isinstance(nonconformity, Mapping):
        return str(nonconformity.support) if isinstance(nonconformity, Bounded) else None
    texts = {label: support_of(score) for label, score in nonconformity.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{text} in group {label}" for label, text in texts.items() if text is not None)


def holds_whole_numbers(nonconformity: Nonconformity) -> bool:
    """Return whether the score, or the score of every group, has whole numbers as its support."""
    scores = nonconformity.values() if isinstance(nonconformity, Mapping) else [nonconformity]
    return all(isinstance(score, Bounded) and score.whole for score in scores)


def outside_support(nonconformity: Nonconformity, y: FloatArray, groups: Groups) -> BoolArray:
    """Return whether each target is impossible by the support of its group's score. Shape (n,)."""
    if not isinstance(nonconformity, Mapping):
        inside = nonconformity.support.contains(y) if isinstance(nonconformity, Bounded) else np.ones(len(y), bool)
        return ~inside
    outside = np.zeros(len(y), dtype=bool)
    for code, label in enumerate(groups.labels):
        members = groups.codes == code
        outside[members] = outside_support(nonconformity[label], y[members], groups[members])
    return outside


class OutsideSupportWarning(UserWarning):
    """Some targets are impossible by the support of the score."""


def warn_of_targets_outside(nonconformity: Nonconformity, y: FloatArray, groups: Groups) -> None:
    """Warn if calibration targets are impossible by the support of the score, with their number."""
    if (support := support_of(nonconformity)) is None:
        return
    if n_outside := np.count_nonzero(outside_support(nonconformity, y, groups)):
        warn_user(
            f"calibration targets outside the support of the score, which is {support}: {n_outside} "
            f"of {len(y)}. They score infinity, which makes intervals wider; no interval covers such a target",
            OutsideSupportWarning,
        )
