"""What is compared on every data set, and whether that can be done."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from evencover._version import __version__
from evencover.datasets.tables import Dataset
from evencover.experiments.benchmark.contenders import BINNINGS, GROUPS, VARIANTS, Contender, Variant
from evencover.experiments.benchmark.fits import Split, networks_in
from evencover.experiments.benchmark.trials import Trial
from evencover.inputs import is_count
from evencover.models.networks.settings import Training
from evencover.quantiles import conformal_rank, level_fraction

PAPERS_SPLITS = (13, 2, 47, 1, 15, 31, 89, 666, 3, 43)
_VERSIONED = ("numpy", "scipy", "scikit-learn", "quantile-forest", "torch")


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What is compared on every data set, and how.

    Parameters
    ----------
    models : mapping from name to Contender
        Such as `papers_models`.
    variants : mapping from name to Variant
        The paper's seven by default.
    splits : sequence of int
        Seeds of the splits; the paper's ten by default.
    level : float
        Nominal coverage.

    Examples
    --------
    >>> from evencover.experiments.benchmark import papers_models
    >>> len(Benchmark(papers_models(), splits=[1, 2]).trials("mine"))  # 4 models, 7 variants, 2 splits, 2 binnings
    112
    """

    models: Mapping[str, Contender]
    variants: Mapping[str, Variant] = field(default_factory=lambda: dict(VARIANTS))
    splits: Sequence[int] = PAPERS_SPLITS
    level: float = 0.9

    def __post_init__(self) -> None:
        level_fraction(self.level)
        _refuse_others("models", self.models, Contender)
        _refuse_others("variants", self.variants, Variant)
        for part in ("models", "variants", "splits"):
            if not len(getattr(self, part)):
                raise ValueError(f"{part} must not be empty")
        for network in [network for model in self.models.values() for network in networks_in(model)]:
            Training.of(network)  # says what is wrong with its settings
        if not all(is_count(seed) or seed == 0 for seed in self.splits) or len(set(self.splits)) < len(self.splits):
            raise ValueError(f"splits must be different seeds, whole numbers of 0 or more; got {list(self.splits)}")
        object.__setattr__(self, "splits", tuple(int(seed) for seed in self.splits))

    def trials(
        self, data: str, models: Sequence[str] | None = None, splits: Sequence[int] | None = None
    ) -> list[Trial]:
        """Return what is run on a data set, in the order of the results: all, or that of some models and splits."""
        return [
            Trial(data, model, split, variant, binning, float(self.level))
            for model in (self.models if models is None else models)
            for binning in BINNINGS
            for variant in self.variants
            for split in (self.splits if splits is None else splits)
        ]

    def configuration(self, datasets: Sequence[Dataset]) -> dict[str, Any]:
        """Return, as plain values, what decides the numbers."""
        return {
            "level": float(self.level),
            "splits": list(self.splits),
            "models": {
                name: [_in_full(each.calibrated), _in_full(each.baseline)] for name, each in self.models.items()
            },
            "versions": package_versions(),
            "variants": {name: repr(variant) for name, variant in self.variants.items()},
            "datasets": {data.name: data.fingerprint for data in datasets},
        }


def refuse_unfit(datasets: Sequence[Dataset], level: float) -> None:
    """Raise unless the data sets have different names, and rows enough for a threshold in each group."""
    if isinstance(datasets, Dataset | str) or not all(isinstance(data, Dataset) for data in datasets):
        raise TypeError("datasets must be a sequence of Dataset, from load_dataset or of arrays")
    names = [data.name for data in datasets]
    if not names:
        raise ValueError("datasets must not be empty")
    if len(set(names)) < len(names):
        raise ValueError(f"datasets must have different names; got {names}")
    for data in datasets:
        if not _is_enough(len(data.y), level):
            enough = bisect_left(range(10**9), x=True, key=lambda n: _is_enough(n, level))
            raise ValueError(
                f"{data.name} has {len(data.y)} rows, too few for {len(GROUPS)} groups with a threshold each at level "
                f"{level}: it takes {enough} or more"
            )
        if np.ptp(data.y) == 0:
            raise ValueError(f"the response of {data.name} must vary; {data.response} is {data.y[0]:g} in every row")


def _is_enough(n: int, level: float) -> bool:
    """Return whether a split of n rows leaves each third of the calibration rows, less an edge row, a threshold."""
    _, n_calibration, _ = Split.sizes(n)
    third = n_calibration // len(GROUPS) - 1
    return third > 0 and conformal_rank(third, level) <= third


@cache
def package_versions() -> dict[str, str | None]:
    """Return the versions of the packages that decide the numbers, None for what is not installed."""
    return {"evencover": __version__, **{name: _version(name) for name in _VERSIONED}}


def _refuse_others(name: str, values: Any, kind: type) -> None:
    """Raise unless this is a mapping to things of a kind."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{name} must be a mapping from name to {kind.__name__}; got {type(values).__name__}")
    for value in values.values():
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a mapping from name to {kind.__name__}; got one to {type(value).__name__}")


def _in_full(estimator: Any) -> str:
    """Return how an estimator is written, on one line, nothing left out."""
    text = estimator.__repr__(N_CHAR_MAX=10**9) if isinstance(estimator, BaseEstimator) else repr(estimator)
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))  # where a function lies is another thing each time


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
