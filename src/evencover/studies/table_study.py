"""Study a table in memory: split, fit, select score and groups, calibrate, diagnose, audit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from evencover.calibration.group_thresholds import ByGroup, TwoTails
from evencover.conformal.cross import CrossConformalRegressor
from evencover.conformal.split import ConformalRegressor
from evencover.diagnostics.cross_fitted_models import structured_fit
from evencover.diagnostics.diagnosis import diagnose
from evencover.diagnostics.interval_quality import r_squared
from evencover.diagnostics.recommendations import Recommendation, recommend
from evencover.display.lines import Step
from evencover.display.text import count_text
from evencover.groups import Groups, Label, one_row_of_each
from evencover.inputs import StageProgress
from evencover.inputs.arrays import FloatArray, IntArray, warn_user
from evencover.inputs.frames import column, column_names, columns_of, row_numbers, take
from evencover.intervals import Intervals
from evencover.model_selection import Part, warn_of_few_clusters
from evencover.models.encoding import TableEncoder
from evencover.models.estimators import fitted_models, median_spread
from evencover.models.folds import RowStructure
from evencover.predictions import Prediction
from evencover.quantiles import rows_for_finite_threshold
from evencover.rows import Rows
from evencover.scores import Bounded
from evencover.scores.score import needs_scale, with_scale
from evencover.scores.support import with_support
from evencover.studies.column_checks import (
    category_notes,
    order_note,
    support_notes,
    support_warnings,
    units_note,
)
from evencover.studies.cross_fitting import CrossSettings, cross_fitted, tested_groups, units_of
from evencover.studies.evidence import Evidence, Turns, audit_taxonomy, calibrated_on_some
from evencover.studies.messages import Message, TableWarning
from evencover.studies.other_rows import OtherRows, other_rows
from evencover.studies.plan import Plan
from evencover.studies.study_result import RowsWithoutTarget, Study, are_of_log
from evencover.studies.table_preparation import (
    ColumnRoles,
    PreparedTable,
    prepare_table,
)
from evencover.target_support import Support
from evencover.taxonomies import BySpread, Taxonomy, fresh_taxonomy, has_known_sizes


@dataclass(frozen=True, eq=False)
class Parts:
    """The rows that fit the model and the others, which are held out; positions are those in the given table.

    Parameters
    ----------
    training, held_out : Part
        The rows that the model sees, and those that it does not see.
    halves : ndarray of int
        The half of each held-out row, 0 or 1. Rows of a cluster are in the same half. In the order of time, the second
        half is later.
    n_possible : int
        Number of rows that would fit the model if their number were not limited.
    """

    training: Part
    held_out: Part
    halves: IntArray
    n_possible: int

    def half(self, number: int) -> Part:
        """Return one half of the held-out rows."""
        rows = np.flatnonzero(self.halves == number)
        held_out = self.held_out
        return Part(take(held_out.X, rows), take(held_out.y, rows), held_out.positions[rows])


def study_in_memory(
    table: Any, roles: ColumnRoles, plan: Plan, name: str, progress: StageProgress, *, training_rows: int
) -> Study:
    """Return the study of a table with these roles of its columns: split, or cross-fitted if it is small.

    At most `training_rows` rows of a split fit the model.
    """
    progress("checking the columns")
    prepared = prepare_table(table, roles)
    if plan.calibration == "cross" and roles.time is not None:
        raise ValueError("calibration must be 'split' or 'auto' for rows in the order of time; got 'cross'")
    parts, cross_note = _parts_or_note(prepared, plan, training_rows)
    plan = plan.for_table(len(prepared.y), cross=parts is None)
    fitted = _fit_cross(prepared, plan, progress) if parts is None else _fit_split(prepared, parts, plan, progress)
    evidence = fitted.evidence
    progress("diagnosing the calibration rows")
    settings: dict[str, Any] = {"level": plan.level, "tolerance": plan.tolerance, "seed": plan.seed}
    diagnosis = diagnose(evidence.regressor, taxonomy=fitted.taxonomy, **settings)
    answered = other_rows(fitted.table, evidence, plan, progress)
    progress("auditing the test rows")
    return Study(
        name=name,
        target=roles.target,
        plan=plan,
        clusters=roles.clusters,
        time=roles.time,
        regressor=fitted.regressor,
        recommendation=getattr(fitted.regressor, "recommendation_", None),
        evidence=evidence,
        intervals=fitted.intervals,
        diagnosis=diagnosis,
        audit=evidence.audit(fitted.intervals, diagnosis, plan),
        left_out=fitted.table.left_out,
        n_copies=prepared.n_copies,
        extremes=prepared.extremes,
        row_numbers=row_numbers(table),
        n_without_target=prepared.n_without_target,
        without_target=_without_target(fitted, plan),
        other_rows=answered,
        table_warnings=(*prepared.warnings, *fitted.warnings),
        table_notes=(
            *fitted.table.notes,
            *_unanswered_notes(prepared, answered),
            *filter(None, [cross_note]),
            *_limit_notes(prepared, parts),
            *_time_notes(table, roles.time, parts),
            *fitted.notes,
        ),
    )


def _without_target(fitted: "_Fitted", plan: Plan) -> RowsWithoutTarget | None:
    """Return the rows without a target, with intervals; None if there are none."""
    part = fitted.table.without_target
    if not len(part):
        return None
    return RowsWithoutTarget.of(fitted.regressor, part, plan.level, fitted.table.row_numbers.at(part.positions))


def _unanswered_notes(table: PreparedTable, answered: Sequence[OtherRows]) -> list[Message]:
    """Return notes on the order of the rows and on units, if rows were too few to test later rows or new units."""
    questions = {each.question for each in answered}
    later, new = order_note(table.order), units_note(table.units)
    return [*([] if "new" in questions else new), *([] if "later" in questions else later)]


MIN_TRAINING_ROWS = 10  # two for each fold
_MIN_HELD_OUT_ROWS = 2  # one in each half
_MIN_TIMES = 3  # one for each part


def _split_table(table: PreparedTable, plan: Plan, training_rows: int) -> Parts:
    """Return the rows that fit the model, and those that are held out: random ones, or the last in time."""
    _check_size(table, plan)
    if table.times is not None:
        training, held_out, halves, n_possible = _split_by_time(table, plan, training_rows)
    else:
        training, held_out, halves, n_possible = _split_at_random(table, plan, training_rows)
    return Parts(_part(table, training), _part(table, held_out), halves, n_possible)


def _clusters_of(table: PreparedTable, part: Part) -> IntArray | None:
    """Return the cluster of each row of a part of `_split_table`, as a number; None without clusters."""
    return None if table.clusters is None else table.clusters.codes[table.places(part.positions)]


def _time_notes(table: Any, time: str | None, parts: Parts | None) -> list[Message]:
    """Return a note on a split by time: when each part ends, and what is guaranteed."""
    if time is None or parts is None:
        return []
    values = column(table, time, "time")
    ends = (part.positions for part in (parts.training, parts.half(0), parts.half(1)))
    training, calibration, test = (_last_time(values, positions) for positions in ends)
    text = (
        f"split by {time!r}. The model was fitted on rows up to {training}, calibrated on the rows after these up to "
        f"{calibration}, and tested on the rows after these up to {test}. Then it was calibrated again, on all rows "
        f"after {training}, so its intervals differ from those of the test. The guarantee holds for later "
        "rows as far as they are like these; the test shows whether this was so for the latest rows"
    )
    return [Message(text)]


def _limit_notes(table: PreparedTable, parts: Parts | None) -> list[Message]:
    """Return a note if more rows could fit the model: what the others are used for."""
    if parts is None or parts.n_possible == len(parts.training):
        return []
    n_training, n_others = count_text(len(parts.training)), parts.n_possible - len(parts.training)
    if table.times is not None:
        uses = (
            f"the latest {n_training} rows before those that are held out fit the model, and the "
            f"{count_text(n_others)} rows before these are not used"
        )
    else:
        which = "random rows" if table.clusters is None else "rows of random clusters"
        uses = f"{n_training} {which} fit the model, and all {count_text(len(parts.held_out))} others are held out"
    text = f"to limit the time, {uses}. To fit it to more rows, use"
    return [Message(text, ({"training_rows": parts.n_possible},), lead="")]


def _last_time(values: NDArray[Any], positions: IntArray) -> str:
    """Return the time of the last of the rows at these positions, which are in the order of time."""
    last = values[positions[-1]]
    if isinstance(last, np.datetime64):
        last = np.datetime_as_string(last.astype("datetime64[s]"))
    return str(last).removesuffix("T00:00:00")


def _has_rows_for_split(table: PreparedTable, plan: Plan) -> bool:
    """Return whether there are enough rows or clusters to fit a model, and to hold out two halves."""
    n, held_out = _n_units(table), _n_held_out(table, plan)
    return n - held_out >= MIN_TRAINING_ROWS and held_out >= _MIN_HELD_OUT_ROWS


def _n_units(table: PreparedTable) -> int:
    """Return the number of rows or, if rows belong together, of clusters."""
    return len(table.y) if table.clusters is None else len(table.clusters.labels)


def _n_held_out(table: PreparedTable, plan: Plan) -> int:
    """Return how many rows or clusters the model does not see."""
    return plan.n_held_out(_n_units(table), n_groups=_n_groups(table, plan), in_order=table.times is not None)


def _n_groups(table: PreparedTable, plan: Plan) -> int:
    """Return the number of given groups; 1 if they are selected later, or depend on predictions in an unknown way."""
    if plan.taxonomy is None or not has_known_sizes(plan.taxonomy):
        return 1
    return len(_counts(fresh_taxonomy(plan.taxonomy).learn(_stand_in(Part(table.features, table.y, table.rows)))))


def _check_size(table: PreparedTable, plan: Plan) -> None:
    """Raise ValueError if there are too few rows or clusters for the split."""
    n = _n_units(table)
    if not _has_rows_for_split(table, plan):
        units = "rows" if table.clusters is None else "clusters"
        held_out = _n_held_out(table, plan)
        share = "" if plan.held_out is None else f", with held_out={plan.held_out!r}"
        raise ValueError(
            f"table must have at least {MIN_TRAINING_ROWS} {units} to fit the model and {_MIN_HELD_OUT_ROWS} more to "
            f"calibrate and test it; got {n}, of which {n - held_out} would fit it and {held_out} would be held out"
            f"{share}"
        )


def _split_at_random(table: PreparedTable, plan: Plan, training_rows: int) -> tuple[IntArray, IntArray, IntArray, int]:
    """Return training and held-out rows, the halves of the latter, and how many could fit the model."""
    n, size, rng = _n_units(table), _n_held_out(table, plan), np.random.default_rng([plan.seed, 9])
    half_of_unit = rng.permutation(np.concatenate([np.arange(size) % 2, np.full(n - size, -1)]))  # -1: training
    units = np.arange(n) if table.clusters is None else table.clusters.codes
    if table.clusters is not None:
        warn_of_few_clusters(units)
    n_possible = int(np.count_nonzero(half_of_unit[units] < 0))
    if n_possible > training_rows:
        _hold_out_more(half_of_unit, np.bincount(units), training_rows, rng)
    halves = half_of_unit[units]
    held_out = np.flatnonzero(halves >= 0)
    return rng.permutation(np.flatnonzero(halves < 0)), held_out, halves[held_out], n_possible


def _hold_out_more(half_of_unit: IntArray, sizes: IntArray, training_rows: int, rng: np.random.Generator) -> None:
    """Move random units from training, −1, to the halves in turn, so that those left have about so many rows.

    At least ten units stay, whatever their sizes. The unit that reaches the number stays, too. If it was moved, whether
    a unit is held out would depend on its size, and held-out clusters would not be exchangeable with new ones. Units
    are drawn until the number is reached, which is a stopping time: it says nothing about those that are left.
    """
    training = rng.permutation(np.flatnonzero(half_of_unit < 0))
    n_kept = np.searchsorted(np.cumsum(sizes[training]), training_rows, side="left") + 1
    moved = training[max(int(n_kept), MIN_TRAINING_ROWS) :]
    half_of_unit[moved] = np.arange(len(moved)) % 2


def _one_row_per_cluster(part: Part, clusters: IntArray | None, seed: int) -> Part:
    """Return one random row of each cluster, in the order of the rows; all rows without clusters."""
    if clusters is None:
        return part
    rows = one_row_of_each(clusters, np.random.default_rng([seed, 3]))
    return Part(take(part.X, rows), take(part.y, rows), part.positions[rows])


def _split_by_time(table: PreparedTable, plan: Plan, training_rows: int) -> tuple[IntArray, IntArray, IntArray, int]:
    """Return the first rows, the others, and their halves, in the order of time, and how many the first ones are.

    Rows of a time are in one part. If the first rows are too many, only the latest of them are returned: of the
    earliest time among these, random rows.
    """
    times: FloatArray = np.asarray(table.times)
    order, n = np.argsort(times, kind="stable"), len(times)
    held_out = plan.n_held_out(n, n_groups=_n_groups(table, plan), in_order=True)
    ends = np.flatnonzero(np.diff(times[order])) + 1  # of all times but the last
    if len(ends) < _MIN_TIMES - 1:
        uses = "to fit the model, to calibrate it and to test it"
        raise ValueError(f"time must have at least {_MIN_TIMES} different times, {uses}; got {len(ends) + 1}")
    second = _nearest(ends[1:], n - held_out / 2)
    first = _nearest(ends[ends < second], n - held_out)
    if first < MIN_TRAINING_ROWS:
        raise ValueError(
            f"time must have at least {MIN_TRAINING_ROWS} rows to fit the model at the earliest times, and later "
            f"times to calibrate and to test it; got {first} rows"
        )
    training = order[:first]
    if first > training_rows:
        shuffled = np.random.default_rng([plan.seed, 9]).permutation(training)
        training = shuffled[np.argsort(times[shuffled], kind="stable")][-training_rows:]
    return training, order[first:], np.repeat([0, 1], (second - first, n - second)), first


def _nearest(values: IntArray, wanted: float) -> int:
    return int(values[np.argmin(np.abs(values - wanted))])


def _part(table: PreparedTable, rows: IntArray) -> Part:
    return Part(take(table.features, rows), table.y[rows], table.rows[rows])


_MAX_ROWS = 1000  # cross-fitting takes about a hundred fits
_MIN_GROUPS = 3  # of the spread, which a split should allow


def _parts_or_note(table: PreparedTable, plan: Plan, training_rows: int) -> tuple[Parts | None, Message | None]:
    """Return the parts. If all rows take turns instead, return None; if the plan does not say so, also a note."""
    if plan.calibration == "cross":
        return None, None
    may_take_turns = plan.calibration == "auto" and plan.needs_split is None and table.times is None
    may_take_turns = may_take_turns and len(table.y) <= _MAX_ROWS
    text = "the rows take turns to train, to calibrate and to test, because"
    if may_take_turns and not _has_rows_for_split(table, plan):
        return None, Message(f"{text} they are too few to hold some of them out")
    parts = _split_table(table, plan, training_rows)
    reason = _too_few_for_groups(table, plan, parts.held_out) if may_take_turns else None
    if reason is None:
        return parts, None
    remedy = ({"calibration": "split"},)
    return None, Message(f"{text} {reason}. To hold some of them out instead, use", remedy, lead="")


def _too_few_for_groups(table: PreparedTable, plan: Plan, calibration: Part) -> str | None:
    """Return why a split leaves too few rows to calibrate groups, as the end of a sentence; None if it does not."""
    calibration = _one_row_per_cluster(calibration, _clusters_of(table, calibration), plan.seed)
    needed = rows_for_finite_threshold(plan.level)
    if plan.taxonomy is not None:
        return _small_group(plan.taxonomy, table, calibration, needed)
    if len(calibration) >= _MIN_GROUPS * (2 * needed + 1):
        return None
    return f"a split would leave only {len(calibration)} rows for calibration"


def _small_group(taxonomy: Taxonomy, table: PreparedTable, calibration: Part, needed: int) -> str | None:
    """Return that a group would have too few rows for calibration, while the whole table has enough, or all groups.

    All groups together need rows for finite thresholds of two halves on average, so that most of them can be tested.

    Predictions are not known yet. Random numbers stand in for them, which gives bins with the same numbers of rows.
    """
    if not has_known_sizes(taxonomy):
        return None
    learned = fresh_taxonomy(taxonomy)
    counts = _counts(learned.learn(_stand_in(calibration)))
    in_table = _counts(learned.assign(_stand_in(Part(table.features, table.y, table.rows))))
    small = {label: counts.get(label, 0) for label, n in in_table.items() if counts.get(label, 0) < needed <= n}
    if small:
        label, n = min(small.items(), key=lambda each: each[1])
        rows = f"{n} row{'s' * (n != 1)}"
        return f"a split would hold out {rows} of the group {label}, and a finite interval needs {needed}"
    enough = 2 * needed * len(counts)
    if len(calibration) >= enough:
        return None
    return f"a split would hold out {len(calibration)} rows, and two halves with finite intervals need {enough}"


def _counts(groups: Groups) -> dict[Label, int]:
    """Return the number of rows of each group that has rows."""
    return {label: len(rows) for label, rows in groups.split(np.arange(len(groups))).items()}


def _stand_in(part: Part) -> Rows:
    """Return rows with random numbers instead of predictions."""
    numbers = np.random.default_rng(0).permutation(len(part)) + 1.0
    return Rows(Prediction(numbers, spread=numbers[::-1]), part.X, part.y)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A table, the model that was fitted to it and its test, the groups and intervals of this test, and messages."""

    table: PreparedTable
    regressor: Any
    evidence: Evidence
    taxonomy: Taxonomy
    intervals: Intervals
    warnings: Sequence[Message]
    notes: Sequence[Message]


