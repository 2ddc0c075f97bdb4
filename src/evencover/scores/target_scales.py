"""Scores of transformed targets: the scale that a model was fitted on, as an increasing map with an exact inverse."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from warnings import catch_warnings, simplefilter
from weakref import finalize

import numpy as np

from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, warn_user
from evencover.intervals import Intervals
from evencover.predictions import Prediction

_HUGE, _TINY = 1e100, 1e-100  # an end of the range counts as infinite from _HUGE on, and as zero within _TINY
_LAST_ORDINAL = int(np.array(_HUGE).view(np.int64))
_LADDER_STEP = 2**55  # a point for every eight powers of two
_PROBE_STEPS = (16, 2**12, 2**30, 2**50)  # distances from the guess, in floating-point numbers
_NEAR_ZERO = (0, 1, -1)  # zero and its neighbours, which are frequent ends of ranges
_REFERENCES = (0.5, -0.5, 0.1, -0.1, 1.0, -1.0, 2.0, -2.0, 5.0, -5.0, 10.0, -10.0)  # transformed values, tried in order
_MAX_TRIED, _MAX_MAPS = 100, 10  # predictions that are tried to find a target in the range; maps of one transformer
_ROUNDING = 1e-12  # relative decrease of an increasing function that counts as rounding
_KNOWN_RANGES: dict[tuple[int, float], tuple[int, int, int]] = {}  # by identity of the transformer, while it exists


@dataclass(frozen=True, eq=False)
class TargetMap:
    """A fitted transformer of the target as an increasing function; a decreasing transform is multiplied by −1.

    The range is the set of targets that can be transformed, an interval such as (0, inf) for the logarithm. In it, the
    function may be constant in places or jump, as scikit-learn's `QuantileTransformer` does. Targets of more than 1e100
    in size count as 1e100, and an end of the range of this size counts as infinite.

    Parameters
    ----------
    transformer : fitted transformer
        An object with scikit-learn's methods `transform` and `inverse_transform`.
    sign : {1, -1}
        -1 if the transform decreases.
    first, last : int
        The smallest and the largest target with a finite transformed value, as ordinals.
    """

    transformer: Any
    sign: int
    first: int
    last: int

    @classmethod
    def around(cls, transformer: Any, targets: FloatArray) -> "TargetMap | None":
        """Return the map around the first of these targets with a finite transformed value; None if there is none."""
        usable = targets[np.abs(targets) < _HUGE]
        usable = usable[np.isfinite(transformed(transformer.transform, usable))]
        return cls(transformer, *_sign_and_range(transformer, _ordinals(usable[:1]))) if len(usable) else None

    @cached_property
    def range(self) -> tuple[float, float]:
        """The ends of the range: of the targets that can be transformed, with limits such as 0 of the logarithm."""
        ends, outside = (_floats(np.array([self.first - step, self.last + step])) for step in (0, 1))
        ends = np.where(np.isinf(transformed(self.transformer.transform, outside)), outside, ends)
        low, high = np.where(
            np.abs(ends) >= _HUGE, np.copysign(np.inf, ends), np.where(np.abs(ends) < _TINY, 0.0, ends)
        )
        return float(low), float(high)

    def contains(self, y: FloatArray) -> BoolArray:
        """Return whether each target is in the range. Shape (n,)."""
        low, high = self.range
        return (low <= y) & (y <= high)

    def values(self, y: FloatArray) -> FloatArray:
        """Return the transformed targets; NaN outside the range. Shape (n,)."""
        return np.where(self.contains(y), self._at(_ordinals(y)), np.nan)

    def inverse(self, values: FloatArray) -> FloatArray:
        """Return the target of each transformed value, finite and in the range. Shape (n,)."""
        reachable = np.clip(values, *self._at(np.array([self.first, self.last])))
        back = transformed(self.transformer.inverse_transform, self.sign * reachable)
        return np.clip(back, *_floats(np.array([self.first, self.last])))

    def smallest_at_least(self, values: FloatArray) -> FloatArray:
        """Return the smallest target that is transformed to each value or more; inf if there is none. Shape (n,)."""
        _, at = self._crossing(values, np.greater_equal)
        return np.where(at > self.last, np.inf, np.where(at == self.first, self.range[0], _floats(at)))

    def largest_at_most(self, values: FloatArray) -> FloatArray:
        """Return the largest target that is transformed to each value or less; -inf if there is none. Shape (n,)."""
        at, _ = self._crossing(values, np.greater)
        return np.where(at < self.first, -np.inf, np.where(at == self.last, self.range[1], _floats(at)))

    def _crossing(self, values: FloatArray, passes: Callable[..., Any]) -> tuple[IntArray, IntArray]:
        """Return two neighbouring targets as ordinals: the last that does not pass its value, the first that does.

        Bisection on ordinals, which starts near the transformer's own inverse. So the result is exact for the function
        as it is computed, rounding included, and also where the transformer's own inverse is not.
        """
        before, after = np.full(len(values), self.first - 1), np.full(len(values), self.last + 1)

        def probe(at: IntArray) -> None:
            inside = (before < at) & (at < after)
            passed = passes(self._at(at), values)
            np.copyto(after, at, where=inside & passed)
            np.copyto(before, at, where=inside & ~passed)

        guess = _ordinals(np.nan_to_num(self.inverse(values)))
        for step in _PROBE_STEPS:
            probe(guess - step)
            probe(guess + step)
            if np.all((after >> 1) - (before >> 1) <= step):
                break
        while np.any(before + 1 < after):
            probe((before >> 1) + (after >> 1) + (before & after & 1))  # the middle, without overflow
        return before, after

    def _at(self, ordinals: IntArray) -> FloatArray:
        """Return the function at ordinals; beyond the ends of the range, at these ends. Shape (n,)."""
        inside = _floats(np.clip(ordinals, self.first, self.last))
        return self.sign * transformed(self.transformer.transform, inside)


def maps_of_rows(
    transformer: Any, predicted: FloatArray, training_target: float | None = None
) -> tuple[tuple[TargetMap, ...], IntArray]:
    """Return the maps of a transformer, and the position of each row's map in them. Shape (n,).

    Nearly all transforms have one map. The transform 1 / y has two: for positive and for negative targets. All rows
    have the map of a training target if one is given. Otherwise a row has the map that contains its own predicted
    target, and the first one if its prediction has no inverse. So the map of a row does not depend on other rows.

    Parameters
    ----------
    transformer : fitted transformer
        The transformer of the target.
    predicted : ndarray of shape (n,)
        Predictions on its scale.
    training_target : float, optional
        A target that the transformer was fitted to.
    """
    codes = np.zeros(len(predicted), dtype=np.intp)
    if training_target is not None and (only := _map_around_training_target(transformer, training_target)):
        return (only,), codes
    back = transformed(transformer.inverse_transform, predicted)
    first = TargetMap.around(transformer, transformed(transformer.inverse_transform, np.array(_REFERENCES)))
    maps = [] if first is None else [first]
    without = np.abs(back) < _HUGE
    if first is not None:
        without &= ~first.contains(back)
    while without.any() and len(maps) < _MAX_MAPS:
        found = TargetMap.around(transformer, back[without][:_MAX_TRIED])
        if found is None or (maps and found.sign != maps[0].sign):
            break
        codes[without & found.contains(back)] = len(maps)
        without &= ~found.contains(back)
        maps.append(found)
    if not maps:
        raise ValueError(f"the target's transformer must have an inverse of predictions; {transformer!r} has none")
    return tuple(maps), codes


def _map_around_training_target(transformer: Any, target: float) -> TargetMap | None:
    """Return the map around a target. Its range is searched once for each transformer, because that takes a while."""
    key = id(transformer), target
    if key not in _KNOWN_RANGES:
        found = TargetMap.around(transformer, np.array([target]))
        if found is None:
            return None
        _KNOWN_RANGES[key] = found.sign, found.first, found.last
        finalize(transformer, _KNOWN_RANGES.pop, key, None)
    return TargetMap(transformer, *_KNOWN_RANGES[key])


def transformed(function: Callable[[Any], Any], values: FloatArray) -> FloatArray:
    """Return a transformer's function of values of shape (n,); NaN for values that it raises an error for."""
    if not len(values):
        return np.empty(0)
    try:
        with np.errstate(all="ignore"), catch_warnings():
            simplefilter("ignore")  # scikit-learn warns of values without an inverse
            return np.array(function(values.reshape(-1, 1)), dtype=float).reshape(len(values))
    except (ValueError, ArithmeticError):
        if len(values) == 1:
            return np.array([np.nan])
    half = len(values) // 2
    return np.concatenate([transformed(function, values[:half]), transformed(function, values[half:])])


