"""Calibrators: what learns from scores how large a new row's score may be, and answers for new rows."""

from evencover.calibrators.by_group import ByGroup, CalibratedGroups
from evencover.calibrators.protocols import Calibrated, Calibrator

__all__ = ["ByGroup", "Calibrated", "CalibratedGroups", "Calibrator"]
