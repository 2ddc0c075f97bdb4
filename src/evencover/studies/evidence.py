"""What a study knows about its model from rows that did not fit it: rows that test it, their intervals, their audit.

There are four kinds of evidence:

    turns      the rows that did not fit the model are halved; the thresholds of each half test the other half
    order      rows in the order of time: some calibrate the model, the rows after them test it
    cross      each row is tested by models that were fitted without it
    batches    the rows of a large table are counted, batch by batch (`BatchCounts`)

Except for the third kind, the model of the study is then calibrated on all rows that did not fit it; of a large table,
on all rows that are not in its sample.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from evencover.calibration.calibration import Unseen
from evencover.conformal.cross import CrossConformalRegressor
from evencover.conformal.split import ConformalRegressor
from evencover.diagnostics.audit_counts import AuditCounts, CellCounter, OtherThresholds, infinite_rows, mean_or_nan
from evencover.diagnostics.audits import Audit, Note, Scope, audit_of_counts, audit_rows
from evencover.diagnostics.coverage_tests import CalibrationPools
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.interval_quality import Quality, interval_without_model, quality
from evencover.diagnostics.verdicts import checked_settings
from evencover.groups import Groups, Label
from evencover.guarantees import Guarantee, TooFewRowsWarning
from evencover.inputs.arrays import BoolArray, IntArray, warn_user
from evencover.intervals import Intervals, bound_side
from evencover.metrics import interval_scores, misses_by_group
from evencover.model_selection import Part
from evencover.predictions import Prediction
from evencover.quantiles import Levels, level_fraction
from evencover.rows import Rows
from evencover.scores.evaluation import interval_by
from evencover.scores.support import OutsideSupportWarning
from evencover.studies.plan import Plan
from evencover.taxonomies import Taxonomy, default_taxonomy

EvidenceKind: TypeAlias = Literal["turns", "order", "cross", "batches"]
Misses: TypeAlias = Mapping[Label, tuple[Any, Any]]  # shares of rows below and above their intervals


@dataclass(frozen=True, eq=False)
class Evidence:
    """The rows that test the model of a study.

    Of a large table, these are rows of a random sample. The sample chose the method, fitted the model and diagnosed it.
    Features are searched, widths compared and predictions judged in its test rows; all other rows are counted.

    Parameters
    ----------
    kind : {"turns", "order", "cross", "batches"}
        How the rows were used.
    regressor : ConformalRegressor or CrossConformalRegressor
        The calibrated model that the audit is about. If rows are tested in turn, that is the model of the study.
        Otherwise, but for cross-fitted studies, it was calibrated without the test rows.
    training, calibration : ndarray of int
        The rows that fitted the model, and the rows of the diagnosis, by position in the table. The latter calibrated
        `regressor` unless the table is large.
    test : Part
        The test rows, as they are in the table. If rows are tested in turn, these are the calibration rows; if the
        study is cross-fitted, all rows. Of each cluster, it is one row.
    rows : Rows
        The same rows, with the predictions of a model that was not fitted on them.
    groups : Groups
        Their groups. If the study is cross-fitted, those of the models that test them or, if these have only one,
        groups of the same size. The bins of out-of-fold predictions do not fit those of several models.
    turns : Turns, optional
        The models that test the rows, if there are several.
    counts : BatchCounts, optional
        The counts of all other rows, if the table is large.
    training_r2 : float, optional
        R² of the model on the rows that it was fitted on, if the rows were split in the order of time.
    model : ConformalRegressor, optional
        In the order of time, the model of the study, which is calibrated on all held-out rows.
    """

    kind: EvidenceKind
    regressor: Any
    training: IntArray
    calibration: IntArray
    test: Part
    rows: Rows
    groups: Groups
    turns: "Turns | None" = None
    counts: "BatchCounts | None" = None
    training_r2: float | None = None
    model: ConformalRegressor | None = None

    @property
    def at_random(self) -> bool:
        """Whether the rows were split at random, and not in the order of time."""
        return self.kind != "order"

    @property
    def halves(self) -> "Turns | None":
        """The turns of the two halves of held-out rows; None for other kinds of evidence."""
        return self.turns if self.kind == "turns" else None

    @property
    def sizes(self) -> dict[str, int]:
        """The number of rows by their use; if the study is cross-fitted, a row is used several times."""
        used = {"training": len(self.training)}
        if self.counts is not None:
            counted = {use: self.counts.used.get(use, 0) for use in ("calibration", "test")}
            return {**used, "diagnosis": len(self.calibration), **counted}
        if self.kind == "turns":
            return {**used, "held_out": len(self.calibration)}
        return {**used, "calibration": len(self.calibration), "test": len(self.test)}

    @property
    def n_rows(self) -> int:
        """The number of rows that were used."""
        return len(self.training) if self.kind == "cross" else sum(self.sizes.values())

    @property
    def levels(self) -> tuple[float, ...] | None:
        """The levels at which the model was tested; None for any level."""
        return None if self.counts is None else tuple(self.counts.by_level)

    def intervals(self, level: Levels) -> Intervals:
        """Return the intervals of the test rows in memory."""
        if self.turns is not None:
            return self.turns.intervals(level)
        (intervals,), few = _intervals_by_model([self.regressor], [self.rows], level)
        _warn_of_few_rows(few, few if self.model is None else _intervals_by_model([self.model], [self.rows], level)[1])
        return intervals

    def audit(self, intervals: Intervals, diagnosis: Diagnosis, plan: Plan, X: Any = None) -> Audit:
        """Return the audit of all test rows at the level of these intervals, with the diagnosis at this level.

        If one threshold serves all rows, the calibration rows count, too. If rows are tested in turn, the audit is
        about the thresholds of all of them: they have the widths. The test rows are of different clusters, if there are
        clusters.
        """
        others = self._other_thresholds(intervals)
        of_model = intervals if others is None else others.intervals
        audited = audit_rows(
            self.rows.required_target(by="an audit"),
            intervals,
            Scope.of(of_model, self.groups, self.test.X if X is None else X, plan.seed),
            checked_settings(diagnosis.level, plan.tolerance, plan.seed),
            quality=self._quality(intervals, others, diagnosis),
            diagnosis=diagnosis if _is_of_its_threshold(diagnosis, self.regressor, of_model) else None,
            split_at_random=self.at_random,
            others=others,
        )
        return audited if self.counts is None else self.counts.audited(audited, self.regressor, self.groups.labels)

    def _other_thresholds(self, intervals: Intervals) -> OtherThresholds | None:
        """Return what an audit needs of the model if these intervals, of the test, have other thresholds.

        In the order of time, the audit is about these thresholds, unless some are infinite and the model's are not.
        """
        halves = self.halves
        model = self.model if halves is None else self.regressor
        if model is None:
            return None
        level = level_fraction(float(intervals.level))  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TooFewRowsWarning)  # given by `intervals`
            own = model.predict_interval(self.rows, level=level, unseen="marginal")
            of_model = _infinite_thresholds(model, self.rows, level)
            if halves is None:
                of_test = _infinite_thresholds(self.regressor, self.rows, level)
            else:
                of_test = halves.infinite_thresholds(level)
        untested = _infinite(intervals, of_test) & ~_infinite(own, of_model)
        if halves is None and not untested.any():
            return None
        return OtherThresholds(own, untested, None if halves is None else halves.strata)

    def _quality(self, intervals: Intervals, others: OtherThresholds | None, diagnosis: Diagnosis) -> Quality:
        """Return the quality of the intervals of the model. What is covered, and scores, are those of the test."""
        if others is None:
            return study_quality(self.regressor, self.rows, intervals, diagnosis)
        found = study_quality(self.regressor, self.rows, others.intervals, diagnosis)
        level, tested = level_fraction(found.level), np.flatnonzero(~others.untested)
        y, intervals = self.rows.required_target(by="an audit")[tested], intervals[tested]
        scores = interval_scores(y, intervals, level)
        found = replace(found, coverage=mean_or_nan(intervals.covers(y)), interval_score=mean_or_nan(scores))
        if self.halves is None:
            return found
        without_model = self.halves.without_model(level)[tested]
        return replace(
            found,
            no_model_coverage=mean_or_nan(without_model.covers(y)),
            no_model_interval_score=mean_or_nan(interval_scores(y, without_model, level)),
        )

    def misses(self, intervals: Intervals) -> Misses:
        """Return the shares of all tested rows below and above their intervals, by group and of all rows."""
        by_group: Misses
        all_rows: Misses
        if self.counts is None:
            others, tested = self._other_thresholds(intervals), np.arange(len(intervals))
            if others is not None:
                tested = np.flatnonzero(~others.untested)
            if not len(tested):
                return {}
            y, intervals = self.rows.required_target(by="misses")[tested], intervals[tested]
            by_group = misses_by_group(y, intervals, self.groups[tested])
            all_rows = misses_by_group(y, intervals, np.full(len(tested), "all rows"))
        else:
            level = float(intervals.level)  # type: ignore[arg-type]
            counts = self.counts.at(level, self.regressor, self.groups.labels)
            by_group = {label: totals.misses for label, totals in counts.groups.items()}
            all_rows = {"all rows": counts.all_rows.misses}
        return {**by_group, **(all_rows if len(by_group) > 1 else {})}


def _infinite_thresholds(regressor: Any, rows: Rows, level: Fraction, *, unseen: Unseen = "marginal") -> BoolArray:
    infinite: BoolArray = regressor.calibrator_.infinite_thresholds(rows, level, unseen=unseen)
    return infinite


def _infinite(intervals: Intervals, infinite_thresholds: BoolArray) -> BoolArray:
    """Return which rows have an infinite interval; if the target is bounded, only the threshold is infinite."""
    return infinite_thresholds | infinite_rows(intervals, bound_side(intervals))


@dataclass(frozen=True, eq=False)
class Turns:
    """The models that test rows in turn, each fitted or calibrated without the rows that it tests.

    Parameters
    ----------
    regressors : tuple of ConformalRegressor or of CrossConformalRegressor
        The same model with the thresholds of each half; or one for each fold.
    rows : tuple of Rows
        The rows that each of them tests, with its predictions.
    order : ndarray of int
        The position of each tested row among the rows of all models, in the order of the table.
    guarantee : Guarantee
        The guarantee of the model of the study.
    groups : Groups, optional
        The groups of the tested rows; by default those of the models that test them.
    model : ConformalRegressor, optional
        The model of the study, if each of the others has the thresholds of a half of its calibration rows.
    tested : Rows, optional
        With `model`, the tested rows in the order of the table.
    """

    regressors: tuple[Any, ...]
    rows: tuple[Rows, ...]
    order: IntArray
    guarantee: Guarantee
    groups: Groups | None = None
    model: ConformalRegressor | None = None
    tested: Rows | None = None

    @classmethod
    def of_halves(cls, regressor: ConformalRegressor, halves: IntArray, tested: IntArray) -> "Turns":
        """Return the turns of the calibration rows of a model.

        Parameters
        ----------
        regressor : ConformalRegressor
            The model of the study.
        halves : ndarray of int, shape (n,)
            The half, 0 or 1, of each of its calibration rows.
        tested : ndarray of int
            The positions of the rows to test, in increasing order.
        """
        every = replace(regressor.calibration_rows_[tested], clusters=None)
        testing = [np.flatnonzero(halves[tested] == half) for half in (0, 1)]
        regressors = tuple(calibrated_on_some(regressor, np.flatnonzero(halves != half)) for half in (0, 1))
        return cls(
            regressors,
            rows=tuple(every[each] for each in testing),
            order=np.argsort(np.concatenate(testing)),
            guarantee=regressor.guarantee_,
            groups=regressor.taxonomy_.assign(every),
            model=regressor,
            tested=every,
        )

    @property
    def strata(self) -> IntArray:
        """The stratum of each tested row: rows of a stratum have the same threshold."""
        codes, n_strata = [], 0
        for regressor, rows in zip(self.regressors, self.rows, strict=True):
            own = np.zeros(len(rows), dtype=np.intp)
            for code, (_, positions) in enumerate(regressor.taxonomy_.assign(rows).cells()):
                own[positions] = n_strata + code
            n_strata = int(own.max(initial=n_strata - 1)) + 1
            codes.append(own)
        return np.concatenate(codes)[self.order]

    @property
    def prediction(self) -> Prediction:
        """The predictions of the tested rows."""
        return Prediction.concatenate([rows.prediction for rows in self.rows])[self.order]

    def intervals(self, level: Levels) -> Intervals:
        """Return the intervals of the tested rows at one or several levels.

        A row whose group has no calibration rows in its model gets an interval from all of them; in halves, it is
        infinite. The guarantee is that of the model of the study. Half of its calibration rows can be too few for a
        finite threshold, while all of them suffice.
        """
        parts, few = _intervals_by_model(self.regressors, self.rows, level, unseen=self._unseen)
        guarantee, own_few = self.guarantee, few
        if self.model is not None and self.tested is not None:
            (own,), own_few = _intervals_by_model([self.model], [self.tested], level)
            guarantee = own.guarantee or guarantee
        _warn_of_few_rows(few, own_few)
        lower, upper, replaced, prediction = (
            np.concatenate([getattr(part, name) for part in parts])[self.order]
            for name in ("lower", "upper", "replaced", "prediction")
        )
        return Intervals(
            lower,
            upper,
            level=parts[0].level,
            groups=self._groups_of(parts) if self.groups is None else self.groups,
            guarantee=guarantee,
            prediction=prediction,
            replaced=replaced,
            side=parts[0].side,
        )

    @property
    def _unseen(self) -> Unseen:
        """How rows are treated whose group has no calibration rows in the model that tests them."""
        return "marginal" if self.model is None else "inf"

    def infinite_thresholds(self, level: Fraction) -> BoolArray:
        """Return which rows have an infinite threshold in turn."""
        pairs = zip(self.regressors, self.rows, strict=True)
        infinite = [_infinite_thresholds(each, rows, level, unseen=self._unseen) for each, rows in pairs]
        return np.concatenate(infinite)[self.order]

    def without_model(self, level: Fraction) -> Intervals:
        """Return the intervals of the tested rows without any model: those of a half from the targets of the other."""
        bounds = [
            np.full((len(own), 2), interval_without_model(other.required_target(by="an interval"), level))
            for own, other in zip(self.rows, self.rows[::-1], strict=True)
        ]
        return Intervals(*np.concatenate(bounds)[self.order].T)

    def _groups_of(self, parts: Sequence[Intervals]) -> Groups | None:
        """Return the groups of the models; None if bins were merged in some only, so that a label means different rows.

        Rules such as the edges of bins differ, so groups are joined by their labels.
        """
        labels = {each.calibration_.labels for each in self.regressors}
        groups = [part.groups for part in parts if part.groups is not None]
        merged = len(labels) > 1 and any(getattr(each.taxonomy_, "merged", False) for each in self.regressors)
        if merged or len(groups) < len(parts):
            return None
        joined = tuple(dict.fromkeys(label for part in groups for label in part.labels))
        return Groups(np.concatenate([part.codes_among(joined) for part in groups])[self.order], joined)


_INFINITE_TEST = (
    "the held-out rows, or those of some groups, are so few that a part of them does not suffice for finite intervals. "
    "So intervals of the test are infinite; those of the model are finite, because all of these rows calibrate it"
)


def _warn_of_few_rows(few: Sequence[Any], own_few: Sequence[Any]) -> None:
    """Warn once of groups with too few rows: of those of the model or, if it has none, of those of the test."""
    for message in (own_few or [_INFINITE_TEST] * bool(few))[:1]:  # those of several models differ a little
        warn_user(message, TooFewRowsWarning)


def _intervals_by_model(
    regressors: Sequence[Any], rows: Sequence[Rows], level: Levels, *, unseen: Unseen = "marginal"
) -> tuple[list[Intervals], list[Any]]:
    """Return the intervals of each model for its rows, and the messages of groups with too few rows; warn of others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pairs = zip(regressors, rows, strict=True)
        parts = [regressor.predict_interval(each, level=level, unseen=unseen) for regressor, each in pairs]
    few = [each.message for each in caught if issubclass(each.category, TooFewRowsWarning)]
    for warning in caught:
        if warning.message not in few:
            warn_user(warning.message, warning.category)
    return parts, few


