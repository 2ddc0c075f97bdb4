"""Calibration, prediction and audits of tables of any size: in files, on several machines, in databases.

Names are loaded on first use: reading a file needs no calibration, and a calibration no tests.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evencover.calibration.sql import ThresholdSQL as ThresholdSQL
    from evencover.calibration.sql import calibrate_sql as calibrate_sql
    from evencover.calibration.table_columns import TableColumns as TableColumns
    from evencover.tables.table_audit import audit as audit
    from evencover.tables.table_calibration import calibrate as calibrate
    from evencover.tables.table_prediction import TablePrediction as TablePrediction
    from evencover.tables.table_prediction import predict as predict

_MODULE_OF = {
    "TableColumns": "calibration.table_columns",
    "TablePrediction": "tables.table_prediction",
    "ThresholdSQL": "calibration.sql",
    "audit": "tables.table_audit",
    "calibrate": "tables.table_calibration",
    "calibrate_sql": "calibration.sql",
    "predict": "tables.table_prediction",
}

__all__ = ["TableColumns", "TablePrediction", "ThresholdSQL", "audit", "calibrate", "calibrate_sql", "predict"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"evencover.{_MODULE_OF[name]}"), name)