def _sign_and_range(transformer: Any, start: IntArray) -> tuple[int, int, int]:
    """Return the sign of a transformer's slope, and the ends of the targets around a start where it is monotone.

    The transform is evaluated at about five hundred targets of all sizes. The ends are then found by bisection.
    """
    ladder = np.union1d(np.r_[np.arange(-_LAST_ORDINAL, _LAST_ORDINAL, _LADDER_STEP), _LAST_ORDINAL], start)
    values = transformed(transformer.transform, _floats(ladder))
    middle = int(np.searchsorted(ladder, start[0]))
    sign = _sign(values, middle)
    above = _end(transformer, sign, ladder[middle:], sign * values[middle:])
    below = _end(transformer, -sign, ladder[middle::-1], -sign * values[middle::-1])
    return sign, below, above


def _sign(values: FloatArray, middle: int) -> int:
    """Return the sign of the slope: of the first change of the values, above or below the middle."""
    with np.errstate(invalid="ignore", over="ignore"):
        changes = np.sign(np.r_[values[middle:] - values[middle], values[middle] - values[:middle][::-1]])
    distance = np.r_[np.arange(len(values) - middle), np.arange(1, middle + 1)]
    change = np.isfinite(changes) & (changes != 0)
    if not change.any():
        raise ValueError("the target's transformer must not be constant; it transforms all targets to the same value")
    return int(changes[change][np.argmin(distance[change])])


