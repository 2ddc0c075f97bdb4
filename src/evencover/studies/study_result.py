"""The result of a study: a calibrated model, how it covers rows that it has not seen, and notes on the table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.compose import TransformedTargetRegressor

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.interval_quality import Quality
from evencover.diagnostics.recommendations import Recommendation, Tails
from evencover.diagnostics.verdicts import Verdict
from evencover.display.text import short_repr
from evencover.groups import Groups
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.frames import FROM_ZERO, RowNumbers, join_columns
from evencover.intervals import Intervals, columns_of_new_rows
from evencover.model_selection import Part
from evencover.models.auto import StackReport
from evencover.models.encoding import Encoded, TableEncoder
from evencover.models.estimators import fitted_models, layers
from evencover.models.members import choices_text
from evencover.models.ranges import Outside
from evencover.predictions import Prediction
from evencover.quantiles import Levels
from evencover.rows import Rows
from evencover.scores.support import outside_support
from evencover.studies.evidence import Evidence
from evencover.studies.messages import Message
from evencover.studies.other_rows import OtherRows
from evencover.studies.plan import Plan
from evencover.studies.row_checks import ExtremeValue
from evencover.taxonomies import Taxonomy


@dataclass(frozen=True, eq=False)
class RowsWithoutTarget:
    """Rows of the table that have no target, with the intervals of the calibrated model.

    They are those of new rows: guaranteed if rows without a target are like the others (targets are missing at random).
    A row in a group without calibration rows has an infinite interval.

    Parameters
    ----------
    positions : ndarray of int, shape (n,)
        Their positions in the table.
    numbers : ndarray of int, shape (n,)
        Their numbers, as texts and files have them.
    intervals : Intervals
        Their intervals at the plan's level.
    outside : Outside
        Which of them are outside of what the model has seen.
    """

    positions: IntArray
    numbers: IntArray
    intervals: Intervals
    outside: Outside

    @classmethod
    def of(cls, regressor: Any, part: Part, level: float, numbers: IntArray) -> "RowsWithoutTarget":
        """Return rows with the intervals of a calibrated model; `part` has the columns that it knows."""
        intervals = regressor.predict_interval(part.X, level=level, unseen="inf")
        return cls(part.positions, numbers, intervals, regressor.outside(part.X))

    def __len__(self) -> int:
        return len(self.positions)

    def columns(self) -> dict[str, Any]:
        """Return the rows as columns: row, prediction, bounds, group, and the columns in which a row is outside."""
        return columns_of_new_rows(self.intervals, self.numbers, self.outside)


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
        The column of clusters: one row of each is tested, and each calibrates as much as one row. The column of
        times: the parts follow each other.
    regressor : ConformalRegressor or CrossConformalRegressor
        The calibrated model; takes tables with the columns of the features.
    recommendation : Recommendation or None
        The scores and groups that were evaluated on the training rows; None if the plan gives both.
    evidence : Evidence
        The rows that test the model: a part of the table, all rows in turn, or those of a large table, in batches.
    intervals : Intervals
        The intervals of the test rows, at the plan's level.
    diagnosis : Diagnosis
        How one threshold for all rows would cover the groups, estimated on the calibration rows.
    audit : Audit
        How the model's own intervals cover the test rows.
    left_out : tuple of str
        The columns that were recognised as row numbers or ids on the rows that the model was fitted on, and are not
        features. If there are several models, as in a cross-fitted study, none of them uses these columns.
    n_copies : int
        Number of rows that were not used because they are copies of other rows; in a large table, of its sample.
    extremes : tuple of ExtremeValue
        The values that lie extremely far from all others of their columns.
    row_numbers : RowNumbers
        How texts and files number the rows: from 0, or as in the file that the table was read from.
    n_without_target : int
        Number of rows without a target, which are used for nothing else than the next field.
    without_target : RowsWithoutTarget or None
        These rows with their intervals; None if there are none, if they were dropped, and if the table is large: then
        they are in a file.
    other_rows : tuple of OtherRows
        How intervals of the same method cover later rows, and rows of new units, if the table has times or units.
    table_warnings, table_notes : tuple of Message
        What may be wrong with the table, and what else a reader should know; `warnings` and `notes` are their texts.
    """

    name: str
    target: str
    plan: Plan
    clusters: str | None
    time: str | None
    regressor: Any
    recommendation: Recommendation | None
    evidence: Evidence
    intervals: Intervals
    diagnosis: Diagnosis
    audit: Audit
    left_out: tuple[str, ...] = ()
    n_copies: int = 0
    extremes: tuple[ExtremeValue, ...] = ()
    row_numbers: RowNumbers = FROM_ZERO
    n_without_target: int = 0
    without_target: RowsWithoutTarget | None = None
    other_rows: tuple[OtherRows, ...] = ()
    table_warnings: tuple[Message, ...] = ()
    table_notes: tuple[Message, ...] = ()

    @property
    def training(self) -> IntArray:
        """The rows that fitted the model, by position in the table."""
        return self.evidence.training

    @property
    def calibration(self) -> IntArray:
        """The rows of the diagnosis, by position in the table.

        They calibrate the model. In the order of time, the test rows do so, too; if the table is large, other rows do.
        """
        return self.evidence.calibration

    @property
    def test(self) -> Part:
        """The test rows, as they are in the table; those of a random sample, if it is large."""
        return self.evidence.test

    @property
    def test_rows(self) -> Rows:
        """The same rows with predictions, by models that were not fitted on them."""
        return self.evidence.rows

    @property
    def groups(self) -> Groups:
        """The groups of the test rows: those of the thresholds, or three levels of the spread if there is only one."""
        return self.evidence.groups

    @property
    def verdict(self) -> Verdict:
        """The verdict of the audit, on the model's own intervals."""
        return self.audit.verdict

    @property
    def quality(self) -> Quality:
        """How good model and intervals are on the test rows.

        They are compared with using no model (an interval from the calibration targets) and with one threshold for all
        rows.
        """
        return self.audit.quality

    @property
    def warnings(self) -> list[str]:
        """What may be wrong with the table, or too good to be true, in sentences; the first ones matter most."""
        from evencover.words.studies import study_warnings

        return study_warnings(self)

    @property
    def notes(self) -> list[str]:
        """What else a reader should know about the table, and about predictions outside intervals, in sentences."""
        from evencover.words.studies import study_notes

        return study_notes(self)

    @property
    def headline(self) -> str:
        """The result in two sentences; if the study is cross-fitted, the guarantee, which is weaker, follows."""
        from evencover.words.studies import study_headline

        return study_headline(self)

    @property
    def advice(self) -> str:
        """What to do, with the settings of the study."""
        from evencover.words.advice import advice_on_study

        return str(advice_on_study(self))

    @property
    def per_group(self) -> bool:
        """Whether each of several groups has its own threshold."""
        return len(self.regressor.calibration_.labels) > 1

    @property
    def share_outside_support(self) -> float:
        """The share of test targets outside the support of the score."""
        y = self.test_rows.required_target(by="a support")
        return float(outside_support(self.regressor.calibration_.nonconformity, y, self.groups).mean())

    @property
    def sizes(self) -> dict[str, int]:
        """The number of rows by their use; if the study is cross-fitted, a row is used several times."""
        return self.evidence.sizes

    @property
    def n_rows(self) -> int:
        """The number of rows that were used."""
        return self.evidence.n_rows

    @property
    def columns(self) -> tuple[Encoded, ...]:
        """How each feature was encoded as numbers."""
        encoder: TableEncoder = fitted_models(self.regressor)[0][0]
        return encoder.columns_

    @property
    def model(self) -> Any:
        """The fitted model, without the encoder of the table; if there is one for each fold, the first of them."""
        return fitted_models(self.regressor)[0][-1]

    @property
    def prediction(self) -> Prediction:
        """The model's predictions for the test rows."""
        return self.test_rows.prediction

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part} {n}" for part, n in self.sizes.items())
        sizes = f"{self.n_rows}, cross-fitted" if self.evidence.kind == "cross" else sizes
        return f"Study({self.name}, target {self.target}: {self.verdict}; rows: {sizes}; level {self.plan.level:g})"

    def __str__(self) -> str:
        from evencover.words.studies import study_text

        return study_text(self)

    def _repr_html_(self) -> str:
        from evencover.words.studies import study_html

        return study_html(self)

    def answers(self) -> dict[str, str]:
        """Return the four answers, in the order of reading."""
        from evencover.words.studies import study_answers

        return study_answers(self)

    @property
    def tails(self) -> Tails:
        """Whether both ends of the intervals have the same threshold (joint), or each end its own (separate)."""
        return "separate" if len(self.regressor.calibrator_.used_calibrations(())) > 1 else "joint"

    @property
    def model_name(self) -> str:
        """The name of the model in the plan, or its class."""
        return self.plan.model if isinstance(self.plan.model, str) else type(self.plan.model).__name__

    @property
    def model_text(self) -> str:
        """The name of the model, which of its parts is in use, and the target's scale, if it is another one."""
        choices = choices_text(fitted_models(self.regressor))
        chosen = f" ({choices})" if choices else ""
        of_log = are_of_log(self.regressor, self.plan)
        scale = ", fitted to the log of the target" if any(of_log) else ""
        folds = "" if all(of_log) or not scale else f" in {sum(of_log)} of {len(of_log)} folds"
        return f"{self.model_name}{chosen}{scale}{folds}"

    @property
    def stack_report(self) -> StackReport | None:
        """What the model `AutoRegressor` compared, and the weights; None for other models."""
        inside = layers(getattr(self.regressor, "estimator_", None))
        return next((layer.report_ for layer in inside if hasattr(layer, "report_")), None)

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
        return self.evidence.intervals(level)

    def columns_of_intervals(self) -> dict[str, Any]:
        """Return the test rows as columns: row, prediction, bounds, group, whether covered, target.

        The prediction is a point of the interval, as in `Intervals.to_frame`.
        """
        numbers = self.row_numbers.at(self.test.positions)
        return columns_of_intervals(self.target, self.test.y, numbers, self.intervals, self.groups)


def without_target_path(intervals: Path) -> Path:
    """Return the file for intervals of rows without a target, next to the file of those of the test rows."""
    return intervals.with_stem(f"{intervals.stem}_without_target")


def are_of_log(regressor: Any, plan: Plan) -> list[bool]:
    """Return whether the study fitted each model of its regressor to the log of the target; not if the plan does."""
    given = isinstance(plan.model, TransformedTargetRegressor)
    return [not given and isinstance(model[-1], TransformedTargetRegressor) for model in fitted_models(regressor)]


def columns_of_intervals(
    target: str, y: FloatArray, numbers: IntArray, intervals: Intervals, groups: Groups
) -> dict[str, Any]:
    """Return test rows as columns: their numbers, prediction, bounds, group, whether covered, target."""
    columns = {
        "row": numbers,
        **intervals.columns(),
        "group": [str(label) for label in groups.label_of_rows()],
        "covered": intervals.covers(y),
    }
    return join_columns({target: y}, columns)
