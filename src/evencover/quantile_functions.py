"""Quantile functions of many rows, piecewise linear on the scale of normal scores."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, checked_table, checked_vector


def normal_cdf(z: Any) -> Any:
    """Return the probability of at most z, of any shape."""
    from scipy.special import ndtr

    return ndtr(z)


def normal_quantile(probability: Any) -> Any:
    """Return the quantile of each probability, of any shape."""
    from scipy.special import ndtri

    return ndtri(probability)


_SMALLEST_TAIL = 0.01  # slope of a tail, as a fraction of the spread
_ROUNDING_MARGIN = 8 * float(np.finfo(float).eps)  # relative to the size of a value and of its distance from the knots


@dataclass(frozen=True, eq=False)
class QuantileFunction:
    """The quantile function of each of n rows, as a function of the normal score z = Φ⁻¹(p) of the probability p.

    It is linear between the knots. Below the first and above the last knot it continues with given slopes, so the tails
    are those of normal distributions. Its inverse is the normal score of the cdf, Φ⁻¹(F(y)), which does not saturate in
    the tails as F itself does. If neighbouring knots are equal, F jumps there.

    Parameters
    ----------
    normal_score : ndarray of shape (Q,)
        The normal scores of the knots, strictly increasing.
    knots : ndarray of shape (n, Q)
        The quantiles, not decreasing in a row.
    lower_slope, upper_slope : ndarray of shape (n,)
        The slopes of the tails, 0 or more. A tail with slope 0 has no mass.
    """

    normal_score: FloatArray
    knots: FloatArray
    lower_slope: FloatArray
    upper_slope: FloatArray

    @classmethod
    def straight_lines(cls, location: FloatArray, slope: FloatArray | None = None) -> "QuantileFunction":
        """Return ``location + slope × z`` for each row; the slope is 1 by default."""
        slopes = np.ones(len(location)) if slope is None else slope
        return cls(np.zeros(1), location[:, None], slopes, slopes)

    def values(self, z: float | FloatArray, *, outward: int = 0) -> FloatArray:
        """Return the quantile of each row at one normal score, or at one for each row. Shape (n,).

        With `outward` −1 or +1, a rounding margin is subtracted or added, so that a target whose normal score is z is
        not beyond its quantile.
        """
        scores = np.broadcast_to(np.asarray(z, dtype=float), len(self.knots))
        side: Literal["left", "right"] = "left" if outward < 0 else "right"  # at a knot, the segment further outward
        nearest, slope = self._segment(np.searchsorted(self.normal_score, scores, side=side))
        start, score = self._at(nearest)
        distance = scores - score
        moved = np.zeros(len(scores))
        np.multiply(distance, slope, out=moved, where=slope > 0)  # without a tail, infinite scores stay at the knot
        values = start + moved
        if outward:
            margin = np.abs(start) + np.abs(moved) + slope * np.where(np.isinf(scores), 0.0, np.abs(scores))
            values += outward * _ROUNDING_MARGIN * np.where(np.isinf(margin), 0.0, margin)
        return values

    def normal_scores(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Φ⁻¹(F(y−)) and Φ⁻¹(F(y)), which differ if y has positive probability. Shape (n,) each."""
        target = y[:, None]
        at = self._normal_score(y, np.count_nonzero(self.knots <= target, axis=1))
        if not (self.knots == target).any():
            return at, at
        return self._normal_score(y, np.count_nonzero(self.knots < target, axis=1)), at

    def _normal_score(self, y: FloatArray, segment: IntArray) -> FloatArray:
        """Return the normal score of targets in a segment: after so many knots."""
        nearest, slope = self._segment(segment)
        start, score = self._at(nearest)
        distance = y - start
        moved = np.where(segment == 0, -np.inf, np.inf)  # in a tail without mass
        np.divide(distance, slope, out=moved, where=slope > 0)
        return np.asarray(score + moved)

    def _segment(self, segment: IntArray) -> tuple[IntArray, FloatArray]:
        """Return the position of a knot at an end of each row's segment, and the slope in the segment. Shape (n,)."""
        last = len(self.normal_score) - 1
        nearest = np.clip(segment - 1, 0, last)
        after = np.clip(segment, 0, last)
        rise = self._knots_at(after) - self._knots_at(nearest)
        run = self.normal_score[after] - self.normal_score[nearest]
        slope = np.where(segment == 0, self.lower_slope, self.upper_slope)
        np.divide(rise, run, out=slope, where=run > 0)
        return nearest, slope

    def _at(self, position: IntArray) -> tuple[FloatArray, FloatArray]:
        return self._knots_at(position), self.normal_score[position]

    def _knots_at(self, position: IntArray) -> FloatArray:
        return np.take_along_axis(self.knots, position[:, None], axis=1)[:, 0]


def _with_normal_tails(normal_score: FloatArray, knots: FloatArray, smallest_slope: FloatArray) -> QuantileFunction:
    """Return the quantile functions through these knots, with tails of the mean slopes on their sides of the median.

    Parameters
    ----------
    normal_score : ndarray of shape (Q,)
        The normal scores of the knots; two or more.
    knots : ndarray of shape (n, Q)
        The quantiles, not decreasing in a row.
    smallest_slope : ndarray of shape (n,)
        Lower limit of the slopes of the tails.
    """
    overall = (knots[:, -1] - knots[:, 0]) / (normal_score[-1] - normal_score[0])
    inside = QuantileFunction(normal_score, knots, overall, overall)
    median = inside.values(0.0)
    slopes = [
        (knots[:, end] - median) / normal_score[end] if sign * normal_score[end] > 0 else overall
        for end, sign in ((0, -1), (-1, 1))
    ]
    return QuantileFunction(normal_score, knots, *(np.maximum(slope, smallest_slope) for slope in slopes))


def checked_probabilities(probabilities: Any, name: str) -> FloatArray:
    """Return probabilities as an array. Raise ValueError unless they lie strictly between 0 and 1."""
    values = checked_vector(probabilities, name)
    if not ((values > 0) & (values < 1)).all():
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {values.tolist()}")
    return values


def checked_quantiles(
    quantiles: Any, probabilities: Any
) -> tuple[FloatArray | None, FloatArray | None, BoolArray | None]:
    """Return quantiles in increasing order, their probabilities, and which rows were in the wrong order."""
    if (quantiles is None) != (probabilities is None):
        raise ValueError("quantiles and probabilities must be given together; got only one of them")
    if quantiles is None:
        return None, None, None
    at = checked_probabilities(probabilities, "probabilities")
    if len(at) < 2 or not (np.diff(at) > 0).all():
        raise ValueError(f"probabilities must be two or more numbers in increasing order; got {at.tolist()}")
    table = checked_table(quantiles, "quantiles", n_columns=len(at), matched="probabilities")
    crossed: BoolArray = np.asarray((table[:, 1:] < table[:, :-1]).any(axis=1))
    return np.sort(table, axis=1) if crossed.any() else table, at, crossed


def medians(quantiles: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Return the median of each row. Shape (n,)."""
    return interpolated(quantiles, probabilities, None).values(0.0)


def interpolated(quantiles: FloatArray, probabilities: FloatArray, spread: FloatArray | None) -> QuantileFunction:
    """Return the quantile functions through given quantiles; the slope of a tail is at least 1 % of the spread."""
    smallest = np.zeros(len(quantiles)) if spread is None else _SMALLEST_TAIL * spread
    return _with_normal_tails(normal_quantile(probabilities), quantiles, smallest)
