"""Alternatives to the current predictor: other scores and thresholds per group, evaluated on the calibration rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.diagnostics._verdict import Settings, Verdict
from evencover.groups import Groups, Label
from evencover.predictions import Prediction, Rows
from evencover.scores import IntervalDistance, Normalized, Residual, Score, interval_by, scores_of


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
    widths : mapping from label to float
        Mean width in each group that has rows.
    """

    nonconformity: Score
    per_group: bool
    verdict: Verdict
    width: float
    widths: Mapping[Label, float]


def evaluate_options(
    rows: Rows, nonconformity: Score, current: MarginalThreshold, settings: Settings, *, per_group: bool = True
) -> tuple[Option, ...]:
    """Return the options for the current score, then those for the other usable scores.

    Each score has an option with one threshold for all rows and, if `per_group`, one with a threshold for each group.
    Pass `per_group=False` for groups of the target: the group of a new row is not known, so neither is its width.
    `current` is the marginal threshold of the current score.
    """
    result: list[Option] = []
    groups = current.groups
    for score in usable_scores(rows.prediction, nonconformity):
        marginal = (
            current if score is nonconformity else MarginalThreshold(scores_of(score, rows), groups, settings.level)
        )
        marginal_verdict = marginal.verdict(settings.tolerance)
        result.append(_option(rows, groups, score, marginal.threshold, marginal_verdict))
        # Rows without a group have code -1, and so get the last threshold: the marginal one.
        row_thresholds = np.append(marginal.group_thresholds, marginal.threshold)[groups.codes]
        group_verdict: Verdict = "even" if np.isfinite(row_thresholds).all() else "undecided"
        result += [_option(rows, groups, score, row_thresholds, group_verdict)] * per_group
    return tuple(result)


def usable_scores(prediction: Prediction, first: Score) -> Iterator[Score]:
    """Yield a score and, if it is one of the paper's three, the others of them that the prediction supports."""
    yield first
    spread = prediction.spread
    smallest = -1.0 if spread is None else float(spread.min(initial=np.inf))
    others: dict[Score, bool] = {Residual(): True, IntervalDistance(): smallest >= 0, Normalized(): smallest > 0}
    if type(first) in map(type, others):
        yield from (score for score, usable in others.items() if usable and type(score) is not type(first))


def _option(rows: Rows, groups: Groups, score: Score, threshold: float | FloatArray, verdict: Verdict) -> Option:
    """Return the option for a score with one threshold, or with an array of one threshold for each row."""
    widths = interval_by(score, threshold, rows.prediction).width
    means = {label: float(own.mean()) for label, own in groups.split(widths).items()}
    return Option(score, np.ndim(threshold) > 0, verdict, float(widths.mean()), means)
