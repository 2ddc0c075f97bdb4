"""What a study knows about its model from rows that did not fit it: rows that test it, their intervals, their audit.

A study has one of three kinds of evidence, which have the same attributes and methods (`Evidence`):

    split      a part of the rows tests the model (`SplitEvidence`)
    cross      each row is tested by models that were fitted without it (`CrossEvidence`)
    batches    the rows of a large table are counted, batch by batch (`BatchEvidence`)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from evencover.calibration.calibration import Calibration
from evencover.calibration.two_tails import TailThresholds
from evencover.conformal.cross import CrossConformalRegressor
from evencover.diagnostics.audits import Audit, Scope, audit_rows
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.interval_quality import Quality, quality
from evencover.diagnostics.verdicts import checked_settings
from evencover.groups import Groups, Label
from evencover.inputs.arrays import IntArray
from evencover.intervals import Intervals
from evencover.metrics import misses_by_group
from evencover.model_selection import Part
from evencover.quantiles import Levels, level_fraction
from evencover.rows import Rows
from evencover.scores.evaluation import interval_by
from evencover.studies.plan import Plan
from evencover.taxonomies import Taxonomy, default_taxonomy

EvidenceKind: TypeAlias = Literal["split", "cross", "batches"]
Misses: TypeAlias = Mapping[Label, tuple[Any, Any]]  # shares of rows below and above their intervals


class Evidence(Protocol):
    """The test of a study's model."""

    @property
    def regressor(self) -> Any:
        """The calibrated model."""

    @property
    def kind(self) -> EvidenceKind:
        """How the rows were used."""

    @property
    def training(self) -> IntArray:
        """The rows that fitted the model, by position in the table."""

    @property
    def calibration(self) -> IntArray:
        """The rows of the diagnosis, which calibrated the model unless the table is large, by position."""

    @property
    def test(self) -> Part:
        """The test rows in memory, as they are in the table."""

    @property
    def rows(self) -> Rows:
        """The same rows, with the predictions of a model that was not fitted on them."""

    @property
    def groups(self) -> Groups:
        """The groups of these rows."""

    @property
    def sizes(self) -> dict[str, int]:
        """The number of rows by their use."""

    @property
    def n_rows(self) -> int:
        """The number of rows that were used."""

    @property
    def levels(self) -> tuple[float, ...] | None:
        """The levels at which the model was tested; None for any level."""

    def intervals(self, level: Levels, /) -> Intervals:
        """Return the intervals of the test rows in memory."""

    def audit(self, intervals: Intervals, diagnosis: Diagnosis, plan: Plan, /, X: Any = None) -> Audit:
        """Return the audit of all test rows at the level of these intervals, with the diagnosis at this level."""

    def misses(self, intervals: Intervals, /) -> Misses:
        """Return the shares of all test rows below and above their intervals, by group and of all rows."""


@dataclass(frozen=True, eq=False)
class SplitEvidence:
    """A part of the rows, which neither fitted nor calibrated the model, tests it.

    Parameters
    ----------
    regressor : ConformalRegressor
        The calibrated model.
    training, calibration : ndarray of int
        The rows of these parts, by position in the table.
    test : Part
        The rows of the test part, as they are in the table.
    rows : Rows
        The same rows, with the model's predictions.
    groups : Groups
        Their groups.
    at_random : bool
        Whether the rows were split at random, and not in the order of time.
    """

    regressor: Any
    training: IntArray
    calibration: IntArray
    test: Part
    rows: Rows
    groups: Groups
    at_random: bool = True
    kind: ClassVar[EvidenceKind] = "split"
    levels: ClassVar[None] = None

    @property
    def sizes(self) -> dict[str, int]:
        """The number of rows in each part."""
        return {"training": len(self.training), "calibration": len(self.calibration), "test": len(self.test)}

    @property
    def n_rows(self) -> int:
        """The number of rows that were used."""
        return sum(self.sizes.values())

    def intervals(self, level: Levels) -> Intervals:
        """Return the intervals of the test rows."""
        intervals: Intervals = self.regressor.predict_interval(self.rows, level=level)
        return intervals

    def audit(self, intervals: Intervals, diagnosis: Diagnosis, plan: Plan, X: Any = None) -> Audit:
        """Return the audit of the test rows."""
        X = self.test.X if X is None else X
        return audit_test_rows(self, intervals, diagnosis, plan, X=X, split_at_random=self.at_random)

    def misses(self, intervals: Intervals) -> Misses:
        """Return the shares of test rows below and above their intervals, by group and of all rows."""
        return misses_of_rows(self.rows, intervals, self.groups)


