"""Calibration, prediction and audits of tables of any size: in files, and in parts on several machines.

Names are loaded on first use: reading a file needs no calibration, and a calibration no tests.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evencover.tables.table_audit import audit as audit
    from evencover.tables.table_calibration import TableCalibration as TableCalibration
    from evencover.tables.table_calibration import calibrate as calibrate
    from evencover.tables.table_prediction import TablePrediction as TablePrediction
    from evencover.tables.table_prediction import predict as predict

_MODULE_OF = {
    "TableCalibration": "table_calibration",
    "TablePrediction": "table_prediction",
    "audit": "table_audit",
    "calibrate": "table_calibration",
    "predict": "table_prediction",
}

__all__ = ["TableCalibration", "TablePrediction", "audit", "calibrate", "predict"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
