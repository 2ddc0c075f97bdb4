"""Study a table: split, fit, select score and groups, calibrate, diagnose, audit."""

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
from evencover.studies._columns import check_column_roles, feature_columns, split_rows, target_column
from evencover.studies.plan import Plan
from evencover.taxonomies import ByPrediction, BySpread, Taxonomy


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """The result of `study`: a model, its calibration, and how it covers rows that it has not seen.

    Parameters
    ----------
    name, target : str
        The name of the table, and of the column that is predicted.
    plan : Plan
        The settings.
    clusters : str or None
        The column of clusters. Calibration and test parts have one row of each cluster.
    regressor : ConformalRegressor
        The calibrated model; takes tables with the columns of the features.
    recommendation : Recommendation or None
        The scores and groups that were evaluated on the training part; None if the plan gives both.
    training, calibration : ndarray of int
        The rows of these parts, by position in the table.
    test : Part
        The rows of the test part, as they are in the table.
    test_rows : Rows
        The same rows with the model's predictions.
    intervals : Intervals
        The intervals of the test rows, at the plan's level.
    groups : Groups
        The groups of the test rows: those of the model's thresholds, or three levels of the spread if it has one
        threshold.
    diagnosis : Diagnosis
        How one threshold for all rows would cover the groups, estimated on the calibration part.
    audit : Audit
        How the model's own intervals cover the test part.
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
        """The verdict of the audit, on the model's own intervals."""
        return self.audit.verdict

    @property
    def sizes(self) -> dict[str, int]:
        """The number of rows in each part."""
        return {"training": len(self.training), "calibration": len(self.calibration), "test": len(self.test)}

    @property
    def columns(self) -> tuple[EncodedColumn, ...]:
        """How each feature was encoded as numbers."""
        encoder: TableEncoder = self._fitted[0]
        return encoder.columns_

    @property
    def model(self) -> Any:
        """The fitted model, without the encoder of the table."""
        return self._fitted[-1]

    @property
    def _fitted(self) -> Any:
        frozen = self.regressor.estimator_
        return getattr(frozen, "estimator", frozen)

    @property
    def prediction(self) -> Prediction:
        """The model's predictions for the test rows."""
        return self.test_rows.prediction

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part} {n}" for part, n in self.sizes.items())
        return f"Study({self.name}, target {self.target}: {self.verdict}; rows: {sizes}; level {self.plan.level:g})"

    def __str__(self) -> str:
        sizes = ", ".join(f"{n} {part}" for part, n in self.sizes.items())
        return "\n".join(
            [
                f"Data: {self.name}, target {self.target}; {sizes} rows{self._cluster_text}.",
                f"Model: {self.method}.",
                f"On the test rows, at level {self.plan.level:g}:",
                group_table(
                    [*self.audit.table, self.audit.overall], _cells, (*COVERAGE_COLUMNS, "p (Holm)", "mean width")
                ),
                f"Verdict: {self.verdict}. {self.audit.advice}",
                f"Diagnosis of one threshold for all rows, from the calibration rows: {self.diagnosis.verdict}. "
                f"{self.diagnosis.advice}",
            ]
        )

    @property
    def _cluster_text(self) -> str:
        return "" if self.clusters is None else f" (calibration and test: one row of each {self.clusters})"

    def _repr_html_(self) -> str:
        return joined([tag("p", f"{self!r}. Model: {self.method}."), Markup(self.audit._repr_html_())])

    @property
    def method(self) -> str:
        """The model, the score and the groups as text."""
        model = self.plan.model if isinstance(self.plan.model, str) else type(self.plan.model).__name__
        score = short_repr(self.regressor.calibration_.nonconformity)
        return f"{model}; score: {score}; groups: {short_repr(self.regressor.taxonomy)}"

    def columns_of_intervals(self) -> dict[str, Any]:
        """Return the test rows as columns: row, prediction, bounds, group, whether covered, target."""
        columns = {
            "row": self.test.positions,
            "prediction": self.prediction.center,
            **self.intervals.columns(),
            "group": [str(label) for label in self.groups.label_of_rows()],
            "covered": self.intervals.covers(self.test.y),
        }
        return join_columns({self.target: self.test.y}, columns)


def _cells(row: GroupAudit) -> tuple[str, ...]:
    """Return the cells of a row of the printed table."""
    return *coverage_cells(row), p_value_text(row.adjusted), number_text(row.width)


def join_columns(table_columns: Mapping[str, Any], result_columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; a column of the table with the name of a result column gets the prefix ``table_``."""
    columns = dict(result_columns)
    for name, values in table_columns.items():
        while name in columns:
            name = f"table_{name}"
        columns[name] = values
    return columns


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
    """Split a table into three parts: fit the model on the first, calibrate on the second, audit on the third.

    `recommend` selects the score and the groups on the training part alone, so the guarantee of the calibration rows
    holds. The verdict uses test rows that neither the model nor the calibration used.

    Parameters
    ----------
    table : DataFrame of n rows
        A pandas, polars or pyarrow table with the target and the features. Features are numbers or text, and may have
        missing values (see `TableEncoder`).
    target : str
        The column to predict.
    plan : Plan, optional
        Model, score, groups, level, split, seed.
    drop : sequence of str
        Columns that are not features, such as row names. They may still define groups.
    categorical : sequence of str
        Columns to treat as categories, such as numeric codes.
    clusters : str, optional
        A column that says which rows belong together, such as a patient; it is not a feature. All rows of a cluster are
        in the same part. Calibration and test parts use one random row of each cluster: rows of one cluster depend on
        each other, and the guarantee and the tests are exact for rows that do not (Dunn, Wasserman and Ramdas, 2022).
        The guarantee then holds for a row of a new cluster.
    name : str
        The name of the table in the results.
    progress : callable, optional
        Called with the name of each step when it begins.

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
    training, calibration, test = split_rows(table, features, target_column(table, target), clusters, plan)
    model = Pipeline([("table", encoder), ("model", clone(plan.estimator()))])
    regressor = _fitted_regressor(model, training, len(calibration), plan, progress)
    progress("calibrating")
    regressor.calibrate(calibration.X, calibration.y)
    progress("diagnosing the calibration rows")
    taxonomy = _audit_taxonomy(regressor)
    settings: dict[str, Any] = {"level": plan.level, "tolerance": plan.tolerance, "seed": plan.seed}
    diagnosis = diagnose(regressor, taxonomy=taxonomy, **settings)
    progress("auditing the test rows")
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


def _audit_taxonomy(regressor: ConformalRegressor) -> Taxonomy:
    """Return the groups of the audit, learned from the calibration rows: the model's, or three if it has only one."""
    if len(regressor.calibration_.labels) > 1:
        return regressor.taxonomy_
    taxonomy = ByPrediction(3) if regressor.calibration_rows_.prediction.spread is None else BySpread(3)
    taxonomy.learn(regressor.calibration_rows_)
    return taxonomy


def _fitted_regressor(
    model: Pipeline, training: Part, calibration_rows: int, plan: Plan, progress: Progress
) -> ConformalRegressor:
    """Return the fitted model with the plan's score and groups, or with those selected on the training part."""
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
        progress=lambda done, fits: progress(f"selecting score and groups: {done} of {fits} fits"),
    )
