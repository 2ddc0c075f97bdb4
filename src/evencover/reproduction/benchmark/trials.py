"""Trials: one variant of one model on one split. Plain values in, rows of the results table out."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np

from evencover.calibration.calibration import Calibration, calibrate
from evencover.diagnostics.score_tests import distribution_differences
from evencover.groups import Groups
from evencover.inputs.arrays import BoolArray, FloatArray
from evencover.intervals import Intervals
from evencover.metrics import interval_scores
from evencover.models import DropoutEnsemble, MeanVarianceNetwork, QuantileForest, QuantileNetwork
from evencover.models.network_layers import TrainingSettings
from evencover.predictions import Prediction
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


Row: TypeAlias = dict[str, Any]
ALL_ROWS = "all"


@dataclass(frozen=True, eq=False)
class SplitPredictions:
    """A model's predictions for the calibration rows, then the test rows, of one split.

    All values are in units of the training targets: their mean is subtracted, and the difference is divided by their
    standard deviation.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets.
    n_calibration : int
        Number of calibration rows, which come first; the others are test rows.
    prediction : Prediction of n rows
        The prediction that is calibrated.
    baseline : Prediction of n rows
        The prediction with the model's own intervals.
    """

    y: FloatArray
    n_calibration: int
    prediction: Prediction
    baseline: Prediction


@dataclass(frozen=True)
class Trial:
    """One variant of one model on one split of a data set.

    Parameters
    ----------
    data, model, variant, binning : str
        Names of the data set, the model, the variant, and the method that forms the groups: "exact" or "as run".
    split : int
        Seed of the split.
    level : float
        Nominal coverage.
    """

    data: str
    model: str
    split: int
    variant: str
    binning: str
    level: float

    @property
    def key(self) -> str:
        """A hash of the trial's values, the same on every machine and in every run."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:20]


def run_trial(trial: Trial, predictions: SplitPredictions, variants: Mapping[str, Variant] = VARIANTS) -> list[Row]:
    """Return the result rows of a trial: one for all test rows, then one for each group.

    A pure function of its arguments. Widths and interval scores are in units of the training targets' standard
    deviation.

    Parameters
    ----------
    trial : Trial
        The trial to run.
    predictions : SplitPredictions
        The model's predictions for the split's calibration and test rows.
    variants : mapping from name to Variant
        Variants by name, among them the trial's.
    """
    variant = variants[trial.variant]
    n = predictions.n_calibration
    prediction, y = predictions.prediction, predictions.y
    groups, new_groups = BINNING_METHODS[trial.binning](Rows(prediction[:n]), Rows(prediction[n:]))
    intervals, center, thresholds, tests = predictions.baseline[n:].interval(), predictions.baseline.center, {}, {}
    if variant.nonconformity is not None:
        calibration = calibrate(
            y[:n],
            prediction[:n],
            nonconformity=variant.nonconformity,
            groups=groups if variant.by_group else None,
        )
        threshold_groups = new_groups if variant.by_group else None
        intervals = calibration.interval(prediction[n:], groups=threshold_groups, level=trial.level)
        center = prediction.center
        thresholds = _thresholds(calibration, trial.level)
        tests = _ks_p_values(variant.nonconformity(y[:n], prediction[:n]), groups)
    y, center = y[n:], center[n:]
    return [
        {
            **asdict(trial),
            "group": group,
            "n_calibration": size,
            **_measures(y[rows], center[rows], intervals[rows], trial.level),
            "threshold": thresholds.get(group, np.nan),
            **{f"ks_{pair}": tests.get(pair, np.nan) for pair in ("low_medium", "low_high", "medium_high")},
        }
        for group, size, rows in _rows_by_group(groups, new_groups)
    ]


def _measures(y: FloatArray, center: FloatArray, intervals: Intervals, level: float) -> Row:
    """Return the measures of some test rows; NaN where there are too few rows."""
    n, covered = len(y), int(intervals.covers(y).sum())
    return {
        "n_test": n,
        "covered": covered,
        "coverage": covered / n if n else np.nan,
        "width": float(intervals.width.mean()) if n else np.nan,
        "winkler": float(interval_scores(y, intervals, level).mean()) if n else np.nan,
        "r2": _r2(y, center),
    }


def _r2(y: FloatArray, center: FloatArray) -> float:
    """Return R², the share of the targets' variance that a prediction explains; NaN if the targets do not vary."""
    variation = np.sum((y - y.mean()) ** 2) if len(y) else 0.0
    return float(1 - np.sum((y - center) ** 2) / variation) if variation > 0 else np.nan


def _rows_by_group(groups: Groups, new_groups: Groups) -> list[tuple[str, int, BoolArray]]:
    """Return, for all rows and for each group, the name, the number of calibration rows and a mask of the test rows.

    A test row has its own threshold if its spread equals that of a calibration row on a learned edge, which happens
    only with ties. Such a row counts among all rows and in no group.
    """
    codes, new_codes = (
        each.codes if each.edge is None else np.where(each.edge == 0, each.codes, -1) for each in (groups, new_groups)
    )
    sizes = np.bincount(codes[codes >= 0], minlength=len(GROUP_NAMES)).tolist()
    all_rows = (ALL_ROWS, len(groups), np.ones(len(new_groups), dtype=bool))
    return [all_rows, *((name, sizes[code], new_codes == code) for code, name in enumerate(GROUP_NAMES))]


def _thresholds(calibration: Calibration, level: float) -> dict[str, float]:
    """Return the threshold of each group; a marginal threshold is that of every group and of all rows."""
    values = calibration.threshold(level).tolist()
    if len(values) == 1:
        return dict.fromkeys((ALL_ROWS, *GROUP_NAMES), values[0])
    return dict(zip(GROUP_NAMES, values, strict=True))


def _ks_p_values(scores: Any, groups: Groups) -> dict[str, float]:
    """Return the Kolmogorov-Smirnov p-value of each pair of groups that have calibration rows."""
    return {f"{test.groups[0]}_{test.groups[1]}": test.p_value for test in distribution_differences(scores, groups)}
