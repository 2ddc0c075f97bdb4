"""Engines of DataFrames in partitions: Dask on a cluster of two processes, and Spark in local mode."""

import os
import shutil
import sys
import warnings
from contextlib import contextmanager

import pandas as pd
import pyarrow as pa
import pytest

SPARK_IS_REQUIRED = "EVENCOVER_REQUIRE_SPARK"  # set where Java is installed for the tests: then nothing is skipped


class Dask:
    """Dask DataFrames, computed by two processes."""

    error = ValueError

    def __init__(self, cluster):
        self.cluster = cluster

    def frame(self, tables):
        """Return a DataFrame with these tables as partitions."""
        import dask.dataframe as dd

        frames = [table.to_pandas() for table in tables]
        return dd.from_map(lambda frame: frame, frames, meta=frames[0].iloc[:0])

    def collect(self, frame):
        """Return the rows as a pandas DataFrame, in the order of the partitions."""
        return frame.compute().reset_index(drop=True)


class Spark:
    """Spark DataFrames in local mode."""

    def __init__(self, session):
        from pyspark.errors import PythonException

        self.session, self.error = session, PythonException

    def frame(self, tables):
        """Return a DataFrame with these tables as partitions."""
        from pyspark.sql.pandas.types import from_arrow_schema

        n = len(tables)

        def partition(batches):
            for batch in batches:
                for position in batch.column(0).to_pylist():
                    yield from tables[position].combine_chunks().to_batches()

        return self.session.range(0, n, 1, n).mapInArrow(partition, from_arrow_schema(tables[0].schema))

    def collect(self, frame):
        """Return the rows as a pandas DataFrame, in the order of the partitions."""
        return pd.DataFrame([row.asDict() for row in frame.collect()], columns=frame.columns)


@contextmanager
def dask_cluster():
    """Yield Dask on a cluster of two processes."""
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(n_workers=2, **settings) as cluster, Client(cluster):
        yield Dask(cluster)


@contextmanager
def spark_session(folder):
    """Yield Spark in local mode, which needs Java; its files are in a folder."""
    if shutil.which("java") is None and SPARK_IS_REQUIRED not in os.environ:
        pytest.skip("Spark needs Java; install a Java runtime, such as Debian's openjdk-17-jre-headless")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "300",  # so that partitions have several batches
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PySpark on its own
        session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield Spark(session)
    finally:
        session.stop()


def partitions(table, sizes):
    """Return consecutive parts of a table, of these sizes."""
    assert sum(sizes) == table.num_rows
    starts = [sum(sizes[:position]) for position in range(len(sizes))]
    return [table.slice(start, size) for start, size in zip(starts, sizes, strict=True)]


def joined(tables):
    """Return all partitions as one table."""
    return pa.concat_tables(tables)
