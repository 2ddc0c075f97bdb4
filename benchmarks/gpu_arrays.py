"""Print how long thresholds of scores on a GPU take, next to sorting the same scores, as a Markdown table.

    python -m benchmarks.gpu_arrays                        100 000 000 scores of float64 in 10 groups
    python -m benchmarks.gpu_arrays --rows 10000000        fewer

Needs a GPU with CUDA, torch and array-api-compat; CuPy and JAX are measured if they are installed. Each library sorts
all scores at once, without their groups; a calibration finds the exact threshold of each group, and ties. Both start
with arrays on the GPU, and end when the GPU has finished. The exit status is 1 if thresholds differ from numpy's.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np

from benchmarks.markdown import print_row, spaced
from benchmarks.timing import seconds

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX leaves memory to the other libraries

_ROWS, _GROUPS, _ROUNDS, _SEED = 100_000_000, 10, 11, 0
_CASES = {  # levels, and the type of the groups
    "one level": ([0.9], np.int64),
    "one level, groups of one byte": ([0.9], np.uint8),
    "three levels": ([0.5, 0.9, 0.95], np.int64),
}


@dataclass(frozen=True)
class Library:
    """A library of arrays on a GPU: how to move arrays there and back, to sort them, and to wait for the GPU."""

    name: str
    on_device: Callable[[Any], Any]
    to_numpy: Callable[[Any], Any]
    sort: Callable[[Any], Any]
    wait: Callable[[Any], object]


def main() -> None:
    """Print the medians of each library, and exit with 1 if its thresholds are not those of numpy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=_ROWS)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--libraries", nargs="*", default=["torch", "cupy", "jax"])
    given = parser.parse_args()
    check_cuda()
    rng = np.random.default_rng(_SEED)
    scores, groups = np.abs(rng.standard_t(5, given.rows)), rng.integers(0, _GROUPS, given.rows)
    expected = {name: numpy_thresholds(scores, groups, levels) for name, (levels, _) in _CASES.items()}
    print(f"{gpu()}. {spaced(given.rows)} scores in {_GROUPS} groups, float64. Medians of {given.rounds} rounds.\n")
    print_row("library", "thresholds", "thresholds, ms", "sort of all scores, ms", "ratio", "first call, ms")
    print_row(*["---"] * 6)
    for library in libraries(given.libraries):
        for name, (levels, dtype) in _CASES.items():
            times = measured(library, scores, groups.astype(dtype), levels, given.rounds, expected[name])
            print_row(library.name, name, *times)


def check_cuda() -> None:
    """Exit with one sentence unless there is a GPU."""
    if find_spec("torch") is None:
        sys.exit("benchmarks.gpu_arrays needs torch and a GPU with CUDA; torch is not installed")
    import torch

    if not torch.cuda.is_available():
        sys.exit("benchmarks.gpu_arrays needs a GPU with CUDA; torch finds none")


def gpu() -> str:
    """Return the name of the GPU and the versions of the libraries."""
    import torch

    from evencover.inputs.optional import package_versions

    names = ("torch", "cupy-cuda13x", "cupy-cuda12x", "cupy", "jax", "array-api-compat", "numpy")
    versions = [f"{name} {version}" for name, version in package_versions(names).items() if version is not None]
    return f"{torch.cuda.get_device_name()}; {', '.join(versions)}"


def numpy_thresholds(scores: Any, groups: Any, levels: list[float]) -> Any:
    """Return the thresholds of numpy: those of `conformal_quantile`. Shape (n_groups, L)."""
    from evencover.quantiles import conformal_quantile

    return np.array([conformal_quantile(scores[groups == code], levels) for code in range(_GROUPS)])


def libraries(names: list[str]) -> Iterator[Library]:
    """Yield the libraries that are installed, one at a time because each takes memory of the GPU."""
    makers = {"torch": torch_library, "cupy": cupy_library, "jax": jax_library}
    for name in names:
        if find_spec(name) is None:
            print_row(name, "not installed", *[""] * 4)
            continue
        try:
            library = makers[name]()
        except RuntimeError as error:  # an installation without CUDA
            print_row(name, f"finds no GPU: {str(error).splitlines()[0]}", *[""] * 4)
            continue
        yield library


def torch_library() -> Library:
    """Return torch on the GPU."""
    import torch

    return Library(
        "torch",
        lambda array: torch.as_tensor(array, device="cuda"),
        lambda array: array.cpu().numpy(),
        torch.sort,
        lambda _: torch.cuda.synchronize(),
    )


def cupy_library() -> Library:
    """Return CuPy."""
    import cupy

    wait = cupy.cuda.Device().synchronize
    return Library("cupy", cupy.asarray, cupy.asnumpy, cupy.sort, lambda _: wait())


def jax_library() -> Library:
    """Return JAX with 64 bits."""
    import jax

    jax.config.update("jax_enable_x64", True)  # noqa: FBT003
    device = jax.devices("gpu")[0]
    return Library(
        "jax",
        lambda array: jax.device_put(array, device),
        np.asarray,
        jax.numpy.sort,
        jax.block_until_ready,
    )


def measured(
    library: Library, scores: Any, groups: Any, levels: list[float], rounds: int, expected: Any
) -> tuple[str, ...]:
    """Return the cells of the times: thresholds and sort take turns, after a first call of each."""
    from evencover.calibration.device_scores import DeviceScores
    from evencover.groups import Groups
    from evencover.quantiles import level_fractions

    on_device, codes = library.on_device(scores), library.on_device(groups)
    found: list[Any] = []

    def ours() -> None:
        stored = DeviceScores(on_device, Groups(codes, tuple(range(_GROUPS))))
        found[:] = [stored.thresholds(level_fractions(levels)).table]
        library.wait(found[0])

    def sort() -> None:
        library.wait(library.sort(on_device))

    library.wait(on_device)
    first = seconds(ours)
    if library.to_numpy(found[0]).tobytes() != expected.tobytes():
        sys.exit(f"the thresholds of {library.name} differ from those of numpy")
    sort()
    times = [(seconds(ours), seconds(sort)) for _ in range(rounds)]
    own, sorting = (1e3 * median(column) for column in zip(*times, strict=True))
    return f"{own:.1f}", f"{sorting:.1f}", f"{own / sorting:.2f}", f"{1e3 * first:.0f}"


if __name__ == "__main__":
    main()
