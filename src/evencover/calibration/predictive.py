"""Predictive distributions: a calibrated distribution of the target for each new row."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from evencover.calibration.calibration import Calibration, Seed, Unseen, groups_or_marginal
from evencover.calibration.stored_scores import warn_if_too_few
from evencover.groups import Groups, Label, rows_by_code
from evencover.guarantees import Guarantee
from evencover.inputs.arrays import (
    FloatArray,
    IntArray,
    check_count,
    checked_for_each_row,
    checked_vector,
    generator,
    row_selection,
)
from evencover.inputs.frames import FrameKind, check_same_index, frame_kind
from evencover.intervals import Intervals, for_requested_level, stack_levels
from evencover.predictions import Prediction
from evencover.quantile_functions import QuantileFunction
from evencover.quantiles import Levels, level_fractions
from evencover.rows import Rows
from evencover.scores.evaluation import checked_scores, interval_by
from evencover.scores.score import Nonconformity, Score, has_tails, innermost, states
from evencover.scores.support import Bounded, holds_whole_numbers, support_of, without_support

Side: TypeAlias = Literal["left", "right"]

_BLOCK = 4096  # values that are searched at once
_MIN_TO_SORT = 1000  # from so many values on, it is faster to sort them before they are searched
_MAX_BLOCK = 1 << 18  # values of rows by scores that are in memory at once
_FIRST_STEP = 8 * float(np.finfo(float).eps)  # relative to the size of a bound
_MAX_STEPS = 6
_HALF = 0.5 + 2.0**-20  # values of a half and more are rounded up, also if they are a bit smaller by rounding errors


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveDistribution:
    """The distribution of the target of each of m new rows: a conformal predictive system.

    `ConformalRegressor.predict_distribution` makes it. The score s of a target y of a new row is compared with the n
    calibration scores s_i of its group. This score increases with y: it is how far y is above what was predicted, in
    the unit of the model's score, such as y − center for `Residual` and (y − center) / spread for `Normalized`. Then

        Q(y) = (#{s_i < s} + τ (#{s_i = s} + 1)) / (n + 1).

    If the new row is exchangeable with the calibration rows of its group, and τ is uniform on (0, 1), then Q of the
    observed target is exactly uniform on (0, 1), for any model. Without a seed, τ is 1/2 for all rows. Then Q can be
    off by at most 1/2 (n + 1), and with ties by half of their share.

    Each s_i stands for a value v_i of the row, the largest target whose score is at most s_i. `cdf` counts these values
    and leaves a mass of τ / (n + 1) below all of them, and of (1 − τ) / (n + 1) above all of them: how far beyond them
    the target can lie is unknown. So `cdf` is never 0 or 1, and `ppf` is infinite near 0 and 1. A mean, a draw and a
    CRPS need a distribution without infinite values. `mean`, `rvs` and `crps` are those of the n values v_i, all
    equally likely: the mass of both ends is shared by all values. They do not depend on τ. Infinite calibration scores
    count in `cdf`, `ppf` and `pit`, and are left out of these three. With a `Bounded` score all values are possible
    targets, and `cdf` is 0 below the limits and 1 from the upper limit on.

    If all targets are whole numbers (``Bounded(..., whole=True)``), the values v_i are rounded to the nearest whole
    number, and halves are rounded up. The scores do not tell which whole number a value between two of them stands
    for. Rounding all values down and rounding all of them up give the two limits of the distribution; rounding down
    alone would move it down by half a unit on average. `interval` rounds its ends inward, and `pit` rounds nothing, so
    both are exact.

    Results are arrays in the order of the rows. ``distribution[rows]`` selects rows.

    Parameters
    ----------
    nonconformity : score or mapping from label to score
        The model's score, or one for each group.
    prediction : Prediction of m rows
        The model's predictions.
    groups : Groups of m rows
        The group of each row.
    pools : tuple of ScoreSteps
        The calibration scores that rows are compared with: those of a group, as a rule.
    pool_labels : tuple of labels
        The group of each pool; None for a pool without scores.
    pool_codes : ndarray of int, shape (m,)
        Position of each row's pool in `pools`.
    tau : float, or ndarray of shape (m,)
        τ of all rows, or of each row.
    guarantee : Guarantee
        The coverage guarantee of intervals.
    frame : FrameKind, optional
        The library and index of the table that was predicted for.

    References
    ----------
    Vovk, Shen, Manokhin, Xie (2019), Nonparametric predictive distributions based on conformal prediction.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from evencover import ConformalRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ConformalRegressor(Ridge(), random_state=0).fit(X, y)
    >>> distribution = model.predict_distribution(X[:3])
    >>> distribution.median.round(), (1 - distribution.cdf(200)).round(2), distribution.crps(y[:3]).round(1)
    (array([170.,  95., 156.]), array([0.34, 0.05, 0.28]), array([17. , 17.3, 16.4]))
    """

    nonconformity: Nonconformity
    prediction: Prediction
    groups: Groups
    pools: "tuple[ScoreSteps, ...]"
    pool_labels: tuple[Label | None, ...]
    pool_codes: IntArray
    tau: float | FloatArray
    guarantee: Guarantee
    frame: FrameKind | None = None

    @classmethod
    def from_calibration(
        cls,
        calibration: Calibration,
        prediction: Any,
        *,
        groups: Any = None,
        calibration_rows: Rows | None = None,
        seed: Seed = None,
        unseen: Unseen = "error",
    ) -> "PredictiveDistribution":
        """Return the predictive distributions of new rows.

        Parameters
        ----------
        calibration : Calibration
            The calibration scores and their groups.
        prediction : Prediction or Rows of m rows, or array-like of shape (m,)
            The model's predictions for the new rows.
        groups : array-like of shape (m,) or Groups, optional
            The group of each new row; required if the calibration has groups.
        calibration_rows : Rows of n rows, optional
            The predictions and targets that were calibrated on, in their order. Not needed for a one-sided score, such
            as `Standardized`.
        seed, unseen
            As in `ConformalRegressor.predict_distribution`.
        """
        rows = prediction if isinstance(prediction, Rows) else Rows(prediction)
        if calibration.clustered:
            raise ValueError(
                "a predictive distribution takes no clusters; calibrate on one random row of each cluster, or use "
                "predict_interval and p_values, which take clusters"
            )
        if calibration.on_device:
            raise ValueError("a predictive distribution needs arrays of numpy; these are on a device")
        if calibration.weighted or rows.weights is not None:
            raise ValueError(
                "a predictive distribution takes no weights for covariate shift; calibrate without weights, or use "
                "predict_interval and p_values, which take weights"
            )
        if calibration_rows is not None:
            _check_calibration_rows(calibration_rows, len(calibration.scores))
        check_same_index({"prediction": prediction, "groups": groups})
        groups = groups_or_marginal(groups, rows, calibration.labels)
        calibration.check_same_groups(groups, unseen)
        scores = upper_calibration_scores(calibration, calibration_rows, rows.prediction[:1])
        assignment: Any = calibration.with_scores(scores).assignment(groups, unseen)
        return cls(
            calibration.nonconformity,
            rows.prediction,
            groups,
            tuple(ScoreSteps(np.sort(pool.scores)) for pool in assignment.pools),
            tuple(assignment.names),
            assignment.pool_codes,
            0.5 if seed is None else generator(seed).random(len(rows)),
            replace(calibration.guarantee, exact=False, without=groups.labels_not_in(calibration.labels)),
            frame_kind(prediction if rows.X is None else rows.X),
        )

    def cdf(self, y: Any) -> FloatArray:
        """Return the probability that the target of each row is at most `y`. Shape (m,).

        ``1 - distribution.cdf(100)`` is the probability that it exceeds 100. The probability is
        (#{v_i <= y} + τ) / (n + 1). It differs from `pit` only at the values v_i, where it counts all ties.

        Parameters
        ----------
        y : float, or array-like of shape (m,)
            One number for all rows, or one for each row.
        """
        return self._by_pool(PoolRows.cdf, self._checked_target(y))

    def pit(self, y: Any) -> FloatArray:
        """Return the probability integral transform Q(y) of the observed targets, to check the distributions.

        With a seed, the values are exactly uniform on (0, 1) if new rows and calibration rows of a group are
        exchangeable. Without a seed and without ties, they are uniform on the n + 1 numbers (i + 1/2) / (n + 1).

        Parameters
        ----------
        y : array-like of shape (m,)
            The observed targets.

        Returns
        -------
        ndarray of shape (m,)
            One number in (0, 1) for each row.
        """
        return self._by_pool(PoolRows.pit, self._checked_target(y))

    def ppf(self, p: Any) -> FloatArray:
        """Return the quantiles: the smallest value v_i of each row whose `cdf` is at least `p`.

        It is −inf for p <= τ / (n + 1) and inf for p > (n + τ) / (n + 1): few calibration rows have no such quantiles.

        Parameters
        ----------
        p : float, or sequence of P floats
            Probabilities, between 0 and 1.

        Returns
        -------
        ndarray of shape (m,), or (m, P)
            The quantiles.
        """
        columns = [self._quantiles(probability) for probability in _probabilities(p)]
        return np.stack(columns, axis=-1) if np.ndim(p) else columns[0]

    @property
    def median(self) -> FloatArray:
        """The quantile at 1/2. Shape (m,)."""
        return self._quantiles(Fraction(1, 2))

    @property
    def mean(self) -> FloatArray:
        """The mean of the n values v_i, all equally likely. Shape (m,).

        It is NaN without calibration scores, and if a transformer makes some values −inf and others inf; see
        `ConformalRegressor`'s `target_transform`.

        For a model of the logarithm of the target, each value is an exponential, and the few largest ones can dominate
        the mean. It can be much larger than all observed targets, and it is inf if a value exceeds 1e100. Then use
        `median`, or set a limit with ``Bounded(..., y_max=...)``.
        """
        return self._by_pool(PoolRows.mean)

    def interval(self, level: Levels = 0.9) -> Intervals:
        """Return the central prediction intervals: each end is missed with probability at most (1 − level) / 2.

        With k = ⌊(n + 1) (1 − level) / 2⌋, the ends are the k-th smallest and the k-th largest value v_i, and infinite
        if k is 0. If new rows and calibration rows of a group are exchangeable, the interval covers the target with
        probability at least the level, and without ties with probability 1 − 2k / (n + 1). τ plays no part.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.

        Returns
        -------
        Intervals of m rows
            Bounds of shape (m,), or (m, L) for L levels.
        """
        levels = level_fractions(level)
        self._warn_if_too_few(max(levels))
        by_level = stack_levels([self._central_intervals(each) for each in levels])
        intervals = replace(by_level, groups=self.groups, side="both")
        return for_requested_level(intervals, level, self.prediction.center, self.frame, self.guarantee)

    def rvs(self, seed: Any, *, size: int | None = None) -> FloatArray:
        """Return random draws of the target, for simulations: independent draws from the n values v_i of each row.

        Parameters
        ----------
        seed : int or Generator
            Seed of the draws.
        size : int, optional
            Number of draws for each row; one by default.

        Returns
        -------
        ndarray of shape (m,), or (m, size)
            The draws; NaN without calibration scores.
        """
        if size is not None:
            check_count(size, "size")
        shares = generator(seed).random((len(self), 1 if size is None else size))
        draws = np.stack([self._by_pool(PoolRows.at_shares, column) for column in shares.T], axis=-1)
        return draws[:, 0] if size is None else draws

    def crps(self, y: Any) -> FloatArray:
        """Return the continuous ranked probability score of each row: smaller is better. Shape (m,).

        CRPS = ∫ (F(u) − 1{u >= y})² du, where F is the distribution function of the n values v_i, all equally likely.
        It has the unit of the target. If all mass is at one value, it is the absolute error. The mean over rows
        compares models: its expectation is smallest for the true distribution. ``evencover.crps`` computes the same
        from a table of quantiles. It is inf without calibration scores, and if a value v_i is infinite; for models of
        the logarithm, see `mean`.

        Parameters
        ----------
        y : array-like of shape (m,)
            The observed targets.

        References
        ----------
        Gneiting, Raftery (2007), Strictly proper scoring rules, prediction, and estimation.
        """
        return self._by_pool(PoolRows.crps, self._checked_target(y))

    def _quantiles(self, probability: Fraction) -> FloatArray:
        return self._by_pool(lambda part: part.ppf(probability))

    def _central_intervals(self, level: Fraction) -> Intervals:
        lower, upper, replaced = np.empty(len(self)), np.empty(len(self)), np.zeros(len(self), dtype=bool)
        for rows, part in self._parts:
            found = part.central_interval(level)
            lower[rows], upper[rows], replaced[rows] = found.lower, found.upper, found.replaced
        return Intervals(lower, upper, replaced=replaced)

    def _by_pool(self, function: Callable[..., FloatArray], *arrays: FloatArray) -> FloatArray:
        """Return what a function of the rows of a pool, and of these arrays' rows, returns for each row. Shape (m,)."""
        results = np.empty(len(self))
        for rows, part in self._parts:
            results[rows] = function(part, *(array[rows] for array in arrays))
        return results

    @cached_property
    def _parts(self) -> "list[tuple[Any, PoolRows]]":
        """The rows of each pool, and their scores and predictions."""
        by_pool = [(code, rows) for code, rows in rows_by_code(self.pool_codes, len(self.pools)) if len(rows)]
        if len(by_pool) == 1:  # all rows, without copies
            return [(slice(None), self._part(by_pool[0][0], slice(None)))]
        return [(rows, self._part(code, rows)) for code, rows in by_pool]

    def _part(self, code: int, rows: Any) -> "PoolRows":
        tau = self.tau if isinstance(self.tau, float) else self.tau[rows]
        return PoolRows(self._score(self.pool_labels[code]), self.pools[code], self.prediction[rows], tau)

    def _score(self, label: Label | None) -> Score:
        if not isinstance(self.nonconformity, Mapping):
            return self.nonconformity
        return self.nonconformity.get(label)  # type: ignore[return-value]  # None only without calibration scores

    def _checked_target(self, y: Any) -> FloatArray:
        """Return one finite number for each row; a single number stands for all rows."""
        check_same_index({"distribution": self.frame, "y": y})
        return checked_for_each_row(y, "y", length=len(self), matched="the distribution")

    def _warn_if_too_few(self, level: Fraction) -> None:
        """Warn of the groups whose intervals are infinite, with the number of rows that they need."""
        labels, sizes = self.pool_labels, [pool.n for pool in self.pools]
        warn_if_too_few(self.pool_codes, labels, sizes, (1 + level) / 2, Fraction(1, 2))

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> "PredictiveDistribution":
        """Return the distributions of some rows, selected by a slice, a mask, positions or one position."""
        rows = row_selection(rows)
        return replace(
            self,
            prediction=self.prediction[rows],
            groups=self.groups[rows],
            pool_codes=self.pool_codes[rows],
            tau=self.tau if isinstance(self.tau, float) else self.tau[rows],
            frame=None if self.frame is None else self.frame[rows],
        )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{label} {n}" for label, n in self.guarantee.sizes.items())
        smoothed = "" if isinstance(self.tau, float) else "; smoothed"
        return f"PredictiveDistribution({len(self)} rows; {self.nonconformity}; calibration rows: {sizes}{smoothed})"


def predict_distribution(
    calibrated: Any, rows: Rows, calibration_rows: Rows | None, seed: Seed, unseen: Unseen
) -> PredictiveDistribution:
    """Return the predictive distributions of new rows by what a calibrator learned. It must have groups."""
    calibration: Calibration | None = getattr(calibrated, "distribution_calibration", None)
    if calibration is None:
        raise ValueError(
            "a predictive distribution needs calibration scores by group, such as those of the calibrator ByGroup; "
            f"{type(calibrated).__name__} has none"
        )
    if getattr(calibrated.taxonomy, "needs_target", False):
        raise ValueError(
            "a predictive distribution needs groups that do not depend on the target, such as BySpread(3); got "
            f"{type(calibrated.taxonomy).__name__}"
        )
    groups = calibrated.groups(rows)
    return PredictiveDistribution.from_calibration(
        calibration, rows, groups=groups, calibration_rows=calibration_rows, seed=seed, unseen=unseen
    )


def _check_calibration_rows(rows: Any, n: int) -> None:
    """Raise unless these are as many rows as there are calibration scores."""
    if not isinstance(rows, Rows):
        raise TypeError(f"calibration_rows must be Rows, with predictions and targets; got {type(rows).__name__}")
    if len(rows) != n:
        raise ValueError(f"calibration_rows must be the {n} rows that were calibrated on; got {len(rows)} rows")


def _probabilities(p: Any) -> tuple[Fraction, ...]:
    """Return one or several probabilities as fractions. Raise ValueError unless they lie between 0 and 1."""
    values = checked_vector(np.atleast_1d(p), "p")
    if not len(values) or not ((values > 0) & (values < 1)).all():
        raise ValueError(f"p must be one or more probabilities, strictly between 0 and 1; got {p!r}")
    return level_fractions(values)


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
        return _checked_stored(stored, limited=support_of(score) is not None or new.scale is not None)
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
        return holds_whole_numbers(self.score)

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
    return score.value_map(prediction) if states(score, "value_map") else None  # type: ignore[attr-defined]


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
