"""Predictions of new rows by the models of all folds, and the ends of their intervals.

A *cell* is a new row and a fold. Only the parts of the predictions that the score uses are kept, because quantiles take
much more memory than the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pickle import PicklingError

import numpy as np
from joblib import hash as content_hash

from evencover._internal.arrays import FloatArray, IntArray
from evencover._internal.fold_selection import Values
from evencover._internal.monotone_maps import MonotoneMap
from evencover.intervals import Intervals
from evencover.predictions import ALL_PARTS, Prediction, averaged
from evencover.scores.bounds import IntervalDistance, RelativeIntervalDistance
from evencover.scores.evaluation import interval_by
from evencover.scores.one_sided import OneSided
from evencover.scores.residuals import Normalized, Residual, Standardized
from evencover.scores.score import Score
from evencover.scores.support import without_support

_USED_PARTS: dict[type, tuple[str, ...]] = {
    Residual: ("center",),
    Normalized: ("center", "spread"),
    Standardized: ("center", "spread"),
    IntervalDistance: ("center", "lower", "upper"),
    RelativeIntervalDistance: ("center", "lower", "upper"),
}  # other scores may use all parts


def numbers_per_row(predictions: Sequence[Prediction]) -> int:
    """Return how many numbers the prediction of a model has for each row, at most: parts and quantiles."""
    probabilities = predictions[0].probabilities
    return 1 if probabilities is None else 1 + len(probabilities)


def cells_of_folds(predictions: Sequence[Prediction], score: Score) -> Prediction:
    """Return the predictions of K models for the same m rows as one of K × m rows, one model after the other."""
    parts = _used_parts(score)
    return Prediction.concatenate(predictions if parts is None else [_reduced(each, parts) for each in predictions])


def cells_of_means(predictions: Sequence[Prediction], weights: FloatArray, score: Score) -> Prediction:
    """Return weighted means of the predictions of B models, for each of K weightings, one after the other.

    Parameters
    ----------
    predictions : sequence of B Predictions of m rows
        The predictions.
    weights : ndarray of shape (K, B)
        The weights of the models in each mean.
    score : score
        The score that uses the result. It is computed in the unit of the target.
    """

    def mean(values: FloatArray) -> FloatArray:
        return np.tensordot(weights, values, axes=1).reshape(-1, *values.shape[2:])

    return averaged(predictions, mean, _used_parts(score) or ALL_PARTS)


def _used_parts(score: Score) -> tuple[str, ...] | None:
    """Return the parts of a prediction that a score uses; None if it may use all."""
    inner = without_support(score)
    return _USED_PARTS.get(type(inner.score if isinstance(inner, OneSided) else inner))


def _reduced(prediction: Prediction, parts: tuple[str, ...]) -> Prediction:
    """Return these parts of a prediction, on the scale that scores are computed on; also the center on the target's."""
    if prediction.scale is None:
        return prediction.reduced(parts)
    scale = replace(prediction.scale, prediction=prediction.scale.prediction.reduced(parts))
    return prediction.reduced(("center",), scale=scale)


def on_common_scale(prediction: Prediction) -> tuple[Prediction, Callable[[Intervals], Intervals]]:
    """Return the prediction that intervals are computed from, and the function that maps them to the target.

    If all models have the same transform of the target, ends are selected on its scale, and only the results are mapped
    back. The transform increases, so the order of the ends is the same.
    """
    scale = prediction.scale
    if scale is None or not _are_same(scale.maps):
        return prediction, lambda intervals: intervals
    return scale.prediction, replace(scale, maps=scale.maps[:1]).intervals


def _are_same(maps: Sequence[MonotoneMap]) -> bool:
    """Return whether maps are known to be the same; the contents of some transformers cannot be compared."""
    try:
        return len({(content_hash(each.transformer), each.sign, each.first, each.last) for each in maps}) == 1
    except (PicklingError, TypeError, AttributeError):  # such as of a lambda function
        return False


def interval_ends(score: Score, prediction: Prediction) -> tuple[Values, Values]:
    """Return functions of cells and scores: the negative lower ends, and the upper ends, of their intervals."""

    def negated_lower(cells: IntArray, scores: FloatArray) -> FloatArray:
        return -interval_by(score, scores, prediction[cells]).lower

    def upper(cells: IntArray, scores: FloatArray) -> FloatArray:
        return interval_by(score, scores, prediction[cells]).upper

    return negated_lower, upper
