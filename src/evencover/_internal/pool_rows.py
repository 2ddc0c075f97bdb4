"""New rows that are compared with the same calibration scores: their predictive distributions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover._internal.quantile_functions import QuantileFunction
from evencover._internal.score_steps import Integrals, ScoreSteps
from evencover._internal.upper_scores import innermost, upper_scores
from evencover.intervals import Intervals
from evencover.predictions import Prediction
from evencover.scores.bounds import IntervalDistance, RelativeIntervalDistance
from evencover.scores.evaluation import interval_by
from evencover.scores.probability import ProbabilityDistance
from evencover.scores.residuals import Normalized, Residual, Standardized
from evencover.scores.score import Score
from evencover.scores.support import Bounded

_MAX_BLOCK = 1 << 18  # values of rows by scores that are in memory at once
_FIRST_STEP = 8 * float(np.finfo(float).eps)  # relative to the size of a bound
_MAX_STEPS = 6
_HALF = 0.5 + 2.0**-20  # values of a half and more are rounded up, also if they are a bit smaller by rounding errors


def _nearest(values: FloatArray) -> FloatArray:
    """Return the nearest whole number of each value; halves are rounded up."""
    return np.asarray(np.floor(values + _HALF))


@dataclass(frozen=True, eq=False)
class PoolRows:
    """New rows that are compared with the same n calibration scores, and the mass `tau` of each new row itself.

    The score s of a target y increases with y. A calibration score s_i stands for the value v_i of a row: the largest
    target whose score is at most s_i. If all targets are whole numbers, v_i is rounded to the nearest one.
    """

    score: Score
    steps: ScoreSteps
    prediction: Prediction
    tau: float | FloatArray

    def cdf(self, y: FloatArray) -> FloatArray:
        """Return (#{v_i <= y} + tau) / (n + 1). Shape (m,).

        v_i <= y if and only if s_i is less than the score of every larger target, hence of the next one. With whole
        targets, it is so if s_i is less than the score of the smallest number that is rounded to more than y. Of
        impossible targets, the result is 0 below and 1 above the possible ones.
        """
        low, high = self._limits
        following = np.floor(y) + 1 - _HALF if self._is_whole else np.nextafter(y, np.inf)
        scores = self._upper_scores(np.clip(following, low, high))
        inside = self.steps.cdf(scores, self.tau, "left" if self._is_whole else "right")
        return np.where(y < low, 0.0, np.where(y >= high, 1.0, inside))

    def pit(self, y: FloatArray) -> FloatArray:
        """Return (#{s_i < s} + tau (#{s_i = s} + 1)) / (n + 1). Shape (m,)."""
        return self.steps.randomized_rank(self._upper_scores(y), self.tau)

    def ppf(self, probability: Fraction) -> FloatArray:
        """Return the smallest of the values v_i whose `cdf` is at least the probability; infinite if there is none."""
        return self._possible(self._values(self.steps.at_rank(self.steps.rank(probability, self.tau))))

    def central_interval(self, level: Fraction) -> Intervals:
        """Return the intervals between the values of the ranks k = ⌊(n + 1) (1 − level) / 2⌋ and n + 1 − k.

        With whole targets, both ends are rounded inward, so the interval covers the same whole numbers. An interval
        without possible targets is replaced by the one nearest to its middle.
        """
        rank = (self.steps.n + 1) * (1 - level) / 2
        k = rank.numerator // rank.denominator
        lowest, highest = self.steps.at_rank(np.array([k, self.steps.n + 1 - k]))
        ends = self._lower_end(lowest), self._values(highest)
        low, high = self._limits
        inward = (np.ceil(ends[0]) + 0.0, np.floor(ends[1]) + 0.0) if self._is_whole else ends  # 0.0 for -0.0
        lower, upper = np.maximum(inward[0], low), np.minimum(inward[1], high)
        replaced = lower > upper
        if replaced.any():
            points = self._possible(ends[0] / 2 + ends[1] / 2)
            lower, upper = (np.where(replaced, points, bound) for bound in (lower, upper))
        return Intervals(lower, upper, replaced=replaced)

    def at_shares(self, shares: FloatArray) -> FloatArray:
        """Return for each row one of its finite values v_i: that at a share of them, 0 <= share < 1. Shape (m,)."""
        finite = self.steps.finite
        if not len(finite):
            return np.full(len(shares), np.nan)
        return self._possible(self._values(finite[(shares * len(finite)).astype(np.intp)]))

    def mean(self) -> FloatArray:
        """Return the mean of each row's finite values v_i, NaN if there are none. Shape (m,)."""
        if not len(self.steps.finite):
            return np.full(len(self.prediction), np.nan)
        if self._value_map is None:
            with np.errstate(invalid="ignore"):  # with both infinities, the mean is NaN
                return np.concatenate([np.empty(0), *(values.mean(axis=1) for _, values in self._value_blocks())])
        low, high = self._limits
        if np.isfinite(low):
            beyond = self._integrals_at(high, 1).above if np.isfinite(high) else 0.0
            return np.asarray(low + self._integrals_at(low, 1).above - beyond)
        if np.isfinite(high):
            return np.asarray(high - self._integrals_at(high, 1).below)
        return mean_of_values(self.steps, self._value_map)

    def crps(self, y: FloatArray) -> FloatArray:
        """Return the CRPS of each row's finite values v_i, all equally likely; inf if there are none. Shape (m,).

        It is ∫ F² below the target, plus ∫ (1 − F)² above it, where F is the distribution function of the values. With
        limits, the integrals start and end there.
        """
        if not len(self.steps.finite):
            return np.full(len(y), np.inf)
        if self._value_map is None:
            blocks = [crps_of_table(y[rows], values) for rows, values in self._value_blocks()]
            return np.concatenate([np.empty(0), *blocks])
        low, high = self._limits
        inside = np.clip(y, low, high)
        below, above = self._integrals_at(inside, 2)
        crps = below + above
        if np.isfinite(low):
            crps -= self._integrals_at(low, 2).below
        if np.isfinite(high):
            crps -= self._integrals_at(high, 2).above
        return np.asarray(crps + np.abs(y - inside))

    def _integrals_at(self, y: float | FloatArray, power: int) -> Integrals:
        """Return ∫ F^p du from −inf to y, and ∫ (1 − F)^p du from y to inf, of the values without limits."""
        scores = self._upper_scores(np.broadcast_to(np.asarray(y, dtype=float), len(self.prediction)))
        return integrals_of_values(self.steps, self._value_map, scores, power)  # type: ignore[arg-type]

    @cached_property
    def _inner(self) -> Score:
        return innermost(self.score)

    @property
    def _scale(self) -> Any:
        """The scale that the model was fitted on, if it was fitted to transformed targets."""
        return self.prediction.scale

    @property
    def _is_whole(self) -> bool:
        return isinstance(self.score, Bounded) and self.score.whole

    @cached_property
    def _limits(self) -> tuple[Any, Any]:
        """The smallest and the largest possible target: numbers, or arrays of shape (m,) for a transformed target."""
        low: Any = -np.inf
        high: Any = np.inf
        if self._scale is not None:
            low, high = self._scale.ends()
        if isinstance(self.score, Bounded):
            low, high = self.score.support.restrict(np.asarray(low), np.asarray(high))
        return low, high

    def _possible(self, values: FloatArray) -> FloatArray:
        """Return the values as possible targets: rounded if all targets are whole numbers, and between the limits."""
        if self._is_whole:
            values = _nearest(values) + 0.0  # 0.0 in place of -0.0
        return np.clip(values, *self._limits)

    def _upper_scores(self, y: FloatArray) -> FloatArray:
        return upper_scores(self._inner, y, self.prediction) if self.steps.n else np.zeros(len(y))

    def _values(self, scores: FloatArray) -> FloatArray:
        """Return the largest target whose score is at most a number: one for all rows, or one for each. Shape (m,)."""
        scores = np.broadcast_to(scores, len(self.prediction))
        infinite = np.isinf(scores)
        if infinite.all():
            return scores.copy()
        finite = np.where(infinite, 0.0, scores)
        if self._scale is None:
            values = interval_by(self._inner, finite, self.prediction).upper
        else:
            values = self._scale.upper_bounds(interval_by(self._inner, finite, self._scale.prediction).upper)
        return np.where(infinite, scores, values)

    def _lower_end(self, score: float) -> FloatArray:
        """Return the smallest target whose score is at least a number, or less by rounding errors only. Shape (m,).

        Many targets can have the same score, if a transform or a score is constant in places. All of them count.
        """
        if self._scale is None:
            return self._just_below(self._values(np.asarray(np.nextafter(score, -np.inf))), score)
        on_scale = replace(self, prediction=self._scale.prediction)._lower_end(score)
        lower: FloatArray = self._scale.intervals(Intervals(on_scale, np.full(len(on_scale), np.inf))).lower
        return lower

    def _just_below(self, values: FloatArray, score: float) -> FloatArray:
        """Return the values, moved down by rounding errors only, so that no target below them has this score."""
        lower, finite = values.copy(), np.isfinite(values)
        size = _FIRST_STEP * (np.abs(values) + np.abs(self.prediction.center) + np.finfo(float).tiny)
        for _ in range(_MAX_STEPS if finite.any() else 0):
            high = finite & (self._upper_scores(np.where(finite, lower, 0.0)) >= score)
            if not high.any():
                break
            lower[high] -= size[high]
            size *= 2
        return lower

    @cached_property
    def _value_map(self) -> QuantileFunction | None:
        if self._scale is not None or self._is_whole:
            return None
        return value_map(self._inner, self.prediction)

    def _value_blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield blocks of rows with their values v_i, as a table of limited size: rows by finite scores."""
        finite = self.steps.finite
        n_rows = max(1, _MAX_BLOCK // len(finite))
        for start in range(0, len(self.prediction), n_rows):
            rows = slice(start, start + n_rows)
            yield rows, replace(self, prediction=self.prediction[rows])._value_table()

    def _value_table(self) -> FloatArray:
        """Return the values v_i of each row. Shape (m, k) for k finite scores."""
        finite, m = self.steps.finite, len(self.prediction)
        linear = value_map(self._inner, self.prediction.scored)
        if linear is None:
            repeated = replace(self, prediction=self.prediction[np.repeat(np.arange(m), len(finite))])
            return repeated._possible(repeated._values(np.tile(finite, m))).reshape(m, -1)
        values = table_of_values(linear, finite)
        if self._scale is not None:
            values = self._scale.upper_bounds(values)
        return self._possible(values.T).T  # the limits may differ between rows


def value_map(score: Score, prediction: Prediction) -> QuantileFunction | None:
    """Return the map from scores to values of each row if it is piecewise linear, with knots at common scores."""
    kind: Any = type(score)
    if kind is Residual:
        return _straight_line(prediction.center, np.ones(len(prediction)))
    if kind in (Normalized, Standardized):
        return _straight_line(prediction.center, score._divisor(prediction))  # type: ignore[attr-defined]
    if kind is ProbabilityDistance:
        return score._quantile_function(prediction)  # type: ignore[attr-defined, no-any-return]
    if kind not in (IntervalDistance, RelativeIntervalDistance):
        return None
    lower, upper = (prediction.required(side, by=kind.__name__) for side in ("lower", "upper"))
    in_widths = kind is RelativeIntervalDistance
    return _straight_line(upper, score._width(lower, upper) if in_widths else np.ones(len(upper)))  # type: ignore[attr-defined]


def _straight_line(location: FloatArray, scale: FloatArray) -> QuantileFunction:
    return QuantileFunction(np.zeros(1), location[:, None], scale, scale)


def table_of_values(values: QuantileFunction, scores: FloatArray) -> FloatArray:
    """Return V(s) of each of m rows at each of k scores. Shape (m, k)."""
    segment = np.searchsorted(values.normal_score, scores, side="right")
    knot = np.maximum(segment - 1, 0)
    return np.asarray(values.knots[:, knot] + slopes(values)[:, segment] * (scores - values.normal_score[knot]))


def mean_of_values(steps: ScoreSteps, values: QuantileFunction) -> FloatArray:
    """Return the mean of V(S) for each row, S one of the finite scores, all equally likely. Shape (m,).

    E V(S) = V(z) + ∫ from z to inf of (1 − F) dV − ∫ from −inf to z of F dV, with z at the first knot.
    """
    below, above = steps.integrals(values.normal_score, 1)
    change = slopes(values)[:, 1:] @ -np.diff(above, append=0.0)
    return np.asarray(values.knots[:, 0] + change - values.lower_slope * below[0])


def integrals_of_values(steps: ScoreSteps, values: QuantileFunction, score: FloatArray, power: int) -> Integrals:
    """Return ∫ F^p dV from −inf to each row's score, and ∫ (1 − F)^p dV from there to inf. Shape (m,) each.

    Both are sums over the segments of V: in each its slope, times the change of the integral of F^p below the score, or
    of (1 − F)^p above it.
    """
    below, above = steps.integrals(score, power)
    if len(values.normal_score) == 1 and values.lower_slope is values.upper_slope:  # a straight line
        return Integrals(values.upper_slope * below, values.upper_slope * above)
    at_knots, zeros, slope = steps.integrals(values.normal_score, power), np.zeros((len(score), 1)), slopes(values)
    to_knots = np.minimum(below[:, None], at_knots.below)
    from_knots = np.minimum(above[:, None], at_knots.above)
    rises = np.diff(np.hstack([zeros, to_knots, below[:, None]]), axis=1)
    falls = -np.diff(np.hstack([above[:, None], from_knots, zeros]), axis=1)
    return Integrals(np.einsum("ij,ij->i", slope, rises), np.einsum("ij,ij->i", slope, falls))


def slopes(values: QuantileFunction) -> FloatArray:
    """Return the slope of each row in each of its segments, tails included. Shape (m, Q + 1)."""
    inner = np.diff(values.knots, axis=1) / np.diff(values.normal_score)
    return np.hstack([values.lower_slope[:, None], inner, values.upper_slope[:, None]])


def crps_of_table(y: FloatArray, values: FloatArray) -> FloatArray:
    """Return the CRPS of k equally likely values for each of m rows, from a table of shape (m, k). Shape (m,).

    It is inf if a value is infinite.
    """
    infinite = np.asarray(np.isinf(values).any(axis=1))
    if infinite.any():
        values = np.where(infinite[:, None], 0.0, values)
        return np.where(infinite, np.inf, crps_of_table(y, values))
    share = np.arange(1, values.shape[1]) / values.shape[1]
    split = np.clip(y[:, None], values[:, :-1], values[:, 1:])
    inside = (split - values[:, :-1]) @ share**2 + (values[:, 1:] - split) @ (1 - share) ** 2
    return np.asarray(inside + np.maximum(values[:, 0] - y, 0) + np.maximum(y - values[:, -1], 0))
