"""The contents of a report: a result at its own level and at the other levels of the slider.

A page is made once for every level by the same functions. They pass everything that depends on the level to a
`LevelRecorder`, in the same order at every level, so the n-th record of one level belongs to the n-th of every other.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis, at_level
from evencover.diagnostics.regions import FeatureSearch, features_of
from evencover.diagnostics.verdicts import GroupCoverage, by_p_value
from evencover.display.html import Markup, tag
from evencover.display.lines import shown
from evencover.groups import Groups, Label
from evencover.guarantees import TooFewRowsWarning
from evencover.inputs import Progress
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.frames import take
from evencover.intervals import Intervals, Side
from evencover.studies import Study
from evencover.words.advice import Advice, advice_on_audit, advice_on_diagnosis, advice_on_study
from evencover.words.settings import COMMAND_LINE, PYTHON, SettingStyle
from evencover.words.studies import misses_text

_MANY_LEVELS = (*range(50, 85, 5), *range(85, 100))  # percent
_SOME_LEVELS = (50, 60, 70, 80, 85, 90, 95, 98, 99)
_FEW_LEVELS = (50, 80, 90, 95, 99)
_ROWS, _FEATURES = 20_000, 20  # up to here, one level takes a few tenths of a second
_MAX_ROWS = 200  # drawn one by one
_MAX_GROUPS = 30
_NOTHING = Markup("")

Row = TypeVar("Row", bound=GroupCoverage)


@dataclass(frozen=True, eq=False)
class ShownRows:
    """The test rows that are drawn one by one, from the smallest spread to the largest.

    Parameters
    ----------
    positions : ndarray of shape (n,)
        Their positions in the table.
    y : ndarray of shape (n,)
        Targets.
    groups : Groups of n rows
        Their groups.
    ends : pair of float
        The lowest and the highest number on the axis.
    """

    positions: IntArray
    y: FloatArray
    groups: Groups
    ends: tuple[float, float]

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class LevelSnapshot:
    """The result at one level.

    Parameters
    ----------
    result : Diagnosis or Audit
        The result that has the verdict.
    advice : Advice
        What to do.
    diagnosis : Diagnosis or None
        The diagnosis of the calibration rows, if there are any.
    audit : Audit or None
        The audit of the test rows, if there are any.
    intervals : Intervals or None
        The intervals of the rows that are drawn one by one.
    misses : str
        The shares of test rows below and above their intervals, if each end has its own threshold.
    """

    result: Diagnosis | Audit
    advice: Advice
    diagnosis: Diagnosis | None = None
    audit: Audit | None = None
    intervals: Intervals | None = None
    misses: str = ""

    @property
    def level(self) -> float:
        """The level."""
        return self.result.level


@dataclass(frozen=True, eq=False)
class Contents:
    """A result at several levels, and the parts that do not depend on the level.

    Parameters
    ----------
    snapshots : sequence of LevelSnapshot
        One for each level, in increasing order.
    start : int
        The index of the snapshot at the result's own level.
    study : Study or None
        The study, if the result is one.
    rows : ShownRows or None
        The test rows that are drawn one by one.
    command : str
        The command that gave the result.
    folder : str
        The folder that the result and its predictor are in; empty if it is not known.
    """

    snapshots: Sequence[LevelSnapshot]
    start: int = 0
    study: Study | None = None
    rows: ShownRows | None = None
    command: str = ""
    folder: str = ""

    @property
    def own(self) -> LevelSnapshot:
        """The result at its own level."""
        return self.snapshots[self.start]

    @property
    def style(self) -> SettingStyle:
        """How the report names settings."""
        return style_of(self.command)

    @cached_property
    def groups(self) -> list[Label]:
        """The groups that are shown: all groups with rows or, if there are many, those with the smallest p-values."""
        rows = [row for row in self.own.result.table if row.rows]
        if len(rows) > _MAX_GROUPS:
            kept = sorted(rows, key=by_p_value)[:_MAX_GROUPS]
            rows = [row for row in rows if row in kept]
        return [row.group for row in rows]

    @cached_property
    def group_numbers(self) -> dict[Label, int]:
        """The number of each shown group, the same in all pictures."""
        return {label: number for number, label in enumerate(self.groups)}

    def shown(self, table: Sequence[Row]) -> list[Row]:
        """Return the rows of a table that belong to shown groups."""
        return [row for row in table if row.group in self.group_numbers and row.rows]

    @cached_property
    def side(self) -> Side | None:
        """The side of one-sided bounds. At high levels they can all be infinite, so all levels are looked at."""
        sides = [snapshot.audit.quality.side for snapshot in self.snapshots if snapshot.audit]
        return next((side for side in sides if side), None)

    @property
    def noun(self) -> str:
        """What the intervals are called: intervals, upper bounds or lower bounds."""
        return "intervals" if self.side is None else f"{self.side} bounds"

    @cached_property
    def max_width(self) -> float:
        """The largest finite mean width at any level."""
        widths = [
            row.width for snapshot in self.snapshots if snapshot.audit for row in self.shown(snapshot.audit.table)
        ]
        return max([width for width in widths if np.isfinite(width)], default=0.0) or 1.0


def contents_of(result: Study | Diagnosis | Audit, command: str = "", progress: Progress = lambda *_: None) -> Contents:
    """Return the contents of the report on a result, which a command gave."""
    style = style_of(command)
    if isinstance(result, Audit):
        return Contents([LevelSnapshot(result, advice_on_audit(result, style), audit=result)], command=command)
    if isinstance(result, Study):
        return _study_contents(result, command, progress)
    if isinstance(result, Diagnosis):
        levels = levels_around(result.level, len(result.inputs.scores))
        diagnoses = [result if level == result.level else at_level(result, level) for level in levels]
        snapshots = [LevelSnapshot(each, Advice([advice_on_diagnosis(each, style)]), each) for each in diagnoses]
        return Contents(snapshots, levels.index(result.level), command=command)
    raise TypeError(f"result must be a Study, a Diagnosis or an Audit; got {type(result).__name__}")


def style_of(command: str) -> SettingStyle:
    """Return how the report on a result names settings: as options, if a command gave the result."""
    return COMMAND_LINE if command else PYTHON


def levels_around(level: float, n: int, n_features: int = 0) -> list[float]:
    """Return the levels of the slider, the result's own included; fewer if there are many rows or features."""
    work = n / _ROWS + n_features / _FEATURES
    percents = _MANY_LEVELS if work <= 1 else _SOME_LEVELS if work <= 4 else _FEW_LEVELS
    return sorted({level, *(percent / 100 for percent in percents)})


