"""Alternatives to the current predictor: other scores and thresholds per group, evaluated on the calibration rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from evencover.calibration.two_tails import one_tail
from evencover.diagnostics.one_threshold import MarginalThreshold
from evencover.diagnostics.verdicts import Settings, Verdict
from evencover.groups import Groups, Label
from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals
from evencover.metrics import interval_scores
from evencover.predictions import Prediction
from evencover.rows import Rows
from evencover.scores import BUILTIN_SCORES, Bounded, Score
from evencover.scores.evaluation import interval_by
from evencover.scores.one_sided import Side, is_one_sided

MARGIN = 0.01  # relative difference of widths, or of interval scores, that is ignored
_SIDES: tuple[Side, Side] = ("lower", "upper")


@dataclass(frozen=True)
class Option:
    """A predictor that could be used, evaluated on the calibration rows.

    Parameters
    ----------
    nonconformity : Score
        The score.
    per_group : bool
        Whether every group has its own threshold.
    verdict : str
        Verdict on one threshold for all rows. With thresholds per group it is "even", which is guaranteed, if every
        threshold is finite.
    width : float
        Mean width of the intervals of these rows.
    interval_score : float
        Their mean interval score; infinite for one-sided bounds.
    widths : mapping from label to float
        Mean width in each group that has rows.
    """

    nonconformity: Score
    per_group: bool
    verdict: Verdict
    width: float
    interval_score: float
    widths: Mapping[Label, float]


def evaluate_options(
    rows: Rows,
    nonconformity: Score,
    current: MarginalThreshold,
    settings: Settings,
    *,
    per_group: bool = True,
    others: bool = True,
) -> tuple[Option, ...]:
    """Return the options for the current score, then those for the other usable scores if `others`.

    Each score has an option with one threshold for all rows and, if `per_group`, one with a threshold for each group.
    Pass `per_group=False` for groups of the target: the group of a new row is not known, so neither is its width.
    `current` is the marginal threshold of the current score.
    """
    result: list[Option] = []
    groups = current.groups
    for score in usable_scores(rows.prediction, nonconformity) if others else [nonconformity]:
        marginal = current if score is nonconformity else MarginalThreshold.of_rows(rows, groups, score, settings.level)
        marginal_verdict = marginal.verdict(settings.tolerance)
        result.append(_option(rows, groups, score, marginal.threshold, marginal_verdict, settings.level))
        # Rows without a group have code -1, and so get the last threshold: the marginal one.
        row_thresholds = np.append(marginal.group_thresholds, marginal.threshold)[groups.codes]
        group_verdict: Verdict = "even" if np.isfinite(row_thresholds).all() else "undecided"
        result += [_option(rows, groups, score, row_thresholds, group_verdict, settings.level)] * per_group
    return tuple(result)


def two_tails_quality(rows: Rows, groups: Groups, score: Score, level: Fraction) -> tuple[float, float]:
    """Return mean width and interval score with a threshold for each end and group, as `TwoTails` has them."""
    bounds = []
    for side in _SIDES:
        tail = one_tail(score, side)
        marginal = MarginalThreshold.of_rows(rows, groups, tail, (1 + level) / 2)
        row_thresholds = np.append(marginal.group_thresholds, marginal.threshold)[groups.codes]
        bounds.append(interval_by(tail, row_thresholds, rows.prediction))
    lower, upper = bounds
    both = Intervals(np.maximum(lower.lower, upper.lower), np.minimum(lower.upper, upper.upper))
    return float(both.width.mean()), mean_score(rows, both, level)


def mean_score(rows: Rows, intervals: Intervals, level: Fraction) -> float:
    """Return the mean interval score of rows with targets."""
    return float(interval_scores(rows.y, intervals, level).mean())  # type: ignore[arg-type]


def usable_scores(prediction: Prediction, first: Score) -> Iterator[Score]:
    """Yield a score and, if it is among those that are compared, the others that the prediction supports.

    If the score is `Bounded`, so are the others, with the same support.
    """
    if isinstance(first, Bounded):
        yield first
        _, *inner_scores = usable_scores(prediction, first.score)
        yield from map(first.around, inner_scores)
        return
    yield first
    compared = [each for each in BUILTIN_SCORES if hasattr(each, "for_prediction")]
    if type(first) in compared:
        others = (each.for_prediction(prediction.scored) for each in compared if each is not type(first))
        yield from (score for score in others if score is not None)


def _option(
    rows: Rows, groups: Groups, score: Score, threshold: float | FloatArray, verdict: Verdict, level: Fraction
) -> Option:
    """Return the option for a score with one threshold, or with an array of one threshold for each row."""
    intervals = interval_by(score, threshold, rows.prediction)
    widths, interval_score = intervals.width, mean_score(rows, intervals, level)
    if is_one_sided(score):  # the width up to a limit of the target says nothing
        widths, interval_score = np.full(len(widths), np.inf), np.inf
    means = {label: float(own.mean()) for label, own in groups.split(widths).items()}
    return Option(score, np.ndim(threshold) > 0, verdict, float(widths.mean()), interval_score, means)