def _fit_split(table: PreparedTable, parts: Parts, plan: Plan, progress: StageProgress) -> _Fitted:
    """Return a model that was fitted on some rows, and calibrated on all others; halves of these test it."""
    decided, parts = _decided_on_training_rows(table, parts)
    _warn_of(table)
    training, held_out = parts.training, parts.held_out
    support = plan.target_support(training.y, table.target)
    outside, support_note = _support_messages(support, plan, held_out)
    training = Part(training.X, plan.training_target(training.y), training.positions)
    clusters, held_out_clusters = (_clusters_of(table, part) for part in (training, held_out))
    n_calibration = len(held_out) if held_out_clusters is None else len(np.unique(held_out_clusters))
    times = None if table.times is None else table.times[table.places(training.positions)]
    decided_plan = replace(plan, support="none" if support is None else support)
    model, structure = plan.pipeline(decided.encoder), RowStructure(clusters, times)
    regressor = _fitted_regressor(model, training, structure, n_calibration, decided_plan, progress)
    progress("calibrating")
    regressor.calibrate(held_out.X, held_out.y, clusters=held_out_clusters)
    encoder: TableEncoder = fitted_models(regressor)[0][0]
    units = "rows" if clusters is None else "clusters"
    notes = [*support_note, *_group_notes(regressor, units), *_log_notes(regressor)]
    notes += category_notes(encoder.columns_, encoder.has_unseen(held_out.X))
    tested = _tested_in_turn if times is None else _tested_in_order
    evidence = tested(decided, regressor, parts, held_out_clusters, plan)
    return _Fitted(
        decided, regressor, evidence, audit_taxonomy(evidence.regressor), evidence.intervals(plan.level), outside, notes
    )


