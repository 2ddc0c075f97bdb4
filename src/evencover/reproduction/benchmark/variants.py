"""What the benchmark compares: models, variants of calibrating them, and two ways to form groups."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.groups import Groups
from evencover.models import DropoutEnsemble, MeanVarianceNetwork, QuantileForest, QuantileNetwork
from evencover.models.network_layers import TrainingSettings
from evencover.quantiles import level_fraction
from evencover.reproduction.simulation import tertiles
from evencover.rows import Rows
from evencover.scores import IntervalDistance, Normalized, Residual, Score
from evencover.taxonomies import BySpread

GROUP_NAMES = ("low", "medium", "high")


@dataclass(frozen=True, eq=False)
class BenchmarkModel:
    """A model of the benchmark.

    Parameters
    ----------
    calibrated : estimator
        The estimator that is calibrated. `predictions_of` must give its center, spread and bounds. If it or a part of
        it has a `random_state` of None, the benchmark sets one.
    baseline : estimator, optional
        The estimator whose own, uncalibrated intervals are the baseline. The default is the calibrated one: its own
        bounds if they are at the benchmark's level, else the quantiles that it has learned for that level.
    """

    calibrated: Any
    baseline: Any = None


@dataclass(frozen=True)
class Variant:
    """A way from predictions to intervals.

    Parameters
    ----------
    nonconformity : score, optional
        The score to calibrate with. Without one, the model's own intervals are used unchanged.
    by_group : bool
        Whether each group has its own threshold (Mondrian), or all rows share one (marginal).
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
    """Return the paper's four models by name.

    Parameters
    ----------
    level : float
        Nominal coverage of the baselines. The calibrated quantile models predict quantiles with twice the miss rate.
    epochs : int
        Number of training epochs of the networks.
    device : {"auto", "cpu", "cuda"}
        Where networks are trained.
    """
    alpha = 1 - level_fraction(level)
    if 2 * alpha >= 1:
        raise ValueError(
            f"level must be above 0.5, since the calibrated quantile models have twice the miss rate, 2 (1 - level); "
            f"got {level}"
        )
    quantiles = float(alpha / 2), float(1 - alpha / 2)
    settings: dict[str, Any] = {"level": level, "epochs": epochs, "device": device}
    TrainingSettings.of(MeanVarianceNetwork(**settings))  # raises for a bad setting
    return {
        "QR": BenchmarkModel(QuantileNetwork(softening=2, **settings), QuantileNetwork(**settings)),
        "QRF": BenchmarkModel(QuantileForest(level=level, softening=2, quantiles=quantiles)),
        "MV": BenchmarkModel(MeanVarianceNetwork(**settings)),
        "MVE": BenchmarkModel(DropoutEnsemble(MeanVarianceNetwork(**settings))),
    }


def exact_thirds(calibration: Rows, new: Rows) -> tuple[Groups, Groups]:
    """Return thirds of the calibration rows' spread. Edge rows are calibrated separately, so the guarantee is exact."""
    taxonomy = BySpread(len(GROUP_NAMES))
    return _with_all_names(taxonomy.learn(calibration)), _with_all_names(taxonomy.assign(new))


def _with_all_names(groups: Groups) -> Groups:
    """Return groups of which some may have been merged, because of equal spreads, with the names of all three."""
    if len(groups.labels) == len(GROUP_NAMES):
        return groups
    codes = groups.codes if len(groups.labels) == 1 else groups.codes_among(GROUP_NAMES)
    return Groups(codes, GROUP_NAMES, (), groups.edge, groups.n_edge_bits)


def paper_code_thirds(calibration: Rows, new: Rows) -> tuple[Groups, Groups]:
    """Return thirds as in the paper's code: split at numpy's quantiles of the calibration variance, no edge rows."""
    calibration_variance, new_variance = (
        rows.prediction.required("spread", by="the benchmark") ** 2 for rows in (calibration, new)
    )
    (edges,) = tertiles(calibration_variance[None])
    calibration_groups, new_groups = (
        Groups(np.searchsorted(edges, variance), GROUP_NAMES) for variance in (calibration_variance, new_variance)
    )
    return calibration_groups, new_groups


BINNING_METHODS = {"exact": exact_thirds, "as run": paper_code_thirds}
