"""Which engine reads a table in parts: this process, Dask or Spark."""

from collections.abc import Callable
from typing import Any

from evencover.inputs import AmountProgress
from evencover.tables.arrow_data import ArrowData, arrow_data
from evencover.tables.batches import FrameData
from evencover.tables.partitions import dask_data, spark_data

_ENGINES: dict[str, tuple[str, Callable[[Any], FrameData]]] = {  # by the package of a DataFrame
    "dask": ("Dask", dask_data),
    "dask_expr": ("Dask", dask_data),
    "pyspark": ("Spark", spark_data),
}


def table_data(
    data: Any, *, workers: int | None = None, progress: AmountProgress | None = None
) -> ArrowData | FrameData:
    """Return the data as a table in parts.

    Parameters
    ----------
    data : str, Path, pyarrow dataset, Dask DataFrame or Spark DataFrame
        The data. The packages of a DataFrame are loaded already, so its class tells which one it is.
    workers, progress
        As in `arrow_data`; for files only.
    """
    name, data_of = _ENGINES.get(type(data).__module__.partition(".")[0], ("", None))
    if data_of is None:
        return arrow_data(data, workers=workers, progress=progress)
    given = [name for name, value in (("workers", workers), ("progress", progress)) if value is not None]
    if given:
        raise ValueError(f"{' and '.join(given)}: for files only; {name} has its own workers, and shows their progress")
    return data_of(data)
