"""What a study asks of its calibrated model: how many thresholds it has, and whether groups have too few rows."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from evencover.calibration import Calibration
from evencover.calibrators.two_tails import CalibratedTails
from evencover.cross_conformal import CrossConformalRegressor
from evencover.quantiles import level_fraction


def is_cross(regressor: Any) -> bool:
    """Return whether a model was calibrated on the rows that it was fitted on, by cross-validation."""
    return isinstance(regressor, CrossConformalRegressor)


def has_one_threshold(regressor: Any) -> bool:
    """Return whether the same threshold serves all rows and both ends of their intervals."""
    return len(regressor.calibration_.labels) == 1 and not isinstance(regressor.calibrator_, CalibratedTails)


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
