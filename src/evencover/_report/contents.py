"""What a report shows: a result, at its own level and at those of the slider."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from evencover._internal.arrays import IntArray, evenly_spaced_positions
from evencover._internal.frames import take
from evencover._report.charts import ShownRows
from evencover.diagnostics._slabs import FeatureSearch
from evencover.diagnostics._verdict import GroupCoverage
from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.audits import audit
from evencover.diagnostics.diagnosis import at_level
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.groups import Label
from evencover.guarantees import TooFewRowsWarning
from evencover.intervals import Intervals
from evencover.studies import Study

_MANY_LEVELS = (*range(50, 85, 5), *range(85, 100))  # percent
_SOME_LEVELS = (50, 60, 70, 80, 85, 90, 95, 98, 99)
_FEW_LEVELS = (50, 80, 90, 95, 99)
_ROWS, _FEATURES = 20_000, 20  # up to which a level takes a few tenths of a second
_MOST_ROWS = 200  # drawn one by one
_MOST_GROUPS = 30

Row = TypeVar("Row", bound=GroupCoverage)


@dataclass(frozen=True, eq=False)
class LevelSnapshot:
    """The result at one level.

    Parameters
    ----------
    judged : Diagnosis or Audit
        What has the verdict.
    diagnosis : Diagnosis or None
        From calibration rows, where there were some.
    audit : Audit or None
        On test rows, where there were some.
    intervals : Intervals or None
        Of the rows that are drawn one by one.
    """

    judged: Diagnosis | Audit
    diagnosis: Diagnosis | None = None
    audit: Audit | None = None
    intervals: Intervals | None = None

    @property
    def level(self) -> float:
        """The level."""
        return self.judged.level


@dataclass(frozen=True, eq=False)
class Contents:
    """A result at several levels, with what does not depend on them.

    Parameters
    ----------
    snapshots : sequence of Snapshot
        One for each level, increasing.
    start : int
        Which of them has the result's own level.
    study : Study or None
        The study that was made, if it was one.
    rows : ShownRows or None
        Test rows that are drawn one by one.
    """

    snapshots: Sequence[LevelSnapshot]
    start: int = 0
    study: Study | None = None
    rows: ShownRows | None = None

    @property
    def own(self) -> LevelSnapshot:
        """The result at its own level."""
        return self.snapshots[self.start]

    @cached_property
    def groups(self) -> list[Label]:
        """The groups that are shown: all with rows or, of many, those with the smallest p-values."""
        rows = [row for row in self.own.judged.table if row.rows]
        if len(rows) > _MOST_GROUPS:
            kept = sorted(rows, key=lambda row: (np.isnan(row.adjusted), row.adjusted))[:_MOST_GROUPS]
            rows = [row for row in rows if row in kept]
        return [row.group for row in rows]

    @cached_property
    def places(self) -> dict[Label, int]:
        """The number that a group has in all pictures."""
        return {label: place for place, label in enumerate(self.groups)}

    def shown(self, table: Sequence[Row]) -> list[Row]:
        """Return the shown groups' rows of a table."""
        return [row for row in table if row.group in self.places and row.rows]

    @cached_property
    def most_width(self) -> float:
        """The largest finite mean width at any level."""
        widths = [row.width for shot in self.snapshots if shot.audit for row in self.shown(shot.audit.table)]
        return max([width for width in widths if np.isfinite(width)], default=0.0) or 1.0


def contents_of(result: Study | Diagnosis | Audit) -> Contents:
    """Return what a report on a result shows."""
    if isinstance(result, Audit):
        return Contents([LevelSnapshot(result, audit=result)])
    if isinstance(result, Study):
        return _of_study(result)
    if isinstance(result, Diagnosis):
        levels = levels_around(result.level, len(result.inputs.scores))
        found = [result if level == result.level else at_level(result, level) for level in levels]
        return Contents([LevelSnapshot(each, each) for each in found], levels.index(result.level))
    raise TypeError(f"a report is on a Study, a Diagnosis or an Audit; got {type(result).__name__}")


def levels_around(level: float, n: int, n_features: int = 0) -> list[float]:
    """Return the levels of the slider for a result from n rows, its own among them; fewer where each takes long."""
    work = n / _ROWS + n_features / _FEATURES
    percents = _MANY_LEVELS if work <= 1 else _SOME_LEVELS if work <= 4 else _FEW_LEVELS
    return sorted({level, *(percent / 100 for percent in percents)})


def _of_study(study: Study) -> Contents:
    """Return a study at several levels: only the thresholds change, not the model, nor its score and groups."""
    levels = levels_around(study.plan.level, max(len(study.calibration), len(study.test)), len(study.columns))
    rows, some = _rows_to_show(study)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewRowsWarning)  # infinite widths at high levels are there to be seen
        made = study.regressor.predict_interval(study.test_rows, level=levels)
    search = FeatureSearch.of(study.test.X, len(study.test), study.plan.seed)
    shots = []
    for place, level in enumerate(levels):
        own = replace(made, lower=made.lower[:, place], upper=made.upper[:, place], level=level)
        at = level == study.plan.level
        diagnosis = study.diagnosis if at else at_level(study.diagnosis, level)
        judged = study.audit if at else _audited(study, own, search)
        shots.append(LevelSnapshot(judged, diagnosis, judged, own[some]))
    return Contents(shots, levels.index(study.plan.level), study, rows)


def _audited(study: Study, made: Intervals, search: FeatureSearch) -> Audit:
    plan = study.plan
    return audit(study.test.y, made, X=search, groups=study.groups, tolerance=plan.tolerance, seed=plan.seed)


def _rows_to_show(study: Study) -> tuple[ShownRows, IntArray]:
    """Return some test rows from the smallest spread to the largest, and where in the test part they are."""
    said = study.prediction
    by = said.center if said.spread is None else said.spread
    order = np.argsort(by, kind="stable")
    some = order[evenly_spaced_positions(len(order), _MOST_ROWS)]
    y = np.asarray(take(study.test.y, some), dtype=float)
    every = np.concatenate([y, *(bound[some] for bound in (study.intervals.lower, study.intervals.upper))])
    finite = every[np.isfinite(every)]
    room = 0.08 * float(np.ptp(finite)) or 1.0
    ends = float(finite.min()) - room, float(finite.max()) + room
    return ShownRows(study.test.positions[some], y, study.groups[some], ends), some
