"""Who takes part: models, and the variants of calibrating each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.groups import Groups
from evencover.models import DropoutEnsemble, MeanVarianceNetwork, QuantileForest, QuantileNetwork
from evencover.models.networks._training_settings import TrainingSettings
from evencover.predictions import Rows
from evencover.quantiles import level_fraction
from evencover.reproduction.simulation import tertiles
from evencover.scores import IntervalDistance, Normalized, Residual, Score
from evencover.taxonomies import BySpread

GROUPS = ("low", "medium", "high")


@dataclass(frozen=True, eq=False)
class BenchmarkModel:
    """A model of the benchmark.

    Parameters
    ----------
    calibrated : estimator
        What the calibrated variants calibrate: anything that `predictions_of` reads center, spread and bounds from. It
        and its parts get a `random_state` where they have none.
    baseline : estimator, optional
        What the baseline takes its own, uncalibrated intervals from. By default it is the calibrated one: its own
        bounds if they are at the benchmark's level, else the quantiles it has learned for that level.
    """

    calibrated: Any
    baseline: Any = None


@dataclass(frozen=True)
class Variant:
    """A way from predictions to intervals.

    Parameters
    ----------
    nonconformity : score, optional
        The score to calibrate by; without one, the model's own intervals are left as they are.
    by_group : bool
        Whether each group has its own threshold (Mondrian), or all rows have one (marginal).
    """

    nonconformity: Score | None = None
    by_group: bool = False


VARIANTS: Mapping[str, Variant] = {
    "baseline": Variant(),
    "mPointCP": Variant(Residual()),
    "mIntCP": Variant(IntervalDistance()),
    "mNCP": Variant(Normalized()),
    "PointCP": Variant(Residual(), by_group=True),
    "IntCP": Variant(IntervalDistance(), by_group=True),
    "NCP": Variant(Normalized(), by_group=True),
}


def paper_models(*, level: float = 0.9, epochs: int = 300, device: str = "auto") -> dict[str, BenchmarkModel]:
    """Return the paper's four models.

    Parameters
    ----------
    level : float
        Nominal coverage of the baselines; quantiles that are calibrated are softened, to twice as many misses.
    epochs : int
        Of the networks' training.
    device : {"auto", "cpu", "cuda"}
        Where networks are trained.
    """
    alpha = 1 - level_fraction(level)
    if 2 * alpha >= 1:
        raise ValueError(f"level must be above 0.5: quantiles to be calibrated miss twice as often; got {level}")
    own = float(alpha / 2), float(1 - alpha / 2)
    how: dict[str, Any] = {"level": level, "epochs": epochs, "device": device}
    TrainingSettings.of(MeanVarianceNetwork(**how))  # says what is wrong with the settings
    return {
        "QR": BenchmarkModel(QuantileNetwork(softening=2, **how), QuantileNetwork(**how)),
        "QRF": BenchmarkModel(QuantileForest(level=level, softening=2, quantiles=own)),
        "MV": BenchmarkModel(MeanVarianceNetwork(**how)),
        "MVE": BenchmarkModel(DropoutEnsemble(MeanVarianceNetwork(**how))),
    }


def exact_groups(calibration: Rows, new: Rows) -> tuple[Groups, Groups]:
    """Return thirds of the calibration rows' spread, exactly valid: rows on a learned edge stand apart."""
    taxonomy = BySpread(len(GROUPS))
    return taxonomy.learn(calibration), taxonomy.assign(new)


def groups_as_run(calibration: Rows, new: Rows) -> tuple[Groups, Groups]:
    """Return thirds as the paper's code cut them: at numpy's quantiles of the calibration variance, no row apart."""
    old, fresh = (rows.prediction.required("spread", by="the benchmark") ** 2 for rows in (calibration, new))
    (edges,) = tertiles(old[None])
    first, second = (Groups(np.searchsorted(edges, variance), GROUPS) for variance in (old, fresh))
    return first, second


BINNINGS = {"exact": exact_groups, "as run": groups_as_run}
