"""Print seconds and peak memory of calibrating Parquet files, next to DuckDB's exact grouped quantiles, as JSON.

    python -m benchmarks.large_files                        10 000 000 rows
    python -m benchmarks.large_files --rows 100000000       more; needs 2.5 GB of disk

Both read the same files, with as many threads as there are cores, each in a process of its own. Seconds do not include
starting Python and importing packages; peak memory is that of the whole process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.child_processes import end_with_parent
from benchmarks.timing import seconds

_ROWS, _FILES, _GROUPS, _ROUNDS = 10_000_000, 10, 10, 21
_LEVEL = 0.9


def main() -> None:
    """Print the medians of each method, and the peak memory at a tenth of the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=_ROWS)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--method", choices=[*METHODS, "write"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    if given.method == "write":  # in a process of its own, because child processes inherit the peak memory
        write_files(given.folder, given.rows)
        return
    if given.method is not None:
        print(json.dumps(measured(given.method, given.folder, given.workers)))
        return
    with TemporaryDirectory() as folder:
        large, small = Path(folder) / "large", Path(folder) / "small"
        for files, n in ((large, given.rows), (small, given.rows // 10)):
            output_of_child("--method", "write", "--folder", str(files), "--rows", str(n))
        rounds = [{name: in_process(name, large, given.workers) for name in METHODS} for _ in range(given.rounds)]
        check_thresholds(rounds[0])
        summary: dict[str, object] = {
            name: {key: median(each[name][key] for each in rounds) for key in ("seconds", "megabytes")}
            for name in METHODS
        }
        tenth = in_process("one pass", small, given.workers)["megabytes"]
        print(json.dumps({**summary, "rows": given.rows, "megabytes_at_a_tenth": tenth}))


def write_files(folder: Path, n: int) -> None:
    """Write targets, predictions and groups to several files, one at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    labels = pa.array([f"region {number}" for number in range(_GROUPS)])
    for number in range(_FILES):
        rng, rows = np.random.default_rng(number), n // _FILES
        center, spread = rng.normal(size=rows), np.exp(rng.normal(size=rows) / 2)
        target = center + spread * rng.standard_t(5, size=rows)
        groups = labels.take(pa.array(rng.integers(0, _GROUPS, rows)))
        table = pa.table({"y": target, "center": center, "spread": spread, "region": groups})
        pq.write_table(table, folder / f"{number:03}.parquet", row_group_size=2**20)


def by_evencover(folder: Path, workers: int, *, exact: bool) -> Callable[[], dict[str, float]]:
    """Return a function that calibrates the files, in one pass, or in two for exact thresholds."""
    import pyarrow.parquet  # noqa: F401

    from evencover.tables import calibrate

    def thresholds() -> dict[str, float]:
        columns = {"target": "y", "center": "center", "spread": "spread", "group": "region"}
        found = calibrate(folder, **columns, level=_LEVEL, exact=exact, workers=workers)
        return dict(zip(map(str, found.labels), found.threshold(_LEVEL).tolist(), strict=True))

    return thresholds


def by_duckdb(folder: Path, workers: int) -> Callable[[], dict[str, float]]:
    """Return a function that finds the quantile of each group with DuckDB."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {workers}")
    query = (
        f"SELECT region, quantile_disc(abs(y - center) / spread, {_LEVEL}) "  # noqa: S608
        f"FROM '{folder}/*.parquet' GROUP BY region"
    )
    return lambda: dict(connection.execute(query).fetchall())


METHODS: dict[str, Callable[[Path, int], Callable[[], dict[str, float]]]] = {
    "one pass": lambda folder, workers: by_evencover(folder, workers, exact=False),
    "exact": lambda folder, workers: by_evencover(folder, workers, exact=True),
    "duckdb": by_duckdb,
}


def measured(method: str, folder: Path, workers: int) -> dict[str, object]:
    """Return the seconds and the peak memory of a method in this process, and its thresholds."""
    thresholds = METHODS[method](folder, workers)
    found: dict[str, float] = {}
    time = seconds(lambda: found.update(thresholds()))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"seconds": time, "megabytes": megabytes, "thresholds": found}


def in_process(method: str, folder: Path, workers: int) -> dict[str, float]:
    """Return what `measured` returns in a process of its own."""
    words = ("--method", method, "--folder", str(folder), "--workers", str(workers))
    found: dict[str, float] = json.loads(output_of_child(*words))
    return found


def output_of_child(*words: str) -> str:
    """Return what this module prints in a process of its own, which ends when this one is killed."""
    command = [sys.executable, "-m", "benchmarks.large_files", *words]
    return subprocess.check_output(command, text=True, preexec_fn=end_with_parent)


def check_thresholds(found: dict[str, dict[str, float]]) -> None:
    """Exit unless the methods agree: quantiles of DuckDB have a rank that differs by at most one."""
    exact, bound, other = (found[name]["thresholds"] for name in ("exact", "one pass", "duckdb"))
    for label, threshold in exact.items():  # type: ignore[attr-defined]
        if not (abs(other[label] / threshold - 1) < 1e-3 and threshold <= bound[label] <= threshold * (1 + 2**-10)):  # type: ignore[index]
            sys.exit(f"the methods disagree about group {label}")


if __name__ == "__main__":
    main()
