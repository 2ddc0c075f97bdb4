"""Which engine reads a table, and what the task of a partition returns on a cluster."""

from typing import TYPE_CHECKING, Any

from evencover.inputs import AmountProgress
from evencover.tables.arrow_data import ArrowData, arrow_data

if TYPE_CHECKING:
    from evencover.tables.dask_data import DaskData
    from evencover.tables.spark_data import SparkData


def table_data(
    data: Any, *, workers: int | None = None, progress: AmountProgress | None = None
) -> "ArrowData | DaskData | SparkData":
    """Return the data as a table in parts.

    Parameters
    ----------
    data : str, Path, pyarrow dataset, Dask DataFrame or Spark DataFrame
        The data. The packages of a DataFrame are loaded already, so its class tells which one it is.
    workers, progress
        As in `arrow_data`; for files only.
    """
    engine = type(data).__module__.partition(".")[0]
    if engine not in ("dask", "dask_expr", "pyspark"):
        return arrow_data(data, workers=workers, progress=progress)
    given = [name for name, value in (("workers", workers), ("progress", progress)) if value is not None]
    if given:
        name = "Spark" if engine == "pyspark" else "Dask"
        raise ValueError(f"{' and '.join(given)}: for files only; {name} has its own workers, and shows their progress")
    if engine == "pyspark":
        from evencover.tables.spark_data import spark_data

        return spark_data(data)
    from evencover.tables.dask_data import dask_data

    return dask_data(data)
