"""Study a table: split, fit, select score and groups, calibrate, diagnose, audit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from evencover._internal.arrays import IntArray
from evencover._internal.html import Markup, joined, tag
from evencover.conformal import ConformalRegressor
from evencover.diagnostics._advice import advice
from evencover.diagnostics._answers import answers, group_meaning
from evencover.diagnostics._audit_advice import Advice, StudyContext, advice_on_audit
from evencover.diagnostics._formatting import group_table, short_repr
from evencover.diagnostics._spelling import PYTHON, Spelling
from evencover.diagnostics._verdict import Verdict
from evencover.diagnostics.audit_result import AUDIT_COLUMNS, Audit, audit_cells
from evencover.diagnostics.audits import audit
from evencover.diagnostics.diagnosis import diagnose
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.quality import Quality, quality
from evencover.diagnostics.recommendations import Recommendation, recommend
from evencover.groups import Groups
from evencover.intervals import Intervals
from evencover.model_selection import Part
from evencover.models.encoding import EncodedColumn, TableEncoder
from evencover.predictions import Prediction, Rows
from evencover.quantiles import level_fraction, thresholds
from evencover.scores import interval_by
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
    spelling : Spelling
        How the advice names settings: as Python arguments, or as options of the command line.
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
    spelling: Spelling = PYTHON

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
    def headline(self) -> str:
        """The result in two sentences."""
        return self.audit.headline

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
            sum(self.sizes.values()),
            self.plan.calibration_size,
            self.plan.test_size,
            one_threshold_uneven=diagnosis.verdict == "uneven",
            model=self.model_name,
            explains_nothing=audited.quality.explains_nothing and not audited.quality.may_be_chance,
            tied=_tied(self.regressor, audited.level)[0],
            per_group=len(self.regressor.calibration_.labels) > 1,
        )
        return advice_on_audit(audited, spelling, context)

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
        table = group_table([*self.audit.table, self.audit.overall], audit_cells, AUDIT_COLUMNS)
        lines = [
            f"Data: {self.name}, target {self.target}; {sizes} rows{self._cluster_text}.",
            f"Model: {self.method}.",
            "",
            *(f"{question}: {answer}" for question, answer in answers(self.audit).items()),
            "",
            f"Verdict: {self.verdict}. Coverage of the test rows at level {self.plan.level:g}; estimates and intervals "
            f"use {self.audit.evidence}:",
            table,
            *filter(None, [self.group_meaning]),
            f"With one threshold for all rows, from the calibration rows: {self.diagnosis.verdict}. "
            f"{self.diagnosis.headline} {self.diagnosis.advice}",
        ]
        return "\n".join(lines)

    @property
    def group_meaning(self) -> str:
        """What the groups are, in a sentence; empty if their names say it."""
        return group_meaning(self.diagnosis.inputs.taxonomy, self.groups.labels)

    @property
    def _cluster_text(self) -> str:
        return "" if self.clusters is None else f" (calibration and test: one row of each {self.clusters})"

    def _repr_html_(self) -> str:
        model = tag("p", f"{self!r}. Model: {self.method}. {self.quality.summary}")
        return joined([model, Markup(self.audit._repr_html_())])

    @property
    def model_name(self) -> str:
        """The name of the model in the plan, or its class."""
        return self.plan.model if isinstance(self.plan.model, str) else type(self.plan.model).__name__

    @property
    def method(self) -> str:
        """The model, the score and the groups as text."""
        score = short_repr(self.regressor.calibration_.nonconformity)
        return f"{self.model_name}; score: {score}; groups: {short_repr(self.regressor.taxonomy)}"

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
    regressor = _fitted_regressor(model, training, (len(calibration), len(test)), plan, progress)
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
    result = Study(
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
        audit=audit_of_study(regressor, rows, intervals, groups, diagnosis, X=rows.X, **settings),
    )
    return result.spelled(PYTHON)


def audit_of_study(
    regressor: ConformalRegressor,
    rows: Rows,
    intervals: Intervals,
    groups: Groups,
    diagnosis: Diagnosis,
    **settings: Any,
) -> Audit:
    """Return the audit of the test rows; if one threshold serves all rows, the calibration rows are evidence, too."""
    audited = audit(
        rows.y,
        intervals,
        groups=groups,
        diagnosis=diagnosis if len(regressor.calibration_.labels) == 1 else None,
        tied_scores=_tied(regressor, diagnosis.level)[1] > 1,
        **settings,
    )
    return replace(audited, quality=study_quality(regressor, rows, intervals, diagnosis))


def _tied(regressor: ConformalRegressor, level: float) -> tuple[float, int]:
    """Return the largest share, and number, of a group's calibration rows whose scores equal its threshold."""
    scores = regressor.calibration_.groups.split(regressor.calibration_.scores).values()
    tied = [own == thresholds(own, (level_fraction(level),))[0] for own in scores]
    return max(float(np.mean(each)) for each in tied), max(int(np.count_nonzero(each)) for each in tied)


def study_quality(regressor: ConformalRegressor, rows: Rows, intervals: Intervals, diagnosis: Diagnosis) -> Quality:
    """Return the quality on test rows; one threshold for all rows is that of the diagnosis."""
    one_threshold, score = intervals, diagnosis.inputs.nonconformity
    if len(regressor.calibration_.labels) > 1 and score is not None:
        one_threshold = interval_by(score, diagnosis.threshold, rows.prediction)
    return quality(
        rows.y,
        intervals,
        prediction=rows.prediction,
        reference_y=regressor.calibration_rows_.y,
        one_threshold=one_threshold,
        level=diagnosis.level,
    )


def _audit_taxonomy(regressor: ConformalRegressor) -> Taxonomy:
    """Return the groups of the audit, learned from the calibration rows: the model's, or three if it has only one."""
    if len(regressor.calibration_.labels) > 1:
        return regressor.taxonomy_
    taxonomy = ByPrediction(3) if regressor.calibration_rows_.prediction.spread is None else BySpread(3)
    taxonomy.learn(regressor.calibration_rows_)
    return taxonomy


def _fitted_regressor(
    model: Pipeline, training: Part, other_rows: tuple[int, int], plan: Plan, progress: Progress
) -> ConformalRegressor:
    """Return the fitted model with the plan's score and groups, or with those selected on the training part.

    `other_rows` are the numbers of rows for calibration and for testing.
    """
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
        calibration_rows=other_rows[0],
        test_rows=other_rows[1],
        seed=plan.seed,
        progress=lambda done, fits: progress(f"selecting score and groups: {done} of {fits} fits"),
    )
