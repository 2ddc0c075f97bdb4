"""Study a table in memory: split, fit, select score and groups, calibrate, diagnose, audit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from evencover.calibration.by_group import ByGroup
from evencover.calibration.two_tails import TwoTails
from evencover.conformal.cross import CrossConformalRegressor
from evencover.conformal.split import ConformalRegressor
from evencover.diagnostics.cross_fitted_models import fitted_with_progress
from evencover.diagnostics.diagnosis import diagnose
from evencover.diagnostics.recommendation_result import Recommendation
from evencover.diagnostics.recommendations import recommend
from evencover.inputs import StageProgress
from evencover.inputs.arrays import IntArray, warn_user
from evencover.inputs.frames import column_names, columns_of, row_numbers
from evencover.intervals import Intervals
from evencover.model_selection import Part
from evencover.models.estimators import cloned, median_spread
from evencover.rows import Rows
from evencover.scores import Bounded
from evencover.scores.score import needs_scale, with_scale
from evencover.scores.support import with_support
from evencover.studies.column_checks import support_notes, support_warnings
from evencover.studies.cross_fitting import (
    CrossEvidence,
    CrossFitted,
    CrossSettings,
    cross_fitted,
    tested_groups,
    units_of,
)
from evencover.studies.evidence import SplitEvidence, audit_taxonomy
from evencover.studies.messages import Message, TableWarning
from evencover.studies.plan import Plan
from evencover.studies.splits import clusters_of, note_on_cross, split_table, time_notes
from evencover.studies.study_result import Study, are_of_log
from evencover.studies.table_preparation import (
    ColumnRoles,
    PreparedTable,
    prepare_table,
)
from evencover.taxonomies import Taxonomy


def study_in_memory(table: Any, roles: ColumnRoles, plan: Plan, name: str, progress: StageProgress) -> Study:
    """Return the study of a table with these roles of its columns: split, or cross-fitted if it is small."""
    progress("checking the columns")
    prepared = prepare_table(table, roles)
    if plan.calibration == "cross" and roles.time is not None:
        raise ValueError("calibration must be 'split' or 'auto' for rows in the order of time; got 'cross'")
    cross_note = note_on_cross(prepared, plan) if plan.calibration == "auto" else None
    cross = plan.calibration == "cross" or cross_note is not None
    plan = plan.for_table(len(prepared.y), cross=cross)
    fitted = _fit_cross(prepared, plan, progress) if cross else _fit_split(table, roles, prepared, plan, progress)
    evidence, regressor = fitted.evidence, fitted.evidence.regressor
    progress("diagnosing the calibration rows")
    settings: dict[str, Any] = {"level": plan.level, "tolerance": plan.tolerance, "seed": plan.seed}
    diagnosis = diagnose(regressor, taxonomy=fitted.taxonomy, **settings)
    progress("auditing the test rows")
    return Study(
        name=name,
        target=roles.target,
        plan=plan,
        clusters=roles.clusters,
        time=roles.time,
        regressor=regressor,
        recommendation=getattr(regressor, "recommendation_", None),
        evidence=evidence,
        intervals=fitted.intervals,
        diagnosis=diagnosis,
        audit=evidence.audit(fitted.intervals, diagnosis, plan),
        left_out=fitted.table.left_out,
        row_numbers=row_numbers(table),
        table_warnings=(*prepared.warnings, *fitted.warnings),
        table_notes=(*fitted.table.notes, *filter(None, [cross_note]), *fitted.notes),
    )


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A table, the test of the model that was fitted to it, the groups and intervals of this test, and messages."""

    table: PreparedTable
    evidence: SplitEvidence | CrossEvidence
    taxonomy: Taxonomy
    intervals: Intervals
    warnings: Sequence[Message]
    notes: Sequence[Message]


