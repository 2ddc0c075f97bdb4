"""The plan of a study: its model, score, groups, level, split and seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover._internal.arrays import FloatArray, lookup
from evencover.calibrators.two_tails import as_two_sided
from evencover.diagnostics._verdict import checked_settings
from evencover.diagnostics.recommendation_result import Tails
from evencover.model_selection import check_share
from evencover.models import (
    DropoutEnsemble,
    MeanVarianceNetwork,
    QuantileForest,
    QuantileNetwork,
    WithSpread,
)
from evencover.models._validation import check_regressor
from evencover.scores import Bounded, Score
from evencover.scores.score import checked_score
from evencover.target_support import Support
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
    tails : {"joint", "separate"}, optional
        One threshold for both ends of the intervals; or one for each end (`TwoTails`), so that at most half of
        1 − level lies below the intervals, and at most half above. By default selected on the training part; joint if
        the score and the groups are given.
    level, tolerance : float
        Nominal coverage, and the largest distance from it that counts as even.
    calibration_size, test_size : float
        Shares of the rows for calibration and for testing; the other rows are for training.
    target_transform : {"auto", "none"}
        Whether a model of the log of the target is evaluated, too, if all training targets are positive and they are
        skewed. Not if the score and the groups are given.
    support : {"auto", "none"} or Support
        The values that the target can have; the score is `Bounded` by it. "auto" decides it on the training targets:
        if none of them is negative, the limit is 0; if all are whole numbers, intervals hold whole numbers only.
        "none" is no support. It does not apply to a score that is `Bounded` already.
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
    tails: Tails | None = field(default=None, kw_only=True)
    level: float = 0.9
    tolerance: float = 0.03
    calibration_size: float = 0.4
    test_size: float = 0.2
    support: Support | Literal["auto", "none"] = "auto"
    target_transform: Literal["auto", "none"] = field(default="auto", kw_only=True)
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
        if self.tails not in (None, "joint", "separate"):
            raise ValueError(f"tails must be 'joint', 'separate' or None; got {self.tails!r}")
        if self.nonconformity is not None:
            checked_score(self.nonconformity)
            if self.tails == "separate":
                as_two_sided(self.nonconformity)
        if self.target_transform not in ("auto", "none"):
            raise ValueError(f"target_transform must be 'auto' or 'none'; got {self.target_transform!r}")
        if not isinstance(self.support, Support) and self.support not in ("auto", "none"):
            raise ValueError(
                f"support must be 'auto', 'none' or a support such as Support(y_min=0); got {self.support!r}"
            )
        if self.taxonomy is not None:
            fresh_taxonomy(self.taxonomy)

    @property
    def training_size(self) -> float:
        """The share of the rows for training."""
        return 1 - self.calibration_size - self.test_size

    def target_support(self, y: FloatArray) -> Support | None:
        """Return the support of the target, for training targets `y`; None if it has none.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets of the training rows.
        """
        if isinstance(self.nonconformity, Bounded):
            return self.nonconformity.support
        if isinstance(self.support, Support):
            return self.support
        return Support.of_targets(y) if self.support == "auto" else None

    def estimator(self) -> Any:
        """Return the model, not yet fitted."""
        return MODELS[self.model](float(self.level), self.seed) if isinstance(self.model, str) else self.model