def _tested_in_turn(
    table: PreparedTable, regressor: ConformalRegressor, parts: Parts, clusters: IntArray | None, plan: Plan
) -> Evidence:
    """Return the test of held-out rows, or of one of each cluster: each half by the thresholds of the other half."""
    rng = np.random.default_rng([plan.seed, 3])
    tested = np.arange(len(parts.held_out)) if clusters is None else one_row_of_each(clusters, rng)
    turns = Turns.of_halves(regressor, parts.halves, tested)
    rows = replace(regressor.calibration_rows_[tested], clusters=None)
    test = _shown(table, parts.held_out, tested)
    groups = audit_taxonomy(regressor).assign(rows)
    positions = (parts.training.positions, parts.held_out.positions)
    return Evidence("turns", regressor, *positions, test, rows, groups, turns=turns)


def _tested_in_order(
    table: PreparedTable, regressor: ConformalRegressor, parts: Parts, clusters: IntArray | None, plan: Plan
) -> Evidence:
    """Return the test of the later half of held-out rows by the thresholds of the earlier half."""
    first, second = (np.flatnonzero(parts.halves == half) for half in (0, 1))
    earlier = calibrated_on_some(regressor, first)
    if clusters is not None:
        second = second[one_row_of_each(clusters[second], np.random.default_rng([plan.seed, 3]))]
    rows = replace(regressor.calibration_rows_[second], clusters=None)
    training = parts.training
    return Evidence(
        "order",
        earlier,
        training.positions,
        parts.held_out.positions[first],
        _shown(table, parts.held_out, second),
        rows,
        audit_taxonomy(earlier).assign(rows),
        training_r2=r_squared(training.y, np.ravel(regressor.predict(training.X))),
        model=regressor,
    )


