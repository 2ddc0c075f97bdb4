"""Calibration, prediction and audits of tables of any size: in files, on several machines, in databases.

Names are loaded on first use: reading a file needs no calibration, and a calibration no tests.
"""

from evencover._lazy import loaded_on_use

TYPE_CHECKING = False  # type checkers take it for that of `typing`, which takes milliseconds to import
if TYPE_CHECKING:
    from evencover.calibration.sql import ThresholdSQL as ThresholdSQL
    from evencover.calibration.sql import calibrate_sql as calibrate_sql
    from evencover.calibration.table_columns import TableColumns as TableColumns
    from evencover.tables.table_audit import audit as audit
    from evencover.tables.table_calibration import calibrate as calibrate
    from evencover.tables.table_format import TableFormat as TableFormat
    from evencover.tables.table_prediction import TablePrediction as TablePrediction
    from evencover.tables.table_prediction import predict as predict

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "calibration.sql": "ThresholdSQL calibrate_sql",
        "calibration.table_columns": "TableColumns",
        "tables.table_audit": "audit",
        "tables.table_calibration": "calibrate",
        "tables.table_format": "TableFormat",
        "tables.table_prediction": "TablePrediction predict",
    },
)