def _fit_split(table: Any, roles: ColumnRoles, prepared: PreparedTable, plan: Plan, progress: StageProgress) -> _Fitted:
    """Return a model that was fitted on the first part and calibrated on the second; the third tests it."""
    parts = split_table(prepared, plan)
    decided, (training, calibration, test) = _decided_on_training_rows(prepared, parts)
    _warn_of(prepared)
    outside, support_note = _support_messages(plan, parts)
    model = Pipeline([("table", decided.encoder), ("model", cloned(plan.estimator()))])
    clusters, held_out = (clusters_of(prepared, part) for part in (training, calibration))
    n_calibration = len(calibration) if held_out is None else len(np.unique(held_out))
    regressor = _fitted_regressor(model, training, clusters, (n_calibration, len(test)), plan, progress)
    progress("calibrating")
    regressor.calibrate(calibration.X, calibration.y, clusters=held_out)
    rows = regressor.rows(test.X, test.y)
    notes = [*time_notes(table, roles.time, parts), *support_note, *_log_notes(regressor)]
    test = Part(decided.shown(decided.places(test.positions)), test.y, test.positions)
    taxonomy = audit_taxonomy(regressor)
    evidence = SplitEvidence(
        regressor,
        training.positions,
        calibration.positions,
        test,
        rows,
        taxonomy.assign(rows),
        at_random=roles.time is None,
    )
    return _Fitted(decided, evidence, taxonomy, evidence.intervals(plan.level), outside, notes)


def _decided_on_training_rows(
    table: PreparedTable, parts: tuple[Part, Part, Part]
) -> tuple[PreparedTable, tuple[Part, Part, Part]]:
    """Return the table and its parts with the columns that the model uses, which the training rows decide."""
    decided = table.decided_by([table.places(parts[0].positions)])
    names = column_names(decided.features) or []
    training, calibration, test = (Part(columns_of(part.X, names), part.y, part.positions) for part in parts)
    return replace(decided, encoder=decided.fixed_encoder), (training, calibration, test)


def _fit_cross(table: PreparedTable, plan: Plan, progress: StageProgress) -> _Fitted:
    """Return a model that was fitted and calibrated on all rows, and the models that test each row out of sample."""
    units = units_of(table, plan)
    _warn_of(table)
    progress("fitting and calibrating the model on all rows")
    settings = CrossSettings.of(plan, table, len(units))
    decided = table.decided_by([rows for rows, _ in settings.folds(units)])
    table.decided_by(settings.test_fits(units))  # an error now, if a model that tests cannot read some value
    regressor = settings.fitted(decided.features, table.y, units)
    models, test = cross_fitted(settings, table, units, regressor.guarantee_, progress)
    support = plan.target_support(table.y)
    outside = support_warnings(support, test=table.y)
    notes = [*support_notes(support, decided=_decides_support(plan)), *_log_notes_of_folds(regressor, models, plan)]
    rows, intervals = Rows.with_checked_target(models.prediction, test.X, test.y), models.intervals(plan.level)
    test = Part(decided.shown(decided.places(test.positions)), test.y, test.positions)
    calibration = table.rows[np.sort(np.concatenate([positions for _, positions in regressor.cv]))]
    groups = tested_groups(regressor, intervals, rows)
    evidence = CrossEvidence(regressor, models, table.rows, calibration, test, rows, groups)
    return _Fitted(decided, evidence, audit_taxonomy(regressor), intervals, outside, notes)


def _warn_of(table: PreparedTable) -> None:
    """Warn of what may be wrong with a table."""
    for warning in table.warnings:
        warn_user(TableWarning(warning))


def _support_messages(plan: Plan, parts: tuple[Part, Part, Part]) -> tuple[list[Message], list[Message]]:
    """Return a warning of targets outside the support, which is also given here, and a note on the support."""
    training, calibration, test = parts
    support = plan.target_support(training.y)
    outside = support_warnings(support, calibration=calibration.y, test=test.y)
    if not support_warnings(support, calibration=calibration.y):  # `calibrate` warns of calibration targets
        for warning in outside:
            warn_user(TableWarning(warning))
    return outside, support_notes(support, decided=_decides_support(plan))


