"""Print the training times of networks as JSON: ten on one thread, and the paper's 240 on a GPU.

``python -m benchmarks.networks`` compares ten networks that are trained jointly with the same ten, trained one by one
in plain PyTorch. If there is a GPU and ``EVENCOVER_DATA`` names the folder of the paper's six data sets, it also
trains the paper's 40 networks for each of them.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.timing import seconds
from evencover.datasets import cards, load_dataset
from evencover.models import MeanVarianceNetwork, QuantileNetwork, fit_jointly
from evencover.reproduction.benchmark import PAPER_SPLITS
from evencover.reproduction.benchmark.model_fits import Split

_EPOCHS = 5


def main() -> None:
    """Print the median seconds of each implementation."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {"ten_networks": seconds_of_ten(rounds=7)}
    if torch.cuda.is_available() and "EVENCOVER_DATA" in os.environ:
        found["gpu"] = torch.cuda.get_device_name()
        found["paper"] = [seconds_of_the_paper(Path(os.environ["EVENCOVER_DATA"])) for _ in range(3)]
    print(json.dumps(found))


def seconds_of_ten(*, rounds: int) -> dict[str, float]:
    """Return the median seconds of ten 3 x 64 networks on 4000 x 32 rows, for five epochs on the CPU."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4000, 32)), rng.standard_normal(4000)
    implementations: dict[str, Callable[[], Any]] = {
        "jointly": lambda: fit_jointly(_ten(), X, y),
        "one_by_one": lambda: [eager_network(X, y, seed, fused=None, epochs=_EPOCHS) for seed in range(10)],
        "one_by_one_fused": lambda: [eager_network(X, y, seed, fused=True, epochs=_EPOCHS) for seed in range(10)],
    }
    times = [{name: seconds(call) for name, call in implementations.items()} for _ in range(rounds)]
    return {name: median(each[name] for each in times) for name in implementations}


def eager_network(X: Any, y: Any, seed: int, *, fused: bool | None, epochs: int) -> torch.nn.Module:
    """Return one network trained in plain PyTorch: a module, autograd, an optimiser, a loop over batches."""
    torch.manual_seed(seed)
    features, target = (torch.as_tensor(values, dtype=torch.float32) for values in (X, y))
    layers: list[torch.nn.Module] = []
    for size in (features.shape[1], 64, 64):
        layers += [torch.nn.Linear(size, 64), torch.nn.ReLU(), torch.nn.Dropout(0.2)]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(64, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-4, weight_decay=1e-6, fused=fused)
    for _ in range(epochs):
        for start in range(0, len(features) - 63, 64):
            mean, log_variance = network(features[start : start + 64]).unbind(1)
            variance = log_variance.exp() + 1e-3
            loss = (0.5 * (variance.log() + (target[start : start + 64] - mean) ** 2 / variance)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


def seconds_of_the_paper(folder: Path) -> dict[str, float]:
    """Return the seconds of the paper's 40 networks on each data set, from arrays to fitted models."""
    datasets = [load_dataset(name, data_dir=folder) for name in cards()]
    return {data.name: seconds(lambda data=data: fit_forty(data.X, data.y)) for data in datasets}


def fit_forty(X: Any, y: Any) -> Sequence[Any]:
    """Return the networks of the paper's ten splits: quantile networks at two levels, two mean-variance networks."""
    kinds: list[Callable[[int], Any]] = [
        lambda seed: QuantileNetwork(random_state=seed),
        lambda seed: QuantileNetwork(random_state=seed, softening=2),
        lambda seed: MeanVarianceNetwork(random_state=seed),
        lambda seed: MeanVarianceNetwork(random_state=seed + 1000),
    ]
    rows = [Split.of(len(y), seed).training for seed in PAPER_SPLITS] * len(kinds)
    return fit_jointly([kind(seed) for kind in kinds for seed in PAPER_SPLITS], X, y, rows=rows)


def _ten() -> list[MeanVarianceNetwork]:
    return [MeanVarianceNetwork(epochs=_EPOCHS, device="cpu", random_state=seed) for seed in range(10)]


if __name__ == "__main__":
    main()
