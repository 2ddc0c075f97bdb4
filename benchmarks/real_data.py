"""How long the real-data benchmark takes, as JSON, and how long its networks would take one after the other.

``python -m benchmarks.real_data`` needs ``EVENCOVER_DATA``, the folder of the paper's six data sets. It runs the whole
command, on all cores and on a GPU if there is one, then times plain PyTorch on one data set and scales that by steps.
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
from evencover.reproduction.benchmark._model_fits import Split, networks_in

_EPOCHS, _ROUNDS = 40, 5
_MEASURED = "concrete"


def main() -> None:
    """Print the seconds of both ways."""
    folder = os.environ.get("EVENCOVER_DATA")
    if folder is None:
        sys.exit("EVENCOVER_DATA must name the folder with the paper's data sets as CSV files")
    datasets = {name: load_dataset(name, data_dir=folder) for name in cards()}
    torch.set_num_threads(1)
    a_step = seconds_a_step(datasets[_MEASURED])
    n_steps = sum(map(steps, datasets.values()))
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    found = {"command": seconds_of_the_command(folder), "gpu": gpu, "steps": n_steps, "one_by_one": a_step * n_steps}
    print(json.dumps(found))


def seconds_of_the_command(folder: str) -> float:
    """Return how long ``evencover benchmark`` takes, from its start to its last figure."""
    with TemporaryDirectory() as output:
        command = [sys.executable, "-m", "evencover", "benchmark", "--data-dir", folder, "--output", output]
        return seconds(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))


def seconds_a_step(data: Dataset) -> float:
    """Return how long plain PyTorch takes for a step of one network, a batch of 64, on the CPU."""
    rows = Split.of(len(data.y), PAPER_SPLITS[0]).training
    X, y = ((values - values.mean(0)) / values.std(0) for values in (data.X[rows], data.y[rows]))
    times = [seconds(lambda: eager_network(X, y, 0, fused=None, epochs=_EPOCHS)) for _ in range(_ROUNDS)]
    return median(times) / (_EPOCHS * (len(rows) // 64))


def steps(data: Dataset) -> int:
    """Return how many steps all networks of a data set take together, in all splits: each is trained once."""
    networks = {repr(each): each for model in paper_models().values() for each in networks_in(model)}
    n_training, *_ = Split.sizes(len(data.y))
    return sum(each.epochs * (n_training // each.batch_size) for each in networks.values()) * len(PAPER_SPLITS)


if __name__ == "__main__":
    main()
