"""Calibration, prediction and audits of tables of any size: in files, and in parts on several machines."""

from evencover.distributed.table_audit import audit
from evencover.distributed.table_calibration import TableCalibration, calibrate
from evencover.distributed.table_prediction import TablePrediction, predict

__all__ = ["TableCalibration", "TablePrediction", "audit", "calibrate", "predict"]
