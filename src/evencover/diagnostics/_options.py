"""What could be used instead: other scores, and thresholds per group, tried on the calibration rows."""

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
    """A predictor that could be used, tried on the calibration rows.

    Parameters
    ----------
    nonconformity : Score
        Its score.
    per_group : bool
        Whether every group has its own threshold.
    verdict : str
        On one threshold for all; calibrated per group it is even, by its guarantee, where rows are enough for it.
    width : float
        Mean width over these rows.
    widths : mapping from label to float
        Mean width in each group that has rows.
    """

    nonconformity: Score
    per_group: bool
    verdict: Verdict
    width: float
    widths: Mapping[Label, float]


def options(
    rows: Rows, nonconformity: Score, at_hand: MarginalThreshold, settings: Settings, *, priced: bool = True
) -> tuple[Option, ...]:
    """Return the score at hand with one threshold and, if priced, with one for each group; then other scores likewise.

    The scores at hand come divided by groups already. Thresholds for groups of the target cannot be priced: which of
    them a new row gets is not known.
    """
    found: list[Option] = []
    groups = at_hand.groups
    for score in usable_scores(rows.prediction, nonconformity):
        divide = (
            at_hand if score is nonconformity else MarginalThreshold(scores_of(score, rows), groups, settings.level)
        )
        judged = divide.verdict(settings.tolerance, settings.seed)
        found.append(_option(rows, groups, score, divide.threshold, judged))
        own = np.append(divide.own_thresholds, divide.threshold)[groups.codes]  # the last, for rows left out
        by_group: Verdict = "even" if np.isfinite(own).all() else "undecided"
        found += [_option(rows, groups, score, own, by_group)] * priced
    return tuple(found)


def usable_scores(prediction: Prediction, first: Score) -> Iterator[Score]:
    """Yield a score and, if it is one of the paper's three, the others that the prediction has the parts for."""
    yield first
    spread = prediction.spread
    least = -1.0 if spread is None else float(spread.min(initial=np.inf))
    others: dict[Score, bool] = {Residual(): True, IntervalDistance(): least >= 0, Normalized(): least > 0}
    if type(first) in map(type, others):
        yield from (score for score, usable in others.items() if usable and type(score) is not type(first))


def _option(rows: Rows, groups: Groups, score: Score, threshold: float | FloatArray, judged: Verdict) -> Option:
    """Return the option of a score with one threshold, or with one for each row."""
    widths = interval_by(score, threshold, rows.prediction).width
    means = {label: float(own.mean()) for label, own in groups.split(widths).items()}
    return Option(score, np.ndim(threshold) > 0, judged, float(widths.mean()), means)