@dataclass(frozen=True, eq=False)
class BatchCounts:
    """The rows of a large table that are not in its sample: how many calibrated the model, and counts of the others.

    Parameters
    ----------
    by_level : mapping from float to CellCounter
        The counts of all test rows at each level.
    used : mapping from str to int
        The number of rows by their use.
    tied : set of float
        The levels at which several calibration scores equal a threshold. Intervals at several levels, such as those of
        a report, know this for all of their levels together only.
    """

    by_level: Mapping[float, CellCounter]
    used: Mapping[str, int]
    tied: frozenset[float]

    def at(self, level: float, regressor: Any, labels: tuple[Label, ...]) -> AuditCounts:
        """Return the counts of all test rows at a level."""
        return self.by_level[level].counts(labels, len(regressor.guarantee_.sizes))

    def audited(self, sampled: Audit, regressor: Any, labels: tuple[Label, ...]) -> Audit:
        """Return the audit of the sample's test rows with the counts of all test rows, at one of the levels."""
        counts, guarantee = self.at(sampled.level, regressor, labels), regressor.guarantee_
        pools = CalibrationPools(
            level_fraction(sampled.level),
            tuple(guarantee.sizes.values()),
            guarantee.tail_shares,
            raised=sampled.level in self.tied or counts.all_rows.n_replaced > 0,
        )
        audited = audit_of_counts(sampled, counts, pools)
        judged = audited.quality
        return replace(
            audited,
            n_replaced=counts.all_rows.n_replaced,
            quality=replace(sampled.quality, rows=judged.rows, coverage=judged.coverage),  # same rows for all widths
            facts=(
                *audited.facts,
                Note("study sampled", {"rows": audited.overall.rows, "sampled": sampled.overall.rows}),
            ),
        )