def audit_test_rows(
    evidence: Evidence, intervals: Intervals, diagnosis: Diagnosis, plan: Plan, *, X: Any, split_at_random: bool
) -> Audit:
    """Return the audit of test rows in memory; if one threshold serves all rows, the calibration rows count, too.

    The test rows are of different clusters, if there are clusters.
    """
    rows, regressor = evidence.rows, evidence.regressor
    return audit_rows(
        rows.required_target(by="an audit"),
        intervals,
        Scope.of(intervals, evidence.groups, X, plan.seed),
        checked_settings(diagnosis.level, plan.tolerance, plan.seed),
        quality=study_quality(regressor, rows, intervals, diagnosis),
        diagnosis=diagnosis if _is_of_its_threshold(diagnosis, regressor) else None,
        split_at_random=split_at_random,
    )


def misses_of_rows(rows: Rows, intervals: Intervals, groups: Groups) -> Misses:
    """Return the shares of rows below and above their intervals, by group and, if there are several, of all rows."""
    by_group = misses_by_group(rows.y, intervals, groups)
    (every,) = misses_by_group(rows.y, intervals, np.zeros(len(intervals))).values()
    return by_group | ({"all rows": every} if len(by_group) > 1 else {})


def _is_of_its_threshold(diagnosis: Diagnosis, regressor: Any) -> bool:
    """Return whether a model has one threshold, and the rows of its diagnosis are those behind the threshold."""
    own_rows = diagnosis.inputs.rows is getattr(regressor, "calibration_rows_", None)
    return own_rows and has_one_threshold(regressor) and not isinstance(regressor, CrossConformalRegressor)


def study_quality(regressor: Any, rows: Rows, intervals: Intervals, diagnosis: Diagnosis) -> Quality:
    """Return the quality on test rows; one threshold for all rows is that of the diagnosis."""
    one_threshold, score = intervals, diagnosis.inputs.nonconformity
    if not has_one_threshold(regressor) and score is not None:
        one_threshold = interval_by(score, diagnosis.threshold, rows.prediction)
    return quality(
        rows.y,
        intervals,
        prediction=rows.prediction,
        reference_y=None if diagnosis.inputs.rows is None else diagnosis.inputs.rows.y,
        one_threshold=one_threshold,
        level=diagnosis.level,
    )


def has_one_threshold(regressor: Any) -> bool:
    """Return whether the same threshold serves all rows and both ends of their intervals."""
    return len(regressor.calibration_.labels) == 1 and not isinstance(regressor.calibrator_, TailThresholds)


def audit_taxonomy(regressor: Any) -> Taxonomy:
    """Return the groups of the audit, learned from the calibration rows: the model's, or three if it has only one."""
    if len(regressor.calibration_.labels) > 1:
        learned: Taxonomy = regressor.taxonomy_
        return learned
    return default_taxonomy(regressor.calibration_rows_)


def warn_of_groups_with_few_rows(regressor: Any, level: float) -> None:
    """Warn of groups whose thresholds are infinite, because they have too few calibration rows."""
    for calibration, levels in _calibrations(regressor, (level_fraction(level),)):
        calibration.threshold(levels)


def _calibrations(regressor: Any, levels: tuple[Fraction, ...]) -> Iterator[tuple[Calibration, tuple[Fraction, ...]]]:
    """Yield the calibrations whose thresholds a model uses, one or one for each tail, with their levels."""
    learned = regressor.calibrator_
    if isinstance(learned, TailThresholds):
        yield from zip((learned.lower, learned.upper), learned.tail_levels(levels), strict=True)
    else:
        yield regressor.calibration_, levels
