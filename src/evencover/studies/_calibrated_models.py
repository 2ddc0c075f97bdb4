"""What a study asks of its calibrated model: how many thresholds it has, and whether scores are tied at them."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover.calibration import Calibration
from evencover.calibrators.two_tails import CalibratedTails
from evencover.cross_conformal import CrossConformalRegressor
from evencover.groups import rows_by_code
from evencover.quantiles import clustered_thresholds, level_fraction, thresholds


def is_cross(regressor: Any) -> bool:
    """Return whether a model was calibrated on the rows that it was fitted on, by cross-validation."""
    return isinstance(regressor, CrossConformalRegressor)


def has_one_threshold(regressor: Any) -> bool:
    """Return whether the same threshold serves all rows and both ends of their intervals."""
    return len(regressor.calibration_.labels) == 1 and not isinstance(regressor.calibrator_, CalibratedTails)


def tied_scores(regressor: Any, level: float) -> tuple[float, int]:
    """Return the largest share, and number, of a group's calibration rows whose scores equal its threshold."""
    tied = [
        own == threshold
        for calibration, levels in _calibrations(regressor, (level_fraction(level),))
        for own, threshold in _thresholds_by_group(calibration, levels)
    ]
    return max(float(np.mean(each)) for each in tied), max(int(np.count_nonzero(each)) for each in tied)


def _thresholds_by_group(calibration: Calibration, levels: tuple[Fraction, ...]) -> Iterator[tuple[FloatArray, float]]:
    """Yield the scores of each group that has rows, and their threshold at the first level."""
    groups, sizes = calibration.groups, calibration.cluster_sizes
    for _, rows in rows_by_code(groups.codes, len(groups.labels)):
        own = calibration.scores[rows]
        yield own, (thresholds(own, levels)[0] if sizes is None else clustered_thresholds(own, levels, sizes[rows])[0])


def warn_of_groups_with_few_rows(regressor: Any, level: float) -> None:
    """Warn of groups whose thresholds are infinite, because they have too few calibration rows."""
    for calibration, levels in _calibrations(regressor, (level_fraction(level),)):
        calibration.threshold(levels)


def _calibrations(regressor: Any, levels: tuple[Fraction, ...]) -> Iterator[tuple[Calibration, tuple[Fraction, ...]]]:
    """Yield the calibrations whose thresholds a model uses, one or one for each tail, with their levels."""
    learned = regressor.calibrator_
    if isinstance(learned, CalibratedTails):
        yield from zip((learned.lower, learned.upper), learned.tail_levels(levels), strict=True)
    else:
        yield regressor.calibration_, levels
