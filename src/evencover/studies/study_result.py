"""The result of a study: a calibrated model, how it covers rows that it has not seen, and notes on the table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor
from typing import Any, Protocol

import numpy as np

from evencover.calibration.two_tails import CalibratedTails
from evencover.diagnostics.advice import Advice, StudyContext, advice, advice_on_audit
from evencover.diagnostics.answers import HOW_OFTEN, answers
from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.formatting import group_table, join_first, short_repr
from evencover.diagnostics.quality import Quality
from evencover.diagnostics.recommendation_result import Recommendation, Tails
from evencover.diagnostics.spelling import PYTHON, Spelling
from evencover.diagnostics.verdicts import Verdict
from evencover.display.html import Markup, joined, tag
from evencover.groups import Groups, Label
from evencover.guarantees import NO_BOUND, Guarantee
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.frames import FROM_ZERO, RowNumbers, join_columns
from evencover.intervals import Intervals, moved_note
from evencover.metrics import misses_by_group
from evencover.model_selection import Part
from evencover.models.auto import StackReport
from evencover.models.encoding import Encoded, TableEncoder
from evencover.models.members import choices_text, innermost
from evencover.predictions import Prediction
from evencover.quantiles import Levels, level_fraction
from evencover.rows import Rows
from evencover.scores.support import outside_support
from evencover.studies.column_checks import too_good
from evencover.studies.cross_fitting import CrossFitted
from evencover.studies.messages import Message
from evencover.studies.plan import Plan
from evencover.taxonomies import Taxonomy, group_meaning


def law_text(*, clusters: bool) -> str:
    """Return which models tested the rows, and by which law the tests were made."""
    tested, without, units = "Every row", "it", "rows"
    if clusters:
        tested, without, units = "One row of each cluster", "any row of its cluster", "clusters"
    return (
        f"{tested} was tested once, by models that were fitted and calibrated without {without}. They had fewer "
        f"{units} than the model for new rows, so their intervals can be wider, above all in tables of fewer than 50 "
        f"{units}. The tests use the binomial law, as if the tests of different rows were independent. This is an "
        f"approximation, because the models share most of their {units}."
    )


def guarantee_sentence(guarantee: Guarantee, level: float) -> str:
    """Return what is guaranteed at a level, and what is usual, for readers who know no statistics."""
    usual = f"usually it is close to {100 * level:g} %"
    new = "For rows of new clusters" if guarantee.for_new_clusters else "For new rows"
    known = " For rows of known clusters, nothing is guaranteed." * guarantee.for_new_clusters
    if guarantee.lower_bound == NO_BOUND:
        return f"{new}, no share is guaranteed, because the groups depend on predictions; {usual}."
    bound = guarantee.lower_bound(level)
    percent, where = floor(100 * bound), " in every group" * (len(guarantee.sizes) > 1)
    if not percent:
        return f"{new}, nothing is guaranteed at so low a level; {usual}."
    if bound == 1:
        return f"{new}, the intervals are infinite{where}, so that no target is missed."
    if bound >= level_fraction(level):  # few rows: the next narrower interval would miss too often
        return f"{new}, at least {percent} % is guaranteed{where}.{known}"
    return f"{new}, at least {percent} % is guaranteed{where}; {usual}.{known}"


def rows_text(n_rows: int, n_tested: int, n_calibration: int, clusters: str | None) -> str:
    """Return how many rows there are, and what they were used for."""
    if clusters is not None:
        uses = (
            "to calibrate and to test" if n_calibration == n_tested else f"to test, and {n_calibration} to calibrate,"
        )
        return f"{n_rows} rows to train; {n_tested} of them, one of each {clusters}, also {uses} in turn"
    if n_calibration < n_rows:
        return f"{n_rows} rows, each used to train and to test in turn, and {n_calibration} of them to calibrate"
    return f"{n_rows} rows, each used to train, to calibrate and to test in turn"


class AllRows(Protocol):
    """The rows of a large table, of which the study holds a random sample.

    They calibrated the model and tested it, in batches.
    """

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels at which all test rows were counted, in increasing order."""

    @property
    def sizes(self) -> dict[str, int]:
        """The number of rows that were used, by their use."""

    def misses(self, level: float) -> dict[Label, tuple[float, float]]:
        """Return the shares of all test rows below and above their intervals, by group and of all rows."""

    def audit(self, sampled: Audit) -> Audit:
        """Return the audit of the test rows in the sample, at one of the levels, with the counts of all test rows."""


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """The result of `study`: a model, its calibration, and how it covers rows that it has not seen.

    Parameters
    ----------
    name, target : str
        The name of the table, and of the column that is predicted.
    plan : Plan
        The settings.
    clusters, time : str or None
        The column of clusters: the test part has one row of each, and each calibrates as much as one row. The column of
        times: the parts follow each other.
    regressor : ConformalRegressor or CrossConformalRegressor
        The calibrated model; takes tables with the columns of the features.
    recommendation : Recommendation or None
        The scores and groups that were evaluated on the training part; None if the plan gives both.
    training, calibration : ndarray of int
        The rows of these parts, by position in the table. If the study is cross-fitted, a row is in several parts.
    test : Part
        The rows of the test part, as they are in the table.
    test_rows : Rows
        The same rows with the model's predictions. If the study is cross-fitted, each is predicted by models that were
        fitted without it.
    intervals : Intervals
        The intervals of the test rows, at the plan's level.
    groups : Groups
        The groups of the test rows: those of the model's thresholds, or three levels of the spread if it has one
        threshold.
    diagnosis : Diagnosis
        How one threshold for all rows would cover the groups, estimated on the calibration part.
    audit : Audit
        How the model's own intervals cover the test part.
    left_out : tuple of str
        The columns that were recognised as row numbers or ids on the rows that the model was fitted on, and are not
        features. If there are several models, as in a cross-fitted study, none of them uses these columns.
    row_numbers : RowNumbers
        How texts number the rows: from 0, or as in the file that the table was read from.
    table_warnings, table_notes : tuple of Message
        What may be wrong with the table, and what else a reader should know; `warnings` and `notes` are their texts.
    spelling : Spelling
        How the advice names settings: as Python arguments, or as options of the command line.
    cross : CrossFitted or None
        If every row was used to train, to calibrate and to test: the models that test each row out of sample.
    all_rows : AllRows or None
        If the table is large: the counts of all test rows. The rows above are then those of a random sample, which
        chose the method, fitted the model and diagnoses it; the other rows calibrated the model and tested it.
    """

    name: str
    target: str
    plan: Plan
    clusters: str | None
    time: str | None
    regressor: Any
    recommendation: Recommendation | None
    training: IntArray
    calibration: IntArray
    test: Part
    test_rows: Rows
    intervals: Intervals
    groups: Groups
    diagnosis: Diagnosis
    audit: Audit
    left_out: tuple[str, ...] = ()
    row_numbers: RowNumbers = FROM_ZERO
    table_warnings: tuple[Message, ...] = ()
    table_notes: tuple[Message, ...] = ()
    spelling: Spelling = PYTHON
    cross: CrossFitted | None = None
    all_rows: AllRows | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict of the audit, on the model's own intervals."""
        return self.audit.verdict

    @property
    def quality(self) -> Quality:
        """How good model and intervals are on the test part.

        They are compared with using no model (an interval from the calibration targets) and with one threshold for all
        rows.
        """
        return self.audit.quality

    @property
    def warnings(self) -> list[str]:
        """What may be wrong with the table, or too good to be true, in sentences; the first ones matter most."""
        messages = self.table_warnings or too_good(self.quality.r2)
        return [message.sentence(self.spelling) for message in messages]

    @property
    def notes(self) -> list[str]:
        """What else a reader should know about the table, and about predictions outside intervals, in sentences."""
        moved = moved_note(self.intervals, "test rows")
        return [*(message.sentence(self.spelling) for message in self.table_notes), *filter(None, [moved])]

    @property
    def headline(self) -> str:
        """The result in two sentences; if the study is cross-fitted, the guarantee, which is weaker, follows."""
        return " ".join(filter(None, [self.audit.headline, self.guarantee_text(self.plan.level)]))

    def guarantee_text(self, level: float) -> str:
        """Return what is guaranteed at a level if the study is cross-fitted, in sentences; otherwise nothing."""
        return "" if self.cross is None else guarantee_sentence(self.regressor.guarantee_, level)

    @property
    def law_text(self) -> str:
        """By which law the tests of a cross-fitted study were made, in sentences; otherwise nothing."""
        return "" if self.cross is None else law_text(clusters=self.clusters is not None)

    @property
    def advice(self) -> str:
        """What to do."""
        return self.audit.advice

    def spelled(self, spelling: Spelling) -> "Study":
        """Return the study with advice that names settings in this way."""
        return replace(
            self,
            diagnosis=replace(self.diagnosis, advice=advice(self.diagnosis, spelling)),
            audit=replace(self.audit, advice=str(self.advice_on(self.audit, self.diagnosis, spelling))),
            spelling=spelling,
        )

    def advice_on(self, audited: Audit, diagnosis: Diagnosis, spelling: Spelling) -> Advice:
        """Return the advice on an audit of this study's model, with the diagnosis at the same level."""
        context = StudyContext(
            diagnosis.inputs.taxonomy,
            self.n_rows,
            self.plan.calibration_size,
            self.plan.test_size,
            one_threshold_uneven=diagnosis.verdict == "uneven",
            model=self.model_name,
            explains_nothing=audited.quality.explains_nothing and not audited.quality.may_be_chance,
            per_group=len(self.regressor.calibration_.labels) > 1,
            by_time=self.time is not None,
            outside_support=self._share_outside_support,
            guaranteed=None if self.cross is None else float(self.regressor.guarantee_.lower_bound(audited.level)),
        )
        return advice_on_audit(audited, spelling, context)

    @property
    def _share_outside_support(self) -> float:
        """The share of test targets outside the support of the score."""
        y = self.test_rows.required_target(by="a support")
        return float(outside_support(self.regressor.calibration_.nonconformity, y, self.groups).mean())

    @property
    def sizes(self) -> dict[str, int]:
        """The number of rows in each part; if the study is cross-fitted, a row is in several parts."""
        if self.all_rows is not None:
            return self.all_rows.sizes
        return {"training": len(self.training), "calibration": len(self.calibration), "test": len(self.test)}

    @property
    def n_rows(self) -> int:
        """The number of rows that were used."""
        return len(self.training) if self.cross is not None else sum(self.sizes.values())

    @property
    def columns(self) -> tuple[Encoded, ...]:
        """How each feature was encoded as numbers."""
        encoder: TableEncoder = self._fitted[0]
        return encoder.columns_

    @property
    def model(self) -> Any:
        """The fitted model, without the encoder of the table; if there is one for each fold, the first of them."""
        return self._fitted[-1]

    @property
    def _fitted(self) -> Any:
        frozen = self.regressor.estimator_ if self.cross is None else self.regressor.estimators_[0]
        return getattr(frozen, "estimator", frozen)

    @property
    def prediction(self) -> Prediction:
        """The model's predictions for the test rows."""
        return self.test_rows.prediction

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part} {n}" for part, n in self.sizes.items())
        sizes = sizes if self.cross is None else f"{self.n_rows}, cross-fitted"
        return f"Study({self.name}, target {self.target}: {self.verdict}; rows: {sizes}; level {self.plan.level:g})"

    def __str__(self) -> str:
        table = group_table([*self.audit.table, self.audit.overall], *self.audit.columns)
        lines = [
            f"Data: {self.name}, target {self.target}; {self._rows_text}.",
            f"Model: {self.method}.",
            *(f"Warning: {text}" for text in self.warnings),
            *(f"Note: {text}" for text in self.notes),
            "",
            *(f"{question}: {answer}" for question, answer in self.answers().items()),
            "",
            f"Verdict: {self.verdict}. Coverage of the test rows at level {self.plan.level:g}; estimates and intervals "
            f"use {self.audit.evidence}:",
            table,
            *filter(None, [self.law_text, self.group_meaning, self.misses_text(self.intervals)]),
            f"With {self.one_threshold_text}, from the {self._calibration_scores_text}: {self.diagnosis.verdict}. "
            f"{self.diagnosis.headline} {self.diagnosis.advice}",
        ]
        return "\n".join(lines)

    def answers(self) -> dict[str, str]:
        """Return the four answers, in the order of reading."""
        found = answers(self.audit)
        return {**found, HOW_OFTEN: " ".join(filter(None, [found[HOW_OFTEN], self.guarantee_text(self.plan.level)]))}

    @property
    def _rows_text(self) -> str:
        """The rows, and what they were used for."""
        if self.cross is not None:
            return rows_text(self.n_rows, len(self.test), len(self.calibration), self.clusters)
        sizes = ", ".join(f"{n} {part}" for part, n in self.sizes.items())
        return f"{sizes} rows{self._cluster_text}"

    @property
    def _calibration_scores_text(self) -> str:
        return self.diagnosis_rows if self.cross is None else "out-of-fold scores of several models"

    @property
    def diagnosis_rows(self) -> str:
        """What the rows of the diagnosis are called: the calibration rows, or others if the table is large."""
        return "calibration rows" if self.all_rows is None else "diagnosis rows"

    @property
    def group_meaning(self) -> str:
        """What the groups are, in sentences; empty if their names say it. Also why requested groups are one group."""
        rows, labels = {row.group: row.rows for row in self.audit.table}, self.groups.labels
        meaning = group_meaning(self.diagnosis.inputs.taxonomy, labels, [rows.get(label, 0) for label in labels])
        own = self.regressor.taxonomy_ if len(self.regressor.calibration_.labels) == 1 else None
        return " ".join(dict.fromkeys(filter(None, [getattr(own, "merged_text", ""), meaning])))

    def misses_text(self, intervals: Intervals) -> str:
        """Return the shares of test rows below and above their intervals, if each end has its own threshold."""
        if self.tails == "joint":
            return ""
        if self.all_rows is not None:
            misses: Mapping[Label, Any] = self.all_rows.misses(float(intervals.level))  # type: ignore[arg-type]
        else:
            groups = misses_by_group(self.test_rows.y, intervals, self.groups)
            (every,) = misses_by_group(self.test_rows.y, intervals, np.zeros(len(intervals))).values()
            misses = groups | ({"all rows": every} if len(groups) > 1 else {})
        texts = (
            f"{label} {below:.1%} and {above:.1%}".replace("%", " %")
            for label, (below, above) in misses.items()
            if not np.isnan(below)  # a group without rows
        )
        return f"Test rows below and above their intervals: {join_first(texts)}."

    @property
    def tails(self) -> Tails:
        """Whether both ends of the intervals have the same threshold (joint), or each end its own (separate)."""
        return "separate" if isinstance(self.regressor.calibrator_, CalibratedTails) else "joint"

    @property
    def one_threshold_text(self) -> str:
        """What the diagnosis is about, in words: it has no separate tails."""
        return "one threshold for all rows" + " and both ends of their intervals" * (self.tails == "separate")

    @property
    def _cluster_text(self) -> str:
        if self.clusters is None:
            return ""
        return f" (calibration: each {self.clusters} counts as one row; test: one row of each {self.clusters})"

    def _repr_html_(self) -> str:
        model = tag("p", f"{self!r}. Model: {self.method}. {self.quality.summary}")
        remarks = (tag("p", text) for text in (*self.warnings, *self.notes))
        return joined([model, *remarks, Markup(self.audit._repr_html_())])

    @property
    def model_name(self) -> str:
        """The name of the model in the plan, or its class."""
        return self.plan.model if isinstance(self.plan.model, str) else type(self.plan.model).__name__

    @property
    def model_text(self) -> str:
        """The name of the model, which of its parts is in use, and the target's scale, if it is another one."""
        transform = None if self.recommendation is None else self.recommendation.chosen.transform
        choices = choices_text(getattr(self.regressor, "estimators_", None) or [self.regressor.estimator_])
        chosen = f" ({choices})" if choices else ""
        return self.model_name + chosen + ("" if transform is None else f", fitted to the {transform} of the target")

    @property
    def stack_report(self) -> StackReport | None:
        """What the model `AutoRegressor` compared, and the weights; None for other models."""
        return getattr(innermost(getattr(self.regressor, "estimator_", None)), "report_", None)

    @property
    def method(self) -> str:
        """The model, the score and the groups as text."""
        score = short_repr(self.regressor.calibration_.nonconformity)
        tails = "; one threshold for each end" * (self.tails == "separate")
        return f"{self.model_text}; score: {score}; groups: {short_repr(self.taxonomy)}{tails}"

    @property
    def taxonomy(self) -> Taxonomy | None:
        """The groups that have their own thresholds: those of the plan, or those that were selected."""
        regressor = self.regressor
        taxonomy: Taxonomy | None = getattr(getattr(regressor, "calibrator", None), "taxonomy", regressor.taxonomy)
        return taxonomy

    def intervals_at(self, level: Levels) -> Intervals:
        """Return the intervals of the test rows at other levels; the model, its score and its groups stay the same.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.
        """
        if self.cross is not None:
            return self.cross.intervals(level)
        intervals: Intervals = self.regressor.predict_interval(self.test_rows, level=level)
        return intervals

    def columns_of_intervals(self) -> dict[str, Any]:
        """Return the test rows as columns: row, prediction, bounds, group, whether covered, target.

        The prediction is a point of the interval, as in `Intervals.to_frame`.
        """
        return columns_of_intervals(self.target, self.test.y, self.test.positions, self.intervals, self.groups)


def columns_of_intervals(
    target: str, y: FloatArray, positions: IntArray, intervals: Intervals, groups: Groups
) -> dict[str, Any]:
    """Return test rows as columns: row, prediction, bounds, group, whether covered, target."""
    columns = {
        "row": positions,
        **intervals.columns(),
        "group": [str(label) for label in groups.label_of_rows()],
        "covered": intervals.covers(y),
    }
    return join_columns({target: y}, columns)
