"""Calibration, prediction, audits and studies of tables of any size: in files, and in parts on several machines."""

from typing import TYPE_CHECKING, Any

from evencover.distributed.table_audit import audit
from evencover.distributed.table_calibration import TableCalibration, calibrate
from evencover.distributed.table_prediction import TablePrediction, predict

if TYPE_CHECKING:
    from evencover.distributed.large_study import study as study

__all__ = ["TableCalibration", "TablePrediction", "audit", "calibrate", "predict", "study"]


def __getattr__(name: str) -> Any:
    """Load `study` on first use: it needs all models, and the other functions need little memory."""
    if name == "study":
        from evencover.distributed.large_study import study

        return study
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
