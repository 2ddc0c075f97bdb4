"""A trial: one variant of one model on one split. Plain values in, rows of the results out."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray
from evencover.calibration import Calibration, calibrate
from evencover.diagnostics._score_distributions import distribution_differences
from evencover.groups import Groups
from evencover.intervals import Intervals
from evencover.metrics import interval_scores
from evencover.predictions import Rows
from evencover.reproduction.benchmark._model_fits import SplitPredictions
from evencover.reproduction.benchmark.variants import BINNINGS, GROUPS, VARIANTS, Variant

Row: TypeAlias = dict[str, Any]
ALL = "all"


@dataclass(frozen=True)
class Trial:
    """What a row of the results is about.

    Parameters
    ----------
    data, model, variant, binning : str
        Names of the data set, the model, the variant, and the way of cutting groups.
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
        """A hash of what it is: the same on every machine and in every run."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:20]


def run(trial: Trial, told: SplitPredictions, variants: Mapping[str, Variant] = VARIANTS) -> list[Row]:
    """Return the rows of a trial, for all test rows together and for each group. It depends on its arguments alone.

    Widths and interval scores are in units of the training targets' standard deviation.

    Parameters
    ----------
    trial : Trial
        What to do.
    told : Told
        What the model says about the split's rows.
    variants : mapping from name to Variant
        What the trial's variant is.
    """
    variant = variants[trial.variant]
    n = told.n_calibration
    said, y = told.prediction, told.y
    groups, new_groups = BINNINGS[trial.binning](Rows(said[:n]), Rows(said[n:]))
    intervals, center, thresholds, tests = told.baseline[n:].interval(), told.baseline.center, {}, {}
    if variant.nonconformity is not None:
        own = groups if variant.by_group else None
        calibration = calibrate(y[:n], said[:n], nonconformity=variant.nonconformity, groups=own)
        new_own = new_groups if variant.by_group else None
        intervals, center = calibration.interval(said[n:], groups=new_own, level=trial.level), said.center
        thresholds = _thresholds(calibration, trial.level)
        tests = _group_differences(variant.nonconformity(y[:n], said[:n]), groups)
    measured = _Measured.of(y[n:], center[n:], intervals, trial.level)
    return [
        {
            **asdict(trial),
            "group": group,
            "n_calibration": size,
            **measured.over(rows),
            "threshold": thresholds.get(group, np.nan),
            **{f"ks_{pair}": tests.get(pair, np.nan) for pair in ("low_medium", "low_high", "medium_high")},
        }
        for group, size, rows in _places(groups, new_groups)
    ]


@dataclass(frozen=True, eq=False)
class _Measured:
    """Test rows, each with what is averaged over groups."""

    y: FloatArray
    center: FloatArray
    covered: BoolArray
    width: FloatArray
    score: FloatArray

    @classmethod
    def of(cls, y: FloatArray, center: FloatArray, intervals: Intervals, level: float) -> "_Measured":
        return cls(y, center, intervals.covers(y), intervals.width, interval_scores(y, intervals, level))

    def over(self, rows: BoolArray) -> Row:
        """Return the measures of some rows; NaN where there are too few."""
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
    """Return the share of the targets' variance that a prediction explains; NaN where they have none."""
    variation = np.sum((y - y.mean()) ** 2) if len(y) else 0.0
    return float(1 - np.sum((y - center) ** 2) / variation) if variation > 0 else np.nan


def _places(groups: Groups, new_groups: Groups) -> list[tuple[str, int, BoolArray]]:
    """Return all rows and each group: its name, the calibration rows that count for it, and a mask of its test rows.

    A test row whose spread is that of a calibration row on a learned edge, which takes ties, has a threshold of its
    own: it counts among all rows only.
    """
    codes, new_codes = (
        each.codes if each.edge is None else np.where(each.edge == 0, each.codes, -1) for each in (groups, new_groups)
    )
    sizes = np.bincount(codes[codes >= 0], minlength=len(GROUPS)).tolist()
    everything = (ALL, len(groups), np.ones(len(new_groups), dtype=bool))
    return [everything, *((name, sizes[code], new_codes == code) for code, name in enumerate(GROUPS))]


def _thresholds(calibration: Calibration, level: float) -> dict[str, float]:
    """Return each group's threshold; with one for all rows, it is every group's."""
    found = calibration.threshold(level).tolist()
    return dict.fromkeys((ALL, *GROUPS), found[0]) if len(found) == 1 else dict(zip(GROUPS, found, strict=True))


def _group_differences(scores: Any, groups: Groups) -> dict[str, float]:
    """Return the Kolmogorov-Smirnov p-value of each pair of groups that have calibration rows."""
    return {f"{one.groups[0]}_{one.groups[1]}": one.p_value for one in distribution_differences(scores, groups)}