def _decides_support(plan: Plan) -> bool:
    """Return whether the targets decide which values intervals can hold."""
    return plan.support == "auto" and not isinstance(plan.nonconformity, Bounded)


def _log_notes(regressor: ConformalRegressor) -> list[Message]:
    """Return a note if the model was fitted to the log of the target: why, what it predicts, how to switch it off."""
    recommendation: Recommendation | None = getattr(regressor, "recommendation_", None)
    if recommendation is None or recommendation.chosen.transform is None:
        return []
    chosen = recommendation.chosen
    same = [each for each in recommendation.candidates if each.verdict == chosen.verdict and not each.transform]
    lowest = min((each.interval_score for each in same), default=inf)
    if not isfinite(lowest):
        reason = "its intervals were more even"
    elif chosen.interval_score < lowest:
        share = f"{1 - chosen.interval_score / lowest:.0%}".replace("%", " %")
        reason = f"the interval score, which adds misses to the width, was {share} lower"
    else:
        reason = "it needed fewer groups for about the same interval score"
    text = (
        f"The model was fitted to the log of the target, because {reason} on the training rows. So it predicts about "
        "the median of the target; the mean is larger if the target is skewed. To switch this off, use"
    )
    return [Message(text, ({"target_transform": "none"},), lead="")]


def _log_notes_of_folds(regressor: CrossConformalRegressor, tests: CrossFitted, plan: Plan) -> list[Message]:
    """Return a note if models were fitted to the log of the target: how many, what it means, how to switch it off."""
    own, testing = are_of_log(regressor, plan), [each for test in tests.regressors for each in are_of_log(test, plan)]
    if not any((*own, *testing)):
        return []
    text = (
        f"{sum(own)} of the {len(own)} models of the predictor, and {sum(testing)} of the {len(testing)} models that "
        "tested the rows, are models of the log of the target: each model decided this on its own training rows, by "
        "the interval score, which adds misses to the width. A model of the log predicts about the median of the "
        "target; the mean is larger if the target is skewed. To switch this off, use"
    )
    return [Message(text, ({"target_transform": "none"},), lead="")]


def _fitted_regressor(
    model: Pipeline,
    training: Part,
    clusters: IntArray | None,
    other_rows: tuple[int, int],
    plan: Plan,
    progress: StageProgress,
) -> ConformalRegressor:
    """Return the fitted model with the plan's score and groups, or with those selected on the training part.

    `clusters` are those of the training rows; `other_rows` are the numbers of rows, or clusters, for calibration and
    for testing.
    """
    support = plan.target_support(training.y)
    if plan.nonconformity is not None and plan.taxonomy is not None:
        progress("fitting the model")
        fitted = FrozenEstimator(
            fitted_with_progress(
                model,
                training.X,
                training.y,
                clusters,
                lambda done, fits: progress(f"fitting the model: {done} of {fits} fits"),
            )
        )
        score: Any = with_support(plan.nonconformity, support)
        score = with_scale(score, median_spread(fitted, training.X)) if needs_scale(score) else score
        calibrator = TwoTails(plan.taxonomy) if plan.tails == "separate" else ByGroup(plan.taxonomy)
        return ConformalRegressor(fitted, nonconformity=score, calibrator=calibrator)
    return recommend(
        model,
        training.X,
        training.y,
        nonconformity=plan.nonconformity,
        taxonomy=plan.taxonomy,
        level=plan.level,
        tolerance=plan.tolerance,
        calibration_rows=other_rows[0],
        test_rows=other_rows[1],
        support=support,
        tails=plan.tails,
        target_transform=plan.target_transform,
        clusters=clusters,
        seed=plan.seed,
        progress=lambda done, fits: progress(f"fitting the model, selecting score and groups: {done} of {fits} fits"),
    )
