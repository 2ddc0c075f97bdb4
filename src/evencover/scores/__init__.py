"""Nonconformity scores, each with its inverse.

A prediction interval is the set of targets whose score is at most a calibrated threshold. So a score is one frozen
object with a function and its inverse:

    score(y, prediction)                   how unusual each target is, shape (n,)
    score.interval(threshold, prediction)  all targets whose score is at most the threshold

Any object with these two methods can be used as a score.
"""

from typing import Any

from evencover.scores.bounds import IntervalDistance, RelativeIntervalDistance
from evencover.scores.evaluation import scores_of, threshold_intervals
from evencover.scores.one_sided import OneSided
from evencover.scores.probability import ProbabilityDistance
from evencover.scores.residuals import Normalized, Residual, Standardized
from evencover.scores.score import Score
from evencover.scores.support import Bounded

BUILTIN_SCORES: tuple[type[Any], ...] = (  # recommended scores are compared in this order
    Residual,
    IntervalDistance,
    Normalized,
    RelativeIntervalDistance,
    ProbabilityDistance,
    Standardized,
    OneSided,
    Bounded,
)

__all__ = [
    "BUILTIN_SCORES",
    "Bounded",
    "IntervalDistance",
    "Normalized",
    "OneSided",
    "ProbabilityDistance",
    "RelativeIntervalDistance",
    "Residual",
    "Score",
    "Standardized",
    "scores_of",
    "threshold_intervals",
]
