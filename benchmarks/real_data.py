"""Print the seconds of the real-data benchmark as JSON, and the seconds of its networks trained one by one.

``python -m benchmarks.real_data`` needs ``EVENCOVER_DATA``, the folder of the paper's six data sets. It runs the
complete command, on all cores and on a GPU if there is one. Then it times one training step in plain PyTorch on one
data set, and multiplies by the number of steps.
"""

import json
import os
import subprocess
import sys
from statistics import median
from tempfile import TemporaryDirectory

import torch

from benchmarks.networks import eager_network
from benchmarks.timing import seconds
from evencover.datasets import Dataset, cards, load_dataset
from evencover.reproduction.benchmark import PAPER_SPLITS, paper_models
from evencover.reproduction.benchmark.model_fits import Split, networks_in

_EPOCHS, _ROUNDS = 40, 5
_MEASURED = "concrete"


def main() -> None:
    """Print the seconds of both."""
    folder = os.environ.get("EVENCOVER_DATA")
    if folder is None:
        sys.exit("EVENCOVER_DATA must name the folder with the paper's data sets as CSV files")
    datasets = {name: load_dataset(name, data_dir=folder) for name in cards()}
    torch.set_num_threads(1)
    per_step = seconds_per_step(datasets[_MEASURED])
    n_steps = sum(map(steps, datasets.values()))
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    found = {"command": seconds_of_the_command(folder), "gpu": gpu, "steps": n_steps, "one_by_one": per_step * n_steps}
    print(json.dumps(found))


def seconds_of_the_command(folder: str) -> float:
    """Return the seconds of ``evencover benchmark``, from its start to its last figure."""
    with TemporaryDirectory() as output:
        command = [sys.executable, "-m", "evencover", "benchmark", "--data-dir", folder, "--output", output]
        return seconds(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))


def seconds_per_step(data: Dataset) -> float:
    """Return the seconds of one step of one network in plain PyTorch, a batch of 64 rows, on the CPU."""
    rows = Split.of(len(data.y), PAPER_SPLITS[0]).training
    X, y = ((values - values.mean(0)) / values.std(0) for values in (data.X[rows], data.y[rows]))
    times = [seconds(lambda: eager_network(X, y, 0, fused=None, epochs=_EPOCHS)) for _ in range(_ROUNDS)]
    return median(times) / (_EPOCHS * (len(rows) // 64))


def steps(data: Dataset) -> int:
    """Return the total number of steps of all networks of a data set in all splits; each network is trained once."""
    networks = {repr(network): network for model in paper_models().values() for network in networks_in(model)}
    n_training, *_ = Split.sizes(len(data.y))
    return sum(network.epochs * (n_training // network.batch_size) for network in networks.values()) * len(PAPER_SPLITS)


if __name__ == "__main__":
    main()