def _shown(table: PreparedTable, part: Part, rows: IntArray) -> Part:
    """Return some rows of a part, with features as a reader should see them."""
    positions = part.positions[rows]
    return Part(table.shown(table.places(positions)), take(part.y, rows), positions)


def _decided_on_training_rows(table: PreparedTable, parts: Parts) -> tuple[PreparedTable, Parts]:
    """Return the table and its parts with the columns that the model uses, which the training rows decide."""
    decided = table.decided_by([table.places(parts.training.positions)])
    names = column_names(decided.features) or []
    training, held_out = (
        Part(columns_of(part.X, names), part.y, part.positions) for part in (parts.training, parts.held_out)
    )
    return replace(decided, encoder=decided.fixed_encoder), replace(parts, training=training, held_out=held_out)


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
    support = plan.target_support(table.y, table.target)
    outside = support_warnings(support, test=table.y)
    notes = [*support_notes(support, decided=_decides_support(plan)), *_log_notes_of_folds(regressor, models, plan)]
    notes += category_notes(fitted_models(regressor)[0][0].columns_, None)
    rows, intervals = Rows.with_checked_target(models.prediction, test.X, test.y), models.intervals(plan.level)
    test = _shown(decided, test, np.arange(len(test)))
    calibration = table.rows[np.sort(np.concatenate([positions for _, positions in regressor.cv]))]
    groups = tested_groups(regressor, intervals, rows)
    evidence = Evidence("cross", regressor, table.rows, calibration, test, rows, groups, turns=models)
    return _Fitted(decided, regressor, evidence, audit_taxonomy(regressor), intervals, outside, notes)


