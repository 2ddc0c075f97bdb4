"""Print the seconds that `evencover predict` needs for six rows, next to `import sklearn`, as JSON.

Both are complete processes, from the start of Python to its end, and are timed alternately.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.main_job import houses
from benchmarks.timing import seconds
from evencover.conformal.predictor_files import PREDICTOR
from evencover.studies import study

_ROWS, _ROUNDS = 3000, 9


def main() -> None:
    """Print the median seconds of both processes."""
    with TemporaryDirectory() as folder:
        table, new = houses(_ROWS), Path(folder) / "new.csv"
        study(table, "price").regressor.save(Path(folder) / PREDICTOR)
        table[:6].to_csv(new, index=False)
        processes = {"predict": ["-m", "evencover", "predict", folder, str(new)], "sklearn": ["-c", "import sklearn"]}
        rounds = [{name: process_seconds(words) for name, words in processes.items()} for _ in range(_ROUNDS)]
    print(json.dumps({name: median(times[name] for times in rounds) for name in processes}))


def process_seconds(arguments: list[str]) -> float:
    """Return the seconds that a Python process with these arguments takes."""
    return seconds(lambda: subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL))


if __name__ == "__main__":
    main()