def _study_contents(study: Study, command: str, progress: Progress) -> Contents:
    """Return a study at several levels: only the thresholds change, not the model, its score or its groups."""
    levels = _levels_of(study)
    shown_rows, shown = _rows_to_show(study)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewRowsWarning)  # the page shows infinite widths at high levels
        at_all_levels = study.intervals_at(levels)
    search = FeatureSearch.of(features_of(study.test.X), len(study.test), study.plan.seed)
    snapshots = []
    for column, level in enumerate(levels):
        progress(column, len(levels))
        arrays = {name: getattr(at_all_levels, name)[:, column] for name in ("lower", "upper", "replaced")}
        intervals = replace(at_all_levels, **arrays, level=level)
        is_own = level == study.plan.level
        diagnosis = study.diagnosis if is_own else at_level(study.diagnosis, level)
        audited = study.audit if is_own else study.evidence.audit(intervals, diagnosis, study.plan, search)
        advised = advice_on_study(replace(study, audit=audited, diagnosis=diagnosis), style_of(command))
        misses = misses_text(study, intervals)
        snapshots.append(LevelSnapshot(audited, advised, diagnosis, audited, intervals[shown], misses))
    return Contents(snapshots, levels.index(study.plan.level), study, shown_rows, command)


def _levels_of(study: Study) -> list[float]:
    """Return the levels of the slider; those at which all rows were counted, if the table is large."""
    if study.evidence.levels is not None:
        return list(study.evidence.levels)
    return levels_around(study.plan.level, max(len(study.calibration), len(study.test)), len(study.columns))


def _rows_to_show(study: Study) -> tuple[ShownRows, IntArray]:
    """Return some test rows from the smallest spread to the largest, and their positions among the test rows."""
    prediction = study.prediction
    order = np.argsort(prediction.center if prediction.spread is None else prediction.spread, kind="stable")
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), _MAX_ROWS)).astype(int))]
    y = np.asarray(take(study.test.y, shown), dtype=float)
    values = np.concatenate([y, *(bound[shown] for bound in (study.intervals.lower, study.intervals.upper))])
    finite = values[np.isfinite(values)]
    margin = 0.08 * float(np.ptp(finite)) or 1.0
    ends = float(finite.min()) - margin, float(finite.max()) + margin
    return ShownRows(study.test.positions[shown], y, study.groups[shown], ends), shown


class LevelRecorder:
    """The texts and attributes of a page at one level.

    Parameters
    ----------
    is_shown : bool
        Whether the page opens at this level. Elements are written for that level only.
    """

    def __init__(self, *, is_shown: bool = True) -> None:
        self.is_shown = is_shown
        self.texts: list[str] = []
        self.attributes: list[dict[str, str]] = []

    def text(self, value: Any, name: str = "span", **attributes: Any) -> Markup:
        """Return an element whose text depends on the level; a percent sign stays in the line of its number."""
        text = str(value).replace(" %", "\u00a0%")
        self.texts.append(shown(text))
        if not self.is_shown:
            return _NOTHING
        return tag(name, text, data_text=len(self.texts) - 1, **attributes)

    def element(self, name: str, *content: Any, varying: dict[str, Any], **attributes: Any) -> Markup:
        """Return an element with some attributes that depend on the level; pixels are rounded to one decimal."""
        rounded = {key: _attribute_text(value) for key, value in varying.items()}
        self.attributes.append({key.rstrip("_"): value for key, value in rounded.items()})
        if not self.is_shown:
            return _NOTHING
        return tag(name, *content, data_attributes=len(self.attributes) - 1, **rounded, **attributes)


def _attribute_text(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else shown(str(value))


def level_differences(recorders: Sequence[LevelRecorder]) -> dict[str, Any]:
    """Return the texts and attributes that differ between levels, each with its value at every level."""
    if len({(len(recorder.texts), len(recorder.attributes)) for recorder in recorders}) > 1:
        raise RuntimeError("a report must have the same parts at every level")
    texts = {
        number: list(values)
        for number, values in enumerate(zip(*(recorder.texts for recorder in recorders), strict=True))
        if len(set(values)) > 1
    }
    attributes: dict[int, dict[str, list[str]]] = {}
    for number, values in enumerate(zip(*(recorder.attributes for recorder in recorders), strict=True)):
        for name in values[0]:
            series = [value[name] for value in values]
            if len(set(series)) > 1:
                attributes.setdefault(number, {})[name] = series
    return {"texts": texts, "attributes": attributes}
