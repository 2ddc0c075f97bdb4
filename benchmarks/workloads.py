"""Rows to calibrate and predict on, and three implementations: evencover, plain numpy and crepes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evencover import Calibration, Normalized, Prediction, PredictiveDistribution, Residual, Rows, calibrate

FloatArray: TypeAlias = NDArray[np.float64]

_LEVEL = 0.9
_SPREAD_EDGES = (1.0, 1.5)  # of three groups, equally likely


@dataclass(frozen=True, eq=False)
class Sample:
    """Targets, predicted center and spread, and the group of the spread; each of shape (n,)."""

    y: FloatArray
    center: FloatArray
    spread: FloatArray
    groups: Any  # codes, or None for rows in one group


Implementation: TypeAlias = Callable[[Sample, Sample], Any]  # calibrates on the first sample, predicts on the second


def sample(n: int, *, seed: int) -> Sample:
    """Return n rows of normal noise with known spread, made without temporary arrays, since memory is measured."""
    rng = np.random.default_rng(seed)
    y, center, spread = np.empty(n), np.empty(n), np.empty(n)
    rng.standard_normal(out=center)
    rng.random(out=spread)
    spread *= 1.5
    spread += 0.5
    rng.standard_normal(out=y)
    y *= spread
    y += center
    return Sample(y, center, spread, np.searchsorted(_SPREAD_EDGES, spread))


def evencover_intervals(calibration: Sample, test: Sample) -> tuple[FloatArray, FloatArray]:
    """Return the bounds by this package, including its checks of the arrays."""
    intervals = _evencover_calibration(calibration).interval(
        Prediction(test.center, test.spread), groups=test.groups, level=_LEVEL
    )
    return intervals.lower, intervals.upper


def numpy_intervals(calibration: Sample, test: Sample) -> tuple[FloatArray, FloatArray]:
    """Return the bounds by plain numpy, without checks: a mask and a partition for each group, then a multiply-add."""
    scores = np.abs(calibration.y - calibration.center) / calibration.spread
    thresholds = np.array([_kth_smallest(scores[calibration.groups == group]) for group in range(3)])
    reach = thresholds[test.groups] * test.spread
    return test.center - reach, test.center + reach


def fastest_numpy_intervals(calibration: Sample, test: Sample) -> tuple[FloatArray, FloatArray]:
    """Return the bounds by numpy as fast as possible: positions instead of a mask for each group."""
    scores = np.abs(calibration.y - calibration.center) / calibration.spread
    members = (np.flatnonzero(calibration.groups == group) for group in range(3))
    thresholds = np.array([_kth_smallest(scores[rows]) for rows in members])
    reach = thresholds.take(test.groups) * test.spread
    return test.center - reach, test.center + reach


def crepes_intervals(calibration: Sample, test: Sample) -> tuple[FloatArray, FloatArray]:
    """Return the bounds by crepes."""
    fitted = _crepes_calibration(calibration)
    bounds = fitted.predict_int(test.center, sigmas=test.spread, bins=test.groups, confidence=_LEVEL)
    return bounds[:, 0], bounds[:, 1]


def evencover_p_values(calibration: Sample, test: Sample) -> FloatArray:
    """Return the p-values of the test targets by this package."""
    prediction = Prediction(test.center, test.spread)
    return _evencover_calibration(calibration).p_values(test.y, prediction, groups=test.groups)


def crepes_p_values(calibration: Sample, test: Sample) -> FloatArray:
    """Return the p-values of the test targets by crepes, not smoothed (its faster kind)."""
    fitted = _crepes_calibration(calibration)
    return np.asarray(fitted.predict_p(test.center, test.y, sigmas=test.spread, bins=test.groups, smoothing=False))


def evencover_crps(calibration: Sample, test: Sample) -> FloatArray:
    """Return the mean CRPS of the test targets by this package, with the residual as the score."""
    rows = Rows(Prediction(calibration.center), y=calibration.y)
    fitted = calibrate(calibration.y, rows.prediction, nonconformity=Residual())
    distribution = PredictiveDistribution.from_calibration(fitted, test.center, calibration_rows=rows)
    return distribution.crps(test.y).mean()


def sorted_scores(calibration: Sample, _: Sample) -> FloatArray:
    """Return the sorted residuals, the lower limit of the work for a predictive distribution."""
    return np.sort(calibration.y - calibration.center)


def crepes_crps(calibration: Sample, test: Sample) -> FloatArray:
    """Return the mean CRPS of the test targets by crepes, with the residual as the score."""
    from crepes import ConformalPredictiveSystem

    fitted = ConformalPredictiveSystem().fit(calibration.y - calibration.center)
    return fitted.evaluate(test.center, test.y, metrics=["CRPS"])["CRPS"]


def _evencover_calibration(rows: Sample) -> Calibration:
    """Return the calibration on these rows."""
    prediction = Prediction(rows.center, rows.spread)
    return calibrate(rows.y, prediction, nonconformity=Normalized(), groups=rows.groups)


def _crepes_calibration(rows: Sample) -> Any:
    """Return crepes' regressor, fitted on these rows."""
    from crepes import ConformalRegressor  # not imported where memory is measured

    return ConformalRegressor().fit(rows.y - rows.center, sigmas=rows.spread, bins=rows.groups)


def _kth_smallest(scores: FloatArray) -> float:
    """Return the score of rank ceil(0.9 (n + 1)), computed in integers."""
    index = -(-(len(scores) + 1) * 9 // 10) - 1
    return float(np.partition(scores, index)[index])
