"""The empirical distribution of calibration scores, for predictive distributions: ranks, probabilities, integrals."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray

Side: TypeAlias = Literal["left", "right"]
_BLOCK = 4096  # values that are searched at once
_MIN_TO_SORT = 1000  # from so many values on, it is faster to sort them before they are searched


class Integrals(NamedTuple):
    """∫ F^p from −inf to x, and ∫ (1 − F)^p from x to inf, of a step function F; each has the shape of x."""

    below: FloatArray
    above: FloatArray


@dataclass(frozen=True, eq=False)
class ScoreSteps:
    """The n calibration scores of a pool, in increasing order.

    A rank counts from 1 to n. Rank 0 is −inf, and rank n + 1 is inf: a new score lies beyond each end of n other scores
    with probability 1 / (n + 1). Where a mean or an integral has to be finite, the distribution is that of the finite
    scores, all equally likely: F(x) = #{i : s_i <= x} / k for k finite scores.
    """

    scores: FloatArray

    @property
    def n(self) -> int:
        """The number of scores."""
        return len(self.scores)

    def cdf(self, scores: FloatArray, tau: float | FloatArray, side: Side = "right") -> FloatArray:
        """Return (#{s_i <= s} + tau) / (n + 1) for each score s; with ``side="left"`` it counts s_i < s."""
        return np.asarray((_positions(self.scores, scores, side) + tau) / (self.n + 1))

    def randomized_rank(self, scores: FloatArray, tau: float | FloatArray) -> FloatArray:
        """Return (#{s_i < s} + tau (#{s_i = s} + 1)) / (n + 1) for each score s."""
        smaller = _positions(self.scores, scores, "left")
        ties = _positions(self.scores, scores, "right") - smaller
        return np.asarray((smaller + tau * (ties + 1)) / (self.n + 1))

    def rank(self, probability: Fraction, tau: float | FloatArray) -> IntArray:
        """Return the smallest rank i with (i + tau) / (n + 1) >= probability; exact unless tau is random."""
        needed = probability * (self.n + 1)
        if isinstance(tau, float):
            exact = needed - Fraction(tau)
            return np.asarray(-(-exact.numerator // exact.denominator))
        return np.ceil(float(needed) - tau).astype(np.intp)

    def at_rank(self, ranks: IntArray) -> FloatArray:
        """Return the scores of these ranks; infinite below 1 and above n."""
        return self._padded.take(ranks, mode="clip")

    @cached_property
    def _padded(self) -> FloatArray:
        return np.concatenate([[-np.inf], self.scores, [np.inf]])

    @cached_property
    def finite(self) -> FloatArray:
        """The finite scores. Shape (k,)."""
        start = np.searchsorted(self.scores, -np.inf, side="right")
        return self.scores[start : np.searchsorted(self.scores, np.inf, side="left")]

    def integrals(self, x: FloatArray, power: int) -> Integrals:
        """Return ∫ F^p from −inf to each x, and ∫ (1 − F)^p from each x to inf, for p = 1 or 2.

        F is constant between two scores, so both are linear in x there. The values at the scores are sums, computed
        once. There must be a finite score.
        """
        result = Integrals(np.empty(len(x)), np.empty(len(x)))
        for start in range(0, len(x), _BLOCK):  # small arrays stay in the cache of the processor
            rows = slice(start, start + _BLOCK)
            result.below[rows], result.above[rows] = self._integrals(x[rows], power)
        return result

    def _integrals(self, x: FloatArray, power: int) -> Integrals:
        at_scores = self._integrals_at_scores(power)
        position = _positions(self.finite, x, "right")  # 0 to k, of the step of F
        share = position / len(self.finite)
        position -= position > 0  # of the score where the step starts; the first step ends at the first score
        distance = x - self.finite.take(position)
        below = at_scores.below.take(position) + share**power * distance
        return Integrals(below, at_scores.above.take(position) - (1 - share) ** power * distance)

    def _integrals_at_scores(self, power: int) -> Integrals:
        """Return the integrals up to and from each finite score. Shape (k,) each; cached."""
        if power not in self._integral_cache:
            k = len(self.finite)
            widths, share = np.diff(self.finite), np.arange(1, k) / k
            below, above = np.zeros(k), np.zeros(k)
            np.cumsum(share**power * widths, out=below[1:])
            np.cumsum(((1 - share) ** power * widths)[::-1], out=above[-2::-1])
            self._integral_cache[power] = Integrals(below, above)
        return self._integral_cache[power]

    @cached_property
    def _integral_cache(self) -> dict[int, Integrals]:
        return {}


def _positions(sorted_scores: FloatArray, values: FloatArray, side: Side) -> IntArray:
    """Return where each value belongs among sorted scores, as `np.searchsorted` does.

    Sorted values are found faster, because neighbours in the order are near each other in memory.
    """
    if min(len(sorted_scores), len(values)) < _MIN_TO_SORT:
        return np.searchsorted(sorted_scores, values, side=side)
    order = np.argsort(values)
    positions = np.empty(len(values), dtype=np.intp)
    positions[order] = np.searchsorted(sorted_scores, values[order], side=side)
    return positions
