"""Apply scores to rows: the score of each target, and the intervals of thresholds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from evencover.groups import Label, first_few, rows_by_code
from evencover.inputs.arrays import FloatArray, IntArray, as_floats
from evencover.inputs.device_arrays import checked_column
from evencover.intervals import Intervals, stack_levels
from evencover.predictions import Prediction
from evencover.rows import Rows
from evencover.scores.residuals import Residual
from evencover.scores.score import Nonconformity, Score, checked_score, has_formulas, states
from evencover.scores.support import Bounded, best_target


def scores_of(nonconformity: Nonconformity, rows: Rows) -> FloatArray:
    """Return the score of each row's target, with the same score function for all rows. Shape (n,).

    Parameters
    ----------
    nonconformity : score
        The score.
    rows : Rows of n rows
        Predictions and targets.

    Examples
    --------
    >>> scores_of(Residual(), Rows(Prediction([2.0, 2.0]), y=[1.0, 5.0]))
    array([1., 3.])
    """
    if isinstance(nonconformity, Mapping):
        raise ValueError(
            "nonconformity must be one score for this calibrator; got a score for each group, which needs a taxonomy, "
            "such as taxonomy=BySpread(3)"
        )
    target = rows.required_target(by="a score")
    return checked_scores(scores_by(checked_score(nonconformity), target, rows.prediction), len(rows))


def checked_scores(scores: Any, length: int, matched: str = "the prediction") -> FloatArray:
    """Return scores as an array of shape (length,). Raise ValueError for NaN; infinite scores are allowed."""
    return checked_column(scores, "scores", length=length, matched=matched, finite=False)  # type: ignore[no-any-return]


def check_formulas(nonconformity: Nonconformity) -> None:
    """Raise ValueError unless the score can be computed from arrays on a device."""
    if isinstance(nonconformity, Mapping) or not has_formulas(nonconformity):
        raise ValueError(
            "for arrays on a device, nonconformity must be one score for all groups, with formulas, such as "
            f"Normalized(); got {nonconformity!r}. With arrays of numpy, any score is possible"
        )


def scores_by_group(nonconformity: Nonconformity, rows: Rows, codes: IntArray, labels: tuple[Label, ...]) -> FloatArray:
    """Return the score of each row with the score function of its group; 0 where the code is -1. Shape (n,)."""
    target = rows.required_target(by="a score")
    if not isinstance(nonconformity, Mapping):
        return scores_by(nonconformity, target, rows.prediction)
    scores = np.zeros(len(rows))
    for code, members in rows_by_code(codes, len(labels)):
        score = nonconformity[labels[code]]
        scores[members] = scores_by(score, target[members], rows.prediction[members])
    return scores


def scores_by(score: Score, y: FloatArray, prediction: Prediction) -> FloatArray:
    """Return the scores of targets that were already checked; the package's own scores do not check them again.

    If the model was fitted to transformed targets, the score is that of the transformed target.
    """
    if isinstance(score, Bounded):
        return score.outside_infinite(y, scores_by(score.score, y, prediction))
    if prediction.scale is not None:
        scores: FloatArray = prediction.scale.scores(y, partial(scores_by, score))
        return scores
    if states(score, "formula"):
        score = score.formula  # type: ignore[attr-defined]
    return score(y, prediction)


def threshold_intervals(nonconformity: Score, thresholds: FloatArray, prediction: Prediction) -> Intervals:
    """Return the targets whose score is at most the threshold, for each row and level. Bounds of shape (m, L).

    Parameters
    ----------
    nonconformity : score
        The score.
    thresholds : ndarray of shape (m, L), or (1, L) for the same thresholds in all rows
        The largest score inside the interval, for each row and level.
    prediction : Prediction of m rows
        The model's predictions.

    Examples
    --------
    >>> threshold_intervals(Residual(), np.array([[1.0, 2.0]]), Prediction([0.0, 5.0])).upper.round(3)
    array([[1., 2.],
           [6., 7.]])
    """
    table = as_floats(thresholds, "thresholds")
    if table.ndim != 2 or len(table) not in (1, len(prediction)) or not table.shape[1]:
        raise ValueError(
            f"thresholds must have shape ({len(prediction)}, L) or (1, L), rows by levels; got shape {table.shape}"
        )
    by_level = [float(column[0]) if len(table) == 1 else column for column in table.T]
    return stack_levels([interval_by(checked_score(nonconformity), threshold, prediction) for threshold in by_level])


def intervals_by_group(
    nonconformity: Nonconformity,
    labels: tuple[Label, ...],
    threshold: float | FloatArray,
    prediction: Prediction,
    codes: IntArray,
) -> Intervals:
    """Return the interval of each row with the score function of its group; infinite where the code is -1."""
    if not isinstance(nonconformity, Mapping):
        return interval_by(nonconformity, threshold, prediction)
    lower, upper, replaced = np.full(len(codes), -np.inf), np.full(len(codes), np.inf), np.zeros(len(codes), dtype=bool)
    threshold_of_row = np.broadcast_to(threshold, len(codes))
    for code, rows in rows_by_code(codes, len(labels)):
        intervals = interval_by(nonconformity[labels[code]], threshold_of_row[rows], prediction[rows])
        lower[rows], upper[rows] = intervals.lower, intervals.upper
        replaced[rows] = intervals.replaced
    return Intervals(lower, upper, replaced=replaced)


def interval_by(score: Score, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
    """Return the intervals of a score, in the unit of the target. Raise TypeError if it returns anything else."""
    if isinstance(score, Bounded):
        inner = interval_by(score.score, threshold, prediction)
        return score.restrict(inner, prediction, partial(scores_by, score.score))
    if prediction.scale is not None:
        mapped: Intervals = prediction.scale.intervals(interval_by(score, threshold, prediction.scored))
        return mapped
    intervals = score.interval(threshold, prediction)
    if not isinstance(intervals, Intervals):
        raise TypeError(f"{type(score).__name__}.interval must return Intervals; got {type(intervals).__name__}")
    return intervals


def with_nearest_targets(
    nonconformity: Nonconformity,
    labels: tuple[Label, ...],
    intervals: Intervals,
    prediction: Prediction,
    codes: IntArray,
) -> Intervals:
    """Return intervals of shape (m, L) without crossed ends, if the score is `Bounded`.

    A possible target next to the middle of crossed ends replaces them: of the two, the one with the smaller score. It
    lies between the ends, so no more targets lie below it than below the lower end, and no more above it than above the
    upper end.
    """
    lower, upper, replaced = intervals.lower.copy(), intervals.upper.copy(), intervals.replaced.copy()
    for score, rows in _rows_by_score(nonconformity, labels, codes):
        if isinstance(score, Bounded):
            for level in range(lower.shape[1]):
                empty = rows[lower[rows, level] > upper[rows, level]]
                middle = lower[empty, level] / 2 + upper[empty, level] / 2
                scores = partial(scores_by, score.score)
                points = best_target(score.support.neighbors(middle), prediction[empty], scores)
                lower[empty, level] = upper[empty, level] = points
                replaced[empty, level] = True
    return replace(intervals, lower=lower, upper=upper, replaced=replaced)


def _rows_by_score(
    nonconformity: Nonconformity, labels: tuple[Label, ...], codes: IntArray
) -> Iterator[tuple[Score, IntArray]]:
    """Yield each score with the positions of its rows: one score for all rows, or that of each group."""
    if not isinstance(nonconformity, Mapping):
        yield nonconformity, np.arange(len(codes))
        return
    yield from ((nonconformity[labels[code]], rows) for code, rows in rows_by_code(codes, len(labels)))


def checked_nonconformity(nonconformity: Any, labels: tuple[Label, ...]) -> Nonconformity:
    """Return a score, or a mapping with exactly one score for each group; None stands for `Residual()`."""
    if nonconformity is None:
        return Residual()
    if isinstance(nonconformity, Mapping):
        if set(nonconformity) != set(labels):
            raise ValueError(
                f"nonconformity must have one score for each of the groups {first_few(labels)}; got scores for "
                f"{first_few(list(nonconformity))}"
            )
        return {label: checked_score(nonconformity[label]) for label in labels}
    return checked_score(nonconformity)
