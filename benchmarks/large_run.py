"""Print the time and the peak memory of `evencover run` on large Parquet files, as JSON.

    python -m benchmarks.large_run                      1 000 000 rows of 20 features
    python -m benchmarks.large_run --rows 10000000      more; needs 2.5 GB of disk

The unit of the time is one fit of scikit-learn's boosting on as many rows as `evencover run` trains on, measured in the
same run. The command runs in a process of its own; its peak memory includes that of its child processes.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.child_processes import end_with_parent
from benchmarks.timing import seconds

_ROWS, _FEATURES, _TRAINING_ROWS, _BLOCK = 1_000_000, 20, 100_000, 250_000


def main() -> None:
    """Print the seconds of the run and of one fit, the peak memory, and the verdict."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=_ROWS)
    parser.add_argument("--step", choices=["write", "fit", "run"])
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.step == "write":
        write_file(given.folder / "data.parquet", given.rows)
    elif given.step == "fit":
        print(json.dumps(seconds_of_fit()))
    elif given.step == "run":
        print(json.dumps(measured_run(given.folder)))
    else:
        with TemporaryDirectory() as folder:
            words = ("--folder", folder, "--rows", str(given.rows))
            in_process("write", *words)
            found = json.loads(in_process("run", *words))
            print(json.dumps({**found, "fit": json.loads(in_process("fit")), "rows": given.rows}))


def write_file(path: Path, n: int) -> None:
    """Write features, and a target whose noise depends on one of them, in blocks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for number, start in enumerate(range(0, n, _BLOCK)):
        X, y = block(number, min(_BLOCK, n - start))
        table = pa.table({**{f"x{position}": column for position, column in enumerate(X.T)}, "y": y})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def block(number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of features and targets."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(n, _FEATURES))
    center = X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] * X[:, 4]
    return X, center + np.exp(X[:, 0] / 2) * rng.standard_t(5, n)


def seconds_of_fit() -> float:
    """Return the seconds of one fit of boosting on the training rows of a run."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y = block(0, _TRAINING_ROWS)
    HistGradientBoostingRegressor(max_iter=2, random_state=0).fit(X, y)  # imports, and starts threads
    return seconds(lambda: HistGradientBoostingRegressor(random_state=0).fit(X, y))


def measured_run(folder: Path) -> dict[str, object]:
    """Return the seconds, the peak memory and the verdict of `evencover run`."""
    words = ["run", str(folder / "data.parquet"), "--target", "y", "--output", str(folder / "out"), "--json"]
    output = []

    def run() -> None:
        command = [sys.executable, "-m", "evencover", *words]
        output.append(subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=end_with_parent))

    time = seconds(run)
    result = json.loads(output[0].stdout)
    megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    predictor = (folder / "out" / "predictor.evencover").stat().st_size / 1e6
    return {
        "seconds": time,
        "megabytes": megabytes,
        "verdict": result["verdict"],
        "used": result["rows"],
        "predictor_megabytes": predictor,
    }


def in_process(step: str, *words: str) -> str:
    """Return what this module prints in a process of its own, which ends when this one is killed.

    It has as many threads as `evencover run` uses by default, half of the cores.
    """
    command = [sys.executable, "-m", "benchmarks.large_run", "--step", step, *words]
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // 2))}
    return subprocess.check_output(command, text=True, env={**os.environ, **threads}, preexec_fn=end_with_parent)


if __name__ == "__main__":
    main()
