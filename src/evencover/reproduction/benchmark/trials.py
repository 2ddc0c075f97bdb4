"""A trial: one variant of one model on one split. Plain values in, rows of the results table out."""

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
from evencover.reproduction.benchmark.model_fits import SplitPredictions
from evencover.reproduction.benchmark.variants import BINNING_METHODS, GROUP_NAMES, VARIANTS, Variant
from evencover.rows import Rows

Row: TypeAlias = dict[str, Any]
ALL_ROWS = "all"


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
    measures = _RowMeasures.of(y[n:], center[n:], intervals, trial.level)
    return [
        {
            **asdict(trial),
            "group": group,
            "n_calibration": size,
            **measures.over(rows),
            "threshold": thresholds.get(group, np.nan),
            **{f"ks_{pair}": tests.get(pair, np.nan) for pair in ("low_medium", "low_high", "medium_high")},
        }
        for group, size, rows in _rows_by_group(groups, new_groups)
    ]


@dataclass(frozen=True, eq=False)
class _RowMeasures:
    """Values of each test row that are averaged over groups."""

    y: FloatArray
    center: FloatArray
    covered: BoolArray
    width: FloatArray
    score: FloatArray

    @classmethod
    def of(cls, y: FloatArray, center: FloatArray, intervals: Intervals, level: float) -> "_RowMeasures":
        return cls(y, center, intervals.covers(y), intervals.width, interval_scores(y, intervals, level))

    def over(self, rows: BoolArray) -> Row:
        """Return the measures of some rows; NaN where there are too few rows."""
        n = int(np.count_nonzero(rows))
        covered = int(self.covered[rows].sum())
        return {
            "n_test": n,
            "covered": covered,
            "coverage": covered / n if n else np.nan,
            "width": float(self.width[rows].mean()) if n else np.nan,
            "winkler": float(self.score[rows].mean()) if n else np.nan,
            "r2": _r2(self.y[rows], self.center[rows]),
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
