"""Predictive distributions: a calibrated distribution of the target for each new row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from evencover.calibration.calibration import Calibration, Seed, Unseen, groups_or_marginal
from evencover.calibration.pools import warn_if_too_few
from evencover.calibration.row_distributions import PoolRows, ScoreSteps, upper_calibration_scores
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
from evencover.inputs.frames import FrameKind, frame_kind
from evencover.intervals import Intervals, for_requested_level, stack_levels
from evencover.predictions import Prediction
from evencover.quantiles import Levels, level_fractions
from evencover.rows import Rows
from evencover.scores.score import Nonconformity, Score


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
    pools: tuple[ScoreSteps, ...]
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
    def _parts(self) -> list[tuple[Any, PoolRows]]:
        """The rows of each pool, and their scores and predictions."""
        by_pool = [(code, rows) for code, rows in rows_by_code(self.pool_codes, len(self.pools)) if len(rows)]
        if len(by_pool) == 1:  # all rows, without copies
            return [(slice(None), self._part(by_pool[0][0], slice(None)))]
        return [(rows, self._part(code, rows)) for code, rows in by_pool]

    def _part(self, code: int, rows: Any) -> PoolRows:
        tau = self.tau if isinstance(self.tau, float) else self.tau[rows]
        return PoolRows(self._score(self.pool_labels[code]), self.pools[code], self.prediction[rows], tau)

    def _score(self, label: Label | None) -> Score:
        if not isinstance(self.nonconformity, Mapping):
            return self.nonconformity
        return self.nonconformity.get(label)  # type: ignore[return-value]  # None only without calibration scores

    def _checked_target(self, y: Any) -> FloatArray:
        """Return one finite number for each row; a single number stands for all rows."""
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
    found = (getattr(calibrated, name, None) for name in ("upper", "calibration"))  # `TwoTails` has both
    calibration = next((each for each in found if isinstance(each, Calibration)), None)
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
    values = checked_vector(np.atleast_1d(np.asarray(p)), "p")
    if not len(values) or not ((values > 0) & (values < 1)).all():
        raise ValueError(f"p must be one or more probabilities, strictly between 0 and 1; got {p!r}")
    return level_fractions(values)