def _end(transformer: Any, sign: int, ladder: IntArray, values: FloatArray) -> int:
    """Return the last ordinal on the way along a ladder up to which the values are finite and do not decrease."""
    with np.errstate(invalid="ignore", over="ignore"):
        decreases = values[1:] < values[:-1] - _ROUNDING * np.abs(values[:-1])
    stops = np.flatnonzero(decreases | ~np.isfinite(values[1:]))
    if not len(stops):
        return int(ladder[-1])
    good, bad, value = int(ladder[stops[0]]), int(ladder[stops[0] + 1]), values[stops[0]]
    while abs(bad - good) > 1:
        middle = next((each for each in _NEAR_ZERO if min(good, bad) < each < max(good, bad)), (good + bad) // 2)
        at_middle = sign * transformed(transformer.transform, _floats(np.array([middle])))[0]
        good, bad = (middle, bad) if value <= at_middle < np.inf else (good, middle)
    return good


def _ordinals(values: FloatArray) -> IntArray:
    """Return numbers as integers in the same order, such that neighbouring numbers have neighbouring integers."""
    bits = np.ascontiguousarray(values, dtype=float).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _floats(ordinals: IntArray) -> FloatArray:
    """Return the numbers of ordinals."""
    size = np.abs(ordinals).astype(np.int64).view(float)
    return np.where(ordinals < 0, -size, size)


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
    maps : tuple of TargetMap
        The transforms: one for each fitted model, and for each range of targets on which it is monotone.
    codes : ndarray of shape (n,)
        The position of each row's transform.
    """

    prediction: Prediction
    maps: tuple[TargetMap, ...]
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

        def largest(each: TargetMap, rows: Any) -> FloatArray:
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

    def _by_map(self, function: Callable[[TargetMap, Any], FloatArray]) -> FloatArray:
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