def calibrated_on_some(regressor: ConformalRegressor, rows: IntArray) -> ConformalRegressor:
    """Return the model with the thresholds of some of its calibration rows, without warnings that all of them gave."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideSupportWarning)
        return regressor.recalibrated(regressor.calibration_rows_[rows])


def _is_of_its_threshold(diagnosis: Diagnosis, regressor: Any, intervals: Intervals) -> bool:
    """Return whether a model has one threshold, and the rows of its diagnosis are those behind the threshold.

    Rows of a group that was not seen in calibration have this threshold, too, but these rows say nothing about them.
    """
    own_rows = diagnosis.inputs.rows is getattr(regressor, "calibration_rows_", None)
    seen = intervals.groups is None or len(intervals.groups.labels) == 1
    return own_rows and seen and has_one_threshold(regressor) and not isinstance(regressor, CrossConformalRegressor)


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
    return len(regressor.calibration_.labels) == 1 and len(regressor.calibrator_.used_calibrations(())) == 1


def audit_taxonomy(regressor: Any) -> Taxonomy:
    """Return the groups of the audit, learned from the calibration rows: the model's, or three if it has only one."""
    if len(regressor.calibration_.labels) > 1:
        learned: Taxonomy = regressor.taxonomy_
        return learned
    return default_taxonomy(regressor.calibration_rows_)


def warn_of_groups_with_few_rows(regressor: Any, level: float) -> None:
    """Warn of groups whose thresholds are infinite, because they have too few calibration rows."""
    for calibration, levels in regressor.calibrator_.used_calibrations((level_fraction(level),)):
        calibration.threshold(levels)
