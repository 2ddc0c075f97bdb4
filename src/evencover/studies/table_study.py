"""Run a study of a table: split, fit, choose, calibrate, diagnose, audit; and its result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from evencover._internal.arrays import IntArray
from evencover._internal.html import Markup, joined, tag
from evencover.conformal import ConformalRegressor
from evencover.diagnostics._formatting import (
    COVERAGE_COLUMNS,
    coverage_cells,
    group_table,
    number_text,
    p_value_text,
    short_repr,
)
from evencover.diagnostics._verdict import Verdict
from evencover.diagnostics.audit_result import Audit, GroupAudit
from evencover.diagnostics.audits import audit
from evencover.diagnostics.diagnosis import diagnose
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.recommendations import Recommendation, recommend
from evencover.groups import Groups
from evencover.intervals import Intervals
from evencover.model_selection import Part
from evencover.models.encoding import EncodedColumn, TableEncoder
from evencover.predictions import Prediction, Rows
from evencover.studies._columns import check_column_roles, feature_columns, target_column, three_parts
from evencover.studies.plan import Plan
from evencover.taxonomies import ByPrediction, BySpread, Taxonomy


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """A table's rows split in three, a model fitted and calibrated on two of them, and judged on the third.

    Parameters
    ----------
    name, target : str
        Of the table, and of its column that is predicted.
    plan : Plan
        What was done.
    clusters : str or None
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
    clusters: str | None
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
                f"{self.name}, predicting {self.target}: {sizes} rows{self._cluster_text}.",
                f"Model: {self.how}.",
                f"On the test rows, at level {self.plan.level:g}:",
                group_table(
                    [*self.audit.table, self.audit.overall], _cells, (*COVERAGE_COLUMNS, "p (Holm)", "mean width")
                ),
                f"Verdict: {self.verdict}. {self.audit.advice}",
                f"By the calibration rows, one threshold for all is {self.diagnosis.verdict}. {self.diagnosis.advice}",
            ]
        )

    @property
    def _cluster_text(self) -> str:
        return "" if self.clusters is None else f"; one of each {self.clusters} calibrates or judges"

    def _repr_html_(self) -> str:
        return joined([tag("p", f"{self!r}. {self.how}."), Markup(self.audit._repr_html_())])

    @property
    def how(self) -> str:
        """The model, the score and the groups in words."""
        model = self.plan.model if isinstance(self.plan.model, str) else type(self.plan.model).__name__
        score = short_repr(self.regressor.calibration_.nonconformity)
        return f"{model}, {score}, {short_repr(self.regressor.taxonomy)}"

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
        return join_columns({self.target: self.test.y}, ours)


def _cells(row: GroupAudit) -> tuple[str, ...]:
    """Return the text of a line."""
    return *coverage_cells(row), p_value_text(row.adjusted), number_text(row.width)


def join_columns(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns of the table and ours together; a name that ours have, too, gets the prefix ``table_``."""
    found = dict(ours)
    for name, values in theirs.items():
        while name in found:
            name = f"table_{name}"
        found[name] = values
    return found


Progress = Callable[[str], None]


def study(
    table: Any,
    target: str,
    *,
    plan: Plan | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    clusters: str | None = None,
    name: str = "table",
    progress: Progress | None = None,
) -> Study:
    """Split a table's rows in three, fit and choose on one part, calibrate on the next, judge on the last.

    The score and the groups are chosen on the training part alone, by `recommend`, so that the calibration rows keep
    their guarantee; the verdict is on test rows that neither model nor calibration have seen.

    Parameters
    ----------
    table : DataFrame of n rows
        A pandas, polars or pyarrow table: features, numbers or text, some of them perhaps missing (see `TableEncoder`),
        and the target.
    target : str
        The column to predict.
    plan : Plan, optional
        Model, score, groups, level, parts, seed.
    drop : sequence of str
        Columns that are no features, such as names of rows; groups may be formed by them.
    categorical : sequence of str
        Columns of numbers that are codes of categories.
    clusters : str, optional
        A column that says which rows belong together, such as patients; no feature. None of these clusters has rows in
        two parts, and one row of each, drawn at random, calibrates or judges: rows of one cluster depend on each
        other, and the guarantee and the tests are exact for rows that do not (Dunn, Wasserman and Ramdas, 2022). The
        promise is then for a row of a new cluster.
    name : str
        What results call the table.
    progress : callable, optional
        Called with what is being done.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=2000)
    >>> table = pd.DataFrame({"x": x, "y": rng.normal(scale=0.1 + x)})
    >>> found = study(table, "y", plan=Plan(model="linear"))
    >>> found.sizes
    {'training': 800, 'calibration': 800, 'test': 400}
    """
    plan, progress = plan or Plan(), progress or (lambda _: None)
    check_column_roles(table, target, drop, categorical, clusters)
    features, encoder = feature_columns(table, target, drop, categorical, clusters, plan.taxonomy)
    training, calibration, test = three_parts(table, features, target_column(table, target), clusters, plan)
    model = Pipeline([("table", encoder), ("model", clone(plan.estimator()))])
    regressor = _chosen(model, training, len(calibration), plan, progress)
    progress("calibrating")
    regressor.calibrate(calibration.X, calibration.y)
    progress("diagnosing on the calibration rows")
    taxonomy = _judged_by(regressor)
    settings: dict[str, Any] = {"level": plan.level, "tolerance": plan.tolerance, "seed": plan.seed}
    diagnosis = diagnose(regressor, taxonomy=taxonomy, **settings)
    progress("judging on the test rows")
    rows = regressor.rows(test.X, test.y)
    groups = taxonomy.assign(rows)
    intervals = regressor.predict_interval(rows, level=plan.level)
    return Study(
        name=name,
        target=target,
        plan=plan,
        clusters=clusters,
        regressor=regressor,
        recommendation=getattr(regressor, "recommendation_", None),
        training=training.positions,
        calibration=calibration.positions,
        test=test,
        test_rows=rows,
        intervals=intervals,
        groups=groups,
        diagnosis=diagnosis,
        audit=audit(test.y, intervals, X=test.X, groups=groups, **settings),
    )


def _judged_by(regressor: ConformalRegressor) -> Taxonomy:
    """Return the groups to judge by, learned from the calibration rows: the model's, or three where it has one."""
    if len(regressor.calibration_.labels) > 1:
        return regressor.taxonomy_
    taxonomy = ByPrediction(3) if regressor.calibration_rows_.prediction.spread is None else BySpread(3)
    taxonomy.learn(regressor.calibration_rows_)
    return taxonomy


def _chosen(
    model: Pipeline, training: Part, calibration_rows: int, plan: Plan, progress: Progress
) -> ConformalRegressor:
    """Return the model, fitted and frozen, with the plan's score and groups, or those chosen on the training part."""
    if plan.nonconformity is not None and plan.taxonomy is not None:
        progress("fitting the model")
        fitted = FrozenEstimator(model.fit(training.X, training.y))
        return ConformalRegressor(fitted, nonconformity=plan.nonconformity, taxonomy=plan.taxonomy)
    return recommend(
        model,
        training.X,
        training.y,
        nonconformity=plan.nonconformity,
        taxonomy=plan.taxonomy,
        level=plan.level,
        tolerance=plan.tolerance,
        calibration_rows=calibration_rows,
        seed=plan.seed,
        progress=lambda done, fits: progress(f"choosing score and groups: {done} of {fits} fits"),
    )
