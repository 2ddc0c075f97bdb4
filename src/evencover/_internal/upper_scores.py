"""Scores that increase with the target: how far a target is above what was predicted."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover.calibration import Calibration
from evencover.groups import rows_by_code
from evencover.predictions import Prediction
from evencover.rows import Rows
from evencover.scores.evaluation import checked_scores, interval_by
from evencover.scores.one_sided import OneSided
from evencover.scores.score import Score, has_tails
from evencover.scores.support import Bounded, without_support


def innermost(score: Score) -> Score:
    """Return the score around which there may be limits of the target, or of which only one side is used."""
    return innermost(score.score) if isinstance(score, Bounded | OneSided) else score


def upper_scores(score: Score, y: FloatArray, prediction: Prediction) -> FloatArray:
    """Return the score of each target in the upper tail, or the score itself if it is one-sided. Shape (m,).

    If the model was fitted to transformed targets, the score is that of the transformed target, and -inf for targets
    below those that can be transformed.
    """
    scale = prediction.scale
    if scale is not None:
        return np.where(y < scale.ends()[0], -np.inf, scale.scores(y, partial(upper_scores, score)))
    upper = score.tails(y, prediction)[1] if has_tails(score) else score(y, prediction)  # type: ignore[attr-defined]
    return np.asarray(upper)


def upper_calibration_scores(calibration: Calibration, rows: Rows | None, new: Prediction) -> FloatArray:
    """Return the upper scores of the calibration rows, which are not needed for one-sided scores. Shape (n,).

    Parameters
    ----------
    calibration : Calibration
        The scores of the n rows, and the score function.
    rows : Rows of n rows, optional
        Their predictions and targets.
    new : Prediction
        Some new rows, to find out whether a score is one-sided.
    """
    if not isinstance(calibration.nonconformity, Mapping):
        return _upper_scores_of(calibration.nonconformity, calibration.scores, rows, new)
    scores = np.zeros(len(calibration.scores))
    for code, members in rows_by_code(calibration.groups.codes, len(calibration.labels)):
        score = calibration.nonconformity[calibration.labels[code]]
        part = None if rows is None else rows[members]
        scores[members] = _upper_scores_of(score, calibration.scores[members], part, new)
    return scores


def _upper_scores_of(score: Score, stored: FloatArray, rows: Rows | None, new: Prediction) -> FloatArray:
    """Return the upper scores of rows; without the rows, the stored scores, if these are upper scores.

    Raise ValueError if neither is possible.
    """
    unlimited = without_support(score)
    inner = innermost(unlimited)
    name = type(inner).__name__
    known_tails = has_tails(inner)
    is_upper = _is_upper_bound(unlimited, new) and (known_tails or inner is unlimited)
    if is_upper and rows is None:
        return _checked_stored(stored, limited=isinstance(score, Bounded) or new.scale is not None)
    if not known_tails and not is_upper:
        raise ValueError(
            "a predictive distribution needs a score that increases with the target, or one with the method "
            f"tails(y, prediction); got {name}"
        )
    if rows is None:
        reason = (
            f"{name} is the larger of the scores below and above a prediction"
            if inner is unlimited
            else "the score of the lower side does not give that of the upper side"
        )
        raise ValueError(
            f"a predictive distribution with {name if inner is unlimited else unlimited} needs the calibration rows, "
            f"because {reason}; a saved file does not hold the rows. Call calibrate(X, y) again, or save a model with "
            f"the score OneSided({name}(...), side='upper') or with calibrator=TwoTails()"
        )
    target = rows.required_target(by="a predictive distribution")
    return checked_scores(upper_scores(inner, target, rows.prediction), len(rows))


def _checked_stored(stored: FloatArray, *, limited: bool) -> FloatArray:
    """Return stored upper scores. Raise ValueError if a limit of the target made some of them infinite.

    A target below the limits must count as small, and one above them as large, but both are stored as infinity.
    """
    n_infinite = int(np.isposinf(stored).sum())
    if limited and n_infinite:
        raise ValueError(
            f"a predictive distribution needs the calibration rows, because {n_infinite} of the {len(stored)} "
            "calibration targets are impossible ones, and the saved file does not say whether they are too small or "
            "too large. Call calibrate(X, y) again"
        )
    return stored


def _is_upper_bound(score: Score, prediction: Prediction) -> bool:
    """Return whether the score itself increases with the target: its intervals have no lower bound."""
    return bool(np.isneginf(interval_by(score, 0.0, prediction.scored).lower).all())
