"""Prediction intervals for tables of any size: bounds as new columns next to those of the table."""

from pathlib import Path
from typing import Any

from evencover._internal.grouped_pools import Unseen
from evencover.distributed._arrow_data import ArrowData, Progress
from evencover.distributed._batch_intervals import batch_intervals
from evencover.distributed._engines import table_data
from evencover.distributed._file_prediction import TablePrediction, predict_files
from evencover.quantiles import Levels

__all__ = ["TablePrediction", "predict"]


def predict(
    data: Any,
    predictor: Any,
    *,
    output: str | Path | None = None,
    level: Levels | None = None,
    unseen: Unseen = "error",
    workers: int | None = None,
    progress: Progress | None = None,
) -> Any:
    """Add the bounds of prediction intervals to a table of any size, as new columns.

    The new columns are ``lower`` and ``upper``; with several levels ``lower_0.9`` and so on; and the ``prediction``, if
    the predictor is a model: its center, or the nearest bound if the center lies outside the interval. A column of the
    table with such a name gets the prefix ``table_``. Bounds of empty intervals are missing values. The memory does not
    grow with the number of rows.

    Parameters
    ----------
    data : str, Path, pyarrow dataset, Dask DataFrame or Spark DataFrame
        A Parquet file, a folder of Parquet files, or a DataFrame. With a calibration, it has the columns of the
        calibration except the targets; with a model, the features that the model was fitted on.
    predictor : TableCalibration, or model
        What `calibrate` returned, or a calibrated model such as `ConformalRegressor`. It is sent to each worker once.
    output : str or Path, optional
        For files: a Parquet file; if the data is a folder, a new folder, in which each file has the name of the file it
        is from. The output is complete, or absent after an error.
    level : float or sequence of floats, optional
        Nominal coverage; by default the first level of the calibration, for a model 0.9.
    unseen : {"error", "marginal", "inf"}
        For a row whose group was not in the calibration: raise an error, use the threshold of all calibration rows
        (without a guarantee), or return an infinite interval.
    workers : int, optional
        For files: number of threads that write files; by default the number of cores.
    progress : callable, optional
        For files: called with the number of rows that were written, and the number of all rows.

    Returns
    -------
    TablePrediction or DataFrame
        For files, what was written. For a DataFrame, a new one of the same kind with the intervals, which the engine
        computes when it is needed: an error in the data is raised then.
    """
    intervals = batch_intervals(predictor, level, unseen)
    source = table_data(data, workers=workers, progress=progress)
    intervals.check(source)
    if isinstance(source, ArrowData):
        if output is None:
            raise ValueError("output must be given for files: a .parquet file, or a new folder if the data is one")
        return predict_files(source, intervals, Path(output))
    if output is not None:
        raise ValueError("output is for files; for a DataFrame, write what predict returns")
    return source.with_intervals(intervals)
