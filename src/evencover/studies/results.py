"""What a study found: frozen data, and its text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evencover.conformal import ConformalRegressor
from evencover.diagnostics.audits import Audit, GroupAudit
from evencover.diagnostics.choosing import Recommendation
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.verdicts import Verdict
from evencover.diagnostics.words import COLUMNS, cells, in_code, probability, table_of
from evencover.groups import Groups
from evencover.inputs import IntArray
from evencover.intervals import Intervals
from evencover.markup import Markup, joined, tag
from evencover.models.encoding import EncodedColumn, TableEncoder
from evencover.predictions import Prediction
from evencover.rows import Rows
from evencover.splits import Part
from evencover.studies.plan import Plan


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """A table's rows split in three, a model fitted and calibrated on two of them, and judged on the third.

    Parameters
    ----------
    name, target : str
        Of the table, and of its column that is predicted.
    plan : Plan
        What was done.
    split_by : str or None
        The column of clusters, one row of each of which calibrates or judges.
    regressor : ConformalRegressor
        The calibrated model; takes tables with the features' columns.
    recommendation : Recommendation or None
        What was tried on the training part, if something was left to choose.
    training, calibration : ndarray of int
        Rows of these parts, by position in the table.
    test : Part
        The rows of the test part, as they are in the table.
    test_rows : Rows
        The same with what the model predicts for them.
    intervals : Intervals
        Of the test rows, at the plan's level.
    groups : Groups
        Of the test rows: those of the model's thresholds, or three of the spread where there is one threshold.
    diagnosis : Diagnosis
        Of one threshold for all rows, from the calibration part.
    audit : Audit
        Of the model's own intervals, on the test part.
    """

    name: str
    target: str
    plan: Plan
    split_by: str | None
    regressor: ConformalRegressor
    recommendation: Recommendation | None
    training: IntArray
    calibration: IntArray
    test: Part
    test_rows: Rows
    intervals: Intervals
    groups: Groups
    diagnosis: Diagnosis
    audit: Audit

    @property
    def verdict(self) -> Verdict:
        """On the model's own intervals: that of the audit."""
        return self.audit.verdict

    @property
    def sizes(self) -> dict[str, int]:
        """Rows of each part."""
        return {"training": len(self.training), "calibration": len(self.calibration), "test": len(self.test)}

    @property
    def columns(self) -> tuple[EncodedColumn, ...]:
        """How each feature became numbers."""
        encoder: TableEncoder = self._fitted[0]
        return encoder.columns_

    @property
    def model(self) -> Any:
        """The fitted model inside, behind the encoder."""
        return self._fitted[-1]

    @property
    def _fitted(self) -> Any:
        frozen = self.regressor.estimator_
        return getattr(frozen, "estimator", frozen)

    @property
    def prediction(self) -> Prediction:
        """What the model says of the test rows."""
        return self.test_rows.prediction

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part} {n}" for part, n in self.sizes.items())
        return f"Study({self.name}, target {self.target}: {self.verdict}; rows: {sizes}; level {self.plan.level:g})"

    def __str__(self) -> str:
        sizes = ", ".join(f"{n} {part}" for part, n in self.sizes.items())
        return "\n".join(
            [
                f"{self.name}, predicting {self.target}: {sizes} rows{self._clusters}.",
                f"Model: {self.how}.",
                f"On the test rows, at level {self.plan.level:g}:",
                table_of([*self.audit.table, self.audit.overall], _cells, (*COLUMNS, "p (Holm)", "mean width")),
                f"Verdict: {self.verdict}. {self.audit.advice}",
                f"By the calibration rows, one threshold for all is {self.diagnosis.verdict}. {self.diagnosis.advice}",
            ]
        )

    @property
    def _clusters(self) -> str:
        return "" if self.split_by is None else f"; one of each {self.split_by} calibrates or judges"

    def _repr_html_(self) -> str:
        return joined([tag("p", f"{self!r}. {self.how}."), Markup(self.audit._repr_html_())])

    @property
    def how(self) -> str:
        """The model, the score and the groups in words."""
        model = self.plan.model if isinstance(self.plan.model, str) else type(self.plan.model).__name__
        score = in_code(self.regressor.calibration_.nonconformity)
        return f"{model}, {score}, {in_code(self.regressor.taxonomy)}"

    def columns_of_intervals(self) -> dict[str, Any]:
        """Return the test rows as columns: place in the table, target, prediction, bounds, group, whether covered."""
        made = self.intervals
        ours = {
            "row": self.test.positions,
            "prediction": self.prediction.center,
            **made.columns(),
            "group": [str(label) for label in self.groups.label_of_rows()],
            "covered": made.covers(self.test.y),
        }
        return beside({self.target: self.test.y}, ours)


def _cells(row: GroupAudit) -> tuple[str, ...]:
    """Return the text of a line."""
    return *cells(row), probability(row.adjusted), f"{row.width:.4g}"


def beside(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns of the table and ours together; a name that ours have, too, gets the prefix ``table_``."""
    found = dict(ours)
    for name, values in theirs.items():
        while name in found:
            name = f"table_{name}"
        found[name] = values
    return found
