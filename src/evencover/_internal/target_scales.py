"""Predictions of models that were fitted to transformed targets: mapped back, with the scale that scores use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray, warn_user
from evencover._internal.monotone_maps import MonotoneMap, maps_of_rows, transformed
from evencover.intervals import Intervals
from evencover.predictions import Prediction


@dataclass(frozen=True, eq=False)
class TargetScale:
    """The scale that a model was fitted on: the transform of the target, and the model's prediction on this scale.

    Scores are computed on this scale, and intervals are mapped back. The transform is monotone, so a target is in the
    mapped interval exactly if its transformed value is in the interval on the scale. Infinite bounds become the ends of
    the targets that can be transformed: 0 and inf for the logarithm. A target that cannot be transformed has an
    infinite score, and no interval covers it.

    Parameters
    ----------
    prediction : Prediction of n rows
        The prediction on the scale, on which targets increase.
    maps : tuple of MonotoneMap
        The transforms: one for each fitted model, and for each range of targets on which it is monotone.
    codes : ndarray of shape (n,)
        The position of each row's transform.
    """

    prediction: Prediction
    maps: tuple[MonotoneMap, ...]
    codes: IntArray

    @classmethod
    def concatenate(cls, parts: Sequence["TargetScale"]) -> "TargetScale":
        """Return the scales of several predictions as one, in their order."""
        starts = np.cumsum([0, *(len(part.maps) for part in parts)])
        return cls(
            Prediction.concatenate([part.prediction for part in parts]),
            tuple(each for part in parts for each in part.maps),
            np.concatenate([part.codes + start for part, start in zip(parts, starts, strict=False)]),
        )

    def __getitem__(self, rows: Any) -> "TargetScale":
        return TargetScale(self.prediction[rows], self.maps, self.codes[rows])

    def transform(self, y: FloatArray) -> FloatArray:
        """Return the transformed targets; NaN for those that cannot be transformed. Shape (n,)."""
        return self._by_map(lambda each, rows: each.values(y[rows]))

    def inverse(self, values: FloatArray) -> FloatArray:
        """Return the target of each transformed value. Shape (n,)."""
        return self._by_map(lambda each, rows: each.inverse(values[rows]))

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the targets that can be transformed: one for all rows, or one for each."""
        low = self._by_map(lambda each, _: np.array(each.range[0]))
        return low, self._by_map(lambda each, _: np.array(each.range[1]))

    def cdf(self, y: FloatArray) -> FloatArray:
        """Return the predicted probability that the target is at most y. Shape (n,)."""
        low, high = self.ends()
        at_most = self.prediction.cdf(np.nan_to_num(self.transform(np.clip(y, low, high))))
        return np.where(y < low, 0.0, np.where(y > high, 1.0, at_most))

    def scores(self, y: FloatArray, score: Callable[[FloatArray, Prediction], FloatArray]) -> FloatArray:
        """Return the score of each target on the scale; inf if it cannot be transformed. Shape (n,)."""
        values = self.transform(y)
        inside = np.flatnonzero(~np.isnan(values))
        if len(inside) == len(y):
            return score(values, self.prediction)
        scores = np.full(len(y), np.inf)
        if len(inside):
            scores[inside] = score(values[inside], self.prediction[inside])
        return scores

    def intervals(self, intervals: Intervals) -> Intervals:
        """Return intervals on the scale, with bounds of shape (n,), as intervals of the target."""
        lower = self._by_map(lambda each, rows: each.smallest_at_least(intervals.lower[rows]))
        upper = self.upper_bounds(intervals.upper)
        nothing = (lower == np.inf) | (upper == -np.inf)
        return Intervals(np.where(nothing, np.inf, lower), np.where(nothing, -np.inf, upper))

    def upper_bounds(self, bounds: FloatArray) -> FloatArray:
        """Return the largest target that is transformed to each bound or less; -inf if there is none.

        The bounds have shape (n,), or (n, k) for k bounds of each row; the result has the same shape.
        """

        def largest(each: MonotoneMap, rows: Any) -> FloatArray:
            return each.largest_at_most(bounds[rows].ravel()).reshape(bounds[rows].shape)

        return self._by_map(largest)

    def warn_of_targets_outside(self, y: FloatArray) -> None:
        """Warn if calibration targets cannot be transformed, with their number."""
        finite = self._by_map(lambda each, rows: np.isfinite(transformed(each.transformer.transform, y[rows])))
        if n_outside := np.count_nonzero((finite == 0) | np.isnan(self.transform(y))):
            warn_user(
                f"calibration targets that {self.maps[0].transformer!r} cannot transform to finite numbers: "
                f"{n_outside} of {len(y)}. Their scores are infinite or very large, which makes intervals wider"
            )

    def _by_map(self, function: Callable[[MonotoneMap, Any], FloatArray]) -> FloatArray:
        """Return a function of the rows of each map, in the order of the rows. Shape (n,) or (n, k)."""
        if len(self.maps) == 1:
            return function(self.maps[0], slice(None))
        result = np.empty(len(self.codes))
        for code in np.unique(self.codes):
            rows = np.flatnonzero(self.codes == code)
            found = function(self.maps[code], rows)
            if found.ndim > result.ndim:
                result = np.empty((len(result), *found.shape[1:]))
            result[rows] = found
        return result


def on_target_scale(inner: Prediction, transformer: Any, training_target: float | None = None) -> Prediction:
    """Return a prediction of transformed targets as one of the targets, in their unit; it keeps the scale.

    Center, bounds and quantiles are mapped back, so a median stays a median, and a mean does not stay a mean. The
    spread follows from the mapped bounds. Of a transform with several ranges, such as 1 / y, the range is that of a
    training target, if one is known; else of each row's own prediction. So it does not depend on other rows.
    """
    if not len(inner):
        return inner
    maps, codes = maps_of_rows(transformer, inner.center, training_target)
    increasing = inner if maps[0].sign > 0 else _negated(inner)
    scale = TargetScale(increasing, maps, codes)
    parts = (getattr(increasing, name) for name in ("center", "lower", "upper"))
    center, lower, upper = (None if each is None else scale.inverse(each) for each in parts)
    quantiles = None if increasing.quantiles is None else np.stack(list(map(scale.inverse, increasing.quantiles.T)), 1)
    probabilities = increasing.probabilities
    settings: dict[str, Any] = {"quantiles": quantiles, "probabilities": probabilities, "level": inner.level}
    result = Prediction(center, lower=lower, upper=upper, **settings)
    vars(result).update(scale=scale, _crossed=inner._crossed)
    return result


def check_transformable(transformer: Any, y: FloatArray) -> None:
    """Raise ValueError if a target has no finite transformed value."""
    impossible = ~np.isfinite(transformed(transformer.transform, y))
    if impossible.any():
        raise ValueError(
            f"y must hold targets that {transformer!r} can transform to finite numbers; got "
            f"{np.count_nonzero(impossible)} of {len(y)} targets that it cannot, such as {y[impossible][0]:g}"
        )


def _negated(prediction: Prediction) -> Prediction:
    """Return the prediction of the negative target."""
    parts = {"spread": prediction._spread, "quantiles": prediction.quantiles, "probabilities": prediction.probabilities}
    if prediction.quantiles is not None and prediction.probabilities is not None:
        parts |= {"quantiles": -prediction.quantiles[:, ::-1], "probabilities": 1 - prediction.probabilities[::-1]}
    if prediction._bounds is not None:
        lower, upper = prediction._bounds
        parts |= {"lower": -upper, "upper": -lower}
    return Prediction(-prediction.center, **parts, level=prediction.level)
