"""The plan of a study: its model, score, groups, level, split and seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover._internal.arrays import lookup
from evencover.diagnostics._verdict import checked_settings
from evencover.model_selection import check_share
from evencover.models import (
    DropoutEnsemble,
    MeanVarianceNetwork,
    QuantileForest,
    QuantileNetwork,
    WithSpread,
)
from evencover.models._validation import check_regressor
from evencover.scores import Score, checked_score
from evencover.taxonomies import Taxonomy, fresh_taxonomy

_SEED_LIMIT = 2**32  # seeds of scikit-learn are smaller


def _boosting(level: float, seed: int) -> Any:  # noqa: ARG001
    return WithSpread(HistGradientBoostingRegressor(random_state=seed), random_state=seed)


def _linear(level: float, seed: int) -> Any:  # noqa: ARG001
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 5, 9)))
    return WithSpread(ridge, random_state=seed)


MODELS: Mapping[str, Callable[[float, int], Any]] = {  # functions of level and seed
    "boosting": _boosting,
    "linear": _linear,
    "forest": lambda level, seed: QuantileForest(level=level, random_state=seed),
    "quantile-network": lambda level, seed: QuantileNetwork(level=level, random_state=seed),
    "mean-variance-network": lambda level, seed: MeanVarianceNetwork(level=level, random_state=seed),
    "dropout-ensemble": lambda level, seed: DropoutEnsemble(
        MeanVarianceNetwork(level=level, random_state=seed), random_state=seed
    ),
}


@dataclass(frozen=True)
class Plan:
    """The settings of a study.

    Parameters
    ----------
    model : str or regressor
        A name (boosting, linear, forest, quantile-network, mean-variance-network, dropout-ensemble), or any regressor
        with scikit-learn's interface.
    nonconformity : score, optional
        The score; by default selected on the training part.
    taxonomy : taxonomy, optional
        The groups; by default selected on the training part.
    level, tolerance : float
        Nominal coverage, and the largest distance from it that counts as even.
    calibration_size, test_size : float
        Shares of the rows for calibration and for testing; the other rows are for training.
    seed : int
        Seed of the split, the model and the random draws of the tests.

    Examples
    --------
    >>> Plan(model="linear", level=0.8).estimator()
    WithSpread(...)
    """

    model: Any = "boosting"
    nonconformity: Score | None = None
    taxonomy: Taxonomy | None = None
    level: float = 0.9
    tolerance: float = 0.03
    calibration_size: float = 0.4
    test_size: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        settings = checked_settings(self.level, self.tolerance, self.seed)
        object.__setattr__(self, "level", float(settings.level))
        if self.seed >= _SEED_LIMIT:
            raise ValueError(f"seed must be a whole number below {_SEED_LIMIT}; got {self.seed}")
        for name in ("calibration_size", "test_size"):
            check_share(name, getattr(self, name))
        if self.training_size <= 0:
            raise ValueError(
                "calibration_size and test_size must leave rows for training; got "
                f"{self.calibration_size} and {self.test_size}"
            )
        if isinstance(self.model, str):
            lookup(self.model, MODELS, "model")
        else:
            check_regressor(self.model, "model")
        if self.nonconformity is not None:
            checked_score(self.nonconformity)
        if self.taxonomy is not None:
            fresh_taxonomy(self.taxonomy)

    @property
    def training_size(self) -> float:
        """The share of the rows for training."""
        return 1 - self.calibration_size - self.test_size

    def estimator(self) -> Any:
        """Return the model, not yet fitted."""
        return MODELS[self.model](float(self.level), self.seed) if isinstance(self.model, str) else self.model