def _warn_of(table: PreparedTable) -> None:
    """Warn of what may be wrong with a table."""
    for warning in table.warnings:
        warn_user(TableWarning(warning))


def _support_messages(support: Support | None, plan: Plan, held_out: Part) -> tuple[list[Message], list[Message]]:
    """Return a warning of targets outside the support, which `calibrate` gives, and a note on the support."""
    outside = support_warnings(support, calibration=held_out.y)
    return outside, support_notes(support, decided=_decides_support(plan))


def _decides_support(plan: Plan) -> bool:
    """Return whether the targets decide which values intervals can hold."""
    return plan.support == "auto" and not isinstance(plan.nonconformity, Bounded)


def _group_notes(regressor: ConformalRegressor, units: str) -> list[Message]:
    """Return a note if all rows have one threshold because rows, or clusters, are too few; and how to get groups."""
    recommendation: Recommendation | None = getattr(regressor, "recommendation_", None)
    if recommendation is None or recommendation.needed_for_groups is None:
        return []
    text = (
        f"one threshold for all rows: groups with thresholds of their own take {recommendation.needed_for_groups} "
        f"held-out {units} or more. With {recommendation.calibration_rows}, these thresholds would vary too much by "
        "chance. To get them anyway"
    )
    return [Message(text, ({"taxonomy": BySpread(3)},), lead=", use")]


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


def _log_notes_of_folds(regressor: CrossConformalRegressor, tests: Turns, plan: Plan) -> list[Message]:
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
    structure: RowStructure,
    calibration_rows: int,
    plan: Plan,
    progress: StageProgress,
) -> ConformalRegressor:
    """Return the fitted model with the plan's score and groups, or with those selected on the training rows.

    `structure` is that of the training rows; `calibration_rows` is the number of rows, or clusters, for calibration.
    """
    support = plan.target_support(training.y)
    if plan.nonconformity is not None and plan.taxonomy is not None:
        progress("fitting the model")
        fitted = FrozenEstimator(
            structured_fit(
                model,
                training.X,
                training.y,
                structure,
                lambda done, fits: progress(Step("fitting the model", done, fits, "fits", effort=plan.used_effort)),
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
        calibration_rows=calibration_rows,
        test_rows=0,
        support=support,
        tails=plan.tails,
        target_transform=plan.target_transform,
        clusters=structure.clusters,
        times=structure.times,
        seed=plan.seed,
        progress=lambda done, fits: progress(
            Step("fitting the model, selecting score and groups", done, fits, "fits", effort=plan.used_effort)
        ),
    )
