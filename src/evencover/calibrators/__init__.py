"""Calibrators: they learn thresholds from calibration rows, and give prediction sets and p-values for new rows."""

from evencover.calibrators.by_group import ByGroup, CalibratedGroups
from evencover.calibrators.cross import CalibratedFolds
from evencover.calibrators.histogram import HistogramByGroup
from evencover.calibrators.protocols import Calibrated, Calibrator
from evencover.calibrators.two_tails import CalibratedTails, TwoTails

__all__ = [
    "ByGroup",
    "Calibrated",
    "CalibratedFolds",
    "CalibratedGroups",
    "CalibratedTails",
    "Calibrator",
    "HistogramByGroup",
    "TwoTails",
]
