"""`quality`: how much a model explains, and how wide its intervals are compared with those without any model.

The intervals are those of this package or plain bounds of any library, as users pass them (`checked_intervals`).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from evencover.inputs.arrays import FloatArray, as_floats, checked_summable
from evencover.inputs.frames import check_same_index, frame_kind
from evencover.intervals import Intervals, IntervalUnion, Side, bound_side
from evencover.metrics import interval_scores
from evencover.predictions import Prediction
from evencover.quantiles import Level, level_fraction, thresholds

NEGLIGIBLE_R2 = 0.01  # a smaller R2 counts as 0: less than 1 % of the variation
_BETTER = 0.95  # intervals with at most this share of the score without a model are clearly better
_CLEARLY_WIDER = 1.2  # widths that differ by a smaller factor do not show which rows are noisy
_FEW_ROWS = 30  # with fewer rows, also a low R2 may be chance
_CHANCE = 2.71  # 1.645 squared; see `Quality.may_be_chance`
_ROUNDING_MARGIN = 1e-9  # predictions that agree to this share of their size are equal


@dataclass(frozen=True)
class Quality:
    """How good a model and its intervals are on test rows. Returned by `quality`; `summary` says it in sentences.

    Parameters
    ----------
    rows : int
        Number of test rows.
    level : float
        Nominal coverage.
    r2 : float
        Share of the target's variation that the prediction explains, 1 − Σ (y − prediction)² / Σ (y − mean of y)²: 1 is
        perfect, 0 is as good as the mean of these rows, a negative number is worse. NaN without a prediction, or if the
        target is constant.
    mean_absolute_error : float
        Mean distance between prediction and target; NaN without a prediction.
    mean_prediction : float
        Mean of the predictions; NaN without a prediction.
    constant_prediction : bool
        Whether the prediction is the same number for all rows, apart from rounding; False with fewer than two rows.
    coverage : float
        Share of the targets that lie in their intervals.
    mean_width, median_width : float
        Mean and median width of the intervals. The mean is inf if one interval is infinite; an empty interval has the
        width 0.
    n_infinite : int
        Number of infinite intervals; of one-sided bounds, those that are infinite on both sides.
    no_model_interval : tuple of two floats
        The interval without any model, the same for all rows: quantiles of the reference targets, see `quality`.
    no_model_width, no_model_coverage : float
        Its width, and the share of the test rows' targets in it.
    interval_score, no_model_interval_score : float
        Mean interval (Winkler) score of the intervals, and of the interval without any model: the width, plus a penalty
        for missed targets; the lower, the better. NaN for unions of intervals.
    one_threshold_width : float
        Mean width of the intervals with one threshold for all rows; NaN if they were not given.
    side : {"upper", "lower"} or None
        The side of one-sided bounds: all intervals are infinite on the other side. None for two-sided intervals.
    mean_bound, mean_distance : float
        Of one-sided bounds, the mean of the bounds, and of bound − prediction. NaN for two-sided intervals; the mean
        distance also without a prediction.
    narrow_width, wide_width : float
        The width that a tenth of the intervals does not reach, and the one that a tenth of them exceeds.
    """

    rows: int
    level: float
    r2: float
    mean_absolute_error: float
    mean_prediction: float
    constant_prediction: bool
    coverage: float
    mean_width: float
    median_width: float
    n_infinite: int
    no_model_interval: tuple[float, float]
    no_model_width: float
    no_model_coverage: float
    interval_score: float
    no_model_interval_score: float
    one_threshold_width: float
    side: Side | None = None
    mean_bound: float = math.nan
    mean_distance: float = math.nan
    narrow_width: float = math.nan
    wide_width: float = math.nan

    @property
    def noun(self) -> str:
        """What the intervals are called: intervals, upper bounds or lower bounds."""
        return "intervals" if self.side is None else f"{self.side} bounds"

    @property
    def explains_nothing(self) -> bool:
        """Whether neither the prediction nor the intervals are better than none.

        The prediction explains nothing if R2 is below 0.01. This includes every constant prediction of a target that
        varies. A model can predict badly and still know which rows are noisy. So the intervals count, too: they are
        better than none if they are not the same for all rows, and their interval score is at least 5 % below that of
        the interval without any model. This comparison is fair, because the quantiles of the target minimize the
        expected score of an interval that is the same for all rows. Mean widths alone would not be fair: thresholds per
        group can make them larger.
        """
        return self.r2 < NEGLIGIBLE_R2 and not self.has_better_intervals

    @property
    def may_be_chance(self) -> bool:
        """Whether there are too few rows to say whether the prediction explains anything.

        R2 is at most the squared correlation r² of prediction and target. If the two are unrelated, r² is about χ²₁ /
        rows, so R2 is above 2.71 / rows in at most about 5 % of the cases. An R2 below this bound may be chance. An R2
        below 0.01 is called chance only with fewer than 30 rows. A constant prediction is not chance.
        """
        return (
            not self.constant_prediction
            and self.r2 < _CHANCE / self.rows
            and (self.r2 >= NEGLIGIBLE_R2 or self.rows < _FEW_ROWS)
        )

    @property
    def has_better_intervals(self) -> bool:
        """Whether the intervals differ between rows, and are clearly better than the interval without any model."""
        same_interval = self.constant_prediction and math.isclose(self.mean_width, self.median_width)
        comparable = math.isfinite(self.no_model_interval_score) and not same_interval
        return comparable and self.interval_score <= _BETTER * self.no_model_interval_score

    @property
    def wider_than_without_model(self) -> bool:
        """Whether the intervals are not narrower on average than the interval without any model, and no better.

        They may be wider on average and still better, if they are wide only where the noise is large: then their
        interval score is lower. One infinite interval says nothing about the others, so both widths must be finite.
        Bounds on one side have no width.
        """
        known = self.side is None and self.n_infinite == 0 and math.isfinite(self.no_model_width)
        return known and self.mean_width >= self.no_model_width and not self.has_better_intervals

    @property
    def widths_differ(self) -> bool:
        """Whether wide intervals are clearly wider than narrow ones, by a fifth or more."""
        return self.wide_width >= _CLEARLY_WIDER * self.narrow_width and self.wide_width > 0

    @property
    def summary(self) -> str:
        """The result in sentences, for readers who know no statistics."""
        from evencover.words.answers import quality_text

        return quality_text(self)

    def __str__(self) -> str:
        return self.summary


def quality(
    y: Any,
    intervals: Any,
    *,
    prediction: Any = None,
    reference_y: Any = None,
    one_threshold: Any = None,
    level: Level | None = None,
) -> Quality:
    """Measure how good a model and its intervals are on test rows, compared with using no model.

    Without any model, an interval can still be computed from the targets of n other rows. Let k = ⌈(n + 1)(1 + level)
    / 2⌉, in exact arithmetic. The interval goes from the k-th largest to the k-th smallest of these targets; its ends
    are infinite if k > n. If the new row and the reference rows are exchangeable, it covers with probability at least
    the level: the new target is above the k-th smallest with probability at most 1 − k / (n + 1), which is at most
    (1 − level) / 2, and below the lower end with at most the same probability. Without ties, the number of covered rows
    among m new ones is BetaBinomial(m, 2k − n − 1, 2(n + 1 − k)).

    Parameters
    ----------
    y : array-like of shape (m,)
        Targets of test rows, used neither to train nor to calibrate.
    intervals : Intervals, array-like of shape (m, 2), or pair of arrays of shape (m,)
        Lower and upper bounds, from this package or any other. Infinite and empty intervals are allowed.
    prediction : array-like of shape (m,) or Prediction, optional
        The point predictions of these rows.
    reference_y : array-like of shape (n,), optional
        Targets of other rows for the interval without any model, such as the calibration rows. The default is `y`: then
        the guarantee above does not hold, because the interval is computed from the rows that it covers.
    one_threshold : intervals of m rows, optional
        Intervals of the same model with one threshold for all rows, to compare the widths.
    level : float, optional
        Nominal coverage. The default is the level stored in the intervals, otherwise 0.9.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 100, size=400)
    >>> y = x + rng.normal(size=400)
    >>> found = quality(y, (x - 1.645, x + 1.645), prediction=x)
    >>> found.explains_nothing, round(found.r2, 3), round(found.no_model_width, 1)
    (False, 0.999, 90.9)
    """
    checked = checked_intervals(intervals)
    exact_level = level_fraction(level_of(checked) if level is None else level)
    checked.check_index(y=y, prediction=prediction)
    y = checked_summable(y, "y", length=len(checked), matched="the intervals")
    reference = y if reference_y is None else checked_summable(reference_y, "reference_y")
    lower, upper = interval_without_model(reference, exact_level)
    center = None
    if prediction is not None:
        values = prediction.center if isinstance(prediction, Prediction) else prediction
        center = checked_summable(values, "prediction", length=len(y), matched="y")
    no_model, widths = Intervals(np.full(len(y), lower), np.full(len(y), upper)), checked.width
    return Quality(
        rows=len(y),
        level=float(exact_level),
        **_prediction_measures(y, center),
        coverage=float(np.mean(checked.covers(y))),
        mean_width=float(np.mean(widths)),
        median_width=float(np.median(widths)),
        narrow_width=float(np.quantile(widths, 0.1, method="inverted_cdf")),
        wide_width=float(np.quantile(widths, 0.9, method="inverted_cdf")),
        no_model_interval=(lower, upper),
        no_model_width=upper - lower,
        no_model_coverage=float(np.mean(no_model.covers(y))),
        interval_score=_interval_score(y, checked, exact_level),
        no_model_interval_score=_interval_score(y, no_model, exact_level),
        one_threshold_width=_one_threshold_width(one_threshold, checked),
        **_bound_measures(checked, center),
    )


def _bound_measures(intervals: Intervals | IntervalUnion, prediction: FloatArray | None) -> dict[str, Any]:
    """Return the fields that differ for one-sided bounds. Without a prediction, the one in the intervals is used."""
    side = bound_side(intervals)
    if side is None:
        return {"n_infinite": int(np.isinf(intervals.width).sum())}
    bound: FloatArray = getattr(intervals, side)
    center = getattr(intervals, "prediction", None) if prediction is None else prediction
    distance = math.nan if center is None else float(np.mean(bound - center))
    means = {"mean_bound": float(np.mean(bound)), "mean_distance": distance}
    return {"n_infinite": int(np.isinf(bound).sum()), "side": side, **means}


def _prediction_measures(y: FloatArray, prediction: FloatArray | None) -> dict[str, Any]:
    """Return the fields that depend on the prediction."""
    if prediction is None:
        unknown = dict.fromkeys(("r2", "mean_absolute_error", "mean_prediction"), math.nan)
        return {**unknown, "constant_prediction": False}
    return {
        "r2": r_squared(y, prediction),
        "mean_absolute_error": float(np.mean(np.abs(y - prediction))),
        "mean_prediction": float(np.mean(prediction)),
        "constant_prediction": _is_constant(prediction),
    }


def r_squared(y: FloatArray, prediction: FloatArray) -> float:
    """Return R2; NaN if the target is constant. Numbers are divided by their range, so that squares do not overflow."""
    scale = float(np.ptp(y))
    if scale == 0:
        return math.nan
    residuals, deviations = (y - prediction) / scale, (y - np.mean(y)) / scale
    with np.errstate(over="ignore"):  # of predictions that are far beyond the targets
        return float(1 - np.sum(residuals**2) / np.sum(deviations**2))


def _is_constant(prediction: FloatArray) -> bool:
    """Return whether two or more predictions are equal, apart from rounding."""
    return len(prediction) > 1 and bool(np.ptp(prediction) <= _ROUNDING_MARGIN * np.max(np.abs(prediction)))


def interval_without_model(reference: FloatArray, level: Fraction) -> tuple[float, float]:
    """Return the interval without any model from reference targets, see `quality`.

    Its upper end is from the targets, its lower end from the mirrored targets.
    """
    upper, mirrored = (float(thresholds(targets, ((1 + level) / 2,))[0]) for targets in (reference, -reference))
    return -mirrored, upper


def _interval_score(y: FloatArray, intervals: Intervals | IntervalUnion, level: Fraction) -> float:
    """Return the mean interval score; NaN for unions, for which it is not defined."""
    return float(np.mean(interval_scores(y, intervals, level))) if isinstance(intervals, Intervals) else math.nan


def _one_threshold_width(one_threshold: Any, intervals: Intervals | IntervalUnion) -> float:
    """Return the mean width of the intervals with one threshold; NaN if they were not given."""
    if one_threshold is None:
        return math.nan
    if not isinstance(one_threshold, Intervals | IntervalUnion):
        raise TypeError(f"one_threshold must be Intervals, as intervals are; got {type(one_threshold).__name__}")
    if one_threshold.width.shape != (len(intervals),):
        raise ValueError(
            f"one_threshold must have {len(intervals)} rows, as many as the intervals, for one level; got bounds of "
            f"shape {one_threshold.width.shape}"
        )
    return float(np.mean(one_threshold.width))


def checked_intervals(intervals: Any) -> Intervals | IntervalUnion:
    """Return intervals of any kind as `Intervals` or `IntervalUnion`. Raise if they are not for one level."""
    if not isinstance(intervals, Intervals | IntervalUnion):
        intervals = _from_bounds(intervals)
    checked: Intervals | IntervalUnion = intervals.on_host()
    if checked.width.ndim > 1:
        n_levels = checked.width.shape[1]
        raise ValueError(
            f"intervals must be for one level, such as Intervals(lower[:, 0], upper[:, 0]); got {n_levels} levels"
        )
    if not len(checked):
        raise ValueError("intervals must have at least one row; got 0")
    return checked


def _from_bounds(bounds: Any) -> Intervals:
    """Return intervals from a pair (lower, upper), or from an array of shape (n, 2)."""
    pair = isinstance(bounds, tuple) and len(bounds) == 2
    named = list(zip(("lower", "upper"), bounds, strict=True)) if pair else [("intervals", bounds)]
    check_same_index(dict(named))
    arrays = [as_floats(each, name) for name, each in named]
    if not pair:
        (array,) = arrays
        array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
        if array.ndim != 2 or array.shape[1] != 2:
            raise ValueError(
                "intervals must be Intervals, an array of shape (n, 2) or a pair (lower, upper), for one level; got an "
                f"array of shape {array.shape}"
            )
        arrays = [array[:, 0], array[:, 1]]
    intervals = Intervals(*arrays, frame=next(filter(None, (frame_kind(each) for _, each in named)), None))
    if len(intervals) and np.all(intervals.lower > intervals.upper):
        raise ValueError("intervals must have lower <= upper; in every row, lower is above upper: are the two swapped?")
    return intervals


def level_of(intervals: Intervals | IntervalUnion) -> Level:
    """Return the level stored in the intervals, otherwise 0.9."""
    return 0.9 if intervals.level is None else intervals.level  # type: ignore[return-value]
